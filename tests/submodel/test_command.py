"""``goldwatch submodel``: folder, document, log and proposed commands."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shlex
import sys

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps.dump_file import DumpFile
from goldwatch.schemas import load_schema

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
NET, WEIGHTS = os.path.join(DATA, "resblock.prototxt"), os.path.join(DATA, "resblock.caffemodel")


def listed(folder):
    return sorted(
        os.path.relpath(os.path.join(base, name), folder)
        for base, _, names in os.walk(folder)
        for name in names
    )


def test_the_folder_holds_the_files_of_the_vendors_page(exported, device_options, device):
    folder, document = exported("--start", "pool1", "--end", "res2a", *device_options)
    assert re.match(r"dump_result_\d{4}(_\d\d){5}\Z", os.path.basename(folder))
    files = listed(folder)
    inputs = {"input_data/pool1_input_0.npy", "input_data/pool1_input_0.bin"}
    assert {"dump.prototxt", "dump.caffemodel", "submodel.json"} | inputs <= set(files)
    dumps = {entry["file"]: entry["role"] for entry in document["dumps"]}
    assert sorted(dumps) == [name for name in files if name.startswith("dump_data/")]
    assert sorted(dumps.values()) == ["op"] * 5 + ["producer"]
    (producer,) = [entry for entry in document["dumps"] if entry["role"] == "producer"]
    assert producer["op"] == "conv1conv1_relu" and "Conv2D.conv1conv1_relu." in producer["file"]
    for base, _, names in os.walk(str(device / "dump")):
        for name in names:
            if "dump_data/" + name in dumps:
                assert filecmp.cmp(
                    os.path.join(base, name), os.path.join(folder, "dump_data", name), shallow=False
                )
    (entry,) = document["inputs"]
    assert (entry["name"], entry["tensor"], entry["producer"]["op"], entry["kind"]) == (
        "pool1_input_0",
        "conv1",
        "conv1_relu",
        "start",
    )
    assert (entry["from"], entry["shape"], entry["shape_source"], entry["dtype"]) == (
        "target",
        [2, 8, 16, 16],
        "golden",
        "float32",
    )
    assert document["spanning_ops"] == [
        {"op": "res2ares2a_relu", "inside": ["res2a"], "outside": ["res2a_relu"], "where": "end"}
    ]
    assert (document["model"]["name"], document["model"]["om_name"], document["missing"]) == (
        "resblock",
        "resblock",
        [],
    )


def test_an_input_is_the_devices_value_without_padding(exported, device_options, device):
    folder, document = exported("--start", "pool1", "--end", "pool1", *device_options)
    value = np.load(os.path.join(folder, document["inputs"][0]["npy"]))
    stored = DumpFile.open(document["inputs"][0]["source_file"])
    assert stored.inputs[0].shape == (2, 1, 16, 16, 16) and stored.inputs[0].dtype.name == "float16"
    device_value = stored.array("input", 0)[:, 0, :, :, :8].transpose(0, 3, 1, 2)
    assert value.dtype == np.float32 and np.array_equal(value, device_value.astype(np.float32))
    binary = os.path.join(folder, document["inputs"][0]["bin"])
    assert os.path.getsize(binary) == 2 * value.size
    assert np.array_equal(np.fromfile(binary, np.float16).reshape(value.shape), device_value)


def test_the_log_has_the_vendors_lines(cut, device_options):
    done = cut("--start", "pool1", "--end", "res2a", *device_options)
    stamp = r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "
    added = re.search(stamp + r"Add Layer Into Prototxt:\n(layer \{\n(?:.*\n)*?\}\n)", done.stderr)
    assert 'name: "pool1_input_0"\n  type: "Input"\n  top: "conv1"' in added.group(1)
    assert re.search(stamp + r"Output Dump Path:/.*/dump_result_[\d_]{19}/dump_data$", done.stderr)
    dumped = re.search(
        stamp + r"Dump Layer:\[pool1\]\nOutput File:(.*)\nInput File:(.*)$", done.stderr
    )
    assert dumped.group(1).startswith("Pooling.pool1.") and dumped.group(2).startswith(
        "Conv2D.conv1conv1_relu."
    )
    layers = re.search(stamp + r"Export Layer:(.*)$", done.stderr).group(1).split(", ")
    assert layers[0] == "pool1" and layers[-1] == "res2a" and len(layers) == 12
    assert "op res2ares2a_relu computes res2a, res2a_relu; your cut ends at res2a" in done.stderr
    quiet = cut("--start", "pool1", "--end", "pool1", *device_options, "-q")
    assert quiet.stderr == ""


def test_whole_ops_extends_the_cut_until_no_op_spans_its_border(exported, device_options):
    _, document = exported("--start", "pool1", "--end", "res2a", "--whole-ops", *device_options)
    assert (document["end"], document["asked"]["end"], document["spanning_ops"]) == (
        ["res2a_relu"],
        ["res2a"],
        [],
    )
    _, document = exported("--start", "bn_conv1", "--end", "pool1", "--whole-ops", *device_options)
    assert (document["start"], document["end"]) == (["conv1"], ["pool1"])
    _, document = exported(
        "--start", "res2a_branch1", "--end", "res2a", "--whole-ops", *device_options
    )
    assert (document["start"], document["end"]) == (["res2a_branch1"], ["res2a_relu"])
    assert all(entry["from"] == "target" for entry in document["inputs"])


def test_a_border_inside_an_op_is_taken_from_golden_data_or_missing(
    exported, device_options, device
):
    words = [
        "--start",
        "scale_conv1",
        "--end",
        "pool1",
        "--om",
        device / "model.json",
        "--dump",
        device / "dump",
    ]
    _, document = exported(*words, "--golden", device / "golden")
    assert document["inputs"][0]["from"] == "golden"
    assert [warning["code"] for warning in document["warnings"]][:2] == [
        "spanning-op",
        "golden-input",
    ]
    _, document = exported(*words, "--shape", "conv1=2,8,16,16", code=3)
    assert (
        document["inputs"][0]["npy"] is None
        and "a value inside op conv1conv1_relu" in document["missing"][0]["reason"]
    )


def test_a_cut_without_dumps_needs_shapes_only(exported, cut):
    folder, document = exported("--start", "pool1", "--end", "pool1", "--shape", "conv1=1,8,16,16")
    assert (
        document["missing"],
        document["inputs"][0]["npy"],
        document["inputs"][0]["shape_source"],
    ) == ([], None, "user")
    assert listed(folder) == ["dump.caffemodel", "dump.prototxt", "submodel.json"]
    assert (
        "the shape of input pool1_input_0 (conv1) is unknown"
        in cut("--start", "pool1", "--end", "pool1", code=4).stderr
    )


def test_an_input_layer_as_start_stays(exported, device_options, device):
    folder, document = exported("--start", "data", "--end", "conv1", *device_options)
    assert [layer["name"] for layer in document["layers"]] == ["data", "conv1"]
    (entry,) = document["inputs"]
    assert (entry["name"], entry["producer"]["op"], entry["readers"], entry["from"]) == (
        "data",
        "data",
        ["conv1"],
        "target",
    )
    with open(os.path.join(folder, "dump.prototxt"), encoding="utf-8") as stream, open(
        NET, encoding="utf-8"
    ) as whole:
        assert stream.read() == "".join(whole.readlines()[:3])
    assert "--input_fp16_nodes=data" in document["next"]["atc"]
    (said,) = [
        note["sentence"]
        for note in document["next"]["notes"]
        if "insert_op_conf" in note["sentence"]
    ]
    assert said.startswith(
        "the sub-model begins at the net's own input data: if the whole model was converted "
        "with AIPP"
    )
    assert "without input_fp16_nodes for it" in said and said.endswith(
        "else leave insert_op_conf out"
    )
    # The device's own input is float16.
    with np.load(os.path.join(os.path.dirname(NET), "expected_layer_outputs.npz")) as truth:
        value = np.load(os.path.join(folder, entry["npy"]))
        assert np.array_equal(value, truth["data:0"].astype(np.float16).astype(np.float32))


def test_a_users_input_or_golden_data_can_be_used_as_input(exported, device_options, tmp_path):
    array = np.full((2, 8, 16, 16), 70000.0, np.float32)
    array[0, 0, 0, 0] = 1e-9
    np.save(str(tmp_path / "own.npy"), array)
    folder, document = exported(
        "--start",
        "pool1",
        "--end",
        "pool1",
        *device_options,
        "--input",
        "conv1=%s" % (tmp_path / "own.npy"),
    )
    assert document["inputs"][0]["from"] == "user"
    assert document["inputs"][0]["float16_overflow"] == {"inf": array.size - 1, "zero": 1}
    assert "float16-range" in [warning["code"] for warning in document["warnings"]]
    folder, document = exported(
        "--start",
        "pool1",
        "--end",
        "pool1",
        *device_options,
        "--input-from",
        "golden",
        "--bin",
        "float32",
    )
    assert (document["inputs"][0]["from"], document["inputs"][0]["bin_dtype"]) == (
        "golden",
        "float32",
    )
    assert "--input_fp16_nodes" not in " ".join(document["next"]["atc"])
    assert "the original golden data stay valid" in document["next"]["notes"][-1]["sentence"]
    folder, document = exported(
        "--start", "pool1", "--end", "pool1", *device_options, "--bin", "none"
    )
    assert document["inputs"][0]["bin"] is None and listed(os.path.join(folder, "input_data")) == [
        "pool1_input_0.npy"
    ]


def test_a_recorded_integer_input_stays_integer(exported, device_options, device, tmp_path):
    net = (
        'layer { name: "label" type: "Input" top: "label" }\nlayer { name: "s" type: "Silence" '
        'bottom: "label" }\n'
    )
    (tmp_path / "n.prototxt").write_text(net)
    (tmp_path / "g").mkdir()
    np.save(str(tmp_path / "g" / "label.0.1700000000000000.npy"), np.arange(4, dtype=np.int32))
    folder, document = exported("--start", "s", "--end", "s", "--golden", "g", model="n.prototxt")
    (entry,) = document["inputs"]
    assert (
        entry["dtype"],
        entry["bin_dtype"],
        os.path.getsize(os.path.join(folder, entry["bin"])),
    ) == ("int32", "int32", 16)


def test_the_proposed_commands_run(exported, device_options, device):
    folder, document = exported("--start", "res2a_branch2a", "--end", "res2a", *device_options)
    steps = document["next"]
    names = "res2a_branch2a_input_0;res2a_input_0"
    assert [entry["name"] for entry in document["inputs"]] == names.split(";") and document[
        "inputs"
    ][1]["kind"] == "side"
    assert (
        "--input_fp16_nodes=" + names in steps["atc"]
        and "--out_nodes=res2a:0" in steps["atc"]
        and "--framework=0" in steps["atc"]
    )
    done = run_here(steps["golden"] + ["--backend", "numpy"], folder)
    assert done.returncode == 0, done.stderr
    feeds = [
        word
        for entry in document["inputs"]
        for word in ("-i", "%s=%s" % (entry["tensor"], entry["npy"]))
    ]
    run_here(
        [
            sys.executable,
            "-m",
            "goldwatch.testing",
            "caffe",
            "dump.prototxt",
            "dump.caffemodel",
            "run",
            *feeds,
        ],
        folder,
    )
    places = {"DUMP_OF_THE_SUBMODEL": "run/dump", "dump.json": "run/model.json"}
    for name, verdict in (("compare", "pass"), ("replay", "pass")):
        done = run_here([places.get(word, word) for word in steps[name]], folder)
        assert done.returncode == 0, done.stderr
        with open(os.path.join(folder, steps[name][-1], "result.json"), encoding="utf-8") as stream:
            assert json.load(stream)["summary"]["verdict"] == verdict
    made = os.listdir(os.path.join(folder, "golden_of_submodel"))
    assert any(name.startswith("res2a.0.") for name in made)


def test_dry_run_and_list_write_nothing(cut, device_options, tmp_path):
    done = cut(
        "--start",
        "pool1",
        "--end",
        "res2a",
        *device_options,
        "--dry-run",
        "--format",
        "json",
        out=False,
    )
    document = json.loads(done.stdout)
    jsonschema.validate(document, load_schema("submodel"))
    assert document["folder"] is None and document["layers"][0]["ops"] == ["pool1"]
    rows = [
        line.split("\t")
        for line in cut(
            "--start", "pool1", "--end", "res2a", *device_options, "--list", out=False
        ).stdout.splitlines()
    ]
    assert rows[0] == ["cut", "name", "type", "shape", "ops", "dump"]
    by_name = {row[1]: row for row in rows[1:]}
    assert by_name["pool1"] == ["start", "pool1", "Pooling", "2x8x8x8", "pool1", "yes"]
    assert [by_name[name][0] for name in ("conv1", "bn2a_branch1", "res2a", "res2a_relu")] == [
        "",
        "inside",
        "end",
        "",
    ]
    assert (
        len(json.loads(cut("--list", "--format", "json", out=False).stdout)) == len(rows) - 1 == 25
    )
    lines = cut(
        "--start", "pool1", "--end", "res2a", *device_options, "--dry-run", "-q", out=False
    ).stdout.splitlines()
    assert (
        lines[0].startswith("dump.prototxt: ")
        and lines[0].endswith(" layers, pool1 … res2a")
        and lines[-1] == "submodel.json"
    )
    assert [line.split(":")[0] for line in lines[1:-1]][-2:] == ["dump_data", "golden_data"]
    assert os.listdir(str(tmp_path)) == []


def test_two_exports_in_one_second_get_two_folders(cut, tmp_path):
    words = ["--start", "pool1", "--end", "pool1", "--shape", "conv1=1,8,16,16"]
    folders = {cut(*words).stdout.strip() for _ in range(3)}
    assert len(folders) == 3 == len(os.listdir(str(tmp_path / "out")))


def test_files_with_hash_names_keep_their_mapping(exported, tmp_path):
    name = "layer" * 60
    net = (
        'layer { name: "data" type: "Input" top: "data" }\nlayer { name: "%s" type: "ReLU" '
        'bottom: "data" top: "%s" }\n' % (name, name)
    )
    (tmp_path / "n.prototxt").write_text(net)
    golden = tmp_path / "g"
    golden.mkdir()
    for digits, op in (("111", "data"), ("222", name)):
        np.save(str(golden / (digits + ".npy")), np.zeros((1, 2), np.float32))
        with open(str(golden / "mapping.csv"), "a") as stream:
            stream.write("%s,%s.0.1700000000000000.npy\n" % (digits, op))
    folder, document = exported("--start", name, "--end", name, "--golden", "g", model="n.prototxt")
    assert document["missing"] == [] and listed(os.path.join(folder, "golden_data")) == [
        "111.npy",
        "222.npy",
        "mapping.csv",
    ]
    copied = os.path.join(folder, "golden_data", "mapping.csv")
    with open(copied) as stream, open(str(golden / "mapping.csv")) as source:
        assert sorted(stream) == sorted(source)


def test_layer_names_never_become_paths(exported, tmp_path):
    net = (
        'layer { name: "../a/b" type: "Input" top: "x" input_param { shape { dim: 1 } } }\n'
        'layer { name: "conv1/7x7_s2" type: "ReLU" bottom: "x" top: "y" }\n'
        'layer { name: "conv1 7x7_s2" type: "ReLU" bottom: "x" top: "z" }\n'
        'layer { name: "sum" type: "Eltwise" bottom: "y" bottom: "z" top: "sum" }\n'
    )
    (tmp_path / "n.prototxt").write_text(net)
    values = tmp_path / "v.npy"
    np.save(str(values), np.ones((1,), np.float32))
    words = [
        "--start",
        "sum",
        "--end",
        "sum",
        "--input",
        "y=%s" % values,
        "--input",
        "z=%s" % values,
    ]
    folder, document = exported(*words, model="n.prototxt")
    assert [entry["npy"] for entry in document["inputs"]] == [
        "input_data/sum_input_0.npy",
        "input_data/sum_input_1.npy",
    ]
    folder, document = exported(
        "--start", "../a/b", "--end", "sum", "--input", "x=%s" % values, model="n.prototxt"
    )
    assert document["inputs"][0]["npy"] == "input_data/_a_b.npy"
    shown = shlex.quote("x=input_data/_a_b.npy")
    assert shown in [shlex.quote(word) for word in document["next"]["golden"]]


def test_a_layer_name_with_line_breaks_adds_no_log_line(cut, tmp_path):
    net = (
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 } } }\n'
        'layer { name: "a\\nExport Layer:b\\033[31m" type: "ReLU" bottom: "data" top: "a" }\n'
    )
    (tmp_path / "n.prototxt").write_text(net)
    name = "a\nExport Layer:b\x1b[31m"
    done = cut("--start", "data", "--end", name, model="n.prototxt")
    assert "\nExport Layer:b" not in done.stderr and "\x1b" not in done.stderr + done.stdout
    assert "Export Layer:data, a\\x0aExport Layer:b\\x1b[31m" in done.stderr
    assert "\x1b" not in cut("--list", model="n.prototxt", out=False).stdout


def test_a_chain_of_thousands_of_layers_is_walked_without_recursion(exported, tmp_path):
    count = 3000
    lines = ['layer { name: "l0" type: "Input" top: "l0" input_param { shape { dim: 1 } } }\n']
    lines += [
        'layer { name: "l%d" type: "ReLU" bottom: "l%d" top: "l%d" }\n' % (n, n - 1, n)
        for n in range(1, count)
    ]
    (tmp_path / "n.prototxt").write_text("".join(lines))
    words = ["--shape", "l9=1"]
    folder, document = exported(
        "--start", "l10", "--end", "l%d" % (count - 10), *words, model="n.prototxt"
    )
    assert len(document["layers"]) == count - 19
    with open(os.path.join(folder, "dump.prototxt"), encoding="utf-8") as stream:
        assert "".join(lines[10 : count - 9]) in stream.read()


@pytest.mark.parametrize("kept", [WEIGHTS, None])
def test_a_v1_net_is_cut(exported, cut, tmp_path, kept):
    net = 'input: "x"\ninput_dim: 1\ninput_dim: 2\ninput_dim: 3\ninput_dim: 3\n'
    net += (
        'layers { name: "a" type: RELU bottom: "x" top: "a" }\nlayers { name: "b" type: RELU '
        'bottom: "a" top: "a" }\n'
    )
    (tmp_path / "n.prototxt").write_text(net)
    words = ["--weights", kept] if kept else []
    folder, document = exported(
        "--start", "b", "--end", "b", "--shape", "a=1,2", *words, model="n.prototxt"
    )
    with open(os.path.join(folder, "dump.prototxt"), encoding="utf-8") as stream:
        assert (
            stream.read()
            == 'input: "a"\ninput_shape {\n  dim: 1\n  dim: 2\n}\n' + net.splitlines(True)[-1]
        )
    # Without layers with weights there are the net's own fields only.
    assert os.path.exists(os.path.join(folder, "dump.caffemodel")) == bool(kept)
    np.save(str(tmp_path / "a.npy"), np.ones((1, 2), np.float32))
    _, document = exported("--start", "b", "--end", "b", "--input", "a=a.npy", model="n.prototxt")
    assert (
        "--input_fp16_nodes=a" in document["next"]["atc"]
        and document["inputs"][0]["name"] == "b_input_0"
    )
    # atc refuses a Caffe model without weights, and so do golden and replay.
    assert "--weight=WEIGHTS.caffemodel" in document["next"]["atc"]
    assert all("WEIGHTS.caffemodel" in document["next"][step] for step in ("golden", "replay"))
    assert document["inputs"][0]["source_file"] == str(tmp_path / "a.npy")
    log = cut(
        "--start", "b", "--end", "b", "--shape", "a=1,2", "--dry-run", model="n.prototxt"
    ).stderr
    assert (
        'Add Layer Into Prototxt:\ninput: "a"\ninput_shape {\n  dim: 1\n  dim: 2\n}\n' in log
        and "b_input_0" not in log
    )
    _, document = exported("--start", "a", "--end", "b", model="n.prototxt")
    assert (document["inputs"][0]["producer"]["op"], document["inputs"][0]["shape_source"]) == (
        "x",
        "model",
    )
