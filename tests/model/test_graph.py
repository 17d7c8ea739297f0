"""Model files in their json form, and the graph made of them."""

from __future__ import annotations

import io
import json

import pytest

from goldwatch.base.errors import FormatError, InputError, MissingPath
from goldwatch.model import DumpedOp, Pairing, load_model
from goldwatch.model import read_model as read_model_module
from goldwatch.model.graph import computational_graphs
from goldwatch.model.op_node import execution_key


@pytest.fixture
def load_tree(tmp_path):
    def _load(tree, suffix=".json", encoding="utf-8"):
        path = tmp_path / ("m" + suffix)
        data = (
            tree
            if isinstance(tree, bytes)
            else (tree if isinstance(tree, str) else json.dumps(tree)).encode(encoding)
        )
        path.write_bytes(data)
        return load_model(str(path))

    return _load


def test_an_op_keeps_what_pairing_and_configuration_need(load, write):
    desc = write.desc(
        "conv/bn", 1, "NHWC", shape=(1, 4, 2, 2, 16), layout="NC1HWC0", origin_shape=(1, 2, 2, 64)
    )
    graph = load(
        [
            write.op(
                "a::b",
                inputs=["x::y:3", "", "c:-1"],
                outputs=[desc],
                originals=["conv", "bn", "conv"],
                id=7,
                l1="2",
            )
        ]
    )
    op = graph.ops[0]
    assert (graph.name, graph.graph_names) == ("model", ("g0",))
    assert op.inputs == (("x::y", 3), None) and op.controls == ("c",)
    assert op.original_names == ("conv", "bn") and op.originals == ("conv", "bn")
    assert (op.id, op.position, op.graph_index, op.l1_group, op.is_multiop, op.no_task) == (
        7,
        0,
        0,
        "2",
        False,
        None,
    )
    out = op.output_descs[0]
    assert (out.dtype, out.layout, out.shape, out.size_bytes) == (
        "DT_FLOAT16",
        "NC1HWC0",
        (1, 4, 2, 2, 16),
        512,
    )
    assert (out.origin_name, out.origin_index, out.origin_format, out.origin_shape) == (
        "conv/bn",
        1,
        "NHWC",
        (1, 2, 2, 64),
    )


def test_missing_and_empty_attributes_are_told_apart(load_tree):
    def op(name, *attrs, **more):
        return dict({"name": name, "type": "T", "attr": list(attrs)}, **more)

    originals, origin, index = (
        "_datadump_original_op_names",
        "_datadump_origin_name",
        "_datadump_origin_output_index",
    )
    graph = load_tree(
        {
            "graph": [
                {
                    "op": [
                        op("absent"),
                        op("null", {"key": originals, "value": None}),
                        op(
                            "no_s",
                            {"key": originals, "value": {"list": {"val_type": "VT_LIST_STRING"}}},
                        ),
                        op("key_only", {"key": originals}),
                        op("empty_name", {"key": originals, "value": {"list": {"s": [""]}}}),
                        op(
                            "descs",
                            output_desc=[
                                None,
                                {},
                                {
                                    "attr": [
                                        {"key": origin, "value": {}},
                                        {"key": index, "value": None},
                                    ]
                                },
                            ],
                        ),
                    ]
                },
                {"name": "second"},
            ]
        }
    )
    assert [op.original_names for op in graph.ops[:5]] == [None, (), (), (), ("",)]
    assert [op.originals for op in graph.ops[:5]] == [("absent",), (), (), (), ()]
    assert [(d.origin_name, d.origin_index) for d in graph.ops[5].output_descs] == [
        (None, None),
        (None, None),
        ("", 0),
    ]
    assert graph.name == "" and graph.graph_names == ("", "second") and graph.notes == ()


