"""Statistics of one tensor, read in windows: range, moments, special values, a histogram."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ...base.element_types import element_count
from ...base.errors import NotComparable
from ...store.json_numbers import plain_number
from ...tensors.dtypes import Array, DType
from ...tensors.layout_conversion import original_array
from ...tensors.tensor import Tensor
from ...tensors.type_precision import ROUNDING

WINDOW_ELEMENTS = 1 << 18
FIRST_SHOWN = 8
BINS = 16
UNUSUAL = ("nan", "inf", "saturated")

_PACKED_INTEGERS = {"int4": (-8, 7), "int2": (-2, 1), "uint2": (0, 3), "uint1": (0, 1)}


def statistics(tensor: Tensor) -> Dict[str, Any]:
    """Return what the elements of a tensor look like; its padding on the device counts as elements.

    Real and imaginary parts of complex elements count as two elements, False and True as 0 and 1.

    Returns
    -------
    dict
        ``count``; ``min`` and ``max`` (of what is not NaN; None when there is nothing), exact for
        integers; ``mean`` and ``std`` (population, of the finite elements, float64); how many are
        ``nan``, ``inf``, ``zeros``, ``subnormals`` (smaller than the type's smallest normal number,
        not zero) and ``saturated`` (at the type's largest finite magnitude; integers: at either end
        of their range); the ``first`` eight; where some of ``nan``, ``inf`` and ``saturated`` stand
        in the device's padding, how many, as ``padding``, which none of the network's values are;
        and a ``histogram`` of the finite elements, ``{"edges", "counts"}`` with 16 equal bins, or
        None when they are all alike.

    Raises
    ------
    NotComparable
        The element type is not decoded.
    FormatError
        The source holds fewer bytes than the elements need.
    """
    accumulator = _Accumulator(tensor.dtype)
    for window in _windows(tensor):
        accumulator.update(window)
    result = accumulator.result()
    result["first"] = [
        plain_number(value.item())
        for value in _flat(tensor.elements(0, min(tensor.count, FIRST_SHOWN)))[:FIRST_SHOWN]
    ]
    result["histogram"] = _histogram(tensor, accumulator.low, accumulator.high)
    padding = _in_padding(tensor, result)
    if any(padding.values()):
        result["padding"] = padding
    return result


def _in_padding(tensor: Tensor, counts: Dict[str, Any]) -> Dict[str, int]:
    """Return how many of the unusual values are no part of the original tensor; empty where there
    are none, or its place is unknown.
    """
    if (
        not any(counts[name] for name in UNUSUAL)
        or tensor.original_shape is None
        or tensor.dtype.bits < 8
    ):
        return {}
    if element_count(tensor.original_shape) == tensor.count:
        return {}
    try:
        whole = original_array(tensor)
    except NotComparable:
        return {}
    inside = _Accumulator(tensor.dtype)
    inside.update(_flat(np.ascontiguousarray(whole).reshape(-1)))
    padding = inside.result()
    return {name: counts[name] - padding[name] for name in UNUSUAL}


def _windows(tensor: Tensor) -> Iterator[Array]:
    for start in range(0, tensor.count, WINDOW_ELEMENTS):
        yield _flat(tensor.elements(start, min(start + WINDOW_ELEMENTS, tensor.count)))


def _flat(elements: Array) -> Array:
    if elements.dtype.kind == "c":
        parts: Array = np.ascontiguousarray(elements).view(elements.real.dtype)
        return parts
    return elements.view(np.uint8) if elements.dtype.kind == "b" else elements


class _Accumulator:
    """Counts and moments over windows; means and squares are merged as Chan, Golub and LeVeque
    (1983) do, in float64.
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.count = self.finite = self.nan = self.inf = self.zeros = self.subnormals = (
            self.saturated
        ) = 0
        self.mean = self.squares = 0.0
        self.least: Any = None
        self.greatest: Any = None
        self.low: Optional[float] = None
        self.high: Optional[float] = None

    def update(self, window: Array) -> None:
        self.count += window.size
        self.zeros += window.size - int(np.count_nonzero(window))
        if window.dtype.kind != "f":
            self._range(window)
            low, high = _integer_range(self.dtype, window.dtype)
            self.saturated += (
                int(np.count_nonzero((window == low) | (window == high)))
                if self.dtype.kind != "b"
                else 0
            )
            self._moments(window.astype(np.float64))
            return
        nan = np.isnan(window)
        self.nan += int(np.count_nonzero(nan))
        self._range(window[~nan] if nan.any() else window)
        finite = window[np.isfinite(window)]
        self.inf += window.size - int(np.count_nonzero(nan)) - finite.size
        largest, smallest = _float_range(self.dtype)
        magnitude = np.abs(finite)
        self.saturated += int(np.count_nonzero(magnitude >= largest))
        self.subnormals += int(np.count_nonzero((magnitude < smallest) & (magnitude > 0)))
        self._moments(finite.astype(np.float64))

    def _range(self, window: Array) -> None:
        if window.size:
            least, greatest = window.min().item(), window.max().item()
            self.least = least if self.least is None else min(self.least, least)
            self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def _moments(self, values: Array) -> None:
        if not values.size:
            return
        self.low = float(values.min()) if self.low is None else min(self.low, float(values.min()))
        self.high = (
            float(values.max()) if self.high is None else max(self.high, float(values.max()))
        )
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(np.square(values - mean).sum())
            shift, total = mean - self.mean, self.finite + values.size
            self.squares += squares + shift * shift * self.finite * values.size / total
            self.mean += shift * values.size / total
        self.finite = total

    def result(self) -> Dict[str, Any]:
        known = self.finite > 0
        return {
            "count": self.count,
            "min": plain_number(self.least),
            "max": plain_number(self.greatest),
            "mean": plain_number(self.mean) if known else None,
            "std": plain_number(math.sqrt(self.squares / self.finite)) if known else None,
            "nan": self.nan,
            "inf": self.inf,
            "zeros": self.zeros,
            "subnormals": self.subnormals,
            "saturated": self.saturated,
        }


