from __future__ import annotations

import itertools
import json
import math
import re

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.dumps.place import Place
from goldwatch.metrics.row import Row
from goldwatch.reports import difference_words
from goldwatch.reports.difference import BETTER, WORSE, difference_of
from goldwatch.reports.difference_words import MOST_CHARACTERS, change_words, counts_words, markdown
from goldwatch.reports.matching_places import PlaceMatch
from goldwatch.reports.pages.diff_page import diff_page
from goldwatch.reports.row_distances import COSINE_DISTANCE, distances, grown
from goldwatch.schemas import load_schema
from goldwatch.store.store import RunStore

RED = "RelativeEuclideanDistance"
OPS = ["op%d" % number for number in range(8)]


def row(op="op0", verdict="pass", red=1e-3, cosine=None, **more):
    metrics = {} if red is None else {RED: red}
    if cosine is not None:
        metrics["CosineSimilarity"] = cosine
    fields = dict(
        {
            "index": 0,
            "op": op,
            "op_type": "Conv2D",
            "tensor": op + ":output:0",
            "kind": "output",
            "tensor_index": 0,
        },
        **more,
    )
    return Row(
        verdict=verdict,
        metrics=metrics,
        target_file="%s.%s" % (op, json.dumps(sorted(map(repr, more.items())))),
        **fields,
    )


@pytest.fixture
def made(tmp_path):
    count = itertools.count()

    def make(rows, finished=True, **inputs):
        out = str(tmp_path / ("out%d" % next(count)))
        with RunStore.begin(out, dict({"target": "t", "golden": "g"}, **inputs)) as store:
            store.put_all(rows)
            if finished:
                store.set("summary", {"verdict": "pass"})
        return out

    return make


def net(**changed):
    """Rows of a network; of single ops given by name other fields."""
    return [row(op, **changed.get(op, {})) for op in OPS]


def kinds(found):
    return {
        kind: [change.side.op for change in changes]
        for kind, changes in found.changes.items()
        if changes
    }


def test_a_lower_verdict_or_a_grown_distance_is_worse(made):
    first = made(net(op1={"verdict": "fail", "red": 0.5}, op5={"red": 4e-3}))
    second = made(
        net(
            op2={"verdict": "fail", "red": 0.5},
            op3={"red": 2e-3},
            op4={"red": 1.4e-3},
            op6={"verdict": "not_compared", "red": None},
        )
    )
    found = difference_of(first, second)
    assert kinds(found) == {"worse": ["op2", "op6", "op3"], "better": ["op1", "op5"]}
    assert (found.joined, found.same_model, found.changes[WORSE][2].metric) == (8, True, RED)
    assert found.changes[WORSE][2].factor == pytest.approx(2)
    assert found.changes[BETTER][1].factor == pytest.approx(0.25)
    assert kinds(difference_of(second, first)) == {
        "better": ["op2", "op6", "op3"],
        "worse": ["op1", "op5"],
    }
    assert kinds(difference_of(first, second, 1.5)) == {
        "worse": ["op2", "op6"],
        "better": ["op1", "op5"],
    }
    assert "3 worse, 2 better, 0 appeared, 0 vanished; 3 of 8 are as before" in counts_words(found)


def test_the_document_fits_its_schema_and_has_both_values(made):
    first = made(net(op1={"red": math.inf}, op3={"red": math.nan, "verdict": "fail"}))
    second = made(
        [*net(op2={"verdict": "fail", "red": 0.5}, op4={"red": math.nan})[:-1], row("new", "fail")]
    )
    document = difference_of(first, second).document()
    jsonschema.validate(document, load_schema("diff"))
    worse, grew = document["worse"]
    assert (worse["tensor"], worse["a"]["verdict"], worse["b"]["verdict"]) == (
        "op2:output:0",
        "pass",
        "fail",
    )
    assert (grew["op"], grew["a"]["distances"][RED], grew["b"]["distances"][RED]) == (
        "op4",
        1e-3,
        "NaN",
    )
    assert document["counts"] == {"worse": 2, "better": 2, "appeared": 1, "vanished": 1}
    assert (document["appeared"][0]["a"], document["vanished"][0]["b"]) == (None, None)


