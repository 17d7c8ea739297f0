"""`golden caffe dump` with the numpy backend: whole nets, where weights come from, the user's own
layers, the check by another backend.
"""

from __future__ import annotations

import sys

import fake_h5py
import numpy as np
import pytest
from caffe_formulas import INPUT, X, manifest_of, values_of

from goldwatch.adapters.caffe.dump import DumpOptions, dump
from goldwatch.base.errors import EnvironmentProblem, FormatError, InputError, UsageError
from goldwatch.base.protowire import field, varint
from goldwatch.netfiles.caffemodel import StoredWeights, read_weights, weight_shapes, write_weights

pytestmark = pytest.mark.usefixtures("numpy_in_process")

CONV = (
    'layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { '
    "num_output: 3 kernel_size: 3 } }\n"
    'layer { name: "r" type: "ReLU" bottom: "c" top: "c" }\n'
)


def written(path, text):
    path.write_text(text)
    return str(path)


def run(tmp_path, text, weights=None, out="o", **options):
    """Dump a net; X stands beside it as x.npy. Asked for, the backend is not looked for."""
    np.save(str(tmp_path / "x.npy"), X)
    options.setdefault("backend", "numpy")
    options.setdefault("inputs", ["x=%s" % (tmp_path / "x.npy")])
    result = dump(
        DumpOptions(written(tmp_path / "n.prototxt", text), weights, str(tmp_path / out), **options)
    )
    return result, values_of(tmp_path / out)


