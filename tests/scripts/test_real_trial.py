"""``scripts/real_trial``: its device, faults and tables, and all of it on the made network."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from goldwatch.tensors.layout_conversion import convert

pytest.importorskip("onnxruntime")

SCRIPTS = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "scripts")


@pytest.fixture
def real(monkeypatch, tmp_path):
    """The trial's modules, and a device that has run the made network in float16."""
    monkeypatch.syspath_prepend(SCRIPTS)
    from trials.real import device, faults, lowering, nets, running, tables, writing

    class Real:
        pass

    made = Real()
    made.faults, made.tables, made.writing, made.running = faults, tables, writing, running
    path, feeds = nets.model_of(nets.MADE, str(tmp_path)), nets.NETS[nets.MADE].feed(0)
    made.path, made.feeds, made.lower = path, feeds, lowering.lower
    made.habit = running.HABITS["f16-told"]
    made.lowered = lowering.lower(path, feeds, made.habit)
    made.device = device.Device(made.lowered, made.habit)
    made.healthy = made.device.run()
    return made


def distance(wrong, right):
    right = right.astype(np.float64)
    return np.linalg.norm(wrong.reshape(right.shape) - right) / np.linalg.norm(right)


def test_a_healthy_device_is_close_to_onnxruntime(real):
    compared = 0
    for op in real.lowered.ops:
        for index, out in enumerate(op.outputs):
            golden = real.lowered.values[out.value]
            if golden.dtype == np.float32:
                assert distance(real.healthy[op.name, index], golden) < 0.01, op.name
                compared += bool(op.nodes)
    types = {op.type for op in real.lowered.ops}
    wanted = {
        "Conv2D",
        "HardSwish",
        "LayerNorm",
        "Gelu",
        "Swish",
        "SoftmaxV2",
        "TransData",
        "Cast",
        "ArgMaxD",
        "TopKV2",
    }
    assert compared > 40 and wanted <= types


@pytest.mark.parametrize(
    "kind, moved",
    [("scale-1.005", 0.005), ("scale-1.04", 0.04), ("scale-0.98", 0.02), ("sign", 2.0)],
)
def test_a_fault_changes_its_op_as_much_as_it_says(real, kind, moved):
    made = real.faults.plant(kind, real.device, real.healthy, np.random.RandomState(3))
    assert made.moved == pytest.approx(moved, rel=0.1) and made.roundings > 10
    assert distance(made.store[made.op, 0], real.healthy[made.op, 0]) == pytest.approx(made.moved)
    touched = {
        name
        for (name, index) in made.store
        if not np.array_equal(made.store[name, index], real.healthy[name, index])
    }
    assert made.op in touched and touched <= set(made.changed)


@pytest.mark.parametrize(
    "kind",
    "one-bias no-bias stale-filter weights-int8 half-sums epsilon alpha pad-off-by-one "
    "softmax-axis "
    "resize-mode coarse-table no-activation gelu-approximate did-nothing".split(),
)
def test_a_fault_in_weights_or_attributes_changes_one_op(real, kind):
    made = real.faults.plant(kind, real.device, real.healthy, np.random.RandomState(1))
    before = {op.name for op in real.lowered.ops} - set(made.changed)
    assert made.moved > 0 and made.changed[0] == made.op
    assert all(made.store[key] is real.healthy[key] for key in real.healthy if key[0] in before)


def test_every_kind_can_be_planted_somewhere(real):
    random = np.random.RandomState(0)
    found = [
        kind
        for kind in real.faults.KINDS
        if real.faults.plant(kind, real.device, real.healthy, random) is not None
    ]
    # No layer of this network pads an average, and none that subtracts or divides stands alone.
    assert set(real.faults.KINDS) - set(found) <= {"count-pad", "operands"} and len(found) >= 25


@pytest.mark.parametrize(
    "layout, shape",
    [("NC1HWC0", (2, 20, 3, 5)), ("FRACTAL_Z", (20, 18, 3, 3)), ("FRACTAL_NZ", (2, 18, 33))],
)
def test_written_layouts_are_those_that_goldwatch_reads(real, layout, shape):
    array = np.random.RandomState(0).normal(size=shape).astype(np.float16)
    stored = real.writing.stored(array, shape, layout)
    plain = "ND" if layout == "FRACTAL_NZ" else "NCHW"
    assert np.array_equal(convert(stored, layout, plain, stored.shape, shape), array)


