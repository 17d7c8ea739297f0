"""What the model says: its graph, and which target tensor belongs to which golden tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import imported_when_used

if TYPE_CHECKING:
    from .graph import load_model
    from .pairing import Pairing
    from .row_plan import DumpedOp

__all__ = ["DumpedOp", "Pairing", "load_model"]

__getattr__ = imported_when_used(__name__, graph=("load_model",), pairing=("Pairing",), row_plan=("DumpedOp",))
