from __future__ import annotations

import os

from goldwatch.base.mounts import free_bytes, nearest_folder


def test_free_space_is_that_of_the_nearest_existing_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert (
        nearest_folder(str(tmp_path / "a" / "b"))
        == str(tmp_path)
        == nearest_folder(str(tmp_path / "file"))
    )
    assert nearest_folder(str(tmp_path)) == str(tmp_path) and nearest_folder("a\0b") is None
    whole = os.statvfs(str(tmp_path))
    assert 0 < free_bytes(str(tmp_path / "a" / "b")) <= whole.f_blocks * whole.f_frsize
    assert free_bytes("a\0b") is None
