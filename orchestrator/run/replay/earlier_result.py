"""What the comparison with golden data of the same dumps says, as its store tells it."""

from __future__ import annotations

import os
from typing import Dict, List, Optional

from ...base.errors import InputError
from ...base.naming import printable
from ...base.safe_reading import open_input
from ...dumps.dump_tree import StepFolder
from ...dumps.folder_listing import look_at
from ...judging.diagnosis.summary import REPLAY
from ...metrics.row import FAIL
from ...model.graph import ModelGraph
from ...model.never_dumped import EVERYTHING, DumpRequest
from ...store.facts_and_events import FileRecord
from ...store.store import RunStore
from ...store.stored_networks import SUMMARY

_PIECE_BYTES = 1 << 20


def golden_fails(result: Optional[str], step_folder: StepFolder) -> bool:
    """Tell whether a comparison of a step's dumps fails; False without one.

    Parameters
    ----------
    result
        The folder of its results.

    Raises
    ------
    InputError
        It is a replay's, or of other dumps: no file of the step is in it, or one was another then.
        Dumps that were moved or copied since are the same.
    MissingPath, FormatError, EnvironmentProblem
        There is no result, or it cannot be read.
    """
    if result is None:
        return False
    with RunStore.open(result) as store:
        inputs = store.get("inputs") or {}
        if inputs.get("comparison") == REPLAY:
            raise InputError(
                "%s is the result of a replay, not of a comparison with golden data"
                % printable(result),
                hint="give that",
            )
        _require_same_dumps(store, result, str(inputs.get("target", "")), step_folder)
        summary = store.get(SUMMARY)
        return summary["verdict"] == FAIL if summary else bool(store.counted.all().get(FAIL))


def dump_request_of(
    result: Optional[str], graph: ModelGraph, step_folder: StepFolder
) -> DumpRequest:
    """Return what the device was asked to dump, as a comparison was told; errors of
    :func:`golden_fails`.
    """
    if result is None:
        return EVERYTHING
    with RunStore.open(result) as store:
        plan = (store.get("inputs") or {}).get("plan")
    if plan is None:
        return EVERYTHING
    # Few runs have a dump request.
    from ...config.dump_plan import DumpPlan
    from ...config.ops_of_dump_plan import requested_ops_of

    return requested_ops_of(DumpPlan.from_document(plan), graph, step_folder.place.model)


def _require_same_dumps(store: RunStore, result: str, target: str, step_folder: StepFolder) -> None:
    records, compared = store.files(), _compared(store, target)
    known = [entry.path for entry in step_folder.files if os.path.basename(entry.path) in compared]
    differing = [
        path
        for path in known
        if not any(
            _same(path, then, records.get(then)) for then in compared[os.path.basename(path)]
        )
    ]
    if differing or not known:
        why = (
            "%s was another file then" % os.path.basename(differing[0])
            if differing
            else "none of its files was compared"
        )
        raise InputError(
            "%s is the comparison of other dumps: of those in %s, while %s is replayed (%s)"
            % tuple(printable(text) for text in (result, target, step_folder.folder, why)),
            hint="compare these dumps, and give the result of that",
        )


def _compared(store: RunStore, target: str) -> Dict[str, List[str]]:
    """Return the paths of the files that were compared, by their names."""
    compared: Dict[str, List[str]] = {}
    for rel in store.table.target_files():
        if rel is not None:
            compared.setdefault(os.path.basename(rel), []).append(
                os.path.normpath(os.path.join(target, rel))
            )
    return compared


def _same(path: str, then: str, record: Optional[FileRecord]) -> bool:
    """Tell whether a dump is the file that was compared, which was at ``then``."""
    look = look_at(path)
    assert look is not None
    if record is not None and record.size_bytes and record.size_bytes != look.size_bytes:
        return False
    if os.path.realpath(path) == os.path.realpath(then):
        return record is None or not record.mtime_ns or record.mtime_ns == look.mtime_ns
    return look_at(then) is None or _equal(path, then)


def _equal(path: str, other: str) -> bool:
    with open_input(path) as mine, open_input(other) as theirs:
        while True:
            piece = mine.read(_PIECE_BYTES)
            if piece != theirs.read(_PIECE_BYTES):
                return False
            if not piece:
                return True
