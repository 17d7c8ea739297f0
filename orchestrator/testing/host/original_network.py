"""The original model of a stand-in om, as its nodes are computed: one form for ONNX, Caffe and
TensorFlow.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...base.element_types import BY_NAME
from ...base.errors import InputError
from ...operators import CAFFE, ONNX, TENSORFLOW
from ...recomputing.original_nodes import CaffeNodes, Call, OnnxNodes, TfNodes
from ...recomputing.submodel.caffe_original import CaffeOriginal
from ...recomputing.submodel.onnx_original import OnnxOriginal
from ...recomputing.submodel.read_original import read_original
from ...recomputing.submodel.tf_original import INPUT_TYPES, MODEL_INPUTS, TfOriginal

Array = Any
Value = Tuple[int, int]
Shape = Tuple[int, ...]
FRAMEWORKS = {CAFFE: "0", TENSORFLOW: "3", ONNX: "5"}
"""Dialect to the number that atc's --framework has for it."""


class NetworkInput(NamedTuple):
    """An input: its name, the value that it gives, its type, and its shape as far as the model
    tells (-1: not).
    """

    name: str
    value: Value
    dtype: str
    shape: Optional[Shape]


class OriginalNetwork:
    """An original model.

    Parameters
    ----------
    path, weights
        The model, and of a prototxt its caffemodel.
    out_nodes
        ``name:index`` of the outputs that are wanted; none: those that the model tells.

    Attributes
    ----------
    dialect
        Of its nodes.
    inputs, outputs
        In the model's order.
    order
        Numbers of the nodes that are computed, each behind all that it reads.

    Raises
    ------
    InputError
        The model cannot be read, or an output is not there.
    """

    def __init__(
        self, path: str, weights: Optional[str] = None, out_nodes: Sequence[str] = ()
    ) -> None:
        self.original = read_original(path)
        self.path = path
        original = self.original
        self._calls: Dict[int, Call] = {}
        if isinstance(original, OnnxOriginal):
            self.dialect, self._nodes = ONNX, OnnxNodes(original)  # type: Tuple[str, Any]
            self.inputs = self._of_onnx(original)
        elif isinstance(original, CaffeOriginal):
            self.dialect, self._nodes = CAFFE, CaffeNodes(original, weights)
            self.inputs = self._of_caffe(original)
        else:
            self.dialect, self._nodes = TENSORFLOW, TfNodes(original)
            self.inputs = self._of_tensorflow(original)
        self.outputs = [self._named(text) for text in out_nodes] or self._results()
        fed = {entry.value[0] for entry in self.inputs}
        needed = original.graph.ancestors(number for number, _ in self.outputs if number >= 0)
        self.order = [
            number for number in original.graph.order() if number in needed and number not in fed
        ]

    def files(self) -> List[str]:
        """Return the files beside the model that hold weights of it."""
        return sorted(self.original.external) if isinstance(self.original, OnnxOriginal) else []

    def name(self, number: int) -> str:
        """Return a node's name."""
        return self.original.names[number]

    def type(self, number: int) -> str:
        """Return a node's type."""
        return self.original.types[number]

    def is_constant(self, number: int) -> bool:
        """Tell whether the compiler knows what a node makes: it depends on constants and on shapes
        only.
        """
        return self.original.is_constant(number)

    def readers(self, value: Value) -> List[int]:
        """Return the nodes that read a value."""
        return [number for number, _ in self.original.graph.reading.get(value, ())]

    def call(self, number: int) -> Call:
        """Return a node with its attributes and inputs; raises as
        :meth:`goldwatch.recomputing.original_nodes.Nodes.call`.
        """
        if number not in self._calls:
            self._calls[number] = self._nodes.call(number)
        return self._calls[number]

    def constant_name(self, number: int, place: int) -> str:
        """Return what the op of a constant input is called."""
        if isinstance(self.original, OnnxOriginal):
            first = len(self.original.model.graph.data_inputs)
            return "%s_%d" % (self.original.model.graph.nodes[number - first].inputs[place], place)
        words = ("weights", "bias", "factor")
        index = place - len(self.original.graph.sources[number])
        return "%s_%s" % (self.name(number), words[index] if 0 <= index < 3 else "const_%d" % place)

    def layout(self, rank: int) -> str:
        """Return what a tensor of so many axes is in the original: NCHW, NHWC or ND."""
        return ("NHWC" if self.dialect == TENSORFLOW else "NCHW") if rank == 4 else "ND"

    def _of_onnx(self, original: OnnxOriginal) -> List[NetworkInput]:
        inputs = []
        for number, value in enumerate(original.model.graph.data_inputs):
            dims = original.dims(value.name)
            shape = (
                None
                if dims is None
                else tuple(dim if isinstance(dim, int) and dim > 0 else -1 for dim in dims)
            )
            inputs.append(
                NetworkInput(
                    value.name, (number, 0), original.dtypes[number][0] or "float32", shape
                )
            )
        return inputs

    def _of_caffe(self, original: CaffeOriginal) -> List[NetworkInput]:
        shapes = original.shapes()
        inputs = [
            NetworkInput(name, (-1, k), "float32", shapes.get((-1, k)))
            for k, name in enumerate(original.input_fields)
        ]
        for number, kind in enumerate(original.types):
            if kind in MODEL_INPUTS:
                tops = enumerate(original.tensors[number])
                inputs += [
                    NetworkInput(top, (number, k), "float32", shapes.get((number, k)))
                    for k, top in tops
                ]
        return inputs

    def _of_tensorflow(self, original: TfOriginal) -> List[NetworkInput]:
        inputs = []
        with original.file.open() as opened:
            for number, node in enumerate(original.file.nodes):
                if node.op in INPUT_TYPES:
                    shape = original.file.shape(opened, node)
                    inputs.append(
                        NetworkInput(
                            node.name, (number, 0), original.dtypes[number][0] or "float32", shape
                        )
                    )
        return inputs

    def _results(self) -> List[Value]:
        original = self.original
        if isinstance(original, OnnxOriginal):
            makers = {
                name: (n, k)
                for n, names in enumerate(original.tensors)
                for k, name in enumerate(names)
                if name
            }
            return [
                makers[value.name] for value in original.model.graph.outputs if value.name in makers
            ]
        fed = {entry.value[0] for entry in self.inputs}
        ends = [
            number
            for number in range(len(original.names))
            if number not in fed and not self.is_constant(number)
        ]
        counts = {number: max(1, len(original.tensors[number])) for number in ends}
        if self.dialect == TENSORFLOW:
            return [
                (number, 0)
                for number in ends
                if not original.graph.readers[number] and self.type(number) != "NoOp"
            ]
        values = [(number, index) for number in ends for index in range(counts[number])]
        return [
            value
            for value in values
            if not self.readers(value) and self.type(value[0]) != "Silence"
        ]

    def _named(self, text: str) -> Value:
        name, _, index = text.strip().rpartition(":")
        numbers = self.original.numbers(name)
        if not numbers or not index.isdigit():
            raise InputError("no node is called %s" % (name or text))
        return numbers[0], int(index)

    def example(self, entry: NetworkInput, shape: Shape, seed: int) -> Array:
        """Return numbers for an input that suit any network: small ones, and zeros where whole
        numbers are wanted.
        """
        dtype = np.dtype(BY_NAME[entry.dtype].name)
        if dtype.kind != "f":
            return np.zeros(shape, dtype)
        return np.random.RandomState(seed).uniform(0.1, 1.0, shape).astype(dtype)


def read_network(path: str, weights: Optional[str], options: Mapping[str, str]) -> OriginalNetwork:
    """Return the network that atc's options name; raises as :class:`OriginalNetwork`."""
    out_nodes = [text for text in options.get("out_nodes", "").split(";") if text.strip()]
    return OriginalNetwork(os.path.abspath(path), weights, out_nodes)
