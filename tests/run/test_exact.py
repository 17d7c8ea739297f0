"""Two runs compared bit for bit, as by a user: every form of folder, the named operator,
trainings.
"""

from __future__ import annotations

import csv
import glob
import json
import os

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch import compare, open_result
from goldwatch.base.errors import UsageError
from goldwatch.schemas import load_schema
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor, write_files

VALUES = np.linspace(-2, 2, 2 * 20 * 3 * 4).reshape(2, 20, 3, 4).astype(np.float16)


def chain(ops=3):
    """data -> a -> b -> c, in the device's layouts."""
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(VALUES, "NCHW", "NCHW", "data"),)))
    source = ("data", 0)
    for name in "abcdefgh"[:ops]:
        model.add(
            DeviceOp(
                name, "Relu", (source,), (DeviceTensor(VALUES, "NC1HWC0", "NCHW", name),), (name,)
            )
        )
        source = (name, 0)
    model.add(DeviceOp("out", "NetOutput", (source,)))
    return model


def changed(dumps, tensors):
    """The dumps with the lowest bit of element 5 changed in some tensors, named ``a:output:0``."""
    found = []
    for dump in dumps:
        for tensor in tensors:
            op, _, place = tensor.partition(":")
            dump = dump.flipped(place, {5: 1}) if dump.op_name == op else dump
        found.append(dump)
    return found


def two_runs(folder, tensors=("b:output:0", "c:input:0"), only="all", **form):
    model = chain()
    for run, names in (("run1", ()), ("run2", tensors)):
        time = "2026010203040%s" % run[-1]
        write_files(
            str(folder / run),
            [dump.only(only) for dump in changed(model.dumps(time=time, **form), names)],
        )
    model.write_json(str(folder / "net.json"))


def exactly(folder, *more, runs=("run2", "run1")):
    done = run_here(["goldwatch", "compare", *runs, "--exact", "-o", "out", *more], folder)
    document = {}
    if os.path.exists(str(folder / "out" / "result.json")):
        with open(str(folder / "out" / "result.json"), encoding="utf-8") as stream:
            document = json.load(stream)
        jsonschema.validate(document, load_schema("result"))
    return done, document


FORMS = [
    {},
    {"generation": "task"},
    {"generation": "ffts+"},
    {"version": 1},
    {"first_address": 4096},
]


@pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: "-".join(map(str, form.values())) or "plain"
)
def test_the_first_op_that_makes_other_bytes_of_equal_inputs_is_named(tmp_path, form):
    two_runs(tmp_path, **form)
    done, document = exactly(tmp_path)
    assert done.returncode == 1, done.stderr
    first = document["summary"]["first_divergence"]
    assert (first["op"], first["inputs"], document["comparison"]) == ("b", "good", "exact")
    assert (
        "b (Relu) is the first operator in step 0 on device 0 whose inputs are equal and "
        "whose output is not; b:output:0" in done.stdout
    )
    assert "the first at [0, 5, 0, 0] (NC1HWC0 [0, 0, 0, 0, 5])" in done.stdout
    (row,) = (row for row in document["rows"] if (row["op"], row["kind"]) == ("b", "output"))
    assert row["metrics"] == {
        "DifferentElements": 1 / 768, "DifferentCount": 1.0, "FirstDifferent": 5.0,
        "LargestUlps": 1.0, "DifferentStretches": 1.0
    }  # fmt: skip
    (table,) = glob.glob(str(tmp_path / "out" / "result_*.csv"))
    with open(table, encoding="utf-8", newline="") as stream:
        (line,) = (line for line in csv.DictReader(stream) if line["TensorIndex"] == row["tensor"])
    assert (line["LargestUlps"], line["DifferentCount"], line["CompareFailReason"]) == (
        "1.000000",
        "1.000000",
        row["reason"],
    )


def test_equal_runs_pass_and_a_missing_file_makes_them_incomplete(tmp_path):
    two_runs(tmp_path, ())
    done, document = exactly(tmp_path)
    assert (done.returncode, document["summary"]["failed"]) == (0, 0)
    assert "No byte of what was compared differs." in done.stdout
    (lost,) = glob.glob(str(tmp_path / "run1" / "**" / "Relu.b.*"), recursive=True)
    os.remove(lost)
    done, document = exactly(tmp_path, "--force")
    assert (done.returncode, document["summary"]["verdict"]) == (3, "incomplete")


def test_with_a_model_inputs_that_were_not_dumped_are_known(tmp_path):
    two_runs(tmp_path, ("b:output:0", "c:output:0"), only="output")
    done, document = exactly(tmp_path, "-f", "net.json")
    assert document["summary"]["first_divergence"]["op"] == "b", done.stdout
    assert (
        "b (Relu) is the first operator in step 0 on device 0 whose inputs are equal" in done.stdout
    )
    done, document = exactly(tmp_path, "--force")
    assert document["summary"]["first_divergence"]["inputs"] == "unknown"
    assert (
        "b (Relu) is the first operator that differs in step 0 on device 0, of which not all "
        "inputs were compared" in done.stdout
    )


