"""What is exchanged: operators in a network, and how a device reads one thing of them otherwise."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper

from ..real.device import Change
from ..real.faults import Scene
from . import networks as nets
from .networks import Core

Array = Any
Maker = Callable[[Scene], Change]
_INT32, _FLOAT = int(onnx.TensorProto.INT32), int(onnx.TensorProto.FLOAT)


class Exchange(NamedTuple):
    """One thing that a device reads otherwise.

    Attributes
    ----------
    named
        What an explanation must match to name the thing.
    value
        What it must match besides, to tell what the device took instead; empty where nothing can be
        listed.
    also
        Other kinds of explanation that are true of it.
    proves
        Tells of a sentence whether what it says makes the same output.
    """

    name: str
    frame: str
    core: Core
    maker: Maker
    named: str
    value: str = ""
    also: Tuple[str, ...] = ()
    proves: Optional[Callable[[str], bool]] = None


class Chain:
    """Nodes that the device computes in place of the core's one; what ``kind`` returns is the name
    of a value."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.old = scene, scene.node
        self.x = list(self.old.input)
        self.nodes: List[Any] = []
        self.added: Dict[str, Array] = {}

    def const(self, array: Any, dtype: Any = np.float32) -> str:
        """Add a constant."""
        name = "exchange_const_%d" % len(self.added)
        self.added[name] = np.array(array, dtype, order="C")
        return name

    def kind(self, kind: str, *inputs: str, outputs: int = 1, **given: Any) -> str:
        """Add a node; return its first output, the others have a number behind."""
        name = "exchange_%d" % len(self.nodes)
        made = [name] + ["%s_%d" % (name, at) for at in range(1, outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, **given))
        return name

    def again(self, *inputs: str, drop: Sequence[str] = (), **given: Any) -> str:
        """Add the core's node with other inputs (none: its own) and attributes."""
        kept = {
            entry.name: helper.get_attribute_value(entry)
            for entry in self.old.attribute
            if entry.name not in drop
        }
        kept.update(given)
        count = len(self.old.output)
        return self.kind(self.old.op_type, *(inputs or self.x), outputs=count, **kept)

    def shape(self, value: str) -> Tuple[int, ...]:
        """Return the shape of one of the core's inputs."""
        return tuple(self.scene.device.lowered.values[value].shape)

    def change(self, out: str) -> Change:
        """Return the change that makes ``out``, and what else the node of that name makes."""
        last = next(node for node in self.nodes if node.output[0] == out)
        names = dict(zip(last.output, self.old.output))
        for node in self.nodes:
            for index, value in enumerate(node.output):
                node.output[index] = names.get(value, value)
        return Change(
            constants=lambda constants: dict(constants, **self.added),
            nodes=lambda nodes: self.nodes,
        )


def chain(make: Callable[[Chain], str]) -> Maker:
    """Other nodes in place of the core's."""

    def maker(scene: Scene) -> Change:
        made = Chain(scene)
        return made.change(make(made))

    return maker


def given(drop: Sequence[str] = (), **values: Any) -> Maker:
    """Other attributes."""
    return chain(lambda c: c.again(drop=drop, **values))


def other(kind: str, *inputs: int, **values: Any) -> Maker:
    """Another operator, which reads the core's first input, or those of the numbers."""
    return chain(lambda c: c.kind(kind, *[c.x[at] for at in inputs or (0,)], **values))


def order(*places: int) -> Maker:
    """The inputs in another order; −1: none."""
    return chain(lambda c: c.again(*[c.x[at] if at >= 0 else "" for at in places]))


def constant(at: int, change: Callable[[Array], Array]) -> Maker:
    """Another constant in place of input ``at``."""

    def make(c: Chain) -> str:
        inputs = list(c.x)
        before = c.scene.device.constants(c.scene.op)[inputs[at]]
        wrong = change(before.copy())
        inputs[at] = c.const(wrong, before.dtype)
        return c.again(*inputs)

    return chain(make)


def after(change: Callable[[Scene, List[Array]], List[Array]]) -> Maker:
    """What is made of the right outputs."""
    return lambda scene: Change(after=lambda outs: change(scene, outs))


def spoilt(change: Callable[[Scene, Array], Array]) -> Maker:
    return after(lambda scene, outs: [change(scene, outs[0].copy()), *outs[1:]])


def of_sibling(at: int) -> Maker:
    """Input ``at``, a constant, of a sibling."""

    def make(c: Chain) -> str:
        sibling = next(op for op in c.scene.device.lowered.ops if op.name == "sibling")
        array = c.scene.device.constants(sibling)[sibling.nodes[0].input[at]]
        inputs = list(c.x)
        inputs[at] = c.const(array, array.dtype)
        return c.again(*inputs)

    return chain(make)


def has(name: str, value: Any) -> str:
    """Return what tells the value of an attribute: its name, a few other characters, the value; of
    an axis also as it is counted from the last of up to four.
    """
    values = [value]
    if "axis" in name and isinstance(value, int):
        values += [value - rank for rank in (2, 3, 4) if value < rank]
    told = "|".join(re.escape(str(entry)) for entry in values)
    return r"(%s)[^.;]{0,24}?(?<![\w.-])(%s)(?![\w]|\.\d)" % (name, told)


def _gates(*places: int) -> Maker:
    """The weights' gates in another order."""

    def make(c: Chain) -> str:
        inputs, known, count = list(c.x), c.scene.device.constants(c.scene.op), len(places)
        for at in (1, 2, 3):
            bias = at == 3
            parts = np.split(known[inputs[at]], 2 * count if bias else count, axis=1)
            wanted = [*places, *[count + entry for entry in places]] if bias else places
            inputs[at] = c.const(np.concatenate([parts[entry] for entry in wanted], axis=1))
        return c.again(*inputs)

    return chain(make)


def _layer_norm(kind: str) -> Maker:
    """A LayerNormalization over another axis (``axis``), with another variance (``unbiased``), or
    divided by the variance (``variance``)."""

    def make(c: Chain) -> str:
        axis = c.const([1 if kind == "axis" else -1], np.int64)
        less = c.kind("Sub", c.x[0], c.kind("ReduceMean", c.x[0], axis))
        variance = c.kind("ReduceMean", c.kind("Mul", less, less), axis)
        if kind == "unbiased":
            variance = c.kind("Mul", variance, c.const(16.0 / 15))
        variance = c.kind("Add", variance, c.const(1e-5))
        spread = variance if kind == "variance" else c.kind("Sqrt", variance)
        return c.kind("Add", c.kind("Mul", c.kind("Div", less, spread), c.x[1]), c.x[2])

    return chain(make)


def _batch_statistics(c: Chain) -> str:
    axes, flat = c.const([0, 2, 3], np.int64), c.const([8], np.int64)
    mean = c.kind("ReduceMean", c.x[0], axes)
    less = c.kind("Sub", c.x[0], mean)
    variance = c.kind("ReduceMean", c.kind("Mul", less, less), axes)
    return c.again(*c.x[:3], c.kind("Reshape", mean, flat), c.kind("Reshape", variance, flat))


def _channels_last(c: Chain) -> str:
    """The data read as NHWC."""
    last = c.kind("Transpose", c.x[0], perm=[0, 2, 3, 1])
    return c.again(c.kind("Reshape", last, c.const(c.shape(c.x[0]), np.int64)), *c.x[1:])


def _permuted_output(c: Chain, order_: Sequence[int]) -> str:
    return c.kind("Gather", c.again(), c.const(order_, np.int64), axis=1)


