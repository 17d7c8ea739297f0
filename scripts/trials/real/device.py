"""The device: ops computed one after another from what they read, in float32, and what they make
rounded to its type."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from .lowering import Habit, Lowered, Op, Source
from .sessions import run_node

Array = Any
Store = Dict[Source, Array]

_TERMS = 16
"""So many products a cube unit adds before it rounds the sum, where it sums in float16."""
_CURVES: Dict[str, Callable[[Array], Array]] = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
}
_SUMMING = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def rounded(values: Array, dtype: str) -> Array:
    """Return float32 values that the type holds; whole numbers and truth values as they are."""
    if values.dtype != np.float32 and values.dtype != np.float64:
        return values
    with np.errstate(all="ignore"):
        if dtype == "float16":
            return values.astype(np.float16).astype(np.float32)
        values = np.ascontiguousarray(values, np.float32).reshape(values.shape)
        if dtype != "bfloat16":
            return values
        bits = values.view(np.uint32)
        cut = (
            (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
            & np.uint32(0xFFFF0000)
        ).view(np.float32)
        return np.where(np.isfinite(values), cut, values)


def cut_off(values: Array, dtype: str) -> Array:
    """Return float32 values that the type holds, those between two of them brought nearer to 0."""
    near = rounded(values, dtype)
    if near.dtype != np.float32 or dtype == "float32":
        return near
    if dtype == "float16":
        nearer = np.nextafter(near.astype(np.float16), np.float16(0)).astype(np.float32)
    else:
        nearer = (near.view(np.uint32) - np.uint32(0x10000)).view(np.float32)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(near) & (np.abs(near) > np.abs(values)), nearer, near)


def short(values: Array) -> Array:
    """Return float32 values with 10 bits of mantissa."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (
        ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).reshape(values.shape)
    )


class Change(NamedTuple):
    """How one op is computed wrong.

    Attributes
    ----------
    constants
        From an op's constants by the nodes' names to the wrong ones.
    nodes
        From its nodes to the wrong ones.
    half_sums
        It sums in float16.
    after
        From what it would make, not yet rounded, to what it makes.
    """

    constants: Optional[Callable[[Dict[str, Array]], Dict[str, Array]]] = None
    nodes: Optional[Callable[[Sequence[Any]], Sequence[Any]]] = None
    half_sums: bool = False
    after: Optional[Callable[[List[Array]], List[Array]]] = None


RIGHT = Change()
"""Nothing is wrong."""


class Device:
    """Computes a lowered network.

    Parameters
    ----------
    lowered, habit
        The network, and how the device computes.
    """

    def __init__(self, lowered: Lowered, habit: Habit) -> None:
        self.lowered, self.habit = lowered, habit
        self._constants: Dict[str, Dict[str, Array]] = {}

    def constants(self, op: Op) -> Dict[str, Array]:
        """Return an op's constants in the device's types."""
        if op.name not in self._constants:
            self._constants[op.name] = {
                entry.value: rounded(entry.array, entry.dtype) for entry in op.constants
            }
        return self._constants[op.name]

    def exact(self) -> Device:
        """Return a device that reads the same and sums in float32 all that it reads."""
        made = Device(self.lowered, self.habit._replace(precision="float32", half_sums=False))
        made._constants = self._constants
        return made

    def feeds(self, op: Op, store: Store) -> Dict[str, Array]:
        """Return what an op reads, in the shapes in which its nodes read it."""
        shapes = self.lowered.values
        return {
            entry.value: store[entry.source].reshape(shapes[entry.value].shape)
            for entry in op.inputs
        }

    def raw(self, op: Op, store: Store, change: Change = RIGHT) -> List[Array]:
        """Return what an op makes, before it is rounded."""
        if not op.nodes:
            made = [store[op.inputs[0].source]]
            return change.after(made) if change.after is not None else made
        constants = self.constants(op)
        known = dict(
            change.constants(constants) if change.constants is not None else constants,
            **self.feeds(op, store),
        )
        nodes = op.nodes if change.nodes is None else change.nodes(op.nodes)
        for node in nodes:
            known.update(
                zip(
                    [value for value in node.output if value],
                    self._node(node, known, change.half_sums),
                )
            )
        made = [known[value] for value in nodes[-1].output if value]
        return change.after(made) if change.after is not None else made

    def one(self, op: Op, store: Store, change: Change = RIGHT) -> List[Array]:
        """Return what an op writes: what it makes, in its outputs' types."""
        to_type = cut_off if self.habit.cut and op.nodes else rounded
        return [
            to_type(array, out.dtype) for array, out in zip(self.raw(op, store, change), op.outputs)
        ]

    def run(self, data: Optional[Dict[str, Array]] = None) -> Store:
        """Return what every op writes.

        Parameters
        ----------
        data
            The network's inputs; None: those that it was compiled for.
        """
        store: Store = {
            (name, 0): array
            for name, array in (self.lowered.data if data is None else data).items()
        }
        return self.go_on(store, [op for op in self.lowered.ops if op.type != "Data"])

    def go_on(self, store: Store, ops: Sequence[Op]) -> Store:
        """Compute the rest of a run into ``store``, and return it."""
        for op in ops:
            for index, array in enumerate(self.one(op, store)):
                store[op.name, index] = array
        return store

    def behind(self, op: Op) -> List[Op]:
        """Return the ops that read what an op makes, directly or not, in order."""
        names, found = {op.name}, []
        for entry in self.lowered.ops:
            if any(read.source[0] in names for read in entry.inputs):
                names.add(entry.name)
                found.append(entry)
        return found

    def _node(self, node: Any, known: Dict[str, Array], half_sums: bool) -> List[Array]:
        feeds = {value: known[value] for value in node.input if value}
        if node.op_type in _SUMMING:
            if self.habit.precision == "hf32":
                feeds = {
                    name: short(array) if index < 2 else array
                    for index, (name, array) in enumerate(feeds.items())
                }
            if half_sums or self.habit.half_sums:
                to_type = cut_off if self.habit.cut else rounded
                found = _half_summed(node, feeds, self.lowered.opset, to_type)
                if found is not None:
                    return [found]
        if self.habit.sharp and node.op_type in _CURVES:
            with np.errstate(all="ignore"):
                x = known[node.input[0]]
                return [_CURVES[node.op_type](x.astype(np.float64)).astype(x.dtype)]
        return run_node(node, feeds, self.lowered.opset)


def _half_summed(
    node: Any, feeds: Dict[str, Array], opset: int, to_type: Callable[[Array, str], Array]
) -> Optional[Array]:
    """Return a convolution or a product of matrices whose sums are brought to float16 every few
    terms; None for others."""
    names = list(node.input)
    left, right = feeds[names[0]], feeds[names[1]]
    with np.errstate(all="ignore"):
        if node.op_type == "MatMul":
            total = np.float32(0)
            for at in range(0, left.shape[-1], _TERMS):
                part = left[..., at : at + _TERMS] @ right[..., at : at + _TERMS, :]
                total = to_type(total + part, "float16")
            return total
        given = {entry.name: entry for entry in node.attribute}
        if (
            node.op_type != "Conv"
            or left.shape[1] <= _TERMS
            or ("group" in given and given["group"].i != 1)
        ):
            return None
        total = np.float32(0)
        for at in range(0, left.shape[1], _TERMS):
            part = {names[0]: left[:, at : at + _TERMS], names[1]: right[:, at : at + _TERMS]}
            if len(names) > 2:
                part[names[2]] = feeds[names[2]] * np.float32(at == 0)
            total = to_type(total + run_node(node, part, opset)[0], "float16")
        return total
