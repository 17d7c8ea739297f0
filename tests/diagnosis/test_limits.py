from __future__ import annotations

import json
import math
import os
import re

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scene_networks import relu

from goldwatch.base.errors import InputError, UsageError
from goldwatch.dumps.tensor_statistics import MEASURES as STATISTICS
from goldwatch.judging.diagnosis.compare_arrays import as_limits
from goldwatch.judging.limits import (
    LIMITED,
    VENDOR,
    Limit,
    Limits,
    Subject,
    limits_from_document,
    limits_with,
    natural_comparison,
    parse_limit,
    parse_limits,
)
from goldwatch.judging.metric_text import beside_limit, number_text
from goldwatch.judging.row_judge import decides, judge, not_applicable
from goldwatch.metrics.row import AGREEMENT_METRICS, MEASURES, Row
from goldwatch.schemas import load_schema

GOOD = {
    "CosineSimilarity": 0.999,
    "RelativeEuclideanDistance": 0.01,
    "KullbackLeiblerDivergence": 0.001,
    "RootMeanSquareError": 0.1,
    "MeanRelativeError": 0.1,
    "WorstSliceDistance": 0.05,
}
OF_TENSORS = [metric for metric in LIMITED if metric not in STATISTICS]
DOCUMENTED = {
    "CosineSimilarity": {">": 0.99},
    "RelativeEuclideanDistance": {"<": 0.05},
    "KullbackLeiblerDivergence": {"<": 0.005},
    "RootMeanSquareError": {"<": 1.0},
    "MeanRelativeError": {"<": 1.0},
}


def test_vendor_limits_are_the_documented_thresholds():
    assert Limits(VENDOR).document() == dict(DOCUMENTED, base="none")
    whole = {
        "DifferentElements": 0.2,
        **{metric: 0.0 for metric in DOCUMENTED},
        "CosineSimilarity": 1.0,
    }
    assert judge(whole, Limits(VENDOR)).passed and not judge(whole, Limits()).passed


@pytest.mark.parametrize("metric", sorted(DOCUMENTED))
def test_each_vendor_limit_decides_at_its_threshold(metric):
    ((sign, threshold),) = DOCUMENTED[metric].items()
    inside = threshold + (1e-12 if sign == ">" else -1e-12)
    assert judge(dict(GOOD, **{metric: inside}), Limits(VENDOR)).passed
    judgement = judge(dict(GOOD, **{metric: threshold}), Limits(VENDOR))
    assert (judgement.passed, judgement.metric) == (False, metric)


def test_default_limits_decide_alike_at_every_magnitude():
    assert {limit.metric for limit in Limits().entries} == {
        "CosineSimilarity", "RelativeEuclideanDistance", "WorstSliceDistance", "DifferentElements"
    }  # fmt: skip
    far = dict(
        GOOD,
        KullbackLeiblerDivergence=9.0,
        RootMeanSquareError=1e6,
        MeanRelativeError=50.0,
        MaxAbsoluteError=1e9,
    )
    assert judge(far, Limits()).passed
    assert not judge(dict(GOOD, WorstSliceDistance=0.15), Limits()).passed


@pytest.mark.parametrize(
    "dtype, distance, slices",
    [
        ("float16", 0.03, 0.15),
        ("float32", 0.03, 0.15),
        ("float64", 0.03, 0.15),
        ("bfloat16", 0.2, 0.5),
        ("int8", 0.3, 0.7),
    ],
)
def test_default_distances_depend_on_the_targets_type(dtype, distance, slices):
    for metric, limit in (("RelativeEuclideanDistance", distance), ("WorstSliceDistance", slices)):
        assert judge(dict(GOOD, **{metric: limit * 0.999}), Limits(), (), Subject(dtype)).passed
        assert judge(dict(GOOD, **{metric: limit}), Limits(), (), Subject(dtype)).metric == metric


