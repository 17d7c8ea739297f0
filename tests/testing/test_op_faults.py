"""Faults planted in single ops of the stand-in."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from in_process import run_here

from goldwatch.base.errors import UsageError
from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.testing import CaffeNetwork, DumpServer, OpFault
from goldwatch.testing.op_faults import KINDS

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
NET = CaffeNetwork(
    os.path.join(DATA, "resblock.prototxt"),
    read_weights(os.path.join(DATA, "resblock.caffemodel")),
    {"data": np.load(os.path.join(DATA, "input_data.npy"))},
    "resblock",
)
CONV = "res2a_branch2ares2a_branch2a_relu"
WHERE = {"pooling": "pool1", "axis": "cat", "no-bias": "fc"}


def outputs(**op_faults):
    return {
        op.name: [output.array for output in op.outputs]
        for op in NET.with_op_faults(op_faults).model().dumped_ops()
    }


def changed(good, bad):
    return [
        name
        for name in good
        if any(not np.array_equal(a, b) for a, b in zip(good[name], bad[name]))
    ]


@pytest.fixture(scope="module")
def good():
    return outputs()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_faulty_op_changes_itself_and_what_follows(kind, good) -> None:
    op = WHERE.get(kind, CONV)
    names = list(good)
    wrong = changed(good, outputs(**{op: kind}))
    assert (
        wrong[0] == op
        and all(names.index(name) > names.index(op) for name in wrong[1:])
        and "prob" in wrong
    )
    assert "res2a_branch1" not in wrong or op == "pool1"


def test_each_kind_of_fault_changes_values_as_described(good) -> None:
    np.testing.assert_allclose(outputs(sig="scale:1.5")["sig"][0], 1.5 * good["sig"][0], rtol=2e-3)
    bias = NET.weights["fc"][1]
    np.testing.assert_allclose(
        good["fc"][0] - outputs(fc="no-bias")["fc"][0],
        np.broadcast_to(bias, good["fc"][0].shape),
        atol=4e-3,
    )
    assert np.abs(outputs(cat="saturation:0.25")["cat"][0]).max() == 0.25
    stale = outputs(fc="stale-filter:3")["fc"][0] != good["fc"][0]
    assert stale[:, 3].all() and stale.sum() == len(stale)
    spoiled = outputs(res2ares2a_relu="c0-slot")["res2ares2a_relu"][0] != good["res2ares2a_relu"][0]
    assert spoiled[0, :, 4, 4].all() and spoiled.sum() == 16


def test_a_wrong_epsilon_gives_the_values_of_the_formula(good) -> None:
    """Of an op without activation: (conv − mean) / sqrt(variance + eps) · scale + bias, from the
    op's own good output.
    """
    mean, variance, factor = (blob.astype(np.float64) for blob in NET.weights["bn2a_branch1"])
    scale, bias = NET.weights["scale2a_branch1"]
    variance = variance / factor[0]
    shape = (1, -1, 1, 1)
    centred = (good["res2a_branch1"][0] - bias.reshape(shape)) * np.sqrt(variance + 1e-5).reshape(
        shape
    )
    want = centred / np.sqrt(variance + 0.5).reshape(shape) + bias.reshape(shape)
    np.testing.assert_allclose(
        outputs(res2a_branch1="epsilon:0.5")["res2a_branch1"][0], want, atol=5e-3
    )
    assert scale.shape == bias.shape


@pytest.mark.parametrize(
    ("op", "text", "told"),
    [
        ("fc", "nonsense", "'nonsense' is not known"),
        ("fc", "scale:much", "'much' is no number"),
        ("fc", "no-bias:2", "takes no number"),
        ("cat", "pad", "op cat .Concat. cannot have the fault pad"),
        ("conv1conv1_relu", "no-bias:", "no number"),
        ("fc", "stale-filter:10", "there is no filter 10"),
        ("nowhere", "scale", "no op nowhere"),
    ],
)
def test_impossible_faults_are_refused(op, text, told) -> None:
    with pytest.raises(UsageError, match=told):
        outputs(**{op: text})


def test_a_dump_server_plants_op_faults(tmp_path) -> None:
    bare = DumpServer(str(tmp_path / "good"), NET).run()
    wrong = DumpServer(str(tmp_path / "bad"), NET, op_faults={"fc": OpFault("scale", 2.0)}).run()
    assert bare.files == wrong.files == 16 and wrong.counts() == {"written": 16}
    different = []
    for folder, _, names in os.walk(str(tmp_path / "good")):
        for name in names:
            one = os.path.join(folder, name)
            with open(one, "rb") as stream, open(one.replace("/good/", "/bad/"), "rb") as other:
                if stream.read() != other.read():
                    different.append(name.split(".")[1])
    assert sorted(different) == ["fc", "prob", "trans_Cast_3", "trans_TransData_2"]
    with pytest.raises(UsageError, match="these dumps are what they are"):
        DumpServer(str(tmp_path / "more"), NET.model().dumps(), op_faults={"fc": "scale"})


def test_the_program_writes_a_network_with_a_fault(tmp_path) -> None:
    words = [
        "caffe",
        NET.prototxt,
        os.path.join(DATA, "resblock.caffemodel"),
        str(tmp_path / "run"),
    ]
    words += ["-i", "data=" + os.path.join(DATA, "input_data.npy")]
    done = run_here(
        [
            sys.executable,
            "-m",
            "goldwatch.testing",
            *words,
            "--op-fault",
            "fc=scale:1.05",
            "--mode",
            "output",
        ]
    )
    assert done.returncode == 0 and "16 dump files of resblock; wrong: fc=scale:1.05" in done.stdout
    assert (tmp_path / "run" / "model.json").exists()
    again = run_here([sys.executable, "-m", "goldwatch.testing", *words])
    assert again.returncode == 2 and "already holds dumps" in again.stderr
    wrong = run_here(
        [
            sys.executable,
            "-m",
            "goldwatch.testing",
            *words[:3],
            str(tmp_path / "other"),
            *words[4:],
            "--op-fault",
            "fc",
        ]
    )
    assert (
        wrong.returncode == 2
        and "expected NAME=VALUE" in wrong.stderr
        and not (tmp_path / "other").exists()
    )


def windows(x, begin, end, stride, size):
    """Return the sums of windows of 3 by 3 (a convolution with ones), one window at a time."""
    behind = max(end, 0)
    padded = np.pad(x[0, 0], ((begin, behind), (begin, behind)), "constant")
    if end < 0:
        padded = padded[:end, :end]
    count = (len(padded) - size) // stride + 1
    return np.array(
        [
            [
                padded[
                    row * stride : row * stride + size, column * stride : column * stride + size
                ].sum()
                for column in range(count)
            ]
            for row in range(count)
        ]
    )[None, None]


@dataclass(frozen=True)
class Conv:
    type: str
    attributes: dict


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (2, 2), "SAME"])
def test_a_padding_off_by_one_is_one_more_before_and_one_less_behind(pads, stride) -> None:
    x = np.random.RandomState(0).standard_normal((1, 1, 8, 8)).astype(np.float32)

    def split(size):
        if pads != "SAME":
            return pads
        total = max((-(-size // stride) - 1) * stride + 3 - size, 0)
        return total // 2, total - total // 2

    def compute(node, inputs):
        return [windows(inputs[0], *split(inputs[0].shape[2]), stride, 3)]

    node, fault = Conv("Conv", {"strides": [stride, stride]}), OpFault.parse("pad")
    changed_node, inputs = fault.changed(node, [x])
    made = fault.after(node, inputs, compute(changed_node, inputs), compute)
    begin, end = split(8)
    expected = windows(x, begin + 1, end - 1, stride, 3)
    np.testing.assert_allclose(made[0], expected, rtol=1e-6)
