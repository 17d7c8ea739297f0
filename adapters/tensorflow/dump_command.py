"""The whole of ``golden tf dump``: check the request, find a Python that has TensorFlow, run the
script or graph there (twice if asked), and put together what came out.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import field, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...base.errors import (
    GoldwatchError,
    InputError,
    Interrupted,
    MissingPath,
    UsageError,
    require_file,
)
from ...base.fast_dataclasses import dataclass
from ...base.manifest import add_to_manifest, original_of, read_manifest
from ...base.naming import printable
from ...base.safe_reading import sha256_of_file
from ..child.outcome import Outcome
from ..child.parent import Progress
from ..golden_folder import refuse_golden
from ..python_command_line import CODE, FILE, script_of
from .parent import never_reached, note_program, run_job, scratch_folder, script_failure
from .pythons import Python, find_tensorflow_python

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather")
_RANDOM = ("Random", "Truncated", "Multinomial", "Parameterized", "Stateless", "RandomShuffle")


@dataclass(frozen=True)
class Difference:
    """One tensor that the second run did not reproduce.

    Attributes
    ----------
    tensor
        ``op:index``, with the dump's number where a loop wrote several.
    op_type
        The type of the op.
    reason
        ``values differ``, ``shape … became …``, ``only in the first run`` …
    in_one_run
        Whether only one of the runs has it.
    """

    tensor: str
    op_type: str
    reason: str
    in_one_run: bool = False


def compare_runs(first: str, second: str) -> Tuple[List[Difference], int]:
    """Return the tensors of golden folder ``first`` that ``second`` does not repeat bit for bit,
    and how many it does.

    Raises
    ------
    InputError
        A folder has no manifest.
    """
    one, two = _entries(first), _entries(second)
    differences: List[Difference] = []
    same = 0
    for key, entry in one.items():
        other = two.get(key)
        if other is not None and other["sha256"] == entry["sha256"]:
            same += 1
            continue
        if other is None:
            reason = "only in the first run"
        elif other["shape"] != entry["shape"] or other["dtype"] != entry["dtype"]:
            reason = "%s %s became %s %s" % (
                entry["dtype"],
                entry["shape"],
                other["dtype"],
                other["shape"],
            )
        else:
            reason = "values differ"
        differences.append(Difference(_name(key), _type(entry), reason, other is None))
    differences.extend(
        Difference(_name(key), _type(entry), "only in the second run", True)
        for key, entry in two.items()
        if key not in one
    )
    return differences, same


Key = Tuple[str, int, int]


def _entries(folder: str) -> Dict[Key, Dict[str, Any]]:
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError("%s has no manifest" % folder)
    return {
        (str(e["original_name"]), int(e["output_index"]), int(e.get("dump", 0))): e
        for e in manifest["tensors"]
    }


def _name(key: Key) -> str:
    return "%s:%d" % key[:2] + (" (dump %d)" % key[2] if key[2] else "")


def _type(entry: Dict[str, Any]) -> str:
    return "feed" if entry.get("fed") else str(entry.get("type", ""))


def advice(differences: List[Difference]) -> List[str]:
    """Return how to make the script reproducible, by the kinds of op that differ."""
    types = {difference.op_type for difference in differences}
    lines: List[str] = []
    if any(kind.startswith(_RANDOM) for kind in types):
        lines.append(
            "random ops differ (dropout …): call tf.set_random_seed(1) before the graph is "
            "built, or dump an inference run"
        )
    if types.intersection(_VARIABLES):
        lines.append(
            "variables differ: load a checkpoint, or call tf.set_random_seed(1) before the "
            "graph is built; an Estimator's model_dir "
            "that the first run wrote makes the second one go on from there"
        )
    if any(kind.startswith(("Iterator", "OneShotIterator")) for kind in types):
        lines.append(
            "input batches differ: shuffle with a fixed seed (dataset.shuffle(n, seed=1)) or "
            "not at all"
        )
    if "feed" in types:
        lines.append(
            "fed values differ: feed the same data (numpy.random.seed(1), random.seed(1), no "
            "shuffling, no time stamps)"
        )
    if any(difference.in_one_run for difference in differences):
        lines.append("other ops ran: a condition or a loop depends on values that differ")
    if not lines:
        lines.append(
            "no random op among them: sums of several threads may differ in the last bits; "
            "set intra_op_parallelism_threads=1 and "
            "inter_op_parallelism_threads=1 in the session's ConfigProto"
        )
    return lines


Say = Callable[[str], None]


@dataclass(frozen=True)
class ScriptJob:
    """A script to run and the runs of it to save.

    Attributes
    ----------
    folders
        ``{run number: golden folder}``.
    words
        ``python [OPTIONS] SCRIPT ARGS…``, or a .py file and its arguments.
    estimator
        Count only the steps of Estimators and MonitoredSessions.
    python
        The Python that has TensorFlow, or None to find one.
    own_stdout
        What the script prints goes to stderr.
    say
        Called with lines of progress.
    without_npu
        Give the script a stand-in for npu_bridge that changes nothing.
    """

    folders: Dict[int, str]
    words: List[str]
    estimator: bool = False
    python: Optional[str] = None
    force: bool = False
    own_stdout: bool = False
    say: Say = lambda text: None
    without_npu: bool = False


@dataclass(frozen=True)
class GraphJob:
    """A frozen graph or SavedModel to run once.

    Attributes
    ----------
    saved_model
        Whether ``path`` is a SavedModel's folder.
    inputs
        ``(name, file)``; a name is an op, a tensor, or a key of the signature.
    outputs
        Names; empty for the signature's outputs or all sinks.
    progress
        Called with (tensors saved, all).
    """

    out: str
    path: str
    saved_model: bool
    inputs: List[Tuple[str, str]]
    outputs: List[str]
    tags: List[str]
    signature: Optional[str] = None
    python: Optional[str] = None
    force: bool = False
    own_stdout: bool = False
    say: Say = lambda text: None
    progress: Progress = lambda done, total: None


@dataclass
class JobResult:
    """What a command did.

    Attributes
    ----------
    done
        One entry per golden folder: ``run``, ``out``, the counts, ``refusals`` and ``notes``.
    failure
        What to raise once everything was shown, or None.
    twice
        Whether the script ran twice; then ``differences`` and ``same``.
    listed
        Of :func:`list_runs`, the script's own runs: ``first`` and ``last`` number of runs that are
        alike and follow one another, ``kind``, and the names in ``fetches`` and ``feeds``.
    """

    python: Python
    version: str
    done: List[Dict[str, Any]]
    failure: Optional[GoldwatchError] = None
    twice: bool = False
    differences: List[Difference] = field(default_factory=list)
    same: int = 0
    listed: List[Dict[str, Any]] = field(default_factory=list)

    @property
    def advice(self) -> List[str]:
        """What to change so that the script repeats itself."""
        return advice(self.differences) if self.differences else []

    def document(self) -> Dict[str, Any]:
        """Return the result as a JSON document."""
        document: Dict[str, Any] = {
            "python": self.python.path,
            "tensorflow": self.version,
            "golden": self.done,
        }
        if self.twice:
            document["reproducible"] = not self.differences
            document["differences"] = [vars(difference) for difference in self.differences]
            document["same"] = self.same
            document["advice"] = self.advice
        return document


def run_script(job: ScriptJob, twice: bool = False) -> JobResult:
    """Run the script and save the chosen runs; see ``goldwatch golden tf dump``.

    Raises
    ------
    UsageError
        The words are no Python script, or a golden folder is in use.
    InputError
        A chosen run was never reached or raised; no Python has TensorFlow.
    """
    word, options, kind, target, arguments = script_of(job.words)
    folders = {number: os.path.abspath(out) for number, out in job.folders.items()}
    for out in folders.values():
        refuse_golden(out, job.force)
        if os.path.lexists(out) and not os.path.isdir(out):
            raise UsageError(
                "%s is not a folder" % printable(out),
                hint="give a folder, existing or new, for the golden files",
            )
    python = find_tensorflow_python(job.python, word)
    source = {"script": sha256_of_file(target)} if kind == FILE and os.path.isfile(target) else {}
    command = {"command": [printable(text) for text in job.words], "python": printable(python.path)}
    with scratch_folder(next(iter(folders.values()))) as scratch:
        document = {
            "action": "dump",
            "kind": kind,
            "target": target,
            "arguments": list(arguments),
            "folders": folders,
            "force": job.force,
            "estimator": job.estimator,
            "without_npu": job.without_npu,
            "source": source,
            "extra": command,
        }
        job.say("running %s with %s" % (target if kind != CODE else "-c", python))
        outcome = run_job(
            python, options, document, scratch, list(folders.values()), job.own_stdout
        )
        result = _judged(python, outcome, document)
        if twice and result.failure is None:
            job.say("running it a second time")
            again = {number: os.path.join(scratch, "second", str(number)) for number in folders}
            document = dict(document, folders=again, force=False)
            second = run_job(
                python, options, document, scratch, list(again.values()), job.own_stdout
            )
            result.failure = _judged(
                python, second, document, "the second run of the script"
            ).failure
            if result.failure is None:
                _compare(result, folders, again)
    return result


def list_runs(job: ScriptJob) -> JobResult:
    """Run the script and save nothing; the result's ``listed`` tells its own runs.

    Raises
    ------
    UsageError
        The words are no Python script.
    InputError
        No Python has TensorFlow.
    """
    word, options, kind, target, arguments = script_of(job.words)
    python = find_tensorflow_python(job.python, word)
    with tempfile.TemporaryDirectory(prefix="goldwatch-tf-") as scratch:
        document = {
            "action": "dump",
            "kind": kind,
            "target": target,
            "arguments": list(arguments),
            "folders": {},
            "force": False,
            "estimator": job.estimator,
            "without_npu": job.without_npu,
            "source": {},
            "extra": {},
            "listing": True,
        }
        job.say("running %s with %s" % (target if kind != CODE else "-c", python))
        outcome = run_job(python, options, document, scratch, [], job.own_stdout)
    result = _judged(python, outcome, document)
    result.listed = list(outcome.messages["state"]["listed"])
    if result.failure is None and not result.listed:
        result.failure = never_reached(outcome, [0], job.estimator)
    return result


def _judged(
    python: Python, outcome: Outcome, document: Dict[str, Any], what: str = "the script"
) -> JobResult:
    state = outcome.messages["state"]
    version = str(state["version"] or python.tensorflow or "")
    note_program(outcome, document, version)
    if outcome.own_error is not None and not outcome.interrupted:
        raise outcome.own_error
    failure = script_failure(outcome, what)
    done = sorted(state["done"], key=lambda entry: int(entry["run"]))
    if failure is None:
        failure = never_reached(outcome, list(document["folders"]), document["estimator"])
    return JobResult(python, version, done, failure)


def _compare(result: JobResult, first: Dict[int, str], second: Dict[int, str]) -> None:
    result.twice = True
    for number, out in first.items():
        differences, same = compare_runs(out, second[number])
        prefix = "run %d: " % number if len(first) > 1 else ""
        result.differences.extend(replace(d, tensor=prefix + d.tensor) for d in differences)
        result.same += same
        listed = [{"tensor": d.tensor, "type": d.op_type, "reason": d.reason} for d in differences]
        reproducibility = {
            "runs": 2,
            "same": same,
            "differing": listed,
            "advice": advice(differences) if differences else [],
        }
        add_to_manifest(out, reproducibility=reproducibility)


def dump_graph(job: GraphJob, twice: bool = False) -> JobResult:
    """Run a frozen graph or SavedModel once; see :class:`GraphJob`.

    Raises
    ------
    MissingPath
        The model or an input file does not exist.
    InputError
        The model cannot be loaded, fed or run; no Python has TensorFlow.
    """
    source = _hash_model(job)
    for name, path in job.inputs:
        require_file(path, "input %s" % name)
        source["input:" + name] = sha256_of_file(path)
    out = os.path.abspath(job.out)
    refuse_golden(out, job.force)
    python = find_tensorflow_python(job.python, None)
    with scratch_folder(out) as scratch:
        document = {
            "action": "graph",
            "model": "saved_model" if job.saved_model else "pb",
            "path": os.path.abspath(job.path),
            "tags": job.tags,
            "signature": job.signature,
            "inputs": [list(pair) for pair in job.inputs],
            "outputs": job.outputs,
            "out": out,
            "force": job.force,
            "source": source,
            "extra": {
                "model": printable(job.path),
                "python": printable(python.path),
                "original": _original(job, source),
            },
        }
        job.say("running %s with %s" % (job.path, python))
        result = _graph_result(
            python, run_job(python, [], document, scratch, [out], True, job.progress)
        )
        if twice:
            job.say("running it a second time")
            again = os.path.join(scratch, "second")
            _graph_result(
                python,
                run_job(
                    python,
                    [],
                    dict(document, out=again, force=False),
                    scratch,
                    [again],
                    True,
                    job.progress,
                ),
            )
            _compare(result, {0: out}, {0: again})
    return result


def _graph_result(python: Python, outcome: Outcome) -> JobResult:
    if outcome.interrupted:
        raise Interrupted("interrupted; nothing was saved")
    if outcome.returncode != 0:
        raise outcome.problem("the run of the graph", "its own message stands above")
    state = outcome.messages["state"]
    for entry in state["done"]:
        add_to_manifest(entry["out"], complete=True)
    return JobResult(python, str(state["version"]), list(state["done"]))


def _original(job: GraphJob, source: Dict[str, Any]) -> Dict[str, Any]:
    """Return the manifest's ``original`` of a model whose files' sums are in ``source``."""
    if not job.saved_model:
        return original_of("tensorflow", job.path, {job.path: source["model"]})
    model = _saved_model_file(job.path)
    variables = {
        os.path.join(job.path, role): digest
        for role, digest in source.items()
        if role.startswith("variables/")
    }
    return original_of(
        "tensorflow", model, dict(variables, **{model: source["model"]}), data=list(variables)
    )


def _saved_model_file(folder: str) -> str:
    """Return the path of a SavedModel's graph; empty where there is none."""
    paths = (os.path.join(folder, name) for name in ("saved_model.pb", "saved_model.pbtxt"))
    return next(filter(os.path.isfile, paths), "")


def _hash_model(job: GraphJob) -> Dict[str, Any]:
    if not job.saved_model:
        require_file(job.path, "`pb`")
        return {"model": sha256_of_file(job.path)}
    if not os.path.isdir(job.path):
        raise MissingPath(
            "`saved_model` %s is not a folder" % printable(job.path),
            hint="give the folder that holds saved_model.pb",
        )
    model = _saved_model_file(job.path)
    if not model:
        raise MissingPath(
            "`saved_model` %s holds no saved_model.pb" % printable(job.path),
            hint="a frozen graph goes to `pb`",
        )
    source = {"model": sha256_of_file(model)}
    variables = os.path.join(job.path, "variables")
    for name in sorted(os.listdir(variables)) if os.path.isdir(variables) else []:
        if os.path.isfile(os.path.join(variables, name)):
            source["variables/" + name] = sha256_of_file(os.path.join(variables, name))
    return source
