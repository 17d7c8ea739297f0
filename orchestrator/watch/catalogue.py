"""Which files below TARGET are dumps of what: names, places, and which of several dumps of one op counts."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ..dumps.listing import full_name_of
from ..dumps.place import Place, place_of
from ..errors import FormatError
from ..naming import MAPPING_FILE, is_hash_name, parse_dump_name, read_mapping
from .monitor import Root
from .state import DELETED, EARLIER, GONE, GROWING, Signature, TargetFile, look_at


class Catalogue:
    """The dump files below TARGET that have been met.

    Parameters
    ----------
    root
        TARGET.
    shown
        TARGET as the user named it.

    Attributes
    ----------
    files
        By path.
    unresolved
        Files with hash names that no mapping.csv explains so far: their place by path.
    """

    def __init__(self, root: Root, shown: str) -> None:
        self.root = root
        self.shown = shown
        self.files: Dict[str, TargetFile] = {}
        self.unresolved: Dict[str, Place] = {}
        self._folders: Dict[str, Set[str]] = {}
        self._shared: Dict[Any, Any] = {}
        self._identities: Dict[str, Place] = {}
        self._current: Dict[Any, TargetFile] = {}
        self._earlier: Dict[Any, List[TargetFile]] = {}
        self._mappings: Dict[str, Tuple[Signature, Dict[str, str]]] = {}
        self._others: Dict[str, Optional[Signature]] = {}

    def rel(self, path: str) -> str:
        """Return a path relative to TARGET."""
        return path[len(self.root.path) + 1 :]

    def meet(self, path: str) -> Tuple[Optional[TargetFile], Optional[TargetFile]]:
        """Return the file at ``path``, if it is a dump of an op, and the one that it takes the place of."""
        known = self.files.get(path)
        if known is not None:
            return known, None
        folder, own = os.path.split(path)
        full_name: Optional[str] = None
        if is_hash_name(own):
            full_name = full_name_of(own, self.mapping(folder))
            if full_name is None or parse_dump_name(full_name) is None:
                self.unresolved[path] = self._identity(folder, None)
                return None, None
            self.unresolved.pop(path, None)
        name = parse_dump_name(full_name or own)
        if name is None or name.kind != "dump":
            return None, None
        identity = self._identity(folder, name.op_name)
        base = folder
        if identity.device is not None and identity.model is None and os.path.basename(folder) != identity.device:
            base = os.path.dirname(folder)
        base = self._shared.setdefault(base, base)
        group = (base, sys.intern(name.op_type), sys.intern(name.op_name), name.task_type, name.context_id, name.thread_id, name.device_id)
        identity = self._shared.setdefault(identity, identity)
        file = TargetFile(path, len(self.root.path), self.shown, full_name, identity, group, (name.timestamp_us, path))
        self.files[path] = file
        self._folders.setdefault(folder, set()).add(path)
        return file, self._rank(file)

    def _identity(self, folder: str, op_name: Optional[str]) -> Place:
        if folder not in self._identities:
            self._identities[folder] = place_of(folder, set())
        found = self._identities[folder]
        if found.device is None and op_name is not None:
            return place_of(folder, {op_name})
        return found

    def _rank(self, file: TargetFile) -> Optional[TargetFile]:
        """Make the newest of a group's files the current one; return the one that was before."""
        current = self._current.get(file.group)
        if current is None:
            self._current[file.group] = file
            return None
        older = min(file, current, key=lambda item: item.order)
        self._current[file.group] = file if older is current else current
        self._earlier.setdefault(file.group, []).append(older)
        if older is current:
            return older
        older.state = EARLIER
        return None

    def newer(self, file: TargetFile) -> TargetFile:
        """Return the file that counts in the group of ``file``."""
        return self._current[file.group]

    def next_best(self, file: TargetFile) -> Optional[TargetFile]:
        """After the current file of a group has gone without a result: make the newest of the others the current one."""
        if self._current.get(file.group) is not file:
            return None
        there = [other for other in self._earlier.get(file.group, []) if other.state == EARLIER and look_at(other.path) is not None]
        if not there:
            return None
        best = max(there, key=lambda item: item.order)
        self._earlier[file.group].remove(best)
        self._earlier[file.group].append(file)
        self._current[file.group] = best
        best.state, best.signature = GROWING, None
        return best

    def forget(self, file: TargetFile) -> None:
        """Drop a file, as one that was moved."""
        self.files.pop(file.path, None)
        self._folders.get(os.path.dirname(file.path), set()).discard(file.path)
        if self._current.get(file.group) is file:
            del self._current[file.group]

    def mapping(self, folder: str) -> Dict[str, str]:
        """Return the names of a folder's mapping.csv as it is now; none when it cannot be used."""
        path = os.path.join(folder, MAPPING_FILE)
        found = look_at(path)
        if found is None:
            return {}
        known = self._mappings.get(folder)
        if known is None or known[0] != found:
            try:
                names = read_mapping(path)
            except (FormatError, OSError):
                names = {}
            self._mappings[folder] = known = (found, names)
        return known[1]

    def waiting_for_mapping(self, folder: str) -> List[str]:
        """Return the unresolved files of one folder."""
        return [path for path in self.unresolved if os.path.dirname(path) == folder]

    def other_changed(self, path: str) -> bool:
        """Tell whether a file that is no dump has changed since it was last asked about."""
        found = look_at(path)
        changed = self._others.get(path) != found
        if found is None:
            self._others.pop(path, None)
        else:
            self._others[path] = found
        return changed

    def known_below(self, folder: str) -> List[str]:
        """Return the paths of known files in a folder (where that has gone: also below it), those that went before left out."""
        folders = [folder]
        if not os.path.isdir(folder):
            folders += [other for other in self._folders if other.startswith(folder + os.sep)]
        paths = [path for name in folders for path in self._folders.get(name, ())]
        return [path for path in paths if self.files[path].state not in (GONE, DELETED)]

    def by_place(self) -> Dict[Place, List[TargetFile]]:
        """Return the files of each place, in the order in which compare takes them."""
        places: Dict[Place, List[TargetFile]] = {}
        for file in self.files.values():
            places.setdefault(file.identity, []).append(file)
        for files in places.values():
            files.sort(key=lambda file: (str(file.group[0]), file.order))
        return places

    def in_state(self, *states: str) -> Iterator[TargetFile]:
        """Yield the files in one of these states."""
        for file in list(self.files.values()):
            if file.state in states:
                yield file
