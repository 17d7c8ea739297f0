"""``goldwatch locate`` from two models to the culprit, on a stand-in host."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
from dataclasses import replace
from types import SimpleNamespace

import jsonschema
import numpy as np
import onnx
import onnx_models as build
import pytest
from in_process import run_here
from locate_host import FAULT, prepared, small

from goldwatch import __version__
from goldwatch.cli.locate_outcome import Outcome, print_outcome
from goldwatch.device.locate.search import CaseResult
from goldwatch.judging.diagnosis.explanations import Explanation
from goldwatch.run.result import stored_result
from goldwatch.schemas import load_schema


def run_of(place, out="out"):
    with open(str(place.folder / out / "run" / "result.json"), encoding="utf-8") as stream:
        return json.load(stream)["summary"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, host_template):
    """A folder with a finished search, run as by a user, of which ``done`` is what was printed; its
    tests change nothing there.
    """
    place = prepared(tmp_path_factory.mktemp("finished"), host_template)
    place.done = place.locate_as_user("model.onnx", "model.om", "-o", "out")
    return place


def test_one_command_names_the_culprit(finished) -> None:
    done = finished.done
    assert done.returncode == 1, done.stderr
    assert (
        "suspect: second\n" in done.stdout
        and "outputs of the network: outside their limits (1 of 1 tensor)" in done.stdout
    )
    assert run_of(finished)["suspects"][0]["op"] == "second"
    # The answer is the last eight lines; rows and what the program prints are in files.
    assert len(done.stdout.splitlines()) <= 8 and "[INFO]" not in done.stdout + done.stderr
    assert "[INFO]" in (finished.folder / "out" / "run" / "program.log").read_text()
    # Rows that later ones may still let pass tell nothing beside the last lines.
    assert "watching " in done.stderr and "provisional" not in done.stderr
    assert (
        (finished.folder / "out" / "report.html")
        .read_text(encoding="utf-8")
        .startswith("<!DOCTYPE html>")
    )
    # Of what passed nothing stays.
    kept = [
        name for _, _, names in os.walk(str(finished.folder / "out" / "dump")) for name in names
    ]
    assert kept and not any(".first." in name for name in kept)


def test_compare_tells_which_dumps_the_search_deleted(finished) -> None:
    words = ["goldwatch", "compare", "out/dump", "out/golden", "-f", "out/model.json", "-o", "anew"]
    done = run_here(words, finished.folder)
    assert done.returncode == 1, done.stderr
    said = "were deleted after their comparison by the run whose result is in out/run"
    assert "warning: dumps of " in done.stderr and said in done.stderr
    assert "only chosen layers" not in done.stderr
    shutil.rmtree(str(finished.folder / "anew"))


def test_a_repeated_locate_does_nothing_twice_and_repeats_the_verdict(finished) -> None:
    again = finished.locate("model.onnx", "model.om", "-o", "out")
    assert (
        again.returncode == 1
        and "suspect: second\n" in again.stdout
        and "second (MatMulV2) is the first operator" in again.stdout
    )
    assert finished.commands(again) == []
    assert finished.commands(again, "done: ") == finished.commands(finished.done)
    quiet = finished.locate("model.onnx", "model.om", "-o", "out", "-q")
    told, _, rest = quiet.stdout.partition("\n")
    assert (rest, quiet.stderr) == (finished.done.stdout, "")
    assert told.startswith("result of 20")
    assert told.endswith(": the om was not run again; --again runs it anew")
    # A dry run tells what is there, and what would be run.
    for more, left in (([], []), (["--again"], ["run", "compare", "report"])):
        dry = finished.locate("model.onnx", "model.om", "-o", "out", "--dry-run", *more)
        lines = dry.stdout.splitlines()
        marked = [line.split()[:3] for line in lines if line.startswith(("$ ", "done: "))]
        assert len(marked) == 7 and [words[2] for words in marked if words[0] == "$"] == left
        there = "the om was run before, and its result is in out: nothing is run; --again runs it"
        assert (there in lines[-1]) == (not more), dry.stdout


def test_what_the_runs_of_two_oms_print_is_in_their_logs(place) -> None:
    place.host()
    done = place.locate_as_user("model.om", "model.om", "-o", "out")
    assert done.returncode == 0 and "[INFO]" not in done.stdout + done.stderr, done.stderr
    for name in ("golden_run", "run"):
        assert "[INFO]" in (place.folder / "out" / name / "program.log").read_text()


def test_two_wrong_operators_are_both_named_with_what_to_do_in_the_last_lines(
    place, resblock
) -> None:
    place.host("op:res2a_branch1=scale:1.3", "op:res2a_branch2b=pad")
    place.atc("net.prototxt", "net.om", "--framework=0", "--weight=net.caffemodel")
    done = place.locate("net.prototxt", "net.om", "-o", "out")
    assert done.returncode == 1, done.stderr
    last = done.stdout[done.stdout.index("suspect: ") :].splitlines()
    assert last[0] == "suspect: res2a_branch1, and 1 more: res2a_branch2b"
    assert last[1].startswith("  res2a_branch1: scale: its output is what is computed times 1.3 ")
    assert last[2].startswith("    next: compare the operator's weights and numbers (scale, ")
    assert last[3].startswith("  res2a_branch2b: shift: the target holds the computed values")
    assert last[4].startswith("    next: look at the operator's padding")
    assert last[5:] == [
        "all rows: out/run/result.json; what the program printed: out/run/program.log",
        "page: out/report.html",
    ]
    with open(str(place.folder / "out" / "locate.json"), encoding="utf-8") as stream:
        assert json.load(stream)["outcome"]["culprits"] == ["res2a_branch1", "res2a_branch2b"]
    again = place.locate("net.prototxt", "net.om", "-o", "out", "--format", "json")
    document = json.loads(again.stdout)
    jsonschema.validate(document, load_schema("locate"))
    assert document["culprits"] == document["runs"][0]["culprits"]
    assert document["culprits"] == ["res2a_branch1", "res2a_branch2b"]


def test_the_last_line_about_an_om_that_does_not_load_is_the_runners_error(place) -> None:
    assert place.locate("model.onnx", "model.om", "-o", "json", "--until", "inputs").returncode == 0
    (place.folder / "cut.om").write_bytes((place.folder / "model.om").read_bytes()[:300])
    done = place.locate("model.onnx", "cut.om", "-f", "json/model.json", "-o", "out")
    last = "\n".join(done.stderr.splitlines()[-2:])
    assert done.returncode == 5 and "the run of the om failed: the om cannot be loaded (" in last
    assert "File is not a zip file" in last and "load model from file failed" in last
    assert "hint: is it whole" in last


def test_the_last_line_names_a_model_that_does_not_load(place) -> None:
    assert place.locate("model.onnx", "model.om", "-o", "json", "--until", "inputs").returncode == 0
    (place.folder / "cut.onnx").write_bytes((place.folder / "model.onnx").read_bytes()[:300])
    done = place.locate("cut.onnx", "model.om", "-f", "json/model.json", "-o", "out")
    last = [line for line in done.stderr.splitlines() if line][-2:]
    assert done.returncode == 4 and "cut.onnx" in "".join(last), done.stderr


def test_a_culprit_beside_outputs_within_their_limits_is_explained(finished) -> None:
    search = SimpleNamespace(notes=[])
    summary = SimpleNamespace(verdict="pass", passed=1, failed=0)
    result = CaseResult(SimpleNamespace(shapes={}), str(finished.folder / "out"), 1)
    result.run = stored_result(str(finished.folder / "out" / "run"))
    result.final = SimpleNamespace(summary=summary)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_outcome(Outcome(search, [result]))
    text = out.getvalue()
    assert "outputs of the network: within their limits (1 tensor)" in text
    assert "suspect: second\n" in text and "within their limits all the same" in text
    assert "pass" not in text[text.index("outputs of the network") :]


def test_other_weights_accuse_no_operator(finished) -> None:
    found = stored_result(str(finished.folder / "out" / "run"))
    of_another = Explanation("other-weights", 1.0, "of another om", "give that one")
    (suspect,) = found.summary.suspects
    suspect = replace(suspect, confidence="none", explanations=(of_another,))
    result = CaseResult(SimpleNamespace(shapes={}), str(finished.folder / "out"), 1)
    result.run = replace(found, summary=replace(found.summary, suspects=(suspect,)))
    assert (result.culprit, result.culprits, result.suspects) == (None, [], [])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_outcome(Outcome(SimpleNamespace(notes=[]), [result]))
    text = out.getvalue()
    assert "suspect: none: other-weights: of another om\n  next: give that one\n" in text
    assert "suspect: second" not in text


@pytest.mark.parametrize("inherited, left", [(True, False), (False, False), (True, True)])
def test_small_errors_add_up_only_where_that_was_computed(finished, inherited, left) -> None:
    """Without proof, the run's own sentence says what is known of the first divergence."""
    found = stored_result(str(finished.folder / "out" / "run"))
    # Each operator is right on its own inputs, and the first is outside its limits.
    nobody = {"wrong": 0, "not_computed": [{"op": "odd", "reason": "why"}] * left}
    changes = {"suspects": (), "culprit": None, "recomputed": nobody, "inherited": inherited}
    summary = replace(found.summary, **changes)
    result = CaseResult(SimpleNamespace(shapes={}), str(finished.folder / "out"), 1)
    result.run = replace(found, summary=summary)
    plan = SimpleNamespace(interface=None, original=None, request=SimpleNamespace(keep="all"))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_outcome(Outcome(SimpleNamespace(notes=[], plan=plan), [result]))
    text = " ".join(out.getvalue().split())
    assert ("small errors add up" in text) == ("next: goldwatch cure" in text) == inherited, text
    assert ("each is right on the device's own inputs" in text) == (not left)
    assert ("(odd could not): whether small errors add up until" in text) == left


