"""Decides before anything runs who makes golden data, what runs the om and with which inputs; finds
all that is missing, at once.
"""

from __future__ import annotations

import os
import sys
from typing import Callable, List, NoReturn, Optional, Sequence, Set, Tuple, TypeVar

from ...adapters.caffe.choose_backend import ModulePaths, choose_backend
from ...adapters.child_python import resolve_python, runs
from ...adapters.golden_folder import golden_files
from ...adapters.pythons import in_environments, on_path
from ...adapters.tensorflow.pythons import find_tensorflow_python
from ...base.errors import GoldwatchError, InputError, MissingPath, UsageError, require_file
from ...base.mounts import free_bytes, nearest_folder
from ...base.naming import printable, sanitise_golden
from ...base.notes import note
from ...base.pool import default_jobs
from ...base.wording import listed, size_text
from ...config.dump_size_rules import acl_size
from ...config.models import Models
from ...config.path_rules import forbidden_characters
from ...dumps.golden_set import GoldenSet
from ...kinds import kind as kinds
from ...kinds.files import kind_of_file
from ...model.graph import ModelGraph
from ...model.om_interface import OmInterface, read_om_interface
from ...model.read_model import load_model
from ...recomputing.submodel.device_ops import computing_ops, held_nodes
from ...recomputing.submodel.read_original import read_original as read_nodes
from ..launch.atc import Atc, find_atc, toolkit_problem
from ..launch.runners import RUNNERS, Runner, find_runners, runner_of_program
from ..launch.user_commands import require_program
from .input_pairs import named_files
from .om_runs import add_runs
from .original_model import (
    CAFFE,
    OM,
    ONNX,
    SAVED_MODEL_FILE,
    TENSORFLOW,
    ModelInput,
    OriginalModel,
    read_original,
)
from .part_of_model import takes_inner_values
from .plan import OTHER_OM, Plan, Problem, Request
from .shape_combinations import parse_shapes

T = TypeVar("T")
# Measured: docs/design/scale.md.
_BYTES_PER_S, _SECONDS_PER_PAIR = 0.55e9, 0.0006
_OMS = (kinds.OM, kinds.OM_JSON)

Make = Callable[[str, str, Atc], str]
"""Makes the json of an om: called with ``model`` or ``golden_model``, the om, and atc; returns the
json's path.
"""


def make_plan(request: Request, make_json: Make, folder: str) -> Plan:
    """Return what is decided; what is missing or wrong is in its ``problems``.

    Parameters
    ----------
    folder
        Where files that are made lie.

    Raises
    ------
    UsageError
        Options do not go together.
    InputError
        MODEL and OM are exchanged.
    """
    _refuse_exchanged(request)
    plan = Plan(request)
    files, combinations = (
        named_files(request.inputs),
        parse_shapes(request.shapes) if request.shapes else [],
    )
    if request.words and request.runner is not None:
        raise UsageError("--runner and a program behind -- exclude each other")
    plan.original = _tried(plan, lambda: read_original(request.model, request.weights))
    # A misspelt file is said before what this machine lacks to run it.
    plan.interface = _interface(plan, request.om, request.om_json, "model", "OM", make_json)
    plan.runner = _runner(plan)
    if plan.original is not None and plan.original.kind == OM:
        plan.golden_om = _interface(plan, request.model, None, "golden_model", "MODEL", make_json)
        plan.framework = "the second om on the same device"
        if plan.golden_om is not None:
            inputs = tuple(
                ModelInput(each.name, each.dtype, _open_dims(each.shape))
                for each in plan.golden_om.inputs
            )
            plan.original = OriginalModel(OM, request.model, None, inputs)
        if request.words and "{om}" not in " ".join(request.words):
            reason = "two oms are to be run, and the program's words do not hold {om}"
            plan.problems.append(Problem(reason, "put {om} where it takes the om"))
    elif plan.original is not None and request.golden is None:
        _find_framework(plan, plan.original)
    if request.golden is not None:
        _check_golden(plan, request.golden)
    _check_out(plan)
    if request.converting:
        _check_converting(plan, listed(request.converting, 2, " and "))
    if (
        plan.interface is not None
        and plan.original is not None
        and (plan.original.kind != OM or plan.golden_om is not None)
    ):
        graph = load_model(plan.interface.path)
        if request.om_json is not None:
            _note_other_name(plan, graph)
        if _is_of_another_model(plan, plan.original, graph):
            return plan
        if takes_inner_values(plan, plan.original, plan.interface, graph, files, folder):
            add_runs(plan, plan.original, plan.interface, files, combinations)
            _estimate(plan, graph)
    return plan


