from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base.shortening import shorten_all, shorten_within, width_of

KINDS = (
    "attention/self/query/MatMul",
    "attention/self/key/MatMul",
    "output/LayerNorm/batchnorm/add_1",
)
BERT = ["bert/encoder/layer_%d/%s" % (layer, kind) for layer in range(12) for kind in KINDS]


@pytest.mark.parametrize("most", [20, 24, 35, 44])
def test_layers_of_a_network_can_be_told_apart(most):
    found = shorten_all(BERT, most)
    assert len(set(found.values())) == len(BERT) and max(map(len, found.values())) <= most
    if most >= 24:
        assert all(
            "/layer_%s" % name.split("_")[1].split("/")[0] in short for name, short in found.items()
        )


@pytest.mark.parametrize("most", [20, 35, 200])
def test_differing_parts_of_names_are_kept(most):
    for names in (
        ["p" * 300 + letter + "q" * 300 for letter in "ABCDEF"],
        ["a" * 1000, "a" * 1001, "a" * 999],
        ["x" * 5000 + "/one", "x" * 5000 + "/two", "z" * 400],
        ["\u5c42" * 300 + "/%d/" % number + "\u5377" * 300 for number in range(9)],
        [
            "%s/%d/%s/%d/%s" % ("a" * 90, a, "b" * 90, b, "c" * 90)
            for a in range(3)
            for b in range(3)
        ],
    ):
        found = shorten_all(names, most)
        assert len(set(found.values())) == len(names) and max(map(width_of, found.values())) <= most
    assert (
        "ppA"
        in shorten_all(["p" * 300 + letter + "q" * 300 for letter in "AB"], 35)[
            "p" * 300 + "A" + "q" * 300
        ]
    )


@given(st.lists(st.text("ab/_\u5c42", min_size=1, max_size=60), max_size=30), st.integers(16, 40))
def test_different_names_stay_different_when_shortened(names, most):
    found = shorten_all(names, most)
    assert set(found) == set(names) and len(set(found.values())) == len(found)
    assert all(
        width_of(short) <= most and (short == name or width_of(name) > most)
        for name, short in found.items()
    )


def test_a_sentence_is_shortened_in_its_long_words_only():
    names = ["x" * 1000 + "/%s/" % which + "y" * 1000 for which in ("one", "two")]
    parts = (
        " (Relu) is the first operator outside its limits: ",
        ":output:0 has CosineSimilarity 0.5, limit > 0; ",
        " was not compared.",
    )
    text = shorten_within(
        "".join([names[0], parts[0], names[0], parts[1], names[1], ", (%s)" % names[1], parts[2]])
    )
    assert len(text) < 1000 and all(part in text for part in parts)
    parts = text.split()
    assert (
        parts[0].startswith(".../one...yy")
        and parts[-5].rstrip(",") == parts[-4][1:-1]
        and parts[-5].startswith(".../two...yy")
    )
    assert shorten_within("short words stay, " * 50) == "short words stay, " * 50
    assert shorten_within(text) == text


def test_a_huge_word_is_shortened_in_linear_time(cpu_seconds):
    for end in ("x", ""):
        with cpu_seconds(60):
            assert (
                len(shorten_within("the op a" + "." * 1000000 + end + " (" + "(" * 1000000 + "b)"))
                < 2000000
            )
