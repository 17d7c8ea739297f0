"""Networks of 8 to 12 nodes around one operator, whose node is called ``core``."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..real.sessions import run_node

Array = Any
OPSET = 20
CORE = "core"


class Net:
    """A model under construction: each node is computed when it is added, so that its shape is
    known.

    Parameters
    ----------
    seed
        Of weights and inputs.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.RandomState(seed)
        self.nodes: List[Any] = []
        self.weights: List[Any] = []
        self.inputs: Dict[str, Array] = {}
        self.values: Dict[str, Array] = {}

    def data(self, name: str, array: Array) -> str:
        """Add an input of the network."""
        self.inputs[name] = self.values[name] = array
        return name

    def weight(self, array: Array, dtype: Any = np.float32) -> str:
        """Add a constant."""
        name = "w%d" % len(self.weights)
        self.values[name] = np.array(array, dtype, order="C")
        self.weights.append(numpy_helper.from_array(self.values[name], name))
        return name

    def ints(self, *values: int) -> str:
        """Add a constant of whole numbers."""
        return self.weight(np.array(values), np.int64)

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> str:
        """Add a random constant that float16 holds."""
        drawn = self.random.normal(mean, scale, shape).astype(np.float16)
        return self.weight(drawn.astype(np.float32))

    def node(self, kind: str, *inputs: str, name: str = "", outputs: int = 1, **given: Any) -> str:
        """Add a node; return its first output."""
        name = name or "%s_%d" % (kind.lower(), len(self.nodes))
        made = [name + ":out"] + ["%s:out%d" % (name, at) for at in range(1, outputs)]
        node = helper.make_node(kind, list(inputs), made, name, **given)
        self.nodes.append(node)
        feeds = {value: self.values[value] for value in inputs if value}
        self.values.update(zip(made, run_node(node, feeds, OPSET)))
        return made[0]

    def core(self, kind: str, *inputs: str, outputs: int = 1, **given: Any) -> str:
        """Add the operator that is exchanged."""
        return self.node(kind, *inputs, name=CORE, outputs=outputs, **given)

    def shape(self, value: str) -> Tuple[int, ...]:
        """Return a value's shape."""
        return tuple(self.values[value].shape)

    def conv(self, x: str, channels: int, size: int = 1, **given: Any) -> str:
        """Add a convolution with a bias that keeps height and width."""
        before = self.shape(x)[1]
        filters = self.normal(channels, before, size, size, scale=(before * size * size) ** -0.5)
        bias = self.normal(channels, scale=0.2)
        return self.node("Conv", x, filters, bias, pads=[size // 2] * 4, **given)

    def dense(self, x: str, size: int) -> str:
        """Add a product with a matrix, and a bias."""
        before = self.shape(x)[-1]
        made = self.node("MatMul", x, self.normal(before, size, scale=before**-0.5))
        return self.node("Add", made, self.normal(size, scale=0.2))

    def save(self, path: str, results: Sequence[str]) -> str:
        """Write the model; return its path."""

        def told(name: str) -> Any:
            array = self.values[name]
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, kind, array.shape)

        graph = helper.make_graph(
            self.nodes,
            "net",
            [told(name) for name in self.inputs],
            [told(name) for name in results],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 9
        onnx.save(model, path)
        return path


Core = Callable[[Net, str], str]


def image(net: Net) -> str:
    """Return 2 × 8 × 8 × 8 values, some negative, of pictures through a convolution."""
    rows, columns = np.mgrid[0:8, 0:8]
    soft = np.sin(0.6 * rows + 0.4 * columns) + 0.3 * net.random.normal(size=(2, 3, 8, 8))
    x = net.conv(net.data("image", soft.astype(np.float32)), 8, 3)
    draw = net.random.uniform
    numbers = [net.weight(draw(low, high, 8)) for low, high in ((0.7, 1.3), (-0.3, 0.3))]
    numbers += [net.weight(draw(low, high, 8)) for low, high in ((-0.2, 0.2), (0.3, 0.8))]
    x = net.node("BatchNormalization", x, *numbers)
    return net.node("LeakyRelu", x, alpha=0.25)


def tokens(net: Net) -> str:
    """Return 2 × 16 × 16 values of a sequence through a dense layer."""
    drawn = net.random.normal(size=(2, 16, 12)).cumsum(1) * 0.4
    return net.node("Tanh", net.dense(net.data("tokens", drawn.astype(np.float32)), 16))


FRAMES: Dict[str, Callable[[Net], str]] = {
    "image": image,
    "tokens": tokens,
    "none": lambda net: "",
}


def build(frame: str, core: Core, seed: int) -> Tuple[Net, str]:
    """Return a network and the name of its result: the frame's first nodes, the core, and what
    makes a classification of it."""
    net = Net(seed)
    out = core(net, FRAMES[frame](net))
    if net.values[out].dtype != np.float32:
        out = net.node("Cast", out, to=int(onnx.TensorProto.FLOAT))
    if net.values[out].ndim == 4 and net.shape(out)[1] > 1:
        out = net.node("Relu", net.conv(out, 12))
        out = net.node("ReduceMean", net.conv(out, 8), net.ints(2, 3), keepdims=0)
    elif net.values[out].ndim > 2:
        out = net.node("Relu", net.dense(out, 12))
    elif net.values[out].ndim == 1:
        out = net.node("Unsqueeze", out, net.ints(0))
    return net, net.node("Softmax", net.dense(out, 10), axis=-1)


def node_of(nodes: Sequence[Any], name: str = CORE) -> Optional[Any]:
    """Return the node of a name."""
    return next((node for node in nodes if node.name == name), None)


def core(kind: str, *more: Callable[[Net], str], count: int = 1, **values: Any) -> Core:
    """Return an operator that reads the frame's value, and constants."""

    def make(net: Net, x: str) -> str:
        return net.core(kind, x, *[entry(net) for entry in more], outputs=count, **values)

    return make


def normal(*shape: int, scale: float = 1.0, mean: float = 0.0) -> Callable[[Net], str]:
    """Return what adds a random constant."""
    return lambda net: net.normal(*shape, scale=scale, mean=mean)


def const(value: Any, dtype: Any = np.float32) -> Callable[[Net], str]:
    """Return what adds a constant."""
    return lambda net: net.weight(np.array(value), dtype)


def none(net: Net) -> str:
    """Return the name of an input that is not given."""
    return ""


def two(kind: str, left: Core, right: Core, **values: Any) -> Core:
    """Return an operator that reads two values made of the frame's."""
    return lambda net, x: net.core(kind, left(net, x), right(net, x), **values)


def behind(before: Core, make: Core) -> Core:
    """Return one core behind another."""
    return lambda net, x: make(net, before(net, x))


def conv(channels: int = 8, size: int = 3) -> Core:
    """Return a convolution in front of the core."""
    return lambda net, x: net.conv(x, channels, size)


def dense(size: int = 16) -> Core:
    """Return a dense layer in front of the core."""
    return lambda net, x: net.dense(x, size)


def positive(net: Net, x: str) -> str:
    """Return values above 0."""
    return net.node("Softplus", net.dense(x, 16) if net.values[x].ndim == 3 else net.conv(x, 8))


def scaled(factor: float) -> Core:
    """Return a multiplication in front of the core."""
    return lambda net, x: net.node("Mul", x, net.weight(np.array(factor)))


def square(net: Net, x: str) -> str:
    """Return 16 × 16 values of a sequence."""
    return net.node("ReduceMean", x, net.ints(0), keepdims=0)


def convolution(size: int = 3, bias: bool = True, group: int = 1, **values: Any) -> Core:
    """Return a convolution of 8 channels as the core."""
    more = [normal(8, 8 // group, size, size, scale=(8 // group * size * size) ** -0.5)]
    more += [normal(8, scale=0.4)] if bias else []
    return core("Conv", *more, group=group, **values)


def with_sibling(make: Core) -> Core:
    """Return a core beside a node ``sibling`` of the same kind, with constants of the same shapes;
    the two are added."""

    def both(net: Net, x: str) -> str:
        one = make(net, x)
        node = net.nodes[-1]
        inputs = [node.input[0]]
        for value in node.input[1:]:
            array = net.values[value]
            spread = float(array.std()) + 0.1
            floating = array.dtype == np.float32
            inputs.append(net.normal(*array.shape, scale=spread) if floating else value)
        kept = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        return net.node("Add", one, net.node(node.op_type, *inputs, name="sibling", **kept))

    return both


def attention_scores(net: Net, x: str) -> str:
    """Return a product of two values of the network."""
    key = net.node("Transpose", net.dense(x, 16), perm=[0, 2, 1])
    return net.core("MatMul", net.dense(x, 16), key)


def gemm(**values: Any) -> Core:
    """Return a Gemm of 16 × 16 values and weights."""
    return behind(square, core("Gemm", normal(16, 16, scale=0.25), normal(16, scale=0.4), **values))


def where(net: Net, x: str) -> str:
    """Return a choice between two values."""
    less = net.node("Greater", net.conv(x, 8), net.weight(np.array(0.1)))
    return net.core("Where", less, net.conv(x, 8), net.conv(x, 8, 3))


def split(net: Net, x: str) -> str:
    """Return a gated half of a Split."""
    half = net.core("Split", net.dense(x, 32), outputs=2, axis=-1, num_outputs=2)
    return net.node("Mul", half, net.node("Sigmoid", "core:out1"))


def tied(kind: str, **values: Any) -> Core:
    """Return a choice of the largest, or least, of values of which many are equal."""

    def make(net: Net, x: str) -> str:
        stepped = net.node("Round", net.node("Mul", net.dense(x, 16), net.weight(np.array(1.5))))
        return net.core(kind, stepped, keepdims=0, **values)

    return make


def recurrent(kind: str, gates: int, first: bool = True, **values: Any) -> Core:
    """Return a recurrent layer of 8 units; ``first``: with a first state."""
    ways = 2 if values.get("direction") == "bidirectional" else 1

    def make(net: Net, x: str) -> str:
        x = net.node("Transpose", x, perm=[1, 0, 2])
        wide = gates * 8
        more = [net.normal(ways, wide, 16, scale=0.3), net.normal(ways, wide, 8, scale=0.3)]
        more += [net.normal(ways, 2 * wide, scale=0.3)]
        if first:
            start = net.node("ReduceMean", x, net.ints(0), keepdims=1)
            state = net.node("Slice", start, net.ints(0), net.ints(8), net.ints(2))
            more += ["", state]
        count = 3 if kind == "LSTM" else 2
        out = net.core(kind, x, *more, outputs=count, hidden_size=8, **values)
        if count == 3 and ways == 1:
            both = net.node("Sub", "core:out1", "core:out2")
            out = net.node("Add", out, net.node("Unsqueeze", both, net.ints(0)))
        return net.node("Squeeze", out, net.ints(1)) if ways == 1 else out

    return make


def normalisation(kind: str, scale: float = 1.0, **values: Any) -> Core:
    """Return a normalisation with a gain and an offset; ``scale`` makes what it reads small."""

    def make(net: Net, x: str) -> str:
        size = 16 if net.values[x].ndim == 3 else 8
        x = scaled(scale)(net, x) if scale != 1 else x
        gain, offset = net.normal(size, scale=0.2, mean=1), net.normal(size, scale=0.2)
        return net.core(kind, x, gain, offset, **values)

    return make


def batch_norm(scale: float = 1.0) -> Core:
    """Return a BatchNormalization; ``scale`` makes what it reads small."""

    def make(net: Net, x: str) -> str:
        x = net.conv(x, 8, 3)
        x = scaled(scale)(net, x) if scale != 1 else x
        draw = net.random.uniform
        more = [net.normal(8, scale=0.2, mean=1), net.normal(8, scale=0.2)]
        more += [net.weight(draw(-0.3, 0.3, 8) * scale), net.weight(draw(0.3, 2, 8) * scale**2)]
        return net.core("BatchNormalization", x, *more)

    return make


def resize(mode: str, scale: float = 2.0, **values: Any) -> Core:
    """Return a Resize of height and width."""
    return core("Resize", none, const([1, 1, scale, scale]), mode=mode, **values)


def grid_sample(net: Net, x: str) -> str:
    """Return a GridSample whose places lie outside in part."""
    drawn = net.random.uniform(-1.3, 1.3, (2, 8, 8, 2)).astype(np.float16)
    return net.core("GridSample", x, net.weight(drawn))


def roi_align(**values: Any) -> Core:
    """Return a RoiAlign of three boxes."""

    def make(net: Net, x: str) -> str:
        boxes = net.weight([[0.5, 1, 5.25, 6], [1.5, 0.75, 7, 4.5], [2, 2.25, 6.5, 7]])
        places = net.ints(0, 1, 0)
        return net.core("RoiAlign", x, boxes, places, output_height=4, output_width=4, **values)

    return make


def quantised(net: Net, x: str) -> str:
    """Return a QuantizeLinear beside a ``sibling`` with another scale and zero point."""
    made = []
    for name, step, zero in (("core", 2.0**-5, 3), ("sibling", 2.0**-4, -5)):
        more = [net.weight(np.array(step)), net.weight(np.array(zero), np.int8)]
        whole = net.node("QuantizeLinear", net.conv(x, 8), *more, name=name)
        made.append(net.node("DequantizeLinear", whole, *more))
    return net.node("Add", *made)


def dequantised(net: Net, x: str) -> str:
    """Return a DequantizeLinear with a scale and zero point of each channel."""
    one = [net.weight(np.array(2.0**-5)), net.weight(np.array(3), np.int8)]
    whole = net.node("QuantizeLinear", x, *one)
    steps = net.weight(2.0**-6 * np.arange(2, 10))
    return net.core("DequantizeLinear", whole, steps, net.weight(np.arange(8), np.int8), axis=1)


def whole(net: Net, x: str) -> str:
    """Return whole numbers, some negative."""
    return net.node("Cast", scaled(9.0)(net, net.dense(x, 16)), to=int(onnx.TensorProto.INT32))


def scatter(**values: Any) -> Core:
    """Return a ScatterElements into 16 × 16 values."""

    def make(net: Net, x: str) -> str:
        x = square(net, x)
        drawn = net.weight(net.random.randint(0, 16, (16, 16)), np.int64)
        return net.core("ScatterElements", x, drawn, net.dense(x, 16), **values)

    return make


def scatter_nd(net: Net, x: str) -> str:
    """Return a ScatterND that adds, at some places twice."""
    places = np.stack([net.random.randint(0, 2, 24), net.random.randint(0, 16, 24)], 1)
    updates = net.normal(24, 16, scale=0.5)
    return net.core("ScatterND", x, net.weight(places, np.int64), updates, reduction="add")


def gather(kind: str, **values: Any) -> Core:
    """Return a Gather or GatherElements of 16 × 16 values."""

    def make(net: Net, x: str) -> str:
        shape = (16, 16) if kind == "GatherElements" else (16,)
        drawn = net.weight(net.random.randint(0, 16, shape), np.int64)
        return net.core(kind, square(net, x), drawn, **values)

    return make


def reverse_sequence(net: Net, x: str) -> str:
    """Return a ReverseSequence of 16 × 16 values."""
    lengths = net.weight(net.random.randint(4, 17, 16), np.int64)
    return net.core("ReverseSequence", square(net, x), lengths, batch_axis=0, time_axis=1)


def masked(net: Net, x: str) -> str:
    """Return a mask that is added to scores before a Softmax."""
    scores = net.node("MatMul", net.dense(x, 16), net.node("Transpose", x, perm=[0, 2, 1]))
    mask = np.where(np.tri(16) > 0, 0, -8)
    return net.node("Softmax", net.core("Add", scores, net.weight(mask)), axis=-1)


def beside_sibling(net: Net, x: str) -> str:
    """Return an Add beside a ``sibling`` of equal shape."""
    one = net.core("Add", net.conv(x, 8, 3), x)
    return net.node("Mul", one, net.node("Tanh", net.conv(x, 8), name="sibling"))


def conv_core(net: Net, x: str) -> str:
    """Return a convolution without a sibling."""
    return convolution(pads=[1, 1, 1, 1])(net, x)


def topk(**values: Any) -> Core:
    """Return the 8 largest of 16 values."""
    return behind(dense(), core("TopK", const([8], np.int64), count=2, **values))


def halves(net: Net, x: str) -> str:
    """Return values of which many lie on a half."""
    whole_ = net.node("Round", scaled(8.0)(net, x))
    return net.node("Mul", whole_, net.weight(np.array(0.5)))


def one_hot(net: Net, x: str) -> str:
    """Return a OneHot of depth 16 of 16 choices."""
    best = net.node("ArgMax", dense()(net, square(net, x)), axis=-1, keepdims=0)
    return net.core("OneHot", best, net.ints(16), net.weight([0.0, 1.0]), axis=-1)


def below(net: Net, x: str) -> str:
    """Return values between −3.5 and −0.5, where Gelu's two forms differ most."""
    return net.node("Sub", scaled(1.5)(net, x), net.weight(np.array(2.0)))
