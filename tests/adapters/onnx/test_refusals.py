"""Unusable models and inputs are refused in one sentence, with exit code 4 (2 for options), before
anything is written.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import onnx_models as build
import onnx_networks as networks
import pytest
from in_process import run_here
from onnx import TensorProto, helper
from onnx_golden import Golden, run_unoptimised
from onnxruntime.capi import onnxruntime_pybind11_state

from goldwatch.adapters.onnx.onnxruntime_messages import explained

node = helper.make_node


def relu(tmp_path, shape=(2, 3), dtype=TensorProto.FLOAT, **options):
    nodes = [node("Relu", ["x"], ["y"], name="r")]
    return build.save(
        tmp_path / "m.onnx",
        build.model(
            nodes, [build.value("x", shape, dtype)], [build.value("y", None, dtype)], **options
        ),
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        (b"PK\x03\x04", "a zip file"),
        (b"", "the file is empty"),
        (networks.cnn().SerializeToString()[:-9], "cut short"),
    ],
)
def test_files_that_are_no_onnx_model_are_refused_with_the_reason(tmp_path, refused, content, text):
    (tmp_path / "m.onnx").write_bytes(content)
    assert text in refused(str(tmp_path / "m.onnx"), "--random", "1")


def test_a_model_with_a_damaged_name_is_refused(tmp_path, refused):
    nodes = [node("Abs", ["x"], ["y"], name="first"), node("Neg", ["y"], ["z"], name="second")]
    path = tmp_path / "m.onnx"
    build.save(path, build.model(nodes, [build.value("x")], [build.value("z")]))
    path.write_bytes(path.read_bytes().replace(b"z", b"\xee"))
    assert "the file is damaged, copy it again" in refused(path, "--random", "1")


def test_a_missing_model_file_is_reported(tmp_path, refused):
    assert "m.onnx does not exist" in refused("m.onnx", "--random", "1")


def test_newer_opsets_and_ir_versions_are_refused_with_the_newest_known(tmp_path, refused):
    text = refused(relu(tmp_path, opset=99), "--random", "1")
    assert "opset 99" in text and "knows up to" in text and "--python PATH" in text
    text = refused(relu(tmp_path, ir_version=99), "--random", "1")
    assert "IR version 99 (opset 17)" in text and "reads up to" in text


def test_two_nodes_of_one_name_are_refused(tmp_path, refused):
    nodes = [node("Relu", ["x"], ["a"], name="Abs_0"), node("Abs", ["a"], ["y"])]
    path = build.save(
        tmp_path / "m.onnx", build.model(nodes, [build.value("x")], [build.value("y")])
    )
    text = refused(path, "--random", "1")
    assert (
        "node 0 (Relu) and node 1 (Abs, without a name of its own) are both called Abs_0" in text
        and "E19009" in text
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], 2, "no file for the model's input x [N, 3]"),
        (
            ["--random", "1"],
            2,
            "does not say the whole shape of its input x [N, 3]\n  hint: add --shape x=N,3 "
            "with numbers for each",
        ),
        (
            ["--random", "1", "--shape", "x=2,4"],
            4,
            "the shape of input x is [2, 4], the model expects [N, 3]",
        ),
        (
            ["--random", "1", "--shape", "z=2,3"],
            2,
            "--shape names z, which is no input of the model\n  hint: the model's inputs are: x",
        ),
        (["--random", "1", "--shape", "x=a"], 2, "--shape x=a is not NAME=DIM,DIM"),
        (["--input", "x"], 2, "-i x is not NAME=FILE"),
        (["--input", "z=x.npy"], 2, "-i names z, which is no input"),
        (["--input", "x=none.npy"], 4, "none.npy does not exist"),
        (
            ["--input", "x=wide.npy"],
            4,
            "wide.npy: the shape of input x is [2, 4], the model expects [N, 3]",
        ),
        (
            ["--input", "x=x.bin", "--shape", "x=2,3"],
            4,
            "needs 24 bytes, the file has 12\n  hint: it has the size of float16: give "
            "NAME=FILE,dtype=float16",
        ),
        (["--input", "x=x.bin,dtype=what", "--shape", "x=2,3"], 2, "what is no type of elements"),
        (["--input", "x=x.npy,dtype=float16"], 2, "tells its type itself"),
        (["--input", "x=words.npy"], 4, "words.npy: not an npy file of numbers"),
        (["--input", "x=complex.npy"], 4, "holds complex64, the model reads float32"),
        (["--input", "x=x.jpg"], 2, "a file of type .jpg cannot be read"),
        (["--input", "x=x.npy", "--input", "x=x.npy"], 2, "-i names x twice"),
        (["--input", "x=dump:x.npy"], 4, "x.npy"),
        (["--inputs", "nowhere"], 4, "nowhere is not a folder"),
        (["--inputs", "empty"], 4, "no file of an input in it\n  hint: expected x.npy"),
        (["--random", "1", "--feed", "q=x.npy"], 2, "--feed names q, which is no node"),
        (["--random", "1", "--feed", "r:1=x.npy"], 2, "node r has no output 1"),
        (["--random", "1", "--all"], 2, "--all goes with -f"),
        (
            ["--random", "1", "--shape", "x=2,3", "--python", "nothing-of-this-name"],
            2,
            "no such program",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path, refused, words, code, text):
    state = np.random.RandomState(0)
    for name, array in {
        "x": state.standard_normal((2, 3)).astype(np.float32),
        "wide": np.zeros((2, 4), np.float32),
        "words": np.array(["a", None], object),
        "complex": np.zeros((2, 3), np.complex64),
    }.items():
        np.save(str(tmp_path / (name + ".npy")), array)
    np.zeros((2, 3), np.float16).tofile(str(tmp_path / "x.bin"))
    (tmp_path / "x.jpg").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    assert text in refused(relu(tmp_path, ("N", 3)), *words, code=code)


def test_integers_are_neither_made_of_floats_nor_cut_off(tmp_path, refused):
    nodes = [node("Neg", ["x"], ["y"], name="r")]
    path = build.save(
        tmp_path / "m.onnx",
        build.model(
            nodes,
            [build.value("x", (2,), TensorProto.INT8)],
            [build.value("y", None, TensorProto.INT8)],
        ),
    )
    np.save(str(tmp_path / "x.npy"), np.zeros(2, np.float32))
    assert "holds float32, the model reads int8" in refused(path, "--input", "x=x.npy")
    np.save(str(tmp_path / "x.npy"), np.array([1, 300]))
    assert "holds int64 with values that int8 cannot hold" in refused(path, "--input", "x=x.npy")


def test_sequence_inputs_are_refused(tmp_path, refused):
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    nodes = [node("SequenceAt", ["s", "i"], ["y"], name="at")]
    proto = build.model(
        nodes, [sequence, build.value("i", (), TensorProto.INT64)], [build.value("y", None)]
    )
    assert "input s is sequence: only tensors of numbers can be fed" in refused(
        build.save(tmp_path / "m.onnx", proto), "--random", "1"
    )


def test_unknown_ops_are_refused_unless_their_values_are_given(tmp_path, refused, golden):
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("MyOp", ["a"], ["b", "c"], name="mine", domain="my.own"),
        node("Neg", ["b"], ["y"], name="n"),
    ]
    path = build.save(
        tmp_path / "m.onnx",
        build.model(nodes, [build.value("x")], [build.value("y", None)], domains=["my.own"]),
    )
    text = refused(path, "--random", "1")
    assert "node mine (MyOp of my.own): onnxruntime" in text and "--feed mine=dump:FILE" in text
    np.save(str(tmp_path / "b.npy"), np.arange(6, dtype=np.float32).reshape(2, 3))
    found = golden(path, "--random", "1", "--feed", "mine:0=b.npy")
    assert np.array_equal(found["n"], -np.arange(6, dtype=np.float32).reshape(2, 3))
    assert found.entries["mine", 0]["given"] is True and "given" not in found.entries["n", 0]
    assert found.skipped == {
        "mine:1": "the node is left out: values of its other outputs were given"
    }


def test_all_outputs_of_an_unknown_op_that_are_read_must_be_given(tmp_path, refused):
    nodes = [
        node("Split", ["x"], ["a", "b"], name="split", axis=1),
        node("Add", ["a", "b"], ["y"], name="add"),
    ]
    path = build.save(
        tmp_path / "m.onnx",
        build.model(nodes, [build.value("x", (2, 4))], [build.value("y", None)], opset=13),
    )
    np.save(str(tmp_path / "a.npy"), np.zeros((2, 2), np.float32))
    assert (
        "output 1 of node split is read, too, and has no values\n  hint: add --feed split:1=FILE"
        in refused(path, "--random", "1", "--feed", "split=a.npy")
    )


def test_ops_of_onnxruntimes_domain_are_computed(tmp_path, golden):
    nodes = [node("Gelu", ["x"], ["y"], name="gelu", domain="com.microsoft")]
    proto = build.model(
        nodes, [build.value("x")], [build.value("y", None)], domains=["com.microsoft"]
    )
    found = golden(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    assert found["gelu"].tobytes() == run_unoptimised(proto, {"x": found["x"]})["y"].tobytes()


def test_types_that_onnxruntime_does_not_compute_are_refused(tmp_path, refused):
    nodes = [node("MatMul", ["x", "x"], ["y"], name="mm")]
    proto = build.model(
        nodes,
        [build.value("x", (3, 3), TensorProto.BFLOAT16)],
        [build.value("y", None, TensorProto.BFLOAT16)],
    )
    text = refused(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    assert (
        "node mm (MatMul): onnxruntime" in text
        and "cannot compute it with these types" in text
        and "--backend reference" in text
    )


def test_floats_of_6_bits_are_left_to_the_reference():
    # The onnx that a Python gets may not know them: as onnxruntime 1.32 says it.
    said = RuntimeError(
        "[ONNXRuntimeError] : 10 : INVALID_GRAPH : This is an invalid model. Type Error: Type "
        "'tensor(float6e2m3)' of input parameter (n) of operator (Cast) in node (up) is invalid."
    )
    model = SimpleNamespace(path="m.onnx", graph=SimpleNamespace(nodes=[]), opsets={"": 26})
    error = explained(said, model, [], "1.32.0")
    assert error.hint is not None and "`backend=reference`" in error.hint


def narrow_product(where):
    """A MatMul of bfloat16 without a name, for which onnxruntime has no kernel: behind another
    node without a name, in a function, or in a branch.
    """
    cast = node("Cast", ["x"], ["n"], to=TensorProto.BFLOAT16)
    product = node("MatMul", ["n", "n"], ["p"])
    back = node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)
    inputs, options = [build.value("x", (3, 3))], {}
    nodes = [node("Relu", ["x"], ["r"]), cast, product, back]
    if where == "function":
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        body = [cast, product, back]
        function = helper.make_function("my", "Block", ["x"], ["y"], body, opsets[:1])
        nodes, options = (
            [node("Block", ["x"], ["y"], name="blk", domain="my")],
            {
                "opset_imports": opsets,
                "functions": [function],
            },
        )
    if where == "branch":
        branch = helper.make_graph([cast, product, back], "b", [], [build.value("y", None)])
        nodes = [node("If", ["c"], ["z"], name="choice", then_branch=branch, else_branch=branch)]
        inputs.append(build.value("c", (), TensorProto.BOOL))
        graph = helper.make_graph(nodes, "g", inputs, [build.value("z", None)])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    graph = helper.make_graph(nodes, "g", inputs, [build.value("y", None)])
    options.setdefault("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, ir_version=8, **options)


@pytest.mark.parametrize(
    ("where", "called"),
    [
        ("behind", "node MatMul_2 (MatMul): onnxruntime"),
        ("function", "node blk (Block; MatMul in a body or function of it): onnxruntime"),
        ("branch", "node choice (If; MatMul in a body or function of it): onnxruntime"),
    ],
)
def test_a_node_without_a_name_that_onnxruntime_lacks_is_named_by_its_place(
    tmp_path, refused, where, called
):
    path = build.save(tmp_path / "m.onnx", narrow_product(where))
    text = refused(path, "--random", "1")
    assert called in text and "cannot compute it with these types" in text


@pytest.mark.parametrize(("count", "place"), [(1, 0), (4, 0), (4, 2), (4, 3)])
@pytest.mark.parametrize("inner", [None, "Softmax"])
def test_of_what_an_operator_is_made_of_the_node_of_the_model_is_named(
    tmp_path, refused, count, place, inner
):
    """A Softmax of bfloat16 is made of nodes without names, a ReduceMax first; among others that
    have a kernel, and beside a ReduceMax of the model itself.
    """
    nodes, last = [node("ReduceMax", ["x"], ["top"], axes=[1])], "x"
    for number in range(count):
        to = TensorProto.BFLOAT16 if number == place else TensorProto.FLOAT
        before, behind, after = ("%s%d" % (name, number) for name in "bsa")
        nodes.append(node("Cast", [last], [before], to=to))
        op_type, domain = ("Blk", "my") if inner else ("Softmax", "")
        nodes.append(node(op_type, [before], [behind], name="soft%d" % number, domain=domain))
        nodes.append(node("Cast", [behind], [after], to=TensorProto.FLOAT))
        last = after
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = []
    if inner:
        body = [node(inner, ["i"], ["o"])]
        functions = [helper.make_function("my", "Blk", ["i"], ["o"], body, opsets[:1])]
    graph = helper.make_graph(
        nodes,
        "g",
        [build.value("x", (3, 3))],
        [build.value(last, None), build.value("top", None)],
    )
    proto = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)
    text = refused(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    called = "node soft%d (%s; ReduceMax in a body or function of it): onnxruntime" % (
        place,
        "Blk" if inner else "Softmax",
    )
    assert called in text and "cannot compute it with these types" in text
    assert "--feed soft%d=FILE" % place in text


@pytest.mark.parametrize("as_input", [False, True])
def test_the_node_without_a_kernel_is_found_behind_large_weights(tmp_path, refused, as_input):
    """The weights are not read for it; in old models they are inputs, too."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"], name="product"),
        node("Cast", ["a"], ["b"], to=TensorProto.BFLOAT16),
        node("Softmax", ["b"], ["y"], name="soft"),
    ]
    inputs = [build.value("x", (2, 40))] + [build.value("w", (40, 40))] * as_input
    outputs = [build.value("y", None, TensorProto.BFLOAT16), build.value("a", None)]
    weights = [build.weight("w", np.ones((40, 40), np.float32))]
    path = build.save(tmp_path / "m.onnx", build.model(nodes, inputs, outputs, weights))
    text = refused(path, "--random", "1")
    assert "node soft (Softmax; ReduceMax in a body or function of it): onnxruntime" in text