@pytest.mark.parametrize("form", [{"first_address": 4096}, {}], ids=["addresses", "none"])
def test_the_input_of_an_in_place_op_is_known_from_its_producer(tmp_path, form):
    model = chain(1)
    model.add(
        DeviceOp(
            "b",
            "Relu",
            (("a", 0),),
            (DeviceTensor(VALUES, "NC1HWC0", "NCHW", "b"),),
            ("b",),
            in_place=0,
        )
    )
    model.write_json(str(tmp_path / "net.json"))
    for run, names in (("run1", ()), ("run2", ("b:input:0", "b:output:0"))):
        write_files(str(tmp_path / run), changed(model.dumps(**form), names))
    done, document = exactly(tmp_path, "-f", "net.json")
    assert (
        document["summary"]["first_divergence"]["op"] == "b"
        and "whose inputs are equal" in done.stdout
    )
    assert ("as their producers wrote them" in done.stdout) == (not form)


def test_an_op_with_different_inputs_is_not_called_the_first(tmp_path):
    two_runs(tmp_path, ("a:input:0", "a:output:0", "c:output:0"))
    done, document = exactly(tmp_path)
    assert document["summary"]["first_divergence"]["op"] == "c"
    assert (
        "Before it 1 operator differs, of which not all inputs are equal or were compared: a."
        in done.stdout
    )
    two_runs(tmp_path / "other", ("a:input:0", "a:output:0"))
    done, _ = exactly(tmp_path / "other")
    assert "whose inputs differ already: the two runs were given other data" in done.stdout
    assert "or it writes over its input (the model's json can tell that)" in done.stdout


def test_the_first_differing_step_and_device_of_a_training_is_named(tmp_path):
    model = chain()
    for run in ("run1", "run2"):
        for device, step in ((0, 2), (1, 2), (0, 10), (1, 10)):
            names = ("b:output:0",) if run == "run2" and (step, device) in ((2, 1), (10, 0)) else ()
            write_files(str(tmp_path / run), changed(model.dumps(device=device, step=step), names))
    done, document = exactly(tmp_path)
    assert done.returncode == 1
    assert (
        "b (Relu) is the first operator in step 2 on device 1 whose inputs are equal" in done.stdout
    )
    assert document["summary"]["devices_agree"] is False


def test_tensors_of_other_types_or_layouts_are_not_compared_bit_for_bit(tmp_path):
    for run, kind in (("run1", np.float16), ("run2", np.float32)):
        model = DeviceModel("net")
        model.add(
            DeviceOp("a", "Relu", (), (DeviceTensor(VALUES.astype(kind), "NCHW", "NCHW", "a"),))
        )
        model.write_tree(str(tmp_path / run))
    done, document = exactly(tmp_path)
    assert done.returncode == 3
    assert (
        "not stored alike, so that bytes cannot be compared: float32 NCHW"
        in document["rows"][0]["reason"]
    )


def test_two_dump_files_and_two_npy_files_are_compared_bit_for_bit(tmp_path):
    two_runs(tmp_path)
    files = [
        glob.glob(str(tmp_path / run / "**" / "Relu.b.*"), recursive=True)[0]
        for run in ("run2", "run1")
    ]
    done, document = exactly(tmp_path, runs=files)
    assert (done.returncode, [row["verdict"] for row in document["rows"]]) == (1, ["pass", "fail"])
    for name, values in (("x.npy", VALUES), ("y.npy", np.nextafter(VALUES, np.float16(9)))):
        np.save(str(tmp_path / name), values)
    done, document = exactly(tmp_path, "--force", runs=("x.npy", "y.npy"))
    assert (done.returncode, document["rows"][0]["metrics"]["LargestUlps"]) == (1, 1.0)
    assert "all over the tensor" in document["rows"][0]["reason"]


def test_limits_and_metrics_are_refused_with_exact(tmp_path):
    two_runs(tmp_path)
    for option in ("--limit MaxAbsoluteError=0", "--limits vendor", "--metrics all"):
        assert exactly(tmp_path, *option.split())[0].returncode == 2
    with pytest.raises(UsageError, match="bytes are compared as they are stored"):
        compare(str(tmp_path / "run2"), str(tmp_path / "run1"), exact=True, max_elements=4096)


def test_python_compares_exactly_and_continues_an_interrupted_run(tmp_path):
    two_runs(tmp_path)
    runs = [str(tmp_path / run) for run in ("run2", "run1")]
    found = compare(*runs, out=str(tmp_path / "out"), exact=True)
    assert (found.exit_code, found.first_divergence.op) == (1, "b")
    again = compare(*runs, out=str(tmp_path / "out"), exact=True)
    opened = open_result(str(tmp_path / "out"))
    assert again.sentence == opened.sentence == found.sentence
    done = run_here(
        "goldwatch report out --html r.html --markdown r.md --json r.json".split(), tmp_path
    )
    assert json.loads((tmp_path / "r.json").read_text())["comparison"] == "exact"
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert done.returncode == 0 and "exact comparison of run2 (model net): fail" in page
    assert '<span class="name">b</span> makes other bytes of equal inputs' in page
