"""What is recorded of a graph's calls, tested without PyTorch."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from types import ModuleType

import jsonschema
import numpy as np
import pytest

from goldwatch.adapters.fx import npu_stand_ins
from goldwatch.adapters.fx.backend import as_array, numbered_tensors
from goldwatch.adapters.fx.recorder import Recorder, clear, fx_files
from goldwatch.base.naming import parse_fx_name
from goldwatch.dumps.golden_set import GoldenSet
from goldwatch.schemas import load_schema


class Tensor:
    """Has what tells a tensor from a number."""

    def __init__(self, values):
        self.values = np.asarray(values, np.float32)

    def detach(self):
        return self


def array_of(value):
    return value.values if isinstance(value, Tensor) else value


def test_values_are_numbered_as_torchair_numbers_them():
    tensors = [Tensor([1]), Tensor([2])]
    found = numbered_tensors(
        [Tensor([0]), tensors, 3, [4, 5], None, "x", True, [None, tensors[0]], []], array_of
    )
    assert [(numbers, np.asarray(value).tolist()) for numbers, value in found] == [
        ((0,), [0]), ((1, 0), [1]), ((1, 1), [2]), ((2,), 3), ((3,), [4, 5]), ((6,), True),
    ]  # fmt: skip


def test_pytorch_2_1_traces_code_that_asks_for_a_tensors_device(monkeypatch):
    class TorchVariable:
        def __init__(self, value):
            self.value = value

        def python_type(self):
            raise NotImplementedError("no type")

    for name in ("torch", "torch._dynamo", "torch._dynamo.variables"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    module = ModuleType("torch._dynamo.variables.torch")
    module.TorchVariable = TorchVariable
    monkeypatch.setitem(sys.modules, module.__name__, module)
    npu_stand_ins._let_old_dynamo_ask_devices(int)
    assert TorchVariable(1).python_type() is int
    with pytest.raises(NotImplementedError):
        TorchVariable("a").python_type()


def test_a_tensor_that_numpy_cannot_hold_is_left_out(monkeypatch):
    class Sparse(Tensor):
        dtype = "float32"

        def numpy(self):
            raise TypeError("can't convert Sparse layout tensor to numpy")

        cpu = resolve_conj = resolve_neg = Tensor.detach

    torch = ModuleType("torch")
    torch.Tensor, torch.bfloat16, torch.complex32 = Tensor, "bfloat16", "complex32"
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert as_array(Sparse([1])) is None


def test_files_hold_a_nodes_values_as_they_were_though_they_change_later(tmp_path):
    recorder = Recorder(str(tmp_path), {"script": "0" * 64}, "2.9.1", {1})
    graph = recorder.graph()
    assert graph.call() is None  # token 0 is not wanted
    call = graph.call()
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    call.write(
        "add_1",
        "aten.add.Tensor",
        "INPUT",
        [((0,), values), ((1, 0), np.float32(2)), ((2,), np.array("text"))],
    )
    values += 1
    call.write("add_1", "aten.add.Tensor", "OUTPUT", [((0,), values.T)])
    values[:] = np.nan
    call.close()
    recorder.close(True, python="p")
    folder = tmp_path / "worldsize1_global_rank0" / "graph_1" / "1"
    found = {
        parse_fx_name(name).op_name: np.load(str(folder / name)) for name in os.listdir(str(folder))
    }
    assert found["add_1-aten.add.Tensor.INPUT"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["add_1-aten.add.Tensor.INPUT.1"].shape == ()
    assert found["add_1-aten.add.Tensor.OUTPUT"].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert found["add_1-aten.add.Tensor.OUTPUT"].flags.c_contiguous
    manifest = json.loads((folder.parent.parent / "manifest.json").read_text())
    jsonschema.validate(manifest, load_schema("manifest"))
    for entry in manifest["tensors"]:
        data = (folder.parent.parent / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
    assert [entry["reason"] for entry in manifest["skipped"]] == ["it is no array of numbers"]
    golden = GoldenSet(str(tmp_path)).find("add_1-aten.add.Tensor.OUTPUT", 0)
    assert golden is not None and golden.kind == "npy"
    clear(str(tmp_path))
    assert fx_files(str(tmp_path)) == []


def test_the_first_node_that_makes_nan_of_finite_values_is_named(tmp_path):
    recorder = Recorder(str(tmp_path), {}, "2.9.1")
    call = recorder.graph().call()
    bad = np.array([np.nan, 1], np.float32)
    for node, read, wrote in (("log", np.ones(2, np.float32), bad), ("add", bad, bad)):
        call.write(node, "aten.%s.default" % node, "INPUT", [((0,), read)])
        call.write(node, "aten.%s.default" % node, "OUTPUT", [((0,), wrote)])
    call.close()
    recorder.close(True)
    manifest = json.loads((tmp_path / "worldsize1_global_rank0" / "manifest.json").read_text())
    assert manifest["not_finite"]["tensors"] == 2
    assert manifest["not_finite"]["first"]["tensor"] == "log-aten.log.default.OUTPUT:0"