def test_resblock_outputs_equal_those_of_real_caffe(resblock, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    files = resblock("resblock.prototxt"), resblock("resblock.caffemodel")
    specs = ["data=" + resblock("input_data.npy")]
    result = dump(DumpOptions(*files, str(tmp_path / "golden"), specs, python=sys.executable))
    expected = np.load(resblock("expected_layer_outputs.npz"))
    values = values_of(tmp_path / "golden")
    assert {"%s:%d" % key for key in values} == {
        key for key in expected.files if "_split" not in key
    }
    for (name, index), value in values.items():
        truth = expected["%s:%d" % (name, index)]
        assert value.dtype == np.float32 and value.shape == truth.shape
        assert np.abs(value - truth).max() <= 4e-6 * np.abs(truth).max(), name
    manifest = manifest_of(tmp_path / "golden")
    assert manifest["backend"] == result["backend"] == "numpy"
    assert np.__version__ in manifest["backend_version"]
    # The choice is told in one line, and in the manifest.
    assert manifest["backend_reason"].startswith(
        "Caffe was not used: no module caffe in %s" % sys.executable
    )
    assert (
        result["notes"] == ["backend numpy: " + manifest["backend_reason"]]
        and "\n" not in result["notes"][0]
    )
    dump(DumpOptions(*files, str(tmp_path / "asked"), specs, backend="numpy"))
    assert manifest_of(tmp_path / "asked")["backend_reason"] == "it was asked for"


def test_in_place_layers_are_computed_for_each_batch(tmp_path, caffemodel):
    w, b = np.random.RandomState(4).standard_normal((3, 4, 3, 3)), np.arange(3)
    model = caffemodel(tmp_path / "w.caffemodel", [("c", "Convolution", [w, b])])
    (tmp_path / "many").mkdir()
    for number in range(2):
        np.save(str(tmp_path / "many" / ("%d.npy" % number)), X * (number + 1))
    net = written(tmp_path / "n.prototxt", INPUT + CONV)
    dump(
        DumpOptions(
            net, model, str(tmp_path / "o"), ["x=%s" % (tmp_path / "many")], backend="numpy"
        )
    )
    for number in range(2):
        values = values_of(tmp_path / "o" / str(number))
        assert (values["c", 0] < 0).any()
        np.testing.assert_array_equal(values["r", 0], np.maximum(values["c", 0], 0))
        np.testing.assert_array_equal(values["x", 0], X * (number + 1))


def test_a_net_without_weights_needs_no_caffemodel(tmp_path):
    values = run(tmp_path, INPUT + 'layer { name: "r" type: "ReLU" bottom: "x" top: "r" }\n')[1]
    np.testing.assert_array_equal(values["r", 0], np.maximum(X, 0))


def test_random_weights_depend_on_the_seed_and_on_the_numpy_backend(tmp_path, caffemodel):
    text = INPUT + CONV + 'layer { name: "s" type: "Scale" bottom: "c" top: "s" }\n'
    with pytest.raises(UsageError, match="no weights") as caught:
        run(tmp_path, text)
    assert "random_weights=SEED" in caught.value.hint
    first, second, other = (
        run(tmp_path, text, out=out, random_weights=seed)[1]
        for out, seed in (("a", 7), ("b", 7), ("c", 8))
    )
    assert all((first[key] == second[key]).all() for key in first)
    assert first["c", 0].any() and first["s", 0].any() and (first["c", 0] != other["c", 0]).any()
    manifest = manifest_of(tmp_path / "a")
    assert (
        manifest["source"]["random_weights"] == 7
        and "weights" not in manifest["source"]
        and "weights" not in manifest["original"]
    )
    # Those of a file count, the rest is made up.
    model = caffemodel(tmp_path / "w.caffemodel", [("s", "Scale", [np.zeros(3)])])
    mixed = run(tmp_path, text, model, "d", random_weights=7)[1]
    np.testing.assert_array_equal(mixed["c", 0], first["c", 0])
    assert not mixed["s", 0].any()
    with pytest.raises(InputError, match="no weights for layer c"):
        run(tmp_path, text, model, "e", backend="numpy")
    with pytest.raises(UsageError, match="`random_weights` is for the numpy backend"):
        run(tmp_path, text, out="f", random_weights=7, backend="caffe")
    with pytest.raises(UsageError, match="there is no backend 'opencv'") as caught:
        run(tmp_path, text, model, "f", backend="opencv")
    assert caught.value.hint == "one of auto, caffe, numpy"


@pytest.mark.parametrize(
    ("filler", "check"),
    [
        ("constant' value: 2", lambda w: (w == 2).all()),
        ("uniform' min: 3 max: 4", lambda w: 3 <= w.min() < w.max() <= 4),
        ("gaussian' mean: 5 std: 0.1", lambda w: abs(w.mean() - 5) < 0.1),
        ("xavier", lambda w: 0.2 < np.abs(w).max() <= np.sqrt(3 / 36)),
        ("msra", lambda w: abs(w.std() - np.sqrt(2 / 36)) < 0.05),
        ("positive_unitball", lambda w: np.allclose(w.reshape(8, -1).sum(1), 1) and w.min() >= 0),
    ],
)
def test_weight_fillers_fill_as_caffe_defines(tmp_path, filler, check):
    """A one in the middle of nothing shows the filter."""
    quoted = filler if "'" in filler else filler + "'"
    body = (
        "convolution_param { num_output: 8 kernel_size: 3 bias_term: false weight_filler { "
        "type: '%s } }" % quoted
    )
    text = INPUT + 'layer { name: "c" type: "Convolution" bottom: "x" top: "c" %s }\n' % body
    one = []
    for channel in range(4):
        x = np.zeros((2, 4, 6, 5), np.float32)
        x[0, channel, 2, 2] = 1
        np.save(str(tmp_path / "one.npy"), x)
        values = run(
            tmp_path, text, random_weights=1, inputs=["x=%s" % (tmp_path / "one.npy")], force=True
        )[1]
        one.append(values["c", 0][0, :, :3, :3])
    assert check(np.stack(one, 1))


def test_layers_that_share_weights_by_name_compute_with_them(tmp_path, caffemodel):
    param = (
        'param { name: "w" } param { name: "b" } convolution_param { num_output: 4 kernel_size: 1 }'
    )
    text = INPUT + "".join(
        'layer { name: "%s" type: "Convolution" bottom: "x" top: "%s" %s }\n' % (n, n, param)
        for n in "cd"
    )
    model = caffemodel(
        tmp_path / "w.caffemodel",
        [("c", "Convolution", [np.random.RandomState(1).rand(4, 4, 1, 1), np.ones(4)])],
    )
    values = run(tmp_path, text, model, backend="numpy")[1]
    np.testing.assert_array_equal(values["c", 0], values["d", 0])


ANCHORS = """
import numpy as np
def Anchors(bottoms, blobs, parameters, name):
    return np.float32(parameters["biases"] + [parameters["number"]] + [box["side"] for box in parameters["box"]])
"""  # noqa: E501


def test_repeated_fields_of_a_users_layer_type_are_lists(tmp_path):
    body = "anchors_param { biases: 4 biases: 7.5 number: 3 box { side: 1 } box { side: 2 } }"
    text = INPUT + 'layer { name: "p" type: "Anchors" bottom: "x" top: "p" %s }\n' % body
    spec = "Anchors=" + written(tmp_path / "own.py", ANCHORS)
    np.testing.assert_array_equal(
        run(tmp_path, text, layer_files=[spec])[1]["p", 0], [4, 7.5, 3, 1, 2]
    )


OWN = """import numpy as np

def Double(bottoms, blobs, parameters, name):
    print("doubled", name)
    return [bottoms[0] * parameters.get("factor", 2), bottoms[0].astype(np.float64) + len(blobs)]
"""


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ('type: "Faces" bottom: "x" top: "q"', r"layer p \(Faces\): the type is not known"),
        (
            'type: "Python" bottom: "x" top: "q"',
            r"layer p \(Python\): its code is Python of its own",
        ),
        (
            'type: "ReLU6" bottom: "x" top: "q" power_param { power: 2 }',
            r"parameter power_param \(line 2\) is not known",
        ),
        (
            'type: "Dropout" bottom: "x" top: "p" dropout_param { sample_weights_test: true }',
            "sample_weights_test .line 2. draws other values",
        ),
    ],
)
def test_a_layer_that_cannot_be_computed_is_refused_with_the_reason(tmp_path, layer, told):
    with pytest.raises(InputError, match=told):
        run(tmp_path, INPUT + 'layer { name: "p" %s }\n' % layer, random_weights=1)


