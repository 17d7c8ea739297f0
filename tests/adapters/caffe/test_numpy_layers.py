"""Layers of the numpy backend against Caffe's definitions, plain loops and OpenCV."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_caffe_layer import assert_near, by_numpy, by_opencv, text_of

from goldwatch.adapters.caffe.fillers import bilinear
from goldwatch.adapters.caffe.numpy_backend import NumpyBackend
from goldwatch.adapters.caffe.numpy_layer_types import LAYERS, WEIGHTED, blobs_of
from goldwatch.adapters.caffe.tensors_to_save import targets_of
from goldwatch.base.errors import InputError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt_edits import Document
from goldwatch.operators import registry

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
DRAWN = (
    "AbsVal BNLL BatchNorm Concat Convolution Crop Deconvolution Dropout ELU Eltwise Exp "
    "Flatten InnerProduct LRN MVN PReLU Pooling Power "
    "ReLU Reshape Scale Sigmoid Slice Softmax Split Swish TanH"
).split()


def numbers(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def drawing(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    import caffe_draw
    import caffe_layers

    return caffe_draw, caffe_layers


@pytest.mark.parametrize("kind", DRAWN)
def test_random_layers_compute_what_caffe_defines(drawing, kind):
    """Shapes, strides, pads, groups and axes are drawn as scripts/caffe_trial draws them."""
    draws, layers = drawing
    compared = 0

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**31))
    def each(seed):
        nonlocal compared
        case = draws.Draw(seed).of(kind)
        try:
            right = layers.compute(case)
        except layers.Refused:
            return
        net = Net(Document(case.text), State())
        arrays = {"b%d" % number: array for number, array in enumerate(case.bottoms)}
        backend = NumpyBackend(net, lambda name: case.weights or None, list(arrays))
        made = {
            target.top_index: array
            for target, array in backend.run(targets_of(net).saved, arrays)
            if target.name == "L"
        }
        for index in range(case.n_tops):
            with np.errstate(over="ignore"):
                narrow = right[index].astype(np.float32)
            finite = np.isfinite(narrow)
            np.testing.assert_array_equal(made[index][~finite], narrow[~finite])
            # Caffe makes a sigmoid of a tanh, which loses what is far below 1.
            scale = 1.0 if kind == "Sigmoid" else 1e-30
            assert_near(
                np.where(finite, made[index], np.float32(0)),
                np.where(finite, right[index], 0),
                scale=scale,
            )
            compared += 1

    each()
    assert compared


def test_the_layer_table_equals_that_of_the_operators():
    assert set(LAYERS) == set(registry.spellings("caffe"))
    assert {
        kind for kind, known in LAYERS.items() if known.blobs.__name__ != "<lambda>"
    } == WEIGHTED


def test_the_layer_table_of_the_page_lists_every_layer():
    with open(os.path.join(SCRIPTS, "..", "docs", "caffe.md"), encoding="utf-8") as stream:
        rows = (
            stream.read()
            .partition("| source of the rule | layers |")[2]
            .split("\n\n")[0]
            .strip()
            .splitlines()[1:]
        )
    told = {
        (cell[1].strip(), kind.strip())
        for cell in (row.split("|") for row in rows)
        for kind in cell[2].split(",")
    }
    assert told == {(known.source, kind) for kind, known in LAYERS.items()}


SSD_PRIOR = (
    "min_size: 60 max_size: 110.6 aspect_ratio: 2 aspect_ratio: 3 variance: 0.1 variance: 0.1 "
    "variance: 0.2 variance: 0.2"
)


@pytest.mark.parametrize(
    "param",
    [
        SSD_PRIOR + " clip: false",
        SSD_PRIOR + " clip: true flip: false offset: 0.3",
        "min_size: 20.7 variance: 0.1 step: 16",
        "min_size: 20 min_size: 30 aspect_ratio: 2 clip: false step_h: 8 step_w: 9 img_h: 70 "
        "img_w: 80",
    ],
)
def test_prior_boxes_are_those_of_the_definition(param):
    feature, picture = numbers(0, 1, 3, 4, 5), numbers(1, 1, 3, 64, 80)
    made = by_numpy("PriorBox", "prior_box_param { %s }" % param, [feature, picture])[0]
    assert made.shape[:2] == (1, 2) and made.dtype == np.float32
    # The definition, box by box.
    words = [word.split(":") for word in param.replace(": ", ":").split()]
    lists = {}
    for name, value in words:
        lists.setdefault(name, []).append(value)
    one = {name: values[0] for name, values in lists.items()}
    ratios = [1.0]
    for ratio in map(float, lists.get("aspect_ratio", [])):
        ratios += [ratio] + ([1 / ratio] if one.get("flip", "true") == "true" else [])
    img_h, img_w = float(one.get("img_h", 64)), float(one.get("img_w", 80))
    step_h = float(one.get("step", one.get("step_h", img_h / 4)))
    step_w = float(one.get("step", one.get("step_w", img_w / 5)))
    boxes = []
    for row, column in itertools.product(range(4), range(5)):
        x, y = (
            (column + float(one.get("offset", 0.5))) * step_w,
            (row + float(one.get("offset", 0.5))) * step_h,
        )
        for number, size in enumerate(lists["min_size"]):
            # The layer keeps sizes as whole numbers.
            size = int(float(size))
            sides = [(size, size)]
            if "max_size" in lists:
                side = np.sqrt(size * int(float(lists["max_size"][number])))
                sides.append((side, side))
            sides += [(size * np.sqrt(ratio), size / np.sqrt(ratio)) for ratio in ratios[1:]]
            boxes += [
                [(x - w / 2) / img_w, (y - h / 2) / img_h, (x + w / 2) / img_w, (y + h / 2) / img_h]
                for w, h in sides
            ]
    right = np.ravel(boxes)
    assert_near(
        made[0, 0], np.clip(right, 0, 1) if one.get("clip", "true") == "true" else right, 1e-6
    )
    variances = [float(value) for value in lists.get("variance", ["0.1"])]
    np.testing.assert_array_equal(
        made[0, 1].reshape(-1, 4), np.broadcast_to(np.float32(variances), (len(boxes), 4))
    )


def overlap(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    area = [max(0, box[2] - box[0]) * max(0, box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(area) - width * height)


def detected(location, confidence, priors, classes, shared, code, nms, top, keep, least):
    """DetectionOutput as it is written down, picture by picture, label by label."""
    count, rows = priors.shape[2] // 4, []
    for picture in range(len(location)):
        wanted, scores = (
            location[picture].reshape(count, -1, 4),
            confidence[picture].reshape(count, classes),
        )
        found = []
        for label in range(1, classes):
            order = sorted(
                (number for number in range(count) if scores[number, label] > least),
                key=lambda n: -scores[n, label],
            )[:top]
            kept = []
            for number in order:
                p, v = priors[0, 0].reshape(-1, 4)[number], priors[0, 1].reshape(-1, 4)[number]
                w = wanted[number, 0 if shared else label].astype(np.float64)
                size = np.array([p[2] - p[0], p[3] - p[1]])
                if code == "CENTER_SIZE":
                    centre = v[:2] * w[:2] * size + (p[:2] + p[2:]) / 2
                    half = np.exp(v[2:] * w[2:]) * size / 2
                    box = np.concatenate([centre - half, centre + half])
                else:
                    box = p + v * w * (np.tile(size, 2) if code == "CORNER_SIZE" else 1)
                if all(overlap(box, other) <= nms for _, other in kept):
                    kept.append((scores[number, label], box))
            found += [(label, score, box) for score, box in kept]
        if len(found) > keep:
            found = sorted(found, key=lambda entry: -entry[1])[:keep]
        rows += [
            [picture, label, score, *box]
            for label, score, box in sorted(found, key=lambda entry: (entry[0], -entry[1]))
        ]
    return np.array(rows or [[picture] + [-1] * 6 for picture in range(len(location))]).reshape(
        1, 1, -1, 7
    )


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from(["CENTER_SIZE", "CORNER", "CORNER_SIZE"]),
    st.booleans(),
    st.sampled_from([3, 200]),
)
def test_detections_equal_those_of_opencv(seed, code, shared, keep):
    random, count, classes, pictures = np.random.RandomState(seed), 12, 4, 2
    corners = np.sort(random.uniform(0, 1, (count, 2, 2)), 1).reshape(count, 4) + [0, 0, 0.05, 0.05]
    priors = np.stack([corners.ravel(), np.tile([0.1, 0.1, 0.2, 0.2], count)])[None].astype(
        np.float32
    )
    location = random.standard_normal((pictures, count * 4 * (1 if shared else classes))).astype(
        np.float32
    )
    confidence = random.uniform(0, 1, (pictures, count * classes)).astype(np.float32)
    body = ("detection_output_param { num_classes: %d share_location: %s code_type: %s "
        "keep_top_k: %d "
        "background_label_id: 0 ") % (
        classes, str(shared).lower(), code, keep,
    )  # fmt: skip
    body += "confidence_threshold: 0.3 nms_param { nms_threshold: 0.4 top_k: 8 } }"
    made = by_numpy("DetectionOutput", body, [location, confidence, priors])[0]
    assert_near(
        made, detected(location, confidence, priors, classes, shared, code, 0.4, 8, keep, 0.3), 1e-5
    )
    if shared and code == "CENTER_SIZE" and keep == 200:
        # OpenCV has another order, and fills up with rows of zeros.
        other = by_opencv("DetectionOutput", body, [location, confidence, priors])[0][0, 0]
        assert not other[made.shape[2] :].any()
        order = np.lexsort(
            (-other[: made.shape[2], 2], other[: made.shape[2], 1], other[: made.shape[2], 0])
        )
        assert_near(made[0, 0], other[order], 1e-5)


def test_no_detection_gives_one_row_per_picture():
    body = (
        "detection_output_param { num_classes: 2 confidence_threshold: 0.9 code_type: CENTER_SIZE }"
    )
    priors = np.array([[[0, 0, 1, 1], [1, 1, 1, 1]]], np.float32)
    made = by_numpy("DetectionOutput", body, [np.zeros((2, 4)), np.zeros((2, 2)), priors])[0]
    np.testing.assert_array_equal(made[0, 0], [[0] + [-1] * 6, [1] + [-1] * 6])


def bins(start, size, count, limit):
    for number in range(count):
        yield (min(max(int(np.floor(np.float32(number) * size + start)), 0), limit),
               min(max(int(np.ceil(np.float32(number + 1) * size + start)), 0), limit))  # fmt: skip


def regions(random, count):
    corners = np.sort(random.uniform(-8, 80, (count, 2, 2)), 1).reshape(count, 4)
    return np.concatenate([random.randint(0, 2, (count, 1)), corners], 1).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([1.0, 0.0625, 0.125]))
def test_roi_and_psroi_pooling_equal_plain_loops(seed, scale):
    random = np.random.RandomState(seed)
    x, rois = random.standard_normal((2, 18, 9, 8)).astype(np.float32), regions(random, 3)
    made = by_numpy(
        "ROIPooling",
        "roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: %g }" % scale,
        [x, rois],
    )[0]
    right = np.zeros((3, 18, 3, 2), np.float32)
    for n, roi in enumerate(rois):
        left, top, end, bottom = [
            int(np.floor(abs(value) + 0.5) * np.sign(value))
            for value in roi[1:] * np.float32(scale)
        ]
        high, wide = [
            np.float32(max(size, 1)) / np.float32(parts)
            for size, parts in ((bottom - top + 1, 3), (end - left + 1, 2))
        ]
        for i, (a, b) in enumerate(bins(top, high, 3, 9)):
            for j, (c, d) in enumerate(bins(left, wide, 2, 8)):
                if a < b and c < d:
                    right[n, :, i, j] = x[int(roi[0]), :, a:b, c:d].max((1, 2))
    np.testing.assert_array_equal(made, right)
    made = by_numpy(
        "PSROIPooling",
        "psroi_pooling_param { output_dim: 2 group_size: 3 spatial_scale: %g }" % scale,
        [x, rois],
    )[0]
    right = np.zeros((3, 2, 3, 3))
    for n, roi in enumerate(rois):
        rounded = [np.float32(np.floor(abs(value) + 0.5) * np.sign(value)) for value in roi[1:]]
        left, top = rounded[0] * np.float32(scale), rounded[1] * np.float32(scale)
        end, bottom = (rounded[2] + 1) * np.float32(scale), (rounded[3] + 1) * np.float32(scale)
        high, wide = [
            np.float32(max(size, 0.1)) / np.float32(3) for size in (bottom - top, end - left)
        ]
        for c, (i, (a, b)), (j, (d, e)) in itertools.product(
            range(2), enumerate(bins(top, high, 3, 9)), enumerate(bins(left, wide, 3, 8))
        ):
            if a < b and d < e:
                right[n, c, i, j] = (
                    x[int(roi[0]), (c * 3 + i) * 3 + j, a:b, d:e].astype(np.float64).mean()
                )
    assert_near(made, right)


def test_roi_pooling_ignores_nan_as_caffe_does():
    """The source begins at -FLT_MAX and asks whether a value is larger, which NaN and -inf never
    are.
    """
    x = np.array(
        [[[[np.nan, 2.0], [np.nan, -np.inf]], [[np.nan, np.nan], [np.nan, np.nan]]]], np.float32
    )
    body = "roi_pooling_param { pooled_h: 2 pooled_w: 1 }"
    made = by_numpy("ROIPooling", body, [x, np.array([[0, 0, 0, 1, 1]])])[0]
    lowest = np.finfo(np.float32).min
    np.testing.assert_array_equal(made, [[[[2.0], [lowest]], [[lowest], [lowest]]]])


def test_a_region_outside_of_the_pictures_is_refused():
    for picture in (-1, 2):
        with pytest.raises(
            InputError,
            match="region 0 is in picture %d; a region is the number of one of 2 pictures"
            % picture,
        ):
            body = "roi_pooling_param { pooled_h: 1 pooled_w: 1 }"
            by_numpy(
                "ROIPooling", body, [numbers(0, 2, 1, 4, 4), np.array([[picture, 0, 0, 3, 3]])]
            )


def darknet(x, stride, forward):
    """The loop of darknet, which numbers the larger picture from the smaller's own sizes."""
    batch, channels, height, width = x.shape
    flat, out, inner = x.ravel(), np.zeros(x.size, np.float32), channels // (stride * stride)
    for b, k, j, i in itertools.product(range(batch), range(channels), range(height), range(width)):
        own = i + width * (j + height * (k + channels * b))
        step = k // inner
        place = (
            i * stride
            + step % stride
            + width
            * stride
            * (j * stride + step // stride + height * stride * (k % inner + inner * b))
        )
        if forward:
            out[place] = flat[own]
        else:
            out[own] = flat[place]
    return out


@pytest.mark.parametrize("stride", [2, 3])
def test_reorg_orders_values_as_darknet_does(stride):
    x = numbers(3, 2, 2 * stride * stride, 2 * stride, 3 * stride)
    made = by_numpy("Reorg", "reorg_param { stride: %d }" % stride, [x])[0]
    assert made.shape == (2, 2 * stride**4, 2, 3)
    np.testing.assert_array_equal(made.ravel(), darknet(x, stride, False))
    back = by_numpy("Reorg", "reorg_param { stride: %d reverse: true }" % stride, [x])[0]
    assert back.shape == (2, 2, 2 * stride**2, 3 * stride**2)
    np.testing.assert_array_equal(back.ravel(), darknet(x, stride, True))


def test_upsampling_by_places_and_by_repeating_equals_the_definition():
    x = numbers(4, 2, 3, 5, 7)
    pooled, places = by_numpy("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", [x], tops=2)
    for sizes in ("upsample_h: 5 upsample_w: 7", "scale: 2 pad_out_h: true pad_out_w: true"):
        made = by_numpy("Upsample", "upsample_param { %s }" % sizes, [pooled, places])[0]
        assert made.shape == x.shape and set(np.unique(made)) == set(np.unique(pooled)) | {
            np.float32(0)
        }
        kept = made != 0
        np.testing.assert_array_equal(made[kept], x[kept])
    with pytest.raises(InputError, match="outside of"):
        by_numpy("Upsample", "upsample_param { upsample_h: 2 upsample_w: 2 }", [pooled, places])
    np.testing.assert_array_equal(
        by_numpy("Upsample", "upsample_param { scale: 2 }", [x])[0],
        np.kron(x, np.ones((2, 2), np.float32)),
    )


def test_bn_layers_of_segnet_and_pspnet_equal_the_formula():
    x, (scale, shift, mean) = numbers(5, 2, 3, 4, 5), numbers(6, 3, 3)
    variance = np.abs(numbers(7, 3)) + 0.5
    wide = [
        array.reshape(1, 3, 1, 1).astype(np.float64) for array in (scale, shift, mean, variance)
    ]
    made = by_numpy(
        "BN",
        "bn_param { bn_mode: INFERENCE }",
        [x],
        [array.reshape(1, 3, 1, 1) for array in (scale, shift)],
    )[0]
    assert_near(made, x * wide[0] + wide[1])
    own = (x - x.mean((0, 2, 3), keepdims=True, dtype=np.float64)) / np.sqrt(
        x.var((0, 2, 3), keepdims=True, dtype=np.float64) + 1e-9
    )
    assert_near(
        by_numpy("BN", "", [x], [scale.reshape(1, 3, 1, 1), shift.reshape(1, 3, 1, 1)])[0],
        own * wide[0] + wide[1],
    )
    blobs = [array.reshape(1, 3) for array in (scale, shift, mean, variance)]
    right = (x - wide[2]) / np.sqrt(wide[3] + 1e-5) * wide[0] + wide[1]
    assert_near(by_numpy("BN", "bn_param { frozen: true }", [x], blobs)[0], right)


def test_spp_im2col_reduction_and_embedding_equal_the_definition():
    x = numbers(8, 2, 3, 5, 7)
    made = by_numpy("SPP", "spp_param { pyramid_height: 3 pool: MAX }", [x])[0]
    assert made.shape == (2, 3 * (1 + 4 + 16))
    np.testing.assert_array_equal(made[:, :3], x.max((2, 3)))
    # Kernel 3 × 4 with a pad of 1 each: the second window begins at row 2, column 3.
    np.testing.assert_array_equal(
        made[:, 3:15].reshape(2, 3, 2, 2)[:, :, 1, 1], x[:, :, 2:5, 3:7].max((2, 3))
    )
    columns = by_numpy("Im2col", "convolution_param { kernel_size: 3 pad: 1 stride: 2 }", [x])[0]
    w = numbers(9, 4, 3, 3, 3)
    conv = by_numpy(
        "Convolution",
        "convolution_param { kernel_size: 3 pad: 1 stride: 2 num_output: 4 bias_term: false }",
        [x],
        [w],
    )[0]
    assert_near(np.einsum("ok,nkhw->nohw", w.reshape(4, 27), columns), conv)
    np.testing.assert_array_equal(
        by_numpy("BatchReindex", "", [x, np.array([1, 0, 1])])[0], x[[1, 0, 1]]
    )
    y = numbers(10, 2, 4)
    kept = by_numpy("Filter", "", [x, y, np.array([0, 3.0])], tops=2)
    np.testing.assert_array_equal(kept[0], x[1:])
    np.testing.assert_array_equal(kept[1], y[1:])
    table, bias = numbers(11, 5, 4), numbers(12, 4)
    made = by_numpy(
        "Embed",
        "embed_param { num_output: 4 input_dim: 5 }",
        [np.array([[0, 4], [2, 2]])],
        [table, bias],
    )[0]
    assert_near(made, table[np.array([[0, 4], [2, 2]])] + bias)
    for kind in ("SpatialDropout", "SeLuDropout"):
        np.testing.assert_array_equal(by_numpy(kind, "", [x])[0], x)
    assert_near(
        by_numpy("SeLu", "", [x])[0],
        1.050700987 * np.where(x > 0, x, 1.67326324 * np.expm1(x.astype(np.float64))),
    )


@pytest.mark.parametrize(
    ("operation", "right"), [("SUM", 1), ("ASUM", 2), ("SUMSQ", 3), ("MEAN", 4)]
)
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_reductions_multiply_by_their_coefficient(operation, right, axis):
    """Both by name and by number; coeff is one number here, a list in Eltwise."""
    x = numbers(19, 2, 3, 4, 5)
    wide = x.astype(np.float64).reshape(x.shape[:axis] + (-1,))
    rule = {
        "SUM": np.sum,
        "ASUM": lambda a, n: np.abs(a).sum(n),
        "SUMSQ": lambda a, n: np.square(a).sum(n),
        "MEAN": np.mean,
    }[operation]
    for word in (operation, right):
        made = by_numpy(
            "Reduction", "reduction_param { operation: %s axis: %d coeff: 0.7 }" % (word, axis), [x]
        )[0]
        assert_near(made, 0.7 * rule(wide, -1))
    made = by_numpy("Eltwise", "eltwise_param { operation: 1 coeff: 0.5 coeff: -2 }", [x, x])[0]
    assert_near(made, -1.5 * x)


def test_a_reshape_to_0_copies_the_size_of_its_axis():
    x = numbers(20, 1, 3, 7)
    assert by_numpy("Reshape", "reshape_param { num_axes: 0 shape { dim: 0 dim: -1 } }", [x])[
        0
    ].shape == (1, 1, 1, 3, 7)
    assert by_numpy("MVN", "", [x])[0].shape == (1, 3, 7, 1)


def test_losses_and_accuracy_equal_the_formulas():
    x, label = numbers(13, 4, 5), np.array([0, 4, 2, 3.0])
    rows = np.arange(4)
    power = np.exp(x.astype(np.float64))
    told = power / power.sum(1, keepdims=True)
    each = -np.log(told[rows, label.astype(int)])
    made = by_numpy("SoftmaxWithLoss", "", [x, label], tops=2)
    assert made[0].shape == ()
    assert_near(made[0], each.mean())
    assert_near(made[1], told)
    # Of nets that were trained with a loss: Softmax itself does not read it, and what no loss has
    # is refused all the same.
    assert_near(
        by_numpy("Softmax", "loss_param { ignore_label: 255 normalize: true }", [x])[0], told
    )
    with pytest.raises(InputError, match="loss_param.other"):
        by_numpy("Softmax", "loss_param { other: 1 }", [x])
    assert_near(
        by_numpy("SoftmaxWithLoss", "loss_param { ignore_label: 2 }", [x, label])[0],
        each[[0, 1, 3]].mean(),
    )
    assert_near(
        by_numpy("SoftmaxWithLoss", "loss_param { ignore_label: 2 normalize: false }", [x, label])[
            0
        ],
        each[[0, 1, 3]].sum() / 4,
    )
    assert_near(
        by_numpy("SoftmaxWithLoss", "loss_param { normalization: NONE }", [x, label])[0], each.sum()
    )
    ranks = [
        sorted(range(5), key=lambda n, row=row: (-x[row, n], -n)).index(int(label[row]))
        for row in range(4)
    ]
    for top in (1, 2, 4):
        made = by_numpy("Accuracy", "accuracy_param { top_k: %d }" % top, [x, label], tops=2)
        assert_near(made[0], np.mean([rank < top for rank in ranks]))
        assert_near(
            made[1],
            [float(ranks[list(label).index(c)] < top) if c in label else 0 for c in range(5)],
        )
    # What equals the label's value is ahead of it, as in a real Caffe 1.0.
    equal = np.array([[1, 3, 3]], np.float32)
    made = [
        by_numpy("Accuracy", "accuracy_param { top_k: %d }" % top, [equal, np.array([2])])[0]
        for top in (1, 2)
    ]
    assert made == [0, 1]
    y = numbers(14, 4, 5)
    assert_near(
        by_numpy("EuclideanLoss", "", [x, y])[0], np.square(x.astype(np.float64) - y).sum() / 8
    )
    signs = np.ones((4, 5))
    signs[rows, label.astype(int)] = -1
    over = np.maximum(0, 1 + x * signs)
    assert_near(by_numpy("HingeLoss", "", [x, label])[0], over.sum() / 4)
    assert_near(
        by_numpy("HingeLoss", "hinge_loss_param { norm: L2 }", [x, label])[0],
        np.square(over).sum() / 4,
    )
    assert_near(by_numpy("MultinomialLogisticLoss", "", [told, label])[0], each.mean())
    target = np.array(np.random.RandomState(15).randint(0, 2, (4, 5)), np.float32)
    sigmoid = 1 / (1 + np.exp(-x.astype(np.float64)))
    entropy = -(target * np.log(sigmoid) + (1 - target) * np.log(1 - sigmoid)).sum() / 4
    assert_near(by_numpy("SigmoidCrossEntropyLoss", "", [x, target])[0], entropy)
    matrix = numbers(16, 5, 5)
    right = -(matrix[label.astype(int)].astype(np.float64) * np.log(told)).sum() / 4
    assert_near(by_numpy("InfogainLoss", "", [x, label, matrix.reshape(1, 1, 5, 5)])[0], right)
    similar = np.array([1, 0, 0, 1.0])
    squares = np.square(x.astype(np.float64) - y).sum(1)
    apart = np.square(np.maximum(4 - np.sqrt(squares), 0))
    right = np.where(similar == 1, squares, apart).sum() / 8
    assert_near(
        by_numpy("ContrastiveLoss", "contrastive_loss_param { margin: 4 }", [x, y, similar])[0],
        right,
    )
    gone = np.abs(x.astype(np.float64) - y)
    right = np.where(gone < 0.25, 2 * gone**2, gone - 0.125).sum() / 4
    assert_near(by_numpy("SmoothL1Loss", "smooth_l1_loss_param { sigma: 2 }", [x, y])[0], right)


def test_the_bilinear_filler_interpolates():
    """A Deconvolution with it doubles a plane that rises evenly into one that rises half as
    fast.
    """
    x = (
        np.arange(6, dtype=np.float32)[None, None, None, :]
        + np.arange(5, dtype=np.float32)[None, None, :, None]
    )
    body = (
        "convolution_param { num_output: 1 kernel_size: 4 stride: 2 pad: 1 bias_term: false "
        "weight_filler { type: 'bilinear' } }"
    )
    made = by_numpy("Deconvolution", body, [x], seed=1)[0]
    assert made.shape == (1, 1, 10, 12)
    inner = made[0, 0, 1:-1, 1:-1]
    assert_near(np.diff(inner, axis=1), np.full((8, 9), 0.5))
    assert_near(np.diff(inner, axis=0), np.full((7, 10), 0.5))
    np.testing.assert_allclose(bilinear(4, 4)[0], np.array([0.25, 0.75, 0.75, 0.25]) * 0.25)


def test_recurrent_weights_have_the_shapes_that_the_operators_take():
    x, cont = numbers(17, 3, 2, 4), np.array([[0, 0], [1, 1], [1, 0]], np.float32)
    for kind in ("LSTM", "RNN"):
        assert by_numpy(kind, "recurrent_param { num_output: 5 }", [x, cont], seed=1)[0].shape == (
            3,
            2,
            5,
        )
        static = numbers(18, 2, 6)
        assert by_numpy(kind, "recurrent_param { num_output: 5 }", [x, cont, static], seed=1)[
            0
        ].shape == (3, 2, 5)


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        (
            "Python",
            "python_param { module: 'rpn' layer: 'Proposal' }",
            r"layer L \(Python\): its code is Python of its own",
        ),
        ("Proposal", "", r"layer L \(Proposal\): the type is not known"),
        (
            "ReLU",
            "relu_param { negative_slop: 1 }",
            r"layer L \(ReLU\): parameter relu_param.negative_slop \(line 2\) is not known",
        ),
        (
            "ReLU",
            "permute_param { }",
            r"layer L \(ReLU\): parameter permute_param \(line 2\) is not known",
        ),
        (
            "Pooling",
            "pooling_param { pool: MEDIAN kernel_size: 2 }",
            r"layer L \(Pooling\) cannot be computed.*MEDIAN",
        ),
        (
            "Convolution",
            "convolution_param { kernel_size: 3 }",
            r"\(Convolution\): its weights cannot be told: KeyError: 'num_output'",
        ),
        (
            "InnerProduct",
            "inner_product_param { num_output: 3 }",
            r"\(InnerProduct\) has weights of shape \[2\], the net needs \[3, 12\]",
        ),
    ],
)
def test_a_layer_that_numpy_does_not_compute_is_refused(kind, body, told):
    with pytest.raises(InputError, match=told) as caught:
        by_numpy(kind, body, [numbers(1, 2, 3, 2, 2)], [np.zeros(2)] if kind in WEIGHTED else ())
    if "not known" in told or "Python" in told:
        assert "`layer=TYPE=FILE.py`" in caught.value.hint


def test_weight_shapes_of_every_layer_with_weights_are_known():
    body = "scale_param { axis: 1 num_axes: 2 bias_term: true }"
    layer = Net(Document(text_of("Scale", body, [numbers(0, 2, 3, 4, 5)])), State()).layers[1]
    assert [blob.shape for blob in blobs_of(layer, [(2, 3, 4, 5)])] == [(3, 4), (3, 4)]
    layer = Net(
        Document(text_of("PReLU", "prelu_param { channel_shared: true }", [numbers(0, 2, 3)])),
        State(),
    ).layers[1]
    assert [blob.shape for blob in blobs_of(layer, [(2, 3)])] == [()]
