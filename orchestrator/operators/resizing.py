"""Resizing by nearest, linear and cubic interpolation, of all dialects.

Every axis is resized by itself: an output is a sum of a few inputs along it, each times a weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.fast_dataclasses import dataclass
from .convolution_operators import integers, named_input, optional
from .layouts_and_pads import is_last
from .registry import (
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    operator,
)
from .splittable_axes import Shape, Values, along_unchanged_axes
from .value_with_error import FLOAT32_ROUNDING, Arithmetic, Value, joined_errors
from .variants import (
    Function,
    Reading,
    Variant,
    attribute,
    declare,
    other_function,
    other_node,
    text_of,
)

Array = Any

_F = np.float32
_CUBIC_ROUNDING = 4.0 * FLOAT32_ROUNDING / np.sqrt(3.0)
"""Standard deviation of the error of a cubic's weight."""


@dataclass(frozen=True)
class _Taps:
    """How an axis is resized.

    Attributes
    ----------
    places, weights
        Of which places within the axis each output is the sum, and times which weight: both
        [outputs, taps].
    rivals
        Of nearest ones the place [outputs] that a device may take as well, because a coordinate
        lies on the border up to its rounding.
    """

    places: Array
    weights: Array
    rivals: Optional[Array] = None

    def apply(self, x: Value, axis: int, rounding: float = 0.0) -> Value:
        """Resize one axis; errors add as squares, each weight's is ``rounding``."""
        array = x.array
        if self.weights.shape[1] == 1 and np.all(self.weights == 1):
            error = None if x.error is None else np.broadcast_to(x.error, array.shape)
            taken = np.take(array, self.places[:, 0], axis)
            if self.rivals is None or not x.is_float:
                return Value(taken, None if error is None else error.take(self.places[:, 0], axis))
            # Of another row, the device may also have another column.
            both = self.places[:, 0], self.rivals
            error = joined_errors(
                np.abs(taken - np.take(array, self.rivals, axis)),
                *(None if error is None else np.take(error, places, axis) for places in both),
            )
            return Value(taken, error)
        shape = [1] * array.ndim
        shape[axis] = len(self.places)
        total: Any = 0.0
        squares: Any = 0.0
        error_squares = (
            None if x.error is None else np.square(np.broadcast_to(x.error, array.shape))
        )
        for places, weights in zip(self.places.T, self.weights.T):
            placed = weights.reshape(shape).astype(np.float64)
            # What has no weight is not looked at: an Inf there would become NaN.
            total = total + np.where(placed == 0, 0.0, np.take(array, places, axis) * placed)
            if error_squares is not None:
                squares = squares + np.take(error_squares, places, axis) * np.square(placed)
            if rounding:
                squares = squares + np.square(np.take(array, places, axis) * rounding)
        return Value(total, None if error_squares is None and not rounding else np.sqrt(squares))


def _nearest(ways: Sequence[Array], size: int, mode: str, scale: float = 1.0) -> _Taps:
    """Return the nearest places by the first of some coordinates, which the others are as well, but
    for the rounding of the arithmetic in which a device works them out: where that takes one to the
    other side of a border it may fall to either. By a factor that is whole, or one by a whole
    number, nothing is rounded.
    """
    modes: Dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda x: np.ceil(x - _F(0.5)),
        "round_prefer_ceil": lambda x: np.floor(x + _F(0.5)),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if mode not in modes:
        raise CannotCompute("its nearest_mode %s is not known" % mode)
    places, *others = (
        np.clip(modes[mode](coordinates), 0, size - 1).astype(np.int64) for coordinates in ways
    )
    factors = (scale, 1.0 / scale) if scale else ()
    exact = any(abs(factor - round(factor)) < 1e-6 for factor in factors)
    rivals = places
    for other in () if exact else others:
        rivals = np.where(rivals != places, rivals, other)
    return _Taps(
        places[:, None],
        np.ones((len(places), 1)),
        None if np.array_equal(rivals, places) else rivals,
    )


