"""Networks with a precision fault, cured: is what goldwatch cure raises enough, and how much more
than the fewest operators that are?"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
import zlib
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .device import Device, Store, rounded
from .lowering import Habit, Lowered, Op, lower
from .nets import NETS, model_of
from .running import PLACE, _goldwatch, make_golden, write_json, write_tree
from .sessions import _SESSIONS, all_values

Array = Any
Random = Any

HABIT = Habit()
PLAIN = Habit(fuse=False, blocks=False)
FAULTS = ("overflow", "cancel", "table", "half-sums", "short", "overflow-cut", "variance", "none")
"""overflow: a factor and its inverse around a few operators. overflow-cut: the same, and the device
cuts values off at its largest number. cancel: a large number added and taken off. variance: the
mean square less the square of the mean. table: activations from a coarse table. half-sums: products
summed in float16. short: functions with 3 bits. none: what float16 does to the network."""

_TABLED = ("Sigmoid", "Tanh", "Exp", "Gelu", "Swish", "Erf", "HardSwish", "SoftmaxV2")
_SHORTENED = (*_TABLED, "Sqrt", "Pow", "Log", "RealDiv", "LayerNorm", "Reciprocal")
_SUMMED = ("Conv2D", "MatMulV2", "BatchMatMulV2")
_LINEAR = (
    "Relu",
    "LeakyRelu",
    "MaxPool",
    "AveragePool",
    "Transpose",
    "Conv",
    "GlobalAveragePool",
    "Resize",
)
_AS_A_WHOLE = "WorstSliceDistance<1e9"
"""Outputs are judged as a whole, as a comparison does where every operator is right."""
_MOST_LARGE = 4
_MOST_SETS = 60000
_MOST_OPS = 80
"""Of networks with more operators all sets are not tried."""


class Case(NamedTuple):
    """What decides one case; its text form names it."""

    net: str
    fault: str
    seed: int

    def text(self) -> str:
        return "%s/%s/%d" % self


class KeptDevice(Device):
    """A device on which some ops are computed as the compiler's option asks, in float32.

    Parameters
    ----------
    kept
        Names of those ops.
    coarse
        By op how others compute worse than float16: ``table``, ``half-sums`` or ``short``.
    cuts
        Values beyond float16 are cut off at its largest number, where others become Inf.
    """

    def __init__(
        self,
        lowered: Lowered,
        habit: Habit,
        kept: Iterable[str],
        coarse: Dict[str, str],
        cuts: bool,
    ) -> None:
        super().__init__(lowered, habit)
        self.kept, self.coarse, self.cuts = set(kept), coarse, cuts
        self.made = {(op.name, n): op for op in lowered.ops for n, _ in enumerate(op.outputs)}

    def constants(self, op: Op) -> Dict[str, Array]:
        if op.name in self.kept:
            return {entry.value: entry.array for entry in op.constants}
        return super().constants(op)

    def feeds(self, op: Op, store: Store) -> Dict[str, Array]:
        found = super().feeds(op, store)
        if op.name in self.kept:
            return found
        wanted = {entry.value: entry.dtype for entry in op.inputs}
        return {value: self.stored(array, wanted[value]) for value, array in found.items()}

    def stored(self, array: Array, dtype: str) -> Array:
        if self.cuts and dtype == "float16" and array.dtype == np.float32:
            array = np.clip(array, -65504, 65504)
        return rounded(array, dtype)

    def one(self, op: Op, store: Store, change: Any = None) -> List[Array]:
        wide = op.name in self.kept or not op.nodes
        made = self._worse(op, store)
        return [
            array if wide else self.stored(array, out.dtype) for array, out in zip(made, op.outputs)
        ]

    def _worse(self, op: Op, store: Store) -> List[Array]:
        how = "" if op.name in self.kept else self.coarse.get(op.name, "")
        if how == "half-sums":
            plain, self.habit = self.habit, self.habit._replace(half_sums=True)
            try:
                return self.raw(op, store)
            finally:
                self.habit = plain
        if how == "table":
            store, step = dict(store), np.float32(16.0 / 40)
            for entry in op.inputs:
                before = store[entry.source]
                coarse = (np.round(before / step) * step).astype(np.float32)
                store[entry.source] = np.where(np.abs(before) <= 8, coarse, before)
            return self.raw(op, store)
        made = self.raw(op, store)
        if how == "short":
            bits = [np.ascontiguousarray(one, np.float32).view(np.uint32) for one in made]
            made = [
                ((one + np.uint32(1 << 19)) & np.uint32(0xFFF00000))
                .view(np.float32)
                .reshape(a.shape)
                for one, a in zip(bits, made)
            ]
        return made


class CureScene:
    """A network with a precision fault.

    Raises
    ------
    LookupError
        The network cannot be had, or cannot have the fault.
    """

    def __init__(self, case: Case, cache: str, folder: str) -> None:
        _SESSIONS.clear()
        path = model_of(case.net, cache)
        if path is None:
            raise LookupError("%s cannot be had" % case.net)
        self.case, self.folder, self.feeds = case, folder, NETS[case.net].feed(case.seed)
        random = np.random.RandomState(zlib.crc32(case.text().encode()) & 0x7FFFFFFF)
        self.habit = (HABIT, PLAIN)[random.randint(2)]
        self.model = _edited(path, case.fault, self.feeds, random, os.path.join(folder, "net.onnx"))
        self.lowered = lower(self.model, self.feeds, self.habit)
        self.cuts = case.fault == "overflow-cut"
        self.coarse = _coarse(self.lowered, case.fault, random)
        self.golden_values = all_values(self.model, self.feeds)
        for values in self.golden_values.values():
            if values.dtype == np.float32 and not np.isfinite(values).all():
                raise LookupError("its golden data are not finite")
        self.base = KeptDevice(self.lowered, self.habit, (), self.coarse, self.cuts)
        with np.errstate(all="ignore"):
            self.store = self.base.run()

    @property
    def ops(self) -> List[str]:
        """The names of the ops that may be kept."""
        return [
            op.name
            for op in self.lowered.ops
            if op.nodes and any(out.dtype == "float16" for out in op.outputs)
        ]

    def run(self, kept: Iterable[str]) -> Store:
        """Return what every op makes with some in float32; only what may be otherwise is
        computed.
        """
        kept = set(kept)
        device = KeptDevice(self.lowered, self.habit, kept, self.coarse, self.cuts)
        device._constants = self.base._constants
        # An input that was rounded by a Cast of its own comes in float32 to an op that is kept.
        store, changed = dict(self.store), set()
        for op in self.lowered.ops:
            if op.type == "Data":
                continue
            sources = {entry.source[0] for entry in op.inputs}
            if op.name in kept or sources & changed or op.type in ("Cast", "TransData"):
                with np.errstate(all="ignore"):
                    made = device.one(op, store)
                for index, array in enumerate(made):
                    if not np.array_equal(array, store[op.name, index], equal_nan=False):
                        changed.add(op.name)
                    store[op.name, index] = array
        return store

    def worst(self, kept: Iterable[str]) -> Tuple[bool, float]:
        """Return whether the network's outputs are within the limits, and the largest distance."""
        import goldwatch

        store, right, far = self.run(kept), True, 0.0
        for result in self.lowered.results:
            golden = self.golden_values.get(result.value, self.lowered.values[result.value])
            if golden.dtype != np.float32 or not golden.size:
                continue
            # What was rounded to float16 anywhere is judged as float16, as dumps are.
            with np.errstate(over="ignore"):
                made = store[result.source].reshape(golden.shape).astype(np.float16)
            found = goldwatch.compare_arrays(
                made, golden, limits=_AS_A_WHOLE, metrics=["RelativeEuclideanDistance"]
            )
            right = right and found.passed
            value = float(found.metrics["RelativeEuclideanDistance"])
            far = max(far, value if value == value else 1e9)
        return right, far

    def compare(self, kept: Sequence[str], name: str) -> Tuple[str, str]:
        """Dump a run with some ops in float32 and compare it; return the result and the om's
        json.
        """
        habit = self.habit._replace(kept=tuple(kept))
        lowered = lower(self.model, self.feeds, habit)
        device = KeptDevice(lowered, habit, kept, self.coarse, self.cuts)
        with np.errstate(all="ignore"):
            store = device.run()
            for op in lowered.ops:
                # What a Cast or an op that is not kept writes has its type.
                for index, out in enumerate(op.outputs):
                    if op.type != "Data" and store[op.name, index].dtype == np.float32:
                        store[op.name, index] = device.stored(store[op.name, index], out.dtype)
        root, out_folder = (os.path.join(self.folder, one + name) for one in ("dump", "out"))
        write_tree(lowered, store, habit, "all", root)
        om = write_json(lowered, habit, os.path.join(self.folder, "model%s.json" % name))
        words = [os.path.join(root, PLACE.folder()), self._golden(), "-f", om, "-o", out_folder]
        _goldwatch(["compare", *words, "--quiet", "--table", "none", "--jobs", "1"])
        return out_folder, om

    def _golden(self) -> str:
        folder = os.path.join(self.folder, "golden")
        if os.path.isdir(folder):
            return folder
        try:
            return make_golden(self.model, self.feeds, folder)
        except RuntimeError as error:
            raise LookupError(str(error)[-300:]) from None


