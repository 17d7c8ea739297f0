"""The small Caffe network on the stand-in of a device, against what a real BVLC Caffe computed
layer by layer.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.adapters.caffe.numpy_layer_types import own_parameters
from goldwatch.base.errors import FormatError, InputError, UsageError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.netfiles.prototxt_edits import read_document
from goldwatch.testing.caffe_device import run_on_device
from goldwatch.testing.caffe_layers import Layer, pool, run_layer

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
PROTOTXT = os.path.join(DATA, "resblock.prototxt")
CAFFEMODEL = os.path.join(DATA, "resblock.caffemodel")
INPUT = np.load(os.path.join(DATA, "input_data.npy"))
BROKEN = "res2a_branch2b"
BEHIND = [
    "res2a_branch2b",
    "res2ares2a_relu",
    "slice",
    "sig",
    "cat",
    "gap",
    "fc",
    "trans_TransData_2",
    "prob",
    "trans_Cast_3",
]


@pytest.fixture(scope="module")
def expected():
    with np.load(os.path.join(DATA, "expected_layer_outputs.npz")) as arrays:
        return {key: arrays[key] for key in arrays.files}


@pytest.fixture(scope="module")
def weights():
    return read_weights(CAFFEMODEL)


def on_device(weights, **op_faults):
    return run_on_device(PROTOTXT, weights, {"data": INPUT}, "resblock", op_faults)


def test_every_layer_computes_what_caffe_computed(expected, weights) -> None:
    """Each layer alone, from the outputs that Caffe had before it: an in-place layer reads the
    layer that wrote its blob last.
    """
    writers = {}
    for layer in Net(read_document(PROTOTXT), State()).layers:
        name = layer.name
        if layer.type == "Input":
            writers["data"] = "data:0"
            continue
        inputs = [expected[writers[blob.text]] for blob in layer.bottoms]
        blobs, tops = weights.get(name, ()), [value.text for value in layer.tops]
        outputs = run_layer(Layer(layer.type, own_parameters(layer), inputs, blobs, len(tops)))
        for index, blob in enumerate(tops):
            want = expected["%s:%d" % (name, index)]
            assert outputs[index].shape == want.shape
            assert np.abs(outputs[index] - want).max() <= 1e-6 * np.abs(want).max(), name
            writers[blob] = "%s:%d" % (name, index)


def test_ops_are_fused_named_and_stored_as_on_a_device(expected, weights) -> None:
    model = on_device(weights)
    ops = {op.name: op for op in model.ops}
    fused = ops["res2a_branch2ares2a_branch2a_relu"]
    assert fused.type == "Conv2D"
    assert fused.originals == (
        "res2a_branch2a",
        "bn2a_branch2a",
        "scale2a_branch2a",
        "res2a_branch2a_relu",
    )
    assert (
        fused.outputs[0].origin_name == "res2a_branch2a_relu"
        and fused.outputs[0].format == "NC1HWC0"
    )
    assert [op.originals for op in model.ops if op.name.startswith("trans_")] == [()] * 4
    assert {output.format for op in model.dumped_ops() for output in op.outputs} == {
        "NCHW",
        "NC1HWC0",
        "FRACTAL_NZ",
        "ND",
    }
    for op in model.dumped_ops():
        for output in op.outputs:
            if op.name != "trans_Cast_3":
                assert output.array.dtype == np.float16
            want = expected["%s:%d" % (output.origin_name, output.origin_index)]
            assert (
                np.abs(output.array - want.reshape(output.array.shape)).max()
                <= 4e-3 * np.abs(want).max()
            ), op.name


def test_a_wrong_op_changes_itself_and_everything_behind_it(weights) -> None:
    good, bad = on_device(weights), on_device(weights, **{BROKEN: "channels"})
    changed = []
    for before, after in zip(good.dumped_ops(), bad.dumped_ops()):
        assert before.name == after.name
        if any(not np.array_equal(a.array, b.array) for a, b in zip(before.outputs, after.outputs)):
            changed.append(before.name)
    assert changed == BEHIND


def test_the_op_to_break_must_exist(weights) -> None:
    with pytest.raises(UsageError) as caught:
        on_device(weights, no_such_op="scale")
    assert "res2a_branch2b" in caught.value.hint


def test_weights_of_the_caffemodel_are_read(weights) -> None:
    assert (
        weights["conv1"][0].shape == (8, 3, 3, 3)
        and weights["fc"][0].shape == (10, 16)
        and weights["fc"][1].shape == (10,)
    )
    assert [len(blobs) for name, blobs in sorted(weights.items()) if name.startswith("bn")] == [
        3,
        3,
        3,
        3,
    ]


OLD = """
input: "data" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 1 } }
layers { name: "act" type: RELU bottom: "conv" top: "conv" }
layers { name: "drop" type: DROPOUT bottom: "conv" top: "conv" include { phase: TRAIN } }
layers { name: "pool" type: POOLING bottom: "conv" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layers { name: "fc" type: INNER_PRODUCT bottom: "pool" top: "fc" inner_product_param { num_output: 3 } }
"""  # noqa: E501
NEW = OLD.replace("layers {", "layer {")
for word in ("Convolution", "ReLU", "Dropout", "Pooling"):
    NEW = NEW.replace("type: " + word.upper(), 'type: "%s"' % word)
NEW = NEW.replace("type: INNER_PRODUCT", 'type: "InnerProduct"')


def test_a_v1_net_equals_the_new_form_and_training_layers_do_not_run(tmp_path) -> None:
    blobs = {
        "conv": [
            np.random.RandomState(1).standard_normal((2, 3, 1, 1)).astype(np.float32),
            np.ones(2, np.float32),
        ]
    }
    matrix = np.random.RandomState(3).standard_normal((3, 8)).astype(np.float32)
    x = {"data": np.random.RandomState(2).standard_normal((1, 3, 4, 4)).astype(np.float32)}
    found = []
    for name, text in (("old", OLD), ("new", NEW)):
        path = tmp_path / (name + ".prototxt")
        path.write_text(text)
        weights = dict(blobs, fc=[matrix.reshape((1, 1, 3, 8)) if name == "old" else matrix])
        found.append(
            run_on_device(str(path), weights, x, "net", {"pool": "pooling", "convact": "no-bias"})
        )
    ops = [{op.name: (op.type, op.originals, op.inputs) for op in model.ops} for model in found]
    assert (
        ops[0] == ops[1]
        and ops[0]["convact"][:2] == ("Conv2D", ("conv", "act"))
        and ops[0]["pool"][0] == "Pooling"
    )
    want = np.maximum(
        np.tensordot(
            x["data"].astype(np.float16).astype(np.float32),
            blobs["conv"][0][:, :, 0, 0],
            ([1], [1]),
        ),
        0,
    )
    for model in found:
        np.testing.assert_allclose(
            model.output("convact").array, want.transpose(0, 3, 1, 2), rtol=1e-3
        )
        pooled = model.output("pool").array.astype(np.float32)
        np.testing.assert_allclose(
            model.output("fc").array, pooled.reshape(1, -1) @ matrix.T, rtol=1e-3, atol=1e-3
        )
        np.testing.assert_array_equal(
            model.output("pool").array, model.output("convact").array[:, :, ::2, ::2]
        )


@pytest.mark.parametrize("size", [1, 7, 100, 1000, -1])
def test_damaged_weights_are_refused(tmp_path, size) -> None:
    with open(CAFFEMODEL, "rb") as stream:
        data = stream.read()
    path = str(tmp_path / "cut.caffemodel")
    with open(path, "wb") as stream:
        stream.write(data[:size])
    with pytest.raises(FormatError, match="caffemodel"):
        read_weights(path)


def test_a_layer_that_the_stand_in_lacks_is_refused(tmp_path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(
        'layer { name: "own" type: "NoSuchLayer" bottom: "x" top: "y" }', encoding="ascii"
    )
    with pytest.raises(InputError, match=r"layer own \(NoSuchLayer\)"):
        run_on_device(str(path), {}, {"x": np.ones((1, 1, 2, 2), np.float32)}, "net")


def plain_pooling(x, method, kernel, stride, pad):
    """Caffe's pooling one window at a time; the average divides by the window's size with padding,
    cut at the padded border.
    """
    sizes = []
    for size in x.shape[2:]:
        count = int(np.ceil((size + 2.0 * pad - kernel) / stride)) + 1
        if pad and (count - 1) * stride >= size + pad:
            count -= 1
        sizes.append(count)
    out = np.zeros(x.shape[:2] + tuple(sizes), np.float32)
    for n, c, i, j in np.ndindex(*out.shape):
        values, area = [], 0
        for row in range(i * stride - pad, min(i * stride - pad + kernel, x.shape[2] + pad)):
            for column in range(j * stride - pad, min(j * stride - pad + kernel, x.shape[3] + pad)):
                area += 1
                if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                    values.append(x[n, c, row, column])
        out[n, c, i, j] = max(values) if method == "MAX" else sum(values) / area
    return out


@pytest.mark.parametrize("method", ["MAX", "AVE"])
@pytest.mark.parametrize(
    "kernel, stride, pad", [(2, 2, 0), (3, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 1), (5, 4, 2)]
)
def test_pooling_equals_one_window_at_a_time(method, kernel, stride, pad) -> None:
    x = np.random.RandomState(1).standard_normal((2, 2, 7, 6)).astype(np.float32)
    np.testing.assert_allclose(
        pool(x, [kernel] * 2, [stride] * 2, [pad] * 2, method)[0],
        plain_pooling(x, method, kernel, stride, pad),
        rtol=1e-5,
        atol=1e-6,
    )
