"""``goldwatch report`` and the report options: files written from a run's store alone."""

from __future__ import annotations

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from in_process import run_here

import goldwatch
from goldwatch.base.errors import Interrupted
from goldwatch.reports.csv_tables import CsvFile
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.write_report import write_report
from goldwatch.store.store import RunStore
from goldwatch.store.stored_networks import GRAPHS, SUMMARY

KINDS = ("junit", "markdown", "csv", "json")


def options(prefix):
    return [word for kind in KINDS for word in ("--" + kind, prefix + kind)]


def contents(folder, prefix):
    found = {}
    for kind in KINDS:
        with open(os.path.join(folder, prefix + kind), "rb") as stream:
            found[kind] = stream.read()
    return found


def _sizes(folder):
    return {kind: len(content) for kind, content in contents(str(folder), "r.").items()}


@pytest.fixture
def compared(tmp_path, make_network):
    """Return a folder with a comparison's OUT, and the files of a report that it wrote besides."""
    make_network(str(tmp_path / "n"))
    words = [
        "goldwatch",
        "compare",
        "n/dump",
        "n/golden",
        "-f",
        "n/net.json",
        "-o",
        "out",
        *options("out/c."),
    ]
    assert run_here(words, tmp_path).returncode == 1
    return tmp_path


def test_a_report_from_the_store_equals_what_compare_wrote(compared):
    written = contents(str(compared), "out/c.")
    shutil.rmtree(str(compared / "n"))
    os.rename(str(compared / "out"), str(compared / "moved"))
    done = run_here(["goldwatch", "report", "moved", *options("r.")], compared)
    assert (done.returncode, done.stdout) == (0, "")
    sizes = {
        kind: "%d bytes" % size if size < 1024 else "%.1f KiB" % (size / 1024)
        for kind, size in _sizes(compared).items()
    }
    assert sorted(done.stderr.splitlines()) == sorted("r.%s: %s" % item for item in sizes.items())
    assert run_here(["goldwatch", "report", "moved", "-q", *options("r.")], compared).stderr == ""
    again = contents(str(compared), "r.")
    assert {kind: again[kind] for kind in ("csv", "json", "junit")} == {
        kind: written[kind] for kind in ("csv", "json", "junit")
    }
    (table,) = glob.glob(str(compared / "moved" / "result_*.csv"))
    for path, kind in ((table, "csv"), (str(compared / "moved" / "result.json"), "json")):
        with open(path, "rb") as stream:
            assert stream.read() == again[kind]
    assert b"## goldwatch: FAIL" in again["markdown"] and b"compare-op" in again["markdown"]


def test_reports_of_a_killed_run_say_that_it_is_not_finished(compared):
    with RunStore.begin(
        str(compared / "out"), RunStore.open(str(compared / "out")).get("inputs")
    ) as store:
        # A second start takes the summary away until its end.
        assert store.get(SUMMARY) is None
    assert run_here(["goldwatch", "report", "out", *options("r.")], compared).returncode == 0
    found = contents(str(compared), "r.")
    assert found["markdown"].startswith(
        b"## goldwatch: FAIL (not finished)\n\nThis run goes on or was stopped before its end"
    )
    document = json.loads(found["json"].decode())
    assert (
        "the 5 rows that it has so far" in document["summary"]["warnings"][0]["sentence"]
        and len(document["rows"]) == 5
    )
    assert found["csv"] == contents(str(compared), "out/c.")["csv"]
    facts = {
        entry.get("name"): entry.get("value")
        for entry in ElementTree.fromstring(found["junit"]).iter("property")
    }
    assert facts["finished"] == "no" and facts["result"].startswith(
        "This run goes on or was stopped"
    )


