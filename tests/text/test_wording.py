from __future__ import annotations

from goldwatch.base.wording import listed, plural, size_text


def test_long_lists_are_cut_and_say_how_many_more():
    assert listed([], 2) == "" and listed(["a"], 2) == "a" and listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed(["a", "b", "c"], 2, "; ") == "a; b; and 1 more"


def test_counts_are_singular_or_plural():
    assert [plural(count, "row") for count in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


def test_sizes_are_given_in_powers_of_1024():
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 2**30, 3 * 2**60)] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "1.0 GiB", "3.0 EiB",
    ]  # fmt: skip
