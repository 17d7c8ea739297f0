"""``goldwatch compare`` end to end, as a user calls it."""

from __future__ import annotations

import csv
import glob
import json
import os
import signal
import sqlite3
import subprocess

import jsonschema
import numpy as np
import pytest

from goldwatch.schemas import load_schema

COLUMNS = (
    "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,CosineSimilarity,MaxAbsoluteError,"
    "AccumulatedRelativeError,RelativeEuclideanDistance,KullbackLeiblerDivergence,StandardDeviation,MeanAbsoluteError,"
    "RootMeanSquareError,MaxRelativeError,MeanRelativeError,CompareFailReason"
)


def read_csv(out: str, pattern: str = "result_*.csv"):
    (path,) = glob.glob(os.path.join(out, pattern))
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def test_a_healthy_network_passes_with_every_documented_column(network) -> None:
    network.dump()
    done = network.compare()
    assert done.returncode == 0, done.stderr
    table = read_csv(network.out)
    assert ",".join(table[0]) == COLUMNS
    document = network.result()
    jsonschema.validate(document, load_schema("result"))
    summary = document["summary"]
    assert summary["verdict"] == "pass" and summary["first_divergence"] is None
    assert summary["rows"] == len(document["rows"]) == len(table) - 1
    assert (
        summary["passed"] + summary["failed"] + summary["not_compared"] + summary["expected_absent"]
        == summary["rows"]
    )
    rows = network.rows()
    assert rows["op/1_fused:output:0"]["shape"] == [2, 3, 4, 5]
    assert rows["op/1_fused:output:0"]["golden"] == "pre_op/1,op/1"
    assert rows["trans_TransData_1:output:0"]["golden_file"] == "data.0.1767323045000000.npy"
    assert rows["fc:output:0"]["verdict"] == "pass"
    assert "pass: 8 ops" in done.stdout and "Traceback" not in done.stderr


def test_metrics_equal_a_plain_computation(network) -> None:
    network.dump()
    assert network.compare().returncode == 0
    row = network.rows()["op/2_fused:output:0"]
    x = network.model.output("op/2_fused").array.astype(np.float64)
    y = network.values["op/2"].astype(np.float64)
    assert row["metrics"]["MaxAbsoluteError"] == pytest.approx(np.abs(x - y).max(), rel=1e-9)
    assert row["metrics"]["RootMeanSquareError"] == pytest.approx(
        np.sqrt(((x - y) ** 2).mean()), rel=1e-9
    )
    assert row["metrics"]["StandardDeviation"]["golden"]["std"] == pytest.approx(y.std(), rel=1e-9)


def test_the_broken_operator_is_the_first_divergence(make_network) -> None:
    network = make_network(broken=True)
    network.dump()
    done = network.compare()
    assert done.returncode == 1
    first = network.result()["summary"]["first_divergence"]
    assert (
        first["op"] == "op/1_fused"
        and first["tensor"] == "op/1_fused:output:0"
        and first["inputs"] == "good"
    )
    assert (
        "op/1_fused (Conv2D) is the first operator outside its limits"
        in done.stdout.splitlines()[-2]
    )
    assert "the error arises here" in done.stdout.splitlines()[-2]


def test_missing_golden_data_exits_with_3_and_is_accepted_with_allow_missing(network) -> None:
    network.dump()
    os.unlink(network.golden_path("op/0"))
    assert network.compare().returncode == 3
    row = network.rows()["op/0_fused:output:0"]
    assert (
        row["verdict"] == "not_compared"
        and "op/0" in row["reason"]
        and row["cause"] == "golden_missing"
    )
    assert network.compare("--allow-missing").returncode == 0


def test_a_missing_dump_gives_one_row(network) -> None:
    paths = network.dump()
    os.unlink([path for path in paths if "fc" in os.path.basename(path)][0])
    assert network.compare().returncode == 3
    assert network.rows()["fc"]["verdict"] == "not_compared"
    assert network.compare("--allow-missing").returncode == 0


