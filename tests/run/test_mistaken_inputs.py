"""Forgotten and needless options, and dumps of two builds: the message says what to give."""

from __future__ import annotations

import glob
import json
import os

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps.dump_tree import DumpTree
from goldwatch.dumps.place import is_time, place_of, time_order
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.model.graphs_of_run import load_models
from goldwatch.tensors.layout_conversion import convert
from goldwatch.testing.device_model import DeviceModel, DeviceOp

from .test_second_model import fused, half, quantisation, quantised, unfused, write_golden

STEP = os.path.join("20260102030405", "0", "net", "1", "0")
SHAPE = (1, 20, 5, 6)


@pytest.fixture
def values():
    random = np.random.default_rng(11)
    data = random.standard_normal(SHAPE).astype(np.float32)
    conv = data * 2 - 0.25
    relu = np.maximum(conv, 0)
    return {"data": data, "conv": conv, "relu": relu, "prob": relu + 1}


@pytest.fixture
def go(tmp_path):
    def run(command, *words, out="out"):
        return run_here(
            [
                "goldwatch",
                command,
                str(tmp_path / "dump"),
                str(tmp_path / "golden"),
                *words,
                "-o",
                str(tmp_path / out),
            ]
        )

    return run


class TestQuantisation:
    @pytest.fixture
    def net(self, tmp_path, values):
        model = quantised(values, broken=True)
        model.write_tree(str(tmp_path / "dump"))
        quantisation(tmp_path / "quant.json")
        return model.write_json(str(tmp_path / "m.json"))

    def test_a_missing_quant_json_option_is_proposed(self, tmp_path, values, net, go):
        write_golden(str(tmp_path / "golden"), values)
        done = go("compare", "-f", net)
        assert done.returncode == 3 and "the model is quantised (AscendQuant q_in)" in done.stderr
        assert "give --quant-json JSON" in done.stdout

    def test_a_needless_quant_json_option_is_refused(self, tmp_path, values, net, go):
        write_golden(str(tmp_path / "golden"), {"relu_q": values["relu"], "prob_q": values["prob"]})
        done = go("compare", "-f", net, "--quant-json", str(tmp_path / "quant.json"))
        assert done.returncode == 4 and "leave --quant-json out" in done.stdout
        assert go("compare", "-f", net, out="without").returncode == 1

    def test_a_quantisation_json_given_as_model_is_refused(self, tmp_path, values, net, go):
        write_golden(str(tmp_path / "golden"), values)
        done = go("compare", "-f", str(tmp_path / "quant.json"))
        assert (
            done.returncode != 0 and "It has no connections, as a quantisation json" in done.stderr
        )

    def test_the_proposed_compare_op_command_runs_with_the_second_model(
        self, tmp_path, values, net, go
    ):
        write_golden(str(tmp_path / "golden"), values)
        second = ["-f", net, "--quant-json", str(tmp_path / "quant.json")]
        done = go("compare", *second)
        assert done.returncode == 1 and "look closer: goldwatch compare-op" in done.stdout
        assert "--quant-json %s" % (tmp_path / "quant.json") in done.stdout.replace(
            "\\\n", ""
        ).replace("    ", " ").replace("  ", " ")
        done = go("compare-op", "deq", *second, out="detail")
        assert done.returncode == 1 and "the target is the golden x 1." in done.stdout
        assert go("compare-op", "deq", "-f", net, out="detail").returncode == 4
        for words in (second[2:], [*second, "--unfused-om", net]):
            assert go("compare-op", "deq", *words, out="detail").returncode == 2


