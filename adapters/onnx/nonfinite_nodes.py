"""Which node made NaN or infinite values of golden data itself, and did not only pass on what a
constant holds.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Sequence, Set

import numpy as np

from ...netfiles.narrow_types import is_narrow
from ...netfiles.onnx_arrays import tensor_array
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_types import TYPES
from ...netfiles.onnx_value_headers import OnnxTensor
from ..nonfinite import NOT_FINITE, count_not_finite
from .randomness import constants_of


class Makers:
    """Tells of the manifest's entries whether their node reads finite values only.

    Parameters
    ----------
    tensors
        All entries.
    """

    def __init__(self, model: OnnxModel, tensors: Sequence[Mapping[str, Any]]) -> None:
        self._model = model
        self._values: Set[str] = {entry["value"] for entry in tensors if NOT_FINITE in entry}
        self._nodes: Dict[str, OnnxNode] = {}
        if self._values:
            self._nodes = {
                name: node
                for node in model.graph.nodes
                for name in node.outputs
                if name in self._values
            }
            self._constants = constants_of(model)

    def __call__(self, entry: Mapping[str, Any]) -> bool:
        """Tell whether what is not finite is the node's own; of a node in a branch of an If that is
        not known.
        """
        if entry["type"] == "Input":
            return True
        node = self._nodes.get(entry["value"])
        if node is None or any(name in self._values for name in node.inputs):
            return False
        return all(self._is_finite(tensor) for tensor in self._tensors(node))

    def _tensors(self, node: OnnxNode) -> Iterator[OnnxTensor]:
        yield from node.tensors.values()
        for name in node.inputs:
            if name in self._constants:
                yield self._constants[name]

    def _is_finite(self, tensor: OnnxTensor) -> bool:
        """Tell whether a constant holds finite values; one that lies in another file counts as
        such.
        """
        entry = TYPES.get(tensor.dtype)
        if (
            entry is None
            or tensor.external is not None
            or not (is_narrow(entry.name) or np.dtype(entry.numpy or "u1").kind == "f")
        ):
            return True
        with self._model.open() as file:
            return count_not_finite(tensor_array(self._model.path, file, tensor)) == (0, 0)
