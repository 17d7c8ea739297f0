"""The commands of docs/tensorflow.md, in order, in one folder with the examples."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from pages import steps_of

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "..", "docs")


def commands():
    """Return the page's commands but those that install something or need TensorFlow 2."""
    return [
        step.command for step in steps_of("docs/tensorflow.md") if step.needs in ("", "tensorflow")
    ]


@pytest.fixture
def examples(tmp_path):
    for name in os.listdir(os.path.join(DOCS, "examples")):
        if name.startswith("tf_"):
            shutil.copy(os.path.join(DOCS, "examples", name), str(tmp_path))
    shutil.copy(
        os.path.join(HERE, "..", "..", "data", "tensorflow", "lt_listing_infer.txt"),
        str(tmp_path / "tensor_name"),
    )
    (tmp_path / "saved_by_hand").mkdir()
    np.save(str(tmp_path / "saved_by_hand" / "bn.1_Const.0.1700000000000000.npy"), np.ones(2))
    return tmp_path


def run(line, folder):
    line = re.sub(r"^goldwatch ", "%s -m goldwatch " % sys.executable, line)
    line = re.sub(r"^python ", "%s " % sys.executable, line)
    done = subprocess.run(
        line,
        shell=True,
        cwd=str(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout.decode()


@pytest.mark.tensorflow
def test_every_command_of_the_page_runs(examples, read_golden):
    lines = commands()
    assert len(lines) >= 8
    for line in lines:
        run(line, examples)
    prob = read_golden(examples / "golden_session").one("prob")
    assert prob.shape == (1, 3) and abs(float(prob.sum()) - 1) < 1e-6
    assert sorted(os.listdir(str(examples / "golden_estimator"))) == ["0", "3", "5"]
    frozen, saved = read_golden(examples / "golden_frozen"), read_golden(examples / "golden_saved")
    assert frozen.one("prob").tobytes() == saved.one("prob").tobytes()
    assert os.listdir(str(examples / "saved_by_hand")) == ["bn_1_Const.0.1700000000000000.npy"]


@pytest.mark.tensorflow
def test_the_library_example_runs(examples, read_golden):
    run("python tf_library.py out", examples)
    assert read_golden(examples / "out" / "golden").one("prob").shape == (1, 3)
    assert "fc/BiasAdd" in read_golden(examples / "out" / "golden_monitored").ops


if os.environ.get("GOLDWATCH_TF_PYTHON"):

    def test_a_script_runs_in_another_python_than_goldwatch(tmp_path, examples, read_golden, tf):
        """Goldwatch runs here, the script where TensorFlow is."""
        python = os.environ["GOLDWATCH_TF_PYTHON"]
        done = tf("dump", "-o", "a", "--python", python, "--", "python", "tf_session.py")
        assert done.code == 0, done.err
        assert read_golden(tmp_path / "a").one("prob").shape == (1, 3)
        done = tf("dump", "-o", "b", "--", python, "tf_session.py")
        assert done.code == 0, done.err
        assert (
            read_golden(tmp_path / "a").one("prob").tobytes()
            == read_golden(tmp_path / "b").one("prob").tobytes()
        )
