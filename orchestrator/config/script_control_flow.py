"""The ways through a function, walked with the values that its settings have on each; nothing is
executed.

A condition is never looked into (but for constants): each branch may be taken. So a way that is
found may be one that no run takes, and what is true of all ways to a statement is true whenever the
statement is reached.
"""

from __future__ import annotations

import ast
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from .script_tree import last_name

#: One way: the value that each setting has by now; None where it was not set.
Way = Tuple[Any, ...]
Ways = FrozenSet[Way]

_NONE: Ways = frozenset()
_LEAVES = ("exit", "_exit", "abort", "quit")


class Effects:
    """What the statements of one function do to settings.

    Parameters
    ----------
    names
        The settings that are followed.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._of: Dict[int, List[Tuple[Optional[int], Any]]] = {}

    def set(self, statement: ast.AST, name: str, value: Any) -> None:
        """Note that a statement gives a value to a setting; other names are none of ours."""
        if name in self.names:
            self._of.setdefault(id(statement), []).append((self.names.index(name), value))

    def set_all(self, statement: ast.AST, value: Any) -> None:
        """Note that a statement gives a value to every setting: None for a new object, another
        where nobody knows.
        """
        self._of.setdefault(id(statement), []).append((None, value))

    def after(self, statement: ast.AST, ways: Ways) -> Optional[Ways]:
        """Return the ways behind a statement, or None when it sets nothing."""
        done = self._of.get(id(statement))
        return None if done is None else frozenset(_changed(way, done) for way in ways)


def _changed(way: Way, done: List[Tuple[Optional[int], Any]]) -> Way:
    values = list(way)
    for index, value in done:
        if index is None:
            values = [value] * len(values)
        else:
            values[index] = value
    return tuple(values)


class Walk:
    """Walks a function, or a module outside its functions.

    Parameters
    ----------
    effects
        What its statements do.
    body
        Its statements.

    Attributes
    ----------
    visited_ways
        The ways behind each statement that sets something, in the order of the walk.
    ends
        The ways that leave it at its end or by a return.

    Raises
    ------
    RecursionError
        Statements are nested too deeply.
    """

    def __init__(self, effects: Effects, body: List[ast.stmt]) -> None:
        self.visited_ways: List[Ways] = []
        self._effects = effects
        self._returned: Ways = _NONE
        # Of each loop that is walked: the ways that leave it by break, and those that end its round
        # by continue.
        self._loops: List[List[Ways]] = []
        self.ends = self._block(body, frozenset([(None,) * len(effects.names)])) | self._returned

    def _block(self, statements: List[ast.stmt], ways: Ways) -> Ways:
        for statement in statements:
            if not ways:
                break
            changed = self._effects.after(statement, ways)
            if changed is not None:
                ways = changed
                self.visited_ways.append(ways)
            ways = self._behind(statement, ways)
        return ways

    def _behind(self, statement: Any, ways: Ways) -> Ways:
        """Return the ways behind a statement, its blocks walked."""
        if isinstance(statement, ast.If):
            return self._if(statement, ways)
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(statement, ways)
        if isinstance(statement, ast.Return):
            self._returned |= ways
            return _NONE
        if isinstance(statement, (ast.Break, ast.Continue)):
            if self._loops:
                self._loops[-1][isinstance(statement, ast.Continue)] |= ways
            return _NONE
        if isinstance(statement, ast.Raise) or _leaves(statement):
            return _NONE
        if hasattr(statement, "handlers"):
            return self._try(statement, ways)
        if isinstance(statement, (ast.With, ast.AsyncWith, ast.ClassDef)):
            return self._block(statement.body, ways)
        if hasattr(statement, "cases"):
            return ways.union(*[self._block(case.body, ways) for case in statement.cases])
        return ways

    def _if(self, statement: ast.If, ways: Ways) -> Ways:
        # An elif is an If in the else: thousands of them are no thousand levels.
        behind = _NONE
        while True:
            constant = _constant(statement.test)
            if constant is not False:
                behind |= self._block(statement.body, ways)
            if constant is True:
                return behind
            rest = statement.orelse
            if len(rest) != 1 or not isinstance(rest[0], ast.If):
                return behind | self._block(rest, ways)
            statement = rest[0]

    def _loop(self, statement: Any, ways: Ways) -> Ways:
        """Walk a body once: what a second round adds to the first are more ways, never fewer."""
        self._loops.append([_NONE, _NONE])
        behind = self._block(statement.body, ways)
        left, continued = self._loops.pop()
        endless = isinstance(statement, ast.While) and _constant(statement.test) is True
        return left | (
            _NONE if endless else self._block(statement.orelse, ways | behind | continued)
        )

    def _try(self, statement: Any, ways: Ways) -> Ways:
        first = len(self.visited_ways)
        behind = self._block(statement.body, ways)
        # An error may come before and behind each statement of the body.
        interrupted = ways.union(*self.visited_ways[first:])
        behind = self._block(statement.orelse, behind)
        behind = behind.union(
            *[self._block(handler.body, interrupted) for handler in statement.handlers]
        )
        return self._block(statement.finalbody, behind)


def _leaves(statement: ast.AST) -> bool:
    """Tell whether a statement ends the program, such as ``sys.exit()``."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and last_name(statement.value.func) in _LEAVES
    )


def _constant(test: ast.AST) -> Optional[bool]:
    """Return the constant value of a condition, or None."""
    try:
        return bool(ast.literal_eval(test))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
