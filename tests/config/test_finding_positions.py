"""Line, column and pointer of findings, and the text of suggestions."""

from __future__ import annotations

import json

import pytest

from goldwatch.config.check import Checker
from goldwatch.config.dump_steps import step_problems
from goldwatch.config.finding import Findings
from goldwatch.config.json_text_errors import read_json
from goldwatch.config.key_rules import nearest_word
from goldwatch.config.models import Models
from goldwatch.schemas.jsontext import MAX_BYTES


def check(text, name="acl.json"):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    return Checker(Models([]), elsewhere=True).check(name, data).findings


def places(text, rule, name="acl.json"):
    return [(finding.line, finding.column) for finding in check(text, name) if finding.rule == rule]


TEXT = """{
  "dump": {
    "dump_path": "/d",
    "d\u00e4\U0001f600": 1, "dump_mode":
       "Al",
    "dump_list": [{"layer": ["a",
      "\\u0061", 7]}, {"layer": []}]
  }
}
"""


def test_values_and_keys_are_located_in_characters():
    assert places(TEXT, "enum") == [(5, 8)]
    assert places(TEXT, "unknown-key") == [(4, 5)]
    assert places(TEXT, "type") == [(7, 17)]
    assert places(TEXT, "empty-list") == [(7, 32)]


def test_missing_fields_are_located_at_their_parent():
    assert places('{"a": 1,\n "dump": {"dump_list": [{}]}}', "dump-path-missing") == [(2, 10)]
    assert places('\n {"a": 1}', "no-dump-section") == [(2, 2)]


def test_findings_are_located_in_files_with_crlf_and_bom():
    assert places('\ufeff{\r\n"dump": {"dump_path": 1}}', "type") == [(2, 23)]
    assert places('\ufeff{"dump": {"dump_path": 1}}', "type") == [(1, 24)]


def test_duplicate_keys_are_located_at_the_repetition():
    assert places(
        '{"dump": {"dump_path": "/a",\n"x": {"y": 1,\n "y": 2}, "dump_path": "/b"}}',
        "duplicate-key",
    ) == [(3, 2), (3, 11)]


def test_syntax_errors_are_located_by_line():
    assert places('{\n"dump": {},\n}', "json-trailing-comma")[0][0] in (2, 3)
    assert places("{\n // x\n}", "json-comment") == [(2, 2)]
    assert places(b'{"a":\n "\xc3\xa4\xff"}', "not-utf8") == [(2, 4)]
    assert places('{"a":\n NaN}', "json-syntax") == [(2, 2)]
    assert places('{"a": "NaN",\n "b": NaN}', "json-syntax") == [(2, 7)]


def test_a_utf_16_file_is_named_as_such():
    assert "UTF-16" in check('{"dump": {}}'.encode("utf-16"))[0].message


def test_files_too_large_or_too_deep_are_refused():
    assert [f.rule for f in check(b" " * (MAX_BYTES + 1))] == ["file-too-large"]
    text = b'{"dump": {"dump_path": "/d", "dump_list": [{}]}}'
    assert [f.rule for f in check(text + b" " * (MAX_BYTES - len(text)))] == ["dump-path-not-found"]
    assert [f.rule for f in check("{\n" + '"a": {' * 10 + "}" * 11)] == ["file-too-deep"]
    assert check("{\n" + '"a": {' * 10 + "}" * 11)[0].line == 2


def test_columns_in_scripts_count_characters():
    script = (
        'x = "\u00e4\u00e4"; DumpConfig(enable_dump=True, dump_path="/d", dump_step="\u00e4")\n'
    )
    assert places(script, "step-syntax", "a.py") == [(1, script.index('"\u00e4")') + 1)]
    script = "def f():\n\tDumpConfig(\n\t  enable_dump=True)\n"
    assert places(script, "dump-path-missing", "a.py") == [(2, 2)]


def test_scripts_are_read_in_their_declared_encoding():
    latin = '# -*- coding: latin-1 -*-\n# \u00e4\nf(DumpConfig(True, "/\u00e4"))\n'.encode(
        "latin-1"
    )
    assert [f.rule for f in check(latin, "a.py")] == ["dump-path-not-found"]
    assert [f.rule for f in check(b"# \xff\nDumpConfig()\n", "a.py")] == ["not-utf8"]
    assert [f.rule for f in check(b"x = '\0'\n", "a.py")] == ["python-syntax"]
    assert [f.rule for f in check(b"\xef\xbb\xbfDumpConfig()\r\n", "a.py")] == ["all-switches-off"]


def test_a_dump_config_that_dumps_nothing_beside_one_that_does_is_no_fault():
    off, on = "f(DumpConfig(enable_dump=False))\n", 'f(DumpConfig(on, "./dump"))\n'
    for script in (off, off * 2):
        assert {f.rule for f in check(script, "a.py")} == {"all-switches-off"}
    for script in (off + "if over:\n    " + on, "if over:\n    %selse:\n    %s" % (on, off)):
        assert "all-switches-off" not in {f.rule for f in check(script, "a.py")}


def test_pointers_escape_slash_and_tilde():
    found = [
        f.pointer
        for f in check('{"dump": {"dump_path": "/d", "a/b~": 1, "dump_list": [{}]}}')
        if f.rule == "unknown-key"
    ]
    assert found == ["/dump/a~1b~0"]


def test_only_twenty_keys_get_a_suggestion():
    keys = ", ".join('"dump_mode%d": 1' % index for index in range(30))
    found = [
        f
        for f in check('{"dump": {"dump_path": "/d", "dump_list": [{}], %s}}' % keys)
        if f.rule == "unknown-key"
    ]
    assert len(found) == 30
    assert sum("did you mean" in f.message for f in found) == 20


def test_only_twenty_values_get_a_suggestion():
    text = json.dumps(
        {
            "dump": {
                "dump_path": "/d",
                "dump_list": [{}],
                "dump_data": "stats",
                "dump_stats": ["max"] * 30,
            }
        }
    )
    found = [f for f in check(text) if f.rule == "enum"]
    assert (len(found), sum("did you mean" in f.message for f in found)) == (30, 20)


def test_the_nearest_word_is_suggested():
    assert nearest_word("dump-Path", ["dump_path", "dump_mode"]) == "dump_path"
    assert nearest_word("zzz", ["dump_path"]) is None


def test_corrected_steps_have_no_problems():
    for text in (
        "5|",
        "5-",
        "-5",
        "5||10",
        "10-5",
        "5-5",
        "1, 2",
        " 3 ",
        "99999999999",
        "1-2-3",
        "x",
        "|".join("1" * 200),
        "\u0665",
        "7-99999999999999999999999",
    ):
        for _, _, fix in step_problems(text):
            assert step_problems(fix) == [], text


@pytest.mark.parametrize(
    "text", ['{"a": [1, {"b": "x\\"y", "c": []}], "d": {}}', "[]", '"a"', "3", " [[], {}] "]
)
def test_positions_equal_those_of_the_standard_json_decoder(text):
    document = read_json(text.encode(), Findings())
    decoder = json.JSONDecoder()

    def walk(value, path):
        line, column = document.place(path)
        assert line == 1
        assert decoder.raw_decode(text, column - 1)[0] == value
        items = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        for key, inner in items:
            walk(inner, path + (key,))
            if isinstance(value, dict):
                _, key_column = document.place(path + (key,), True)
                assert decoder.raw_decode(text, key_column - 1)[0] == key

    walk(json.loads(text), ())