def test_a_suspect_within_all_limits_fails_a_strict_search(place) -> None:
    place.host("op:second=scale:1.01")
    for words, code in (([], 0), (["--strict"], 1)):
        done = place.locate("model.onnx", "model.om", "-o", "out%d" % code, *words)
        assert done.returncode == code and "suspect: second\n" in done.stdout, done.stdout
        assert "(every tensor is within its limits all the same" in done.stdout


@pytest.mark.parametrize("runner", ["msame", "pyacl"])
def test_each_runner_runs_the_om_and_a_quiet_search_prints_its_last_lines_alone(
    place, runner
) -> None:
    done = place.locate("model.onnx", "model.om", "-o", "out", "--runner", runner, "-q")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and done.stderr == ""
    assert lines[0].startswith("fail: ") and lines[1].startswith("second (MatMulV2) is the first")
    assert lines[2].startswith("outputs of the network: outside") and lines[3] == "suspect: second"
    assert lines[-1] == "page: out/report.html" and len(lines) <= 8


def test_healthy_outputs_agree(place) -> None:
    place.host()
    done = place.locate("model.onnx", "model.om", "-o", "out")
    assert (
        done.returncode == 0 and "outputs agree within their limits\n" in done.stdout
    ), done.stderr


def test_what_changed_since_an_earlier_search_is_refused_or_made_anew(place) -> None:
    assert place.locate("model.onnx", "model.om", "-o", "out").returncode == 1
    rows = run_of(place)["rows"]
    other = place.locate("model.onnx", "model.om", "-o", "out", "--seed", "1")
    assert (
        other.returncode == 2
        and "out holds a search with other inputs: seed changed since its step inputs"
        in other.stderr
    )
    # Rows of an earlier search whose state is lost accuse nobody.
    place.host()
    (place.folder / "out" / "locate.json").write_text("{")
    damaged = place.locate("model.onnx", "model.om", "-o", "out")
    assert damaged.returncode == 4 and "remove it and add --force to begin anew" in damaged.stderr
    (place.folder / "out" / "locate.json").unlink()
    refused = place.locate("model.onnx", "model.om", "-o", "out")
    assert refused.returncode == 2 and "out holds inputs, golden, " in refused.stderr
    assert "--force makes it anew" in refused.stderr and "--merge" not in refused.stderr
    forced = place.locate("model.onnx", "model.om", "-o", "out", "--force")
    assert forced.returncode == 0 and "outputs agree within their limits\n" in forced.stdout
    assert "culprit" not in forced.stdout and "suspect" not in forced.stdout, forced.stdout
    assert run_of(place)["rows"] == rows
    # --again runs the om of a device that is another now, with the same golden data.
    place.host(FAULT)
    old = place.locate("model.onnx", "model.om", "-o", "out", "--format", "json")
    assert "the om was not run again" in json.loads(old.stdout)["notes"][0]["sentence"]
    again = place.locate("model.onnx", "model.om", "-o", "out", "--again")
    assert again.returncode == 1 and "suspect: second\n" in again.stdout, again.stderr
    assert "result of" not in again.stdout
    done = [shlex.split(command)[1] for command in place.commands(again, "done: ")]
    assert done[1:] == ["locate", "golden", "config"]
    # Golden data are of any om of the model.
    place.atc("model.onnx", "model.om", "--precision_mode=force_fp32")
    place.host()
    refused = place.locate("model.onnx", "model.om", "-o", "out")
    assert refused.returncode == 2
    assert "the om changed since its step model" in refused.stderr and place.commands(refused) == []
    forced = place.locate("model.onnx", "model.om", "-o", "out", "--force")
    assert forced.returncode == 0, forced.stderr
    assert [shlex.split(command)[1] for command in place.commands(forced, "done: ")] == [
        "locate",
        "golden",
    ]


def test_a_dry_run_starts_nothing_and_its_commands_give_the_same_result(place) -> None:
    done = place.locate("model.onnx", "model.om", "-o", "out", "--dry-run")
    assert done.returncode == 0 and not (place.folder / "out").exists()
    for text in ("golden   onnxruntime in", "runner   ais_bench of", "x: float32 [2, 32] | float32 "
        "[2, 32] | random (seed 0)",
                 "dump     all inputs and outputs: about", "time     about"):  # fmt: skip
        assert text in done.stdout, done.stdout
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    assert [shlex.split(line)[:2] for line in lines[1:]] == [
        ["goldwatch", step] for step in ("locate", "golden", "config", "run", "compare", "report")
    ]
    (place.folder / "out").mkdir()
    codes = [subprocess.call(shlex.split(lines[0]), cwd=str(place.folder), env=place.environ)]
    for line in lines[1:]:
        done = run_here(shlex.split(line), place.folder, place.environ, with_programs=True)
        codes.append(done.returncode)
    assert codes == [0, 0, 0, 0, 1, 1, 0]
    assert run_of(place)["suspects"][0]["op"] == "second"


def test_everything_missing_is_reported_at_once(place) -> None:
    place.environ.update(
        PATH="/usr/bin:/bin", PYTHONPATH="", ASCEND_TOOLKIT_HOME="", HOME=str(place.folder)
    )
    done = place.locate("nothing.onnx", "model.om", "-o", "out")
    assert done.returncode == 4 and not (place.folder / "out").exists()
    for text in ("1. MODEL: nothing.onnx does not exist", "3. nothing here runs an om: "
        "ais_bench: no Python here has it",
                 "2. the om's json cannot be made: no atc on PATH", "nothing was started: 3 things "
                     "are missing or wrong"):  # fmt: skip
        assert text in done.stderr, done.stderr
    done = place.locate("model.onnx", "modle.om", "-o", "out")
    assert "1. OM: modle.om does not exist" in done.stderr, done.stderr


def test_exchanged_model_and_om_are_reported(place) -> None:
    done = place.locate("model.om", "model.onnx", "-o", "out")
    assert done.returncode == 4 and not (place.folder / "out").exists()
    assert "MODEL and OM are exchanged: model.om is" in done.stderr
    assert "MODEL model.onnx, OM model.om" in done.stderr


@pytest.mark.parametrize(
    ("model", "om", "words"),
    [
        ("nothing.onnx", "model.om", "MODEL: nothing.onnx does not exist"),
        ("model.om", "nothing.om", "OM: nothing.om does not exist"),
        ("model.onnx", "nothing.om", "OM: nothing.om does not exist"),
        ("model.onnx", "npu", "OM: npu is not a regular file"),
        ("cut.onnx", "model.om", "cut.onnx: cut short: the field at byte"),
    ],
)
def test_a_missing_model_is_reported_before_atc_runs(place, model, om, words) -> None:
    whole = (place.folder / "model.onnx").read_bytes()
    (place.folder / "cut.onnx").write_bytes(whole[:-50])
    done = place.locate(model, om, "-o", "out")
    assert done.returncode == 4 and words in done.stderr
    assert place.commands(done) == [] and not (place.folder / "out").exists()


@pytest.mark.parametrize("option", ["--narrow", "--cure"])
def test_missing_tools_for_narrow_and_cure_are_reported_before_anything_runs(place, option) -> None:
    two = place.locate("model.om", "model.om", "-o", "out", option)
    assert (
        two.returncode == 4
        and "%s: MODEL is a second om" % option in two.stderr
        and not (place.folder / "out" / "golden").exists()
    )
    assert place.locate("model.onnx", "model.om", "-o", "json", "--until", "inputs").returncode == 0
    os.remove(str(place.folder / "npu" / "bin" / "atc"))
    without = place.locate("model.onnx", "model.om", "-f", "json/model.json", "-o", "out", option)
    assert (
        without.returncode == 4 and "%s: atc converts, and is not here" % option in without.stderr
    ), without.stderr
    assert not (place.folder / "out" / "golden").exists()


def test_an_out_folder_that_ge_cannot_dump_into_is_refused(place) -> None:
    done = place.locate("model.onnx", "model.om", "-o", "my out")
    assert (
        done.returncode == 4
        and "GE allows no ' ' in dump_path" in done.stderr
        and not (place.folder / "my out" / "golden").exists()
    )


