"""Compares two single files: a source of a run whose rows are their tensors."""

from __future__ import annotations

import os
from typing import Optional

from ..base.errors import UsageError
from ..dumps.folder_listing import look_at
from ..dumps.golden_set import GoldenSet
from ..model.graphs_of_run import ModelGraphs
from .compare_given_pairs import begin_given_pairs, compare_given_pairs
from .comparison_options import ComparisonOptions
from .progress import OnProgress
from .result import RunResult
from .tensors_of_two_files import pair_files, without_inputs_of_others
from .whole_run import Run, Source, compare_from


def compare_files(
    options: ComparisonOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
) -> RunResult:
    """Compare the tensors of two files and judge them as a run.

    Parameters
    ----------
    options
        ``target`` and ``golden`` are files.
    jobs, force, on_progress
        As for :func:`goldwatch.run.compare_folders.compare_folders`.

    Raises
    ------
    UsageError
        An option makes sense for folders only, or OUT holds the results of other inputs.
    GoldwatchError
        A file cannot be read.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    wholes = (options.quantisation, options.unfused, options.check_addresses, options.plan)
    if any((options.op_range, options.select, options.time, *wholes)):
        what = (
            "a range or selection of ops, a time, a quantisation, an unfused model, a check of "
            "addresses"
        )
        what += " or a dump configuration"
        raise UsageError(what + " are for folders, not for two files")
    return compare_from(_TwoFiles(options, on_progress), jobs, force)


class _TwoFiles(Source):
    """A target file and a golden file."""

    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """Pair their tensors; a model tells layouts, not which ops there are. Raises as
        :func:`pair_files`.
        """
        target = os.path.abspath(self.options.target)
        self.looks = {target: look_at(target)}
        self.models = graphs.files
        self.pairs = pair_files(self.options.target, self.options.golden, graphs)
        return ModelGraphs()

    def feed(self, run: Run) -> None:
        """Compare the tensors."""
        golden = GoldenSet(self.options.golden, [])
        self.pairs = without_inputs_of_others(self.pairs, self.options.settings())
        for task in self.pairs.tasks[:1]:
            golden.put(task.golden)
        begin_given_pairs(run, golden, self.pairs.tasks)
        compare_given_pairs(
            run.engine,
            self.pairs.tasks,
            self.pairs.rows,
            self.on_progress,
            self.looks,
            models=self.models,
        )
