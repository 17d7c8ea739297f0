"""``goldwatch serve`` on a Python that is too old for it."""

from __future__ import annotations

import types

from in_process import run_here

from goldwatch.cli import serve


def test_serve_on_an_old_python_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "sys", types.SimpleNamespace(version_info=(3, 7, 16, "final", 0)))
    done = run_here(["goldwatch", "serve", "."], tmp_path)
    assert (
        done.returncode == 4 and "Python 3.9" in done.stderr and "goldwatch report" in done.stderr
    )
    assert "Traceback" not in done.stderr and done.stderr.count("goldwatch:") == 1