def test_a_damaged_dump_affects_only_its_rows(network) -> None:
    paths = network.dump()
    victim = [path for path in paths if "op_1_fused" in path][0]
    size = os.path.getsize(victim)
    with open(victim, "r+b") as stream:
        stream.truncate(size - 100)
    done = network.compare("--allow-missing")
    assert done.returncode == 3
    row = network.rows()["op/1_fused:output:0"]
    assert (
        row["verdict"] == "not_compared"
        and str(size) in row["reason"]
        and str(size - 100) in row["reason"]
    )
    assert network.result()["summary"]["not_compared"] == 2
    with open(victim, "wb") as stream:
        stream.write(b"\xff" * 300)
    assert network.compare("--allow-missing").returncode == 3
    assert network.rows()["op/1_fused"]["verdict"] == "not_compared"


def test_a_golden_tensor_of_another_shape_is_not_compared_with_both_shapes_named(network) -> None:
    network.dump()
    network.write_golden("op/1", network.values["op/1"][:, :2])
    assert network.compare("--allow-missing").returncode == 3
    row = network.rows()["op/1_fused:output:0"]
    assert (
        row["verdict"] == "not_compared"
        and "[2, 2, 4, 5]" in row["reason"]
        and "[2, 1, 4, 5, 16]" in row["reason"]
    )


def test_nan_in_the_golden_data_fails(network) -> None:
    network.dump()
    spoilt = network.values["op/1"].copy()
    spoilt[0, 0, 0, 0] = np.nan
    network.write_golden("op/1", spoilt)
    assert network.compare().returncode == 1
    row = network.rows()["op/1_fused:output:0"]
    assert row["verdict"] == "fail" and row["nan"] == {"target": 0, "golden": 1}
    assert (
        row["metrics"]["CosineSimilarity"] == "NaN" and row["metrics"]["MeanRelativeError"] == "NaN"
    )


def test_tables_have_the_columns_that_options_ask_for(network) -> None:
    network.dump()
    done = network.compare(
        "--metrics",
        "RootMeanSquareError,cosinesimilarity",
        "--overflow",
        "--mapping",
        "--select",
        "3,5-6",
    )
    assert done.returncode == 0, done.stderr
    table = read_csv(network.out)
    assert table[0] == (
        "Index,OpSequence,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,OverFlow,"
        "RootMeanSquareError,CosineSimilarity,CompareFailReason"
    ).split(",")
    assert {row[1] for row in table[1:]} == {"3", "5", "6"}
    assert {row[10] for row in table[1:] if row[10] != "NaN"} == {"NO"}
    mapping = read_csv(network.out, "mapping_*.csv")
    assert mapping[
        0
    ] == "Index,OpType,NPUDump,GroundTruth,TensorIndex,NPUDumpPath,GroundTruthPath".split(",")
    assert len(mapping) == len(table)


def test_a_range_of_ops_includes_its_end(network) -> None:
    network.dump()
    assert network.compare("--range", "1,6,2").returncode == 0
    assert {row["op_sequence"] for row in network.result()["rows"]} == {1, 3, 5, 6}
    assert network.compare("--range", "2,-1,500", "--force").returncode == 0
    with open(network.model_path) as stream:
        ids = [op.get("id", 0) for op in json.load(stream)["graph"][0]["op"]]
    assert {row["op_sequence"] for row in network.result()["rows"]} == {2, max(ids)}


@pytest.mark.parametrize(
    "options",
    [
        ["--range", "5,2"],
        ["--range", "1"],
        ["--range", "1,5,0"],
        ["--range", "1,500"],
        ["--range", "500,-1"],
        ["--range", "-1,5"],
        ["--select", "7-3"],
        ["--select", "x"],
        ["--select", "1", "--range", "1,2"],
        ["--metrics", "Cosine,NoSuch"],
        ["--limit", "CosineSimilarity"],
        ["--limit", "NoSuch=1"],
        ["--jobs", "0"],
    ],
)
def test_wrong_options_exit_with_2(network, options) -> None:
    network.dump()
    done = network.compare(*options)
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stdout == ""


def test_a_limit_replaces_only_the_default_of_its_metric(network) -> None:
    network.dump()
    done = network.compare("--limit", "MaxAbsoluteError=1e-9")
    assert done.returncode == 1
    limits = network.result()["limits"]
    assert limits["MaxAbsoluteError"] == {"<": 1e-9} and limits["CosineSimilarity"] == {">": 0.99}


