"""What two backends computed of one net, compared tensor by tensor."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Tuple

from ...base.manifest import MANIFEST_FILE
from ...base.safe_reading import open_input


def compare_runs(ours: str, others: str) -> Dict[str, Any]:
    """Return how far the tensors of two golden folders of one net are from each other.

    Returns
    -------
    dict
        ``tensors`` that both have, ``equal`` ones (bit for bit), ``largest``: the largest
        difference as a part of its tensor's largest value, ``tensor``: whose that is (None where
        all are equal), ``shapes`` and ``not_finite``: tensors of different shapes, and with NaN or
        infinities at different places.
    """
    import numpy as np

    first, second = _tensors(ours), _tensors(others)
    done: Dict[str, Any] = {
        "tensors": 0,
        "equal": 0,
        "largest": 0.0,
        "tensor": None,
        "shapes": [],
        "not_finite": [],
    }
    for key in [key for key in first if key in second]:
        a, b = (np.load(path[key]) for path in (first, second))
        title = "%s:%d" % key[:2]
        done["tensors"] += 1
        if a.shape != b.shape:
            done["shapes"].append("%s %s against %s" % (title, list(a.shape), list(b.shape)))
            continue
        if np.array_equal(a, b):
            done["equal"] += 1
            continue
        finite = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            done["not_finite"].append(title)
        scale = float(np.abs(b[finite]).max()) if finite.any() else 0.0
        gone = (
            float(np.abs(a[finite].astype(np.float64) - b[finite]).max()) if finite.any() else 0.0
        )
        part = gone / scale if scale else (math.inf if gone else 0.0)
        if part > done["largest"]:
            done.update(largest=part, tensor=title)
    return done


def check_sentence(backend: str, version: str, check: Dict[str, Any]) -> str:
    """Return the result of a comparison as one line."""
    text = "checked with backend %s %s: %d tensors, %d of them equal" % (
        backend,
        version,
        check["tensors"],
        check["equal"],
    )
    if check["tensor"] is not None:
        text += ", largest difference %.2g of the tensor's largest value (%s)" % (
            check["largest"],
            check["tensor"],
        )
    for key, what in (
        ("shapes", "other shapes"),
        ("not_finite", "NaN or infinities at other places"),
    ):
        if check[key]:
            text += "; %s: %s" % (
                what,
                ", ".join(check[key][:4]) + (" …" if len(check[key]) > 4 else ""),
            )
    return text


def _tensors(folder: str) -> Dict[Tuple[str, int, str], str]:
    with open_input(os.path.join(folder, MANIFEST_FILE)) as stream:
        entries: List[Dict[str, Any]] = json.loads(stream.read().decode("utf-8"))["tensors"]
    return {
        (entry["original_name"], entry["output_index"], entry["top"]): os.path.join(
            folder, entry["file"]
        )
        for entry in entries
    }
