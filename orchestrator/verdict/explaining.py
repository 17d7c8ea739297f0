"""The explanations of the first suspects: their rows, and their tensors read again."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..comparing.patterns import AlignedPair
from ..comparing.row import FAIL, PASS, Row
from ..dumps.place import Place
from .estimates import Estimate
from .explanations import explanations_of
from .suspects import Suspect, with_explanations

MOST_READ = 3
"""Suspects of which the tensors are read again."""

_MOST_OTHERS = 8

_Key = Tuple[Place, str, str]


class TensorReader:
    """Reads the tensors of finished rows again; this one can read nothing."""

    def pair(self, row: Row) -> Optional[AlignedPair]:
        """Return a row's target and golden elements, or None where they cannot be read any more."""
        return None

    def stale(self, row: Row) -> str:
        """Return a sentence where a row's dump is older than the model file; empty where it is not."""
        return ""


def explained(found: Sequence[Tuple[Suspect, Estimate]], rows: Iterable[Row], reader: TensorReader) -> List[Suspect]:
    """Return the suspects, the first ones with explanations.

    Parameters
    ----------
    found
        Suspects, best first, each with its estimate.
    rows
        The run's rows; walked twice at most.
    reader
        Reads their tensors again.
    """
    wanted = {_key_of(suspect, estimate) for suspect, estimate in found[:MOST_READ]}
    own = {_key(row): row for row in rows if row.kind == "output" and _key(row) in wanted}
    others = _others(list(own.values()), rows)
    suspects = []
    for suspect, estimate in found:
        row = own.get(_key_of(suspect, estimate))
        if row is not None:
            explanations = explanations_of(estimate, row, reader.pair(row), _golden(others[_key(row)], reader), reader.stale(row))
            suspect = with_explanations(suspect, explanations)
        suspects.append(suspect)
    return suspects


def _key(row: Row) -> _Key:
    return row.place, row.tensor, row.target_file or ""


def _key_of(suspect: Suspect, estimate: Estimate) -> _Key:
    return suspect.place, suspect.tensor, estimate.op.file


def _others(suspects: Sequence[Row], rows: Iterable[Row]) -> Dict[_Key, List[Row]]:
    """Return, for each suspect's row, the rows of other golden tensors of its shape, nearest in the json's order."""
    shapes = {(row.place, row.shape) for row in suspects}
    alike: Dict[Any, List[Row]] = {}
    for row in rows:
        if row.kind == "output" and row.verdict in (PASS, FAIL) and (row.place, row.shape) in shapes:
            alike.setdefault((row.place, row.shape), []).append(row)
    found = {}
    for row in suspects:
        others = [other for other in alike.get((row.place, row.shape), []) if other.golden_file != row.golden_file]
        found[_key(row)] = sorted(others, key=lambda other, index=row.index: abs(other.index - index))[:_MOST_OTHERS]  # type: ignore[misc]
    return found


def _golden(rows: Sequence[Row], reader: TensorReader) -> Iterable[Tuple[str, Any]]:
    """Yield names and values of golden tensors, as far as they are small enough to be read whole."""
    for row in rows:
        pair = reader.pair(row)
        if pair is not None and not pair.sampled:
            yield row.golden, pair.golden
