"""The measurement of one pair, in numbers, and what a judge of it must offer
(:mod:`goldwatch.judging` has the judge).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Tuple

from ..fast_dataclasses import dataclass
from .metric_result import MetricResult
from .rounding_slack import Slack
from .row import Row

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object


@dataclass(frozen=True)
class Measurement:
    """A pair in numbers.

    Attributes
    ----------
    row
        The row with all findings but what the judge adds to it: verdict, reason and decided_by. Its
        reason is that of the plan.
    result
        The metrics.
    limited_as
        The element type by whose limits the pair is judged.
    order
        ``C`` or ``F``, the golden tensor's.
    slack
        What the rounding of the two types alone may change.
    notes
        Remarks on how the two were laid side by side.
    against_inputs
        Measures an output once more, with as much slack as the rounding of the inputs in the same
        dump makes that cancel each other
        (:mod:`goldwatch.metrics.overwriting_and_cancellation`); None where they do not, or nothing
        is left.
    """

    row: Row
    result: MetricResult
    limited_as: str
    order: str
    slack: Slack
    notes: Sequence[str]
    against_inputs: Callable[[], Optional[MetricResult]]


class Judge(Protocol):
    """Who knows the limits: :class:`goldwatch.judging.row_judge.RowJudge`."""

    def __call__(self, measured: Measurement) -> Row:
        """Return the finished row of a pair that could be compared."""

    def of_input(self, planned: Row, row: Row, overwritten: Callable[[], bool]) -> Row:
        """Return the row of an input whose memory may hold what the op wrote.

        Parameters
        ----------
        planned, row
            Before and after it was judged; of any other tensor the row is returned as it is.
        overwritten
            Looks whether the input equals an output byte for byte.
        """

    def of_statistics(self, row: Row, dtype: str, whole: bool) -> Row:
        """Return the finished row of a tensor of which only statistics are known.

        Parameters
        ----------
        dtype
            The element type by whose limits it is judged.
        whole
            Whether neither side holds floating point numbers.
        """

    def alike(self, row: Row) -> Tuple[Any, ...]:
        """Return equal values for rows of which equal findings are judged alike."""
