"""Which files below TARGET are dumps of what: names, places, and which of several dumps of one op
counts.
"""

from __future__ import annotations

import os
from array import array
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from ..base.errors import FormatError
from ..base.naming import MAPPING_FILE, is_hash_name, parse_dump_name, read_mapping, whole_name
from ..base.notes import Note, note
from ..dumps.dump_index import DumpIndex
from ..dumps.folder_listing import Signature, full_name_of, is_folder, look_at, op_key
from ..dumps.place import Place, place_of
from ..dumps.slices import by_number
from ..judging.diagnosis.row_digest import NumberedFiles
from ..metrics.row import Row
from .target_file import CODES, DELETED, EARLIER, GONE, FileColumns, FileFolder, TargetFile

TimeOf = Tuple[Optional[str], Optional[str], Optional[str]]

_FREE, _DROPPED = -1, -2
_LAST = (1 << 31) - 1
_NONE = np.empty(0, np.uint32)
Array = Any


class SomeFiles(Sequence[TargetFile]):
    """Some files, by their numbers.

    Attributes
    ----------
    numbers
        [n]
    """

    def __init__(self, columns: FileColumns, numbers: Array) -> None:
        self._columns = columns
        self.numbers = np.array(numbers, np.uint32)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        return TargetFile(self._columns, int(self.numbers[at]))

    def __iter__(self) -> Iterator[TargetFile]:
        return (TargetFile(self._columns, number) for number in self.numbers.tolist())

    def in_state(self, *states: str, or_missing: bool = False) -> SomeFiles:
        """Return those that are in one of some states now, and where wanted those with tensors that
        wait for golden data.
        """
        some = np.isin(self._columns.state, [CODES[state] for state in states])[self.numbers]
        if or_missing:
            some |= np.array(self._columns.missing)[self.numbers] > 0
        return self.only(some)

    def only(self, some: Any) -> SomeFiles:
        """Return some of them, by their positions or a mask."""
        return SomeFiles(self._columns, self.numbers[some])

    def by_folder(self) -> Iterator[Tuple[FileFolder, SomeFiles]]:
        """Yield each folder with its files, in the order of the first file of each."""
        folder = np.array(self._columns.folder)[self.numbers]
        order = np.argsort(folder, kind="stable")
        begins = np.flatnonzero(np.diff(folder[order], prepend=-1))
        parts = np.split(order, begins[1:]) if len(order) else []
        for part in sorted(parts, key=lambda one: int(one[0])):
            yield self._columns.folders[folder[part[0]]], self.only(part)

    def ops(self) -> Dict[int, Tuple[Any, ...]]:
        """Return the different ops of these files (:attr:`TargetFile.op`), by their numbers."""
        numbers = np.unique(np.array(self._columns.op)[self.numbers]).tolist()
        return {number: self._columns.ops[number] for number in numbers}


class _NumberTable:
    """Numbers by keys that are derived from them, in 16 to 24 bytes each: a hash table of open
    addressing. A dict takes a hundred bytes with the keys.
    """

    def __init__(self, key_of: Callable[[int], Any]) -> None:
        self._key_of = key_of
        self._slots = array("i", [_FREE]) * 16
        self._hashes = array("q")
        self._used = 0

    def find(self, key: Any) -> Optional[int]:
        """Return the number of a key."""
        number = self._slots[self._slot(key, hash(key))]
        return None if number == _FREE else number

    def put(self, number: int, key: Any) -> None:
        """Add a number, in place of that of its key."""
        self._hashes.extend([0] * (number + 1 - len(self._hashes)))
        self._hashes[number] = hash(key)
        if 2 * self._used >= len(self._slots):
            self._grow()
        at = self._slot(key, hash(key))
        self._used += self._slots[at] == _FREE
        self._slots[at] = number

    def discard(self, key: Any) -> None:
        """Drop a key, known or not."""
        at = self._slot(key, hash(key))
        if self._slots[at] != _FREE:
            self._slots[at] = _DROPPED

    def _grow(self) -> None:
        known = [number for number in self._slots if number >= 0]
        size = 4 * len(known) + 16
        slots, hashes = array("i", [_FREE]) * size, self._hashes
        for number in known:
            at = hashes[number] % size
            while slots[at] != _FREE:
                at = (at + 1) % size
            slots[at] = number
        self._slots, self._used = slots, len(known)

    def _slot(self, key: Any, hashed: int) -> int:
        """Return where a key is, or comes."""
        slots, hashes, size = self._slots, self._hashes, len(self._slots)
        at = hashed % size
        number = slots[at]
        while number != _FREE and (
            number == _DROPPED or hashes[number] != hashed or self._key_of(number) != key
        ):
            at = (at + 1) % size
            number = slots[at]
        return at


