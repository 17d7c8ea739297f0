"""The wheel holds every module, schema and message file of the source tree, and nothing else.

An editable install imports packages that pyproject.toml forgets, and a wheel leaves them out without a word.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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
            rel = os.path.relpath(path, os.path.join(ROOT, folder)).replace(os.sep, "/")
            found.update("/".join(part for part in (package, rel, name) if part != ".") for name in names)
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy, with this environment's setuptools: no network, and nothing is written to the checkout."""
    copy = str(tmp_path_factory.mktemp("source"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(os.path.join(ROOT, name), copy)
    for folder in PLACES:
        shutil.copytree(os.path.join(ROOT, folder), os.path.join(copy, folder), ignore=shutil.ignore_patterns("__pycache__"))
    program = "from setuptools import build_meta; print('wheel: ' + build_meta.build_wheel('dist'))"
    built = subprocess.run(
        [sys.executable, "-c", program], cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300
    )
    assert built.returncode == 0, built.stderr
    (name,) = [line[7:] for line in built.stdout.splitlines() if line.startswith("wheel: ")]
    with zipfile.ZipFile(os.path.join(copy, "dist", name)) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def test_the_wheel_is_the_source_tree(wheel) -> None:
    about = {name for name in wheel if ".dist-info/" in name}
    assert set(wheel) - about == sources()
    assert {os.path.basename(name) for name in about} == ABOUT


def test_files_are_the_same(wheel) -> None:
    for folder, package in PLACES.items():
        name = package + "/__init__.py"
        with open(os.path.join(ROOT, folder, "__init__.py"), "rb") as stream:
            assert wheel[name] == stream.read()


def test_what_the_package_needs_beside_its_modules_is_there(wheel) -> None:
    for name in ("goldwatch/py.typed", "goldwatch/schemas/store.sql", "goldwatch/proto/dump_data.proto", "goldwatch/proto/dump_data.desc"):
        assert name in wheel
    (entry_points,) = [data for name, data in wheel.items() if name.endswith("/entry_points.txt")]
    assert b"goldwatch = goldwatch.__main__:main" in entry_points
    (metadata,) = [data.decode("utf-8") for name, data in wheel.items() if name.endswith("/METADATA")]
    required = [line.split()[1] for line in metadata.splitlines() if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert {re.split("[^a-z]", text)[0] for text in required} == {"numpy", "protobuf", "jsonschema", "watchdog", "click"}
    assert "Requires-Python: >=3.7" in metadata


def test_every_package_on_disk_is_listed() -> None:
    """The same from the other side: a folder with modules in it is a package of pyproject.toml."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as stream:
        text = stream.read()
    listed = set(text.partition("packages = [")[2].partition("]")[0].replace('"', "").replace(",", "").split())
    on_disk = {os.path.dirname(name).replace("/", ".") for name in sources() if name.endswith(".py")}
    assert listed == on_disk
