"""The network computed here with some operators in float32, the others with the errors that the
device showed: is that enough?

What :mod:`.choosing_ops` estimates takes errors for independent of each other. A rehearsal does
not: errors that come from one operator by two ways cancel or add up as they do on the device. It
needs the original model, and memory for all tensors of one run.
"""

from __future__ import annotations

from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from ...base.errors import GoldwatchError
from ...operators import CannotCompute
from ...recomputing.piece import rounded
from ...recomputing.recomputed_output import NotComputable, OpFunction

Array = Any
Value = Tuple[int, int]
Judge = Callable[[Mapping[Value, Array], bool], float]

MOST_ELEMENTS = 1 << 26
"""Of all tensors together; three times as many floats are held at once."""
ELEMENTS, FEWEST, MOST = 1 << 30, 40, 400
"""So many elements are computed in all rehearsals of a choice together, of which there are so many
at least and at most.
"""


class Rehearsed(NamedTuple):
    """An operator of a rehearsal.

    Attributes
    ----------
    name
        The device's op.
    step
        How it computes.
    narrow
        The element type in which it is stored where it is not raised; empty where it is float32
        already.
    added
        By output what the device's differs by from one rounding of what float32 makes; those that
        are only rounded have none.
    wrong
        It is wrong beyond the rounding of its type.
    """

    name: str
    step: OpFunction
    narrow: str
    added: Mapping[Value, Array]
    wrong: bool


class Rehearsal:
    """A network that can be computed with any operators raised.

    Parameters
    ----------
    ops
        In the order of execution.
    golden
        Returns a golden tensor by its original name and output: what no operator here makes.
    judge
        Returns the worst output's distance in units of what is allowed, of the values by their
        number in the original, and whether any operator is still wrong in them: without one slices
        are not judged, as in a comparison.
    """

    def __init__(
        self,
        ops: Sequence[Rehearsed],
        golden: Callable[[str, int], Optional[Array]],
        judge: Judge,
    ) -> None:
        self._ops = list(ops)
        self._judge = judge
        self._given: Dict[Value, Array] = {}
        made: Set[Value] = set()
        for op in self._ops:
            for value, name, index in op.step.inputs:
                if value not in made and value not in self._given:
                    array = golden(name, index)
                    if array is None:
                        raise NotComputable("%s:%d has no golden data" % (name, index))
                    self._given[value] = array
            made.update(value for value, _ in op.step.outputs)
        self._maker = {value: op for op in self._ops for value, _ in op.step.outputs}
        self._base: Optional[Tuple[FrozenSet[str], Dict[Value, Array]]] = None
        self.trials = 0

    def worst(self, raised: Iterable[str], keep: bool = False) -> float:
        """Return the worst output's distance in units of what is allowed, with some operators
        raised.

        Parameters
        ----------
        keep
            What comes next differs little from this: only what is otherwise is computed then.
        """
        high = frozenset(raised)
        values = self._run(high)
        self.trials += 1
        if keep or self._base is None:
            self._base = high, values
        return self._judge(values, any(op.wrong and op.name not in high for op in self._ops))

    def _run(self, high: FrozenSet[str]) -> Dict[Value, Array]:
        before, known = self._base if self._base is not None else (frozenset(), {})
        turned = high ^ before
        values: Dict[Value, Array] = dict(self._given)
        changed: Set[Value] = set()
        for op in self._ops:
            makers = {
                self._maker[value].name for value, _, _ in op.step.inputs if value in self._maker
            }
            same = known and op.name not in turned and not makers & turned
            if same and not any(value in changed for value, _, _ in op.step.inputs):
                values.update(
                    {value: known[value] for value, _ in op.step.outputs if value in known}
                )
                continue
            with np.errstate(all="ignore"):
                for value, array in self._outputs_of(op, high, values).items():
                    if value not in known or not np.array_equal(array, known[value]):
                        changed.add(value)
                    values[value] = array
        return values

    def _outputs_of(
        self, op: Rehearsed, high: FrozenSet[str], values: Mapping[Value, Array]
    ) -> Dict[Value, Array]:
        exact = op.name in high
        low = bool(op.narrow) and not exact
        fed = {}
        for value, _, _ in op.step.inputs:
            array = values[value]
            maker = self._maker.get(value)
            stored_wide = maker is None or not maker.narrow or maker.name in high
            fed[value] = (
                rounded(array, op.narrow)
                if low and stored_wide and array.dtype.kind == "f"
                else array
            )
        made = op.step.compute(fed, not exact)
        if exact:
            return made
        arrays = {}
        for value, array in made.items():
            off = op.added.get(value)
            array = rounded(array, op.narrow) if low else array
            if off is not None and off.shape == array.shape:
                array = rounded(array + off, op.narrow) if low else array + off
            arrays[value] = array
        return arrays


def rehearsed(
    names: Sequence[Tuple[str, str, bool, bool]],
    step: Callable[[str], OpFunction],
    added: Mapping[Tuple[str, int], Array],
    golden: Callable[[str, int], Optional[Array]],
    judge: Judge,
) -> Optional[Rehearsal]:
    """Return the rehearsal of a network; None where an operator or a golden tensor is missing for
    it.

    Operators that make no floats may be missing: golden data stand for what they make.

    Parameters
    ----------
    names
        Of the ops in the order of execution, with the type that each is stored in (empty: float32),
        whether it makes floats, and is wrong.
    step
        Returns how an op computes.
    added
        By op and output what the device's differs by.
    """
    try:
        ops = []
        for name, narrow, makes_floats, wrong in names:
            try:
                rehearsal = step(name)
            except (NotComputable, GoldwatchError):
                if makes_floats:
                    raise
                continue
            off = {
                value: added[name, number]
                for value, number in rehearsal.outputs
                if (name, number) in added
            }
            ops.append(Rehearsed(name, rehearsal, narrow, off, wrong))
        return Rehearsal(ops, golden, judge)
    except (CannotCompute, GoldwatchError, MemoryError):
        return None


def narrowed(
    rehearsal: Rehearsal,
    units: Mapping[str, Sequence[str]],
    order: Sequence[str],
    chosen: int,
    trials: int,
    allowed: float,
) -> Optional[Tuple[List[str], float, float]]:
    """Return the fewest units that suffice by rehearsals, with the worst output's distance before
    and then; None where none suffice.

    Parameters
    ----------
    order
        The units, what an estimate holds for most needed first.
    chosen
        How many of them it holds for enough.
    trials
        How many rehearsals there may be.
    allowed
        The distance of the worst output, in units of its limit.
    """

    def worst(high: Iterable[str], keep: bool = False) -> float:
        return rehearsal.worst([op for unit in high for op in units[unit]], keep)

    before = worst(())
    low, high = 0, chosen
    if worst(order[:high]) > allowed:
        low, high = high, len(order)
        if worst(order[:high]) > allowed:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if worst(order[:middle]) <= allowed else (middle, high)
    kept = list(order[:high])
    worst(kept, keep=True)
    size = max(1, len(kept) // 2)
    while rehearsal.trials < trials and kept:
        at, less = len(kept), False
        while at > 0 and rehearsal.trials < trials:
            # What is needed least comes last.
            part = kept[max(0, at - size) : at]
            rest = [unit for unit in kept if unit not in part]
            if worst(rest) <= allowed:
                kept, less = rest, True
                worst(kept, keep=True)
            at -= size
        if size == 1 and not less:
            break
        size = max(1, size // 2)
    return kept, before, worst(kept)
