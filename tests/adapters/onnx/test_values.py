"""Every value is saved under GE's name, bit for bit as onnxruntime computes it without
optimisation.
"""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import onnx
import onnx_models as build
import onnx_networks as networks
import pytest
from onnx import TensorProto, helper
from onnx_golden import VERSION, run_unoptimised

from goldwatch.adapters.nonfinite import count_not_finite
from goldwatch.schemas import load_schema

node = helper.make_node


def chain(*ops, dtype=TensorProto.FLOAT, **options):
    """A chain of nodes of one input, ``(op type, name, attributes)``."""
    nodes = [
        node(op, ["v%d" % n], ["v%d" % (n + 1)], name=name, **attrs)
        for n, (op, name, attrs) in enumerate(ops)
    ]
    proto = build.model(
        nodes, [build.value("v0", dtype=dtype)], [build.value("v%d" % len(ops), None)], **options
    )
    proto.graph.output[0].ClearField("type")
    return proto


def test_nodes_are_called_as_ge_calls_them(tmp_path, golden):
    ops = [
        ("Relu", "", {}),
        ("Mul", "named/Mul", {}),
        ("Identity", "", {}),
        ("Abs", "b", {}),
        ("Neg", "", {}),
    ]
    proto = chain(*ops)
    proto.graph.node[1].input.append("v0")
    proto.graph.node.insert(
        1, node("Constant", [], ["k"], value=build.weight("", np.ones(2, np.float32)))
    )
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    assert found.names == ["v0:0", "Relu_0:0", "named/Mul:0", "Identity_2:0", "b:0", "Neg_3:0"]
    assert found.skipped == {"Constant_1": "a Constant, which the device never dumps"}
    assert found.entries["named/Mul", 0]["file"].startswith("named_Mul.0.")
    jsonschema.validate(found.manifest, load_schema("manifest"))


@pytest.mark.parametrize(
    "proto", [networks.cnn(2), networks.transformer()], ids=["cnn", "transformer"]
)
def test_every_value_equals_a_plain_run_bit_for_bit(tmp_path, golden, proto):
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "3")
    expected = run_unoptimised(proto, {"x": found["x"]})
    by_value = {entry["value"]: found.arrays[key] for key, entry in found.entries.items()}
    assert by_value["y"].tobytes() == expected["y"].tobytes()
    for each in proto.graph.node:
        if each.op_type != "Constant":
            # The value as the only further output of a session of its own.
            alone = build.with_outputs(proto, each.output[0])
            assert (
                by_value[each.output[0]].tobytes()
                == run_unoptimised(alone, {"x": found["x"]})[each.output[0]].tobytes()
            )
    options = found.manifest["options"]
    assert (options["optimisation"], options["provider"], options["slices"]) == (
        "ORT_DISABLE_ALL",
        "CPUExecutionProvider",
        1,
    )


@pytest.mark.parametrize(
    "proto",
    [networks.cnn(2), networks.transformer(), networks.cnn()],
    ids=["cnn", "transformer", "dynamic"],
)
def test_slices_and_threads_change_no_bit_of_a_value(tmp_path, golden, proto):
    path = build.save(tmp_path / "m.onnx", proto)
    words = [
        "--random",
        "3",
        "--shape",
        "x="
        + ",".join(
            str(dim.dim_value or 2) for dim in proto.graph.input[0].type.tensor_type.shape.dim
        ),
    ]
    whole = golden(path, *words, "--threads", "1", out="whole")
    sliced = golden(path, *words, "--threads", "2", "--memory", "1", out="sliced")
    assert whole.names == sliced.names
    for key, array in whole.arrays.items():
        assert array.tobytes() == sliced.arrays[key].tobytes()


def test_values_beyond_the_memory_limit_are_computed_in_slices(tmp_path, golden):
    """Eight values of 512 KiB, of which one MiB holds two; the shape of the last ones is only known
    when the model runs.
    """
    nodes = [node("Relu", ["x"], ["v0"])] + [
        node("Abs", ["v%d" % n], ["v%d" % (n + 1)]) for n in range(5)
    ]
    nodes += [node("NonZero", ["v5"], ["z"]), node("Cast", ["z"], ["f"], to=TensorProto.FLOAT)]
    proto = build.model(nodes, [build.value("x", (128, 1024))], [build.value("f", None)])
    path = build.save(tmp_path / "m.onnx", proto)
    array = np.zeros((128, 1024), np.float32)
    array[::2, ::2] = 1
    np.save(str(tmp_path / "x.npy"), array)
    whole = golden(path, "--input", "x=x.npy", out="whole")
    sliced = golden(path, "--input", "x=x.npy", "--memory", "1", out="sliced")
    assert (whole.manifest["options"]["slices"], sliced.manifest["options"]["slices"]) == (1, 4)
    assert whole["NonZero_6"].shape == (2, 32768)
    assert all(
        array.tobytes() == sliced.arrays[key].tobytes() for key, array in whole.arrays.items()
    )