def test_the_om_json_has_attributes_and_constants_as_the_habit_says(real):
    told = real.writing.document(real.lowered, real.habit)["graph"][0]["op"]
    conv = next(op for op in told if op["type"] == "Conv2D")
    names = {entry["key"] for entry in conv["attr"]}
    assert {"strides", "pads", "dilations", "groups"} <= names and len(conv["input"]) == 3
    plain = real.writing.document(real.lowered, real.habit._replace(told=False, weights=False))[
        "graph"
    ][0]["op"]
    conv = next(op for op in plain if op["type"] == "Conv2D")
    assert {entry["key"] for entry in conv.get("attr", [])} <= {
        "_datadump_original_op_names"
    } and len(conv["input"]) == 1


def entry(**changes):
    made = {
        "run": "made/0/f16/all/scale-1.01/0",
        "net": "made",
        "habit": "f16",
        "form": "all",
        "fault": "scale-1.01",
        "op": "a",
        "type": "Conv2D",
    }
    made.update(
        moved=0.02,
        roundings=70.0,
        code=1,
        planted=["a"],
        suspects=[["a", "Conv2D", "", ["scale"], ["times 1.04"]]],
        own=[],
        maybe=[],
        first="a",
        failed=1,
    )
    return dict(made, **changes)


def test_trials_that_miss_are_counted(real):
    wrong = entry(
        code=0,
        suspects=[["b", "Add", "", ["rounding"], ["x"]], ["a", "Conv2D", "", ["bias"], ["y"]]],
        own=["b … its own"],
    )
    healthy = entry(fault="", planted=[""], suspects=[["b", "Add", "", [], []]], code=0)
    for found, good in (
        ([entry(), entry(fault="", planted=[""], suspects=[], code=0)], True),
        ([wrong, healthy], False),
    ):
        figures = {name: kept for name, _, _, kept in real.tables.figures(found)}
        assert {
            figures[name]
            for name in (
                "first, 1 to 3 %",
                "first explanation right",
                "healthy with a suspect",
                "its own, of a wrong op",
            )
        } == {good}
    assert len(real.tables.misses([wrong, healthy])) == 3 and not real.tables.misses([entry()])
    assert real.tables.silent(entry(code=0, suspects=[])) and not real.tables.silent(wrong)


def test_an_explanation_is_right_by_its_kind_and_by_what_it_says(real):
    for fault, kind, sentence, right in (
        ("sign", "scale", "times -1", True),
        ("sign", "activation", "the device computed Neg behind it", True),
        ("sign", "activation", "the device computed Abs behind it", False),
        ("scale-1.04", "attribute", "Conv with the weights other than the model's in 9", True),
        ("scale-1.04", "attribute", "Conv with pads [0, 1]", False),
        ("others-memory", "unexplained", "no known variant", False),
    ):
        said = [["a", "Conv2D", "", [kind], [sentence]]]
        assert real.tables.explained(entry(fault=fault, suspects=said)) == right, sentence


def test_operators_called_wrong_by_the_sentence_are_recognised(real):
    said = real.running._own_sentences(
        "conv1 (Conv2D) has an error of its own: x.\nNo operator has an error of its own.",
        ["conv1", "conv10"],
        ["conv2"],
    )
    assert list(said) == ["conv1 (Conv2D) has an error of its own: x."]
    assert not list(
        real.running._own_sentences("conv1 has an error of its own", ["conv1"], ["conv1"])
    )


def trial(cwd, *words):
    command = [sys.executable, os.path.abspath(os.path.join(SCRIPTS, "real_trial")), *words]
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        cwd=str(cwd),
    )


def test_the_quick_trial_needs_no_network_and_can_be_continued(tmp_path):
    words = [
        "--quick",
        "--cache",
        "cache",
        "--habits",
        "f16",
        "--kinds",
        "scale-1.04,row-garbage",
        "--faults",
        "2",
        "--results",
        "found",
        "--jobs",
        "1",
    ]
    done = trial(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "nothing is downloaded" in done.stdout
        and "| **all** | 2 | 2 | 0 | 0 | 0 (0.0 %) | 0 |" in done.stdout
    )
    assert "| **all but the smaller** | 2 | 2 (100.0 %) |" in done.stdout
    lines = (tmp_path / "found").read_text().splitlines()
    assert len(lines) == 4 and {json.loads(line)["code"] for line in lines} == {0, 1}
    again = trial(tmp_path, *words)
    assert again.returncode == 0 and (tmp_path / "found").read_text().splitlines() == lines


