"""Exchanges drawn by lot from the schemas of the package onnx: an operator, the shapes of its
inputs, its attributes, and one of them (or an input) that the device takes otherwise.

What another value may be nobody lists here: numbers, orders of numbers and the words of the
attribute's description are tried, and onnxruntime tells which of them it computes, to an output of
the same shape and type that differs.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from onnx import defs, helper

from goldwatch.operators import Value
from goldwatch.recomputing.run_variants import PARTS, written_instead
from goldwatch.recomputing.variant_trials import Output
from goldwatch.recomputing.written import Written

from ..real.device import Change
from ..real.faults import Scene
from ..real.sessions import run_node
from .exchanges import Exchange, chain, has
from .networks import OPSET, Core, Net

Array = Any
Random = Any
_TYPES = defs.OpSchema.AttrType
_LEFT_OUT = frozenset("dtype output_datatype seed training_mode momentum keepdims".split()) | {
    "noop_with_empty_axes", "stash_type", "storage_order", "to", "activations",
}  # fmt: skip
"""Attributes that change no values, or the types."""
_VISIBLE = 0.03
"""Relative distance of the output from the right one, at least."""
_PROVEN = 0.05
"""Of the device's distance from the right output, that from what an explanation makes at most."""
_MOST_ATTEMPTS = 60
_MOST_ORDERS = 12
"""Elements of which one that is shuffled is no simple order by chance."""
_FAILS = Exception  # onnxruntime has a class for each of its states


class Drawn(NamedTuple):
    """An operator with inputs.

    Attributes
    ----------
    arrays
        None: the input is not given.
    held
        From which input on the model holds them.
    outputs
        How many.
    """

    kind: str
    arrays: List[Optional[Array]]
    held: int
    attributes: Dict[str, Any]
    outputs: int = 1

    def run(self, attributes: Dict[str, Any], arrays: Sequence[Optional[Array]]) -> List[Array]:
        """Return what onnxruntime makes; None where it refuses."""
        names = ["i%d" % at if array is not None else "" for at, array in enumerate(arrays)]
        while names and not names[-1]:
            names.pop()
        made = ["o%d" % at for at in range(self.outputs)]
        node = helper.make_node(self.kind, names, made, **attributes)
        feeds = {name: array for name, array in zip(names, arrays) if name}
        return run_node(node, feeds, OPSET)


