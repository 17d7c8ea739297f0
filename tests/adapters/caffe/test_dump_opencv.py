"""`golden caffe dump` with the real OpenCV: real Caffe's numbers, Caffe's formulas, refusals, names, batches, interruption."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys

import jsonschema
import numpy as np
import pytest

from goldwatch.adapters.caffe.dump import DumpOptions, dump
from goldwatch.adapters.caffe.netinputs import net_inputs
from goldwatch.adapters.caffe.normalise import normalise
from goldwatch.adapters.caffe.opencv import OpencvBackend
from goldwatch.adapters.caffe.whitelist import refuse_unknown
from goldwatch.dumps.golden import GoldenSet
from goldwatch.errors import FormatError, InputError, UsageError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt import Document
from goldwatch.schemas import load_schema


def manifest_of(out):
    with open(os.path.join(str(out), "manifest.json"), encoding="utf-8") as stream:
        manifest = json.load(stream)
    jsonschema.validate(manifest, load_schema("manifest"))
    return manifest


def values_of(out):
    return {
        (entry["original_name"], entry["output_index"]): np.load(os.path.join(str(out), entry["file"]))
        for entry in manifest_of(out)["tensors"]
    }


def test_resblock_is_what_real_caffe_computes(resblock, tmp_path):
    out = tmp_path / "golden"
    specs = ["data=" + resblock("input_data.npy")]
    result = dump(DumpOptions(resblock("resblock.prototxt"), resblock("resblock.caffemodel"), str(out), specs, backend="opencv"))
    expected = np.load(resblock("expected_layer_outputs.npz"))
    values = values_of(out)
    wanted = {tuple(key.rsplit(":", 1)) for key in expected.files if "_split" not in key}
    assert {(name, str(index)) for name, index in values} == wanted
    for (name, index), value in values.items():
        truth = expected["%s:%d" % (name, index)]
        assert value.shape == truth.shape
        assert np.abs(value - truth).max() <= 1e-5 * np.abs(truth).max(), name
    manifest = manifest_of(out)
    assert manifest["backend"] == "opencv"
    assert manifest["backend_version"].startswith("4.")
    for role, name in (("prototxt", "resblock.prototxt"), ("weights", "resblock.caffemodel")):
        with open(resblock(name), "rb") as stream:
            assert manifest["source"][role] == hashlib.sha256(stream.read()).hexdigest()
    with open(resblock("input_data.npy"), "rb") as stream:
        assert manifest["source"]["inputs"] == {"data": hashlib.sha256(stream.read()).hexdigest()}
    by_name = {entry["original_name"]: entry for entry in manifest["tensors"]}
    assert [by_name["conv1_relu"][key] for key in ("layer", "top", "type")] == ["conv1_relu", "conv1", "ReLU"]
    assert result["runs"][0]["counts"] == {"written": 26, "skipped": 0, "parked": 0, "hashed": 0}
    golden = GoldenSet.open(str(out))
    assert golden.find("slice", 1) is not None


X = np.random.RandomState(1).standard_normal((2, 4, 6, 5)).astype(np.float32)
R = np.random.RandomState(2)


def conv(x, w, stride, pad, dilation, group):
    """A convolution by its definition, in float64."""
    xp = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])), mode="constant")
    size = [(xp.shape[2 + i] - (dilation[i] * (w.shape[2 + i] - 1) + 1)) // stride[i] + 1 for i in (0, 1)]
    out = np.zeros((x.shape[0], w.shape[0]) + tuple(size))
    n_out, n_in = w.shape[0] // group, w.shape[1]
    for k in range(w.shape[2]):
        for m in range(w.shape[3]):
            rows = slice(k * dilation[0], k * dilation[0] + stride[0] * (size[0] - 1) + 1, stride[0])
            columns = slice(m * dilation[1], m * dilation[1] + stride[1] * (size[1] - 1) + 1, stride[1])
            patch = xp[:, :, rows, columns]
            for g in range(group):
                out[:, g * n_out : (g + 1) * n_out] += np.einsum(
                    "nchw,oc->nohw", patch[:, g * n_in : (g + 1) * n_in], w[g * n_out : (g + 1) * n_out, :, k, m]
                )
    return out


def deconv(x, w, stride, pad, group):
    """A deconvolution by its definition, in float64."""
    n, _, height, width = x.shape
    n_in, n_out = x.shape[1] // group, w.shape[1]
    out = np.zeros((n, n_out * group, stride * (height - 1) + w.shape[2], stride * (width - 1) + w.shape[3]))
    for g in range(group):
        for i in range(height):
            for j in range(width):
                out[:, g * n_out : (g + 1) * n_out, i * stride : i * stride + w.shape[2], j * stride : j * stride + w.shape[3]] += (
                    np.einsum("nc,cokl->nokl", x[:, g * n_in : (g + 1) * n_in, i, j].astype(np.float64), w[g * n_in : (g + 1) * n_in])
                )
    return out[:, :, pad : out.shape[2] - pad, pad : out.shape[3] - pad]


def pool(x, kernel, stride, pad, kind):
    """Pooling as Caffe's loops have it: sizes rounded up, windows clipped, averages over the padded window."""
    sizes = []
    for i in (0, 1):
        steps = int(np.ceil((x.shape[2 + i] + 2 * pad[i] - kernel[i]) / float(stride[i]))) + 1
        if any(pad) and (steps - 1) * stride[i] >= x.shape[2 + i] + pad[i]:
            steps -= 1
        sizes.append(steps)
    out, mask = np.zeros(x.shape[:2] + tuple(sizes)), np.zeros(x.shape[:2] + tuple(sizes))
    height, width = x.shape[2:]
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
            bottom, right = min(top + kernel[0], height + pad[0]), min(left + kernel[1], width + pad[1])
            area = (bottom - top) * (right - left)
            top, left, bottom, right = max(top, 0), max(left, 0), min(bottom, height), min(right, width)
            window = x[:, :, top:bottom, left:right].astype(np.float64)
            if kind == "AVE":
                out[:, :, i, j] = window.sum((2, 3)) / area
            else:
                flat = window.reshape(window.shape[:2] + (-1,))
                out[:, :, i, j] = flat.max(-1)
                at = flat.argmax(-1)
                mask[:, :, i, j] = (top + at // (right - left)) * width + left + at % (right - left)
    return out, mask


def lrn(x, size, alpha, beta, within):
    square = x.astype(np.float64) ** 2
    total = np.zeros_like(square)
    half = (size - 1) // 2
    if within:
        padded = np.pad(square, ((0, 0), (0, 0), (half, half), (half, half)), mode="constant")
        for i in range(size):
            for j in range(size):
                total += padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]
        return x * (1 + alpha / size**2 * total) ** -beta
    padded = np.pad(square, ((0, 0), (half, half), (0, 0), (0, 0)), mode="constant")
    for i in range(size):
        total += padded[:, i : i + x.shape[1]]
    return x * (1 + alpha / size * total) ** -beta


