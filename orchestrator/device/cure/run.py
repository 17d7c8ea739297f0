"""A cure from a result to the compiler's file."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...base.atomic_writing import atomic_text_writer
from ...base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.notes import Note, note
from ...base.safe_reading import read_input
from ...base.wording import listed, plural
from ...operators import CannotCompute
from ...store.opening import make_folder
from .choosing_ops import MARGIN, Choice, ErrorNetwork
from .compiler_precision_options import (
    CUSTOMIZE,
    FILES,
    KEEP_DTYPE,
    MODES,
    OP_PRECISION,
    OPTIONS,
    Command,
    Unit,
    command_of,
    content,
    earlier_file,
    units_of,
)
from .measured_ops import Measured, OnProgress, measure
from .own_errors import NARROW
from .precision_causes import OpPrecision
from .simulated_cure import ELEMENTS, FEWEST, MOST, narrowed

DOCUMENT = "cure.json"
"""What was chosen and why, in OUT."""

_HELPS = 0.9
"""Raising that leaves more of the outputs' error than this is no cure."""
_SHOWN = 5
_MOST_BYTES = 1 << 24
_FAR = 1e3
"""Times a limit from which on an error is told as what it is: Inf, or nearly."""


class Budget(NamedTuple):
    """How much may be raised at most: so many, or a share of the network's operators."""

    ops: Optional[int] = None
    share: Optional[float] = None

    def most(self, ops: int) -> int:
        """Return how many of so many operators."""
        return self.ops if self.ops is not None else math.ceil((self.share or 0.0) * ops)


@dataclass(frozen=True)
class Ranked:
    """An operator with what its own error makes of the worst output's, in units of that output's
    limit.
    """

    facts: OpPrecision
    contribution: float
    raised: bool

    def document(self) -> Dict[str, Any]:
        """Return an entry of cure.json."""
        one = self.facts
        return {
            "op": one.name, "op_type": one.type, "originals": list(one.originals),
            "dtype": one.dtype, "own_error": one.own,
            "contribution": self.contribution, "cause": one.cause, "sentence": one.sentence,
            "wrong": one.wrong,
            "estimated": one.estimated, "raised": self.raised,
        }  # fmt: skip


@dataclass(frozen=True)
class Cure:
    """What to compute in float32.

    Attributes
    ----------
    mode, file
        The option, and the path of its file; None where there is nothing to raise.
    units
        What the file raises, what matters most first.
    ranked
        All operators that rounding, overflow, cancelling or an approximation make wrong, what
        contributes most first.
    others
        Operators that are wrong otherwise: float32 does not mend them.
    refused
        By op, why the option cannot raise it.
    before, after, best
        The worst output's estimated error in units of its limit: now, with these raised, and with
        everything raised that may be.
    outputs_fail
        How many outputs of the network are outside their limits now, of how many.
    gone
        Operators that stay as they are and of which only their rows are known, because their dumps
        are deleted: what they make of the outputs is not known, whatever the estimate says.
    command
        How to use the file.
    notes
        What the user must know.
    """

    mode: str
    file: Optional[str]
    units: Tuple[Unit, ...]
    ranked: Tuple[Ranked, ...]
    others: Tuple[OpPrecision, ...]
    refused: Mapping[str, str]
    before: float
    after: float
    best: float
    outputs_fail: Tuple[int, int]
    gone: Tuple[str, ...]
    command: Command
    notes: Tuple[Note, ...]

    @property
    def ops(self) -> Tuple[str, ...]:
        """The device's ops that are raised."""
        return tuple(name for unit in self.units for name in unit.ops)

    @property
    def exit_code(self) -> int:
        """0: outputs are within limits then, by the estimate. 1: they are not. 3: nothing to
        raise, or dumps that would tell are deleted.
        """
        if not self.units or self.gone:
            return EXIT_INCOMPLETE
        return EXIT_PASS if self.after <= 1.0 else EXIT_FAIL

    @property
    def sentence(self) -> str:
        """What it comes to."""
        failing, outputs = self.outputs_fail
        if not self.units:
            return "Nothing to raise: %s%s." % (self._nothing(), self._unknown())
        what = _raised_words(self)
        if self.gone:
            return "%s: whether that is enough is not known%s." % (what, self._unknown())
        if failing == 0 and self.before <= 1.0:
            return (
                "%s: wrong by lack of precision, though the network's outputs are within "
                "their limits." % what
            )
        times = "the worst output's error falls from %s to %s" % (
            _times_limit(self.before),
            _times_limit(self.after),
        )
        if self.after <= 1.0:
            return "%s: by the estimate %s." % (what, times)
        why = (
            "more can be raised, with a larger budget"
            if self.best < 0.9 * self.after
            else _other_reasons(self.others) or "no more can be raised"
        )
        return "%s: by the estimate %s, which is not enough: %s." % (what, times, why)

    def _unknown(self) -> str:
        """Return of which operators too little is known; empty where of none."""
        if not self.gone:
            return ""
        one = len(self.gone) == 1
        what = "; %s could not be computed again, as %s deleted (%s); locate, run or watch again "
        return (
            what
            % (
                plural(len(self.gone), "operator"),
                "its dump is" if one else "their dumps are",
                listed(self.gone, _SHOWN),
            )
            + "and keep all dumps, then this command"
        )

    def _nothing(self) -> str:
        failing, outputs = self.outputs_fail
        wrong = [one.facts.name for one in self.ranked if one.facts.wrong]
        if wrong and self.refused:
            return ("%s %s wrong by lack of precision, but this option cannot raise %s (that of "
                "another mode may)") % (
                listed(wrong, _SHOWN), "is" if len(wrong) == 1 else "are",
                "it" if len(wrong) == 1 else "them",
            )  # fmt: skip
        if not failing and self.before <= 1.0:
            said = (
                "the network's outputs are within their limits, and no operator is wrong by lack "
                "of precision"
            )
            return said if not self.others else "%s; %s" % (said, _other_reasons(self.others))
        if self.others:
            return "%s of %s outside limits, but %s" % (
                failing,
                plural(outputs, "output"),
                _other_reasons(self.others),
            )
        can = (
            "this option can raise none of what would help"
            if self.refused
            else "float32 mends none of it"
        )
        return "%s of %s outside limits, but %s" % (failing, plural(outputs, "output"), can)

    def document(self) -> Dict[str, Any]:
        """Return the document of schemas/cure.schema.json."""
        return {
            "mode": self.mode,
            "file": self.file,
            "sentence": self.sentence,
            "raised": [
                {"name": unit.name, "ops": list(unit.ops), "lines": list(unit.lines)}
                for unit in self.units
            ],
            "estimate": None
            if self.gone
            else {"before": self.before, "after": self.after, "best": self.best},
            "outputs": {"failing": self.outputs_fail[0], "all": self.outputs_fail[1]},
            "ops": [one.document() for one in self.ranked],
            "other_reasons": [
                {"op": one.name, "op_type": one.type, "sentence": one.sentence}
                for one in self.others
            ],
            "not_raised": [{"op": name, "reason": reason} for name, reason in self.refused.items()],
            "command": list(self.command.lines) if self.units else [],
            "notes": [one.document() for one in self.notes],
        }


