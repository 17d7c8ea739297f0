"""Replays of a network from dumps to results: healthy ones, planted faults, and what cannot be
replayed.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from replay_device import DATA, Device, culprits, outputs, reasons

import goldwatch
from goldwatch.adapters.caffe.replay import _Runner
from goldwatch.base.errors import (
    EnvironmentProblem,
    FormatError,
    InputError,
    MissingPath,
    UsageError,
)
from goldwatch.judging.limits import parse_limit
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.replay.options import ReplayOptions
from goldwatch.run.replay.run import replay
from goldwatch.schemas import load_text
from goldwatch.store.integrity import OtherResults
from goldwatch.testing import DeviceModel, DeviceOp
from goldwatch.testing.device_dump import write_files
from goldwatch.testing.device_model import DeviceTensor

STANDIN = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "adapters", "caffe", "standin"
)
NET = (".prototxt", ".caffemodel")
FUSED = "perhaps-fused"
CONV = "res2a_branch2ares2a_branch2a_relu"
OPS = (
    "conv1conv1_relu pool1 res2a_branch1 %s res2a_branch2b res2ares2a_relu slice sig cat gap fc "
    "prob"
).split()
OPS = [CONV if op == "%s" else op for op in OPS]


def document(result):
    with open(result.files[-1], encoding="ascii") as stream:
        return json.load(stream)


def test_a_healthy_network_has_no_culprit(device) -> None:
    device.write()
    result = device.replay()
    assert result.exit_code == 0 and result.sentence == "No operator has an error of its own."
    assert outputs(result) == {op: "pass" for op in OPS} and result.summary.culprits == ()
    found = document(result)
    jsonschema.validate(found, json.loads(load_text("result.schema.json")))
    assert (
        found["comparison"] == "replay"
        and found["summary"]["culprits"] == []
        and found["summary"]["suspects"] == []
    )
    assert [
        row["op"]
        for row in found["rows"]
        if row["kind"] == "output" and row["verdict"] == "pass" and row["tensor_index"] == 0
    ] == OPS
    absent = {row.op: row.reason for row in result.rows("expected_absent")}
    assert (
        absent["trans_TransData_1"]
        == "TransData keeps the values of what precedes it: it is not replayed"
    )
    assert {"data", "conv1_weights", "fc_bias", "trans_Cast_0"} <= set(absent)


KINDS = {"scale:1.02": CONV, "stale-filter:3": CONV, "epsilon:0.5": CONV, "pad": CONV,
"no-bias": "fc", "pooling": "pool1",
         "axis": "cat", "saturation": "res2ares2a_relu", "c0-slot": "res2a_branch2b",
         "channels": "sig"}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_op_with_the_fault_is_the_only_culprit(device, kind) -> None:
    device.write({KINDS[kind]: kind})
    result = device.replay()
    assert culprits(result) == [KINDS[kind]] and result.exit_code == 1
    assert (
        result.sentence.startswith("%s (" % KINDS[kind])
        and "has an error of its own: " in result.sentence
    )
    assert result.first_divergence.op == KINDS[kind]


def test_an_op_whose_output_the_framework_reproduces_bit_for_bit_is_no_culprit(tmp_path) -> None:
    """What is computed again takes weights as the matrix unit rounds them; this device does not
    round them, so a slice of small values of ``fc`` is off there."""
    random = np.random.RandomState(1031)
    inputs = {"data": random.standard_normal((2, 3, 16, 16)).astype(np.float32)}
    device = Device(tmp_path, *(os.path.join(DATA, "resblock" + end) for end in NET), inputs)
    device.write({"cat": "axis"})
    result = device.replay()
    assert culprits(result) == ["cat"]
    (row,) = [row for row in result.rows() if row.tensor == "fc:output:0"]
    assert row.verdict == "pass" and row.metrics["RelativeEuclideanDistance"] == 0.0


@pytest.mark.parametrize("named", ["conv", "convrelu"])
def test_the_json_of_another_build_is_warned_of(tmp_path, named) -> None:
    """The om has a convolution and its ReLU fused, and the json has them apart; the compiler calls
    what it has fused by both names, or by the first."""
    (tmp_path / "net.prototxt").write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 } } }'
        'layer { name: "half" type: "Power" bottom: "data" top: "half" power_param { shift: -1 } }'
        'layer { name: "relu" type: "ReLU" bottom: "half" top: "relu" }'
        'layer { name: "twice" type: "Power" bottom: "relu" top: "twice" '
        "power_param { scale: 2 } }"
    )
    data = np.array([[0.5, 1.5, 3, -2]], np.float32)
    half = data - 1
    relu = np.maximum(half, 0)

    def op(name, op_type, source, array, original):
        made = DeviceTensor(array.astype(np.float16), origin_name=original)
        return DeviceOp(name, op_type, (source,), (made,), (original,))

    def model(*ops):
        made = DeviceTensor(data.astype(np.float16), origin_name="data")
        start = DeviceOp("data", "Data", (), (made,))
        return DeviceModel("net", [start, *ops])

    first = op(named, "Power", ("data", 0), relu, "half")
    behind = op("twice", "Power", (named, 0), 2 * relu, "twice")
    write_files(str(tmp_path / "dump"), list(model(first, behind).dumps()))
    model(
        op("conv", "Power", ("data", 0), half, "half"),
        op("relu", "Relu", ("conv", 0), relu, "relu"),
        op("twice", "Power", ("relu", 0), 2 * relu, "twice"),
    ).write_json(str(tmp_path / "model.json"))
    result = replay(
        ReplayOptions(
            target=str(tmp_path / "dump"),
            original=str(tmp_path / "net.prototxt"),
            model=str(tmp_path / "model.json"),
            out=str(tmp_path / "out"),
            backend="numpy",
        )
    )
    (said,) = [one for one in result.summary.warnings if one.code in ("unknown-ops", FUSED)]
    if named == "conv":
        assert culprits(result) == ["conv"] and said.code == FUSED
        assert "no dump of relu behind conv: if the om has them fused" in said
    else:
        assert "1 of TARGET's 2 ops is not in " in said and said.code == "unknown-ops"


def test_two_faults_are_both_named_with_the_worst_first(device) -> None:
    device.write({"conv1conv1_relu": "scale:1.04", "cat": "scale:1.5"}, mode="output")
    result = device.replay()
    assert culprits(result) == ["cat", "conv1conv1_relu"]
    assert result.sentence.startswith(
        "2 operators have an error of their own, the worst is cat (ConcatD): "
    )
    assert result.sentence.endswith("; then conv1conv1_relu.")
    worst = result.summary.culprits[0]
    assert worst["tensor"] == "cat:output:0" and worst["metric"] == "RelativeEuclideanDistance"
    assert worst["value"] == pytest.approx(0.5, rel=1e-2) and worst["limit"] < 0.02


def test_layers_of_branches_are_replayed_by_numpy(tmp_path) -> None:
    text = "".join(
        'layer { name: "%s" type: "Input" top: "%s" input_param { shape { dim: 1 dim: 4 dim: '
        "3 dim: 5 } } }" % (name, name)
        for name in "ab"
    )
    text += (
        'layer { name: "p" type: "Pooling" bottom: "a" top: "p" pooling_param { kernel_size: 2 '
        "stride: 2 ceil_mode: false } }"
    )
    text += (
        'layer { name: "s" type: "ShuffleChannel" bottom: "p" top: "s" shuffle_channel_param { '
        "group: 2 } }"
    )
    runner = _Runner(
        {"backend": "numpy", "weights": None, "folder": str(tmp_path), "layer_files": {}}
    )
    x = np.arange(60, dtype=np.float32).reshape(1, 4, 3, 5)
    (made,) = runner.run({"text": text, "outputs": [["s", 0, "s", None]]}, {"a": x, "b": x})
    np.testing.assert_array_equal(made, x[:, [0, 2, 1, 3], 1:2, 1:4:2])


CURVE = (
    "import numpy as np\ndef Curve(bottoms, blobs, parameters, name):\n    return %r / (1 + "
    "np.exp(-bottoms[0]))\n"
)


def test_a_type_with_a_users_layer_file_is_replayed(device) -> None:
    """A type that nobody knows is not replayed; with a function for it, it is, by that function."""
    device.write()
    with open(device.prototxt, encoding="utf-8") as stream:
        text = stream.read().replace('"Sigmoid"', '"Curve"')
    net, own = device.path("own.prototxt"), device.path("own.py")
    with open(net, "w", encoding="utf-8") as stream:
        stream.write(text)
    options = {
        "original": net,
        "weights": device.weights_file,
        "backend": "auto",
        "layer_files": ("Curve=" + own,),
    }
    assert reasons(device.replay(**dict(options, backend="numpy", layer_files=())))[
        "sig"
    ].startswith("not replayed: ")
    for factor, wrong in ((1.0, []), (1.2, ["sig"])):
        with open(own, "w", encoding="utf-8") as stream:
            stream.write(CURVE % factor)
        result = device.replay(**options, out=device.path("own%s" % factor))
        assert outputs(result)["sig"] == ("fail" if wrong else "pass") and culprits(result) == wrong
    with pytest.raises(UsageError, match="`layer` is for the numpy backend"):
        device.replay(**dict(options, backend="caffe"), out=device.path("o"))


def test_ops_behind_a_layer_of_unknown_shape_are_replayed(device, tmp_path) -> None:
    """A PriorBox's top has nothing of its bottoms' shape; what reads it is replayed with the
    recorded one.
    """
    text = 'input: "x" input_dim: 1 input_dim: 4 input_dim: 3 input_dim: 2\n'
    text += (
        'layer { name: "p" type: "PriorBox" bottom: "x" bottom: "x" top: "p" prior_box_param { '
        "min_size: 2 aspect_ratio: 2 } }\n"
    )
    text += (
        'layer { name: "c" type: "Concat" bottom: "p" bottom: "p" top: "c" concat_param { axis: 2 '
        "} }\n"
    )
    (tmp_path / "n.prototxt").write_text(text)
    priors = np.arange(2 * 72, dtype=np.float32).reshape(1, 2, 72)
    tensors = {
        "x": np.zeros((1, 4, 3, 2), np.float32),
        "p": priors,
        "c": np.concatenate([priors, priors], 2),
    }
    made = {name: (DeviceTensor(array, origin_name=name),) for name, array in tensors.items()}
    ops = [
        DeviceOp("x", "Data", (), made["x"]),
        DeviceOp("p", "PriorBox", (("x", 0), ("x", 0)), made["p"], originals=("p",)),
    ]
    ops.append(DeviceOp("c", "ConcatD", (("p", 0), ("p", 0)), made["c"], originals=("c",)))
    device.write(model=DeviceModel("n", ops))
    result = device.replay(original=str(tmp_path / "n.prototxt"), weights=None, backend="numpy")
    assert outputs(result)["c"] == "pass" and culprits(result) == ["p"]


@pytest.mark.parametrize("mode", ["all", "output"])
def test_a_device_that_also_rounds_its_weights_has_no_culprit(device, mode) -> None:
    halves = {
        name: [blob.astype(np.float16).astype(np.float32) for blob in blobs]
        for name, blobs in device.network.weights.items()
    }
    device.write(mode=mode, model=replace(device.network, weights=halves).model())
    result = device.replay()
    assert result.exit_code == 0 and outputs(result) == {op: "pass" for op in OPS}
    assert max(row.metrics["RelativeEuclideanDistance"] for row in result.rows("pass")) > 1e-4


def test_replayed_values_are_kept_as_golden_files(device) -> None:
    """The replayed values of an op are those that its layers give: here pooling, which plain numpy
    repeats exactly.
    """
    device.write({"pool1": "scale:2"})
    result = device.replay()
    golden = os.path.join(device.path("out"), "replayed")
    row = next(row for row in result.rows("fail"))
    values = np.load(os.path.join(golden, row.golden_file))
    conv = (
        device.network.with_op_faults({"pool1": "scale:2"}).model().output("conv1conv1_relu").array
    )
    want = np.max([np.pad(conv, ((0, 0), (0, 0), (0, 1), (0, 1)), mode="edge")[:, :, y : y + 16 : 2,
    x : x + 16 : 2][:, :, :8, :8]
                   for y in range(3) for x in range(3) if True], axis=0)  # fmt: skip
    assert values.dtype == np.float16 and values.shape == (2, 8, 8, 8)
    np.testing.assert_array_equal(values[:, :, :7, :7], want[:, :, :7, :7])
    detail = compare_folders(
        ComparisonOptions(
            device.path("dump"), golden, device.path("again"), device.path("model.json")
        )
    )
    assert detail.first_divergence.op == "pool1"


def test_ops_without_recorded_inputs_are_named_and_stay_suspect(device) -> None:
    dump = device.write(mode="output")
    (gone,) = glob.glob(os.path.join(dump, "*", "*", "*", "*", "*", "Pooling.pool1.*"))
    os.unlink(gone)
    result = device.replay()
    told = reasons(result)
    assert result.exit_code == 3 and set(told) == {"pool1", "res2a_branch1", CONV}
    assert (
        told[CONV] == "not replayed: its input pool1 was not dumped, neither by itself nor by pool1"
        and told["pool1"] == "no dump file"
    )
    assert result.sentence == (
        "No operator that was replayed has an error of its own. "
        "3 operators could not be replayed and stay suspect: pool1, res2a_branch1, %s." % CONV
    )


def test_the_networks_input_may_be_missing_in_the_dump(device) -> None:
    dump = device.write(mode="output")
    for name in glob.glob(os.path.join(dump, "*", "*", "*", "*", "*", "*trans_*")):
        os.unlink(name)
    result = device.replay()
    assert reasons(result) == {
        "conv1conv1_relu": "not replayed: its input data is the model's own, and the op's "
        "inputs were not dumped"
    }
    assert outputs(result)["prob"] == "pass"  # fed by fc itself, past the TransData without a dump


@pytest.mark.parametrize("faults", [{}, {"res2a_branch2b": "scale:1.2"}])
def test_dumps_of_inputs_only_are_replayed_by_what_the_next_ops_read(device, faults) -> None:
    device.write(faults, mode="input")
    result = device.replay()
    told = {row.tensor: row for row in result.rows("expected_absent")}
    assert culprits(result) == list(faults) and not reasons(result)
    # Only NetOutput, which is never dumped, reads the last Cast; softmax is seen at that.
    assert result.exit_code == (1 if faults else 0) and outputs(result)["prob"] == "pass"
    assert told["trans_Cast_3:output:0"].reason.startswith("Cast keeps the values")


def border_inside(device):
    """The json says that pool1 hands out another layer's value."""
    with open(device.path("model.json"), encoding="utf-8") as stream:
        model = json.load(stream)
    (pool,) = [op for op in model["graph"][0]["op"] if op["name"] == "pool1"]
    for entry in pool["output_desc"][0]["attr"]:
        if entry["key"] == "_datadump_origin_name":
            entry["value"]["s"] = "scale_conv1"
    with open(device.path("model.json"), "w", encoding="utf-8") as stream:
        json.dump(model, stream)


