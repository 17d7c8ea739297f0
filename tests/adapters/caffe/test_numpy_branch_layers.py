"""Layers of Caffe's branches, and those that scripts/caffe_draw does not draw, against plain
loops.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_caffe_layer import assert_near, by_numpy, by_opencv

from goldwatch.base.errors import InputError


class Draw:
    """Random arrays and numbers of one seed; float64 copies are what the loops compute with."""

    def __init__(self, seed):
        self.state = np.random.RandomState(seed)

    def below(self, least, most):
        return int(self.state.randint(least, most + 1))

    def numbers(self, *shape):
        return self.state.standard_normal(shape).astype(np.float32)

    def picture(self):
        return self.numbers(self.below(1, 3), self.below(1, 4), self.below(1, 5), self.below(1, 6))


def each(function, *arrays):
    """Apply a function of numbers to each element."""
    out = np.empty(arrays[0].shape)
    for place in np.ndindex(*out.shape):
        out[place] = function(*(float(array[place]) for array in arrays))
    return out


def normalize(draw):
    x, spatial, shared = draw.picture(), bool(draw.below(0, 1)), bool(draw.below(0, 1))
    scale = draw.numbers(1 if shared else x.shape[1])
    right = np.empty(x.shape)
    for n, c, h, w in np.ndindex(*x.shape):
        over = x[n] if spatial else x[n, :, h, w]
        right[n, c, h, w] = (
            x[n, c, h, w]
            / math.sqrt(sum(float(v) ** 2 for v in over.ravel()) + 1e-10)
            * scale[0 if shared else c]
        )
    body = "norm_param { across_spatial: %s channel_shared: %s }" % (
        str(spatial).lower(),
        str(shared).lower(),
    )
    return body, [x], [scale], [right]


def bilinear(x, height, width):
    """The corners of both pictures lie on each other."""
    right = np.zeros(x.shape[:2] + (height, width))
    for n, c, h, w in np.ndindex(*right.shape):
        up = h * (x.shape[2] - 1) / (height - 1) if height > 1 else 0.0
        left = w * (x.shape[3] - 1) / (width - 1) if width > 1 else 0.0
        # What float32 makes a hair less than a whole number is that number.
        up, left = (round(at) if abs(at - round(at)) < 1e-6 else at for at in (up, left))
        for dh, dw in np.ndindex(2, 2):
            share = (1 - abs(up - int(up) - dh)) * (1 - abs(left - int(left) - dw))
            if share:
                right[n, c, h, w] += share * x[n, c, int(up) + dh, int(left) + dw]
    return right


def interp(draw):
    x, way, number = draw.picture(), draw.below(0, 4), draw.below(1, 3)
    sizes, bottoms = x.shape[2:], [x]
    if way == 0:
        body, sizes = "height: 4 width: %d" % number, (4, number)
    elif way == 1:
        body, sizes = "zoom_factor: %d" % number, tuple(n + (n - 1) * (number - 1) for n in sizes)
    elif way == 2:
        body, sizes = "shrink_factor: %d" % number, tuple((n - 1) // number + 1 for n in sizes)
    elif way == 3:
        less = tuple((n - 1) // 2 + 1 for n in sizes)
        body, sizes = "shrink_factor: 2 zoom_factor: 3", tuple(n + (n - 1) * 2 for n in less)
    else:
        body, sizes = "", (number + 1, number)
        bottoms.append(draw.numbers(1, 2, *sizes))
    cut = x
    if way < 2 and min(x.shape[2:]) > 2:
        body, cut = body + " pad_beg: -1 pad_end: -1", x[:, :, 1:-1, 1:-1]
        sizes = sizes if way == 0 else tuple(n + (n - 1) * (number - 1) for n in cut.shape[2:])
    return "interp_param { %s }" % body, bottoms, [], [bilinear(cut, *sizes)]


def resize(draw):
    x, sizes = draw.picture(), (draw.below(1, 7), draw.below(1, 7))
    body = "height: %d width: %d" % sizes
    if draw.below(0, 1):
        sizes = tuple(int(size * factor) for size, factor in zip(x.shape[2:], (2, 1.5)))
        body = "is_pyramid_test: true out_height_scale: 2 out_width_scale: 1.5"
    right = np.zeros(x.shape[:2] + sizes)
    for n, c, h, w in np.ndindex(*right.shape):
        up, left = (
            float(np.float32(h) * (np.float32(x.shape[2]) / sizes[0])),
            float(np.float32(w) * (np.float32(x.shape[3]) / sizes[1])),
        )
        for dh, dw in np.ndindex(2, 2):
            if int(up) + dh < x.shape[2] and int(left) + dw < x.shape[3]:
                share = (1 - abs(up - int(up) - dh)) * (1 - abs(left - int(left) - dw))
                right[n, c, h, w] += share * x[n, c, int(up) + dh, int(left) + dw]
    return "resize_param { %s }" % body, [x], [], [right]


def upsample(draw):
    x, high, wide, factor = draw.picture(), draw.below(1, 3), draw.below(1, 3), draw.below(1, 2)
    right = np.empty((x.shape[0], x.shape[1], x.shape[2] * high, x.shape[3] * wide))
    for n, c, h, w in np.ndindex(*right.shape):
        right[n, c, h, w] = x[n, c, h // high, w // wide] * factor
    return (
        "upsample_param { scale: %d stride_h: %d stride_w: %d }" % (factor, high, wide),
        [x],
        [],
        [right],
    )


def axpy(draw):
    x = draw.picture()
    a, y = draw.numbers(*x.shape[:2]), draw.numbers(*x.shape)
    shaped = a if draw.below(0, 1) else a[:, :, None, None]
    wide = np.broadcast_to(a[:, :, None, None], x.shape)
    return "", [shaped, x, y], [], [each(lambda a, x, y: a * x + y, wide, x, y)]


def shuffle(draw):
    group, inner = draw.below(1, 3), draw.below(1, 3)
    x = draw.numbers(2, group * inner, 2, 3)
    right = np.empty(x.shape)
    for g, i in np.ndindex(group, inner):
        right[:, i * group + g] = x[:, g * inner + i]
    return "shuffle_channel_param { group: %d }" % group, [x], [], [right]


def permute(draw):
    x, order = draw.picture(), list(draw.state.permutation(4))
    right = np.empty([x.shape[axis] for axis in order])
    for place in np.ndindex(*x.shape):
        right[tuple(place[axis] for axis in order)] = x[place]
    # Axes that are not named follow in their order.
    named = order[: next(k for k in range(5) if order[k:] == sorted(order[k:]))]
    return "permute_param { %s }" % " ".join("order: %d" % axis for axis in named), [x], [], [right]


def transpose(draw):
    body, bottoms, blobs, right = permute(draw)
    order = [int(word) for word in body.split() if word.isdigit()]
    order += [axis for axis in range(4) if axis not in order]
    return (
        "transpose_param { %s }" % " ".join("dim: %d" % axis for axis in order),
        bottoms,
        blobs,
        right,
    )


def reverse(draw):
    x, axes = draw.picture(), sorted(set(draw.state.randint(0, 4, 2).tolist()))
    right = np.empty(x.shape)
    for place in np.ndindex(*x.shape):
        right[place] = x[
            tuple(
                size - 1 - at if axis in axes else at
                for axis, (at, size) in enumerate(zip(place, x.shape))
            )
        ]
    return "reverse_param { %s }" % " ".join("axis: %d" % axis for axis in axes), [x], [], [right]


def bias(draw):
    x, axis = draw.picture(), draw.below(0, 3)
    b = draw.numbers(*x.shape[axis : axis + 1])
    wide = np.broadcast_to(b.reshape((-1,) + (1,) * (3 - axis)), x.shape)
    as_bottom = draw.below(0, 1)
    return (
        "bias_param { axis: %d }" % axis,
        [x, b] if as_bottom else [x],
        [] if as_bottom else [b],
        [each(lambda x, b: x + b, x, wide)],
    )


def logarithm(draw):
    x = np.abs(draw.picture())
    return (
        "log_param { base: 10 scale: 2 shift: 9 }",
        [x],
        [],
        [each(lambda v: math.log10(2 * v + 9), x)],
    )


def mish(draw):
    x = draw.picture() * 5
    return "", [x], [], [each(lambda v: v * math.tanh(math.log1p(math.exp(v))), x)]


def relu6(draw):
    x = draw.picture() * 5
    return "", [x], [], [each(lambda v: min(max(v, 0.0), 6.0), x)]


def threshold(draw):
    x = draw.picture()
    return (
        "threshold_param { threshold: 0.3 }",
        [x],
        [],
        [each(lambda v: float(v > float(np.float32(0.3))), x)],
    )


def holes(draw):
    """DeepLab's name of dilation."""
    x, kernel, hole = draw.picture(), draw.below(1, 2), draw.below(1, 3)
    w = draw.numbers(2, x.shape[1], kernel, kernel)
    reach = (kernel - 1) * hole
    padded = np.pad(x, [(0, 0), (0, 0), (reach, reach), (reach, reach)], mode="constant")
    right = np.zeros((len(x), 2) + tuple(size + reach for size in x.shape[2:]))
    for n, o, h, k in np.ndindex(*right.shape):
        seen = padded[n, :, h : h + reach + 1 : hole, k : k + reach + 1 : hole]
        right[n, o, h, k] = sum(float(a) * float(f) for a, f in zip(seen.ravel(), w[o].ravel()))
    body = (
        "convolution_param { num_output: 2 kernel_size: %d hole: %d pad: %d bias_term: false }"
        % (kernel, hole, reach)
    )
    return body, [x], [w], [right]


