"""atc of the stand-in host: models of three frameworks, its files, its refusals."""

from __future__ import annotations

import json
import os
import shutil

import host_models
import numpy as np
import onnx
import pytest
from caffe_as_tf import AsTensorflow
from host_models import compile_onnx, ops_of, run_atc

from goldwatch.model.atc_options import dynamic_of
from goldwatch.model.read_model import load_model
from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.testing.host.loaded_model import LoadedModel
from goldwatch.testing.host.om_file import read_om


@pytest.fixture
def net(tmp_path):
    return host_models.conv_net(tmp_path / "net.onnx")


def json_of(om, path):
    assert run_atc("--mode=1", "--om=%s" % om, "--json=%s" % path) == 0
    return json.loads(path.read_text())


def test_an_onnx_model_becomes_an_om_and_its_json(net, tmp_path, capsys):
    om = compile_onnx(net, tmp_path / "made.om")
    document = json_of(om, tmp_path / "made.json")
    assert capsys.readouterr().out.count("ATC run success") == 2
    with open(om, "rb") as stream:
        assert stream.read(4) == b"IMOD"
    ops = ops_of(document)
    assert [op["type"] for op in document["graph"][0]["op"] if op["type"] not in ("Const", "Data",
    "NetOutput")] == [
        "Cast", "TransData", "Conv2D", "MaxPoolV3", "TransData", "Reshape", "TransData", "MatMulV2",
        "TransData", "SoftmaxV2", "Cast",
    ]  # fmt: skip
    originals = ops["conv1relu1"]["attr"][0]["value"]["list"]["s"]
    assert originals == ["conv1", "bn1", "relu1"]
    assert (
        ops["conv1relu1"]["output_desc"][0]["layout"] == "NC1HWC0"
        and ops["conv1relu1"]["output_desc"][0]["dtype"] == "DT_FLOAT16"
    )
    assert ops["x"]["output_desc"][0]["dtype"] == "DT_FLOAT" and ops["x"]["attr"] == [
        {"key": "index", "value": {"i": 0}}
    ]
    assert {"key": "_no_task", "value": {"b": True}} in ops["flat"]["attr"]
    graph = load_model(str(tmp_path / "made.json"))
    assert (
        graph.name == "made"
        and "--model=%s" % net in graph.command
        and dynamic_of(graph.command) is None
    )


def test_a_caffe_net_needs_its_weights(tmp_path, capsys):
    prototxt = os.path.join(host_models.DATA, "resblock.prototxt")
    words = [
        "--framework=0",
        "--model=" + prototxt,
        "--output=%s" % (tmp_path / "res"),
        "--soc_version=Ascend310",
    ]
    assert run_atc(*words) == 1
    assert "E10004: Value of [--weight] is empty" in capsys.readouterr().out
    assert run_atc(*words, "--weight=" + os.path.join(host_models.DATA, "resblock.caffemodel")) == 0
    ops = ops_of(read_om(str(tmp_path / "res.om")).document)
    assert (
        ops["res2ares2a_relu"]["type"] == "Eltwise"
        and ops["slice"]["type"] == "SplitVD"
        and len(ops["slice"]["output_desc"]) == 2
    )


def test_a_tensorflow_graph_is_compiled_in_nhwc(tmp_path):
    weights = read_weights(os.path.join(host_models.DATA, "resblock.caffemodel"))
    prototxt = os.path.join(host_models.DATA, "resblock.prototxt")
    shape = np.load(os.path.join(host_models.DATA, "input_data.npy")).shape
    (tmp_path / "res.pb").write_bytes(AsTensorflow(prototxt, weights, {"data": shape}).graph)
    words = [
        "--framework=3",
        "--model=%s" % (tmp_path / "res.pb"),
        "--output=%s" % (tmp_path / "res"),
        "--soc_version=Ascend910",
    ]
    assert run_atc(*words) == 0
    ops = ops_of(read_om(str(tmp_path / "res.om")).document)
    assert ops["data"]["output_desc"][0]["shape"]["dim"] == [shape[0], shape[2], shape[3], shape[1]]
    assert {"Conv2D", "SoftmaxV2"} <= {op["type"] for op in ops.values()}


