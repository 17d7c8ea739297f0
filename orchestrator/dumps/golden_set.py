"""Golden tensors by op name and output index, from npy files, containers (pb, quant) or another
device's dumps.
"""

from __future__ import annotations

import operator
import os
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..base.errors import FormatError, GoldwatchError, NotThere, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.manifest import MANIFEST_FILE, original_name, recorded_sha256
from ..base.naming import (
    MAPPING_FILE,
    GoldenName,
    is_hash_name,
    nearest_names,
    op_of_parked_name,
    parse_dump_name,
    parse_golden_name,
    read_mapping,
    run_name,
    sanitise_device,
    sanitise_golden,
)
from ..base.notes import Note, note
from ..base.safe_reading import AnyPath, path_text, sha256_of_file
from ..base.wording import listed, plural
from ..tensors.tensor import Tensor
from .dump_file import DumpFile
from .dump_tree import DumpTree
from .folder_listing import (
    DumpEntry,
    FolderListing,
    GoldenFile,
    Signature,
    full_name_of,
    look_at,
    walk,
)
from .npy import open_npy, open_npy_once
from .place import Place, is_number, place_of
from .statistics_csv import is_table_of_ops, table_paths

if TYPE_CHECKING:
    from typing import SupportsIndex

Like = Tuple[str, Optional[Tuple[int, int]]]
"""An op's type, and (context, thread) of a file that FFTS+ wrote."""

# The parts of a place that distinguish runs; model_id does not.
_TELLING = ("device", "model", "step")


class GoldenDumps:
    """The dumps of a golden folder by op name and, if there are several, by device, model and step;
    none is opened.
    """

    def __init__(self) -> None:
        self._dumps: Dict[str, List[DumpEntry]] = {}
        self._places: Dict[str, Place] = {}
        self._levels: Dict[str, Counter[Optional[str]]] = {level: Counter() for level in _TELLING}

    def __len__(self) -> int:
        """Return the number of ops."""
        return len(self._dumps)

    def __iter__(self) -> Iterator[str]:
        """Yield the sanitised name of each op."""
        return iter(self._dumps)

    def add(self, dump: DumpEntry) -> None:
        """Add a dump that is not in the set yet."""
        self._places[dump.path] = place_of(os.path.dirname(dump.path), {dump.name.op_name})
        self._count(self._places[dump.path], 1)
        self._dumps.setdefault(sanitise_golden(dump.name.op_name), []).append(dump)

    def discard(self, path: str) -> None:
        """Remove the dump at a path, if present."""
        place = self._places.pop(path, None)
        if place is None:
            return
        self._count(place, -1)
        for name, dumps in list(self._dumps.items()):
            dumps[:] = [dump for dump in dumps if dump.path != path]
            if not dumps:
                del self._dumps[name]

    def find(
        self, op_name: str, place: Optional[Place] = None, like: Optional[Like] = None
    ) -> Optional[DumpEntry]:
        """Return the latest dump of an op, or None.

        Parameters
        ----------
        place
            Place of the target. If the golden dumps are of several devices, models or steps, only
            those of the same device, model (ignoring a time in its name) and step are used;
            otherwise all targets are compared with the only one. The model_id decides only between
            dumps that agree in everything else.
        like
            The target's type, and (context, thread) of FFTS+: selects among ops of the same
            sanitised name by type, and among slices of one op by context and thread.
        """
        entries = [
            entry
            for entry in self._dumps.get(sanitise_golden(op_name), ())
            if place is None or self._is_of(entry, place)
        ]
        if not entries:
            return None
        exact = [entry for entry in entries if entry.name.op_name == op_name] or entries
        if like is not None:
            exact = [
                entry
                for entry in exact
                if sanitise_device(entry.name.op_type) == sanitise_device(like[0])
            ] or exact
            slices = {entry.name.slice for entry in exact}
            if len(slices) > 1 or (like[1] is not None and None not in slices):
                exact = [entry for entry in exact if entry.name.slice == like[1]]
                if not exact:
                    return None
        same_id = [
            entry
            for entry in exact
            if place is not None and self._places[entry.path].model_id == place.model_id
        ]
        return max(same_id or exact, key=lambda entry: (entry.name.timestamp_us, entry.rel))

    def slices(self, op_name: str) -> Set[Optional[Tuple[int, int]]]:
        """Return the (context, thread) of an op's dumps; None for files not from FFTS+."""
        return {entry.name.slice for entry in self._dumps.get(sanitise_golden(op_name), ())}

    @property
    def several_places(self) -> bool:
        """Whether the dumps are of several devices, models or steps."""
        return any(len(values) > 1 for values in self._levels.values())

    def levels(self) -> Dict[str, List[str]]:
        """Return the devices, models and steps of which there are several."""
        return {
            level: sorted(filter(None, values))
            for level, values in self._levels.items()
            if len(values) > 1
        }

    def _is_of(self, entry: DumpEntry, place: Place) -> bool:
        dump_place = self._places[entry.path]
        return all(
            len(values) < 2
            or getattr(place, level) is None
            or run_name(getattr(dump_place, level)) == run_name(getattr(place, level))
            for level, values in self._levels.items()
        )

    def _count(self, place: Place, change: int) -> None:
        for level, values in self._levels.items():
            name = run_name(getattr(place, level))
            values[name] += change
            if not values[name]:
                del values[name]