def _coarse(lowered: Lowered, fault: str, random: Random) -> Dict[str, str]:
    kinds = {"table": _TABLED, "half-sums": _SUMMED, "short": _SHORTENED}.get(fault)
    if kinds is None:
        return {}
    types = sorted({op.type for op in lowered.ops if op.type in kinds and op.nodes})
    if not types:
        raise LookupError("no operator can have it")
    chosen = types[random.randint(len(types))]
    able = [op.name for op in lowered.ops if op.type == chosen and op.nodes]
    count = min(len(able), 1 + random.randint(4))
    return {able[at]: fault for at in random.choice(len(able), count, replace=False)}


def _edited(path: str, fault: str, feeds: Dict[str, Array], random: Random, out: str) -> str:
    """Write the network with what is computed otherwise, to the same end; return its path."""
    model = onnx.load(path)
    if fault in ("overflow", "overflow-cut", "cancel", "variance"):
        values = all_values(path, feeds)
        readers: Dict[str, List[Any]] = {}
        for node in model.graph.node:
            for value in node.input:
                readers.setdefault(value, []).append(node)
        able = [
            node
            for node in model.graph.node
            if len(node.output) == 1
            and node.output[0] in readers
            and values.get(node.output[0], np.zeros(0)).dtype == np.float32
            and values[node.output[0]].size >= 64
            and np.abs(values[node.output[0]]).max() > 1e-3
            and node.op_type not in ("Constant", "Identity", "Shape")
            and any(name in values for name in node.input)
        ]
        if not able:
            raise LookupError("no operator can have it")
        node = able[random.randint(len(able))]
        change = {"cancel": _cancel, "variance": _variance}.get(fault, _overflow)
        change(model, node, values, readers, random)
    del model.graph.value_info[:]
    onnx.save(model, out)
    return out


