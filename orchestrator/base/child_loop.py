"""What runs in a process of :class:`goldwatch.base.pool.Child`; imports little, for each
process pays for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
from typing import BinaryIO, NoReturn

from .interrupts import handle_termination, terminated
from .system import PR_SET_PDEATHSIG, importing_unthreaded, prctl

_LENGTH_BYTES = 8
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def serve(calls: int, answers: int, parent: int) -> NoReturn:
    """Answer calls until the other side has gone, then end; ``calls`` and ``answers`` are the
    pipes' descriptors, ``parent`` a process id.

    What was half done is undone on the way; of Python's own ending nothing is needed, and it can
    wait for a lock that nobody gives back.
    """
    with contextlib.suppress(SystemExit):
        _answer(calls, answers, parent)
    os._exit(0)


def _answer(calls: int, answers: int, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Ended in order: files that are half written, and programs that were started, go with it.
    handle_termination()
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return
    _keep_freed_memory()
    for pipe in (calls, answers):
        # What is started here must not keep them open.
        os.set_inheritable(pipe, False)
    with os.fdopen(calls, "rb") as reader, os.fdopen(answers, "wb") as writer:
        while True:
            try:
                data = receive(reader)
            except (EOFError, OSError):
                return
            try:
                with importing_unthreaded():
                    function, *arguments = pickle.loads(data)
                answer = True, function(*arguments)
            except Exception as error:
                answer = False, error
            if terminated():
                return
            try:
                data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                data = pickle.dumps(
                    (False, RuntimeError("%s: %s" % (type(error).__name__, error))),
                    pickle.HIGHEST_PROTOCOL,
                )
            try:
                send(writer, data)
            except OSError:
                return


def send(stream: BinaryIO, data: bytes) -> None:
    """Send one message: its length in eight bytes, then itself, so that one that cannot be
    unpickled spoils none behind it.
    """
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """Return the next message; EOFError when the other side has gone."""
    head = stream.read(_LENGTH_BYTES)
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(head) < _LENGTH_BYTES or len(data) < size:
        raise EOFError
    return data


def _keep_freed_memory() -> None:
    """Let glibc keep a freed window for the next tensor: fresh memory costs a page fault for every
    4 KiB, as much as the reading.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 1024 * 1024)
        mallopt(_M_TRIM_THRESHOLD, 64 * 1024 * 1024)
