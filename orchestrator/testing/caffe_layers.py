"""Caffe's layers in plain numpy (float32), for networks that run on the stand-in of a device.

Source of the formulas: Caffe's public layer catalogue. Written for small tensors, not for speed.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Sequence

import numpy as np

from ..errors import InputError
from ..netfiles.caffe_v1_types import v1_type

Array = Any
Blobs = Sequence[Array]


def convolution(x: Array, blobs: Blobs, stride: int = 1, pad: int = 0) -> Array:
    """Return the convolution of ``x`` [N, C, H, W] with ``blobs[0]`` [M, C, K, K] and the optional
    bias ``blobs[1]`` [M].
    """
    weight = blobs[0]
    kernel = weight.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="constant")
    height = (padded.shape[2] - kernel) // stride + 1
    width = (padded.shape[3] - kernel) // stride + 1
    out = np.zeros((x.shape[0], weight.shape[0], height, width), np.float32)
    for row in range(kernel):
        for column in range(kernel):
            window = padded[
                :,
                :,
                row : row + stride * height : stride,
                column : column + stride * width : stride,
            ]
            out += (
                np.tensordot(window, weight[:, :, row, column], axes=([1], [1]))
                .transpose(0, 3, 1, 2)
                .astype(np.float32)
            )
    return out + blobs[1].reshape(1, -1, 1, 1) if len(blobs) > 1 else out


def batch_norm(x: Array, blobs: Blobs, eps: float = 1e-5) -> Array:
    """Return ``x`` [N, C, …] normalised by the stored mean ``blobs[0]``, variance ``blobs[1]`` and
    their scale factor ``blobs[2]``.
    """
    factor = 1.0 / blobs[2].reshape(-1)[0] if blobs[2].reshape(-1)[0] else 0.0
    mean, variance = _per_channel(blobs[0] * factor, x), _per_channel(blobs[1] * factor, x)
    return ((x - mean) / np.sqrt(variance + eps)).astype(np.float32)


def scale(x: Array, blobs: Blobs) -> Array:
    """Return ``x`` [N, C, …] times ``blobs[0]`` [C], plus the optional ``blobs[1]`` [C]."""
    out = x * _per_channel(blobs[0], x)
    return out + _per_channel(blobs[1], x) if len(blobs) > 1 else out


def pooling(
    x: Array, method: str, kernel: int, stride: int = 1, pad: int = 0, short: int = 0
) -> Array:
    """Return max (``MAX``) or average (``AVE``) pooling of ``x`` [N, C, H, W] with Caffe's rounding
    up of the output size.

    Each window ends ``short`` elements before its end, as long as one is left.
    """
    count = [_pooled(size, kernel, stride, pad) for size in x.shape[2:]]
    out = np.zeros(x.shape[:2] + (count[0], count[1]), np.float32)
    for row in range(count[0]):
        for column in range(count[1]):
            top, left = row * stride - pad, column * stride - pad
            bottom, right = (
                min(top + kernel, x.shape[2] + pad),
                min(left + kernel, x.shape[3] + pad),
            )
            size = (bottom - top) * (right - left)
            below, beside = (
                max(end - short, first + 1)
                for end, first in ((bottom, max(top, 0)), (right, max(left, 0)))
            )
            window = x[
                :, :, max(top, 0) : min(below, x.shape[2]), max(left, 0) : min(beside, x.shape[3])
            ]
            out[:, :, row, column] = (
                window.max(axis=(2, 3)) if method == "MAX" else window.sum(axis=(2, 3)) / size
            )
    return out


def _pooled(size: int, kernel: int, stride: int, pad: int) -> int:
    count = int(math.ceil((size + 2 * pad - kernel) / stride)) + 1
    return count - 1 if pad and (count - 1) * stride >= size + pad else count


def inner_product(x: Array, blobs: Blobs) -> Array:
    """Return ``x`` [N, …] flattened to [N, K], times ``blobs[0]`` [M, K] transposed, plus the
    optional bias ``blobs[1]`` [M].
    """
    out = x.reshape(x.shape[0], -1).astype(np.float32) @ blobs[0].T
    return out + blobs[1].reshape(1, -1) if len(blobs) > 1 else out


def softmax(x: Array, axis: int = 1) -> Array:
    """Return the softmax of ``x`` along ``axis``."""
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return (raised / raised.sum(axis=axis, keepdims=True)).astype(np.float32)


def _per_channel(values: Array, x: Array) -> Array:
    return values.reshape((1, -1) + (1,) * (x.ndim - 2))


def layer_type(message: Any) -> str:
    """Return the type of a ``layer`` message, or of a V1 ``layers`` message by its V2 name."""
    return v1_type(str(message.text("type")))


def run_layer(message: Any, inputs: List[Array], blobs: Blobs) -> List[Array]:
    """Run one layer of a prototxt.

    Parameters
    ----------
    message
        The ``layer`` or V1 ``layers`` message, as :mod:`goldwatch.netfiles.prototxt_edits` reads
        it.
    inputs
        The bottoms, float32.
    blobs
        The layer's weights.

    Returns
    -------
    list of ndarray
        The tops, float32.

    Raises
    ------
    InputError
        A layer type that the stand-in does not know.
    """
    kind = layer_type(message)
    if kind not in _LAYERS:
        raise InputError(
            "layer %s: the stand-in of a device has no %s" % (message.text("name"), kind)
        )
    return [np.asarray(top, np.float32) for top in _LAYERS[kind](message, inputs, blobs)]


def _convolution(message: Any, inputs: List[Array], blobs: Blobs) -> List[Array]:
    param = message.message("convolution_param")
    return [
        convolution(inputs[0], blobs, int(param.number("stride", 1)), int(param.number("pad", 0)))
    ]


def _batch_norm(message: Any, inputs: List[Array], blobs: Blobs) -> List[Array]:
    eps = (
        message.message("batch_norm_param").number("eps", 1e-5)
        if message.has("batch_norm_param")
        else 1e-5
    )
    return [batch_norm(inputs[0], blobs, eps)]


def pooled(message: Any, x: Array, short: int = 0) -> Array:
    """Return the pooling that a ``layer`` message says; ``short`` as for :func:`pooling`."""
    param = message.message("pooling_param")
    method = param.text("pool", "MAX")
    if param.text("global_pooling", "false") == "true":
        return pooling(x, method, x.shape[2], short=short)
    kernel, stride, pad = (
        int(param.number(name, default))
        for name, default in (("kernel_size", 1), ("stride", 1), ("pad", 0))
    )
    return pooling(x, method, kernel, stride, pad, short)


def lrn(x: Array, size: int = 5, alpha: float = 1.0, beta: float = 0.75) -> Array:
    """Return ``x`` [N, C, H, W] over (1 + alpha / size · sum of squares of ``size`` neighbouring
    channels) to the power of beta.
    """
    half = (size - 1) // 2
    squares = np.pad(x * x, ((0, 0), (half, half), (0, 0), (0, 0)), mode="constant")
    total = np.add.reduce([squares[:, first : first + x.shape[1]] for first in range(size)])
    return x / (1.0 + alpha / size * total) ** beta


def _lrn(message: Any, inputs: List[Array], blobs: Blobs) -> List[Array]:
    param = message.message("lrn_param")
    return [
        lrn(
            inputs[0],
            int(param.number("local_size", 5)),
            param.number("alpha", 1.0),
            param.number("beta", 0.75),
        )
    ]


def _slice(message: Any, inputs: List[Array], blobs: Blobs) -> List[Array]:
    param = message.message("slice_param")
    points = [int(text) for text in param.texts("slice_point")]
    return np.split(inputs[0], points, axis=int(param.number("axis", 1)))


def _eltwise(message: Any, inputs: List[Array], blobs: Blobs) -> List[Array]:
    operation = (
        message.message("eltwise_param").text("operation", "SUM")
        if message.has("eltwise_param")
        else "SUM"
    )
    combine: Callable[[Any, Any], Any] = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum}[
        operation
    ]
    out = inputs[0]
    for other in inputs[1:]:
        out = combine(out, other)
    return [out]


_LAYERS: Dict[str, Callable[[Any, List[Array], Blobs], List[Array]]] = {
    "Convolution": _convolution,
    "BatchNorm": _batch_norm,
    "Scale": lambda message, inputs, blobs: [scale(inputs[0], blobs)],
    "ReLU": lambda message, inputs, blobs: [np.maximum(inputs[0], 0)],
    "Sigmoid": lambda message, inputs, blobs: [1.0 / (1.0 + np.exp(-inputs[0]))],
    "Dropout": lambda message, inputs, blobs: [inputs[0]],
    "Pooling": lambda message, inputs, blobs: [pooled(message, inputs[0])],
    "LRN": _lrn,
    "Eltwise": _eltwise,
    "Slice": _slice,
    "Concat": lambda message, inputs, blobs: [np.concatenate(inputs, axis=1)],
    "InnerProduct": lambda message, inputs, blobs: [inner_product(inputs[0], blobs)],
    "Softmax": lambda message, inputs, blobs: [softmax(inputs[0])],
}
