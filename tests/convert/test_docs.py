"""The commands of docs/convert.md work."""

from __future__ import annotations

from in_process import make_dumps, run_page


def test_commands(tmp_path):
    make_dumps(tmp_path)
    run_page("convert.md", tmp_path, 5)
