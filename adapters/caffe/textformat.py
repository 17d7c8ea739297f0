"""Protobuf text format without a schema: a tree whose every field and value knows where in the text it stands.

Source of the grammar: the public text format specification of Protocol Buffers.
"""

from __future__ import annotations

import re
from typing import List, Match, NoReturn, Optional, Sequence, Tuple

from ...errors import FormatError

DEPTH_LIMIT = 100

# Each pattern has one way only to match a text, so that no input makes it backtrack for long.
_BLANK = r"[ \t\r\n\f\v]*(?:\#[^\n]*(?:\n|\Z)[ \t\r\n\f\v]*)*"
_STRING = r""""(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'"""
_WORD = r"[A-Za-z0-9_.+\-]+"
_SPACE = re.compile(_BLANK)
_LITERAL = re.compile(_STRING)
_WORD_TOKEN = re.compile(_WORD)
_SEPARATOR = re.compile(_BLANK + r"[;,]")
_MORE = re.compile(_BLANK + r"(?=[\"'])")
_FIELD = re.compile(
    r"(?P<name>%s)%s(?P<colon>:%s)?(?:(?P<string>%s)|(?P<opening>[{<\[])|(?P<word>%s))?" % (_WORD, _BLANK, _BLANK, _STRING, _WORD)
)
_JUMP = re.compile(r"""[^"'\#{}<>]*(?:(?:%s|\#[^\n]*(?:\n|\Z))[^"'\#{}<>]*)*""" % _STRING)
# Whole fields of the usual kinds with the blanks behind them, one step each: a scalar; a message with at most one level inside it.
_PLAIN = r"""[^"'\#{}<>]*(?:(?:%s)[^"'\#{}<>]*)*""" % _STRING
_SCALAR_FIELD = r""":%s(?:(?P<string>%s)(?!%s["'])|(?P<word>[A-Za-z_]+|-?[0-9]+)(?![A-Za-z0-9_.+\-]))""" % (_BLANK, _STRING, _BLANK)
_FLAT_FIELD = r"(?::%s)?(?P<flat>\{%s(?:\{%s\}%s)*\})" % (_BLANK, _PLAIN, _PLAIN, _PLAIN)
_QUICK_NAME = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)" + _BLANK
_QUICK_END = r"(?P<separator>%s[;,])?%s" % (_BLANK, _BLANK)
_QUICK_SCALAR = re.compile("%s(?P<flat>(?!))?%s%s" % (_QUICK_NAME, _SCALAR_FIELD, _QUICK_END))
_QUICK = re.compile("%s(?:%s|%s)%s" % (_QUICK_NAME, _FLAT_FIELD, _SCALAR_FIELD, _QUICK_END))
_CLOSING = {"{": "}", "<": ">"}
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z|[0-9]+\Z")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?[fF]?|\.[0-9]+(?:[eE][+-]?[0-9]+)?[fF]?)\Z")
_SCALAR_WORD = re.compile(r"-?[A-Za-z_][A-Za-z0-9_.]*\Z")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv\\'\"?]))")
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?"}


class Value:
    """One value: a scalar word, a string (perhaps of several adjacent pieces), or a message.

    Attributes
    ----------
    start, end
        Where it stands in the text; offsets in characters.
    text
        The word, or the string's decoded content; empty for a message.
    pieces
        The spans of a string's pieces, quotes included; empty for anything else.
    is_message
        Whether it is a message.
    message
        The message, or None for a scalar.
    """

    __slots__ = ("start", "end", "text", "pieces")

    is_message = False

    def __init__(self, start: int, end: int, text: str, pieces: Sequence[Tuple[int, int]]) -> None:
        self.start = start
        self.end = end
        self.text = text
        self.pieces = pieces

    @property
    def message(self) -> Optional[Message]:
        """None: a scalar is no message."""
        return None


