"""From an earlier comparison: the op that went wrong first, and its neighbours."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List, Optional, Tuple

from ..diagnosis.row_digest import execution_key
from ..errors import InputError, MissingPath
from ..metrics.row import FAIL, Row
from ..model.graphs_of_run import load_models
from ..store.opening import STORE_FILE
from ..store.store import RunStore


@dataclass(frozen=True)
class Divergence:
    """The first divergent op of a comparison.

    Attributes
    ----------
    op
        Its name as the comparison has it.
    neighbours
        The ops that ran just before and after it, nearest first, as the comparison's rows show
        them.
    model_json
        The model's file that the comparison was made with, when it still exists.
    model
        The model_name folder of its dump; None where there is none.
    step
        Its step; None where the run has one step only.
    """

    op: str
    neighbours: Tuple[str, ...] = ()
    model_json: Optional[str] = None
    model: Optional[str] = None
    step: Optional[str] = None


def read_divergence(path: str) -> Divergence:
    """Return the first divergent op of a store, or of the output folder that holds one.

    Raises
    ------
    MissingPath
        There is no store.
    InputError
        No operator diverges in it, or it cannot be read.
    """
    out = path
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise MissingPath(
                "%s does not exist" % path, hint="name the output folder of compare, watch or run"
            )
        out = os.path.dirname(path) or "."
        if os.path.basename(path) not in (STORE_FILE, "result.json"):
            raise InputError(
                "%s is no %s" % (path, STORE_FILE),
                hint="name the output folder of compare, watch or run",
            )
    with RunStore.open(out) as store:
        failing = list(store.rows(verdict=FAIL))
        if not failing:
            raise InputError(
                "no operator of %s is outside its limits" % out,
                hint="there is nothing to narrow down",
            )
        first = min(failing, key=execution_key)
        rows = list(store.rows())
        order = _execution_order(rows, first)
        inputs = store.get("inputs") or {}
    has_several_steps = len({row.step for row in rows}) > 1
    return Divergence(
        first.op,
        _nearest_first(order, first.op),
        _model_json(inputs, first.model),
        first.model,
        first.step if has_several_steps else None,
    )


def _execution_order(rows: List[Row], first: Row) -> List[str]:
    """Return the op names of the first divergence's place in execution order."""
    place = (first.time, first.device, first.model, first.model_id, first.step)
    here = [
        row
        for row in rows
        if (row.time, row.device, row.model, row.model_id, row.step) == place and row.kind != "op"
    ]
    return list(dict.fromkeys(row.op for row in sorted(here + [first], key=execution_key)))


def _nearest_first(order: List[str], op: str) -> Tuple[str, ...]:
    number = {name: index for index, name in enumerate(order)}
    return tuple(
        sorted(
            (name for name in order if name != op), key=lambda name: abs(number[name] - number[op])
        )
    )


def _model_json(inputs: object, model_name: Optional[str]) -> Optional[str]:
    """Return the model's file among a store's inputs: of a folder of them the one of this name."""
    value = inputs.get("model") if isinstance(inputs, dict) else None
    if not isinstance(value, str) or not os.path.exists(value):
        return None
    if not os.path.isdir(value):
        return value
    try:
        graph = load_models(value).of(model_name)
    except InputError:
        return None
    return None if graph is None else graph.path
