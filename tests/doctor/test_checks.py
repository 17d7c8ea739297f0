"""Each check of ``goldwatch doctor``, failing and passing."""

from __future__ import annotations

import copy

import pytest

from goldwatch.tools.doctor.collect_facts import CHECKS, findings_of
from goldwatch.tools.doctor.packages import NEEDED, name_of


def package(name, version="1.0", problem=None, **others):
    return dict(others, name=name, version=version, problem=problem)


GOOD = {
    "python": {"path": "/python"},
    "packages": [package(name_of(module)) for module in NEEDED],
    "extras": [{"packages": [package("onnxruntime"), package("torch", None)]}],
    "frameworks": [package("caffe", "", python="/other"), package("onnxruntime", python="/python")],
    "kernel": {"problem": None},
    "memory": {"free_bytes": 10**10, "limit_bytes": None},
    "open_files": 1024,
    "locale": {"file_names": "utf-8"},
    "inotify_watches": 8192,
    "place": {
        "path": "/d", "file_system": "ext4", "mount_point": "/", "watched_by": "inotify",
        "wal": True, "writable": True, "free_bytes": 10**12, "folders": 10, "folders_not_listed": 0,
    },
}  # fmt: skip
BAD = {
    "kernel": [("kernel", {"problem": "none"})],
    "memory": [("memory", {"limit_bytes": 100 << 20}), ("memory", {"free_bytes": 1 << 20})],
    "open-files": [("open_files", 64)],
    "locale": [("locale", {"file_names": "ascii"})],
    "no-wal": [("place", {"wal": False, "file_system": "nfs4"})],
    "read-only": [("place", {"writable": False, "free_bytes": 3})],
    "space": [("place", {"free_bytes": 10**6})],
    "not-listed": [("place", {"folders_not_listed": 2})],
    "watch-lists": [("place", {"watched_by": "listing", "folders": 10**6})],
    "inotify-watches": [("place", {"folders": 8192}), ("inotify_watches", 8)],
}


def test_every_check_has_a_failing_case():
    assert sorted(BAD) == sorted(row[1] for row in CHECKS)


@pytest.mark.parametrize(
    "rule, key, change", [(rule, *case) for rule, cases in BAD.items() for case in cases]
)
def test_each_unusual_fact_gives_its_finding(rule, key, change):
    assert findings_of(GOOD) == []
    document = copy.deepcopy(GOOD)
    document[key] = dict(document[key], **change) if isinstance(change, dict) else change
    (finding,) = findings_of(document)
    assert finding["rule"] == rule and finding["fix"] and "%" not in finding["message"]


def test_unknown_facts_and_missing_limits_give_no_finding():
    document = copy.deepcopy(GOOD)
    document.update(open_files=None, inotify_watches=None)
    document["memory"]["free_bytes"] = document["place"]["free_bytes"] = None
    assert findings_of(document) == []


def test_a_broken_numpy_alone_is_blamed():
    document = copy.deepcopy(GOOD)
    document["packages"][0]["problem"] = document["packages"][4]["problem"] = "x"
    document["extras"][0]["packages"][0]["problem"] = "x"
    (finding,) = findings_of(document)
    assert (finding["severity"], finding["rule"]) == ("problem", "package-broken")


def test_missing_and_broken_packages_are_listed_worst_first():
    document = copy.deepcopy(GOOD)
    document["place"]["writable"] = False
    document["extras"][0]["packages"][0]["problem"] = "x"
    document["frameworks"][0]["problem"] = "libcaffe.so"
    document["packages"][1]["version"] = None
    found = [(one["severity"], one["rule"]) for one in findings_of(document)]
    assert found == [
        ("problem", "package-missing"),
        ("warning", "package-broken"),
        ("warning", "framework-broken"),
        ("note", "read-only"),
    ]
