"""What the kernel tells in /proc and /sys."""

from __future__ import annotations

from ..errors import InputError
from ..filesystem import read_input

_MOST_BYTES = 16 << 20


def text_of(path: str) -> str:
    """Return the text of a file of the kernel; empty where it cannot be read."""
    try:
        return read_input(path, _MOST_BYTES).decode("utf-8", "replace")
    except (InputError, OSError):
        return ""
