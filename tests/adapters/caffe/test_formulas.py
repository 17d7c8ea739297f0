"""`golden caffe dump` with the numpy backend: layers of one net against Caffe's formulas."""

from __future__ import annotations

import numpy as np
from caffe_formulas import (
    INPUT,
    W,
    X,
    close,
    conv,
    deconv,
    lrn,
    manifest_of,
    per_channel,
    pool,
    softmax,
    values_of,
)

from goldwatch.adapters.caffe.dump import DumpOptions, dump

# name: (prototxt after name, bottom "x" and top, weights, expected top 0)
FORMULAS = {
    "absval": ('type: "AbsVal"', None, np.abs(X)),
    "bnll": ('type: "BNLL"', None, np.log1p(np.exp(X.astype(np.float64)))),
    "elu": ('type: "ELU" elu_param { alpha: 0.3 }', None, np.where(X > 0, X, 0.3 * np.expm1(X))),
    "relu": (
        'type: "ReLU" relu_param { negative_slope: 1e-1 engine: CAFFE }',
        None,
        np.where(X > 0, X, 0.1 * X),
    ),
    "sigmoid": ('type: "Sigmoid"', None, 1 / (1 + np.exp(-X))),
    "tanh": ('type: "TanH"', None, np.tanh(X)),
    "swish": ('type: "Swish" swish_param { beta: 1.0 }', None, X / (1 + np.exp(-X))),
    "dropout": ('type: "Dropout" dropout_param { dropout_ratio: 0.4 }', None, X),
    "exp": ('type: "Exp" exp_param { base: 2 scale: 0.5 shift: 1 }', None, 2 ** (0.5 * X + 1)),
    "power": ('type: "Power" power_param { power: 2 scale: 3 shift: 1 }', None, (3 * X + 1) ** 2),
    "flatten": ('type: "Flatten" flatten_param { axis: -2 }', None, X.reshape(2, 4, 30)),
    "reshape": (
        'type: "Reshape" reshape_param { shape { dim: 0 dim: -1 dim: 3 } }',
        None,
        X.reshape(2, 40, 3),
    ),
    "reshape_one_axis": (
        'type: "Reshape" reshape_param { shape { dim: 2 dim: 2 } axis: 1 num_axes: 1 }',
        None,
        X.reshape(2, 2, 2, 6, 5),
    ),
    "reshape_insert": (
        'type: "Reshape" reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }',
        None,
        X.reshape(2, 4, 6, 5, 1),
    ),
    # As in nets that were trained with SoftmaxWithLoss: the loss layer alone reads it.
    "softmax with a loss_param": (
        'type: "Softmax" loss_param { ignore_label: 255 normalize: true }',
        None,
        softmax(X, 1),
    ),
    "softmax": ('type: "Softmax" softmax_param { axis: -1 }', None, softmax(X, 3)),
    "mvn": (
        'type: "MVN"',
        None,
        (X - X.mean((2, 3), keepdims=True)) / (X.std((2, 3), keepdims=True) + 1e-9),
    ),
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
        'type: "Convolution" convolution_param { num_output: 6 kernel_h: 3 kernel_w: 2 '
        "stride_h: 1 stride_w: 2 pad_w: 1 "
        "group: 2 bias_term: false }",
        [W["conv"]],
        conv(X, W["conv"], (1, 2), (0, 1), (1, 1), 2),
    ),
    "conv_dilated": (
        'type: "Convolution" convolution_param { num_output: 6 kernel_size: 3 kernel_size: 2 '
        "pad: 2 dilation: 2 "
        "group: 2 bias_term: false }",
        [W["conv"]],
        conv(X, W["conv"], (1, 1), (2, 2), (2, 2), 2),
    ),
    "deconv": (
        'type: "Deconvolution" convolution_param { num_output: 3 kernel_size: 4 stride: 2 '
        "pad: 1 bias_term: false }",
        [W["deconv"]],
        deconv(X, W["deconv"], 2, 1, 1),
    ),
    "deconv_depthwise": (
        'type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 4 stride: 2 '
        "pad: 1 group: 4 bias_term: false }",
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
    "lrn": (
        'type: "LRN" lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 k: 1.0 }',
        None,
        lrn(X, 3, 0.1, 0.5, False),
    ),
    "lrn_by_default": ('type: "LRN"', None, lrn(X, 5, 1.0, 0.75, False)),
    "lrn_partly": ('type: "LRN" lrn_param { beta: 0.5 }', None, lrn(X, 5, 1.0, 0.5, False)),
    "lrn_within": (
        'type: "LRN" lrn_param { local_size: 3 alpha: 0.1 norm_region: WITHIN_CHANNEL }',
        None,
        lrn(X, 3, 0.1, 0.75, True),
    ),
}
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
"""  # noqa: E501


def test_each_layer_of_a_net_computes_caffes_formula(caffemodel, tmp_path):
    """All in one net, so that nothing lends its memory either."""
    text = (
        INPUT
        + "".join(
            'layer { name: "%s" bottom: "x" top: "%s" %s }\n' % (name, name, FORMULAS[name][0])
            for name in sorted(FORMULAS)
        )
        + TAIL
    )
    (tmp_path / "n.prototxt").write_text(text)
    weights = [
        (name, "any", FORMULAS[name][1])
        for name in sorted(FORMULAS)
        if FORMULAS[name][1] is not None
    ]
    model = caffemodel(tmp_path / "n.caffemodel", weights)
    np.save(str(tmp_path / "x.npy"), X)
    out = tmp_path / "out"
    dump(
        DumpOptions(
            str(tmp_path / "n.prototxt"),
            model,
            str(out),
            ["x=%s" % (tmp_path / "x.npy")],
            backend="numpy",
        )
    )
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
