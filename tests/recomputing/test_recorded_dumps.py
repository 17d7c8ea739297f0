"""The inputs of an operator, read from its dump."""

from __future__ import annotations

import json

import numpy as np
import pytest

from goldwatch.dumps.dump_tree import DumpTree
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.model import Pairing, load_model
from goldwatch.recomputing.recorded_dumps import RecordedStep


@pytest.mark.parametrize("output_at, came_in", [(8192, True), (4096, False), (0, True)])
def test_an_input_equal_to_the_output_counts_as_overwritten_unless_addresses_differ(
    tmp_path, output_at, came_in
) -> None:
    """What is added is too small to change a float16: layer scales of 1e-6 are."""
    desc = {"dtype": "DT_FLOAT16", "layout": "ND", "shape": {"dim": [4]}}
    ops = [{"name": name, "type": "Data", "output_desc": [desc]} for name in ("x", "little")]
    ops.append(
        {
            "name": "sum",
            "type": "Add",
            "input": ["x:0", "little:0"],
            "input_desc": [desc] * 2,
            "output_desc": [desc],
            "id": 2,
        }
    )
    (tmp_path / "net.json").write_text(
        json.dumps({"name": "net", "graph": [{"name": "net", "op": ops}]})
    )
    folder = tmp_path / "dump" / "20260102030405" / "0" / "net" / "1" / "0"
    folder.mkdir(parents=True)
    x, little = np.ones(4, np.float16), np.full(4, 1e-6, np.float16)
    given = [TensorData(x, address=4096), TensorData(little, address=6144)]
    write_dump(
        str(folder / "Add.sum.2.0.1767323045000000"),
        given,
        [TensorData(x + little, address=output_at)],
    )
    graph = load_model(str(tmp_path / "net.json"))
    (step_folder,) = DumpTree(str(tmp_path / "dump")).step_folders
    recorded = RecordedStep(step_folder, graph, Pairing(graph, lambda name, index: True))
    op = graph.op("sum")
    assert op is not None
    assert recorded.input(op, 0)[1] is came_in and recorded.input(op, 1)[1]
