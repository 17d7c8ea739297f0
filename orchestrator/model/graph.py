"""A model as its file describes it: the ops in the file's order, found by any of their names."""

from __future__ import annotations

import json
import os
import shlex
from collections import deque
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ..errors import FormatError, InputError, require_file
from ..filesystem.safe_reading import AnyPath, open_input, path_text
from ..kinds.wrong_kind_advice import model_error
from ..naming import find_collisions, sanitise_device, sanitise_golden
from ..text.wording import plural
from .fx_names import from_tensorboard, graph_of_file
from .ge_text import parse_text
from .graph_builder import GraphBuilder, Notes, clean_name
from .omjson import MAX_BYTES, decode_text, parse_json
from .op_node import OpNode

_ITERATOR_TYPES = frozenset(["IteratorV2", "Iterator", "GetNext"])
_OM_MAGIC = b"IMOD"
_MOST_LETTERS = 300

Parameters = List[Tuple[str, str]]
"""The attributes of an op as text: (name, value)."""


class ModelGraph:
    """All graphs of one model.

    Parameters
    ----------
    name
        The model's name: the file's, or the first graph's where the file has none.
    graph_names
        The graphs' names; the first is the main one.
    ops
        In the file's order, all graphs in a row.
    notes
        Oddities in the file that were tolerated.
    path
        The file.
    command
        The command line that made the model, as its attribute ``atc_cmdline`` has it; empty where
        it has none.
    fx
        Whether it is an original graph that TorchAir passed to GE: the compiler may have fused,
        removed and inserted ops since.
    unfused
        Whether its originals are the ops of a build without fusion, whose dumps are the golden
        data.
    """

    def __init__(
        self,
        name: str,
        graph_names: Sequence[str],
        ops: Sequence[OpNode],
        notes: Sequence[str] = (),
        path: Optional[str] = None,
        command: str = "",
        fx: bool = False,
        unfused: bool = False,
    ) -> None:
        self.name = name
        self.graph_names = tuple(graph_names)
        self.ops = tuple(ops)
        self.path = path
        self.command = command
        self.fx = fx
        self.unfused = unfused
        self._by_name: Dict[str, List[OpNode]] = _index(self.ops, lambda op: [op.name])
        self._by_device: Optional[Dict[str, List[OpNode]]] = None
        self._by_golden: Optional[Dict[str, List[OpNode]]] = None
        self._by_original: Optional[Dict[str, List[OpNode]]] = None
        self._colliding: Optional[Dict[str, List[str]]] = None
        self._in_graph: Dict[Tuple[int, str], OpNode] = {}
        for op in self.ops:
            self._in_graph.setdefault((op.graph_index, op.name), op)
        self._consumers: Optional[Dict[Tuple[int, Optional[int]], List[OpNode]]] = None
        self.notes = tuple(notes) + tuple(_repeated(self._by_name))

    def __repr__(self) -> str:
        return "ModelGraph(%r, %s)" % (self.name, plural(len(self.ops), "op"))

    def ops_named(self, name: str) -> List[OpNode]:
        """Return the ops of this name: raw, else as in dump files, else as in golden files."""
        if not name:
            return []
        ops = self._by_name.get(name)
        if ops is None:
            if self._by_device is None:
                self._by_device = _index(self.ops, lambda op: [sanitise_device(op.name)])
            ops = self._by_device.get(sanitise_device(name))
        if ops is None:
            if self._by_golden is None:
                self._by_golden = _index(self.ops, lambda op: [sanitise_golden(op.name)])
            ops = self._by_golden.get(sanitise_golden(name))
        return list(ops or ())

    def ops_dumped_as(self, name: str) -> List[OpNode]:
        """Return the ops whose dump files have this name (``a/b``, ``a.b`` and ``a_b`` are all
        written ``a_b``), else as :meth:`ops_named`.
        """
        if self._by_device is None:
            self._by_device = _index(self.ops, lambda op: [sanitise_device(op.name)])
        # The keys are sanitised: a raw name that differs is never among them.
        ops = self._by_device.get(name)
        return self.ops_named(name) if ops is None else list(ops)

    def sharing_golden_name(self, original: str) -> List[str]:
        """Return all original ops whose golden files would have the same name as this one's; empty
        if the name is unique.
        """
        if self._colliding is None:
            self._colliding = find_collisions(name for op in self.ops for name in op.originals)
        return self._colliding.get(sanitise_golden(original), [])

    def op(self, name: str) -> Optional[OpNode]:
        """Return the first op of :meth:`ops_named`, or None."""
        ops = self.ops_named(name)
        return ops[0] if ops else None

    def ops_from(self, original: str) -> List[OpNode]:
        """Return the ops made from the original op of this name, in the file's order."""
        if self._by_original is None:
            self._by_original = _index(self.ops, lambda op: op.originals)
        return list(self._by_original.get(original, ()))

    def producer(self, op: OpNode, name: str) -> Optional[OpNode]:
        """Return the op named ``name`` in the inputs of ``op``: of the same graph, else of any; or
        None.
        """
        producer = self._in_graph.get((op.graph_index, name))
        if producer is None and name in self._by_name:
            producer = self._by_name[name][0]
        return producer

    def consumers(self, op: OpNode, index: Optional[int] = None) -> List[OpNode]:
        """Return the ops that read output ``index`` of ``op`` (None: any output), in the file's
        order.
        """
        if self._consumers is None:
            self._consumers = {}
            for other in self.ops:
                for source in other.inputs:
                    producer = self.producer(other, source[0]) if source is not None else None
                    if source is not None and producer is not None:
                        for key in ((producer.position, source[1]), (producer.position, None)):
                            consumers = self._consumers.setdefault(key, [])
                            if not consumers or consumers[-1] is not other:
                                consumers.append(other)
        return list(self._consumers.get((op.position, index), ()))

    def predecessors(self, name: str, radius: int = 1) -> List[OpNode]:
        """Return the ops whose data reaches the op within ``radius`` edges, nearest first, without
        the op itself.
        """
        return self._around(name, radius, self._producers)

    def successors(self, name: str, radius: int = 1) -> List[OpNode]:
        """Return the ops that the op's data reaches within ``radius`` edges, nearest first, without
        the op itself.
        """
        return self._around(name, radius, self.consumers)

    @property
    def is_computational(self) -> bool:
        """Whether the graph reads training data (an IteratorV2, Iterator or GetNext op): the one
        whose folder holds a training's dumps.
        """
        return any(op.type in _ITERATOR_TYPES for op in self.ops)

    def _producers(self, op: OpNode) -> List[OpNode]:
        producers = [self.producer(op, source[0]) for source in op.inputs if source is not None]
        return list(
            {producer.position: producer for producer in producers if producer is not None}.values()
        )

    def _around(
        self, name: str, radius: int, neighbours: Callable[[OpNode], Iterable[OpNode]]
    ) -> List[OpNode]:
        start = self.op(name)
        if start is None:
            return []
        visited = {start.position}
        queue = deque([(start, 0)])
        reached: List[OpNode] = []
        while queue:
            op, distance = queue.popleft()
            if distance == radius:
                continue
            for other in neighbours(op):
                if other.position not in visited:
                    visited.add(other.position)
                    reached.append(other)
                    queue.append((other, distance + 1))
        return reached