def test_an_op_behind_a_border_inside_another_op_is_fed_its_recorded_input(device) -> None:
    device.write()
    border_inside(device)
    result = device.replay()
    assert reasons(result) == {
        "pool1": "not replayed: its output is that of scale_conv1, which is none of its originals"
    }
    assert outputs(result)[CONV] == "pass" and result.exit_code == 3


def test_an_op_behind_a_border_inside_another_op_needs_its_recorded_input(device) -> None:
    device.write(mode="output")
    border_inside(device)
    told = reasons(device.replay())
    assert (
        told[CONV]
        == "not replayed: its input pool1 is a value inside another op, or was not dumped"
        and "res2a_branch1" in told
    )


def test_an_in_place_op_is_fed_by_the_output_before_it(device) -> None:
    model = device.network.with_op_faults({"cat": "scale:1.5"}).model()
    model.ops = [replace(op, in_place=0) if op.name in ("sig", "prob") else op for op in model.ops]
    device.write(model=model)
    assert culprits(device.replay()) == ["cat"]


def test_an_in_place_op_without_a_recorded_producer_is_not_replayed(device) -> None:
    model = device.network.model()
    model.ops = [replace(op, in_place=0) if op.name == "sig" else op for op in model.ops]
    dump = device.write(model=model)
    (gone,) = glob.glob(os.path.join(dump, "*", "*", "*", "*", "*", "*.slice.*"))
    os.unlink(gone)
    told = (
        "not replayed: its input 0 is equal to its output or lies in its memory, and what came in "
        "was not recorded"
    )
    assert reasons(device.replay())["sig"] == told


