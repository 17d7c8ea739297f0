"""Parses the option values that compare, watch and run share."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from ..dumps.dump_tree import ALL_TIMES
from ..errors import UsageError
from ..metrics.row import MEASURES, METRICS
from ..naming import nearest_names

ALL_METRICS = "all"

_SELECT = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?\Z")


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


def parse_range(text: Optional[str]) -> Optional[Tuple[int, int, int]]:
    """Return ``--range START,END[,STEP]`` as numbers (START and END inclusive).

    Raises
    ------
    UsageError
        Another form, a step of 0, or backwards.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (2, 3) or not all(re.match(r"[0-9]{1,9}\Z", part) for part in parts):
        raise UsageError(
            "--range %s: expected START,END[,STEP] in whole numbers" % text,
            hint="for example --range 10,50,5",
        )
    numbers = [int(part) for part in parts] + [1]
    start, stop, step = numbers[:3]
    if start > stop:
        raise UsageError("--range %s: runs backwards (%d is larger than %d)" % (text, start, stop))
    if step < 1:
        raise UsageError("--range %s: the step must be 1 or more" % text)
    return start, stop, step


def parse_select(texts: Sequence[str]) -> Optional[Tuple[Tuple[int, int], ...]]:
    """Return ``--select 3,7-9`` as (first, last) pairs; None when not given.

    Raises
    ------
    UsageError
        Another form, or a range that runs backwards.
    """
    if not texts:
        return None
    pairs = []
    for part in ",".join(texts).split(","):
        match = _SELECT.match(part)
        if match is None:
            raise UsageError(
                "--select %s: expected whole numbers and ranges" % ",".join(texts),
                hint="for example --select 3,7-9",
            )
        start = int(match.group(1))
        stop = int(match.group(2)) if match.group(2) else start
        if start > stop:
            raise UsageError("--select: %s runs backwards" % part.strip())
        pairs.append((start, stop))
    return tuple(pairs)


def parse_time(text: Optional[str]) -> Optional[str]:
    """Return ``--time`` unchanged: 14 digits, or ``all``; None when not given.

    Raises
    ------
    UsageError
        Another form.
    """
    if text is None or text == ALL_TIMES or re.match(r"[0-9]{14}\Z", text):
        return text
    raise UsageError(
        "--time %s: expected the name of a time folder (14 digits), or all" % text,
        hint="for example --time 20260102030405",
    )
