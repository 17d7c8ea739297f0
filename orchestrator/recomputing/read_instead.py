"""Inputs of an op that the om feeds from another tensor than the original model says, or in another
shape: an edge that the converter drew otherwise, an operator that it left out or added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..model.op_node import TensorDesc, desc_at
from ..operators import CannotCompute
from ..tensors.tensor import Tensor
from .input_feeds import Feed, OtherSource
from .original_cuts import Original
from .read_instead_wording import ShapeRead, other_output, other_shape, other_tensor
from .recomputed_output import Recomputed
from .recorded_tensor import RecordedTensor
from .replay_plan import PlannedOp
from .step_ops import StepOps
from .submodel.cut_definition import Cut, CutInput

Array = Any
Shape = Tuple[int, ...]

_ANOTHER = 0.05
"""Relative distance from which on two tensors are not one: bfloat16 rounds by 0.004, quantising to
int8 by about 0.01. Chosen; no trial."""
_NEARER = 10.0
"""By how many times an input is nearer to golden data of what the om feeds it with than to those of
what the model says, where the device has no output that holds these. Chosen; no trial."""
_MOST_BETWEEN = 16
"""Nodes between what was read and what the model says: Gelu and a bias are 9. Chosen; no trial."""
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
    sentence
        What the device read, and what the model says.
    next
        What to compare then.
    maker
        The op that made another shape than the model says, and which of its outputs; None: the op
        that reads is the first that has another.
    """

    sentence: str
    next: str
    maker: Optional[Tuple[str, int]] = None


class Readings(NamedTuple):
    """An op with what it read, and with what the model says that it reads.

    Attributes
    ----------
    as_read, of_model
        The op with these inputs; the one that was given where they are its own.
    told
        What is otherwise.
    """

    as_read: PlannedOp
    of_model: PlannedOp
    told: Tuple[ReadInstead, ...]


