"""Faults to plant into one op of a run: in its constants, its attributes, its arithmetic or in what
it leaves in memory."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import onnx

from .device import Change, Device, Store, rounded
from .lowering import Op

Array = Any
Random = Any
Spoil = Callable[[Array], Optional[Array]]


class Scene(NamedTuple):
    """An op in a healthy run; ``out`` is a copy of its first output, in the shape that the json
    tells."""

    device: Device
    op: Op
    store: Store
    random: Random

    @property
    def out(self) -> Array:
        return self.store[self.op.name, 0].reshape(self.op.outputs[0].shape).copy()

    @property
    def node(self) -> Any:
        return self.op.nodes[0]


Maker = Callable[[Scene], Optional[Change]]


class Kind(NamedTuple):
    """One kind of fault.

    Attributes
    ----------
    maker
        Makes the fault in an op; None where the op cannot have it.
    explained
        The kinds of explanation that are right, with ``: PATTERN`` only where the sentence matches;
        empty where any may be.
    """

    maker: Maker
    explained: Tuple[str, ...]


def _spoiled(scene: Scene, spoil: Spoil) -> Optional[Change]:
    """Return the change that leaves a spoilt first output; None where spoiling is not possible."""
    made = spoil(scene.out)
    if made is None:
        return None
    wrong = made.astype(np.float32)
    return Change(after=lambda outs: [wrong.reshape(outs[0].shape), *outs[1:]])


def _after(change: Callable[[Array], Array]) -> Maker:
    return lambda scene: Change(after=lambda outs: [change(outs[0]).astype(np.float32), *outs[1:]])


def _scale(factor: float) -> Maker:
    return _after(lambda out: out * np.float32(factor))


def _weighted(scene: Scene, at: int) -> Optional[str]:
    """Return the name of an op's filters (1) or bias (2); None where it has none that are
    constants."""
    node = scene.node
    if node.op_type == "MatMul" and at == 2:
        other = next((entry for entry in scene.op.nodes[1:] if entry.op_type == "Add"), None)
        names = (
            [value for value in other.input if value in scene.device.constants(scene.op)]
            if other is not None
            else []
        )
        return names[0] if names else None
    if node.op_type not in ("Conv", "ConvTranspose", "MatMul", "Gemm") or len(node.input) <= at:
        return None
    return node.input[at] if node.input[at] in scene.device.constants(scene.op) else None


def _constant(at: int, change: Callable[[Array, Random, Scene], Optional[Array]]) -> Maker:
    def maker(scene: Scene) -> Optional[Change]:
        name = _weighted(scene, at)
        if name is None:
            return None
        wrong = change(scene.device.constants(scene.op)[name].copy(), scene.random, scene)
        return (
            None
            if wrong is None
            else Change(constants=lambda constants: dict(constants, **{name: wrong}))
        )

    return maker


def _one_bias(bias: Array, random: Random, scene: Scene) -> Array:
    bias.reshape(-1)[random.randint(bias.size)] = 0
    return bias


def _int8(values: Array) -> Array:
    step = float(np.abs(values).max()) / 127
    return (np.round(values / step) * step).astype(np.float32) if step else values


def _stale_filter(weights: Array, random: Random, scene: Scene) -> Optional[Array]:
    mine = weights if scene.node.op_type == "Conv" else np.moveaxis(weights, -1, 0)
    if len(mine) < 2:
        return None
    at = random.randint(len(mine))
    mine[at] = mine[(at + 1 + random.randint(len(mine) - 1)) % len(mine)]
    return weights


def _channel_axis(out: Array) -> int:
    return 1 if out.ndim == 4 else out.ndim - 1


def _channels(scene: Scene) -> Optional[Change]:
    def spoil(out: Array) -> Optional[Array]:
        axis = _channel_axis(out)
        if out.ndim < 2 or out.shape[axis] < 4:
            return None
        at = scene.random.randint(max(1, out.shape[axis] - 8))
        order = np.arange(out.shape[axis])
        order[at : at + 8] = order[at : at + 8][::-1]
        return out.take(order, axis)

    return _spoiled(scene, spoil)


def _transposed(scene: Scene) -> Optional[Change]:
    def spoil(out: Array) -> Optional[Array]:
        return (
            None
            if out.ndim < 2 or min(out.shape[-2:]) < 2
            else np.ascontiguousarray(out.swapaxes(-1, -2)).reshape(out.shape)
        )

    return _spoiled(scene, spoil)


def _place(scene: Scene, out: Array, what: str) -> Any:
    """Return the index of a part of an output: a channel, a row, the tail, a tile of 16 channels,
    one pixel of all channels."""
    random = scene.random
    axis = _channel_axis(out)
    index: List[Any] = [slice(None)] * out.ndim
    if what == "channel":
        index[axis] = random.randint(out.shape[axis])
    elif what == "row":
        index[-2] = random.randint(out.shape[-2])
    elif what == "tile":
        at = 16 * random.randint(-(-out.shape[axis] // 16))
        index[axis] = slice(at, at + 16)
    else:
        index[-1], index[-2] = random.randint(out.shape[-1]), random.randint(out.shape[-2])
    return tuple(index)


def _part(what: str, garbage: bool) -> Maker:
    def maker(scene: Scene) -> Optional[Change]:
        def spoil(out: Array) -> Optional[Array]:
            if out.ndim < 3 or out.size < 64:
                return None
            if what == "tile" and out.shape[_channel_axis(out)] < 48:
                return None
            if what == "tail":
                flat = out.reshape(-1)
                count = max(1, flat.size // (8 + scene.random.randint(40)))
                flat[-count:] = _junk(scene, out, (count,)) if garbage else 0
                return out
            index = _place(scene, out, what)
            if out[index].size == out.size:
                return None
            out[index] = _junk(scene, out, out[index].shape) if garbage else 0
            return out

        return _spoiled(scene, spoil)

    return maker


def _junk(scene: Scene, out: Array, shape: Tuple[int, ...]) -> Array:
    """Return values of about the size of an output's, unrelated to them."""
    return scene.random.normal(0, 2 * float(out.std()) + 1e-6, shape)


