"""One row of the result table: a target tensor, its counterpart and what was found.

:class:`Row` is the table of all columns. The store's SQL, result.json and its JSON Schema, the
result tables and the pages derive from it (:mod:`goldwatch.store.row_schema`); after a change of
the table ``scripts/row_schema`` writes the files in schemas/ anew.
"""

from __future__ import annotations

import dataclasses
from operator import itemgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
)

from ..base.fast_dataclasses import changed, keyword_dataclass
from ..dumps.place import Place

T = TypeVar("T")

PASS = "pass"
FAIL = "fail"
# As in model/row_plan.py, which the processes that compare do without: they import no model.
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

BOOL_METRICS = ("CosineSimilarity", "RelativeEuclideanDistance", DIFFERENT)
"""The measures that mean something between two bool tensors."""

TOP1, TOP5, MATCHED, IOU = "Top1Agreement", "Top5Agreement", "MatchedBoxes", "MeanIoU"
AGREEMENT_METRICS = (TOP1, TOP5, MATCHED, IOU)
"""How far the outputs of a network agree in classes and boxes
(:mod:`goldwatch.metrics.class_and_box_agreement`).
"""

COUNT, FIRST, ULPS, STRETCHES = (
    "DifferentCount",
    "FirstDifferent",
    "LargestUlps",
    "DifferentStretches",
)
EXACT_METRICS = (DIFFERENT, COUNT, FIRST, ULPS, STRETCHES)
"""What a row of ``--exact`` tells: the share and the number of elements that differ, the place of
the first in the order of the tensor's axes, the largest distance in steps, and how many stretches
they make.
"""

EXACT_LIMIT = "%s<=0" % DIFFERENT
"""The only limit of ``--exact``."""

NOTHING_FINITE = "nothing_finite"
"""Row.warning: no element is finite, on both sides alike, so nothing was compared."""

SAMPLED = "sampled"
"""Row.warning: only a sample of the elements was compared, as was asked for."""

BY_STATISTICS = "statistics"
"""Row.warning: only statistics were compared, for no elements were dumped."""

DEQUANTISED = "dequantised"
ONLY_INPUTS = "only_inputs"
CANCELS_INPUTS = "cancels_inputs"
MASKED = "masked"
FOLLOWS = "decision_follows"
BEHIND = "behind_a_decision"
DEQUANTISED_LATER = "dequantised_later"
AS_OUTPUT = "as_output"
OTHER_LENGTH = "other_length"
OTHER_STEPS = "other_steps"
TARGET_ALONE = "target_alone"
OTHER_ALONE = "other_alone"
OTHER_OPERATORS = "other_operators"
PAIRED_ACROSS = "paired_across"
NETWORK_OUTPUT = "network_output"
HANDED_ON = "handed_on"
FUSED_BEHIND = "fused_behind"
ELEMENTS_DIFFER = "elements_differ"
"""Row.reason_codes, the last four with a value."""

DECIDED_OTHERWISE = "decided_otherwise"
BY_ROUNDING = "by_rounding"
"""Row.warning: it holds decisions near a tie that are others than golden ones, or what follows from
such; golden data do not fit it.
"""


class Column(NamedTuple):
    """One column of a row, as :func:`columns_of` tells of a class.

    Attributes
    ----------
    name
        The attribute, and the column's name in SQL and JSON.
    annotation
        Its Python type as it is written, without ``Optional``; SQL and JSON types follow from it.
    optional
        Whether it may be None.
    meaning
        What it is, in the words of the JSON Schema and of schemas/store.sql.
    choices
        The texts that it may be; empty: any.
    minimum
        The least number that it may be; None: any.
    in_json
        Whether result.json shows it.
    hosts_only
        There in runs of several hosts only.
    of_pair
        Told by the elements of the two tensors: a pair of the same bytes has the same.
    heading
        Its heading in the result tables; empty: not there.
    label
        What the pages call it beside a row; empty: not there as text.
    """

    name: str
    annotation: str
    optional: bool
    meaning: str
    choices: Tuple[str, ...] = ()
    minimum: Optional[int] = None
    in_json: bool = True
    hosts_only: bool = False
    of_pair: bool = False
    heading: str = ""
    label: str = ""