def test_a_run_killed_at_its_first_rows_is_reported_from_its_store(tmp_path, make_network):
    """The same with the inputs there and gone: ops that have rows are counted, and the network is
    drawn.
    """
    make_network(str(tmp_path / "n"))
    paths = [str(tmp_path / "n" / name) for name in ("dump", "golden")]
    compared = goldwatch.compare(
        *paths, model=tmp_path / "n" / "net.json", out=tmp_path / "whole", jobs=1
    )

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        goldwatch.compare(
            *paths, model=tmp_path / "n" / "net.json", out=tmp_path / "out", jobs=1, progress=stop
        )
    with RunStore.open(str(tmp_path / "out")) as store, RunStore.open(
        str(tmp_path / "whole")
    ) as whole:
        assert store.get(SUMMARY) is None and store.get(GRAPHS) == whole.get(GRAPHS)
        seen = {row.op for row in store.rows()}
    assert 0 < len(seen) < compared.summary.ops
    command = ["goldwatch", "report", "out", "--html", "page.html"]
    assert run_here([*command, *options("there.")], tmp_path).returncode == 0
    drawn = json.loads(
        re.findall(
            'id="graphs">(.*?)</script>', (tmp_path / "page.html").read_text(encoding="utf-8")
        )[0]
    )
    assert drawn[0]["count"] == compared.summary.ops
    there = goldwatch.open_result(tmp_path / "out").summary
    shutil.rmtree(str(tmp_path / "n"))
    assert run_here([*command, *options("gone.")], tmp_path).returncode == 0
    found, gone = contents(str(tmp_path), "there."), contents(str(tmp_path), "gone.")
    # The command looks closer at what is there.
    found["markdown"], gone["markdown"] = (
        re.sub(b"goldwatch compare-op [^`]*", b"", text["markdown"]) for text in (found, gone)
    )
    assert found == gone and goldwatch.open_result(tmp_path / "out").summary == there
    assert json.loads(found["json"].decode())["summary"]["ops"] == len(seen)
    assert (
        " so far: " in found["markdown"].decode()
        and goldwatch.open_result(tmp_path / "whole").summary.ops == compared.summary.ops
    )


def test_a_running_run_is_reported_as_it_stands(compared, make_network):
    with RunStore.open(str(compared / "out")) as store:
        inputs, row = store.get("inputs"), next(iter(store.rows()))
    with RunStore.begin(str(compared / "out"), inputs) as store, store.transaction():
        store.put(row.but(op="later", tensor="later"))
        assert run_here(["goldwatch", "report", "out", "--csv", "r.csv"], compared).returncode == 0
        with open(str(compared / "r.csv"), "rb") as stream:
            assert stream.read() == contents(str(compared), "out/c.")["csv"]
        assert run_here(["goldwatch", "report", "out", "--csv", "r.csv"], compared).returncode == 0


