"""Damaged models: an error with the file's name, or a graph whose every tensor still gets a row."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import GoldwatchError
from goldwatch.model import DumpedOp, Pairing, load_model

_ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "a:0", "b:-1", "::", ":0", "64", "_datadump_origin_name"]),
    st.lists(st.integers(-2, 3), max_size=3),
    st.dictionaries(
        st.sampled_from(["s", "i", "b", "list", "key", "value", "dim", "op"]),
        st.integers() | st.text(max_size=3),
        max_size=3,
    ),
)
_SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def model(write):
    ops = [
        write.op("data", "Data"),
        write.op(
            "a",
            "Conv2D",
            ["data:0", "c:-1"],
            [write.desc("x", 0, "NHWC", origin_shape=(1, 2))],
            ["x", "y"],
            True,
            "1",
            3,
        ),
        write.op("b", "Cast", ["a:0", ""], originals=[]),
        write.op("q", "AscendQuant", ["b:0"]),
        write.op("d", "AscendDequant", ["q:0"], originals=["z"]),
    ]
    return write.tree(ops)


def _places(node, found):
    if isinstance(node, (dict, list)):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            found.append((node, key))
            _places(node[key], found)
    return found


def _use(path):
    """Load a model and ask for every row; return the number of tensors that got none."""
    try:
        graph = load_model(str(path))
    except GoldwatchError as error:
        assert path.name in error.message
        return 0
    paired = Pairing(graph, lambda name, index: len(name) % 2 == 0)
    lost = 0
    for op in graph.ops:
        lost += max(0, 5 - len(paired.rows_for(DumpedOp(op.name, op.type, 1, 3, 2))))
        graph.consumers(op, 0)
        graph.successors(op.name, 3)
        graph.predecessors(op.name, 3)
    paired.absent_rows(["a", "b"])
    return lost


@_SETTINGS
@given(data=st.data())
def test_any_value_in_any_place_is_refused_or_every_tensor_gets_a_row(model, tmp_path, data):
    tree = json.loads(json.dumps(model))
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(tree, [])
        if not places:
            break
        node, key = places[data.draw(st.integers(0, len(places) - 1))]
        if data.draw(st.booleans()):
            node[key] = data.draw(_ODD)
        elif isinstance(node, dict):
            del node[key]
        else:
            node.append(node[key])
    path = tmp_path / "m.json"
    path.write_text(json.dumps(tree))
    assert _use(path) == 0


@_SETTINGS
@given(data=st.data(), as_text=st.booleans())
def test_truncated_and_overwritten_models_are_refused_or_every_tensor_gets_a_row(
    model, write, tmp_path, data, as_text
):
    whole = (write.text(model) if as_text else json.dumps(model)).encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 40)))
    path = tmp_path / "ge_proto_m.txt"
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=6)) + whole[end:])
    assert _use(path) == 0


@_SETTINGS
@given(st.binary(max_size=64))
def test_random_bytes_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("r") / "m.json"
    path.write_bytes(data)
    assert _use(path) == 0