def test_a_users_layer_file_computes_an_unknown_type(tmp_path, caffemodel):
    text = (
        INPUT + 'layer { name: "p" type: "Double" bottom: "x" top: "p" top: "q" double_param { '
        "factor: 3 } }\n"
    )
    with pytest.raises(InputError, match=r"layer p \(Double\): the type is not known") as caught:
        run(tmp_path, text, caffemodel(tmp_path / "w.caffemodel", []), backend="numpy")
    assert "layer=TYPE=FILE.py" in caught.value.hint
    model = caffemodel(tmp_path / "w.caffemodel", [("p", "Double", [np.ones(2)])])
    spec = "Double=" + written(tmp_path / "own.py", OWN)
    result, values = run(tmp_path, text, model, layer_files=[spec], backend="auto")
    np.testing.assert_array_equal(values["p", 0], X * 3)
    np.testing.assert_array_equal(values["p", 1], X + 1)
    assert list(manifest_of(tmp_path / "o")["source"]["layers"]) == ["Double"]
    assert values["p", 1].dtype == np.float32 and result["notes"] == [
        "backend numpy: it alone computes layers of one's own"
    ]
    # One function for whatever type, and what it fails of.
    generic = OWN.replace("Double", "forward")
    written(tmp_path / "own.py", generic)
    np.testing.assert_array_equal(
        run(tmp_path, text, model, "g", layer_files=[spec])[1]["p", 0], X * 3
    )
    for code, told in (
        ("def forward(*_):\n    raise ValueError('seven')\n", r"ValueError: seven \(line 2\)"),
        ("import os\ndef forward(*_):\n    os._exit(3)\n", r"exit code 3"),
        ("def forward(bottoms, *_):\n    return bottoms[0]\n", "has 2 tops, its rule makes 1"),
        ("def forward(bottoms, *_):\n    return bottoms * 3\n", "has 2 tops, its rule makes 3"),
        ("def forward(*_):\n    pass\n", "TypeError: it returned NoneType"),
        (
            "def forward(bottoms, *_):\n    return [bottoms[0] * 1j] * 2\n",
            "TypeError: it returned complex numbers",
        ),
    ):
        written(tmp_path / "own.py", code)
        with pytest.raises(InputError, match=r"layer p \(Double\).*" + told):
            run(tmp_path, text, model, "h", layer_files=[spec], force=True)
    for wrong in (["Double"], ["Double=own.txt"], [spec, spec]):
        with pytest.raises(UsageError, match="`layer`"):
            run(tmp_path, text, model, "i", layer_files=wrong)
    with pytest.raises(UsageError, match="`layer`: the net has no layer of type Dubble") as caught:
        run(tmp_path, text, model, "i", layer_files=[spec, spec.replace("Double=", "Dubble=")])
    assert caught.value.hint.endswith("this one's are Double, Input")


