"""The child's side of ``golden fx dump``: runs the user's script in PyTorch's own Python and saves
the values of its graphs.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any, Dict, Tuple

from ...base.errors import EnvironmentProblem, GoldwatchError, InputError
from ...base.interrupts import caused_by_interrupt
from ..child.serve import Parent
from ..run_script import run_as_main
from .recorder import Recorder, clear, rank_here

OLDEST = (2, 1)


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Run the script of a job.

    Parameters
    ----------
    job
        ``kind``, ``target``, ``arguments`` of the script, ``out``, ``tokens`` (a list, or None),
        ``source`` and ``extra``.

    Raises
    ------
    EnvironmentProblem
        There is no PyTorch here, or an older one.
    InputError
        The script compiles nothing.
    """
    version = require_torch()
    from .backend import make_backend
    from .npu_stand_ins import install

    recorder = Recorder(
        job["out"],
        job["source"],
        version,
        None if job["tokens"] is None else set(job["tokens"]),
        rank_here(),
    )
    clear(recorder.folder)
    install(make_backend(recorder))
    complete = False
    try:
        run_as_main(job["kind"], job["target"], job["arguments"])
        complete = True
    except SystemExit as end:
        complete = end.code in (None, 0)
        if not complete:
            if not isinstance(end.code, int):
                raise InputError("the script ended: %s" % end.code) from end
            raise InputError(
                "the script ended with exit code %d" % end.code, hint="its own message stands above"
            ) from end
    except BaseException as error:
        if caused_by_interrupt(error):
            raise KeyboardInterrupt from None
        if not isinstance(error, GoldwatchError):
            # Print an exception of the script as Python does, without the frames that started the
            # script.
            our_files, trace = (
                {__file__, run_as_main.__code__.co_filename, runpy.__file__, "<frozen runpy>"},
                error.__traceback__,
            )
            while trace is not None and trace.tb_frame.f_code.co_filename in our_files:
                trace = trace.tb_next
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise
    finally:
        recorder.close(complete, **job["extra"])
        parent.send(state={
            "folder": recorder.folder, "graphs": recorder.graphs, "calls": recorder.calls,
            "kept": recorder.kept,
            "files": len(recorder), "version": version,
        })  # fmt: skip
    sys.stdout.flush()
    if not len(recorder):
        raise InputError(*_nothing(recorder))
    return 0


def require_torch() -> str:
    """Return PyTorch's version; raises EnvironmentProblem without one that is new enough."""
    hint = (
        "golden fx needs PyTorch 2.1 or newer (for the CPU): pip install torch, or name the "
        "Python that has it with `python=PATH`"
    )
    try:
        import torch
    except ImportError as error:
        raise EnvironmentProblem(
            "%s cannot import torch: %s" % (sys.executable, error), hint=hint
        ) from error
    version = str(torch.__version__)
    if (
        tuple(
            int("".join(filter(str.isdigit, part))) for part in version.split("+")[0].split(".")[:2]
        )
        < OLDEST
    ):
        raise EnvironmentProblem("%s has PyTorch %s" % (sys.executable, version), hint=hint)
    return version


def _nothing(recorder: Recorder) -> Tuple[str, str]:
    if recorder.calls:
        return (
            "none of the %d calls of compiled graphs was kept" % recorder.calls,
            "`tokens` counts the calls of each graph from 0",
        )
    if recorder.graphs:
        return (
            "the script compiles %d graphs and calls none" % recorder.graphs,
            "call the compiled model once in the script",
        )
    return (
        "the script compiles nothing",
        "its model must go through torch.compile (for the NPU: with torchair's backend), and "
        "be called, in the script's own process",
    )