def softmax(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def per_channel(values):
    return np.asarray(values, np.float64)[None, :, None, None]


W = {
    "conv": R.standard_normal((6, 2, 3, 2)),
    "deconv": R.standard_normal((4, 3, 4, 4)),
    "depthwise": R.standard_normal((4, 1, 4, 4)),
    "fc": R.standard_normal((3, 30)),
    "bn": (R.standard_normal(4), R.rand(4) + 0.1, np.array([2.0])),
    "scale": (R.standard_normal(4), R.standard_normal(4)),
}
W = {key: tuple(np.float32(part) for part in value) if isinstance(value, tuple) else np.float32(value) for key, value in W.items()}

# name: (prototxt after name, bottom "x" and top, weights, expected top 0)
FORMULAS = {
    "absval": ('type: "AbsVal"', None, np.abs(X)),
    "bnll": ('type: "BNLL"', None, np.log1p(np.exp(X.astype(np.float64)))),
    "elu": ('type: "ELU" elu_param { alpha: 0.3 }', None, np.where(X > 0, X, 0.3 * np.expm1(X))),
    "relu": ('type: "ReLU" relu_param { negative_slope: 1e-1 engine: CAFFE }', None, np.where(X > 0, X, 0.1 * X)),
    "sigmoid": ('type: "Sigmoid"', None, 1 / (1 + np.exp(-X))),
    "tanh": ('type: "TanH"', None, np.tanh(X)),
    "swish": ('type: "Swish" swish_param { beta: 1.0 }', None, X / (1 + np.exp(-X))),
    "dropout": ('type: "Dropout" dropout_param { dropout_ratio: 0.4 }', None, X),
    "exp": ('type: "Exp" exp_param { base: 2 scale: 0.5 shift: 1 }', None, 2 ** (0.5 * X + 1)),
    "power": ('type: "Power" power_param { power: 2 scale: 3 shift: 1 }', None, (3 * X + 1) ** 2),
    "flatten": ('type: "Flatten" flatten_param { axis: -2 }', None, X.reshape(2, 4, 30)),
    "reshape": ('type: "Reshape" reshape_param { shape { dim: 0 dim: -1 dim: 3 } }', None, X.reshape(2, 40, 3)),
    "reshape_one_axis": ('type: "Reshape" reshape_param { shape { dim: 2 dim: 2 } axis: 1 num_axes: 1 }', None, X.reshape(2, 2, 2, 6, 5)),
    "reshape_insert": ('type: "Reshape" reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }', None, X.reshape(2, 4, 6, 5, 1)),
    "softmax": ('type: "Softmax" softmax_param { axis: -1 }', None, softmax(X, 3)),
    "mvn": ('type: "MVN"', None, (X - X.mean((2, 3), keepdims=True)) / (X.std((2, 3), keepdims=True) + 1e-9)),
    "mvn_across": (
        'type: "MVN" mvn_param { across_channels: true normalize_variance: false }',
        None,
        X - X.mean((1, 2, 3), keepdims=True, dtype=np.float64),
    ),
    "prelu": ('type: "PReLU"', [W["scale"][0]], np.where(X > 0, X, X * per_channel(W["scale"][0]))),
    "batch_norm": (
        'type: "BatchNorm" batch_norm_param { eps: 0.01 }',
        list(W["bn"]),
        (X - per_channel(W["bn"][0]) / 2) / np.sqrt(per_channel(W["bn"][1]) / 2 + 0.01),
    ),
    "scale": (
        'type: "Scale" scale_param { bias_term: true }',
        list(W["scale"]),
        X * per_channel(W["scale"][0]) + per_channel(W["scale"][1]),
    ),
    "inner_product": (
        'type: "InnerProduct" inner_product_param { num_output: 3 bias_term: false axis: 2 }',
        [W["fc"]],
        X.reshape(8, 30).dot(W["fc"].T).reshape(2, 4, 3),
    ),
    "conv_pad_w_only": (
        'type: "Convolution" convolution_param { num_output: 6 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_w: 1 '
        "group: 2 bias_term: false }",
        [W["conv"]],
        conv(X, W["conv"], (1, 2), (0, 1), (1, 1), 2),
    ),
    "conv_dilated": (
        'type: "Convolution" convolution_param { num_output: 6 kernel_size: 3 kernel_size: 2 pad: 2 dilation: 2 '
        "group: 2 bias_term: false }",
        [W["conv"]],
        conv(X, W["conv"], (1, 1), (2, 2), (2, 2), 2),
    ),
    "deconv": (
        'type: "Deconvolution" convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1 bias_term: false }',
        [W["deconv"]],
        deconv(X, W["deconv"], 2, 1, 1),
    ),
    "deconv_depthwise": (
        'type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 4 bias_term: false }',
        [W["depthwise"]],
        deconv(X, W["depthwise"], 2, 1, 4),
    ),
    "pool_max": (
        'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 pad: 1 round_mode: CEIL }',
        None,
        pool(X, (3, 3), (2, 2), (1, 1), "MAX")[0],
    ),
    "pool_ave": (
        'type: "Pooling" pooling_param { pool: AVE kernel_h: 3 kernel_w: 2 stride: 2 pad: 1 }',
        None,
        pool(X, (3, 2), (2, 2), (1, 1), "AVE")[0],
    ),
    "pool_global": (
        'type: "Pooling" pooling_param { pool: 1 global_pooling: true }',
        None,
        X.mean((2, 3), keepdims=True, dtype=np.float64),
    ),
    "lrn": ('type: "LRN" lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 k: 1.0 }', None, lrn(X, 3, 0.1, 0.5, False)),
    "lrn_by_default": ('type: "LRN"', None, lrn(X, 5, 1.0, 0.75, False)),
    "lrn_partly": ('type: "LRN" lrn_param { beta: 0.5 }', None, lrn(X, 5, 1.0, 0.5, False)),
    "lrn_within": (
        'type: "LRN" lrn_param { local_size: 3 alpha: 0.1 norm_region: WITHIN_CHANNEL }',
        None,
        lrn(X, 3, 0.1, 0.75, True),
    ),
}
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 dim: 6 dim: 5 } } }\n'
TAIL = """
layer { name: "cat" type: "Concat" bottom: "absval" bottom: "tanh" top: "cat" concat_param { concat_dim: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "absval" bottom: "tanh" top: "sum" eltwise_param { operation: SUM coeff: 2 coeff: -0.5 } }
layer { name: "prod" type: "Eltwise" bottom: "absval" bottom: "tanh" top: "prod" eltwise_param { operation: 0 } }
layer { name: "max" type: "Eltwise" bottom: "absval" bottom: "tanh" top: "max" eltwise_param { operation: MAX } }
layer { name: "by" type: "Scale" bottom: "x" bottom: "tanh" top: "by" scale_param { axis: 0 } }
layer { name: "crop" type: "Crop" bottom: "x" bottom: "pool_max" top: "crop" crop_param { offset: 1 offset: 2 } }
layer { name: "cut" type: "Slice" bottom: "x" top: "c0" top: "c1" }
layer { name: "s0" type: "Sigmoid" bottom: "c0" top: "c0" }
layer { name: "s1" type: "Sigmoid" bottom: "c1" top: "c1" }
layer { name: "three" type: "Slice" bottom: "x" top: "t0" top: "t1" top: "t2" slice_param { slice_dim: 2 } }
layer { name: "abs_t1" type: "AbsVal" bottom: "t1" top: "t1" }
layer { name: "fork" type: "Split" bottom: "x" top: "f0" top: "f1" }
layer { name: "r1" type: "ReLU" bottom: "f1" top: "f1" }
layer { name: "masked" type: "Pooling" bottom: "x" top: "m" top: "mask" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "quiet" type: "Silence" bottom: "mask" }
"""


