"""What is said where OUT holds the results of another comparison."""

from __future__ import annotations

import pytest

from goldwatch.store.integrity import OtherResults
from goldwatch.store.opening import check_inputs

WORKSPACE = "/data/ci/workspaces/accuracy-of-the-detector/builds"


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ("%s/job-41071/dump" % WORKSPACE, "%s/job-41072/dump" % WORKSPACE, ("071/", "072/")),
        (WORKSPACE + "/a/" + 90 * "x", WORKSPACE + "/b/" + 90 * "x", ("/a/", "/b/")),
        (WORKSPACE * 2, WORKSPACE * 2 + "/last", ('builds"', 'builds/last"')),
        ("dump", 2 * WORKSPACE + "/dump", ('"dump"', '"%s' % WORKSPACE[:39])),
    ],
)
def test_two_long_paths_show_the_part_in_which_they_differ(before, now, shown) -> None:
    with pytest.raises(OtherResults) as caught:
        check_inputs("out", {"target": before}, {"target": now})
    was, now_is = caught.value.message.split("target was ")[1].split(", is ")
    assert shown[0] in was and shown[1] in now_is
    assert max(len(was), len(now_is)) <= 42


def test_short_values_are_shown_whole() -> None:
    with pytest.raises(OtherResults) as caught:
        check_inputs("out", {"target": "a", "limits": None}, {"target": "b", "limits": None})
    assert caught.value.message.endswith('target was "a", is "b"')


def test_of_many_differences_one_is_shown_and_the_others_are_named() -> None:
    rules = [{"dtype": "int8", "CosineSimilarity": {">": 0.9}}]
    before = {"target": "a", "model": None, "limits": {"CosineSimilarity": {">": 0.99}}}
    now = {"target": "b", "model": "m", "limits": {"CosineSimilarity": {">": 0.9}, "rules": rules}}
    for different, shown in (
        (now, 'target was "a", is "b"; other, too: model, limits'),
        ({**before, "limits": now["limits"]}, "CosineSimilarity > 0.99, now > 0.9 and 1 more"),
        (
            {**before, "limits": {**before["limits"], "rules": rules}},
            "limits: those of single types and ops differ",
        ),
    ):
        with pytest.raises(OtherResults) as caught:
            check_inputs("out", before, different)
        assert caught.value.message.endswith(shown)