def _refuse_exchanged(request: Request) -> None:
    """Raise InputError where MODEL is an om and OM an original model, or Caffe's weights."""
    model, om = request.model, request.om
    if os.path.isfile(om) and kind_of_file(om).name == kinds.CAFFEMODEL and request.words:
        raise InputError(
            "OM: %s is %s, no om" % (om, kind_of_file(om).words),
            hint="name it with --weights: goldwatch locate %s %s --weights %s"
            % (model, request.words[0], om),
        )
    if not os.path.isfile(model) or kind_of_file(model).name not in _OMS:
        return
    if os.path.isfile(om) and kind_of_file(om).name in kinds.ORIGINALS:
        words = kind_of_file(om).words
    elif os.path.isfile(os.path.join(om, SAVED_MODEL_FILE)):
        words = "the folder of a SavedModel"
    else:
        return
    raise InputError(
        "MODEL and OM are exchanged: %s is %s, %s is %s"
        % (model, kind_of_file(model).words, om, words),
        hint="name the original model first: MODEL %s, OM %s" % (om, model),
    )


def _check_golden(plan: Plan, golden: str) -> None:
    """Find what is wrong with golden data that the user has already."""
    plan.framework = "%s, as it is" % golden
    if plan.original is not None and plan.original.kind == OM:
        raise UsageError(
            "--golden is for golden data of an original model; a second om is golden itself"
        )
    if not os.path.isdir(golden) or not golden_files(golden):
        plan.problems.append(
            Problem(
                "--golden: there are no golden files in %s" % golden, "leave it out: they are made"
            )
        )


def _note_other_name(plan: Plan, om: ModelGraph) -> None:
    """Note where a json that was given names another om than the one that is to run."""
    name = os.path.splitext(os.path.basename(plan.request.om))[0]
    if om.name and om.name != name:
        plan.notes.append(note(OTHER_OM, om.path, printable(om.name), plan.request.om))


def _is_of_another_model(plan: Plan, original: OriginalModel, om: ModelGraph) -> bool:
    """Tell, and note as problems, whether the om, or golden data that the user has, are of another
    model: where none of their names of nodes is in MODEL, nothing has golden data. A SavedModel,
    and a file that only its framework reads, are not looked at.
    """
    golden = plan.request.golden
    names: Set[str] = set()
    if plan.golden_om is not None:
        theirs = {
            name for op in computing_ops(load_model(plan.golden_om.path)) for name in op.originals
        }
        held = [name in theirs for op in computing_ops(om) for name in op.originals]
    elif original.kind in (CAFFE, ONNX, TENSORFLOW):
        try:
            nodes = read_nodes(original.path)
        except GoldwatchError:
            return False
        held = [bool(numbers) for _, found in held_nodes(om, nodes) for numbers in found]
        names = {sanitise_golden(name) for name in nodes.names}
    else:
        return False
    before = len(plan.problems)
    if held and not any(held):
        of_json = "give the json of OM, or leave -f out: atc makes it"
        plan.problems.append(
            Problem(
                "%s is of another model: none of the %d original names in %s is in %s"
                % (
                    "OM" if plan.request.om_json is None else "-f",
                    len(held),
                    om.path or "its json",
                    original.path,
                ),
                "convert MODEL with atc, and name that om"
                if plan.request.om_json is None
                else of_json,
            )
        )
    ours = set() if golden is None else {*map(sanitise_golden, GoldenSet(golden).op_names())}
    # Inputs of many models have the same names.
    ours -= {sanitise_golden(each.name) for each in original.inputs or ()}
    if ours and names and not ours & names:
        plan.problems.append(
            Problem(
                "--golden is of another model: none of the %d names in %s is in %s"
                % (len(ours), golden, original.path),
                "leave it out: golden data are made",
            )
        )
    return len(plan.problems) > before