def _put_behind(model: Any, node: Any, made: Sequence[Any], before: str, after: str) -> None:
    """Put nodes behind one: who read ``before`` reads ``after``."""
    for other in model.graph.node:
        for place, value in enumerate(other.input):
            if value == before:
                other.input[place] = after
    at = next(place for place, one in enumerate(model.graph.node) if one is node or one == node) + 1
    for place, one in enumerate(made):
        model.graph.node.insert(at + place, one)


def _scalar(model: Any, name: str, value: float) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    return name


def _overflow(model: Any, node: Any, values: Any, readers: Any, random: Random) -> None:
    value = node.output[0]
    factor = float(2.0 ** np.ceil(np.log2(4 * 65504.0 / np.abs(values[value]).max())))
    factor = min(factor, 2.0**15)
    _scalar(model, "cure_factor", factor)
    _scalar(model, "cure_inverse", 1.0 / factor)
    steps = random.randint(3)
    made = [helper.make_node("Mul", [value, "cure_factor"], ["cure_large"], name="cure_large")]
    last = "cure_large"
    for step in range(steps):
        kind = ("Abs", "Neg", "Relu")[step] if np.min(values[value]) >= 0 and step != 1 else "Neg"
        made.append(
            helper.make_node(kind, [last], ["cure_step%d" % step], name="cure_step%d" % step)
        )
        last = "cure_step%d" % step
    signs = (-1.0) ** sum(one.op_type == "Neg" for one in made)
    if signs < 0:
        made.append(helper.make_node("Neg", [last], ["cure_turned"], name="cure_turned"))
        last = "cure_turned"
    made.append(helper.make_node("Mul", [last, "cure_inverse"], ["cure_small"], name="cure_small"))
    _put_behind(model, node, made, value, "cure_small")


def _cancel(model: Any, node: Any, values: Any, readers: Any, random: Random) -> None:
    value = node.output[0]
    size = float(np.sqrt(np.mean(np.square(values[value]))))
    number = size * float(2.0 ** random.randint(9, 13))
    _scalar(model, "cure_number", number)
    made = [
        helper.make_node("Add", [value, "cure_number"], ["cure_added"], name="cure_added"),
        helper.make_node("Sub", ["cure_added", "cure_number"], ["cure_less"], name="cure_less"),
    ]
    _put_behind(model, node, made, value, "cure_less")


