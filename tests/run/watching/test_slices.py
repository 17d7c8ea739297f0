"""Thread files of FFTS+ that arrive one by one are joined when complete and deleted together."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def sliced(net):
    """Path to content of each thread file, the threads mixed."""
    paths = net.model.write_tree(os.path.join(net.folder, "scratch"), generation="ffts+", threads=3)
    found = {}
    for path in paths:
        with open(path, "rb") as stream:
            found[
                os.path.join(net.target, os.path.relpath(path, os.path.join(net.folder, "scratch")))
            ] = stream.read()
    return found


def test_a_row_is_compared_when_all_its_slices_arrived(net, watch, sliced) -> None:
    net.write_golden()
    last = next(path for path in sliced if "op1." in path)
    watcher = watch(net, "--until-idle", "4")
    net.put({path: data for path, data in reversed(list(sliced.items())) if path != last}, chunk=61)
    net.until(lambda: net.count("kind = 'output' AND verdict = 'pass'") == 3)
    assert net.count("op = 'op1'") == 0
    net.put({last: sliced[last]}, chunk=50)
    assert watcher.wait() == 0, watcher.stderr
    assert (
        net.verdicts()["op1:output:0"] == "pass"
        and "joined from 3 slices" in net.reasons()["op1:output:0"]
    )
    assert net.rows() == net.compare_rows()


def test_a_slice_that_never_arrives_is_reported(net, watch_here, sliced) -> None:
    net.write_golden()
    gone = [path for path in sliced if "op1." in path][-1]
    net.put({path: data for path, data in sliced.items() if path != gone})
    assert watch_here(net).returncode == 3
    assert "of 3 slices, 2 is not there" in net.reasons()["op1:output:0"]
    assert net.rows() == net.compare_rows()


def test_slices_are_deleted_together_and_keep_their_verdict(net, watch_here, sliced) -> None:
    net.write_golden()
    net.put(sliced)
    assert watch_here(net, "--keep", "failed").returncode == 0
    assert [path for path in sliced if os.path.exists(path)] == []
    before = net.verdicts()
    assert watch_here(net, "--keep", "failed").returncode == 0
    assert net.verdicts() == before


def test_slices_of_a_failing_op_are_kept(make_net, watch_here) -> None:
    net = make_net(bad=2)
    net.model.write_tree(net.target, generation="ffts+", threads=3)
    net.write_golden()
    assert watch_here(net, "--keep", "failed").returncode == 1
    left = sorted(name for _, _, names in os.walk(net.target) for name in names)
    assert {name.split(".")[1] for name in left} == {"op2", "op3"}
    assert len(left) == 6
