"""Docstrings name the parameters that a function or class really has."""

from __future__ import annotations

import ast
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", re.S | re.M)
ENTRY = re.compile(r"^[\w*]+(, [\w*]+)*(?= *$| *:)", re.M)


def modules():
    for folder in ("orchestrator", "adapters"):
        for path, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith(".py"):
                    yield os.path.relpath(os.path.join(path, name), ROOT)


def described(node):
    section = SECTION.search(ast.get_docstring(node) or "")
    entries = ENTRY.finditer(section.group(1)) if section else ()
    return {name.strip(" *") for entry in entries for name in entry.group().split(",")}


def parameters(node):
    """The names of what a function or the constructor of a class takes; None: it inherits one."""
    if isinstance(node, ast.ClassDef):
        constructors = [
            member
            for member in node.body
            if isinstance(member, ast.FunctionDef) and member.name in ("__init__", "__new__")
        ]
        if not constructors:
            fields = [member for member in node.body if isinstance(member, ast.AnnAssign)]
            return {field.target.id for field in fields} or None
        node = constructors[0]
    names = node.args.args + node.args.kwonlyargs + [node.args.vararg, node.args.kwarg]
    return {name.arg for name in names if name is not None}


def stale(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = described(node)
            taken = parameters(node) if names else None
            if taken is not None and names - taken:
                yield node.name, sorted(names - taken)


def test_docstrings_describe_no_parameter_that_is_gone():
    gone = {}
    for module in sorted(modules()):
        with open(os.path.join(ROOT, module), encoding="utf-8") as stream:
            gone[module] = list(stale(ast.parse(stream.read())))
    assert {module: names for module, names in gone.items() if names} == {}
