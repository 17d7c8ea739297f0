"""Golden files from an ONNX model: checks everything, runs the model in a child process, and
returns its result.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from dataclasses import astuple, field, replace
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ...base.errors import GoldwatchError, InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.manifest import add_to_manifest
from ...base.naming import printable
from ...base.system import memory
from ...base.wording import listed
from ...netfiles.onnx_external_data import check_external
from ...netfiles.onnx_model import OnnxModel
from ...netfiles.onnx_types import type_name
from ...netfiles.onnx_value_headers import OnnxValue
from ..child.outcome import Outcome
from ..child.parent import Task, run_child
from ..child_python import resolve_python
from ..golden_folder import golden_files, interrupted, keep_finished, refuse_golden
from ..golden_names import name_warnings
from ..nonfinite import not_finite_warnings
from .input_files import (
    Item,
    Shape,
    check_shape,
    files_looked_for,
    folder_items,
    items_of,
    parse_item,
    parse_shapes,
    shown_shape,
)
from .values_to_save import Key, Plan, check_feeds, find_feed, make_plan

BACKENDS = ("onnxruntime", "reference")
_MIB = 1 << 20
# glibc keeps what is freed below a threshold that grows with use; values that were written are to
# go at once.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(_MIB)}
_HINT = "the message is the framework's own; another version may do (`python=PATH`)"
_CRASH = (
    "another version may do (`python=PATH`): onnxruntime before 1.15 crashes on some float16 "
    "nodes; or `backend=reference`"
)
_TRAINING = {
    "BatchNormalization": "golden data depend on the batch, and an om, which has the stored "
    "statistics, computes otherwise",
    "Dropout": "it drops values at random, and what comes of it is not compared",
}
_CRASHES = [
    -number
    for number in (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
]

Select = Callable[[Set[Key]], Collection[Key]]
Decode = Callable[[str, Optional[Shape], str], None]


@dataclass(frozen=True)
class DumpOptions:
    """The options of a dump.

    Attributes
    ----------
    inputs
        ``NAME=FILE[,dtype=…]`` or ``NAME=dump:FILE``.
    folder
        Holds ``{input}.npy``, ``.npz``, ``.pb`` or ``.bin`` for inputs that are not in ``inputs``.
    seed
        Fills inputs without a file at random; None: every input needs a file.
    shapes
        ``NAME=1,3,224,224``; come before ``model_shapes``.
    model_shapes
        Shapes by input that the compiled model was made with; those of names that the model lacks
        do not count.
    halves
        Inputs that the compiled model reads as float16.
    feeds
        ``NODE[:i]=FILE``: outputs of nodes that are not computed.
    select
        Returns those (name, index) of all that can be saved which are wanted; None: all.
    decode
        Turns a device's dump into an npy: (dump, shape in the model if known, npy to write).
    memory_mib
        What the values of one slice may need; None: half of the free memory.
    threads
        Of one node's computation; None: one for each processor.
    """

    model: str
    out: str
    inputs: Sequence[str] = ()
    folder: Optional[str] = None
    seed: Optional[int] = None
    shapes: Sequence[str] = ()
    model_shapes: Mapping[str, Shape] = field(default_factory=dict)
    halves: Sequence[str] = ()
    feeds: Sequence[str] = ()
    select: Optional[Select] = None
    decode: Optional[Decode] = None
    backend: str = "onnxruntime"
    memory_mib: Optional[int] = None
    threads: Optional[int] = None
    python: Optional[str] = None
    force: bool = False


def dump(
    options: DumpOptions, progress: Callable[[int, int], None] = lambda done, total: None
) -> Dict[str, Any]:
    """Make golden files and return what was done.

    Parameters
    ----------
    progress
        Called with (tensors saved, tensors in all).

    Returns
    -------
    dict
        ``backend``, ``backend_version``, ``out``, ``counts``, ``collisions``, ``too_long``,
        ``nondeterministic``, ``training`` (types and names of nodes in training mode),
        ``inputs``, ``overflowed`` (lists of name, number of values and type), ``not_finite`` (as in
        the manifest), ``options`` and ``warnings``.

    Raises
    ------
    UsageError
        Options that do not fit the model, or a folder that already holds golden files.
    InputError
        The model or an input cannot be used; what the framework says, too.
    Interrupted
        Ctrl-C; what was saved is usable.
    """
    model = OnnxModel(options.model)
    check_external(model)
    plan = make_plan(model, ())
    feeds = _feeds(options, model, plan)
    items, shapes, doubts = _inputs(options, model)
    refuse_golden(options.out, options.force)
    selected = _selected(options, model, plan)
    python = sys.executable if options.python is None else resolve_python(options.python)
    values = _declared_values(model)
    with tempfile.TemporaryDirectory(prefix="goldwatch-onnx-") as folder:
        fed = {
            name: _decoded(options, item, _static(values.get(value)), folder)
            for name, value, item in feeds
        }
        document = {
            "model": os.path.abspath(options.model),
            "out": os.path.abspath(options.out),
            "backend": options.backend,
            "items": {
                name: astuple(
                    _decoded(options, item, shapes.get(name, _static(values.get(name))), folder)
                )
                for name, item in items.items()
            },
            "shapes": {name: list(shape) for name, shape in shapes.items()},
            "seed": options.seed,
            "halves": list(options.halves),
            "feeds": {name: astuple(item) for name, item in fed.items()},
            "selected": selected,
            "budget_bytes": options.memory_mib * _MIB
            if options.memory_mib is not None
            else free_memory_bytes() // 2,
            "threads": options.threads or len(os.sched_getaffinity(0)),
            "force": options.force,
            "first_nodes": None,
        }
        # What a dead one has finished stays: no sweeping.
        task = Task(
            python,
            "goldwatch.adapters.onnx.child",
            document,
            environment={name: os.environ.get(name, value) for name, value in _MALLOC.items()},
        )
        outcome = run_child(task, folder, progress)
        running = outcome.messages.get("doing", "").startswith("running")
        if outcome.returncode in _CRASHES and running and options.backend == "onnxruntime":
            _find_crashing_node(task, outcome, model, plan.main.names)
    whole = [
        value.name
        for value in model.graph.data_inputs
        if value.name not in items and type_name(value.dtype) in ("int32", "int64")
    ]
    result = _result_of(outcome, options, whole)
    result.update(
        out=options.out, warnings=doubts + _doubts(options, model, shapes) + _warnings(result)
    )
    return result


def _find_crashing_node(
    task: Task, outcome: Outcome, model: OnnxModel, names: Sequence[str]
) -> None:
    """Tell in the outcome of a child that crashed which node was running: the last of the first
    nodes with which a child crashes again, where it lives through those before.
    """

    def crashes(count: int) -> Optional[bool]:
        with tempfile.TemporaryDirectory(prefix="goldwatch-onnx-") as folder:
            again = run_child(replace(task, job=dict(task.job, first_nodes=count)), folder)
        ended = again.returncode in (0, *_CRASHES) and not again.interrupted
        return again.returncode != 0 if ended else None

    lives, dies = 0, len(names)
    while dies - lives > 1:
        crashed = crashes((lives + dies) // 2)
        if crashed is None:
            return
        if crashed:
            dies = (lives + dies) // 2
        else:
            lives = (lives + dies) // 2
    if (lives or crashes(0) is False) and (dies < len(names) or crashes(dies)):
        node = model.graph.nodes[lives]
        outcome.messages["doing"] = "running node %s (%s)" % (names[lives], node.op_type)
        outcome.messages["node"] = names[lives]


def _declared_values(model: OnnxModel) -> Dict[str, OnnxValue]:
    """Return the values of a model of which it says type and shape, by name."""
    graph = model.graph
    values = [*graph.value_info.values(), *graph.inputs, *graph.outputs]
    return {value.name: value for value in values}


def _feeds(options: DumpOptions, model: OnnxModel, plan: Plan) -> List[Tuple[str, str, Item]]:
    """Return the outputs that are not computed: the name in the options, the value and its file."""
    items = [parse_item(spec, "feeds") for spec in options.feeds]
    feeds = [find_feed(model, plan.main, name) for name, _ in items]
    if len({feed.value for feed in feeds}) < len(feeds):
        raise UsageError("`feeds` names an output twice")
    check_feeds(model, feeds)
    return [(name, feed.value, item) for (name, item), feed in zip(items, feeds)]


def _selected(options: DumpOptions, model: OnnxModel, plan: Plan) -> Optional[List[Key]]:
    """Return the values to be saved; None for all."""
    if options.select is None:
        return None
    selected = sorted(options.select(plan.possible_keys()))
    if not set(selected) - {(value.name, 0) for value in model.graph.inputs}:
        message = "no op of the compiled model comes from a node of %s"
        raise InputError(message % printable(options.model), hint="is it the om of this model?")
    return selected


def _inputs(
    options: DumpOptions, model: OnnxModel
) -> Tuple[Dict[str, Item], Dict[str, Shape], List[str]]:
    """Return the file and the shape of each input that has one, and what is doubtful about the
    files.
    """
    names = [value.name for value in model.graph.data_inputs]
    for value in model.graph.inputs:
        named = [spec for spec in options.inputs if spec.startswith(value.name + "=")]
        if value.name not in names and named:
            raise UsageError(
                "`inputs` names %s, which is an initializer (weights), not an input"
                % printable(value.name)
            )
    items, doubts = items_of(options.inputs, names), []
    if options.folder is not None:
        in_folder, others = folder_items(options.folder, names)
        items = dict(in_folder, **items)
        doubts = _folder_doubts(options, model, items, others)
    user_shapes = parse_shapes(options.shapes, names)
    shapes = {
        name: shape
        for name, shape in options.model_shapes.items()
        if name in names and name not in user_shapes
    }
    for value in model.graph.data_inputs:
        if value.name in shapes:
            check_shape(value, shapes[value.name], "the compiled model's shape")
    shapes.update(user_shapes)
    return items, shapes, doubts


def _folder_doubts(
    options: DumpOptions, model: OnnxModel, items: Mapping[str, Item], others: Sequence[str]
) -> List[str]:
    """Return warnings about files of a folder that belong to no input, and about inputs without a
    file there.

    Raises
    ------
    UsageError
        An input has no file, and no random numbers are asked for.
    """
    folder, names = (
        printable(options.folder or ""),
        [value.name for value in model.graph.data_inputs],
    )
    strange = (
        ["%s: %s is no input's file" % (folder, listed([printable(name) for name in others], 5))]
        if others
        else []
    )
    missing = [value for value in model.graph.data_inputs if value.name not in items]
    if missing and options.seed is None:
        misfits = (
            "%s %s (%s)"
            % (printable(value.name), shown_shape(value.shape), files_looked_for(value.name, names))
            for value in missing
        )
        message = "%s: no file for the model's input %s" % (folder, ", ".join(misfits))
        hint = (
            "name the files so (.npz, .pb and .bin do as well), or add `inputs=NAME=FILE`, or "
            "`seed=SEED`"
        )
        raise UsageError(
            "; ".join([message, *(text[len(folder) + 2 :] for text in strange)]), hint=hint
        )
    text = "%s: no %s: input %s is filled with random numbers"
    return strange + [
        text % (folder, files_looked_for(value.name, names), printable(value.name))
        for value in missing
    ]


def _doubts(options: DumpOptions, model: OnnxModel, shapes: Mapping[str, Shape]) -> List[str]:
    """Return warnings that the compiled model may not be made of this model with these inputs."""
    text = (
        "input %s has the shape %s here, the compiled model was made with %s: its tensors have "
        "other shapes"
    )
    out = [
        text % (printable(name), list(shapes[name]), list(shape))
        for name, shape in options.model_shapes.items()
        if name in shapes and shapes[name] != tuple(shape)
    ]
    names = [value.name for value in model.graph.data_inputs]
    if options.model_shapes and not set(names) & set(options.model_shapes):
        text = "the compiled model's inputs are %s, those of %s are %s: is it the om of this model?"
        theirs, ours = (
            ", ".join(map(printable, each)) or "none" for each in (options.model_shapes, names)
        )
        out.append(text % (theirs, printable(options.model), ours))
    return out


def _decoded(options: DumpOptions, item: Item, shape: Optional[Shape], folder: str) -> Item:
    """Return the file of a value; a device's dump is written as npy first."""
    if not item.is_dump:
        return item
    if options.decode is None:
        raise UsageError(
            "%s: no device dumps are read here" % printable(item.path),
            hint="convert it to .npy first",
        )
    path = os.path.join(folder, "dump%d.npy" % len(os.listdir(folder)))
    options.decode(item.path, shape, path)
    return replace(item, path=path)


