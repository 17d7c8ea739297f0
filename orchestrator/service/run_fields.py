"""The fields of a run in the API, its progress included."""

from __future__ import annotations

import datetime
import os
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Set

from ..base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, FormatError, GoldwatchError
from ..base.naming import run_name
from ..dumps.place import name_order
from ..judging.diagnosis.summary import INCOMPLETE
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS
from ..run.run_status import JUDGED
from ..store.facts_and_events import EXPECTED, OPS
from ..store.json_numbers import plain_tree
from ..store.store_reader import StoreReader, host_of, is_written, signature
from ..store.stored_networks import SUMMARY
from .runs import Run

_CODES = {PASS: EXIT_PASS, FAIL: EXIT_FAIL}
RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"

_TRUST_S = 0.05
"""What was written so shortly before a look may have been written once more since, within one tick
of the file system's clock.
"""


class RunState(NamedTuple):
    """What is known about a run.

    Attributes
    ----------
    fields
        The fields of the API except ``id``, ``path``, ``age_s``.
    started_s
        Seconds since 1970 of the first start, or None.
    written_s
        Seconds since 1970 of the last write to the store, or None.
    size_bytes
        Size of the target files that are compared.
    summary
        result.json's summary of a finished run, else None.
    """

    fields: Dict[str, Any]
    started_s: Optional[float]
    written_s: Optional[float]
    size_bytes: int
    summary: Optional[Dict[str, Any]]


