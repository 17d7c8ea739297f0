from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import sys
from xml.etree import ElementTree

import jsonschema
import pytest
from in_process import run_here
from junit_form import check_schema

from goldwatch.schemas import load_schema
from goldwatch.store.store import RunStore


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with three results: ``good``, ``bad`` of the same network with a broken op,
    ``other`` of another network.
    """
    folder = tmp_path_factory.mktemp("runs")
    for name, words in (("good", []), ("bad", ["--broken", "5"]), ("other", ["--ops", "2"])):
        made = [sys.executable, "-m", "goldwatch.testing"]
        assert (
            run_here([*made, "make", name + "_net", "--size", "4k", *words], folder).returncode == 0
        )
        assert run_here([*made, "serve", name + "_net", name + "_net/dump"], folder).returncode == 0
        done = run_here(
            [
                "goldwatch",
                "compare",
                name + "_net/dump",
                name + "_net/golden",
                "-f",
                name + "_net/model.json",
                "-o",
                name,
            ],
            folder,
        )
        assert done.returncode == (1 if name == "bad" else 0), done.stderr
    return folder


def test_a_worse_run_exits_with_1_and_a_better_one_with_0(runs):
    done = run_here(["goldwatch", "diff", "good", "bad"], runs)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "before  %s" % (runs / "good") and lines[2] == "after   %s" % (runs / "bad")
    assert lines[3].startswith(
        "        FAIL: the first operator outside its limits is op_5 in step 0 on device 0 "
        "(op_5:output:0: "
    )
    assert lines[1] == "        pass: no operator is outside its limits"
    assert lines[4] == "worse:" and lines[5].startswith(
        "  op_5:output:0: pass -> FAIL, RelativeEuclideanDistance 0.000"
    )
    assert lines[-1].startswith("9 worse, 0 better, 0 appeared, 0 vanished; ")
    assert run_here(["goldwatch", "diff", "bad", "good"], runs).returncode == 0
    same = run_here(["goldwatch", "diff", "bad", "bad"], runs)
    assert (same.returncode, same.stdout.splitlines()[4][:21]) == (0, "0 worse, 0 better, 0 ")


def test_json_is_one_document_of_the_schema(runs):
    done = run_here(
        ["goldwatch", "diff", "good", "bad", "--format", "json", "--tolerance", "12.5%"], runs
    )
    document = json.loads(done.stdout)
    jsonschema.validate(document, load_schema("diff"))
    assert (
        done.returncode,
        document["tolerance"],
        document["worse"][0]["op"],
        document["worse"][0]["device"],
    ) == (1, 0.125, "op_5", "0")
    assert [document["worse"][0][run]["verdict"] for run in "ab"] == ["pass", "fail"]
    assert [document[run]["verdict"] for run in "ab"] == ["pass", "fail"] and document["b"][
        "out"
    ] == str(runs / "bad")
    assert (document["a"]["first_divergence"], document["b"]["first_divergence"]["op"]) == (
        None,
        "op_5",
    )


def test_diff_writes_html_and_markdown(runs, tmp_path):
    page, comment = tmp_path / "d.html", tmp_path / "d.md"
    assert (
        run_here(
            ["goldwatch", "diff", "bad", "bad", "--html", page, "--markdown", comment], runs
        ).returncode
        == 0
    )
    # Nothing became worse, and the run fails: no headline is green.
    text = page.read_text(encoding="utf-8")
    assert (
        '<span class="verdict" data-is="fail" id="after">FAIL</span>' in text
        and '<span id="change">nothing is worse' in text
    )
    head = "## goldwatch diff: FAIL; nothing is worse than before\n\n- before `%s`" % (runs / "bad")
    assert comment.read_text(encoding="utf-8").startswith(head)
    assert (
        run_here(
            ["goldwatch", "diff", "good", "bad", "--html", page, "--markdown", comment], runs
        ).returncode
        == 1
    )
    assert "op_5:output:0" in page.read_text(
        encoding="utf-8"
    ) and "op_5:output:0" in comment.read_text(encoding="utf-8")


def test_another_model_is_reported_and_a_folder_without_result_refused(runs, tmp_path):
    done = run_here(["goldwatch", "diff", "good", "other"], runs)
    assert done.returncode == 0, "two of the ten ops are in both"
    assert done.stdout.splitlines()[4] == "vanished:"
    missing = run_here(["goldwatch", "diff", "good", tmp_path / "nowhere"], runs)
    assert missing.returncode == 4 and "nowhere does not exist" in missing.stderr
    with RunStore.begin(str(tmp_path / "empty"), {}):
        pass
    done = run_here(["goldwatch", "diff", "good", tmp_path / "empty"], runs)
    assert (
        done.returncode == 3
        and "nothing to compare: one of the runs has no rows; " in done.stdout.splitlines()[-1]
    )
    assert "empty is not finished" in done.stderr
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "run.sqlite").write_bytes(b"no database" * 100)
    assert run_here(["goldwatch", "diff", tmp_path / "foreign", "good"], runs).returncode == 4


@pytest.mark.parametrize("text", ["-1", "much", "nan", "inf", ""])
def test_a_tolerance_must_be_a_percentage(runs, text):
    done = run_here(["goldwatch", "diff", "good", "bad", "--tolerance=" + text], runs)
    assert done.returncode == 2 and "is no percentage" in done.stderr


def test_two_reports_into_one_file_are_refused(runs):
    done = run_here(
        ["goldwatch", "diff", "good", "bad", "--html", "x", "--markdown", os.path.join(".", "x")],
        runs,
    )
    assert done.returncode == 2 and not (runs / "x").exists()
    done = run_here(
        ["goldwatch", "diff", "good", "bad", "--html", os.path.join("bad", "run.sqlite")], runs
    )
    assert done.returncode == 2 and "that is a result of bad itself" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "diff good good --html PATH",
        "diff good good --markdown PATH",
        "graph good_net/model.json -o PATH",
    ],
)
def test_a_pipe_or_device_given_as_output_is_not_replaced(runs, tmp_path, command):
    """A rename over a device would destroy it."""
    pipe, link = str(tmp_path / "pipe"), str(tmp_path / "link")
    os.mkfifo(pipe)
    os.symlink(str(tmp_path / "elsewhere"), link)
    (tmp_path / "file").write_text("x")
    gone = str(tmp_path / "file" / "x")
    for path, said in (
        (pipe, "no regular file"),
        (link, "a link"),
        (str(tmp_path), "is a folder"),
        (gone, "can be no folder"),
    ):
        done = run_here(["goldwatch", *command.replace("PATH", path).split()], runs)
        assert done.returncode == 4 and said in done.stderr, done.stderr
    assert (
        stat.S_ISFIFO(os.lstat(pipe).st_mode)
        and os.path.islink(link)
        and len(os.listdir(str(tmp_path))) == 3
    )


def test_a_result_is_not_replaced_by_a_page(runs):
    done = run_here(
        ["goldwatch", "graph", "good_net/model.json", "--result", "good", "-o", "good/result.json"],
        runs,
    )
    assert done.returncode == 2 and "that is a result of good itself" in done.stderr


def _cases(path):
    tree = ElementTree.parse(str(path)).getroot()
    check_schema(tree)
    cases = {
        (case.get("classname"), case.get("name")): case[0].tag for case in tree.iter("testcase")
    }
    return tree, cases


def test_a_ci_system_shows_each_tensor_that_got_worse_as_a_failure(runs, tmp_path):
    path = tmp_path / "d.xml"
    done = run_here(["goldwatch", "diff", "good", "bad", "--junit", path], runs)
    tree, cases = _cases(path)
    failing = [name for (_, name), outcome in cases.items() if outcome == "failure"]
    assert done.returncode == 1 and len(failing) == 9 and "op_5:output:0" in failing
    assert [suite.get("failures") for suite in tree] == ["0", "9"]
    failure = next(tree.iter("failure"))
    assert failure.get("message").startswith("pass -> FAIL, RelativeEuclideanDistance")
    back = run_here(["goldwatch", "diff", "bad", "good", "--junit", path], runs)
    _, cases = _cases(path)
    assert back.returncode == 0 and set(cases.values()) == {"system-out"} and len(cases) == 10


def test_two_runs_that_cannot_be_compared_are_not_green(runs, tmp_path):
    with RunStore.begin(str(tmp_path / "empty"), {"target": "t", "golden": "g"}):
        pass
    path = tmp_path / "d.xml"
    done = run_here(["goldwatch", "diff", "good", tmp_path / "empty", "--junit", path], runs)
    _, cases = _cases(path)
    assert done.returncode == 3 and cases == {("goldwatch diff", "the two runs"): "error"}


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_run_that_was_killed_is_not_green_beside_another(runs, tmp_path, killed) -> None:
    out, path = tmp_path / "killed", tmp_path / "d.xml"
    with RunStore.open(str(runs / "good")) as good, RunStore.begin(str(out), {}) as store:
        store.put_all(list(good.rows("index"))[:8])
    pair = (out, "good") if killed == "before" else ("good", out)
    files = ["--junit", path, "--markdown", tmp_path / "d.md", "--html", tmp_path / "d.html"]
    done = run_here(["goldwatch", "diff", *pair, "-q", *files], runs)
    tree, cases = _cases(path)
    assert done.returncode == 3 and cases[("goldwatch diff", "the two runs")] == "error"
    message = next(tree.iter("error")).get("message")
    assert message.startswith("%s is not finished" % out) and "to the end" in message
    assert done.stdout.splitlines()[-1].startswith("0 worse, 0 better, ")
    assert done.stdout.splitlines()[-1].endswith(message)
    head = (tmp_path / "d.md").read_text(encoding="utf-8").splitlines()[0]
    assert "nothing is worse than before so far, a run is not finished" in head
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert '<span id="change" class="verdict" data-is="not_compared">nothing is worse' in page


def test_a_diff_that_fails_leaves_no_earlier_file_to_be_taken_for_its_own(runs, tmp_path):
    path = tmp_path / "d.xml"
    assert run_here(["goldwatch", "diff", "good", "good", "--junit", path], runs).returncode == 0
    nowhere = tmp_path / "nowhere"
    done = run_here(["goldwatch", "diff", "good", nowhere, "--junit", path], runs)
    assert done.returncode == 4 and not path.exists()


def test_a_damaged_baseline_is_not_told_to_use_options_that_diff_has_not(runs, tmp_path) -> None:
    shutil.copytree(str(runs / "good"), str(tmp_path / "baseline"))
    connection = sqlite3.connect(str(tmp_path / "baseline" / "run.sqlite"))
    connection.execute("UPDATE run SET value = '[]' WHERE key = 'graphs'")
    connection.commit()
    connection.close()
    done = run_here(["goldwatch", "diff", tmp_path / "baseline", "good"], runs)
    assert done.returncode == 4 and "hint: compare again, or name another run" in done.stderr
    assert "--force" not in done.stderr


def test_a_diff_with_a_mistyped_tolerance_leaves_no_earlier_file(runs, tmp_path) -> None:
    path = tmp_path / "d.xml"
    command = ["goldwatch", "diff", "good", "good", "--junit", path]
    assert run_here(command, runs).returncode == 0
    assert run_here([*command, "--tolerance", "much"], runs).returncode == 2 and not path.exists()
