"""GE's graph in protobuf text form (``ge_proto_*.txt``) to the same tree as the json, without a
schema and in one linear pass.

Source of the grammar: the Protocol Buffers text format specification (fields with ``{}`` or ``<>``,
``#`` comments, adjacent strings that are joined, C escapes, short lists in ``[]``, separators ``,``
and ``;``).
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Match, Optional, Tuple

from ..errors import FormatError
from ..netfiles.protobuf_text import unquote
from .omjson import KEPT_ATTRS, MAX_DEPTH

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
            frame.store(name, unquote(item.group("string")))
        elif item.lastgroup == "scalar":
            frame.store(name, _scalar(item.group("scalar")))


def _joined(text: str, token: Match[str]) -> Tuple[str, int]:
    """Return the adjacent strings that start with ``token`` as one, and the position behind
    them.
    """
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
