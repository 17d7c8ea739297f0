"""Finds the files to convert, each with the name and the folder of its results."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Sequence, Tuple

from ...base.errors import InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import MAPPING_FILE, DumpName, compose_dump_name, is_hash_name, read_mapping
from ...dumps.folder_listing import full_name_of, is_folder, look_at, walk

TORCH_SUFFIXES = (".pt", ".pth")
"""Names of the files of ``torch.save``."""


@dataclass(frozen=True)
class Source:
    """One file to be converted.

    Attributes
    ----------
    path
        The file.
    name
        Its own name, or the one that mapping.csv gives.
    folder
        Where its results go, relative to OUT.
    """

    path: str
    name: str
    folder: str


def find_sources(inputs: Sequence[str]) -> List[Source]:
    """Return the dump files, golden files and npy files that the inputs name; folders are walked.

    Files with hash names are called as mapping.csv says; those that it does not explain are there
    under their own names.

    Raises
    ------
    MissingPath
        An input does not exist.
    FormatError
        The mapping.csv beside an input cannot be used.
    InputError
        Nothing at all is there to be converted.
    """
    sources: List[Source] = []
    for path in inputs:
        if not is_folder(path):
            sources.append(Source(path, _name_of(path), ""))
            continue
        for listing in walk(path, "INPUT"):
            listed: List[Any] = [*listing.dumps, *listing.overflow, *listing.golden]
            entries = [(entry.path, entry.hash_name, _full_name(entry)) for entry in listed]
            sources += [
                Source(where, name if hashed else os.path.basename(where), listing.rel)
                for where, hashed, name in entries
            ]
            files = [
                *listing.unresolved,
                *(name for name in listing.others if name.endswith((".npy", *TORCH_SUFFIXES))),
            ]
            sources += [
                Source(where, _name_of(where), listing.rel)
                for where in (os.path.join(listing.folder, name) for name in files)
            ]
    if not sources:
        raise InputError("%s: no dump file, npy or pt was found" % ", ".join(inputs))
    return list(
        {(os.path.realpath(source.path), source.folder): source for source in sources}.values()
    )


def _name_of(path: str) -> str:
    """Return a file's name, or the one that the mapping.csv beside it gives."""
    folder, name = os.path.split(path)
    mapping = os.path.join(folder, MAPPING_FILE)
    if not is_hash_name(name) or look_at(mapping) is None:
        return name
    return full_name_of(name, read_mapping(mapping)) or name


def _full_name(entry: Any) -> str:
    name = entry.name
    return compose_dump_name(name) if isinstance(name, DumpName) else "%s.%d.%d.%s" % (
        name.op_name, name.output_index, name.timestamp_us, name.suffix
    )  # fmt: skip


def require_own_names(sources: Sequence[Source]) -> None:
    """Raise UsageError where the results of two files would have the same names in the same
    folder.
    """
    first_paths: Dict[Tuple[str, str], str] = {}
    for source in sources:
        other = first_paths.setdefault((source.folder, source.name), source.path)
        if other != source.path:
            raise UsageError(
                "%s and %s: their results would have the same names" % (other, source.path),
                hint="convert them into folders of their own, or name the folder that holds both",
            )
