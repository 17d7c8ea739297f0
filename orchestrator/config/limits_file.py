"""A file of limits that a user wrote, read with the place of whatever is wrong in it."""

from __future__ import annotations

from typing import Any, Collection, List, NoReturn, Tuple

from ..base.errors import InputError
from ..base.naming import nearest_names
from ..base.safe_reading import read_input
from ..judging.limits import (
    LIMITED,
    OWN_HINT,
    SELECTORS,
    Limits,
    fault_of,
    limits_from_document,
    limits_with,
)
from ..schemas import load_schema
from ..schemas.jsontext import JsonText
from .finding import ERROR, Findings, Path
from .json_text_errors import read_json

MAX_LIMITS_BYTES = 1 << 20
_FORM = (
    'for example {"RelativeEuclideanDistance": {"<": 0.05}, "rules": [{"type": "Softmax", '
    '"CosineSimilarity": {">": 0.98}}]}'
)


def load_limits(path: str, others: Collection[str] = ()) -> Limits:
    """Return the limits of a file: those of its base, with its own put in their places as if each
    were given one after the other.

    Parameters
    ----------
    others
        Names of the user's own metrics.

    Raises
    ------
    InputError
        It cannot be read, is not of the form of schemas/limits.schema.json, or has a limit that no
        tensor can meet or that asks for what is worse; the message has line and column.
    """
    findings = Findings()
    data = read_input(path, MAX_LIMITS_BYTES)
    text = read_json(data, findings) if data else None
    for finding in findings.items:
        if finding.severity == ERROR:
            raise InputError(
                "%s: line %s, column %s: %s"
                % (path, finding.line, finding.column, finding.message),
                hint=_FORM,
            )
    if text is None:
        raise InputError("%s: the file is empty" % path, hint=_FORM)
    for place, (line, column) in text.duplicates():
        raise InputError(
            "%s: line %d, column %d: %s is there twice" % (path, line, column, place[-1]),
            hint="keep one of them",
        )
    _check(path, text, _schema(others))
    _check_sense(path, text, others)
    return limits_with(text.value, others)


def _schema(others: Collection[str]) -> Any:
    """Return the schema with the metrics that there are, and no others."""
    schema = load_schema("limits")
    for part in (schema, schema["definitions"]["rule"]):
        one = part["additionalProperties"]
        part["properties"].update(dict.fromkeys(others, one))
        part["additionalProperties"] = False
    return schema


def _check(path: str, text: JsonText, schema: Any) -> None:
    """Raise for the first thing, in the file's order, that the schema does not allow."""
    from jsonschema import Draft7Validator

    problems = [
        (_place(text, error), error) for error in Draft7Validator(schema).iter_errors(text.value)
    ]
    if problems:
        (line, column), error = min(problems, key=lambda entry: entry[0])
        _refuse(path, line, column, error)


def _check_sense(path: str, text: JsonText, others: Collection[str]) -> None:
    """Raise for the first limit that no tensor can meet, or that asks for what is worse."""
    parts: List[Tuple[Path, Any]] = [((), text.value)]
    parts += [(("rules", number), rule) for number, rule in enumerate(text.value.get("rules", []))]
    for where, part in parts:
        for metric in part:
            if metric not in LIMITED and metric not in others:
                continue
            (limit,) = limits_from_document({metric: part[metric]}, others).entries
            fault = fault_of(limit)
            if fault is not None:
                line, column = text.place((*where, metric))
                raise InputError(
                    "%s: line %d, column %d: %s" % (path, line, column, fault.message),
                    hint=fault.hint,
                )


def _place(text: JsonText, error: Any) -> Tuple[int, int]:
    where: Path = tuple(error.absolute_path)
    unknown = _unknown_key(error)
    return text.place((*where, unknown), at_key=True) if unknown is not None else text.place(where)


def _unknown_key(error: Any) -> Any:
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        return next((key for key in error.instance if key not in known), None)
    return None


def _refuse(path: str, line: int, column: int, error: Any) -> NoReturn:
    where = "%s: line %d, column %d: " % (path, line, column)
    name = ".".join(str(part) for part in error.absolute_path)
    unknown = _unknown_key(error)
    if unknown is not None:
        names = list(error.schema["properties"])
        near = nearest_names(unknown, names, 1, 0.5)
        hint = "did you mean %s?" % near[0] if near else "known here: %s" % ", ".join(names)
        if LIMITED[0] not in names:
            raise InputError("%sunknown key %r" % (where, unknown), hint=hint)
        raise InputError("%sunknown metric or key %r" % (where, unknown), hint=hint + OWN_HINT)
    if error.validator == "oneOf":
        raise InputError(
            "%s%s: a rule names one of %s" % (where, name, ", ".join(SELECTORS)), hint=_FORM
        )
    if error.validator in ("minProperties", "maxProperties"):
        raise InputError(
            '%s%s: one comparison is expected, such as {"<": 0.05}' % (where, name), hint=_FORM
        )
    expected = {
        "object": "an object",
        "array": "a list",
        "number": "a number",
        "string": "a text",
    }.get(str(error.validator_value))
    if error.validator == "enum":
        expected = "one of " + ", ".join(map(str, error.validator_value))
    elif error.validator == "anyOf":
        expected = 'a number, "Infinity" or "-Infinity"'
    what = name or "the document"
    raise InputError(
        "%s%s: %s was expected, got %.60r"
        % (where, what, expected or "another value", error.instance),
        hint=_FORM,
    )
