"""Parses protobuf text format without a schema: a tree whose fields and values know their positions
in the text.

Source of the grammar: the public text format specification of Protocol Buffers.
"""

from __future__ import annotations

import re
from typing import Callable, List, NoReturn, Optional, Sequence, Tuple, TypeVar

from ..base.errors import FormatError

DEPTH_LIMIT = 100
_INTEGER_LIMIT = 1 << 63
# More digits than 64 bits have in any notation.
_INTEGER_DIGITS = 40
T = TypeVar("T")

# Each pattern has one way only to match a text, so that no input makes it backtrack for long.
_BLANK = r"[ \t\r\n\f\v]*(?:\#[^\n]*(?:\n|\Z)[ \t\r\n\f\v]*)*"
_STRING = r""""(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'"""
_TOKEN = re.compile(
    r"%s(?:(?P<string>%s)|(?P<word>[A-Za-z0-9_.+\-]+)|(?P<mark>[{}<>\[\]:;,/])|(?P<end>\Z))"
    % (_BLANK, _STRING)
)
_SPACE = re.compile(_BLANK)
_CLOSING = {"{": "}", "<": ">"}
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z|[0-9]+\Z")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?[fF]?|\.[0-9]+(?:[eE][+-]?[0-9]+)?[fF]?)\Z"
)
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0([0-7]+)|([1-9][0-9]*|0))\Z")
_SCALAR_WORD = re.compile(r"-?[A-Za-z_][A-Za-z0-9_.]*\Z")
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv\\'\"?]))"
)
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}


class Value:
    """One value: a scalar word, a string (perhaps of several adjacent pieces), or a message.

    Attributes
    ----------
    start, end
        Its position in the text; offsets in characters.
    text
        The word, or the string's decoded content; empty for a message.
    pieces
        The spans of a string's pieces, quotes included; empty for anything else.
    message
        The message, or None for a scalar.
    """

    __slots__ = ("start", "end", "text", "pieces", "message")

    def __init__(
        self,
        start: int,
        end: int,
        text: str,
        pieces: Sequence[Tuple[int, int]] = (),
        message: Optional[Message] = None,
    ) -> None:
        self.start = start
        self.end = end
        self.text = text
        self.pieces = pieces
        self.message = message


