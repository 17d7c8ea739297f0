"""Cutting frozen graphs without TensorFlow: what stays, what becomes a placeholder, what is
refused.
"""

from __future__ import annotations

import io

import pytest
from wire_graph import const, node, strings, typed

from goldwatch.base.errors import FormatError, InputError
from goldwatch.base.protowire import field
from goldwatch.netfiles.graphdef import GraphFile
from goldwatch.recomputing.submodel.tf_original import TfOriginal

VERSIONS = field(4, field(1, 134))
FLOAT = typed(1)


def relu(name, *inputs, **attrs):
    return node(name, "Relu", *inputs, T=FLOAT, **attrs)


def original(tmp_path, *nodes):
    path = tmp_path / "graph.pb"
    path.write_bytes(b"".join(nodes) + VERSIONS)
    return TfOriginal.read(str(path))


def cut(model, start, end):
    ends = [model.names.index(start)], [model.names.index(end)]
    return model.cut(model.graph.between(*ends), *ends)


def written(model, found, tmp_path):
    stream = io.BytesIO()
    model.write(found, {entry.name: (entry.dtype, (1, 2)) for entry in found.inputs}, stream)
    (tmp_path / "cut.pb").write_bytes(stream.getvalue())
    return stream.getvalue(), GraphFile(str(tmp_path / "cut.pb"))


def placeholder(name):
    return node(name, "Placeholder", dtype=FLOAT, shape=field(7, b""))


CHAIN = (
    placeholder("x"),
    const("w"),
    node("w/read", "Identity", "w", T=FLOAT),
    relu("a", "x"),
    node("top", "TopKV2", "a", "k", T=FLOAT),
    const("k", number=3),
    node("idx", "Cast", "top:1", SrcT=typed(3), DstT=FLOAT),
    node("mul", "Mul", "top", "idx", T=FLOAT),
    node("add", "Add", "mul", "w/read", T=FLOAT),
    relu("out", "add"),
)


def test_a_cut_keeps_constants_and_readers_byte_for_byte(tmp_path):
    model = original(tmp_path, *CHAIN)
    found = cut(model, "mul", "add")
    assert [model.names[number] for number in found.layers] == ["w", "w/read", "mul", "add"]
    assert [
        (entry.name, entry.tensor, entry.kind, entry.dtype, entry.readers) for entry in found.inputs
    ] == [
        ("top", "top:0", "start", "float32", (("mul", 0),)),
        ("idx", "idx:0", "start", "float32", (("mul", 1),)),
    ]
    assert [(output.tensor, output.is_end) for output in found.outputs] == [("add:0", True)]
    assert [(reader.reader, reader.op) for reader in found.outside_readers] == [("out", "add")]
    data, graph = written(model, found, tmp_path)
    assert data.endswith(b"".join(CHAIN[number] for number in found.layers) + VERSIONS)
    assert [(entry.name, entry.op) for entry in graph.nodes[:2]] == [
        ("top", "Placeholder"),
        ("idx", "Placeholder"),
    ]
    with graph.open() as file:
        assert (
            graph.attr_type(file, graph.nodes[0], "dtype"),
            graph.shape(file, graph.nodes[0]),
        ) == (1, (1, 2))


def test_an_input_for_a_second_output_gets_another_name(tmp_path):
    model = original(tmp_path, *CHAIN, relu("top_1", "x"))
    found = model.cut([model.names.index("idx"), model.names.index("mul")])
    assert [(entry.name, entry.tensor, entry.dtype) for entry in found.inputs] == [
        ("top_1_1", "top:1", "int32"),
        ("top", "top:0", "float32"),
    ]
    _, graph = written(model, found, tmp_path)
    assert {entry.name: entry.inputs for entry in graph.nodes[2:]} == {
        "idx": ["top_1_1"],
        "mul": ["top", "idx"],
    }


def test_a_placeholder_as_start_stays(tmp_path):
    model = original(tmp_path, *CHAIN)
    found = cut(model, "x", "a")
    assert [(entry.name, entry.producer, entry.unchanged) for entry in found.inputs] == [
        ("x", "x", True)
    ]
    assert written(model, found, tmp_path)[0] == CHAIN[0] + CHAIN[3] + VERSIONS


def test_control_edges_and_colocations_that_lead_outside_are_removed(tmp_path):
    model = original(
        tmp_path,
        placeholder("x"),
        relu("a", "x"),
        relu("b", "a", "^x", _class=strings("loc:@a", "loc:@c", "other")),
        relu("c", "b", "^b"),
    )
    found = cut(model, "b", "c")
    assert (found.dropped_controls, found.dropped_colocations) == ((("b", "x"),), (("b", "a"),))
    data, graph = written(model, found, tmp_path)
    by_name = {entry.name: entry for entry in graph.nodes}
    assert (by_name["b"].inputs, by_name["c"].inputs) == (["a"], ["b", "^b"])
    with graph.open() as file:
        assert graph.colocations(file, by_name["b"]) == ["c"]
    assert b"other" in data and b"loc:@a" not in data


