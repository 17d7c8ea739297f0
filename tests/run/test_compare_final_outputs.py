"""A network's outputs as a runner wrote them, compared without a dump."""

from __future__ import annotations

import json
import os
import shutil

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch import compare
from goldwatch.base.errors import UsageError
from goldwatch.run.output_files import parse_output
from goldwatch.schemas import load_schema
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor, write_outputs

SCORES = np.random.RandomState(0).standard_normal((4, 20)).astype(np.float32)
BOXES = np.array(
    [[[0, 0, 10, 10, 0.9, 1], [20, 20, 30, 30, 0.8, 2], [0, 0, 0, 0, 0, 0]]], np.float32
)
COUNTS = np.arange(6, dtype=np.int32).reshape(2, 3)


@pytest.fixture
def net(tmp_path):
    """A network with three outputs in another order than its ops: det, fc, count."""
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(SCORES, "ND", "ND", "data"),)))
    for name, values in (("fc", SCORES.astype(np.float16)), ("count", COUNTS), ("det", BOXES)):
        model.add(
            DeviceOp(
                name,
                "MatMul",
                (("data", 0),),
                (DeviceTensor(values, "ND", "ND", "orig/" + name),),
                ("orig/" + name,),
            )
        )
    model.add(
        DeviceOp(
            "trans_Cast_9", "Cast", (("fc", 0),), (DeviceTensor(SCORES, "ND", "ND", None),), ()
        )
    )
    model.add(
        DeviceOp(
            "Node_Output", "NetOutput", (("det", 0), ("trans_Cast_9", 0), ("count", 0)), (), ()
        )
    )
    model.write_json(str(tmp_path / "net.json"))
    (tmp_path / "golden").mkdir()
    for name, values in (("fc", SCORES), ("count", COUNTS), ("det", BOXES)):
        np.save(str(tmp_path / "golden" / ("orig_%s.0.1700000000000000.npy" % name)), values)
    return tmp_path


def compared(net, *more, target="runs"):
    done = run_here(["goldwatch", "compare", target, "golden", "-o", "out", "--force", *more], net)
    document = None
    if os.path.exists(str(net / "out" / "result.json")) and done.returncode in (0, 1, 3):
        with open(str(net / "out" / "result.json"), encoding="utf-8") as stream:
            document = json.load(stream)
        jsonschema.validate(document, load_schema("result"))
    return done, document


def outputs(scores=SCORES, boxes=BOXES, counts=COUNTS):
    return [boxes, scores, counts]


@pytest.mark.parametrize("form", ["bin", "npy", "txt"])
@pytest.mark.parametrize("runner, sample", [("ais_bench", "pure_infer_data"), ("msame", "img_0")])
def test_output_files_of_each_runner_and_form_are_found_by_name(net, runner, sample, form):
    write_outputs(str(net / "runs"), outputs(), runner, form, sample)
    done, document = compared(net, "-f", "net.json")
    assert done.returncode == 0, done.stderr + done.stdout
    rows = {row["tensor"]: row for row in document["rows"]}
    assert [(name, row["golden_file"][:8]) for name, row in rows.items()] == [
        ("count:output:0", "orig_cou"), ("det:output:0", "orig_det"),
        ("trans_Cast_9:output:0", "orig_fc.")
    ]  # fmt: skip
    assert rows["trans_Cast_9:output:0"]["metrics"]["Top1Agreement"] == 1
    assert "output 1 of the network" in rows["trans_Cast_9:output:0"]["reason"]
    assert rows["trans_Cast_9:output:0"]["reason_codes"] == "network_output=1"
    assert document["comparison"] == "outputs"
    assert (
        "The network is right as far as its outputs tell: all 3 that were compared are within "
        "limits." in done.stdout
    )


