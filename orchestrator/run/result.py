"""What a run came to: its summary, and its rows read from its store, also of an earlier run and of
one that goes on.
"""

from __future__ import annotations

import html
import os
from dataclasses import field
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..base.errors import EnvironmentProblem, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.naming import printable
from ..base.notes import Note
from ..base.wording import plural
from ..judging.diagnosis.first_divergence import FirstDivergence
from ..judging.diagnosis.summary import Summary
from ..metrics.row import FAIL, MEASURES, VERDICTS, Row
from ..reports.counts_by_place import PlaceCounts
from ..reports.csv_tables import STEP_OP_FILE, noted_tables
from ..reports.result_json import RESULT_FILE
from ..reports.row_json import row_document
from ..store.store import RunStore
from .comparison_options import ComparisonOptions
from .run_status import run_status, stored_options

_SHOWN_ROWS = 20


@dataclass(frozen=True)
class RunResult:
    """What a run came to; its rows are read from its store, also after the run is closed.

    Attributes
    ----------
    options
        What was asked for.
    summary
        The counts and the verdict.
    exit_code
        As documented for every command; 3 of a run that has not finished, whatever its rows so far:
        some may be found anew.
    sentence
        The broken operator in one sentence; of a run that has not finished it begins with that.
    files
        The result files that were written, result.json last.
    notes
        What was taken and what was assumed.
    left_out
        What was left out or could not be paired at all.
    shown
        The rows that matter first, a few dozen at most: blocks of the first suspects and what is
        around them, then one of others; empty for a result that was opened.
    places
        The rows of each device × model × step counted, the worst first; empty for a result that was
        opened.
    finished
        False for the opened result of a run that goes on or was stopped before its end: all is
        about the rows that it has so far, and the verdict is ``fail`` or ``incomplete``, never
        ``pass``.
    owner
        What a temporary folder lives as long as, shared by copies of the result; None of a folder
        that stays.
    """

    options: ComparisonOptions
    summary: Summary
    exit_code: int
    sentence: str
    files: Tuple[str, ...] = ()
    notes: Tuple[Note, ...] = ()
    left_out: Tuple[Note, ...] = ()
    shown: Tuple[Tuple[Row, ...], ...] = ()
    places: Tuple[PlaceCounts, ...] = ()
    finished: bool = True
    owner: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        rows = plural(self.summary.rows, "row") + ("" if self.finished else " so far")
        return "RunResult(%s, %s, %r)" % (self.summary.verdict, rows, self.options.out)

    @property
    def first_divergence(self) -> Optional[FirstDivergence]:
        """The first operator outside its limits, or None."""
        return self.summary.first

    @property
    def stored_rows(self) -> int:
        """How many rows there are: of a run of several hosts those that did not pass, and all of
        one device and step.
        """
        if self.summary.hosts is None:
            return self.summary.rows
        with RunStore.open(self.options.out) as store:
            return len(store.rows())

    def rows(self, verdict: Optional[str] = None) -> Iterator[Row]:
        """Yield the rows in the order of the result table, all or those of one verdict; a page at a
        time, with bounded memory.

        Raises
        ------
        UsageError
            There is no such verdict.
        """
        if verdict is not None and verdict not in VERDICTS:
            raise UsageError(
                "there is no verdict %r" % (verdict,), hint="verdicts: %s" % ", ".join(VERDICTS)
            )
        return self._rows(verdict)

    def _rows(self, verdict: Optional[str]) -> Iterator[Row]:
        with RunStore.open(self.options.out) as store:
            yield from store.rows("index", verdict=verdict)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame: the fields of result.json's rows, each metric a
        column of its own.

        Raises
        ------
        EnvironmentProblem
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise EnvironmentProblem(
                "rows as a table need pandas: %s" % error, hint="pip install pandas"
            ) from None
        return pandas.DataFrame([_flat(row) for row in self.rows()])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, the counts, the sentence, and the first
        failing rows.
        """
        summary = self.summary
        counts = "%d rows: %d pass, %d fail, %d not compared, %d absent as expected" % (
            summary.rows, summary.passed, summary.failed, summary.not_compared,
            summary.expected_absent,
        )  # fmt: skip
        verdict = summary.verdict + ("" if self.finished else " (not finished)")
        parts = [
            "<p><b>%s</b>: %s</p>" % (_escaped(verdict), counts),
            "<p>%s</p>" % _escaped(self.sentence),
        ]
        failing: List[Row] = []
        for row in self.rows(FAIL):
            failing.append(row)
            if len(failing) == _SHOWN_ROWS:
                break
        if failing:
            lines = "".join(
                "<tr><td>%s</td><td>%s</td></tr>" % (_escaped(row.tensor), _escaped(row.reason))
                for row in failing
            )
            parts.append("<table><tr><th>tensor</th><th>reason</th></tr>%s</table>" % lines)
        return "".join(parts)


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _flat(row: Row) -> Dict[str, Any]:
    """Return one row of result.json without nesting; metrics as floats, NaN where there is no
    result.
    """
    document = row_document(row, MEASURES)
    metrics = document.pop("metrics")
    for name, parts in (
        ("nan", ("target", "golden")),
        ("inf", ("target", "golden")),
        ("worst_slice", ("axis", "index")),
    ):
        nested = document.pop(name, None) or {}
        document.update({"%s_%s" % (name, part): nested.get(part) for part in parts})
    for name, value in metrics.items():
        if isinstance(value, dict):
            document.update(
                {
                    "%s_%s_%s" % (name, side, what): float(part)
                    for side, pair in value.items()
                    for what, part in pair.items()
                }
            )
        elif name not in MEASURES:
            document[name] = row.metrics[name]
        elif name in row.metrics or value is not None:
            document[name] = float("nan") if value is None else float(value)
    return document


def stored_result(out: str) -> RunResult:
    """Return the result of a run from its store alone, whether its inputs are there still or not;
    nothing is written.

    Of a run that has ended it is what the run itself came to. Of another the rows so far are
    judged, and no element is read again.

    Raises
    ------
    MissingPath
        There is no store.
    FormatError, EnvironmentProblem
        It is damaged, foreign or cannot be read.
    """
    with RunStore.open(out) as store, store.frozen():
        options = stored_options(out, store.has_hosts, store.get)
        status = run_status(store, options)
        names = [*noted_tables(store), *[STEP_OP_FILE] * store.has_hosts, RESULT_FILE]
        notes = tuple(dict.fromkeys([*status.notes, *store.notes]))
    files = tuple(
        path
        for path in (os.path.join(out, os.path.basename(str(name))) for name in names)
        if os.path.isfile(path)
    )
    return RunResult(
        options,
        status.summary,
        status.exit_code,
        status.sentence,
        files,
        notes,
        status.left_out,
        finished=status.finished,
    )
