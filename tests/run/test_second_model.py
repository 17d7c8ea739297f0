"""A second model file: the quantisation json, and the json of a build without fusion."""

from __future__ import annotations

import json
import os
import sys

import jsonschema
import numpy as np
import pytest
from in_process import run_here

import goldwatch
from goldwatch.base.errors import MissingPath, UsageError
from goldwatch.dumps import write_dump
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.compare_quantised_files import compare_quantised_files
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.schemas import load_schema
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor


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


SCALE, OFFSET = 32.0, 3.0


def quantised(values, broken=False, told=None, stored=np.int8):
    """data -> AscendQuant -> Conv2D in int8 -> AscendDequant with the ReLU -> prob."""
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (half(values["data"], "data", layout="NCHW"),)))
    integers = np.clip(np.round(values["data"] * SCALE + OFFSET), -128, 127).astype(stored)
    q_in = DeviceTensor(integers, "NC1HWC0", "NCHW", "conv_quant")
    model.add(
        DeviceOp("q_in", "AscendQuant", (("data", 0),), (q_in,), ("conv_quant",), quantisation=told)
    )
    sums = (values["conv"] * 100).astype(np.int32)
    model.add(
        DeviceOp(
            "conv_int8",
            "Conv2D",
            (("q_in", 0),),
            (DeviceTensor(sums, "NC1HWC0", "NCHW", "conv_int8"),),
            ("conv_int8",),
        )
    )
    relu = values["relu"] * (1.5 if broken else 1)
    model.add(
        DeviceOp(
            "deq",
            "AscendDequant",
            (("conv_int8", 0),),
            (half(relu, "relu_q"),),
            ("conv_dequant", "relu_q"),
        )
    )
    model.add(DeviceOp("prob_1", "Add", (("deq", 0),), (half(relu + 1, "prob_q"),), ("prob_q",)))
    return model


def quantisation(path):
    """What says from which op of the original net each of the quantised one came."""
    originals = {
        "conv_quant": [],
        "conv_int8": ["conv"],
        "conv_dequant": ["conv"],
        "relu_q": ["relu"],
        "prob_q": ["prob"],
    }
    ops = []
    for number, (name, names) in enumerate(originals.items()):
        value = {"val_type": "VT_LIST_STRING", **({"s": names} if names else {})}
        desc = [{"key": "_datadump_origin_name", "value": {"s": names[0]}}] if names else []
        ops.append({"name": name, "type": "x", "id": number, "output_desc": [{"attr": desc}],
                    "attr": [{"key": "_datadump_original_op_names",
                    "value": {"list": value}}]})  # fmt: skip
    with open(path, "w") as stream:
        json.dump({"name": "q", "graph": [{"name": "q", "op": ops}]}, stream)
    return str(path)


def rows_of(tmp_path, **options):
    found = compare_folders(
        ComparisonOptions(
            str(tmp_path / "dump"), str(tmp_path / "golden"), str(tmp_path / "out"), **options
        )
    )
    return found, {row.tensor: row for row in found.rows()}


class TestQuantised:
    def rows(self, tmp_path, values, broken=False):
        model = quantised(values, broken)
        model.write_tree(str(tmp_path / "dump"))
        write_golden(str(tmp_path / "golden"), values)
        return rows_of(
            tmp_path,
            model=model.write_json(str(tmp_path / "m.json")),
            quantisation=quantisation(tmp_path / "quant.json"),
        )

    def test_golden_names_follow_from_the_quantisation_json(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values)
        assert found.exit_code == 0
        assert rows["deq:output:0"].verdict == rows["prob_1:output:0"].verdict == "pass"
        assert rows["deq:output:0"].golden_file == "relu.0.1767323045000000.npy"
        assert rows["prob_1:input:0"].golden_file == "relu.0.1767323045000000.npy"

    def test_the_input_of_a_quantising_op_is_compared(self, tmp_path, values):
        _, rows = self.rows(tmp_path, values)
        assert rows["q_in:input:0"].verdict == "pass"
        assert rows["q_in:input:0"].golden_file == "data.0.1767323045000000.npy"

    @pytest.mark.parametrize(
        "tensor", ["q_in:output:0", "conv_int8:input:0", "conv_int8:output:0", "deq:input:0"]
    )
    def test_quantised_tensors_are_absent_as_expected(self, tmp_path, values, tensor):
        row = self.rows(tmp_path, values)[1][tensor]
        assert row.verdict == "expected_absent"
        assert "quantised" in row.reason

    def test_an_error_in_the_quantised_part_fails_behind_it(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values, broken=True)
        assert found.exit_code == 1
        assert found.first_divergence.op == "deq"

    def test_a_run_without_the_second_model_file_is_another_run(self, tmp_path, values):
        self.rows(tmp_path, values)
        with pytest.raises(UsageError):
            rows_of(tmp_path, model=str(tmp_path / "m.json"))


