"""An ONNX graph as a compiler leaves it on a device: constants folded, operators fused, TransData
and Cast between them.

Written apart from goldwatch's own code: what it is tried with must not share its mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .attributes import attributes
from .sessions import all_values

Array = Any
Node = Any
Source = Tuple[str, int]

VIEWS = frozenset(["Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout"])
"""They vanish: who reads their output reads their input, in another shape."""

_TYPES = {
    "Conv": "Conv2D",
    "ConvTranspose": "Conv2DTransposeD",
    "MatMul": "BatchMatMulV2",
    "Gemm": "MatMulV2",
    "Softmax": "SoftmaxV2",
    "MaxPool": "MaxPoolV3",
    "AveragePool": "AvgPoolV2",
    "Transpose": "TransposeD",
    "Concat": "ConcatD",
    "ReduceMean": "ReduceMeanD",
    "ReduceSum": "ReduceSumD",
    "ReduceMax": "ReduceMaxD",
    "ReduceMin": "ReduceMinD",
    "Slice": "StridedSliceD",
    "Split": "SplitVD",
    "Pad": "PadV3D",
    "LSTM": "DynamicRNN",
    "GRU": "DynamicGRUV2",
    "Clip": "ClipByValue",
    "Div": "RealDiv",
    "Max": "Maximum",
    "Min": "Minimum",
    "Where": "SelectV2",
    "Expand": "ExpandD",
    "Gather": "GatherV2D",
    "BatchNormalization": "BatchNorm",
    "ArgMax": "ArgMaxD",
    "TopK": "TopKV2",
}
_CUBE = frozenset(
    [
        "Conv2D",
        "DepthwiseConv2D",
        "Conv2DTransposeD",
        "MaxPoolV3",
        "AvgPoolV2",
        "GlobalAveragePool",
        "GlobalMaxPool",
    ]
)
_IN_ATTRIBUTES = frozenset(
    "StridedSliceD SplitVD PadV3D ResizeNearestNeighborV2D ResizeBilinearV2D ExpandD "
    "ReduceMeanD ReduceSumD ReduceMaxD ReduceMinD "
    "ArgMaxD".split()
)
"""Their constants are attributes in Ascend IR."""
_IN_PLACE_LAYOUT = frozenset(
    "Add Sub Mul RealDiv Relu Relu6 LeakyRelu Sigmoid HardSigmoid HardSwish Swish Gelu "
    "ClipByValue Tanh Exp Sqrt Erf Pow Log Neg Maximum Minimum Abs Elu Mish "
    "ResizeNearestNeighborV2D ResizeBilinearV2D BatchNorm PRelu".split()
)
"""They run in NC1HWC0 where what they read is stored so."""


_CAST_CODES = {"float32": 0, "float16": 1, "int32": 3, "int64": 9, "bool": 12, "bfloat16": 27}


class Habit(NamedTuple):
    """How a device computes, what its compiler fuses, and what its dumps tell.

    Attributes
    ----------
    precision
        float16, bfloat16, float32, or hf32: float32 whose cube units keep 10 bits of mantissas.
    half_sums
        Sums of products in float16, 16 terms at a time.
    cut
        What an op makes, and partial sums in float16, are cut off, not rounded: all shrink.
    fold, fuse, blocks
        Batch normalisation and biases go into the filters; activations into the convolution before;
        chains of vector operators
        become HardSwish, Gelu, Swish, LayerNorm.
    islands
        Types that are computed in float32, with Casts around them.
    kept
        Names of ops that are.
    five, fractal
        NC1HWC0 and FRACTAL_Z for convolutions, FRACTAL_NZ for matrices; else as in the model.
    weights
        Filters, biases and other constants are inputs of the dump.
    told
        The json has the operators' attributes, as ``atc --mode=1`` writes them.
    sharp
        Sigmoid, Tanh, Exp and the like are right to the last bit of float32; else as onnxruntime
        approximates them, with errors of 1e-7 of their range, much of small values.
    """

    precision: str = "float16"
    half_sums: bool = False
    cut: bool = False
    fold: bool = True
    fuse: bool = True
    blocks: bool = True
    islands: Tuple[str, ...] = ()
    kept: Tuple[str, ...] = ()
    five: bool = True
    fractal: bool = True
    weights: bool = False
    told: bool = False
    sharp: bool = False

    @property
    def dtype(self) -> str:
        return "float32" if self.precision == "hf32" else self.precision


@dataclass
class Input:
    """What an op reads: the name by which its nodes know it, who makes it, and how it is told."""

    value: str
    source: Source
    shape: Tuple[int, ...]
    dtype: str
    layout: str


@dataclass
class Constant:
    """A constant of the compiled op, float ones rounded to the device's type before they are used.

    ``shown``: the dump may hold it; what the compiler writes into the kernel or into attributes it
    cannot.
    """

    value: str
    name: str
    array: Array
    dtype: str
    layout: str
    shape: Tuple[int, ...]
    shown: bool


@dataclass
class Output:
    """What an op makes. ``shape`` is the told one: a one-dimensional convolution's has four
    axes."""

    value: str
    shape: Tuple[int, ...]
    dtype: str
    layout: str
    origin: Source


@dataclass
class Op:
    """One op on the device.

    Attributes
    ----------
    nodes
        ONNX nodes that compute it in float32; none where it only moves or casts.
    originals
        None where the json has no list of them.
    operands
        Its inputs, and the constants that a dump may hold, in Ascend IR's order.
    """

    name: str
    type: str
    nodes: List[Node] = field(default_factory=list)
    inputs: List[Input] = field(default_factory=list)
    constants: List[Constant] = field(default_factory=list)
    outputs: List[Output] = field(default_factory=list)
    originals: Optional[Tuple[str, ...]] = None
    attributes: Dict[str, Any] = field(default_factory=dict)
    operands: List[Any] = field(default_factory=list)


@dataclass
class Lowered:
    """A whole network on the device, in execution order; ``results`` are what NetOutput reads."""

    ops: List[Op]
    data: Dict[str, Array]
    results: List[Input]
    opset: int
    values: Dict[str, Array]


@dataclass
class _Group:
    """Nodes that become one op."""

    nodes: List[Node]
    type: str
    name: str
    originals: List[str]


class _Graph:
    """What of a model is computed on the device, and what is known before."""

    def __init__(self, path: str, feeds: Dict[str, Array]) -> None:
        model = onnx.load(path)
        self.opset = next(
            entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")
        )
        self.constants = {
            entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer
        }
        self.values = all_values(path, feeds)
        self.values.update(feeds)
        self.results = [entry.name for entry in model.graph.output]
        self.alias: Dict[str, str] = {}
        self.names: Dict[int, str] = {}
        unnamed = 0
        self.nodes: List[Node] = []
        for node in model.graph.node:
            name = node.name
            if not name:
                name, unnamed = "%s_%d" % (node.op_type, unnamed), unnamed + 1
            self.names[id(node)] = name
            if self._static(node):
                self.constants.update(
                    (value, self.values[value]) for value in node.output if value in self.values
                )
            elif node.op_type in VIEWS or self._idle(node):
                self.alias[node.output[0]] = self.base(node.input[0])
            else:
                self.nodes.append(node)
        self._model = model  # its nodes' ids are keys
        self.readers: Dict[str, List[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(self.base(value) for value in node.input if value):
                self.readers.setdefault(value, []).append(node)
        self.kept = {self.base(value) for value in self.results}

    def _static(self, node: Node) -> bool:
        return node.op_type in ("Constant", "Shape", "Size") or all(
            not value or value in self.constants for value in node.input
        )

    def _idle(self, node: Node) -> bool:
        """Tell whether a Cast keeps the type."""
        if node.op_type != "Cast":
            return False
        return bool(self.values[node.input[0]].dtype == self.values[node.output[0]].dtype)

    def base(self, value: str) -> str:
        return self.alias.get(value, value)

    def constant(self, value: str) -> Optional[Array]:
        return self.constants.get(value)

    def only_reader(self, value: str) -> Optional[Node]:
        """Return the node that alone reads a value, in its own shape."""
        base = self.base(value)
        readers = self.readers.get(base, [])
        if len(readers) != 1 or base in self.kept:
            return None
        read = next(entry for entry in readers[0].input if self.base(entry) == base)
        return readers[0] if self.values[read].shape == self.values[base].shape else None

    def scalar(self, node: Node) -> Optional[float]:
        """Return the only constant operand of a node with two, where it is one number."""
        found = [self.constants[value] for value in node.input if value in self.constants]
        return float(found[0].reshape(-1)[0]) if len(found) == 1 and found[0].size == 1 else None

    def reads(self, node: Node, value: str) -> bool:
        return any(self.base(entry) == self.base(value) for entry in node.input if entry)


def lower(path: str, feeds: Dict[str, Array], habit: Habit) -> Lowered:
    """Compile a model for one set of inputs."""
    graph = _Graph(path, feeds)
    return _Builder(graph, habit, feeds).build(_groups(graph, habit))


def _groups(graph: _Graph, habit: Habit) -> List[_Group]:
    taken: Set[int] = set()
    groups: List[Tuple[int, _Group]] = []
    place = {id(node): number for number, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if id(node) in taken:
            continue
        nodes, kind, name = _fused(graph, habit, node)
        if any(id(entry) in taken for entry in nodes):
            nodes, kind, name = [node], "", graph.names[id(node)]
        taken.update(id(entry) for entry in nodes)
        originals = [graph.names[id(entry)] for entry in nodes]
        groups.append(
            (max(place[id(entry)] for entry in nodes), _Group(nodes, kind, name, originals))
        )
    return [group for _, group in sorted(groups, key=lambda entry: entry[0])]


def _fused(graph: _Graph, habit: Habit, node: Node) -> Tuple[List[Node], str, str]:
    """Return the nodes that are fused with one, the type (empty: the node's own) and the name of
    what comes of it."""
    own = graph.names[id(node)]
    if node.op_type in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        nodes = [node] + (list(_foldable(graph, node)) if habit.fold else [])
        last = (
            graph.only_reader(nodes[-1].output[0])
            if habit.fuse and node.op_type == "Conv"
            else None
        )
        if last is not None and last.op_type in ("Relu", "LeakyRelu", "Clip"):
            return nodes + [last], "", own + graph.names[id(last)]
        return nodes, "", own
    if not habit.blocks:
        return [node], "", own
    for find, kind in (
        (_layer_norm, "LayerNorm"),
        (_hard_swish, "HardSwish"),
        (_gelu, "Gelu"),
        (_swish, "Swish"),
    ):
        found = find(graph, node)
        if found:
            return found, kind, graph.names[id(found[-1])]
    return [node], "", own


def _foldable(graph: _Graph, node: Node) -> Iterator[Node]:
    """Yield the batch normalisation or the bias behind a node with weights."""
    if (
        node.op_type in ("Conv", "ConvTranspose", "MatMul")
        and graph.constant(node.input[1]) is None
    ):
        return
    channels = graph.values[node.output[0]].shape[1 if node.op_type.startswith("Conv") else -1]
    cur = node
    while True:
        reader = graph.only_reader(cur.output[0])
        if reader is None or node.op_type == "Gemm":
            return
        if reader.op_type == "BatchNormalization" and node.op_type == "Conv":
            yield reader
        elif reader.op_type == "Add" and cur is node and len(node.input) < 3:
            bias = next(
                (graph.constants[value] for value in reader.input if value in graph.constants), None
            )
            along = 1 if node.op_type.startswith("Conv") else -1
            if (
                bias is None
                or bias.size != channels
                or bias.ndim
                and bias.shape[along - (4 - bias.ndim if along == 1 else 0)] != channels
            ):
                return
            yield reader
        else:
            return
        cur = reader


def _chain(graph: _Graph, node: Node, kinds: Sequence[str]) -> Optional[List[Node]]:
    """Return a node and those behind it, each the only reader of the one before, where they are of
    these types."""
    found = [node]
    for kind in kinds[1:]:
        reader = graph.only_reader(found[-1].output[0])
        if reader is None or reader.op_type != kind:
            return None
        found.append(reader)
    return found if node.op_type == kinds[0] else None


def _hard_swish(graph: _Graph, node: Node) -> Optional[List[Node]]:
    if node.op_type != "Add" or graph.scalar(node) != 3.0:
        return None
    x = next(value for value in node.input if value not in graph.constants)
    found = _chain(graph, node, ("Add", "Clip", "Mul", "Div"))
    return found if found and graph.reads(found[2], x) and graph.scalar(found[3]) == 6.0 else None


def _gelu(graph: _Graph, node: Node) -> Optional[List[Node]]:
    if node.op_type != "Div" or node.input[0] in graph.constants or graph.scalar(node) is None:
        return None
    found = _chain(graph, node, ("Div", "Erf", "Add", "Mul", "Mul"))
    return (
        found
        if found and graph.reads(found[3], node.input[0]) and graph.scalar(found[4]) == 0.5
        else None
    )


def _swish(graph: _Graph, node: Node) -> Optional[List[Node]]:
    found = _chain(graph, node, ("Sigmoid", "Mul"))
    if (
        not found
        or not graph.reads(found[1], node.input[0])
        or len(graph.readers[graph.base(node.input[0])]) != 2
    ):
        return None
    return found


def _layer_norm(graph: _Graph, node: Node) -> Optional[List[Node]]:
    if node.op_type != "ReduceMean":
        return None
    less = graph.only_reader(node.output[0])
    if less is None or less.op_type != "Sub" or not graph.reads(less, node.input[0]):
        return None
    readers = graph.readers.get(graph.base(less.output[0]), [])
    power = next((entry for entry in readers if entry.op_type == "Pow"), None)
    if len(readers) != 2 or power is None:
        return None
    found = _chain(graph, power, ("Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"))
    if not found or not graph.reads(found[4], less.output[0]) or found[4] not in readers:
        return None
    return [node, less] + found


class _Builder:
    """Makes the ops of a network one after another."""

    def __init__(self, graph: _Graph, habit: Habit, feeds: Dict[str, Array]) -> None:
        self.graph, self.habit, self.feeds = graph, habit, feeds
        self.ops: List[Op] = []
        self.home: Dict[str, Output] = {}
        self.source: Dict[str, Source] = {}
        self.versions: Dict[Tuple[Any, ...], Source] = {}
        self.inserted = 0
        self.known: Dict[Source, Output] = {}

    def build(self, groups: List[_Group]) -> Lowered:
        for name, array in self.feeds.items():
            out = Output(name, array.shape, str(array.dtype), "ND", (name, 0))
            self._keep(Op(name, "Data", outputs=[out]))
        for group in groups:
            self._add(group)
        results = [
            self.obtain(value, "ND", self._result_type(value))
            for value in self.graph.results
            if value not in self.graph.constants
        ]
        return Lowered(self.ops, dict(self.feeds), results, self.graph.opset, self.graph.values)

    def _result_type(self, value: str) -> str:
        return str(self.graph.values[value].dtype)

    def _keep(self, op: Op) -> None:
        self.ops.append(op)
        for index, out in enumerate(op.outputs):
            self.known[op.name, index] = out
            if out.value not in self.home:
                self.home[out.value], self.source[out.value] = out, (op.name, index)

    def _insert(
        self, kind: str, value: str, source: Source, dtype: str, layout: str, shape: Tuple[int, ...]
    ) -> Source:
        before = self.known[source]
        name, self.inserted = "trans_%s_%d" % (kind, self.inserted), self.inserted + 1
        op = Op(name, kind, originals=())
        op.inputs.append(Input(value, source, before.shape, before.dtype, before.layout))
        op.operands = list(op.inputs)
        op.outputs.append(Output(value, shape, dtype, layout, before.origin))
        op.attributes = (
            {"dst_type": _CAST_CODES[dtype]}
            if kind == "Cast"
            else {"src_format": before.layout, "dst_format": layout}
        )
        self.ops.append(op)
        self.known[name, 0] = op.outputs[0]
        return name, 0

    def obtain(
        self, value: str, layout: str, dtype: str, shape: Optional[Tuple[int, ...]] = None
    ) -> Input:
        """Return an input, with a Cast or a TransData before it where it needs one."""
        base = self.graph.base(value)
        home, source = self.home[base], self.source[base]
        real = tuple(self.graph.values[base].shape)
        told = tuple(self.graph.values[value].shape) if shape is None else shape
        if home.dtype != dtype:
            source = self._version("Cast", base, source, dtype, home.layout, home.shape)
        cur = self.known[source]
        if cur.layout != layout or (layout != "ND" and cur.shape != told):
            if cur.layout != "ND":
                source = self._version("TransData", base, source, dtype, "ND", real)
            if layout != "ND":
                source = self._version("TransData", base, source, dtype, layout, told)
        return Input(value, source, told, dtype, layout)

    def _version(
        self, kind: str, base: str, source: Source, dtype: str, layout: str, shape: Tuple[int, ...]
    ) -> Source:
        key = (base, dtype, layout, shape if layout != "ND" else ())
        if key not in self.versions:
            self.versions[key] = self._insert(kind, base, source, dtype, layout, shape)
        return self.versions[key]

    def _add(self, group: _Group) -> None:
        nodes, folded = _folded(self.graph, group)
        self.graph.constants.update(folded)
        kind = group.type or self._type(nodes[0])
        op = Op(group.name, kind, nodes)
        if len(group.originals) > 1:
            op.originals = tuple(group.originals)
        made = {value for node in nodes for value in node.output}
        read = dict.fromkeys(
            value for node in nodes for value in node.input if value and value not in made
        )
        data = [value for value in read if value not in self.graph.constants]
        outs = list(nodes[-1].output)
        layout = self._layout(kind, nodes, data, outs)
        wide = kind in self.habit.islands or group.name in self.habit.kept
        dtype = "float32" if wide else self.habit.dtype
        for number, value in enumerate(data):
            floating = self.graph.values[value].dtype == np.float32
            given = dtype if floating else str(self.graph.values[value].dtype)
            where, told = layout if layout != "ND" else "ND", None
            if kind in _CUBE or layout == "NC1HWC0":
                told = _four(self.graph.values[value].shape)
            if kind == "Conv2DTransposeD" and number:
                where, told = "ND", None
            op.inputs.append(self.obtain(value, where, given, told))
        for value in read:
            if value in data:
                continue
            op.constants.append(
                _constant(
                    op, value, self.graph.constants[value], dtype, layout, nodes[0], self.habit
                )
            )
        op.operands = _operands(op, read)
        for index, value in enumerate(outs):
            if not value or value not in self.graph.values:
                continue
            array = self.graph.values[value]
            told = (
                _four(array.shape) if kind in _CUBE or layout == "NC1HWC0" else tuple(array.shape)
            )
            kept = dtype if array.dtype == np.float32 else str(array.dtype)
            op.outputs.append(
                Output(self.graph.base(value), told, kept, layout, (group.originals[-1], index))
            )
        op.attributes = attributes(op.type, nodes, self.graph)
        if op.type == "Cast" and op.outputs:
            op.attributes = {"dst_type": _CAST_CODES[op.outputs[0].dtype]}
        self._keep(op)

    def _type(self, node: Node) -> str:
        kind = _TYPES.get(node.op_type, node.op_type)
        graph = self.graph
        if node.op_type == "Conv":
            groups = next((entry.i for entry in node.attribute if entry.name == "group"), 1)
            return (
                "DepthwiseConv2D"
                if 1
                < groups
                == graph.values[node.input[0]].shape[1]
                == graph.values[node.output[0]].shape[1]
                else kind
            )
        if node.op_type == "MatMul" and (
            graph.constant(node.input[1]) is not None or graph.values[node.output[0]].ndim == 2
        ):
            return "MatMulV2"
        if node.op_type == "Clip" and _bounds(graph, node) == (0.0, 6.0):
            return "Relu6"
        if node.op_type == "Resize":
            mode = next(
                (entry.s.decode() for entry in node.attribute if entry.name == "mode"), "nearest"
            )
            return "ResizeNearestNeighborV2D" if mode == "nearest" else "ResizeBilinearV2D"
        return kind

    def _layout(self, kind: str, nodes: List[Node], data: List[str], outs: List[str]) -> str:
        values = self.graph.values
        if not data or not all(values[value].dtype == np.float32 for value in data):
            return "ND"
        if self.habit.five and kind in _CUBE:
            return "NC1HWC0" if values[outs[0]].ndim in (3, 4) else "ND"
        if self.habit.fractal and kind in ("MatMulV2", "BatchMatMulV2"):
            return (
                "FRACTAL_NZ" if all(values[value].ndim >= 2 for value in data + outs[:1]) else "ND"
            )
        if (
            not self.habit.five
            or kind not in _IN_PLACE_LAYOUT
            and kind not in ("ConcatD", "ReduceMeanD")
        ):
            return "ND"
        if not all(values[value].ndim == 4 and self._stored_five(value) for value in data) or any(
            values[v].ndim != 4 for v in outs if v
        ):
            return "ND"
        if kind == "ConcatD":
            return (
                "NC1HWC0"
                if all(values[value].shape[1] % 16 == 0 for value in data)
                and self._axis(nodes[0]) == 1
                else "ND"
            )
        constants = [
            self.graph.constants[value] for value in nodes[0].input if value in self.graph.constants
        ]
        return (
            "NC1HWC0"
            if kind == "ReduceMeanD"
            or all(entry.size == 1 or entry.ndim in (1, 3, 4) for entry in constants)
            else "ND"
        )

    def _axis(self, node: Node) -> int:
        axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
        return int(axis) % 4

    def _stored_five(self, value: str) -> bool:
        base = self.graph.base(value)
        home = self.home[base]
        return home.layout == "NC1HWC0" and home.shape == tuple(self.graph.values[value].shape)


def _bounds(graph: _Graph, node: Node) -> Tuple[float, float]:
    if (
        len(node.input) > 2
        and node.input[1] in graph.constants
        and node.input[2] in graph.constants
    ):
        least, most = (graph.constants[value].reshape(-1)[0] for value in node.input[1:3])
        return float(least), float(most)
    given = {entry.name: entry.f for entry in node.attribute}
    return given.get("min", -np.inf), given.get("max", np.inf)


def _four(shape: Sequence[int]) -> Tuple[int, ...]:
    """Return the shape that a one-dimensional convolution has on the device: a 1 before the last
    axis."""
    shape = tuple(int(size) for size in shape)
    return shape[:2] + (1,) + shape[2:] if len(shape) == 3 else shape


def _constant(
    op: Op, value: str, array: Array, dtype: str, layout: str, node: Node, habit: Habit
) -> Constant:
    floating = array.dtype == np.float32
    kept, where, shape = dtype if floating else str(array.dtype), "ND", tuple(array.shape)
    if op.type in ("Conv2D", "DepthwiseConv2D", "Conv2DTransposeD") and value == node.input[1]:
        shape = _four(shape)
        where = "FRACTAL_Z" if op.type == "Conv2D" and habit.five and _whole(node) else "ND"
        kept = dtype
    elif op.type == "BatchNorm" and floating:
        # Variances of real networks leave float16's range.
        kept = "float32"
    elif op.type == "MatMulV2" and layout == "FRACTAL_NZ" and array.ndim == 2:
        where = "FRACTAL_NZ"
    shown = (array.size > 1 or op.originals is None) and op.type not in _IN_ATTRIBUTES
    shown = shown and node.op_type not in ("LSTM", "GRU")
    return Constant(value, value + "_0", array, kept, where, shape, shown)


def _operands(op: Op, read: Sequence[str]) -> List[Any]:
    """Return inputs and shown constants in the order in which Ascend IR has them.

    Parameters
    ----------
    read
        All values that the nodes read, in their order.
    """
    known: Dict[str, Any] = {entry.value: entry for entry in op.inputs}
    known.update((entry.value, entry) for entry in op.constants if entry.shown)
    if op.nodes[0].op_type not in ("LSTM", "GRU"):
        return [known[value] for value in read if value in known]
    # x, then the weights in the form of DynamicRNN or DynamicGRUV2, then the first state.
    merged = _unrolled(op)
    op.constants.extend(merged)
    return op.inputs[:1] + merged + op.inputs[1:]


def _unrolled(op: Op) -> List[Constant]:
    """Return what a device has for the weights of an LSTM or a GRU of one direction, none of two.

    ONNX has an LSTM's gates in the order i, o, f, c, and DynamicRNN i, c, f, o in one matrix for
    the input and the state before; a GRU's are in one order, transposed.
    """
    node = op.nodes[0]
    known = {entry.value: entry.array for entry in op.constants}
    names = list(node.input) + [""] * 4
    if names[1] not in known or names[2] not in known or known[names[1]].shape[0] != 1:
        return []
    inputs, states = known[names[1]][0], known[names[2]][0]
    bias = known[names[3]][0] if names[3] in known else np.zeros(2 * len(inputs), np.float32)
    dtype, half = op.constants[0].dtype, len(inputs)
    if node.op_type == "GRU":
        made = [inputs.T, states.T, bias[:half], bias[half:]]
    else:
        size = states.shape[-1]
        order = np.concatenate([np.arange(gate * size, (gate + 1) * size) for gate in (0, 3, 2, 1)])
        made = [
            np.concatenate([inputs[order].T, states[order].T]),
            (bias[:half] + bias[half:])[order],
        ]
    return [
        Constant(
            "",
            "weight_%d" % number,
            np.ascontiguousarray(array),
            dtype,
            "ND",
            tuple(array.shape),
            True,
        )
        for number, array in enumerate(made)
    ]


def _whole(node: Node) -> bool:
    """Tell whether a convolution is not grouped."""
    return next((entry.i for entry in node.attribute if entry.name == "group"), 1) == 1


def _folded(graph: _Graph, group: _Group) -> Tuple[List[Node], Dict[str, Array]]:
    """Return a group's nodes with batch normalisation and bias in the weights, and the weights that
    were made so."""
    first = group.nodes[0]
    inner = [node for node in group.nodes[1:] if node.op_type in ("BatchNormalization", "Add")]
    if first.op_type not in ("Conv", "ConvTranspose", "MatMul") or not inner:
        return _renamed(graph, group.nodes), {}
    weights = graph.constants[first.input[1]].astype(np.float64)
    bias = graph.constants[first.input[2]].astype(np.float64) if len(first.input) > 2 else 0.0
    for node in inner:
        if node.op_type == "Add":
            bias = bias + next(
                graph.constants[value] for value in node.input if value in graph.constants
            ).reshape(-1)
            continue
        scale, shift, mean, variance = (
            graph.constants[value].astype(np.float64) for value in node.input[1:5]
        )
        epsilon = next((entry.f for entry in node.attribute if entry.name == "epsilon"), 1e-5)
        factor = scale / np.sqrt(variance + epsilon)
        weights = weights * factor.reshape((-1,) + (1,) * (weights.ndim - 1))
        bias = (bias - mean) * factor + shift
    rest = [node for node in group.nodes[1:] if node not in inner]
    names = [first.input[1] + ":folded", first.input[1] + ":bias"]
    made = {names[0]: weights.astype(np.float32), names[1]: np.asarray(bias, np.float32)}
    out = inner[-1].output[0]
    if first.op_type == "MatMul":
        middle = first.output[0]
        nodes = [
            helper.make_node("MatMul", [first.input[0], names[0]], [middle]),
            helper.make_node("Add", [middle, names[1]], [out]),
        ]
    else:
        conv = onnx.NodeProto()
        conv.CopyFrom(first)
        del conv.input[:], conv.output[:]
        conv.input.extend([first.input[0], *names])
        conv.output.append(out)
        nodes = [conv]
    return _renamed(graph, nodes + rest), made


def _renamed(graph: _Graph, nodes: List[Node]) -> List[Node]:
    """Return nodes that read each other's outputs by the names under which they are made, not by
    those of an Identity behind them."""
    made = {value for node in nodes for value in node.output}
    found = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for index, entry in enumerate(node.input):
            if entry and entry not in made and graph.base(entry) in made:
                copy.input[index] = graph.base(entry)
        found.append(copy)
    return found
