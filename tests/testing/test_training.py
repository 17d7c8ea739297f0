"""A training run on the stand-in: GE's text graph, steps, several devices, over-long names and
overflow records, compared end to end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from in_process import run_here

from goldwatch.base.naming import compose_golden_name
from goldwatch.testing import (
    DeviceModel,
    DeviceOp,
    DeviceTensor,
    DumpServer,
    Place,
    dump_name,
    overflow_record,
    statistics,
)

PROGRAM = (sys.executable, "-m", "goldwatch.testing")
GRAPH = "ge_default_20200808163719_121"
LONG = "gradients/" + "tower/" * 45 + "MatMul"
TIMESTAMP = 1767323045000000


@pytest.fixture
def training(tmp_path):
    """Return the folder of a run of two devices and two steps: iterator -> scale -> an op whose
    name is too long for a file.
    """
    random = np.random.RandomState(3)
    batch = random.standard_normal((4, 20)).astype(np.float32)
    scaled, product = (batch * 2).astype(np.float32), (batch * 2 + 1).astype(np.float32)
    model = DeviceModel(GRAPH)
    model.add(
        DeviceOp(
            "IteratorGetNext",
            "GetNext",
            (),
            (DeviceTensor(batch, "ND", "ND", "IteratorGetNext"),),
            ("IteratorGetNext",),
        )
    )
    model.add(
        DeviceOp("lr", "Variable", (), (DeviceTensor(np.ones(1, np.float32), "ND", "ND", "lr"),))
    )
    half = DeviceTensor(scaled.astype(np.float16), "FRACTAL_NZ", "ND", "scale")
    model.add(DeviceOp("scale", "Mul", (("IteratorGetNext", 0), ("lr", 0)), (half,), ("scale",)))
    model.add(DeviceOp("stream", "StreamActive"))
    last = DeviceTensor(product.astype(np.float16), "ND", "ND", LONG)
    model.add(DeviceOp(LONG, "MatMul", (("scale", 0),), (last,), (LONG,)))
    model.add(DeviceOp("Node_Output", "NetOutput", ((LONG, 0),), (), ()))
    model.write_ge_text(str(tmp_path / "ge_proto_00000003_Build.txt"))
    (tmp_path / "golden").mkdir()
    for name, values in (("IteratorGetNext", batch), ("scale", scaled), (LONG, product)):
        name = compose_golden_name(name, 0, TIMESTAMP)
        if len(name) > 255:
            with open(str(tmp_path / "golden" / "mapping.csv"), "w") as stream:
                stream.write("123.npy,%s\n" % name)
            name = "123.npy"
        np.save(str(tmp_path / "golden" / name), values)
    devices = []
    for device in (0, 1):
        dumps = [
            dump for step in (10, 20) for dump in model.dumps(device=device, model_id=11, step=step)
        ]
        place = Place(device=device, model=GRAPH, model_id=11, step=10)
        dumps.append(overflow_record(place, 99, TIMESTAMP + 5))
        dumps.append(
            statistics(place.folder(), dump_name("Mul", "scale", 3, TIMESTAMP, stats=True), [])
        )
        devices.append(dumps)
    report = DumpServer(str(tmp_path / "dump"), *devices, chunk_bytes=200, late_mapping=True).run()
    assert report.files == 16
    return tmp_path


def test_every_step_of_every_device_of_a_training_is_compared(training) -> None:
    command = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare",
        "dump",
        "golden",
        "-f",
        "ge_proto_00000003_Build.txt",
        "-o",
        "out",
    ]
    done = subprocess.run(
        command,
        cwd=str(training),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(str(training / "out" / "result.json")) as stream:
        rows = json.load(stream)["rows"]
    places = {(row["device"], row["model"], row["model_id"], row["step"]) for row in rows}
    assert places == {(device, GRAPH, "11", step) for device in "01" for step in ("10", "20")}
    long_rows = [row for row in rows if row["op"] == LONG and row["kind"] == "output"]
    assert len(long_rows) == 4 and all(row["verdict"] == "pass" for row in long_rows)
    assert all(os.path.basename(row["target_file"]).isdigit() for row in long_rows)


def test_an_op_that_overflows_has_a_record_beside_its_dump(training) -> None:
    folder = training / "dump" / Place(device=1, model=GRAPH, model_id=11, step=10).folder()
    names = sorted(os.listdir(str(folder)))
    assert (
        "Opdebug.Node_OpDebug.99.0.1767323045000005" in names
        and "Mul.scale.3.0.1767323045000000.csv" in names
    )
    assert sum(name.isdigit() for name in names) == 1 and "mapping.csv" in names


def _verdicts(folder):
    done = run_here(
        ["goldwatch", "compare", "t/dump", "t/golden", "-f", "t/graphs", "-o", "out"], folder
    )
    with open(str(folder / "out" / "result.json"), encoding="utf-8") as stream:
        rows = json.load(stream)["rows"]
    return done.returncode, rows


def test_a_training_with_a_fault_in_one_step_only_passes_before_and_after_it(tmp_path) -> None:
    words = ["t", "--wrong", "part0/MatMul", "--on-device", "1", "--in-step", "2"]
    assert run_here([*PROGRAM, "train", *words], tmp_path).returncode == 0
    code, rows = _verdicts(tmp_path)
    failing = {(row["device"], row["step"]) for row in rows if row["verdict"] == "fail"}
    assert code == 1 and failing == {("1", "2")}
    assert {row["step"] for row in rows} == {"1", "2", "10"}


def test_a_training_of_outputs_has_no_inputs_in_its_dumps(tmp_path) -> None:
    assert run_here([*PROGRAM, "train", "t", "--mode", "output"], tmp_path).returncode == 0
    _, rows = _verdicts(tmp_path)
    assert {row["kind"] for row in rows if row["verdict"] == "pass"} == {"output"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--in-step", "2"], "--in-step needs --wrong"),
        (["--wrong", "part0/MatMul", "--in-step", "3"], "--in-step 3: --steps has 1,2,10"),
        (["--wrong", "part0/MatMul", "--in-step", "2", "--from-step", "1"], "do not go together"),
        (["--wrong", "part0/MatMul", "--from-step", "99"], "the last of --steps is 10"),
        (["--wrong", "part0/MatMul", "--on-device", "2"], "there are devices 0 to 1"),
    ],
)
def test_a_fault_that_can_never_come_is_refused(tmp_path, words, message) -> None:
    done = run_here([*PROGRAM, "train", "t", *words], tmp_path)
    assert done.returncode == 2 and message in done.stderr and not (tmp_path / "t").exists()
