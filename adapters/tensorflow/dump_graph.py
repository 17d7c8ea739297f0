"""Runs a frozen graph or a SavedModel once, without any script, and has every tensor dumped."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np

from ...base.errors import FormatError, GoldwatchError, InputError
from ...base.naming import nearest_names, printable
from ...base.safe_reading import open_input
from ..read_npy import read_npy
from .debug_run_to_golden import convert
from .golden_summary import GRAPPLER_OFF, add_notes
from .pythons import PROTOBUF_HINT
from .recorder import TF2_TRAINING, feed_names, golden_config, tensorflow_version, watch_options
from .unwatched_ops import Unwatched, unwatched
from .user_runs import needed_ops, only_sets_up, trains

_FAILED_PRECONDITION = 9
"""TensorFlow's error_code of FailedPreconditionError (error_codes.proto): a variable is not set."""
NPU_HINT = (
    "golden data comes from the original CPU or GPU graph: give the model as it was before "
    "npu_bridge or ATC changed it"
)

FREEZE_HINT = (
    "freeze it with TensorFlow 2 into one graph without functions "
    "(convert_variables_to_constants_v2 with aggressive_inlining=True; "
    "docs/examples/tf2_freeze.py does it) and give that as the frozen graph (`pb`)"
)


def dump_graph(job: Dict[str, Any], sender: Any) -> None:
    """Load the model of ``job``, feed it, run it once and convert the dump.

    Parameters
    ----------
    job
        ``model`` (``pb`` or ``saved_model``), ``path``, ``tags``, ``signature``, ``inputs``
        (``[[name, file]]``), ``outputs`` (names), ``out``, ``force``, ``source`` and ``extra``.
    sender
        The :class:`~.child.StateSender` to note the result in.
    """
    v1 = tensorflow_v1()
    v1.logging.set_verbosity(v1.logging.ERROR)
    graph = v1.Graph()
    with graph.as_default(), v1.Session(graph=graph, config=golden_config()) as session:
        signature = None
        if job["model"] == "pb":
            load_frozen(v1, job["path"])
        else:
            signature = _load_saved(v1, session, job["path"], job["tags"], job["signature"])
        named = dict(signature.inputs) if signature is not None else {}
        feeds = dict(_feed(graph, named, name, path) for name, path in job["inputs"])
        fetches = _outputs(graph, job["outputs"], signature)
        _check_feeds(fetches, feeds)
        _refuse_functions(job, fetches, feeds)
        version = tensorflow_version()
        if not version.startswith("1.") and trains(graph, fetches):
            raise InputError(
                "this graph trains: " + TF2_TRAINING % version,
                hint="use TensorFlow 1.15 (Python 3.7; `python=PATH`)",
            )
        root = tempfile.mkdtemp(prefix="tfdbg-", dir=sender.folder)
        try:
            missing = _run(session, graph, fetches, feeds, root)
            extra = dict(
                job["extra"],
                run={
                    "index": 0,
                    "kind": job["model"],
                    "fetches": sorted(op.name for op in fetches),
                },
            )
            extra["optimiser"] = GRAPPLER_OFF
            done = convert(
                root,
                job["out"],
                version,
                job["source"],
                job["force"],
                extra,
                missing,
                provisional=True,
                progress=sender.progress,
            )
        finally:
            shutil.rmtree(root, ignore_errors=True)
    done.update(run=0, optimiser=GRAPPLER_OFF)
    add_notes(done)
    sender.state.update(runs=1, done=[done])
    sender.send()


def tensorflow_v1() -> Any:
    """Return TensorFlow's interface of version 1; raises InputError where it cannot be imported."""
    try:
        import tensorflow
    except ImportError as error:
        raise InputError(
            "TensorFlow cannot be imported: %s" % error,
            hint="name another Python with `python=PATH`",
        ) from error
    # protobuf 4 and later: "Descriptors cannot be created directly".
    except TypeError as error:
        raise InputError(
            "TensorFlow cannot be imported: %s" % str(error).splitlines()[0], hint=PROTOBUF_HINT
        ) from error
    return tensorflow.compat.v1