def test_json_output_equals_result_json(network) -> None:
    network.dump()
    done = network.compare("--format", "json")
    assert json.loads(done.stdout) == network.result()


def test_a_repeated_run_continues_and_one_with_other_options_is_refused(network) -> None:
    network.dump()
    assert network.compare().returncode == 0
    connection = sqlite3.connect(os.path.join(network.out, "run.sqlite"))
    before = connection.execute(
        "SELECT id, key FROM row WHERE verdict = 'pass' ORDER BY id"
    ).fetchall()
    connection.close()
    assert network.compare("--allow-missing").returncode == 0
    connection = sqlite3.connect(os.path.join(network.out, "run.sqlite"))
    assert (
        connection.execute("SELECT id, key FROM row WHERE verdict = 'pass' ORDER BY id").fetchall()
        == before
    )
    connection.close()
    done = network.compare("--overflow")
    assert done.returncode == 2 and "--force" in done.stderr
    assert network.compare("--overflow", "--force").returncode == 0


def test_changed_files_are_compared_again(network) -> None:
    network.dump()
    assert network.compare().returncode == 0
    network.write_golden("op/1", network.values["op/1"] + 5)
    assert network.compare().returncode == 1
    network.write_golden("op/1", network.values["op/1"])
    assert network.compare().returncode == 0


def test_each_device_and_step_is_compared(network) -> None:
    for device in (0, 1):
        for step in (9, 10):
            network.dump(device=device, step=step)
    network.dump(device=1, step=9, time="20250102030405")
    done = network.compare()
    assert done.returncode == 0, done.stderr
    names = sorted(
        os.path.basename(path).rsplit("_", 1)[0]
        for path in glob.glob(os.path.join(network.out, "*.csv"))
    )
    assert names == ["0_net_10_result", "0_net_9_result", "1_net_10_result", "1_net_9_result"]
    assert "20250102030405" in done.stderr
    assert {(row["device"], row["step"]) for row in network.result()["rows"]} == {
        ("0", "9"),
        ("0", "10"),
        ("1", "9"),
        ("1", "10"),
    }


@pytest.mark.parametrize("level", range(6))
def test_any_level_of_the_dump_tree_may_be_given_as_target(network, level) -> None:
    path = os.path.dirname(network.dump()[0])
    for _ in range(level):
        path = os.path.dirname(path)
    done = network.compare(target=path)
    assert done.returncode == 0, done.stderr
    assert "took" in done.stderr


def test_folders_without_anything_to_compare_exit_with_4(network, tmp_path) -> None:
    network.dump()
    empty = str(tmp_path / "empty")
    os.mkdir(empty)
    for replaced in (
        {"target": empty},
        {"golden": empty},
        {"target": network.model_path},
        {"model": empty},
        {"model": "none.json"},
    ):
        done = network.compare(**replaced)
        assert done.returncode == 4 and "Traceback" not in done.stderr, (replaced, done.stderr)


def test_a_run_without_any_match_names_the_nearest_golden_names(network) -> None:
    network.dump()
    for name in network.values:
        os.rename(network.golden_path(name), network.golden_path("x_" + name))
    done = network.compare()
    assert (
        done.returncode == 4
        and "nearest golden names" in done.stderr
        and "nearest golden names" in done.stdout.splitlines()[-2]
    )


def test_an_unresolved_hash_name_gives_a_row(network) -> None:
    paths = network.dump()
    os.rename(paths[0], os.path.join(os.path.dirname(paths[0]), "12345678901234567890"))
    assert network.compare().returncode == 3
    assert network.rows()["12345678901234567890"]["verdict"] == "not_compared"
    with open(os.path.join(os.path.dirname(paths[0]), "mapping.csv"), "w") as stream:
        stream.write("12345678901234567890,%s\n" % os.path.basename(paths[0]))
    assert network.compare().returncode == 0
    assert "12345678901234567890" not in network.rows()


