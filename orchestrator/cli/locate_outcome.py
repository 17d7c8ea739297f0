"""What a search for the operator that goes wrong came to, printed: its last lines hold the cause
and what to do.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import islice
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..base.errors import EXIT_BAD_INPUT, EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, EXIT_PROGRAM_FAILED
from ..base.fast_dataclasses import dataclass
from ..base.naming import printable
from ..base.notes import Note, note
from ..base.wording import listed, plural, size_text
from ..device.launch.program import LOG_FILE
from ..device.locate.cure_rounds import Round
from ..device.locate.narrowing import Narrowed
from ..device.locate.network_outputs import first_decision, outputs_words, passing_in_dumps
from ..device.locate.search import PAGE, RUN, CaseResult, Search, worst_exit_code
from ..device.locate.shape_combinations import shapes_text
from ..judging.by_other_rows import REMARKS
from ..judging.diagnosis.op_input_states import UNKNOWN
from ..metrics.class_and_box_agreement import USUAL
from ..metrics.row import BY_ROUNDING, FAIL, NOT_COMPARED, PASS, Row
from ..model.op_node import without_gear
from ..reports.result_json import RESULT_FILE
from ..run.result import RunResult
from ..run.watch_options import KEEP_ALL
from .error_handling import report_error
from .next_commands import masked_beyond_the_type
from .printing import columns_of, command_lines, put_escaped, put_line, put_wrapped
from .result_text import verdict_line
from .shell_words import command_words, shell_lines, shell_word

_VERDICTS = (EXIT_PASS, EXIT_FAIL, EXIT_INCOMPLETE)
_OUTPUTS = {PASS: "within limits", FAIL: "outside limits"}
_MOST_CAUSES, _MOST_NAMES = 3, 4
_COMPARE_INPUTS = (
    "compare what the device read with what golden data were made of: the om's inputs and "
    "preprocessing (AIPP), and whether the om holds the whole model or a part of it"
)
_CURE = (
    "it chooses the operators to compute in float32; this command with --cure%s --force chooses, "
    "converts, runs and judges again"
)
_CURE_AGAIN = (
    "this command with --cure%s --force: it dumps again and keeps all, chooses the operators to "
    "compute in float32, converts, runs and judges again (--keep all --force keeps the dumps for "
    "goldwatch cure, which chooses only)"
)


@dataclass
class SmallestPart:
    """The result of a search for the smallest part that fails: the cuts, the smallest failing one,
    and the archive.
    """

    cuts: List[Narrowed]
    smallest: Optional[Narrowed] = None
    bundle: Optional[str] = None
    files: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a search came to.

    Attributes
    ----------
    smaller
        The search for the smallest part; None where there was none.
    rounds
        Of a cure; None where there was none.
    """

    search: Search
    results: Sequence[CaseResult]
    smaller: Optional[SmallestPart] = None
    rounds: Optional[Sequence[Round]] = None

    @property
    def searched(self) -> int:
        """The exit code of the search itself."""
        return worst_exit_code(result.code for result in self.results)

    @property
    def code(self) -> int:
        """The exit code: that of the last round where operators were raised."""
        last = self.rounds[-1] if self.rounds else None
        return last.code if last is not None and last.located is not None else self.searched

    @property
    def earlier(self) -> Optional[Note]:
        """What is to be said where a run was made by an earlier command."""
        times = [result.earlier for result in self.results if result.earlier is not None]
        if not times:
            return None
        words = "an earlier command"
        if min(times):
            words = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(times)))
        if len(times) < len(self.results):
            words += " in %d of %d runs" % (len(times), len(self.results))
        return note("result-of-earlier", words)

    @property
    def culprits(self) -> List[str]:
        """The operators to look at, that of each run first, each once."""
        first = [result.culprit for result in self.results if result.culprit is not None]
        return list(
            dict.fromkeys([*first, *(op for result in self.results for op in result.culprits)])
        )

    def stored_part(self) -> Dict[str, Any]:
        """Return what is kept of it in locate.json."""
        runs = [result.document() for result in self.results]
        return {"exit_code": self.code, "culprits": self.culprits, "runs": runs}

    def document(self) -> Dict[str, Any]:
        """Return the document of schemas/locate.schema.json."""
        smaller = self.smaller
        smallest = None if smaller is None else smaller.smallest
        return {
            "out": self.search.plan.request.out,
            **self.stored_part(),
            "cuts": [_cut_document(cut) for cut in smaller.cuts] if smaller is not None else [],
            "smallest": None if smallest is None else _cut_document(smallest),
            "bundle": smaller.bundle if smaller is not None else None,
            "rounds": [each.document() for each in self.rounds or ()],
            "steps": self.search.steps.commands,
            "notes": [one.document() for one in self.search.notes],
        }


