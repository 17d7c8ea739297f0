"""A difference of two results as JUnit XML: what got worse fails."""

from __future__ import annotations

from typing import Dict, List

from .difference import KINDS, WORSE, Change, Difference
from .difference_words import change_words, counts_words, place_words, unfinished_words
from .junit import xml_attribute, xml_text

NAME = "goldwatch diff"

_SUITE = '<testsuite name=%s tests="%d" failures="%d" errors="%d" skipped="0">\n'
_CASE = "<testcase name=%s classname=%s>%s</testcase>\n"


def junit(difference: Difference) -> str:
    """Return JUnit XML: a suite for each device, model and step of which something changed, with a
    case for each changed tensor, a failure where it got worse; and one for the whole.

    Where the two runs cannot be compared, or one is not finished, that one is an error, else it
    has the counts.
    """
    suites: Dict[str, List[str]] = {}
    failures: Dict[str, int] = {}
    for kind in KINDS:
        for change in difference.changes[kind] if difference.comparable else ():
            suite = place_words(change.side) or NAME
            failures[suite] = failures.get(suite, 0) + (kind == WORSE)
            suites.setdefault(suite, []).append(
                _CASE
                % (
                    xml_attribute(change.side.tensor),
                    xml_attribute(suite),
                    _outcome(kind, change),
                )
            )
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="%s">\n' % NAME]
    parts.append(_of_all(difference))
    for suite, cases in suites.items():
        counts = (xml_attribute(suite), len(cases), failures[suite], 0)
        parts += [_SUITE % counts, *cases, "</testsuite>\n"]
    return "".join([*parts, "</testsuites>\n"])


def _outcome(kind: str, change: Change) -> str:
    words = change_words(change)
    if kind != WORSE:
        return "<system-out>%s</system-out>" % xml_text("%s: %s" % (kind, words))
    reason = change.side.reason
    return '<failure type="worse" message=%s>%s</failure>' % (
        xml_attribute(words),
        xml_text(reason or words),
    )


def _of_all(difference: Difference) -> str:
    """Return the suite about the whole: how many tensors changed, and what the user must know."""
    words, error = counts_words(difference), ""
    if not difference.comparable:
        error = '<error type="incomparable" message=%s/>' % xml_attribute(words)
    elif difference.unfinished:
        error = '<error type="unfinished" message=%s/>' % xml_attribute(
            unfinished_words(difference)
        )
    lines = "\n".join(
        map(
            xml_text,
            [
                words,
                "after: %s" % difference.second.out,
                "before: %s" % difference.first.out,
                *difference.notes,
            ],
        )
    )
    body = "%s<system-out>%s</system-out>" % (error, lines)
    case = _CASE % (xml_attribute("the two runs"), xml_attribute(NAME), body)
    return _SUITE % (xml_attribute(NAME), 1, 0, int(bool(error))) + case + "</testsuite>\n"
