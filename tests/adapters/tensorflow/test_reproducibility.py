"""``--twice`` reports what a script does not repeat, and what to do about it."""

from __future__ import annotations

import json

import pytest

from goldwatch.adapters.tensorflow.dump_command import Difference, advice, compare_runs
from goldwatch.base.errors import InputError

SCRIPT = """
import numpy as np
import tensorflow as tf
tf.logging.set_verbosity(tf.logging.ERROR)
x = tf.placeholder(tf.float32, [8], name="x")
v = tf.get_variable("v", [8])
y = tf.nn.dropout(x * v, 0.5, name="drop")
batch = tf.data.Dataset.range(100).shuffle(100).batch(10).make_one_shot_iterator().get_next()
fixed = tf.constant([1.0, 2.0], name="fixed")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([y, batch, fixed], {x: np.random.rand(8)})
"""


@pytest.mark.tensorflow
def test_unseeded_variables_dropout_shuffling_and_feeds_are_reported(tf, golden, script):
    done = tf("dump", "-o", "g", "--twice", "--", "python", script(SCRIPT))
    assert done.code == 1, done.err
    for word in (
        "not reproducible",
        "v:0",
        "x:0 (feed)",
        "IteratorGetNext",
        "set_random_seed",
        "numpy.random.seed",
        "shuffle",
    ):
        assert word in done.out, word
    found = golden("g").manifest["reproducibility"]
    names = [entry["tensor"] for entry in found["differing"]]
    assert "fixed:0" not in names and {"v:0", "x:0", "IteratorGetNext:0"}.issubset(names)
    assert found["same"] + len(names) == len(golden("g").tensors) and found["advice"]


@pytest.mark.tensorflow
def test_a_script_that_repeats_itself_is_called_reproducible(tf, golden, script):
    text = SCRIPT.replace("x = tf.", "tf.set_random_seed(1)\nnp.random.seed(1)\nx = tf.", 1)
    done = tf(
        "dump",
        "-o",
        "g",
        "--twice",
        "--steps",
        "0",
        "--format",
        "json",
        "--",
        "python",
        script(text),
    )
    assert done.code == 0, done.err
    assert done.json()["reproducible"] is True and done.json()["differences"] == []
    assert golden("g/0").manifest["reproducibility"]["differing"] == []


def write_manifest(folder, tensors):
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"tensors": tensors}))


def entry(op, sha, dump=0, shape=(2,), kind="Mul"):
    return {
        "original_name": op,
        "output_index": 0,
        "dump": dump,
        "sha256": sha,
        "shape": list(shape),
        "dtype": "float32",
        "type": kind,
    }


def test_two_runs_are_compared_by_name_and_dump(tmp_path):
    write_manifest(
        tmp_path / "a",
        [entry("x", "1"), entry("l", "1"), entry("l", "2", 1), entry("s", "1"), entry("gone", "1")],
    )
    write_manifest(
        tmp_path / "b",
        [
            entry("x", "1"),
            entry("l", "1"),
            entry("l", "3", 1),
            entry("s", "2", shape=(3,)),
            entry("new", "1"),
        ],
    )
    found, same = compare_runs(str(tmp_path / "a"), str(tmp_path / "b"))
    assert same == 2
    assert [(d.tensor, d.reason) for d in found] == [
        ("l:0 (dump 1)", "values differ"),
        ("s:0", "float32 [2] became float32 [3]"),
        ("gone:0", "only in the first run"),
        ("new:0", "only in the second run"),
    ]
    with pytest.raises(InputError):
        compare_runs(str(tmp_path / "a"), str(tmp_path / "none"))


def test_threads_are_blamed_where_no_op_is_random():
    assert "intra_op_parallelism_threads" in advice([Difference("x:0", "Mean", "values differ")])[0]
