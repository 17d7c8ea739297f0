"""The attributes of an op in the model's json and the constants in its dump: what is known of it
without the original model.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..base.errors import GoldwatchError
from ..base.safe_reading import open_input
from ..model.graph import ModelGraph
from ..model.never_dumped import FIXED_TYPES
from ..model.omjson import parse_json
from ..model.op_node import OpNode, desc_at
from ..model.read_model import read_tree
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
    fused
        Whether it is several original nodes: its attributes are those of one.
    output, outputs
        Which of its outputs is asked for, and how many it has.
    names
        Of the constants in the om, by number.
    """

    attributes: Mapping[str, Any]
    constants: Mapping[int, Array]
    layouts: Tuple[str, ...]
    fused: bool = False
    output: int = 0
    outputs: int = 1
    names: Mapping[int, str] = MappingProxyType({})


def attributes_and_constants(
    node: OpNode,
    graph: ModelGraph,
    recorded: Callable[[], Optional[RecordedStep]],
    attributes: Mapping[str, Any],
) -> Optional[AttributesAndConstants]:
    """Return what is known of an op; None where its step cannot be opened.

    Parameters
    ----------
    recorded
        Opens the op's step, for its constants; None where it cannot be.
    attributes
        Of the op, as the model json has them.
    """
    constants: Dict[int, Array] = {}
    names: Dict[int, str] = {}
    for number, source in enumerate(node.inputs):
        producer = graph.producer(node, source[0]) if source is not None else None
        if source is None or producer is None or producer.type not in FIXED_TYPES:
            continue
        step = recorded()
        if step is None:
            return None
        tensor, is_as_read = step.input(node, number)
        if tensor is None or not is_as_read:
            continue
        from .recomputed_output import NotComputable

        try:
            from .input_feeds import Feed, original_values

            constants[number] = original_values(
                Feed(tensor, desc_at(node.input_descs, number)), None
            )
        except (GoldwatchError, NotComputable):
            continue
        names[number] = producer.name
    layouts = tuple(desc.origin_format or "" for desc in node.input_descs)
    return AttributesAndConstants(
        attributes,
        constants,
        layouts,
        len(node.originals) > 1,
        outputs=max(1, len(node.output_descs)),
        names=names,
    )


Attributes = Dict[str, Any]

_GE = ("_", "OwnerGraphIsUnknown", "INPUT_IS_VAR", "OUTPUT_IS_VAR")
_FORMS = {"s": str, "i": int, "f": float, "b": bool, "dt": str}
MOST_BYTES = 512 << 20
"""A larger json is not read a second time for its attributes, by its time; chosen, no trial."""


def attributes_by_position(path: str) -> List[Attributes]:
    """Return the attributes of each op of a model json, in the file's order over all graphs; empty
    where they cannot be read.

    Numbers, str, bool and lists of these; tensors, graphs and GE's own attributes (``_…``) are left
    out.
    """
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return []
        with open_input(path) as stream:
            tree, _ = parse_json(stream.read(), path, every=True)
        return [_attributes(op) for op in _ops(tree)]
    except (GoldwatchError, OSError, AttributeError, TypeError):
        return []


def attributes_by_name(path: str) -> Dict[str, Attributes]:
    """Return the same for an original graph of TorchAir, whose op names are unique."""
    try:
        return {op["name"]: _attributes(op) for op in _ops(read_tree(path, True)[0])}
    except (GoldwatchError, OSError, AttributeError, TypeError, KeyError):
        return {}


def _ops(tree: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [op for graph in tree.get("graph") or () for op in graph.get("op") or ()]


def _attributes(op: Dict[str, Any]) -> Attributes:
    attributes: Attributes = {}
    for entry in op.get("attr") or ():
        key, value = entry.get("key"), entry.get("value")
        if isinstance(key, str) and not key.startswith(_GE) and isinstance(value, dict):
            read = _value(value)
            if read is not None:
                attributes[key] = read
    return attributes


def _value(value: Dict[str, Any]) -> Any:
    """Return an attribute as number, bool, str or list of these; None for any other form."""
    for form, inner in value.items():
        try:
            if form == "list" and isinstance(inner, dict):
                forms = [name for name in inner if name in _FORMS]
                return [_FORMS[forms[0]](one) for one in inner[forms[0]]] if forms else []
            if form in _FORMS:
                return _FORMS[form](inner)
        except (TypeError, ValueError):
            return None
    return None
