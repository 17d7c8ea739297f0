"""Results that an earlier version wrote: read with a note, by the limits that were in force then, and begun anew."""

from __future__ import annotations

import json
import os
import sqlite3

from old_stores import as_the_first_layout

import goldwatch

FIVE = {
    "CosineSimilarity": {">": 0.99}, "KullbackLeiblerDivergence": {"<": 0.005}, "MeanRelativeError": {"<": 1.0},
    "RelativeEuclideanDistance": {"<": 0.05}, "RootMeanSquareError": {"<": 1.0},
}  # fmt: skip


def as_it_was(network):
    """Compare, and turn the store into that of an earlier version with its five limits."""
    network.dump()
    assert network.compare("--limits", "vendor").returncode == 0
    path = os.path.join(network.out, "run.sqlite")
    as_the_first_layout(path)
    connection = sqlite3.connect(path)
    ((inputs,),) = connection.execute("SELECT value FROM run WHERE key = 'inputs'").fetchall()
    connection.execute("UPDATE run SET value = ? WHERE key = 'inputs'", (json.dumps(dict(json.loads(inputs), limits=FIVE)),))
    connection.commit()
    connection.close()


def test_it_is_read_with_a_note(make_network):
    network = make_network()
    as_it_was(network)
    result = goldwatch.open_result(network.out)
    assert "earlier goldwatch" in " ".join(result.notes)
    assert {limit.metric for limit in result.options.limits.entries} == set(FIVE)
    assert result.summary.verdict == "pass" and len(list(result.rows())) == result.summary.rows


def test_the_same_command_begins_anew_and_keeps_it(make_network):
    network = make_network()
    as_it_was(network)
    done = network.compare()
    assert done.returncode == 0 and "run.layout1.sqlite" in done.stderr
    assert os.path.exists(os.path.join(network.out, "run.layout1.sqlite"))
    (note,) = [note for note in goldwatch.open_result(network.out).notes if "earlier goldwatch" in note]
    assert note.endswith("run.layout1.sqlite, and all is compared anew")