def test_integers_are_judged_by_equality():
    far = dict(
        GOOD,
        CosineSimilarity=0.1,
        RelativeEuclideanDistance=3.0,
        WorstSliceDistance=9.0,
        DifferentElements=0.0,
    )
    assert judge(far, Limits(), (), Subject("int32")).decided_by == "DifferentElements<=0"
    near = dict(GOOD, DifferentElements=1e-9)
    assert (
        judge(near, Limits(), (), Subject("int32")).text
        == "DifferentElements 1.000000e-09 is not <= 0"
    )
    some = parse_limits(["DifferentElements=0.01"])
    assert (
        judge(dict(far, DifferentElements=0.01), some).passed
        and not judge(dict(far, DifferentElements=0.02), some).passed
    )
    named = parse_limits(
        ["DifferentElements=0.5", "dtype=int32:CosineSimilarity>0.9", "MaxAbsoluteError<2"]
    )
    values = dict(far, DifferentElements=0.1, MaxAbsoluteError=1.0)
    assert judge(values, named, (), Subject("int32")).metric == "CosineSimilarity"
    assert judge(dict(values, CosineSimilarity=0.95), named, (), Subject("int32")).passed
    assert (
        judge(dict(values, MaxAbsoluteError=2.0), named, (), Subject("int64")).metric
        == "MaxAbsoluteError"
    )


def test_a_limit_replaces_only_its_metrics_default():
    limits = parse_limits(
        [
            "RelativeEuclideanDistance=2",
            " MaxAbsoluteError < 1e-3 ",
            "CosineSimilarity=0.9",
            "CosineSimilarity>0.5",
        ]
    )
    assert limits.get("RelativeEuclideanDistance") == Limit("RelativeEuclideanDistance", "<", 2.0)
    assert limits.get("MaxAbsoluteError") == Limit("MaxAbsoluteError", "<", 1e-3)
    assert limits.get("CosineSimilarity") == Limit("CosineSimilarity", ">", 0.5)
    assert limits.get("WorstSliceDistance") == Limits().get("WorstSliceDistance")
    assert limits.get("MaxRelativeError") is None
    assert list(limits.metrics) == [name for name in MEASURES if name in limits.metrics]
    by_metric = {limit.metric: limit.value for limit in limits.for_subject(Subject("bfloat16"))}
    assert by_metric["RelativeEuclideanDistance"] == 2.0 and by_metric["WorstSliceDistance"] == 0.5


SELECTED = [
    "RelativeEuclideanDistance<1",
    "op=res5*:RelativeEuclideanDistance<5",
    "type=Softmax:RelativeEuclideanDistance<3",
    "type=Soft*:RelativeEuclideanDistance<4",
    "dtype=float16:RelativeEuclideanDistance<2",
    "op=res5a:RelativeEuclideanDistance<6",
    "op=res*:RelativeEuclideanDistance<7",
]


@pytest.mark.parametrize(
    "subject, value",
    [
        (Subject("float32", "Conv2D", "a"), 1),
        (Subject("float16", "Conv2D", "a"), 2),
        (Subject("float16", "Softmax", "a"), 4),
        (Subject("float16", "Softmax", "res5b"), 7),
        (Subject("float32", "Conv2D", "res5a"), 7),
        (Subject("float32", "softmax", "RES5"), 1),
    ],
)
def test_limits_for_op_type_and_dtype_override_plain_ones_in_this_order(subject, value):
    limits = parse_limits(SELECTED)
    for table in (limits, limits_from_document(json.loads(json.dumps(limits.document())))):
        (found,) = (
            limit.value
            for limit in table.for_subject(subject)
            if limit.metric == "RelativeEuclideanDistance"
        )
        assert found == value
    judgement = judge(dict(GOOD, RelativeEuclideanDistance=value), limits, (), subject)
    assert judgement.metric == "RelativeEuclideanDistance" and judgement.decided_by.endswith(
        "RelativeEuclideanDistance<%d" % value
    )


def test_decided_by_can_be_given_as_a_limit():
    limits = parse_limits(["type=Softmax:KullbackLeiblerDivergence<0.01"])
    values = dict(GOOD, KullbackLeiblerDivergence=0.02)
    assert (
        judge(values, limits, (), Subject("float16", "Softmax")).decided_by
        == "type=Softmax:KullbackLeiblerDivergence<0.01"
    )
    passed = judge(values, limits, (), Subject("bfloat16", "Relu"))
    for text in passed.decided_by.split("; "):
        assert str(parse_limit(text)) == text
    assert passed.decided_by.split("; ")[1] == "dtype=bfloat16:RelativeEuclideanDistance<0.2"