def close(value, truth):
    truth = np.asarray(truth)
    assert value.shape == truth.shape
    assert value.dtype == np.float32
    assert np.abs(value - truth).max() <= 2e-6 * np.abs(truth).max()


def test_every_listed_layer_computes_caffes_formula(caffemodel, tmp_path):
    """Each layer type of the whitelist against its definition in Caffe; all in one net, so that nothing lends its memory either."""
    text = (
        INPUT
        + "".join('layer { name: "%s" bottom: "x" top: "%s" %s }\n' % (name, name, FORMULAS[name][0]) for name in sorted(FORMULAS))
        + TAIL
    )
    (tmp_path / "n.prototxt").write_text(text)
    weights = [(name, "any", FORMULAS[name][1]) for name in sorted(FORMULAS) if FORMULAS[name][1] is not None]
    model = caffemodel(tmp_path / "n.caffemodel", weights)
    np.save(str(tmp_path / "x.npy"), X)
    out = tmp_path / "out"
    dump(DumpOptions(str(tmp_path / "n.prototxt"), model, str(out), ["x=%s" % (tmp_path / "x.npy")], backend="opencv"))
    values = values_of(out)
    for name in FORMULAS:
        try:
            close(values[name, 0], FORMULAS[name][2])
        except AssertionError as error:
            raise AssertionError(name) from error
    absolute, tangent = np.abs(X), np.tanh(X)
    close(values["cat", 0], np.concatenate([absolute, tangent], 2))
    close(values["sum", 0], 2 * absolute - 0.5 * tangent)
    close(values["prod", 0], absolute * tangent)
    close(values["max", 0], np.maximum(absolute, tangent))
    close(values["by", 0], X * tangent)
    close(values["crop", 0], X[:, :, 1:5, 2:5])
    close(values["cut", 0], X[:, :2])
    close(values["cut", 1], X[:, 2:])
    close(values["s0", 0], 1 / (1 + np.exp(-X[:, :2])))
    close(values["s1", 0], 1 / (1 + np.exp(-X[:, 2:])))
    for index in range(3):
        close(values["three", index], X[:, :, 2 * index : 2 * index + 2])
    close(values["abs_t1", 0], np.abs(X[:, :, 2:4]))
    close(values["fork", 0], X)
    close(values["fork", 1], X)
    close(values["r1", 0], np.maximum(X, 0))
    maximum, mask = pool(X, (2, 2), (2, 2), (0, 0), "MAX")
    close(values["masked", 0], maximum)
    close(values["masked", 1], mask)
    assert manifest_of(out)["skipped"] == [{"tensor": "quiet", "reason": "the layer has no top"}]


