"""Each cut that cannot be made ends with one message: what, where and what to do."""

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pytest
from wire_graph import layer, node, typed

from goldwatch.base.protowire import field

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
NET, WEIGHTS = os.path.join(DATA, "resblock.prototxt"), os.path.join(DATA, "resblock.caffemodel")
INPUT = (
    'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 '
    "dim: 3 } } }\n"
)


def relu(name, bottom, top=None):
    return 'layer { name: "%s" type: "ReLU" bottom: "%s" top: "%s" }\n' % (
        name,
        bottom,
        top or name,
    )


CHAIN = INPUT + relu("a", "data") + relu("b", "a") + relu("side", "data")


@pytest.mark.parametrize(
    ("start", "end", "text", "hint"),
    [
        (
            "res2a_branch2c",
            "fc",
            "start res2a_branch2c: no such layer",
            "near names: res2a_branch2a",
        ),
        ("pool1", "cat:0", "end cat:0: no such layer", "cat"),
        ("sa", "fc", "start sa is a blob, written by layer slice, sig", "give a name of these"),
        ("fc", "pool1", "end pool1 is not reachable from start fc", "swap start and end"),
        (
            "res2a_branch1",
            "res2a_branch2a",
            "end res2a_branch2a is not reachable",
            "different branches",
        ),
    ],
)
def test_unknown_start_and_end_names_are_refused_with_near_names(cut, start, end, text, hint):
    done = cut("--start", start, "--end", end, code=4)
    assert text in done.stderr and hint in done.stderr


def test_a_start_that_leads_to_no_end_is_refused(cut):
    done = cut("--start", "res2a_branch1", "--start", "prob", "--end", "res2a", code=4)
    assert "start prob leads to none of the ends" in done.stderr
    assert "start and end of the cut are needed" in cut("--start", "pool1", code=2).stderr
    assert "-o is needed" in cut("--start", "pool1", "--end", "pool1", out=False, code=2).stderr


@pytest.mark.parametrize(
    ("net", "start", "end", "text"),
    [
        (INPUT + relu("r", "data", "x") + relu("r", "x", "y") + relu("b", "y"), "r", "b",
        "2 layers have this name (lines 2, 3)"),
        (INPUT + relu("r", "data", "x") + relu("r", "x", "y") + relu("b", "y"), "b", "b",
        "layers in lines 2, 3 have the same name r"),
        (INPUT + 'layers { name: "b" type: RELU '
            'bottom: "data" top: "b" }', "b", "b", "both `layer` and V1 `layers`"),
        (INPUT + relu("a", "gone"), "a", "a", "layer a reads blob gone, which nothing makes"),
        ('layer { name: "d" type: "Data" top: "d" }\n' + relu("b", "d"), "d", "d",
        "only data layers are between"),
        ("layer {" * 200, "a", "a", "nested deeper than 100"),
        ("", "a", "a", "the file is empty"),
        ("version https://git-lfs.github.com/spec/v1\n", "a", "a", "line 1"),
        (
            INPUT + 'layer { name: "q" type: "Quant" '
                'bottom: "data" top: "q" }\n' + relu("c", "q") + relu("d", "c"),
            "d", "d", "the border lies between a quantising and a dequantising layer: c holds int8",
        ),
        (
            INPUT + 'layer { name: "q" type: "Quant" '
                'bottom: "data" top: "q" }\n' + relu("c", "q") + relu("d", "c"),
            "data", "c", "the border lies between a quantising and a dequantising layer: c "
                "holds int8",
        ),
        (
            INPUT + 'layer { name: "q" type: "AscendQuant" bottom: "data" '
                'top: "q" }\n' + relu("c", "q"),
            "q", "q", "the border lies between a quantising and a dequantising layer: q holds int8",
        ),
    ],
)  # fmt: skip
def test_nets_that_cannot_be_cut_are_refused(cut, tmp_path, net, start, end, text):
    (tmp_path / "n.prototxt").write_text(net)
    done = cut("--start", start, "--end", end, model="n.prototxt", code=4)
    assert text in done.stderr
    assert not os.path.exists(str(tmp_path / "out")) or os.listdir(str(tmp_path / "out")) == []


