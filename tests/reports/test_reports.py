"""JUnit XML by Jenkins' schema, Markdown with escaped names, and the table and document of a
comparison.
"""

from __future__ import annotations

import math
import re
from importlib import import_module
from xml.etree import ElementTree

import pytest
from junit_form import check_schema

from goldwatch.base.notes import note
from goldwatch.dumps.place import Place
from goldwatch.judging.diagnosis.summary import summarise
from goldwatch.judging.limits import Limits, parse_limits
from goldwatch.reports.csv_cells import Columns
from goldwatch.reports.csv_tables import CsvFile
from goldwatch.reports.junit import JunitFile
from goldwatch.reports.markdown import MOST_CHARACTERS, MarkdownFile, WorstRows, code, plain
from goldwatch.reports.pages.report import HtmlFile
from goldwatch.reports.report_context import ReportContext, write_files
from goldwatch.reports.report_formats import REPORT_FORMATS
from goldwatch.reports.result_json import JsonFile
from goldwatch.store.json_numbers import plain_tree

NAUGHTY = (
    "a|b`c``d<script>&amp;@team #12 \x00\x1b[31m\ud800\udcff\ufffe\u202e*_[x](http://e.x)\n# "
    "h\r|~~s~~ :tada: www.e.x $x$ !1 'q\" ]]>"
)


def told_of(rows, **changes):
    summary = summarise(rows, len({row.op for row in rows}), Limits())
    values = {
        "out": "out",
        "started": "20240102030405",
        "finished": True,
        "summary": plain_tree(summary.document()),
        "sentence": summary.sentence,
        "inputs": {"target": "t", "golden": "g"},
        "limits": Limits(),
        "columns": Columns(),
        "places": tuple(dict.fromkeys(row.place for row in rows)),
    }
    return ReportContext(**{**values, **changes})


def suspect(op, **changes):
    explanation = {
        "kind": "shift",
        "share": 1.0,
        "sentence": "%s is shifted" % op,
        "next": "look at %s" % op,
    }
    values = {
        "op": op,
        "op_type": "T",
        "tensor": op + ":output:0",
        "place": Place()._asdict(),
        "score": 9.5,
        "confidence": "high",
    }
    return {**values, "evidence": "%s differs" % op, "explanations": [explanation], **changes}


def write(tmp_path, kind, rows, told):
    path = str(tmp_path / "file")
    write_files(rows, {path: kind}, told)
    with open(path, encoding="utf-8", newline="") as stream:
        return stream.read()


def test_junit_has_a_suite_for_each_place_and_a_case_for_each_op(tmp_path, make_row):
    rows = []
    for step in ("1", "2"):
        place = {
            "device": "0",
            "model": "m",
            "model_id": "1",
            "step": step,
            "time": "20240102030405",
        }
        rows += [make_row(number, **place) for number in range(4)]
        rows += [
            make_row(4, verdict="fail", reason="far off", **place),
            make_row(5, verdict="not_compared", reason="no golden", **place),
        ]
        rows += [
            make_row(8, verdict="not_compared", reason="why", **place),
            make_row(9, verdict="expected_absent", reason="so", **place),
        ]
        rows += [
            make_row(12, **place),
            make_row(13, kind="input", verdict="not_compared", reason="cut", **place),
        ]
    told = told_of(rows)
    places = dict.fromkeys(row.place for row in rows)
    told.summary["suspects"] = [
        suspect(op, place=place._asdict()) for place in places for op in ("op1", "op0")
    ]
    tree = ElementTree.fromstring(write(tmp_path, JunitFile, rows, told))
    check_schema(tree)
    assert [suite.get("name") for suite in tree] == [
        "device 0, model m, model_id 1, step %s" % step for step in "12"
    ]
    for suite in tree:
        assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
            "4",
            "1",
            "0",
            "1",
        ]
        assert suite.get("timestamp") == "2024-01-02T03:04:05"
        good, bad, left, half = suite.findall("testcase")
        assert [case.get("name") for case in (good, bad, left, half)] == [
            "op0",
            "op1",
            "op2",
            "op3",
        ]
        assert [child.tag for case in (good, bad, left, half) for child in case] == [
            "system-out",
            "failure",
            "skipped",
            "system-out",
        ]
        failure = bad[0].text.split("\n")
        assert (
            failure[0] == "op1:output:0: far off"
            and failure[-1] == "op1:output:1: not compared: no golden"
        )
        assert (
            "suspect, confidence high: op1 differs" in failure
            and "shift: op1 is shifted" in failure
            and "next: look at op1" in failure
        )
        assert (
            left[0].get("message")
            == "op2:output:0: not compared: why; op2:output:1: absent as expected: so"
        )
        assert "op0 differs" in good[0].text and half[0].text == "op3:output:1: not compared: cut"


