"""An error common to many operators, devices or steps is one suspect; decisions and estimates
without tensors.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from operator_chain import OPS, TYPES, chain, normals_of, row

from goldwatch.base.notes import note
from goldwatch.judging.diagnosis.culprit_sentence import culprit_sentence
from goldwatch.judging.diagnosis.first_divergence import first_divergence
from goldwatch.judging.diagnosis.observed_ops import ObservedOps
from goldwatch.judging.diagnosis.op_input_states import Inputs
from goldwatch.judging.diagnosis.own_error.estimator import Estimator
from goldwatch.judging.diagnosis.own_error.normal_error import Normal, rounding
from goldwatch.judging.diagnosis.summary import summarise
from goldwatch.judging.limits import Limits


def network(random, factors=lambda number: 1.0, wrong=(), **place):
    """Rows of a chain whose noise grows slowly; ``factors`` of every op pile up, ``wrong`` ops are
    off by 50 % and spoil what follows.
    """
    rows, factor, spoiled = [row(-1, 2e-4, **place)], 1.0, 0.0
    for number in range(OPS):
        factor *= factors(number)
        spoiled = 0.5 if number in wrong else spoiled
        noise = 3e-4 * math.sqrt(1 + number) * random.uniform(0.9, 1.1)
        rows.append(row(number, math.hypot(noise, spoiled), factor, **place))
    return rows


def suspects(rows, graph=None, warnings=()):
    return summarise(rows, OPS, Limits(), graph=graph or chain(), warnings=warnings).suspects


def test_a_healthy_chain_has_no_suspect(random):
    assert suspects(network(random)) == ()


def test_a_wrong_operator_type_is_one_suspect(random):
    (found,) = suspects(network(random, lambda number: 1.004 if number % 3 == 1 else 1.0))
    assert (found.op, found.op_type) == ("op1", "BatchNorm")
    assert found.evidence.startswith(
        "all 10 BatchNorm operators make their outputs 0.40 % larger than their inputs "
        "explain (x 1.004)"
    )


def test_by_names_that_do_not_fit_no_operator_is_a_suspect(random):
    rows = network(random, lambda number: 1.004 if number % 3 == 1 else 1.0)
    assert suspects(rows, warnings=[note("names-do-not-fit", "why")])
    assert suspects(rows, warnings=iter([note("not-judged-by-names", "why")])) == ()


def test_a_factor_that_fades_downstream_is_not_blamed_on_a_type(random):
    fading = [
        1.01 if number == 0 else 1.0 - 0.01 * 0.9 ** (number - 1) * 0.1 for number in range(OPS)
    ]
    assert [found.op for found in suspects(network(random, lambda number: fading[number]))] == [
        "op0"
    ]


def carried(random, change, types=TYPES):
    """Rows and graph of a chain; ``change`` makes of an op's number and its input's factor, as
    logarithms, that of its output.
    """
    rows, factor = [row(-1, 2e-4)], 0.0
    for number in range(OPS):
        factor = change(number, factor)
        rows.append(
            row(
                number,
                3e-4 * math.sqrt(1 + number) * random.uniform(0.9, 1.1),
                math.exp(factor),
                types[number % 3],
            )
        )
    return rows, chain(type_of=lambda number: types[number % 3])


@pytest.mark.parametrize("wrong", [0, 1, 2, 3, 4, 12])
@pytest.mark.parametrize("kept", [1.0, 0.97])
def test_a_factor_carried_by_all_later_operators_is_blamed_on_the_first(random, wrong, kept):
    fades = (kept, 1.0, 1.0)
    found = suspects(
        *carried(random, lambda number, fed: 0.02 if number == wrong else fed * fades[number % 3])
    )
    assert [one.op for one in found] == ["op%d" % wrong] and "all" not in found[0].evidence


def test_a_factor_that_types_scale_down_and_up_is_blamed_on_the_first(random):
    (found,) = suspects(
        *carried(
            random,
            lambda number, fed: 0.02 if number == 0 else fed * (1.0, 0.75, 1.0 / 0.75)[number % 3],
        )
    )
    assert found.op == "op0" and "all" not in found.evidence


def test_a_type_wrong_by_a_factor_that_is_not_passed_on_is_the_suspect(random):
    types = ("LayerNorm", "MatMul", "Add")

    def change(number, fed):
        return 0.004 if number % 3 == 0 else fed * (0.9 if number % 3 == 1 else 0.02 * number)

    (found,) = suspects(*carried(random, change, types))
    assert found.evidence.startswith("all 10 LayerNorm operators make their outputs 0.40 % larger")


@pytest.mark.parametrize("kept", [1.0, 0.9, 0.8])
def test_a_type_wrong_by_a_factor_that_fades_is_the_suspect(random, kept):
    (found,) = suspects(
        *carried(random, lambda number, fed: fed * kept + 0.005 if number % 3 == 0 else fed)
    )
    assert found.op == "op0" and found.evidence.startswith(
        "all 10 Conv2D operators make their outputs 0.5"
    )


def test_an_error_that_all_of_a_type_add_is_not_called_inherited(random):
    rows, graph = network(random, wrong=(0,)), chain()
    seen = ObservedOps(rows)
    own = (
        Estimator(seen, Inputs(seen, graph), lambda *_: False).run().worst_of("op0", rows[1].place)
    )
    # Not one of those by which op0 is judged is any better.
    own = replace(own, score=0.0, expected=0.5, normal=Normal(1.0, 0.5, 0.3, 5))
    sentence = culprit_sentence(first_divergence(rows, Limits(), graph), estimate=own)
    assert sentence.endswith(
        "(they differ by 0.020 %), and others of its type add as much; whose error it is is not "
        "known, as the operator was not computed again (that was not asked for, is done "
        "when the run ends, or takes the original model)."
    )


def test_an_operator_wrong_on_one_device_only_is_described_so(random):
    rows = [
        one
        for device in "01234567"
        for one in network(random, wrong=(9,) if device == "3" else (), device=device)
    ]
    (found,) = suspects(rows)
    assert (found.op, found.place.device) == ("op9", "3")
    assert (
        "on device 3 only" in found.evidence
        and "all of the 20 other operators outside their limits run behind it" in found.evidence
    )


def test_an_operator_wrong_from_one_step_on_is_described_so(random):
    rows = [
        one
        for step in range(60)
        for one in network(random, wrong=(9,) if step >= 40 else (), step=str(step))
    ]
    (found,) = suspects(rows)
    assert found.op == "op9" and found.place.step == "40" and "from step 40 on" in found.evidence


def test_a_second_culprit_behind_slightly_bad_inputs_is_a_suspect(random):
    rows = network(random)
    for number in range(12, OPS):
        rows[number + 1] = row(number, 0.04 if number < 20 else 0.4)
    found = suspects(rows)
    assert {one.op for one in found} == {"op12", "op20"}
    second = next(one for one in found if one.op == "op20")
    assert second.evidence.startswith(
        "its inputs are outside their limits (4.0 %), but its output differs by 40 %"
    )


def test_no_operator_is_suspected_behind_inputs_off_by_10_percent(random):
    rows = network(random, wrong=(3,))
    rows[21] = row(20, 0.9)
    assert [one.op for one in suspects(rows)] == ["op3"]


@pytest.mark.parametrize("op_type, dtype", [("Greater", "bool"), ("ArgMaxV2", "int32")])
def test_decisions_that_cannot_be_computed_again_accuse_no_operator(random, op_type, dtype):
    different = {
        "DifferentElements": 0.05,
        "RelativeEuclideanDistance": 0.05,
        "CosineSimilarity": 0.95,
    }
    rows = network(random)[:3]
    decision = row(
        2,
        0.0,
        op_type=op_type,
        metrics=different,
        target_dtype=dtype,
        golden_dtype=dtype,
        verdict="fail",
        shape=(64, 64),
    )
    graph = chain(3, lambda number: op_type if number == 2 else TYPES[number])
    assert suspects([*rows, decision], graph) == ()
    sentence = summarise([*rows, decision], 3, Limits(), graph=graph).sentence
    assert "it decides between values" in sentence
    assert "whose error it is is not known" in sentence and "inherited" not in sentence


def test_one_wrong_label_of_one_may_be_inherited(random):
    different = {
        "DifferentElements": 1.0,
        "RelativeEuclideanDistance": 0.1,
        "CosineSimilarity": 1.0,
    }
    rows = network(random)[:3]
    rows.append(
        row(
            2,
            0.0,
            op_type="ArgMax",
            metrics=different,
            target_dtype="int32",
            golden_dtype="int32",
            verdict="fail",
            shape=(1,),
        )
    )
    assert suspects(rows, chain(3, lambda number: "ArgMax" if number == 2 else TYPES[number])) == ()


def test_rounding_of_values_below_the_normal_range_is_estimated():
    values = 1e-6 * np.random.RandomState(1).standard_normal(100000)
    measured = np.linalg.norm(
        values.astype(np.float16).astype(np.float64) - values
    ) / np.linalg.norm(values)
    assert rounding("float16", 1e-6) == pytest.approx(measured, rel=0.05)
    assert rounding("float16", 1.0) == pytest.approx(rounding("float16"), rel=1e-3)


def test_an_operator_is_not_judged_by_its_own_error():
    entries = [("op%d" % number, "MatMul", 1e-3, 1e-3, 3e-4, 1e-3) for number in range(5)]
    entries.append(("bad", "MatMul", 0.4, 1e-3, 3e-4, 1e-3))
    normals = normals_of(entries)
    assert normals.of("bad", "MatMul").score(0.4, 1e-3, 3e-4) > 20
    assert normals.of("op0", "MatMul").score(1e-3, 1e-3, 3e-4) < 0.5
    alone = normals_of(entries[-1:]).of("bad", "MatMul")
    assert alone.rare and alone.ops == 0 and alone.score(0.4, 1e-3, 3e-4, 1e-3) > 8


def test_errors_that_cancel_elsewhere_need_not_cancel_where_they_are_larger():
    # As biases rule the outputs of others: what they are fed with hardly shows.
    entries = [
        ("op%d" % number, "MatMul", 6e-4, 3e-4 + 5e-5 * number, 3e-4, 1e-3) for number in range(7)
    ]
    entries.append(("behind", "MatMul", 9.8e-3, 9.9e-3, 3e-4, 1e-3))
    normal = normals_of(entries).of("behind", "MatMul")
    assert normal.score(9.8e-3, 9.9e-3, 3e-4) <= 0 and normal.score(5e-2, 9.9e-3, 3e-4) > 4.5
    assert normal.score(2.5e-3, 6e-4, 3e-4) > 4.5


def test_operators_behind_a_gross_error_do_not_define_what_is_normal():
    entries = [("op%d" % number, TYPES[number % 3], 0.9, 0.9, 3e-4, 1e-3) for number in range(25)]
    normals = normals_of([("first", "Conv2D", 0.9, 2e-4, 3e-4, 1e-3), *entries])
    assert normals.of("first", "Conv2D").expected(2e-4, 3e-4, 1e-3) < 2e-3
