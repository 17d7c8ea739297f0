"""A Python script as a syntax tree, and the values that its text shows; nothing of it is
executed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from typing import Any, Iterator, List, Optional, Tuple

from .finding import ERROR, Finding, Findings
from .npu_rules import COMPUTED

#: A syntax tree takes some four hundred times the text's own size.
MAX_SCRIPT_BYTES = 2 * 1024 * 1024
_MAX_BRACKETS = 100
_AT_THIS_LINE = "correct the script at this line"
_ELSEWHERE = "put the dump settings into a module of their own"
_CONVERTERS = ("as_bytes", "as_text", "as_str", "as_str_any", "bytes", "str")
_UNREADABLE = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


def parse(data: bytes, findings: Findings) -> Tuple[Optional[ast.AST], List[str]]:
    """Return a script's syntax tree and its lines, or None with a finding."""
    # The grammar is that of the Python that runs here: a newer script is none for an older Python.
    python = "Python %d.%d" % sys.version_info[:2]
    consumer = python + " does not run it"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
        _parse_error(
            findings,
            "not-utf8",
            "the script cannot be decoded: %s" % str(error)[:200],
            consumer,
            line,
        )
        return None, []
    text = re.sub(r"\r\n?", "\n", text[1:] if text.startswith("\ufeff") else text)
    if not _shallow(text):
        _parse_error(
            findings,
            "file-too-deep",
            "brackets are nested too deeply to be read",
            "Python may run it",
            1,
            fix=_ELSEWHERE,
        )
        return None, []
    try:
        with warnings.catch_warnings():
            # What Python has to say about the script's style is none of our business.
            warnings.simplefilter("ignore")
            return ast.parse(text), text.split("\n")
    except SyntaxError as error:
        _parse_error(
            findings,
            "python-syntax",
            "not %s: %s" % (python, error.msg),
            consumer,
            error.lineno or 1,
            error.offset,
        )
    except ValueError as error:
        line = data.count(b"\n", 0, max(data.find(b"\0"), 0)) + 1
        _parse_error(findings, "python-syntax", "not %s: %s" % (python, error), consumer, line)
    except (MemoryError, RecursionError):
        too_deep(findings, python + " may run it")
    return None, []


def too_deep(findings: Findings, consumer: str) -> None:
    """Add the finding of an expression that cannot be read for its depth."""
    _parse_error(
        findings,
        "python-syntax",
        "an expression is nested too deeply to be read",
        consumer,
        1,
        fix=_ELSEWHERE,
    )


def _parse_error(
    findings: Findings,
    rule: str,
    message: str,
    consumer: str,
    line: int,
    column: Optional[int] = None,
    fix: str = _AT_THIS_LINE,
) -> None:
    findings.items.append(
        Finding(
            ERROR,
            rule,
            (),
            message,
            consumer,
            fix,
            line=max(line, 1),
            column=max(column, 1) if column else None,
        )
    )


def _shallow(text: str) -> bool:
    """Bound the nesting before the parser sees it; chains of operators are bounded by the line's
    length.
    """
    depth = 0
    for match in re.finditer(r"[([{]|[)\]}]", text):
        depth = depth + 1 if match.group() in "([{" else max(0, depth - 1)
        if depth > _MAX_BRACKETS * 10:
            return False
    return True


def walk(tree: ast.AST) -> Iterator[Tuple[ast.AST, int]]:
    """Yield every node with the number of its function (0: none)."""
    stack = [(tree, 0)]
    while stack:
        node, scope = stack.pop()
        yield node, scope
        inner = (
            id(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            else scope
        )
        stack.extend((child, inner) for child in ast.iter_child_nodes(node))


def last_name(node: ast.AST) -> str:
    """Return the name, or the attribute that ends a dotted one; empty for other nodes."""
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def is_text(node: Any) -> bool:
    """Tell whether a node is a text as such, not one that is converted."""
    return not isinstance(node, ast.Call) and isinstance(_raw(node), str)


def _raw(node: Any) -> Any:
    try:
        return ast.literal_eval(node)
    except _UNREADABLE:
        return COMPUTED


def literal(node: Any) -> Any:
    """Return the value that the text shows, looking through conversions to bytes; COMPUTED for
    everything else.
    """
    if isinstance(node, ast.Call) and node.args and last_name(node.func) in _CONVERTERS:
        value = _raw(node.args[0])
        return _as_text(value) if isinstance(value, (str, bytes)) else COMPUTED
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "encode"
    ):
        value = _raw(node.func.value)
        return value if isinstance(value, str) else COMPUTED
    return _as_text(_raw(node))


def _as_text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
