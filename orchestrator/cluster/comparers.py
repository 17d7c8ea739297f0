"""The files of a run compared by a Dask cluster."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from .. import __version__
from ..base import notes
from ..dumps.dump_tree import DumpTree
from ..run.comparison_options import ComparisonOptions
from ..run.progress import OnProgress
from ..run.rows_at_the_end import left_out_notes
from ..run.target_file import EARLIER, GROWING, HELD, NOTHING, PLANNED, TargetFile
from ..run.tensor_planner import FilePlan
from ..run.whole_run import Run
from ..store.facts_and_events import FileRecord
from ..store.row_schema import COLUMNS, from_sql_text
from ..store.row_sql import row_key
from ..store.row_transfer import packed, unpacked
from .address import ClusterAddress
from .checked_connection import Connection, connected
from .dispatch import Compared, Dispatcher, Lost
from .eligible_workers import EligibleWorkers
from .file_probes import FileProbe
from .order_and_findings import Findings, Note, Order
from .requests_with_timeout import CLOSING_S, PATIENCE_S, threads_of
from .work_units import Unit, cut
from .worker_comparison import end_run

_MOMENT_S = 0.5
_GOLDEN_FILE = COLUMNS.index("golden_file")


@contextlib.contextmanager
def cluster_comparers(
    address: ClusterAddress, say: Callable[[str], None] = lambda text: None
) -> Iterator[Cluster]:
    """Yield who compares on a cluster.

    Parameters
    ----------
    say
        Called with warnings of workers as soon as they are known.

    Raises
    ------
    EnvironmentProblem
        As :func:`goldwatch.cluster.checked_connection.connected`.
    """
    slow = threading.Timer(
        _MOMENT_S, say, ("stopping what the cluster does; Ctrl-C again does not wait for it",)
    )
    slow.daemon = True
    try:
        with connected(address) as connection:
            cluster = Cluster(connection, EligibleWorkers(connection.client, say, connection.aside))
            try:
                yield cluster
            except BaseException:
                slow.start()
                if address.url is not None:
                    cluster.close(CLOSING_S)
                raise
            cluster.close(PATIENCE_S)
    finally:
        slow.cancel()


class Cluster:
    """The workers of a cluster, in place of processes of this machine.

    Parameters
    ----------
    connection
        To its scheduler.
    eligible
        Which workers may compare.
    """

    def __init__(self, connection: Connection, eligible: EligibleWorkers) -> None:
        self._client, self._revive = connection.client, connection.revive
        self._eligible = eligible
        self._name = uuid.uuid4().hex[:12]
        self._dispatcher: Optional[Dispatcher] = None

    def close(self, patience_s: float) -> None:
        """Make the scheduler drop what is in flight, and the workers remove what they keep for the
        run.
        """
        if self._client.status == "running":
            with contextlib.suppress(Exception):
                self._client.sync(self._end, callback_timeout=patience_s)

    async def _end(self) -> None:
        client = self._client
        if self._dispatcher is not None and self._dispatcher.in_flight:
            await client.cancel(self._dispatcher.in_flight, force=True)
        await client.run(end_run, self._name, workers=list(await client.nthreads()))

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds; errors as those of :meth:`EligibleWorkers.list_target`."""
        return self._eligible.list_target(options)

    def compare(
        self, run: Run, files: Sequence[TargetFile], sizes: Sequence[int], on_progress: OnProgress
    ) -> List[notes.Note]:
        """Compare all files by the workers, and merge their results."""
        merging = _MergedFindings(run, self._name, tuple(self._eligible.probes), on_progress)
        size_of = dict(zip(files, sizes))
        units = cut(
            run.engine,
            [(file, size_of.get(file, 0)) for file in _taken(run, files)],
            sum(threads_of(self._client).values()),
        )
        size_of.clear()
        merging.total = sum(len(unit.files) for unit in units)
        merging.report()
        self._dispatcher = Dispatcher(self._client, self._name, self._eligible, merging.order)
        for event in self._dispatcher.run(units):
            if isinstance(event, Compared):
                merging.take(event.units, event.findings)
            elif isinstance(event, Lost):
                merging.lose(event.unit, event.reason)
            else:
                self._revive()
        run.engine.closing = True
        with run.store.transaction():
            return left_out_notes(run.engine, merging.earlier)


def _taken(run: Run, files: Sequence[TargetFile]) -> List[TargetFile]:
    """Return the files that have rows, with the earlier dumps of their ops, in the order of the
    execution; the others are held.
    """
    places = run.engine.places
    for file in files:
        if places.is_wanted(file.place):
            places.note(file)
    for file in files:
        if not places.is_taken(file.place):
            file.hold()
    every = (file for of_place in run.catalogue.by_place().values() for file in of_place)
    return [
        file
        for file in every
        if file.state == GROWING or (file.state == EARLIER and places.is_taken(file.place))
    ]