class Lot:
    """Draws numbers, shapes and arrays."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.largest = int(random.choice([2, 3, 5, 9, 14]))

    def one(self, *entries: Any) -> Any:
        """Draw one of some."""
        return entries[self.random.randint(len(entries))]

    def size(self, least: int = 1) -> int:
        """Draw a length."""
        return int(self.random.randint(least, max(least, self.largest) + 1))

    def shape(self, rank: int, least: int = 1) -> Tuple[int, ...]:
        """Draw lengths."""
        return tuple(self.size(least) for _ in range(rank))

    def floats(self, shape: Sequence[int]) -> Array:
        """Draw values: normal, above 0, on halves, or smooth."""
        x = self.random.normal(0, 1, tuple(shape))
        how = self.random.randint(5)
        if how == 1:
            x = np.abs(x) + 0.1
        elif how == 2:
            x = np.rint(x * 4) / 2
        elif how == 3:
            x = np.asarray(x * 4)
        return x.astype(np.float16).astype(np.float32)

    def weights(self, *shape: int) -> Array:
        """Draw constants: normal, mostly; all equal; symmetric; or few different."""
        x = self.random.normal(0, 0.5, shape)
        how = self.random.randint(8)
        if how == 1:
            x = np.full(shape, self.one(0.5, 1.0, -0.25))
        elif how == 2 and len(shape) > 2:
            x = x + x[..., ::-1] + x[..., ::-1, :]
        elif how == 3:
            x = np.rint(x * 2) / 2
        return x.astype(np.float16).astype(np.float32)

    def ints(self, low: int, high: int, *shape: int) -> Array:
        """Draw whole numbers."""
        return self.random.randint(low, high, shape).astype(np.int64)


Maker = Callable[[Lot], Tuple[List[Optional[Array]], int, Dict[str, Any], int]]


def _image(lot: Lot) -> Array:
    return lot.floats((lot.size(), lot.one(1, 2, 3, 4, 6), lot.size(3) + 1, lot.size(3) + 2))


def _window(lot: Lot) -> Dict[str, Any]:
    size = lot.one(1, 2, 3)
    given = {
        "kernel_shape": [size, lot.one(size, 2, 3)],
        "strides": lot.one([1, 1], [2, 2], [1, 2]),
    }
    if lot.random.rand() < 0.5:
        given["pads"] = [int(n) for n in lot.random.randint(0, 2, 4)]
    elif lot.random.rand() < 0.3:
        given["auto_pad"] = lot.one("SAME_UPPER", "SAME_LOWER", "VALID")
    return given


def _conv(lot: Lot, transposed: bool = False) -> Any:
    x, given = _image(lot), _window(lot)
    group = lot.one(*[n for n in (1, 1, 2, 3) if x.shape[1] % n == 0])
    out, own = lot.one(1, 2, 3) * group, x.shape[1]
    wide = (own, out // group) if transposed else (out, own // group)
    w = lot.weights(*wide, *given["kernel_shape"])
    given["group"] = group
    if lot.random.rand() < 0.3:
        given["dilations"] = lot.one([2, 2], [1, 2])
    return [x, w, *([lot.weights(out)] * lot.one(0, 1))], 1, given, 1


def _pool(lot: Lot) -> Any:
    return [_image(lot)], 1, _window(lot), 1


def _normalisation(lot: Lot, kind: str) -> Any:
    x = _image(lot) * np.float32(lot.one(1, 1, 2.0**-7))
    size = x.shape[1] if kind in ("InstanceNormalization", "BatchNormalization") else x.shape[-1]
    more = [lot.weights(size), lot.weights(size)]
    if kind == "BatchNormalization":
        more += [lot.weights(size), np.abs(lot.weights(size)) + np.float32(0.25)]
    return [x, *more], 1, {"epsilon": lot.one(1e-5, 1e-3, 0.1)}, 1


def _recurrent(lot: Lot, gates: int) -> Any:
    steps, batch, wide, hidden = lot.size(2), lot.size(), lot.size(), lot.one(1, 2, 4)
    ways = lot.one(1, 1, 2)
    w = [lot.weights(ways, gates * hidden, size) for size in (wide, hidden)]
    b = lot.weights(ways, 2 * gates * hidden) if lot.one(0, 1, 1) else None
    state = lot.floats((ways, batch, hidden)) if lot.one(0, 1) else None
    given = {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else "forward"}
    return [lot.floats((steps, batch, wide)), *w, b, None, state], 1, given, 1


def _reduce(lot: Lot) -> Any:
    x = lot.floats(lot.shape(lot.one(2, 3, 4)))
    axes = lot.random.permutation(x.ndim)[: lot.one(1, 1, 2)]
    return [x, np.sort(axes).astype(np.int64)], 1, {"keepdims": lot.one(0, 1)}, 1


def _resize(lot: Lot) -> Any:
    x = _image(lot)
    scales = [1, 1, lot.one(2, 1.5, 0.5, 3), lot.one(2, 1.5, 0.5, 1)]
    given = {"mode": lot.one("nearest", "linear", "cubic"), "coordinate_transformation_mode":
             lot.one("half_pixel", "asymmetric", "align_corners")}  # fmt: skip
    return [x, None, np.array(scales, np.float32)], 1, given, 1


def _gemm(lot: Lot) -> Any:
    n, k, m, b = lot.size(), lot.size(), lot.size(), lot.one(0, 1)
    if lot.one(0, 1):
        n = k = m
    w = lot.weights(*((m, k) if b else (k, m)))
    return [lot.floats((n, k)), w, lot.weights(m)], 1, {"transB": b, "alpha": lot.one(1.0, 0.5)}, 1


def _pad(lot: Lot) -> Any:
    x = _image(lot)
    pads = [0, 0, *lot.random.randint(0, 3, 2), 0, 0, *lot.random.randint(0, 3, 2)]
    mode = lot.one("constant", "reflect", "edge")
    return [x, np.array(pads, np.int64)], 1, {"mode": mode}, 1


def _slice(lot: Lot) -> Any:
    x = lot.floats(lot.shape(3, 4))
    axis, step = lot.one(1, 2), lot.one(1, 1, 2)
    first = lot.one(0, 1, 2)
    return [x, *(np.array([n], np.int64) for n in (first, first + 2 * step, axis, step))], 1, {}, 1


def _gather(lot: Lot, kind: str) -> Any:
    side = lot.size(2)
    x = lot.floats((side, side, lot.size()))
    if kind == "Gather":
        return [x, lot.ints(-side, side, lot.size())], 1, {"axis": lot.one(0, 1)}, 1
    indices = lot.ints(0, side, side, side, x.shape[2])
    more = [lot.floats(indices.shape)] if kind == "ScatterElements" else []
    given = {"reduction": lot.one("none", "add", "max")} if more else {}
    return [x, indices, *more], 1, {"axis": lot.one(0, 1), **given}, 1


def _quantise(lot: Lot, back: bool) -> Any:
    x, per = _image(lot), lot.one(0, 1)
    shape = (x.shape[1],) if per else ()
    scale = (lot.random.uniform(0.02, 0.2, shape)).astype(np.float16).astype(np.float32)
    zero = lot.random.randint(-20, 20, shape).astype(np.int8)
    if back:
        return (
            [lot.random.randint(-128, 128, x.shape).astype(np.int8), scale, zero],
            0,
            {"axis": 1},
            1,
        )
    return [x, scale, zero], 1, {"axis": 1}, 1


def _boxes(lot: Lot) -> Any:
    x = lot.floats((lot.size(), lot.size(), lot.one(6, 9), lot.one(6, 9)))
    corner = lot.random.uniform(0, 3, (lot.one(1, 2, 3), 2))
    boxes = np.concatenate([corner, corner + lot.random.uniform(1.5, 5, corner.shape)], 1)
    boxes = boxes.astype(np.float16).astype(np.float32)
    given = {"output_height": lot.one(2, 3), "output_width": lot.one(2, 4)}
    given.update(sampling_ratio=lot.one(0, 1, 2), spatial_scale=lot.one(1.0, 0.5))
    return [x, boxes, lot.ints(0, len(x), len(boxes))], 1, given, 1


def _deform(lot: Lot) -> Any:
    x = _image(lot)
    w = lot.weights(lot.one(1, 2), x.shape[1], 2, 2)
    high, wide = x.shape[2] - 1, x.shape[3] - 1
    offset = lot.random.uniform(-1, 1, (len(x), 8, high, wide)).astype(np.float16)
    return [x, w, offset.astype(np.float32)], 1, {}, 1


def _axis_input(lot: Lot) -> Any:
    return [lot.floats(lot.shape(3, 2)), np.array(lot.one(0, 1, 2), np.int64)], 1, {}, 1


def _grid(lot: Lot) -> Any:
    x = _image(lot)
    grid = lot.random.uniform(-1.3, 1.3, (len(x), lot.size(2), lot.size(2), 2)).astype(np.float16)
    return [x, grid.astype(np.float32)], 1, {"mode": lot.one("linear", "nearest", "cubic")}, 1


def _square(lot: Lot) -> Any:
    side = lot.size(2)
    return [lot.floats((lot.size(), side, side))], 1, {}, 1


def _blocks(lot: Lot) -> Any:
    return [lot.floats((1, lot.one(4, 8), 2 * lot.size(), 4))], 1, {"blocksize": 2}, 1


def _any(rank: Optional[int] = None) -> Maker:
    return lambda lot: ([lot.floats(lot.shape(rank or lot.one(2, 3, 4)))], 1, {}, 1)


_ONE_INPUT = ("Celu Elu Gelu HardSigmoid LeakyRelu LogSoftmax LpNormalization Selu Shrink Softmax "
              "ThresholdedRelu Hardmax ArgMax ArgMin")  # fmt: skip
_MAKERS: Dict[str, Maker] = {
    **{kind: _any() for kind in _ONE_INPUT.split()},
    **{
        kind: _reduce
        for kind in (
            "ReduceMean",
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSumExp",
            "ReduceProd",
            "ReduceSumSquare",
        )
    },  # fmt: skip
    **{kind: _pool for kind in ("AveragePool", "MaxPool", "LpPool")},
    **{
        kind: lambda lot, kind=kind: _normalisation(lot, kind)  # type: ignore[misc]
        for kind in ("BatchNormalization", "InstanceNormalization", "LayerNormalization")
    },
    **{
        kind: lambda lot, kind=kind: _gather(lot, kind)  # type: ignore[misc]
        for kind in ("Gather", "GatherElements", "ScatterElements")
    },
    "MeanVarianceNormalization": _any(4),
    "Conv": _conv,
    "ConvTranspose": lambda lot: _conv(lot, True),
    "DeformConv": _deform,
    "MatMul": lambda lot: (
        [lot.floats((lot.size(), lot.largest)), lot.weights(lot.largest, lot.largest)],
        1,
        {},
        1,
    ),
    "Gemm": _gemm,
    "LSTM": lambda lot: _recurrent(lot, 4),
    "GRU": lambda lot: _recurrent(lot, 3),
    "RNN": lambda lot: _recurrent(lot, 1),
    "LRN": lambda lot: ([_image(lot)], 1, {"size": 3, "alpha": lot.one(0.1, 0.5)}, 1),
    "Resize": _resize,
    "GridSample": _grid,
    "RoiAlign": _boxes,
    "Pad": _pad,
    "Slice": _slice,
    "QuantizeLinear": lambda lot: _quantise(lot, False),
    "DequantizeLinear": lambda lot: _quantise(lot, True),
    "CumSum": _axis_input,
    "TopK": lambda lot: (
        [lot.floats((lot.size(2), lot.size(3), 4)), np.array([2], np.int64)],
        1,
        {},
        2,
    ),
    "Transpose": lambda lot: (_square(lot)[0], 1, {"perm": lot.one([0, 2, 1], [1, 0, 2])}, 1),
    "Trilu": lambda lot: ([*_square(lot)[0], np.array(lot.one(0, 1), np.int64)], 1, {}, 1),
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
    "ReverseSequence": lambda lot: ([lot.floats((5, 5, lot.size())), lot.ints(2, 6, 5)], 1, {}, 1),
    "Mod": lambda lot: (
        [lot.floats(lot.shape(3)), np.array(lot.one(1.5, 2.0, -2.0), np.float32)],
        1,
        {"fmod": 1},
        1,
    ),
    "Clip": lambda lot: (
        [lot.floats(lot.shape(3)), np.array(-0.5, np.float32), np.array(0.75, np.float32)],
        1,
        {},
        1,
    ),
    "PRelu": lambda lot: (lambda x: ([x, lot.weights(x.shape[-1])], 1, {}, 1))(
        lot.floats(lot.shape(3))
    ),
    "Split": lambda lot: (
        [lot.floats((4, lot.size(), 4))],
        1,
        {"axis": lot.one(0, 2), "num_outputs": 2},
        2,
    ),
    "Concat": lambda lot: (
        lambda shape: ([lot.floats(shape), lot.floats(shape)], 2, {"axis": 1}, 1)
    )(lot.shape(3)),  # fmt: skip
    **{
        kind: lambda lot: (lambda shape: ([lot.floats(shape), lot.floats(shape)], 2, {}, 1))(  # type: ignore[misc]
            lot.shape(lot.one(2, 3))
        )
        for kind in ("Sub", "Div", "Pow")
    },
    "Einsum": lambda lot: (
        lambda n: ([lot.floats((n, n)), lot.floats((n, n))], 2, {"equation": "ij,jk->ik"}, 1)
    )(lot.size(2)),  # fmt: skip
}


def _numbers(own: Optional[float], whole: bool) -> List[Any]:
    usual = (
        [0, 1, 2, 3, -1, -2] if whole else [0.0, 0.01, 0.1, 0.3, 0.5, 1.0, 2.0, 1e-3, 1e-6, 0.75]
    )
    if own is not None:
        usual += [own + 1, own - 1, own * 2] if whole else [own * 2, own / 2, own * 1.1, own + 0.25]
    return usual


def _lists(own: Sequence[int], lot: Lot) -> List[List[int]]:
    half = len(own) // 2
    found = [list(own[::-1]), [*own[half:], *own[:half]], *[
        [int(n) for n in lot.random.permutation(own)] for _ in range(4)]]  # fmt: skip
    for at in range(len(own)):
        for step in (1, -1):
            moved = list(own)
            moved[at] += step
            found.append(moved)
            beside = list(moved)
            beside[(at + half) % len(own)] -= step
            found.append(beside)
    return found


def _candidates(schema: Any, name: str, own: Any, lot: Lot) -> List[Any]:
    """Return what an attribute's other values may be."""
    attribute = schema.attributes[name]
    if attribute.type == _TYPES.INT:
        return _numbers(own, True)
    if attribute.type == _TYPES.FLOAT:
        return _numbers(own, False)
    if attribute.type == _TYPES.STRING and name != "equation":
        return sorted(set(re.findall(r"[A-Za-z]\w{2,}", attribute.description)))
    if name == "equation":
        return ["ij,kj->ik", "ji,jk->ik", "ij,jk->ki"]
    if attribute.type == _TYPES.INTS:
        return _lists(own, lot) if own else []
    return []


