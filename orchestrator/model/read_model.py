"""Reads a model's file: the json that atc makes, or GE's or TorchAir's graph as text; with all
attributes of each op as text, where they are to be shown.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from typing import Any, Dict, List, Match, Optional, Tuple

from ..base.errors import FormatError, GoldwatchError, InputError, require_file
from ..base.safe_reading import AnyPath, open_input, path_text
from .graph import ModelGraph
from .graph_builder import GraphBuilder, Notes, clean_name
from .omjson import KEPT_ATTRS, MAX_BYTES, MAX_DEPTH, decode_text, parse_json

_REPEATED = frozenset(
    ["graph", "node", "op", "input", "input_desc", "output_desc", "attr", "dim", "subgraph_name"]
)
_WANTED = _REPEATED | frozenset(
    ["name", "type", "id", "dtype", "layout", "shape", "key", "value", "s", "i", "b", "f", "list"]
)
_BLANK = r"\s*(?:\#[^\n]*(?:\n|\Z)\s*)*"
_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|\'[^\'\\\n]*(?:\\.[^\'\\\n]*)*\''
_SCALAR = r"[^\s{}<>\[\]\"'#:,;]+"
_FIELDS = r"(?:\w+:\s*(?:%s|%s)\s+)*" % (_STRING, _SCALAR)
# An unused attribute as GE writes it, skipped in one match: most of a file.
_SKIP = r'(?P<skip>attr\s*\{\s*key:\s*"(?!\[[io]\]|(?:%s)")[^"\\\n]*"\s*value\s*\{\s*(?:list\s*\{\s*%s\}\s*|%s)\}\s*\})|' % (  # noqa: E501
    "|".join(sorted(map(re.escape, KEPT_ATTRS))), _FIELDS, _FIELDS,
)  # fmt: skip
_REST = (
    r"(?P<name>\w+|\[[\w./-]+\])%s(?::%s(?:(?P<scalar>%s)|(?P<string>%s)|(?P<short>\[))|:?%s(?P<open>[{<]))"
    r"|(?P<close>[}>])|(?P<more>%s)|(?P<separator>[,;])|(?P<end>\Z))"
    % (_BLANK, _BLANK, _SCALAR, _STRING, _BLANK, _STRING)
)
_TOKEN = re.compile("%s(?:%s%s" % (_BLANK, _SKIP, _REST), re.ASCII)
_EVERY_TOKEN = re.compile("%s(?:%s" % (_BLANK, _REST), re.ASCII)
_MORE = re.compile("%s(%s)" % (_BLANK, _STRING), re.ASCII)
_ITEM = re.compile(
    r"%s(?:(?P<string>%s)|(?P<scalar>%s)|(?P<comma>,)|(?P<close>\]))" % (_BLANK, _STRING, _SCALAR),
    re.ASCII,
)
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})\Z")
# A message takes 250 bytes of memory; GE writes more than a hundred for each one that is kept.
_BYTES_PER_MESSAGE = 32
_LEAST_BYTES_PER_MESSAGE = 8
_FREE_MESSAGES = 1 << 20
_CLOSER = {"{": "}", "<": ">"}
_HINT = (
    "expected the text form of a GE graph (ge_proto_*.txt), or the json that atc --mode=5 makes "
    "of it"
)


class _Frame:
    """One open message; ``node`` is None inside a message that is skipped."""

    __slots__ = ("node", "closer", "is_list", "where")

    def __init__(
        self, node: Optional[Dict[str, Any]], closer: str, is_list: bool, where: int
    ) -> None:
        self.node = node
        self.closer = closer
        self.is_list = is_list
        self.where = where

    def store(self, name: str, value: Any) -> None:
        """Store one field: appended if it may repeat, else the last value wins."""
        node = self.node
        if node is None or name not in _WANTED:
            return
        if self.is_list or name in _REPEATED:
            node.setdefault(name, []).append(value)
        else:
            node[name] = value

    def replace_last(self, name: str, value: Any) -> None:
        """Replace the value stored last under ``name``."""
        node = self.node
        if node is None or name not in _WANTED:
            return
        if isinstance(node[name], list):
            node[name][-1] = value
        else:
            node[name] = value


# One function: the branches of the token loop share the parser's state.
def parse_text(text: str, path: str, every: bool = False) -> Dict[str, Any]:
    """Parse a graph in text form to the same tree as its json; unused fields are left out.

    Parameters
    ----------
    every
        Keep all attributes, at several times the memory.

    Raises
    ------
    FormatError
        The text breaks the grammar, is cut short, or is nested deeper than 100; the message names
        the line.
    """
    root: Dict[str, Any] = {}
    frame = _Frame(root, "", False, 0)
    stack: List[_Frame] = []
    position, last, messages = 0, "", 0
    limit = max(
        _FREE_MESSAGES, len(text) // (_LEAST_BYTES_PER_MESSAGE if every else _BYTES_PER_MESSAGE)
    )
    match = (_EVERY_TOKEN if every else _TOKEN).match
    while True:
        token = match(text, position)
        if token is None:
            raise _error(
                text,
                position,
                path,
                "cannot be read from here: %s" % ascii(text[position : position + 40].strip()),
            )
        kind = token.lastgroup
        position = token.end()
        if kind == "scalar":
            frame.store(token.group("name"), _scalar(token.group("scalar")))
        elif kind == "string":
            last = token.group("name")
            from ..netfiles.protobuf_text import unquote

            frame.store(last, unquote(token.group("string")))
            continue
        elif kind == "open":
            if len(stack) >= MAX_DEPTH:
                raise _error(text, position, path, "nested deeper than %d" % MAX_DEPTH)
            stack.append(frame)
            frame = _open(frame, token)
            messages += frame.node is not None
            if messages > limit:
                raise _error(
                    text,
                    position,
                    path,
                    "%d messages so far: no model of %d characters has so many"
                    % (messages, len(text)),
                )
        elif kind == "close":
            if not stack or token.group("close") != frame.closer:
                raise _error(text, position, path, "%s closes nothing" % token.group("close"))
            frame = stack.pop()
        elif kind == "short":
            position = _short_list(text, position, path, frame, token.group("name"))
        elif kind == "more":
            if not last:
                raise _error(text, position, path, "a string without a field name")
            pieces, position = _joined(text, token)
            first = frame.node[last] if frame.node is not None and last in _WANTED else ""
            frame.replace_last(last, (first[-1] if isinstance(first, list) else first) + pieces)
        elif kind == "end":
            break
        last = ""
    if stack:
        raise _error(
            text,
            frame.where,
            path,
            "the message that starts here is not closed: the file is cut short",
        )
    return root


def _open(parent: _Frame, token: Match[str]) -> _Frame:
    name = token.group("name")
    closer = _CLOSER[token.group("open")]
    if parent.node is None or name not in _WANTED:
        return _Frame(None, closer, False, token.end())
    node: Dict[str, Any] = {}
    parent.store(name, node)
    return _Frame(node, closer, name == "list", token.end())


def _short_list(text: str, position: int, path: str, frame: _Frame, name: str) -> int:
    """Read ``[…]`` behind ``name:`` and return the position behind it."""
    while True:
        item = _ITEM.match(text, position)
        if item is None:
            raise _error(
                text, position, path, "a list in [] may hold only numbers, names and strings"
            )
        position = item.end()
        if item.lastgroup == "close":
            return position
        if item.lastgroup == "string":
            from ..netfiles.protobuf_text import unquote

            frame.store(name, unquote(item.group("string")))
        elif item.lastgroup == "scalar":
            frame.store(name, _scalar(item.group("scalar")))


def _joined(text: str, token: Match[str]) -> Tuple[str, int]:
    """Return the adjacent strings that start with ``token`` as one, and the position behind
    them.
    """
    from ..netfiles.protobuf_text import unquote

    pieces = [unquote(token.group("more"))]
    position = token.end()
    while True:
        more = _MORE.match(text, position)
        if more is None:
            return "".join(pieces), position
        pieces.append(unquote(more.group(1)))
        position = more.end()


def _scalar(text: str) -> Any:
    if text == "true":
        return True
    if text == "false":
        return False
    return int(text, 0 if "x" in text or "X" in text else 10) if _INTEGER.match(text) else text


def _error(text: str, position: int, path: str, what: str) -> FormatError:
    return FormatError("line %d: %s" % (text.count("\n", 0, position) + 1, what), path, hint=_HINT)


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
    wrong: Optional[GoldwatchError] = None
    try:
        graph, parameters = _load(path, every)
    except FormatError as error:
        wrong = error
    if wrong is not None or not graph.ops:
        from ..kinds.wrong_kind_advice import model_error

        wrong = model_error(path) or wrong
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
        from .torchair_graph import from_tensorboard, graph_of_file

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
        "this is an offline model (.om); its json is needed",
        "make the json with: " + command,
        path,
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
