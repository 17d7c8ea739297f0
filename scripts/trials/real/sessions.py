"""Single ONNX nodes, and whole models, computed by onnxruntime in float32 with every optimisation
off."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper

Array = Any

_SESSIONS: Dict[Tuple[Any, ...], Any] = {}


def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def run_node(node: Any, feeds: Dict[str, Array], opset: int) -> List[Array]:
    """Return a node's outputs; its inputs, constants too, are given by name."""
    names = [value for value in dict.fromkeys(node.input) if value]
    outs = [value for value in node.output if value]
    types = tuple((feeds[name].dtype.str, feeds[name].ndim) for name in names)
    key = (node.SerializeToString(), types, opset)
    session = _SESSIONS.get(key)
    if session is None:
        given = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(feeds[name].dtype), [None] * feeds[name].ndim
            )
            for name in names
        ]
        made = [onnx.ValueInfoProto(name=value) for value in outs]
        graph = helper.make_graph([node], "one", given, made)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), _options(), providers=["CPUExecutionProvider"]
        )
        _SESSIONS[key] = session
    found: List[Array] = session.run(
        outs, {name: np.asarray(feeds[name], order="C") for name in names}
    )
    return found


def all_values(path: str, feeds: Dict[str, Array]) -> Dict[str, Array]:
    """Return every value of a model's outermost graph, by name."""
    model = onnx.load(path)
    names = list(
        dict.fromkeys(value for node in model.graph.node for value in node.output if value)
    )
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), _options(), providers=["CPUExecutionProvider"]
    )
    return dict(zip(names, session.run(names, feeds)))
