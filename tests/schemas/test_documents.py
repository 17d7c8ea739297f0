# ruff: noqa: E501  a case a line
"""Mistakes in a document that a user wrote: place and words."""

from __future__ import annotations

import json

import jsonschema
import pytest

from goldwatch.base.errors import FormatError
from goldwatch.schemas.documents import check_document, mistakes, read_document, schema_of


@pytest.mark.parametrize(
    "schema, value, told",
    [
        ({"type": "string"}, 5, [("type", (), "the document must be a string, it is a number (5)", '"5"')]),
        ({"type": ["string", "null"], "enum": ["a", None]}, [], [("type", (), "the document must be a string or null, it is a list", "write a string or null")]),
        ({"type": "boolean"}, "on", [("type", (), "the document must be true or false, it is the string 'on'", "true")]),
        ({"type": "integer"}, True, [("type", (), "the document must be a whole number, it is true", "write a whole number")]),
        ({"type": "array"}, "x", [("type", (), "the document must be a list, it is the string 'x'", "put it into a list: [ … ]")]),
        ({"enum": ["alpha", "beta"]}, "alhpa", [("enum", (), "the document: 'alhpa' is not allowed; did you mean 'alpha'?", '"alpha"')]),
        ({"enum": ["alpha", "beta"]}, "", [("enum", (), "the document is empty", "one of: alpha, beta; or leave the field out")]),
        ({"enum": ["on", "off"]}, True, [("enum", (), "the document: True is not allowed", "one of: on, off")]),
        ({"minLength": 1, "pattern": "a"}, "", [("minLength", (), "the document is empty", "write a value")]),
        ({"maxLength": 2}, "abc", [("maxLength", (), "the document has 3 characters, at most 2 are allowed", "write a shorter one")]),
        ({"pattern": "^a", "description": "an a"}, "b", [("pattern", (), "the document: 'b' has a form that is not allowed", "an a")]),
        ({"minItems": 1}, [], [("minItems", (), "the document is an empty list", "leave the field out, or list values")]),
        ({"minItems": 2}, [1], [("minItems", (), "the document has 1 entries, at least 2 are needed", "list at least 2")]),
        ({"maxItems": 1}, [1, 2], [("maxItems", (), "the document has 2 entries, at most 1 are allowed", "keep at most 1 entries")]),
        ({"minimum": 1}, 0, [("minimum", (), "the document is 0, at least 1 is needed", "write 1 or more")]),
        ({"maximum": 1}, 2, [("maximum", (), "the document is 2, at most 1 is allowed", "write 1 or less")]),
        ({"exclusiveMinimum": 0}, 0, [("exclusiveMinimum", (), "the document is 0, more than 0 is needed", "write more than 0")]),
        ({"minProperties": 1, "properties": {"a": {}}}, {}, [("minProperties", (), "the document has 0 fields, at least 1 are needed", "add one of: a")]),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, [("maxProperties", (), "the document has 2 fields, at most 1 are allowed", "keep one of: a, b")]),
        ({"anyOf": [{"type": "number"}, {"enum": ["Infinity"]}]}, "x",
         [("anyOf", (), 'the document must be a number or "Infinity", it is the string \'x\'', 'write a number or "Infinity"')]),
        ({"required": ["a", "b"]}, {}, [("required", (), "a is missing in the document", "add a"), ("required", (), "b is missing in the document", "add b")]),
        ({"additionalProperties": False, "properties": {"layers": {}}}, {"layres": 1, "x": 2},
         [("additionalProperties", ("layres",), "the document has no field 'layres'; did you mean 'layers'?", "layers"),
          ("additionalProperties", ("x",), "the document has no field 'x'", "its fields are: layers")]),
        ({"propertyNames": {"enum": ["Cosine"]}}, {"cosin": 1, "Cosine": 2},
         [("propertyNames", ("cosin",), "the document has no field 'cosin'; did you mean 'Cosine'?", "Cosine")]),
        ({"items": {"properties": {"a": {"type": "string"}}}}, [{}, {"a": 1}], [("type", (1, "a"), "[1].a must be a string, it is a number (1)", '"1"')]),
        ({"const": 1}, 2, [("const", (), "the document: 1 was expected", "correct it")]),
    ],
)  # fmt: skip
def test_a_mistake_is_described_with_place_words_and_correction(schema, value, told):
    found = mistakes(value, schema)
    assert [(one.keyword, one.path, one.message, one.fix) for one in found] == told
    assert not jsonschema.Draft7Validator(schema).is_valid(value)


def test_mistakes_in_a_file_are_reported_with_their_places():
    text = b'{\n "models": [{"layers": ["a", 7]}],\n "mode": "Al",\n "lvel": "op"}'
    with pytest.raises(FormatError) as caught:
        read_document(text, "plan", "p.json")
    assert caught.value.message.startswith("p.json: ")
    for words in (
        "line 2, column 30: models[0].layers[1] must be a string, it is a number (7)",
        "line 3, column 10: mode: 'Al' is not allowed; did you mean 'all'?",
        "line 4, column 2: the document has no field 'lvel'; did you mean 'level'?",
    ):
        assert words in caught.value.message
    assert read_document(b'\xef\xbb\xbf{"mode": "all"}', "plan", "p.json") == {"mode": "all"}


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"mode": "all",\n "mode": "all"}', "line 2, column 2: the key 'mode' is used twice"),
        (b'{"mode": "all",}', "line 1, column"),
        (b'{"mode": "all"', "; } is missing"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 2000, "nested 2000 deep"),
        (b" " * (10 * 1024 * 1024 + 1), "larger than 10 MiB"),
        (b'{"mode": NaN}', "is no JSON value"),
    ],
)
def test_text_that_is_not_json_is_refused_with_its_line(data, words):
    with pytest.raises(FormatError, match="p.json: line") as caught:
        read_document(data, "plan", "p.json")
    assert words in caught.value.message and caught.value.hint


def test_of_many_mistakes_a_few_are_shown_and_all_are_counted():
    with pytest.raises(FormatError, match=r"\(and 97 more\)"):
        read_document(json.dumps({"stats": [1] * 100}).encode(), "plan", "p.json")
    found = mistakes({"stats": ["max"] * 50}, schema_of("plan"))
    assert len(found) == 50 and sum("did you mean" in one.message for one in found) == 20


def test_a_parsed_document_is_checked():
    check_document({"mode": "all"}, "plan", "the plan")
    with pytest.raises(FormatError, match="the plan: mode: 'x' is not allowed"):
        check_document({"mode": "x"}, "plan", "the plan")