def test_names_with_colons_and_brackets_are_matched_literally():
    limit = parse_limit("op=tower/while:0[1]:CosineSimilarity>0.5")
    assert (limit.selector, limit.pattern, limit.metric, limit.value) == (
        "op",
        "tower/while:0[1]",
        "CosineSimilarity",
        0.5,
    )
    assert limit.matches(Subject("", "", "tower/while:0[1]"))


@pytest.mark.parametrize("metric", LIMITED)
def test_a_limit_with_equals_takes_the_metrics_natural_direction(metric):
    natural = {"CosineSimilarity": ">", "DifferentElements": "<=", "NotFiniteDifference": "<="}.get(
        metric, "<"
    )
    assert parse_limits([metric + "=0.5"]).get(metric).comparison == natural


@pytest.mark.parametrize(
    "text, words",
    [
        ("CosinSimilarity=0.9", "did you mean CosineSimilarity?"),
        ("cosinesimilarity>0.9", "did you mean CosineSimilarity?"),
        ("type=Softmax:KulbackLeiblerDivergence<1", "did you mean KullbackLeiblerDivergence?"),
        ("xyzzy=1", "metrics with limits"),
        ("StandardDeviation=1", "metrics with limits"),
        ("CosineSimilarity=abc", "METRIC=VALUE"),
        ("CosineSimilarity=", "METRIC=VALUE"),
        ("CosineSimilarity=nan", "METRIC=VALUE"),
        ("CosineSimilarity==0.9", "METRIC=VALUE"),
        ("CosineSimilarity=>0.9", "METRIC=VALUE"),
        ("CosineSimilarity=1_0", "METRIC=VALUE"),
        ("CosineSimilarity", "METRIC=VALUE"),
        ("type=:CosineSimilarity>0.9", "METRIC=VALUE"),
        ("kind=a:CosineSimilarity>0.9", "METRIC=VALUE"),
        ("", "METRIC=VALUE"),
        ("=0.9", "metrics with limits"),
    ],
)
def test_a_text_that_is_no_limit_is_refused_with_a_hint(text, words):
    with pytest.raises(UsageError) as caught:
        parse_limits([text])
    assert words in caught.value.hint and caught.value.exit_code == 2
    assert "--" not in caught.value.message + caught.value.hint


@given(st.text(max_size=40))
def test_any_text_is_a_limit_or_refused(text):
    try:
        parse_limits([text])
    except UsageError:
        pass


EQUAL = [
    *(("%s=0" % metric, metric, 0.0) for metric in LIMITED if metric != "CosineSimilarity"),
    ("CosineSimilarity=1", "CosineSimilarity", 1.0),
    ("type=Soft*:MaxAbsoluteError<=0", "MaxAbsoluteError", 0.0),
    ("CosineSimilarity>=1", "CosineSimilarity", 1.0),
]


@pytest.mark.parametrize("text, metric, equal", EQUAL)
def test_equal_tensors_meet_limits_that_only_they_can_meet(text, metric, equal):
    limit = parse_limit(text)
    off = equal - 1e-12 if metric == "CosineSimilarity" else equal + 1e-300
    assert limit.met(equal) and not limit.met(off) and not limit.met(math.nan)
    assert parse_limit(str(limit)) == limit


@pytest.mark.parametrize(
    "text, inside, outside",
    [
        ("RelativeEuclideanDistance<=0.25", 0.25, 0.26),
        ("CosineSimilarity>=0.5", 0.5, 0.49),
        ("CosineSimilarity>=-1", -1.0, -1.01),
        ("DifferentElements<=0.5", 0.5, 0.51),
    ],
)
def test_a_limit_with_or_equal_is_met_by_its_own_value(text, inside, outside):
    limit = parse_limit(text)
    assert limit.met(inside) and not limit.met(outside)


