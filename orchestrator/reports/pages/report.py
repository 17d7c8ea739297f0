"""The report of a run as one HTML file, from what a run's store tells."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ... import __version__
from ...base.errors import GoldwatchError
from ...base.naming import run_name
from ...base.notes import told
from ...base.safe_reading import read_input
from ...base.wording import plural
from ...dumps.place import Place
from ...judging.diagnosis.op_input_states import GOOD
from ...judging.diagnosis.summary import EXACT, OUTPUTS, REPLAY
from ...judging.diagnosis.suspects import NONE
from ...judging.metric_text import metric_number
from ...metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ...schemas.documents import check_document
from ...store.host_facts import host_sentence
from ...store.json_numbers import plain_number
from ...store.row_counts import rows_of
from ..page_rows import RowColumns, drawn_limits, place_parts
from ..report_context import ReportContext, ReportFile
from .html_file import asset, attribute, page, sentence, text
from .report_graph import report_graphs
from .worst_by_op_and_step import over_devices

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
        told(warning)
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
    if suspect["confidence"] == NONE:
        facts = ["no suspect: no operator need be wrong"]
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
    # An option is not broken behind its dash; what is taken for one is not broken either, no more.
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


DETAIL_FILE = "detail.json"

_DEPTH = 2
_MOST_FILES = 200
_MOST_BYTES = 64 << 20
_MOST_INDICES = 256
_KEPT = (
    "axes",
    "count",
    "bad",
    "histogram",
    "signed_ulp_histogram",
    "target",
    "golden",
    "findings",
)
_SAME = ("CosineSimilarity", "RelativeEuclideanDistance", "MaxAbsoluteError")


class Details:
    """The details below a folder, by tensor.

    Attributes
    ----------
    notes
        Files that could not be used, with the reason.
    """

    def __init__(self, folder: str) -> None:
        self.notes: List[str] = []
        self._known: Dict[str, List[Tuple[str, Mapping[str, Any]]]] = {}
        for path in sorted(_detail_files(folder, _DEPTH))[:_MOST_FILES]:
            self._read(path)

    def _read(self, path: str) -> None:
        try:
            document = json.loads(read_input(path, _MOST_BYTES).decode("utf-8"))
            check_document(document, "detail", path)
        except (GoldwatchError, OSError, ValueError, RecursionError) as error:
            self.notes.append("%s is not used: %s" % (path, error))
            return
        for tensor in document["tensors"]:
            if tensor["histogram"] is not None:
                self._known.setdefault(tensor["tensor"], []).append((path, tensor))

    def of(self, row: Row) -> Optional[Dict[str, Any]]:
        """Return what is known of a row's tensor, as the page shows it; None where nothing is."""
        for path, tensor in self._known.get(row.tensor, ()):
            if _is_about(tensor, row):
                fields = {name: tensor[name] for name in _KEPT if tensor.get(name) is not None}
                fields["where"] = {axis: _bins(shares) for axis, shares in tensor["where"].items()}
                fields["files"] = [
                    os.path.join(os.path.dirname(path), name) for name in tensor["files"]
                ]
                return fields
        return None


