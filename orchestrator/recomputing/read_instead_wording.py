"""The sentences about inputs that an op read otherwise than the original model says."""

from __future__ import annotations

from typing import NamedTuple, Sequence, Tuple

import numpy as np

from ..base.wording import percent
from .input_feeds import Feed, OtherSource
from .original_cuts import Original
from .recorded_tensor import RecordedTensor
from .replay_plan import PlannedOp
from .submodel.cut_definition import CutInput

Shape = Tuple[int, ...]
_INPUTS = ("", "Input", "Placeholder")
"""Types of what is no node of the original, or none that computes."""


class ShapeRead(NamedTuple):
    """An input that is read in another shape.

    Attributes
    ----------
    number
        Of the input in the op's cut.
    read, model
        The two shapes.
    views
        The nodes of the cut that only reshape it; the model's shape is that behind them.
    """

    number: int
    read: Shape
    model: Shape
    views: Tuple[int, ...]


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


def other_tensor(
    planned: PlannedOp,
    entry: CutInput,
    feed: Feed,
    other: OtherSource,
    off: float,
    between: Sequence[int],
    original: Original,
) -> Tuple[str, str]:
    """Return what is said of an input that is another tensor, which is ``off`` so far, and what to
    compare then; ``between`` are the nodes that make the model's value of it.
    """
    kind, reader, number = _reader(entry, planned, original)
    computed = kind
    if reader not in planned.op.originals and planned.op.originals:
        # A node that the om has no op of.
        computed = "%s (with %s %s before it)" % (planned.op.type, kind, reader)
    read = "output %d of %s (%s%s)" % (
        other.output,
        other.op.name,
        other.op.type,
        "" if other.value or other.is_constant else ", of no node of the model",
    )
    if other.is_constant:
        read = "the constant %s%s" % (other.op.name, _throughout(feed))
    apart = "" if np.isinf(off) else ", and what it read differs from that by " + percent(off)
    sentence = "the device computed %s with %s as its input %d; the model says %s%s%s" % (
        computed,
        read,
        number,
        _says(entry, original),
        _left_out(between, original),
        apart,
    )
    at = planned.op.name
    if other.view is not None:
        at, kind, reader = other.view.name, other.view.type, entry.producer
    return (
        sentence,
        "compare the inputs of %s in the om's json with those of %s %s in the original model: %s"
        % (
            at,
            kind,
            reader,
            "an input was made a constant when the model was exported or converted"
            if other.is_constant
            else "an edge was drawn otherwise, or an operator between was left out or added (a "
            "fusion, an edited model)",
        ),
    )


def _left_out(between: Sequence[int], original: Original) -> str:
    """Return the nodes that the device computed nothing of as an insertion; empty where there are
    none.
    """
    kinds = [original.model.types[number] for number in between]
    kinds = [kind.rpartition(".")[2] for kind in kinds if kind != "Constant"]
    return ", so it computed no %s between them" % ", ".join(kinds) if kinds else ""


def _throughout(feed: Feed) -> str:
    """Return the only value of a constant as an insertion; empty where it has several, or was not
    dumped.
    """
    if feed.assumed:
        return ""
    values = RecordedTensor(feed).wide()
    if not values.size or not np.all(values == values.reshape(-1)[0]):
        return ""
    return " (%g throughout)" % (values.reshape(-1)[0] or 0.0)


def _says(entry: CutInput, original: Original) -> str:
    """Return the value that the model says, with what it is in another shape."""
    text = _value(entry.producer, entry.output_index, original)
    before = original.unshaped((entry.producer, entry.output_index))
    if before == (entry.producer, entry.output_index):
        return text
    return "%s, which is that of %s" % (text, _value(*before, original))


def _value(node: str, output: int, original: Original) -> str:
    kind = _kind(node, original)
    if kind in _INPUTS:
        return "the network's input %s" % node
    return "output %d of %s (%s)" % (output, node, kind)


def other_shape(
    planned: PlannedOp, reader: PlannedOp, shape: ShapeRead, original: Original
) -> Tuple[str, str]:
    """Return what is said of the first input in another shape, and what to compare then.

    Parameters
    ----------
    planned, reader
        The op whose values are others for it, and the op that reads that input.
    """
    entry = reader.cut.inputs[shape.number]
    kind, _, _ = _reader(entry, reader, original)
    made_by = original.model.names[shape.views[-1]] if shape.views else entry.producer
    if shape.views:
        kind = reader.op.type
    made_by = ("%s %s" % (_kind(made_by, original), made_by)).strip()
    sentence = (
        "the device computed %s of an input in the shape %s; the model says %s, as %s makes it"
        % (kind, list(shape.read), list(shape.model), made_by)
    )
    return sentence + _first_to_differ(planned, reader), (
        "compare %s (its shape, axes or perm) as the om's json has it with the original model's"
        % made_by
    )


def other_output(
    planned: PlannedOp, maker: PlannedOp, made: Shape, model: Shape, original: Original
) -> Tuple[str, str]:
    """Return what is said of an op that is the first to make another shape, and what to compare
    then; ``planned`` is the op whose values are others for it.
    """
    name = maker.rows[0][0].golden_op or maker.op.name
    kind = _kind(name, original) or maker.op.type
    sentence = "the device makes the output of %s in the shape %s; the model says %s" % (
        kind, list(made), list(model),
    )  # fmt: skip
    ones = [[size for size in shape if size != 1] for shape in (made, model)]
    which = "keepdims, its axes" if ones[0] == ones[1] else "its shape, axes or perm"
    return sentence + _first_to_differ(planned, maker), (
        "compare %s %s (%s) as the om's json has it with the original model's" % (kind, name, which)
    )


def _first_to_differ(planned: PlannedOp, named: PlannedOp) -> str:
    """Return which op makes other values of a shape that another op has first."""
    if named is planned:
        return ""
    return "; the values of %s (%s), which reads it so, are others" % (
        planned.op.name,
        planned.op.type,
    )