@pytest.mark.parametrize(
    "text, why",
    [
        ("MaxAbsoluteError=-1", "MaxAbsoluteError is never < -1, at least it is 0"),
        (
            "RelativeEuclideanDistance<-0.5",
            "RelativeEuclideanDistance is never < -0.5, at least it is 0",
        ),
        (
            "op=a*:RootMeanSquareError<=-1e-9",
            "RootMeanSquareError is never <= -1e-09, at least it is 0",
        ),
        ("MaxRelativeError<0", "MaxRelativeError is never < 0, at least it is 0"),
        ("DifferentElements=-0.1", "DifferentElements is never <= -0.1, at least it is 0"),
        ("DifferentElements>1", "DifferentElements is never > 1, at most it is 1"),
        ("CosineSimilarity=2", "CosineSimilarity is never > 2, at most it is 1"),
        ("CosineSimilarity>1", "CosineSimilarity is never > 1, at most it is 1"),
        ("CosineSimilarity>=1.001", "CosineSimilarity is never >= 1.001, at most it is 1"),
        ("CosineSimilarity<-1", "CosineSimilarity is never < -1, at least it is -1"),
    ],
)
def test_a_limit_that_no_tensor_can_meet_is_refused(text, why):
    with pytest.raises(UsageError) as caught:
        parse_limit(text)
    assert why in caught.value.message and caught.value.exit_code == 2
    limit = parse_limit(caught.value.hint.split(": ")[1].split(" ")[0])
    assert limit.possible
    # Of a metric of one's own nothing is known.
    assert parse_limit("Mine=-1", ("Mine",)).possible


BACKWARDS = [
    ("CosineSimilarity<1", "of CosineSimilarity larger values are better", "CosineSimilarity>=1"),
    ("CosineSimilarity<=0.99", "of CosineSimilarity larger", "CosineSimilarity>0.99"),
    (
        "type=Softmax:MaxAbsoluteError>0.1",
        "of MaxAbsoluteError smaller values are better",
        "type=Softmax:MaxAbsoluteError<0.1",
    ),
    (
        "RelativeEuclideanDistance>=0",
        "of RelativeEuclideanDistance smaller",
        "RelativeEuclideanDistance<=0",
    ),
    ("DifferentElements>0.5", "of DifferentElements smaller", "DifferentElements<=0.5"),
    ("MeanDifference>-1", "of MeanDifference smaller", "MeanDifference<=0"),
    ("Top1Agreement<0.9", "of Top1Agreement larger", "Top1Agreement>=0.9"),
]


@pytest.mark.parametrize("text, why, meant", BACKWARDS)
def test_a_limit_in_the_wrong_direction_is_refused_with_what_may_be_meant(text, why, meant):
    with pytest.raises(UsageError) as caught:
        parse_limit(text, AGREEMENT_METRICS)
    assert (
        "the wrong way round" in caught.value.message
        and why in caught.value.message
        and caught.value.exit_code == 2
    )
    assert "'%s'" % meant in caught.value.hint
    assert str(parse_limit(meant, AGREEMENT_METRICS)) == meant
    key, _, plain = text.rpartition(":")
    metric, comparison, value = re.match(r"(\w+)([<>]=?)(.*)", plain).groups()
    with pytest.raises(InputError, match="the wrong way round") as caught:
        limits_with({"rules": [{"op": "a", metric: {comparison: float(value)}}]}, AGREEMENT_METRICS)
    with pytest.raises(UsageError, match="the wrong way round"):
        as_limits(Limits((Limit(metric, comparison, float(value)),)))
    # Of a metric of one's own nothing is known.
    assert parse_limit(plain.replace(metric, "Mine"), ("Mine",)).met(float(value)) is (
        "=" in comparison
    )


@settings(deadline=None)
@given(
    st.sampled_from(LIMITED), st.sampled_from(["natural", "=", "equal"]), st.floats(allow_nan=False)
)
def test_limits_survive_their_document_and_fit_the_schema(metric, sign, value):
    natural = natural_comparison(metric)
    comparison = natural if sign != "equal" or "=" in natural else natural + "="
    sign = "=" if sign == "=" else comparison
    assume(Limit(metric, comparison, value).possible)
    limits = parse_limits(
        [
            "%s%s%r" % (metric, sign, value),
            "op=a*:%s%s0.5" % (metric, sign),
            "type=b:MeanRelativeError<2",
        ]
    )
    assert limits.get(metric).value == value
    document = json.loads(json.dumps(limits.document(), allow_nan=False))
    schema = load_schema("limits")
    for validator in (jsonschema.Draft7Validator, jsonschema.Draft202012Validator):
        validator.check_schema(schema)
        validator(schema).validate(document)
    again = limits_from_document(document)
    assert again.document() == document and set(again.entries) == set(limits.entries)


