"""Documented tables, compared outputs and constants, and time folders, through the commands."""

from __future__ import annotations

import csv
import glob
import json
import os

import numpy as np
import pytest
from in_process import run_here

from goldwatch.run.dump_catalogue import Catalogue
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

TIMESTAMP = 1767323045000000
OLD, NEW = "20260102030405", "20260103030405"
COMMANDS = [("compare",), ("watch", "--until-idle", "1")]


class Split:
    """data, a Const with an origin name -> two ops of one original -> Relu."""

    def __init__(self, folder) -> None:
        self.folder = folder
        random = np.random.RandomState(0)
        data = random.standard_normal((1, 16, 4, 4)).astype(np.float32)
        gamma = random.standard_normal(16).astype(np.float32)
        self.golden = {
            "data": data,
            "scale_gamma": gamma,
            "soft": data * 2,
            "last": np.maximum(data * 2, 0),
        }
        model = self.model = DeviceModel("net")
        model.add(DeviceOp("data", "Data", (), (DeviceTensor(data, "NCHW", "NCHW", "data"),)))
        model.add(
            DeviceOp(
                "const_3",
                "Const",
                (),
                (DeviceTensor(gamma.astype(np.float16), "ND", "ND", "scale/gamma"),),
            )
        )
        inner, soft = half(data * 3), half(data * 2, "soft")
        model.add(
            DeviceOp("soft_a", "ReduceMax", (("data", 0), ("const_3", 0)), (inner,), ("soft",))
        )
        model.add(DeviceOp("soft_b", "SoftmaxV2", (("soft_a", 0),), (soft,), ("soft",)))
        model.add(
            DeviceOp(
                "last", "Relu", (("soft_b", 0),), (half(self.golden["last"], "last"),), ("last",)
            )
        )
        model.add(DeviceOp("Node_Output", "NetOutput", (("last", 0),), (), ()))
        model.write_json(str(folder / "net.json"))
        (folder / "golden").mkdir()
        for name, values in self.golden.items():
            self.write(name, values)

    def write(self, name, values) -> None:
        np.save(str(self.folder / "golden" / ("%s.0.%d.npy" % (name, TIMESTAMP))), values)

    def dump(self, **place) -> None:
        self.model.write_tree(str(self.folder / "dump"), **place)

    def run(self, *options):
        command, *others = options
        words = [
            "goldwatch",
            command,
            "dump",
            "golden",
            "-f",
            "net.json",
            "-o",
            "out",
            "--jobs",
            "1",
            "-q",
            "--force",
            *others,
        ]
        return run_here(words, self.folder)

    def rows(self):
        with open(str(self.folder / "out" / "result.json")) as stream:
            return json.load(stream)["rows"]

    def table(self, pattern):
        (path,) = glob.glob(str(self.folder / "out" / pattern))
        with open(path, newline="") as stream:
            return list(csv.DictReader(stream))

    def tables(self):
        names = (
            os.path.basename(path) for path in glob.glob(str(self.folder / "out" / "*result_*.csv"))
        )
        return sorted(name.rpartition("result_")[0] for name in names)


def half(values, *origin):
    return DeviceTensor(values.astype(np.float16), "NC1HWC0", "NCHW", *origin)


@pytest.fixture
def split(tmp_path):
    return Split(tmp_path)