class ReadOtherwise:
    """Finds inputs of the ops of a step that are others than the model says."""

    def __init__(self, step: StepOps) -> None:
        self._planned, self._feeder, self._original = (
            dict(step.planned),
            step.plan.feeder,
            step.original,
        )
        self._step, self._shapes, self._recorded = step, step.shapes, step.held

    def find(self, planned: PlannedOp) -> Optional[Readings]:
        """Return what an op read, and what the model says; None where both are the same.

        Raises
        ------
        NotComparable, NotComputable, GoldwatchError, MemoryError
            A tensor cannot be read.
        """
        as_read, of_model = list(planned.feeds), list(planned.feeds)
        told: List[ReadInstead] = []
        shapes: List[ShapeRead] = []
        for number, (entry, feed) in enumerate(zip(planned.cut.inputs, planned.feeds)):
            if feed.other is not None and not self._is_told_before(planned, feed.other):
                between = self._between(entry, feed.other)
                model, off = self._of_model(planned, entry, feed, feed.other, between)
                if model is not None:
                    of_model[number] = model
                    told.append(
                        ReadInstead(
                            *other_tensor(
                                planned, entry, feed, feed.other, off, between, self._original
                            )
                        )
                    )
            elif feed.other is None and not feed.assumed:
                shape = self._other_shape(planned, number)
                if shape is not None:
                    shapes.append(shape)
        cut = planned.cut
        for shape in shapes:
            entry = cut.inputs[shape.number]
            values = self._recorded(planned, entry, planned.feeds[shape.number]).wide()
            as_read[shape.number] = _in_shape(values, shape.read)
            if shape.views:
                cut = _without_views(cut, shape, self._original)
            elif values.shape != shape.model:
                of_model[shape.number] = _in_shape(values, shape.model)
            told.append(self._told(planned, shape))
        if not told:
            return None
        return Readings(
            replace(planned, cut=cut, feeds=tuple(as_read)) if shapes else planned,
            planned
            if all(one is other for one, other in zip(of_model, planned.feeds))
            else replace(planned, feeds=tuple(of_model)),
            tuple(told),
        )

    def _is_told_before(self, planned: PlannedOp, other: OtherSource) -> bool:
        """Tell whether an op reads another tensor through one that does so itself: a Cast."""
        names = [source[0] for source in planned.op.inputs if source is not None]
        while names:
            name = names.pop()
            op, reader = self._step.graph.op(name), self._planned.get(name)
            if op is None or name == other.op.name:
                continue
            feeds = () if reader is None else reader.feeds
            if any(feed.other is not None and feed.other.op == other.op for feed in feeds):
                return True
            sources = [source[0] for source in op.inputs if source is not None]
            names += sources if len(sources) == 1 else []
        return False

    def _other_shape(self, planned: PlannedOp, number: int) -> Optional[ShapeRead]:
        """Return in which shape an input is read, where that is another than the model says."""
        entry, feed = planned.cut.inputs[number], planned.feeds[number]
        held = self._recorded(planned, entry, feed)
        shape = held.wide().shape if held.shape is None else held.shape
        views = self._original.views_behind(entry.value, planned.cut.layers)
        name = self._original.model.names[views[-1]] if views else entry.producer
        model = self._shapes.get((name, 0 if views else entry.output_index))
        count = element_count(shape)
        if model is None or element_count(model) != count:
            return None
        read = feed.read_shape
        if not views and len(shape) == len(model) and shape != model:
            read = shape
        if (
            read is None
            or read == model
            or min(read, default=1) < 0
            or element_count(read) != count
        ):
            return None
        return ShapeRead(number, read, model, tuple(views))

    def _told(self, planned: PlannedOp, shape: ShapeRead) -> ReadInstead:
        """Return what is said of an input in another shape: of the first op on the way to it of
        which that is true.
        """
        reader = planned
        while True:
            source = reader.feeds[shape.number].source
            maker = None if source is None else self._planned.get(source[0].name)
            made = None if maker is None or source is None else self._made(maker, source[1])
            if maker is None or made is None:
                first = None if reader is planned else (reader.op.name, _first_output(reader))
                break
            others = [self._other_shape(maker, number) for number in range(len(maker.feeds))]
            before = next((other for other in others if other is not None), None)
            if before is None:
                return ReadInstead(
                    *other_output(planned, maker, *made, self._original),
                    (maker.op.name, source[1] if source is not None else 0),
                )
            reader, shape = maker, before
        return ReadInstead(*other_shape(planned, reader, shape, self._original), first)

    def _made(self, maker: PlannedOp, output: int) -> Optional[Tuple[Shape, Shape]]:
        """Return in which shape the device has an output, and the model; None where that is the
        same, or not known.
        """
        plan = next((plan for plan, _ in maker.rows if (plan.tensor_index or 0) == output), None)
        shape = desc_at(maker.op.output_descs, output).origin_shape
        if plan is None or shape is None:
            return None
        model = self._shapes.get((plan.golden_op or "", plan.golden_index or 0))
        if model is None or model == shape or min(shape, default=1) < 0:
            return None
        return (shape, model) if element_count(model) == element_count(shape) else None

    def _between(self, entry: CutInput, other: OtherSource) -> List[int]:
        """Return the nodes that make the value that the model says of the one that was read, where
        no other op of the om is made from any of them; empty where there are none.
        """
        model = self._original.model
        nodes: List[int] = []
        waiting, is_reached = list(model.numbers(entry.producer)), False
        while waiting and len(nodes) < _MOST_BETWEEN:
            number = waiting.pop()
            if number in nodes:
                continue
            nodes.append(number)
            for producer, output in model.graph.sources[number]:
                if producer >= 0:
                    value = (model.names[producer], output)
                    is_reached |= value == other.value
                    if value != other.value and not self._feeder.holds(*value):
                        waiting.append(producer)
        elsewhere = (one.originals for one in self._step.graph.ops if one.name != other.op.name)
        computed = {name for originals in elsewhere for name in originals or ()}
        is_between = is_reached and not waiting
        is_between &= computed.isdisjoint(model.names[number] for number in nodes)
        return sorted(nodes) if is_between else []

    def _made_between(
        self,
        planned: PlannedOp,
        entry: CutInput,
        feed: Feed,
        other: OtherSource,
        between: Sequence[int],
    ) -> Optional[Array]:
        """Return what the nodes between make of what was read; None where that cannot be
        computed.
        """
        names = [self._original.model.names[number] for number in between]
        try:
            cut = self._original.cut(names, [(entry.producer, entry.output_index)])
            feeds = [
                feed
                if (one.producer, one.output_index) == other.value
                else self._feeder.of_model(one)[0]
                for one in cut.inputs
            ]
            known = tuple(one for one in feeds if one is not None)
            if len(known) < len(feeds):
                return None
            made = replace(planned, cut=cut, feeds=known)
            return self._step.whole_values(made, self._step.inputs(made))[entry.value].array
        except (CannotCompute, KeyError):
            return None

    def _of_model(
        self,
        planned: PlannedOp,
        entry: CutInput,
        feed: Feed,
        other: OtherSource,
        between: Sequence[int],
    ) -> Tuple[Optional[Feed], float]:
        """Return what holds the value that the model says, None where it is the same tensor or
        nothing tells; and how far off it is.
        """
        if feed.assumed:
            # The constant was not dumped: what is computed is of golden data.
            return feed, np.inf
        model, is_recorded = self._feeder.of_model(entry)
        if model is None:
            return None, 0.0
        device = self._recorded(planned, entry, feed).wide()
        golden = self._recorded(planned, entry, model).wide()
        off = _distance(device, golden)
        if is_recorded or off <= _ANOTHER or other.is_constant:
            return (model if off > _ANOTHER else None), off
        # Golden data are not the device's: errors from before lie between.
        fed = (
            self._feeder.copied(other.op)
            if other.value is None
            else self._feeder.golden_of(other.value)
        )
        if fed is None:
            # Golden data of what was made from it tell as well that it is the model's value.
            made = self._made_between(planned, entry, feed, other, between)
            near = made is not None and _NEARER * _distance(made, golden) < off
            return (model if near else None), off
        same = _distance(device if other.value else golden, RecordedTensor(fed).wide())
        return (model if _NEARER * same < off else None), off


