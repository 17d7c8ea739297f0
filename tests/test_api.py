"""The public Python API, as docs/reference/python.md shows it."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import types

import numpy as np
import pytest

import goldwatch
from goldwatch.config.dump_plan import ModelDump
from goldwatch.config.dump_plan_formats import write_plan
from goldwatch.run import compare_folders

DOCS = os.path.join(os.path.dirname(__file__), "..", "docs", "reference", "python.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small network: ``net`` (model and golden data), ``dump``, and ``broken`` with one wrong
    op.
    """
    base = tmp_path_factory.mktemp("api")
    testing = [sys.executable, "-m", "goldwatch.testing"]
    subprocess.check_call(testing + ["make", "net", "--ops", "4", "--size", "4096"], cwd=str(base))
    subprocess.check_call(testing + ["serve", "net", "dump"], cwd=str(base))
    subprocess.check_call(testing + ["serve", "net", "broken"], cwd=str(base))
    (path,) = (base / "broken").glob("*/0/net/1/0/*.op_2.*")
    data = bytearray(path.read_bytes())
    data[-4096:-2048] = bytes(2048)
    path.write_bytes(bytes(data))
    return base


def test_the_code_of_the_api_page_runs(tmp_path):
    with open(DOCS, encoding="utf-8") as stream:
        code = "\n".join(re.findall(r"```python\n(.*?)```", stream.read(), re.S))
    script = tmp_path / "page.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"pass" in done.stdout


def test_importing_goldwatch_loads_no_heavy_modules():
    code = "import sys, goldwatch; goldwatch.GoldwatchError; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code]).decode().split()
    assert not {"numpy", "google.protobuf", "watchdog", "click", "sqlite3", "jsonschema"} & set(
        loaded
    )


def test_compare_and_open_result_load_no_modules_of_watch():
    code = (
        "import sys, goldwatch; goldwatch.compare; goldwatch.open_result; goldwatch.WatchedRows; "
        "print(*sys.modules)"
    )
    assert not {"watchdog", "goldwatch.run.watch", "goldwatch.run.watched_folders"} & set(
        subprocess.check_output([sys.executable, "-c", code]).decode().split()
    )


def test_processes_that_compare_import_nothing_of_the_verdict():
    """Each would wait for it at its start, a tenth of the time of a small run."""
    code = (
        "import sys, goldwatch.run.split_pair, goldwatch.judging.row_judge, "
        "goldwatch.reports.rendered_rows; print(*sys.modules)"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code]).decode().split()
    assert "goldwatch.reports.row_json" in loaded
    assert not [
        name
        for name in loaded
        for room in ("operators", "recomputing", "netfiles", "diagnosis.own_error", "model.graph")
        if name.startswith("goldwatch." + room)
    ]


def test_every_public_name_exists_and_is_documented():
    assert set(goldwatch.__all__) <= set(dir(goldwatch))
    with open(DOCS, encoding="utf-8") as stream:
        page = stream.read()
    for name in goldwatch.__all__:
        assert getattr(goldwatch, name).__doc__
        assert name == "__version__" or "goldwatch." + name in page
    with pytest.raises(AttributeError, match="no_such_name"):
        goldwatch.no_such_name  # noqa: B018


def test_public_functions_stay_functions_when_their_modules_are_imported():
    code = (
        "import goldwatch\nfrom goldwatch.api import compare\nimport goldwatch.run.watch, "
        "goldwatch.metrics.compare_pair\n"
    )
    code += "assert goldwatch.compare is compare and callable(goldwatch.watch)"
    subprocess.check_call([sys.executable, "-c", code])


