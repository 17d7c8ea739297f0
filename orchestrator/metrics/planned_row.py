"""The row of a planned tensor, before anything is compared."""

from __future__ import annotations

from typing import Optional

from ..dumps.dump_file import TensorInfo
from ..dumps.folder_listing import DumpEntry
from ..dumps.place import Place
from ..model.row_plan import PAIR, RowPlan
from .row import DEQUANTISED, ONLY_INPUTS, PASS, Row


def planned_row(
    plan: RowPlan, place: Place, entry: Optional[DumpEntry], info: Optional[TensorInfo] = None
) -> Row:
    """Return the row of a planned tensor but for its findings; ``entry`` is its dump file and
    ``info`` its header's, where it has one.
    """
    return Row(
        index=plan.index,
        op=plan.op,
        op_type=plan.op_type,
        tensor=plan.tensor,
        kind=plan.kind,
        verdict=PASS if plan.status == PAIR else plan.status,
        tensor_index=plan.tensor_index,
        op_sequence=plan.op_sequence,
        graph_index=plan.graph_index,
        group=plan.group or (plan.op,),
        golden=plan.golden,
        time=place.time,
        device=place.device,
        model=place.model,
        model_id=place.model_id,
        step=place.step,
        shape=info.shape if info is not None else None,
        target_dtype=info.dtype.name if info is not None else None,
        address=info.address if info is not None else None,
        reason=plan.reason,
        reason_codes=DEQUANTISED
        if plan.quantisation is not None
        else ONLY_INPUTS
        if plan.only_inputs
        else "",
        target_file=entry.rel if entry is not None else None,
        timestamp_us=entry.name.timestamp_us if entry is not None else 0,
    )
