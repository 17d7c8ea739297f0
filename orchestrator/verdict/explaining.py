"""The explanations of the first suspects: their rows, and their tensors read again."""

from __future__ import annotations

from typing import Callable, Iterable, List, Optional, Sequence, Tuple

from ..compare.patterns.pair import AlignedPair
from ..compare.row import Row
from .estimates import Estimate
from .explanations import explanations_of
from .suspects import Suspect, with_explanations

MOST_READ = 3
"""Suspects of which the tensors are read again."""

ReadPair = Callable[[Row], Optional[AlignedPair]]


def explained(found: Sequence[Tuple[Suspect, Estimate]], rows: Iterable[Row], read: Optional[ReadPair]) -> List[Suspect]:
    """Return the suspects, the first ones with explanations.

    Parameters
    ----------
    found
        Suspects, best first, each with its estimate.
    rows
        The run's rows; walked once.
    read
        As for :func:`goldwatch.verdict.summary.summarise`.
    """
    wanted = {(suspect.place, suspect.tensor, estimate.op.file): None for suspect, estimate in found[:MOST_READ]}
    first = {}
    for row in rows:
        key = (row.place, row.tensor, row.target_file or "")
        if key in wanted:
            first[key] = row
    suspects = []
    for suspect, estimate in found:
        row = first.get((suspect.place, suspect.tensor, estimate.op.file))
        if row is None:
            suspects.append(suspect)
            continue
        pair = read(row) if read is not None else None
        suspects.append(with_explanations(suspect, explanations_of(estimate, row, pair)))
    return suspects
