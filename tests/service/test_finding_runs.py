"""When the service searches for runs, and what it assumes in between."""

from __future__ import annotations

import os

import pytest

from goldwatch.service import runs as module
from goldwatch.service.root_folders import Roots
from goldwatch.service.runs import Runs
from goldwatch.store.opening import STORE_FILE


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "root" / "out").mkdir(parents=True)
    return Runs(Roots([str(tmp_path / "root")], str(tmp_path / "state")))


def begin(runs):
    """A run begins in the folder that is there already."""
    out = os.path.join(runs.roots.folders[0], "out")
    with open(os.path.join(out, STORE_FILE), "w"):
        pass
    return out


def test_a_run_of_a_known_job_is_listed_before_the_next_search(runs, monkeypatch):
    monkeypatch.setattr(module, "_FRESH_S", 3600.0)
    assert runs.all() == []
    out = begin(runs)
    assert runs.all() == []
    runs.look_again()
    assert [run.path for run in runs.all()] == [out]


def test_a_run_that_appears_during_a_search_is_searched_for_again(runs, monkeypatch):
    monkeypatch.setattr(module, "_FRESH_S", 3600.0)
    is_run = module.is_run

    def meanwhile(folder):
        runs.look_again()
        return is_run(folder)

    begin(runs)
    with monkeypatch.context() as looking:
        looking.setattr(module, "is_run", meanwhile)
        assert len(runs.all()) == 1
    os.unlink(os.path.join(runs.roots.folders[0], "out", STORE_FILE))
    assert runs.all() == []


def test_a_store_made_in_the_clock_tick_of_its_folders_listing_is_found(runs, monkeypatch):
    monkeypatch.setattr(module, "_FRESH_S", -1.0)
    monkeypatch.setattr(module, "_LISTING_SHARE", 0)
    out = os.path.join(runs.roots.folders[0], "out")
    assert runs.all() == []
    before = os.stat(out).st_mtime_ns
    begin(runs)
    # As a file system does whose clock has not gone on meanwhile; then nobody asks for a while.
    os.utime(out, ns=(before, before))
    now = module.time.time_ns
    monkeypatch.setattr(module.time, "time_ns", lambda: now() + 3 * 10**9)
    assert [run.path for run in runs.all()] == [out]