def unfused(values):
    """data -> Conv2D -> Relu -> Add, each an op of its own; the convolution's output lies in
    another layout than in the fused build.
    """
    model = DeviceModel("plain")
    model.add(DeviceOp("data", "Data", (), (half(values["data"], "data", layout="NCHW"),)))
    model.add(
        DeviceOp("conv", "Conv2D", (("data", 0),), (half(values["conv"], "conv"),), ("conv",))
    )
    model.add(
        DeviceOp("relu_plain", "Relu", (("conv", 0),), (half(values["relu"], "relu"),), ("relu",))
    )
    model.add(
        DeviceOp(
            "sum",
            "Add",
            (("relu_plain", 0),),
            (half(values["prob"], "prob", layout="NCHW"),),
            ("prob",),
        )
    )
    return model


def fused(values, factor=1.0):
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (half(values["data"], "data", layout="NCHW"),)))
    relu = values["relu"] * factor
    model.add(
        DeviceOp("convrelu", "Conv2D", (("data", 0),), (half(relu, "relu"),), ("conv", "relu"))
    )
    model.add(DeviceOp("sum_1", "Add", (("convrelu", 0),), (half(relu + 1, "prob"),), ("prob",)))
    return model


class TestUnfused:
    def rows(self, tmp_path, values, factor=1.0):
        ours, theirs = fused(values, factor), unfused(values)
        ours.write_tree(str(tmp_path / "dump"))
        theirs.write_tree(str(tmp_path / "golden"), time="20260101000000")
        second = theirs.write_json(str(tmp_path / "plain.json"))
        return rows_of(tmp_path, model=ours.write_json(str(tmp_path / "m.json")), unfused=second)

    def test_a_fused_op_pairs_with_the_op_of_its_last_original(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values)
        assert found.exit_code == 0
        assert "Relu.relu_plain." in rows["convrelu:output:0"].golden_file
        assert "Relu.relu_plain." in rows["sum_1:input:0"].golden_file
        assert rows["convrelu:output:0"].metrics["MaxAbsoluteError"] == 0

    def test_a_golden_dump_in_another_layout_is_converted(self, tmp_path, values):
        _, rows = self.rows(tmp_path, values)
        row = rows["sum_1:output:0"]
        assert "Add.sum." in row.golden_file
        assert (row.verdict, row.shape, row.metrics["MaxAbsoluteError"]) == (
            "pass",
            (1, 20, 5, 6),
            0,
        )

    def test_a_wrong_fusion_is_the_first_divergence(self, tmp_path, values):
        found, _ = self.rows(tmp_path, values, 1.5)
        assert (found.exit_code, found.first_divergence.op) == (1, "convrelu")

    def test_an_original_missing_in_the_unfused_build_is_reported(self, tmp_path, values):
        ours = fused(values)
        theirs = unfused(values)
        del theirs.ops[-1]
        ours.write_tree(str(tmp_path / "dump"))
        theirs.write_tree(str(tmp_path / "golden"))
        found, rows = rows_of(
            tmp_path,
            model=ours.write_json(str(tmp_path / "m.json")),
            unfused=theirs.write_json(str(tmp_path / "plain.json")),
        )
        assert found.exit_code == 3
        assert rows["sum_1:output:0"].verdict == "not_compared"
        assert "prob" in rows["sum_1:output:0"].reason


