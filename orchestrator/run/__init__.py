"""A run: one loop for all sources of files; which of them TARGET and GOLDEN are is told here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from .compare_folders import Comparers
    from .comparison_options import ComparisonOptions
    from .progress import OnProgress
    from .result import RunResult


def compare_all(
    options: ComparisonOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
    comparers: Optional[Comparers] = None,
) -> RunResult:
    """Compare TARGET and GOLDEN, whichever they are: the outputs of a network, two single files,
    files of ``torch.save``, those of a quantised network, or dumps; parameters and errors as
    :func:`goldwatch.run.compare_folders.compare_folders`.
    """
    arguments = options, jobs, force, on_progress
    if options.outputs is not None:
        from .compare_final_outputs import compare_outputs

        return compare_outputs(*arguments)
    if options.are_files:
        from .compare_two_files import compare_files

        return compare_files(*arguments)
    if options.target_index.holds_torch_files:
        from .compare_torch_files import compare_torch_files

        return compare_torch_files(*arguments)
    if options.quantisation and not options.model:
        from .compare_quantised_files import compare_quantised_files

        return compare_quantised_files(*arguments)
    from .compare_folders import compare_folders

    return compare_folders(*arguments, comparers)