def test_a_result_gives_rows_summary_files_and_a_page(folder):
    seen = []
    result = goldwatch.compare(
        str(folder / "broken"), str(folder / "net" / "golden"),
        model=str(folder / "net" / "model.json"), jobs=1,
        progress=lambda done, known: seen.append((done, known)),
    )  # fmt: skip
    assert (
        result.summary.verdict == "fail"
        and result.exit_code == 1
        and result.first_divergence.op == "op_2"
    )
    assert {row.tensor for row in result.rows("fail")} == {
        row.tensor for row in result.rows() if row.verdict == "fail"
    }
    assert seen[-1][0] == seen[-1][1] > 0
    out = result.options.out
    again = goldwatch.open_result(out)
    assert again.finished and again.first_divergence.op == "op_2"
    for name in ("summary", "exit_code", "sentence", "files", "notes", "left_out"):
        assert getattr(again, name) == getattr(result, name), name
    with open(again.files[-1], encoding="utf-8") as stream:
        assert len(json.load(stream)["rows"]) == result.summary.rows
    assert repr(result) == "RunResult(fail, %d rows, %r)" % (result.summary.rows, out)
    page = result._repr_html_()
    assert "op_2:output:0" in page and "fail" in page
    del result
    assert not os.path.exists(out), "a temporary folder lives as long as its result"


def test_markup_in_names_is_escaped_in_notebooks(folder, tmp_path):
    paths, model = (
        [str(folder / "broken"), str(folder / "net" / "golden")],
        str(folder / "net" / "model.json"),
    )
    result = goldwatch.compare(*paths, model=model, out=str(tmp_path / "out"), jobs=1)
    page = result._repr_html_()
    assert "<script" not in page and page.count("<table>") == 1


def test_watch_yields_rows_while_files_arrive(folder, tmp_path):
    serve = [
        sys.executable,
        "-m",
        "goldwatch.testing",
        "serve",
        str(folder / "net"),
        str(tmp_path / "dump"),
    ]
    producer = subprocess.Popen(serve)
    with goldwatch.watch(
        str(tmp_path / "dump"),
        str(folder / "net" / "golden"),
        model=str(folder / "net" / "model.json"),
        pid=producer.pid,
        jobs=1,
    ) as rows:
        tensors = [row.tensor for row in rows]
    assert producer.wait() == 0
    assert "op_1:output:0" in tensors and rows.result.summary.verdict == "pass"
    assert sorted(tensors) == sorted(row.tensor for row in rows.result.rows())


def test_two_single_files_are_compared_as_by_the_command(folder):
    (dump,) = (folder / "broken").glob("*/0/net/1/0/*.op_2.*")
    (golden,) = (folder / "net" / "golden").glob("op_2.0.*.npy")
    result = goldwatch.compare(dump, golden, jobs=1)
    assert [row.tensor for row in result.rows("fail")] == ["op_2:output:0"]
    with pytest.raises(goldwatch.GoldwatchError, match="two folders or two files"):
        goldwatch.compare(dump, folder / "net" / "golden", jobs=1)


def test_a_watch_can_be_stopped(folder):
    with goldwatch.watch(
        str(folder / "dump"),
        str(folder / "net" / "golden"),
        model=str(folder / "net" / "model.json"),
        jobs=1,
    ) as rows:
        with pytest.raises(goldwatch.GoldwatchError, match="before the end"):
            rows.result  # noqa: B018
        for _ in rows:
            rows.stop()
    assert rows.result.summary.rows > 0


