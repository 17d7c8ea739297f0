from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import INPUTS, connect_reader

import goldwatch.store.database as database
from goldwatch.base.errors import EnvironmentProblem, UsageError
from goldwatch.dumps.place import Place
from goldwatch.metrics.row import METRICS, VERDICTS, Row
from goldwatch.store.row_schema import from_sql_text, to_sql_text
from goldwatch.store.row_sql import checksum, row_key, row_line
from goldwatch.store.store import RunStore

NAMES = st.text(max_size=12) | st.text(
    st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=4
)
SURROGATES = st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF), max_size=4)
NUMBERS = st.floats() | st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    with RunStore.begin(str(tmp_path_factory.mktemp("shared")), INPUTS) as store:
        yield store


def same(first, second):
    """Equality of rows where NaN equals NaN."""
    return repr(first) == repr(second)


def test_a_row_is_read_as_it_was_stored(store, make_row):
    row = make_row(
        5,
        time="20240101000000",
        device="0",
        model="m",
        model_id="1",
        step="12",
        op_sequence=7,
        golden="x,y",
        address=2**63 + 5,
    )
    row = replace(
        row, golden_address=1, overflow=True, reason="why", cause="shape", golden_file="g"
    )
    store.put(row)
    assert same(list(store.rows()), [row])
    bare = Row(index=0, op="op", op_type="T", tensor="op", kind="op", verdict="not_compared")
    store.put(bare)
    assert same(list(store.rows("arrival")), [row, bare])
    assert set(store.table.keys()) == {row_key(row), row_key(bare)}


@given(NAMES | SURROGATES)
def test_any_text_is_read_as_it_was_stored(text):
    stored = to_sql_text(text)
    assert from_sql_text(stored) == text
    assert isinstance(stored, str) == (text.encode("utf-8", "replace").decode() == text)


def test_undecodable_names_are_stored_as_their_bytes():
    assert to_sql_text(os.fsdecode(b"a\xff")) == b"a\xff"


@given(
    st.builds(
        Row,
        index=st.integers(0, 2**70),
        op=NAMES,
        op_type=NAMES,
        tensor=NAMES,
        kind=st.sampled_from(["input", "output", "op"]),
        verdict=st.sampled_from(["pass", "fail"]),
        tensor_index=st.none() | st.integers(0, 2**64),
        op_sequence=st.none() | st.integers(-(2**64), 2**64),
        group=st.lists(NAMES, max_size=3).map(tuple),
        golden=NAMES,
        step=st.none() | NAMES,
        shape=st.none() | st.lists(st.integers(0, 2**64), max_size=4).map(tuple),
        address=st.none() | st.integers(0, 2**64),
        metrics=st.dictionaries(st.sampled_from([*METRICS[:5], "Mine"]), NUMBERS, max_size=4),
        overflow=st.none() | st.booleans(),
        reason=NAMES,
        target_file=st.none() | NAMES,
        timestamp_us=st.integers(0, 10**30),
    )
)
def test_any_row_of_unusual_values_is_read_as_it_was_stored(shared_store, row):
    shared_store.table.remove(shared_store.table.keys(), "test")
    shared_store.put(row)
    (found,) = shared_store.rows()
    assert {name: repr(value) for name, value in found.metrics.items()} == {
        name: repr(value) for name, value in row.metrics.items()
    }
    assert same(replace(found, metrics={}), replace(row, metrics={}))
    for line in (row_line(row), row_line(replace(row, host="h"))):
        assert checksum(line[:-1]) == line[-1]


def test_stored_columns_are_those_that_the_page_describes(store, out, make_row):
    odd = {
        "CosineSimilarity": math.nan,
        "MaxAbsoluteError": math.inf,
        "MeanAbsoluteError": -math.inf,
    }
    store.put(make_row(0, verdict="fail", metrics=odd))
    with connect_reader(out) as connection:
        connection.row_factory = sqlite3.Row
        (found,) = connection.execute("SELECT * FROM row").fetchall()
    names = set(found.keys())
    fields = (
        "time device model model_id step index op_sequence op_type op group golden tensor kind "
        "tensor_index shape target_dtype"
    )
    fields += " golden_dtype address nan inf overflow verdict reason target_file golden_file"
    assert set(fields.split()) | set(METRICS) <= names
    assert (found["CosineSimilarity"], found["MaxAbsoluteError"], found["MeanAbsoluteError"]) == (
        "NaN",
        "Infinity",
        "-Infinity",
    )
    assert json.loads(found["group"]) == ["op0"] and json.loads(found["shape"]) == [1, 64, 56, 56]
    assert json.loads(found["nan"]) == {"target": 0, "golden": 0}