REFUSED = {
    'type: "LRN" lrn_param { k: 2 }': "layer L (LRN): parameter lrn_param.k 2",
    'type: "InnerProduct" inner_product_param { num_output: 2 transpose: true }': "inner_product_param.transpose true",
    'type: "Log" log_param { base: 2 }': "layer L (Log): the type is not on the list",
    'type: "Swish" swish_param { beta: 2 }': "swish_param.beta 2",
    'type: "MVN" mvn_param { eps: 0.1 }': "mvn_param.eps 0.1",
    'type: "Deconvolution" convolution_param { num_output: 2 kernel_size: 2 dilation: 2 }': "convolution_param.dilation 2",
    'type: "Pooling" pooling_param { kernel_size: 2 round_mode: FLOOR }': "pooling_param.round_mode FLOOR",
    'type: "Pooling" pooling_param { pool: STOCHASTIC kernel_size: 2 }': "pooling_param.pool STOCHASTIC",
    'type: "BatchNorm" batch_norm_param { use_global_stats: false }': "batch_norm_param.use_global_stats false",
    'type: "PReLU" prelu_param { channel_shared: true }': "prelu_param.channel_shared true",
    'type: "Scale" scale_param { num_axes: 2 }': "scale_param.num_axes 2",
    'type: "Convolution" convolution_param { num_output: 2 kernel_size: 1 axis: 2 }': "convolution_param.axis 2",
    'type: "Convolution" convolution_param { num_output: 2 kernel_size: 1 newfield: 2 }': "convolution_param.newfield 2",
    'type: "ReLU" ascend_quant_param { scale: 1 }': "layer L (ReLU): parameter ascend_quant_param",
    'type: "ReLU" relu_param { sub { a: 1 } }': "parameter relu_param.sub",
    'type: "Scale" bottom: "x" scale_param { bias_term: true }': "layer L (Scale): parameter scale_param.bias_term with two bottoms",
    'type: "LRN" lrn_param { local_size: 1 }': "lrn_param.local_size 1",
    'type: "Clip"': "(Clip)",
    'type: "SoftmaxWithLoss"': "(SoftmaxWithLoss)",
    'type: "AscendQuant"': "(AscendQuant)",
    'type: "Permute"': "(Permute)",
    'type: "Dropout" phase: TRAIN': "layer L (Dropout): parameter phase TRAIN",
    'type: "Python"': "(Python)",
    "": "layer L (no type)",
}


@pytest.mark.parametrize("body", sorted(REFUSED))
def test_refused_by_layer_and_parameter(body):
    text = INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % body
    with pytest.raises(InputError) as caught:
        refuse_unknown(Net(Document(text), State()))
    assert REFUSED[body] in caught.value.message
    assert "`backend=caffe` `python=PATH`" in caught.value.hint


