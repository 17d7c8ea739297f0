"""How far a command is that saves golden tensors, and its last line."""

from __future__ import annotations

import sys
import time
from typing import Any, Mapping

import click


def counted(run: Mapping[str, Any], backend: str, version: str) -> str:
    """Return what was saved into one folder, as a line."""
    counts = run["counts"]
    files, tensors = ("" if counts[what] == 1 else "s" for what in ("written", "skipped"))
    text = "%s: %d golden file%s by %s %s, %d tensor%s skipped (manifest.json says why)"
    text %= (run["out"], counts["written"], files, backend, version, counts["skipped"], tensors)
    return text + (", %d parked for name collisions (mapping.csv)" % counts["parked"] if counts["parked"] else "")


class TensorBar:
    """A progress bar on a terminal, once the work has taken a second."""

    def __init__(self, quiet: bool) -> None:
        self._wanted = not quiet and sys.stderr.isatty()
        self._begun_s = time.monotonic()
        self._bar: Any = None
        self._done = 0

    def __enter__(self) -> TensorBar:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show that so many of all tensors are saved."""
        if not self._wanted or (self._bar is None and time.monotonic() - self._begun_s < 1):
            return
        if self._bar is None or done < self._done:
            self.__exit__()
            self._bar = click.progressbar(length=total, label="tensors", file=sys.stderr)
            self._bar.__enter__()
            self._done = 0
        self._bar.update(done - self._done)
        self._done = done

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