def load_frozen(v1: Any, path: str, control_edges: bool = True) -> None:
    """Import a frozen graph into the current graph, without its control edges unless
    ``control_edges``.

    Raises FormatError or InputError where it is none.
    """
    definition = v1.GraphDef()
    with open_input(path) as stream:
        data = stream.read()
    try:
        definition.ParseFromString(data)
    except Exception:
        if os.path.basename(path) != "saved_model.pb":
            _parse_text(definition, data, path)
    if os.path.basename(path) == "saved_model.pb" and not definition.node:
        raise FormatError(
            "this is a SavedModel's file, not a frozen graph",
            path,
            hint="use `saved_model` with its folder",
        )
    if not definition.node:
        raise FormatError(
            "no op in it: not a frozen GraphDef",
            path,
            hint="freeze the model (freeze_graph), or use `saved_model=DIR`",
        )
    for node in definition.node if not control_edges else ():
        inputs = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(inputs)
    try:
        v1.import_graph_def(definition, name="")
    except Exception as error:
        raise _load_error(path, error) from error


def _parse_text(definition: Any, data: bytes, path: str) -> None:
    from google.protobuf import text_format

    try:
        text_format.Merge(data.decode("utf-8"), definition)
    except Exception as error:
        # Both parsers raise their own kinds; the binary form is the usual one.
        raise FormatError(
            "not a GraphDef, neither binary nor text",
            path,
            hint="give a frozen graph (.pb or .pbtxt)",
        ) from error


def _load_saved(v1: Any, session: Any, path: str, tags: List[str], signature: Optional[str]) -> Any:
    try:
        meta = v1.saved_model.loader.load(session, tags, path)
    except Exception as error:
        # The loader raises RuntimeError for all that it finds wrong; its words tell what.
        if "could not be found in SavedModel" in str(error):
            message = "%s: no MetaGraph with the tags %s" % (printable(path), ", ".join(tags))
            raise InputError(
                message, hint="list them with: saved_model_cli show --dir DIR; then `tags`"
            ) from error
        raised = _load_error(path, error)
        version = _written_by(path)
        if version and not version.startswith("1.") and tensorflow_version().startswith("1."):
            raised = InputError(
                "%s (it was written by TensorFlow %s)" % (raised.message, printable(version)),
                hint=FREEZE_HINT,
            )
        raise raised from error
    signatures = dict(meta.signature_def)
    plain = {
        name: value for name, value in signatures.items() if not name.startswith("__saved_model_")
    }
    if signature is not None:
        if signature not in signatures:
            raise InputError(
                "%s: no signature %s; there are %s"
                % (printable(path), signature, ", ".join(sorted(signatures)) or "none")
            )
        return _Signature(signatures[signature])
    if "serving_default" in plain:
        return _Signature(plain["serving_default"])
    if len(plain) == 1:
        return _Signature(next(iter(plain.values())))
    if not plain:
        return None
    raise InputError(
        "%s has the signatures %s" % (printable(path), ", ".join(sorted(plain))),
        hint="choose one with `signature=NAME`",
    )


def _written_by(path: str) -> str:
    """Return the version of TensorFlow that wrote a SavedModel, empty when it does not tell."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    try:
        with open_input(os.path.join(path, "saved_model.pb")) as stream:
            model.ParseFromString(stream.read())
        return str(model.meta_graphs[0].meta_info_def.tensorflow_version)
    except Exception:
        # A text form, or a file that is broken in its own way: the error of the load tells more.
        return ""


class _Signature:
    """A signature's inputs and outputs as ``{key: tensor name}``."""

    def __init__(self, definition: Any) -> None:
        self.inputs = {
            str(key): str(info.name) for key, info in definition.inputs.items() if info.name
        }
        self.outputs = {
            str(key): str(info.name) for key, info in definition.outputs.items() if info.name
        }


