"""A small network on the stand-in of a device, and its golden data."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, List, Optional

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps import write_dump
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.result import RunResult
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

TIMESTAMP = 1767323045000000


class SmallNetwork:
    """data -> Cast -> TransData -> fused ops -> fc, with the golden values of each original op."""

    def __init__(self, folder: str, broken: bool = False, ops: int = 3) -> None:
        self.folder = folder
        self.target = os.path.join(folder, "dump")
        self.golden = os.path.join(folder, "golden")
        self.model_path = os.path.join(folder, "net.json")
        self.out = os.path.join(folder, "out")
        os.makedirs(self.golden)
        random = np.random.default_rng(7)
        data = random.standard_normal((2, 3, 4, 5)).astype(np.float32)
        self.values: Dict[str, np.ndarray] = {"data": data}
        model = self.model = DeviceModel("net")
        model.add(DeviceOp("data", "Data", (), (DeviceTensor(data, "NCHW", "NCHW", "data"),)))
        half = data.astype(np.float16)
        model.add(
            DeviceOp(
                "trans_Cast_0",
                "Cast",
                (("data", 0),),
                (DeviceTensor(half, "NCHW", "NCHW", "data"),),
                (),
            )
        )
        layout = DeviceTensor(half, "NC1HWC0", "NCHW", "conv")
        model.add(DeviceOp("trans_TransData_1", "TransData", (("trans_Cast_0", 0),), (layout,), ()))
        source, value, exact = ("trans_TransData_1", 0), half.astype(np.float32), data
        for number in range(ops):
            name = "op/%d" % number
            exact = 0.5 - exact
            value = 0.5 - value
            if broken and number == 1:
                value = value[:, ::-1]
            self.values[name] = exact.astype(np.float32)
            output = DeviceTensor(value.astype(np.float16), "NC1HWC0", "NCHW", name)
            model.add(
                DeviceOp(name + "_fused", "Conv2D", (source,), (output,), ("pre_" + name, name))
            )
            source = (name + "_fused", 0)
        flat = value.reshape(2, -1)
        self.values["fc"] = exact.reshape(2, -1).astype(np.float32)
        model.add(
            DeviceOp(
                "fc",
                "MatMul",
                (source,),
                (DeviceTensor(flat.astype(np.float16), "FRACTAL_NZ", "ND", "fc"),),
                ("fc",),
            )
        )
        model.add(DeviceOp("Node_Output", "NetOutput", (("fc", 0),), (), ()))
        model.write_json(self.model_path)
        for name, array in self.values.items():
            self.write_golden(name, array)

    def golden_path(self, name: str, index: int = 0) -> str:
        return os.path.join(
            self.golden, "%s.%d.%d.npy" % (name.replace("/", "_"), index, TIMESTAMP)
        )

    def write_golden(self, name: str, array: Any) -> None:
        np.save(self.golden_path(name), array)

    def dump(self, **place: Any) -> List[str]:
        return self.model.write_tree(self.target, **place)

    def command(self, *options: str, **replaced: str) -> List[str]:
        parts = {
            "target": self.target,
            "golden": self.golden,
            "out": self.out,
            "model": self.model_path,
        }
        parts.update(replaced)
        model = ["-f", parts["model"]] if parts["model"] else []
        return [
            sys.executable,
            "-m",
            "goldwatch",
            "compare",
            parts["target"],
            parts["golden"],
            "-o",
            parts["out"],
            *model,
            *options,
        ]

    def compare(self, *options: str, **replaced: str) -> Any:
        return run_here(self.command(*options, **replaced))

    def result(self) -> Dict[str, Any]:
        with open(os.path.join(self.out, "result.json"), encoding="utf-8") as stream:
            return json.load(stream)

    def rows(self) -> Dict[str, Dict[str, Any]]:
        return {row["tensor"]: row for row in self.result()["rows"]}


@pytest.fixture
def network(tmp_path):
    return SmallNetwork(str(tmp_path))


@pytest.fixture
def make_network(tmp_path):
    return lambda **options: SmallNetwork(str(tmp_path), **options)


VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1


class Case:
    """Folders written file by file, and a comparison in this process."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.target, self.golden, self.out = (
            os.path.join(folder, name) for name in ("target", "golden", "out")
        )
        self.ops: List[Dict[str, Any]] = []
        self.model: Optional[str] = None
        self.notes: List[str] = []
        self.files = 0

    def dump(
        self, side: str, place: str, op_type: str, op: str, inputs: Any = (), outputs: Any = ()
    ) -> str:
        folder = os.path.join(self.folder, side, place)
        os.makedirs(folder, exist_ok=True)
        self.files += 1
        path = os.path.join(
            folder, "%s.%s.%d.0.%d" % (op_type, op, self.files, TIMESTAMP + self.files)
        )
        write_dump(path, inputs, outputs)
        return path

    def npy(self, name: str, values: Any = VALUES, below: str = "", later: int = 0) -> str:
        os.makedirs(os.path.join(self.golden, below), exist_ok=True)
        path = os.path.join(self.golden, below, "%s.0.%d.npy" % (name, TIMESTAMP + later))
        np.save(path, values)
        return path

    def op(self, name: str, op_type: str, *inputs: str, **texts: str) -> None:
        attrs = [{"key": key, "value": {"s": text}} for key, text in texts.items()]
        op = {
            "name": name,
            "type": op_type,
            "id": len(self.ops),
            "input": list(inputs),
            "output_desc": [{"layout": "ND"}],
            "attr": attrs,
        }
        self.ops.append(op)
        self.model = os.path.join(self.folder, "net.json")
        with open(self.model, "w", encoding="utf-8") as stream:
            json.dump({"graph": [{"name": "net", "op": self.ops}]}, stream)

    def compare(self, on_progress: Any = None, **options: Any) -> RunResult:
        result = compare_folders(
            ComparisonOptions(self.target, self.golden, self.out, self.model, **options),
            on_progress=on_progress,
        )
        self.notes = [*result.notes, *result.left_out]
        return result

    def document(self) -> Dict[str, Any]:
        with open(os.path.join(self.out, "result.json"), encoding="utf-8") as stream:
            return dict(json.load(stream))

    def rows(self) -> List[Dict[str, Any]]:
        return list(self.document()["rows"])


@pytest.fixture
def case(tmp_path):
    return Case(str(tmp_path))
