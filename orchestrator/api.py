"""The public functions that compare whole networks.

:mod:`goldwatch` names them, docs/reference/python.md shows them.
"""

from __future__ import annotations

import contextlib
import numbers
import operator
import os
import shutil
import sys
import tempfile
import weakref
from dataclasses import replace
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generator,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
)

from .base.errors import GoldwatchError, Interrupted, OptionsError, UsageError
from .base.interrupts import caused_by_interrupt, interrupt_state, uninterrupted
from .base.option_fields import MOST_JOBS
from .base.pool import default_jobs
from .base.safe_reading import AnyPath, path_text
from .judging.diagnosis.compare_arrays import LimitsLike, as_limits
from .metrics.row import AGREEMENT_METRICS, METRICS, Row
from .model.graphs_of_run import graphs_beside
from .run import compare_all
from .run.comparison_options import ComparisonOptions, find_user_code
from .run.progress import Progress
from .run.result import RunResult, stored_result
from .store.store_reader import StoreReader

if TYPE_CHECKING:
    from typing import SupportsFloat, SupportsIndex

    from .run.watch_options import WatchOptions

__all__ = ["WatchedRows", "compare", "open_result", "watch"]

OnProgress = Callable[[int, int], None]
MetricArguments = Mapping[str, Mapping[str, str]]


def compare(
    target: AnyPath,
    golden: AnyPath,
    *,
    model: Optional[AnyPath] = None,
    out: Optional[AnyPath] = None,
    limits: LimitsLike = None,
    jobs: Optional[SupportsIndex] = None,
    progress: Optional[OnProgress] = None,
    custom: Optional[AnyPath] = None,
    metric_args: Optional[MetricArguments] = None,
    max_elements: SupportsIndex = 0,
    quantisation: Optional[AnyPath] = None,
    unfused: Optional[AnyPath] = None,
    dump_config: Optional[AnyPath] = None,
    exact: bool = False,
    outputs: Optional[Sequence[str]] = None,
    boxes: Sequence[str] = (),
) -> RunResult:
    """Compare the dumps of a network with golden data, or two dumps of one model.

    Parameters
    ----------
    target
        A dump tree or any folder in it, or a single file.
    golden
        Folder of .npy, .pb or .quant files, another dump tree, or a single file.
    model
        The om json (``atc --mode=1``) or GE text graph; of a training a folder of them, one for
        each model_name. None pairs outputs by op name.
    out
        Folder of the store and the result files; a run of the same inputs goes on there. None: a
        temporary one, which lives as long as the result.
    limits
        As for :func:`compare_arrays`.
    jobs
        Processes, 1 to 1024; None takes all processors.
    progress
        Called with (pairs done, pairs known so far) from the first pair on: more become known while
        files are planned.
    custom
        Folder with metrics (``algorithm/alg_NAME.py``) and conversions
        (``format_convert/convert_A_to_B.py``) of your own, whose code is run. The metrics are
        columns behind the others, and may be limited.
    metric_args
        For the names of your metrics their options, ``{"NAME": {"key": "value"}}``.
    max_elements
        Of larger tensors only a sample of at most so many elements (1,024 or more) is compared,
        which the row says; 0: everything is.
    quantisation
        The quantisation json, where the model is quantised and ``golden`` is of the net before;
        without ``model``, ``target`` holds the npy and quant files of the quantised net itself.
    unfused
        The json of a build without fusion, whose dumps ``golden`` holds.
    dump_config
        The acl.json, npu settings (JSON, or the script that holds them) or dump plan that the
        device was given: what it leaves out is not missing. Needs ``model``.
    exact
        ``golden`` is another run of the same model: both are compared bit for bit.
    outputs
        ``target`` holds the outputs of the network as a program wrote them, no dumps:
        ``NAME=FILE[:DTYPE[:SHAPE]]``, or none where they are called as ais_bench or msame do.
    boxes
        Of these outputs those that hold boxes, ``OUTPUT[=COLUMN,…]``.

    Returns
    -------
    RunResult
        Summary, rows, the first divergence, files.

    Raises
    ------
    GoldwatchError
        A folder is missing, nothing is there to compare, ``out`` holds another run, …; the message
        says which.
    KeyboardInterrupt
        Ctrl-C; the rows stored so far are in ``out``, and the same call goes on there.
    """
    processes = _processes(jobs)
    if progress is not None and not callable(progress):
        raise UsageError(
            "progress=%r: expected a function of (pairs done, pairs known)" % (progress,)
        )
    named = None if outputs is None else tuple(outputs)
    more_metrics = () if named is None else AGREEMENT_METRICS
    chosen = {
        **_chosen(limits, custom, metric_args, max_elements, more_metrics),
        **_second(quantisation, unfused),
    }
    chosen.update(_dump_request_option(dump_config), exact=exact, outputs=named, boxes=tuple(boxes))
    options = _options(target, golden, model, out, chosen)
    made: List[str] = []

    def report_progress(row: Progress) -> None:
        if progress is not None and row.pairs:
            progress(row.pairs_done, row.pairs)

    pid = os.getpid()
    try:
        if out is None:
            with uninterrupted():
                options = _in_temporary_folder(options)
                made.append(options.out)
        result = compare_all(options, processes, on_progress=report_progress)
        for folder in made:
            result = _owning(result, folder)
        return result
    except BaseException as error:
        for folder in made:
            _delete(folder, pid)
        if isinstance(error, Interrupted):
            raise _interrupt(error, out is None) from None
        raise


