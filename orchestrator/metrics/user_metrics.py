"""Metrics of the user's own: ``algorithm/alg_{Name}.py`` with ``def compare(my_output,
ground_truth, args)`` → (value, message).

Source of the interface: the vendor's public documents on dump comparison. The two arrays are flat,
in the golden's order; the options of a metric are attributes of ``args``, as texts. Each call runs
in a Python of its own (:mod:`goldwatch.base.user_code`).
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import GoldwatchError, NotComparable, UsageError, require_folder
from ..base.fast_dataclasses import dataclass
from ..base.naming import nearest_names
from ..base.user_code import Answer, call_user, run_user
from ..tensors.dtypes import Array
from ..tensors.tensor import Tensor
from .class_and_box_agreement import Agreement
from .metric_result import MetricResult
from .pair_alignment import blocks_of, geometry_of, open_counterpart
from .pair_task import PairTask, Settings
from .row import AGREEMENT_METRICS, MEASURES, NETWORK_OUTPUT, Row

FOLDER = "algorithm"

_FILE = re.compile(r"alg_([A-Za-z][A-Za-z0-9_]*)\.py\Z")
# What a limits file and a limit's text write in the place of a metric.
_TAKEN = ("base", "rules", "dtype", "type", "op", "all")
# Of what a user's function answers, in a row.
_MOST_LETTERS = 300

Arguments = Tuple[Tuple[str, str], ...]


@dataclass(frozen=True)
class UserMetric:
    """A metric of the user's own; picklable.

    Attributes
    ----------
    name
        ``{Name}`` of ``alg_{Name}.py``.
    script
        The file.
    arguments
        (key, value) pairs, which become attributes of ``args``.
    """

    name: str
    script: str
    arguments: Arguments = ()


def find_user_metrics(
    folder: str, arguments: Mapping[str, Mapping[str, str]]
) -> Tuple[UserMetric, ...]:
    """Return the metrics in a folder, by name; none where it has no folder ``algorithm``.

    Parameters
    ----------
    arguments
        For each metric's name its options.

    Raises
    ------
    UsageError
        A metric is called like one of goldwatch's, two differ by case only, or there are options
        for one that is not there.
    InputError
        There is no such folder.
    """
    require_folder(folder, "folder of metrics and conversions")
    scripts = os.path.join(folder, FOLDER)
    files = sorted(os.listdir(scripts)) if os.path.isdir(scripts) else []
    paths: Dict[str, str] = {
        match.group(1): match.group(0) for match in map(_FILE.match, files) if match is not None
    }
    taken = {name.lower(): name for name in (*MEASURES, *_TAKEN)}
    for name, file in paths.items():
        if name.lower() in taken:
            what = "is called like %s" % taken[name.lower()]
            raise UsageError(
                "%s %s" % (os.path.join(scripts, file), what),
                hint="a metric needs a name of its own: rename the file",
            )
        taken[name.lower()] = "alg_%s.py" % name
    for name in arguments:
        if name not in paths:
            near = nearest_names(name, list(paths), 1, 0.4)
            hint = (
                "did you mean %s?" % near[0]
                if near
                else "metrics in %s: %s" % (scripts, ", ".join(paths) or "none")
            )
            raise UsageError(
                "options for the metric %r, which is not in %s" % (name, scripts), hint=hint
            )
    return tuple(
        UserMetric(name, os.path.join(scripts, file), tuple(arguments.get(name, {}).items()))
        for name, file in paths.items()
    )


def with_user_metrics(task: PairTask, result: MetricResult, settings: Settings) -> MetricResult:
    """Return a pair's result with the user's metrics; one that cannot be computed is NaN, with the
    reason. Not called without elements.
    """
    if settings.agreement is not None and result.count:
        result = _with_agreement(task, result, settings.agreement)
    if not settings.user_metrics or not result.count:
        return result
    values, reasons = user_values(task, settings)
    return replace(result, values={**result.values, **values}, reasons=[*result.reasons, *reasons])


def _with_agreement(task: PairTask, result: MetricResult, agreement: Agreement) -> MetricResult:
    """Return a pair's result with what classes and boxes tell; what makes no sense for it has no
    value, and no limit.
    """
    golden, _ = open_counterpart(task)
    names = output_names(task.row)
    values: Dict[str, float] = {}
    texts: List[str] = []
    try:
        if agreement.concerns(names, golden.shape):
            values = agreement.measure(names, *both_sides(task, golden))
    except NotComparable as error:
        texts.append(error.message)
    missing = tuple(name for name in AGREEMENT_METRICS if name not in values and not texts)
    return replace(
        result,
        values={**result.values, **values},
        not_applicable=(*result.not_applicable, *missing),
        reasons=[*result.reasons, *texts],
    )


def output_names(row: Row) -> Tuple[str, ...]:
    """Return what users may call an output of a network: by op, tensor, golden name, or number."""
    return (
        row.op,
        row.tensor,
        "%s:%d" % (row.op, row.tensor_index or 0),
        row.golden or "",
        *filter(None, (row.code_value(NETWORK_OUTPUT),)),
    )


def user_values(task: PairTask, settings: Settings) -> Tuple[Dict[str, Any], List[str]]:
    """Return the values of the user's metrics of a pair, and why some are missing or what was said
    of them.
    """
    values: Dict[str, Any] = {}
    reasons: List[str] = []
    for metric in settings.user_metrics:
        try:
            value, problem = call_user(
                metric.script, _measured, metric.arguments, task, settings.max_elements
            )
        except GoldwatchError as error:
            value, problem = math.nan, error.message
        except MemoryError as error:
            value, problem = math.nan, "MemoryError: %s" % error
        values[metric.name] = value
        if problem:
            reasons.append("%s: %s" % (metric.name, problem))
    return values, reasons


def _measured(script: str, arguments: Arguments, task: PairTask, most: int) -> Answer:
    """Call a metric's ``compare``, in the process for the user's code."""
    golden, _ = open_counterpart(task)
    target, truth, shape = both_sides(task, golden, most)
    return run_user(
        script,
        "compare",
        target,
        truth,
        SimpleNamespace(**{"shape": shape, **dict(arguments)}),
        taken=_checked,
    )


def _checked(returned: Any) -> Tuple[Any, str]:
    """Return value and message of what a metric returned: a number where it is one, else text."""
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        return math.nan, "it returned %s, expected (value, message)" % _kind(returned)
    value, message = returned
    message_text = "" if message is None else " ".join(str(message).split())[:_MOST_LETTERS]
    if isinstance(value, (str, np.str_)):
        text = str(value).strip()[:_MOST_LETTERS]
        try:
            return float(text), message_text
        except ValueError:
            return text, message_text
    if isinstance(value, (int, float, np.number, np.bool_)) and not isinstance(
        value, np.complexfloating
    ):
        return float(value), message_text
    return math.nan, "; ".join(
        filter(
            None,
            ("it returned the value %s, expected a text or a number" % _kind(value), message_text),
        )
    )


def _kind(value: Any) -> str:
    size = " of %d" % len(value) if isinstance(value, (tuple, list)) else ""
    return type(value).__name__ + size


def both_sides(task: PairTask, golden: Tensor, most: int = 0) -> Tuple[Array, Array, Sequence[int]]:
    """Return all elements of a pair, flat in C order of the golden, and the golden's shape.

    What float32 holds exactly comes as float32, 32-bit integers as float64, so that differences
    neither wrap nor overflow; 64-bit integers, float64 and complex numbers come as they are. Of
    more than ``most`` elements (0: any number) a sample comes, piece by piece, and its number in
    the place of the shape.
    """
    geometry = geometry_of(task, golden)
    if 0 < most < element_count(geometry.shape):
        pieces = [
            (_wide(block.x).reshape(-1), _wide(block.y).reshape(-1))
            for block in blocks_of(task, golden, geometry, most=most)
        ]
        target, truth = (np.concatenate(parts) for parts in zip(*pieces))
        return target, truth, target.shape
    sides: List[Array] = []
    for block in blocks_of(task, golden, geometry):
        parts = _wide(block.x), _wide(block.y)
        sides = sides or [np.empty(element_count(geometry.shape), part.dtype) for part in parts]
        for side, part in zip(sides, parts):
            strides = tuple(step * side.itemsize for step in block.strides)
            np.lib.stride_tricks.as_strided(side[block.start :], part.shape, strides)[...] = part
    if golden.order == "F":
        sides = [side.reshape(geometry.shape, order="F").reshape(-1) for side in sides]
    target, truth = sides
    return target, truth, geometry.shape


def _wide(part: Array) -> Array:
    kind, size = part.dtype.kind, part.dtype.itemsize
    if kind in "iu" and size >= 4:
        return part.astype(np.float64) if size == 4 else part
    return part.astype(np.float32) if kind == "b" or size < 4 else part
