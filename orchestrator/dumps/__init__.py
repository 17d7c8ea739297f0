"""What a device wrote: one container file, a tree of them, whether a file is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import imported_when_used

if TYPE_CHECKING:
    from .complete import probe
    from .container import DumpFile
    from .golden import GoldenSet
    from .npy import open_npy
    from .tree import DumpTree
    from .write import TensorData, write_dump

__all__ = ["DumpFile", "DumpTree", "GoldenSet", "TensorData", "open_npy", "probe", "write_dump"]

__getattr__ = imported_when_used(
    __name__,
    complete=("probe",),
    container=("DumpFile",),
    golden=("GoldenSet",),
    npy=("open_npy",),
    tree=("DumpTree",),
    write=("TensorData", "write_dump"),
)
