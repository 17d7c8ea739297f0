"""Faults to plant into one op of a simulated network: in its parameters or in its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from .networks import Op

Array = Any
Random = Any


@dataclass
class Fault:
    """A fault in one op.

    Attributes
    ----------
    kind
        Its name in the tables.
    op
        The op that is computed wrong.
    explained
        The kinds of explanation that are right.
    change
        From the op's parameters to the wrong ones; None where they stay.
    spoil
        From the op's output (as computed, not yet stored) to the wrong one; None where it stays.
    """

    kind: str
    op: str
    explained: Tuple[str, ...]
    change: Optional[Callable[[Dict[str, Any]], Dict[str, Any]]] = None
    spoil: Optional[Callable[[Array], Array]] = None

    def parameters(self, op: Op) -> Dict[str, Any]:
        """Return the parameters that the op is computed with."""
        return op.parameters if self.change is None else self.change(op.parameters)

    def output(self, output: Array, op: Op) -> Array:
        """Return the output that the op gives."""
        return output if self.spoil is None else self.spoil(output)


def _scale(factor: float) -> Callable[[Op, Random], Optional[Fault]]:
    return lambda op, random: Fault(
        "scale %g" % factor, op.name, ("scale",), spoil=lambda x: x * x.dtype.type(factor)
    )


def _stale_filter(op: Op, random: Random) -> Optional[Fault]:
    name = (
        "filters" if "filters" in op.parameters else "weights" if "weights" in op.parameters else ""
    )
    if not name:
        return None

    def change(parameters: Dict[str, Any]) -> Dict[str, Any]:
        weights = parameters[name].copy()
        mine = weights if name == "filters" else weights.T
        which = random.randint(len(mine))
        mine[which] = (
            mine[which][..., ::-1] if name == "weights" else np.roll(mine[which], 1, axis=0) * -1
        )
        return dict(parameters, **{name: weights})

    return Fault("stale filter", op.name, ("one-slice",), change)


def _bias(op: Op, random: Random, whole: bool) -> Optional[Fault]:
    name = "bias" if "bias" in op.parameters else "beta" if "beta" in op.parameters else ""
    if not name:
        return None

    def change(parameters: Dict[str, Any]) -> Dict[str, Any]:
        bias = np.zeros_like(parameters[name]) if whole else parameters[name].copy()
        bias[random.randint(bias.size)] = 0
        return dict(parameters, **{name: bias})

    return Fault(
        "all biases dropped" if whole else "one bias dropped",
        op.name,
        ("bias",) if whole else ("one-slice", "bias"),
        change,
    )


def _epsilon(op: Op, random: Random) -> Optional[Fault]:
    if "epsilon" not in op.parameters:
        return None
    return Fault(
        "epsilon 1e-3", op.name, ("scale",), lambda parameters: dict(parameters, epsilon=1e-3)
    )


def _pad(op: Op, random: Random) -> Optional[Fault]:
    if "filters" not in op.parameters or op.parameters["filters"].shape[-1] < 3:
        return None
    return Fault(
        "pad off by one", op.name, ("shift",), lambda parameters: dict(parameters, shift=1)
    )


def _transposed(op: Op, random: Random) -> Optional[Fault]:
    return Fault("last axes transposed", op.name, ("layout",), spoil=_transpose)


def _transpose(x: Array) -> Array:
    if x.ndim == 4 and x.shape[2] == x.shape[3]:
        return np.ascontiguousarray(x.swapaxes(2, 3))
    return np.ascontiguousarray(x.reshape(x.shape[0], -1)[:, ::-1]).reshape(x.shape)


def _channels(op: Op, random: Random) -> Optional[Fault]:
    def spoil(x: Array) -> Array:
        order = np.arange(x.shape[1])
        first = random.randint(0, max(1, x.shape[1] - 8))
        order[first : first + 8] = order[first : first + 8][::-1]
        return x[:, order]

    return Fault("channels exchanged", op.name, ("layout",), spoil=spoil)


def _zero_tile(op: Op, random: Random) -> Optional[Fault]:
    def spoil(x: Array) -> Array:
        made = x.copy()
        axis = 1
        tile = max(1, made.shape[axis] // 16)
        at = random.randint(0, made.shape[axis] - tile + 1)
        made[:, at : at + tile] = 0
        return made

    return Fault("tile not written", op.name, ("one-slice", "not-written"), spoil=spoil)


def _random(op: Op, random: Random) -> Optional[Fault]:
    return Fault(
        "random output",
        op.name,
        ("unexplained",),
        spoil=lambda x: (random.permutation(x.reshape(-1)).reshape(x.shape)).astype(x.dtype),
    )


def _coarse(op: Op, random: Random) -> Optional[Fault]:
    def spoil(x: Array) -> Array:
        step = np.abs(np.where(x > -1e3, x, 0)).max() / 127
        return np.round(x / step) * step if step else x

    return Fault("rounded to int8", op.name, ("rounding",), spoil=spoil)


def _saturated(op: Op, random: Random) -> Optional[Fault]:
    def spoil(x: Array) -> Array:
        most = np.quantile(np.abs(x), 0.97)
        return np.clip(x, -most, most)

    return Fault("saturated", op.name, ("saturation",), spoil=spoil)


def _flushed(op: Op, random: Random) -> Optional[Fault]:
    def spoil(x: Array) -> Array:
        return (
            np.where(np.abs(x) < np.quantile(np.abs(x[x != 0]), 0.15), 0, x).astype(x.dtype)
            if np.any(x != 0)
            else x
        )

    return Fault("flushed to zero", op.name, ("flush-to-zero",), spoil=spoil)


def _nan(op: Op, random: Random) -> Optional[Fault]:
    def spoil(x: Array) -> Array:
        made = x.copy()
        made.reshape(-1)[random.randint(made.size)] = np.nan
        return made

    return Fault("one NaN", op.name, ("nan",), spoil=spoil)


FAULTS: Tuple[Callable[[Op, Random], Optional[Fault]], ...] = (
    _scale(1.01), _scale(1.04), _stale_filter, lambda op, random: _bias(op, random, False),
    lambda op, random: _bias(op, random, True),
    _epsilon, _pad, _transposed, _channels, _zero_tile, _random, _coarse, _saturated, _flushed,
    _nan,
)  # fmt: skip
"""Each makes a fault of its kind in an op, or None where the op cannot have it."""
