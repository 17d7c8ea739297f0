from __future__ import annotations

import json
import math

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.compare.row import METRICS, Row
from goldwatch.errors import InputError, UsageError
from goldwatch.schemas import load_schema
from goldwatch.verdict import Limit, Limits, judge, not_applicable, number_text, parse_limits
from goldwatch.verdict.limits import LIMITED

GOOD = {
    "CosineSimilarity": 0.999,
    "RelativeEuclideanDistance": 0.01,
    "KullbackLeiblerDivergence": 0.001,
    "RootMeanSquareError": 0.1,
    "MeanRelativeError": 0.1,
}


def test_defaults_are_the_documented_thresholds():
    assert Limits().document() == {
        "CosineSimilarity": {">": 0.99},
        "RelativeEuclideanDistance": {"<": 0.05},
        "KullbackLeiblerDivergence": {"<": 0.005},
        "RootMeanSquareError": {"<": 1.0},
        "MeanRelativeError": {"<": 1.0},
    }


def test_a_limit_replaces_only_its_metrics_default():
    limits = parse_limits(["RootMeanSquareError=2", " MaxAbsoluteError < 1e-3 ", "CosineSimilarity=0.9", "CosineSimilarity<0.5"])
    assert limits.get("RootMeanSquareError") == Limit("RootMeanSquareError", "<", 2.0)
    assert limits.get("MaxAbsoluteError") == Limit("MaxAbsoluteError", "<", 1e-3)
    assert limits.get("CosineSimilarity") == Limit("CosineSimilarity", "<", 0.5)
    assert limits.get("KullbackLeiblerDivergence") == Limits().get("KullbackLeiblerDivergence")
    assert limits.get("MaxRelativeError") is None
    assert list(limits.metrics) == [name for name in METRICS if name in limits.metrics]


@pytest.mark.parametrize("metric", LIMITED)
def test_equals_means_the_natural_direction(metric):
    assert parse_limits([metric + "=0.5"]).get(metric).comparison == (">" if metric == "CosineSimilarity" else "<")


@pytest.mark.parametrize("text", ["CosineSimilarity", " MaxAbsoluteError "])
def test_a_bare_name_gets_the_hint_about_the_shell(text):
    with pytest.raises(UsageError) as caught:
        parse_limits([text])
    assert "quote" in caught.value.hint and text.strip() in caught.value.hint and caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text, words",
    [
        ("CosinSimilarity=0.9", "did you mean CosineSimilarity?"),
        ("cosinesimilarity>0.9", "did you mean CosineSimilarity?"),
        ("xyzzy=1", "metrics with limits"),
        ("StandardDeviation=1", "metrics with limits"),
        ("CosineSimilarity=abc", "METRIC=VALUE"),
        ("CosineSimilarity=", "METRIC=VALUE"),
        ("CosineSimilarity=nan", "METRIC=VALUE"),
        ("CosineSimilarity>=0.9", "METRIC=VALUE"),
        ("CosineSimilarity=1_0", "METRIC=VALUE"),
        ("", "METRIC=VALUE"),
        ("=0.9", "metrics with limits"),
    ],
)
def test_what_is_no_limit_is_a_usage_error_with_a_hint(text, words):
    with pytest.raises(UsageError) as caught:
        parse_limits([text])
    assert words in caught.value.hint
    assert "--limit" in caught.value.message


@given(st.text(max_size=40))
def test_any_text_is_a_limit_or_a_usage_error(text):
    try:
        parse_limits([text])
    except UsageError:
        pass


@given(st.sampled_from(LIMITED), st.sampled_from("<>="), st.floats(allow_nan=False))
def test_limits_survive_their_document_and_meet_the_schema(metric, sign, value):
    limits = parse_limits(["%s%s%r" % (metric, sign, value)])
    assert limits.get(metric).value == value
    document = json.loads(json.dumps(limits.document(), allow_nan=False))
    schema = load_schema("limits")
    for validator in (jsonschema.Draft7Validator, jsonschema.Draft202012Validator):
        validator.check_schema(schema)
        validator(schema).validate(document)
    assert Limits.from_document(document) == limits


@pytest.mark.parametrize(
    "document", [{"x": {">": 1}}, {"CosineSimilarity": 1}, {"CosineSimilarity": {"!": 1}}, {"CosineSimilarity": {">": "a"}}]
)
def test_a_foreign_document_is_refused(document):
    with pytest.raises(InputError):
        Limits.from_document(document)


def test_all_within_passes():
    judgement = judge(GOOD, Limits())
    assert judgement.passed and judgement.metric is None and judgement.text == ""


@pytest.mark.parametrize(
    "metric, value", [("CosineSimilarity", 0.99), ("RelativeEuclideanDistance", 0.05), ("RootMeanSquareError", math.inf)]
)
def test_a_value_at_or_beyond_its_limit_fails(metric, value):
    judgement = judge(dict(GOOD, **{metric: value}), Limits())
    assert (judgement.passed, judgement.metric, judgement.value) == (False, metric, value)
    assert metric in judgement.text and "%.9g" % judgement.limit.value in judgement.text


@given(st.dictionaries(st.sampled_from(LIMITED), st.floats() | st.none()), st.sets(st.sampled_from(LIMITED)))
def test_judging_equals_a_plain_reading_of_the_rules(values, left_out):
    limits = parse_limits(["MaxAbsoluteError=3"])
    passed = True
    for limit in limits.entries:
        if limit.metric in left_out:
            continue
        value = values.get(limit.metric)
        if value is None or not (value > limit.value if limit.comparison == ">" else value < limit.value):
            passed = False
    judgement = judge(values, limits, left_out)
    assert judgement.passed is passed
    assert passed or judgement.metric not in left_out


def test_nan_fails_unless_the_metric_does_not_apply_and_a_number_comes_first():
    values = dict(GOOD, CosineSimilarity=math.nan)
    assert judge(values, Limits()).text == "CosineSimilarity is NaN, limit > 0.99"
    assert judge(values, Limits(), {"CosineSimilarity"}).passed
    assert judge(dict(values, MeanRelativeError=7.0), Limits()).metric == "MeanRelativeError"
    assert not judge({}, Limits()).passed


def _row(**fields):
    values = {"index": 0, "op": "a", "op_type": "T", "tensor": "a:output:0", "kind": "output", "verdict": "pass", "shape": (2,)}
    values.update(metrics=GOOD)
    values.update(fields)
    return Row(**values)


def test_metrics_that_make_no_sense_for_a_row_do_not_count():
    boolean = {"CosineSimilarity": 1.0, "RelativeEuclideanDistance": 0.0}
    assert judge(boolean, Limits(), not_applicable(_row(target_dtype="bool", golden_dtype="bool"))).passed
    assert not judge(boolean, Limits(), not_applicable(_row(target_dtype="bool", golden_dtype="uint8"))).passed
    assert judge({}, Limits(), not_applicable(_row(shape=(3, 0)))).passed
    assert not_applicable(_row()) == frozenset()


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0.000000"),
        (1.0, "1.000000"),
        (9.9e-5, "9.900000e-05"),
        (-3e-30, "-3.000000e-30"),
        (1e-4, "0.000100"),
        (math.nan, "NaN"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (1e22, "10000000000000000000000.000000"),
    ],
)
def test_number_text(value, text):
    assert number_text(value) == text
