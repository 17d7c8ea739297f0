"""Caffe's layers by their published definitions, slowly, in float64: what the stand-in of a device
computes for Caffe. Nothing is shared with :mod:`goldwatch.operators`, by which a device is judged.

Source: the Forward_cpu and Reshape methods of BVLC Caffe 1.0 and the defaults of its caffe.proto.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

Array = Any


class Refused(Exception):
    """Caffe itself refuses such a layer."""


class Layer:
    """A layer with its bottoms and weights.

    Parameters
    ----------
    params
        By caffe.proto's names; a list is a repeated field.
    bottoms, weights
        float32.
    n_tops
        How many tops it has.
    """

    def __init__(
        self,
        kind: str,
        params: Mapping[str, Any],
        bottoms: Sequence[Any],
        weights: Sequence[Any] = (),
        n_tops: int = 1,
    ) -> None:
        self.kind, self.params, self.n_tops = kind, params, n_tops
        self.bottoms = [np.asarray(array, np.float32) for array in bottoms]
        self.weights = [np.asarray(array, np.float32) for array in weights]

    def get(self, name: str, default: Any) -> Any:
        """Return a parameter."""
        return self.params.get(name, default)

    def axis(self, name: str, default: int, rank: int) -> int:
        """Return an axis counted from the first; raises :class:`Refused` outside of the rank."""
        axis = int(self.get(name, default))
        if not -rank <= axis < rank:
            raise Refused("%s %d" % (name, axis))
        return axis % rank

    def pair(self, base: str, default: int) -> List[int]:
        """Return a window's number for rows and columns."""
        if base + "_h" in self.params or base + "_w" in self.params:
            return [int(self.get(base + end, default)) for end in ("_h", "_w")]
        value = self.get("kernel_size" if base == "kernel" else base, default)
        values = value if isinstance(value, list) else [value]
        return [int(values[0]), int(values[-1])] if values else [default, default]

    def weight(self, number: int) -> Array:
        """Return a weight in float64."""
        return self.weights[number].astype(np.float64)


def run_layer(layer: Layer) -> List[Array]:
    """Return a layer's tops, float64.

    Raises
    ------
    Refused
        Caffe would stop with a fatal error.
    KeyError
        The type is none of :data:`LAYERS`.
    """
    with np.errstate(all="ignore"):
        return LAYERS[layer.kind](layer, [array.astype(np.float64) for array in layer.bottoms])


def _bnll(x: Array) -> Array:
    return np.where(x > 0, x + np.log1p(np.exp(-np.abs(x))), np.log1p(np.exp(np.minimum(x, 0))))


def _elu(layer: Layer, x: Array) -> Array:
    return np.maximum(x, 0) + layer.get("alpha", 1.0) * (np.exp(np.minimum(x, 0)) - 1)


def _relu(layer: Layer, x: Array) -> Array:
    # std::max(x, 0) and std::min(x, 0) keep a NaN that stands first.
    return np.where(x < 0, 0, x) + layer.get("negative_slope", 0.0) * np.where(x > 0, 0, x)


def _sigmoid(x: Array) -> Array:
    return 0.5 * np.tanh(0.5 * x) + 0.5


def _flatten(layer: Layer, x: Array) -> Array:
    first, last = layer.axis("axis", 1, x.ndim), layer.axis("end_axis", -1, x.ndim)
    if first > last:
        raise Refused("axes")
    return x.reshape(x.shape[:first] + (-1,) + x.shape[last + 1 :])


def _channels(values: Array, rank: int, axis: int = 1) -> Array:
    return values.reshape((1,) * axis + values.shape + (1,) * (rank - axis - values.ndim))


def _prelu(layer: Layer, x: Array) -> Array:
    if x.ndim < 2:
        raise Refused("axes")
    slope = layer.weight(0)
    slope = slope if layer.get("channel_shared", False) else _channels(slope, x.ndim)
    return np.maximum(x, 0) + slope * np.minimum(x, 0)