def print_outcome(outcome: Outcome) -> None:
    """Print it: each run's verdict, then the culprits, what their errors look like and what to do,
    last the files that hold the rest.
    """
    results = outcome.results
    cured = any(each.located is not None for each in outcome.rounds or ())
    before = "before: " * cured
    if outcome.earlier:
        put_wrapped(outcome.earlier)
    for result in results if len(results) == 1 else ():
        if result.run is not None:
            put_wrapped(before + verdict_line(result.run))
            put_wrapped(before + result.run.sentence)
        if result.final is not None:
            words = _outputs_words(result.run, result.final)
            put_wrapped("%soutputs of the network: %s" % (before, words))
    if len(results) > 1:
        put_line("")
        for result in results:
            put_line(before + _case_line(result))
    if outcome.searched not in _VERDICTS:
        for result in results:
            _print_failure(result)
        return
    if cured:
        _print_files(outcome)
    _print_end(outcome, cured)
    if not cured:
        _print_files(outcome)
    if outcome.smaller is not None:
        _print_smallest(outcome.smaller)
    _print_rounds(outcome)


def _print_rounds(outcome: Outcome) -> None:
    """Print what came of raising operators: each round that was not enough, and last the file and
    the command of the last that was run.
    """
    rounds = outcome.rounds or ()
    run = [each for each in rounds if each.located is not None]
    for number, each in enumerate(rounds, 1):
        if each.located is None:
            put_wrapped("round %d: %s" % (number, each.sentence))
        elif each is not run[-1]:
            put_wrapped(
                "round %d: %s in float32: %s (%s)"
                % (number, _few(each.raised), each.verdict, each.located)
            )
    for each in run[-1:]:
        passes = each.code == EXIT_PASS
        put_wrapped(
            "%s by %s (%s in float32; %s%s)"
            % (
                "cured" if passes else "outputs cured" if each.outputs == PASS else "not cured",
                each.file,
                _few(each.raised),
                "" if passes else each.verdict + "; ",
                each.located,
            )
        )
        put_escaped(command_lines("  $ " + each.command[0], each.command[1:], sys.stdout))
    if outcome.rounds == []:
        put_wrapped(
            "cure: nothing to raise: %s"
            % (
                "no run is outside its limits"
                + (
                    ""
                    if _of_precision(outcome.results) is None
                    else "; --strict raises the suspect"
                )
                if outcome.searched == EXIT_PASS
                else "no run could be judged"
            )
        )


def _outputs_words(run: Optional[RunResult], final: RunResult) -> str:
    summary = final.summary
    if summary.verdict not in (PASS, FAIL):
        return verdict_line(final)
    of_all = plural(summary.failed + summary.passed, "tensor")
    counts = of_all if summary.verdict == PASS else "%d of %s" % (summary.failed, of_all)
    return "%s (%s)" % (outputs_words(run, final), counts)


def _other_outputs(final: Optional[RunResult]) -> Optional[Note]:
    """Return what is said of outputs that are not the original model's, or stand elsewhere."""
    warnings = () if final is None else final.summary.warnings
    return next((one for one in warnings if one.code == "other-outputs"), None)


