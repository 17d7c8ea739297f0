"""Writes elements of a pair as lines of CSV files: coordinates, both values, both errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..filesystem.atomic_writing import atomic_writer
from ..metrics.patterns.element_errors import errors_of, is_bad
from ..metrics.patterns.masked_on_both_sides import Masks
from ..tensors.geometry import Geometry
from ..tensors.golden_order_windows import Ranges, ordered_windows
from ..tensors.tensor import Tensor
from .decimal_text import integers, nine_digits, text_of

Array = Any

MOST_ROWS = 1000000
"""Of one file, without its heading."""

_LINES = 1 << 15
VALUES = ("Left", "Right", "RelativeError", "AbsoluteError")
NO_RELATIVE = "-"


@dataclass(frozen=True)
class Elements:
    """A pair whose elements are listed; picklable.

    Attributes
    ----------
    target, golden, geometry
        The pair, and how the target is brought to the golden's layout.
    letters
        The headings of the coordinates.
    masks
        Tells which elements are masked.
    """

    target: Tensor
    golden: Tensor
    geometry: Geometry
    letters: Tuple[str, ...]
    masks: Masks = Masks()

    def heading(self) -> bytes:
        """Return the first line of each file."""
        return (",".join((*self.letters, *VALUES)) + "\n").encode("ascii")


class Written(NamedTuple):
    """A written file: path and number of rows."""

    path: str
    rows: int


def write_elements(elements: Elements, path: str, start: int, stop: int) -> Written:
    """Write the elements ``start`` to ``stop`` of the golden's order into one file."""
    with atomic_writer(path) as stream:
        stream.write(elements.heading())
        for window in ordered_windows(
            elements.target, elements.golden, elements.geometry, start, stop, _LINES
        ):
            coordinates = _coordinates(window.ranges)
            first, last = max(start - window.start, 0), min(stop - window.start, window.x.size)
            lines = slice(first, last)
            _put(
                stream, coordinates[lines], window.x.reshape(-1)[lines], window.y.reshape(-1)[lines]
            )
    return Written(path, stop - start)


def write_bad(elements: Elements, paths: Iterator[str], rows: int) -> Iterator[Written]:
    """Write the elements that are off by more than the rounding of the target's type; at least one
    file.

    Parameters
    ----------
    paths
        Names of the files, as many as are needed.
    """
    pieces = _bad_pieces(elements, rows)
    piece = next(pieces, None)
    first = True
    while first or piece is not None:
        first, count, path = False, 0, next(paths)
        with atomic_writer(path) as stream:
            stream.write(elements.heading())
            while piece is not None:
                _put(stream, *piece)
                count += len(piece[1])
                piece = next(pieces, None)
                if count == rows:
                    break
        yield Written(path, count)


def _bad_pieces(elements: Elements, rows: int) -> Iterator[Tuple[Array, Array, Array]]:
    """Yield coordinates and both values of such elements, in pieces that end at the row limit of a
    file."""
    room = rows
    for window in ordered_windows(elements.target, elements.golden, elements.geometry, most=_LINES):
        x, y = window.x.reshape(-1), window.y.reshape(-1)
        bad = np.flatnonzero(is_bad(x, y, elements.target.dtype.name) & ~elements.masks.of(x, y))
        if not bad.size:
            continue
        coordinates = _coordinates(window.ranges)
        while bad.size:
            now, bad = bad[:room], bad[room:]
            yield coordinates[now], x[now], y[now]
            room = room - now.size or rows


def write_chosen(
    elements: Elements, path: str, positions: Array, x: Optional[Array], y: Optional[Array]
) -> Written:
    """Write the elements at some positions of the golden's order."""
    with atomic_writer(path) as stream:
        stream.write(elements.heading())
        if x is not None and y is not None and positions.size:
            sizes = elements.geometry.sizes or (1,)
            columns = [
                _with_comma(integers(column)) for column in np.unravel_index(positions, sizes)
            ]
            _put(
                stream,
                np.concatenate(columns, axis=1) if elements.letters else _nothing(positions.size),
                x,
                y,
            )
    return Written(path, int(positions.size))


def _nothing(count: int) -> Array:
    return np.zeros((count, 0), np.uint8)


def _with_comma(texts: Array) -> Array:
    out = np.empty((texts.shape[0], texts.shape[1] + 1), np.uint8)
    out[:, :-1], out[:, -1] = texts, ord(",")
    return out


def _coordinates(ranges: Ranges) -> Array:
    """Return the coordinates of a window's elements, each with a comma behind it, as text in a
    matrix of bytes.
    """
    shape = tuple(high - low for low, high in ranges)
    tables = [
        _with_comma(integers(np.arange(low, high, dtype=np.int64))[:, 1:]) for low, high in ranges
    ]
    width = sum(table.shape[1] for table in tables)
    out = np.empty((*shape, width), np.uint8)
    at = 0
    for axis, table in enumerate(tables):
        ends = at + table.shape[1]
        out[..., at:ends] = table.reshape(
            tuple(size if index == axis else 1 for index, size in enumerate(shape)) + (-1,)
        )
        at = ends
    return out.reshape(-1, width)


def _put(stream: BinaryIO, coordinates: Array, x: Array, y: Array) -> None:
    errors = errors_of(x, y)
    absolute = (
        integers(errors.absolute)
        if errors.absolute.dtype.kind == "u"
        else nine_digits(errors.absolute)
    )
    relative = nine_digits(errors.relative)
    zero = y == 0
    if zero.any():
        relative[zero] = 0
        relative[zero, 0] = ord(NO_RELATIVE)
    stream.write(_lines(coordinates, [text_of(x), text_of(y), relative, absolute]))


def _lines(coordinates: Array, columns: Sequence[Array]) -> bytes:
    widths: List[int] = [column.shape[1] + 1 for column in columns]
    out = np.empty((len(coordinates), coordinates.shape[1] + sum(widths)), np.uint8)
    at = coordinates.shape[1]
    out[:, :at] = coordinates
    for column, width in zip(columns, widths):
        out[:, at : at + width - 1] = column
        out[:, at + width - 1] = ord(",")
        at += width
    out[:, -1] = ord("\n")
    return out.tobytes().translate(None, b"\0")
