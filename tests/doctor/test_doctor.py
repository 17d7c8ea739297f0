"""`goldwatch doctor`: what it finds, in whatever state the machine is."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jsonschema
import pytest
from in_process import run_here

from goldwatch.doctor import frameworks, packages
from goldwatch.doctor.packages import EXTRAS, NEEDED
from goldwatch.schemas import load_text

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


def test_the_document_and_the_folders_below(alone, tmp_path):
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


def test_a_file_means_its_folder_and_what_is_not_there_is_4(alone, tmp_path):
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
        "SIGABRT"
        in [entry["problem"] for entry in document["packages"] if entry["name"] == name][0]
    )


def test_an_optional_package_that_cannot_be_imported_is_a_warning(alone, monkeypatch, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "cv2.py").write_text(
        "raise SystemError('built for \\x1b[31m another numpy')\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "modules"), *sys.path])
    document = document_of(str(tmp_path))
    assert rules(document)["package-broken"] == "warning" and not document["extras"][0]["there"]
    done = run_here(["goldwatch", "doctor", str(tmp_path)])
    assert (
        done.returncode == 0
        and "\x1b" not in done.stdout
        and "SystemError: built for \\x1b[31m another numpy" in done.stdout
    )


def test_a_broken_numpy_on_pythonpath_is_named_with_its_file_and_blamed_alone(alone, tmp_path):
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
    assert one["fix"] == "take %s off PYTHONPATH, or unset PYTHONPATH" % (tmp_path / "modules")


def test_a_package_that_hangs_is_named_before_it_is_waited_for_and_not_for_long(
    alone, monkeypatch, tmp_path
):
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


def test_without_a_kernel_goldwatch_is_unusable(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("GOLDWATCH_KERNEL", "quick")
    document = document_of(str(tmp_path), code=4)
    assert rules(document)["kernel"] == "problem"


def test_values_of_the_environment_are_escaped(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("LANG", "x\x1b[31m")
    done = run_here(["goldwatch", "doctor", str(tmp_path)])
    assert "LANG=x\\x1b[31m" in done.stdout and "\x1b" not in done.stdout


def test_on_a_terminal_it_fits_80_columns(alone, on_terminal, tmp_path):
    text, code = on_terminal([sys.executable, "-m", "goldwatch", "doctor", str(tmp_path)], 80)
    assert code == 0 and max(len(line) for line in text.splitlines()) <= 80


def test_it_starts_with_no_environment_at_all(tmp_path):
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


def test_frameworks_are_found_in_other_pythons(alone, monkeypatch, tmp_path):
    """A Python of a conda environment: Caffe on its path, TensorFlow beside a protobuf too new."""
    environment = tmp_path / "conda" / "envs" / "old"
    (environment / "bin").mkdir(parents=True)
    site = environment / "site"
    (site / "caffe").mkdir(parents=True)
    (site / "caffe" / "__init__.py").write_text("Net, __version__ = object, '1.0.0'\n")
    for name in ("tensorflow-1.15.5.dist-info", "protobuf-4.22.5.dist-info"):
        (site / name).mkdir()
    wrapper = environment / "bin" / "python3"
    wrapper.write_text('#!/bin/sh\nPYTHONPATH=%s exec %s "$@"\n' % (site, sys.executable))
    wrapper.chmod(0o755)
    broken = environment / "bin" / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "conda" / "bin" / "conda"))
    monkeypatch.setattr(frameworks, "own_python", lambda: None)
    document = document_of(str(tmp_path))
    found = {(entry["name"], entry["version"], entry["python"]) for entry in document["frameworks"]}
    assert {("caffe", "1.0.0", str(wrapper)), ("tensorflow", "1.15.5", str(wrapper))} <= found
    assert rules(document)["tensorflow-protobuf"] == "warning"
    (site / "caffe" / "__init__.py").write_text("raise ImportError('libcaffe.so: not there')\n")
    document = document_of(str(tmp_path))
    assert (
        rules(document)["framework-broken"] == "warning"
        and "libcaffe.so" in document["frameworks"][0]["problem"]
    )


def test_a_python_that_hangs_keeps_no_other_from_being_asked(alone, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    for name, line in (
        ("python", "exec sleep 1000"),
        ("python3", 'exec %s -S "$@"' % sys.executable),
    ):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n%s\n" % line)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", "%s:/usr/bin:/bin" % (tmp_path / "bin"))
    monkeypatch.setattr(frameworks, "_EACH_S", 5.0)
    monkeypatch.setattr(frameworks, "own_python", lambda: None)
    pythons, silent = frameworks.all_pythons()
    assert silent == [str(tmp_path / "bin" / "python")] and pythons[0].path == str(
        tmp_path / "bin" / "python3"
    )


def test_extras_and_oldest_versions_are_those_of_the_project():
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as stream:
        text = stream.read()
    extras = text[text.index("[project.optional-dependencies]") : text.index("[project.scripts]")]
    names = {line.partition(" =")[0] for line in extras.splitlines() if " = [" in line} - {
        "test",
        "lint",
        "browser",
    }
    assert names == {extra.name for extra in EXTRAS}
    for package in NEEDED[:-1]:
        assert '"%s>=%s' % (package.name, package.oldest) in text
