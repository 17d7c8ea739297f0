"""What the output of a runner that failed means, and what to do.

Sources of the texts: public sources and issues of ais_bench, msame and programs on AscendCL; the
vendor's public list of return codes.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional, Tuple

from ..filesystem.inputs import open_input
from ..naming import printable

_TAIL_BYTES = 64 << 10


class Failure(NamedTuple):
    """Why a program failed: a sentence, and what to do."""

    message: str
    hint: str


_KNOWN: Tuple[Tuple[str, Failure], ...] = (
    (
        r"soc[ _]?version.{0,40}?(?:error|=|is|not|does)|ModelCheckCompatibility",
        Failure(
            "the om was made for another chip than the device's",
            "convert the model with the --soc_version of the device (npu-smi info names it)",
        ),
    ),
    (
        r"(?:open|set) ?_?device.{0,30}fail|invalid device|\b(?:507033|107001)\b",
        Failure(
            "the device cannot be opened",
            "npu-smi info lists the devices and who uses them, --device takes another; this "
            "user must be allowed to",
        ),
    ),
    (
        r"fail\w* to allocate memory|memory .{0,20}insufficient|malloc "
        r".{0,20}fail|\b(?:207001|207018)\b",
        Failure(
            "memory on the device ran out",
            "npu-smi info tells who holds it; take another --device, or a smaller batch",
        ),
    ),
    (
        r"(?:tensor|file|model|input|needed) ?size.{0,80}not (?:match|equal)|has \d+ bytes, "
        r"the om wants \d+",
        Failure(
            "the om takes an input of another size than its json says",
            "is it the json of this om? Without -f it is made anew; dynamic sizes are told "
            "with --shapes",
        ),
    ),
    (
        r"No module named '?(?:aclruntime|acl)\b|libascendcl\.so.{0,40}cannot open",
        Failure(
            "the toolkit is not in this shell's environment",
            "source the toolkit's set_env.sh first",
        ),
    ),
)
"""By what a line of the output holds; the first counts."""


def failure_of(log: str) -> Optional[Failure]:
    """Return what the end of a program's output means; None where nothing of it is known."""
    try:
        with open_input(log) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return None
    lines = text.splitlines()
    for pattern, failure in _KNOWN:
        line = next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None)
        if line is not None:
            return failure._replace(
                message="%s (%s)" % (failure.message, printable(line.strip()[:200]))
            )
    return None
