"""ais_bench and msame of the stand-in host: outputs and refusals."""

from __future__ import annotations

import json
import os

import host_models
import numpy as np
import pytest
from host_models import acl_json, compile_onnx, dump_names, golden, run_ais_bench, run_msame


@pytest.fixture
def net(tmp_path):
    path = host_models.conv_net(tmp_path / "net.onnx")
    compile_onnx(path, tmp_path / "net.om")
    np.random.RandomState(0).rand(1, 3, 8, 8).astype(np.float32).tofile(str(tmp_path / "first.bin"))
    return tmp_path


def right(net, count=1):
    x = np.fromfile(str(net / "first.bin"), np.float32).reshape(count, 3, 8, 8)
    return golden(net / "net.onnx", {"x": x})[0]


def files_of(folder):
    return {
        name: os.path.join(base, name)
        for base, _, names in os.walk(str(folder))
        for name in names
        if "summary" not in name
    }


@pytest.mark.parametrize("form", ["BIN", "NPY", "TXT"])
def test_ais_bench_writes_outputs_in_each_form(net, form, capsys):
    words = [
        "--model",
        net / "net.om",
        "--input",
        net / "first.bin",
        "--output",
        net / "out",
        "--outfmt",
        form,
        "--warmup_count",
        "0",
    ]
    assert run_ais_bench(net / "npu", *words) == 0
    said = capsys.readouterr().out
    assert (
        "[INFO] acl init success\n[INFO] open device 0 success\n" in said
        and "[INFO] unload model success, model Id is 1" in said
    )
    (name, path), *more = files_of(net / "out").items()
    assert name == "first_0.%s" % form.lower() and not more
    read = {
        "BIN": lambda: np.fromfile(path, np.float32),
        "NPY": lambda: np.load(path),
        "TXT": lambda: np.loadtxt(path),
    }[form]()
    assert np.allclose(read.reshape(1, 10), right(net), atol=2e-3)


def test_ais_bench_runs_on_zeros_without_input(net):
    assert (
        run_ais_bench(
            net / "npu",
            "--model",
            net / "net.om",
            "--output",
            net / "out",
            "--output_dirname",
            "sub",
        )
        == 0
    )
    assert list(files_of(net / "out")) == ["pure_infer_data_0.bin"] and os.path.exists(
        str(net / "out" / "sub" / "pure_infer_data_0.bin")
    )
    assert os.path.exists(str(net / "out" / "sub_summary.json"))


def test_ais_bench_batches_input_files_and_splits_the_outputs(tmp_path):
    compile_onnx(
        host_models.dynamic_net(tmp_path / "dyn.onnx"),
        tmp_path / "dyn.om",
        input_shape="x:2,3,8,8;y0:2,10",
    )
    random = np.random.RandomState(0)
    shapes = {"x": (1, 3, 8, 8), "y": (1, 10)}
    arrays = {
        "%s%d" % (name, n): random.rand(*shape).astype(np.float32)
        for n in range(2)
        for name, shape in shapes.items()
    }
    for name, array in arrays.items():
        np.save(str(tmp_path / name), array)
    files = ",".join(str(tmp_path / (name + ".npy")) for name in ("x0", "x1", "y0", "y1"))
    words = [
        "--model",
        tmp_path / "dyn.om",
        "--input",
        files,
        "--output",
        tmp_path / "out",
        "--outfmt",
        "NPY",
        "--warmup_count",
        "0",
    ]
    assert run_ais_bench(tmp_path / "npu", *words) == 0
    found = files_of(tmp_path / "out")
    assert sorted(found) == ["x0_0.npy", "x1_0.npy"]
    for number in range(2):
        wanted = golden(
            tmp_path / "dyn.onnx", {"x": arrays["x%d" % number], "y0": arrays["y%d" % number]}
        )[0]
        assert np.allclose(np.load(found["x%d_0.npy" % number]), wanted, atol=1e-2)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--model", "none.om"], "[ERROR] Invalid args. none.om of --model is invalid"),
        (
            ["--model", "net.om", "--acl_json_path", "none.json"],
            "[ERROR] Invalid args. none.json of --acl_json_path is invalid",
        ),
        (
            ["--model", "net.om", "--input", "none.bin"],
            "[ERROR] Invalid args. none.bin of --input is invalid",
        ),
        (
            ["--model", "net.om", "--input", "odd.bin"],
            "[ERROR] arg0 tensorsize: 768 filesize: 100 not match",
        ),
        (["--model", "net.om", "--dymBatch", "2"], "the model is not dynamic"),
        (["--model", "net.om", "--dymBatch", "2", "--dymHW", "8,8"], "exclude one another"),
        (["--model", "net.om", "--device", "5"], "[ERROR] acl open device 5 failed"),
    ],
)
def test_ais_bench_refuses_wrong_arguments(net, monkeypatch, capsys, words, said):
    monkeypatch.chdir(net)
    (net / "odd.bin").write_bytes(bytes(100))
    assert run_ais_bench(net / "npu", *words) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    "fault, said",
    [
        ("no-device", "SetDevice failed.ret=507033"),
        ("out-of-memory", "malloc device buffer fail (ret=207001)"),
        ("wrong-input-size", "arg0 tensorsize: 800 filesize: 768 not match"),
        ("other-chip", "load model from file failed"),
    ],
)
def test_faults_of_the_host_fail_both_runners(net, monkeypatch, capsys, fault, said):
    monkeypatch.chdir(net)
    assert (
        run_ais_bench(net / "npu", "--model", "net.om", "--input", "first.bin", faults=[fault]) == 1
    )
    assert said in capsys.readouterr().out
    # msame fails at the same place, and ends with 1.
    assert (
        run_msame(
            net / "npu",
            "--model",
            "net.om",
            "--input",
            "first.bin",
            "--output",
            net / "out",
            faults=[fault],
        )
        == 1
    )


