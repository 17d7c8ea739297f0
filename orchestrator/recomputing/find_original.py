"""Finds the original model that made golden data: by the path in their manifest, else by its hash
near the files of a comparison.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional

from ..base.errors import GoldwatchError
from ..base.manifest import read_manifest
from ..base.naming import parse_golden_name
from ..base.safe_reading import sha256_of_file

_ENDINGS = (".prototxt", ".pb", ".onnx")
# What is hashed at most, by its time: files of a folder, bytes of one. Chosen, no trial.
_MOST_FILES = 50
_MOST_BYTES = 1 << 30


class OriginalModelFile(NamedTuple):
    """An original model.

    Attributes
    ----------
    path
        A prototxt, a frozen graph or an .onnx; None if not found.
    weights
        The .caffemodel of a prototxt, if it is in the manifest.
    note
        Why the model that the manifest names cannot be used; empty if it can, or none is named.
    changed
        Its path, where it is there and another file than golden data were made of.
    """

    path: Optional[str] = None
    weights: Optional[str] = None
    note: str = ""
    changed: str = ""


def find_original_model(model: str, golden: str) -> OriginalModelFile:
    """Return the original model.

    Parameters
    ----------
    model
        The om json.
    golden
        The golden folder. If its manifest has path and hash of the model, only that model is used,
        or one with that hash next to the om json, in GOLDEN, next to GOLDEN, or in the current
        folder. Without a manifest the only model next to the om json.
    """
    model_folder = os.path.dirname(model)
    manifest = _manifest(golden)
    original = manifest.get("original") or {}
    model_entry = original.get("model") or {}
    model_hash = model_entry.get("sha256") or _hash(manifest)
    if not isinstance(model_hash, str):
        candidates = _models(model_folder)
        return OriginalModelFile(candidates[0] if len(candidates) == 1 and not manifest else None)
    weights = (original.get("weights") or {}).get("path")
    path, note, changed = model_entry.get("path"), "", ""
    if isinstance(path, str):
        if _is(path, model_hash):
            return OriginalModelFile(
                path, weights if isinstance(weights, str) and os.path.isfile(weights) else None
            )
        if os.path.exists(path):
            changed = path
        else:
            note = "the original model %s is gone since golden data were made of it" % path
    for folder in dict.fromkeys(
        (model_folder, golden, os.path.dirname(os.path.normpath(golden)), "")
    ):
        for candidate in _models(folder)[:_MOST_FILES]:
            if _is(candidate, model_hash):
                return OriginalModelFile(candidate)
    return OriginalModelFile(None, None, note, changed)


def original_model_path(model: str, golden: str) -> Optional[str]:
    """Return the path that :func:`find_original_model` finds."""
    return find_original_model(model, golden).path


def _is(path: str, sha256: str) -> bool:
    try:
        return (
            os.path.isfile(path)
            and os.path.getsize(path) <= _MOST_BYTES
            and sha256_of_file(path) == sha256
        )
    except (OSError, GoldwatchError):
        return False


def _manifest(golden: str) -> Dict[str, Any]:
    try:
        return read_manifest(golden) or {}
    except (GoldwatchError, OSError):
        return {}


def _hash(manifest: Dict[str, Any]) -> Optional[str]:
    source = manifest.get("source")
    if not isinstance(source, dict):
        return None
    return source.get("prototxt") or source.get("model")


def _models(folder: str) -> List[str]:
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    return [
        os.path.join(folder, name)
        for name in names
        if name.endswith(_ENDINGS) and parse_golden_name(name) is None
    ]
