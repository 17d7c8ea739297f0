"""A real om json, read from the shared folder."""

from __future__ import annotations

import os

import pytest

from goldwatch.model import DumpedOp, Pairing, load_model
from goldwatch.model.never_dumped import no_dump_reason

GOLDEN = {"BatchMultiClassNMS_1203", "Cast_1206", "Concat_1211", "Slice_1218", "Gather_1221"}


@pytest.fixture
def graph(shared_dir):
    return load_model(os.path.join(shared_dir, "data", "om", "sub_model.om.json"))


@pytest.mark.shared
def test_the_real_om_json_is_read_completely(graph):
    assert (graph.name, graph.graph_names, len(graph.ops), graph.notes) == (
        "sub_model",
        ("sub_model_NPU_0",),
        19,
        (),
    )
    assert graph.op("BatchMultiClassNMS_1203").inputs[2:] == (None, None)
    assert (
        graph.op("trans_Cast_0").original_names == ()
        and graph.op("boxes_all").original_names is None
    )
    made = [op.name for op in graph.ops_from("Gather_1221")]
    assert made == [
        "PartitionedCall_Gather_1221_const_data_2",
        "PartitionedCall_Gather_1221_gatherv2_3",
    ]


@pytest.mark.shared
def test_every_tensor_of_the_real_om_json_has_a_row(graph):
    paired = Pairing(graph, lambda name, index: name in GOLDEN)
    found = {}
    for op in graph.ops:
        if no_dump_reason(op) is None:
            connected = sum(source is not None for source in op.inputs)
            plans = paired.rows_for(
                DumpedOp(op.name.replace(".", "_"), op.type, 1, connected, len(op.output_descs))
            )
            assert len(plans) == connected + len(op.output_descs)
            found.update(
                (plan.tensor, (plan.status, plan.golden_op, plan.golden_index, plan.golden))
                for plan in plans
            )
    assert found["BatchMultiClassNMS_1203:output:3"] == (
        "pair",
        "BatchMultiClassNMS_1203",
        3,
        "BatchMultiClassNMS_1203",
    )
    assert found["Cast_1206:output:0"] == ("pair", "Cast_1206", 0, "Cast_1206")
    assert found["Cast_1206:input:0"] == ("pair", "BatchMultiClassNMS_1203", 2, "Cast_1206")
    assert found["PartitionedCall_Gather_1221_gatherv2_3:output:0"] == (
        "pair",
        "Gather_1221",
        0,
        "Gather_1221",
    )
    assert found["PartitionedCall_Gather_1221_gatherv2_3:input:2"][0] == "expected_absent"
    assert found["trans_Cast_7:output:0"] == ("pair", "Gather_1221", 0, "*")
    assert found["trans_Cast_0:output:0"][0] == "expected_absent"
    assert found["BatchMultiClassNMS_1203_Output0TransposeAfter:output:0"][0] == "not_compared"
    absent = {plan.tensor: plan.status for plan in paired.absent_rows([])}
    assert (
        absent["Node_Output"] == absent["dynamic_const_48187_1"] == "expected_absent"
        and absent["Concat_1211"] == "not_compared"
    )
