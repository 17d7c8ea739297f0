"""The worker's side: an order's files compared by the same engine as at home, into a store on the worker's own disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from dataclasses import replace
from typing import List, Optional, Set, Tuple

from .. import __version__
from ..comparing.patterns import AlignedPair, Walked
from ..comparing.workers import Workers
from ..dumps.golden import GoldenSet
from ..dumps.place import Place
from ..engine.catalogue import Catalogue
from ..engine.closing import settle_files
from ..engine.comparers import compare_files, drain, look
from ..engine.engine import Engine
from ..engine.goldens import Goldens
from ..engine.rereading import RunReader
from ..engine.target_file import GROWING, TargetFile
from ..results.rowlines import changed_lines, unpacked
from ..results.store import RunStore
from .messages import Findings, Order
from .sight import NotSeen, on_this_host, require_seen

_own = threading.local()
_all: Set[Session] = set()
_lock = threading.Lock()


def compare_order(order: Order) -> Findings:
    """Compare the files of an order; called on a worker, where the models and GOLDEN are kept open for the next one.

    Raises
    ------
    NotSeen
        This worker has another goldwatch, or does not see what it should.
    EnvironmentProblem
        It cannot write to its disk.
    GoldwatchError
        The models, GOLDEN or the user's code cannot be read here.
    """
    if order.version != __version__:
        worker = _address()
        raise NotSeen("worker %s has goldwatch %s, not %s" % (worker, __version__, order.version), worker)
    session = _session(order)
    try:
        return session.compare(order)
    except BaseException:
        # What is half done must not be taken for something of the next order.
        session.close()
        raise


def read_pair(order: Order, file: str, tensor: str, most: int) -> Optional[AlignedPair]:
    """Return the elements of a tensor of a finished row, as :meth:`goldwatch.engine.rereading.RunReader.read` does, on a worker."""
    return _session(order).reader(order).read(file, tensor, most)


def read_walked(order: Order, file: str, tensor: str, distance: float, background: float) -> Optional[Walked]:
    """Return what :meth:`goldwatch.engine.rereading.RunReader.walk` does, on a worker."""
    return _session(order).reader(order).walk(file, tensor, distance, background)


def age_of(order: Order, file: str, place: Place) -> str:
    """Return what :meth:`goldwatch.engine.rereading.RunReader.age` says, on a worker."""
    return _session(order).reader(order).age(file, place)


def _session(order: Order) -> Session:
    """Return what this thread has open for an order's run."""
    session: Optional[Session] = getattr(_own, "session", None)
    if session is None or session.run != order.run or session.closed:
        if session is not None:
            session.close()
        require_seen(order.markers, _address())
        session = _own.session = Session(order)
    return session


def end_sessions(run: str) -> None:
    """Close what a run has opened on this worker, and remove its store; one that is at work does it when it is done."""
    with _lock:
        sessions = [session for session in _all if session.run == run]
    for session in sessions:
        session.end()


class Session:
    """What one thread of a worker has open for one run."""

    def __init__(self, order: Order) -> None:
        self.run = order.run
        options, self._called = order.options, order.called
        if order.golden is not None:
            golden = on_this_host(order.golden)
            self._called = ((os.path.join(golden, ""), os.path.join(options.golden, "")), *self._called)
            options = replace(options, golden=golden)
        self.closed = False
        self._ended = False
        self._busy = threading.Lock()
        self._apart: Optional[Workers] = None
        self._folder = tempfile.mkdtemp(prefix="goldwatch-", dir=_own_disk())
        try:
            self.options = replace(options, out=self._folder)
            self._graphs = self.options.graphs()
            self._here = Workers(1, self.options.settings())
            self._root = os.path.realpath(options.target)
            self._store = RunStore.begin(self._folder, {"run": order.run})
            dumps_too = os.path.realpath(options.golden) != os.path.realpath(options.target)
            self._goldens = Goldens(options.golden, options.golden_steps, self._store, dumps_too)
            self._goldens.take(GoldenSet.open(options.golden))
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        with _lock:
            _all.add(self)

    def compare(self, order: Order) -> Findings:
        """Return what becomes of an order's files; the store is empty before and after."""
        with self._busy:
            try:
                return self._compare(order)
            finally:
                if self._ended:
                    self.close()

    def _compare(self, order: Order) -> Findings:
        begin = time.monotonic()
        store = self._store
        store.table.clear()
        known = unpacked(order.stored)
        with store.transaction():
            store.table.put_lines(known)
            for path, size_bytes, mtime_ns, state in order.notes:
                store.put_file(os.path.join(self._root, path), size_bytes, mtime_ns, state)
        engine, files = self._met(order)
        compare_files(engine, [file for file in files if file is not None and file.state == GROWING], lambda progress: None)
        earlier = settle_files(engine)
        drain(engine, lambda progress: None)
        engine.kept.close()
        pieces, gone = changed_lines(store.table, known, self._called)
        below = os.path.join(self._root, "")
        noted = ((path[len(below) :] if path.startswith(below) else path, *record) for path, record in store.files().items())
        return Findings(
            pieces,
            tuple(gone),
            tuple((path, size, mtime, state) for path, size, mtime, state in noted),
            tuple(
                (number, file.state, file.expected_bytes, *file.tensors, file.iteration, file.has_rows)
                for number, file in enumerate(files)
                if file is not None
            ),
            tuple(store.events.omitted()),
            earlier,
            engine.progress.pairs,
            engine.progress.bytes_done,
            time.monotonic() - begin,
            _address(),
        )

    def _met(self, order: Order) -> Tuple[Engine, List[Optional[TargetFile]]]:
        """Return an engine that knows an order's files, and these."""
        catalogue = Catalogue(self.options.target)
        engine = Engine(self.options, self._graphs, self._store, self._workers(order.apart), catalogue, self._goldens)
        engine.places.settled = True
        engine.places.own.update(order.own)
        engine.believe_rows()
        with self._store.transaction():
            return engine, [self._meet(engine, rel) for rel in order.files]

    def reader(self, order: Order) -> RunReader:
        """Return who reads the tensors of an order's files again."""
        engine, files = self._met(order)
        for file in files:
            if file is not None:
                file.iteration = order.iterations.get(file.rel)
        return RunReader(engine)

    @staticmethod
    def _meet(engine: Engine, rel: str) -> Optional[TargetFile]:
        file, _ = engine.meet(os.path.join(engine.catalogue.root, rel))
        if file is not None and file.state == GROWING:
            look(file)
        return file

    def _workers(self, apart: bool) -> Workers:
        if not apart:
            return self._here
        if self._apart is None:
            self._apart = Workers(1, self.options.settings(), apart=True)
        return self._apart

    def end(self) -> None:
        """Close it now or, where it is at work, when that is done."""
        self._ended = True
        if self._busy.acquire(False):
            try:
                self.close()
            finally:
                self._busy.release()

    def close(self) -> None:
        """Close the store and remove it; a second call does nothing."""
        with _lock:
            _all.discard(self)
        if self.closed:
            return
        self.closed = True
        for workers in (self._here, self._apart):
            if workers is not None:
                workers.close()
        with contextlib.suppress(Exception):
            self._store.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _address() -> str:
    """Return this worker's address."""
    from distributed import get_worker

    return str(get_worker().address)


def _own_disk() -> Optional[str]:
    """Return the folder that Dask keeps for this worker, and removes after it; None elsewhere."""
    from distributed import get_worker

    try:
        folder: str = get_worker().local_directory
    except ValueError:
        return None
    return folder