def test_numbers_as_text_and_unexpected_values_are_read_with_a_note(load_tree):
    shapes = [["64", 3], [1.0, -1], ["x"], "64", [True]]
    descs = [{"dtype": 7, "shape": {"dim": dims}} for dims in shapes] + [{"shape": [1]}]
    originals = {"key": "_datadump_original_op_names", "value": {"list": [1]}}
    attrs = [3, {"key": 5}, {"key": "_datadump_is_multiop", "value": {"s": "x"}}, originals]
    graph = load_tree(
        {
            "graph": [
                {
                    "op": [
                        {
                            "name": "a",
                            "id": "12",
                            "output_desc": descs,
                            "attr": attrs,
                            "input": ["n", "m:x"],
                        }
                    ]
                }
            ]
        }
    )
    op = graph.ops[0]
    assert (
        op.id == 12
        and op.inputs == (("n", 0), ("m:x", 0))
        and op.original_names == ()
        and not op.is_multiop
    )
    assert [d.shape for d in op.output_descs] == [(64, 3), (1, -1), (), (), (), ()]
    assert op.output_descs[1].size_bytes is None and op.output_descs[0].dtype == "7"
    assert any(
        note.startswith(
            "/graph/0/op/0/output_desc/2/shape/dim/0: expected an integer, got a string"
        )
        for note in graph.notes
    )
    assert any(note.startswith("/graph/0/op/0/attr/0: not an attribute") for note in graph.notes)


def test_notes_beyond_a_hundred_are_counted_only(load_tree):
    graph = load_tree(
        {"graph": [{"op": [{"name": "n%d" % i, "input": ["x"]} for i in range(250)]}]}
    )
    assert len(graph.notes) == 101 and graph.notes[-1].startswith("150 more")