@pytest.mark.parametrize(
    "document",
    [
        {"x": {">": 1}},
        {"CosineSimilarity": 1},
        {"CosineSimilarity": {"!": 1}},
        {"CosineSimilarity": {">": "a"}},
        {"rules": {}},
        {"rules": [1]},
        {"rules": [{"CosineSimilarity": {">": 1}}]},
        {"rules": [{"op": "a", "type": "b", "CosineSimilarity": {">": 1}}]},
        {"rules": [{"op": "a", "x": {">": 1}}]},
    ],
)
def test_a_foreign_document_is_refused(document):
    with pytest.raises(InputError):
        limits_from_document(document)


def test_a_plain_table_of_limits_is_read():
    assert limits_from_document(DOCUMENTED) == Limits(VENDOR)


def test_a_tensor_within_all_limits_passes():
    judgement = judge(GOOD, Limits())
    assert judgement.passed and judgement.metric is None and judgement.text == ""
    assert (
        judgement.decided_by
        == "CosineSimilarity>0.99; RelativeEuclideanDistance<0.03; WorstSliceDistance<0.15"
    )


@pytest.mark.parametrize(
    "metric, value",
    [
        ("CosineSimilarity", 0.99),
        ("RelativeEuclideanDistance", 0.03),
        ("WorstSliceDistance", math.inf),
    ],
)
def test_a_value_at_or_beyond_its_limit_fails_and_is_named(metric, value):
    judgement = judge(dict(GOOD, **{metric: value}), Limits())
    assert (judgement.passed, judgement.metric, judgement.value) == (False, metric, value)
    assert metric in judgement.text and "%.9g" % judgement.limit.value in judgement.text


@given(
    st.dictionaries(st.sampled_from(OF_TENSORS), st.floats() | st.none()),
    st.sets(st.sampled_from(OF_TENSORS)),
)
def test_judging_equals_a_plain_application_of_the_rules(values, left_out):
    limits = parse_limits(["MaxAbsoluteError=3"])
    passed = True
    different = values.get("DifferentElements")
    whole = different is not None and different == different
    for metric, sign, bound in (
        *(
            ("CosineSimilarity", ">", 0.99),
            ("RelativeEuclideanDistance", "<", 0.03),
            ("WorstSliceDistance", "<", 0.15),
        ),
        *(("DifferentElements", "<=", 0.0), ("MaxAbsoluteError", "<", 3.0)),
    ):
        value = values.get(metric)
        if metric in left_out or (metric == "DifferentElements" and not whole):
            continue
        if whole and metric in (
            "CosineSimilarity",
            "RelativeEuclideanDistance",
            "WorstSliceDistance",
        ):
            continue
        if value is None or not (
            value > bound if sign == ">" else value <= bound if sign == "<=" else value < bound
        ):
            passed = False
    judgement = judge(values, limits, left_out)
    assert judgement.passed is passed
    assert passed or judgement.metric not in left_out


def test_nan_fails_unless_the_metric_does_not_apply():
    values = dict(GOOD, CosineSimilarity=math.nan)
    assert judge(values, Limits()).text == "CosineSimilarity is NaN, limit > 0.99"
    assert judge(values, Limits(), {"CosineSimilarity"}).passed
    assert judge(dict(values, WorstSliceDistance=7.0), Limits()).metric == "WorstSliceDistance"
    assert not judge({}, Limits()).passed


def _row(**fields):
    values = {
        "index": 0,
        "op": "a",
        "op_type": "T",
        "tensor": "a:output:0",
        "kind": "output",
        "verdict": "pass",
        "shape": (2,),
    }
    values.update(metrics=GOOD)
    values.update(fields)
    return Row(**values)


