"""Nothing is left uncounted: steps, loops, times, and runs in which nothing was compared."""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.dumps import write_dump
from goldwatch.engine import listed
from goldwatch.engine.options import ComparisonOptions
from goldwatch.results.store import RunStore
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

TREE = "20260102030405/0/net/1/"
VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1


def test_golden_data_of_each_step(case) -> None:
    for step in (0, 1, 2):
        case.dump("target", TREE + str(step), "Relu", "a", (), [VALUES + step])
        case.npy("a", VALUES + step, below=str(step))
    assert case.compare().exit_code == 0
    assert [row["golden_file"][:2] for row in case.rows()] == ["0/", "1/", "2/"]
    case.out += "-one"
    assert case.compare(golden_steps="one").exit_code == 1
    assert len({row["golden_file"] for row in case.rows()}) == 1


def test_a_step_without_golden_data_is_said(case) -> None:
    for step in (0, 7):
        case.dump("target", TREE + str(step), "Relu", "a", (), [VALUES])
    case.npy("a", below="0")
    case.npy("a", below="1")
    result = case.compare()
    assert result.exit_code == 3 and any("there is none for step 7" in text for text in result.left_out)


def test_golden_data_for_all_steps_beside_those_of_one(case) -> None:
    for step in (0, 1):
        for op in "ab":
            case.dump("target", TREE + str(step), "Relu", op, (), [VALUES + (step if op == "a" else 0)])
        case.npy("a", VALUES + step, below=str(step))
    case.npy("b")
    assert case.compare().exit_code == 0


def test_every_run_of_a_loop_is_compared_when_golden_data_have_as_many(case) -> None:
    paths = [case.dump("target", "", "Relu", "a", (), [VALUES + number]) for number in range(3)]
    for number in range(3):
        case.npy("a", VALUES + number, later=number)
    assert case.compare().exit_code == 0
    assert [row["target_file"] for row in case.rows()] == [os.path.basename(path) for path in paths]
    write_dump(paths[1], [], [VALUES + 50])
    assert case.compare().exit_code == 1
    assert [row["verdict"] for row in case.rows()] == ["pass", "fail", "pass"]
    case.npy("a", VALUES + 2, later=3)
    assert case.compare().exit_code == 0
    assert [row["target_file"] for row in case.rows()] == [os.path.basename(paths[2])]
    assert [entry["tensor"] for entry in case.document()["omitted"]] == ["a", "a"]


def test_an_empty_step_is_incomplete(case) -> None:
    case.dump("target", TREE + "0", "Relu", "a", (), [VALUES])
    os.makedirs(os.path.join(case.target, TREE + "1"))
    case.npy("a")
    assert case.compare(allow_missing=True).exit_code == 3
    assert [(row["step"], row["verdict"]) for row in case.rows()] == [("0", "pass"), ("1", "not_compared")]
    assert "holds no dump" in case.rows()[1]["reason"]
    case.out += "2"
    assert case.compare().sentence.startswith("Incomplete: 1 row could not be compared. ")


@pytest.mark.parametrize("allow_missing", [False, True])
def test_inputs_alone_are_incomplete(case, allow_missing) -> None:
    case.op("a", "Data")
    case.op("b", "Relu", "a:0")
    case.dump("target", "", "Relu", "b", [VALUES], ())
    case.npy("a")
    result = case.compare(allow_missing=allow_missing)
    assert result.exit_code == 3 and result.summary.verdict == "incomplete" and result.summary.passed == 1
    assert result.sentence.startswith("Incomplete: no output was compared. ")


def test_the_golden_data_of_another_network(case) -> None:
    case.dump("target", "", "Relu", "conv1", (), [VALUES])
    case.npy("conv1_other")
    result = case.compare()
    assert result.exit_code == 3 and result.summary.verdict == "incomplete"
    assert any("the nearest golden names are conv1_other" in text for text in result.left_out)
    result = case.compare(allow_missing=True)
    assert result.exit_code == 4 and result.summary.verdict == "incomplete"


