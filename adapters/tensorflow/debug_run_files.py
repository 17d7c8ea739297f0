"""Reads what TensorFlow's debug run wrote: one event file per dump, named after op, output and
time, and the graph that ran.

Form: ``{root}/_tfdbg_device_{device}/{scopes…}/{leaf}_{slot}_{debug op}_{µs}[-{n}]`` and
``…/_tfdbg_graph_…`` (tensorflow/core/debug/debug_io_utils.cc, the same in 1.15 and 2.x).
TensorFlow's own DebugDumpDir reads the same with several times the work.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ...filesystem.safe_reading import open_input
from .golden_rules import feed_of
from .uninitialised_outputs import ATTRIBUTES

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