def test_what_a_users_layer_prints_goes_to_stderr(tmp_path, capfd):
    text = INPUT + 'layer { name: "p" type: "Double" bottom: "x" top: "p" top: "q" }\n'
    run(tmp_path, text, layer_files=["Double=" + written(tmp_path / "own.py", OWN)])
    assert capfd.readouterr() == ("", "doubled p\n")


def test_parameters_without_effect_change_no_result(tmp_path):
    """A layer of BVLC's reads its own parameters alone, and a branch's field may say what BVLC's
    Caffe does anyway.
    """
    text = (
        INPUT
        + 'layer { name: "p" type: "Pooling" bottom: "x" top: "p" pooling_param { kernel_size: '
        "2 } %s }\n"
    )
    text += (
        'layer { name: "d" type: "Dropout" bottom: "p" top: "d" dropout_param { '
        "sample_weights_test: false } }\n"
    )
    plain, more = (
        run(tmp_path, text % "")[1],
        run(tmp_path, text % "convolution_param { pad: 1 } loss_param { }", out="more")[1],
    )
    np.testing.assert_array_equal(plain["d", 0], more["d", 0])


DATA = (
    'layer { name: "d" type: "Data" top: "x" top: "label" include { phase: TEST } '
    "transform_param { crop_size: 6 } "
    "data_param { source: 'nowhere' batch_size: 2 } }\n"
    'layer { name: "f" type: "Flatten" bottom: "x" top: "f" }\n'
    'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "f" bottom: "label" top: "loss" }\n'
    'layer { name: "acc" type: "Accuracy" bottom: "f" bottom: "label" top: "acc" }\n'
)


def test_data_layers_are_inputs_of_the_net(tmp_path, caffemodel):
    model = caffemodel(tmp_path / "w.caffemodel", [])
    x = np.random.RandomState(1).standard_normal((2, 3, 6, 6)).astype(np.float32)
    np.save(str(tmp_path / "d.npy"), x)
    specs = ["x=%s" % (tmp_path / "d.npy")]
    _, values = run(tmp_path, DATA, model, inputs=specs, backend="numpy")
    assert set(values) == {("d", 0), ("f", 0)}
    skipped = {entry["tensor"]: entry["reason"] for entry in manifest_of(tmp_path / "o")["skipped"]}
    assert skipped == dict.fromkeys(
        ["d:1", "loss:0", "acc:0"], "there is no file for the data layer's blob label"
    )
    np.save(str(tmp_path / "l.npy"), x.reshape(2, -1).argmax(1))
    _, values = run(
        tmp_path,
        DATA,
        model,
        "p",
        inputs=specs + ["label=%s" % (tmp_path / "l.npy")],
        backend="numpy",
    )
    assert values["acc", 0] == 1 and values["acc", 0].shape == () and values["loss", 0] > 0
    # The crop and the batch tell the shape of what is filled at random.
    assert run(tmp_path, DATA, model, "q", inputs=(), seed=1, backend="numpy")[1]["f", 0].shape == (
        2,
        108,
    )


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (
            "ImageData' image_data_param { batch_size: 2 new_height: 5 new_width: 4 is_color: "
            "false }",
            (2, 1, 5, 4),
        ),
        (
            "ImageData' image_data_param { batch_size: 2 new_height: 5 new_width: 4 } "
            "transform_param { crop_size: 3 }",
            (2, 3, 3, 3),
        ),
        (
            "MemoryData' memory_data_param { batch_size: 2 channels: 2 height: 3 width: 4 }",
            (2, 2, 3, 4),
        ),
        (
            "AnnotatedData' transform_param { resize_param { height: 5 width: 4 } } "
            "annotated_data_param { label_map_file: 'l' } "
            "data_param { batch_size: 2 }",
            (2, 3, 5, 4),
        ),
        (
            "ImageSegData' image_data_param { batch_size: 2 label_type: PIXEL } "
            "transform_param { crop_size: 5 }",
            (2, 3, 5, 5),
        ),
        (
            "DenseImageData' dense_image_data_param { batch_size: 1 new_height: 5 new_width: 4 }",
            (1, 3, 5, 4),
        ),
    ],
)
def test_shapes_of_data_layers_come_from_their_parameters(tmp_path, caffemodel, layer, shape):
    """What the layer says of its pictures is the shape; a mean file, which only pictures need, may
    be missing.
    """
    text = (
        "layer { name: 'd' top: 'x' top: 'label' type: '%s }\nlayer { name: 'r' type: 'ReLU' "
        "bottom: 'x' top: 'r' }\n" % layer
    )
    model = caffemodel(tmp_path / "w.caffemodel", [])
    assert run(tmp_path, text, model, inputs=(), seed=1, backend="numpy")[1]["r", 0].shape == shape
    text += (
        "layer { name: 'i' type: 'Input' top: 'i' transform_param { mean_file: 'nowhere' } "
        "input_param { shape { dim: 1 dim: 2 } } }\n"
    )
    np.save(str(tmp_path / "i.npy"), np.ones((1, 2), np.float32))
    specs = ["i=%s" % (tmp_path / "i.npy")]
    _, values = run(tmp_path, text, model, "m", inputs=specs, seed=1)
    assert (values["i", 0] == 1).all()