def _tell_outputs(result: CaseResult) -> None:
    """Print why outputs are outside their limits though no operator is, and what to do."""
    run, final = result.run, result.final
    if run is None or final is None or final.summary.verdict != FAIL or run.summary.failed:
        return
    passing = passing_in_dumps(run, final)
    nexts: Dict[str, None] = {}
    others = _other_outputs(final)
    for output in islice(final.rows(FAIL), _MOST_CAUSES):
        row = passing.get(output.tensor)
        codes = [] if row is None else row.reason_codes.split("; ")
        why = next((REMARKS[code] for code in codes if code in REMARKS), "")
        if row is None and others is not None:
            why = str(others)
            nexts[others.next] = None
        elif row is None:
            why = (
                "no output in the dumps holds these values: the program changed them, or the file "
                "is of another run"
            )
            nexts["the same command with --again runs the om anew"] = None
        elif why:
            first = first_decision(run)
            decided = "" if first is None else ": %s decided first" % printable(first.tensor)
            text = "look whether another order of nearly equal values is all that differs%s"
            nexts[text % decided + _boxes_command(result, final, output)] = None
        else:
            why = (
                "the small errors of right operators add up to it"
                if row.warning == BY_ROUNDING
                else "its dump is within its limits: there slices are measured beside the mean of "
                "all, of an output each by its own size"
            )
            nexts[
                "where so small parts of the outputs matter, keep what leads to them in float32 "
                "(goldwatch cure lists what the error of each operator comes to)"
            ] = None
        outside = output.reason.partition("; ")[0]
        put_wrapped("%s: %s: %s" % (printable(output.tensor), outside, why), "  ")
    for text in nexts:
        put_wrapped("  next: %s" % text, "    ")


def _boxes_command(result: CaseResult, final: RunResult, output: Row) -> str:
    """Return in parentheses the command that compares an output's boxes in any order; empty where
    it holds none.
    """
    options = final.options
    if options.model is None or not output.shape or output.shape[-1] not in USUAL:
        return ""
    out = os.path.join(result.folder, "boxes")
    words = ["-f", options.model, "--boxes", output.tensor, "-o", out]
    command = command_words(["goldwatch", "compare"], [options.target, options.golden], words)
    return " (%s compares boxes in any order)" % " ".join(map(shell_word, command))


def _print_smallest(smaller: SmallestPart) -> None:
    for cut in smaller.cuts:
        verdict = {EXIT_PASS: "passes alone", EXIT_FAIL: "fails alone"}.get(cut.code, "incomplete")
        put_line("  %s: %s (%s)" % (_few(cut.layers), verdict, cut.folder))
    if smaller.smallest is not None:
        put_wrapped(
            "smallest part that fails alone: %s (%s)"
            % (_few(smaller.smallest.layers), smaller.smallest.folder)
        )
    elif smaller.cuts:
        put_wrapped(
            "the whole model, converted anew, is right: the om was converted otherwise (from "
            "another file, by another version of the compiler, or with other options); convert it "
            "again"
            if any(cut.whole for cut in smaller.cuts)
            else "no part fails alone: the fault needs what is around it"
        )
    if smaller.bundle is not None:
        put_wrapped(
            "bundle: %s: %s, %s"
            % (
                smaller.bundle,
                plural(smaller.files, "file"),
                size_text(os.path.getsize(smaller.bundle)),
            )
        )


def _tell_taken_aipp(results: Sequence[CaseResult]) -> None:
    """Say of which inputs golden data were made by the om's own AIPP: that it is the right one, no
    comparison tells.
    """
    pairs = [pair for result in results for pair in result.case.pairs if pair.image is not None]
    if pairs:
        names = dict.fromkeys(printable(pair.model.name) for pair in pairs)
        put_wrapped(
            "AIPP was not checked: golden data were made of what the om's own AIPP makes of %s"
            % listed(list(names), _MOST_NAMES)
        )
        put_wrapped(
            "  next: compare its channel order, mean and factor with the preprocessing that the "
            "model was trained with, or golden data of that with the dump (goldwatch compare)",
            "    ",
        )


