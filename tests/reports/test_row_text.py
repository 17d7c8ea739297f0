"""A row's text in result.json, against Python's encoder."""

from __future__ import annotations

import json
import math
import pickle

from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base.fast_dataclasses import cached_by_object
from goldwatch.metrics.row import METRICS, VERDICTS, Row
from goldwatch.reports.row_json import row_document, row_text

TEXT = st.text(st.characters(), max_size=6) | st.sampled_from(
    ["", "a/b", 'say "x"', "\udc80", "\ud800", "é\n"]
)
NUMBERS = st.integers(-(2**70), 2**70)
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 5e-324, math.inf, -math.inf, math.nan])
SPREAD = st.fixed_dictionaries(
    {side: st.fixed_dictionaries({"mean": FLOATS, "std": FLOATS}) for side in ("target", "golden")}
)
COUNTS = st.none() | st.builds(
    lambda target, golden: {"target": target, "golden": golden}, st.integers(0), st.integers(0)
)
ROWS = st.builds(
    Row,
    index=NUMBERS,
    op=TEXT,
    op_type=TEXT,
    tensor=TEXT,
    kind=st.sampled_from(["input", "output", "op"]),
    verdict=st.sampled_from(VERDICTS),
    tensor_index=st.none() | NUMBERS,
    op_sequence=st.none() | NUMBERS,
    group=st.lists(TEXT, max_size=3).map(tuple),
    golden=TEXT,
    time=st.none() | TEXT,
    device=st.none() | TEXT,
    model=st.none() | TEXT,
    model_id=st.none() | TEXT,
    step=st.none() | TEXT,
    shape=st.none() | st.lists(st.integers(0), max_size=4).map(tuple),
    target_dtype=st.none() | TEXT,
    golden_dtype=st.none() | TEXT,
    address=st.none() | NUMBERS,
    metrics=st.dictionaries(
        st.sampled_from([name for name in METRICS if name != "StandardDeviation"]) | st.just("own"),
        FLOATS | NUMBERS,
    )
    | st.fixed_dictionaries({"StandardDeviation": st.none() | SPREAD, "MaxAbsoluteError": FLOATS}),
    worst_slice=st.none() | st.tuples(st.integers(0), st.integers(0)),
    nan=COUNTS,
    inf=COUNTS,
    overflow=st.none() | st.booleans(),
    reason=TEXT,
    reason_codes=TEXT,
    decided_by=TEXT,
    warning=TEXT,
    cause=TEXT,
    target_file=st.none() | TEXT,
    golden_file=st.none() | TEXT,
    host=st.none() | TEXT,
)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, int) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def document_of(row):
    found = {} if row.host is None else {"host": row.host}
    names = (
        "time device model model_id step index op_sequence op_type op group golden tensor kind "
        "tensor_index shape"
    )
    found.update(
        (name, getattr(row, name))
        for name in [*names.split(), "target_dtype", "golden_dtype", "address"]
    )
    found["metrics"] = metrics = {}
    for name in [*METRICS, *(name for name in row.metrics if name not in METRICS)]:
        value = row.metrics.get(name)
        metrics[name] = (
            (None if name == "StandardDeviation" else "NaN") if value is None else plain(value)
        )
    found["worst_slice"] = (
        None
        if row.worst_slice is None
        else {"axis": row.worst_slice[0], "index": row.worst_slice[1]}
    )
    names = (
        "nan inf overflow verdict reason reason_codes decided_by warning cause target_file "
        "golden_file"
    )
    found.update((name, getattr(row, name)) for name in names.split())
    return found


@given(ROWS)
def test_the_json_text_of_a_row_equals_pythons_encoder(row) -> None:
    expected = json.dumps(document_of(row), ensure_ascii=True, allow_nan=False)
    assert row_text(row) == expected
    assert row_document(row) == json.loads(expected)


@given(ROWS)
def test_a_pickled_row_is_equal(row) -> None:
    # NaN is not equal to itself.
    assert repr(pickle.loads(pickle.dumps(row))) == repr(row)


@given(st.lists(st.integers(0, 2), max_size=8))
def test_a_cache_by_object_reuses_only_the_same_object(order) -> None:
    shared = [{"a": 1}, {"a": 1}, {"a": 2}]
    made = []

    @cached_by_object
    def make(value, *others):
        made.append((value, others))
        return (id(value), others)

    for number in order:
        assert make(shared[number], number) == (id(shared[number]), (number,))
        assert make(shared[number], -1) == (id(shared[number]), (-1,))
        assert made[-1] == (shared[number], (-1,))
        count = len(made)
        make(shared[number], -1)
        assert len(made) == count
