"""``goldwatch locate``."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import Any, Iterator, List, Optional, Sequence, TextIO, Tuple

import click

from ..base.errors import EXIT_FAIL, EXIT_PASS, InputError, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.interrupts import terminations_interrupt
from ..base.notes import note
from ..base.option_fields import MODEL, PROGRAM, CommonOptions
from ..device.cure.compiler_precision_options import KEEP_DTYPE, NPU
from ..device.cure.compiler_precision_options import MODES as CURES
from ..device.launch.atc import Atc
from ..device.launch.runners import RUNNERS
from ..device.locate.bundle import is_bundle, write_bundle
from ..device.locate.cure_rounds import Curing, Round
from ..device.locate.make_plan import make_plan
from ..device.locate.narrowing import Narrowing, smallest_failing
from ..device.locate.plan import Plan, Request, out_of, require_place
from ..device.locate.resumable_steps import STATE_FILE, Step, Steps
from ..device.locate.search import GOLDEN_JSON, JSON, RUN, CaseResult, Search
from ..run.comparison_options import ComparisonOptions
from ..run.watch_options import KEEP_ALL, KEEP_FAILED, KEEP_NONE
from .command import PrintArguments, command, format_option, option_of, topic, verbosity_options
from .locate_outcome import Outcome, SmallestPart, print_outcome
from .next_commands import two_dumps_hint
from .output_file_checks import make_room, out_option, refuse_replacing, try_writing
from .printing import (
    columns_of,
    is_warning,
    marked,
    print_json,
    put_escaped,
    put_line,
    put_wrapped,
    say,
    say_escaped,
    say_note,
)
from .shell_words import shell_lines, shell_word
from .watch_display import FINAL_ROWS_ONLY
from .what_was_given import LOCATED, refuse_place

_RAISING = tuple(mode for mode in CURES if mode != NPU)
_UNTIL = ("inputs", "golden", "run")


@dataclass(frozen=True)
class _Arguments(PrintArguments):
    """The arguments of ``goldwatch locate``."""

    model: str
    om: str
    program: Tuple[str, ...]
    inputs: Tuple[str, ...]
    out: Optional[str]
    om_json: Optional[str]
    weights: Optional[str]
    seed: int
    shapes: Optional[str]
    golden: Optional[str]
    device: int
    runner: Optional[str]
    runner_python: Optional[str]
    python: Optional[str]
    atc: Optional[str]
    keep: Optional[str]
    strict: bool
    narrow: bool
    bundle: Optional[str]
    cures: bool
    mode: str
    budget: Optional[str]
    until: Optional[str]
    dry_run: bool
    force: bool
    again: bool

    @property
    def narrows(self) -> bool:
        """Whether the smallest failing part is searched for; a bundle needs one."""
        return self.narrow or self.bundle is not None

    @property
    def keeps(self) -> str:
        """Which dumps are kept."""
        return self.keep or (KEEP_ALL if self.cures else KEEP_FAILED)

    def request(self, out: str) -> Request:
        """Return the request for :func:`make_plan`."""
        converting = (("--narrow", self.narrows), ("--cure", self.cures))
        return Request(
            self.model,
            self.om,
            out,
            words=self.program,
            converting=[option for option, converts in converting if converts],
            inputs=self.inputs,
            om_json=self.om_json,
            weights=self.weights,
            seed=self.seed,
            shapes=self.shapes,
            device=self.device,
            runner=self.runner,
            runner_python=self.runner_python,
            python=self.python,
            atc=self.atc,
            keep=self.keeps,
            strict=self.strict,
            golden=self.golden,
        )

    def of_each_run(self) -> List[str]:
        """Return the options that the runs of other oms of the same model need too."""
        options = (
            ("--device", self.device),
            ("--runner", self.runner),
            ("--runner-python", self.runner_python),
            ("--python", self.python),
            ("--atc", self.atc),
            ("--keep", self.keeps),
        )
        words = [word for name, value in options if value for word in (name, str(value))]
        flags = (("--strict", self.strict), ("--again", self.again))
        return words + [name for name, is_given in flags if is_given]


@command(
    arguments=_Arguments,
    first=("inputs", "out", "om_json", "narrow", "dry_run"),
    context_settings={"allow_interspersed_args": True},
)
@click.argument("model", type=click.Path(readable=False))
@click.argument("om", type=click.Path(readable=False))
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM …]")
@topic(
    MODEL,
    click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=FILE",
        help="An input (.npy, or raw); others get random values.",
    ),
)
@out_option("Folder for all that is made.  [default: {om}_located]")
@topic(
    MODEL,
    click.option(
        "-f",
        "--om-json",
        "om_json",
        metavar="OM.json",
        help="The om's json, where atc is elsewhere.",
    ),
    option_of(CommonOptions, "weights"),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        default=0,
        show_default=True,
        metavar="N",
        help="The seed of the random values.",
    ),
    click.option(
        "--shapes",
        metavar="SHAPES",
        help="Shapes of a dynamic om: x:1,3,200~224~8,224-230;y:4. A~B~STEP: a range, A-B: one and "
        "the other.",
    ),
    click.option(
        "--golden",
        metavar="GOLDEN",
        help="Golden data of the inputs that -i names, which are not made again then.",
    ),
)
@topic(
    PROGRAM,
    click.option(
        "--device",
        type=click.IntRange(0, 1023),
        default=0,
        show_default=True,
        metavar="N",
        help="The device that runs it.",
    ),
    click.option(
        "--runner",
        type=click.Choice(RUNNERS),
        help="What runs the om.  [default: the first that is there]",
    ),
    click.option(
        "--runner-python",
        metavar="PATH",
        help="The Python that has ais_bench, or acl.  [default: found]",
    ),
    click.option(
        "--python",
        metavar="PATH",
        help="The Python that has the model's framework.  [default: found]",
    ),
    click.option("--atc", metavar="PATH", help="The compiler.  [default: found]"),
)
@click.option("--keep", type=click.Choice([KEEP_ALL, KEEP_FAILED, KEEP_NONE]),
              help="Which dumps stay after their comparison.  [default: failed; "
                  "with --cure all]")  # fmt: skip
@option_of(ComparisonOptions, "strict")
@topic(
    "Afterwards",
    click.option(
        "--narrow",
        is_flag=True,
        help="Then cut the suspect's part out, convert and run it, smaller and smaller.",
    ),
    click.option(
        "--bundle",
        metavar="FILE.tar",
        help="Pack the smallest part that fails into this file (implies --narrow).",
    ),
    click.option(
        "--cure",
        "cures",
        is_flag=True,
        help="Then raise operators to float32, convert, run and judge again, until it passes.",
    ),
    click.option(
        "--mode",
        type=click.Choice(_RAISING),
        default=KEEP_DTYPE,
        show_default=True,
        help="With --cure: as for goldwatch cure.",
    ),
    click.option("--budget", metavar="N|PERCENT", help="With --cure: as for goldwatch cure."),
)
@click.option("--until", type=click.Choice(_UNTIL), help="End after this step.")
@click.option("--dry-run", is_flag=True, help="Show the plan and the commands, and start nothing.")
@click.option("--force", is_flag=True, help="If OUT holds another search, repeat what has changed.")
@click.option("--again", is_flag=True, help="Run OM again, though its run in OUT has ended.")
@format_option
@verbosity_options
@terminations_interrupt()
def locate(arguments: _Arguments) -> int:
    """Find the operator of OM that goes wrong first: golden data of MODEL, a run of OM with dumps,
    a comparison while it runs.

    MODEL is a prototxt (its caffemodel beside it), a frozen .pb or a SavedModel of TensorFlow 1.15,
    an .onnx, or a second om, whose values are then the golden data. OM is the .om, or its json if a
    program behind -- runs it; {om}, {acl_json}, {inputs}, {output}, {device} and {shapes} in the
    program's arguments are replaced.

    The plan is shown first, with everything that is missing. Each step is a command of goldwatch,
    atc or the runner; after an interruption the same command goes on.

    Exit code: the verdict's (0, 1, 3), 4 if something is missing, 5 if the program failed.

    Example: goldwatch locate model.onnx model.om -o out
    """
    hint = two_dumps_hint(arguments.om, arguments.model)
    if hint is not None:
        raise InputError("MODEL and OM are folders of dumps, not two models", hint=hint)
    out = arguments.out if arguments.out is not None else out_of(arguments.om)
    require_place(out)
    if not os.path.exists(os.path.join(out, STATE_FILE)):
        refuse_place(out, LOCATED)
    if arguments.bundle is not None:
        # Raise where the bundle would replace anything but an earlier bundle, or cannot be
        # written.
        path = arguments.bundle
        inputs = {
            "MODEL": arguments.model,
            "OM": arguments.om,
            "--om-json": arguments.om_json,
            "--weights": arguments.weights,
        }
        refuse_replacing("--bundle", path, inputs)
        if os.path.lexists(path) and not is_bundle(path):
            raise UsageError(
                "--bundle %s: a file that is no earlier bundle is there; it is not replaced" % path,
                hint="name another file, or remove that one",
            )
        try_writing("--bundle %s" % path, path)
    if (arguments.narrows or arguments.cures) and arguments.until is not None:
        raise UsageError("--until ends before --narrow, --bundle and --cure begin")
    if arguments.cures and arguments.keep not in (None, KEEP_ALL):
        raise UsageError("--cure computes from all dumps: it goes with --keep all alone")
    request = arguments.request(out)
    messages = _Messages(arguments.quiet, arguments.output_format == "json")
    if arguments.dry_run:
        with tempfile.TemporaryDirectory(prefix="goldwatch-locate-") as folder:
            return _show_plan(arguments, request, folder, messages)
    existed = os.path.isdir(out)
    os.makedirs(out, exist_ok=True)
    try:
        steps = Steps(out, messages.step, arguments.force, arguments.again)
        plan = _planned(request, steps, out)
        messages.plan(plan)
        messages.refuse(plan)
    except BaseException:
        if not existed and not os.listdir(out):
            os.rmdir(out)
        raise
    search = Search(plan, steps, messages.execute, messages.line)
    search.refuse_others()
    results: List[CaseResult] = []
    for case in plan.runs:
        results.append(search.do(case, arguments.until))
        if results[-1].was_stopped:
            search.notes.append(note("stopped-run"))
            return _print_outcome(search, results, arguments, None, None)
    failing = next((result for result in results if result.code == EXIT_FAIL), None)
    smaller = _narrow_down(search, failing, arguments, messages) if arguments.narrows else None
    rounds = _cure(search, failing, arguments, messages) if arguments.cures else None
    return _print_outcome(search, results, arguments, smaller, rounds)


def _cure(
    search: Search, failing: Optional[CaseResult], arguments: _Arguments, messages: "_Messages"
) -> List[Round]:
    """Raise operators until the run passes, and compare the last run with the first."""
    if failing is None:
        return []
    curing_rounds = Curing(
        search, failing, arguments.mode, arguments.budget, arguments.of_each_run()
    ).rounds()
    last = next((each for each in reversed(curing_rounds) if each.located is not None), None)
    if last is not None and last.located is not None:
        messages.execute(
            ["diff", os.path.join(failing.folder, RUN), os.path.join(last.located, RUN)]
        )
    return curing_rounds


def _narrow_down(
    search: Search, failing: Optional[CaseResult], arguments: _Arguments, messages: "_Messages"
) -> SmallestPart:
    """Search for the smallest part that fails, and archive it."""
    if failing is None:
        messages.line("note: no run fails: there is nothing to cut out")
        return SmallestPart([])
    result = SmallestPart(Narrowing(search, failing, arguments.of_each_run()).cuts())
    result.smallest = smallest_failing(result.cuts)
    if (
        arguments.bundle is not None
        and result.smallest is not None
        and search.plan.interface is not None
        and search.plan.runner is not None
    ):
        make_room(arguments.bundle)
        result.files = len(
            write_bundle(
                arguments.bundle, result.smallest, search.plan.interface, search.plan.runner.name
            )
        )
        result.bundle = arguments.bundle
    return result


def _planned(request: Request, steps: Steps, out: str) -> Plan:
    """Return the plan; making the json of an om is one of its steps, with its output in ``out``."""

    def make_json(name: str, om: str, atc: Atc) -> str:
        path = os.path.join(out, JSON if name == "model" else GOLDEN_JSON)

        def does(began: bool) -> int:
            atc.to_json(om, path)
            return EXIT_PASS

        role = "the om" if name == "model" else "the golden om"
        steps.run(Step(name, does, atc.json_command(om, path), {}, {role: om}, [path]))
        return path

    return make_plan(request, make_json, out)


def _show_plan(arguments: _Arguments, request: Request, folder: str, messages: "_Messages") -> int:
    """Print the plan and its commands without running them; raises as the search does."""
    quiet = _Messages(True, False)
    plan = _planned(request, Steps(folder, quiet.step), folder)
    steps = Steps(request.out, quiet.step, arguments.force, arguments.again)
    search = Search(plan, steps, quiet.execute, quiet.line)
    planned = (
        []
        if plan.problems
        else [entry for case in plan.runs for entry in search.planned_steps(case)]
    )
    commands = [(list(step.command), was_done) for step, was_done in planned]
    if plan.atc is not None and plan.made_json and plan.interface is not None:
        json_path = os.path.join(request.out, JSON)
        was_made = steps.outcome("model") is not None and os.path.isfile(json_path)
        commands.insert(0, (plan.atc.json_command(request.om, json_path), was_made))
    temporary, out = os.path.join(folder, ""), os.path.join(request.out, "")
    commands = [
        ([word.replace(temporary, out) for word in words], was_done) for words, was_done in commands
    ]
    lines = [line.replace(temporary, out) for line in plan.lines()]
    if messages.as_json:
        plan.refuse()
        search.refuse_others()
        known = [{"command": words, "done": was_done} for words, was_done in commands]
        print_json({"plan": lines, "steps": known})
        return EXIT_PASS
    for line in lines:
        put_line(line)
    for words, was_done in commands:
        put_escaped(_command_lines(words, was_done, sys.stdout))
    messages.refuse(plan)
    search.refuse_others()
    if any(was_done for step, was_done in planned if step.on_device):
        rest = "nothing is run" if all(was_done for _, was_done in planned) else "it is taken"
        put_wrapped(
            "the om was run before, and its result is in %s: %s; --again runs it anew"
            % (request.out, rest)
        )
    return EXIT_PASS


def _command_lines(words: Sequence[str], was_done: bool, stream: TextIO) -> List[str]:
    """Return the lines of a step's command: to be run, or done before."""
    head = ("done: " if was_done else "$ ") + shell_word(words[0])
    return shell_lines(head, words[1:], columns_of(stream) or 10**9)


