"""Definition of a cut for all frameworks: its nodes, incoming values and outgoing values."""

from __future__ import annotations

import os
from functools import partial
from typing import (
    BinaryIO,
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from ...base.errors import InputError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from .node_graph import NodeGraph, Value, reached

Shape = Tuple[int, ...]
Dims = Tuple[Optional[int], ...]
DeclaredType = Tuple[str, Optional[Dims]]
"""Type (empty: unknown) and shape (None: unknown, also for single dims) of a value."""

_QUANT, _DEQUANT = frozenset(["Quant", "AscendQuant"]), frozenset(["DeQuant", "AscendDequant"])


@dataclass(frozen=True)
class CutInput:
    """A value that is read inside and made outside, or the value of an unchanged input node.

    Attributes
    ----------
    name
        Of the new input: ``{first reader}_input_{bottom index}`` (Caffe), the producer's or
        ``{producer}_{index}`` (TensorFlow), the value's (ONNX; ``{value}_{k}`` where a node that
        stays has that name).
    tensor
        The blob (Caffe) or ``op:index`` (TensorFlow) in the original.
    producer, output_index
        The node that makes it in the original; of a Caffe net's ``input`` field the blob.
    value
        The same as numbers.
    kind
        ``start`` when a start node reads it, else ``side``.
    readers
        Names of the nodes inside that read it, and of each which of its inputs it is.
    dtype
        As numpy calls it (``bfloat16`` as such); empty where the original does not say: Caffe
        (float32, or an integer type where one was recorded), and ops that the table of
        :mod:`goldwatch.netfiles.tf_op_outputs` lacks.
    unchanged
        Whether the input node stays as it is in the original, so that nothing new is put in.
    """

    name: str
    tensor: str
    producer: str
    output_index: int
    value: Value
    kind: str
    readers: Tuple[Tuple[str, int], ...]
    dtype: str = ""
    unchanged: bool = False


@dataclass(frozen=True)
class CutOutput:
    """A value that is made inside and not read inside, or read outside too.

    Attributes
    ----------
    op, output_index
        The node and which of its outputs.
    tensor
        As :attr:`CutInput.tensor`.
    is_end
        Whether the node is an end of the cut; other outputs are by-products.
    """

    op: str
    output_index: int
    tensor: str
    is_end: bool


@dataclass(frozen=True)
class OutsideReader:
    """A node outside, ``reader``, that reads output ``output_index`` of ``op`` inside."""

    reader: str
    op: str
    output_index: int


@dataclass(frozen=True)
class Cut:
    """One cut; what it holds depends on nothing but the original's graph.

    Attributes
    ----------
    layers
        Numbers of the nodes that stay, in the order of the file: those asked for and those pulled
        in.
    pulled
        Those of them that the rules of :mod:`goldwatch.recomputing.submodel.tf_original` pulled in
        (constants, loops, conditionals).
    inputs, outputs, outside_readers
        What crosses the border.
    dropped_controls, dropped_colocations
        ``(node, other)`` of TensorFlow's control edges and colocations that lead outside and are
        removed.
    """

    layers: Tuple[int, ...]
    pulled: Tuple[int, ...]
    inputs: Tuple[CutInput, ...]
    outputs: Tuple[CutOutput, ...]
    outside_readers: Tuple[OutsideReader, ...]
    dropped_controls: Tuple[Tuple[str, str], ...] = ()
    dropped_colocations: Tuple[Tuple[str, str], ...] = ()


class CutFile(NamedTuple):
    """A file of a cut: its name, how many bytes it has at most, and what writes it."""

    name: str
    nbytes: int
    write: Callable[[BinaryIO], None]


class NamedNodes:
    """What is asked of an original model of any framework, answered as where there is nothing
    to say.

    Attributes
    ----------
    weights_apart
        Whether the weights are in a file of their own.
    is_v1
        Whether the inputs that a cut adds are called as their tensors.
    input_noun
        What an input is in the file.
    image_layout
        The layout of all values that have four axes; empty where each node may have its own.
    """

    names: List[str]
    tensors: List[List[str]]
    graph: NodeGraph
    quantised: Set[int]
    noun: str
    path: Optional[str]
    file_name: str
    # Writes the one file of a cut: cut, inputs (as of files), stream. ONNX, whose external data
    # have a file of their own, has `files` instead.
    write: Callable[[Cut, Mapping[str, Tuple[str, Shape]], BinaryIO], None]
    weights_apart = False
    is_v1 = False
    input_noun = ""
    image_layout = ""
    _numbers: Dict[str, List[int]]

    def numbers(self, name: str) -> List[int]:
        """Return the numbers of the nodes of this name in a list, empty where there is none."""
        return list(self._numbers.get(name, ()))

    def lines(self, numbers: Iterable[int]) -> str:
        """Return an empty text: the file has no lines."""
        return ""

    def weighted(self, number: int) -> bool:
        """Return False: the model holds its weights."""
        return False

    def is_data(self, number: int) -> bool:
        """Return whether a node reads data by itself, which a cut replaces by inputs: only layers
        of Caffe do.
        """
        return False

    def dims(self, tensor: str) -> Optional[Dims]:
        """Return a value's shape as far as the model tells it, None for an unknown dim; None:
        nothing is known.
        """
        return None

    def declared(self) -> Dict[str, Tuple[Union[int, str, None], ...]]:
        """Return the shapes that the file gives to values and weights, by their names: a name for a
        dim that has one, None for one that is not known.
        """
        return {}

    def weight_shapes(self, number: int, shapes: Mapping[Value, Shape]) -> List[Shape]:
        """Return the shapes of a node's weights that no value has, as far as its inputs' shapes
        lead to them.
        """
        return []

    def unmade_name(self, number: int, place: int) -> str:
        """Return what a node calls an input that no node makes, weights for one; empty if it has no
        name.
        """
        return ""

    def control_inputs(self, number: int) -> Sequence[int]:
        """Return the nodes that a node waits for without reading a value of theirs."""
        return ()

    def value_shapes(self) -> Dict[Tuple[str, int], Shape]:
        """Return the shapes of values by their node's name and output, as the model tells them."""
        return {}

    def completed_shapes(self, known: Mapping[Value, Shape]) -> Dict[Value, Shape]:
        """Return known shapes and those to which they lead by the rules of the ops."""
        return dict(known)

    def refuse_read_in_bodies(self, cut: Cut) -> None:
        """Raise InputError where a body reads a value whose name in the cut is another one."""

    def ends_to_declare(self, cut: Cut) -> List[Tuple[CutOutput, int, str]]:
        """Return the ends of a cut whose types its file declares: each with its node's number and
        its type, empty if unknown.
        """
        return []

    def files(
        self,
        cut: Cut,
        inputs: Mapping[str, Tuple[str, Shape]],
        ends: Mapping[str, DeclaredType],
    ) -> List[CutFile]:
        """Return the files of a cut, to be written.

        Parameters
        ----------
        inputs, ends
            Type and shape of its inputs, and of the values of its ends, by their names.
        """
        size = os.path.getsize(self.path or "")
        return [CutFile(self.file_name, size, partial(self.write, cut, inputs))]

    def piece_text(self, cut: Cut, shapes: Mapping[str, Shape]) -> str:
        """Return a few nodes as a model of their own in text; empty where the file is no text.

        Parameters
        ----------
        shapes
            Of each new input by its name.
        """
        return ""

    def input_text(self, entry: CutInput, dtype: str, shape: Shape) -> str:
        """Return an input as the cut's file has it; of a model that is no text, as words."""
        return "name: %s\nop: %s\ndtype: %s\nshape: %s\n" % (
            printable(entry.name),
            self.input_noun,
            dtype,
            list(shape),
        )

    def _readers(self, value: Value, inside: Collection[int]) -> Tuple[Tuple[str, int], ...]:
        """Return the names of the nodes inside that read a value, and of each which of its inputs
        it is.
        """
        return tuple(
            (self.names[number], place)
            for number, place in self.graph.reading.get(value, ())
            if number in inside
        )

    def _kind(self, value: Value, inside: Collection[int], starts: Collection[int]) -> str:
        """Return which kind of input a value is: ``start`` when a start node inside reads it, else
        ``side``.
        """
        return (
            "start"
            if any(
                number in starts and number in inside
                for number, _ in self.graph.reading.get(value, ())
            )
            else "side"
        )

    def _crossing(self, inside: Collection[int]) -> List[Value]:
        """Return the values that nodes inside read and none of them makes, each once."""
        return list(
            dict.fromkeys(
                value
                for number in sorted(inside)
                for value in self.graph.sources[number]
                if value[0] not in inside
            )
        )

    def _outputs_of(
        self, inside: Set[int], pulled: Set[int], ends: Optional[Collection[int]]
    ) -> Tuple[Tuple[CutOutput, ...], Tuple[OutsideReader, ...]]:
        """Return the outputs of a cut and their readers outside.

        Parameters
        ----------
        pulled
            Nodes that came along: their values are no outputs, and who else reads them is of no
            interest.
        ends
            Nodes all of whose outputs are ends; None: every node whose value no node inside reads.
        """
        outputs: List[CutOutput] = []
        outside: List[OutsideReader] = []
        for number in sorted(inside - pulled):
            readers = self.graph.readers[number]
            within = {index for reader, _, index in readers if reader in inside}
            beyond = [(reader, index) for reader, _, index in readers if reader not in inside]
            for reader, index in dict.fromkeys(beyond):
                outside.append(OutsideReader(self.names[reader], self.names[number], index))
            read = {index for _, index in beyond}
            for index, tensor in enumerate(self.tensors[number]):
                is_end = number in ends if ends is not None else not within
                if is_end or index in read or index not in within:
                    outputs.append(CutOutput(self.names[number], index, tensor, is_end))
        return tuple(outputs), tuple(outside)

    def _refuse_quantised(self, inside: Set[int], ends: Optional[Collection[int]]) -> None:
        """Check that a cut neither begins nor ends in a quantised part of the model.

        Raises
        ------
        InputError
            A value that holds integers comes in, or is an end.
        """
        sources = {source for number in inside for source, _ in self.graph.sources[number]}
        coming = sorted((sources & self.quantised) - inside)
        handed = [
            number
            for number in sorted(self.quantised & inside)
            if number not in sources or number in (ends or ())
        ]
        for number in coming + handed:
            side = (
                "start before the quantising %s, or behind"
                if number in coming
                else "end before the quantising %s, or at"
            )
            raise InputError(
                "the border lies between a quantising and a dequantising %s: %s holds int8 values "
                "that have no counterpart" % (self.noun, printable(self.names[number])),
                hint=(side + " the dequantising one") % self.noun,
            )


def numbers_of(names: Sequence[str]) -> Dict[str, List[int]]:
    """Return the numbers of the nodes of each name."""
    numbers: Dict[str, List[int]] = {}
    for number, name in enumerate(names):
        numbers.setdefault(name, []).append(number)
    return numbers


def quantised(graph: NodeGraph, types: Sequence[str]) -> Set[int]:
    """Return the nodes whose values are integers: from one that quantises to before one that
    dequantises.
    """
    quantising = [number for number, kind in enumerate(types) if kind in _QUANT]
    return reached(
        quantising,
        lambda number: (
            reader for reader, _, _ in graph.readers[number] if types[reader] not in _DEQUANT
        ),
    )
