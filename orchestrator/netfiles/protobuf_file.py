"""Iterates over and copies a binary protobuf file in place: memory does not depend on its size."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Collection, Iterable, Iterator, NamedTuple, Tuple, Union

from ..base.errors import FormatError, TruncatedFile, require_file
from ..base.protowire import CutShort, Fields, Window, fields_of, read, read_text
from ..base.safe_reading import open_regular, read_at

_COPY_BYTES = 1 << 20
_LFS = b"version https://git-lfs"
Span = Tuple[int, int]
Piece = Union[bytes, Span]


class Record(NamedTuple):
    """One top-level field: its number and wire type, its value (``first`` to ``last``), and
    ``start``, where its tag begins.
    """

    number: int
    wire: int
    start: int
    first: int
    last: int


class WireFile:
    """An open file; use it in a ``with`` block.

    Parameters
    ----------
    what
        Its role in messages, such as ``WEIGHTS``.
    hint
        What to give instead of a file that is no such message.

    Attributes
    ----------
    window
        Its bytes, for :func:`goldwatch.base.protowire.fields_of`.
    size
        Its size in bytes.

    Raises
    ------
    MissingPath
        There is no such file.
    FormatError
        It is empty, or a Git LFS pointer.
    """

    def __init__(self, path: str, what: str, hint: str) -> None:
        require_file(path, what)
        self.path = path
        self.hint = hint
        self._descriptor, self.size = open_regular(path)
        self.window = Window(self._descriptor, path)
        try:
            if not self.size:
                raise FormatError("the file is empty", self.path, hint=self.hint)
            if self.begins(_LFS):
                raise FormatError(
                    "a pointer of Git LFS, not the file itself",
                    self.path,
                    hint="fetch it: git lfs pull",
                )
        except FormatError:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> WireFile:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)

    def begins(self, magic: bytes) -> bool:
        """Return whether the file begins with these bytes."""
        return self.window.piece(0, len(magic)) == magic

    def records(self) -> Iterator[Record]:
        """Yield the top-level fields in order.

        Raises
        ------
        TruncatedFile
            The last one goes on beyond the end of the file.
        FormatError
            The file is no protobuf message.
        """
        start = 0
        try:
            for number, wire, first, last in fields_of(self.window, 0, self.size):
                yield Record(number, wire, start, first, last)
                start = last
        except CutShort as error:
            message = "cut short: the field at byte %d goes on to byte %d, the file has %d" % (
                start,
                error.needed,
                self.size,
            )
            raise TruncatedFile(message, self.path, error.needed, self.size) from error
        except FormatError as error:
            raise FormatError(
                "no protobuf message (%s)" % error.message, self.path, hint=self.hint
            ) from error

    def inside(self, first: int, last: int) -> Iterator[Record]:
        """Yield the fields of the message from byte ``first`` to ``last``; raises FormatError where
        there is none.
        """
        start = first
        try:
            for number, wire, begin, end in fields_of(self.window, first, last):
                yield Record(number, wire, start, begin, end)
                start = end
        except FormatError as error:
            raise self._broken(first, error) from error

    def read(self, fields: Fields, first: int, last: int) -> Any:
        """Return the message from byte ``first`` to ``last`` as
        :func:`goldwatch.base.protowire.read` does; raises FormatError where there is none.
        """
        try:
            return read(self.window, first, last, fields)
        except FormatError as error:
            raise self._broken(first, error) from error

    def _broken(self, first: int, error: FormatError) -> FormatError:
        message = "the message at byte %d is broken (%s)" % (first, error.message)
        return FormatError(message, self.path, hint=self.hint)

    def without(self, span: Span, numbers: Collection[int]) -> Iterator[Span]:
        """Yield where the fields of a message lie, tags included, but for those of some numbers."""
        for record in self.inside(*span):
            if record.number not in numbers:
                yield record.start, record.last

    def text(self, first: int, last: int) -> str:
        """Return the bytes of a string; those that are not UTF-8 as surrogates."""
        return read_text(self.window, first, last)

    def copy(self, spans: Iterable[Span], stream: BinaryIO) -> None:
        """Write byte ranges of the file to a stream, concatenated."""
        for first, last in _joined(spans):
            while first < last:
                piece = read_at(self._descriptor, first, min(_COPY_BYTES, last - first), self.path)
                if not piece:
                    raise TruncatedFile(
                        "the file has become shorter while it was read", self.path, last, first
                    )
                stream.write(piece)
                first += len(piece)

    def write(self, pieces: Iterable[Piece], stream: BinaryIO) -> None:
        """Write bytes and byte ranges of the file to a stream, concatenated."""
        for piece in pieces:
            if isinstance(piece, bytes):
                stream.write(piece)
            else:
                self.copy([piece], stream)


def size_of(pieces: Iterable[Piece]) -> int:
    """Return how many bytes :meth:`WireFile.write` writes."""
    return sum(len(piece) if isinstance(piece, bytes) else piece[1] - piece[0] for piece in pieces)


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the ranges with adjacent ones merged."""
    begin = end = 0
    for first, last in spans:
        if first != end:
            if begin < end:
                yield begin, end
            begin = first
        end = last
    if begin < end:
        yield begin, end
