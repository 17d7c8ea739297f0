"""The live line shows the first divergence in execution order, whatever arrived first."""

from __future__ import annotations

from types import SimpleNamespace

from goldwatch.metrics.row import Row
from goldwatch.run import watch_progress
from goldwatch.run.watch_progress import ProgressMeter
from goldwatch.store.facts_and_events import OPS


def row(number: int, verdict: str = "fail", step: str = "0") -> Row:
    return Row(
        index=number,
        op="op%d" % number,
        op_type="Relu",
        tensor="op%d:output:0" % number,
        kind="output",
        verdict=verdict,
        op_sequence=number,
        step=step,
    )


def test_the_first_failing_row_in_execution_order_is_shown(monkeypatch) -> None:
    monkeypatch.setattr(watch_progress, "_MEASURED_S", 0.0)
    stored, noted = [row(7)], {}
    counts, provisional = {"fail": 3, "pass": 4}, [None, None]
    progress = SimpleNamespace(pairs=0, pairs_done=0, failed=0, bytes_done=0)
    counted = SimpleNamespace(all=lambda: dict(counts))
    store = SimpleNamespace(
        rows=lambda order, verdict: iter(stored),
        continued=True,
        counted=counted,
        set=noted.__setitem__,
    )
    meter = ProgressMeter(
        SimpleNamespace(progress=progress),
        SimpleNamespace(counts=lambda: (0, 0), ops_come=lambda: (4, 9)),
        SimpleNamespace(targets=()),
        store,
        provisional,
    )

    measured = []

    def first_after(*rows: Row):
        for each in rows:
            meter.see(each)
        measured[:] = [meter.measure()]
        return measured[0].first

    assert first_after() == row(7), "a continued run knows it from its store"
    assert first_after(row(9), row(3), row(5), row(1, "pass"), row(2, step="4")) == row(3)
    stored[:] = [row(9), row(7), row(5)]
    assert first_after(row(3, "pass")) == row(5), "compared anew, it passes"
    assert (measured[0].rows, measured[0].failed, measured[0].provisional) == (7, 3, 2)
    # A file was mended: its rows fail no more, and there are as many as before.
    counts.update({"fail": 0, "pass": 7})
    provisional.clear()
    measured[:] = [meter.measure(last=True)]
    assert (measured[0].rows, measured[0].failed, measured[0].provisional) == (7, 0, 0)
    assert measured[0].ops == (4, 9) and noted == {OPS: {"come": 4, "expected": 9}}
