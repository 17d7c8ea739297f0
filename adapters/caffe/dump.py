"""Golden files from a Caffe model: checks everything, runs the net in a child process, and passes
on what that did.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from dataclasses import astuple, field, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ...base.errors import EXIT_INTERRUPTED, GoldwatchError, InputError, UsageError, require_file
from ...base.fast_dataclasses import dataclass
from ...base.manifest import MANIFEST_FILE, add_to_manifest
from ...base.naming import printable
from ...base.safe_reading import open_input, sha256_of_file
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.caffe_v0_upgrade import read_upgraded
from ...netfiles.caffemodel import weight_shapes
from ..child.outcome import Outcome
from ..child.parent import LOG, STDERR, Task, run_child
from ..golden_folder import interrupted, refuse_golden
from ..golden_names import name_warnings
from ..nonfinite import not_finite_warnings
from .choose_backend import LAYER, RANDOM_WEIGHTS, Chosen, ModulePaths, choose_backend
from .input_plan import DEFAULT_LIMIT_BYTES, Batch, is_image, plan_batches
from .memory_aliasing import memory_warnings, refused_in_place
from .netinputs import NetInput, net_inputs
from .numpy_layer_types import has_weights
from .tensors_to_save import split_globs, targets_of
from .user_layers import parse_layers, refuse_absent
from .weights_check import check_names


@dataclass(frozen=True)
class DumpOptions:
    """What the user asked for.

    Attributes
    ----------
    inputs
        ``NAME=FILE``, ``NAME=FILE:dtype:shape``, ``NAME=FOLDER`` or ``FILE.npz``.
    seed
        Fills inputs without a file at random; None: every input needs a file.
    mean, scale, channel_order
        For images, in place of transform_param.
    max_input_bytes
        How much memory one input may need.
    weights
        None: with ``random_weights`` alone.
    random_weights
        Weights that the file does not have are made up from this seed (numpy backend).
    layer_files
        ``TYPE=FILE.py`` each: layer types that the user computes (numpy backend).
    check_backend
        Another backend, which runs the net too, to be compared.
    """

    prototxt: str
    weights: Optional[str]
    out: str
    inputs: Sequence[str] = ()
    backend: str = "auto"
    layers: Sequence[str] = ()
    python: Optional[str] = None
    caffe_root: Optional[str] = None
    max_input_bytes: int = DEFAULT_LIMIT_BYTES
    seed: Optional[int] = None
    level: Optional[int] = None
    stages: Sequence[str] = ()
    mean: Optional[str] = None
    scale: Optional[float] = None
    channel_order: Optional[str] = None
    quantised: bool = False
    force: bool = False
    random_weights: Optional[int] = None
    layer_files: Sequence[str] = ()
    check_backend: Optional[str] = None


@dataclass
class _Job:
    """What is checked before the child starts."""

    options: DumpOptions
    chosen: Chosen
    net: Net
    inputs: List[NetInput]
    batches: List[Batch]
    warnings: List[str] = field(default_factory=list)


def dump(
    options: DumpOptions, progress: Callable[[int, int], None] = lambda done, total: None
) -> Dict[str, Any]:
    """Make golden files and return what was done.

    Parameters
    ----------
    progress
        Called with (tensors saved, tensors in all) of the current run.

    Returns
    -------
    dict
        ``backend``, ``backend_version``, ``load_s``, ``warnings``, ``notes`` (which backend was
        taken and why), and ``runs``: of each batch ``out``, ``counts``, ``collisions``,
        ``too_long``, ``not_finite`` (as in the manifest) and ``seconds``; with ``check_backend``
        also ``check``.

    Raises
    ------
    UsageError
        Options that do not fit the net, or a folder that already holds golden files.
    InputError
        The net, the weights or an input cannot be used; Caffe's own fatal errors, too.
    Interrupted
        Ctrl-C; what was saved is usable.
    """
    paths = ModulePaths.of(options.prototxt, options.caffe_root)
    job = _check(options, paths)
    chosen = job.chosen
    backend = chosen.backend
    if backend != "caffe":
        job.warnings += [
            "layer %s %s" % (entry["layer"] or "(unnamed)", entry["message"])
            for entry in memory_warnings(job.net)
        ]
    shapes = weight_shapes(options.weights) if options.weights is not None else None
    if options.weights is not None and shapes is not None:  # None: HDF5, which has no shapes first
        seeded = options.random_weights is not None
        job.warnings += check_names(
            job.net, shapes, options.weights, fills=backend == "caffe", seeded=seeded
        )
    with tempfile.TemporaryDirectory(prefix="goldwatch-caffe-") as folder:
        document = dict(_job_document(job, backend, folder), paths=astuple(paths))
        outs = [_out_of(options.out, batch) for batch in job.batches]
        # What the user's own layers print is the user's to see; a framework's log is shown only
        # when it fails.
        output = STDERR if options.layer_files else LOG
        task = Task(
            chosen.python,
            "goldwatch.adapters.caffe.child",
            document,
            outs,
            environment=chosen.environment,
            output=output,
        )
        result = _result_of(
            job.net, run_child(task, folder, progress), backend, _hint_for(job.net, backend)
        )
        checked = (
            _checked(options, result, document["weights_out"], folder)
            if options.check_backend
            else {}
        )
    result["warnings"] = job.warnings + [
        text for run in result["runs"][:1] for text in name_warnings(run, "layers")
    ]
    result["warnings"] += [
        "%s: %s" % (run["out"], text)
        for run in result["runs"]
        for text in not_finite_warnings(run["not_finite"])
    ]
    result["notes"] = chosen.notes + ([checked["told"]] if checked else [])
    if checked:
        result["check"] = checked
    return result


def _checked(
    options: DumpOptions, result: Dict[str, Any], made: Optional[str], folder: str
) -> Dict[str, Any]:
    """Run another backend into ``folder`` and return how far what it computed is from the result's
    runs.

    Returns
    -------
    dict
        ``backend``, ``told`` (one line), and ``runs`` as
        :func:`.backends_compared.compare_runs` returns them; without them ``refused``, the reason
        why it did not run.
    """
    backend = str(options.check_backend)
    out = os.path.join(folder, "check")
    weights = options.weights if made is None else made
    others = replace(
        options,
        backend=backend,
        out=out,
        weights=weights,
        random_weights=None,
        check_backend=None,
        layer_files=(),
    )
    try:
        done = dump(others)
    except (InputError, UsageError) as error:
        sentence = "not checked with backend %s: %s" % (backend, error.message)
        return {"backend": backend, "refused": error.message, "told": sentence}

    runs = [
        compare_runs(ours["out"], theirs["out"])
        for ours, theirs in zip(result["runs"], done["runs"])
    ]
    sentence = "; ".join(check_sentence(backend, done["backend_version"], run) for run in runs)
    return {
        "backend": backend,
        "backend_version": done["backend_version"],
        "runs": runs,
        "told": sentence,
    }


def _check(options: DumpOptions, paths: ModulePaths) -> _Job:
    document = read_upgraded(options.prototxt)
    if options.weights is not None:
        require_file(options.weights, "WEIGHTS")
    net = Net(document, initial_state(document, "TEST", options.level, options.stages))
    refuse_absent(net, parse_layers(options.layer_files))
    numpy_option = (
        RANDOM_WEIGHTS
        if options.random_weights is not None
        else LAYER
        if options.layer_files
        else None
    )
    chosen = choose_backend(options.backend, options.python, paths, numpy_option)
    if (
        options.weights is None
        and options.random_weights is None
        and (chosen.backend == "caffe" or any(has_weights(layer) for layer in net.layers))
    ):
        raise UsageError(
            "no weights",
            hint="give the .caffemodel, or `random_weights=SEED` to try the net's structure",
        )
    if chosen.backend == options.check_backend:
        raise UsageError(
            "`check_backend` is the backend %s itself" % chosen.backend, hint="name another one"
        )
    inputs = net_inputs(net, chosen.backend == "numpy", list(parse_layers(options.layer_files)))
    batches = plan_batches(options.inputs, inputs, options.seed is not None)
    if (options.mean, options.scale, options.channel_order) != (None, None, None) and not any(
        is_image(item.path) for batch in batches for item in batch.items.values()
    ):
        raise UsageError(
            "`mean`, `scale` and `channel_order` are for images, and no input is one",
            hint="leave them out",
        )
    for batch in batches:
        refuse_golden(_out_of(options.out, batch), options.force)
    if batches[0].number is not None:
        refuse_golden(options.out, options.force)
    return _Job(options, chosen, net, inputs, batches)


def _out_of(out: str, batch: Batch) -> str:
    return out if batch.number is None else os.path.join(out, str(batch.number))


def _job_document(job: _Job, backend: str, folder: str) -> Dict[str, Any]:
    """Return the child's job; ``folder`` is for its temporary files."""
    options = job.options
    targets = targets_of(job.net, split_globs(job.net, options.layers))
    document: Dict[str, Any] = {
        "backend": backend,
        "prototxt": os.path.abspath(options.prototxt),
        "prototxt_sha256": sha256_of_file(options.prototxt),
        "weights": None if options.weights is None else os.path.abspath(options.weights),
        "random_weights": options.random_weights,
        "layer_files": parse_layers(options.layer_files),
        "reason": job.chosen.reason,
        "weights_out": _weights_out(options, folder),
        "level": options.level,
        "stages": list(options.stages),
        "seed": options.seed,
        "quantised": options.quantised,
        "force": options.force,
        "targets": [astuple(target) for target in targets.saved],
        "skipped": targets.skipped,
        "topless": targets.topless,
        "batches": [
            {
                "out": os.path.abspath(_out_of(options.out, batch)),
                "items": {blob: astuple(item) for blob, item in batch.items.items()},
            }
            for batch in job.batches
        ],
        "image_options": [options.mean, options.scale, options.channel_order],
        "max_input_bytes": options.max_input_bytes,
        "folder": folder,
    }
    return document


