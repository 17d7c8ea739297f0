from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import threading

import pytest

import goldwatch.filesystem as filesystem
from goldwatch.errors import EnvironmentProblem, FormatError, MissingPath
from goldwatch.filesystem import (
    Mount,
    bounded_name,
    create_new,
    file_system,
    free_bytes,
    mount_of,
    mounts,
    nearest_folder,
    open_input,
    open_regular,
    read_input,
    read_soon,
    remove_inside,
    remove_leftovers,
    replacing,
    require_own_file,
    writing_whole,
)


@pytest.fixture
def special(tmp_path):
    """Return paths that no input can be, with the word that must be in the message."""
    os.mkfifo(str(tmp_path / "fifo"))
    listener = socket.socket(socket.AF_UNIX)
    before = os.getcwd()
    os.chdir(str(tmp_path))
    listener.bind("socket")
    os.chdir(before)
    (tmp_path / "folder").mkdir()
    os.symlink("fifo", str(tmp_path / "link"))
    yield [
        (str(tmp_path / "fifo"), "a named pipe"),
        (str(tmp_path / "link"), "a named pipe"),
        (str(tmp_path / "socket"), "a socket"),
        (str(tmp_path / "folder"), "a folder"),
        ("/dev/zero", "a device"),
        (str(tmp_path / "none"), "does not exist"),
        ("a\0b", "cannot be opened"),
    ]
    listener.close()


def test_what_is_no_file_is_refused_at_once(special):
    for path, words in special:
        for use in (open_regular, open_input, lambda name: read_input(name, 10)):
            with pytest.raises(MissingPath) as caught:
                use(path)
            assert words in caught.value.message and path in caught.value.message and caught.value.exit_code == 4


def test_input_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    assert read_input(str(path), 10) == b"0123456789"
    with pytest.raises(FormatError, match="larger than 9 bytes"):
        read_input(str(path), 9)
    descriptor, size = open_regular(str(path))
    os.close(descriptor)
    assert size == 10
    with open_input(str(path)) as stream:
        assert stream.read() == b"0123456789"


def test_a_pipe_is_read_where_pipes_are_welcome(tmp_path):
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    keeper = os.open(path, os.O_RDWR)
    writer = threading.Thread(target=lambda: (os.write(keeper, b"x" * 100), os.close(keeper)))
    with open_input(path, pipes=True) as stream:
        writer.start()
        assert stream.read() == b"x" * 100
    writer.join()


def test_a_pipe_whose_writer_comes_later_is_waited_for(tmp_path):
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    found = []

    def read():
        with open_input(path, pipes=True) as stream:
            found.append(stream.read())

    reader = threading.Thread(target=read)
    reader.start()
    writing = None
    while writing is None and reader.is_alive():
        # It can be opened without waiting as soon as a reader is there.
        with contextlib.suppress(OSError):
            writing = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    assert writing is not None, "the reader took the pipe for an empty file: %r" % found
    os.write(writing, b"late")
    os.close(writing)
    reader.join()
    assert found == [b"late"]


def test_what_cannot_be_fetched_ahead_is_passed_over(tmp_path):
    (tmp_path / "there").write_bytes(b"content")
    os.mkfifo(str(tmp_path / "pipe"))
    before = os.listdir("/proc/self/fd")
    read_soon([str(tmp_path / name) for name in ("gone", "there", "pipe", ".")], 4096)
    assert os.listdir("/proc/self/fd") == before and (tmp_path / "there").read_bytes() == b"content"


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "f"
    with writing_whole(str(path), 0o640) as stream:
        stream.write(b"old")
        assert not path.exists()
    mask = os.umask(0)
    os.umask(mask)
    assert path.read_bytes() == b"old" and stat.S_IMODE(path.stat().st_mode) == 0o640 & ~mask
    with pytest.raises(ZeroDivisionError), writing_whole(str(path)) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    with pytest.raises(OSError) as caught, writing_whole(str(path)) as stream:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(path)
    assert os.listdir(str(tmp_path)) == ["f"] and path.read_bytes() == b"old"


def test_no_link_is_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    link = tmp_path / "link"
    # The first temporary name is already taken, by a link.
    numbers = iter([b"\0" * 6, b"\1" * 6])
    monkeypatch.setattr(filesystem.os, "urandom", lambda count: next(numbers))
    aside = tmp_path / (".goldwatch-%d-%s.tmp" % (os.getpid(), "00" * 6))
    os.symlink("victim", str(aside))
    os.symlink("victim", str(link))
    with replacing(str(link)) as stream:
        stream.write("new")
    assert victim.read_bytes() == b"mine" and link.read_bytes() == b"new" and not link.is_symlink()
    assert aside.is_symlink()
    for taken in (aside, link):
        with pytest.raises(FileExistsError):
            create_new(str(taken))


