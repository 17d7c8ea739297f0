"""What a device wrote: single dump files, trees of them, and whether a file is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_imports import imported_when_used

if TYPE_CHECKING:
    from .completeness import Completeness, probe
    from .dump_file import DumpFile, RegionInfo, TensorInfo
    from .dump_tree import DumpTree, StepFolder
    from .file_source import FileSource
    from .folder_listing import DumpEntry, FolderListing, GoldenFile, list_folder
    from .golden_set import Collision, GoldenEntry, GoldenSet
    from .npy import open_npy
    from .place import NOWHERE, Place
    from .write import TensorData, dump_parts, write_dump

__all__ = [
    "Collision",
    "StepFolder",
    "Completeness",
    "DumpEntry",
    "DumpFile",
    "DumpTree",
    "FileSource",
    "FolderListing",
    "GoldenEntry",
    "GoldenFile",
    "GoldenSet",
    "NOWHERE",
    "Place",
    "RegionInfo",
    "TensorData",
    "TensorInfo",
    "dump_parts",
    "list_folder",
    "open_npy",
    "probe",
    "write_dump",
]

if not TYPE_CHECKING:
    __getattr__ = imported_when_used(
        __name__,
        completeness=("Completeness", "probe"),
        dump_file=("DumpFile", "RegionInfo", "TensorInfo"),
        golden_set=("Collision", "GoldenEntry", "GoldenSet"),
        folder_listing=("DumpEntry", "FolderListing", "GoldenFile", "list_folder"),
        npy=("open_npy",),
        place=("NOWHERE", "Place"),
        file_source=("FileSource",),
        dump_tree=("StepFolder", "DumpTree"),
        write=("TensorData", "dump_parts", "write_dump"),
    )