def test_junit_escapes_any_name(tmp_path, make_row):
    rows = [
        make_row(
            0,
            op=NAUGHTY,
            tensor=NAUGHTY,
            op_type=NAUGHTY,
            reason=NAUGHTY,
            verdict="fail",
            device=NAUGHTY,
        )
    ]
    text = write(tmp_path, JunitFile, rows, told_of(rows, sentence=NAUGHTY))
    check_schema(ElementTree.fromstring(text))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", text)
    (case,) = ElementTree.fromstring(text).iter("testcase")
    assert case.get("name").startswith(
        "a|b`c``d<script>&amp;@team #12 \\x00\\x1b[31m\\ud800\\xff\\ufffe\\u202e*_[x]"
    )


def test_junit_of_a_run_without_rows_is_not_green(tmp_path):
    tree = ElementTree.fromstring(write(tmp_path, JunitFile, [], told_of([])))
    check_schema(tree)
    assert [(suite.get("tests"), suite.get("errors")) for suite in tree] == [("1", "1")]
    assert {entry.get("name"): entry.get("value") for entry in tree.iter("property")}[
        "finished"
    ] == "yes"


def test_two_times_of_one_device_are_two_suites(tmp_path, make_row):
    rows = [make_row(0, device="0", time=time) for time in ("20240102030405", "20250102030405")]
    names = [
        suite.get("name")
        for suite in ElementTree.fromstring(write(tmp_path, JunitFile, rows, told_of(rows)))
    ]
    assert names == ["device 0, time 20240102030405", "device 0, time 20250102030405"]


def test_markdown_tells_verdict_suspects_and_the_ten_worst_rows(tmp_path, make_row):
    rows = [
        make_row(number, verdict="fail", metrics={"RelativeEuclideanDistance": number / 10})
        for number in range(1, 14)
    ]
    rows += [
        make_row(50, verdict="not_compared", reason="no golden"),
        make_row(51),
        make_row(52, verdict="expected_absent"),
    ]
    told = told_of(rows, commands={"op7": "goldwatch compare-op x"})
    told.summary["suspects"] = [suspect("op7"), suspect("op_8")]
    text = write(tmp_path, MarkdownFile, rows, told)
    assert text.startswith("## goldwatch: FAIL\n")
    assert (
        "### 2 suspects" in text
        and "1. `op7` (`T`), score 10, confidence high: op7 differs" in text
    )
    assert "```sh\ngoldwatch compare-op x\n```" in text and "op\\_8 is shifted" in text
    worst = text[text.index("### The 10 worst rows") : text.index("<details>")]
    assert re.findall(r"`op\d+:output:\d`", worst) == [
        "`op%d:output:%d`" % divmod(number, 4) for number in range(13, 3, -1)
    ]
    assert re.findall("<summary>(.*)</summary>", text) == [
        "3 more rows outside their limits", "1 row not compared", "1 row that passes",
        "1 row absent as expected",
    ]  # fmt: skip
    assert text.count("<details>") == text.count("</details>") == 4 and "Left out" not in text


def test_what_mends_a_warning_stands_behind_it(tmp_path, make_row):
    report = told_of([make_row(1)])
    mending = {"code": "two-builds", "sentence": "two builds", "next": "give -f MODEL.json"}
    report.summary["warnings"] = [mending]
    for form in (MarkdownFile, JunitFile):
        text = write(tmp_path, form, [make_row(1)], report)
        assert "two builds; next: give" in text, form


def test_markdown_is_bounded_and_counts_the_rest(tmp_path, make_row):
    rows = [make_row(number, verdict="fail", reason="r" * 3000) for number in range(30)] + [
        make_row(number) for number in range(30, 5000)
    ]
    told = told_of(rows)
    told.summary["suspects"] = [suspect("o" * 5000 + str(number)) for number in range(200)]
    told.summary["warnings"] = [{"code": "folders", "sentence": "w" * 1000}] * 3
    text = write(tmp_path, MarkdownFile, rows, told)
    assert 40000 < len(text) <= MOST_CHARACTERS
    left = dict(re.findall(r"(\d+) ([a-z ]+)", text[text.rindex("Left out") :])[::-1])
    left = {words: int(count) for count, words in left.items()}
    shown = {
        "suspects": len(re.findall(r"^\d+\. ", text, re.M)),
        "rows that pass": text.count("| pass |"),
    }
    assert (
        left["suspects"] + shown["suspects"] == 200
        and left["rows that pass"] + shown["rows that pass"] == 4970
    )
    assert left.get("rows outside their limits", 0) + text.count("| **FAIL** |") == 30
    assert left.get("warnings", 0) + text.count("\n- w") == 3


