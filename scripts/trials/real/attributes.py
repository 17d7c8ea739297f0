"""The attributes that an om's json tells of an operator, by Ascend IR's names."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
from onnx import helper

Node = Any
Graph = Any


def _given(node: Node) -> Dict[str, Any]:
    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def _ints(array: Any) -> List[int]:
    return [int(entry) for entry in np.asarray(array).reshape(-1)]


def _axes(node: Node, graph: Graph) -> List[int]:
    given = _given(node)
    if "axes" in given:
        return _ints(given["axes"])
    if len(node.input) > 1 and node.input[1] in graph.constants:
        return _ints(graph.constants[node.input[1]])
    return list(range(graph.values[node.input[0]].ndim))


def _same_pads(
    node: Node, graph: Graph, window: Sequence[int], strides: Sequence[int]
) -> List[int]:
    """Return begins and ends of ``auto_pad``; zeros where it is not given."""
    kind = _given(node).get("auto_pad", b"NOTSET").decode()
    if not kind.startswith("SAME"):
        return [0] * (2 * len(window))
    sizes = graph.values[node.input[0]].shape[2:]
    total = [
        max(0, (-(-size // step) - 1) * step + width - size)
        for size, step, width in zip(sizes, strides, window)
    ]
    less = [entry // 2 for entry in total]
    more = [entry - half for entry, half in zip(total, less)]
    return less + more if kind == "SAME_UPPER" else more + less


def _spatial(node: Node, graph: Graph, window: Sequence[int]) -> Dict[str, List[int]]:
    given, count = _given(node), len(window)
    strides = _ints(given.get("strides", [1] * count))
    dilations = _ints(given.get("dilations", [1] * count))
    pads = _ints(given["pads"]) if "pads" in given else _same_pads(node, graph, window, strides)
    window = list(window)
    if count == 1:
        strides, dilations, window, pads = (
            [1] + strides,
            [1] + dilations,
            [1] + window,
            [0, pads[0], 0, pads[1]],
        )
    return {
        "strides": [1, 1] + strides,
        "dilations": [1, 1] + dilations,
        "pads": [pads[0], pads[2], pads[1], pads[3]],
        "ksize": [1, 1] + window,
    }


def _conv(node: Node, graph: Graph) -> Dict[str, Any]:
    array = graph.constants.get(node.input[1])
    window = (
        list(array.shape[2:])
        if array is not None
        else _ints(_given(node).get("kernel_shape", [1, 1]))
    )
    found = _spatial(node, graph, window)
    made = {key: found[key] for key in ("strides", "pads", "dilations")}
    return dict(made, groups=int(_given(node).get("group", 1)), data_format="NCHW", offset_x=0)


def _deconv(node: Node, graph: Graph) -> Dict[str, Any]:
    shape = list(graph.values[node.output[0]].shape) if node.output[0] in graph.values else []
    return dict(
        _conv(node, graph),
        output_padding=[0, 0] + _ints(_given(node).get("output_padding", [0, 0])),
        input_size=shape,
    )


def _pool(node: Node, graph: Graph) -> Dict[str, Any]:
    given = _given(node)
    found = _spatial(node, graph, given["kernel_shape"])
    made = {key: found[key] for key in ("ksize", "strides", "pads")}
    made.update(
        padding_mode="CALCULATED",
        data_format="NCHW",
        global_pooling=False,
        ceil_mode=bool(given.get("ceil_mode", 0)),
    )
    return (
        dict(made, exclusive=not given.get("count_include_pad", 0))
        if node.op_type == "AveragePool"
        else made
    )


def _matmul(node: Node, graph: Graph) -> Dict[str, Any]:
    given = _given(node)
    return {
        "transpose_x1": bool(given.get("transA", 0)),
        "transpose_x2": bool(given.get("transB", 0)),
        "offset_x": 0,
    }


def _reduce(node: Node, graph: Graph) -> Dict[str, Any]:
    return {"axes": _axes(node, graph), "keep_dims": bool(_given(node).get("keepdims", 1))}


def _slice(node: Node, graph: Graph) -> Dict[str, Any]:
    given, shape = _given(node), graph.values[node.input[0]].shape
    parts = [given.get(name) for name in ("starts", "ends", "axes", "steps")]
    for index, value in enumerate(node.input[1:]):
        if value:
            parts[index] = graph.constants.get(value)
    if parts[0] is None or parts[1] is None:
        return {}
    axes = _ints(parts[2]) if parts[2] is not None else list(range(len(_ints(parts[0]))))
    steps = _ints(parts[3]) if parts[3] is not None else [1] * len(axes)
    begin, end, strides = [0] * len(shape), list(shape), [1] * len(shape)
    masked = 0
    for axis, first, last, step in zip(axes, _ints(parts[0]), _ints(parts[1]), steps):
        begin[axis], strides[axis] = first, step
        end[axis] = max(min(last, shape[axis]), -shape[axis] - 1)
        if step < 0 and last < -shape[axis]:
            masked |= 1 << (axis % len(shape))
    return {
        "begin": begin,
        "end": end,
        "strides": strides,
        "begin_mask": 0,
        "end_mask": masked,
        "ellipsis_mask": 0,
        "new_axis_mask": 0,
        "shrink_axis_mask": 0,
    }


def _pad(node: Node, graph: Graph) -> Dict[str, Any]:
    given = _given(node)
    pads = _ints(given["pads"]) if "pads" in given else _ints(graph.constants[node.input[1]])
    half = len(pads) // 2
    value = given.get("value", 0.0)
    if len(node.input) > 2 and node.input[2] in graph.constants:
        value = float(graph.constants[node.input[2]].reshape(-1)[0])
    mode = given.get("mode", b"constant").decode()
    paddings = [list(pair) for pair in zip(pads[:half], pads[half:])]
    return {
        "paddings": paddings,
        "constant_values": value,
        "mode": mode,
        "paddings_contiguous": True,
    }


def _resize(node: Node, graph: Graph) -> Dict[str, Any]:
    mode = _given(node).get("coordinate_transformation_mode", b"half_pixel").decode()
    size = list(graph.values[node.output[0]].shape[2:])
    return {
        "size": size,
        "align_corners": mode == "align_corners",
        "half_pixel_centers": mode in ("half_pixel", "pytorch_half_pixel"),
    }


def _split(node: Node, graph: Graph) -> Dict[str, Any]:
    axis = int(_given(node).get("axis", 0))
    sizes = [int(graph.values[value].shape[axis]) for value in node.output]
    return {"size_splits": sizes, "split_dim": axis, "num_split": len(sizes)}


def _clip(node: Node, graph: Graph) -> Dict[str, Any]:
    given = _given(node)
    return {"min": given["min"], "max": given["max"]} if "min" in given and "max" in given else {}


def _rnn(node: Node, graph: Graph) -> Dict[str, Any]:
    given = _given(node)
    ways = {
        "forward": "UNIDIRECTIONAL",
        "reverse": "REDIRECTIONAL",
        "bidirectional": "BIDIRECTIONAL",
    }
    made = {
        "direction": ways[given.get("direction", b"forward").decode()],
        "cell_depth": 1,
        "activation": "tanh",
        "time_major": True,
    }
    if node.op_type == "LSTM":
        return dict(
            made,
            cell_type="LSTM",
            gate_order="ijfo",
            forget_bias=0.0,
            cell_clip=-1.0,
            use_peephole=False,
            is_training=False,
        )
    return dict(
        made,
        gate_order="zrh",
        reset_after=bool(given.get("linear_before_reset", 0)),
        is_training=False,
    )


_RULES: Dict[str, Callable[[Node, Graph], Dict[str, Any]]] = {
    "Conv2D": _conv,
    "DepthwiseConv2D": _conv,
    "Conv2DTransposeD": _deconv,
    "MaxPoolV3": _pool,
    "AvgPoolV2": _pool,
    "MatMulV2": _matmul,
    "BatchMatMulV2": lambda node, graph: {"adj_x1": False, "adj_x2": False, "offset_x": 0},
    "SoftmaxV2": lambda node, graph: {
        "axes": [int(_given(node).get("axis", -1 if graph.opset >= 13 else 1))]
    },
    "TransposeD": lambda node, graph: {
        "perm": _ints(_given(node).get("perm", range(graph.values[node.input[0]].ndim)[::-1]))
    },
    "ConcatD": lambda node, graph: {"concat_dim": int(_given(node)["axis"]), "N": len(node.input)},
    "ReduceMeanD": _reduce,
    "ReduceSumD": _reduce,
    "ReduceMaxD": _reduce,
    "ReduceMinD": _reduce,
    "StridedSliceD": _slice,
    "SplitVD": _split,
    "PadV3D": _pad,
    "ResizeNearestNeighborV2D": _resize,
    "ResizeBilinearV2D": _resize,
    "HardSigmoid": lambda node, graph: {
        "alpha": _given(node).get("alpha", 0.2),
        "beta": _given(node).get("beta", 0.5),
    },
    "LeakyRelu": lambda node, graph: {"negative_slope": _given(node).get("alpha", 0.01)},
    "ClipByValue": _clip,
    "DynamicRNN": _rnn,
    "DynamicGRUV2": _rnn,
    "BatchNorm": lambda node, graph: {
        "epsilon": _given(node).get("epsilon", 1e-5),
        "data_format": "NCHW",
        "is_training": False,
    },
    "GatherV2D": lambda node, graph: {"axis": [int(_given(node).get("axis", 0))]},
    "ExpandD": lambda node, graph: {"shape": list(graph.values[node.output[0]].shape)},
    "ArgMaxD": lambda node, graph: {"dimension": int(_given(node).get("axis", 0))},
    "TopKV2": lambda node, graph: {
        "sorted": bool(_given(node).get("sorted", 1)),
        "dim": int(_given(node).get("axis", -1)),
        "largest": True,
    },
    "Swish": lambda node, graph: {"scale": 1.0},
}


def attributes(kind: str, nodes: Sequence[Node], graph: Graph) -> Dict[str, Any]:
    """Return what the json tells of an op of a type that these nodes compute; empty where it has no
    attributes."""
    if kind == "LayerNorm":
        axes = _axes(nodes[0], graph)
        rank = graph.values[nodes[0].input[0]].ndim
        epsilon = next(
            float(graph.constants[value].reshape(-1)[0])
            for value in nodes[4].input
            if value in graph.constants
        )
        first = axes[0] % rank
        return {"begin_norm_axis": first, "begin_params_axis": first, "epsilon": epsilon}
    rule = _RULES.get(kind)
    return rule(nodes[0], graph) if rule is not None else {}
