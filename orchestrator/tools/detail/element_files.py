"""Writes elements of a pair as lines of CSV files: coordinates, both values, both errors."""

from __future__ import annotations

import itertools
from typing import Any, BinaryIO, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ...base.atomic_writing import atomic_writer
from ...base.fast_dataclasses import dataclass
from ...metrics.patterns.element_errors import errors_of, is_bad
from ...metrics.patterns.masked_on_both_sides import Masks
from ...tensors.geometry import Geometry
from ...tensors.golden_order_windows import Ranges, ordered_windows
from ...tensors.tensor import Tensor

Array = Any

MOST_ROWS = 1000000
"""Of one file, without its heading."""

_LINES = 1 << 15
VALUES = ("Left", "Right", "RelativeError", "AbsoluteError")
NO_RELATIVE = "-"
_ERROR_DIGITS = 9
_SPELLED = {"nan": "NaN", "-0": "0"}


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


def _bad_pieces(elements: Elements, rows: int) -> Iterator[Tuple[List[str], Array, Array]]:
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
            yield [coordinates[at] for at in now.tolist()], x[now], y[now]
            room = room - now.size or rows


def write_chosen(
    elements: Elements, path: str, positions: Array, x: Optional[Array], y: Optional[Array]
) -> Written:
    """Write the CSV of those elements of an operator that stand at some positions of the golden's
    order.
    """
    with atomic_writer(path) as stream:
        stream.write(elements.heading())
        if x is not None and y is not None and positions.size:
            sizes = elements.geometry.sizes or (1,)
            indices = np.array(np.unravel_index(positions, sizes))[: len(elements.letters)]
            _put(stream, ["".join(map("%d,".__mod__, place)) for place in indices.T.tolist()], x, y)
    return Written(path, int(positions.size))


def _coordinates(ranges: Ranges) -> List[str]:
    """Return the coordinates of a window's elements, each with a comma behind it."""
    axes = [["%d," % number for number in range(low, high)] for low, high in ranges]
    return list(map("".join, itertools.product(*axes)))


def _put(stream: BinaryIO, coordinates: Iterable[str], x: Array, y: Array) -> None:
    errors = errors_of(x, y)
    relative = _float_texts(errors.relative, _ERROR_DIGITS)
    for position in np.flatnonzero(y == 0).tolist():
        relative[position] = NO_RELATIVE
    absolute = (
        element_texts(errors.absolute)
        if errors.absolute.dtype.kind == "u"
        else _float_texts(errors.absolute, _ERROR_DIGITS)
    )
    values = zip(element_texts(x), element_texts(y), relative, absolute)
    lines = [place + ",".join(texts) for place, texts in zip(coordinates, values)]
    stream.write(("\n".join(lines) + "\n").encode("ascii"))


def element_texts(values: Array) -> List[str]:
    """Return one-dimensional numbers as text that reads back as the same number of their type:
    float16 with five significant digits, float32 with nine, float64 with seventeen; integers are
    exact.
    """
    kind = values.dtype.kind
    if kind == "f":
        return _float_texts(values, {2: 5, 4: 9}.get(values.dtype.itemsize, 17))
    if kind == "b":
        values = values.view(np.uint8)
    shortest = str if kind in "biu" else _shortest_text
    return list(map(shortest, values.tolist()))


def _float_texts(values: Array, digits: int) -> List[str]:
    # One format for all is a third faster than one for each.
    texts: List[str] = (("%%.%dg " % digits) * values.size % tuple(values.tolist())).split()
    if np.isnan(values).any() or (values == 0).any():
        texts = [_SPELLED.get(text, text) for text in texts]
    return texts


def _shortest_text(value: Any) -> str:
    """Return a complex number, or a part of one, as text."""
    if isinstance(value, complex):
        imaginary = _shortest_text(value.imag)
        sign = "" if str(value.imag)[0] in "-+" else "+"
        return _shortest_text(value.real) + sign + imaginary + "j"
    text = repr(value)
    return "NaN" if text == "nan" else text[:-2] if text.endswith(".0") else text
