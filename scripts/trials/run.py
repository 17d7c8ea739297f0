"""One trial of a network: the device's tensors become rows by goldwatch's own metrics and limits,
and the rows are judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.judging.diagnosis.explain_suspects import TensorReader
from goldwatch.judging.diagnosis.observed_ops import ObservedOp
from goldwatch.judging.diagnosis.row_digest import Observation
from goldwatch.judging.diagnosis.summary import Summary, summarise
from goldwatch.judging.limits import Limits
from goldwatch.judging.row_judge import RowJudge
from goldwatch.metrics.compare_pair import compare_tensors
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.patterns import AlignedPair, align
from goldwatch.metrics.row import PASS, Row
from goldwatch.model.graph import ModelGraph
from goldwatch.model.op_node import OpNode
from goldwatch.tensors.geometry import match_layouts
from goldwatch.tensors.tensor import Tensor

from .faults import FAULTS, Fault
from .networks import EXACT, Device, Net

Array = Any
MEASURED = (
    "CosineSimilarity",
    "RelativeEuclideanDistance",
    "StandardDeviation",
    "WorstSliceDistance",
    "DifferentElements",
)
_NO_FILE = GoldenEntry("", "", "", 0, 0, "npy")


def graph_of(net: Net) -> ModelGraph:
    """Return the model as the json would tell it."""
    nodes = [OpNode("data", "Data", 0, 0, 0)]
    for number, op in enumerate(net.ops, 1):
        nodes.append(
            OpNode(op.name, op.type, number, 0, number, tuple((name, 0) for name in op.inputs))
        )
    return ModelGraph(net.name, [net.name], nodes)


def row_of(
    number: int, name: str, kind: str, target: Array, golden: Array, dtype: str, limits: Limits
) -> Row:
    """Compare one output as a run does, NCHW where it has four axes."""
    layout = "NCHW" if golden.ndim == 4 else "ND"
    row = Row(
        index=number, op=name, op_type=kind, tensor=name + ":output:0", kind="output", verdict=PASS,
        tensor_index=0, op_sequence=number,
        group=(name,), target_file=name, golden_file=name,
    )  # fmt: skip
    settings = Settings(MEASURED, judge=RowJudge(limits))
    task = PairTask(
        row.but(target_dtype=dtype), Tensor.from_array(target, layout), _NO_FILE, layout
    )
    found = compare_tensors(task, Tensor.from_array(golden, layout), None, settings)
    # numpy has no bfloat16: such values come as float32.
    return found.but(target_dtype=dtype)


def rows_of(
    net: Net,
    golden: Dict[str, Array],
    made: Dict[str, Array],
    dtype: str,
    limits: Limits,
    known: Optional[Dict[str, Row]] = None,
) -> List[Row]:
    """Return the rows of a run; those in ``known`` are taken as they are."""
    rows = [row_of(0, "data", "Data", made["data"], golden["data"], dtype, limits)]
    for number, op in enumerate(net.ops, 1):
        found = (known or {}).get(op.name)
        rows.append(
            found or row_of(number, op.name, op.type, made[op.name], golden[op.name], dtype, limits)
        )
    return rows


class Reader(TensorReader):
    """Gives the tensors of a run in memory."""

    def __init__(self, golden: Dict[str, Array], made: Dict[str, Array]) -> None:
        self._golden = golden
        self._made = made

    def pair(self, op: ObservedOp, row: Observation, most: int = 0) -> Optional[AlignedPair]:
        layout = "NCHW" if self._golden[op.name].ndim == 4 else "ND"
        target, golden = (
            Tensor.from_array(side[op.name], layout) for side in (self._made, self._golden)
        )
        return replace(
            align(target, golden, match_layouts(target, golden.shape, layout)), dtype=row.dtype
        )


def judged(net: Net, golden: Dict[str, Array], made: Dict[str, Array], rows: List[Row]) -> Summary:
    """Judge a run as ``goldwatch compare`` does."""
    return summarise(rows, len(net.ops), Limits(), graph=graph_of(net), reader=Reader(golden, made))


def moves(net: Net, device: Device, healthy: Dict[str, Array], fault: Fault) -> Tuple[float, Array]:
    """Return by how many times its rounding the fault moves the op's output, and the wrong output.

    The rounding is the healthy output's distance from the exact result on the same inputs.
    """
    op = next(op for op in net.ops if op.name == fault.op)
    exact = net.one(EXACT, op, healthy).astype(np.float64)
    right = healthy[op.name].astype(np.float64)
    with np.errstate(all="ignore"):
        wrong = net.one(device, op, healthy, fault)
        rounding = max(
            float(np.linalg.norm(right - exact)), 1e-5 * float(np.linalg.norm(exact)), 1e-30
        )
        moved = float(np.linalg.norm(wrong.astype(np.float64) - right)) / rounding
    return (moved if np.isfinite(moved) else np.inf), wrong


def some_fault(net: Net, maker: Any, random: Any) -> Optional[Fault]:
    """Return a fault of one kind in a random op that can have it."""
    for _ in range(40):
        fault = maker(net.ops[random.randint(len(net.ops))], random)
        if fault is not None:
            found: Fault = fault
            return found
    return None


__all__ = ["FAULTS", "graph_of", "judged", "moves", "rows_of", "some_fault"]
