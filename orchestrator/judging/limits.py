"""Limits of the metrics: per metric, and per element type of the target, op type or op.

Where the default limits come from: docs/reference/metrics.md. In short, the largest distances that
healthy networks reached on simulated devices (float16 0.019 of the whole and 0.031 of the worst
slice, bfloat16 0.11 and 0.28, float32 with shortened inputs 0.008 and 0.013, int8 0.23 and 0.60),
widened, and tried on 20,000 healthy and 20,000 broken tensors (scripts/verdict_trial,
docs/design/verdict.md). Widened further by that trial: bfloat16's worst slice, which a vector of
healthy values brought to 0.43. The ``vendor`` limits are the usual thresholds of the vendor's
public documents on dump comparison.
"""

from __future__ import annotations

import math
import operator
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Optional,
    Tuple,
)

from ..base.fast_dataclasses import dataclass
from ..dumps import tensor_statistics as statistics
from ..metrics.row import AGREEMENT_METRICS, DIFFERENT, MEASURES

# Subjects whose limits are remembered, then all are forgotten: it bounds memory. Chosen, no trial.
_MOST_KNOWN = 4096

LARGER = ">"
SMALLER = "<"
AT_MOST = "<="
AT_LEAST = ">="
LIMITED = (*(name for name in MEASURES if name != "StandardDeviation"), *statistics.MEASURES)
SELECTORS = ("dtype", "type", "op")
"""What a limit may be restricted to, the weakest first; a limit without any is weaker still."""

RULES = "rules"
BASE = "base"
NO_BASE = "none"

COMPARISONS = {
    LARGER: operator.gt,
    AT_LEAST: operator.ge,
    SMALLER: operator.lt,
    AT_MOST: operator.le,
}
RANGES = {
    **dict.fromkeys(LIMITED, (0.0, math.inf)),
    "CosineSimilarity": (-1.0, 1.0),
    DIFFERENT: (0.0, 1.0),
}
"""The lowest and the highest value that a metric can have."""


@dataclass(frozen=True)
class Limit:
    """One metric's limit.

    Attributes
    ----------
    metric
        Its name.
    comparison, value
        The metric must be strictly larger (``>``), at least (``>=``), strictly smaller (``<``) or
        at most (``<=``) the value.
    selector
        ``""``: every tensor; ``dtype``, ``type`` or ``op``: those whose target's element type, op
        type or op matches the pattern.
    pattern
        The name itself or a glob (``*``, ``?``, ``[…]``).
    """

    metric: str
    comparison: str
    value: float
    selector: str = ""
    pattern: str = ""

    def met(self, value: float) -> bool:
        """Tell whether ``value`` is within the limit; NaN never is."""
        return bool(COMPARISONS[self.comparison](value, self.value))

    @property
    def wants_large(self) -> bool:
        """Tell whether larger values of the metric are better."""
        return self.comparison in (LARGER, AT_LEAST)

    @property
    def possible(self) -> bool:
        """Tell whether any value that the metric can have is within the limit; of a metric of the
        user's own nothing is known.
        """
        lowest, highest = RANGES.get(self.metric, (-math.inf, math.inf))
        return self.met(highest if self.wants_large else lowest)

    @property
    def is_backwards(self) -> bool:
        """Tell whether it asks for worse values than its own; of a metric of the user's own nobody
        knows which are.
        """
        known = self.metric in RANGES or self.metric in AGREEMENT_METRICS
        return known and self.wants_large != (natural_comparison(self.metric) in (LARGER, AT_LEAST))

    def matches(self, subject: Subject) -> bool:
        """Tell whether the limit is for this tensor."""
        if not self.selector:
            return True
        name = {"dtype": subject.dtype, "type": subject.op_type, "op": subject.op}[self.selector]
        if self.selector == "dtype" and subject.behind and self in _DEFAULT_LIMITS:
            name = subject.behind
        return name == self.pattern or fnmatchcase(name, self.pattern)

    @property
    def is_for_one_op(self) -> bool:
        """Tell whether the limit is for the op of just this name."""
        return self.selector == "op" and not any(sign in self.pattern for sign in "*?[")

    @property
    def key(self) -> str:
        """``dtype=…``, ``type=…`` or ``op=…``; empty for every tensor."""
        return "%s=%s" % (self.selector, self.pattern) if self.selector else ""

    def __str__(self) -> str:
        return "%s%s%s%.9g" % (
            self.key + ":" if self.selector else "",
            self.metric,
            self.comparison,
            self.value,
        )