class Field:
    """A field with its value, or with the values of a list.

    Attributes
    ----------
    start, end
        From the name to the end of the value, and of the separator behind it, if any.
    commas
        For a list, the offsets of the commas between its elements.
    """

    __slots__ = ("name", "start", "end", "values", "is_list", "commas")

    def __init__(
        self,
        name: str,
        start: int,
        end: int,
        values: List[Value],
        is_list: bool = False,
        commas: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.values = values
        self.is_list = is_list
        self.commas = commas


class Message:
    """The fields of one message in the order of the text."""

    __slots__ = ("fields",)

    def __init__(self, fields: List[Field]) -> None:
        self.fields = fields

    def values(self, name: str) -> List[Value]:
        """Return the values of every field of this name, lists flattened."""
        return [value for field in self.fields if field.name == name for value in field.values]

    def messages(self, name: str) -> List[Message]:
        """Return the messages of every field of this name."""
        return [value.message for value in self.values(name) if value.message is not None]

    def message(self, name: str) -> Message:
        """Return one message with the fields of every message of this name (as protobuf merges
        them), empty when absent.
        """
        messages = self.messages(name)
        return (
            messages[0]
            if len(messages) == 1
            else Message([field for message in messages for field in message.fields])
        )

    def texts(self, name: str) -> List[str]:
        """Return the scalar values of every field of this name."""
        return [value.text for value in self.values(name) if value.message is None]

    def text(self, name: str, default: str = "") -> str:
        """Return the last scalar value of this name."""
        texts = self.texts(name)
        return texts[-1] if texts else default

    def has(self, name: str) -> bool:
        """Return whether a field of this name is present."""
        return any(field.name == name for field in self.fields)

    def number(self, name: str, default: float) -> float:
        """Return the last numeric value of this name.

        Raises
        ------
        FormatError
            It is not a number.
        """
        texts = self.texts(name)
        return _named(name, number_of, texts[-1]) if texts else default

    def integers(self, name: str) -> List[int]:
        """Return the integers of every field of this name; FormatError where one is none."""
        return [_named(name, integer_of, text) for text in self.texts(name)]

    def integer(self, name: str, default: int) -> int:
        """Return the last integer of this name; FormatError when it is none."""
        integers = self.integers(name)
        return integers[-1] if integers else default


def _named(name: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except FormatError as error:
        raise FormatError("%s: %s" % (name, error.message)) from error


def number_of(text: str) -> float:
    """Return the number that a scalar word stands for.

    Raises
    ------
    FormatError
        It is not a number.
    """
    if _INTEGER.match(text):
        return float(integer_of(text))
    word = text.lower()
    try:
        return float(word[:-1] if word.endswith("f") and word.lstrip("+-") != "inf" else word)
    except ValueError as error:
        raise FormatError("%s is not a number" % _shown(text)) from error


def integer_of(text: str) -> int:
    """Return the integer that a scalar word stands for: decimal, ``0x`` hexadecimal or ``0`` octal,
    within 64 bits.

    Raises
    ------
    FormatError
        It is not an integer, or too large for protobuf.
    """
    match = _INTEGER.match(text) if len(text) <= _INTEGER_DIGITS else None
    if match is None:
        raise FormatError("%s is not a 64-bit integer" % _shown(text))
    sign, hexadecimal, octal, decimal = match.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    if value >= _INTEGER_LIMIT:
        raise FormatError("%s is not a 64-bit integer" % _shown(text))
    return -value if sign == "-" else value


def quote(content: str, mark: str = '"') -> str:
    """Return a string literal between two quotation marks of a kind."""
    out = []
    for character in content:
        if character in (mark, "\\"):
            out.append("\\" + character)
        elif character < " " or character == "\x7f":
            out.append("\\%03o" % ord(character))
        else:
            out.append(character)
    return mark + "".join(out) + mark


def unquote(literal: str) -> str:
    """Return the content of one string literal; octal and hexadecimal escapes are bytes, put
    together as UTF-8.
    """
    body = literal[1:-1]
    if "\\" not in body:
        return body
    out = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        out += body[position : match.start()].encode("utf-8", "surrogateescape")
        octal, hexadecimal, short, long, simple = match.groups()
        if octal or hexadecimal:
            out.append(int(octal, 8) & 255 if octal else int(hexadecimal, 16))
        elif short or long:
            out += chr(min(int(short or long, 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
        else:
            out += _SIMPLE[simple].encode("ascii")
        position = match.end()
    out += body[position:].encode("utf-8", "surrogateescape")
    return bytes(out).decode("utf-8", "surrogateescape")


def parse(text: str, path: Optional[str] = None) -> Message:
    """Return the message that a whole text holds; a byte order mark at its start is passed over.

    Raises
    ------
    FormatError
        The text breaks the grammar, or messages are nested deeper than protobuf itself allows; line
        and column are told.
    """
    return _Parser(text, path).whole()


class _Parser:
    """Recursive descent; the token at hand is ``kind``, ``token``, ``start`` and ``end``, and
    ``before`` is the end of the one before.
    """

    def __init__(self, text: str, path: Optional[str]) -> None:
        self.text = text
        self.path = path
        self.depth = 0
        self.before = self.end = 1 if text.startswith("\ufeff") else 0
        self.advance()

    def advance(self) -> None:
        """Advance to the next token."""
        self.before = self.end
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            # Raise for an invalid token: an unterminated string, or an invalid character.
            space = _SPACE.match(self.text, self.end)
            at = space.end() if space is not None else self.end
            if self.text[at] in "\"'":
                self.fail(at, "a string that does not end on its line")
            self.fail(at, "expected a field name or a value, got %s" % _shown(self.text[at]))
        self.kind = kind = match.lastgroup or ""
        self.token = match.group(kind)
        self.start, self.end = match.span(kind)

    def fail(self, offset: int, message: str) -> NoReturn:
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        hint = "a prototxt in protobuf's text format is expected"
        raise FormatError("line %d column %d: %s" % (line, column, message), self.path, hint=hint)

    def expected(self, what: str) -> NoReturn:
        self.fail(self.start, "expected %s, got %s" % (what, _shown(self.token)))

    def whole(self) -> Message:
        """Return the message up to the end of the text."""
        fields = []
        while self.kind != "end":
            fields.append(self.field())
        return Message(fields)

    def field(self) -> Field:
        """Return a field with its values and the separator behind it."""
        start, name = self.start, self.name()
        colon = self.token == ":"
        if colon:
            self.advance()
        commas: Sequence[int] = ()
        is_list = self.token == "["
        if is_list:
            values, commas = self.list()
        elif self.token in _CLOSING or (colon and self.kind in ("string", "word")):
            values = [self.value()]
        else:
            self.expected("a value" if colon else "':' or '{' after %s" % name)
        end = self.before
        if self.kind == "mark" and self.token in ";,":
            end = self.end
            self.advance()
        return Field(name, start, end, values, is_list, commas)

    def name(self) -> str:
        """Return a field's name: a word, or ``[package.extension]`` or ``[host/type]`` with its
        brackets.
        """
        start = self.start
        if self.token == "[":
            self.advance()
            while self.kind == "word" or self.token == "/":
                self.advance()
            if self.token != "]":
                self.expected("a field name")
        elif self.kind != "word" or not _FIELD_NAME.match(self.token):
            self.expected("a field name")
        name = self.text[start : self.end]
        self.advance()
        return name

    def list(self) -> Tuple[List[Value], List[int]]:
        """Return the values between brackets and the offsets of the commas."""
        values: List[Value] = []
        commas: List[int] = []
        self.advance()
        while self.token != "]":
            if values:
                if self.token != ",":
                    self.expected("',' or ']'")
                commas.append(self.start)
                self.advance()
            values.append(self.value())
        self.advance()
        return values, commas

    def value(self) -> Value:
        """Return a message, a string or a word."""
        if self.token in _CLOSING:
            return self.message()
        if self.kind == "string":
            return self.string()
        start, word = self.start, self.token
        if word == "-":
            self.advance()
            word += self.token
        if self.kind != "word" or not (_NUMBER.match(word) or _SCALAR_WORD.match(word)):
            self.expected("a value")
        self.advance()
        return Value(start, self.before, word)

    def string(self) -> Value:
        """Return a string of one or more adjacent pieces."""
        start, content = self.start, ""
        pieces: Tuple[Tuple[int, int], ...] = ()
        while self.kind == "string":
            pieces += ((self.start, self.end),)
            content += unquote(self.token)
            self.advance()
        return Value(start, self.before, content, pieces)

    def message(self) -> Value:
        """Return a message between braces."""
        start, closing = self.start, _CLOSING[self.token]
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            self.fail(start, "messages nested deeper than %d" % DEPTH_LIMIT)
        self.advance()
        fields = []
        while self.token != closing:
            if self.kind == "end" or self.token in ("}", ">"):
                line = self.text.count("\n", 0, start) + 1
                self.fail(
                    self.start,
                    "the message opened in line %d is not closed before %s"
                    % (line, _shown(self.token)),
                )
            fields.append(self.field())
        self.depth -= 1
        self.advance()
        return Value(start, self.before, "", (), Message(fields))


def _shown(token: str) -> str:
    return repr(token[:40]) if token else "the end of the file"
