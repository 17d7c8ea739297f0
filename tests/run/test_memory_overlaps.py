"""Two outputs in the same memory are a fault only while both are needed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch.schemas import load_text
from goldwatch.testing.device_dump import write_files
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

SIZE = 2 * 64


@pytest.fixture
def run(tmp_path):
    """a -> b -> c, and d takes a and c; the outputs lie where ``addresses`` says."""
    values = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float16)
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(values, "ND", "ND", "data"),)))

    def go(addresses, *options, kinds=None, model_given=True, command="compare"):
        sources = {"a": ["data"], "b": ["a"], "c": ["b"], "d": ["a", "c"]}
        for name, inputs in sources.items():
            kind = (kinds or {}).get(name, "Relu")
            inputs = tuple((source, 0) for source in inputs)
            model.add(
                DeviceOp(name, kind, inputs, (DeviceTensor(values, "ND", "ND", name),), (name,))
            )
        model.add(DeviceOp("out", "NetOutput", (("d", 0),), (), ()))
        dumps = []
        for dump in model.dumps():
            name = dump.op_name
            if addresses.get(name) is not None:
                dump = replace(
                    dump,
                    outputs=[replace(output, address=addresses[name]) for output in dump.outputs],
                )
            dumps.append(dump)
        write_files(str(tmp_path / "dump"), dumps)
        os.makedirs(str(tmp_path / "golden"), exist_ok=True)
        for name in ("data", *sources):
            np.save(
                str(tmp_path / "golden" / ("%s.0.1600000000000000.npy" % name)),
                values.astype(np.float32),
            )
        words = [
            sys.executable,
            "-m",
            "goldwatch",
            command,
            str(tmp_path / "dump"),
            str(tmp_path / "golden"),
        ]
        words += ["-o", str(tmp_path / "out")]
        words += ["-f", model.write_json(str(tmp_path / "net.json"))] if model_given else []
        done = run_here([*words, *options])
        done.words = [*words, *options]
        if done.returncode in (0, 1, 3):
            with open(str(tmp_path / "out" / "result.json")) as stream:
                document = json.load(stream)
            jsonschema.validate(document, json.loads(load_text("result.schema.json")))
            done.summary = document["summary"]
        return done

    return go


APART = {"a": 4096, "b": 8192, "c": 12288, "d": 16384}


def test_outputs_in_separate_memory_are_no_overlap(run):
    done = run(APART, "--check-addresses")
    assert (done.returncode, done.summary["address_overlaps"]) == (0, [])


def test_an_output_over_a_value_that_a_later_op_reads_is_an_overlap(run):
    assert (
        run({**APART, "b": 4096, "c": 4096, "d": 12288}, "--check-addresses").summary[
            "address_overlaps"
        ]
        != []
    )  # d needs a


def test_an_output_partly_over_its_input_is_an_overlap(run):
    done = run({**APART, "c": 8192 + 64}, "--check-addresses")
    (entry,) = done.summary["address_overlaps"]
    assert (entry["earlier"], entry["later"], entry["bytes"], entry["until"]) == (
        "b:output:0",
        "c:output:0",
        SIZE - 64,
        "c",
    )


def test_an_output_partly_over_a_value_that_a_later_op_reads_is_an_overlap(run):
    done = run({**APART, "c": 4096 + 32}, "--check-addresses")
    assert done.returncode == 0, done.stderr
    (entry,) = done.summary["address_overlaps"]
    found = (entry["earlier"], entry["later"], entry["address"], entry["bytes"], entry["until"])
    assert found == ("a:output:0", "c:output:0", 4096 + 32, SIZE - 32, "d")
    assert entry["place"]["device"] == "0"
    assert "c:output:0 lies in memory where a:output:0 lies" in " ".join(done.stdout.split())


def test_overlaps_are_found_after_the_dumps_were_deleted(run):
    done = run(
        {**APART, "c": 4096 + 32},
        "--check-addresses",
        "--keep",
        "none",
        "--until-idle",
        "0.2",
        command="watch",
    )
    assert done.returncode == 0, done.stderr
    assert [entry["later"] for entry in done.summary["address_overlaps"]] == ["c:output:0"]
    again = run_here(done.words)
    assert again.returncode == 0 and "4 dumps have been deleted before this start" in again.stdout


@pytest.mark.parametrize("kind", ["Data", "Const", "Variable"])
def test_values_without_a_dump_are_located_by_their_readers(tmp_path, kind):
    """The model's input is overwritten while another op still needs it; a variable may be."""
    values = np.ones((4, 8), np.float16)
    model = DeviceModel("net")
    model.add(DeviceOp("x", kind, (), (DeviceTensor(values, "ND", "ND", "x"),)))
    for name, inputs in (("a", ["x"]), ("b", ["a"]), ("c", ["b", "x"])):
        tensor = DeviceTensor(values, "ND", "ND", name)
        model.add(
            DeviceOp(name, "Add", tuple((source, 0) for source in inputs), (tensor,), (name,))
        )
    lie = {"x": 4096, "a": 8192, "b": 4096 + 16, "c": 8192}
    dumps = []
    for dump in model.dumps():
        sources = {"a": ["x"], "b": ["a"], "c": ["b", "x"]}[dump.op_name]
        inputs = [replace(each, address=lie[source]) for each, source in zip(dump.inputs, sources)]
        dumps.append(
            replace(
                dump, inputs=inputs, outputs=[replace(dump.outputs[0], address=lie[dump.op_name])]
            )
        )
    write_files(str(tmp_path / "dump"), dumps)
    (tmp_path / "golden").mkdir()
    np.save(str(tmp_path / "golden" / "a.0.1600000000000000.npy"), values)
    words = [
        "compare",
        str(tmp_path / "dump"),
        str(tmp_path / "golden"),
        "-f",
        model.write_json(str(tmp_path / "net.json")),
    ]
    done = run_here(
        [
            sys.executable,
            "-m",
            "goldwatch",
            *words,
            "-o",
            str(tmp_path / "out"),
            "--check-addresses",
            "--format",
            "json",
        ]
    )
    found = [(entry["earlier"], entry["later"], entry["until"], entry["bytes"]) for entry in
             json.loads(done.stdout)["summary"]["address_overlaps"]]  # fmt: skip
    assert found == ([] if kind == "Variable" else [("x:output:0", "b:output:0", "c", 48)])


def test_memory_that_is_free_again_is_no_overlap(run):
    done = run({**APART, "d": 8192}, "--check-addresses")
    assert done.summary["address_overlaps"] == []


def test_an_in_place_op_is_no_overlap(run):
    done = run({**APART, "c": 8192}, "--check-addresses")
    assert done.summary["address_overlaps"] == []


def test_a_value_read_through_a_reshape_is_still_needed(run):
    done = run({**APART, "b": 4096, "c": 4096}, "--check-addresses", kinds={"b": "Reshape"})
    assert [entry["later"] for entry in done.summary["address_overlaps"]] == ["c:output:0"]


def test_overlaps_are_not_checked_without_the_option(run):
    done = run({**APART, "c": 4096})
    assert "address_overlaps" not in done.summary and "memory fault" not in done.stdout


def test_check_addresses_without_a_model_is_refused(run):
    done = run(APART, "--check-addresses", model_given=False)
    assert done.returncode == 2 and "--check-addresses" in done.stderr and "-f" in done.stderr
