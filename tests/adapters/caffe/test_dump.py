"""``golden caffe dump`` with the numpy backend: what the manifest tells, refusals, names, batches,
interruption.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from caffe_formulas import INPUT, W, X, close, conv, manifest_of, values_of

from goldwatch.adapters.caffe.dump import DumpOptions, dump
from goldwatch.base.errors import FormatError, InputError, UsageError
from goldwatch.dumps.golden_set import GoldenSet

pytestmark = pytest.mark.usefixtures("numpy_in_process")


def test_the_manifest_names_the_files_that_golden_data_were_made_of(resblock, tmp_path):
    out = tmp_path / "golden"
    specs = ["data=" + resblock("input_data.npy")]
    result = dump(
        DumpOptions(
            resblock("resblock.prototxt"),
            resblock("resblock.caffemodel"),
            str(out),
            specs,
            backend="numpy",
        )
    )
    manifest = manifest_of(out)
    for role, name in (("prototxt", "resblock.prototxt"), ("weights", "resblock.caffemodel")):
        with open(resblock(name), "rb") as stream:
            assert manifest["source"][role] == hashlib.sha256(stream.read()).hexdigest()
    original = manifest["original"]
    assert (original["framework"], original["model"]["path"]) == (
        "caffe",
        os.path.abspath(resblock("resblock.prototxt")),
    )
    assert original["weights"] == {
        "path": os.path.abspath(resblock("resblock.caffemodel")),
        "sha256": manifest["source"]["weights"],
    }
    assert (
        original["model"]["sha256"] == manifest["source"]["prototxt"]
        and "not_finite" not in manifest
    )
    with open(resblock("input_data.npy"), "rb") as stream:
        assert manifest["source"]["inputs"] == {"data": hashlib.sha256(stream.read()).hexdigest()}
    by_name = {entry["original_name"]: entry for entry in manifest["tensors"]}
    assert [by_name["conv1_relu"][key] for key in ("layer", "top", "type")] == [
        "conv1_relu",
        "conv1",
        "ReLU",
    ]
    assert result["runs"][0]["counts"] == {"written": 26, "skipped": 0, "parked": 0, "hashed": 0}
    golden = GoldenSet(str(out))
    assert golden.find("slice", 1) is not None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_raw_input_with_its_shape_gives_the_same_result_as_npy(resblock, tmp_path, dtype):
    array = np.load(resblock("input_data.npy"))
    array.astype(dtype).tofile(str(tmp_path / "in.bin"))
    shape = ",".join(str(dim) for dim in array.shape)
    values = []
    for out, spec in (
        ("npy", resblock("input_data.npy")),
        ("raw", "%s:%s:%s" % (tmp_path / "in.bin", dtype, shape)),
    ):
        files = (
            resblock("resblock.prototxt"),
            resblock("resblock.caffemodel"),
            str(tmp_path / out),
        )
        dump(DumpOptions(*files, ["data=" + spec], backend="numpy"))
        values.append(values_of(tmp_path / out))
    assert len(values[0]) == 26 and all(
        np.array_equal(values[0][key], values[1][key]) for key in values[0]
    )
    with pytest.raises(InputError, match=r"input data has the shape \[1536\], the net expects"):
        dump(
            DumpOptions(
                *files[:2],
                str(tmp_path / "o"),
                ["data=%s:%s:%d" % (tmp_path / "in.bin", dtype, array.size)],
                backend="numpy",
            )
        )


OVERFLOWING = (
    INPUT
    + """
layer { name: "big" type: "Power" bottom: "x" top: "big" power_param { scale: 1e38 } }
layer { name: "more" type: "Power" bottom: "big" top: "big" power_param { scale: 100 } }
layer { name: "after" type: "AbsVal" bottom: "big" top: "after" }
layer { name: "beside" type: "AbsVal" bottom: "x" top: "beside" }
"""
)


def test_the_layer_that_first_overflows_is_named(caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(OVERFLOWING)
    weights = caffemodel(tmp_path / "n.caffemodel", [("none", "AbsVal", [np.ones(1)])])
    array = np.zeros(X.shape, np.float32)
    array.reshape(-1)[:3] = (1, -2, 0.001)
    np.save(str(tmp_path / "x.npy"), array)
    out = tmp_path / "golden"
    result = dump(
        DumpOptions(
            str(tmp_path / "n.prototxt"),
            weights,
            str(out),
            ["x=%s/x.npy" % tmp_path],
            backend="numpy",
        )
    )
    manifest = manifest_of(out)
    first = {"tensor": "more:0", "type": "Power", "nan": 0, "inf": 2, "elements": array.size}
    assert (
        manifest["not_finite"]
        == result["runs"][0]["not_finite"]
        == {"tensors": 2, "first": first, "ends_at": "after:0"}
    )
    assert {entry["original_name"] for entry in manifest["tensors"] if "not_finite" in entry} == {
        "more",
        "after",
    }
    assert any(
        "first at more:0 (Power): 2 infinite of %d values" % array.size in text
        for text in result["warnings"]
    )


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
"""  # noqa: E501
    % ("n" * 240)
)