def _load_error(path: str, error: Exception) -> GoldwatchError:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    # Only its words tell it: the class is NotFoundError, as of a file that is not there.
    if "Op type not registered" in str(error):
        return InputError("%s: %s" % (printable(path), printable(text)), hint=NPU_HINT)
    hint = "it must be a model of TensorFlow %s or older" % tensorflow_version()
    return InputError("%s cannot be loaded: %s" % (printable(path), printable(text)), hint=hint)


def _tensor(graph: Any, named: Dict[str, str], name: str, what: str) -> Any:
    full = named.get(name, name)
    try:
        return graph.get_tensor_by_name(full if ":" in full else full + ":0")
    except (KeyError, ValueError) as error:
        known = [
            op.name
            for op in graph.get_operations()
            if what != "input" or op.type.startswith("Placeholder")
        ]
        near = nearest_names(name, known + list(named), 5, 0.3) or sorted(known)[:5]
        kind = "placeholders" if what == "input" else "ops"
        message = "the graph has no %s %s" % (what, printable(name))
        raise InputError(
            message, hint="%s with like names: %s" % (kind, ", ".join(near) or "none")
        ) from error


def _feed(graph: Any, named: Dict[str, str], name: str, path: str) -> Tuple[Any, np.ndarray]:
    tensor = _tensor(graph, named, name, "input")
    if not graph.is_feedable(tensor):
        raise InputError("%s cannot be fed" % tensor.name)
    feed_dtype = tensor.dtype.base_dtype.as_numpy_dtype
    if path.endswith(".npy"):
        with open_input(path) as stream:
            value = read_npy(stream, path, os.path.getsize(path), lambda shape, dtype: None)
        value = _cast(value, np.dtype(feed_dtype), tensor, path)
    else:
        value = _raw(tensor, np.dtype(feed_dtype), path)
    if not tensor.shape.is_compatible_with(value.shape):
        shape = tensor.shape.as_list() if tensor.shape.ndims is not None else "any"
        raise InputError(
            "%s: shape %s, expected %s for %s"
            % (printable(path), list(value.shape), shape, tensor.name)
        )
    return tensor, value


def _cast(value: np.ndarray, dtype: np.dtype, tensor: Any, path: str) -> np.ndarray:
    if value.dtype == dtype:
        return value
    if (
        np.can_cast(value.dtype, dtype, "same_kind")
        if dtype.kind != "O"
        else value.dtype.kind in "US"
    ):
        return value.astype(dtype)
    message = "%s holds %s, %s takes %s" % (
        printable(path),
        value.dtype,
        tensor.name,
        tensor.dtype.name,
    )
    raise InputError(message, hint="save the array with that dtype")


def _raw(tensor: Any, dtype: np.dtype, path: str) -> np.ndarray:
    """Read a raw binary file by the placeholder's own dtype and shape, of which one dimension may
    be open.
    """
    if tensor.shape.ndims is None or sum(size is None for size in tensor.shape.as_list()) > 1:
        message = "%s: raw bytes need a known shape, %s has %s" % (
            printable(path),
            tensor.name,
            tensor.shape,
        )
        raise InputError(message, hint="give a .npy file")
    if dtype.kind == "O" or dtype.itemsize == 0:
        raise InputError(
            "%s: %s takes %s, which raw bytes cannot give"
            % (printable(path), tensor.name, tensor.dtype.name)
        )
    try:
        value = np.fromfile(path, dtype=dtype)
        return value.reshape([-1 if size is None else size for size in tensor.shape.as_list()])
    except ValueError as error:
        size_bytes = os.path.getsize(path)
        message = "%s: %d bytes do not fit shape %s of %s" % (
            printable(path),
            size_bytes,
            tensor.shape.as_list(),
            dtype,
        )
        raise InputError(message, hint="give a .npy file") from error


