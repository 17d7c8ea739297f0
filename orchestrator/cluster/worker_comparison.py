"""The worker's side: an order's files compared in a session like that of a run without a cluster,
into a store on the worker's own disk.
"""

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
from ..run.compare_folders import Session, note_signature
from ..run.engine import Engine
from ..run.golden_files import Goldens
from ..run.target_file import GROWING, TargetFile
from ..run.workers import Workers
from ..store.row_transfer import changed_lines, unpacked
from ..store.store import RunStore
from .file_probes import NotSeen, require_seen
from .order_and_findings import Findings, Order

_of_thread = threading.local()
_all: Set[OpenRun] = set()
# Of `_all`; never held together with an OpenRun's `_state`.
_lock = threading.Lock()


def compare_order(order: Order) -> Findings:
    """Compare the files of an order; called on a worker, where the models and GOLDEN are kept open
    for the next one.

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
        raise NotSeen(
            "worker %s has goldwatch %s, not %s" % (worker, __version__, order.version), worker
        )
    open_run = _open_run(order)
    try:
        return open_run.compare(order)
    except BaseException:
        # What is half done must not be taken for something of the next order.
        open_run.close()
        raise


def _open_run(order: Order) -> OpenRun:
    """Return what this thread has open for an order's run."""
    open_run: Optional[OpenRun] = getattr(_of_thread, "open_run", None)
    if open_run is None or open_run.run != order.run or open_run.closed:
        if open_run is not None:
            open_run.close()
        require_seen(order.probes, _address())
        open_run = _of_thread.open_run = OpenRun(order)
    return open_run


def end_run(run: str) -> None:
    """Close what a run has opened on this worker, and remove its store; one that is at work does it
    when it is done.
    """
    with _lock:
        open_runs = [open_run for open_run in _all if open_run.run == run]
    # Outside of the lock: closing takes it.
    for open_run in open_runs:
        open_run.end()


class OpenRun:
    """What one thread of a worker has open for one run."""

    def __init__(self, order: Order) -> None:
        self.run = order.run
        self._called = order.called
        self.closed = False
        self._state = threading.Lock()
        self._busy = self._ended = False
        self._apart: Optional[Workers] = None
        self._folder = tempfile.mkdtemp(prefix="goldwatch-", dir=_own_disk())
        with contextlib.ExitStack() as opened:
            opened.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self.options = replace(order.options, out=self._folder)
            self._graphs = self.options.graphs()
            self._root = os.path.realpath(self.options.target)
            golden = self.options.golden_index.golden()
            self._here = Workers(1, self.options.settings())
            opened.callback(self._here.close)
            self._store = RunStore.begin(self._folder, {"run": order.run})
            opened.callback(self._store.close)
            self._goldens = Goldens(
                self.options.golden,
                self.options.golden_steps,
                self._store,
                self.options.target,
                self._graphs,
            )
            self._goldens.take(golden)
            self._opened = opened.pop_all()
        with _lock:
            _all.add(self)

    def compare(self, order: Order) -> Findings:
        """Return the findings of an order's files; the store is empty before and after."""
        with self._state:
            self._busy = True
        try:
            return self._compare(order)
        finally:
            with self._state:
                self._busy = False
                ended = self._ended
            if ended:
                self.close()

    def _compare(self, order: Order) -> Findings:
        begin = time.monotonic()
        store = self._store
        store.table.clear()
        known = unpacked(order.stored)
        with store.transaction():
            store.table.put(known)
            for path, size_bytes, mtime_ns, state in order.notes:
                store.put_file(os.path.join(self._root, path), size_bytes, mtime_ns, state)
        engine, files = self._begin(order)
        earlier = Session(engine).compare(
            [file for file in files if file is not None and file.state == GROWING]
        )
        engine.rendered_rows.close()
        pieces, gone = changed_lines(store.table, known, self._called)
        below = os.path.join(self._root, "")
        noted = (
            (path[len(below) :] if path.startswith(below) else path, *record)
            for path, record in store.files().items()
        )
        return Findings(
            pieces,
            tuple(gone),
            tuple((path, size, mtime, state) for path, size, mtime, state in noted),
            tuple(
                (
                    number,
                    file.state,
                    file.expected_bytes,
                    *file.tensors,
                    file.iteration,
                    file.has_rows,
                )
                for number, file in enumerate(files)
                if file is not None
            ),
            tuple(store.events.omitted()),
            earlier,
            engine.progress.pairs,
            engine.progress.bytes_done,
            time.monotonic() - begin,
        )

    def _begin(self, order: Order) -> Tuple[Engine, List[Optional[TargetFile]]]:
        """Return an engine that knows an order's files, and these files."""
        engine = Engine(
            self.options,
            self._graphs,
            self._store,
            self._workers(order.apart),
            self._goldens,
        )
        engine.places.settled = True
        engine.places.own_places.update(order.own_places)
        engine.reuse_rows()
        with self._store.transaction():
            return engine, [self._meet(engine, rel) for rel in order.files]

    @staticmethod
    def _meet(engine: Engine, rel: str) -> Optional[TargetFile]:
        file, _ = engine.meet(os.path.join(engine.catalogue.root, rel))
        if file is not None and file.state == GROWING:
            note_signature(file)
        return file

    def _workers(self, apart: bool) -> Workers:
        if not apart:
            return self._here
        if self._apart is None:
            self._apart = Workers(1, self.options.settings(), apart=True)
            self._opened.callback(self._apart.close)
        return self._apart

    def end(self) -> None:
        """Close it now or, where it is comparing, when that is done."""
        with self._state:
            self._ended = True
            busy = self._busy
        if not busy:
            self.close()

    def close(self) -> None:
        """Close the store and remove it; a second call does nothing."""
        with _lock:
            _all.discard(self)
        with self._state:
            closed, self.closed = self.closed, True
        if not closed:
            self._opened.close()


def _address() -> str:
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
