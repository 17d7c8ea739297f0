"""Which values of a model come out of random numbers, directly or behind a node that draws them."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Sequence, Set, Tuple

import numpy as np

from ...netfiles.onnx_arrays import tensor_array
from ...netfiles.onnx_model import OnnxGraph, OnnxModel, OnnxNode
from ...netfiles.onnx_value_headers import OnnxTensor
from ...netfiles.protobuf_file import WireFile

DRAWING = frozenset(
    [
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    ],
)


class Randomness:
    """What a model's nodes draw.

    Parameters
    ----------
    file
        The model's open file.
    inputs
        What the model's inputs are fed with, by name.
    """

    def __init__(self, model: OnnxModel, file: WireFile, inputs: Mapping[str, np.ndarray]) -> None:
        self._model, self._file, self._inputs = model, file, inputs
        self._constants = constants_of(model)

    def mark(self, nodes: Sequence[OnnxNode], tainted: Set[str]) -> None:
        """Add the outputs of those nodes that draw, or read what was drawn, to the set of values
        (nodes in topological order).
        """
        for node in nodes:
            if self.draws(node) or any(name in tainted for name in reads(node)):
                tainted.update(name for name in node.outputs if name)

    def draws(self, node: OnnxNode, within: Tuple[Tuple[str, str], ...] = ()) -> bool:
        """Tell whether a node draws random numbers: itself, in a body, or in the function that it
        calls.

        Parameters
        ----------
        within
            The functions that are looked into: one that calls itself is not followed.
        """
        if node.domain in ("", "ai.onnx") and (
            node.op_type in DRAWING or (node.op_type == "Dropout" and self._trains(node))
        ):
            return True
        key = (node.domain, node.op_type)
        bodies = [graph.nodes for graph in node.graphs.values()]
        if key in self._model.functions and key not in within:
            bodies.append(self._model.functions[key])
            within += (key,)
        return any(self.draws(inner, within) for body in bodies for inner in body)

    def training(self, nodes: Sequence[OnnxNode]) -> List[bool]:
        """Tell of each node whether it computes as in training: a BatchNormalization with the
        statistics of the batch, a Dropout that drops.
        """
        return [
            node.domain in ("", "ai.onnx")
            and (
                (node.op_type == "Dropout" and self._trains(node))
                or (
                    node.op_type == "BatchNormalization"
                    and bool(self._model.attr_int(self._file, node, "training_mode"))
                )
            )
            for node in nodes
        ]

    def _trains(self, node: OnnxNode) -> bool:
        """Tell whether a Dropout drops: its third input (since opset 12) says so; one that is only
        known later may.
        """
        if len(node.inputs) < 3 or not node.inputs[2]:
            return False
        if node.inputs[2] in self._inputs:
            return bool(self._inputs[node.inputs[2]].any())
        mode = self._constants.get(node.inputs[2])
        return (
            mode is None
            or mode.external is not None
            or bool(tensor_array(self._model.path, self._file, mode).any())
        )


def reads(node: OnnxNode) -> Iterator[str]:
    """Yield the values that a node reads, those that its bodies take from outside among them (and,
    harmlessly, their own).
    """
    yield from (name for name in node.inputs if name)
    for graph in node.graphs.values():
        for inner in graph.walk():
            for each in inner.nodes:
                yield from (name for name in each.inputs if name)
            yield from (value.name for value in inner.outputs)


def constants_of(model: OnnxModel) -> Dict[str, OnnxTensor]:
    """Return the initializers and the values of Constants, but for those that somebody may feed."""
    constants: Dict[str, OnnxTensor] = {}
    graphs: List[OnnxGraph] = list(model.graph.walk())
    for graph in graphs:
        constants.update(graph.initializers)
        constants.update(
            {
                node.outputs[0]: node.tensors["value"]
                for node in graph.nodes
                if node.outputs and "value" in node.tensors
            }
        )
    for value in model.graph.inputs:
        # The user may feed it.
        if model.ir_version >= 4:
            constants.pop(value.name, None)
    return constants