def test_a_failed_step_is_reported_and_the_repeated_command_continues(place) -> None:
    made = []
    for fault, words in {
        "no-device": "the device cannot be opened",
        "out-of-memory": "memory on the device ran out",
        "wrong-input-size": "the om takes an input of another size than its json says",
        "other-chip": "the om was made for another chip than the device's",
        "op:secnd=scale:1.05": None,
        "crash:2": "the program was ended by SIGSEGV in the middle of its run",
    }.items():
        place.host(fault)
        done = place.locate("model.onnx", "model.om", "-o", "out")
        assert done.returncode == 5, done.stderr
        if words is not None:
            assert "goldwatch: the run of the om failed: " + words in done.stderr
            assert "the same command goes on with the run: all before it is kept" in done.stderr
        else:
            log = done.stdout + done.stderr
            assert "fault of the op secnd, which the model has not: did you mean second?" in log
        made.append(any("golden onnx" in command for command in place.commands(done)))
    assert made == [True] + [False] * 5
    place.host("lost-dump=relu")
    done = place.locate("model.onnx", "model.om", "-o", "out")
    last = done.stdout.splitlines()[-4:]
    assert done.returncode == 3 and last[0] == "incomplete: relu: no dump file", last
    assert last[1].startswith("  next: result.json in out/run says why of each row")
    place.host(FAULT)
    again = place.locate("model.onnx", "model.om", "-o", "out")
    assert again.returncode == 1 and "suspect: second\n" in again.stdout, again.stderr
    assert not any("golden onnx" in command for command in place.commands(again))


def test_a_program_that_dumps_nothing_is_reported(place) -> None:
    words = ["model.onnx", "out0/model.json", "-o", "out"]
    place.locate("model.onnx", "model.om", "-o", "out0", "--until", "inputs")
    done = place.locate(*words, "--", "true", "{acl_json}")
    assert (
        done.returncode == 4
        and "no dump file came to" in done.stderr
        and "does the program pass" in done.stderr
    )
    assert (place.folder / "out" / "golden" / "manifest.json").exists()


def test_a_users_program_runs_the_om(place) -> None:
    words = [
        "--model",
        "{om}",
        "--input",
        "{inputs}",
        "--output",
        "{output}",
        "--acl_json_path",
        "{acl_json}",
    ]
    done = place.locate(
        "model.onnx", "model.om", "-o", "out", "--", sys.executable, "-m", "ais_bench", *words
    )
    assert (
        done.returncode == 1
        and "suspect: second\n" in done.stdout
        and "outputs of the network: outside their limits" in done.stdout
    ), done.stderr


def chosen_boxes(path) -> None:
    """Twenty boxes of 256, those of the highest scores."""
    state = np.random.RandomState(5)
    weights = {
        "w": 0.3 * state.standard_normal((32, 256)),
        "v": 0.3 * state.standard_normal((32, 256 * 4)),
        "k": np.array([20]),
        "shape": np.array([256, 4]),
        "first": np.array([0]),
    }
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["logits"], name="logits"),
        onnx.helper.make_node("Sigmoid", ["logits"], ["scores"], name="scores"),
        onnx.helper.make_node("TopK", ["scores", "k"], ["best", "at"], name="top", axis=1),
        onnx.helper.make_node("Squeeze", ["at", "first"], ["flat"], name="flat"),
        onnx.helper.make_node("MatMul", ["x", "v"], ["all"], name="all"),
        onnx.helper.make_node("Reshape", ["all", "shape"], ["boxes"], name="boxes"),
        onnx.helper.make_node("Gather", ["boxes", "flat"], ["y"], name="choose"),
    ]
    initialisers = [
        build.weight(name, array.astype(np.int64 if array.dtype.kind == "i" else np.float32))
        for name, array in weights.items()
    ]
    outputs = [build.value("y", (20, 4)), build.value("best", (1, 20))]
    proto = build.model(nodes, [build.value("x", (1, 32))], outputs, initialisers)
    build.save(path, proto)


def test_outputs_behind_decisions_near_a_tie_are_said_to_be_so(place) -> None:
    chosen_boxes(place.folder / "boxes.onnx")
    place.host()
    place.atc("boxes.onnx", "boxes.om")
    done = place.locate("boxes.onnx", "boxes.om", "-o", "out")
    # They are outside their limits: an operator that the om lacks may hide behind a decision.
    assert done.returncode == 1, done.stdout + done.stderr
    said = "outside their limits, behind decisions near a tie"
    assert "outputs of the network: %s (1 of 2 tensors)\n" % said in done.stdout
    assert "it is inherited: the operator makes it of the device's own inputs" in done.stdout
    assert "equal values is all that differs: top:output:1 decided first" in done.stdout
    (command,) = re.findall(r"\((goldwatch compare .* --boxes .*) compares boxes", done.stdout)
    boxes = run_here(command.split(), place.folder)
    assert "outputs whose boxes all match" in " ".join(boxes.stdout.split()), boxes.stderr
    page = (place.folder / "out" / "report.html").read_text()
    assert '<dt>outputs of the network</dt><dd class="name">%s</dd>' % said in page
    document = json.loads((place.folder / "out" / "locate.json").read_text())["outcome"]
    assert (document["exit_code"], document["runs"][0]["outputs"]) == (1, "fail")
    place.host("op:choose=scale:1.2")
    wrong = place.locate("boxes.onnx", "boxes.om", "-o", "wrong")
    assert wrong.returncode == 1 and "suspect: choose\n" in wrong.stdout
    assert "outputs of the network: outside their limits (1 of 2 tensors)" in wrong.stdout


def test_rounding_that_adds_up_in_the_outputs_is_told(place) -> None:
    state = np.random.RandomState(5)
    large, small_ones = (state.standard_normal((64, 256)).astype(np.float32) for _ in range(2))
    constants = {"w": 30 * large, "v": small_ones / 100, "c": np.full(256, 100, np.float32)}
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"], name="large"),
        onnx.helper.make_node("MatMul", ["x", "v"], ["b"], name="small"),
        onnx.helper.make_node("Add", ["b", "c"], ["up"], name="up"),
        onnx.helper.make_node("Relu", ["up"], ["same"], name="relu"),
        onnx.helper.make_node("Sub", ["same", "c"], ["down"], name="down"),
        onnx.helper.make_node("Concat", ["a", "down"], ["y"], name="join", axis=0),
    ]
    weights = [build.weight(name, array) for name, array in constants.items()]
    inputs, outputs = [build.value("x", (1, 64))], [build.value("y", (2, 256))]
    build.save(place.folder / "sum.onnx", build.model(nodes, inputs, outputs, weights))
    place.host()
    place.atc("sum.onnx", "sum.om")
    done = place.locate("sum.onnx", "sum.om", "-o", "out")
    assert done.returncode == 1 and "0 fail" in done.stdout, done.stdout + done.stderr
    assert "the small errors of right operators add up to it" in done.stdout
    assert "next: where so small parts of the outputs matter" in done.stdout


def test_outputs_that_no_dump_holds_are_told(place) -> None:
    place.host()
    script = place.folder / "program.py"
    script.write_text(
        """import glob, subprocess, sys
import numpy as np
code = subprocess.call([sys.executable, "-m", "ais_bench", *sys.argv[1:], "--outfmt", "NPY"])
for path in glob.glob(sys.argv[sys.argv.index("--output") + 1] + "/*/*_0.npy"):
    np.save(path, 2 * np.load(path))
sys.exit(code)
"""
    )
    words = "--model {om} --input {inputs} --output {output} --acl_json_path {acl_json}".split()
    done = place.locate(
        "model.onnx", "model.om", "-o", "out", "--", sys.executable, str(script), *words
    )
    assert done.returncode == 1 and "0 fail" in done.stdout, done.stdout + done.stderr
    assert "no output in the dumps holds these values" in done.stdout
    assert "next: the same command with --again runs the om anew" in done.stdout


def test_given_inputs_are_used_on_both_sides(place) -> None:
    np.save(str(place.folder / "x.npy"), np.ones((2, 32), np.float32))
    done = place.locate("model.onnx", "model.om", "-o", "out", "-i", "x=x.npy", "--until", "inputs")
    assert done.returncode == 0 and "done up to the step inputs" in done.stdout
    assert (place.folder / "out" / "inputs" / "x.bin").read_bytes() == np.ones(
        (2, 32), np.float32
    ).tobytes()
    other = place.locate("model.onnx", "model.om", "-o", "out", "-i", "x=model.om")
    assert other.returncode == 4 and "input x: model.om has" in other.stderr


def test_existing_golden_data_is_used(place) -> None:
    assert (
        place.locate("model.onnx", "model.om", "-o", "first", "--until", "golden").returncode == 0
    )
    words = ["model.onnx", "model.om", "-o", "out", "--golden", "first/golden"]
    lacking = place.locate(*words)
    assert (
        lacking.returncode == 4 and "give the very inputs, that of x is missing" in lacking.stderr
    )
    done = place.locate(*words, "-i", "x=first/inputs/x.npy")
    assert done.returncode == 1 and "suspect: second\n" in done.stdout, done.stderr
    assert not any(" golden onnx " in command for command in place.commands(done))


def test_golden_data_of_another_input_name_no_culprit(place) -> None:
    for seed, name in enumerate(("a.npy", "b.npy")):
        values = np.random.RandomState(seed).standard_normal((2, 32)).astype(np.float32)
        np.save(str(place.folder / name), values)
    words = ["model.onnx", "model.om"]
    made = place.locate(*words, "-i", "x=a.npy", "-o", "first", "--until", "golden")
    assert made.returncode == 0, made.stderr
    done = place.locate(*words, "-i", "x=b.npy", "-o", "out", "--golden", "first/golden")
    assert done.returncode == 1, done.stderr
    last = done.stdout[done.stdout.index("suspect: ") :].splitlines()
    assert last[0] == "suspect: none: device and golden data had different inputs"
    assert last[1].startswith("  next: give with -i the inputs that the golden data were made with")
    assert last[2].startswith("all rows: out/run/result.json") and len(last) == 4
    with open(str(place.folder / "out" / "locate.json"), encoding="utf-8") as stream:
        assert json.load(stream)["outcome"]["culprits"] == []