def test_a_result_is_readable_after_the_current_folder_changed(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(str(tmp_path))
    result = goldwatch.compare(folder / "dump", folder / "net" / "golden", out="out", jobs=1)
    again = goldwatch.open_result("out")
    monkeypatch.chdir("/")
    assert len(list(again.rows())) == len(list(result.rows())) == result.summary.rows > 0
    assert all(os.path.isfile(path) for path in result.files)


def test_ctrl_c_raises_an_interrupt_that_is_no_exception(folder, tmp_path):
    """Nothing that handles errors takes it for one."""

    def interrupt(some, *_):
        if some:
            raise KeyboardInterrupt

    paths = (folder / "dump", folder / "net" / "golden")
    with pytest.raises(KeyboardInterrupt, match="rows are stored in"):
        goldwatch.compare(*paths, out=tmp_path / "out", jobs=1, progress=interrupt)
    assert list(goldwatch.open_result(tmp_path / "out").rows()) != []
    with pytest.raises(KeyboardInterrupt, match="^interrupted$"):
        goldwatch.compare(*paths, jobs=1, progress=interrupt)
    with pytest.raises(KeyboardInterrupt, match="rows are stored in"), goldwatch.watch(
        *paths, out=tmp_path / "watched", jobs=1
    ) as rows:
        interrupt(next(iter(rows)))


@pytest.mark.parametrize(("dumps", "verdict"), [("dump", "incomplete"), ("broken", "fail")])
def test_an_unfinished_run_is_not_a_pass(folder, tmp_path, dumps, verdict):
    """What is opened while a watch goes on, and what is left of one that was stopped."""
    model = folder / "net" / "model.json"
    paths = (folder / dumps, folder / "net" / "golden")
    with pytest.raises(KeyboardInterrupt), goldwatch.watch(
        *paths, model=model, out=tmp_path / "out", jobs=1
    ) as rows:
        for number, row in enumerate(rows):
            if number and (row.verdict == "fail" or dumps == "dump"):
                going_on = goldwatch.open_result(tmp_path / "out")
                raise KeyboardInterrupt
    for opened in (going_on, goldwatch.open_result(tmp_path / "out")):
        assert (opened.finished, opened.summary.verdict, opened.exit_code) == (False, verdict, 3)
        assert opened.sentence.startswith("This run goes on or was stopped before its end")
        assert repr(opened) == "RunResult(%s, %d rows so far, %r)" % (
            verdict,
            opened.summary.rows,
            str(tmp_path / "out"),
        )
        page = opened._repr_html_()
        assert (
            page.startswith("<p><b>%s (not finished)</b>: " % verdict)
            and "stopped before its end" in page
        )
    whole = goldwatch.compare(*paths, model=model, out=tmp_path / "whole", jobs=1)
    assert (
        whole.finished
        and goldwatch.open_result(tmp_path / "whole").finished
        and "so far" not in repr(whole)
    )


def test_watching_a_finished_run_ends(folder, tmp_path):
    def watched(**options):
        with goldwatch.watch(
            folder / "dump", folder / "net" / "golden", out=tmp_path / "out", jobs=1, **options
        ) as rows:
            return len(list(rows)), rows.result.summary.verdict

    first = watched(until_idle=0.2)
    with pytest.raises(
        goldwatch.GoldwatchError,
        match="out holds a run that has ended, and nothing would end this watch",
    ) as caught:
        watched()
    assert "open_result" in caught.value.hint
    assert watched(until_idle=0.2)[1] == first[1]
    assert len(list(goldwatch.open_result(tmp_path / "out").rows())) == first[0]


def test_the_store_of_another_function_is_refused_with_its_name(folder, tmp_path):
    paths = (folder / "dump", folder / "net" / "golden")
    with goldwatch.watch(*paths, out=tmp_path / "watched", jobs=1) as rows:
        next(iter(rows))
    with pytest.raises(
        goldwatch.GoldwatchError, match="watched was made by watch: compare does not go on with it$"
    ):
        goldwatch.compare(*paths, out=tmp_path / "watched", jobs=1)
    goldwatch.compare(*paths, out=tmp_path / "compared", jobs=1)
    with pytest.raises(
        goldwatch.GoldwatchError,
        match="compared was made by compare: watch does not go on with it$",
    ):
        goldwatch.watch(*paths, out=tmp_path / "compared", jobs=1, until_idle=0.1).__enter__()


def test_a_second_loop_over_a_watch_continues_the_first(folder):
    with goldwatch.watch(
        folder / "dump",
        folder / "net" / "golden",
        model=folder / "net" / "model.json",
        jobs=1,
        until_idle=0.2,
    ) as rows:
        first = next(iter(rows))
        others = list(rows)
        assert list(rows) == []
    assert sorted(row.tensor for row in [first] + others) == sorted(
        row.tensor for row in rows.result.rows()
    )


def test_watch_yields_rows_of_present_files_before_all_are_looked_at(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("goldwatch.run.watch._SLICE", 1)
    paths = (folder / "dump", folder / "net" / "golden")
    with goldwatch.watch(*paths, out=tmp_path / "out", jobs=1, until_idle=1e-6) as rows:
        next(iter(rows))
        stored = goldwatch.open_result(tmp_path / "out").summary.rows
        every = 1 + len(list(rows))
    assert 0 < stored < every


def test_a_watch_left_early_says_what_can_be_read(folder, tmp_path):
    with goldwatch.watch(
        folder / "dump", folder / "net" / "golden", out=tmp_path / "out", jobs=1
    ) as rows:
        next(iter(rows))
    with pytest.raises(goldwatch.GoldwatchError, match="left before the end of its rows") as caught:
        rows.result  # noqa: B018
    assert "open_result(out)" in caught.value.hint and "first" not in caught.value.hint
    assert not goldwatch.open_result(tmp_path / "out").finished


def test_a_result_outlives_its_watch(folder):
    with goldwatch.watch(
        folder / "dump", folder / "net" / "golden", jobs=1, until_idle=0.2
    ) as rows:
        seen = list(rows)
    result = rows.result
    del rows
    assert len(list(result.rows())) == len(seen) > 0
    out = result.options.out
    del result
    assert not os.path.exists(out)


def test_results_trees_and_models_have_a_readable_repr(folder):
    assert repr(goldwatch.DumpTree(folder / "dump")) == "DumpTree(%r, 1 place)" % str(
        folder / "dump"
    )
    assert repr(goldwatch.GoldenSet(folder / "net" / "golden")) == "GoldenSet(%r, 5 tensors)" % str(
        folder / "net" / "golden"
    )
    assert repr(goldwatch.load_model(folder / "net" / "model.json")) == "ModelGraph('net', 6 ops)"


def test_a_temporary_folder_lives_as_long_as_any_copy_of_its_result(folder):
    result = goldwatch.compare(folder / "dump", folder / "net" / "golden", jobs=1)
    out = result.options.out
    copies = [copy.copy(result), dataclasses.replace(result, notes=())]
    del result
    assert all(list(one.rows()) for one in copies)
    del copies
    assert not os.path.exists(out)


def test_a_temporary_folder_is_deleted_when_a_multiprocessing_child_ends(folder, tmp_path):
    code = "import goldwatch, multiprocessing, sys\n"
    code += (
        "def work():\n    global result\n    result = goldwatch.compare('dump', 'net/golden', "
        "jobs=1)\n    print(result.options.out)\n"
    )
    code += "    sys.stdout.flush()\n"
    code += (
        "child = "
        "multiprocessing.get_context('fork').Process(target=work)\nchild.start()\nchild.join()\n"
    )
    out = subprocess.check_output([sys.executable, "-c", code], cwd=str(folder)).decode().strip()
    assert os.path.basename(out).startswith("goldwatch-") and not os.path.exists(out)


@pytest.mark.parametrize(
    "wrong, told",
    [
        ({"models": ["net"]}, "ModelDump objects"), ({"models": "net"}, "ModelDump objects"),
        ({"stats": 5}, "a tuple of names"),
        ({"kernel_data": "all"}, "a tuple of names"), ({"dump_path": 5}, "a text"),
        ({"step": 5}, "a text"),
        ({"step": "x"}, "neither a step"), ({"debug": "x"}, "True or False"),
        ({"op_switch": 5}, "True or False"),
    ],
)  # fmt: skip
def test_an_impossible_plan_is_refused(wrong, told):
    with pytest.raises(goldwatch.GoldwatchError, match=told):
        goldwatch.DumpPlan(**{"dump_path": "dump", **wrong})


def test_a_plan_accepts_a_list_of_models_and_names_the_forms():
    plan = goldwatch.DumpPlan(dump_path="dump", models=[ModelDump("net")])
    assert plan.models == (ModelDump("net"),)
    with pytest.raises(goldwatch.GoldwatchError, match="there is no form 'x'"):
        write_plan(plan, "x")


@pytest.mark.parametrize("name, index", [(5, 0), ("op_1", "0"), ("op_1", None)])
def test_golden_set_find_refuses_a_wrong_name_or_number(folder, name, index):
    with pytest.raises(goldwatch.GoldwatchError, match="an op's name and the number of its output"):
        goldwatch.GoldenSet(folder / "net" / "golden").find(name, index)


def test_a_watch_left_early_leaves_no_temporary_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    watched = goldwatch.watch(folder / "dump", folder / "net" / "golden", jobs=1)
    with pytest.raises(goldwatch.GoldwatchError, match="has not begun"):
        list(watched)
    with watched as rows:
        next(iter(rows))
    with pytest.raises(goldwatch.GoldwatchError, match="before the end"):
        watched.result  # noqa: B018
    with pytest.raises(goldwatch.GoldwatchError, match="run before"), watched:
        pass
    del watched, rows
    assert [name for name in os.listdir(str(tmp_path)) if name.startswith("goldwatch-")] == []


def test_path_objects_are_accepted_for_files_and_folders(folder):
    net = pathlib.Path(str(folder / "net"))
    dump = pathlib.Path(str(folder / "dump"))
    result = goldwatch.compare(dump, net / "golden", model=net / "model.json", jobs=np.int64(1))
    assert (
        goldwatch.open_result(pathlib.Path(result.options.out)).summary.rows
        == result.summary.rows
        > 0
    )
    assert (
        goldwatch.load_model(net / "model.json").path
        == goldwatch.load_model(str(net / "model.json")).path
    )
    assert goldwatch.load_models(net / "model.json").of("any") is not None
    tree = goldwatch.DumpTree(dump)
    assert tree.root == str(dump)
    assert goldwatch.GoldenSet(net / "golden").find("op_1", 0) is not None
    (path,) = dump.glob("*/0/net/1/0/*.op_1.*")
    assert goldwatch.DumpFile(path).path == str(path)
    assert goldwatch.DumpPlan(dump_path=dump).acl_document()["dump"]["dump_path"] == str(dump)


@pytest.mark.parametrize("path", [None, 5, [], "a\0b"])
@pytest.mark.parametrize(
    "name", ["open_result", "load_model", "load_models", "DumpFile", "DumpTree", "GoldenSet"]
)
def test_values_that_are_no_paths_are_refused(name, path):
    with pytest.raises(goldwatch.GoldwatchError, match="expected a path|does not exist"):
        getattr(goldwatch, name)(path)


def test_an_empty_path_is_refused_and_the_first_wrong_one_is_named(tmp_path):
    for target, golden, told in (
        ("", "", "TARGET: ''"),
        ("no", "none", "TARGET: no"),
        (tmp_path, "", "GOLDEN: ''"),
    ):
        with pytest.raises(FileNotFoundError, match="^%s does not exist" % told):
            goldwatch.compare(target, golden)
    with pytest.raises(FileNotFoundError, match="^TARGET: '' does not exist"), goldwatch.watch(
        "", tmp_path
    ):
        pass
    with pytest.raises(FileNotFoundError, match="^GOLDEN: none does not exist"), goldwatch.watch(
        "no", "none"
    ):
        pass
    with pytest.raises(FileNotFoundError, match="^'' does not exist"):
        goldwatch.open_result("")


def test_open_result_refuses_run_sqlite_and_asks_for_its_folder(folder, tmp_path):
    goldwatch.compare(folder / "dump", folder / "net" / "golden", out=tmp_path, jobs=1)
    with pytest.raises(
        FileNotFoundError, match="run.sqlite is a file: the folder that holds it is wanted"
    ):
        goldwatch.open_result(tmp_path / "run.sqlite")


@pytest.mark.parametrize("function", [goldwatch.compare, goldwatch.watch])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"model": 5}, "the model: expected a path, got 5"),
        ({"out": 5}, "OUT: expected a path"),
        ({"custom": 5}, "custom: expected a path"),
        ({"metric_args": 3}, "metric_args=3"),
        ({"metric_args": {"a": 3}}, "metric_args="),
        ({"max_elements": "a"}, "max_elements='a'"),
        ({"max_elements": 3}, "says too little"),
        ({"progress": 3}, "progress=3"),
        ({"until_idle": "a"}, "until_idle='a'"),
        ({"until_idle": -1}, "until_idle -1: expected seconds, more than 0"),
        ({"pid": "a"}, "pid='a'"),
        ({"pid": -1}, "pid -1: not a process"),
        ({"expect_all": "no"}, "expect_all='no'"),
        ({"stop_on_divergence": 5}, "stop_on_divergence=5"),
        ({"out": ""}, "OUT: ''"),
    ],
)
def test_a_wrong_argument_is_refused_and_leaves_no_folder(
    folder, tmp_path, monkeypatch, function, wrong, told
):
    unknown = (
        {"until_idle", "pid", "expect_all", "stop_on_divergence"}
        if function is goldwatch.compare
        else {"progress"}
    )
    if unknown & set(wrong):
        with pytest.raises(TypeError, match="unexpected keyword"):
            function(folder / "dump", folder / "net" / "golden", **wrong)
        return
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(goldwatch.GoldwatchError, match=told):
        function(folder / "dump", folder / "net" / "golden", **wrong)
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "2"])
def test_a_wrong_number_of_jobs_is_refused(tmp_path, jobs):
    for function in (goldwatch.compare, goldwatch.watch):
        with pytest.raises(goldwatch.GoldwatchError, match="jobs="):
            function(str(tmp_path), str(tmp_path), jobs=jobs)


