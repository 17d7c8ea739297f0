"""The programs of a host that run an om: which are there, the command of each, and the files that
they leave.

Source: the public documentation and sources of ais_bench and msame. ``pyacl`` is goldwatch's own
(:mod:`goldwatch.adapters.acl`), which needs a Python with the module ``acl``.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import field, replace
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...adapters.child_python import runs
from ...adapters.pythons import on_path
from ...base.errors import InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...base.safe_reading import open_input
from ...model.atc_options import BATCH, DIMS, SHAPE, Dynamic

AIS_BENCH, MSAME, PYACL, PROGRAM = "ais_bench", "msame", "pyacl", "program"
RUNNERS = (AIS_BENCH, MSAME, PYACL)
"""In the order in which they are preferred."""

Shape = Tuple[int, ...]


class Command(NamedTuple):
    """What to start: ``argv`` with these variables besides the process's own, in this folder (None:
    the current one).
    """

    argv: List[str]
    environ: Dict[str, str]
    cwd: Optional[str] = None


@dataclass(frozen=True)
class Run:
    """One run of an om.

    Attributes
    ----------
    om
        The .om file.
    inputs
        Raw files (.bin) with the values of its inputs, in their order and in the types that they
        have.
    output
        The folder for what the program writes; it exists and is the run's own.
    acl_json
        The dump configuration; None: nothing is dumped.
    device
        Number of the device.
    dynamic, shapes
        What of the inputs is told when it runs, and the shapes of this run by input; None and none
        where all is fixed.
    output_bytes
        Of a dynamic shape the size of each output, or more; where the om cannot tell it the program
        must be told.
    """

    om: str
    inputs: Sequence[str]
    output: str
    acl_json: Optional[str] = None
    device: int = 0
    dynamic: Optional[Dynamic] = None
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    output_bytes: Sequence[int] = ()


@dataclass(frozen=True)
class Runner:
    """A program that runs an om.

    Attributes
    ----------
    name
        :data:`AIS_BENCH`, :data:`MSAME`, :data:`PYACL` or :data:`PROGRAM`.
    where
        The program, or the Python that has it; empty where there is none.
    problem
        Why it cannot be used, and what to do; empty where it can.
    words
        Of a :data:`PROGRAM` its words, in which ``{om}``, ``{acl_json}``, ``{inputs}``,
        ``{output}`` and ``{device}`` stand for the run's.
    """

    name: str
    where: str = ""
    problem: str = ""
    words: Tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it can be used."""
        return not self.problem

    def command(self, run: Run) -> Command:
        """Return what to start for a run.

        Raises
        ------
        UsageError
            The runner cannot do it; a gear is wanted that the om does not have; a path has a comma,
            which parts the inputs; a word of the
        program names what there is not.
        """
        if self.problem:
            raise UsageError("%s cannot be used: %s" % (self.name, self.problem))
        return _COMMANDS[self.name](
            self, run if self.name == PROGRAM else _absolute(self.name, run)
        )

    def outputs(self, run: Run) -> List[str]:
        """Return the files that hold the outputs, in the order of the om's outputs; of a
        :data:`PROGRAM` what it left by the same names.

        Raises
        ------
        InputError
            There are none, or those of several runs that cannot be told apart.
        """
        outputs = written_outputs(run.output)
        if not outputs:
            raise InputError(
                "%s ended well and wrote no output below %s" % (self.name, run.output),
                hint="look at what it said",
            )
        return outputs


def find_runners(python: Optional[str] = None, names: Sequence[str] = RUNNERS) -> Iterator[Runner]:
    """Yield what could run an om here, the preferred one first, each when it is asked for, because
    looking for one starts a Python; those that cannot be used tell why.

    Parameters
    ----------
    python
        A Python to look for ais_bench and acl in; None: those on PATH, then the one that runs
        goldwatch.
    names
        The runners to look for.
    """
    pythons = (
        [python]
        if python is not None
        else list(dict.fromkeys([*on_path("python3", "python"), sys.executable]))
    )
    for name in names:
        yield _msame() if name == MSAME else _with_python(name, pythons)


def runner_of_program(words: Sequence[str]) -> Runner:
    """Return a program of the user's own as a runner."""
    return Runner(
        PROGRAM, words[0] if words else "", "" if words else "no program is given", tuple(words)
    )


_MODULES = {AIS_BENCH: "ais_bench, aclruntime", PYACL: "acl, numpy"}
_MISSING = {
    AIS_BENCH: "no Python here has it; install its two wheels (ais_bench and aclruntime), or "
    "name the "
    "Python that has them",
    PYACL: "no Python here has the module acl; source the toolkit's set_env.sh, which puts it on "
    "PYTHONPATH, or name the Python",
}


