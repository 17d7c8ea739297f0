"""The commands of docs/inspect.md work."""

from __future__ import annotations

from in_process import make_dumps, run_page


def test_commands(tmp_path):
    make_dumps(tmp_path)
    assert all(run_page("inspect.md", tmp_path, 3))
