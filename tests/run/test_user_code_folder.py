"""``--custom``: a user's metrics and conversions, through the commands."""

from __future__ import annotations

import csv
import glob
import json
import os
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import goldwatch
from goldwatch.base import user_code as usercode
from goldwatch.cli.compare import compare
from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.metrics.pair_alignment import open_counterpart
from goldwatch.metrics.pair_task import PairTask
from goldwatch.metrics.row import PASS, Row
from goldwatch.metrics.user_metrics import both_sides
from goldwatch.schemas import load_schema
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.tensor import Tensor

BIAS = """
import numpy as np
def compare(my_output, ground_truth, args):
    assert my_output.ndim == ground_truth.ndim == 1 and my_output.dtype == np.float32
    print("noise on stdout", flush=True)
    return str(float(np.mean(my_output.astype(float) - ground_truth)) * float(getattr(args, "times", 1))), ""
"""  # noqa: E501


@pytest.fixture
def custom(tmp_path):
    """Writes files of the user's own; returns their folder."""

    def write(**metrics):
        for name, text in metrics.items():
            folder = "algorithm" if name.startswith("alg_") else "format_convert"
            path = tmp_path / "mine" / folder / (name + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path / "mine")

    return write


def table(out):
    (path,) = glob.glob(os.path.join(out, "result_*.csv"))
    with open(path, newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    column = header.index("TensorIndex")
    return header, {row[column]: row for row in rows}


def body(text):
    return "def compare(my_output, ground_truth, args):\n    %s\n" % text


def test_a_users_metric_is_a_column_with_a_limit_and_kept_on_continuing(network, custom) -> None:
    network.dump()
    mine = custom(alg_Bias=BIAS)
    limits = ("--limit", "Bias<100", "--limit", "op=op/1_fused:Bias<-5")
    words = ("--custom", mine, "--metric-args", "Bias:times=1000", *limits, "--format", "json")
    done = network.compare(*words, "--jobs", "2")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, load_schema("result"))
    jsonschema.validate(document["limits"], load_schema("limits"))
    rows = network.rows()
    row = rows["op/2_fused:output:0"]
    x, y = (
        network.model.output("op/2_fused").array.astype(np.float64),
        network.values["op/2"].astype(np.float64),
    )
    assert row["metrics"]["Bias"] == pytest.approx(1000 * (x - y).mean(), rel=1e-5, abs=1e-9)
    assert {tensor for tensor, row in rows.items() if row["verdict"] == "fail"} == {
        "op/1_fused:input:0",
        "op/1_fused:output:0",
    }
    assert document["summary"]["first_divergence"]["metric"] == "Bias"
    assert rows["op/1_fused:output:0"]["decided_by"] == "op=op/1_fused:Bias<-5"
    header, cells = table(network.out)
    assert header[-3:] == ["MeanRelativeError", "Bias", "CompareFailReason"]
    assert float(cells["op/2_fused:output:0"][-2]) == pytest.approx(
        row["metrics"]["Bias"], abs=1e-6
    )
    assert cells["NaN"][-2] == "NaN"
    # One process, and a second start of the same run: the same rows.
    again = network.compare(*words, "--jobs", "1")
    assert again.returncode == 1 and json.loads(again.stdout)["rows"] == document["rows"]
    alone = network.compare(*words, "--jobs", "1", out=network.out + "2")
    assert [row["metrics"] for row in json.loads(alone.stdout)["rows"]] == [
        row["metrics"] for row in document["rows"]
    ]
    custom(alg_Bias=body("return 3, ''"))
    changed = network.compare(*words)
    assert {
        row["metrics"]["Bias"] for row in json.loads(changed.stdout)["rows"] if row["golden_file"]
    } == {3.0}
    opened = goldwatch.open_result(network.out)
    assert opened.options.metrics[-1] == "Bias" and opened.summary.failed == 2