class TestTwoBuilds:
    def write(self, tmp_path, side, name, array, layout, original):
        folder = tmp_path / side / STEP
        folder.mkdir(parents=True, exist_ok=True)
        stored = (
            convert(array, "NCHW" if array.ndim == 4 else "ND", layout, array.shape)
            if layout not in ("NCHW", "ND")
            else array
        )
        data = [TensorData(stored, format=layout, original_shape=original)]
        write_dump(str(folder / ("Relu.%s.1.0.1767323045000000" % name)), outputs=data)

    @pytest.mark.parametrize(
        "layouts",
        [("NC1HWC0", "NCHW"), ("NCHW", "NC1HWC0"), ("FRACTAL_NZ", "ND"), ("ND", "FRACTAL_NZ")],
    )
    def test_two_builds_are_compared_in_the_original_layout_that_both_dumps_name(
        self, tmp_path, values, go, layouts
    ):
        array = values["data"].astype(np.float16)
        array = array if "NCHW" in layouts else array.reshape(20, 30)
        other = array.copy()
        other[..., 3] *= 2
        for side, layout in zip(("dump", "golden"), layouts):
            self.write(tmp_path, side, "same", array, layout, array.shape)
            self.write(
                tmp_path, side, "other", array if side == "golden" else other, layout, array.shape
            )
        done = go("compare", "--format", "json")
        rows = {row["tensor"]: row for row in json.loads(done.stdout)["rows"]}
        assert done.returncode == 1
        assert (
            rows["same:output:0"]["verdict"] == "pass"
            and rows["same:output:0"]["metrics"]["MaxAbsoluteError"] == 0
        )
        assert rows["other:output:0"]["verdict"] == "fail" and rows["same:output:0"][
            "shape"
        ] == list(array.shape)
        assert go("compare-op", "same", out="detail").returncode == 0
        assert go("compare-op", "other", out="detail").returncode == 1

    def test_a_second_model_is_proposed_where_dumps_name_no_original_layout(
        self, tmp_path, values, go
    ):
        array = values["data"].astype(np.float16)
        for side, layout in (("dump", "NC1HWC0"), ("golden", "NCHW")):
            self.write(tmp_path, side, "same", array, layout, None)
        done = go("compare")
        assert (
            done.returncode == 3
            and "layouts differ" in done.stdout
            and "give --unfused-om MODEL.json of GOLDEN's build, and -f" in done.stdout
        )

    def test_ops_inserted_in_one_build_are_absent_as_expected(self, tmp_path, values, go):
        array = values["data"].astype(np.float16)
        for side in ("dump", "golden"):
            self.write(tmp_path, side, "same", array, "NCHW", array.shape)
        for side, number in (("dump", 0), ("golden", 7)):
            data = [TensorData(array, format="NCHW")]
            write_dump(
                str(tmp_path / side / STEP / ("Cast.trans_Cast_%d.9.0.1767323045000000" % number)),
                data,
                data,
            )
        done = go("compare", "--format", "json")
        summary = json.loads(done.stdout)["summary"]
        assert (done.returncode, summary["passed"], summary["not_compared"]) == (
            0,
            1,
            0,
        ), done.stdout
        # An op of the network is missed all the same.
        self.write(tmp_path, "golden", "alone", array, "NCHW", array.shape)
        assert go("compare", out="again").returncode == 3

    def test_a_second_model_is_proposed_where_most_ops_are_in_one_build_only(
        self, tmp_path, values, go
    ):
        array = values["data"].astype(np.float16)
        for side, names in (("dump", ["same", "ab"]), ("golden", ["same", "a", "b"])):
            for name in names:
                # Equal values would show which of the other build they are.
                own = array if name == "same" else array + np.float16(len(name) * ord(name[-1]))
                self.write(tmp_path, side, name, own, "NCHW", array.shape)
        done = go("compare")
        assert (
            done.returncode == 3
            and "3 have no counterpart" in done.stderr
            and "--unfused-om" in done.stdout
        )
        # Which a comparison of bytes does not take.
        done = go("compare", "--exact", out="exact")
        assert done.returncode == 3 and "without --exact" in done.stdout, done.stdout
        assert "No byte of what was compared differs" in done.stdout
        # A run that ended early is no other build.
        (ours,) = glob.glob(str(tmp_path / "dump" / STEP / "*.ab.*"))
        os.unlink(ours)
        done = go("compare", out="early")
        assert done.returncode == 3 and "--unfused-om" not in done.stdout

    def test_a_fused_and_an_unfused_build_need_unfused_om(self, tmp_path, values, go):
        ours, theirs = fused(values), unfused(values)
        ours.write_tree(str(tmp_path / "dump"))
        theirs.write_tree(str(tmp_path / "golden"))
        done = go("compare")
        assert (
            done.returncode != 1
            and "dumps of two builds" in done.stderr
            and "--unfused-om" in done.stdout
        )
        both = [
            "-f",
            ours.write_json(str(tmp_path / "m.json")),
            "--unfused-om",
            theirs.write_json(str(tmp_path / "u.json")),
        ]
        assert go("compare", *both, out="both").returncode == 0
        assert go("compare-op", "convrelu", *both, out="detail").returncode == 0
        done = go(
            "compare", "-f", str(tmp_path), "--unfused-om", str(tmp_path / "u.json"), out="folder"
        )
        assert done.returncode == 2 and "name its file: m.json, u.json" in done.stderr

    def test_builds_of_renamed_operators_are_not_sent_back_to_unfused_om(
        self, tmp_path, values, go
    ):
        ours, theirs = DeviceModel("net"), DeviceModel("plain")
        for model, prefix in ((ours, "ours"), (theirs, "theirs")):
            data = half(values["data"], "data", layout="NCHW")
            model.add(DeviceOp("data", "Data", (), (data,)))
            before = "data"
            for number, kind in enumerate(("Conv2D", "Relu", "Relu", "Abs")):
                name = "%s_%d" % (prefix, number) if number else "conv"
                value = half(values["relu"] * (1 + number), name)
                model.add(DeviceOp(name, kind, ((before, 0),), (value,), (name,)))
                before = name
        ours.write_tree(str(tmp_path / "dump"))
        theirs.write_tree(str(tmp_path / "golden"))
        both = ["-f", ours.write_json(str(tmp_path / "m.json")), "--unfused-om"]
        done = go("compare", *both, theirs.write_json(str(tmp_path / "u.json")))
        assert "-f and --unfused-om name other original operators" in done.stdout + done.stderr
        assert "leave --unfused-om out" in done.stdout
        # What is proposed does it.
        assert go("compare", *both[:2], out="without").returncode == 0