def test_a_quantised_network_is_computed_step_by_step(tmp_path, golden):
    """With its default optimisation onnxruntime computes Q(DQ·DQ) in integers, a quantisation step
    off.
    """
    state = np.random.RandomState(5)
    weights = {
        "w": state.standard_normal((8, 4, 3, 3)).astype(np.float32),
        "s": np.float32(0.05),
        "z": np.uint8(128),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"], name="q"),
        node("DequantizeLinear", ["xq", "s", "z"], ["xd"], name="dq"),
        node("Conv", ["xd", "w"], ["c"], name="conv"),
        node("QuantizeLinear", ["c", "s", "z"], ["cq"], name="cq"),
        node("DequantizeLinear", ["cq", "s", "z"], ["y"], name="y"),
    ]
    initializers = [build.weight(name, array) for name, array in weights.items()]
    proto = build.model(
        nodes, [build.value("x", (1, 4, 8, 8))], [build.value("y", None)], initializers
    )
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    x = found["x"].astype(np.float64)
    quantised = np.clip(np.rint(x / np.float64(np.float32(0.05))) + 128, 0, 255).astype(np.uint8)
    assert found["q"].dtype == np.uint8 and np.array_equal(found["q"], quantised)
    dequantised = (quantised.astype(np.float64) - 128) * np.float64(np.float32(0.05))
    slow = np.zeros((1, 8, 6, 6))
    for row in range(3):
        for column in range(3):
            window = dequantised[:, :, row : row + 6, column : column + 6]
            slow += np.einsum(
                "bchw,oc->bohw", window, weights["w"][:, :, row, column].astype(np.float64)
            )
    assert np.abs(found["conv"] - slow).max() < 1e-5
    assert np.array_equal(
        found["cq"],
        np.clip(np.rint(found["conv"] / np.float32(0.05)) + 128, 0, 255).astype(np.uint8),
    )


def test_outputs_after_an_omitted_one_keep_their_number(tmp_path, golden):
    weights = [
        build.weight("w", np.ones((1, 16, 3), np.float32)),
        build.weight("r", np.ones((1, 16, 4), np.float32)),
    ]
    lstm = node("LSTM", ["x", "w", "r"], ["", "", "c"], name="lstm", hidden_size=4)
    proto = build.model(
        [lstm], [build.value("x", (5, 1, 3))], [build.value("c", (1, 1, 4))], weights
    )
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    assert found.names == ["x:0", "lstm:2"] and set(found.skipped) == {"w", "r"}


def test_empty_and_scalar_values_are_written(tmp_path, golden):
    nodes = [
        node("NonZero", ["x"], ["z"], name="none"),
        node("ReduceSum", ["x"], ["s"], name="sum", keepdims=0),
    ]
    proto = build.model(
        nodes,
        [build.value("x")],
        [build.value("z", None, TensorProto.INT64), build.value("s", None)],
    )
    np.save(str(tmp_path / "x.npy"), np.zeros((2, 3), np.float32))
    found = golden(build.save(tmp_path / "m.onnx", proto), "--input", "x=x.npy")
    assert (
        found["none"].shape == (2, 0)
        and found["none"].dtype == np.int64
        and found["sum"].shape == ()
    )


def test_values_that_no_dump_holds_are_skipped_with_the_reason(tmp_path, golden):
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["list"], name="list"),
        node("SequenceAt", ["list", "zero"], ["y"], name="at"),
        node("Constant", [], ["words"], name="words", value_strings=["a", "b"]),
        node("Identity", ["words"], ["same"], name="same"),
    ]
    proto = build.model(
        nodes, [build.value("x")], [build.value("y", None)], [build.weight("zero", np.int64(0))]
    )
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    assert found.names == ["x:0", "at:0"]
    assert found.skipped["list:0"] == "a value of type seq(tensor(float)), which no dump holds"
    assert found.skipped["same:0"] == "a value of type tensor(string), which no dump holds"


