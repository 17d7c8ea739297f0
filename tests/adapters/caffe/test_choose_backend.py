"""Which backend ``golden caffe dump`` chooses, and the message when Caffe cannot be imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv

import numpy as np
import pytest

from goldwatch.adapters.caffe.choose_backend import ModulePaths, choose_backend
from goldwatch.adapters.caffe.dump import DumpOptions, dump
from goldwatch.base.errors import EnvironmentProblem, InputError, MissingPath


def test_auto_prefers_caffe_where_it_can_be_imported(standin_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", standin_path)
    assert choose_backend("auto", None).backend == "caffe"
    chosen = choose_backend("auto", sys.executable)
    assert (chosen.backend, chosen.python, chosen.reason) == (
        "caffe",
        sys.executable,
        "Caffe is there, in " + sys.executable,
    )
    assert chosen.notes == ["backend caffe: " + chosen.reason]
    monkeypatch.delenv("PYTHONPATH")
    chosen = choose_backend("auto", sys.executable)
    assert chosen.backend == "numpy"
    assert chosen.notes == [
        "backend numpy: Caffe was not used: no module caffe in %s" % sys.executable
    ]
    with pytest.raises(EnvironmentProblem, match="no backend to run the model: no module caffe in"):
        choose_backend("caffe", sys.executable)


def test_an_empty_caffe_package_is_not_taken_for_caffe(tmp_path, monkeypatch):
    (tmp_path / "caffe").mkdir()
    (tmp_path / "caffe" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="has no attribute 'Net'"):
        choose_backend("caffe", sys.executable)
    assert choose_backend("auto", sys.executable).backend == "numpy"


def test_the_whole_import_error_of_caffe_is_reported(tmp_path, monkeypatch):
    (tmp_path / "caffe").mkdir()
    code = (
        "try:\n    import no_such_boost\nexcept ImportError:\n    raise RuntimeError('first "
        "line\\nsecond line')\n"
    )
    (tmp_path / "caffe" / "__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    notes = choose_backend("auto", sys.executable).notes
    assert len(notes) == 1
    assert (
        "RuntimeError: first line second line; ModuleNotFoundError: No module named 'no_such_boost'"
        in notes[0]
    )


def test_a_python_of_another_environment_is_tried_though_it_links_to_the_same_interpreter(
    tmp_path, monkeypatch, standin_path
):
    """Its file is a link to the very interpreter that runs here; its environment is its own."""
    venv.create(str(tmp_path / "other"), symlinks=True, with_pip=False)
    site = subprocess.check_output(
        [
            str(tmp_path / "other" / "bin" / "python"),
            "-c",
            "import site; print(site.getsitepackages()[0])",
        ],
        universal_newlines=True,
    ).strip()
    with open(os.path.join(site, "all.pth"), "w", encoding="utf-8") as stream:
        own = os.path.dirname(os.path.dirname(np.__file__))
        stream.write("%s\n%s\n" % (standin_path, own))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "other" / "bin"))
    assert os.path.realpath(str(tmp_path / "other" / "bin" / "python")) == os.path.realpath(
        sys.executable
    )
    chosen = choose_backend("caffe", None)
    assert chosen.python.startswith(str(tmp_path / "other" / "bin"))


def test_caffe_root_and_python_layers_beside_the_prototxt_are_found_from_another_folder(
    tmp_path, monkeypatch, standin_path
):
    """The same module paths count when Caffe is looked for and when it runs; another folder than
    the current one holds the net.
    """
    monkeypatch.delenv("PYTHONPATH", raising=False)
    root, net = tmp_path / "built", tmp_path / "net"
    (root / "python").mkdir(parents=True)
    os.symlink(os.path.join(standin_path, "caffe"), str(root / "python" / "caffe"))
    net.mkdir()
    (net / "mine.py").write_text(
        "class Twice:\n    def forward(self, bottoms):\n        return [2 * bottom for bottom "
        "in bottoms]\n"
    )
    text = 'input: "data" input_dim: 1 input_dim: 4 input_dim: 3 input_dim: 3\n'
    text += (
        'layer { name: "p" type: "Python" bottom: "data" top: "p" python_param { module: "mine" '
        'layer: "Twice" } }\n'
    )
    (net / "m.prototxt").write_text(text)
    (net / "m.caffemodel").write_bytes(b"")
    fed = np.random.RandomState(7).standard_normal((1, 4, 3, 3)).astype(np.float32)
    np.save(str(tmp_path / "x.npy"), fed)
    options = {"inputs": ["data=%s/x.npy" % tmp_path], "python": sys.executable}
    files = (str(net / "m.prototxt"), str(net / "m.caffemodel"))
    for number, named in enumerate((root, root / "python")):
        out = tmp_path / str(number)
        done = dump(DumpOptions(*files, str(out), caffe_root=str(named), **options))
        assert (done["backend"], done["notes"]) == (
            "caffe",
            ["backend caffe: Caffe is there, in " + sys.executable],
        )
        with open(str(out / "manifest.json"), encoding="utf-8") as stream:
            found = {
                entry["op"]: np.load(str(out / entry["file"]))
                for entry in json.load(stream)["tensors"]
            }
        np.testing.assert_array_equal(found["p"], 2 * fed)
    with pytest.raises(MissingPath, match="holds no python/caffe/__init__.py"):
        ModulePaths.of(files[0], str(net))
    (net / "mine.py").write_text("import no_such_module\n")
    with pytest.raises(
        InputError,
        match=r"layer p \(Python\): its module mine cannot be imported: .*No module named "
        r"'no_such_module'",
    ):
        dump(DumpOptions(*files, str(tmp_path / "o"), caffe_root=str(root), **options))
    (net / "mine.py").write_text("class Twice:\n    def forward(self bottoms): pass\n")
    with pytest.raises(
        InputError, match=r"caffe raised SyntaxError: invalid syntax.* \(mine.py, line 2\)$"
    ):
        dump(DumpOptions(*files, str(tmp_path / "o"), caffe_root=str(root), **options))
    (net / "mine.py").write_text(
        "class Twice:\n    def forward(self, bottoms):\n        raise ValueError('seven bottoms')\n"
    )
    with pytest.raises(InputError, match="ValueError: seven bottoms .*mine.py, line 3, in forward"):
        dump(DumpOptions(*files, str(tmp_path / "o"), caffe_root=str(root), **options))
    assert not (tmp_path / "o").exists()
    (net / "mine.py").unlink()
    with pytest.raises(
        InputError,
        match=r"layer p \(Python\): its module mine cannot be imported: .*No module named 'mine'",
    ):
        dump(DumpOptions(*files, str(tmp_path / "o"), caffe_root=str(root), **options))
    # Everything is saved, and then a library ends the process with a code of its own.
    twice = (
        "class Twice:\n    def forward(self, bottoms):\n        return [2 * bottom for bottom in "
        "bottoms]\n"
    )
    (net / "mine.py").write_text("import atexit, os\natexit.register(os._exit, 9)\n" + twice)
    with pytest.raises(InputError, match="exit code 9"):
        dump(DumpOptions(*files, str(tmp_path / "o"), caffe_root=str(root), **options))
    with open(str(tmp_path / "o" / "manifest.json"), encoding="utf-8") as stream:
        manifest = json.load(stream)
    assert manifest["complete"] is False and len(manifest["tensors"]) == 2


def test_a_caffe_that_was_asked_for_but_cannot_be_imported_is_an_error(tmp_path):
    (tmp_path / "python" / "caffe").mkdir(parents=True)
    (tmp_path / "python" / "caffe" / "__init__.py").write_text(
        "raise ImportError('libcaffe.so.1.0.0: cannot open')"
    )
    with pytest.raises(EnvironmentProblem, match="libcaffe.so.1.0.0: cannot open"):
        choose_backend("auto", sys.executable, ModulePaths.of("net.prototxt", str(tmp_path)))
