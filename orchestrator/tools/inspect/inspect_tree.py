"""Describes a tree of dumps: places, ops, damaged files, repeated and hashed names, overflow
records."""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from ...base.errors import GoldwatchError, MissingPath
from ...base.naming import MAPPING_FILE, nearest_names, printable
from ...dumps.completeness import NO_LAW, Completeness, probe
from ...dumps.dump_file import DumpFile
from ...dumps.dump_header import COMPLETE, HEADERLESS, LONG, SHORT
from ...dumps.dump_index import DumpIndex
from ...dumps.folder_listing import (
    DumpEntry,
    FolderListing,
    listed_statistics,
    look_at,
    op_key,
    walk,
)
from ...dumps.overflow_records import op_tasks, overflow_records, tasks_of
from ...dumps.place import Place, place_of
from ...dumps.statistics_csv import rows_of
from ...kinds.wrong_kind_advice import watched_without_dumps
from .inspect_file import Document, inspect_file, remarkable_tensors, worst_first
from .tensor_statistics import UNUSUAL

#: Of ops that a pattern leaves out: how many are kept, and how many are named.
_MOST_NAMES, _NAMED = 10000, 3
_OWN_FILES = (
    "manifest.json",
    "run.sqlite",
    "run.sqlite-wal",
    "run.sqlite-shm",
    "run.lock",
    "result.json",
)


def inspect_tree(
    root: str,
    stats: bool = False,
    op: Optional[str] = None,
    on_file: Optional[Callable[[int], None]] = None,
) -> Document:
    """Return what a tree of dumps, or a folder of golden files, holds
    (schemas/inspect.schema.json).

    Every header is read, no tensor unless ``stats`` is set.

    Parameters
    ----------
    stats
        Add the documents of all files, with their tensors' statistics.
    op
        Only ops whose name matches this pattern (``fnmatch``, any case).
    on_file
        Called with the number of files looked at so far.

    Raises
    ------
    MissingPath
        ``root`` does not exist or cannot be listed.
    """
    tree = _Tree(root, op, on_file)
    for listing in walk(root, "PATH"):
        tree.take(listing)
    if op is not None and tree.other_ops and not (tree.places or tree.golden):
        near = nearest_names(op, sorted(tree.other_ops), _NAMED) or sorted(tree.other_ops)[:_NAMED]
        raise MissingPath(
            "%s: no op's name matches %s" % (root, op),
            hint="there are, for example, %s" % ", ".join(map(printable, near)),
        )
    return tree.document(stats)