def _linear(coordinates: Array, size: int) -> _Taps:
    inside = np.clip(np.asarray(coordinates, np.float64), 0, size - 1)
    low = np.floor(inside).astype(np.int64)
    share = inside - low
    return _Taps(np.stack([low, np.minimum(low + 1, size - 1)], 1), np.stack([1 - share, share], 1))


def _triangle(distance: Array, _: float) -> Array:
    return np.maximum(1 - distance, 0)


def _keys(distance: Array, a: float) -> Array:
    """Return the weights of cubic convolution (Keys, 1981) with the coefficient ``a``."""
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _convolved(
    node: Node, coordinates: Array, size: int, kernel: Callable[[Array, float], Array], scale: float
) -> _Taps:
    """Return the weights of linear or cubic convolution; places outside are those at the edge.

    ``antialias``: where the picture becomes smaller, the kernel is as much wider, and its weights
    are divided by their sum.
    """
    shrunk = min(1.0, scale) if node.get("antialias", 0) else 1.0
    reach = int(np.ceil((1 if kernel is _triangle else 2) / shrunk))
    at = np.asarray(coordinates, np.float64)
    places = np.floor(at)[:, None] + np.arange(1 - reach, reach + 1)
    a = float(node.get("cubic_coeff_a", -0.75))
    weights = kernel(np.abs(at[:, None] - places) * shrunk, a)
    if node.get("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < size), weights, 0.0)
    weights = weights / np.sum(weights, axis=1, keepdims=True)
    return _Taps(np.clip(places, 0, size - 1).astype(np.int64), weights)


class _Region(NamedTuple):
    """What of an axis is resized, as shares of its length, and how far both are off."""

    start: float
    end: float
    errors: Tuple[float, float] = (0.0, 0.0)

    def beside(self) -> List[_Region]:
        """Return those by which it is known how far places move: as far off as errors may be, of
        one rounding.
        """
        start, end = (np.sqrt(3.0) * error for error in self.errors)
        return [
            _Region(self.start + one, self.end + other)
            for one in {start, -start}
            for other in {end, -end}
            if start or end
        ]


def _onnx_coordinates(
    mode: str,
    size: int,
    outputs: int,
    scale: Any,
    roi: Optional[_Region],
    length: float,
) -> List[Array]:
    """Return where in the input each output lies, in float32 as runtimes compute it, and as other
    devices may: with a factor in place of the divisor, rounded once from float64, with the short
    number that a model's scale was written as. Source: ONNX Resize.

    ``length`` is that of the output: the whole one in onnxruntime, the input's times the scale in
    the reference of ONNX (onnx/onnx#2462).
    """
    short = float(str(_F(scale)))
    ways = [(_F, scale, False), (_F, scale, True), (np.float64, scale, False),
            (np.float64, scale, True), (np.float64, short, False)]  # fmt: skip
    found = [
        _coordinates(mode, size, outputs, one, roi, length, number, by_factor).astype(_F)
        for number, one, by_factor in ways
    ]
    if mode in ("half_pixel", "pytorch_half_pixel") and outputs > 1:
        factor = _F(1) / _F(scale)
        found.append(np.arange(outputs, dtype=_F) * factor + (_F(0.5) * factor - _F(0.5)))
    return found


def _coordinates(
    mode: str,
    size: int,
    outputs: int,
    scale: Any,
    roi: Optional[_Region],
    length: float,
    number: Any,
    by_factor: bool,
) -> Array:
    """Return the coordinates in one arithmetic, that of ``number``."""
    at = np.arange(outputs, dtype=number)
    # A factor is one of float32.
    factor = number(_F(1) / _F(scale))
    scale = number(scale)

    def scaled(values: Array) -> Array:
        return values * factor if by_factor else values / scale

    if mode == "pytorch_half_pixel" and outputs == 1:
        return np.zeros(1, number)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return scaled(at + number(0.5)) - number(0.5)
    if mode == "half_pixel_symmetric":
        adjustment = number(outputs) / (scale * number(size))
        offset = number(size / 2.0) * (number(1) - adjustment)
        made = float(offset) + scaled(at.astype(np.float64) + 0.5) - 0.5
        return made.astype(number)
    if mode == "align_corners":
        if length == 1:
            return np.zeros(1, number)
        if by_factor:
            return at * (number(size - 1) / number(length - 1))
        return at * number(size - 1) / number(length - 1)
    if mode == "asymmetric":
        return scaled(at)
    if mode == "tf_half_pixel_for_nn":
        return scaled(at + number(0.5))
    if mode == "tf_crop_and_resize" and roi is not None:
        start, end = number(roi.start), number(roi.end)
        if length == 1:
            return np.full(1, number(0.5) * (start + end) * number(size - 1))
        along = at * (end - start) * number(size - 1) / number(length - 1)
        return start * number(size - 1) + along
    raise CannotCompute("its coordinate_transformation_mode %s is not known" % mode)


def _axes(node: Node, dimensions: int) -> List[int]:
    numbers = integers(node, "axes", list(range(dimensions)))
    return [number + dimensions if number < 0 else number for number in numbers]


def _targets(
    node: Node, x: Value, scales: Optional[Value], sizes: Optional[Value]
) -> List[Tuple[int, int, float]]:
    """Return (axis, size of the output, scale) of each axis that ONNX's Resize names."""
    axes = _axes(node, x.array.ndim)
    shape = x.array.shape
    if scales is not None and scales.array.size:
        factors = [float(number) for number in scales.array.reshape(-1)]
        if len(factors) != len(axes):
            raise CannotCompute("its scales %s do not fit %s" % (factors, shape))
        return [
            (axis, int(np.floor(_F(shape[axis]) * _F(factor))), factor)
            for axis, factor in zip(axes, factors)
        ]
    if sizes is None or sizes.array.size != len(axes):
        raise CannotCompute("its scales or sizes are not known")
    output_sizes = [int(number) for number in sizes.array.reshape(-1)]
    policy = str(node.get("keep_aspect_ratio_policy", "stretch"))
    if policy == "stretch":
        return [(axis, size, size / shape[axis]) for axis, size in zip(axes, output_sizes)]
    if policy not in ("not_larger", "not_smaller"):
        raise CannotCompute("its keep_aspect_ratio_policy %s is not known" % policy)
    factor = (min if policy == "not_larger" else max)(
        size / shape[axis] for axis, size in zip(axes, output_sizes)
    )
    return [(axis, int(np.floor(factor * shape[axis] + 0.5)), factor) for axis in axes]


def _roi(node: Node, inputs: Inputs, number: int, count: int) -> List[Optional[_Region]]:
    """Return the region of interest of each axis; None where it is not there."""
    value = optional(inputs, number)
    if value is None or value.array.size != 2 * count:
        return [None] * count
    error = np.broadcast_to(0.0 if value.error is None else value.error, value.array.shape)
    (start, end), (off, end_off) = (
        np.asarray(side, np.float64).reshape(2, count).tolist() for side in (value.array, error)
    )
    return [_Region(start[axis], end[axis], (off[axis], end_off[axis])) for axis in range(count)]


def _resized(node: Node, x: Shape, values: Values) -> Optional[Sequence[int]]:
    """Return the axes of ONNX's Resize and Upsample whose sizes change; None where the model does
    not tell them.
    """
    arrays = [value if value is None else np.asarray(value).reshape(-1) for value in values[1:]]
    if node.type == "Upsample" or len(arrays) == 1:
        factors = (
            arrays[0] if arrays else np.atleast_1d(np.asarray(node.get("scales", ()), np.float64))
        )
        return (
            None
            if factors is None or len(factors) != len(x)
            else [axis for axis, factor in enumerate(factors) if factor != 1]
        )
    scales, sizes = (arrays[place] if len(arrays) > place else None for place in (1, 2))
    axes = _axes(node, len(x))
    if scales is not None and len(scales) == len(axes):
        return [axis for axis, factor in zip(axes, scales) if factor != 1]
    if (
        sizes is not None
        and len(sizes) == len(axes)
        and str(node.get("keep_aspect_ratio_policy", "stretch")) == "stretch"
    ):
        return [axis for axis, size in zip(axes, sizes) if size != x[axis]]
    return None


_NOT_ROUNDED = "lengths that are not rounded"
"""No attribute of ONNX's: of a variant."""
_OLD = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
"""What Upsample and Resize of opset 10 do, which had no such attributes."""


def _is_old(node: Node, inputs: Inputs) -> bool:
    """Tell whether a node is of before opset 11: (x, scales)."""
    if node.dialect != ONNX:
        return False
    return node.type == "Upsample" or node.version == 10 or not node.version and len(inputs) == 2


@operator(onnx=["Resize"], ascend=["Resize"], parts=along_unchanged_axes(_resized))
def onnx_resize(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX Resize (and Ascend IR's of the same inputs): (x, roi, scales, sizes), in opset 10 (x,
    scales).
    """
    x = named_input(inputs, 0, "input")
    if _is_old(node, inputs):
        scales = named_input(inputs, 1, "scales")
        if "nearest_mode" not in node.attributes and node.get("mode", "nearest") == "nearest":
            for size, scale in zip(x.array.shape, scales.array.reshape(-1)):
                at = np.arange(int(np.floor(_F(size) * _F(scale))), dtype=_F) / _F(scale)
                if scale < 1 and np.any(at != np.floor(at)):
                    raise CannotCompute(
                        "which neighbour a smaller picture takes was not said before opset 11"
                    )
        mode = str(node.get("mode", "nearest")).replace("bilinear", "linear")
        attributes = {**_OLD, **node.attributes, "mode": mode}
        node, inputs = replace(node, attributes=attributes, version=11), [x, None, scales]
    mode = str(node.get("mode", "nearest"))
    rule = str(node.get("coordinate_transformation_mode", "half_pixel"))
    targets = _targets(node, x, optional(inputs, 2), optional(inputs, 3))
    regions = _roi(node, inputs, 1, len(targets))
    outside = surely = perhaps = np.zeros((1,) * x.array.ndim, bool)
    whole, shape = not x.is_float, x.array.shape
    for (axis, outputs, scale), region in zip(targets, regions):
        size = shape[axis]
        if outputs == size and rule != "tf_crop_and_resize":
            continue
        length = size * scale if node.get(_NOT_ROUNDED, False) else outputs
        ways = _onnx_coordinates(rule, size, outputs, scale, region, length)
        # A cubic's weights are sums of four terms of up to 8, in float32.
        rounding = _CUBIC_ROUNDING if mode == "cubic" and arithmetic.intermediate else 0.0
        if region is None or rule != "tf_crop_and_resize":
            x = _onnx_taps(node, mode, ways, size, scale).apply(x, axis, rounding)
            continue
        # A region that is rounded to a narrower type moves all places.
        off = [_onnx_coordinates(rule, size, outputs, scale, beside, length)[0]
               for beside in region.beside()]  # fmt: skip
        made = _onnx_taps(node, mode, [*ways, *off], size, 0.0).apply(x, axis, rounding)
        if off and mode != "nearest":
            others = [_onnx_taps(node, mode, [one], size, 0.0) for one in off]
            apart = [np.abs(taps.apply(Value(x.array), axis).array - made.array)
                     for taps in others]  # fmt: skip
            made = Value(made.array, joined_errors(made.error, np.max(apart, 0)))
        x = made
        beyond = np.array([(one < 0) | (one > size - 1) for one in (*ways, *off)])
        beyond = beyond.reshape([-1] + [outputs if n == axis else 1 for n in range(x.array.ndim)])
        outside = outside | beyond[0]
        surely, perhaps = surely | beyond.all(0), perhaps | beyond.any(0)
    if whole and mode != "nearest":
        raise CannotCompute("how whole numbers are rounded in mode %s is not known" % mode)
    if np.any(perhaps):
        value = float(node.get("extrapolation_value", 0.0))
        # On the border rounding decides.
        border = np.where(perhaps & ~surely & (not whole), np.abs(x.array - value), 0.0)
        error = joined_errors(None if x.error is None else np.where(surely, 0.0, x.error), border)
        x = Value(
            np.where(outside, value, x.array),
            error if x.error is not None or np.any(border) else None,
        )
    return [x]


def _onnx_taps(node: Node, mode: str, ways: Sequence[Array], size: int, scale: float) -> _Taps:
    if mode == "nearest":
        return _nearest(ways, size, str(node.get("nearest_mode", "round_prefer_floor")), scale)
    if mode == "linear" and not node.get("antialias", 0):
        return _linear(ways[0], size)
    if mode in ("linear", "cubic"):
        kernel = _triangle if mode == "linear" else _keys
        return _convolved(node, ways[0], size, kernel, scale)
    raise CannotCompute("its mode %s is not known" % mode)


@operator(onnx=["Upsample"], parts=along_unchanged_axes(_resized))
def onnx_upsample(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX Upsample: scales are an input from opset 9 on, an attribute before, two attributes in
    opset 1.
    """
    x = named_input(inputs, 0, "input")
    if optional(inputs, 1) is not None:
        scales = named_input(inputs, 1, "scales").array.reshape(-1)
    elif "height_scale" in node.attributes:
        scales = np.array(
            [1.0, 1.0, float(node.get("height_scale")), float(node.get("width_scale"))]
        )
    else:
        scales = np.atleast_1d(np.asarray(node.get("scales"), np.float64))
    return onnx_resize(node, [x, Value(np.asarray(scales, np.float32))], arithmetic)


def _framework_axis(
    x: Value, axis: int, outputs: int, linear: bool, corners: bool, centers: bool
) -> Value:
    """Resize one axis as TensorFlow does, and Ascend IR by the same attributes. Source: TensorFlow,
    image_resizer_state.h.
    """
    size = x.array.shape[axis]
    if corners and centers:
        raise CannotCompute("its align_corners and half_pixel_centers exclude each other")
    if outputs < 1:
        raise CannotCompute("its size %d is not known" % outputs)
    sides = (size - 1, outputs - 1) if corners and outputs > 1 else (size, outputs)
    half = _F(0.5 if centers else 0.0)
    at = np.arange(outputs, dtype=_F) + half
    factor = _F(sides[0]) / _F(sides[1])
    if linear:
        return _linear(at * factor - half, size).apply(x, axis)
    wide = at.astype(np.float64)
    ways = [at * factor, at * _F(sides[0]) / _F(sides[1]),
            *((wide * one).astype(_F) for one in (factor, sides[0] / sides[1]))]  # fmt: skip
    rule = "round_prefer_ceil" if corners else "floor"
    return _nearest(ways, size, rule, float(factor)).apply(x, axis)


@operator(
    tensorflow=["ResizeBilinear", "ResizeNearestNeighbor"],
    ascend=[
        "ResizeBilinear",
        "ResizeBilinearD",
        "ResizeBilinearV2",
        "ResizeBilinearV2D",
        "ResizeNearestNeighbor",
        "ResizeNearestNeighborD",
        "ResizeNearestNeighborV2",
        "ResizeNearestNeighborV2D",
    ],
    parts=along_unchanged_axes(
        lambda node, x, values: (1, 2) if node.dialect == "tensorflow" else None
    ),
)
def framework_resize(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow's (x, size) and Ascend IR's, whose versions ...D have ``size`` as an attribute."""
    x = named_input(inputs, 0, "input")
    sizes = (
        integers(node, "size")
        if node.type.endswith("D")
        else named_input(inputs, 1, "size").array.reshape(-1)
    )
    if x.array.ndim != 4 or len(sizes) != 2:
        raise CannotCompute("its size %s does not fit %s" % (list(sizes), x.array.shape))
    first = 1
    if node.dialect == "ascend":
        if not node.layouts or len(node.layouts[0]) != 4:
            raise CannotCompute("its input's format is not known")
        first = 1 if is_last(node.layouts[0]) else 2
        factors = np.atleast_1d(np.asarray(node.get("scales", [0.0]), np.float64))
        size_factors = [
            int(size) / x.array.shape[first + number] for number, size in enumerate(sizes)
        ]
        if np.any(factors) and not np.allclose(factors, size_factors, rtol=1e-6):
            raise CannotCompute(
                "its scales=%s are not those of its sizes, %s" % (factors.tolist(), size_factors)
            )
    linear = "Bilinear" in node.type
    if linear:
        x = Value(np.asarray(x.array, np.float64), x.error)
    for number, size in enumerate(sizes):
        corners, centers = (
            bool(node.get("align_corners", False)),
            bool(node.get("half_pixel_centers", False)),
        )
        x = _framework_axis(x, first + number, int(size), linear, corners, centers)
    return [x]


@operator(ascend=["Upsample"])
def ascend_upsample(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR Upsample: each element stride_h times below and stride_w times beside, times
    ``scale``.
    """
    x = named_input(inputs, 0, "input")
    if x.array.ndim != 4:
        raise CannotCompute("its input %s has not four axes" % (x.array.shape,))
    first = 1 if node.layouts and node.layouts[0] == "NHWC" else 2
    for number, name in enumerate(("stride_h", "stride_w")):
        times = int(node.get(name, 2))
        places = np.repeat(np.arange(x.array.shape[first + number]), times)
        x = _Taps(places[:, None], np.ones((len(places), 1))).apply(x, first + number)
    factor = float(node.get("scale", 1.0))
    if factor == 1.0:
        return [x]
    return [Value(x.array * factor, None if x.error is None else x.error * abs(factor))]


def _interp_size(node: Node, name: str, size: int, like: Optional[int]) -> int:
    """Return the output's size along one axis. Sources: interp_layer.cpp of DeepLab v2, and of
    SegStereo, which knows a second bottom; importers of ICNet's branch, where ``use_blob_size``
    takes the second bottom's size whatever else is given.
    """
    if node.get("use_blob_size", False):
        if like is None:
            raise CannotCompute("it has use_blob_size and no second input")
        return like
    factors = {"shrink_factor", "zoom_factor"} & set(node.attributes)
    if name in node.attributes and len(factors) != 1:
        return int(node.get(name))
    if not factors and like is not None:
        return like
    if not factors:
        raise CannotCompute("its %s is not known" % name)
    size = (size - 1) // int(node.get("shrink_factor", 1)) + 1
    return size + (size - 1) * (int(node.get("zoom_factor", 1)) - 1)


@operator(caffe=["Interp"], parts=along_unchanged_axes(lambda node, x, values: (2, 3)))
def caffe_interp(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Interp of Caffe's branches: bilinear, the corners lie on each other; pads are negative and
    cut; a second input gives the size.
    """
    x = named_input(inputs, 0, "input")
    begin, end = int(node.get("pad_beg", 0)), int(node.get("pad_end", 0))
    if (
        begin > 0
        or end > 0
        or x.array.ndim != 4
        or str(node.get("interp_type", "bilinear")) != "bilinear"
    ):
        raise CannotCompute("its pads are not negative, or it is not bilinear")
    like = named_input(inputs, 1, "second input").array.shape if len(inputs) > 1 else None
    cut: Sequence[slice] = [slice(-begin, size + end) for size in x.array.shape[2:]]
    key = (slice(None), slice(None), *cut)
    x = Value(
        x.array[key], None if x.error is None else np.broadcast_to(x.error, x.array.shape)[key]
    )
    for axis, name in ((2, "height"), (3, "width")):
        outputs = _interp_size(
            node, name, x.array.shape[axis], None if like is None else like[axis]
        )
        x = _framework_axis(x, axis, outputs, True, True, False)
    return [x]


@operator(caffe=["Resize"], parts=along_unchanged_axes(lambda node, x, values: (2, 3)))
def caffe_resize(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Resize of Caffe's branches: bilinear from the first row and column on; behind the last ones
    it adds nothing, so they fade.

    Source: resize_layer.cpp and util_img.cpp of branches with pyramid tests.
    """
    x = named_input(inputs, 0, "input")
    for axis, name in ((2, "height"), (3, "width")):
        size = x.array.shape[axis]
        by_scale = bool(node.get("is_pyramid_test", False))
        outputs = (
            int(_F(node.get("out_%s_scale" % name)) * _F(size)) if by_scale else int(node.get(name))
        )
        if outputs < 1:
            raise CannotCompute("its %s %d is not known" % (name, outputs))
        at = np.arange(outputs, dtype=_F) * (_F(size) / _F(outputs))
        low = np.floor(at).astype(np.int64)
        share = (at - low.astype(_F)).astype(np.float64)
        weights = np.stack([1 - share, np.where(low + 1 < size, share, 0.0)], 1)
        x = _Taps(np.stack([low, np.minimum(low + 1, size - 1)], 1), weights).apply(x, axis)
    return [x]


_COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
)  # fmt: skip


def _by_lengths(node: Node, inputs: Inputs) -> Iterator[Variant]:
    x, scales = inputs[0], inputs[2] if len(inputs) > 2 else None
    if x is None or scales is None or not scales.array.size:
        return
    sizes = [size for _, size, _ in _targets(node, x, scales, None)]

    def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
        return [given[0], given[1], None, Value(np.array(sizes, np.int64))]

    ratios = [size / x.array.shape[axis] for axis, size, _ in _targets(node, x, scales, None)]
    yield Variant("its scales", text_of(ratios) + " (the ratio of lengths)",
                  text_of(scales.array), node, taken)  # fmt: skip


def _exact_lengths(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """its own length times the scale, not rounded (align_corners, tf_crop_and_resize)"""
    rule = str(node.get("coordinate_transformation_mode", "half_pixel"))
    if rule in ("align_corners", "tf_crop_and_resize"):
        attributes = {**node.attributes, _NOT_ROUNDED: True}
        yield "scale times length", "rounded to whole numbers", replace(node, attributes=attributes)


def _other_modes(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """linear or cubic with each coordinate_transformation_mode"""
    own = str(node.get("mode", "nearest"))
    coordinates = str(
        node.get(
            "coordinate_transformation_mode",
            "asymmetric" if _is_old(node, inputs) else "half_pixel",
        )
    )
    for mode in ("linear", "cubic"):
        for other in _COORDINATES if mode != own else ():
            if other != coordinates:
                changed = {"mode": mode, "coordinate_transformation_mode": other}
                words = "%s and coordinate_transformation_mode %s"
                instead = replace(node, attributes={**node.attributes, **changed})
                yield words % (mode, other), words % (own, coordinates), instead


def _nearest_rules(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """each with each nearest_mode"""
    if str(node.get("mode", "nearest")) != "nearest":
        return
    new = {
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_floor",
    }
    defaults = _OLD if _is_old(node, inputs) else new
    own = [str(node.get(name, default)) for name, default in defaults.items()]
    for coordinates in _COORDINATES:
        for rule in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            if coordinates != own[0] and rule != own[1]:
                changed = {"coordinate_transformation_mode": coordinates, "nearest_mode": rule}
                yield (
                    "%s and nearest_mode %s" % (coordinates, rule),
                    "%s and nearest_mode %s" % (own[0], own[1]),
                    replace(node, attributes={**node.attributes, **changed}),
                )


declare(
    "Resize Upsample",
    attribute(
        "nearest_mode",
        ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        lambda node, inputs: "floor" if _is_old(node, inputs) else "round_prefer_floor",
    ),
    attribute(
        "coordinate_transformation_mode",
        _COORDINATES,
        lambda node, inputs: "asymmetric" if _is_old(node, inputs) else "half_pixel",
    ),
    attribute("mode", ("nearest", "linear", "cubic"), "nearest"),
    attribute("cubic_coeff_a", (-0.75, -0.5), -0.75, fitted=True),
    attribute("exclude_outside", (0, 1), 0),
    attribute("extrapolation_value", (0.0,), 0.0, fitted=True),
    attribute("antialias", (0, 1), 0),
    other_node("its lengths", _exact_lengths),
    Reading("its scales", "the ratio of its lengths", _by_lengths),
    other_node("coordinate_transformation_mode", _nearest_rules)._replace(together=True),
    other_node("mode", _other_modes)._replace(together=True),
)

declare(
    "ResizeBilinear ResizeNearestNeighbor",
    attribute("half_pixel_centers", (False, True), False),
    attribute("align_corners", (False, True), False),
    other_function(
        *(
            Function(kind, dialect=TENSORFLOW)
            for kind in ("ResizeBilinear", "ResizeNearestNeighbor")
        ),
        keeps=True,
    ),
    dialect=TENSORFLOW,
)