def _variance(model: Any, node: Any, values: Any, readers: Any, random: Random) -> None:
    """x + (mean of squares − square of the mean) − variance, where the mean is large."""
    value = node.output[0]
    size = float(np.sqrt(np.mean(np.square(values[value]))))
    shift = size * float(2.0 ** random.randint(3, 5))
    whole = values[value].astype(np.float64) + shift
    _scalar(model, "cure_shift", shift)
    _scalar(model, "cure_variance", size / float(whole.var() or 1.0))
    _scalar(model, "cure_offset", size)
    axes = list(range(values[value].ndim))

    def mean(read: str, name: str) -> Any:
        return helper.make_node("ReduceMean", [read], [name], name=name, axes=axes, keepdims=1)

    made = [
        helper.make_node("Add", [value, "cure_shift"], ["cure_x"], name="cure_x"),
        helper.make_node("Mul", ["cure_x", "cure_x"], ["cure_xx"], name="cure_xx"),
        mean("cure_xx", "cure_m2"),
        mean("cure_x", "cure_m"),
        helper.make_node("Mul", ["cure_m", "cure_m"], ["cure_mm"], name="cure_mm"),
        helper.make_node("Sub", ["cure_m2", "cure_mm"], ["cure_var"], name="cure_var"),
        helper.make_node("Mul", ["cure_var", "cure_variance"], ["cure_scaled"], name="cure_scaled"),
        helper.make_node("Add", [value, "cure_scaled"], ["cure_plus"], name="cure_plus"),
        helper.make_node("Sub", ["cure_plus", "cure_offset"], ["cure_out"], name="cure_out"),
    ]
    _put_behind(model, node, made, value, "cure_out")
    for one in (made[0], made[7]):
        one.input[0] = value


def smallest(scene: CureScene, most: int, deadline_s: float) -> Tuple[Optional[int], int]:
    """Search the smallest set exhaustively; return its size (None: none was found), and up to which
    size all sets were tried.

    Parameters
    ----------
    most
        Larger sets are not looked for.
    """
    started, ops, tried = time.monotonic(), scene.ops, 0
    if len(ops) > _MOST_OPS:
        return None, 0
    for size in range(1, most + 1):
        for kept in itertools.combinations(ops, size):
            if scene.worst(kept)[0]:
                return size, size - 1
            tried += 1
            if tried > _MOST_SETS or time.monotonic() - started > deadline_s:
                return None, size - 1
    return None, most


def try_case(
    case: Case, cache: str, mode: Sequence[str], search_s: float, keep: str = ""
) -> Dict[str, Any]:
    """Return what came of one case; ``left_out`` tells why it is none."""
    found: Dict[str, Any] = {"case": case.text()}
    with tempfile.TemporaryDirectory(prefix="goldwatch-cure-trial-") as folder:
        folder = keep or folder
        os.makedirs(folder, exist_ok=True)
        try:
            scene = CureScene(case, cache, folder)
            right, before = scene.worst(())
            if right:
                raise LookupError("its outputs are within limits all the same")
            best, _ = scene.worst(scene.ops)
            if not best:
                raise LookupError("float32 throughout does not mend it")
            found.update(
                ops=len(scene.ops),
                habit="plain" if scene.habit is PLAIN else "fused",
                before=before,
            )
            kept: List[str] = []
            for turn in range(3):
                result, om = scene.compare(kept, str(turn))
                out = os.path.join(folder, "cure%d" % turn)
                code, text = _goldwatch(["cure", result, "-f", om, "-o", out, "--quiet", *mode])
                with open(os.path.join(out, "cure.json"), encoding="utf-8") as stream:
                    document = json.load(stream)
                raised = [name for one in document["raised"] for name in one["ops"]]
                kept = sorted({*kept, *raised})
                right, after = scene.worst(kept)
                found.setdefault("rounds", []).append(
                    {
                        "code": code,
                        "raised": len(kept),
                        "right": right,
                        "after": after,
                        "estimate": document["estimate"],
                    }
                )
                if right or not raised:
                    break
            found.update(
                cured=right,
                first=found["rounds"][0]["right"],
                raised=len(kept),
                sentence=document["sentence"],
                kept=kept,
            )
            if right:
                least, tried = smallest(scene, min(_MOST_LARGE, len(kept)), search_s)
                found.update(smallest=least, all_tried_up_to=tried)
        except LookupError as reason:
            found["left_out"] = str(reason)
    return found
