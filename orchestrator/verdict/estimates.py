"""Every operator's own error, estimated from the rows of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ..dumps.place import Place
from .inputs import UNKNOWN, Inputs, InputState, joined
from .observations import Observation, Observations, ObservedOp
from .own_error import SUSPECT_SCORE, Measured, Normal, fit, rounding

HIGHEST_SCORE = 99.0
"""The score of what needs no estimate: NaN out of finite inputs, other integers out of equal ones."""

HOPELESS = 0.1
"""Inputs that are wrong by this much hide whatever an operator adds."""

Decides = Callable[[str, Optional[str]], bool]


class _Sizes(NamedTuple):
    """Distances of one output and of its inputs, over all elements and over the worst slice."""

    distance: float
    inputs: float
    slice_distance: float
    slice_inputs: float


@dataclass(frozen=True)
class Estimate:
    """What one output of one operator says about its operator.

    Attributes
    ----------
    op, output, inputs
        The operator, the output's row, and the operator's data inputs.
    known
        Whether every data input was compared; else ``inputs_distance`` is that of what lies nearest before them.
    distance, inputs_distance
        Relative distances of the output and of its inputs together (root of the sum of squares).
    slice_distance, slice_inputs
        The same of the worst slices.
    expected
        The distance that inputs and rounding explain, in this network.
    score
        Of the own error, over all elements or in the worst slice; above :data:`SUSPECT_SCORE` it makes a suspect.
    by_slice
        The worst slice has the higher score.
    whole_type
        The type's operators are all alike, but unlike the other types.
    normal
        What is normal for the operator's type.
    """

    op: ObservedOp
    output: Observation
    inputs: Tuple[InputState, ...]
    known: bool
    distance: float
    inputs_distance: float
    slice_distance: float
    slice_inputs: float
    expected: float
    score: float
    by_slice: bool
    whole_type: bool
    normal: Normal

    @property
    def suspect(self) -> bool:
        """Whether the operator is wrong by itself, as far as can be told."""
        return self.score > SUSPECT_SCORE


class Estimator:
    """Estimates the operators of one run.

    Parameters
    ----------
    seen
        The run's rows.
    inputs
        Finds the inputs of its operators.
    decides
        Tells of a type whether its operators decide (ArgMax, comparisons, casts to integers …): with inputs that differ by rounding only
        their outputs may differ.
    """

    def __init__(self, seen: Observations, inputs: Inputs, decides: Decides) -> None:
        self._seen = seen
        self._inputs = inputs
        self._decides = decides
        self._before: Dict[Place, Tuple[float, float]] = {}

    def run(self) -> List[Estimate]:
        """Return an estimate of every compared output, in execution order."""
        found = [(op, output, *self._sizes(op, output)) for op in self._seen.ordered() for output in self._outputs(op)]
        smooth = [(op, output, sizes) for op, output, _, _, sizes in found if not _whole(output.dtype) and not output.spoiled]
        over_all = fit([Measured(op.name, op.type, s.distance, s.inputs, rounding(o.dtype)) for op, o, s in smooth])
        by_slice = fit([Measured(op.name, op.type, s.slice_distance, s.slice_inputs, rounding(o.dtype)) for op, o, s in smooth])
        return [self._estimate(op, output, states, known, sizes, over_all, by_slice) for op, output, states, known, sizes in found]

    def _outputs(self, op: ObservedOp) -> List[Observation]:
        return [output for _, output in sorted(op.outputs.items()) if output.compared]

    def _sizes(self, op: ObservedOp, output: Observation) -> Tuple[Tuple[InputState, ...], bool, _Sizes]:
        """Return an operator's inputs, whether all of them were compared, and the distances."""
        states = tuple(self._inputs.of(op))
        rows = [state.seen for state in states if state.seen is not None]
        known = bool(states) and all(state.state != UNKNOWN for state in states)
        if not known:
            rows += self._inputs.behind(op)
        distance, slices = joined([row.distance for row in rows]), joined([_slice(row) for row in rows])
        if not rows and self._inputs.node(op) is None:
            # Nothing tells what feeds the operator: the worst that ran before it may.
            distance, slices = self._before.get(op.place, (0.0, 0.0))
        if output.distance < math.inf:
            before = self._before.get(op.place, (0.0, 0.0))
            self._before[op.place] = max(before[0], output.distance), max(before[1], _slice(output))
        return states, known, _Sizes(output.distance, distance, _slice(output), slices)

    def _estimate(
        self,
        op: ObservedOp,
        output: Observation,
        states: Tuple[InputState, ...],
        known: bool,
        sizes: _Sizes,
        over_all: Dict[str, Normal],
        by_slice: Dict[str, Normal],
    ) -> Estimate:
        normal, normal_slice = over_all.get(op.type, over_all[""]), by_slice.get(op.type, by_slice[""])
        rounded = rounding(output.dtype)
        score, sliced, whole_type = 0.0, False, False
        if output.spoiled:
            score = 0.0 if any(state.seen is not None and state.seen.spoiled for state in states) else HIGHEST_SCORE
        elif _whole(output.dtype):
            score = HIGHEST_SCORE if self._wrong_integers(op, output, states, known, sizes) else 0.0
        elif sizes.inputs < HOPELESS:
            one = normal.score(sizes.distance, sizes.inputs, rounded)
            other = normal_slice.score(sizes.slice_distance, sizes.slice_inputs, rounded)
            score, sliced = max(one, other), other > one
            if score <= SUSPECT_SCORE and not normal.rare:
                alike = over_all[""].score(sizes.distance, sizes.inputs, rounded)
                if alike > SUSPECT_SCORE:
                    score, sliced, whole_type = alike, False, True
        return Estimate(
            op=op,
            output=output,
            inputs=states,
            known=known,
            distance=sizes.distance,
            inputs_distance=sizes.inputs,
            slice_distance=sizes.slice_distance,
            slice_inputs=sizes.slice_inputs,
            expected=_explained(over_all[""] if whole_type else normal, normal_slice, sizes, rounded, sliced),
            score=min(score, HIGHEST_SCORE),
            by_slice=sliced,
            whole_type=whole_type,
            normal=normal,
        )

    def _wrong_integers(self, op: ObservedOp, output: Observation, states: Tuple[InputState, ...], known: bool, sizes: _Sizes) -> bool:
        """Tell whether integers differ although nothing that feeds them does."""
        if not output.different or not known or not sizes.inputs < HOPELESS:
            return False
        differing = [state.seen for state in states if state.seen is not None and (state.seen.different or state.seen.distance > 0)]
        if any(_whole(row.dtype) for row in differing):
            return False
        return not differing or not self._decides(op.type, output.dtype)


def _explained(normal: Normal, normal_slice: Normal, sizes: _Sizes, rounded: float, sliced: bool) -> float:
    """Return the distance that inputs and rounding explain, over all elements or in the worst slice."""
    return normal_slice.expected(sizes.slice_inputs, rounded) if sliced else normal.expected(sizes.inputs, rounded)


def _slice(row: Observation) -> float:
    """Return the worst slice's distance, where it was computed, else the tensor's."""
    return row.distance if math.isnan(row.slice_distance) else row.slice_distance


def _whole(dtype: str) -> bool:
    """Tell whether a type holds whole numbers or truth values: equal or not."""
    return dtype.startswith(("int", "uint", "bool"))


def first_of(estimates: List[Estimate], op: str, place: Place) -> Optional[Estimate]:
    """Return the estimate of an operator's worst output at a place."""
    found = [entry for entry in estimates if entry.op.name == op and entry.op.place == place]
    return max(found, key=lambda entry: entry.score, default=None)