class _Messages:
    """Prints the progress of a search, and runs its commands as if they had been typed.

    Parameters
    ----------
    quiet
        Say nothing but results and errors.
    as_json
        Only one document is printed on stdout.
    """

    def __init__(self, quiet: bool, as_json: bool) -> None:
        self.quiet = quiet
        self.as_json = as_json

    def line(self, text: str) -> None:
        """Print a line of progress, or a warning."""
        say(marked(text), self.quiet and not is_warning(text))

    def plan(self, plan: Plan) -> None:
        """Show the plan."""
        for line in plan.lines():
            self.line(line)

    def refuse(self, plan: Plan) -> None:
        """List everything that is missing; raise InputError if there is anything."""
        if not self.as_json and len(plan.problems) > 1:
            for number, problem in enumerate(plan.problems, 1):
                say("%d. %s" % (number, problem.message))
                if problem.hint:
                    say("  hint: " + problem.hint)
        plan.refuse(already_said=not self.as_json)

    def step(self, command: Sequence[str], is_done: bool) -> None:
        """Print a step's command before it runs, or that it ran before."""
        if not self.quiet:
            say_escaped(_command_lines(command, is_done, sys.stderr))

    def execute(self, words: Sequence[str]) -> int:
        """Run a command of goldwatch. What a run prints of its rows is in its folder, and what the
        program prints in its log: the last lines of the search name both.
        """
        from . import goldwatch

        runs, compares = words[0] == "run", words[0] == "compare"
        silent = self.quiet or compares or runs
        words = list(words)
        more = (["--format", "json"] if self.as_json and runs else []) + (
            ["-q"] if (self.quiet or compares) and "-q" not in words else []
        )
        at = words.index("--") if "--" in words else len(words)
        words[at:at] = more
        with _stdout(None if silent else sys.stderr), _program_stderr(self.quiet or runs):
            code = goldwatch.main(
                args=words, prog_name="goldwatch", standalone_mode=False, obj=FINAL_ROWS_ONLY
            )
        return code if isinstance(code, int) else EXIT_PASS


