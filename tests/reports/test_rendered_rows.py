"""The cache of rendered rows returns what was stored, in little memory."""

from __future__ import annotations

import pickle
import random
import tracemalloc

import numpy as np
import pytest

from goldwatch.base.record_file import RecordFile
from goldwatch.dumps.place import Place
from goldwatch.judging.diagnosis.row_digest import (
    NUMBERS,
    DigestColumns,
    digests_of_all,
    execution_key,
    row_digests,
)
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


def observed(digests):
    """What the verdict sees of rows, in words."""
    return [
        (
            digests.places[digests.numbers["place"][at]],
            digests.file(at),
            digests.key(at),
            repr(digests.observation(at)),
            digests.shared[digests.numbers["shared"][at]][:5],
        )
        for at in range(len(digests.numbers))
    ]


@pytest.mark.parametrize("in_file", [False, True])
def test_digests_that_are_kept_are_as_they_were_made(make_row, tmp_path, in_file) -> None:
    file = RecordFile(str(tmp_path), NUMBERS) if in_file else None
    rows, columns = odd_rows(make_row), DigestColumns(file)
    for _ in range(2):
        for some in (rows, rows[2:4], []):
            columns.append(columns.add(pickle.loads(pickle.dumps(row_digests(some)))))
    assert observed(columns.digests()) == observed(row_digests([*rows, *rows[2:4]] * 2))
    some = np.array([9, 0, 4])
    digests = columns.digests(some)
    assert observed(digests) == observed(row_digests([rows[2], rows[0], rows[4]]))
    # However often a file came, it is one; equal parts are there once.
    assert len(set(columns.digests().file_numbers(np.arange(14)).tolist())) == 3
    assert observed(digests.some(np.array([True, False, True]))) == observed(
        row_digests([rows[2], rows[4]])
    )
    assert len(digests.shared) == 5 and type(digests.places[0]) is Place


@pytest.mark.parametrize("seed", range(20))
def test_digests_are_sorted_as_rows_are(make_row, seed) -> None:
    chosen = random.Random(seed)
    rows = [
        make_row(
            chosen.randrange(3),
            op=chosen.choice("ab"),
            kind=chosen.choice(("input", "output", "op")),
            tensor_index=chosen.choice((None, 0, 1)),
            op_sequence=chosen.choice((None, 1, 2)),
            graph_index=chosen.choice((0, 1)),
            group=chosen.choice(((), ("b", "a"))),
            timestamp_us=chosen.choice((1, 2)),
            target_file=chosen.choice((None, "b/2", "b/10", "a/2")),
            step=chosen.choice(("2", "10")),
        )
        for _ in range(60)
    ]
    digests = digests_of_all(rows)
    order = digests.by_execution(np.arange(60)).tolist()
    expected = sorted(rows, key=execution_key)
    assert [execution_key(rows[at]) for at in order] == [execution_key(row) for row in expected]
    assert [digests.key(at) for at in order] == [execution_key(row) for row in expected]


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
        documents = [b"".join(made.documents[at] for at in page) for page in (order, order[:2])]
        assert list(kept.documents([some, some[:2]])) == documents
        assert list(kept.lines([some])) == [
            (
                b"".join(made.lines[at] for at in order),
                b"".join(made.mappings[at] for at in order),
            )
        ]
        assert observed(kept.digests(some)) == observed(row_digests([rows[at] for at in order]))
    asked, sums = (
        [9, 4096, 5, 3, 1 << 33, 70000, 4095],
        [9 << 40, 4096 << 40, 7, 3 << 40, 1 << 63, 1, 4095 << 40],
    )
    assert slots(asked, sums) == [4, 2, -1, 1, -1, -1, 3]
    assert slots(asked, sums, Renderer(Columns())) == [-1] * 7
    # A row that is kept again counts as it is now.
    (again,) = kept.write([9], ["f" * 16], render(rows[:1]), render)
    assert slots([9, 9, 3], [9 << 40, (1 << 64) - 1, 3 << 40]) == [-1, again, 1]
    assert observed(kept.digests(np.array([again]))) == observed(row_digests(rows[:1]))
    kept.close()
    assert slots([3, 9], [3 << 40, 9 << 40]) == [-1, -1]
    # Such as rows that are rendered at the end, when the disk that was full has room again.
    kept.keep([3], ["1" * 16], render(rows[2:3]), render)
    assert slots([3], [0x1111111111111111]) == [0] and list(kept.documents([np.array([0])])) == [
        made.documents[2]
    ]


@pytest.mark.parametrize("first", [1, 10_000_000])
def test_a_rendered_row_that_is_kept_takes_no_memory(tmp_path, make_row, first) -> None:
    row = make_row(0)
    kept, render = RenderedRowCache(str(tmp_path)), Renderer(Columns())
    made = render([row])
    kept.keep([first], ["0" * 16], made, render)
    tracemalloc.start()
    try:
        for number in range(first + 1, first + 60000):
            kept.keep([number], ["%016x" % number], made, render)
        found = kept.slots(np.array([first]), np.array([0], np.uint64), render)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    digests = kept.digests(found)
    kept.close()
    assert taken / 60000 < 8
    # What was read of the file stays.
    assert observed(digests) == observed(row_digests([row]))
