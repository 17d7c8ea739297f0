"""What goes wrong while a device writes, as the public device code shows it."""

from __future__ import annotations

import fnmatch
import os
from typing import Callable, List

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from .device_dump import DeviceDump

KINDS = {
    "drop_chunk": "chunk N is not written, later ones are: the size stays short",
    "write_error": "writing chunk N fails: the file is removed, later chunks make it again "
    "without its header",
    "twin": "the same name is written twice: the second copy is appended",
    "null_address": "a tensor (N: input:0, output:0, ...) counts in the header's sizes and is "
    "not written",
    "refuse_open": "the file cannot be opened: none of its chunks is written",
    "unreadable": "the file loses all its permissions with its first chunk",
}


@dataclass(frozen=True)
class Fault:
    """One fault of the device or of its disk.

    Attributes
    ----------
    kind
        A key of :data:`KINDS`.
    match
        Shell pattern of the file names it concerns, such as ``Conv2D.conv1.*``, or an op's name as
        the device writes it.
    chunk
        Number of the chunk, from 0 (drop_chunk, write_error).
    tensor
        ``input:N`` or ``output:N`` (null_address).
    """

    kind: str
    match: str
    chunk: int = 0
    tensor: str = "output:0"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError("fault %r is not known" % self.kind, hint="one of " + ", ".join(KINDS))
        if self.chunk < 0:
            raise UsageError("fault %s: chunk %d is negative" % (self.kind, self.chunk))

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Return the fault that ``KIND=PATTERN[@N]`` names; N is a chunk's number, or a tensor for
        null_address.

        Raises
        ------
        UsageError
            The text has not this form.
        """
        kind, separator, rest = text.partition("=")
        match, _, detail = rest.partition("@")
        if not separator or not match:
            raise UsageError(
                "fault %r has not the form KIND=PATTERN[@N]" % text,
                hint="for example drop_chunk=Conv2D.conv1.*@1",
            )
        if kind == "null_address":
            return cls(kind, match, tensor=detail or "output:0")
        if detail and not detail.isdigit():
            raise UsageError("fault %r: %r is no chunk's number" % (text, detail))
        return cls(kind, match, int(detail or 0))

    def concerns(self, dump: DeviceDump) -> bool:
        """Tell whether this file is meant."""
        fields = dump.name.split(".")
        return fnmatch.fnmatchcase(dump.name, self.match) or (
            len(fields) > 1 and fields[1] == self.match
        )


def quota(root: str, limit_bytes: int) -> Callable[[], int]:
    """Return a function that tells the bytes left of a disk of ``limit_bytes`` below ``root``, for
    :class:`DumpServer`'s ``free_bytes``.

    Files that are deleted give their space back.
    """

    def free() -> int:
        used = 0
        waiting: List[str] = [root]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        used += entry.stat(follow_symlinks=False).st_size
                except OSError:
                    continue  # deleted in between
        return limit_bytes - used

    return free