def test_names_that_are_never_dumped_are_not_suggested(tmp_path, values, go):
    model = DeviceModel("net")
    model.add(DeviceOp("relux", "Data", (), (half(values["data"], "relux", layout="NCHW"),)))
    model.add(
        DeviceOp(
            "relu_1",
            "Relu",
            (("relux", 0),),
            (half(values["relu"], "relu_first"),),
            ("relu_first",),
        )
    )
    model.write_tree(str(tmp_path / "dump"))
    write_golden(str(tmp_path / "golden"), values)
    done = go("compare-op", "relu", "-f", model.write_json(str(tmp_path / "m.json")))
    assert done.returncode == 4 and "relu_1" in done.stderr and "relux" not in done.stderr


def test_dumps_of_two_models_of_one_name_do_not_make_the_om_json_suspicious(tmp_path, values, go):
    ours, theirs = fused(values), unfused(values)
    ours.write_tree(str(tmp_path / "dump"))
    theirs.write_tree(str(tmp_path / "other"))
    (folder,) = [base for base, _, files in os.walk(str(tmp_path / "other")) if files]
    step = os.path.join(str(tmp_path / "dump"), STEP)
    second = os.path.join(os.path.dirname(os.path.dirname(step)), "2", "0")
    os.makedirs(os.path.dirname(second))
    os.rename(folder, second)
    write_golden(str(tmp_path / "golden"), values)
    done = go("compare", "-f", ours.write_json(str(tmp_path / "m.json")))
    assert (
        done.returncode == 0
        and "left out model net" in done.stderr
        and "is it the json" not in done.stderr
    )