def _check_out(plan: Plan) -> None:
    """Find why GE would dump nothing into OUT: a blank in its path, say."""
    path = os.path.abspath(plan.request.out)
    wrong = forbidden_characters(path)
    if wrong:
        reason = "-o: nothing would be dumped into %s: GE allows no %s in dump_path" % (
            path,
            " ".join(map(repr, wrong[:10])),
        )
        plan.problems.append(Problem(reason, "name a folder without, with -o"))


def _check_converting(plan: Plan, options: str) -> None:
    """Find what is missing to convert the model, or a part of it, again."""
    if plan.original is not None and plan.original.kind not in (CAFFE, ONNX, TENSORFLOW):
        reason = (
            "%s: MODEL is %s, and what is converted is a prototxt, a frozen .pb or an .onnx"
            % (
                options,
                plan.original.framework,
            )
        )
        plan.problems.append(Problem(reason, "give the original model"))
    elif plan.atc is None and plan.interface is not None:
        plan.atc = find_atc(named=plan.request.atc)
        if plan.atc is None:
            plan.problems.append(
                Problem(
                    "%s: atc converts, and is not here: %s" % (options, toolkit_problem()),
                    "or leave it out",
                )
            )


def _open_dims(shape: Sequence[int]) -> Tuple[Optional[int], ...]:
    return tuple(dim if dim >= 0 else None for dim in shape)


def _tried(plan: Plan, call: Callable[[], Optional[T]]) -> Optional[T]:
    """Return what a call does; None, and a problem, where it raises."""
    try:
        return call()
    except UsageError:
        raise
    except GoldwatchError as error:
        plan.problems.append(Problem(error.message, error.hint))
        return None


def _runner(plan: Plan) -> Optional[Runner]:
    """Return what runs the om; None, and a problem, where nothing can."""
    request = plan.request
    if request.words:
        before = len(plan.problems)
        _tried(plan, lambda: require_program(request.words))
        if len(plan.problems) > before:
            return None
        if not any("{acl_json}" in word for word in request.words):
            plan.notes.append(note("no-acl-json"))
        return runner_of_program(request.words)
    if request.runner_python is not None:
        resolve_python(request.runner_python)
    problems = []
    names = RUNNERS if request.runner is None else (request.runner,)
    for runner in find_runners(request.runner_python, names):
        if runner.usable:
            return runner
        problems.append("%s: %s" % (runner.name, runner.problem))
    hint = (
        "or give a program of your own: … -- ./infer --acl {acl_json} --model {om} --input "
        "{inputs} --output {output}"
    )
    plan.problems.append(Problem("nothing here runs an om: %s" % "; ".join(problems), hint))
    return None


