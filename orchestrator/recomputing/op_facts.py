"""Gathers what is known of an op without the original model: attributes of its json, constants of
its dump.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..errors import GoldwatchError, NotComparable
from ..model.graph import ModelGraph
from ..model.never_dumped import FIXED_TYPES
from ..model.op_node import OpNode, desc_at
from .golden_formulas import Array, OpFacts
from .input_feeds import Feed, original_values
from .original_model import NotComputable
from .recorded_dumps import RecordedStep


def op_facts(
    node: OpNode, graph: ModelGraph, recorded: RecordedStep, attributes: Mapping[str, Any]
) -> Optional[OpFacts]:
    """Return what is known of an op; None where neither an attribute nor a constant is.

    Parameters
    ----------
    attributes
        Of the op, as the model json has them.
    """
    constants: Dict[int, Array] = {}
    for number, source in enumerate(node.inputs):
        producer = graph.producer(node, source[0]) if source is not None else None
        if source is None or producer is None or producer.type not in FIXED_TYPES:
            continue
        tensor, is_as_read = recorded.input(node, number)
        if tensor is None or not is_as_read:
            continue
        try:
            constants[number] = original_values(
                Feed(tensor, desc_at(node.input_descs, number)), None
            )
        except (GoldwatchError, NotComparable, NotComputable):
            continue
    layouts = tuple(desc.origin_format or "" for desc in node.input_descs)
    return OpFacts(attributes, constants, layouts) if attributes or constants else None
