"""Which dumps a watch deletes, and which never."""

from __future__ import annotations

import os

import pytest


def left(net):
    return sorted(
        name.split(".")[1]
        for _, _, names in os.walk(net.target)
        for name in names
        if name.count(".") > 2
    )


def test_keep_failed_keeps_files_of_failing_ops(make_net, watch_here) -> None:
    net = make_net(bad=1)
    net.write_golden()
    net.put(net.files())
    expected = net.compare_rows()
    assert watch_here(net, "--keep", "failed").returncode == 1
    assert left(net) == ["op1", "op2"] and net.rows() == expected
    assert watch_here(net, "--keep", "failed").returncode == 1
    assert net.rows() == expected
    assert watch_here(net, "--keep", "none").returncode == 1
    assert left(net) == [] and net.rows() == expected
    assert watch_here(net).returncode == 1
    assert net.rows() == expected and len(os.listdir(net.golden)) == 5


def test_files_that_were_not_compared_are_never_deleted(net, watch_here) -> None:
    net.write_golden("data", "op0", "op1", "op2")
    files = net.files()
    paths = list(files)
    net.put({path: files[path] for path in paths[1:]})
    with open(paths[0], "wb") as stream:
        stream.write(files[paths[0]][:-1])
    assert watch_here(net, "--keep", "none").returncode == 3
    assert left(net) == ["op0", "op3"]


def test_golden_data_below_target_and_linked_dumps_are_never_deleted(net, watch_here) -> None:
    net.put(net.files())
    net.golden = os.path.join(net.target, "golden")
    net.write_golden()
    path = next(iter(net.files()))
    outside = os.path.join(net.folder, "outside")
    os.rename(path, outside)
    os.symlink(outside, path)
    assert watch_here(net, "--keep", "none").returncode == 0
    assert os.path.islink(path) and os.path.exists(outside)
    assert left(net) == ["0", "0", "0", "0", "0", "op0"]
    assert net.count("verdict = 'pass'") == 8


def test_many_steps_need_the_disk_space_of_one(net, watch) -> None:
    net.write_golden()
    watcher = watch(net, "--until-idle", "3", "--keep", "failed", "--poll", "0.1").until_watching()
    for step in range(10):
        for path, data in net.files(step=step).items():
            net.put({path: data})
            # Whatever else comes, the disk never holds more for long.
            net.until(lambda: len(left(net)) <= 3)
        net.until(lambda: len(left(net)) <= 2)
    assert watcher.wait() == 0, watcher.stderr
    assert net.count("verdict = 'pass'") == 80 and left(net) == []


def test_min_free_deletes_only_when_space_is_short_and_warns_with_keep_all(net, watch_here) -> None:
    net.write_golden()
    net.put(net.files())
    watcher = watch_here(net, "--keep", "none", "--min-free", "1k")
    assert watcher.returncode == 0 and len(left(net)) == 4
    watcher = watch_here(net, "--min-free", "1000000T")
    assert watcher.returncode == 0 and "bytes are free" in watcher.stderr and len(left(net)) == 4
    watcher = watch_here(net, "--min-free", "1000000T", "--keep", "failed")
    assert watcher.returncode == 0 and len(left(net)) == 0


def test_a_deleted_file_that_arrives_again_is_compared_again(net, watch) -> None:
    net.write_golden()
    watcher = watch(net, "--until-idle", "4", "--keep", "none")
    files = net.files()
    net.put(files)
    net.until(lambda: not left(net))
    path = list(files)[1]
    wrong = bytearray(files[path])
    wrong[-20:] = bytes(range(100, 120))
    net.put({path: bytes(wrong)})
    net.until(lambda: net.count("verdict = 'fail'") == 1)
    assert watcher.wait() == 1
    assert net.count() == 10 and left(net) == []


def link(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.symlink(source, target)


@pytest.mark.parametrize("how", [link, os.link, "folder"])
def test_golden_data_linked_to_dumps_below_target_is_never_deleted(net, watch_here, how) -> None:
    """A reference run below TARGET is the golden data, by file links, hard links or a link to its
    folder.
    """
    reference = {
        path.replace("20260102030405", "20250102030405"): data for path, data in net.files().items()
    }
    net.put(dict(net.files(), **reference))
    folder = os.path.dirname(next(iter(reference)))
    if how == "folder":
        os.symlink(folder, os.path.join(net.golden, "reference"))
    else:
        for path in reference:
            how(path, os.path.join(net.golden, os.path.basename(path)))
    watcher = watch_here(net, "--keep", "none", "--time", "all")
    assert watcher.returncode == 0, watcher.stderr
    assert net.count("verdict = 'pass'") == 16
    assert sorted(
        os.path.join(base, name) for base, _, names in os.walk(net.target) for name in names
    ) == sorted(reference)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_dumps_reachable_below_golden_are_never_deleted(net, watch_here, link) -> None:
    net.write_golden()
    net.put(net.files())
    kept = next(path for path in net.files() if ".op1." in path)
    link(kept, os.path.join(net.golden, "README"))
    assert watch_here(net, "--keep", "none").returncode == 0
    assert left(net) == ["op1"] and os.path.exists(kept)
