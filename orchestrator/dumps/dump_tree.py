"""The dump tree below a folder: its folders of dump files by place
(:mod:`goldwatch.dumps.place`)."""

from __future__ import annotations

import os
from dataclasses import field
from itertools import chain
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ..base.fast_dataclasses import dataclass
from ..base.naming import run_name
from ..base.notes import Note, note
from ..base.safe_reading import AnyPath, path_text
from ..base.wording import plural
from .folder_listing import (
    DumpEntry,
    FolderListing,
    dumps_of,
    listed_statistics,
    op_key,
    walk,
)
from .place import Place, name_order, place_of, time_order

ALL_TIMES = "all"

_MOST_TOLD = 4


@dataclass
class StepFolder:
    """One folder of dump files: one device, model and step of one run.

    Attributes
    ----------
    place
        By the names of the folders.
    folder, rel
        The folder, and the same relative to the folder that the user named.
    files
        Every op's dump files by timestamp, including repeated runs of an op.
    repeated
        How many of these are earlier runs of the same op.
    overflow, stats
        Overflow records and statistics CSVs.
    unresolved, others
        Names of files whose hash name is not explained, and of files that are no dumps.
    """

    place: Place
    folder: str
    rel: str = ""
    files: Sequence[DumpEntry] = ()
    repeated: int = 0
    overflow: List[DumpEntry] = field(default_factory=list)
    stats: List[DumpEntry] = field(default_factory=list)
    unresolved: List[str] = field(default_factory=list)
    others: List[str] = field(default_factory=list)

    def label(self) -> str:
        """Return a short name for messages."""
        known = self.place.label()
        return "%s (%s)" % (self.rel or self.folder, known) if known else self.rel or self.folder


class DumpTree:
    """All dump files below a folder; every folder is listed once and no dump file is opened.

    Parameters
    ----------
    root
        A whole tree or any folder in it.
    time
        Which of several time folders of one device and model: the newest (None), this one, or
        ``all``.
    listings
        What is in it, where it was listed before; it may then not exist.

    Attributes
    ----------
    step_folders
        The folders to compare, sorted by device, model, model_id and step (numerically).
    left
        The folders of an older time of the same device, which are ignored.
    without_dumps
        Folders with overflow records, statistics or unexplained hash names only.
    notes
        What was used, what was ignored and why, and what could not be read.
    empty
        Empty folders at the place of a step.
    overflow
        All files of overflow records.
    unlisted
        (folder relative to root, reason) of folders that could not be listed.
    statistics
        Whether the dumps are statistics in place of tensors.

    Raises
    ------
    MissingPath
        ``root`` does not exist, is not a folder or cannot be listed.
    """

    def __init__(
        self,
        root: AnyPath,
        time: Optional[str] = None,
        listings: Optional[Sequence[FolderListing]] = None,
    ) -> None:
        self.root = root = path_text(root, "TARGET")
        listings = list(walk(root, "TARGET")) if listings is None else listings
        self.step_folders: List[StepFolder] = []
        self.left: List[StepFolder] = []
        self.without_dumps: List[StepFolder] = []
        self.notes: List[Note] = []
        self._passed_over: List[str] = []
        self._why: Dict[Tuple[Optional[str], ...], str] = {}
        self.empty: List[StepFolder] = []
        self.overflow = [entry for listing in listings for entry in listing.overflow]
        self.unlisted: List[Tuple[str, str]] = []
        step_folders: List[StepFolder] = []
        # Statistics replace dumps only if there are neither dumps nor golden files.
        self.statistics = not any(listing.dumps or listing.golden for listing in listings)
        for listing in listings if self.statistics else ():
            listing.dumps, listing.stats = listed_statistics(listing), []
        self.statistics = self.statistics and any(listing.dumps for listing in listings)
        for listing in listings:
            self.notes.extend(listing.notes)
            self._passed_over.extend(listing.passed_over)
            if listing.unlisted:
                self.unlisted.append((listing.rel, listing.unlisted))
            if listing.dumps:
                step_folders.append(_step_folder(listing))
                if listing.golden:
                    self.notes.append(
                        note("golden-among-dumps", listing.where(), len(listing.golden))
                    )
            elif listing.overflow or listing.stats or listing.unresolved:
                self.without_dumps.append(_step_folder(listing))
            elif _is_empty_step(listing):
                self.empty.append(_step_folder(listing))
        _choose_times(self, _one_per_device(step_folders), time)
        self.step_folders.sort(key=_order)
        _note_folders_in_use(self)

    def __repr__(self) -> str:
        return "DumpTree(%r, %s)" % (self.root, plural(len(self.step_folders), "place"))

    @property
    def left_notes(self) -> List[Note]:
        """Notes on what was ignored: special files, and one sentence for each ignored time, device
        and model.
        """
        left_out: Dict[Tuple[Optional[str], ...], List[StepFolder]] = {}
        for step_folder in self.left:
            left_out.setdefault(step_folder.place.run, []).append(step_folder)
        notes = [note("passed-over", text) for text in self._passed_over]
        for key, (first, *more) in left_out.items():
            where = (first.rel or first.folder) + (" and %d more" % len(more) if more else "")
            notes.append(note("other-time", where, key[0], key[1], self._why[key]))
        return notes