def test_shared_weights_and_unknown_bottoms_are_refused():
    shared = "".join(
        'layer { name: "%s" type: "InnerProduct" bottom: "x" top: "%s" param { name: "w" } inner_product_param { num_output: 2 } }\n'
        % (n, n)
        for n in "ab"
    )
    with pytest.raises(InputError, match="param.name w shares the weights of layer a"):
        refuse_unknown(Net(Document(INPUT + shared), State()))
    with pytest.raises(InputError, match="bottom nothing is made by no layer"):
        refuse_unknown(Net(Document('layer { name: "r" type: "ReLU" bottom: "nothing" top: "r" }'), State()))


NAMES = (
    INPUT
    + """
layer { name: "a/b" type: "ReLU" bottom: "x" top: "p" }
layer { name: "a.b" type: "Sigmoid" bottom: "p" top: "p" }
layer { type: "TanH" bottom: "p" top: "unnamed blob" }
layer { name: "dup" type: "AbsVal" bottom: "p" top: "d1" }
layer { name: "dup" type: "BNLL" bottom: "p" top: "d2" }
layer { name: "%s" type: "ReLU" bottom: "d1" top: "long" }
layer { name: "x_copy" type: "ReLU" bottom: "d2" top: "p2" }
layer { name: "gr\\303\\274n \\"q\\"" type: "ReLU" bottom: "p2" top: "u" }
layer { name: "train" type: "ReLU" bottom: "u" top: "tr" include { phase: TRAIN } }
layer { name: "V" type: "Convolution" bottom: "x" top: "blob of V" convolution_param { num_output: 1 kernel_size: 1 bias_term: false } }
layer { name: "blob of V" type: "ReLU" bottom: "blob of V" top: "blob of V" }
"""
    % ("n" * 240)
)