def test_a_single_run_is_repeated_and_kept_with_its_command(tmp_path):
    done = trial(
        tmp_path, "--run", "made/0/f16/bare/scale-1.04/0", "--cache", "cache", "--keep", "kept"
    )
    found = json.loads((tmp_path / "kept" / "found.json").read_text())
    assert found["suspects"][0][0] == found["op"] and "kept in kept" in done.stdout
    manifest = json.loads((tmp_path / "kept" / "golden" / "manifest.json").read_text())
    assert "source" not in manifest and manifest["tensors"]
    assert (
        "goldwatch compare dump golden -f model.json" in (tmp_path / "kept" / "cmd.sh").read_text()
    )


@pytest.mark.parametrize("words", [["--nets", "nothing"], ["--keep", "x"], ["--kinds", "y"]])
def test_wrong_trial_options_exit_with_2(tmp_path, words):
    assert trial(tmp_path, *words).returncode == 2


def test_recurrent_operands_are_ordered_as_in_the_node(real, tmp_path):
    from onnx import TensorProto, helper, numpy_helper
    from onnx import save as save_model

    from trials.real import lowering

    weights = {"w": (1, 8, 3), "r": (1, 8, 2), "b": (1, 16)}
    random = np.random.RandomState(0)
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    arrays["one"] = np.ones(1, np.float32)
    nodes = [
        helper.make_node("Sub", ["one", "x"], ["y"], "sub"),
        helper.make_node("LSTM", ["y", "w", "r", "b"], ["z"], "lstm", hidden_size=2),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "z")]
    graph = helper.make_graph(
        nodes,
        "g",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    path = str(tmp_path / "m.onnx")
    save_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path
    )
    x = random.normal(size=(4, 1, 3)).astype(np.float32)
    lowered = lowering.lower(path, {"x": x}, real.habit)
    ops = {op.name: op for op in lowered.ops}
    assert [getattr(operand, "value", None) for operand in ops["sub"].operands[:1]] == [
        "one"
    ] and len(ops["sub"].operands) == 2
    # The matrix of DynamicRNN: one step of an LSTM by hand, gates in its order i, j, f, o.
    _, weight, bias = ops["lstm"].operands
    i, j, f, o = np.split(
        np.concatenate([1 - x[0], np.zeros((1, 2))], 1) @ weight.array + bias.array, 4, axis=1
    )
    hidden = np.tanh(np.tanh(j) / (1 + np.exp(-i))) / (1 + np.exp(-o))
    assert np.allclose(hidden, lowered.values["z"][0, 0], atol=1e-5)


def test_the_trial_device_rounds_as_its_habit_says(real):
    from trials.real.device import Device

    counts = {}
    for name in ("f32", "hf32"):
        habit = real.running.HABITS[name]
        device = Device(real.lower(real.path, real.feeds, habit), habit)
        conv = next(op for op in device.lowered.ops if op.type == "Conv2D")
        store = device.run()
        wrong = [store[conv.name, 0] * np.float32(1.01)]
        counts[name] = real.faults.movement(device, conv, store, wrong)[1]
    assert counts["f32"] > 50 * counts["hf32"] > 500


def test_a_missing_package_index_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    done = trial(tmp_path, "--nets", "vad", "--cache", "cache")
    assert done.returncode == 1 and "not to be had: vad\nnothing to try" in done.stdout
    assert "silero-vad==6.2.3 cannot be had: ERROR: No matching distribution" in done.stderr


def test_statistics_trials_are_counted_by_the_place_of_the_fault(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    from trials.real import by_statistics

    def row(op, elements, statistics):
        return [
            op + ":output:0",
            "Relu",
            "output",
            "float16",
            elements,
            statistics,
            0.1,
            0.1,
            {},
            [2],
            "",
        ]

    def entry(fault, *rows):
        return {
            "fault": fault,
            "op": "b",
            "moved": 0.5,
            "roundings": 99,
            "default": {"rows": rows},
            "chosen": {"rows": rows},
        }

    found = [
        entry("", row("a", "pass", "pass"), row("b", "pass", "fail")),
        entry(
            "shift", row("a", "pass", "pass"), row("b", "fail", "pass"), row("c", "fail", "fail")
        ),
        {"left_out": "its type does not suit it"},
    ]
    lines = by_statistics.table(found)
    assert lines[2].startswith("| healthy | 1 | 0 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 1 | 0 |")
    assert lines[3].startswith("| moved > 3 % | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0 | 0 | 0 |")
    assert "| moved > 3 % | default | 2 | 1 | 1 | 0 |" in lines
