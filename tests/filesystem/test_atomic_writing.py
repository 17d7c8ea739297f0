from __future__ import annotations

import errno
import os
import stat

import pytest

from goldwatch.base.atomic_writing import (
    atomic_text_writer,
    atomic_writer,
    create_new,
    remove_inside,
    remove_leftovers,
    remove_quietly,
    require_own_file,
    write_atomically,
)
from goldwatch.base.errors import EnvironmentProblem


def test_a_file_to_remove_may_be_gone_already(tmp_path):
    write_atomically(str(tmp_path / "f"), memoryview(b"content"), 0o600)
    assert (tmp_path / "f").read_bytes() == b"content" and stat.S_IMODE(
        (tmp_path / "f").stat().st_mode
    ) == 0o600
    assert (
        remove_quietly(str(tmp_path / "f"))
        and not remove_quietly(str(tmp_path / "f"))
        and not remove_quietly(str(tmp_path))
    )
    assert os.listdir(str(tmp_path)) == []


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "f"
    with atomic_writer(str(path), 0o640) as stream:
        stream.write(b"old")
        assert not path.exists()
    mask = os.umask(0)
    os.umask(mask)
    assert path.read_bytes() == b"old" and stat.S_IMODE(path.stat().st_mode) == 0o640 & ~mask
    with pytest.raises(ZeroDivisionError), atomic_writer(str(path)) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    with pytest.raises(OSError) as caught, atomic_writer(str(path)) as stream:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(path)
    assert os.listdir(str(tmp_path)) == ["f"] and path.read_bytes() == b"old"


def test_no_link_is_followed_when_writing(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    link = tmp_path / "link"
    # The first temporary name is already taken, by a link.
    numbers = iter([b"\0" * 6, b"\1" * 6])
    monkeypatch.setattr(os, "urandom", lambda count: next(numbers))
    aside = tmp_path / (".goldwatch-%d-%s.tmp" % (os.getpid(), "00" * 6))
    os.symlink("victim", str(aside))
    os.symlink("victim", str(link))
    with atomic_text_writer(str(link)) as stream:
        stream.write("new")
    assert victim.read_bytes() == b"mine" and link.read_bytes() == b"new" and not link.is_symlink()
    assert aside.is_symlink()
    for taken in (aside, link):
        with pytest.raises(FileExistsError):
            create_new(str(taken))


def test_only_regular_files_without_links_are_written_in_place(tmp_path):
    own = tmp_path / "own"
    require_own_file(str(own))
    own.write_bytes(b"")
    require_own_file(str(own))
    os.symlink("own", str(tmp_path / "link"))
    os.symlink("none", str(tmp_path / "dangling"))
    os.mkfifo(str(tmp_path / "fifo"))
    (tmp_path / "two").write_bytes(b"")
    os.link(str(tmp_path / "two"), str(tmp_path / "hard"))
    for name, words in (
        ("link", "a link"),
        ("dangling", "a link"),
        ("fifo", "not a regular file"),
        ("hard", "hard link"),
    ):
        with pytest.raises(EnvironmentProblem) as caught:
            require_own_file(str(tmp_path / name))
        assert words in caught.value.message


def test_only_temporary_files_of_a_killed_writer_are_removed(tmp_path):
    for name in (".goldwatch-1-ab.tmp", ".goldwatch-1-ab", "x.tmp"):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(str(tmp_path))
    assert sorted(os.listdir(str(tmp_path))) == [".goldwatch-1-ab", "x.tmp"]


def test_only_plain_names_inside_the_folder_are_removed(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "own").write_bytes(b"")
    (tmp_path / "victim").write_bytes(b"")
    for name in ("../victim", str(tmp_path / "victim"), "", ".", "..", "a\0b", "./own", "none"):
        assert not remove_inside(str(folder), name)
    assert remove_inside(str(folder), "own")
    assert os.listdir(str(folder)) == [] and (tmp_path / "victim").exists()


def test_a_signal_while_a_file_is_created_leaves_nothing(tmp_path, monkeypatch):
    def born(path, mode):
        os.close(create_new(path, mode))
        raise KeyboardInterrupt

    monkeypatch.setattr("goldwatch.base.atomic_writing.create_new", born)
    with pytest.raises(KeyboardInterrupt), atomic_writer(str(tmp_path / "a")):
        pass
    assert os.listdir(str(tmp_path)) == []


def test_no_file_replaces_a_pipe_or_a_device(tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    os.symlink("pipe", str(tmp_path / "link"))
    for name in ("pipe", "link"):
        with pytest.raises(EnvironmentProblem, match="it is no regular file"), atomic_text_writer(
            str(tmp_path / name)
        ) as stream:
            stream.write("x")
    with pytest.raises(OSError, match="it is no regular file"), atomic_writer(os.devnull) as stream:
        stream.write(b"x")
    assert sorted(os.listdir(str(tmp_path))) == ["link", "pipe"] and stat.S_ISFIFO(
        os.lstat(str(tmp_path / "pipe")).st_mode
    )
