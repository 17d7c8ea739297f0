from __future__ import annotations

import contextlib
import os
import socket
import threading

import pytest

from goldwatch.base.errors import FormatError, MissingPath
from goldwatch.base.safe_reading import open_input, open_regular, prefetch, read_input


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


def test_paths_that_are_no_regular_files_are_refused_at_once(special):
    for path, words in special:
        for use in (open_regular, open_input, lambda name: read_input(name, 10)):
            with pytest.raises(MissingPath) as caught:
                use(path)
            assert (
                words in caught.value.message
                and path in caught.value.message
                and caught.value.exit_code == 4
            )


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


def test_a_pipe_is_read_where_pipes_are_allowed(tmp_path):
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    keeper = os.open(path, os.O_RDWR)
    writer = threading.Thread(target=lambda: (os.write(keeper, b"x" * 100), os.close(keeper)))
    with open_input(path, pipes=True) as stream:
        writer.start()
        assert stream.read() == b"x" * 100
    writer.join()


def test_a_pipe_waits_for_its_writer(tmp_path):
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


def test_files_that_cannot_be_read_ahead_are_skipped(tmp_path):
    (tmp_path / "there").write_bytes(b"content")
    os.mkfifo(str(tmp_path / "pipe"))
    before = os.listdir("/proc/self/fd")
    prefetch([str(tmp_path / name) for name in ("gone", "there", "pipe", ".")], 4096)
    assert os.listdir("/proc/self/fd") == before and (tmp_path / "there").read_bytes() == b"content"