def test_a_data_layer_as_start_is_replaced_by_an_input(exported, tmp_path):
    net = (
        'layer { name: "d" type: "DummyData" top: "d" top: "l" }\n'
        + relu("a", "d")
        + relu("b", "a")
    )
    (tmp_path / "n.prototxt").write_text(net)
    _, document = exported("--start", "d", "--end", "b", "--shape", "d=1,2", model="n.prototxt")
    assert [entry["name"] for entry in document["layers"]] == ["a", "b"]
    assert (document["start"], document["asked"]["start"]) == (["a"], ["d"])
    assert [(entry["name"], entry["kind"]) for entry in document["inputs"]] == [
        ("a_input_0", "start")
    ]


CONV = (
    INPUT + 'layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { '
    "num_output: 4 kernel_size: 1 } }\n"
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (layer("other", (bytes(16), [4])), "no weights for layer c; Caffe would fill them anew"),
        (
            layer("c", (bytes(80), [5, 2, 1, 1])),
            "layer c has weights of shape [5, 2, 1, 1], num_output is 4",
        ),
        (
            layer("c", (bytes(288), [4, 2, 3, 3])),
            "layer c has weights of shape [4, 2, 3, 3], its kernel is 1 x 1",
        ),
        (layer("c", (bytes(32), [4, 2, 1, 1]))[:-3], "cut short: the field at byte 0 goes on"),
        (b"", "the file is empty"),
        (b"\x89HDF\r\n\x1a\n" + bytes(9), "HDF5 weights"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a pointer of Git LFS"),
    ],
)
def test_weights_of_another_net_are_refused(cut, tmp_path, data, text):
    (tmp_path / "n.prototxt").write_text(CONV)
    (tmp_path / "n.caffemodel").write_bytes(data)
    assert text in cut("--start", "c", "--end", "c", model="n.prototxt", code=4).stderr


def test_weights_beside_the_model_are_used_and_may_be_missing(exported, cut, tmp_path):
    (tmp_path / "n.prototxt").write_text(CONV)
    folder, document = exported("--start", "c", "--end", "c", model="n.prototxt")
    assert document["layers"][0]["weights"] is False and not os.path.exists(
        os.path.join(folder, "dump.caffemodel")
    )
    (tmp_path / "n.caffemodel").write_bytes(layer("c", (bytes(32), [4, 2, 1, 1])))
    folder, document = exported("--start", "c", "--end", "c", model="n.prototxt")
    assert document["layers"][0]["weights"] is True
    with open(os.path.join(folder, "dump.caffemodel"), "rb") as stream:
        assert stream.read() == layer("c", (bytes(32), [4, 2, 1, 1]))
    assert (
        "does not exist"
        in cut("--start", "c", "--end", "c", "--weights", "gone", model="n.prototxt", code=4).stderr
    )


def test_a_custom_layer_without_weights_is_warned_of(exported, tmp_path):
    (tmp_path / "n.prototxt").write_text(
        INPUT + 'layer { name: "m" type: "Mine" bottom: "data" top: "m" }\n'
    )
    (tmp_path / "n.caffemodel").write_bytes(layer("c", (bytes(4), [1])))
    _, document = exported("--start", "m", "--end", "m", model="n.prototxt")
    assert document["warnings"] == [
        {
            "code": "weights",
            "sentence": "layer m (Mine): no weights in the file; whether it needs any only its "
            "code knows",
        }
    ]


def test_an_om_that_is_no_json_or_of_another_model_is_refused(cut, tmp_path, device):
    (tmp_path / "net.om").write_bytes(b"IMOD" + bytes(60))
    done = cut("--start", "pool1", "--end", "pool1", "--om", "net.om", code=4)
    assert "atc --mode=1" in done.stderr
    (tmp_path / "n.prototxt").write_text(CHAIN)
    done = cut(
        "--start", "a", "--end", "b", "--om", device / "model.json", model="n.prototxt", code=4
    )
    assert (
        "is of another model: 1 of the 25 original names" in done.stderr
        or "is of another model: 0 of" in done.stderr
    )


def test_an_om_of_another_name_is_noted(cut, device, tmp_path):
    with open(str(device / "model.json"), encoding="utf-8") as stream:
        om = json.load(stream)
    om["name"] = "another"
    (tmp_path / "om.json").write_text(json.dumps(om))
    done = cut("--start", "pool1", "--end", "pool1", "--om", "om.json")
    assert "note: the om is called another, the net resblock" in done.stderr