@pytest.mark.parametrize(("held", "is_fused"), [("relu", True), ("sum", True), ("wrong", False)])
def test_the_json_of_a_build_with_other_fusions_accuses_nobody_for_certain(
    tmp_path, values, go, held, is_fused
):
    made = dict(values, wrong=values["conv"] * 1.2, sum=values["relu"] + values["data"])

    def ops(conv, *left_out):
        model = DeviceModel("net")
        model.add(DeviceOp("data", "Data", (), (half(made["data"], "data"),)))
        several = [
            DeviceOp("conv", "Conv2D", (("data", 0),), (half(made[conv], "conv"),), ("conv",)),
            DeviceOp("relu", "Relu", (("conv", 0),), (half(made["relu"], "relu"),), ("relu",)),
            DeviceOp(
                "sum", "Add", (("relu", 0), ("data", 0)), (half(made["sum"], "sum"),), ("sum",)
            ),
        ]
        for op in several:
            if op.name not in left_out:
                model.add(op)
        return model

    lost = {"relu": ["relu"], "sum": ["relu", "sum"], "wrong": ["relu"]}[held]
    apart = ops("conv").write_json(str(tmp_path / "m.json"))
    tree = str(tmp_path / "dump")
    ops(held).write_tree(tree)
    for folder, _, names in os.walk(tree):
        for name in names:
            if name.split(".")[1] in lost:
                os.remove(os.path.join(folder, name))
    write_golden(
        str(tmp_path / "golden"), {name: made[name] for name in ("data", "conv", "relu", "sum")}
    )
    done = go("compare", "-f", apart)
    summary = json.loads((tmp_path / "out" / "result.json").read_text())["summary"]
    codes = [warning["code"] for warning in summary["warnings"]]
    assert ("other-fusions" in codes) == is_fused, done.stderr
    if not is_fused:
        (suspect,) = summary["suspects"]
        assert done.returncode == 1 and suspect["op"] == "conv"
        assert suspect["confidence"] != "low", done.stdout
        return
    assert done.returncode == 3 and not summary["suspects"], done.stdout
    assert "the dump of conv holds what %s makes, which has none" % held in done.stderr
    assert "give first that of the om that was dumped" in " ".join(done.stdout.split())
    rows = json.loads((tmp_path / "out" / "result.json").read_text())["rows"]
    (row,) = [row for row in rows if row["tensor"] == "conv:output:0"]
    assert (row["verdict"], row["reason_codes"]) == ("pass", "fused_behind=" + held)
    assert row["golden"] == held and "the om has %s fused into it" % held in row["reason"]
    assert go("compare", "-f", apart).returncode == 3  # goes on with the store
    again = json.loads((tmp_path / "out" / "result.json").read_text())["rows"]
    assert again == rows