@pytest.mark.parametrize("apart", ["", "constant", "originals"])
def test_what_has_no_original_is_compared_with_the_same_op_of_the_unfused_build(
    tmp_path, values, apart
):
    """Inputs from the network's input, from constants and from what the compiler put in; an op of
    other originals is another one."""
    ours, theirs = fused(values), unfused(values)
    for model, last in ((ours, "sum_1"), (theirs, "sum")):
        bias = values["data"] + (1 if apart == "constant" and model is ours else 0)
        cast = (("data", 0),), (half(values["data"], layout="NCHW"),), ()
        model.add(DeviceOp("trans_Cast_3", "Cast", *cast))
        model.add(DeviceOp("bias", "Const", (), (half(bias, layout="NCHW"),)))
        fed = (last, 0), ("trans_Cast_3", 0), ("bias", 0)
        originals = ("scaled", "tail") if apart == "originals" and model is ours else ("tail",)
        model.add(DeviceOp("tail", "AddN", fed, (half(values["prob"], "tail"),), originals))
    ours.write_tree(str(tmp_path / "dump"))
    theirs.write_tree(str(tmp_path / "golden"))
    found, rows = rows_of(
        tmp_path,
        model=ours.write_json(str(tmp_path / "m.json")),
        unfused=theirs.write_json(str(tmp_path / "p.json")),
    )
    of_cast = [rows["trans_Cast_3:%s:0" % kind].verdict for kind in ("input", "output")]
    of_tail = [rows["tail:input:%d" % number].verdict for number in range(3)]
    assert (of_cast, found.exit_code) == (["pass", "pass"], 1 if apart == "constant" else 0)
    assert (
        of_tail
        == {
            "": ["pass"] * 3,
            "constant": ["pass", "pass", "fail"],
            "originals": ["pass", "pass", "expected_absent"],
        }[apart]
    )


def test_a_golden_dump_with_padding_is_converted(tmp_path, values):
    ours, theirs = fused(values), unfused(values)
    theirs.ops[2] = DeviceOp(
        "relu_plain",
        "Relu",
        (("conv", 0),),
        (half(values["relu"], "relu", layout="NCHW"),),
        ("relu",),
    )
    ours.ops[2] = DeviceOp(
        "sum_1",
        "Add",
        (("convrelu", 0),),
        (half(values["prob"], "prob", layout="NCHW"),),
        ("prob",),
    )
    theirs.ops[3] = DeviceOp(
        "sum", "Add", (("relu_plain", 0),), (half(values["prob"], "prob"),), ("prob",)
    )
    ours.write_tree(str(tmp_path / "dump"))
    theirs.write_tree(str(tmp_path / "golden"))
    found, rows = rows_of(
        tmp_path,
        model=ours.write_json(str(tmp_path / "m.json")),
        unfused=theirs.write_json(str(tmp_path / "p.json")),
    )
    assert found.exit_code == 0
    assert {
        rows[name].metrics["MaxAbsoluteError"] for name in ("convrelu:output:0", "sum_1:output:0")
    } == {0}


def test_a_second_model_without_a_model_is_refused(tmp_path, values):
    with pytest.raises(UsageError):
        ComparisonOptions("a", "b", "c", unfused="q.json")
    with pytest.raises(UsageError, match="quantisation leads on the names of a model"):
        rows_of(tmp_path, quantisation=quantisation(tmp_path / "q.json"))


def test_a_missing_second_file_is_named(tmp_path, values):
    model = fused(values)
    model.write_tree(str(tmp_path / "dump"))
    write_golden(str(tmp_path / "golden"), values)
    with pytest.raises(MissingPath, match=r"none\.json"):
        rows_of(
            tmp_path,
            model=model.write_json(str(tmp_path / "m.json")),
            quantisation=str(tmp_path / "none.json"),
        )