def test_data_layers_of_branches_are_inputs_of_the_net(tmp_path):
    """Whatever a layer without bottoms is called, it reads or makes data; its files may have other
    shapes than its parameters tell.
    """
    relu = 'layer { name: "r" type: "ReLU" bottom: "x" top: "r" }\n'
    for layer in (
        "Python' python_param { module: 'faces' layer: 'Faces' }",
        "RoIData'",
        "VideoData' video_data_param { batch_size: 9 }",
    ):
        text = "layer { name: 'd' top: 'x' top: 'label' type: '%s }\n" % layer + relu
        kind = layer.split("'")[0]
        with pytest.raises(
            UsageError,
            match=r"no file for the net's input x \(which layer d of type %s would read\)$" % kind,
        ):
            run(tmp_path, text, inputs=())
        (tmp_path / "x.png").write_bytes(b"")
        with pytest.raises(
            InputError, match="an image cannot fill an input whose shape the prototxt does not tell"
        ):
            run(tmp_path, text, out="r", inputs=["x=%s" % (tmp_path / "x.png")])
        with pytest.raises(
            UsageError,
            match=r"input x \(which layer d of .* would read\) has no shape in the prototxt",
        ):
            run(tmp_path, text, out="r", inputs=(), seed=1)
        np.testing.assert_array_equal(run(tmp_path, text, force=True)[1]["r", 0], np.maximum(X, 0))
    text = (
        'layer { name: "d" type: "Data" top: "x" transform_param { crop_size: 227 } data_param { '
        "batch_size: 1 } }\n"
    )
    assert run(tmp_path, text + relu, out="other")[1]["r", 0].shape == X.shape
    np.save(str(tmp_path / "one.npy"), np.zeros((3, 227, 227), np.float32))
    one = ["x=%s" % (tmp_path / "one.npy")]
    assert run(tmp_path, text + relu, out="one", inputs=one)[1]["r", 0].shape == (1, 3, 227, 227)


def test_a_data_layers_further_tops_are_inputs_if_the_net_reads_them(tmp_path):
    text = (
        'layer { name: "d" type: "HDF5Data" top: "x" top: "y" top: "label" hdf5_data_param { '
        'source: "s" batch_size: 2 } }\n'
    )
    text += 'layer { name: "e" type: "Eltwise" bottom: "x" bottom: "y" top: "e" }\n'
    text += 'layer { name: "l" type: "EuclideanLoss" bottom: "e" bottom: "label" top: "l" }\n'
    with pytest.raises(UsageError, match="no file for the net's input y "):
        run(tmp_path, text)
    np.save(str(tmp_path / "y.npy"), X)
    _, values = run(
        tmp_path, text, inputs=["%s=%s" % (blob, tmp_path / (blob + ".npy")) for blob in "xy"]
    )
    np.testing.assert_array_equal(values["e", 0], X + X)
    assert set(values) == {("d", 0), ("d", 1), ("e", 0)}