def _outputs(graph: Any, names: List[str], signature: Any) -> List[Any]:
    """Return the ops to run: those that were named, the signature's outputs, or all sinks of the
    graph.
    """
    if names:
        named = signature.outputs if signature is not None else {}
        return [_operation(graph, named, name) for name in names]
    if signature is not None and signature.outputs:
        return [
            _tensor(graph, {}, name, "output").op for name in sorted(signature.outputs.values())
        ]
    # The ops that nothing consumes, less a saver's (they would write files) and initialisers.
    used: Set[str] = set()
    files: Set[str] = set()
    for op in graph.get_operations():
        before = {tensor.op.name for tensor in op.inputs} | {
            control.name for control in op.control_inputs
        }
        used |= before
        if op.type in _FILES or before & files:
            files.add(op.name)
    used |= files
    ends = [
        op
        for op in graph.get_operations()
        if op.name not in used and not op.type.startswith("Placeholder")
    ]
    sinks = [op for op in ends if not only_sets_up(graph, [op])]
    if not sinks:
        raise InputError(
            "the graph has no op that could be an output", hint="name the outputs with `outputs`"
        )
    return sinks


_FILES = frozenset(
    [
        "Save",
        "SaveSlices",
        "SaveV2",
        "MergeV2Checkpoints",
        "Restore",
        "RestoreSlice",
        "RestoreV2",
        "WriteFile",
    ]
)


def _operation(graph: Any, named: Dict[str, str], name: str) -> Any:
    try:
        return graph.get_operation_by_name(named.get(name, name).partition(":")[0])
    except (KeyError, ValueError):
        return _tensor(graph, named, name, "output").op


def _check_feeds(fetches: List[Any], feeds: Dict[Any, np.ndarray]) -> None:
    """Raise InputError when a placeholder that the outputs need is not fed."""
    fed = {tensor.name for tensor in feeds}
    missing: Set[str] = set()
    for op in needed_ops(fetches, fed).values():
        if op.type in ("Placeholder", "PlaceholderV2") and op.outputs[0].name not in fed:
            missing.add("%s (%s %s)" % (op.name, op.outputs[0].dtype.name, op.outputs[0].shape))
    if missing:
        raise InputError(
            "inputs are missing: %s" % ", ".join(sorted(missing)),
            hint="add `inputs=NAME=FILE.npy` for each",
        )


def _refuse_functions(
    job: Dict[str, Any], fetches: List[Any], feeds: Dict[Any, np.ndarray]
) -> None:
    """Raise InputError when the ops that run are calls of functions: nothing inside them can be
    dumped.
    """
    needed = needed_ops(fetches, {tensor.name for tensor in feeds}).values()
    calls = sorted(
        op.name for op in needed if op.type in ("PartitionedCall", "StatefulPartitionedCall")
    )
    if calls:
        message = (
            "%s: its ops are inside functions (called by %s), as TensorFlow 2 saves a model; they "
            "cannot be dumped"
        )
        raise InputError(
            message % (printable(job["path"]), printable(", ".join(calls[:3]))), hint=FREEZE_HINT
        )


def _run(
    session: Any, graph: Any, fetches: List[Any], feeds: Dict[Any, np.ndarray], root: str
) -> Unwatched:
    names = feed_names(feeds)
    missing = unwatched(graph, fetches, feeds, root)
    try:
        missing.values = session.run(
            [fetches, missing.tensors],
            feed_dict=feeds,
            options=watch_options(None, graph, root, names),
        )[1]
    except Exception as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = (
            "is the graph frozen? variables must be constants"
            if getattr(error, "error_code", None) == _FAILED_PRECONDITION
            else None
        )
        # Only its words tell it: the class is that of wrong shapes, InvalidArgumentError.
        if "not registered" in text or "No OpKernel" in text:
            hint = NPU_HINT
        raise InputError(
            "the graph cannot be run: %s: %s" % (type(error).__name__, printable(text)), hint=hint
        ) from error
    return missing