TROUBLES = {
    "alg_Raises": (body("raise KeyError('gone')"), "KeyError: 'gone' (line 2)"),
    "alg_Exits": (body("raise SystemExit(0)"), "SystemExit: 0 (line 2)"),
    "alg_Crashes": (
        body("__import__('os').kill(__import__('os').getpid(), 11)"),
        "ended its process (signal 11)",
    ),
    "alg_Lone": (body("return 1.5"), "it returned float, expected (value, message)"),
    "alg_Odd": (
        body("return [1], 'said'"),
        "it returned the value list of 1, expected a text or a number; said",
    ),
    "alg_Silent": (
        body("return 1, type('Mute', (), {'__str__': lambda self: 1 / 0})()"),
        "failed: ZeroDivisionError",
    ),
    "alg_Long": (body("return 10**400, ''"), "OverflowError: int too large to convert to float"),
    "alg_Nothing": ("x = 1\n", "has no attribute 'compare'"),
    "alg_Broken": ("def compare(:\n", "SyntaxError"),
}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_slow_metric_of_the_users_does_not_hide_the_progress(network, custom, jobs) -> None:
    network.dump()
    seen = []
    goldwatch.compare(
        network.target,
        network.golden,
        model=network.model_path,
        out=network.out,
        custom=custom(alg_Bias=BIAS),
        jobs=jobs,
        progress=lambda done, total: seen.append(done),
    )
    # Pairs of one golden tensor are compared together, no others.
    assert len(set(seen)) >= 4 and seen[-1] == 12, seen


def test_a_failing_users_metric_is_reported_and_changes_nothing_else(network, custom) -> None:
    network.dump()
    plain = network.compare("--jobs", "2")
    before = network.rows()
    mine = custom(alg_Bias=BIAS, **{name: text for name, (text, _) in TROUBLES.items()})
    done = network.compare("--custom", mine, "--jobs", "2", out=network.out + "2")
    assert plain.returncode == done.returncode == 0 and "noise" not in done.stdout + done.stderr
    network.out += "2"
    for tensor, row in network.rows().items():
        assert row["verdict"] == before[tensor]["verdict"]
        if row["verdict"] != "pass":
            continue
        assert {name: row["metrics"][name] for name in before[tensor]["metrics"]} == before[tensor][
            "metrics"
        ]
        assert isinstance(row["metrics"]["Bias"], float)
        for name, (_, reason) in TROUBLES.items():
            assert row["metrics"][name[4:]] == "NaN" and reason in row["reason"], (
                name,
                row["reason"],
            )


def test_a_users_metric_that_does_not_end_is_stopped(network, custom, monkeypatch) -> None:
    network.dump()
    monkeypatch.setattr(usercode, "TIMEOUT_S", 0.2)
    mine = custom(alg_Slow=body("__import__('threading').Event().wait()"))
    words = [
        network.target,
        network.golden,
        "-o",
        network.out,
        "--select",
        "4",
        "-f",
        network.model_path,
        "--jobs",
        "1",
        "--custom",
        mine,
    ]
    done = CliRunner().invoke(compare, words, standalone_mode=False)
    assert done.return_value == 0, done.output
    rows = [row for row in network.rows().values() if row["verdict"] == "pass"]
    assert rows and all(
        "did not end within 0.2 s" in row["reason"] and row["metrics"]["Slow"] == "NaN"
        for row in rows
    )
    assert all(row["metrics"]["CosineSimilarity"] > 0.99 for row in rows)


