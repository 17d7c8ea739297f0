"""Statistics in place of dumps (dump_data stats): compared, watched, and narrowed to tensors."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from in_process import run_here

import goldwatch
from goldwatch.dumps.write import TensorData
from goldwatch.testing import (
    DeviceDump,
    DeviceModel,
    DeviceOp,
    DeviceTensor,
    Place,
    as_statistics,
    dump_name,
    write_files,
)
from goldwatch.testing.statistics_files import FORMS

SHAPE = (1, 3, 4, 5)
FOLDER = Place(model="net").folder()


def op(name, kind, values, source=(), origin=True):
    tensor = DeviceTensor(values.astype(np.float16), "ND", "NCHW", name if origin else None)
    return DeviceOp(name, kind, source, (tensor,), (name,))


@pytest.fixture
def net(tmp_path):
    """Make a chain of four ops, its json, golden data and dumps; ``res`` gives out twice what it
    should.
    """
    random = np.random.RandomState(3)
    values = {
        name: random.standard_normal(SHAPE).astype(np.float32) + 1
        for name in ("conv", "act", "res", "out")
    }
    model, dumps, before = DeviceModel("net"), [], None
    source = (("data", 0),)
    model.add(
        DeviceOp(
            "data",
            "Data",
            (),
            (DeviceTensor(np.zeros(SHAPE, np.float16), "ND", "NCHW", "data"),),
            None,
        )
    )
    (tmp_path / "golden").mkdir()
    for number, (name, array) in enumerate(values.items()):
        kind = "Conv2D" if name == "conv" else "Relu"
        model.add(op(name, kind, array, source))
        source = ((name, 0),)
        np.save(str(tmp_path / "golden" / ("%s.0.1700000000000000.npy" % name)), array)
        made = np.zeros((1, 1, 4, 5, 16), np.float16)
        made[..., :3] = np.moveaxis(array, 1, 3)[:, None]
        made *= 2 if name in ("res", "out") else 1
        output = TensorData(made, "float16", format="NC1HWC0", original_shape=SHAPE)
        file = dump_name(kind, name, number, 1700000000000000 + number)
        dumps.append(DeviceDump(FOLDER, file, [] if before is None else [before], [output]))
        before = output
    model.write_json(str(tmp_path / "model.json"))
    write_files(str(tmp_path / "dump"), dumps)
    return tmp_path


def compare(folder, target="stats", golden="golden", *words):
    out = str(folder / "out")
    given = ["compare", target, golden, "-f", "model.json", "-o", out, "--force", *words]
    done = run_here(["goldwatch", *given], folder)
    if not os.path.exists(os.path.join(out, "result.json")):
        return done, None
    with open(os.path.join(out, "result.json"), encoding="utf-8") as stream:
        return done, json.load(stream)


@pytest.mark.parametrize("form", FORMS)
def test_the_first_difference_in_statistics_is_named_with_what_to_dump_next(net, form):
    as_statistics(str(net / "dump"), str(net / "stats"), form)
    done, result = compare(net)
    assert done.returncode == 1, done.stderr
    rows = {row["tensor"]: row for row in result["rows"]}
    failing = {tensor for tensor, row in rows.items() if row["verdict"] == "fail"}
    assert failing == {"res:output:0", "out:input:0", "out:output:0"}
    assert rows["act:output:0"]["warning"] == "statistics" and not rows["act:output:0"]["cause"]
    assert rows["act:output:0"]["metrics"]["MeanDifference"] < 1e-3
    assert rows["res:output:0"]["metrics"]["MeanDifference"] > 0.4
    assert rows["res:output:0"]["nan"] == {"target": 0, "golden": 0}
    assert ("NormDifference" in rows["conv:output:0"]["metrics"]) and result["summary"][
        "by_statistics"
    ] == 7
    first = result["summary"]["first_divergence"]
    assert (first["op"], first["metric"], first["inputs"]) == ("res", "MeanDifference", "good")
    assert result["summary"]["suspects"] == [] and "recomputed" not in result["summary"]
    text = " ".join(done.stdout.split())
    assert "the error is its own" not in text and "which does not prove them right" in text
    assert "7 tensors have been compared by statistics alone" in text
    assert "next: goldwatch config new --narrow" in text


def test_the_proposed_configuration_dumps_the_tensors_around_the_difference(net):
    as_statistics(str(net / "dump"), str(net / "stats"))
    done, _ = compare(net)
    words = done.stdout[done.stdout.index("next: ") + 6 :].replace("\\\n", " ").split()
    os.mkdir(str(net / "stats_tensors"))
    assert run_here(words, net).returncode == 0
    with open(words[-1], encoding="utf-8") as stream:
        dump = json.load(stream)["dump"]
    assert dump["dump_list"] == [{"model_name": "net", "layer": ["conv", "act", "res", "out"]}]
    assert (dump["dump_data"], dump["dump_mode"]) == ("tensor", "all")


def test_tables_have_columns_of_statistics_and_a_users_limit_applies(net):
    as_statistics(str(net / "dump"), str(net / "stats"), "chosen")
    done, _ = compare(
        net, "stats", "golden", "--limit", "MeanDifference=3", "--limit", "NormDifference=3"
    )
    (table,) = [name for name in os.listdir(str(net / "out")) if name.endswith(".csv")]
    with open(str(net / "out" / table), encoding="utf-8") as stream:
        header = stream.readline()
    assert (
        "LeastDistance,MeanDifference,NormDifference,RangeDifference,NotFiniteDifference" in header
    )
    assert "CosineSimilarity" not in header and done.returncode == 1
    limits = [
        "RangeDifference=3",
        "RelativeEuclideanDistance=3",
        "MeanDifference=3",
        "NormDifference=3",
    ]
    done, _ = compare(
        net, "stats", "golden", *(word for limit in limits for word in ("--limit", limit))
    )
    assert done.returncode == 0 and "by statistics alone" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "target, golden", [("stats", "other"), ("stats", "dump"), ("dump", "stats")]
)
def test_golden_data_may_be_statistics_or_dumps(net, target, golden):
    as_statistics(str(net / "dump"), str(net / "stats"), "chosen")
    as_statistics(str(net / "dump"), str(net / "other"), "msprobe")
    done, result = compare(net, target, golden)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["verdict"] for row in result["rows"] if row["kind"] != "op"} == {"pass"}
    path = next(iter(sorted((net / "stats" / FOLDER).iterdir())))
    path.write_text(
        path.read_text().replace("Output,0,", "Output,0,", 1).replace(",0,0,0,", ",2,0,0,")
    )
    done, result = compare(net, target, golden)
    assert done.returncode == 1
    failing = [row for row in result["rows"] if row["verdict"] == "fail"]
    assert {row["metrics"].get("NotFiniteDifference", 0) > 0 for row in failing} == {True}


def test_exact_is_refused_for_statistics_and_reports_show_their_columns(net):
    as_statistics(str(net / "dump"), str(net / "stats"), "default")
    done, result = compare(net, "stats", "dump", "--exact", "--force")
    assert done.returncode == 3
    assert not any(row["verdict"] == "pass" for row in result["rows"])
    reasons = {row["reason"] for row in result["rows"] if row["verdict"] == "not_compared"}
    assert any("statistics were dumped in place of its elements" in text for text in reasons)
    compare(net, "stats", "dump", "--force")
    run_here(["goldwatch", "report", "out", "--markdown", "comment.md"], net)
    text = (net / "comment.md").read_text(encoding="utf-8")
    assert "| verdict | tensor | least dist. | mean | range | reason |" in text


def test_a_table_without_statistics_of_a_tensor_is_not_a_pass(net):
    paths = as_statistics(str(net / "dump"), str(net / "stats"))
    with open(paths[1], encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    cells = lines[2].split(",")
    with open(paths[1], "w", encoding="utf-8") as stream:
        stream.write("\n".join([lines[0], ",".join([*cells[:6], *["NA"] * 7])]) + "\n")
    with open(paths[0], "w", encoding="utf-8") as stream:
        stream.write("nothing\n")
    _, result = compare(net)
    reasons = {
        row["tensor"]: row["reason"] for row in result["rows"] if row["verdict"] == "not_compared"
    }
    assert "the device wrote no statistics of it" in reasons["act:output:0"]
    assert "names no columns of statistics" in reasons["conv"]


def test_a_watch_reads_statistics_as_they_are_appended(net):
    (path,) = as_statistics(str(net / "dump"), str(net / "whole"), "msprobe")
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().splitlines(True)
    live = net / "live" / FOLDER
    live.mkdir(parents=True)
    table = live / "statistic.csv"
    table.write_text("".join(lines[:3]))
    seen = []
    where = {
        "model": str(net / "model.json"),
        "out": str(net / "out"),
        "until_idle": 0.3,
        "jobs": 1,
    }
    with goldwatch.watch(str(net / "live"), str(net / "golden"), **where) as rows:
        for row in rows:
            if row.kind == "output" and row.verdict in ("pass", "fail"):
                seen.append((row.op, row.verdict))
            if row.tensor == "act:input:0" and len(seen) == 1:
                with open(str(table), "a", encoding="utf-8") as stream:
                    stream.write("".join(lines[3:]))
    assert seen == [("conv", "pass"), ("act", "pass"), ("res", "fail"), ("out", "fail")]
    assert rows.result.first_divergence.op == "res" and rows.result.summary.rows == 8
    where["out"] = str(net / "again")
    with goldwatch.watch(str(net / "live"), str(net / "whole"), **where) as rows:
        assert {row.verdict for row in rows if row.kind != "op"} == {"pass"}


def test_a_watch_of_statistics_does_not_wait_for_dump_files(net):
    as_statistics(str(net / "dump"), str(net / "stats"))
    words = ["watch", "stats", "golden", "-f", "model.json", "-o", "out", "--until-idle", "0.1"]
    done = run_here(["goldwatch", *words], net)
    assert done.returncode == 1 and "conv" in done.stdout, done.stderr
    assert "no dump file so far" not in done.stderr


def test_dumps_are_preferred_to_statistics_beside_them(net):
    as_statistics(str(net / "dump"), str(net / "dump"))
    done, result = compare(net, "dump")
    assert done.returncode == 1 and "by_statistics" not in result["summary"]
    assert {"CosineSimilarity"} <= set(result["rows"][-1]["metrics"])


def test_a_hash_name_of_a_statistics_file_is_resolved(net):
    long = "net/" + "part_" * 60
    value = np.ones((2, 3), np.float16)
    file = dump_name("Relu", long, 1, 1700000000000000)
    write_files(str(net / "long"), [DeviceDump(FOLDER, file, [], [value])])
    (path,) = as_statistics(str(net / "long"), str(net / "stats"))
    assert os.path.basename(path).isdigit()
    (net / "golden_long").mkdir()
    with open(str(net / "golden_long" / "mapping.csv"), "w", encoding="utf-8") as stream:
        stream.write("17.npy,%s.0.1700000000000000.npy\n" % long.replace("/", "_"))
    np.save(str(net / "golden_long" / "17.npy"), value.astype(np.float32))
    for golden in ("golden_long", "stats"):
        done = run_here(["goldwatch", "compare", "stats", golden, "-o", "out", "--force"], net)
        assert done.returncode == 0, done.stdout + done.stderr
