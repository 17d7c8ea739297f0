"""``golden fx dump`` from the script to the files, with a stand-in for PyTorch (in stand_in/); the
real one: scripts/fx_trial.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from in_process import run_here

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = """
import sys, torch, torch_npu, torchair
from torchair.configs.compiler_config import CompilerConfig
config = CompilerConfig()
config.dump_config.enable_dump = True
backend = torchair.get_npu_backend(compiler_config=config, custom_decompositions={"an op": "its parts"})
torch.npu.set_device(0)
x = torch.zeros(2, 3, device="npu:0").npu().to(torch.device("npu:0"))
x.values[:] = -2
x.values[0, 0] = float(sys.argv[1])
model = torch.compile(torch.nn.Module().npu(), backend=backend, dynamic=False, mode="max-autotune")
for call in range(3):
    print(model(x).values[0, 0])
"""  # noqa: E501


def dump(tmp_path, monkeypatch, text, *more, version="2.9.1+cpu", name="infer.py"):
    monkeypatch.setenv("PYTHONPATH", os.path.join(HERE, "stand_in"))
    monkeypatch.setenv("FX_TORCH_VERSION", version)
    (tmp_path / name).write_text(text)
    words = [
        "goldwatch",
        "golden",
        "fx",
        "dump",
        "-o",
        "golden",
        "--python",
        sys.executable,
        "--format",
        "json",
        *more,
        name,
        "3",
    ]
    return run_here(words, tmp_path)


def test_ranks_write_beside_each_other_and_a_failing_one_shows_its_traceback(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        done = dump(tmp_path, monkeypatch, SCRIPT, "--tokens", "0")
        assert done.returncode == 0 and json.loads(done.stdout)["folder"].endswith(
            "worldsize2_global_rank" + rank
        ), done.stdout
    failing = "def inner():\n    raise ValueError('boom')\n\ninner()\n"
    refused = dump(tmp_path, monkeypatch, failing)
    assert refused.returncode == 2
    done = dump(tmp_path, monkeypatch, failing, "--force")
    assert done.returncode == 4 and "boom" in json.loads(done.stdout)["error"]["message"]
    shown = capfd.readouterr().err.splitlines()
    assert [line.split('"')[1] for line in shown if line.startswith("  File")] == [
        "infer.py"
    ] * 2 and "ValueError: boom" in shown


def test_each_call_of_a_graph_is_written_as_torchair_writes_it(tmp_path, monkeypatch):
    done = dump(tmp_path, monkeypatch, SCRIPT, "--tokens", "0|2")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["graphs"], told["calls"], told["kept"], told["files"]) == (1, 3, 2, 10)
    folder = tmp_path / "golden" / "worldsize1_global_rank0"
    assert sorted(os.listdir(str(folder / "graph_1"))) == ["0", "2"]
    found = {
        name.rpartition(".2")[0]: np.load(str(folder / "graph_1" / "2" / name))
        for name in os.listdir(str(folder / "graph_1" / "2"))
    }
    assert sorted(found) == [
        "add-aten.add.Tensor.INPUT.0", "add-aten.add.Tensor.INPUT.1",
        "add-aten.add.Tensor.OUTPUT.0",
        "relu-aten.relu.default.INPUT.0", "relu-aten.relu.default.OUTPUT.0",
    ]  # fmt: skip
    assert found["relu-aten.relu.default.INPUT.0"].tolist() == [[3, -2, -2], [-2, -2, -2]]
    assert found["add-aten.add.Tensor.OUTPUT.0"].tolist() == [[4, 1, 1], [1, 1, 1]]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (
        manifest["complete"]
        and manifest["backend_version"] == "2.9.1+cpu"
        and len(manifest["tensors"]) == 10
        and manifest["notes"]
    )
    again = dump(tmp_path, monkeypatch, SCRIPT)
    assert again.returncode == 2 and "--force" in json.loads(again.stdout)["error"]["hint"]


@pytest.mark.parametrize(
    ("text", "version", "code", "said"),
    [
        ("import torch\n", "2.9.1", 4, "the script compiles nothing"),
        ("import torch\n", "2.0.1", 4, "has PyTorch 2.0.1"),
        ("import sys\nsys.exit('no licence')\n", "2.9.1", 4, "the script ended: no licence"),
        (
            "import torch_npu\ntorch_npu.npu_fusion_attention(1)\n",
            "2.9.1",
            4,
            "the NPU's own op npu_fusion_attention",
        ),
    ],
)
def test_a_script_that_cannot_give_golden_data_is_refused_with_the_reason(
    tmp_path, monkeypatch, text, version, code, said
):
    done = dump(tmp_path, monkeypatch, text, version=version)
    assert (
        done.returncode == code and said in json.loads(done.stdout)["error"]["message"]
    ), done.stdout