class _Memory:
    """What was read of one run before."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.key: Any = None
        self.trusted = False
        self.state: Optional[RunState] = None
        self.inode: Any = None
        self.last = 0
        self.models: Set[Optional[str]] = set()
        self.devices: Set[Optional[str]] = set()
        self.steps: Set[Optional[str]] = set()
        self.first: Optional[Dict[str, Any]] = None
        self.first_of = 0
        self.first_due_s = 0.0


class RunStates:
    """What is known of each run. An unchanged store is not read again, and of a changed one only
    the new part where possible.
    """

    def __init__(self) -> None:
        self._memories: Dict[str, _Memory] = {}
        # Of the table alone: a run is read under its own mutex, so that one that takes long holds
        # up no other.
        self._mutex = threading.Lock()

    def state_of(self, run: Run) -> RunState:
        """Return what is known about a run; a store that cannot be read is reported in
        ``error``.
        """
        with self._mutex:
            memory = self._memories.setdefault(run.path, _Memory())
        with memory.mutex:
            # In this order: a run that ends meanwhile appears as running once more, never as
            # stopped.
            written = is_written(run.path)
            files = signature(run.path)
            if memory.state is None or memory.key != (written, files) or not memory.trusted:
                memory.state = _read(run, memory, written, files)
                memory.key = (written, files)
                newest = max((part[2] for part in files if part), default=0)
                memory.trusted = time.time() - newest / 1e9 > _TRUST_S
            return memory.state

    def document(self, run: Run) -> Dict[str, Any]:
        """Return a run as the API shows it."""
        state = self.state_of(run)
        age_s = (
            None if state.started_s is None else round(max(0.0, time.time() - state.started_s), 3)
        )
        shown = os.fsencode(run.path).decode("utf-8", "backslashreplace")
        return {"id": run.id, "path": shown, **state.fields, "age_s": age_s}

    def forget(self, paths: Set[str]) -> None:
        """Discard what is remembered of all runs but these."""
        with self._mutex:
            for path in set(self._memories) - paths:
                del self._memories[path]


def _read(run: Run, memory: _Memory, written: bool, files: Any) -> RunState:
    written_s = max((part[2] for part in files if part), default=0) / 1e9 or None
    try:
        with StoreReader(run.path) as store:
            return _described(run, memory, store, written, written_s)
    except (GoldwatchError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        message = (
            error.message
            if isinstance(error, GoldwatchError)
            else "the store cannot be read: %s" % error
        )
        names = (
            "rows",
            "stored",
            "last_id",
            "void",
            "passed",
            "failed",
            "provisional",
            "not_compared",
            "expected_absent",
        )
        counts = dict.fromkeys(names, 0)
        host = host_of(run.path)
        known: Dict[str, Any] = {
            "state": RUNNING if written else STOPPED,
            "verdict": None,
            "exit_code": None,
            "error": message,
        }
        nothing: Dict[str, Any] = {
            "model": None,
            "devices": [],
            "steps": [],
            "first_divergence": None,
            "progress": None,
            "started": None,
        }
        fields = {**known, **nothing, **counts, "host": host}
        return RunState(fields, None, written_s, 0, None)


def _described(
    run: Run, memory: _Memory, store: StoreReader, written: bool, written_s: Optional[float]
) -> RunState:
    counts = store.counted.all()
    rows = sum(counts.values())
    stored = store.counted.stored() if store.has_hosts else rows
    summary = None if written else store.fact(SUMMARY)
    state = RUNNING if written else FINISHED if summary is not None else STOPPED
    _take_places(memory, store)
    inputs = store.fact("inputs") or {}
    done, size_bytes = store.files_done(str(inputs.get("target", "")))
    expected, ops = store.fact(EXPECTED), _ops(store.fact(OPS))
    provisional = min(store.provisional(), counts.get(FAIL, 0)) if state == RUNNING else 0
    started_s = _started(store.fact("started"))
    fields = {
        "state": state,
        "verdict": _verdict(state, counts, provisional, summary),
        "exit_code": None if summary is None else _exit_code(store, summary),
        "model": _model(memory, inputs),
        "devices": _names(memory.devices),
        "steps": _names(memory.steps),
        "rows": rows,
        "stored": stored,
        "last_id": store.last_given_id() if stored else 0,
        "void": store.void(),
        "passed": counts.get(PASS, 0),
        "failed": counts.get(FAIL, 0),
        "provisional": provisional,
        "not_compared": counts.get(NOT_COMPARED, 0),
        "expected_absent": counts.get(EXPECTED_ABSENT, 0),
        "first_divergence": _first(memory, store, summary, counts.get(FAIL, 0)),
        "progress": 1.0 if state == FINISHED else _progress(done, expected, ops),
        "ops": ops,
        "files_done": done,
        "files_expected": expected.get("files") if isinstance(expected, dict) else None,
        "bytes_done": size_bytes,
        "bytes_expected": expected.get("bytes") if isinstance(expected, dict) else None,
        "started": None
        if started_s is None
        else datetime.datetime.fromtimestamp(started_s).astimezone().isoformat(),
        "host": host_of(run.path),
        "error": None,
    }
    return RunState(
        fields, started_s, written_s, size_bytes, None if summary is None else plain_tree(summary)
    )


def _verdict(
    state: str, counts: Dict[str, int], provisional: int, summary: Optional[Dict[str, Any]]
) -> Optional[str]:
    if summary is not None:
        return str(summary.get("verdict"))
    if counts.get(FAIL, 0) > provisional:
        return FAIL
    return None if state == RUNNING else INCOMPLETE


def _first(
    memory: _Memory, store: StoreReader, summary: Optional[Dict[str, Any]], failed: int
) -> Optional[Dict[str, Any]]:
    """Return the first operator outside its limits; for a run without a summary it is searched for
    during a twentieth of the time.
    """
    if summary is not None:
        first = summary.get("first_divergence")
        return (
            {"op": str(first["op"]), "tensor": str(first["tensor"])}
            if isinstance(first, dict)
            else None
        )
    began = time.monotonic()
    if failed != memory.first_of and (not failed or began >= memory.first_due_s):
        row = store.first_failing() if failed else None
        memory.first = None if row is None else {"op": row.op, "tensor": row.tensor}
        memory.first_of, memory.first_due_s = failed, began + 20.0 * (time.monotonic() - began)
    return memory.first


def _exit_code(store: StoreReader, summary: Dict[str, Any]) -> int:
    noted = store.fact(JUDGED)
    code = noted.get("exit_code") if isinstance(noted, dict) else None
    return (
        code if isinstance(code, int) else _CODES.get(str(summary.get("verdict")), EXIT_INCOMPLETE)
    )


def _take_places(memory: _Memory, store: StoreReader) -> None:
    if store.has_hosts:
        memory.models, memory.devices, memory.steps = store.counted.names()
        return
    inode = os.stat(store.path).st_ino
    if memory.inode != inode or store.last_id() < memory.last:
        memory.inode, memory.last = inode, 0
        memory.models, memory.devices, memory.steps = set(), set(), set()
    models, devices, steps, memory.last = store.places(memory.last)
    memory.models |= models
    memory.devices |= devices
    memory.steps |= steps


def _names(names: Set[Optional[str]]) -> List[str]:
    return sorted((name for name in names if name is not None), key=name_order)


def _model(memory: _Memory, inputs: Dict[str, Any]) -> Optional[str]:
    """Return the names of the models: those of the dump folders, without their times where only
    these differ, else that of the model's file.
    """
    full = {name for name in memory.models if name}
    short = {str(run_name(name)) for name in full}
    names = sorted(full if len(short) == len(full) else short)
    if not names and isinstance(inputs.get("model"), str):
        names = [os.path.basename(inputs["model"])]
    return ", ".join(names) or None


def _ops(counts: Any) -> Optional[Dict[str, int]]:
    names = ("come", "expected")
    known = isinstance(counts, dict) and all(isinstance(counts.get(name), int) for name in names)
    return {name: counts[name] for name in names} if known else None


def _progress(done: int, expected: Any, ops: Optional[Dict[str, int]]) -> Optional[float]:
    if ops is not None and ops["expected"]:
        return min(1.0, round(ops["come"] / ops["expected"], 4))
    total = expected.get("files") if isinstance(expected, dict) else None
    return min(1.0, round(done / total, 4)) if isinstance(total, int) and total > 0 else None


def _started(text: Any) -> Optional[float]:
    try:
        return datetime.datetime.strptime(str(text), "%Y%m%d%H%M%S").timestamp()
    except ValueError:
        raise FormatError("damaged: the time of the first start is not YYYYmmddHHMMSS") from None