def _static(value: Optional[OnnxValue]) -> Optional[Shape]:
    """Return the shape of a value whose dims the model says, else None."""
    dims = None if value is None else value.shape
    sizes = tuple(dim for dim in dims or () if isinstance(dim, int))
    return sizes if dims is not None and len(sizes) == len(dims) else None


def free_memory_bytes() -> int:
    """Return the memory that new programs can have."""
    free = memory()["free_bytes"]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if free is None else free


def _result_of(outcome: Outcome, options: DumpOptions, whole: Sequence[str]) -> Dict[str, Any]:
    """Return the child's result, or raise what ended it; the folder counts as complete only once
    the child has ended by itself.

    Parameters
    ----------
    whole
        Inputs that were filled with random whole numbers.
    """
    result: Dict[str, Any] = outcome.messages.get("result", {})
    if outcome.died:
        keep_finished(options.out, _manifest_of(outcome.messages))
    elif result.get("complete") and outcome.returncode == 0:
        add_to_manifest(options.out, complete=True)
    if outcome.interrupted:
        raise interrupted(len(golden_files(options.out)), options.out)
    if not result or outcome.returncode != 0:
        raise _problem(outcome, options, whole)
    return result


def _manifest_of(messages: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the manifest as far as a child that died has sent it."""
    begun = dict(messages.get("begun", {}))
    begun["source"] = dict(messages.get("sums", {}), **begun.get("source", {}))
    if "original" in messages:
        begun["original"] = messages["original"]
    return dict(begun, tensors=messages.get("saved", []))


def _problem(outcome: Outcome, options: DumpOptions, whole: Sequence[str]) -> GoldwatchError:
    problem = outcome.problem(options.backend, _CRASH if outcome.died else _HINT)
    if outcome.died and outcome.messages.get("doing"):
        problem.message += "; it was " + printable(outcome.messages["doing"])
    if "node" in outcome.messages:
        problem.hint = "%s; or give its output: `feeds=%s=FILE`" % (
            problem.hint,
            printable(outcome.messages["node"]),
        )
    if whole and not outcome.died:
        text = (
            "%s: random whole numbers; what has to be a shape or an index must be given, "
            "`inputs=%s=FILE`; %s"
        )
        names = listed([printable(name) for name in whole], 3)
        problem.hint = text % (names, printable(whole[0]), problem.hint)
    count = len(golden_files(options.out)) if outcome.died else 0
    if count:
        problem.message += "; %d golden files in %s are whole, the rest is missing" % (
            count,
            printable(options.out),
        )
    return problem


def _warnings(result: Mapping[str, Any]) -> List[str]:
    out = name_warnings(result, "nodes") + not_finite_warnings(result["not_finite"])
    text = (
        "input %s: %d values are too large for float16 and infinite in its .bin; compile the "
        "model without float16 for this input"
    )
    out += [
        text % (printable(entry["name"]), entry["lost"])
        for entry in result["inputs"]
        if entry["lost"]
    ]
    text = "%s: %d of the values in its file are too large for %s and were fed as infinite"
    out += [text % (printable(name), number, dtype) for name, number, dtype in result["overflowed"]]
    for op_type, why in _TRAINING.items():
        training = [
            "%s (%s)" % (name, op_type) for kind, name in result["training"] if kind == op_type
        ]
        if training:
            out.append("in training mode: %s; %s: export with model.eval()" % (
                listed(training, 3), why,
            ))  # fmt: skip
    drawn = result["nondeterministic"]
    if drawn:
        message = "%d tensor%s out of random numbers, from %s on: not compared"
        out.append(message % (len(drawn), " comes" if len(drawn) == 1 else "s come", drawn[0]))
    return out