def test_weights_between_model_and_om_are_told_where_they_belong(place, resblock) -> None:
    done = place.locate("net.prototxt", "net.caffemodel", "model.om", "-o", "out")
    assert done.returncode == 4 and "OM: net.caffemodel is weights of Caffe" in done.stderr
    told = "goldwatch locate net.prototxt model.om --weights net.caffemodel"
    assert told in " ".join(done.stderr.split()), done.stderr


def other_model(place):
    """The same network as ``other.onnx``, all its names others."""
    model = onnx.load(str(place.folder / "model.onnx"))
    renamed = {name: "other_" + name for name in ("a", "b", "y")}
    for node in model.graph.node:
        node.name = "other_" + node.name
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed[name] for name in node.output]
    model.graph.output[0].name = renamed["y"]
    onnx.save(model, str(place.folder / "other.onnx"))


def test_an_om_of_another_model_is_refused_before_anything_runs(place) -> None:
    other_model(place)
    words = ["other.onnx", "model.om", "-o", "out"]
    for done in (place.locate(*words), place.locate(*words, "--dry-run")):
        assert done.returncode == 4, done.stdout
        assert "OM is of another model: none of the " in done.stderr
        assert "is in other.onnx" in done.stderr and "convert MODEL with atc" in done.stderr
    assert sorted(os.listdir(str(place.folder / "out"))) == ["locate.json", "model.json"]
    place.atc("other.onnx", "other.om")
    done = place.locate("other.om", "model.om", "-o", "oms", "--dry-run")
    assert done.returncode == 4 and "is in other.om" in done.stderr, done.stderr


def test_golden_data_of_another_model_are_refused_before_anything_runs(place) -> None:
    other_model(place)
    np.save(str(place.folder / "x.npy"), np.ones((2, 32), np.float32))
    made = place.start("golden", "onnx", "dump", "other.onnx", "-i", "x=x.npy", "-o", "golden")
    assert made.wait(timeout=300) == 0
    words = ["model.onnx", "model.om", "-i", "x=x.npy", "--golden", "golden", "-o", "out"]
    done = place.locate(*words)
    assert done.returncode == 4, done.stdout
    said = "--golden is of another model: none of the 3 names in golden is in model.onnx"
    assert said in done.stderr and "leave it out: golden data are made" in done.stderr
    assert not (place.folder / "out" / "run").exists()


def test_the_json_of_another_model_or_om_is_told_as_such(place) -> None:
    other_model(place)
    place.atc("other.onnx", "other.om")
    for name in ("other", "model"):
        words = ["atc", "--mode=1", "--om=%s.om" % name, "--json=%s.json" % name]
        assert subprocess.run(words, cwd=str(place.folder), env=place.environ).returncode == 0
    done = place.locate("model.onnx", "model.om", "-f", "other.json", "-o", "out")
    assert done.returncode == 4, done.stdout
    assert "-f is of another model: none of the " in done.stderr and "atc makes it" in done.stderr
    shutil.copyfile(str(place.folder / "model.om"), str(place.folder / "renamed.om"))
    words = ["model.onnx", "renamed.om", "-f", "model.json", "-o", "named", "--dry-run"]
    said = " ".join(place.locate(*words).stdout.split())
    assert "model.json names the om model, and OM is renamed.om" in said, said


def with_relu(path):
    """A convolution and its Relu, which the compiler fuses unless told not to, and an Add."""
    state = np.random.RandomState(0)
    weights = (state.standard_normal((4, 3, 3, 3)) / 5).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
        onnx.helper.make_node("Relu", ["c"], ["r"], name="act"),
        onnx.helper.make_node("Add", ["r", "r"], ["y"], name="twice"),
    ]
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, size, 6, 6))
        for name, size in (("x", 3), ("y", 4))
    )
    graph = onnx.helper.make_graph(
        nodes, "net", [x], [y], [onnx.numpy_helper.from_array(weights, "w")]
    )
    opsets = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))


@pytest.mark.parametrize("kind", ["names", "one name"])
def test_the_json_of_another_build_accuses_nobody_for_certain(place, kind) -> None:
    place.host(*(["op:twice=scale:1.2"] if kind == "names" else []))
    with_relu(place.folder / "net.onnx")
    (place.folder / "fs.cfg").write_text(
        '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}'
    )
    for name, more in (("apart", ["--fusion_switch_file=fs.cfg"]), ("fused", [])):
        (place.folder / name).mkdir()
        place.atc("net.onnx", name + "/net.om", *more)
    words = ["atc", "--mode=1", "--om=apart/net.om", "--json=apart.json"]
    assert subprocess.run(words, cwd=str(place.folder), env=place.environ).returncode == 0
    if kind == "one name":
        # As where the compiler keeps the convolution's name for what it has fused.
        text = (place.folder / "apart.json").read_text()
        document = json.loads(text)
        for op in document["graph"][0]["op"]:
            op["name"] = "convact" if op["name"] == "conv" else op["name"]
            op["input"] = [
                "convact:0" if name == "conv:0" else name for name in op.get("input", [])
            ]
        (place.folder / "apart.json").write_text(json.dumps(document))
    done = place.locate("net.onnx", "fused/net.om", "-f", "apart.json", "-o", "out")
    (run,) = json.loads((place.folder / "out" / "locate.json").read_text())["outcome"]["runs"]
    if kind == "names":
        assert done.returncode == 1, done.stdout + done.stderr
        assert "suspect: twice (if the json fits)\n" in done.stdout
        assert run["culprits"] == ["twice"]
    else:
        # What it holds is what the activation behind it makes: the om is right.
        assert done.returncode == 3 and "suspect" not in done.stdout, done.stdout + done.stderr
        assert run["culprits"] == [] and run["outputs"] == "pass"
    assert "is it the json of the model" in run["other_json"]
    assert "not for certain: " in done.stdout and "is it the json of the model" in done.stdout
    assert "next: leave -f out (atc makes the json of OM)" in done.stdout
    right = place.locate("net.onnx", "fused/net.om", "-o", "right")
    assert "not for certain" not in right.stdout and "if the json fits" not in right.stdout
    assert right.returncode == (1 if kind == "names" else 0)


def test_a_json_of_another_build_is_the_next_step_of_an_incomplete_run(place) -> None:
    place.host()
    with_relu(place.folder / "net.onnx")
    (place.folder / "fs.cfg").write_text(
        '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}'
    )
    place.atc("net.onnx", "net.om", "--fusion_switch_file=fs.cfg")
    words = ["atc", "--mode=1", "--om=net.om", "--json=apart.json"]
    assert subprocess.run(words, cwd=str(place.folder), env=place.environ).returncode == 0
    place.atc("net.onnx", "net.om")
    done = place.locate("net.onnx", "net.om", "-f", "apart.json", "-o", "out")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "next: leave -f out (atc makes the json of OM)" in done.stdout
    assert "runs the om again" not in done.stdout


def test_a_cure_in_the_folder_of_a_search_that_kept_less_says_why_not(finished) -> None:
    done = finished.locate("model.onnx", "model.om", "-o", "out", "--cure")
    assert done.returncode == 2, done.stderr
    assert "out holds a search that kept other dumps (--keep): the om has to run" in done.stderr


def test_a_run_stopped_by_the_user_is_judged_and_run_again(place, until) -> None:
    place.host(FAULT, delay_s=0.5)
    process = place.start("locate", "model.onnx", "model.om", "-o", "out", "--narrow")
    dumps = str(place.folder / "out" / "dump")
    until(lambda: process.poll() is not None or any(names for _, _, names in os.walk(dumps)))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert "the run was stopped: what had come is judged; the same command runs the om again" in err
    assert not (place.folder / "out" / "narrow").exists()
    place.host(FAULT)
    again = place.locate("model.onnx", "model.om", "-o", "out")
    assert again.returncode == 1 and "suspect: second\n" in again.stdout
    assert [shlex.split(command)[1] for command in place.commands(again)] == [
        "run",
        "compare",
        "report",
    ]


def test_a_dry_run_in_another_searchs_folder_is_refused_like_the_search(finished) -> None:
    small(finished.folder / "other.onnx", scale=2.0)
    finished.atc("other.onnx", "other.om")
    ends = []
    for words in (
        ("other.onnx", "other.om"), ("model.onnx", "model.om", "--seed", "7"),
        ("model.onnx", "model.om"),
    ):  # fmt: skip
        dry = finished.locate(*words, "-o", "out", "--dry-run")
        assert finished.locate(*words, "-o", "out", "--dry-run", "--force").returncode == 0
        ends.append((dry.returncode, "holds a search with other inputs" in dry.stderr))
    assert ends == [(2, True), (2, True), (0, False)]
    assert finished.locate("other.onnx", "other.om", "-o", "out").returncode == 2


