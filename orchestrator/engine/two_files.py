"""Two single files compared: one table with their tensors."""

from __future__ import annotations

from typing import Optional, Sequence

from ..comparing.pair import compare_pairs
from ..errors import UsageError
from ..model.graph import ModelGraph
from ..results.finishing import ResultFiles
from ..results.store import RunStore
from ..usercode import stop_user_code
from ..verdict.run_sentence import run_sentence
from ..verdict.summary import exit_code, summarise
from .file_pair import pair_files
from .options import ComparisonOptions
from .result import RunResult
from .standing import keep_judgement


def compare_files(options: ComparisonOptions, force: bool = False) -> RunResult:
    """Compare the tensors of two files and judge them as a run.

    Parameters
    ----------
    options
        ``target`` and ``golden`` are files.
    force
        Discard other results in OUT.

    Raises
    ------
    UsageError
        An option makes sense for folders only, or OUT holds the results of other inputs.
    GoldwatchError
        A file cannot be read.
    """
    if options.op_range or options.select or options.time is not None or options.quantisation is not None or options.unfused is not None:
        raise UsageError("a range or selection of ops, a time, a quantisation or an unfused model are for folders, not for two files")
    settings = options.settings()
    pairs = pair_files(options.target, options.golden, options.graphs())
    with RunStore.begin(options.out, options.identity(), force) as store:
        try:
            rows = [*compare_pairs(pairs.tasks, settings), *pairs.rows]
        finally:
            stop_user_code()
        with store.transaction():
            store.put_all(sorted(rows, key=lambda row: (row.kind, row.tensor_index or 0)))
        return judged_result(options, store, 1, any(task.golden.kind != "npy" for task in pairs.tasks))


def judged_result(
    options: ComparisonOptions,
    store: RunStore,
    ops: int,
    golden_address: bool,
    graph: Optional[ModelGraph] = None,
    notes: Sequence[str] = (),
) -> RunResult:
    """Write the result files of what is stored, and judge it.

    Parameters
    ----------
    ops
        How many there are.
    golden_address
        As for :meth:`ComparisonOptions.columns`.
    graph
        Which operators feed which.
    notes
        What was taken and assumed.
    """
    mapping = (options.target, options.golden) if options.mapping else None
    with ResultFiles(store, options.columns(golden_address), mapping, options.metrics) as results:
        summary = summarise(results.rows, ops, options.limits, graph=graph, allow_missing=options.allow_missing, whole=results.whole)
        sentence = run_sentence(summary)
        code = exit_code(summary, strict=options.strict)
        forgiving = {"allow_missing": options.allow_missing, "strict": options.strict}
        told = tuple(notes) + tuple(store.notes)
        keep_judgement(store, {**forgiving, "unmatched": []}, summary, code, sentence, told)
        files = results.finish(summary, options.limits)
    return RunResult(options, summary, code, sentence, tuple(files), told, (), *results.told)