def test_rows_of_an_unknown_verdict_are_refused(folder):
    result = goldwatch.compare(str(folder / "dump"), str(folder / "net" / "golden"), jobs=1)
    with pytest.raises(goldwatch.GoldwatchError, match="there is no verdict 'FAIL'"):
        result.rows("FAIL")


def test_missing_paths_raise_goldwatch_errors(tmp_path):
    with pytest.raises(goldwatch.GoldwatchError, match="nothing"):
        goldwatch.compare(str(tmp_path / "nothing"), str(tmp_path))
    with pytest.raises(goldwatch.GoldwatchError):
        goldwatch.open_result(str(tmp_path))
    assert os.listdir(str(tmp_path)) == []


def test_progress_is_reported_while_files_are_still_planned(tmp_path, monkeypatch):
    monkeypatch.setattr(compare_folders, "_SLICE", 64)
    testing = [sys.executable, "-m", "goldwatch.testing"]
    subprocess.check_call(
        testing + ["make", "net", "--ops", "100", "--size", "64"], cwd=str(tmp_path)
    )
    subprocess.check_call(testing + ["serve", "net", "dump"], cwd=str(tmp_path))
    seen = []
    model = tmp_path / "net" / "model.json"
    goldwatch.compare(
        tmp_path / "dump",
        tmp_path / "net" / "golden",
        model=model,
        jobs=1,
        progress=lambda *pairs: seen.append(pairs),
    )
    assert 0 < seen[0][1] < seen[-1][1] == seen[-1][0]
    assert sorted(seen) == seen