def test_the_branch_taken_by_an_if_is_written_under_ge_s_names(tmp_path, golden):
    proto = build.branches("")
    # The same domain by its other name.
    proto.graph.node[1].domain = "ai.onnx"
    path = build.save(tmp_path / "m.onnx", proto)
    np.save(str(tmp_path / "x.npy"), np.arange(-3, 3, dtype=np.float32).reshape(2, 3))
    for taken in (True, False):
        np.save(str(tmp_path / "c.npy"), np.array(taken))
        found = golden(path, "--input", "x=x.npy", "--input", "c=c.npy", out=str(taken))
        then = {"If_1_0_then_branch/r:0", "If_1_0_then_branch/Neg_4:0"}
        other = {"If_1_1_else_branch/Abs_3:0"}
        assert set(found.names) == {"x:0", "c:0", "Relu_0:0", "If_1:0", "Add_2:0"} | (
            then if taken else other
        )
        reason = "of the branch of If_1 that was not taken"
        assert found.skipped == dict.fromkeys(other if taken else then, reason)
        last = "If_1_0_then_branch/Neg_4" if taken else "If_1_1_else_branch/Abs_3"
        assert np.array_equal(found[last], found["If_1"])
        assert np.array_equal(
            found["If_1"], -np.maximum(found["x"], 0) if taken else np.abs(found["x"])
        )


def test_nested_ifs_and_values_of_the_same_name_are_kept_apart(tmp_path, golden):
    """Both bodies call their values alike; the inner If reads a value of the body around it."""

    def body(name, *nodes):
        return helper.make_graph(list(nodes), name, [], [build.value("t", None)])

    inner = node(
        "If",
        ["d"],
        ["t"],
        name="inner",
        then_branch=body("a", node("Neg", ["u"], ["t"])),
        else_branch=body("b", node("Abs", ["u"], ["t"])),
    )
    flag = node("Not", ["c"], ["d"], name="not")
    outer = node(
        "If", ["c"], ["y"], name="outer",
        then_branch=body("c", flag, node("Relu", ["x"], ["u"], name="u"), inner),
        else_branch=body("d", node("Sign", ["x"], ["t"], name="sign")),
    )  # fmt: skip
    proto = build.model(
        [outer],
        [build.value("x"), build.value("c", (), TensorProto.BOOL)],
        [build.value("y", None)],
    )
    np.save(str(tmp_path / "c.npy"), np.array(True))
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "2", "--input", "c=c.npy")
    prefix = "outer_0_then_branch/"
    assert [name for name in found.names if name.startswith(prefix)] == [
        prefix + "not:0", prefix + "u:0", prefix + "inner_1_else_branch/Abs_0:0",
        prefix + "inner:0",
    ]  # fmt: skip
    assert np.array_equal(found[prefix + "inner_1_else_branch/Abs_0"], np.maximum(found["x"], 0))
    assert set(found.skipped) == {
        prefix + "inner_0_then_branch/Neg_1:0",
        "outer_1_else_branch/sign:0",
    }


def test_the_body_of_a_loop_is_skipped(tmp_path, golden):
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["sum", "x"], ["next"], name="add")],
        "body",
        [
            build.value("i", (), TensorProto.INT64),
            build.value("go", (), TensorProto.BOOL),
            build.value("sum"),
        ],
        [build.value("on", (), TensorProto.BOOL), build.value("next")],
    )
    loop = node("Loop", ["n", "", "zero"], ["y"], name="loop", body=body)
    initializers = [
        build.weight("n", np.int64(3)),
        build.weight("zero", np.zeros((2, 3), np.float32)),
    ]
    proto = build.model([loop], [build.value("x")], [build.value("y", None)], initializers)
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "2")
    reason = "in the body of loop (Loop), which atc cannot convert"
    assert found.names == ["x:0", "loop:0"]
    assert {name: text for name, text in found.skipped.items() if "/" in name} == {
        "loop/body/Identity_0:0": reason,
        "loop/body/add:0": reason,
    }
    x = found["x"]
    assert np.array_equal(found["loop"], np.zeros((2, 3), np.float32) + x + x + x)


def test_random_values_are_the_same_in_every_run_and_flagged(tmp_path, golden):
    nodes = [
        node("RandomNormalLike", ["x"], ["n"], name="noise"),
        node("Add", ["n", "x"], ["a"], name="behind"),
        node("Dropout", ["x", "", "off"], ["d0"], name="test"),
        node("Dropout", ["x", "", "on"], ["d1"], name="train"),
        node("Relu", ["x"], ["r"], name="beside"),
    ]
    initializers = [build.weight("on", np.array(True)), build.weight("off", np.array(False))]
    outputs = [build.value(name, None) for name in ("a", "d0", "d1", "r")]
    path = build.save(
        tmp_path / "m.onnx", build.model(nodes, [build.value("x", (4, 256))], outputs, initializers)
    )
    first = golden(path, "--random", "2", out="first")
    again = golden(path, "--random", "2", out="again")
    assert all(
        array.tobytes() == again.arrays[key].tobytes() for key, array in first.arrays.items()
    )
    flagged = {name for (name, _), entry in first.entries.items() if entry.get("nondeterministic")}
    assert flagged == {"noise", "behind", "train"}
    other = golden(path, "--random", "3", out="other")
    assert not np.array_equal(first["noise"], other["noise"])


