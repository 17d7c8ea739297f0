"""The file name of each golden tensor: plain, parked for a collision, or hashed for its length;
decided before anything is written.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Set, Tuple

from ..base.errors import InputError
from ..base.fast_dataclasses import dataclass
from ..base.naming import (
    compose_golden_name,
    fits,
    hash_digits,
    parked_name,
    printable,
    sanitise_golden,
)

Owner = Tuple[str, str]
Key = Tuple[Owner, int]


@dataclass(frozen=True)
class FileName:
    """The name of one golden file.

    Attributes
    ----------
    file
        The name on disk.
    listed
        ``{op}.{index}.{timestamp}.npy``; other than ``file`` where mapping.csv must resolve it.
    parked
        Whether another op has the same sanitised name.
    """

    file: str
    listed: str
    parked: bool

    @property
    def hashed(self) -> bool:
        """Whether the name on disk is a hash that mapping.csv resolves."""
        return self.file != self.listed


def name_warnings(collisions: Mapping[str, Any], what: str) -> List[str]:
    """Return a sentence for each name that several ``what`` share, and for each that is too long
    for a file.

    Parameters
    ----------
    collisions
        ``collisions`` and ``too_long`` of :class:`GoldenNames`.
    """
    text = (
        "%s %s share the golden name %s: each has a hash name (mapping.csv), "
        "and pairs by its exact name as long as manifest.json is there"
    )
    warnings = [
        text % (what, ", ".join(names), op) for op, names in collisions["collisions"].items()
    ]
    return warnings + [
        "%s: its file name is over 255 bytes, so it has a hash name (mapping.csv)" % name
        for name in collisions["too_long"]
    ]


class GoldenNames:
    """The names of one golden folder.

    An op whose sanitised name another op shares is parked: each of its files has a hash name,
    listed as ``{op}-parked-{N}.{index}.{timestamp}.npy``, so that no reader takes it for either op.
    A name longer than 255 bytes has a hash name too.

    Parameters
    ----------
    suffix
        Of the files: ``npy`` or ``quant``.

    Attributes
    ----------
    collisions
        ``{sanitised name: original names}`` of the ops that are parked.
    too_long
        Every ``(original name, output index)`` whose file name is over 255 bytes.
    """

    def __init__(self, suffix: str = "npy") -> None:
        self.suffix = suffix
        self.collisions: Dict[str, List[str]] = {}
        self.too_long: List[Tuple[str, int]] = []
        self._parked: Dict[Owner, str] = {}
        self._reserved: Set[Key] = set()

    def reserve(self, names: Iterable[Tuple[Any, ...]]) -> None:
        """Add ``(original op name, output index)`` or ``(…, …, identity)`` and decide anew who is
        parked.

        Raises
        ------
        InputError
            A name is empty, or the same op and index is named twice (two tensors would be one
            file).
        """
        for entry in names:
            owner, index = (str(entry[0]), str(entry[2]) if len(entry) > 2 else ""), int(entry[1])
            if not owner[0]:
                raise InputError("output %d of an op without a name cannot be saved" % index)
            if (owner, index) in self._reserved:
                raise InputError(
                    "%s: output %d appears twice" % (printable(owner[0]), index),
                    hint="give the ops distinct names",
                )
            self._reserved.add((owner, index))
        self._plan()

    def __len__(self) -> int:
        return len(self._reserved)

    def __contains__(self, key: Key) -> bool:
        return key in self._reserved

    def _plan(self) -> None:
        groups: Dict[str, List[Owner]] = {}
        for owner in sorted({owner for owner, _ in self._reserved}):
            groups.setdefault(sanitise_golden(owner[0]), []).append(owner)
        shared = {op: owners for op, owners in groups.items() if len(owners) > 1}
        self.collisions = {op: [owner[0] for owner in owners] for op, owners in shared.items()}
        self._parked = {}
        for op, owners in shared.items():
            number = 0
            for owner in owners:
                number += 1
                while parked_name(op, number) in groups:
                    number += 1
                self._parked[owner] = parked_name(op, number)
        free = sorted(key for key in self._reserved if key[0] not in self._parked)
        self.too_long = [
            (owner[0], index)
            for owner, index in free
            if not fits(compose_golden_name(owner[0], index, 0, self.suffix))
        ]

    def file_name(
        self, owner: Owner, index: int, timestamp_us: int, mapping: Dict[str, str]
    ) -> FileName:
        """Return the name of one file.

        Parameters
        ----------
        mapping
            The lines of mapping.csv so far, ``{file: listed}``: a hash that stands for another name
            there is not used again.
        """
        listed = compose_golden_name(
            self._parked.get(owner, owner[0]), index, timestamp_us, self.suffix
        )
        parked = owner in self._parked
        if not parked and fits(listed):
            return FileName(listed, listed, False)
        text = listed
        while True:
            name = "%s.%s" % (hash_digits(text), self.suffix)
            if mapping.get(name, listed) == listed:
                return FileName(name, listed, parked)
            text += "+"