def test_dumps_of_a_model_of_another_name_are_noted(cut, device, tmp_path):
    with open(NET, encoding="utf-8") as stream:
        (tmp_path / "n.prototxt").write_text(
            stream.read().replace('name: "resblock"', 'name: "other"')
        )
    words = [
        "--start",
        "pool1",
        "--end",
        "pool1",
        "--shape",
        "conv1=2,8,16,16",
        "--dump",
        device / "dump",
    ]
    note = "note: the dumps are of a model called resblock, the net is other"
    assert note in cut(*words, "--weights", WEIGHTS, model="n.prototxt").stderr
    assert "the dumps are of a model called" not in cut(*words).stderr


def test_dumps_of_another_model_or_of_several_steps_are_refused(cut, device, tmp_path):
    (tmp_path / "n.prototxt").write_text(CHAIN)
    done = cut("--start", "a", "--end", "b", "--dump", device / "dump", model="n.prototxt", code=4)
    assert "is of another model: none of its 16 ops" in done.stderr
    (step,) = [base for base, _, names in os.walk(str(device / "dump")) if names]
    for name in ("0", "1"):
        shutil.copytree(step, str(tmp_path / "dump" / "resblock" / "1" / name))
    words = ["--start", "pool1", "--end", "pool1", "--om", device / "model.json"]
    done = cut(*words, "--dump", "dump", code=4)
    assert "\\x0a" not in done.stderr
    assert (
        "2 devices, models or steps" in done.stderr
        and "step 0" in done.stderr
        and "step 1" in done.stderr
    )
    cut(*words, "--dump", "dump/resblock/1/1")
    (tmp_path / "empty").mkdir()
    assert "no dump file in it" in cut(*words, "--dump", "empty", code=4).stderr
    assert "no golden data in it" in cut(*words, "--golden", "empty", code=4).stderr


def test_earlier_dumps_of_an_op_are_left_out_with_a_warning(exported, device, tmp_path):
    (step,) = [base for base, _, names in os.walk(str(device / "dump")) if names]
    shutil.copytree(step, str(tmp_path / "dump"))
    (name,) = [name for name in os.listdir(step) if name.startswith("Pooling.pool1.")]
    older = name.replace(".17", ".16")
    shutil.copy(os.path.join(step, name), str(tmp_path / "dump" / older))
    folder, document = exported(
        "--start", "pool1", "--end", "pool1", "--om", device / "model.json", "--dump", "dump"
    )
    assert older not in os.listdir(os.path.join(folder, "dump_data")) and name in os.listdir(
        os.path.join(folder, "dump_data")
    )
    assert older in [
        warning["sentence"].split()[0]
        for warning in document["warnings"]
        if warning["code"] == "older-dump"
    ]


def test_missing_dumps_end_with_exit_code_3(exported, device, tmp_path):
    (step,) = [base for base, _, names in os.walk(str(device / "dump")) if names]
    shutil.copytree(
        step, str(tmp_path / "dump"), ignore=shutil.ignore_patterns("Conv2D.res2a_branch1.*")
    )
    words = ["--start", "res2a_branch1", "--end", "res2a_relu", "--om", device / "model.json"]
    _, document = exported(*words, "--dump", "dump", code=3)
    assert document["missing"] == [
        {"what": "dump of op res2a_branch1", "reason": "no file of this op in the dump"}
    ]
    _, document = exported(
        "--start",
        "pool1",
        "--end",
        "res2a_branch1",
        "--dump",
        device / "dump",
        "--shape",
        "conv1=2,8,16,16",
    )
    assert {entry["op"] for entry in document["dumps"]} == {"pool1", "res2a_branch1"}
    _, document = exported("--start", "conv1", "--end", "pool1", "--dump", device / "dump", code=3)
    assert "fused or renamed ops are found with the om json" in document["missing"][0]["reason"]


