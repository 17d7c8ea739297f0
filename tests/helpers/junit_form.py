"""The form that JUnit XML must have for Jenkins and GitLab."""

from __future__ import annotations

# Of the schema junit-10: for each element its attributes (those that must be there first, then the
# others) and what may be in it.
SCHEMA = {
    "testsuites": ((), ("name", "time", "tests", "failures", "errors"), {"testsuite"}),
    "testsuite": (
        ("name", "tests", "failures", "errors"),
        (
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        ),
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": ((), (), {"property"}),
    "property": (("name", "value"), (), set()),
    "testcase": (
        ("name",),
        ("time", "classname", "group"),
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ((), ("type", "message"), set()),
    "error": ((), ("type", "message"), set()),
    "skipped": ((), ("type", "message"), set()),
    "system-out": ((), (), set()),
}


def check_schema(element):
    required, optional, inside = SCHEMA[element.tag]
    assert set(required) <= set(element.attrib) <= {*required, *optional}, element.attrib
    for child in element:
        assert child.tag in inside
        check_schema(child)
