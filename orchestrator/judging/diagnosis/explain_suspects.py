"""Explains the first suspects by reading their tensors again, and those around them."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ...base.element_types import element_count
from ...dumps.place import Place
from ...metrics.patterns import AlignedPair
from ...metrics.row import FAIL, PASS
from ...recomputing.formulas_by_type import is_known_type
from ...recomputing.formulas_fitted_to_golden import confirms, contradicts
from ...recomputing.variant_search import VariantSearch
from ...recomputing.variants_by_golden import written_beside_golden
from ..by_recomputation import RecomputationVerdict, excess
from .explanations import (
    GIVEN,
    GOLDEN,
    READER,
    Explanation,
    dump_of_another_run,
    dump_of_another_run_maybe,
    inputs_exchanged,
    not_known_without_model,
    older_dump,
    other_input_of,
    outputs_exchanged,
)
from .observed_ops import ObservedOp, ObservedOps
from .op_input_states import BAD, Inputs
from .own_error.estimate import Estimate
from .parameters_of_another_model import LINEAR, of_another_model
from .pattern_explanations import OtherGolden, Surroundings, background_of, explanations_of
from .recomputation_explanations import (
    by_variants,
    explanations_by_computing,
    golden_is_otherwise,
    nothing_was_done,
    unexplained,
)
from .recompute_without_model import TensorReader, follows
from .row_digest import Observation
from .suspects import Suspect

MOST_READ = 3
"""Suspects of which the tensors are read again, by their time: those behind them mostly inherit."""

# How many tensors are read again, by their time alone.
_MOST_OTHERS = 8
_MOST_OF_SIZE = 32
"""Golden tensors of a size that are tried as an input, by their time. Chosen, no trial."""
_MOST_READERS = 4
# Of the suspect's distance: all operators that read it are right where they are off by no more
# than _RIGHT of it; one product that is off by no more than _TELLING contradicts its golden
# tensor. Both are chosen, no trial.
_RIGHT = 0.25
_TELLING = 0.1
# Elements of a pair; a sample, as of larger ones, does not show all places. Chosen by time.
_MOST_COMPARED = 1 << 22
_OF_FLOATS = frozenset(["scale", "bias", "shift", "layout", "rounding", "unexplained"])
"""Kinds of explanation that say nothing of decisions."""
# Two tensors are the same, up to what inputs may be off before they hide what an operator adds
# (HOPELESS).
_FITS = 0.1
_HIDDEN = 0.01
"""What reads an output hides how it differs where its own is off by no more than this: of 194
networks with one thing exchanged half of it and the double change nothing.
"""
_NEARER = 0.5
"""Of a suspect's own distance, what another output may be off its golden tensor where the two are
exchanged.
"""


def with_explanations(
    suspects_found: Sequence[Tuple[Suspect, Estimate]],
    observed: ObservedOps,
    inputs: Inputs,
    reader: TensorReader,
    verdicts: Mapping[Tuple[Place, str, int], RecomputationVerdict] = MappingProxyType({}),
) -> List[Suspect]:
    """Return the suspects, the first ones with explanations.

    Parameters
    ----------
    suspects_found
        Suspects, best first, each with its estimate.
    observed, inputs
        The run's rows, and who feeds whom.
    reader
        Reads their tensors again.
    verdicts
        What came of computing operators again, by place, op and number of the output.
    """
    suspects: List[Suspect] = []
    searches: Dict[int, VariantSearch] = {}
    readers_of_input = _readers_of_undumped_inputs(
        [estimate for _, estimate in suspects_found], observed, inputs
    )
    for number, (suspect, estimate) in enumerate(suspects_found):
        if number in readers_of_input:
            suspect = replace(suspect, explanations=(other_input_of(readers_of_input[number]),))
        elif number < MOST_READ and _is_computed(estimate) and not estimate.decides:
            search = reader.variants(estimate.op, estimate.output, estimate.inputs)
            explained = _by_computing(estimate, search, inputs, reader)
            suspect = replace(suspect, explanations=explained)
            if search is not None:
                searches[number] = search
        elif number < MOST_READ and estimate.golden_wrong:
            search = reader.golden_variants(estimate.op, estimate.output)
            suspect = replace(suspect, explanations=(golden_is_otherwise(search),))
        elif number < MOST_READ:
            search = (
                reader.variants(estimate.op, estimate.output, estimate.inputs)
                if _is_computed(estimate)
                # What reads the output shows that golden data are others.
                else None
                if _contradicted(estimate, inputs, reader)
                else reader.by_json(
                    estimate.op,
                    estimate.output,
                    estimate.inputs,
                    partial(_goldens_of_size, estimate, observed, reader),
                )
            )
            known = [] if search is None else by_variants(search, estimate.op.name)
            if known and search is not None and not search.explained:
                may = search._replace(explained=list(search.possible), instead=None)
                known += by_variants(may, estimate.op.name)
            error = estimate.computed.own_error if estimate.computed is not None else None
            # Tensors of two lengths are not compared.
            if not known and (error is None or not any(error.counts)):
                suspect = _by_tensors(suspect, estimate, observed, inputs, reader)
            if not known and search is not None:
                # Decisions that do not follow: how they differ from golden data says nothing more.
                few = search._replace(explained=list(search.possible), instead=None)
                known = [
                    *(by_variants(few, estimate.op.name) or [unexplained(search)]),
                    *(entry for entry in suspect.explanations if entry.kind not in _OF_FLOATS),
                ]
            if known:
                suspect = replace(suspect, explanations=tuple(known))
        suspects.append(suspect)
    has_model = bool((reader.recomputed() or {}).get("model"))
    suspects = [
        _with_fitting_steps(suspect, has_model) if number < MOST_READ else suspect
        for number, suspect in enumerate(suspects)
    ]
    estimates = [estimate for _, estimate in suspects_found]
    of_another = of_another_model(estimates, searches, observed, inputs, reader, verdicts)
    for number, explanation in of_another.items():
        suspects[number] = replace(suspects[number], explanations=(explanation,))
    # What is wrong beside other parameters is as a first suspect.
    beside = [number for number in searches if of_another and number not in of_another]
    for number in beside[:MOST_READ]:
        explained = _by_computing(estimates[number], searches[number], inputs, reader)
        suspect = replace(suspects[number], explanations=explained)
        suspects[number] = _with_fitting_steps(suspect, has_model)
    return suspects


def _is_computed(estimate: Estimate) -> bool:
    """Tell whether an output is wrong by what the model says, or golden data show, not by what the
    json says.
    """
    return estimate.computed is not None and not estimate.computed.by_json


def _with_fitting_steps(suspect: Suspect, has_model: bool) -> Suspect:
    """Return a suspect with next steps that fit its type: without the original model a pattern says
    how two tensors differ, not why.
    """
    if has_model:
        told = [entry.fitting(suspect.op_type) for entry in suspect.explanations]
        return replace(suspect, explanations=tuple(told))
    told = [entry.without_model() for entry in suspect.explanations]
    return replace(suspect, explanations=tuple(told or [not_known_without_model()]))


def _by_computing(
    estimate: Estimate, search: Optional[VariantSearch], inputs: Inputs, reader: TensorReader
) -> Tuple[Explanation, ...]:
    """Return what explains the error of an output that was computed again."""
    has_model = bool((reader.recomputed() or {}).get("model"))
    if search is None or not has_model or not (search.explained or search.instead):
        order = _outputs_in_other_order(estimate, inputs, reader)
        if order:
            return tuple(order)
    beside = reader.computed(estimate.op, estimate.output, estimate.inputs)
    explanations = (
        explanations_by_computing(estimate, beside, search)
        if beside is not None
        # What the model says it reads may be deleted by now.
        else []
        if search is None
        else by_variants(search, estimate.op.name)
    )
    stale = _stale(estimate, inputs, reader)
    if stale:
        explanations = [entry for entry in explanations if entry.kind != "unexplained"]
    return (*stale, *explanations) if stale and stale[0].share else (*explanations, *stale)


def _by_tensors(
    suspect: Suspect,
    estimate: Estimate,
    observed: ObservedOps,
    inputs: Inputs,
    reader: TensorReader,
) -> Suspect:
    """Return a suspect with the explanations that its output, golden data and the ops around it
    give.
    """
    order = _outputs_in_other_order(estimate, inputs, reader)
    if order:
        return replace(suspect, explanations=tuple(order))
    pair = reader.pair(estimate.op, estimate.output)
    others = (
        list(_other_goldens(estimate, pair, observed, reader))
        if pair is not None and not estimate.fed_otherwise
        else []
    )
    surroundings = Surroundings(
        first=estimate.fed_otherwise or inputs.stands_first(estimate.op),
        right_behind=_consumers_are_right(estimate, inputs, reader),
        contradicted=_contradicted(estimate, inputs, reader),
        golden_right=_golden_right(estimate, inputs, reader),
        unread=_dump_was_not_read(estimate, inputs, reader),
        stale=reader.stale(estimate.op),
        of_constants=inputs.of_constants(estimate.op),
    )
    whole = (
        reader.walked(estimate.op, estimate.output, background_of(estimate))
        if pair is not None and pair.sampled
        else None
    )
    copied = [other.op for other in others if other.copied and not surroundings.right_behind]
    exchanged = _exchanged_input(estimate, observed, inputs, reader)
    explanations = (
        [inputs_exchanged(exchanged, bool(surroundings.right_behind))]
        if exchanged
        else [nothing_was_done(copied[0])]
        if copied
        else explanations_of(estimate, pair, others, surroundings, whole)
    )
    if pair is not None and not surroundings.contradicted:
        known = {entry.kind for entry in explanations} - {"unexplained"}
        held = None if known else _held_instead(estimate, pair, observed, reader)
        explanations = explanations if held is None else [held]
    skipped = [
        other.op
        for other in others
        if other.source and pair is not None and _fits(pair.target, other.golden)
    ]
    if skipped and estimate.distance > _FITS and not any(entry.blameless for entry in explanations):
        nothing = "its output is that of its input (%s)" % skipped[0]
        suspect = replace(suspect, evidence="%s; %s" % (suspect.evidence, nothing))
    return replace(suspect, explanations=tuple(explanations))


def _exchanged_input(
    estimate: Estimate, observed: ObservedOps, inputs: Inputs, reader: TensorReader
) -> Sequence[str]:
    """Return an input of the network and another one of which it holds the golden data, which holds
    its own; empty where none does.
    """
    if not estimate.fed_otherwise:
        return ()
    own, row = reader.pair(estimate.op, estimate.output, _MOST_COMPARED), estimate.output
    ops = map(observed.op, inputs.readers_of_network().tolist())
    for op in ops if own is not None and not own.sampled else ():
        for state in inputs.of_network(op) if op.place == estimate.op.place else ():
            other = state.observation
            if other is None or state.state != BAD or other.golden_file == row.golden_file:
                continue
            pair = reader.pair(op, other, _MOST_COMPARED)
            if pair is None or pair.sampled or own is None:
                continue
            sides = (own.target, pair.golden), (pair.target, own.golden)
            if all(_fits(x, y, _NEARER * estimate.distance) for x, y in sides):
                return [estimate.inputs[0].source or row.tensor, state.source or other.tensor]
    return ()


def _held_instead(
    estimate: Estimate, pair: AlignedPair, observed: ObservedOps, reader: TensorReader
) -> Optional[Explanation]:
    """Return what an output holds in place of golden data, where its inputs are nearly these; None
    where that is not known.
    """
    if pair.sampled or estimate.fed_otherwise or not estimate.expected <= _FITS:
        return None
    others = partial(_outputs_of_size, estimate, observed, reader)
    instead = written_beside_golden(pair, estimate.expected, others, excess)
    return instead and Explanation(instead.kind, 1.0, instead.sentence, instead.next)


def _outputs_of_size(
    estimate: Estimate, observed: ObservedOps, reader: TensorReader, size: int
) -> Iterator[Tuple[str, Any]]:
    """Yield the device's outputs of so many elements that were made before one, the nearest in the
    json's order first, by their names; then those of more.
    """
    alike = [
        (estimate.output.position - row.position, number, op, row)
        for number, op in enumerate(observed.at_place(estimate.op.place))
        for row in op.outputs.values()
        if row.compared and row.position < estimate.output.position
    ]
    alike.sort(key=itemgetter(0, 1))
    for fits in (operator.eq, operator.gt):
        fitting = (entry for entry in alike if fits(element_count(entry[3].shape), size))
        for _, _, op, row in islice(fitting, _MOST_OTHERS):
            other = reader.pair(op, row)
            if other is not None and not other.sampled:
                yield "%s (output %d)" % (op.name, row.number), np.asarray(other.target)


def _readers_of_undumped_inputs(
    estimates: Sequence[Estimate], observed: ObservedOps, inputs: Inputs
) -> Dict[int, int]:
    """Return which estimates (by index) are of operators that read an undumped input of the
    network, with the number of its readers.

    Where several readers are suspect and none is right, the input itself differs.
    """

    def source(op: ObservedOp) -> Optional[Tuple[Place, Tuple[str, int]]]:
        node = inputs.node(op)
        first = node.inputs[0] if node is not None and node.inputs else None
        return None if first is None or not inputs.stands_first(op) else (op.place, first)

    readers: Dict[Tuple[Place, Tuple[str, int]], List[int]] = {}
    for number, estimate in enumerate(estimates):
        verdict = estimate.computed
        read = (
            None
            if estimate.fed_otherwise or (verdict is not None and not verdict.assumed)
            else source(estimate.op)
        )
        if read is not None:
            readers.setdefault(read, []).append(number)
    several = {
        read: numbers
        for read, numbers in readers.items()
        if len({estimates[number].op.name for number in numbers}) > 1
    }
    if not several:
        return {}
    suspected = {estimates[number].op.key for numbers in several.values() for number in numbers}
    places = dict.fromkeys(place for place, _ in several)
    right = {
        source(op)
        for place in places
        for op in observed.at_place(place)
        if op.key not in suspected and any(verdict.compared for verdict in op.outputs.values())
    }
    return {
        number: len(numbers)
        for read, numbers in several.items()
        if read not in right
        for number in numbers
    }


def _stale(estimate: Estimate, inputs: Inputs, reader: TensorReader) -> List[Explanation]:
    """Return an explanation where the dump of an output is not what the operators behind it read,
    or is older than the model file.
    """
    golden_right = _golden_right(estimate, inputs, reader)
    if (
        golden_right
        and _consumers_are_right(estimate, inputs, reader)
        and _dump_was_not_read(estimate, inputs, reader)
    ):
        return [dump_of_another_run()]
    age = reader.stale(estimate.op)
    if age:
        return [older_dump(age)]
    return (
        [dump_of_another_run_maybe()]
        if golden_right and _contradicted(estimate, inputs, reader) == READER
        else []
    )


def _consumers_are_right(
    estimate: Estimate, inputs: Inputs, reader: TensorReader
) -> Optional[bool]:
    """Tell whether all operators that an output feeds are right: then the output is too, whatever
    its golden data say. None where none was compared, or none can tell.
    """
    behind = (
        [estimate.op]
        if estimate.fed_otherwise
        else inputs.consumers(estimate.op, estimate.output.number)
    )
    outputs = [(op, row) for op in behind for row in op.outputs.values() if row.compared]
    if not outputs:
        return None
    if not all(
        row.verdict == PASS and not row.distance > _RIGHT * estimate.distance for _, row in outputs
    ):
        return False
    # What hardly shows in them proves nothing.
    linear = [(op, row) for op, row in outputs if op.type.lower() in LINEAR]
    if any(
        row.distance > _RIGHT * estimate.distance * _share_handed_on(op, row, estimate, reader)
        for op, row in linear
    ):
        return False
    if estimate.fed_otherwise or not all(
        _cannot_tell(op, row, inputs, reader) for op, row in outputs
    ):
        return True
    return None


def _cannot_tell(op: ObservedOp, row: Observation, inputs: Inputs, reader: TensorReader) -> bool:
    """Tell whether a reader's golden output follows from its golden inputs, and the device's, which
    is the same, from the device's, which are others: it hides what differs (max pooling hides
    negative values).

    What leaves the golden data as they are, and not the device's, is what made them: a ReLU of
    golden data of after a ReLU.
    """
    states = inputs.of(op)
    input_pairs, output_pair = reader.whole(op, row, states)
    beside = None if output_pair is None else reader.computed(op, row, states)
    if output_pair is None or beside is None:
        return False
    has_model = bool((reader.recomputed() or {}).get("model"))
    # Without a model an operator is computed only where golden data follow.
    if has_model and not reader.golden_follows(op, row):
        return False
    # By the dumps of its own inputs it may have been given what golden data hold.
    others = [pair for pair in input_pairs if not _fits(pair.target, pair.golden, _HIDDEN)]
    if not others or not _fits(beside.actual, beside.computed, _HIDDEN):
        return False
    return not any(
        _fits(pair.golden, output_pair.golden, _HIDDEN)
        and not _fits(pair.target, output_pair.target, _HIDDEN)
        for pair in others
    )


def _contradicted(estimate: Estimate, inputs: Inputs, reader: TensorReader) -> str:
    """Return how a reader of an output shows that its golden data may be wrong
    (:class:`Surroundings`); empty where none does.
    """
    for op, row, number in _single_readers(estimate, inputs):
        if op.type.lower() in LINEAR and row.distance <= _TELLING * estimate.distance:
            if row.distance <= _TELLING * estimate.distance * _share_handed_on(
                op, row, estimate, reader
            ):
                state = inputs.of(op)[number]
                return GIVEN if state.owner is op and state.state == BAD else READER
            continue
        input_pairs, output_pair = reader.whole(op, row, inputs.of(op))
        if output_pair is not None and contradicts(op.type, input_pairs, output_pair, number):
            return GOLDEN
    return ""


def _golden_right(estimate: Estimate, inputs: Inputs, reader: TensorReader) -> bool:
    """Tell whether golden data of an output are right beyond doubt: readers were given them, or
    they fit the golden data around them.
    """
    for op, row, number in _single_readers(estimate, inputs):
        observation = (
            inputs.of(op)[number].observation if inputs.of(op)[number].owner is op else None
        )
        if (
            observation is not None
            and observation.verdict == PASS
            and observation.golden_file == estimate.output.golden_file
        ):
            return True
        input_pairs, output_pair = (
            reader.whole(op, row, inputs.of(op)) if is_known_type(op.type) else ([], None)
        )
        if output_pair is not None and confirms(op.type, input_pairs, output_pair, number):
            return True
    if estimate.fed_otherwise or not is_known_type(estimate.op.type):
        return False
    own_inputs, output = reader.whole(estimate.op, estimate.output, estimate.inputs)
    return output is not None and follows(estimate.op.type, own_inputs, output) is not None


def _dump_was_not_read(estimate: Estimate, inputs: Inputs, reader: TensorReader) -> bool:
    """Tell whether a reader of an output was right and shows that it was given something else than
    what was dumped.
    """
    for op, row, number in _single_readers(estimate, inputs):
        state = inputs.of(op)[number]
        if row.verdict != PASS:
            continue
        if state.owner is op and state.observation is not None:
            return state.observation.verdict == PASS
        input_pairs, output_pair = (
            reader.whole(op, row, inputs.of(op)) if is_known_type(op.type) else ([], None)
        )
        right = follows(op.type, input_pairs, output_pair) if output_pair is not None else None
        if right is not None:
            return not right
    return False


def _single_readers(
    estimate: Estimate, inputs: Inputs
) -> Iterator[Tuple[ObservedOp, Observation, int]]:
    """Yield the first operators that read a failing output once, with an output of their own and
    the number of the input.
    """
    if estimate.fed_otherwise or estimate.output.verdict != FAIL:
        return
    for op in inputs.consumers(estimate.op, estimate.output.number)[:_MOST_READERS]:
        row = next((row for row in op.outputs.values() if row.compared), None)
        fed = [
            number for number, state in enumerate(inputs.of(op)) if state.source == estimate.op.name
        ]
        if row is not None and not row.whole and len(fed) == 1:
            yield op, row, fed[0]


def _share_handed_on(
    op: ObservedOp, row: Observation, estimate: Estimate, reader: TensorReader
) -> float:
    """Return how much of a relative difference of its input shows in a linear operator's output, at
    most 1; NaN where that cannot be told.

    Told by how much output and input vary, about the mean of each channel: an output that is ruled
    by its biases is the same at all places.
    """
    input_pair = reader.pair(estimate.op, estimate.output, _MOST_COMPARED)
    output_pair = reader.pair(op, row, _MOST_COMPARED)
    if input_pair is None or output_pair is None or input_pair.sampled or output_pair.sampled:
        return math.nan
    input_variation = max(
        _variation(input_pair.target, input_pair.letters),
        _variation(input_pair.golden, input_pair.letters),
    )
    return (
        min(1.0, _variation(output_pair.golden, output_pair.letters) / input_variation)
        if input_variation > 0
        else math.nan
    )


def _variation(values: Any, letters: Sequence[str]) -> float:
    """Return the relative size of what is left of a tensor without its mean over all axes but that
    of the channels.
    """
    values = np.asarray(values, np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    channels = letters.index("C") if "C" in letters else values.ndim - 1
    rest = values - values.mean(
        axis=tuple(axis for axis in range(values.ndim) if axis != channels), keepdims=True
    )
    size = float(np.linalg.norm(values))
    return float(np.linalg.norm(rest)) / size if size else 0.0


def _other_goldens(
    estimate: Estimate, pair: AlignedPair, observed: ObservedOps, reader: TensorReader
) -> Iterator[OtherGolden]:
    """Yield other golden tensors of the suspect's shape, nearest in the json's order, as far as
    they are small enough to be read whole.
    """
    output, sources = estimate.output, {state.source for state in estimate.inputs}
    alike = [
        (abs(row.position - output.position), number, op, row)
        for number, op in enumerate(observed.at_place(estimate.op.place))
        for row in op.outputs.values()
        if row.compared and row.shape == output.shape and row.golden_file != output.golden_file
    ]
    for _, _, op, row in sorted(alike, key=lambda entry: entry[:2])[:_MOST_OTHERS]:
        other = reader.pair(op, row)
        if other is not None and not other.sampled and other.golden.shape == pair.golden.shape:
            exchanged = _fits(other.target, pair.golden, _NEARER * estimate.distance)
            copied = (
                op.name in sources
                and estimate.distance > 0
                and np.array_equal(other.target, pair.target)
            )
            yield OtherGolden(op.name, other.golden, op.name in sources, exchanged, copied)


def _outputs_in_other_order(
    estimate: Estimate, inputs: Inputs, reader: TensorReader
) -> List[Explanation]:
    """Return that an operator wrote its outputs in another order, where each holds what golden data
    have of another one; nothing where what reads them is right: then golden data are exchanged.
    """
    shape = estimate.output.shape
    rows = [row for row in estimate.op.outputs.values() if row.compared and row.shape == shape]
    if len(rows) < 2 or estimate.fed_otherwise:
        return []
    pairs = {row.number: reader.pair(estimate.op, row) for row in rows}
    read = {number: pair for number, pair in pairs.items() if pair is not None and not pair.sampled}
    order: List[int] = []
    for number in sorted(read):
        order += [
            other
            for other in sorted(read, key=lambda one: (one != number, one))
            if _fits(read[number].target, read[other].golden, _NEARER * estimate.distance)
        ][:1]
    if sorted(order) != sorted(pairs) or order == sorted(order):
        return []
    return [] if _consumers_are_right(estimate, inputs, reader) else [outputs_exchanged(order)]


def _goldens_of_size(
    estimate: Estimate, observed: ObservedOps, reader: TensorReader, size: int
) -> Iterator[Tuple[str, Any]]:
    """Yield golden tensors of so many elements that were made before an output, the nearest in the
    json's order first, by their own names; then those that nothing was compared with.
    """
    ops = observed.at_place(estimate.op.place)
    made = {row.golden_file for op in ops for row in op.outputs.values()}
    # What only inputs are compared with is an input of the network.
    alike = [
        (estimate.output.position - row.position, number, op, row)
        for number, op in enumerate(ops)
        for row in (
            *op.outputs.values(),
            *(row for row in op.inputs.values() if row.golden_file not in made),
        )
        if row.compared
        and element_count(row.shape) == size
        and row.position < estimate.output.position
    ]
    for _, _, op, row in sorted(alike, key=lambda entry: entry[:2])[:_MOST_OF_SIZE]:
        other = reader.pair(op, row)
        if other is not None and not other.sampled and other.golden.size == size:
            yield row.tensor, np.asarray(other.golden)
    paired = {row.golden_file for op in ops for row in (*op.outputs.values(), *op.inputs.values())}
    yield from reader.unpaired_goldens(estimate.op.place, paired, size)


def _fits(x: Any, y: Any, most: float = _FITS) -> bool:
    """Tell whether x is y up to a relative distance of 10 %, or of less."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    with np.errstate(all="ignore"):
        return x.shape == y.shape and bool(
            np.linalg.norm((x - y).reshape(-1)) <= min(_FITS, most) * np.linalg.norm(y.reshape(-1))
        )