def test_a_layer_that_reads_labels_alone_may_be_of_unknown_type(tmp_path):
    """The SSD branch's DetectionEvaluate, for instance, which is not run without labels."""
    text = (
        DATA
        + 'layer { name: "v" type: "DetectionEvaluate" bottom: "f" bottom: "label" top: "v" }\n'
    )
    np.save(str(tmp_path / "l.npy"), [0, 1])
    specs = ["x=%s" % (tmp_path / "x.npy")]
    assert set(run(tmp_path, text, inputs=specs)[1]) == {("d", 0), ("f", 0)}
    with pytest.raises(InputError, match=r"layer v \(DetectionEvaluate\): the type is not known"):
        run(tmp_path, text, inputs=specs + ["label=%s" % (tmp_path / "l.npy")], out="p")


@pytest.mark.parametrize(
    "sizes",
    ["shape { dim: 2 dim: 3 } shape { dim: 2 dim: 3 }", "num: 2 channels: 3 height: 1 width: 1"],
)
def test_dummy_data_is_filled_or_asked_for_as_input(tmp_path, sizes):
    """One value is what Caffe fills it with; random numbers are an input."""
    fillers = "data_filler { value: 2.5 } data_filler { type: 'gaussian' }"
    text = "layer { name: 'd' type: 'DummyData' top: 'x' %s dummy_data_param { %s %s } }\n"
    text += "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' }\n"
    values = run(tmp_path, text % ("", sizes.split(" shape")[0], fillers[:26]), inputs=())[1]
    assert values["r", 0].size == 6 and (values["r", 0] == 2.5).all()
    values = run(tmp_path, text % ("", sizes.split(" shape")[0], ""), out="p", seed=3, inputs=())[1]
    assert not values["r", 0].any()
    both = (
        text % ("top: 'y'", sizes, fillers)
        + "layer { name: 'e' type: 'Eltwise' bottom: 'r' bottom: 'y' top: 'e' }"
    )
    with pytest.raises(UsageError, match="no file for the net's input y "):
        run(tmp_path, both, out="q", inputs=())
    assert len(np.unique(run(tmp_path, both, out="q", seed=3, inputs=())[1]["e", 0])) == 6


def test_random_regions_words_and_continuation_flags_are_valid(tmp_path):
    """Not any number is the number of a picture or of a row: random inputs are such that the net
    can be tried.
    """
    text = (
        'input: "x" input_shape { dim: 1 dim: 8 dim: 14 dim: 14 } input: "rois" input_shape { '
        "dim: 9 dim: 5 }\n"
    )
    text += (
        'input: "words" input_shape { dim: 3 dim: 2 } input: "cont" input_shape { dim: 3 dim: 2 }\n'
    )
    text += 'layer { name: "p" type: "PSROIPooling" bottom: "x" bottom: "rois" top: "p" '
    text += "psroi_pooling_param { spatial_scale: 0.0625 output_dim: 2 group_size: 2 } }\n"
    text += 'layer { name: "q" type: "ROIPooling" bottom: "x" bottom: "rois" top: "q" '
    text += "roi_pooling_param { pooled_h: 1 pooled_w: 1 spatial_scale: 0.03125 } }\n"
    text += (
        'layer { name: "e" type: "Embed" bottom: "words" top: "e" embed_param { input_dim: 7 '
        "num_output: 4 } }\n"
    )
    text += (
        'layer { name: "l" type: "LSTM" bottom: "e" bottom: "cont" top: "l" recurrent_param { '
        "num_output: 5 } }\n"
    )
    _, values = run(tmp_path, text, inputs=(), seed=2, random_weights=2)
    rois = values["rois", 0]
    assert (
        not rois[:, 0].any()
        and (rois[:, 3:] >= rois[:, 1:3]).all()
        and rois.min() >= 0
        and 12 * 8 < rois.max() < 14 * 16
    )
    assert (values["p", 0] != 0).any() and set(np.unique(values["cont", 0])) == {0, 1}
    words = values["words", 0]
    assert (
        (words == np.floor(words)).all()
        and words.min() >= 0
        and words.max() < 7
        and values["l", 0].shape == (3, 2, 5)
    )


