"""Which node made NaN or infinite values of golden data itself, and did not only pass on what a
constant holds.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterator, Mapping, Sequence, Tuple

import numpy as np

from ...netfiles.narrow_types import is_narrow
from ...netfiles.onnx_arrays import tensor_array
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_types import TYPES
from ...netfiles.onnx_value_headers import OnnxTensor
from ..nonfinite import NOT_FINITE, count_not_finite
from .randomness import constants_of


class Makers:
    """Tells of the manifest's entries whether what is not finite is their node's own.

    Parameters
    ----------
    tensors
        All entries.
    masks
        The inputs of the model whose infinite values are all negative, and which have no NaN.
    """

    def __init__(
        self, model: OnnxModel, tensors: Sequence[Mapping[str, Any]], masks: Collection[str]
    ) -> None:
        self._model, self._masks = model, masks
        self._found = {e["value"]: e[NOT_FINITE] for e in tensors if NOT_FINITE in e}
        self._nodes: Dict[str, OnnxNode] = {}
        if self._found:
            self._nodes = {
                name: node
                for node in model.graph.nodes
                for name in node.outputs
                if name in self._found
            }
            self._constants = constants_of(model)

    def __call__(self, entry: Mapping[str, Any]) -> bool:
        """Tell whether a node made NaN of values without NaN, such as a Softmax of a row that a
        mask covers completely, or infinite values of finite ones; of a node in a branch of an If
        that is not known.
        """
        if entry["type"] == "Input":
            return entry["value"] not in self._masks
        node = self._nodes.get(entry["value"])
        if node is None:
            return False
        read = [self._found[name] for name in node.inputs if name in self._found]
        counts = [(each["nan"], each["inf"]) for each in read]
        counts += [self._count(tensor) for tensor in self._tensors(node)]
        if entry[NOT_FINITE]["nan"]:
            return not any(nan for nan, _ in counts)
        return not any(nan or infinite for nan, infinite in counts)

    def _tensors(self, node: OnnxNode) -> Iterator[OnnxTensor]:
        yield from node.tensors.values()
        for name in node.inputs:
            if name in self._constants:
                yield self._constants[name]

    def _count(self, tensor: OnnxTensor) -> Tuple[int, int]:
        """Return how many values of a constant are NaN, and how many infinite; one that lies in
        another file counts as finite.
        """
        entry = TYPES.get(tensor.dtype)
        if (
            entry is None
            or tensor.external is not None
            or not (is_narrow(entry.name) or np.dtype(entry.numpy or "u1").kind == "f")
        ):
            return 0, 0
        with self._model.open() as file:
            return count_not_finite(tensor_array(self._model.path, file, tensor))
