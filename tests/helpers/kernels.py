"""Chooses the kernel for a test: numpy, or the compiled kernel with one of the processor's
instruction sets.
"""

from __future__ import annotations

import contextlib

import numpy as np

from goldwatch.metrics.compiled import choice
from goldwatch.metrics.compiled.binding import CompiledKernel
from goldwatch.tensors.dtypes import BFLOAT16

#: Without a C compiler there is numpy alone.
SETS = choice.instruction_sets()
KERNELS = ["numpy", *SETS]


@contextlib.contextmanager
def using(name):
    """Compute with the kernel of that name; yields the compiled one, None for numpy."""
    before, sets = choice._choice, []
    kernel = None
    if name != "numpy":
        from goldwatch.metrics.compiled import _kernel

        sets = [_kernel.instruction_set()]
        _kernel.choose(name)
        kernel = CompiledKernel(_kernel)
    choice._choice = kernel, "a test computes with %s" % name
    try:
        yield kernel
    finally:
        choice._choice = before
        for first in sets:
            _kernel.choose(first)


def rounded(numbers, dtype):
    """Numbers as elements of a type; V2 is bfloat16, rounded towards zero."""
    if np.dtype(dtype) == BFLOAT16:
        return (numbers.astype("f4").view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16)
    return numbers.astype(dtype)
