"""Outputs of the network that an op without a task hands on: by golden data, whether they are what
the original model says.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..base.errors import GoldwatchError
from ..base.naming import RESHAPING_TYPES
from ..base.wording import percent
from ..dumps.golden_set import GoldenSet, open_golden
from ..dumps.place import Place
from ..model.counterpart import Counterparts
from ..model.graph import ModelGraph
from ..model.graph_walks import MOVING_TYPES, maker_before
from ..model.om_outputs import om_outputs
from ..model.op_groups import FOLLOWING_TYPES
from ..model.op_node import OpNode
from ..model.row_plan import PAIR, Counterpart

Array = Any

_ANOTHER = 0.05
"""Relative distance of golden data from which on two tensors are not one; as read_instead has it
for tensors of the device. Chosen, no trial."""
_OTHERWISE = (
    "it has no task and hands on output %d of %s, whose golden data differ from its own by %s: the "
    "om feeds it with another tensor than the original model says (an operator between was left "
    "out, or an edge drawn otherwise)"
)


_OF_NO_ORIGINAL = (
    "output %d of the network is made by %s (%s), which by its json stands for no operator of the "
    "original model: what the network hands out is not compared; if the compiler added it rightly, "
    "compare the outputs themselves"
)


def made_by_no_original(graph: ModelGraph) -> str:
    """Return which output of a network an op without an original computes, other than by moving
    values as what compilers insert does; empty where none is.
    """
    for number, one in enumerate(om_outputs(graph)):
        op, _ = maker_before(graph, one.op, one.output, lambda op: op.type in MOVING_TYPES)
        if op.originals == ():
            from ..recomputing.formulas_by_type import is_known_type, kind_of_type
            from ..recomputing.recomputed_output import MOVE

            if is_known_type(op.type) and kind_of_type(op.type) != MOVE:
                return _OF_NO_ORIGINAL % (number, op.name, op.type)
    return ""


def handed_on_otherwise(
    graph: ModelGraph, counterparts: Counterparts, golden: GoldenSet, place: Place, op: OpNode
) -> str:
    """Return that an op which only reshapes, without a task, is fed with another tensor than the
    original model says; empty where it is not, or golden data do not tell.
    """
    if not op.no_task or op.type not in RESHAPING_TYPES:
        return ""
    maker, output = maker_before(
        graph,
        op,
        0,
        lambda op: op.type in FOLLOWING_TYPES or (bool(op.no_task) and op.type in RESHAPING_TYPES),
    )
    own, read = counterparts.of_output(op, 0), counterparts.of_output(maker, output)
    off = _apart(own, read, golden, place)
    return _OTHERWISE % (output, maker.name, percent(off)) if off > _ANOTHER else ""


def _apart(own: Counterpart, read: Counterpart, golden: GoldenSet, place: Place) -> float:
    """Return how far golden data of two values are apart; 0 where that is not known."""
    x, y = (_values(each, golden, place) for each in (own, read))
    if x is None or y is None or x.size != y.size:
        return 0.0
    finite = np.isfinite(x) & np.isfinite(y)
    size = float(np.linalg.norm(x[finite]))
    return float(np.linalg.norm((y - x)[finite])) / size if size else 0.0


def _values(counterpart: Counterpart, golden: GoldenSet, place: Place) -> Optional[Array]:
    at = place if golden.dumps.several_places else None
    if counterpart.status != PAIR or counterpart.golden_op is None:
        return None
    entry = golden.find(counterpart.golden_op, counterpart.golden_index or 0, "output", at)
    try:
        return (
            None
            if entry is None
            else np.asarray(open_golden(entry)[0].array(), np.float64).reshape(-1)
        )
    except (GoldwatchError, OSError, MemoryError):
        return None
