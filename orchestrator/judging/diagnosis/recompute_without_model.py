"""Outputs computed again without the original model: golden data show what their operators
compute.
"""

from __future__ import annotations

from itertools import chain
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ...base.element_types import element_count
from ...dumps.place import Place
from ...metrics.patterns import MOST_ELEMENTS, AlignedPair
from ...recomputing.formulas_by_type import is_elementwise, is_known_type
from ...recomputing.formulas_fitted_to_golden import output_by_golden, recomputed_by_golden
from ...recomputing.recomputed_output import DECISION, ComputedPair, Recomputed
from ..by_recomputation import RecomputationVerdict, excess, judge_recomputed
from .observed_ops import ObservedOp, SomeOps
from .op_input_states import GOOD, Inputs, InputState
from .row_digest import Observation

if TYPE_CHECKING:
    from ...metrics.patterns import Walked
    from ...recomputing.attributes_and_constants import AttributesAndConstants
    from ...recomputing.lost_numbers import LostNumber
    from ...recomputing.variant_search import VariantSearch

Whole = Callable[
    [ObservedOp, Observation, Sequence[InputState]], Tuple[List[AlignedPair], Optional[AlignedPair]]
]
"""Reads the tensors of all inputs and of one output; None in place of the output where one cannot
be read.
"""

Others = Callable[[int], Iterable[Tuple[str, Any]]]
"""Yields other golden tensors of so many elements, by name."""

_NOT_KNOWN = "what it computes is not known without the original model"
_FROM_OTHER_DUMP = "its constants are in no dump, and those that the other one shows may be wrong"
_NOT_SHOWN = "golden data do not show what it computes"
_TOO_LARGE = "its tensors are too large to learn from golden data what it computes"
_NOT_READ = "its tensors, or golden data's, cannot be read any more"
_NOT_COMPARED = "not all of its inputs were compared"


def computed_by_golden(
    op: ObservedOp,
    inputs: Sequence[InputState],
    whole: Whole,
    facts: Optional[AttributesAndConstants],
    learns: bool = True,
) -> List[Recomputed]:
    """Compute the outputs of an operator by what golden data tell.

    Parameters
    ----------
    inputs
        The operator's.
    facts
        What the model's json and the dump tell of the op besides.
    learns
        Whether constants are learnt from golden data.
    """
    outputs = []
    for number, output in op.outputs.items():
        from ...recomputing.repeated_decisions import can_repeat

        if not output.compared:
            continue
        if output.whole and not (can_repeat(op.type) or _is_told(op, inputs, facts)):
            continue
        if not learns:
            outputs.append(Recomputed(op.name, op.type, number, reason=_FROM_OTHER_DUMP))
        elif is_known_type(op.type) or can_repeat(op.type) or _is_told(op, inputs, facts):
            outputs.append(_computed(op, output, inputs, whole, _of_output(facts, output)))
        else:
            outputs.append(Recomputed(op.name, op.type, number, reason=_NOT_KNOWN))
    return outputs


def _is_told(
    op: ObservedOp, inputs: Sequence[InputState], facts: Optional[AttributesAndConstants]
) -> bool:
    """Tell whether an operator is computed by what the json tells of it: of one input and nothing
    else most lack their weights.
    """
    if facts is None or not (facts.attributes or facts.constants or len(inputs) > 1):
        return False
    from ...recomputing.formulas_fitted_to_golden import is_told_by_dump

    return is_told_by_dump(op.type)


def _of_output(
    facts: Optional[AttributesAndConstants], output: Observation
) -> Optional[AttributesAndConstants]:
    return None if facts is None else facts._replace(output=output.number)


