"""All that is asked of the file system about TARGET and GOLDEN but for the bytes of files: what is
in a folder, classified by name, each folder of a tree listed once; how a file looks.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from dataclasses import field
from typing import (
    Any,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..base.errors import FormatError, require_folder
from ..base.fast_dataclasses import dataclass
from ..base.naming import (
    MAPPING_FILE,
    DumpName,
    GoldenName,
    intended_golden_name,
    is_hash_name,
    lacks_name_part,
    parse_dump_name,
    parse_golden_name,
    read_mapping,
)
from ..base.notes import Note, note
from .statistics_csv import is_table_of_ops, rows_signature, table_paths

MAX_DEPTH = 100
GOLDEN_SUFFIXES = (".npy", ".pb", ".quant")


class Signature(NamedTuple):
    """A regular file's size in bytes, times in nanoseconds and inode.

    The time of the last change of the inode (ctime) tells a file that was overwritten in place and
    whose mtime was put back.
    """

    size_bytes: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    @property
    def text(self) -> str:
        """The signature as the store keeps it in column ``state`` of table ``file``."""
        return "%d:%d:%d:%d" % self

    def is_file(self, other: Optional[Signature]) -> bool:
        """Tell whether ``other`` is the same file under another name: a rename changes the ctime
        only.
        """
        return other is not None and self[:3] == other[:3]


def look_at(path: str) -> Optional[Signature]:
    """Return the signature of a regular file (links are followed); None when it is not there, or is
    none.

    Of an op in a table of statistics it is that of the op's rows, whatever is appended for others.
    """
    try:
        status = os.stat(path)
    except NotADirectoryError:
        mark = rows_signature(path)
        return None if mark is None else Signature(mark[0], 0, mark[2], mark[1])
    except OSError:
        return None
    return (
        Signature(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)
        if stat.S_ISREG(status.st_mode)
        else None
    )


def is_folder(path: str) -> bool:
    """Tell whether a path can be listed."""
    return os.path.isdir(path)


@dataclass(frozen=True)
class DumpEntry:
    """One file that a device wrote.

    Attributes
    ----------
    path
        As joined to the folder that was listed.
    rel
        Relative to the folder that the user named.
    name
        The parsed name (for a hash name, the name that mapping.csv gives).
    hash_name
        The file's name on disk if that is a hash; else None.
    """

    path: str
    rel: str
    name: DumpName
    hash_name: Optional[str] = None


@dataclass(frozen=True)
class GoldenFile:
    """One file with a golden name; attributes as those of :class:`DumpEntry`."""

    path: str
    rel: str
    name: GoldenName
    hash_name: Optional[str] = None


class DumpEntries(Sequence[DumpEntry]):
    """Dumps of ops below one folder in 60 bytes each, an eighth of what they take as objects: each
    is made anew when it is asked for.

    Attributes
    ----------
    only_op
        The name of the op whose dumps they all are; None where they are of several.
    repeated
        How many of them are earlier runs of the same op.
    """

    def __init__(self, folder: str, rel: str, entries: Sequence[DumpEntry]) -> None:
        self._folder, self._rel, self._count = folder, rel, len(entries)
        start = len(os.path.join(rel, ""))
        self._names = "\0".join(entry.rel[start:] for entry in entries)
        self._hashed = {
            entry.rel[start:]: entry.name for entry in entries if entry.hash_name is not None
        }
        ops = {entry.name.op_name for entry in entries}
        self.only_op = ops.pop() if len(ops) == 1 else None
        self.repeated = len(entries) - len({op_key(entry.name) for entry in entries})

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        return list(self)[at]

    def __iter__(self) -> Iterator[DumpEntry]:
        for name in self._names.split("\0") if self._count else ():
            path, rel = os.path.join(self._folder, name), os.path.join(self._rel, name)
            hashed, base_name = self._hashed.get(name), os.path.basename(name)
            parsed = hashed or parse_dump_name(base_name)
            assert parsed is not None
            yield DumpEntry(path, rel, parsed, None if hashed is None else base_name)


def op_key(name: DumpName) -> Tuple[Any, ...]:
    """Return the key that files of repeated runs of one op (or one slice of it) share."""
    return (
        name.op_type,
        name.op_name,
        name.task_type,
        name.context_id,
        name.thread_id,
        name.device_id,
    )


@dataclass
class FolderListing:
    """The classified contents of one folder.

    Attributes
    ----------
    folder, rel
        Its path, and the same relative to the folder that the user named (empty for that folder
        itself).
    dumps
        Dumps of ops, by timestamp.
    overflow, stats
        Overflow records (``Opdebug.Node_OpDebug…``) and statistics CSVs.
    golden
        Files with golden names (npy, pb, quant).
    unresolved
        Names of files with a hash name that mapping.csv does not explain.
    tables
        Names of tables of statistics whose rows name their ops.
    others
        Names of all other files.
    mapping
        Path of mapping.csv, or None.
    folders, links
        Names of the folders in it, and of links to folders.
    notes
        What could not be read or understood, as sentences.
    passed_over
        What was skipped and why, as sentences: special files, and the folder itself if listed
        before.
    unlisted
        Why the folder could not be listed; empty if it was.
    """

    folder: str
    rel: str = ""
    dumps: DumpEntries = field(default_factory=lambda: DumpEntries("", "", ()))
    overflow: List[DumpEntry] = field(default_factory=list)
    stats: List[DumpEntry] = field(default_factory=list)
    golden: List[GoldenFile] = field(default_factory=list)
    unresolved: List[str] = field(default_factory=list)
    tables: List[str] = field(default_factory=list)
    others: List[str] = field(default_factory=list)
    mapping: Optional[str] = None
    folders: List[str] = field(default_factory=list)
    links: List[str] = field(default_factory=list)
    notes: List[Note] = field(default_factory=list)
    passed_over: List[str] = field(default_factory=list)
    unlisted: str = ""

    def where(self) -> str:
        """Return the folder's name for a message."""
        return self.rel or self.folder