@pytest.mark.parametrize("named", ["model", "quantisation", "unfused"])
def test_a_missing_model_file_is_named_by_its_role(folder, named):
    said = {
        "model": "the model",
        "quantisation": "the quantisation json",
        "unfused": "the json of the unfused build",
    }[named]
    paths = {"model": folder / "net" / "model.json", named: "no.json"}
    with pytest.raises(goldwatch.GoldwatchError, match="^%s: no.json does not exist" % said):
        goldwatch.compare(folder / "dump", folder / "net" / "golden", **paths)
    with pytest.raises(
        goldwatch.GoldwatchError, match="^the quantisation json: no.json does not exist"
    ):
        goldwatch.compare(folder / "dump", folder / "net" / "golden", quantisation="no.json")


def test_to_pandas_gives_one_flat_row_per_tensor(folder, monkeypatch):
    """pandas is a stand-in: what it is given is what counts."""
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=list))
    result = goldwatch.compare(str(folder / "dump"), str(folder / "net" / "golden"), jobs=1)
    table = result.to_pandas()
    assert [line["tensor"] for line in table] == [row.tensor for row in result.rows()]
    (line,) = [line for line in table if line["tensor"] == "op_1:output:0"]
    assert (
        line["CosineSimilarity"] > 0.99
        and line["nan_target"] == 0
        and line["StandardDeviation_golden_mean"] is not None
    )
    assert not any(isinstance(value, dict) for value in line.values())


