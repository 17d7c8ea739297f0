"""The formats of a report: the table from which the commands' options, the checks of the files that
they name and what a service lets jobs write derive.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Tuple


class ReportFormat(NamedTuple):
    """One format.

    Attributes
    ----------
    writer
        What writes its file, a :class:`goldwatch.reports.report_context.ReportFile`: module and
        class below goldwatch, imported when a file is asked for.
    content
        What the file is, for the help of its option.
    ending
        How its files end.
    heads
        What they may begin with: a later report takes their place, nothing else is replaced.
    media_type
        What a service says that its files are.
    served_as
        The name of the file that a service makes of a run that is asked for and has none; empty: it
        makes none.
    """

    writer: str
    content: str
    ending: str
    heads: Tuple[bytes, ...]
    media_type: str
    served_as: str = ""


REPORT_FORMATS: Mapping[str, ReportFormat] = {
    "html": ReportFormat(
        "reports.pages.report.HtmlFile",
        "an offline page to look at",
        ".html",
        (b"<!DOCTYPE html>",),
        "text/html; charset=utf-8",
        "report.html",
    ),
    "junit": ReportFormat(
        "reports.junit.JunitFile",
        "JUnit XML for a CI system",
        ".xml",
        (b"<?xml version=",),
        "application/xml",
        "junit.xml",
    ),
    "markdown": ReportFormat(
        "reports.markdown.MarkdownFile",
        "Markdown for a pull request",
        ".md",
        (b"## goldwatch",),
        "text/markdown; charset=utf-8",
        "report.md",
    ),
    "csv": ReportFormat(
        "reports.csv_tables.CsvFile",
        "the result table",
        ".csv",
        # Several hosts or places: each of their folders has one of these before the name.
        (b"Index,", b"Time,", b"Host,"),
        "text/csv; charset=utf-8",
    ),
    "json": ReportFormat(
        "reports.result_json.JsonFile",
        "the whole run, as result.json",
        ".json",
        (b'{"summary": ', b'{"comparison": '),
        "application/json",
        "result.json",
    ),
}
"""By the name of the option."""