def test_ops_of_gears_that_did_not_run_are_not_missing(exported, device, tmp_path):
    """pool1 is copied for three gears, of which the second ran."""
    (step,) = [base for base, _, names in os.walk(str(device / "dump")) if names]
    shutil.copytree(step, str(tmp_path / "dump"))
    (name,) = [name for name in os.listdir(step) if name.startswith("Pooling.pool1.")]
    there = str(tmp_path / "dump")
    os.rename(
        os.path.join(there, name),
        os.path.join(there, name.replace("pool1", "pool1_ascend_mbatch_batch_1")),
    )
    tree = json.loads((device / "model.json").read_text())
    ops = tree["graph"][0]["op"]
    (pool,) = [op for op in ops if op["name"] == "pool1"]
    ops.remove(pool)
    for number in range(3):
        copy = dict(pool, name="pool1_ascend_mbatch_batch_%d" % number)
        tree["graph"].append({"name": "Batch_%d" % number, "op": [copy]})
    (tmp_path / "gears.json").write_text(json.dumps(tree))
    _, document = exported(
        "--start", "pool1", "--end", "pool1", "--om", "gears.json", "--dump", "dump"
    )
    assert document["missing"] == [] and "pool1_ascend_mbatch_batch_1" in {
        entry["op"] for entry in document["dumps"]
    }


def test_a_damaged_dump_counts_as_missing(exported, device, tmp_path):
    (step,) = [base for base, _, names in os.walk(str(device / "dump")) if names]
    shutil.copytree(step, str(tmp_path / "dump"))
    (name,) = [name for name in os.listdir(step) if name.startswith("Pooling.pool1.")]
    with open(str(tmp_path / "dump" / name), "r+b") as stream:
        stream.truncate(100)
    words = ["--start", "pool1", "--end", "res2a_relu", "--om", device / "model.json"]
    _, document = exported(*words, "--dump", "dump", code=3)
    assert (
        document["inputs"][0]["from"] == "target"
        and "Conv2D.conv1conv1_relu." in document["inputs"][0]["source_file"]
    )
    (missing,) = document["missing"]
    assert (
        missing["what"] == "dump of op pool1"
        and missing["reason"].startswith("damaged: ")
        and name in missing["reason"]
    )


def test_shapes_that_disagree_are_refused(cut, device):
    words = ["--start", "pool1", "--end", "pool1", "--om", device / "model.json"]
    done = cut(*words, "--shape", "conv1=2,16,16,16", code=4)
    assert "user says [2, 16, 16, 16], om says [2, 8, 16, 16]" in done.stderr
    assert "nothing is no input of this cut" in cut(*words, "--shape", "nothing=1", code=2).stderr
    for dims in ("1,x", "1,-1", "9" * 19):
        assert (
            "expected NAME and whole numbers"
            in cut(*words, "--shape", "conv1=" + dims, code=2).stderr
        )
    assert "give both, or none" in cut("--start", "pool1", "--list", out=False, code=2).stderr
    assert "weights of Caffe, not a model" in cut("--list", model=WEIGHTS, out=False, code=4).stderr
    assert "expected NAME=FILE" in cut(*words, "--input", "conv1", code=2).stderr
    for side, what in (("golden", "golden data"), ("target", "the dumps")):
        assert (
            "are to come from %s, which are not given" % what
            in cut(*words, "--input-from", side, code=2).stderr
        )
    assert (
        "needs the om json"
        in cut("--start", "pool1", "--end", "pool1", "--whole-ops", code=2).stderr
    )


def test_an_input_layer_that_disagrees_with_the_device_is_refused(cut, device_options, tmp_path):
    with open(NET, encoding="utf-8") as stream:
        text = stream.read()
    (tmp_path / "n.prototxt").write_text(text.replace("dim: 2", "dim: 5", 1))
    done = cut(
        "--start",
        "data",
        "--end",
        "pool1",
        "--weights",
        WEIGHTS,
        *device_options[:4],
        model="n.prototxt",
        code=4,
    )
    assert (
        "the shape of input data (data): om says [2, " in done.stderr
        and ", model says [5, " in done.stderr
    )
    cut(
        "--start",
        "pool1",
        "--end",
        "pool1",
        "--weights",
        WEIGHTS,
        *device_options[:4],
        model="n.prototxt",
    )


def test_the_devices_padded_shape_alone_is_refused(cut, device, tmp_path):
    from goldwatch.dumps import TensorData, write_dump

    (tmp_path / "n.prototxt").write_text(CHAIN)
    dump = tmp_path / "dump"
    dump.mkdir()
    for op in ("a", "b"):
        blocks = TensorData(np.zeros((1, 1, 3, 3, 16), np.float16), format="NC1HWC0")
        write_dump(str(dump / ("Relu.%s.1.1.1700000000000000" % op)), outputs=[blocks])
    done = cut("--start", "b", "--end", "b", "--dump", "dump", model="n.prototxt", code=4)
    assert (
        "is unknown; the device's shape NC1HWC0 [1, 1, 3, 3, 16] alone is not enough" in done.stderr
    )