def test_text_returned_by_a_users_metric_meets_no_limit(network, custom) -> None:
    network.dump()
    mine = custom(alg_Word=body("return '=fine', 'it is'"))
    assert network.compare("--custom", mine).returncode == 0
    row = network.rows()["fc:output:0"]
    assert row["metrics"]["Word"] == "=fine" and "Word: it is" in row["reason"]
    assert table(network.out)[1]["fc:output:0"][-2] == "'=fine"
    assert network.compare("--custom", mine, "--limit", "Word<1", "--force").returncode == 1
    assert "Word is the text '=fine', limit < 1" in network.rows()["fc:output:0"]["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--metrics", "all,Bias,WorstSliceDistance"), 12),
        (("--metrics", "bias,CosineSimilarity"), 2),
        (("--metrics", "CosineSimilarity"), 1),
        (("--metrics", "Bia"), "did you mean Bias?"),
        (("--limit", "Bia<1"), "did you mean Bias?"),
        (("--limit", "Bias"), "the value is missing"),
        (("--metric-args", "Bias:times"), "is no option"),
        (("--metric-args", "Bia:times=1"), "did you mean Bias?"),
        (("--metric-args", "Bias:times=1;Bias:times=2"), "twice"),
    ],
)
def test_users_metrics_can_be_selected_as_columns(network, custom, words, said) -> None:
    network.dump()
    done = network.compare("--custom", custom(alg_Bias=BIAS), *words)
    if isinstance(said, int):
        assert done.returncode == 0, done.stderr
        header = table(network.out)[0]
        assert len(header) == 10 + said and ("Bias" in header) == (said > 1)
    else:
        assert done.returncode == 2 and said in done.stderr


def test_unusable_folders_of_users_code_are_refused(network, custom, tmp_path) -> None:
    network.dump()
    (tmp_path / "empty").mkdir()
    for folder, code, said in (
        ("none", 4, "does not exist"),
        ("empty", 2, "neither a metric nor a conversion"),
    ):
        done = network.compare("--custom", str(tmp_path / folder))
        assert done.returncode == code and said in done.stderr
    done = network.compare("--custom", custom(alg_cosineSimilarity=BIAS))
    assert done.returncode == 2 and "is called like CosineSimilarity" in done.stderr
    assert network.compare("--metric-args", "Bias:times=1").returncode == 2


def test_a_limits_file_may_name_users_metrics(network, custom, tmp_path) -> None:
    network.dump()
    mine = custom(alg_Bias=BIAS)
    path = tmp_path / "limits.json"
    path.write_text(
        '{"Bias": {"<": 1}, "rules": [{"type": "MatMul", "Bias": {"<": -1}}, {"dtype": '
        '"float16", "Bias": {"<": 2}}]}'
    )
    assert network.compare("--custom", mine, "--limits", str(path)).returncode == 1
    failed = {row["op"] for row in network.rows().values() if row["verdict"] == "fail"}
    assert failed == {"fc"}
    done = network.compare("--limits", str(path), "--force")
    assert done.returncode == 4 and "'Bias'" in done.stderr and "line 1" in done.stderr


def test_watch_and_compare_give_the_same_users_metrics(network, custom) -> None:
    network.dump()
    words = (
        "--custom",
        custom(alg_Bias=BIAS),
        "--limit",
        "type=MatMul:Bias<-1",
        "--format",
        "json",
    )
    batch = json.loads(network.compare(*words).stdout)
    command = network.command(*words, "--until-idle", "0.5", out=network.out + "2")
    command[command.index("compare")] = "watch"
    live = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert live.returncode == 1, live.stderr
    assert json.loads(live.stdout)["rows"] == batch["rows"]


def test_users_metrics_work_for_two_files_and_from_python(network, custom, tmp_path) -> None:
    network.dump()
    mine = custom(alg_Bias=BIAS)
    result = goldwatch.compare(
        network.target, network.golden, model=network.model_path, out=network.out, custom=mine,
        metric_args={"Bias": {"times": "0"}},
        limits=["Bias<1"], jobs=1,
    )  # fmt: skip
    assert result.exit_code == 0
    assert {row.metrics["Bias"] for row in result.rows("pass")} == {0.0}
    data = network.golden_path("data")
    words = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare",
        data,
        data,
        "-o",
        str(tmp_path / "files"),
        "--custom",
        mine,
    ]
    assert subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE).returncode == 0
    (row,) = goldwatch.open_result(str(tmp_path / "files")).rows()
    assert row.metrics["Bias"] == 0.0