def _weights_out(options: DumpOptions, folder: str) -> Optional[str]:
    """Return where weights that are made up are kept for another backend."""
    saved = options.check_backend is not None and options.random_weights is not None
    return os.path.join(folder, "made.caffemodel") if saved else None


def _hint_for(net: Net, backend: str) -> str:
    """Return what to look at when the child ends without a result."""
    refused = refused_in_place(net) if backend == "caffe" else []
    if refused:
        text = (
            "layer %s %s; `goldwatch golden caffe deinplace` writes a net without in-place layers"
        )
        return text % (refused[0]["layer"] or "(unnamed)", refused[0]["message"])
    return (
        "the message is the framework's own; the prototxt, the weights or the inputs do not fit "
        "each other"
    )


def _with_module(problem: GoldwatchError, net: Net) -> GoldwatchError:
    """Name the Python layer whose module cannot be imported, where that is what ended the child."""
    missing = re.search(
        r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)", problem.message
    )
    layers = [
        (layer, layer.message.message("python_param").text("module"))
        for layer in net.layers
        if layer.type == "Python"
    ]
    if missing is None or not layers:
        return problem
    named = [(layer, module) for layer, module in layers if module == missing.group(1)]
    layer, module = (named or layers)[0]
    text = (
        "layer %s (Python)" % layer.title
        if named or len(layers) == 1
        else "a layer of type Python, such as %s" % layer.title
    )
    message = "%s: its module %s cannot be imported: %s" % (
        text,
        printable(module),
        problem.message,
    )
    return InputError(
        message,
        hint="put the module beside the prototxt, or its folder on PYTHONPATH, and install what it "
        "imports",
    )


