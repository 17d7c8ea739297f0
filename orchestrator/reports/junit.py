"""JUnit XML: a suite for each device × model × step, a case for each op.

Source of the form: Jenkins' schema junit-10 of its xunit plugin, which GitLab's reader agrees with.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import IO, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..base.errors import EXIT_FAIL, EXIT_PASS, EXIT_PROGRAM_FAILED
from ..base.naming import printable
from ..base.notes import told
from ..dumps.place import NOWHERE, Place
from ..judging.diagnosis.summary import INCOMPLETE
from ..judging.diagnosis.suspects import NONE
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from .report_context import ReportFile

_INVALID = re.compile("[\ufffe\uffff]")


def _plain(text: str) -> str:
    """Return text without characters that XML has no place for: as escapes, as a terminal shows
    them.
    """
    return _INVALID.sub(lambda match: "\\u%04x" % ord(match.group()), printable(text))


def xml_text(value: str) -> str:
    """Return a text for the inside of an element."""
    # It brings in an HTTP client: 20 ms of every command's start.
    from xml.sax.saxutils import escape

    return escape(_plain(value))


def xml_attribute(value: str) -> str:
    """Return a text as an attribute's value, in quotation marks."""
    from xml.sax.saxutils import quoteattr

    return quoteattr(_plain(value))


_CHUNK = 1 << 20
_WORDS = {NOT_COMPARED: "not compared", EXPECTED_ABSENT: "absent as expected"}
_COUNTED = {PASS: "pass", FAIL: "outside their limits", **_WORDS}
_ERROR = '<testcase name="%s" classname=%s><error type="%s" message=%s/></testcase>\n'
_SUITE = '<testsuite name=%s tests="%d" failures="%d" errors="%d" skipped="%d" timestamp="%s">\n'


class JunitFile(ReportFile):
    """The run for a CI system: an op with a failing row is a failure, one of which an output was
    not compared is skipped.

    Of a merge of several hosts each suite has a case for the rows that are counted, but not stored
    there.

    The text of a failure is its explanation: what each failing row says, and what the verdict found
    about the op. A run that has not finished, is incomplete, or whose program failed has a case
    more at its end, an error that says so. Where suspects alone make a run fail (``--strict``)
    their ops are failures. So no run that ends with another exit code than 0 is green.
    The run's warnings stand in the first suite.
    """

    def begin(self) -> None:
        """Write what stands before the suites."""
        self._suspects: Dict[str, List[Mapping[str, Any]]] = {}
        for suspect in self.context.summary["suspects"]:
            self._suspects.setdefault(suspect["op"], []).append(suspect)
        self._unstored = dict(self.context.unstored)
        self._warnings = "\n".join(
            xml_text(told(warning)) for warning in self.context.summary["warnings"]
        )
        self._place: Optional[Place] = None
        self._case: List[Row] = []
        self._counts = {PASS: 0, FAIL: 0, NOT_COMPARED: 0}
        self._failures = 0
        context = self.context
        self._fails_by_suspects = (
            context.exit_code == EXIT_FAIL
            and context.summary["verdict"] == PASS
            and context.finished
        )
        # How many cases of each kind a suite has stands before them, and is known after them.
        folder = os.path.dirname(self.path) or os.curdir
        spool = tempfile.TemporaryFile("w+", encoding="utf-8", newline="", dir=folder)  # noqa: SIM115  closed with the file itself
        self._cases: IO[str] = self._open.enter_context(spool)
        self.stream.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="goldwatch">\n')

    def add(self, row: Row) -> None:
        """Take a row; those of an op stand together."""
        if self._case and (row.op != self._case[0].op or row.place != self._case[0].place):
            self._end_case()
            if row.place != self._place:
                self._end_suite()
        self._place = row.place
        self._case.append(row)

    def end(self) -> None:
        """Write the last suite and what stands behind it."""
        self._end_case()
        errors = self._errors()
        suite = xml_attribute(self._suite_name(self._place or NOWHERE))
        for name, kind, message in errors:
            self._cases.write(_ERROR % (name, suite, kind, xml_attribute(message)))
        self._end_suite(len(errors))
        for place in list(self._unstored):
            self._place = place
            self._end_suite()
        self.stream.write("</testsuites>\n")

    def _errors(self) -> List[Tuple[str, str, str]]:
        """Return name, kind and message of what makes the run fail besides its rows."""
        context, code = self.context, self.context.exit_code
        # Without it a run that was killed among healthy ops, or compared no output, would be green.
        if not context.finished:
            return [("the run has not finished", "unfinished", context.sentence)]
        errors = []
        if code == EXIT_PROGRAM_FAILED:
            message = "%s. %s" % (context.failure_beside_rows, context.sentence)
            errors.append(("the program failed", "program_failed", message))
        if context.summary["verdict"] == INCOMPLETE:
            errors.append(("the run is incomplete", "incomplete", context.sentence))
        if code is not None and code != EXIT_PASS and not errors and not self._failures:
            errors.append(("the run ended with exit code %d" % code, "exit_code", context.sentence))
        return errors

    def _end_case(self) -> None:
        rows, self._case = self._case, []
        if not rows:
            return
        op, outcome = rows[0].op, _outcome(rows)
        suspects = [
            suspect
            for suspect in self._suspects.get(op, ())
            if Place(**suspect["place"]) == rows[0].place
        ]
        suspect_lines = _suspect_lines(suspects)
        failing = [(row.tensor, row.reason) for row in rows if row.verdict == FAIL]
        if self._fails_by_suspects:
            failing += [(each["tensor"], "suspect: " + each["evidence"]) for each in suspects]
        outcome = FAIL if failing else outcome
        self._counts[outcome] += 1
        self._failures += outcome == FAIL
        body = (
            _failure(rows, failing, suspect_lines)
            if failing
            else _without_failure(rows, outcome, suspect_lines)
        )
        name, suite = xml_attribute(op), xml_attribute(self._suite_name(rows[0].place))
        self._cases.write("<testcase name=%s classname=%s>%s</testcase>\n" % (name, suite, body))

    def _add_unstored(self, counts: Mapping[str, int]) -> None:
        outcome = next(
            verdict
            for verdict in (FAIL, PASS, NOT_COMPARED, EXPECTED_ABSENT)
            if counts.get(verdict)
        )
        outcome = NOT_COMPARED if outcome == EXPECTED_ABSENT else outcome
        self._counts[outcome] += 1
        self._failures += outcome == FAIL
        text = ", ".join("%d %s" % (count, _COUNTED[verdict]) for verdict, count in counts.items())
        form = {
            FAIL: '<failure type="unstored" message=%s/>',
            NOT_COMPARED: "<skipped message=%s/>",
        }.get(outcome)
        body = (
            "<system-out>%s</system-out>" % xml_text(text)
            if form is None
            else form % xml_attribute(text)
        )
        name = "%d rows that the merge does not store" % sum(counts.values())
        parts = (xml_attribute(name), xml_attribute(self._suite_name(self._place or NOWHERE)), body)
        self._cases.write("<testcase name=%s classname=%s>%s</testcase>\n" % parts)

    def _end_suite(self, errors: int = 0) -> None:
        counts, context = self._counts, self.context
        unstored = self._unstored.pop(self._place or NOWHERE, None)
        if unstored:
            self._add_unstored(unstored)
        numbers = (sum(counts.values()) + errors, counts[FAIL], errors, counts[NOT_COMPARED])
        self.stream.write(
            _SUITE
            % (
                xml_attribute(self._suite_name(self._place or NOWHERE)),
                *numbers,
                _iso(context.started),
            )
        )
        facts = {
            "verdict of the run": context.summary["verdict"],
            "finished": "yes" if context.finished else "no",
            "result": context.sentence,
        }
        if context.failure_beside_rows:
            facts["failure beside the rows"] = context.failure_beside_rows
        parts = (
            "<property name=%s value=%s/>" % (xml_attribute(name), xml_attribute(text))
            for name, text in facts.items()
        )
        self.stream.write("<properties>%s</properties>\n" % "".join(parts))
        self._cases.seek(0)
        for piece in iter(lambda: self._cases.read(_CHUNK), ""):
            self.stream.write(piece)
        if self._warnings:
            self.stream.write("<system-out>%s</system-out>\n" % self._warnings)
            self._warnings = ""
        self.stream.write("</testsuite>\n")
        self._cases.seek(0)
        self._cases.truncate()
        self._counts = dict.fromkeys(counts, 0)

    def _suite_name(self, place: Place) -> str:
        label = place.label() or "goldwatch"
        alike = [other for other in self.context.places if other[1:] == place[1:]]
        return "%s, time %s" % (label, place.time) if len(alike) > 1 else label


