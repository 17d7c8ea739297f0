"""JSON that people write: read strictly and in bounds, with the place of every key and value, and
what is wrong in words for people.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, Dict, List, NoReturn, Optional, Tuple, Union

import numpy as np

#: Keys and indices from the document's root.
Path = Tuple[Union[str, int], ...]

#: What the consumer of acl.json takes; enough for every other document too.
MAX_BYTES = 10 * 1024 * 1024
MAX_DEPTH = 10

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.S)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WORDS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "NaN": "null",
    "Infinity": "null",
    "-Infinity": "null",
    "undefined": "null",
}


class JsonProblem(ValueError):
    """A text that is no JSON, or more of it than is read.

    Attributes
    ----------
    rule
        ``file-too-large``, ``file-too-deep``, ``not-utf8``, ``json-syntax``, ``json-comment`` or
        ``json-trailing-comma``.
    message, fix
        What is wrong, and what to do.
    line, column
        Counted from 1, in characters.
    """

    def __init__(self, rule: str, message: str, fix: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.fix = fix
        self.line = line
        self.column = column


class _NotFinite(ValueError):
    """A number or word that JSON does not know."""


class JsonText:
    """A parsed text with the places of its parts.

    Attributes
    ----------
    text
        The text without a byte order mark.
    value
        The parsed document; of duplicate keys the last one wins.
    has_mark
        Whether the file began with a byte order mark.
    """

    def __init__(self, text: str, value: Any, has_duplicates: bool, has_mark: bool = False) -> None:
        self.has_mark = has_mark
        self.text = text
        self.value = value
        self.has_duplicates = has_duplicates
        self._lines: Optional[List[int]] = None
        self._root: Any = None
        self._duplicates: List[Tuple[Path, int]] = []
        self._last: Optional[Tuple[Path, Any]] = None

    def place(self, path: Path, at_key: bool = False) -> Tuple[int, int]:
        """Return line and column (from 1, in characters) of a value or of its key; of its nearest
        parent when it is absent.
        """
        return self.line_column(self.offset(path, at_key))

    def offset(self, path: Path, at_key: bool = False) -> int:
        """Return the character offset of a value or of its key; of its nearest parent when it is
        absent.
        """
        # Findings come in runs below one list: its node is kept.
        if self._last is None or path[:-1] != self._last[0]:
            self._last = (path[:-1], self._node(path[:-1]))
        parent = self._last[1]
        if not path or parent is None:
            return _offset(self._nearest(path))
        key_offset, node = _child(parent, path[-1])
        if node is None:
            return _offset(parent)
        return key_offset if at_key else _offset(node)

    def _node(self, path: Path) -> Any:
        """Return the node at ``path``, or None."""
        node = self._tree()
        for part in path:
            node = _child(node, part)[1]
        return node

    def _nearest(self, path: Path) -> Any:
        """Return the deepest node along ``path`` that is there."""
        node = self._tree()
        for part in path:
            inner = _child(node, part)[1]
            if inner is None:
                break
            node = inner
        return node

    def duplicates(self) -> List[Tuple[Path, Tuple[int, int]]]:
        """Return the path of every repeated key and the place of the repetition."""
        if not self.has_duplicates:
            return []
        self._tree()
        return [(path, self.line_column(offset)) for path, offset in self._duplicates]

    def line_column(self, offset: int) -> Tuple[int, int]:
        """Return line and column of a character offset."""
        if self._lines is None:
            self._lines = [0] + [match.end() for match in re.finditer("\n", self.text)]
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _tree(self) -> Any:
        if self._root is None:
            self._root = self._scan()
        return self._root

    def _scan(self) -> Any:
        """Return the tree of offsets: an int for a scalar, ``(offset, children)`` for a container.

        The text is known to be valid JSON of bounded depth, so tokens need no checking here.
        """
        stack: List[Any] = []
        names: List[Any] = []
        root: Any = None
        key: Optional[Tuple[str, int]] = None
        expects_key = False
        for match in _TOKEN.finditer(self.text):
            token, offset = match.group(), match.start()
            if token in (",", ":"):
                expects_key = token == "," and isinstance(stack[-1][1], dict)
                continue
            if token in ("}", "]"):
                stack.pop()
                names.pop()
                continue
            if expects_key:
                key, expects_key = (json.loads(token), offset), False
                continue
            node: Any = offset if token not in ("{", "[") else (offset, {} if token == "{" else [])
            name = self._attach(stack, names, key, node)
            if not stack:
                root = node
            if isinstance(node, tuple):
                stack.append(node)
                names.append(name)
                expects_key = token == "{"
        return root

    def _attach(
        self, stack: List[Any], names: List[Any], key: Optional[Tuple[str, int]], node: Any
    ) -> Any:
        """Put ``node`` below the open container; return its name there."""
        if not stack:
            return None
        children = stack[-1][1]
        if isinstance(children, list):
            children.append(node)
            return len(children) - 1
        assert key is not None
        if key[0] in children:
            self._duplicates.append((tuple(names[1:]) + (key[0],), key[1]))
        children[key[0]] = (key[1], node)
        return key[0]


def _offset(node: Any) -> int:
    return node[0] if isinstance(node, tuple) else int(node)


def _child(node: Any, part: Any) -> Tuple[int, Any]:
    """Return the offset of the key (of the value in a list) and the node below ``node``; the node
    is None when it is absent.
    """
    children = node[1] if isinstance(node, tuple) else None
    if isinstance(children, dict) and part in children:
        key_offset, inner = children[part]
        return key_offset, inner
    if isinstance(children, list) and isinstance(part, int) and part < len(children):
        return _offset(children[part]), children[part]
    return 0, None


def parse_json(data: bytes, what: str = "file") -> JsonText:
    """Parse the bytes of a file, at most ``MAX_BYTES`` of them.

    Parameters
    ----------
    what
        What messages call it.

    Raises
    ------
    JsonProblem
        They are no JSON, not UTF-8, too many or nested too deeply.
    """
    if len(data) > MAX_BYTES:
        raise JsonProblem(
            "file-too-large", "the %s is larger than 10 MiB" % what, "leave out what is not needed"
        )
    text = _decoded(data, what)
    _require_shallow(data)
    return _parse(text[1:], True, what) if text.startswith("\ufeff") else _parse(text, False, what)


def _decoded(data: bytes, what: str) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise JsonProblem(
            "not-utf8",
            "the %s is UTF-16, not UTF-8" % what,
            "save the file as UTF-8 without a byte order mark",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        start = data.rfind(b"\n", 0, error.start) + 1
        column = len(data[start : error.start].decode("utf-8", "replace")) + 1
        message = "byte 0x%02x at offset %d is not UTF-8" % (data[error.start], error.start)
        raise JsonProblem("not-utf8", message, "save the file as UTF-8", line, column) from None


def _require_shallow(data: bytes) -> None:
    """Check the depth as the consumer of acl.json counts it: over raw characters, those in strings
    included.
    """
    for opening, closing in ((b"{", b"}"), (b"[", b"]")):
        raw = np.frombuffer(data, dtype=np.uint8)
        raw = raw[(raw == opening[0]) | (raw == closing[0])]
        depth = np.cumsum(np.where(raw == opening[0], 1, -1), dtype=np.int32)
        if depth.size and int(depth.max()) > MAX_DEPTH:
            offset = _offset_of(data, opening, closing, int(np.argmax(depth > MAX_DEPTH)))
            message = "%r is nested %d deep, at most %d are allowed (also inside strings)" % (
                opening.decode(),
                int(depth.max()),
                MAX_DEPTH,
            )
            raise JsonProblem(
                "file-too-deep", message, "nest less deeply", data.count(b"\n", 0, offset) + 1
            )


def _offset_of(data: bytes, opening: bytes, closing: bytes, index: int) -> int:
    raw = np.frombuffer(data, dtype=np.uint8)
    return int(np.flatnonzero((raw == opening[0]) | (raw == closing[0]))[index])


def _parse(text: str, has_mark: bool, what: str) -> JsonText:
    duplicate = []

    def pairs(items: List[Tuple[str, Any]]) -> Dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            duplicate.append(True)
        return result

    try:
        value = json.loads(
            text,
            object_pairs_hook=pairs,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        _refuse(text, error.pos, error.msg, what)
    except _NotFinite as error:
        offset = _find_token(text, str(error))
        _refuse(text, offset, "'%s' is no JSON value" % str(error)[:40], what)
    lone = _lone_surrogate(text)
    if lone is not None:
        _refuse(text, lone, "a string holds half of a surrogate pair", what)
    return JsonText(text, value, bool(duplicate), has_mark)


def _constant(word: str) -> Any:
    raise _NotFinite(word)


def _float(word: str) -> float:
    value = float(word)
    if value in (float("inf"), float("-inf")):
        raise _NotFinite(word)
    return value


def _integer(word: str) -> Any:
    # Python refuses integers of thousands of digits; the consumer reads a long one as a float.
    return int(word) if len(word) < 300 else _float(word)


def _find_token(text: str, word: str) -> int:
    return next((match.start() for match in _TOKEN.finditer(text) if match.group() == word), 0)


def _lone_surrogate(text: str) -> Optional[int]:
    if not _SURROGATE.search(text):
        return None
    for match in _TOKEN.finditer(text):
        if match.group()[0] == '"' and _SURROGATE.search(match.group()):
            try:
                json.loads(match.group()).encode("utf-8")
            except UnicodeEncodeError:
                return match.start()
    return None


def _refuse(text: str, offset: int, reason: str, what: str) -> NoReturn:
    """Say what breaks the JSON at ``offset``: a comment, a trailing comma, a Python word,
    quotes.
    """
    line, column = JsonText(text, None, False).line_column(offset)
    rule, message, fix = "json-syntax", "not JSON: %s" % reason, "correct the JSON at this line"
    rest, before = text[offset : offset + 20], text[max(0, offset - 200) : offset].rstrip()
    after = text[offset + 1 : offset + 200].lstrip()
    word = re.match(r"[-A-Za-z]*", rest)
    missing = _unclosed(text) if not rest.strip() else ""
    if not text.strip():
        message, fix = "the %s holds only blanks" % what, "write what it should say"
    elif missing:
        message, fix = (
            "the text ends before it is complete; %s is missing" % missing,
            "add %s at the end" % missing,
        )
    elif rest.startswith(("//", "/*", "#")):
        rule, message, fix = "json-comment", "JSON has no comments", "delete the comment"
    elif rest.startswith(("}", "]")) and before.endswith(","):
        rule, message, fix = (
            "json-trailing-comma",
            "a comma stands before %s" % rest[0],
            "delete the comma before %s" % rest[0],
        )
    elif rest.startswith(",") and after[:1] in ("}", "]"):
        rule, message, fix = (
            "json-trailing-comma",
            "a comma stands before %s" % after[0],
            "delete the comma before %s" % after[0],
        )
    elif rest.startswith("'"):
        message, fix = "strings need double quotes", "write \" instead of '"
    elif word and word.group() in _WORDS:
        message, fix = "%s is no JSON value" % word.group(), "write %s" % _WORDS[word.group()]
    elif reason.startswith("Extra data"):
        message, fix = "text follows the end of the document", "delete what follows"
    raise JsonProblem(rule, message, fix, line, column)


def _unclosed(text: str) -> str:
    """Return the brackets that close what is still open at the end of the text, in the order in
    which they must follow.
    """
    pairs = {"{": "}", "[": "]"}
    expected: List[str] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in pairs:
            expected.append(pairs[token])
        elif expected and token == expected[-1]:
            expected.pop()
    return "".join(reversed(expected))
