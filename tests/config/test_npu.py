"""Plans applied to npu_bridge: on stand-ins everywhere, on the real tf.ConfigProto under TensorFlow
1.15.
"""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from goldwatch.adapters.tensorflow.npu import (
    apply_to_session_config,
    to_dump_config,
)
from goldwatch.base.errors import EnvironmentProblem, UsageError
from goldwatch.config.dump_plan import DumpPlan, ModelDump

PLAN = DumpPlan(
    dump_path="/data/\u00e4",
    models=(ModelDump("m", ("a", "b")),),
    mode="all",
    step="0|5-9",
    data="stats",
)


def install(monkeypatch, dump_config):
    for name in ("npu_bridge", "npu_bridge.estimator", "npu_bridge.estimator.npu"):
        package = types.ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
    module = types.ModuleType("npu_bridge.estimator.npu.npu_config")
    module.DumpConfig = dump_config
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_to_dump_config_passes_the_plans_fields(monkeypatch):
    install(monkeypatch, lambda **settings: settings)
    assert to_dump_config(PLAN) == {
        "enable_dump": True, "dump_path": "/data/\u00e4", "dump_step": "0|5-9", "dump_mode": "all",
        "dump_data": "stats",
        "dump_layer": "a b",
    }  # fmt: skip
    assert to_dump_config(DumpPlan(dump_path="/d", debug=True)) == {
        "dump_path": "/d",
        "enable_dump_debug": True,
        "dump_debug_mode": "all",
    }


def test_to_dump_config_refuses_fields_that_an_old_npu_bridge_lacks(monkeypatch):
    def old(
        enable_dump=False,
        dump_path=None,
        dump_step=None,
        dump_mode="output",
        enable_dump_debug=False,
        dump_debug_mode="all",
    ):
        return (enable_dump, dump_path)

    install(monkeypatch, old)
    assert to_dump_config(DumpPlan(dump_path="/d", models=(ModelDump(),))) == (True, "/d")
    with pytest.raises(EnvironmentProblem, match="dump_data"):
        to_dump_config(DumpPlan(dump_path="/d", models=(ModelDump(),), data="stats"))


def test_a_missing_npu_bridge_is_reported_with_a_hint():
    with pytest.raises(EnvironmentProblem, match="npu_bridge") as caught:
        to_dump_config(PLAN)
    assert "set_env.sh" in caught.value.hint


def test_plans_that_only_acl_json_can_hold_are_refused():
    with pytest.raises(UsageError, match="level: npu_bridge"):
        to_dump_config(DumpPlan(dump_path="/d", models=(ModelDump(),), level="op"))
    with pytest.raises(UsageError):
        apply_to_session_config(DumpPlan(dump_path="/d"), object())


def test_importing_the_npu_adapter_loads_no_heavy_modules():
    code = (
        "import sys, goldwatch.adapters.tensorflow.npu\n"
        "heavy = {'click', 'jsonschema', 'watchdog', 'google.protobuf', 'tensorflow', "
        "'goldwatch.schemas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.tensorflow
def test_a_plan_is_applied_to_the_real_config_proto():
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    optimizer = config.graph_options.rewrite_options.custom_optimizers.add()
    optimizer.name = "NpuOptimizer"
    optimizer.parameter_map["precision_mode"].s = b"allow_mix_precision"
    assert apply_to_session_config(PLAN, config) is config
    rewrite = config.graph_options.rewrite_options
    assert len(rewrite.custom_optimizers) == 1
    parameters = rewrite.custom_optimizers[0].parameter_map
    assert parameters["precision_mode"].s == b"allow_mix_precision"
    assert parameters["use_off_line"].b is True
    assert parameters["enable_dump"].b is True
    assert parameters["dump_path"].s == "/data/\u00e4".encode()
    texts = [parameters[name].s for name in ("dump_step", "dump_mode", "dump_data", "dump_layer")]
    assert texts == [b"0|5-9", b"all", b"stats", b"a b"]
    assert rewrite.remapping == rewrite.OFF == 2
    assert rewrite.memory_optimization == 2
    apply_to_session_config(
        DumpPlan(dump_path="/d", debug=True, debug_mode="aicore_overflow"), config
    )
    assert sorted(name for name in parameters if "dump" in name) == [
        "dump_debug_mode",
        "dump_path",
        "enable_dump_debug",
    ]
    with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto()) as session:
        assert session.run(tf.constant(1)) == 1


@pytest.mark.tensorflow
def test_generated_session_code_builds_the_same_config():
    import tensorflow as tf
    from goldwatch.config.dump_plan_formats import write_plan

    namespace = {}
    exec(compile(write_plan(PLAN, "session"), "config.py", "exec"), namespace)
    expected = apply_to_session_config(PLAN, tf.compat.v1.ConfigProto())
    assert namespace["config"] == expected
    with pytest.raises(ImportError):
        namespace["npu_session"]()


@pytest.mark.tensorflow
def test_text_in_a_bytes_parameter_fails_as_the_checker_says():
    import tensorflow as tf

    optimizer = tf.compat.v1.ConfigProto().graph_options.rewrite_options.custom_optimizers.add()
    with pytest.raises(TypeError):
        optimizer.parameter_map["dump_path"].s = "/text"
    with pytest.raises(TypeError):
        optimizer.parameter_map["enable_dump"].b = "True"
    optimizer.parameter_map["enable_dump"].b = 1
