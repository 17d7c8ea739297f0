"""One row of the result table: a target tensor, its counterpart and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

from ..dumps.place import Place
from ..shared_records import changed, quickly_made

PASS = "pass"
FAIL = "fail"
NOT_COMPARED = "not_compared"
EXPECTED_ABSENT = "expected_absent"
VERDICTS = (PASS, FAIL, NOT_COMPARED, EXPECTED_ABSENT)

GOLDEN_MISSING = "golden_missing"
DUMP_MISSING = "dump_missing"
CORRUPT = "corrupt"
CHANGED = "changed"
BY_NAME = "by_name"
"""Row.cause: what it was compared with bears its name, but only the model could tell whether it is
its counterpart.
"""
MISSING_CAUSES = (GOLDEN_MISSING, DUMP_MISSING)

METRICS = (
    "CosineSimilarity",
    "MaxAbsoluteError",
    "AccumulatedRelativeError",
    "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence",
    "StandardDeviation",
    "MeanAbsoluteError",
    "RootMeanSquareError",
    "MaxRelativeError",
    "MeanRelativeError",
)
WORST_SLICE = "WorstSliceDistance"
DIFFERENT = "DifferentElements"
MEASURES = METRICS + (WORST_SLICE, DIFFERENT)
"""Everything that is measured: the ten metrics of the documented table, and two that have a column
only when they are asked for.
"""

NOTHING_FINITE = "nothing_finite"
"""Row.warning: no element is finite, on both sides alike, so nothing was compared."""

SAMPLED = "sampled"
"""Row.warning: only a sample of the elements was compared, as was asked for."""

BY_STATISTICS = "statistics"
"""Row.warning: only statistics were compared, for no elements were dumped."""

DECIDED_OTHERWISE = "decided_otherwise"
BY_ROUNDING = "by_rounding"
"""Row.warning: it holds decisions near a tie that are others than golden ones, or what follows from
such; golden data do not fit it.
"""


@quickly_made
@dataclass(frozen=True)
class Row:
    """One row, as result.json, the store and the CSV files show it.

    Attributes
    ----------
    time, device, model, model_id, step
        Where in the dump tree the file lies, as the folder names say; None outside a tree.
    index
        The group's number in the json's order, from 0.
    op_sequence
        The op's id in the json (a missing id is 0); None without a json.
    op, op_type
        The op's own name in the json (without json: as in the file name) and its type.
    group
        The names of all ops of the group, in the json's order.
    golden
        The GroundTruth cell: the original names joined by ``,``, or ``*``.
    tensor
        The TensorIndex cell, ``{op}:input:{i}``, ``{op}:output:{i}`` or the op's name for a row
        about the whole op.
    kind, tensor_index
        ``input`` or ``output`` and the number; ``op`` and None for a row about the whole op.
    shape
        In the golden's layout where compared, else the device's; None when unknown.
    target_dtype, golden_dtype
        Names as in the DataType column; None when unknown.
    address, golden_address
        As in the dump's header; None when absent.
    metrics
        Metric name to number (float, not finite allowed); StandardDeviation maps to
        ``{"target": {"mean", "std"}, "golden": {"mean", "std"}}`` or None.
    worst_slice
        (axis, index) of the slice with the largest distance: the golden's axis and the index along
        it; None where nothing differs or the tensor has one slice only.
    nan, inf
        ``{"target": count, "golden": count}``, or None when not compared.
    overflow
        True or False; None where not checked.
    verdict
        ``pass``, ``fail``, ``not_compared`` or ``expected_absent``.
    reason
        Notes and causes joined by ``; `` (may be empty for ``pass``).
    decided_by
        The limits that decided, as texts joined by ``; ``: those that are not met of a failing row,
        all that were looked at of a passing one. Empty where no limit decided.
    warning
        Empty, or what makes a passing row doubtful, for programs: ``nothing_finite``, ``sampled``,
        ``statistics`` or ``decided_otherwise``.
    cause
        Why a row is ``not_compared``, for programs: ``golden_missing`` or ``dump_missing`` (which
        can be forgiven), ``corrupt``, ``changed`` (a file, while it was compared), ``shape``,
        ``dtype``, ``nondeterministic``, ``given`` (the golden manifest says so); else empty.
    target_file, golden_file
        Relative to TARGET and GOLDEN (or absolute); None when there is none.
    timestamp_us
        The target file's timestamp: the execution order without a json.
    graph_index
        The number of the op's graph in the json.
    host
        Of a run of several hosts the one that compared it; else None.
    """

    index: int
    op: str
    op_type: str
    tensor: str
    kind: str
    verdict: str
    tensor_index: Optional[int] = None
    op_sequence: Optional[int] = None
    graph_index: int = 0
    group: Tuple[str, ...] = ()
    golden: str = "*"
    time: Optional[str] = None
    device: Optional[str] = None
    model: Optional[str] = None
    model_id: Optional[str] = None
    step: Optional[str] = None
    shape: Optional[Tuple[int, ...]] = None
    target_dtype: Optional[str] = None
    golden_dtype: Optional[str] = None
    address: Optional[int] = None
    golden_address: Optional[int] = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    worst_slice: Optional[Tuple[int, int]] = None
    nan: Optional[Dict[str, int]] = None
    inf: Optional[Dict[str, int]] = None
    overflow: Optional[bool] = None
    reason: str = ""
    decided_by: str = ""
    warning: str = ""
    cause: str = ""
    target_file: Optional[str] = None
    golden_file: Optional[str] = None
    timestamp_us: int = 0
    host: Optional[str] = None

    def but(self, **changes: Any) -> Row:
        """Return :func:`goldwatch.shared_records.changed` of the row."""
        return changed(self, **changes)

    @property
    def place(self) -> Place:
        """Where in the dump tree the file lies."""
        return Place(self.time, self.device, self.model, self.model_id, self.step, self.host)
