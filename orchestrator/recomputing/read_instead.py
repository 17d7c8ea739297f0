"""Inputs of an op that the om feeds from another tensor than the original model says, or in another
shape: an edge that the converter drew otherwise, an operator that it left out or added.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.wording import percent
from ..model.op_node import TensorDesc
from ..tensors.tensor import Tensor
from .input_feeds import Feed, Feeder, OtherSource
from .original_cuts import Original
from .original_cuts import Value as OriginalValue
from .recomputed_output import Recomputed
from .recorded_tensor import RecordedTensor
from .replay_plan import PlannedOp
from .submodel.cut_definition import CutInput

Array = Any
Shape = Tuple[int, ...]

_ANOTHER = 0.05
"""Relative distance from which on two tensors are not one: bfloat16 rounds by 0.004, quantising to
int8 by about 0.01. Chosen; no trial."""
_INPUTS = ("", "Input", "Placeholder")
"""Types of what is no node of the original, or none that computes."""
_NEARER = 10.0
"""By how many times an input is nearer to golden data of what the om feeds it with than to those of
what the model says, where the device has no output that holds these. Chosen; no trial."""


_FOLLOWS = 4.0
"""Times what rounding explains up to which an output follows, as healthy operators do
(``by_recomputation.MOST_RATIO``)."""
_FARTHER = 2.0
"""By how many times an output is farther from what is computed of inputs that are others beyond
doubt. Chosen; no trial."""


class ReadInstead(NamedTuple):
    """An input that is another than the model says.

    Attributes
    ----------
    feed
        What holds what the model says.
    sentence
        What the device read, and what the model says.
    next
        What to compare then.
    """

    feed: Feed
    sentence: str
    next: str


def read_instead(
    planned: PlannedOp,
    feeder: Feeder,
    original: Original,
    shapes: Mapping[OriginalValue, Shape],
    recorded: Callable[[CutInput, Feed], RecordedTensor],
) -> Dict[int, ReadInstead]:
    """Return the inputs of an op that the om feeds otherwise, by their number in the op's cut.

    Parameters
    ----------
    shapes
        Of the original's values.
    recorded
        Returns a feed of an input in the original's layout.

    Raises
    ------
    NotComparable, NotComputable, GoldwatchError, MemoryError
        A tensor cannot be read.
    """
    found: Dict[int, ReadInstead] = {}
    for number, (entry, feed) in enumerate(zip(planned.cut.inputs, planned.feeds)):
        if feed.assumed:
            continue
        if feed.other is not None:
            model, off = _of_model(entry, feed, feed.other, feeder, recorded)
            if model is not None:
                found[number] = ReadInstead(
                    model, *_other_tensor(planned, entry, feed.other, off, original)
                )
            continue
        values = recorded(entry, feed).wide()
        shape = shapes.get((entry.producer, entry.output_index))
        if (
            shape is not None
            and values.shape != shape
            and values.ndim == len(shape)
            and values.size == element_count(shape)
        ):
            model = Feed(Tensor.from_array(values.reshape(shape)), TensorDesc())
            found[number] = ReadInstead(
                model, *_other_shape(planned, entry, values.shape, shape, original)
            )
    return found


def _of_model(
    entry: CutInput,
    feed: Feed,
    other: OtherSource,
    feeder: Feeder,
    recorded: Callable[[CutInput, Feed], RecordedTensor],
) -> Tuple[Optional[Feed], float]:
    """Return what holds the value that the model says, None where it is the same tensor or nothing
    tells; and how far off it is.
    """
    model, is_recorded = feeder.of_model(entry)
    if model is None:
        return None, 0.0
    device = recorded(entry, feed).wide()
    off = _distance(device, recorded(entry, model).wide())
    if is_recorded or off <= _ANOTHER:
        return (model if off > _ANOTHER else None), off
    # Golden data are not the device's: errors from before lie between.
    fed = feeder.copied(other.op) if other.value is None else feeder.golden_of(other.value)
    if fed is None:
        return None, off
    same = _distance(
        device if other.value else recorded(entry, model).wide(), RecordedTensor(fed).wide()
    )
    return (model if _NEARER * same < off else None), off


def makes_another(read: Sequence[Recomputed], model: Sequence[Recomputed]) -> bool:
    """Tell whether outputs follow from what was read, and not from what the model says.

    Parameters
    ----------
    read, model
        The outputs of an op beside what is computed of the one and of the other.
    """
    pairs = [(one.tight, other.tight) for one, other in zip(read, model)]
    follow = [one.loose or one.tight for one in read]
    return all(
        one is not None and not one.unequal and not one.not_finite and one.ratio <= _FOLLOWS
        for one in follow
    ) and any(
        one is not None
        and other is not None
        and (
            other.unequal > 0
            or other.not_finite > 0
            or other.ratio > _FARTHER * one.ratio
            or other.slice_ratio > _FARTHER * one.slice_ratio
        )
        for one, other in pairs
    )


def _distance(x: Array, y: Array) -> float:
    """Return ‖x − y‖ / ‖y‖ over what is finite in both; infinity of other sizes."""
    if x.size != y.size:
        return np.inf
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (x, y))
    counted = np.isfinite(x) & np.isfinite(y)
    size = float(np.linalg.norm(y[counted]))
    off = float(np.linalg.norm((x - y)[counted]))
    return off / size if size else (np.inf if off else 0.0)


def _reader(entry: CutInput, planned: PlannedOp, original: Original) -> Tuple[str, str, int]:
    """Return the node of the original that reads a value, as its type and name, and as which
    input.
    """
    name, number = entry.readers[0] if entry.readers else (planned.op.originals[0], 0)
    return _kind(name, original) or planned.op.type, name, number


def _kind(node: str, original: Original) -> str:
    """Return the type of a node of the original; empty where it has none of this name."""
    numbers = original.model.numbers(node)
    return original.model.types[numbers[0]].rpartition(".")[2] if numbers else ""


def _other_tensor(
    planned: PlannedOp, entry: CutInput, other: OtherSource, off: float, original: Original
) -> Tuple[str, str]:
    kind, reader, number = _reader(entry, planned, original)
    made_by = _kind(entry.producer, original)
    read = "output %d of %s (%s%s)" % (
        other.output,
        other.op.name,
        other.op.type,
        "" if other.value else ", of no node of the model",
    )
    says = (
        "output %d of %s (%s)" % (entry.output_index, entry.producer, made_by)
        if made_by not in _INPUTS
        else "the network's input %s" % entry.producer
    )
    apart = "" if np.isinf(off) else ", and what it read differs from that by " + percent(off)
    sentence = "the device computed %s with %s as its input %d; the model says %s%s" % (
        kind,
        read,
        number,
        says,
        apart,
    )
    return sentence, (
        "compare the inputs of %s in the om's json with those of %s %s in the original model: "
        "an edge was drawn otherwise, or an operator between was left out or added (a fusion, an "
        "edited model)" % (planned.op.name, kind, reader)
    )


def _other_shape(
    planned: PlannedOp, entry: CutInput, shape: Shape, model_shape: Shape, original: Original
) -> Tuple[str, str]:
    kind, _, _ = _reader(entry, planned, original)
    made_by = "%s %s" % (_kind(entry.producer, original), entry.producer)
    sentence = (
        "the device computed %s of an input in the shape %s; the model says %s, as %s makes it"
        % (kind, list(shape), list(model_shape), made_by.strip())
    )
    return sentence, (
        "compare %s (its shape, axes or perm) as the om's json has it with the original model's"
        % made_by.strip()
    )