def _computed(
    op: ObservedOp,
    output: Observation,
    inputs: Sequence[InputState],
    whole: Whole,
    facts: Optional[AttributesAndConstants],
) -> Recomputed:
    of_constants = not inputs and facts is not None and facts.constants
    if not (inputs or of_constants) or any(state.observation is None for state in inputs):
        return Recomputed(op.name, op.type, output.number, reason=_NOT_COMPARED)
    input_pairs, output_pair = whole(op, output, inputs)
    if output_pair is None:
        return Recomputed(op.name, op.type, output.number, reason=_NOT_READ)
    if any(pair.sampled for pair in (*input_pairs, output_pair)):
        return Recomputed(op.name, op.type, output.number, reason=_TOO_LARGE)
    # Equal inputs leave no choice: a tie that was decided otherwise is the operator's own.
    inputs_differ = any(
        state.observation is not None
        and (state.observation.different or state.observation.distance > 0)
        for state in inputs
    )
    from ...recomputing.repeated_decisions import can_repeat, repeat_decisions

    decided = (
        repeat_decisions(op.type, input_pairs, output_pair)
        if inputs_differ and can_repeat(op.type)
        else None
    )
    if decided is not None:
        return Recomputed(op.name, op.type, output.number, DECISION, output.dtype, decided)
    from ...recomputing.formulas_by_type import LOOSE

    error = (
        None
        if output.whole and not _is_told(op, inputs, facts)
        else recomputed_by_golden(op.type, input_pairs, output_pair, LOOSE.get(output.dtype), facts)
    )
    if error is None:
        return _by_json_alone(op, output, inputs, input_pairs, output_pair, facts) or Recomputed(
            op.name, op.type, output.number, reason=_NOT_SHOWN
        )
    return Recomputed(
        op.name, op.type, output.number, error.kind, output.dtype, error.tight, error.loose
    )


def _by_json_alone(
    op: ObservedOp,
    output: Observation,
    inputs: Sequence[InputState],
    input_pairs: Sequence[AlignedPair],
    output_pair: AlignedPair,
    facts: Optional[AttributesAndConstants],
) -> Optional[Recomputed]:
    """Return that an output is what the json says of inputs that are right, and golden data do not
    follow by that; else None.
    """
    if facts is None or not (_is_told(op, inputs, facts) or is_elementwise(op.type, len(inputs))):
        return None
    if any(state.state != GOOD for state in inputs):
        return None
    from ...recomputing.formulas_fitted_to_golden import by_json_alone

    error = by_json_alone(op.type, input_pairs, output_pair, facts, excess)
    if error is None:
        return None
    return Recomputed(op.name, op.type, output.number, DECISION, output.dtype, error, by_json=True)


def beside_by_golden(
    op: ObservedOp,
    output: Observation,
    inputs: Sequence[InputState],
    whole: Whole,
    facts: Optional[AttributesAndConstants] = None,
) -> Optional[ComputedPair]:
    """Return an output beside what golden data tell of its operator makes of the device's own
    inputs; None where they do not tell it.
    """
    input_pairs, output_pair = _pairs(op, output, inputs, whole)
    facts = _of_output(facts, output)
    computed_output = (
        None if output_pair is None else output_by_golden(op.type, input_pairs, output_pair, facts)
    )
    if output_pair is None or computed_output is None:
        return None
    names = [state.source or state.tensor for state in inputs]
    return ComputedPair(
        output_pair.target,
        computed_output,
        output.dtype,
        [(name, pair.target) for name, pair in zip(names, input_pairs)],
    )


def variants_without_model(
    op: ObservedOp,
    output: Observation,
    inputs: Sequence[InputState],
    whole: Whole,
    facts: Optional[AttributesAndConstants],
) -> Optional[VariantSearch]:
    """Return what the device may have computed in place of that by which golden data follow; None
    where they do not tell it.
    """
    input_pairs, output_pair = _pairs(op, output, inputs, whole)
    if output_pair is None:
        return None
    from ...recomputing.variants_by_golden import variants_by_golden

    of_output = _of_output(facts, output)
    search = variants_by_golden(op.name, op.type, input_pairs, output_pair, of_output, excess)
    # A constant that was fitted to golden data stands in the dump, otherwise.
    if search is None and of_output is not None and of_output.constants:
        return fed_otherwise_by_golden(op, output, inputs, whole, facts, lambda size: ())
    return search