def _few(names: Sequence[str]) -> str:
    return listed([printable(name) for name in names], _MOST_NAMES)


def _print_failure(result: CaseResult) -> None:
    """Print on stderr why the program of a run failed, if that is known, and what to do next."""
    if result.code in _VERDICTS:
        return
    where = " (%s)" % shapes_text(result.case.shapes) if result.case.shapes else ""
    if result.run is not None and result.problem is None and result.code == EXIT_BAD_INPUT:
        _print_nothing_compared(result, result.run, where)
        return
    message = (
        result.problem.message
        if result.problem is not None
        else "its output is in %s" % os.path.join(result.folder, RUN, LOG_FILE)
    )
    again = "the same command goes on with the run: all before it is kept"
    report_error("program_failed", "the run of the om failed%s: %s" % (where, message),
                 again if result.problem is None else "%s; %s" % (result.problem.hint, again),
                 False)  # fmt: skip


def _print_nothing_compared(result: CaseResult, run: RunResult, where: str) -> None:
    """Print on stderr why a run whose program succeeded has no verdict on the outputs."""
    summary = run.summary
    message = "the outputs of the network could not be compared%s" % where
    why = "" if result.final is None else _why_not_compared(result.final)
    message += ": %s" % why if why else ""
    question = "has OM at its end operators more or less than MODEL?"
    if summary.not_compared > summary.passed + summary.failed:
        message += "; nor could %d of the %d rows of the dumps that should have golden data" % (
            summary.not_compared,
            summary.not_compared + summary.passed + summary.failed,
        )
        question = "is OM made of MODEL?"
    hint = "%s Convert MODEL with atc, and name that om and another -o" % question
    report_error("not_comparable", message, hint, False)


def _why_not_compared(run: RunResult) -> str:
    """Return the reasons of the first rows that could not be compared."""
    rows = islice(run.rows(NOT_COMPARED), _MOST_CAUSES)
    reasons = ["%s: %s" % (printable(row.tensor or row.op), row.reason) for row in rows]
    more = run.summary.not_compared - len(reasons)
    return "; ".join(reasons) + (", and %d more" % more if more > 0 else "")


def _case_line(result: CaseResult) -> str:
    verdict = (
        "program failed"
        if result.run is None or result.code == EXIT_PROGRAM_FAILED
        else result.run.summary.verdict
    )
    final = result.outputs or ""
    outputs = final and ", outputs %s" % _OUTPUTS.get(final, final)
    culprits = "" if result.culprit is None else ": %s" % _few(result.culprits)
    return "  %-12s  %s%s%s" % (shapes_text(result.case.shapes), verdict, outputs, culprits)


def _tell_cleared(outcome: Outcome, result: CaseResult) -> None:
    """Print why outputs are off though no operator is wrong, and what to do."""
    summary = None if result.run is None else result.run.summary
    first = None if summary is None else summary.first
    document = None if summary is None else summary.recomputed
    left = [] if document is None else [str(entry["op"]) for entry in document["not_computed"]]
    nobody = "no operator is wrong by itself: each is right on the device's own inputs"
    if left:
        nobody = "no operator that could be computed again is wrong by itself (%s could not)" % (
            listed(left, _MOST_NAMES)
        )
    if first is not None and first.inputs == UNKNOWN:
        put_wrapped(
            "%s; those of %s, the first outside its limits, were not all compared: whose error "
            "it is is not known" % (nobody, result.cleared)
        )
        put_wrapped("  next: %s" % _COMPARE_INPUTS, "    ")
        return
    if summary is not None and not summary.inherited:
        # The run's sentence says what is known of the first divergence.
        put_wrapped(nobody)
        if outcome.rounds is None and result.run is not None and masked_beyond_the_type(result.run):
            _tell_cure(outcome.search, result)
        return
    if summary is not None and summary.as_fed:
        grew = ", and the inputs of %s, the first outside its limits, are as far off as its output"
    elif left:
        grew = ": whether small errors add up until %s is outside its limits is not known"
    else:
        grew = ", small errors add up until %s is outside its limits"
    put_wrapped(nobody + grew % result.cleared)
    if outcome.rounds is None:
        _tell_cure(outcome.search, result)