def test_a_layer_that_crashes_pycaffe_leaves_only_its_op_unreplayed(device, monkeypatch) -> None:
    """The stand-in for pycaffe knows but a few of the layers, and aborts at the others: the next
    child goes on behind them.
    """
    monkeypatch.setenv("PYTHONPATH", STANDIN)
    device.write({"sig": "scale:1.05"})
    result = device.replay(backend="caffe")
    told = reasons(result)
    assert culprits(result) == ["sig"] and outputs(result)["cat"] == "pass"
    # What it dies of is computed by goldwatch itself.
    assert told == {} and outputs(result)["pool1"] == outputs(result)["fc"] == "pass"


def failing(device, **options):
    """Compare the dumps with other golden data: a result that fails."""
    golden = device.path("golden")
    os.makedirs(golden, exist_ok=True)
    np.save(os.path.join(golden, "fc.0.1767323045000000.npy"), np.ones((2, 10), np.float32))
    found = compare_folders(
        ComparisonOptions(
            device.path("dump"), golden, device.path("plain"), device.path("model.json"), **options
        )
    )
    assert found.summary.verdict == "fail"
    return found


def test_the_verdict_of_the_comparison_goes_into_the_replays_sentence(device) -> None:
    device.write()
    failing(device)
    said = (
        "The golden comparison fails but no operator has an error of its own: whose error it is is "
        "not known; compare the inputs and their producers' outputs. goldwatch cure tells whether "
        "float32 mends it: small errors may have grown."
    )
    result = device.replay(result=device.path("plain"))
    assert result.sentence == said and result.exit_code == 0
    opened = goldwatch.open_result(device.path("out"))
    assert opened.sentence == said and opened.summary.culprits == ()
    with open(opened.files[-1], encoding="ascii") as stream:
        assert json.load(stream)["comparison"] == "replay"