def test_what_rows_share_is_stored_once_also_after_a_transaction_was_taken_back(store, make_row):
    def rows(step):
        return [make_row(number, step=step) for number in range(3)]

    with pytest.raises(ZeroDivisionError), store.transaction():
        store.put_all(rows("1"))
        raise ZeroDivisionError
    assert store.query("SELECT count(*) FROM tensor") == [(0,)]
    for step in ("1", "2"):
        store.put_all(rows(step))
    assert list(store.rows()) == rows("1") + rows("2")
    counts = [
        store.query("SELECT count(*) FROM " + table)[0][0] for table in ("tensor", "place", "row")
    ]
    assert counts == [3, 2, 6]
    store.table.remove([row_key(row) for row in rows("2")], "gone")
    assert [place.step for place in store.places()] == ["1"]


def test_storing_a_row_again_replaces_it_with_an_event(store, out, make_row):
    made = store.get("void")
    store.put(make_row(0))
    store.put(make_row(1))
    store.put(make_row(0, verdict="fail", reason="re-created"))
    with connect_reader(out) as connection:
        found = connection.execute(
            "SELECT id, tensor_index, verdict FROM row ORDER BY id"
        ).fetchall()
    assert found == [(made + 2, 1, "pass"), (made + 3, 0, "fail")]
    (event,) = store.events.all("replaced")
    assert event.op == "op0"
    assert (
        "op0:output:0: was pass" in event.text
        and "re-created" in event.text
        and "Conv2D.op0.1.2.3" in event.text
    )


def test_renumbering_ops_reads_the_rows_once(store, make_row):
    rows = [replace(make_row(number), op_sequence=None) for number in range(40)]
    store.put_all(rows)
    statements = []
    store.connection.raw.set_trace_callback(lambda text: statements.append(text))
    numbers = {row.op: row.index for row in rows}
    assert store.table.renumber({rows[0].place: numbers}) == 0
    assert sum(statement.startswith("SELECT") for statement in statements) == 1
    op = rows[7].op
    assert store.table.renumber({rows[0].place: {**numbers, op: 77}}) == sum(
        row.op == op for row in rows
    )
    assert {row.op for row in store.rows() if row.index == 77} == {op} and len(store.rows()) == 40


def test_rows_of_a_file_that_vanished_are_removed(store, make_row):
    made = store.get("void")
    store.put_all(make_row(number) for number in range(8))
    keys = store.table.keys_of_file("Conv2D.op1.1.2.3")
    assert len(keys) == 4
    store.table.remove([*keys, "unknown"], "the file vanished")
    assert len(store.rows()) == 4 and store.table.keys_of_file("Conv2D.op1.1.2.3") == []
    assert [event.op for event in store.events.all("removed")] == ["op1"] * 4
    store.put(make_row(20))
    assert store.query("SELECT max(id) FROM row") == [(made + 9,)]


def test_rows_are_read_in_the_order_of_the_table(store, make_row):
    group = ("b", "a")
    rows = [
        make_row(0, step="9", index=0, op="b", group=group, kind="input", tensor_index=0),
        make_row(0, step="9", index=0, op="b", group=group, kind="input", tensor_index=2),
        make_row(0, step="9", index=0, op="b", group=group, kind="input", tensor_index=10),
        make_row(0, step="9", index=0, op="b", group=group, kind="output", tensor_index=0),
        make_row(0, step="9", index=0, op="a", group=group, kind="input", tensor_index=0),
        make_row(0, step="9", index=2, op="z", group=("z",)),
        make_row(0, step="9", index=10, op="c", group=("c",)),
        make_row(0, step="10", index=0, op="b", group=group),
    ]
    store.put_all(reversed(rows))
    assert list(store.rows()) == rows
    assert list(store.rows("arrival")) == rows[::-1]
    assert store.places() == [Place(step="9"), Place(step="10")]
    assert list(store.rows(place=Place(step="10"))) == rows[-1:]
    assert store.counted.all() == {"pass": 8} and store.counted.by_place()[Place(step="10")] == {
        "pass": 1
    }
    assert len(store.rows(verdict="fail")) == 0 and store.op_count() == 4


def test_facts_files_events_and_omitted_rows_are_kept(store):
    odd = os.fsdecode(b"f\xff/\n")
    store.set("x", {"a": [1, None]})
    assert store.get("x") == {"a": [1, None]} and store.get("y", 3) == 3
    store.put_file(odd, 2**40, 2**60, "seen")
    store.put_file(odd, 2**40, 2**60, "compared")
    store.put_file("g", 1, 2, "seen")
    assert store.files() == {odd: (2**40, 2**60, "compared"), "g": (1, 2, "seen")}
    assert store.files(["g", "h"]) == {"g": (1, 2, "seen")}
    store.events.omit(odd, "inner")
    store.events.omit(odd, "inner")
    assert store.events.omitted() == [(odd, "inner")]
    store.events.add("retried", "op", "why")
    assert store.events.all("retried")[0][1:] == ("retried", "op", "why")


