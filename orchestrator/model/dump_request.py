"""What of a model a dump configuration asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Optional

from .op_node import OpNode


@dataclass(frozen=True)
class DumpRequest:
    """What the device was asked to dump of one model.

    Attributes
    ----------
    positions
        The ops, by their positions in the model file; None: all.
    reason
        Why the others have no dump.
    mode
        ``input``, ``output`` or ``all``: which tensors of an op; None where nobody says.
    """

    positions: Optional[FrozenSet[int]] = None
    reason: str = ""
    mode: Optional[str] = None

    def excludes(self, op: OpNode) -> bool:
        """Tell whether an op is none of those that were asked for."""
        return self.positions is not None and op.position not in self.positions


EVERYTHING = DumpRequest()
"""Nobody says what was asked for: every op, and the tensors that its dump holds."""
