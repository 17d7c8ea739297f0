"""What the page of a network reads from a result."""

from __future__ import annotations

from merged_hosts import make_row

from goldwatch.metrics.row import EXPECTED_ABSENT
from goldwatch.reports.pages.graph_result import read_result
from goldwatch.store.store import RunStore


def test_constants_are_not_nodes_of_the_original_network(tmp_path):
    compared = make_row(0).but(op="conv", golden="/Conv_0,/Relu_1")
    constants = [
        make_row(number).but(op="const_%d" % number, golden="w%d" % number, verdict=EXPECTED_ABSENT)
        for number in range(1, 5)
    ]
    with RunStore.begin(str(tmp_path / "out"), {}) as store:
        store.put_all([compared, *constants])
    found = read_result(str(tmp_path / "out"))
    assert found.originals == {"/Conv_0", "/Relu_1"} and len(found.ops) == 5