class _MergedFindings:
    """Orders made of units, and what became of them put into the run."""

    def __init__(
        self, run: Run, name: str, probes: Tuple[FileProbe, ...], on_progress: OnProgress
    ) -> None:
        self._run, self._name, self._probes = run, name, probes
        self._on_progress = on_progress
        self._omitted: Set[Tuple[str, str]] = set()
        self._records: Dict[str, FileRecord] = run.store.files() if run.store.continued else {}
        self._options, self._called = _absolute(run.options)
        self.earlier: Dict[str, int] = {}
        self.total = self._done = 0

    def order(self, units: Sequence[Unit], apart: bool) -> Order:
        """Return the order to compare some units."""
        files = _files(units)
        stored = self._run.store.table.lines_of_files([file.rel for file in files if file.has_rows])
        return Order(
            run=self._name,
            version=__version__,
            options=self._options,
            called=self._called,
            probes=self._probes,
            files=tuple(file.rel for file in files),
            own_places=tuple({file.place for file in files} & self._run.engine.places.own_places),
            stored=packed(stored),
            notes=tuple(self._notes(files, stored)) if stored else (),
            apart=apart,
        )

    def _notes(self, files: Sequence[TargetFile], stored: Sequence[Any]) -> Iterator[Note]:
        """Yield what the store holds about target files, and about the golden files of their
        rows.
        """
        for file in files:
            record = self._records.get(file.path)
            if record is not None:
                yield (file.rel, *record)
        for name in {from_sql_text(line[_GOLDEN_FILE]) for line in stored} - {None}:
            path = os.path.realpath(os.path.join(self._run.options.golden, name))
            if path in self._records:
                yield (path, *self._records[path])

    def take(self, units: Sequence[Unit], findings: Findings) -> None:
        """Merge the findings of a worker into the run, in one transaction."""
        engine, store = self._run.engine, self._run.store
        files = _files(units)
        with store.transaction():
            for piece in findings.pieces:
                store.table.put(unpacked(piece))
            store.table.remove(findings.gone, "the file has changed")
            for path, size_bytes, mtime_ns, state in findings.notes:
                store.put_file(
                    os.path.join(engine.catalogue.root, path), size_bytes, mtime_ns, state
                )
            for omitted in sorted(set(findings.omitted) - self._omitted):
                store.events.omit(*omitted)
        self._omitted.update(findings.omitted)
        for (
            number,
            state,
            expected_bytes,
            n_inputs,
            n_outputs,
            iteration,
            has_rows,
        ) in findings.files:
            file = files[number]
            if state == PLANNED:
                file.plan(
                    FilePlan(expected_bytes=expected_bytes, n_inputs=n_inputs, n_outputs=n_outputs),
                    0,
                    NOTHING,
                )
            elif state == HELD:
                file.hold()
            file.iteration, file.has_rows = iteration, has_rows
        for name, count in findings.earlier.items():
            self.earlier[name] = self.earlier.get(name, 0) + count
        progress = engine.progress
        progress.pairs += findings.pairs
        progress.pairs_done += findings.pairs
        progress.bytes_done += findings.size_bytes
        self._count(files)

    def lose(self, unit: Unit, reason: str) -> None:
        """Add rows with the reason for the files of a unit that no worker survives."""
        engine = self._run.engine
        planner = engine.places.planner(unit.place)
        with self._run.store.transaction():
            for file in unit.files:
                if file.state == GROWING:
                    plan = planner.lost(file.entry(), reason)
                    engine.remove_rows(file, {row_key(row) for row in plan.rows}, reason)
                    file.plan(plan, 0, NOTHING)
                    engine.put_rows(plan.rows, file)
        self._count(unit.files)

    def _count(self, files: Sequence[TargetFile]) -> None:
        self._done += len(files)
        self.report()

    def report(self) -> None:
        """Report how many files are done."""
        self._on_progress(
            self._run.engine.progress.at("comparing in the cluster", self._done, self.total)
        )


def _files(units: Sequence[Unit]) -> List[TargetFile]:
    return [file for unit in sorted(units, key=lambda unit: unit.number) for file in unit.files]


_PATHS = ("target", "golden", "model", "quantisation", "unfused", "custom")


def _absolute(options: ComparisonOptions) -> Tuple[ComparisonOptions, Tuple[Tuple[str, str], ...]]:
    """Return the options with absolute paths, for workers stand in other folders; and what the
    paths are called in messages.
    """
    paths = {name: getattr(options, name) for name in _PATHS}
    changed = {
        name: os.path.abspath(path)
        for name, path in paths.items()
        if path is not None and not os.path.isabs(path)
    }
    called = {
        os.path.join(path, ""): os.path.join(paths[name], "") for name, path in changed.items()
    }
    called.update((path, paths[name]) for name, path in changed.items())
    return replace(options, **changed), tuple(
        sorted(called.items(), key=lambda item: -len(item[0]))
    )
