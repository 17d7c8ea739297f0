"""Outputs that TensorFlow's CPU kernels leave uninitialised are not saved as golden data."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.adapters.tensorflow.dump_command import compare_runs
from goldwatch.adapters.tensorflow.uninitialised_outputs import (
    in_a_listing,
    never_written,
    partly_written,
)

SCRIPT = """
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_array_ops, gen_data_flow_ops, gen_functional_ops
from tensorflow.python.ops import gen_linalg_ops, gen_nn_ops, gen_rnn_ops

tf.logging.set_verbosity(tf.logging.ERROR)
state = np.random.RandomState(0)


feeds = {}


def values(*shape):
    # Fed, for tfdbg's own runs fold what is constant.
    made = tf.placeholder(tf.float32, shape)
    feeds[made] = state.standard_normal(shape)
    return made


def four():
    return [values(3) for _ in range(2)] + [tf.constant([1.0, 2.0, 3.0]) for _ in range(2)]


norm = [getattr(gen_nn_ops, name, None) or getattr(gen_nn_ops, "_" + name) for name in ("fused_batch_norm", "fused_batch_norm_v2")]
norm.append(gen_nn_ops.fused_batch_norm_v3)
fetched = []
for number, make in enumerate(norm):
    x = values(2, 4, 4, 3)
    fetched.append(make(x, *four(), is_training=False, name="infer%d" % number))
    empty = tf.constant([], tf.float32)
    fetched.append(make(x, *(four()[:2] + [empty, empty]), is_training=True, name="train%d" % number))
cell = [values(2, 4), values(2, 4), values(7, 16), values(4), values(4), values(4), values(16)]
for name, steps in (("short", 2), ("whole", 5)):
    fetched.append(gen_rnn_ops.block_lstm(tf.constant(steps, tf.int64), values(5, 2, 3), *cell, name=name))
square = values(3, 3)
fetched.append(gen_linalg_ops.self_adjoint_eig_v2(square, compute_v=False, name="eig"))
fetched.append(gen_linalg_ops.svd(square, compute_uv=False, name="svd"))
fetched.append(gen_functional_ops.fake_param(tf.float32, [2], name="fake"))
fetched += [gen_array_ops.empty([3], tf.float32, name="empty"), gen_array_ops.empty([3], tf.float32, init=True, name="zeros")]
rows = [values(2, 3), values(1, 3)]
fetched.append(gen_data_flow_ops.dynamic_stitch([tf.constant([0, 4]), tf.constant([2])], rows, name="gap"))
fetched.append(gen_data_flow_ops.dynamic_stitch([tf.constant([0, 1]), tf.constant([2])], rows, name="stitched"))
with tf.Session() as session:
    session.run(fetched, feeds)
"""  # noqa: E501
UNWRITTEN = {
    **{"infer%d" % number: {1, 2, 3, 4} for number in range(3)},
    "short": {0, 2, 3, 4, 5}, "eig": {1}, "svd": {1, 2}, "empty": {0}, "fake": {0}, "gap": {0},
}  # fmt: skip


@pytest.mark.tensorflow
def test_outputs_that_no_kernel_writes_are_left_out_with_the_reason(tf, golden, script, tmp_path):
    name = script(SCRIPT)
    for out, byte in (("a", "85"), ("b", "170")):
        done = tf("dump", "-o", out, "--", "python", name, env={"MALLOC_PERTURB_": byte})
        assert done.code == 0, done.err
    # What only one of the fillings of fresh memory explains would differ.
    assert compare_runs(str(tmp_path / "a"), str(tmp_path / "b"))[0] == []
    found = golden("a")
    reasons = {
        tensor: reason
        for tensor, reason in found.reasons().items()
        if "uninitialised memory" in reason
    }
    expected = {"%s:%d" % (op, slot) for op, slots in UNWRITTEN.items() for slot in slots} | {
        "infer2:5",
        "train2:5",
    }
    assert set(reasons) == expected
    assert (
        "with is_training=False" in reasons["infer0:1"]
        and "2 of 5 time steps" in reasons["short:0"]
    )
    assert "leave out 2 of its 5 rows" in reasons["gap:0"]
    saved = {(entry["original_name"], entry["output_index"]) for entry in found.tensors}
    assert {
        ("train0", 1),
        ("train2", 4),
        ("whole", 0),
        ("short", 1),
        ("short", 6),
        ("zeros", 0),
        ("stitched", 0),
        ("infer2", 0),
    } <= saved


@pytest.mark.tensorflow
def test_twice_ignores_outputs_that_no_kernel_writes(tf, script):
    text = (
        SCRIPT[: SCRIPT.index("    empty = ")]
        + "with tf.Session() as session:\n    session.run(fetched, feeds)\n"
    )
    done = tf("dump", "-o", "g", "--twice", "--", "python", script(text))
    assert done.code == 0 and "reproducible: both runs gave the same" in done.out, done.out


def test_only_outputs_known_to_be_unwritten_are_left_out():
    assert (
        never_written("FusedBatchNorm", 1, {"is_training": False})
        and never_written("FusedBatchNorm", 0, {"is_training": False}) is None
    )
    assert (
        never_written("FusedBatchNormV2", 1, {"is_training": True}) is None
        and never_written("FusedBatchNormV2", 1, {}) is None
    )
    assert (
        in_a_listing("FusedBatchNormV2", 3, with_gradient=False)
        and in_a_listing("FusedBatchNormV2", 3, with_gradient=True) is None
    )
    assert in_a_listing("Svd", 1, with_gradient=False) is None

    def stitched(*indices, rows):
        arrays = [None if each is None else np.array(each) for each in indices]
        return partly_written(
            "DynamicStitch", 0, (rows, 2), 2 * len(indices), lambda number: arrays[number]
        )

    assert (
        stitched([0, 4], [2], rows=5)
        and stitched([0, 1], [2], rows=3) is None
        and stitched([2, 2], [0, 1], rows=3) is None
    )
    assert stitched([0, 4], None, rows=5) is None
