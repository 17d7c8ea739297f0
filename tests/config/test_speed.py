"""Ten megabytes of layers against thirty thousand ops."""

from __future__ import annotations

import json
import time

import pytest

from goldwatch.config.check import check_file
from goldwatch.config.jsontext import MAX_BYTES

OPS = 30000
LAYERS = 100000


def model():
    names = ["net/stage_%d/block_%d/conv_%d/Conv2D" % (i % 5, i % 50, i) for i in range(OPS)]
    desc = {"dtype": "DT_FLOAT16", "layout": "NCHW", "shape": {"dim": [1, 64, 56, 56]}}
    ops = [
        {"name": name, "type": "Conv2D", "id": i, "input": [names[i - 1] + ":0"] if i else [], "input_desc": [desc], "output_desc": [desc]}
        for i, name in enumerate(names)
    ]
    return {"name": "net", "graph": [{"name": "g", "op": ops}]}, names


@pytest.mark.parametrize("known", [True, False])
def test_ten_megabytes(tmp_path, known):
    document, names = model()
    pad = "x" * 45
    layers = [names[i % OPS] if known else "net/stage_%d/blokc/conv_%d/%s" % (i % 5, i, pad) for i in range(LAYERS)]
    config = {"dump": {"dump_path": str(tmp_path), "dump_list": [{"model_name": "net", "layer": layers}]}}
    acl, om = tmp_path / "acl.json", tmp_path / "om.json"
    text = json.dumps(config, indent=1)
    # The file is filled up with blanks to just the limit.
    acl.write_text(text + " " * (MAX_BYTES - len(text)))
    om.write_text(json.dumps(document))
    begin = time.process_time()
    json.loads(om.read_text())
    json.loads(text)
    yardstick_s = time.process_time() - begin
    begin = time.process_time()
    report = check_file(str(acl), [str(om)])
    elapsed_s = time.process_time() - begin
    # Three seconds on any machine of these years; a slower or busier one is told by the time that plain parsing takes.
    assert elapsed_s < max(3.0, 15 * yardstick_s)
    if known:
        assert (report.errors, report.warnings) == (0, LAYERS - OPS)
    else:
        assert report.errors == LAYERS
        assert sum("did you mean" in finding.message for finding in report.findings) <= 20
        assert report.findings[-1].line == LAYERS + 7