def _differs(before: Sequence[Array], after: Sequence[Array]) -> bool:
    """Tell whether outputs are of the same shapes and visibly others."""
    if [(one.shape, one.dtype) for one in before] != [(one.shape, one.dtype) for one in after]:
        return False
    with np.errstate(all="ignore"):
        x, y = (np.concatenate([np.ravel(one).astype(np.float64) for one in side])
                for side in (before, after))  # fmt: skip
    if not (np.isfinite(x).all() and np.isfinite(y).all()) or np.abs(y).max(initial=0) > 3e4:
        return False
    return bool(np.linalg.norm(x - y) > _VISIBLE * np.linalg.norm(x))


def _named_by(name: str, value: Any) -> Tuple[str, str]:
    return r"\b%s" % re.escape(name), has(re.escape(name) + r"\)?", _shown(value))


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(str, value))
    return "%.6g" % value if isinstance(value, float) else str(value)


class Otherwise(NamedTuple):
    """What the device computes: other attributes, or other inputs; and what names it."""

    what: str
    attributes: Dict[str, Any]
    arrays: List[Optional[Array]]
    named: str
    value: str


def _is_no_word(drawn: Drawn, name: str, word: str) -> bool:
    """Tell whether onnxruntime takes a word as it takes any other that means nothing."""
    try:
        any_other, made = (
            drawn.run({**drawn.attributes, name: value}, drawn.arrays)
            for value in ("any" + word, word)
        )
    except _FAILS:
        return False
    return all(np.array_equal(one, other, equal_nan=True) for one, other in zip(any_other, made))


