"""Limits of the metrics: per metric, and per element type of the target, op type or op; and how
they are read from the texts of options and from documents: those that no tensor can meet, or that
ask for what is worse, are refused.

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
import re
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import (
    Any,
    Collection,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ..base.element_types import ELEMENTS
from ..base.errors import InputError, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.naming import nearest_names
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


_FORM = re.compile(
    r"\s*(?:(?P<selector>dtype|type|op)=(?P<pattern>.*):)?\s*(?P<metric>[^=<>:]*?)\s*(?P<sign><=|>=|[=<>])(?P<value>[^:]*)\Z",
    re.DOTALL,
)
FORMS_HINT = (
    "write METRIC=VALUE, 'METRIC<VALUE', 'METRIC<=VALUE', 'METRIC>VALUE' or 'METRIC>=VALUE', "
    "before it where wanted dtype=TYPE:,"
    " type=OPTYPE: or op=NAME:"
)
OWN_HINT = " (one of your own is known where its folder is given)"
_SCHEMA_HINT = "schemas/limits.schema.json describes the form"
_DOCUMENT_HINT = "a metric's limit is one comparison and its number, such as {%r: {%r: %r}}"
_DTYPES = tuple(dict.fromkeys(element.name for element in ELEMENTS))
_NON_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf}


def limits_from_document(document: Mapping[str, Any], others: Collection[str] = ()) -> Limits:
    """Return the limits that :meth:`Limits.document` made the document of; ``others`` as for
    :func:`limits_with`.

    Raises
    ------
    InputError
        The document is not of that form.
    """
    return Limits(_entries_of(document, others))


def _entries_of(document: Mapping[str, Any], others: Collection[str] = ()) -> Tuple[Limit, ...]:
    """Return the limits of a document in its order, its base left out."""
    plain = tuple(
        _limit_of(metric, entry, others)
        for metric, entry in document.items()
        if metric not in (BASE, RULES)
    )
    rules = document.get(RULES, [])
    if not isinstance(rules, list):
        raise InputError("limits: rules: a list was expected, got %r" % (rules,), hint=_SCHEMA_HINT)
    return plain + tuple(limit for rule in rules for limit in _limits_of_rule(rule, others))


def _limits_of_rule(rule: Any, others: Collection[str]) -> Tuple[Limit, ...]:
    selectors = [
        name
        for name in SELECTORS
        if isinstance(rule, Mapping) and isinstance(rule.get(name), str) and rule[name]
    ]
    if len(selectors) != 1:
        raise InputError(
            "limits: %r: a rule names one of %s" % (rule, ", ".join(SELECTORS)), hint=_SCHEMA_HINT
        )
    selector = selectors[0]
    return tuple(
        _limit_of(metric, entry, others, selector, rule[selector])
        for metric, entry in rule.items()
        if metric != selector
    )


def _limit_of(
    metric: str, entry: Any, others: Collection[str], selector: str = "", pattern: str = ""
) -> Limit:
    if metric not in LIMITED and metric not in others:
        hint = _SCHEMA_HINT if metric in MEASURES else _known_hint(str(metric), others)
        raise InputError("limits: %r: %r is not a limit" % (metric, entry), hint=hint)
    if not isinstance(entry, Mapping) or len(entry) != 1 or set(entry) - set(COMPARISONS):
        hint = _DOCUMENT_HINT % (
            metric,
            natural_comparison(metric),
            0.9 if natural_comparison(metric) == LARGER else 0.05,
        )
        raise InputError("limits: %r: %r is not a limit" % (metric, entry), hint=hint)
    ((comparison, value),) = entry.items()
    try:
        number = (
            math.nan
            if isinstance(value, bool)
            else float(_NON_FINITE.get(value, value) if isinstance(value, str) else value)
        )
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise InputError("limits: %s: %r is not a number" % (metric, value))
    return Limit(metric, comparison, number, selector, pattern)


NAMED = {"default": Limits(DEFAULTS), "vendor": Limits(VENDOR), NO_BASE: Limits(())}
"""The limits that have a name, which those of a document may stand on."""


def named_limits(name: str) -> Limits:
    """Return the limits of that name; UsageError for another."""
    if not isinstance(name, str) or name not in NAMED:
        raise UsageError(
            "there are no limits named %r" % (name,), hint="named limits: %s" % ", ".join(NAMED)
        )
    return NAMED[name]


def limits_with(document: Mapping[str, Any], others: Collection[str] = ()) -> Limits:
    """Return the limits of a document's ``base`` (without one the default limits) with its own put
    in their places.

    Parameters
    ----------
    others
        Names of the user's own metrics.

    Raises
    ------
    InputError
        The document has another form than schemas/limits.schema.json, or a limit that
        :func:`fault_of` finds fault with.
    UsageError
        Its base is not known.
    """
    limits = _entries_of(document, others)
    for limit in limits:
        fault = fault_of(limit)
        if fault is not None:
            raise InputError("limits: %s: %s" % (limit, fault.message), hint=fault.hint)
    return named_limits(document.get(BASE, "default")).overlaid(limits)


def parse_limit(text: str, others: Collection[str] = ()) -> Limit:
    """Return a limit from its text.

    Parameters
    ----------
    text
        ``METRIC=VALUE`` (in the metric's natural direction) or ``METRIC>VALUE``, with ``>=``, ``<``
        or ``<=`` where wanted; before it ``dtype=TYPE:``, ``type=OPTYPE:`` or ``op=NAME:``, each a
        name or a glob. Of ``=`` a metric equal to its limit is outside it, but DifferentElements
        may be equal to its own, and so may all where nothing else is possible: equal tensors have a
        distance of 0 and a cosine of 1.
    others
        Names of the user's own metrics; their natural direction is smaller.

    Raises
    ------
    UsageError
        Another form, an unknown metric, StandardDeviation (which is no single number), a value that
        is no number, or a limit that no tensor can meet or that asks for what is worse.
    """
    match = _FORM.match(text)
    if match is None:
        raise UsageError("%r is not a limit" % text, hint=FORMS_HINT)
    metric, sign, value = match.group("metric"), match.group("sign"), match.group("value").strip()
    _check_metric(metric, others)
    number = _parse_number(value)
    if number is None:
        raise UsageError("%r is not a number" % value, hint=FORMS_HINT)
    selector, pattern = match.group("selector") or "", (match.group("pattern") or "").strip()
    if selector and not pattern:
        raise UsageError("%s= names nothing" % selector, hint=FORMS_HINT)
    if sign == "=":
        sign = _reachable(natural_comparison(metric), metric, number)
    limit = Limit(metric, sign, number, selector, pattern)
    fault = fault_of(limit)
    if fault is not None:
        raise UsageError(fault.message, hint=fault.hint)
    return limit


def _reachable(comparison: str, metric: str, value: float) -> str:
    """Return the comparison with equality where equal tensors would not meet it otherwise."""
    return (
        {LARGER: AT_LEAST, SMALLER: AT_MOST}.get(comparison, comparison)
        if value == best_value(metric)
        else comparison
    )


class Fault(NamedTuple):
    """What is wrong with a limit, and what may have been meant."""

    message: str
    hint: str


def _is_dtype(pattern: str) -> bool:
    """Tell whether a name or a glob is that of an element type, one not known here included."""
    return any(fnmatchcase(name, pattern) for name in _DTYPES) or pattern.startswith("unknown")


def fault_of(limit: Limit) -> Optional[Fault]:
    """Return what is wrong with a limit that no tensor can meet, that is for no element type, or
    that asks for what is worse; None where nothing is.
    """
    if limit.selector == "dtype" and not _is_dtype(limit.pattern):
        near = nearest_names(limit.pattern, _DTYPES, 1, 0.5)
        hint = "did you mean %s?" % near[0] if near else "element types: %s" % ", ".join(_DTYPES)
        return Fault("%r is no element type" % limit.pattern, hint)
    best = best_value(limit.metric) or 0.0
    if not limit.possible:
        lowest, highest = RANGES[limit.metric]
        bound = (
            "at most it is %.9g" % highest if limit.wants_large else "at least it is %.9g" % lowest
        )
        message = "no tensor can meet it: %s is never %s %.9g, %s" % (
            limit.metric,
            limit.comparison,
            limit.value,
            bound,
        )
        return Fault(
            message,
            "equal tensors have %s %.9g: %s=%.9g lets them pass"
            % (limit.metric, best, limit.metric, best),
        )
    if limit.is_backwards:
        natural = natural_comparison(limit.metric)
        better = "larger" if natural in (LARGER, AT_LEAST) else "smaller"
        meant = replace(limit, comparison=_reachable(natural, limit.metric, limit.value))
        meant = (
            meant
            if meant.possible
            else replace(meant, comparison=_reachable(natural, limit.metric, best), value=best)
        )
        message = (
            "it is the wrong way round: of %s %s values are better, and it asks for the others"
            % (limit.metric, better)
        )
        return Fault(message, "a limit says what a tensor must keep to: '%s'" % meant)
    return None


def _check_metric(metric: str, others: Collection[str]) -> None:
    if metric == "StandardDeviation":
        raise UsageError(
            "StandardDeviation is four numbers and cannot be limited",
            hint="metrics with limits: " + ", ".join(LIMITED),
        )
    known = (*LIMITED, *others)
    if metric not in known:
        raise UsageError("unknown metric %r" % metric, hint=_known_hint(metric, others))


def _known_hint(metric: str, others: Collection[str]) -> str:
    """Return which metric may have been meant: one that begins so, else the one that resembles it,
    else all.
    """
    known = (*LIMITED, *others)
    begun = [name for name in known if metric and name.lower().startswith(metric.lower())]
    near = begun if len(begun) == 1 else nearest_names(metric, known, 1, 0.5)
    hint = "did you mean %s?" % near[0] if near else "metrics with limits: " + ", ".join(known)
    return hint + ("" if others else OWN_HINT)


def _parse_number(text: str) -> Optional[float]:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) or "_" in text else number


def parse_limits(
    texts: Sequence[str], base: Optional[Limits] = None, others: Collection[str] = ()
) -> Limits:
    """Return ``base`` (the default limits for None) with the limits of :func:`parse_limit` texts
    put in their places.
    """
    return (Limits() if base is None else base).overlaid(
        [parse_limit(text, others) for text in texts]
    )
