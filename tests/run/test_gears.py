"""Models with gears of a dynamic batch: the gear of each run is known from its dumps."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps import write_dump
from goldwatch.dumps.write import TensorData
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions

STAMP = 1767323045000000


def graph_of_gear(number, batch):
    name = "%%s_ascend_mbatch_batch_%d" % number
    desc = {"shape": {"dim": [batch, 4]}, "dtype": "DT_FLOAT16", "layout": "ND"}
    originals = [{"key": "_datadump_original_op_names", "value": {"list": {"s": ["relu"]}}}]
    relu = {
        "name": name % "relu",
        "type": "Relu",
        "id": 1,
        "input": [name % "x" + ":0"],
        "input_desc": [desc],
    }
    relu.update(output_desc=[desc], attr=originals)
    return {
        "name": "Batch_%d" % number,
        "op": [{"name": name % "x", "type": "Data", "output_desc": [desc]}, relu],
    }


@pytest.fixture
def network(tmp_path):
    """Step 0 ran gear 1 (batch 2), step 1 gear 2 (batch 4); golden data of each."""
    tree = {"name": "net", "graph": [{"name": "net", "op": [{"name": "case", "type": "Case"}]}]}
    tree["graph"] += [graph_of_gear(number, 1 << number) for number in range(3)]
    (tmp_path / "net.json").write_text(json.dumps(tree))
    random = np.random.RandomState(3)
    for step, batch in ((0, 2), (1, 4)):
        values = random.standard_normal((batch, 4)).astype(np.float32)
        tensors = [
            TensorData(array.astype(np.float16), format="ND")
            for array in (values, np.maximum(values, 0))
        ]
        place = tmp_path / "dump" / "20260102030405" / "0" / "net" / "1" / str(step)
        os.makedirs(str(place))
        name = "Relu.relu_ascend_mbatch_batch_%d.1.0.%d" % (step + 1, STAMP + step)
        write_dump(str(place / name), tensors[:1], tensors[1:])
        os.makedirs(str(tmp_path / "golden" / str(step)))
        np.save(
            str(tmp_path / "golden" / str(step) / ("relu.0.%d.npy" % STAMP)), np.maximum(values, 0)
        )
    return tmp_path


def compared(network, golden):
    folders = [str(network / name) for name in ("dump", golden, "out-" + golden.replace("/", "-"))]
    return compare_folders(ComparisonOptions(*folders, str(network / "net.json")))


def test_each_step_is_compared_by_the_gear_that_ran(network) -> None:
    result = compared(network, "golden")
    assert result.exit_code == 0
    reasons = {
        (row.step, row.op): row.reason
        for row in result.rows("expected_absent")
        if row.op_type == "Relu"
    }
    of = "relu_ascend_mbatch_batch_%d"
    assert reasons["0", of % 2] == "gear Batch_2 did not run: Batch_1 did"
    assert reasons["1", of % 0] == "gear Batch_0 did not run: Batch_2 did"
    assert not any("gears" in text for text in result.left_out)


def test_golden_data_of_one_gear_leaves_the_others_out_with_a_reason(network) -> None:
    result = compared(network, "golden/0")
    assert result.exit_code == 3 and result.summary.passed == 1
    (told,) = [text for text in result.left_out if "gears" in text]
    assert "Batch_1 in device 0, model net, model_id 1, step 0; Batch_2 in device 0" in told
    assert "GOLDEN/{step}/" in told


def test_config_lists_the_ops_and_estimates_the_size_of_one_gear(network) -> None:
    model, acl = str(network / "net.json"), str(network / "acl.json")
    listed = run_here(["goldwatch", "config", "new", "--om", model, "--list", "--format", "json"])
    found = {op["op"]: (op["dumpable"], op["reason"]) for op in json.loads(listed.stdout)["ops"]}
    assert found["relu_ascend_mbatch_batch_1"] == (True, "only if gear Batch_1 runs")
    with open(acl, "w", encoding="utf-8") as stream:
        json.dump(
            {"dump": {"dump_path": str(network), "dump_list": [{"model_name": "net"}]}}, stream
        )
    # The largest: 4 x 4 values of 2 bytes, and a header.
    checked = run_here(["goldwatch", "config", "check", acl, "--om", model])
    assert "about 288 bytes per device and step (1 op, 1 tensor)" in checked.stdout