class TestDumpsThatARunDeleted:
    """``--keep`` of a watch, run or locate: who deleted the dumps is told, where its result is
    beside them.
    """

    def watched(self, tmp_path, values, go):
        ours = fused(values)
        ours.write_tree(str(tmp_path / "dump"))
        write_golden(str(tmp_path / "golden"), values)
        model = ours.write_json(str(tmp_path / "m.json"))
        words = ["-f", model, "--keep", "none", "--expect-all"]
        assert go("watch", *words, out="watched").returncode == 0
        return model

    @pytest.mark.parametrize("below", ["", STEP])
    @pytest.mark.parametrize("command", ["compare", "replay", "two builds"])
    def test_none_is_left(self, tmp_path, values, go, below, command):
        model = self.watched(tmp_path, values, go)
        second = "golden" if command == "compare" else "net.prototxt"
        (tmp_path / "net.prototxt").write_text('layer { name: "a" type: "ReLU" }')
        words = ["goldwatch", command, "dump/" + below, second, "-f", model, "-o", "out"]
        if command == "two builds":
            fused(values).write_tree(str(tmp_path / "new"))
            words[1:4] = ["compare", "new", "dump/" + below]
        done = run_here(words, tmp_path)
        assert done.returncode == 4
        assert "the run whose result is in watched deleted 2 dumps after their" in done.stderr
        assert "goldwatch report OUT --html FILE shows that result" in done.stderr

    def test_those_of_another_folder_and_of_the_run_itself_say_nothing(self, tmp_path, values, go):
        model = self.watched(tmp_path, values, go)
        (tmp_path / "empty").mkdir()
        words = ["goldwatch", "compare", "empty", "golden", "-f", model, "-o", "out"]
        done = run_here(words, tmp_path)
        assert done.returncode == 4 and "deleted" not in done.stderr
        fused(values).write_tree(str(tmp_path / "dump"))
        assert go("compare", "-f", model).returncode == 0


class TestModelsOfAFolder:
    def write(self, folder, name, graph, op):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(
            json.dumps(
                {"name": graph, "graph": [{"name": graph, "op": [{"name": op, "type": "Relu"}]}]}
            )
        )

    def test_models_whose_graphs_share_a_name_are_told_apart_by_file(self, tmp_path):
        self.write(tmp_path / "m", "first.json", "net", "a")
        self.write(tmp_path / "m", "second.om.json", "net", "b")
        models = load_models(str(tmp_path / "m"))
        assert [models.of(name).ops[0].name for name in ("first", "second")] == ["a", "b"]
        assert models.of("third") is None and not any("left out" in note for note in models.notes)

    def test_models_are_found_by_graph_name_where_no_file_has_the_name(self, tmp_path):
        self.write(tmp_path / "m", "x.json", "first", "a")
        self.write(tmp_path / "m", "y.json", "second", "b")
        models = load_models(str(tmp_path / "m"))
        assert [models.of(name).ops[0].name for name in ("first", "second", "x")] == ["a", "b", "a"]

    def test_a_model_folder_without_the_model_name_says_which_name_a_json_needs(
        self, tmp_path, values, go
    ):
        fused(values).write_tree(str(tmp_path / "dump"))
        write_golden(str(tmp_path / "golden"), values)
        self.write(tmp_path / "m", "x.json", "other", "a")
        done = go("compare", "-f", str(tmp_path / "m"))
        assert done.returncode == 4 and "call a json like its model_name (net.json)" in done.stderr


class TestTimeFolders:
    @pytest.mark.parametrize(
        "name, padded",
        [
            ("2024125031118", "20240125031118"),
            ("2024112031118", "20240112031118"),
            ("2024108031118", "20240108031118"),
        ],
    )
    def test_a_folder_name_of_thirteen_digits_is_a_time(self, name, padded):
        assert is_time(name) and time_order(name) == padded
        assert place_of(os.path.join("/d", name, "0", "net", "1", "3"), set())[:5] == (
            name,
            "0",
            "net",
            "1",
            "3",
        )

    @pytest.mark.parametrize(
        "name", ["2024000031118", "2024925991118", "1234567890123", "202401250311"]
    )
    def test_other_numbers_as_folder_names_are_no_times(self, name):
        assert not is_time(name)

    def test_the_newest_time_counts_with_thirteen_or_fourteen_digits(self, tmp_path):
        for time in ("20240105031118", "2024125031118"):
            folder = tmp_path / time / "0" / "net" / "1" / "0"
            folder.mkdir(parents=True)
            write_dump(
                str(folder / "Relu.a.1.0.1767323045000000"),
                outputs=[TensorData(np.ones(3, np.float16))],
            )
        assert [step_folder.place.time for step_folder in DumpTree(str(tmp_path)).step_folders] == [
            "2024125031118"
        ]
