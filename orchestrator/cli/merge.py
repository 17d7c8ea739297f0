"""``goldwatch watch --merge``."""

from __future__ import annotations

import sys
from typing import Any, Mapping, Tuple

import click

from ..errors import UsageError
from ..merging.merge import Merge, MergeStanding
from ..merging.options import MOST_ROWS, MergeOptions
from ..naming import printable
from ..run.ends import Signals
from ..text.columns import cut, shorten
from .common import columns_of, option_group
from .live_display import LiveDisplay, stop
from .notify_option import Notify
from .report_options import FILES, planned_reports
from .result_text import print_result

TAKEN = {"until_idle", "poll", "on_divergence", "stop_on_divergence", "notify", "strict", "force",
"table", "output_format", "quiet",
         "verbose"}  # fmt: skip
"""Of the parameters of ``watch`` those that a merge takes besides its own and those of reports."""

_LEAST_NAME = 12


merge_options = option_group(
    click.option("--merge", is_flag=True, help="Merge the runs in these OUT folders, one a "
        "host, while they go on."),
    click.option("--max-rows", type=click.IntRange(1), metavar="N",
                 help="With --merge: keep at most N of the rows that did not "
                     "pass.  [default: %d]" % MOST_ROWS),
)  # fmt: skip


def merge_command(folders: Tuple[str, ...], out: str, given: Mapping[str, Any]) -> int:
    """Merge the runs of several hosts; return the exit code."""
    _refuse_others(given)
    quiet = given["quiet"]
    if not folders:
        raise UsageError(
            "--merge: no folder is named", hint="name the OUT folder of each host's watch"
        )
    for option, value in (("--until-idle", given["until_idle"]), ("--poll", given["poll"])):
        if value is not None and not 0 < value < 1e7:
            raise UsageError("%s %g: expected seconds, more than 0" % (option, value))
    options = MergeOptions(
        sources=folders,
        out=out,
        max_rows=given["max_rows"] or MOST_ROWS,
        until_idle_s=given["until_idle"],
        **({} if given["poll"] is None else {"poll_s": given["poll"]}),
        strict=given["strict"],
        on_divergence=given["on_divergence"],
        stop_on_divergence=given["stop_on_divergence"],
    )
    planned = planned_reports(given, out)
    with LiveDisplay(quiet) as display, Notify(
        given["notify"], "watch", out, display.say
    ) as notify:
        merge = Merge(options, given["force"], display.say, display.on_row,
        lambda standing: display.show(_live_line(standing)),
                      notify.divergence if given["notify"] is not None else None)  # fmt: skip
        with Signals(lambda name: stop(merge, name)), merge:
            merge.follow()
            display.clear()
            result = merge.finish(display.on_stage)
            display.clear()
            notify.end(result)
            print_result(result, given, planned)
            return result.exit_code


def _refuse_others(given: Mapping[str, Any]) -> None:
    """Refuse the options that are about comparing: the watch of each host has its own."""
    known = TAKEN | {"max_rows"} | {name + "_file" for name in FILES}
    for parameter in click.get_current_context().command.params:
        if (
            isinstance(parameter, click.Option)
            and parameter.name in given
            and parameter.name not in known
        ):
            value, default = (
                given[parameter.name],
                parameter.get_default(click.get_current_context()),
            )
            if value not in (default, None, False, ()):
                option = next(text for text in reversed(parameter.opts) if text.startswith("--"))
                raise UsageError(
                    "%s does not go with --merge" % option,
                    hint="give it to the watch of each host, which compares",
                )


def _live_line(standing: MergeStanding) -> str:
    """Return how far the merge is, as one line of a terminal."""
    states = ", ".join("%d %s" % (count, state) for state, count in standing.states.items())
    text = "%d rows, %d failed; hosts: %s" % (standing.rows, standing.failed, states)
    width = (columns_of(sys.stderr) or 100) - 1
    if standing.first is not None:
        room = width - len(text) - len("; first ")
        text += "; first " + shorten(printable(standing.first.tensor), max(_LEAST_NAME, room))
    return cut(text, width)
