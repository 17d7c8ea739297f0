"""Ten megabytes of layers against thirty thousand ops; work is counted, since time depends on the
machine.
"""

from __future__ import annotations

import json

import pytest

import goldwatch.config.models
from goldwatch.base.naming import nearest_names
from goldwatch.config.check import check_file
from goldwatch.model.graph import ModelGraph
from goldwatch.schemas.jsontext import MAX_BYTES

OPS = 30000
LAYERS = 100000


@pytest.fixture(scope="module")
def om(tmp_path_factory):
    """The path of a model's json, and the names of its ops."""
    names = ["net/stage_%d/block_%d/conv_%d/Conv2D" % (i % 5, i % 50, i) for i in range(OPS)]
    desc = {"dtype": "DT_FLOAT16", "layout": "NCHW", "shape": {"dim": [1, 64, 56, 56]}}
    ops = [
        {
            "name": name,
            "type": "Conv2D",
            "id": i,
            "input": [names[i - 1] + ":0"] if i else [],
            "input_desc": [desc],
            "output_desc": [desc],
        }
        for i, name in enumerate(names)
    ]
    path = tmp_path_factory.mktemp("speed") / "om.json"
    path.write_text(json.dumps({"name": "net", "graph": [{"name": "g", "op": ops}]}))
    return str(path), names


@pytest.mark.parametrize("known", [True, False])
def test_ten_megabytes_of_layers_are_checked_without_searching_each(
    tmp_path, om, known, monkeypatch
):
    path, names = om
    pad = "x" * 45
    layers = [
        names[i % OPS] if known else "net/stage_%d/blokc/conv_%d/%s" % (i % 5, i, pad)
        for i in range(LAYERS)
    ]
    config = {
        "dump": {"dump_path": str(tmp_path), "dump_list": [{"model_name": "net", "layer": layers}]}
    }
    acl = tmp_path / "acl.json"
    text = json.dumps(config, indent=1)
    # The file is filled up with blanks to just the limit.
    acl.write_text(text + " " * (MAX_BYTES - len(text)))
    # How much is free where the tests run is no part of it: a dump that does not fit is a warning
    # of its own.
    monkeypatch.setattr("goldwatch.config.dump_size_rules.free_bytes", lambda folder: None)
    searched, asked = [], []

    def search(name, known):
        searched.append(len(known))
        return nearest_names(name, known)

    monkeypatch.setattr(goldwatch.config.models, "nearest_names", search)
    from_original = ModelGraph.ops_from
    monkeypatch.setattr(
        ModelGraph, "ops_from", lambda self, name: asked.append(name) or from_original(self, name)
    )
    report = check_file(str(acl), [path])
    # A search looks at every name of the model, so there are few; everything else is a look into a
    # table, a few for each layer.
    assert sum(searched) <= 240000 and len(asked) <= 2 * LAYERS
    if known:
        assert (report.errors, report.warnings) == (0, LAYERS - OPS) and not searched
    else:
        assert report.errors == LAYERS and searched
        assert report.findings[-1].line == LAYERS + 7
