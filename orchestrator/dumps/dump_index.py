"""What lies below a folder, each folder listed once and only as far as it is asked."""

from __future__ import annotations

import contextlib
import os
import re
from itertools import chain
from typing import Any, Iterator, List, Optional, Pattern, Tuple

from ..base.errors import GoldwatchError, InputError, MissingPath, require_folder
from ..base.manifest import value_name
from ..base.naming import parse_dump_name, parse_golden_name
from ..base.wording import listed
from ..tensors.geometry import moved_axes
from .dump_tree import DumpTree
from .folder_listing import FolderListing, is_folder, walk
from .golden_set import GoldenSet
from .npy import open_npy

OUTPUT_FILE = re.compile(r"(?P<name>.+)_(?P<number>[0-9]{1,4})\.(?:npy|bin|txt)\Z")
TORCH_NODE_FILE = re.compile(
    r"(?P<node>\w+?)(?:_device_(?P<device>[0-9]{1,9}))?_(?P<call>[0-9]{1,9})\.pt\Z"
)

_SHOWN = 3


class DumpIndex:
    """The files below TARGET or GOLDEN by what their names say.

    A question goes through the listed folders, and lists further ones until it is answered; of what
    is no folder every answer is no. Who takes everything as a tree or as golden data takes the
    listings along, which may be large: another question then lists anew.

    Parameters
    ----------
    root
        The folder.
    what
        Its role in error messages.

    Raises
    ------
    MissingPath
        By :meth:`require`, :meth:`tree` and :meth:`golden`: it does not exist, is no folder or
        cannot be listed.
    """

    def __init__(self, root: str, what: str) -> None:
        self.root = root
        self._what = what
        self._walk = walk(root, what)
        self._listings: List[FolderListing] = []
        self._has_dumps: Optional[bool] = None
        self._is_taken = False

    def __reduce__(self) -> Tuple[Any, ...]:
        return DumpIndex, (self.root, self._what)

    @property
    def is_folder(self) -> bool:
        """Whether it can be listed."""
        return is_folder(self.root)

    @property
    def is_file(self) -> bool:
        """Whether it is one file."""
        return os.path.isfile(self.root)

    @property
    def has_dumps(self) -> bool:
        """Whether there is a dump of an op."""
        if self._has_dumps is None:
            self._has_dumps = any(listing.dumps for listing in self._each())
        return self._has_dumps

    def files(self) -> Iterator[Tuple[FolderListing, List[str]]]:
        """Yield what is in each folder, with the names of its files, sorted."""
        for listing in self._each():
            yield listing, sorted(_file_names(listing))

    def below(self) -> Iterator[str]:
        """Yield the files, relative to the folder."""
        for listing, names in self.files():
            yield from (os.path.join(listing.rel, name) for name in names)

    @property
    def single_dump(self) -> Optional[str]:
        """The path of the one dump file where there is no other file; None elsewhere."""
        found: List[str] = []
        for listing, names in self.files():
            found += [entry.path for entry in listing.dumps]
            if len(found) > 1 or (names and len(names) != len(listing.dumps)):
                return None
        return found[0] if found else None

    @property
    def holds_statistics(self) -> bool:
        """Whether it holds statistics instead of dumps, by the first such file, dump or golden
        file.
        """
        for listing in self._each():
            if listing.dumps or listing.golden:
                return False
            if listing.stats or listing.tables:
                return True
        return False

    @property
    def holds_outputs(self) -> bool:
        """Whether it holds what a program wrote as outputs of a network, and no dumps; by names
        alone.
        """
        return self._holds_named(OUTPUT_FILE)

    @property
    def holds_torch_files(self) -> bool:
        """Whether it holds files of ``torch.save`` of each node, and no dumps; by names alone."""
        return self._holds_named(TORCH_NODE_FILE)

    def _holds_named(self, pattern: Pattern[str]) -> bool:
        any_file = False
        for listing, names in self.files():
            if listing.dumps or listing.overflow or listing.stats or listing.unresolved:
                return False
            if any(file.hash_name is not None for file in listing.golden):
                return False
            any_file = any_file or any(map(pattern.match, names))
        return any_file

    def require(self) -> None:
        """Raise MissingPath unless it can be listed."""
        if self.is_file:
            from ..kinds.wrong_kind_advice import no_folder

            advice = no_folder(self.root, self._what)
            if advice is not None:
                message = "%s: %s: %s" % (self._what, self.root, advice.words)
                raise MissingPath(message, hint=advice.hint)
        require_folder(self.root, self._what)

    def tree(self, time: Optional[str] = None) -> DumpTree:
        """Return the dumps as :class:`goldwatch.dumps.dump_tree.DumpTree` tells."""
        return DumpTree(self.root, time, self._taken())

    def golden(self) -> GoldenSet:
        """Return the golden data."""
        return GoldenSet(self.root, self._taken())

    def _taken(self) -> List[FolderListing]:
        self.require()
        self._has_dumps = any(listing.dumps for listing in self._each())
        taken = list(self._each())
        self._listings, self._is_taken = [], True
        return taken

    def _each(self) -> Iterator[FolderListing]:
        if not self.is_folder:
            return
        if self._is_taken:
            self._walk, self._is_taken = walk(self.root, self._what), False
        yield from self._listings
        for listing in self._walk:
            self._listings.append(listing)
            yield listing


