"""Applies a dump plan to npu_bridge directly: to a tf.ConfigProto for session.run, or as a
DumpConfig for Estimator.
"""

from __future__ import annotations

from typing import Any

from goldwatch.base.errors import EnvironmentProblem
from goldwatch.config.dump_plan import NPU_DEFAULTS, DumpPlan

OPTIMIZER = "NpuOptimizer"


def apply_to_session_config(plan: DumpPlan, config_proto: Any) -> Any:
    """Write the plan's dump settings into a ``tf.ConfigProto`` and return it.

    The custom optimizer ``NpuOptimizer`` is used when it is there, else added. Other options of it
    stay; dump settings of an earlier call are replaced. Remapping and memory optimization are
    switched off, because they rename and remove ops before the NPU sees them.

    Parameters
    ----------
    config_proto
        A ``tf.ConfigProto`` (``tf.compat.v1.ConfigProto``).

    Raises
    ------
    UsageError
        The plan holds what npu_bridge does not know.
    """
    settings = plan.npu_settings()
    rewrite = config_proto.graph_options.rewrite_options
    optimizer = next((item for item in rewrite.custom_optimizers if item.name == OPTIMIZER), None)
    if optimizer is None:
        optimizer = rewrite.custom_optimizers.add()
        optimizer.name = OPTIMIZER
    parameters = optimizer.parameter_map
    for name in NPU_DEFAULTS:
        if name in parameters:
            del parameters[name]
    parameters["use_off_line"].b = True
    for name, value in settings.items():
        if isinstance(value, bool):
            parameters[name].b = value
        else:
            parameters[name].s = value.encode("utf-8")
    rewrite.remapping = rewrite.OFF
    rewrite.memory_optimization = rewrite.OFF
    return config_proto


def to_dump_config(plan: DumpPlan) -> Any:
    """Return the plan as npu_bridge's ``DumpConfig``, for ``NPURunConfig(dump_config=…)``.

    Only settings that the plan makes are passed, so that releases without dump_data and dump_layer
    (2021) accept the rest.

    Raises
    ------
    UsageError
        The plan holds what npu_bridge does not know.
    EnvironmentProblem
        npu_bridge is not installed, or too old for a setting of the plan.
    """
    settings = plan.npu_settings()
    try:
        from npu_bridge.estimator.npu.npu_config import DumpConfig
    except ImportError as error:
        raise EnvironmentProblem(
            "npu_bridge cannot be imported: %s" % error,
            hint="it comes with CANN's TensorFlow plug-in (TensorFlow 1.15, Python 3.7); source "
            "its set_env.sh first",
        ) from error
    try:
        return DumpConfig(**settings)
    except TypeError as error:
        raise EnvironmentProblem(
            "this npu_bridge does not know a setting of the plan: %s" % error,
            hint="leave out data and layers, or use a newer CANN",
        ) from error
