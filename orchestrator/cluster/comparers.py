"""The files of a run compared by a Dask cluster."""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Sequence, Set, Tuple

from .. import __version__
from ..comparing.file_plan import FilePlan
from ..dumps.tree import DumpTree, find_dumps
from ..engine.closing import tell_left_out
from ..engine.comparers import look
from ..engine.comparison import Run
from ..engine.options import ComparisonOptions
from ..engine.progress import OnProgress
from ..engine.target_file import EARLIER, GROWING, HELD, NOTHING, PLANNED, TargetFile
from ..errors import InputError
from ..results.records import FileRecord
from ..results.rowlines import packed, unpacked
from ..results.rowsql import COLUMNS, from_sql_text, row_key
from .address import ClusterAddress
from .connecting import Connection, connected
from .dispatch import Dispatcher, Where
from .messages import Findings, Note, Order
from .session import end_sessions
from .sight import Marker, look_around, marker
from .units import Unit, cut

_GOLDEN_FILE = COLUMNS.index("golden_file")
_SHOWN = 4


@contextlib.contextmanager
def cluster_comparers(address: ClusterAddress) -> Iterator[Cluster]:
    """Yield who compares on a cluster; errors as those of :func:`goldwatch.cluster.connecting.connected`."""
    with connected(address) as connection:
        yield Cluster(connection)


class Cluster:
    """The workers of a cluster, in place of processes of this machine.

    Parameters
    ----------
    connection
        To its scheduler.
    """

    def __init__(self, connection: Connection) -> None:
        self._client, self._revive = connection
        self._name = uuid.uuid4().hex[:12]
        self._markers: List[Marker] = []
        self._seeing: Dict[str, bool] = {}

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds, once there are workers that see it too.

        Raises
        ------
        InputError
            None does.
        """
        tree = find_dumps(options.target, time=options.time)
        self._markers = list(_markers(options, tree))
        lacking = self._look_around()
        if lacking and not any(self._seeing.values()):
            raise InputError(
                "no worker sees the files: %s" % "; ".join(lacking[:_SHOWN]), hint="they must lie under the same paths on their machines"
            )
        tree.notes += ["warning: %s: it gets no work" % text for text in lacking]
        return tree

    def _look_around(self) -> List[str]:
        """Ask the workers that have not been asked; return which do not see everything."""
        fresh = [worker for worker in self._client.nthreads() if worker not in self._seeing]
        said = []
        for worker, what in (look_around(self._client, self._markers, fresh) if fresh else {}).items():
            self._seeing[worker] = not what
            if what:
                said.append("worker %s does not see %s" % (worker, ", ".join(what[:_SHOWN])))
        return said

    def _where(self, unit: Unit) -> Where:
        if all(self._seeing.values()):
            return None
        with contextlib.suppress(OSError):
            self._look_around()
        return sorted(worker for worker, sees in self._seeing.items() if sees)

    def size_of(self, file: TargetFile) -> int:
        """Return a file's size in bytes; its looks are noted."""
        return look(file)

    def compare(self, run: Run, files: Sequence[TargetFile], sizes: Sequence[int], on_progress: OnProgress) -> List[str]:
        """Have all files compared by the workers, and merge what they find."""
        merging = _Merging(run, self._name, on_progress)
        size_of = dict(zip((file.path for file in files), sizes))
        units = cut(run.engine, [(file, size_of.get(file.path, 0)) for file in _taken(run, files)], sum(self._client.nthreads().values()))
        merging.total = sum(len(unit.files) for unit in units)
        try:
            Dispatcher(self._client, self._name, merging.order, self._where, merging.take, merging.lose, self._revive).run(units)
        finally:
            with contextlib.suppress(Exception):
                self._client.run(end_sessions, self._name)
        if len({unit.place for unit in units}) < len(units):
            run.engine.judge_inputs()
        run.engine.closing = True
        with run.store.transaction():
            return tell_left_out(run.engine, merging.earlier)


def _markers(options: ComparisonOptions, tree: DumpTree) -> Iterator[Marker]:
    """Yield a file of each device folder of TARGET, one of GOLDEN, and the models and scripts."""
    devices: Set[Tuple[Any, ...]] = set()
    for combo in tree.combos:
        if combo.place[:2] not in devices and combo.files:
            devices.add(combo.place[:2])
            yield marker("TARGET (%s)" % combo.files[0].rel, os.path.abspath(combo.files[0].path))
    first = _first_file(options.golden)
    if first is not None:
        yield marker("GOLDEN (%s)" % options.golden, first)
    for path in (*options.models, *options.user_code.scripts):
        name = path if not os.path.isdir(path) else _first_file(path)
        if name is not None:
            yield marker(path, os.path.abspath(name))


