from __future__ import annotations

import json
import os
import runpy

import jsonschema
import pytest

from goldwatch.config.check import check_file
from goldwatch.config.dump_plan import DATA, DEBUG_MODES, KERNEL_DATA, LEVELS, MODES, SCENES, STATS
from goldwatch.schemas import load_schema

E = "error"
HERE = os.path.join(os.path.dirname(__file__), "corpus")
ACL = [
    case
    for name in ("acl_values.py", "acl_rules.py")
    for case in runpy.run_path(os.path.join(HERE, name))["CASES"]
]
NPU = runpy.run_path(os.path.join(HERE, "npu.py"))
# What the first layer, the schema, finds by itself.
SCHEMA_RULES = {
    "type",
    "enum",
    "empty-value",
    "empty-list",
    "missing-field",
    "too-many-entries",
    "path-too-long",
    "step-syntax",
}


def check(case, folder, om, suffix, tmp_path):
    name, content, expected = case[:3]
    options = case[3] if len(case) > 3 else {}
    text = (
        content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
    )
    path = tmp_path / ("case" + suffix)
    path.write_bytes(text.replace("@DIR@", folder).encode("utf-8"))
    models = [om] if options.get("om") else []
    report = check_file(
        str(path),
        models,
        options.get("cann"),
        options.get("elsewhere", False),
        options.get("om_names", ()),
    )
    jsonschema.Draft7Validator(load_schema("config_check")).validate(report.to_document())
    aside = ("dump-size", "op-switch-call", "statistics-only")
    found = sorted((f.severity, f.rule, f.pointer) for f in report.findings if f.rule not in aside)
    assert found == sorted(tuple(item) for item in expected), [f.message for f in report.findings]
    assert all(finding.line is not None and finding.line >= 1 for finding in report.findings)
    assert all(finding.consumer and finding.fix for finding in report.findings)
    return report


@pytest.mark.parametrize("case", ACL, ids=[case[0] for case in ACL])
def test_each_acl_configuration_has_the_expected_findings(case, folder, om, tmp_path):
    report = check(case, folder, om, ".json", tmp_path)
    assert report.kind == "acl"


@pytest.mark.parametrize("case", NPU["JSON_CASES"], ids=[case[0] for case in NPU["JSON_CASES"]])
def test_each_npu_configuration_has_the_expected_findings(case, folder, om, tmp_path):
    assert check(case, folder, om, ".json", tmp_path).kind == "npu"


@pytest.mark.parametrize("case", NPU["PYTHON_CASES"], ids=[case[0] for case in NPU["PYTHON_CASES"]])
def test_each_script_has_the_expected_findings(case, folder, om, tmp_path):
    assert check(case, folder, om, ".py", tmp_path).kind == "npu"


def test_the_corpus_has_150_cases_and_no_repeated_name():
    assert len(ACL) + len(NPU["JSON_CASES"]) + len(NPU["PYTHON_CASES"]) >= 150
    names = [case[0] for case in ACL]
    assert len(set(names)) == len(names)


def test_every_enum_value_has_a_good_case():
    texts = [json.dumps(case[1]) for case in ACL if not any(E in item for item in case[2])] + [
        json.dumps(case[1]) for case in NPU["JSON_CASES"]
    ]
    for field, values in (
        ("dump_mode", MODES),
        ("dump_data", DATA),
        ("dump_level", LEVELS),
        ("dump_scene", SCENES),
        ("dump_debug_mode", DEBUG_MODES),
    ):
        for value in values:
            assert any('"%s": "%s"' % (field, value) in text for text in texts), (field, value)
    for value in STATS + KERNEL_DATA:
        assert any('"%s"' % value in text for text in texts), value


@pytest.mark.parametrize("kind", ["acl", "npu"])
def test_schema_and_rules_agree(kind, folder, om, tmp_path):
    """A document breaks the schema exactly when the first layer finds an error in it, under draft 7
    and 2020-12.
    """
    cases = ACL if kind == "acl" else NPU["JSON_CASES"]
    schema = load_schema(kind)
    count = 0
    for case in cases:
        if isinstance(case[1], str):
            continue
        text = json.dumps(case[1]).replace("@DIR@", folder)
        document = json.loads(text)
        path = tmp_path / "case.json"
        path.write_text(text)
        report = check_file(str(path), [], None, True)
        schema_errors = [
            f for f in report.findings if f.severity == "error" and f.rule in SCHEMA_RULES
        ]
        # Empty names and lists of entries are errors only beside other fields.
        between_fields = [
            f
            for f in schema_errors
            if f.rule.startswith("empty") and f.path[-1] in ("model_name", "layer")
        ]
        expected = len(schema_errors) > len(between_fields)
        for validator in (jsonschema.Draft7Validator, jsonschema.Draft202012Validator):
            assert (not validator(schema).is_valid(document)) == expected, case[0]
        count += 1
    assert count > 40