def _by_attribute(schema: Any, drawn: Drawn, lot: Lot) -> Iterator[Otherwise]:
    names = [name for name in schema.attributes if name not in _LEFT_OUT]
    for name in lot.random.permutation(sorted(names)) if names else ():
        name = str(name)
        default = schema.attributes[name].default_value
        own = drawn.attributes.get(name)
        if own is None and default.name:
            own = helper.get_attribute_value(default)
            own = own.decode() if isinstance(own, bytes) else own
        values = _candidates(schema, name, own, lot)
        for at in lot.random.permutation(len(values)):
            value = values[at]
            if name == "p" and value < 1:
                continue
            if isinstance(value, str) and _is_no_word(drawn, name, value):
                continue
            if value != own and not (isinstance(value, float) and isinstance(own, int)):
                yield Otherwise(name, {**drawn.attributes, name: value}, drawn.arrays,
                                *_named_by(name, value))  # fmt: skip


_FLOAT_CHANGES: Sequence[Tuple[str, str, Callable[[Array], Array]]] = (
    ("zero", r"missing|\b0\b|not written|zero|Relu( or \w+)* for", np.zeros_like),
    ("squared", r"square", np.square),
    ("halved", r"halved|0\.5|scale", lambda x: x / 2),
    ("reversed", r"revers|flip", lambda x: np.flip(x, -1)),
    ("rolled", r"roll", lambda x: np.roll(x, 1, 0)),
    ("transposed", r"transpos|exchang", lambda x: np.swapaxes(x, -1, -2) if x.ndim > 1 else x),
    ("negated", r"sign|times -1|-1", np.negative),
)