def test_markdown_of_an_unfinished_run_says_so(tmp_path, make_row):
    rows = [make_row(0)]
    assert write(tmp_path, MarkdownFile, rows, told_of(rows, finished=False)).startswith(
        "## goldwatch: PASS (not finished)\n"
    )


def test_junit_of_an_unfinished_run_is_not_green(tmp_path, make_row):
    rows = [make_row(0)]
    tree = ElementTree.fromstring(
        write(tmp_path, JunitFile, rows, told_of(rows, finished=False, sentence="why <not>"))
    )
    check_schema(tree)
    (suite,) = tree
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "2",
        "0",
        "1",
        "0",
    ]
    assert [
        (case.get("name"), [each.get("message") for each in case])
        for case in suite.iter("testcase")
    ][-1] == (
        "the run has not finished",
        ["why <not>"],
    )


def test_markdown_escapes_markup_in_names(tmp_path, make_row):
    rows = [
        make_row(
            0,
            op=NAUGHTY,
            tensor=NAUGHTY,
            op_type=NAUGHTY,
            reason=NAUGHTY,
            verdict="fail",
            device=NAUGHTY,
        ),
        make_row(1),
    ]
    told = told_of(rows, sentence=NAUGHTY, commands={NAUGHTY: NAUGHTY})
    told.summary["suspects"] = [suspect(NAUGHTY, op_type=NAUGHTY)]
    text = write(tmp_path, MarkdownFile, rows, told)
    lines = re.sub(r"(`{3,})sh\n.*?\n\1\n", "", text, flags=re.S)
    # What is in a span of code renders as it is; a bar in a table's cell must be escaped in it as
    # well.
    prose = re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", lines)
    assert "<script" not in prose and not re.search(
        r"@\w|(?<!\\)\||(?<!&)#\d|:tada:|://|www\.", re.sub(r"^\|.*\|$", "", prose, flags=re.M)
    )
    for line in [line for line in lines.split("\n") if line.startswith("| ")]:
        assert len(re.findall(r"(?<!\\)\|", line)) == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words, 5 % of it: (x) - y.", "plain words, 5 % of it: (x) - y."),
        ("conv_1:output:0", "conv\\_1:output:0"),
        ("1. one", "1\\. one"),
        ("- two", "\\- two"),
        ("#3", "#&#8203;3"),
        ("@me", "@&#8203;me"),
        ("GH-7", "GH-&#8203;7"),
        ("a:car:b", "a:&#8203;car:b"),
        ("<b>", "&lt;b&gt;"),
        ("x\ny", "x\\\\x0ay"),
    ],
)
def test_plain_text_is_escaped_for_markdown(text, expected):
    assert plain(text) == expected


def test_code_in_markdown_may_hold_backticks():
    assert (
        code("a") == "`a`"
        and code("a`b") == "``a`b``"
        and code("`") == "`` ` ``"
        and code("a|b", table=True) == "`a\\|b`"
    )


def test_the_csv_table_of_several_places_names_them(tmp_path, make_row):
    rows = [make_row(0, device="0", step="1"), make_row(0, device="=1", step="1")]
    lines = write(tmp_path, CsvFile, rows, told_of(rows)).splitlines()
    assert lines[0].startswith("Time,Device,Model,ModelId,Step,Index,OpType")
    assert [line.split(",")[:6] for line in lines[1:]] == [
        ["NaN", "0", "NaN", "NaN", "1", "0"],
        ["NaN", "'=1", "NaN", "NaN", "1", "0"],
    ]
    assert write(tmp_path, JsonFile, rows, told_of(rows, comparison="replay")).startswith(
        '{"comparison": "replay",\n"summary"'
    )