def test_an_unfinished_run_without_failures_is_not_reported_as_pass(tmp_path, make_network):
    make_network(str(tmp_path / "n"), wrong=False)
    assert (
        run_here(["goldwatch", "compare", "n/dump", "n/golden", "-o", "out"], tmp_path).returncode
        == 0
    )
    with RunStore.begin(str(tmp_path / "out"), RunStore.open(str(tmp_path / "out")).get("inputs")):
        pass
    assert run_here(["goldwatch", "report", "out", "--json", "r.json"], tmp_path).returncode == 0
    with open(str(tmp_path / "r.json")) as stream:
        assert json.load(stream)["summary"]["verdict"] == "incomplete"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["out"], 2, "name a file with --"),
        (["nowhere", "--csv", "x.csv"], 4, "nowhere does not exist"),
        (["out", "--csv", "n"], 4, "is a folder"),
        (["out", "--csv", "x/"], 4, "is a folder"),
        (["out", "--csv", ""], 2, "expected the name of a file"),
        (["out", "--csv", "-"], 2, "expected the name of a file"),
        (["out", "--csv", "n/net.json/x.csv"], 4, "there can be no folder n/net.json"),
        (["out", "--csv", "/dev/null"], 4, "no regular file"),
        (["out", "--csv", "link"], 4, "is a link"),
        (["out", "--csv", "x", "--json", "./x"], 2, "name the same file"),
        (["out", "--json", "out/run.sqlite-wal"], 2, "a file of the run itself"),
        (["out", "--csv", "out/result.json"], 2, "a file of the run itself"),
        (["out", "--json", "out/run.lock"], 2, "a file of the run itself"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_written(
    compared, words, code, said
):
    os.symlink("elsewhere", str(compared / "link"))
    done = run_here(["goldwatch", "report", *words], compared)
    assert done.returncode == code and said in done.stderr
    assert not os.path.exists(str(compared / "x.csv")) and not os.path.exists(
        str(compared / "elsewhere")
    )


def test_compare_refuses_an_unusable_report_file_before_comparing(tmp_path, make_network):
    make_network(str(tmp_path / "n"))
    done = run_here(
        ["goldwatch", "compare", "n/dump", "n/golden", "-o", "out", "--junit", "n/net.json/j.xml"],
        tmp_path,
    )
    assert (
        done.returncode == 4
        and "there can be no folder n/net.json" in done.stderr
        and not os.path.exists(str(tmp_path / "out"))
    )


def test_a_damaged_store_exits_with_4_and_leaves_the_older_report(compared):
    with open(str(compared / "out" / "run.sqlite"), "r+b") as stream:
        data = stream.read()
        stream.seek(data.index(b"second:output:0"))
        stream.write(b"SECOND")
    with open(str(compared / "r.csv"), "w") as stream:
        stream.write("Index,older")
    done = run_here(["goldwatch", "report", "out", "--csv", "r.csv"], compared)
    assert done.returncode == 4 and "damaged" in done.stderr
    with open(str(compared / "out" / "run.sqlite"), "r+b") as stream:
        stream.truncate(20000)
    for command in (["report", "out", "--csv", "r.csv"], ["diff", "out", "out"]):
        done = run_here(["goldwatch", *command], compared)
        assert (
            done.returncode == 4
            and "hint: compare again" in done.stderr
            and "--force" not in done.stderr
        ), done.stderr
    with open(str(compared / "r.csv")) as stream:
        assert stream.read() == "Index,older"


@pytest.mark.parametrize("name", ["html", "junit", "markdown", "csv", "json"])
def test_a_report_replaces_earlier_reports_only(compared, name):
    inputs = [
        os.path.join(base, file)
        for base, _, files in os.walk(str(compared / "n"))
        for file in files
    ]
    before = {path: pathlib.Path(path).read_bytes() for path in inputs}
    for path in inputs:
        for words in (["report", "out"], ["compare", "n/dump", "n/golden", "-o", "new"]):
            done = run_here(["goldwatch", *words, "--" + name, path], compared)
            assert done.returncode == 2 and "is not replaced" in done.stderr, (path, done.stderr)
    assert {path: pathlib.Path(path).read_bytes() for path in inputs} == before and not (
        compared / "new"
    ).exists()
    for _ in range(2):
        assert run_here(["goldwatch", "report", "out", "--" + name, "r"], compared).returncode == 0
    (compared / "r").write_bytes(b"")
    assert run_here(["goldwatch", "report", "out", "--" + name, "r"], compared).returncode == 0
    assert not [name for name in os.listdir(str(compared)) if name.startswith(".goldwatch")]


def test_reports_of_an_interrupted_run_have_its_network(tmp_path, make_network):
    make_network(str(tmp_path / "n"))
    names = {"target": "dump", "golden": "golden", "model": "net.json"}
    paths = {name: str(tmp_path / "n" / path) for name, path in names.items()}

    def interrupt(progress):
        if progress.pairs_done:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        compare_folders(
            ComparisonOptions(out=str(tmp_path / "out"), **paths), on_progress=interrupt
        )
    shutil.rmtree(str(tmp_path / "n"))
    with RunStore.open(str(tmp_path / "out")) as store:
        assert [op["name"] for op in store.get(GRAPHS)[0]["ops"]] == [
            "data",
            "first",
            "second",
        ] and store.get(SUMMARY) is None
    assert (
        run_here(
            ["goldwatch", "report", "out", "--html", "r.html", *options("r.")], tmp_path
        ).returncode
        == 0
    )
    assert b"(not finished)" in contents(str(tmp_path), "r.")["markdown"]


def _stale(folder, *words):
    """Run a command that fails beside the reports of an earlier run; return which are left."""
    done = run_here(["goldwatch", *words], folder)
    assert done.returncode == 4, done.stderr
    return sorted(name for name in os.listdir(str(folder / "out")) if name.startswith("c."))


@pytest.mark.parametrize("words", [["--force"], []])
def test_a_ci_job_never_shows_the_reports_of_an_earlier_run_when_this_one_fails(compared, words):
    os.rename(str(compared / "n" / "golden"), str(compared / "elsewhere"))
    command = ["compare", "n/dump", "n/golden", "-f", "n/net.json", "-o", "out", *words]
    assert _stale(compared, *command, "--junit", "out/c.junit", "--csv", "out/c.csv") == [
        "c.json",
        "c.markdown",
    ]
    assert _stale(compared, *command, *options("out/c.")) == []


_COMPARED = ["n/dump", "n/golden", "-f", "n/net.json", "-o"]
_RUN = ["run", "--acl", "acl.json", "--golden", "n/golden", "-o"]


@pytest.mark.parametrize("out", ["out", "new"])
@pytest.mark.parametrize(
    "code, words, mistyped",
    [
        (4, ["compare", *_COMPARED], ["--limits", "nowhere.json"]),
        (4, ["compare", *_COMPARED], ["--custom", "nowhere"]),
        (4, ["compare", *_COMPARED], ["--acl", "nowhere.json"]),
        (2, ["compare", *_COMPARED], ["--limit", "Cosine=0.9"]),
        (2, ["compare", *_COMPARED], ["--insecure"]),
        (4, ["watch", *_COMPARED], ["--limits", "nowhere.json", "--until-idle", "1"]),
        (2, ["watch", "n/dump", "-o"], ["--until-idle", "1"]),
        (2, ["watch", "--merge", "n/dump", "-o"], ["--overflow"]),
        (4, _RUN, ["--limits", "nowhere.json", "--", "true"]),
        (4, _RUN, ["--", "./no_such_program"]),
        (2, _RUN, ["--grace", "-1", "--", "true"]),
        (2, ["replay", "n/dump", "n.prototxt", "-f", "n/net.json", "-o"], ["--limit", "Cosine=1"]),
    ],
)
def test_a_mistyped_option_or_file_leaves_no_report_of_an_earlier_job(
    compared, out, code, words, mistyped
) -> None:
    done = run_here(["goldwatch", *words, out, *options("out/c."), *mistyped], compared)
    assert done.returncode == code, done.stderr
    assert not [name for name in os.listdir(str(compared / "out")) if name.startswith("c.")]


def test_the_report_of_a_run_that_found_no_dump_says_so(tmp_path, make_network) -> None:
    make_network(str(tmp_path / "n"))
    (tmp_path / "empty").mkdir()
    words = "watch empty n/golden -f n/net.json -o out --pid 999999999".split()
    done = run_here(["goldwatch", *words], tmp_path)
    assert done.returncode == 4 and (tmp_path / "out" / "run.sqlite").exists(), done.stderr
    assert run_here(["goldwatch", "report", "out", *options("r.")], tmp_path).returncode == 0
    assert b"This run has no rows: it found nothing to" in contents(str(tmp_path), "r.")["markdown"]


def test_a_changed_limit_is_told_as_a_limit(compared) -> None:
    words = ["goldwatch", "compare", *_COMPARED, "out", "--limit"]
    done = run_here([*words, "CosineSimilarity>0.9999"], compared)
    assert done.returncode == 2
    assert "limits: CosineSimilarity > 0.99, now > 0.9999" in " ".join(done.stderr.split())
    done = run_here([*words, "type=Relu:CosineSimilarity>0.9"], compared)
    assert done.returncode == 2 and "limits: those of single types and ops differ" in done.stderr


@pytest.mark.parametrize("option", ["--limit", "--metrics", "--limits"])
def test_an_own_metric_without_its_folder_is_told_of_custom(compared, option) -> None:
    (compared / "own.json").write_text('{"MyOwn": {"<": 0.1}}')
    value = {"--limit": "MyOwn=0.1", "--metrics": "MyOwn", "--limits": "own.json"}[option]
    done = run_here(["goldwatch", "compare", *_COMPARED, "new", option, value], compared)
    assert done.returncode in (2, 4)
    assert "one of your own needs --custom DIR" in " ".join(done.stderr.split())


def test_reports_of_a_run_that_is_not_discarded_stay_when_another_is_refused(compared):
    before = contents(str(compared), "out/c.")
    other = ["goldwatch", "compare", "n/dump", "n/golden", "-o", "out", *options("out/c.")]
    assert run_here(other, compared).returncode == 2
    assert contents(str(compared), "out/c.") == before


_FAILED = "the program failed with exit code 3"


def _headlines(folder):
    """Return the first line of the Markdown, and of the page title and verdict."""
    with open(str(folder / "c.markdown"), encoding="utf-8") as stream:
        markdown = stream.readline()
    with open(str(folder / "c.html"), encoding="utf-8") as stream:
        page = stream.read()
    badge = re.search('<p class="big"><span class="verdict" data-is="fail">(.*?)</span>', page)
    return markdown, re.search("<title>(.*?)</title>", page).group(1), badge.group(1)


def test_reports_of_a_run_whose_program_crashed_begin_with_that(tmp_path, make_network) -> None:
    make_network(str(tmp_path / "n"), wrong=False)
    (tmp_path / "d").mkdir()
    acl = {"dump": {"dump_list": [{"model_name": "net"}], "dump_path": str(tmp_path / "d")}}
    (tmp_path / "acl.json").write_text(json.dumps(acl))
    words = "run --acl acl.json --golden n/golden -f n/net.json -o out".split()
    words += ["--html", "c.html"]
    program = ["--", "sh", "-c", "cp -r n/dump/. d; exit 3"]
    # The program writes to the descriptors of this process.
    done = subprocess.run(
        [sys.executable, "-m", "goldwatch", *words, *options("c."), *program],
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.returncode == 5, done.stderr
    assert "\n%s; of the rows: pass: 3 ops, " % _FAILED in "\n" + done.stdout
    told = _headlines(tmp_path)
    assert told[0] == "## goldwatch: %s (the rows: PASS)\n" % _FAILED
    assert told[1] == "comparison of d (model net): " + _FAILED and told[2] == _FAILED
    assert b'value="%s"' % _FAILED.encode() in contents(str(tmp_path), "c.")["junit"]
    again = run_here(["goldwatch", "report", "out", *options("c."), "--html", "c.html"], tmp_path)
    assert again.returncode == 0 and _headlines(tmp_path) == told


def test_a_long_report_shows_how_many_rows_of_all_are_written(compared) -> None:
    told = []
    write_report(
        str(compared / "out"),
        {str(compared / "r.csv"): CsvFile},
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(0, 5)] and (compared / "r.csv").exists()


def test_what_is_said_of_a_run_stands_on_its_page(compared):
    words = ["goldwatch", "report", "out", "--html", "r.html", "--about"]
    assert run_here([*words, "build=a<b=c"], compared).returncode == 0
    page = (compared / "r.html").read_text()
    assert '<dt>build</dt><dd class="name">a&lt;b=c</dd>' in page
    refused = run_here([*words, "build="], compared)
    assert refused.returncode == 2 and "--about build=: not NAME=TEXT" in refused.stderr
