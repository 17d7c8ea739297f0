"""Repairs the names of .npy files that tfdbg or handwork left in a form which other readers ignore
or misread.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from typing import Any, Container, List, Optional, Sequence, Tuple

import numpy as np

from ...base.errors import InputError, UsageError, require_folder
from ...base.fast_dataclasses import dataclass
from ...base.naming import (
    MAPPING_FILE,
    TIMESTAMP_DIGITS,
    fits,
    is_hash_name,
    parse_golden_name,
    read_mapping,
    sanitise_golden,
)
from ...base.safe_reading import open_input
from ...kinds.folders import kind_of_name
from ...kinds.kind import GOLDEN, MISNAMED, WORDS
from .golden_rules import feed_of

RENAME, KEEP, REPORT = "rename", "keep", "report"

_PLAIN = re.compile(
    r"(?P<op>.+)\.(?P<index>[0-9]{1,9})\.(?P<timestamp>[0-9]{1,255})\.npy\Z", re.DOTALL
)
# Names that lack a part: tensors as TensorFlow calls them (op:0), without a time, without an index.
# A time has 10 digits or more.
_COLON = re.compile(
    r"(?P<op>.+):(?P<index>[0-9]{1,4})(?:\.(?P<timestamp>[0-9]{10,255}))?\.npy\Z", re.DOTALL
)
_TIMELESS = re.compile(r"(?P<op>.+)\.(?P<index>[0-9]{1,4})\.npy\Z", re.DOTALL)
_INDEXLESS = re.compile(r"(?P<op>.+)\.(?P<timestamp>[0-9]{10,255})\.npy\Z", re.DOTALL)
_BARE = re.compile(r"(?P<op>.+)\.npy\Z", re.DOTALL)
# Some drivers of tfdbg add the number of the dump; 16 digits before it are a timestamp, not a
# number in an op's name.
_COUNTED = re.compile(
    r"(?P<op>.+)\.(?P<index>[0-9]{1,9})\.(?P<timestamp>[0-9]{16})\.(?P<count>[0-9]{1,9})\.npy\Z",
    re.DOTALL,
)


@dataclass(frozen=True)
class Renaming:
    """What happens to one file.

    Attributes
    ----------
    action
        ``rename``, ``keep`` (the name is right) or ``report`` (left alone, with the reason).
    new
        The new name, or None.
    reason
        The rules that apply, or why the file is left alone.
    unreadable
        Whether readers of golden data refuse what it holds, whatever it is called.
    """

    old: str
    action: str
    new: Optional[str]
    reason: str
    unreadable: bool = False


def plan_renames(folder: str, rules: Sequence[Tuple[str, str]] = ()) -> List[Renaming]:
    """Return the action for each .npy file directly in ``folder``, sorted by name.

    Parameters
    ----------
    rules
        ``(regular expression, replacement)`` for the part before ``.{index}.{timestamp}.npy``,
        applied in this order. Without any: feeds (``_arg_NAME_SLOT_N``) get their op's name and
        slot, a dump count behind the timestamp is added to it, ``op:0`` is output 0 of ``op``, a
        missing index is 0, a missing time that of the file, and every character outside
        ``[A-Za-z0-9_-]`` becomes ``_``.

    Raises
    ------
    MissingPath
        There is no such folder.
    UsageError
        A rule is not a regular expression, or its replacement names a group that is not there.
    """
    require_folder(folder, "FOLDER")
    compiled = [_compile(pattern, text) for pattern, text in rules]
    names = sorted(os.listdir(folder))
    mapped = read_mapping(os.path.join(folder, MAPPING_FILE)) if MAPPING_FILE in names else {}
    # Links to folders and pipes are no golden files; opening a pipe would wait for ever.
    files = [
        name
        for name in names
        if name.endswith(".npy") and os.path.isfile(os.path.join(folder, name))
    ]
    plan = [_plan_one(folder, name, compiled, mapped) for name in files]
    present = set(names)
    counts = Counter(step.new for step in plan if step.new is not None)
    checked: List[Renaming] = []
    for step in plan:
        if step.new is not None and step.new in present:
            step = replace(
                step, action=REPORT, reason="%s exists already; nothing is overwritten" % step.new
            )
        elif step.new is not None and counts[step.new] > 1:
            step = replace(
                step,
                action=REPORT,
                reason="%s would be the name of %d files" % (step.new, counts[step.new]),
            )
        checked.append(step)
    return checked


def apply_renames(folder: str, plan: Sequence[Renaming]) -> List[Renaming]:
    """Rename as planned and return what was really done; a name that appeared meanwhile is never
    overwritten.
    """
    done: List[Renaming] = []
    for step in plan:
        if step.action == RENAME and step.new is not None:
            try:
                old = os.path.join(folder, step.old)
                new = os.path.join(folder, step.new)
                try:
                    os.link(old, new, follow_symlinks=False)
                except FileExistsError:
                    raise
                except OSError:
                    # No hard links on this file system.
                    if os.path.lexists(new):
                        raise FileExistsError(17, "File exists", new) from None
                    os.rename(old, new)
                else:
                    os.unlink(old)
            except FileExistsError:
                step = replace(
                    step,
                    action=REPORT,
                    reason="%s exists already; nothing is overwritten" % step.new,
                )
            except OSError as error:
                raise InputError(
                    "%s: %s" % (os.path.join(folder, step.old), error.strerror or error)
                ) from error
        done.append(step)
    return done


def _compile(pattern: str, text: str) -> Tuple[Any, str]:
    try:
        return re.compile(pattern), text
    except re.error as error:
        raise UsageError(
            "`rule` %s: %s" % (pattern, error),
            hint="give a Python regular expression and its replacement",
        ) from error


def _plan_one(
    folder: str, name: str, rules: Sequence[Tuple[Any, str]], mapped: Container[str]
) -> Renaming:
    if is_hash_name(name) and (name in mapped or name[: -len(".npy")] in mapped):
        return Renaming(name, KEEP, None, "a hash name that mapping.csv resolves")
    problem, dtype = _content(os.path.join(folder, name))
    if problem is not None:
        return Renaming(name, REPORT, None, problem)
    step = _by_rules(name, rules) if rules else _by_default(name, os.path.join(folder, name))
    if dtype == "|V2":
        step = replace(
            step,
            reason="%s; holds raw |V2 (bfloat16), which readers of golden data refuse"
            % step.reason,
            unreadable=True,
        )
    return step


def _by_default(name: str, path: str) -> Renaming:
    notes: List[str] = []
    kind = kind_of_name(name)
    if kind is not None and kind not in (GOLDEN, MISNAMED):
        return Renaming(name, REPORT, None, "no golden data: %s" % WORDS[kind])
    counted = _COUNTED.match(name)
    match = (
        counted
        or _COLON.match(name)
        or _PLAIN.match(name)
        or _INDEXLESS.match(name)
        or _TIMELESS.match(name)
    )
    if match is None and not is_hash_name(name):
        match = _BARE.match(name)
    if match is None:
        return Renaming(
            name,
            REPORT,
            None,
            "not {op}.{output_index}.{timestamp}.npy: what it holds cannot be told from its name",
        )
    parts = match.groupdict()
    op, index, timestamp = parts["op"], int(parts.get("index") or 0), parts.get("timestamp") or ""
    if not timestamp:
        timestamp = str(int(os.path.getmtime(path) * 1e6)).zfill(TIMESTAMP_DIGITS)
        notes.append("no time in its name: that of the file is taken")
    if "index" not in parts:
        notes.append("no output index in its name: 0 is taken")
    if counted is not None:
        timestamp = str(int(timestamp) + int(counted.group("count"))).zfill(TIMESTAMP_DIGITS)
        notes.append("dump count added to the timestamp")
    feed = feed_of(op, "_Arg")
    if feed is not None:
        op, index = feed
        notes.append("feed renamed to its op")
    clean = sanitise_golden(op)
    if clean != op:
        notes.append("%s become _" % _characters(op))
    return _judged(name, "%s.%d.%s.npy" % (clean, index, timestamp), "; ".join(notes))


def _by_rules(name: str, rules: Sequence[Tuple[Any, str]]) -> Renaming:
    plain = _PLAIN.match(name)
    op, tail = (
        (plain.group("op"), name[len(plain.group("op")) :])
        if plain is not None
        else (name[: -len(".npy")], ".npy")
    )
    notes: List[str] = []
    for pattern, text in rules:
        try:
            changed = pattern.sub(text, op)
        except (re.error, IndexError) as error:
            raise UsageError(
                "`rule` %s %s: %s" % (pattern.pattern, text, error),
                hint="its replacement names no such group",
            ) from error
        if changed != op:
            notes.append("%s -> %s" % (pattern.pattern, text))
            op = changed
    return _judged(name, op + tail, "; ".join(notes))


def _judged(old: str, new: str, notes: str) -> Renaming:
    parsed = parse_golden_name(new)
    if parsed is None or sanitise_golden(parsed.op_name) != parsed.op_name:
        return Renaming(
            old, REPORT, None, "%s is not a golden name ({op}.{output_index}.{timestamp}.npy)" % new
        )
    if not fits(new):
        return Renaming(old, REPORT, None, "the new name is longer than 255 bytes")
    if new == old:
        return Renaming(old, KEEP, None, "the name is right")
    return Renaming(old, RENAME, new, notes)


def _characters(op: str) -> str:
    characters = sorted({char for char in op if sanitise_golden(char) != char})
    return ", ".join(
        "blanks" if char == " " else "dots" if char == "." else repr(char) for char in characters
    )


def _content(path: str) -> Tuple[Optional[str], str]:
    """Return why the file is no array of numbers (its header tells) or None, and its dtype."""
    try:
        with open_input(path) as stream:
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            dtype = read(stream)[2]
    except OSError as error:
        return error.strerror or str(error), ""
    except Exception as error:
        # numpy raises many kinds for a broken header.
        return "not a .npy file (%s)" % (str(error).splitlines() or [type(error).__name__])[0], ""
    if dtype.hasobject:
        return (
            "holds a pickled Python object (a string, a handle or an uninitialised variable), "
            "not numbers",
            "",
        )
    return None, str(dtype.str)
