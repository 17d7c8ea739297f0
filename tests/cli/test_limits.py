"""``goldwatch limits`` and the options ``--limit`` and ``--limits``."""

from __future__ import annotations

import json

import jsonschema
import pytest
from click.testing import CliRunner
from in_process import run_here

from goldwatch.base.errors import InputError, UsageError
from goldwatch.cli.limits import limits
from goldwatch.cli.user_code_options import read_limits
from goldwatch.judging.limits import VENDOR, Limits, Subject, parse_limits
from goldwatch.schemas import load_schema


def table(*arguments):
    result = CliRunner().invoke(limits, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def write(tmp_path, text):
    path = tmp_path / "limits.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return str(path)


def test_the_table_names_every_limit():
    text = table("--limit", "type=Softmax:KullbackLeiblerDivergence<0.01")
    assert "RelativeEuclideanDistance" in text and "< 0.03" in text and "dtype=bfloat16" in text
    assert ["type=Softmax", "KullbackLeiblerDivergence", "<", "0.01"] in [
        line.split() for line in text.splitlines()
    ]
    assert "Where statistics were dumped, they decide: LeastDistance<0.03, " in text.replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--limits", "vendor"),
        (
            "--limit",
            "op=a*:CosineSimilarity=0.5",
            "--limit",
            "op=*b:CosineSimilarity=0.4",
            "--limit",
            "op=a*:MaxAbsoluteError<1",
        ),
        ("--limit", "dtype=float*:DifferentElements=0.5", "--limit", "MaxRelativeError<inf"),
        ("--limit", "MaxAbsoluteError=0", "--limit", "type=Conv2D:CosineSimilarity>=0.75"),
    ],
)
def test_the_json_of_limits_is_a_limits_file(tmp_path, arguments):
    text = table("--format", "json", *arguments)
    jsonschema.Draft7Validator(load_schema("limits")).validate(json.loads(text))
    path = write(tmp_path, text)
    assert json.loads(table("--format", "json", "--limits", path)) == json.loads(text)
    assert table("--limits", path) == table(*arguments)


def test_a_limits_file_changes_the_defaults_unless_it_names_its_base(tmp_path):
    path = write(
        tmp_path,
        '{"RelativeEuclideanDistance": {"<": 0.5}, "rules": [{"type": "Soft*", '
        '"MaxAbsoluteError": {"<": 1}}]}',
    )
    assert read_limits(path, ()) == parse_limits(
        ["RelativeEuclideanDistance=0.5", "type=Soft*:MaxAbsoluteError<1"]
    )
    path = write(tmp_path, '{"base": "vendor", "RootMeanSquareError": {"<": 2}}')
    assert read_limits(path, ()) == parse_limits(["RootMeanSquareError<2"], Limits(VENDOR))
    path = write(tmp_path, '{"base": "none", "RootMeanSquareError": {"<": 2}}')
    found = read_limits(path, ["CosineSimilarity=0.5"])
    assert [str(limit) for limit in found.entries] == [
        "RootMeanSquareError<2",
        "CosineSimilarity>0.5",
    ]
    assert read_limits("vendor", ()) == Limits(VENDOR)