def fed_otherwise_by_golden(
    op: ObservedOp,
    output: Observation,
    inputs: Sequence[InputState],
    whole: Whole,
    facts: Optional[AttributesAndConstants],
    others: Others,
) -> Optional[VariantSearch]:
    """Return that the device computes what the json says of what it feeds the operator with, where
    golden data do not follow by that; else None.
    """
    input_pairs, output_pair = _pairs(op, output, inputs, whole)
    if output_pair is None:
        return None
    from ...recomputing.variants_by_golden import fed_otherwise

    fed_with = [
        (state.number, "output %d of %s" % (state.source_output, state.source))
        if state.source
        else (state.number, state.tensor)
        for state in inputs
    ]
    of_output = _of_output(facts, output)
    return fed_otherwise(op.type, input_pairs, output_pair, of_output, excess, fed_with, others)


def _pairs(
    op: ObservedOp, output: Observation, inputs: Sequence[InputState], whole: Whole
) -> Tuple[List[AlignedPair], Optional[AlignedPair]]:
    if any(state.observation is None for state in inputs):
        return [], None
    return whole(op, output, inputs)


def made_of_inputs(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> bool:
    """Tell whether an output is what its operator makes of the device's own inputs, however far
    these are from golden data.
    """
    from ...recomputing.repeated_decisions import can_repeat, repeat_decisions

    if can_repeat(op_type):
        decisions = repeat_decisions(op_type, inputs, output, exactly=True)
        if decisions is not None:
            return not decisions.unequal
    return follows(op_type, inputs, output) is True


def follows(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> Optional[bool]:
    """Tell whether an output is what its operator makes of the device's own inputs, but for
    rounding; None: golden data show nothing.
    """
    from ...recomputing.formulas_by_type import LOOSE

    recomputed = recomputed_by_golden(op_type, inputs, output, LOOSE.get(output.dtype), None)
    if recomputed is None:
        return None
    return any(
        error is not None and excess(error) <= 1.0 for error in (recomputed.tight, recomputed.loose)
    )


class TensorReader:
    """Reads the tensors of finished rows again; this one can read nothing."""

    def pair(
        self, op: ObservedOp, row: Observation, most: int = MOST_ELEMENTS
    ) -> Optional[AlignedPair]:
        """Return a row's target and golden elements, of more than ``most`` a sample; None where
        they cannot be read any more.
        """
        return None

    def recompute(
        self, inputs: Inputs, urgent: Sequence[ObservedOp], others: Optional[SomeOps] = None
    ) -> Mapping[Tuple[Place, str, int], RecomputationVerdict]:
        """Compute operators again from the device's own inputs: the urgent ones, and others as far
        as the time allows.

        Parameters
        ----------
        inputs
            Finds the inputs of operators.

        Returns
        -------
        dict
            What is said of each output that could be computed, or why it could not, by place, op
            and number.
        """
        computed = {}
        for op in chain(urgent, others or ()):
            for output in computed_by_golden(op, inputs.of(op), self.whole, None):
                computed[op.place, op.name, output.number] = output
        return judge_recomputed(computed)

    def recomputed(self) -> Optional[Dict[str, Any]]:
        """Return how many operators were computed again and what came out, as a document; None
        where none were.
        """
        return None

    def computed(
        self, op: ObservedOp, output: Observation, inputs: Sequence[InputState]
    ) -> Optional[ComputedPair]:
        """Return an output beside what is computed of the device's own inputs; None where it cannot
        be computed.
        """
        return beside_by_golden(op, output, inputs, self.whole)

    def variants(
        self, op: ObservedOp, output: Observation, inputs: Sequence[InputState]
    ) -> Optional[VariantSearch]:
        """Return what the device may have computed in place of an output that is wrong; None where
        that cannot be computed.
        """
        return None

    def by_json(
        self,
        op: ObservedOp,
        output: Observation,
        inputs: Sequence[InputState],
        others: Others,
    ) -> Optional[VariantSearch]:
        """Return that an output that could not be computed is what the json says of what it feeds
        the operator with, and golden data do not follow by that; else None.

        Parameters
        ----------
        others
            Yields other golden tensors of so many elements, by name.
        """
        return None

    def unpaired_goldens(
        self, place: Place, paired: Collection[Optional[str]], size: int
    ) -> Iterable[Tuple[str, Any]]:
        """Yield golden tensors of so many elements that are in none of some files, by name."""
        return ()

    def golden_variants(self, op: ObservedOp, output: Observation) -> Optional[VariantSearch]:
        """Return by what a golden output that does not follow from golden inputs may have been made
        in place of what the model says; None where that cannot be computed.
        """
        return None

    def golden_follows(self, op: ObservedOp, output: Observation) -> Optional[bool]:
        """Tell whether a golden output follows from the golden inputs of its operator; None where
        that cannot be computed.
        """
        return None

    def lost_number(self, op: ObservedOp, output: Observation) -> Optional[LostNumber]:
        """Return the number of the original model (an epsilon, a constant) that an output shows the
        device not to have; None where it shows none.
        """
        return None

    def walked(self, op: ObservedOp, row: Observation, background: float) -> Optional[Walked]:
        """Look at every element of a row's tensors (:func:`goldwatch.metrics.patterns.walk`);
        None where that cannot be.
        """
        return None

    def other_file(self, place: Place) -> Optional[Tuple[str, str]]:
        """Return the names of the files that golden data of a place were made of and its om was
        compiled from, where these are two; else None.
        """
        return None

    def stale(self, op: ObservedOp) -> str:
        """Return a sentence where an operator's dump is older than the model file; empty where it
        is not.
        """
        return ""

    def whole(
        self, op: ObservedOp, output: Observation, inputs: Sequence[InputState]
    ) -> Tuple[List[AlignedPair], Optional[AlignedPair]]:
        """Return the tensors of all inputs and of one output; None in place of the output where one
        cannot be read.
        """
        pairs = [
            _as_read(self.pair(state.owner, state.observation), state.shape)
            for state in inputs
            if state.owner is not None and state.observation is not None
        ]
        read = [pair for pair in pairs if pair is not None]
        return read, self.pair(op, output) if len(read) == len(inputs) else None

    def same_values(
        self, op: ObservedOp, row: Observation, other_op: ObservedOp, other: Observation
    ) -> bool:
        """Tell whether two rows hold the same values in the same order on both sides, in shapes
        that may differ; False where they cannot be read.
        """
        if (op.file, row.tensor) == (other_op.file, other.tensor):
            return True
        pairs = [self.pair(op, row), self.pair(other_op, other)]
        read = [pair for pair in pairs if pair is not None and not pair.sampled]
        return len(read) == len(pairs) and all(
            _equal(*(getattr(pair, side) for pair in read)) for side in ("target", "golden")
        )


def _as_read(
    pair: Optional[AlignedPair], shape: Optional[Tuple[int, ...]]
) -> Optional[AlignedPair]:
    """Return a pair in the shape in which its reader has it: what only reshapes may have no task.

    Other axes are another shape; the same in another order are another layout.
    """
    if pair is None or pair.sampled or shape is None or min(shape, default=1) < 0:
        return pair
    own = np.shape(pair.golden)
    if sorted(shape) == sorted(own) or element_count(shape) != element_count(own):
        return pair
    sides = [np.reshape(side, shape) for side in (pair.target, pair.golden)]
    letters = tuple(str(axis) for axis in range(len(shape)))
    return AlignedPair(sides[0], sides[1], pair.dtype, letters, pair.total)


def _equal(one: Any, other: Any) -> bool:
    """Tell whether two arrays hold the same values in the same order; NaN equals NaN."""
    one, other = np.ravel(one), np.ravel(other)
    return one.shape == other.shape and bool(
        np.all((one == other) | ((one != one) & (other != other)))
    )