def depthwise(draw):
    x, kernel, stride, pad = draw.picture(), draw.below(1, 3), draw.below(1, 2), draw.below(1, 2)
    w, b = draw.numbers(x.shape[1], 1, kernel, kernel), draw.numbers(x.shape[1])
    high, wide = ((size + 2 * pad - kernel) // stride + 1 for size in x.shape[2:])
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], mode="constant")
    right = np.empty(x.shape[:2] + (high, wide))
    for n, c, h, k in np.ndindex(*right.shape):
        seen = padded[n, c, h * stride : h * stride + kernel, k * stride : k * stride + kernel]
        right[n, c, h, k] = (
            sum(float(a) * float(f) for a, f in zip(seen.ravel(), w[c, 0].ravel())) + b[c]
        )
    body = "convolution_param { num_output: %d kernel_size: %d stride: %d pad: %d }" % (
        x.shape[1],
        kernel,
        stride,
        pad,
    )
    return body, [x], [w, b], [right]


def stochastic(draw):
    x, kernel = np.abs(draw.picture()) * draw.below(0, 3), draw.below(1, 2)
    kernel = min(kernel, *x.shape[2:])
    right = np.empty(x.shape[:2] + tuple(-(-(size - kernel) // 2) + 1 for size in x.shape[2:]))
    for n, c, h, w in np.ndindex(*right.shape):
        seen = [float(v) for v in x[n, c, 2 * h : 2 * h + kernel, 2 * w : 2 * w + kernel].ravel()]
        right[n, c, h, w] = sum(v * v for v in seen) / sum(seen) if sum(seen) > 0 else 0.0
    return "pooling_param { pool: STOCHASTIC kernel_size: %d stride: 2 }" % kernel, [x], [], [right]


def _sigmoid(v):
    return 1 / (1 + math.exp(-v))


def lstm(draw):
    """Gates in the order i, f, o, g; where cont is 0 a sequence begins."""
    steps, batch, size, wide = (
        draw.below(1, 4),
        draw.below(1, 2),
        draw.below(1, 3),
        draw.below(1, 3),
    )
    x, cont = (
        draw.numbers(steps, batch, wide),
        draw.state.randint(0, 2, (steps, batch)).astype(np.float32),
    )
    w, b, recurrent = (
        draw.numbers(4 * size, wide),
        draw.numbers(4 * size),
        draw.numbers(4 * size, size),
    )
    right = np.zeros((steps, batch, size))
    for n in range(batch):
        hidden, cell = [0.0] * size, [0.0] * size
        for t in range(steps):
            hidden, cell = ([float(cont[t, n]) * v for v in state] for state in (hidden, cell))
            gate = [
                float(b[g]) + sum(float(w[g, k]) * float(x[t, n, k]) for k in range(wide))
                + sum(float(recurrent[g, k]) * hidden[k] for k in range(size))
                for g in range(4 * size)
            ]  # fmt: skip
            i, f, o = (
                [_sigmoid(v) for v in gate[part * size : (part + 1) * size]] for part in range(3)
            )
            cell = [f[k] * cell[k] + i[k] * math.tanh(gate[3 * size + k]) for k in range(size)]
            hidden = [o[k] * math.tanh(cell[k]) for k in range(size)]
            right[t, n] = hidden
    return "recurrent_param { num_output: %d }" % size, [x, cont], [w, b, recurrent], [right]


def rnn(draw):
    steps, size, wide = draw.below(1, 4), draw.below(1, 3), draw.below(1, 3)
    x, cont = draw.numbers(steps, 1, wide), draw.state.randint(0, 2, (steps, 1)).astype(np.float32)
    w, b, recurrent = draw.numbers(size, wide), draw.numbers(size), draw.numbers(size, size)
    w_out, b_out = draw.numbers(size, size), draw.numbers(size)
    right, hidden = np.zeros((steps, 1, size)), np.zeros(size)
    for t in range(steps):
        before = hidden * float(cont[t, 0])
        hidden = np.array(
            [
                math.tanh(b[k] + w[k].astype(float) @ x[t, 0] + recurrent[k].astype(float) @ before)
                for k in range(size)
            ]
        )
        right[t, 0] = [math.tanh(b_out[k] + w_out[k].astype(float) @ hidden) for k in range(size)]
    return (
        "recurrent_param { num_output: %d }" % size,
        [x, cont],
        [w, b, recurrent, w_out, b_out],
        [right],
    )


def dense(draw):
    count, growth, first, wider = (
        draw.below(1, 2),
        draw.below(1, 2),
        draw.below(1, 2),
        bool(draw.below(0, 1)),
    )
    x = draw.numbers(2, first, 3, 2)
    channels = [first + k * growth for k in range(count)]

    def norm(channels):
        shapes = [(1, size, 1, 1) for size in channels]
        return [[draw.numbers(*s) for s in shapes] for _ in range(3)] + [
            [draw.state.uniform(0.5, 2, s).astype("f") for s in shapes]
        ]

    def step(x, filters, scale, shift, centre, variance):
        seen = np.maximum((x - centre / 2.0) / np.sqrt(variance / 2.0 + 1e-5) * scale + shift, 0)
        reach = filters.shape[2] // 2
        padded = np.pad(seen, [(0, 0), (0, 0), (reach, reach), (reach, reach)], mode="constant")
        out = np.empty((len(x), len(filters)) + x.shape[2:])
        for n, o, h, w in np.ndindex(*out.shape):
            out[n, o, h, w] = (
                padded[n, :, h : h + 2 * reach + 1, w : w + 2 * reach + 1] * filters[o]
            ).sum()
        return out

    own, inner = norm(channels), norm([4 * growth] * count)
    last = [draw.numbers(growth, 4 * growth if wider else size, 3, 3) for size in channels]
    before = [draw.numbers(4 * growth, size, 1, 1) for size in channels]
    right = x.astype(np.float64)
    for k in range(count):
        new = step(right, before[k] if wider else last[k], *(part[k] for part in own))
        right = np.concatenate(
            [right, step(new, last[k], *(part[k] for part in inner)) if wider else new], 1
        )
    blobs = last + sum(own, []) + (before + sum(inner, []) if wider else []) + [np.array([2.0])]
    body = "denseblock_param { numTransition: %d initChannel: %d growthRate: %d use_BC: %s }"
    return body % (count, first, growth, str(wider).lower()), [x], blobs, [right]


LOOPS = {
    "Axpy": axpy, "Bias": bias, "Convolution": holes, "ConvolutionDepthwise": depthwise,
    "DenseBlock": dense,
    "DepthwiseConvolution": depthwise, "Interp": interp, "LSTM": lstm, "Log": logarithm,
    "Mish": mish, "Normalize": normalize,
    "Permute": permute, "Pooling": stochastic, "RNN": rnn, "ReLU6": relu6, "Resize": resize,
    "Reverse": reverse,
    "ShuffleChannel": shuffle, "Threshold": threshold, "Transpose": transpose, "Upsample": upsample,
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(LOOPS))
def test_layers_of_branches_compute_their_definitions(kind):
    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 2**31))
    def drawn(seed):
        body, bottoms, blobs, right = LOOPS[kind](Draw(seed))
        made = by_numpy(kind, body, bottoms, blobs, tops=len(right))
        for ours, theirs in zip(made, right):
            # A sum of a few numbers may cancel to nearly nothing: its parts are of the size of 1.
            assert_near(ours, theirs, scale=1.0)

    drawn()


def test_parameters_that_no_caffe_branch_has_are_refused():
    x = np.ones((1, 2, 3, 3), np.float32)
    for kind, body in (
        ("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 pad: 1 }"),
        ("Interp", "interp_param { height: 2 width: 2 interp_type: 'nearest_neighbor' }"),
        ("Interp", "interp_param { pad_beg: 1 zoom_factor: 2 }"),
        ("Interp", ""),
        ("Upsample", ""),
        ("Upsample", "upsample_param { scale: 2 dims_num: 3 }"),
        ("Resize", "resize_param { height: 2 }"),
    ):
        with pytest.raises(
            InputError,
            match=r"layer L \(%s\) cannot be computed from bottoms of shape \[1, 2, 3, 3\]: "
            % kind,
        ):
            by_numpy(kind, body, [x])


def test_upsampling_by_places_of_another_shape_is_refused():
    x, places = np.ones((1, 2, 4, 3), np.float32), np.zeros((1, 2, 3, 3), np.float32)
    with pytest.raises(InputError, match="the places, has another shape"):
        by_numpy("Upsample", "upsample_param { scale: 2 }", [x, places])


def test_prior_boxes_with_offsets_and_clipped_boxes_equal_opencvs():
    """What OpenCV's layers of these names add: nets that were made for it have it."""
    feature, picture = np.zeros((1, 2, 3, 4), np.float32), np.zeros((1, 3, 60, 80), np.float32)
    body = (
        "prior_box_param { min_size: 20 max_size: 30 aspect_ratio: 2 flip: true clip: false "
        "offset_h: 0.5 offset_h: 1 offset_w: 0.5 %s }"
    )
    body %= "offset_w: 0.25 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"
    made = by_numpy("PriorBox", body, [feature, picture])[0]
    theirs = by_opencv("PriorBox", body, [feature, picture])[0]
    assert made.shape == (1, 2, 3 * 4 * 4 * 2 * 4)
    assert_near(made, theirs.reshape(made.shape))
    state = np.random.RandomState(0)
    corners = state.uniform(0, 0.7, (6, 2)).astype(np.float32)
    priors = np.stack(
        [
            np.concatenate([corners, corners + 0.3], 1).ravel(),
            np.tile(np.float32([0.1, 0.1, 0.2, 0.2]), 6),
        ]
    )[None]
    bottoms = [state.standard_normal((1, 24)) * 3, state.uniform(0, 1, (1, 12)), priors]
    body = (
        "detection_output_param { num_classes: 2 share_location: true background_label_id: 0 "
        "code_type: CENTER_SIZE keep_top_k: 9 "
    )
    body += "nms_param { nms_threshold: 0.9 top_k: 9 } %s }"
    whole, cut = (
        by_numpy("DetectionOutput", body % clip, bottoms)[0] for clip in ("", "clip: true")
    )
    assert whole[..., 3:].min() < 0 and cut[..., 3:].min() == 0 and cut[..., 3:].max() == 1
    # OpenCV fills up to keep_top_k rows with 0.
    assert_near(
        cut, by_opencv("DetectionOutput", body % "clip: true", bottoms)[0][:, :, : cut.shape[2]]
    )
