"""The wheel holds every module, schema and message file of the source tree, and nothing else.

An editable install imports packages that pyproject.toml forgets, and a wheel leaves them out
without a word.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACES = {
    "orchestrator": "goldwatch",
    "adapters": "goldwatch/adapters",
    "schemas": "goldwatch/schemas",
    "proto": "goldwatch/proto",
}
ABOUT = {"LICENSE", "METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt"}


def sources():
    """Return every file of the source folders under the name it must have in the wheel."""
    found = set()
    for folder, package in PLACES.items():
        for path, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders[:] = [name for name in folders if name != "__pycache__"]
            names = [name for name in names if not name.endswith(".so")]
            rel = os.path.relpath(path, os.path.join(ROOT, folder)).replace(os.sep, "/")
            found.update(
                "/".join(part for part in (package, rel, name) if part != ".") for name in names
            )
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of all that a distribution is built from: nothing is written to the checkout."""
    copy = str(tmp_path_factory.mktemp("source"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(os.path.join(ROOT, name), copy)
    for folder in PLACES:
        shutil.copytree(
            os.path.join(ROOT, folder),
            os.path.join(copy, folder),
            ignore=shutil.ignore_patterns("__pycache__", "*.so"),
        )
    return copy


def build(copy, what, **variables):
    """Build a distribution with this environment's setuptools, without a network; return the path
    of its file.
    """
    program = (
        "from setuptools import build_meta; print('built: ' + build_meta.build_%s('dist'))" % what
    )
    built = subprocess.run(
        [sys.executable, "-c", program], cwd=copy, env=dict(os.environ, **variables),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        universal_newlines=True, timeout=300,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (name,) = [line[7:] for line in built.stdout.splitlines() if line.startswith("built: ")]
    return os.path.join(copy, "dist", name)


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


@pytest.fixture(scope="module")
def wheel(copy):
    """The wheel's files but for what was compiled."""
    return {
        name: data
        for name, data in contents(build(copy, "wheel")).items()
        if not name.endswith(".so")
    }


def test_the_wheel_holds_the_compiled_kernel_where_a_compiler_exists(copy) -> None:
    """It is one for all Pythons; without a compiler the wheel is built all the same."""
    for compiler in (sysconfig.get_config_var("CC") or "cc", "false"):
        shutil.rmtree(os.path.join(copy, "build"), ignore_errors=True)
        path = build(copy, "wheel", CC=compiler)
        libraries = [name for name in contents(path) if name.endswith(".so")]
        works = shutil.which(compiler.split()[0]) is not None and compiler != "false"
        assert libraries == ["goldwatch/metrics/compiled/_kernel.abi3.so"] * works
        assert "-cp37-abi3-" in path or sysconfig.get_config_var("Py_GIL_DISABLED")


def test_a_pure_wheel_serves_machines_without_a_compiled_one(copy, tmp_path):
    """pip takes the compiled one where it can, from a folder and without a network."""
    for variables in ({}, {"GOLDWATCH_BUILD": "pure"}):
        shutil.rmtree(os.path.join(copy, "build"), ignore_errors=True)
        shutil.copy(build(copy, "wheel", **variables), str(tmp_path))
    (pure,) = [name for name in os.listdir(str(tmp_path)) if name.endswith("-py3-none-any.whl")]
    assert not any(name.endswith(".so") for name in contents(str(tmp_path / pure)))
    place = tmp_path / "installed"
    words = ["--no-index", "--no-deps", "--find-links", str(tmp_path), "--target", str(place)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *words, "goldwatch"], check=True, timeout=300
    )
    compiled = [name for name in os.listdir(str(tmp_path)) if "-abi3-linux_" in name]
    kernel = place / "goldwatch" / "metrics" / "compiled" / "_kernel.abi3.so"
    assert kernel.exists() == bool(compiled) and (place / "bin" / "goldwatch").exists()


def test_the_source_distribution_holds_the_sources_of_the_kernel(copy) -> None:
    with tarfile.open(build(copy, "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in (
        "setup.py",
        *(
            "orchestrator/metrics/compiled/" + name
            for name in ("kernel.c", "lanes.h", "passes.h", "_kernel.pyi")
        ),
    ):
        assert name in names


def test_the_wheel_holds_exactly_the_source_tree(wheel) -> None:
    about = {name for name in wheel if ".dist-info/" in name}
    assert set(wheel) - about == sources()
    assert {os.path.basename(name) for name in about} == ABOUT


def test_files_in_the_wheel_equal_the_sources(wheel) -> None:
    for folder, package in PLACES.items():
        name = package + "/__init__.py"
        with open(os.path.join(ROOT, folder, "__init__.py"), "rb") as stream:
            assert wheel[name] == stream.read()


def test_the_wheel_holds_data_files_and_requirements(wheel) -> None:
    for name in (
        "goldwatch/py.typed",
        "goldwatch/schemas/store.sql",
        "goldwatch/proto/dump_data.proto",
        "goldwatch/proto/dump_data.desc",
    ):
        assert name in wheel
    (entry_points,) = [data for name, data in wheel.items() if name.endswith("/entry_points.txt")]
    assert b"goldwatch = goldwatch.__main__:main" in entry_points
    (metadata,) = [
        data.decode("utf-8") for name, data in wheel.items() if name.endswith("/METADATA")
    ]
    required = [
        line.split()[1]
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert {re.split("[^a-z]", text)[0] for text in required} == {
        "numpy",
        "protobuf",
        "jsonschema",
        "watchdog",
        "click",
    }
    assert "Requires-Python: >=3.7" in metadata


def test_every_package_on_disk_is_listed() -> None:
    """The same from the other side: a folder with modules in it is a package of pyproject.toml."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as stream:
        text = stream.read()
    listed = set(
        text.partition("packages = [")[2]
        .partition("]")[0]
        .replace('"', "")
        .replace(",", "")
        .split()
    )
    on_disk = {
        os.path.dirname(name).replace("/", ".") for name in sources() if name.endswith(".py")
    }
    assert listed == on_disk
