"""The configuration of a stand-in host, host.json in its folder: its chips, and what goes wrong on
it.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict
from typing import Any, Dict, Mapping, Optional, Tuple

from ...base.errors import FormatError, UsageError, require_file
from ...base.fast_dataclasses import dataclass
from ...base.naming import sanitise_device
from ..op_faults import KINDS as OP_FAULTS
from ..op_faults import OpFault
from ..write_faults import KINDS as FILE_FAULTS
from ..write_faults import Fault

HOST_FILE = "host.json"
KNOWN_OPS_FILE = "known_ops.txt"
"""The ops with faults that an om of the host has had, a line each."""
KINDS = {
    "no-device": "the device cannot be opened",
    "out-of-memory": "memory on the device cannot be had",
    "wrong-input-size": "the om wants inputs of 32 bytes more than its json says",
    "other-chip": "the host has another chip than the om was made for",
    "crash": "the process ends with SIGSEGV once half of the dump files are written, or N "
    "(crash:N)",
    "lost-dump": "the dump of OP never comes (lost-dump=OP)",
}
"""Kind to what happens."""
_PLAIN = frozenset(KINDS) - {"lost-dump"}


@dataclass(frozen=True)
class HostConfig:
    """A host.

    Attributes
    ----------
    soc
        Its chip, as --soc_version calls it.
    devices
        How many.
    faults
        Texts: a kind of :data:`KINDS`, with ``=OP`` or ``:N`` where it has one;
        ``KIND=PATTERN[@N]`` of a dump server's (:mod:`goldwatch.testing.write_faults`);
        ``op:NAME=KIND[:N]`` of an op (:mod:`goldwatch.testing.op_faults`).
    delay_s
        A pause behind every dump file.

    Raises
    ------
    UsageError
        A fault is not known.
    """

    soc: str = "Ascend310P3"
    devices: int = 1
    faults: Tuple[str, ...] = ()
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        self.op_faults()
        self.file_faults()

    def has(self, kind: str) -> bool:
        """Tell whether a fault of :data:`KINDS` is there."""
        return any(text.partition(":")[0].partition("=")[0] == kind for text in self.faults)

    def number(self, kind: str) -> Optional[int]:
        """Return N of ``KIND:N``."""
        number_text = next(
            (text.partition(":")[2] for text in self.faults if text.startswith(kind + ":")), ""
        )
        return int(number_text) if number_text.isdigit() else None

    def op_faults(self) -> Dict[str, OpFault]:
        """Return what ops compute wrong."""
        faults = {}
        for text in self.faults:
            if text.startswith("op:"):
                name, _, kind = text[3:].rpartition("=")
                faults[name] = OpFault.parse(kind)
        return faults

    def file_faults(self) -> Tuple[Fault, ...]:
        """Return what goes wrong with the files of dumps."""
        faults = []
        for text in self.faults:
            kind, _, rest = text.partition("=")
            name, colon, number = text.partition(":")
            if kind == "lost-dump" and rest:
                faults.append(Fault("refuse_open", sanitise_device(rest)))
            elif kind in FILE_FAULTS:
                faults.append(Fault.parse(text))
            elif not (
                text.startswith("op:")
                or text in _PLAIN
                or (name == "crash" and colon and number.isdigit())
            ):
                known = ", ".join(
                    [*KINDS, *FILE_FAULTS, "op:NAME=KIND with one of " + ", ".join(OP_FAULTS)]
                )
                raise UsageError("the fault %r is not known" % text, hint="known are " + known)
        return tuple(faults)

    def write(self, folder: str) -> None:
        """Write host.json; what was known of earlier faults goes."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, KNOWN_OPS_FILE))
        with open(os.path.join(folder, HOST_FILE), "w", encoding="utf-8") as stream:
            json.dump(asdict(self), stream, indent=1)

    @classmethod
    def read(cls, folder: str) -> HostConfig:
        """Return the host of a folder; FormatError, MissingPath where there is none."""
        path = os.path.join(folder, HOST_FILE)
        require_file(path, "the stand-in host")
        try:
            with open(path, encoding="utf-8") as stream:
                document: Mapping[str, Any] = json.load(stream)
            return cls(
                document["soc"], document["devices"], tuple(document["faults"]), document["delay_s"]
            )
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError("no stand-in host: %r" % error, path) from None
