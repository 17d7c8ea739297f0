"""Names of .npy files are repaired, and nothing is ever lost."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goldwatch.adapters.tensorflow.rename import KEEP, RENAME, REPORT, apply_renames, plan_renames
from goldwatch.base.errors import MissingPath, UsageError
from goldwatch.base.naming import parse_golden_name, sanitise_golden

T = 1700000000000000
PRINTABLE = st.characters(min_codepoint=32, max_codepoint=126, blacklist_characters="/")


def save(folder, name, value=1.0):
    with open(os.path.join(str(folder), name), "wb") as stream:
        np.save(stream, np.asarray(value))


def new_names(folder, **options):
    return {step.old: (step.action, step.new) for step in plan_renames(str(folder), **options)}


@pytest.mark.parametrize(
    "old, new",
    [
        ("bn.1_Const.0.%d.npy" % T, "bn_1_Const.0.%d.npy" % T),
        ("conv 1.2.%d.npy" % T, "conv_1.2.%d.npy" % T),
        ("_arg_input_0_0.0.%d.npy" % T, "input.0.%d.npy" % T),
        ("_arg_scope_sp_3_12.0.%d.npy" % T, "scope_sp.3.%d.npy" % T),
        ("_arg_a.b_0_0.0.%d.npy" % T, "a_b.0.%d.npy" % T),
        ("loop_step.0.%d.4.npy" % T, "loop_step.0.%d.npy" % (T + 4)),
        ("a:b.10.5.npy", "a_b.10.5.npy"),
        ("1.2.3.4.npy", "1_2.3.4.npy"),
    ],
)
def test_default_rules_repair_names(tmp_path, old, new):
    save(tmp_path, old)
    assert new_names(tmp_path) == {old: (RENAME, new)}
    assert os.listdir(str(tmp_path)) == [old]
    apply_renames(str(tmp_path), plan_renames(str(tmp_path)))
    assert os.listdir(str(tmp_path)) == [new]
    assert parse_golden_name(new) is not None
    assert new_names(tmp_path) == {new: (KEEP, None)}


def test_no_existing_file_is_overwritten(tmp_path):
    for value, name in enumerate(["a.b.0.1.npy", "a_b.0.1.npy", "c d.0.1.npy", "c.d.0.1.npy"]):
        save(tmp_path, name, value)
    steps = apply_renames(str(tmp_path), plan_renames(str(tmp_path)))
    assert [step.action for step in steps] == [REPORT, KEEP, REPORT, REPORT]
    assert "exists already" in steps[0].reason and "2 files" in steps[2].reason
    assert [
        float(np.load(os.path.join(str(tmp_path), name))) for name in ("a.b.0.1.npy", "a_b.0.1.npy")
    ] == [0.0, 1.0]


def test_a_name_that_appears_after_planning_is_not_overwritten(tmp_path):
    save(tmp_path, "a.b.0.1.npy", 1)
    plan = plan_renames(str(tmp_path))
    save(tmp_path, "a_b.0.1.npy", 2)
    assert apply_renames(str(tmp_path), plan)[0].action == REPORT
    assert float(np.load(str(tmp_path / "a_b.0.1.npy"))) == 2.0


def test_pickled_and_broken_files_are_reported(tmp_path):
    np.save(str(tmp_path / "v.1.0.1.npy"), np.array([b"x", "y"], dtype=object), allow_pickle=True)
    (tmp_path / "w.1.0.1.npy").write_bytes(b"hello")
    (tmp_path / "x.1.0.1.npy").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("left")
    found = new_names(tmp_path)
    assert set(found.values()) == {(REPORT, None)} and len(found) == 3
    reasons = {step.old: step.reason for step in plan_renames(str(tmp_path))}
    assert "pickled" in reasons["v.1.0.1.npy"] and "not a .npy file" in reasons["w.1.0.1.npy"]


def test_hash_names_that_a_mapping_lists_stay(tmp_path):
    save(tmp_path, "123.npy")
    save(tmp_path, "124.npy")
    (tmp_path / "mapping.csv").write_text("123.npy,x.0.1.npy\n")
    assert new_names(tmp_path) == {"123.npy": (KEEP, None), "124.npy": (REPORT, None)}


def test_rules_given_by_the_user_replace_the_default_ones(tmp_path):
    save(tmp_path, "model_v2_conv.0.1.npy")
    save(tmp_path, "a.b.0.1.npy")
    found = new_names(tmp_path, rules=[("^model_v2_", ""), ("conv", "c")])
    assert found == {"model_v2_conv.0.1.npy": (RENAME, "c.0.1.npy"), "a.b.0.1.npy": (REPORT, None)}
    assert new_names(tmp_path, rules=[(r"\.", "_")])["a.b.0.1.npy"] == (RENAME, "a_b.0.1.npy")
    for pattern, text in (("(", "x"), ("conv", r"\3")):
        with pytest.raises(UsageError):
            plan_renames(str(tmp_path), [(pattern, text)])
    assert new_names(tmp_path, rules=[("model", "../x")])["model_v2_conv.0.1.npy"] == (REPORT, None)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(MissingPath):
        plan_renames(str(tmp_path / "none"))


def test_the_command_renames_with_apply_only(tf, tmp_path):
    (tmp_path / "g").mkdir()
    save(tmp_path / "g", "a.b.0.1.npy")
    shown = tf("rename", "g")
    assert (
        shown.code == 0
        and "a.b.0.1.npy -> a_b.0.1.npy  (dots become _)" in shown.out
        and "--apply" in shown.err
    )
    assert os.listdir(str(tmp_path / "g")) == ["a.b.0.1.npy"]
    applied = tf("rename", "g", "--apply", "--format", "json")
    assert applied.json()["files"] == [
        {"file": "a.b.0.1.npy", "action": "rename", "new": "a_b.0.1.npy", "reason": "dots become _"}
    ]
    assert os.listdir(str(tmp_path / "g")) == ["a_b.0.1.npy"]
    save(tmp_path / "g", "a b.0.1.npy")
    assert tf("rename", "g", "--apply").code == 3


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(names=st.sets(st.text(PRINTABLE, min_size=1, max_size=12), max_size=6))
def test_files_and_contents_survive_whatever_the_names(tmp_path_factory, names):
    folder = str(tmp_path_factory.mktemp("r"))
    written = {}
    for value, name in enumerate(sorted(names)):
        full = "%s.0.%d.npy" % (name, T)
        save(folder, full, value)
        written[full] = value
    steps = apply_renames(folder, plan_renames(folder))
    assert len(os.listdir(folder)) == len(written)
    for step in steps:
        name = step.new if step.action == RENAME else step.old
        assert float(np.load(os.path.join(folder, name))) == written[step.old]
        if step.action == RENAME:
            assert (
                sanitise_golden(parse_golden_name(name).op_name) == parse_golden_name(name).op_name
            )


def test_names_without_slot_or_timestamp_are_completed_and_others_left_alone(tmp_path):
    for name in (
        "relu:0.npy",
        "a/b.1.npy".replace("/", "."),
        "prob.%d.npy" % T,
        "conv:1.%d.npy" % T,
        "plain.npy",
    ):
        save(tmp_path, name)
    save(tmp_path, "1234567890123456789.npy")
    save(tmp_path, "Relu.relu.3.3.%d.output.0.npy" % T)
    made = {step.old: step for step in plan_renames(str(tmp_path))}
    assert (
        made["prob.%d.npy" % T].new == "prob.0.%d.npy" % T
        and "0 is taken" in made["prob.%d.npy" % T].reason
    )
    assert made["conv:1.%d.npy" % T].new == "conv.1.%d.npy" % T
    for old, op, index in (("relu:0.npy", "relu", 0), ("a.b.1.npy", "a_b", 1)):
        found = parse_golden_name(made[old].new)
        assert (found.op_name, found.output_index) == (op, index) and "no time in its name" in made[
            old
        ].reason
    # Neither index nor time: both are said to be made up. A hash name without its mapping.csv is no
    # op's name.
    assert (
        parse_golden_name(made["plain.npy"].new).op_name == "plain"
        and made["plain.npy"].reason.count("in its name") == 2
    )
    assert {
        made[name].action
        for name in ("1234567890123456789.npy", "Relu.relu.3.3.%d.output.0.npy" % T)
    } == {"report"}


def test_a_pipe_is_not_taken_for_golden_data(tmp_path):
    save(tmp_path, "a.b.0.%d.npy" % T)
    os.mkfifo(str(tmp_path / ("c.d.0.%d.npy" % T)))
    assert list(new_names(tmp_path)) == ["a.b.0.%d.npy" % T]