def _by_input(schema: Any, drawn: Drawn, lot: Lot) -> Iterator[Otherwise]:
    names = [entry.name for entry in schema.inputs]
    for at in lot.random.permutation(len(drawn.arrays)):
        array = drawn.arrays[at]
        name = names[min(at, len(names) - 1)]
        if array is None:
            continue

        def instead(other: Optional[Array], at: int = at) -> List[Optional[Array]]:
            return [*drawn.arrays[:at], other, *drawn.arrays[at + 1 :]]

        if at < drawn.held:
            for other in range(at):
                arrays = list(drawn.arrays)
                arrays[at], arrays[other] = arrays[other], arrays[at]
                named = "exchang|order of its inputs|equation|transpos"
                yield Otherwise("inputs exchanged", drawn.attributes, arrays, named, "")
        elif array.dtype.kind == "f" and array.ndim:
            changes = list(_FLOAT_CHANGES)
            lot.random.shuffle(changes)
            for words, told, change in changes:
                wrong = np.ascontiguousarray(change(array))
                # Of two indices rolled is reversed; of pairs of places x and y are exchanged.
                alike = [entry[1] for entry in changes if np.array_equal(entry[2](array), wrong)]
                pairs = schema.name == "GridSample" and words == "reversed"
                alike += ["x and y exchanged"] * pairs
                alike += ["revers"] * (words == "rolled" and len(array) == 2)
                told = "|".join([told, *alike])
                if wrong.shape == array.shape:
                    yield Otherwise("constant " + words, drawn.attributes, instead(wrong), told, "")
            yield Otherwise("constant missing", drawn.attributes, instead(None), "missing|bias", "")
        elif array.ndim == 1 and array.dtype == np.int64:
            told = r"\b%s\b|%s" % (name, r"pads|padding|ax[ie]s|start|begin|indices|step|places")
            for value in _lists(array.tolist(), lot):
                yield Otherwise("input " + name, drawn.attributes,
                                instead(np.array(value, np.int64)), told, "")  # fmt: skip
        elif array.ndim == 0:
            for value in _numbers(float(array), array.dtype.kind != "f"):
                told = r"\b%s\b|%s" % (name, "axis|zero point|scale|constant|max|min|divisor")
                yield Otherwise("input " + name, drawn.attributes,
                                instead(np.array(value, array.dtype)), told, "")  # fmt: skip


