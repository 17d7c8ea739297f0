from __future__ import annotations

import json
import os
import shlex

import jsonschema
import pytest
from in_process import run_here
from precision_scenes import Scene, overflow

from goldwatch.schemas import load_schema


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A network that overflows, compared into ``before``."""
    folder = tmp_path_factory.mktemp("cure")
    Scene(folder, overflow).compare("before")
    return folder


def cure(folder, *words):
    return run_here(["goldwatch", "cure", "before", "-f", "before.json", *words], folder)


def test_cure_prints_the_operators_it_raises_and_the_command(folder):
    done = cure(folder, "-o", "a")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("  raise ") for line in lines) == 3
    assert "wrote a/keep_dtype.cfg" in lines
    # In a file, too, it is broken so that it can be read and pasted.
    shell = done.stdout[done.stdout.index("  atc --framework=5") :].splitlines()[:-1]
    assert len(shell) > 1 and max(map(len, shell)) <= 80, shell
    # A shell drops a backslash with the end of its line also within a word; shlex does not.
    command = shlex.split("\n".join(shell).replace("\\\n", ""))
    assert command[0] == "atc"
    assert command[-1] == "--keep_dtype=%s" % (folder / "a" / "keep_dtype.cfg")
    assert lines[-1].startswith("3 operators to compute in float32: by the estimate")


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("mixlist", "ops_info.json"),
        ("customize", "customize_dtypes.cfg"),
        ("op-precision", "op_precision.ini"),
        ("npu", "ops_info.json"),
    ],
)
def test_each_cure_mode_writes_its_file_and_valid_json(folder, mode, name):
    done = cure(folder, "-o", mode, "--mode", mode, "--format", "json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, load_schema("cure"))
    assert (
        done.returncode == 0
        and document["file"] == os.path.join(mode, name)
        and os.path.isfile(str(folder / mode / name))
    )
    assert json.loads((folder / mode / "cure.json").read_text()) == document


def test_a_budget_is_a_number_or_a_percentage(folder):
    assert cure(folder, "-o", "b", "--budget", "1").returncode == 1
    assert cure(folder, "-o", "b", "--budget", "50%").returncode == 0
    for wrong in ("0", "-1", "many", "0%", "101%"):
        done = cure(folder, "-o", "b", "--budget", wrong)
        assert (
            done.returncode == 2
            and "is neither a number of operators nor a percentage of them" in done.stderr
        )


def test_a_folder_that_is_no_result_is_refused(folder):
    (folder / "empty").mkdir(exist_ok=True)
    done = run_here(["goldwatch", "cure", "empty", "-f", "before.json", "-o", "c"], folder)
    assert done.returncode == 4 and "empty" in done.stderr
    done = run_here(["goldwatch", "cure", "before", "-f", "none.json", "-o", "c"], folder)
    assert done.returncode == 4 and "none.json" in done.stderr
