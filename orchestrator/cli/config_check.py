"""``goldwatch config check``: says what the real consumers do with a dump configuration."""

from __future__ import annotations

import itertools
import sys
from typing import List, Optional, Tuple

import click

from ..base.errors import EXIT_FAIL, EXIT_PASS, UsageError
from ..base.naming import printable
from ..base.wording import plural
from ..config.check import check_file
from ..config.finding import NOTE, Finding, Report
from .command import command, format_option, verbosity_options
from .printing import columns_of, print_json, put_escaped, say, use_colour, wrapped
from .progress import ProgressBar

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}

devices_option = click.option(
    "--devices",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="How many devices dump: the size of all of them is estimated.",
)


@command(
    epilog="Example: goldwatch config check acl.json --om model.json --cann 8.0.RC1",
    short_help="Check a dump configuration as its real consumers do.",
)
@click.argument("file")
@click.option(
    "--om",
    "models",
    multiple=True,
    metavar="MODEL.json",
    help="Model json or ge_proto_*_Build.txt to check names against.",
)
@click.option(
    "--om-name",
    "om_names",
    multiple=True,
    metavar="NAME",
    help="What the .om file is called; as often as --om, or once.",
)
@click.option(
    "--cann",
    metavar="VERSION",
    help="The CANN in use, such as 8.0.RC1: warn about fields first seen in a newer one.",
)
@click.option("--strict", is_flag=True, help="Warnings count as errors for the exit code.")
@click.option(
    "--elsewhere",
    is_flag=True,
    help="The configuration is for another machine: rules about this file system are only notes.",
)
@devices_option
@format_option
@verbosity_options
@click.pass_context
def check(
    ctx: click.Context,
    file: str,
    models: Tuple[str, ...],
    om_names: Tuple[str, ...],
    cann: Optional[str],
    strict: bool,
    elsewhere: bool,
    devices: int,
    output_format: str,
    quiet: bool,
) -> None:
    """Check FILE: acl.json, npu settings as JSON, or the dump settings in a Python training script
    (.py, never executed).

    Exit code: 0 clean, 1 errors found (with --strict also warnings), 2 usage, 4 FILE or a model
    cannot be read.
    """
    if om_names and not models:
        raise UsageError("--om-name needs a model", hint="add --om MODEL.json")
    with ProgressBar("checking", quiet) as bar:
        bar.update(0, 0)
        report = check_file(file, models, cann, elsewhere, om_names, devices)
    if output_format == "json":
        # Not indented: a report may hold a hundred thousand findings.
        print_json(report.to_document(), indent=None)
    else:
        put_escaped(_lines(report, use_colour(sys.stdout), columns_of(sys.stdout)))
        if any(
            finding.rule == "unknown-model" and finding.severity == "warning"
            for finding in report.findings
        ):
            say("hint: --om-name NAME says what the .om file is called", quiet)
        if any(finding.environment and finding.severity == "error" for finding in report.findings):
            say("hint: --elsewhere, if another machine dumps: its folders are not judged", quiet)
        if any(finding.rule == "unknown-layer" for finding in report.findings):
            say("hint: goldwatch config new --om MODEL --list shows the names of its ops", quiet)
    ctx.exit(EXIT_FAIL if report.errors or (strict and report.warnings) else EXIT_PASS)


def _lines(report: Report, colour: bool, width: Optional[int]) -> List[str]:
    """Return the lines of the report for people, names escaped: one per finding, then what the
    consumer does and the correction; of a terminal's width none is longer.

    What is only worth knowing of this machine, of one place, takes one line together.
    """
    lines: List[str] = []
    for (place, pointer, severity, short), group in itertools.groupby(
        report.findings, lambda finding: _heading(report, finding)
    ):
        start, findings = "%s: " % printable(place), list(group)
        where = ": " + (pointer + ": " if pointer else "")
        said = [(finding.message, finding.rule) for finding in findings]
        if short:
            messages, rules = zip(*said)
            said = [("; ".join(messages), ", ".join(rules))]
        for number, (message, rule) in enumerate(said):
            text = "%s: %s%s%s [%s]" % (place, severity, where, message, rule)
            head, *more = wrapped(text, width)
            if colour and head.startswith(start + severity):
                shown = click.style(severity, fg=_COLOURS[severity])
                head = start + shown + head[len(start + severity) :]
            lines += [head, *more]
            if not short:
                lines += wrapped("    consumer: %s" % findings[number].consumer, width, " " * 6)
                lines += wrapped("    fix: %s" % findings[number].fix, width, " " * 6)
    counts = "%s, %s" % (plural(report.errors, "error"), plural(report.warnings, "warning"))
    return lines + wrapped("%s (%s): %s" % (report.file, report.kind, counts), width)


def _heading(report: Report, finding: Finding) -> Tuple[str, str, str, bool]:
    """Return the key by which neighbouring findings are grouped: place, pointer, severity, and
    whether they share a line.
    """
    place = ":".join(
        str(part) for part in (report.file, finding.line, finding.column) if part is not None
    )
    return (
        place,
        finding.pointer,
        finding.severity,
        finding.severity == NOTE and finding.environment,
    )