def _result_of(net: Net, outcome: Outcome, backend: str, hint: str) -> Dict[str, Any]:
    """Return the child's result, or raise what ended it; a folder counts as complete only once the
    child has ended by itself.
    """
    done: List[Dict[str, Any]] = outcome.messages.get("runs", [])
    # One that ends with a code of its own (a Python layer's, a library's at the end) may have been
    # anywhere.
    if outcome.returncode in (0, EXIT_INTERRUPTED):
        for run in done:
            if run["complete"]:
                add_to_manifest(run["out"], complete=True)
    if outcome.interrupted:
        raise (
            interrupted(done[-1]["counts"]["written"], done[-1]["out"])
            if done
            else interrupted(0, "")
        )
    if "result" not in outcome.messages or outcome.returncode != 0:
        raise _with_module(outcome.problem(backend, hint), net)
    result: Dict[str, Any] = dict(outcome.messages["result"], runs=done)
    return result


def compare_runs(ours: str, others: str) -> Dict[str, Any]:
    """Return how far the tensors of two golden folders of one net are from each other.

    Returns
    -------
    dict
        ``tensors`` that both have, ``equal`` ones (bit for bit), ``largest``: the largest
        difference as a part of its tensor's largest value, ``tensor``: whose that is (None where
        all are equal), ``shapes`` and ``not_finite``: tensors of different shapes, and with NaN or
        infinities at different places.
    """
    import numpy as np

    first, second = _tensors(ours), _tensors(others)
    done: Dict[str, Any] = {
        "tensors": 0,
        "equal": 0,
        "largest": 0.0,
        "tensor": None,
        "shapes": [],
        "not_finite": [],
    }
    for key in [key for key in first if key in second]:
        a, b = (np.load(path[key]) for path in (first, second))
        title = "%s:%d" % key[:2]
        done["tensors"] += 1
        if a.shape != b.shape:
            done["shapes"].append("%s %s against %s" % (title, list(a.shape), list(b.shape)))
            continue
        if np.array_equal(a, b):
            done["equal"] += 1
            continue
        finite = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            done["not_finite"].append(title)
        scale = float(np.abs(b[finite]).max()) if finite.any() else 0.0
        gone = (
            float(np.abs(a[finite].astype(np.float64) - b[finite]).max()) if finite.any() else 0.0
        )
        part = gone / scale if scale else (math.inf if gone else 0.0)
        if part > done["largest"]:
            done.update(largest=part, tensor=title)
    return done


def check_sentence(backend: str, version: str, check: Dict[str, Any]) -> str:
    """Return the result of a comparison as one line."""
    text = "checked with backend %s %s: %d tensors, %d of them equal" % (
        backend,
        version,
        check["tensors"],
        check["equal"],
    )
    if check["tensor"] is not None:
        text += ", largest difference %.2g of the tensor's largest value (%s)" % (
            check["largest"],
            check["tensor"],
        )
    for key, what in (
        ("shapes", "other shapes"),
        ("not_finite", "NaN or infinities at other places"),
    ):
        if check[key]:
            text += "; %s: %s" % (
                what,
                ", ".join(check[key][:4]) + (" …" if len(check[key]) > 4 else ""),
            )
    return text


def _tensors(folder: str) -> Dict[Tuple[str, int, str], str]:
    with open_input(os.path.join(folder, MANIFEST_FILE)) as stream:
        entries: List[Dict[str, Any]] = json.loads(stream.read().decode("utf-8"))["tensors"]
    return {
        (entry["original_name"], entry["output_index"], entry["top"]): os.path.join(
            folder, entry["file"]
        )
        for entry in entries
    }
