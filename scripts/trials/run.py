"""One trial of a network: the device's tensors become rows by goldwatch's own metrics and limits, and the rows are judged."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from goldwatch.comparing.metrics import compare_blocks
from goldwatch.comparing.row import FAIL, PASS, Row
from goldwatch.model.graph import ModelGraph
from goldwatch.model.nodes import OpNode
from goldwatch.verdict.limits import Limits, judge

from .faults import FAULTS, Fault
from .networks import EXACT, Device, Net

Array = Any
METRICS = ("CosineSimilarity", "RelativeEuclideanDistance")


def graph_of(net: Net) -> ModelGraph:
    """Return the model as the json would tell it."""
    nodes = [OpNode("data", "Data", 0, 0, 0)]
    for number, op in enumerate(net.ops, 1):
        nodes.append(OpNode(op.name, op.type, number, 0, number, tuple((name, 0) for name in op.inputs)))
    return ModelGraph(net.name, [net.name], nodes)


def row_of(number: int, name: str, kind: str, target: Array, golden: Array, dtype: str, limits: Limits) -> Row:
    """Compare one output."""
    metrics, worst = measure(target, golden)
    failed = not judge(metrics, limits).passed
    return Row(
        index=number, op=name, op_type=kind, tensor=name + ":output:0", kind="output", verdict=FAIL if failed else PASS, tensor_index=0,
        op_sequence=number, group=(name,), shape=golden.shape, target_dtype=dtype, golden_dtype="float32", metrics=metrics,
        nan={"target": int(np.isnan(target).sum()), "golden": 0}, inf={"target": int(np.isinf(target).sum()), "golden": 0},
        target_file=name,
    )  # fmt: skip


def measure(target: Array, golden: Array) -> Tuple[Dict[str, Any], Any]:
    result = compare_blocks(lambda: iter([(target, golden)]), METRICS)
    values = dict(result.values)
    x, y = target.astype(np.float64), golden.astype(np.float64)
    keep = np.abs(y) < 1e4
    with np.errstate(invalid="ignore"):
        d = np.where(keep, x - y, 0)
    y = np.where(keep, y, 0)
    worst = 0.0
    axes = (1,) if y.ndim == 4 else [a for a in range(y.ndim) if y.shape[a] > 1]
    for axis in axes:
        other = tuple(a for a in range(y.ndim) if a != axis)
        dn, yn = np.sqrt((d * d).sum(axis=other)), np.sqrt((y * y).sum(axis=other))
        worst = max(worst, float((dn / np.maximum(yn, yn.mean())).max()))
    values["WorstSliceDistance"] = worst
    return values, None


def rows_of(
    net: Net, golden: Dict[str, Array], made: Dict[str, Array], dtype: str, limits: Limits, known: Optional[Dict[str, Row]] = None
) -> List[Row]:
    """Return the rows of a run; those in ``known`` are taken as they are."""
    rows = [row_of(0, "data", "Data", made["data"], golden["data"], dtype, limits)]
    for number, op in enumerate(net.ops, 1):
        found = (known or {}).get(op.name)
        rows.append(found or row_of(number, op.name, op.type, made[op.name], golden[op.name], dtype, limits))
    return rows


def moves(net: Net, device: Device, healthy: Dict[str, Array], fault: Fault) -> Tuple[float, Array]:
    """Return by how many times its rounding the fault moves the op's output, and the wrong output.

    The rounding is the healthy output's distance from the exact result on the same inputs.
    """
    op = next(op for op in net.ops if op.name == fault.op)
    exact = net.one(EXACT, op, healthy).astype(np.float64)
    right = healthy[op.name].astype(np.float64)
    with np.errstate(all="ignore"):
        wrong = net.one(device, op, healthy, fault)
        rounding = max(float(np.linalg.norm(right - exact)), 1e-5 * float(np.linalg.norm(exact)), 1e-30)
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


__all__ = ["FAULTS", "graph_of", "moves", "rows_of", "some_fault"]