def test_names_that_share_a_file_are_parked_and_long_names_are_hashed(tmp_path, golden):
    long_name = "l" * 300
    proto = chain(("Relu", "a/b", {}), ("Neg", "a_b", {}), ("Abs", long_name, {}))
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    mapping = (tmp_path / "golden" / "mapping.csv").read_text()
    assert (
        "a_b-parked-1.0." in mapping
        and "a_b-parked-2.0." in mapping
        and long_name + ".0." in mapping
    )
    assert set(found.names) == {"v0:0", "a/b:0", "a_b:0", long_name + ":0"}
    assert all(
        entry["file"].split(".")[0].isdigit()
        for key, entry in found.entries.items()
        if key[0] != "v0"
    )


NARROW = [("bfloat16", TensorProto.BFLOAT16, [1.0, -2.5, 0.10009765625, 65536.0], 17, 8)]
if VERSION >= (1, 19):
    NARROW += [
        ("float8e4m3fn", TensorProto.FLOAT8E4M3FN, [1.0, -2.5, 0.1015625, 448.0], 19, 9),
        ("float8e5m2", TensorProto.FLOAT8E5M2, [1.0, -2.5, 0.09375, 57344.0], 19, 9),
        ("int4", TensorProto.INT4, [1, -8, 7, 0, -3], 21, 10),
        ("uint4", TensorProto.UINT4, [1, 15, 7, 0, 3], 21, 10),
    ]


@pytest.mark.parametrize(("name", "code", "values", "opset", "ir_version"), NARROW)
def test_types_that_numpy_lacks_are_saved_exactly(
    tmp_path, golden, name, code, values, opset, ir_version
):
    proto = chain(
        ("Cast", "narrow", {"to": code}),
        ("Cast", "wide", {"to": TensorProto.FLOAT}),
        opset=opset,
        ir_version=ir_version,
    )
    del proto.graph.input[0].type.tensor_type.shape.dim[1:]
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = len(values)
    np.save(str(tmp_path / "x.npy"), np.array(values, np.float32))
    found = golden(build.save(tmp_path / "m.onnx", proto), "--input", "v0=x.npy")
    assert found["narrow"].tolist() == values == found["wide"].tolist()
    entry = found.entries["narrow", 0]
    assert entry["source_dtype"] == name and entry["dtype"] == (
        "float32" if "float" in name else "int8" if name == "int4" else "uint8"
    )


def test_a_value_rounded_to_bfloat16_stays_rounded_in_later_nodes(tmp_path, golden):
    """onnxruntime 1.14 drops two Casts that undo each other, unless the value between them is asked
    for.
    """
    proto = chain(
        ("Cast", "narrow", {"to": TensorProto.BFLOAT16}),
        ("Cast", "wide", {"to": TensorProto.FLOAT}),
    )
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "5")
    bits = found["v0"].view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    assert np.array_equal(found["narrow"], rounded) and np.array_equal(found["wide"], rounded)


