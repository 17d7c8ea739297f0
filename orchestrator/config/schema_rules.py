"""First layer of the checker: every field by itself, as the JSON Schemas in schemas/ describe
it.
"""

from __future__ import annotations

from typing import Any, FrozenSet, Tuple

from ..base.naming import nearest_names
from ..schemas.documents import Mistake, mistakes, name_of, schema_of
from .dump_plan import KERNEL_DATA
from .dump_steps import ACL_LAX, NPU_LAX, step_fix, step_problems
from .finding import Findings, Path

REJECTS = {
    "acl": "aclInit rejects it (ACL_ERROR_INVALID_DUMP_CONFIG 100009, %s); releases of 2020 "
    "only log "
    "it and dump nothing",
    "npu": "npu_bridge or GE behind it rejects it%s",
    "torchair": "TorchAir raises ValueError%s",
}
_NPU_FIELDS = {
    "dump_mode": "the TensorFlow adapter aborts the process; npu_device raises ValueError",
    "dump_debug_mode": "the TensorFlow adapter aborts the process; npu_device raises ValueError",
    "dump_data": "the TensorFlow adapter returns an Internal error; npu_device raises ValueError",
    "dump_step": "the TensorFlow adapter returns an Internal error, or GE behind it E10001",
    "enable_dump": "protobuf or npu_device raises TypeError",
    "enable_dump_debug": "protobuf or npu_device raises TypeError",
}
_LAX = {
    "acl": ACL_LAX,
    "npu": NPU_LAX,
    "torchair": "it lets '5|' and '5-' pass, GE behind it rejects them",
}
#: Of a schema's keyword: the rule, and the code of the error that aclInit gives.
_RULES = {
    "type": ("type", "EP0001"),
    "enum": ("enum", "EP0002"),
    "minLength": ("empty-value", "EP0001"),
    "maxLength": ("path-too-long", "EP0003"),
    "minItems": ("empty-list", "EP0001"),
    "maxItems": ("too-many-entries", "EP0003"),
    "required": ("missing-field", "EP0003"),
}
_PATH_FIXES = {"minLength": "name an existing folder", "maxLength": "choose a shorter path"}


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
        ``acl``, ``npu`` or ``torchair``.
    findings
        Where findings go.
    """

    def __init__(self, kind: str, findings: Findings) -> None:
        self.kind = kind
        self.findings = findings

    def check(self, document: Any) -> FrozenSet[Any]:
        """Add the findings of ``document``; return its outermost keys that hold a mistake."""
        errors = mistakes(document, schema_of(self.kind))
        for mistake in errors:
            self._report(mistake)
        return frozenset(mistake.path[0] for mistake in errors if mistake.path)

    def _report(self, mistake: Mistake) -> None:
        path = mistake.path
        if mistake.keyword == "pattern":
            self._pattern(str(mistake.value), path)
            return
        rule, code = _RULES[mistake.keyword]
        if mistake.keyword == "enum" and mistake.value == "":
            rule, code = "empty-value", "EP0001"
        fix = (
            _PATH_FIXES.get(mistake.keyword, mistake.fix)
            if path[-1:] == ("dump_path",)
            else mistake.fix
        )
        self.findings.error(
            rule, path, _without_section(mistake.message, path), rejects(self.kind, code, path), fix
        )

    def _pattern(self, value: str, path: Path) -> None:
        if path[-1] == "dump_step":
            for rule, message, fix in step_problems(value):
                if rule == "step-syntax":
                    consumer = "%s; %s" % (rejects(self.kind, "EP0003", path), _LAX[self.kind])
                    self.findings.error(
                        rule, path, "dump_step: " + message, consumer, step_fix(fix)
                    )
            return
        rule, code, message, fix = _kernel_data(value)
        self.findings.error(rule, path, message, rejects(self.kind, code, path), fix)


def _without_section(message: str, path: Path) -> str:
    """Return the message without the leading ``dump.`` of a field's name: who writes acl.json calls
    it ``dump_mode``.
    """
    return (
        message.replace(name_of(path), name_of(path[1:]), 1)
        if path[:1] == ("dump",) and len(path) > 1
        else message
    )


def _kernel_data(value: str) -> Tuple[str, str, str, str]:
    """Return rule, error code, message and correction of a list of kernel data that has another
    word than it knows.
    """
    parts = value.split(",")
    wrong = next(part for part in parts if part not in KERNEL_DATA)
    near = next(iter(nearest_names(wrong, KERNEL_DATA)), None) if wrong else None
    message = "dump_kernel_data: %r is not allowed%s (blanks count)" % (
        wrong,
        "; did you mean %r?" % near if near else "",
    )
    repaired = [
        word
        for part in parts[:100]
        for word in (nearest_names(part, KERNEL_DATA) if part.strip() else [])
    ]
    fix = (
        '"%s"' % ",".join(dict.fromkeys(repaired))
        if repaired
        else "a comma list of: " + ", ".join(KERNEL_DATA)
    )
    return ("enum", "EP0002", message, fix) if wrong else ("empty-value", "EP0001", message, fix)