def _index(
    ops: Sequence[OpNode], keys: Callable[[OpNode], Iterable[str]]
) -> Dict[str, List[OpNode]]:
    table: Dict[str, List[OpNode]] = {}
    for op in ops:
        for key in keys(op):
            if key:
                table.setdefault(key, []).append(op)
    return table


def _repeated(by_name: Dict[str, List[OpNode]]) -> List[str]:
    repeated = [name for name, ops in by_name.items() if len(ops) > 1]
    if not repeated:
        return []
    shown = ", ".join(repeated[:5]) + (" …" if len(repeated) > 5 else "")
    return [
        "%d op names occur more than once (%s); a dump of such a name belongs to the first op "
        "of its type" % (len(repeated), shown)
    ]


def load_model(path: AnyPath) -> ModelGraph:
    """Read a model's json (``atc --mode=1`` or ``--mode=5``) or a GE graph in text form
    (``ge_proto_*.txt``).

    Raises
    ------
    MissingPath
        There is no such file.
    InputError
        The file is an .om; the hint is the atc command that makes the json. Or it is something
        else: the message says what.
    FormatError
        It is neither, or broken; the message says where.
    """
    return load_with_parameters(path, every=False)[0]


def load_with_parameters(path: AnyPath, every: bool = True) -> Tuple[ModelGraph, List[Parameters]]:
    """Return a model and all attributes of each op as text; parameters and errors as of
    :func:`load_model`.

    Parameters
    ----------
    every
        False: skip the attributes that a graph does not need, and return none.
    """
    path = path_text(path, "model")
    require_file(path, "model")
    try:
        graph, parameters = _load(path, every)
    except FormatError as error:
        raise model_error(path) or error from None
    wrong = None if graph.ops else model_error(path)
    if wrong is not None:
        raise wrong
    return graph, parameters


def _load(path: str, every: bool) -> Tuple[ModelGraph, List[Parameters]]:
    tree, lines = read_tree(path, every)
    builder = GraphBuilder(path, lines)
    name, graph_names, ops = builder.build(tree)
    command = builder.command(tree)
    parameters = _parameters_of(tree) if every else []
    del tree
    return ModelGraph(name, graph_names, ops, lines.lines(), path, command, builder.fx), parameters