def test_a_result_of_other_dumps_is_refused(device) -> None:
    device.write()
    failing(device)
    other = device.write({"fc": "scale:1.05"}, where="other")
    said = (
        r"plain is the comparison of other dumps: of those in .*/dump, while .*/other/.* is "
        r"replayed .FullyConnection.fc.*was another"
    )
    with pytest.raises(InputError, match=said):
        device.replay(target=other, result=device.path("plain"))
    copied = shutil.copytree(device.path("dump"), device.path("copied"))
    assert device.replay(
        target=copied, result=device.path("plain"), out=device.path("one")
    ).sentence.startswith("The golden comparison f")
    with pytest.raises(InputError, match="is the result of a replay, not of a comparison"):
        device.replay(result=device.path("one"))
    moved = shutil.move(device.path("dump"), device.path("moved"))
    assert device.replay(
        target=moved, result=device.path("plain"), out=device.path("two")
    ).sentence.startswith("The golden comparison f")
    os.rename(other, device.path("dump"))
    with pytest.raises(InputError, match="is the comparison of other dumps"):
        device.replay(result=device.path("plain"))
    for path in glob.glob(os.path.join(moved, "*", "*", "*", "*", "*", "*")):
        os.rename(path, path[:-3] + "111")
    with pytest.raises(InputError, match="none of its files was compared"):
        device.replay(target=moved, result=device.path("plain"))
    assert not os.path.exists(device.path("out"))