def conditional():
    return (
        placeholder("x"),
        node("p", "Placeholder", dtype=typed(10), shape=field(7, b"")),
        node("pred", "Identity", "p", T=typed(10)),
        node("s", "Switch", "x", "pred", T=FLOAT),
        relu("f", "s"),
        relu("t", "s:1"),
        node("m", "Merge", "f", "t", T=FLOAT, N=field(3, 2)),
        relu("out", "m"),
    )


def test_a_merge_includes_its_conditional(tmp_path):
    model = original(tmp_path, *conditional())
    found = cut(model, "m", "out")
    assert [model.names[number] for number in found.layers] == ["s", "f", "t", "m", "out"]
    assert [(entry.name, entry.dtype) for entry in found.inputs] == [
        ("x", "float32"),
        ("pred", "bool"),
    ]
    for inner in ("s", "f", "t"):
        with pytest.raises(InputError, match="%s lies inside a conditional" % inner):
            cut(model, inner, "out")


def test_an_exit_includes_its_loop(tmp_path):
    model = original(
        tmp_path,
        placeholder("x"),
        relu("v", "x"),
        node("e", "Enter", "v", T=FLOAT),
        node("m", "Merge", "e", "n", T=FLOAT, N=field(3, 2)),
        const("ten", "m"),
        node("less", "Less", "m", "ten", T=FLOAT),
        node("c", "LoopCond", "less"),
        node("s", "Switch", "m", "c", T=FLOAT),
        relu("body", "s:1"),
        node("n", "NextIteration", "body", T=FLOAT),
        node("exit", "Exit", "s", T=FLOAT),
        relu("out", "exit"),
    )
    found = cut(model, "exit", "out")
    assert [
        model.names[number] for number in found.layers
    ] == "e m ten less c s body n exit out".split()
    assert [(entry.name, entry.readers) for entry in found.inputs] == [("v", (("e", 0),))]
    for inner in ("e", "m", "body", "ten"):
        with pytest.raises(InputError, match="inside a while loop"):
            model.cut([model.names.index(inner)], [model.names.index(inner)])


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((node("v", "VariableV2", dtype=FLOAT), relu("a", "v"), relu("b", "a")), "not frozen"),
        (
            (
                node("h", "VarHandleOp"),
                node("a", "ReadVariableOp", "h", dtype=FLOAT),
                relu("b", "a"),
            ),
            "not frozen",
        ),
        (
            (
                node("h", "Placeholder", dtype=typed(20)),
                node("a", "ReadVariableOp", "h", dtype=FLOAT),
                relu("b", "a"),
            ),
            "of type resource",
        ),
        (
            (
                node("x", "Placeholder", dtype=FLOAT),
                node("q", "AscendQuant", "x"),
                relu("a", "q"),
                relu("b", "a"),
            ),
            "q holds int8 values",
        ),
        (
            (node("x", "Placeholder", dtype=FLOAT), relu("a", "x"), node("b", "AscendQuant", "a")),
            "b holds int8 values",
        ),
        ((relu("a", "gone"), relu("b", "a")), "reads gone, which is not there"),
        ((relu("a", "^gone"), relu("b", "a")), "waits for gone"),
        ((relu("a"), relu("a"), relu("b", "a")), "two nodes are called a"),
    ],
)
def test_graphs_that_cannot_be_cut_are_refused(tmp_path, nodes, text):
    with pytest.raises(InputError, match=text):
        cut(original(tmp_path, *nodes), "a", "b")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'node { name: "a" }', "text form"),
        (field(1, 1) + field(2, b""), "but a SavedModel of TensorFlow"),
        (VERSIONS, "no node in it"),
        (field(9, b""), "field 9 is not one of a GraphDef"),
        (relu("a")[:-1], "cut short"),
    ],
)
def test_files_that_are_no_frozen_graph_are_refused(tmp_path, data, text):
    (tmp_path / "g.pb").write_bytes(data)
    with pytest.raises(FormatError if "cut" in text else InputError, match=text):
        TfOriginal.read(str(tmp_path / "g.pb"))


def test_a_saved_model_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(field(1, 1) + field(2, b""))
    for path in (tmp_path, tmp_path / "saved_model.pb"):
        with pytest.raises(InputError, match="a SavedModel") as caught:
            TfOriginal.read(str(path))
        assert "freeze" in caught.value.hint