def list_folder(folder: str, rel: str = "") -> FolderListing:
    """List one folder.

    Files are classified by name; only mapping.csv and other tables (.csv) are opened. A folder that
    cannot be listed gives an empty listing with a note.
    """
    listing = FolderListing(folder, rel)
    hashes: List[str] = []
    dumps: List[DumpEntry] = []
    try:
        with os.scandir(folder) as entries:
            in_order = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        listing.unlisted = error.strerror or str(error)
        listing.notes.append(note("unlisted-folder", listing.where(), listing.unlisted))
        return listing
    for entry in in_order:
        _add_file(listing, entry, hashes, dumps)
    if hashes:
        _resolve(listing, hashes, dumps)
    listing.notes += misnamed_notes([os.path.join(rel, name) for name in listing.others])
    listing.dumps = dumps_of(folder, rel, dumps)
    return listing


def dumps_of(folder: str, rel: str, entries: Iterable[DumpEntry]) -> DumpEntries:
    """Return dumps below a folder by timestamp."""
    return DumpEntries(folder, rel, sorted(entries, key=_by_time))


def _by_time(entry: DumpEntry) -> Tuple[int, str]:
    return entry.name.timestamp_us, entry.rel


def misnamed_notes(files: Sequence[str]) -> List[Note]:
    """Return notes about files that would be golden files but for some letters or a missing part of
    their names.
    """
    incomplete = [file for file in files if lacks_name_part(os.path.basename(file))]
    if incomplete:
        count = (
            "1 npy file lacks" if len(incomplete) == 1 else "%d npy files lack" % len(incomplete)
        )
        return [
            note("incomplete-names", count, incomplete[0]),
            *misnamed_notes([file for file in files if file not in set(incomplete)]),
        ]
    names = ((file, intended_golden_name(os.path.basename(file))) for file in files)
    misnamed = [(file, meant) for file, meant in names if meant is not None]
    if not misnamed:
        return []
    count = "1 file has" if len(misnamed) == 1 else "%d files have" % len(misnamed)
    others = "" if len(misnamed) == 1 else ", and the others likewise"
    return [note("misnamed-golden", count, *misnamed[0], others)]


def _add_file(
    listing: FolderListing, entry: os.DirEntry[str], hashes: List[str], dumps: List[DumpEntry]
) -> None:
    name = entry.name
    try:
        if entry.is_dir():
            (listing.links if entry.is_symlink() else listing.folders).append(name)
            return
        if not entry.is_file():
            listing.others.append(name)
            listing.passed_over.append(
                "%s is not a regular file (or a link to nothing)" % os.path.join(listing.rel, name)
            )
            return
    except OSError as error:
        listing.others.append(name)
        listing.passed_over.append(
            "%s cannot be looked at: %s"
            % (os.path.join(listing.rel, name), error.strerror or error)
        )
        return
    if name == MAPPING_FILE:
        listing.mapping = entry.path
    elif is_hash_name(name):
        hashes.append(name)
    elif not _classify(listing, name, name, None, dumps):
        (listing.tables if is_table_of_ops(entry.path) else listing.others).append(name)


def listed_statistics(listing: FolderListing) -> DumpEntries:
    """Return the statistics of a folder by timestamp, with one entry for each op of a table."""
    dumps = list(listing.stats)
    for name in listing.tables:
        for path in table_paths(os.path.join(listing.folder, name)):
            dump = parse_dump_name(os.path.basename(path))
            if dump is not None:
                dumps.append(
                    DumpEntry(path, os.path.join(listing.rel, name, os.path.basename(path)), dump)
                )
    return dumps_of(listing.folder, listing.rel, dumps)


