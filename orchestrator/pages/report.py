"""The report of a run as one HTML file, from what a run's store tells."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Set, Tuple

from .. import __version__
from ..diagnosis.exact_summary import EXACT
from ..diagnosis.outputs_summary import OUTPUTS
from ..diagnosis.replay_summary import REPLAY
from ..dumps.place import Place
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ..naming import run_name
from ..reports.page_rows import RowColumns, drawn_limits, place_parts
from ..reports.report_context import ReportContext, ReportFile
from ..store.row_counts import rows_of
from .html_file import asset, page, text
from .read_detail_files import Details
from .report_graph import report_graphs
from .report_verdict import suspects_html, verdict_html
from .worst_by_op_and_step import over_devices

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
