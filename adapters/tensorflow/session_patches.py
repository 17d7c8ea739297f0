"""Puts a `Recorder` between a script and TensorFlow's sessions, when the script itself imports
TensorFlow and not before.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, List

from .after_import import Action
from .recorder import Recorder, Ticket, feed_names, golden_config, watch_options
from .unwatched_ops import unwatched
from .user_runs import (
    asks_for_the_step,
    calling_module,
    made_by_keras,
    on_users_behalf,
    only_sets_up,
)

SESSION = "tensorflow.python.client.session"
MONITORED = "tensorflow.python.training.monitored_session"
LOCAL_CLI = "tensorflow.python.debug.wrappers.local_cli_wrapper"
CLI_HOOKS = "tensorflow.python.debug.wrappers.hooks"
C_API = "tensorflow.python.framework.c_api_util"

# What each of TensorFlow's classes over its C API frees when it goes.
_FREED = {
    "ScopedTFStatus": "status", "ScopedTFGraph": "graph",
    "ScopedTFImportGraphDefOptions": "options",
    "ScopedTFImportGraphDefResults": "results", "ScopedTFFunction": "func",
    "ApiDefMap": "_api_def_map",
}  # fmt: skip
_active: List[Recorder] = []
_scope = threading.local()
_patched: Dict[int, bool] = {}


def activate(recorder: Recorder) -> None:
    """Let ``recorder`` see the runs of sessions; the newest one that accepts a session gets its
    runs.
    """
    _active.append(recorder)


def deactivate(recorder: Recorder) -> None:
    """End what :func:`activate` began."""
    if recorder in _active:
        _active.remove(recorder)


def session_actions(optimiser_off: bool) -> Dict[str, Action]:
    """Return the patches for :func:`~.after_import.after_import`.

    Parameters
    ----------
    optimiser_off
        Switch grappler and graph optimisation off in every session that is built.
    """
    return {
        SESSION: lambda module: patch_session(module, optimiser_off),
        MONITORED: patch_monitored,
        LOCAL_CLI: _unwrap_local_cli,
        CLI_HOOKS: _unwrap_cli_hook,
    }


def forget_unmade(module: Any) -> None:
    """Let what Ctrl-C kept from being made free nothing: TensorFlow 1 tells with a traceback that
    it has no such attribute.
    """
    for name, attribute in _FREED.items():
        made = getattr(module, name, None)
        if made is not None and not hasattr(made, attribute):
            setattr(made, attribute, None)


def _begin(session: Any, fetches: Any, kind: str, caller: str, feeds: Any) -> Any:
    """Return ``(recorder, ticket)`` when this run is a chosen one, else None.

    Parameters
    ----------
    feeds
        A feed_dict, or a list of what is fed.
    """
    setting_up: int = getattr(_scope, "set_up", 0)
    recorder = next(
        (r for r in reversed(_active) if r.session is None or r.session is session), None
    )
    if recorder is None or setting_up or not on_users_behalf(caller):
        return None
    monitored = caller.endswith("training.monitored_session")
    in_step: int = getattr(_scope, "step", 0)
    if in_step and not monitored:
        # A hook's own run inside a step.
        return None
    if only_sets_up(session.graph, fetches) or asks_for_the_step(session.graph, fetches, caller):
        return None
    config = getattr(session, "_config", None)
    ticket = recorder.begin(
        session.graph,
        fetches,
        "MonitoredSession" if monitored else kind,
        monitored,
        config,
        feed_names(feeds),
    )
    return None if ticket is None else (recorder, ticket)


def _watched(recorder: Recorder, ticket: Ticket, run: Callable[[], Any]) -> Any:
    try:
        result = run()
    except BaseException as error:
        recorder.give_up(ticket, error)
        raise
    recorder.finish(ticket)
    return result


def _run_watched(
    begun: Any,
    run: Any,
    session: Any,
    fetches: Any,
    feed_dict: Any,
    options: Any,
    run_metadata: Any,
) -> Any:
    """Make a chosen run with ``run``, the unpatched ``BaseSession.run``."""
    recorder, ticket = begun
    feeds = feed_names(feed_dict)
    ticket.unwatched = unwatched(session.graph, fetches, feed_dict, ticket.root)
    watched = watch_options(options, session.graph, ticket.root, feeds)

    def call() -> Any:
        if not ticket.unwatched.tensors:
            return run(session, fetches, feed_dict, watched, run_metadata)
        result, ticket.unwatched.values = run(
            session, [fetches, ticket.unwatched.tensors], feed_dict, watched, run_metadata
        )
        return result

    return _watched(recorder, ticket, call)


def patch_session(module: Any, optimiser_off: bool) -> None:
    """Patch ``BaseSession``: its construction (optimiser), ``run``, ``make_callable`` and the
    callables of Keras.
    """
    base = module.BaseSession
    if optimiser_off and not _patched.get(id(base.__init__)):
        _patch_init(base)
    if _patched.get(id(base.run)):
        return
    _patch_run(base)
    _patch_make_callable(base)
    _patch_callable(base)
    _patch_partial_run(base)


def _patch_partial_run(base: Any) -> None:
    original = base.partial_run

    def partial_run(self: Any, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
        for recorder in _active:
            recorder.partial_runs += 1
        return original(self, handle, fetches, feed_dict)

    _install(base, "partial_run", partial_run, original)


def _patch_init(base: Any) -> None:
    original = base.__init__

    def __init__(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        # What is no ConfigProto TensorFlow refuses, in its own words.
        if config is None or hasattr(config, "graph_options"):
            config = golden_config(config)
        original(self, target, graph, config)

    _install(base, "__init__", __init__, original)


def _patch_run(base: Any) -> None:
    original = base.run

    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        begun = _begin(self, fetches, "session.run", calling_module(), feed_dict)
        if begun is None:
            return original(self, fetches, feed_dict, options, run_metadata)
        return _run_watched(begun, original, self, fetches, feed_dict, options, run_metadata)

    _install(base, "run", run, original)


def _patch_make_callable(base: Any) -> None:
    original = base.make_callable

    def make_callable(
        self: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        plain = original(self, fetches, feed_list, accept_options)
        caller = calling_module()

        def call(*values: Any, **options: Any) -> Any:
            begun = _begin(self, fetches, "callable", caller, feed_list)
            if begun is None:
                # With feeds the plain one calls run, which must not count again.
                with _inside("set_up"):
                    return plain(*values, **options)
            feeds = dict(zip(feed_list or [], values))
            names = ("options", "run_metadata")
            run_options = dict(
                zip(names, values[len(feeds) :] if accept_options else ()), **options
            )
            run = _original_of(base.run)
            return _run_watched(
                begun,
                run,
                self,
                fetches,
                feeds or None,
                run_options.get("options"),
                run_options.get("run_metadata"),
            )

        return call

    _install(base, "make_callable", make_callable, original)


def _patch_callable(base: Any) -> None:
    original = base._make_callable_from_options

    def _make_callable_from_options(self: Any, callable_options: Any) -> Any:
        plain = original(self, callable_options)
        return _Callable(self, plain, callable_options, original, calling_module())

    _install(base, "_make_callable_from_options", _make_callable_from_options, original)


class _Callable:
    """Stands for a session's callable (Keras runs its functions so); a chosen call goes through a
    twin that dumps.
    """

    def __init__(self, session: Any, plain: Any, options: Any, make: Any, caller: str) -> None:
        self._session = session
        self._plain = plain
        self._options = options
        self._make = make
        self._caller = "" if made_by_keras(caller) else caller

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        fetches = list(self._options.fetch) + list(self._options.target)
        begun = _begin(self._session, fetches, "callable", self._caller, list(self._options.feed))
        if begun is None:
            return self._plain(*values, **keywords)
        recorder, ticket = begun
        graph, feeds = self._session.graph, list(self._options.feed)
        ticket.unwatched = unwatched(graph, fetches, dict(zip(feeds, values)), ticket.root)
        options = type(self._options)()
        options.CopyFrom(self._options)
        options.fetch.extend(tensor.name for tensor in ticket.unwatched.tensors)
        options.run_options.CopyFrom(
            watch_options(self._options.run_options, graph, ticket.root, feeds)
        )
        twin = self._make(self._session, options)
        count = len(self._options.fetch)

        def call() -> Any:
            results = twin(*values, **keywords)
            ticket.unwatched.values = list(results[count:])
            return results[:count]

        return _watched(recorder, ticket, call)


def patch_monitored(module: Any) -> None:
    """Tell set-up and hooks of MonitoredSessions from the steps themselves."""
    monitored = module._MonitoredSession
    # A session that was lost is built again in the middle of a step.
    _in_scope(monitored._CoordinatedSessionCreator, "create_session", "set_up")
    _in_scope(monitored, "__init__", "set_up")
    _in_scope(monitored, "_close_internal", "set_up")
    _in_scope(module._HookedSession, "run", "step")


@contextlib.contextmanager
def _inside(scope: str) -> Iterator[None]:
    """Mark that this thread is in ``scope``; a step within some set-up is a step
    (train_and_evaluate evaluates while training closes).
    """
    before = {name: getattr(_scope, name, 0) for name in ("set_up", "step")}
    if scope == "step":
        _scope.set_up = 0
    setattr(_scope, scope, before[scope] + 1)
    try:
        yield
    finally:
        vars(_scope).update(before)


def _in_scope(owner: Any, name: str, scope: str) -> None:
    """Wrap a method so that ``_scope.{scope}`` counts the calls of it that this thread is in."""
    original = getattr(owner, name)
    if _patched.get(id(original)):
        return

    def wrapped(*values: Any, **keywords: Any) -> Any:
        with _inside(scope):
            return original(*values, **keywords)

    _install(owner, name, wrapped, original)


def _unwrap_local_cli(module: Any) -> None:
    """Let a session that the script wrapped for the interactive debugger run as if it were not
    wrapped.
    """

    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
        *_: Any,
        **__: Any,
    ) -> Any:
        return self._sess.run(
            fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata
        )

    def make_callable(self: Any, *values: Any, **keywords: Any) -> Any:
        return self._sess.make_callable(*values, **keywords)

    def _make_callable_from_options(self: Any, callable_options: Any) -> Any:
        return self._sess._make_callable_from_options(callable_options)

    for function in (run, make_callable, _make_callable_from_options):
        setattr(module.LocalCLIDebugWrapperSession, function.__name__, function)


def _unwrap_cli_hook(module: Any) -> None:
    module.LocalCLIDebugHook.before_run = lambda self, run_context: None
    module.LocalCLIDebugHook.after_run = lambda self, run_context, run_values: None


def _install(owner: Any, name: str, function: Any, original: Any) -> None:
    function.__name__ = name
    function.__doc__ = getattr(original, "__doc__", None)
    function._goldwatch_original = original
    setattr(owner, name, function)
    _patched[id(function)] = True


def _original_of(function: Any) -> Any:
    return getattr(function, "_goldwatch_original", function)
