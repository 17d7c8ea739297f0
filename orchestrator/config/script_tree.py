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
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..base.fast_dataclasses import dataclass
from .finding import ERROR, Finding, Findings
from .npu_rules import COMPUTED

#: A syntax tree takes some four hundred times the text's own size.
MAX_SCRIPT_BYTES = 2 * 1024 * 1024
_MAX_BRACKETS = 100
_AT_THIS_LINE = "correct the script at this line"
_ELSEWHERE = "put the dump settings into a module of their own"
_BLOCKS = ("body", "orelse", "finalbody")
_TRANSPARENT = (
    ast.Module,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.With,
    ast.AsyncWith,
)
_CONVERTERS = ("as_bytes", "as_text", "as_str", "as_str_any", "bytes", "str")
#: A name that stands for a name that stands for …
_MOST_NAMES = 5
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


@dataclass(frozen=True, eq=False)
class Block:
    """A list of statements.

    Attributes
    ----------
    around
        The block that its statement stands in; None for a function's and for the module's.
    choice, arm
        Of an arm of ``if … elif … else``: the whole statement and the arm's number; else None.
    """

    around: Optional["Block"] = None
    choice: Optional[ast.AST] = None
    arm: Optional[int] = None

    def holds(self, other: "Block") -> bool:
        """Tell whether a block is this one or stands in it."""
        inner: Optional[Block] = other
        while inner is not None and inner is not self:
            inner = inner.around
        return inner is self

    def excludes(self, other: "Block") -> bool:
        """Tell whether the two are, or stand in, different arms of one ``if``."""
        arms = {}
        inner: Optional[Block] = self
        while inner is not None:
            arms[id(inner.choice)] = inner.arm
            inner = inner.around
        inner = other
        while inner is not None:
            if inner.arm is not None and arms.get(id(inner.choice), inner.arm) != inner.arm:
                return True
            inner = inner.around
        return False


def walk(tree: ast.AST) -> Iterator[Tuple[Any, int, Block]]:
    """Yield every node with the number of its function (0: none) and the block that it stands in;
    the body of a ``with`` is a part of the block around it.
    """
    stack: List[Tuple[Any, int, Block]] = [(tree, 0, Block())]
    chains: Dict[int, Tuple[ast.AST, int, Block]] = {}
    while stack:
        node, scope, block = stack.pop()
        yield node, scope, block
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            scope, block = id(node), Block()
        choice, arm, around = chains.get(id(node), (node, 0, block))
        for field, value in ast.iter_fields(node):
            inner = block
            if isinstance(node, ast.If) and field == "body":
                inner = Block(around, choice, arm)
            elif isinstance(node, ast.If) and field == "orelse":
                # An elif is an If alone in the else: its arms are further ones of the same choice.
                if len(value) == 1 and isinstance(value[0], ast.If):
                    chains[id(value[0])] = choice, arm + 1, around
                inner = Block(around, choice, arm + 1)
            elif (
                isinstance(value, list) and field in _BLOCKS and not isinstance(node, _TRANSPARENT)
            ):
                inner = Block(block)
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    stack.append((child, scope, inner))


def last_name(node: ast.AST) -> str:
    """Return the name, or the attribute that ends a dotted one; empty for other nodes."""
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def key_of(node: Any) -> str:
    """Return a text that is the same for the same name or attribute; for other expressions one that
    no other has.
    """
    parts: List[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "<%d>" % id(node))
    return ".".join(reversed(parts))


def as_table(node: Any) -> Any:
    """Return ``dict(name=value)`` as the dictionary that it makes; others as they are."""
    if (
        not isinstance(node, ast.Call)
        or key_of(node.func) != "dict"
        or node.args
        or not all(keyword.arg for keyword in node.keywords)
    ):
        return node
    keys: List[Optional[ast.expr]] = [
        ast.copy_location(ast.parse(repr(keyword.arg), mode="eval").body, keyword.value)
        for keyword in node.keywords
    ]
    values = [keyword.value for keyword in node.keywords]
    return ast.copy_location(ast.Dict(keys=keys, values=values), node)


def assigned_key(node: Any) -> str:
    """Return by which key the assignments of a name, or of an attribute of ``self``, are kept;
    empty for other expressions.
    """
    if isinstance(node, ast.Name):
        return node.id
    own = isinstance(node, ast.Attribute) and key_of(node.value) == "self"
    return "." + node.attr if own else ""


class Values:
    """The values that the text shows.

    Parameters
    ----------
    assigned
        What each name, and each attribute of whatever object (:func:`assigned_key`), is assigned in
        the whole script; None where it gets its value in another way (a parameter, a loop, an
        import).
    """

    def __init__(self, assigned: Dict[str, List[Optional[ast.expr]]]) -> None:
        self._assigned = assigned

    def written(self, node: Any) -> Any:
        """Return the expression that a name or an attribute of ``self`` stands for, if the script
        assigns it once; others are
        returned as they are.
        """
        for _ in range(_MOST_NAMES):
            values = self._assigned.get(assigned_key(node), ())
            if len(values) != 1 or values[0] is None:
                break
            node = values[0]
        return node

    def literal(self, node: Any) -> Any:
        """Return the value of an expression, conversions to bytes looked through; COMPUTED for
        what the text does not show.
        """
        node = self.written(node)
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in _CONVERTERS:
            value = _raw(self.written(node.args[0]))
            return _as_text(value) if isinstance(value, (str, bytes)) else COMPUTED
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "encode"
        ):
            value = _raw(self.written(node.func.value))
            return value if isinstance(value, str) else COMPUTED
        return _as_text(_raw(node))

    def is_text(self, node: Any) -> bool:
        """Tell whether an expression is a text as such, not one that is converted."""
        return isinstance(_raw(self.written(node)), str)


def _raw(node: Any) -> Any:
    try:
        return ast.literal_eval(node)
    except _UNREADABLE:
        return COMPUTED


def _as_text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
