"""What a merge has at worst of each op in each step, over all devices, as overview.js draws it."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ...dumps.place import name_order
from ...store.merged_metrics import DeviceMetrics
from ..page_rows import metric_value

_DIGITS = re.compile(r"([0-9]+)")


def over_devices(
    difference: Optional[DeviceMetrics],
    graphs: Iterable[Mapping[str, Any]],
    ops: Iterable[str] = (),
) -> Optional[Dict[str, Any]]:
    """Return what ``rows.over`` of rows.js takes; None where there is nothing.

    Parameters
    ----------
    graphs
        The networks, as :func:`goldwatch.store.stored_networks.network_document` makes them: their
        ops come first, in their order.
    ops
        Those that come next; others come by name.

    Returns
    -------
    dict
        ``{"metric", "models": [{"model", "steps", "ops", "worst"}]}``; ``worst`` has for each op a
        value for each step, or None.
    """
    if difference is None:
        return None
    known = dict.fromkeys([*(op["name"] for document in graphs for op in document["ops"]), *ops])
    order = {op: number for number, op in enumerate(known)}
    models: Dict[str, Dict[Tuple[str, str], Any]] = {}
    for model, op, step, worst in difference.worst:
        models.setdefault(model, {})[op, step] = metric_value(difference.metric, worst)
    return {
        "metric": difference.metric,
        "models": [_table(model, cells, order) for model, cells in sorted(models.items())],
    }


def _table(
    model: str, cells: Mapping[Tuple[str, str], Any], order: Mapping[str, int]
) -> Dict[str, Any]:
    ops = sorted(
        {op for op, _ in cells}, key=lambda op: (order.get(op, len(order)), _by_numbers(op))
    )
    steps = sorted({step for _, step in cells}, key=name_order)
    worst = [[cells.get((op, step)) for step in steps] for op in ops]
    return {
        "model": model or None,
        "steps": [step or None for step in steps],
        "ops": ops,
        "worst": worst,
    }


def _by_numbers(name: str) -> List[Tuple[int, str]]:
    """Return a sort key by which op2 comes before op10."""
    return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(_DIGITS.split(name))]
