"""First layer of the checker: every field by itself, as the JSON Schemas in schemas/ describe it.

Only the keywords that those schemas use are known here; a test holds this against the jsonschema package.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Dict, List, Mapping

from ..schemas import load_schema
from .finding import Findings, Path
from .steps import ACL_LAX, NPU_LAX, step_fix, step_problems
from .suggest import MAX_SUGGESTIONS, nearest_word

REJECTS = {
    "acl": "aclInit rejects it (ACL_ERROR_INVALID_DUMP_CONFIG 100009, %s); releases of 2020 only log it and dump nothing",
    "npu": "npu_bridge or GE behind it rejects it%s",
}
_NPU_FIELDS = {
    "dump_mode": "the TensorFlow adapter aborts the process; npu_device raises ValueError",
    "dump_debug_mode": "the TensorFlow adapter aborts the process; npu_device raises ValueError",
    "dump_data": "the TensorFlow adapter returns an Internal error; npu_device raises ValueError",
    "dump_step": "the TensorFlow adapter returns an Internal error, or GE behind it E10001",
    "enable_dump": "protobuf or npu_device raises TypeError",
    "enable_dump_debug": "protobuf or npu_device raises TypeError",
}
_TYPES: Dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "null": type(None)}
_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
}
_STEP_RULES = ("step-syntax",)


@lru_cache(maxsize=None)
def field_schema(kind: str) -> Mapping[str, Any]:
    """Return the schema of ``acl`` or ``npu``."""
    schema: Mapping[str, Any] = load_schema(kind)
    return schema


def rejects(kind: str, code: str = "EP0001", path: Path = ()) -> str:
    """Return what the consumer of ``kind`` does with a value of the wrong form at ``path``."""
    if kind == "npu" and path and path[-1] in _NPU_FIELDS:
        return _NPU_FIELDS[str(path[-1])]
    return REJECTS[kind] % (code if kind == "acl" else "")


class SchemaRules:
    """Checks one document against the schema of its kind.

    Parameters
    ----------
    kind
        ``acl`` or ``npu``.
    findings
        Where findings go.
    """

    def __init__(self, kind: str, findings: Findings) -> None:
        self.kind = kind
        self.findings = findings
        self._left = MAX_SUGGESTIONS

    def check(self, value: Any, schema: Mapping[str, Any], path: Path = ()) -> bool:
        """Add the findings of ``value`` and all below; return whether it has the right form."""
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(isinstance(value, _TYPES[name]) and not (name == "integer" and isinstance(value, bool)) for name in types):
            self._type(value, types, schema, path)
            return False
        if "enum" in schema and value not in schema["enum"]:
            self._enum(value, [known for known in schema["enum"] if known is not None], path)
            return False
        if isinstance(value, str):
            return self._string(value, schema, path)
        if isinstance(value, list):
            return self._array(value, schema, path)
        if isinstance(value, dict):
            return self._object(value, schema, path)
        return True

    def _type(self, value: Any, types: List[str], schema: Mapping[str, Any], path: Path) -> None:
        expected = " or ".join(_NAMES[name] for name in types)
        message = "%s must be %s, it is %s" % (_name(path), expected, _describe(value))
        self.findings.error("type", path, message, rejects(self.kind, path=path), _corrected(value, types, schema, expected))

    def _enum(self, value: Any, known: List[str], path: Path) -> None:
        if value == "":
            fix = "one of: %s; or leave the field out" % ", ".join(known)
            self.findings.error("empty-value", path, "%s is empty" % _name(path), rejects(self.kind, path=path), fix)
            return
        near = nearest_word(str(value), known) if self._left > 0 else None
        self._left -= 1
        message = "%s: %r is not allowed%s" % (_name(path), value, "; did you mean %r?" % near if near else "")
        fix = '"%s"' % near if near else "one of: %s" % ", ".join(known)
        self.findings.error("enum", path, message, rejects(self.kind, "EP0002", path), fix)

    def _string(self, value: str, schema: Mapping[str, Any], path: Path) -> bool:
        if len(value) < schema.get("minLength", 0):
            fix = "write a value" if path[-1] in ("begin", "end") else "name an existing folder"
            self.findings.error("empty-value", path, "%s is empty" % _name(path), rejects(self.kind, path=path), fix)
            return False
        if len(value) > schema.get("maxLength", len(value)):
            message = "%s has %d characters, at most %d are allowed" % (_name(path), len(value), schema["maxLength"])
            self.findings.error("path-too-long", path, message, rejects(self.kind, "EP0003", path), "choose a shorter path")
            return False
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return self._pattern(value, path)
        return True

    def _pattern(self, value: str, path: Path) -> bool:
        if path[-1] == "dump_step":
            for rule, message, fix in step_problems(value):
                if rule in _STEP_RULES:
                    lax = ACL_LAX if self.kind == "acl" else NPU_LAX
                    self.findings.error(rule, path, "dump_step: " + message, rejects(self.kind, "EP0003", path) + "; " + lax, step_fix(fix))
            return False
        kinds = ["all", "printf", "tensor", "assert", "timestamp"]
        wrong = next(part for part in value.split(",") if part not in kinds)
        near = nearest_word(wrong, kinds) if wrong else None
        rule = "enum" if wrong else "empty-value"
        message = "%s: %r is not allowed%s (blanks count)" % (_name(path), wrong, "; did you mean %r?" % near if near else "")
        repaired = [nearest_word(part, kinds) for part in value.split(",")]
        fix = '"%s"' % ",".join(dict.fromkeys(part for part in repaired if part))
        if not any(repaired):
            fix = "a comma list of: " + ", ".join(kinds)
        self.findings.error(rule, path, message, rejects(self.kind, "EP0002" if wrong else "EP0001", path), fix)
        return False

    def _array(self, value: List[Any], schema: Mapping[str, Any], path: Path) -> bool:
        if len(value) < schema.get("minItems", 0):
            message = "%s is an empty list" % _name(path)
            self.findings.error("empty-list", path, message, rejects(self.kind, path=path), "leave the field out, or list values")
            return False
        good = True
        if len(value) > schema.get("maxItems", len(value)):
            message = "%s has %d entries, at most %d are allowed" % (_name(path), len(value), schema["maxItems"])
            fix = "keep at most %d entries" % schema["maxItems"]
            self.findings.error("too-many-entries", path, message, rejects(self.kind, "EP0003", path), fix)
            good = False
        items = schema["items"]
        if items.get("type") == "string" and "enum" not in items and all(type(item) is str for item in value):
            return good
        for index, item in enumerate(value):
            good = self.check(item, items, path + (index,)) and good
        return good

    def _object(self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Path) -> bool:
        good = True
        for name in schema.get("required", ()):
            if name not in value:
                message = "%s is missing in %s" % (name, _name(path))
                self.findings.error("missing-field", path, message, rejects(self.kind, "EP0003", path), "add %s" % name)
                good = False
        for name, field in schema.get("properties", {}).items():
            if name in value:
                good = self.check(value[name], field, path + (name,)) and good
        return good


def _name(path: Path) -> str:
    """Return how a message calls the field: ``dump_list[0].layer``."""
    text = ""
    for part in path[1:] if path[:1] == ("dump",) and len(path) > 1 else path:
        text += "[%d]" % part if isinstance(part, int) else ("." if text else "") + part
    return text or "the document"


def _describe(value: Any) -> str:
    for name, kind in (("boolean", bool), ("object", dict), ("array", list), ("null", type(None))):
        if isinstance(value, kind):
            return _NAMES[name] if name != "boolean" else str(value).lower()
    if isinstance(value, str):
        return "the string %r" % value[:60]
    return ("a number (%s)" if isinstance(value, (int, float)) else "%s") % str(value)[:40]


def _corrected(value: Any, types: List[str], schema: Mapping[str, Any], expected: str) -> str:
    """Return the value in the right type where that is evident."""
    if "string" in types and isinstance(value, (int, float)) and not isinstance(value, bool):
        return '"%s"' % str(value)[:40]
    if "string" in types and isinstance(value, bool) and "on" in schema.get("enum", ()):
        return '"on"' if value else '"off"'
    if "boolean" in types and str(value).lower() in ("true", "1", "on", "false", "0", "off"):
        return "true" if str(value).lower() in ("true", "1", "on") else "false"
    if "array" in types and isinstance(value, (str, dict)):
        return "put it into a list: [ … ]"
    return "write " + expected
