"""``golden caffe dump`` with OpenCV: what OpenCV computes otherwise than Caffe is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest
from caffe_formulas import INPUT, X

from goldwatch.adapters.caffe.dump import DumpOptions, dump
from goldwatch.adapters.caffe.netinputs import net_inputs
from goldwatch.adapters.caffe.opencv_backend import OpencvBackend
from goldwatch.adapters.caffe.opencv_rewrite import normalise
from goldwatch.adapters.caffe.opencv_whitelist import refuse_unknown
from goldwatch.errors import InputError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt_edits import Document

REFUSED = {
    'type: "LRN" lrn_param { k: 2 }': "layer L (LRN): parameter lrn_param.k 2",
    'type: "InnerProduct" inner_product_param { '
    "num_output: 2 transpose: true }": "inner_product_param.transpose true",
    'type: "Log" log_param { base: 2 }': "layer L (Log): the type is not on the list",
    'type: "Swish" swish_param { beta: 2 }': "swish_param.beta 2",
    'type: "MVN" mvn_param { eps: 0.1 }': "mvn_param.eps 0.1",
    'type: "Deconvolution" convolution_param { num_output: 2 '
    "kernel_size: 2 dilation: 2 }": "convolution_param.dilation 2",
    'type: "Pooling" pooling_param { kernel_size: 2 '
    "round_mode: FLOOR }": "pooling_param.round_mode FLOOR",
    'type: "Pooling" pooling_param { pool: STOCHASTIC '
    "kernel_size: 2 }": "pooling_param.pool STOCHASTIC",
    'type: "BatchNorm" batch_norm_param { '
    "use_global_stats: false }": "batch_norm_param.use_global_stats false",
    'type: "PReLU" prelu_param { channel_shared: true }': "prelu_param.channel_shared true",
    'type: "Scale" scale_param { num_axes: 2 }': "scale_param.num_axes 2",
    'type: "Convolution" convolution_param { num_output: 2 '
    "kernel_size: 1 axis: 2 }": "convolution_param.axis 2",
    'type: "Convolution" convolution_param { num_output: 2 '
    "kernel_size: 1 newfield: 2 }": "convolution_param.newfield 2",
    'type: "ReLU" ascend_quant_param { scale: 1 }': "layer L (ReLU): parameter ascend_quant_param",
    'type: "ReLU" relu_param { sub { a: 1 } }': "parameter relu_param.sub",
    'type: "Scale" bottom: "x" scale_param { bias_term: true }': "layer L (Scale): parameter "
    "scale_param.bias_term with "
    "two bottoms",
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
def test_parameters_that_opencv_computes_otherwise_are_refused_by_name(body):
    text = INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % body
    with pytest.raises(InputError) as caught:
        refuse_unknown(Net(Document(text), State()))
    assert REFUSED[body] in caught.value.message
    assert "`backend=caffe` `python=PATH`" in caught.value.hint


def test_shared_weights_and_unknown_bottoms_are_refused():
    shared = "".join(
        'layer { name: "%s" type: "InnerProduct" bottom: "x" top: "%s" param { name: "w" } '
        "inner_product_param { num_output: 2 } }\n" % (n, n)
        for n in "ab"
    )
    with pytest.raises(InputError, match="param.name w shares the weights of layer a"):
        refuse_unknown(Net(Document(INPUT + shared), State()))
    with pytest.raises(InputError, match="bottom nothing is made by no layer"):
        refuse_unknown(
            Net(Document('layer { name: "r" type: "ReLU" bottom: "nothing" top: "r" }'), State())
        )


@pytest.mark.parametrize(
    "body",
    [
        'type: "Flatten" flatten_param { axis: 0 }',
        'type: "Reshape" reshape_param { shape { dim: -1 } }',
    ],
)
def test_a_top_of_one_axis_is_refused_before_the_run(body):
    net = Net(Document(INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % body), State())
    with pytest.raises(InputError, match=r"layer L \(\w+\): a top of shape \[240\]"):
        normalise(net, net_inputs(net))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            'type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 1 pad: 1 }',
            "kernel 1 and stride 1 with pad",
        ),
        (
            'type: "Pooling" pooling_param { kernel_size: 1 stride: 2 }',
            r"its last window lies outside the bottom \[2, 4, 6, 5\]",
        ),
        (
            'type: "Pooling" pooling_param { pool: AVE kernel_size: 1 stride_h: 2 stride_w: 1 }',
            "its last window lies outside",
        ),
        (
            'type: "Pooling" pooling_param { kernel_size: 2 pad: 2 }',
            "pooling_param.pad is not smaller than the kernel",
        ),
        ('type: "LRN" lrn_param { local_size: 4 }', "lrn_param.local_size is even"),
        ('type: "Flatten" flatten_param { axis: 2 end_axis: 1 }', "end_axis lies before axis"),
        ('type: "Softmax" softmax_param { axis: 4 }', "axis is 4, the blob has 4 axes"),
        (
            'type: "Reshape" reshape_param { shape { dim: inf } }',
            "reshape_param.dim: 'inf' is not a 64-bit integer",
        ),
    ],
)
def test_shapes_that_opencv_computes_otherwise_are_refused_before_the_run(body, told):
    net = Net(Document(INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % body), State())
    with pytest.raises(InputError, match=r"layer L \(\w+\).*%s" % told):
        normalise(net, net_inputs(net))


def test_inputs_of_other_than_four_axes_are_refused_for_opencv_4_5(tmp_path, monkeypatch):
    cv2 = pytest.importorskip("cv2")
    net = Net(
        Document(
            'input: "x" input_shape { dim: 2 dim: 3 } layer { name: "r" type: "ReLU" bottom: '
            '"x" top: "r" }'
        ),
        State(),
    )
    done = normalise(net, net_inputs(net))
    monkeypatch.setattr(cv2, "__version__", "4.5.5")
    with pytest.raises(
        InputError,
        match=r"OpenCV 4.5.5 takes inputs of four axes only; input x has the shape \[2, 3\]",
    ):
        OpencvBackend("w.caffemodel", done, str(tmp_path))
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_mvn_of_other_than_four_axes_is_refused(rank):
    text = (INPUT + 'layer { name: "L" type: "MVN" bottom: "x" top: "y" }').replace(
        "dim: 6 dim: 5", "dim: 6 " * (rank - 2)
    )
    net = Net(Document(text), State())
    with pytest.raises(InputError, match="layer L .MVN.: a bottom of %d axes" % rank):
        normalise(net, net_inputs(net))


NAN_NET = (
    INPUT
    + """
