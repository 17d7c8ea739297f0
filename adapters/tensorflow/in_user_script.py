"""Golden data from within a user's own script: ``dump_session`` around ``session.run``,
``DumpHook`` for Estimators.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence

from tensorflow.python.client import session as session_module
from tensorflow.python.training import monitored_session as monitored_module
from tensorflow.python.training import session_run_hook

from ...base.errors import InputError, UsageError
from ...base.safe_reading import sha256_of_file
from ..golden_folder import refuse_golden
from .golden_summary import xla_note
from .recorder import Recorder, Refused, Ticket, feed_names, watch_options
from .session_patches import activate, deactivate, patch_monitored, patch_session
from .unwatched_ops import unwatched


class DumpResult:
    """What was saved; filled while the block or the hook runs.

    Attributes
    ----------
    done
        One entry per golden folder: ``run``, ``out``, the counts ``dumps``, ``saved``, ``skipped``,
        ``refused``, and ``notes``: what else is to be known of it, as in the manifest.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def done(self) -> List[Dict[str, Any]]:
        """Return the entries so far."""
        return list(self._recorder.done)


def _run_folders(
    out: str, run_index: int, steps: Optional[Sequence[int]], force: bool
) -> Dict[int, str]:
    numbers = [run_index] if steps is None else list(steps)
    if not numbers or any(number < 0 for number in numbers):
        raise UsageError("run numbers are not negative, and there is at least one: %r" % (numbers,))
    out = os.path.abspath(out)
    folders = (
        {run_index: out}
        if steps is None
        else {int(step): os.path.join(out, str(int(step))) for step in numbers}
    )
    for folder in folders.values():
        refuse_golden(folder, force)
    return folders


def _script_hash() -> Dict[str, Any]:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return {"script": sha256_of_file(script)} if script and os.path.isfile(script) else {}


@contextlib.contextmanager
def dump_session(
    sess: Any,
    out: str,
    run_index: int = 0,
    steps: Optional[Sequence[int]] = None,
    force: bool = False,
) -> Iterator[DumpResult]:
    """Save the tensors of one of the runs that ``sess`` makes inside the ``with`` block.

    The session's own optimiser settings stay; build it with ``golden_config()`` so that grappler
    fuses no op away (the manifest tells). Ops in a jit scope of the graph are compiled by XLA even
    then and missing: that is warned of.

    Parameters
    ----------
    sess
        A ``tf.Session`` or a ``MonitoredSession``.
    out
        The golden folder.
    run_index
        Which run of the block, from 0; initialisers do not count.
    steps
        Several runs instead, each into ``out/{step}``.
    force
        Replace golden files that are already there.

    Yields
    ------
    DumpResult
        What was saved so far.

    Raises
    ------
    InputError
        A chosen run was not reached or raised, or its dump could not be converted.
    UsageError
        ``out`` holds golden files already.
    """
    patch_session(session_module, False)
    patch_monitored(monitored_module)
    # MonitoredSession wraps the session (`_tf_sess`), and so do tfdbg's wrappers (`_sess`).
    raw = sess._tf_sess() if hasattr(sess, "_tf_sess") else getattr(sess, "_sess", sess)
    recorder = Recorder(
        _run_folders(out, run_index, steps, force), force=force, source=_script_hash(), session=raw
    )
    activate(recorder)
    try:
        yield DumpResult(recorder)
    except Refused:
        _raise_own(recorder)
    finally:
        deactivate(recorder)
    _raise_own(recorder)
    _warn_of_clusters(recorder.done)
    _raise_missing(recorder)


def _raise_own(recorder: Recorder) -> None:
    if recorder.error is not None:
        raise recorder.error


def _warn_of_clusters(done: List[Dict[str, Any]]) -> None:
    """Warn where ops are missing because XLA compiled them: the numbers look whole and are not."""
    for entry in done:
        if entry["xla"]:
            warnings.warn("%s: %s" % (entry["out"], xla_note(entry)), stacklevel=4)


def _raise_missing(recorder: Recorder) -> None:
    raised = dict(recorder.raised)
    for number in recorder.missing():
        if number in raised:
            raise InputError("run %d raised %s: its dump is not used" % (number, raised[number]))
        raise InputError("run %d was never reached: there were %d runs" % (number, recorder.count))


class DumpHook(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """Saves the tensors of one step of an Estimator or a MonitoredSession:
    ``estimator.predict(input_fn, hooks=[DumpHook(out)])``.

    Give the Estimator ``RunConfig(session_config=golden_config())`` so that grappler fuses no op
    away (the manifest tells).

    Parameters
    ----------
    out
        The golden folder.
    run_index
        Which step, from 0.
    steps
        Several steps instead, each into ``out/{step}``.
    force
        Replace golden files that are already there.

    Raises
    ------
    UsageError
        ``out`` holds golden files already.
    """

    def __init__(
        self,
        out: str,
        run_index: int = 0,
        steps: Optional[Sequence[int]] = None,
        force: bool = False,
    ) -> None:
        self._recorder = Recorder(
            _run_folders(out, run_index, steps, force), force=force, source=_script_hash()
        )
        self._ticket: Optional[Ticket] = None
        self.result = DumpResult(self._recorder)

    def before_run(self, run_context: Any) -> Any:
        """Ask for the dump when this step is a chosen one."""
        self._forget()
        session = run_context.session
        fetches = run_context.original_args.fetches
        try:
            self._ticket = self._recorder.begin(
                session.graph, fetches, "Estimator", True, getattr(session, "_config", None)
            )
        except Refused:
            _raise_own(self._recorder)
        if self._ticket is None:
            return None
        feed_dict = run_context.original_args.feed_dict
        feeds = feed_names(feed_dict)
        missing = unwatched(session.graph, fetches, feed_dict, self._ticket.root)
        self._ticket.unwatched = missing
        options = watch_options(None, session.graph, self._ticket.root, feeds)
        return session_run_hook.SessionRunArgs(missing.tensors or None, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Convert the dump of a step that succeeded."""
        if self._ticket is not None:
            ticket, self._ticket = self._ticket, None
            ticket.unwatched.values = list(run_values.results or [])
            self._recorder.finish(ticket)
            _raise_own(self._recorder)
            _warn_of_clusters(self._recorder.done[-1:])

    def end(self, session: Any) -> None:
        """Check that every chosen step was saved."""
        self._forget()
        _raise_missing(self._recorder)

    def _forget(self) -> None:
        """Drop a step that raised: its after_run was never called."""
        if self._ticket is not None:
            ticket, self._ticket = self._ticket, None
            self._recorder.give_up(
                ticket, RuntimeError("the step ended early (end of the input, or an error)")
            )
