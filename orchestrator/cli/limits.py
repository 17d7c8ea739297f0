"""``goldwatch limits``, and the options that choose them."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import click

from ..dumps.tensor_statistics import MEASURES as STATISTICS
from ..errors import InputError, UsageError
from ..judging.limit_parsing import OWN_HINT, named_limits, parse_limit
from ..judging.limits import LIMITED, Limit, Limits, for_statistics, natural_comparison
from ..metrics.row import MEASURES
from ..naming import printable
from ..option_fields import LIMITS, option, options_class
from ..run.user_code_folder import find_user_code
from .command import command, format_option, options_of
from .printing import print_json, put, put_wrapped
from .user_code_options import NEEDS_CUSTOM


@options_class
class LimitArguments:
    """The options that choose the limits."""

    limit_texts: Tuple[str, ...] = option(
        "--limit",
        metavar="[dtype=T:|type=T:|op=N:]METRIC=VALUE",
        topic=LIMITS,
        help="Replace or add a limit; repeatable.",
        default=(),
    )
    limits_name: Optional[str] = option(
        "--limits",
        metavar="FILE|vendor",
        topic=LIMITS,
        help="Limits of a file, or of the vendor's documents.  [default: goldwatch's]",
    )


def read_limits(
    name: Optional[str], texts: Sequence[str], custom_metrics: Sequence[str] = ()
) -> Limits:
    """Return the limits of ``--limits`` overlaid with those of ``--limit``; ``custom_metrics`` are
    the names of the user's metrics.

    Raises
    ------
    UsageError
        A ``--limit`` cannot be parsed.
    InputError
        The file of ``--limits`` cannot be used.
    """
    if name is None or name in ("default", "vendor"):
        limits = named_limits(name or "default")
    else:
        from ..config.limits_file import load_limits

        try:
            limits = load_limits(name, custom_metrics)
        except InputError as error:
            error.hint = _with_custom(error.hint)
            raise
    return limits.overlaid(read_limit_texts(texts, custom_metrics))


def read_limit_texts(texts: Sequence[str], custom_metrics: Sequence[str] = ()) -> Tuple[Limit, ...]:
    """Return the limits of ``--limit``; raises as :func:`read_limits`."""
    return tuple(_read(text, custom_metrics) for text in texts)


def _read(text: str, custom_metrics: Sequence[str]) -> Limit:
    bare = text.rpartition(":")[2].strip()
    if bare in MEASURES or bare in custom_metrics:
        sign = natural_comparison(bare)
        raise UsageError(
            "--limit %s: the value is missing" % text.strip(),
            hint="quote it, the shell takes < and > for itself: --limit '%s%s0.9', or write %s=0.9"
            % (text.strip(), sign, text.strip()),
        )
    try:
        return parse_limit(text, custom_metrics)
    except UsageError as error:
        hint = _with_custom(error.hint)
        raise UsageError("--limit %s: %s" % (text, error.message), hint=hint) from None


def _with_custom(hint: Optional[str]) -> Optional[str]:
    """Name in a hint the option that makes the user's own metrics known."""
    return hint and hint.replace(OWN_HINT, NEEDS_CUSTOM)


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