class _Tree:
    """Builds one document over the folders of a tree."""

    def __init__(
        self, root: str, op: Optional[str], on_file: Optional[Callable[[int], None]]
    ) -> None:
        self.root = root
        self.pattern = None if op is None else op.lower()
        self.on_file = on_file or (lambda count: None)
        self.places: Dict[Place, Dict[str, Any]] = {}
        self.other_ops: Set[str] = set()
        self.files = self.bytes = self.golden = self.statistics = 0
        self.broken: List[Dict[str, str]] = []
        self.hashed: List[Dict[str, Optional[str]]] = []
        self.foreign: List[str] = []
        self.notes: List[str] = []
        self.overflow: List[Dict[str, Any]] = []
        self.repeats: Counter[Any] = Counter()
        self.tasks: Dict[Any, List[Tuple[Place, str]]] = {}
        self.paths: List[str] = []
        self.dumps: Dict[Place, List[DumpEntry]] = {}
        self.statistics_entries: List[DumpEntry] = []

    def take(self, listing: FolderListing) -> None:
        """Add one folder."""
        self.notes += listing.notes
        dumps = [entry for entry in listing.dumps if self._matches(entry.name.op_name)]
        if dumps:
            place = place_of(listing.folder, {entry.name.op_name for entry in listing.dumps})
            self._take_dumps(place, dumps)
        for golden in listing.golden:
            if self._matches(golden.name.op_name):
                self._probe_file(golden.path, golden.rel)
                self.golden += 1
                self._note_hash(golden.rel, golden.hash_name, golden.name.op_name)
        if self.pattern is None:
            self._take_others(listing)

    def _matches(self, name: str) -> bool:
        if self.pattern is None or fnmatch.fnmatchcase(name.lower(), self.pattern):
            return True
        if len(self.other_ops) < _MOST_NAMES:
            self.other_ops.add(name)
        return False

    def _take_dumps(self, place: Place, dumps: Sequence[DumpEntry]) -> None:
        self.dumps.setdefault(place, []).extend(dumps)
        known = self.places.setdefault(
            place, {**place.document(), "ops": set(), "files": 0, "bytes": 0}
        )
        for entry in dumps:
            known["ops"].add((entry.name.op_type, entry.name.op_name))
            known["files"] += 1
            known["bytes"] += self._probe_file(entry.path, entry.rel)
            name = entry.name
            self.repeats[(place, *op_key(name))] += 1
            self.tasks.setdefault((name.stream_id, name.task_id), []).append((place, name.op_name))
            self._note_hash(entry.rel, entry.hash_name, name.op_name)

    def _note_hash(self, rel: str, hash_name: Optional[str], op_name: str) -> None:
        if hash_name is not None:
            self.hashed.append({"file": rel, "op": op_name})

    def _take_others(self, listing: FolderListing) -> None:
        paths = [entry.path for entry in listing.stats] + [
            os.path.join(listing.folder, name) for name in listing.tables
        ]
        statistics = listed_statistics(listing) if paths else []
        if statistics and not listing.dumps:
            place = place_of(listing.folder, {entry.name.op_name for entry in statistics})
            known = self.places.setdefault(
                place, {**place.document(), "ops": set(), "files": 0, "bytes": 0}
            )
            known["ops"].update((entry.name.op_type, entry.name.op_name) for entry in statistics)
            known["files"] += len(paths)
            known["bytes"] += sum(map(_size, paths))
        self.statistics_entries += statistics
        self.statistics += len(paths)
        self.files += len(paths)
        self.bytes += sum(map(_size, paths))
        self.paths += paths
        self.hashed += [
            {"file": os.path.join(listing.rel, name), "op": None} for name in listing.unresolved
        ]
        self.foreign += [
            os.path.join(listing.rel, name) for name in listing.others if name not in _OWN_FILES
        ]
        if listing.mapping is not None and os.path.basename(listing.mapping) == MAPPING_FILE:
            self.files += 1
        for entry in listing.overflow:
            size = self._probe_file(entry.path, entry.rel)
            place = place_of(listing.folder, {item.name.op_name for item in listing.dumps})
            self.overflow.append(
                {"file": entry.rel, "bytes": size, "place": place, "path": entry.path}
            )

    def _probe_file(self, path: str, rel: str) -> int:
        """Check one file for completeness; return its size in bytes."""
        self.files += 1
        self.paths.append(path)
        if self.files % 256 == 0:
            self.on_file(self.files)
        try:
            state = probe(path)
        except (GoldwatchError, OSError) as error:
            self.broken.append(
                {"file": rel, "reason": getattr(error, "detail", None) or str(error)}
            )
            return 0
        if state.state not in (COMPLETE, NO_LAW):
            self.broken.append({"file": rel, "reason": _reason(state)})
        self.bytes += state.actual_bytes
        return state.actual_bytes

    def document(self, stats: bool) -> Document:
        """Return the document."""
        if not (self.places or self.golden or self.statistics or self.overflow):
            advice = watched_without_dumps(DumpIndex(self.root, "PATH"))
            self.notes += [advice.words] if advice is not None else []
        document: Document = {
            "kind": "tree",
            "path": self.root,
            "places": [
                {**self.places[place], "ops": len(self.places[place]["ops"])}
                for place in sorted(self.places, key=Place.order)
            ],
            "files": self.files,
            "bytes": self.bytes,
            "golden": self.golden,
            "statistics_files": self.statistics,
            "broken": self.broken,
            "repeated": [_repeated(key, count) for key, count in self.repeats.items() if count > 1],
            "hashed": self.hashed,
            "overflow": [self._joined(record) for record in self.overflow],
            "foreign": self.foreign,
            "notes": self.notes,
        }
        if stats:
            document["contents"] = [inspect_file(path, True) for path in self.paths]
            document["remarkable"] = worst_first(
                [remark for entry in self.statistics_entries for remark in _remarkable(entry)]
            )
            document["not_finite"] = self._not_finite(dict(zip(self.paths, document["contents"])))
        return document

    def _not_finite(self, contents: Dict[str, Document]) -> List[Dict[str, Any]]:
        """Return the ops whose outputs hold NaN, Inf or values at their float type's limit, by
        place and time.

        ``began``: none of the op's inputs in the dump holds any, so that it did not come in.
        """
        not_finite: List[Dict[str, Any]] = []
        for place, entries in sorted(self.dumps.items(), key=lambda item: item[0].order()):
            for entry in sorted(entries, key=lambda entry: (entry.name.timestamp_us, entry.rel)):
                tensors = contents.get(entry.path, {}).get("tensors", ())
                counts = {kind: _unusual(tensors, kind) for kind in ("input", "output")}
                if counts["output"]:
                    began = not counts["input"] and any(
                        tensor["kind"] == "input" for tensor in tensors
                    )
                    not_finite.append(
                        {
                            **place.document(),
                            "op": entry.name.op_name,
                            "op_type": entry.name.op_type,
                            **counts["output"],
                            "began": began,
                        }
                    )
        return not_finite

    def _joined(self, documents: Dict[str, Any]) -> Dict[str, Any]:
        """Return one overflow file with its records and the ops that they belong to: by the
        record's own stream and task.
        """
        entry: Dict[str, Any] = {
            "file": documents["file"],
            "bytes": documents["bytes"],
            "records": [],
            "ops": [],
        }
        try:
            records, problem = overflow_records(DumpFile.open(documents["path"]))
        except (GoldwatchError, OSError) as error:
            records, problem = [], getattr(error, "detail", None) or str(error)
        entry["records"] = records
        if problem is not None:
            entry["problem"] = problem
        for task in (task for record in records for task in tasks_of(record)):
            for key in op_tasks(*task):
                entry["ops"] += [
                    op for place, op in self.tasks.get(key, ()) if documents["place"].holds(place)
                ]
        entry["ops"] = list(dict.fromkeys(entry["ops"]))
        return entry


