"""The end of a run: what was held, never became whole, never came or never found golden data gets
its rows.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ..base.notes import Note, note
from ..base.wording import listed, plural
from ..dumps.dump_tree import StepFolder
from ..dumps.folder_listing import look_at
from ..dumps.place import Place, place_of
from ..metrics.compare_pair import refuse
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    EXPECTED_ABSENT,
    NOT_COMPARED,
    ONLY_INPUTS,
    Row,
)
from ..model.row_plan import MISSING_OUTPUT, OUTPUT
from ..store.row_sql import row_key
from .dump_catalogue import SomeFiles
from .engine import Engine
from .target_file import EARLIER, GONE, HELD, PLANNED, WAITING, TargetFile

_STANDS_FOR_IT = "another op of its L1 fusion group stands for it"


def settle(engine: Engine) -> List[Note]:
    """Plan what waited for the end: cut and damaged files, L1 fusion groups, loops, tensors without
    golden data. Their pairs are queued.

    Returns
    -------
    list of Note
        What was left out, as sentences.
    """
    engine.places.settled = engine.closing = True
    with engine.store.transaction():
        _forget_moved(engine)
        return left_out_notes(engine, settle_files(engine))


def settle_files(engine: Engine) -> Dict[str, int]:
    """Plan the files that waited for the end; return how many earlier dumps of which ops do not
    count.
    """
    engine.closing = True
    earlier: Dict[str, int] = {}
    with engine.store.transaction():
        for place, files in engine.catalogue.by_place().items():
            if not engine.places.is_taken(place):
                continue
            _settle_groups(engine, place, files)
            for name, count in _settle_loops(engine, files).items():
                earlier[name] = earlier.get(name, 0) + count
            for file in files.in_state(*WAITING, GONE, or_missing=True):
                if engine.slices.is_held(file):
                    continue
                if file.state in WAITING or (file.state == PLANNED and file.missing):
                    _accept(engine, file)
                elif file.state == GONE and (not file.has_rows or file.missing):
                    _vanished(engine, file)
    return earlier


def left_out_notes(engine: Engine, earlier: Mapping[str, int]) -> List[Note]:
    """Return, and note in the store, what was left out, as sentences.

    Parameters
    ----------
    earlier
        How many earlier dumps of which ops do not count.

    Raises
    ------
    InputError
        No dump is of any of the models.
    """
    places = engine.catalogue.by_place()
    engine.graphs.require(place.model for place in places)
    notes = _left_out(engine, places)
    if earlier:
        notes.append(
            note(
                "earlier-dumps",
                plural(sum(earlier.values()), "earlier dump"),
                listed(sorted(earlier), 3),
            )
        )
    for text in notes:
        engine.store.events.add("left out", None, text)
    return notes


def _left_out(engine: Engine, places: Mapping[Place, Sequence[TargetFile]]) -> List[Note]:
    """Name each model that is not compared once, however many devices and steps have dumps of
    it.
    """
    left: Dict[str, List[Place]] = {}
    for place in places:
        if not engine.places.is_taken(place) and not (
            engine.places.is_modelled(place) and engine.goldens.lacks(place)
        ):
            left.setdefault(place.model or "", []).append(place)
    notes = []
    for model, places_of in sorted(left.items()):
        of = "model %s" % model if model else "dumps below no model's folder"
        shown = places[min(places_of, key=Place.order)][0].rel + (
            " and %d more" % (len(places_of) - 1) if len(places_of) > 1 else ""
        )
        why = (
            engine.graphs.no_model_reason()
            if engine.graphs.by_name
            else "none of its ops is in %s" % engine.options.model
        )
        notes.append(note("left-out-model", of, shown, why))
    return notes


def _accept(engine: Engine, file: TargetFile) -> None:
    plan = engine.plan(file)
    assert plan is not None
    engine.accept(file, plan)


def _settle_groups(engine: Engine, place: Place, files: SomeFiles) -> None:
    """Decide which files of L1 fusion groups have rows."""
    planner = engine.places.planner(place)
    groups: Dict[str, List[TargetFile]] = {}
    for file in files:
        if file.state not in (EARLIER, GONE):
            groups.setdefault(file.folder.base, []).append(file)
    for members in groups.values():
        left_out = planner.leave_out(file.dumped() for file in members)
        for number, file in enumerate(members):
            if number in left_out:
                engine.store.events.omit(file.op_name, _STANDS_FOR_IT)
                engine.remove_rows(file, set(), _STANDS_FOR_IT)
            elif file.state == HELD and not engine.slices.is_held(file):
                _accept(engine, file)


def _settle_loops(engine: Engine, files: SomeFiles) -> Dict[str, int]:
    """Where golden data have a run for each dump of an op, such as of a loop's body, every dump is
    compared with its own.

    Returns how many dumps of which ops do not count.
    """
    left: Dict[str, int] = {}
    if not engine.catalogue.has_earlier:
        return left
    for file in [file for file in files.in_state(PLANNED) if not engine.slices.joins(file)]:
        runs = [*engine.catalogue.earlier(file), file]
        if len(runs) < 2:
            continue
        if not engine.places.planner(file.place).has_iterations(file.dumped(), len(runs)):
            left[file.op_name] = len(runs) - 1
            continue
        for number, one in enumerate(runs):
            one.iteration = (number, len(runs))
            if one != file:
                _accept(engine, one)
    return left


def _forget_moved(engine: Engine) -> None:
    """Count a file that was moved within TARGET at its new path only."""
    gone = engine.catalogue.in_state(GONE)
    if not gone:
        return
    there = {}
    for file in engine.catalogue.in_state(PLANNED, HELD, *WAITING):
        if file.signature is not None:
            there[file.signature.inode] = file
    for file in gone:
        moved = there.get(file.signature.inode) if file.signature is not None else None
        if (
            moved is not None
            and file.signature is not None
            and file.signature.is_file(moved.signature)
        ):
            engine.remove_rows(file, set(), "the file was moved to %s" % moved.rel)
            engine.catalogue.forget(file)


def _vanished(engine: Engine, file: TargetFile) -> None:
    """Add a row that says so for a file that was removed before it was compared."""
    plan = engine.plan(file)
    reason = "%s vanished before it was compared" % file.rel
    rows = (
        [row.but(reason=reason, cause=DUMP_MISSING) for row in plan.rows if row.cause == CORRUPT]
        if plan is not None
        else []
    )
    engine.put_rows(rows, file)


def finish_rows(
    engine: Engine,
    empty: Sequence[StepFolder] = (),
    unlisted: Sequence[Tuple[str, str]] = (),
    absent: Sequence[Row] = (),
) -> None:
    """Store the rows of what never came, drop rows that no longer belong to the run, and number the
    ops that the model does not know.

    Parameters
    ----------
    empty
        Folders that have the place of a step and hold no dump.
    unlisted
        (folder relative to TARGET, reason) of folders that cannot be listed.
    absent
        The rows of what never came, as far as the source knows them.
    """
    with engine.store.transaction():
        keys: Set[str] = set()
        places = engine.catalogue.by_place()
        unnamed = _unnamed(engine)
        numbers: Dict[Place, Dict[str, int]] = {}
        taken = {place for place in places if engine.places.is_taken(place)}
        for place in dict.fromkeys([*engine.places, *unnamed]):
            rows = unnamed.get(place, [])
            there = [file for file in places.get(place, []) if file.there]
            if (not there and not rows) or not (place in taken or engine.places.is_taken(place)):
                continue
            numbers[place] = _number(engine, place, there, [row.op for row in rows])
            rows = rows + engine.places.planner(place).absent([file.dumped() for file in there])
            rows += _lost_outputs(engine, place, there)
            keys.update(row_key(row) for row in rows)
            engine.put_rows(rows)
        engine.store.table.renumber(numbers)
        folders = [
            (rel, "the folder %s cannot be listed: %s" % (rel, why), CORRUPT)
            for rel, why in unlisted
        ]
        for step_folder in empty:
            if step_folder.place not in taken and engine.places.is_wanted(step_folder.place):
                folders.append(
                    (
                        step_folder.rel,
                        "the step's folder %s holds no dump"
                        % (step_folder.rel or step_folder.folder),
                        "",
                    )
                )
        behind = (
            max(engine.store.op_count(), engine.graphs.op_count(engine.places)) if folders else 0
        )
        lost = [
            *absent,
            *(_folder_row(engine, rel, behind, reason, cause) for rel, reason, cause in folders),
        ]
        engine.put_rows(lost)
        keys.update(row_key(row) for row in lost)
        stale = [
            key
            for target in engine.store.table.target_files()
            if not _counts(engine.catalogue.of_row(target), taken)
            for key in engine.store.table.keys_of_file(target)
            if key not in keys
        ]
        if stale:
            engine.store.table.remove(stale, "no longer part of the run")


def _counts(file: Optional[TargetFile], taken: Set[Place]) -> bool:
    """Tell whether a file is of the run: at one of its places, and the latest of its op."""
    return file is not None and file.state != EARLIER and file.place in taken


def _lost_outputs(engine: Engine, place: Place, files: Sequence[TargetFile]) -> List[Row]:
    """Return rows of the outputs that a dump lacks, of inputs only among others that hold
    outputs.
    """
    planned = [file for file in files if file.state == PLANNED and file.tensors[0]]
    only_inputs = [file for file in planned if not file.tensors[1]]
    if not only_inputs or len(only_inputs) == len(planned):
        return []
    if engine.places.planner(place).only_inputs:
        return []
    names = {file.rel for file in only_inputs}
    lost_rows = []
    for row in engine.store.rows(place=place, verdict=EXPECTED_ABSENT):
        if row.kind == OUTPUT and row.target_file in names and row.reason_codes == ONLY_INPUTS:
            graph = engine.graphs.of(place.model)
            op = graph.op(row.op) if graph is not None else None
            count = len(op.output_descs) if op is not None else 1
            reason = MISSING_OUTPUT % (count, 0)
            lost_rows.append(
                row.but(verdict=NOT_COMPARED, reason=reason, reason_codes="", cause=DUMP_MISSING)
            )
    return lost_rows


def _unnamed(engine: Engine) -> Dict[Place, List[Row]]:
    """Return the rows of files with a hash name that no mapping.csv explains."""
    unnamed: Dict[Place, List[Row]] = {}
    for path, place in sorted(engine.catalogue.unresolved.items()):
        if look_at(path) is not None:
            unnamed.setdefault(place, []).append(
                engine.places.planner(place).unnamed(engine.catalogue.rel(path))
            )
    return unnamed


def _number(
    engine: Engine, place: Place, files: Iterable[TargetFile], unnamed: List[str]
) -> Dict[str, int]:
    """Number the ops that the model does not know in the order of their files, whatever order they
    came in.
    """
    names = [file.op_name for file in files if file.state != EARLIER] + unnamed
    planner = engine.places.planner(place)
    unknown = list(dict.fromkeys(name for name in names if not planner.knows(name)))
    planner.number_unknown_ops(unknown)
    base = planner.first_free_index()
    return {name: base + number for number, name in enumerate(unknown)}


def _folder_row(engine: Engine, rel: str, index: int, reason: str, cause: str) -> Row:
    """Return the row of a folder of TARGET: what it should hold is not known to be good."""
    folder = os.path.join(engine.catalogue.root, rel)
    name = os.path.basename(folder)
    place = place_of(folder, set())._asdict()
    row = Row(
        index=index,
        op=name,
        op_type="",
        tensor=name,
        kind="op",
        verdict=NOT_COMPARED,
        target_file=rel,
        **place,
    )
    return refuse(row, reason, cause)