def column(
    meaning: str,
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    **details: Any,
) -> Any:
    """Return the dataclass field of a column; ``details`` as :class:`Column` has them."""
    made: Any = dataclasses.field
    return made(
        default=default,
        default_factory=default_factory,
        metadata={"meaning": meaning, **details},
    )


if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Callable[[T], T]:
        """Tell a type checker, here nobody."""
        return lambda made: made


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(column,))
def row_class(cls: Type[T]) -> Type[T]:
    """Make a frozen dataclass whose fields are given by name: columns that must be given and such
    that need not be stand in any order. A class decorator.
    """
    return keyword_dataclass(cls)


def columns_of(cls: Any) -> List[Column]:
    """Return the columns of a class that was made of :func:`column` fields, in their order."""
    columns = []
    for field in dataclasses.fields(cls):
        annotation = str(field.type)
        optional = annotation.startswith("Optional[")
        annotation = annotation[len("Optional[") : -1] if optional else annotation
        columns.append(Column(field.name, annotation, optional, **field.metadata))
    return columns


@row_class
class Row:
    """One row: the table of its columns, in the order of result.json."""

    host: Optional[str] = column(
        "of a run of several hosts the one that compared it",
        default=None,
        hosts_only=True,
    )
    time: Optional[str] = column(
        "time, device, model, model_id and step are folders of the dump tree; null outside one",
        default=None,
    )
    device: Optional[str] = column("the device's folder", default=None)
    model: Optional[str] = column("the model's folder", default=None)
    model_id: Optional[str] = column("the folder of the model's number", default=None)
    step: Optional[str] = column("the folder of the dump step", default=None)
    index: int = column(
        "number of the group of ops that share their original operators, in the json's order",
        minimum=0,
        heading="Index",
    )
    op_sequence: Optional[int] = column(
        "the op's id in the json, 0 where it has none there; null without a json",
        default=None,
        heading="OpSequence",
    )
    op_type: str = column("the op's type", heading="OpType", label="type")
    op: str = column("the op's name in the json; without a json as in the file's name", label="op")
    group: Tuple[str, ...] = column(
        "all ops that share their original operators, in the json's order",
        default=(),
        heading="NPUDump",
        label="fused with",
    )
    golden: str = column(
        "original names joined by ',', or '*' when there is no counterpart",
        default="*",
        heading="GroundTruth",
        label="in the original model",
    )
    tensor: str = column(
        "TensorIndex: op:input:0, op:output:0, or the op for a row about the whole op",
        heading="TensorIndex",
        label="tensor",
    )
    kind: str = column("what the row is about", choices=("input", "output", "op"))
    tensor_index: Optional[int] = column(
        "number of the input or output; null for a row about the whole op", default=None, minimum=0
    )
    shape: Optional[Tuple[int, ...]] = column(
        "in the golden tensor's layout where compared, else the device's; null when unknown",
        default=None,
        heading="Shape",
        label="shape",
        of_pair=True,
    )
    target_dtype: Optional[str] = column(
        "element type of the target; null when unknown",
        default=None,
        heading="DataType",
        label="target type",
        of_pair=True,
    )
    golden_dtype: Optional[str] = column(
        "element type of the golden tensor; null when unknown",
        default=None,
        heading="DataType",
        label="golden type",
        of_pair=True,
    )
    address: Optional[int] = column(
        "of the target, in bytes, from its dump file's header; null when absent",
        default=None,
        heading="Address",
    )
    golden_address: Optional[int] = column(
        "the same of golden data that are dump files",
        default=None,
        in_json=False,
        heading="Address",
        of_pair=True,
    )
    metrics: Mapping[str, Any] = column(
        'the metrics that were computed, in full precision; "NaN" where there is no result; '
        "metrics of the user's own may be text",
        default_factory=dict,
        of_pair=True,
    )
    worst_slice: Optional[Tuple[int, int]] = column(
        "the slice with the largest distance: an axis of the golden and the index along it; null "
        "where nothing differs or there is one slice only",
        default=None,
        of_pair=True,
    )
    nan: Optional[Dict[str, int]] = column(
        "how many elements are NaN; null when not compared",
        default=None,
        of_pair=True,
    )
    inf: Optional[Dict[str, int]] = column(
        "how many elements are infinite; null when not compared",
        default=None,
        of_pair=True,
    )
    overflow: Optional[bool] = column(
        "whether the op overflowed; null where not checked",
        default=None,
        heading="OverFlow",
        of_pair=True,
    )
    verdict: str = column(
        "what the limits say",
        choices=VERDICTS,
        of_pair=True,
    )
    reason: str = column(
        "notes and causes joined by '; ', may be empty for pass",
        default="",
        heading="CompareFailReason",
        label="reason",
        of_pair=True,
    )
    reason_codes: str = column(
        "codes of those parts of the reason that other verdicts hang on, joined by '; ', some as "
        "CODE=VALUE (docs/reference/results.md); mostly empty",
        default="",
        of_pair=True,
    )
    decided_by: str = column(
        "the limits that decided, written as options have them, joined by '; ': those not met of "
        "a failing row, all that were looked at of a passing one; empty where no limit decided",
        default="",
        label="decided by",
        of_pair=True,
    )
    warning: str = column(
        "empty, or what makes a passing row doubtful: nothing_finite, sampled, statistics, "
        "decided_otherwise",
        default="",
        label="warning",
        of_pair=True,
    )
    cause: str = column(
        "why a row is not_compared: golden_missing, dump_missing (which can be forgiven), corrupt, "
        "changed (a file, while it was compared), shape, dtype, nondeterministic, given (the "
        "golden manifest says so), crashed, by_name (no model tells whether the golden tensor of "
        "its name is its counterpart); else empty",
        default="",
        of_pair=True,
    )
    target_file: Optional[str] = column(
        "relative to TARGET, or absolute; null when there is none",
        default=None,
        label="target file",
    )
    golden_file: Optional[str] = column(
        "relative to GOLDEN, or absolute; null when there is none",
        default=None,
        label="golden file",
    )
    graph_index: int = column("number of the op's graph in the json", default=0, in_json=False)
    timestamp_us: int = column(
        "the target file's, microseconds since 1970: the execution order without a json",
        default=0,
        in_json=False,
    )

    def but(self, **changes: Any) -> Row:
        """Return :func:`goldwatch.base.fast_dataclasses.changed` of the row."""
        return changed(self, **changes)

    def noted(self, text: str, code: str = "", **changes: Any) -> Row:
        """Return the row with changes and one more part of its reason, and the part's code."""
        changes["reason"] = "; ".join(filter(None, (self.reason, text)))
        changes["reason_codes"] = "; ".join(filter(None, (self.reason_codes, code)))
        return changed(self, **changes)

    def code_value(self, code: str) -> Optional[str]:
        """Return the value of a code of the reason, empty where it has none; None where the reason
        does not have the code.
        """
        if code not in self.reason_codes:
            return None
        parts = (part.partition("=") for part in self.reason_codes.split("; "))
        return next((value for name, _, value in parts if name == code), None)

    @property
    def place(self) -> Place:
        """Where in the dump tree the file lies."""
        return Place(self.time, self.device, self.model, self.model_id, self.step, self.host)


OWN = (
    *("address", "golden_address", "worst_slice", "nan", "inf"),
    *("target_file", "timestamp_us"),
)
"""Columns in which the rows of a tensor at several places differ, beside metrics and place."""
SHARED = tuple(
    column.name
    for column in columns_of(Row)
    if column.name not in (*Place._fields, *OWN, "metrics")
)
"""All others: what is made of them is made once for many rows."""
shared_columns, place_columns = itemgetter(*SHARED), itemgetter(*Place._fields[:5])
"""Take the values of these columns, and of a place's without the host, from a row's
``__dict__``.
"""
KEPT_FORMS = 4096
"""What is made of the columns that a tensor's rows share is kept for so many tensors. They come in
the same order at each place, so a cache for fewer than a network has finds none of them again."""
