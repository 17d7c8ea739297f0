"""Ops that the dump configuration leaves out are not missing."""

from __future__ import annotations

import glob
import json
import os

import pytest

import goldwatch

OTHERS = "not asked for: the dump configuration names other ops"


@pytest.fixture
def layered(network, tmp_path):
    """Only op/1_fused and fc were asked for, the first by its original name."""
    network.dump()
    for path in glob.glob(os.path.join(network.target, "*", "*", "*", "*", "*", "*")):
        if ".op_1_fused." not in path and ".fc." not in path:
            os.unlink(path)
    network.acl = str(tmp_path / "acl.json")
    dump = {
        "dump_path": "/nowhere",
        "dump_mode": "all",
        "dump_list": [{"model_name": "net", "layer": ["op/1", "fc"]}],
    }
    with open(network.acl, "w", encoding="utf-8") as stream:
        json.dump({"dump": dump}, stream)
    return network


def test_ops_outside_the_layers_of_acl_json_are_absent_as_expected(layered) -> None:
    assert layered.compare().returncode == 3
    done = layered.compare("--acl", layered.acl, "--force")
    assert done.returncode == 0, done.stdout
    rows = layered.rows()
    assert rows["op/0_fused"]["reason"] == rows["trans_Cast_0"]["reason"] == OTHERS
    assert {row["verdict"] for name, row in rows.items() if row["op"] in ("op/1_fused", "fc")} == {
        "pass"
    }
    # Not the reason of what never dumps.
    assert rows["data"]["reason"].startswith("a model input")


def test_the_acl_option_is_proposed_when_most_ops_are_missing(layered) -> None:
    done = layered.compare()
    assert done.returncode == 3 and "most operators have no dump (4 of 6)" in done.stderr
    assert "give --acl acl.json where it chose the layers to be dumped" in done.stdout
    done = layered.compare("--force", "--acl", layered.acl)
    assert "most operators" not in done.stderr and "give --acl" not in done.stdout


def test_the_acl_option_is_not_proposed_when_few_ops_are_missing(network) -> None:
    network.dump()
    (path,) = glob.glob(os.path.join(network.target, "*", "*", "*", "*", "*", "MatMul.fc.*"))
    os.unlink(path)
    done = network.compare()
    assert (
        done.returncode == 3
        and "most operators" not in done.stderr
        and "give --acl" not in done.stdout
    )


def test_a_requested_op_without_a_dump_is_missing(layered) -> None:
    (path,) = glob.glob(os.path.join(layered.target, "*", "*", "*", "*", "*", "MatMul.fc.*"))
    os.unlink(path)
    assert layered.compare("--acl", layered.acl).returncode == 3
    assert layered.rows()["fc"]["reason"] == "no dump file"


def test_ops_requested_by_npu_settings_and_from_python_are_known(layered, tmp_path) -> None:
    settings = tmp_path / "npu.json"
    settings.write_text(
        json.dumps(
            {
                "enable_dump": True,
                "dump_path": "/x",
                "dump_mode": "all",
                "dump_layer": "op/1_fused fc",
            }
        )
    )
    assert layered.compare("--acl", str(settings)).returncode == 0
    result = goldwatch.compare(
        layered.target, layered.golden, model=layered.model_path, dump_config=str(settings)
    )
    assert result.exit_code == 0 and result.summary.not_compared == 0


def test_a_store_keeps_the_requested_ops(layered) -> None:
    assert layered.compare("--acl", layered.acl).returncode == 0
    # Without it these are other results.
    assert layered.compare().returncode == 2
    assert layered.compare("--acl", layered.acl).returncode == 0
    assert goldwatch.open_result(layered.out).options.plan.models[0].layers == ("op/1", "fc")


def test_the_acl_option_without_a_model_is_refused(layered) -> None:
    done = layered.compare("--acl", layered.acl, model="")
    assert done.returncode == 2 and "needs -f" in done.stderr
    assert layered.compare("--acl", layered.acl + ".gone").returncode == 4
