"""``--max-elements``: large tensors are compared by a sample, which is reported."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import goldwatch
from goldwatch.base.errors import UsageError
from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.metrics.compare_pair import compare_pair
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.row import MEASURES, PASS, SAMPLED, Row
from goldwatch.schemas import load_schema
from goldwatch.tensors.aligned_blocks import placed_blocks
from goldwatch.tensors.geometry import match_layouts
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.tensor import Tensor

SHAPE = (2, 70, 60, 50)
CASES = [("NC1HWC0", "C"), ("NCHW", "F"), ("NHWC", "C"), ("FRACTAL_Z", "C")]


def pair(tmp_path, layout="NC1HWC0", order="C", noise=0.0, seed=5):
    random = np.random.default_rng(seed)
    golden = random.standard_normal(SHAPE).astype(np.float32)
    values = (golden + noise * random.standard_normal(SHAPE)).astype(np.float16)
    stored = values if layout == "NCHW" else convert(values, "NCHW", layout, SHAPE)
    path = str(tmp_path / "a.0.1.npy")
    np.save(path, np.asarray(golden, order=order))
    target = Tensor.from_array(stored, layout)
    return task_of(path, target, SHAPE), golden


def task_of(path, target, shape):
    row = Row(index=0, op="a", op_type="Add", tensor="a:output:0", kind="output", verdict=PASS)
    return PairTask(row, target, GoldenEntry(path, path, "a", 0, 1, "npy"), "NCHW", shape)


@pytest.mark.parametrize("most", [1024, 5000, 100000])
@pytest.mark.parametrize(("layout", "order"), CASES)
def test_a_sample_is_spread_over_the_tensor_and_its_parts_add_up(
    tmp_path, layout, order, most
) -> None:
    task, golden = pair(tmp_path, layout, order)
    other = Tensor.from_array(golden)
    geometry = match_layouts(task.target, SHAPE, "NCHW", SHAPE, None)

    def places(part):
        found = []
        for block in placed_blocks(task.target, other, geometry, 4096, part, frozenset(), most):
            grids = np.meshgrid(
                *(np.arange(size) * step for size, step in zip(block.x.shape, block.strides)),
                indexing="ij",
            )
            at = (block.start + sum(grids)).reshape(-1)
            assert block.y.reshape(-1).tolist() == golden.reshape(-1)[at].tolist()
            assert np.allclose(block.x.reshape(-1), golden.reshape(-1)[at], atol=0.01)
            found += at.tolist()
        return found

    whole = places((0, 1))
    assert len(set(whole)) == len(whole) and most * 0.4 < len(whole) <= most
    assert [at for number in range(5) for at in places((number, 5))] == whole
    # Every sixteenth of the tensor, and most channels, are met.
    assert len({at * 16 // golden.size for at in whole}) == 16
    assert len({at // 3000 % 70 for at in whole}) > 30


@pytest.mark.parametrize("early", [False, True])
def test_metrics_are_those_of_the_sampled_elements(tmp_path, early, monkeypatch) -> None:
    task, golden = pair(tmp_path, noise=0.01)
    if early:
        monkeypatch.setattr("goldwatch.metrics.compare_pair.SPLIT_BYTES", 1000)
        monkeypatch.setattr("goldwatch.metrics.compare_pair._PART_BYTES", 20000)
    row = compare_pair(task, Settings(MEASURES, max_elements=50000))
    assert (
        row.warning == SAMPLED
        and row.verdict == PASS
        and "of 420000 elements were compared" in row.reason
    )
    # The same elements, taken out one by one.
    seen = []
    from goldwatch.metrics import compare_pair as module

    blocks_of = module.blocks_of

    def watched(*words, **named):
        for block in blocks_of(*words, **named):
            seen.append((block.x.copy(), block.y.copy()))
            yield block

    monkeypatch.setattr(module, "blocks_of", watched)
    assert (
        compare_pair(
            task, Settings(("MeanAbsoluteError", "WorstSliceDistance"), max_elements=50000)
        ).metrics["MeanAbsoluteError"]
        > 0
    )
    x, y = (
        np.concatenate([part.reshape(-1) for part in side]).astype(np.float64)
        for side in zip(*seen)
    )
    assert x.size <= 50000 and "%d of" % x.size in row.reason
    assert row.metrics["MeanAbsoluteError"] == pytest.approx(
        math.fsum(np.abs(x - y)) / x.size, rel=1e-9
    )
    assert row.metrics["CosineSimilarity"] == pytest.approx(
        math.fsum(x * y) / math.sqrt(math.fsum(x * x) * math.fsum(y * y)), rel=1e-9
    )
    p, q = (
        np.maximum((side - side.min()) / (side.max() - side.min()), 1.1920929e-07)
        for side in (x, y)
    )
    p, q = p / math.fsum(p), q / math.fsum(q)
    assert row.metrics["KullbackLeiblerDivergence"] == pytest.approx(
        math.fsum(p * np.log(p / q)), rel=1e-5
    )


def test_a_healthy_channel_of_small_values_passes_in_a_sample(tmp_path) -> None:
    """The mean of all slices, below which no slice is judged by itself alone, is that of the slices
    that were met.
    """
    random = np.random.default_rng(1)
    golden = random.standard_normal((1, 1000, 40, 40)).astype(np.float32)
    golden[:, ::2] *= 1e-3
    path = str(tmp_path / "a.0.1.npy")
    np.save(path, golden)
    target = Tensor.from_array(
        (golden + 3e-4 * random.standard_normal(golden.shape)).astype(np.float32), "NCHW"
    )
    task = task_of(path, target, golden.shape)
    whole, part = (compare_pair(task, Settings(MEASURES, max_elements=most)) for most in (0, 20000))
    assert part.metrics["WorstSliceDistance"] < 2 * whole.metrics["WorstSliceDistance"] < 0.01


def test_the_command_reports_that_tensors_were_sampled(network, tmp_path) -> None:
    values = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    network.values["fc"] = values
    network.write_golden("fc", values)
    fc = network.model.ops[-2]
    network.model.ops[-2] = replace(
        fc, outputs=(replace(fc.outputs[0], array=values.astype(np.float16)),)
    )
    network.model.write_json(network.model_path)
    network.dump()
    done = network.compare(
        "--max-elements", "1024", "--overflow", "--format", "json", "--jobs", "1"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, load_schema("result"))
    assert document["summary"]["sampled"] == 1
    (said,) = document["summary"]["warnings"]
    assert (
        said["sentence"]
        == "1 tensor has been compared by a sample of the elements, which misses what lies "
        "elsewhere: fc:output:0"
    )
    rows = network.rows()
    assert (
        rows["fc:output:0"]["warning"] == "sampled"
        and "of 4096 elements were compared" in rows["fc:output:0"]["reason"]
    )
    assert rows["op/1_fused:output:0"]["warning"] == "" and rows["fc:output:0"]["overflow"] is False
    again = network.compare(
        "--max-elements",
        "1024",
        "--overflow",
        "--format",
        "json",
        "--jobs",
        "2",
        out=network.out + "2",
    )
    assert json.loads(again.stdout)["rows"] == document["rows"]
    assert network.compare().returncode == 2  # other results: these are of a sample
    assert (
        network.compare("--force").returncode == 0 and "sampled" not in network.result()["summary"]
    )
    assert network.compare("--max-elements", "1000").returncode == 2
    with pytest.raises(UsageError, match="1024 or more"):
        goldwatch.compare(network.target, network.golden, max_elements=3)