@pytest.mark.parametrize(
    ("shape", "said"), [("", True), ("1,2,3,4,5", True), ("1,0", True), ("1,2,3,4", False)]
)
def test_shapes_that_atc_does_not_take_are_warned_of(exported, tmp_path, shape, said):
    (tmp_path / "n.prototxt").write_text(CHAIN)
    _, document = exported(
        "--start", "b", "--end", "b", "--shape", "a=" + shape, model="n.prototxt"
    )
    assert ("atc-dims" in [warning["code"] for warning in document["warnings"]]) == said


def test_an_output_folder_that_cannot_be_written_is_reported(cut, tmp_path):
    (tmp_path / "out").write_text("a file")
    assert (
        "cannot be written"
        in cut("--start", "pool1", "--end", "pool1", "--shape", "conv1=1,8,16,16", code=4).stderr
    )


def test_a_full_disk_is_reported_before_anything_is_written(cut, tmp_path, monkeypatch):
    monkeypatch.setattr("goldwatch.recomputing.submodel.write_export.free_bytes", lambda path: 1000)
    done = cut("--start", "pool1", "--end", "pool1", "--shape", "conv1=1,8,16,16", code=4)
    assert "1000 are free" in done.stderr and not os.path.exists(str(tmp_path / "out"))


def test_a_frozen_graph_is_cut_with_placeholders(exported, cut, tmp_path):
    float32 = typed(1)
    nodes = [node("x", "Placeholder", dtype=float32, shape=field(7, b""))]
    nodes += [node("a", "Relu", "x", T=float32), node("b", "Relu", "a", T=float32)]
    (tmp_path / "g.pb").write_bytes(b"".join(nodes))
    (tmp_path / "g").mkdir()
    np.save(str(tmp_path / "g" / "a.0.1700000000000000.npy"), np.ones((2, 3), np.float32))
    np.save(str(tmp_path / "g" / "b.0.1700000000000001.npy"), np.ones((2, 3), np.float32))
    folder, document = exported("--start", "b", "--end", "b", "--golden", "g", model="g.pb")
    (entry,) = document["inputs"]
    assert (entry["name"], entry["tensor"], entry["dtype"], entry["shape"], entry["from"]) == (
        "a",
        "a:0",
        "float32",
        [2, 3],
        "golden",
    )
    assert (
        document["next"]["atc"][:3] == ["atc", "--framework=3", "--model=dump.pb"]
        and "--out_nodes=b:0" in document["next"]["atc"]
    )
    with open(os.path.join(folder, "dump.pb"), "rb") as stream:
        assert stream.read().endswith(nodes[2])
    np.save(str(tmp_path / "g" / "a.0.1700000000000000.npy"), np.ones((2, 3), np.float64))
    assert (
        "the model says float32, golden float64"
        in cut("--start", "b", "--end", "b", "--golden", "g", model="g.pb", code=4).stderr
    )
    assert (
        "a file of weights is for Caffe"
        in cut("--start", "b", "--end", "b", "--weights", WEIGHTS, model="g.pb", code=2).stderr
    )
    assert "no such node" in cut("--start", "c", "--end", "b", model="g.pb", code=4).stderr
    assert (
        "is a tensor of node a" in cut("--start", "a:0", "--end", "b", model="g.pb", code=4).stderr
    )


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("n.onnx", b"\x08\x07", "an ONNX model"),
        ("n.pbtxt", b'node { name: "a" }', "a graph in text form"),
        ("saved_model.pb", field(1, 1) + field(2, b""), "a SavedModel, which holds variables"),
        ("n.pb", b"", "the file is empty"),
        (
            "n",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            "not a frozen graph|no protobuf message|cut short|not one of a GraphDef",
        ),
    ],
)
def test_files_that_are_no_model_are_refused(cut, tmp_path, name, data, text):
    (tmp_path / name).write_bytes(data)
    assert re.search(text, cut("--list", model=name, out=False, code=4).stderr)


def test_errors_are_json_where_json_was_asked_for(cut):
    done = cut("--start", "gone", "--end", "pool1", "--format", "json", code=4)
    assert json.loads(done.stdout)["error"]["kind"] == "unknown_node"
    assert json.loads(done.stdout)["error"]["hint"].endswith("; all names: --list")
