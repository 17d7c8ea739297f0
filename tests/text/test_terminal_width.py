from __future__ import annotations

import random
import unicodedata

import pytest

from goldwatch.base.shortening import cut, left, padded, right, shorten, width_of, wrap

WIDE = "层卷积/conv_层:output:0"


def test_wide_and_combining_characters_have_their_width():
    assert [width_of(text) for text in ("", "abc", "层", "e\u0301", "ｱ", "Ａ", "a\u200bb")] == [
        0,
        3,
        2,
        1,
        1,
        2,
        2,
    ]
    assert padded("层", 5) == "层   " and left(WIDE, 3) == "层" and right(WIDE, 4) == "ut:0"


@pytest.mark.parametrize("name", ["a" * 300 + ":output:0", WIDE * 30, "short", ""])
@pytest.mark.parametrize("most", [5, 18, 44])
def test_names_are_shortened_in_the_middle(name, most):
    short = shorten(name, most)
    assert width_of(short) <= most and (
        short == name or ("..." in short and name.startswith(short.split("...")[0]))
    )
    assert name.endswith(short.split("...")[-1])
    assert width_of(cut(name, most)) <= most


def test_wrapping_loses_no_words():
    chance = random.Random(1)
    for _ in range(300):
        words = [
            chance.choice(["a", "层层", "long/name" * 8, "5 %", "--x", "é", "limit > 0.99"])
            for _ in range(chance.randrange(12))
        ]
        text, width = " ".join(words), chance.choice([20, 33, 80])
        lines = wrap(text, width, "    ")
        assert all(
            sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line) <= width
            for line in lines
        )
        assert all(line.startswith("    ") for line in lines[1:]) and "".join(
            "".join(lines).split()
        ) == "".join(text.split())
        assert not any(line.strip().startswith("%") or line.endswith(">") for line in lines)


@pytest.mark.parametrize("width", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("indent", ["", "  ", "    "])
def test_wrapping_works_on_the_narrowest_terminals(width, indent):
    lines = wrap("one " + WIDE, width, indent)
    assert "".join(line.strip() for line in lines) == "one" + WIDE
    assert all(width_of(line) <= len(indent) + 3 for line in lines)
