"""Healthy tensors looked at in detail: whatever finding there is but ``healthy`` is one that
nothing explains.
"""

from __future__ import annotations

import collections
import itertools
import os
import tempfile

import numpy as np

from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.tools.detail.compare_op import compare_op
from goldwatch.tools.detail.tensor_detail import NONE, DetailSettings
from goldwatch.tools.detail.tensor_pairs import pairs_in_files

from .tensor_trial import healthy, settings

_LEAST_COMPLEX = 8


def run(count, seed=0):
    """Look at ``count`` healthy tensors, in files.

    Returns
    -------
    dict
        What they were to (tried, with a finding, of which the first: its number and its findings).
    """
    found = collections.OrderedDict()
    with tempfile.TemporaryDirectory() as folder:
        chosen = DetailSettings(os.path.join(folder, "out"), rows=NONE, compare=settings())
        for number in itertools.count():
            if sum(entry[0] for entry in found.values()) == count:
                break
            what, arguments = healthy(np.random.RandomState((seed * 1000003 + number) % 2**32))
            if arguments["y"].dtype.kind == "c":
                # Both their parts are the same: few such elements fit on anything. Complex numbers
                # are never masked.
                if "masked" in what or arguments["y"].size < _LEAST_COMPLEX:
                    continue
                arguments = {side: _other_part(arguments[side]) for side in ("x", "y")}
            claims = [
                finding["sentence"]
                for finding in _look(folder, chosen, **arguments)
                if finding["kind"] != "healthy"
            ]
            tried, wrong, first = found.get(what, (0, 0, None))
            found[what] = (
                tried + 1,
                wrong + bool(claims),
                (number, claims) if claims and first is None else first,
            )
    return found


def _other_part(values):
    """Return complex numbers with the next one's imaginary part."""
    return (values.real + 1j * np.roll(values.imag, 1)).astype(values.dtype)


def _look(folder, chosen, x, y, dtype=None, origin=None):
    target, golden = (
        os.path.join(folder, "Op.op.1.1.1600000000000000"),
        os.path.join(folder, "op.0.1600000000000000.npy"),
    )
    write_dump(target, outputs=[TensorData(x, dtype or x.dtype.name, origin or "ND", x.shape)])
    np.save(golden, y)
    detail = compare_op(pairs_in_files(target, golden), chosen)
    return detail.tensors[0].document["findings"]


def table(found):
    """Yield the lines of the table."""
    yield "| healthy tensors in detail | looked at | with a finding |"
    yield "|---|---|---|"
    by_type = collections.OrderedDict()
    for what, (tried, wrong, _) in sorted(found.items()):
        before = by_type.get(what.split(",")[0], (0, 0))
        by_type[what.split(",")[0]] = before[0] + tried, before[1] + wrong
    for name, counts in by_type.items():
        yield "| %s | %d | %d |" % (name, *counts)
    yield "| **all** | **%d** | **%d** |" % (
        sum(entry[0] for entry in found.values()),
        claimed(found),
    )


def claimed(found):
    """Return how many have a finding."""
    return sum(entry[1] for entry in found.values())


def misses(found):
    """Yield what has a finding, with the first."""
    for what, (tried, wrong, first) in sorted(found.items()):
        if wrong:
            yield "%s: %d of %d, the first is number %d: %s" % (
                what,
                wrong,
                tried,
                first[0],
                "; ".join(first[1]),
            )
