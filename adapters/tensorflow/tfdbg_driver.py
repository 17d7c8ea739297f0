"""Drives tfdbg in place of a person, by a command-line interface of its own: it runs the session,
lists the tensors, saves each, checks the files, and lets the script go on to its end.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ...errors import FormatError, GoldwatchError, InputError
from ...filesystem.safe_reading import open_input
from ...naming import printable
from ..golden_writer import GoldenWriter
from .after_import import Action
from .debug_run_to_golden import is_fused, plain_array
from .golden_rules import is_xla
from .golden_summary import add_notes, golden_summary
from .pt_commands import CommandPlan, PrintCommand, plan_commands
from .recorder import Refused, optimiser_state, tensorflow_version, training_refusal
from .session_patches import LOCAL_CLI
from .tfdbg_listing import parse_listing
from .uninitialised_outputs import attributes_of, never_written
from .user_runs import (
    asks_for_the_step,
    calling_module,
    made_by_keras,
    on_users_behalf,
    only_sets_up,
    trains,
)

READLINE = "tensorflow.python.debug.cli.readline_ui"
UI_FACTORY = "tensorflow.python.debug.cli.ui_factory"

RUN, SKIP = "run", "run -n"


class Driver:
    """Answers tfdbg's prompts.

    Parameters
    ----------
    job
        ``folders`` (one run number and its golden folder), ``force``, ``source`` and ``extra``.
    scratch
        An existing folder for tfdbg's files.

    Attributes
    ----------
    count, partial_runs, listed, done, raised, error
        As of :class:`~.recorder.Recorder`.
    """

    def __init__(self, job: Dict[str, Any], scratch: str) -> None:
        self.folders = {int(number): str(out) for number, out in job["folders"].items()}
        self.job = job
        self.scratch = scratch
        self.count = 0
        self.partial_runs = 0
        self.listed: List[Dict[str, Any]] = []
        self.done: List[Dict[str, Any]] = []
        self.raised: List[Tuple[int, str]] = []
        self.error: Optional[GoldwatchError] = None
        self.on_change: Optional[Callable[[Any], None]] = None
        self._number: Optional[int] = None
        self._at_end = False
        self._config: Any = None
        self._graph: Any = None
        self._failure: Optional[BaseException] = None

    def actions(self) -> Dict[str, Action]:
        """Return the patches for :func:`~.after_import.after_import`."""
        return {
            "tensorflow": lambda module: None,
            LOCAL_CLI: self._patch_wrapper,
            READLINE: self._patch_ui,
            UI_FACTORY: _force_readline,
        }

    def _patch_wrapper(self, module: Any) -> None:
        wrapper = module.LocalCLIDebugWrapperSession
        start, end = wrapper.on_run_start, wrapper.on_run_end

        def on_run_start(session: Any, request: Any) -> Any:
            graph = session.graph if hasattr(session, "graph") else session._sess.graph
            is_users = _users_own(graph, request, calling_module())
            self._number = self.count if is_users else None
            self.count += is_users
            self._at_end = False
            self._graph = graph
            self._config = getattr(session._sess, "_config", None)
            if self._number in self.folders:
                self._refuse_training(graph, request.fetches)
            return start(session, request)

        def on_run_end(session: Any, request: Any) -> Any:
            self._at_end = True
            self._failure = request.tf_error
            return end(session, request)

        wrapper.on_run_start = on_run_start
        wrapper.on_run_end = on_run_end

    def _refuse_training(self, graph: Any, fetches: Any) -> None:
        version = tensorflow_version()
        if not version.startswith("1.") and trains(graph, fetches):
            self.error = training_refusal(self._number or 0, version)
            self._changed()
            raise Refused()

    def _patch_ui(self, module: Any) -> None:
        driver = self

        def _ui_loop(ui: Any) -> Any:
            for command in driver.commands():
                token = ui._dispatch_command(command)
                if token is not None:
                    return token
            raise AssertionError("the last command leaves the prompt")

        module.ReadlineUI._ui_loop = _ui_loop
        # What a person would read on the screen is not wanted on the script's own stdout.
        module.ReadlineUI._display_output = lambda ui, screen_output: None
        module.ReadlineUI._init_input = lambda ui: None
        module.print = lambda *_, **__: None

    def commands(self) -> Iterator[str]:
        """Yield what to type at one prompt; the last command leaves it."""
        if not self._at_end:
            yield RUN if self._number in self.folders else SKIP
            return
        if self._number is not None and self._number in self.folders:
            if self._failure is not None:
                text = (str(self._failure).splitlines() or [""])[0][:300]
                self.raised.append(
                    (self._number, printable("%s: %s" % (type(self._failure).__name__, text)))
                )
            else:
                yield from self._save(self._number)
            self._changed()
        yield SKIP

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change(self)

    def _save(self, number: int) -> Iterator[str]:
        folder = tempfile.mkdtemp(prefix="pt-", dir=self.scratch)
        try:
            listing = os.path.join(folder, "tensor_name")
            yield "lt > %s" % listing
            plan = self._plan(listing)
            for position, command in enumerate(plan.commands):
                yield "pt %s -n %d -w %s" % (
                    command.tensor,
                    command.number,
                    os.path.join(folder, "%d.npy" % position),
                )
            self._convert(number, plan, folder)
        except GoldwatchError as error:
            self.error = self.error or error
        except OSError as error:
            self.error = self.error or InputError(
                "%s: %s" % (error.filename or self.folders[number], error.strerror or error)
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _plan(self, listing: str) -> CommandPlan:
        try:
            with open_input(listing) as stream:
                text = stream.read().decode("utf-8")
        except OSError as error:
            raise InputError(
                "tfdbg wrote no listing of the dumped tensors: %s" % (error.strerror or error)
            ) from error
        return plan_commands(parse_listing(text, "tfdbg's listing"), int(time.time() * 1000000))

    def _convert(self, number: int, plan: CommandPlan, folder: str) -> None:
        """Check what each ``pt`` wrote and turn it into golden files."""
        out = self.folders[number]
        refusals: List[Dict[str, str]] = []
        with GoldenWriter(
            out,
            "tensorflow",
            tensorflow_version(),
            self.job["source"],
            self.job["force"],
            provisional=True,
        ) as writer:
            writer.reserve(
                sorted({(command.op, command.output_index) for command in plan.commands})
            )
            for tensor, reason, dumps in plan.left_out:
                for _ in range(dumps):
                    writer.skip(tensor, reason)
            for position, command in enumerate(plan.commands):
                self._write(writer, command, os.path.join(folder, "%d.npy" % position), refusals)
            writer.extra.update(
                self.job["extra"],
                run={"index": number, "kind": "tfdbg"},
                optimiser=optimiser_state(self._config),
            )
            # tfdbg lists the tensors in the order of time; what each op reads it does not tell.
            entry = golden_summary(out, writer, refusals, lambda tensor: tensor["type"] != "Const")
        entry.update(
            run=number,
            drive=True,
            fused=sorted(
                {command.op_type for command in plan.commands if is_fused(command.op_type)}
            ),
            calls=[],
            xla=sorted({command.op for command in plan.commands if is_xla(command.op_type)}),
            optimiser=optimiser_state(self._config),
        )
        add_notes(entry)
        self.done.append(entry)

    def _write(
        self, writer: GoldenWriter, command: PrintCommand, path: str, refusals: List[Dict[str, str]]
    ) -> None:
        with contextlib.suppress(KeyError, ValueError):
            attributes = attributes_of(self._graph.get_operation_by_name(command.op))
            reason = never_written(command.op_type, command.output_index, attributes)
            if reason is not None:
                writer.skip(command.graph_tensor, reason)
                return
        try:
            value = load_saved(path)
        except FormatError as error:
            refusals.append(
                {"tensor": command.graph_tensor, "reason": error.message.replace(path + ": ", "")}
            )
            return
        if value is None:
            writer.skip(
                command.graph_tensor,
                "strings, a handle or not initialised: tfdbg saved a pickled object, not numbers",
            )
            return
        array, source_dtype = plain_array(value)
        extra: Dict[str, Any] = {"type": command.op_type, "dump": command.number}
        if source_dtype is not None:
            extra["source_dtype"] = source_dtype
        if command.tensor != command.graph_tensor:
            extra["fed"] = True
        writer.write(
            command.op, command.output_index, array, timestamp=command.timestamp_us, **extra
        )


def _users_own(graph: Any, request: Any, caller: str) -> bool:
    """Tell whether tfdbg stopped at one of the user's own runs; a callable's request (Keras makes
    such) names no fetches.
    """
    if request.is_callable_runner or request.fetches is None:
        return on_users_behalf(caller) or made_by_keras(caller)
    is_users = on_users_behalf(caller) and not asks_for_the_step(graph, request.fetches, caller)
    return is_users and not only_sets_up(graph, request.fetches)


def load_saved(path: str) -> Optional[np.ndarray]:
    """Return what ``pt -w`` saved, None when that is a pickled object, never unpickling it.

    Raises
    ------
    FormatError
        There is no file, or it is no complete .npy file.
    """
    try:
        with open_input(path) as stream:
            data = stream.read()
    except OSError as error:
        raise FormatError("tfdbg saved nothing", path) from error
    try:
        return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))
    except ValueError as error:
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            return None
        raise FormatError("not a complete .npy file: %s" % error, path) from error
    except EOFError as error:
        raise FormatError("an empty file", path) from error


def _force_readline(module: Any) -> None:
    """Use the readline interface whatever the script requested: no terminal is needed."""
    original = module.get_ui

    def get_ui(ui_type: str, *values: Any, **keywords: Any) -> Any:
        return original("readline", *values, **keywords)

    module.get_ui = get_ui
