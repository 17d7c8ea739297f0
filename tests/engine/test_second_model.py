"""A second model file beside the model: the quantisation json, and the json of a build without fusion."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from goldwatch.engine.listed import compare_folders
from goldwatch.engine.options import ComparisonOptions
from goldwatch.errors import MissingPath, UsageError
from goldwatch.testing.model import DeviceModel, DeviceOp, DeviceTensor


def half(array, *origin, layout="NC1HWC0"):
    return DeviceTensor(array.astype(np.float16), layout, "NCHW", *origin)


@pytest.fixture
def values():
    random = np.random.default_rng(11)
    data = random.standard_normal((1, 20, 5, 6)).astype(np.float32)
    conv = data * 2 - 0.25
    relu = np.maximum(conv, 0)
    return {"data": data, "conv": conv, "relu": relu, "prob": relu + 1}


def write_golden(folder, values):
    os.makedirs(folder, exist_ok=True)
    for name, array in values.items():
        np.save(os.path.join(folder, "%s.0.1767323045000000.npy" % name), array)


def quantised(values, broken=False):
    """data -> AscendQuant -> Conv2D in int8 -> AscendDequant with the ReLU -> prob."""
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (half(values["data"], "data", layout="NCHW"),)))
    integers = np.clip(np.round(values["data"] * 32), -128, 127).astype(np.int8)
    model.add(DeviceOp("q_in", "AscendQuant", (("data", 0),), (DeviceTensor(integers, "NC1HWC0", "NCHW", "conv_quant"),), ("conv_quant",)))
    sums = (values["conv"] * 100).astype(np.int32)
    model.add(DeviceOp("conv_int8", "Conv2D", (("q_in", 0),), (DeviceTensor(sums, "NC1HWC0", "NCHW", "conv_int8"),), ("conv_int8",)))
    relu = values["relu"] * (1.5 if broken else 1)
    model.add(DeviceOp("deq", "AscendDequant", (("conv_int8", 0),), (half(relu, "relu_q"),), ("conv_dequant", "relu_q")))
    model.add(DeviceOp("prob_1", "Add", (("deq", 0),), (half(relu + 1, "prob_q"),), ("prob_q",)))
    return model


def quantisation(path):
    """What says from which op of the original net each of the quantised one came."""
    originals = {"conv_quant": [], "conv_int8": ["conv"], "conv_dequant": ["conv"], "relu_q": ["relu"], "prob_q": ["prob"]}
    ops = []
    for number, (name, names) in enumerate(originals.items()):
        value = {"val_type": "VT_LIST_STRING", **({"s": names} if names else {})}
        desc = [{"key": "_datadump_origin_name", "value": {"s": names[0]}}] if names else []
        ops.append({"name": name, "type": "x", "id": number, "output_desc": [{"attr": desc}],
                    "attr": [{"key": "_datadump_original_op_names", "value": {"list": value}}]})  # fmt: skip
    with open(path, "w") as stream:
        json.dump({"name": "q", "graph": [{"name": "q", "op": ops}]}, stream)
    return str(path)


def rows_of(tmp_path, **options):
    found = compare_folders(ComparisonOptions(str(tmp_path / "dump"), str(tmp_path / "golden"), str(tmp_path / "out"), **options))
    return found, {row.tensor: row for row in found.rows()}


class TestQuantised:
    def rows(self, tmp_path, values, broken=False):
        model = quantised(values, broken)
        model.write_tree(str(tmp_path / "dump"))
        write_golden(str(tmp_path / "golden"), values)
        return rows_of(tmp_path, model=model.write_json(str(tmp_path / "m.json")), quantisation=quantisation(tmp_path / "quant.json"))

    def test_names_are_led_on_to_the_net_before_it_was_quantised(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values)
        assert found.exit_code == 0
        assert rows["deq:output:0"].verdict == rows["prob_1:output:0"].verdict == "pass"
        assert rows["deq:output:0"].golden_file == "relu.0.1767323045000000.npy"
        assert rows["prob_1:input:0"].golden_file == "relu.0.1767323045000000.npy"

    def test_a_quantising_op_that_leads_to_nothing_has_its_input_compared(self, tmp_path, values):
        _, rows = self.rows(tmp_path, values)
        assert rows["q_in:input:0"].verdict == "pass"
        assert rows["q_in:input:0"].golden_file == "data.0.1767323045000000.npy"

    @pytest.mark.parametrize("tensor", ["q_in:output:0", "conv_int8:input:0", "conv_int8:output:0", "deq:input:0"])
    def test_what_is_quantised_is_a_row_that_says_so(self, tmp_path, values, tensor):
        row = self.rows(tmp_path, values)[1][tensor]
        assert row.verdict == "expected_absent"
        assert "quantised" in row.reason

    def test_an_error_in_the_stretch_shows_behind_it(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values, broken=True)
        assert found.exit_code == 1
        assert found.first_divergence.op == "deq"

    def test_the_second_file_belongs_to_the_run(self, tmp_path, values):
        self.rows(tmp_path, values)
        with pytest.raises(UsageError):
            rows_of(tmp_path, model=str(tmp_path / "m.json"))


def unfused(values):
    """data -> Conv2D -> Relu -> Add, each an op of its own; the convolution's output lies in another layout than in the fused build."""
    model = DeviceModel("plain")
    model.add(DeviceOp("data", "Data", (), (half(values["data"], "data", layout="NCHW"),)))
    model.add(DeviceOp("conv", "Conv2D", (("data", 0),), (half(values["conv"], "conv"),), ("conv",)))
    model.add(DeviceOp("relu_plain", "Relu", (("conv", 0),), (half(values["relu"], "relu"),), ("relu",)))
    model.add(DeviceOp("sum", "Add", (("relu_plain", 0),), (half(values["prob"], "prob", layout="NCHW"),), ("prob",)))
    return model


