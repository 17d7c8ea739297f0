"""Slow references: one element at a time, by the published index formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest


def offset_of(device_format, index, dims, c0, groups=1):
    """Return the place in storage of the element at ``index`` (both by letter; of NZ by number)."""

    def up(value, block):
        return (value + block - 1) // block

    if device_format == "FRACTAL_NZ":
        *lead, m, k = index
        rows, columns = up(dims[-2], 16), up(dims[-1], c0)
        at = 0
        for place, size in zip(lead, dims[:-2]):
            at = at * size + place
        at = at * columns + k // c0
        at = at * rows + m // 16
        at = at * 16 + m % 16
        return at * c0 + k % c0
    n, c, h, w = (index[letter] for letter in "NCHW")
    height, width, c1 = dims["H"], dims["W"], up(dims["C"], c0)
    if device_format == "NC1HWC0":
        return (((n * c1 + c // c0) * height + h) * width + w) * c0 + c % c0
    if device_format == "NHWC1C0":
        return (((n * height + h) * width + w) * c1 + c // c0) * c0 + c % c0
    if device_format == "C1HWNC0":
        return ((((c // c0) * height + h) * width + w) * dims["N"] + n) * c0 + c % c0
    if device_format == "NDC1HWC0":
        return (
            (((n * dims["D"] + index["D"]) * c1 + c // c0) * height + h) * width + w
        ) * c0 + c % c0
    if device_format == "FRACTAL_Z_3D":
        block = ((index["D"] * c1 + c // c0) * height + h) * width + w
        return ((block * up(dims["N"], 16) + n // 16) * 16 + n % 16) * c0 + c % c0
    assert device_format == "FRACTAL_Z"
    cin, cout = dims["C"], dims["N"] // groups

    def lcm(a, b):
        return a * b // math.gcd(a, b)

    multiple = min(lcm(lcm(cin, c0) // cin, lcm(cout, 16) // cout), groups) if groups > 1 else 1
    cin_opt, cout_opt = up(multiple * cin, c0) * c0, up(multiple * cout, 16) * 16
    group, co = divmod(n, cout)
    row, column = (group % multiple) * cout + co, (group % multiple) * cin + c
    at = (group // multiple) * (cin_opt // c0) + column // c0
    at = (at * height + h) * width + w
    return (at * cout_opt + row) * c0 + column % c0


def slow_pack(plain, letters, device_format, c0, stored_size, groups=1, filler=0):
    """Return a plain array as the device stores it, flat; padding is ``filler``."""
    out = np.full(stored_size, filler, plain.dtype)
    dims = dict(zip(letters, plain.shape)) if letters else plain.shape
    for place in itertools.product(*map(range, plain.shape)):
        index = dict(zip(letters, place)) if letters else place
        out[offset_of(device_format, index, dims, c0, groups)] = plain[place]
    return out


@pytest.fixture
def pack_slowly():
    return slow_pack
