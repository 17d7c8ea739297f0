"""Prepares the dump configuration before the program starts: it is read, checked and put where the
program expects it, and dump_path is made.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import replace
from typing import Callable, List, Optional, Sequence

from ...base.atomic_writing import atomic_text_writer, atomic_writer
from ...base.errors import EnvironmentProblem, InputError, UsageError, require_file
from ...base.fast_dataclasses import dataclass
from ...base.mounts import free_bytes
from ...base.safe_reading import open_input, read_input
from ...base.wording import listed, plural
from ...config.check import EMPTY_RULES, check_file
from ...config.dump_plan import DumpPlan
from ...config.dump_plan_formats import read_plan, write_plan
from ...config.finding import ERROR, WARNING, Finding
from ...dumps.place import is_time

PLAN, ACL, NPU = "dump plan", "acl.json", "npu settings"
WRITTEN_FILE = "acl.json"
KEPT_FILE = "acl.before.json"

_LIMIT_BYTES = 10 * 1024 * 1024
_RESERVE_BYTES = 1024 * 1024
_REMOTE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}:")


@dataclass(frozen=True)
class Prepared:
    """A configuration that can be run.

    Attributes
    ----------
    target
        dump_path, absolute; it exists.
    earlier
        Its time folders from before the start.
    written
        The file that the program reads, where one was written.
    kind, file, plan
        What the configuration is, the file that holds it, and what it says, but for dump_path.
    """

    target: str
    earlier: List[str]
    written: Optional[str] = None
    kind: str = ACL
    file: str = ""
    plan: DumpPlan = DumpPlan()


def prepare(
    kind: str,
    path: str,
    model: Optional[str],
    acl_at: Optional[str],
    out: str,
    say: Callable[[str], None],
    om_name: Optional[str] = None,
) -> Prepared:
    """Check a configuration, make its dump_path and write what the program reads.

    Parameters
    ----------
    kind
        :data:`PLAN`, :data:`ACL` or :data:`NPU`: what ``path`` is.
    model
        The model's json, to hold names against and to tell the space needed; or None.
    acl_at
        Where the program expects acl.json; None: an acl.json is read where it is, a plan is written
        to ./acl.json.
    out
        OUT, which exists.
    say
        Takes sentences for the user.
    om_name
        What the model's .om file is called, or None when nobody says.

    Raises
    ------
    InputError
        The configuration is refused, or is no configuration.
    EnvironmentProblem
        dump_path cannot be made, or the disk is full.
    """
    require_file(path, kind)
    data = read_input(path, _LIMIT_BYTES)
    if kind == NPU and acl_at is not None:
        raise UsageError("npu settings are the program's own: they go to no acl.json")
    empty: List[str] = []
    if kind != PLAN:
        # What this machine's file system says comes later: dump_path may have to be made.
        empty = _check(path, path, model, lambda text: None, om_name, elsewhere=True)
    plan = read_plan(data, path, exact=False)
    if not plan.dump_path:
        reason = "; ".join(empty) or "it names no dump_path"
        raise InputError(
            "%s: %s: there would be nothing to watch" % (path, reason),
            hint="add a dump section with a dump_path",
        )
    if _REMOTE.match(plan.dump_path):
        raise InputError(
            "%s: dump_path %s is on another machine" % (path, plan.dump_path),
            hint="dump to a local folder",
        )
    target = os.path.realpath(plan.dump_path)
    made = _make_folder(target, say)
    try:
        written = _write(kind, plan, path, acl_at, out, say) if kind != NPU else None
        _check(written or path, path, model, say, om_name)
    except BaseException:
        if made:
            with contextlib.suppress(OSError):
                os.rmdir(target)
        raise
    free = free_bytes(target)
    if free is not None and free <= _RESERVE_BYTES:
        raise EnvironmentProblem(
            "%s: the disk is full (%d bytes free): nothing could be dumped" % (target, free),
            hint="free some space first",
        )
    earlier = sorted(
        entry.path
        for entry in os.scandir(target)
        if is_time(entry.name) and entry.is_dir(follow_symlinks=False)
    )
    if earlier:
        count = plural(len(earlier), "time folder")
        names = listed([os.path.basename(folder) for folder in earlier], 3)
        say(
            "note: %s from before the start %s left alone: %s"
            % (count, "is" if len(earlier) == 1 else "are", names)
        )
    return Prepared(target, earlier, written, kind, path, replace(plan, dump_path=None))


def _make_folder(target: str, say: Callable[[str], None]) -> bool:
    """Make dump_path inside a folder that is there, and say so; return whether it was made."""
    if os.path.lexists(target):
        return False
    parent = os.path.dirname(target)
    try:
        if not os.path.isdir(parent):
            raise EnvironmentProblem(
                "dump_path %s does not exist, nor does the folder that it would stand in" % target,
                hint="mkdir -p %s" % target,
            )
        os.mkdir(target)
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(
            "dump_path %s cannot be made: %s" % (target, getattr(error, "strerror", None) or error)
        ) from error
    say("note: dump_path %s did not exist: made" % target)
    return True


def _write(
    kind: str,
    plan: DumpPlan,
    path: str,
    acl_at: Optional[str],
    out: str,
    say: Callable[[str], None],
) -> Optional[str]:
    """Write acl.json where the program expects it; return that place, None when the program reads
    the given file itself.
    """
    if kind == ACL and (
        acl_at is None or (os.path.exists(acl_at) and os.path.samefile(acl_at, path))
    ):
        return None
    place = os.path.abspath(acl_at or WRITTEN_FILE)
    if os.path.isdir(place):
        raise InputError(
            "the place for acl.json, %s, is a folder" % acl_at,
            hint="name the file itself, such as %s" % os.path.join(acl_at or "", WRITTEN_FILE),
        )
    if os.path.exists(place):
        require_file(place, "the place for acl.json")
    if kind == ACL:
        text = read_input(path, _LIMIT_BYTES).decode("utf-8", "surrogateescape")
    else:
        # The program may have another current folder.
        text = write_plan(replace(plan, dump_path=os.path.abspath(plan.dump_path or "")), "acl")
    _keep_earlier(place, text, out, say)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with atomic_text_writer(place) as stream:
        stream.write(text)
    return place


def _keep_earlier(place: str, text: str, out: str, say: Callable[[str], None]) -> None:
    if not os.path.exists(place):
        return
    with open_input(place) as earlier:
        before = earlier.read(_LIMIT_BYTES + 1)
    if before != text.encode("utf-8", "surrogateescape"):
        copy_path = os.path.join(out, KEPT_FILE)
        with atomic_writer(copy_path) as copy, open_input(place) as stream:
            shutil.copyfileobj(stream, copy)
        say("note: %s is replaced; what it was is kept as %s" % (place, copy_path))


def _check(
    checked: str,
    named: str,
    model: Optional[str],
    say: Callable[[str], None],
    om_name: Optional[str],
    elsewhere: bool = False,
) -> List[str]:
    """Refuse what ``config check`` finds errors in; tell its warnings, and return those of them
    that say why nothing is dumped.
    """
    names = [om_name] if om_name is not None else []
    report = check_file(checked, [model] if model is not None else [], None, elsewhere, names)
    for finding in report.findings:
        if finding.severity == WARNING or finding.rule == "dump-size":
            say(
                "%s: %s: %s"
                % ("warning" if finding.severity == WARNING else "note", named, finding.message)
            )
    errors = [finding for finding in report.findings if finding.severity == ERROR]
    if errors:
        text = "; ".join(_sentence(finding) for finding in errors[:5])
        more = " (and %d more)" % (len(errors) - 5) if len(errors) > 5 else ""
        raise InputError(
            "%s is refused: %s%s" % (named, text, more),
            hint="%s; goldwatch config check %s says more" % (errors[0].fix, named),
        )
    return [finding.message for finding in report.findings if finding.rule in EMPTY_RULES]


def _sentence(finding: Finding) -> str:
    return "%s%s [%s]" % (
        finding.pointer + ": " if finding.pointer else "",
        finding.message,
        finding.rule,
    )


def why_nothing(prepared: Prepared, words: Sequence[str], log: str) -> str:
    """Return what to look at, as a hint.

    Parameters
    ----------
    prepared
        The configuration that the program ran with.
    words
        The program and its arguments.
    log
        Where its output is kept.
    """
    questions = _of_script(prepared) if prepared.kind == NPU else _of_acl(prepared, words)
    return "; ".join(questions + ["what the program said is in %s" % log])


def _of_script(prepared: Prepared) -> List[str]:
    questions = [
        "does the program read its settings from %s, and do they reach its session?" % prepared.file
    ]
    if prepared.plan.step:
        questions.append("does it reach step %s?" % prepared.plan.step)
    return questions


def _of_acl(prepared: Prepared, words: Sequence[str]) -> List[str]:
    file = prepared.written or os.path.abspath(prepared.file)
    name = os.path.basename(file)
    named = [word for word in words[1:] if os.path.basename(word) == name]
    observation = "no argument names it" if not named else "an argument names %s" % named[0]
    questions = ["does the program pass %s to aclInit()? (%s)" % (file, observation)]
    plan = prepared.plan
    models = [model.name for model in plan.models or () if model.name]
    if models:
        text = (
            "is the model called %s, as its .om file or the outermost name in its json?"
            % " or ".join(repr(name) for name in models[:3])
        )
        questions.append(text)
    if plan.op_switch:
        questions.append(
            "does it call aclmdlInitDump() and aclmdlSetDump()? ops called one by one are "
            "sure to be dumped by these alone"
        )
    if plan.step:
        questions.append("does it reach step %s?" % plan.step)
    if plan.debug:
        questions.append("did anything overflow? only then something is dumped")
    return questions