@pytest.fixture
def names_net(caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(NAMES)
    return str(tmp_path / "n.prototxt"), caffemodel(tmp_path / "n.caffemodel", [("V", "Convolution", [np.ones((1, 4, 1, 1))])])


def test_names(names_net, tmp_path):
    out = tmp_path / "out"
    result = dump(DumpOptions(names_net[0], names_net[1], str(out), backend="opencv", seed=1))
    manifest = manifest_of(out)
    values = values_of(out)
    assert result["runs"][0]["counts"] == {"written": 11, "skipped": 1, "parked": 4, "hashed": 1}
    assert sorted(result["runs"][0]["collisions"]) == ["a_b", "dup"]
    assert len(result["warnings"]) == 3
    assert manifest["skipped"] == [{"tensor": "train:0", "reason": "not part of phase TEST"}]
    x = values["x", 0]
    relu = np.maximum(x, 0)
    close(values["a/b", 0], relu)
    close(values["a.b", 0], 1 / (1 + np.exp(-relu)))
    close(values["unnamed blob", 0], np.tanh(values["a.b", 0]))
    close(values["V", 0], x.sum(1, keepdims=True, dtype=np.float64))
    close(values["blob of V", 0], np.maximum(values["V", 0], 0))
    assert ('grün "q"', 0) in values
    ops = {entry["original_name"]: entry["op"] for entry in manifest["tensors"]}
    assert ops["unnamed blob"] == "unnamed_blob"
    assert ops['grün "q"'] == "gr_n__q_"
    both = sorted((entry["type"] for entry in manifest["tensors"] if entry["original_name"] == "dup"))
    assert both == ["AbsVal", "BNLL"]


def test_layers_are_chosen_by_glob(names_net, tmp_path):
    out = tmp_path / "out"
    dump(DumpOptions(names_net[0], names_net[1], str(out), backend="opencv", seed=1, layers=["a?b,dup", "V"]))
    manifest = manifest_of(out)
    assert sorted(entry["original_name"] for entry in manifest["tensors"]) == ["V", "a.b", "a/b", "dup", "dup"]
    assert len(manifest["tensors"]) + len(manifest["skipped"]) == 12
    with pytest.raises(UsageError, match=r"no layer matches nope\*"):
        dump(DumpOptions(names_net[0], names_net[1], str(tmp_path / "o2"), backend="opencv", seed=1, layers=["nope*"]))
    assert not (tmp_path / "o2").exists()


def test_v1_net_with_v1_weights(caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(
        'input: "x" input_dim: 2 input_dim: 4 input_dim: 6 input_dim: 5\n'
        'layers { name: "c" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 1 convolution_param { num_output: 6 kernel_h: 3 kernel_w: 2 '
        "group: 2 bias_term: false } }\n"
        'layers { name: "r" type: 18 bottom: "c" top: "c" }\n'
    )
    model = caffemodel(tmp_path / "n.caffemodel", [("c", "", [W["conv"]])], v1=True)
    np.save(str(tmp_path / "x.npy"), X)
    dump(DumpOptions(str(tmp_path / "n.prototxt"), model, str(tmp_path / "o"), ["x=%s" % (tmp_path / "x.npy")], backend="opencv"))
    values = values_of(tmp_path / "o")
    truth = conv(X, W["conv"], (1, 1), (0, 0), (1, 1), 2)
    close(values["c", 0], truth)
    close(values["r", 0], np.maximum(truth, 0))
    close(values["x", 0], X)
    entry = [entry for entry in manifest_of(tmp_path / "o")["tensors"] if entry["original_name"] == "x"][0]
    assert (entry["layer"], entry["top"], entry["type"]) == ("", "x", "Input")


def test_weights_that_do_not_fit(resblock, caffemodel, tmp_path):
    options = {"out": str(tmp_path / "o"), "seed": 1, "backend": "opencv"}
    model = caffemodel(tmp_path / "w.caffemodel", [("other", "Convolution", [np.ones((1, 1, 1, 1))])])
    with pytest.raises(InputError, match="no weights for layer conv1, bn_conv1"):
        dump(DumpOptions(resblock("resblock.prototxt"), model, **options))
    with pytest.raises(FormatError, match="not a .caffemodel"):
        dump(DumpOptions(resblock("resblock.prototxt"), resblock("resblock.prototxt"), **options))
    (tmp_path / "w.h5").write_bytes(b"\x89HDF\r\n\x1a\n....")
    with pytest.raises(InputError, match="HDF5"):
        dump(DumpOptions(resblock("resblock.prototxt"), str(tmp_path / "w.h5"), **options))
    with open(resblock("resblock.caffemodel"), "rb") as stream:
        data = stream.read()
    (tmp_path / "cut.caffemodel").write_bytes(data[:-100])
    with pytest.raises(InputError):
        dump(DumpOptions(resblock("resblock.prototxt"), str(tmp_path / "cut.caffemodel"), **options))
    assert not (tmp_path / "o").exists()


CONV = '"Convolution" convolution_param { num_output: %d kernel_size: 3 }'


@pytest.mark.parametrize(
    ("body", "found", "told"),
    [
        (CONV % 2, [(2, 4, 3, 2), (2,)], "[2, 4, 3, 2] and [2], the net needs [2, 4, 3, 3] and [2]"),
        (CONV % 2, [(2, 4, 3, 3)], "[2, 4, 3, 3], the net needs [2, 4, 3, 3] and [2]"),
        (CONV.replace("Conv", "Deconv") % 6 + " convolution_param { group: 2 bias_term: false }", [(4, 6, 3, 3)], "needs [4, 3, 3, 3]"),
        ('"InnerProduct" inner_product_param { num_output: 3 axis: 2 bias_term: false }', [(3, 120)], "the net needs [3, 30]"),
        ('"BatchNorm"', [(4,), (5,), (1,)], "the net needs [4] and [4] and [1]"),
        ('"Scale" scale_param { axis: 2 bias_term: true }', [(4,), (4,)], "the net needs [6] and [6]"),
        ('"PReLU"', [(1,)], "the net needs [4]"),
    ],
)
def test_weights_of_another_shape_name_the_layer(body, found, told, caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(INPUT + 'layer { name: "wrong one" bottom: "x" top: "y" type: %s }' % body)
    model = caffemodel(tmp_path / "n.caffemodel", [("wrong one", "any", [np.ones(shape) for shape in found])])
    with pytest.raises(InputError, match=r"n.caffemodel: layer wrong one \(\w+\) has weights of shape") as caught:
        dump(DumpOptions(str(tmp_path / "n.prototxt"), model, str(tmp_path / "o"), seed=1, backend="opencv"))
    assert told in caught.value.message and not (tmp_path / "o").exists()


def test_weights_with_four_dimensions_as_older_files_have_them(caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(
        INPUT + 'layer { name: "f" bottom: "x" top: "f" type: "InnerProduct" inner_product_param { num_output: 3 axis: 2 } }'
    )
    bias = np.arange(3, dtype=np.float32)
    model = caffemodel(tmp_path / "n.caffemodel", [("f", "", [W["fc"][None, None], bias.reshape(1, 1, 1, 3)])])
    np.save(str(tmp_path / "x.npy"), X)
    dump(DumpOptions(str(tmp_path / "n.prototxt"), model, str(tmp_path / "o"), ["x=%s/x.npy" % tmp_path], backend="opencv"))
    close(values_of(tmp_path / "o")["f", 0], X.reshape(8, 30).dot(W["fc"].T.astype(np.float64)).reshape(2, 4, 3) + bias)


def test_quantised_writes_containers(resblock, tmp_path):
    specs = ["data=" + resblock("input_data.npy")]
    options = DumpOptions(
        resblock("resblock.prototxt"), resblock("resblock.caffemodel"), str(tmp_path / "q"), specs, "opencv", quantised=True
    )
    dump(options)
    golden = GoldenSet.open(str(tmp_path / "q"))
    expected = np.load(resblock("expected_layer_outputs.npz"))
    got = golden.tensor(golden.find("prob", 0)).array()
    np.testing.assert_allclose(got, expected["prob:0"], rtol=1e-5)
    assert {os.path.splitext(name)[1] for name in os.listdir(str(tmp_path / "q"))} == {".quant", ".json"}


def test_second_run_is_refused_unless_forced(resblock, tmp_path):
    options = {"out": str(tmp_path / "o"), "seed": 1, "backend": "opencv"}
    files = (resblock("resblock.prototxt"), resblock("resblock.caffemodel"))
    dump(DumpOptions(*files, **options))
    first = values_of(tmp_path / "o")
    with pytest.raises(UsageError, match="already holds"):
        dump(DumpOptions(*files, **options))
    dump(DumpOptions(*files, force=True, **options))
    second = values_of(tmp_path / "o")
    assert len(os.listdir(str(tmp_path / "o"))) == 27
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])


def test_batches(resblock, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    data = np.load(resblock("input_data.npy"))
    for number in (2, 10, 1):
        np.save(str(folder / ("batch_%d.npy" % number)), data * number)
    result = dump(
        DumpOptions(
            resblock("resblock.prototxt"),
            resblock("resblock.caffemodel"),
            str(tmp_path / "o"),
            ["data=%s" % folder],
            "opencv",
            layers=["conv1"],
        )
    )
    assert [os.path.basename(run["out"]) for run in result["runs"]] == ["0", "1", "2"]
    conv1 = np.load(resblock("expected_layer_outputs.npz"))["conv1:0"]
    for number, factor in enumerate((1, 2, 10)):
        np.testing.assert_allclose(values_of(tmp_path / "o" / str(number))["conv1", 0], conv1 * factor, rtol=1e-4, atol=1e-4)


SLOW = """
layer { name: "c%d" type: "Convolution" bottom: "%s" top: "c%d"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 bias_term: false } }
"""


def test_interrupt_leaves_usable_files(caffemodel, tmp_path, until):
    text = 'input: "x" input_dim: 1 input_dim: 16 input_dim: 256 input_dim: 256\n'
    text += "".join(SLOW % (number, "c%d" % (number - 1) if number else "x", number) for number in range(120))
    (tmp_path / "n.prototxt").write_text(text)
    model = caffemodel(
        tmp_path / "n.caffemodel", [("c%d" % number, "Convolution", [np.ones((16, 16, 3, 3)) / 144]) for number in range(120)]
    )
    out = tmp_path / "o"
    command = [sys.executable, "-m", "goldwatch", "golden", "caffe", "dump", str(tmp_path / "n.prototxt"), model]
    child = subprocess.Popen(command + ["--random", "1", "-o", str(out), "--backend", "opencv"], stderr=subprocess.PIPE)
    until(lambda: out.is_dir() and any(name.endswith(".npy") for name in os.listdir(str(out))))
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=60)
    manifest = manifest_of(out)
    for entry in manifest["tensors"]:
        with open(str(out / entry["file"]), "rb") as stream:
            assert hashlib.sha256(stream.read()).hexdigest() == entry["sha256"]
    assert len(manifest["tensors"]) + len(manifest["skipped"]) == 121
    assert sorted(os.listdir(str(out))) == sorted(["manifest.json"] + [entry["file"] for entry in manifest["tensors"]])
    if not manifest["complete"]:
        assert child.returncode == 130
        assert b"usable" in error


@pytest.mark.parametrize("body", ['type: "Flatten" flatten_param { axis: 0 }', 'type: "Reshape" reshape_param { shape { dim: -1 } }'])
def test_a_top_of_one_axis_is_refused_before_the_run(body):
    net = Net(Document(INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % body), State())
    with pytest.raises(InputError, match=r"layer L \(\w+\): a top of shape \[240\]"):
        normalise(net, net_inputs(net))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 1 pad: 1 }', "kernel 1 and stride 1 with pad"),
        ('type: "Pooling" pooling_param { kernel_size: 1 stride: 2 }', r"its last window lies outside the bottom \[2, 4, 6, 5\]"),
        ('type: "Pooling" pooling_param { pool: AVE kernel_size: 1 stride_h: 2 stride_w: 1 }', "its last window lies outside"),
        ('type: "Pooling" pooling_param { kernel_size: 2 pad: 2 }', "pooling_param.pad is not smaller than the kernel"),
        ('type: "LRN" lrn_param { local_size: 4 }', "lrn_param.local_size is even"),
        ('type: "Flatten" flatten_param { axis: 2 end_axis: 1 }', "end_axis lies before axis"),
        ('type: "Softmax" softmax_param { axis: 4 }', "axis is 4, the blob has 4 axes"),
        ('type: "Reshape" reshape_param { shape { dim: inf } }', "reshape_param.dim: 'inf' is not a 64-bit integer"),
    ],
)
def test_refused_by_the_shapes_before_the_run(body, told):
    net = Net(Document(INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % body), State())
    with pytest.raises(InputError, match=r"layer L \(\w+\).*%s" % told):
        normalise(net, net_inputs(net))