def _print_outcome(
    search: Search,
    results: List[CaseResult],
    arguments: _Arguments,
    smaller: Optional[SmallestPart],
    rounds: Optional[List[Round]],
) -> int:
    """Print the result of the search and keep it beside its steps; return the exit code, that of
    the last round where operators were raised.
    """
    outcome = Outcome(search, results, smaller, rounds)
    if arguments.output_format == "json" and outcome.earlier:
        search.notes.append(outcome.earlier)
    search.steps.keep_outcome(outcome.stored_part())
    if arguments.output_format == "json":
        print_json(outcome.document())
        return outcome.code
    for said in search.notes:
        say_note(said, arguments.quiet)
    if arguments.until is not None and arguments.until != RUN:
        put_line("%s: done up to the step %s" % (search.plan.request.out, arguments.until))
        return outcome.code
    print_outcome(outcome)
    return outcome.code


@contextlib.contextmanager
def _stdout(stream: Optional[TextIO]) -> Iterator[None]:
    """Redirect stdout to a stream, or to the null device for None."""
    if stream is not None:
        with contextlib.redirect_stdout(stream):
            yield
        return
    with os.fdopen(
        os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"
    ) as nowhere, contextlib.redirect_stdout(nowhere):
        yield


@contextlib.contextmanager
def _program_stderr(is_quiet: bool) -> Iterator[None]:
    """Have what a program writes on its stderr go to its log alone, where that is wanted."""
    if not is_quiet:
        yield
        return
    with os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8") as nowhere:
        own_lines = _OwnLines(sys.stderr, nowhere.fileno())
        with contextlib.redirect_stderr(own_lines):  # type: ignore[type-var]
            yield


class _OwnLines:
    """A stream for our own messages, whose descriptor is another: a program's output goes there."""

    def __init__(self, stream: TextIO, descriptor: int) -> None:
        self._stream = stream
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
