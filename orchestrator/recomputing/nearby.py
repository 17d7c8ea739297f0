"""The original model that lies near a comparison's files: by the hash that the golden data tell, else beside the om json."""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from ..adapters.manifest import read_manifest, sha256_of_file
from ..errors import GoldwatchError
from ..naming import parse_golden_name

_ENDINGS = (".prototxt", ".pb", ".onnx")
_MOST_FILES = 50
_MOST_BYTES = 1 << 30


def model_near(model: str, golden: str) -> Optional[str]:
    """Return the path of the original model, or None where there is none or it cannot be told.

    Parameters
    ----------
    model
        The om json.
    golden
        The golden folder. Where its manifest tells the hash of the model that made it, only that model counts: where it lay then, beside
        the om json, in GOLDEN, beside it, or in the current folder. Else the only one beside the om json.
    """
    here = os.path.dirname(model)
    wanted, first = _told(golden)
    if wanted is None:
        beside = _models(here)
        return beside[0] if len(beside) == 1 else None
    folders = dict.fromkeys((here, golden, os.path.dirname(os.path.normpath(golden)), ""))
    for path in [*first, *(path for folder in folders for path in _models(folder)[:_MOST_FILES])]:
        try:
            if os.path.getsize(path) <= _MOST_BYTES and sha256_of_file(path) == wanted:
                return path
        except (OSError, GoldwatchError):
            continue
    return None


def _told(golden: str) -> Tuple[Optional[str], List[str]]:
    """Return the hash of the model that made golden data, and where it lay then, as far as their manifest tells it."""
    try:
        manifest = read_manifest(golden) or {}
        source = manifest.get("source", {})
        found = source.get("prototxt") or source.get("model")
        path = manifest.get("original", {}).get("model", {}).get("path")
    except (GoldwatchError, OSError, AttributeError):
        return None, []
    usable = isinstance(path, str) and path.endswith(_ENDINGS)
    return (found if isinstance(found, str) else None), ([path] if usable else [])


def _models(folder: str) -> List[str]:
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(_ENDINGS) and parse_golden_name(name) is None]
