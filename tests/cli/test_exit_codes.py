"""Help, exit codes and JSON errors of the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import pytest
from in_process import run_here

from goldwatch.cli.error_handling import run_command


def goldwatch(*args: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "goldwatch", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=dict(os.environ, **environment),
        timeout=120,
    )


def test_help_names_every_command_without_importing_them() -> None:
    done = goldwatch("--help")
    assert done.returncode == 0
    for word in ("config", "golden", "compare", "watch", "run"):
        assert word in done.stdout
    code = (
        "import sys; from goldwatch.cli import goldwatch\ntry:\n goldwatch(['--help'])\nexcept "
        "SystemExit: pass\n"
    )
    code += "print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]).decode().strip().endswith("False")


@pytest.mark.parametrize(
    "command",
    [
        ["config", "new"],
        ["config", "check"],
        ["golden", "caffe", "deinplace"],
        ["golden", "caffe", "dump"],
        ["golden", "tf", "commands"],
        ["golden", "tf", "rename"],
        ["golden", "tf", "dump"],
        ["compare"],
        ["watch"],
        ["run"],
    ],
)
def test_every_command_shows_an_example(command) -> None:
    done = run_here(["goldwatch", *command, "--help"])
    assert done.returncode == 0, done.stderr
    assert "xample" in done.stdout


def test_a_missing_path_exits_with_4_and_an_unknown_option_with_2() -> None:
    words = ["goldwatch", "compare", "no-such-target", "no-such-golden", "-o", "out"]
    assert run_here(words).returncode == 4
    assert run_here(["goldwatch", "compare", "--no-such-option"]).returncode == 2
    assert run_here(["goldwatch", "no-such-command"]).returncode == 2


def test_json_errors_are_one_document_on_stdout() -> None:
    for args, kind in (
        (
            ["compare", "no-such-target", "no-such-golden", "-o", "out", "--format", "json"],
            "missing_path",
        ),
        (["compare", "--format=json"], "usage"),
    ):
        done = run_here(["goldwatch", *args])
        document = json.loads(done.stdout)
        assert document["error"]["kind"] == kind
        assert set(document["error"]) == {"kind", "message", "hint"}
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [[], ["--format", "json"]])
@pytest.mark.parametrize("kind", [SystemError, OSError, ValueError])
def test_an_error_caused_by_ctrl_c_exits_as_interrupted(kind, words, capsys):
    @click.command()
    @click.option("--format")
    def command(format):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise kind("returned a result with an error set") from error

    with pytest.raises(SystemExit) as ended:
        run_command(command, words)
    assert ended.value.code == 130
    out, err = capsys.readouterr()
    assert "interrupted" in (out if words else err)


@pytest.mark.parametrize("words", [[], ["--format", "json"]])
def test_a_fault_of_goldwatch_shows_its_traceback_and_is_no_verdict(words, capsys):
    @click.command()
    @click.option("--format")
    def command(format):
        raise ValueError("a defect") from OSError("another")

    with pytest.raises(SystemExit) as ended:
        run_command(command, words)
    out, err = capsys.readouterr()
    assert ended.value.code == 4 and "Traceback" in err and "another" in err
    if words:
        assert (
            json.loads(out)["error"]["kind"] == "internal"
            and "a defect" in json.loads(out)["error"]["message"]
        )
    else:
        assert "goldwatch: ValueError: a defect" in err and "a fault of goldwatch" in err


def test_too_little_memory_is_reported_without_a_traceback(capsys):
    @click.command()
    def command():
        raise MemoryError

    with pytest.raises(SystemExit) as ended:
        run_command(command, [])
    err = capsys.readouterr().err
    assert ended.value.code == 4 and "not enough memory" in err and "Traceback" not in err


@pytest.mark.parametrize(
    "package, code",
    [
        ("numpy", "1/0"),
        ("numpy", "raise SystemExit(0)"),
        ("click", "raise SystemExit(7)"),
        ("numpy", "1 +"),
    ],
)
def test_a_package_that_fails_to_import_exits_with_4_and_is_named(tmp_path, package, code) -> None:
    (tmp_path / (package + ".py")).write_text(code + "\n")
    done = goldwatch(
        "compare",
        str(tmp_path),
        str(tmp_path),
        "-o",
        str(tmp_path / "out"),
        PYTHONPATH=str(tmp_path),
    )
    assert done.returncode == 4 and not done.stdout
    assert done.stderr.startswith(
        "goldwatch: %s cannot be imported (%s): " % (package, tmp_path / (package + ".py"))
    )
    assert len(done.stderr.splitlines()) <= 2


def test_an_error_outside_of_imports_blames_no_package(tmp_path) -> None:
    (tmp_path / "jsonschema.py").write_text("1/0\n")
    done = goldwatch(
        "compare", "no-such", "no-such", "-o", str(tmp_path / "out"), PYTHONPATH=str(tmp_path)
    )
    assert done.returncode == 4 and "does not exist" in done.stderr, done.stderr
