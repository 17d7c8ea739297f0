"""Of many rows the worst ones, by how far they are from golden data."""

from __future__ import annotations

import math
from typing import List, Tuple

from ..judging.metric_text import metric_number
from ..metrics.row import FAIL, Row


def error_of(row: Row) -> float:
    """Return how far a row is from golden data: its RelativeEuclideanDistance; infinite where it
    fails without a number of that.
    """
    distance = metric_number(row.metrics.get("RelativeEuclideanDistance"))
    if math.isnan(distance):
        return math.inf if row.verdict == FAIL else 0.0
    return distance


class WorstRows:
    """The worst of the rows that were added, of two alike the earlier one.

    Parameters
    ----------
    most
        Keep at most so many.

    Attributes
    ----------
    total
        How many were added.
    """

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._worst: List[Tuple[float, int, Row]] = []

    def add(self, row: Row) -> None:
        """See one more row."""
        self._worst.append((-error_of(row), self.total, row))
        self.total += 1
        if len(self._worst) > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        self._worst = sorted(self._worst, key=lambda entry: entry[:2])[: self._most]

    @property
    def rows(self) -> List[Row]:
        """The rows that were kept, the worst first."""
        self._cut()
        return [row for _, _, row in self._worst]
