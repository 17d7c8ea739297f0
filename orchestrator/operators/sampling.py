"""Operators that read or place values at given places of an image: GridSample, RoiAlign,
DeformConv, AffineGrid, Col2Im, MaxUnpool.

Source: the ONNX operator list of each opset; of GridSample's borders and of what RoiAlign takes the
largest onnxruntime's public code.
"""

from __future__ import annotations

from functools import partial
from itertools import product as all_of
from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np

from .error_propagation import elementwise, moved
from .matrix_products import product
from .registry import CannotCompute, Inputs, Node, has_input, input_at, listed, operator, whole
from .value_with_error import Arithmetic, Value, joined_errors
from .variants import attribute, changed_input, declare

Array = Any

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
# The cubic's coefficient in PyTorch's grid_sample, which ONNX's GridSample takes over.
_CUBIC = -0.75


def _taps(places: Array, mode: str) -> Iterator[Tuple[Array, Array]]:
    """Yield which positions along an axis are read for each place, and their weights."""
    if mode == "nearest":
        yield np.rint(places).astype(np.int64), np.ones(places.shape)
        return
    low = np.floor(places)
    part, start = places - low, low.astype(np.int64)
    if mode == "linear":
        yield start, 1.0 - part
        yield start + 1, part
        return
    for offset in (-1, 0, 1, 2):
        far = np.abs(part - offset)
        near = ((_CUBIC + 2) * far - (_CUBIC + 3)) * far * far + 1
        outer = ((_CUBIC * far - 5 * _CUBIC) * far + 8 * _CUBIC) * far - 4 * _CUBIC
        yield start + offset, np.where(far <= 1, near, outer)


def _reflected(places: Array, low: float, high: float) -> Array:
    if high <= low:
        return np.zeros_like(places)
    turned = np.mod(places - low, 2.0 * (high - low))
    return low + np.minimum(turned, 2.0 * (high - low) - turned)


def _sampled(
    array: Array, places: Sequence[Array], mode: str, padding: str, corners: bool
) -> Array:
    """Return [samples, channels, places] of [samples, channels, …] at places of each axis."""
    sizes, weighted = array.shape[2:], []
    for size, at in zip(sizes, places):
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        if padding == "border" and mode != "cubic":
            at = np.clip(at, 0, size - 1)
        elif padding == "reflection":
            at = _reflected(at, low, high)
        taps = []
        for position, weight in _taps(at, mode):
            inside = (position >= 0) & (position < size)
            if padding == "reflection":
                position = np.trunc(_reflected(position.astype(np.float64), low, high))
            elif padding == "zeros":
                weight = np.where(inside, weight, 0.0)
            taps.append((np.clip(position, 0, size - 1).astype(np.int64), weight))
        weighted.append(taps)
    samples = np.arange(len(array))[:, None]
    total: Any = 0.0
    for corner in all_of(*weighted):
        index = (samples, slice(None), *(position for position, _ in corner))
        weight = np.prod([weight for _, weight in corner], axis=0)
        total = total + array[index] * weight[:, :, None]
    return np.moveaxis(total, 2, 1)


def _of_axis(array: Array, axis: int) -> Array:
    return array[..., axis].reshape(len(array), -1)


