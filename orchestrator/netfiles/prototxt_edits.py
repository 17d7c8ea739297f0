"""A prototxt file and edits of its text: spans are replaced, so everything else stays byte for
byte.

Comments, layout, unknown and vendor-specific fields are never interpreted.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Tuple

from ..base.errors import FormatError, require_file
from ..base.safe_reading import read_input
from .protobuf_text import Field, Value, parse, quote

SIZE_LIMIT_BYTES = 256 * 1024 * 1024


class Document:
    """A parsed text and the pending edits.

    Attributes
    ----------
    text
        The file's text; bytes that are not UTF-8 are kept as surrogates, so that :meth:`data` gives
        them back.
    root
        Its message.
    """

    def __init__(self, text: str, path: Optional[str] = None) -> None:
        self.text = text
        self.path = path
        self.root = parse(text, path)
        self._edits: Dict[Tuple[int, int], str] = {}

    def unedited(self) -> Document:
        """Return the same text and message without any edit."""
        other = Document.__new__(Document)
        other.text, other.path, other.root, other._edits = self.text, self.path, self.root, {}
        return other

    def insert(self, offset: int, text: str) -> None:
        """Insert text before an offset."""
        self._edits[(offset, offset)] = text

    def line_start(self, offset: int) -> int:
        """Return where the line of an offset begins if only blanks stand before it there, else the
        offset itself.
        """
        start = self.text.rfind("\n", 0, offset) + 1
        return offset if self.text[start:offset].strip(" \t") else start

    def line(self, offset: int) -> int:
        """Return the line number (from 1) of an offset."""
        return self.text.count("\n", 0, offset) + 1

    def replace_string(self, value: Value, content: str) -> None:
        """Give a string value another content; of adjacent pieces the first takes it and the others
        become empty.
        """
        for number, span in enumerate(value.pieces):
            mark = self.text[span[0]]
            self._edits[span] = quote(content, mark) if number == 0 else mark * 2

    def delete(self, field: Field, elements: List[int]) -> None:
        """Delete some (or all) of a field's values; comments around them stay."""
        if len(elements) == len(field.values):
            self._edits[field.start, field.end] = ""
            return
        doomed = set(elements)
        for index in elements:
            value = field.values[index]
            self._edits[value.start, value.end] = ""
        staying = [index for index in range(len(field.values)) if index not in doomed]
        # Of n elements n - 1 commas remain: each staying one but the last keeps the comma behind
        # it.
        remaining = {index for index in staying[:-1] if index < len(field.commas)}
        for index, comma in enumerate(field.commas):
            if index not in remaining:
                self._edits[(comma, comma + 1)] = ""

    def _whole_lines(self, start: int, end: int) -> Tuple[int, int]:
        """Widen a span over the blanks around it and its line break when nothing else stands on its
        lines.
        """
        left, right = start, end
        while left > 0 and self.text[left - 1] in " \t":
            left -= 1
        while right < len(self.text) and self.text[right] in " \t\r":
            right += 1
        if left > 0 and self.text[left - 1] != "\n":
            return start, end
        if right < len(self.text) and self.text[right] != "\n":
            return start, end
        return left, min(right + 1, len(self.text))

    def edited(self) -> str:
        """Return the text with every edit made."""
        out, position = [], 0
        for start, end, content in self._joined():
            out.append(self.text[position:start])
            out.append(content)
            position = max(position, end)
        out.append(self.text[position:])
        return "".join(out)

    def _joined(self) -> Iterator[Tuple[int, int, str]]:
        """Yield the edits in order; deletions with only blanks between are one, and take the lines
        that they empty with them.
        """
        edits = sorted(self._edits.items())
        number = 0
        while number < len(edits):
            (start, end), content = edits[number]
            number += 1
            if content or start == end:
                yield start, end, content
                continue
            while (
                number < len(edits)
                and not edits[number][1]
                and not self.text[end : edits[number][0][0]].strip(" \t")
            ):
                end = max(end, edits[number][0][1])
                number += 1
            yield (*self._whole_lines(start, end), "")


def read_document(path: str) -> Document:
    """Read and parse a text format file.

    Raises
    ------
    MissingPath
        There is no such file.
    FormatError
        It is larger than 256 MiB or not in text format; the message names line and column.
    """
    require_file(path, "MODEL")
    data = read_input(path, SIZE_LIMIT_BYTES)
    if b"\x00" in data or min(data[:4096], default=32) < 9:
        hint = "give the .prototxt; weights (.caffemodel) are a separate argument"
        from ..kinds.files import kind_of_file
        from ..kinds.kind import ONNX, PROTOBUF, RAW, WORDS

        kind = kind_of_file(path).name
        words = "a binary file" if kind in (PROTOBUF, RAW) else WORDS[kind]
        if kind == ONNX:
            hint = "goldwatch golden onnx dump takes it"
        raise FormatError("%s, not a prototxt" % words, path, hint=hint)
    return Document(decode(data), path)


def decode(data: bytes) -> str:
    """Return a file's text so that :func:`encode` gives back the very bytes."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes of a text from :func:`decode`."""
    return text.encode("utf-8", "surrogateescape")
