"""The attributes of an op in the model's json and the constants in its dump: what is known of it
without the original model.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from ..errors import GoldwatchError, NotComparable
from ..model.graph import ModelGraph
from ..model.never_dumped import FIXED_TYPES
from ..model.op_node import OpNode, desc_at
from .recorded_dumps import RecordedStep

Array = Any


class AttributesAndConstants(NamedTuple):
    """The attributes of an op in the model's json, and the constants in its dump.

    Attributes
    ----------
    attributes
        By the names of Ascend IR.
    constants
        Constant inputs as the device holds them, by number, in their original layout.
    layouts
        The original layouts of all inputs.
    """

    attributes: Mapping[str, Any]
    constants: Mapping[int, Array]
    layouts: Tuple[str, ...]


def attributes_and_constants(
    node: OpNode, graph: ModelGraph, recorded: RecordedStep, attributes: Mapping[str, Any]
) -> Optional[AttributesAndConstants]:
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
        from .recomputed_output import NotComputable

        try:
            from .input_feeds import Feed, original_values

            constants[number] = original_values(
                Feed(tensor, desc_at(node.input_descs, number)), None
            )
        except (GoldwatchError, NotComparable, NotComputable):
            continue
    layouts = tuple(desc.origin_format or "" for desc in node.input_descs)
    return (
        AttributesAndConstants(attributes, constants, layouts) if attributes or constants else None
    )