@dataclass(frozen=True)
class Subject:
    """What a limit may be restricted to: the target's element type (as in the DataType column), the
    op's type and name; and the coarsest type that the target's values went through, where that is
    another, by which default limits are chosen.
    """

    dtype: str = ""
    op_type: str = ""
    op: str = ""
    behind: str = ""


ANY = Subject()


def best_value(metric: str) -> Optional[float]:
    """Return what a metric is of two equal tensors; None of a metric of the user's own."""
    if metric not in RANGES:
        return None
    return RANGES[metric][natural_comparison(metric) == LARGER]


def natural_comparison(metric: str) -> str:
    """Return ``>`` for CosineSimilarity, ``<=`` for DifferentElements, ``>=`` for what classes and
    boxes agree in, ``<`` for all others.
    """
    comparisons = {
        "CosineSimilarity": LARGER,
        DIFFERENT: AT_MOST,
        statistics.NOT_FINITE: AT_MOST,
        **dict.fromkeys(AGREEMENT_METRICS, AT_LEAST),
    }
    return comparisons.get(metric, SMALLER)


def _column(metric: str) -> int:
    """Return a metric's place among the columns; the user's own come behind the others, in the
    order in which they are met.
    """
    return LIMITED.index(metric) if metric in LIMITED else len(LIMITED)


def _three(cosine: float, distance: float, slices: float, *dtypes: str) -> Tuple[Limit, ...]:
    values = (
        ("CosineSimilarity", cosine),
        ("RelativeEuclideanDistance", distance),
        ("WorstSliceDistance", slices),
    )
    return tuple(
        Limit(metric, natural_comparison(metric), value, "dtype" if dtype else "", dtype)
        for dtype in dtypes
        for metric, value in values
    )


def _statistical(mean: float, norm: float, ends: float, *dtypes: str) -> Tuple[Limit, ...]:
    values = ((statistics.MEAN, mean), (statistics.NORM, norm), (statistics.RANGE, ends))
    return tuple(
        Limit(metric, SMALLER, value, "dtype" if dtype else "", dtype)
        for dtype in dtypes
        for metric, value in values
    )


# The largest distances of 106 healthy runs, and what they let through: docs/reference/metrics.md
# (limits) and docs/design/verdict.md (single tensors).
DEFAULTS = (
    *_three(0.99, 0.03, 0.15, ""),
    Limit(DIFFERENT, AT_MOST, 0.0),
    *_three(0.97, 0.2, 0.5, "bfloat16"),
    *_three(
        0.95,
        0.3,
        0.7,
        "int8",
        "uint8",
        "int4",
        "hifloat8",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e8m0fnu",
    ),
)

STATISTICAL = (
    Limit(statistics.NOT_FINITE, AT_MOST, 0.0),
    *_statistical(0.007, 0.03, 0.03, ""),
    *_statistical(0.06, 0.15, 0.2, "bfloat16"),
    *_statistical(
        0.1,
        0.2,
        0.3,
        "int8",
        "uint8",
        "int4",
        "hifloat8",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e8m0fnu",
    ),
    *_statistical(0.1, 0.1, 0.1, "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"),
)
"""Those of statistics, of which LeastDistance has the limit of RelativeEuclideanDistance. Where
they come from: docs/design/trials.md.
"""

_DEFAULT_LIMITS = frozenset((*DEFAULTS, *STATISTICAL))

# Those of the vendor's documents (--limits vendor).
VENDOR = (
    Limit("CosineSimilarity", LARGER, 0.99),
    Limit("RelativeEuclideanDistance", SMALLER, 0.05),
    Limit("KullbackLeiblerDivergence", SMALLER, 0.005),
    Limit("RootMeanSquareError", SMALLER, 1.0),
    Limit("MeanRelativeError", SMALLER, 1.0),
)


