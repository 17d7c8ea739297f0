"""Finds an output that was computed or written in fewer bits than its type has."""

from __future__ import annotations

import math
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..tensors.type_precision import rounding_of
from .piece import rounded
from .variant_search import UNLIKELY_BITS, Instead
from .variant_trials import CHANCE_BITS, Output, agreeing
from .written import FEWEST_ELEMENTS, Written, some_elements

Array = Any
_ROUNDINGS = 16.0
"""Of a narrower type, what its steps inside an operator come to at most, root mean square."""
STEPS = 8
"""Of an input, on which an output is one value, where what is computed is not. Chosen: by chance
values are not the same on one. real_trial has tables of 64 and of 256 values between -8 and 8."""
_TURNS = 16.0
"""In the order of an input, how often a function of it alone goes from its least value to its
largest at most; of some elements Gelu does twice, a Conv's sums do at every third."""
GRID_BITS = 4.0
"""That a number on a step of 8 bits tells; beside the first ones, which tell the step."""
_OFF = 0.1
"""Of a step, how far off it such a number may be besides what its type rounds."""
_NARROWER: Mapping[str, Tuple[Any, int, Sequence[Tuple[int, str]]]] = {
    "float32": (np.uint32, 23, ((7, "bfloat16"), (10, "float16"))),
    "float16": (
        np.uint16,
        10,
        (*((bits, "%d bits of mantissa" % bits) for bits in (3, 4, 5, 6)), (7, "bfloat16")),
    ),
}
"""Of each type: its numbers as whole ones, the bits of its mantissa, and what may have fewer."""
_STEP_OFF = 0.02
"""Of the step between values of 8 bits, what rounding of the output's own type may add."""


def in_eight_bits(written: Written) -> Iterator[Instead]:
    """Yield where the output has at most 256 values, one step apart, and each element is the one
    that is nearest to the computed one.
    """
    output = written.output
    x, y = (np.asarray(side, np.float64) for side in (output.actual, output.computed.array))
    if output.actual.dtype.kind != "f" or x.size < FEWEST_ELEMENTS or not np.isfinite(x).all():
        return
    values = np.unique(x)
    if not 3 < values.size <= 256 or np.unique(y).size <= 2 * values.size:
        return
    # Rounded to the output's type, values lie a little off the steps.
    unit = rounding_of(output.dtype).half_unit
    apart = np.diff(values)
    step = float(apart[apart < 1.5 * apart.min()].mean())
    step = float(values[-1] - values[0]) / max(1.0, float(np.rint((values[-1] - values[0]) / step)))
    places = (values - values[0]) / step
    off = _OFF + unit * (np.abs(values) + abs(values[0])) / step
    told = np.maximum(0.0, GRID_BITS - np.log2(off / _OFF)).sum() - 3 * GRID_BITS
    inside = np.clip(y, values[0], values[-1])
    # What is computed may have such steps itself: of whole numbers of 8 bits.
    own = np.unique(y)
    own_places = (own[np.isfinite(own)] - values[0]) / step
    if np.all(np.abs(own_places - np.rint(own_places)) <= _OFF):
        return
    if (
        places[-1] < 256
        and told >= CHANCE_BITS
        and np.all(np.abs(places - np.rint(places)) <= off)
        and np.all(np.abs(x - inside) <= (0.5 + _STEP_OFF) * step + max(unit, 2.0**-10) * np.abs(x))
    ):
        yield Instead(
            "rounding",
            "its output has %d values, %.6g apart, and each element is the nearest to what is "
            "computed: 8 bits with one scale for all" % (values.size, step),
            "compare the precision of the operator in the om's json with the original model, and "
            "leave it out of quantisation",
        )