def _suspect_lines(suspects: Iterable[Mapping[str, Any]]) -> List[str]:
    lines = []
    for suspect in suspects:
        head = "suspect, confidence %s" % suspect["confidence"]
        if suspect["confidence"] == NONE:
            head = "no suspect"
        lines.append("%s: %s" % (head, suspect["evidence"]))
        for entry in suspect["explanations"]:
            lines += ["%s: %s" % (entry["kind"], entry["sentence"]), "next: %s" % entry["next"]]
    return lines


def _outcome(rows: List[Row]) -> str:
    """Return an op's verdict; its inputs tell nothing about an op whose output was not compared."""
    outputs = {row.verdict for row in rows if row.kind != "input"}
    verdicts = {row.verdict for row in rows}
    if FAIL in verdicts:
        return FAIL
    return PASS if PASS in (outputs or verdicts) and NOT_COMPARED not in outputs else NOT_COMPARED


def _failure(
    rows: List[Row], failing: Sequence[Tuple[str, str]], suspect_lines: Sequence[str]
) -> str:
    lines = ["%s: %s" % each for each in failing] + [*suspect_lines, *_uncompared(rows)]
    return "<failure type=%s message=%s>%s</failure>" % (
        xml_attribute(rows[0].op_type),
        xml_attribute(failing[0][1]),
        "\n".join(map(xml_text, lines)),
    )


def _without_failure(rows: List[Row], outcome: str, suspect_lines: List[str]) -> str:
    """Return what is to be said of an op without a failing row: why nothing, or not everything, was
    compared, and what is odd about it.
    """
    left = _uncompared(rows)
    skipped = ""
    if outcome == NOT_COMPARED:
        skipped, left = "<skipped message=%s/>" % xml_attribute("; ".join(left)), []
    lines = suspect_lines + left
    return skipped + (
        "<system-out>%s</system-out>" % "\n".join(map(xml_text, lines)) if lines else ""
    )


def _uncompared(rows: List[Row]) -> List[str]:
    return [
        "%s: %s: %s" % (row.tensor, _WORDS[row.verdict], row.reason)
        for row in rows
        if row.verdict in _WORDS
    ]


def _iso(started: str) -> str:
    day, time = started[:8], started[8:]
    return "%s-%s-%sT%s:%s:%s" % (day[:4], day[4:6], day[6:], time[:2], time[2:4], time[4:])