def _broadcast_row(scene: Scene) -> Optional[Change]:
    def spoil(out: Array) -> Optional[Array]:
        if out.ndim < 3 or out.shape[-2] < 2:
            return None
        out[...] = out[..., :1, :]
        return out

    return _spoiled(scene, spoil)


def _one_value(value: float) -> Maker:
    def maker(scene: Scene) -> Optional[Change]:
        def spoil(out: Array) -> Array:
            out.reshape(-1)[scene.random.randint(out.size)] = value
            return out

        return _spoiled(scene, spoil)

    return maker


def _overflow(scene: Scene) -> Optional[Change]:
    def spoil(out: Array) -> Array:
        top = (
            np.partition(np.abs(out).reshape(-1), -max(1, out.size // 500) - 1)[
                -max(1, out.size // 500) - 1
            ]
            if out.size > 1
            else 0
        )
        return np.where(np.abs(out) > top, np.sign(out) * np.inf, out)

    return _spoiled(scene, spoil)


def _saturated(scene: Scene) -> Optional[Change]:
    def spoil(out: Array) -> Optional[Array]:
        top = float(np.quantile(np.abs(out), 0.97))
        return np.clip(out, -top, top) if top else None

    return _spoiled(scene, spoil)


def _flushed(scene: Scene) -> Optional[Change]:
    def spoil(out: Array) -> Array:
        return np.where(
            np.abs(out) < 0.1 * float(np.sqrt((out.astype(np.float64) ** 2).mean())), 0, out
        )

    return _spoiled(scene, spoil)


def _did_nothing(scene: Scene) -> Optional[Change]:
    def spoil(out: Array) -> Optional[Array]:
        before = scene.store[scene.op.inputs[0].source].reshape(-1)
        if before.size < out.size or before.dtype != np.float32:
            return None
        return before[: out.size].reshape(out.shape)

    return _spoiled(scene, spoil) if scene.op.inputs else None


def _others_memory(scene: Scene) -> Optional[Change]:
    ops = [entry for entry in scene.device.lowered.ops if entry.nodes and entry is not scene.op]

    def spoil(out: Array) -> Optional[Array]:
        own = [scene.store[read.source] for read in scene.op.inputs]
        for at in scene.random.permutation(len(ops))[:60]:
            other = scene.store[ops[at].name, 0]
            if (
                other.dtype == np.float32
                and other.size >= out.size
                and not any(other is entry for entry in own)
            ):
                return other.reshape(-1)[: out.size].reshape(out.shape)
        return None

    return _spoiled(scene, spoil)


def _changed(node: Any, **attributes: Any) -> Any:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    for name, value in attributes.items():
        for index, entry in enumerate(made.attribute):
            if entry.name == name:
                del made.attribute[index]
                break
        made.attribute.append(onnx.helper.make_attribute(name, value))
    return made


def _first(scene: Scene, **attributes: Any) -> Change:
    wrong = _changed(scene.node, **attributes)
    return Change(nodes=lambda nodes: [wrong, *nodes[1:]])


def _pads(scene: Scene) -> Optional[Change]:
    pads = next((list(entry.ints) for entry in scene.node.attribute if entry.name == "pads"), [])
    if (
        scene.node.op_type not in ("Conv", "MaxPool", "AveragePool")
        or not pads
        or not pads[0]
        or len(pads) != 4
    ):
        return None
    return _first(scene, pads=[pads[0] - 1, pads[1], pads[2] + 1, pads[3]])


def _softmax_axis(scene: Scene) -> Optional[Change]:
    if scene.node.op_type != "Softmax" or scene.out.ndim < 2:
        return None
    axis = (
        next((entry.i for entry in scene.node.attribute if entry.name == "axis"), -1)
        % scene.out.ndim
    )
    return _first(scene, axis=axis - 1) if axis and scene.out.shape[axis - 1] > 1 else None


def _alpha(scene: Scene) -> Optional[Change]:
    if scene.node.op_type not in ("HardSigmoid", "LeakyRelu"):
        return None
    alpha = next(
        (entry.f for entry in scene.node.attribute if entry.name == "alpha"),
        0.2 if scene.node.op_type == "HardSigmoid" else 0.01,
    )
    return _first(scene, alpha=1 / 6.0 if abs(alpha - 1 / 6.0) > 1e-3 else 0.2)


def _epsilon(scene: Scene) -> Optional[Change]:
    if scene.op.type == "BatchNorm":
        return _first(scene, epsilon=1e-2)
    if scene.op.type != "LayerNorm":
        return None
    name = next(
        value for value in scene.op.nodes[4].input if value in scene.device.constants(scene.op)
    )
    variance = float(scene.device.raw(scene.op, scene.store)[0].std() > 0)
    return (
        Change(
            constants=lambda constants: dict(
                constants, **{name: np.full_like(constants[name], 1e-2)}
            )
        )
        if variance
        else None
    )


def _table(steps: int) -> Maker:
    """Make an activation that takes its values from a table: its input is rounded to so many steps
    from −8 to 8."""

    def maker(scene: Scene) -> Optional[Change]:
        if (
            scene.op.type not in ("Sigmoid", "Tanh", "Exp", "Gelu", "Swish", "Erf", "HardSwish")
            or len(scene.op.inputs) != 1
        ):
            return None
        store, source = dict(scene.store), scene.op.inputs[0].source
        before, step = store[source], np.float32(16.0 / steps)
        coarse = (np.round(before / step) * step).astype(np.float32)
        store[source] = np.where(np.abs(before) <= 8, coarse, before)
        wrong = scene.device.raw(scene.op, store)[0]
        return Change(after=lambda outs: [wrong, *outs[1:]])

    return maker


def _half_sums(scene: Scene) -> Optional[Change]:
    return (
        Change(half_sums=True)
        if scene.node.op_type in ("Conv", "MatMul") and not scene.device.habit.half_sums
        else None
    )


def _shift(scene: Scene) -> Optional[Change]:
    return _spoiled(
        scene, lambda out: np.roll(out, 1, -1) if out.ndim > 1 and out.shape[-1] > 3 else None
    )


def _random(scene: Scene) -> Optional[Change]:
    return _spoiled(scene, lambda out: scene.random.permutation(out.reshape(-1)).reshape(out.shape))


def _resize(scene: Scene) -> Optional[Change]:
    if scene.node.op_type != "Resize":
        return None
    mode = next(
        (entry.s.decode() for entry in scene.node.attribute if entry.name == "mode"), "nearest"
    )
    if mode != "nearest":
        return _first(
            scene, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )
    return _first(scene, mode="linear", coordinate_transformation_mode="half_pixel")


def _corners(scene: Scene) -> Optional[Change]:
    """Make a Resize by the other rule of coordinates."""
    if scene.node.op_type != "Resize":
        return None
    given = next(
        (
            entry.s.decode()
            for entry in scene.node.attribute
            if entry.name == "coordinate_transformation_mode"
        ),
        "half_pixel",
    )
    return _first(
        scene,
        coordinate_transformation_mode="align_corners"
        if given != "align_corners"
        else "half_pixel",
    )


def _floor_pool(scene: Scene) -> Optional[Change]:
    """Make a pooling whose last row and column of windows were left out, as one that rounds its
    size down does."""
    if scene.node.op_type not in ("MaxPool", "AveragePool"):
        return None

    def spoil(out: Array) -> Optional[Array]:
        if out.ndim != 4 or min(out.shape[2:]) < 3:
            return None
        out[:, :, -1], out[..., -1] = 0, 0
        return out

    return _spoiled(scene, spoil)


def _count_pad(scene: Scene) -> Optional[Change]:
    if scene.node.op_type != "AveragePool" or not any(
        entry.name == "pads" and any(entry.ints) for entry in scene.node.attribute
    ):
        return None
    given = next(
        (entry.i for entry in scene.node.attribute if entry.name == "count_include_pad"), 0
    )
    return _first(scene, count_include_pad=1 - given)


def _no_activation(scene: Scene) -> Optional[Change]:
    last = scene.op.nodes[-1]
    if len(scene.op.nodes) < 2 or last.op_type not in ("Relu", "LeakyRelu", "Clip"):
        return None
    name, out = last.input[0], last.output[0]
    renamed = onnx.helper.make_node("Identity", [name], [out])
    return Change(nodes=lambda nodes: [*nodes[:-1], renamed])


def _gelu_tanh(scene: Scene) -> Optional[Change]:
    if scene.op.type != "Gelu":
        return None
    x = scene.store[scene.op.inputs[0].source].astype(np.float64)
    wrong = (x / (1 + np.exp(-1.702 * x))).astype(np.float32)
    return Change(after=lambda outs: [wrong.reshape(outs[0].shape), *outs[1:]])


def _truncated(scene: Scene) -> Optional[Change]:
    bits = {"float16": 13, "bfloat16": 16}.get(scene.op.outputs[0].dtype)
    if bits is None:
        return None

    def cut(outs: List[Array]) -> List[Array]:
        kept = (
            np.ascontiguousarray(outs[0], np.float32).view(np.uint32)
            >> np.uint32(bits)
            << np.uint32(bits)
        )
        return [kept.view(np.float32).reshape(outs[0].shape), *outs[1:]]

    return Change(after=cut)


def _operands(scene: Scene) -> Optional[Change]:
    if scene.node.op_type not in ("Sub", "Div") or len(scene.op.nodes) > 1:
        return None
    made = onnx.NodeProto()
    made.CopyFrom(scene.node)
    made.input[0], made.input[1] = scene.node.input[1], scene.node.input[0]
    return Change(nodes=lambda nodes: [made])


def _argmax(scene: Scene) -> Optional[Change]:
    if scene.node.op_type not in ("ArgMax", "TopK"):
        return None

    def spoil(outs: List[Array]) -> List[Array]:
        which = outs[-1].copy()
        flat = which.reshape(-1)
        flat[scene.random.randint(flat.size, size=max(1, flat.size // 8))] += 1
        return [*outs[:-1], which]

    return Change(after=spoil)


# A factor of all weights is what a factor of the output is, and of one channel what that of a
# channel is: solved constants say so.
_SOLVED = "attribute: other than the model's"
_FACTOR = ("scale", _SOLVED, "attribute: factor of|its constant")
_PART = ("one-slice", "not-written", "scale: holds? 0", _SOLVED)

KINDS: Dict[str, Kind] = {
    "scale-1.005": Kind(_scale(1.005), _FACTOR),
    "scale-1.01": Kind(_scale(1.01), _FACTOR),
    "scale-1.04": Kind(_scale(1.04), _FACTOR),
    "scale-0.98": Kind(_scale(0.98), _FACTOR),
    "sign": Kind(_scale(-1), (*_FACTOR, "activation: Neg", "attribute: other sign")),
    "no-bias": Kind(
        _constant(2, lambda bias, random, scene: np.zeros_like(bias)),
        ("bias", "attribute: bias|its input 1|other than"),
    ),
    "one-bias": Kind(_constant(2, _one_bias), ("one-slice", "bias", "attribute: bias|other than")),
    "stale-filter": Kind(_constant(1, _stale_filter), ("one-slice", _SOLVED)),
    "weights-int8": Kind(
        _constant(1, lambda weights, random, scene: _int8(weights)), ("rounding", "attribute: int8")
    ),
    "output-int8": Kind(_after(_int8), ("rounding",)),
    "channels": Kind(_channels, ("layout", "attribute: order|roll|interleaved")),
    "transposed": Kind(_transposed, ("layout", "attribute: perm|transposed|axes|exchanged")),
    "channel-zero": Kind(_part("channel", False), _PART),
    "row-zero": Kind(_part("row", False), _PART),
    "tile-zero": Kind(_part("tile", False), _PART),
    "tail-zero": Kind(_part("tail", False), _PART),
    "channel-garbage": Kind(_part("channel", True), _PART),
    "row-garbage": Kind(_part("row", True), _PART),
    "pixel-garbage": Kind(_part("pixel", True), _PART),
    "tail-garbage": Kind(_part("tail", True), _PART),
    "row-everywhere": Kind(_broadcast_row, ("not-written: first", "attribute: first index")),
    "one-nan": Kind(_one_value(np.nan), ("nan",)),
    "one-inf": Kind(_one_value(np.inf), ("overflow", "unexplained: Inf on one side only")),
    "overflow": Kind(_overflow, ("overflow",)),
    "saturated": Kind(_saturated, ("saturation",)),
    "flushed": Kind(_flushed, ("flush-to-zero", "activation: computed below")),
    "did-nothing": Kind(
        _did_nothing,
        ("did-nothing", "stale-dump", "other-tensor", "attribute: Identity|perm .0, 1|holds what"),
    ),
    "others-memory": Kind(_others_memory, ("stale-dump", "other-tensor")),
    "pad-off-by-one": Kind(_pads, ("shift", "attribute")),
    "softmax-axis": Kind(_softmax_axis, ("attribute",)),
    "alpha": Kind(_alpha, ("attribute",)),
    "epsilon": Kind(_epsilon, ("attribute",)),
    "coarse-table": Kind(_table(256), ("rounding",)),
    "coarser-table": Kind(_table(64), ("rounding",)),
    "half-sums": Kind(_half_sums, ("rounding",)),
    "shift": Kind(_shift, ("shift", "attribute: rolled")),
    # Of few elements the order is found.
    "random": Kind(_random, ("unexplained", "layout: in the order")),
    "resize-mode": Kind(_resize, ("attribute",)),
    "resize-rule": Kind(_corners, ("attribute",)),
    "floor-pooling": Kind(_floor_pool, ("one-slice", "not-written: axis", "attribute: ceil_mode")),
    "count-pad": Kind(_count_pad, ("attribute",)),
    "no-activation": Kind(_no_activation, ("attribute", "activation", "wrong-golden")),
    "gelu-approximate": Kind(_gelu_tanh, ("attribute",)),
    "truncated": Kind(_truncated, ("rounding", "scale")),
    "operands": Kind(_operands, ("attribute",)),
    "wrong-index": Kind(_argmax, ("not-equal",)),
}
NETWORK_KINDS: Dict[str, Tuple[str, ...]] = {
    "golden-exchanged": ("wrong-golden",),
    "input-bgr": ("other-input",),
    "input-mean": ("other-input",),
    "input-scale": ("other-input",),
    "input-other": ("other-input",),
}
"""Faults that sit in no op: golden files exchanged, and the network's own input."""

_UNIT = {"float16": 2.0**-11 / 3**0.5, "bfloat16": 2.0**-8 / 3**0.5, "float32": 1e-6}


class Planted(NamedTuple):
    """A fault in an op of a run.

    Attributes
    ----------
    moved
        Relative Euclidean distance of the op's wrong output from its healthy one, on the same
        inputs; inf where values are not finite.
    roundings
        The same in multiples of the healthy output's distance from the unrounded result.
    store
        What every op writes in the run with the fault.
    changed
        Names of the ops whose files differ from the healthy run's.
    """

    op: str
    moved: float
    roundings: float
    store: Store
    changed: List[str]


def plant(kind: str, device: Device, healthy: Store, random: Random) -> Optional[Planted]:
    """Plant a fault into a random op that can have it and whose output it changes; None where there
    is none."""
    ops = [op for op in device.lowered.ops if op.nodes and healthy[op.name, 0].size >= 8]
    for at in random.permutation(len(ops)):
        op = ops[at]
        numbers = healthy[op.name, 0].dtype == np.float32
        if numbers == (kind == "wrong-index") or not np.isfinite(healthy[op.name, 0]).all():
            continue
        with np.errstate(all="ignore"):
            change = KINDS[kind].maker(Scene(device, op, healthy, random))
            if change is None:
                continue
            wrong = device.one(op, healthy, change)
        moved, roundings = movement(device, op, healthy, wrong)
        if not moved:
            continue
        store = dict(healthy)
        store.update(((op.name, index), array) for index, array in enumerate(wrong))
        behind = device.behind(op)
        with np.errstate(all="ignore"):
            device.go_on(store, behind)
        return Planted(
            op.name, moved, roundings, store, [op.name] + [entry.name for entry in behind]
        )
    return None


def movement(device: Device, op: Op, healthy: Store, wrong: Sequence[Array]) -> Tuple[float, float]:
    """Return how far an op's outputs moved: as a share of their norm, and in roundings."""
    right = [healthy[op.name, index] for index in range(len(wrong))]
    with np.errstate(all="ignore"):
        norm = _norm(right) or 1e-30
        moved = _norm([np.asarray(a, np.float64) - b for a, b in zip(wrong, right)]) / norm
        exact = device.exact().raw(op, healthy)
        noise = _norm([np.asarray(a, np.float64) - b for a, b in zip(exact, right)]) / norm
    if not np.isfinite(moved):
        return float("inf"), float("inf")
    return moved, moved / max(noise, _UNIT.get(op.outputs[0].dtype, 1e-6))


def _norm(arrays: Sequence[Array]) -> float:
    return float(
        np.sqrt(sum(float((np.asarray(array, np.float64) ** 2).sum()) for array in arrays))
    )


def other_input(
    kind: str, data: Dict[str, Array], other: Dict[str, Array]
) -> Optional[Dict[str, Array]]:
    """Return the inputs of a device that was fed otherwise than the golden run; None where the
    network's cannot be so.

    Parameters
    ----------
    other
        The inputs of another number.
    """
    name, array = next(iter(data.items()))
    if kind == "input-other":
        return other
    if array.dtype != np.float32:
        return None
    if kind == "input-bgr":
        return (
            dict(data, **{name: np.ascontiguousarray(array[:, ::-1])})
            if array.ndim == 4 and array.shape[1] == 3
            else None
        )
    if kind == "input-mean":
        return dict(data, **{name: array + np.float32(0.3 * array.std())})
    return dict(data, **{name: array * np.float32(1.25)})


__all__ = [
    "KINDS",
    "NETWORK_KINDS",
    "Kind",
    "Planted",
    "Scene",
    "movement",
    "other_input",
    "plant",
    "rounded",
]
