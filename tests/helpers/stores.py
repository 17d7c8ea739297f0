"""Inputs and rows of a run's store, and a second connection to it."""

from __future__ import annotations

import math
import sqlite3

import pytest

from goldwatch.metrics.row import METRICS, Row
from goldwatch.store.store import RunStore

INPUTS = {"target": "a", "golden": "b", "metrics": ["x"]}


def connect_reader(out):
    return sqlite3.connect("file:%s/run.sqlite?mode=ro" % out, uri=True)


def build_row(number=0, **fields):
    metrics = {name: 0.25 + number * 1e-9 for name in METRICS}
    metrics["StandardDeviation"] = {
        "target": {"mean": 0.5, "std": 1.25},
        "golden": {"mean": -0.5, "std": math.inf},
    }
    op = "op%d" % (number // 4)
    values = {
        "index": number // 4,
        "op": op,
        "op_type": "Conv2D",
        "tensor": "%s:output:%d" % (op, number % 4),
        "kind": "output",
        "verdict": "pass",
        "tensor_index": number % 4,
        "group": (op,),
        "shape": (1, 64, 56, 56),
        "metrics": metrics,
        "nan": {"target": 0, "golden": 0},
        "inf": {"target": 0, "golden": 0},
        "target_file": "Conv2D.%s.1.2.3" % op,
        "timestamp_us": 3,
    }
    values.update(fields)
    return Row(**values)


@pytest.fixture
def make_row():
    return build_row


@pytest.fixture
def out(tmp_path):
    return str(tmp_path / "out")


@pytest.fixture
def store(out):
    with RunStore.begin(out, INPUTS) as store:
        yield store