def _softmax(layer: Layer, x: Array) -> Array:
    axis = layer.axis("axis", 1, x.ndim)
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def _mvn(layer: Layer, x: Array) -> Array:
    if x.ndim > 4:
        raise Refused("axes")
    # Its top has four axes whatever the bottom has.
    x = x.reshape(x.shape + (1,) * (4 - x.ndim))
    axes = tuple(range(1 if layer.get("across_channels", False) else 2, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    if layer.get("normalize_variance", True):
        spread = np.sqrt((centred**2).mean(axes, keepdims=True))
        centred = centred / (spread + layer.get("eps", 1e-9))
    return centred


def _exp(layer: Layer, x: Array) -> Array:
    base = layer.get("base", -1.0)
    factor = 1.0 if base == -1 else math.log(base)
    return np.exp(factor * (layer.get("shift", 0.0) + layer.get("scale", 1.0) * x))


def _power(layer: Layer, x: Array) -> Array:
    inner = layer.get("shift", 0.0) + layer.get("scale", 1.0) * x
    power = layer.get("power", 1.0)
    return inner if power == 1 else inner**power


def _batch_norm(layer: Layer, x: Array) -> Array:
    mean, variance, factor = (layer.weight(number) for number in range(3))
    scale = 0 if factor.reshape(-1)[0] == 0 else 1 / factor.reshape(-1)[0]
    mean, variance = (_channels(entry.reshape(-1) * scale, x.ndim) for entry in (mean, variance))
    return (x - mean) / np.sqrt(variance + layer.get("eps", 1e-5))


def _scale(layer: Layer, bottoms: List[Array]) -> List[Array]:
    x, weights = bottoms[0], [layer.weight(number) for number in range(len(layer.weights))]
    axis = layer.axis("axis", 1, x.ndim)
    scale = bottoms[1] if len(bottoms) > 1 else weights.pop(0)
    if len(bottoms) > 1 and scale.ndim == 0:
        axis = 0
    if x.shape[axis : axis + scale.ndim] != scale.shape:
        raise Refused("shapes")
    out = x * _channels(scale, x.ndim, axis)
    bias = weights and layer.get("bias_term", False)
    return [out + _channels(weights[0], x.ndim, axis) if bias else out]


def _concat(layer: Layer, bottoms: List[Array]) -> List[Array]:
    axis = (
        layer.params["concat_dim"]
        if "concat_dim" in layer.params
        else layer.axis("axis", 1, bottoms[0].ndim)
    )
    if len({array.shape[:axis] + array.shape[axis + 1 :] for array in bottoms}) > 1:
        raise Refused("shapes")
    return [np.concatenate(bottoms, axis)]


def _slice(layer: Layer, bottoms: List[Array]) -> List[Array]:
    x = bottoms[0]
    axis = (
        layer.params["slice_dim"] if "slice_dim" in layer.params else layer.axis("axis", 1, x.ndim)
    )
    points = layer.get("slice_point", [])
    if points:
        steps = zip([0] + points, points + [x.shape[axis]])
        if len(points) != layer.n_tops - 1 or any(after <= before for before, after in steps):
            raise Refused("points")
        return list(np.split(x, points, axis))
    if x.shape[axis] % layer.n_tops:
        raise Refused("points")
    return list(np.split(x, layer.n_tops, axis))


def _windows(layer: Layer) -> Tuple[List[int], List[int], List[int]]:
    return layer.pair("stride", 1), layer.pair("pad", 0), layer.pair("dilation", 1)


def _biased(layer: Layer, out: Array) -> Array:
    if not out.size:
        raise Refused("size")
    bias = layer.get("bias_term", True) and len(layer.weights) > 1
    return out + _channels(layer.weight(1).reshape(-1), 4) if bias else out


def _convolution(layer: Layer, x: Array) -> Array:
    weight = layer.weight(0)
    if x.ndim != 4:
        raise Refused("axes")
    (sh, sw), (ph, pw), (dh, dw) = _windows(layer)
    group, (n_out, n_in, kh, kw) = int(layer.get("group", 1)), weight.shape
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), mode="constant")
    height = (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1
    width = (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1
    if min(height, width) < 1:
        raise Refused("size")
    out = np.zeros((x.shape[0], n_out, height, width))
    for i, j in itertools.product(range(kh), range(kw)):
        rows = slice(i * dh, i * dh + sh * (height - 1) + 1, sh)
        columns = slice(j * dw, j * dw + sw * (width - 1) + 1, sw)
        part = padded[:, :, rows, columns]
        for g in range(group):
            filters = slice(g * n_out // group, (g + 1) * n_out // group)
            read = part[:, g * n_in : (g + 1) * n_in]
            out[:, filters] += np.einsum("nchw,oc->nohw", read, weight[filters, :, i, j])
    return _biased(layer, out)


def _deconvolution(layer: Layer, x: Array) -> Array:
    weight = layer.weight(0)
    if x.ndim != 4:
        raise Refused("axes")
    (sh, sw), (ph, pw), (dh, dw) = _windows(layer)
    group, (n_in, n_out, kh, kw) = int(layer.get("group", 1)), weight.shape
    count, _, height, width = x.shape
    high, wide = sh * (height - 1) + dh * (kh - 1) + 1, sw * (width - 1) + dw * (kw - 1) + 1
    out = np.zeros((count, n_out * group, high, wide))
    for i, j in itertools.product(range(kh), range(kw)):
        rows = slice(i * dh, i * dh + sh * (height - 1) + 1, sh)
        columns = slice(j * dw, j * dw + sw * (width - 1) + 1, sw)
        for g in range(group):
            read = slice(g * n_in // group, (g + 1) * n_in // group)
            part = np.einsum("nchw,co->nohw", x[:, read], weight[read, :, i, j])
            out[:, g * n_out : (g + 1) * n_out, rows, columns] += part
    return _biased(layer, out[:, :, ph : out.shape[2] - ph, pw : out.shape[3] - pw])


def _crop(layer: Layer, bottoms: List[Array]) -> List[Array]:
    x, like = bottoms
    axis, offsets = layer.axis("axis", 2, x.ndim), layer.get("offset", [0])
    if x.ndim != like.ndim or len(offsets) not in (1, x.ndim - axis):
        raise Refused("offsets")
    where = [slice(None)] * axis
    for number in range(axis, x.ndim):
        offset = offsets[number - axis if len(offsets) > 1 else 0]
        if offset + like.shape[number] > x.shape[number]:
            raise Refused("offsets")
        where.append(slice(offset, offset + like.shape[number]))
    return [x[tuple(where)]]


def _eltwise(layer: Layer, bottoms: List[Array]) -> List[Array]:
    operation = layer.get("operation", "SUM")
    if operation in ("PROD", 0):
        return [np.prod(bottoms, axis=0)]
    if operation in ("MAX", 2):
        return [np.max(bottoms, axis=0)]
    factors = layer.get("coeff", []) or [1.0] * len(bottoms)
    return [np.sum([factor * array for factor, array in zip(factors, bottoms)], axis=0)]


def _inner_product(layer: Layer, x: Array) -> Array:
    weight = layer.weight(0)
    weight = weight.reshape(weight.shape[-2:])  # old files have them as [1, 1, M, K]
    axis = layer.axis("axis", 1, x.ndim)
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    out = rows.dot(weight if layer.get("transpose", False) else weight.T)
    if layer.get("bias_term", True) and len(layer.weights) > 1:
        out = out + layer.weight(1).reshape(-1)
    return out.reshape(x.shape[:axis] + (-1,))


def _lrn(layer: Layer, x: Array) -> Array:
    if x.ndim != 4:
        raise Refused("axes")
    size, alpha, beta, k = (
        layer.get(name, value)
        for name, value in (("local_size", 5), ("alpha", 1.0), ("beta", 0.75), ("k", 1.0))
    )
    if size % 2 == 0:
        raise Refused("size")
    half = (int(size) - 1) // 2
    if layer.get("norm_region", "ACROSS_CHANNELS") in ("WITHIN_CHANNEL", 1):
        # A Pooling (AVE, pad half, stride 1) of the squares, then a Power: the divisor counts the
        # padding, and k is not used.
        windows, _ = pool(x**2, [int(size)] * 2, [1, 1], [half] * 2, "AVE")
        return x * (1 + alpha * windows) ** -beta
    # The sum goes along the channels in float32, one square in and one out, and keeps what rounding
    # leaves of the ones before.
    sides = ((0, 0), (half, half), (0, 0), (0, 0))
    squares = np.float32(alpha / size) * np.pad(layer.bottoms[0] ** 2, sides, mode="constant")
    total = np.full(squares[:, 0].shape, k, np.float32)
    for number in range(int(size)):
        total = total + squares[:, number]
    totals = [total]
    for number in range(1, x.shape[1]):
        total = total + squares[:, number + int(size) - 1] - squares[:, number - 1]
        totals.append(total)
    return x * np.stack(totals, 1).astype(np.float64) ** -beta


def pool(
    x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], kind: str
) -> Tuple[Array, Array]:
    """Return pooled values and the mask, window by window."""
    sizes = []
    for axis in (0, 1):
        span = x.shape[2 + axis] + 2 * pad[axis] - kernel[axis]
        length = int(math.ceil(span / float(stride[axis]))) + 1
        if any(pad) and (length - 1) * stride[axis] >= x.shape[2 + axis] + pad[axis]:
            length -= 1
        sizes.append(length)
    if min(sizes) < 1:
        raise Refused("size")
    height, width = x.shape[2:]
    out, mask = np.zeros(x.shape[:2] + tuple(sizes)), np.full(x.shape[:2] + tuple(sizes), -1.0)
    for i, j in itertools.product(range(sizes[0]), range(sizes[1])):
        top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
        bottom, right = min(top + kernel[0], height + pad[0]), min(left + kernel[1], width + pad[1])
        area = (bottom - top) * (right - left)
        top, left, bottom, right = max(top, 0), max(left, 0), min(bottom, height), min(right, width)
        window = x[:, :, top:bottom, left:right]
        if kind == "AVE":
            out[:, :, i, j] = window.sum((2, 3)) / area
            continue
        # -FLT_MAX where nothing is larger; a comparison with NaN is never true.
        best = np.full(x.shape[:2], -float(np.finfo(np.float32).max))
        for row, column in itertools.product(range(bottom - top), range(right - left)):
            larger = window[:, :, row, column] > best
            best = np.where(larger, window[:, :, row, column], best)
            place = (top + row) * width + left + column
            mask[:, :, i, j] = np.where(larger, place, mask[:, :, i, j])
        out[:, :, i, j] = best
    return out, mask


def _pooling(layer: Layer, bottoms: List[Array]) -> List[Array]:
    x = bottoms[0]
    if x.ndim != 4:
        raise Refused("axes")
    kind = {0: "MAX", 1: "AVE"}.get(layer.get("pool", "MAX"), layer.get("pool", "MAX"))
    kernel, stride, pad = (
        (list(x.shape[2:]), [1, 1], [0, 0])
        if layer.get("global_pooling", False)
        else (layer.pair("kernel", 0), layer.pair("stride", 1), layer.pair("pad", 0))
    )
    if any(pad) and (kind not in ("MAX", "AVE") or pad[0] >= kernel[0] or pad[1] >= kernel[1]):
        raise Refused("pad")
    if layer.n_tops > 1 and kind != "MAX":
        raise Refused("tops")
    return list(pool(x, kernel, stride, pad, kind))[: layer.n_tops]


def _reshape(layer: Layer, x: Array) -> Array:
    start, count = int(layer.get("axis", 0)), int(layer.get("num_axes", -1))
    start = start if start >= 0 else x.ndim + start + 1
    stop = x.ndim if count == -1 else start + count
    if not 0 <= start <= stop <= x.ndim:
        raise Refused("axes")
    dims = [
        x.shape[start + number] if dim == 0 and start + number < x.ndim else int(dim)
        for number, dim in enumerate(layer.get("shape", {}).get("dim", []))
    ]
    try:
        return x.reshape(x.shape[:start] + tuple(dims) + x.shape[stop:])
    except ValueError as error:
        raise Refused(str(error)) from error


def _one(make: Callable[[Layer, Array], Array]) -> Callable[[Layer, List[Array]], List[Array]]:
    """Return what reads the first bottom alone and makes one top."""
    return lambda layer, bottoms: [make(layer, bottoms[0])]


LAYERS: Dict[str, Callable[[Layer, List[Array]], List[Array]]] = {
    "AbsVal": _one(lambda layer, x: np.abs(x)),
    "BNLL": _one(lambda layer, x: _bnll(x)),
    "ELU": _one(_elu),
    "ReLU": _one(_relu),
    "Sigmoid": _one(lambda layer, x: _sigmoid(x)),
    "TanH": _one(lambda layer, x: np.tanh(x)),
    "Swish": _one(lambda layer, x: x * _sigmoid(layer.get("beta", 1.0) * x)),
    "Dropout": _one(lambda layer, x: x),
    "Flatten": _one(_flatten),
    "PReLU": _one(_prelu),
    "Softmax": _one(_softmax),
    "MVN": _one(_mvn),
    "Exp": _one(_exp),
    "Power": _one(_power),
    "Split": lambda layer, bottoms: [bottoms[0]] * layer.n_tops,
    "BatchNorm": _one(_batch_norm),
    "Scale": _scale,
    "Concat": _concat,
    "Slice": _slice,
    "Convolution": _one(_convolution),
    "Deconvolution": _one(_deconvolution),
    "Crop": _crop,
    "Eltwise": _eltwise,
    "InnerProduct": _one(_inner_product),
    "LRN": _one(_lrn),
    "Pooling": _pooling,
    "Reshape": _one(_reshape),
}
"""By type, what computes a layer."""
