"""The text format: positions, numbers, and what is refused with line and column."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base.errors import FormatError
from goldwatch.netfiles.protobuf_text import integer_of, number_of, parse, quote, unquote

TEXT = """\ufeff# a comment
a: 1; b { c: 'x' "y" d: [1, -2 , 3], e < f: - 4 > } [g.h/i.j] { k: 0x1F }
l: [{ m: 1 }, <n: 2>] 7: .5f
"""


def test_every_value_of_a_text_file_has_its_position():
    root = parse(TEXT)
    assert [field.name for field in root.fields] == ["a", "b", "[g.h/i.j]", "l", "7"]
    assert TEXT[root.fields[0].start : root.fields[0].end] == "a: 1;"
    inner = root.message("b")
    assert (
        inner.text("c") == "xy"
        and inner.integers("d") == [1, -2, 3]
        and inner.message("e").integer("f", 0) == -4
    )
    assert [TEXT[first:last] for first, last in inner.values("c")[0].pieces] == ["'x'", '"y"']
    assert [TEXT[value.start : value.end] for value in inner.values("d")] == ["1", "-2", "3"]
    assert [TEXT[at] for at in inner.fields[1].commas] == [",", ","]
    assert root.message("[g.h/i.j]").integer("k", 0) == 31
    assert [TEXT[value.start : value.end] for value in root.values("l")] == ["{ m: 1 }", "<n: 2>"]
    assert root.number("7", 0) == 0.5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1 }", "line 1 column 6: expected a field name, got '}'"),
        (
            "a {\n b: 1",
            "line 2 column 6: the message opened in line 1 is not closed before the end of "
            "the file",
        ),
        ("a { >", "not closed before '>'"),
        ("a: 'x", "column 4: a string that does not end on its line"),
        ("a: [1 2]", "expected ',' or ']', got '2'"),
        ("a: 1.2.3", "expected a value, got '1.2.3'"),
        ("a 1", "expected ':' or '{' after a, got '1'"),
        ("1a: 1", "expected a field name, got '1a'"),
        ("[a: 1", "expected a field name, got ':'"),
        ("a: $", "column 4: expected a field name or a value, got '$'"),
        ("a: - 'x'", "expected a value"),
        ("a " + "{ a " * 101, "messages nested deeper than 100"),
    ],
)
def test_broken_text_is_refused_with_line_and_column(text, told):
    with pytest.raises(FormatError, match=re.escape(told)):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("017", 15), ("0x10", 16), ("-3", -3), ("0", 0), ("9223372036854775807", 2**63 - 1)],
)
def test_integers_in_every_notation_are_read(text, value):
    assert integer_of(text) == value == int(number_of(text)) or value > 2**53


@pytest.mark.parametrize(
    "text", ["inf", "nan", "1.5", "0x" + "f" * 300, "9" * 5000, "9223372036854775808", "08", ""]
)
def test_values_that_are_no_64_bit_integers_are_refused(text):
    with pytest.raises(FormatError, match="is not a 64-bit integer"):
        integer_of(text)
    with pytest.raises(FormatError, match="dim: .* is not a 64-bit integer"):
        parse("dim: 1 dim: %s" % (text or '""')).integers("dim")


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), ("2f", 2.0), (".5", 0.5), ("inf", float("inf")), ("1e3", 1e3)]
)
def test_numbers_in_every_notation_are_read(text, value):
    assert number_of(text) == value


@pytest.mark.parametrize("text", ["x", "0x" + "f" * 300, "9" * 400])
def test_values_that_are_no_numbers_are_refused(text):
    with pytest.raises(FormatError):
        number_of(text)


@given(st.text(alphabet=st.characters(blacklist_categories=("Cs",))), st.sampled_from("\"'"))
def test_quoted_text_reads_back_the_same(content, mark):
    literal = quote(content, mark)
    assert unquote(literal) == content
    assert parse("a: %s" % literal).text("a") == content


@given(st.text(alphabet="a1 :{}<>[],;#'\"\\\n-./", max_size=40))
def test_any_text_parses_or_is_refused_with_its_line(text):
    try:
        root = parse(text)
    except FormatError as error:
        assert "line" in error.message
    else:
        for field in root.fields:
            assert text[field.start : field.end].startswith(field.name[:1])
