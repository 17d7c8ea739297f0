"""What is said where OUT holds the results of another comparison."""

from __future__ import annotations

import pytest

from goldwatch.store.same_inputs import OtherResults, check_inputs

WORKSPACE = "/data/ci/workspaces/accuracy-of-the-detector/builds"


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ("%s/job-41071/dump" % WORKSPACE, "%s/job-41072/dump" % WORKSPACE, ("071/", "072/")),
        (WORKSPACE + "/a/" + 90 * "x", WORKSPACE + "/b/" + 90 * "x", ("/a/", "/b/")),
        (WORKSPACE * 2, WORKSPACE * 2 + "/last", ('builds"', 'builds/last"')),
        ("dump", 2 * WORKSPACE + "/dump", ('"dump"', '"%s' % WORKSPACE)),
    ],
)
def test_two_long_paths_show_the_part_in_which_they_differ(before, now, shown) -> None:
    with pytest.raises(OtherResults) as caught:
        check_inputs("out", {"target": before}, {"target": now})
    was, now_is = caught.value.message.split("target was ")[1].split(", is ")
    assert shown[0] in was and shown[1] in now_is
    assert max(len(was), len(now_is)) <= 82


def test_short_values_are_shown_whole() -> None:
    with pytest.raises(OtherResults) as caught:
        check_inputs("out", {"target": "a", "limits": None}, {"target": "b", "limits": None})
    assert caught.value.message.endswith('target was "a", is "b"')