@pytest.mark.parametrize("file, other", [("other.onnx", True), ("net.onnx", False)])
def test_all_outputs_wrong_beside_golden_data_of_another_file_are_told_so(net, file, other):
    with open(str(net / "net.json"), encoding="utf-8") as stream:
        model = json.load(stream)
    command = {"key": "atc_cmdline", "value": {"s": "atc --model=net.onnx --output=net"}}
    model.setdefault("attr", []).append(command)
    (net / "net.json").write_text(json.dumps(model))
    manifest = {"original": {"model": {"path": "/models/" + file}}, "tensors": []}
    (net / "golden" / "manifest.json").write_text(json.dumps(manifest))
    rolled = [np.roll(values, 1) + 3 for values in outputs()]
    write_outputs(str(net / "runs"), rolled, "ais_bench", "npy", "img")
    done, _ = compared(net, "-f", "net.json")
    said = (
        "Golden data were made of other, and the om of net was compiled from net: if these are two"
    )
    assert done.returncode == 1 and "The network is wrong: 3 of 3" in done.stdout
    assert (said in " ".join(done.stdout.split())) == other, done.stdout
    said = " ".join(done.stdout.split())
    assert "Which operator is wrong, or whether the device got another input than" in said


def detector(anchors, classes, pixels, seed=0):
    """Boxes and scores, [anchors, 4 + classes]: of most classes nothing is there."""
    random = np.random.RandomState(seed)
    boxes = random.uniform(0, pixels, (anchors, 4))
    logits = random.normal(-6, 3, (anchors, classes)) - random.uniform(0, 6, classes)
    logits[random.randint(0, anchors, 5), random.randint(0, classes, 5)] = 1.5
    return boxes, logits


def joined(boxes, logits, turned):
    both = np.concatenate([boxes, 1 / (1 + np.exp(-logits))], 1)[None].astype(np.float32)
    return np.ascontiguousarray(both.transpose(0, 2, 1) if turned else both)


def compared_detector(folder, device, golden):
    os.makedirs(str(folder / "golden"))
    np.save(str(folder / "golden" / "det.0.1700000000000000.npy"), golden)
    np.save(str(folder / "det_0.npy"), device)
    return run_here(
        ["goldwatch", "compare", ".", "golden", "--outputs", "det=det_0.npy", "-o", "out"], folder
    )


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("anchors, classes", [(400, 20), (60, 3), (2100, 1)])
@pytest.mark.parametrize("pixels", [1, 20, 640, 4096])
def test_pixels_hide_no_scores(tmp_path, turned, anchors, classes, pixels):
    boxes, logits = detector(anchors, classes, pixels)
    golden, random = joined(boxes, logits, turned), np.random.RandomState(9)
    # As a device in float16: rounded, and logits off by some steps.
    healthy = joined(
        boxes * (1 + 2e-4 * random.standard_normal(boxes.shape)),
        logits + 0.005 * random.standard_normal(logits.shape),
        turned,
    ).astype(np.float16)
    for kind in (np.float16, np.float32):
        done = compared_detector(tmp_path / np.dtype(kind).name, healthy.astype(kind), golden)
        assert done.returncode == 0, done.stdout
    scores = healthy.astype(np.float32)
    part = scores[:, 4:] if turned else scores[..., 4:]
    part *= 0.06
    done = compared_detector(tmp_path / "wrong", scores, golden)
    assert done.returncode == 1 and "The network is wrong: its output is outside" in done.stdout
    assert pixels == 1 or "times smaller than the largest" in done.stdout


@pytest.mark.parametrize("kind", ["nan", "zeros", "whole", "one class", "map"])
def test_other_outputs_are_not_accused_for_small_slices(tmp_path, kind):
    random = np.random.RandomState(2)
    boxes, logits = detector(300, 8, 500)
    golden = joined(boxes, logits, True)
    device = golden.astype(np.float16)
    if kind == "nan":
        golden[0, 5, :7] = np.nan
        device[0, 5, :7] = np.nan
    elif kind == "zeros":
        golden[0, 4:6] = 0
        device[0, 4:6] = 6e-8
    elif kind == "whole":
        golden = golden.astype(np.int32)
        device = golden.copy()
    elif kind == "one class":
        golden = 1 / (1 + np.exp(8 - random.standard_normal((1, 500, 1))))
        device = golden * (1 + 0.02 * random.standard_normal(golden.shape))
    else:
        # Rows in which nothing is hold rounding alone.
        golden = np.full((1, 1, 40, 60), 1e-7) * random.uniform(0, 1, (1, 1, 40, 60))
        golden[..., 10:20, :] = random.uniform(0, 1, (10, 60))
        device = np.where(golden < 1e-6, 2.4e-7, golden)
    done = compared_detector(tmp_path, device.astype(device.dtype.newbyteorder("=")), golden)
    assert done.returncode == 0, done.stdout


