"""Caffe's layer types by their published definitions, slowly in float64.

Source: the Forward_cpu and Reshape methods of BVLC Caffe 1.0 and the defaults of its caffe.proto.
"""

import itertools
import math

import numpy as np


class Refused(Exception):
    """Caffe itself refuses such a layer."""


class Case:
    """One layer with its bottoms and weights.

    Attributes
    ----------
    kind
        The layer's type.
    params
        ``{parameter: value}``; a list is a repeated field, and text stands as it is.
    bottoms, weights
        float32 arrays.
    n_tops
        How many tops it has.
    """

    def __init__(self, kind, params, bottoms, weights=(), n_tops=1):
        self.kind = kind
        self.params = params
        self.bottoms = [np.asarray(array, np.float32) for array in bottoms]
        self.weights = [np.asarray(array, np.float32) for array in weights]
        self.n_tops = n_tops

    def get(self, name, default):
        return self.params.get(name, default)

    @property
    def body(self):
        """The layer's parameter message."""
        words = []
        for name, value in self.params.items():
            for item in value if isinstance(value, list) else [value]:
                words.append(
                    "%s %s" % (name, item)
                    if str(item).startswith("{")
                    else "%s: %s" % (name, _text(item))
                )
        return "%s { %s }" % (PARAMS[self.kind], " ".join(words)) if words else ""

    @property
    def text(self):
        """A prototxt with the layer ``L`` on inputs ``b0``, ``b1`` …; its tops are ``t0``, ``t1``
        ….
        """
        lines = []
        for number, array in enumerate(self.bottoms):
            dims = " ".join("dim: %d" % dim for dim in array.shape)
            lines.append(
                'layer { name: "b%d" type: "Input" top: "b%d" input_param { shape { %s } } }'
                % (number, number, dims)
            )
        reads = " ".join('bottom: "b%d"' % number for number in range(len(self.bottoms)))
        tops = " ".join('top: "t%d"' % number for number in range(self.n_tops))
        lines.append(
            'layer { name: "L" type: "%s" %s %s %s }' % (self.kind, reads, tops, self.body)
        )
        return "\n".join(lines) + "\n"

    def __str__(self):
        shapes = " ".join("x".join(map(str, array.shape)) for array in self.bottoms)
        return "%s on %s, %d tops: %s" % (
            self.kind,
            shapes,
            self.n_tops,
            self.body or "no parameters",
        )


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


PARAMS = {
    "AbsVal": "", "BNLL": "", "ELU": "elu_param", "ReLU": "relu_param", "Sigmoid": "sigmoid_param",
    "TanH": "tanh_param",
    "Swish": "swish_param", "Dropout": "dropout_param", "Flatten": "flatten_param",
    "PReLU": "prelu_param", "Softmax": "softmax_param",
    "MVN": "mvn_param", "Exp": "exp_param", "Power": "power_param", "Split": "",
    "BatchNorm": "batch_norm_param", "Scale": "scale_param",
    "Concat": "concat_param", "Slice": "slice_param", "Convolution": "convolution_param",
    "Deconvolution": "convolution_param",
    "Crop": "crop_param", "Eltwise": "eltwise_param", "InnerProduct": "inner_product_param",
    "LRN": "lrn_param",
    "Pooling": "pooling_param", "Reshape": "reshape_param",
}  # fmt: skip


def compute(case):
    """Return the tops of a layer, float64.

    Raises
    ------
    Refused
        Caffe would stop with a fatal error.
    """
    with np.errstate(all="ignore"):
        return globals()["_" + case.kind.lower()](
            case, [array.astype(np.float64) for array in case.bottoms]
        )


def _absval(case, bottoms):
    return [np.abs(bottoms[0])]


def _bnll(case, bottoms):
    x = bottoms[0]
    return [np.where(x > 0, x + np.log1p(np.exp(-np.abs(x))), np.log1p(np.exp(np.minimum(x, 0))))]


def _elu(case, bottoms):
    x = bottoms[0]
    return [np.maximum(x, 0) + case.get("alpha", 1.0) * (np.exp(np.minimum(x, 0)) - 1)]


def _relu(case, bottoms):
    x = bottoms[0]
    # std::max(x, 0) and std::min(x, 0) keep a NaN that stands first.
    return [np.where(x < 0, 0, x) + case.get("negative_slope", 0.0) * np.where(x > 0, 0, x)]


