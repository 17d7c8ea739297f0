from __future__ import annotations

import json

import pytest


def op(number, name, kind, inputs=(), shape=(1, 16, 8, 8), originals=None, outputs=1):
    desc = {"dtype": "DT_FLOAT16", "layout": "NCHW", "shape": {"dim": list(shape)}}
    node = {
        "name": name,
        "type": kind,
        "id": number,
        "input": list(inputs),
        "input_desc": [desc] * len(inputs),
        "output_desc": [desc] * outputs,
    }
    if originals is not None:
        value = {
            "list": {"s": list(originals), "val_type": "VT_LIST_STRING"}
            if originals
            else {"val_type": "VT_LIST_STRING"}
        }
        node["attr"] = [{"key": "_datadump_original_op_names", "value": value}]
    return node


OPS = [
    op(0, "input", "Data"),
    op(1, "weights", "Const"),
    op(2, "trans_in", "TransData", ["input:0"], originals=()),
    op(3, "fused_conv", "Conv2D", ["trans_in:0", "weights:0"], originals=("conv1", "bn1", "relu1")),
    op(4, "pool", "Pooling", ["fused_conv:0"]),
    op(5, "stream", "StreamActive"),
    op(6, "soft/max", "SoftmaxV2", ["pool:0"], shape=(1, 10)),
    op(7, "Node_Output", "NetOutput", ["soft/max:0"], originals=(), outputs=0),
]


@pytest.fixture
def om(tmp_path):
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"name": "net", "graph": [{"name": "net_graph", "op": OPS}]}))
    return str(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with what the cases need; the current folder, and no container."""
    monkeypatch.setattr("goldwatch.config.path_rules.in_container", lambda: False)
    for name in ("NPU_COLLECT_PATH", "ASCEND_DUMP_PATH", "ASCEND_WORK_PATH"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "d"
    for name in (
        "sub",
        "a b",
        "stale/20240101000000",
        "undated/20249901000000",
        "two/20240101000000",
        "two/20240101000001",
    ):
        (home / name).mkdir(parents=True)
    (home / "file").write_text("")
    (home / "acl.json").write_text("{}")
    (home / "link").symlink_to(home / "sub")
    (home / "dangling").symlink_to(home / "nothing")
    monkeypatch.chdir(home)
    return str(home)
