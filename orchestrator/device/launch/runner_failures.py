"""What the output of a runner that failed means, and what to do.

Sources of the texts: public sources and issues of ais_bench, msame and programs on AscendCL; the
vendor's public list of return codes.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional, Sequence, Tuple

from ...base.naming import printable
from ...base.safe_reading import open_input

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

_NOT_LOADED = Failure(
    "the om cannot be loaded",
    "is it whole, and made by this toolkit's atc? atc --mode=1 --om=FILE.om --json=FILE.json "
    "reads it without a device",
)
_LOADING = re.compile(r"load model.{0,40} fail|fail\w* to load (?:the )?model", re.IGNORECASE)
_ERROR = re.compile(
    r"\b(?:\w*error|fail\w*|exception|fatal|cannot|E[A-Z]?\d{4,5})\b", re.IGNORECASE
)
_LINE_CHARACTERS = 200


def failure_of(log: str) -> Optional[Failure]:
    """Return what the end of a program's output means, with its own words; None where it says
    nothing of an error.
    """
    try:
        with open_input(log) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern, failure in _KNOWN:
        line = next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None)
        if line is not None:
            return failure._replace(message="%s (%s)" % (failure.message, _shown([line])))
    errors = [line for line in lines if _ERROR.search(line)]
    if not errors:
        return None
    # The first line tells the cause, the last one its consequence.
    words = _shown(list(dict.fromkeys([errors[0], errors[-1]])))
    if any(map(_LOADING.search, lines)):
        return _NOT_LOADED._replace(message="%s (%s)" % (_NOT_LOADED.message, words))
    return Failure("its output ends so: %s" % words, "all of it is in %s" % log)


def _shown(lines: Sequence[str]) -> str:
    return " / ".join(printable(line[:_LINE_CHARACTERS]) for line in lines)