class TestDequantised:
    """An AscendQuant whose scale and offset the model says."""

    def rows(self, tmp_path, values, told, text=False, stored=np.int8):
        model = quantised(values, told=told, stored=stored)
        model.write_tree(str(tmp_path / "dump"))
        write_golden(str(tmp_path / "golden"), values)
        path = (model.write_ge_text if text else model.write_json)(
            str(tmp_path / ("ge_proto_1_Build.txt" if text else "m.json"))
        )
        return rows_of(
            tmp_path, model=path, quantisation=quantisation(tmp_path / "quant.json"), overflow=True
        )

    @pytest.mark.parametrize("text", [False, True])
    def test_the_output_of_a_quantising_op_is_dequantised_and_compared(
        self, tmp_path, values, text
    ):
        found, rows = self.rows(tmp_path, values, (SCALE, OFFSET), text)
        assert found.exit_code == 0 and not found.summary.suspects
        row = rows["q_in:output:0"]
        assert (
            row.verdict == "pass"
            and row.target_dtype == "int8"
            and "scale 32 and offset 3" in row.reason
        )
        assert (
            row.golden_file.startswith("data.0.")
            and row.shape == values["data"].shape
            and row.overflow is None
        )
        stored = np.clip(np.round(values["data"] * SCALE + OFFSET), -128, 127).astype(np.float64)
        x, y = (stored - OFFSET) / SCALE, values["data"].astype(np.float64)
        assert row.metrics["MaxAbsoluteError"] == pytest.approx(np.abs(x - y).max(), rel=1e-9)
        assert row.metrics["RelativeEuclideanDistance"] == pytest.approx(
            np.sqrt(((x - y) ** 2).sum() / (y**2).sum()), rel=1e-9
        )
        # What lies between stays as it is: nothing says what those integers stand for.
        assert rows["conv_int8:input:0"].verdict == rows["deq:input:0"].verdict == "expected_absent"

    def test_a_quantised_output_stored_as_float_is_not_dequantised(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values, (SCALE, OFFSET), stored=np.float16)
        row = rows["q_in:output:0"]
        assert found.exit_code == 0 and row.verdict == "expected_absent"
        assert "stored as float16" in row.reason and "dequantised by" not in row.reason

    def test_a_quantising_op_with_another_scale_fails(self, tmp_path, values):
        found, rows = self.rows(tmp_path, values, (SCALE * 2, OFFSET))
        assert found.exit_code == 1 and rows["q_in:output:0"].verdict == "fail"
        assert found.first_divergence.op == "q_in"

    @pytest.mark.parametrize("told", [None, (0.0, 1.0), (float("inf"), 0.0)])
    def test_a_missing_scale_or_offset_is_reported(self, tmp_path, values, told):
        found, rows = self.rows(tmp_path, values, told)
        assert found.exit_code == 0
        assert rows["q_in:output:0"].verdict == "expected_absent"
        assert "does not give scale and offset" in rows["q_in:output:0"].reason