def _shifted(c: Chain) -> str:
    """The window's first position one row and column later."""
    one = c.kind(
        "Slice",
        c.x[0],
        c.const([1, 1], np.int64),
        c.const([99, 99], np.int64),
        c.const([2, 3], np.int64),
    )
    return c.again(one, *c.x[1:])


def _space_to_depth(c: Chain) -> str:
    """A SpaceToDepth whose channels stand outermost, as those of a DepthToSpace with mode CRD."""
    n, channels, height, width = c.shape(c.x[0])
    parts = c.const([n, channels, height // 2, 2, width // 2, 2], np.int64)
    moved = c.kind("Transpose", c.kind("Reshape", c.x[0], parts), perm=[0, 1, 3, 5, 2, 4])
    return c.kind("Reshape", moved, c.const([n, 4 * channels, height // 2, width // 2], np.int64))


def _each_twice(c: Chain) -> str:
    """Each element of axis 1 twice, not the axis twice."""
    size = c.shape(c.x[0])[1]
    return c.kind("Gather", c.x[0], c.const(np.repeat(np.arange(size), 2), np.int64), axis=1)


def _unsorted(scene: Scene) -> Change:
    """TopK's choice in the order in which it stands in the input."""

    def change(outs: List[Array]) -> List[Array]:
        places = np.argsort(outs[1], axis=-1)
        return [np.take_along_axis(out, places, -1) for out in outs]

    return Change(after=change)


def _counted_window(c: Chain) -> str:
    """The last, partial window divided by the whole window's size."""
    padded = c.kind("Pad", c.x[0], c.const([0, 0, 0, 0, 0, 0, 1, 1], np.int64))
    return c.again(padded, ceil_mode=0)


def _zero_padded(c: Chain) -> str:
    padded = c.kind("Pad", c.x[0], c.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    return c.again(padded, pads=[0] * 4)


def _along_width(c: Chain) -> str:
    """The slopes along the last axis, not along the channels."""
    return c.again(c.x[0], c.kind("Reshape", c.x[1], c.const([8], np.int64)))


def _half_inside(c: Chain) -> str:
    """What the node reads rounded to float16, as arithmetic in float16 does at the least."""
    half = int(onnx.TensorProto.FLOAT16)
    read = [c.kind("Cast", c.kind("Cast", value, to=half), to=_FLOAT) for value in c.x]
    made = c.again(*read)
    return c.kind("Cast", c.kind("Cast", made, to=half), to=_FLOAT)


def _half_first(c: Chain) -> str:
    """Values on a half rounded away from 0."""
    size = c.kind("Floor", c.kind("Add", c.kind("Abs", c.x[0]), c.const(0.5)))
    return c.kind("Mul", size, c.kind("Sign", c.x[0]))


def _int8(array: Array) -> Array:
    step = np.abs(array).max() / 127
    return (np.round(array / step) * step).astype(np.float32)


def _quick_gelu(c: Chain) -> str:
    curve = c.kind("Sigmoid", c.kind("Mul", c.x[0], c.const(1.702)))
    return c.kind("Mul", c.x[0], curve)


def _swish(c: Chain) -> str:
    return c.kind("Mul", c.x[0], c.kind("Sigmoid", c.x[0]))


def _per_tensor(c: Chain) -> str:
    steps = c.scene.device.constants(c.scene.op)[c.x[1]]
    return c.again(c.x[0], c.const(steps[0]), c.const(0, np.int8), drop=("axis",))


def _no_zero_point(c: Chain) -> str:
    return c.again(c.x[0], c.x[1])


def _value_of(name: str) -> Maker:
    """The output of another op."""
    return spoilt(lambda scene, out: scene.store[name, 0].reshape(out.shape).copy())


def _part(share: float, fill: Callable[[Scene, Array], Array]) -> Maker:
    """From a part of the elements on, something else; negative: before it."""

    def spoil(scene: Scene, out: Array) -> Array:
        flat, wrong = out.reshape(-1), fill(scene, out).reshape(-1)
        at = int(abs(share) * flat.size)
        where = slice(at, None) if share > 0 else slice(0, at)
        flat[where] = wrong[where]
        return flat.reshape(out.shape)

    return spoilt(spoil)


def _zeros(scene: Scene, out: Array) -> Array:
    return np.zeros_like(out)


def _read(scene: Scene, out: Array) -> Array:
    """What the core read, in the memory of its output."""
    return np.resize(scene.store[scene.op.inputs[0].source], out.shape).astype(out.dtype)


def _step_before(scene: Scene) -> Change:
    """What the device made of another input."""
    random = np.random.RandomState(977)
    data = {
        name: (array + random.normal(0, 1, array.shape)).astype(array.dtype)
        for name, array in scene.device.lowered.data.items()
    }
    store = scene.device.run(data)
    made = [store[scene.op.name, at] for at in range(len(scene.op.outputs))]
    return Change(after=lambda outs: [one.reshape(out.shape) for one, out in zip(made, outs)])


_CONV = nets.with_sibling(nets.convolution(pads=[1, 1, 1, 1]))
_STRIDED = nets.convolution(pads=[0, 0, 1, 1], strides=[2, 2])
_GROUPED = nets.convolution(pads=[1, 1, 1, 1], group=2)
_DECONV = nets.core(
    "ConvTranspose",
    nets.normal(8, 8, 3, 3, scale=0.12),
    nets.normal(8, scale=0.3),
    strides=[2, 2],
    pads=[0, 0, 1, 1],
)
_MATMUL = nets.with_sibling(nets.core("MatMul", nets.normal(16, 16, scale=0.25)))
_LSTM, _GRU = nets.recurrent("LSTM", 4), nets.recurrent("GRU", 3, linear_before_reset=1)
_RNN = nets.recurrent("RNN", 1)
_BOTH = nets.recurrent("GRU", 3, first=False, direction="bidirectional")
_POOL = nets.core("AveragePool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
_MAX_POOL = nets.core("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
_LN = nets.normalisation("LayerNormalization", axis=-1)
_SMALL_LN = nets.normalisation("LayerNormalization", 2.0**-7, axis=-1)
_IN = nets.normalisation("InstanceNormalization", 2.0**-7)
_LRN = nets.behind(nets.scaled(4.0), nets.core("LRN", size=3, alpha=0.3, beta=0.75, bias=1.0))
_PAD = nets.const([0, 0, 1, 2, 0, 0, 2, 1], np.int64)
_HARD = nets.behind(nets.dense(), nets.core("HardSigmoid", alpha=0.2, beta=0.5))


def _curve(kind: str, *more: Callable[[nets.Net], str], **values: Any) -> Core:
    """An activation behind a dense layer that makes some large values."""
    return nets.behind(
        nets.scaled(3.0), nets.behind(nets.dense(), nets.core(kind, *more, **values))
    )


_PADS, _TRANSPOSED = r"\bpad(s|ding|_|\b)", r"transpos"
_EXCHANGED = r"\b%s\b.*(order|exchang|swap|revers)|(order|exchang|swap|revers).*\b%s\b"
_INPUTS = _EXCHANGED % (("(inputs?|operands?)",) * 2)
_OUTPUTS = _EXCHANGED % (("outputs?",) * 2)
_GATE = r"gate"
_COORDINATES = "coordinate_transformation_mode"

EXCHANGES: List[Exchange] = []
"""All; each is independent of the others."""


def _add(frame: str, *entries: Tuple[Any, ...]) -> None:
    EXCHANGES.extend(Exchange(entry[0], frame, *entry[1:]) for entry in entries)


def _last(*at: int) -> Callable[[Array], Array]:
    return lambda array: np.flip(array, at)


_add(
    "image",
    (
        "conv-pads",
        _STRIDED,
        given(pads=[1, 1, 0, 0]),
        _PADS,
        has("pads?", "[1, 1, 0, 0]"),
        ("shift",),
    ),
    (
        "conv-same",
        nets.convolution(strides=[2, 2], auto_pad="SAME_UPPER"),
        given(auto_pad="SAME_LOWER"),
        _PADS,
        "SAME_LOWER|" + has("pads?", "[1, 1, 0, 0]"),
        ("shift",),
    ),
    (
        "conv-dilation",
        nets.convolution(pads=[2, 2, 2, 2], dilations=[2, 2]),
        given(pads=[1, 1, 1, 1], dilations=[1, 1]),
        "dilation",
        has("dilations?", "[1, 1]"),
    ),
    (
        "conv-first-position",
        nets.convolution(1, strides=[2, 2]),
        chain(_shifted),
        "stride|first position",
        "",
        ("shift",),
    ),
    ("conv-flipped", _CONV, constant(1, _last(2, 3)), "flip"),
    ("conv-weights-transposed", _CONV, constant(1, lambda w: w.swapaxes(0, 1)), _TRANSPOSED),
    (
        "conv-kernel-transposed",
        _CONV,
        constant(1, lambda w: w.swapaxes(2, 3)),
        _TRANSPOSED + "|axes of the window exchanged",
    ),
    ("conv-bias-missing", _CONV, order(0, 1), "bias", "", ("bias",)),
    ("conv-bias-sibling", _CONV, of_sibling(2), "bias.*sibling|sibling.*bias", "", ("bias",)),
    (
        "conv-weights-sibling",
        _CONV,
        of_sibling(1),
        "(weight|filter).*sibling|sibling.*(weight|filter)",
    ),
    (
        "conv-group-order",
        _GROUPED,
        chain(lambda c: _permuted_output(c, [0, 4, 1, 5, 2, 6, 3, 7])),
        "group|channel",
        "",
        ("layout",),
    ),
    ("conv-channels-last", _CONV, chain(_channels_last), "NHWC|channels? last"),
    ("conv-int8", _CONV, constant(1, _int8), "int8|8[- ]bit"),
    ("conv-half-inside", _CONV, chain(_half_inside), "float16|half", "", ("rounding",)),
    (
        "deconv-pads",
        _DECONV,
        given(pads=[1, 1, 0, 0]),
        _PADS,
        has("pads?", "[1, 1, 0, 0]"),
        ("shift",),
    ),
    ("deconv-flipped", _DECONV, constant(1, _last(2, 3)), "flip"),
    ("deconv-transposed", _DECONV, constant(1, lambda w: w.swapaxes(0, 1)), _TRANSPOSED),
    ("deconv-bias-missing", _DECONV, order(0, 1), "bias", "", ("bias",)),
    ("where-order", nets.where, order(0, 2, 1), _INPUTS),
    (
        "concat-order",
        nets.two("Concat", nets.conv(), nets.conv(8, 1), axis=1),
        order(1, 0),
        _INPUTS,
        "",
        ("layout",),
    ),
    (
        "prelu-axis",
        nets.behind(nets.conv(), nets.core("PRelu", nets.normal(8, 1, 1, scale=0.4))),
        chain(_along_width),
        "axis|slope",
    ),
    (
        "prelu-none",
        nets.behind(nets.conv(), nets.core("PRelu", nets.normal(8, 1, 1, scale=0.4))),
        other("Identity"),
        "slope|alpha|without|Identity",
        "",
        ("activation",),
    ),
    (
        "transpose-perm",
        nets.core("Transpose", perm=[0, 2, 1, 3]),
        given(perm=[0, 1, 3, 2]),
        "perm|order of the axes",
        has("perm", "[0, 1, 3, 2]"),
        ("layout",),
    ),
    (
        "transpose-inverse",
        nets.core("Transpose", perm=[0, 2, 3, 1]),
        given(perm=[0, 3, 1, 2]),
        "perm|order of the axes",
        has("perm", "[0, 3, 1, 2]"),
        ("layout",),
    ),
    (
        "depth-to-space-crd",
        nets.core("DepthToSpace", blocksize=2, mode="DCR"),
        given(mode="CRD"),
        "mode|CRD",
        "CRD",
        ("layout",),
    ),
    (
        "depth-to-space-dcr",
        nets.core("DepthToSpace", blocksize=2, mode="CRD"),
        given(mode="DCR"),
        "mode|DCR",
        "DCR",
        ("layout",),
    ),
    (
        "space-to-depth-order",
        nets.core("SpaceToDepth", blocksize=2),
        chain(_space_to_depth),
        "mode|CRD|channel",
        "CRD|channel",
        ("layout",),
    ),
    (
        "slice-axes",
        nets.core("Slice", *[nets.const(entry, np.int64) for entry in ([1, 3], [5, 7], [2, 3])]),
        chain(lambda c: c.again(*c.x[:3], c.const([3, 2], np.int64))),
        "axes|axis|start|begin",
        "",
        ("shift",),
    ),
    (
        "slice-start",
        nets.core("Slice", *[nets.const(entry, np.int64) for entry in ([1], [7], [2])]),
        chain(lambda c: c.again(c.x[0], c.const([2], np.int64), c.const([8], np.int64), c.x[3])),
        "start|begin",
        "",
        ("shift",),
    ),
    ("argmax-axis", nets.core("ArgMax", axis=2, keepdims=0), given(axis=3), "axis", has("axis", 3)),
    (
        "bn-epsilon",
        nets.batch_norm(2.0**-6),
        given(epsilon=1e-3),
        "epsilon",
        has("epsilon", "0.001") + "|" + has("epsilon", "1e-03") + "|" + has("epsilon", "1e-3"),
        ("scale",),
    ),
    (
        "bn-no-epsilon",
        nets.batch_norm(2.0**-8),
        given(epsilon=0.0),
        "epsilon",
        has("epsilon", 0),
        ("scale",),
    ),
    (
        "bn-deviation",
        nets.batch_norm(),
        constant(4, np.square),
        "varianc|deviation",
        "",
        ("scale",),
    ),
    ("bn-batch-statistics", nets.batch_norm(), chain(_batch_statistics), "batch|training"),
    ("bn-no-mean", nets.batch_norm(), constant(3, np.zeros_like), "mean", "", ("bias",)),
    ("instance-epsilon", _IN, given(epsilon=1e-3), "epsilon", "1e-0?3|0\\.001", ("scale",)),
    ("lrn-alpha", _LRN, given(alpha=0.9), "alpha", "0\\.9|size"),
    ("lrn-beta", _LRN, given(beta=0.5), "beta", has("beta", 0.5)),
    (
        "avgpool-exclude",
        nets.core("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        given(count_include_pad=0),
        "count_include_pad|exclusive|divisor",
        has("count_include_pad", 0),
        ("scale",),
    ),
    (
        "avgpool-include",
        _POOL,
        given(count_include_pad=1),
        "count_include_pad|exclusive|divisor",
        has("count_include_pad", 1),
        ("scale",),
    ),
    ("avgpool-max", _POOL, other("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), r"\bmax"),
    (
        "avgpool-ceil",
        nets.core("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        chain(_counted_window),
        "ceil|divisor|last window|count_include_pad",
        "",
        ("scale",),
    ),
    (
        "avgpool-pads",
        nets.core("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
        given(pads=[1, 1, 0, 0]),
        _PADS,
        has("pads?", "[1, 1, 0, 0]"),
        ("shift",),
    ),
    (
        "maxpool-average",
        nets.core("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
        other("AveragePool", kernel_shape=[2, 2], strides=[2, 2]),
        "average|mean",
    ),
    (
        "maxpool-pads",
        _MAX_POOL,
        given(pads=[1, 1, 0, 0]),
        _PADS,
        has("pads?", "[1, 1, 0, 0]"),
        ("shift",),
    ),
    (
        "maxpool-dilation",
        nets.core("MaxPool", kernel_shape=[3, 3], pads=[2, 2, 2, 2], dilations=[2, 2]),
        given(pads=[1] * 4, dilations=[1, 1]),
        "dilation",
        has("dilations?", "[1, 1]"),
    ),
    (
        "maxpool-zero-pad",
        nets.behind(
            nets.scaled(-1.0),
            nets.behind(
                nets.positive,
                nets.behind(
                    nets.scaled(-1.0), nets.core("MaxPool", kernel_shape=[3, 3], pads=[1] * 4)
                ),
            ),
        ),
        chain(_zero_padded),
        _PADS,
        "",
    ),
    (
        "lppool-p",
        nets.core("LpPool", kernel_shape=[2, 2], strides=[2, 2], p=2),
        given(p=1),
        r"\bp\b",
        has(r"\bp\b", 1),
    ),
    (
        "globalpool-max",
        nets.core("GlobalAveragePool"),
        other("GlobalMaxPool"),
        r"\bmax|GlobalMaxPool",
    ),
    (
        "resize-nearest",
        nets.resize(
            "nearest", 1.5, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        ),
        given(nearest_mode="ceil"),
        "nearest_mode",
        "ceil",
        ("shift",),
    ),
    (
        "resize-round",
        nets.resize("nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        given(nearest_mode="round_prefer_ceil"),
        "nearest_mode",
        "round_prefer_ceil|ceil",
        ("shift",),
    ),
    (
        "resize-asymmetric",
        nets.resize("linear", coordinate_transformation_mode="half_pixel"),
        given(coordinate_transformation_mode="asymmetric"),
        _COORDINATES,
        "asymmetric",
        ("shift",),
    ),
    (
        "resize-half-pixel",
        nets.resize("linear", coordinate_transformation_mode="asymmetric"),
        given(coordinate_transformation_mode="half_pixel"),
        _COORDINATES,
        "half_pixel",
        ("shift",),
    ),
    (
        "resize-corners",
        nets.resize("linear", coordinate_transformation_mode="half_pixel"),
        given(coordinate_transformation_mode="align_corners"),
        _COORDINATES,
        "align_corners",
    ),
    (
        "resize-nearest-coordinates",
        nets.resize(
            "nearest",
            1.5,
            coordinate_transformation_mode="half_pixel",
            nearest_mode="round_prefer_floor",
        ),
        given(coordinate_transformation_mode="asymmetric"),
        _COORDINATES + "|nearest_mode",
        "asymmetric|round_prefer_ceil",
        ("shift",),
    ),
    (
        "resize-linear",
        nets.resize("nearest", nearest_mode="floor"),
        given(drop=["nearest_mode"], mode="linear"),
        "mode",
        "linear",
    ),
    ("resize-to-nearest", nets.resize("linear"), given(mode="nearest"), "mode", "nearest"),
    ("resize-cubic-a", nets.resize("cubic"), given(cubic_coeff_a=-0.5), "cubic_coeff_a", r"-0\.5"),
    (
        "resize-exclude",
        nets.resize("cubic"),
        given(exclude_outside=1),
        "exclude_outside",
        has("exclude_outside", 1),
    ),
    ("resize-cubic-linear", nets.resize("cubic"), given(mode="linear"), "mode", "linear"),
    ("gridsample-nearest", nets.grid_sample, given(mode="nearest"), "mode", "nearest"),
    (
        "gridsample-corners",
        nets.grid_sample,
        given(align_corners=1),
        "align_corners",
        has("align_corners", 1),
    ),
    ("gridsample-border", nets.grid_sample, given(padding_mode="border"), "padding_mode", "border"),
    (
        "roialign-half",
        nets.roi_align(sampling_ratio=2),
        given(coordinate_transformation_mode="output_half_pixel"),
        _COORDINATES,
        "output_half_pixel",
    ),
    (
        "roialign-sampling",
        nets.roi_align(sampling_ratio=2),
        given(sampling_ratio=1),
        "sampling_ratio",
        has("sampling_ratio", 1),
    ),
    ("roialign-max", nets.roi_align(sampling_ratio=2), given(mode="max"), "mode", r"\bmax\b"),
    ("pad-mode", nets.core("Pad", _PAD, mode="reflect"), given(mode="edge"), "mode", "edge"),
    (
        "pad-constant",
        nets.core("Pad", _PAD, mode="edge"),
        given(mode="constant"),
        "mode",
        "constant",
    ),
    ("pad-value", nets.core("Pad", _PAD, nets.const(-1.0)), order(0, 1), "value", has("value", 0)),
    (
        "pad-begin-end",
        nets.core("Pad", _PAD, mode="edge"),
        chain(lambda c: c.again(c.x[0], c.const([0, 0, 2, 1, 0, 0, 1, 2], np.int64))),
        _PADS,
        r"\[0, 0, 2, 1, 0, 0, 1, 2\]|\[2, 1, 1, 2\]|begin|end",
        ("shift",),
    ),
    (
        "quantise-sibling",
        nets.quantised,
        of_sibling(1),
        "scale.*sibling|sibling.*scale",
        "",
        ("scale",),
    ),
    (
        "quantise-zero",
        nets.quantised,
        constant(2, lambda zero: zero + 1),
        "zero[ _]?point",
        has("zero[ _]?point", 4) + "|one more",
        ("bias",),
    ),
    (
        "quantise-zero-sibling",
        nets.quantised,
        of_sibling(2),
        "zero[ _]?point.*sibling|sibling.*zero[ _]?point",
        "",
        ("bias",),
    ),
    ("dequantise-tensor", nets.dequantised, chain(_per_tensor), "axis|per[ -]tensor|channel"),
    ("dequantise-zero", nets.dequantised, chain(_no_zero_point), "zero[ _]?point", "", ("bias",)),
    ("dequantise-axis", nets.dequantised, given(axis=2), "axis", has("axis", 2)),
    ("sibling-output", nets.beside_sibling, _value_of("sibling"), "sibling", "sibling"),
    (
        "earlier-output",
        nets.beside_sibling,
        _value_of("leakyrelu_2"),
        "leakyrelu_2",
        "",
        ("did-nothing",),
    ),
    (
        "first-sample",
        nets.conv_core,
        spoilt(lambda scene, out: np.repeat(out[:1], len(out), 0)),
        "first (sample|one)|sample.*repeat|batch",
        "",
        ("one-slice",),
    ),
    (
        "tail-zero",
        nets.conv_core,
        _part(0.8, _zeros),
        "(not written|tail|from element|last)",
        "819",
        ("one-slice",),
    ),
    (
        "tail-small",
        nets.conv_core,
        _part(0.99, _zeros),
        "(not written|tail|from element|last)",
        "1013",
        ("one-slice",),
    ),
    (
        "head-zero",
        nets.conv_core,
        _part(-0.1, _zeros),
        "(not written|head|first|up to)",
        "102",
        ("one-slice",),
    ),
    (
        "half-earlier",
        nets.conv_core,
        _part(0.5, _read),
        "(half|from element|not written|earlier)",
        "512",
        ("one-slice",),
    ),
    ("step-before", nets.conv_core, _step_before, "step|other input|earlier", "", ("stale-dump",)),
    (
        "add-input-missing",
        nets.beside_sibling,
        other("Identity", 0),
        "input|did nothing|operand",
        "",
        ("did-nothing",),
    ),
)
_add(
    "tokens",
    ("matmul-transposed", _MATMUL, constant(1, np.transpose), _TRANSPOSED),
    ("matmul-sibling", _MATMUL, of_sibling(1), "sibling"),
    (
        "scores-transposed",
        nets.attention_scores,
        chain(lambda c: c.again(c.x[0], c.kind("Transpose", c.x[1], perm=[0, 2, 1]))),
        _TRANSPOSED,
    ),
    ("scores-order", nets.attention_scores, order(1, 0), _INPUTS),
    (
        "scores-first-transposed",
        nets.attention_scores,
        chain(lambda c: c.again(c.kind("Transpose", c.x[0], perm=[0, 2, 1]), c.x[1])),
        _TRANSPOSED,
    ),
    (
        "scores-output-transposed",
        nets.attention_scores,
        chain(lambda c: c.kind("Transpose", c.again(), perm=[0, 2, 1])),
        _TRANSPOSED,
        "",
        ("layout",),
    ),
    ("gemm-transb", nets.gemm(transB=1), given(transB=0), "transB", has("transB", 0)),
    ("gemm-transa", nets.gemm(), given(transA=1), "transA", has("transA", 1)),
    ("gemm-alpha", nets.gemm(alpha=0.5), given(alpha=1.0), "alpha", has("alpha", 1), ("scale",)),
    ("gemm-beta", nets.gemm(beta=0.5), given(beta=1.0), "beta", has("beta", 1), ("bias",)),
    ("gemm-bias-missing", nets.gemm(), order(0, 1), "bias|without C|beta", "", ("bias",)),
    (
        "einsum-order",
        nets.two("Einsum", nets.dense(), nets.dense(), equation="bij,bjk->bik"),
        given(equation="bij,bkj->bik"),
        "equation|transpos",
        "bij,bkj->bik|transpos",
    ),
    (
        "sub-order",
        nets.two("Sub", nets.dense(), nets.positive),
        order(1, 0),
        _INPUTS,
        "",
        ("scale",),
    ),
    ("div-order", nets.two("Div", nets.positive, nets.positive), order(1, 0), _INPUTS),
    ("pow-order", nets.two("Pow", nets.positive, nets.positive), order(1, 0), _INPUTS),
    (
        "mod-sign",
        nets.behind(nets.whole, nets.core("Mod", nets.const(5, np.int32), fmod=0)),
        given(fmod=1),
        "fmod|sign",
        has("fmod", 1) + "|sign",
    ),
    ("max-min", nets.two("Max", nets.dense(), nets.dense()), other("Min", 0, 1), r"\bmin"),
    ("split-order", nets.split, after(lambda scene, outs: outs[::-1]), _OUTPUTS),
    (
        "topk-least",
        nets.topk(axis=-1),
        given(largest=0),
        "largest|least|smallest",
        has("largest", 0) + "|least|smallest",
    ),
    ("topk-unsorted", nets.topk(axis=-1), _unsorted, "sorted", "", ("layout",)),
    (
        "topk-reversed",
        nets.topk(axis=-1),
        after(lambda scene, outs: [np.flip(out, -1) for out in outs]),
        "sorted|order|revers",
        "",
        ("layout",),
    ),
    ("lstm-outputs", _LSTM, after(lambda scene, outs: [outs[0], outs[2], outs[1]]), _OUTPUTS),
    ("lstm-gates", _LSTM, _gates(0, 2, 1, 3), _GATE),
    ("lstm-gates-ifco", _LSTM, _gates(0, 2, 3, 1), _GATE),
    ("lstm-direction", _LSTM, given(direction="reverse"), "direction|revers", "reverse"),
    ("lstm-no-state", _LSTM, order(0, 1, 2, 3), "initial|first state|state"),
    (
        "lstm-activation",
        _LSTM,
        given(activations=["Sigmoid", "Relu", "Tanh"]),
        "activation",
        "Relu",
    ),
    ("gru-gates", _GRU, _gates(1, 0, 2), _GATE),
    (
        "gru-linear",
        _GRU,
        given(linear_before_reset=0),
        "linear_before_reset",
        has("linear_before_reset", 0),
    ),
    (
        "gru-linear-on",
        nets.recurrent("GRU", 3),
        given(linear_before_reset=1),
        "linear_before_reset",
        has("linear_before_reset", 1),
    ),
    ("gru-no-state", _GRU, order(0, 1, 2, 3), "initial|first state|state"),
    (
        "gru-directions",
        _BOTH,
        after(lambda scene, outs: [np.flip(out, -3) for out in outs]),
        "direction",
        "",
        ("layout",),
    ),
    ("rnn-activation", _RNN, given(activations=["Relu"]), "activation|Relu", "Relu"),
    ("rnn-direction", _RNN, given(direction="reverse"), "direction|revers", "reverse"),
    (
        "tile-order",
        nets.core("Tile", nets.const([1, 2, 1], np.int64)),
        chain(_each_twice),
        "order|each element|repeat|interleav",
        "",
        ("layout",),
    ),
    ("gather-axis", nets.gather("Gather", axis=0), given(axis=1), "axis", has("axis", 1)),
    (
        "gather-elements-axis",
        nets.gather("GatherElements", axis=0),
        given(axis=1),
        "axis",
        has("axis", 1),
    ),
    ("scatter-axis", nets.scatter(axis=0), given(axis=1), "axis", has("axis", 1)),
    ("scatter-reduction", nets.scatter_nd, given(reduction="none"), "reduction", "none"),
    ("scatter-reduction-max", nets.scatter_nd, given(reduction="max"), "reduction", "max"),
    (
        "reverse-sequence",
        nets.reverse_sequence,
        given(batch_axis=1, time_axis=0),
        "batch_axis|time_axis",
        has("time_axis", 0) + "|" + has("batch_axis", 1),
    ),
    (
        "trilu-upper",
        nets.core("Trilu", upper=1),
        given(upper=0),
        "upper|lower",
        has("upper", 0) + "|lower",
    ),
    (
        "trilu-k",
        nets.core("Trilu", nets.const(1, np.int64)),
        chain(lambda c: c.again(c.x[0])),
        r"\bk\b|diagonal",
        has(r"\bk\b|diagonal", 0),
    ),
    (
        "cumsum-axis",
        nets.core("CumSum", nets.const(1, np.int64)),
        chain(lambda c: c.again(c.x[0], c.const(2, np.int64))),
        "axis",
        has("axis", 2),
    ),
    (
        "cumsum-exclusive",
        nets.core("CumSum", nets.const(1, np.int64)),
        given(exclusive=1),
        "exclusive",
        has("exclusive", 1),
        ("shift",),
    ),
    (
        "cumsum-reverse",
        nets.core("CumSum", nets.const(1, np.int64)),
        given(reverse=1),
        "reverse",
        has("reverse", 1),
    ),
    (
        "reduce-axis",
        nets.core("ReduceMean", nets.const([1], np.int64), keepdims=0),
        chain(lambda c: c.again(c.x[0], c.const([2], np.int64))),
        "axis|axes",
        has("axis|axes", 2) + "|" + has("axis|axes", "[2]"),
    ),
    (
        "reduce-sum",
        nets.core("ReduceMean", nets.const([1], np.int64), keepdims=0),
        other("ReduceSum", 0, 1, keepdims=0),
        r"\bsum|ReduceSum",
        "",
        ("scale",),
    ),
    (
        "reduce-mean",
        nets.core("ReduceSum", nets.const([2], np.int64), keepdims=0),
        other("ReduceMean", 0, 1, keepdims=0),
        "mean",
        "",
        ("scale",),
    ),
    (
        "reduce-l2",
        nets.core("ReduceL2", nets.const([2], np.int64), keepdims=0),
        other("ReduceSumSquare", 0, 1, keepdims=0),
        "square|root",
    ),
    (
        "reduce-max-min",
        nets.core("ReduceMax", nets.const([2], np.int64), keepdims=0),
        other("ReduceMin", 0, 1, keepdims=0),
        r"\bmin|ReduceMin",
    ),
    (
        "argmax-ties",
        nets.tied("ArgMax", axis=-1),
        given(select_last_index=1),
        "select_last_index|last",
        has("select_last_index", 1) + "|last",
    ),
    (
        "argmax-min",
        nets.tied("ArgMax", axis=-1),
        other("ArgMin", axis=-1, keepdims=0),
        r"\bmin|ArgMin",
    ),
    (
        "softmax-axis",
        nets.behind(nets.dense(), nets.core("Softmax", axis=-1)),
        given(axis=1),
        "axis",
        has("axis", 1),
    ),
    (
        "softmax-first-axis",
        nets.behind(nets.dense(), nets.core("Softmax", axis=1)),
        given(axis=2),
        "axis",
        has("axis", 2) + "|" + has("axis", -1),
    ),
    (
        "softmax-flat",
        nets.behind(nets.dense(), nets.core("Softmax", axis=-1)),
        chain(
            lambda c: c.kind(
                "Reshape",
                c.kind("Softmax", c.kind("Reshape", c.x[0], c.const([2, 256], np.int64)), axis=-1),
                c.const([2, 16, 16], np.int64),
            )
        ),
        "axis|axes",
        "",
    ),
    (
        "softmax-log",
        nets.behind(nets.dense(), nets.core("Softmax", axis=-1)),
        other("LogSoftmax", axis=-1),
        r"\blog|LogSoftmax",
    ),
    (
        "logsoftmax-axis",
        nets.behind(nets.dense(), nets.core("LogSoftmax", axis=-1)),
        given(axis=1),
        "axis",
        has("axis", 1),
    ),
    (
        "logsoftmax-softmax",
        nets.behind(nets.dense(), nets.core("LogSoftmax", axis=-1)),
        other("Softmax", axis=-1),
        "Softmax|log",
    ),
    (
        "mask-missing",
        nets.masked,
        other("Identity", 0),
        "input|did nothing|mask",
        "",
        ("did-nothing",),
    ),
    ("ln-epsilon", _SMALL_LN, given(epsilon=1e-3), "epsilon", "0\\.001|1e-0?3", ("scale",)),
    ("ln-small-epsilon", _SMALL_LN, given(epsilon=1e-12), "epsilon", "1e-12", ("scale",)),
    ("ln-axis", _LN, _layer_norm("axis"), "axis", has("axis", 1)),
    ("ln-unbiased", _LN, _layer_norm("unbiased"), "unbiased|N *- *1", "", ("scale",)),
    ("ln-variance", _LN, _layer_norm("variance"), "varianc|root"),
    ("ln-offset-missing", _LN, order(0, 1), "bias|offset|beta|input", "", ("bias",)),
    (
        "ln-gain-missing",
        _LN,
        chain(lambda c: c.again(c.x[0], c.const(np.ones(16)), c.x[2])),
        "gain|scale|gamma",
        "",
        ("scale",),
    ),
    (
        "lpnorm-axis",
        nets.core("LpNormalization", axis=-1, p=2),
        given(axis=1),
        "axis",
        has("axis", 1),
    ),
    (
        "lpnorm-p",
        nets.core("LpNormalization", axis=-1, p=2),
        given(p=1),
        r"\bp\b",
        has(r"\bp\b", 1),
    ),
    ("sigmoid-hard", _curve("Sigmoid"), other("HardSigmoid"), "HardSigmoid", "0\\.2"),
    (
        "sigmoid-hard-sixth",
        _curve("Sigmoid"),
        other("HardSigmoid", alpha=1.0 / 6),
        "HardSigmoid",
        "0\\.16|1/6",
    ),
    ("sigmoid-tanh", _curve("Sigmoid"), other("Tanh"), "Tanh"),
    ("tanh-sigmoid", _curve("Tanh"), other("Sigmoid"), "Sigmoid"),
    (
        "hardsigmoid-alpha",
        _curve("HardSigmoid", alpha=0.2, beta=0.5),
        given(alpha=1.0 / 6),
        "alpha",
        "0\\.16|1/6",
    ),
    (
        "hardsigmoid-sixth",
        _curve("HardSigmoid", alpha=1.0 / 6, beta=0.5),
        given(alpha=0.2),
        "alpha",
        has("alpha", 0.2),
    ),
    (
        "gelu-tanh",
        nets.behind(nets.below, nets.core("Gelu")),
        given(approximate="tanh"),
        "approximate|tanh",
        "tanh",
    ),
    ("gelu-quick", _curve("Gelu"), chain(_quick_gelu), r"1\.702|quick", ""),
    ("gelu-relu", _curve("Gelu"), other("Relu"), "Relu"),
    ("relu-leaky", _curve("Relu"), other("LeakyRelu", alpha=0.1), "LeakyRelu|slope|alpha", "0\\.1"),
    (
        "relu-none",
        _curve("Relu"),
        other("Identity"),
        "without|no activation|Identity|did nothing",
        "",
        ("activation", "did-nothing"),
    ),
    (
        "relu-six",
        nets.behind(nets.scaled(4.0), _curve("Relu")),
        chain(lambda c: c.kind("Clip", c.x[0], c.const(0.0), c.const(6.0))),
        "Relu6|clip|6",
        "6",
        ("saturation",),
    ),
    (
        "leaky-alpha",
        _curve("LeakyRelu", alpha=0.1),
        given(alpha=0.01),
        "alpha|slope",
        has("alpha|slope", 0.01),
    ),
    (
        "leaky-relu",
        _curve("LeakyRelu", alpha=0.1),
        other("Relu"),
        "(?<!y)Relu|alpha|slope",
        "",
        ("activation",),
    ),
    ("elu-alpha", _curve("Elu", alpha=0.5), given(alpha=1.0), "alpha", has("alpha", 1)),
    ("celu-alpha", _curve("Celu", alpha=0.5), given(alpha=1.0), "alpha", has("alpha", 1)),
    ("selu-elu", _curve("Selu"), other("Elu"), r"(?<!S)Elu|alpha"),
    ("thresholded", _curve("ThresholdedRelu", alpha=0.5), other("Relu"), "alpha|Relu"),
    (
        "clip-bounds",
        _curve("Clip", nets.const(0.0), nets.const(6.0)),
        chain(lambda c: c.again(c.x[0], c.x[1], c.const(1.0))),
        "max|bound",
        has("max|bound", 1),
        ("saturation",),
    ),
    (
        "clip-relu",
        _curve("Clip", nets.const(0.0), nets.const(1.0)),
        other("Relu"),
        "Relu|max|bound",
    ),
    ("hardswish-swish", _curve("HardSwish"), chain(_swish), r"(?<!Hard)(Swish|SiLU)"),
    ("hardswish-relu", _curve("HardSwish"), other("Relu"), "Relu"),
    ("mish-swish", _curve("Mish"), chain(_swish), "Swish|SiLU"),
    ("softplus-relu", _curve("Softplus"), other("Relu"), "Relu"),
    ("softsign-tanh", _curve("Softsign"), other("Tanh"), "Tanh"),
    ("round-floor", nets.behind(nets.scaled(3.0), nets.core("Round")), other("Floor"), "floor"),
    (
        "round-away",
        nets.behind(nets.halves, nets.core("Round")),
        chain(_half_first),
        "away|half|even",
    ),
    (
        "floor-truncated",
        nets.behind(nets.scaled(3.0), nets.core("Floor")),
        chain(lambda c: c.kind("Cast", c.kind("Cast", c.x[0], to=_INT32), to=_FLOAT)),
        "trunc|toward",
    ),
    ("ceil-round", nets.behind(nets.scaled(3.0), nets.core("Ceil")), other("Round"), "round"),
    (
        "cast-rounded",
        nets.behind(nets.scaled(5.0), nets.core("Cast", to=_INT32)),
        chain(lambda c: c.kind("Cast", c.kind("Round", c.x[0]), to=_INT32)),
        "round",
    ),
    (
        "cast-floor",
        nets.behind(nets.scaled(5.0), nets.core("Cast", to=_INT32)),
        chain(lambda c: c.kind("Cast", c.kind("Floor", c.x[0]), to=_INT32)),
        "floor",
    ),
    ("onehot-axis", nets.one_hot, given(axis=0), "axis", has("axis", 0)),
)


def _interleaved(scene: Scene, outs: List[Array]) -> List[Array]:
    """One index for each output of a Split in turn."""
    whole = np.concatenate(outs, -1)
    return [np.ascontiguousarray(whole[..., at :: len(outs)]) for at in range(len(outs))]


def _each_transposed(weights: Array) -> Array:
    """The recurrent weights of each gate transposed."""
    size = weights.shape[2]
    parts = weights.reshape(weights.shape[0], -1, size, size)
    return parts.swapaxes(2, 3).reshape(weights.shape)


def _one_scale(scene: Scene, out: Array) -> Array:
    """The output rounded to 8 bits with one scale."""
    step = np.abs(out).max() / 127
    return (np.rint(out / step) * step).astype(out.dtype)


_IN_PLACE = nets.core("InstanceNormalization", nets.normal(8, mean=1.0), nets.normal(8))
_SLICED = nets.core(
    "Slice",
    nets.const([1], np.int64),
    nets.const([15], np.int64),
    nets.const([2], np.int64),
    nets.const([2], np.int64),
)

_add(
    "tokens",
    ("celu-for-elu", _curve("Celu", alpha=0.5), other("Elu", alpha=0.5), r"(?<!C)\bElu\b"),
    ("atan-tanh", _curve("Atan"), other("Tanh"), "Tanh"),
    (
        "reciprocal-root",
        nets.behind(nets.positive, nets.core("Reciprocal")),
        chain(lambda c: c.kind("Reciprocal", c.kind("Sqrt", c.x[0]))),
        "Rsqrt|root",
    ),
    (
        "exp-less-one",
        nets.core("Exp"),
        chain(lambda c: c.kind("Sub", c.kind("Exp", c.x[0]), c.const(1.0))),
        "Expm1|minus 1",
    ),
    (
        "pow-exponent",
        nets.core("Pow", nets.const(2.0)),
        constant(1, lambda exponent: exponent + 1),
        "constant|exponent",
        "3",
    ),
    (
        "pow-no-whole-exponent",
        nets.behind(nets.positive, nets.core("Pow", nets.const(2.0))),
        constant(1, lambda exponent: exponent + 0.35),
        "constant|exponent",
        r"2\.35",
    ),
    (
        "softmax-factor",
        nets.behind(nets.dense(), nets.core("Softmax", axis=-1)),
        chain(lambda c: c.kind("Softmax", c.kind("Mul", c.x[0], c.const(0.3)), axis=-1)),
        "factor|scale",
        r"0\.3\b",
    ),
    (
        "hardmax-softmax",
        nets.core("Hardmax", axis=-1),
        other("Softmax", axis=-1),
        "Softmax",
    ),
    (
        "cumsum-exclusive-reverse",
        nets.core("CumSum", nets.const(1, np.int64)),
        given(exclusive=1, reverse=1),
        "exclusive and reverse",
        r"\[1, 1\]",
    ),
    (
        "slice-first-places",
        _SLICED,
        chain(lambda c: c.again(c.x[0], c.const([0], np.int64), c.const([14], np.int64), *c.x[3:])),
        "start",
        "start 0",
    ),
    (
        "slice-without-step",
        _SLICED,
        chain(
            lambda c: c.again(
                c.x[0], c.x[1], c.const([8], np.int64), c.x[3], c.const([1], np.int64)
            )
        ),
        "step",
        "step 1",
    ),
    (
        "gather-negative",
        nets.core("Gather", nets.const([3, -1, 5, -2], np.int64), axis=1),
        constant(1, lambda indices: np.maximum(indices, 0)),
        "negative",
    ),
    ("split-in-turn", nets.split, after(_interleaved), "in turn"),
    (
        "split-one-for-both",
        nets.split,
        after(lambda scene, outs: [outs[1], outs[1]]),
        r"what core \(output 1\) computed",
    ),
    (
        "recurrent-weights-transposed",
        _LSTM,
        constant(2, _each_transposed),
        "transposed",
    ),
    ("gemm-bias-reversed", nets.gemm(), constant(2, lambda bias: bias[::-1]), "bias", "revers"),
    ("ln-gain-rolled", _LN, constant(1, lambda gain: np.roll(gain, 1)), "scale", "roll"),
    (
        "lpnorm-largest",
        nets.core("LpNormalization", axis=-1, p=2),
        chain(
            lambda c: c.kind(
                "Div",
                c.x[0],
                c.kind("ReduceMax", c.kind("Abs", c.x[0]), c.const([-1], np.int64)),
            )
        ),
        "infinity|largest",
    ),
    (
        "memory-further-on",
        nets.core("Tanh"),
        spoilt(lambda scene, out: np.roll(out.reshape(-1), 16).reshape(out.shape)),
        r"\+16 elements",
        "",
        ("shift",),
    ),
    (
        "eight-bits",
        nets.core("Tanh"),
        spoilt(_one_scale),
        "8.bit",
        "",
        ("rounding",),
    ),
)
_add(
    "image",
    (
        "gain-along-width",
        nets.core("Mul", nets.normal(8, 1, 1, mean=1.0)),
        constant(1, lambda gain: gain.reshape(1, 1, 8)),
        "along axis",
        "axis 3",
    ),
    (
        "depthwise-order",
        nets.core("Conv", nets.normal(8, 1, 3, 3, scale=0.3), pads=[1] * 4, group=8),
        constant(1, lambda filters: np.roll(filters, 1, 0)),
        "weights|filters",
        "roll",
    ),
    (
        "conv-bias-rolled",
        nets.convolution(pads=[1] * 4),
        constant(2, lambda bias: np.roll(bias, 1)),
        "bias",
        "roll",
    ),
    (
        "pad-other-shares",
        nets.core("Pad", nets.const([0, 0, 1, 2, 0, 0, 1, 0], np.int64)),
        constant(1, lambda pads: np.array([0, 0, 2, 1, 0, 0, 0, 1])),
        _PADS,
        r"\[0, 0, 2, 1, 0, 0, 0, 1\]",
    ),
    (
        "mvn-axes",
        nets.core("MeanVarianceNormalization", axes=[0, 2, 3]),
        given(axes=[1, 2, 3]),
        "axes",
        r"\[1, 2, 3\]",
    ),
    (
        "instance-over-channels",
        _IN_PLACE,
        chain(
            lambda c: c.kind(
                "Add",
                c.kind(
                    "Mul",
                    c.kind("MeanVarianceNormalization", c.x[0], axes=[1, 2, 3]),
                    c.kind("Reshape", c.x[1], c.const([8, 1, 1], np.int64)),
                ),
                c.kind("Reshape", c.x[2], c.const([8, 1, 1], np.int64)),
            )
        ),
        "groups|axes",
        r"\b1 groups|\[1, 2, 3\]",
    ),
    (
        "cubic-coefficient",
        nets.resize("cubic", cubic_coeff_a=-0.75),
        given(cubic_coeff_a=-0.4),
        "cubic_coeff_a",
        has("cubic_coeff_a", -0.4),
    ),
    (
        "grid-x-for-y",
        nets.grid_sample,
        constant(1, lambda grid: grid[..., ::-1]),
        "grid",
        "exchanged",
    ),
)


def _slice_of(starts: Sequence[int], ends: Sequence[int]) -> Maker:
    return chain(
        lambda c: c.again(c.x[0], c.const(starts, np.int64), c.const(ends, np.int64), *c.x[3:])
    )


def _blocks_by_columns(c: Chain) -> str:
    """A DepthToSpace whose blocks are taken by columns: the two axes of a block exchanged."""
    n, channels, height, width = c.shape(c.x[0])
    parts = c.const([n, 2, 2, channels // 4, height, width], np.int64)
    moved = c.kind("Transpose", c.kind("Reshape", c.x[0], parts), perm=[0, 3, 4, 2, 5, 1])
    return c.kind("Reshape", moved, c.const([n, channels // 4, 2 * height, 2 * width], np.int64))


def _transposed_before(c: Chain) -> str:
    return c.again(c.kind("Transpose", c.x[0], perm=[0, 2, 1]), *c.x[1:])


def _first_rows(c: Chain) -> str:
    """A mean over the last axis alone, of the first index of the other one that is left out."""
    rows = c.kind("Gather", c.x[0], c.const(0, np.int64), axis=2)
    return c.kind("ReduceMean", rows, c.const([2], np.int64), keepdims=0)


def _einsum(net: nets.Net, x: str) -> str:
    """Return an Einsum of three operands."""
    more = [net.normal(16, 16, scale=0.3), net.node("Sigmoid", net.dense(x, 16))]
    return net.core("Einsum", x, *more, equation="bik,kj,bjl->bil")


def _cropped(net: nets.Net, x: str) -> str:
    """Return a Resize of regions that reach beyond the image."""
    region = net.weight(np.array([0, 0, -0.2, 0.1, 1, 1, 1.1, 1.2], np.float32))
    scales, mode = net.weight([1, 1, 1.5, 1.5]), "tf_crop_and_resize"
    return net.core("Resize", x, region, scales, mode="linear", extrapolation_value=0.0,
                    coordinate_transformation_mode=mode)  # fmt: skip


def _groups(count: int) -> Maker:
    """Another number of groups; all have the same gain, and no offset."""
    return chain(
        lambda c: c.again(
            c.x[0], c.const(np.full(count, 1.5)), c.const(np.zeros(count)), num_groups=count
        )
    )


_GROUP_NORM = nets.core(
    "GroupNormalization", nets.const([1.5] * 4), nets.const([0.0] * 4), num_groups=4
)


_TWO_AXES = nets.core(
    "Slice", *[nets.const(entry, np.int64) for entry in ([1, 0], [13, 12], [1, 2])]
)
_CLIPPED = nets.recurrent("GRU", 3, clip=0.3)

_add(
    "tokens",
    (
        "einsum-three",
        _einsum,
        given(equation="bik,jk,bjl->bil"),
        "equation",
        "bik,jk,bjl->bil",
    ),
    ("einsum-three-operands", _einsum, order(2, 1, 0), _INPUTS + "|equation"),
    ("slice-two-starts", _TWO_AXES, _slice_of([2, 3], [14, 15]), "start", "start 2.*start 3"),
    (
        "transpose-before",
        nets.behind(nets.dense(), nets.core("Tile", nets.const([1, 1, 2], np.int64))),
        chain(_transposed_before),
        "axes .* exchanged|transpos",
    ),
    (
        "mod-divisor",
        nets.behind(nets.scaled(4.0), nets.core("Mod", nets.normal(16, mean=3.0), fmod=1)),
        constant(1, lambda divisor: np.full_like(divisor, divisor[0])),
        "divisor|constant|input 1",
        "first",
    ),
    (
        "mod-divisor-rolled",
        nets.behind(nets.scaled(4.0), nets.core("Mod", nets.normal(16, mean=3.0), fmod=1)),
        constant(1, lambda divisor: np.roll(divisor, 1)),
        "divisor|constant|input 1",
        "roll",
    ),
    ("gru-clip", _CLIPPED, given(drop=["clip"]), "clip", "none"),
    ("gru-clip-value", _CLIPPED, given(clip=0.45), "clip", r"0\.45"),
    (
        "rnn-clip",
        nets.recurrent("RNN", 1, clip=0.7),
        given(clip=0.25),
        "clip",
        r"0\.25",
    ),
    ("logsoftmax-for-softmax", nets.core("Softmax", axis=1), other("LogSoftmax", axis=1), "Log"),
    (
        "cumsum-exclusive-only",
        nets.core("CumSum", nets.const(1, np.int64), exclusive=1, reverse=1),
        given(exclusive=0, reverse=1),
        "exclusive",
        has("exclusive", 0),
        ("shift",),
    ),
)
_add(
    "image",
    (
        "resize-extrapolation",
        _cropped,
        given(extrapolation_value=-0.5),
        "extrapolation_value",
        r"-0\.5",
    ),
    (
        "quantise-scale-zero",
        nets.quantised,
        constant(1, lambda scale: np.zeros_like(scale)),
        "scale",
        r"\b0\b",
        ("not-written",),
    ),
    (
        "roialign-scale",
        nets.roi_align(sampling_ratio=2, spatial_scale=0.5),
        given(spatial_scale=0.4),
        "spatial_scale",
        r"0\.4",
    ),
    (
        "reduce-one-axis",
        nets.core("ReduceMean", nets.const([2, 3], np.int64), keepdims=0),
        chain(_first_rows),
        "its first index along axis 2",
    ),
    (
        "depth-to-space-columns",
        nets.core("DepthToSpace", blocksize=2, mode="DCR"),
        chain(_blocks_by_columns),
        "block",
        "",
        ("layout",),
    ),
    ("group-count", _GROUP_NORM, _groups(2), "num_groups|groups", r"\b2\b"),
    ("group-count-one", _GROUP_NORM, _groups(1), "num_groups|groups", r"\b1\b"),
    (
        "pad-any-value",
        nets.core("Pad", _PAD, nets.const(-1.0)),
        constant(2, lambda value: value + np.float32(1.37)),
        "value",
        r"0\.37",
    ),
    ("pad-wrap", nets.core("Pad", _PAD, mode="reflect"), given(mode="wrap"), "mode", "wrap"),
    ("gridsample-cubic", nets.grid_sample, given(mode="cubic"), "mode", "cubic"),
    (
        "gridsample-reflection",
        nets.grid_sample,
        given(padding_mode="reflection"),
        "padding_mode",
        "reflection",
    ),
)
