"""The public functions that compare whole networks; :mod:`goldwatch` names them, docs/python.md shows them."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Type

from .comparing.row import METRICS, Row
from .engine.listed import compare_folders
from .engine.options import ComparisonOptions
from .engine.result import RunResult, stored_result
from .engine.user_code import find_user_code
from .errors import UsageError
from .processes import default_jobs
from .verdict.arrays import LimitsLike, as_limits
from .watching.options import WatchOptions
from .watching.watch import Watch

__all__ = ["WatchedRows", "compare", "open_result", "watch"]

_MOST_JOBS = 1024

OnProgress = Callable[[int, int], None]
MetricArguments = Mapping[str, Mapping[str, str]]


def compare(
    target: str,
    golden: str,
    *,
    model: Optional[str] = None,
    out: Optional[str] = None,
    limits: LimitsLike = None,
    jobs: Optional[int] = None,
    progress: Optional[OnProgress] = None,
    custom: Optional[str] = None,
    metric_args: Optional[MetricArguments] = None,
    max_elements: int = 0,
) -> RunResult:
    """Compare the dumps of a network with golden data, or two dumps of one model.

    Parameters
    ----------
    target
        A dump tree or any folder in it.
    golden
        Folder of .npy, .pb or .quant files, or another dump tree.
    model
        The om json (``atc --mode=1``) or GE text graph; of a training a folder of them, one for each model_name. None pairs outputs by
        op name.
    out
        Folder of the store and the result files; a run of the same inputs goes on there. None: a temporary one, which lives as long as
        the result.
    limits
        As for :func:`compare_arrays`.
    jobs
        Processes, 1 to 1024; None takes all processors.
    progress
        Called with (pairs done, pairs known so far).
    custom
        Folder with metrics (``algorithm/alg_NAME.py``) and conversions (``format_convert/convert_A_to_B.py``) of your own, whose code is
        run. The metrics are columns behind the others, and may be limited.
    metric_args
        For the names of your metrics their options, ``{"NAME": {"key": "value"}}``.
    max_elements
        Of larger tensors only a sample of at most so many elements (1,024 or more) is compared, which the row says; 0: everything is.

    Returns
    -------
    RunResult
        Summary, rows, the first divergence, files.

    Raises
    ------
    GoldwatchError
        A folder is missing, nothing is there to compare, ``out`` holds another run, …; the message says which.
    """
    processes = _processes(jobs)
    chosen = _chosen(limits, custom, metric_args, max_elements)
    folder, temporary = _out(out)
    options = ComparisonOptions(os.fspath(target), os.fspath(golden), folder, _path(model), **chosen)
    try:
        result = compare_folders(
            options,
            processes,
            on_progress=lambda found: progress(found.pairs_done, found.pairs) if progress is not None else None,
        )
    except BaseException:
        if temporary:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if temporary:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


def _chosen(limits: LimitsLike, custom: Optional[str], metric_args: Optional[MetricArguments], max_elements: int) -> Dict[str, Any]:
    """Return the options that compare and watch share beside their folders, by name."""
    folder, arguments = _path(custom), {name: dict(entry) for name, entry in (metric_args or {}).items()}
    own = find_user_code(folder, arguments).names
    found: Dict[str, Any] = {"limits": as_limits(limits, own), "metrics": (*METRICS, *own), "max_elements": max_elements}
    return {**found, "custom": folder, "metric_arguments": arguments}


def _processes(jobs: Optional[int]) -> int:
    if jobs is None:
        return default_jobs()
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= _MOST_JOBS:
        raise UsageError("jobs=%r: expected a number of processes, 1 to %d" % (jobs, _MOST_JOBS), hint="None takes all processors")
    return jobs


def _path(model: Optional[str]) -> Optional[str]:
    return None if model is None else os.fspath(model)


def _out(out: Optional[str]) -> Tuple[str, bool]:
    return (tempfile.mkdtemp(prefix="goldwatch-"), True) if out is None else (os.fspath(out), False)


def watch(
    target: str,
    golden: str,
    *,
    model: Optional[str] = None,
    out: Optional[str] = None,
    limits: LimitsLike = None,
    jobs: Optional[int] = None,
    until_idle: Optional[float] = None,
    pid: Optional[int] = None,
    expect_all: bool = False,
    stop_on_divergence: bool = False,
    custom: Optional[str] = None,
    metric_args: Optional[MetricArguments] = None,
    max_elements: int = 0,
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
    model, out, limits, jobs, custom, metric_args, max_elements
        As for :func:`compare`.
    until_idle
        End when nothing has changed for so many seconds; None: never by itself.
    pid
        End when this process, which makes the dumps, has ended.
    expect_all
        End when every op of the model that can dump has come.
    stop_on_divergence
        End at the first failing row.
    """
    processes = _processes(jobs)
    shared = _chosen(limits, custom, metric_args, max_elements)
    folder, temporary = _out(out)
    options = ComparisonOptions(os.fspath(target), os.fspath(golden), folder, _path(model), **shared)
    chosen = WatchOptions(until_idle_s=until_idle, pid=pid, expect_all=expect_all, stop_on_divergence=stop_on_divergence)
    return WatchedRows(options, chosen, processes, temporary)


class WatchedRows:
    """The rows of a watch, as they are stored; made by :func:`watch`.

    Leaving the ``with`` block stops the watch, whatever had come; :attr:`result` is there when the rows were followed to their end.
    """

    def __init__(self, options: ComparisonOptions, chosen: WatchOptions, jobs: int, temporary: bool) -> None:
        self._result: Optional[RunResult] = None
        self._waiting: List[Row] = []
        self._watch = Watch(options, jobs, watch=chosen, on_row=self._waiting.append)
        self._temporary = temporary
        if temporary:
            weakref.finalize(self, shutil.rmtree, options.out, ignore_errors=True)

    def __enter__(self) -> WatchedRows:
        self._watch.__enter__()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self._watch.__exit__(kind, error, trace)

    @property
    def result(self) -> RunResult:
        """What the watch came to.

        Raises
        ------
        UsageError
            The rows have not been followed to their end.
        """
        if self._result is None:
            raise UsageError("the watch has no result before the end of its rows", hint="go through all rows first")
        return self._result

    def stop(self) -> None:
        """End the watch: what has come is compared, and the rows then end."""
        self._watch.stop("asked")

    def __iter__(self) -> Iterator[Row]:
        for _ in self._watch.turns():
            yield from self._taken()
        yield from self._taken()
        self._result = self._watch.finish()

    def _taken(self) -> List[Row]:
        rows = list(self._waiting)
        self._waiting.clear()
        return rows


def open_result(path: str) -> RunResult:
    """Open the result of an earlier run, or of one that is still running: its rows are those stored so far.

    Parameters
    ----------
    path
        The folder that compare, watch or run wrote to.

    Raises
    ------
    MissingPath
        There is no store.
    FormatError
        It is damaged, or not goldwatch's.
    """
    return stored_result(os.fspath(path))
