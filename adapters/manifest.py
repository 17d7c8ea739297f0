"""manifest.json of a golden folder: read, written atomically."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping, Optional, Sequence

from ..errors import FormatError, MissingPath
from ..filesystem.atomic_writing import write_atomically
from ..filesystem.safe_reading import read_input

MANIFEST_FILE = "manifest.json"
MANIFEST_LIMIT_BYTES = 256 * 1024 * 1024
FILE_MODE = 0o640


def original_of(
    framework: str,
    model: str,
    sums: Mapping[str, str],
    weights: Optional[str] = None,
    data: Sequence[str] = (),
) -> Dict[str, Any]:
    """Return the manifest's ``original``: the files of the model from which golden data are made,
    and their hashes.

    Parameters
    ----------
    framework
        ``caffe``, ``onnx`` or ``tensorflow``.
    model, weights, data
        Paths; the last are further files that the model is made of.
    sums
        The SHA-256 of each path, in hexadecimal digits.
    """
    original: Dict[str, Any] = {"framework": framework, "model": _file_of(model, sums)}
    if weights is not None:
        original["weights"] = _file_of(weights, sums)
    if data:
        original["data"] = [_file_of(path, sums) for path in data]
    return original


def _file_of(path: str, sums: Mapping[str, str]) -> Dict[str, str]:
    return {"path": os.path.abspath(path), "sha256": sums[path]}


def add_to_manifest(folder: str, **fields: Any) -> None:
    """Add fields to the manifest of a golden folder that has one, such as ``complete=True`` once
    its writer's process has ended well.
    """
    document = read_manifest(folder)
    if document is not None:
        document.update(fields)
        write_manifest(folder, document)


def write_manifest(folder: str, document: Dict[str, Any]) -> None:
    """Write manifest.json, a tensor a line."""
    fields = ",\n".join(
        " %s: %s" % (json.dumps(key), _lines(value)) for key, value in document.items()
    )
    write_atomically(
        os.path.join(folder, MANIFEST_FILE), ("{\n%s\n}\n" % fields).encode("ascii"), FILE_MODE
    )


def _lines(value: Any) -> str:
    """Return a value as JSON, with one entry of a list per line: an indent makes Python's encoder
    ten times as slow.
    """
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  %s\n ]" % ",\n  ".join(map(json.dumps, value))


def read_manifest(folder: str) -> Optional[Dict[str, Any]]:
    """Return the manifest of a golden folder, or None when it has none.

    Raises
    ------
    FormatError
        The file is not a manifest.
    """
    path = os.path.join(folder, MANIFEST_FILE)
    if not os.path.lexists(path):
        return None
    try:
        data = read_input(path, MANIFEST_LIMIT_BYTES)
    except MissingPath as error:
        raise FormatError("it cannot be read as a manifest: %s" % error.message, path) from error
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError("not JSON: %s" % error, path) from error
    if not isinstance(document, dict) or not isinstance(document.get("tensors"), list):
        raise FormatError("not a golden folder's manifest", path)
    return document