def newest_files(
    entries: Iterable[DumpEntry], whole_op: Callable[[str], Optional[str]]
) -> List[List[DumpEntry]]:
    """Return the newest file of each op, by timestamp; the files of the slices of one op together.

    Parameters
    ----------
    whole_op
        Returns the op that ``{op}_lxslice{N}`` is a slice of; None where it is the op's own name.
    """

    def by_time(files: Iterable[DumpEntry]) -> List[DumpEntry]:
        return sorted(files, key=lambda entry: (entry.name.timestamp_us, entry.rel))

    ops: Dict[Tuple[Any, ...], List[DumpEntry]] = {}
    for entry in by_time({op_key(entry.name): entry for entry in by_time(entries)}.values()):
        name, whole = entry.name, whole_op(entry.name.op_name)
        key: Tuple[Any, ...] = (entry.rel,)
        if whole is not None or name.slice is not None:
            key = (name.op_type, whole or name.op_name, name.task_type, name.device_id)
        ops.setdefault(key, []).append(entry)
    return list(ops.values())


def _step_folder(listing: FolderListing) -> StepFolder:
    only_op = listing.dumps.only_op
    return StepFolder(
        place_of(listing.folder, set() if only_op is None else {only_op}),
        listing.folder,
        listing.rel,
        files=listing.dumps,
        repeated=listing.dumps.repeated,
        overflow=listing.overflow,
        stats=listing.stats,
        unresolved=listing.unresolved,
        others=listing.others,
    )


def _one_per_device(step_folders: List[StepFolder]) -> List[StepFolder]:
    """Merge the op folders of the older single-op form, which are one run of one device."""
    joined: Dict[str, List[StepFolder]] = {}
    result = []
    for step_folder in step_folders:
        folder = os.path.abspath(step_folder.folder)
        name = os.path.basename(folder)
        if (
            step_folder.place.device is None
            or step_folder.place.model is not None
            or name == step_folder.place.device
        ):
            result.append(step_folder)
            continue
        step_folder.unresolved = [os.path.join(name, file) for file in step_folder.unresolved]
        step_folder.others = [os.path.join(name, file) for file in step_folder.others]
        same = joined.setdefault(os.path.dirname(folder), [])
        same.append(step_folder)
        if len(same) == 1:
            result.append(step_folder)
    for first, *others in joined.values():
        if others:
            first.folder, first.rel = os.path.dirname(first.folder), os.path.dirname(first.rel)
            every = chain.from_iterable(one.files for one in (first, *others))
            first.files = files = dumps_of(first.folder, first.rel, every)
            first.repeated = files.repeated
        for field_name in ("overflow", "stats", "unresolved", "others"):
            for other in others:
                getattr(first, field_name).extend(getattr(other, field_name))
    return result


