"""Inputs, outputs and chip of an om, read from its json."""

from __future__ import annotations

import json

import numpy as np
import pytest

from goldwatch.base.errors import FormatError, InputError
from goldwatch.model.om_interface import read_om_interface


def data(name, shape, dtype="DT_FLOAT", layout="NCHW", **attributes):
    attr = [{"key": key, "value": value} for key, value in attributes.items()]
    return {
        "name": name,
        "type": "Data",
        "attr": attr,
        "output_desc": [{"dtype": dtype, "layout": layout, "shape": {"dim": shape}}],
    }


@pytest.fixture
def read(tmp_path):
    """Writes an om's json of these ops and reads it."""

    def call(ops, command="", **attributes):
        attr = [{"key": "atc_cmdline", "value": {"s": command}}] if command else []
        attr += [{"key": key, "value": {"s": value}} for key, value in attributes.items()]
        (tmp_path / "model.json").write_text(
            json.dumps({"name": "net", "attr": attr, "graph": [{"name": "net", "op": ops}]})
        )
        return read_om_interface(str(tmp_path / "model.json"))

    return call


OUTPUT = {"name": "Node_Output", "type": "NetOutput", "input": ["a:0", "b:0"]}


def test_inputs_outputs_and_chip_of_an_om_are_read(read) -> None:
    found = read(
        [data("x", [2, 3]), data("n", [4], "DT_INT64", "ND"), OUTPUT],
        soc_version="Ascend310P3",
        atc_version="1.2",
    )
    assert [(each.name, each.dtype, each.shape, each.layout) for each in found.inputs] == [
        ("x", "float32", (2, 3), "NCHW"),
        ("n", "int64", (4,), "ND"),
    ]
    assert (found.outputs, found.soc_version, found.attributes["atc_version"], found.dynamic) == (
        2,
        "Ascend310P3",
        "1.2",
        None,
    )


def test_inputs_are_ordered_by_their_index(read) -> None:
    found = read([data("second", [1], index={"i": 1}), data("first", [1], index={})])
    assert [each.name for each in found.inputs] == ["first", "second"]


def test_an_input_that_the_runner_fills_is_not_listed(read) -> None:
    ops = [data("x", [-1, 3]), data("ascend_mbatch_shape_data", [1], "DT_INT64")]
    found = read(ops, "atc --input_shape=x:-1,3 --dynamic_batch_size=1,4")
    assert [each.name for each in found.inputs] == ["x"]
    assert found.dynamic.kind == "batch" and found.dynamic.gears == ((1,), (4,))


def test_unknown_dims_without_an_option_are_a_dynamic_shape(read) -> None:
    found = read([data("x", [-1, 3])])
    assert found.dynamic.kind == "shape" and found.dynamic.shapes == {"x": (-1, 3)}


@pytest.mark.parametrize("where", ["data", "op", "config"])
def test_aipp_settings_of_an_input_are_read(read, where) -> None:
    settings = {"func": {"attr": [{"key": "input_format", "value": {"i": 3}},
    {"key": "crop", "value": {"b": True}}]
                         + [{"key": "mean_chn_0", "value": {"i": 104}},
                         {"key": "var_reci_chn_0", "value": {"f": 0.5}}]}}  # fmt: skip
    aipp = {"name": "aipp", "type": "Aipp", "input": ["x:0"], "attr": []}
    if where == "op":
        aipp["attr"] = [{"key": "aipp", "value": settings}]
    if where == "config":
        told = {
            "input_format": "RGB888_U8",
            "crop": True,
            "mean_chn_0": 104,
            "var_reci_chn_0": 0.5,
            "else": 1,
        }
        aipp["attr"] = [{"key": "aipp_config_path", "value": {"s": json.dumps(told)}}]
    found = read(
        [
            data(
                "x",
                [1, 8, 8, 3],
                "DT_UINT8",
                "NHWC",
                **({"aipp": settings} if where == "data" else {}),
            ),
            aipp,
            data("y", [1]),
        ]
    )
    form = "RGB888_U8" if where == "config" else 3
    assert found.inputs[0].aipp == {
        "input_format": form,
        "crop": True,
        "mean_chn_0": 104,
        "var_reci_chn_0": 0.5,
    }
    assert found.inputs[1].aipp == {}


def test_a_json_without_a_graph_is_refused(tmp_path) -> None:
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(FormatError, match="no graph"):
        read_om_interface(str(tmp_path / "model.json"))


@pytest.mark.parametrize("name, words", [("x.npy", "an npy file"), ("acl.json", "a dump")])
def test_a_file_of_another_kind_is_called_what_it_is(tmp_path, name, words):
    np.save(str(tmp_path / "x.npy"), np.ones(2))
    (tmp_path / "acl.json").write_text('{"dump": {"dump_path": "/tmp", "dump_mode": "all"}}')
    with pytest.raises(InputError, match="%s.*not the compiled model" % words):
        read_om_interface(str(tmp_path / name))
