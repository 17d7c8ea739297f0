"""The file of an ONNX cut: copied bytes, external data, GE's names, inserted nodes, refusals."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx_graphs
import onnx_models as build
import pytest
from onnx import TensorProto, helper

from goldwatch.netfiles.onnx_model import OnnxModel
from goldwatch.netfiles.onnx_names import name_nodes

FLOAT = TensorProto.FLOAT


@pytest.fixture
def saved(tmp_path):
    """Return a function that saves a model beside the cuts."""

    def save(proto):
        return build.save(tmp_path / "net.onnx", proto)

    return save


def load(folder):
    made = onnx.load(os.path.join(folder, "dump.onnx"))
    onnx.checker.check_model(os.path.join(folder, "dump.onnx"))
    return made


def test_a_cut_consists_of_the_models_bytes(exported, saved):
    net = onnx.shape_inference.infer_shapes(onnx_graphs.branching())
    net.graph.value_info.extend(
        build.value(name, (2, 4), dtype)
        for name, dtype in (("tv", FLOAT), ("ti", TensorProto.INT64))
    )
    net.metadata_props.add(key="who", value="me")
    saved(net)
    folder, document = exported("--start", "split", "--end", "topk", model="net.onnx")
    made = load(folder)
    assert (made.ir_version, made.opset_import, made.metadata_props) == (
        net.ir_version,
        net.opset_import,
        net.metadata_props,
    )
    theirs = {
        node.output[-1] or node.output[0]: node.SerializeToString() for node in net.graph.node
    }
    for node in made.graph.node:
        if node.name == "Mul_2":
            node.ClearField("name")
        if node.name != "Constant_1":
            assert node.SerializeToString() == theirs[node.output[-1] or node.output[0]]
    weights = {tensor.name: tensor.SerializeToString() for tensor in net.graph.initializer}
    kept = {tensor.name: tensor.SerializeToString() for tensor in made.graph.initializer}
    assert set(kept) == {"zero", "minus", "wm", "four"} and all(
        weights[name] == data for name, data in kept.items()
    )
    assert [layer["name"] for layer in document["layers"]][:4] == ["split", "sig", "mul", "cat"]
    (entry,) = document["inputs"]
    assert (entry["name"], entry["tensor"], entry["producer"]) == (
        "r1",
        "r1",
        {"op": "Relu_0", "output_index": 0},
    )
    assert document["model"]["kind"] == "onnx" and document["next"]["atc"][:3] == [
        "atc",
        "--framework=5",
        "--model=dump.onnx",
    ]
    assert document["next"]["golden"][:5] == ["goldwatch", "golden", "onnx", "dump", "dump.onnx"]
    assert [output["output_index"] for output in document["outputs"] if output["is_end"]] == [0, 1]


def test_external_data_is_copied_by_range(exported, tmp_path):
    net = onnx_graphs.branching()
    build.with_external(
        tmp_path / "net.onnx", onnx.shape_inference.infer_shapes(net), location="net.data"
    )
    whole = os.path.getsize(str(tmp_path / "net.data"))
    folder, _ = exported("--start", "conv1", "--end", "bn1", model="net.onnx")
    made = load(folder)
    ours = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    theirs = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx_graphs.branching().graph.initializer
    }
    assert set(ours) == {"w1", "b1", "scale", "shift", "mean", "variance"}
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert os.path.getsize(os.path.join(folder, "dump.onnx.data")) < whole
    assert "dump.onnx.data" not in os.listdir(
        exported("--start", "Relu_0", "--end", "Relu_0", model="net.onnx")[0]
    )


def test_external_data_of_bodies_and_attributes_is_copied(exported, tmp_path):
    net = onnx_graphs.branching()
    onnx.save_model(
        net,
        str(tmp_path / "net.onnx"),
        save_as_external_data=True,
        location="net.data",
        size_threshold=0,
        convert_attribute=True,
    )
    folder, _ = exported("--start", "cond", "--end", "clip", "--shape", "mix=2,4", model="net.onnx")
    (node,) = [
        node
        for node in onnx.load(os.path.join(folder, "dump.onnx")).graph.node
        if node.op_type == "If"
    ]
    (half,) = [tensor for attribute in node.attribute for tensor in attribute.g.initializer]
    assert onnx.numpy_helper.to_array(half) == 0.5
    folder, _ = exported(
        "--start", "Mul_2", "--end", "Mul_2", "--shape", "fl=2,128", model="net.onnx"
    )
    (value,) = onnx.load(os.path.join(folder, "dump.onnx")).graph.node[0].attribute
    assert onnx.numpy_helper.to_array(value.t) == 0.5


def test_weights_that_are_inputs_too_stay_both(exported, saved):
    weight = build.weight("w", np.ones((2, 3), np.float32))
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="r"),
        helper.make_node("Mul", ["a", "w"], ["y"], name="m"),
    ]
    saved(
        build.model(
            nodes, [build.value("x"), build.value("w")], [build.value("y")], [weight], ir_version=3
        )
    )
    folder, document = exported("--start", "m", "--end", "m", "--shape", "a=2,3", model="net.onnx")
    made = load(folder)
    assert [value.name for value in made.graph.input] == ["w", "a"] and [
        entry["name"] for entry in document["inputs"]
    ] == ["a"]


def test_functions_and_custom_ops_are_copied(exported, saved):
    added = helper.make_node("Add", ["p", "p"], ["q"])
    function = helper.make_function(
        "mine", "Twice", ["p"], ["q"], [added], [helper.make_opsetid("", 17)]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="r"),
        helper.make_node("Twice", ["a"], ["b"], name="twice", domain="mine"),
        helper.make_node("Abs", ["b"], ["y"], name="abs"),
    ]
    net = build.model(nodes, [build.value("x")], [build.value("y")], domains=["mine"])
    net.functions.append(function)
    saved(net)
    folder, document = exported(
        "--start", "twice", "--end", "abs", "--shape", "a=2,3", model="net.onnx"
    )
    made = load(folder)
    assert made.functions == net.functions
    x = np.float32([[-1, 2, 3], [4, 5, -6]])
    assert np.array_equal(
        onnx_graphs.run(made.SerializeToString(), {"a": x}, ["y"])["y"], 2 * np.abs(x)
    )
    assert [entry["dtype"] for entry in document["inputs"]] == ["float32"]


def test_unknown_types_and_shapes_come_from_golden_data_or_given_values(
    cut, exported, saved, tmp_path
):
    """Of a value that a custom op gives out nobody knows type and shape; without golden data or
    values the cut says so.
    """
    nodes = [
        helper.make_node("Odd", ["x"], ["a"], name="odd", domain="mine"),
        helper.make_node("Abs", ["a"], ["b"], name="abs"),
        helper.make_node("Neg", ["b"], ["y"], name="neg"),
    ]
    saved(build.model(nodes, [build.value("x")], [build.value("y")], domains=["mine"]))
    done = cut("--start", "abs", "--end", "abs", "--shape", "a=2,3", model="net.onnx", code=4)
    assert (
        "the type of input a is unknown: no table knows what an op like that of odd gives out"
        in done.stderr
    )
    np.save(str(tmp_path / "a.npy"), np.ones((2, 3), np.float16))
    (entry,) = exported("--start", "abs", "--end", "abs", "--input", "a=a.npy", model="net.onnx")[
        1
    ]["inputs"]
    assert (entry["dtype"], entry["shape"], entry["from"]) == ("float16", [2, 3], "user")
    (tmp_path / "golden").mkdir()
    for name in ("odd", "abs"):
        np.save(
            str(tmp_path / "golden" / (name + ".0.1700000000000000.npy")),
            np.ones((2, 3), np.float32),
        )
    folder, _ = exported("--start", "abs", "--end", "abs", "--golden", "golden", model="net.onnx")
    assert [dim.dim_value for dim in load(folder).graph.output[0].type.tensor_type.shape.dim] == [
        2,
        3,
    ]


def test_a_dynamic_input_gets_the_shape_of_the_run(exported, saved, tmp_path):
    net = build.model(
        [helper.make_node("Relu", ["x"], ["a"], name="r")],
        [build.value("x", ("batch", 3))],
        [build.value("a", ("batch", 3))],
    )
    saved(net)
    folder, document = exported("--start", "x", "--end", "r", "--shape", "x=4,3", model="net.onnx")
    made = load(folder)
    assert [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim] == [4, 3]
    assert made.graph.output[0] == net.graph.output[0]
    assert [layer["name"] for layer in document["layers"]] == ["x", "r"] and document["inputs"][0][
        "producer"
    ]["op"] == "x"


def test_float16_inputs_stay_float16(exported, saved, tmp_path):
    half = TensorProto.FLOAT16
    net = build.model(
        [helper.make_node("Relu", ["x"], ["y"], name="r")],
        [build.value("x", (2,), half)],
        [build.value("y", (2,), half)],
    )
    saved(net)
    np.save(str(tmp_path / "x.npy"), np.float16([1, -2]))
    _, document = exported(
        "--start", "r", "--end", "r", "--input", "x=x.npy", "--bin", "float32", model="net.onnx"
    )
    (entry,) = document["inputs"]
    assert (entry["dtype"], entry["bin_dtype"]) == ("float16", "float16")
    assert not any("fp16_nodes" in word for word in document["next"]["atc"])


def loop():
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "k"], ["v2"], name="step"),
            helper.make_node("Identity", ["c"], ["c2"], name="keep"),
        ],
        "body",
        [
            build.value("i", (), TensorProto.INT64),
            build.value("c", (), TensorProto.BOOL),
            build.value("v"),
        ],
        [build.value("c2", (), TensorProto.BOOL), build.value("v2")],
    )
    weights = [build.weight("n", np.int64(3)), build.weight("go", np.bool_(True))]
    nodes = [
        helper.make_node("Relu", ["x"], ["k"], name="r"),
        helper.make_node("Loop", ["n", "go", "x"], ["out"], name="loop", body=body),
        helper.make_node("Abs", ["out"], ["y"], name="abs"),
    ]
    return build.model(nodes, [build.value("x")], [build.value("y")], weights)


def test_outer_values_that_a_body_reads_become_inputs(exported, saved):
    saved(loop())
    folder, document = exported(
        "--start", "loop", "--end", "abs", "--shape", "k=2,3", model="net.onnx"
    )
    made = load(folder)
    assert sorted(entry["name"] for entry in document["inputs"]) == ["k", "x"]
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(
        onnx_graphs.run(made.SerializeToString(), {"x": x, "k": 2 * x}, ["y"])["y"], 7 * x
    )


@pytest.mark.parametrize(
    ("make", "words", "text"),
    [
        (loop, ["step", "abs"], "start step is a node in the body of loop, which is not cut"),
        (
            onnx_graphs.branching,
            ["cond_0_then_branch/neg", "mean"],
            "is a node in the body of cond, which is not cut",
        ),
        (onnx_graphs.branching, ["bn1", "conv1"], "no path"),
        (onnx_graphs.branching, ["Relu_7", "last"], "no such node in"),
        (onnx_graphs.branching, ["mm1", "ad"], "end ad is a value of node add/with:odd.name"),
    ],
)
def test_nodes_that_cannot_be_start_or_end_are_refused(cut, saved, make, words, text):
    saved(make())
    done = cut("--start", words[0], "--end", words[1], model="net.onnx", code=4)
    assert text in done.stderr


@pytest.mark.parametrize("declared", [True, False])
def test_a_cut_through_sequences_or_strings_is_refused(cut, saved, declared):
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], name="many", axis=0),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], name="one", axis=0),
    ]
    saved(
        build.model(nodes, [build.value("x")], [build.value("y")], value_info=[sequence] * declared)
    )
    for words in (("many", "many"), ("one", "one")):
        done = cut("--start", words[0], "--end", words[1], model="net.onnx", code=4)
        assert "s crosses the border and is a sequence, no tensor of numbers" in done.stderr
    cut("--start", "many", "--end", "one", model="net.onnx")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04rest", "a zip file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (onnx_graphs.branching().SerializeToString()[:-9], "cut short"),
    ],
)
def test_files_that_are_no_onnx_model_are_refused(cut, tmp_path, data, text):
    (tmp_path / "net.onnx").write_bytes(data)
    assert text in cut("--start", "a", "--end", "a", model="net.onnx", code=4).stderr


def test_an_onnx_file_without_its_ending_is_recognised(cut, saved, tmp_path):
    os.rename(saved(onnx_graphs.branching()), str(tmp_path / "model"))
    assert "\tRelu_0\tRelu\t" in cut("--list", model="model", out=False).stdout
    dry = cut(
        "--start", "x", "--end", "conv1", "--dry-run", "-q", model="model", out=False
    ).stdout.splitlines()
    assert dry == [
        "dump.onnx: 2 nodes, x … conv1",
        "input x: float32 [2, 3, 8, 8], no values",
        "submodel.json",
    ]


def clashing(reader):
    """A model whose value ``b`` is read by ``reader``; a node behind is called ``b``, and ``b_1``
    is taken, too.
    """
    nodes = [
        helper.make_node("Relu", ["x"], ["b"], name="a"),
        reader,
        helper.make_node("Add", ["b_1", "b"], ["y"], name="sum"),
    ]
    return build.model(nodes, [build.value("x")], [build.value("y")])


def test_an_input_called_like_a_remaining_node_is_renamed(exported, saved, tmp_path):
    """atc refuses a name that is repeated (E19009), and so does what makes golden data of the
    cut.
    """
    saved(clashing(helper.make_node("Neg", ["b"], ["b_1"], name="b")))
    x = np.float32([[-1, 2, 3], [4, 5, -6]])
    np.save(str(tmp_path / "x.npy"), x)
    folder, document = exported(
        "--start", "b", "--end", "sum", "--input", "b=x.npy", model="net.onnx"
    )
    made = load(folder)
    name_nodes(OnnxModel(os.path.join(folder, "dump.onnx")))
    (entry,) = document["inputs"]
    assert (entry["name"], entry["tensor"], entry["npy"]) == ("b_2", "b", "input_data/b_2.npy")
    assert [node.name for node in made.graph.node] == [
        "b",
        "sum",
    ] and "b_2=input_data/b_2.npy" in document["next"]["golden"]
    assert [warning["code"] for warning in document["warnings"]] == ["renamed-input"]
    assert np.array_equal(
        onnx_graphs.run(made.SerializeToString(), {"b_2": x}, ["y"])["y"], np.zeros_like(x)
    )


def test_an_input_that_a_body_reads_by_a_nodes_name_is_refused(cut, saved):
    body = helper.make_graph(
        [helper.make_node("Neg", ["b"], ["n"], name="neg")], "body", [], [build.value("n")]
    )
    net = clashing(
        helper.make_node("If", ["go"], ["b_1"], name="b", then_branch=body, else_branch=body)
    )
    net.graph.input.append(build.value("go", (), TensorProto.BOOL))
    saved(net)
    done = cut("--start", "b", "--end", "sum", model="net.onnx", code=4)
    assert (
        "b comes in, a body of b reads it, and a node that stays has the same name" in done.stderr
    )
    assert "start before the node that makes it" in done.stderr
    cut("--start", "a", "--end", "sum", model="net.onnx")


def test_int4_inputs_stay_int4(exported, saved, tmp_path):
    """numpy has no int4; golden data hold it as int8, which is what golden data of the cut are made
    from.
    """
    zero = onnx.TensorProto(name="zero", data_type=22, int32_data=[0])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quant"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], name="dequant"),
    ]
    weights = [build.weight("scale", np.float32(0.5)), zero]
    saved(
        build.model(nodes, [build.value("x")], [build.value("y")], weights, opset=21, ir_version=10)
    )
    (tmp_path / "golden").mkdir()
    for name, dtype in (("quant", np.int8), ("dequant", np.float32)):
        np.save(
            str(tmp_path / "golden" / (name + ".0.1700000000000000.npy")),
            np.full((2, 3), -7, dtype),
        )
    folder, document = exported(
        "--start", "dequant", "--end", "dequant", "--golden", "golden", model="net.onnx"
    )
    (entry,) = document["inputs"]
    assert (entry["dtype"], entry["bin_dtype"]) == ("int4", "int8")
    assert not any("fp16_nodes" in word for word in document["next"]["atc"])
    stored = np.load(os.path.join(folder, entry["npy"]))
    assert stored.dtype == np.int8 and (stored == -7).all()