class _Owner:
    """Owner of a temporary folder, alive as long as a result and its copies."""


def _owning(result: RunResult, folder: str) -> RunResult:
    """Return a result whose temporary folder is deleted with it and its copies."""
    owner = _Owner()
    _delete_with(owner, folder)
    return replace(result, owner=owner)


def _delete_with(owner: object, folder: str) -> Callable[[], object]:
    """Delete a temporary folder at the end of an object's life; returns the finalizer, to detach
    it."""
    end = weakref.finalize(owner, _delete, folder, os.getpid())
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:
        # Its children end without Python's own finalizers.
        multiprocessing.Finalize(owner, end, exitpriority=0)
    return end.detach


def _delete(folder: str, pid: int) -> None:
    """Delete a folder, but not in a fork of the process: its copy of a result may end while the
    result goes on.
    """
    if os.getpid() == pid:
        with uninterrupted():
            shutil.rmtree(folder, ignore_errors=True)


def _interrupt(error: Interrupted, temporary: bool) -> KeyboardInterrupt:
    """Return what Ctrl-C raises in Python: ``except Exception`` around a loop of comparisons must
    not go on with the next one.
    """
    return KeyboardInterrupt("interrupted" if temporary else error.message)


def _chosen(
    limits: LimitsLike,
    custom: Optional[AnyPath],
    metric_args: Optional[MetricArguments],
    max_elements: SupportsIndex,
    more: Sequence[str] = (),
) -> Dict[str, Any]:
    """Return the options that compare and watch share beside their folders, by name; ``more``:
    metrics besides the user's own.
    """
    folder, arguments = _path(custom, "custom"), {}
    try:
        arguments = {name: dict(entry) for name, entry in dict(metric_args or {}).items()}
    except (TypeError, ValueError):
        raise UsageError(
            "metric_args=%r: expected {'NAME': {'key': 'value'}}" % (metric_args,)
        ) from None
    elements = _whole("max_elements", max_elements, "a number of elements, 0 for all")
    user_metrics = (*find_user_code(folder, arguments).names, *more)
    options: Dict[str, Any] = {
        "limits": as_limits(limits, user_metrics),
        "metrics": (*METRICS, *user_metrics),
        "max_elements": elements,
    }
    return {**options, "custom": folder, "metric_arguments": arguments}


def _second(quantisation: Optional[AnyPath], unfused: Optional[AnyPath]) -> Dict[str, Any]:
    """Return the options that name a second model file, by name."""
    return {
        "quantisation": _path(quantisation, "the quantisation json"),
        "unfused": _path(unfused, "the json of the unfused build"),
    }


def _dump_request_option(path: Optional[AnyPath]) -> Dict[str, Any]:
    """Return the option with the device's dump configuration, by name."""
    if path is None:
        return {}
    from .config.ops_of_dump_plan import read_requested_plan

    return {"plan": read_requested_plan(path_text(path, "what was asked for"))}


def _processes(jobs: Optional[SupportsIndex]) -> int:
    if jobs is None:
        return default_jobs()
    expected = "a number of processes, 1 to %d (None takes all processors)" % MOST_JOBS
    number = _whole("jobs", jobs, expected)
    if not 1 <= number <= MOST_JOBS:
        raise UsageError("jobs=%r: expected %s" % (jobs, expected))
    return number


