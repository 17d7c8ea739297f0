"""Mistakes on the command line are reported with the place and the correction."""

from __future__ import annotations

import json
import os

import pytest
from in_process import run_here

COMPARE = ["compare", "dump", "golden", "-f", "net.json"]


def refused(words, folder, code=2):
    """Return message and hint of a command that is refused."""
    done = run_here(["goldwatch", *words], folder)
    assert done.returncode == code and done.stdout == ""
    first, hint = done.stderr.splitlines()
    assert first.startswith("goldwatch: ") and hint.startswith("  hint: ")
    return first[len("goldwatch: ") :], hint[len("  hint: ") :]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            [*COMPARE, "-o", "out", "--limt", "x"],
            "compare has no option --limt",
            "did you mean --limit? goldwatch compare --help-all shows all options",
        ),
        (
            [*COMPARE, "-o", "out", "--zzzzzzzz"],
            "compare has no option --zzzzzzzz",
            "goldwatch compare --help-all shows all options",
        ),
        (
            [*COMPARE, "-o", "out", "-html", "p.html"],
            "compare has no option -html",
            "write --html",
        ),
        (
            ["report", "out", "-junit=x.xml"],
            "report has no option -junit",
            "write --junit",
        ),
        (
            [*COMPARE, "-o", "out", "--limit", "CosineSimilarity", "0.9"],
            "compare: got unexpected extra argument (0.9)",
            "write --limit CosineSimilarity=0.9",
        ),
        (
            [*COMPARE, "-o", "out", "--limits", "CosineSimilarity=0.9"],
            "--limits takes a file of limits, not CosineSimilarity=0.9",
            "write --limit 'CosineSimilarity=0.9'",
        ),
        (
            [*COMPARE, "-o", "my", "results"],
            "compare: got unexpected extra argument (results)",
            "if the name has a blank, quote it: -o 'my results'",
        ),
        (
            [*COMPARE, "net.json", "-o", "out"],
            "compare: got unexpected extra argument (net.json)",
            "the json of the om is given as -f net.json",
        ),
        (
            ["serve", ".", "--port", "9000"],
            "serve has no option --port",
            "--listen takes it: write --listen ADDRESS:PORT",
        ),
        (
            [*COMPARE, "-o", "out", "--exact", "--limit", "CosineSimilarity>0.9"],
            "--exact compares bytes: --limit, --limits and --metrics are for numbers",
            "leave them out, or leave --exact out to compare numbers with limits",
        ),
        (
            [*COMPARE, "-o", "out", "--range", "5,2"],
            "--range 5,2: runs backwards (5 is larger than 2)",
            "for example --range 2,5; an END of -1 is the last op",
        ),
        (
            COMPARE,
            "compare: -o OUT is missing",
            "write goldwatch compare [OPTIONS] TARGET GOLDEN",
        ),
        (
            ["compare", "dump", "-o", "out"],
            "compare: GOLDEN is missing",
            "write goldwatch compare [OPTIONS] TARGET GOLDEN",
        ),
        (
            ["report", "out", "more", "--csv", "x"],
            "report: got unexpected extra argument (more)",
            "goldwatch report --help shows all options",
        ),
        (
            ["golden", "caffe", "dumb"],
            "there is no command 'dumb'",
            "did you mean 'goldwatch golden caffe dump'? goldwatch golden caffe --help lists the "
            "commands",
        ),
        (
            ["comapre", "a", "b"],
            "there is no command 'comapre'",
            "did you mean 'goldwatch compare'? goldwatch --help lists the commands",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_the_correction(words, message, hint, tmp_path):
    assert refused(words, tmp_path) == (message, hint)


@pytest.mark.parametrize("value", ["many", "0"])
def test_a_wrong_value_is_reported_with_the_meaning_of_its_option(value, tmp_path):
    message, hint = refused([*COMPARE, "-o", "out", "--jobs", value], tmp_path)
    assert message.startswith("compare: --jobs: ") and value in message
    assert hint.startswith("--jobs N: Processes that compare")


def test_an_option_without_its_value_is_reported_with_its_meaning(tmp_path):
    message, hint = refused([*COMPARE, "-o", "out", "--csv"], tmp_path)
    assert message.startswith("compare: ") and "--csv" in message
    assert hint == "--csv FILE: The result table."


def test_an_option_in_the_place_of_a_value_is_not_taken_for_one(tmp_path):
    message, hint = refused(["compare", "dump", "golden", "--outputs", "-o", "out"], tmp_path)
    assert message == "compare: option '--outputs' requires an argument; -o is an option"
    assert hint.startswith("--outputs NAME=FILE")


def test_json_output_has_the_same_message_and_hint(tmp_path):
    words = [*COMPARE, "-o", "out", "--format", "json", "--limt", "x"]
    done = run_here(["goldwatch", *words], tmp_path)
    assert done.returncode == 2 and done.stderr == ""
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "usage" and error["message"] == "compare has no option --limt"
    assert error["hint"].startswith("did you mean --limit?")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--range", "1,2"], "--range and --select count by the json's OpSequence: they need -f"),
        (["--unfused-om", "u.json"], "--unfused-om leads on the names of a model: it needs -f"),
        (["--check-addresses"], "--check-addresses needs -f: until when a tensor is needed"),
        (["-f", "n.json", "--range", "1,2", "--select", "3"], "--range and --select exclude each"),
        (
            ["-f", "n.json", "--quant-json", "q.json", "--unfused-om", "u.json"],
            "--quant-json and --unfused-om exclude each other",
        ),
    ],
)
def test_options_that_exclude_each_other_are_named_as_typed(more, message, tmp_path):
    done = run_here(["goldwatch", "compare", "dump", "golden", "-o", "out", *more], tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("goldwatch: " + message)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--until-idle", "-1"], "--until-idle -1: expected seconds, more than 0"),
        (["--poll", "0"], "--poll 0: expected seconds, more than 0"),
        (["--pid", "0"], "--pid 0: not a process"),
        (["--expect-all"], "--expect-all: which ops are expected is known from the model's json"),
        (["--quant-json", "q.json"], "--quant-json leads on the names of a model: it needs -f"),
    ],
)
def test_wrong_watch_options_are_named_as_typed(more, message, tmp_path):
    done = run_here(["goldwatch", "watch", "dump", "golden", "-o", "out", *more], tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("goldwatch: " + message)
    assert not os.listdir(str(tmp_path))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (COMPARE, "-o result --csv result.csv writes that file; -o result.csv/ makes a folder"),
        (["watch", "dump", "golden"], "-o result --csv result.csv writes that file"),
        (["run", "--acl", "a", "--golden", "g"], "-o result --csv result.csv writes that file"),
        (["replay", "dump", "m.onnx", "-f", "n"], "-o result --csv result.csv writes that file"),
        (["convert", "dump"], "-o result; -o result.csv/ makes a folder of this name"),
        (["golden", "onnx", "dump", "m.onnx"], "-o result; -o result.csv/ makes a folder"),
    ],
)
def test_a_file_name_given_as_out_folder_is_questioned(words, hint, tmp_path):
    words = [*words, "-o", "result.csv"] + ["--", "./program"] * (words[0] == "run")
    message, told = refused(words, tmp_path)
    assert message.startswith("-o result.csv: is a file meant? ")
    assert told.startswith(hint) and not os.listdir(str(tmp_path))


