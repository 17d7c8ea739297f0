"""From the files of a debug run to golden files: names, loops, types, and a reason for everything
that is not saved.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import field
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ...base.fast_dataclasses import dataclass
from ...base.mounts import require_space
from ...base.naming import printable
from ...base.safe_reading import open_input
from ..golden_writer import GoldenWriter
from ..nonfinite import NOT_FINITE
from .golden_rules import copy_reason, feed_of, fixed_kind, is_xla
from .golden_summary import golden_summary
from .uninitialised_outputs import ATTRIBUTES, attributes_of, never_written, partly_written
from .unwatched_ops import UNFETCHABLE, Unwatched

Key = Tuple[str, int]

_DEVICE = "_tfdbg_device_"
_GRAPH = "_tfdbg_graph_"
_DUMP = re.compile(
    r"(?P<leaf>.+)_(?P<slot>\d+)_(?P<debug>[A-Za-z]+)_(?P<time>\d+)(?:-(?P<again>\d+))?\Z",
    re.DOTALL,
)

_COPY = re.compile(r"__copy_(?P<node>.+)_(?P<slot>\d+)\Z", re.DOTALL)


@dataclass(frozen=True)
class Dump:
    """One dump of a debug run.

    Attributes
    ----------
    node, slot, op_type, device
        As the run's graph names them; a feed is ``_arg_…``.
    timestamp_us
        When it was written.
    again
        Tells dumps of one output within one microsecond apart.
    size_bytes
        The size of the event file: 0 when the tensor was too large for one.
    path
        The event file; empty where ``value`` was fetched instead.
    inputs, attributes
        The tensors that its op reads, and those of its attributes that
        :data:`~.uninitialised_outputs.ATTRIBUTES` names, as far as they are known.
    """

    node: str
    slot: int
    op_type: str
    device: str
    timestamp_us: int
    again: int
    size_bytes: int
    path: str
    value: Any = None
    inputs: Tuple[Key, ...] = ()
    attributes: Mapping[str, bool] = field(default_factory=dict)

    @property
    def tensor(self) -> str:
        """The tensor's name in the user's graph."""
        return "%s:%d" % self.key

    @property
    def key(self) -> Key:
        """Op and output index in the user's graph."""
        return feed_of(self.node, self.op_type) or (self.node, self.slot)

    @property
    def is_feed(self) -> bool:
        """Whether the value was fed."""
        return feed_of(self.node, self.op_type) is not None


def read_dumps(root: str) -> List[Dump]:
    """Return the dumps of the debug run in folder ``root``, in the order of time."""
    dumps: List[Dump] = []
    for name in sorted(os.listdir(root)):
        if name.startswith(_DEVICE):
            dumps.extend(_device_dumps(os.path.join(root, name)))
    return sorted(dumps, key=lambda dump: (dump.timestamp_us, dump.again))


def _device_dumps(folder: str) -> List[Dump]:
    from tensorflow.python.debug.lib import debug_data

    device = str(debug_data.device_path_to_device_name(folder))
    nodes: Dict[str, _Node] = {}
    dumps: List[Tuple[str, Any, str]] = []
    for parent, _, files in os.walk(folder):
        scope = os.path.relpath(parent, folder)
        for name in files:
            path = os.path.join(parent, name)
            if name.startswith(_GRAPH):
                nodes.update(_nodes(path))
                continue
            match = _DUMP.match(name)
            if match is not None:
                node = (
                    match.group("leaf")
                    if scope == "."
                    else "%s/%s" % (scope.replace(os.sep, "/"), match.group("leaf"))
                )
                dumps.append((node, match, path))
    types = {name: node.op_type for name, node in nodes.items()}
    unknown = _Node("", (), {})
    return [
        Dump(
            node=node,
            slot=int(match.group("slot")),
            op_type=types.get(node, ""),
            device=device,
            timestamp_us=int(match.group("time")),
            again=int(match.group("again") or 0),
            size_bytes=os.path.getsize(path),
            path=path,
            inputs=tuple(_tensor_of(text, types) for text in nodes.get(node, unknown).inputs),
            attributes=nodes.get(node, unknown).attributes,
        )
        for node, match, path in dumps
    ]


class _Node(NamedTuple):
    """Type, inputs and some attributes of an op of the graph that ran."""

    op_type: str
    inputs: Tuple[str, ...]
    attributes: Dict[str, bool]


def _nodes(path: str) -> Dict[str, _Node]:
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef.FromString(_event(path).graph_def)
    nodes: Dict[str, _Node] = {}
    for node in graph.node:
        attributes = {name: bool(node.attr[name].b) for name in ATTRIBUTES if name in node.attr}
        nodes[str(node.name)] = _Node(
            str(node.op), tuple(name for name in node.input if not name.startswith("^")), attributes
        )
    return nodes


def _tensor_of(text: str, types: Dict[str, str]) -> Key:
    """Return what an op's input is in the user's graph: the debugger puts copies before its
    readers, and feeds are ops of their own.
    """
    name, _, slot = text.partition(":")
    match = _COPY.match(name)
    if match is not None and name in types:
        name, slot = match.group("node"), match.group("slot")
    return feed_of(name, types.get(name, "")) or (name, int(slot or 0))


