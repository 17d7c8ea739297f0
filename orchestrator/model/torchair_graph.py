"""The original graph that TorchAir passes to GE: its files, and the FX node of each output.

Source: TorchAir's ``fx2ge_converter.py`` (``_fx_tensor_name``) and ``dump_graph`` (txt: GraphDef as
text; pbtxt: TensorBoard's form, each tensor desc as text inside an attribute ``[i]x`` or ``[o]y``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .op_node import OpNode

_FILE = re.compile(r"dynamo_original_(?P<graph>graph_[0-9]+)_")


def graph_of_file(file_name: str) -> str:
    """Return the graph's name that is part of a file's name; empty if there is none."""
    match = _FILE.match(file_name)
    return "" if match is None else match.group("graph")


def with_fx_names(ops: Sequence[OpNode]) -> List[OpNode]:
    """Return the ops of an original graph with the FX nodes of their outputs as originals.

    Ops without outputs of FX nodes have no originals. If no op has an id, their order in the file
    becomes the id.
    """
    numbered = any(op.id for op in ops)
    renamed = []
    for op in ops:
        names = tuple(
            dict.fromkeys(desc.origin_name for desc in op.output_descs if desc.origin_name)
        )
        renamed.append(replace(op, original_names=names, id=op.id if numbered else op.position))
    return renamed


def fx_origin(text: str) -> Optional[Tuple[str, int]]:
    """Return the golden op and output that ``_fx_tensor_name`` names:
    ``add_1-aten.add.Tensor.OUTPUT.0`` is output 0 of all before it.
    """
    name, _, index = text.rpartition(".")
    return (
        (name, int(index))
        if name.endswith(".OUTPUT") and index.isdigit() and len(index) < 10
        else None
    )


def from_tensorboard(
    tree: Mapping[str, Any], name: str, parse: Callable[[str], Dict[str, Any]]
) -> Optional[Dict[str, Any]]:
    """Convert a graph in TensorBoard's form (pbtxt) to the tree of a model's json; None if it does
    not come from TorchAir.

    Parameters
    ----------
    name
        Name for the graph: the form has none.
    parse
        Reads a tensor desc as text.
    """
    ops: List[Dict[str, Any]] = []
    has_descs = False
    for node in tree.get("node", ()):
        if not isinstance(node, dict):
            return None
        kind = node.get("op")
        op: Dict[str, Any] = {
            "name": node.get("name"),
            "type": kind[0] if isinstance(kind, list) and kind else kind,
            "attr": [],
        }
        op["input"] = [_control(text) for text in node.get("input", ())]
        for attr in node.get("attr", ()):
            key, value = attr.get("key"), attr.get("value") or {}
            text = value.get("s") if isinstance(value, dict) else None
            if not isinstance(key, str) or not isinstance(text, str):
                continue
            if key.startswith(("[i]", "[o]")):
                has_descs = True
                op.setdefault("input_desc" if key[1] == "i" else "output_desc", []).append(
                    parse(text)
                )
            else:
                op["attr"].append({"key": key, "value": parse(text)})
        ops.append(op)
    return {"graph": [{"name": name, "op": ops}]} if has_descs else None


def _control(text: Any) -> Any:
    return text[1:] + ":-1" if isinstance(text, str) and text.startswith("^") else text
