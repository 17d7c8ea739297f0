"""The golden files as they arrive: only whole ones count, and one that changes counts anew."""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, List, Optional, Set

from ..dumps.complete import NO_LAW, probe
from ..dumps.golden import GoldenSet
from ..dumps.header import COMPLETE
from ..dumps.place import Place
from ..errors import GoldwatchError
from ..naming import MAPPING_FILE, is_hash_name, parse_dump_name, parse_golden_name
from ..results.store import RunStore
from .state import Signature, look_at, signature_text

ONE, EACH = "one", "each"

_RETRY_S = 0.5


class GoldenFiles:
    """Golden files below GOLDEN, in one set for all steps or one set for each.

    Parameters
    ----------
    folder
        GOLDEN, as the user named it.
    steps
        ``one``, or ``each``: a step takes the files below GOLDEN/{step}/.
    dumps_too
        Whether device dumps count as golden data (not where GOLDEN is TARGET itself).
    on_change
        Called when a file has changed or gone that pairs may have been compared with.
    """

    def __init__(self, folder: str, steps: str, store: RunStore, dumps_too: bool, on_change: Callable[[], None]) -> None:
        self.folder = folder
        self._real = os.path.realpath(folder)
        self.steps = steps
        self.store = store
        self.dumps_too = dumps_too
        self.on_change = on_change
        self.revision = 0
        self.changed_at = time.monotonic()
        self.seen = 0
        self._sets: Dict[Optional[str], GoldenSet] = {None: GoldenSet(folder)}
        self._signatures: Dict[str, Signature] = {}
        self._unwhole: Dict[str, Signature] = {}
        self._retries: Dict[str, float] = {}
        self._retried: Set[str] = set()
        self._mappings: Dict[str, Signature] = {}
        self._added: Set[str] = set()
        self._folders: Dict[str, Set[str]] = {}

    def of(self, identity: Place) -> GoldenSet:
        """Return the set that a place is compared with."""
        return self._set(identity.step if self.steps == EACH else None)

    def sets(self) -> List[GoldenSet]:
        """Return all sets."""
        return list(self._sets.values())

    def _set(self, step: Optional[str]) -> GoldenSet:
        if step not in self._sets:
            self._sets[step] = GoldenSet(self.folder)
        return self._sets[step]

    def _set_of(self, path: str) -> GoldenSet:
        parts = os.path.relpath(path, self.folder).split(os.sep)
        return self._set(parts[0] if self.steps == EACH and len(parts) > 1 else None)

    def signature(self, path: str) -> Optional[Signature]:
        """Return how a file looked when it was taken."""
        return self._signatures.get(self._named(path))

    def _named(self, path: str) -> str:
        """Return a path below GOLDEN as the user would write it, for messages."""
        prefix = self._real.rstrip(os.sep) + os.sep
        return os.path.join(self.folder, path[len(prefix) :]) if path.startswith(prefix) else path

    def look(self, path: str) -> bool:
        """Look at a file that may have come, changed or gone; tell whether anything was new.

        Must be called inside a transaction of the store.
        """
        path = self._named(path)
        name = os.path.basename(path)
        if name == MAPPING_FILE:
            return self._look_at_mapping(path)
        if not self._is_golden(name):
            return False
        found = look_at(path)
        if found is None:
            return self._drop(path)
        retried = path in self._retried
        self._retried.discard(path)
        if found == self._signatures.get(path) or (found == self._unwhole.get(path) and not retried):
            return False
        fresh = found != self._unwhole.get(path)
        self.changed_at = time.monotonic() if fresh else self.changed_at
        self.seen += path not in self._signatures and path not in self._unwhole
        if not self._whole(path) or look_at(path) != found:
            self._drop(path)
            self._unwhole[path] = found
            if fresh:
                self._retries[path] = time.monotonic() + _RETRY_S
            return fresh
        self._take(path, found)
        return True

    def _is_golden(self, name: str) -> bool:
        if is_hash_name(name) or parse_golden_name(name) is not None:
            return True
        dump = parse_dump_name(name)
        return self.dumps_too and dump is not None and dump.kind == "dump"

    def _whole(self, path: str) -> bool:
        try:
            return probe(path).state in (COMPLETE, NO_LAW)
        except (GoldwatchError, OSError):
            return False

    def _take(self, path: str, found: Signature) -> None:
        self._unwhole.pop(path, None)
        self._retries.pop(path, None)
        changed = path in self._signatures
        self._signatures[path] = found
        if changed:
            self.on_change()
        self.store.put_file(os.path.realpath(path), found[0], found[1], signature_text(found))
        if path not in self._added:
            self._added.add(path)
            self._folders.setdefault(os.path.dirname(path), set()).add(path)
            self._set_of(path).add(path)
        self.revision += 1

    def _drop(self, path: str) -> bool:
        self._unwhole.pop(path, None)
        self._retries.pop(path, None)
        if self._signatures.pop(path, None) is None:
            return False
        self._added.discard(path)
        self._folders.get(os.path.dirname(path), set()).discard(path)
        self._set_of(path).discard(path)
        self.revision += 1
        self.changed_at = time.monotonic()
        self.on_change()
        return True

    def _look_at_mapping(self, path: str) -> bool:
        found = look_at(path)
        if found is None or self._mappings.get(path) == found:
            return False
        self._mappings[path] = found
        self.changed_at = time.monotonic()
        self._set_of(path).add(path)
        self.revision += 1
        return True

    def known_below(self, folder: str) -> List[str]:
        """Return the paths of known files in a folder (where that has gone: also below it)."""
        folder = self._named(folder + os.sep).rstrip(os.sep)
        folders = [folder]
        if not os.path.isdir(folder):
            folders += [other for other in self._folders if other.startswith(folder + os.sep)]
        return [path for name in folders for path in self._folders.get(name, ())]

    def due(self, now: float) -> List[str]:
        """Return files that were not whole and are to be looked at again."""
        found = [path for path, when in self._retries.items() if when <= now]
        for path in found:
            del self._retries[path]
            # One more look even where nothing seems changed; after that only a change counts.
            self._retried.add(path)
        return found

    def close(self) -> None:
        """Take what never became whole as well: its rows then tell what is wrong with it."""
        for path in list(self._unwhole):
            found = look_at(path)
            if found is not None:
                self._take(path, found)
