"""A stand-in for npu_bridge that changes nothing: a script written for the NPU runs on the CPU, so
that golden data can be made with it.

What a script takes from npu_bridge falls into four kinds: classes that stand for TensorFlow's own
(``NPUEstimator``, ``NPURunConfig``), functions that return what they were given
(``npu_config_proto``, ``npu_tf_optimizer``, ``npu_hooks_append`` …), settings (``DumpConfig``), and
ops of the NPU's own, which have no CPU counterpart and are refused when they are called.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Dict, Optional

from ...errors import InputError

PACKAGES = ("npu_bridge", "npu_device")
# npu_bridge.npu_init's names, which scripts import with *.
NAMES = (
    "DumpConfig NPUBroadcastGlobalVariablesHook NPUDistributedOptimizer NPUEstimator "
    "NPUEstimatorSpec NPUOptimizer NPURunConfig "
    "ProfilingConfig RewriterConfig close_session init_resource npu_callbacks_append "
    "npu_config_proto npu_distributed_optimizer_wrapper "
    "npu_graph_options npu_hooks_append npu_keras_optimizer npu_ops npu_rewriter_config "
    "npu_run_config_init npu_session_options_init "
    "npu_tf_optimizer set_keras_session_npu_config shutdown_resource util"
).split()
_OPS = (
    "npu_ops",
    "npu_unary_ops",
    "npu_aicore_ops",
    "npu_rnn",
    "npu_cube_ops",
    "npu_vector_ops",
    "npu_image_ops",
    "npu_map_ops",
)
_RESOURCES = ("initialize_system", "shutdown_system")


def install() -> None:
    """Make ``import npu_bridge`` (and npu_device) find the stand-in."""
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(__all__=list(NAMES))


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _value(name, self.__name__.rpartition(".")[2])
        setattr(self, name, value)
        return value


def _value(name: str, module: str) -> Any:
    import tensorflow as tf

    if name == "NPUEstimator":
        return tf.compat.v1.estimator.Estimator
    if name == "NPUEstimatorSpec":
        return tf.compat.v1.estimator.EstimatorSpec
    if name == "NPURunConfig":
        return _run_config
    if name == "RewriterConfig":
        from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

        return RewriterConfig
    if name == "npu_config_proto":
        return (
            lambda config_proto=None, *_, **__: tf.compat.v1.ConfigProto()
            if config_proto is None
            else config_proto
        )
    if name in ("npu_hooks_append", "npu_callbacks_append"):
        return lambda *lists, **named: [
            entry for entries in lists + tuple(named.values()) for entry in entries or ()
        ]
    if name in _OPS:
        return _Module("npu_bridge." + name)
    if name in _RESOURCES:
        return lambda *_, **__: tf.no_op()
    if module in _OPS:
        return _refused(name)
    return _Passes(name)


def _run_config(**settings: Any) -> Any:
    """Return TensorFlow's RunConfig with those settings that it knows."""
    import tensorflow as tf

    known = (
        "model_dir tf_random_seed save_summary_steps save_checkpoints_steps "
        "save_checkpoints_secs session_config keep_checkpoint_max "
        "keep_checkpoint_every_n_hours log_step_count_steps"
    ).split()
    known_settings: Dict[str, Any] = {
        name: value for name, value in settings.items() if name in known
    }
    return tf.compat.v1.estimator.RunConfig(**known_settings)


def _refused(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise InputError(
            "the script uses the NPU's own op %s, which no CPU has" % name,
            hint="replace it by TensorFlow's ops first",
        )

    return refuse


class _Passes:
    """Anything else of npu_bridge: called, it returns its first argument; used as a setting or a
    context, it does nothing.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *values: Any, **settings: Any) -> Any:
        candidates = values + tuple(
            settings[name] for name in ("optimizer", "opt", "func") if name in settings
        )
        return candidates[0] if candidates else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Passes(name)

    def __enter__(self) -> _Passes:
        return self

    def __exit__(self, *_: Any) -> None:
        pass