@operator(onnx=("GridSample",))
def grid_sample(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Interpolate between values at places from -1 to 1, the last axis first (x, places)."""
    x, grid = input_at(inputs, 0), input_at(inputs, 1)
    mode = str(node.get("mode", "linear"))
    mode, padding = _MODES.get(mode, mode), str(node.get("padding_mode", "zeros"))
    corners = bool(node.get("align_corners", 0))
    count = x.array.ndim - 2
    if grid.array.shape[-1] != count or mode not in ("nearest", "linear", "cubic"):
        raise CannotCompute("%s of %s at %s" % (mode, x.array.shape, grid.array.shape))
    places: List[Value] = []
    for axis, size in enumerate(x.array.shape[2:]):
        last = count - 1 - axis
        along = moved(partial(_of_axis, axis=last), grid)
        scaled = elementwise(
            lambda array, size=size: (
                (array + 1) / 2 * (size - 1) if corners else ((array + 1) * size - 1) / 2
            ),
            along,
        )
        # Near the first value large numbers cancel.
        step = np.asarray(arithmetic.intermediate / np.sqrt(3.0) * size)
        places.append(Value(scaled.array, joined_errors(scaled.error, step)))
    at = [place.array for place in places]
    output = _sampled(x.array, at, mode, padding, corners)
    errors = []
    if x.error is not None:
        # Weights add up to one: of a smooth error field it is the same, of another one less.
        wide = np.broadcast_to(x.error, x.array.shape)
        errors.append(np.abs(_sampled(wide, at, mode, padding, corners)))
    for axis, place in enumerate(places):
        if place.error is not None:
            moves = [
                _sampled(
                    x.array,
                    [*at[:axis], at[axis] + sign * place.error, *at[axis + 1 :]],
                    mode,
                    padding,
                    corners,
                )
                for sign in (1, -1)
            ]
            errors.append(np.max(np.abs(np.array(moves) - output), axis=0))
    shape = (*x.array.shape[:2], *grid.array.shape[1:-1])
    result = Value(output.astype(np.float32), joined_errors(*errors) if errors else None)
    return [moved(lambda array: array.reshape(shape), result.with_step(arithmetic.intermediate))]


def _places_in_regions(
    starts: Array, sizes: Array, count: int, samples: Array, length: int
) -> Tuple[Array, Array, Array]:
    """Return for each region, bin and sample along an axis the lower position that it reads, the
    share of the next one, and its weight: 0 outside the image and where the region has fewer.
    """
    most = int(samples.max(initial=1))
    step = (sizes / count)[:, None, None]
    number = np.arange(most)
    at = starts[:, None, None] + step * (
        np.arange(count)[:, None] + (number + 0.5) / samples[:, None, None]
    )
    weight = (number < samples[:, None, None]) & (at >= -1.0) & (at <= length)
    at = np.clip(at, 0, length - 1)
    low = np.floor(at).astype(np.int64)
    return low, at - low, weight.astype(np.float64)


@operator(onnx=("RoiAlign",), sums=True)
def roi_align(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the mean (or the largest) of values between those of an image in the bins of regions
    (x1, y1, x2, y2).

    The largest is that of each corner's value by its weight, as the operator list's own reference
    and onnxruntime have it; with the mode ``max of samples`` that of the interpolated values.
    """
    x, rois = input_at(inputs, 0), np.asarray(input_at(inputs, 1).array, np.float64)
    pictures = whole(inputs, 2)
    mode, ratio = str(node.get("mode", "avg")), int(node.get("sampling_ratio", 0))
    rule = "half_pixel" if node.version >= 16 else "output_half_pixel"
    half = str(node.get("coordinate_transformation_mode", rule)) == "half_pixel"
    begin = rois[:, :2] * float(node.get("spatial_scale", 1.0)) - (0.5 if half else 0.0)
    size = rois[:, 2:] * float(node.get("spatial_scale", 1.0)) - (0.5 if half else 0.0) - begin
    size = size if half else np.maximum(size, 1.0)
    counts = int(node.get("output_height", 1)), int(node.get("output_width", 1))
    samples = [
        np.full(len(rois), ratio) if ratio > 0 else np.ceil(size[:, 1 - axis] / counts[axis])
        for axis in (0, 1)
    ]
    image = np.asarray(x.array, np.float64)[pictures]
    each = np.arange(len(rois)).reshape(-1, *[1] * 4)

    def taken(values: Array, shifts: Tuple[float, float] = (0.0, 0.0)) -> Array:
        (up, down, tall), (left, right, wide) = (
            _places_in_regions(begin[:, 1 - axis] + shifts[axis], size[:, 1 - axis], counts[axis],
                               samples[axis], values.shape[2 + axis])
            for axis in (0, 1)
        )  # fmt: skip
        corners = []
        for rows, part in ((up, 1.0 - down), (np.minimum(up + 1, values.shape[2] - 1), down)):
            for columns, share in (
                (left, 1.0 - right),
                (np.minimum(left + 1, values.shape[3] - 1), right),
            ):
                weight = (part * tall)[:, :, :, None, None] * (share * wide)[:, None, None]
                at = each, slice(None), rows[:, :, :, None, None], columns[:, None, None]
                corners.append(np.moveaxis(values[at], -1, 1) * weight[:, None])
        if mode == "avg":
            divisor = np.maximum(samples[0] * samples[1], 1.0).reshape(-1, 1, 1, 1)
            return np.sum(corners, axis=(0, 4, 6)).reshape(-1, values.shape[1], *counts) / divisor
        there = np.broadcast_to(
            (np.arange(up.shape[2]) < samples[0][:, None])[:, None, None, :, None, None]
            & (np.arange(left.shape[2]) < samples[1][:, None])[:, None, None, None, None],
            corners[0].shape,
        )
        made = np.max(corners, axis=0) if mode == "max" else np.sum(corners, axis=0)
        return np.max(np.where(there, made, -np.inf), axis=(3, 5))

    output = taken(image)
    errors = [np.abs(output) * arithmetic.accumulator]
    for axis in (0, 1):
        # Places near the first are differences of large numbers.
        step = arithmetic.intermediate / np.sqrt(3.0) * x.array.shape[2 + axis]
        for sign in (step, -step) if step else ():
            errors.append(np.abs(taken(image, (sign, 0.0) if axis == 0 else (0.0, sign)) - output))
    if x.error is not None:
        errors.append(taken(np.broadcast_to(x.error, x.array.shape)[pictures]))
    return [Value(output.astype(np.float32), joined_errors(*errors))]


@operator(onnx=("DeformConv",), multiplies=True)
def deformable_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Convolve an image that is read at places which an offset moves (image, filters, offset, bias,
    mask).
    """
    x, w, offset = (input_at(inputs, number) for number in range(3))
    window = w.array.shape[2:]
    if x.array.ndim != 4:
        raise CannotCompute("an image of shape %s" % (x.array.shape,))
    strides, dilations = (listed(node.get(name, [1, 1])) for name in ("strides", "dilations"))
    pads, groups = listed(node.get("pads", [0] * 4)), int(node.get("group", 1))
    parts = int(node.get("offset_group", 1))
    batch, channels, *_ = x.array.shape
    count, shape = int(np.prod(window)), offset.array.shape[2:]
    moves = np.asarray(offset.array, np.float64).reshape(batch, parts, *window, 2, *shape)
    mask = np.ones((batch, parts, count, *shape))
    if has_input(inputs, 4):
        mask = np.asarray(input_at(inputs, 4).array, np.float64).reshape(mask.shape)
    places = []
    for axis in (0, 1):
        first = np.arange(shape[axis]) * strides[axis] - pads[axis]
        inside = np.arange(window[axis]) * dilations[axis]
        first, inside = (
            array.reshape([-1 if number == at else 1 for number in range(4)])
            for array, at in ((first, 2 + axis), (inside, axis))
        )
        places.append((moves[:, :, :, :, axis] + first + inside).reshape(batch * parts, -1))

    def read(array: Array, shifts: Tuple[float, float] = (0.0, 0.0)) -> Array:
        split = array.reshape(batch * parts, channels // parts, *array.shape[2:])
        at = [place + shift for place, shift in zip(places, shifts)]
        made = _sampled(split, at, "linear", "zeros", True)
        made = made.reshape(batch, parts, channels // parts, count, *shape) * mask[:, :, None]
        return made.reshape(batch, groups, channels // groups * count, -1)

    image = np.asarray(x.array, np.float64)
    columns = read(image)
    errors = [np.abs(columns) * arithmetic.intermediate]
    for axis in (0, 1):
        step = arithmetic.intermediate / np.sqrt(3.0) * x.array.shape[2 + axis]
        for sign in (step, -step) if step else ():
            errors.append(np.abs(read(image, (sign, 0.0) if axis == 0 else (0.0, sign)) - columns))
    if x.error is not None:
        errors.append(np.abs(read(np.broadcast_to(x.error, x.array.shape))))
    filters = moved(lambda array: array.reshape(groups, len(array) // groups, -1), w)
    given = Value(columns.astype(np.float32), joined_errors(*errors))
    made = moved(
        lambda array: array.reshape(batch, len(w.array), *shape),
        product(filters, given, arithmetic),
    )
    if not has_input(inputs, 3):
        return [made]
    bias = moved(lambda array: array.reshape(1, -1, 1, 1), input_at(inputs, 3))
    return [Value(made.array + bias.array, joined_errors(made.error, bias.error))]


@operator(onnx=("AffineGrid",), multiplies=True)
def affine_grid(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the places that an affine map (theta, size) makes of those of a grid from -1 to 1."""
    theta, size = input_at(inputs, 0), whole(inputs, 1)[2:]
    corners = bool(node.get("align_corners", 0))
    lines = [
        np.linspace(-1, 1, length) if corners else (2 * np.arange(length) + 1.0) / length - 1
        for length in size
    ]
    mesh = np.meshgrid(*lines, indexing="ij")
    given = np.stack([*(one.reshape(-1) for one in mesh[::-1]), np.ones(mesh[0].size)])
    made = product(theta, Value(given.astype(theta.array.dtype)), arithmetic)
    shape = (theta.array.shape[0], *size, len(size))
    return [moved(lambda array: array.transpose(0, 2, 1).reshape(shape), made)]


@operator(onnx=("Col2Im",), sums=True)
def col2im(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add the columns that windows of an image are (columns, size of the image, of a window)."""
    columns, image, window = input_at(inputs, 0), whole(inputs, 1), whole(inputs, 2)
    count = len(image)
    strides, dilations = (listed(node.get(name, [1] * count)) for name in ("strides", "dilations"))
    pads = listed(node.get("pads", [0] * (2 * count)))
    padded = [image[axis] + pads[axis] + pads[axis + count] for axis in range(count)]
    steps = [
        (padded[axis] - dilations[axis] * (window[axis] - 1) - 1) // strides[axis] + 1
        for axis in range(count)
    ]
    batch, wide = columns.array.shape[:2]
    channels = wide // int(np.prod(window))

    def placed(array: Array) -> Array:
        parts = array.reshape(batch, channels, *window, *steps)
        made = np.zeros((batch, channels, *padded))
        for at in np.ndindex(*window):
            first = [place * dilation for place, dilation in zip(at, dilations)]
            where = tuple(
                slice(start, start + stride * (number - 1) + 1, stride)
                for start, stride, number in zip(first, strides, steps)
            )
            made[(slice(None), slice(None), *where)] += parts[(slice(None), slice(None), *at)]
        inner = tuple(slice(pads[axis], pads[axis] + image[axis]) for axis in range(count))
        return made[(slice(None), slice(None), *inner)]

    array = placed(columns.array).astype(columns.array.dtype)
    rounding = arithmetic.accumulator / np.sqrt(3.0) * placed(np.abs(columns.array))
    if columns.error is None:
        return [Value(array, rounding)]
    wide_error = np.broadcast_to(columns.error, columns.array.shape)
    return [Value(array, joined_errors(rounding, np.sqrt(placed(np.square(wide_error)))))]


@operator(onnx=("MaxUnpool",), moves=True)
def max_unpool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Place values where they were the largest ones (values, flat indices, shape), among zeros."""
    x, indices = input_at(inputs, 0), input_at(inputs, 1).array.astype(np.int64)
    window, count = listed(node.get("kernel_shape")), x.array.ndim - 2
    strides, pads = (
        listed(node.get("strides", [1] * count)),
        listed(node.get("pads", [0] * (2 * count))),
    )
    inferred = [
        (size - 1) * stride - pads[axis] - pads[axis + count] + reach
        for axis, (size, stride, reach) in enumerate(zip(x.array.shape[2:], strides, window))
    ]
    plain = (*x.array.shape[:2], *inferred)
    shape = tuple(whole(inputs, 2)) if has_input(inputs, 2) else plain

    def placed(array: Array) -> Array:
        made = np.zeros(int(np.prod(plain)), array.dtype)
        made[indices.reshape(-1)] = array.reshape(-1)
        result = np.zeros(shape, array.dtype)
        inner = tuple(slice(0, size) for size in plain)
        result[inner] = made.reshape(plain)
        return result

    return [moved(placed, x)]


declare(
    "GridSample",
    attribute("align_corners", (0, 1), 0),
    changed_input(1, "its grid", [("x and y exchanged", lambda grid: grid[..., ::-1])]),
    attribute("padding_mode", ("zeros", "border", "reflection"), "zeros"),
    attribute(
        "mode",
        lambda node, inputs: (
            ("linear", "nearest", "cubic") if node.version >= 20 else ("bilinear", "nearest")
        ),
        lambda node, inputs: "linear" if node.version >= 20 else "bilinear",
    ),
)
declare("AffineGrid", attribute("align_corners", (0, 1), 0))
declare(
    "RoiAlign",
    attribute(
        "coordinate_transformation_mode",
        ("half_pixel", "output_half_pixel"),
        lambda node, inputs: "half_pixel" if node.version >= 16 else "output_half_pixel",
    ),
    attribute("sampling_ratio", (0, 1, 2, 3, 4), 0),
    attribute("mode", ("avg", "max", "max of samples"), "avg"),
    attribute("spatial_scale", (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125), 1.0, fitted=True),
    changed_input(1, "its regions", [
        ("x and y exchanged", lambda rois: rois[:, [1, 0, 3, 2]]),
        ("one more in x2 and y2", lambda rois: rois + np.array([0, 0, 1, 1], rois.dtype)),
    ]),
    changed_input(2, "its batch_indices", [("all 0", np.zeros_like),
                                           ("reversed", lambda batch: batch[::-1])]),
)  # fmt: skip