class TestFilesOfTheQuantisedNet:
    """The quantised net's own npy and quant files against those of the net before: the documents'
    comparison 3.
    """

    NAMES = {"conv_dequant": "conv", "relu_q": "relu", "prob_q": "prob"}

    def write(self, tmp_path, values, factor=1.0):
        quantisation(tmp_path / "quant.json")
        write_golden(str(tmp_path / "golden"), values)
        os.makedirs(str(tmp_path / "target"), exist_ok=True)
        for name, origin in self.NAMES.items():
            array = (values[origin] * (factor if origin != "conv" else 1)).astype(np.float32)
            if name == "prob_q":
                write_dump(
                    str(tmp_path / "target" / "prob_q.0.1767323045000000.quant"), outputs=[array]
                )
            else:
                np.save(str(tmp_path / "target" / ("%s.0.1767323045000000.npy" % name)), array)

    def run(self, tmp_path, *options, target="target", out="out"):
        words = [
            "compare",
            str(tmp_path / target),
            str(tmp_path / "golden"),
            "--quant-json",
            str(tmp_path / "quant.json"),
        ]
        done = run_here(
            [sys.executable, "-m", "goldwatch", *words, "-o", str(tmp_path / out), *options]
        )
        path = tmp_path / out / "result.json"
        return done, json.loads(path.read_text()) if path.exists() else {}

    def test_quantised_files_pair_with_the_op_that_made_them(self, tmp_path, values):
        self.write(tmp_path, values, 1.001)
        done, document = self.run(tmp_path, "--allow-missing", "--jobs", "1")
        assert done.returncode == 0, done.stderr
        jsonschema.validate(document, load_schema("result"))
        rows = {row["tensor"]: row for row in document["rows"]}
        for name, origin in self.NAMES.items():
            row = rows[name + ":output:0"]
            assert (
                row["verdict"] == "pass"
                and row["golden_file"].startswith(origin + ".0.")
                and row["golden"] == origin
            )
            assert row["target_file"].startswith(name + ".0.")
        x, y = values["prob"] * np.float32(1.001), values["prob"]
        assert rows["prob_q:output:0"]["metrics"]["MaxAbsoluteError"] == pytest.approx(
            float(np.abs(x.astype(float) - y).max()), rel=1e-6
        )
        # It leads to nothing; conv_int8 shares its original with conv_dequant, which stands for it.
        assert rows["conv_quant"]["verdict"] == "expected_absent" and "conv_int8" not in rows
        # Two processes, and a second start: the same rows.
        for out, jobs in (("out2", "2"), ("out", "2")):
            assert (
                self.run(tmp_path, "--allow-missing", "--jobs", jobs, out=out)[1]["rows"]
                == document["rows"]
            )
        assert goldwatch.open_result(str(tmp_path / "out")).summary.passed == 3

    def test_only_changed_files_of_a_quantised_net_are_compared_again(self, tmp_path, values):
        self.write(tmp_path, values)
        folders = [str(tmp_path / name) for name in ("target", "golden", "out")]
        options = ComparisonOptions(*folders, quantisation=str(tmp_path / "quant.json"))

        def again():
            pairs = []
            result = compare_quantised_files(
                options, on_progress=lambda progress: pairs.append(progress.pairs)
            )
            return {row.tensor: row.verdict for row in result.rows()}, max(pairs)

        rows, compared = again()
        assert compared == 3 and again() == (rows, 0)
        np.save(str(tmp_path / "golden" / "relu.0.1767323045000000.npy"), values["relu"] * 2)
        assert again() == ({**rows, "relu_q:output:0": "fail"}, 1)
        quantisation(tmp_path / "quant.json")
        assert again()[1] == 3
        os.remove(str(tmp_path / "target" / "relu_q.0.1767323045000000.npy"))
        rows, _ = again()
        assert [rows[name] for name in rows if name.startswith("relu_q")] == ["not_compared"]

    def test_wrong_and_missing_files_of_a_quantised_net_are_reported(self, tmp_path, values):
        self.write(tmp_path, values, 1.5)
        done, document = self.run(tmp_path)
        assert done.returncode == 1 and document["summary"]["first_divergence"]["op"] == "relu_q"
        os.remove(str(tmp_path / "golden" / "relu.0.1767323045000000.npy"))
        write_dump(
            str(tmp_path / "target" / "prob_q.0.1767323045000000.quant"), outputs=[values["prob"]]
        )
        done, document = self.run(tmp_path, "--force")
        assert done.returncode == 3
        rows = {row["tensor"]: row for row in document["rows"]}
        assert rows["relu_q:output:0"]["cause"] == "golden_missing"
        os.remove(str(tmp_path / "target" / "relu_q.0.1767323045000000.npy"))
        (tmp_path / "target" / "conv_dequant.0.1767323045000000.npy").write_bytes(b"nonsense")
        done, document = self.run(tmp_path, "--force")
        causes = {row["op"]: (row["verdict"], row["cause"]) for row in document["rows"]}
        assert done.returncode == 3 and causes["conv_dequant"] == ("not_compared", "corrupt")
        assert causes["relu_q"] == ("not_compared", "dump_missing")

    def test_a_file_that_the_quantisation_json_does_not_know_gives_a_row(self, tmp_path, values):
        self.write(tmp_path, values)
        np.save(str(tmp_path / "target" / "stray.0.1767323045000000.npy"), np.ones(3))
        _, document = self.run(tmp_path)
        (row,) = [row for row in document["rows"] if row["op"] == "stray"]
        assert row["verdict"] == "not_compared"

    @pytest.mark.parametrize("connected", [True, False])
    @pytest.mark.parametrize("told", [True, False])
    @pytest.mark.parametrize("dtype", [np.int8, np.float32])
    def test_quantised_values_are_dequantised_or_not_compared(
        self, tmp_path, values, dtype, told, connected
    ):
        """What a quantising layer and the one behind it wrote are integers, whatever type a
        framework keeps them in.
        """
        self.write(tmp_path, values)
        integers = np.clip(np.round(values["data"] * SCALE + OFFSET), -128, 127)
        for name, array in (
            ("conv_quant", integers.astype(dtype)),
            ("conv_int8", np.round(values["conv"] * 1000).astype(np.int32)),
        ):
            np.save(str(tmp_path / "target" / (name + ".0.1767323045000000.npy")), array)
        document = json.loads((tmp_path / "quant.json").read_text())
        ops = document["graph"][0]["op"]
        types = {
            "conv_quant": "AscendQuant",
            "conv_int8": "Convolution",
            "conv_dequant": "AscendDequant",
        }
        for op in ops:
            op["type"] = types.get(op["name"], "x")
        for op, producer in zip(ops, ["data", *types]):
            op.update({"input": [producer + ":0"]} if connected else {})
        ops.append({"name": "data", "type": "Data"})
        if told:
            ops[0]["attr"] += [
                {"key": "scale", "value": {"f": SCALE}},
                {"key": "offset", "value": {"f": OFFSET}},
            ]
        (tmp_path / "quant.json").write_text(json.dumps(document))
        done, found = self.run(tmp_path, "--allow-missing")
        assert done.returncode == 0, done.stdout
        rows = {row["op"]: row for row in found["rows"]}
        row = rows["conv_quant"]
        if told and connected and dtype is np.int8:
            x, y = (integers - OFFSET) / SCALE, values["data"].astype(np.float64)
            assert row["verdict"] == "pass" and row["metrics"]["MaxAbsoluteError"] == pytest.approx(
                np.abs(x - y).max(), rel=1e-9
            )
        else:
            assert row["verdict"] == "expected_absent" and "quantise" in row["reason"]
        assert (
            rows["conv_int8"]["verdict"] == "expected_absent"
            and rows["conv_dequant"]["verdict"] == "pass"
        )

    def test_integers_without_scale_and_offset_do_not_fail(self, tmp_path, values):
        self.write(tmp_path, values)
        np.save(
            str(tmp_path / "target" / "relu_q.0.1767323045000000.npy"),
            np.round(values["relu"] * 30).astype(np.int8),
        )
        done, document = self.run(tmp_path, "--allow-missing")
        (row,) = [row for row in document["rows"] if row["op"] == "relu_q"]
        assert (
            done.returncode == 0
            and row["verdict"] == "expected_absent"
            and "does not give scale and offset" in row["reason"]
        )

    def test_folders_that_are_no_quantised_outputs_are_refused(self, tmp_path, values):
        self.write(tmp_path, values)
        quantised(values).write_tree(str(tmp_path / "dump"))
        done, _ = self.run(tmp_path, target="dump")
        assert done.returncode == 4 and "om json" in done.stderr
        assert self.run(tmp_path, target="none")[0].returncode == 4
        done, _ = self.run(tmp_path, target="target/relu_q.0.1767323045000000.npy")
        assert done.returncode == 4 and "two folders or two files" in done.stderr
        assert self.run(tmp_path, "--time", "20260101000000")[0].returncode == 2
        command = [
            sys.executable,
            "-m",
            "goldwatch",
            "watch",
            str(tmp_path / "dump"),
            str(tmp_path / "golden"),
            "-o",
            str(tmp_path / "w"),
        ]
        done = run_here(
            [*command, "--quant-json", str(tmp_path / "quant.json"), "--until-idle", "0.1"]
        )
        assert done.returncode == 2 and "it needs -f" in done.stderr