class KnownFiles(Mapping[str, TargetFile]):
    """A mapping of absolute paths to files, in the order in which their folders came, and in each
    in that of the files.

    Attributes
    ----------
    columns
        What is known of each.
    revision
        Rises with each file that is added or dropped.
    """

    def __init__(self) -> None:
        self.columns = FileColumns()
        self.revision = 0
        self._folders: Dict[str, array[int]] = {}
        self._by_path = _NumberTable(self._key)

    def __len__(self) -> int:
        return sum(map(len, self._folders.values()))

    def __iter__(self) -> Iterator[str]:
        return (file.path for file in self.each())

    def __getitem__(self, path: str) -> TargetFile:
        folder, _, name = path.rpartition(os.sep)
        number = self._by_path.find((folder or os.sep, name))
        if number is None:
            raise KeyError(path)
        return TargetFile(self.columns, number)

    def _key(self, number: int) -> Tuple[str, str]:
        file = TargetFile(self.columns, number)
        return file.folder.path, file.name

    def add(self, folder: int, name: str, *more: Any) -> TargetFile:
        """Add a file that is not known; parameters as for :meth:`FileColumns.add`."""
        file, path = self.columns.add(folder, name, *more), self.columns.folders[folder].path
        self._folders.setdefault(path, array("I")).append(file.number)
        self._by_path.put(file.number, (path, name))
        self.revision += 1
        return file

    def discard(self, file: TargetFile) -> None:
        """Drop a file, known or not."""
        key = self._key(file.number)
        if self._by_path.find(key) == file.number:
            self._by_path.discard(key)
            self._folders[file.folder.path].remove(file.number)
            self.revision += 1

    def each(self) -> SomeFiles:
        """Return the files that are known now."""
        return SomeFiles(self.columns, np.concatenate([_NONE, *self._folders.values()]))

    def folders(self) -> List[str]:
        """Return the folders that files were met in."""
        return list(self._folders)

    def within(self, folder: str) -> SomeFiles:
        """Return the files of one folder."""
        return SomeFiles(self.columns, self._folders.get(folder, ()))