def _file_names(listing: FolderListing) -> List[str]:
    entries: Iterator[Any] = chain(listing.dumps, listing.overflow, listing.stats, listing.golden)
    names = [os.path.basename(entry.path) for entry in entries]
    names += listing.unresolved + listing.tables + listing.others
    return names if listing.mapping is None else [*names, os.path.basename(listing.mapping)]


Indexes = Tuple[DumpIndex, ...]
"""Of TARGET and of GOLDEN."""


def indexes_of(target: str, golden: str) -> Indexes:
    """Return the indexes of two paths."""
    return DumpIndex(target, "TARGET"), DumpIndex(golden, "GOLDEN")


def single_dumps(indexes: Indexes) -> Indexes:
    """Return those of the two dump files where two folders hold one each, of ops of other names;
    else the same.
    """
    mine, theirs = (index.single_dump for index in indexes)
    if mine is None or theirs is None:
        return indexes
    names = [parse_dump_name(os.path.basename(path)) for path in (mine, theirs)]
    ops = {name.op_name for name in names if name is not None}
    return indexes if len(ops) == 1 else indexes_of(mine, theirs)


def are_files(indexes: Indexes) -> bool:
    """Tell whether two single files are named; what is neither file nor folder is none.

    Raises
    ------
    MissingPath
        One is a file, and the other is not there.
    InputError
        One is a file and the other a folder.
    """
    target, golden = (index.root for index in indexes)
    kinds = [index.is_folder for index in indexes]
    if indexes[0].is_file and not os.path.lexists(golden):
        where, pattern = os.path.split(golden)
        fits = _fitting_files(target, where or ".", pattern) if pattern.endswith(".npy") else []
        raise MissingPath(
            "GOLDEN: %s does not exist" % golden,
            hint="by shape it may be %s" % listed(fits, _SHOWN)
            if fits
            else "check the path; it is read from the current folder",
        )
    if kinds[0] == kinds[1] or not all(index.is_folder or index.is_file for index in indexes):
        return all(index.is_file for index in indexes)
    from ..kinds.wrong_kind_advice import not_a_dump

    file, folder = (golden, target) if kinds[0] else (target, golden)
    advice = not_a_dump(file)
    hint = advice.hint if advice is not None else None
    if file.endswith(".npy") and kinds[0]:
        hint = "name one file of the folder %s as well" % folder
    elif file.endswith(".npy"):
        fits = _fitting_files(file, folder)
        one = fits[0] if fits else os.path.join(folder, "OP.INDEX.TIME.npy")
        hint = (
            "name the golden file as well: goldwatch compare %s %s%s; an output of the network: "
            "goldwatch compare %s %s --outputs NAME=%s"
        ) % (
            file,
            one,
            " (by its shape; so is %s)" % listed(fits[1:], _SHOWN) if fits[1:] else "",
            os.path.dirname(file) or ".",
            folder,
            file,
        )
    message = "TARGET and GOLDEN must be two folders or two files: %s is a %s, %s a %s" % (
        target, "folder" if kinds[0] else "file", golden, "folder" if kinds[1] else "file",
    )  # fmt: skip
    raise InputError(message if advice is None else "%s; %s" % (message, advice.words), hint=hint)


def _fitting_files(file: str, folder: str, pattern: str = "") -> List[str]:
    """Return the golden files of a folder that a file of one array fits by its shape, its channels
    first or last: those made last first. ``pattern``: a file name of another op or of a value of
    the original model, whose file comes first.
    """
    try:
        shape = open_npy(file).shape
        names = sorted(name for name in os.listdir(folder) if name.endswith(".npy"))
    except (GoldwatchError, OSError):
        return []
    wanted, fits = pattern.split(".")[0], []
    for name in names:
        if os.path.join(folder, name) in (file, os.path.join(".", file)):
            continue
        path, parts = os.path.join(folder, name), parse_golden_name(name)
        with contextlib.suppress(GoldwatchError, OSError):
            theirs = open_npy(path).shape
            if theirs == shape or moved_axes(shape, theirs) is not None:
                first = wanted and wanted not in (value_name(path), parts and parts.op_name)
                fits.append((bool(first), -(parts.timestamp_us if parts else 0), path))
    return [path for _, _, path in sorted(fits)]