def test_python_takes_a_second_model_file(tmp_path, values):
    ours, theirs = fused(values), unfused(values)
    ours.write_tree(str(tmp_path / "dump"))
    theirs.write_tree(str(tmp_path / "golden"), time="20260101000000")
    first, second = (
        ours.write_json(str(tmp_path / "m.json")),
        theirs.write_json(str(tmp_path / "plain.json")),
    )
    folders = str(tmp_path / "dump"), str(tmp_path / "golden")
    result = goldwatch.compare(*folders, model=first, unfused=second, jobs=1)
    assert result.exit_code == 0 and result.summary.passed == 3
    with goldwatch.watch(*folders, model=first, unfused=second, jobs=1, until_idle=0.1) as rows:
        assert {row.tensor for row in rows if row.verdict == "pass"} == {
            "convrelu:output:0",
            "sum_1:input:0",
            "sum_1:output:0",
        }
    with pytest.raises(UsageError, match="it needs model"):
        goldwatch.watch(*folders, quantisation=second)
    with pytest.raises(UsageError, match="exclude each other"):
        goldwatch.compare(*folders, model=first, quantisation=first, unfused=second)


def test_python_compares_the_files_of_a_quantised_net(tmp_path, values):
    write_golden(str(tmp_path / "golden"), values)
    write_golden(str(tmp_path / "quantised"), {"relu_q": values["relu"], "prob_q": values["prob"]})
    result = goldwatch.compare(
        str(tmp_path / "quantised"),
        str(tmp_path / "golden"),
        quantisation=quantisation(tmp_path / "quant.json"),
        jobs=1,
    )
    assert {row.tensor for row in result.rows("pass")} == {"relu_q:output:0", "prob_q:output:0"}


def test_a_folder_given_as_second_model_is_refused(tmp_path):
    for name in ("dump", "golden", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "net.json").write_text('{"graph": [{"name": "net", "op": []}]}')
    done = run_here(
        [
            "goldwatch",
            "compare",
            "dump",
            "golden",
            "-f",
            "net.json",
            "--unfused-om",
            "folder",
            "-o",
            "out",
        ],
        tmp_path,
    )
    assert (
        done.returncode == 4
        and "the json of the unfused build: folder is not a regular file" in done.stderr
    )
