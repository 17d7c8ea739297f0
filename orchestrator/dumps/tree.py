"""The dump tree below a folder: which device, model and step each file belongs to.

The full form is ``{time}/{device_id}/{model_name}/{model_id}/{data_index}/{dump_file}``; for a run of single ops
``{time}/{device_id}/{dump_file}`` or, older, ``{device_id}/{op_name}/{dump_file}``. Any level may be the folder that the user names.

Where a file lies is read from the names of its folder and of that folder's parents on the absolute path, also those above the folder that
the user named, as far as they have the form:

- parent a time (14 digits, a possible date) and folder a number: time and device (single op);
- folder a number (step) and parent a number (model_id): the next parent is the model, the next, if a number, the device, and the next,
  if a time, the time;
- parent a number and the folder named like the one op whose dumps it holds: device (single op, older form); all such folders of one device
  are one combination;
- else nothing is known, and all five are None.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Set, Tuple

from ..naming import DumpName
from .listing import DumpEntry, FolderListing, list_folder, walk

__all__ = ["Combo", "DumpEntry", "DumpTree", "find_dumps", "identity_of", "list_folder", "tree_of"]

_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_TIME = re.compile(r"[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]\Z")

Identity = Tuple[Optional[str], Optional[str], Optional[str], Optional[str], Optional[str]]


@dataclass
class Combo:
    """One folder of dump files: one device, model and step of one run.

    Attributes
    ----------
    time, device, model, model_id, step
        As the folders' names say; None where they do not (see the module's rule).
    folder, rel
        The folder, and the same relative to the folder that the user named.
    files
        Every op's dump files, by timestamp; files of one op that repeat are all here.
    overflow, stats
        Overflow records and statistics CSVs.
    unresolved, others
        Names of files whose hash name is not explained, and of files that are no dumps.
    """

    time: Optional[str]
    device: Optional[str]
    model: Optional[str]
    model_id: Optional[str]
    step: Optional[str]
    folder: str
    rel: str = ""
    files: List[DumpEntry] = field(default_factory=list)
    overflow: List[DumpEntry] = field(default_factory=list)
    stats: List[DumpEntry] = field(default_factory=list)
    unresolved: List[str] = field(default_factory=list)
    others: List[str] = field(default_factory=list)

    def current(self) -> List[DumpEntry]:
        """Return the latest file of each op (of each slice, with FFTS+), by timestamp."""
        latest = {slice_key(entry.name): entry for entry in self.files}
        return sorted(latest.values(), key=lambda entry: (entry.name.timestamp_us, entry.rel))

    def label(self) -> str:
        """Return a short name for messages."""
        parts = (("device", self.device), ("model", self.model), ("model_id", self.model_id), ("step", self.step))
        known = ", ".join("%s %s" % part for part in parts if part[1] is not None)
        return "%s (%s)" % (self.rel or self.folder, known) if known else self.rel or self.folder


@dataclass
class DumpTree:
    """What :func:`find_dumps` found.

    Attributes
    ----------
    root
        The folder that the user named.
    combos
        The folders that are taken, sorted by device, model, model_id and step (numbers as numbers).
    left
        Folders of an older time of the same device, which are not.
    without_dumps
        Folders with overflow records, statistics or unexplained hash names only.
    notes
        What was taken, what was left and why, and what could not be read.
    unlisted
        (folder relative to root, reason) of folders that could not be listed.
    """

    root: str
    combos: List[Combo] = field(default_factory=list)
    left: List[Combo] = field(default_factory=list)
    without_dumps: List[Combo] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    unlisted: List[Tuple[str, str]] = field(default_factory=list)


def slice_key(name: DumpName) -> Tuple[str, Optional[int], Optional[int], Optional[int], Optional[int]]:
    """Return what files of repeated runs of one op (or one slice of it) have in common."""
    return (name.op_name, name.task_type, name.context_id, name.thread_id, name.device_id)


def find_dumps(root: str, what: str = "TARGET") -> DumpTree:
    """Find all dump files at and below ``root``; every folder is listed once and no dump file is opened.

    Of several time folders of one device the newest is taken. Files that cannot be read are found out when they are opened.

    Parameters
    ----------
    what
        The folder's role in error messages.

    Raises
    ------
    MissingPath
        ``root`` does not exist, is not a folder or cannot be listed.
    """
    return tree_of(root, list(walk(root, what)))


def tree_of(root: str, listings: List[FolderListing]) -> DumpTree:
    """Make a tree of listings (for :func:`find_dumps` and golden folders)."""
    tree = DumpTree(root)
    combos: List[Combo] = []
    for listing in listings:
        tree.notes.extend(listing.notes)
        if listing.unlisted:
            tree.unlisted.append((listing.rel, listing.unlisted))
        if listing.dumps:
            combos.append(_combo(listing))
            if listing.golden:
                count = len(listing.golden)
                tree.notes.append("%s: %d golden files (npy, pb, quant) lie among the dumps and are no dumps" % (listing.where(), count))
        elif listing.overflow or listing.stats or listing.unresolved:
            tree.without_dumps.append(_combo(listing))
    _take_newest(tree, _one_per_device(combos))
    tree.combos.sort(key=_order)
    _tell(tree)
    return tree


def identity_of(folder: str, op_names: Set[str]) -> Identity:
    """Return (time, device, model, model_id, step) of a folder by the module's rule.

    Parameters
    ----------
    op_names
        Names of the ops whose dumps it holds.
    """
    names = os.path.abspath(folder).split(os.sep)
    levels = ([""] * 5 + names)[-5:]
    time, device, model, model_id, step = levels
    if _TIME.match(model_id) and _NUMBER.match(step):
        return model_id, step, None, None, None
    if _NUMBER.match(step) and _NUMBER.match(model_id) and model:
        known_device = device if _NUMBER.match(device) else None
        return time if known_device and _TIME.match(time) else None, known_device, model, model_id, step
    if _NUMBER.match(model_id) and op_names == {step}:
        return model if _TIME.match(model) else None, model_id, None, None, None
    return None, None, None, None, None


def _combo(listing: FolderListing) -> Combo:
    time, device, model, model_id, step = identity_of(listing.folder, {entry.name.op_name for entry in listing.dumps})
    return Combo(
        time,
        device,
        model,
        model_id,
        step,
        listing.folder,
        listing.rel,
        files=listing.dumps,
        overflow=listing.overflow,
        stats=listing.stats,
        unresolved=listing.unresolved,
        others=listing.others,
    )


def _one_per_device(combos: List[Combo]) -> List[Combo]:
    """Join the op folders of the older single-op form, which are one run of one device."""
    joined: Dict[str, Combo] = {}
    result = []
    for combo in combos:
        folder = os.path.abspath(combo.folder)
        name = os.path.basename(folder)
        if combo.device is None or combo.model is not None or name == combo.device:
            result.append(combo)
            continue
        combo.unresolved = [os.path.join(name, file) for file in combo.unresolved]
        combo.others = [os.path.join(name, file) for file in combo.others]
        first = joined.setdefault(os.path.dirname(folder), combo)
        if first is combo:
            result.append(combo)
            continue
        first.folder, first.rel = os.path.dirname(combo.folder), os.path.dirname(combo.rel)
        for field_name in ("files", "overflow", "stats", "unresolved", "others"):
            getattr(first, field_name).extend(getattr(combo, field_name))
        first.files.sort(key=lambda entry: (entry.name.timestamp_us, entry.rel))
    return result


def _take_newest(tree: DumpTree, combos: List[Combo]) -> None:
    """Keep the newest time of each device; a combo without a time is always kept."""
    newest: Dict[Optional[str], str] = {}
    for combo in combos:
        if combo.time is not None:
            newest[combo.device] = max(combo.time, newest.get(combo.device, ""))
    for combo in combos:
        taken = combo.time is None or newest.get(combo.device, combo.time) == combo.time
        (tree.combos if taken else tree.left).append(combo)
    for combo in tree.left:
        text = "left out %s: time %s of device %s is older than %s"
        tree.notes.append(text % (combo.rel or combo.folder, combo.time, combo.device, newest[combo.device]))


def _tell(tree: DumpTree) -> None:
    """Note what was taken."""
    for combo in tree.combos:
        text = "took %s: %d dump files" % (combo.label(), len(combo.files))
        repeated = len(combo.files) - len({slice_key(entry.name) for entry in combo.files})
        if repeated:
            text += ", %d of them earlier runs of the same op" % repeated
        tree.notes.append(text + _besides(combo))
    for combo in tree.without_dumps:
        tree.notes.append("%s: no dump file%s" % (combo.rel or combo.folder, _besides(combo)))


def _besides(combo: Combo) -> str:
    """Return what a folder holds besides dump files, as the rest of a sentence."""
    lists = (combo.overflow, "overflow records"), (combo.stats, "statistics files"), (combo.others, "other files")
    text = "".join(", %d %s" % (len(files), what) for files, what in lists if files)
    return text + (", %d files with unexplained hash names" % len(combo.unresolved) if combo.unresolved else "")


def _order(combo: Combo) -> Tuple[Tuple[int, int, str], ...]:
    keys = (combo.device, combo.model, combo.model_id, combo.step, combo.time, combo.rel)
    return tuple((0, int(key), key) if key is not None and _NUMBER.match(key) else (1, 0, key or "") for key in keys)
