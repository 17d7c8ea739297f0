"""Overflow records beside the dumps mark the rows of the ops that they name."""

from __future__ import annotations

import csv
import glob
import json
import os
import shutil
import struct

import pytest

from goldwatch.base.naming import parse_dump_name
from goldwatch.testing.device_dump import Place, overflow_record, write_files
from goldwatch.tools.inspect.inspect_tree import inspect_tree


def new_form(stream_id, task_id):
    return struct.pack("<6I", 0x5A5A5A5A, 1, 1, 0, 0, 88) + struct.pack(
        "<11Q", 7, stream_id, task_id, 0, 0, 0, 0, 0, 0, 0, 5
    )


def old_form(stream_id, task_id):
    data = bytearray(2048)
    struct.pack_into("<6Q", data, 256, 7, stream_id, task_id, 0, 0, 0)
    struct.pack_into("<3Q", data, 1024, 1, 0, 5)
    return bytes(data)


def dump_with_record(network, data, op="op_1_fused", device=0):
    network.dump()
    (path,) = glob.glob(os.path.join(network.target, "**", "*.%s.*" % op), recursive=True)
    name = parse_dump_name(os.path.basename(path))
    place = Place("20260102030405", device, "net", 1, 0)
    write_files(
        network.target,
        [overflow_record(place, 99, name.timestamp_us, 0, data(name.stream_id, name.task_id))],
    )


def overflows(network):
    return {tensor: row["overflow"] for tensor, row in network.rows().items()}


@pytest.mark.parametrize("form", [new_form, old_form])
def test_the_op_that_an_overflow_record_names_is_marked(network, form):
    dump_with_record(network, form)
    done = network.compare()
    assert done.returncode == 0, done.stdout + done.stderr
    found = overflows(network)
    assert [tensor for tensor, value in found.items() if value] == ["op/1_fused:output:0"]
    assert "overflow records name op_1_fused" in done.stderr
    (table,) = glob.glob(os.path.join(network.out, "result_*.csv"))
    with open(table, newline="") as stream:
        cells = {row["TensorIndex"]: row["OverFlow"] for row in csv.DictReader(stream)}
    assert cells["op/1_fused:output:0"] == "YES" and cells["op/0_fused:output:0"] == "NaN"


def test_overflow_records_and_the_scan_are_combined(network):
    dump_with_record(network, new_form)
    assert network.compare("--overflow").returncode == 0
    found = overflows(network)
    assert found["op/1_fused:output:0"] is True and found["op/0_fused:output:0"] is False


def test_a_record_marks_ops_of_its_step_and_model_only(network):
    dump_with_record(network, new_form)
    (record,) = glob.glob(os.path.join(network.target, "**", "Opdebug*"), recursive=True)
    folder = os.path.dirname(record)
    for other in (os.path.join(os.path.dirname(folder), "1"), folder.replace("/net/", "/other/")):
        shutil.copytree(folder, other)
        for path in glob.glob(os.path.join(other, "Opdebug*")):
            os.remove(path)
    assert network.compare().returncode == 0
    with open(os.path.join(network.out, "result.json")) as stream:
        rows = json.load(stream)["rows"]
    found = [(row["model"], row["step"], row["tensor"]) for row in rows if row["overflow"]]
    assert found == [("net", "0", "op/1_fused:output:0")]
    tree = inspect_tree(network.target)
    assert tree["overflow"][0]["ops"] == ["op_1_fused"]


def test_a_record_of_another_device_or_task_marks_nothing(network):
    dump_with_record(network, lambda stream_id, task_id: new_form(stream_id, task_id + 1000))
    done = network.compare()
    assert done.returncode == 0
    assert not any(overflows(network).values()) and "overflow records name" not in done.stderr
    (table,) = glob.glob(os.path.join(network.out, "result_*.csv"))
    with open(table) as stream:
        assert "OverFlow" not in stream.readline()


def test_a_broken_record_is_reported_and_changes_no_row(network):
    dump_with_record(network, new_form)
    (path,) = glob.glob(os.path.join(network.target, "**", "Opdebug*"), recursive=True)
    os.truncate(path, 20)
    done = network.compare()
    assert done.returncode == 0
    assert os.path.basename(path) in done.stderr and "ends inside the header" in done.stderr


def test_overflow_marks_survive_a_second_run(network):
    dump_with_record(network, new_form)
    network.compare()
    first = overflows(network)
    network.compare()
    assert overflows(network) == first
