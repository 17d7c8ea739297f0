"""From a dump file to its pairs, row by row, without a run around it."""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.dumps.dump_file import DumpFile
from goldwatch.dumps.dump_tree import DumpTree
from goldwatch.dumps.golden_set import GoldenSet
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.model.read_model import load_model
from goldwatch.model.row_plan import dumped_op
from goldwatch.run.file_planner import Planner
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

STAMP = 1767323045000000
VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture
def net(tmp_path):
    """data -> a -> b, with golden data of data, a and b: their folder, and the dumps by op."""
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(VALUES, "ND", "ND", "data"),)))
    for name, source in (("a", "data"), ("b", "a")):
        output = DeviceTensor(VALUES.astype(np.float16), "ND", "ND", name)
        model.add(DeviceOp(name, "Relu", ((source, 0),), (output,), (name,)))
    model.add(DeviceOp("out", "NetOutput", (("b", 0),), (), ()))
    model.write_json(str(tmp_path / "net.json"))
    model.write_tree(str(tmp_path / "dump"))
    (tmp_path / "golden").mkdir()
    for name in ("data", "a", "b"):
        np.save(str(tmp_path / "golden" / ("%s.0.%d.npy" % (name, STAMP))), VALUES)
    return tmp_path


def planner_of(net, model=True, **options):
    (step_folder,) = DumpTree(str(net / "dump")).step_folders
    graph = load_model(str(net / "net.json")) if model else None
    entries = {entry.name.op_name: entry for entry in step_folder.files}
    return Planner(step_folder.place, GoldenSet(str(net / "golden")), graph, **options), entries


def tensors(rows):
    return [row.tensor for row in rows]


def test_inputs_and_outputs_of_a_dump_become_pairs(net):
    planner, entries = planner_of(net)
    plan = planner.plan(entries["b"])
    assert tensors(task.row for task in plan.tasks) == ["b:input:0", "b:output:0"]
    # An input is compared with the golden output of its producer.
    assert [os.path.basename(task.golden.path).split(".")[0] for task in plan.tasks] == ["a", "b"]
    assert (plan.rows, plan.waiting, plan.state, plan.n_inputs, plan.n_outputs) == (
        [],
        [],
        "complete",
        1,
        1,
    )
    (first, second) = (task.row for task in plan.tasks)
    assert (
        first.target_dtype == "float16" and first.shape == (2, 3, 4) and first.index == second.index
    )


def test_without_a_model_only_outputs_become_pairs(net):
    planner, entries = planner_of(net, model=False)
    plan = planner.plan(entries["b"])
    assert tensors(task.row for task in plan.tasks) == ["b:output:0"]
    reasons = [row.reason for row in (*plan.rows, *plan.waiting)] + [
        reason for _, reason in plan.omitted
    ]
    assert any("where an input comes from is not known" in reason for reason in reasons)


def test_a_tensor_without_golden_data_waits_until_they_come(net):
    path = net / "golden" / ("b.0.%d.npy" % STAMP)
    aside = net / "aside.npy"
    path.rename(aside)
    planner, entries = planner_of(net)
    before = planner.plan(entries["b"])
    dumped = dumped_op(entries["b"], DumpFile(entries["b"].path))
    choice = planner.choice(dumped)
    assert tensors(before.waiting) == ["b:output:0"] and before.waiting[0].cause == "golden_missing"
    assert tensors(task.row for task in before.tasks) == ["b:input:0"]
    aside.rename(path)
    assert planner.golden.add(str(path))
    planner.refresh(planner.golden)
    after = planner.plan(entries["b"])
    assert after.waiting == [] and len(after.tasks) == 2
    assert planner.choice(dumped) != choice


DAMAGE = {
    "short": "short",
    "empty": "short",
    "rubbish": "headerless",
    "gone": "unreadable",
    "long": "long",
}


