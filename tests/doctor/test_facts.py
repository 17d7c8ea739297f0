"""What `goldwatch doctor` reads: other processes, /proc and /sys."""

from __future__ import annotations

import os
import sys

from goldwatch.base.system import cache_room, memory
from goldwatch.tools.doctor import collect_facts, packages


def test_a_package_that_ends_its_process_does_not_hide_others(monkeypatch, tmp_path):
    (tmp_path / "first.py").write_text("__version__ = '1.2'\n")
    (tmp_path / "second.py").write_text("import os\nos.abort()\n")
    (tmp_path / "third.py").write_text("raise ValueError('of its own')\n")
    (tmp_path / "fifth.py").write_text("import nowhere.at_all\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    states = packages.states(("first", "second", "third", "fourth", "fifth"))
    assert [(one["name"], one["version"], one["problem"]) for one in states] == [
        ("first", "1.2", None),
        ("second", "", "killed by SIGABRT"),
        ("third", "", "ValueError: of its own"),
        ("fourth", None, None),
        ("fifth", "", "ModuleNotFoundError: No module named 'nowhere'"),
    ]


def test_the_toolkits_version_is_read(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert collect_facts._toolkit() is None
    home = tmp_path / "toolkit"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "atc").write_text("#!/bin/sh\n")
    (home / "bin" / "atc").chmod(0o755)
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(home))
    assert collect_facts._toolkit() == {"path": str(home), "version": "unknown"}
    (home / "x86_64-linux").mkdir()
    (home / "x86_64-linux" / "ascend_toolkit_install.info").write_text(
        "package_name=Ascend-cann-toolkit\nversion=8.0.RC1\n"
    )
    assert collect_facts._toolkit() == {"path": str(home), "version": "8.0.RC1"}


def write(root, files):
    for name, text in files.items():
        path = os.path.join(str(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)


def test_memory_limits_of_control_groups_are_read(tmp_path):
    two = {
        "proc/self/cgroup": "0::/user/job\n",
        "proc/meminfo": "MemTotal:  2048 kB\nMemAvailable: 1024 kB\n",
        "sys/fs/cgroup/user/memory.max": "1000000\n",
        "sys/fs/cgroup/user/memory.current": "700000\n",
        "sys/fs/cgroup/user/memory.stat": "anon 1\nfile 500000\ninactive_file "
        "300000\nactive_file 100000\n",
        "sys/fs/cgroup/user/job/memory.max": "max\n",
    }
    one = {
        "proc/self/cgroup": "7:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "500\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "450\n",
        "sys/fs/cgroup/memory/memory.stat": "active_file 1\ntotal_inactive_file "
        "200\ntotal_active_file 50\n",
    }
    for name, files in (("two", two), ("one", one)):
        write(tmp_path / name, files)
    assert memory(str(tmp_path / "two")) == {
        "total_bytes": 2 << 20,
        "free_bytes": 1 << 20,
        "limit_bytes": 1000000,
    }
    assert memory(str(tmp_path / "one"))["limit_bytes"] == 500
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


def test_the_limit_of_inotify_watches_is_read(tmp_path):
    assert collect_facts.most_watches(str(tmp_path)) is None
    write(tmp_path, {"proc/sys/fs/inotify/max_user_watches": "8192\n"})
    assert collect_facts.most_watches(str(tmp_path)) == 8192
    assert collect_facts.most_watches() > 0 and memory()["total_bytes"] > 0
