"""``goldwatch run``."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Optional, Tuple

import click

from ..base.errors import (
    EXIT_FAIL,
    EXIT_INCOMPLETE,
    EXIT_PASS,
    GoldwatchError,
    InputError,
    UsageError,
)
from ..base.option_fields import MODEL, PROGRAM, option, options_class
from ..base.pool import default_jobs
from ..device.launch.prepare_dump_configuration import (
    ACL,
    NPU,
    PLAN,
    Prepared,
    prepare,
    why_nothing,
)
from ..device.launch.program import LOG_FILE, Program
from ..device.launch.user_commands import require_program, run_golden_command
from ..run.comparison_options import ComparisonOptions
from ..run.result import RunResult
from ..run.stop_signals import Signals
from ..run.watch import Watch
from ..store.opening import make_folder
from .command import command, options_of
from .compare import make_options
from .golden_messages import with_options
from .next_commands import REPLAY_FOLDER, step_folder
from .notify_option import Notify
from .output_file_checks import out_option
from .printing import put_wrapped, say
from .report_files import (
    Reports,
    no_earlier_reports,
    none_left_on_error,
    planned_reports,
    write_reports,
)
from .result_text import print_end, print_found
from .watch import WaitingArguments, print_deleted, stopped_words, watch_options
from .watch_display import FINAL_ROWS_ONLY, LiveDisplay, stop

if TYPE_CHECKING:
    from ..config.dump_plan import DumpPlan
    from ..run.replay.options import ReplayOptions
    from ..run.result import RunResult


def planned_replay(
    original: Optional[str], model: Optional[str], target: str, out: str
) -> Optional[ReplayOptions]:
    """Return the options of the replay that a run appends, checked before the program starts; None
    where none was requested.

    Raises
    ------
    UsageError
        There is no om json.
    GoldwatchError
        The original cannot be read, or nothing can run it.
    """
    if original is None:
        return None
    if model is None:
        raise UsageError(
            "--replay needs -f: which original layers an op was made from is told by the "
            "model's json"
        )
    from ..recomputing.original_cuts import Original
    from ..run.replay.backends import runner_for
    from ..run.replay.options import ReplayOptions

    options = ReplayOptions(
        target=target,
        original=original,
        model=model,
        out=os.path.join(out, REPLAY_FOLDER),
        result=out,
    )
    runner_for(options, Original(original))
    return options


def append_replay(
    options: ReplayOptions, result: RunResult, jobs: int, quiet: bool, as_json: bool
) -> Optional[RunResult]:
    """Replay the step where a run diverges first, print its sentence and return its result; None
    where it could not be done.

    A replay that is impossible is reported, and leaves the run's own verdict unchanged.
    """
    from dataclasses import replace

    from ..run.replay.run import replay

    try:
        replayed = replay(replace(options, target=step_folder(result)), jobs, force=True)
    except GoldwatchError as error:
        say("warning: no replay: " + with_options(error.message))
        return None
    sentence = "replay: %s Results: %s" % (replayed.sentence, replayed.files[-1])
    if as_json:
        say(sentence, quiet)
    else:
        put_wrapped(sentence)
    return replayed


@options_class
class RunArguments(WaitingArguments):
    """The arguments of ``goldwatch run``."""

    program: Tuple[str, ...]
    acl: Optional[str] = option(
        "--acl", metavar="ACL.json", topic=PROGRAM, help="The acl.json of the program."
    )
    plan: Optional[str] = option(
        "--plan",
        metavar="PLAN",
        topic=PROGRAM,
        help="Dump plan (config new --for plan); written as acl.json for the program.",
    )
    npu: Optional[str] = option(
        "--npu",
        metavar="FILE",
        topic=PROGRAM,
        help="The program's npu settings: JSON, or the Python script that holds them.",
    )
    acl_at: Optional[str] = option(
        "--acl-at",
        metavar="FILE",
        topic=PROGRAM,
        help="Where the program expects acl.json.  [default: ./acl.json for --plan, else ACL.json "
        "itself]",
    )
    om_name: Optional[str] = option(
        "--om-name",
        metavar="NAME",
        topic=PROGRAM,
        help="What the model's .om file is called, where the configuration names it so.",
    )
    grace: float = option(
        "--grace",
        metavar="SECONDS",
        topic=PROGRAM,
        help="Time to stop in, before SIGKILL.",
        default=10.0,
        show_default=True,
    )
    golden: str = option(
        "--golden", required=True, metavar="GOLDEN", topic=MODEL, help="Golden data."
    )
    golden_run: Optional[str] = option(
        "--golden-run",
        metavar="CMD",
        topic=MODEL,
        help="Make the golden data first, such as 'golden caffe dump … -o GOLDEN'.",
    )
    replay: Optional[str] = option(
        "--replay",
        metavar="MODEL",
        topic=MODEL,
        help="Then replay each op of this original model, into OUT/replay (needs -f).",
    )
    out: str

    @property
    def model(self) -> Optional[str]:
        """The model that was named."""
        model: Optional[str] = self.comparison.values["model"]
        return model


@command(
    arguments=RunArguments,
    first=("acl", "golden", "out", "model", "html_file"),
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM…")
@options_of(RunArguments)
@out_option("Folder of the store and the result files.", required=True)
@watch_options
def run(arguments: RunArguments) -> int:
    """Run a program on the NPU, compare its dumps as they arrive, and judge them.

    The configuration is checked, dump_path made if the folder around it is there, acl.json written;
    then the program starts. Ctrl-C once: the program is asked to stop and what has come is judged;
    twice: stop now. Exit code: the verdict's (0, 1, 3), 4 where nothing could be run or nothing was
    dumped, 5 where the program failed.

    Example: goldwatch run --plan plan.json --golden golden -f model.json -o out -- ./infer --input
    data.bin
    """
    out = arguments.out
    reports = planned_reports(arguments, out)
    with none_left_on_error(reports):
        kind, path = _configuration(arguments)
        require_grace(arguments.grace)
        arguments.waiting.make().check(_options(".", arguments))
        replaying = planned_replay(arguments.replay, arguments.model, ".", out)
        require_program(arguments.program)
    with no_earlier_reports(reports, out, arguments.force), LiveDisplay(
        arguments.quiet, click.get_current_context().obj == FINAL_ROWS_ONLY
    ) as display, Notify(arguments.waiting.values["notify"], "run", out, display.say) as notify:
        make_folder(out)
        prepared = prepare(
            kind, path, arguments.model, arguments.acl_at, out, display.say, arguments.om_name
        )
        output = sys.stderr.fileno() if arguments.output_format == "json" else sys.stdout.fileno()
        if arguments.golden_run:
            run_golden_command(arguments.golden_run, display.say, output)
        started = Program(
            arguments.program,
            os.path.join(out, LOG_FILE),
            output,
            sys.stderr.fileno(),
            arguments.grace,
            display.say,
            display.beside,
        )
        return _follow(started, prepared, arguments, display, notify, replaying, reports)


def require_grace(seconds: float) -> None:
    """Raise UsageError for a grace period (in seconds) that is out of range."""
    if not 0 <= seconds < 1e6:
        raise UsageError("--grace %g: expected seconds, 0 or more" % seconds)


def _options(
    target: str, arguments: RunArguments, plan: Optional[DumpPlan] = None
) -> ComparisonOptions:
    options = make_options(target, arguments.golden, arguments.out, arguments, plan)
    return replace(options, original=options.original or arguments.replay)


def _configuration(arguments: RunArguments) -> Tuple[str, str]:
    plans = [
        (kind, path)
        for kind, path in ((PLAN, arguments.plan), (ACL, arguments.acl), (NPU, arguments.npu))
        if path is not None
    ]
    if len(plans) != 1:
        raise UsageError(
            "give one of --plan, --acl and --npu", hint="goldwatch config new writes all three"
        )
    if arguments.npu is not None and arguments.acl_at is not None:
        raise UsageError("--acl-at goes with --plan or --acl: npu settings are the program's own")
    return plans[0]


def _follow(
    program: Program,
    prepared: Prepared,
    arguments: RunArguments,
    display: LiveDisplay,
    notify: Notify,
    replaying: Optional[ReplayOptions],
    reports: Reports,
) -> int:
    jobs, quiet = arguments.jobs or default_jobs(), arguments.quiet
    plan = None if arguments.model is None else prepared.plan
    options = _options(prepared.target, arguments, plan)
    waiting = arguments.waiting.make(command="run", left_alone=tuple(prepared.earlier))
    watch = Watch(options, waiting, jobs, arguments.force, display.say, notify.on_divergence)
    program.ours = watch.own_pids
    with Signals(lambda name: stop(watch, name), program.kill), watch:
        nothing: Optional[InputError] = None
        try:
            with closing(watch.turns(program)) as turns:
                for turn in turns:
                    display.show_turn(turn)
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
            # After an error of ours the program is still stopped gracefully.
            while not program.stopping(leave=not watch.stopped_by):
                time.sleep(0.05)
            program.close()
        display.clear()
        result = watch.finish(program.document(), display.on_stage)
        display.clear()
        print_deleted(watch, quiet)
        problem = print_found(result, arguments, reports)
        for text in (program.failure(), nothing.message if nothing is not None else None):
            if text:
                say(text)
    replaying = replaying if nothing is None else None
    stopped = stopped_words(watch, program=True) if program.stopped else ""
    return _finish(arguments, notify, result, replaying, problem, reports, stopped)


def _finish(
    arguments: RunArguments,
    notify: Notify,
    result: RunResult,
    replaying: Optional[ReplayOptions],
    problem: Optional[GoldwatchError],
    reports: Reports,
    stopped: str,
) -> int:
    """Replay if that was requested, print the last lines; return the exit code."""
    jobs, as_json = arguments.jobs or default_jobs(), arguments.output_format == "json"
    replayed, code = None, result.exit_code
    try:
        if replaying is not None:
            replayed = append_replay(replaying, result, jobs, arguments.quiet, as_json)
    finally:
        print_end(result, arguments, code, replayed, stopped)
        if (
            replayed is not None
            and replayed.summary.culprits
            and code in (EXIT_PASS, EXIT_INCOMPLETE)
        ):
            code = EXIT_FAIL
            # Else a CI system would see them pass.
            write_reports(arguments.out, reports, code)
        notify.end(result, code)
    if problem is not None:
        raise problem
    return code