@pytest.mark.parametrize(
    "words, said",
    [
        (["--model=no.onnx"], "E10401: File [no.onnx] does not exist"),
        (["--precison_mode=force_fp16"], "E10001: unknown command line flag 'precison_mode'"),
        (["--precision_mode=force_fp16", "--precision_mode_v2=fp16"], "E10057"),
        (
            ["--precision_mode=fast"],
            "E10001: Value [fast] for parameter [--precision_mode] is invalid",
        ),
        (["--framework=1"], "E10007"),
        (["--framework=0", "--weight=net.onnx"], "E19005"),
        (["--keep_dtype=none.cfg"], "E10401: File [none.cfg] does not exist"),
        (["--modify_mixlist=net.onnx", "--precision_mode=force_fp16"], "--modify_mixlist"),
        (["--op_precision_mode=bad.ini"], "op_precision_mode [fastest] of [Exp] is not supported"),
        (["--customize_dtypes=bad.ini"], "is not Opname::InputDtype:"),
        (["--fusion_switch_file=bad.ini"], "[--fusion_switch_file] is not valid json"),
        (["--insert_op_conf=bad.ini"], "[--insert_op_conf] has no aipp_op"),
        (["--singleop=bad.ini"], "does not imitate --singleop"),
        (["--output=no/such/folder/net"], "E10404"),
        (["--input_shape=z:-1,3", "--dynamic_batch_size=1,2"], "E10016: Opname [z]"),
        (["--out_nodes=none:0"], "no node is called none"),
    ],
)
def test_atc_of_the_stand_in_refuses_with_the_real_error_codes(
    net, tmp_path, monkeypatch, capsys, words, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.ini").write_text("Exp = fastest\n")
    options = {"framework": "5", "model": net, "output": "made", "soc_version": "Ascend310P3"}
    given = {word[2:].partition("=")[0] for word in words}
    assert (
        run_atc(*("--%s=%s" % item for item in options.items() if item[0] not in given), *words)
        == 1
    )
    text = capsys.readouterr().out
    assert said in text and text.startswith("ATC start working now") and "ATC run failed" in text
    assert not os.path.exists("made.om")


def test_an_unknown_op_and_an_unknown_shape_are_refused(tmp_path, capsys):
    words = ["--framework=5", "--output=%s" % (tmp_path / "made"), "--soc_version=Ascend310P3"]
    assert run_atc("--model=" + host_models.odd_net(tmp_path / "odd.onnx"), *words) == 1
    assert "E19010: No parser is registered for Op [odd" in capsys.readouterr().out
    assert run_atc("--model=" + host_models.string_net(tmp_path / "text.onnx"), *words) == 1
    assert "E19010: input x: data type string is not supported" in capsys.readouterr().out
    assert run_atc("--model=" + host_models.dynamic_net(tmp_path / "dyn.onnx"), *words) == 1
    assert "E10018: input x has no fixed shape in the model" in capsys.readouterr().out


def test_the_folder_of_the_json_is_made_and_ops_have_what_clients_read(net, tmp_path):
    """The keys are those of a real om's json."""
    path = tmp_path / "new" / "below" / "made.json"
    ops = json_of(compile_onnx(net, tmp_path / "made.om"), path)["graph"][0]["op"]
    assert {"Const", "Data", "NetOutput"} < {op["type"] for op in ops}
    assert all("attr" in op for op in ops)
    assert all(("input_desc" in op) is (op["type"] != "Const") for op in ops)


def test_json_output_of_a_file_that_is_no_om_is_refused(net, tmp_path, capsys):
    assert run_atc("--mode=1", "--om=" + net, "--json=%s" % (tmp_path / "x.json")) == 1
    assert "no .om file" in capsys.readouterr().out
    (tmp_path / "real.om").write_bytes(b"IMOD" + bytes(300))
    assert (
        run_atc("--mode=1", "--om=%s" % (tmp_path / "real.om"), "--json=%s" % (tmp_path / "x.json"))
        == 1
    )
    assert "no .om file of the stand-in compiler" in capsys.readouterr().out


def test_the_om_holds_the_model_after_its_file_is_gone(net, tmp_path):
    om = compile_onnx(net, tmp_path / "made.om")
    with open(net, "rb") as stream:
        before = stream.read()
    os.unlink(net)
    model, weights = read_om(om).unpack(str(tmp_path / "unpacked"))
    with open(model, "rb") as stream:
        assert stream.read() == before and weights is None


def test_external_weights_are_stored_in_the_om(net, tmp_path):
    proto = onnx.load(net)
    (tmp_path / "apart").mkdir()
    options = {
        "save_as_external_data": True,
        "all_tensors_to_one_file": True,
        "location": "net.data",
        "size_threshold": 0,
    }
    onnx.save_model(proto, str(tmp_path / "apart" / "net.onnx"), **options)
    om = compile_onnx(str(tmp_path / "apart" / "net.onnx"), tmp_path / "apart.om")
    shutil.rmtree(str(tmp_path / "apart"))
    x = {"x": np.random.RandomState(0).rand(1, 3, 8, 8).astype(np.float32)}
    made = [
        LoadedModel.from_om(read_om(path), "net").run(x).outputs[0][1]
        for path in (om, compile_onnx(net, tmp_path / "whole.om"))
    ]
    assert np.array_equal(*made)


GEARS = {
    "dynamic_batch_size": ("x:-1,3,8,8;y0:-1,10", "1,2", [[1, 3, 8, 8], [2, 3, 8, 8]]),
    "dynamic_image_size": ("x:1,3,-1,-1;y0:1,10", "8,8;12,10", [[1, 3, 8, 8], [1, 3, 12, 10]]),
    "dynamic_dims": ("x:1,3,-1,-1;y0:1,10", "8,6;4,10", [[1, 3, 8, 6], [1, 3, 4, 10]]),
}


@pytest.mark.parametrize("option", GEARS)
def test_each_gear_has_its_own_ops(tmp_path, option):
    shape, gears, shapes = GEARS[option]
    om = compile_onnx(
        host_models.dynamic_net(tmp_path / "dyn.onnx"),
        tmp_path / "dyn.om",
        input_shape=shape,
        **{option: gears},
    )
    ops = ops_of(read_om(om).document)
    assert "ascend_mbatch_shape_data" in ops and -1 in ops["x"]["output_desc"][0]["shape"]["dim"]
    for number, wanted in enumerate(shapes):
        op = ops["conv1relu1_ascend_mbatch_batch_%d" % number]
        assert {"key": "_batch_label", "value": {"s": "Batch_%d" % number}} in op["attr"]
        origin = next(
            attr for attr in op["output_desc"][0]["attr"] if attr["key"] == "origin_shape"
        )
        assert origin["value"]["list"]["i"] == [wanted[0], 8, wanted[2], wanted[3]]
    assert ops["Node_Output"]["input"] == ["Node_Output_ascend_mbatch_merge_0:0"]


def test_a_dynamic_shape_has_dims_of_minus_one_in_the_json(tmp_path):
    om = compile_onnx(
        host_models.dynamic_net(tmp_path / "dyn.onnx"),
        tmp_path / "dyn.om",
        input_shape_range="x:[1~4,3,-1,-1];y0:[1~4,10]",
    )
    ops = ops_of(read_om(om).document)
    assert ops["x"]["output_desc"][0]["shape"]["dim"] == [-1, 3, -1, -1] and ops["y0"][
        "output_desc"
    ][0]["shape"]["dim"] == [-1, 10]
    assert ops["add"]["output_desc"][0]["shape"]["dim"] == [-1, 10]