@dataclass(frozen=True)
class Limits:
    """The limits of a run; of several that match a tensor, op beats type beats dtype beats plain,
    and the later wins a tie.
    """

    entries: Tuple[Limit, ...] = DEFAULTS
    _by_subject: Dict[Tuple[str, str, str, str], Tuple[Limit, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _by_op: Dict[str, List[Tuple[int, Limit]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _selectors: FrozenSet[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The class is frozen for its users.
        self.__dict__["_selectors"] = frozenset(limit.selector for limit in self.entries)

    @property
    def metrics(self) -> Tuple[str, ...]:
        """The limited metrics: these are computed and judged whatever columns are shown."""
        return tuple(sorted(dict.fromkeys(limit.metric for limit in self.entries), key=_column))

    def get(self, metric: str) -> Optional[Limit]:
        """Return the limit of ``metric`` for every tensor, or None."""
        return next(
            (
                limit
                for limit in reversed(self.entries)
                if limit.metric == metric and not limit.selector
            ),
            None,
        )

    def for_subject(self, subject: Subject) -> Tuple[Limit, ...]:
        """Return the limits that hold for a tensor, at most one a metric, in the order of the
        columns.
        """
        # By what limits ask for only: then a network's ops have few answers between them.
        key = (
            subject.dtype,
            subject.op_type if "type" in self._selectors else "",
            subject.op if "op" in self._selectors else "",
            subject.behind,
        )
        limits = self._by_subject.get(key)
        if limits is None:
            if len(self._by_subject) >= _MOST_KNOWN:
                self._by_subject.clear()
            limits = self._by_subject[key] = self._for_subject(Subject(*key))
        return limits

    def _for_subject(self, subject: Subject) -> Tuple[Limit, ...]:
        best: Dict[str, Tuple[int, int]] = {}
        ranks = {"": 0, **{selector: rank for rank, selector in enumerate(SELECTORS, 1)}}
        for number, limit in self._candidates(subject.op):
            rank = (ranks[limit.selector], number)
            if rank > best.get(limit.metric, (-1, -1)) and limit.matches(subject):
                best[limit.metric] = rank
        return tuple(self.entries[best[metric][1]] for metric in sorted(best, key=_column))

    def _candidates(self, op: str) -> List[Tuple[int, Limit]]:
        """Return what may be for an op, with its number: there may be limits for each op of a large
        network, which are looked up.
        """
        if not self._by_op:
            self._by_op[""] = []
            for number, limit in enumerate(self.entries):
                self._by_op.setdefault(limit.pattern if limit.is_for_one_op else "", []).append(
                    (number, limit)
                )
        return self._by_op[""] + (self._by_op.get(op, []) if op else [])

    def for_op(self, op_type: str, op: str) -> Tuple[Limit, ...]:
        """Return the limits for single op types and ops that are for this one."""
        if not self._selectors.intersection(("type", "op")):
            return ()
        candidates = [
            entry for entry in self._candidates(op) if entry[1].selector in ("type", "op")
        ]
        subject = Subject("", op_type, op)
        return tuple(
            limit
            for _, limit in sorted(candidates, key=lambda entry: entry[0])
            if limit.matches(subject)
        )

    def replaced(self, limit: Limit) -> Limits:
        """Return the same limits with this one put in the place of any with the same metric and
        selector, or behind all. A default limit of a type stays for values that went through it.
        """
        others = tuple(
            entry
            for entry in self.entries
            if (entry.metric, entry.key) != (limit.metric, limit.key)
            or (entry != limit and entry.selector == "dtype" and entry in _DEFAULT_LIMITS)
        )
        return Limits(others + (limit,))

    def overlaid(self, limits: Iterable[Limit]) -> Limits:
        """Return the limits that a user wants changed by ``limits``, in their order.

        A limit for every tensor takes the place of all that stood for its metric before, those of
        single types too.
        """
        changes = tuple(limits)
        plain_metrics = {limit.metric for limit in changes if not limit.selector}
        overlaid = Limits(
            tuple(entry for entry in self.entries if entry.metric not in plain_metrics)
        )
        for limit in changes:
            overlaid = overlaid.replaced(limit)
        return overlaid

    def document(self) -> Dict[str, Any]:
        """Return the table as result.json shows it and a limits file holds it
        (schemas/limits.schema.json).
        """
        table: Dict[str, Any] = {BASE: NO_BASE}
        for limit in sorted(self.entries, key=lambda entry: _column(entry.metric)):
            if not limit.selector:
                table[limit.metric] = {limit.comparison: _plain(limit.value)}
        rules: List[Dict[str, Any]] = []
        for limit in self.entries:
            if not limit.selector:
                continue
            if (
                not rules
                or rules[-1].get(limit.selector) != limit.pattern
                or limit.metric in rules[-1]
            ):
                rules.append({limit.selector: limit.pattern})
            rules[-1][limit.metric] = {limit.comparison: _plain(limit.value)}
        if rules:
            table[RULES] = rules
        return table


@lru_cache(maxsize=16)
def for_statistics(limits: Limits) -> Limits:
    """Return the limits of rows that are judged by statistics: STATISTICAL, with the user's own in
    their places; none where none hold.
    """
    if not limits.entries:
        return limits
    least = (
        replace(limit, metric=statistics.LEAST)
        for limit in limits.entries
        if limit.metric == "RelativeEuclideanDistance"
    )
    of_user = (limit for limit in limits.entries if limit.metric in statistics.MEASURES)
    return Limits((*least, *STATISTICAL)).overlaid(of_user)


def _plain(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "Infinity" if value > 0 else "-Infinity"