class Catalogue:
    """The dump files below TARGET that have been met.

    Parameters
    ----------
    shown
        TARGET as the user named it.

    Attributes
    ----------
    root
        TARGET, absolute, links resolved as far as they are there.
    files
        By path.
    unresolved
        Files with hash names that no mapping.csv explains so far: their place by path.
    left
        (time, device, model) of runs that do not count.
    only_time
        Where set: only files of this time count, and those without a time.
    statistics
        Whether the files that count are statistics in place of dumps; None before the first. Where
        a dump came first none are.
    """

    def __init__(self, shown: str) -> None:
        self.root = os.path.realpath(shown)
        # Where TARGET is and was, the last place first. A row names a single file in place of a
        # folder by its whole path.
        self._bases = [
            "" if DumpIndex(self.root, "TARGET").is_file else os.path.join(self.root, "")
        ]
        self.shown = shown
        self.files = KnownFiles()
        self.unresolved: Dict[str, Place] = {}
        self.left: Set[TimeOf] = set()
        self._came: Set[TimeOf] = set()
        self.only_time: Optional[str] = None
        self.statistics: Optional[bool] = None
        self._folders: Dict[Tuple[str, Place], int] = {}
        self._places: Dict[str, Place] = {}
        self._by_place: Optional[Tuple[int, Dict[Place, SomeFiles]]] = None
        # The newest of each group.
        self._current = _NumberTable(lambda number: _group(self._file(number)))
        self._slices: Dict[Any, List[TargetFile]] = {}
        self._earlier: Dict[Tuple[str, Tuple[Any, ...]], List[TargetFile]] = {}
        self._mappings: Dict[str, Tuple[Signature, Dict[str, str]]] = {}
        self._others: Dict[str, Optional[Signature]] = {}

    def rel(self, path: str) -> str:
        """Return a path relative to TARGET."""
        whole = "" if os.path.join(path, "") in self._bases else path
        return next((path[len(base) :] for base in self._bases if path.startswith(base)), whole)

    def of_row(self, target_file: Optional[str]) -> Optional[TargetFile]:
        """Return the file that rows were made from, by its name in them."""
        if not target_file:
            return None
        file = self.files.get(self._bases[0] + target_file)
        if file is None and len(self._bases) > 1:
            return next(
                filter(None, (self.files.get(base + target_file) for base in self._bases)), None
            )
        return file

    def move(self, root: str) -> None:
        """Use another path for TARGET from now on: the given one, or a folder above it, has become
        a link.
        """
        self.root = root
        self._bases.insert(0, os.path.join(root, ""))

    def meet(self, path: str) -> Tuple[Optional[TargetFile], Optional[TargetFile]]:
        """Return the file at ``path``, if it is a dump of an op that counts, and the one that it
        takes the place of.
        """
        known = self.files.get(path)
        if known is not None:
            return known, None
        folder, base_name = os.path.split(path)
        full_name: Optional[str] = None
        if is_hash_name(base_name):
            full_name = full_name_of(base_name, self.mapping(folder))
            if full_name is None or parse_dump_name(full_name) is None:
                place = self._place(folder, None)
                if not self.is_left(place):
                    self.unresolved[path] = place
                return None, None
            self.unresolved.pop(path, None)
        name = parse_dump_name(full_name or base_name)
        if (
            name is None
            or name.kind == "overflow"
            or (name.kind == "stats" and self.statistics is False)
        ):
            return None, None
        self.statistics = name.kind == "stats"
        place = self._place(folder, name.op_name)
        if self.is_left(place) or self._is_link_within(path):
            return None, None
        file = self.files.add(
            self._folder(folder, place), base_name, full_name, op_key(name), name.timestamp_us
        )
        if is_slice(file):
            self._slices.setdefault(_sliced_op(file), []).append(file)
        return file, self._rank(file)

    def take(self, row: Row) -> TargetFile:
        """Return the file that a row is about, whatever its name, where a source knows by itself
        which files there are.
        """
        folder, name = os.path.split(self._bases[0] + (row.target_file or ""))
        op = (row.op_type, row.op, None, None, None, None)
        return self.files.add(self._folder(folder, row.place), name, None, op, row.timestamp_us)

    def _file(self, number: int) -> TargetFile:
        return TargetFile(self.files.columns, number)

    def _folder(self, path: str, place: Place) -> int:
        """Return the number of the folder of files."""
        known = self._folders.get((path, place))
        if known is None:
            base, rel = path, self.rel(path)
            if (
                place.device is not None
                and place.model is None
                and os.path.basename(path) != place.device
            ):
                base = os.path.dirname(path)
            shown = os.path.join(self.shown, rel) if rel else self.shown
            known = self._folders[path, place] = len(self.files.columns.folders)
            self.files.columns.folders.append(FileFolder(path, rel, shown, base, place))
        return known

    def _place(self, folder: str, op_name: Optional[str]) -> Place:
        if folder not in self._places:
            self._places[folder] = place_of(folder, set())
        place = self._places[folder]
        if place.device is None and op_name is not None:
            return place_of(folder, {op_name})
        return place

    def is_left(self, place: Place) -> bool:
        """Tell whether a place is of a run that does not count."""
        if self.only_time is None or place.time in (None, self.only_time):
            return place.run in self.left
        if place.run not in self.left:
            self._came.add(place.run)
        return True

    def came_and_left(self) -> List[Note]:
        """Name the runs that came since, of another time than the one that counts, as sentences."""
        return [
            note("time-came", time, device, self.only_time)
            for time, device in sorted({(str(key[0]), str(key[1])) for key in self._came})
        ]

    def _is_link_within(self, path: str) -> bool:
        """Tell whether a path is a link to a file that is met below TARGET under its own name: each
        real file counts once.
        """
        return os.path.islink(path) and os.path.realpath(path).startswith(
            self.root.rstrip(os.sep) + os.sep
        )

    def _rank(self, file: TargetFile) -> Optional[TargetFile]:
        """Make the newest of a group's files the current one; return the one that was before."""
        number = self._current.find(_group(file))
        if number is None:
            self._current.put(file.number, _group(file))
            return None
        current = self._file(number)
        older = min(file, current, key=lambda item: item.order)
        self._earlier.setdefault(_group(file), []).append(older)
        if older == current:
            self._current.put(file.number, _group(file))
            return older
        older.supersede()
        return None

    @property
    def sliced(self) -> bool:
        """Whether any file may hold one slice of its op."""
        return bool(self._slices)

    def slices(self, file: TargetFile) -> Dict[int, TargetFile]:
        """Return the files that count of the slices of one op, in order, by their numbers: the
        name's, the thread's or the context's.
        """
        parts = [
            other
            for other in self._slices.get(_sliced_op(file), ())
            if other.state not in (EARLIER, GONE)
        ]
        parts.sort(key=lambda other: (_context(other) or 0, _thread(other) or 0, other.order))
        return by_number(parts, lambda other: (_lx_number(other), _thread(other), _context(other)))

    def neighbour(self, target_file: str, op_type: str, op_name: str) -> Optional[TargetFile]:
        """Return the file that counts of another op beside a file, by its name in rows; None for
        none.
        """
        file = self.of_row(target_file)
        if file is None:
            return None
        number = self._current.find((file.folder.base, (op_type, op_name, *file.op[2:])))
        neighbour = None if number is None else self._file(number)
        return (
            neighbour if neighbour is not None and neighbour.state not in (GONE, DELETED) else None
        )

    def newer(self, file: TargetFile) -> TargetFile:
        """Return the file that counts in the group of ``file``."""
        number = self._current.find(_group(file))
        assert number is not None
        return self._file(number)

    @property
    def has_earlier(self) -> bool:
        """Whether an op has, or had, more than one dump at a place."""
        return bool(self._earlier)

    def earlier(self, file: TargetFile) -> List[TargetFile]:
        """Return the earlier dumps of the op of a file that counts, in order, as far as they are
        there.
        """
        dumps = [
            other
            for other in self._earlier.get(_group(file), ())
            if other.state == EARLIER and look_at(other.path) is not None
        ]
        return sorted(dumps, key=lambda other: other.order)

    def next_best(self, file: TargetFile) -> Optional[TargetFile]:
        """After the current file of a group has gone without a result: make the newest of the
        others the current one.
        """
        if self._current.find(_group(file)) != file.number:
            return None
        there = self.earlier(file)
        if not there:
            return None
        best = there[-1]
        self._earlier[_group(file)].remove(best)
        self._earlier[_group(file)].append(file)
        self._current.put(best.number, _group(file))
        best.release()
        return best

    def forget(self, file: TargetFile) -> None:
        """Drop a file, as one that was moved."""
        self.files.discard(file)
        if self._current.find(_group(file)) == file.number:
            self._current.discard(_group(file))

    def mapping(self, folder: str) -> Dict[str, str]:
        """Return the names of a folder's mapping.csv as it is now; none when it cannot be used."""
        path = os.path.join(folder, MAPPING_FILE)
        signature = look_at(path)
        if signature is None:
            return {}
        known = self._mappings.get(folder)
        if known is None or known[0] != signature:
            try:
                names = read_mapping(path)
            except (FormatError, OSError):
                names = {}
            self._mappings[folder] = known = (signature, names)
        return known[1]

    def waiting_for_mapping(self, folder: str) -> List[str]:
        """Return the unresolved files of one folder."""
        return [path for path in self.unresolved if os.path.dirname(path) == folder]

    def other_changed(self, path: str) -> bool:
        """Tell whether a file that is no dump has changed since it was last asked about."""
        signature = look_at(path)
        changed = self._others.get(path) != signature
        if signature is None:
            self._others.pop(path, None)
        else:
            self._others[path] = signature
        return changed

    def known_below(self, folder: str) -> List[str]:
        """Return the paths of known files in a folder (where that has gone: also below it), those
        that went before left out.
        """
        folders = [folder]
        if not is_folder(folder):
            folders += [
                other for other in self.files.folders() if other.startswith(folder + os.sep)
            ]
        return [
            file.path
            for name in folders
            for file in self.files.within(name)
            if file.state not in (GONE, DELETED)
        ]

    def by_place(self) -> Dict[Place, SomeFiles]:
        """Return the files of each place, in the order of the execution; not to be changed."""
        if self._by_place is None or self._by_place[0] != self.files.revision:
            places: Dict[Place, array[int]] = {}
            for folder, files in self.files.each().by_folder():
                places.setdefault(folder.place, array("I")).extend(files.numbers.tolist())
            self._by_place = (
                self.files.revision,
                {
                    place: SomeFiles(self.files.columns, sorted(numbers, key=self._executed))
                    for place, numbers in places.items()
                },
            )
        return self._by_place[1]

    def _executed(self, number: int) -> Tuple[Any, ...]:
        file = self._file(number)
        return file.folder.base, file.order

    def in_state(self, *states: str) -> SomeFiles:
        """Return the files in one of these states."""
        return self.files.each().in_state(*states)


