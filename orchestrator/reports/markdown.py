"""Markdown for a pull request: the verdict, the suspects, the ten worst rows; the rest folded away,
and what has no room counted.
"""

from __future__ import annotations

import math
import re
from typing import Any, Iterable, List, Mapping, Match, Tuple

from ..base.naming import printable
from ..base.notes import told
from ..base.shortening import LONGEST, shorten, shorten_all, shorten_within
from ..base.wording import plural
from ..judging.diagnosis.summary import REPLAY
from ..judging.diagnosis.suspects import NONE
from ..judging.metric_text import metric_number
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from .report_context import ReportFile
from .terminal_table import shown_metrics

_BREAK = "&#8203;"
"""A space of no width: what stands before it and behind it is not read as one word."""

_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&$@#!%:^]|www\.|^[-+=]|^[0-9]+[.)]|GH-(?=[0-9])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "`": "&#96;"}
_REFERENCES = "@#!%~$&^"
_HARMLESS = "@#!%^"
_OURS = re.compile(r":(?:input|output):")
_EMOJI = re.compile(r":[\w+-]+:")
_BACKTICKS = re.compile("`+")
_MOST = 2000


def plain(text: str) -> str:
    """Return text as a part of a paragraph, a list's entry or a table's cell."""
    return _SPECIAL.sub(_escaped, _clipped(shorten_within(printable(text))))


def _escaped(match: Match[str]) -> str:
    character, text = match.group(), match.string
    after = text[match.end() : match.end() + 1]
    if character == "GH-":
        return character + _BREAK
    if len(character) > 1:
        return character[:-1] + (_BREAK if character == "www." else "\\") + character[-1]
    if character == ":":
        named = _EMOJI.match(text, match.start()) and not _OURS.match(text, match.start())
        return ":" + _BREAK if named or after == "/" else ":"
    safe = character if character in _HARMLESS else _ENTITIES.get(character, "\\" + character)
    return (
        safe + _BREAK
        if character in _REFERENCES and after and (after.isalnum() or after in '"_')
        else safe
    )


def code(text: str, table: bool = False) -> str:
    """Return text as code; ``table``: in a table's cell, where a bar ends it even so."""
    text = printable(_clipped(text))
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    room = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) or not text else ""
    return fence + room + (text.replace("|", "\\|") if table else text) + room + fence


