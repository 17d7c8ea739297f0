"""What the nodes of original models make on the stand-in of a device: by other code than the one by
which :mod:`goldwatch.operators` judges it, as far as there is any.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..adapters.onnx.exact_products import FACTORS
from ..base.protowire import field, varint
from ..netfiles.onnx_types import BY_NAME
from ..operators import CAFFE, ONNX, Arithmetic, CannotCompute, Node, compute
from .caffe_layers import LAYERS, Layer, Refused, run_layer

Array = Any
_EXACT = Arithmetic(0.0, 0.0, 0.0, 0.0)
_SESSIONS: Dict[Tuple[Any, ...], Any] = {}
_IR_VERSION = 8
"""Old enough for onnxruntime 1.14; later ones run any opset with it."""
_TYPES_OF_NUMPY = frozenset(
    "tensor(%s)" % name
    for name in "float float16 double bool string int8 int16 int32 int64 uint8 uint16 uint32 "
    "uint64".split()
)
"""What onnxruntime hands over as arrays: of bfloat16 and narrower types it refuses to."""


class NodeArithmetic:
    """Computes nodes in float32 or better: of ONNX by onnxruntime where it is installed and has the
    operator, of Caffe by :mod:`goldwatch.testing.caffe_layers`, all others by
    :mod:`goldwatch.operators`.
    """

    def __init__(self) -> None:
        self._computed: Dict[str, Dict[str, str]] = {}

    def compute(self, node: Node, inputs: Sequence[Any]) -> List[Array]:
        """Return what a node makes of its inputs, None for one that is not there.

        Raises
        ------
        CannotCompute
            Nothing here computes it.
        """
        given = [None if value is None else np.asarray(value) for value in inputs]
        made = None
        if node.dialect == CAFFE and node.type in LAYERS:
            by, made = "formulas of the stand-in's own", _by_layer(node, given)
        elif node.dialect == ONNX:
            by, made = _by_onnxruntime(node, given)
        if made is None:
            by = "goldwatch.operators"
            made = [np.asarray(value.array) for value in compute(node, given, _EXACT)]
        self._computed.setdefault(by, {})[node.name] = node.type
        return made

    def told(self) -> List[str]:
        """Return a sentence for each of what computed nodes so far."""
        lines = []
        for by, nodes in sorted(self._computed.items()):
            types = ", ".join(sorted(set(nodes.values())))
            line = "%d nodes are computed by %s" % (len(nodes), by)
            if by == "goldwatch.operators":
                line += " (%s), by which compare computes them again: that it calls them right" % (
                    types
                )
                line += " proves nothing"
            lines.append(line)
        return lines


def _by_layer(node: Node, inputs: Sequence[Any]) -> List[Array]:
    count = sum(value is not None for value in inputs)
    weights = _WEIGHTS.get(node.type, 0)
    bottoms = 1 if weights else count
    if node.type == "Scale":
        # A second bottom is the scale, and a weight alone the bias.
        bottoms = 1
    layer = Layer(node.type, node.attributes, inputs[:bottoms], inputs[bottoms:], node.outputs)
    try:
        return [np.asarray(top, np.float32) for top in run_layer(layer)]
    except Refused as error:
        raise CannotCompute(str(error)) from None


_WEIGHTS = {"BatchNorm": 3, "Convolution": 2, "Deconvolution": 2, "InnerProduct": 2, "PReLU": 1}


def _by_onnxruntime(node: Node, inputs: Sequence[Any]) -> Tuple[str, Optional[List[Array]]]:
    """Return onnxruntime's name, and what it makes of a node; None where it does not know it."""
    try:
        import onnxruntime
    except ImportError:
        return "", None
    if any(value is not None and value.dtype.kind not in "fiub" for value in inputs):
        return "", None
    inputs = _whole_products(node, inputs)
    feeds = {
        "x%d" % at: np.asarray(value, np.float32 if value.dtype.kind == "f" else None, order="C")
        for at, value in enumerate(inputs)
        if value is not None
    }
    model = _model(node, ["x%d" % at if value is not None else "" for at, value in
                          enumerate(inputs)], feeds)  # fmt: skip
    key = (model, node.version)
    if key not in _SESSIONS:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            _SESSIONS[key] = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception:  # its errors share no class: no such kernel, or no such opset
            _SESSIONS[key] = None
    session = _SESSIONS[key]
    if session is None or any(made.type not in _TYPES_OF_NUMPY for made in session.get_outputs()):
        return "", None
    try:
        return "onnxruntime " + onnxruntime.__version__, list(session.run(None, feeds))
    except Exception as error:
        raise CannotCompute("onnxruntime: %s" % str(error).strip().split("\n")[0]) from None


def _whole_products(node: Node, inputs: Sequence[Any]) -> List[Any]:
    """Return the inputs of a node, none of them int8 where uint8 is multiplied by it: onnxruntime
    cuts such products on some processors (:mod:`goldwatch.adapters.onnx.exact_products`).
    """
    moved = list(inputs)
    factors = FACTORS.get(node.type, ())
    mixed = {moved[factor].dtype.name for factor, _ in factors} == {"int8", "uint8"}
    for factor, zero in factors if mixed else ():
        if moved[factor].dtype == np.int8:
            moved += [None] * (zero + 1 - len(moved))
            for place in (factor, zero):
                held = np.int8(0) if moved[place] is None else moved[place]
                moved[place] = (np.asarray(held, np.int16) + 128).astype(np.uint8)
    return moved


def _model(node: Node, names: Sequence[str], feeds: Dict[str, Array]) -> bytes:
    """Return an ONNX model of one node; sizes of axes are left open."""
    outputs = ["y%d" % at for at in range(node.outputs)]
    body = b"".join(field(1, name.encode()) for name in names)
    body += b"".join(field(2, name.encode()) for name in outputs) + field(4, node.type.encode())
    body += b"".join(field(5, _attribute(*entry)) for entry in node.attributes.items())
    graph = field(1, body) + field(2, b"one")
    for name, array in feeds.items():
        dims = b"".join(field(1, b"") for _ in range(array.ndim))
        kind = field(1, BY_NAME[array.dtype.name].code) + field(2, dims)
        graph += field(11, field(1, name.encode()) + field(2, field(1, kind)))
    graph += b"".join(field(12, field(1, name.encode())) for name in outputs)
    return field(1, _IR_VERSION) + field(7, graph) + field(8, field(2, node.version))


def _attribute(name: str, value: Any) -> bytes:
    """Return an AttributeProto. Source: onnx.proto."""
    head, one = field(1, name.encode()), value[0] if isinstance(value, list) and value else value
    if isinstance(value, np.ndarray):
        tensor = b"".join(field(1, size) for size in value.shape)
        tensor += field(2, BY_NAME[value.dtype.name].code) + field(9, value.tobytes())
        return head + field(5, tensor) + field(20, 4)
    if isinstance(one, str):
        texts = value if isinstance(value, list) else [value]
        number, kind = (9, 8) if isinstance(value, list) else (4, 3)
        return head + b"".join(field(number, text.encode()) for text in texts) + field(20, kind)
    if isinstance(one, float):
        if isinstance(value, list):
            packed = struct.pack("<%df" % len(value), *value)
            return head + field(7, packed) + field(20, 6)
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1)
    if isinstance(value, list):
        return head + b"".join(field(8, entry % 2**64) for entry in value) + field(20, 7)
    return head + field(3, int(value) % 2**64) + field(20, 2)