@pytest.mark.parametrize(
    ("name", "before", "after", "dtype", "cries"),
    [
        (RED, 1e-9, 3e-9, "float32", False),
        (RED, 0.0, 9e-6, "float32", False),
        (RED, 0.0, 1e-4, "float32", True),
        (RED, 1e-4, 4e-4, "float16", False),
        (RED, 1e-4, 9e-4, "float16", True),
        (RED, 1e-3, 3e-3, "bfloat16", False),
        (COSINE_DISTANCE, 1e-9, 3e-9, None, False),
        (COSINE_DISTANCE, -1e-16, 1e-9, "float32", False),
        (COSINE_DISTANCE, 1e-6, 3e-6, "float32", True),
        (COSINE_DISTANCE, 0.5, 2.0, "float32", True),
        (RED, 1.0, 1.5, None, False),
        (RED, 1.0, 1.51, None, True),
        (RED, 1.0, math.nan, None, True),
        (RED, math.nan, 1.0, None, False),
        (RED, math.nan, math.nan, None, False),
        (RED, 1.0, math.inf, None, True),
        (RED, math.inf, math.inf, None, False),
        (RED, math.inf, math.nan, None, True),
        ("DifferentElements", 0.0, 1e-9, "int8", True),
    ],
)
def test_changes_within_noise_are_not_reported(name, before, after, dtype, cries):
    assert grown(name, before, after, dtype, 0.5) is cries


def test_a_cosine_change_is_judged_by_its_distance_from_one(made):
    first = made(net(op1={"red": None, "cosine": 0.999}, op2={"red": None, "cosine": 1.0}))
    second = made(net(op1={"red": None, "cosine": 0.998}, op2={"red": None, "cosine": 1 - 1e-9}))
    found = difference_of(first, second)
    assert kinds(found) == {"worse": ["op1"]}
    assert change_words(found.changes[WORSE][0]) == "1 - CosineSimilarity 0.001 -> 0.002 (2 times)"


def test_absolute_errors_count_only_where_no_other_metric_was_computed():
    assert distances(
        {"MaxAbsoluteError": 3.0, "CosineSimilarity": 0.5, "StandardDeviation": {"target": {}}}
    ) == {COSINE_DISTANCE: 0.5}
    assert distances({"MaxAbsoluteError": 3.0, RED: None}) == {"MaxAbsoluteError": 3.0}


def placed(device="0", step="1", model="net", model_id="1", time="20260101000000", **more):
    return [
        row(
            op,
            device=device,
            step=step,
            model=model,
            model_id=model_id,
            time=time,
            **more.get(op, {}),
        )
        for op in OPS
    ]


BAD = {"op3": {"verdict": "fail"}}


def test_the_time_and_model_number_of_a_run_do_not_matter(made):
    first, second = made(placed()), made(placed(time="20260202000000", model_id="7", **BAD))
    found = difference_of(first, second)
    assert (kinds(found), found.joined, found.notes) == ({"worse": ["op3"]}, 8, [])


@pytest.mark.parametrize(
    ("part", "other"), [("device", "5"), ("model", "net_fixed"), ("step", "3")]
)
def test_runs_on_other_devices_models_or_steps_are_matched_with_a_note(made, part, other):
    found = difference_of(made(placed()), made(placed(**{part: other}, **BAD)))
    assert kinds(found) == {"worse": ["op3"]}
    assert found.notes == [
        "%s %s of the second run is compared with %s of the first"
        % (part, other, placed.__defaults__[("device", "step", "model").index(part)])
    ]
    assert found.changes[WORSE][0].document()[part] == other


def test_devices_that_both_runs_have_are_matched_by_name_only(made):
    found = difference_of(
        made(placed("0") + placed("1", **BAD)), made(placed("1") + placed("2", **BAD))
    )
    assert kinds(found) == {"better": ["op3"], "appeared": OPS, "vanished": OPS}
    assert [change.side.place.device for change in found.changes["appeared"]] == ["2"] * 8
    assert found.same_model


def test_runs_with_nothing_in_common_are_no_pass(made):
    bad = placed("5", **BAD) + placed("6", **BAD)
    for first, second in ((placed("0"), bad), (bad, placed("0"))):
        found = difference_of(made(first), made(second))
        assert (found.joined, found.same_model, found.comparable) == (0, True, False)
        said = counts_words(found)
        assert "not comparable" in said and "device 0" in said and "devices 5, 6" in said
        jsonschema.validate(found.document(), load_schema("diff"))
        assert "## goldwatch diff: pass; not comparable" in markdown(
            found
        ) and "not comparable" in diff_page(found)
    swapped = placed("0")[:4] + placed("1")[4:], placed("0")[4:] + placed("1")[:4]
    assert not difference_of(*map(made, swapped)).comparable
    assert difference_of(made(placed("0")), made(placed("0", model_id="3") + bad)).comparable


def hosted(*names):
    return [Place("2026", device, "net", "1", step, host) for host, device, step in names]