def _interface(
    plan: Plan, om: str, json_path: Optional[str], name: str, what: str, make_json: Make
) -> Optional[OmInterface]:
    """Return what the json of an om says; it is made with atc where it is not given."""
    request = plan.request
    try:
        require_file(om, what)
    except MissingPath as error:
        hint = error.hint or "give the om's file, or two folders of dumps to goldwatch compare"
        plan.problems.append(Problem(error.message, hint))
        return None
    kind = kind_of_file(om)
    path = json_path
    if kind.name == kinds.OM_JSON:
        if not request.words or "{om}" in " ".join(request.words):
            reason = "%s: %s is the json of an om: what is to be run?" % (what, om)
            plan.problems.append(
                Problem(reason, "give the .om itself, or a program behind -- that knows it")
            )
        path = path or om
    elif kind.name != kinds.OM:
        plan.problems.append(
            Problem("%s: %s is %s, no om" % (what, om, kind.words), "give the .om that atc made")
        )
        return None
    if path is None:
        plan.made_json = plan.made_json or what == "OM"
        atc = _tried(plan, lambda: find_atc(named=request.atc) or _no_atc())
        if atc is None:
            return None
        plan.atc = found_atc = atc
        if plan.original is None or not os.path.isfile(request.om):
            return None  # That is a problem already: atc need not run for nothing.
        path = _tried(plan, lambda: make_json(name, om, found_atc))
    at = path
    return None if at is None else _tried(plan, lambda: read_om_interface(at))


def _no_atc() -> NoReturn:
    raise InputError(
        "the om's json cannot be made: %s" % toolkit_problem(),
        hint="or make it where atc is (atc --mode=1 --om=model.om --json=model.json) and name it "
        "with -f",
    )


def _find_framework(plan: Plan, original: OriginalModel) -> None:
    """Find what makes the golden data, or note what is missing for it."""
    python = plan.request.python
    if original.kind == CAFFE:
        chosen = _tried(plan, lambda: choose_backend("auto", python, ModulePaths.of(original.path)))
        if chosen is not None:
            plan.framework = "backend %s in %s: %s" % (chosen.backend, chosen.python, chosen.reason)
        plan.golden_python = python
    elif original.kind == ONNX:
        candidates = (
            [resolve_python(python)]
            if python is not None
            else [sys.executable, *on_path("python3", "python"), *in_environments()]
        )
        problems: List[str] = []
        for path in dict.fromkeys(candidates):
            problem = runs(path, "import numpy, onnxruntime")
            if problem is None:
                plan.framework = "onnxruntime in %s, each node by itself" % path
                plan.golden_python = None if path == sys.executable else path
                return
            problems.append("%s: %s" % (path, problem))
        plan.problems.append(
            Problem("no Python with onnxruntime was found for the "
                "golden data; tried %s" % listed(problems, 3, "; "),
                    "pip install onnxruntime, or name the Python that has it with --python")
        )  # fmt: skip
    else:
        python_found = _tried(plan, lambda: find_tensorflow_python(python, None))
        if python_found is not None:
            plan.framework = "TensorFlow in %s" % python_found
            plan.golden_python = python


def _estimate(plan: Plan, graph: ModelGraph) -> None:
    """Estimate the size of the dump, and how long comparing it takes."""
    size = acl_size({"dump": {"dump_mode": "all", "dump_list": [{}]}}, Models([graph]))
    runs_ = len(plan.runs)
    free = free_bytes(nearest_folder(plan.request.out) or os.curdir)
    plan.dump = "all inputs and outputs: %s%s%s; %s" % (
        size.text(), " in each of %d runs" % runs_ if runs_ > 1 else "",
        "; free: %s" % size_text(free) if free is not None else "",
        {"all": "all stay", "failed": "those that passed are deleted"}.get(plan.request.keep,
        "each is deleted once it is compared"),
    )  # fmt: skip
    if free is not None and plan.request.keep == "all" and size.size_bytes * runs_ > free:
        plan.problems.append(
            Problem(
                "the dumps do not fit: %s, free %s" % (size.text(), size_text(free)),
                "--keep failed, or another -o",
            )
        )
    seconds = (
        runs_
        * (2 * size.size_bytes / _BYTES_PER_S + size.tensors * _SECONDS_PER_PAIR)
        / default_jobs()
    )
    plan.time = (
        "about %s to compare; how long golden data and the device take is not known beforehand"
        % _duration(seconds)
    )


def _duration(seconds: float) -> str:
    return "%d s" % max(1, round(seconds)) if seconds < 90 else "%d min" % round(seconds / 60)