def test_a_wrong_output_blames_the_network_and_no_op(net):
    write_outputs(str(net / "runs"), outputs(scores=SCORES[:, ::-1]))
    done, document = compared(net, "-f", "net.json")
    assert done.returncode == 1
    assert (
        "The network is wrong: 1 of 3 outputs is outside limits; trans_Cast_9:output:0 has "
        "CosineSimilarity" in done.stdout
    )
    assert document["summary"]["suspects"] == []
    assert "next: goldwatch report" in done.stdout
    row = next(row for row in document["rows"] if row["verdict"] == "fail")
    best = [np.argsort(-side, axis=1)[:, :5] for side in (SCORES[:, ::-1], SCORES)]
    assert row["metrics"]["Top1Agreement"] == (best[0][:, 0] == best[1][:, 0]).mean()


def test_limits_of_class_agreement_and_boxes_are_applied(net):
    other = SCORES.copy()
    other[0, [other[0].argmax(), other[0].argsort()[-2]]] = other[
        0, [other[0].argsort()[-2], other[0].argmax()]
    ]
    moved = BOXES.copy()
    moved[0, 0, :4] += 40
    write_outputs(str(net / "runs"), outputs(other, moved))
    loose = [
        word
        for name in ("CosineSimilarity>0", "RelativeEuclideanDistance<9", "WorstSliceDistance<9")
        for word in ("--limit", name)
    ]
    done, document = compared(net, "-f", "net.json", *loose, "--boxes", "0")
    assert done.returncode == 0, done.stdout
    limits = ["--limit", "Top1Agreement=0.9", "--limit", "MatchedBoxes=0.75"]
    done, document = compared(
        net, "-f", "net.json", *loose, "--boxes", "det=x1,y1,x2,y2,score,class", *limits
    )
    found = {row["tensor"]: (row["verdict"], row["decided_by"]) for row in document["rows"]}
    assert found["trans_Cast_9:output:0"] == ("fail", "Top1Agreement>=0.9")
    assert found["det:output:0"] == ("fail", "MatchedBoxes>=0.75")
    assert found["count:output:0"][0] == "pass"
    assert (
        next(row for row in document["rows"] if row["op"] == "det")["metrics"]["MatchedBoxes"]
        == 0.5
    )


@pytest.mark.parametrize("moved", [False, True])
def test_boxes_in_another_order_are_said_to_be_no_wrong_network(net, moved):
    other = BOXES[:, ::-1].copy()
    other[0, 2, :4] += 40 * moved
    write_outputs(str(net / "runs"), outputs(SCORES, other))
    done, _ = compared(net, "-f", "net.json", "--boxes", "det=x1,y1,x2,y2,score,class")
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert ("The network is wrong: " in said) == moved
    told = "Outside limits are only outputs whose boxes all match golden data's by class and place"
    assert (told in said) != moved
    again = run_here(["goldwatch", "report", "out", "--html", "page.html"], net)
    assert again.returncode == 0
    assert ("what differs is their order, or their scores." in (net / "page.html").read_text()) != (
        moved
    )


