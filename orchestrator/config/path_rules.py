"""Rules about dump_path: its form, and this machine's file system."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import List, Optional, Tuple

from ..base.mounts import free_bytes, mount_of
from ..base.naming import parse_dump_name
from ..base.system import text_of
from ..dumps.place import is_time
from .finding import ERROR, NOTE, WARNING, Findings, Path

MAX_ENTRIES = 10000
_MIN_FREE_BYTES = 1024 * 1024

_ALLOWED = re.compile(r"[A-Za-z0-9\-=\[\];\\,./!@#$%^&*()_+{}:?]")
_VARIABLE = re.compile(r"\$(?:\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*)|\A~")
#: Up to CANN 5.0 single ops were dumped into {dump_path}/{device_id}/.
_DEVICE_FOLDER = re.compile(r"[0-9]{1,3}\Z")
_EPHEMERAL = frozenset(["overlay", "aufs", "tmpfs", "ramfs", "devicemapper"])

_ACL_REJECTS = "aclInit rejects it (EP0003, path check)"
_REJECTS = {
    "acl": _ACL_REJECTS,
    "npu": "the TensorFlow adapter stops with an error about dump_path",
    "torchair": "TorchAir raises FileNotFoundError where dump_path is set",
}


def check_dump_path(
    findings: Findings, text: str, path: Path, kind: str, must_work: bool = True
) -> Optional[str]:
    """Check one dump_path.

    Parameters
    ----------
    text
        The value, not empty.
    kind
        ``acl``, ``npu`` or ``torchair``.
    must_work
        Whether a consumer checks it; with an exception scene or nothing switched on it does not,
        and errors are warnings.

    Returns
    -------
    str or None
        The folder on this machine, when it can be used.
    """
    hard = ERROR if must_work else WARNING
    if kind == "acl":
        rest = _after_ip(text)
        if rest is not None:
            _check_remote(findings, text, rest, path, hard)
            return None
        # A leading ~ is what the rule about variables speaks of.
        _check_characters(findings, text, text[1:] if _is_home(text) else text, path, hard)
        if len(os.fsencode(text)) > 512 >= len(text):
            message = "dump_path has %d bytes, at most 512 are allowed" % len(os.fsencode(text))
            findings.add(
                hard, "path-too-long", path, message, _ACL_REJECTS, "choose a shorter path"
            )
    rejects = _REJECTS[kind]
    if not must_work:
        rejects = "not checked by the consumer in this configuration; nothing can be written there"
    if _check_literal_variable(findings, text, path, hard, rejects):
        return None
    if not os.path.isabs(text):
        message = (
            "dump_path is relative; judged from the current folder it is %s" % os.path.abspath(text)
        )
        consumer = "taken relative to the current folder of the process that dumps"
        findings.environment(
            NOTE, "dump-path-relative", path, message, consumer, "write an absolute path"
        )
    if not _check_folder(findings, text, path, hard, rejects):
        return None
    _look_around(findings, text, path)
    return text


def _after_ip(text: str) -> Optional[str]:
    """Return what follows ``ip:``, or None when the path has no such form."""
    head, colon, rest = text.partition(":")
    parts = head.split(".")
    if (
        not colon
        or len(parts) != 4
        or any(not re.match(r"[0-9]{1,3}\Z", part) or int(part) > 255 for part in parts)
    ):
        return None
    return rest


def _check_remote(findings: Findings, text: str, rest: str, path: Path, severity: str) -> None:
    if not rest:
        findings.add(
            severity,
            "dump-path-remote",
            path,
            "nothing follows the address in %s" % text,
            _ACL_REJECTS,
            "write address:path",
        )
        return
    if _check_characters(findings, text, rest, path, severity):
        message = "dump_path has the form address:path; whether it exists is not checked"
        consumer = "the file is written below the receiving process's current folder"
        findings.note(
            "dump-path-remote",
            path,
            message,
            consumer,
            "write a local folder unless a receiver runs there",
        )


def forbidden_characters(text: str) -> List[str]:
    """Return the characters of a path that GE does not allow in dump_path."""
    return list(dict.fromkeys(character for character in text if not _ALLOWED.match(character)))


def _check_characters(
    findings: Findings, text: str, checked: str, path: Path, severity: str
) -> bool:
    """Check the characters that GE allows: letters, digits and some signs; return whether all
    are.
    """
    wrong = forbidden_characters(checked)
    if not wrong:
        return True
    shown = " ".join(repr(character) for character in wrong[:10])
    message = "dump_path holds characters that GE does not allow: %s" % shown
    consumer = "aclInit accepts it, GE rejects it later and only logs that: no model is dumped"
    fixed = "".join(character if _ALLOWED.match(character) else "_" for character in text)
    findings.add(
        severity,
        "dump-path-characters",
        path,
        message,
        consumer,
        '"%s" (make that folder first)' % fixed[:600],
    )
    return False


def _is_home(text: str) -> bool:
    return text.startswith("~") and not _exists(text)


def _check_literal_variable(
    findings: Findings, text: str, path: Path, severity: str, rejects: str
) -> bool:
    match = _VARIABLE.search(text)
    if match is None or _exists(text):
        return False
    expanded = os.path.expanduser(os.path.expandvars(text))
    fix = '"%s"' % expanded if not _VARIABLE.search(expanded) else "write the folder itself"
    message = (
        "dump_path holds %s, which nobody expands: the folder would have to be called that"
        % match.group()
    )
    findings.add(severity, "dump-path-variable", path, message, rejects, fix)
    return True


def _exists(text: str) -> bool:
    try:
        return os.path.exists(text)
    except ValueError:
        return False


def _check_folder(findings: Findings, text: str, path: Path, severity: str, rejects: str) -> bool:
    """Check that the folder is there and can be used; return whether it can."""
    rule, message, fix = "", "", ""
    try:
        mode = os.stat(text).st_mode
        if not stat.S_ISDIR(mode):
            rule, message, fix = (
                "dump-path-not-directory",
                "dump_path is not a folder: %s" % text,
                "name a folder",
            )
        elif not os.access(text, os.R_OK | os.W_OK):
            rule, message = (
                "dump-path-permission",
                "this user cannot read and write dump_path: %s" % text,
            )
            fix = "chmod u+rw the folder, or name another one"
    except ValueError:
        rule, message, fix = (
            "dump-path-characters",
            "dump_path holds a character that no path can hold",
            "write a plain path",
        )
        findings.add(severity, rule, path, message, rejects, fix)
        return False
    except OSError as error:
        if error.errno == errno.EACCES:
            rule, message = (
                "dump-path-permission",
                "a folder above dump_path cannot be entered by this user: %s" % text,
            )
            fix = "ask for permission, or name another folder"
        else:
            reason = "" if error.errno == errno.ENOENT else " (%s)" % error.strerror
            rule, message = "dump-path-not-found", "dump_path does not exist: %s%s" % (text, reason)
            fix = "make the folder first: mkdir -p %s" % text
            if os.path.isdir(os.path.dirname(os.path.abspath(text))):
                fix += " (goldwatch run makes it itself)"
    if rule:
        findings.environment(severity, rule, path, message, rejects, fix)
    return not rule


def _look_around(findings: Findings, folder: str, path: Path) -> None:
    free = free_bytes(folder)
    if free is not None and free <= _MIN_FREE_BYTES:
        message = "the file system of dump_path has %d bytes left" % free
        consumer = "chunks that do not fit are dropped with a log line; files get holes"
        findings.environment(
            WARNING, "disk-full", path, message, consumer, "free some space or name another folder"
        )
    times, others = _leftovers(folder)
    if times or others:
        message = "dump_path already holds dumps: " + ", ".join((times + others)[:3])
        consumer = "nothing is cleaned; a new time folder appears beside the old ones"
        findings.environment(
            NOTE,
            "stale-dumps",
            path,
            message,
            consumer,
            "move them away, or compare the newest time folder",
        )
    if len(times) > 1:
        message = "dump_path holds %d time folders, the newest is %s" % (len(times), max(times))
        consumer = "every process of a run makes a time folder of its own"
        findings.environment(
            NOTE,
            "several-time-folders",
            path,
            message,
            consumer,
            "name one time folder when comparing",
        )
    if in_container() and not _on_volume(folder):
        message = "this is a container and dump_path is not on a mounted volume: %s" % folder
        consumer = (
            "dumps stay in the container and are lost with it; offline models cannot dump in some "
            "containers"
        )
        findings.environment(
            NOTE, "container", path, message, consumer, "mount a host folder and dump there"
        )


def check_variables(findings: Findings, path: Path, exception: bool) -> None:
    """Warn of environment variables of this shell that override dump_path.

    Parameters
    ----------
    exception
        Whether only exceptions are dumped.
    """
    if not exception and os.environ.get("NPU_COLLECT_PATH"):
        message = "NPU_COLLECT_PATH is set in this environment: %s" % os.environ["NPU_COLLECT_PATH"]
        consumer = "with it only exceptions are collected; models, ops and overflows are not dumped"
        findings.environment(
            WARNING, "npu-collect-path", path, message, consumer, "unset NPU_COLLECT_PATH"
        )
    for name in ("NPU_COLLECT_PATH", "ASCEND_DUMP_PATH", "ASCEND_WORK_PATH") if exception else ():
        if os.environ.get(name):
            message = "%s is set in this environment: %s" % (name, os.environ[name])
            consumer = "exception dumps go there instead of dump_path"
            findings.environment(
                NOTE, "exception-path", path, message, consumer, "unset %s, or look there" % name
            )
            return


def _leftovers(folder: str) -> Tuple[List[str], List[str]]:
    """Return the time folders and the other entries that look like dumps."""
    times, others = [], []
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(MAX_ENTRIES), entries):
                if is_time(entry.name) and entry.is_dir():
                    times.append(entry.name)
                elif parse_dump_name(entry.name) is not None or (
                    _DEVICE_FOLDER.match(entry.name) and entry.is_dir()
                ):
                    others.append(entry.name)
    except OSError:
        return [], []
    return sorted(times), sorted(others)


def in_container() -> bool:
    """Tell whether this process runs in a container, as far as can be seen from inside."""
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return True
    return bool(re.search(r"docker|kubepods|containerd|lxc", text_of("/proc/1/cgroup")))


def _on_volume(folder: str) -> bool:
    """Tell whether the folder lies on a file system that outlives the container."""
    mount = mount_of(folder)
    return mount is None or (mount.point != "/" and mount.kind not in _EPHEMERAL)
