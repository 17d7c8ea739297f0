"""``python -m goldwatch.testing``: a network is made, served and compared."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest

from goldwatch.base.errors import FormatError, MissingPath, UsageError
from goldwatch.dumps import DumpFile, DumpTree
from goldwatch.model.read_model import load_model
from goldwatch.testing import Network
from goldwatch.testing.commands import size_of

WHEN = "20260102030405"


def serve_or_make(*words, **options):
    command = [sys.executable, "-m", "goldwatch.testing"] + list(words)
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=120,
        **options,
    )


@pytest.fixture
def net(tmp_path):
    Network(ops=9, tensor_bytes=2048, seed=1, broken=6).write(str(tmp_path / "net"))
    return str(tmp_path / "net")


def test_make_writes_what_the_class_writes(tmp_path, net, read_tree) -> None:
    done = serve_or_make(
        "make",
        str(tmp_path / "other"),
        "--ops",
        "9",
        "--size",
        "2K",
        "--seed",
        "1",
        "--broken",
        "6",
    )
    assert done.returncode == 0, done.stderr
    assert read_tree(tmp_path / "other") == read_tree(net)
    assert sorted(os.listdir(net)) == ["golden", "model.json", "network.json"]
    assert len(os.listdir(os.path.join(net, "golden"))) == 10
    again = serve_or_make("make", str(tmp_path / "other"))
    assert again.returncode == 2 and "already holds" in again.stderr


def test_a_served_network_is_compared_and_its_broken_op_named(tmp_path, net) -> None:
    done = serve_or_make(
        "serve",
        net,
        str(tmp_path / "dump"),
        "--devices",
        "2",
        "--steps",
        "2",
        "--chunk",
        "1000",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["files"] == 36 and report["chunks"].keys() == {"written"}
    command = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare",
        "dump",
        "net/golden",
        "-f",
        "net/model.json",
        "-o",
        "out",
        "-q",
    ]
    compared = subprocess.run(
        command,
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert compared.returncode == 1, compared.stderr
    with open(str(tmp_path / "out" / "result.json")) as stream:
        summary = json.load(stream)["summary"]
    assert (
        summary["first_divergence"]["op"] == "op_6"
        and summary["first_divergence"]["inputs"] == "good"
    )
    assert summary["not_compared"] == 0


def test_golden_and_dumps_differ_by_rounding_only(tmp_path) -> None:
    network = Network(ops=6, tensor_bytes=1024)
    golden = dict(network.golden())
    graph = load_model(network.model().write_json(str(tmp_path / "model.json")))
    layouts = set()
    for dump in network.dumps():
        stored = dump.outputs[0].data
        exact = golden[dump.op_name]
        (desc,) = graph.op(dump.op_name).output_descs
        layouts.add(desc.layout)
        assert desc.shape == stored.shape and desc.origin_shape == exact.shape
        assert stored.nbytes == 1024 and stored.dtype == np.float16
        assert (np.sort(exact.astype(np.float16), axis=None) == np.sort(stored, axis=None)).all()
    assert layouts == {"NC1HWC0", "FRACTAL_NZ", "ND"}


def test_a_network_of_odd_sizes_has_flat_tensors(tmp_path) -> None:
    network = Network(ops=4, tensor_bytes=100, inputs=False)
    dumps = list(network.dumps())
    assert all(dump.outputs[0].data.shape == (50,) and not dump.inputs for dump in dumps)
    assert list(Network(ops=4, tensor_bytes=100, seed=1).dumps())[0].content() != dumps[0].content()
    with pytest.raises(UsageError):
        Network(ops=3, broken=3)
    with pytest.raises(UsageError):
        Network(tensor_bytes=3)


def test_a_folder_without_a_network_is_refused(tmp_path) -> None:
    with pytest.raises(MissingPath):
        Network.read(str(tmp_path))
    for text in ("{", "[]", '{"ops": 3, "colour": 1}', '"x"'):
        with open(str(tmp_path / "network.json"), "w") as stream:
            stream.write(text)
        with pytest.raises(FormatError):
            Network.read(str(tmp_path))


def test_serving_twice_with_one_seed_gives_the_same_bytes(tmp_path, net, read_tree) -> None:
    for name in ("a", "b"):
        assert (
            serve_or_make(
                "serve",
                net,
                str(tmp_path / name),
                "--time",
                WHEN,
                "--seed",
                "4",
                "--generation",
                "ffts+",
            ).returncode
            == 0
        )
    assert read_tree(tmp_path / "a") == read_tree(tmp_path / "b")
    (step_folder,) = DumpTree(str(tmp_path / "a")).step_folders
    assert (
        step_folder.place.time == WHEN
        and step_folder.files[0].name.timestamp_us == 1767323045000000
    )


def test_a_recorded_tree_can_be_served_again(tmp_path, net, read_tree) -> None:
    assert serve_or_make("serve", net, str(tmp_path / "a")).returncode == 0
    done = serve_or_make(
        "serve",
        str(tmp_path / "a"),
        str(tmp_path / "b"),
        "--chunk",
        "500",
        "--fault",
        "drop_chunk=op_3@1",
    )
    assert done.returncode == 0 and "1 dropped" in done.stdout, done.stderr
    first, second = read_tree(tmp_path / "a"), read_tree(tmp_path / "b")
    changed = [path for path in first if first[path] != second[path]]
    assert (
        len(changed) == 1
        and "op_3" in changed[0]
        and len(second[changed[0]]) == len(first[changed[0]]) - 500
    )


@pytest.mark.parametrize(
    "mode, counts", [(None, (0, 1)), ("input", (1, 0)), ("output", (0, 1)), ("all", (1, 1))]
)
def test_acl_json_decides_place_and_mode_of_served_dumps(tmp_path, net, mode, counts) -> None:
    dump = {"dump_path": str(tmp_path / "there"), "dump_list": [{}]}
    if mode is not None:
        dump["dump_mode"] = mode
    with open(str(tmp_path / "acl.json"), "w") as stream:
        json.dump({"dump": dump}, stream)
    assert serve_or_make("serve", net, "--acl", str(tmp_path / "acl.json")).returncode == 0
    (step_folder,) = DumpTree(str(tmp_path / "there")).step_folders
    file = DumpFile.open(step_folder.files[0].path)
    assert (len(file.inputs), len(file.outputs)) == counts


def test_quota_and_exit_code_options_work(tmp_path, net) -> None:
    done = serve_or_make(
        "serve", net, str(tmp_path / "a"), "--quota", "1060000", "--exit-code", "7"
    )
    assert done.returncode == 7 and "disk_full" in done.stdout and "written" in done.stdout


def test_a_server_killed_midway_leaves_a_partial_tree(tmp_path, net, until) -> None:
    root = str(tmp_path / "a")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "goldwatch.testing",
            "serve",
            net,
            root,
            "--chunk",
            "100",
            "--delay",
            "0.01",
        ]
    )
    until(lambda: os.path.exists(root) and DumpTree(root).step_folders)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    assert DumpTree(root).step_folders


@pytest.mark.parametrize(
    "words, code, text",
    [
        (["serve", "net"], 2, "ROOT"),
        (["serve", "nothing", "a"], 4, "nothing"),
        (["serve", "net", "a", "--fault", "x=y"], 2, "fault"),
        (["serve", "net", "a", "--rate", "fast"], 2, "64K"),
        (["serve", "net", "a", "--time", "today"], 2, "YYYY"),
        (["serve", "net", "a", "--acl", "acl.json"], 2, "exclude"),
        (["serve", "net", "--acl", "acl.json"], 4, "acl.json"),
        (["serve", "net", "--acl", "net/model.json"], 4, "dump_path"),
        (["make", "other", "--broken", "10"], 2, "0 to 9"),
        (["make"], 2, "FOLDER"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes_get_a_message_and_an_exit_code(tmp_path, net, words, code, text) -> None:
    done = serve_or_make(*words, cwd=str(tmp_path))
    assert done.returncode == code and text in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "2>&-", "2>/dev/full"])
@pytest.mark.parametrize("words", ["make other", "serve net a", "serve net a --format json"])
def test_an_unwritable_stdout_or_stderr_shows_no_traceback(
    tmp_path, net, words, redirection
) -> None:
    command = "%s -m goldwatch.testing %s %s" % (shlex.quote(sys.executable), words, redirection)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
    done = subprocess.run(["bash", "-c", command], cwd=str(tmp_path), timeout=120, **pipes)
    assert done.returncode == (0 if redirection[0] == "2" else 4), done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert done.stderr == "" or "goldwatch: stdout: not everything could be printed" in done.stderr


def test_help_is_shown_without_importing_numpy() -> None:
    done = serve_or_make("serve", "--help")
    assert done.returncode == 0 and "drop_chunk" in done.stdout
    program = "import sys, goldwatch.testing; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_sizes_with_units_are_parsed() -> None:
    assert [size_of(text) for text in ("7", "2k", "3M", "1G", 9)] == [7, 2048, 3 << 20, 1 << 30, 9]