def test_the_time_folder_that_counts(case) -> None:
    for time, offset in (("20260101000000", 5), ("20260102000000", 0)):
        case.dump("target", time + "/0/net/1/0", "Relu", "a", (), [VALUES + offset])
    case.npy("a")
    result = case.compare()
    assert result.exit_code == 0 and any("20260101000000" in text for text in result.left_out)
    for time, times in (("20260101000000", ["20260101000000"]), ("all", ["20260101000000", "20260102000000"])):
        case.out += "x"
        assert case.compare(time=time).exit_code == 1
        assert [row["time"] for row in case.rows()] == times


def test_a_file_overwritten_in_place_with_its_time_put_back_is_compared_again(case) -> None:
    path = case.dump("target", "", "Relu", "a", (), [VALUES])
    golden = case.npy("a")
    assert case.compare().exit_code == 0
    for changed in (path, golden):
        status = os.stat(changed)
        with open(changed, "r+b") as stream:
            stream.seek(-8, 2)
            before = stream.read()
            stream.seek(-8, 2)
            stream.write(bytes(reversed(before)))
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert case.compare().exit_code == 1
        with open(changed, "r+b") as stream:
            stream.seek(-8, 2)
            stream.write(before)
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert case.compare().exit_code == 0


def test_a_run_that_goes_on_from_another_folder_lists_its_files_once(case, monkeypatch) -> None:
    case.dump("target", "", "Relu", "a", (), [VALUES])
    case.npy("a")
    assert case.compare().exit_code == 0
    monkeypatch.chdir(case.folder)
    case.target, case.golden = "target", "golden"
    assert case.compare().exit_code == 0
    with RunStore.open(case.out) as store:
        assert len(store.files()) == 2 and not store.events("replaced")


def test_rows_come_while_later_files_are_still_planned(case, monkeypatch) -> None:
    for number in range(2 * listed._UNRIPE):
        case.dump("target", "", "Relu", "op%d" % number, (), [VALUES])
        case.npy("op%d" % number)
    planned, stored = [], []
    plan = listed._plan
    monkeypatch.setattr(listed, "_plan", lambda run, file: planned.append(file) or plan(run, file))
    result = case.compare(on_row=lambda row: stored.append(len(planned)))
    assert result.exit_code == 0 and len(stored) == 2 * listed._UNRIPE and stored[0] < len(planned)


def test_the_result_is_usable_after_the_run(case) -> None:
    case.dump("target", "", "Relu", "a", (), [VALUES + 9])
    case.npy("a")
    result = case.compare()
    assert [row.tensor for row in result.rows()] == ["a:output:0"] == [row.tensor for row in result.rows("fail")]
    assert not [name for name in os.listdir(case.out) if name.startswith("run.sqlite-")]
    assert result.first_divergence.op == "a" and "".join(result.document()).startswith("{")


def test_a_wrong_target_leaves_out_alone(case) -> None:
    os.makedirs(case.target)
    case.npy("a")
    with pytest.raises(Exception, match="no dump file was found"):
        case.compare()
    assert not os.path.exists(case.out)


def test_an_input_in_its_outputs_memory_is_not_held_against_a_healthy_op(tmp_path):
    """The dump of an op that works in place holds the output's bytes as its input, at the same address."""
    value = VALUES.astype(np.float16)
    model = DeviceModel("net")
    model.add(DeviceOp("a", "Abs", (), (DeviceTensor(value, "ND", "ND", "a"),), ("a",)))
    model.add(DeviceOp("r", "Neg", (("a", 0),), (DeviceTensor(-value, "ND", "ND", "r"),), ("r",), in_place=0))
    model.write_tree(str(tmp_path / "dump"), first_address=4096)
    (tmp_path / "golden").mkdir()
    for name, array in (("a", VALUES), ("r", -VALUES)):
        np.save(str(tmp_path / "golden" / ("%s.0.1.npy" % name)), array)
    folders = [str(tmp_path / name) for name in ("dump", "golden", "out")]
    options = ComparisonOptions(*folders, model=model.write_json(str(tmp_path / "net.json")))
    result = listed.compare_folders(options)
    assert result.exit_code == 0
    (row,) = [row for row in result.rows() if row.tensor == "r:input:0"]
    assert row.verdict == "expected_absent" and "an output lies in its memory" in row.reason
    np.save(str(tmp_path / "golden" / "r.0.1.npy"), VALUES)
    first = listed.compare_folders(options).first_divergence
    assert first.op == "r" and first.inputs == "good"
