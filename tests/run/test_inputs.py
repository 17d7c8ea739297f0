"""Unusual inputs of a comparison, from the folders to the rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from goldwatch.dumps import TensorData, write_dump
from goldwatch.dumps import folder_listing as listing_module
from goldwatch.metrics import compare_pair as pair_module

TS = 1767323045000000
VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1


def test_equal_tensors_keep_their_golden_addresses(case) -> None:
    case.op("a", "Relu")
    case.op("b", "Abs", "a:0")
    case.dump("target", "", "Relu", "a", (), [VALUES])
    case.dump("target", "", "Abs", "b", [VALUES], [VALUES * 2])
    os.makedirs(case.golden)
    for name, values, address in (("a", VALUES, 77), ("b", VALUES * 2, 88)):
        write_dump(
            os.path.join(case.golden, "%s.0.%d.pb" % (name, TS)),
            [],
            [TensorData(values, format="RESERVED", address=address)],
        )
    outcome = case.compare()
    assert outcome.exit_code == 0
    with open(outcome.files[0], encoding="utf-8") as stream:
        table = [line.split(",") for line in stream]
    assert table[0][6:8] == ["DataType", "Address"]
    assert [(line[8], line[7]) for line in table[1:]] == [
        ("a:output:0", "77"),
        ("b:input:0", "77"),
        ("b:output:0", "88"),
    ]


def test_two_dumps_are_compared_step_by_step_and_device_by_device(case) -> None:
    places = [(device, step) for device in (0, 1) for step in (9, 10)]
    for side, time in (("target", "20260102030405"), ("golden", "20250102030405")):
        for device, step in places:
            place = "%s/%d/ge_default_%s_1/1/%d" % (time, device, time, step)
            case.dump(side, place, "Relu", "a", [], [VALUES + 100 * device + step])
            if (side, device, step) == ("golden", 1, 10):
                case.dump(side, place, "Relu", "only_here", [], [VALUES])
    outcome = case.compare()
    rows = case.rows()
    passed = [(row["device"], row["step"]) for row in rows if row["verdict"] == "pass"]
    assert passed == [("0", "9"), ("0", "10"), ("1", "9"), ("1", "10")]
    assert [
        (row["device"], row["step"], row["op"]) for row in rows if row["verdict"] != "pass"
    ] == [("1", "10", "only_here")]
    assert outcome.exit_code == 3 and any(
        "several devices, models or steps" in note for note in case.notes
    )


def test_an_input_equal_to_its_producers_output_is_compared_once(case, monkeypatch) -> None:
    compared = []
    compare_pair = pair_module.compare_pair
    monkeypatch.setattr(
        pair_module,
        "compare_pair",
        lambda task, settings: compared.append(task.row.tensor) or compare_pair(task, settings),
    )
    other = VALUES.copy()
    other[0, 0, 0] += 1e-3
    for side, change, base in (("target", 1e-4, 0), ("golden", 0.0, 1000)):
        a, b = (
            TensorData(VALUES + add + change, address=base + number)
            for add, number in ((0, 1), (5, 2))
        )
        # d reads what looks like a's output and is not: on one side only.
        c = TensorData(other if side == "target" else VALUES, address=base + 3)
        case.dump(side, "0", "Conv2D", "a", (), [a])
        case.dump(side, "0", "Conv2D", "b", [TensorData(a.data, address=base + 11)], [b])
        case.dump(side, "0", "Conv2D", "d", [c, TensorData(b.data, address=base + 12)], [])
    assert case.compare().exit_code == 0
    assert sorted(compared) == ["a:output:0", "b:output:0", "d:input:0"]
    rows = {row["tensor"]: row for row in case.rows()}
    for mine, producer in (("b:input:0", "a:output:0"), ("d:input:1", "b:output:0")):
        assert rows[mine]["metrics"] == rows[producer]["metrics"]
        assert rows[mine]["golden_file"] != rows[producer]["golden_file"]
    with open(
        os.path.join(
            case.out, next(name for name in os.listdir(case.out) if name.endswith(".csv"))
        ),
        encoding="utf-8",
    ) as stream:
        table = [line.split(",") for line in stream]
    column = [number for number, name in enumerate(table[0]) if name == "Address"][1]
    found = {line[table[0].index("TensorIndex")]: line[column] for line in table[1:]}
    assert found == {
        "a:output:0": "1001",
        "b:input:0": "1011",
        "b:output:0": "1002",
        "d:input:0": "1003",
        "d:input:1": "1012",
    }


def test_a_step_missing_in_golden_is_not_compared_with_another_step(case) -> None:
    for side, steps in (("target", (0, 1)), ("golden", (0, 2))):
        for step in steps:
            case.dump(side, "20260102030405/0/net/1/%d" % step, "Relu", "a", [], [VALUES])
    assert case.compare().exit_code == 3
    assert [(row["step"], row["verdict"]) for row in case.rows()] == [
        ("0", "pass"),
        ("1", "not_compared"),
    ]


def test_ops_whose_dump_names_are_equal_are_told_apart_by_type_or_not_compared(case) -> None:
    for name, op_type in (
        ("x/y", "Relu"),
        ("x_y", "Relu"),
        ("x.y", "Gelu"),
        ("p/q", "Abs"),
        ("p_q", "Exp"),
    ):
        case.op(name, op_type)
    case.dump("target", "", "Relu", "x_y", (), [VALUES])
    case.dump("target", "", "Gelu", "x_y", (), [VALUES])
    case.dump("target", "", "Abs", "p_q", (), [VALUES])
    case.npy("x_y")
    case.npy("p_q")
    assert case.compare().exit_code == 3
    rows = {(row["op_type"], row["tensor"]): row for row in case.rows()}
    assert rows[("Gelu", "x.y:output:0")]["verdict"] == "pass"
    assert "2 ops of the model file (x/y, x_y)" in rows[("Relu", "x_y:output:0")]["reason"]
    assert (
        rows[("Abs", "p/q:output:0")]["reason"]
        == "the golden name p_q stands for p/q, p_q: the file may be of another than p/q"
    )
    assert rows[("Exp", "p_q")]["reason"] == "no dump file"


def test_a_folder_that_cannot_be_listed_gives_a_row(case, monkeypatch) -> None:
    case.dump("target", "20260102030405/0/net/1/0", "Relu", "a", (), [VALUES])
    case.dump("target", "20260102030405/0/net/1/1", "Relu", "a", (), [VALUES])
    case.npy("a")
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("1" + os.sep + "1"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(listing_module.os, "scandir", refuse)
    assert case.compare(allow_missing=True).exit_code == 3
    good, lost = case.rows()
    assert (good["step"], good["verdict"], lost["step"], lost["verdict"]) == (
        "0",
        "pass",
        "1",
        "not_compared",
    )
    assert "cannot be listed: Permission denied" in lost["reason"]


def test_an_op_omitted_by_its_l1_fusion_group_is_not_missing(case) -> None:
    for name in "abc":
        case.op(name, "Conv2D", _L1_fusion_sub_graph_no="7")
        case.dump("target", "", "Conv2D", name, (), [VALUES])
        case.npy(name)
    assert case.compare().exit_code == 0
    assert [row["tensor"] for row in case.rows()] == ["a:output:0", "c:output:0"]
    assert [entry["tensor"] for entry in case.document()["omitted"]] == ["b"]


def test_a_file_that_changed_during_the_comparison_is_compared_at_the_next_start(
    case, monkeypatch
) -> None:
    values = np.random.default_rng(5).standard_normal((64, 640)).astype(np.float32)
    case.npy("a", values)
    path = case.dump("target", "", "Relu", "a", [], [values])
    measure = pair_module.measure

    def changed(*words):
        found = measure(*words)
        write_dump(path, [], [values + np.float32(1e-4)])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(pair_module, "measure", changed)
        assert case.compare().exit_code != 0
    (row,) = case.rows()
    assert (row["verdict"], row["cause"]) == ("not_compared", "changed") and path in row["reason"]
    assert case.compare().exit_code == 0
    (row,) = case.rows()
    assert row["verdict"] == "pass" and row["metrics"]["MaxAbsoluteError"] > 0
