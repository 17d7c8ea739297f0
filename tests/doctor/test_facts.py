"""What `goldwatch doctor` reads: other processes, metadata, /proc and /sys."""

from __future__ import annotations

import os
import sys

from goldwatch.doctor import machine, place
from goldwatch.doctor.children import Question, ask
from goldwatch.doctor.installed import installed, number
from goldwatch.system.memory import cache_room, memory


def test_a_process_that_does_not_answer_is_killed():
    code = "import time\ntell(1) if %d else time.sleep(1e6)"
    answers = ask(
        [
            Question(sys.executable, code % 0),
            Question(sys.executable, code % 1),
            Question("/nowhere/python", ""),
        ],
        5.0,
    )
    assert (
        answers[0] == (None, "no answer within 5 s")
        and answers[2].value is None
        and "No such file" in answers[2].problem
    )


def test_installed_reads_the_names_of_metadata(tmp_path):
    for name in ("Foo_Bar-1.2.3.dist-info", "old-0.9-py3.7.egg-info", "foo-bar-9-notes", "plain"):
        (tmp_path / name).mkdir()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "foo_bar-7.0.dist-info").mkdir()
    assert installed([str(tmp_path), str(tmp_path / "later"), str(tmp_path / "none")]) == {
        "foo-bar": "1.2.3",
        "old": "0.9",
    }
    assert (
        number("4.23.1rc1") == (4, 23, 1)
        and number("unknown") == ()
        and number("1.19") < number("1.19.2")
    )


def write(root, files):
    for name, text in files.items():
        path = os.path.join(str(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)


def test_limits_of_control_groups(tmp_path):
    two = {
        "proc/self/cgroup": "0::/user/job\n",
        "proc/meminfo": "MemTotal:  2048 kB\nMemAvailable: 1024 kB\n",
        "sys/fs/cgroup/user/memory.max": "1000000\n",
        "sys/fs/cgroup/user/memory.current": "700000\n",
        "sys/fs/cgroup/user/memory.stat": "anon 1\nfile 500000\ninactive_file "
        "300000\nactive_file 100000\n",
        "sys/fs/cgroup/user/job/memory.max": "max\n",
        "sys/fs/cgroup/user/job/cpu.max": "150000 100000\n",
    }
    one = {
        "proc/self/cgroup": "7:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "500\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "450\n",
        "sys/fs/cgroup/memory/memory.stat": "active_file 1\ntotal_inactive_file "
        "200\ntotal_active_file 50\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    for name, files in (("two", two), ("one", one)):
        write(tmp_path / name, files)
    assert memory(str(tmp_path / "two")) == {
        "total_bytes": 2 << 20,
        "free_bytes": 1 << 20,
        "limit_bytes": 1000000,
    }
    assert machine.processor(str(tmp_path / "two"))["allowed"] == 1.5
    assert memory(str(tmp_path / "one"))["limit_bytes"] == 500
    assert machine.processor(str(tmp_path / "one"))["allowed"] is None
    assert [cache_room(str(tmp_path / name)) for name in ("two", "one", "none")] == [
        700000,
        300,
        None,
    ]
    assert memory(str(tmp_path / "none")) == {
        "total_bytes": None,
        "free_bytes": None,
        "limit_bytes": None,
    }


def test_a_processor_that_names_its_features_otherwise(tmp_path):
    write(tmp_path, {"proc/cpuinfo": "processor : 0\nFeatures : fp asimd sve\n\nprocessor : 1\n"})
    assert machine.processor(str(tmp_path))["features"] == ["asimd", "sve"]


def test_what_inotify_allows_and_what_is_in_use(tmp_path):
    limits = {
        "proc/sys/fs/inotify/max_user_watches": "8192\n",
        "proc/sys/fs/inotify/max_user_instances": "128\n",
    }
    write(tmp_path, dict(limits, **{"proc/7/fdinfo/3": "pos: 0\ninotify wd:1\ninotify wd:2\n"}))
    (tmp_path / "proc" / "7" / "fd").mkdir()
    for name, target in (("3", "anon_inode:inotify"), ("4", "/dev/null")):
        os.symlink(target, str(tmp_path / "proc" / "7" / "fd" / name))
    found = place.inotify(str(tmp_path))
    assert (found["max_user_watches"], found["max_user_instances"], found["max_queued_events"]) == (
        8192,
        128,
        None,
    )
    assert (found["watches_in_use"], found["instances_in_use"]) == (2, 1)


def test_this_machine_tells():
    assert (
        place.inotify()["max_user_watches"] > 0 and place.inotify()["instances_in_use"] is not None
    )
    assert memory()["total_bytes"] > 0 and machine.processor()["usable"] > 0