def _sigmoid(case, bottoms):
    return [0.5 * np.tanh(0.5 * bottoms[0]) + 0.5]


def _tanh(case, bottoms):
    return [np.tanh(bottoms[0])]


def _swish(case, bottoms):
    return [bottoms[0] * (0.5 * np.tanh(0.5 * case.get("beta", 1.0) * bottoms[0]) + 0.5)]


def _dropout(case, bottoms):
    return [bottoms[0]]


def _axis(case, name, default, rank):
    axis = case.get(name, default)
    if not -rank <= axis < rank:
        raise Refused("%s %d" % (name, axis))
    return axis % rank


def _flatten(case, bottoms):
    x = bottoms[0]
    first, last = _axis(case, "axis", 1, x.ndim), _axis(case, "end_axis", -1, x.ndim)
    if first > last:
        raise Refused("axes")
    return [x.reshape(x.shape[:first] + (-1,) + x.shape[last + 1 :])]


def _channels(values, rank, axis=1):
    return values.reshape((1,) * axis + values.shape + (1,) * (rank - axis - values.ndim))


def _prelu(case, bottoms):
    x = bottoms[0]
    if x.ndim < 2:
        raise Refused("axes")
    slope = case.weights[0].astype(np.float64)
    slope = slope if case.get("channel_shared", False) else _channels(slope, x.ndim)
    return [np.maximum(x, 0) + slope * np.minimum(x, 0)]


def _softmax(case, bottoms):
    x = bottoms[0]
    axis = _axis(case, "axis", 1, x.ndim)
    e = np.exp(x - x.max(axis, keepdims=True))
    return [e / e.sum(axis, keepdims=True)]


