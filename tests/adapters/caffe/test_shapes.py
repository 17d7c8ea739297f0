"""Shapes of tops that are known without running a net."""

from __future__ import annotations

import pytest

from goldwatch.adapters.caffe.shapes import top_shapes
from goldwatch.base.errors import InputError
from goldwatch.netfiles.caffe_net import Net, initial_state
from goldwatch.netfiles.prototxt_edits import Document


def shapes(kind, body, *bottoms):
    text = 'layer { name: "l" type: "%s" %s top: "t" %s }' % (
        kind,
        'bottom: "b" ' * len(bottoms),
        body,
    )
    document = Document(text)
    return top_shapes(Net(document, initial_state(document, "TEST", None, ())).layers[0], bottoms)


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        (
            "Pooling",
            "pooling_param { kernel_size: 2 pad: 2 }",
            "pooling_param.pad is not smaller than the kernel",
        ),
        ("LRN", "lrn_param { local_size: 4 }", "lrn_param.local_size is even"),
        ("Flatten", "flatten_param { axis: 2 end_axis: 1 }", "end_axis lies before axis"),
        ("Softmax", "softmax_param { axis: 4 }", "axis is 4, the blob has 4 axes"),
        (
            "Reshape",
            "reshape_param { shape { dim: inf } }",
            "reshape_param.dim: 'inf' is not a 64-bit integer",
        ),
    ],
)
def test_parameters_that_caffe_refuses_have_no_shape(kind, body, told):
    with pytest.raises(InputError, match=r"layer l \(%s\).*%s" % (kind, told)):
        shapes(kind, body, (2, 4, 6, 5))


def test_mvn_has_four_axes_at_most():
    """Its means are a blob of num, channels, 1 and 1, of which older blobs alone have the first."""
    assert shapes("MVN", "", (2, 4)) == [(2, 4)]
    with pytest.raises(InputError, match=r"\(MVN\): its bottom must have four axes at most"):
        shapes("MVN", "", (1, 2, 3, 4, 5))


def test_a_window_that_begins_behind_its_bottom_counts_without_a_pad():
    """As in Caffe, whose loops then meet no number of the bottom."""
    for pool in ("MAX", "AVE"):
        body = "pooling_param { pool: %s kernel_size: 1 stride: 2 }" % pool
        assert shapes("Pooling", body, (2, 4, 6, 5)) == [(2, 4, 4, 3)]


def test_a_layer_without_a_shape_rule_is_refused():
    for kind in ("PriorBox", "Python", "Proposal", "ROIPooling"):
        with pytest.raises(
            InputError, match=r"layer l \(%s\): the shapes of its tops are not known" % kind
        ):
            shapes(kind, "", (1, 4, 3, 2), (1, 4, 3, 2))


def test_top_shapes_of_branch_layers_are_known_without_running():
    assert shapes("Permute", "permute_param { order: 0 order: 2 }", (1, 4, 3, 2)) == [(1, 3, 4, 2)]
    assert shapes("Axpy", "", (1, 4), (1, 4, 3, 2), (1, 4, 3, 2)) == [(1, 4, 3, 2)]
    body = "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 4 }"
    assert shapes("DepthwiseConvolution", body, (1, 4, 5, 6)) == [(1, 4, 3, 3)]
    for rounded, size in (("", 3), ("ceil_mode: false", 2), ("round_mode: FLOOR", 2)):
        assert shapes(
            "Pooling", "pooling_param { kernel_size: 2 stride: 2 %s }" % rounded, (1, 4, 5, 5)
        ) == [(1, 4, size, size)]