@pytest.mark.parametrize(
    "tree, text",
    [
        ([], "expected an object with a graph, got a list"),
        ('"x"', "expected an object"),
        ({}, "no graph"),
        ({"graph": None}, "no graph"),
        ({"graph": []}, "is empty"),
        ({"graph": {}}, "/graph: expected a list, got an object"),
        ({"graph": [1]}, "/graph/0: expected an object, got a number"),
        ({"graph": [{"op": {}}]}, "/graph/0/op: expected a list"),
        ({"graph": [{"op": [{}, 5]}]}, "/graph/0/op/1: expected an object, got a number"),
        ({"graph": [{"op": [{"name": 5}]}]}, "/graph/0/op/0/name: expected a string, got a number"),
        ({"graph": [{"op": [{"type": []}]}]}, "/graph/0/op/0/type: expected a string, got a list"),
        (
            {"graph": [{"op": [{"input": [{}, {"a": 1}]}]}]},
            "/graph/0/op/0/input/1: expected a string, got an object",
        ),
        ({"graph": [{"op": [{"input_desc": 5}]}]}, "/graph/0/op/0/input_desc: expected a list"),
        (
            {"graph": [{"op": [{"output_desc": ["x"]}]}]},
            "/graph/0/op/0/output_desc/0: expected an object",
        ),
        ({"graph": [{"op": [{"attr": {"key": 1}}]}]}, "/graph/0/op/0/attr: expected a list"),
        ("", "empty"),
        ("{", "line 1 column 2"),
        ('{"graph": [}', "not json"),
        ("[" * 1000000, "nested deeper than 100 at byte 100"),
        ('{"graph": ' + '{"a":[' * 500000, "nested deeper than 100"),
        ('{"a": "\\\\", "b": ' + "[" * 1000, "nested deeper than 100"),
        ('{"graph": [{"op": [{"id": %s}]}]}' % ("9" * 100000), "digits"),
        (b"{\xff}", "not UTF-8: byte 0xff at offset 1"),
        (b"\x00\x01\x02\x03", "not json"),
        ('{"graph": [{"op": [' + "{}," * 1100000 + "{}]}]}", "no model has so many"),
        (
            '{"graph": [{"op": [{"input": [' + '"",' * 2000000 + '""]}]}]}',
            "/graph/0/op/0/input: more than 2000000 ops",
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_broken_json_is_refused_with_the_place(load_tree, tree, text):
    with pytest.raises(FormatError) as caught:
        load_tree(tree)
    assert text in caught.value.message and "m.json" in caught.value.message


def test_brackets_inside_strings_do_not_nest(load_tree, monkeypatch):
    from goldwatch.model import omjson

    names = ["[" * 300, '{"' * 200, "\\" * 7 + "[" * 300, 'a"\\' * 90]
    tree = {"graph": [{"op": [{"name": name} for name in names]}]}
    for window in (7, 16, 1 << 22):
        monkeypatch.setattr(omjson, "_WINDOW", window)
        assert [op.name for op in load_tree(tree).ops] == names


def test_nesting_depth_is_counted_alike_for_any_window(monkeypatch):
    from goldwatch.model import omjson

    data = (b'{"a\\\\\\"[[": ' + b"[" * 99 + b'"\\"]"') + b"]" * 99 + b"}"
    for window in range(1, 40):
        monkeypatch.setattr(omjson, "_WINDOW", window)
        assert omjson.check_bounds(data, "x") is False
        with pytest.raises(FormatError):
            omjson.check_bounds(data.replace(b"[" * 99, b"[" * 100), "x")


def test_a_byte_order_mark_and_bytes_that_are_not_utf_8_are_read(load_tree):
    assert (
        load_tree(b'\xef\xbb\xbf {"graph": [{"op": [{"name": "\xc3\xa9"}]}]}').ops[0].name == "\xe9"
    )
    graph = load_tree(b'{"graph": [{"op": [{"name": "a\xff"}, {"name": "\\ud800"}]}]}')
    assert [op.name for op in graph.ops] == ["a\\xff", "\\ud800"]
    assert "offset 30" in graph.notes[0]


@pytest.mark.parametrize(
    "name, data",
    [
        ("m.om", b"\x00\x01"),
        ("model", b"IMOD\x00\x01"),
        ("m.OM", b"PK\x03\x04zip"),
        ("a b.om", b""),
    ],
)
def test_an_om_given_as_json_is_refused_with_the_command_that_makes_the_json(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load_model(str(path))
    assert "atc --mode=1 --om=" in caught.value.hint and " --json=" in caught.value.hint
    if " " in name:
        assert "'%s'" % path in caught.value.hint


def test_a_missing_model_file_or_a_folder_is_reported(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(MissingPath):
            load_model(str(path))


def test_ops_are_found_by_their_name_as_device_and_golden_files_write_it(load, write):
    graph = load(
        [
            write.op("a/b"),
            write.op("a_b"),
            write.op("c.d:e f"),
            write.op("g", originals=["orig/x", "y"]),
        ]
    )
    assert [op.position for op in graph.ops_named("a_b")] == [1]
    assert [op.position for op in graph.ops_named("a.b")] == [0, 1]
    assert graph.op("c_d:e_f").position == 2
    assert graph.op("c_d_e_f").position == 2
    assert graph.op("nothing") is None and graph.op("") is None
    assert [op.name for op in graph.ops_from("orig/x")] == ["g"] and [
        op.name for op in graph.ops_from("a/b")
    ] == ["a/b"]


def test_repeated_op_names_are_noted(load, write):
    graph = load([write.op("a"), write.op("a"), write.op("b")])
    assert "1 op names occur more than once (a)" in graph.notes[0]


def test_ops_run_in_order_of_graph_and_id_and_cycles_of_neighbours_end(load, write):
    main = [
        write.op("c", inputs=["b:0"], id=3),
        write.op("a", inputs=["c:0"], id=1),
        write.op("b", inputs=["a:0", "a:1", "gone:0"], id=2),
        write.op("z"),
    ]
    graph = load(main, [write.op("sub", id=0)])
    assert execution_key(graph.op("sub")) == (1, 0)
    assert [op.name for op in graph.successors("a", 1)] == ["b"]
    assert [op.name for op in graph.successors("a", 9)] == ["b", "c"]
    assert [op.name for op in graph.predecessors("a", 2)] == ["c", "b"]
    assert graph.predecessors("a", 0) == [] and graph.successors("none") == []


def test_a_producer_in_the_same_graph_is_preferred(load, write):
    graph = load([write.op("x")], [write.op("x"), write.op("y", inputs=["x:0"])])
    assert graph.producer(graph.op("y"), "x").graph_index == 1


def test_a_graph_with_an_iterator_is_the_computational_one(load, write):
    train = load([write.op("it", "IteratorV2"), write.op("a")], name=None)
    other = load([write.op("a")], name="other")
    assert train.name == "g0" and train.is_computational
    assert computational_graphs([other, train]) == [train]


def test_a_large_json_needs_memory_of_a_few_times_its_size(load_tree):
    unused = {"key": "_unused", "value": {"list": {"i": list(range(2000))}}}
    ops = [{"name": "op%d" % number, "type": "T", "attr": [unused]} for number in range(1000)]
    graph = load_tree({"graph": [{"op": ops}]})
    assert len(graph.ops) == 1000 and graph.ops[999].name == "op999"


def test_names_that_files_write_alike_are_told_apart_by_type(load, write):
    graph = load(
        [
            write.op("x/y", "Relu"),
            write.op("x_y", "Relu"),
            write.op("x.y", "Gelu"),
            write.op("x.y.z"),
        ]
    )
    assert [op.name for op in graph.ops_dumped_as("x_y")] == ["x/y", "x_y", "x.y"]
    assert [op.name for op in graph.ops_dumped_as("x.y")] == ["x.y"] and [
        op.name for op in graph.ops_dumped_as("x_y_z")
    ] == ["x.y.z"]
    assert (
        graph.sharing_golden_name("x y") == ["x/y", "x_y", "x.y"]
        and graph.sharing_golden_name("x.y.z") == []
    )
    paired = Pairing(graph, lambda name, index: True)
    assert [plan.tensor for plan in paired.rows_for(DumpedOp("x_y", "Gelu", 1, 0, 1))] == [
        "x.y:output:0"
    ]
    (plan,) = paired.rows_for(DumpedOp("x_y", "Relu", 1, 0, 1))
    assert plan.status == "not_compared" and "2 ops of the model file (x/y, x_y)" in plan.reason
    assert [plan.tensor for plan in paired.absent_rows([DumpedOp("x_y", "Relu", 1, 0, 1)])] == [
        "x.y",
        "x.y.z",
    ]
    assert [plan.tensor for plan in paired.absent_rows(["x_y"])] == ["x.y.z"]


@pytest.mark.parametrize("value", ["xx", 2, 0.5, [], "TRUE"])
def test_an_unreadable_flag_is_noted(load, write, value):
    graph = load([write.op("a", attrs=[{"key": "_datadump_is_multiop", "value": {"b": value}}])])
    assert not graph.ops[0].is_multiop
    assert any("_datadump_is_multiop: expected true or false" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("true", True), (1, True), (False, False), ("false", False), (0, False)],
)
def test_flags_are_read_in_every_form(load, write, value, expected):
    graph = load([write.op("a", attrs=[{"key": "_datadump_is_multiop", "value": {"b": value}}])])
    assert (graph.ops[0].is_multiop, graph.notes) == (expected, ())


def test_consumers_of_an_op_and_of_one_output_are_found(load, write):
    graph = load(
        [
            write.op("a", outputs=2),
            write.op("b", inputs=["a:0", "a:1"]),
            write.op("c", inputs=["a:1", "b:-1"]),
        ]
    )
    a, b, c = graph.ops
    assert (
        graph.consumers(a) == [b, c]
        and graph.consumers(a, 0) == [b]
        and graph.consumers(a, 1) == [b, c]
    )
    assert graph.consumers(b) == [] and graph.consumers(c, 3) == []


def test_reading_a_model_asks_for_no_more_memory_than_the_file_has_bytes(tmp_path, monkeypatch):
    path = tmp_path / "net.json"
    path.write_text('{"graph": [{"name": "net", "op": []}]}')
    asked = []

    class Watched(io.BytesIO):
        def read(self, size=-1):
            asked.append(size)
            return super().read(size)

    monkeypatch.setattr(read_model_module, "open_input", lambda name: Watched(path.read_bytes()))
    load_model(str(path))
    assert max(asked) <= 4096 and min(asked) > 0
