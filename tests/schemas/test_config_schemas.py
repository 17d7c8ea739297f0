"""The schemas of dump configurations: loadable under draft 7 and 2020-12, complete, and free of
references.
"""

from __future__ import annotations

import json

import jsonschema
import pytest

from goldwatch.config.dump_plan import NPU_DEFAULTS, DumpPlan
from goldwatch.config.torchair_rules import TORCHAIR_DEFAULTS
from goldwatch.schemas import load_schema, load_text

NAMES = ("acl", "npu", "torchair", "plan", "config_check", "config_list")


def fields(schema, path=""):
    """Yield the path and the schema of every field and list item."""
    for name, field in schema.get("properties", {}).items():
        yield path + "/" + name, field
        yield from fields(field, path + "/" + name)
    if "items" in schema:
        yield path + "/*", schema["items"]
        yield from fields(schema["items"], path + "/*")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("validator", [jsonschema.Draft7Validator, jsonschema.Draft202012Validator])
def test_each_schema_is_valid_in_both_drafts(name, validator):
    schema = load_schema(name)
    validator.check_schema(schema)
    assert "$ref" not in load_text(name + ".schema.json")
    assert schema["title"] and schema["description"]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_has_title_description_and_default(name):
    found = list(fields(load_schema(name)))
    assert found
    for path, field in found:
        assert field.get("title") and field.get("description") and "default" in field, path
        if field["default"] is not None:
            jsonschema.Draft7Validator(field).validate(field["default"])
        else:
            optional = "null" in field.get("type", ()) or None in field.get("enum", ())
            assert optional or "No default" in field["description"], path


def test_npu_defaults_equal_the_constructors():
    properties = load_schema("npu")["properties"]
    others = {
        "quant_dumpable": None,
        "enable_exception_dump": 2,
    }  # known to the adapter, no argument of DumpConfig
    assert {name: field["default"] for name, field in properties.items()} == dict(
        NPU_DEFAULTS, **others
    )


def test_torchair_defaults_equal_its_constants():
    properties = load_schema("torchair")["properties"]
    assert {name: field["default"] for name, field in properties.items()} == TORCHAIR_DEFAULTS


def test_the_plan_schema_has_the_fields_of_a_plan():
    plan = DumpPlan()
    properties = load_schema("plan")["properties"]
    for name, field in properties.items():
        default = getattr(plan, name)
        assert field["default"] == (list(default) if isinstance(default, tuple) else default), name
    assert set(properties) == set(plan.__dataclass_fields__)


def test_schema_files_are_ascii_json():
    for name in NAMES:
        assert json.loads(load_text(name + ".schema.json").encode("ascii").decode())