def fused(values, factor=1.0):
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (half(values["data"], "data", layout="NCHW"),)))
    relu = values["relu"] * factor
    model.add(DeviceOp("convrelu", "Conv2D", (("data", 0),), (half(relu, "relu"),), ("conv", "relu")))
    model.add(DeviceOp("sum_1", "Add", (("convrelu", 0),), (half(relu + 1, "prob"),), ("prob",)))
    return model


class TestUnfused:
    def rows(self, tmp_path, values, factor=1.0):
        ours, theirs = fused(values, factor), unfused(values)
        ours.write_tree(str(tmp_path / "dump"))
        theirs.write_tree(str(tmp_path / "golden"), time="20260101000000")
        second = theirs.write_json(str(tmp_path / "plain.json"))
        return rows_of(tmp_path, model=ours.write_json(str(tmp_path / "m.json")), unfused=second)

    def test_each_op_pairs_with_the_one_that_carries_its_last_original(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values)
        assert found.exit_code == 0
        assert "Relu.relu_plain." in rows["convrelu:output:0"].golden_file
        assert "Relu.relu_plain." in rows["sum_1:input:0"].golden_file
        assert rows["convrelu:output:0"].metrics["MaxAbsoluteError"] == 0

    def test_another_layout_is_brought_to_the_original_one(self, tmp_path, values):
        _, rows = self.rows(tmp_path, values)
        row = rows["sum_1:output:0"]
        assert "Add.sum." in row.golden_file
        assert (row.verdict, row.shape, row.metrics["MaxAbsoluteError"]) == ("pass", (1, 20, 5, 6), 0)

    def test_a_fusion_that_is_wrong_is_found(self, tmp_path, values):
        found, _ = self.rows(tmp_path, values, 1.5)
        assert (found.exit_code, found.first_divergence.op) == (1, "convrelu")

    def test_an_original_that_the_build_does_not_have_is_said(self, tmp_path, values):
        ours = fused(values)
        theirs = unfused(values)
        del theirs.ops[-1]
        ours.write_tree(str(tmp_path / "dump"))
        theirs.write_tree(str(tmp_path / "golden"))
        found, rows = rows_of(
            tmp_path, model=ours.write_json(str(tmp_path / "m.json")), unfused=theirs.write_json(str(tmp_path / "plain.json"))
        )
        assert found.exit_code == 3
        assert rows["sum_1:output:0"].verdict == "not_compared"
        assert "prob" in rows["sum_1:output:0"].reason


def test_golden_of_a_device_in_another_layout_with_padding(tmp_path, values):
    ours, theirs = fused(values), unfused(values)
    theirs.ops[2] = DeviceOp("relu_plain", "Relu", (("conv", 0),), (half(values["relu"], "relu", layout="NCHW"),), ("relu",))
    ours.ops[2] = DeviceOp("sum_1", "Add", (("convrelu", 0),), (half(values["prob"], "prob", layout="NCHW"),), ("prob",))
    theirs.ops[3] = DeviceOp("sum", "Add", (("relu_plain", 0),), (half(values["prob"], "prob"),), ("prob",))
    ours.write_tree(str(tmp_path / "dump"))
    theirs.write_tree(str(tmp_path / "golden"))
    found, rows = rows_of(tmp_path, model=ours.write_json(str(tmp_path / "m.json")), unfused=theirs.write_json(str(tmp_path / "p.json")))
    assert found.exit_code == 0
    assert {rows[name].metrics["MaxAbsoluteError"] for name in ("convrelu:output:0", "sum_1:output:0")} == {0}


@pytest.mark.parametrize("option", ["quantisation", "unfused"])
def test_the_second_file_needs_the_model(tmp_path, option):
    with pytest.raises(UsageError):
        ComparisonOptions("a", "b", "c", **{option: "q.json"})


def test_a_missing_second_file_is_named(tmp_path, values):
    model = fused(values)
    model.write_tree(str(tmp_path / "dump"))
    write_golden(str(tmp_path / "golden"), values)
    with pytest.raises(MissingPath, match=r"none\.json"):
        rows_of(tmp_path, model=model.write_json(str(tmp_path / "m.json")), quantisation=str(tmp_path / "none.json"))