class RowFiles(NumberedFiles):
    """The files that rows are about, by the numbers that the catalogue has for them: of a million
    none is named twice. What it does not have, such as a folder, is numbered from the last down.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._others: List[str] = []
        self._numbers: Dict[str, int] = {}
        self._recent: Dict[str, int] = {}

    def add(self, files: Sequence[str]) -> List[int]:
        """Return the numbers of files, by their names in rows."""
        # The tensors of a file mostly follow one another.
        recent = self._recent
        numbers = [recent[name] if name in recent else self._number(name) for name in files]
        self._recent = dict(zip(files, numbers))
        return numbers

    def _number(self, name: str) -> int:
        file = self._catalogue.of_row(name)
        if file is not None and file.rel == name:
            return file.number
        if name not in self._numbers:
            self._numbers[name] = _LAST - len(self._others)
            self._others.append(name)
        return self._numbers[name]

    def __len__(self) -> int:
        return len(self._catalogue.files.columns.ends) + len(self._others)

    def __getitem__(self, number: Any) -> Any:
        if number > _LAST - len(self._others):
            return self._others[_LAST - number]
        return TargetFile(self._catalogue.files.columns, number).rel


def is_slice(file: TargetFile) -> bool:
    """Tell whether a file may hold one slice of its op, by its name."""
    return _context(file) is not None or _lx_number(file) is not None


def _group(file: TargetFile) -> Tuple[str, Tuple[Any, ...]]:
    return file.folder.base, file.op


def _sliced_op(file: TargetFile) -> Tuple[Any, ...]:
    op_type, op_name, task_type, _, _, device = file.op
    return file.folder.base, op_type, whole_name(op_name)[0], task_type, device


def _lx_number(file: TargetFile) -> Optional[int]:
    return whole_name(file.op_name)[1]


def _thread(file: TargetFile) -> Optional[int]:
    thread: Optional[int] = file.op[4]
    return thread


def _context(file: TargetFile) -> Optional[int]:
    context: Optional[int] = file.op[3]
    return context
