"""The cache of rendered rows returns what was stored, in little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from goldwatch.judging.diagnosis.row_digest import packed_digest, row_digest, unpacked_digest
from goldwatch.reports.csv_cells import Columns
from goldwatch.reports.rendered_rows import RenderedRowCache, Renderer


def odd_rows(make_row):
    """Rows with what a row may have, and what it may lack."""
    return [
        make_row(0, device="1", step="9", model="m", model_id="1", host="lab7"),
        make_row(1, metrics={}, shape=None, target_dtype=None, golden_dtype=None, golden_file=None,
        target_file=None, tensor_index=None),
        make_row(2, verdict="fail", nan={"target": 3, "golden": 0}, inf={"target": 0, "golden": 1},
        worst_slice=(1, 2), address=1 << 40),
        make_row(3, metrics={"CosineSimilarity": float("nan"),
        "RelativeEuclideanDistance": np.float64(1e-3)}, op="Ünïcode/\udcff"),
        make_row(4, metrics={"RelativeEuclideanDistance": float("inf")}, op_sequence=None,
        reason="dequantised by scale 1"),
    ]  # fmt: skip


def test_a_row_digest_is_unpacked_as_it_was_packed(make_row) -> None:
    shared = {}
    for row in odd_rows(make_row):
        seen = row_digest(row)
        for _ in range(2):
            found = unpacked_digest(packed_digest(seen), shared)
            assert repr(found) == repr(seen) and type(found.place) is type(seen.place)
    first, second = (unpacked_digest(packed_digest(seen), shared) for _ in range(2))
    assert (
        first.observation.tensor is second.observation.tensor
        and first.place is second.place
        and first.observation.shape is second.observation.shape
    )


def test_rendered_rows_are_found_by_number(tmp_path, make_row) -> None:
    rows, render = odd_rows(make_row), Renderer(Columns(), mapping=("/t", "/g"))
    numbers = [70000, 3, 4096, 4095, 9]
    kept = RenderedRowCache(str(tmp_path))
    made = render(rows)
    assert kept.write(
        numbers, ["%016x" % (number << 40) for number in numbers], made, render
    ) == range(5)

    def slots(numbers, sums, by=render):
        return kept.slots(np.array(numbers), np.array(sums, np.uint64), by).tolist()

    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 2, 0, 3, 4], [3], []):
        some = np.array(order, np.int64)
        assert kept.documents(some) == b"".join(made.documents[at] for at in order)
        assert kept.lines(some) == (
            b"".join(made.lines[at] for at in order),
            b"".join(made.mappings[at] for at in order),
        )
        assert list(map(repr, kept.digests(some))) == [repr(row_digest(rows[at])) for at in order]
    asked, sums = (
        [9, 4096, 5, 3, 1 << 33, 70000, 4095],
        [9 << 40, 4096 << 40, 7, 3 << 40, 1 << 63, 1, 4095 << 40],
    )
    assert slots(asked, sums) == [4, 2, -1, 1, -1, -1, 3]
    assert slots(asked, sums, Renderer(Columns())) == [-1] * 7
    # A row that is kept again counts as it is now.
    (again,) = kept.write([9], ["f" * 16], render(rows[:1]), render)
    assert slots([9, 9, 3], [9 << 40, (1 << 64) - 1, 3 << 40]) == [-1, again, 1]
    assert [repr(seen) for seen in kept.digests(np.array([again]))] == [repr(row_digest(rows[0]))]
    kept.close()
    assert slots([3, 9], [3 << 40, 9 << 40]) == [-1, -1]
    # Such as rows that are rendered at the end, when the disk that was full has room again.
    kept.keep([3], ["1" * 16], render(rows[2:3]), render)
    assert (
        slots([3], [0x1111111111111111]) == [0]
        and kept.documents(np.array([0])) == made.documents[2]
    )


@pytest.mark.parametrize("first", [1, 10_000_000])
def test_a_cached_rendered_row_takes_at_most_sixty_bytes_of_memory(
    tmp_path, make_row, first
) -> None:
    row = make_row(0)
    kept, render = RenderedRowCache(str(tmp_path)), Renderer(Columns())
    made = render([row])
    kept.keep([first], ["0" * 16], made, render)
    tracemalloc.start()
    try:
        for number in range(first + 1, first + 60000):
            kept.keep([number], ["%016x" % number], made, render)
        kept.slots(np.array([first]), np.array([0], np.uint64), render)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept.close()
    assert taken / 60000 < 60
