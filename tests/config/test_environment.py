"""Rules about this machine: permissions, space, containers; and the size of a dump."""

from __future__ import annotations

import json
import os

import pytest
from in_process import run_here

from goldwatch.config import path_rules
from goldwatch.config.bytes_per_step import estimate, step_count
from goldwatch.config.check import check_file
from goldwatch.config.path_rules import _on_volume, in_container
from goldwatch.model import load_model


@pytest.fixture
def config(folder, tmp_path):
    def write(**fields):
        path = tmp_path / "acl.json"
        path.write_text(
            json.dumps({"dump": dict({"dump_path": folder + "/sub", "dump_list": [{}]}, **fields)})
        )
        return str(path)

    return write


def found(*words, **options):
    return [(finding.severity, finding.rule) for finding in check_file(*words, **options).findings]


def test_a_dump_path_that_cannot_be_written_is_an_error_on_this_machine(config, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    assert found(config()) == [("error", "dump-path-permission")]
    assert found(config(), elsewhere=True) == [("note", "dump-path-permission")]


def test_the_check_writes_nothing(config, folder):
    before = sorted(os.listdir(folder))
    check_file(config())
    assert sorted(os.listdir(folder)) == before


def test_a_full_disk_is_warned_of(config, monkeypatch):
    monkeypatch.setattr(path_rules, "free_bytes", lambda folder: 4096)
    assert found(config()) == [("warning", "disk-full")]
    assert found(config(), elsewhere=True) == [("note", "disk-full")]


def test_a_dump_path_inside_a_container_is_noted(config, monkeypatch):
    monkeypatch.setattr(path_rules, "in_container", lambda: True)
    monkeypatch.setattr(path_rules, "_on_volume", lambda folder: False)
    assert found(config()) == [("note", "container")]
    monkeypatch.setattr(path_rules, "_on_volume", lambda folder: True)
    assert found(config()) == []


def test_notes_about_this_machine_take_one_line_and_the_containers_comes_once(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(path_rules, "in_container", lambda: True)
    monkeypatch.setattr(path_rules, "_on_volume", lambda folder: False)
    (tmp_path / "acl.json").write_text(
        json.dumps({"dump": {"dump_path": "sub", "dump_list": [{}]}})
    )
    done = run_here(["goldwatch", "config", "check", str(tmp_path / "acl.json")], folder)
    first, last = done.stdout.splitlines()
    assert (
        "dump_path is relative" in first
        and "not on a mounted volume: sub [dump-path-relative, container]" in first
    )
    assert done.returncode == 0 and last.endswith("0 errors, 0 warnings")
    call = "NPURunConfig(dump_config=DumpConfig(True, %r))\n" % str(folder)
    (tmp_path / "train.py").write_text(call + call)
    assert found(str(tmp_path / "train.py")) == [("note", "container")]
    done = run_here(
        ["goldwatch", "config", "check", str(tmp_path / "acl.json"), "--format", "json"], folder
    )
    assert [finding["rule"] for finding in json.loads(done.stdout)["findings"]] == [
        "dump-path-relative",
        "container",
    ]


def test_other_notes_keep_their_three_lines(folder, tmp_path):
    (tmp_path / "acl.json").write_text(
        json.dumps({"dump": {"dump_path": folder, "dump_op_switch": "on"}})
    )
    done = run_here(["goldwatch", "config", "check", str(tmp_path / "acl.json")], folder)
    assert (
        "aclmdlSetDump() alone [op-switch-call]\n    consumer: " in done.stdout
        and done.returncode == 0
    )
    done = run_here(
        ["goldwatch", "config", "new", "--op-switch", "on", "--dump-path", folder], folder
    )
    assert (
        done.returncode == 0
        and "note: ops called one by one are sure to be dumped through aclmdlSetDump() alone"
        in done.stderr
    )


def test_a_missing_dump_path_is_an_error_and_the_fix_names_run_only_where_it_helps(config, folder):
    (finding,) = check_file(config(dump_path=folder + "/new")).findings
    assert (finding.severity, finding.rule) == (
        "error",
        "dump-path-not-found",
    ) and "goldwatch run makes it itself" in finding.fix
    (finding,) = check_file(config(dump_path=folder + "/no/new")).findings
    assert finding.rule == "dump-path-not-found" and "run" not in finding.fix


def test_npu_collect_path_is_warned_of(config, monkeypatch):
    monkeypatch.setenv("ASCEND_WORK_PATH", "/w")
    assert found(config()) == []
    monkeypatch.setenv("NPU_COLLECT_PATH", "/c")
    assert found(config()) == [("warning", "npu-collect-path")]
    assert found(config(), elsewhere=True) == [("note", "npu-collect-path")]


def test_ascend_work_path_is_noted_for_exception_dumps(folder, tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"dump": {"dump_scene": "lite_exception", "dump_path": folder}}))
    monkeypatch.setenv("ASCEND_WORK_PATH", "/w")
    assert found(str(path)) == [("note", "exception-path")]


