"""``goldwatch doctor`` on machines in various states."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import jsonschema
import pytest
from in_process import run_here

from goldwatch.schemas import load_text
from goldwatch.tools.doctor import packages
from goldwatch.tools.doctor.packages import EXTRAS, NEEDED, name_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA = json.loads(load_text("doctor.schema.json"))


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """Only this Python is there."""
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    for name in ("PYENV_ROOT", "CONDA_PREFIX", "CONDA_EXE"):
        monkeypatch.delenv(name, raising=False)


def document_of(*words, code=0):
    done = run_here(["goldwatch", "doctor", "--format", "json", *words])
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    return document


def rules(document):
    return {finding["rule"]: finding["severity"] for finding in document["findings"]}


def test_the_document_describes_packages_and_folders(alone, tmp_path):
    for name in ("a/b/c", "d", "e"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path)
    document = document_of(str(tmp_path))
    assert document["place"]["folders"] == 5 and document["place"]["path"] == str(tmp_path)
    assert (
        document["usable"]
        and document["python"]["path"] == sys.executable
        and document["pythons"] == 1
    )
    assert [entry["name"] for entry in document["packages"]] == [
        "numpy",
        "protobuf",
        "jsonschema",
        "watchdog",
        "click",
        "sqlite3",
    ]
    assert all(entry["version"] and not entry["problem"] for entry in document["packages"])
    assert document["kernel"]["about"]


def test_a_file_is_checked_as_its_folder_and_a_missing_path_exits_with_4(alone, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "beside").mkdir()
    assert document_of(str(tmp_path / "file"))["place"]["folders"] == 0
    for name in ("none", "file/below", "nul\0"):
        done = run_here(["goldwatch", "doctor", str(tmp_path / name)])
        assert done.returncode == 4 and "PATH: " in done.stderr, done.stderr
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    assert (
        run_here(["goldwatch", "doctor", str(tmp_path / "nowhere"), "--format", "json"]).returncode
        == 4
    )


@pytest.mark.parametrize("name", ["numpy", "sqlite3"])
def test_a_needed_package_that_ends_its_process_makes_goldwatch_unusable(
    alone, monkeypatch, tmp_path, name
):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / (name + ".py")).write_text("import os\nos.abort()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "modules"), *sys.path])
    document = document_of(str(tmp_path), code=4)
    assert not document["usable"] and document["findings"][0]["rule"] == "package-broken"
    broken = [entry["name"] for entry in document["packages"] if entry["problem"]]
    assert broken == [name] or set(broken) == {name, "numpy"}
    assert (
        "killed by SIGABRT"
        in [entry["problem"] for entry in document["packages"] if entry["name"] == name][0]
    )


def test_an_optional_package_that_cannot_be_imported_is_a_warning(alone, monkeypatch, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "cv2.py").write_text(
        "raise SystemError('built for \\x1b[31m another numpy')\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "modules"), *sys.path])
    document = document_of(str(tmp_path))
    assert rules(document)["package-broken"] == "warning"
    assert document["extras"][0]["packages"][0]["problem"].startswith("SystemError: built for")
    done = run_here(["goldwatch", "doctor", str(tmp_path)])
    assert (
        done.returncode == 0
        and "\x1b" not in done.stdout
        and "SystemError: built for \\x1b[31m another numpy" in done.stdout
    )


def test_a_broken_numpy_on_pythonpath_is_the_only_one_blamed_by_its_file(alone, tmp_path):
    broken = tmp_path / "modules" / "numpy" / "__init__.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("1/0\n")
    done = subprocess.run(
        [sys.executable, "-m", "goldwatch", "doctor", str(tmp_path), "--format", "json"],
        env=dict(os.environ, PYTHONPATH=str(tmp_path / "modules")), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, timeout=300,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    (one,) = [one for one in document["findings"] if one["rule"] == "package-broken"]
    assert (
        one["message"]
        == "numpy (%s) cannot be imported: ZeroDivisionError: division by zero" % broken
    )
    assert "PYTHONPATH" in one["fix"]


def test_a_package_that_hangs_is_named_and_not_waited_for_long(alone, monkeypatch, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "cv2.py").write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "modules"), *sys.path])
    monkeypatch.setattr(packages, "_LIMIT_S", 5.0)
    done = run_here(["goldwatch", "doctor", str(tmp_path)])
    assert (
        "looking at extras: opencv-python-headless" in done.stderr
        and "looking at packages: numpy" in done.stderr
    )
    assert "cannot be imported: no answer within 5 s" in done.stdout
    assert not run_here(["goldwatch", "doctor", str(tmp_path), "-q"]).stderr


def test_without_a_kernel_goldwatch_is_unusable(alone, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "goldwatch", "doctor", str(tmp_path), "--format", "json"],
        env=dict(os.environ, GOLDWATCH_KERNEL="quick"), stdout=subprocess.PIPE, timeout=300,
    )  # fmt: skip
    assert done.returncode == 4 and rules(json.loads(done.stdout)) == {"kernel": "problem"}


def test_environment_values_are_printed_escaped(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("LANG", "x\x1b[31m")
    done = run_here(["goldwatch", "doctor", str(tmp_path)])
    assert "LANG=x\\x1b[31m" in done.stdout and "\x1b" not in done.stdout


def test_doctor_fits_80_columns_on_a_terminal(alone, on_terminal, tmp_path):
    text, code = on_terminal([sys.executable, "-m", "goldwatch", "doctor", str(tmp_path)], 80)
    assert code == 0 and max(len(line) for line in text.splitlines()) <= 80


def test_doctor_runs_without_any_environment_variable(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "goldwatch", "doctor", str(tmp_path)],
        env={}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and "PATH %s" % tmp_path in done.stdout, done.stderr


def test_the_command_imports_no_package_that_may_be_broken():
    code = (
        "import sys, goldwatch.cli.doctor; print([name for name in ('numpy', 'google.protobuf', "
        "'watchdog') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        universal_newlines=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "[]\n"


@pytest.fixture
def conda(alone, monkeypatch, tmp_path):
    """A conda environment with packages of its own, in a folder; its ``python`` is broken."""
    environment = tmp_path / "conda" / "envs" / "old"
    (environment / "bin").mkdir(parents=True)
    (environment / "site").mkdir()
    for name, line in (
        (
            "python3",
            'PYTHONPATH=%s exec %s -S "$@"' % (environment / "site", sys.executable),
        ),
        ("python", "exit 3"),
    ):
        (environment / "bin" / name).write_text("#!/bin/sh\n%s\n" % line)
        (environment / "bin" / name).chmod(0o755)
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "conda" / "bin" / "conda"))
    # Each environment counts once, and the wrapper says that it is this one.
    monkeypatch.setattr(packages, "own_python", lambda: "")
    return environment


def test_frameworks_are_imported_in_their_own_pythons(conda):
    (conda / "site" / "caffe.py").write_text("__version__ = '1.0.0'\n")
    (conda / "site" / "tensorflow.py").write_text("raise TypeError('Downgrade protobuf')\n")
    (conda / "site" / "onnxruntime.py").write_text(
        "import os, signal; os.kill(os.getpid(), signal.SIGILL)\n"
    )
    (python,) = packages.all_pythons()
    assert python.path == str(conda / "bin" / "python3")
    assert [(one["name"], one["version"], one["problem"]) for one in python.states] == [
        ("caffe", "1.0.0", None),
        ("tensorflow", "", "TypeError: Downgrade protobuf"),
        ("onnxruntime", "", "killed by SIGILL"),
    ]


def test_a_python_that_hangs_does_not_keep_others_from_being_checked(conda, monkeypatch):
    (conda / "bin" / "python").write_text("#!/bin/sh\nexec sleep 1000\n")
    monkeypatch.setattr(packages, "_LIMIT_S", 5.0)
    assert [python.path for python in packages.all_pythons()] == [str(conda / "bin" / "python3")]


def test_the_report_is_a_markdown_block_without_the_home_folder(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "dump").mkdir()
    done = run_here(["goldwatch", "doctor", str(tmp_path / "dump"), "--report"])
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0] == "```text" and lines[-1] == "```"
    assert "PATH ~/dump" in lines and str(tmp_path) + "/" not in done.stdout
    assert run_here(["goldwatch", "doctor", "--report", "--format", "json"]).returncode == 2


def test_listed_extras_and_packages_are_those_of_pyproject():
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as stream:
        text = stream.read()
    extras = text[text.index("[project.optional-dependencies]") : text.index("[project.scripts]")]
    names = {line.partition(" =")[0] for line in extras.splitlines() if " = [" in line} - {
        "test",
        "lint",
        "browser",
        "docs",
    }
    assert names == set(EXTRAS)
    needed = text[text.index("dependencies = [") : text.index("classifiers")]
    for module in NEEDED[:-1]:
        assert '"%s>=' % name_of(module) in needed
    for name, (_, modules) in EXTRAS.items():
        for module in modules:
            assert re.search(r'%s = \[.*"%s\b' % (name, name_of(module)), extras, re.S)