def largest_magnitudes(dtype: DType, decoded: Any) -> Tuple[Any, Any]:
    """Return the least and the greatest finite number of an element type, whose elements are
    decoded as numpy's type ``decoded``.
    """
    if dtype.kind in ("f", "c"):
        largest, _ = _float_range(dtype)
        return -largest, largest
    return _integer_range(dtype, decoded) if dtype.kind != "b" else (0, 1)


def _float_range(dtype: DType) -> Tuple[float, float]:
    """Return the largest finite and the smallest normal magnitude of an element type."""
    if dtype.name == "float8_e8m0fnu":
        # Powers of two alone (OCP 8-bit specification), the scales of other elements: nothing is
        # rounded to it.
        return 2.0**127, 2.0**-127
    return ROUNDING[dtype.name].largest, ROUNDING[dtype.name].least_normal


def _integer_range(dtype: DType, decoded: Any) -> Tuple[int, int]:
    limits = np.iinfo(decoded)
    return _PACKED_INTEGERS.get(dtype.name, (int(limits.min), int(limits.max)))


def _histogram(
    tensor: Tensor, low: Optional[float], high: Optional[float]
) -> Optional[Dict[str, List[Any]]]:
    if low is None or high is None or not low < high or not math.isfinite(high - low):
        return None
    counts = np.zeros(BINS, np.int64)
    for window in _windows(tensor):
        finite = window[np.isfinite(window)] if window.dtype.kind == "f" else window
        counts += np.histogram(finite.astype(np.float64), BINS, (low, high))[0]
    return {
        "edges": [low + (high - low) * number / BINS for number in range(BINS + 1)],
        "counts": [int(count) for count in counts],
    }
