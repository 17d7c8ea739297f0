"""Products of uint8 and int8 that onnxruntime cuts on this processor, made products of uint8.

On x86 without VNNI its kernels cut the sum of two such products to 16 bits (its page about
quantization, "U8S8 saturation"; measured with 1.32.0, without optimisation too): of QLinearConv,
QLinearMatMul and MatMulInteger where the second factor is int8, of ConvInteger where the first one
is. 128 added to the factor and to its zero point changes no result.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterator, List, Optional, Tuple

from ...base.protowire import field
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_types import BY_NAME
from .model_additions import cast_of, initializer_of, node_of, output_of, with_inputs

FACTORS = {
    "ConvInteger": ((0, 2), (1, 3)),
    "MatMulInteger": ((0, 2), (1, 3)),
    "QLinearConv": ((0, 2), (3, 5)),
    "QLinearMatMul": ((0, 2), (3, 5)),
}
"""Nodes that multiply integers: where each factor stands, and its zero point."""
_ADDED = "goldwatch/uint8/"
_UINT8, _INT8, _INT32 = (BY_NAME[name].code for name in ("uint8", "int8", "int32"))


def cuts_products(runtime: Any) -> bool:
    """Tell whether onnxruntime cuts products of uint8 and int8: one that shows it is computed."""
    product = b"".join(
        [
            node_of("MatMulInteger", ["a", "b"], ["y"]),
            initializer_of("a", _UINT8, (1, 2), b"\xff\xff"),
            initializer_of("b", _INT8, (2, 1), b"\x7f\x7f"),
            output_of("y"),
            field(2, b"g"),
        ]
    )
    model = field(1, 4) + field(8, field(2, 10)) + field(7, product)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return bool(session.run(None, {})[0].item() != 2 * 255 * 127)


def multiplies_integers(node: OnnxNode) -> bool:
    """Tell whether a node may be one that is replaced."""
    return node.op_type in FACTORS and not node.domain


def products_to_replace(model: OnnxModel, runtime: Any) -> List[Tuple[OnnxNode, bytes]]:
    """Return the nodes of the main graph that this processor cuts, each with the fields of a
    GraphProto that stand in its place.
    """
    found = list(_mixed(model))
    if not found or not cuts_products(runtime):
        return []
    with model.open() as file:
        return [
            (node, with_inputs(file, node, inputs) + additions)
            for node, inputs, additions in (_as_uint8(*entry) for entry in enumerate(found))
        ]


def without_cut_products(
    products: Collection[Tuple[OnnxNode, bytes]], without: Collection[OnnxNode]
) -> Tuple[List[OnnxNode], bytes]:
    """Return which nodes to leave out besides some, and what stands in their place."""
    left_out = {node.record.start for node in without}
    chosen = [entry for entry in products if entry[0].record.start not in left_out]
    return [node for node, _ in chosen], b"".join(fields for _, fields in chosen)


def _mixed(model: OnnxModel) -> Iterator[Tuple[OnnxNode, int, int]]:
    """Yield the nodes of uint8 and int8, each with where its int8 factor stands, and the zero
    point.
    """
    types = _types(model)
    for node in model.graph.nodes:
        factors = FACTORS[node.op_type] if multiplies_integers(node) else ()
        dtypes = [
            next((types[name] for name in _names(node, entry) if name in types), None)
            for entry in factors
        ]
        if sorted(dtype or 0 for dtype in dtypes) == [_UINT8, _INT8]:
            yield (node, *factors[dtypes.index(_INT8)])


def _names(node: OnnxNode, places: Tuple[int, int]) -> List[str]:
    return [node.inputs[place] for place in places if place < len(node.inputs)]


def _types(model: OnnxModel) -> Dict[str, Optional[int]]:
    """Return the types of values as far as the model tells them."""
    graph = model.graph
    values = [*graph.inputs, *graph.value_info.values(), *graph.outputs]
    types: Dict[str, Optional[int]] = {value.name: value.dtype for value in values if value.dtype}
    types.update({name: tensor.dtype for name, tensor in graph.initializers.items()})
    return types


def _as_uint8(number: int, found: Tuple[OnnxNode, int, int]) -> Tuple[OnnxNode, List[str], bytes]:
    """Return a node, its new inputs, and the nodes and constants that make these."""
    node, factor, zero = found
    prefix = "%s%d/" % (_ADDED, number)
    inputs = [*node.inputs, *[""] * (zero + 1 - len(node.inputs))]
    constant = prefix + "128"
    additions = initializer_of(constant, _INT32, (), (128).to_bytes(4, "little"))
    for place in (factor, zero):
        name = "%s%d" % (prefix, place)
        if inputs[place]:
            additions += cast_of(inputs[place], name + "/wide", _INT32)
            additions += node_of("Add", [name + "/wide", constant], [name + "/moved"])
            additions += cast_of(name + "/moved", name, _UINT8)
        else:
            additions += initializer_of(name, _UINT8, (), b"\x80")
        inputs[place] = name
    return node, inputs, additions
