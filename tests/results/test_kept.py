"""Rows that are kept rendered: what comes back is what was made, and how little of a row stays in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from goldwatch.results.csvfile import Columns
from goldwatch.results.kept import KeptRows, Renderer
from goldwatch.verdict.seen import packed_row, seen_row, unpacked_row


def odd_rows(make_row):
    """Rows with what a row may have, and what it may lack."""
    return [
        make_row(0, device="1", step="9", model="m", model_id="1", host="lab7"),
        make_row(1, metrics={}, shape=None, target_dtype=None, golden_dtype=None, golden_file=None, target_file=None, tensor_index=None),
        make_row(2, verdict="fail", nan={"target": 3, "golden": 0}, inf={"target": 0, "golden": 1}, worst_slice=(1, 2), address=1 << 40),
        make_row(3, metrics={"CosineSimilarity": float("nan"), "RelativeEuclideanDistance": np.float64(1e-3)}, op="Ünïcode/\udcff"),
        make_row(4, metrics={"RelativeEuclideanDistance": float("inf")}, op_sequence=None, reason="dequantised by scale 1"),
    ]  # fmt: skip


def test_what_the_verdict_sees_comes_back(make_row) -> None:
    shared = {}
    for row in odd_rows(make_row):
        seen = seen_row(row)
        for _ in range(2):
            found = unpacked_row(packed_row(seen), shared)
            assert repr(found) == repr(seen) and type(found.place) is type(seen.place)
    first, second = (unpacked_row(packed_row(seen), shared) for _ in range(2))
    assert first.found.tensor is second.found.tensor and first.place is second.place and first.found.shape is second.found.shape


def test_kept_rows_by_number(tmp_path, make_row) -> None:
    rows, render = odd_rows(make_row), Renderer(Columns(), mapping=("/t", "/g"))
    numbers = [70000, 3, 4096, 4095, 9]
    kept = KeptRows(str(tmp_path))
    for number, row in zip(numbers, rows):
        kept.keep(number, "%016x" % (number << 40), render(row))
    made = [render(row) for row in rows]
    assert kept.documents(numbers) == b"".join(one.document for one in made)
    found = [(line, mapping, repr(seen)) for line, mapping, seen in kept.read(numbers[::-1])]
    assert found == [(one.line, one.mapping, repr(seen_row(row))) for one, row in zip(made[::-1], rows[::-1])]
    asked = [*((number, number << 40) for number in numbers), (5, 7), (1 << 33, 1 << 63)]
    assert kept.lacking(asked, render) == {5: "0000000000000007", 1 << 33: "8000000000000000"}
    assert set(kept.lacking(asked, Renderer(Columns()))) == {number for number, _ in asked}
    # A row that is kept again counts as it is now.
    kept.keep(9, "ffffffffffffffff", render(rows[0]))
    assert set(kept.lacking([(9, 9 << 40), (3, 3 << 40)], render)) == {9}
    assert [repr(seen) for _, _, seen in kept.read([9])] == [repr(seen_row(rows[0]))]
    kept.close()
    assert set(kept.lacking([(3, 3 << 40)], render)) == {3}


@pytest.mark.parametrize("first", [1, 10_000_000])
def test_a_kept_row_takes_forty_bytes(tmp_path, make_row, first) -> None:
    kept, made = KeptRows(str(tmp_path)), Renderer(Columns())(make_row(0))
    kept.keep(first, "0" * 16, made)
    tracemalloc.start()
    try:
        for number in range(first + 1, first + 20000):
            kept.keep(number, "%016x" % number, made)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept.close()
    assert taken / 20000 < 60
