"""Chooses the kernel that computes the metrics: the compiled one where it is installed, else
numpy's.
"""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from ...base.errors import UsageError
from .binding import REVISION, CompiledKernel

VARIABLE = "GOLDWATCH_KERNEL"
"""Environment variable: ``numpy`` or ``compiled``; unset or empty: compiled where it is there."""

_choice: Optional[Tuple[Optional[CompiledKernel], str]] = None


def compiled_kernel() -> Optional[CompiledKernel]:
    """Return the compiled kernel, None where numpy computes; decided once for a process.

    Raises
    ------
    UsageError
        :data:`VARIABLE` has another value, or asks for what is not there.
    """
    return (_choice or _choose())[0]


def about_kernel() -> str:
    """Return which kernel computes the metrics, and why, in a sentence; raises as
    :func:`compiled_kernel`.
    """
    return (_choice or _choose())[1]


def _choose() -> Tuple[Optional[CompiledKernel], str]:
    global _choice
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in ("", "numpy", "compiled"):
        raise UsageError(
            "%s is %r" % (VARIABLE, chosen), hint="it takes numpy or compiled, and may be left out"
        )
    if chosen == "numpy":
        _choice = None, "numpy computes the metrics, because %s says so" % VARIABLE
        return _choice
    kernel, trouble = _load()
    if kernel is not None:
        _choice = (
            kernel,
            "compiled code computes the metrics, with the instruction set %s"
            % kernel.instruction_set,
        )
    elif chosen:
        raise UsageError("%s asks for the compiled kernel, but %s" % (VARIABLE, trouble))
    else:
        _choice = None, "numpy computes the metrics, because %s" % trouble
    return _choice


def _load() -> Tuple[Optional[CompiledKernel], str]:
    try:
        from . import _kernel
    except ImportError as error:
        if os.path.exists(
            os.path.join(os.path.dirname(os.path.abspath(__file__)), "_kernel.abi3.so")
        ):
            return None, "the compiled kernel cannot be loaded (%s)" % error
        return (
            None,
            "there is no compiled kernel (it is built where a C compiler is there when "
            "goldwatch is installed)",
        )
    if _kernel.revision() != REVISION:
        return None, "the compiled kernel is of another version of goldwatch: install again"
    return CompiledKernel(_kernel), ""


def instruction_sets() -> List[str]:
    """Return those that this processor runs, the widest first; empty without the compiled
    kernel.
    """
    kernel, _ = _load()
    if kernel is None:
        return []
    from . import _kernel

    names: List[str] = _kernel.instruction_sets()
    return names
