"""Normalisations as formulas: scale and shift of each channel are learnt from golden data, as the weights are in no dump."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import numpy as np

Array = Any

_CENTRED = frozenset("layernorm layernormv2 layernormv3 layernormv4".split())
_PLAIN = frozenset("rmsnorm rmsnormv2 t5layernorm".split())
NORMALISING = _CENTRED | _PLAIN
"""Types of operators, in lower case, that are normalised along the last axis."""

_EPSILONS = (1e-5, 1e-6, 1e-12, 1e-3, 0.0)
_LEAST_ROWS = 4
"""Of fewer, scale and shift could be made to fit anything."""


def normalisations(name: str, x: Array, y: Array) -> Iterator[Callable[..., Array]]:
    """Yield what an operator may compute of its first input; its other inputs (scale and shift) are not looked at.

    Parameters
    ----------
    name
        The type, in lower case.
    x, y
        Golden input and output, float64.
    """
    if x.shape != y.shape or not x.ndim or x.shape[-1] < 2 or x.size < _LEAST_ROWS * x.shape[-1]:
        return
    for epsilon in _EPSILONS:
        made = _normalised(x, name in _CENTRED, epsilon).reshape(-1, x.shape[-1])
        wanted = y.reshape(made.shape)
        middle, level = (made.mean(axis=0), wanted.mean(axis=0)) if name in _CENTRED else (0.0, 0.0)
        around = made - middle
        scale = (around * (wanted - level)).sum(axis=0) / np.maximum((around * around).sum(axis=0), 1e-300)
        shift = level - scale * middle
        yield lambda x, *_, epsilon=epsilon, scale=scale, shift=shift: _normalised(x, name in _CENTRED, epsilon) * scale + shift


def _normalised(x: Array, centred: bool, epsilon: float) -> Array:
    x = x - x.mean(axis=-1, keepdims=True) if centred else x
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon)
