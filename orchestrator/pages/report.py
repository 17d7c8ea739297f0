"""The report of a run as one HTML file, from what a run's store tells."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, Iterable, List, Set, Tuple

from ..comparing.row import FAIL, PASS, Row
from ..dumps.place import Place
from ..results.told import ReportFile, Told
from ..verdict.limits import LARGER, Limit, Subject
from .details import Details
from .plain import PlainRows, rows_html, suspects_html, verdict_html
from .row_columns import COSINE, RowColumns
from .shell import asset, page, text

STYLES = ("base.css", "report.css")
SCRIPTS = (
    "common.js", "rows.js", "table.js", "canvas.js", "plot.js", "heat.js", "overview.js", "scatter.js", "detail.js", "report.js",
)  # fmt: skip


class HtmlFile(ReportFile):
    """Writes the page; the rows are kept as columns until the last one was seen."""

    def begin(self) -> None:
        """Be ready for the rows."""
        summary = self.told.summary
        suspects = [(entry["op"], Place(**entry["place"])) for entry in summary["suspects"]]
        self._details = Details(self.told.out)
        self._columns = RowColumns(self.told.metrics)
        self._plain = PlainRows(suspects)
        self._limits: Set[Tuple[Limit, ...]] = set()
        self._found: Dict[int, Any] = {}
        self._wanted = {(entry["tensor"], Place(**entry["place"])) for entry in summary["suspects"]}
        self._numbers: Dict[Tuple[str, Place], int] = {}

    def add(self, row: Row) -> None:
        """Take one more row."""
        number = self._columns.count
        key = (row.tensor, row.place)
        if key in self._wanted:
            self._numbers.setdefault(key, number)
        detail = self._details.of(row)
        if detail is not None:
            self._found[number] = detail
        if row.verdict in (PASS, FAIL):
            self._limits.add(self.told.limits.for_subject(Subject(row.target_dtype or "", row.op_type, row.op)))
        self._plain.add(row)
        self._columns.add(row)

    def end(self) -> None:
        """Write the page."""
        told = self.told
        suspects = told.summary["suspects"]
        data = {
            "rows": self._columns.document(),
            "suspects": [[entry["op"], self._numbers.get((entry["tensor"], Place(**entry["place"])))] for entry in suspects],
            "limits": _drawn(self._limits),
            "details": self._found,
            "commands": dict(told.commands),
        }
        self.stream.write(page(_title(told), self._body(), {"report": data}, STYLES, SCRIPTS))

    def _body(self) -> str:
        told = self.told
        shown = len(self._plain.rows)
        note = "All %d rows." % shown
        if shown < self._plain.total:
            note = "%d of %d rows: those of the suspects, then the worst." % (shown, self._plain.total)
        plain = '<p class="quiet" id="rows-note">%s</p>' % note
        return asset("report.html") % {
            "title": text(_title(told)),
            "about": _about(told, self._details.notes),
            "verdict": verdict_html(told),
            "suspects": suspects_html(told, self._numbers),
            "note": plain,
            "rows": rows_html(self._plain, told),
        }


def _title(told: Told) -> str:
    what = os.path.basename(os.path.abspath(str(told.inputs.get("target") or told.out)))
    return "%s of %s: %s" % ("replay" if told.comparison else "comparison", what, told.summary["verdict"])


def _about(told: Told, notes: List[str]) -> str:
    """Return what was compared with what, under which limits."""
    facts = [(name, told.inputs.get(name)) for name in ("target", "golden", "model")]
    facts.append(("started", _time(told.started)))
    everywhere = [str(limit) for limit in told.limits.entries if not limit.selector]
    single = [str(limit) for limit in told.limits.entries if limit.selector]
    facts.append(("limits", "; ".join(everywhere) or "none"))
    facts += [("note", note) for note in notes]
    lines = "".join("<dt>%s</dt><dd class=\"name\">%s</dd>" % (name, text(value)) for name, value in facts if value)
    more = "".join("<li class=\"name\">%s</li>" % text(limit) for limit in single)
    folded = "<details><summary>%d limits for single types and ops</summary><ul>%s</ul></details>" % (len(single), more) if single else ""
    return "<dl>%s</dl>\n%s" % (lines, folded)


def _time(started: str) -> str:
    return "%s-%s-%s %s:%s:%s" % (started[:4], started[4:6], started[6:8], started[8:10], started[10:12], started[12:])


def _drawn(limits: Iterable[Tuple[Limit, ...]]) -> Dict[str, float]:
    """Return the limits to draw, as distances: those that are the same for all tensors."""
    found: Dict[str, Set[float]] = {}
    for some in limits:
        for limit in some:
            value = 1.0 - limit.value if limit.metric == COSINE and limit.comparison == LARGER else limit.value
            found.setdefault(limit.metric, set()).add(value)
    return {metric: values.pop() for metric, values in found.items() if len(values) == 1 and math.isfinite(min(values))}
