"""`Recorder`: counts the user's own runs, has the chosen ones dumped by TensorFlow and turns the
dumps into golden files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from dataclasses import field
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from ...base.errors import GoldwatchError, InputError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from .debug_run_to_golden import convert
from .golden_summary import GRAPPLER_OFF, GRAPPLER_ON, add_notes
from .unwatched_ops import Unwatched, explicit_watches, long_tensors
from .user_runs import fetch_names, trains

TF2_TRAINING = (
    "TensorFlow %s builds the gradient graph otherwise than 1.15: golden data of a training step "
    "would have other tensors"
)


class Refused(BaseException):
    """Ends a script whose chosen run cannot give golden data; not an Exception, so that no ``except
    Exception`` hides it.
    """


@dataclass
class Ticket:
    """One chosen run while it is being dumped.

    Attributes
    ----------
    number
        Which of the user's own runs.
    root
        The folder of TensorFlow's debug dump.
    unwatched
        What must be fetched with the run because the debugger cannot write it.
    """

    number: int
    out: str
    root: str
    extra: Dict[str, Any] = field(default_factory=dict)
    unwatched: Unwatched = field(default_factory=Unwatched)


class Recorder:
    """Chooses runs and converts their dumps.

    Parameters
    ----------
    folders
        ``{run number: golden folder}``; numbers count the user's own runs from 0.
    force
        Replace golden files that are there already.
    source
        SHA-256 sums by role, for the manifests.
    monitored_only
        Count only the steps of Estimators and MonitoredSessions.
    session
        Watch only this session (None: all).
    on_change
        Called with this recorder whenever a run was converted or given up.
    provisional
        Leave it to a parent process to call the golden folders complete.
    listing
        Keep fetches and feeds of every run in :attr:`listed`.
    on_foreign
        Called when a process that the script forked makes a run: nothing of it is seen here.

    Attributes
    ----------
    count
        The user's own runs so far.
    listed
        ``first``, ``last``, ``kind``, ``fetches`` and ``feeds`` of the runs; like ones that follow
        one another are one entry.
    partial_runs
        Calls of ``partial_run``, which cannot be watched and do not count.
    done
        What :func:`convert` returned for each chosen run, with ``run``.
    raised
        ``(number, error)`` of chosen runs that raised: their dumps are not used.
    error
        The first error of our own.
    """

    def __init__(
        self,
        folders: Mapping[int, str],
        force: bool = False,
        source: Optional[Dict[str, Any]] = None,
        extra: Optional[Dict[str, Any]] = None,
        monitored_only: bool = False,
        session: Any = None,
        scratch: Optional[str] = None,
        on_change: Optional[Callable[[Recorder], None]] = None,
        provisional: bool = False,
        listing: bool = False,
        on_foreign: Callable[[], None] = lambda: None,
    ) -> None:
        self.folders = dict(folders)
        self.force = force
        self.source = source or {}
        self.extra = extra or {}
        self.monitored_only = monitored_only
        self.session = session
        self.scratch = scratch
        self.on_change = on_change
        self.provisional = provisional
        self.listing = listing
        self.on_foreign = on_foreign
        self.listed: List[Dict[str, Any]] = []
        self.count = 0
        self.partial_runs = 0
        self.done: List[Dict[str, Any]] = []
        self.raised: List[Tuple[int, str]] = []
        self.error: Optional[GoldwatchError] = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def begin(
        self,
        graph: Any,
        fetches: Any,
        kind: str,
        monitored: bool,
        config: Any = None,
        feeds: Optional[Iterable[str]] = None,
    ) -> Optional[Ticket]:
        """Count one of the user's runs; return a ticket when it is a chosen one.

        Parameters
        ----------
        feeds
            The names of the tensors that are fed; None: not known.

        Raises
        ------
        Refused
            The run cannot give golden data under this TensorFlow.
        """
        if os.getpid() != self._pid:
            # A process that the script forked counts for itself; it must not write into the same
            # folders.
            self.on_foreign()
            return None
        if self.monitored_only and not monitored:
            return None
        with self._lock:
            number = self.count
            self.count += 1
            if self.listing:
                self._list(number, kind, fetch_names(graph, fetches), sorted(feeds or ()))
        if number not in self.folders or self.error is not None:
            return None
        version = tensorflow_version()
        if not version.startswith("1.") and trains(graph, fetches):
            message = "run %d is a training step: %s" % (number, TF2_TRAINING % version)
            hint = "use TensorFlow 1.15 (Python 3.7), or dump an inference run"
            self.fail(InputError(message, hint=hint))
            raise Refused()
        root = tempfile.mkdtemp(prefix="tfdbg-", dir=self.scratch)
        extra = dict(
            self.extra, run={"index": number, "kind": kind}, optimiser=optimiser_state(config)
        )
        return Ticket(number, self.folders[number], root, extra)

    def _list(self, number: int, kind: str, fetches: List[str], feeds: List[str]) -> None:
        entry = {"first": number, "last": number, "kind": kind, "fetches": fetches, "feeds": feeds}
        if self.listed and all(
            self.listed[-1][name] == entry[name] for name in ("kind", "fetches", "feeds")
        ):
            self.listed[-1]["last"] = number
        else:
            self.listed.append(entry)

    def finish(self, ticket: Ticket) -> None:
        """Convert the dump of a run that succeeded; an error of ours is kept in :attr:`error`, so
        that the script is not disturbed.
        """
        try:
            version = tensorflow_version()
            done = convert(
                ticket.root,
                ticket.out,
                version,
                self.source,
                self.force,
                ticket.extra,
                ticket.unwatched,
                self.provisional,
            )
        except GoldwatchError as error:
            self.fail(error)
        except OSError as error:
            self.fail(
                InputError(
                    "run %d: %s: %s"
                    % (ticket.number, error.filename or ticket.out, error.strerror or error)
                )
            )
        else:
            done.update(run=ticket.number, optimiser=ticket.extra["optimiser"])
            add_notes(done)
            self.done.append(done)
            self._changed()
        finally:
            shutil.rmtree(ticket.root, ignore_errors=True)

    def give_up(self, ticket: Ticket, error: BaseException) -> None:
        """Forget the dump of a run that raised."""
        shutil.rmtree(ticket.root, ignore_errors=True)
        text = (str(error).splitlines() or [""])[0][:300]
        self.raised.append((ticket.number, printable("%s: %s" % (type(error).__name__, text))))
        self._changed()

    def fail(self, error: GoldwatchError) -> None:
        """Keep the first error of our own."""
        if self.error is None:
            self.error = error
            self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change(self)

    def missing(self) -> List[int]:
        """Return the chosen runs that gave no golden data."""
        done = {entry["run"] for entry in self.done}
        return sorted(number for number in self.folders if number not in done)


def tensorflow_version() -> str:
    """Return the version of the TensorFlow that is imported."""
    from tensorflow.python.framework import versions

    return str(versions.VERSION)


def watch_options(
    options: Any, graph: Any, root: str, feeds: Optional[Iterable[str]] = None
) -> Any:
    """Return a copy of ``options`` (RunOptions or None) that has every tensor of ``graph`` dumped
    into ``root``.

    Parameters
    ----------
    feeds
        The names of the tensors that are fed; None: not known.
    """
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.debug.lib import debug_utils

    watched = config_pb2.RunOptions()
    if options is not None:
        watched.CopyFrom(options)
    url = "file://" + os.path.abspath(root)
    if not long_tensors(graph, root):
        debug_utils.watch_graph(
            watched,
            graph,
            debug_ops=["DebugIdentity"],
            debug_urls=[url],
            tolerate_debug_op_creation_failures=True,
            reset_disk_byte_usage=True,
        )
        return watched
    for node, slot in explicit_watches(graph, root, feeds):
        debug_utils.add_debug_tensor_watch(
            watched, node, slot, ["DebugIdentity"], [url], tolerate_debug_op_creation_failures=True
        )
    watched.debug_options.reset_disk_byte_usage = True
    return watched


def feed_names(feed_dict: Any) -> List[str]:
    """Return the names of the tensors that a ``feed_dict`` (or None) feeds, as far as its keys are
    tensors or names.
    """
    names: List[str] = []
    for key in feed_dict or {}:
        for part in key if isinstance(key, (list, tuple)) else [key]:
            name = part if isinstance(part, str) else getattr(part, "name", None)
            if name:
                names.append(name if ":" in name else name + ":0")
    return names


def golden_config(config: Any = None) -> Any:
    """Return a copy of a ConfigProto (or a new one) with grappler, graph optimisation and XLA's
    global jit off: each op runs as itself.
    """
    from tensorflow.core.protobuf import config_pb2

    changed = config_pb2.ConfigProto()
    if config is not None:
        changed.CopyFrom(config)
    changed.graph_options.rewrite_options.disable_meta_optimizer = True
    changed.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    changed.graph_options.optimizer_options.global_jit_level = config_pb2.OptimizerOptions.OFF
    return changed


def optimiser_state(config: Any) -> str:
    """Return in words whether a session of this ConfigProto (or None) runs the graph unchanged."""
    if config is None or not hasattr(config, "graph_options"):
        return GRAPPLER_ON
    off = config.graph_options.rewrite_options.disable_meta_optimizer
    options = config.graph_options.optimizer_options
    return (
        GRAPPLER_OFF
        if off and options.opt_level == -1 and options.global_jit_level <= 0
        else GRAPPLER_ON
    )
