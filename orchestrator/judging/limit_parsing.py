"""Limits read from the texts of options and from documents; those that no tensor can meet, or that
ask for what is worse, are refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Collection, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..base.element_types import ELEMENTS
from ..base.errors import InputError, UsageError
from ..base.naming import nearest_names
from ..metrics.row import MEASURES
from .limits import (
    AT_LEAST,
    AT_MOST,
    BASE,
    COMPARISONS,
    DEFAULTS,
    LARGER,
    LIMITED,
    NO_BASE,
    RANGES,
    RULES,
    SELECTORS,
    SMALLER,
    VENDOR,
    Limit,
    Limits,
    best_value,
    natural_comparison,
)

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