def _classify(
    listing: FolderListing,
    file_name: str,
    full_name: str,
    hash_name: Optional[str],
    dumps: List[DumpEntry],
) -> bool:
    """Add the file to the list that its full name belongs to; False if it is neither a dump nor a
    golden file.
    """
    path, rel = os.path.join(listing.folder, file_name), os.path.join(listing.rel, file_name)
    dump = parse_dump_name(full_name)
    if dump is not None:
        kinds = {"dump": dumps, "overflow": listing.overflow, "stats": listing.stats}
        kinds[dump.kind].append(DumpEntry(path, rel, dump, hash_name))
        return True
    golden = parse_golden_name(full_name)
    if golden is not None:
        listing.golden.append(GoldenFile(path, rel, golden, hash_name))
        return True
    return False


def _resolve(listing: FolderListing, hashes: List[str], dumps: List[DumpEntry]) -> None:
    """Resolve hash names by the folder's mapping.csv."""
    names: Dict[str, str] = {}
    if listing.mapping is None:
        listing.notes.append(note("no-mapping", listing.where(), len(hashes), MAPPING_FILE))
    else:
        try:
            names = read_mapping(listing.mapping)
        except FormatError as error:
            listing.notes.append(
                note("unusable-mapping", os.path.join(listing.rel, MAPPING_FILE), error.message)
            )
        except OSError as error:
            listing.notes.append(
                note(
                    "unreadable-mapping",
                    os.path.join(listing.rel, MAPPING_FILE),
                    error.strerror or error,
                )
            )
    for file_name in hashes:
        full_name = full_name_of(file_name, names)
        if full_name is None:
            listing.unresolved.append(file_name)
            if names:
                listing.notes.append(
                    note("not-in-mapping", os.path.join(listing.rel, file_name), MAPPING_FILE)
                )
        elif not _classify(listing, file_name, full_name, file_name, dumps):
            listing.unresolved.append(file_name)
            rel = os.path.join(listing.rel, file_name)
            listing.notes.append(note("no-dump-name", rel, MAPPING_FILE, full_name))


def full_name_of(file_name: str, names: Dict[str, str]) -> Optional[str]:
    """Return the name that a mapping gives a hash-named file, or None.

    The mapping's key may be the file's name or only its digits, and the original name may lack the
    suffix of a golden file.
    """
    stem, suffix = os.path.splitext(file_name)
    full_name = names.get(file_name) or names.get(stem)
    if full_name is None:
        return None
    if suffix in GOLDEN_SUFFIXES and not full_name.endswith(GOLDEN_SUFFIXES):
        full_name += suffix
    return full_name


def walk(root: str, what: str) -> Iterator[FolderListing]:
    """Yield the listing of ``root`` and of every folder below it, each real folder once; links are
    followed, loops are not.

    Parameters
    ----------
    what
        The folder's role in error messages, such as ``TARGET``.

    Raises
    ------
    MissingPath
        ``root`` does not exist, is not a folder or cannot be listed.
    """
    require_folder(root, what)
    visited: Set[Tuple[int, int]] = set()
    waiting: List[Tuple[str, str, int]] = [(root, "", 0)]
    # Links last, so that a folder is listed under its real name.
    links: Deque[Tuple[str, str, int]] = deque()
    while waiting or links:
        folder, rel, depth = waiting.pop() if waiting else links.popleft()
        why = _first_visit(folder, rel, depth, visited)
        if why is not None:
            yield FolderListing(folder, rel, passed_over=[why])
            continue
        listing = list_folder(folder, rel)
        yield listing
        for name in reversed(listing.folders):
            waiting.append((os.path.join(folder, name), os.path.join(rel, name), depth + 1))
        links.extend(
            (os.path.join(folder, name), os.path.join(rel, name), depth + 1)
            for name in listing.links
        )


def _first_visit(folder: str, rel: str, depth: int, visited: Set[Tuple[int, int]]) -> Optional[str]:
    """Return why this folder is not listed again, or None after marking it as visited."""
    if depth > MAX_DEPTH:
        return "%s lies more than %d folders deep and is left out" % (rel, MAX_DEPTH)
    try:
        status = os.stat(folder)
    except OSError as error:
        return "%s cannot be looked at: %s" % (rel or folder, error.strerror)
    if not stat.S_ISDIR(status.st_mode):
        return "%s is no longer a folder" % (rel or folder)
    identity = (status.st_dev, status.st_ino)
    if identity in visited:
        return "%s is the same folder as one that was already listed" % (rel or folder)
    visited.add(identity)
    return None