def _print_end(outcome: Outcome, cured: bool) -> None:
    """Print the verdict of the whole search, with its cause and what to do.

    ``cured``: whether what to do is a file that was tried, and follows.
    """
    results = outcome.results
    is_sure = _tell_other_json(outcome)
    _tell_culprits(outcome, cured, is_sure)
    for result in results:
        if result.cleared is not None:
            _tell_cleared(outcome, result)
            break
    if any(result.had_other_inputs for result in results):
        put_wrapped("suspect: none: device and golden data had different inputs")
        advice = (
            "compare OUT/inputs with what the device was fed with, preprocessing (AIPP, mean, "
            "channel order) included"
            if outcome.search.plan.request.golden is None
            else "give with -i the inputs that the golden data were made with, or leave --golden "
            "out: then golden data are made of the inputs that -i names"
        )
        put_wrapped("  next: %s" % advice, "    ")
    for each in [result.cleared_by for result in results if result.cleared_by is not None][:1]:
        put_wrapped("suspect: none: %s: %s" % (each.kind, each.sentence))
        put_wrapped("  next: %s" % each.next, "    ")
    if not outcome.culprits:
        for result in results:
            _tell_outputs(result)
    if outcome.searched == EXIT_PASS and not outcome.culprits:
        finals = [result.final for result in results]
        if all(final is None or final.summary.verdict == PASS for final in finals):
            others = next(filter(None, map(_other_outputs, finals)), None)
            but = "" if others is None else ", but %s" % others
            put_wrapped("outputs agree within their limits" + but)
            if others is not None:
                put_wrapped("  next: %s" % others.next, "    ")
            _tell_taken_aipp(results)
    if outcome.searched == EXIT_INCOMPLETE:
        incomplete = next(result for result in results if result.code == EXIT_INCOMPLETE)
        part = incomplete.final
        if part is None or part.summary.verdict in (PASS, FAIL):
            part = incomplete.run
        if part is not None:
            put_wrapped("incomplete: %s" % (_why_not_compared(part) or part.sentence), "  ")
            again = "; the same command runs the om again" if is_sure else ""
            put_wrapped(
                "  next: result.json in %s says why of each row%s" % (part.options.out, again)
            )


def _tell_other_json(outcome: Outcome) -> bool:
    """Say it where the json is not of the om that was run, and what to do; return whether it is."""
    said = next(filter(None, (result.other_json for result in outcome.results)), None)
    if said is None:
        return True
    put_wrapped("not for certain: %s" % said, "  ")
    put_wrapped(
        "  next: does the program run OM? The json is made of it"
        if outcome.search.plan.request.om_json is None
        else "  next: leave -f out (atc makes the json of OM), or give that of OM, with --force",
        "    ",
    )
    return False


def _print_files(outcome: Outcome) -> None:
    """Name the files that hold the rest."""
    for result in outcome.results:
        out = os.path.join(result.folder, RUN)
        if result.run is not None:
            put_wrapped(
                "all rows: %s; what the program printed: %s"
                % (os.path.join(out, RESULT_FILE), os.path.join(out, LOG_FILE))
            )
        page = os.path.join(result.folder, PAGE)
        if os.path.isfile(page):
            put_line("page: %s" % page)


