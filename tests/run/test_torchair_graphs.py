"""TorchAir's GE dumps against FX dumps in each form of their folders, and against a build without
fusion.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace

import numpy as np
import pytest
from in_process import run_here
from torchair_runs import torchair_graph

from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor, TorchAirGraph


def compare(target, golden, out):
    """Compare as the command does; return its exit code and result.json."""
    done = run_here(["goldwatch", "compare", target, golden, "-o", out, "--jobs", "1"])
    return done, json.loads((out / "result.json").read_text())


def rows_of(result, **wanted):
    return [
        row for row in result["rows"] if all(row[name] == value for name, value in wanted.items())
    ]


def row(result, tensor, step="0"):
    return rows_of(result, tensor=tensor, step=step)[0]


@pytest.mark.parametrize("form", ["newest", "data_dump", "gm"])
@pytest.mark.parametrize("graph_form", ["txt", "pbtxt"])
def test_each_token_pairs_with_fx_data_of_its_token_in_every_form(tmp_path, form, graph_form):
    for token in (0, 1):
        graph = torchair_graph(seed=token, fault="Relu" if token else None)
        graph.write_ge(tmp_path / "ge", token)
        graph.write_fx(tmp_path / "fx", token, form)
    graph.write_graph(tmp_path / "ge", graph_form)
    done, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert {r["verdict"] for r in rows_of(result, step="0")} == {"pass", "expected_absent"}
    assert sorted(r["tensor"] for r in rows_of(result, verdict="fail")) == [
        "Relu:output:0",
        "Reshape:input:0",
        "Reshape:output:0",
    ]
    first = result["summary"]["first_divergence"]
    assert (first["op"], first["step"], first["inputs"]) == ("Relu", "1", "good")
    assert row(result, "MatMul:output:0")["golden_file"].endswith(
        "mm-aten.mm.default.OUTPUT.0.20260102030405000000.npy"
    )


def test_a_fused_op_pairs_by_its_first_inputs_and_last_outputs(tmp_path):
    graph = torchair_graph()
    graph.write_ge(tmp_path / "ge")
    graph.write_fx(tmp_path / "fx")
    graph.write_graph(tmp_path / "ge")
    done, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = {
        r["tensor"]: os.path.basename(r["golden_file"] or "").rpartition(".2026")[0]
        for r in rows_of(result, op="AddMul")
    }
    assert found == {
        "AddMul:input:0": "mm-aten.mm.default.OUTPUT.0",
        "AddMul:input:1": "add-aten.add.Tensor.INPUT.1",
        "AddMul:output:0": "mul-aten.mul.Tensor.OUTPUT.0",
    }
    # What FX calls view, GE's graph calls reshape.
    assert row(result, "Reshape:output:0")["golden_file"].endswith(
        "view-aten.view.default.OUTPUT.0.20260102030405000000.npy"
    )
    assert not rows_of(result, op="Add") and not rows_of(result, op="Mul")


@pytest.mark.parametrize("fault", ["trans_Cast_3", "AddMul"])
def test_an_inserted_cast_is_compared_with_its_input(tmp_path, fault):
    graph = torchair_graph(fault=fault)
    graph.write_ge(tmp_path / "ge")
    graph.write_fx(tmp_path / "fx")
    graph.write_graph(tmp_path / "ge")
    done, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    cast = row(result, "trans_Cast_3:output:0")
    assert cast["golden_file"] == cast["target_file"]
    assert cast["verdict"] == ("fail" if fault == "trans_Cast_3" else "pass")
    first = result["summary"]["first_divergence"]
    assert (first["op"], first["inputs"]) == (fault, "good")


def test_an_inserted_layout_change_is_compared_in_one_layout(tmp_path):
    x = np.random.RandomState(0).standard_normal((20, 24)).astype(np.float16)
    original, compiled = DeviceModel("graph_1"), DeviceModel("graph_1")
    for model in (original, compiled):
        model.add(DeviceOp("arg0_1", "Data", (), (DeviceTensor(x, origin_format="ND"),)))
        model.add(
            DeviceOp("Abs", "Abs", (("arg0_1", 0),), (DeviceTensor(abs(x), origin_format="ND"),))
        )
    wrong = abs(x) + np.float16(1)
    compiled.add(
        DeviceOp(
            "trans_TransData_5",
            "TransData",
            (("Abs", 0),),
            (DeviceTensor(abs(x), "FRACTAL_NZ", "ND"),),
        )
    )
    compiled.add(
        DeviceOp(
            "trans_TransData_6",
            "TransData",
            (("Abs", 0),),
            (DeviceTensor(wrong, "FRACTAL_NZ", "ND"),),
        )
    )
    graph = TorchAirGraph(
        original, compiled, {"Abs": ("abs_1", "aten.abs.default")}, {"abs_1": ([x], [abs(x)])}
    )
    graph.write_ge(tmp_path / "ge")
    graph.write_fx(tmp_path / "fx")
    graph.write_graph(tmp_path / "ge")
    _, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    assert row(result, "trans_TransData_5:output:0")["verdict"] == "pass"
    assert row(result, "trans_TransData_6:output:0")["verdict"] == "fail"


def test_an_unfused_build_pairs_by_the_names_of_fused_ops(tmp_path):
    fused = torchair_graph(fault="AddMul")
    fused.write_ge(tmp_path / "ge")
    fused.write_graph(tmp_path / "ge")
    replace(torchair_graph(), compiled=None).write_ge(tmp_path / "unfused", time="20260102040506")
    done, result = compare(tmp_path / "ge", tmp_path / "unfused", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    found = row(result, "AddMul:output:0")
    assert found["verdict"] == "fail" and os.path.basename(found["golden_file"]).startswith(
        "Mul.Mul."
    )
    assert (
        row(result, "MatMul:output:0")["verdict"]
        == row(result, "AddMul:input:0")["verdict"]
        == "pass"
    )
    assert row(result, "MatMul:input:1")["verdict"] == "pass"
    assert result["summary"]["first_divergence"]["op"] == "AddMul"


def test_two_runs_of_one_build_pair_by_name(tmp_path):
    fused = torchair_graph(fault="AddMul")
    fused.write_ge(tmp_path / "ge")
    fused.write_graph(tmp_path / "ge")
    torchair_graph().write_ge(tmp_path / "other")
    done, result = compare(tmp_path / "ge", tmp_path / "other", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    for tensor in ("AddMul:output:0", "trans_Cast_3:output:0"):
        assert os.path.basename(row(result, tensor)["golden_file"]) == os.path.basename(
            row(result, tensor)["target_file"]
        )
    assert (
        row(result, "MatMul:input:0")["verdict"] == "pass"
        and row(result, "trans_Cast_3:input:0")["verdict"] == "fail"
    )


@pytest.mark.parametrize("below", ["", "worldsize2_global_rank%d"])
def test_each_rank_is_compared_with_fx_data_of_its_rank(tmp_path, below):
    for rank in (0, 1):
        graph = torchair_graph(seed=rank)
        graph.write_ge(tmp_path / "ge", rank=(2, rank), device=4 + rank)
        graph.write_fx(tmp_path / "fx", rank=(2, rank))
        graph.write_graph(
            os.path.join(str(tmp_path / "ge"), below % rank if below else ""), rank=rank
        )
    done, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert {
        (r["device"], r["golden_file"].split(os.sep)[-4])
        for r in rows_of(result, tensor="MatMul:output:0")
    } == {
        ("4", "worldsize2_global_rank0"),
        ("5", "worldsize2_global_rank1"),
    }
    done, result = compare(
        tmp_path / "ge" / "worldsize2_global_rank1", tmp_path / "fx", tmp_path / "one"
    )
    assert done.returncode == 0 and {
        r["device"] for r in rows_of(result, tensor="MatMul:output:0")
    } == {"5"}


def test_the_wrong_op_of_a_rank_is_looked_at_in_the_folder_of_its_rank(tmp_path):
    for rank in (0, 1):
        for token in (0, 1):
            graph = torchair_graph(seed=rank, fault="Relu" if rank and token else None)
            graph.write_ge(tmp_path / "ge", token, rank=(2, rank), device=rank)
            graph.write_fx(tmp_path / "fx", token, rank=(2, rank))
        graph.write_graph(tmp_path / "ge", rank=rank)
    done, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    (suspect,) = result["summary"]["suspects"]
    assert suspect["op"] == "Relu" and suspect["explanations"][0]["kind"] == "unexplained"
    words = shlex.split(done.stdout.splitlines()[-1].replace("next: ", ""))
    folder = tmp_path / "ge" / "worldsize2_global_rank1"
    assert words[1] == "compare-op" and words[2].startswith(str(folder)) and words[2][-2:] == "/1"
    looked_at = run_here([*words, "--format", "json"])
    tensors = {each["tensor"]: each["verdict"] for each in json.loads(looked_at.stdout)["tensors"]}
    assert tensors == {"Relu:input:0": "pass", "Relu:output:0": "fail"}


@pytest.mark.parametrize("form", ["newest", "data_dump"])
def test_each_graph_is_compared_with_fx_data_of_its_graph(tmp_path, form):
    for number in (1, 2):
        graph = torchair_graph("graph_%d" % number, seed=number, run="_0" if number == 2 else "")
        graph.write_ge(tmp_path / "ge")
        graph.write_fx(tmp_path / "fx", form=form)
        graph.write_graph(tmp_path / "ge")
    done, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert {r["model"] for r in rows_of(result, verdict="pass")} == {"graph_1", "graph_2_0"}


def test_a_token_without_fx_data_is_reported(tmp_path):
    graph = torchair_graph()
    for token in (0, 3):
        graph.write_ge(tmp_path / "ge", token)
    graph.write_fx(tmp_path / "fx", 0)
    graph.write_graph(tmp_path / "ge")
    done, result = compare(tmp_path / "ge", tmp_path / "fx", tmp_path / "out")
    assert done.returncode == 3 and not rows_of(result, step="3")
    assert "there is none for step 3" in done.stdout + done.stderr


def test_compare_op_accepts_a_fused_op(tmp_path):
    graph = torchair_graph()
    graph.write_ge(tmp_path / "ge")
    graph.write_fx(tmp_path / "fx")
    graph.write_graph(tmp_path / "ge")
    done = run_here(
        [
            "goldwatch",
            "compare-op",
            tmp_path / "ge",
            tmp_path / "fx",
            "AddMul",
            "-o",
            tmp_path / "out",
        ]
    )
    assert done.returncode == 0, done.stderr
    assert "AddMul:output:0" in done.stdout


def test_the_original_graph_is_shown_with_its_fx_nodes(tmp_path):
    path = torchair_graph().write_graph(tmp_path)
    done = run_here(["goldwatch", "graph", path, "-o", tmp_path / "graph.html"])
    assert done.returncode == 0, done.stderr
    assert "add-aten.add.Tensor.OUTPUT" in (tmp_path / "graph.html").read_text()