def test_an_input_of_a_type_that_numpy_lacks_is_fed(tmp_path, golden):
    proto = chain(("Cast", "wide", {"to": TensorProto.FLOAT}), dtype=TensorProto.BFLOAT16)
    np.save(str(tmp_path / "x.npy"), np.array([[1.0, -2.5, 0.1], [3.0, 4.0, 1e30]], np.float32))
    found = golden(build.save(tmp_path / "m.onnx", proto), "--input", "v0=x.npy")
    assert found["wide"].tolist()[0] == [1.0, -2.5, 0.10009765625] and np.array_equal(
        found["v0"], found["wide"]
    )
    data = (tmp_path / "golden" / "inputs" / "v0.bin").read_bytes()
    assert np.array_equal(
        (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(2, 3),
        found["v0"],
    )
    again = golden(
        str(tmp_path / "m.onnx"), "--inputs", str(tmp_path / "golden" / "inputs"), out="again"
    )
    assert np.array_equal(again["wide"], found["wide"])


@pytest.mark.parametrize("proto", [networks.transformer()], ids=["transformer"])
def test_the_reference_backend_agrees_with_onnxruntime(tmp_path, golden, proto):
    path = build.save(tmp_path / "m.onnx", proto)
    fast = golden(path, "--random", "3", out="fast")
    slow = golden(path, "--random", "3", "--backend", "reference", out="slow")
    assert slow.manifest["backend"] == "onnx.reference" and fast.names == slow.names
    for key, array in fast.arrays.items():
        assert np.abs(array - slow.arrays[key]).max() <= 2e-6 * max(1, np.abs(array).max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8e8m0", "float6e2m3", "float6e3m2"])
def test_the_reference_backend_computes_types_that_onnxruntime_lacks(
    tmp_path, golden, refused, dtype
):
    code = getattr(TensorProto, dtype.upper(), None)
    if code is None:
        pytest.skip("onnx %s has no %s" % (onnx.__version__, dtype))
    nodes = [
        node("Cast", ["x"], ["n"], name="narrow", to=code),
        node("Cast", ["n"], ["y"], name="wide", to=TensorProto.FLOAT),
        node("Cast", ["w"], ["v"], name="weights", to=TensorProto.FLOAT),
    ]
    inputs, outputs = [build.value("x", (2, 4))], [build.value("y", None), build.value("v", None)]
    weights = helper.make_tensor("w", code, [4], [0.5, 1.0, 2.0, 4.0])
    newest = onnx.defs.onnx_opset_version()
    proto = build.model(nodes, inputs, outputs, [weights], opset=newest, ir_version=onnx.IR_VERSION)
    path = build.save(tmp_path / "m.onnx", proto)
    np.save(str(tmp_path / "x.npy"), np.exp2(np.arange(8) % 3).reshape(2, 4).astype(np.float32))
    if dtype.startswith("float6"):
        text = refused(path, "--input", "x=x.npy")
        assert "lacks the type %s\n" % dtype in text and "use --backend reference" in text
    found = golden(path, "--input", "x=x.npy", "--backend", "reference")
    assert found.entries["narrow", 0]["source_dtype"] == dtype
    assert np.array_equal(found["narrow"], found["wide"]) and (found["x"] == found["wide"]).all()
    assert found["weights"].tolist() == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("where", ["graph", "function", "branch"])
def test_the_reference_backend_sums_narrow_types_in_float32(tmp_path, golden, dtype, where):
    code = getattr(TensorProto, dtype.upper())
    wide = np.random.RandomState(0).standard_normal((4, 4096)).astype(np.float32) + 1
    # Values that both types hold.
    x = (wide.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float16)
    np.save(str(tmp_path / "x.npy"), x.astype(np.float32))
    body = [
        node("Cast", ["x"], ["n"], name="narrow", to=code),
        node("ReduceMean", ["n"], ["m"], name="mean", axes=[1]),
        node("Softmax", ["n"], ["s"], name="soft"),
        node("Cast", ["m"], ["mean_out"], name="mean_wide", to=1),
        node("Cast", ["s"], ["soft_out"], name="soft_wide", to=1),
    ]
    inputs = [build.value("x", (4, 4096))]
    outputs = [build.value("mean_out", None), build.value("soft_out", None)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = []
    names = [each.name for each in outputs]
    if where == "function":
        functions = [helper.make_function("my", "Block", ["x"], names, body, opsets[:1])]
        body = [node("Block", ["x"], names, name="blk", domain="my")]
    if where == "branch":
        branch = helper.make_graph(body, "b", [], outputs)
        inner = [name + "_of_branch" for name in names]
        for old, new in zip(outputs, inner):
            old.name = new
        body = [
            node("Constant", [], ["yes"], value=helper.make_tensor("", 9, [], [True])),
            node("If", ["yes"], inner, name="choice", then_branch=branch, else_branch=branch),
        ]
        names = inner
    graph = helper.make_graph(body, "g", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)
    path = build.save(tmp_path / "m.onnx", proto)
    found = golden(path, "--input", "x=x.npy", "--backend", "reference")
    assert "rounded to their type after each node" in found.manifest["options"]["arithmetic"]
    by_value = {
        entry["value"]: found.arrays[entry["original_name"], entry["output_index"]]
        for entry in found.manifest["tensors"]
    }
    exact = x.astype(np.float64)
    exponents = np.exp(exact - exact.max(axis=1, keepdims=True))
    step = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    for name, expected in zip(
        names,
        [exact.mean(axis=1, keepdims=True), exponents / exponents.sum(axis=1, keepdims=True)],
    ):
        # Half a step of the type, which near zero is that of float16's smallest values.
        limit = np.maximum(step * expected, 2.0**-25 if dtype == "float16" else 0)
        assert np.all(np.abs(by_value[name] - expected) <= 1.01 * limit)


def test_external_data_is_read_in_place_and_noted_in_the_manifest(tmp_path, golden, monkeypatch):
    proto = networks.cnn(2)
    inside = golden(build.save(tmp_path / "m.onnx", proto), "--random", "3", out="inside")
    folder = tmp_path / "model"
    folder.mkdir()
    path = build.with_external(folder / "m.onnx", networks.cnn(2))
    folder.chmod(0o555)
    try:
        outside = golden(path, "--random", "3", out="outside")
    finally:
        folder.chmod(0o755)
    assert all(
        array.tobytes() == outside.arrays[key].tobytes() for key, array in inside.arrays.items()
    )
    assert list(outside.manifest["source"]["external_data"]) == ["weights.bin"]
    told = {
        "path": str(folder / "weights.bin"),
        "sha256": outside.manifest["source"]["external_data"]["weights.bin"],
    }
    assert outside.manifest["original"]["data"] == [told]


def overflowing(mask=-np.inf):
    """A mask that is infinite by itself, and behind it a node that overflows, and one that makes
    NaN of that.
    """
    nodes = [
        node("Where", ["m", "x", "ninf"], ["w"], name="mask"),
        node("Softmax", ["w"], ["s"], name="soft"),
        node("Mul", ["s", "big"], ["b"], name="scale"),
        node("Sub", ["b", "b"], ["y"], name="sub"),
    ]
    weights = {
        "m": np.array([True, True, False, True]),
        "ninf": np.float32(mask),
        "big": np.float32(3e38),
    }
    initializers = [build.weight(name, array) for name, array in weights.items()]
    return build.model(nodes, [build.value("x", (2, 4))], [build.value("y", None)], initializers)


def test_the_first_node_with_values_not_finite_is_named_but_no_mask(tmp_path, golden, run):
    path = build.save(tmp_path / "m.onnx", overflowing())
    np.save(str(tmp_path / "x.npy"), np.zeros((2, 4), np.float32))
    quiet = golden(path, "--input", "x=x.npy", out="quiet")
    assert quiet.manifest["not_finite"] == {"tensors": 1, "first": None}
    loud = overflowing()
    loud.graph.initializer[2].CopyFrom(
        build.weight("big", np.float32(3.4e38) * np.ones(4, np.float32))
    )
    loud.graph.node[2].input[0] = "s2"
    loud.graph.node.insert(2, node("Add", ["s", "one"], ["s2"], name="shift"))
    loud.graph.initializer.append(build.weight("one", np.float32([9, 0, 0, 0])))
    done = run(build.save(tmp_path / "loud.onnx", loud), "--input", "x=x.npy", "-o", "loud")
    assert done.returncode == 0 and "first at scale:0 (Mul): 2 infinite of 8 values" in done.stderr
    manifest = json.loads((tmp_path / "loud" / "manifest.json").read_text())
    jsonschema.validate(manifest, load_schema("manifest"))
    first = {"tensor": "scale:0", "type": "Mul", "nan": 0, "inf": 2, "elements": 8}
    assert manifest["not_finite"] == {"tensors": 3, "first": first}
    by_name = {entry["original_name"]: entry.get("not_finite") for entry in manifest["tensors"]}
    assert (
        by_name["sub"] == {"nan": 2, "inf": 0}
        and by_name["mask"] == {"nan": 0, "inf": 2}
        and by_name["soft"] is None
    )


@pytest.mark.parametrize("spreads", [True, False])
def test_a_branch_that_is_left_out_is_told_from_values_that_spread(tmp_path, run, spreads):
    """The logarithm of negative values is read by a Where that takes others there, or by all."""
    nodes = [
        node("Log", ["x"], ["l"], name="log"),
        node("Greater", ["x", "zero"], ["c"], name="is_larger"),
        node("Where", ["c", "l", "zero"], ["w"], name="choose"),
        node("Exp", ["l" if spreads else "w"], ["y"], name="exp"),
    ]
    values = [build.value(name, (2, 4)) for name in "xy"]
    weights = [build.weight("zero", np.array(0, np.float32))]
    path = build.save(tmp_path / "m.onnx", build.model(nodes, values[:1], values[1:], weights))
    np.save(str(tmp_path / "x.npy"), np.float32([[1, -1, 2, -2], [3, 4, -5, 6]]))
    done = run(path, "--input", "x=x.npy", "-o", "golden")
    text = " ".join(done.stderr.split())
    assert "first at log:0 (Log): 3 NaN of 8 values" in text
    assert ("no op behind log:0 holds such values" in text) == (not spreads)
    assert ("from there on nothing tells" in text) == spreads
    manifest = json.loads((tmp_path / "golden" / "manifest.json").read_text())
    jsonschema.validate(manifest, load_schema("manifest"))
    assert manifest["not_finite"].get("ends_at") == (None if spreads else "log:0")


@pytest.mark.parametrize("kind", ["input", "constant"])
@pytest.mark.parametrize("covered", [True, False])
def test_a_row_that_a_mask_covers_is_told_from_values_that_spread(tmp_path, run, kind, covered):
    mask = np.zeros((3, 4), np.float32)
    mask[1, 0 if covered else 1 :] = -np.inf
    nodes = [
        node("Add", ["x", "m"], ["a"], name="add"),
        node("Softmax", ["a"], ["s"], name="soft"),
        node("Mul", ["s", "s"], ["y"], name="square"),
    ]
    inputs, initializers = [build.value("x", (3, 4))], [build.weight("m", mask)]
    if kind == "input":
        inputs, initializers = [*inputs, build.value("m", (3, 4))], []
    np.save(str(tmp_path / "m.npy"), mask)
    path = build.save(
        tmp_path / "m.onnx",
        build.model(nodes, inputs, [build.value("y", None)], initializers),
    )
    given = ["--input", "m=m.npy"] if kind == "input" else []
    done = run(path, "--random", "1", *given, "-o", "g")
    assert done.returncode == 0, done.stderr
    if not covered:
        assert "warning" not in done.stderr
        return
    text = " ".join(done.stderr.split())
    assert "first at soft:0 (Softmax): 4 NaN of 12 values" in text
    assert "rows that a mask of minus infinity covers completely" in text
    assert "only there, and in what follows of it" in text


@pytest.mark.parametrize(
    "op_type, zero, signed",
    [
        ("MatMulInteger", None, "x"),
        ("MatMulInteger", 3, "x"),
        ("MatMulInteger", None, "w"),
        ("MatMulInteger", 3, "w"),
        ("ConvInteger", None, "x"),
        ("ConvInteger", 3, "w"),
        ("QLinearMatMul", 3, "w"),
    ],
)
def test_products_of_uint8_and_int8_are_whole_on_any_processor(
    tmp_path, run, op_type, zero, signed
):
    """onnxruntime's documented "U8S8 saturation": on x86 without VNNI its kernels cut them."""
    x, w = np.full((2, 4), 255, np.uint8), np.full((4, 3), 255, np.uint8)
    if signed == "x":
        x = np.array([[127, 127, 127, -128], [-128] * 4], np.int8)
    else:
        w = np.array([[127] * 3, [127, 127, -1], [-128] * 3, [127, -128, 0]], np.int8)
    right = (x.astype(np.int32) - (zero or 0)) @ (w.astype(np.int32) - (zero or 0))
    zeros = {} if zero is None else {"i": x.dtype.type(zero), "j": w.dtype.type(zero)}
    names, made = ["x", "w", *zeros], np.int32
    if op_type == "ConvInteger":
        x, w, right = x[..., None, None], w.T[..., None, None], right[..., None, None]
    elif op_type == "QLinearMatMul":
        scales = {"s": np.float32(0.5), "t": np.float32(1 / 64), "u": np.float32(4)}
        zeros.update(scales, k=np.uint8(90))
        names, made = ["x", "s", "i", "w", "t", "j", "u", "k"], np.uint8
        right = np.clip(np.rint(right / 512) + 90, 0, 255)
    proto = build.model(
        [node(op_type, names, ["y"], name="product")],
        [build.value("x", x.shape, TensorProto.INT8 if signed == "x" else TensorProto.UINT8)],
        [build.value("y", None, TensorProto.INT32 if made == np.int32 else TensorProto.UINT8)],
        [build.weight(name, np.asarray(array)) for name, array in {"w": w, **zeros}.items()],
    )
    runtime = pytest.importorskip("onnxruntime")
    try:
        runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented:
        pytest.skip("this onnxruntime has no kernel for these types")
    path = build.save(tmp_path / "m.onnx", proto)
    np.save(str(tmp_path / "x.npy"), x)
    done = run(path, "--input", "x=x.npy", "-o", "golden")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    (saved,) = (tmp_path / "golden").glob("product.0.*.npy")
    np.testing.assert_array_equal(np.load(str(saved)), right.astype(made))


@pytest.mark.parametrize("trains", [True, False])
def test_nodes_in_training_mode_are_named(tmp_path, run, trains):
    nodes = [
        node(
            "BatchNormalization",
            ["x", "one", "zero", "zero", "one"],
            ["b", "mean", "var"] if trains else ["b"],
            name="bn",
            training_mode=int(trains),
        ),
        node("Dropout", ["b", "ratio", "mode"], ["y"], name="drop"),
    ]
    weights = {
        "one": np.ones(3, np.float32),
        "zero": np.zeros(3, np.float32),
        "ratio": np.float32(0.5),
        "mode": np.array(trains),
    }
    initializers = [build.weight(name, array) for name, array in weights.items()]
    proto = build.model(nodes, [build.value("x", (2, 3))], [build.value("y", None)], initializers)
    done = run(build.save(tmp_path / "m.onnx", proto), "--random", "1", "-o", "g")
    assert done.returncode == 0, done.stderr
    for text in (
        "in training mode: bn (BatchNormalization); golden data depend on the batch, and an om, "
        "which has the stored statistics, computes otherwise: export with model.eval()",
        "in training mode: drop (Dropout); it drops values at random, and what comes of it is not "
        "compared: export with model.eval()",
    ):
        assert (text in done.stderr) == trains, done.stderr


@pytest.mark.parametrize("trains", [True, False])
def test_a_dropout_whose_mode_is_an_input_drops_where_that_is_given_so(tmp_path, run, trains):
    nodes = [node("Dropout", ["x", "ratio", "mode"], ["d"], name="drop"), node("Abs", ["d"], ["y"])]
    inputs = [build.value("x", (2, 3)), build.value("mode", (), TensorProto.BOOL)]
    ratio = build.weight("ratio", np.array(0.5, np.float32))
    path = build.save(
        tmp_path / "m.onnx", build.model(nodes, inputs, [build.value("y", None)], [ratio])
    )
    np.save(str(tmp_path / "mode.npy"), np.array(trains))
    done = run(path, "-i", "mode=mode.npy", "--random", "1", "-o", "g")
    assert done.returncode == 0, done.stderr
    assert ("in training mode: drop (Dropout)" in done.stderr) == trains
    assert ("random numbers" in done.stderr) == trains


@pytest.mark.parametrize("spreads", [True, False])
def test_a_node_in_a_branch_is_named_where_its_values_are_not_finite(tmp_path, run, spreads):
    made = [node("Sqrt", ["x"], ["t"], name="root"), node("Neg", ["t"], ["u"], name="neg")]
    then = helper.make_graph(made, "t", [], [build.value("u", None)])
    other = helper.make_graph(
        [node("Abs", ["x"], ["e"], name="abs")], "e", [], [build.value("e", None)]
    )
    nodes = [
        node("If", ["c"], ["i"], name="choice", then_branch=then, else_branch=other),
        node("Relu" if spreads else "IsNaN", ["i"], ["y"], name="behind"),
    ]
    inputs = [build.value("x", (2, 2)), build.value("c", (), TensorProto.BOOL)]
    outputs = [build.value("y", None, TensorProto.FLOAT if spreads else TensorProto.BOOL)]
    path = build.save(tmp_path / "m.onnx", build.model(nodes, inputs, outputs))
    np.save(str(tmp_path / "x.npy"), np.float32([[-1, 4], [1, -4]]))
    np.save(str(tmp_path / "c.npy"), np.array(True))
    done = run(path, "-i", "x=x.npy", "-i", "c=c.npy", "-o", "golden")
    assert done.returncode == 0
    text = "first at choice_0_then_branch/root:0 (Sqrt): 2 NaN of 4 values; "
    end = "from there on nothing tells" if spreads else "no op behind choice:0 holds such values"
    assert text + end in done.stderr, done.stderr


def test_an_input_that_is_not_finite_is_named_itself(tmp_path, run):
    proto = chain(("Abs", "a", {}), ("Neg", "n", {}), dtype=TensorProto.FLOAT16)
    array = np.array([[np.nan, np.inf, 0], [1, 2, 3]], np.float16)
    np.save(str(tmp_path / "x.npy"), array)
    done = run(build.save(tmp_path / "m.onnx", proto), "--input", "v0=x.npy", "-o", "g")
    assert (
        done.returncode == 0
        and "first at v0:0 (Input): 1 NaN and 1 infinite of 6 values" in done.stderr
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.int32])
def test_values_that_are_not_finite_are_counted(dtype):
    array = np.zeros((3, (1 << 20) + 5), dtype)
    if array.dtype.kind == "i":
        assert count_not_finite(array) == (0, 0)
        return
    array[0, :2] = np.nan, np.inf
    array[2, -1] = -np.inf
    assert count_not_finite(array) == (1, 2)
    # Finite values whose sum is none.
    assert count_not_finite(np.full(100, np.finfo(dtype).max, dtype)) == (
        0,
        0,
    ) and count_not_finite(np.float32([])) == (0, 0)


def test_the_manifest_names_the_model_file_and_external_data(tmp_path, golden):
    path = build.save(tmp_path / "m.onnx", chain(("Relu", "r", {})))
    found = golden(path, "--random", "1").manifest
    assert found["original"] == {
        "framework": "onnx",
        "model": {"path": str(path), "sha256": found["source"]["model"]},
    }
