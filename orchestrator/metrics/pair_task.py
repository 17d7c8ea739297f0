"""A pair that is to be compared, its row before that, what is computed of each, and the pair in
numbers, for its judge; picklable, for the processes that compare.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ..base.fast_dataclasses import changed, dataclass
from ..dumps.golden_set import GoldenEntry
from ..dumps.place import Place
from ..tensors.tensor import Tensor
from ..tensors.user_conversions import UserConversions
from .metric_result import MetricResult
from .rounding_slack import Slack
from .row import DEQUANTISED, METRICS, ONLY_INPUTS, PASS, Row

if TYPE_CHECKING:
    from ..dumps.dump_file import TensorInfo
    from ..dumps.folder_listing import DumpEntry
    from ..model.row_plan import RowPlan
    from .class_and_box_agreement import Agreement
    from .user_metrics import UserMetric
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
    """What is asked of who knows the limits: :class:`goldwatch.judging.row_judge.RowJudge`."""

    def __call__(self, measured: Measurement) -> Row:
        """Return the finished row of a pair that could be compared."""

    def passing(
        self,
        values: Mapping[str, np.ndarray],
        rows: Sequence[Row],
        dtype: str,
        limited_as: str,
    ) -> List[Optional[Tuple[str, str]]]:
        """Return the limits that were looked at, and a remark, of each of n pairs that is within
        all its limits; None of any other.

        Parameters
        ----------
        values
            By metric, [n].
        rows
            As planned.
        dtype
            The element type of all targets.
        limited_as
            As of :class:`Measurement`.
        """

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


@dataclass(frozen=True)
class Settings:
    """What is computed for every pair; picklable.

    Attributes
    ----------
    metrics
        Names, the shown ones and those with limits.
    overflow
        Whether the OverFlow column is wanted.
    judge
        Who knows the limits; None: whatever can be compared passes.
    user_metrics
        The user's own, shown or limited.
    conversions
        The user's own, which win over the built-in ones.
    max_elements
        Of larger tensors only a sample of at most so many elements is compared; 0: everything is.
    exact
        Bytes are compared (:mod:`goldwatch.metrics.bitwise`), and nothing else is computed.
    agreement
        Computes of outputs how far classes and boxes agree; None: of none.
    prepare
        Makes of finished rows what storing them needs, in the process that compared them; None:
        rows stay as they are.
    """

    metrics: Tuple[str, ...] = METRICS
    overflow: bool = False
    judge: Optional[Judge] = None
    user_metrics: Tuple[UserMetric, ...] = ()
    conversions: UserConversions = UserConversions()
    max_elements: int = 0
    prepare: Optional[Callable[[Sequence[Row]], Any]] = None
    exact: bool = False
    agreement: Optional[Agreement] = None


class TensorPlace(NamedTuple):
    """What differs between the places of one planned tensor, as columns of its rows."""

    place: Place
    target_file: Optional[str]
    timestamp_us: int
    address: Optional[int]


@dataclass(frozen=True)
class PairTask:
    """A pair to compare; picklable, small.

    Attributes
    ----------
    planned
        The row but for its findings, at one of the places where the tensor is compared.
    target
        The target tensor.
    golden
        Where the golden tensor is.
    origin_format, origin_shape
        The golden's layout and shape as the json says; None when it does not.
    reshaped
        The shape in which the target is read, where its golden tensor has another with as many
        elements (:class:`RowPlan`).
    as_stored
        Compare element by element as stored on the device, padding included (two dumps of one
        model).
    beside
        Other tensors of the same dump file: of an input the outputs that may lie in its memory, of
        an output of an op that may cancel its inputs those
        (:mod:`goldwatch.metrics.overwriting_and_cancellation`).
    limited_as
        The element type by whose limits and rounding it is judged: the coarsest that its values
        went through; empty: the target's own.
    final
        It is an output of the network: slices of every axis are measured by their own size
        (:class:`goldwatch.metrics.slice_squares.SliceAxis`).
    at
        Where it is compared; None: where ``planned`` is.
    """

    planned: Row
    target: Tensor
    golden: GoldenEntry
    origin_format: Optional[str] = None
    origin_shape: Optional[Tuple[int, ...]] = None
    as_stored: bool = False
    beside: Tuple[Tensor, ...] = ()
    reshaped: Optional[Tuple[int, ...]] = None
    limited_as: str = ""
    final: bool = False
    at: Optional[TensorPlace] = None

    @property
    def row(self) -> Row:
        """The row but for its findings."""
        if self.at is None:
            return self.planned
        # Made where it is compared, once.
        made: Optional[Row] = self.__dict__.get("_row")
        if made is None:
            made = self.__dict__["_row"] = self.row_with({})
        return made

    def row_with(self, findings: Mapping[str, Any]) -> Row:
        """Return the row with its findings."""
        if self.at is None:
            return changed(self.planned, **findings)
        place, target_file, timestamp_us, address = self.at
        return changed(
            self.planned,
            target_file=target_file,
            timestamp_us=timestamp_us,
            address=address,
            **_columns_of(place),
            **findings,
        )

    @property
    def target_file(self) -> Optional[str]:
        """The target file as its row has it."""
        return self.planned.target_file if self.at is None else self.at.target_file

    @property
    def nbytes(self) -> int:
        """Bytes of the target tensor, as a measure of the work."""
        return self.target.source.nbytes


@lru_cache(maxsize=512)
def _columns_of(place: Place) -> Dict[str, Optional[str]]:
    return place._asdict()


def planned_row(
    plan: RowPlan, place: Place, entry: Optional[DumpEntry], info: Optional[TensorInfo] = None
) -> Row:
    """Return the row of a planned tensor but for its findings; ``entry`` is its dump file and
    ``info`` its header's, where it has one.
    """
    # Comparing processes import no model.
    from ..model.row_plan import PAIR

    return Row(
        index=plan.index,
        op=plan.op,
        op_type=plan.op_type,
        tensor=plan.tensor,
        kind=plan.kind,
        verdict=PASS if plan.status == PAIR else plan.status,
        tensor_index=plan.tensor_index,
        op_sequence=plan.op_sequence,
        graph_index=plan.graph_index,
        group=plan.group or (plan.op,),
        golden=plan.golden,
        time=place.time,
        device=place.device,
        model=place.model,
        model_id=place.model_id,
        step=place.step,
        shape=info.shape if info is not None else None,
        target_dtype=info.dtype.name if info is not None else None,
        address=info.address if info is not None else None,
        reason=plan.reason,
        reason_codes=DEQUANTISED
        if plan.quantisation is not None
        else ONLY_INPUTS
        if plan.only_inputs
        else "",
        target_file=entry.rel if entry is not None else None,
        timestamp_us=entry.name.timestamp_us if entry is not None else 0,
    )
