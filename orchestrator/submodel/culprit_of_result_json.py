"""Reads the culprit of a comparison or a replay from its result.json."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, Optional

from ..errors import FormatError, InputError, MissingPath
from ..filesystem.safe_reading import read_input

FILE = "result.json"
_LIMIT_BYTES = 1 << 30
GOOD, UNKNOWN = "good", "unknown"
_COMPARED, _NOBODYS = ("pass", "fail"), "*"


@dataclass(frozen=True)
class Outcome:
    """The verdict and culprit of a result.

    Attributes
    ----------
    verdict
        ``pass``, ``fail`` or ``incomplete``.
    op
        The first culprit of a replay, else the first divergence; None where nothing fails.
    inputs
        Whether its inputs are right: ``good`` (also of a replay's culprit, whose error is its own),
        ``bad`` or ``unknown``.
    replayed
        Whether a replay found it.
    compared
        The original's nodes whose ops were compared.
    """

    verdict: str
    op: Optional[str]
    inputs: str
    replayed: bool
    compared: FrozenSet[str] = frozenset()


def read_outcome(folder: str) -> Outcome:
    """Read the result.json of the output folder of a comparison, a watch, a run or a replay (or
    that file itself).

    Raises
    ------
    MissingPath
        There is none.
    FormatError
        It is no such document.
    """
    path = os.path.join(folder, FILE) if os.path.isdir(folder) else folder
    if not os.path.isfile(path):
        raise MissingPath(
            "%s: no %s there" % (folder, FILE),
            hint="name the output folder of a comparison or a replay that has ended",
        )
    try:
        document: Dict[str, Any] = json.loads(read_input(path, _LIMIT_BYTES).decode("utf-8"))
        summary = document["summary"]
        replayed = document.get("comparison") == "replay"
        first = (summary.get("culprits") or [None])[0] if replayed else summary["first_divergence"]
        op = None if first is None else str(first["op"])
        inputs = GOOD if replayed else "" if first is None else str(first["inputs"])
        rows = [
            row
            for row in document["rows"]
            if row["verdict"] in _COMPARED and row["golden"] != _NOBODYS
        ]
        compared = frozenset(str(name) for row in rows for name in row["golden"].split(","))
        return Outcome(str(summary["verdict"]), op, inputs, replayed, compared)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise FormatError("not the result of a comparison: %r" % error, path) from None


def require_op(outcome: Outcome, folder: str) -> str:
    """Return the culprit; raises InputError if nothing fails."""
    if outcome.op is None:
        what = (
            "no operator has an error of its own"
            if outcome.replayed
            else "nothing is outside its limits"
        )
        raise InputError(
            "%s: %s, so there is nothing to cut out" % (folder, what),
            hint="give start and end of the cut yourself",
        )
    return outcome.op