def test_a_replay_of_selected_ops_says_nothing_about_the_network(device) -> None:
    """fc is guilty but was not asked for."""
    device.write({"fc": "scale:1.05"})
    failing(device)
    result = device.replay(ops=("res*",), result=device.path("plain"))
    said = (
        "The golden comparison fails; no selected operator has an error of its own (4 replayed); "
        "nothing is known of the others."
    )
    assert result.sentence == said and goldwatch.open_result(device.path("out")).sentence == said


def test_an_opened_replay_result_has_its_culprits(device) -> None:
    device.write({"fc": "no-bias"})
    result = device.replay()
    opened = goldwatch.open_result(device.path("out"))
    assert (
        opened.sentence == result.sentence
        and opened.summary.culprits == result.summary.culprits
        and opened.exit_code == 1
    )
    assert (opened.summary, opened.notes, opened.left_out) == (
        result.summary,
        result.notes,
        result.left_out,
    ) and result.notes


def test_selected_ops_and_limits_of_the_user_are_applied(device) -> None:
    device.write({"fc": "scale:1.002", "cat": "scale:1.002"})
    assert sorted(culprits(device.replay())) == ["cat", "fc"]
    assert (
        culprits(
            device.replay(
                out=device.path("wide"), limits=(parse_limit("RelativeEuclideanDistance=0.01"),)
            )
        )
        == []
    )
    tight = (parse_limit("RelativeEuclideanDistance=0.001"),)
    result = device.replay(out=device.path("tight"), ops=("f*", "cat"), limits=tight)
    assert sorted(culprits(result)) == ["cat", "fc"] and set(outputs(result)) == {"cat", "fc"}
    with pytest.raises(UsageError, match="no op of the model matches fcc") as caught:
        device.replay(out=device.path("none"), ops=("fcc",))
    assert "fc" in caught.value.hint and not os.path.exists(device.path("none"))


