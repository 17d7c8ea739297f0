"""`golden caffe dump --backend caffe` and `save_blobs`, against a stand-in with pycaffe's calls and
Caffe's shared memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from goldwatch.adapters.caffe import save_blobs
from goldwatch.adapters.caffe.dump import DumpOptions, dump
from goldwatch.base.errors import EnvironmentProblem, InputError, UsageError

MODEL = """
input: "data" input: "other"
input_dim: 1 input_dim: 4 input_dim: 3 input_dim: 3
input_dim: 1 input_dim: 4 input_dim: 3 input_dim: 3
layer { name: "first" type: "ReLU" bottom: "data" top: "data" }
layer { name: "p" type: "Power" bottom: "data" top: "p" power_param { shift: -0.2 } }
layer { name: "r" type: "ReLU" bottom: "p" top: "p" }
layer { name: "noise" type: "Power" bottom: "p" top: "p" power_param { shift: 1000 } include { phase: TRAIN } }
layer { type: "Sigmoid" bottom: "p" top: "p" }
layer { name: "cut" type: "Slice" bottom: "p" top: "c0" top: "c1" slice_param { slice_point: 1 } }
layer { name: "same" type: "Power" bottom: "c0" top: "c0" power_param { scale: 2 } }
layer { name: "same" type: "Power" bottom: "c1" top: "c1" power_param { scale: 3 } }
layer { name: "cat" type: "Concat" bottom: "c0" bottom: "c1" top: "cat" }
layer { name: "e" type: "Eltwise" bottom: "cat" bottom: "other" top: "e" eltwise_param { operation: PROD } }
layer { name: "f" type: "Flatten" bottom: "e" top: "f" }
layer { name: "fr" type: "Power" bottom: "f" top: "f" power_param { shift: 5 } }
layer { name: "side" type: "Power" bottom: "e" top: "side" }
layer { name: "mine" type: "Split" bottom: "f" top: "m0" top: "m1" }
layer { name: "quiet" type: "Silence" bottom: "m0" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "m1" }
"""  # noqa: E501


def truth(data, other):
    """What each layer computes when it runs, in float32 as the stand-in; by hand."""
    f = np.float32
    first = np.maximum(data, 0)
    p = first * f(1) + f(-0.2)
    r = np.maximum(p, 0)
    s = 1 / (1 + np.exp(-r))
    cat = np.concatenate([s[:, :1] * 2, s[:, 1:] * 3], 1)
    e = cat * other
    return {
        ("data", 0): data,
        ("other", 0): other,
        ("first", 0): first,
        ("p", 0): p,
        ("r", 0): r,
        ("cut", 0): s[:, :1],
        ("cut", 1): s[:, 1:],
        ("cat", 0): cat,
        ("e", 0): e,
        ("f", 0): e.reshape(1, -1),
        ("fr", 0): e.reshape(1, -1) + 5,
        # Caffe's own number: "e" shares memory with "f", which "fr" has overwritten.
        ("side", 0): e + 5,
        ("mine", 0): e.reshape(1, -1) + 5,
        ("mine", 1): e.reshape(1, -1) + 5,
        ("loss", 0): np.abs(e + 5).sum(),
    }


DATA = np.random.RandomState(7).standard_normal((1, 4, 3, 3)).astype(np.float32)
OTHER = np.random.RandomState(8).standard_normal((1, 4, 3, 3)).astype(np.float32)


@pytest.fixture
def model(tmp_path, monkeypatch, standin_path):
    monkeypatch.setenv("PYTHONPATH", standin_path)
    (tmp_path / "m.prototxt").write_text(MODEL)
    (tmp_path / "m.caffemodel").write_bytes(b"")
    np.savez(str(tmp_path / "in.npz"), data=DATA, other=OTHER)
    return str(tmp_path / "m.prototxt"), str(tmp_path / "m.caffemodel")


def check(out, expected):
    with open(os.path.join(str(out), "manifest.json"), encoding="utf-8") as stream:
        manifest = json.load(stream)
    values = {}
    for entry in manifest["tensors"]:
        key = tuple(entry[part] for part in ("original_name", "output_index", "top", "type"))
        values[key] = np.load(os.path.join(str(out), entry["file"]))
    for (name, index), value in expected.items():
        found = [
            array
            for (n, i, _, kind), array in values.items()
            if (n, i) == (name, index) and (name, kind) != ("p", "Sigmoid")
        ]
        assert len(found) == 1, name
        np.testing.assert_allclose(found[0], value, rtol=1e-6, err_msg=name)
    s = 1 / (1 + np.exp(-expected["r", 0]))
    np.testing.assert_allclose(values["p", 0, "p", "Sigmoid"], s, rtol=1e-6)
    np.testing.assert_allclose(values["same", 0, "c0", "Power"], s[:, :1] * 2, rtol=1e-6)
    np.testing.assert_allclose(values["same", 0, "c1", "Power"], s[:, 1:] * 3, rtol=1e-6)
    assert len(values) == len(manifest["tensors"]) == len(expected) + 3
    return manifest


def test_each_layer_is_saved_before_the_next_overwrites_it(model, tmp_path):
    out = tmp_path / "out"
    result = dump(
        DumpOptions(model[0], model[1], str(out), [str(tmp_path / "in.npz")], backend="caffe")
    )
    manifest = check(out, truth(DATA, OTHER))
    assert (manifest["backend"], manifest["backend_version"]) == ("caffe", "1.0.0")
    skipped = {entry["tensor"]: entry["reason"] for entry in manifest["skipped"]}
    assert skipped == {
        "noise:0": "not part of phase TEST",
        "quiet": "the layer has no top",
        "e_e_0_split:0": "automatic Split layer of Caffe, not in the prototxt",
        "e_e_0_split:1": "automatic Split layer of Caffe, not in the prototxt",
    }
    # The unnamed layer goes under its top, which is also a layer's name; and two layers are named
    # "same".
    assert sorted(result["runs"][0]["collisions"]) == ["p", "same"]
    assert result["runs"][0]["counts"]["parked"] == 4
    types = {(entry["original_name"], entry["top"], entry["type"]) for entry in manifest["tensors"]}
    assert {
        ("p", "p", "Power"),
        ("p", "p", "Sigmoid"),
        ("data", "data", "Input"),
        ("loss", "(automatic)", "SoftmaxWithLoss"),
    } <= types
    layers = {entry["layer"] for entry in manifest["tensors"] if entry["type"] == "Sigmoid"}
    assert layers == {""}


def test_the_caffe_stand_in_overwrites_in_place_blobs_as_caffe_does(model, standin):
    """The stand-in really shares memory as Caffe does: otherwise the test above would prove
    nothing.
    """
    net = standin.Net(model[0], model[1], standin.TEST)
    net.blobs["data"].data[...] = DATA
    net.blobs["other"].data[...] = OTHER
    net.forward()
    expected = truth(DATA, OTHER)
    assert not np.allclose(net.blobs["p"].data, expected["p", 0])
    assert not np.allclose(net.blobs["data"].data, expected["data", 0])
    assert not np.allclose(net.blobs["c0"].data, expected["cut", 0])


@pytest.mark.parametrize(
    ("layer", "message", "hint"),
    [
        (
            'layer { name: "u" type: "ReLU" bottom: "side" top: "u"\n  nofield: 3 }',
            'NetParameter: 22:3: .* has no field named "nofield"',
            "framework's own",
        ),
        (
            'layer { name: "u" type: "AbsVal" bottom: "side" top: "side" }',
            "does not allow in-place",
            "layer u works in place",
        ),
        (
            'layer { name: "u" type: "Eltwise" bottom: "side" bottom: "side" top: "side" }',
            "produced by multiple sources",
            "layer u reads blob side twice",
        ),
    ],
)
def test_a_net_that_caffe_refuses_is_reported_with_what_to_do(
    layer, message, hint, model, tmp_path
):
    with open(model[0], "a", encoding="utf-8") as stream:
        stream.write(layer + "\n")
    with pytest.raises(InputError, match=message) as caught:
        dump(
            DumpOptions(
                model[0],
                model[1],
                str(tmp_path / "out"),
                [str(tmp_path / "in.npz")],
                backend="caffe",
            )
        )
    assert hint in caught.value.hint


def test_a_fatal_check_of_caffe_becomes_an_error_message(model, tmp_path):
    with open(model[0], "a", encoding="utf-8") as stream:
        stream.write('layer { name: "boom" type: "Crash" bottom: "side" top: "boom" }\n')
    with pytest.raises(InputError, match="SIGABRT.*Check failed: .* in layer boom"):
        dump(
            DumpOptions(
                model[0],
                model[1],
                str(tmp_path / "out"),
                [str(tmp_path / "in.npz")],
                backend="caffe",
            )
        )
    assert not (tmp_path / "out").exists()
    (tmp_path / "bad.prototxt").write_text(
        'layer { name: "x" type: "ReLU" bottom: "nothing" top: "x" }'
    )
    with pytest.raises(InputError, match="Unknown bottom blob 'nothing'"):
        dump(
            DumpOptions(
                str(tmp_path / "bad.prototxt"), model[1], str(tmp_path / "out"), backend="caffe"
            )
        )
    assert not (tmp_path / "out").exists()


def test_inputs_may_have_another_batch_size_than_the_net(model, tmp_path):
    data, other = np.concatenate([DATA, -DATA]), np.concatenate([OTHER, OTHER])
    np.save(str(tmp_path / "d.npy"), data)
    np.save(str(tmp_path / "o.npy"), other.astype(np.float64))
    specs = ["data=%s" % (tmp_path / "d.npy"), "other=%s" % (tmp_path / "o.npy")]
    dump(
        DumpOptions(
            model[0], model[1], str(tmp_path / "out"), specs, backend="caffe", layers=["cat"]
        )
    )
    with open(str(tmp_path / "out" / "manifest.json"), encoding="utf-8") as stream:
        entry = json.load(stream)["tensors"][0]
    value = np.load(str(tmp_path / "out" / entry["file"]))
    np.testing.assert_allclose(
        value, np.concatenate([truth(part, OTHER)["cat", 0] for part in (DATA, -DATA)]), rtol=1e-6
    )


def test_missing_weights_are_refused(model, tmp_path):
    text = (
        'input: "x" input_dim: 1 input_dim: 1 input_dim: 2 input_dim: 2\nlayer { name: "ip" type: '
        '"InnerProduct" bottom: "x" top: "x2" }'
    )
    (tmp_path / "w.prototxt").write_text(text.replace('"InnerProduct"', '"Power"'))
    result = dump(
        DumpOptions(
            str(tmp_path / "w.prototxt"), model[1], str(tmp_path / "a"), backend="caffe", seed=1
        )
    )
    assert result["warnings"] == []
    (tmp_path / "w.prototxt").write_text(text)
    with pytest.raises(InputError, match=r"no weights for any layer of this net \(ip\)"):
        dump(
            DumpOptions(
                str(tmp_path / "w.prototxt"), model[1], str(tmp_path / "b"), backend="caffe", seed=1
            )
        )


def prepared(standin, path):
    net = standin.Net(path, path, standin.TEST)
    net.blobs["data"].data[...] = DATA
    net.blobs["other"].data[...] = OTHER
    return net


def test_save_blobs_layer_by_layer_saves_every_blob(model, standin, tmp_path):
    net = prepared(standin, model[0])
    done = save_blobs(net, model[0], str(tmp_path / "out"), layer_by_layer=True)
    manifest = check(tmp_path / "out", truth(DATA, OTHER))
    assert done["counts"]["written"] == len(manifest["tensors"])
    assert manifest["backend"] == "caffe"


def test_save_blobs_takes_one_name_as_one_layer(model, standin, tmp_path):
    save_blobs(
        prepared(standin, model[0]),
        model[0],
        str(tmp_path / "out"),
        layer_by_layer=True,
        layers="cat",
    )
    with open(str(tmp_path / "out" / "manifest.json"), encoding="utf-8") as stream:
        assert [entry["op"] for entry in json.load(stream)["tensors"]] == ["cat"]


def test_save_blobs_refuses_a_net_that_ran_with_in_place_layers(model, standin, tmp_path):
    net = prepared(standin, model[0])
    net.forward()
    with pytest.raises(UsageError, match="in-place layers \\(first, r,") as caught:
        save_blobs(net, model[0], str(tmp_path / "out"))
    assert "layer_by_layer=True" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_save_blobs_sees_in_place_layers_of_the_net_and_not_of_the_prototxt(
    model, standin, tmp_path
):
    """The prototxt handed in is the repaired one, but the net was made from the original."""
    text = (
        'input: "data" input_dim: 1 input_dim: 4 input_dim: 3 input_dim: 3\nlayer { name: "r" '
        'type: "ReLU" bottom: "data" top: "%s" }'
    )
    (tmp_path / "old").write_text(text % "data")
    (tmp_path / "new").write_text(text % "r")
    net = standin.Net(str(tmp_path / "old"), "", standin.TEST)
    net.forward()
    with pytest.raises(UsageError, match="in-place layers \\(r\\)"):
        save_blobs(net, str(tmp_path / "new"), str(tmp_path / "out"))
    net = standin.Net(str(tmp_path / "new"), "", standin.TEST)
    net.blobs["data"].data[...] = DATA
    net.forward()
    save_blobs(net, str(tmp_path / "new"), str(tmp_path / "out"))
    assert len(os.listdir(str(tmp_path / "out"))) == 3


def test_save_blobs_refuses_a_prototxt_of_another_net(model, standin, tmp_path):
    net = prepared(standin, model[0])
    (tmp_path / "other").write_text(MODEL.replace('"cat" type', '"dog" type'))
    with pytest.raises(InputError, match="has layer cat \\(Concat\\) where the prototxt has dog"):
        save_blobs(net, str(tmp_path / "other"), str(tmp_path / "out"), layer_by_layer=True)


def test_save_blobs_works_in_a_users_script(model, tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        "import sys, numpy as np, caffe\n"
        "from goldwatch.adapters.caffe import save_blobs\n"
        "net = caffe.Net(sys.argv[1], sys.argv[2], caffe.TEST)\n"
        "data = np.load(sys.argv[3])\n"
        "for name in data.files:\n"
        "    net.blobs[name].data[...] = data[name]\n"
        "save_blobs(net, sys.argv[1], sys.argv[4], layer_by_layer=True)\n"
    )
    command = [
        sys.executable,
        str(script),
        model[0],
        model[1],
        str(tmp_path / "in.npz"),
        str(tmp_path / "out"),
    ]
    subprocess.run(command, check=True)
    check(tmp_path / "out", truth(DATA, OTHER))


@pytest.mark.parametrize("level, own, n_tops", [(None, True, 1), (2, False, 2), (2, True, 2)])
def test_the_level_option_counts_and_not_the_level_in_the_prototxt(
    level, own, n_tops, tmp_path, monkeypatch, standin_path
):
    monkeypatch.setenv("PYTHONPATH", standin_path)
    text = "state { level: 2 }\n" if own else ""
    text += (
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 } } }\n'
    )
    text += 'layer { name: "q" type: "ReLU" bottom: "data" top: "q" include { min_level: 2 } }\n'
    (tmp_path / "m.prototxt").write_text(text)
    (tmp_path / "m.caffemodel").write_bytes(b"")
    options = DumpOptions(
        str(tmp_path / "m.prototxt"),
        str(tmp_path / "m.caffemodel"),
        str(tmp_path / "o"),
        backend="caffe",
        seed=1,
        level=level,
    )
    assert dump(options)["runs"][0]["counts"]["written"] == n_tops


def test_a_v1_net_with_an_in_place_layer_on_its_input_is_saved_right(
    tmp_path, monkeypatch, standin_path
):
    monkeypatch.setenv("PYTHONPATH", standin_path)
    text = 'input: "data" input_dim: 1 input_dim: 4 input_dim: 3 input_dim: 3\n'
    text += 'layers { name: "r" type: RELU bottom: "data" top: "data" }\n'
    text += 'layers { name: "q" type: POWER bottom: "data" top: "q" power_param { shift: 1 } }\n'
    (tmp_path / "m.prototxt").write_text(text)
    (tmp_path / "m.caffemodel").write_bytes(b"")
    np.save(str(tmp_path / "x.npy"), DATA)
    options = DumpOptions(
        str(tmp_path / "m.prototxt"),
        str(tmp_path / "m.caffemodel"),
        str(tmp_path / "o"),
        ["data=%s/x.npy" % tmp_path],
        "caffe",
    )
    dump(options)
    with open(str(tmp_path / "o" / "manifest.json"), encoding="utf-8") as stream:
        found = {
            entry["op"]: np.load(str(tmp_path / "o" / entry["file"]))
            for entry in json.load(stream)["tensors"]
        }
    np.testing.assert_array_equal(found["data"], DATA)
    np.testing.assert_array_equal(found["r"], np.maximum(DATA, 0))
    np.testing.assert_array_equal(found["q"], np.maximum(DATA, 0) + 1)


def test_a_killed_child_is_reported_as_killed_with_a_hint_at_memory(model, tmp_path, monkeypatch):
    with open(model[0]) as stream:
        text = stream.read()
    with open(model[0], "w") as stream:
        stream.write(text.replace('type: "Silence"', 'type: "Killed"'))
    with pytest.raises(EnvironmentProblem, match="SIGKILL") as caught:
        dump(
            DumpOptions(
                model[0], model[1], str(tmp_path / "o"), [str(tmp_path / "in.npz")], backend="caffe"
            )
        )
    assert "memory" in caught.value.hint
    assert not (tmp_path / "o").exists()


def test_a_child_that_crashes_at_its_end_leaves_golden_data_marked_incomplete(model, tmp_path):
    """Everything was saved, but what a broken process saved is not to be trusted."""
    with open(model[0]) as stream:
        text = stream.read()
    with open(model[0], "w") as stream:
        stream.write(text.replace('type: "Silence"', 'type: "Corrupt"'))
    with pytest.raises(InputError, match="SIGABRT"):
        dump(
            DumpOptions(
                model[0], model[1], str(tmp_path / "o"), [str(tmp_path / "in.npz")], backend="caffe"
            )
        )
    with open(str(tmp_path / "o" / "manifest.json"), encoding="utf-8") as stream:
        assert json.load(stream)["complete"] is False


def test_an_exception_of_a_python_layer_is_reported_as_itself(model, tmp_path):
    with open(model[0]) as stream:
        text = stream.read()
    with open(model[0], "w") as stream:
        stream.write(text.replace('type: "Silence"', 'type: "Raises"'))
    with pytest.raises(
        InputError, match="caffe raised ValueError: of the user's layer .*, in _forward"
    ):
        dump(
            DumpOptions(
                model[0], model[1], str(tmp_path / "o"), [str(tmp_path / "in.npz")], backend="caffe"
            )
        )
