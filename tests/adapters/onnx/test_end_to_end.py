"""From the ONNX file to the verdict: healthy networks pass, a node that is wrong is named."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnx_models as build
import onnx_networks as networks
import pytest
from in_process import run_here
from onnx import helper
from onnx_device import on_device, write_model

from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

node = helper.make_node
FUSED = [("Conv_0", "/bn/BatchNormalization", "/relu/Relu")]


def prepare(tmp_path, proto, shape, fused=(), fault=None):
    """Write model, om json and dumps; the input is what float16 holds, as the .bin of an om with
    that option.
    """
    path = build.save(tmp_path / "m.onnx", proto)
    x = np.random.RandomState(4).standard_normal(shape).astype(np.float16).astype(np.float32)
    np.save(str(tmp_path / "x.npy"), x)
    model = on_device(path, {"x": x}, fused, fault)
    model.write_tree(str(tmp_path / "dump"))
    dims = ",".join(str(dim) for dim in shape)
    write_model(
        model,
        tmp_path / "net.json",
        "atc --model=m.onnx --framework=5 --input_shape=x:%s --input_fp16_nodes=x" % dims,
    )
    return path


def run(tmp_path, *words):
    done = run_here(["goldwatch", *words], tmp_path)
    assert "Traceback" not in done.stderr
    return done


def compared(tmp_path, golden="golden"):
    done = run(
        tmp_path, "compare", "dump", golden, "-f", "net.json", "-o", "out", "--format", "json"
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", ["cnn", "transformer"])
def test_a_healthy_network_passes(tmp_path, name):
    if name == "cnn":
        prepare(tmp_path, networks.cnn(), (2, 3, 16, 16), FUSED)
    else:
        prepare(tmp_path, networks.transformer(), (1, 8, 32))
    done = run(
        tmp_path,
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--input",
        "x=x.npy",
        "-f",
        "net.json",
        "-o",
        "golden",
    )
    assert done.returncode == 0, done.stderr
    code, result = compared(tmp_path)
    rows = result["rows"]
    assert code == 0, [(row["tensor"], row["verdict"], row["reason"]) for row in rows]
    assert (
        result["summary"]["passed"] >= 10
        and not result["summary"]["failed"]
        and not result["summary"]["not_compared"]
    )
    assert {row["verdict"] for row in rows} <= {"pass", "expected_absent"}
    data = [row for row in rows if row["golden_file"] and row["golden_file"].startswith("x.0.")]
    assert data


def test_with_an_om_json_only_values_that_a_row_needs_are_saved(tmp_path):
    prepare(tmp_path, networks.cnn(), (2, 3, 16, 16), FUSED)
    done = run(
        tmp_path,
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--random",
        "1",
        "-f",
        "net.json",
        "-o",
        "few",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    few = json.loads((tmp_path / "few" / "manifest.json").read_text())
    assert json.loads(done.stdout)["counts"]["written"] == len(few["tensors"]) == 7
    assert {entry["tensor"] for entry in few["skipped"] if entry["reason"] == "no row of the model compares it"} == {  # noqa: E501
        "Conv_0:0", "/bn/BatchNormalization:0",
    }  # fmt: skip
    # The shape is that of atc's command line; the om reads float16, and the random numbers are
    # such.
    assert (
        few["inputs"][0]["shape"] == [2, 3, 16, 16] and few["inputs"][0]["bin_dtype"] == "float16"
    )
    array = np.load(str(tmp_path / "few" / "inputs" / "x.npy"))
    assert np.array_equal(
        np.fromfile(str(tmp_path / "few" / "inputs" / "x.bin"), np.float16)
        .astype(np.float32)
        .reshape(array.shape),
        array,
    )
    np.save(str(tmp_path / "large.npy"), array * np.float32(1e5))
    done = run(
        tmp_path,
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--input",
        "x=large.npy",
        "-f",
        "net.json",
        "-o",
        "large",
    )
    assert "warning: input x: " in done.stderr and "values are too large for float16" in done.stderr
    done = run(
        tmp_path,
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--random",
        "1",
        "-f",
        "net.json",
        "--all",
        "-o",
        "all",
    )
    assert (
        done.returncode == 0
        and len(json.loads((tmp_path / "all" / "manifest.json").read_text())["tensors"]) == 9
    )


def test_an_om_json_of_another_model_is_refused(tmp_path):
    prepare(tmp_path, networks.cnn(), (2, 3, 16, 16))
    relu = build.model(
        [node("Relu", ["x"], ["y"], name="r")],
        [build.value("x", ("N", 3, 16, 16))],
        [build.value("y", None)],
    )
    for proto, text in (
        (
            networks.transformer(),
            "the compiled model's shape of input x is [2, 3, 16, 16], the model expects [1, 8, 32]",
        ),
        (relu, "no op of the compiled model comes from a node of"),
    ):
        other = build.save(tmp_path / "other.onnx", proto)
        done = run(
            tmp_path,
            "golden",
            "onnx",
            "dump",
            other,
            "--random",
            "1",
            "-f",
            "net.json",
            "-o",
            "golden",
        )
        assert done.returncode == 4 and text in done.stderr


def test_a_node_that_is_wrong_is_the_first_divergence(tmp_path):
    prepare(
        tmp_path,
        networks.transformer(),
        (1, 8, 32),
        fault=("/attn/Softmax", lambda array: array * np.float32(1.1)),
    )
    run(
        tmp_path,
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--input",
        "x=x.npy",
        "-f",
        "net.json",
        "-o",
        "golden",
    )
    code, result = compared(tmp_path)
    assert code == 1 and result["summary"]["first_divergence"]["op"] == "/attn/Softmax"


def test_a_1d_convolution_is_compared_with_the_devices_4d_one(tmp_path):
    """The device has a height of 1 that the model has not."""
    weights = [
        build.weight(
            "w", np.random.RandomState(0).standard_normal((16, 16, 3)).astype(np.float32) / 7
        )
    ]
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1]),
        node("Relu", ["c"], ["y"], name="relu"),
    ]
    proto = build.model(nodes, [build.value("x", (1, 16, 20))], [build.value("y", None)], weights)
    prepare(tmp_path, proto, (1, 16, 20))
    run(tmp_path, "golden", "onnx", "dump", "m.onnx", "--input", "x=x.npy", "-o", "golden")
    arrays = {
        path.name.split(".")[0]: np.load(str(path)) for path in (tmp_path / "golden").glob("*.npy")
    }
    model = DeviceModel("net")
    model.add(
        DeviceOp(
            "x",
            "Data",
            outputs=(DeviceTensor(arrays["x"].astype(np.float16), "ND", origin_name="x"),),
        )
    )
    four = arrays["conv"].astype(np.float16)[:, :, np.newaxis, :]
    model.add(
        DeviceOp(
            "PartitionedCall_conv_Conv2D_3",
            "Conv2D",
            (("x", 0),),
            (DeviceTensor(four, "NC1HWC0"),),
            originals=("conv",),
        )
    )
    three = arrays["relu"].astype(np.float16)
    model.add(
        DeviceOp(
            "relu",
            "Relu",
            (("PartitionedCall_conv_Conv2D_3", 0),),
            (DeviceTensor(three, "ND", origin_name="relu"),),
        )
    )
    shutil.rmtree(str(tmp_path / "dump"))
    model.write_tree(str(tmp_path / "dump"))
    model.write_json(str(tmp_path / "net.json"))
    code, result = compared(tmp_path)
    assert code == 0, [(row["tensor"], row["verdict"], row["reason"]) for row in result["rows"]]
    assert [
        row["verdict"]
        for row in result["rows"]
        if row["op"].startswith("PartitionedCall") and row["kind"] == "output"
    ] == ["pass"]


def test_a_value_made_of_random_numbers_is_not_compared(tmp_path):
    nodes = [
        node("RandomNormalLike", ["x"], ["n"], name="noise"),
        node("Add", ["n", "x"], ["a"], name="behind"),
        node("Relu", ["x"], ["r"], name="beside"),
    ]
    proto = build.model(
        nodes, [build.value("x", (2, 64))], [build.value("a", None), build.value("r", None)]
    )
    prepare(tmp_path, proto, (2, 64))
    done = run(tmp_path, "golden", "onnx", "dump", "m.onnx", "--input", "x=x.npy", "-o", "golden")
    assert "2 tensors come out of random numbers, from noise:0 on: not compared" in done.stderr
    code, result = compared(tmp_path)
    rows = {(row["op"], row["kind"]): row for row in result["rows"]}
    assert code == 3 and rows["beside", "output"]["verdict"] == "pass"
    for name in ("noise", "behind"):
        row = rows[name, "output"]
        assert (row["verdict"], row["cause"]) == ("not_compared", "nondeterministic")
        assert "come out of random numbers" in row["reason"]


def test_a_value_fed_from_the_dump_is_not_compared_with_itself(tmp_path):
    prepare(tmp_path, networks.transformer(), (1, 8, 32))
    (dump,) = (tmp_path / "dump").rglob("Softmax.*")
    words = [
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--input",
        "x=x.npy",
        "--feed",
        "/attn/Softmax=dump:%s" % dump,
        "-o",
        "golden",
    ]
    assert run(tmp_path, *words).returncode == 0
    _, result = compared(tmp_path)
    verdicts = {
        row["op"]: (row["verdict"], row["cause"])
        for row in result["rows"]
        if row["kind"] == "output"
    }
    assert verdicts.pop("/attn/Softmax") == ("not_compared", "given")
    assert set(verdicts.values()) <= {("pass", ""), ("expected_absent", "")}


def test_an_input_folder_may_hold_the_devices_float16_file(tmp_path):
    prepare(tmp_path, networks.cnn(), (2, 3, 16, 16), FUSED)
    (tmp_path / "fed").mkdir()
    x = np.load(str(tmp_path / "x.npy"))
    x.astype(np.float16).tofile(str(tmp_path / "fed" / "x.bin"))
    done = run(
        tmp_path,
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--inputs",
        "fed",
        "-f",
        "net.json",
        "-o",
        "golden",
    )
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    assert np.array_equal(np.load(str(tmp_path / "golden" / "inputs" / "x.npy")), x)
    done = run(
        tmp_path,
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--inputs",
        "fed",
        "--shape",
        "x=2,3,16,16",
        "-o",
        "other",
    )
    assert done.returncode == 4 and "give NAME=FILE,dtype=float16 if it holds that" in done.stderr


def test_inputs_that_differ_from_the_om_are_warned_of(tmp_path):
    prepare(tmp_path, networks.cnn(), (2, 3, 16, 16), FUSED)
    words = [
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--random",
        "1",
        "-f",
        "net.json",
        "--shape",
        "x=1,3,16,16",
    ]
    done = run(tmp_path, *words, "-o", "golden")
    text = (
        "warning: input x has the shape [1, 3, 16, 16] here, the compiled model was made with [2, "
        "3, 16, 16]"
    )
    assert done.returncode == 0 and text in " ".join(done.stderr.split())
    path = tmp_path / "net.json"
    path.write_text(path.read_text().replace("input_shape=x:", "input_shape=image:"))
    done = run(tmp_path, *words, "-o", "other")
    text = (
        "warning: the compiled model's inputs are image, those of m.onnx are x: is it the om of "
        "this model?"
    )
    assert done.returncode == 0 and text in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "names",
    [("blk/a_b", "blk_a/b", "blk.a.b"), ("\u5377\u79ef", "\u6c60\u5316", "\u6fc0\u6d3b")],
    ids=["ascii", "chinese"],
)
def test_nodes_whose_names_share_a_file_are_compared_with_the_right_golden_data(tmp_path, names):
    nodes = [
        node(op, ["xab"[n]], ["aby"[n]], name=name)
        for n, (op, name) in enumerate(zip(("Abs", "Exp", "Tanh"), names))
    ]
    prepare(
        tmp_path, build.model(nodes, [build.value("x", (2, 5))], [build.value("y", None)]), (2, 5)
    )
    done = run(tmp_path, "golden", "onnx", "dump", "m.onnx", "--input", "x=x.npy", "-o", "golden")
    assert done.returncode == 0 and "share the golden name" in done.stderr
    code, result = compared(tmp_path)
    assert code == 0 and {row["op"] for row in result["rows"] if row["verdict"] == "pass"} == set(
        names
    ), result["rows"]
    assert not any(row["reason"] for row in result["rows"] if row["verdict"] == "pass")
    (tmp_path / "golden" / "manifest.json").unlink()
    shutil.rmtree(str(tmp_path / "out"))
    code, result = compared(tmp_path)
    reasons = {
        row["reason"] for row in result["rows"] if row["kind"] == "output" and row["op"] in names
    }
    assert code == 3 and len(reasons) == 3 and all("parked" in reason for reason in reasons)