def test_a_run_is_matched_with_the_host_of_a_merge_that_has_its_device(made):
    run = [Place("2025", device, "net", "9", "1") for device in "01"]
    merge = hosted(("a", "0", "1"), ("a", "3", "1"), ("b", "1", "1"))
    forth, back = PlaceMatch(run, merge), PlaceMatch(merge, run)
    assert [forth.of(place) for place in merge] == [run[0], None, run[1]]
    assert [back.of(place) for place in run] == [merge[0], merge[2]]
    assert (forth.notes, back.notes, forth.apart) == ([], [], "")


def test_a_device_of_several_hosts_is_matched_with_none_with_a_note():
    run = [Place("2026", "0", "net", "1", "1")]
    merge = hosted(("a", "0", "1"), ("b", "0", "1"))
    for match, places in ((PlaceMatch(run, merge), merge), (PlaceMatch(merge, run), run)):
        assert not any(map(match.of, places))
        assert match.notes == [
            "several hosts of the merge have device 0, model net, model_id 1, step 1 of the "
            "other run: compare it with one host's results"
        ]
        assert "no host" in match.apart and "hosts a, b" in match.apart


def test_equally_many_other_devices_are_matched_in_order(made):
    first = made(placed("0") + placed("1", **BAD))
    found = difference_of(first, made(placed("8") + placed("9")))
    assert kinds(found) == {"better": ["op3"]}
    assert found.changes[BETTER][0].first.place.device == "1"


def test_a_flat_folder_is_matched_with_a_tree(made):
    assert kinds(difference_of(made(net()), made(placed(**BAD)))) == {"worse": ["op3"]}


def test_several_times_of_one_run_are_kept_apart(made):
    first = made(placed(time="20260101000000") + placed(time="20260101000001", **BAD))
    second = made(placed(time="20270101000000", **BAD) + placed(time="20270101000001", **BAD))
    assert kinds(difference_of(first, second)) == {"worse": ["op3"]}


def test_repeated_rows_of_one_tensor_are_matched_one_by_one(made):
    def twice(verdict):
        return [*net(), row("op0", verdict, timestamp_us=5)]

    assert kinds(difference_of(made(twice("pass")), made(twice("fail")))) == {"worse": ["op0"]}


def test_an_op_whose_dump_is_missing_counts_as_not_compared(made):
    lost = row(
        "op2", "not_compared", None, tensor="op2", kind="op", tensor_index=None, reason="no dump"
    )
    first, second = made(net()), made([*net()[:2], lost, *net()[3:]])
    found = difference_of(first, second)
    assert kinds(found) == {"worse": ["op2"]}
    assert change_words(found.changes[WORSE][0]) == "pass -> not compared (no dump)"
    assert kinds(difference_of(second, first)) == {"better": ["op2"]}
    told = [*found.changes[WORSE], *difference_of(second, first).changes[BETTER]]
    assert [change.side.tensor for change in told] == ["op2:output:0"] * 2


def test_rows_absent_as_expected_count_as_no_rows(made):
    found = difference_of(made(net()), made(net(op4={"verdict": "expected_absent", "red": None})))
    assert kinds(found) == {"vanished": ["op4"]}


def test_another_model_is_reported(made):
    others = [row("other%d" % number) for number in range(5)]
    found = difference_of(made(net()), made(net()[:3] + others))
    assert not found.same_model
    assert "not the same model" in counts_words(found)
    assert difference_of(made(net()), made(net()[:4] + others[:4])).same_model
    assert difference_of(made(net()), made(net()[:1])).same_model
    nothing = difference_of(made(net()), made([], finished=False))
    assert not nothing.same_model
    assert counts_words(nothing).startswith("nothing to compare: one of the runs has no rows; ")


def test_a_number_that_became_nan_is_named_by_the_metric_that_failed(made):
    first = made(net(op1={"red": 0.5, "cosine": 1 - 2e-8, "verdict": "fail"}))
    found = difference_of(
        first, made(net(op1={"red": math.nan, "cosine": math.nan, "verdict": "fail"}))
    )
    assert change_words(found.changes[WORSE][0]) == RED + " 0.5 -> NaN"


def test_a_merge_is_judged_by_the_limits_of_its_hosts(made):
    def merged(limits):
        out = made(net(), command="merge")
        with RunStore.begin(out, {"target": "t", "golden": "g", "command": "merge"}) as store:
            store.set("judged_by", {"limits": limits})
            store.set("summary", {"verdict": "pass"})
        return out

    run = made(net(), limits="default")
    assert difference_of(run, merged("default")).notes == []
    assert "different limits" in difference_of(run, merged("vendor")).notes[0]