_RESHAPE, _VIEW = "-aten.reshape.default.", "-aten.view.default."
_SUFFIX_RANK = {"npy": 2, "pb": 1, "quant": 0}


@dataclass(frozen=True)
class GoldenEntry:
    """One golden tensor, not yet opened.

    Attributes
    ----------
    path, rel
        The file, and the same relative to the golden folder.
    op_name
        As in the file's name, not sanitised further.
    index
        Number of the output (or input, see ``io``).
    timestamp_us
        Of the file's name.
    kind
        ``npy``, ``container`` (pb, quant), ``npu`` (a device's dump) or ``torch`` (of torch.save).
    io
        ``output`` or ``input``.
    original
        The raw op name from the manifest, if other ops share its sanitised name; else empty.
    """

    path: str
    rel: str
    op_name: str
    index: int
    timestamp_us: int
    kind: str
    io: str = "output"
    rank: int = 0
    original: str = ""


@dataclass(frozen=True)
class Collision:
    """Golden files of different ops that look-ups cannot distinguish.

    Attributes
    ----------
    key, index
        The sanitised op name and the output index that they share.
    op_names, files
        The different names, and the files (relative), in the same order.
    """

    key: str
    index: int
    op_names: Tuple[str, ...]
    files: Tuple[str, ...]


