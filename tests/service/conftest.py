"""Real servers over small folders of runs. The service is for Python 3.9 and newer: elsewhere there
is nothing here to collect.
"""

from __future__ import annotations

import os
import sys

import pytest
from in_process import run_here

from goldwatch.metrics.row import METRICS, Row
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.store import store as store_module
from goldwatch.store.store import RunStore

collect_ignore_glob = ["test_*.py"] if sys.version_info < (3, 9) else []


@pytest.fixture
def serving(tmp_path, until):
    """Starts servers, ``serving(root, "--option")``; all are ended after the test."""
    from service_client import TOKEN, Server, closing_all

    with closing_all([]) as servers:

        def start(*words, token=TOKEN, port=0):
            roots = [word for word in words if not str(word).startswith("--")]
            options = [word for word in words if str(word).startswith("--")]
            server = Server(
                tmp_path / ("server%d" % len(servers)),
                roots,
                until,
                *options,
                token=token,
                port=port,
            )
            servers.append(server)
            return server

        yield start


def make_row(number, **fields):
    """Return the row of an op of its own."""
    op = "op%d" % number
    values = {
        "index": number, "op": op, "op_type": "Conv2D", "tensor": op + ":output:0",
        "kind": "output", "verdict": "pass", "tensor_index": 0,
        "group": (op,), "shape": (1, 8),
        "metrics": {name: 0.5 for name in METRICS if name != "StandardDeviation"},
        "nan": {"target": 0, "golden": 0}, "inf": {"target": 0, "golden": 0},
        "target_file": "Conv2D.%s.1.2.3" % op,
        "timestamp_us": number, "device": "0", "model": "net", "step": "0",
        "time": "20260102030405", "model_id": "1",
    }  # fmt: skip
    values.update(fields)
    return Row(**values)


@pytest.fixture
def row():
    return make_row


@pytest.fixture
def clock(monkeypatch):
    """The microseconds of the clock when stores are made, in a list: 0, so that ids begin at 1."""
    found = [0]
    monkeypatch.setattr(store_module, "microseconds", lambda: found[0])
    return found


@pytest.fixture
def live(tmp_path, clock):
    """Makes runs that go on, ``live("out")``: a store of this process, which holds its lock until
    it is closed.
    """
    stores = []

    def begin(name, root="lab", force=False, **options):
        out = str(tmp_path / root / name)
        given = ComparisonOptions(
            str(tmp_path / root / "dump"), str(tmp_path / root / "golden"), out, **options
        )
        stores.append(RunStore.begin(out, given.identity(), force))
        return stores[-1]

    os.makedirs(str(tmp_path / "lab"), exist_ok=True)
    yield begin
    for store in stores:
        store.close()


@pytest.fixture
def lab(tmp_path):
    """A folder with a network of three ops, its golden data and its dump."""
    folder = tmp_path / "lab"
    folder.mkdir()
    for words in (["make", "net", "--ops", "3"], ["serve", "net", "dump"]):
        assert run_here([sys.executable, "-m", "goldwatch.testing", *words], folder).returncode == 0
    return folder