@pytest.mark.parametrize("comparison", ["", "replay"])
@pytest.mark.parametrize(
    "places",
    [
        [{}],
        [{"device": "0"}, {"device": "1"}],
        [{"device": "0", "host": "a"}, {"device": "0", "host": "b"}],
    ],
)
def test_the_first_bytes_of_every_report_are_recognised(tmp_path, make_row, places, comparison):
    """A later report takes its place; nothing else is replaced."""
    rows = [make_row(number, **place) for number, place in enumerate(places)]
    for name, each in REPORT_FORMATS.items():
        module, _, kind = each.writer.rpartition(".")
        text = write(
            tmp_path,
            getattr(import_module("goldwatch." + module), kind),
            rows,
            told_of(rows, comparison=comparison),
        )
        assert text.encode("utf-8").startswith(each.heads), (name, text[:80])


def test_the_worst_rows_are_ordered_by_distance(make_row):
    numbers = [0.5, math.nan, 0.25, math.inf, None, 0.5]
    rows = [
        make_row(place, verdict="fail", metrics={"RelativeEuclideanDistance": number})
        for place, number in enumerate(numbers)
    ]
    worst = WorstRows(4)
    for row in rows:
        worst.add(row)
    assert [row.tensor_index + 4 * row.index for row in worst.rows] == [
        1,
        3,
        4,
        0,
    ] and worst.total == 6
    passing = WorstRows(1)
    passing.add(make_row(0, metrics={}))
    passing.add(make_row(1, metrics={"RelativeEuclideanDistance": 1e-9}))
    assert passing.rows[0].tensor == "op0:output:1"


def test_names_of_any_length_leave_metric_and_suspect_readable(tmp_path, make_row):
    ops = ["x" * 100000 + which for which in ("/one", "/two")]
    rows = [
        make_row(number, op=op, tensor=op + ":output:0", verdict="fail")
        for number, op in enumerate(ops)
    ]
    told = told_of(
        rows,
        sentence="{0} (Relu) is the first operator outside its limits: {0}:output:0 "
        "has RMSE 5".format(ops[0]),
    )
    told.summary["suspects"] = [suspect(ops[0])]
    told.commands[ops[0]] = "goldwatch compare-op dump golden " + ops[0]
    text = write(tmp_path, MarkdownFile, rows, told)
    assert len(text) < 5000 and "Left out" not in text
    assert (
        "is the first operator outside its limits" in text
        and "has RMSE 5" in text
        and "1 suspect" in text
    )
    assert text.count("/one:output:0`") == text.count("/two:output:0`") == 1


def junit_of(tmp_path, rows, **changes):
    tree = ElementTree.fromstring(write(tmp_path, JunitFile, rows, told_of(rows, **changes)))
    check_schema(tree)
    return tree


def outcomes(suite):
    return {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}


def test_junit_of_a_run_that_compared_no_output_is_not_green(tmp_path, make_row):
    rows = [make_row(0, kind="input"), make_row(1, verdict="not_compared", reason="no golden")]
    (suite,) = junit_of(tmp_path, rows, sentence="No output was <compared>.")
    assert outcomes(suite) == {"op0": ["skipped"], "the run is incomplete": ["error"]}
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["2", "0", "1", "1"]
    error = suite.find("testcase/error")
    assert (error.get("type"), error.get("message")) == ("incomplete", "No output was <compared>.")


def test_junit_has_one_error_for_an_incomplete_run_of_many_places(tmp_path, make_row):
    rows = [make_row(0, step=step, verdict="not_compared") for step in "123"]
    suites = junit_of(tmp_path, rows)
    assert [suite.get("errors") for suite in suites] == ["0", "0", "1"]


@pytest.mark.parametrize("finished", [True, False])
def test_junit_of_failing_and_of_accepted_missing_rows_has_no_extra_error(
    tmp_path, make_row, finished
):
    """What lacks its file is skipped where it is forgiven; a killed run has its error all the
    same.
    """
    rows = [make_row(0), make_row(4, verdict="not_compared", cause="golden_missing")]
    summary = plain_tree(summarise(rows, 2, Limits(), allow_missing=True).document())
    (suite,) = junit_of(tmp_path, rows, summary=summary, finished=finished)
    assert suite.get("errors") == ("0" if finished else "1")
    (suite,) = junit_of(tmp_path, [*rows, make_row(8, verdict="fail")], finished=finished)
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0" if finished else "1")


