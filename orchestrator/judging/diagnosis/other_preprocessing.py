"""What a network's input of the device is beside golden data's: another order of channels, factor,
offset or crop, as preprocessing (AIPP) makes them.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...base.wording import listed
from ...metrics.patterns import AlignedPair

# Of an image: grey to RGBA.
_MOST_CHANNELS = 4
_FITS = 0.01
"""The relative distance up to which the device's image is taken for the golden one, changed so:
twenty times what float16 makes of values of one size.
"""
# Another order of channels is told where it leaves at most this part of the distance; chosen, no
# trial.
_PLAINLY_BETTER = 0.5
_TELLING = 0.01
"""A factor, or an offset in standard deviations, off by less is not told."""
# A crop is told where the two pictures share this part at least; chosen, no trial.
_LEAST_OVERLAP = 0.25

Array = Any


class _Fit(NamedTuple):
    """device[c] = factors[c] · golden[order[c]] + offsets[c], cut out ``shift`` (rows, columns)
    further on.
    """

    distance: float
    order: Tuple[int, ...]
    factors: Tuple[float, ...]
    offsets: Tuple[float, ...]
    shift: Tuple[int, int] = (0, 0)


def changed_image(pair: AlignedPair) -> Optional[Tuple[str, str]]:
    """Return what the device's image is beside the golden one, and which settings of an AIPP make
    that; None where nothing known does.
    """
    letters = pair.letters
    if pair.sampled or pair.target.ndim != 4 or sorted(letters) != sorted("NCHW"):
        return None
    device, golden = (
        np.asarray(side, np.float64).transpose([letters.index(one) for one in "CNHW"])
        for side in (pair.target, pair.golden)
    )
    if not 0 < len(device) <= _MOST_CHANNELS or not np.isfinite([device, golden]).all():
        return None
    best = _best_order(device, golden)
    if best.distance > _FITS:
        best = _cropped(device, golden) or best
    if best.distance > _FITS:
        # [C, N, H, W] of memory that holds the other layout.
        shape = (golden.shape[1], len(golden), *golden.shape[2:])
        stored = golden.transpose(1, 2, 3, 0).reshape(shape).transpose(1, 0, 2, 3)
        if np.linalg.norm(device - stored) <= _FITS * np.linalg.norm(golden):
            return "its values channels last (NHWC), read as NCHW", "input_format"
    return _worded(best, golden) if best.distance <= _FITS else None


def _best_order(device: Array, golden: Array, shift: Tuple[int, int] = (0, 0)) -> _Fit:
    """Return the order of channels that fits best; the model's own unless another is much
    better.
    """
    fits: List[_Fit] = []
    # One picture without contrast fits every other one.
    size = float(np.linalg.norm(device - device.mean((1, 2, 3), keepdims=True))) or 1e-300
    for order in permutations(range(len(device))):
        off, factors, offsets = 0.0, [], []
        for channel, source in enumerate(order):
            x, y = golden[source].ravel(), device[channel].ravel()
            spread = float(np.var(x))
            factor = float(np.mean((x - x.mean()) * (y - y.mean()))) / spread if spread else 1.0
            factors.append(factor)
            offsets.append(float(y.mean() - factor * x.mean()))
            off += float(np.sum((y - factor * x - offsets[-1]) ** 2))
        fits.append(
            _Fit((off + 1e-300) ** 0.5 / size, order, tuple(factors), tuple(offsets), shift)
        )
    best = min(fits, key=lambda fit: fit.distance)
    return fits[0] if fits[0].distance * _PLAINLY_BETTER <= best.distance else best


def _cropped(device: Array, golden: Array) -> Optional[_Fit]:
    """Return the fit of an image that is cut out elsewhere; None where none overlaps enough."""
    sides = [side.mean((0, 1)) for side in (device, golden)]
    spectra = [np.fft.rfft2(side - side.mean()) for side in sides]
    height, width = sides[0].shape
    fit = np.fft.irfft2(np.conj(spectra[0]) * spectra[1], s=(height, width))
    row, column = (int(at) for at in np.unravel_index(int(fit.argmax()), fit.shape))
    row, column = row - height * (row > height // 2), column - width * (column > width // 2)
    if (height - abs(row)) * (width - abs(column)) < _LEAST_OVERLAP * height * width:
        return None
    if not (row or column):
        return None
    rows, columns = (
        (slice(max(-at, 0), size - max(at, 0)), slice(max(at, 0), size - max(-at, 0)))
        for at, size in ((row, height), (column, width))
    )
    return _best_order(
        device[:, :, rows[0], columns[0]], golden[:, :, rows[1], columns[1]], (row, column)
    )


def _worded(fit: _Fit, golden: Array) -> Tuple[str, str]:
    words, settings = [], []
    moved = [channel for channel, source in enumerate(fit.order) if channel != source]
    if len(moved) == 2:
        words.append("channels %d and %d exchanged" % tuple(moved))
    elif moved:
        words.append("channels in the order %s" % ", ".join(map(str, fit.order)))
    if moved:
        settings.append("rbuv_swap_switch")
    if any(fit.shift):
        words.append("cut out %d rows and %d columns further on" % fit.shift)
        settings.append("load_start_pos_h and load_start_pos_w of its crop")
    if any(abs(factor - 1.0) > _TELLING for factor in fit.factors):
        words.append("x %s" % _numbers(fit.factors))
        settings.append("var_reci_chn_0 to 3")
    sizes = [
        abs(factor) * float(np.std(golden[source]))
        for factor, source in zip(fit.factors, fit.order)
    ]
    if any(abs(offset) > _TELLING * size for offset, size in zip(fit.offsets, sizes)):
        words.append("plus %s" % _numbers(fit.offsets))
        settings.append("mean_chn_0 to 3 and min_chn_0 to 3")
    return ", ".join(words), listed(settings, len(settings))


def _numbers(values: Sequence[float]) -> str:
    """Return one number for all channels, or one for each."""
    low, high = min(values), max(values)
    if high - low <= _TELLING * max(abs(low), abs(high)):
        return "%.4g" % float(np.mean(values))
    return "(%s by channel)" % ", ".join("%.4g" % value for value in values)
