"""The event stream of a run: every row once and in order, whatever happens to connection, server or
run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import threading

import pytest

from goldwatch.metrics.row import FAIL
from goldwatch.reports.row_json import row_document
from goldwatch.store.facts_and_events import PROVISIONAL
from goldwatch.store.store import RunStore


def until_end(stream):
    events = list(stream)
    assert events[-1][0] == "end"
    return events


def rows_of(events):
    """Return the rows of a client that does what the events say."""
    rows = []
    for kind, number, data in events:
        if kind == "reset":
            rows = []
        elif kind == "row":
            assert number == data["id"]
            rows.append(number)
    return rows


@pytest.fixture
def watched(serving, live, tmp_path):
    """(server, store, id of the run) of a run that goes on."""
    store = live("out")
    server = serving(tmp_path / "lab")
    (run,) = server.runs()
    return server, store, run["id"]


def test_rows_are_streamed_as_they_are_committed(watched, row):
    server, store, run = watched
    store.put(row(0))
    events = iter(server.stream(run))
    seen = []
    for number in range(1, 6):
        # Each event arrives before the next row is there.
        while not seen or seen[-1][0] != "row" or seen[-1][2]["op"] != "op%d" % (number - 1):
            seen.append(next(events))
        store.put(row(number))
    store.close()
    seen += list(events)
    assert rows_of(seen) == [1, 2, 3, 4, 5, 6]
    with RunStore.open(os.path.dirname(store.path)) as stored:
        expected = [
            dict(row_document(found), id=number, final=True)
            for number, found in enumerate(stored.rows("arrival"), 1)
        ]
    assert [data for kind, _, data in seen if kind == "row"] == json.loads(json.dumps(expected))
    progress = [data for kind, _, data in seen if kind == "progress"]
    assert (
        progress[-1]["rows"] == 6
        and progress[-1]["state"] == "stopped"
        and progress[-1]["last_id"] == 6
    )
    assert set(progress[0]) >= {"rows", "passed", "failed", "not_compared", "state", "last_id"}
    assert seen[-1][0] == "end"


def test_streamed_rows_say_whether_they_are_final(watched, row):
    server, store, run = watched
    store.set(PROVISIONAL, {"upto": 0, "ids": []})
    store.put_all([row(0), row(1, verdict=FAIL), row(2, verdict=FAIL)])
    events = iter(server.stream(run))
    assert [next(data["final"] for kind, _, data in events if kind == "row") for _ in range(3)] == [
        True,
        False,
        False,
    ]
    assert next(data for kind, _, data in events if kind == "divergence")["final"] is False
    assert (
        server.json("/api/v1/runs/" + run)["provisional"],
        server.json("/api/v1/runs/" + run)["verdict"],
    ) == (2, None)
    store.set(PROVISIONAL, {"upto": 3, "ids": [2]})
    assert next(data for kind, _, data in events if kind == "provisional") == {
        "upto": 3,
        "ids": [2],
    }
    assert [one["final"] for one in server.json("/api/v1/runs/%s/rows" % run)["rows"]] == [
        True,
        False,
        True,
    ]
    assert (
        server.json("/api/v1/runs/" + run)["provisional"],
        server.json("/api/v1/runs/" + run)["verdict"],
    ) == (1, "fail")
    store.close()
    assert [data for kind, _, data in events if kind == "provisional"] == [
        {"upto": None, "ids": []}
    ]


def test_the_first_divergence_is_streamed_and_corrected(watched, row):
    server, store, run = watched
    store.put(row(7, verdict=FAIL))
    events = iter(server.stream(run))
    told = next(data for kind, _, data in events if kind == "divergence")
    assert told["op"] == "op7"
    # One that comes earlier in the order of execution takes its place; a later one does not.
    store.put_all([row(9, verdict=FAIL), row(3, verdict=FAIL)])
    assert next(data for kind, _, data in events if kind == "divergence")["op"] == "op3"
    store.close()
    assert [data["op"] for kind, _, data in events if kind == "divergence"] == []


@pytest.mark.parametrize("by", ["header", "query"])
def test_a_client_continues_the_stream_after_its_last_row(watched, row, by):
    server, store, run = watched
    store.put_all([row(number) for number in range(2000)])
    store.close()
    random.seed(1)
    for last in [0, 1, 499, 500, 501, 1999, 2000, *(random.randrange(2001) for _ in range(8))]:
        stream = (
            server.stream(run, last=last, after="5")
            if by == "header"
            else server.stream(run, after=last)
        )
        events = until_end(stream)
        assert rows_of(events) == list(range(last + 1, 2001))
        assert "reset" not in {kind for kind, _, _ in events}


@pytest.mark.parametrize("last", ["4000", "-1", "x", "1.0", "", "9" * 40])
def test_an_unknown_last_id_restarts_the_stream(watched, row, last):
    server, store, run = watched
    store.put_all([row(number) for number in range(30)])
    store.close()
    events = until_end(server.stream(run, last=last))
    assert events[0][0] == "reset" and rows_of(events) == list(range(1, 31))


@pytest.mark.parametrize("after", ["abc", "-1", "1.0", "9" * 40])
def test_an_after_parameter_that_is_no_number_is_refused(watched, after):
    server, _, run = watched
    for what in ("events", "rows"):
        error = server.json("/api/v1/runs/%s/%s?after=%s" % (run, what, after), status=400)["error"]
        assert "after: expected a whole number" in error["message"]


def test_a_restarted_run_restarts_the_stream(watched, live, row):
    """Another store takes the place of the one that is looked at, as when a run is begun anew: of
    the old rows nothing holds.
    """
    server, store, run = watched
    store.put_all([row(number) for number in range(30)])
    events = iter(server.stream(run))
    seen = [next(events) for _ in range(30)]
    other = live("other", root="elsewhere")
    other.put_all([row(number) for number in range(100, 140)])
    other.close()
    for suffix in ("-wal", "-shm"):
        os.unlink(store.path + suffix)
    os.replace(other.path, store.path)
    while len(rows_of(seen)) < 40 or "reset" not in {kind for kind, _, _ in seen}:
        seen.append(next(events))
    store.close()
    seen += list(events)
    assert rows_of(seen) == list(range(1, 41))
    assert [data["op"] for kind, _, data in seen if kind == "row"][-40:] == [
        "op%d" % number for number in range(100, 140)
    ]


def test_renumbered_and_removed_rows_are_streamed_again(watched, row):
    server, store, run = watched
    store.put_all([row(number, op_sequence=None) for number in range(10)])
    events = iter(server.stream(run))
    seen = [next(events) for _ in range(11)]
    (place,) = store.places()
    store.table.renumber({place: {"op3": 77}})
    while seen[-1][0] != "reset":
        seen.append(next(events))
    while len(rows_of(seen)) < 10:
        seen.append(next(events))
    assert {data["op"]: data["index"] for kind, _, data in seen if kind == "row"}["op3"] == 77
    store.table.remove([store.table.keys()[0]], "for a test")
    while seen[-1][0] != "reset":
        seen.append(next(events))
    while len(rows_of(seen)) < 9:
        seen.append(next(events))
    store.close()
    assert rows_of([*seen, *events]) == list(range(2, 11))


def test_a_row_compared_again_is_streamed_with_its_new_id(watched, row):
    server, store, run = watched
    store.put_all([row(number) for number in range(3)])
    events = iter(server.stream(run))
    seen = [next(events) for _ in range(3)]
    store.put(row(1, verdict=FAIL))
    while seen[-1][0] != "row" or seen[-1][1] != 4:
        seen.append(next(events))
    assert seen[-1][2]["op"] == "op1" and "reset" not in {kind for kind, _, _ in seen}
    store.close()
    assert rows_of([*seen, *events]) == [1, 2, 3, 4]


def names_of(pieces):
    """Return (kind, id or None) of events as they go out."""
    found = []
    for event in b"".join(pieces).split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in event.splitlines() if b": " in line)
        if b"event" in fields:
            found.append(
                (fields[b"event"].decode(), int(fields[b"id"]) if b"id" in fields else None)
            )
    return found


@pytest.fixture
def tail(live):
    """(store, tail) of a run that goes on, inside the test's process; the tail reads when it is
    told to.
    """
    from goldwatch.service.run_fields import RunStates
    from goldwatch.service.runs import Run
    from goldwatch.service.shared_run_tail import Tail

    store = live("out")
    return store, Tail(Run("0" * 16, os.path.dirname(store.path)), RunStates())


def stream_of(tail, between, asked="0"):
    """Return the events of a client that is as slow as can be: ``between(kind)`` happens while it
    takes one.
    """
    from goldwatch.service.event_routes import EventRoutes
    from goldwatch.service.shared_run_tail import Tails

    async def take():
        pieces = []
        async for piece in EventRoutes(None, Tails(None), None)._pieces(tail, asked, 0):
            pieces.append(piece)
            between(names_of([piece])[-1][0])
        return names_of(pieces)

    return asyncio.run(take())


@pytest.mark.parametrize("moment", ["divergence", "progress"])
def test_the_last_rows_of_a_run_are_streamed_before_its_end(tail, row, moment):
    """Rows and the end that the tail finds while a client takes something else."""
    store, tail = tail
    store.put_all([row(0), row(1, verdict=FAIL)])
    tail._look()

    def finish(kind):
        if kind == moment and not tail.ended:
            store.put_all([row(number) for number in range(2, 1200)])
            store.close()
            tail._look()
            tail._wake_on_news()
            assert tail.ended

    found = stream_of(tail, finish)
    assert [number for kind, number in found if kind == "row"] == list(range(1, 1201))
    assert found[-1] == ("end", None) and ("progress", None) in found


def test_a_store_unreadable_at_the_runs_end_is_read_later(tail, row, monkeypatch):
    from goldwatch.base.errors import EnvironmentProblem
    from goldwatch.service import shared_run_tail as module

    store, tail = tail
    store.put_all([row(number) for number in range(5)])
    tail._look()
    store.put(row(5))
    store.close()
    troubles = [EnvironmentProblem("the writer puts its journal away")] * 4

    class Reader(module.StoreReader):
        def __init__(self, folder):
            if troubles:
                raise troubles.pop()
            super().__init__(folder)

    monkeypatch.setattr(module, "StoreReader", Reader)
    asyncio.run(tail.follow())
    assert (
        not troubles
        and tail.ended
        and tail.last_id == 6
        and json.loads(tail.progress)["state"] == "stopped"
    )


def test_a_failing_stream_reader_ends_its_clients_streams(tail, row, monkeypatch):
    store, tail = tail
    store.put(row(0))
    tail._look()
    monkeypatch.setattr(tail, "_look", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(tail.follow())
    # Without an end: it asks again.
    assert stream_of(tail, lambda kind: None) == [
        ("row", 1),
        ("provisional", None),
        ("progress", None),
    ]


def test_a_larger_store_in_the_same_file_counts_as_another_one(tail, live, row):
    """A store that is begun anew may be given the number of the file that it replaces, and soon has
    more rows.
    """
    store, tail = tail
    store.put_all([row(number) for number in range(10)])
    store.close()
    tail._look()
    other = live("other", root="elsewhere")
    other.put_all([row(number) for number in range(100, 140)])
    other.close()
    with open(other.path, "rb") as source, open(store.path, "r+b") as target:
        target.write(source.read())
        target.truncate()
    generation = tail.generation
    tail._look()
    assert tail.generation > generation and tail.last_id == 40


def change(store, row, how):
    (place,) = store.places()
    if how == "renumbered":
        store.table.renumber({place: {"op3": 77}})
    else:
        store.table.remove([store.table.keys()[0]], "for a test")


@pytest.mark.parametrize("how", ["renumbered", "removed"])
def test_a_client_away_while_rows_changed_starts_again(watched, row, how):
    server, store, run = watched
    store.put_all([row(number, op_sequence=None) for number in range(10)])
    change(store, row, how)
    store.put(row(10))
    store.close()
    left = list(range(1 if how == "renumbered" else 2, 12))
    events = until_end(server.stream(run, last=10))
    assert events[0][0] == "reset" and rows_of(events) == left
    # Who began afterwards, and was cut off before it had read so far, goes on where it was.
    void = server.runs()[0]["void"]
    events = until_end(server.stream(run, last=5, after="0&void=%d" % void))
    assert "reset" not in {kind for kind, _, _ in events} and rows_of(events) == list(range(6, 12))
    assert void == 10
    # Who saw a row of afterwards knows it all.
    events = until_end(server.stream(run, last=11))
    assert "reset" not in {kind for kind, _, _ in events} and rows_of(events) == []


def test_a_client_away_while_a_run_was_restarted_starts_again(watched, live, row, tmp_path):
    server, store, run = watched
    store.put_all([row(number) for number in range(10)])
    store.close()
    anew = live("out", force=True, max_elements=4096)
    anew.put_all([row(number) for number in range(100, 130)])
    anew.close()
    events = until_end(server.stream(run, last=10))
    assert events[0][0] == "reset" and len(rows_of(events)) == 30 and min(rows_of(events)) > 10


@pytest.mark.parametrize("known", [True, False])
def test_a_store_that_replaced_another_is_not_mistaken_for_it(
    serving, live, row, clock, tmp_path, known
):
    """``rm -r OUT`` and the same command again, while a client is away; whether the server was
    there before, or is another.
    """
    clock[0] = 1000
    store = live("out")
    store.put_all([row(number) for number in range(10)])
    store.close()
    server = serving(tmp_path / "lab")
    (run,) = server.runs()
    assert rows_of(until_end(server.stream(run["id"]))) == list(range(1001, 1011))
    if not known:
        server.end()
    shutil.rmtree(os.path.dirname(store.path))
    clock[0] = 2000
    anew = live("out")
    anew.put_all([row(number) for number in range(100, 130)])
    anew.close()
    events = until_end(
        (server if known else serving(tmp_path / "lab")).stream(run["id"], last=1010)
    )
    assert events[0][0] == "reset" and rows_of(events) == list(range(2001, 2031))


def test_many_clients_of_a_live_run_each_get_every_row_once(watched, row):
    """Pages come and go, each goes on by the id that it saw last; none misses a row or sees one
    twice.
    """
    server, store, run = watched
    count, found = 3000, {}

    def page(number):
        chance, rows, last = random.Random(number), [], None
        while True:
            stream = server.stream(run, last=last)
            for seen, (kind, name, _) in enumerate(stream):
                if kind == "row":
                    rows.append(name)
                    last = name
                if kind == "end":
                    found[number] = rows
                    return
                if seen > 200 + chance.randrange(800):
                    break
            stream.close()

    pages = [threading.Thread(target=page, args=(number,)) for number in range(8)]
    for thread in pages:
        thread.start()
    for start in range(0, count, 20):
        store.put_all([row(number) for number in range(start, start + 20)])
    store.close()
    for thread in pages:
        thread.join(120)
    assert {number: rows == list(range(1, count + 1)) for number, rows in found.items()} == {
        number: True for number in range(8)
    }


def test_streams_continue_after_the_server_was_killed_and_restarted(serving, live, row, tmp_path):
    store = live("out")
    server = serving(tmp_path / "lab")
    (run,) = server.runs()
    store.put_all([row(number) for number in range(100)])
    events = iter(server.stream(run["id"]))
    seen = [next(events) for _ in range(60)]
    server.end(signal.SIGKILL)
    seen += list(events)
    store.put_all([row(number) for number in range(100, 200)])
    last = rows_of(seen)[-1]
    again = serving(tmp_path / "lab", port=server.port)
    assert again.port == server.port
    more = iter(again.stream(run["id"], last=last))
    while rows_of(seen)[-1] < 200:
        seen.append(next(more))
    store.close()
    assert rows_of([*seen, *more]) == list(range(1, 201))


def test_a_server_with_fifty_streams_ends_at_sigterm(watched, row, cpu_seconds):
    server, store, run = watched
    store.put(row(1))
    streams = [server.stream(run) for _ in range(50)]
    firsts = [next(iter(stream)) for stream in streams]
    assert {kind for kind, _, _ in firsts} == {"row"}
    assert server.end(signal.SIGTERM) == 0
    for stream in streams:
        stream.close()


def test_the_stream_of_an_unknown_run_is_404(watched):
    server, _, _ = watched
    assert server.ask("/api/v1/runs/%s/events" % ("0" * 16))[0] == 404
    assert server.ask("/api/v1/runs/x/events", token=False)[0] == 401
