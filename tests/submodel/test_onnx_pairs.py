"""Every cut of an ONNX model, run by onnxruntime on recorded values, against the whole model: bit
for bit.
"""

from __future__ import annotations

import io

import numpy as np
import onnx
import onnx_graphs
import pytest
from onnx import helper

from goldwatch.netfiles.onnx_ranks import Ranks
from goldwatch.recomputing.submodel.onnx_original import OnnxOriginal


@pytest.mark.parametrize("flag", [True, False])
def test_all_cuts_compute_the_whole_models_values(tmp_path, flag):
    net = onnx_graphs.branching()
    assert len(net.graph.node) >= 30
    onnx.checker.check_model(net)
    path = tmp_path / "net.onnx"
    path.write_bytes(net.SerializeToString())
    model = OnnxOriginal.read(str(path))
    feeds = {
        "x": np.random.RandomState(3).standard_normal((2, 3, 8, 8)).astype(np.float32),
        "flag": np.array(flag),
    }
    truth = onnx_graphs.all_values(net, feeds)
    known = {
        name: dtype
        for tensors, types in zip(model.tensors, model.dtypes)
        for name, dtype in zip(tensors, types)
        if name
    }
    assert known == {name: str(values.dtype) for name, values in truth.items()}
    ranks = Ranks(model.model).known
    assert all(truth[name].ndim == rank for name, rank in ranks.items() if name in truth)
    assert set(truth) - set(ranks) == {
        "io",
        "cl",
        "rm",
        "s2",
    }  # what an If gives out, and what comes of it
    told = {name: (str(values.dtype), values.shape) for name, values in truth.items()}
    cuts = compared = 0
    for start in range(len(model.names)):
        for end in sorted(model.graph.descendants([start])):
            cut = model.cut(model.graph.between([start], [end]), [start], [end])
            ends = [output.tensor for output in cut.outputs if output.is_end]
            stream = io.BytesIO()
            model.prepared(cut, told, {name: told[name] for name in ends})[0].write(stream)
            made = onnx.load_model_from_string(stream.getvalue())
            onnx.checker.check_model(made)
            assert {value.name for value in made.graph.input} == {
                entry.name for entry in cut.inputs
            }
            assert all(node.name for node in made.graph.node)
            if not made.graph.node:
                continue
            cuts += 1
            for name, values in onnx_graphs.run(
                stream.getvalue(), {entry.name: truth[entry.tensor] for entry in cut.inputs}, ends
            ).items():
                assert np.array_equal(values, truth[name]) and values.dtype == truth[name].dtype, (
                    start,
                    end,
                    name,
                )
                compared += 1
    print("%d cuts, %d values compared" % (cuts, compared))
    assert cuts > 300 and compared > 300


@pytest.mark.parametrize("given", ["input", "on", "off"])
def test_a_mode_that_only_a_run_knows_is_taken_as_an_om_computes(tmp_path, given) -> None:
    modes = [helper.make_tensor_value_info("input", onnx.TensorProto.BOOL, [])]
    values = [helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    node = helper.make_node("Dropout", ["x", "", given], ["y"], name="drop")
    stored = [onnx.numpy_helper.from_array(np.array(name == "on"), name) for name in ("on", "off")]
    graph = helper.make_graph([node], "g", [values[0], *modes], [values[1]], stored)
    opsets = [helper.make_opsetid("", 13)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    model = OnnxOriginal.read(str(path))
    assert model.is_in_training(model.names.index("drop")) == (given == "on")