def test_a_run_with_the_same_inputs_continues_its_store(out, make_row):
    with RunStore.begin(out, INPUTS) as store:
        assert not store.continued and store.connection.journal_mode == "wal" and store.notes == []
        store.put(make_row(0))
        started = store.started
        assert len(started) == 14 and started.isdigit()
    with RunStore.begin(out, dict(reversed(list(INPUTS.items()))), force=True) as store:
        assert store.continued and store.started == started and len(store.rows()) == 1
        assert [event.kind for event in store.events.all()] == ["started", "continued"]


def test_a_run_with_other_inputs_is_refused_unless_forced(out, make_row):
    with RunStore.begin(out, INPUTS) as store:
        store.put(make_row(0))
    with pytest.raises(UsageError) as caught:
        RunStore.begin(out, dict(INPUTS, golden="c"))
    assert caught.value.exit_code == 2
    assert 'golden was "b", is "c"' in caught.value.message and "discard those" in caught.value.hint
    with RunStore.begin(out, INPUTS) as store:
        assert len(store.rows()) == 1
    with RunStore.begin(out, dict(INPUTS, golden="c"), force=True) as store:
        assert not store.continued and len(store.rows()) == 0


def test_a_store_can_be_read_while_it_is_written(store, out, make_row):
    store.put(make_row(0))
    with connect_reader(out) as connection, RunStore.open(out) as other, store.transaction():
        store.put(make_row(1))
        assert connection.execute("SELECT count(*) FROM row").fetchone() == (1,)
        assert len(other.rows()) == 1
        assert len(store.rows()) == 2
    with RunStore.open(out) as other:
        assert len(list(other.rows())) == 2
        with pytest.raises(EnvironmentProblem):
            other.put(make_row(2))


def test_a_failed_transaction_changes_nothing(store, make_row):
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.put(make_row(0))
        with store.transaction():
            store.put(make_row(1))
        raise ZeroDivisionError
    assert len(store.rows()) == 0
    store.put(make_row(2))
    assert len(store.rows()) == 1


def test_threads_share_a_store(store, make_row):
    def write(first):
        for number in range(first, 200, 4):
            store.put(make_row(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.rows()) == 200


def test_reading_many_rows_needs_little_memory(store, make_row):
    tracemalloc = pytest.importorskip("tracemalloc")
    peaks = []
    for rows in (10000, 20000):
        store.put_all(make_row(number) for number in range(rows - 10000, rows))
        tracemalloc.start()
        try:
            assert sum(1 for _ in store.rows()) == rows
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # What tensors share is kept for some thousands of them; a row has its number.
    assert peaks[0] < 8_000_000 and peaks[1] - peaks[0] < 500_000


def test_no_python_function_runs_inside_sqlite(store, make_row):
    """A signal's handler would run in it, and sqlite3 of Python 3.7 makes a SystemError of what it
    raises.
    """
    store.put(make_row(1))
    reading = database.connect_reader(store.path)
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code) if event == "call" else None)
    try:
        rows = reading.execute("SELECT * FROM row").fetchall()
    finally:
        sys.setprofile(None)
        reading.close()
    assert len(rows) == 1 and any(isinstance(value, str) for value in rows[0])
    assert not called


@pytest.mark.parametrize("hosts", [False, True])
def test_rows_of_any_host_and_place_are_read_in_order(out, make_row, hosts):
    names = [None, "2", "10", "a", "é", "\udcff", ""]
    with RunStore.begin(out, INPUTS, hosts=hosts) as store:
        rows = [
            make_row(number % 3, op="op%d" % number, device=names[number % 7],
            step=names[number * 3 % 5], time=names[number % 2],
                     host="h%d" % (number * 5 % 4) if hosts else None)
            for number in range(300)
        ]  # fmt: skip
        store.put_all(rows)
        for _ in range(2):
            order = store.table_order()
            rows = list(store.rows("index"))
            by_number = store.numbered(order.ids.tolist())
            assert [by_number[number] for number in order.ids.tolist()] == rows
        sums = dict(store.query("SELECT id, sum FROM row"))
        assert ["%016x" % checksum for checksum in order.checksums.tolist()] == [
            sums[number] for number in order.ids.tolist()
        ]
        assert [VERDICTS[code] for code in order.verdicts] == [row.verdict for row in rows]
        assert order.places == store.places() and order.ends[-1] == len(rows)
        for place, begin, end in zip(order.places, [0, *order.ends], order.ends):
            assert {row.place for row in rows[begin:end]} == {place}
