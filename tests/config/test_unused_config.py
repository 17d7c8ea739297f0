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


FRESH = """
def main():
    run = tf.estimator.RunConfig(session_config=tf.ConfigProto())
    tf.estimator.Estimator(model_fn, config=run)
if __name__ == "__main__":
    main()
"""
WRAPPED = """
def train(config=None):
    with tf.Session(config=config) as session:
        session.run(step)
train()
"""


ESTIMATOR = """
from npu_bridge.npu_init import *
dump = DumpConfig(enable_dump=True, dump_path="/tmp", dump_mode="all")
run = NPURunConfig(dump_config=dump)
"""


def indented(text):
    return "\ndef train(flags):" + text.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SESSION + FRESH, ": RunConfig() in line 13 gets another session_config"),
        (
            SESSION + "run = NPURunConfig(session_config=tf.ConfigProto())",
            ": NPURunConfig() in line 11 gets another session_config",
        ),
        (SESSION + WRAPPED, ": Session() in line 13 gets another config"),
        (
            SESSION + "config = tf.ConfigProto()\ntf.Session(config=config)",
            ": line 11 binds the name to another object",
        ),
        (
            GRAPH + "config = CompilerConfig()\ntorchair.get_npu_backend(compiler_config=config)",
            ": line 7 binds the name to another object",
        ),
        (
            "first = tf.ConfigProto()"
            + SESSION.replace("tf.ConfigProto()", "copy.deepcopy(first)")
            + "tf.Session(config=first)",
            ": Session() in line 11 gets another config",
        ),
        (indented(SESSION) + "    return tf.ConfigProto()", ""),
        (
            ESTIMATOR + "NPUEstimator(model_fn, config=NPURunConfig())",
            ": NPUEstimator() in line 5 gets another config",
        ),
        (
            ESTIMATOR + "run = NPURunConfig()\nNPUEstimator(model_fn, config=run)",
            ": line 5 binds the name to another object",
        ),
        (indented(GRAPH) + "    return get_npu_backend()", ": get_npu_backend() in line 9 has no"),
    ],
)
def test_where_another_object_is_given_the_one_with_the_options_is_told(text, told):
    (finding,) = unused(text)
    assert " holds dump options and is given to nothing" + told in finding.message


@pytest.mark.parametrize(
    "text",
    [
        SESSION + "tf.Session(config=config)",
        SESSION + "tf.Session('', None, config)",
        SESSION + "tf.Session(**arguments)",
        SESSION + "def made():\n    return config\ntf.Session()",
        SESSION + "run(NPURunConfig(session_config=config))\ntf.Session()",
        SESSION + "taken = config\ntf.Session(config=taken)",
        SESSION + "tf.Session(config=tf.ConfigProto(graph_options=config.graph_options))",
        SESSION + "tf.Session(config=tf.ConfigProto.FromString(config.SerializeToString()))",
        SESSION + "tf.Session(config=changed(rewrite))",
        # Imported, as far as the text says.
        SESSION + "def evaluate():\n    tf.Session(config=tf.ConfigProto())",
        SESSION + "def train(config=config):\n    tf.Session(config=config)\ntrain()",
        SESSION + "def train():\n    tf.Session(config=config)\ntrain()",
        SESSION + "tf.Session(**globals())",
        SESSION + "if first:\n    config = tf.ConfigProto()\ntf.Session(config=config)",
        SESSION + "config = changed(config)\ntf.Session(config=config)",
        "for _ in range(2):" + indented(SESSION)[19:] + "    tf.Session(config=config)",
        "while True:\n    use(config)" + indented(SESSION)[19:] + "    config = tf.ConfigProto()",
        "try:" + indented(SESSION)[19:] + "    config = None\nexcept E:\n    pass\nuse(config)",
        "global_steps = []" + indented(SESSION) + "    global_steps.append(config)",
        "config = None"
        + indented("\nglobal config" + SESSION)
        + "train()\ntf.Session(config=config)",
        "class Solver:" + indented(SESSION)[19:] + "    def run(self):\n        tf.Session()",
        # The one that is given dumps.
        SESSION
        + "config = tf.ConfigProto()\n"
        + SESSION[SESSION.index("rewrite =") :]
        + "tf.Session(config=config)",
        # Of a copy that may share what holds the options.
        "first = CompilerConfig()"
        + GRAPH.replace("CompilerConfig()", "copy.copy(first)")
        + "torchair.get_npu_backend(compiler_config=first)",
        SESSION.replace(".b = True", ".b = False") + "tf.Session()",
        ESTIMATOR + "NPUEstimator(model_fn, config=run)",
        ESTIMATOR + "train(run)",
        ESTIMATOR.replace("run = ", "NPUEstimator(config=")
        + ")\nrun = NPURunConfig(dump_config=dump)",
        ESTIMATOR.replace("=dump)", "=None)") + "NPUEstimator(config=NPURunConfig())",
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


def test_many_settings_and_bindings_of_a_name_take_no_longer_each():
    """A setting is one step more; which object a name that is bound often has is not told."""
    many = SESSION.replace(
        "custom_op.name",
        'custom_op.parameter_map["enable_dump"].b = True\n' * 2000 + "custom_op.name",
    )
    assert len(unused(many + "tf.Session()")) == 1
    assert unused(SESSION * 60 + "tf.Session()") == []