class GoldenSet:
    """All golden tensors below one folder, by file name; no tensor is opened.

    Parameters
    ----------
    folder
        The folder.
    listings
        What is in it, where it was listed before; it may then not exist, and the set be filled by
        :meth:`add`.

    Attributes
    ----------
    folder
        The folder.
    tree
        The device dumps in it as a tree (empty for a folder of golden files).
    dumps
        The same by op.
    notes
        What was used, and what could not be read or understood.
    unresolved
        Files (relative) whose hash name is not explained by a mapping.csv so far.
    revision
        Incremented by every change of the set.

    Raises
    ------
    MissingPath
        The folder does not exist, is not one or cannot be listed.
    """

    def __init__(self, folder: AnyPath, listings: Optional[Sequence[FolderListing]] = None) -> None:
        self.folder = folder = path_text(folder, "GOLDEN")
        listings = list(walk(folder, "GOLDEN")) if listings is None else listings
        self.tree = DumpTree(folder, None, listings)
        self.notes: List[Note] = []
        self.unresolved: List[str] = []
        self._files: Dict[Tuple[str, int], List[GoldenEntry]] = {}
        self.dumps = GoldenDumps()
        self._known: Dict[str, str] = {}
        self._parked: Dict[str, List[GoldenEntry]] = {}
        self._kinds: Counter[str] = Counter()
        self.revision = 0
        self.notes.extend(self.tree.notes + self.tree.left_notes)
        for listing in listings:
            for file in listing.golden:
                self._add_file(file)
            self.unresolved.extend(os.path.join(listing.rel, name) for name in listing.unresolved)
        for step_folder in self.tree.step_folders:
            for dump in step_folder.files:
                self._add_dump(dump)
        if self._files:
            tensors = self._tensors()
            self.notes.append(note("golden-size", len(tensors), len({op for op, _ in tensors})))

    @property
    def kind(self) -> str:
        """``npy``, ``container``, ``npu``, ``mixed`` or ``empty``."""
        kinds = [kind for kind, count in self._kinds.items() if count]
        return kinds[0] if len(kinds) == 1 else "mixed" if kinds else "empty"

    def paths(self) -> List[str]:
        """Return the files in the set."""
        return list(self._known)

    def __repr__(self) -> str:
        return "GoldenSet(%r, %s)" % (self.folder, plural(len(self), "tensor"))

    def __len__(self) -> int:
        """Return the number of golden tensors, a device's dump file counted as one."""
        return len(self._tensors()) + len(self.dumps)

    def _tensors(self) -> Set[Tuple[str, int]]:
        """Return (op, index) of each output with a golden file; files without unique names by raw
        names.
        """
        return {
            (entry.original or key, index)
            for (key, index), entries in self._files.items()
            for entry in entries
        }

    def add(self, path: str) -> bool:
        """Add one new file; a mapping.csv or a manifest.json adds the files that wait for it.

        Returns
        -------
        bool
            Whether a golden tensor was added. False for a known file or one without a golden name.
        """
        name = os.path.basename(path)
        rel = os.path.relpath(path, self.folder)
        if name == MAPPING_FILE:
            return self._add_mapping(path, rel)
        if name == MANIFEST_FILE:
            return self._add_manifest(os.path.dirname(path))
        if is_hash_name(name):
            mapping = os.path.join(os.path.dirname(path), MAPPING_FILE)
            if rel not in self.unresolved and path not in self._known:
                self.unresolved.append(rel)
            return look_at(mapping) is not None and self._add_mapping(
                mapping, os.path.relpath(mapping, self.folder)
            )
        inside = table_paths(path) if is_table_of_ops(path) else ()
        for one in inside:
            self._add_named(
                one, os.path.join(rel, os.path.basename(one)), os.path.basename(one), None
            )
        return bool(inside) or self._add_named(path, rel, name, None)

    def put(self, entry: GoldenEntry) -> None:
        """Add a tensor regardless of its file's name."""
        self._add_entry(entry.path, entry.kind)
        self._files.setdefault(
            (sanitise_golden(entry.original or entry.op_name), entry.index), []
        ).append(entry)

    def discard(self, path: str) -> bool:
        """Remove a file; returns whether it was in the set."""
        kind = self._known.pop(path, None)
        if kind is None:
            return False
        self._kinds[kind] -= 1
        self.revision += 1
        self.dumps.discard(path)
        for entries in self._parked.values():
            entries[:] = [entry for entry in entries if entry.path != path]
        self._forget(path)
        return True

    def _forget(self, path: str) -> None:
        for key, entries in list(self._files.items()):
            entries[:] = [entry for entry in entries if entry.path != path]
            if not entries:
                del self._files[key]

    def find(
        self,
        op_name: str,
        index: SupportsIndex,
        io: str = "output",
        place: Optional[Place] = None,
        iteration: Optional[Tuple[int, int]] = None,
        like: Optional[Like] = None,
    ) -> Optional[GoldenEntry]:
        """Return the golden tensor of an op's output (a device's dump: or input), or None.

        Names are compared sanitised; among colliding files the one named exactly ``op_name`` is
        preferred, and files whose raw names are in a manifest are matched only by these. Files that
        the manifests of several folders tell otherwise are of several models: none is taken. Of
        several runs the latest is used, or ``iteration`` = (number from 0, count) if there are
        ``count`` runs. ``place`` and ``like`` as in
        :meth:`goldwatch.dumps.golden_set.GoldenDumps.find`.

        Raises
        ------
        UsageError
            The name is not a string, or the index not an integer.
        """
        try:
            key, number = sanitise_golden(op_name), operator.index(index)
        except TypeError:
            raise UsageError(
                "expected an op's name and the number of its output, got %r and %r"
                % (op_name, index)
            ) from None
        if io == "output":
            entries = self._files.get((key, number), [])
            if not entries and _RESHAPE in op_name:
                # TorchAir turns views into reshapes before it names the outputs of GE's graph; its
                # FX dump is from before that.
                return self.find(op_name.replace(_RESHAPE, _VIEW), index, io, place, iteration)
            if len(entries) == 1 and not entries[0].original:
                return entries[0]
            exact = _of_op(entries, op_name)
            if _several_models(exact):
                return None
            if exact:
                runs = {
                    entry.timestamp_us: entry
                    for entry in sorted(exact, key=lambda entry: (entry.rank, entry.rel))
                }
                stamps = sorted(runs)
                return runs[
                    stamps[
                        iteration[0]
                        if iteration is not None and iteration[1] == len(stamps)
                        else -1
                    ]
                ]
        dump = self.dumps.find(op_name, place, like)
        if dump is None:
            return None
        return GoldenEntry(
            dump.path, dump.rel, dump.name.op_name, number, dump.name.timestamp_us, "npu", io
        )

    def shape(
        self, op_name: str, index: int, place: Optional[Place] = None
    ) -> Optional[Tuple[int, ...]]:
        """Return the shape of an output's golden npy; None if there is no readable one."""
        entry = self.find(op_name, index, "output", place)
        if entry is None or entry.kind != "npy":
            return None
        try:
            return open_npy(entry.path).shape
        except (GoldwatchError, OSError):
            return None

    def runs(self, op_name: str, index: int) -> int:
        """Return the number of runs of an op's output by the timestamps of its golden files."""
        return len(
            {
                entry.timestamp_us
                for entry in _of_op(self._files.get((sanitise_golden(op_name), index), []), op_name)
            }
        )

    def of_several_runs(self) -> Iterator[List[GoldenEntry]]:
        """Yield the files of each output, by time, where one folder holds those of several runs."""
        for entries in self._files.values():
            if len(entries) < 2:
                continue
            runs: Dict[Tuple[str, str], Dict[int, GoldenEntry]] = {}
            for entry in sorted(entries, key=lambda entry: entry.rank):
                place = os.path.dirname(entry.rel), entry.original or entry.op_name
                runs.setdefault(place, {})[entry.timestamp_us] = entry
            for by_time in runs.values():
                if len(by_time) > 1:
                    yield [by_time[stamp] for stamp in sorted(by_time)]

    def no_match_reason(self, op_name: str, index: int) -> str:
        """Return why :meth:`find` rejects the candidate files of an output; empty without
        candidates.
        """
        key = sanitise_golden(op_name)
        original_names = {
            entry.op_name: entry.original
            for entry in self._files.get((key, index), [])
            if entry.original
        }
        if list(original_names.values()).count(op_name) > 1:
            return (
                "%d ops of the original model are called %s: which golden file is which op's "
                "cannot be told" % (len(original_names), op_name)
            )
        if original_names:
            text = "the golden files are of %s, which are written alike: " % listed(
                sorted(original_names.values()), 5
            )
            return text + (
                "give the model's json, which tells the op's own name"
                if sanitise_device(op_name) == op_name
                else "none is it"
            )
        folders = _several_models(_of_op(self._files.get((key, index), []), op_name))
        if folders:
            return (
                "GOLDEN has other values of it in each of %s: which "
                "are of this model cannot be told; call the folder of its golden data as the "
                "model, or give it alone" % listed(folders, 5)
            )
        parked = [entry for entries in self._parked.values() for entry in entries]
        if any((op_of_parked_name(entry.op_name), entry.index) == (key, index) for entry in parked):
            return (
                "its golden file is parked, for several ops share this name (mapping.csv): "
                "keep manifest.json beside it, which tells whose it is"
            )
        return ""

    @property
    def collisions(self) -> List[Collision]:
        """Golden files of different ops with the same sanitised name and index, sorted by name."""
        collisions = []
        for (key, index), entries in sorted(self._files.items()):
            by_name: Dict[str, str] = {}
            for entry in entries:
                if not entry.original:
                    by_name[entry.op_name] = entry.rel
            if len(by_name) > 1:
                names = tuple(sorted(by_name))
                collisions.append(
                    Collision(key, index, names, tuple(by_name[name] for name in names))
                )
        return collisions

    def outputs(self) -> Iterator[Tuple[str, int]]:
        """Yield the sanitised op name and index of each output with a golden npy, pb or quant
        file."""
        yield from self._files

    def op_names(self) -> Iterator[str]:
        """Yield the sanitised name of every op once."""
        yielded = set()
        for key in [key for key, _ in self._files] + list(self.dumps):
            if key not in yielded:
                yielded.add(key)
                yield key

    def stamps(self) -> Dict[str, int]:
        """Return the earliest timestamp of each op's golden npy, pb or quant files, by sanitised
        name.
        """
        earliest: Dict[str, int] = {}
        for (key, _), entries in self._files.items():
            stamp = min(entry.timestamp_us for entry in entries)
            earliest[key] = min(stamp, earliest.get(key, stamp))
        return earliest

    def nearest(self, op_name: str, n: int = 3) -> List[str]:
        """Return up to ``n`` sanitised op names that resemble ``op_name``, best first."""
        return nearest_names(sanitise_golden(op_name), self.op_names(), n, 0.5)

    def tensor(self, entry: GoldenEntry) -> Tensor:
        """Return the tensor of ``entry``; its bytes stay in the file. Raises as :meth:`load`."""
        return self.load(entry)[0]

    def load(self, entry: GoldenEntry) -> Tuple[Tensor, Optional[int]]:
        """Return the tensor of ``entry`` and its device address; see :func:`open_golden`."""
        return open_golden(entry)

    def _add_mapping(self, path: str, rel: str) -> bool:
        """Resolve the hash names of a folder's files by its mapping."""
        folder = os.path.dirname(rel)
        waiting = [name for name in self.unresolved if os.path.dirname(name) == folder]
        try:
            names = read_mapping(path)
        except FormatError as error:
            self.notes.append(note("unusable-mapping", rel, error.message))
            return False
        except OSError as error:
            self.notes.append(note("unreadable-mapping", rel, error.strerror or error))
            return False
        added = False
        for waiting_rel in waiting:
            file_name = os.path.basename(waiting_rel)
            full_name = full_name_of(file_name, names)
            if full_name is not None and self._add_named(
                os.path.join(os.path.dirname(path), file_name), waiting_rel, full_name, file_name
            ):
                self.unresolved.remove(waiting_rel)
                added = True
        return added

    def _add_named(self, path: str, rel: str, full_name: str, hash_name: Optional[str]) -> bool:
        golden_name = parse_golden_name(full_name)
        if golden_name is not None:
            return self._add_file(GoldenFile(path, rel, golden_name, hash_name))
        dump_name = parse_dump_name(full_name)
        if dump_name is not None and (
            dump_name.kind == "dump"
            or (dump_name.kind == "stats" and self.kind in ("empty", "npu"))
        ):
            return self._add_dump(DumpEntry(path, rel, dump_name, hash_name))
        return False

    def _add_file(self, file: GoldenFile) -> bool:
        if file.path in self._known:
            return False
        name = file.name
        kind = "npy" if name.suffix == "npy" else "container"
        rank = _SUFFIX_RANK[name.suffix]
        entry = GoldenEntry(
            file.path,
            file.rel,
            name.op_name,
            name.output_index,
            name.timestamp_us,
            kind,
            "output",
            rank,
        )
        if file.hash_name is not None and op_of_parked_name(name.op_name) is not None:
            original = original_name(file.path)
            if original is None:
                self._parked.setdefault(os.path.dirname(file.path), []).append(entry)
            else:
                entry = replace(entry, original=original)
        self.put(entry)
        return True

    def _add_manifest(self, folder: str) -> bool:
        """Assign raw op names from the manifest to the colliding files of a folder."""
        waiting = self._parked.pop(folder, [])
        for entry in waiting:
            self._forget(entry.path)
            self._kinds[self._known.pop(entry.path)] -= 1
            name = GoldenName(
                entry.op_name, entry.index, entry.timestamp_us, entry.path.rpartition(".")[2]
            )
            self._add_file(GoldenFile(entry.path, entry.rel, name, os.path.basename(entry.path)))
        return len(self._parked.get(folder, ())) < len(waiting)

    def _add_entry(self, path: str, kind: str) -> None:
        self._known[path] = kind
        self._kinds[kind] += 1
        self.revision += 1

    def _add_dump(self, dump: DumpEntry) -> bool:
        if dump.path in self._known:
            return False
        self._add_entry(dump.path, "npu")
        self.dumps.add(dump)
        return True