def cure(
    result: str,
    model: str,
    out: str,
    mode: str = KEEP_DTYPE,
    budget: Optional[Budget] = None,
    original: Optional[str] = None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Cure:
    """Choose the operators to compute in float32, and write the compiler's file into a folder.

    Parameters
    ----------
    result
        A folder that compare, run, watch, merge or replay wrote; its dumps must still be there.
    model
        The json of the om that ran.
    out
        Where the file and ``cure.json`` are written.
    mode
        One of :data:`goldwatch.device.cure.compiler_precision_options.MODES`.
    budget
        At most so much, and no more than brings the outputs within their limits; None: also all
        that is wrong by lack of precision.
    original
        The model that the om was made from; None: it is looked for where the result's golden data
        say.
    on_progress
        Called with what is done, how many are done, and of how many.

    Raises
    ------
    UsageError
        There is no such mode.
    InputError, GoldwatchError
        The result tells nothing of operators, its dumps are gone, or a file cannot be read or
        written.
    """
    if mode not in MODES:
        raise UsageError("there is no mode %r" % mode, hint="one of " + ", ".join(MODES))
    measured = measure(result, model, original, on_progress)
    earlier, notes = _earlier(mode, measured.graph.command, model)
    chosen = _chosen(measured, mode, budget, out, notes)
    make_folder(out)
    if chosen.file is not None:
        with atomic_text_writer(chosen.file) as stream:
            stream.write(content(mode, chosen.units, measured.ops, earlier))
    with atomic_text_writer(os.path.join(out, DOCUMENT)) as stream:
        stream.write(json.dumps(chosen.document(), indent=1, allow_nan=False) + "\n")
    return chosen


def _earlier(mode: str, command: str, model: str) -> Tuple[str, List[Note]]:
    """Return what the file held that the om was made with, and a note where that is not known."""
    named = earlier_file(mode, command)
    if not named:
        return "", []
    for path in (named, os.path.join(os.path.dirname(model), os.path.basename(named))):
        if os.path.isfile(path):
            text = read_input(path, _MOST_BYTES).decode("utf-8")
            return text, [note("earlier-file-in-force", path)]
    return "", [note("earlier-file-missing", OPTIONS[mode], named)]


def _chosen(
    measured: Measured, mode: str, budget: Optional[Budget], out: str, notes: Sequence[Note]
) -> Cure:
    facts = measured.ops
    units, refused = units_of(mode, facts, measured.graph, measured.nodes)
    units = {name: unit for name, unit in units.items() if any(facts[op].cause for op in unit.ops)}
    selection = _selection(measured, units, budget)
    ranked = [
        Ranked(one, selection.network.contribution(name), name in selection.ops)
        for name, one in facts.items()
        if one.cause
    ]
    ranked.sort(key=lambda one: -one.contribution)
    blind = {
        name: reason
        for name, reason in refused.items()
        if facts[name].cause and (facts[name].wrong or facts[name].dtype in NARROW)
    }
    path = os.path.join(out, FILES[mode]) if selection.units else None
    command = (
        command_of(mode, os.path.abspath(path), measured.graph.command)
        if path is not None
        else Command((), (), ())
    )
    said = [*measured.notes, *notes, *command.notes]
    if not measured.outputs_fail[1]:
        said.append(note("no-output-compared"))
    return Cure(
        mode,
        path,
        selection.units,
        tuple(ranked),
        tuple(one for one in facts.values() if not one.cause),
        blind,
        selection.before,
        selection.after,
        selection.best,
        measured.outputs_fail,
        tuple(name for name in measured.gone if name not in selection.ops),
        command,
        tuple(said),
    )


class _Selection(NamedTuple):
    """What is raised: units and their ops, and the worst output's error as :class:`Cure` has it."""

    network: ErrorNetwork
    units: Tuple[Unit, ...]
    ops: Set[str]
    before: float
    after: float
    best: float


def _selection(
    measured: Measured, units: Mapping[str, Unit], budget: Optional[Budget]
) -> _Selection:
    """Return what to raise of units that a lack of precision makes wrong."""
    facts, network = measured.ops, measured.network
    raisable = {op for unit in units.values() for op in unit.ops}
    if raisable & network.wide:
        # float32 whose products are shortened.
        network = ErrorNetwork(network.tensors, network.wide - raisable)
    most = None if budget is None else budget.most(len(facts))
    by_unit = {name: unit.ops for name, unit in units.items()}
    choice = network.choose(by_unit, most)
    helps = choice.best <= _HELPS * choice.before and choice.before > 1.0
    names = list(choice.units) if helps else []
    tried = _rehearsed(measured, by_unit, choice, most)
    if tried is not None:
        names = tried.units
    if budget is None:
        names += [
            name
            for name, unit in units.items()
            if name not in names and any(facts[op].wrong and facts[op].cause for op in unit.ops)
        ]
    raised = {op for name in names for op in units[name].ops}
    before, after = (float(network.errors(ops).max(initial=0.0)) for ops in ((), raised))
    best = choice.best
    if tried is not None and measured.rehearsal is not None:
        best, before, after = tried.best, tried.before, measured.rehearsal.worst(raised)
    return _Selection(network, tuple(units[name] for name in names), raised, before, after, best)


class _RehearsedUnits(NamedTuple):
    units: List[str]
    before: float
    best: float


def _rehearsed(
    measured: Measured, units: Mapping[str, Sequence[str]], choice: Choice, most: Optional[int]
) -> Optional[_RehearsedUnits]:
    """Return the fewest units by rehearsals; None where there can be none, or they do not tell what
    the device shows.
    """
    rehearsal = measured.rehearsal
    if rehearsal is None:
        return None
    try:
        before, best = (
            rehearsal.worst(()),
            rehearsal.worst([op for ops in units.values() for op in ops]),
        )
        if before <= 1.0 or best > _HELPS * before:
            return _RehearsedUnits([], before, best)
        if best > MARGIN:
            return _RehearsedUnits(list(choice.units), before, best)
        trials = int(min(MOST, max(FEWEST, ELEMENTS // max(measured.elements, 1))))
        chosen = narrowed(rehearsal, units, choice.order, len(choice.units), trials, MARGIN)
    except (CannotCompute, MemoryError, KeyError):
        return None
    return (
        None
        if chosen is None
        else _RehearsedUnits(chosen[0] if most is None else chosen[0][:most], before, best)
    )


def _raised_words(chosen: Cure) -> str:
    ops = plural(len(chosen.ops), "operator")
    if chosen.mode in (KEEP_DTYPE, CUSTOMIZE):
        return "%s to compute in float32" % ops
    kind = plural(len(chosen.units), "op type")
    return "%s (%s) to compute %s" % (
        kind,
        ops,
        "with high precision" if chosen.mode == OP_PRECISION else "in float32",
    )


def _times_limit(error: float) -> str:
    return "far beyond its limit" if error >= _FAR else "%.2g times its limit" % error


def _other_reasons(others: Sequence[OpPrecision]) -> str:
    """Return that some operators are wrong for other reasons than precision; empty where none
    is.
    """
    wrong = [one for one in others if one.wrong] or list(others)
    wrong.sort(key=lambda one: not one.explained)
    if not wrong:
        return ""
    first = wrong[0]
    names = listed([one.name for one in wrong if one.explained is first.explained], _SHOWN)
    if not first.wrong or not first.explained:
        return "why %s %s off is not known (%s)" % (
            names, "is" if len(wrong) == 1 else "are", first.sentence
        )  # fmt: skip
    return "%s %s wrong otherwise (%s), which float32 does not mend" % (
        names,
        "is" if len(wrong) == 1 else "are",
        first.sentence,
    )