def test_an_op_without_a_dump_has_no_tensor_index(split) -> None:
    split.dump()
    assert split.run("compare", "--mapping").returncode == 0
    for table in (split.table("result_*.csv"), split.table("mapping_*.csv")):
        found = {row["NPUDump"]: row["TensorIndex"] for row in table}
        assert (
            found["data"] == found["const_3"] == found["Node_Output"] == "NaN"
            and found["last"] == "last:output:0"
        )
    assert {row["tensor"] for row in split.rows() if row["kind"] == "op"} == {
        "data",
        "const_3",
        "Node_Output",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_the_mapping_gives_absolute_paths_of_existing_files(split, command) -> None:
    split.dump()
    split.run(*command, "--mapping")
    paths = [
        row[name]
        for row in split.table("mapping_*.csv")
        for name in ("NPUDumpPath", "GroundTruthPath")
    ]
    there = [path for path in paths if path != "NaN"]
    assert len(there) == 12 and all(os.path.isabs(path) and os.path.isfile(path) for path in there)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_inner_value_of_a_split_op_is_absent_as_expected(split, command) -> None:
    split.dump()
    assert split.run(*command).returncode == 0
    rows = {row["tensor"]: row for row in split.rows()}
    assert (
        rows["soft_a:output:0"]["verdict"] == rows["soft_b:input:0"]["verdict"] == "expected_absent"
    )
    assert (
        "an inner value of soft" in rows["soft_a:output:0"]["reason"]
        and rows["soft_b:output:0"]["verdict"] == "pass"
    )


def test_a_constant_with_an_origin_name_is_compared_with_its_golden_file(split) -> None:
    split.dump()
    assert split.run("compare").returncode == 0
    (row,) = [row for row in split.rows() if row["tensor"] == "soft_a:input:1"]
    assert (row["verdict"], row["golden_file"]) == ("pass", "scale_gamma.0.%d.npy" % TIMESTAMP)
    split.write("scale_gamma", split.golden["scale_gamma"] + 1)
    assert split.run("compare").returncode == 1
    os.unlink(str(split.folder / "golden" / ("scale_gamma.0.%d.npy" % TIMESTAMP)))
    assert split.run("compare").returncode == 0
    assert [row["verdict"] for row in split.rows() if row["tensor"] == "soft_a:input:1"] == [
        "expected_absent"
    ]


@pytest.fixture
def times(split):
    for time, device, step in ((OLD, 0, 1), (OLD, 0, 2), (NEW, 0, 1), (OLD, 1, 1)):
        split.dump(time=time, device=device, step=step)
    return split


@pytest.mark.parametrize("command", COMMANDS)
def test_the_newest_time_of_each_device_is_compared(times, command) -> None:
    done = times.run(*command)
    assert done.returncode == 0
    assert {(row["time"], row["device"]) for row in times.rows()} == {(NEW, "0"), (OLD, "1")}
    assert done.stderr.count("left out") == 1
    assert (
        "left out %s/0/net/1/1 and 1 more: time %s of device 0 is older than %s" % (OLD, OLD, NEW)
        in done.stderr
    )
    assert times.tables() == ["0_net_1_", "1_net_1_"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_chosen_time_is_compared_and_others_are_reported(times, command) -> None:
    done = times.run(*command, "--time", OLD)
    assert {(row["time"], row["device"], row["step"]) for row in times.rows()} == {
        (OLD, "0", "1"),
        (OLD, "0", "2"),
        (OLD, "1", "1"),
    }
    assert "left out %s/0/net/1/1: time %s of device 0 is not %s" % (NEW, NEW, OLD) in done.stderr
    assert times.tables() == ["0_net_1_", "0_net_2_", "1_net_1_"]


def test_dumps_of_another_time_that_arrive_later_are_reported(times) -> None:
    catalogue = Catalogue(str(times.folder / "dump"))
    catalogue.only_time = OLD
    for path in glob.glob(os.path.join(catalogue.root, "**", "Relu.last.*"), recursive=True):
        catalogue.meet(path)
    assert len(catalogue.files) == 3
    assert catalogue.came_and_left() == [
        "left out time %s of device 0, which came meanwhile: it is not %s" % (NEW, OLD)
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_time_all_compares_every_time_folder(times, command) -> None:
    done = times.run(*command, "--time", "all")
    assert "left out" not in done.stderr
    assert len({(row["time"], row["device"], row["step"]) for row in times.rows()}) == 4
    assert times.tables() == ["0_net_2_", "1_net_1_", OLD + "_0_net_1_1_", NEW + "_0_net_1_1_"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_table_of_a_single_place_has_the_documented_name(split, command) -> None:
    split.dump()
    split.run(*command)
    assert split.tables() == [""]