def in_narrow_type(written: Written) -> Iterator[Instead]:
    """Yield where all numbers are those of a narrower type, next to what is computed."""
    output = written.output
    if output.dtype not in _NARROWER or output.computed.array.dtype.kind != "f":
        return
    unsigned, mantissa, narrower = _NARROWER[output.dtype]
    with np.errstate(over="ignore"):
        x, y = (np.asarray(side, output.dtype) for side in (output.actual, output.computed.array))
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        return
    # Numbers below the normal ones have fewer bits in any case.
    normal = np.abs(x) >= rounding_of(output.dtype).least_normal
    different = np.unique(x[normal & (x != y)])
    off = np.linalg.norm(np.float64(x) - y) / max(np.linalg.norm(np.float64(y)), 1e-300)
    for kept, name in narrower:
        bits, unit = mantissa - kept, 2.0 ** -(kept + 1)
        mask = unsigned((1 << bits) - 1)
        if (
            min(bits * different.size, _told_of_mantissa(different, kept))
            >= CHANCE_BITS + UNLIKELY_BITS
            and not np.any(np.ascontiguousarray(x[normal]).view(unsigned) & mask)
            and np.any(np.ascontiguousarray(y).view(unsigned) & mask)
            and off <= _ROUNDINGS * unit
        ):
            yield Instead(
                "rounding",
                "its output is %s and holds numbers of %s alone, %.2g roundings of it off "
                "what is computed: the operator computed, or wrote, in %s"
                % (output.dtype, name, off / unit, name),
                "compare the precision of the operator in the om's json (its types, the precision "
                "mode of the compiler) with the original model",
            )
            return


def from_table(written: Written) -> Iterator[Instead]:
    """Yield where the output is one value on each step of an input, one that is computed there."""
    output = written.output
    if output.actual.dtype.kind != "f" or output.computed.array.dtype.kind != "f":
        return
    for given in written.inputs:
        if given.size != output.actual.size or given.dtype.kind != "f":
            continue
        x, some = some_elements(given, output.computed)
        y = some.array.astype(np.float64)[np.argsort(x)]
        if np.isfinite(y).all() and np.abs(np.diff(y)).sum() > _TURNS * np.ptp(y):
            continue
        found = _steps(np.ravel(given), np.ravel(output.actual), written)
        if found is not None:
            count, of, wide = found
            yield Instead(
                "rounding",
                "its output is read from a table: as its input rises it takes %d values, each on a "
                "step of the input about %.2g wide and one that is computed there; what is "
                "computed takes %d" % (count, wide, of),
                "compare how the operator was compiled (high performance, a table, an approximate "
                "mode in the om's json and the compiler's options) with the original model",
            )
            return


def _steps(given: Array, actual: Array, written: Written) -> Optional[Tuple[int, int, float]]:
    """Return on how many steps of an input an output is one value, how many values what is computed
    has there, and how wide a step is; None where it is not so.
    """
    output = written.output
    computed = np.ravel(rounded(output.computed.array, output.dtype))
    finite = np.isfinite(given) & np.isfinite(actual) & np.isfinite(computed)
    order = np.argsort(given[finite], kind="stable")
    x, a, y = (side[finite][order].astype(np.float64) for side in (given, actual, computed))
    wrong = ~np.ravel(agreeing(output, output.computed))[finite][order]
    same = np.diff(x) == 0
    if x.size < 4 * STEPS or np.any(same & ((np.diff(a) != 0) | (np.diff(y) != 0))):
        return None
    x, a, y, wrong = (side[np.append(True, ~same)] for side in (x, a, y, wrong))
    begins = np.flatnonzero(np.append(True, np.diff(a) != 0))
    behind = np.minimum(np.append(begins[1:], x.size), x.size - 1)
    low, high = np.minimum.reduceat(y, begins), np.maximum.reduceat(y, begins)
    inside = (begins > 0) & (begins < begins[-1])
    steps = inside & (high > low)
    # Beyond a table's ends an operator is computed, or its result is one number.
    read = steps | np.logical_or.reduceat(wrong, begins)
    sizes = np.diff(np.append(begins, x.size))
    values, between = (
        np.count_nonzero(np.diff(y)[np.repeat(some, sizes)[1:]]) for some in (read, read & inside)
    )
    # The ends do not tell: one of them holds all that is cut off.
    if 4 * np.count_nonzero(read & inside) > between or np.count_nonzero(steps) < STEPS:
        return None
    # What is computed in the middle of a step may lie between two of the input's values.
    low = np.minimum(low, np.minimum(y[begins - 1], y[behind]))
    high = np.maximum(high, np.maximum(y[begins - 1], y[behind]))
    held, unit = a[begins], 2.0 * rounding_of(output.dtype).half_unit
    if np.any(steps & (np.maximum(low - held, held - high) > unit * np.abs(held))):
        return None
    count, width = np.count_nonzero(read), np.median((x[behind] - x[begins])[steps])
    return int(count), 1 + int(values), float(width)


