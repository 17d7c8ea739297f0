"""Dumps of inputs only (``dump_mode`` ``input``): an output is compared where it is read."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps.write import TensorData
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.testing.device_dump import write_files
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

SEEN = "only inputs were dumped: seen at %s"


@pytest.fixture
def only_inputs(make_network):
    def _only_inputs(**options):
        network = make_network(**options)
        write_files(
            network.target, [dump.only("input") for dump in network.model.dumps(first_address=4096)]
        )
        return network

    return _only_inputs


def test_a_healthy_run_of_inputs_only_passes(only_inputs) -> None:
    network = only_inputs()
    done = network.compare()
    assert done.returncode == 0, done.stdout
    rows = network.rows()
    assert rows["op/0_fused:output:0"]["verdict"] == "pass"
    assert rows["op/0_fused:output:0"]["reason"] == SEEN % "op/1_fused:input:0"
    assert rows["op/0_fused:output:0"]["metrics"] == rows["op/1_fused:input:0"]["metrics"]
    assert "Conv2D.op_0_fused." in rows["op/0_fused:output:0"]["target_file"]
    # Nothing shows what the last op made.
    assert rows["fc:output:0"]["verdict"] == "expected_absent"
    assert (
        rows["fc:output:0"]["reason"] == "only inputs were dumped: nothing that is dumped reads it"
    )
    assert rows["fc:output:0"]["reason_codes"] == "only_inputs"


def test_the_wrong_op_is_found_by_inputs_only(only_inputs) -> None:
    network = only_inputs(broken=True)
    done = network.compare()
    assert done.returncode == 1
    first = network.result()["summary"]["first_divergence"]
    assert (first["op"], first["tensor"], first["inputs"]) == (
        "op/1_fused",
        "op/1_fused:output:0",
        "good",
    )
    assert "op/1_fused (Conv2D) is the first operator outside its limits" in done.stdout


@pytest.mark.parametrize("mode", ["input", "output", "all"])
def test_two_runs_are_compared_though_one_dumped_inputs_only(
    make_network, only_inputs, tmp_path, mode
) -> None:
    """GOLDEN's dump holds the outputs, or what the same readers were given."""
    healthy, out = str(tmp_path / "healthy"), str(tmp_path / "two")
    network = make_network()
    write_files(healthy, [dump.only(mode) for dump in network.model.dumps()])
    for broken, code in ((False, 0), (True, 1)):
        shutil.rmtree(network.golden)
        network = only_inputs(broken=broken)
        folders = (network.target, healthy, out + str(code))
        result = compare_folders(ComparisonOptions(*folders, network.model_path))
        rows = {row.tensor: row for row in result.rows()}
        if mode != "output":
            assert result.exit_code == code
        assert rows["op/0_fused:output:0"].verdict == "pass"
        assert rows["op/0_fused:output:0"].reason.startswith(SEEN % "op/1_fused:input:0")
        assert rows["op/1_fused:output:0"].verdict == ("fail" if broken else "pass")
        if broken:
            assert result.first_divergence.tensor == "op/1_fused:output:0"
        shutil.rmtree(network.target)


def test_compare_op_finds_an_output_where_it_is_read(only_inputs) -> None:
    network = only_inputs(broken=True)
    words = [
        network.target,
        network.golden,
        "op/1_fused",
        "-f",
        network.model_path,
        "-o",
        network.out,
    ]
    done = run_here([sys.executable, "-m", "goldwatch", "compare-op", *words])
    assert done.returncode == 1
    assert "op/1_fused:output:0: fail" in done.stdout


def test_the_input_of_an_in_place_op_is_seen_at_another_reader(tmp_path) -> None:
    """Its dump holds what it wrote; its input is seen by another reader, or nowhere."""
    value = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    golden = {"data": value, "a": value, "relu": value + 40, "other": value * 2, "last": value + 80}
    tensors = {
        name: DeviceTensor(array.astype(np.float16), "ND", "ND", name)
        for name, array in golden.items()
    }
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (tensors["data"],)))
    model.add(DeviceOp("a", "Abs", (("data", 0),), (tensors["a"],), ("a",)))
    model.add(DeviceOp("relu", "Relu", (("a", 0),), (tensors["relu"],), ("relu",), in_place=0))
    model.add(DeviceOp("other", "Mul", (("a", 0),), (tensors["other"],), ("other",)))
    model.add(DeviceOp("last", "Abs", (("relu", 0),), (tensors["last"],), ("last",)))
    os.makedirs(str(tmp_path / "golden"))
    for name, array in golden.items():
        np.save(str(tmp_path / "golden" / ("%s.0.1.npy" % name)), array)
    model.write_json(str(tmp_path / "net.json"))
    dumps = [dump.only("input") for dump in model.dumps(first_address=4096)]
    written = golden["relu"].astype(np.float16)
    dumps[1] = replace(
        dumps[1], inputs=[TensorData(written, format="ND", address=dumps[1].inputs[0].address)]
    )
    assert dumps[1].op_name == "relu"

    def rows(out):
        folders = [str(tmp_path / name) for name in ("dump", "golden", out)]
        result = compare_folders(ComparisonOptions(*folders, str(tmp_path / "net.json")))
        return result.exit_code, {row.tensor: row for row in result.rows()}

    write_files(str(tmp_path / "dump"), dumps)
    code, found = rows("out")
    assert code == 0
    assert (
        found["relu:input:0"].verdict == "expected_absent"
        and "an output lies in its memory" in found["relu:input:0"].reason
    )
    assert (
        found["a:output:0"].verdict == "pass"
        and found["a:output:0"].reason == SEEN % "other:input:0"
    )
    assert (
        found["relu:output:0"].verdict == "pass"
        and found["relu:output:0"].reason == SEEN % "last:input:0"
    )
    os.unlink(os.path.join(str(tmp_path / "dump"), dumps[2].path()))
    code, found = rows("again")
    # Its only other reader is missing.
    assert code == 3 and found["other"].verdict == "not_compared"
    assert found["a:output:0"].verdict == "expected_absent"
    assert found["a:output:0"].reason == "only inputs were dumped: no dump that is there shows it"


def test_an_op_whose_outputs_are_missing_among_full_dumps_is_not_excused(make_network) -> None:
    network = make_network()
    dumps = list(network.model.dumps())
    write_files(
        network.target, [dump.only("input") if dump.op_name == "fc" else dump for dump in dumps]
    )
    assert network.compare().returncode == 3
    row = network.rows()["fc:output:0"]
    assert (row["verdict"], row["reason"]) == (
        "not_compared",
        "the dump lacks it: the model gives this op 1 outputs, the dump holds 0",
    )


def test_missing_outputs_that_the_configuration_requested_are_not_excused(
    only_inputs, tmp_path
) -> None:
    network = only_inputs()
    for mode, code in (("input", 0), ("all", 3)):
        path = tmp_path / ("%s.json" % mode)
        path.write_text(
            '{"dump": {"dump_path": "/nowhere", "dump_mode": "%s", "dump_list": '
            '[{"model_name": "net"}]}}' % mode
        )
        assert network.compare("--acl", str(path), "--force").returncode == code