def _first_file(folder: str) -> Any:
    for base, folders, names in os.walk(os.path.abspath(folder), followlinks=True):
        folders.sort()
        if names:
            return os.path.join(base, min(names))
    return None


def _taken(run: Run, files: Sequence[TargetFile]) -> List[TargetFile]:
    """Return the files that have rows, with the earlier dumps of their ops, in the order of the execution; the others are held."""
    places = run.engine.places
    for file in files:
        if places.is_wanted(file.place):
            places.note(file)
    for file in files:
        if not places.is_taken(file.place):
            file.hold()
    every = run.catalogue.files.values()
    return [file for file in every if file.state == GROWING or (file.state == EARLIER and places.is_taken(file.place))]


class _Merging:
    """Orders made of units, and what became of them put into the run."""

    def __init__(self, run: Run, name: str, on_progress: OnProgress) -> None:
        self._run, self._name = run, name
        self._on_progress = on_progress
        self._omitted: Set[Tuple[str, str]] = set()
        self._records: Dict[str, FileRecord] = run.store.files() if run.store.continued else {}
        self._options, self._called = _absolute(run.options)
        self.earlier: Dict[str, int] = {}
        self.total = self._done = 0

    def order(self, units: Sequence[Unit], apart: bool) -> Order:
        """Return the order to compare some units."""
        files = [file for unit in sorted(units, key=lambda unit: unit.number) for file in unit.files]
        own = {file.place for file in files} & self._run.engine.places.own
        names = tuple(file.rel for file in files)
        stored = self._run.store.lines_of_files([file.rel for file in files if file.has_rows])
        notes = tuple(self._noted(files, stored)) if stored else ()
        return Order(self._name, __version__, self._options, self._called, names, tuple(own), packed(stored), notes, apart)

    def _noted(self, files: Sequence[TargetFile], stored: Sequence[Any]) -> Iterator[Note]:
        goldens = {from_sql_text(line[_GOLDEN_FILE]) for line in stored} - {None}
        paths = [os.path.realpath(os.path.join(self._run.options.golden, name)) for name in goldens]
        for path in (*(file.path for file in files), *paths):
            record = self._records.get(path)
            if record is not None:
                yield (path, record.size_bytes, record.mtime_ns, record.state)

    def take(self, units: Sequence[Unit], found: Findings) -> None:
        """Put what a worker found into the run, all at once."""
        engine, store = self._run.engine, self._run.store
        with store.transaction():
            for piece in found.pieces:
                store.put_lines(unpacked(piece))
            store.remove(found.gone, "the file has changed")
            for note in found.notes:
                store.put_file(*note)
            for omitted in sorted(set(found.omitted) - self._omitted):
                store.omit(*omitted)
        self._omitted.update(found.omitted)
        files = [file for unit in sorted(units, key=lambda unit: unit.number) for file in unit.files]
        for number, state, expected_bytes, n_inputs, n_outputs, iteration, has_rows in found.files:
            file = files[number]
            if state == PLANNED:
                file.plan(FilePlan(expected_bytes=expected_bytes, n_inputs=n_inputs, n_outputs=n_outputs), 0, NOTHING)
            elif state == HELD:
                file.hold()
            file.iteration, file.has_rows = iteration, has_rows
        for name, count in found.earlier.items():
            self.earlier[name] = self.earlier.get(name, 0) + count
        progress = engine.progress
        progress.pairs += found.pairs
        progress.pairs_done += found.pairs
        progress.bytes_done += found.size_bytes
        progress.failed += found.failed
        self._count(files)

    def lose(self, unit: Unit, reason: str) -> None:
        """Give the files of a unit that no worker survives rows that say so."""
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
        self.tell()

    def tell(self) -> None:
        """Tell how many files are done."""
        self._on_progress(self._run.engine.progress.at("comparing in the cluster", self._done, self.total))


_PATHS = ("target", "golden", "model", "quantisation", "unfused", "custom")


def _absolute(options: ComparisonOptions) -> Tuple[ComparisonOptions, Tuple[Tuple[str, str], ...]]:
    """Return the options with absolute paths, for workers stand in other folders; and what the paths are called in messages."""
    given = {name: getattr(options, name) for name in _PATHS}
    changed = {name: os.path.abspath(path) for name, path in given.items() if path is not None and not os.path.isabs(path)}
    called = {os.path.join(path, ""): os.path.join(given[name], "") for name, path in changed.items()}
    called.update((path, given[name]) for name, path in changed.items())
    return replace(options, **changed), tuple(sorted(called.items(), key=lambda item: -len(item[0])))