def test_without_a_model_outputs_must_be_named(net):
    write_outputs(str(net / "runs"), outputs(SCORES.astype(np.float16)))
    done, _ = compared(net)
    assert (
        done.returncode == 4
        and "which output of the network each file is, is not known" in done.stderr
        and "pure_infer_data_0.bin fits " in " ".join(done.stderr.split())
    )
    place = "runs/2026_01_02-03_04_05/pure_infer_data_%d.bin"
    done, document = compared(net, "--outputs", "orig/fc=" + place % 1)
    assert done.returncode == 0, done.stderr
    assert "taken as float16 by its size" in document["rows"][0]["reason"]
    done, document = compared(
        net,
        "--outputs",
        "orig_fc:0=%s:float16:4,20" % (place % 1),
        "--outputs",
        "nothing=" + place % 0,
    )
    assert done.returncode == 3
    assert [row["verdict"] for row in document["rows"]] == ["pass", "not_compared"]
    reason = document["rows"][1]["reason"]
    assert reason.startswith("no golden data of nothing:0; pure_infer_data_0.bin fits ")
    done, document = compared(net, "--outputs", "orig/fc=%s:float32:4,20" % (place % 1))
    assert (
        done.returncode == 3
        and "has 160 bytes: expected 320, float32 [4, 20]" in document["rows"][0]["reason"]
    )


def test_outputs_are_named_by_number_or_op_of_the_model(net):
    (path, *_) = write_outputs(str(net / "runs"), [SCORES])
    for name in ("1", "trans_Cast_9", "trans_Cast_9:0"):
        done, document = compared(net, "-f", "net.json", "--outputs", "%s=%s" % (name, path))
        assert done.returncode == 3, done.stderr
        assert {row["tensor"]: row["verdict"] for row in document["rows"]} == {
            "trans_Cast_9:output:0": "pass", "det:output:0": "not_compared",
            "count:output:0": "not_compared"
        }  # fmt: skip
    assert (
        compared(net, "-f", "net.json", "--outputs", "1=%s" % path, "--allow-missing")[0].returncode
        == 0
    )
    done, _ = compared(net, "-f", "net.json", "--outputs", "7=%s" % path)
    assert done.returncode == 4 and "7 is none of the model's outputs" in done.stderr
    # Their original names, and which golden output the file fits.
    listed = done.stderr.partition("they are ")[2]
    assert "0=det:0 (orig/det)" in listed and "fits orig_fc" in listed, done.stderr


def test_an_output_beside_a_folder_of_golden_data_is_told_both_commands(net):
    (path, *_) = write_outputs(str(net / "runs"), [SCORES])
    np.save(str(net / "out.npy"), SCORES)
    done = run_here(["goldwatch", "compare", "out.npy", "golden", "-o", "x"], net)
    assert done.returncode == 4 and "two folders or two files" in done.stderr
    assert "goldwatch compare . golden --outputs NAME=out.npy" in done.stderr
    done = run_here(["goldwatch", "compare", "golden", "out.npy", "-o", "x"], net)
    assert "name one file of the folder golden as well" in done.stderr


def test_the_newest_run_folder_is_taken_and_several_samples_are_refused(net):
    write_outputs(str(net / "runs"), outputs(scores=-SCORES))
    shutil.move(
        str(net / "runs" / "2026_01_02-03_04_05"), str(net / "runs" / "2025_01_02-03_04_05")
    )
    write_outputs(str(net / "runs"), outputs())
    done, _ = compared(net, "-f", "net.json")
    assert (
        done.returncode == 0
        and "took 2026_01_02-03_04_05, the last of 2 folders with outputs" in done.stderr
    )
    write_outputs(str(net / "runs"), outputs(), sample="other")
    done, _ = compared(net, "-f", "net.json")
    assert (
        done.returncode == 4
        and "holds the outputs of 2 inputs: other, pure_infer_data" in done.stderr
    )


def test_missing_outputs_and_files_are_reported(net):
    (path, *_) = write_outputs(str(net / "runs"), outputs())
    done, _ = compared(net, "-f", "net.json", "--boxes", "dte", "--limit", "MatchedBoxes=1")
    assert (
        done.returncode == 2
        and "boxes are to be in 'dte', which is none of the outputs" in done.stderr
    )
    done, _ = compared(net, "-f", "net.json", "--outputs", "det=%s:fp16:1,3,6" % path)
    assert (
        done.returncode == 4
        and ":fp16:1,3,6: no such file" in done.stderr
        and "such as float16" in done.stderr
    )


