"""Updates the result tables while a run goes on, in a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional, Set

from ..base.errors import GoldwatchError
from ..base.notes import note
from ..dumps.place import Place
from .whole_run import Run

# Chosen, no trial.
EVERY_S = 1.0
# Writing tables takes at most this share of the time.
_SHARE = 0.1


class TableUpdater:
    """Writes the tables of the places that have changed, at most once a second and less often when
    that takes long.

    Parameters
    ----------
    run
        Whose tables they are.
    say
        Takes sentences for the user.
    """

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self.run = run
        self.say = say
        self._thread: Optional[threading.Thread] = None
        self._next = time.monotonic() + EVERY_S
        self._problem = ""
        self._failed: Set[Place] = set()

    def tick(self, changed: Set[Place]) -> None:
        """Start writing, if something has changed and it is time; empties ``changed`` then."""
        if (
            not (changed or self._failed)
            or time.monotonic() < self._next
            or (self._thread is not None and self._thread.is_alive())
        ):
            return
        places = set(changed) | self._failed
        changed.clear()
        self._failed = set()
        self._thread = threading.Thread(target=self._write, args=(places,), daemon=True)
        self._thread.start()

    def _write(self, places: Set[Place]) -> None:
        start = time.monotonic()
        try:
            self.run.write_tables(places)
            self._problem = ""
        except GoldwatchError as error:
            # The rows are safe in the store; the table is tried again, and at the end once more.
            self._failed = places
            if self._problem != error.message:
                self._problem = error.message
                self.say(note("unwritten-tables", error.message))
        cost = time.monotonic() - start
        self._next = time.monotonic() + max(EVERY_S, cost / _SHARE)

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()
