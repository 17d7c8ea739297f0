from __future__ import annotations

import math
import random

import pytest

from goldwatch.judging.diagnosis.culprit_sentence import culprit_sentence
from goldwatch.judging.diagnosis.first_divergence import first_divergence
from goldwatch.judging.diagnosis.row_digest import execution_key
from goldwatch.judging.diagnosis.summary import exit_code, summarise
from goldwatch.judging.limits import Limits
from goldwatch.metrics.row import Row
from goldwatch.model.graph import ModelGraph
from goldwatch.model.op_node import OpNode

GOOD = {
    "CosineSimilarity": 1.0,
    "RelativeEuclideanDistance": 0.0,
    "WorstSliceDistance": 0.0,
    "KullbackLeiblerDivergence": 0.0,
    "RootMeanSquareError": 0.0,
    "MeanRelativeError": 0.0,
}


def make(op, kind="output", verdict="pass", number=0, sequence=None, **fields):
    metrics = (
        dict(GOOD, CosineSimilarity=0.5) if verdict == "fail" else GOOD if verdict == "pass" else {}
    )
    if kind == "op":
        values = {"tensor": op, "tensor_index": None}
    else:
        values = {"tensor": "%s:%s:%d" % (op, kind, number), "tensor_index": number}
    values.update(
        index=sequence or 0,
        op=op,
        op_type="Conv2D",
        kind=kind,
        verdict=verdict,
        op_sequence=sequence,
        metrics=metrics,
    )
    values.update(target_file="Conv2D.%s.1.1" % op)
    values.update(fields)
    return Row(**values)


def test_no_failing_row_means_no_divergence():
    assert first_divergence([make("a")], Limits()) is None
    assert culprit_sentence(None) == "No operator is outside its limits."


def test_the_first_divergence_is_the_first_in_execution_order():
    rows = [
        make("late", verdict="fail", sequence=9),
        make("early", verdict="fail", sequence=2),
        make("ok", sequence=1),
    ]
    first = first_divergence(iter(rows), Limits())
    assert (first.op, first.tensor) == ("early", "early:output:0")
    assert (first.metric, first.value, first.limit.value) == ("CosineSimilarity", 0.5, 0.99)


def test_graphs_are_ordered_before_ids_and_equal_ids_as_in_the_json():
    rows = [
        make("sub", verdict="fail", sequence=1, graph_index=1),
        make("main", verdict="fail", sequence=8, graph_index=0),
    ]
    assert first_divergence(rows, Limits()).op == "main"
    same = [
        make("b", verdict="fail", sequence=0, index=4),
        make("a", verdict="fail", sequence=0, index=3),
    ]
    assert first_divergence(same, Limits()).op == "a"


def test_without_an_om_json_timestamps_order_the_rows():
    rows = [
        make("x", verdict="fail", index=0, timestamp_us=20),
        make("y", verdict="fail", index=1, timestamp_us=10),
    ]
    assert first_divergence(rows, Limits()).op == "y"


def test_steps_are_ordered_numerically():
    rows = [
        make("a", verdict="fail", sequence=1, step="10"),
        make("b", verdict="fail", sequence=5, step="9"),
    ]
    assert first_divergence(rows, Limits()).op == "b"
    random.shuffle(rows)
    assert [row.step for row in sorted(rows, key=execution_key)] == ["9", "10"]


def test_input_rows_of_the_op_decide_whether_its_error_is_inherited():
    out = make("c", verdict="fail", sequence=3)
    good = first_divergence(
        [out, make("c", "input", sequence=3), make("c", "input", number=1, sequence=3)], Limits()
    )
    assert good.inputs == "good" and good.tensor == "c:output:0"
    assert culprit_sentence(good) == (
        "c (Conv2D) is the first operator outside its limits: c:output:0 has CosineSimilarity "
        "0.500000, limit > 0.99; "
        "its inputs are within their limits; whose error it is is not known, as the operator was "
        "not computed again (that was not asked for, is done when the run ends, or takes the "
        "original model)."
    )
    bad = first_divergence(
        [make("c", "input", "fail", 1, sequence=3), make("c", "input", sequence=3), out], Limits()
    )
    assert (bad.inputs, bad.tensor, bad.bad_input) == ("bad", "c:output:0", "c:input:1")
    said = culprit_sentence(bad)
    assert "c:input:1 was already outside its limits; whose error it is is not known" in said
    assert "inherited" not in said


def test_an_operator_of_which_only_an_input_fails_is_the_first_divergence():
    first = first_divergence(
        [make("c", sequence=3), make("c", "input", "fail", sequence=3)], Limits()
    )
    assert (first.tensor, first.inputs) == ("c:input:0", "bad")
    assert "inherited" in culprit_sentence(first)