def test_damaged_output_files_give_rows_that_say_so(net):
    paths = write_outputs(str(net / "runs"), outputs(), form="txt")
    with open(paths[1], "w", encoding="ascii") as stream:
        stream.write("1.0 two 3.0")
    os.remove(paths[2])
    done, document = compared(net, "-f", "net.json")
    assert done.returncode == 3
    reasons = {row["op"]: row["reason"] for row in document["rows"]}
    assert (
        "not a text of numbers" in reasons["trans_Cast_9"]
        and "no file of it (output 2 of the network)" in reasons["count"]
    )


def test_a_dump_tree_beside_output_files_is_compared_as_dumps(net):
    write_outputs(str(net / "runs"), outputs())
    DeviceModel(
        "net", [DeviceOp("orig_fc", "MatMul", (), (DeviceTensor(SCORES, "ND", "ND", "x"),))]
    ).write_tree(str(net / "runs"))
    done, document = compared(net)
    assert "comparison" not in document and document["rows"][0]["step"] == "0"
    assert compared(net, "--boxes", "0")[0].returncode == 2


def test_python_compares_output_files(net):
    write_outputs(str(net / "runs"), outputs())
    where = {
        "model": str(net / "net.json"),
        "outputs": (),
        "boxes": ["0"],
        "limits": {"Top5Agreement": {">=": 0.9}},
    }
    found = compare(str(net / "runs"), str(net / "golden"), **where)
    assert (found.exit_code, found.summary.passed) == (0, 3)


@pytest.mark.parametrize(
    "text, found",
    [
        ("fc=a.bin", ("fc", "a.bin", None, None)),
        ("a:1=dir/x:y.bin", ("a:1", "dir/x:y.bin", None, None)),
        ("0=a.bin:float16", ("0", "a.bin", "float16", None)),
        ("0=a.bin:FLOAT16:1,3x4", ("0", "a.bin", "float16", (1, 3, 4))),
        ("0=a.bin:int8:", ("0", "a.bin", "int8", ())),
        ("0=a.bin:DT_BF16:2", ("0", "a.bin", "bfloat16", (2,))),
    ],
)
def test_the_output_option_is_parsed(text, found):
    output = parse_output(text)
    assert (
        output.name,
        output.file,
        output.dtype.name if output.dtype else None,
        output.shape,
    ) == found


def test_an_output_option_without_name_or_file_is_refused():
    for text in ("fc", "=a.bin", "fc="):
        with pytest.raises(UsageError, match="expected which output it is, and its file"):
            parse_output(text)


def test_a_float32_output_rounded_in_float16_is_judged_by_float16_steps(net):
    small = (np.abs(SCORES) * 1e-7).astype(np.float32)
    np.save(str(net / "golden" / "orig_fc.0.1700000000000000.npy"), small)
    # The model hands fc out as float32, by a Cast of its float16.
    write_outputs(str(net / "runs"), outputs(scores=small.astype(np.float16).astype(np.float32)))
    done, document = compared(net, "-f", "net.json")
    (row,) = [row for row in document["rows"] if "fc" in row["golden_file"]]
    assert row["verdict"] == "pass", row["reason"]
    assert "float16 rounds to steps of 5.96e-08 there, which explains it" in row["reason"]


@pytest.mark.parametrize("exchanged", [True, False])
def test_outputs_that_hold_each_others_values_are_told(net, exchanged):
    others = np.random.RandomState(5).standard_normal(SCORES.shape).astype(np.float32)
    np.save(str(net / "golden" / "orig_det.0.1700000000000000.npy"), others)
    (net / "runs").mkdir()
    np.save(str(net / "runs" / "a.npy"), SCORES if exchanged else others * 2)
    np.save(str(net / "runs" / "b.npy"), others if exchanged else SCORES * 2)
    named = ("--outputs", "orig_det=runs/a.npy", "--outputs", "orig_fc=runs/b.npy")
    done, document = compared(net, *named)
    assert done.returncode == 1, done.stderr
    codes = [warning["code"] for warning in document["summary"]["warnings"]]
    assert codes == ["outputs-exchanged"] * exchanged
    assert ("Which operator is wrong, or whether" in done.stdout) != exchanged
    assert ("orig_det:output:0 holds those of orig_fc:output:0" in done.stderr) == exchanged
