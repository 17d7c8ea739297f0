"""What the real consumers say of a text that is no JSON."""

from __future__ import annotations

from typing import Optional

from ..schemas.jsontext import JsonProblem, JsonText, parse_json
from .finding import ERROR, Finding, Findings

_NOT_JSON = (
    "aclInit fails with ACL_ERROR_PARSE_FILE (100006, EP0004); older releases only log it and "
    "dump nothing"
)
_REFUSED = (
    "aclInit refuses the file before parsing it (ACL_ERROR_INVALID_FILE 100003 or "
    "ACL_ERROR_PARSE_FILE 100006)"
)
_FIXES = {
    "file-too-large": "list fewer layers; a model entry without layer dumps all",
    "file-too-deep": "nest less deeply; dump needs five levels",
}


def read_json(data: bytes, findings: Findings) -> Optional[JsonText]:
    """Parse ``data`` as strictly as the consumers do; problems become findings with a line.

    Parameters
    ----------
    data
        The file's first ``MAX_BYTES + 1`` bytes.

    Returns
    -------
    JsonText or None
        None when nothing could be parsed (a finding says why).
    """
    if not data:
        findings.warning(
            "empty-file",
            (),
            "the file is empty",
            "aclInit accepts an empty file and dumps nothing",
            "write a dump section",
        )
        return None
    try:
        text = parse_json(data)
    except JsonProblem as problem:
        consumer = _REFUSED if problem.rule in _FIXES else _NOT_JSON
        fix = _FIXES.get(problem.rule, problem.fix)
        findings.items.append(
            Finding(
                ERROR,
                problem.rule,
                (),
                problem.message,
                consumer,
                fix,
                line=problem.line,
                column=problem.column,
            )
        )
        return None
    if text.has_mark:
        message = "the file starts with a UTF-8 byte order mark"
        consumer = "the current parser skips it, other readers reject the file"
        findings.warning(
            "bom", (), message, consumer, "save the file as UTF-8 without a byte order mark"
        )
    return text