def test_two_dumps_of_one_model_are_compared(network, tmp_path) -> None:
    network.dump()
    other = str(tmp_path / "other")
    network.model.write_tree(other)
    done = network.compare(golden=other, model="")
    assert done.returncode == 0, done.stdout
    rows = network.rows()
    assert (
        rows["op_1_fused:output:0"]["shape"] == [2, 3, 4, 5]
        and rows["op_1_fused:output:0"]["op_sequence"] is None
    )
    assert rows["fc:output:0"]["metrics"]["MaxAbsoluteError"] == 0
    assert ",".join(read_csv(network.out)[0]).startswith(
        "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,Address,TensorIndex"
    )


def test_control_characters_in_names_never_reach_terminal_or_table(network) -> None:
    folder = os.path.dirname(network.dump()[0])
    for name in (
        "Add.=cmd()\x1b[31m.1.2.1767323045000099",
        "Add.evil\nname.1.2.1767323045000098",
        "+Add.@x.1.2.1767323045000097",
    ):
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(b"\x00" * 10)
    done = network.compare()
    assert done.returncode == 3 and "\x1b" not in done.stdout + done.stderr
    cells = [cell for row in read_csv(network.out) for cell in row]
    assert not [cell for cell in cells if cell[:1] in "=+@" and cell] and not [
        cell for cell in cells if "\n" in cell or "\x1b" in cell
    ]
    assert "=cmd()\x1b[31m" in network.rows()


def test_ctrl_c_leaves_a_usable_store(make_network, until) -> None:
    network = make_network(ops=60)
    network.dump()
    process = subprocess.Popen(
        network.command("--jobs", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    until(lambda: os.path.exists(os.path.join(network.out, "run.sqlite")))
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode in (130, 0), stderr
    if process.returncode == 130:
        assert "goes on" in stderr and "Traceback" not in stderr
    assert network.compare("--jobs", "2").returncode == 0


def test_one_job_and_three_give_the_same_metrics(network) -> None:
    network.dump()
    assert network.compare("--jobs", "1").returncode == 0
    alone = network.rows()
    assert network.compare("--jobs", "3", "--force", "--overflow").returncode == 0
    for tensor, row in network.rows().items():
        assert row["metrics"] == alone[tensor]["metrics"]


def test_a_changed_model_file_is_paired_again(network) -> None:
    network.dump()
    assert network.compare().returncode == 0
    with open(network.model_path, encoding="utf-8") as stream:
        text = stream.read()
    with open(network.model_path, "w", encoding="utf-8") as stream:
        stream.write(text.replace('"s": "op/2"', '"s": "op/1"'))
    assert network.compare().returncode == 1
    assert network.rows()["op/2_fused:output:0"]["golden_file"].startswith("op_1.")


@pytest.mark.parametrize("columns", [80, 100])
def test_output_fits_the_terminal(make_network, on_terminal, columns) -> None:
    network = make_network(broken=True)
    network.dump()
    os.unlink(network.golden_path("op/0"))
    typed = ("--limit", "op=no_such_operator:CosineSimilarity>0.9")
    plain = network.compare(*typed).stdout.splitlines()
    text, code = on_terminal(network.command(*typed, "--force"), columns)
    lines = text.splitlines()
    assert code == 1 and max(map(len, lines)) <= columns < max(map(len, plain))
    (sentence,) = (line for line in plain if "is the first operator outside its limits" in line)
    assert sentence in " ".join(lines)
    assert "warning: the limit for op=no_such_operator decided nothing" in " ".join(
        line.strip() for line in lines
    )
    assert any(line.startswith("note: took") for line in lines)


def test_discarded_results_lose_their_tables(network) -> None:
    network.dump()
    assert network.compare("--mapping").returncode == 0
    before = sorted(name for name in os.listdir(network.out) if name.endswith(".csv"))
    assert [name.split("_")[0] for name in before] == ["mapping", "result"]
    with open(os.path.join(network.out, "result_of_mine.csv"), "w"):
        pass
    assert network.compare("--overflow", "--force").returncode == 0
    now = [
        name
        for name in os.listdir(network.out)
        if name.endswith(".csv") and name != "result_of_mine.csv"
    ]
    assert [name.split("_")[0] for name in now] == ["result"] and len(now) == 1
    assert os.path.exists(os.path.join(network.out, "result_of_mine.csv"))
