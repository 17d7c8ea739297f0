"""Parses the text header of an npy file, a Python literal, without compiling it.

Format: NEP 1 and numpy.lib.format. What numpy writes is matched as a whole; any other literal of a
dict with its three keys goes through a small parser, which takes the ``6L`` of Python 2 for a 6.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Dict, List, Match, Optional, Tuple

import numpy as np

_DIM = "(?:0|[1-9][0-9]{0,18})"
_USUAL = re.compile(
    r"\{'descr': '(?P<descr>[<>|=][a-zA-Z?][0-9]{1,6})', 'fortran_order': (?P<order>True|False), "
    rf"'shape': \((?P<shape>|{_DIM},|{_DIM}(?:, {_DIM})+)\),? ?\}} *\n\Z"
)
_TOKEN = re.compile(
    r"[ "
    r"\t\r\n\f]*(?:[ub]?(?P<text>'[^'\\\n]*'|\"[^\"\\\n]*\")|(?P<number>-?(?:0+|[1-9][0-9]{0,24}))[Ll]?(?![\w.])"
    r"|(?P<word>True|False|None)(?!\w)|(?P<mark>[][(){},:])|(?P<end>\Z))"
)
_WORDS = {"True": True, "False": False, "None": None}
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_MAX_DEPTH = 8
_DESCR = re.compile(r"[<>|=]?[a-zA-Z?][0-9]{0,9}(\[[0-9A-Za-z]{1,9}\])?\Z")
_TEXT_KINDS = "aSU"


def parse_header(text: str) -> Tuple[Any, bool, Tuple[int, ...]]:
    """Return ``descr`` (of plain elements a numpy type string), ``fortran_order`` and ``shape`` of
    a header's text.

    Raises
    ------
    ValueError
        It is not such a literal; the message says what it is instead.
    """
    usual = _USUAL.match(text)
    if usual is not None:
        shape = tuple(int(dim) for dim in usual.group("shape").split(",") if dim)
        return usual.group("descr"), usual.group("order") == "True", shape
    tokens = _Tokens(text)
    header = tokens.value(0)
    tokens.expect_end()
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("expected a dict of descr, fortran_order and shape")
    order, shape = header["fortran_order"], header["shape"]
    if not isinstance(order, bool):
        raise ValueError("fortran_order is not True or False")
    if not isinstance(shape, tuple) or not all(
        isinstance(dim, int) and not isinstance(dim, bool) for dim in shape
    ):
        raise ValueError("shape is not a tuple of whole numbers")
    return header["descr"], order, shape


@lru_cache(maxsize=256)
def element_dtype(descr: str) -> Any:
    """Return the numpy dtype of a type string; None for text.

    Raises
    ------
    ValueError
        It is not a type string.
    """
    if _DESCR.match(descr) is None:
        raise ValueError("%r is no element type" % descr[:50])
    if descr.lstrip("<>|=")[0] in _TEXT_KINDS:
        return None
    try:
        return np.dtype(descr)
    except TypeError:
        raise ValueError("%r is no element type" % descr) from None


class _Tokens:
    """Reads one literal of strings, whole numbers, True, False, None, tuples, lists and dicts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._token = self._next()

    def _next(self) -> Match[str]:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            raise ValueError(
                "it cannot be read from %s on" % ascii(self._text[self._at : self._at + 30].strip())
            )
        self._at = token.end()
        return token

    def _take(self) -> Match[str]:
        token = self._token
        self._token = self._next()
        return token

    def _next_is(self, mark: str) -> bool:
        return self._token.group("mark") == mark

    def value(self, depth: int) -> Any:
        """Return the value that begins here."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested deeper than %d" % _MAX_DEPTH)
        token = self._take()
        if token.lastgroup == "text":
            return token.group("text")[1:-1]
        if token.lastgroup == "number":
            return int(token.group("number"))
        if token.lastgroup == "word":
            return _WORDS[token.group("word")]
        mark = token.group("mark")
        if mark == "{":
            return self._dict(depth)
        if mark is not None and mark in _CLOSERS:
            return self._items(_CLOSERS[mark], depth)
        raise ValueError("a value is missing before byte %d" % token.end())

    def _items(self, closer: str, depth: int) -> Any:
        items: List[Any] = []
        comma: Optional[bool] = None
        while not self._next_is(closer):
            items.append(self.value(depth + 1))
            comma = self._comma(closer)
        self._take()
        if closer == "]":
            return items
        # "(3)" is the number, "(3,)" the tuple.
        return items[0] if len(items) == 1 and not comma else tuple(items)

    def _dict(self, depth: int) -> Dict[str, Any]:
        items: Dict[str, Any] = {}
        while not self._next_is("}"):
            key = self.value(depth + 1)
            if not isinstance(key, str) or not self._next_is(":"):
                raise ValueError("expected a name and a colon before byte %d" % self._token.start())
            self._take()
            items[key] = self.value(depth + 1)
            self._comma("}")
        self._take()
        return items

    def _comma(self, closer: str) -> bool:
        if self._next_is(","):
            self._take()
            return True
        if not self._next_is(closer):
            raise ValueError("expected %s before byte %d" % (closer, self._token.end()))
        return False

    def expect_end(self) -> None:
        """Raise ValueError unless nothing follows."""
        if self._token.lastgroup != "end":
            raise ValueError("something follows behind byte %d" % self._token.start())