def test_an_out_folder_may_look_like_a_file_name_when_it_ends_with_a_slash(network, tmp_path):
    words = ["compare", "dump", "golden", "-f", "net.json", "-o", str(tmp_path / "r.csv") + "/"]
    assert run_here(["goldwatch", *words], network).returncode == 1
    assert os.path.isfile(str(tmp_path / "r.csv" / "result.json"))
    again = [*words[:-1], str(tmp_path / "r.csv")]
    assert run_here(["goldwatch", *again], network).returncode == 1


def test_compare_and_report_make_missing_folders_alike(network, tmp_path):
    out, files = str(tmp_path / "a" / "out"), str(tmp_path / "b" / "c")
    words = ["compare", "dump", "golden", "-f", "net.json", "-o", out, "--csv", files + "/1.csv"]
    assert run_here(["goldwatch", *words], network).returncode == 1
    done = run_here(["goldwatch", "report", out, "--csv", files + "/d/2.csv"], network)
    assert done.returncode == 0, done.stderr
    with open(files + "/1.csv") as first, open(files + "/d/2.csv") as second:
        assert first.read() == second.read() != ""


def test_a_file_in_place_of_a_folder_is_refused_before_comparing(network, tmp_path):
    (tmp_path / "file").write_text("x")
    words = [*COMPARE, "-o", str(tmp_path / "out"), "--csv", str(tmp_path / "file" / "x" / "r.csv")]
    done = run_here(["goldwatch", *words], network)
    assert done.returncode == 4 and "there can be no folder" in done.stderr
    assert "%s is no folder" % (tmp_path / "file") in done.stderr
    assert sorted(os.listdir(str(tmp_path))) == ["file"]


def test_a_name_with_a_blank_that_is_there_is_quoted(tmp_path):
    (tmp_path / "my dumps").mkdir()
    found = refused(["compare", "my", "dumps", "golden", "-o", "out"], tmp_path)
    assert found[1] == "quote a name with blanks: 'my dumps'"