def _v0(name, blobs):
    old = b"".join(
        field(number, size) for number, size in zip((1, 2, 3, 4), (1, 1) + blobs[0].shape)
    )
    body = (
        field(1, name)
        + field(2, b"innerproduct")
        + field(50, old + field(5, blobs[0].astype("<f4").tobytes()))
    )
    return field(2, field(1, body))


def test_layers_of_branches_in_v1_nets_are_computed(tmp_path):
    """DeconvNet's and DeepLab's nets are of the V1 form; what only writes files computes
    nothing.
    """
    text = 'input: "x" input_dim: 2 input_dim: 4 input_dim: 6 input_dim: 5\n'
    text += 'layers { name: "b" type: BN bottom: "x" top: "b" bn_param { bn_mode: INFERENCE } }\n'
    text += (
        'layers { name: "i" type: INTERP bottom: "b" top: "i" strict_dim: false interp_param { '
        "zoom_factor: 2 } }\n"
    )
    text += 'layers { name: "m" type: MAT_WRITE bottom: "i" mat_write_param { prefix: "m" } }\n'
    result, values = run(tmp_path, text, random_weights=1, backend="numpy")
    assert values["i", 0].shape == (2, 4, 11, 9) and result["notes"] == []
    assert {"tensor": "m", "reason": "the layer has no top"} in manifest_of(tmp_path / "o")[
        "skipped"
    ]


def test_a_v0_net_with_v0_weights_is_computed(tmp_path):
    w = np.random.RandomState(3).standard_normal((5, 120)).astype(np.float32)
    (tmp_path / "v0.caffemodel").write_bytes(_v0(b"fc", [w]))
    head = 'input: "x" input_dim: 2 input_dim: 4 input_dim: 6 input_dim: 5\n'
    body = 'layer { name: "fc" type: "innerproduct" num_output: 5 biasterm: false }'
    text = (
        head + 'layers { %s bottom: "x" top: "fc" }\nlayers { layer { name: "r" type: "relu" } '
        'bottom: "fc" top: "fc" }\n' % body
    )
    _, values = run(tmp_path, text, str(tmp_path / "v0.caffemodel"))
    right = X.reshape(2, -1).astype(np.float64) @ w.T
    assert np.abs(values["fc", 0] - right).max() <= 4e-6 * np.abs(right).max()
    np.testing.assert_array_equal(values["r", 0], np.maximum(values["fc", 0], 0))


def test_weights_of_old_files_in_doubles_and_in_hdf5_are_read(tmp_path):
    """The oldest nets have a layer inside of a connection; a net of doubles has its data in another
    field; HDF5 is a form of its own.
    """
    w = np.random.RandomState(2).standard_normal((5, 120)).astype(np.float32)
    body = "inner_product_param { num_output: 5 bias_term: false }"
    text = INPUT + 'layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" %s }\n' % body
    (tmp_path / "v0.caffemodel").write_bytes(_v0(b"fc", [w]))
    assert weight_shapes(str(tmp_path / "v0.caffemodel")) == {"fc": [(1, 1, 5, 120)]}
    wide = field(7, field(1, varint(5) + varint(120))) + field(8, w.astype("<f8").tobytes())
    (tmp_path / "double.caffemodel").write_bytes(field(100, field(1, b"fc") + field(7, wide)))
    right = X.reshape(2, -1).astype(np.float64) @ w.T
    for number, name in enumerate(("v0.caffemodel", "double.caffemodel")):
        made = run(tmp_path, text, str(tmp_path / name), "o%d" % number, backend="numpy")[1][
            "fc", 0
        ]
        assert np.abs(made - right).max() <= 4e-6 * np.abs(right).max()
    write_weights(str(tmp_path / "again.caffemodel"), [("fc", "InnerProduct", [w])])
    np.testing.assert_array_equal(read_weights(str(tmp_path / "again.caffemodel"))["fc"][0], w)
    stored = StoredWeights(str(tmp_path / "again.caffemodel"))
    np.testing.assert_array_equal(stored("fc")[0], w)
    assert stored("other") is None
    (tmp_path / "wrong.caffemodel").write_bytes(_v0(b"fc", [w[:4]]))
    with pytest.raises(
        InputError,
        match=r"layer fc \(InnerProduct\) has weights of shape \[1, 1, 4, 120\], the net needs "
        r"\[5, "
        r"120\]",
    ):
        run(tmp_path, text, str(tmp_path / "wrong.caffemodel"), "w", backend="numpy")


