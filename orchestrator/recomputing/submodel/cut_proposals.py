"""Proposes cuts: the nodes of the op that a result names, a ladder of growing cuts around it, and
the next smaller one.

An op that is wrong by itself shows in a cut of its own; a fault of fusion or memory needs its
neighbours. Between two places with a single live value a cut has one input and one output, so
bisection there needs one device run with one input per step.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

from ...base.errors import FormatError, InputError, MissingPath
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names, printable, sanitise_device
from ...base.safe_reading import read_input
from ...model.op_node import OpNode
from .export_plan import Sources
from .read_original import Original
from .tf_original import MODEL_INPUTS

FILE = "result.json"
_LIMIT_BYTES = 1 << 30
GOOD, UNKNOWN = "good", "unknown"
_COMPARED, _NOBODYS = ("pass", "fail"), "*"


@dataclass(frozen=True)
class Outcome:
    """The verdict and culprit of a result.

    Attributes
    ----------
    verdict
        ``pass``, ``fail`` or ``incomplete``.
    op
        The first culprit of a replay, else the first divergence; None where nothing fails.
    inputs
        Whether its inputs are right: ``good`` (also of a replay's culprit, whose error is its own),
        ``bad`` or ``unknown``.
    replayed
        Whether a replay found it.
    compared
        The original's nodes whose ops were compared.
    """

    verdict: str
    op: Optional[str]
    inputs: str
    replayed: bool
    compared: FrozenSet[str] = frozenset()


def read_outcome(folder: str) -> Outcome:
    """Read the result.json of the output folder of a comparison, a watch, a run or a replay (or
    that file itself).

    Raises
    ------
    MissingPath
        There is none.
    FormatError
        It is no such document.
    """
    path = os.path.join(folder, FILE) if os.path.isdir(folder) else folder
    if not os.path.isfile(path):
        raise MissingPath(
            "%s: no %s there" % (folder, FILE),
            hint="name the output folder of a comparison or a replay that has ended",
        )
    try:
        document: Dict[str, Any] = json.loads(read_input(path, _LIMIT_BYTES).decode("utf-8"))
        summary = document["summary"]
        replayed = document.get("comparison") == "replay"
        first = (summary.get("culprits") or [None])[0] if replayed else summary["first_divergence"]
        op = None if first is None else str(first["op"])
        inputs = GOOD if replayed else "" if first is None else str(first["inputs"])
        rows = [
            row
            for row in document["rows"]
            if row["verdict"] in _COMPARED and row["golden"] != _NOBODYS
        ]
        compared = frozenset(str(name) for row in rows for name in row["golden"].split(","))
        return Outcome(str(summary["verdict"]), op, inputs, replayed, compared)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise FormatError("not the result of a comparison: %r" % error, path) from None


def require_op(outcome: Outcome, folder: str) -> str:
    """Return the culprit; raises InputError if nothing fails."""
    if outcome.op is None:
        what = (
            "no operator has an error of its own"
            if outcome.replayed
            else "nothing is outside its limits"
        )
        raise InputError(
            "%s: %s, so there is nothing to cut out" % (folder, what),
            hint="give start and end of the cut yourself",
        )
    return outcome.op


_SHOWN = 4
_RUNGS = (
    "the op alone",
    "the op with its neighbours",
    "up to the next places where one value is alive",
)


@dataclass(frozen=True)
class Proposal:
    """A proposed cut.

    Attributes
    ----------
    starts, ends
        Names of nodes; empty where the search has ended.
    reason
        Why, in a sentence.
    search
        State of the search for submodel.json, to continue from here.
    """

    starts: Tuple[str, ...]
    ends: Tuple[str, ...]
    reason: str
    search: Dict[str, Any]


class Searcher:
    """Proposes cuts of one model.

    Parameters
    ----------
    sources
        The model, and the om json if there is one: then cuts are whole ops.
    """

    def __init__(self, sources: Sources) -> None:
        self._original: Original = sources.original
        self._ops = sources.ops
        self._order = self._original.graph.order()
        self._position = {number: place for place, number in enumerate(self._order)}

    def of_outcome(self, outcome: Outcome, op: str) -> Proposal:
        """Return the cut of the op that a result names; of one whose inputs were not compared, with
        the op before it.
        """
        nodes = self.nodes_of(op)
        if outcome.inputs == UNKNOWN:
            reason = (
                "%s is the first divergence, and its inputs were not compared: it, and what "
                "feeds it" % printable(op)
            )
            return self._proposal(self._grown(nodes | self._before(nodes)), reason)
        what = (
            "replay: %s has an error of its own"
            if outcome.replayed
            else "%s is the first divergence"
        )
        return self._proposal(self._grown(nodes), what % printable(op))

    def ladder(self, nodes: Set[int]) -> List[Proposal]:
        """Return growing cuts around some nodes, smallest first: they alone, with their neighbours,
        up to the next single values.
        """
        alone = self._grown(nodes)
        near = self._grown(alone | self._before(alone) | self._behind(alone))
        rungs: Dict[FrozenSet[int], str] = {}
        for rung, name in zip(
            (alone, near, self._grown(self._between_single_values(near))), _RUNGS
        ):
            if not any(self._computing(rung) == self._computing(smaller) for smaller in rungs):
                rungs[frozenset(rung)] = name
        return [self._proposal(set(rung), name) for rung, name in rungs.items()]

    def next(self, previous: Dict[str, Any], outcome: Outcome) -> Proposal:
        """Return the next cut after an exported one was run on the device and compared.

        Parameters
        ----------
        previous
            The document of its submodel.json.

        Raises
        ------
        InputError
            The comparison is incomplete or of something else, or the document is of another model.
        """
        nodes = self._nodes([str(layer["name"]) for layer in previous["layers"]])
        state: Dict[str, Any] = previous.get("search") or {}
        if outcome.verdict not in ("pass", "fail"):
            raise InputError(
                "the sub-model's comparison is %s: it says neither that the cut fails nor "
                "that it passes" % outcome.verdict,
                hint="see what could not be compared, and compare again",
            )
        self._refuse_other_results(previous, outcome)
        return (
            self._smaller(nodes, outcome)
            if outcome.verdict == "fail"
            else self._other(nodes, state)
        )

    def _refuse_other_results(self, previous: Dict[str, Any], outcome: Outcome) -> None:
        """Raise InputError where a result compares other nodes of the model, or mostly such as it
        does not have.
        """
        layers = {str(layer["name"]) for layer in previous["layers"]}
        others = sorted(
            outcome.compared
            - layers
            - {str(entry["producer"]["op"]) for entry in previous["inputs"]}
        )
        if len(others) * 2 >= len(outcome.compared) or any(
            self._original.numbers(name) for name in others
        ):
            shown = ", ".join(printable(name) for name in others[:_SHOWN]) + (
                " …" if others[_SHOWN:] else ""
            )
            other_run = "compares %s, no %s of it" % (shown, self._original.noun)
            message = "the result is not of the run of the previous export: it "
            message += other_run if others else "compares none of its %ss" % self._original.noun
            raise InputError(
                message,
                hint="give the output folder of the comparison of that sub-model's own dumps",
            )

    def nodes_of(self, op: str) -> Set[int]:
        """Return the nodes that an op of the device computes; without the om json, the node that
        its name stands for.

        Of an op that the compiler inserted (Cast, TransData): the node whose value it copies, and
        those of the ops that read the copy.

        Raises
        ------
        InputError
            Nothing of the model has to do with this name.
        """
        nodes: Set[int] = set()
        if self._ops is not None:
            for each in self._ops.om.ops_named(op):
                nodes |= set(self._ops.originals(each)) or self._around_inserted(each)
        if not nodes:
            nodes = {
                number
                for number, name in enumerate(self._original.names)
                if sanitise_device(name) == sanitise_device(op)
            }
        if not nodes:
            near = ", ".join(nearest_names(op, self._original.names, 3))
            hint = (
                "is the result of this model?"
                if self._ops is not None
                else "give the om json: it says which nodes an op computes"
            )
            hint += "; near names: " + near if near else ""
            raise InputError(
                "op %s computes no known %s of the model" % (printable(op), self._original.noun),
                hint=hint,
            )
        return self._original.graph.hull(nodes)

    def _around_inserted(self, op: OpNode) -> Set[int]:
        assert self._ops is not None
        value = self._ops.value_of(op, 0)
        nodes = set(self._original.numbers(value[0])) if value is not None else set()
        waiting, visited = [op], {op.position}
        for each in waiting:
            for reader in self._ops.om.consumers(each):
                nodes |= set(self._ops.originals(reader))
                if not reader.originals and reader.position not in visited:
                    visited.add(reader.position)
                    waiting.append(reader)
        return nodes

    def single_values(self) -> List[int]:
        """Return the places in order behind which a single value is alive; constants do not
        count.
        """
        last: Dict[Tuple[int, int], int] = {}
        for number in self._order:
            for value in self._original.graph.sources[number]:
                if value[0] >= 0 and not self._original.is_constant(value[0]):
                    last[value] = max(last.get(value, -1), self._position[number])
        alive = [0] * (len(self._order) + 1)
        for (producer, _), end in last.items():
            alive[self._position[producer]] += 1
            alive[end] -= 1
        positions, count = [], 0
        for place in range(len(self._order)):
            count += alive[place]
            if count == 1:
                positions.append(place)
        return positions

    def _smaller(self, nodes: Set[int], outcome: Outcome) -> Proposal:
        names = self._original.names
        inner = self._inner(outcome, nodes)
        if inner is not None and outcome.inputs == GOOD:
            return self._proposal(
                inner, "%s fails in the cut from good inputs" % printable(str(outcome.op)), nodes
            )
        places = [self._position[number] for number in nodes]
        middle = (min(places) + max(places)) / 2
        cuts = [place for place in self.single_values() if min(places) <= place < max(places)]
        for place in sorted(cuts, key=lambda place: abs(place - middle)):
            first = self._grown({number for number in nodes if self._position[number] <= place})
            second = self._grown({number for number in nodes if self._position[number] > place})
            if first and second and first < nodes and second < nodes:
                made = self._proposal(
                    first,
                    "the cut fails: its first half, up to %s"
                    % printable(names[self._order[place]]),
                    nodes,
                )
                made.search["left"] = [self._range(second)]
                return made
        if inner is not None:
            return self._proposal(
                inner,
                "the cut fails, and no single value divides it: %s" % printable(str(outcome.op)),
                nodes,
            )
        return self._ended(nodes, "this is the smallest cut that fails")

    def _inner(self, outcome: Outcome, nodes: Set[int]) -> Optional[Set[int]]:
        """Return the whole ops of what a result names, where that is a part of the cut and not all
        of it.
        """
        try:
            inner = self._grown(self.nodes_of(outcome.op or ""))
        except InputError:
            # The sub-model's own om may fuse otherwise.
            return None
        return inner if inner < nodes else None

    def _other(self, nodes: Set[int], state: Dict[str, Any]) -> Proposal:
        left = list(state.get("left") or ())
        failing = state.get("failing")
        if left:
            part = left.pop(0)
            inside = self._original.graph.between(
                self._nodes(part["start"]), self._nodes(part["end"])
            )
            made = self._proposal(inside, "the first half passes alone: the second half")
            made.search.update(failing=failing, left=left)
            return made
        if failing:
            reason = "each part passes alone, together they fail: the fault needs its neighbours"
            return self._ended(
                self._original.graph.between(
                    self._nodes(failing["start"]), self._nodes(failing["end"])
                ),
                reason,
            )
        for rung in self.ladder(nodes)[1:]:
            reason = "the cut passes alone: " + rung.reason
            return Proposal(rung.starts, rung.ends, reason, dict(rung.search, reason=reason))
        return self._ended(nodes, "the cut passes, and there is no larger one around it")

    def _proposal(
        self, nodes: Set[int], reason: str, failing: Optional[Set[int]] = None
    ) -> Proposal:
        part = self._range(nodes)
        search: Dict[str, Any] = {"reason": reason}
        if failing is not None:
            search["failing"] = self._range(failing)
        return Proposal(tuple(part["start"]), tuple(part["end"]), reason, search)

    def _ended(self, nodes: Set[int], reason: str) -> Proposal:
        return Proposal((), (), reason, dict(self._range(nodes), reason=reason))

    def _range(self, nodes: Set[int]) -> Dict[str, List[str]]:
        """Return the first and the last nodes, by name: those that read nothing from inside, and
        those that no node inside reads.
        """
        graph, names = self._original.graph, self._original.names
        first = [
            number
            for number in sorted(nodes)
            if not any(source in nodes for source, _ in graph.sources[number])
        ]
        last = [
            number
            for number in sorted(nodes)
            if not any(reader in nodes for reader, _, _ in graph.readers[number])
        ]
        return {
            "start": [names[number] for number in first],
            "end": [names[number] for number in last],
        }

    def _nodes(self, names: Iterable[str]) -> Set[int]:
        nodes: Set[int] = set()
        for name in names:
            numbers = self._original.numbers(name)
            if not numbers:
                raise InputError(
                    "%s of the previous export is no %s of this model"
                    % (printable(name), self._original.noun)
                )
            nodes |= set(numbers)
        return {number for number in nodes if not self._original.is_constant(number)}

    def _grown(self, nodes: Set[int]) -> Set[int]:
        return self._ops.grown(nodes) if self._ops is not None else self._original.graph.hull(nodes)

    def _before(self, nodes: Set[int]) -> Set[int]:
        before = {
            source
            for number in nodes
            for source, _ in self._original.graph.sources[number]
            if source >= 0
        }
        return {number for number in before - nodes if not self._original.is_constant(number)}

    def _computing(self, nodes: Iterable[int]) -> Set[int]:
        """Return the nodes that compute something: not the model's own inputs, which a cut has
        anyway.
        """
        original = self._original
        return {
            number
            for number in nodes
            if original.types[number] not in MODEL_INPUTS and not original.is_data(number)
        }

    def _behind(self, nodes: Set[int]) -> Set[int]:
        return {
            reader for number in nodes for reader, _, _ in self._original.graph.readers[number]
        } - nodes

    def _between_single_values(self, nodes: Set[int]) -> Set[int]:
        places = [self._position[number] for number in nodes]
        singles = self.single_values()
        begin = max([place for place in singles if place < min(places)], default=-1)
        end = min(
            [place for place in singles if place >= max(places)], default=len(self._order) - 1
        )
        inside = {self._order[place] for place in range(begin + 1, end + 1)}
        return {number for number in inside if not self._original.is_constant(number)} | nodes