def test_files_that_are_written_in_place_are_ours(tmp_path):
    own = tmp_path / "own"
    require_own_file(str(own))
    own.write_bytes(b"")
    require_own_file(str(own))
    os.symlink("own", str(tmp_path / "link"))
    os.symlink("none", str(tmp_path / "dangling"))
    os.mkfifo(str(tmp_path / "fifo"))
    (tmp_path / "two").write_bytes(b"")
    os.link(str(tmp_path / "two"), str(tmp_path / "hard"))
    for name, words in (("link", "a link"), ("dangling", "a link"), ("fifo", "not a regular file"), ("hard", "hard link")):
        with pytest.raises(EnvironmentProblem) as caught:
            require_own_file(str(tmp_path / name))
        assert words in caught.value.message


def test_leftovers_of_a_killed_writer(tmp_path):
    for name in (".goldwatch-1-ab.tmp", ".goldwatch-1-ab", "x.tmp"):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(str(tmp_path))
    assert sorted(os.listdir(str(tmp_path))) == [".goldwatch-1-ab", "x.tmp"]


def test_only_plain_names_are_removed(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "own").write_bytes(b"")
    (tmp_path / "victim").write_bytes(b"")
    for name in ("../victim", str(tmp_path / "victim"), "", ".", "..", "a\0b", "./own", "none"):
        assert not remove_inside(str(folder), name)
    assert remove_inside(str(folder), "own")
    assert os.listdir(str(folder)) == [] and (tmp_path / "victim").exists()


def test_free_space_is_that_of_the_nearest_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert nearest_folder(str(tmp_path / "a" / "b")) == str(tmp_path) == nearest_folder(str(tmp_path / "file"))
    assert nearest_folder(str(tmp_path)) == str(tmp_path) and nearest_folder("a\0b") is None
    whole = os.statvfs(str(tmp_path))
    assert 0 < free_bytes(str(tmp_path / "a" / "b")) <= whole.f_blocks * whole.f_frsize
    assert free_bytes("a\0b") is None


def test_mount_points_with_any_escape(tmp_path, monkeypatch):
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
    monkeypatch.setattr(filesystem, "_MOUNTS", str(table))
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert mounts()[1:3] == [Mount("/a b\tc\nd\\e#", "nfs4"), Mount(os.fsdecode(b"/\xc3\xa4"), "fuse.sshfs")]
    assert [file_system(path) for path in ("/a b\tc\nd\\e#/x", os.fsdecode(b"/\xc3\xa4"), "/over/x", "/overt", "/")] == [
        *("nfs4", "fuse.sshfs", "overlay", "ext4", "ext4")
    ]
    monkeypatch.setattr(filesystem, "_MOUNTS", str(tmp_path / "none"))
    assert mounts() == [] and mount_of("/") is None and file_system("/") == ""


def test_this_machines_mounts(tmp_path):
    assert file_system("/proc") == "proc"
    assert file_system(str(tmp_path)) not in ("", "proc")


@pytest.mark.parametrize("letter", ["a", "ä", "漢", "\udcff"])
def test_bounded_names(letter):
    assert bounded_name(letter * 3, "_tail") == letter * 3 + "_tail"
    long = bounded_name(letter * 300, "_tail")
    assert len(os.fsencode(long)) <= 255 and long.endswith("_tail") and long != bounded_name(letter * 301, "_tail")


def test_a_signal_at_the_birth_of_a_file_leaves_nothing(tmp_path, monkeypatch):
    def born(path, mode):
        os.close(create_new(path, mode))
        raise KeyboardInterrupt

    monkeypatch.setattr("goldwatch.filesystem.create_new", born)
    with pytest.raises(KeyboardInterrupt), writing_whole(str(tmp_path / "a")):
        pass
    assert os.listdir(str(tmp_path)) == []


def test_no_file_takes_the_place_of_a_pipe_or_a_device(tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    os.symlink("pipe", str(tmp_path / "link"))
    for name in ("pipe", "link"):
        with pytest.raises(EnvironmentProblem, match="it is no regular file"), filesystem.replacing(str(tmp_path / name)) as stream:
            stream.write("x")
    with pytest.raises(OSError, match="it is no regular file"), filesystem.writing_whole(os.devnull) as stream:
        stream.write(b"x")
    assert sorted(os.listdir(str(tmp_path))) == ["link", "pipe"] and stat.S_ISFIFO(os.lstat(str(tmp_path / "pipe")).st_mode)
