"""``goldwatch repeat``."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import List, Optional, Sequence, Set, Tuple

import click

from ..base.errors import InputError, Interrupted, ProgramFailed, UsageError, require_folder
from ..base.fast_dataclasses import dataclass
from ..base.naming import printable
from ..base.pool import default_jobs
from ..base.shortening import shorten_all
from ..device.launch.program import Program
from ..device.launch.user_commands import require_program
from ..metrics.row import FAIL
from ..run.repeated_runs import Repeated, RepeatedOp, compare_runs
from ..store.opening import make_folder
from .command import PrintArguments, command, format_option, option_of, verbosity_options
from .compare import ComparisonArguments
from .next_commands import report_words
from .output_file_checks import out_option
from .printing import columns_of, print_json, put, put_line, put_wrapped, say, sentence_lines
from .progress import ProgressBar
from .run import RunArguments, require_grace
from .shell_words import shell_lines, shell_word

_SHOWN = 20
_MOST_RUNS = 1000
_FORM = (
    "goldwatch repeat N --dumps FOLDER -o OUT -- PROGRAM, or goldwatch repeat --folders RUN1 RUN2 "
    "… -o OUT"
)


@dataclass(frozen=True)
class _Arguments(PrintArguments):
    """The arguments of ``goldwatch repeat``."""

    words: Tuple[str, ...]
    dumps: Optional[str]
    folders: bool
    model: Optional[str]
    out: str
    jobs: Optional[int]
    grace: float
    force: bool


@command(arguments=_Arguments)
@click.argument(
    "words", nargs=-1, metavar="N -- PROGRAM… | --folders RUN1 RUN2…", type=click.UNPROCESSED
)
@click.option(
    "--dumps",
    metavar="FOLDER",
    help="Where the program's dumps appear: dump_path of its configuration.",
)
@click.option(
    "--folders", is_flag=True, help="The runs are there: each argument is the folder of one."
)
@click.option(
    "-f",
    "--model",
    metavar="OM.json",
    help="The model, which tells the order of execution and what feeds each op.",
)
@out_option("Folder of the results: one folder for each run, and repeat.json.", required=True)
@option_of(ComparisonArguments, "jobs")
@option_of(RunArguments, "grace")
@click.option(
    "--force", is_flag=True, help="Discard other results in OUT, and dumps of earlier runs."
)
@format_option
@verbosity_options
def repeat(arguments: _Arguments) -> int:
    """Run a program N times and compare its dumps bit for bit, each run with the first.

    After each run what is new in FOLDER is moved to OUT/dumps_1, OUT/dumps_2, …; or the runs are
    there already (--folders). Exit code: 0 all runs are equal, 1 one differs, 3 something could not
    be compared, 4 bad input or nothing was dumped, 5 the program failed.

    Example: goldwatch repeat 5 --dumps dump -o out -- ./infer --model net.om
    """
    out = arguments.out
    if arguments.folders:
        if arguments.dumps:
            raise UsageError("--dumps is for a program: --folders names runs that are there")
        folders = list(arguments.words)
        for folder in folders:
            require_folder(folder, "RUN")
        comparison = _compare(folders, arguments)
    else:
        try:
            comparison = _compare(_run(arguments), arguments)
        except (KeyboardInterrupt, Interrupted):
            # The same command would now refuse OUT, which is no longer empty.
            named = " ".join(
                shell_word(os.path.join(out, "dumps_%d" % number)) for number in (1, 2)
            )
            hint = (
                "goldwatch repeat --folders %s … -o %s compares the runs that ended, --force "
                "begins anew" % (named, shell_word(out))
            )
            raise Interrupted("interrupted", hint=hint) from None
    if arguments.output_format == "json":
        print_json(comparison.document())
    else:
        _print(comparison)
    return comparison.exit_code


def _compare(folders: Sequence[str], arguments: _Arguments) -> Repeated:
    with ProgressBar("comparing", arguments.quiet) as bar:
        return compare_runs(
            folders,
            arguments.out,
            arguments.model,
            arguments.jobs or default_jobs(),
            arguments.force,
            lambda run, progress: bar.show("run %d: %s" % (run, progress.stage), *progress.steps),
        )


def _run(arguments: _Arguments) -> List[str]:
    """Run the program the given number of times; return the folders its dumps were moved to."""
    words, out = arguments.words, arguments.out
    count = int(words[0]) if words and words[0].isdigit() else 0
    if not 2 <= count <= _MOST_RUNS or len(words) < 2:
        raise UsageError(
            "expected how often (2 to %d), and the program behind --" % _MOST_RUNS, hint=_FORM
        )
    dumps = arguments.dumps
    if dumps is None:
        raise UsageError(
            "--dumps is missing: the folder where the program's dumps appear",
            hint="dump_path of its acl.json",
        )
    require_grace(arguments.grace)
    require_program(words[1:])
    make_folder(out)
    folders = [os.path.join(out, "dumps_%d" % number) for number in range(1, count + 1)]
    for folder in filter(os.path.lexists, folders):
        if not arguments.force:
            raise UsageError(
                "%s holds the dumps of an earlier run" % folder,
                hint="-o names another folder, --force discards them",
            )
        shutil.rmtree(folder)
    for number, folder in enumerate(folders, 1):
        before = _entries(dumps)
        say("run %d of %d" % (number, count), arguments.quiet)
        _run_once(words[1:], os.path.join(out, "program_%d.log" % number), arguments)
        new = sorted(_entries(dumps) - before)
        if not new:
            hint = (
                "what is there already is left alone: empty the folder before, or dump into an "
                "empty one"
            )
            raise InputError("run %d: nothing new is in %s" % (number, dumps), hint=hint)
        os.mkdir(folder)
        for name in new:
            shutil.move(os.path.join(dumps, name), os.path.join(folder, name))
    return folders


def _entries(folder: str) -> Set[str]:
    return set(os.listdir(folder)) if os.path.isdir(folder) else set()


def _run_once(words: Sequence[str], log: str, arguments: _Arguments) -> None:
    output = sys.stderr.fileno() if arguments.output_format == "json" else sys.stdout.fileno()
    program = Program(words, log, output, sys.stderr.fileno(), arguments.grace, say)
    try:
        program.start()
        while not program.ended():
            time.sleep(0.02)
    except KeyboardInterrupt:
        program.kill()
        raise
    finally:
        program.close()
    if program.failure():
        raise ProgramFailed(program.failure(), program.document()["exit_code"] or 0)


def _print(comparison: Repeated) -> None:
    width = columns_of(sys.stdout)
    names = shorten_all(printable(op.op) for op in comparison.ops[:_SHOWN])
    several = len({op.place for op in comparison.ops}) > 1
    for op in comparison.ops[:_SHOWN]:
        put_line(_line(op, names[printable(op.op)], len(comparison.results), several))
    if len(comparison.ops) > _SHOWN:
        put("and %d more, see %s" % (len(comparison.ops) - _SHOWN, comparison.file))
    for number, reason in comparison.refused.items():
        put_wrapped("run %d was not compared: %s" % (number, reason))
    put_wrapped("Results: %s" % comparison.file)
    for line in sentence_lines("%s: %s" % (comparison.verdict, comparison.sentence), width, ""):
        put(line)
    worst: Optional[str] = next(
        (
            result.options.out
            for result in comparison.results.values()
            if result.summary.verdict == FAIL
        ),
        None,
    )
    if worst is not None:
        for line in shell_lines("next:", report_words(worst), width or 10**9):
            put(line)


def _line(op: RepeatedOp, name: str, runs: int, several: bool) -> str:
    place = " (%s)" % op.place.label() if several and op.place.label() else ""
    equal = len(op.from_equal_inputs)
    text = "%s (%s)%s: differs in %d of %d runs" % (
        name,
        printable(op.op_type),
        place,
        len(op.runs),
        runs,
    )
    text += ", in %d of equal inputs" % equal if equal else ", never of equal inputs"
    return "%s; %d different results" % (text, op.results)
