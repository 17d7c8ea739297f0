"""GE graphs in protobuf text form."""

from __future__ import annotations

import contextlib
import json

import pytest

from goldwatch.base.errors import FormatError
from goldwatch.model import load_model
from goldwatch.model.read_model import parse_text


def test_text_and_json_of_one_model_give_the_same_graph(write, tmp_path):
    desc = write.desc("a/b", 1, "NHWC", origin_shape=(1, 2))
    ops = [
        write.op("data", "Data", outputs=[write.desc(shape=(1, 3, 8, 8), layout="NCHW")]),
        write.op(
            'odd "name"\\\n',
            "Conv2D",
            ["data:0", "", "data:-1"],
            [desc],
            ["a/b", "c"],
            True,
            "3",
            5,
        ),
        write.op("cast", "Cast", ["x::y:2"], originals=[]),
    ]
    tree = write.tree(ops, [write.op("sub", id=1)], name=None)
    (tmp_path / "ge_proto_00000001_Build.txt").write_text(write.text(tree))
    (tmp_path / "m.json").write_text(json.dumps(tree))
    text, js = (
        load_model(str(tmp_path / "ge_proto_00000001_Build.txt")),
        load_model(str(tmp_path / "m.json")),
    )
    assert text.ops == js.ops and len(text.ops) == 4
    assert (
        (text.name, text.graph_names, text.notes)
        == (js.name, js.graph_names, js.notes)
        == ("g0", ("g0", "g1"), ())
    )


def test_the_whole_grammar_of_text_format_is_read():
    text = """
    # a comment with { and " in it
    name: 'single' "joined" # another
        'third'
    graph < name: "g"; op { name: "a\\141\\x62\\u00e9\\303\\251\\n\\"\\q" id: 0x1F, input: ["x:0", 'y:1'] input: "z:0" } op: { id: -3 }
      [ext.name/a]: 5 unknown { deep < er: 1 > } other: [1, 2.5, NAME, "s"] empty: []
    >
    graph { name : "h" op { name
      # between
      : "late" attr { key: "_datadump_is_multiop" value { b: true } } } }
    """  # noqa: E501
    tree = parse_text(text, "t")
    assert tree["name"] == "singlejoinedthird"
    op = tree["graph"][0]["op"]
    assert op[0] == {"name": 'aab\xe9\xe9\n"\\q', "id": 31, "input": ["x:0", "y:1", "z:0"]}
    assert op[1] == {"id": -3}
    assert tree["graph"][1] == {
        "name": "h",
        "op": [{"name": "late", "attr": [{"key": "_datadump_is_multiop", "value": {"b": True}}]}],
    }


@pytest.mark.parametrize(
    "text, message",
    [
        ("graph {\n op {\n", "line 2: the message that starts here is not closed"),
        ("graph {\n >", "line 2: > closes nothing"),
        ("}", "line 1: } closes nothing"),
        ("graph { name: }", "line 1: cannot be read"),
        ('graph { name: "open\n }', "cannot be read"),
        ('"alone"', "a string without a field name"),
        ('graph { } "alone"', "a string without a field name"),
        ("a: [1, {b: 2}]", "a list in [] may hold only"),
        ("a: [1, 2", "a list in []"),
        ("a {" * 101, "nested deeper than 100"),
        ("a <" * 1000000, "nested deeper than 100"),
        ("just words", "cannot be read"),
        ("a: 1", "no graph"),
        ("graph { " + "op{}" * 1100000 + " }", "no model of 4400010 characters has so many"),
    ],
    ids=lambda value: value[:30],
)
def test_broken_text_is_refused_with_its_line(tmp_path, text, message):
    path = tmp_path / "ge_proto_1.txt"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        load_model(str(path))
    assert message in caught.value.message and "ge_proto_1.txt" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        'attr { key: "x" value { list { ' + 's: "a" ' * 40000,
        'attr { key: "x" value { list { ' + "a:b:c:d" * 40000,
        'attr { key: "x" value { ' * 20000,
        "attr {" * 99 + ' key: "x" value {' + "i: 1 " * 40000,
        "#" * 200000,
        "# #\n" * 50000 + "!",
        " " * 300000 + "!",
        'a: "' + "\\" * 200001,
        'a: "' + "x" * 200000,
        "graph { name: " + '"x" ' * 50000 + "}",
        "a" * 300000,
        "name: [" + "1, " * 50000,
    ],
    ids=lambda value: value[:30],
)
def test_hostile_text_takes_linear_time(text, cpu_seconds):
    # A quadratic pass over these texts would take minutes.
    with cpu_seconds(40), contextlib.suppress(FormatError):
        parse_text(text, "t")


def test_thousands_of_ops_are_parsed(write):
    op = write.text(
        {"op": [write.op("name", "Conv2D", ["a:0", "b:0"], [write.desc("o", 0)], ["o"])]}
    )
    tree = parse_text("graph {\n" + op * 3000 + "}\n", "t")
    assert len(tree["graph"][0]["op"]) == 3000
