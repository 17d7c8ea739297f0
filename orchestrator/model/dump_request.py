"""The ops and tensors of a model that a dump configuration requests."""

from __future__ import annotations

from typing import FrozenSet, Optional

from ..fast_dataclasses import dataclass
from .op_node import OpNode


@dataclass(frozen=True)
class DumpRequest:
    """What the device was asked to dump of one model.

    Attributes
    ----------
    positions
        Positions in the model file of the requested ops; None: all.
    reason
        Why the other ops have no dump.
    mode
        ``dump_mode``: ``input``, ``output`` or ``all``; None if unknown.
    """

    positions: Optional[FrozenSet[int]] = None
    reason: str = ""
    mode: Optional[str] = None

    def excludes(self, op: OpNode) -> bool:
        """Return whether an op was not requested."""
        return self.positions is not None and op.position not in self.positions


EVERYTHING = DumpRequest()
"""The request if the configuration is unknown: every op, with the tensors that its dump holds."""
