"""Starts the Python that has TensorFlow for one job, waits for it, and judges what came out."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from typing import Any, Dict, Iterator, Optional, Sequence

from ...base.atomic_writing import ASIDE_PREFIX
from ...base.errors import (
    EXIT_INTERRUPTED,
    EnvironmentProblem,
    GoldwatchError,
    InputError,
    Interrupted,
    ProgramFailed,
    UsageError,
)
from ...base.interrupts import signal_name
from ...base.manifest import MANIFEST_FILE, add_to_manifest
from ...base.naming import printable
from ..child.outcome import Outcome
from ..child.parent import OURS, STDERR, Progress, Task, run_child
from ..child.signals import NotedSignals
from ..golden_folder import golden_files
from ..golden_writer import GoldenWriter
from .pythons import Python

_MODULE = "goldwatch.adapters.tensorflow.child"


@contextlib.contextmanager
def scratch_folder(out: str) -> Iterator[str]:
    """Yield a folder on the file system of ``out``, removed at the end."""
    parent = os.path.dirname(os.path.abspath(out))
    while not os.path.isdir(parent):
        if os.path.lexists(parent):
            raise UsageError("%s is not a folder" % printable(parent), hint="choose another folder")
        parent = os.path.dirname(parent)
    # Neither its birth nor its removal is left half-done by a Ctrl-C.
    try:
        with NotedSignals() as signals:
            folder = tempfile.mkdtemp(prefix=ASIDE_PREFIX + "tf-", dir=parent)
    except OSError as error:
        message = "%s: a folder for the debug dump cannot be made: %s" % (
            printable(parent),
            error.strerror,
        )
        raise EnvironmentProblem(
            message, hint="choose an output folder where you may write"
        ) from error
    try:
        signals.pass_on()
        yield folder
    finally:
        with NotedSignals() as signals:
            shutil.rmtree(folder, ignore_errors=True)
        signals.pass_on()


def run_job(
    python: Python,
    options: Sequence[str],
    job: Dict[str, Any],
    scratch: str,
    outs: Sequence[str],
    own_stdout: bool,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Run one job in a child Python.

    Parameters
    ----------
    options
        Of the interpreter, in front of the script.
    job
        See :mod:`.child`.
    scratch
        An existing folder for the job's files.
    outs
        The golden folders.
    own_stdout
        Keep stdout for ourselves: what the child prints goes to stderr.
    progress
        As for :func:`.child.parent.run_child`.

    Raises
    ------
    EnvironmentProblem
        The Python could not even begin with it.
    """
    folder = tempfile.mkdtemp(prefix="job-", dir=scratch)
    job = dict(job, folder=folder, pythonpath=os.environ.get("PYTHONPATH"))
    outcome = run_child(
        Task(python.path, _MODULE, job, outs, options, output=STDERR if own_stdout else OURS),
        folder,
        progress,
    )
    if outcome.interrupted and "state" not in outcome.messages:
        raise Interrupted("interrupted; nothing was saved")
    if "state" not in outcome.messages:
        message = "%s could not run goldwatch's part (%s)" % (python.path, outcome.how)
        raise EnvironmentProblem(
            message, hint="its own message stands above; numpy must be installed there"
        )
    return outcome


def script_failure(outcome: Outcome, what: str) -> Optional[GoldwatchError]:
    """Return the error that tells how the script ended, or None when it ended well."""
    code = outcome.returncode
    if outcome.interrupted or code in (EXIT_INTERRUPTED, -signal.SIGINT):
        return Interrupted("%s was interrupted%s" % (what, _saved_before(outcome)))
    if code == 0:
        return None
    how = (
        "was killed by %s" % signal_name(-code)
        if outcome.died
        else "failed with exit code %d" % code
    )
    hint = "its own message stands above"
    if outcome.messages["state"]["npu_missing"]:
        hint = (
            "npu_bridge is not there, and golden data needs none: `without_npu` runs the script "
            "with a stand-in that changes nothing"
        )
    return ProgramFailed("%s %s%s" % (what, how, _saved_before(outcome)), code, hint=hint)


def _saved_before(outcome: Outcome) -> str:
    runs = ", ".join(
        "run %d in %s" % (entry["run"], entry["out"]) for entry in outcome.messages["state"]["done"]
    )
    return "; golden data of %s was saved before" % runs if runs else "; no golden data was saved"


def note_program(outcome: Outcome, job: Dict[str, Any], version: str) -> None:
    """Write how the script ended into the manifests of its golden folders; one that failed before
    any run was saved gets empty ones.

    The folders of a script that a signal ended do not count as complete.
    """
    code = outcome.returncode
    program = {
        "exit_code": code if code >= 0 else None,
        "signal": signal_name(-code) if code < 0 else None,
    }
    for entry in outcome.messages["state"]["done"]:
        add_to_manifest(entry["out"], program=program, complete=not outcome.died)
    quiet = outcome.interrupted or code in (0, EXIT_INTERRUPTED, -signal.SIGINT)
    if not quiet and outcome.own_error is None and not outcome.messages["state"]["done"]:
        for number, out in job["folders"].items():
            if golden_files(out) or os.path.exists(os.path.join(out, MANIFEST_FILE)):
                # With force: what an earlier run left is not what this one tells of.
                continue
            with GoldenWriter(out, "tensorflow", version, job["source"]) as writer:
                writer.extra.update(
                    job["extra"],
                    complete=False,
                    run={"index": number},
                    dumps=0,
                    refused=[],
                    program=program,
                )


def never_reached(
    outcome: Outcome, requested_runs: Sequence[int], estimator: bool
) -> Optional[InputError]:
    """Return the error about chosen runs that gave nothing, or None."""
    state = outcome.messages["state"]
    got = {entry["run"] for entry in state["done"]}
    missing = [number for number in requested_runs if number not in got]
    if not missing:
        return None
    raised = dict(state["raised"])
    for number in missing:
        if number in raised:
            return InputError(
                "run %d raised %s: the dump of a run that raised is not used"
                % (number, raised[number]),
                hint="choose another run with `run_index`",
            )
    runs = int(state["runs"])
    numbers = ", ".join(map(str, missing))
    made = (
        "no run"
        if runs == 0
        else "1 run (number 0)"
        if runs == 1
        else "%d runs (0 to %d)" % (runs, runs - 1)
    )
    kind = " of Estimators and MonitoredSessions" if estimator else ""
    hint = (
        "runs count from 0; initialisers, set-up, lone assignments and counters do not count; "
        "`list_runs` shows the others"
    )
    if runs == 0:
        hint = (
            "goldwatch sees runs of tf.Session, MonitoredSession, Estimator and Keras on graphs; "
            "eager TensorFlow 2 code has none"
        )
    if runs == 0 and (state["children"] or outcome.messages.get("foreign")):
        hint = (
            "the script started other programs or processes, and runs in those are not seen: "
            "put the command that trains or infers itself "
            "behind --, or have it make its runs in the script's own process"
        )
    if state["partial_runs"]:
        made += " and %d calls of partial_run" % state["partial_runs"]
        hint = "partial_run cannot be dumped: make the run with session.run"
    which = "run %s was" % numbers if len(missing) == 1 else "runs %s were" % numbers
    return InputError("%s never reached: the script made %s%s" % (which, made, kind), hint=hint)