def test_a_huge_pair_has_users_metrics(network, custom, monkeypatch) -> None:
    network.dump()
    monkeypatch.setattr("goldwatch.metrics.compare_pair.SPLIT_BYTES", 100)
    monkeypatch.setattr("goldwatch.metrics.compare_pair._PART_BYTES", 50)
    monkeypatch.setattr("goldwatch.run.workers._AT_ONCE_BYTES", 0)
    result = goldwatch.compare(
        network.target,
        network.golden,
        model=network.model_path,
        custom=custom(alg_Bias=BIAS),
        jobs=2,
    )
    assert result.exit_code == 0 and all(
        isinstance(row.metrics["Bias"], float) for row in result.rows("pass")
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.int8, np.uint8, np.int32, np.int64, np.bool_]
)
def test_users_metrics_get_flat_arrays_in_the_goldens_order(tmp_path, dtype, order) -> None:
    golden = (np.arange(2 * 20 * 3 * 4).reshape(2, 20, 3, 4) % 100).astype(dtype)
    path = str(tmp_path / "a.0.1.npy")
    np.save(path, np.asarray(golden, order=order))
    target = Tensor.from_array(convert(golden, "NCHW", "NC1HWC0", golden.shape), "NC1HWC0")
    row = Row(index=0, op="a", op_type="Relu", tensor="a:output:0", kind="output", verdict=PASS)
    task = PairTask(row, target, GoldenEntry(path, path, "a", 0, 1, "npy"), "NCHW", golden.shape)
    x, y, shape = both_sides(task, open_counterpart(task)[0])
    assert (
        tuple(shape) == golden.shape
        and x.dtype == y.dtype
        and x.dtype.kind in ("i" if dtype == np.int64 else "f")
    )
    assert x.tolist() == y.tolist() == golden.astype(x.dtype).reshape(-1).tolist()


SWAP = """
import numpy as np
def convert(shape_from, shape_to, array):
    n, c1, h, w, c0 = shape_from
    return array.reshape(shape_from).transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[:, : shape_to[1]][:, ::-1]
"""  # noqa: E501


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_users_conversion_is_preferred_to_the_built_in_one(make_network, custom, jobs) -> None:
    """The broken op's channels are the wrong way round, and the user's conversion turns them."""
    network = make_network(broken=True)
    network.dump()
    assert network.compare("--jobs", jobs).returncode == 1
    before = network.rows()
    mine = custom(convert_NC1HWC0_to_NCHW=SWAP)
    assert network.compare("--custom", mine, "--jobs", jobs, "--force").returncode == 1
    rows = network.rows()
    assert (
        before["op/1_fused:output:0"]["verdict"] == "fail"
        and rows["op/1_fused:output:0"]["verdict"] == "pass"
    )
    assert (
        before["op/0_fused:output:0"]["verdict"] == "pass"
        and rows["op/0_fused:output:0"]["verdict"] == "fail"
    )
    # FRACTAL_NZ has none of the user's: as before.
    assert rows["fc:output:0"]["metrics"] == before["fc:output:0"]["metrics"]


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("array[:7]", "returned 7 elements, expected the shape [2, 3, 4, 5]"),
        ("None", "it returned NoneType, expected an array"),
        ("type('Odd', (), {'__array__': lambda *_: 1 / 0})()", "failed: ZeroDivisionError"),
    ],
)
def test_a_failing_users_conversion_is_the_reason_of_its_row(
    network, custom, returned, reason
) -> None:
    network.dump()
    mine = custom(
        convert_NC1HWC0_to_NCHW="def convert(shape_from, shape_to, array):\n    return %s\n"
        % returned
    )
    assert network.compare("--custom", mine).returncode == 3
    rows = network.rows()
    assert reason in rows["op/1_fused:output:0"]["reason"]
    assert rows["fc:output:0"]["verdict"] == "pass"
