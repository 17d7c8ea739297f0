"""manifest.json of a golden folder: read and written atomically; what its entry for a golden file
says: why that must not be compared, the op's raw name.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .atomic_writing import write_atomically
from .errors import FormatError, GoldwatchError, MissingPath
from .safe_reading import read_input

MANIFEST_FILE = "manifest.json"
FILE_MODE = 0o640
_LIMIT_BYTES = 256 << 20


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
        data = read_input(path, _LIMIT_BYTES)
    except MissingPath as error:
        raise FormatError("it cannot be read as a manifest: %s" % error.message, path) from error
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError("not JSON: %s" % error, path) from error
    if not isinstance(document, dict) or not isinstance(document.get("tensors"), list):
        raise FormatError("not a golden folder's manifest", path)
    return document


NONDETERMINISTIC, GIVEN = "nondeterministic", "given"
_REASONS = {
    NONDETERMINISTIC: "the golden data come out of random numbers, directly or behind a node "
    "that draws them: "
    "the device draws others",
    GIVEN: "the golden data were not computed: their values were given to the run that made the "
    "golden data",
}


def unfit_golden(path: str) -> Optional[Tuple[str, str]]:
    """Return (reason, cause of the row) why a golden file must not be compared, or None."""
    cause = _manifest_entry(path, _causes)
    return None if cause is None else (_REASONS[cause], cause)


def original_name(path: str) -> Optional[str]:
    """Return the raw name of the op of a golden file by its manifest, or None."""
    return _manifest_entry(path, _originals)


def value_name(path: str) -> Optional[str]:
    """Return the name that the original model gives to what a golden file holds (of ONNX a tensor,
    not the node that makes it), by its manifest, or None.
    """
    return _manifest_entry(path, _values)


def recorded_sha256(path: str) -> Optional[str]:
    """Return the SHA-256 of a golden file's data by its manifest, or None."""
    return _manifest_entry(path, _hashes)


def model_file_name(folder: str) -> str:
    """Return the name, without its ending, of the file of the original model that golden data were
    made of, by the manifest in their folder; empty where none tells it.
    """
    try:
        path = (read_manifest(folder) or {})["original"]["model"]["path"]
    except (GoldwatchError, OSError, LookupError, TypeError):
        return ""
    return os.path.splitext(os.path.basename(path))[0] if isinstance(path, str) else ""


def _manifest_entry(path: str, answers: Callable[[str, int, int], Dict[str, str]]) -> Optional[str]:
    folder, slash, name = path.rpartition(os.sep)
    manifest = folder + slash + MANIFEST_FILE
    if not os.access(
        manifest, os.F_OK
    ):  # The usual case; an exception for each tensor would be slower.
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
    return _texts(manifest, "original_name")


@lru_cache(maxsize=64)
def _values(manifest: str, _mtime_ns: int, _size_bytes: int) -> Dict[str, str]:
    return _texts(manifest, "value")


@lru_cache(maxsize=64)
def _hashes(manifest: str, _mtime_ns: int, _size_bytes: int) -> Dict[str, str]:
    return _texts(manifest, "sha256")


def _texts(manifest: str, key: str) -> Dict[str, str]:
    """Return one field of each tensor of a manifest by the tensor's file."""
    names = ((entry.get("file"), entry.get(key)) for entry in _tensors(manifest, [key]))
    return {file: name for file, name in names if isinstance(file, str) and isinstance(name, str)}


def _tensors(manifest: str, words: Sequence[str]) -> List[Dict[str, Any]]:
    """Return the tensors of a manifest if its text contains any of these words; else, or if
    unreadable, none.
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