def test_inputs_of_another_step_or_execution_are_ignored():
    out = make("c", verdict="fail", sequence=3, step="1")
    other_step = make("c", "input", "fail", sequence=3, step="2")
    other_file = make("c", "input", "pass", sequence=3, step="1", target_file="Conv2D.c.2.2")
    assert first_divergence([out, other_step, other_file], Limits()).inputs == "unknown"


def graph(consts=()):
    """a and b feed c: outputs a:0 and b:1; ops named in ``consts`` are constants."""
    nodes = [
        OpNode(name, "Const" if name in consts else "Conv2D", number, 0, number)
        for number, name in enumerate("ab")
    ]
    nodes.append(OpNode("c", "Conv2D", 3, 0, 2, (("a", 0), ("b", 1))))
    return ModelGraph("net", ["net"], nodes)


@pytest.mark.parametrize(
    "rows, inputs",
    [
        ([], "unknown"),
        ([make("a", sequence=1)], "unknown"),
        ([make("a", sequence=1), make("b", number=1, sequence=2)], "good"),
        ([make("a", sequence=1), make("b", number=0, sequence=2)], "unknown"),
        ([make("a", sequence=1), make("b", "op", "expected_absent", sequence=2)], "unknown"),
        (
            [make("a", sequence=1), make("b", number=1, verdict="expected_absent", sequence=2)],
            "unknown",
        ),
        (
            [
                make("a", "op", "expected_absent", sequence=1),
                make("b", "op", "expected_absent", sequence=2),
            ],
            "unknown",
        ),
        ([make("a", sequence=1), make("b", "op", "not_compared", sequence=2)], "unknown"),
        ([make("a", sequence=1), make("b", number=1, verdict="fail", sequence=7)], "bad"),
        (
            [make("a", sequence=1), make("b", number=1, verdict="not_compared", sequence=2)],
            "unknown",
        ),
    ],
)
@pytest.mark.parametrize("undumped", [True, False])
def test_inputs_that_were_not_compared_are_judged_by_their_producers(rows, inputs, undumped):
    own = (
        []
        if undumped
        else [
            make("c", "input", "not_compared", sequence=3),
            make("c", "input", "expected_absent", 1, sequence=3),
        ]
    )
    rows = [make("c", verdict="fail", sequence=3), *own, *rows]
    assert first_divergence(rows, Limits(), graph()).inputs == inputs
    assert first_divergence(rows, Limits()).inputs == "unknown"


def test_the_sentence_names_the_input_that_was_not_compared():
    rows = [
        make("c", verdict="fail", sequence=3),
        make("c", "input", sequence=3),
        make("c", "input", "expected_absent", 1, sequence=3),
    ]
    first = first_divergence(rows, Limits(), graph())
    assert (first.inputs, first.unknown_input) == ("unknown", "c:input:1")
    assert culprit_sentence(first).endswith(
        "; c:input:1 was not compared; whose error it is is not known, as the operator was not "
        "computed again (that was not asked for, is done when the run ends, or takes the original "
        "model)."
    )


def test_constant_inputs_count_only_if_they_were_compared():
    rows = [
        make("c", verdict="fail", sequence=3),
        make("c", "input", sequence=3),
        make("c", "input", "expected_absent", 1, sequence=3),
    ]
    assert first_divergence(rows, Limits(), graph(consts="b")).inputs == "good"
    rows[2] = make("c", "input", "fail", 1, sequence=3)
    assert first_divergence(rows, Limits(), graph(consts="b")).inputs == "bad"


def test_an_input_overwritten_by_the_output_is_judged_by_its_producer():
    out = make("c", verdict="fail", sequence=3, address=4096)
    rows = [
        out,
        make("c", "input", "fail", sequence=3, address=4096),
        make("a", sequence=1),
        make("b", number=1, sequence=2),
    ]
    assert first_divergence(rows, Limits(), graph()).inputs == "good"
    rows[2] = make("a", verdict="fail", sequence=4)
    assert first_divergence(rows, Limits(), graph()).bad_input == "a:output:0"
    assert first_divergence([out, rows[1]], Limits()).inputs == "unknown"
    # An address of 0 is none.
    rows[:2] = [
        make("c", verdict="fail", sequence=3, address=0),
        make("c", "input", "fail", sequence=3, address=0),
    ]
    assert first_divergence(rows[:2], Limits(), graph()).inputs == "bad"


