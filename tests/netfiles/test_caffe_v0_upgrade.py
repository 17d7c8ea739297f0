"""V0 nets upgraded to V1."""

from __future__ import annotations

import pytest

from goldwatch.base.errors import InputError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.caffe_params import parameters_of
from goldwatch.netfiles.caffe_v0_upgrade import upgraded
from goldwatch.netfiles.prototxt_edits import Document


def v0(name, kind, fields="", bottom="x", top=None):
    ends = "".join(
        ' %s: "%s"' % end for end in (("bottom", bottom), ("top", top or name)) if end[1]
    )
    return 'layers {\n  layer { name: "%s" type: "%s" %s }%s\n}\n' % (name, kind, fields, ends)


HEAD = (
    'name: "old" # the first net\ninput: "x"\ninput_dim: 1 input_dim: 2 input_dim: 8 input_dim: 8\n'
)
FILLER = 'weight_filler { type: "gaussian" std: 0.01 }'


def net(*layers):
    return Net(upgraded(Document(HEAD + "".join(layers))), State())


def test_v0_fields_become_the_parameters_of_their_layer_types():
    made = net(
        v0(
            "c",
            "conv",
            "num_output: 4 kernelsize: 3 stride: 2 pad: 1 group: 2 biasterm: false blobs_lr: "
            "1. blobs_lr: 2. " + FILLER,
        ),
        v0("p", "pool", "pool: AVE kernelsize: 2 stride: 2", "c"),
        v0("n", "lrn", "local_size: 3 alpha: 0.1 beta: 0.75 k: 2", "p"),
        v0("r", "relu", "", "n", "n"),
        v0("d", "dropout", "dropout_ratio: 0.4", "n", "n"),
        v0("f", "innerproduct", "num_output: 5", "n"),
        v0("j", "concat", "concat_dim: 0", "f"),
        v0("loss", "softmax_loss", "", "j"),
    )
    assert [
        layer.type for layer in made.layers
    ] == "Convolution Pooling LRN ReLU Dropout InnerProduct Concat SoftmaxWithLoss".split()
    assert [layer.name for layer in made.layers] == "c p n r d f j loss".split()
    assert made.layers[3].in_place(0) and made.name == "old" and made.inputs == ["x"]
    assert made.document.root.integers("input_dim") == [1, 2, 8, 8]
    parameters = {layer.name: parameters_of(layer.message) for layer in made.layers}
    filler = {"type": "gaussian", "std": 0.01}
    pair = {"kernel_size": [3], "stride": [2], "pad": [1]}
    assert parameters["c"] == dict(
        pair, num_output=4, group=2, bias_term=False, weight_filler=filler
    )
    assert parameters["p"] == {"pool": "AVE", "kernel_size": 2, "stride": 2}
    assert parameters["n"] == {"local_size": 3, "alpha": 0.1, "beta": 0.75, "k": 2}
    assert (parameters["f"], parameters["j"], parameters["loss"]) == (
        {"num_output": 5},
        {"concat_dim": 0},
        {},
    )


def test_v0_data_layers_keep_batch_and_crop():
    made = net(
        v0(
            "d",
            "images",
            "source: 'l.txt' batchsize: 3 cropsize: 6 scale: 0.5 new_height: 9 "
            "shuffle_images: true",
            "",
            "d",
        )
    )
    layer = made.layers[0]
    assert (
        layer.type == "ImageData"
        and layer.message.message("transform_param").integer("crop_size", 0) == 6
    )
    own = layer.message.message("image_data_param")
    assert (own.integer("batch_size", 0), own.integer("new_height", 0), own.text("shuffle")) == (
        3,
        9,
        "true",
    )


def test_a_v0_padding_layer_becomes_the_pad_of_its_reader():
    made = net(
        v0("q", "padding", "pad: 2"),
        v0("c", "conv", "num_output: 4 kernelsize: 5 pad: 7", "q"),
        v0("r", "relu", "", "c"),
    )
    assert [layer.name for layer in made.layers] == ["c", "r"]
    assert [value.text for value in made.layers[0].bottoms] == ["x"]
    assert parameters_of(made.layers[0].message)["pad"] == [2]


def test_a_v0_net_that_caffe_cannot_upgrade_is_refused():
    with pytest.raises(
        InputError,
        match=r"layer r \(relu\) of a V0 net has a field kernelsize, which its type does not know",
    ):
        net(v0("r", "relu", "kernelsize: 3"))
    with pytest.raises(InputError, match=r"layer r \(relu\) of a V0 net reads a padding layer"):
        net(v0("q", "padding", "pad: 2"), v0("r", "relu", "", "q"))


def test_newer_nets_are_not_changed():
    document = Document(HEAD + 'layers { name: "r" type: RELU bottom: "x" top: "r" }')
    assert upgraded(document) is document