def _remarkable(entry: DumpEntry) -> List[Tuple[int, Document]]:
    place = place_of(os.path.dirname(entry.path), {entry.name.op_name})
    try:
        documents = remarkable_tensors(os.path.basename(entry.path), rows_of(entry.path))
    except (GoldwatchError, OSError):
        return []  # The file's own document says what is wrong.
    return [(rank, {**place.document(), **remark}) for rank, remark in documents]


def _size(path: str) -> int:
    look = look_at(path)
    return 0 if look is None else look.size_bytes


def _unusual(tensors: Sequence[Document], kind: str) -> Dict[str, int]:
    """Count NaN, Inf and values at the type's limit over the inputs or the outputs of an op that
    are floats; empty where there are none.

    What the device's padding holds is left out: no operator reads it.
    """
    counts = dict.fromkeys(UNUSUAL, 0)
    for tensor in tensors:
        if tensor["kind"] == kind and "stats" in tensor and "float" in str(tensor["dtype"]):
            for name in counts:
                counts[name] += tensor["stats"][name] - tensor["stats"].get("padding", {}).get(
                    name, 0
                )
    return counts if any(counts.values()) else {}


def _reason(document: Completeness) -> str:
    expected, actual = document.expected_bytes, document.actual_bytes
    if document.nulls_left_out:
        return "tensors with a null address were not written: expected %d bytes, got %d" % (
            expected or 0,
            actual,
        )
    if document.state == HEADERLESS:
        return (
            "does not begin as its name says: its %d bytes hold no header that can be read" % actual
        )
    if expected is None:
        return "cut short: its %d bytes end inside the header" % actual
    texts = {
        SHORT: "cut short: expected %d bytes, got %d",
        LONG: "longer than its header says: expected %d bytes, got %d (written twice?)",
    }
    return texts[document.state] % (expected, actual)


def _repeated(key: Any, count: int) -> Dict[str, Any]:
    place, op_type, op_name, _, context_id, thread_id, _ = key
    entry = {**place.document(), "op_type": op_type, "op": op_name, "files": count}
    if context_id is not None:
        entry["context_id"], entry["thread_id"] = context_id, thread_id
    return entry
