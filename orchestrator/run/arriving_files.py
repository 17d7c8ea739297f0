"""The source of a watch: files below TARGET that come, grow, change and go. They are planned when
they are whole.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from typing import Dict, List, Optional, Tuple

from ..base.naming import MAPPING_FILE
from ..config.dump_steps import count_steps
from ..dumps.dump_header import COMPLETE, HEADERLESS, LONG
from ..dumps.folder_listing import Signature, look_at
from ..dumps.place import Place
from ..dumps.statistics_csv import SUFFIX, is_table_of_ops, table_paths
from .engine import Engine, LookAgain
from .file_planner import UNREADABLE as CANNOT_READ
from .target_file import DELETED, EARLIER, GONE, UNREADABLE, WAITING, TargetFile
from .watched_folders import Folders

# A path that is looked at and not complete is looked at again then, should no event come: a file
# system may lose some, a writer die. Chosen; no trial.
SETTLE_S = 1.0


class Arrivals:
    """Looks at paths that may have changed, and tells the engine what that means.

    Parameters
    ----------
    folders
        Takes the paths that are to be looked at again, and links to folders.

    Attributes
    ----------
    activity
        When something last changed (monotonic seconds).
    seen
        How many dump files have come.
    """

    def __init__(self, engine: Engine, folders: Folders) -> None:
        self.engine = engine
        self.catalogue = engine.catalogue
        self._folders = folders
        self.activity = time.monotonic()
        self.file_count = len(self.catalogue.files)
        self._due: OrderedDict[str, float] = OrderedDict()
        self._come: Dict[Place, Tuple[int, Tuple[int, int]]] = {}

    def look(self, path: str) -> None:
        """Look at a file below TARGET that may have come, changed or gone. Must be called inside a
        transaction of the store.
        """
        if os.path.basename(path) == MAPPING_FILE:
            if self.catalogue.other_changed(path):
                self.activity = time.monotonic()
            for waiting in self.catalogue.waiting_for_mapping(os.path.dirname(path)):
                self._folders.look_again(waiting)
            return
        if path.endswith(SUFFIX) and is_table_of_ops(path):
            if self.catalogue.other_changed(path):
                self.activity = time.monotonic()
                for one in table_paths(path):
                    self.look(one)
            return
        before = path in self.catalogue.unresolved
        file, fresh = self.engine.meet(path)
        if file is None:
            self.file_count += path in self.catalogue.unresolved and not before
            if self.catalogue.other_changed(path):
                self.activity = time.monotonic()
            elif os.path.islink(path) and os.path.isdir(path):
                self._folders.target_links.follow(path)
            return
        self.file_count += fresh
        signature = look_at(path)
        if signature is None:
            self._gone(file)
        elif signature != file.signature or file.state in (GONE, DELETED):
            self._changed(file, signature)
        elif file.state == UNREADABLE:
            self.consider(file)

    def _gone(self, file: TargetFile) -> None:
        if file.state in (GONE, DELETED):
            return
        if file.signature is not None:
            self.activity = time.monotonic()
        was_current = file.state != EARLIER
        file.vanish()
        self._due.pop(file.path, None)
        if was_current and not file.has_rows:
            best = self.catalogue.next_best(file)
            if best is not None:
                self._folders.look_again(best.path)

    def _changed(self, file: TargetFile, signature: Signature) -> None:
        self.activity = time.monotonic()
        if file.state == EARLIER or file != self.catalogue.newer(file):
            file.supersede()
            file.signature = signature
            return
        file.change(signature)
        if signature.size_bytes < file.expected_bytes:
            self._settle_later(file)
        else:
            self.consider(file)

    def _settle_later(self, file: TargetFile) -> None:
        self._due.pop(file.path, None)
        self._due[file.path] = time.monotonic() + SETTLE_S

    def look_again(self, again: LookAgain) -> None:
        """Take a file that the engine wants to have looked at again."""
        if again.changed:
            self._settle_later(again.file)
        self._folders.look_again(again.path)

    def due(self) -> None:
        """Look again at files that had to stay unchanged for a while. Must be called inside a
        transaction of the store.
        """
        now = time.monotonic()
        while self._due:
            path, when = next(iter(self._due.items()))
            if when > now:
                return
            del self._due[path]
            file = self.catalogue.files.get(path)
            if file is None or file.state not in WAITING:
                continue
            signature = look_at(path)
            if signature is None:
                self._gone(file)
            elif signature != file.signature:
                self._changed(file, signature)
            else:
                self.consider(file, settled=True)

    def next_due_s(self) -> Optional[float]:
        """Return the seconds until :meth:`due` has something to do; None when it has not."""
        if not self._due:
            return None
        return max(0.0, next(iter(self._due.values())) - time.monotonic())

    def consider(self, file: TargetFile, settled: bool = False) -> None:
        """Plan a file, if it is whole. Must be called inside a transaction of the store.

        Parameters
        ----------
        settled
            It has not changed for a while, so it counts even where it looks odd.
        """
        plan = self.engine.plan(file)
        if plan is None:
            return
        if look_at(file.path) != file.signature:
            file.grow(file.expected_bytes)
            self._folders.look_again(file.path)
        elif plan.state == CANNOT_READ:
            file.refuse()
            if not settled:
                self._settle_later(file)
        elif plan.state == COMPLETE and not plan.nulls_left_out:
            self.engine.accept(file, plan)
        elif plan.state == LONG or plan.state == COMPLETE:
            if settled:
                self.engine.accept(file, plan)
            else:
                file.doubt()
                self._settle_later(file)
        else:
            file.grow(0 if plan.state == HEADERLESS else plan.expected_bytes)
            if plan.state != HEADERLESS and not settled:
                self._settle_later(file)

    def all_come(self) -> bool:
        """Tell whether every op that can dump, was asked for and runs has come, in every place
        seen.
        """
        come = [self._come_at(place) for place in self._places()]
        return bool(come) and all(done == expected and expected for done, expected in come)

    def ops_come(self) -> Optional[Tuple[int, int]]:
        """Return of how many ops the dumps are compared, and of how many they will come, in all
        places seen, and in the steps of each that the dump configuration names; None: no model
        tells.

        Before the first dump the whole is that of one place, in all its steps.
        """
        plan = self.engine.options.plan
        steps = 1 if plan is None else max(1, count_steps(plan.step or ""))
        come: Dict[Place, List[Tuple[int, int]]] = {}
        for place in self._places():
            come.setdefault(place._replace(step=None), []).append(self._come_at(place))
        if come:
            left = sum(
                (steps - len(counts)) * max(expected for _, expected in counts)
                for counts in come.values()
                if len(counts) < steps
            )
            every = [count for counts in come.values() for count in counts]
            return sum(done for done, _ in every), left + sum(expected for _, expected in every)
        graphs = self.engine.graphs.graphs
        if len(graphs) != 1 or len(self.engine.places):
            return None
        expected = self.engine.places.planner(Place(model=graphs[0].name)).dump_counts(())[1]
        return (0, steps * expected) if expected else None

    def _places(self) -> List[Place]:
        of = self.engine.graphs.of
        return [place for place in self.engine.places.own_places if of(place.model) is not None]

    def _come_at(self, place: Place) -> Tuple[int, int]:
        come = self.engine.come.get(place, set())
        known = self._come.get(place)
        if known is None or known[0] != len(come):
            known = self._come[place] = (
                len(come),
                self.engine.places.planner(place).dump_counts(come),
            )
        return known[1]

    def counts(self) -> Tuple[int, int]:
        """Return how many files wait to become whole, and how many wait for golden data."""
        files = self.catalogue.files.each()
        growing = len(files.in_state(*WAITING)) + len(self.catalogue.unresolved)
        return growing, len(files.in_state(or_missing=True))
