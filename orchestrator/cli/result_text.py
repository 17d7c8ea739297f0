"""Prints the result of a run: the table, the findings, and last the verdict, the culprit and the
next command.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple

from ..base.errors import EXIT_PASS, GoldwatchError
from ..base.option_fields import option, options_class
from ..base.wording import plural
from ..dumps.place import NOWHERE, Place
from ..judging.diagnosis.culprit_sentence import of_model
from ..metrics.row import FAIL, NOT_COMPARED, PASS
from ..reports.counts_by_place import place_lines, step_lines
from ..reports.csv_tables import STEP_OP_FILE
from ..reports.terminal_table import COLOURS, render_table
from ..store.host_facts import host_sentence
from .command import PrintArguments
from .next_commands import (
    closer_words,
    next_command,
    which_dump_is_right,
    whose_error_it_is,
)
from .printing import (
    columns_of,
    marked,
    print_result_file,
    put,
    put_escaped,
    put_wrapped,
    sentence_lines,
    use_colour,
    wrapped,
)
from .progress import ProgressBar
from .report_files import ReportArguments, Reports, write_reports
from .shell_words import shell_lines

if TYPE_CHECKING:
    from ..judging.diagnosis.summary import Summary
    from ..judging.diagnosis.suspects import Suspect
    from ..run.result import RunResult

_MOST_SHOWN = 5
_MOST_EXPLANATIONS = 2
_ALIKE = 0.02


def verdict_lines(result: RunResult, width: Optional[int]) -> List[str]:
    """Return the warnings, a line for each of several models, and the suspects, each with its
    explanation and the advice that goes with it.

    Parameters
    ----------
    width
        Of the terminal, in columns; None: lines are not wrapped.
    """
    summary = result.summary
    lines: List[str] = []
    for warning in [warning for warning in summary.warnings if warning not in result.left_out]:
        lines += sentence_lines(marked(warning), width)
    for text in [model.sentence for model in summary.models if len(summary.models) > 1] + _devices(
        summary
    ):
        lines += sentence_lines(text, width)
    for host in summary.hosts or ():
        lines += sentence_lines(host_sentence(host), width)
    if summary.recomputed is not None:
        lines += sentence_lines(_recomputed(summary.recomputed), width)
    for number, suspect in enumerate(summary.suspects[:_MOST_SHOWN], 1):
        lines += _suspect(number, suspect, width, len(summary.models) > 1)
        if suspect.explanations and suspect.accuses:
            lines += _closer(result, suspect.op, suspect.place, width)
    if len(summary.suspects) > _MOST_SHOWN:
        lines.append(
            "  and %d more suspects, see result.json" % (len(summary.suspects) - _MOST_SHOWN)
        )
    for culprit in (summary.culprits or ())[:_MOST_SHOWN]:
        lines += sentence_lines("suspect: %s" % culprit["op"], width)
        lines += _closer(result, culprit["op"], NOWHERE, width)
    return lines


def _closer(result: RunResult, op: str, place: Place, width: Optional[int]) -> List[str]:
    words = closer_words(result.options, op, place)
    return shell_lines("  look closer:", words, width or 10**9) if words else []


def _recomputed(recomputed: Mapping[str, Any]) -> str:
    """Return how many operators were computed again, and how many are right and wrong."""
    left = recomputed["not_computed"]
    counts = (
        "%s: %d right, %d wrong"
        % (plural(recomputed["ops"], "op"), recomputed["right"], recomputed["wrong"])
        if recomputed["ops"]
        else "no op"
    )
    assumed = (
        "; %d otherwise of golden data's input, the device's was not dumped" % recomputed["assumed"]
        if recomputed.get("assumed")
        else ""
    )
    why = "; %d could not be (%s: %s%s)" % (
        len(left), left[0]["op"], left[0]["reason"],
        "; more in result.json" if len(left) > 1 else ""
    ) if left else ""  # fmt: skip
    rest = (
        "; %d left out for the time they take (--recompute all)" % recomputed["left_out"]
        if recomputed.get("left_out")
        else ""
    )
    return "computed again from the device's own inputs: %s%s%s%s" % (counts, assumed, why, rest)


def _devices(summary: Summary) -> List[str]:
    """Return whether several devices agree."""
    if summary.devices_agree is None:
        return []
    apart = [model for model in summary.models if model.difference is not None]
    if not apart:
        return ["all devices agree: every tensor has the same verdict on each"]
    named = ["" if model.name is None else " (model %s)" % model.name for model in apart]
    return [
        "the devices do not agree%s: %s" % (of, model.difference.sentence)
        for of, model in zip(named, apart)
        if model.difference
    ]


def _suspect(
    number: int, suspect: Suspect, width: Optional[int], several_models: bool
) -> List[str]:
    named = suspect.named + (of_model(suspect.place) if several_models else "")
    head = "suspect %d: %s, score %.0f, confidence %s" % (
        number,
        named,
        suspect.score,
        suspect.confidence,
    )
    if not suspect.accuses:
        head = "no suspect, though %s differs" % named
    lines = sentence_lines("%s: %s" % (head, suspect.evidence), width)
    least = max((entry.share for entry in suspect.explanations), default=0.0) - _ALIKE
    for entry in [entry for entry in suspect.explanations if entry.share >= least][
        :_MOST_EXPLANATIONS
    ]:
        share = " (%.0f %% of its error)" % (100 * entry.share) if entry.share else ""
        lines += sentence_lines("  %s%s: %s" % (entry.kind, share, entry.sentence), width, "    ")
        lines += sentence_lines("    next: " + entry.next, width, "    ")
    return lines


FIRST, ALL, NONE = "first", "all", "none"


@options_class
class ResultArguments(ReportArguments, PrintArguments):
    """How a command prints the result of its run."""

    table: str = option(
        "--table",
        choices=(FIRST, ALL, NONE),
        help="The rows to print: the suspects and what is around them (not with -q), all, or "
        "none.",
        default=FIRST,
        show_default=True,
    )


def print_result(
    result: RunResult, arguments: ResultArguments, planned: Reports, stopped: str = ""
) -> None:
    """Write the report files, then print the document of result.json, or the table and the verdict.

    Parameters
    ----------
    stopped
        As for :func:`print_end`.

    Raises
    ------
    GoldwatchError
        A file could not be written; the text is printed all the same.
    """
    problem = print_found(result, arguments, planned)
    print_end(result, arguments, result.exit_code, stopped=stopped)
    if problem is not None:
        raise problem


def print_found(
    result: RunResult, arguments: ResultArguments, planned: Reports
) -> Optional[GoldwatchError]:
    """Do all of :func:`print_result` but the last lines; return the error if a file could not be
    written, else None.
    """
    problem: Optional[GoldwatchError] = None
    try:
        with ProgressBar("writing the report", arguments.quiet) as bar:
            if planned:
                bar.update(0, 0)
            write_reports(result.options.out, planned, on_progress=bar.update)
    except GoldwatchError as error:
        problem = error
    if arguments.output_format != "json":
        table = NONE if arguments.quiet and arguments.table == FIRST else arguments.table
        if table == NONE and arguments.quiet and _says_all(result):
            for text in result.summary.warnings:
                if text in result.left_out:
                    continue  # Was said.
                put_wrapped(marked(text))
        else:
            _print_text(result, table)
    elif problem is None:
        print_result_file(result.files[-1])
    return problem


def print_end(
    result: RunResult,
    arguments: ResultArguments,
    code: int,
    replayed: Optional[RunResult] = None,
    stopped: str = "",
) -> None:
    """Print the last lines of a text: verdict, culprit and the next command; after a replay, those
    of the replay.

    Parameters
    ----------
    code
        The exit code, as far as the rows of the run and its program decide it.
    stopped
        What ended the run before its end, as a sentence: more dumps may have come.
    """
    if arguments.output_format == "json":
        return
    width = columns_of(sys.stdout)
    _put_verdict(result, code, width, use_colour(sys.stdout))
    for line in sentence_lines(result.sentence, width, ""):
        put(line)
    # Of a run that passes nothing is missing.
    options = [said.next for said in result.left_out] if result.exit_code != EXIT_PASS else []
    tell = [which_dump_is_right(result), whose_error_it_is(result)]
    for text in filter(None, [stopped, *dict.fromkeys(options), *tell]):
        for line in sentence_lines(text, width):
            put(line)
    if arguments.quiet and code == EXIT_PASS and _says_all(result):
        return
    head, words = next_command(replayed or result)
    lines = shell_lines(head, words, width or 10**9) if words else sentence_lines(head, width)
    for line in lines:
        put(line)


def _says_all(result: RunResult) -> bool:
    """Tell whether a result passes with nothing to explain and nothing to do next."""
    return result.exit_code == EXIT_PASS and not result.summary.suspects


def _print_text(result: RunResult, table: str) -> None:
    width, colour = columns_of(sys.stdout), use_colour(sys.stdout)
    # Of many hosts only those that did not pass; each has a line of its own below.
    by_place = list(
        step_lines(result.places, colour, width)
        if len({one.place.step for one in result.places}) > 1
        else place_lines(result.places, colour, width, only_bad=result.summary.hosts is not None)
    )
    if len(result.places) > 1 and by_place:
        put_escaped(by_place)
        put()
    if table == ALL or (table == FIRST and result.shown):
        blocks: Sequence[Any] = [result.rows()] if table == ALL else result.shown
        total = None if table == ALL else result.stored_rows
        first = result.first_divergence
        places = [suspect_places.place for suspect_places in result.places]
        tensor = first.tensor if first else None
        put_escaped(
            render_table(
                blocks, total, _tables(result), tensor, colour=colour, width=width, places=places
            )
        )
        put()
    for line in verdict_lines(result, width):
        put(line)
    over_devices = [path for path in result.files if os.path.basename(path) == STEP_OP_FILE]
    put_wrapped("Results: %s" % ", ".join([_tables(result), *over_devices, result.files[-1]]))


def _tables(result: RunResult) -> str:
    """Return the paths of the files that hold all rows."""
    tables = [
        path
        for path in result.files[:-1]
        if os.path.basename(path).rpartition("_")[0].endswith("result")
    ]
    return tables[0] if len(tables) == 1 else "%d tables in %s" % (len(tables), result.options.out)


def _put_verdict(result: RunResult, code: int, width: Optional[int], colour: bool) -> None:
    from ..judging.diagnosis.summary import failure_beside_rows

    summary = result.summary
    accused = sum(suspect.accuses for suspect in summary.suspects)
    failure = failure_beside_rows(code, summary.verdict, summary.program, accused)
    if failure:
        put_escaped(wrapped("%s; of the rows: %s" % (failure, verdict_line(result)), width))
        return
    lines = wrapped(verdict_line(result), width)
    if colour:
        verdict = result.summary.verdict
        escape = COLOURS[verdict if verdict in (PASS, FAIL) else NOT_COMPARED]
        lines[0] = "\x1b[1;%sm%s\x1b[0m%s" % (escape, verdict, lines[0][len(verdict) :])
    put_escaped(lines)


def verdict_line(result: RunResult) -> str:
    """Return the counts in one line; zeros only where they matter."""
    from ..judging.diagnosis.suspects import suspects_counted

    summary = result.summary
    parts: Tuple[Tuple[int, str, bool], ...] = (
        (summary.passed, "pass", True),
        (summary.failed, "fail", True),
        (
            summary.not_compared,
            "not compared" + (" (%d forgiven)" % summary.forgiven if summary.forgiven else ""),
            False,
        ),
        (summary.expected_absent, "absent as expected", False),
    )
    counts = ", ".join(
        "%d %s" % (count, words) for count, words, always in parts if count or always
    )
    counts += "".join("; " + text for text in [suspects_counted(summary.suspects)] if text)
    sizes = plural(summary.ops, "op"), plural(summary.rows, "row")
    return "%s: %s, %s: %s" % (summary.verdict, *sizes, counts)