@pytest.fixture
def names_net(caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(NAMES)
    return str(tmp_path / "n.prototxt"), caffemodel(
        tmp_path / "n.caffemodel", [("V", "Convolution", [np.ones((1, 4, 1, 1))])]
    )


def test_layer_names_are_sanitised_parked_or_hashed_with_a_mapping(names_net, tmp_path):
    out = tmp_path / "out"
    result = dump(DumpOptions(names_net[0], names_net[1], str(out), backend="numpy", seed=1))
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
    both = sorted(
        (entry["type"] for entry in manifest["tensors"] if entry["original_name"] == "dup")
    )
    assert both == ["AbsVal", "BNLL"]


def test_layers_to_dump_are_chosen_by_glob(names_net, tmp_path):
    out = tmp_path / "out"
    dump(
        DumpOptions(
            names_net[0], names_net[1], str(out), backend="numpy", seed=1, layers=["a?b,dup", "V"]
        )
    )
    manifest = manifest_of(out)
    assert sorted(entry["original_name"] for entry in manifest["tensors"]) == [
        "V",
        "a.b",
        "a/b",
        "dup",
        "dup",
    ]
    assert len(manifest["tensors"]) + len(manifest["skipped"]) == 12
    with pytest.raises(UsageError, match=r"no layer matches nope\*"):
        dump(
            DumpOptions(
                names_net[0],
                names_net[1],
                str(tmp_path / "o2"),
                backend="numpy",
                seed=1,
                layers=["nope*"],
            )
        )
    assert not (tmp_path / "o2").exists()


def test_a_v1_net_with_v1_weights_is_computed(caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(
        'input: "x" input_dim: 2 input_dim: 4 input_dim: 6 input_dim: 5\n'
        'layers { name: "c" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 1 '
        "convolution_param { num_output: 6 kernel_h: 3 kernel_w: 2 "
        "group: 2 bias_term: false } }\n"
        'layers { name: "r" type: 18 bottom: "c" top: "c" }\n'
    )
    model = caffemodel(tmp_path / "n.caffemodel", [("c", "", [W["conv"]])], v1=True)
    np.save(str(tmp_path / "x.npy"), X)
    dump(
        DumpOptions(
            str(tmp_path / "n.prototxt"),
            model,
            str(tmp_path / "o"),
            ["x=%s" % (tmp_path / "x.npy")],
            backend="numpy",
        )
    )
    values = values_of(tmp_path / "o")
    truth = conv(X, W["conv"], (1, 1), (0, 0), (1, 1), 2)
    close(values["c", 0], truth)
    close(values["r", 0], np.maximum(truth, 0))
    close(values["x", 0], X)
    entry = [
        entry for entry in manifest_of(tmp_path / "o")["tensors"] if entry["original_name"] == "x"
    ][0]
    assert (entry["layer"], entry["top"], entry["type"]) == ("", "x", "Input")


def test_weights_of_another_net_or_cut_short_are_refused(resblock, caffemodel, tmp_path):
    options = {"out": str(tmp_path / "o"), "seed": 1, "backend": "numpy"}
    model = caffemodel(
        tmp_path / "w.caffemodel", [("other", "Convolution", [np.ones((1, 1, 1, 1))])]
    )
    with pytest.raises(InputError, match="no weights for layer conv1, bn_conv1"):
        dump(DumpOptions(resblock("resblock.prototxt"), model, **options))
    with pytest.raises(FormatError, match="not a .caffemodel"):
        dump(DumpOptions(resblock("resblock.prototxt"), resblock("resblock.prototxt"), **options))
    with open(resblock("resblock.caffemodel"), "rb") as stream:
        data = stream.read()
    (tmp_path / "cut.caffemodel").write_bytes(data[:-100])
    with pytest.raises(InputError):
        dump(
            DumpOptions(resblock("resblock.prototxt"), str(tmp_path / "cut.caffemodel"), **options)
        )
    assert not (tmp_path / "o").exists()


CONV = '"Convolution" convolution_param { num_output: %d kernel_size: 3 }'


@pytest.mark.parametrize(
    ("body", "found", "told"),
    [
        (
            CONV % 2,
            [(2, 4, 3, 2), (2,)],
            "[2, 4, 3, 2] and [2], the net needs [2, 4, 3, 3] and [2]",
        ),
        (CONV % 2, [(2, 4, 3, 3)], "[2, 4, 3, 3], the net needs [2, 4, 3, 3] and [2]"),
        (
            CONV.replace("Conv", "Deconv") % 6 + " convolution_param { group: 2 bias_term: false }",
            [(4, 6, 3, 3)],
            "needs [4, 3, 3, 3]",
        ),
        (
            '"InnerProduct" inner_product_param { num_output: 3 axis: 2 bias_term: false }',
            [(3, 120)],
            "the net needs [3, 30]",
        ),
        ('"BatchNorm"', [(4,), (5,), (1,)], "the net needs [4] and [4] and [1]"),
        (
            '"Scale" scale_param { axis: 2 bias_term: true }',
            [(4,), (4,)],
            "the net needs [6] and [6]",
        ),
        ('"PReLU"', [(1,)], "the net needs [4]"),
    ],
)
def test_weights_of_another_shape_name_the_layer(body, found, told, caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(
        INPUT + 'layer { name: "wrong one" bottom: "x" top: "y" type: %s }' % body
    )
    model = caffemodel(
        tmp_path / "n.caffemodel", [("wrong one", "any", [np.ones(shape) for shape in found])]
    )
    with pytest.raises(InputError, match=r"layer wrong one \(\w+\) has weights of shape") as caught:
        dump(
            DumpOptions(
                str(tmp_path / "n.prototxt"), model, str(tmp_path / "o"), seed=1, backend="numpy"
            )
        )
    assert told in caught.value.message
    assert not manifest_of(tmp_path / "o")["complete"]


def test_weights_with_four_dimensions_from_old_files_are_accepted(caffemodel, tmp_path):
    (tmp_path / "n.prototxt").write_text(
        INPUT + 'layer { name: "f" bottom: "x" top: "f" type: "InnerProduct" inner_product_param { '
        "num_output: 3 axis: 2 } }"
    )
    bias = np.arange(3, dtype=np.float32)
    model = caffemodel(
        tmp_path / "n.caffemodel", [("f", "", [W["fc"][None, None], bias.reshape(1, 1, 1, 3)])]
    )
    np.save(str(tmp_path / "x.npy"), X)
    dump(
        DumpOptions(
            str(tmp_path / "n.prototxt"),
            model,
            str(tmp_path / "o"),
            ["x=%s/x.npy" % tmp_path],
            backend="numpy",
        )
    )
    close(
        values_of(tmp_path / "o")["f", 0],
        X.reshape(8, 30).dot(W["fc"].T.astype(np.float64)).reshape(2, 4, 3) + bias,
    )


def test_quantised_golden_data_are_written_as_dump_containers(resblock, tmp_path):
    specs = ["data=" + resblock("input_data.npy")]
    options = DumpOptions(
        resblock("resblock.prototxt"),
        resblock("resblock.caffemodel"),
        str(tmp_path / "q"),
        specs,
        "numpy",
        quantised=True,
    )
    dump(options)
    golden = GoldenSet(str(tmp_path / "q"))
    expected = np.load(resblock("expected_layer_outputs.npz"))
    got = golden.tensor(golden.find("prob", 0)).array()
    np.testing.assert_allclose(got, expected["prob:0"], rtol=1e-5)
    assert {os.path.splitext(name)[1] for name in os.listdir(str(tmp_path / "q"))} == {
        ".quant",
        ".json",
    }


def test_second_run_is_refused_unless_forced(resblock, tmp_path):
    options = {"out": str(tmp_path / "o"), "seed": 1, "backend": "numpy"}
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


def test_each_file_of_an_input_folder_is_computed_as_a_batch(resblock, tmp_path):
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
            "numpy",
            layers=["conv1"],
        )
    )
    assert [os.path.basename(run["out"]) for run in result["runs"]] == ["0", "1", "2"]
    conv1 = np.load(resblock("expected_layer_outputs.npz"))["conv1:0"]
    for number, factor in enumerate((1, 2, 10)):
        np.testing.assert_allclose(
            values_of(tmp_path / "o" / str(number))["conv1", 0],
            conv1 * factor,
            rtol=1e-4,
            atol=1e-4,
        )


SLOW = """
layer { name: "c%d" type: "Convolution" bottom: "%s" top: "c%d"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 bias_term: false } }
"""


def test_an_interrupt_leaves_only_whole_files_that_the_manifest_lists(caffemodel, tmp_path, until):
    text = 'input: "x" input_dim: 1 input_dim: 16 input_dim: 256 input_dim: 256\n'
    text += "".join(
        SLOW % (number, "c%d" % (number - 1) if number else "x", number) for number in range(120)
    )
    (tmp_path / "n.prototxt").write_text(text)
    model = caffemodel(
        tmp_path / "n.caffemodel",
        [("c%d" % number, "Convolution", [np.ones((16, 16, 3, 3)) / 144]) for number in range(120)],
    )
    out = tmp_path / "o"
    command = [
        sys.executable,
        "-m",
        "goldwatch",
        "golden",
        "caffe",
        "dump",
        str(tmp_path / "n.prototxt"),
        model,
    ]
    child = subprocess.Popen(
        command + ["--random", "1", "-o", str(out), "--backend", "numpy"], stderr=subprocess.PIPE
    )
    until(lambda: out.is_dir() and any(name.endswith(".npy") for name in os.listdir(str(out))))
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=60)
    manifest = manifest_of(out)
    for entry in manifest["tensors"]:
        with open(str(out / entry["file"]), "rb") as stream:
            assert hashlib.sha256(stream.read()).hexdigest() == entry["sha256"]
    assert len(manifest["tensors"]) + len(manifest["skipped"]) == 121
    assert sorted(os.listdir(str(out))) == sorted(
        ["manifest.json"] + [entry["file"] for entry in manifest["tensors"]]
    )
    if not manifest["complete"]:
        assert child.returncode == 130
        assert b"usable" in error