class MessageValue(Value):
    """A message, parsed when it is first looked into (or given)."""

    __slots__ = ("_message", "_parser")

    is_message = True

    def __init__(self, start: int, end: int, message: Optional[Message], parser: Parser) -> None:
        self.start = start
        self.end = end
        self.text = ""
        self.pieces = ()
        self._message = message
        self._parser = parser

    @property
    def message(self) -> Message:
        """The message."""
        if self._message is None:
            self._message = self._parser.message_between(self.start + 1, self.end - 1)
        return self._message


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

    def __init__(self, name: str, start: int, end: int, values: List[Value], is_list: bool = False, commas: Sequence[int] = ()) -> None:
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
        """Return one message with the fields of every message of this name (as protobuf merges them), empty when absent."""
        found = self.messages(name)
        return found[0] if len(found) == 1 else Message([field for message in found for field in message.fields])

    def texts(self, name: str) -> List[str]:
        """Return the scalar values of every field of this name."""
        return [value.text for value in self.values(name) if not value.is_message]

    def text(self, name: str, default: str = "") -> str:
        """Return the last scalar value of this name."""
        found = self.texts(name)
        return found[-1] if found else default

    def has(self, name: str) -> bool:
        """Tell whether a field of this name is present."""
        return any(field.name == name for field in self.fields)

    def number(self, name: str, default: float) -> float:
        """Return the last numeric value of this name."""
        text = self.text(name, "")
        return default if text == "" else number_of(text)


def number_of(text: str) -> float:
    """Return the number that a scalar word stands for.

    Raises
    ------
    FormatError
        It is not a number.
    """
    word = text.lower()
    try:
        if "0x" in word:
            return float(int(word, 16))
        if len(word) > 1 and word.isdigit() and word[0] == "0":
            return float(int(word, 8))
        return float(word[:-1] if word.endswith("f") and word.lstrip("+-") not in ("inf",) else word)
    except ValueError as error:
        raise FormatError("%r is not a number" % text) from error


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
    """Return the content of one string literal; octal and hexadecimal escapes are bytes, put together as UTF-8."""
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


