"""Configurations that a script builds and hands to nobody."""

from __future__ import annotations

import pytest

from goldwatch.config.check import Checker
from goldwatch.config.models import Models

SESSION = """
import tensorflow as tf
from npu_bridge.npu_init import *
config = tf.ConfigProto()
rewrite = config.graph_options.rewrite_options
custom_op = rewrite.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["enable_dump"].b = True
custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes("/tmp")
rewrite.remapping = RewriterConfig.OFF
"""
GRAPH = """
import torch, torchair
from torchair.configs.compiler_config import CompilerConfig
config = CompilerConfig()
config.dump_config.enable_dump = True
config.dump_config.dump_path = "/tmp"
"""


def unused(text):
    report = Checker(Models([]), elsewhere=True).check("script.py", text.encode())
    return [finding for finding in report.findings if finding.rule == "unused-config"]


@pytest.mark.parametrize(
    ("text", "taker"),
    [
        (SESSION + "with tf.Session() as sess: pass", "Session() in line 11 has no config"),
        (SESSION + "sess = tf.Session(graph=g)", "Session() in line 11 has no config"),
        (
            GRAPH + "backend = torchair.get_npu_backend()",
            "get_npu_backend() in line 7 has no compiler_config",
        ),
    ],
)
def test_a_configuration_that_nothing_takes_is_warned_of(text, taker):
    (finding,) = unused(text)
    assert finding.severity == "warning" and finding.line == 4
    assert finding.message == "config holds dump options and is given to nothing: " + taker
    assert finding.fix.endswith("config=config)")


@pytest.mark.parametrize(
    "text",
    [
        SESSION + "tf.Session(config=config)",
        SESSION + "tf.Session('', None, config)",
        SESSION + "tf.Session(**arguments)",
        SESSION + "def made():\n    return config\ntf.Session()",
        SESSION + "run(NPURunConfig(session_config=config))\ntf.Session()",
        SESSION + "taken = config\ntf.Session(config=taken)",
        SESSION.replace("custom_op.parameter_map", "other.parameter_map") + "tf.Session()",
        # Another module may take it.
        SESSION,
        GRAPH + "torchair.get_npu_backend(compiler_config=config)",
        GRAPH + "torchair.get_npu_backend(config)",
        GRAPH + "use(config)\ntorchair.get_npu_backend()",
        GRAPH,
    ],
)
def test_a_configuration_that_something_may_take_is_not(text):
    assert unused(text) == []
