"""A prototxt cut as text: remaining parts keep the source's bytes."""

from __future__ import annotations

import pytest

from goldwatch.base.errors import InputError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt_cut import cut_net
from goldwatch.netfiles.prototxt_edits import Document

NET = """# head
name: "n"  force_backward: true
input: "data"
input_dim: 1
input_dim: 2
input_dim: 3
input_dim: 4
layer { name: "a" type: "Custom" bottom: "data" top: "a" strange_param { x < y: [1, 2] > } }
# between
layer {
  name: "noise" type: "Noise" top: "noise" include { phase: TRAIN }
}
layer {
  name: "b" # inside
  type: "ReLU" bottom: "a" top: "a"
}   # behind
layer { name: "c" type: "Eltwise" bottom: "a" bottom: "data" top: "c" }
"""


def net(text):
    return Net(Document(text), State())


def test_a_cut_keeps_layers_comments_and_fields_as_written():
    text = cut_net(net(NET), [1], [("b_input_0", "a", (1, 2))])
    assert text == (
        '# head\nname: "n"  force_backward: true\n'
        "# between\n"
        'layer {\n  name: "b_input_0"\n  type: "Input"\n  top: "a"\n'
        "  input_param {\n    shape {\n      dim: 1\n      dim: 2\n    }\n  }\n}\n"
        'layer {\n  name: "b" # inside\n  type: "ReLU" bottom: "a" top: "a"\n}   # behind\n'
    )
    again = net(text)
    assert [layer.name for layer in again.layers] == ["b_input_0", "b"] and again.name == "n"


def test_a_cut_keeps_the_line_ends_of_the_source():
    text = cut_net(
        net(NET.replace("\n", "\r\n")), [2], [("c_input_0", "a", ()), ("c_input_1", "data", (5,))]
    )
    assert "\n" not in text.replace("\r\n", "") and "    shape {\r\n    }\r\n" in text
    assert [layer.name for layer in net(text).layers] == ["c_input_0", "c_input_1", "c"]


def test_layers_in_a_list_are_cut_one_by_one():
    entries = (
        'name: "a" type: "Input" top: "x"',
        'name: "b" type: "ReLU" bottom: "x" top: "b"',
        'name: "c" type: "ReLU" bottom: "b"',
    )
    text = cut_net(
        net("layer: [ %s ]" % ", ".join("{ %s }" % entry for entry in entries)),
        [1],
        [("b_input_0", "x", (1,))],
    )
    assert [(layer.name, layer.field.is_list) for layer in net(text).layers] == [
        ("b_input_0", False),
        ("b", True),
    ]


def test_a_cut_of_a_v1_net_gets_input_fields():
    v1 = (
        'layers { name: "a" type: RELU bottom: "x" top: "a" }\nlayers { name: "b" type: '
        'CONVOLUTION bottom: "a" top: "b" }\n'
    )
    text = cut_net(net('input: "x"\n' + v1), [1], [("b_input_0", "a", (1, 2))])
    assert text == 'input: "a"\ninput_shape {\n  dim: 1\n  dim: 2\n}\n' + v1.splitlines(True)[1]


def test_removed_fields_that_share_a_line_leave_no_blank_line():
    layer = 'layers { name: "a" type: RELU bottom: "x" top: "a" }\n'
    text = (
        'name: "n"\ninput: "x" input_dim: 1 input_dim: 2\n  input_dim: 3   input_dim: 4\n' + layer
    )
    assert (
        cut_net(net(text), [0], [("a_input_0", "x", (1,))])
        == 'name: "n"\ninput: "x"\ninput_shape {\n  dim: 1\n}\n' + layer
    )


def test_a_cut_whose_layers_would_read_another_version_of_a_blob_is_refused():
    with pytest.raises(InputError, match="layer c would read another version of blob a"):
        cut_net(net(NET), [0, 2], [("x", "data", (1,)), ("y", "a", (1,))])
    with pytest.raises(InputError, match="layer b would read"):
        cut_net(net(NET), [1], [])
