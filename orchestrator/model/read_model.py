"""Reads a model's file: the json that atc makes, or GE's or TorchAir's graph as text; with all
attributes of each op as text, where they are to be shown.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, Dict, List, Tuple

from ..errors import FormatError, InputError, require_file
from ..filesystem.safe_reading import AnyPath, open_input, path_text
from ..kinds.wrong_kind_advice import model_error
from .ge_text import parse_text
from .graph import ModelGraph
from .graph_builder import GraphBuilder, Notes, clean_name
from .omjson import MAX_BYTES, decode_text, parse_json
from .torchair_graph import from_tensorboard, graph_of_file

_OM_MAGIC = b"IMOD"
_MOST_LETTERS = 300

Parameters = List[Tuple[str, str]]
"""The attributes of an op as text: (name, value)."""


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