def unrelated(seed: int, number: int) -> Exchange:
    """Return the exchange of a number whose device writes what nothing explains: the right values
    shuffled, drawn anew from among them, drawn of their spread, or with noise of a fifth of it.
    """
    exchange = draw(seed, number)

    def maker(scene: Scene) -> Change:
        def change(outs: List[Array]) -> List[Array]:
            random, how = np.random.RandomState(seed + number), number % 4
            wrong = []
            for out in outs:
                flat = np.ravel(out)
                if how == 0 and flat.size > _MOST_ORDERS:
                    made = random.permutation(flat)
                elif how == 1 or out.dtype.kind != "f":
                    made = random.choice(flat, flat.size)
                else:
                    noise = random.normal(0, np.std(flat) + 1e-3, flat.size)
                    made = noise + np.mean(flat) if how == 2 else flat + noise / 5
                wrong.append(made.astype(out.dtype).reshape(out.shape))
            return wrong

        return Change(after=change)

    return exchange._replace(
        name=exchange.name + "-unrelated", maker=maker, named="no known variant", value=""
    )


class Both(NamedTuple):
    """What the model makes, and the device.

    Attributes
    ----------
    right, wrong
        The outputs of onnxruntime.
    """

    drawn: Drawn
    otherwise: Otherwise
    right: List[Array]
    wrong: List[Array]


def draw(seed: int, number: int) -> Exchange:
    """Return the exchange of a number among those of a seed."""
    drawn, entry, right, wrong = drawn_outputs(seed, number)
    name = "%s-%d-%d-%s" % (drawn.kind, seed, number, entry.what.replace(" ", "-"))
    also = ["scale", "bias", "layout", "shift"]
    # What the device wrote is an input: that is true, whatever it read otherwise.
    if any(array is not None and np.array_equal(array, wrong[0]) for array in drawn.arrays):
        also.append("did-nothing")
    return Exchange(name, "none", _core(drawn), _maker(drawn, entry), entry.named, entry.value,
                    tuple(also), _proof(drawn, right, wrong))  # fmt: skip


def drawn_outputs(seed: int, number: int) -> Both:
    """Return what is drawn of the exchange of a number among those of a seed."""
    random = np.random.RandomState((seed * 100003 + number) % 2**31)
    kinds = sorted(_MAKERS)
    while True:
        kind = kinds[random.randint(len(kinds))]
        schema = defs.get_schema(kind, OPSET)
        drawn, before = _drawn(kind, Lot(random))
        if drawn is None:
            continue
        lot = Lot(random)
        ways = [_by_attribute, _by_input] if random.rand() < 0.65 else [_by_input, _by_attribute]
        for way in ways:
            for attempt, entry in enumerate(way(schema, drawn, lot)):
                if attempt > _MOST_ATTEMPTS:
                    break
                try:
                    after = drawn.run(entry.attributes, entry.arrays)
                except _FAILS:
                    continue
                if _differs(before, after):
                    return Both(drawn, entry, before, after)


