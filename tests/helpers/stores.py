"""What a run's store is begun with, and how another program reads it."""

from __future__ import annotations

import sqlite3

INPUTS = {"target": "a", "golden": "b", "metrics": ["x"]}


def reader(out):
    return sqlite3.connect("file:%s/run.sqlite?mode=ro" % out, uri=True)
