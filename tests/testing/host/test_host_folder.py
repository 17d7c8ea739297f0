"""The folder of a stand-in host, used like a toolkit: set_env.sh sourced, programs started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import host_models
import numpy as np
import pytest
from host_models import acl_json, dump_names
from in_process import run_here

from goldwatch.base.errors import FormatError, MissingPath, UsageError
from goldwatch.testing.host import make_host
from goldwatch.testing.host.host_config import HostConfig


def shell(folder, *lines):
    """Run lines in a shell that has sourced the host's set_env.sh."""
    text = "\n".join(["set -e", ". npu/set_env.sh", *lines])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(
        ["sh", "-c", text], cwd=str(folder), universal_newlines=True, timeout=300, **pipes
    )


@pytest.fixture
def folder(tmp_path):
    host_models.conv_net(tmp_path / "net.onnx")
    np.full((1, 3, 8, 8), 0.5, np.float32).tofile(str(tmp_path / "x.bin"))
    acl_json(tmp_path / "acl.json", tmp_path / "dump", "net")
    return tmp_path


def host(folder, *words):
    return run_here([sys.executable, "-m", "goldwatch.testing", "host", "npu", *words], folder)


def test_programs_of_the_host_folder_run_in_a_shell(folder):
    made = host(folder)
    assert made.returncode == 0 and "Ascend310P3, 1 device" in made.stdout
    done = shell(
        folder,
        "atc --framework=5 --model=net.onnx --output=net --soc_version=Ascend310P3",
        "atc --mode=1 --om=net.om --json=json/net.json",
        "python3 -m ais_bench --model net.om --input x.bin --output out --warmup_count 0 "
        "--acl_json_path acl.json",
        "mkdir -p other && cp acl.json other && cd other && msame --model=../net.om "
        "--input=../x.bin --output=../out",
        'python3 -c "import acl; print(acl.init(), acl.rt.set_device(0), acl.get_soc_name())"',
    )
    assert done.returncode == 0, done.stdout
    assert "0 0 Ascend310P3" in done.stdout and len(dump_names(folder / "dump")) == 20
    assert json.loads((folder / "json" / "net.json").read_text())["name"] == "net"


def test_aclruntime_tells_the_inputs_of_an_om_each_time(folder):
    assert host(folder).returncode == 0
    host_models.dynamic_net(folder / "dynamic.onnx")
    (folder / "ask.py").write_text(
        "import aclruntime\n"
        "for om in ('net.om', 'gears.om'):\n"
        "    session = aclruntime.InferenceSession(om, 0, aclruntime.session_options())\n"
        "    print([(x.name, x.datatype.name, x.shape) for x in session.get_inputs()])\n"
        "    session.free_resource()\n"
    )
    atc = "atc --framework=5 --soc_version=Ascend310P3 --model="
    gears = (
        "dynamic.onnx --output=gears '--input_shape=x:-1,3,8,8;y0:-1,10' --dynamic_batch_size=1,2"
    )
    done = shell(folder, atc + "net.onnx --output=net", atc + gears, "python3 ask.py")
    assert done.returncode == 0, done.stdout
    told = [line for line in done.stdout.splitlines() if line.startswith("[(")]
    assert told[0] == "[('x', 'float32', [1, 3, 8, 8])]"
    assert told[1].startswith("[('x', 'float32', [-1, 3, 8, 8]), ('y0', 'float32', [-1, 10])")


def test_a_planted_crash_ends_by_a_signal(folder):
    assert host(folder, "--fault", "crash:3").returncode == 0
    words = [
        "atc --framework=5 --model=net.onnx --output=net --soc_version=Ascend310P3 > /dev/null"
    ]
    assert shell(folder, *words).returncode == 0
    made = make_host(str(folder / "npu"), HostConfig(faults=("crash:3",)))
    argv = [
        made.python,
        "-m",
        "ais_bench",
        "--model",
        "net.om",
        "--input",
        "x.bin",
        "--acl_json_path",
        "acl.json",
    ]
    done = subprocess.run(
        argv,
        cwd=str(folder),
        env=made.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=300,
    )
    assert done.returncode == -signal.SIGSEGV and len(dump_names(folder / "dump")) == 3


def test_a_recreated_host_has_other_faults(tmp_path):
    assert (
        host(tmp_path, "--fault", "no-device", "--soc", "Ascend910B1", "--devices", "8").returncode
        == 0
    )
    config = HostConfig.read(str(tmp_path / "npu"))
    assert config.has("no-device") and config.soc == "Ascend910B1" and config.devices == 8
    assert (
        host(tmp_path, "--fault", "op:conv1=scale:1.1", "--fault", "drop_chunk=fc@0").returncode
        == 0
    )
    config = HostConfig.read(str(tmp_path / "npu"))
    assert (
        not config.has("no-device")
        and config.op_faults()["conv1"].number == 1.1
        and config.file_faults()[0].kind == "drop_chunk"
    )


@pytest.mark.parametrize(
    "fault",
    [
        "no-devices",
        "op:conv1",
        "op:conv1=shrink",
        "drop_chunk",
        "lost-dump",
        "crash:soon",
        "no-device=1",
    ],
)
def test_an_unknown_fault_is_refused(tmp_path, fault):
    done = host(tmp_path, "--fault", fault)
    assert done.returncode == 2 and (
        "is not known" in done.stderr or "has not the form" in done.stderr
    )


def test_a_folder_of_other_files_is_not_changed(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        make_host(str(tmp_path))
    with pytest.raises(MissingPath):
        HostConfig.read(str(tmp_path))
    (tmp_path / "host.json").write_text("[]")
    with pytest.raises(FormatError):
        HostConfig.read(str(tmp_path))