class Parser:
    """A scanner that makes one step a field and jumps over messages that nobody has asked for; depth is bounded as in protobuf itself."""

    def __init__(self, text: str, path: Optional[str]) -> None:
        self.text = text
        self.path = path

    def _fail(self, offset: int, message: str) -> NoReturn:
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        hint = "a prototxt in protobuf's text format is expected"
        raise FormatError("line %d column %d: %s" % (line, column, message), self.path, hint=hint)

    def message_between(self, start: int, end: int, eager: int = 0) -> Message:
        """Parse the fields of one message; those inside at once down to ``eager`` levels, others when they are asked for."""
        return self._fields(start, end, "", eager)[0]

    def _fields(self, start: int, end: int, closing: str, eager: int) -> Tuple[Message, int]:
        """Parse fields up to ``end``, or up to the closing brace; return them with the offset behind it."""
        fields: List[Field] = []
        text, match_field, match_space = self.text, _FIELD.match, _SPACE.match
        match_quick = (_QUICK_SCALAR if eager else _QUICK).match
        at = self._blank(start, end)
        while at < end:
            match = match_quick(text, at, end)
            if match is not None:
                fields.append(self._quick(match))
                at = match.end()
                continue
            match = match_field(text, at, end)
            if match is not None:
                name = match.group("name")
                if not _FIELD_NAME.match(name):
                    self._unexpected(at, "a field name")
                field = self._finish(at, name, match.start("colon") >= 0, match, end, eager)
            elif closing and text[at] == closing:
                return Message(fields), at + 1
            elif text[at] == "[":
                field = self._extension(at, end, eager)
            else:
                self._unexpected(at, "a field name")
            fields.append(field)
            space = match_space(text, field.end, end)
            at = space.end() if space is not None else field.end
        if closing:
            self._fail(end, "the message opened in line %d is not closed" % (text.count("\n", 0, start) + 1))
        return Message(fields), end

    def _quick(self, match: Match[str]) -> Field:
        name, flat, string, word, separator = match.groups()
        if string is not None:
            span = match.span(3)
            value = Value(span[0], span[1], unquote(string) if "\\" in string else string[1:-1], (span,))
        elif word is not None:
            value = Value(match.start(4), match.end(4), word, ())
        else:
            value = MessageValue(match.start(2), match.end(2), None, self)
        return Field(name, match.start(), match.end(5) if separator else value.end, [value])

    def _blank(self, at: int, end: int) -> int:
        match = _SPACE.match(self.text, at, end)
        return match.end() if match is not None else at

    def _unexpected(self, at: int, expected: str) -> NoReturn:
        match = _WORD_TOKEN.match(self.text, at)
        shown = match.group() if match is not None else self.text[at : at + 1]
        self._fail(at, "expected %s, got %s" % (expected, _shown(shown)))

    def _extension(self, at: int, end: int, eager: int) -> Field:
        """Parse a field named by ``[package.extension]`` or ``[host/type]``."""
        match = re.compile(r"\[%s%s(?:%s/%s%s)*%s\]" % (_BLANK, _WORD, _BLANK, _BLANK, _WORD, _BLANK)).match(self.text, at, end)
        if match is None:
            self._unexpected(at, "a field name")
        after = self._blank(match.end(), end)
        colon = self.text[after : after + 1] == ":"
        if colon:
            after = self._blank(after + 1, end)
        rest = re.compile(r"(?P<string>%s)|(?P<opening>[{<\[])|(?P<word>%s)|" % (_STRING, _WORD)).match(self.text, after, end)
        return self._finish(at, match.group(), colon, rest, end, eager)

    def _finish(self, start: int, name: str, colon: bool, match: Optional[Match[str]], end: int, eager: int) -> Field:
        """Return the field whose name (and the first token behind it) has been matched."""
        assert match is not None
        commas: List[int] = []
        kind = match.lastgroup
        opening = match.group("opening")
        if opening is not None:
            at = match.start("opening")
            if opening == "[":
                values, stop = self._list(at, end, eager, commas)
            else:
                values = [self._braced(at, end, eager)]
                stop = values[0].end
        elif colon and kind in ("string", "word"):
            values = [self._string(match.start(kind), end) if kind == "string" else self._word(match.start(kind), end)]
            stop = values[0].end
        else:
            self._unexpected(match.end(), "a value" if colon else "':' or '{' after %s" % name)
        separator = _SEPARATOR.match(self.text, stop, end)
        if separator is not None:
            stop = separator.end()
        return Field(name, start, stop, values, opening == "[", commas)

    def _braced(self, start: int, end: int, eager: int) -> Value:
        if eager > 0:
            message, stop = self._fields(start + 1, end, _CLOSING[self.text[start]], eager - 1)
            return MessageValue(start, stop, message, self)
        return MessageValue(start, self._closing(start, end), None, self)

    def _closing(self, start: int, end: int) -> int:
        """Return the offset behind the brace that closes the one at ``start``."""
        text, jump = self.text, _JUMP.match
        stack: List[str] = []
        at = start
        while True:
            mark = text[at] if at < end else ""
            if mark in _CLOSING:
                stack.append(_CLOSING[mark])
                if len(stack) > DEPTH_LIMIT:
                    self._fail(at, "messages nested deeper than %d" % DEPTH_LIMIT)
            elif not mark or mark != stack.pop():
                line = text.count("\n", 0, start) + 1
                self._fail(min(at, end), "the message opened in line %d is not closed before %s" % (line, _shown(mark)))
            at += 1
            if not stack:
                return at
            match = jump(text, at, end)
            at = match.end() if match is not None else at

    def _list(self, start: int, end: int, eager: int, commas: List[int]) -> Tuple[List[Value], int]:
        values: List[Value] = []
        at = self._blank(start + 1, end)
        while self.text[at : at + 1] != "]" or at >= end:
            if values:
                if at >= end or self.text[at] != ",":
                    self._unexpected(at, "',' or ']'")
                commas.append(at)
                at = self._blank(at + 1, end)
            values.append(self._element(at, end, eager))
            at = self._blank(values[-1].end, end)
        return values, at + 1

    def _element(self, at: int, end: int, eager: int) -> Value:
        mark = self.text[at : at + 1] if at < end else ""
        if mark in ("{", "<"):
            return self._braced(at, end, eager)
        return self._string(at, end) if mark in ("'", '"') else self._word(at, end)

    def _string(self, start: int, end: int) -> Value:
        """Parse a string of one or more adjacent pieces."""
        pieces: List[Tuple[int, int]] = []
        content = ""
        at = start
        while True:
            match = _LITERAL.match(self.text, at, end)
            if match is None:
                self._fail(at, "a string that does not end on its line")
            pieces.append(match.span())
            content += unquote(match.group())
            more = _MORE.match(self.text, match.end(), end)
            if more is None or more.end() >= end:
                return Value(start, match.end(), content, pieces)
            at = more.end()

    def _word(self, start: int, end: int) -> Value:
        match = _WORD_TOKEN.match(self.text, start, end)
        if match is None:
            self._unexpected(start, "a value")
        token, stop = match.group(), match.end()
        if token == "-":
            following = _WORD_TOKEN.match(self.text, self._blank(stop, end), end)
            if following is None:
                self._unexpected(stop, "a number")
            token, stop = token + following.group(), following.end()
        if not _NUMBER.match(token) and not _SCALAR_WORD.match(token):
            self._unexpected(start, "a value")
        return Value(start, stop, token, [])


def _shown(token: str) -> str:
    return repr(token[:40]) if token else "the end of the file"