def read_tree(path: str, every: bool) -> Tuple[Dict[str, Any], Notes]:
    """Read a model file (json or text) as a json tree, with notes on oddities; parameters and
    errors as of :func:`load_with_parameters`.
    """
    first, data = _read_model_file(path)
    fx = False
    if _is_text_form(first, path):
        text, notes = decode_text(data)
        tree = parse_text(text, path, every)
        fx = "_fx_tensor_name" in text
        del text
    else:
        tree, notes = parse_json(data, path, every)
    del data
    lines = Notes(notes)
    if "graph" not in tree and isinstance(tree.get("op"), list):
        tree = {"graph": [tree]}
        if not fx:
            lines.add(
                "/op",
                "a graph by itself, as it was before GE compiled it: ops that GE fuses or "
                "inserts are not in it",
            )
    if "graph" not in tree and isinstance(tree.get("node"), list):
        tree = (
            from_tensorboard(
                tree,
                graph_of_file(os.path.basename(path)),
                lambda inner: parse_text(inner, path, every),
            )
            or tree
        )
    return tree, lines


def _read_model_file(path: str) -> Tuple[bytes, bytes]:
    """Return the first character and the whole content of a model file that may be json or text."""
    size_bytes = os.path.getsize(path)
    with open_input(path) as stream:
        head = stream.read(4096)
        first = (
            head.replace(b"\xef\xbb\xbf", b"", 1).lstrip()[:1]
            if head.startswith(b"\xef\xbb\xbf")
            else head.lstrip()[:1]
        )
        if head.startswith(_OM_MAGIC) or (
            path.lower().endswith(".om") and first not in (b"{", b"[")
        ):
            raise _needs_atc(path)
        if not head:
            raise FormatError("the file is empty", path)
        if b"\0" in head:
            raise FormatError(
                "not json but a binary file: expected the json of a model, or GE's graph as text",
                path,
            )
        if size_bytes > MAX_BYTES:
            raise FormatError(
                "%d bytes; a model's json or text of up to %d bytes can be read"
                % (size_bytes, MAX_BYTES),
                path,
            )
        stream.seek(0)
        data = stream.read(size_bytes + 1)
    return first, data


def _is_text_form(first: bytes, path: str) -> bool:
    return (
        first.isalpha()
        or first in (b"#", b"_")
        or (path.endswith(".txt") and first not in (b"{", b"["))
    )


def _needs_atc(path: str) -> InputError:
    stem = path[:-3] if path.lower().endswith(".om") else path
    command = "atc --mode=1 --om=%s --json=%s" % (shlex.quote(path), shlex.quote(stem + ".json"))
    return InputError(
        "%s: this is an offline model (.om); its json is needed" % path,
        hint="make the json with: " + command,
    )


def _parameters_of(tree: Dict[str, Any]) -> List[Parameters]:
    """Return the attributes of each op of a tree that a graph could be built from, GE's own
    (``_…``) last.
    """
    ops = [op for graph in tree["graph"] for op in graph.get("op") or ()]
    return [sorted(_parameters(op), key=lambda entry: entry[0].startswith("_")) for op in ops]


def _parameters(op: Dict[str, Any]) -> Parameters:
    entries = [
        entry
        for entry in op.get("attr") or ()
        if isinstance(entry, dict) and isinstance(entry.get("key"), str)
    ]
    return [
        (clean_name(entry["key"]), _cut(_text_of_value(entry.get("value")))) for entry in entries
    ]


def _text_of_value(value: Any) -> str:
    """Return a value without the name of its form: ``{"i": 3}`` is 3, ``{"list": {"i": [1, 2]}}``
    is [1, 2].
    """
    if isinstance(value, dict) and len(value) == 1:
        form, inner = next(iter(value.items()))
        if form == "list" and isinstance(inner, dict):
            lists = {key: entry for key, entry in inner.items() if key != "val_type"}
            return _text_of_value(lists) if len(lists) == 1 else _json(lists) if lists else "[]"
        return _text_of_value(inner)
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(_text_of_value, value))
    if value is None or value == {}:
        return ""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    rest = len(text) - _MOST_LETTERS
    return clean_name(
        text if rest <= 0 else "%s … (%d letters more)" % (text[:_MOST_LETTERS], rest)
    )


def computational_graphs(models: Iterable[ModelGraph]) -> List[ModelGraph]:
    """Return the models that read training data. The name of their first graph is the dump's
    model_name folder.
    """
    return [model for model in models if model.is_computational]
