"""What a report needs besides the rows, and the base class of all report files."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import field
from types import TracebackType
from typing import IO, Any, Iterable, Mapping, Optional, Tuple, Type

from ..base.atomic_writing import atomic_text_writer, raise_write_error
from ..base.fast_dataclasses import dataclass
from ..dumps.place import Place
from ..judging.diagnosis.summary import failure_beside_rows
from ..judging.diagnosis.suspects import NONE
from ..judging.limits import Limits
from ..metrics.row import METRICS, Row
from ..store.merged_metrics import DeviceMetrics
from .csv_cells import Columns


@dataclass(frozen=True)
class ReportContext:
    """What is known about a run besides its rows.

    Attributes
    ----------
    out
        The run's folder.
    started
        Local time of the first start, ``YYYYmmddHHMMSS``.
    finished
        False for a run that goes on or was stopped: the rest is about the rows that it has so far.
    summary
        result.json's ``summary``; numbers that are not finite are texts.
    sentence
        The broken operator in one sentence.
    inputs
        What was compared with what, as JSON values: ``target``, ``golden``, ``model`` and the
        options that rows depend on.
    limits
        In force.
    columns
        Of the result tables.
    places
        Those that have rows, in the order of the table.
    unstored
        By place how many rows, by verdict, a merge of several hosts counts and does not store.
    over_devices
        What a merge of several hosts has at worst of each op in each step; None of other runs, and
        where no file draws it.
    comparison
        ``replay`` where it is none of a device's outputs with golden data; else empty.
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    graphs
        The networks, as :func:`goldwatch.store.stored_networks.network_document` makes them.
    commands
        For each suspect's op the command that looks closer at it.
    exit_code
        With which the run ended; None where that is not known.
    about
        What the user says of it: names and texts, in their order.
    """

    out: str
    started: str
    finished: bool
    summary: Mapping[str, Any]
    sentence: str
    inputs: Mapping[str, Any]
    limits: Limits
    columns: Columns
    places: Tuple[Place, ...] = ()
    unstored: Mapping[Place, Mapping[str, int]] = field(default_factory=dict)
    over_devices: Optional[DeviceMetrics] = None
    comparison: str = ""
    omitted: Tuple[Tuple[str, str], ...] = ()
    graphs: Tuple[Mapping[str, Any], ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    exit_code: Optional[int] = None
    about: Tuple[Tuple[str, str], ...] = ()

    @property
    def metrics(self) -> Tuple[str, ...]:
        """The metrics that are shown."""
        return self.columns.metrics or METRICS

    @property
    def failure_beside_rows(self) -> str:
        """As :func:`goldwatch.judging.diagnosis.summary.failure_beside_rows` says of a finished
        run.
        """
        if not self.finished:
            return ""
        summary = self.summary
        accused = sum(suspect["confidence"] != NONE for suspect in summary["suspects"])
        return failure_beside_rows(
            self.exit_code, summary["verdict"], summary.get("program"), accused
        )


class ReportFile(ABC):
    """One file of a report, as a context manager: inside, every row is added in the order of the
    table; at the end it is there whole.

    Parameters
    ----------
    path
        Where it appears, by rename.
    context
        What is known of the run.

    Attributes
    ----------
    draws
        Whether :attr:`ReportContext.over_devices` is wanted, which takes seconds where there are
        many ops and steps.
    """

    draws = False

    def __init__(self, path: str, context: ReportContext) -> None:
        self.path = path
        self.context = context
        self._open = contextlib.ExitStack()

    def __enter__(self) -> ReportFile:
        self.stream: IO[str] = self._open.enter_context(atomic_text_writer(self.path))
        try:
            self.begin()
        except BaseException as error:
            self._open.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        with self._open:
            if error is not None:
                raise error
            self.end()

    def begin(self) -> None:  # noqa: B027 - not every file has a head
        """Write what stands before the rows to :attr:`stream`."""

    @abstractmethod
    def add(self, row: Row) -> None:
        """Take one more row."""

    def end(self) -> None:  # noqa: B027 - nor an end
        """Write what stands behind the rows, or all that was kept of them."""


def write_files(
    rows: Iterable[Row], files: Mapping[str, Type[ReportFile]], context: ReportContext
) -> None:
    """Write the files of a report while its rows are walked once.

    Parameters
    ----------
    rows
        In the order of the table.
    files
        What to write, by path.

    Raises
    ------
    EnvironmentProblem
        A file cannot be written; an older one stays.
    """
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(kind(path, context)) for path, kind in files.items()]
        for row in rows:
            for file in opened:
                try:
                    file.add(row)
                except OSError as error:
                    raise_write_error(file.path, error)