def test_inputs_of_other_than_four_axes_are_refused_for_opencv_4_5(tmp_path, monkeypatch):
    cv2 = pytest.importorskip("cv2")
    net = Net(Document('input: "x" input_shape { dim: 2 dim: 3 } layer { name: "r" type: "ReLU" bottom: "x" top: "r" }'), State())
    done = normalise(net, net_inputs(net))
    monkeypatch.setattr(cv2, "__version__", "4.5.5")
    with pytest.raises(InputError, match=r"OpenCV 4.5.5 takes inputs of four axes only; input x has the shape \[2, 3\]"):
        OpencvBackend("w.caffemodel", done, str(tmp_path))
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_mvn_of_other_than_four_axes_is_refused(rank):
    text = (INPUT + 'layer { name: "L" type: "MVN" bottom: "x" top: "y" }').replace("dim: 6 dim: 5", "dim: 6 " * (rank - 2))
    net = Net(Document(text), State())
    with pytest.raises(InputError, match="layer L .MVN.: a bottom of %d axes" % rank):
        normalise(net, net_inputs(net))


NAN_NET = INPUT + """
layer { name: "p" type: "Power" bottom: "x" top: "p" power_param { power: 0.5 shift: %s } }
layer { name: "s" type: "%s" bottom: "p" top: "s" }
"""


