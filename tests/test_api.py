"""The public Python API, as docs/python.md shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import types

import pytest

import goldwatch

DOCS = os.path.join(os.path.dirname(__file__), "..", "docs", "python.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small network: ``net`` (model and golden data), ``dump``, and ``broken`` with one wrong op."""
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


def test_the_page_runs(tmp_path):
    with open(DOCS, encoding="utf-8") as stream:
        code = "\n".join(re.findall(r"```python\n(.*?)```", stream.read(), re.S))
    script = tmp_path / "page.py"
    script.write_text("def main():\n%s\n\nif __name__ == '__main__':\n    main()\n" % re.sub("(?m)^", "    ", code))
    done = subprocess.run([sys.executable, str(script)], cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    assert b"pass" in done.stdout


def test_the_import_loads_nothing_heavy():
    code = "import sys, goldwatch; goldwatch.GoldwatchError; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code]).decode().split()
    assert not {"numpy", "google.protobuf", "watchdog", "click", "sqlite3", "jsonschema"} & set(loaded)


def test_every_public_name_is_there_and_documented():
    assert set(goldwatch.__all__) <= set(dir(goldwatch))
    with open(DOCS, encoding="utf-8") as stream:
        page = stream.read()
    for name in goldwatch.__all__:
        assert getattr(goldwatch, name).__doc__
        assert name == "__version__" or "goldwatch." + name in page
    with pytest.raises(AttributeError, match="no_such_name"):
        goldwatch.no_such_name  # noqa: B018


def test_public_functions_stay_functions_when_their_modules_are_imported():
    code = "import goldwatch\nfrom goldwatch.api import compare\nimport goldwatch.watching.watch, goldwatch.comparing.pair\n"
    code += "assert goldwatch.compare is compare and callable(goldwatch.watch)"
    subprocess.check_call([sys.executable, "-c", code])


def test_a_result_is_usable_afterwards(folder):
    seen = []
    result = goldwatch.compare(
        str(folder / "broken"), str(folder / "net" / "golden"), model=str(folder / "net" / "model.json"), jobs=1,
        progress=lambda done, known: seen.append((done, known)),
    )  # fmt: skip
    assert result.summary.verdict == "fail" and result.exit_code == 1 and result.first_divergence.op == "op_2"
    assert {row.tensor for row in result.rows("fail")} == {row.tensor for row in result.rows() if row.verdict == "fail"}
    assert seen[-1][0] == seen[-1][1] > 0
    out = result.options.out
    again = goldwatch.open_result(out)
    assert again.summary.failed == result.summary.failed and again.first_divergence.op == "op_2"
    page = result._repr_html_()
    assert "op_2:output:0" in page and "fail" in page
    del result
    assert not os.path.exists(out), "a temporary folder lives as long as its result"


def test_markup_in_names_is_escaped(folder, tmp_path):
    result = goldwatch.compare(str(folder / "broken"), str(folder / "net" / "golden"), out=str(tmp_path / "out"), jobs=1)
    page = result._repr_html_()
    assert "<script" not in page and page.count("<table>") == 1


def test_rows_come_while_files_arrive(folder, tmp_path):
    serve = [sys.executable, "-m", "goldwatch.testing", "serve", str(folder / "net"), str(tmp_path / "dump")]
    producer = subprocess.Popen(serve)
    with goldwatch.watch(
        str(tmp_path / "dump"), str(folder / "net" / "golden"), model=str(folder / "net" / "model.json"), pid=producer.pid, jobs=1
    ) as rows:
        tensors = [row.tensor for row in rows]
    assert producer.wait() == 0
    assert "op_1:output:0" in tensors and rows.result.summary.verdict == "pass"
    assert sorted(tensors) == sorted(row.tensor for row in rows.result.rows())


def test_a_watch_can_be_stopped(folder):
    with goldwatch.watch(str(folder / "dump"), str(folder / "net" / "golden"), model=str(folder / "net" / "model.json"), jobs=1) as rows:
        with pytest.raises(goldwatch.GoldwatchError, match="before the end"):
            rows.result  # noqa: B018
        for _ in rows:
            rows.stop()
    assert rows.result.summary.rows > 0


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "2"])
def test_a_number_of_processes_is_one(tmp_path, jobs):
    for function in (goldwatch.compare, goldwatch.watch):
        with pytest.raises(goldwatch.GoldwatchError, match="jobs="):
            function(str(tmp_path), str(tmp_path), jobs=jobs)


def test_rows_of_a_verdict_that_does_not_exist(folder):
    result = goldwatch.compare(str(folder / "dump"), str(folder / "net" / "golden"), jobs=1)
    with pytest.raises(goldwatch.GoldwatchError, match="there is no verdict 'FAIL'"):
        result.rows("FAIL")


def test_errors_are_goldwatch_errors(tmp_path):
    with pytest.raises(goldwatch.GoldwatchError, match="nothing"):
        goldwatch.compare(str(tmp_path / "nothing"), str(tmp_path))
    with pytest.raises(goldwatch.GoldwatchError):
        goldwatch.open_result(str(tmp_path))
    assert os.listdir(str(tmp_path)) == []


def test_rows_as_a_table(folder, monkeypatch):
    """pandas is a stand-in: what it is given is what counts."""
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=list))
    result = goldwatch.compare(str(folder / "dump"), str(folder / "net" / "golden"), jobs=1)
    table = result.to_pandas()
    assert [line["tensor"] for line in table] == [row.tensor for row in result.rows()]
    (line,) = [line for line in table if line["tensor"] == "op_1:output:0"]
    assert line["CosineSimilarity"] > 0.99 and line["nan_target"] == 0 and line["StandardDeviation_golden_mean"] is not None
    assert not any(isinstance(value, dict) for value in line.values())


def test_without_pandas_the_table_says_what_is_missing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = goldwatch.compare(str(folder / "dump"), str(folder / "net" / "golden"), jobs=1)
    with pytest.raises(goldwatch.GoldwatchError, match="pandas"):
        result.to_pandas()


def test_ctrl_c_and_close_end_our_own_processes_only(folder):
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
