"""A net with everything that is hard to convert: each saved tensor equals session.run's fetch of
it, bit for bit.
"""

from __future__ import annotations

import collections
import os

import numpy as np
import pytest

from goldwatch.base.naming import read_mapping

pytestmark = pytest.mark.tensorflow

NET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts", "net.py")
LONG = "/".join("a_very_long_scope_name_number_%02d" % k for k in range(9)) + "/leaf"
NOT_FETCHED = "bn.1/FusedBatchNorm:5"
# With is_training=False.
NOT_WRITTEN = ["bn.1/FusedBatchNorm:%d" % slot for slot in (1, 2, 3, 4)]


class Net:
    def __init__(self, mode, golden, own, done):
        self.mode, self.golden, self.own, self.done = mode, golden, own, done


@pytest.fixture(scope="module", params=["infer", "train"])
def net(request, tmp_path_factory, run_tf, read_golden):
    """Run 1 of the net, dumped, and what session.run itself fetched in it."""
    folder = tmp_path_factory.mktemp(request.param)
    done = run_tf(
        folder, "dump", "-o", "g", "--run-index", "1", "--", "python", NET, "own.npz", request.param
    )
    assert done.code == 0, done.err
    with np.load(str(folder / "own.npz")) as stored:
        own = {name.replace("|", "/"): stored[name] for name in stored.files}
    return Net(request.param, read_golden(folder / "g"), own, done)


def test_every_tensor_equals_its_fetch_bit_for_bit(net):
    dumps = collections.Counter((e["original_name"], e["output_index"]) for e in net.golden.tensors)
    compared = 0
    for name, expected in net.own.items():
        op, _, index = name.rpartition(":")
        if name == NOT_FETCHED or (net.mode == "infer" and name in NOT_WRITTEN):
            continue
        assert dumps[(op, int(index))] == 1, name
        saved = net.golden.one(op, int(index))
        assert (saved.dtype, saved.shape) == (expected.dtype, expected.shape), name
        assert saved.tobytes() == expected.tobytes(), name
        compared += 1
    assert compared == {"infer": 92, "train": 177}[net.mode]
    reasons = {
        name for name, reason in net.golden.reasons().items() if "is_training=False" in reason
    }
    assert reasons == (set(NOT_WRITTEN) if net.mode == "infer" else set())


def test_counts_of_saved_skipped_and_refused_tensors_add_up(net):
    manifest = net.golden.manifest
    assert (
        len(manifest["tensors"]) + len(manifest["skipped"]) + len(manifest["refused"])
        == manifest["dumps"]
    )
    assert manifest["dumps"] == {"infer": 258, "train": 565}[net.mode]
    assert (
        "%d saved, %d skipped, 0 refused" % (len(manifest["tensors"]), len(manifest["skipped"]))
        in net.done.out
    )
    assert len({e["file"] for e in manifest["tensors"]}) == len(manifest["tensors"])


def test_ops_that_grappler_would_fuse_are_saved(net):
    names = [
        "conv1/Conv2D",
        "conv1/BiasAdd",
        "conv1/relu",
        "a/b/c",
        "a/b_c",
        "a_b_c",
        "a.b.c",
        LONG,
        "fc/logits",
        "split/parts",
        "topk",
    ]
    assert net.golden.ops.issuperset(names)
    assert not any(e["type"].startswith("_Fused") for e in net.golden.tensors)
    assert (
        "grappler" in net.golden.manifest["optimiser"] and "off" in net.golden.manifest["optimiser"]
    )


def test_fed_values_are_saved_under_their_ops_names(net):
    expected = np.random.RandomState(1).rand(2, 8, 8, 3).astype(np.float32)
    assert net.golden.one("data/input").tobytes() == expected.tobytes()
    assert not any(op.startswith("_arg_") for op in net.golden.ops)
    assert [e["file"] for e in net.golden.tensors if e["original_name"] == "data/input"][
        0
    ].startswith("data_input.0.")


def test_loops_keep_every_iteration_in_order(net):
    steps = net.golden.all("loop/step")
    assert len(steps) == 5
    history = [
        value for name, value in net.own.items() if name.startswith("iterations") and value.ndim > 1
    ]
    assert [np.stack(steps).tobytes()] == [value.tobytes() for value in history]
    stamps = [e["timestamp"] for e in net.golden.tensors if e["original_name"] == "loop/step"]
    assert sorted(set(stamps)) == stamps and [
        e["dump"] for e in net.golden.tensors if e["original_name"] == "loop/step"
    ] == list(range(5))
    assert [int(value) for value in net.golden.all("loop/add")] == [1, 2, 3, 4, 5]


def test_element_types_are_saved_as_numpy_has_them(net):
    bf16 = net.golden.one("bf16")
    entry = [e for e in net.golden.tensors if e["original_name"] == "bf16"][0]
    assert bf16.dtype == np.float32 and entry["source_dtype"] == "bfloat16"
    assert net.golden.one("half").dtype == np.float16
    assert net.golden.one("cplx").dtype == np.complex64
    assert net.golden.one("mask_bool").dtype == np.bool_
    assert net.golden.one("quant").dtype == np.uint8
    assert net.golden.one("int64").dtype == np.int64
    assert net.golden.one("scalar").shape == ()
    assert net.golden.one("empty_mask/GatherV2").shape == (0,)


def test_each_tensor_that_is_not_saved_has_a_reason(net):
    reasons = net.golden.reasons()
    assert (
        "string" in reasons["label_text:0"]
        and "string" in reasons["text:0"]
        and "string" in reasons["joined:0"]
    )
    assert "handle" in reasons["bn.1/gamma:0"]
    assert "uninitialised memory" in reasons["bn.1/FusedBatchNorm:5"]
    assert not net.golden.ops.intersection(["label_text", "text", "bn.1/gamma"])


def test_only_the_branch_that_was_taken_is_saved(net):
    assert "branch/yes" in net.golden.ops and "branch/no" not in net.golden.ops


def test_colliding_and_long_names_are_in_the_mapping(net):
    mapping = read_mapping(os.path.join(net.golden.folder, "mapping.csv"))
    listed = {e["original_name"]: mapping.get(e["file"]) for e in net.golden.tensors}
    for number, op in enumerate(["a.b.c", "a/b/c", "a/b_c", "a_b_c"], 1):
        assert listed[op].startswith("a_b_c-parked-%d.0." % number)
    assert listed[LONG].startswith(LONG.replace("/", "_") + ".0.") and len(listed[LONG]) > 255
    assert listed["prob"] is None
    assert "collision" in net.done.err


def test_the_manifest_names_script_run_and_backend(net):
    manifest = net.golden.manifest
    assert manifest["backend"] == "tensorflow" and manifest["backend_version"].startswith("1.15")
    assert len(manifest["source"]["script"]) == 64
    assert manifest["run"] == {"index": 1, "kind": "session.run"}
    assert manifest["program"] == {"exit_code": 0, "signal": None}
