"""Compares the outputs of a network as a program that ran it wrote them: a source of a run whose
rows they are.

Names of the files: ``{name}_{number}.bin`` (or ``.npy``, ``.txt``), as ais_bench writes them, the
name that of the first input's file or ``pure_infer_data``; ``{name}_output_{number}.bin``, as msame
does. Each writes into a folder named like the time. The number is that of the om's output: the
input of its NetOutput, which tells type, shape and whose output it is. Source of the names: the two
programs' public documentation and sources.
"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import (
    GoldwatchError,
    InputError,
    UsageError,
)
from ..base.manifest import model_file_name
from ..base.naming import printable
from ..base.notes import Note, note
from ..base.wording import listed, plural
from ..dumps.dump_index import OUTPUT_FILE
from ..judging.diagnosis.outputs_summary import OTHER_FILE
from ..metrics.compare_pair import SPLIT_BYTES
from ..metrics.pair_alignment import converted, geometry_of, open_counterpart
from ..metrics.pair_task import PairTask
from ..metrics.patterns import AlignedPair, align
from ..metrics.row import (
    FAIL,
)
from ..model.graphs_of_run import ModelGraphs
from ..tensors.user_conversions import UserConversions
from .compare_given_pairs import begin_given_pairs, compare_given_pairs
from .comparison_options import ComparisonOptions
from .output_files import NamedOutput, OutputText, parse_output
from .output_plan import CLOSE, MOST_NAMES, OutputPlan
from .progress import OnProgress
from .result import RunResult
from .whole_run import Run, Source, compare_from

_MOST_EXCHANGED = 8
"""So many outputs that are wrong are held against each other's golden data."""


def compare_outputs(
    options: ComparisonOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
) -> RunResult:
    """Compare the outputs of a network with golden data, and judge them as a run.

    Parameters
    ----------
    options
        ``outputs`` is there.
    jobs, force, on_progress
        As for :func:`goldwatch.run.compare_folders.compare_folders`.

    Raises
    ------
    UsageError
        An option makes sense for dumps only, or OUT holds the results of other inputs.
    InputError
        No such file is in TARGET, it cannot be told which output each is, or GOLDEN holds no golden
        data.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    wholes = (options.quantisation, options.unfused, options.check_addresses, options.plan)
    if any((options.op_range, options.select, options.time, *wholes)) or os.path.isdir(
        options.model or ""
    ):
        raise UsageError(
            "the outputs of one network are compared: no selection of ops, time, "
            "configuration, or second model"
        )
    for index in options.indexes:
        index.require()
    return compare_from(_FinalOutputs(options, on_progress), jobs, force)


class _FinalOutputs(Source):
    """The files of a network's outputs."""

    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """Find and pair them; the model tells which outputs there are, and nothing else of it is
        expected. Raises InputError.
        """
        self.golden = self.options.golden_index.golden()
        if not any(True for _ in self.golden.outputs()):
            from ..kinds.wrong_kind_advice import without_golden

            advice = without_golden(self.options.golden_index)
            text = (
                "GOLDEN: %s: no golden data of outputs was found at or below it"
                % self.options.golden
            )
            raise InputError("; ".join(filter(None, (text, advice.words))), hint=advice.hint)
        self.notes: List[Note] = []
        outputs = [NamedOutput(parse_output(text)) for text in self.options.outputs or ()] or list(
            self._found_files()
        )
        self.graph = graphs.graphs[0] if graphs else None
        self.planned = OutputPlan(self.options, self.graph, self.golden, outputs)
        return ModelGraphs()

    def _found_files(self) -> Iterator[NamedOutput]:
        """Yield the files of the newest folder that holds some; InputError where there are none, or
        of several samples.
        """
        folders: Dict[str, Dict[str, Dict[int, str]]] = {}
        for listing, names in self.options.target_index.files():
            # Of one output the npy counts, which tells type and shape, else what is raw.
            for match in filter(
                None,
                map(
                    OUTPUT_FILE.match,
                    sorted(
                        names, key=lambda name: name[-3:] != "txt" and 1 + name.endswith(".npy")
                    ),
                ),
            ):
                samples = folders.setdefault(listing.rel or ".", {})
                samples.setdefault(match.group("name"), {})[int(match.group("number"))] = (
                    os.path.join(listing.folder, match.group(0))
                )
        if not folders:
            text = (
                "TARGET: %s: it holds no output of a network: NAME_0.bin, .npy or .txt"
                % self.options.target
            )
            raise InputError(text, hint="name them: NAME=FILE")
        newest = max(folders)
        if len(folders) > 1:
            self.notes.append(note("last-outputs", newest, plural(len(folders), "folder")))
        samples = folders[newest]
        if len(samples) > 1:
            raise InputError(
                "TARGET: %s holds the outputs of %d inputs: %s"
                % (newest, len(samples), listed(sorted(samples), 4)),
                hint="golden data are of one: name its files, such as 0=%s"
                % next(iter(samples[min(samples)].values())),
            )
        ((_, numbers),) = samples.items()
        return (
            NamedOutput(OutputText(str(number), numbers[number]), number)
            for number in sorted(numbers)
        )

    def feed(self, run: Run) -> None:
        """Compare the outputs."""
        planned = self.planned
        begin_given_pairs(run, self.golden, planned.tasks)
        run.notes += [note("network-outputs"), *self.notes]
        compare_given_pairs(
            run.engine,
            planned.tasks,
            planned.rows,
            self.on_progress,
            planned.looks,
            models=self.options.models,
        )
        run.unmatched = list(planned.notes)
        failing = {row.tensor for row in run.store.rows("index", verdict=FAIL)}
        # Whole tensors are held against each other: none of a size that is compared in shares.
        wrong = [
            task
            for task in planned.tasks
            if task.row.tensor in failing and task.nbytes < SPLIT_BYTES
        ][:_MOST_EXCHANGED]
        if len(wrong) > 1:
            found = _of_others(wrong, run.engine.workers.settings.conversions)
            if found:
                run.unmatched.append(note("outputs-exchanged", listed(found, MOST_NAMES)))
        if not run.unmatched and planned.tasks and len(failing) == len(planned.tasks):
            run.unmatched += self._of_other_file()
        run.left_out += run.unmatched

    def _of_other_file(self) -> List[Note]:
        """Return a note where golden data were made of another file than the om."""
        graph = self.graph
        if graph is None or not graph.compiled_from:
            return []
        made_of = model_file_name(self.options.golden)
        if not made_of or made_of == graph.compiled_from:
            return []
        return [note(OTHER_FILE, made_of, printable(graph.name), graph.compiled_from)]


def _of_others(tasks: Sequence[PairTask], conversions: UserConversions) -> List[str]:
    """Return which outputs hold the golden values of another one, as sentences."""
    pairs: List[Tuple[PairTask, AlignedPair]] = []
    for task in tasks:
        with contextlib.suppress(GoldwatchError, OSError, MemoryError):
            golden, _ = open_counterpart(task)
            made = converted(task, golden, conversions)
            geometry = geometry_of(made, golden)
            pairs.append((task, align(made.target, golden, geometry, made.as_stored)))
    found = []
    for task, pair in pairs:
        for other, theirs in pairs:
            if other is task or pair.target.shape != theirs.golden.shape:
                continue
            expected = np.asarray(theirs.golden, np.float64)
            error = np.linalg.norm(np.asarray(pair.target, np.float64) - expected)
            if error < CLOSE * np.linalg.norm(expected):
                found.append("%s holds those of %s" % (task.row.tensor, other.row.tensor))
    return found
