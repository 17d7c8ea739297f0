"""Golden tensors that no target can be held against: the manifest beside them says so."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Dict, Optional, Tuple

from ..errors import GoldwatchError
from ..filesystem.inputs import read_input

_MANIFEST = "manifest.json"
_LIMIT_BYTES = 256 << 20
NONDETERMINISTIC, GIVEN = "nondeterministic", "given"
_REASONS = {
    NONDETERMINISTIC: "the golden data come out of random numbers, directly or behind a node that draws them: the device draws others",
    GIVEN: "the golden data were not computed: their values were given to the run that made the golden data",
}


def unfit_golden(path: str) -> Optional[Tuple[str, str]]:
    """Return why a golden file is not to be compared, and the same as a row's cause; None where nothing speaks against it."""
    folder, slash, name = path.rpartition(os.sep)
    manifest = folder + slash + _MANIFEST
    if not os.access(manifest, os.F_OK):  # As it mostly is; an exception for each tensor takes longer.
        return None
    try:
        status = os.stat(manifest)
    except OSError:
        return None
    cause = _causes(manifest, status.st_mtime_ns, status.st_size).get(name)
    return None if cause is None else (_REASONS[cause], cause)


@lru_cache(maxsize=64)
def _causes(manifest: str, _mtime_ns: int, _size_bytes: int) -> Dict[str, str]:
    try:
        data = read_input(manifest, _LIMIT_BYTES)
        if not any(cause.encode("ascii") in data for cause in _REASONS):
            return {}
        tensors = json.loads(data.decode("utf-8"))["tensors"]
        return {str(entry["file"]): cause for entry in tensors for cause in _REASONS if entry.get(cause) is True}
    except (GoldwatchError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        # The golden files stand for themselves.
        return {}