def two_inputs(path) -> None:
    """Save a model whose two inputs have one open dim."""
    dims = {"x": [1, "l", 32], "m": [1, "l", 1], "y": [1, "l", 16]}
    values = [onnx.helper.make_tensor_value_info(name, 1, each) for name, each in dims.items()]
    weight = onnx.numpy_helper.from_array(np.eye(32, 16, dtype=np.float32), "w")
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"], name="fc"),
        onnx.helper.make_node("Mul", ["a", "m"], ["y"], name="mask"),
    ]
    graph = onnx.helper.make_graph(nodes, "g", values[:2], values[2:], [weight])
    opset = [onnx.helper.make_opsetid("", 13)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    onnx.save(model, str(path))


def test_the_shape_of_a_given_file_chooses_the_gear(place) -> None:
    small(place.folder / "any.onnx", None)
    place.atc("any.onnx", "gears.om", "--input_shape=x:-1,32", "--dynamic_batch_size=1,4")
    place.atc("any.onnx", "open.om", "--input_shape=x:-1,32")
    for batch in (3, 4):
        np.save(str(place.folder / ("x%d.npy" % batch)), np.ones((batch, 32), np.float32))
    for om in ("gears.om", "open.om"):
        done = place.locate("any.onnx", om, "-o", om + "_4", "-i", "x=x4.npy", "--until", "inputs")
        assert done.returncode == 0, done.stderr
        assert np.load(str(place.folder / (om + "_4") / "inputs" / "x.npy")).shape == (4, 32)
    done = place.locate("any.onnx", "gears.om", "-o", "none", "-i", "x=x3.npy")
    assert done.returncode == 4 and done.stderr.splitlines()[-2:] == [
        "goldwatch: the om has no gear of the given file's shape: [3, 32] of x",
        "  hint: its gears: x:1,32 | x:4,32",
    ]
    # A raw file has a size only: that of one gear, or what it leaves for one open dim.
    (place.folder / "x.bin").write_bytes(b"\0" * (4 * 32 * 4))
    for om in ("gears.om", "open.om"):
        done = place.locate("any.onnx", om, "-o", om + "_b", "-i", "x=x.bin", "--until", "inputs")
        assert done.returncode == 0, done.stderr
        assert np.load(str(place.folder / (om + "_b") / "inputs" / "x.npy")).shape == (4, 32)
    (place.folder / "x.bin").write_bytes(b"\0" * (3 * 32 * 4))
    done = place.locate("any.onnx", "gears.om", "-o", "none", "-i", "x=x.bin")
    assert done.returncode == 4 and done.stderr.splitlines()[-2:] == [
        "goldwatch: the size of the raw file of x fits no gear of the om",
        "  hint: its gears: x:1,32 | x:4,32",
    ]
    done = place.locate("any.onnx", "open.om", "-o", "unknown")
    assert done.returncode == 4 and "give an .npy of that shape with -i, or --shapes" in done.stderr


def test_a_file_tells_the_shape_of_its_input_where_another_has_none(place) -> None:
    two_inputs(place.folder / "two.onnx")
    place.atc("two.onnx", "two.om", "--input_format=ND", "--input_shape=x:1,-1,32;m:1,-1,1")
    np.save(str(place.folder / "x.npy"), np.ones((1, 16, 32), np.float32))
    words = ["two.onnx", "two.om", "-o", "out", "-i", "x=x.npy"]
    done = place.locate(*words)
    assert done.returncode == 4 and done.stderr.splitlines()[-1] == (
        "goldwatch: input m: the om's shape [1, -1, 1] is told when it runs: give an .npy of that "
        'shape with -i, or --shapes "m:…"'
    )
    done = place.locate(*words, "--shapes", "m:1,16,1", "--until", "inputs")
    assert done.returncode == 0, done.stderr
    assert np.load(str(place.folder / "out" / "inputs" / "m.npy")).shape == (1, 16, 1)


def test_an_om_of_a_part_is_fed_from_golden_data_of_the_whole_model(place) -> None:
    whole = onnx.load(str(place.folder / "model.onnx"))
    onnx.utils.extract_model(
        str(place.folder / "model.onnx"), str(place.folder / "part.onnx"), ["b"], ["y"]
    )
    assert [node.name for node in whole.graph.node] == ["first", "relu", "second"]
    place.host()
    place.atc("part.onnx", "part.om")
    np.save(str(place.folder / "x.npy"), np.full((2, 32), 0.5, np.float32))
    done = place.locate("model.onnx", "part.om", "-o", "out", "-i", "x=x.npy")
    assert done.returncode == 4
    message, hint = done.stderr.splitlines()[-2:]
    assert message.endswith("its inputs are values inside: b, which relu computes")
    command = "goldwatch golden onnx dump model.onnx -i x=x.npy -o golden"
    assert command in hint
    without = place.locate("model.onnx", "part.om", "-o", "out")
    assert command.replace("=x.npy", "=FILE") in without.stderr
    made = run_here(command.split(), place.folder, place.environ)
    assert made.returncode == 0, made.stderr
    done = place.locate("model.onnx", "part.om", "-o", "out", "--golden", "golden")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the om holds a part of MODEL: golden data feed b, which relu computes" in done.stderr
    # Under a name that the whole model does not know it is what the operator reads that takes it,
    # although the model's own input has the same type and shape.
    part = onnx.load(str(place.folder / "part.onnx"))
    part.graph.input[0].name = part.graph.node[0].input[0] = "input_0"
    onnx.save(part, str(place.folder / "renamed.onnx"))
    place.atc("renamed.onnx", "renamed.om")
    done = place.locate("model.onnx", "renamed.om", "-o", "renamed", "-i", "x=x.npy")
    assert done.returncode == 4 and "inside: input_0, which relu computes" in done.stderr
    done = place.locate("model.onnx", "renamed.om", "-o", "renamed", "--golden", "golden")
    assert done.returncode == 0, done.stdout + done.stderr
    # With a fault the part's own operator is named.
    place.host(FAULT)
    done = place.locate("model.onnx", "part.om", "-o", "wrong", "--golden", "golden")
    assert done.returncode == 1 and "suspect: second" in done.stdout


def test_a_part_that_reads_the_models_input_again_is_fed_with_that_of_the_golden_data(
    place,
) -> None:
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["r"], name="relu"),
        onnx.helper.make_node("Sigmoid", ["r"], ["s"], name="sigmoid"),
        onnx.helper.make_node("Add", ["s", "x"], ["y"], name="add"),
    ]
    x, y = build.value("x", (2, 8)), build.value("y", (2, 8))
    path = build.save(place.folder / "skip.onnx", build.model(nodes, [x], [y]))
    onnx.utils.extract_model(str(path), str(place.folder / "end.onnx"), ["s", "x"], ["y"])
    place.host()
    place.atc("end.onnx", "end.om")
    np.save(str(place.folder / "x.npy"), np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    command = "goldwatch golden onnx dump skip.onnx -i x=x.npy -o golden"
    assert run_here(command.split(), place.folder, place.environ).returncode == 0
    done = place.locate("skip.onnx", "end.om", "-o", "out", "--golden", "golden")
    assert done.returncode == 0, done.stdout + done.stderr
    fed = np.load(str(place.folder / "out" / "inputs" / "x.npy"))
    assert np.array_equal(fed, np.load(str(place.folder / "x.npy")))


def test_an_input_of_a_part_that_may_be_either_of_two_values_is_refused(place) -> None:
    def saved(name, nodes, inputs):
        values = [onnx.helper.make_tensor_value_info(each, 1, [2, 32]) for each in inputs]
        out = onnx.helper.make_tensor_value_info("y", 1, [2, 32])
        graph = onnx.helper.make_graph(nodes, "g", values, [out])
        opset = [onnx.helper.make_opsetid("", 13)]
        model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.save(model, str(place.folder / name))

    node = onnx.helper.make_node
    first = [node("Relu", ["x"], ["a"], name="relu"), node("Sigmoid", ["x"], ["b"], name="sig")]
    saved("whole.onnx", [*first, node("Sum", ["a", "b"], ["y"], name="sum")], ["x"])
    saved("part.onnx", [node("Sum", ["p", "p"], ["y"], name="sum")], ["p"])
    place.atc("part.onnx", "part.om")
    done = place.locate("whole.onnx", "part.om", "-o", "out")
    assert done.returncode == 4 and done.stderr.splitlines()[-2:] == [
        "goldwatch: the om's input p is one of these values inside MODEL: output 0 of relu, "
        "output 0 of sig",
        "  hint: cut MODEL so that the input keeps its name",
    ]


@pytest.mark.parametrize("exchanged", [False, True])
def test_the_first_operator_of_a_part_is_judged_by_what_feeds_it(place, exchanged) -> None:
    """Two inputs of one shape, both read by the first operator: in their order, or exchanged."""

    def saved(name, nodes, inputs):
        values = [onnx.helper.make_tensor_value_info(each, 1, [2, 32]) for each in inputs]
        out = onnx.helper.make_tensor_value_info("y", 1, [2, 32])
        graph = onnx.helper.make_graph(nodes, "g", values, [out])
        opset = [onnx.helper.make_opsetid("", 13)]
        model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.save(model, str(place.folder / name))

    node = onnx.helper.make_node
    first = [node("Tanh", ["x"], ["a"], name="tanh"), node("Sigmoid", ["x"], ["b"], name="sig")]
    rest = [node("Relu", ["c"], ["y"], name="relu")]
    saved("whole.onnx", [*first, node("Sub", ["a", "b"], ["c"], name="sub"), *rest], ["x"])
    read = ["b", "a"] if exchanged else ["a", "b"]
    saved("part.onnx", [node("Sub", read, ["c"], name="sub"), *rest], ["b", "a"])
    place.host(*([] if exchanged else ["op:sub=scale:1.05"]))
    place.atc("part.onnx", "part.om")
    np.save(str(place.folder / "x.npy"), np.random.RandomState(0).randn(2, 32).astype(np.float32))
    command = "goldwatch golden onnx dump whole.onnx -i x=x.npy -o golden"
    assert run_here(command.split(), place.folder, place.environ).returncode == 0
    words = ["whole.onnx", "part.om", "--golden", "golden", "-o", "out"]
    shown = place.locate(*words, "--dry-run")
    assert "its json: out/part.json" in shown.stdout and not (place.folder / "out").exists()
    done = place.locate(*words)
    text = " ".join(done.stdout.split())
    assert done.returncode == 1 and "suspect: sub" in text, done.stderr
    reason = "computed Sub with the order of its inputs [1, 0]" if exchanged else "times 1.05"
    assert "not compared" not in text and reason in text


@pytest.mark.parametrize("kind", ["Sigmoid", "ReduceMax"])
def test_an_om_with_an_operator_more_at_its_end_is_told_with_the_reason(place, kind) -> None:
    more = onnx.load(str(place.folder / "model.onnx"))
    more.graph.node.append(onnx.helper.make_node(kind, ["y"], ["z"], name="more"))
    del more.graph.output[:]
    shape = [2, 16] if kind == "Sigmoid" else [1, 1]
    more.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, shape))
    onnx.save(more, str(place.folder / "more.onnx"))
    place.host()
    place.atc("more.onnx", "more.om")
    done = place.locate("model.onnx", "more.om", "-o", "out")
    if kind == "Sigmoid":
        # Of the same shape, it is compared in the place of the model's.
        told = "its output 0 is trans_Cast_5:0 (more), the original model has second:0 there"
        assert done.returncode == 1 and told in done.stderr + done.stdout, done.stderr
        return
    message, hint = done.stderr.splitlines()[-2:]
    assert done.returncode == 4 and "could not be compared: " in message, done.stderr
    assert "no golden file for more:0" in message and "operators more or less than MODEL?" in hint


