"""``goldwatch diff``: two results, what got better and what got worse."""

from __future__ import annotations

import math
from typing import Optional

import click

from ..base.atomic_writing import atomic_text_writer
from ..base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, MissingPath, UsageError
from ..base.naming import printable
from ..base.shortening import shorten_all, shorten_within
from ..reports.difference import KINDS, WORSE, Difference, difference_of
from ..reports.difference_junit import junit
from ..reports.difference_words import change_words, counts_words, markdown, place_words, run_words
from ..reports.pages.diff_page import diff_page
from ..store.integrity import DamagedStore
from .command import command, format_option, verbosity_options
from .next_commands import two_dumps_hint
from .output_file_checks import make_room, refuse_foreign, refuse_replacing
from .printing import print_json, put, put_line, say_note
from .progress import ProgressBar
from .report_files import remove_earlier
from .what_was_given import require_result

_SHOWN = 20


@command()
@click.argument("run_a")
@click.argument("run_b")
@click.option("--html", metavar="FILE", help="Write a page with all changes into FILE.")
@click.option(
    "--markdown",
    "markdown_file",
    metavar="FILE",
    help="Write a comment for a pull request into FILE.",
)
@click.option(
    "--junit",
    "junit_file",
    metavar="FILE",
    help="Write JUnit XML for a CI system into FILE: what got worse fails.",
)
@click.option(
    "--tolerance",
    metavar="PERCENT",
    default="50",
    show_default=True,
    help="Growth of a distance that is passed over.",
)
@format_option
@verbosity_options
def diff(
    run_a: str,
    run_b: str,
    html: Optional[str],
    markdown_file: Optional[str],
    junit_file: Optional[str],
    tolerance: str,
    output_format: str,
    quiet: bool,
) -> int:
    """Compare two results: what got better, worse, appeared or vanished from RUN_A to RUN_B.

    Both are folders that compare, watch, run or replay wrote. Where RUN_B computes operators in a
    wider type than RUN_A, it tells whether that cured the network's outputs, and at which price.
    Exit code: 0 nothing got worse, 1 something did, 3 a run is not finished, not the same model, or
    nothing that both have, 4 no store that can be read.

    Example: goldwatch diff before after --html diff.html
    """
    files = {"--html": html, "--markdown": markdown_file, "--junit": junit_file}
    requested_files = {option: path for option, path in files.items() if path is not None}
    for option, path in requested_files.items():
        others = {name: other for name, other in requested_files.items() if name != option}
        refuse_replacing(option, path, others, [run_a, run_b])
        refuse_foreign(option, path, option[2:])
    remove_earlier(requested_files.values())
    try:
        percent = float(tolerance.strip().rstrip("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf:
        raise UsageError("--tolerance: %r is no percentage" % tolerance, hint="such as 50 or 12.5%")
    share = percent / 100
    with ProgressBar("reading", quiet) as bar:
        try:
            difference = difference_of(run_a, run_b, share, bar.update)
        except MissingPath as error:
            hint = two_dumps_hint(run_b, run_a)
            if hint is None:
                require_result(run_a, "RUN_A")
                require_result(run_b, "RUN_B")
            error.hint = hint or error.hint
            raise
        except DamagedStore as error:
            if error.kind == DamagedStore.kind:
                # Found while it was read. Nothing is to be written here, or to be discarded.
                error.kind, error.hint = "unreadable_store", "compare again, or name another run"
            raise
    contents = {"--html": diff_page, "--markdown": markdown, "--junit": junit}
    for option, path in requested_files.items():
        make_room(path)
        with atomic_text_writer(path) as stream:
            stream.write(contents[option](difference))
    if output_format == "json":
        print_json(difference.document())
    else:
        _print(difference, quiet)
    if difference.unfinished or not difference.comparable:
        return EXIT_INCOMPLETE
    return EXIT_FAIL if difference.changes[WORSE] else EXIT_PASS


def _print(difference: Difference, quiet: bool) -> None:
    for note in difference.notes:
        say_note(note, quiet)
    for name, run in (("before", difference.first), ("after", difference.second)):
        put_line("%-7s %s" % (name, printable(run.out)))
        put_line("        %s" % shorten_within(printable(run_words(run))))
    if not difference.comparable:
        return put_line(counts_words(difference))
    names = shorten_all(
        printable(change.side.tensor)
        for kind in KINDS
        for change in difference.changes[kind][:_SHOWN]
    )
    several = (
        len(
            {
                place_words(change.side)
                for changes in difference.changes.values()
                for change in changes
            }
        )
        > 1
    )
    for kind in KINDS:
        changes = difference.changes[kind]
        if changes:
            put("%s:" % kind)
        for change in changes[:_SHOWN]:
            place = place_words(change.side) if several else ""
            description = shorten_within(printable(change_words(change)))
            put_line(
                "  %s%s: %s"
                % (
                    names[printable(change.side.tensor)],
                    " (%s)" % place if place else "",
                    description,
                )
            )
        if len(changes) > _SHOWN:
            put("  and %d more" % (len(changes) - _SHOWN))
    if difference.raised is not None:
        put_line(shorten_within(difference.raised.sentence))
    put_line(counts_words(difference))