def called_not_written(seed: int, number: int) -> List[str]:
    """Return what is said not to be written, or computed of other weights, of the outputs of an
    exchange: each of them was written, and of its inputs.
    """
    drawn, entry, right, wrong = drawn_outputs(seed, number)
    dtype = ("float16", "float32")[number % 2]
    found = []
    for computed, made in zip(right, wrong):
        if computed.dtype.kind != "f" or np.array_equal(computed, made):
            continue
        output = Output((0, 0), made.astype(dtype), Value(computed), dtype)
        alike = [array for array in drawn.arrays if array is not None and array.size == made.size]

        def others(alike: Sequence[Array] = alike) -> Iterator[Tuple[str, Array]]:
            return (("input", array.astype(dtype)) for array in alike)

        said, _, _ = written_instead(Written(output, others, lambda error: error.ratio), PARTS)
        if said is not None:
            found.append("%s-%d-%d, %s %s, %s: %s: %s" % (
                drawn.kind, seed, number, entry.what, _shown(entry.value), list(computed.shape),
                said.kind, said.sentence,
            ))  # fmt: skip
    return found


def _drawn(kind: str, lot: Lot) -> Tuple[Optional[Drawn], List[Array]]:
    """Draw an operator that onnxruntime computes, whose output is of at least 4 elements."""
    for _ in range(_MOST_ATTEMPTS):
        arrays, held, given, outputs = _MAKERS[kind](lot)
        drawn = Drawn(kind, arrays, held, given, outputs)
        try:
            before = drawn.run(given, arrays)
        except _FAILS:
            continue
        if 4 <= before[0].size <= 1 << 15 and before[0].ndim and np.ptp(before[0] * 1.0) > 0:
            return drawn, before
    return None, []


def _core(drawn: Drawn) -> Core:
    def make(net: Net, x: str) -> str:
        names = []
        for at, array in enumerate(drawn.arrays):
            if array is None:
                names.append("")
            elif at >= max(1, drawn.held):
                names.append(net.weight(array, array.dtype))
            elif array.dtype == np.float32:
                names.append(net.node("Neg", net.data("data%d" % at, -array)))
            else:
                names.append(net.data("data%d" % at, array))
        while not names[-1]:
            names.pop()
        return net.core(drawn.kind, *names, outputs=drawn.outputs, **drawn.attributes)

    return make


def _proof(drawn: Drawn, right: Sequence[Array], wrong: Sequence[Array]) -> Callable[[str], bool]:
    """Return what tells whether a sentence names attributes by which onnxruntime makes what the
    device made."""

    def proves(sentence: str) -> bool:
        sentence = re.sub(r"its statistics axis (\d)", r"axes [\1]", sentence)
        sentence = sentence.replace("its statistics axes", "axes")
        said = re.match(
            r"the device (?:may have )?computed \w+ with "
            r"(?:[\w ]+\((?=\w+\)))?(\w+)\)? (.*); the model",
            sentence,
        )
        known = defs.get_schema(drawn.kind, OPSET).attributes
        if said is None or said.group(1) not in known:
            return False
        given = dict(drawn.attributes)
        for part in ("%s %s" % said.groups()).split(" and "):
            name, _, text = part.partition(" ")
            try:
                given[name] = ast.literal_eval(re.split(" or | \\(", text)[0])
            except (ValueError, SyntaxError):
                given[name] = re.split(" or | \\(", text)[0]
            if name in known and known[name].type == _TYPES.FLOAT:
                given[name] = float(given[name])
        if said.group(1) == "pads":
            given.pop("auto_pad", None)
        try:
            made = drawn.run(given, drawn.arrays)
        except _FAILS:
            return False
        off, whole = (
            sum(float(np.linalg.norm(np.float64(one) - other)) for one, other in zip(wrong, side))
            for side in (made, right)
        )
        return off <= _PROVEN * whole

    return proves


def _maker(drawn: Drawn, entry: Otherwise) -> Any:
    def make(c: Any) -> str:
        inputs = []
        for array in entry.arrays:
            own = next((place for place, one in enumerate(drawn.arrays) if one is array), -1)
            if array is None:
                inputs.append("")
            elif own >= 0:
                inputs.append(c.x[own])
            else:
                inputs.append(c.const(array, array.dtype))
        while not inputs[-1]:
            inputs.pop()
        return c.kind(drawn.kind, *inputs, outputs=drawn.outputs, **entry.attributes)

    return chain(make)