def test_each_gear_of_a_dynamic_batch_is_searched_and_summarised(place) -> None:
    small(place.folder / "any.onnx", "N")
    place.atc("any.onnx", "gears.om", "--input_shape=x:-1,32", "--dynamic_batch_size=1,4")
    done = place.locate("any.onnx", "gears.om", "-o", "out")
    assert done.returncode == 1, done.stderr
    assert (
        "  x:1,32        fail, outputs outside limits: second_ascend_mbatch_batch_0\n"
        in done.stdout
    )
    assert "suspect: second in 2 of 2 runs\n" in done.stdout
    other = place.locate("any.onnx", "gears.om", "-o", "other", "--shapes", "x:3,32")
    assert (
        other.returncode == 2
        and "the om has no gear of x:3,32" in other.stderr
        and "its gears: 1; 4" in other.stderr
    )


def test_the_second_gear_of_two_inputs_is_read_in_its_own_shape(place) -> None:
    two_inputs(place.folder / "two.onnx")
    place.host()
    shapes = "--input_shape=x:1,-1,32;m:1,-1,1"
    place.atc("two.onnx", "two.om", "--input_format=ND", shapes, "--dynamic_dims=8,8;16,16")
    np.save(str(place.folder / "x.npy"), np.ones((1, 16, 32), np.float32))
    done = place.locate("two.onnx", "two.om", "-o", "out", "-i", "x=x.npy")
    assert done.returncode == 0, done.stdout + done.stderr


def test_shapes_within_a_dynamic_range_are_searched(place) -> None:
    small(place.folder / "any.onnx", "N")
    place.atc("any.onnx", "range.om", "--input_shape=x:1~8,32")
    done = place.locate("any.onnx", "range.om", "-o", "none")
    assert done.returncode == 4 and "is told when it runs: give an .npy" in done.stderr
    done = place.locate(
        "any.onnx", "range.om", "-o", "out", "--shapes", "x:1~5~4,32", "--format", "json"
    )
    document = json.loads(done.stdout)
    jsonschema.validate(document, load_schema("locate"))
    assert [run["shapes"] for run in document["runs"]] == ["x:1,32", "x:5,32"] and document[
        "culprits"
    ] == ["second"]
    assert [run["exit_code"] for run in document["runs"]] == [1, 1] and document[
        "exit_code"
    ] == done.returncode == 1


def test_a_second_om_can_be_golden(place) -> None:
    place.host()
    place.atc("model.onnx", "golden.om", "--precision_mode=force_fp32")
    assert place.locate("golden.om", "model.om", "-o", "out", "--until", "golden").returncode == 0
    # The two differ: here by a device that has gone wrong in between.
    place.host(FAULT)
    done = place.locate("golden.om", "model.om", "-o", "out")
    assert done.returncode == 1 and "suspect: second\n" in done.stdout, done.stderr
    place.host()
    healthy = place.locate("golden.om", "model.om", "-o", "healthy", "--strict")
    text = " ".join(healthy.stdout.split())
    assert healthy.returncode == 0 and "suspect" not in text, text
    # Both were fed with the same, and what passed was deleted.
    assert "The first tensor that differs is an input" not in text, text
    told = (
        r"is in first (.*) its inputs are equal within rounding to the other's type \(float16, in"
    )
    assert re.search(told, text), text
    assert re.search(
        r"first:output:0 differs \(0.0\d+ %\), and rounding to float16 alone", text
    ), text


def test_a_difference_of_two_oms_within_all_limits_is_told_and_no_suspect(place) -> None:
    """The sentence, the suspects of result.json and --strict say the same."""
    place.host()
    place.atc("model.onnx", "golden.om", "--precision_mode=force_fp32")
    assert place.locate("golden.om", "model.om", "-o", "out", "--until", "golden").returncode == 0
    place.host("op:second=scale:1.004")
    done = place.locate("golden.om", "model.om", "-o", "out", "--strict")
    text = " ".join(done.stdout.split())
    assert done.returncode == 0 and "suspect" not in text, text
    assert "outputs agree within their limits" in text
    assert re.search(r"Most arises in second .*, second:output:0 by 0\.3\d* %\.", text), text
    with open(str(place.folder / "out" / "run" / "result.json")) as stream:
        assert json.load(stream)["summary"]["suspects"] == []


def test_a_caffe_model_with_weights_is_searched(place, resblock) -> None:
    place.host("op:res2a_branch2b=pad")
    place.atc("net.prototxt", "net.om", "--framework=0", "--weight=net.caffemodel")
    done = place.locate("net.prototxt", "net.om", "-o", "out")
    assert done.returncode == 1 and "suspect: res2a_branch2b\n" in done.stdout, done.stderr


def test_an_om_that_was_converted_from_another_file_needs_no_part_of_the_model(place) -> None:
    """Converted anew the whole model is right, and nothing is around it."""
    place.host()
    model = onnx.load(str(place.folder / "model.onnx"))
    model.graph.node[1].op_type = "Abs"
    onnx.save(model, str(place.folder / "other.onnx"))
    place.atc("other.onnx", "other.om")
    done = place.locate("model.onnx", "other.om", "-o", "out", "--narrow")
    assert done.returncode == 1 and "suspect: " in done.stdout, done.stderr
    said = " ".join(done.stdout.split())
    assert "the whole model, converted anew, is right: the om was converted otherwise" in said
    assert "the fault needs" not in said


