"""The ops of a model that a dump configuration requests."""

from __future__ import annotations

import json

import pytest

from goldwatch.base.errors import FormatError, MissingPath
from goldwatch.config.ops_of_dump_plan import read_requested_plan, requested_ops_of
from goldwatch.model.read_model import load_model


@pytest.fixture
def graph(tmp_path):
    """x -> conv (from conv and relu) -> pool -> fc; ids in the order of the file."""
    ops = [("x", "Data", [], None), ("conv", "Conv2D", ["x:0"], ["conv0", "relu0"]),
    ("pool", "Pooling", ["conv:0"], None),
           ("fc", "MatMulV2", ["pool:0"], None)]  # fmt: skip
    tree = {"name": "net", "graph": [{"name": "g", "op": []}]}
    for number, (name, kind, inputs, originals) in enumerate(ops):
        op = {
            "name": name,
            "type": kind,
            "id": number,
            "input": inputs,
            "input_desc": [{}] * len(inputs),
            "output_desc": [{}],
        }
        if originals:
            op["attr"] = [
                {"key": "_datadump_original_op_names", "value": {"list": {"s": originals}}}
            ]
        tree["graph"][0]["op"].append(op)
    path = tmp_path / "om_file.json"
    path.write_text(json.dumps(tree))
    return load_model(str(path))


@pytest.fixture
def asked(graph, tmp_path):
    def _asked(dump, name=None, file="acl.json"):
        path = tmp_path / file
        path.write_text(dump if isinstance(dump, str) else json.dumps(dump))
        found = requested_ops_of(read_requested_plan(str(path)), graph, name)
        ops = (
            None
            if found.positions is None
            else [graph.ops[position].name for position in sorted(found.positions)]
        )
        return ops, found.mode, found.reason

    return _asked


def acl(*models, **more):
    return {"dump": {"dump_path": "/nowhere", "dump_list": list(models), **more}}


OTHERS = "not asked for: the dump configuration names other ops"


@pytest.mark.parametrize("name", ["net", "g", "om_file", "some_other"])
def test_layers_named_before_or_after_fusion_are_the_requested_ops(asked, name) -> None:
    ops, mode, reason = asked(acl({"model_name": name, "layer": ["relu0", "fc"]}))
    assert (ops, mode) == (["conv", "fc"], "output")
    # The om file may have another name than the json; an acl.json of another run may be meant.
    foreign = name not in ("net", "g", "om_file")
    assert reason == OTHERS + (" (of model some_other, which is taken for this one)" * foreign)


def test_an_entry_without_layers_requests_every_op(asked) -> None:
    assert asked(acl({"model_name": "net"}, dump_mode="all")) == (None, "all", "")
    assert asked(acl({})) == (None, "output", "")


def test_the_dump_list_entry_of_the_model_decides(asked) -> None:
    first, second = {"model_name": "net", "layer": ["fc"]}, {"model_name": "net", "layer": ["pool"]}
    assert asked(acl(first, second))[0] == ["pool"]
    assert asked(acl(first, {"layer": ["conv"]}))[0] == ["conv"]
    others = [{"model_name": name, "layer": ["fc"]} for name in ("a", "b.c")]
    # None of several is this model's: nobody knows what was asked for of it.
    assert asked(acl(*others)) == (None, None, "")
    assert asked(acl(*others), "b_c")[0] == ["fc"]


def test_op_ranges_and_blacklists_limit_the_requested_ops(asked) -> None:
    entry = {"model_name": "net", "opname_range": [{"begin": "conv", "end": "pool"}]}
    assert asked(acl(entry, dump_level="op"))[0] == ["conv", "pool"]
    entry = {"model_name": "net", "optype_blacklist": [{"name": "Pooling", "pos": ["output0"]}]}
    left = "not asked for: the dump configuration leaves it out"
    assert asked(acl(entry, dump_level="op")) == (["conv", "fc"], "output", left)
    # Its input is still dumped.
    assert asked(acl(entry, dump_level="op", dump_mode="all"))[0] is None
    entry["optype_blacklist"] = [{"name": "Pooling"}]
    assert asked(acl(entry, dump_level="op", dump_mode="all"))[0] == ["conv", "fc"]


def test_overflow_and_exception_dumps_request_no_ops(asked) -> None:
    ops, mode, reason = asked({"dump": {"dump_path": "/nowhere", "dump_debug": "on"}})
    assert (ops, mode, reason) == (
        [],
        None,
        "not asked for: only ops that overflow are dumped (dump_debug)",
    )
    assert asked({"dump": {"dump_scene": "lite_exception"}})[2].endswith(
        "only ops that fail are dumped (dump_scene lite_exception)"
    )
    watcher = acl({"layer": ["conv"], "watcher_nodes": ["pool"]}, dump_scene="watcher")
    assert asked(watcher)[0] == ["pool"]


def test_npu_settings_scripts_and_plans_give_requested_ops(asked) -> None:
    settings = {
        "enable_dump": True,
        "dump_path": "/nowhere",
        "dump_mode": "input",
        "dump_layer": "pool  fc",
    }
    assert asked(settings) == (["pool", "fc"], "input", OTHERS)
    script = (
        "from npu_bridge.estimator.npu.npu_config import DumpConfig\nDumpConfig(enable_dump=True, "
        "dump_path='/x', dump_layer='fc')\n"
    )
    assert asked(script, file="train.py") == (["fc"], "output", OTHERS)
    assert asked({"models": [{"name": "net", "layers": ["fc"]}], "mode": "all"}) == (
        ["fc"],
        "all",
        OTHERS,
    )


def test_a_file_that_is_no_configuration_is_refused(asked, tmp_path) -> None:
    with pytest.raises(FormatError, match="no dump plan"):
        asked({"dump": {"dump_mode": "sideways"}})
    with pytest.raises(MissingPath):
        read_requested_plan(str(tmp_path / "gone.json"))
