"""Stored bfloat16 in the compiled kernel: decoded values and metrics."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from kernels import KERNELS, SETS, rounded, using

from goldwatch.metrics.compare_blocks import compare_blocks
from goldwatch.metrics.row import MEASURES
from goldwatch.metrics.worst_slice import borders, slice_axes
from goldwatch.tensors.aligned_blocks import match_layouts, placed_blocks
from goldwatch.tensors.dtypes import BFLOAT16, dtype_by_name
from goldwatch.tensors.tensor import MemorySource, Tensor


def test_every_code_of_bfloat16_becomes_its_number():
    codes = np.arange(1 << 16, dtype=np.uint32)
    want = (codes << 16).view(np.float32)
    codes, want = (
        codes[np.isfinite(want)].astype(np.uint16).view(BFLOAT16),
        want[np.isfinite(want)].astype("f8"),
    )
    for name in SETS:
        with using(name) as kernel:
            kept = np.empty(codes.size), np.empty(codes.size)
            kernel.sums(np.zeros(codes.size, "f4"), codes, keep=kept)
        assert np.array_equal(kept[0], want) and np.array_equal(kept[1], np.abs(want))


@pytest.mark.parametrize("odd", [0.0, math.nan, -math.inf, -1e4, 3e38])
@pytest.mark.parametrize("golden", ["f4", "i4"])
def test_stored_bfloat16_gives_the_metrics_of_its_float32_values(odd, golden):
    """In NC1HWC0 against NCHW, with numbers that go the careful way."""
    rng = np.random.RandomState(4)
    y = np.round(rng.standard_normal((2, 19, 7, 9)) * 20)
    device = np.zeros((2, 2, 7, 9, 16))
    device[...] = (
        np.pad(y, ((0, 0), (0, 13), (0, 0), (0, 0)))
        .reshape(2, 2, 16, 7, 9)
        .transpose(0, 1, 3, 4, 2)
        * 1.01
    )
    device[1, 0, 3, 4, 5] = odd
    codes = rounded(device, BFLOAT16)
    target = Tensor(
        dtype_by_name("bfloat16"),
        codes.shape,
        "NC1HWC0",
        MemorySource(codes),
        original_shape=y.shape,
    )
    other = Tensor.from_array(y.astype(golden))
    geometry, axes = match_layouts(target, y.shape, "NCHW", y.shape), slice_axes(y.shape, 1)
    for name in KERNELS:
        with using(name):
            found = []
            for halves in (True, False):
                read = partial(
                    placed_blocks, target, other, geometry, borders=borders(axes), halves=halves
                )
                assert all((block.x.dtype == BFLOAT16) == halves for block in read())
                found.append(repr(compare_blocks(read, MEASURES, axes).values))
        assert found[0] == found[1]
