"""Starts the Python that has TensorFlow for one job, waits for it, and judges what came out."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ...errors import EnvironmentProblem, GoldwatchError, InputError, Interrupted, ProgramFailed, UsageError
from ...naming import printable
from ..golden_writer import GoldenWriter
from ..launch import child_environment
from ..manifest import MANIFEST_FILE, TEMPORARY_PREFIX, golden_files, read_manifest, write_whole
from .child import OWN_ERROR, RESULT_FILE, words_of
from .pythons import Python

_END_S = 20


@dataclass(frozen=True)
class Outcome:
    """What a child did.

    Attributes
    ----------
    returncode
        Its exit code, negative for a signal.
    result
        What it wrote down: ``error``, ``runs``, ``done``, ``raised``, ``notes``, ``version``.
    """

    returncode: int
    result: Dict[str, Any]

    @property
    def done(self) -> List[Dict[str, Any]]:
        """What was converted."""
        return list(self.result["done"])


@contextlib.contextmanager
def scratch_folder(out: str) -> Iterator[str]:
    """Yield a folder on the file system of ``out``, removed at the end."""
    parent = os.path.dirname(os.path.abspath(out))
    while not os.path.isdir(parent):
        if os.path.lexists(parent):
            raise UsageError("%s is not a folder" % printable(parent), hint="choose another folder with -o")
        parent = os.path.dirname(parent)
    try:
        folder = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX + "tf-", dir=parent)
    except OSError as error:
        message = "%s: a folder for the debug dump cannot be made: %s" % (printable(parent), error.strerror)
        raise EnvironmentProblem(message, hint="choose an output folder where you may write") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_job(python: Python, options: Sequence[str], job: Dict[str, Any], scratch: str, own_stdout: bool) -> Outcome:
    """Run one job in a child Python.

    Parameters
    ----------
    options
        Of the interpreter, in front of the script.
    job
        See :mod:`.child`.
    scratch
        An existing folder for the job's files.
    own_stdout
        Keep stdout for ourselves: what the child prints goes to stderr.

    Raises
    ------
    Interrupted
        Ctrl-C; the child is ended first.
    """
    folder = tempfile.mkdtemp(prefix="job-", dir=scratch)
    path = os.path.join(folder, "job.json")
    job = dict(job, pythonpath=os.environ.get("PYTHONPATH"))
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(job, stream)
    with _heeding_sigterm(), child_environment() as environment:
        package = environment["PYTHONPATH"].split(os.pathsep)[0]
        command = [python.path] + list(options) + words_of(path, package)
        sys.stdout.flush()
        try:
            child = subprocess.Popen(command, env=environment, stdout=sys.stderr.fileno() if own_stdout else None)
        except OSError as error:
            raise EnvironmentProblem("%s cannot be started: %s" % (python.path, error.strerror)) from error
        try:
            returncode = child.wait()
        except BaseException:
            _end(child)
            raise
    result = _read_result(os.path.join(folder, RESULT_FILE), python, returncode)
    return Outcome(returncode, result)


@contextlib.contextmanager
def _heeding_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind (the child ended, folders removed) before it ends this process; only the main thread can ask for that."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(number: int, _: Any) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(child: Any) -> None:
    """End a child that did not get the terminal's own signal or does not heed it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            child.wait(timeout=1 if number == signal.SIGINT else _END_S)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            child.send_signal(number)
    child.wait()


def _read_result(path: str, python: Python, returncode: int) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:
            result: Dict[str, Any] = json.load(stream)
    except (OSError, ValueError) as error:
        message = "%s could not run goldwatch's part (exit code %d)" % (python.path, returncode)
        raise EnvironmentProblem(message, hint="its own message stands above; numpy must be installed there") from error
    return result


def own_error(outcome: Outcome) -> Optional[GoldwatchError]:
    """Return the error of goldwatch's own part, or None."""
    state = outcome.result["error"]
    if state is None:
        return None
    classes = {kind.kind: kind for kind in (UsageError, InputError, EnvironmentProblem)}
    return classes.get(state["kind"], InputError)(state["message"], state["hint"])


def script_failure(outcome: Outcome, what: str) -> Optional[ProgramFailed]:
    """Return the error that tells how the script ended, or None when it ended well."""
    code = outcome.returncode
    if code == 0 or (code == OWN_ERROR and outcome.result["error"] is not None):
        return None
    if code in (130, -signal.SIGINT):
        raise Interrupted("%s was interrupted" % what)
    how = "was killed by %s" % signal_name(-code) if code < 0 else "failed with exit code %d" % code
    return ProgramFailed("%s %s%s" % (what, how, _kept(outcome)), code, hint="its own message stands above")


def _kept(outcome: Outcome) -> str:
    runs = ", ".join("run %d in %s" % (entry["run"], entry["out"]) for entry in outcome.done)
    return "; golden data of %s was saved before" % runs if runs else "; no golden data was saved"


def signal_name(number: int) -> str:
    """Return ``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def note_program(outcome: Outcome, job: Dict[str, Any], version: str) -> None:
    """Write how the script ended into the manifests of its golden folders; one that failed before any run was saved gets empty ones."""
    code = outcome.returncode
    program = {"exit_code": code if code >= 0 else None, "signal": signal_name(-code) if code < 0 else None}
    for entry in outcome.done:
        add_to_manifest(entry["out"], {"program": program})
    if code not in (0, 130, -signal.SIGINT) and outcome.result["error"] is None and not outcome.done:
        for number, out in job["wanted"].items():
            if golden_files(out) or os.path.exists(os.path.join(out, MANIFEST_FILE)):
                # With --force: what an earlier run left is not what this one tells of.
                continue
            with GoldenWriter(out, "tensorflow", version, job["source"]) as writer:
                writer.extra.update(job["extra"], complete=False, run={"index": number}, dumps=0, refused=[], program=program)


def add_to_manifest(out: str, fields: Dict[str, Any]) -> None:
    """Add fields to the manifest of a golden folder."""
    manifest = read_manifest(out)
    if manifest is not None:
        manifest.update(fields)
        write_whole(out, MANIFEST_FILE, (json.dumps(manifest, indent=1, ensure_ascii=True) + "\n").encode("ascii"))


def never_reached(outcome: Outcome, wanted: Sequence[int], estimator: bool, driven: bool) -> Optional[InputError]:
    """Return the error about chosen runs that gave nothing, or None."""
    got = {entry["run"] for entry in outcome.done}
    missing = [number for number in wanted if number not in got]
    if not missing:
        return None
    raised = dict(outcome.result["raised"])
    for number in missing:
        if number in raised:
            return InputError(
                "run %d raised %s: the dump of a run that raised is not used" % (number, raised[number]),
                hint="choose another run with --run-index",
            )
    runs = int(outcome.result["runs"])
    numbers = ", ".join(map(str, missing))
    made = "no run" if runs == 0 else "1 run (number 0)" if runs == 1 else "%d runs (0 to %d)" % (runs, runs - 1)
    kind = " of Estimators and MonitoredSessions" if estimator else ""
    hint = "runs count from 0; initialisers and set-up runs do not count"
    if runs == 0:
        hint = "goldwatch sees runs of tf.Session, MonitoredSession, Estimator and Keras on graphs; eager TensorFlow 2 code has none"
    if runs == 0 and driven:
        hint = "the script must wrap its session in LocalCLIDebugWrapperSession or use LocalCLIDebugHook; dump needs neither"
    which = "run %s was" % numbers if len(missing) == 1 else "runs %s were" % numbers
    return InputError("%s never reached: the script made %s%s" % (which, made, kind), hint=hint)