layer { name: "p" type: "Power" bottom: "x" top: "p" power_param { power: 0.5 shift: %s } }
layer { name: "s" type: "%s" bottom: "p" top: "s" }
"""
)


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
    # Power with a fractional power is refused for infinities itself: it is left out where the input
    # has the NaN.
    text = (
        NAN_NET % (1, kind)
        if inside
        else INPUT + 'layer { name: "s" type: "%s" bottom: "x" top: "s" }' % kind
    )
    (tmp_path / "n.prototxt").write_text(text)
    options = DumpOptions(
        str(tmp_path / "n.prototxt"),
        str(tmp_path / "n.caffemodel"),
        str(tmp_path / "o"),
        ["x=%s/x.npy" % tmp_path],
        backend="opencv",
    )
    with pytest.raises(InputError, match=r"NaN reaches layer s \(%s\)" % kind):
        dump(options)
    assert not (tmp_path / "o").exists()
    np.save(str(tmp_path / "x.npy"), np.abs(X))
    assert dump(options)["runs"][0]["counts"]["written"] == 3 if inside else 2


@pytest.mark.parametrize(
    ("layer", "number", "told"),
    [
        (
            'type: "LRN" lrn_param { alpha: 1e-4 }',
            1e4,
            r"numbers of up to 1e\+04 \(more than 9.16e\+03\) reach layer L \(LRN\)",
        ),
        ('type: "LRN" lrn_param { alpha: 1e-4 }', 9e3, ""),
        (
            'type: "LRN" lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 }',
            -200,
            "reach layer L .LRN.",
        ),
        ('type: "LRN" lrn_param { alpha: 0 }', 1e30, ""),
        ('type: "LRN"', -np.inf, "an infinite number reaches layer L .LRN."),
        ('type: "MVN"', 1e19, "reach layer L .MVN."),
        ('type: "MVN"', 1e15, ""),
        ('type: "ReLU"', 3e38, ""),
        ('type: "ReLU"', np.inf, ""),
    ],
)
def test_numbers_too_large_for_sums_of_squares_are_refused_by_name(layer, number, told, tmp_path):
    """OpenCV and Caffe keep such sums in another order: what is lost beside a huge number, or
    overflows, is not the same.
    """
    x = np.array(X)
    x[0, 0, 0, 0] = number
    np.save(str(tmp_path / "x.npy"), x)
    (tmp_path / "n.caffemodel").write_bytes(b"")
    (tmp_path / "n.prototxt").write_text(
        INPUT + 'layer { name: "L" bottom: "x" top: "y" %s }' % layer
    )
    names = [str(tmp_path / name) for name in ("n.prototxt", "n.caffemodel", "o")]
    options = DumpOptions(*names, ["x=%s/x.npy" % tmp_path], backend="opencv")
    if not told:
        assert dump(options)["runs"][0]["counts"]["written"] == 2
        return
    with pytest.raises(InputError, match=told):
        dump(options)
    assert not (tmp_path / "o").exists()


def test_an_unknown_field_is_named_with_its_line():
    text = (
        INPUT + 'layer {\n  name: "L" type: "ReLU"\n  botom: "x"\n  bottom: "x" top: "y"\n  '
        "relu_param {\n    slope: 1\n  }\n}"
    )
    net = Net(Document(text), State())
    before = INPUT.count("\n")
    told = (
        r"layer L .ReLU.: parameter botom \(line %d\); layer L .ReLU.: parameter relu_param.slope "
        r"1 \(line %d\)"
    )
    with pytest.raises(InputError, match=told % (before + 3, before + 6)):
        normalise(net, net_inputs(net))


def test_a_negative_axis_of_a_scale_is_counted_from_the_front():
    net = Net(
        Document(
            INPUT + 'layer { name: "L" type: "Scale" bottom: "x" top: "y" scale_param { axis: -3 '
            "bias_term: true } }"
        ),
        State(),
    )
    assert "scale_param { axis: 1 bias_term: true }" in normalise(net, net_inputs(net)).text