def test_metrics_that_do_not_apply_to_a_row_are_ignored():
    boolean = {"CosineSimilarity": 1.0, "RelativeEuclideanDistance": 0.0, "DifferentElements": 0.0}
    assert judge(
        boolean, Limits(VENDOR), not_applicable(_row(target_dtype="bool", golden_dtype="bool"))
    ).passed
    assert not judge(
        boolean, Limits(VENDOR), not_applicable(_row(target_dtype="bool", golden_dtype="uint8"))
    ).passed
    assert judge(
        boolean, Limits(), not_applicable(_row(target_dtype="bool", golden_dtype="bool"))
    ).passed
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
def test_numbers_are_printed_with_readable_digits(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    "op_type", ["ArgMax", "ArgMaxD", "TopKV2", "NonMaxSuppressionV3", "GreaterEqual", "Round"]
)
def test_operators_that_decide_are_known_by_type(op_type):
    assert decides(op_type) and decides(op_type.lower(), "int32")


def test_a_cast_decides_when_it_makes_integers():
    assert (
        decides("Cast", "int32")
        and decides("Cast", "bool")
        and not decides("Cast", "float16")
        and not decides("Cast")
    )
    assert not decides("Conv2D", "int8")


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (0.99999985, 0.9999999, "0.99999985"),
        (0.912345678, 0.99, "0.912346"),
        (0.990000001, 0.99, "0.990000001"),
        (math.nan, 0.99, "NaN"),
    ],
)
def test_a_value_near_its_limit_is_printed_with_enough_digits(value, limit, text):
    assert beside_limit(value, parse_limit("CosineSimilarity>%r" % limit)) == text


@pytest.mark.parametrize("text", ["dtype=flaot32:CosineSimilarity>0.9", "dtype=flaot*:Mine<1"])
def test_a_limit_for_a_mistyped_element_type_is_refused_and_not_passed_over(text) -> None:
    with pytest.raises(UsageError, match="is no element type") as caught:
        parse_limit(text, ["Mine"])
    assert caught.value.hint in ("did you mean float32?", "did you mean float16?")
    for known in ("dtype=float*:Mine<1", "dtype=bfloat16:Mine<1", "dtype=unknown(99):Mine<1"):
        assert parse_limit(known, ["Mine"]).selector == "dtype"


@pytest.mark.parametrize(
    "given, verdict",
    [
        ([], "pass"),
        (["dtype=bfloat16:RelativeEuclideanDistance<0.01"], "pass"),
        (["dtype=float32:RelativeEuclideanDistance<0.05"], "fail"),
        (["dtype=float*:RelativeEuclideanDistance<0.05"], "fail"),
        (["RelativeEuclideanDistance<0.05"], "fail"),
    ],
)
def test_only_default_limits_of_a_type_look_behind_a_cast(scene, random, given, verdict):
    """The values of b went through bfloat16, and it gives out float32."""
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    relu(scene, "a", "data", dtype=np.float32)
    relu(scene, "b", "a", lambda made: made * np.float32(1.1), dtype=np.float32)
    for op, dtype in zip(scene.ops[1:], ("DT_BF16", "DT_FLOAT")):
        op["output_desc"][0]["dtype"] = dtype
    words = [word for text in given for word in ("--limit", text)]
    _, _, text = scene.compare("--recompute", "none", *words)
    with open(os.path.join(scene.out, "result.json"), encoding="utf-8") as stream:
        rows = {row["tensor"]: row for row in json.load(stream)["rows"]}
    row = rows["b:output:0"]
    assert (row["target_dtype"], row["verdict"]) == ("float32", verdict), text
    looks_behind = "dtype=bfloat16:" in row["decided_by"]
    assert looks_behind == (verdict == "pass")
    assert ("limits of bfloat16, which its values went through" in row["reason"]) == looks_behind


def test_the_first_divergence_behind_a_cast_tells_the_limit_that_decided(scene, random):
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    relu(scene, "a", "data", dtype=np.float32)
    relu(scene, "b", "a", lambda made: made * np.float32(2), dtype=np.float32)
    for op, dtype in zip(scene.ops[1:], ("DT_BF16", "DT_FLOAT")):
        op["output_desc"][0]["dtype"] = dtype
    scene.compare("--recompute", "none")
    with open(os.path.join(scene.out, "result.json"), encoding="utf-8") as stream:
        result = json.load(stream)
    row = next(row for row in result["rows"] if row["tensor"] == "b:output:0")
    assert row["verdict"] == "fail" and "dtype=bfloat16:" in row["decided_by"]
    first = result["summary"]["first_divergence"]
    assert first["op"] == "b"
    assert first["metric"] in row["decided_by"]
    assert first["value"] == row["metrics"][first["metric"]]