def test_msame_reads_the_configuration_in_its_folder(net, monkeypatch, capsys):
    monkeypatch.chdir(net)
    acl_json(net / "acl.json", net / "dump", "net")
    assert (
        run_msame(
            net / "npu", "--model=net.om", "--input=first.bin", "--output=out", "--outfmt=BIN"
        )
        == 0
    )
    assert "[INFO] Execute sample success" in capsys.readouterr().out
    (name, path), *more = files_of(net / "out").items()
    assert name == "net_output_0.bin" and not more
    assert np.allclose(np.fromfile(path, np.float32).reshape(1, 10), right(net), atol=2e-3)
    assert len(dump_names(net / "dump")) == 10


def test_msame_writes_a_configuration_with_dump_true(net, monkeypatch):
    monkeypatch.chdir(net)
    acl_json(net / "acl.json", net / "dump", "net")
    assert run_msame(net / "npu", "--model", "net.om", "--output", "out", "--dump", "true") == 0
    document = json.loads((net / "acl.json").read_text())
    assert document["dump"]["dump_path"] == str(net / "out" / "dump") and not dump_names(
        net / "dump"
    )
    assert len(dump_names(net / "out" / "dump")) == 10


@pytest.mark.parametrize(
    "words",
    [["--model", "net.onnx"], ["--modle", "net.om"], ["--model", "net.om", "--input", "first.npy"]],
)
def test_msame_exits_with_0_though_it_refuses(net, monkeypatch, capsys, words):
    monkeypatch.chdir(net)
    assert run_msame(net / "npu", *words) == 0
    assert "[ERROR]" in capsys.readouterr().out


DYNAMIC = {
    "dymBatch": (
        {"input_shape": "x:-1,3,8,8;y0:-1,10", "dynamic_batch_size": "1,2"},
        ["--dymBatch", "2"],
        (2, 3, 8, 8),
    ),
    "dymHW": (
        {"input_shape": "x:1,3,-1,-1;y0:1,10", "dynamic_image_size": "8,8;12,10"},
        ["--dymHW", "12,10"],
        (1, 3, 12, 10),
    ),
    "dymDims": (
        {"input_shape": "x:1,3,-1,-1;y0:1,10", "dynamic_dims": "8,6;4,10"},
        ["--dymDims", "x:1,3,4,10;y0:1,10"],
        (1, 3, 4, 10),
    ),
    "dymShape": (
        {"input_shape_range": "x:[1~4,3,-1,-1];y0:[1~4,10]"},
        ["--dymShape", "x:3,3,5,7;y0:3,10", "--outputSize", "120"],
        (3, 3, 5, 7),
    ),
}


@pytest.mark.parametrize("runner", [run_ais_bench, run_msame])
@pytest.mark.parametrize("kind", DYNAMIC)
def test_dynamic_models_run_with_both_runners(tmp_path, monkeypatch, kind, runner):
    monkeypatch.chdir(tmp_path)
    options, words, shape = DYNAMIC[kind]
    path = host_models.dynamic_net(tmp_path / "dyn.onnx")
    compile_onnx(path, tmp_path / "dyn.om", **options)
    random = np.random.RandomState(0)
    feeds = {
        "x": random.rand(*shape).astype(np.float32),
        "y0": random.rand(shape[0], 10).astype(np.float32),
    }
    for name, array in feeds.items():
        array.tofile(name + ".bin")
    asked = ["--model", "dyn.om", "--input", "x.bin,y0.bin", "--output", "out", *words]
    assert runner(tmp_path / "npu", *asked) == 0
    (path_out,) = files_of(tmp_path / "out").values()
    assert np.allclose(
        np.fromfile(path_out, np.float32).reshape(shape[0], 10), golden(path, feeds)[0], atol=1e-2
    )


def test_a_dynamic_shape_out_of_range_or_too_small_output_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options, _, _ = DYNAMIC["dymShape"]
    compile_onnx(host_models.dynamic_net(tmp_path / "dyn.onnx"), tmp_path / "dyn.om", **options)
    words = ["--model", "dyn.om", "--dymShape", "x:5,3,5,7;y0:5,10"]
    assert run_ais_bench(tmp_path / "npu", *words, "--outputSize", "200") == 1
    assert "outside of what the model was made for" in capsys.readouterr().out
    assert (
        run_ais_bench(tmp_path / "npu", "--model", "dyn.om", "--dymShape", "x:2,3,5,7;y0:2,10") == 1
    )
    assert "can't malloc buffer, size is 0" in capsys.readouterr().out
    assert (
        run_ais_bench(
            tmp_path / "npu",
            "--model",
            "dyn.om",
            "--dymShape",
            "x:2,3,5,7;y0:2,10",
            "--outputSize",
            "8",
        )
        == 1
    )
    assert "room for 8 bytes, there are 80" in capsys.readouterr().out
