"""The networks of a run as one document of its store, so that a report needs neither the model's
file nor the dumps.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..model.graph import ModelGraph
from ..model.graphs_of_run import ModelGraphs
from ..model.op_node import OpNode, TensorDesc

GRAPHS = "graphs"
SUMMARY = "summary"


def network_document(graph: ModelGraph) -> Dict[str, Any]:
    """Return the ops of a model with what feeds them, as JSON values.

    Returns
    -------
    dict
        ``{"model", "graphs": [name], "ops"}``; each op in the order of the file ``{"name", "type",
        "id", "graph", "originals" (null: the file does not say), "inputs": [[producer, output
        index] or null], "controls": [producer], "input_descs", "output_descs"}``, a desc
        ``{"dtype", "layout", "shape", "origin_layout", "origin_shape", "origin", "origin_index"}``.
    """
    return {
        "model": graph.name,
        "graphs": list(graph.graph_names),
        "ops": [_op(op) for op in graph.ops],
    }


def stored_networks(documents: Sequence[Mapping[str, Any]]) -> ModelGraphs:
    """Return the models of documents: how their ops are wired and called; tensors are left out. One
    of them is that of all dumps.
    """
    graphs: List[ModelGraph] = []
    for document in documents:
        ops = [
            OpNode(
                name=op["name"],
                type=op["type"],
                id=op["id"],
                graph_index=op["graph"],
                position=position,
                inputs=tuple(
                    None if source is None else (source[0], source[1]) for source in op["inputs"]
                ),
                controls=tuple(op["controls"]),
                original_names=None if op["originals"] is None else tuple(op["originals"]),
            )
            for position, op in enumerate(document["ops"])
        ]
        graphs.append(
            ModelGraph(document["model"], document.get("graphs", [document["model"]]), ops)
        )
    return ModelGraphs(graphs, by_name=len(graphs) > 1)


def _op(op: OpNode) -> Dict[str, Any]:
    return {
        "name": op.name,
        "type": op.type,
        "id": op.id,
        "graph": op.graph_index,
        "originals": _list(op.original_names),
        "inputs": [_list(source) for source in op.inputs],
        "controls": list(op.controls),
        "input_descs": [_desc(desc) for desc in op.input_descs],
        "output_descs": [_desc(desc) for desc in op.output_descs],
    }


def _desc(desc: TensorDesc) -> Dict[str, Any]:
    return {
        "dtype": desc.dtype,
        "layout": desc.layout,
        "shape": list(desc.shape),
        "origin_layout": desc.origin_format,
        "origin_shape": _list(desc.origin_shape),
        "origin": desc.origin_name,
        "origin_index": desc.origin_index,
    }


def _list(values: Optional[Sequence[Any]]) -> Any:
    return None if values is None else list(values)
