"""The original model, from which the nodes of one device op are cut to be computed again: its
values, and the cut of an op's originals."""

from __future__ import annotations

import os
from typing import (
    TYPE_CHECKING,
    Callable,
    Collection,
    Iterable,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    cast,
)

from ..base.errors import InputError
from ..model.graph import ModelGraph
from ..operators.registry import InTraining
from .recomputed_output import NotComputable
from .submodel.cut_definition import Cut
from .submodel.device_ops import KEEPING, held_nodes
from .submodel.node_graph import reached
from .submodel.read_original import Output, outputs_in, read_original

if TYPE_CHECKING:
    from .submodel.onnx_original import OnnxOriginal

Value = Output
_JOINS = ("Exit", "RefExit", "Merge", "RefMerge")
_LOOKED_THROUGH = KEEPING | {"Cast"}
_MOST_LOST = 16
"""Nodes before those of one op that are none of any op's: a normalisation in parts is 9. Chosen, no
trial."""
_RANDOM = ("Multinomial", "TruncatedNormal", "ParameterizedTruncatedNormal")


class Original:
    """A model of Caffe, ONNX or TensorFlow.

    Parameters
    ----------
    path
        A prototxt, an .onnx or a frozen .pb.

    Attributes
    ----------
    kind
        ``caffe``, ``onnx`` or ``tensorflow``.
    model
        The model as it is cut.
    node
        What its parts are called: ``layer`` or ``node``.

    Raises
    ------
    InputError, FormatError, MissingPath
        The file is of another kind, or broken.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.model = read_original(path)
        self.kind = self.model.kind
        self._onnx: Optional[OnnxOriginal] = None
        if self.kind == "onnx":
            self._onnx = cast("OnnxOriginal", self.model)
        self.node = self.model.noun
        self._values = outputs_in(self.model)
        self._folded: Set[int] = set()

    def fold(self, computed: Iterable[str], is_dumped: Callable[[str], bool]) -> None:
        """Register the originals of the device ops. In an ONNX model other nodes that only move
        values are included in cuts.

        The compiler removes such nodes, so their inputs are recorded and their outputs are not.
        Nodes that depend on constants or shapes alone are included too, unless the device computes
        them, because a shape is unknown before the run or a weight is dequantised.

        Parameters
        ----------
        is_dumped
            Tells whether the output of an original was dumped.
        """
        if self._onnx is not None:
            device_nodes = {number for name in computed for number in self.model.numbers(name)}
            names = self.model.names
            self._onnx.compute_on_device(device_nodes, lambda number: is_dumped(names[number]))
            self._folded = {
                number
                for number, kind in enumerate(self.model.types)
                if kind in KEEPING and number not in device_nodes
            }

    def has(self, op: str, index: int) -> bool:
        """Return whether the model has such a value."""
        return (op, index) in self._values

    def unshaped(self, value: Value) -> Value:
        """Return the value that one holds in another shape, before nodes that only reshape."""
        numbers = self.model.numbers(value[0])
        while len(numbers) == 1 and self.model.types[numbers[0]] in KEEPING:
            sources = self.model.graph.sources[numbers[0]]
            if not sources or sources[0][0] < 0:
                break
            numbers, value = [sources[0][0]], (self.model.names[sources[0][0]], sources[0][1])
        return value

    def views_behind(self, value: Tuple[int, int], layers: Collection[int]) -> List[int]:
        """Return the nodes of a cut that only reshape a value that comes in, in their order; empty
        where another node reads it in its own shape.
        """
        views: List[int] = []
        while True:
            reading = self.model.graph.reading.get(value, ())
            readers = [reader for reader in reading if reader[0] in layers]
            if len(readers) != 1 or self.model.types[readers[0][0]] not in KEEPING:
                return views
            views.append(readers[0][0])
            value = (views[-1], 0)

    def outputs_of_no_op(self, om: ModelGraph) -> List[Tuple[str, str]]:
        """Return those outputs of an ONNX model that no op of an om is made from, each with the
        node that makes it: its type and name. What only reshapes or casts is looked through.
        """
        if self._onnx is None:
            return []
        model, sources = self._onnx, self.model.graph.sources
        computed = {
            number
            for op, each in held_nodes(om, self.model)
            if not op.no_task
            for numbers in each
            for number in numbers
        }
        found = []
        for output, number in model.ends():
            while number not in computed and model.types[number] in _LOOKED_THROUGH:
                number = sources[number][0][0] if sources[number] else -1
                if number < 0:
                    break
            is_input = number < 0 or model.types[number] == "Input"
            if not is_input and number not in computed and not model.is_constant(number):
                found.append((output, "%s %s" % (model.types[number], model.names[number])))
        return found

    def undefined(self, op: str, index: int) -> bool:
        """Return whether a value is undefined memory: in inference only the first output of
        TensorFlow's FusedBatchNorm is defined.
        """
        numbers = self.model.numbers(op)
        return (
            index > 0
            and bool(numbers)
            and self.model.types[numbers[0]].startswith("FusedBatchNorm")
        )

    def joins(self, op: str) -> bool:
        """Return whether an op is the end of TensorFlow's loop or conditional."""
        numbers = self.model.numbers(op)
        return (
            self.kind == "tensorflow" and bool(numbers) and self.model.types[numbers[0]] in _JOINS
        )

    def uses_shape_of(self, op: str) -> bool:
        """Return whether a node uses only the shapes of its inputs."""
        numbers = self.model.numbers(op)
        return bool(numbers) and self.model.types[numbers[0]] in ("Shape", "Size", "ShapeN", "Rank")

    def training(self, numbers: Iterable[int]) -> Optional[InTraining]:
        """Return what is to be said of the first of some nodes that is in training mode; None where
        none is.
        """
        for number in numbers:
            if self._onnx is not None and self._onnx.is_in_training(number):
                return InTraining(
                    "%s (%s)" % (self.model.names[number], self.model.types[number]),
                    " in the original model, and an om computes otherwise: export the model with "
                    "model.eval(), and make golden data again",
                )
        return None

    def between(self, originals: Sequence[str], claimed: Collection[str]) -> List[str]:
        """Return the nodes between two of an op's originals that are none of any op's: they were
        folded into one of these, or got lost.
        """
        if len(originals) < 2:
            return []
        model, sources = self.model, self.model.graph.sources
        own = {number for name in originals for number in model.numbers(name)}
        before: List[int] = []
        waiting = [producer for number in own for producer, _ in sources[number]]
        while waiting:
            number = waiting.pop()
            if number < 0 or number in own or number in before or model.names[number] in claimed:
                continue
            before.append(number)
            if len(before) > _MOST_LOST:
                return []
            waiting += [producer for producer, _ in sources[number]]
        found: Set[int] = set()
        for number in sorted(before):
            if any(producer in own or producer in found for producer, _ in sources[number]):
                found.add(number)
        return [model.names[number] for number in sorted(found)]

    def cut(self, originals: Iterable[str], outputs: Sequence[Value]) -> Cut:
        """Return the cut of those of an op's originals that its outputs need.

        Parameters
        ----------
        originals
            The layers that the op was made from.
        outputs
            The values that the op computes; each is of one of the originals.

        Raises
        ------
        NotComputable
            An original is not in the model, an output is another's, or the border cannot be cut.
        """
        names = [
            name for name in originals if self.model.numbers(name) or not self._is_weight(name)
        ]
        unknown = [name for name in names if len(self.model.numbers(name)) != 1]
        if unknown:
            raise NotComputable(
                "its original %s is not one %s of %s"
                % (unknown[0], self.node, os.path.basename(self.path))
            )
        members = {self.model.numbers(name)[0] for name in names}
        foreign = [name for name, _ in outputs if name not in names]
        if foreign:
            raise NotComputable(
                "its output is that of %s, which is none of its originals" % foreign[0]
            )
        ends = {self.model.numbers(name)[0] for name, _ in outputs}
        needed = self._needed(members, ends)
        trained = self.training(sorted(needed))
        if trained is not None:
            raise trained
        for number in sorted(needed):
            if self._is_random(number):
                raise NotComputable(
                    "%s (%s) gives other values each time"
                    % (self.model.names[number], self.model.types[number])
                )
        try:
            return self.model.cut(needed, (), ends)
        except InputError as error:
            raise NotComputable(error.message) from None

    def _needed(self, members: Iterable[int], ends: Iterable[int]) -> List[int]:
        """Return the members whose data reaches an end through members, and the folded nodes before
        them."""
        inside = set(members) | self._folded
        return sorted(
            reached(
                ends,
                lambda number: (
                    producer
                    for producer, _ in self.model.graph.sources[number]
                    if producer in inside
                ),
            )
        )

    def _is_weight(self, name: str) -> bool:
        return self._onnx is not None and self._onnx.is_weight(name)

    def knows(self, name: str) -> bool:
        """Return whether an original of a device op is of this model: a node, one in a body of a
        node, weights.
        """
        return bool(self.model.numbers(name)) or name in self.model.inner or self._is_weight(name)

    def _is_random(self, number: int) -> bool:
        kind = self.model.types[number]
        if self.kind == "caffe":
            return kind == "DummyData"
        if self._onnx is not None:
            return self._onnx.is_random(number)
        return kind.startswith(("Random", "StatelessRandom")) or kind in _RANDOM