def _is_empty_step(listing: FolderListing) -> bool:
    """Return whether a folder is at the place of a step and holds no dump."""
    there = listing.folders or listing.links or listing.golden or listing.unlisted
    # A folder listed before under another name is not empty.
    met_before = listing.passed_over and not listing.others
    return not there and not met_before and place_of(listing.folder, set()).step is not None


def _choose_times(tree: DumpTree, step_folders: List[StepFolder], time: Optional[str]) -> None:
    """Select the newest time of each device and model, or the requested one; folders without a time
    are always used.
    """
    newest: Dict[Any, str] = {}
    for place in (step_folder.place for step_folder in step_folders):
        if place.time is not None:
            known = newest.get((place.device, run_name(place.model)), "")
            newest[place.device, run_name(place.model)] = max(place.time, known, key=time_order)

    def chosen_of(place: Place) -> Optional[str]:
        return newest.get((place.device, run_name(place.model))) if time is None else time

    for step_folder in step_folders:
        place = step_folder.place
        chosen = chosen_of(place)
        if place.time is None or time == ALL_TIMES or place.time == chosen:
            tree.step_folders.append(step_folder)
            continue
        tree.left.append(step_folder)
        tree._why[place.run] = "%s %s" % ("is older than" if time is None else "is not", chosen)
    # Of a folder that would be left out with dumps, none are missed.
    tree.empty = [
        empty
        for empty in tree.empty
        if empty.place.time is None
        or time in (ALL_TIMES, empty.place.time)
        or (not time and time_order(empty.place.time) >= time_order(chosen_of(empty.place) or ""))
    ]


def _note_folders_in_use(tree: DumpTree) -> None:
    """Add notes on the folders in use; one sentence for places that have nothing else to report."""
    many = len(tree.step_folders) > _MOST_TOLD
    if many:
        tree.notes.append(note("folders", _folders_in_use(tree.step_folders)))
    for step_folder in tree.step_folders:
        what = "statistics of %d dumps" if tree.statistics else "%d dump files"
        text = "took %s: %s" % (step_folder.label(), what % len(step_folder.files))
        if step_folder.repeated:
            text += ", %d of them earlier runs of the same op" % step_folder.repeated
        text += _other_contents(step_folder)
        if not many or _other_contents(step_folder) or step_folder.repeated:
            tree.notes.append(note("folders", text))
    for step_folder in tree.without_dumps:
        tree.notes.append(
            note(
                "no-dumps-in-folder",
                step_folder.rel or step_folder.folder,
                _other_contents(step_folder),
            )
        )


def _folders_in_use(step_folders: Sequence[StepFolder]) -> str:
    """Return the devices, models and steps of many places as text."""
    parts = []
    for word, names in (("device", "devices"), ("model", "models"), ("step", "steps")):
        values = sorted(
            {getattr(step_folder.place, word) for step_folder in step_folders} - {None},
            key=name_order,
        )
        if values:
            parts.append(
                "%s %s" % (word, values[0])
                if len(values) == 1
                else "%d %s (%s)" % (len(values), names, _ends(values))
            )
    return "took %d folders with %d dump files: %s" % (
        len(step_folders),
        sum(len(step_folder.files) for step_folder in step_folders),
        ", ".join(parts),
    )


def _ends(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_TOLD else "%s to %s" % (names[0], names[-1])


def _other_contents(step_folder: StepFolder) -> str:
    """Return what else a folder holds, as the rest of a sentence."""
    lists = (
        (step_folder.overflow, "overflow records"),
        (step_folder.stats, "statistics files"),
        (step_folder.others, "other files"),
    )
    text = "".join(", %d %s" % (len(files), what) for files, what in lists if files)
    return text + (
        ", %d files with unexplained hash names" % len(step_folder.unresolved)
        if step_folder.unresolved
        else ""
    )


def _order(step_folder: StepFolder) -> Tuple[Tuple[int, int, str], ...]:
    return (*step_folder.place.order(), name_order(step_folder.rel))