def _tell_culprits(outcome: Outcome, cured: bool, is_sure: bool) -> None:
    """Print the culprits: that of each run, the others behind the first; then their errors, of
    the first alone where a cure was tried. ``is_sure``: the json is that of the om.
    """
    results = outcome.results
    counts: Dict[str, int] = {}
    for result in results:
        if result.culprit is not None:
            name = without_gear(result.culprit)
            counts[name] = counts.get(name, 0) + 1
    others = dict.fromkeys(map(without_gear, outcome.culprits))
    more = [name for name in others if name not in counts]
    for number, (name, count) in enumerate(counts.items()):
        runs = " in %d of %d runs" % (count, len(results)) if len(results) > 1 else ""
        behind = ", and %d more: %s" % (len(more), _few(more)) if more and not number else ""
        doubt = "" if is_sure else " (if the json fits)"
        put_wrapped("suspect: %s%s%s%s" % (printable(name), runs, behind, doubt))
    for name, cause, next_step in _causes(results)[: 1 if cured else _MOST_CAUSES]:
        put_wrapped("  %s: %s" % (printable(name), cause), "    ")
        if next_step and not cured:
            put_wrapped("    next: %s" % next_step, "      ")
    of_precision = _of_precision(results)
    if outcome.rounds is None and of_precision is not None:
        _tell_cure(outcome.search, of_precision)
    in_spite = _why_in_spite(outcome) if counts else ""
    if in_spite:
        put_wrapped("  " + in_spite)


def _of_precision(results: Sequence[CaseResult]) -> Optional[CaseResult]:
    """Return the first run with a culprit that an operator in float32 cures."""
    return next(
        (
            result
            for result in results
            for suspect in result.suspects
            for explanation in suspect.explanations[:1]
            if explanation.of_precision
        ),
        None,
    )


def _tell_cure(search: Search, result: CaseResult) -> None:
    """Print the command that chooses what to compute in float32; it computes from all dumps."""
    plan = search.plan
    # What passes all the same, --cure leaves as it is.
    strict = " --strict" if result.code == EXIT_PASS else ""
    if plan.request.keep != KEEP_ALL:
        put_wrapped("  next: %s" % (_CURE_AGAIN % strict), "    ")
        return
    words = [os.path.join(result.folder, RUN)]
    words += [] if plan.interface is None else ["-f", plan.interface.path]
    words += [] if plan.original is None else ["--original", plan.original.path]
    words += ["-o", os.path.join(result.folder, "cure")]
    width = columns_of(sys.stdout) or 10**9
    put_escaped(shell_lines("  next: goldwatch cure", words, width))
    put_wrapped("    (%s)" % (_CURE % strict), "     ")


def _causes(results: Sequence[CaseResult]) -> List[Tuple[str, str, str]]:
    """Return name, what the error looks like, and what to do next, of each culprit."""
    by_name: Dict[str, Tuple[str, str, str]] = {}
    for result in results:
        for suspect in result.suspects:
            name = without_gear(suspect.op)
            first = next(iter(suspect.explanations), None)
            cause = suspect.evidence if first is None else "%s: %s" % (first.kind, first.sentence)
            by_name.setdefault(name, (name, cause, "" if first is None else first.next))
    return list(by_name.values())


def _why_in_spite(outcome: Outcome) -> str:
    """Return why there is a culprit though something passes; empty where all fails."""
    named = [result.run for result in outcome.results if result.culprit is not None]
    # With --strict such a run has exit code 1.
    if all(run is not None and run.summary.verdict == PASS for run in named):
        return (
            "(every tensor is within its limits all the same: it is named because its error is its "
            "own, and larger than rounding explains)"
        )
    finals = [result.outputs for result in outcome.results if result.culprit is not None]
    if finals and all(outputs == PASS for outputs in finals):
        return (
            "(the outputs of the network are within their limits all the same: with this input the "
            "error hardly reaches them, with another one (-i) it may)"
        )
    return ""


def _cut_document(cut: Narrowed) -> Dict[str, Any]:
    return {"folder": cut.folder, "layers": list(cut.layers), "exit_code": cut.code}
