"""What a report shows without its script: the verdict in words and the suspects as cards."""

from __future__ import annotations

import re
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..diagnosis.exact_summary import EXACT
from ..diagnosis.op_input_states import GOOD
from ..diagnosis.outputs_summary import OUTPUTS
from ..dumps.place import Place
from ..judging.metric_text import metric_number
from ..metrics.row import FAIL
from ..reports.report_context import ReportContext
from ..store.host_facts import host_sentence
from ..text.wording import plural
from .html_file import attribute, sentence, text

_WORDS = {
    "fail": "outside their limits",
    "not_compared": "not compared",
    "pass": "pass",
    "expected_absent": "absent as expected",
}
_ORDER = ("fail", "not_compared", "pass", "expected_absent")
_COUNTS = {
    "fail": "failed",
    "not_compared": "not_compared",
    "pass": "passed",
    "expected_absent": "expected_absent",
}
_OPTION = re.compile(r"(^|\s)(-[\w-]+)(?=\s|$)")
_MOST_NOTES = 12


def verdict_html(context: ReportContext) -> str:
    """Return the content of ``#verdict``: the verdict, the sentence, the counts and the
    warnings.
    """
    summary = context.summary
    verdict = str(summary["verdict"])
    parts = [
        '<p class="big"><span class="verdict" data-is="%s">%s</span></p>'
        % (
            attribute(FAIL if context.failure_beside_rows else verdict),
            text(context.failure_beside_rows or _verdict_text(verdict, context.finished)),
        )
    ]
    parts.append('<p class="sentence">%s</p>' % sentence(context.sentence))
    counted = [(summary[_COUNTS[name]], name) for name in _ORDER if summary[_COUNTS[name]]]
    count_html = '<span class="count">%d <span class="verdict" data-is="%s">%s</span></span>'
    counts = [count_html % (count, name, _WORDS[name]) for count, name in counted]
    total = "%s of %s%s" % (
        plural(summary["rows"], "row"),
        plural(summary["ops"], "op"),
        "" if context.finished else " so far",
    )
    parts.append(
        '<p class="counts">%s: %s</p>' % (total, " · ".join(counts) or "nothing was compared")
    )
    warnings = [
        warning["sentence"]
        for warning in summary["warnings"]
        if warning["sentence"].rstrip(".").lower() not in context.sentence.lower()
    ]
    if warnings:
        shown = "".join("<li>%s</li>" % sentence(warning) for warning in warnings[:_MOST_NOTES])
        more = (
            "<li>and %d more, see result.json</li>" % (len(warnings) - _MOST_NOTES)
            if len(warnings) > _MOST_NOTES
            else ""
        )
        parts.append('<ul class="warnings">%s%s</ul>' % (shown, more))
    parts += (
        ["<p>%s</p>" % sentence(_model(model)) for model in summary["models"]]
        if len(summary["models"]) > 1
        else []
    )
    if summary.get("hosts"):
        parts.append(
            '<ul class="hosts">%s</ul>'
            % "".join("<li>%s</li>" % sentence(host_sentence(host)) for host in summary["hosts"])
        )
    return "\n".join(parts)


def _verdict_text(verdict: str, finished: bool) -> str:
    return verdict if finished else "%s so far, the run has not finished" % verdict


def _model(model: Mapping[str, Any]) -> str:
    agree = {True: "; its devices agree", False: "; its devices do not agree", None: ""}[
        model["devices_agree"]
    ]
    return "model %s: %d rows, %d outside their limits%s" % (
        model["model"],
        model["rows"],
        model["failed"],
        agree,
    )


