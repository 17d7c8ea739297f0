"""What a worker keeps open for a run is closed whenever the run ends."""

from __future__ import annotations

import os
import threading

import pytest

from goldwatch import __version__
from goldwatch.base.errors import GoldwatchError
from goldwatch.cluster import worker_comparison
from goldwatch.cluster.order_and_findings import Order
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.store.row_transfer import packed


@pytest.fixture
def order(training, monkeypatch):
    """An order of no file, for a worker whose folder is ``disk``."""
    os.mkdir(training.path("disk"))
    monkeypatch.setattr(worker_comparison, "_own_disk", lambda: training.path("disk"))
    options = ComparisonOptions(
        training.path("dump"),
        training.path("golden"),
        training.path("out"),
        model=training.path("net.json"),
    )
    return Order("run", __version__, options, (), (), (), (), packed(()), ())


def test_a_run_that_ends_while_a_worker_compares_leaves_no_files(
    training, order, monkeypatch
) -> None:
    compare, begun, go_on = worker_comparison.OpenRun._compare, threading.Event(), threading.Event()

    def slow(itself, order):
        begun.set()
        assert go_on.wait(60)
        return compare(itself, order)

    monkeypatch.setattr(worker_comparison.OpenRun, "_compare", slow)
    thread = threading.Thread(target=worker_comparison.OpenRun(order).compare, args=(order,))
    thread.start()
    assert begun.wait(60)
    worker_comparison.end_run("run")
    assert os.listdir(training.path("disk"))
    go_on.set()
    thread.join(60)
    assert not os.listdir(training.path("disk"))
    worker_comparison.end_run("run")


def test_golden_data_unreadable_on_a_worker_leaves_nothing_open(training, order) -> None:
    for name in os.listdir(training.path("golden")):
        os.remove(training.path("golden", name))
    os.rmdir(training.path("golden"))
    with pytest.raises(GoldwatchError):
        worker_comparison.OpenRun(order)
    assert not os.listdir(training.path("disk"))