def test_a_repeated_replay_is_reused_and_a_different_one_refused(device) -> None:
    device.write()
    first = sorted(os.listdir(os.path.join(device.replay().options.out, "replayed")))
    os.mkdir(os.path.join(device.path("out"), ".replay-killed"))
    assert (
        sorted(os.listdir(os.path.join(device.replay().options.out, "replayed"))) == first
        and len(first) == 13
    )
    assert not [name for name in os.listdir(device.path("out")) if name.startswith(".replay")]
    with pytest.raises(OtherResults):
        device.replay(ops=("fc",))


def test_inputs_that_do_not_belong_together_are_refused(device, tmp_path) -> None:
    device.write()
    with pytest.raises(UsageError, match="there is no backend 'tensorrt'") as caught:
        device.replay(backend="tensorrt")
    assert caught.value.hint == "one of auto, caffe, numpy, tf, onnxruntime"
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07\x3a\x09")
    with pytest.raises(InputError, match="cut short"):
        device.replay(original=str(tmp_path / "net.onnx"))
    with pytest.raises(UsageError, match="the backend tf does not run a prototxt"):
        device.replay(backend="tf", weights=None)
    with pytest.raises(MissingPath, match="no.caffemodel"):
        device.replay(weights=str(tmp_path / "no.caffemodel"))
    with open(device.prototxt, encoding="ascii") as stream:
        (tmp_path / "alone.prototxt").write_text(stream.read())
    (tmp_path / "a.caffemodel").write_bytes(b"x")
    with pytest.raises(InputError, match="alone.prototxt has no .caffemodel of its name beside it"):
        device.replay(original=str(tmp_path / "alone.prototxt"))
    with pytest.raises(FormatError, match="cut short"):
        device.replay(weights=str(tmp_path / "a.caffemodel"))
    with pytest.raises(EnvironmentProblem, match="does not run as a Python"):
        device.replay(backend="caffe", python="/bin/false")
    DeviceModel("other", [DeviceOp("other", "Relu")]).write_json(device.path("model.json"))
    with pytest.raises(InputError, match="16 of TARGET's 16 ops are not in "):
        device.replay()
    device.write(where="again")
    (tmp_path / "lone.prototxt").write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 } } }'
    )
    with pytest.raises(
        InputError,
        match=r"names 24 original layers, of which .*lone.prototxt has 0 .bn2a_branch1 is not "
        r"there.",
    ):
        device.replay(original=str(tmp_path / "lone.prototxt"), weights=None)
    (tmp_path / "other.caffemodel").write_bytes(b"\xa2\x06\x05\x0a\x03abc")
    with pytest.raises(InputError, match="no weights for any layer of this net .conv1."):
        device.replay(weights=str(tmp_path / "other.caffemodel"))
    with pytest.raises(InputError, match="there is no time folder 20200101000000") as caught:
        device.replay(time="20200101000000")
    assert caught.value.hint == "there are 20260102030405"
    assert not os.path.exists(device.path("out"))


