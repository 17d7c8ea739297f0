"""A configuration that a script builds with dump options and hands to nobody."""

from __future__ import annotations

import ast
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set

TAKERS = {
    "ConfigProto": ({"Session", "InteractiveSession", "MonitoredTrainingSession"}, "config"),
    "CompilerConfig": ({"get_npu_backend"}, "compiler_config"),
}
"""By the class of a configuration, the functions that take one, and their argument's name."""


class Unused(NamedTuple):
    """A configuration that no function takes: its variable, where it is made, and the call of the
    function that should take it, with that argument's name.
    """

    variable: str
    made: ast.Call
    taker: ast.Call
    argument: str


def unused_configs(
    nodes: Iterable[ast.AST], real_name: Callable[[Any], str], given: Set[str]
) -> List[Unused]:
    """Return configurations of which nothing but members is ever read in the text, where what
    should take them is called there without an argument that could hold one.

    Parameters
    ----------
    given
        Names of variables through which dump options are set.
    """
    made: Dict[str, List[ast.Call]] = {}
    sources: Dict[str, Set[str]] = {}
    bare: Set[str] = set()
    calls: Dict[str, List[ast.Call]] = {}
    nodes = list(nodes)
    members = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and id(node) not in members
        ):
            bare.add(node.id)
        if isinstance(node, ast.Call):
            calls.setdefault((real_name(node.func) or "").rpartition(".")[2], []).append(node)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, root = node.targets[0].id, _root(node.value)
            if isinstance(node.value, ast.Call) and _class_of(node.value, real_name) in TAKERS:
                made.setdefault(name, []).append(node.value)
            elif root is not None:
                sources.setdefault(name, set()).add(root)
    found = []
    for name, constructors in made.items():
        takers, argument = TAKERS[_class_of(constructors[0], real_name)]
        called = [call for taker in takers for call in calls.get(taker, ())]
        if name in bare or len(constructors) > 1 or not called:
            continue
        if not any(name in _with_sources(one, sources) for one in given):
            continue
        if not any(call.args or {None, argument} & _keywords(call) for call in called):
            found.append(Unused(name, constructors[0], called[0], argument))
    return found


def _keywords(call: ast.Call) -> Set[Optional[str]]:
    """Return the names of arguments; None for what ``**`` unpacks."""
    return {keyword.arg for keyword in call.keywords}


def _with_sources(name: str, sources: Dict[str, Set[str]]) -> Set[str]:
    """Return a variable, and those whose members it and these are."""
    found, waiting = {name}, [name]
    while waiting:
        more = sources.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found


def _class_of(call: ast.Call, real_name: Callable[[Any], str]) -> str:
    return (real_name(call.func) or "").rpartition(".")[2]


def _root(node: Any) -> Optional[str]:
    """Return the variable whose member, or whose member's call, an expression is."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