def _with_python(name: str, pythons: Sequence[str]) -> Runner:
    reason = ""
    for path in pythons:
        problem = runs(path, "import %s" % _MODULES[name])
        if problem is None:
            return Runner(name, path)
        reason = "%s: %s" % (path, problem)
    return Runner(name, "", "%s (%s)" % (_MISSING[name], reason) if reason else _MISSING[name])


def _msame() -> Runner:
    path = shutil.which(MSAME)
    return Runner(
        MSAME,
        path or "",
        ""
        if path
        else "it is not on PATH; build it from the vendor's tools and add its folder to PATH",
    )


def _absolute(name: str, run: Run) -> Run:
    """Return a run with absolute paths: a runner may have another current folder."""
    comma = next((path for path in run.inputs if "," in path), None)
    if comma is not None:
        raise UsageError(
            "%s: %s takes a comma for the end of an input's path" % (comma, name),
            hint="take a folder without a comma",
        )
    config = os.path.abspath(run.acl_json) if run.acl_json else None
    inputs = [os.path.abspath(path) for path in run.inputs]
    return replace(
        run,
        om=os.path.abspath(run.om),
        inputs=inputs,
        output=os.path.abspath(run.output),
        acl_json=config,
    )


def dynamic_arguments(run: Run) -> List[str]:
    """Return the option that tells a run's shapes, which ais_bench and msame spell alike; none
    where all is fixed.

    Raises
    ------
    UsageError
        The om cannot run on these shapes: it has no such gear, or they are outside of its range.
    """
    if run.dynamic is None:
        return []
    kind = run.dynamic.kind
    shapes = {
        name: tuple(run.shapes.get(name, shape)) for name, shape in run.dynamic.shapes.items()
    }
    problem = run.dynamic.problem(shapes)
    if problem:
        raise UsageError(problem, hint="name shapes that it has, such as " + run.dynamic.example())
    text = ";".join("%s:%s" % (name, ",".join(map(str, shape))) for name, shape in shapes.items())
    if kind == SHAPE:
        sizes = ["--outputSize", ",".join(map(str, run.output_bytes))] if run.output_bytes else []
        return ["--dymShape", text, *sizes]
    gear = run.dynamic.gear_of(shapes) or ()
    if kind == DIMS:
        return ["--dymDims", text]
    return ["--dymBatch" if kind == BATCH else "--dymHW", ",".join(map(str, gear))]


def _common_arguments(run: Run) -> List[str]:
    return ["--model", run.om, "--output", run.output, "--device", str(run.device)]


def _of_ais_bench(runner: Runner, run: Run) -> Command:
    words = [
        runner.where,
        "-m",
        "ais_bench",
        *_common_arguments(run),
    ]
    words += ["--input", ",".join(run.inputs)] if run.inputs else []
    words += ["--outfmt", "NPY", "--warmup_count", "0"] + dynamic_arguments(run)
    words += ["--acl_json_path", run.acl_json] if run.acl_json else []
    return Command(words, {})


def _of_msame(runner: Runner, run: Run) -> Command:
    """Return msame's command. It reads ./acl.json where there is one; ``--dump true`` would write
    one of its own over that.
    """
    words = [
        runner.where,
        *_common_arguments(run),
        "--outfmt",
        "BIN",
    ]
    words += ["--input", ",".join(run.inputs)] if run.inputs else []
    words += dynamic_arguments(run)
    if run.acl_json is None:
        return Command(words, {}, run.output)
    if os.path.basename(run.acl_json) != "acl.json":
        raise UsageError(
            "msame reads the file acl.json of its folder: %s is called otherwise" % run.acl_json
        )
    return Command(words, {}, os.path.dirname(os.path.abspath(run.acl_json)))


def _of_pyacl(runner: Runner, run: Run) -> Command:
    words = [
        "--python",
        runner.where,
        *_common_arguments(run),
    ]
    words += ["--input", ",".join(run.inputs)] if run.inputs else []
    words += dynamic_arguments(run)
    words += ["--acl_json_path", run.acl_json] if run.acl_json else []
    # In a folder of our own: the current one may hold anybody's json.py.
    return Command([sys.executable, "-m", "goldwatch.adapters.acl", *words], {}, run.output)


def _of_program(runner: Runner, run: Run) -> Command:
    known = {
        "om": run.om, "acl_json": run.acl_json or "", "inputs": ",".join(run.inputs),
        "output": run.output, "device": str(run.device),
        "shapes": ";".join("%s:%s" % (name, ",".join(map(str, shape))) for name,
        shape in run.shapes.items()),
    }  # fmt: skip

    def filled(match: "re.Match[str]") -> str:
        if match.group(1) not in known:
            raise UsageError(
                "the program's word %s is not known" % match.group(0),
                hint="those that are: {%s}" % "}, {".join(known),
            )
        return known[match.group(1)]

    return Command([re.sub(r"\{([a-z_]+)\}", filled, word) for word in runner.words], {})