def test_a_target_with_several_steps_is_refused(device) -> None:
    device.write()
    model = device.network.model()
    model.write_tree(device.path("dump"), step=7)
    with pytest.raises(InputError, match="TARGET holds 2 steps") as caught:
        device.replay()
    assert "step 7" in caught.value.message and "name its folder" in caught.value.hint
    one = os.path.join(device.path("dump"), "20260102030405", "0", "resblock", "1", "7")
    assert device.replay(target=one).exit_code == 0


def test_a_damaged_dump_is_not_replayed_and_other_folders_are_refused(device, tmp_path) -> None:
    dump = device.write()
    (path,) = glob.glob(os.path.join(dump, "*", "*", "*", "*", "*", "*.fc.*"))
    with open(path, "r+b") as stream:
        stream.truncate(os.path.getsize(path) - 4)
    result = device.replay()
    assert (
        list(reasons(result)) == ["fc"] and "expected 1216 bytes, got 1212" in reasons(result)["fc"]
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no dump file was found"):
        device.replay(target=str(tmp_path / "empty"))
    (tmp_path / "empty" / "Relu.relu.3.3.1700000000000001.output.0.npy").write_bytes(b"x")
    with pytest.raises(InputError, match="it holds arrays that were converted from dump files"):
        device.replay(target=str(tmp_path / "empty"))


def test_dumps_in_slices_are_joined_for_a_replay(device) -> None:
    model = device.network.with_op_faults({"cat": "scale:1.05"}).model()
    model.write_json(device.path("model.json"))
    model.write_tree(device.path("dump"), generation="ffts+", threads=2)
    result = device.replay()
    assert culprits(result) == ["cat"] and outputs(result) == {
        op: "fail" if op == "cat" else "pass" for op in OPS
    }


def test_a_v1_net_with_an_input_field_is_replayed(device, tmp_path) -> None:
    """Old forms of prototxt: the cut writes input fields where there is no Input layer."""
    old = 'input: "data" input_dim: 2 input_dim: 3 input_dim: 16 input_dim: 16\n'
    with open(device.prototxt, encoding="ascii") as stream:
        text = stream.read().split("\n", 2)[2]
    (tmp_path / "old.prototxt").write_text('name: "resblock"\n' + old + text)
    device.write({"fc": "scale:1.1"})
    assert culprits(
        device.replay(original=str(tmp_path / "old.prototxt"), weights=device.weights_file)
    ) == ["fc"]
