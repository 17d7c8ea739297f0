"""The options for metrics: those shown, the folder with the user's own and conversions, and the
limits.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from ..base.errors import InputError, MissingPath, UsageError
from ..base.naming import nearest_names
from ..base.option_fields import LIMITS, option, options_class
from ..judging.limits import OWN_HINT, Limit, Limits, named_limits, natural_comparison, parse_limit
from ..metrics.row import MEASURES, METRICS
from ..run.comparison_options import UserCode, find_user_code

ALL_METRICS = "all"

NEEDS_CUSTOM = " (one of your own needs --custom DIR, its folder)"


def parse_metrics(text: Optional[str], custom_metrics: Sequence[str] = ()) -> Tuple[str, ...]:
    """Return the metrics of ``--metrics A,B``, in that order, each once; for None and ``all`` the
    ten standard ones followed by the user's.

    Raises
    ------
    UsageError
        A name is unknown, or there is none.
    """
    everything = (*METRICS, *custom_metrics)
    if text is None:
        return everything
    known = (*MEASURES, *custom_metrics)
    by_lower = {name.lower(): name for name in known}
    chosen: List[str] = []
    for word in (word.strip() for word in text.split(",")):
        name = by_lower.get(word.lower())
        if name is None and word.lower() != ALL_METRICS:
            near = nearest_names(word, known, 1, 0.4)
            hint = "did you mean %s?" % near[0] if near else "metrics: " + ", ".join(known)
            raise UsageError(
                "--metrics: unknown metric %r" % word,
                hint=hint + ("" if custom_metrics else NEEDS_CUSTOM),
            )
        chosen += everything if name is None else (name,)
    return tuple(dict.fromkeys(chosen))


def parse_metric_args(texts: Sequence[str]) -> Dict[str, Dict[str, str]]:
    """Return the options of ``--metric-args 'Name:key=value,key=value'`` by metric; several metrics
    with ``;`` between them.

    Raises
    ------
    UsageError
        Another form, a key that is no Python name, or one twice.
    """
    arguments: Dict[str, Dict[str, str]] = {}
    for part in (part.strip() for text in texts for part in text.split(";")):
        name, colon, words = (word.strip() for word in part.partition(":"))
        for word in words.split(","):
            key, sign, value = (side.strip() for side in word.partition("="))
            if not name or not colon or not sign or not key.isidentifier():
                hint = "write Name:key=value,key=value; a key is a Python name"
                raise UsageError(
                    "--metric-args %s: %r is no option of a metric" % (part, word), hint=hint
                )
            if key in arguments.setdefault(name, {}):
                raise UsageError("--metric-args: %s is given twice for %s" % (key, name))
            arguments[name][key] = value
    return arguments


@options_class
class CustomArguments:
    """The options that make the user's own metrics known."""

    custom: Optional[str] = option(
        "--custom",
        metavar="DIR",
        topic=LIMITS,
        help="Folder with algorithm/alg_NAME.py and format_convert/convert_A_to_B.py of your own; "
        "their code is run.",
    )
    metric_args: Tuple[str, ...] = option(
        "--metric-args",
        metavar="NAME:KEY=VALUE,…",
        topic=LIMITS,
        help="Options of a metric of --custom.",
        default=(),
    )


def user_code(arguments: CustomArguments) -> Tuple[UserCode, Dict[str, Dict[str, str]]]:
    """Return the content of the folder of ``--custom`` (empty without one) and the options of its
    metrics.

    Raises
    ------
    UsageError
        ``--metric-args`` without ``--custom``, or of no metric there; as :func:`find_user_code`.
    InputError
        There is no such folder.
    """
    options = parse_metric_args(arguments.metric_args)
    if options and arguments.custom is None:
        raise UsageError("--metric-args needs --custom, the folder that holds the metrics")
    return find_user_code(arguments.custom, options), options


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
            if isinstance(error, MissingPath) and re.search("[=<>]", name):
                raise UsageError(
                    "--limits takes a file of limits, not %s" % name,
                    hint="write --limit '%s'" % name,
                ) from error
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