def test_containers_and_volumes_are_recognised_on_this_machine(tmp_path):
    assert isinstance(in_container(), bool)
    assert isinstance(_on_volume(str(tmp_path)), bool)


def test_a_dump_larger_than_the_free_space_is_warned_of(config, om, monkeypatch):
    monkeypatch.setattr("goldwatch.config.dump_size_rules.free_bytes", lambda folder: 10000)
    # Three tensors of 1 * 16 * 8 * 8 half floats and one of 10: about 7 KB a step.
    assert found(config(dump_step="0"), [om]) == [("note", "dump-size")]
    assert found(config(dump_step="0|1-9"), [om]) == [("warning", "disk-space")]
    assert found(config(dump_step="0|1-9", dump_data="stats"), [om]) == [
        ("warning", "disk-space"),
        ("note", "statistics-only"),
    ]
    assert found(config(dump_mode="all"), [om]) == [("warning", "disk-space")]
    assert found(config(dump_mode="all"), [om], elsewhere=True) == [("note", "dump-size")]
    assert found(config(dump_list=[{"model_name": "net", "layer": ["soft/max"]}]), [om]) == [
        ("note", "dump-size")
    ]


def test_the_estimated_dump_size_adds_up(om):
    graph = load_model(om)
    conv = [op for op in graph.ops if op.name == "fused_conv"]
    tensor = 1 * 16 * 8 * 8 * 2 + 256
    assert estimate(conv).size_bytes == tensor
    assert estimate(conv, "input").size_bytes == 2 * tensor
    assert estimate(conv, "all").size_bytes == 3 * tensor
    assert (
        estimate(conv, "all", skipped={"Conv2D": {"input0"}, "fused_conv": {"output0"}}).size_bytes
        == tensor
    )
    assert estimate(conv, "all", "stats").size_bytes == 3 * 256


def test_dump_steps_are_counted():
    assert [step_count(step) for step in (None, "", "5", "0|5-9")] == [None, None, 1, 6]


def test_only_twenty_layers_get_a_suggestion(config, om):
    layers = ["fused_konv%d" % index for index in range(30)]
    report = check_file(config(dump_list=[{"layer": layers}]), [om])
    messages = [finding.message for finding in report.findings if finding.rule == "unknown-layer"]
    assert len(messages) == 30
    assert sum("did you mean 'fused_conv'" in message for message in messages) == 20


def test_a_note_says_that_statistics_are_dumped_in_place_of_tensors(config, om):
    report = check_file(config(dump_data="stats"), [om])
    (note,) = [finding for finding in report.findings if finding.rule == "statistics-only"]
    assert note.severity == "note" and "CSV" in note.consumer and 'with "L2norm"' in note.fix
    report = check_file(config(dump_data="stats", dump_stats=["Max", "Min", "Avg", "L2norm"]), [om])
    (note,) = [finding for finding in report.findings if finding.rule == "statistics-only"]
    assert note.fix.endswith("what dump_stats leaves out: Nan, Negative Inf, Positive Inf")
    assert not [
        finding
        for finding in check_file(config(), [om]).findings
        if finding.rule == "statistics-only"
    ]