def suspects_html(
    context: ReportContext, numbers: Mapping[Tuple[str, Optional[Place]], int]
) -> str:
    """Return the content of ``#suspects``.

    Parameters
    ----------
    numbers
        For (tensor, place) the row's number, to lead there; without a place the first one's.
    """
    cards = [
        _card(number, suspect, context, numbers)
        for number, suspect in enumerate(context.summary["suspects"], 1)
    ]
    cards += [
        _culprit(number, culprit, context, numbers)
        for number, culprit in enumerate(context.summary.get("culprits", ()), 1)
    ]
    if cards:
        return '<div class="cards">%s</div>' % "\n".join(cards)
    divergence = context.summary["first_divergence"]
    if context.comparison == OUTPUTS:
        return (
            '<p class="quiet">Only the outputs of the network were compared: nothing is known of '
            "its operators.</p>"
        )
    if divergence is None:
        return '<p class="quiet">No operator is suspect.</p>'
    first = '<span class="name">%s</span>' % sentence(divergence["op"])
    if context.comparison == EXACT:
        return "<p>%s %s.</p>" % (
            first,
            "makes other bytes of equal inputs"
            if divergence["inputs"] == GOOD
            else "is the first that differs",
        )
    return (
        "<p>No operator can be told to be wrong by itself. The first outside its limits is %s.</p>"
        % first
    )


def _card(
    number: int,
    suspect: Mapping[str, Any],
    context: ReportContext,
    numbers: Mapping[Tuple[str, Optional[Place]], int],
) -> str:
    place = Place(**suspect["place"])
    row = numbers.get((suspect["tensor"], place))
    facts = ["score %.0f" % suspect["score"], "confidence %s" % suspect["confidence"]]
    facts += [part for part in [_where(place, _varying(context.places))] if part]
    parts = [
        _head(number, suspect["op"], suspect["op_type"], row),
        '<p class="quiet">%s</p>' % text(" · ".join(facts)),
    ]
    parts.append("<p>%s</p>" % sentence(_capital(suspect["evidence"])))
    for entry in suspect["explanations"]:
        share = " (%.0f %% of its error)" % (100 * entry["share"]) if entry["share"] else ""
        parts.append(
            "<p><b>%s</b>%s: %s</p>" % (text(entry["kind"]), share, sentence(entry["sentence"]))
        )
        parts.append('<p class="next">Next: %s.</p>' % sentence(entry["next"].rstrip(".")))
    return _framed(suspect["op"], [*parts, _command(context, suspect["op"])])


def _culprit(
    number: int,
    culprit: Mapping[str, Any],
    context: ReportContext,
    numbers: Mapping[Tuple[str, Optional[Place]], int],
) -> str:
    parts = [_head(number, culprit["op"], "", numbers.get((culprit["tensor"], None)))]
    parts.append('<p class="quiet">an error of its own, run alone with the device\'s inputs</p>')
    if culprit["metric"] is not None:
        value, limit = ("%.6g" % metric_number(culprit[name]) for name in ("value", "limit"))
        parts.append(
            "<p>%s has %s %s, limit %s</p>"
            % (sentence(culprit["tensor"]), text(culprit["metric"]), value, limit)
        )
    return _framed(culprit["op"], [*parts, _command(context, culprit["op"])])


def _head(number: int, op: str, op_type: str, row: Any) -> str:
    name = '<span class="name">%s</span>%s' % (
        sentence(op),
        ' <span class="quiet">(%s)</span>' % sentence(op_type) if op_type else "",
    )
    leads = '<a href="#row-%d">%s</a>' % (row + 1, name) if row is not None else name
    return "<h3>%d. %s</h3>" % (number, leads)


def _framed(op: str, parts: Iterable[str]) -> str:
    return '<article class="card" data-op="%s">\n%s\n</article>' % (
        attribute(op),
        "\n".join(part for part in parts if part),
    )


def _command(context: ReportContext, op: str) -> str:
    command = context.commands.get(op)
    # An option is not broken behind its dash.
    words = _OPTION.sub(r'\1<span class="option">\2</span>', text(command)) if command else ""
    return '<pre class="command">%s</pre>' % words if command else ""


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")


def _varying(places: Sequence[Place]) -> List[Tuple[str, str]]:
    """Return the parts that tell places from one another: (name, how it is called)."""
    names = (
        ("host", "host"),
        ("step", "step"),
        ("device", "device"),
        ("model", "model"),
        ("model_id", "model id"),
        ("time", "time"),
    )
    return [
        (name, label)
        for name, label in names
        if len({getattr(other, name) for other in places}) > 1
    ]


def _where(place: Place, varying: Sequence[Tuple[str, str]]) -> str:
    """Return the parts that distinguish a place from the run's others."""
    return ", ".join("%s %s" % (label, getattr(place, name) or "-") for name, label in varying)
