from __future__ import annotations

import os

import goldwatch.base.mounts as mounts_module
from goldwatch.base.mounts import Mount, file_system, mount_of, mounts


def test_mount_points_with_escapes_are_read(tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    lines = [
        rb"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw",
        rb"23 22 0:5 / /a\040b\011c\012d\134e\043 rw,relatime - nfs4 host:/x rw",
        rb"24 22 0:6 / /\303\244 rw - fuse.sshfs host:/y rw",
        rb"25 22 0:7 / /over rw - ext4 /dev/sdb rw",
        rb"26 25 0:8 / /over rw master:1 propagate_from:2 - overlay overlay rw",
        rb"broken",
    ]
    table.write_bytes(b"\n".join(lines) + b"\n")
    monkeypatch.setattr(mounts_module, "_MOUNTS", str(table))
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert mounts()[1:3] == [
        Mount("/a b\tc\nd\\e#", "nfs4"),
        Mount(os.fsdecode(b"/\xc3\xa4"), "fuse.sshfs"),
    ]
    assert [
        file_system(path)
        for path in ("/a b\tc\nd\\e#/x", os.fsdecode(b"/\xc3\xa4"), "/over/x", "/overt", "/")
    ] == [*("nfs4", "fuse.sshfs", "overlay", "ext4", "ext4")]
    monkeypatch.setattr(mounts_module, "_MOUNTS", str(tmp_path / "none"))
    assert mounts() == [] and mount_of("/") is None and file_system("/") == ""


def test_file_systems_of_this_machine_are_known(tmp_path):
    assert file_system("/proc") == "proc"
    assert file_system(str(tmp_path)) not in ("", "proc")