def test_a_type_limit_of_a_file_overrides_a_plain_one_of_the_command_line(tmp_path):
    path = write(tmp_path, '{"rules": [{"type": "Softmax", "CosineSimilarity": {">": 0.5}}]}')
    chosen = read_limits(path, ["CosineSimilarity=0.7", "type=Relu:CosineSimilarity=0.6"])
    found = [
        chosen.for_subject(Subject("bfloat16", name, "a"))[0].value
        for name in ("Softmax", "Relu", "Add")
    ]
    # A limit for every tensor takes the place of all that stood before it.
    assert found == [0.7, 0.6, 0.7]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "empty"),
        ("{", "line 1"),
        ("[]", "an object was expected"),
        (b"\xff\xfe{", "UTF-16"),
        (
            '{"CosinSimilarity": {">": 1}}',
            "line 1, column 2: unknown metric or key 'CosinSimilarity'",
        ),
        ('{\n "CosineSimilarity": {"=>": 1}}', "line 2, column 23: unknown key '=>'"),
        (
            '{\n "MaxAbsoluteError": {"<": -1}}',
            "line 2, column 22: no tensor can meet it: MaxAbsoluteError is never < -1",
        ),
        (
            '{"rules": [{"op": "a",\n"CosineSimilarity": {">": 2}}]}',
            "line 2, column 21: no tensor can meet it",
        ),
        (
            '{"rules": [{"op": "a",\n"CosineSimilarity": {"<": 0.9}}]}',
            "line 2, column 21: it is the wrong way round",
        ),
        ('{"CosineSimilarity": {">": "x"}}', 'a number, "Infinity" or "-Infinity" was expected'),
        ('{"CosineSimilarity": {}}', "one comparison is expected"),
        ('{"CosineSimilarity": {">": 0, "<": 1}}', "one comparison is expected"),
        (
            '{"CosineSimilarity": {">": 1}, "CosineSimilarity": {">": 0}}',
            "CosineSimilarity is there twice",
        ),
        (
            '{"rules": [\n{"CosineSimilarity": {">": 1}}]}',
            "line 2, column 1: rules.0: a rule names one of",
        ),
        ('{"rules": [{"type": "a", "op": "b"}]}', "a rule names one of"),
        ('{"rules": [{"type": "a", "Cosine": {">": 1}}]}', "unknown metric or key 'Cosine'"),
        ('{"base": "mine"}', "one of default, vendor, none"),
        ('{"CosineSimilarity": {">": NaN}}', "NaN"),
    ],
)
def test_a_broken_limits_file_is_refused_with_the_place(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        read_limits(write(tmp_path, text), ())
    assert (
        words in caught.value.message
        and "limits.json" in caught.value.message
        and caught.value.exit_code == 4
    )


def test_a_missing_limits_file_is_refused(tmp_path):
    with pytest.raises(InputError) as caught:
        read_limits(str(tmp_path / "none.json"), ())
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    "text", ["CosineSimilarity", " MaxAbsoluteError ", "type=Softmax:CosineSimilarity"]
)
def test_a_limit_cut_off_by_the_shell_is_refused_with_a_hint_to_quote(text):
    with pytest.raises(UsageError) as caught:
        read_limits(None, [text])
    assert (
        "quote" in caught.value.hint
        and text.strip() in caught.value.hint
        and caught.value.exit_code == 2
    )


def test_the_message_about_a_wrong_limit_names_the_option():
    with pytest.raises(UsageError) as caught:
        read_limits(None, ["CosinSimilarity=0.9"])
    assert caught.value.message == "--limit CosinSimilarity=0.9: unknown metric 'CosinSimilarity'"


def test_limits_for_users_metrics_are_shown_and_checked(tmp_path):
    folder = tmp_path / "mine" / "algorithm"
    folder.mkdir(parents=True)
    (folder / "alg_Bias.py").write_text("raise SystemExit('never run')")
    own = ("--custom", str(tmp_path / "mine"))
    words = (*own, "--limit", "Bias<1", "--limit", "type=Conv2D:Bias>0.5")
    assert "every tensor          Bias                       < 1\n" in table(*words)
    text = table("--format", "json", *words)
    path = write(tmp_path, text)
    assert table("--format", "json", *own, "--limits", path) == text
    for given in (("--limit", "Bias<1"), ("--limits", path)):
        result = CliRunner().invoke(limits, list(given))
        assert "'Bias'" in result.exception.message and "of your own" in result.exception.hint


def test_a_default_limit_of_a_type_that_is_given_holds_before_a_cast_only(tmp_path):
    given = ["--limit", "dtype=bfloat16:RelativeEuclideanDistance<0.01"]
    lines = run_here(["goldwatch", "limits", *given], tmp_path).stdout.splitlines()
    told = [
        line.split("Distance")[1].strip() for line in lines if "bfloat16  " in line and "Eu" in line
    ]
    assert told == ["< 0.2  (before a Cast only)", "< 0.01"]
