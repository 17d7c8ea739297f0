"""Training trees: several models, devices and steps, a graph for each model_name, and golden data
of each step.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

import jsonschema
import pytest
from in_process import run_here

import goldwatch
from goldwatch.judging.diagnosis.model_verdict import Difference
from goldwatch.schemas import load_schema
from goldwatch.store.row_sql import RowReader
from goldwatch.testing import Training, Wrong

FIRST, SECOND = Training.models


class Run:
    """A training in a folder, and the commands on it."""

    def __init__(self, folder, training, graphs=None, golden=None) -> None:
        self.folder = folder
        self.training = training
        training.write_tree(str(folder / "dump"))
        training.write_graphs(str(folder / "graphs"), graphs)
        training.write_golden(str(folder / "golden"), golden)

    def command(self, name="compare", *options, target="dump", model="graphs"):
        words = [
            "goldwatch",
            name,
            target,
            "golden",
            "-f",
            model,
            "-o",
            "out",
            "-q",
            "--jobs",
            "1",
            *options,
        ]
        return run_here(words, self.folder)

    def document(self):
        with open(str(self.folder / "out" / "result.json")) as stream:
            return json.load(stream)

    def places(self):
        return {(row["device"], row["model"], row["step"]) for row in self.document()["rows"]}

    def tables(self):
        return sorted(
            name.rpartition("_result_")[0]
            for name in os.listdir(str(self.folder / "out"))
            if name.endswith(".csv")
        )


@pytest.fixture
def make(tmp_path):
    return lambda training=None, **some: Run(tmp_path, training or Training(), **some)


def combinations(training):
    return {
        (str(device), name, str(step))
        for device in range(training.devices)
        for name in training.models
        for step in training.steps
    }


@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
def test_every_device_model_and_step_is_compared_with_golden_data_of_its_step(
    make, options
) -> None:
    run = make()
    done = run.command(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert run.places() == combinations(run.training)
    assert run.tables() == sorted("_".join(place) for place in combinations(run.training))
    document = run.document()
    jsonschema.Draft7Validator(load_schema("result")).validate(document)
    assert all(
        row["golden_file"].startswith(row["step"] + "/")
        for row in document["rows"]
        if row["golden_file"]
    )
    assert {row["verdict"] for row in document["rows"] if row["kind"] != "op"} == {"pass"}
    assert document["summary"]["ops"] == 10 and document["summary"]["devices_agree"] is True
    assert "all devices agree" in run.command(*options, "--table", "all").stdout


@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
def test_the_first_step_and_device_that_diverge_are_named(make, options) -> None:
    run = make(Training(wrong=(Wrong("part1/Mul", 1, 2),)))
    done = run.command(*options)
    assert done.returncode == 1
    summary = run.document()["summary"]
    first = summary["first_divergence"]
    assert (first["op"], first["model"], first["step"], first["device"]) == (
        "part1/Mul",
        SECOND,
        "2",
        "1",
    )
    healthy, wrong = summary["models"]
    assert (
        healthy["model"] == FIRST
        and healthy["first_divergence"] is None
        and healthy["devices_agree"] is True
    )
    assert wrong["first_divergence"] == first and wrong["failed"] == summary["failed"]
    assert summary["devices_agree"] is False and wrong["devices"] == ["0", "1"]
    assert wrong["first_difference"] == {
        "step": "2",
        "tensor": "part1/Mul:output:0",
        "verdicts": {"0": "pass", "1": "fail"},
    }
    assert [suspect["op"] for suspect in summary["suspects"]] == ["part1/Mul"]
    assert "in step 2: pass on device 0, fail on device 1" in done.stdout
    assert (
        goldwatch.open_result(str(run.folder / "out")).summary.document()["models"][1]["failed"]
        == wrong["failed"]
    )


def test_an_error_on_all_devices_is_not_called_a_disagreement(make) -> None:
    run = make(Training(wrong=(Wrong("part0/MatMul", None, 10),)))
    assert run.command().returncode == 1
    summary = run.document()["summary"]
    assert (summary["first_divergence"]["step"], summary["first_divergence"]["device"]) == (
        "10",
        "0",
    )
    assert summary["devices_agree"] is True


def test_a_step_missing_on_one_device_is_a_disagreement(make) -> None:
    run = make()
    shutil.rmtree(str(run.folder / "dump" / run.training.time / "1" / FIRST / "1" / "10"))
    assert run.command().returncode == 0
    assert run.document()["summary"]["models"][0]["first_difference"]["verdicts"] == {
        "0": "pass",
        "1": "absent",
    }


@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
def test_a_model_without_a_graph_is_reported_once(make, options) -> None:
    run = make(Training(models=(FIRST, SECOND, "init_5")), graphs=[0, 1])
    done = run.command(*options)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("init_5") == 2 and done.stderr.count("left out model init_5") == 1
    assert "no graph in graphs has this name" in done.stderr
    assert {model for _, model, _ in run.places()} == {FIRST, SECOND}


@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
@pytest.mark.parametrize("forgiving", [(), ("--allow-missing",)])
def test_a_step_without_golden_data_is_reported_once_and_has_no_rows(
    make, options, forgiving
) -> None:
    run = make(golden=[1, 10])
    done = run.command(*options, *forgiving)
    assert done.returncode == (0 if forgiving else 3)
    assert done.stderr.count("there is none for step 2, and no row") == 1
    assert {step for _, _, step in run.places()} == {"1", "10"}
    assert run.document()["summary"]["steps_without_golden"] == ["2"]
    assert forgiving or "Incomplete: 1 step has no golden data." in done.stdout
    assert goldwatch.open_result(str(run.folder / "out")).exit_code == done.returncode


def test_a_training_without_golden_data_of_any_step_exits_with_4(make) -> None:
    run = make(golden=[5])
    done = run.command()
    assert done.returncode == 4 and "there is none for steps 1, 2, 10" in done.stdout + done.stderr


def test_one_golden_folder_serves_all_steps(make) -> None:
    run = make(Training(steps=(1,)), golden=[1])
    Training(steps=(3,)).write_tree(str(run.folder / "dump"))
    for name in os.listdir(str(run.folder / "golden" / "1")):
        os.rename(str(run.folder / "golden" / "1" / name), str(run.folder / "golden" / name))
    assert run.command().returncode == 1
    assert {row["step"] for row in run.document()["rows"] if row["verdict"] == "fail"} == {"3"}


@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
def test_a_tree_whose_models_have_no_graph_exits_with_4(make, options) -> None:
    run = make(Training(models=("a", "b")), graphs=[0])
    shutil.rmtree(str(run.folder / "dump" / run.training.time / "0" / "a"))
    shutil.rmtree(str(run.folder / "dump" / run.training.time / "1" / "a"))
    done = run.command(*options)
    assert done.returncode == 4
    assert (
        "graphs: no model of TARGET has a graph in it: TARGET holds b; the graphs are of a"
        in done.stderr
    )
    assert not os.path.exists(str(run.folder / "out" / "result.json"))


def test_any_folder_of_a_training_tree_may_be_given(make) -> None:
    run = make()
    below = os.path.join("dump", run.training.time, "1", SECOND)
    assert run.command(target=below).returncode == 0
    assert run.places() == {("1", SECOND, step) for step in ("1", "2", "10")}


def test_dumps_below_no_model_use_the_computational_graph(make) -> None:
    run = make(Training(devices=1, steps=(1,)))
    os.rename(
        str(run.folder / "dump" / run.training.time / "0" / FIRST / "1" / "1"),
        str(run.folder / "loose"),
    )
    os.rename(str(run.folder / "golden" / "1"), str(run.folder / "own"))
    shutil.rmtree(str(run.folder / "golden"))
    os.rename(str(run.folder / "own"), str(run.folder / "golden"))
    assert run.command(target="loose").returncode == 0
    assert {row["op"] for row in run.document()["rows"] if row["kind"] == "output"} == {
        "part0/IteratorGetNext", "part0/Mul", "part0/MatMul", "part0/Relu"
    }  # fmt: skip


def test_a_model_name_that_differs_only_in_its_time_finds_its_graph(make) -> None:
    run = make(Training(steps=(1,)))
    shutil.rmtree(str(run.folder / "graphs"))
    later = tuple(name.replace("20260102030405", "20260505050505") for name in Training.models)
    Training(models=later).write_graphs(str(run.folder / "graphs"))
    assert run.command().returncode == 0
    assert run.places() == combinations(run.training)


def test_files_in_the_graph_folder_that_are_no_models_are_ignored(make) -> None:
    run = make(Training(steps=(1,)))
    (run.folder / "graphs" / "acl.json").write_text("{}")
    (run.folder / "graphs" / "ge_proto_00000001_PreRunBegin.txt").write_text("graph {")
    run.training.model(1).write_json(str(run.folder / "graphs" / "again.json"))
    done = run_here(
        ["goldwatch", "compare", "dump", "golden", "-f", "graphs", "-o", "out"], run.folder
    )
    assert done.returncode == 0
    assert (
        "passed over: graphs/acl.json: no graph in it" in done.stderr
        and "PreRunBegin" not in done.stderr
    )
    assert "graphs/again.json: left out" in done.stderr


def test_an_unreadable_graph_leaves_out_its_model_only(make) -> None:
    run = make(Training(steps=(1,)))
    graphs = run.folder / "graphs"
    broken = graphs / "ge_proto_00000002_Build.txt"
    broken.write_text(broken.read_text()[:200])
    os.mkfifo(str(graphs / "a.json"))
    (graphs / "b.json").symlink_to("nowhere")
    (graphs / "c.json").mkdir()
    done = run.command("compare", "-q")
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert "left out model %s" % SECOND in line
    assert line.endswith(
        "has this name; passed over: graphs/a.json, graphs/b.json, graphs/c.json, "
        "graphs/ge_proto_00000002_Build.txt"
    )


def test_a_graph_folder_without_models_is_refused(make) -> None:
    run = make(Training(steps=(1,)))
    done = run.command(model="golden")
    assert done.returncode == 4 and "golden: no model in this folder" in done.stderr
    done = run.command("compare", "--quant-json", "q.json")
    assert done.returncode == 2 and "belong to one model" in done.stderr


def test_a_single_graph_file_leaves_out_other_models(make) -> None:
    run = make(Training(steps=(1,)))
    done = run.command(model=os.path.join("graphs", "ge_proto_00000001_Build.txt"))
    assert done.returncode == 0
    assert {model for _, model, _ in run.places()} == {FIRST}
    assert done.stderr.count("left out model " + SECOND) == 1


def test_a_continued_run_compares_nothing_twice(make) -> None:
    run = make(Training(wrong=(Wrong("part0/Relu"),)))
    assert run.command().returncode == 1
    first = run.document()
    assert run.command().returncode == 1
    assert run.document() == first
    run.training.model(0, step=1).write_ge_text(
        str(run.folder / "graphs" / "ge_proto_00000009_Build.txt")
    )
    assert run.command().returncode == 1
    assert run.document()["summary"] == first["summary"]


def test_rows_that_pass_are_not_read_from_the_store_at_the_end(make, monkeypatch) -> None:
    read, made = RowReader.row, []
    run = make(Training())

    def counted(reader, values):
        made.append(read(reader, values))
        return made[-1]

    monkeypatch.setattr(RowReader, "row", counted)
    assert run.command().returncode == 0
    assert len(run.document()["rows"]) > 90 > 9 > len(made)


def test_a_selection_of_ops_applies_to_every_model(make) -> None:
    run = make(Training(steps=(1,)))
    assert run.command("compare", "--select", "2").returncode == 0
    assert {row["op"] for row in run.document()["rows"]} == {"part0/MatMul", "part1/MatMul"}
    assert run.command("compare", "--select", "9", "--force").returncode == 2


def test_run_compares_a_training_program(make) -> None:
    run = make(Training(wrong=(Wrong("part1/Relu", 0, 2),)))
    dump = {
        "dump_list": [{"model_name": name} for name in (FIRST, SECOND)],
        "dump_path": str(run.folder / "live"),
        "dump_mode": "all",
    }
    (run.folder / "acl.json").write_text(json.dumps({"dump": dump}))
    program = [sys.executable, "-m", "goldwatch.testing", "serve", "dump", "--acl", "acl.json"]
    words = [
        "run",
        "--acl",
        "acl.json",
        "--golden",
        "golden",
        "-f",
        "graphs",
        "-o",
        "out",
        "--",
        *program,
    ]
    words = [sys.executable, "-m", "goldwatch", *words]
    done = subprocess.run(
        words,
        cwd=str(run.folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.returncode == 1, done.stderr
    assert run.places() == combinations(run.training)
    first = run.document()["summary"]["first_divergence"]
    assert (first["op"], first["step"], first["device"]) == ("part1/Relu", "2", "0")


@pytest.mark.parametrize("dumped", [True, False])
def test_what_hands_out_training_data_need_not_have_golden_data(make, dumped) -> None:
    run = make(Training(devices=1, steps=(1, 2)))
    folders = ["golden"] if dumped else ["golden", "dump"]
    for folder in folders:
        for path in (run.folder / folder).glob("**/*IteratorGetNext*"):
            path.unlink()
    assert run.command().returncode == 0
    absent = {
        row["tensor"]: row["reason"]
        for row in run.document()["rows"]
        if row["verdict"] == "expected_absent"
    }
    assert "hands out training data; no golden file" in absent["part0/Mul:input:0"]


def test_the_terminal_shows_device_and_step_where_rows_differ_in_them(make) -> None:
    run = make(Training(steps=(9, 10)))
    target, model = (
        os.path.join("dump", run.training.time, "0"),
        os.path.join("graphs", "ge_proto_00000001_Build.txt"),
    )
    lines = run.command("compare", "--table", "all", target=target, model=model).stdout.splitlines()
    assert lines[:2] == ["  pass  all rows of 2 steps", ""]
    (nine,), (ten,) = (
        [number for number, line in enumerate(lines) if line == " step %d:" % step]
        for step in (9, 10)
    )
    (first, second) = [
        number for number, line in enumerate(lines) if " part0/Mul:output:0 " in line
    ]
    assert nine < first < ten < second


def test_expect_all_waits_for_every_op_of_every_model(make) -> None:
    run = make(Training(steps=(1,)))
    done = run.command("watch", "--expect-all")
    assert done.returncode == 0 and run.places() == combinations(run.training)


def test_python_compares_a_training(make) -> None:
    run = make(Training(wrong=(Wrong("part0/Mul", 1, 10),)))
    folder = str(run.folder)
    result = goldwatch.compare(
        folder + "/dump", folder + "/golden", model=folder + "/graphs", jobs=1
    )
    assert (
        result.exit_code == 1
        and result.first_divergence.place.step == "10"
        and not result.summary.devices_agree
    )
    graphs = goldwatch.load_models(folder + "/graphs")
    assert graphs.of(SECOND).name == SECOND and graphs.of("other") is None and len(graphs) == 2


def test_compare_op_compares_one_op_of_a_training(make) -> None:
    run = make()
    below = os.path.join("dump", run.training.time, "1", SECOND, "2", "2")
    done = run_here(
        [
            "goldwatch",
            "compare-op",
            below,
            "golden",
            "part1/MatMul",
            "-f",
            "graphs",
            "-o",
            "out",
            "--rows",
            "none",
        ],
        run.folder,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
def test_the_ranks_of_a_mindspore_dump_are_compared_apart(make, options) -> None:
    run = make(Training(wrong=(Wrong("part0/MatMul", 1, 10),)))
    (time,) = os.listdir(str(run.folder / "dump"))
    for device in os.listdir(str(run.folder / "dump" / time)):
        path = run.folder / "dump" / time / device
        shutil.move(str(path), str(run.folder / "dump" / ("rank_" + device)))
    os.rmdir(str(run.folder / "dump" / time))
    done = run.command(*options)
    assert done.returncode == 1, done.stderr
    first = run.document()["summary"]["first_divergence"]
    assert (first["op"], first["device"], first["step"]) == ("part0/MatMul", "rank_1", "10")
    assert "pass on device rank_0, fail on device rank_1" in " ".join(done.stdout.split())
    assert "goldwatch compare-op dump/rank_1/" in done.stdout


def test_the_proposed_compare_op_command_names_device_and_step(make) -> None:
    """Of the place where the suspect is, with the golden data of its step."""
    run = make(Training(wrong=(Wrong("part0/MatMul", 1, 10),)))
    text = run.command().stdout
    words = shlex.split(text.split("look closer: ")[1].split("\nResults")[0])
    assert (
        words[2].endswith("/10")
        and words[3] == os.path.join("golden", "10")
        and words[4] == "part0/MatMul"
    )
    done = run_here([*words, "--format", "json"], run.folder)
    tensors = {each["tensor"]: each for each in json.loads(done.stdout)["tensors"]}
    assert (
        done.returncode == 1 and tensors["part0/MatMul:output:0"]["findings"][0]["kind"] == "scale"
    )


def test_many_disagreeing_devices_are_listed_in_one_line():
    few = Difference("2", "op:output:0", (("0", "pass"), ("1", "fail")))
    assert few.sentence == "op:output:0 in step 2: pass on device 0, fail on device 1"
    many = Difference(
        None, "op", tuple((str(number), "fail" if number == 3 else "pass") for number in range(16))
    )
    assert many.sentence == "op: pass on devices 0, 1, 2, 4 and 11 more; fail on device 3"


@pytest.mark.parametrize("wrong", [(), (Wrong("part0/MatMul"),)])
@pytest.mark.parametrize("shift", [1, -1])
@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
def test_golden_data_that_are_a_step_off_are_told_to_be_of_other_steps(
    make, options, shift, wrong
) -> None:
    run = make(Training(devices=1, steps=(1, 2, 3), wrong=wrong))
    golden = run.folder / "golden"
    for step in sorted((1, 2, 3), reverse=shift > 0):
        os.rename(str(golden / str(step)), str(golden / str(step + shift)))
    done = run.command(*options)
    text, summary = " ".join(done.stdout.split()), run.document()["summary"]
    said = [one for one in summary["warnings"] if one["code"] == "golden-of-other-steps"]
    # One step has no golden data of its number any more.
    pairs = [
        "those of step %d fit the dumps of step %d" % (step + shift, step)
        for step in (1, 2, 3)
        if (golden / str(step)).exists()
    ]
    assert len(said) == 1 and all(pair in said[0]["sentence"] for pair in pairs), said
    assert "But golden data are of other steps: those of step " in text, text
    assert {suspect["confidence"] for suspect in summary["suspects"]} == {"low"}


@pytest.mark.parametrize("from_op", ["part0/Mul", "part0/MatMul"])
def test_an_operator_that_kept_its_output_of_the_step_before_is_no_other_golden_data(
    make, from_op
) -> None:
    """What runs behind it computes with the old values, and fits the step before as well."""
    run = make(Training(devices=1, steps=(1, 2)))
    ops = ["part0/Mul", "part0/MatMul", "part0/Relu"]
    files = {}
    for base, _, names in os.walk(str(run.folder / "dump" / Training.time)):
        for name in names:
            files[os.path.basename(base), name.split(".")[1]] = os.path.join(base, name)
    for op in ops[ops.index(from_op) :]:
        name = op.replace("/", "_")
        shutil.copyfile(files["1", name], files["2", name])
    done = run.command()
    text = " ".join(done.stdout.split())
    assert done.returncode == 1 and "%s (" % from_op in text, text
    assert "golden data are of other steps" not in text, text


def test_the_golden_data_of_one_step_are_told_to_be_of_another_than_the_dumps(make) -> None:
    run = make(Training(devices=1, steps=(1, 2)))
    (place,) = [
        base
        for base, _, files in os.walk(str(run.folder / "dump"))
        if files and base.endswith("%s/1/2" % FIRST)
    ]
    words = ["goldwatch", "compare", place, "golden/1", "-o", "out", "-f", "graphs"]
    text = " ".join(run_here(words, run.folder).stdout.split())
    said = "But golden data are of other steps: those of step 2 fit the dumps of step 2 (4 tensors"
    assert said in text and "confidence high" not in text, text
    words[3] = "golden/2"
    assert run_here([*words, "--force"], run.folder).returncode == 0


@pytest.mark.parametrize("models", ["graphs", None])
def test_folders_of_steps_with_a_manifest_of_their_own_are_steps(make, models) -> None:
    """As where golden data of each step are made by a command of their own."""
    run = make(Training(devices=1, steps=(1, 2)))
    for step in ("1", "2"):
        folder = run.folder / "golden" / step
        (folder / "manifest.json").write_text(json.dumps({"complete": True, "tensors": []}))
    words = ["goldwatch", "compare", "dump", "golden", "-o", "out"]
    done = run_here([*words, *(["-f", models] if models else [])], run.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "several runs" not in done.stderr
    os.rename(str(run.folder / "golden" / "1"), str(run.folder / "golden" / "3"))
    done = run_here([*words, "--force", *(["-f", models] if models else [])], run.folder)
    assert "GOLDEN's folders are steps (2, 3): there is none for step 1" in done.stderr


@pytest.mark.parametrize("options", [("compare",), ("watch", "--until-idle", "1")])
@pytest.mark.parametrize(
    ("wrong", "said"), [((), True), ((Wrong("part0/MatMul", from_step=2),), False)]
)
def test_golden_data_for_all_steps_that_fit_one_alone_are_told_to_be(
    make, options, wrong, said
) -> None:
    """Not so where the device is wrong behind the first output, and all steps have one input."""
    run = make(Training(devices=1, steps=(1, 2, 10), wrong=wrong))
    given = run.folder / "golden" / "1"
    if wrong:
        for place, _, names in os.walk(str(run.folder / "dump")):
            if names and os.path.basename(place) != "1" and "_11" in place:
                first = os.path.join(os.path.dirname(place), "1")
                for name in names:
                    if "IteratorGetNext" in name or "Mul." in name and "MatMul" not in name:
                        (old,) = [one for one in os.listdir(first) if one[:20] == name[:20]]
                        shutil.copyfile(os.path.join(first, old), os.path.join(place, name))
    os.rename(str(given), str(run.folder / "of_one"))
    shutil.rmtree(str(run.folder / "golden"))
    os.rename(str(run.folder / "of_one"), str(run.folder / "golden"))
    done = run.command(*options)
    summary = run.document()["summary"]
    codes = [one["code"] for one in summary["warnings"]]
    assert done.returncode == 1 and ("golden-of-one-step" in codes) == said, codes
    if said:
        text = " ".join(done.stdout.split())
        assert "But GOLDEN, which is for all steps, may be of step 1: there all" in text, text
        assert {suspect["confidence"] for suspect in summary["suspects"]} == {"low"}