def _mvn(case, bottoms):
    x = bottoms[0]
    if x.ndim > 4:
        raise Refused("axes")
    # Its top has four axes whatever the bottom has.
    x = x.reshape(x.shape + (1,) * (4 - x.ndim))
    axes = tuple(range(1 if case.get("across_channels", False) else 2, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    if case.get("normalize_variance", True):
        centred = centred / (
            np.sqrt((centred**2).mean(axes, keepdims=True)) + case.get("eps", 1e-9)
        )
    return [centred]


def _exp(case, bottoms):
    base = case.get("base", -1.0)
    factor = 1.0 if base == -1 else math.log(base)
    return [np.exp(factor * (case.get("shift", 0.0) + case.get("scale", 1.0) * bottoms[0]))]


def _power(case, bottoms):
    inner = case.get("shift", 0.0) + case.get("scale", 1.0) * bottoms[0]
    power = case.get("power", 1.0)
    return [inner if power == 1 else inner**power]


def _split(case, bottoms):
    return [bottoms[0]] * case.n_tops


def _batchnorm(case, bottoms):
    x = bottoms[0]
    mean, variance, factor = (array.astype(np.float64) for array in case.weights)
    scale = 0 if factor[0] == 0 else 1 / factor[0]
    return [
        (x - _channels(mean * scale, x.ndim))
        / np.sqrt(_channels(variance * scale, x.ndim) + case.get("eps", 1e-5))
    ]


def _scale(case, bottoms):
    x = bottoms[0]
    axis = _axis(case, "axis", 1, x.ndim)
    weights = [array.astype(np.float64) for array in case.weights]
    scale = bottoms[1] if len(bottoms) > 1 else weights.pop(0)
    if len(bottoms) > 1 and scale.ndim == 0:
        axis = 0
    if x.shape[axis : axis + scale.ndim] != scale.shape:
        raise Refused("shapes")
    out = x * _channels(scale, x.ndim, axis)
    return [out + _channels(weights[0], x.ndim, axis) if case.get("bias_term", False) else out]


def _concat(case, bottoms):
    axis = (
        case.params["concat_dim"]
        if "concat_dim" in case.params
        else _axis(case, "axis", 1, bottoms[0].ndim)
    )
    if any(
        array.shape[:axis] + array.shape[axis + 1 :]
        != bottoms[0].shape[:axis] + bottoms[0].shape[axis + 1 :]
        for array in bottoms
    ):
        raise Refused("shapes")
    return [np.concatenate(bottoms, axis)]


def _slice(case, bottoms):
    x = bottoms[0]
    axis = (
        case.params["slice_dim"] if "slice_dim" in case.params else _axis(case, "axis", 1, x.ndim)
    )
    points = case.get("slice_point", [])
    if points:
        if len(points) != case.n_tops - 1 or any(
            b <= a for a, b in zip([0] + points, points + [x.shape[axis]])
        ):
            raise Refused("points")
        return np.split(x, points, axis)
    if x.shape[axis] % case.n_tops:
        raise Refused("points")
    return np.split(x, case.n_tops, axis)


def _pair(case, base, default):
    if base + "_h" in case.params or base + "_w" in case.params:
        return [case.get(base + "_h", default), case.get(base + "_w", default)]
    value = case.get("kernel_size" if base == "kernel" else base, default)
    values = value if isinstance(value, list) else [value]
    return [values[0], values[-1]]


def _convolution(case, bottoms):
    x, weight = bottoms[0], case.weights[0].astype(np.float64)
    if x.ndim != 4:
        raise Refused("axes")
    (sh, sw), (ph, pw), (dh, dw) = (
        _pair(case, name, value) for name, value in (("stride", 1), ("pad", 0), ("dilation", 1))
    )
    group, (n_out, n_in, kh, kw) = case.get("group", 1), weight.shape
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), mode="constant")
    height, width = (
        (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1,
        (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1,
    )
    if min(height, width) < 1:
        raise Refused("size")
    out = np.zeros((x.shape[0], n_out, height, width))
    for i, j in itertools.product(range(kh), range(kw)):
        part = padded[
            :,
            :,
            i * dh : i * dh + sh * (height - 1) + 1 : sh,
            j * dw : j * dw + sw * (width - 1) + 1 : sw,
        ]
        for g in range(group):
            rows = slice(g * n_out // group, (g + 1) * n_out // group)
            out[:, rows] += np.einsum(
                "nchw,oc->nohw", part[:, g * n_in : (g + 1) * n_in], weight[rows, :, i, j]
            )
    return [
        out + _channels(case.weights[1].astype(np.float64), 4)
        if case.get("bias_term", True)
        else out
    ]


def _deconvolution(case, bottoms):
    x, weight = bottoms[0], case.weights[0].astype(np.float64)
    if x.ndim != 4:
        raise Refused("axes")
    (sh, sw), (ph, pw), (dh, dw) = (
        _pair(case, name, value) for name, value in (("stride", 1), ("pad", 0), ("dilation", 1))
    )
    group, (n_in, n_out, kh, kw) = case.get("group", 1), weight.shape
    n, _, height, width = x.shape
    out = np.zeros(
        (
            n,
            n_out * group,
            sh * (height - 1) + dh * (kh - 1) + 1,
            sw * (width - 1) + dw * (kw - 1) + 1,
        )
    )
    for i, j in itertools.product(range(kh), range(kw)):
        for g in range(group):
            rows = slice(g * n_in // group, (g + 1) * n_in // group)
            part = np.einsum("nchw,co->nohw", x[:, rows], weight[rows, :, i, j])
            place = (
                slice(i * dh, i * dh + sh * (height - 1) + 1, sh),
                slice(j * dw, j * dw + sw * (width - 1) + 1, sw),
            )
            out[:, g * n_out : (g + 1) * n_out, place[0], place[1]] += part
    out = out[:, :, ph : out.shape[2] - ph, pw : out.shape[3] - pw]
    if not out.size:
        raise Refused("size")
    return [
        out + _channels(case.weights[1].astype(np.float64), 4)
        if case.get("bias_term", True)
        else out
    ]


def _crop(case, bottoms):
    x, like = bottoms
    axis = _axis(case, "axis", 2, x.ndim)
    offsets = case.get("offset", [0])
    if x.ndim != like.ndim or len(offsets) not in (1, x.ndim - axis):
        raise Refused("offsets")
    where = [slice(None)] * axis
    for number in range(axis, x.ndim):
        offset = offsets[number - axis if len(offsets) > 1 else 0]
        if offset + like.shape[number] > x.shape[number]:
            raise Refused("offsets")
        where.append(slice(offset, offset + like.shape[number]))
    return [x[tuple(where)]]


def _eltwise(case, bottoms):
    operation = case.get("operation", "SUM")
    if operation in ("PROD", 0):
        return [np.prod(bottoms, axis=0)]
    if operation in ("MAX", 2):
        return [np.max(bottoms, axis=0)]
    coefficients = case.get("coeff", [1.0] * len(bottoms))
    return [sum(factor * array for factor, array in zip(coefficients, bottoms))]


def _innerproduct(case, bottoms):
    x, weight = bottoms[0], case.weights[0].astype(np.float64)
    axis = _axis(case, "axis", 1, x.ndim)
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    out = rows.dot(weight if case.get("transpose", False) else weight.T)
    out = out + case.weights[1].astype(np.float64) if case.get("bias_term", True) else out
    return [out.reshape(x.shape[:axis] + (-1,))]


def _lrn(case, bottoms):
    x = bottoms[0]
    if x.ndim != 4:
        raise Refused("axes")
    size, alpha, beta, k = (
        case.get(name, value)
        for name, value in (("local_size", 5), ("alpha", 1.0), ("beta", 0.75), ("k", 1.0))
    )
    if size % 2 == 0:
        raise Refused("size")
    half = (size - 1) // 2
    if case.get("norm_region", "ACROSS_CHANNELS") in ("WITHIN_CHANNEL", 1):
        # A Pooling (AVE, pad half, stride 1) of the squares, then a Power: the divisor counts the
        # padding, and k is not used.
        windows, _ = pool(x**2, [size] * 2, [1, 1], [half] * 2, "AVE")
        return [x * (1 + alpha * windows) ** -beta]
    # The sum goes along the channels in float32, one square in and one out, and keeps what rounding
    # leaves of the ones before.
    squares = np.float32(alpha / size) * np.pad(
        case.bottoms[0] ** 2, ((0, 0), (half, half), (0, 0), (0, 0)), mode="constant"
    )
    total = np.full(squares[:, 0].shape, k, np.float32)
    for number in range(size):
        total = total + squares[:, number]
    totals = [total]
    for number in range(1, x.shape[1]):
        total = total + squares[:, number + size - 1] - squares[:, number - 1]
        totals.append(total)
    return [x * np.stack(totals, 1).astype(np.float64) ** -beta]


def pool(x, kernel, stride, pad, kind):
    """Return pooled values and the mask, window by window."""
    sizes = []
    for axis in (0, 1):
        length = (
            int(math.ceil((x.shape[2 + axis] + 2 * pad[axis] - kernel[axis]) / float(stride[axis])))
            + 1
        )
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
        else:
            # -FLT_MAX where nothing is larger; a comparison with NaN is never true.
            best = np.full(x.shape[:2], -float(np.finfo(np.float32).max))
            for row, column in itertools.product(range(bottom - top), range(right - left)):
                larger = window[:, :, row, column] > best
                best = np.where(larger, window[:, :, row, column], best)
                mask[:, :, i, j] = np.where(
                    larger, (top + row) * width + left + column, mask[:, :, i, j]
                )
            out[:, :, i, j] = best
    return out, mask


def _pooling(case, bottoms):
    x = bottoms[0]
    if x.ndim != 4:
        raise Refused("axes")
    kind = {0: "MAX", 1: "AVE"}.get(case.get("pool", "MAX"), case.get("pool", "MAX"))
    if case.get("global_pooling", False):
        kernel, stride, pad = list(x.shape[2:]), [1, 1], [0, 0]
    else:
        kernel, stride, pad = (
            _pair(case, "kernel", 0),
            _pair(case, "stride", 1),
            _pair(case, "pad", 0),
        )
    if any(pad) and (kind not in ("MAX", "AVE") or pad[0] >= kernel[0] or pad[1] >= kernel[1]):
        raise Refused("pad")
    if case.n_tops > 1 and kind != "MAX":
        raise Refused("tops")
    return list(pool(x, kernel, stride, pad, kind))[: case.n_tops]


def _reshape(case, bottoms):
    x = bottoms[0]
    start = case.get("axis", 0)
    start = start if start >= 0 else x.ndim + start + 1
    count = case.get("num_axes", -1)
    stop = x.ndim if count == -1 else start + count
    if not 0 <= start <= stop <= x.ndim:
        raise Refused("axes")
    dims = [
        x.shape[start + number] if dim == 0 and start + number < x.ndim else dim
        for number, dim in enumerate(case.dims)
    ]
    try:
        return [x.reshape(x.shape[:start] + tuple(dims) + x.shape[stop:])]
    except ValueError as error:
        raise Refused(str(error)) from error
