"""The programs that run an om: finding them, their commands, their output files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import host_models
import numpy as np
import pytest
from host_models import acl_json, compile_onnx, dump_names, golden

from goldwatch.base.errors import InputError, UsageError
from goldwatch.device.launch.runners import (
    AIS_BENCH,
    MSAME,
    PYACL,
    Run,
    Runner,
    find_runners,
    runner_of_program,
    written_outputs,
)
from goldwatch.model.atc_options import dynamic_of
from goldwatch.testing.host import make_host
from goldwatch.testing.host.host_config import HostConfig


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = make_host(str(tmp_path / "npu"))
    for name, text in made.environment({"PATH": os.defpath}).items():
        monkeypatch.setenv(name, text)
    return made


def start(runner, run):
    command = runner.command(run)
    environ = {**os.environ, **command.environ}
    return subprocess.run(
        command.argv,
        cwd=command.cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=300,
    )


def test_all_runners_of_a_host_are_found(host, tmp_path):
    found = list(find_runners())
    assert [(runner.name, runner.where, runner.usable) for runner in found] == [
        (AIS_BENCH, host.python, True), (MSAME, os.path.join(host.folder, "bin", "msame"), True),
        (PYACL, host.python, True),
    ]  # fmt: skip


def test_unusable_runners_tell_why(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    ais_bench, msame, pyacl = find_runners()
    assert (
        "install its two wheels" in ais_bench.problem
        and "No module named 'ais_bench'" in ais_bench.problem
    )
    assert "not on PATH" in msame.problem and "source the toolkit's set_env.sh" in pyacl.problem
    with pytest.raises(UsageError, match="msame cannot be used"):
        msame.command(Run("m.om", [], str(tmp_path)))


@pytest.mark.parametrize("name", [AIS_BENCH, MSAME, PYACL])
@pytest.mark.parametrize("kind", ["fixed", "batch", "image size", "dims", "shape"])
def test_each_runner_runs_each_kind_of_om(host, tmp_path, name, kind):
    options, shapes = {
        "fixed": ({"input_shape": "x:1,3,8,8;y0:1,10"}, {"x": (1, 3, 8, 8), "y0": (1, 10)}),
        "batch": (
            {"input_shape": "x:-1,3,8,8;y0:-1,10", "dynamic_batch_size": "1,2"},
            {"x": (2, 3, 8, 8), "y0": (2, 10)},
        ),
        "image size": (
            {"input_shape": "x:1,3,-1,-1;y0:1,10", "dynamic_image_size": "8,8;12,10"},
            {"x": (1, 3, 12, 10), "y0": (1, 10)},
        ),
        "dims": (
            {"input_shape": "x:1,3,-1,-1;y0:1,10", "dynamic_dims": "8,6;4,10"},
            {"x": (1, 3, 4, 10), "y0": (1, 10)},
        ),
        "shape": ({"input_shape": "x:-1,3,-1,-1;y0:-1,10"}, {"x": (3, 3, 5, 7), "y0": (3, 10)}),
    }[kind]
    path = host_models.dynamic_net(tmp_path / "dyn.onnx")
    om = compile_onnx(path, tmp_path / "dyn.om", **options)
    feeds = {
        name: np.random.RandomState(0).rand(*shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    for given, array in feeds.items():
        array.tofile(str(tmp_path / (given + ".bin")))
    wanted = golden(path, feeds)[0]
    dynamic = dynamic_of("atc " + " ".join("--%s=%s" % item for item in options.items()))
    assert (dynamic is None) == (kind == "fixed") and (dynamic is None or dynamic.kind == kind)
    (tmp_path / "out").mkdir()
    config = acl_json(tmp_path / "acl.json", tmp_path / "dump", "dyn")
    files = [str(tmp_path / "x.bin"), str(tmp_path / "y0.bin")]
    room = [wanted.nbytes] if kind == "shape" else []
    run = Run(om, files, str(tmp_path / "out"), config, 0, dynamic, shapes, room)
    runner = next(find_runners(names=[name]))
    done = start(runner, run)
    assert done.returncode == 0, done.stdout
    (output,) = runner.outputs(run)
    read = np.load(output) if output.endswith(".npy") else np.fromfile(output, np.float32)
    assert np.allclose(read.reshape(wanted.shape), wanted, atol=1e-2)
    if output.endswith(".npy"):
        assert read.shape == wanted.shape
    assert len(dump_names(tmp_path / "dump")) == 11


def test_each_fault_of_pyacl_is_reported(host, tmp_path):
    om = compile_onnx(host_models.conv_net(tmp_path / "net.onnx"), tmp_path / "net.om")
    (tmp_path / "x.bin").write_bytes(bytes(768))
    (tmp_path / "out").mkdir()
    runner = next(find_runners(names=[PYACL]))
    config = acl_json(tmp_path / "acl.json", tmp_path / "dump", "net")
    said = {
        "no-device": "acl.rt.set_device failed with 507033 (ACL_ERROR_RT_DEV_SETUP_ERROR): the "
        "device "
        "cannot be set up",
        "out-of-memory": "acl.rt.malloc failed with 207001 (ACL_ERROR_RT_MEMORY_ALLOCATION)",
        "wrong-input-size": "x.bin has 768 bytes, the om wants 800",
        "other-chip": "acl.mdl.load_from_file failed with 507008 (ACL_ERROR_RT_SOC_VERSION)",
        "crash:2": "pyacl: the process was killed by SIGSEGV while it ran the om",
    }
    for fault, text in said.items():
        make_host(host.folder, HostConfig(faults=(fault,)))
        done = start(runner, Run(om, [str(tmp_path / "x.bin")], str(tmp_path / "out"), config))
        assert done.returncode == (-signal.SIGSEGV if fault == "crash:2" else 4), (
            fault,
            done.stdout,
        )
        assert text in done.stdout and "hint: " in done.stdout
        assert "Traceback" not in done.stdout
    assert len(dump_names(tmp_path / "dump")) == 2 and not os.listdir(str(tmp_path / "out"))


def test_placeholders_in_a_users_program_are_filled_in():
    runner = runner_of_program(
        [
            "./main",
            "-m",
            "{om}",
            "--acl={acl_json}",
            "{inputs}",
            "out={output}:{device}",
            "{shapes}",
        ]
    )
    run = Run("m.om", ["a.bin", "b.bin"], "/out", "/acl.json", 3, None, {"x": (1, 3)})
    assert runner.command(run).argv == [
        "./main",
        "-m",
        "m.om",
        "--acl=/acl.json",
        "a.bin,b.bin",
        "out=/out:3",
        "x:1,3",
    ]
    with pytest.raises(UsageError, match="word {model} is not known"):
        runner_of_program(["main", "{model}"]).command(run)
    assert runner_of_program(["main", "{", "{}", "{'a': 1}"]).command(run).argv[1:] == [
        "{",
        "{}",
        "{'a': 1}",
    ]
    assert not runner_of_program([]).usable


def test_gears_and_ranges_are_checked_before_anything_starts(tmp_path):
    batch = dynamic_of("atc --input_shape=x:-1,3 --dynamic_batch_size=1,2")
    with pytest.raises(UsageError, match="no gear of batch for the shapes x:5,3"):
        Runner(AIS_BENCH, sys.executable).command(
            Run("m.om", [], "/out", None, 0, batch, {"x": (5, 3)})
        )
    assert "--dymBatch 2" in " ".join(
        Runner(MSAME, "msame").command(Run("m.om", [], "/out", None, 0, batch, {"x": (2, 3)})).argv
    )


def test_msame_runs_in_the_folder_of_its_configuration(tmp_path):
    command = Runner(MSAME, "msame").command(
        Run("/m.om", ["/x.bin"], "/out", str(tmp_path / "acl.json"))
    )
    assert command.cwd == str(tmp_path) and "--dump" not in command.argv
    with pytest.raises(UsageError, match="called otherwise"):
        Runner(MSAME, "msame").command(Run("/m.om", [], "/out", str(tmp_path / "dump.json")))


def test_paths_given_to_runners_are_absolute_and_without_comma(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = Runner(MSAME, "msame").command(Run("m.om", ["x.bin", "y.bin"], "out", "acl/acl.json"))
    assert (
        command.cwd == str(tmp_path / "acl")
        and "%s,%s" % (tmp_path / "x.bin", tmp_path / "y.bin") in command.argv
    )
    assert str(tmp_path / "m.om") in command.argv and str(tmp_path / "out") in command.argv
    for name in (AIS_BENCH, MSAME, PYACL):
        with pytest.raises(UsageError, match="takes a comma for the end"):
            Runner(name, "x").command(Run("m.om", ["a,b.bin"], "out"))


def test_outputs_of_the_newest_folder_are_taken_in_numeric_order(tmp_path):
    for age, folder in ((100, "old"), (10, "new")):
        (tmp_path / folder).mkdir()
        for number in (0, 1, 10, 2):
            (tmp_path / folder / ("x_%d.npy" % number)).write_text("")
        os.utime(str(tmp_path / folder), (1e9 - age, 1e9 - age))
    (tmp_path / "new" / "x_summary.json").write_text("")
    assert [os.path.relpath(path, str(tmp_path)) for path in written_outputs(str(tmp_path))] == [
        "new/x_%d.npy" % n for n in (0, 1, 2, 10)
    ]
    (tmp_path / "new" / "z_0.npy").write_text("")
    with pytest.raises(InputError, match="several samples"):
        written_outputs(str(tmp_path))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="wrote no output"):
        Runner(AIS_BENCH, "python").outputs(Run("m.om", [], str(tmp_path / "none")))


def test_runners_do_not_change_the_configuration(host, tmp_path):
    config = acl_json(tmp_path / "acl.json", tmp_path / "dump", "net")
    before = json.loads((tmp_path / "acl.json").read_text())
    om = compile_onnx(host_models.conv_net(tmp_path / "net.onnx"), tmp_path / "net.om")
    (tmp_path / "x.bin").write_bytes(bytes(768))
    (tmp_path / "out").mkdir()
    assert (
        start(
            next(find_runners(names=[MSAME])),
            Run(om, [str(tmp_path / "x.bin")], str(tmp_path / "out"), config),
        ).returncode
        == 0
    )
    assert json.loads((tmp_path / "acl.json").read_text()) == before