_COMMANDS = {AIS_BENCH: _of_ais_bench, MSAME: _of_msame, PYACL: _of_pyacl, PROGRAM: _of_program}

_FILE = re.compile(r"(?P<name>.+?)_(?:output_)?(?P<number>[0-9]{1,4})\.(?:npy|bin|txt)\Z")


def written_outputs(folder: str) -> List[str]:
    """Return the outputs that a runner wrote at or below a folder, in the order of the om's; of
    several folders the newest one's.
    """
    newest: Tuple[float, Dict[int, str]] = (-1.0, {})
    for base, files in _numbered(folder):
        newest = max(newest, (os.stat(base).st_mtime, files), key=lambda entry: entry[0])
    numbers = newest[1]
    return [numbers[number] for number in sorted(numbers)]


def _numbered(folder: str) -> Iterator[Tuple[str, Dict[int, str]]]:
    for base, _, names in os.walk(folder):
        matches = [
            (match, name)
            for match, name in ((_FILE.match(name), name) for name in sorted(names))
            if match is not None
        ]
        files = {int(match.group("number")): os.path.join(base, name) for match, name in matches}
        if matches and len(files) < len(matches):
            raise InputError(
                "%s holds outputs of several samples: %s"
                % (base, ", ".join(name for _, name in matches[:4]))
            )
        if files:
            yield base, files


_TAIL_BYTES = 64 << 10


class Failure(NamedTuple):
    """Why a program failed: a sentence, and what to do."""

    message: str
    hint: str


_KNOWN: Tuple[Tuple[str, Failure], ...] = (
    (
        r"soc[ _]?version.{0,40}?(?:error|=|is|not|does)|ModelCheckCompatibility",
        Failure(
            "the om was made for another chip than the device's",
            "convert the model with the --soc_version of the device (npu-smi info names it)",
        ),
    ),
    (
        r"(?:open|set) ?_?device.{0,30}fail|invalid device|\b(?:507033|107001)\b",
        Failure(
            "the device cannot be opened",
            "npu-smi info lists the devices and who uses them, --device takes another; this "
            "user must be allowed to",
        ),
    ),
    (
        r"fail\w* to allocate memory|memory .{0,20}insufficient|malloc "
        r".{0,20}fail|\b(?:207001|207018)\b",
        Failure(
            "memory on the device ran out",
            "npu-smi info tells who holds it; take another --device, or a smaller batch",
        ),
    ),
    (
        r"(?:tensor|file|model|input|needed) ?size.{0,80}not (?:match|equal)|has \d+ bytes, "
        r"the om wants \d+",
        Failure(
            "the om takes an input of another size than its json says",
            "is it the json of this om? Without -f it is made anew; dynamic sizes are told "
            "with --shapes",
        ),
    ),
    (
        r"No module named '?(?:aclruntime|acl)\b|libascendcl\.so.{0,40}cannot open",
        Failure(
            "the toolkit is not in this shell's environment",
            "source the toolkit's set_env.sh first",
        ),
    ),
)
"""By what a line of the output holds; the first counts."""

_NOT_LOADED = Failure(
    "the om cannot be loaded",
    "is it whole, and made by this toolkit's atc? atc --mode=1 --om=FILE.om --json=FILE.json "
    "reads it without a device",
)
_LOADING = re.compile(r"load model.{0,40} fail|fail\w* to load (?:the )?model", re.IGNORECASE)
_ERROR = re.compile(
    r"\b(?:\w*error|fail\w*|exception|fatal|cannot|E[A-Z]?\d{4,5})\b", re.IGNORECASE
)
_LINE_CHARACTERS = 200


def failure_of(log: str) -> Optional[Failure]:
    """Return what the end of a program's output means, with its own words; None where it says
    nothing of an error.
    """
    try:
        with open_input(log) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern, failure in _KNOWN:
        line = next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None)
        if line is not None:
            return failure._replace(message="%s (%s)" % (failure.message, _shown([line])))
    errors = [line for line in lines if _ERROR.search(line)]
    if not errors:
        return None
    # The first line tells the cause, the last one its consequence.
    words = _shown(list(dict.fromkeys([errors[0], errors[-1]])))
    if any(map(_LOADING.search, lines)):
        return _NOT_LOADED._replace(message="%s (%s)" % (_NOT_LOADED.message, words))
    return Failure("its output ends so: %s" % words, "all of it is in %s" % log)


def _shown(lines: Sequence[str]) -> str:
    return " / ".join(printable(line[:_LINE_CHARACTERS]) for line in lines)
