"""The rows of one dump by a model, in a short form."""

from __future__ import annotations

from goldwatch.model import DumpedOp

PAIR, NOT, ABSENT, OMITTED = "pair", "not_compared", "expected_absent", "omitted"


def rows_of_dump(pairing, op, n_inputs=None, n_outputs=None, op_type=None, stamp=1):
    node = pairing.graph.op(op)
    n_inputs = len(node.inputs) if n_inputs is None else n_inputs
    n_outputs = len(node.output_descs) if n_outputs is None else n_outputs
    return pairing.rows_for(
        DumpedOp(op.replace("/", "_"), op_type or node.type, stamp, n_inputs, n_outputs)
    )


def status_by_tensor(plans):
    """``{"input:0": (status, golden op, golden index)}``."""
    return {
        plan.tensor[len(plan.op) + 1 :] or "op": (plan.status, plan.golden_op, plan.golden_index)
        for plan in plans
    }
