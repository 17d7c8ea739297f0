"""What the kernel tells in /proc and /sys; ``root`` is where they are.

Sources of the forms: proc(5), the kernel's cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import os
from typing import Iterator, Tuple

from .errors import InputError
from .filesystem import open_input

_MOST_BYTES = 1 << 20
"""Files in /proc/sys refuse to be read by much more at once."""


def text_of(path: str) -> str:
    """Return the text of a file of the kernel, at most its first MiB; empty where it cannot be read."""
    try:
        with open_input(path) as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace")
    except (InputError, OSError):
        return ""


def fields_of(path: str) -> Iterator[Tuple[str, str]]:
    """Yield (name, value) of a file's lines ``name: value`` up to the first empty one, none when it cannot be read."""
    for line in text_of(path).split("\n\n")[0].splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def control_groups(root: str, controller: str) -> Iterator[str]:
    """Yield the folders of this process's control group and of those above it, the form of version 2 or the controller's of version 1."""
    for line in text_of(os.path.join(root, "proc/self/cgroup")).splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            top = os.path.join(root, "sys/fs/cgroup")
        elif controller in names.split(","):
            top = os.path.join(root, "sys/fs/cgroup", controller)
        else:
            continue
        while True:
            yield top + path.rstrip("/")
            if path in ("", "/"):
                break
            path = os.path.dirname(path)