def test_hdf5_weights_need_h5py_and_share_by_name(tmp_path, monkeypatch):
    path = fake_h5py.write(tmp_path / "w.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        EnvironmentProblem, match="HDF5 weights, and h5py cannot be imported"
    ) as caught:
        StoredWeights(path)
    assert "pip install h5py" in caught.value.hint
    module = fake_h5py.module_of(
        {"a": [np.zeros((2, 3)), np.ones(2)], "a/b": [np.full(4, 7.0)], "a/c": []}
    )
    monkeypatch.setitem(sys.modules, "h5py", module)
    stored = StoredWeights(path)
    assert [array.shape for array in stored("a")] == [(2, 3), (2,)]
    np.testing.assert_array_equal(stored("a/b")[0], np.full(4, 7, np.float32))
    assert stored("a/c") is None and stored("z") is None
    assert {name: len(blobs) for name, blobs in read_weights(path).items()} == {"a": 2, "a/b": 1}
    module.File = staticmethod(lambda name, mode: {})
    with pytest.raises(FormatError, match="no HDF5 weights of Caffe"):
        StoredWeights(path)


def test_check_backend_compares_with_a_second_backend(tmp_path, monkeypatch, standin_path):
    text = INPUT + "".join(
        'layer { name: "%s" type: "%s" bottom: "%s" top: "%s" }\n' % (name, kind, bottom, name)
        for name, kind, bottom in (("r", "ReLU", "x"), ("s", "Sigmoid", "r"))
    )
    options = {"check_backend": "caffe", "random_weights": 3, "python": sys.executable}
    monkeypatch.delenv("PYTHONPATH", raising=False)
    result, _ = run(tmp_path, text, out="a", **options)
    refused = "no backend to run the model: no module caffe in %s" % sys.executable
    assert result["check"]["refused"] == refused
    assert result["notes"] == ["not checked with backend caffe: " + refused]
    monkeypatch.setenv("PYTHONPATH", standin_path)
    result, _ = run(tmp_path, text, out="b", **options)
    found = result["check"]["runs"][0]
    assert found["tensors"] == 3 and found["equal"] >= 2 and found["largest"] < 4e-6
    assert not found["shapes"] + found["not_finite"]
    assert result["notes"][0].startswith("checked with backend caffe 1.0.0: 3 tensors, ")
    # What the other backend does not have is its own message.
    tile = 'layer { name: "t" type: "Tile" bottom: "x" top: "t" tile_param { tiles: 2 } }\n'
    result, values = run(tmp_path, INPUT + tile, out="c", **options)
    assert values["t", 0].shape == (2, 8, 6, 5)
    assert "Unknown layer type: Tile" in result["check"]["refused"]
    with pytest.raises(UsageError, match="`check_backend` is the backend numpy itself"):
        run(tmp_path, text, out="d", **dict(options, check_backend="numpy"))


def test_values_that_differ_between_backends_are_named(tmp_path):
    from goldwatch.adapters.caffe.dump import check_sentence, compare_runs

    for out in "ab":
        run(tmp_path, INPUT + CONV, out=out, random_weights=3)
    entries = {
        entry["original_name"]: entry["file"] for entry in manifest_of(tmp_path / "b")["tensors"]
    }
    c, r, x = (np.load(str(tmp_path / "b" / entries[name])) for name in "crx")
    c.flat[5] += np.abs(c).max()
    r.flat[7] = np.nan
    np.save(str(tmp_path / "b" / entries["c"]), c)
    np.save(str(tmp_path / "b" / entries["r"]), r)
    np.save(str(tmp_path / "b" / entries["x"]), x[:1])
    found = compare_runs(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (found["tensors"], found["equal"], found["tensor"], found["not_finite"]) == (
        3,
        0,
        "c:0",
        ["r:0"],
    )
    assert 0.3 < found["largest"] <= 1 and found["shapes"] == [
        "x:0 [2, 4, 6, 5] against [1, 4, 6, 5]"
    ]
    told = check_sentence("caffe", "1.0.0", found)
    assert (
        "(c:0)" in told
        and "other shapes: x:0" in told
        and "NaN or infinities at other places: r:0" in told
    )