def test_a_version_without_a_kernel_is_told_from_types_without_one(tmp_path, refused):
    nodes = [node("Add", ["x", "x"], ["y"], name="sum")]
    proto = build.model(nodes, [build.value("x")], [build.value("y", None)], opset=6)
    text = refused(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    if not hasattr(onnxruntime_pybind11_state, "get_all_opkernel_def"):
        # onnxruntime 1.14, the last for Python 3.7, does not tell its kernels' versions.
        assert "with these types on the CPU, or has no kernel for version 6 of Add" in text
        return
    assert (
        "node sum (Add): onnxruntime" in text
        and "has no kernel for version 6 of Add on the CPU" in text
        and "with these types" not in text
        and "export the model with opset 7" in text
    )


def test_shapes_that_do_not_fit_within_the_model_name_the_node(tmp_path, refused):
    nodes = [node("MatMul", ["x", "w"], ["y"], name="mm")]
    proto = build.model(
        nodes,
        [build.value("x", (2, "K"))],
        [build.value("y", None)],
        [build.weight("w", np.ones((4, 4), np.float32))],
    )
    text = refused(build.save(tmp_path / "m.onnx", proto), "--random", "1", "--shape", "x=2,3")
    assert "node mm (MatMul) failed" in text
    proto.graph.node[0].name = ""
    text = refused(build.save(tmp_path / "m.onnx", proto), "--random", "1", "--shape", "x=2,3")
    assert "node MatMul_0 (MatMul) failed" in text


def test_a_type_that_an_operator_does_not_take_names_the_node_by_its_place(tmp_path, refused):
    nodes = [
        node("Sqrt", ["x"], ["a"]),
        node("Cast", ["a"], ["b"], to=TensorProto.INT64),
        node("Sqrt", ["b"], ["c"]),
        node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    proto = build.model(nodes, [build.value("x", (4,))], [build.value("y", (4,))], opset=17)
    text = refused(build.save(tmp_path / "m.onnx", proto), "--random", "1")
    assert "node Sqrt_2 (Sqrt): opset 17 does not allow its input b to be int64" in text
    assert "an opset whose operator takes this type" in text and "shapes" not in text


def test_a_shape_that_was_drawn_at_random_is_asked_for(tmp_path, refused):
    inputs = [build.value("x", (2, 6)), build.value("s", (2,), TensorProto.INT64)]
    nodes = [node("Reshape", ["x", "s"], ["y"], name="r")]
    build.save(tmp_path / "m.onnx", build.model(nodes, inputs, [build.value("y", None)]))
    message = refused(str(tmp_path / "m.onnx"), "--random", "0")
    assert "hint: s: random whole numbers;" in message and "-i s=FILE" in message, message


def test_external_data_missing_or_outside_the_models_folder_is_refused(tmp_path, refused):
    folder = tmp_path / "model"
    folder.mkdir()
    path = build.with_external(folder / "m.onnx", networks.cnn(2))
    (folder / "weights.bin").rename(tmp_path / "weights.bin")
    assert "its external data %s is not there" % (folder / "weights.bin") in refused(
        path, "--random", "1"
    )
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        next(
            entry for entry in tensor.external_data if entry.key == "location"
        ).value = "../weights.bin"
    assert "outside the model's folder" in refused(
        build.save(folder / "m.onnx", proto), "--random", "1"
    )


def test_initializers_that_are_also_inputs_are_weights(tmp_path, refused, golden):
    """IR version 3 lists them so; atc makes a Const of each."""
    nodes = [node("Add", ["x", "w"], ["y"], name="add")]
    inputs = [build.value("x"), build.value("w")]
    proto = build.model(
        nodes,
        inputs,
        [build.value("y")],
        [build.weight("w", np.ones((2, 3), np.float32))],
        opset=8,
        ir_version=3,
    )
    path = build.save(tmp_path / "m.onnx", proto)
    np.save(str(tmp_path / "w.npy"), np.zeros((2, 3), np.float32))
    assert "w, which is an initializer (weights)" in refused(
        path, "--random", "1", "--input", "w=w.npy", code=2
    )
    found = golden(path, "--random", "1")
    assert found.names == ["x:0", "add:0"] and np.array_equal(found["add"], found["x"] + 1)


def test_a_folder_that_holds_golden_files_stays_unless_forced(tmp_path, golden):
    path = relu(tmp_path)
    first = golden(path, "--random", "1")
    done = run_here(
        ["goldwatch", "golden", "onnx", "dump", path, "--random", "2", "-o", tmp_path / "golden"],
        tmp_path,
    )
    assert (
        done.returncode == 2
        and "already holds golden files" in done.stderr
        and "--force" in done.stderr
    )
    again = golden(path, "--random", "2", "--force")
    assert (
        not np.array_equal(first["r"], again["r"])
        and len(list((tmp_path / "golden").glob("r.0.*.npy"))) == 1
    )
    assert isinstance(again, Golden)


def test_an_operator_that_the_reference_does_not_know_is_to_be_given(tmp_path, refused):
    nodes = [node("Foo", ["x"], ["t"], name="foo", domain="acme"), node("Relu", ["t"], ["y"])]
    proto = build.model(nodes, [build.value("x", (2, 3))], [build.value("y", (2, 3))])
    proto.opset_import.add(domain="acme", version=1)
    path = build.save(tmp_path / "m.onnx", proto)
    text = refused(path, "--random", "1", "--backend", "reference")
    assert "the device's dump: --feed NODE=dump:FILE" in " ".join(text.split())
