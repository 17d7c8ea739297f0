"""What the manifest beside golden files says of them: which no target can be held against, and
whose those are that share a name.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..errors import GoldwatchError
from ..filesystem.inputs import read_input

MANIFEST_FILE = "manifest.json"
_LIMIT_BYTES = 256 << 20
NONDETERMINISTIC, GIVEN = "nondeterministic", "given"
_REASONS = {
    NONDETERMINISTIC: "the golden data come out of random numbers, directly or behind a node "
    "that draws them: "
    "the device draws others",
    GIVEN: "the golden data were not computed: their values were given to the run that made the "
    "golden data",
}


def unfit_golden(path: str) -> Optional[Tuple[str, str]]:
    """Return why a golden file is not to be compared, and the same as a row's cause; None where
    nothing speaks against it.
    """
    cause = _asked(path, _causes)
    return None if cause is None else (_REASONS[cause], cause)


def original_name(path: str) -> Optional[str]:
    """Return the model's own name of the op that a golden file is of; None where no manifest tells
    it.
    """
    return _asked(path, _originals)


def _asked(path: str, answers: Callable[[str, int, int], Dict[str, str]]) -> Optional[str]:
    """Return the answer about one golden file out of those that the manifest beside it gives."""
    folder, slash, name = path.rpartition(os.sep)
    manifest = folder + slash + MANIFEST_FILE
    if not os.access(
        manifest, os.F_OK
    ):  # As it mostly is; an exception for each tensor takes longer.
        return None
    try:
        status = os.stat(manifest)
    except OSError:
        return None
    return answers(manifest, status.st_mtime_ns, status.st_size).get(name)


@lru_cache(maxsize=64)
def _causes(manifest: str, _mtime_ns: int, _size_bytes: int) -> Dict[str, str]:
    tensors = _tensors(manifest, list(_REASONS))
    return {
        str(entry.get("file")): cause
        for entry in tensors
        for cause in _REASONS
        if entry.get(cause) is True
    }


@lru_cache(maxsize=64)
def _originals(manifest: str, _mtime_ns: int, _size_bytes: int) -> Dict[str, str]:
    names = (
        (entry.get("file"), entry.get("original_name"))
        for entry in _tensors(manifest, ["original_name"])
    )
    return {file: name for file, name in names if isinstance(file, str) and isinstance(name, str)}


def _tensors(manifest: str, words: Sequence[str]) -> List[Dict[str, Any]]:
    """Return the entries of a manifest in which any of some words stands; else, or unreadable,
    none.

    Golden files stand for themselves.
    """
    try:
        data = read_input(manifest, _LIMIT_BYTES)
        if not any(word.encode("ascii") in data for word in words):
            return []
        tensors = json.loads(data.decode("utf-8"))["tensors"]
    except (GoldwatchError, OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
    return (
        [entry for entry in tensors if isinstance(entry, dict)] if isinstance(tensors, list) else []
    )