def test_the_smallest_failing_part_is_found_and_bundled(place) -> None:
    # A json that is given is not made by atc, which the cuts still take.
    assert place.locate("model.onnx", "model.om", "-o", "json", "--until", "inputs").returncode == 0
    words = ["model.onnx", "model.om", "-f", "json/model.json", "-o", "out"]
    done = place.locate(*words, "--bundle", "out.tar")
    assert done.returncode == 1, done.stderr
    assert "smallest part that fails alone: second (out/narrow/1/dump_result_" in done.stdout
    with tarfile.open(str(place.folder / "out.tar")) as archive:
        names = [name[len("bundle/") :] for name in archive.getnames()]
        for name in (
            "dump.onnx",
            "dump.om",
            "model.json",
            "report.html",
            "run/result.json",
            "versions.json",
            "README.txt",
            "inputs/b.bin",
        ):
            assert name in names, names
        assert any(name.startswith("dump/") and ".second." in name for name in names)
        assert any(
            name.startswith("dump_of_the_whole_model/") and ".second." in name for name in names
        )
        texts = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
        archive.extractall(str(place.folder / "theirs"))
    # The next bundle replaces it, and each cut is made once.
    replaced = place.locate(*words, "--bundle", "out.tar", "-q")
    assert replaced.returncode == 1 and "bundle: out.tar" in replaced.stdout, replaced.stderr
    again = place.locate(*words, "--narrow", "--format", "json")
    assert again.returncode == 1 and place.commands(again) == []
    document = json.loads(again.stdout)
    jsonschema.validate(document, load_schema("locate"))
    assert document["smallest"]["layers"] == ["second"] and document["smallest"] in document["cuts"]
    # Nothing else of the model.
    part = onnx.load_model_from_string(texts["bundle/dump.onnx"])
    assert [node.name for node in part.graph.node] == ["second"] and [
        each.name for each in part.graph.initializer
    ] == ["second_weights"]
    assert not [name for name, text in texts.items() if b"first_weights" in text or b"relu" in text]
    # Nor of the sender's folders.
    folder = str(place.folder).encode()
    assert not [name for name, text in texts.items() if folder in text]
    assert json.loads(texts["bundle/acl.json"].decode())["dump"]["dump_path"] == "dump"
    assert b"goldwatch compare-op dump/" in texts["bundle/report.html"]
    assert json.loads(texts["bundle/versions.json"].decode())["soc_version"] == "Ascend310P3"
    # Who gets it sees the same, with the command that the README tells.
    line = next(
        line
        for line in texts["bundle/README.txt"].decode().splitlines()
        if "goldwatch locate" in line
    )
    place.folder = place.folder / "theirs" / "bundle"
    again = place.locate(*shlex.split(line)[2:])
    assert again.returncode == 1 and "suspect: second\n" in again.stdout, again.stderr


@pytest.mark.parametrize(
    "bundle, code, message",
    [
        ("model.onnx", 2, "--bundle model.onnx: that is the file of MODEL"),
        ("./model.om", 2, "--bundle ./model.om: that is the file of OM"),
        ("notes.txt", 2, "a file that is no earlier bundle is there; it is not replaced"),
        ("/proc/case.tar", 4, "--bundle /proc/case.tar: no file can be made in /proc"),
    ],
)
def test_a_bundle_replaces_no_file_of_the_user_and_is_refused_before_anything_runs(
    place, bundle, code, message
) -> None:
    (place.folder / "notes.txt").write_text("kept")
    before = {path.name: path.read_bytes() for path in place.folder.iterdir() if path.is_file()}
    done = place.locate("model.onnx", "model.om", "-o", "out", "--bundle", bundle)
    assert done.returncode == code and message in done.stderr, done.stderr
    after = {path.name: path.read_bytes() for path in place.folder.iterdir() if path.is_file()}
    assert after == before and not (place.folder / "out").exists()


AIPP = """aipp_op { aipp_mode: static
 related_input_rank: 0
 input_format: RGB888_U8
 src_image_size_w: 20
 src_image_size_h: 20
 crop: true
 load_start_pos_h: 2
 load_start_pos_w: 4
 crop_size_w: 16
 crop_size_h: 16
 mean_chn_0: 104
 var_reci_chn_0: 0.0171
 var_reci_chn_1: 0.0175
 var_reci_chn_2: 0.0174
}
"""


def test_an_om_whose_input_is_an_image_is_searched(place, resblock) -> None:
    place.host("op:res2a_branch2b=pad")
    (place.folder / "aipp.cfg").write_text(AIPP)
    place.atc(
        "net.prototxt",
        "net.om",
        "--framework=0",
        "--weight=net.caffemodel",
        "--insert_op_conf=aipp.cfg",
    )
    done = place.locate("net.prototxt", "net.om", "-o", "out")
    assert done.returncode == 1 and "suspect: res2a_branch2b\n" in done.stdout, done.stderr
    assert "image RGB888_U8 20x20 | random (seed 0)" in done.stderr
    assert (place.folder / "out" / "inputs" / "data.bin").stat().st_size == 2 * 20 * 20 * 3
    # What the device makes of the image is what golden data were made with: what comes first is
    # right.
    assert run_of(place)["first_divergence"]["op"] == "res2a_branch2b"
    place.host()
    healthy = place.locate("net.prototxt", "net.om", "-o", "healthy")
    assert healthy.returncode == 0
    said = "AIPP was not checked: golden data were made of what the om's own AIPP makes of data"
    assert said in " ".join(healthy.stdout.split()) and said not in " ".join(done.stdout.split())


def test_cure_repeats_until_the_outputs_pass(place) -> None:
    place.host()
    healthy = place.locate("model.onnx", "model.om", "-o", "healthy", "--cure")
    assert healthy.returncode == 0
    last = healthy.stdout.splitlines()[-1]
    assert last == "cure: nothing to raise: no run is outside its limits"
    # What is suspect and within all limits --cure raises with --strict, as is proposed.
    place.host("op:second=coarse:5")
    found = place.locate("model.onnx", "model.om", "-o", "coarse")
    assert (
        found.returncode == 0 and "next: this command with --cure --strict --force" in found.stdout
    )
    left = place.locate("model.onnx", "model.om", "-o", "left", "--cure")
    assert left.stdout.splitlines()[-1].endswith("its limits; --strict raises the suspect")
    raised = place.locate("model.onnx", "model.om", "-o", "coarse", "--cure", "--strict", "--force")
    assert raised.returncode == 0 and "cured by" in raised.stdout, raised.stdout
    # Products beyond the largest float16.
    place.host()
    small(place.folder / "large.onnx", scale=3000.0)
    place.atc("large.onnx", "large.om", "--precision_mode=force_fp16")
    found = place.locate("large.onnx", "large.om", "-o", "found")
    assert found.returncode == 1 and "next: this command with --cure --force" in found.stdout
    assert "next: goldwatch cure" not in found.stdout, "dumps that it needs are deleted"
    found = place.locate("large.onnx", "large.om", "-o", "found", "--keep", "all", "--force")
    (line,) = [line for line in found.stdout.splitlines() if "next: goldwatch cure" in line]
    words = shlex.split(line.split("next: ")[1])
    chosen = run_here(words, str(place.folder))
    assert chosen.returncode == 0 and "raise second" in chosen.stdout, chosen.stderr
    page = (place.folder / "found" / "report.html").read_text()
    facts = {
        "om": "large.om",
        "chip": "Ascend310P3",
        "original model": "large.onnx",
        "outputs of the network": "outside their limits",
        "goldwatch": __version__,
    }
    for fact in facts.items():
        assert '<dt>%s</dt><dd class="name">%s</dd>' % fact in page
    done = place.locate("large.onnx", "large.om", "-o", "out", "--cure")
    assert done.returncode == 0, done.stdout + done.stderr
    # The answer alone stands behind what was found before it.
    assert max(map(len, done.stdout.partition("cured by ")[2].splitlines())) <= 80
    lines = re.sub(r"\\\n *", "", done.stdout).splitlines()
    page, suspect, cause, cure, command = lines[-5:]
    assert lines[0].startswith("before: fail: ") and page.startswith("page: ")
    assert suspect == "suspect: second" and cause.startswith("  second: overflow: ")
    assert cure == "cured by out/cure/1/keep_dtype.cfg (second in float32; out/cure/1/located)"
    assert command.startswith("  $ ") and "--keep_dtype=" in command
    assert "the cure held" in done.stderr
    page = (place.folder / "out" / "report.html").read_text()
    assert '<dt>cure</dt><dd class="name">out/cure/1/keep_dtype.cfg</dd>' in page
    assert "atc --framework=5 --model=large.onnx" in page and "it passes (out/cure/1/" in page
    refused = place.locate("large.onnx", "large.om", "-o", "out", "--cure", "--keep", "none")
    assert refused.returncode == 2 and "--keep all" in refused.stderr


def test_what_gears_were_before_a_cure_is_marked(place) -> None:
    place.host()
    small(place.folder / "any.onnx", "N", scale=3000.0)
    more = ["--input_shape=x:-1,32", "--dynamic_batch_size=1,4", "--precision_mode=force_fp16"]
    place.atc("any.onnx", "gears.om", *more)
    done = place.locate("any.onnx", "gears.om", "-o", "out", "--cure")
    assert done.returncode == 0 and "cured by" in done.stdout, done.stdout + done.stderr
    assert len(re.findall(r"^before: +x:[14],32 .*: second", done.stdout, re.M)) == 2, done.stdout


def test_weights_beyond_float16_are_no_small_errors_that_add_up(place) -> None:
    place.host()
    model = onnx.load(str(place.folder / "model.onnx"))
    (weights,) = [each for each in model.graph.initializer if each.name == "first_weights"]
    values = onnx.numpy_helper.to_array(weights).copy()
    values[0, 0] = 1e5
    weights.CopyFrom(onnx.numpy_helper.from_array(values, weights.name))
    onnx.save(model, str(place.folder / "beyond.onnx"))
    place.atc("beyond.onnx", "beyond.om", "--precision_mode=force_fp16")
    done = place.locate("beyond.onnx", "beyond.om", "-o", "out")
    assert done.returncode == 1
    assert "are Inf in float16, and NaN or Inf come of that" in done.stdout, done.stdout
    assert "add up" not in done.stdout and "inherited" not in done.stdout


