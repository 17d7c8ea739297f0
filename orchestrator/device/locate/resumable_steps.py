"""Steps that are done once and resumed: each is a command that a user could have typed, done again
when what decides it has changed.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from ...base.atomic_writing import atomic_text_writer
from ...base.errors import FormatError, GoldwatchError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.safe_reading import read_input, sha256_of_file
from ...base.wording import listed

STATE_FILE = "locate.json"
_LIMIT_BYTES = 64 << 20
_FORM = 1

Do = Callable[[bool], int]


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes
    ----------
    name
        What it is called, the folder of its case before it where there are several.
    does
        Does it and returns an exit code; called with whether it was begun before.
    command
        The command that does the same.
    settings
        What decides its outcome, besides ``files``: of JSON's types.
    files
        The files that decide it, by role.
    leaves
        Files and folders that it makes, which are removed before it is done anew.
    is_done
        Tells by its exit code whether it need not be done again.
    on_device
        Whether it runs an om: with the same files it may come to something else.
    needs
        What is there after it, besides ``leaves``; where it is gone the step is done again.
    """

    name: str
    does: Do
    command: Sequence[str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    leaves: Sequence[str] = ()
    is_done: Callable[[int], bool] = lambda code: code == 0
    on_device: bool = False
    needs: Sequence[str] = ()


class Steps:
    """The steps of one folder: ``locate.json`` keeps what was done.

    Parameters
    ----------
    out
        The folder.
    say
        Takes lines for the user: each command before it is done.
    force
        What was done with other settings or files is done again, and not refused; folders that are
        of no known step are replaced.
    again
        What runs an om is done again in any case.
    """

    def __init__(
        self,
        out: str,
        say: Callable[[Sequence[str], bool], None],
        force: bool = False,
        again: bool = False,
    ) -> None:
        self.again = again
        self._path = os.path.join(out, STATE_FILE)
        self._out = out
        self._say = say
        self._force = force
        self._state = _read(self._path)
        self._did: Set[str] = set()

    @property
    def commands(self) -> List[Dict[str, Any]]:
        """What was done, in order, as documents."""
        return [dict(known, name=name) for name, known in self._state.items() if known.get("done")]

    def outcome(self, name: str) -> Optional[int]:
        """Return the exit code of a step that was done, else None."""
        known = self._state.get(name, {})
        return int(known["exit_code"]) if known.get("done") else None

    def earlier(self, name: str) -> Optional[float]:
        """Return when a step was done, in seconds since the epoch, 0 where that is not known; None
        where it was not done, or just now.
        """
        known = self._state.get(name, {})
        return None if name in self._did or not known.get("done") else float(known.get("at_s", 0))

    def seconds(self, name: str) -> Optional[float]:
        """Return how long a step took that was done, else None."""
        known = self._state.get(name, {})
        return float(known["seconds"]) if known.get("done") else None

    def refuse_others(self, steps: Sequence[Step]) -> None:
        """Raise UsageError where the folder holds what was done with other settings or files, or
        what is of no known step.
        """
        if self._force:
            return
        changed = {
            step.name: reasons for step in steps for reasons in [self._changes(step)] if reasons
        }
        if changed:
            name, reasons = next(iter(changed.items()))
            hint = "-o names another folder; --force does what has changed again and keeps the rest"
            if reasons == ["--keep"]:
                raise UsageError(
                    "%s holds a search that kept other dumps (--keep): the om has to run again"
                    % self._out,
                    hint=hint.replace("what has changed", "that"),
                )
            raise UsageError(
                "%s holds a search with other inputs: %s changed since its step %s"
                % (self._out, listed(reasons, 4), name),
                hint=hint,
            )
        unknown = [path for step in steps if step.name not in self._state for path in _full(step)]
        if unknown:
            raise UsageError(
                "%s holds %s, and %s says nothing of it: it may be of an earlier search"
                % (self._out, listed([os.path.basename(path) for path in unknown], 6), STATE_FILE),
                hint="-o names another folder; --force makes it anew in place of what is there",
            )

    def run(self, step: Step) -> int:
        """Run a step unless it was done before; return its exit code.

        Raises
        ------
        UsageError
            It was done with other settings or files, and nothing that was done just now is the
            reason.
        """
        known = self._state.get(step.name)
        if not self._did:
            self.refuse_others([step])
        if known is not None and self.was_done(step):
            self._say(step.command, True)
            return int(known["exit_code"])
        self._did.add(step.name)
        self._say(step.command, False)
        began = known is not None
        if began or self._force:
            for path in step.leaves:
                _remove(path)
        record = {"command": list(step.command), "settings": dict(step.settings), "done": False}
        self._keep(step.name, record)
        start = time.monotonic()
        code = step.does(began)
        if step.is_done(code):
            files = {role: _signature(path) for role, path in step.files.items()}
            self._keep(
                step.name,
                dict(
                    record,
                    files=files,
                    exit_code=code,
                    seconds=round(time.monotonic() - start, 3),
                    at_s=round(time.time(), 3),
                    done=True,
                ),
            )
        return code

    def was_done(self, step: Step) -> bool:
        """Tell whether a step was done before and need not be done again."""
        return (
            bool(self._state.get(step.name, {}).get("done"))
            and not self._changes(step)
            and not (self.again and step.on_device)
            and all(map(os.path.lexists, [*step.leaves, *step.needs]))
        )

    def _changes(self, step: Step) -> List[str]:
        """Return what has changed since a step was done."""
        known = self._state.get(step.name)
        if known is None or not known.get("done"):
            return []
        before: Mapping[str, Any] = known.get("settings") or {}
        now = json.loads(json.dumps(step.settings))
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        files: Dict[str, Any] = known.get("files") or {}
        for role in dict.fromkeys([*files, *step.files]):
            path = step.files.get(role)
            if role not in files or path is None or not _is_same(path, files[role]):
                changed.append(role)
        return changed

    def _keep(self, name: str, record: Mapping[str, Any]) -> None:
        self._state[name] = dict(record)
        self._write({})

    def keep_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Store the result of the search next to its steps, until another step is run."""
        self._write({"outcome": outcome})

    def _write(self, more: Mapping[str, Any]) -> None:
        document = {"form": _FORM, **more, "steps": self._state}
        with atomic_text_writer(self._path) as stream:
            stream.write(json.dumps(document, indent=1) + "\n")


def _read(path: str) -> Dict[str, Dict[str, Any]]:
    if not os.path.lexists(path):
        return {}
    try:
        document = json.loads(read_input(path, _LIMIT_BYTES).decode("utf-8"))
        steps: Dict[str, Dict[str, Any]] = document["steps"]
        if document["form"] != _FORM or not all(isinstance(step, dict) for step in steps.values()):
            raise ValueError("another form")
        return steps
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            "not the state of a search: %r" % error,
            path,
            hint="remove it and add --force to begin anew, or name another folder with -o",
        ) from None


def _signature(path: str) -> Optional[Dict[str, Any]]:
    try:
        status = os.stat(path)
        return {
            "bytes": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "sha256": sha256_of_file(path),
        }
    except (OSError, GoldwatchError):
        return None


def _is_same(path: str, before: Optional[Mapping[str, Any]]) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return before is None
    if before is None or status.st_size != before.get("bytes"):
        return False
    return status.st_mtime_ns == before.get("mtime_ns") or sha256_of_file(path) == before.get(
        "sha256"
    )


def _full(step: Step) -> List[str]:
    """Return the folders of a step that hold anything."""
    return [path for path in step.leaves if os.path.isdir(path) and os.listdir(path)]


def _remove(path: str) -> None:
    """Remove the files of a step; links are not followed."""
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
