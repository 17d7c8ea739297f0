"""What ``compare-op`` found of single tensors, for the rows of a report that are about them.

Every ``detail.json`` in the run's folder and two folders below it is looked at; where compare-op is
told to write into ``OUT/detail``, as goldwatch's own advice does, a report finds it. It belongs to
a row that is about the same tensor of the same file with the same metrics: an older detail of other
dumps is none.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ..errors import GoldwatchError
from ..filesystem.safe_reading import read_input
from ..metrics.row import Row
from ..schemas.documents import check_document
from ..store.json_numbers import plain_number

DETAIL_FILE = "detail.json"

_DEPTH = 2
_MOST_FILES = 200
_MOST_BYTES = 64 << 20
_MOST_INDICES = 256
_KEPT = (
    "axes",
    "count",
    "bad",
    "histogram",
    "signed_ulp_histogram",
    "target",
    "golden",
    "findings",
)
_SAME = ("CosineSimilarity", "RelativeEuclideanDistance", "MaxAbsoluteError")


class Details:
    """The details below a folder, by tensor.

    Attributes
    ----------
    notes
        Files that could not be used, with the reason.
    """

    def __init__(self, folder: str) -> None:
        self.notes: List[str] = []
        self._known: Dict[str, List[Tuple[str, Mapping[str, Any]]]] = {}
        for path in sorted(_detail_files(folder, _DEPTH))[:_MOST_FILES]:
            self._read(path)

    def _read(self, path: str) -> None:
        try:
            document = json.loads(read_input(path, _MOST_BYTES).decode("utf-8"))
            check_document(document, "detail", path)
        except (GoldwatchError, OSError, ValueError, RecursionError) as error:
            self.notes.append("%s is not used: %s" % (path, error))
            return
        for tensor in document["tensors"]:
            if tensor["histogram"] is not None:
                self._known.setdefault(tensor["tensor"], []).append((path, tensor))

    def of(self, row: Row) -> Optional[Dict[str, Any]]:
        """Return what is known of a row's tensor, as the page shows it; None where nothing is."""
        for path, tensor in self._known.get(row.tensor, ()):
            if _is_about(tensor, row):
                fields = {name: tensor[name] for name in _KEPT if tensor.get(name) is not None}
                fields["where"] = {axis: _bins(shares) for axis, shares in tensor["where"].items()}
                fields["files"] = [
                    os.path.join(os.path.dirname(path), name) for name in tensor["files"]
                ]
                return fields
        return None


def _detail_files(folder: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name == DETAIL_FILE and entry.is_file():
            yield entry.path
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _detail_files(entry.path, depth - 1)


def _is_about(tensor: Mapping[str, Any], row: Row) -> bool:
    if tensor["verdict"] != row.verdict or not _ends_with(row.target_file, tensor["target_file"]):
        return False
    return all(
        tensor["metrics"].get(name, "NaN") == plain_number(row.metrics.get(name, float("nan")))
        for name in _SAME
    )


def _ends_with(path: Optional[str], tail: Optional[str]) -> bool:
    """Tell whether two paths may be of one file, named from different folders."""
    if not path or not tail:
        return False
    long, short = sorted((path.split(os.sep), tail.split(os.sep)), key=len, reverse=True)
    return long[-len(short) :] == short


def _bins(shares: List[float]) -> Dict[str, Any]:
    """Return the shares along an axis, neighbours added up where there are more than can be
    drawn.
    """
    width = -(-len(shares) // _MOST_INDICES) if shares else 1
    sums = [sum(shares[start : start + width]) for start in range(0, len(shares), width)]
    return {
        "length": len(shares),
        "width": width,
        "shares": [float("%.4g" % value) for value in sums],
    }