@pytest.mark.parametrize(
    "verdicts, outcome",
    [
        ({"input": ["pass"], "output": ["not_compared"]}, "skipped"),
        ({"input": ["pass"], "output": ["pass", "not_compared"]}, "skipped"),
        ({"input": ["pass"], "output": ["expected_absent"]}, "skipped"),
        ({"input": ["not_compared"], "output": ["pass"]}, "system-out"),
        ({"input": ["pass", "pass"]}, None),
        ({"output": ["pass", "expected_absent"]}, "system-out"),
        ({"input": ["fail"], "output": ["not_compared"]}, "failure"),
    ],
)
def test_junit_never_passes_an_op_whose_output_was_not_compared(
    tmp_path, make_row, verdicts, outcome
):
    kinds = [(kind, verdict) for kind, each in verdicts.items() for verdict in each]
    rows = [
        make_row(number, kind=kind, verdict=verdict, reason="why")
        for number, (kind, verdict) in enumerate(kinds)
    ]
    (suite, *_) = junit_of(tmp_path, rows)
    assert outcomes(suite)["op0"] == ([] if outcome is None else [outcome])


def test_junit_explains_a_suspect_whose_output_was_not_compared(tmp_path, make_row):
    rows = [make_row(0), make_row(1, verdict="not_compared", reason="cut")]
    told = told_of(rows)
    told.summary["suspects"] = [suspect("op0", place=rows[0].place._asdict())]
    tree = ElementTree.fromstring(write(tmp_path, JunitFile, rows, told))
    check_schema(tree)
    case = tree.find("testsuite/testcase")
    assert [child.tag for child in case] == ["skipped", "system-out"]
    assert "next: look at op0" in case.find("system-out").text


def test_junit_warns_of_a_limit_that_decided_nothing(tmp_path, make_row):
    rows = [make_row(0, step=step) for step in "12"]
    limits = parse_limits(["op=opp0:CosineSimilarity>0.9"])
    summary = plain_tree(
        summarise(rows, 1, limits, warnings=[note("folders", "a <b> & c\x00")]).document()
    )
    first, second = junit_of(tmp_path, rows, summary=summary)
    said = first.find("system-out").text.split("\n")
    assert said[0] == "a <b> & c\\x00"
    assert any("decided nothing" in line and "the nearest are op0" in line for line in said)
    assert second.find("system-out") is None


def test_suspects_that_make_a_strict_run_fail_are_failures_for_a_ci_system(tmp_path, make_row):
    rows = [make_row(0, step=step) for step in "12"] + [make_row(4, step="2")]
    told = told_of(rows, exit_code=1)
    told.summary["suspects"] = [suspect("op0", place=rows[1].place._asdict())]
    tree = ElementTree.fromstring(write(tmp_path, JunitFile, rows, told))
    check_schema(tree)
    first, second = tree
    # What is said of a suspect stands at its own place alone.
    assert outcomes(first) == {"op0": []} and first.get("failures") == "0"
    assert outcomes(second) == {"op0": ["failure"], "op1": []} and second.get("failures") == "1"
    assert second.find("testcase/failure").get("message") == "suspect: op0 differs"
    head = "## goldwatch: fails (strict), 1 suspect (the rows: PASS)\n"
    assert write(tmp_path, MarkdownFile, rows, told).startswith(head)
    page = write(tmp_path, HtmlFile, rows, told)
    assert '<span class="verdict" data-is="fail">fails (strict), 1 suspect</span>' in page


def test_a_run_whose_program_failed_is_not_green_for_a_ci_system(tmp_path, make_row):
    rows = [make_row(0)]
    told = told_of(rows, exit_code=5)
    told.summary["suspects"] = []
    told.summary["program"] = {"exit_code": None, "signal": "SIGSEGV"}
    tree = ElementTree.fromstring(write(tmp_path, JunitFile, rows, told))
    check_schema(tree)
    assert outcomes(tree) == {"op0": [], "the program failed": ["error"]}
    assert "failed with SIGSEGV" in tree.find("testsuite/testcase/error").get("message")
    facts = {each.get("name"): each.get("value") for each in tree.iter("property")}
    assert facts["failure beside the rows"] == "the program failed with SIGSEGV"


@pytest.mark.parametrize("code", [1, 3, 4])
def test_no_exit_code_but_0_is_green_for_a_ci_system(tmp_path, make_row, code):
    rows = [make_row(0)]
    summary = dict(told_of(rows).summary, suspects=[])
    (suite,) = junit_of(tmp_path, rows, summary=summary, exit_code=code)
    assert outcomes(suite)["the run ended with exit code %d" % code] == ["error"]
    (green,) = junit_of(tmp_path, rows, summary=summary, exit_code=0)
    assert outcomes(green) == {"op0": []}
