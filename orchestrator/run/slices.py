"""Files that hold the slices of one op: which of them stands for all, and what they come to
together.
"""

from __future__ import annotations

from typing import Tuple

from ..dumps.slices import slices_told
from .catalogue import Catalogue
from .file_plan import FilePlan
from .places import Places
from .target_file import HELD, PLANNED, TargetFile


class Slices:
    """The slices among the files of a catalogue; any other file stands for itself."""

    def __init__(self, catalogue: Catalogue, places: Places) -> None:
        self._catalogue = catalogue
        self._places = places

    def joins(self, file: TargetFile) -> bool:
        """Tell whether a file is a slice that is joined with the others of its op."""
        return self._catalogue.sliced and self._places.planner(file.place).joins(file.entry())

    def lead(self, file: TargetFile) -> TargetFile:
        """Return the file that stands for a slice's op: the first."""
        return next(iter(self._catalogue.slices(file).values()), file)

    def is_held(self, file: TargetFile) -> bool:
        """Tell whether a file is a slice that another stands for."""
        return self.joins(file) and self.lead(file) is not file

    def others(self, lead: TargetFile) -> Tuple[TargetFile, ...]:
        """Return what a file stands for besides itself."""
        return (
            tuple(part for part in self._catalogue.slices(lead).values() if part is not lead)
            if self.joins(lead)
            else ()
        )

    def all_there(self, file: TargetFile) -> bool:
        """Tell whether all slices of an op have come, by what the first tells of their number."""
        first, *others = self._catalogue.slices(file).values()
        return (
            all(part.state in (HELD, PLANNED) for part in others)
            and slices_told(first.path) == len(others) + 1
        )

    def plan(self, file: TargetFile) -> FilePlan:
        """Return what a file's tensors, or those of the slices that it stands for, come to."""
        planner, entry = self._places.planner(file.place), file.entry()
        if not self.joins(file):
            return planner.plan(entry, file.iteration)
        parts = {number: part.entry() for number, part in self._catalogue.slices(file).items()}
        return planner.plan(entry, file.iteration, parts or {0: entry})
