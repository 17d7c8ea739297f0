"""The elements of a target and its golden as two arrays of one shape, or a sample of them where
they are many.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from ...base.fast_dataclasses import dataclass
from ...tensors.aligned_blocks import aligned_blocks
from ...tensors.geometry import Geometry
from ...tensors.storage_layouts import unpack
from ...tensors.tensor import Tensor

Array = Any

MOST_ELEMENTS = 1 << 20
"""Larger tensors are sampled."""

PARTS = "part"
"""The axis of real and imaginary parts."""
# A sample is that many stretches, spread evenly, none shorter than the least; chosen by time, no
# trial.
_SHARES = 16
_BLOCK = 32768
_LEAST_PIECE = 8192


@dataclass(frozen=True)
class AlignedPair:
    """Target and golden elements side by side.

    Attributes
    ----------
    target, golden
        Arrays of one shape, decoded; one-dimensional where they are a sample. Complex numbers are
        pairs of real ones along a last axis of their own.
    dtype
        The target's element type as the DataType column names it.
    letters
        The axes' names in the golden's layout (``N``, ``C`` … or ``0``, ``1`` …); empty for a
        sample.
    total
        The number of elements of the whole tensor.
    padded_axis
        The axis whose tail is the device's padding, where tensors are compared as stored; None
        else.
    """

    target: Array
    golden: Array
    dtype: str
    letters: Tuple[str, ...] = ()
    total: int = 0
    padded_axis: Optional[int] = None

    def __post_init__(self) -> None:
        sides = [np.asarray(side) for side in (self.target, self.golden)]
        if any(side.dtype.kind == "c" for side in sides):
            # Two numbers each, along a last axis: real and imaginary part. The class is frozen for
            # its users.
            parts = [np.stack([side.real, side.imag], -1) for side in sides]
            if not self.letters:
                parts = [part.reshape(-1) for part in parts]
            letters = (*self.letters, PARTS) if self.letters else ()
            self.__dict__.update(
                target=parts[0], golden=parts[1], letters=letters, total=2 * self.total
            )

    @property
    def is_complex(self) -> bool:
        """Whether the last axis holds real and imaginary parts; never of a sample."""
        return self.letters[-1:] == (PARTS,)

    @property
    def sampled(self) -> bool:
        """Whether only some of the elements are there."""
        return self.total > int(self.target.size)


def align(
    target: Tensor,
    golden: Tensor,
    geometry: Geometry,
    as_stored: bool = False,
    most: int = MOST_ELEMENTS,
) -> AlignedPair:
    """Read a pair.

    Parameters
    ----------
    geometry
        Of :func:`goldwatch.tensors.geometry.match_layouts` for these two.
    as_stored
        Both are device tensors, padding included.
    most
        Elements to hold at most; of a larger tensor pieces that are spread evenly, without their
        positions.

    Raises
    ------
    GoldwatchError
        A tensor cannot be read.
    """
    count = geometry.count
    if count <= most and target.count <= 4 * most:
        plain = unpack(target.array(), geometry.layout, geometry.dims, geometry.letters)
        shape = tuple(int(size) for size in geometry.sizes)
        padded = (
            len(shape) - 1
            if as_stored
            and target.format == golden.format
            and target.format in ("NC1HWC0", "NDC1HWC0")
            else None
        )
        return AlignedPair(
            plain.reshape(shape),
            golden.array().reshape(shape),
            target.dtype.name,
            geometry.letters,
            count,
            padded,
        )
    return _sample(target, golden, geometry, most)


def _sample(target: Tensor, golden: Tensor, geometry: Geometry, most: int) -> AlignedPair:
    """Return the first elements of each of several shares of the work."""
    xs: List[Array] = []
    ys: List[Array] = []
    shares = max(1, min(_SHARES, most // _LEAST_PIECE))
    for number in range(shares):
        room = most // shares
        for x, y in aligned_blocks(
            target, golden, geometry, min(_BLOCK, room), (number, shares), few=True
        ):
            xs.append(np.array(x).reshape(-1)[:room])
            ys.append(np.array(y).reshape(-1)[:room])
            room -= xs[-1].size
            if room <= 0:
                break
    return AlignedPair(
        np.concatenate(xs), np.concatenate(ys), target.dtype.name, (), geometry.count
    )