def _several_models(entries: List[GoldenEntry]) -> List[str]:
    """Return the folders that hold other values of one output, those of steps left out; none where
    all hold the same.
    """
    folders = {os.path.dirname(entry.rel): entry.path for entry in entries}
    if len(folders) < 2:
        return []
    hashes = {
        folder or ".": recorded_sha256(path) or _sha256_of(path, look_at(path))
        for folder, path in folders.items()
        if not any(map(is_number, folder.split(os.sep)))
    }
    return sorted(hashes) if len(set(hashes.values())) > 1 else []


def hold_other_values(entries: Sequence[GoldenEntry]) -> bool:
    """Return whether golden files differ in their bytes."""
    return len({_sha256_of(entry.path, look_at(entry.path)) for entry in entries}) > 1


@lru_cache(maxsize=1024)
def _sha256_of(path: str, signature: Optional[Signature]) -> str:
    """Return the hash of a file that looks so; empty where it cannot be read: its row says why."""
    try:
        return sha256_of_file(path)
    except (GoldwatchError, OSError):
        return ""


def _of_op(entries: List[GoldenEntry], op_name: str) -> List[GoldenEntry]:
    """Return the entries of one sanitised name that belong to ``op_name``, raw or as the device
    writes it; none if ambiguous.
    """
    if not any(entry.original for entry in entries):
        return [entry for entry in entries if entry.op_name == op_name] or entries
    exact = [entry for entry in entries if (entry.original or entry.op_name) == op_name]
    matches = exact or [
        entry for entry in entries if sanitise_device(entry.original or entry.op_name) == op_name
    ]
    # Caffe allows several layers of one name: ambiguous.
    return matches if len({entry.op_name for entry in matches}) == 1 else []


def open_golden(entry: GoldenEntry) -> Tuple[Tensor, Optional[int]]:
    """Return the tensor of ``entry`` and its device address (None when it has none).

    Raises
    ------
    MissingPath, TruncatedFile, FormatError
        The file cannot be read, or is damaged.
    NotComparable
        The container has no such tensor, or it cannot be read.
    """
    if entry.kind == "npy":
        return open_npy_once(entry.path), None
    if entry.kind == "torch":
        from .torch_file import open_torch

        tensors = open_torch(entry.path)
        if entry.index >= len(tensors):
            raise NotThere("%s holds %d tensors" % (entry.path, len(tensors)))
        return tensors[entry.index], None
    from .statistics_dump import StatisticsDump, is_statistics

    if entry.kind == "npu" and is_statistics(entry.path):
        return StatisticsDump(entry.path).tensor(entry.io, entry.index), None
    dump = DumpFile.open(entry.path)
    index = entry.index
    if entry.kind == "container":
        if not dump.outputs:
            raise NotThere("%s holds no output" % entry.path)
        # A golden container holds one output, at index 0.
        index = 0 if len(dump.outputs) == 1 else index
    return dump.tensor(entry.io, index), dump.info(entry.io, index).address
