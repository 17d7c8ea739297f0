"""``goldwatch run``."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import Any, Optional, Tuple

import click

from ..diagnosis.summary import exit_code
from ..errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, InputError, UsageError
from ..launch.nothing import why_nothing
from ..launch.prepare import ACL, NPU, PLAN, Prepared, find_program, make_golden, prepare
from ..launch.program import LOG_FILE, Program
from ..processes.pool import default_jobs
from ..run.ends import Signals
from ..run.result import RunResult
from ..run.watch import Watch
from ..store.outfolder import make_folder
from .common import say
from .compare import make_options
from .live_display import LiveDisplay, stop
from .notify_option import Notify
from .replay_next import append_replay, planned_replay
from .report_options import Reports, planned_reports
from .result_text import print_end, print_found
from .watch import make_watch_options, tell_deleted, watch_options


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--plan",
    metavar="PLAN",
    help="Dump plan (config new --for plan); written as acl.json for the program.",
)
@click.option("--acl", metavar="ACL.json", help="The acl.json of the program.")
@click.option(
    "--npu",
    metavar="FILE",
    help="The program's npu settings: JSON, or the Python script that holds them.",
)
@click.option(
    "--acl-at",
    metavar="FILE",
    help="Where the program expects acl.json.  [default: ./acl.json for --plan, else ACL.json "
    "itself]",
)
@click.option(
    "--om-name",
    metavar="NAME",
    help="What the model's .om file is called, where the configuration names it so.",
)
@click.option("--golden", required=True, metavar="GOLDEN", help="Golden data.")
@click.option(
    "--golden-run",
    metavar="CMD",
    help="Make the golden data first, such as 'golden caffe dump … -o GOLDEN'.",
)
@click.option(
    "--replay",
    "original",
    metavar="MODEL",
    help="Then replay each op of this original model, into OUT/replay (needs -f).",
)
@click.option(
    "--grace",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to stop in, before SIGKILL.",
)
@click.option(
    "-o", "--out", required=True, metavar="OUT", help="Folder of the store and the result files."
)
@watch_options
def run(program: Tuple[str, ...], golden: str, out: str, **given: Any) -> int:
    """Run a program on the NPU, compare its dumps as they arrive, and judge them.

    The configuration is checked, dump_path made if the folder around it is there, acl.json written;
    then the program starts. Ctrl-C once: the program is asked to stop and what has come is judged;
    twice: stop now. Exit code: the verdict's (0, 1, 3), 4 where nothing could be run or nothing was
    dumped, 5 where the program failed.

    Example: goldwatch run --plan plan.json --golden golden -f model.json -o out -- ./infer --input
    data.bin
    """
    kind, path = _configuration(given)
    if not 0 <= given["grace"] < 1e6:
        raise UsageError("--grace %g: expected seconds, 0 or more" % given["grace"])
    chosen = make_watch_options(given)
    make_options(".", golden, out, given)
    reports = planned_reports(given, out)
    planned = planned_replay(given["original"], given["model"], ".", out)
    find_program(program)
    with LiveDisplay(given["quiet"]) as display, Notify(
        given["notify"], "run", out, display.say
    ) as notify:
        make_folder(out)
        prepared = prepare(
            kind, path, given["model"], given["acl_at"], out, display.say, given["om_name"]
        )
        output = sys.stderr.fileno() if given["output_format"] == "json" else sys.stdout.fileno()
        if given["golden_run"]:
            make_golden(given["golden_run"], display.say, output)
        log = os.path.join(out, LOG_FILE)
        started = Program(
            program, log, output, sys.stderr.fileno(), given["grace"], display.say, display.beside
        )
        return _follow(
            started, prepared, golden, out, given, (display, notify), (chosen, planned, reports)
        )


def _configuration(given: Any) -> Tuple[str, str]:
    found = [
        (kind, given[name])
        for kind, name in ((PLAN, "plan"), (ACL, "acl"), (NPU, "npu"))
        if given[name] is not None
    ]
    if len(found) != 1:
        raise UsageError(
            "give one of --plan, --acl and --npu", hint="goldwatch config new writes all three"
        )
    if given["npu"] is not None and given["acl_at"] is not None:
        raise UsageError("--acl-at goes with --plan or --acl: npu settings are the program's own")
    return found[0]


def _follow(
    program: Program,
    prepared: Prepared,
    golden: str,
    out: str,
    given: Any,
    told: Tuple[LiveDisplay, Notify],
    asked: Tuple[Any, Any, Reports],
) -> int:
    display, notify = told
    chosen, planned, reports = asked
    plan = None if given["model"] is None else prepared.plan
    options = make_options(prepared.target, golden, out, given, plan)
    chosen = replace(chosen, command="run", left_alone=tuple(prepared.earlier))
    watch = Watch(options, chosen, given["jobs"] or default_jobs(), given["force"], display.say)
    program.ours = watch.own_pids
    with Signals(lambda name: stop(watch, name), program.kill), watch:
        nothing: Optional[InputError] = None
        try:
            with closing(watch.turns(program)) as turns:
                for turn in turns:
                    display.show_turn(turn)
                    notify.divergence(turn.divergence)
        except InputError as error:
            if not program.failure():
                raise InputError(
                    error.message, hint=why_nothing(prepared, program.words, program.log)
                ) from error
            nothing = error
        except KeyboardInterrupt:
            program.kill()
            raise
        finally:
            # An error of ours does not end the program rudely.
            while not program.stopping(leave=not watch.stopped_by):
                time.sleep(0.05)
            program.close()
        display.clear()
        result = watch.finish(program.document(), display.on_stage)
        display.clear()
        tell_deleted(watch, given["quiet"])
        problem = print_found(result, given, reports)
        for text in (program.failure(), nothing.message if nothing is not None else None):
            if text:
                say(text)
        code = (
            EXIT_FAIL
            if watch.stopped_by == "divergence"
            else exit_code(result.summary, program.stopped, options.strict)
        )
    replayed: Optional[RunResult] = None
    try:
        if planned is not None and nothing is None:
            replayed = append_replay(
                planned,
                result,
                given["jobs"] or default_jobs(),
                given["quiet"],
                given["output_format"] == "json",
            )
    finally:
        print_end(result, given, replayed)
        own = replayed is not None and bool(replayed.summary.culprits)
        code = EXIT_FAIL if own and code in (EXIT_PASS, EXIT_INCOMPLETE) else code
        notify.end(result, code)
    if problem is not None:
        raise problem
    return code