@pytest.mark.parametrize("damage, state", sorted(DAMAGE.items()))
def test_a_damaged_file_gives_rows_that_say_so(net, damage, state):
    planner, entries = planner_of(net)
    path = entries["b"].path
    with open(path, "rb") as stream:
        data = stream.read()
    os.unlink(path)
    if damage != "gone":
        with open(path, "wb") as stream:
            stream.write(
                {"short": data[:-1], "empty": b"", "rubbish": b"\xff" * 200, "long": data + b"x"}[
                    damage
                ]
            )
    plan = planner.plan(entries["b"])
    assert plan.state == state and plan.tasks == []
    rows = plan.rows + plan.waiting
    assert rows and all(row.verdict == "not_compared" and row.reason for row in rows)
    if damage in ("short", "long"):
        assert plan.expected_bytes == len(data) and all(row.cause == "corrupt" for row in rows)
        assert all(str(len(data)) in row.reason for row in rows)


def test_an_op_that_the_model_does_not_know_is_ordered_last(net):
    stranger = os.path.join(
        os.path.dirname(planner_of(net)[1]["b"].path), "Relu.stranger.9.1.%d" % STAMP
    )
    write_dump(stranger, [], [VALUES])
    planner, entries = planner_of(net)
    assert planner.knows("b") and not planner.knows("stranger")
    planner.number_unknown_ops(["stranger"])
    found = planner.plan(entries["stranger"])
    (row,) = (*found.rows, *found.waiting, *(task.row for task in found.tasks))
    assert row.index >= planner.first_free_index() and row.verdict != "pass"


def test_only_selected_ops_have_rows(net):
    planner, entries = planner_of(net)
    sequence = planner.plan(entries["b"]).tasks[0].row.op_sequence
    planner, entries = planner_of(net, selection=frozenset([sequence]))
    assert len(planner.plan(entries["b"]).tasks) == 2
    nothing = planner.plan(entries["a"])
    assert (nothing.tasks, nothing.rows, nothing.waiting) == ([], [], [])


def test_two_dumps_pair_by_name_and_as_stored(net):
    planner, entries = planner_of(net)
    both = Planner(planner.place, GoldenSet(str(net / "dump")), planner.graph)
    assert both.two_dumps and not planner.two_dumps
    tasks = both.plan(entries["b"]).tasks
    assert tensors(task.row for task in tasks) == ["b:input:0", "b:output:0"]
    assert all(task.as_stored and task.golden.path == entries["b"].path for task in tasks)


def test_a_plan_that_was_made_at_one_place_is_that_of_another_place(net):
    """What is the same at all places is planned once; what a file tells is that file's."""
    planner, entries = planner_of(net, plans={})
    shared = planner._plans
    assert planner.plan(entries["b"]).tasks and len(shared) == 1
    other = planner.place._replace(step="7", device="3")
    again, fresh = (
        Planner(other, planner.golden, planner.graph, plans=plans) for plans in (shared, None)
    )
    half = VALUES.astype(np.float16)
    for addresses, count in (((64, 4096), 2), ((4096, 4096), 1), ((0, 64), 2)):
        inputs, outputs = (
            [TensorData(array, address=address)]
            for array, address in zip((half + 1, half + 2), addresses)
        )
        write_dump(entries["b"].path, inputs, outputs)
        mine, theirs = again.plan(entries["b"]), fresh.plan(entries["b"])
        assert len(mine.tasks) == count
        assert [task.row for task in mine.tasks] == [task.row for task in theirs.tasks]
        assert (mine.rows, mine.waiting, mine.omitted) == (
            theirs.rows,
            theirs.waiting,
            theirs.omitted,
        )
        assert (mine.state, mine.expected_bytes, mine.n_inputs, mine.n_outputs) == (
            theirs.state,
            theirs.expected_bytes,
            theirs.n_inputs,
            theirs.n_outputs,
        )
        for one, two in zip(mine.tasks, theirs.tasks):
            assert one.row.place == other and one.row.address == two.row.address
            assert one.golden == two.golden and len(one.beside) == len(two.beside)
            assert (one.target.array() == two.target.array()).all()
            assert one.target.array().ravel()[0] in (1, 2)
