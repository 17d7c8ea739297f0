"""Whatever a file holds, the checker answers with findings that fit their schema."""

from __future__ import annotations

import json

import jsonschema
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from goldwatch.config.check import Checker
from goldwatch.config.models import Models
from goldwatch.model.graph import ModelGraph
from goldwatch.model.op_node import OpNode
from goldwatch.schemas import load_schema

KEYS = sorted(load_schema("acl")["properties"]["dump"]["properties"]) + sorted(
    load_schema("npu")["properties"]
)
KEYS += (
    "dump x model_name layer watcher_nodes optype_blacklist opname_blacklist opname_range name "
    "pos begin end"
).split()
WORDS = [
    "",
    "/no/such",
    "~",
    "\0",
    "é",
] + "on off all op kernel stats watcher lite_exception input0 0|5-9 5-5 a b Max".split()
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.sampled_from(WORDS) | st.text(max_size=5)


def nested(inner):
    return st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8)


VALUES = st.recursive(SCALARS, nested, max_leaves=12)
ACL = st.fixed_dictionaries({"dump": st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=10)})
ITEMS = st.lists(st.dictionaries(st.sampled_from(KEYS[-13:]), VALUES, max_size=6), max_size=4)
LISTS = st.builds(
    lambda dump, items: {"dump": dict(dump, dump_list=items)},
    st.dictionaries(st.sampled_from(KEYS), SCALARS),
    ITEMS,
)
GRAPH = ModelGraph(
    "a", ["g"], [OpNode("a", "Data", 0, 0, 0), OpNode("b", "Add", 1, 0, 1, (("a", 0),))]
)
VALIDATOR = jsonschema.Draft7Validator(load_schema("config_check"))
SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def check(data, name):
    report = Checker(Models([GRAPH]), "5.0").check(name, data)
    document = report.to_document()
    VALIDATOR.validate(document)
    assert all(finding["line"] >= 1 for finding in document["findings"])
    json.dumps(document)
    return report


@SETTINGS
@given(VALUES | ACL | LISTS)
def test_any_json_gets_findings_that_agree_with_the_schema(document):
    report = check(json.dumps(document).encode(), "a.json")
    kind = report.kind
    # The schema and the first layer agree on any document.
    schema_valid = jsonschema.Draft7Validator(load_schema(kind)).is_valid(document)
    if report.errors == 0:
        assert schema_valid
    if not schema_valid:
        assert report.errors


@SETTINGS
@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_any_bytes_get_findings(data):
    check(data, "a.json")
    check(data, "a.py")


SETTING = st.sampled_from(sorted(load_schema("npu")["properties"]) + ["x", "dump_pth"])
LITERAL = st.sampled_from(
    "True 0 1 None 'all' b'x' '5-5' f(x) [1] {} -1 1j ... '\\ud800' tf.as_bytes('a') (1,2)".split()
)
STATEMENT = st.one_of(
    st.builds("DumpConfig({}={})".format, SETTING, LITERAL),
    st.builds("DumpConfig({}, {})".format, LITERAL, LITERAL),
    st.builds("o.parameter_map['{}'].{} = {}".format, SETTING, st.sampled_from("bsif"), LITERAL),
    st.builds("o.parameter_map[{}].s = {}".format, LITERAL, LITERAL),
    st.builds("npu.global_options().dump_config.{} = {}".format, SETTING, LITERAL),
    st.builds("npu.global_options().dump_config.{} += {}".format, SETTING, LITERAL),
    st.builds("NPURunConfig(dump_config={})".format, LITERAL),
    st.builds("o.parameter_map['{}'].s: bytes".format, SETTING),
)


@SETTINGS
@example(["DumpConfig(True, '\\ud800')"])
@given(st.lists(STATEMENT, max_size=6))
def test_any_script_gets_findings(statements):
    check("\n".join(statements).encode(), "a.py")
