from __future__ import annotations

from goldwatch.wording import listed, plural


def test_lists_are_cut_short_and_say_so():
    assert listed([], 2) == "" and listed(["a"], 2) == "a" and listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed(["a", "b", "c"], 2, "; ") == "a; b; and 1 more"


def test_one_and_many():
    assert [plural(count, "row") for count in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
