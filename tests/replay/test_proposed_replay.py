"""The replay command that a failing comparison proposes, and the replay that ``run`` appends."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from in_process import run_here
from replay_device import DATA

from goldwatch.base.naming import compose_golden_name
from goldwatch.base.safe_reading import sha256_of_file
from goldwatch.recomputing.find_original import original_model_path


@pytest.fixture
def compared(device, tmp_path):
    """A wrong run and golden data of the same network, both in one folder."""
    device.write()
    golden = tmp_path / "golden"
    golden.mkdir()
    for op in device.network.model().dumped_ops():
        for output in op.outputs:
            name = compose_golden_name(output.origin_name, output.origin_index, 1767323045000000)
            np.save(str(golden / name), np.asarray(output.array, np.float32))
    shutil.rmtree(device.path("dump"))
    device.write({"cat": "scale:1.05", "fc": "no-bias"})
    return tmp_path


def put_model(folder, name="net"):
    for ending in (".prototxt", ".caffemodel"):
        shutil.copy(os.path.join(DATA, "resblock" + ending), str(folder / (name + ending)))


def told(golden, digest):
    (golden / "manifest.json").write_text(
        json.dumps({"tensors": [], "source": {"prototxt": digest}})
    )


def test_a_failing_comparison_prints_the_replay_command(compared) -> None:
    words = ["goldwatch", "compare", "dump", "golden", "-f", "model.json", "-o", "out"]
    before = run_here(words, compared)
    assert before.returncode == 1 and "\nnext: goldwatch replay " not in before.stdout
    put_model(compared)
    computed = run_here(words[:-1] + ["computed"], compared)
    assert computed.returncode == 1 and computed.stdout.count("next: goldwatch compare-op") == 1
    done = run_here(words[:-1] + ["looked", "--recompute", "none"], compared)
    line = done.stdout.splitlines()[-1]
    assert line.startswith("next: goldwatch replay ")
    assert "is the first operator outside its limits" in done.stdout.splitlines()[-2]
    again = run_here(shlex.split(line[len("next: ") :]), compared)
    assert again.returncode == 1, again.stderr
    last = again.stdout.splitlines()[-2]
    assert (
        last.startswith("2 operators have an error of their own, the worst is ")
        and "cat" in last
        and "fc" in last
    )
    assert os.path.exists(str(compared / "looked" / "replay" / "result.json"))


def test_the_model_that_made_the_golden_data_is_proposed_for_replay(compared) -> None:
    golden, om = compared / "golden", str(compared / "model.json")
    put_model(compared)
    (compared / "other.prototxt").write_text('name: "other"\n')
    assert original_model_path(om, str(golden)) is None  # two of them, and nobody says which
    told(golden, sha256_of_file(str(compared / "net.prototxt")))
    assert original_model_path(om, str(golden)) == str(compared / "net.prototxt")
    told(golden, "0" * 64)
    assert original_model_path(om, str(golden)) is None
    (golden / "manifest.json").write_text("no json")
    (compared / "other.prototxt").unlink()
    assert original_model_path(om, str(golden)) == str(compared / "net.prototxt")


def test_the_original_model_is_found_where_the_manifest_says(compared, tmp_path) -> None:
    (tmp_path / "models").mkdir()
    put_model(tmp_path / "models")
    path = str(tmp_path / "models" / "net.prototxt")
    golden, digest = compared / "golden", sha256_of_file(path)
    document = {
        "source": {"prototxt": digest},
        "tensors": [],
        "original": {"framework": "caffe", "model": {"path": path, "sha256": digest}},
    }
    (golden / "manifest.json").write_text(json.dumps(document))
    assert original_model_path(str(compared / "model.json"), str(golden)) == path
    # What lies there now is another one.
    (tmp_path / "models" / "net.prototxt").write_text('name: "other"\n')
    assert original_model_path(str(compared / "model.json"), str(golden)) is None


def test_the_original_model_is_found_beside_the_golden_data(compared, monkeypatch) -> None:
    monkeypatch.chdir(compared)
    (compared / "net").mkdir()
    put_model(compared / "golden")
    told(compared / "golden", sha256_of_file(str(compared / "golden" / "net.prototxt")))
    os.rename("model.json", "net/model.json")
    assert original_model_path("net/model.json", "golden/") == "golden/net.prototxt"


def run_words(compared, *more):
    words = [
        "goldwatch",
        "config",
        "new",
        "--for",
        "plan",
        "--dump-path",
        compared / "live",
        "--mode",
        "all",
        "-o",
        "plan.json",
        "--force",
    ]
    plan = run_here(words, compared)
    assert plan.returncode == 0, plan.stderr
    words = [
        "goldwatch",
        "run",
        "--plan",
        "plan.json",
        "--golden",
        "golden",
        "-f",
        "model.json",
        "-o",
        "out",
        *more,
        "--",
    ]
    return [*words, sys.executable, "-m", "goldwatch.testing", "serve", "dump", "--acl", "acl.json"]


def test_run_appends_a_replay_when_asked(compared) -> None:
    put_model(compared)
    (compared / "live").mkdir()
    words = [sys.executable, "-m", *run_words(compared, "--replay", "net.prototxt")]
    done = subprocess.run(
        words,
        cwd=str(compared),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.returncode == 1, done.stderr
    said, verdict, culprit, following = done.stdout.splitlines()[-4:]
    assert (
        said.startswith("replay: 2 operators have an error of their own, the worst is ")
        and "out/replay/result.json" in said
    )
    assert verdict.startswith("fail: ") and "is the first operator outside its limits" in culprit
    assert following.startswith("next: goldwatch compare-op ") and following.endswith(
        "-o out/replay/detail"
    )
    with open(str(compared / "out" / "replay" / "result.json"), encoding="ascii") as stream:
        assert {entry["op"] for entry in json.load(stream)["summary"]["culprits"]} == {"cat", "fc"}


def test_a_replay_that_cannot_run_is_refused_before_the_program_starts(compared) -> None:
    (compared / "live").mkdir()
    done = run_here(run_words(compared, "--replay", "none.prototxt"), compared)
    assert (
        done.returncode == 4
        and "none.prototxt" in done.stderr
        and os.listdir(str(compared / "live")) == []
    )
    words = [
        word
        for word in run_words(compared, "--replay", "net.prototxt")
        if word not in ("-f", "model.json")
    ]
    done = run_here(words, compared)
    assert done.returncode == 2 and "--replay needs -f" in done.stderr
