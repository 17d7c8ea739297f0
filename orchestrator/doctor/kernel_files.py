"""What the kernel tells in /proc and /sys."""

from __future__ import annotations

from ..errors import InputError
from ..filesystem import open_input

_MOST_BYTES = 1 << 20
"""Files in /proc/sys refuse to be read by much more at once."""


def text_of(path: str) -> str:
    """Return the text of a file of the kernel, at most its first MiB; empty where it cannot be read."""
    try:
        with open_input(path) as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace")
    except (InputError, OSError):
        return ""