def block(text: str) -> str:
    """Return a command in a block of its own, to be copied."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return "%ssh\n%s\n%s\n" % (fence, printable(text), fence)


def _clipped(text: str) -> str:
    return (
        text
        if len(text) <= _MOST
        else "%s… (%d characters more)" % (text[:_MOST], len(text) - _MOST)
    )


def error_of(row: Row) -> float:
    """Return how far a row is from golden data: its RelativeEuclideanDistance; infinite where it
    fails without a number of that.
    """
    distance = metric_number(row.metrics.get("RelativeEuclideanDistance"))
    if math.isnan(distance):
        return math.inf if row.verdict == FAIL else 0.0
    return distance


class WorstRows:
    """The worst of the rows that were added, of two alike the earlier one.

    Parameters
    ----------
    most
        Keep at most so many.

    Attributes
    ----------
    total
        How many were added.
    """

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._worst: List[Tuple[float, int, Row]] = []

    def add(self, row: Row) -> None:
        """See one more row."""
        self._worst.append((-error_of(row), self.total, row))
        self.total += 1
        if len(self._worst) > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        self._worst = sorted(self._worst, key=lambda entry: entry[:2])[: self._most]

    @property
    def rows(self) -> List[Row]:
        """The rows that were kept, the worst first."""
        self._cut()
        return [row for _, _, row in self._worst]


MOST_CHARACTERS = 60000
"""A comment of GitHub takes 65,536."""

_WORST = 10
_FOR_SUSPECTS = 30000
_FOR_THE_END = 1500
_KEPT = 800
_MOST_OF_A_COMMAND = 5000
_WORDS = {PASS: "pass", FAIL: "**FAIL**", NOT_COMPARED: "not compared", EXPECTED_ABSENT: "absent"}
_COUNTS = (
    ("passed", "pass"),
    ("failed", "fail"),
    ("not_compared", "not compared"),
    ("expected_absent", "absent as expected"),
)
_COSINE = "CosineSimilarity"
_REST = (
    (FAIL, "rows outside their limits"),
    (NOT_COMPARED, "rows not compared"),
    (PASS, "rows that pass"),
    (EXPECTED_ABSENT, "rows absent as expected"),
)
_ONE = (
    ("rows", "row"),
    ("that pass", "that passes"),
    ("their limits", "its limits"),
    ("suspects", "suspect"),
    ("warnings", "warning"),
)
_FOLD = "<details>\n<summary>%s</summary>\n\n%s\n</details>\n"


class MarkdownFile(ReportFile):
    """A comment of at most :data:`MOST_CHARACTERS` characters. Names show as they are, none becomes
    markup or a mention.
    """

    def begin(self) -> None:
        """Prepare; rows are kept until all are known."""
        self._worst = {verdict: WorstRows(_KEPT) for verdict in _WORDS}

    def add(self, row: Row) -> None:
        """Keep a row, if it is among the worst of its verdict."""
        self._worst[row.verdict].add(row)

    def end(self) -> None:
        """Write everything."""
        self._parts: List[str] = []
        self._room = MOST_CHARACTERS - _FOR_THE_END
        self._left: List[str] = []
        self._several = len(self.context.places) > 1
        self._metrics = shown_metrics([row for worst in self._worst.values() for row in worst.rows])
        self._names = shorten_all(
            printable(row.tensor) for worst in self._worst.values() for row in worst.rows
        )
        self._head()
        self._suspects()
        self._rows()
        self._fold(
            "Warnings",
            "warnings",
            ["- %s\n" % plain(told(said)) for said in self.context.summary["warnings"]],
        )
        self.stream.write("\n".join(self._parts))
        if self._left:
            where = (
                "A merge counts rows that it does not store"
                if self.context.unstored
                else "result.json has everything"
            )
            self.stream.write(
                "\nLeft out for want of room: %s. %s.\n" % (", ".join(self._left), where)
            )

    def _put(self, text: str) -> bool:
        fits = len(text) + 1 <= self._room
        if fits:
            self._parts.append(text)
            self._room -= len(text) + 1
        return fits

    def _head(self) -> None:
        context, summary = self.context, self.context.summary
        what = "goldwatch replay" if context.comparison == REPLAY else "goldwatch"
        state = "" if context.finished else " (not finished)"
        counts = ", ".join("%d %s" % (summary[name], word) for name, word in _COUNTS)
        title = summary["verdict"].upper() + state
        if context.failure_beside_rows:
            title = "%s (the rows: %s)" % (context.failure_beside_rows, title)
        self._put("## %s: %s\n" % (what, title))
        self._put(plain(context.sentence) + "\n")
        so_far = "" if context.finished else " so far"
        sizes = plural(summary["ops"], "op"), plural(summary["rows"], "row")
        self._put("%s, %s%s: %s.\n" % (*sizes, so_far, counts))
        if context.inputs.get("target"):
            self._put(
                "%s compared with %s.\n"
                % (code(context.inputs["target"]), code(context.inputs.get("golden") or ""))
            )

    def _suspects(self) -> None:
        context = self.context
        entries = [
            self._suspect(number, entry)
            for number, entry in enumerate(context.summary["suspects"], 1)
        ]
        entries += [
            self._culprit(number, entry)
            for number, entry in enumerate(context.summary.get("culprits") or (), 1)
        ]
        if not entries:
            return
        count = len(entries) - sum(one["confidence"] == NONE for one in context.summary["suspects"])
        self._put("### %s\n" % (plural(count, "suspect") if count else "No suspect"))
        least = self._room - _FOR_SUSPECTS
        shown = 0
        while (
            shown < len(entries)
            and self._room - len(entries[shown]) > least
            and self._put(entries[shown])
        ):
            shown += 1
        self._leave(len(entries) - shown, "suspects")

    def _suspect(self, number: int, suspect: Mapping[str, Any]) -> str:
        named = code(_name(suspect["op"])) + (
            " (%s)" % code(_name(suspect["op_type"])) if suspect["op_type"] else ""
        )
        if suspect.get("group"):
            named = "one of " + ", ".join(code(_name(op)) for op in suspect["group"])
        about = (number, named, suspect["score"], suspect["confidence"], plain(suspect["evidence"]))
        lines = ["%d. %s, score %.0f, confidence %s: %s\n" % about]
        if suspect["confidence"] == NONE:
            lines = ["%d. %s differs, no operator need be wrong: %s\n" % (about[:2] + about[4:])]
        for entry in suspect["explanations"]:
            lines += [
                "   - **%s**: %s\n" % (entry["kind"], plain(entry["sentence"])),
                "     Next: %s\n" % plain(entry["next"]),
            ]
        return "".join(lines) + self._command(suspect["op"])

    def _culprit(self, number: int, culprit: Mapping[str, Any]) -> str:
        numbers = (
            ""
            if culprit["metric"] is None
            else ": %s %s, limit %s"
            % (plain(culprit["metric"]), culprit["value"], culprit["limit"])
        )
        return "%d. %s%s\n" % (number, code(_name(culprit["op"])), numbers) + self._command(
            culprit["op"]
        )

    def _command(self, op: str) -> str:
        command = self.context.commands.get(op, "")
        if len(command) > _MOST_OF_A_COMMAND:
            return (
                "\n     The command with the op's whole name is too long for a comment; the HTML "
                "report has it.\n"
            )
        return "\n" + block(command) if command else ""

    def _rows(self) -> None:
        worst = (self._worst[FAIL].rows + [row for row in self._worst[PASS].rows if error_of(row)])[
            :_WORST
        ]
        if worst:
            self._put(
                "### The %d worst rows\n" % len(worst) if len(worst) > 1 else "### The worst row\n"
            )
            table, _ = self._table(worst, self._room)
            self._put(table)
        for verdict, words in _REST:
            rest = [
                row for row in self._worst[verdict].rows if not any(row is other for other in worst)
            ]
            every = self._worst[verdict].total + sum(
                counts.get(verdict, 0) for counts in self.context.unstored.values()
            )
            total = every - sum(row.verdict == verdict for row in worst)
            if total:
                self._fold_table(words if total == every else "more " + words, words, rest, total)

    def _fold_table(self, title: str, words: str, rows: List[Row], total: int) -> None:
        frame = len(_FOLD) + len(title) + 40
        table, shown = self._table(rows, self._room - frame)
        if shown:
            self._put(
                _FOLD
                % (
                    _counted(total, title) + ("" if shown == total else ", the worst %d" % shown),
                    table,
                )
            )
        self._leave(total - shown, words)

    def _table(self, rows: Iterable[Row], room: int) -> Any:
        """Return a table of as many rows as there is room for, and how many those are."""
        metrics = [
            "1 − cosine" if name == _COSINE else heading for name, heading in self._metrics.items()
        ]
        headings = [*(["where"] if self._several else []), "verdict", "tensor", *metrics, "reason"]
        lines = ["| %s |\n" % " | ".join(headings), "|%s\n" % (" --- |" * len(headings))]
        used, shown = sum(map(len, lines)), 0
        for row in rows:
            line = self._line(row)
            if used + len(line) > room:
                break
            lines.append(line)
            used += len(line)
            shown += 1
        return "".join(lines), shown

    def _line(self, row: Row) -> str:
        values = [(name, metric_number(row.metrics.get(name))) for name in self._metrics]
        shown = [1.0 - value if name == _COSINE else value for name, value in values]
        numbers = ["" if number != number else "%.3g" % number for number in shown]
        place = [plain(row.place.label())] if self._several else []
        name = code(self._names[printable(row.tensor)], True)
        return "| %s |\n" % " | ".join(
            [*place, _WORDS[row.verdict], name, *numbers, plain(row.reason)]
        )

    def _fold(self, title: str, words: str, lines: List[str]) -> None:
        shown: List[str] = []
        room = self._room - len(_FOLD) - len(title) - 40
        for line in lines:
            room -= len(line)
            if room < 0:
                break
            shown.append(line)
        if shown:
            self._put(_FOLD % ("%s (%d)" % (title, len(lines)), "".join(shown)))
        self._leave(len(lines) - len(shown), words)

    def _leave(self, count: int, words: str) -> None:
        if count:
            self._left.append(_counted(count, words))


def _name(name: str) -> str:
    return shorten(printable(name), LONGEST)


def _counted(count: int, words: str) -> str:
    """Return ``3 rows that pass`` or ``1 row that passes``."""
    for many, one in _ONE if count == 1 else ():
        words = words.replace(many, one)
    return "%d %s" % (count, words)