def _detail_files(folder: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name == DETAIL_FILE and entry.is_file():
            yield entry.path
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _detail_files(entry.path, depth - 1)


def _is_about(tensor: Mapping[str, Any], row: Row) -> bool:
    if tensor["verdict"] != row.verdict or not _ends_with(row.target_file, tensor["target_file"]):
        return False
    return all(
        tensor["metrics"].get(name, "NaN") == plain_number(row.metrics.get(name, float("nan")))
        for name in _SAME
    )


def _ends_with(path: Optional[str], tail: Optional[str]) -> bool:
    """Tell whether two paths may be of one file, named from different folders."""
    if not path or not tail:
        return False
    long, short = sorted((path.split(os.sep), tail.split(os.sep)), key=len, reverse=True)
    return long[-len(short) :] == short


def _bins(shares: List[float]) -> Dict[str, Any]:
    """Return the shares along an axis, neighbours added up where there are more than can be
    drawn.
    """
    width = -(-len(shares) // _MOST_INDICES) if shares else 1
    sums = [sum(shares[start : start + width]) for start in range(0, len(shares), width)]
    return {
        "length": len(shares),
        "width": width,
        "shares": [float("%.4g" % value) for value in sums],
    }


STYLES = ("base.css", "graph.css", "report.css")
SCRIPTS = (
    "common.js", "rows.js", "table.js", "canvas.js", "plot.js", "heat.js", "overview.js",
    "scatter.js", "detail.js",
    "minimap.js", "graph.js", "folding.js", "report_graph.js", "report.js",
)  # fmt: skip


_WORST = (FAIL, NOT_COMPARED, PASS, EXPECTED_ABSENT)


class HtmlFile(ReportFile):
    """Writes the page; the rows are kept as columns until the last one was seen."""

    draws = True

    def begin(self) -> None:
        """Prepare for the rows."""
        accused = _accused(self.context)
        self._details = Details(self.context.out)
        self._columns = RowColumns(self.context.metrics)
        self._decided: Set[str] = set()
        self._details_by_row: Dict[int, Any] = {}
        self._suspect_tensors = {tensor for _, tensor, _ in accused}
        self._numbers: Dict[Tuple[str, Optional[Place]], int] = {}
        self._verdicts: Dict[str, str] = {}
        self._indices: Dict[str, int] = {}

    def add(self, row: Row) -> None:
        """Take one more row."""
        number = self._columns.count
        if row.tensor in self._suspect_tensors:
            self._numbers.setdefault((row.tensor, row.place), number)
            self._numbers.setdefault((row.tensor, None), number)
        detail = self._details.of(row)
        if detail is not None:
            self._details_by_row[number] = detail
        self._decided.add(row.decided_by)
        self._indices[row.op] = min(row.index, self._indices.get(row.op, row.index))
        if (
            _WORST.index(row.verdict) < _WORST.index(self._verdicts.get(row.op, EXPECTED_ABSENT))
            or row.op not in self._verdicts
        ):
            self._verdicts[row.op] = row.verdict
        self._columns.add(row)

    def end(self) -> None:
        """Write the page."""
        context = self.context
        accused = _accused(context)
        data = {
            "rows": dict(
                self._columns.document(),
                # Counted and not stored, as rows.js takes them: place, outside their limits,
                # passed, all.
                unstored=[
                    [place_parts(place), counts.get(FAIL, 0), counts.get(PASS, 0), rows_of(counts)]
                    for place, counts in context.unstored.items()
                ],
                over=over_devices(
                    context.over_devices,
                    context.graphs,
                    sorted(self._indices, key=self._indices.__getitem__),
                ),
            ),
            "suspects": [[op, self._numbers.get((tensor, place))] for op, tensor, place in accused],
            "limits": drawn_limits(self._decided),
            "details": self._details_by_row,
            "commands": dict(context.commands),
        }
        first = context.summary["first_divergence"]
        middle = [op for op, *_ in accused] or ([] if first is None else [first["op"]])
        graphs = report_graphs(context.graphs, self._verdicts, middle)
        self.stream.write(
            page(_title(context), self._body(), {"report": data, "graphs": graphs}, STYLES, SCRIPTS)
        )

    def _body(self) -> str:
        context = self.context
        return asset("report.html") % {
            "title": text(_title(context)),
            "about": _about(context, self._details.notes),
            "verdict": verdict_html(context),
            "suspects": suspects_html(context, self._numbers),
            "note": "The page's script shows the rows; the CSV and result.json have them too.",
        }


def _accused(context: ReportContext) -> List[Tuple[str, str, Optional[Place]]]:
    """Return (op, tensor, place) of each suspect, or culprit of a replay (without a place), the
    first one first.
    """
    accused: List[Tuple[str, str, Optional[Place]]] = [
        (entry["op"], entry["tensor"], Place(**entry["place"]))
        for entry in context.summary["suspects"]
    ]
    return accused + [
        (entry["op"], entry["tensor"], None) for entry in context.summary.get("culprits", ())
    ]


def _title(context: ReportContext) -> str:
    """Return what was compared, its model where there is one, and the verdict."""
    what = os.path.basename(os.path.abspath(str(context.inputs.get("target") or context.out)))
    models = {run_name(entry["model"]) for entry in context.summary.get("models", ())} - {None}
    if len(models) == 1 and what not in models:
        what = "%s (model %s)" % (what, models.pop())
    kind = {REPLAY: "replay", EXACT: "exact comparison", OUTPUTS: "final outputs"}.get(
        context.comparison, "comparison"
    )
    verdict = context.failure_beside_rows or context.summary["verdict"]
    return "%s of %s: %s" % (kind, what, verdict)


def _about(context: ReportContext, notes: List[str]) -> str:
    """Return what was compared with what, under which limits."""
    facts = [(name, context.inputs.get(name)) for name in ("target", "golden", "model")]
    facts += context.about
    facts.append(("started", _time(context.started)))
    everywhere = [str(limit) for limit in context.limits.entries if not limit.selector]
    single = [str(limit) for limit in context.limits.entries if limit.selector]
    facts.append(("limits", "; ".join(everywhere) or "none"))
    facts += [("note", note) for note in notes]
    facts.append(("goldwatch", __version__))
    lines = "".join(
        '<dt>%s</dt><dd class="name">%s</dd>' % (text(name), text(value))
        for name, value in facts
        if value
    )
    more = "".join('<li class="name">%s</li>' % text(limit) for limit in single)
    folded = (
        "<details><summary>%d limits for single types and ops</summary><ul>%s</ul></details>"
        % (len(single), more)
        if single
        else ""
    )
    return "<dl>%s</dl>\n%s" % (lines, folded)


def _time(started: str) -> str:
    return "%s-%s-%s %s:%s:%s" % (
        started[:4],
        started[4:6],
        started[6:8],
        started[8:10],
        started[10:12],
        started[12:],
    )
