"""``--expect-all`` does not wait for ops that do not run or were not requested."""

from __future__ import annotations

import json
import os

import pytest

from goldwatch.config.ops_of_dump_plan import read_requested_plan
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch
from goldwatch.run.watch_options import WatchOptions
from goldwatch.testing.device_dump import write_files


def change_model(net, change):
    with open(net.model_path, encoding="utf-8") as stream:
        tree = json.load(stream)
    change(tree)
    with open(net.model_path, "w", encoding="utf-8") as stream:
        json.dump(tree, stream)


def gears(tree):
    """op2 and op3 are copied for three gears, of which the second runs."""
    main = tree["graph"][0]["op"]
    copied = [op for op in main if op["name"] in ("op2", "op3")]
    tree["graph"][0]["op"] = [op for op in main if op not in copied]
    for number in range(3):
        text = json.dumps(copied)
        for name in ("op2", "op3"):
            text = text.replace(
                '"name": "%s"' % name, '"name": "%s_ascend_mbatch_batch_%d"' % (name, number)
            )
        text = text.replace('"op2:0"', '"op2_ascend_mbatch_batch_%d:0"' % number)
        tree["graph"].append({"name": "Batch_%d" % number, "op": json.loads(text)})


def of_second_gear(files):
    return {path.replace(".op2.", ".op2_ascend_mbatch_batch_1.").replace(".op3.",
    ".op3_ascend_mbatch_batch_1."): data
            for path, data in files.items()}  # fmt: skip


def branches(tree):
    """op3 is in the branch of an If that was not taken, its sibling dumps nothing."""
    graph = tree["graph"][0]
    last = next(op for op in graph["op"] if op["name"] == "op3")
    graph["op"].remove(last)
    graph["op"].append(
        {"name": "if", "type": "If", "input": ["op2:0"], "subgraph_name": ["then", "else"], "id": 9}
    )
    tree["graph"] += [
        {"name": "then", "op": [last]},
        {"name": "else", "op": [{"name": "e", "type": "Data"}]},
    ]


def collective(tree):
    next(op for op in tree["graph"][0]["op"] if op["name"] == "op3")["type"] = "HcomAllReduce"


def followed(net, turn, at_end, first, rest, plan=None):
    """Watch until all have come: not before ``rest`` has."""
    options = ComparisonOptions(net.target, net.golden, net.out, net.model_path, plan=plan)
    with Watch(options, WatchOptions(expect_all=True)) as watch:
        turns = watch.turns()
        net.put(first)
        turn(turns, lambda: watch.arrivals.file_count == len(first) and not watch.engine.busy)
        assert not at_end(watch)
        net.put(rest)
        for _ in turns:
            pass
        return watch.finish()


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr("goldwatch.run.watch._QUIET_S", 0.0)


@pytest.mark.parametrize("change", [gears, branches, collective])
def test_a_watch_does_not_wait_for_ops_that_do_not_run(net, turn, at_end, quiet, change) -> None:
    net.write_golden()
    files = net.files()
    change_model(net, change)
    if change is gears:
        files = of_second_gear(files)
    else:
        files = {path: data for path, data in files.items() if ".op3." not in path}
    names = sorted(files)
    result = followed(
        net, turn, at_end, {name: files[name] for name in names[:-1]}, {names[-1]: files[names[-1]]}
    )
    assert result.exit_code == 0 and result.summary.not_compared == 0
    assert net.rows() == net.compare_rows()


def test_a_watch_does_not_wait_for_ops_that_were_not_requested(net, turn, at_end, quiet) -> None:
    net.write_golden()
    acl = os.path.join(net.folder, "acl.json")
    with open(acl, "w", encoding="utf-8") as stream:
        dump = {
            "dump_path": "/nowhere",
            "dump_mode": "all",
            "dump_list": [{"model_name": "net", "layer": ["op1", "op3"]}],
        }
        json.dump({"dump": dump}, stream)
    files = net.files()
    one, other = (
        {path: data for path, data in files.items() if name in path} for name in (".op1.", ".op3.")
    )
    result = followed(net, turn, at_end, one, other, read_requested_plan(acl))
    assert result.exit_code == 0
    assert net.rows() == net.compare_rows(options=["--acl", acl])


def put_inputs(net, scratch):
    """Return the dumps of inputs only, as :meth:`Net.files` returns those of a step."""
    write_files(scratch, [dump.only("input") for dump in net.model.dumps()])
    files = {}
    for base, _, names in os.walk(scratch):
        for name in names:
            with open(os.path.join(base, name), "rb") as stream:
                path = os.path.join(net.target, os.path.relpath(os.path.join(base, name), scratch))
                files[path] = stream.read()
    return files


def test_inputs_only_arriving_in_any_order_give_the_rows_of_compare(
    make_net, turn, at_end, quiet
) -> None:
    """Outputs are seen at the end, whatever order the dumps came in."""
    net = make_net(bad=2)
    net.write_golden()
    files = put_inputs(net, os.path.join(net.folder, "other"))
    names = sorted(files, reverse=True)
    result = followed(
        net,
        turn,
        at_end,
        {name: files[name] for name in names[:2]},
        {name: files[name] for name in names[2:]},
    )
    assert result.exit_code == 1
    assert (result.first_divergence.op, result.first_divergence.tensor) == ("op2", "op2:output:0")
    assert (
        net.verdicts()["op1:output:0"] == "pass"
        and net.verdicts()["op3:output:0"] == "expected_absent"
    )
    assert net.rows() == net.compare_rows()


def test_inputs_only_are_deleted_once_all_outputs_were_compared(net, watch_here) -> None:
    net.write_golden()
    net.put(put_inputs(net, os.path.join(net.folder, "other")))
    expected = net.compare_rows()
    assert watch_here(net, "--keep", "none").returncode == 0
    assert net.rows() == expected and net.count("verdict = 'pass'") == 7
    assert not [name for _, _, names in os.walk(net.target) for name in names]


def test_golden_data_arriving_after_inputs_only_is_compared(net, turn, at_end, quiet) -> None:
    files = put_inputs(net, os.path.join(net.folder, "other"))
    names = sorted(files)
    options = ComparisonOptions(net.target, net.golden, net.out, net.model_path)
    with Watch(options, WatchOptions(expect_all=True)) as watch:
        turns = watch.turns()
        net.put({name: files[name] for name in names[:-1]})
        turn(turns, lambda: watch.arrivals.file_count == len(names) - 1)
        net.write_golden()
        net.put({names[-1]: files[names[-1]]})
        for _ in turns:
            pass
        assert watch.finish().exit_code == 0
    assert net.rows() == net.compare_rows()