def test_unfinished_runs_and_other_limits_are_noted(made):
    found = difference_of(
        made(net(), limits="default"), made(net(), finished=False, limits="vendor")
    )
    assert "judged by different limits" in found.notes[0]
    assert found.notes[1].endswith("is not finished: only the rows that it has so far are compared")
    assert (found.first.finished, found.second.finished) == (True, False)


VALUES = st.floats(0, 10) | st.sampled_from([0.0, 1e-9, 3e-9, math.nan, math.inf])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4), st.floats(0, 3))
def test_a_distance_that_grew_one_way_did_not_grow_the_other_way(pairs, tolerance):
    for before, after in pairs:
        assert not (
            grown(RED, before, after, None, tolerance)
            and grown(RED, after, before, None, tolerance)
        )


def test_the_title_of_a_passing_but_worse_run_says_worse(made):
    good, worse = made([row(red=1e-4)]), made([row(red=0.02)])
    title = markdown(difference_of(good, worse)).splitlines()[0]
    assert title == "## goldwatch diff: 1 worse than before (the run itself passes)"
    title = markdown(difference_of(worse, good)).splitlines()[0]
    assert title == "## goldwatch diff: pass; nothing is worse than before"


def test_a_diff_comment_of_many_changes_is_bounded_and_counts_the_rest(made):
    many = [row("a|`<b>%d" % number + "x" * 150, "fail") for number in range(700)]
    good = [row(one.op) for one in many]
    text = markdown(difference_of(made(good), made(many)))
    assert len(text) <= MOST_CHARACTERS
    assert "700 worse than before" in text and "Left out for want of room: " in text
    assert "<b>" not in text.replace("``a\\|`<b>", "")
    assert "nothing is worse" in markdown(difference_of(made(good), made(good)))


@pytest.mark.parametrize(
    "kinds_of_change",
    [["worse"], ["worse", "better"], ["worse", "better", "appeared", "vanished"], ["vanished"]],
)
def test_a_diff_comment_fills_its_room(made, kinds_of_change):
    first, second = (
        [row("same%d" % number) for number in range(1500)],
        [row("same%d" % number) for number in range(1500)],
    )
    for kind in kinds_of_change:
        names = ["%s%d" % (kind, number) + "x" * 60 for number in range(1200)]
        if kind != "appeared":
            first += [row(name, "fail" if kind == "better" else "pass") for name in names]
        if kind != "vanished":
            second += [row(name, "fail" if kind == "worse" else "pass") for name in names]
    text = markdown(difference_of(made(first), made(second)))
    assert MOST_CHARACTERS - 1200 < len(text) <= MOST_CHARACTERS
    said = re.findall(r"(\d+) (\w+)[,.]", text.rpartition("Left out for want of room: ")[2])
    shown = {kind: text.count("| `" + kind) for kind in kinds_of_change}
    assert {kind: 1200 - count for kind, count in shown.items()} == {
        kind: int(count) for count, kind in said
    }
    # None is crowded out by another.
    assert min(shown.values()) > 0.7 * max(shown.values())


def test_a_diff_comment_that_fits_leaves_nothing_out(made):
    many = [row("op%d" % number + "x" * 40, "fail") for number in range(450)]
    text = markdown(difference_of(made([row(one.op) for one in many]), made(many)))
    assert (
        "Left out" not in text
        and text.count("| `op") == 450
        and 30000 < len(text) <= MOST_CHARACTERS
    )


def test_nan_in_both_runs_is_no_change():
    assert not difference_words._apart(math.nan, math.nan) and not difference_words._apart(0.5, 0.5)
    assert difference_words._apart(0.5, math.nan) and difference_words._apart(0.5, 0.25)


def test_the_page_opens_at_the_first_op_that_changed_not_at_the_worst_or_a_later_step(made):
    def run(*bad):
        return made(
            [
                row("op%d" % number, device=device, step=step, op_sequence=number, **fails)
                for device in "01"
                for step in ("2", "10")
                for number in range(6)
                for fails in [
                    {"verdict": "fail", "red": 0.1 * number}
                    if (device, step, number) in bad
                    else {}
                ]
            ]
        )

    always = [("0", "2", 5), ("1", "10", 1)]
    before = run(*always)
    found = difference_of(before, run(*always, ("1", "2", 4), ("1", "2", 3), ("0", "10", 2)))
    assert found.opens_at == "op3:output:0"
    assert {(one.place.device, one.place.step) for one in found.along[1]} == {("1", "2")}
    # The same where what failed before passes now.
    found = difference_of(run(*always, ("1", "2", 4), ("0", "10", 2)), before)
    assert found.opens_at == "op4:output:0" and "op4:output:0" in diff_page(found)
    assert difference_of(before, run(*always)).opens_at is None
