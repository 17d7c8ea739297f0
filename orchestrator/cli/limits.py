"""``goldwatch limits``."""

from __future__ import annotations

from typing import Optional, Sequence

import click

from ..base.naming import printable
from ..dumps.tensor_statistics import MEASURES as STATISTICS
from ..judging.limits import LIMITED, for_statistics
from ..run.comparison_options import find_user_code
from .command import command, format_option, options_of
from .printing import print_json, put, put_wrapped
from .user_code_options import LimitArguments, read_limits


@command(bare=True)
@options_of(LimitArguments)
@click.option(
    "--custom",
    metavar="DIR",
    help="Folder with algorithm/alg_NAME.py of your own, which may be limited too; none is run.",
)
@format_option
def limits(
    limit_texts: Sequence[str],
    limits_name: Optional[str],
    custom: Optional[str],
    output_format: str,
) -> int:
    """Print the limits in force: which metric decides at what value, for which tensors.

    The JSON is a file that --limits takes.

    Example: goldwatch limits --limit 'type=Softmax:KullbackLeiblerDivergence<0.01' --format json
    """
    custom_metrics = find_user_code(custom, {}).names
    chosen = read_limits(limits_name, limit_texts, custom_metrics)
    if output_format == "json":
        print_json(chosen.document())
        return 0
    names = (*LIMITED, *custom_metrics)
    ordered = sorted(
        chosen.entries,
        key=lambda limit: (
            limit.selector != "",
            names.index(limit.metric) if not limit.selector else 0,
        ),
    )
    last = {(limit.metric, limit.key): limit for limit in ordered}
    lines = [
        (
            printable(limit.key) or "every tensor",
            limit.metric,
            "%s %.9g" % (limit.comparison, limit.value)
            + ("" if last[limit.metric, limit.key] is limit else "  (before a Cast only)"),
        )
        for limit in ordered
    ]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)] if lines else [0, 0]
    for who, metric, value in lines:
        put("%s  %s  %s" % (who.ljust(widths[0]), metric.ljust(widths[1]), value))
    put("" if lines else "no metric decides")
    if any(limit.metric == "DifferentElements" for limit in chosen.entries):
        put_wrapped(
            "DifferentElements is for integers and bools, in the place of the three "
            "distances; the others are for floats.",
            "",
        )
    deciding = [
        limit
        for limit in for_statistics(chosen).entries
        if limit.metric in STATISTICS and not limit.selector
    ]
    if deciding:
        put_wrapped(
            "Where statistics were dumped, they decide: %s; wider ones of some types."
            % ", ".join(map(str, deciding)),
            "",
        )
    return 0
