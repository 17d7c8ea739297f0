"""The files below TARGET by path, kept by folder: hundreds of thousands of paths are never whole at
once.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Mapping

from .target_file import TargetFile


class KnownFiles(Mapping[str, TargetFile]):
    """A mapping of absolute paths to files, in the order in which their folders came, and in each
    in that of the files.

    Attributes
    ----------
    revision
        Rises with each file that is added or dropped.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._folders: Dict[str, Dict[str, TargetFile]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return (file.path for file in self.each())

    def __getitem__(self, path: str) -> TargetFile:
        folder, _, name = path.rpartition(os.sep)
        return self._folders[folder or os.sep][name]

    def add(self, file: TargetFile) -> None:
        """Add a file that is not known."""
        self._folders.setdefault(file.folder.path, {})[file.name] = file
        self._count += 1
        self.revision += 1

    def discard(self, file: TargetFile) -> None:
        """Drop a file, known or not."""
        if self._folders.get(file.folder.path, {}).pop(file.name, None) is not None:
            self._count -= 1
            self.revision += 1

    def each(self) -> Iterator[TargetFile]:
        """Yield the files; none may be added or dropped meanwhile."""
        for found in self._folders.values():
            yield from found.values()

    def folders(self) -> List[str]:
        """Return the folders that files were met in."""
        return list(self._folders)

    def within(self, folder: str) -> List[TargetFile]:
        """Return the files of one folder."""
        return list(self._folders.get(folder, {}).values())
