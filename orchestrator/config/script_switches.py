"""Which switches of a script are on at the same time, along the paths through each of its
functions.
"""

from __future__ import annotations

import ast
from typing import Any, Dict, List, Optional, Tuple

from .npu_rules import CERTAIN, COMPUTED, NEVER, POSSIBLE, SWITCHES
from .script_control_flow import Effects, States, Walk
from .script_ineffective_settings import key_of
from .script_settings import ScriptSettings

OFF_LINE = "use_off_line"

_FOLLOWED = SWITCHES + (OFF_LINE,)
#: Of one script; no program that people wrote has a tenth as many.
_MOST_WALKS = 100


class Switches:
    """Follows the switches of a script.

    Parameters
    ----------
    nodes
        Every node with the number of its function (0: none).
    """

    def __init__(self, nodes: List[Tuple[Any, int]]) -> None:
        self._bodies: Dict[int, List[ast.stmt]] = {}
        self._bound: Dict[int, List[Tuple[str, ast.AST, ast.expr]]] = {}
        self._walks = 0
        for node, scope in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._bodies[id(node)] = node.body
            elif isinstance(node, ast.Module):
                self._bodies[0] = node.body
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bound.setdefault(scope, []).append((key_of(target), node, node.value))

    def together(self, settings: ScriptSettings) -> str:
        """Tell whether the two switches of a set of settings are on together: CERTAIN, POSSIBLE or
        NEVER.
        """
        scopes = {
            scope
            for scope, _, name, value in settings.steps
            if name in SWITCHES and value is not False
        }
        if not all(
            any(name == switch and value is True for _, _, name, value in settings.steps)
            for switch in SWITCHES
        ):
            return NEVER
        certainty = NEVER if len(scopes) == 1 else POSSIBLE
        for scope in sorted(scopes):
            walk = self._walk(settings, scope)
            if walk is None:
                certainty = POSSIBLE if certainty == NEVER else certainty
                continue
            for states in walk.visited_states:
                both = [state[0] is True and state[1] is True for state in states]
                if both and all(both):
                    return CERTAIN
                if any(both):
                    certainty = POSSIBLE
        return certainty

    def off_line_is_off(self, settings: ScriptSettings) -> Optional[ast.AST]:
        """Return where use_off_line is switched off, if it is so on every path on which a switch
        may be on; else None.
        """
        for scope, node, name, value in settings.steps:
            if name != OFF_LINE or value is not False:
                continue
            walk = self._walk(settings, scope)
            ends: States = walk.ends if walk is not None else frozenset()
            dumping = [
                state
                for state in ends
                if any(switch is True or switch is COMPUTED for switch in state[:2])
            ]
            if dumping and all(state[2] is False for state in dumping):
                place: ast.AST = node
                return place
        return None

    def _walk(self, settings: ScriptSettings, scope: int) -> Optional[Walk]:
        """Walk a function with these settings' effects; None where that is too much."""
        self._walks += 1
        if self._walks > _MOST_WALKS or scope not in self._bodies:
            return None
        effects = Effects(_FOLLOWED)
        for where, statement, name, value in settings.steps:
            if where == scope:
                effects.set(statement, name, value if isinstance(value, bool) else COMPUTED)
        for name, statement, value in self._bound.get(scope, ()):
            if name in settings.holders:
                new = (
                    isinstance(value, ast.Call)
                    and isinstance(value.func, ast.Attribute)
                    and value.func.attr == "add"
                )
                effects.set_all(statement, None if new else COMPUTED)
        try:
            return Walk(effects, self._bodies[scope])
        except RecursionError:
            return None
