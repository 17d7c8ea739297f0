"""The questions asked when a program ended well and dumped nothing."""

from __future__ import annotations

from goldwatch.config.dump_plan import DumpPlan, ModelDump
from goldwatch.device.launch.prepare_dump_configuration import ACL, NPU, Prepared, why_nothing


def asked(plan, words=("./infer",), kind=ACL, written=None):
    return why_nothing(
        Prepared("/dumps", [], written, kind, "/x/acl.json", plan), list(words), "out/program.log"
    )


def test_without_dumps_configuration_and_model_name_are_questioned():
    text = asked(
        DumpPlan("/dumps", (ModelDump("resnet"),), step="7"),
        ("./infer", "--config", "cfg/acl.json"),
    )
    assert (
        "does the program pass /x/acl.json to aclInit()? (an argument names cfg/acl.json)" in text
    )
    assert (
        "is the model called 'resnet'" in text
        and "does it reach step 7?" in text
        and "out/program.log" in text
    )
    text = asked(DumpPlan("/dumps", (ModelDump(),)), written="/y/acl.json")
    assert (
        "/y/acl.json to aclInit()? (no argument names it)" in text
        and "model called" not in text
        and "step" not in text
    )


def test_without_dumps_single_operators_and_overflow_are_questioned():
    assert "aclmdlSetDump()" in asked(DumpPlan("/dumps", op_switch=True))
    assert "did anything overflow?" in asked(DumpPlan("/dumps", debug=True))


def test_without_dumps_of_a_script_session_and_steps_are_questioned():
    text = asked(DumpPlan("/dumps", (ModelDump(),), step="0"), kind=NPU)
    assert (
        "do they reach its session?" in text
        and "does it reach step 0?" in text
        and "aclInit" not in text
    )
