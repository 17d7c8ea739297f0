"""The control flow of a function of a script: the values that its settings can have behind each
statement; nothing is executed.

A condition is never looked into (but for constants): each branch may be taken. So a path that is
found may be one that no run takes, and what is true of all paths to a statement is true whenever
the statement is reached.
"""

from __future__ import annotations

import ast
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from .script_tree import last_name

#: On one path: the value that each setting has by now; None where it was not set.
State = Tuple[Any, ...]
#: On all paths to a place.
States = FrozenSet[State]

_NONE: States = frozenset()
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

    def after(self, statement: ast.AST, states: States) -> Optional[States]:
        """Return the states behind a statement, or None when it sets nothing."""
        done = self._of.get(id(statement))
        return None if done is None else frozenset(_changed(state, done) for state in states)


def _changed(state: State, done: List[Tuple[Optional[int], Any]]) -> State:
    values = list(state)
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
    visited_states
        The states behind each statement that sets something, in the order of the walk.
    ends
        The states in which it is left at its end or by a return.

    Raises
    ------
    RecursionError
        Statements are nested too deeply.
    """

    def __init__(self, effects: Effects, body: List[ast.stmt]) -> None:
        self.visited_states: List[States] = []
        self._effects = effects
        self._returned: States = _NONE
        # Of each loop that is walked: the states in which it is left by break, and those in which a
        # round is ended by continue.
        self._loops: List[List[States]] = []
        self.ends = self._block(body, frozenset([(None,) * len(effects.names)])) | self._returned

    def _block(self, statements: List[ast.stmt], states: States) -> States:
        for statement in statements:
            if not states:
                break
            changed = self._effects.after(statement, states)
            if changed is not None:
                states = changed
                self.visited_states.append(states)
            states = self._behind(statement, states)
        return states

    def _behind(self, statement: Any, states: States) -> States:
        """Return the states behind a statement, its blocks walked."""
        if isinstance(statement, ast.If):
            return self._if(statement, states)
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(statement, states)
        if isinstance(statement, ast.Return):
            self._returned |= states
            return _NONE
        if isinstance(statement, (ast.Break, ast.Continue)):
            if self._loops:
                self._loops[-1][isinstance(statement, ast.Continue)] |= states
            return _NONE
        if isinstance(statement, ast.Raise) or _leaves(statement):
            return _NONE
        if hasattr(statement, "handlers"):
            return self._try(statement, states)
        if isinstance(statement, (ast.With, ast.AsyncWith, ast.ClassDef)):
            return self._block(statement.body, states)
        if hasattr(statement, "cases"):
            return states.union(*[self._block(case.body, states) for case in statement.cases])
        return states

    def _if(self, statement: ast.If, states: States) -> States:
        # An elif is an If in the else: thousands of them are no thousand levels.
        behind = _NONE
        while True:
            constant = _constant(statement.test)
            if constant is not False:
                behind |= self._block(statement.body, states)
            if constant is True:
                return behind
            rest = statement.orelse
            if len(rest) != 1 or not isinstance(rest[0], ast.If):
                return behind | self._block(rest, states)
            statement = rest[0]

    def _loop(self, statement: Any, states: States) -> States:
        """Walk a body once: what a second round adds to the first are more states, never fewer."""
        self._loops.append([_NONE, _NONE])
        behind = self._block(statement.body, states)
        left, continued = self._loops.pop()
        endless = isinstance(statement, ast.While) and _constant(statement.test) is True
        return left | (
            _NONE if endless else self._block(statement.orelse, states | behind | continued)
        )

    def _try(self, statement: Any, states: States) -> States:
        first = len(self.visited_states)
        behind = self._block(statement.body, states)
        # An error may come before and behind each statement of the body.
        interrupted = states.union(*self.visited_states[first:])
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