def _event(path: str) -> Any:
    from tensorflow.core.util import event_pb2

    with open_input(path) as stream:
        return event_pb2.Event.FromString(stream.read())


def load_value(dump: Dump) -> Tuple[Optional[np.ndarray], str]:
    """Return the dump's value as TensorFlow's numpy type, or None and why it holds no numbers.

    Raises
    ------
    Exception
        Whatever protobuf raises for a broken event file.
    """
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import tensor_util

    if not dump.path:
        value = np.asarray(dump.value)
        return (value, "") if value.dtype.kind not in "OSU" else (None, "strings, not numbers")
    proto = _event(dump.path).summary.value[0].tensor
    if proto.dtype == types_pb2.DT_STRING:
        return None, "strings, not numbers"
    if proto.dtype in (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT):
        return None, "a handle (resource or variant), not numbers"
    sizes = [int(dim.size) for dim in proto.tensor_shape.dim]
    if not proto.tensor_content and 0 not in sizes:
        return None, "not initialised when the run read it"
    return np.asarray(tensor_util.MakeNdarray(proto)), ""


def convert(
    root: str,
    out: str,
    version: str,
    source: Dict[str, Any],
    force: bool,
    extra: Dict[str, Any],
    fetched: Optional[Unwatched] = None,
    provisional: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Dict[str, Any]:
    """Write the golden files of one debug run and its manifest; return what was done.

    Parameters
    ----------
    root
        The folder of TensorFlow's debug dump.
    out
        The golden folder.
    version
        TensorFlow's version.
    source
        SHA-256 sums by role.
    extra
        Further fields of the manifest.
    fetched
        What was fetched because the debugger cannot write it.
    provisional
        Leave it to a parent process to call the folder complete.
    progress
        Called after each dump with (number done, total).

    Returns
    -------
    dict
        As of :func:`~.golden_summary.golden_summary`, with names ``fused``, ``calls`` and ``xla``
        of ops that stand for others.
    """
    dumps = read_dumps(root)
    dumps += _fetched_dumps(fetched) + _unseen_feeds(fetched, {dump.key for dump in dumps})
    lost = fetched.lost if fetched is not None else []
    fed = {dump.key for dump in dumps if dump.is_feed}
    reasons = [_reason_by_name(dump, fed) for dump in dumps]
    read = _Values(dumps)
    require_space(out, sum(dump.size_bytes for dump in dumps))
    refusals: List[Dict[str, str]] = []
    with GoldenWriter(
        out, "tensorflow", version, source, force=force, provisional=provisional
    ) as writer:
        writer.reserve(sorted({dump.key for dump, reason in zip(dumps, reasons) if reason is None}))
        numbers: Dict[Key, int] = {}
        for done, (dump, reason) in enumerate(zip(dumps, reasons), 1):
            if reason is None:
                reason = _save(writer, dump, numbers, refusals, read)
            if reason is not None:
                writer.skip(dump.tensor, reason)
            progress(done, len(dumps))
        for tensor in lost:
            writer.skip(tensor, UNFETCHABLE)
        writer.extra.update(extra)
        entry = golden_summary(out, writer, refusals, _makers(writer.tensors, dumps))
    return {
        **entry,
        "fused": sorted({dump.op_type for dump in dumps if _is_fused(dump.op_type)}),
        "calls": sorted({dump.node for dump in dumps if _calls(dump.op_type)}),
        "xla": sorted({dump.node for dump in dumps if is_xla(dump.op_type)}),
    }


def _makers(
    tensors: Sequence[Mapping[str, Any]], dumps: Sequence[Dump]
) -> Callable[[Mapping[str, Any]], bool]:
    """Return what tells of a manifest's entry whether its op itself made what is not finite: none
    of its inputs holds such values.
    """
    held = {
        (entry["original_name"], entry["output_index"]) for entry in tensors if NOT_FINITE in entry
    }
    inputs = {dump.key: dump.inputs for dump in dumps} if held else {}

    def makes(entry: Mapping[str, Any]) -> bool:
        key = (entry["original_name"], entry["output_index"])
        return entry["type"] != "Const" and not any(
            read in held and read != key for read in inputs.get(key, ())
        )

    return makes


def _fetched_dumps(fetched: Optional[Unwatched]) -> List[Dump]:
    now_us = int(time.time() * 1000000)
    pairs = zip(fetched.tensors, fetched.values) if fetched is not None else ()
    return [
        Dump(
            node=str(tensor.op.name),
            slot=int(tensor.value_index),
            op_type=str(tensor.op.type),
            device=str(tensor.op.device),
            inputs=tuple((str(each.op.name), int(each.value_index)) for each in tensor.op.inputs),
            attributes=attributes_of(tensor.op),
            timestamp_us=now_us,
            again=0,
            size_bytes=max(1, int(getattr(value, "nbytes", 1))),
            path="",
            value=value,
        )
        for tensor, value in pairs
    ]


def _unseen_feeds(fetched: Optional[Unwatched], watched: Set[Key]) -> List[Dump]:
    """Return dumps of the feeds that nothing consumed."""
    now_us = int(time.time() * 1000000)
    feeds: List[Dump] = []
    for tensor, value in fetched.fed if fetched is not None else ():
        op, slot = str(tensor.op.name), int(tensor.value_index)
        if (op, slot) in watched or not isinstance(
            value, (np.ndarray, np.generic, bool, int, float, complex, list, tuple)
        ):
            continue
        array = np.asarray(value, dtype=tensor.dtype.base_dtype.as_numpy_dtype)
        feeds.append(
            Dump(
                "_arg_%s_%d_0" % (op, slot),
                0,
                "_Arg",
                str(tensor.op.device),
                now_us,
                0,
                max(1, array.nbytes),
                "",
                array,
            )
        )
    return feeds


_CALLS = frozenset(
    [
        "PartitionedCall",
        "StatefulPartitionedCall",
        "SymbolicGradient",
        "If",
        "While",
        "StatelessIf",
        "StatelessWhile",
    ]
)


def _calls(op_type: str) -> bool:
    """Tell whether an op calls a function of the graph: the op of a Defun has the function's name
    for a type, which nobody registered.
    """
    if op_type in _CALLS or op_type.startswith("_"):
        return op_type in _CALLS
    from tensorflow.python.framework import op_def_registry

    # TensorFlow 1; from 2.1 on the registry has `get` in its place.
    if hasattr(op_def_registry, "get_registered_ops"):
        return bool(op_type) and op_type not in op_def_registry.get_registered_ops()
    return bool(op_type) and op_def_registry.get(op_type) is None


def _is_fused(op_type: str) -> bool:
    """Tell whether grappler made this op out of several of the graph."""
    return op_type.startswith("_Fused") or op_type == "_UnaryOpsComposition"


def _reason_by_name(dump: Dump, fed: Set[Key]) -> Optional[str]:
    if dump.is_feed:
        return None
    if dump.key in fed:
        return "the value that was fed replaces the computed one"
    return (
        copy_reason(dump.op_type)
        or never_written(dump.op_type, dump.slot, dump.attributes)
        or fixed_kind(dump.op_type, dump.slot)
    )


class _Values:
    """The values that ops have read, by the dumps of what they read."""

    def __init__(self, dumps: Sequence[Dump]) -> None:
        self._dumps: Dict[Key, List[Dump]] = {}
        for dump in dumps:
            self._dumps.setdefault(dump.key, []).append(dump)

    def of(self, dump: Dump, number: int) -> Optional[np.ndarray]:
        """Return what an op read as its input of this number when it made a dump; None where that
        was not dumped.
        """
        before = [
            each
            for each in self._dumps.get(dump.inputs[number], ())
            if each.timestamp_us <= dump.timestamp_us
        ]
        return load_value(before[-1])[0] if before and before[-1].size_bytes else None


def _save(
    writer: GoldenWriter,
    dump: Dump,
    numbers: Dict[Key, int],
    refusals: List[Dict[str, str]],
    read: _Values,
) -> Optional[str]:
    """Save one dump; return the reason when it holds no numbers (a refusal is noted in ``refusals``
    instead).
    """
    if dump.size_bytes == 0:
        refusals.append(
            {
                "tensor": dump.tensor,
                "reason": "the dump is empty: a tensor over 2 GB does not fit TensorFlow's "
                "event file",
            }
        )
        return None
    try:
        value, reason = load_value(dump)
    except Exception as error:
        # A broken event file raises what protobuf or the reader of records likes.
        refusals.append(
            {
                "tensor": dump.tensor,
                "reason": "the dump cannot be read: %s %s"
                % (type(error).__name__, printable(str(error))),
            }
        )
        return None
    if value is None:
        return reason
    array, source_dtype = _plain_array(value)
    unwritten = partly_written(
        dump.op_type, dump.slot, array.shape, len(dump.inputs), lambda number: read.of(dump, number)
    )
    if unwritten is not None:
        return unwritten
    op, index = dump.key
    number = numbers.get(dump.key, 0)
    numbers[dump.key] = number + 1
    extra: Dict[str, Any] = {"type": dump.op_type, "dump": number, "device": dump.device}
    if source_dtype is not None:
        extra["source_dtype"] = source_dtype
    if dump.is_feed:
        extra["fed"] = True
    writer.write(op, index, array, timestamp=dump.timestamp_us, **extra)
    return None


def _plain_array(value: Any) -> Tuple[np.ndarray, Optional[str]]:
    """Return a tensor as an array of numpy's own types, and the name of its type where that had to
    change.

    bfloat16 and the 8-bit floats become float32, the quantised integers (qint8 …) their plain
    integers, int4 becomes int8.
    """
    array = np.asarray(value)
    if array.dtype.kind in "biufc":
        return array, None
    name = str(array.dtype.names[0]) if array.dtype.names else str(array.dtype)
    if array.dtype.names:
        return np.asarray(array[name], order="C"), name
    return array.astype(np.int8 if "int" in name else np.float32), name
