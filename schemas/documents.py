"""Documents that users write, held against their JSON Schemas: what is wrong where, in words for
people.

The schemas decide (package jsonschema, draft 7); the words are ours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ..base.errors import FormatError
from ..base.naming import nearest_names
from . import load_schema
from .jsontext import JsonProblem, Path, parse_json

#: Looking for the nearest name takes time; the first mistakes of a document get one.
MAX_SUGGESTIONS = 20
_SHOWN = 3

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}
# Of several mistakes at one place the first of these is told: the others follow from it.
_ORDER = ("type", "enum", "minLength", "maxLength", "pattern", "minItems", "maxItems")


class Mistake(NamedTuple):
    """One place of a document that its schema does not allow.

    Attributes
    ----------
    keyword
        The schema's keyword that is not met, such as ``type``, ``enum`` or ``required``.
    path
        Keys and indices from the document's root.
    message, fix
        What is wrong, and the corrected value or what to do.
    value
        What stands there; of ``required`` and ``additionalProperties`` the key that is missing or
        too many.
    at_key
        Whether it is the key at ``path`` that is wrong, not its value.
    """

    keyword: str
    path: Path
    message: str
    fix: str
    value: Any
    at_key: bool = False


@lru_cache(maxsize=None)
def schema_of(name: str) -> Mapping[str, Any]:
    """Return the schema ``schemas/{name}.schema.json``, read once."""
    schema: Mapping[str, Any] = load_schema(name)
    return schema


def read_document(data: bytes, name: str, file: str) -> Any:
    """Return the JSON document in a file's bytes.

    Parameters
    ----------
    name
        Its schema: ``limits``, ``plan`` …
    file
        The file's name, for messages.

    Raises
    ------
    FormatError
        It is no JSON, or its schema does not allow it; the message has line and column, the hint
        the correction.
    """
    try:
        text = parse_json(data)
    except JsonProblem as problem:
        raise FormatError(
            "line %d, column %d: %s" % (problem.line, problem.column, problem.message),
            file,
            hint=problem.fix,
        ) from None
    for path, (line, column) in text.duplicates():
        message = "line %d, column %d: the key %r is used twice" % (line, column, path[-1])
        raise FormatError(message, file, hint="delete one of them")
    found_mistakes = mistakes(text.value, schema_of(name))
    if found_mistakes:
        found_mistakes.sort(key=lambda one: text.place(one.path, one.at_key))
        texts = [
            "line %d, column %d: %s" % (text.place(one.path, one.at_key) + (one.message,))
            for one in found_mistakes[:_SHOWN]
        ]
        more = (
            " (and %d more)" % (len(found_mistakes) - _SHOWN)
            if len(found_mistakes) > _SHOWN
            else ""
        )
        raise FormatError("; ".join(texts) + more, file, hint=found_mistakes[0].fix)
    return text.value


def check_document(document: Any, name: str, what: str) -> None:
    """Raise FormatError when a parsed document, called ``what`` in the message, breaks its schema
    ``name``.
    """
    found_mistakes = mistakes(document, schema_of(name))
    if found_mistakes:
        raise FormatError("%s: %s" % (what, found_mistakes[0].message), hint=found_mistakes[0].fix)


def mistakes(document: Any, schema: Mapping[str, Any]) -> List[Mistake]:
    """Return all mistakes in the order of the schema's check; those that follow from another one at
    the same place are left out.
    """
    from jsonschema import Draft7Validator

    by_place: Dict[Tuple[Any, ...], Mistake] = {}
    words = _Words()
    for error in Draft7Validator(schema).iter_errors(document):
        for one in words.of(error):
            # Each missing or unknown key is a mistake of its own.
            place: Tuple[Any, ...] = (
                one.path,
                one.keyword if one.keyword not in _ORDER else None,
                str(one.value) if one.at_key else None,
            )
            if one.keyword == "required":
                place += (one.value,)
            if place not in by_place or _rank(one.keyword) < _rank(by_place[place].keyword):
                by_place[place] = one
    return list(by_place.values())


def _rank(keyword: str) -> int:
    return _ORDER.index(keyword) if keyword in _ORDER else len(_ORDER)


class _Words:
    """Turns the validator's errors into mistakes."""

    def __init__(self) -> None:
        self._left = MAX_SUGGESTIONS

    def of(self, error: Any) -> Iterable[Mistake]:
        """Return the mistakes that one error stands for."""
        path = tuple(error.absolute_path)
        keyword, value, schema = error.validator, error.instance, error.schema
        describe = getattr(self, "_" + keyword, None)
        if keyword == "required":
            return [
                Mistake(
                    keyword,
                    path,
                    "%s is missing in %s" % (name, name_of(path)),
                    "add %s" % name,
                    name,
                )
                for name in schema["required"]
                if name not in value
            ]
        if keyword == "additionalProperties":
            return self._unknown(value, schema, path)
        if "propertyNames" in error.absolute_schema_path:
            return [self._name(value, schema, path)]
        if describe is None:
            # No schema of ours uses it without a test of its words.
            return [
                Mistake(
                    keyword,
                    path,
                    "%s: %s" % (name_of(path), error.message[:200]),
                    "correct it",
                    value,
                )
            ]
        message, fix = describe(value, schema, path)
        return [Mistake(keyword, path, message, fix, value)]

    def near(self, word: Any, known: Iterable[Any]) -> Optional[str]:
        """Return the known word that is most like this one."""
        if self._left <= 0 or not isinstance(word, str):
            return None
        self._left -= 1
        names = [name for name in known if isinstance(name, str)]
        # Of `key:value` the key is right already.
        key, colon, _ = word.partition(":")
        of_key = [name for name in names if colon and name.startswith(key + colon)]
        return next(iter(of_key or nearest_names(word, names)), None)

    def _type(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:
        types = _listed(schema["type"])
        expected = " or ".join(_TYPES[name] for name in types)
        return "%s must be %s, it is %s" % (name_of(path), expected, described(value)), _corrected(
            value, types, schema, expected
        )

    def _enum(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:
        known = [str(word) for word in schema["enum"] if word is not None]
        if value == "":
            return "%s is empty" % name_of(path), "one of: %s; or leave the field out" % ", ".join(
                known
            )
        near = self.near(value, known)
        message = "%s: %s is not allowed%s" % (
            name_of(path),
            _quoted(value),
            "; did you mean %r?" % near if near else "",
        )
        return message, '"%s"' % near if near else "one of: %s" % ", ".join(known)

    def _minLength(self, value: str, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:  # noqa: N802  the keyword's own name
        return "%s is empty" % name_of(path), "write a value"

    def _maxLength(self, value: str, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:  # noqa: N802
        message = "%s has %d characters, at most %d are allowed" % (
            name_of(path),
            len(value),
            schema["maxLength"],
        )
        return message, "write a shorter one"

    def _pattern(self, value: str, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:
        return "%s: %s has a form that is not allowed" % (
            name_of(path),
            _quoted(value),
        ), schema.get("description", "correct it")

    def _minItems(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:  # noqa: N802
        if not value:
            return "%s is an empty list" % name_of(path), "leave the field out, or list values"
        message = "%s has %d entries, at least %d are needed" % (
            name_of(path),
            len(value),
            schema["minItems"],
        )
        return message, "list at least %d" % schema["minItems"]

    def _maxItems(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:  # noqa: N802
        message = "%s has %d entries, at most %d are allowed" % (
            name_of(path),
            len(value),
            schema["maxItems"],
        )
        return message, "keep at most %d entries" % schema["maxItems"]

    def _minProperties(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:  # noqa: N802
        known = ", ".join(schema.get("properties", {})) or "fields"
        return "%s has %d fields, at least %d are needed" % (
            name_of(path),
            len(value),
            schema["minProperties"],
        ), "add one of: %s" % known

    def _maxProperties(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:  # noqa: N802
        message = "%s has %d fields, at most %d are allowed" % (
            name_of(path),
            len(value),
            schema["maxProperties"],
        )
        return message, "keep one of: %s" % ", ".join(list(value)[:10])

    def _anyOf(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:  # noqa: N802
        expected = " or ".join(_expected(choice) for choice in schema["anyOf"])
        return "%s must be %s, it is %s" % (
            name_of(path),
            expected,
            described(value),
        ), "write " + expected

    def _minimum(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:
        return "%s is %s, at least %s is needed" % (
            name_of(path),
            value,
            schema["minimum"],
        ), "write %s or more" % schema["minimum"]

    def _maximum(self, value: Any, schema: Mapping[str, Any], path: Path) -> Tuple[str, str]:
        return "%s is %s, at most %s is allowed" % (
            name_of(path),
            value,
            schema["maximum"],
        ), "write %s or less" % schema["maximum"]

    def _exclusiveMinimum(
        self, value: Any, schema: Mapping[str, Any], path: Path
    ) -> Tuple[str, str]:  # noqa: N802
        least = schema["exclusiveMinimum"]
        return "%s is %s, more than %s is needed" % (
            name_of(path),
            value,
            least,
        ), "write more than %s" % least

    def _unknown(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Path
    ) -> List[Mistake]:
        known = list(schema.get("properties", {}))
        unknown = []
        for name in value:
            if name not in known:
                near = self.near(name, known)
                message = "%s has no field %r%s" % (
                    name_of(path),
                    name,
                    "; did you mean %r?" % near if near else "",
                )
                fix = near or "its fields are: %s" % ", ".join(known)
                unknown.append(
                    Mistake("additionalProperties", path + (name,), message, fix, name, at_key=True)
                )
        return unknown

    def _name(self, name: Any, schema: Mapping[str, Any], path: Path) -> Mistake:
        known = schema.get("enum", ())
        near = self.near(name, known)
        message = "%s has no field %r%s" % (
            name_of(path),
            name,
            "; did you mean %r?" % near if near else "",
        )
        fix = near or "one of: %s" % ", ".join(map(str, known)) if known else "correct the name"
        return Mistake("propertyNames", path + (name,), message, fix, name, at_key=True)


def name_of(path: Path) -> str:
    """Return how a message calls the field: ``models[0].layers``."""
    text = ""
    for part in path:
        text += "[%d]" % part if isinstance(part, int) else ("." if text else "") + str(part)
    return text or "the document"


def described(value: Any) -> str:
    """Return what kind of value this is, for a message."""
    for name, kind in (("boolean", bool), ("object", dict), ("array", list), ("null", type(None))):
        if isinstance(value, kind):
            return _TYPES[name] if name != "boolean" else str(value).lower()
    if isinstance(value, str):
        return "the string %r" % value[:60]
    return ("a number (%s)" if isinstance(value, (int, float)) else "%s") % str(value)[:40]


def _quoted(value: Any) -> str:
    return repr(value[:200] if isinstance(value, str) else value)[:210]


def _listed(types: Any) -> List[str]:
    return [types] if isinstance(types, str) else list(types)


def _expected(schema: Mapping[str, Any]) -> str:
    if "type" in schema:
        return " or ".join(_TYPES[name] for name in _listed(schema["type"]))
    return " or ".join(
        '"%s"' % word if isinstance(word, str) else str(word)
        for word in schema.get("enum", ("another value",))
    )


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
