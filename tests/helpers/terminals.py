"""Runs a program on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios


def run_on_terminal(words, columns=0, **options):
    """Return all bytes that a program shows on a terminal of so many columns (0: it does not tell),
    and the exit code.
    """
    ours, theirs = pty.openpty()
    if columns:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, **options)
    os.close(theirs)
    blocks = [b"-"]
    with contextlib.suppress(OSError):
        while blocks[-1]:
            blocks.append(os.read(ours, 65536))
    os.close(ours)
    return b"".join(blocks[1:]), process.wait(60)