def _whole(name: str, value: SupportsIndex, expected: str) -> int:
    """Return a whole number, numpy's too; raises UsageError for what is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise UsageError("%s=%r: expected %s" % (name, value, expected))
    return operator.index(value)


def _out(path: AnyPath) -> str:
    """Return the folder of a result whole: it is read also when the current folder is another
    one.
    """
    text = path_text(path, "OUT")
    return os.path.abspath(text) if text else text


def _path(path: Optional[AnyPath], what: str) -> Optional[str]:
    return None if path is None else path_text(path, what)


def _options(
    target: AnyPath,
    golden: AnyPath,
    model: Optional[AnyPath],
    out: Optional[AnyPath],
    chosen: Dict[str, Any],
) -> ComparisonOptions:
    """Return the options; their folder is empty without ``out``."""
    folder = "" if out is None else _out(out)
    if out is not None and not folder:
        raise UsageError("OUT: '' names no folder", hint="out=None is a temporary one")
    target = path_text(target, "TARGET")
    file = _path(model, "the model")
    if file is None and chosen.get("quantisation") is None:
        file = graphs_beside(target)
    with _options_named_as_here():
        return ComparisonOptions(target, path_text(golden, "GOLDEN"), folder, file, **chosen)


@contextlib.contextmanager
def _options_named_as_here() -> Iterator[None]:
    try:
        yield
    except OptionsError as error:
        raise error.spelled({"until_idle_s": "until_idle", "plan": "dump_config"}) from None


def _in_temporary_folder(options: ComparisonOptions) -> ComparisonOptions:
    """Return the options with a new temporary folder, deleted in any case; call it after all
    checks."""
    return replace(options, out=tempfile.mkdtemp(prefix="goldwatch-"))


def watch(
    target: AnyPath,
    golden: AnyPath,
    *,
    model: Optional[AnyPath] = None,
    out: Optional[AnyPath] = None,
    limits: LimitsLike = None,
    jobs: Optional[SupportsIndex] = None,
    until_idle: Optional[SupportsFloat] = None,
    pid: Optional[SupportsIndex] = None,
    expect_all: bool = False,
    stop_on_divergence: bool = False,
    custom: Optional[AnyPath] = None,
    metric_args: Optional[MetricArguments] = None,
    max_elements: SupportsIndex = 0,
    quantisation: Optional[AnyPath] = None,
    unfused: Optional[AnyPath] = None,
    dump_config: Optional[AnyPath] = None,
) -> WatchedRows:
    """Compare dumps with golden data as they arrive: a context manager that yields rows.

    ::

        with goldwatch.watch("dump", "golden", model="model.json", until_idle=60) as rows:
            for row in rows:
                print(row.tensor, row.verdict)
        print(rows.result.summary.verdict)

    Parameters
    ----------
    target
        A dump tree; it may be missing so far.
    model, out, limits, jobs, custom, metric_args, max_elements, quantisation, unfused,
    dump_config
        As for :func:`compare`; ``quantisation`` needs ``model``.
    until_idle
        End when nothing has changed for so many seconds, counted from the first dump on; None:
        never by itself.
    pid
        End when this process, which makes the dumps, has ended.
    expect_all
        End when every op of the model that can dump has come.
    stop_on_divergence
        End at the first failing row.

    Raises
    ------
    GoldwatchError
        As :func:`compare`; and where ``out`` holds a run that has ended and nothing would end this
        one: no row may ever come.
    """
    from .run.watch_options import WatchOptions

    processes = _processes(jobs)
    if until_idle is not None and (
        isinstance(until_idle, bool) or not isinstance(until_idle, numbers.Real)
    ):
        raise UsageError("until_idle=%r: expected seconds, more than 0" % (until_idle,))
    idle_s = None if until_idle is None else float(until_idle)
    process = None if pid is None else _whole("pid", pid, "the number of a process")
    for name, value in (("expect_all", expect_all), ("stop_on_divergence", stop_on_divergence)):
        if not isinstance(value, bool):
            raise UsageError("%s=%r: expected True or False" % (name, value))
    chosen = WatchOptions(
        until_idle_s=idle_s,
        pid=process,
        expect_all=expect_all,
        stop_on_divergence=stop_on_divergence,
    )
    shared = {
        **_chosen(limits, custom, metric_args, max_elements),
        **_second(quantisation, unfused),
    }
    shared.update(_dump_request_option(dump_config))
    options = _options(target, golden, model, out, shared)
    with _options_named_as_here():
        chosen.check(options)
    if (
        out is not None
        and until_idle is None
        and pid is None
        and not expect_all
        and _has_ended(options.out)
    ):
        hint = (
            "open_result reads it; to go on, tell when the watch ends: until_idle, pid or "
            "expect_all"
        )
        raise UsageError(
            "%s holds a run that has ended, and nothing would end this watch" % options.out,
            hint=hint,
        )
    return WatchedRows(options, chosen, processes, out is None)


def _has_ended(out: str) -> bool:
    """Return whether a folder holds a run with a summary; what is wrong with its store is reported
    when it is gone on with.
    """
    try:
        with StoreReader(out) as store:
            return store.fact("summary") is not None
    except GoldwatchError:
        return False


class WatchedRows:
    """The rows of a watch, as they are stored; made by :func:`watch`.

    Each row is yielded once, however many loops iterate over it. Leaving the ``with`` block stops
    the watch; :attr:`result` is available after the rows were iterated to their end.
    """

    def __init__(
        self, options: ComparisonOptions, chosen: WatchOptions, jobs: int, temporary: bool
    ) -> None:
        # Here, so that what watches nothing does not load watchdog.
        from .run.watch import Watch

        self._result: Optional[RunResult] = None
        self._left = False
        self._rows: Optional[Generator[Row, None, None]] = None
        self._keep: Optional[Callable[[], object]] = None
        with uninterrupted():
            if temporary:
                options = _in_temporary_folder(options)
                self._keep = _delete_with(self, options.out)
        self._watch = Watch(options, chosen, jobs)

    def __enter__(self) -> WatchedRows:
        if self._rows is not None:
            raise UsageError("this watch has run before", hint="call goldwatch.watch once more")
        rows = self._follow()
        try:
            self._watch.__enter__()
        except Interrupted as error:
            raise _interrupt(error, self._keep is not None) from None
        # Nothing stands behind where Ctrl-C could raise: the block would not be left, and the watch
        # go on.
        self._rows = rows
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._left = True
        with uninterrupted():
            try:
                if self._rows is not None:
                    self._rows.close()
            finally:
                # What the block itself made of an interrupt is its own error.
                interrupt = error if isinstance(error, KeyboardInterrupt) else None
                try:
                    self._watch.__exit__(kind, interrupt, trace)
                except Interrupted as interrupted:
                    raise _interrupt(interrupted, self._keep is not None) from None

    @property
    def result(self) -> RunResult:
        """The result of the watch.

        Raises
        ------
        UsageError
            The rows have not been iterated to their end.
        """
        if self._result is None:
            if self._left:
                hint = (
                    "with out=, open_result(out) reads the rows stored so far; stop() ends the "
                    "rows early, with a result"
                )
                raise UsageError(
                    "the watch has no result: it was left before the end of its rows", hint=hint
                )
            raise UsageError(
                "the watch has no result before the end of its rows",
                hint="go through all rows first",
            )
        return self._result

    def stop(self) -> None:
        """End the watch: what has come is compared, and the rows then end."""
        self._watch.stop("asked")

    def __iter__(self) -> Iterator[Row]:
        if self._rows is None:
            raise UsageError(
                "the watch has not begun", hint="with goldwatch.watch(...) as rows: ..."
            )
        return self._rows

    def _follow(self) -> Generator[Row, None, None]:
        with contextlib.closing(self._walk()) as rows:
            yield from iter(lambda: _next(rows), None)

    def _walk(self) -> Generator[Row, None, None]:
        with contextlib.closing(self._watch.turns()) as turns:
            for turn in turns:
                for row, _ in turn.rows:
                    yield row
        self._result = self._watch.finish()
        if self._keep is not None:
            self._result = _owning(self._result, self._result.options.out)
            self._keep()


def _next(rows: Iterator[Row]) -> Optional[Row]:
    """Return the next row, None behind the last; raises KeyboardInterrupt also where an extension
    module made another error of it.
    """
    entered = interrupt_state()
    try:
        return next(rows, None)
    except Exception as error:
        if caused_by_interrupt(error, entered):
            raise KeyboardInterrupt from None
        raise


def open_result(path: AnyPath) -> RunResult:
    """Open the result of an earlier run, or of one that goes on or was stopped: then it has not
    ``finished``, and is of the rows so far.

    Parameters
    ----------
    path
        The folder that compare, watch or run wrote to.

    Returns
    -------
    RunResult
        Of a run that has ended what it came to itself. Of another the verdict is ``fail`` or
        ``incomplete``, never ``pass``.

    Raises
    ------
    MissingPath
        There is no store.
    FormatError
        It is damaged, or not goldwatch's.
    """
    return stored_result(_out(path))
