"""The shapes of a layer's tops from those of its bottoms, for the layer types that are checked
against real Caffe and some of branches.

Source of each rule: the Reshape method of that layer in BVLC Caffe, or in the branch that
docs/caffe.md names.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence, Tuple

from ...base.element_types import element_count
from ...base.errors import InputError
from ...netfiles.caffe_net import Layer
from .layer_params import Params, axis_of

Shape = Tuple[int, ...]


def top_shapes(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    """Return the shapes of a layer's tops.

    Raises
    ------
    InputError
        Caffe would refuse these bottoms or parameters, or what a layer of this type makes is not
        known here.
    """
    rule = _RULES.get(layer.type)
    if rule is None and layer.type not in _KEEPING:
        raise _fail(layer, "the shapes of its tops are not known")
    shapes = [bottoms[0]] * len(layer.tops) if rule is None else rule(layer, bottoms)
    if any(dim < 1 for shape in shapes for dim in shape):
        raise InputError(
            "layer %s (%s): bottoms %s lead to an empty top"
            % (layer.title, layer.type, _listed(bottoms))
        )
    return shapes


def weight_shapes(layer: Layer, bottom: Shape) -> List[Shape]:
    """Return the shapes of the weights and the bias of a convolution or an inner product; none of
    other layers.

    Parameters
    ----------
    bottom
        The shape of its first bottom.

    Raises
    ------
    InputError
        Its parameters are wrong or missing.
    """
    if layer.type in ("Convolution", "Deconvolution"):
        params = Params(layer, "convolution_param")
        kernel, group, count = (
            params.pair("kernel", 0, both=True),
            params.integer("group", 1),
            params.integer("num_output", 0),
        )
        channels = _image(layer, bottom)[1]
        if kernel is None or group < 1:
            raise _fail(layer, "kernel sizes and a group of at least 1 are required")
        first = (
            (channels, count // group)
            if layer.type == "Deconvolution"
            else (count, channels // group)
        )
        shapes: List[Shape] = [first + tuple(kernel)]
    elif layer.type == "InnerProduct":
        params = Params(layer, "inner_product_param")
        count, inner = (
            params.integer("num_output", 0),
            element_count(bottom[axis_of(params, "axis", 1, len(bottom)) :]),
        )
        shapes = [(inner, count) if params.flag("transpose", False) else (count, inner)]
    else:
        return []
    return shapes + [(count,)] if params.flag("bias_term", True) else shapes


def _listed(shapes: Sequence[Shape]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)


def _fail(layer: Layer, problem: str) -> InputError:
    return InputError("layer %s (%s): %s" % (layer.title, layer.type, problem))


def _image(layer: Layer, shape: Shape) -> Shape:
    if len(shape) != 4:
        raise _fail(layer, "its bottom must have four axes, got %s" % list(shape))
    return shape


def _convolution(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    params = Params(layer, "convolution_param")
    kernel = params.pair("kernel", 0, both=True)
    stride, pad, dilation = (
        params.pair("stride", 1, both=True),
        params.pair("pad", 0),
        params.pair("dilation", 1),
    )
    if (
        kernel is None
        or stride is None
        or pad is None
        or dilation is None
        or min(kernel + stride) < 1
        or not params.has("num_output")
    ):
        raise _fail(layer, "num_output and kernel sizes and strides of at least 1 are required")
    tops: List[Shape] = []
    for bottom in bottoms:
        n, channels, height, width = _image(layer, bottom)
        group = params.integer("group", 1)
        if group < 1 or channels % group or params.integer("num_output", 0) % group:
            raise params.fail(
                "group",
                "is %d, which does not divide %d channels or num_output" % (group, channels),
            )
        extents = [dilation[i] * (kernel[i] - 1) + 1 for i in (0, 1)]
        sizes = [height, width]
        if layer.type == "Deconvolution":
            out = [stride[i] * (sizes[i] - 1) + extents[i] - 2 * pad[i] for i in (0, 1)]
        else:
            out = [(sizes[i] + 2 * pad[i] - extents[i]) // stride[i] + 1 for i in (0, 1)]
        tops.append((n, params.integer("num_output", 0), out[0], out[1]))
    return tops


def _pooling(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    params = Params(layer, "pooling_param")
    n, channels, height, width = _image(layer, bottoms[0])
    if params.flag("global_pooling", False):
        return [(n, channels, 1, 1)] * len(layer.tops)
    kernel, stride, pad = (
        params.pair("kernel", 0, both=True),
        params.pair("stride", 1, both=True),
        params.pair("pad", 0, both=True),
    )
    if kernel is None or stride is None or pad is None or min(kernel + stride) < 1:
        raise _fail(layer, "kernel sizes and strides of at least 1 are required")
    if any(pad[i] >= kernel[i] for i in (0, 1)):
        raise params.fail("pad", "is not smaller than the kernel")
    # Branches of Caffe that round down.
    down = params.word("round_mode", "CEIL") == "FLOOR" or not params.flag("ceil_mode", True)
    out = []
    for i, size in enumerate((height, width)):
        room = size + 2 * pad[i] - kernel[i]
        steps = (room // stride[i] if down else -(-room // stride[i])) + 1
        if any(pad) and (steps - 1) * stride[i] >= size + pad[i]:
            steps -= 1
        out.append(steps)
    return [(n, channels, out[0], out[1])] * len(layer.tops)


def _inner_product(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    params = Params(layer, "inner_product_param")
    axis = axis_of(params, "axis", 1, len(bottoms[0]))
    return [bottoms[0][:axis] + (params.integer("num_output", 0),)]


def _flatten(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    params, shape = Params(layer, "flatten_param"), bottoms[0]
    first, last = (
        axis_of(params, "axis", 1, len(shape)),
        axis_of(params, "end_axis", -1, len(shape)),
    )
    if first > last:
        raise params.fail("end_axis", "lies before axis")
    return [shape[:first] + (element_count(shape[first : last + 1]),) + shape[last + 1 :]]


def _reshape(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    params, shape = Params(layer, "reshape_param"), bottoms[0]
    dims = params.read(params.message.message("shape").integers, "dim")
    axis, n_axes = params.integer("axis", 0), params.integer("num_axes", -1)
    start = axis if axis >= 0 else len(shape) + axis + 1
    stop = len(shape) if n_axes == -1 else start + n_axes
    if not 0 <= start <= stop <= len(shape):
        raise params.fail("axis", "and num_axes reach outside the blob's %d axes" % len(shape))
    out = []
    for number, dim in enumerate(dims):
        if dim == 0 and start + number >= len(shape):
            raise params.fail(
                "shape", "copies axis %d of a blob with %d axes" % (start + number, len(shape))
            )
        out.append(shape[start + number] if dim == 0 else dim)
    whole = list(shape[:start]) + out + list(shape[stop:])
    if whole.count(-1) == 1:
        known = -element_count(whole)
        if known < 1 or element_count(shape) % known:
            raise params.fail("shape", "does not divide %d elements" % element_count(shape))
        whole[whole.index(-1)] = element_count(shape) // known
    if element_count(whole) != element_count(shape):
        raise params.fail(
            "shape", "has %d elements, the bottom %d" % (element_count(whole), element_count(shape))
        )
    return [tuple(whole)]


def concat_axis(layer: Layer, rank: int) -> int:
    """Return the axis of a Concat or Slice layer; ``concat_dim`` and ``slice_dim`` are its old
    names.
    """
    old, name = (
        ("concat_dim", "concat_param") if layer.type == "Concat" else ("slice_dim", "slice_param")
    )
    params = Params(layer, name)
    if params.has(old) and params.has("axis"):
        raise params.fail(old, "and axis are both given")
    return axis_of(params, old if params.has(old) else "axis", 1, rank)


def _concat(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    axis = concat_axis(layer, len(bottoms[0]))
    rest = {shape[:axis] + shape[axis + 1 :] for shape in bottoms}
    if len(rest) != 1:
        raise _fail(layer, "its bottoms %s differ outside axis %d" % (_listed(bottoms), axis))
    return [bottoms[0][:axis] + (sum(shape[axis] for shape in bottoms),) + bottoms[0][axis + 1 :]]


def slice_points(layer: Layer, shape: Shape) -> List[int]:
    """Return where a Slice layer cuts its axis: as written, or in equal parts."""
    params, axis, n_tops = (
        Params(layer, "slice_param"),
        concat_axis(layer, len(shape)),
        len(layer.tops),
    )
    points = params.integers("slice_point")
    if not points and n_tops > 1:
        if shape[axis] % n_tops:
            raise _fail(
                layer, "%d channels cannot be cut into %d equal tops" % (shape[axis], n_tops)
            )
        points = [shape[axis] // n_tops * number for number in range(1, n_tops)]
    if len(points) != n_tops - 1 or any(
        b <= a for a, b in zip([0] + points, points + [shape[axis]])
    ):
        raise params.fail(
            "slice_point", "%s does not cut %d into %d tops" % (points, shape[axis], n_tops)
        )
    return points


def _slice(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    shape = bottoms[0]
    axis, points = concat_axis(layer, len(shape)), slice_points(layer, shape)
    edges = [0] + points + [shape[axis]]
    return [
        shape[:axis] + (stop - start,) + shape[axis + 1 :] for start, stop in zip(edges, edges[1:])
    ]


def _crop(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    params = Params(layer, "crop_param")
    axis = axis_of(params, "axis", 2, len(bottoms[0]))
    offsets = params.integers("offset") or [0]
    n_axes = len(bottoms[0]) - axis
    if len(offsets) not in (1, n_axes):
        raise params.fail("offset", "has %d values for %d axes" % (len(offsets), n_axes))
    for number in range(n_axes):
        offset = offsets[number if len(offsets) > 1 else 0]
        if offset + bottoms[1][axis + number] > bottoms[0][axis + number]:
            raise params.fail("offset", "reaches outside the bottom")
    return [bottoms[0][:axis] + bottoms[1][axis:]]


def _scale(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    if len(bottoms) > 1:
        axis = axis_of(Params(layer, "scale_param"), "axis", 1, len(bottoms[0]))
        if bottoms[0][axis : axis + len(bottoms[1])] != bottoms[1]:
            problem = "its second bottom %s is no part of the first %s from axis %d on"
            raise _fail(layer, problem % (list(bottoms[1]), list(bottoms[0]), axis))
    return [bottoms[0]]


def _eltwise(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    if len(set(bottoms)) != 1:
        raise _fail(layer, "its bottoms have different shapes: %s" % _listed(bottoms))
    n_coeff = len(Params(layer, "eltwise_param").message.texts("coeff"))
    if n_coeff not in (0, len(bottoms)):
        raise Params(layer, "eltwise_param").fail(
            "coeff", "has %d values for %d bottoms" % (n_coeff, len(bottoms))
        )
    return [bottoms[0]]


def _lrn(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    params = Params(layer, "lrn_param")
    if params.integer("local_size", 5) % 2 == 0:
        raise params.fail("local_size", "is even")
    return [_image(layer, bottoms[0])]


def _mvn(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    if len(bottoms[0]) > 4:
        raise _fail(layer, "its bottom must have four axes at most, got %s" % list(bottoms[0]))
    return [bottoms[0]]


def _softmax(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    axis_of(Params(layer, "softmax_param"), "axis", 1, len(bottoms[0]))
    return [bottoms[0]]


def _permute(layer: Layer, bottoms: Sequence[Shape]) -> List[Shape]:
    shape = bottoms[0]
    order = list(dict.fromkeys(Params(layer, "permute_param").integers("order")))
    if not all(0 <= axis < len(shape) for axis in order):
        raise Params(layer, "permute_param").fail(
            "order", "does not fit a blob with %d axes" % len(shape)
        )
    return [
        tuple(
            shape[axis]
            for axis in order + [axis for axis in range(len(shape)) if axis not in order]
        )
    ]


#: Their tops have the shape of the first bottom.
_KEEPING = frozenset(
    "AbsVal BN BNLL BatchNorm Bias Clip Dropout ELU Exp Log Mish Normalize PReLU Power ReLU "
    "ReLU6 Reverse SeLu SeLuDropout ShuffleChannel "
    "Sigmoid Silence SpatialDropout Split Swish TanH Threshold".split()
)
_RULES: Dict[str, Callable[[Layer, Sequence[Shape]], List[Shape]]] = {
    "Axpy": lambda layer, bottoms: [bottoms[1]],
    "Convolution": _convolution,
    "ConvolutionDepthwise": _convolution,
    "DepthwiseConvolution": _convolution,
    "Deconvolution": _convolution,
    "Pooling": _pooling,
    "InnerProduct": _inner_product,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Concat": _concat,
    "Slice": _slice,
    "Crop": _crop,
    "Scale": _scale,
    "Eltwise": _eltwise,
    "LRN": _lrn,
    "MVN": _mvn,
    "Permute": _permute,
    "Softmax": _softmax,
}