@pytest.mark.parametrize("kind", ["Sigmoid", "TanH"])
@pytest.mark.parametrize("inside", [False, True])
def test_nan_that_reaches_a_sigmoid_is_refused_by_name(kind, inside, tmp_path):
    """From the input, or made inside the net: the root of a negative number."""
    x = np.abs(X)
    if inside:
        x[0, 0, 0, 0] = -5
    else:
        x[1, 3, 5, 4] = np.nan
    np.save(str(tmp_path / "x.npy"), x)
    (tmp_path / "n.caffemodel").write_bytes(b"")
    # Power with a fractional power is refused for infinities itself: it is left out where the input has the NaN.
    text = NAN_NET % (1, kind) if inside else INPUT + 'layer { name: "s" type: "%s" bottom: "x" top: "s" }' % kind
    (tmp_path / "n.prototxt").write_text(text)
    options = DumpOptions(
        str(tmp_path / "n.prototxt"), str(tmp_path / "n.caffemodel"), str(tmp_path / "o"), ["x=%s/x.npy" % tmp_path], backend="opencv"
    )
    with pytest.raises(InputError, match=r"NaN reaches layer s \(%s\)" % kind):
        dump(options)
    assert not (tmp_path / "o").exists()
    np.save(str(tmp_path / "x.npy"), np.abs(X))
    assert dump(options)["runs"][0]["counts"]["written"] == 3 if inside else 2


@pytest.mark.parametrize(
    ("layer", "number", "told"),
    [
        ('type: "LRN" lrn_param { alpha: 1e-4 }', 1e4, r"numbers of up to 1e\+04 \(more than 9.16e\+03\) reach layer L \(LRN\)"),
        ('type: "LRN" lrn_param { alpha: 1e-4 }', 9e3, ""),
        ('type: "LRN" lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 }', -200, "reach layer L .LRN."),
        ('type: "LRN" lrn_param { alpha: 0 }', 1e30, ""),
        ('type: "LRN"', -np.inf, "an infinite number reaches layer L .LRN."),
        ('type: "MVN"', 1e19, "reach layer L .MVN."),
        ('type: "MVN"', 1e15, ""),
        ('type: "ReLU"', 3e38, ""),
        ('type: "ReLU"', np.inf, ""),
    ],
)
def test_numbers_too_large_for_sums_of_squares_are_refused_by_name(layer, number, told, tmp_path):
    """OpenCV and Caffe keep such sums in another order: what is lost beside a huge number, or overflows, is not the same."""
    x = np.array(X)
    x[0, 0, 0, 0] = number
    np.save(str(tmp_path / "x.npy"), x)
    (tmp_path / "n.caffemodel").write_bytes(b"")
    (tmp_path / "n.prototxt").write_text(INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % layer)
    names = [str(tmp_path / name) for name in ("n.prototxt", "n.caffemodel", "o")]
    options = DumpOptions(*names, ["x=%s/x.npy" % tmp_path], backend="opencv")
    if not told:
        assert dump(options)["runs"][0]["counts"]["written"] == 2
        return
    with pytest.raises(InputError, match=told):
        dump(options)
    assert not (tmp_path / "o").exists()


def test_an_unknown_field_is_named_with_its_line():
    text = INPUT + 'layer {\n  name: "L" type: "ReLU"\n  botom: "x"\n  bottom: "x" top: "y"\n  relu_param {\n    slope: 1\n  }\n}'
    net = Net(Document(text), State())
    before = INPUT.count("\n")
    told = r"layer L .ReLU.: parameter botom \(line %d\); layer L .ReLU.: parameter relu_param.slope 1 \(line %d\)"
    with pytest.raises(InputError, match=told % (before + 3, before + 6)):
        normalise(net, net_inputs(net))


def test_axis_of_a_scale_is_counted_from_the_front():
    net = Net(Document(INPUT + 'layer { name: "L" type: "Scale" bottom: "x" top: "y" scale_param { axis: -3 bias_term: true } }'), State())
    assert "scale_param { axis: 1 bias_term: true }" in normalise(net, net_inputs(net)).text
