"""Infers the ranks of the values of an ONNX model by its ops' definitions
(https://onnx.ai/onnx/operators).
"""

from __future__ import annotations

import itertools
from typing import Dict, List, Optional, Sequence, Tuple

from ..base.element_types import element_count
from .onnx_model import ATTRIBUTE, OnnxModel, OnnxNode
from .protobuf_file import WireFile

_LIKE_FIRST = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli BitShift "
    "Cast CastLike Ceil Celu Clip Concat Conv "
    "ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Dropout Elu Erf "
    "Exp EyeLike Floor Gelu GlobalAveragePool "
    "GlobalLpPool GlobalMaxPool GroupNormalization HardSigmoid HardSwish Hardmax Identity "
    "InstanceNormalization IsInf IsNaN "
    "LayerNormalization LeakyRelu Log LogSoftmax LpNormalization LpPool LRN MaxPool "
    "MeanVarianceNormalization Mish Neg Not PRelu Pad "
    "QLinearConv QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike "
    "Reciprocal Relu Resize ReverseSequence RotaryEmbedding "
    "Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Slice Softmax Softplus "
    "Softsign SpaceToDepth Split Sqrt Swish Tan "
    "Tanh ThresholdedRelu Tile TopK Transpose Trilu Upsample".split()
)
_LIKE_LARGEST = frozenset(
    "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or Pow "
    "Sub Sum Where Xor".split()
)
_FIXED = {
    "Flatten": [2], "GRU": [4, 3], "Gemm": [2], "LSTM": [4, 3, 3], "NonMaxSuppression": [2],
    "NonZero": [2], "RNN": [4, 3], "Range": [1],
    "Shape": [1], "Size": [0],
}  # fmt: skip
_OWN = ("", "ai.onnx")


def fitted_to_dims(
    shape: Sequence[int], dims: Optional[Sequence[Optional[int]]]
) -> Tuple[int, ...]:
    """Return the shape in the model of a value that a device holds with additional axes of size 1,
    or merged axes.

    Parameters
    ----------
    dims
        The model's dims; None for unknown dims; None: all unknown.

    Returns
    -------
    tuple of int
        ``shape`` itself if it does not fit.
    """
    shape = tuple(shape)
    if dims is None or len(dims) == len(shape):
        return shape
    size, known = element_count(shape), element_count([dim for dim in dims if dim is not None])
    if (
        list(dims).count(None) <= 1
        and known
        and size % known == 0
        and (None in dims or size == known)
    ):
        return tuple(size // known if dim is None else dim for dim in dims)
    # The height of a 1-D convolution is the first to go.
    ones = sorted(
        (axis for axis, dim in enumerate(shape) if dim == 1), key=lambda axis: (axis < 2, axis)
    )
    for removed in itertools.combinations(ones, max(0, len(shape) - len(dims))):
        remaining = tuple(dim for axis, dim in enumerate(shape) if axis not in removed)
        if len(remaining) == len(dims) and all(
            dim in (None, size) for dim, size in zip(dims, remaining)
        ):
            return remaining
    return shape


class Ranks:
    """The ranks of the values of a main graph.

    Attributes
    ----------
    known
        The number of axes of each value, if known; including initializers.
    """

    def __init__(self, model: OnnxModel) -> None:
        graph = model.graph
        self.known: Dict[str, int] = {
            name: len(tensor.dims) for name, tensor in graph.initializers.items()
        }
        self._lengths = {
            name: tensor.elements
            for name, tensor in graph.initializers.items()
            if len(tensor.dims) < 2
        }
        for value in [*graph.inputs, *graph.value_info.values(), *graph.outputs]:
            if value.shape is not None:
                self.known[value.name] = len(value.shape)
                if len(value.shape) == 1 and isinstance(value.shape[0], int):
                    self._lengths[value.name] = value.shape[0]
        with model.open() as file:
            for node in graph.nodes:
                if node.domain in _OWN:
                    self._add(file, model, node)

    def _add(self, file: WireFile, model: OnnxModel, node: OnnxNode) -> None:
        length = self._length(node)
        if length is not None and node.outputs:
            self._lengths[node.outputs[0]] = length
        ranks: Sequence[Optional[int]] = _FIXED.get(node.op_type) or [
            self._rank(file, model, node)
        ] * len(node.outputs)
        for name, rank in zip(node.outputs, ranks):
            if name and rank is not None:
                self.known.setdefault(name, rank)

    def _of(self, node: OnnxNode, place: int) -> Optional[int]:
        return self.known.get(node.inputs[place]) if place < len(node.inputs) else None

    def _length_of(self, node: OnnxNode, place: int) -> Optional[int]:
        return self._lengths.get(node.inputs[place]) if place < len(node.inputs) else None

    def _rank(self, file: WireFile, model: OnnxModel, node: OnnxNode) -> Optional[int]:
        """Return the number of axes of a node's outputs."""
        kind, first, second = node.op_type, self._of(node, 0), self._of(node, 1)
        if kind in _LIKE_FIRST or (
            kind.startswith(("Reduce", "Arg"))
            and model.attr_int(file, node, "keepdims") in (None, 1)
        ):
            return first
        if kind in _LIKE_LARGEST or (kind == "MatMul" and min(first or 0, second or 0) > 1):
            ranks: List[Optional[int]] = [self.known.get(name) for name in node.inputs if name]
            return (
                None
                if None in ranks
                else max([rank for rank in ranks if rank is not None], default=None)
            )
        if kind == "Constant" and "value" in node.tensors:
            return len(node.tensors["value"].dims)
        if kind in ("Reshape", "Expand", "ConstantOfShape"):
            axes = self._length_of(node, 0 if kind == "ConstantOfShape" else 1)
            return axes if kind != "Expand" or axes is None or first is None else max(axes, first)
        if kind == "Gather" and first is not None and second is not None:
            return first + second - 1
        if kind == "GatherElements":
            return second
        if kind in ("Squeeze", "Unsqueeze") and first is not None:
            span = node.attrs.get("axes")
            given_axes = None if span is None else file.read(ATTRIBUTE, *span).integers
            count = len(given_axes) if given_axes is not None else self._length_of(node, 1)
            return None if count is None else first + (count if kind == "Unsqueeze" else -count)
        return None

    def _length(self, node: OnnxNode) -> Optional[int]:
        """Return the number of elements of a node's first output if it is 1-D, as shapes are."""
        if node.op_type == "Constant" and "value" in node.tensors:
            return node.tensors["value"].elements
        if node.op_type == "Shape" and "start" not in node.attrs and "end" not in node.attrs:
            return self._of(node, 0)
        if node.op_type == "Concat":
            lengths = [self._lengths.get(name) for name in node.inputs]
            return None if None in lengths else sum(length or 0 for length in lengths)
        if node.op_type in ("Cast", "Identity", "Unsqueeze"):
            return self._length_of(node, 0)
        if node.op_type == "Gather":
            return self._length_of(node, 1)
        return None