def _told_of_mantissa(numbers: Array, kept: int) -> float:
    """Return how many bits tell that numbers have so few bits of mantissa, and are not on one step
    for all, as whole numbers are.
    """
    fraction, exponent = np.frexp(np.asarray(numbers, np.float64))
    whole = np.abs(np.ldexp(fraction, 24)).astype(np.int64)
    if not whole.size:
        return 0.0
    lowest = np.log2(whole & -whole) + exponent - 24
    return float(np.maximum(exponent - 1 - kept - lowest.min(), 0.0).sum())


def in_32_bits(output: Output) -> Optional[Instead]:
    """Return that whole numbers of 64 bits hold what 32 bits keep of what is computed; None where
    they do not. By chance not one number beyond 32 bits comes out so.
    """
    return _in_bits(output, (32,)) if output.computed.array.dtype == np.int64 else None


def in_fewer_bits(written: Written) -> Iterator[Instead]:
    """Yield where whole numbers hold what 8 or 16 bits keep of what is computed."""
    found = _in_bits(written.output, (16, 8))
    if found is not None:
        yield found


def within_parts(written: Written) -> Iterator[Instead]:
    """Yield where whole numbers are the remainders of what is computed: indices within parts."""
    y, x = written.output.computed.array, written.output.actual
    if y.dtype.kind not in "iu" or x.dtype.kind not in "iu" or x.shape != y.shape:
        return
    apart = y.astype(np.int64) - x.astype(np.int64)
    size = int(np.gcd.reduce(apart.reshape(-1))) if apart.size else 0
    if size < 2 or np.any(apart < 0) or not np.array_equal(x, y.astype(np.int64) % size):
        return
    beyond = np.unique(y[apart > 0])
    if beyond.size * math.log2(size) >= CHANCE_BITS + math.log2(size):
        yield Instead(
            "layout",
            "its output holds what is computed within parts of %d (the remainder): %d of %d values "
            "are beyond the first" % (size, np.count_nonzero(apart), y.size),
            "look at the operator's tiling in the compiled model: to places within a part its "
            "beginning is not added",
        )


def _in_bits(output: Output, widths: Sequence[int]) -> Optional[Instead]:
    """Return that whole numbers hold what fewer bits keep of what is computed; None where they do
    not, or where too few different ones tell it. A 0 may be anything.
    """
    y, x = output.computed.array, output.actual
    if y.dtype.kind not in "iu" or x.dtype.kind not in "iu" or x.shape != y.shape:
        return None
    for width in widths:
        if y.dtype.itemsize * 8 <= width:
            continue
        for dtype in ("int%d" % width, "uint%d" % width):
            limits = np.iinfo(dtype)
            beyond = (y < limits.min) | (y > limits.max)
            kept = (
                (y.astype(dtype), "the low %d bits" % width),
                (np.clip(y, limits.min, limits.max), "the nearest of %d bits" % width),
            )
            words = next((words for made, words in kept if np.array_equal(x, made)), None)
            told = width * np.unique(x[beyond & (x != 0)]).size
            if words is None or told < CHANCE_BITS + np.log2(2 * 2 * len(widths)):
                continue
            return Instead(
                "overflow",
                "its output holds %s of what is computed, %d of %d values of which are beyond %s: "
                "%s was narrowed to %s"
                % (words, np.count_nonzero(beyond), y.size, dtype, y.dtype, dtype),
                "keep such values within %s in the original model (offsets, hashes, identifiers), "
                "or compute them outside of the network" % dtype
                if width == 32
                else "compare the operator's types in the om's json with the original model's %s, "
                "or keep such values within %s there" % (y.dtype, dtype),
            )
    return None