def test_a_cure_of_the_outputs_alone_is_said_to_be_one(place) -> None:
    """Behind the raised product its values, beyond float16, become Inf; Tanh makes 1 of them."""
    place.host()
    model = onnx.load(str(place.folder / "model.onnx"))
    (weights,) = [each for each in model.graph.initializer if each.name == "second_weights"]
    values = onnx.numpy_helper.to_array(weights).copy()
    values[:, 0] = np.abs(values[:, 0]) * 1e7
    weights.CopyFrom(onnx.numpy_helper.from_array(values, weights.name))
    model.graph.node[-1].output[0] = "c"
    model.graph.node.append(onnx.helper.make_node("Tanh", ["c"], ["y"], name="last"))
    onnx.save(model, str(place.folder / "beyond.onnx"))
    place.atc("beyond.onnx", "beyond.om", "--precision_mode=force_fp16")
    done = place.locate("beyond.onnx", "beyond.om", "-o", "out", "--cure")
    assert done.returncode == 1, done.stdout
    assert "outputs cured by out/cure/1/keep_dtype.cfg (second in float32; its outputs are" in (
        done.stdout.replace("\n  ", " ")
    )
    assert "the cure held" in done.stderr


def test_an_output_beyond_float16_is_cured_by_raising_what_makes_it(place) -> None:
    """Its weights are beyond float16 too, so that NaN come on the device."""
    place.host()
    model = onnx.load(str(place.folder / "model.onnx"))
    (weights,) = [each for each in model.graph.initializer if each.name == "second_weights"]
    values = onnx.numpy_helper.to_array(weights).copy()
    values[:, 3] *= 1e6
    weights.CopyFrom(onnx.numpy_helper.from_array(values, weights.name))
    onnx.save(model, str(place.folder / "beyond.onnx"))
    place.atc("beyond.onnx", "beyond.om", "--precision_mode=force_fp16")
    done = place.locate("beyond.onnx", "beyond.om", "-o", "out", "--cure")
    assert done.returncode == 0, done.stdout
    assert "\ncured by out/cure/1/keep_dtype.cfg (second in float32; " in done.stdout


def test_what_was_tried_does_not_fill_the_last_lines(place) -> None:
    other = onnx.load(str(place.folder / "model.onnx"))
    (weights,) = [each for each in other.graph.initializer if each.name == "second_weights"]
    values = np.random.RandomState(9).standard_normal(onnx.numpy_helper.to_array(weights).shape)
    weights.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float32), weights.name))
    onnx.save(other, str(place.folder / "other.onnx"))
    # Neither its own weights alone nor a function behind explains it.
    place.host("op:second=saturation:0.3")
    place.atc("other.onnx", "other.om")
    done = place.locate("model.onnx", "other.om", "-o", "out")
    assert done.returncode == 1 and "suspect: second" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  second: ")]
    with open(str(place.folder / "out" / "run" / "result.json")) as stream:
        suspect = json.load(stream)["summary"]["suspects"][0]
    (whole,) = [each["sentence"] for each in suspect["explanations"][:1]]
    assert whole.startswith(line.partition("unexplained: ")[2]) and len(whole) < 180
    assert "an activation behind it" in suspect["explanations"][0]["tried"]


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 25, reason="this onnx has no opset 25")
def test_golden_data_that_need_an_option_are_made_beside_the_search(place) -> None:
    values = [onnx.helper.make_tensor_value_info(name, 1, [2, 4]) for name in "xy"]
    nodes = [onnx.helper.make_node("Swish", ["x"], ["y"], name="second")]
    opsets = [onnx.helper.make_opsetid("", 25)]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=11)
    onnx.save(model, str(place.folder / "swish.onnx"))
    runtime = pytest.importorskip("onnxruntime")
    with contextlib.suppress(runtime.capi.onnxruntime_pybind11_state.NotImplemented):
        runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        pytest.skip("this onnxruntime has a kernel for Swish")
    place.atc("swish.onnx", "swish.om")
    done = place.locate("swish.onnx", "swish.om", "-o", "out")
    hint = " ".join(done.stderr.partition("hint: ")[2].split())
    made = hint.partition("; with it: goldwatch ")[2].partition(";")[0]
    given = hint.partition("and --golden ")[2]
    assert done.returncode == 4 and hint.startswith("use --backend reference")
    assert run_here(["goldwatch", *shlex.split(made)], place.folder).returncode == 0
    again = place.locate("swish.onnx", "swish.om", "-o", "again", "--golden", *given.split())
    assert again.returncode == 1 and "suspect: second" in again.stdout, again.stderr


READS = {
    "more": ("output 0 of more (Neg, of no node of the model)", "output 0 of first (Tanh)"),
    "none": ("output 0 of x (Data)", "output 0 of first (Tanh)"),
    "shape": ("an input in the shape [4, 1]", "[1, 4], as Reshape shape makes it"),
}


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("keep", [True, False])
def test_an_operator_that_reads_what_the_model_does_not_say_is_named(place, kind, keep) -> None:
    """An operator that only the om has, one that it lacks, an edge that was drawn otherwise, an
    input in another shape: the operator is right on what it reads, and nothing was inherited.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    place.host()
    for name in ("a", "b"):
        other = kind if name == "b" else ""
        read = {"more": "r", "none": "x"}.get(other, "t")
        shape = numpy_helper.from_array(
            np.array([4, 1] if other == "shape" else [1, 4], np.int64), "sizes"
        )
        nodes = [
            helper.make_node("Tanh", ["x"], ["t"], "first"),
            helper.make_node("Neg", ["x"], ["s"], "second")
            if kind != "shape"
            else helper.make_node("ReduceMean", ["x"], ["s"], "second", axes=[1], keepdims=0),
            *([helper.make_node("Neg", ["t"], ["r"], "more")] if other == "more" else []),
            helper.make_node("Reshape", ["s", "sizes"], ["q"], "shape"),
            helper.make_node("Add", [read, "q" if kind == "shape" else "s"], ["u"], "sum"),
            helper.make_node("Sigmoid", ["u"], ["y"], "last"),
        ]
        if kind != "shape":
            nodes = [node for node in nodes if node.name != "shape"]
        x, y = (helper.make_tensor_value_info(one, TensorProto.FLOAT, (4, 4)) for one in "xy")
        graph = helper.make_graph(nodes, "net", [x], [y], [shape])
        opset = [helper.make_opsetid("", 13)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8),
                  str(place.folder / (name + ".onnx")))  # fmt: skip
    place.atc("b.onnx", "b.om")
    done = place.locate("a.onnx", "b.om", "-o", "out", "-q", *(["--keep", "all"] if keep else []))
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    device, model = READS[kind]
    assert device in said and model in said, said
    assert "suspect: sum" in said
    assert "inherited" not in said and "add up" not in said


OUTPUTS = {
    "left out": (["t"], 1, "its output 0 is", "the original model has last:0 there"),
    "exchanged": (["t", "u"], 0, "in another order (", "the original model has other:0, first:0)"),
    "fewer": (["t"], 0, "it has 1 of 2: other:0 is not handed out", ""),
    "added": (
        ["z"],
        1,
        "(added), the original model has first:0",
        "the original model has first:0 there",
    ),
    "moved": (["q"], 0, "outputs agree within their limits", ""),
    "chosen": (["t"], 0, "outputs agree within their limits", ""),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs_that_are_none_of_the_models_are_told(place, kind) -> None:
    """The om's json names them, and their own golden data would pass them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    place.host()
    device, code, *said = OUTPUTS[kind]
    model = {"exchanged": ["u", "t"], "fewer": ["u", "t"], "moved": ["r"], "added": ["t"]}.get(
        kind, ["y"]
    )
    for name, outputs in (("a", model), ("b", model if kind == "chosen" else device)):
        nodes = [
            helper.make_node("Tanh", ["x"], ["t"], "first"),
            helper.make_node("Sigmoid", ["x"], ["u"], "other"),
            helper.make_node("Softmax", ["t"], ["y"], "last"),
            helper.make_node("Reshape", ["t", "sizes"], ["q"], "view"),
            helper.make_node("Identity", ["q"], ["r"], "same"),
            helper.make_node("Neg", ["t"], ["z"], "added"),
        ]
        # What no output is made of, a converter leaves out.
        needed = {"q", "r", "t"} if kind == "moved" else {*outputs, "t"}
        sizes = numpy_helper.from_array(np.array([16], np.int64), "sizes")
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 4))
        ends = [
            helper.make_tensor_value_info(one, TensorProto.FLOAT, (16,) if one in "qr" else (4, 4))
            for one in outputs
        ]
        graph = helper.make_graph(
            [node for node in nodes if node.output[0] in needed], "net", [x], ends, [sizes]
        )
        opset = [helper.make_opsetid("", 13)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8),
                  str(place.folder / (name + ".onnx")))  # fmt: skip
    place.atc("b.onnx", "b.om", *(["--out_nodes=first:0"] if kind == "chosen" else []))
    done = place.locate("a.onnx", "b.om", "-o", "out")
    text = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == code, text
    assert all(one in text for one in said), text
    warned = "the om hands out other tensors than the original model" in text
    assert warned == (kind not in ("moved", "chosen")), text
    # The last lines say it and what to do, also where each value is right.
    assert text.count("look at what the om ends with") == int(warned), text
    agree = "outputs agree within their limits, but the om hands out other tensors than"
    assert (agree in text) == (warned and not code), text