def test_rows_are_ordered_by_step_then_device_then_time():
    places = [("9", "0", "2"), ("9", "0", "1"), ("9", "10", "1"), ("9", "2", "1"), ("10", "0", "0")]
    rows = [
        make("a", verdict="fail", sequence=1, step=step, device=device, time=time)
        for step, device, time in places
    ]
    first = first_divergence(rows, Limits())
    assert (first.place.step, first.place.device, first.place.time) == ("9", "0", "1")
    ordered = [(row.step, row.device, row.time) for row in sorted(rows, key=execution_key)]
    assert ordered == [
        ("9", "0", "1"),
        ("9", "0", "2"),
        ("9", "2", "1"),
        ("9", "10", "1"),
        ("10", "0", "0"),
    ]
    assert {name: first.document()[name] for name in ("device", "step", "time")} == {
        "device": "0",
        "step": "9",
        "time": "1",
    }


def test_failing_rows_with_nan_or_without_metrics_are_described():
    nan = make(
        "c",
        verdict="fail",
        sequence=3,
        metrics={name: math.nan for name in GOOD},
        reason="NaN at 3 positions of the target only",
    )
    first = first_divergence([nan], Limits())
    assert first.metric == "CosineSimilarity" and math.isnan(first.value)
    assert "NaN at 3 positions" in culprit_sentence(first)
    odd = make("c", verdict="fail", sequence=3, metrics=GOOD, reason="why")
    first = first_divergence([odd], Limits())
    place = dict.fromkeys(["time", "device", "model", "model_id", "step"])
    assert first.document() == {
        "op": "c", "tensor": "c:output:0", "metric": None, "value": None, "limit": None,
        "inputs": "unknown", **place,
    }  # fmt: skip
    assert "failed (why)" in culprit_sentence(first)


def test_the_summary_counts_rows_and_gives_the_exit_code():
    rows = [make("a", sequence=1), make("b", "op", "expected_absent", sequence=2)]
    summary = summarise(rows, 5, Limits())
    assert (summary.verdict, exit_code(summary)) == ("pass", 0)
    assert summary.document() == {
        "verdict": "pass",
        "ops": 5,
        "rows": 2,
        "passed": 1,
        "failed": 0,
        "not_compared": 0,
        "expected_absent": 1,
        "program": None,
        "first_divergence": None,
        "suspects": [],
        "warnings": [],
        "models": [
            {
                "model": None, "rows": 2, "passed": 1, "failed": 0, "not_compared": 0,
                "expected_absent": 1, "first_divergence": None,
                "devices": [], "devices_agree": None, "first_difference": None,
            }
        ],
        "devices_agree": None,
        "steps_without_golden": [],
    }  # fmt: skip
    summary = summarise(
        [
            *rows,
            make("c", verdict="fail", sequence=3),
            make("d", verdict="not_compared", sequence=4),
        ],
        5,
        Limits(),
    )
    assert (
        summary.verdict,
        summary.failed,
        summary.not_compared,
        exit_code(summary),
        summary.first.op,
    ) == ("fail", 1, 1, 1, "c")


@pytest.mark.parametrize(
    "causes, code, forgiven",
    [
        ([], 0, 0),
        (["golden_missing"], 3, 0),
        (["dump_missing", "golden_missing"], 3, 0),
        (["corrupt"], 3, 3),
        (["shape", "golden_missing"], 3, 3),
        ([""], 3, 3),
    ],
)
def test_allow_missing_accepts_missing_files_only(causes, code, forgiven):
    rows = [make("a")] + [
        make("n%d" % i, verdict="not_compared", cause=cause) for i, cause in enumerate(causes)
    ]
    assert exit_code(summarise(iter(rows), 1, Limits())) == code
    summary = summarise(rows, 1, Limits(), allow_missing=True)
    assert exit_code(summary) == forgiven
    assert (summary.verdict == "pass") == (forgiven == 0)
    assert summary.not_compared == len(causes)


def test_a_run_without_rows_does_not_pass():
    assert summarise([], 0, Limits()).verdict == "incomplete"


@pytest.mark.parametrize(
    "program, code",
    [
        ({"exit_code": 0, "signal": None}, 1),
        ({"exit_code": 7, "signal": None}, 5),
        ({"exit_code": None, "signal": "SIGKILL"}, 5),
        ({"exit_code": None, "signal": "SIGTERM", "stopped": True}, 1),
    ],
)
def test_a_failed_program_comes_before_the_verdict(program, code):
    summary = summarise([make("a", verdict="fail")], 1, Limits(), program=program)
    assert exit_code(summary) == code
    assert summary.document()["program"] == program
