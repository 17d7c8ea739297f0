"""Tests wait for conditions, never for a time, and assert nothing about durations."""

from __future__ import annotations

import ast
import glob
import os

TESTS = os.path.dirname(os.path.abspath(__file__))
# The helper ``until`` is in it.
HELPER = os.path.join(TESTS, "conftest.py")
CLOCKS = ("sleep", "monotonic", "perf_counter", "process_time", "thread_time")


def clocks(path):
    """Yield each use of a clock or a sleep in a file, but not in the texts of programs that it
    starts.
    """
    with open(path, encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    # ``asyncio.sleep(0)`` waits for no time: it gives the other tasks their turn.
    turn = ast.dump(ast.parse("asyncio.sleep(0)", mode="eval").body)
    turns = {
        call.func
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.dump(call) == turn
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS and node not in turns:
            yield "%s:%d: %s" % (os.path.relpath(path, TESTS), node.lineno, node.attr)


def test_no_test_waits_for_a_time_or_measures_one():
    paths = sorted(glob.glob(os.path.join(TESTS, "**", "*.py"), recursive=True))
    assert len(paths) > 100 and list(clocks(HELPER)) != []
    assert [use for path in paths if path != HELPER for use in clocks(path)] == []