def _in_shape(values: Array, shape: Shape) -> Feed:
    return Feed(Tensor.from_array(values.reshape(shape)), TensorDesc(), as_read=True)


def _without_views(cut: Cut, shape: ShapeRead, original: Original) -> Cut:
    """Return a cut that begins behind what only reshapes an input."""
    entry, last = cut.inputs[shape.number], shape.views[-1]
    inputs = list(cut.inputs)
    inputs[shape.number] = replace(
        entry, producer=original.model.names[last], output_index=0, value=(last, 0)
    )
    layers = tuple(number for number in cut.layers if number not in shape.views)
    return replace(cut, layers=layers, inputs=tuple(inputs))


def _first_output(planned: PlannedOp) -> int:
    return planned.rows[0][0].tensor_index or 0


def follow(outputs: Sequence[Recomputed]) -> bool:
    """Tell whether outputs are what is computed, up to rounding."""
    errors = [one.loose or one.tight for one in outputs]
    return all(
        one is not None and not one.unequal and not one.not_finite and one.ratio <= _FOLLOWS
        for one in errors
    )


def makes_another(read: Sequence[Recomputed], model: Sequence[Recomputed]) -> bool:
    """Tell whether outputs follow from what was read, and not from what the model says.

    Parameters
    ----------
    read, model
        The outputs of an op beside what is computed of the one and of the other.
    """
    pairs = [(one.tight, other.tight) for one, other in zip(read, model)]
    return follow(read) and any(
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
    """Return ‖x − y‖ / ‖y‖ over what is finite in both, of indices the share that differs;
    infinity of other sizes.
    """
    if x.size != y.size:
        return np.inf
    if all(side.dtype.kind in "iub" and side.dtype.itemsize > 1 for side in (x, y)):
        return float(np.mean(x.reshape(-1) != y.reshape(-1))) if x.size else 0.0
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (x, y))
    counted = np.isfinite(x) & np.isfinite(y)
    size = float(np.linalg.norm(y[counted]))
    off = float(np.linalg.norm((x - y)[counted]))
    return off / size if size else (np.inf if off else 0.0)
