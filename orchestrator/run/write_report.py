"""The report of a run from its store alone, also of a run that was killed or goes on."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Callable, Dict, Iterator, Mapping, Optional, Sequence, Set, Tuple, Type

from ..base.errors import FormatError, GoldwatchError
from ..base.notes import note
from ..dumps.place import Place
from ..judging.diagnosis.summary import EXACT, OUTPUTS
from ..metrics.row import Row
from ..reports.csv_cells import Columns
from ..reports.csv_tables import COLUMNS
from ..reports.report_context import ReportContext, ReportFile, write_files
from ..store.json_numbers import plain_tree
from ..store.merged_metrics import worst_outputs
from ..store.row_table import RowsInOrder
from ..store.store import RunStore
from ..store.stored_networks import GRAPHS, SUMMARY
from .comparison_options import ComparisonOptions
from .run_status import JUDGED, run_status, stored_options
from .whole_run import Run

_PROGRESS_EVERY = 256

Commands = Callable[[ComparisonOptions, Mapping[str, object]], Dict[str, str]]
"""Makes of the options and the summary of a run the commands that look closer at its suspects, by
op.
"""


def no_commands(options: ComparisonOptions, summary: Mapping[str, object]) -> Dict[str, str]:
    """Return none."""
    return {}


def write_report(
    out: str,
    files: Mapping[str, Type[ReportFile]],
    commands: Commands = no_commands,
    exit_code: Optional[int] = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    about: Sequence[Tuple[str, str]] = (),
) -> ReportContext:
    """Write files about the run whose store is in ``out``; return what they tell.

    Parameters
    ----------
    files
        What to write, by path.
    exit_code
        With which the run ends; None: as its store says.
    on_progress
        Called with how many rows are written, and of how many.
    about
        What is to be said of the run besides, as names and texts.

    Raises
    ------
    MissingPath
        There is no store.
    FormatError, EnvironmentProblem
        It is damaged, foreign or cannot be read; a file cannot be written.
    """
    with RunStore.open(out) as store, store.frozen():
        context = _report_context(out, store, commands, any(kind.draws for kind in files.values()))
        context = replace(context, about=tuple(about))
        if exit_code is not None:
            context = replace(context, exit_code=exit_code)
        write_files(_counted(store.rows("index"), on_progress), files, context)
    return context


def _counted(rows: RowsInOrder, on_progress: Callable[[int, int], None]) -> Iterator[Row]:
    """Yield all rows, telling how many there were every now and then."""
    total = len(rows)
    for number, row in enumerate(rows):
        if number % _PROGRESS_EVERY == 0:
            on_progress(number, total)
        yield row


def _report_context(out: str, store: RunStore, commands: Commands, draws: bool) -> ReportContext:
    inputs, judged, summary = store.get("inputs"), store.get(JUDGED) or {}, store.get(SUMMARY)
    options, unstored = stored_options(out, store.has_hosts, store.get), store.counted.unstored()
    finished = summary is not None
    sentence = judged.get("sentence", "")
    if not finished:
        status = run_status(store, options)
        summary, sentence = plain_tree(status.summary.document()), status.sentence
    return ReportContext(
        out=out,
        started=store.started,
        finished=finished,
        summary=summary,
        sentence=sentence,
        inputs=inputs,
        limits=options.limits,
        columns=_columns(out, store, options),
        places=tuple(dict.fromkeys([*store.places(), *unstored])),
        unstored=unstored,
        over_devices=worst_outputs(store.query, options.metrics)
        if draws and store.has_hosts
        else None,
        comparison=judged.get("comparison")
        or (EXACT if options.exact else "" if options.outputs is None else OUTPUTS),
        omitted=tuple(store.events.omitted()),
        graphs=tuple(store.get(GRAPHS) or ()),
        commands=commands(options, summary),
        exit_code=judged.get("exit_code") if finished else None,
    )


def _columns(out: str, store: RunStore, options: ComparisonOptions) -> Columns:
    """Return the columns of the tables that the run has written, else those that its rows ask
    for.
    """
    noted = store.get(COLUMNS)
    if noted is None:
        return options.columns(store.has("golden_address"), store.has("overflow"))
    try:
        return Columns(**{**noted, "metrics": tuple(noted["metrics"])})
    except (TypeError, KeyError) as error:
        raise FormatError(
            "the store does not say which columns its tables have (%s)" % error, out
        ) from None


# Chosen, no trial.
EVERY_S = 1.0
# Writing tables takes at most this share of the time.
_SHARE = 0.1


class TableUpdater:
    """Writes the tables of the places that have changed, at most once a second and less often when
    that takes long.

    Parameters
    ----------
    run
        Whose tables they are.
    say
        Takes sentences for the user.
    """

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self.run = run
        self.say = say
        self._thread: Optional[threading.Thread] = None
        self._next = time.monotonic() + EVERY_S
        self._problem = ""
        self._failed: Set[Place] = set()

    def tick(self, changed: Set[Place]) -> None:
        """Start writing, if something has changed and it is time; empties ``changed`` then."""
        if (
            not (changed or self._failed)
            or time.monotonic() < self._next
            or (self._thread is not None and self._thread.is_alive())
        ):
            return
        places = set(changed) | self._failed
        changed.clear()
        self._failed = set()
        self._thread = threading.Thread(target=self._write, args=(places,), daemon=True)
        self._thread.start()

    def _write(self, places: Set[Place]) -> None:
        start = time.monotonic()
        try:
            self.run.write_tables(places)
            self._problem = ""
        except GoldwatchError as error:
            # The rows are safe in the store; the table is tried again, and at the end once more.
            self._failed = places
            if self._problem != error.message:
                self._problem = error.message
                self.say(note("unwritten-tables", error.message))
        cost = time.monotonic() - start
        self._next = time.monotonic() + max(EVERY_S, cost / _SHARE)

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()
