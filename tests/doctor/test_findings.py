"""What `goldwatch doctor` finds wrong, each with a case in which it is not."""

from __future__ import annotations

import pytest

from goldwatch.doctor import findings
from goldwatch.doctor.combinations import Setting, known_bad
from goldwatch.doctor.packages import NEEDED, State


def setting(python=(3, 11), features=("sse4_2", "avx"), **versions):
    return Setting(
        python, {name.replace("_", "-"): version for name, version in versions.items()}, features
    )


@pytest.mark.parametrize(
    "rule, bad, good",
    [
        ("protobuf-4-23", setting(protobuf="4.24.4"), setting(protobuf="4.25.0")),
        ("protobuf-4-23", setting(protobuf="4.23.0"), setting(protobuf="4.22.5")),
        (
            "onnxruntime-numpy",
            setting(onnxruntime="1.18.1", numpy="2.0.2"),
            setting(onnxruntime="1.19.0", numpy="2.0.2"),
        ),
        (
            "onnxruntime-numpy",
            setting(onnxruntime="1.16.3", numpy="2.0.0rc1"),
            setting(onnxruntime="1.16.3", numpy="1.26.4"),
        ),
        ("onnxruntime-float16", setting(onnxruntime="1.14.1"), setting(onnxruntime="1.19.2")),
        (
            "click-dask",
            setting((3, 7, 16), distributed="2022.2.0", click="8.1.8"),
            setting((3, 7), distributed="2022.2.0", click="8.0.4"),
        ),
        (
            "click-dask",
            setting((3, 7), distributed="2022.2.0", click="8.1.8"),
            setting((3, 8), distributed="2023.5.0", click="8.1.8"),
        ),
        (
            "opencv-5",
            setting(opencv_python_headless="5.0.0.1"),
            setting(opencv_python_headless="4.14.0.94"),
        ),
        (
            "tensorflow-protobuf",
            setting(tensorflow="1.15.5", protobuf="4.22.5"),
            setting(tensorflow="1.15.5", protobuf="3.20.3"),
        ),
        (
            "tensorflow-avx",
            setting(features=("sse4_2",), tensorflow="1.15.5"),
            setting(features=("asimd",), tensorflow="1.15.5"),
        ),
    ],
)
def test_known_combinations(rule, bad, good):
    assert rule in [finding.rule for finding in known_bad(bad)]
    assert rule not in [finding.rule for finding in known_bad(good)]
    assert all("%" not in finding.message and finding.fix for finding in known_bad(bad))


GOOD_PLACE = {
    "path": "/d", "file_system": "ext4", "mount_point": "/", "watched_by": "inotify", "wal": True,
    "writable": True, "free_bytes": 10**12,
    "total_bytes": 10**12, "free_inodes": 10**6, "total_inodes": 10**6, "folders": 10,
    "folders_not_listed": 0,
}  # fmt: skip
GOOD_WATCHES = {
    "max_user_watches": 8192,
    "max_user_instances": 128,
    "watches_in_use": 0,
    "instances_in_use": 0,
}
GOOD_MACHINE = {
    "processor": {"allowed": None, "usable": 2},
    "memory": {"free_bytes": 10**10, "limit_bytes": None},
    "limits": {"open_files": 1024, "address_space_bytes": None},
    "folders": {"temporary": "/tmp", "shared_memory_free_bytes": 10**9},
    "locale": {"file_names": "utf-8"},
}


@pytest.mark.parametrize(
    "rule, place_changes, watch_changes",
    [
        ("inotify-watches", {"folders": 8192}, {}),
        ("inotify-watches", {}, {"watches_in_use": 8190}),
        ("inotify-instances", {}, {"instances_in_use": 127}),
        ("no-wal", {"wal": False, "file_system": "nfs4"}, {}),
        ("watch-lists", {"watched_by": "listing", "file_system": "fuse.sshfs"}, {}),
        ("read-only", {"writable": False}, {}),
        ("space", {"free_bytes": 10**6}, {}),
        ("inodes", {"free_inodes": 3}, {}),
        ("not-listed", {"folders_not_listed": 2}, {}),
    ],
)
def test_findings_of_a_place(rule, place_changes, watch_changes):
    assert list(findings.of_place(GOOD_PLACE, GOOD_WATCHES)) == []
    found = list(
        findings.of_place(dict(GOOD_PLACE, **place_changes), dict(GOOD_WATCHES, **watch_changes))
    )
    assert [one.rule for one in found] == [rule]


@pytest.mark.parametrize(
    "rule, part, changes",
    [
        ("memory", "memory", {"limit_bytes": 100 << 20}),
        ("address-space", "limits", {"address_space_bytes": 1 << 30}),
        ("open-files", "limits", {"open_files": 64}),
        ("processor-quota", "processor", {"allowed": 0.5}),
        ("temporary-folder", "folders", {"temporary": None}),
        ("shared-memory", "folders", {"shared_memory_free_bytes": None}),
        ("locale", "locale", {"file_names": "ascii"}),
    ],
)
def test_findings_of_a_machine(rule, part, changes):
    assert list(findings.of_machine(GOOD_MACHINE)) == []
    found = list(
        findings.of_machine(dict(GOOD_MACHINE, **{part: dict(GOOD_MACHINE[part], **changes)}))
    )
    assert [one.rule for one in found] == [rule]


def test_old_and_missing_packages():
    needed = [State(NEEDED[0], "1.16.6", ""), State(NEEDED[1], None, "")]
    found = list(findings.of_packages(needed, [], {"problem": None}))
    assert [(one.severity, one.rule) for one in found] == [
        ("warning", "package-old"),
        ("problem", "package-missing"),
    ]