def test_to_pandas_without_pandas_says_what_is_missing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = goldwatch.compare(str(folder / "dump"), str(folder / "net" / "golden"), jobs=1)
    with pytest.raises(goldwatch.GoldwatchError, match="pandas"):
        result.to_pandas()


def test_ctrl_c_and_close_end_only_goldwatchs_processes(folder):
    import multiprocessing

    mine = multiprocessing.get_context("spawn").Process(target=_wait)
    mine.start()
    try:
        result = goldwatch.compare(str(folder / "dump"), str(folder / "net" / "golden"), jobs=2)
        assert result.exit_code == 0 and mine.is_alive()
    finally:
        mine.terminate()
        mine.join()


def _wait():
    threading.Event().wait()


@pytest.mark.parametrize("side", ["TARGET", "GOLDEN"])
@pytest.mark.parametrize("call", ["compare", "watch"])
def test_an_out_folder_inside_target_or_golden_is_not_read_as_data(folder, tmp_path, call, side):
    """A folder in it is one of its own, and a link to it none."""
    paths = {"TARGET": tmp_path / "dump", "GOLDEN": tmp_path / "golden"}
    shutil.copytree(str(folder / "dump"), str(paths["TARGET"]))
    shutil.copytree(str(folder / "net" / "golden"), str(paths["GOLDEN"]))
    (tmp_path / "link").symlink_to(paths[side])
    before = sorted(os.listdir(str(paths[side])))

    def compared(out):
        if call == "compare":
            return goldwatch.compare(*paths.values(), out=out, jobs=1)
        with goldwatch.watch(*paths.values(), out=out, jobs=1, until_idle=0.2) as rows:
            list(rows)
        return rows.result

    for out in (paths[side], tmp_path / "link"):
        with pytest.raises(goldwatch.GoldwatchError, match="^OUT is %s itself: " % side) as caught:
            compared(out)
        assert caught.value.exit_code == 2 and "folder of their own" in caught.value.hint
    assert sorted(os.listdir(str(paths[side]))) == before
    assert compared(paths[side] / "out").summary.rows == compared(tmp_path / "out").summary.rows


def test_numpy_numbers_are_accepted_as_arguments(folder):
    paths = (folder / "dump", folder / "net" / "golden")
    result = goldwatch.compare(*paths, jobs=np.int64(1), max_elements=np.uint16(1024))
    assert result.options.max_elements == 1024 and type(result.options.max_elements) is int
    with goldwatch.watch(
        *paths, jobs=np.int8(1), pid=np.int32(os.getpid()), until_idle=np.float32(0.25)
    ) as rows:
        list(rows)
    assert rows.result.summary.rows == result.summary.rows
    dump = goldwatch.DumpFile(next(path for path in (folder / "dump").glob("**/*.op_1.*")))
    assert np.array_equal(dump.array("output", np.int64(0)), dump.array())
    assert goldwatch.GoldenSet(folder / "net" / "golden").find("op_1", np.int64(0)).index == 0
    for jobs in (True, np.bool_(True), 2.0, np.float32(2), "2", np.int64(0)):
        with pytest.raises(goldwatch.GoldwatchError, match="expected a number of processes"):
            goldwatch.compare(*paths, jobs=jobs)
