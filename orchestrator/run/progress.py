"""How far a run is."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Tuple

from ..base.fast_dataclasses import dataclass

COMPARING = "comparing"


@dataclass
class Progress:
    """How far a run is; sizes in bytes.

    Attributes
    ----------
    stage
        What is being done. Of other work than :data:`COMPARING` so many steps are done as ``done``
        says of ``total`` (0: not known).
    """

    pairs: int = 0
    pairs_done: int = 0
    bytes_done: int = 0
    stage: str = COMPARING
    done: int = 0
    total: int = 0

    @property
    def steps(self) -> Tuple[int, int]:
        """How many steps of the stage are done, and of how many; 0: not known."""
        return (self.done, self.total) if self.stage != COMPARING else (self.pairs_done, self.pairs)

    def at(self, stage: str, done: int = 0, total: int = 0) -> Progress:
        """Return the same in another stage."""
        return replace(self, stage=stage, done=done, total=total)


OnProgress = Callable[[Progress], None]
OnStage = Callable[[str, int, int], None]
"""Takes a stage, how many of its steps are done, and of how many; 0: not known."""
