"""What may set dump options of a script whose own text sets none: functions of other modules that
get its configuration, and configurations that come from there.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Dict, Iterable, List, Sequence, Set, Tuple

from .script_names import PARAMETER_MAP, ScriptNames
from .script_tree import Block, key_of

#: Arguments by which a session, an Estimator or TorchAir's backend gets what holds dump settings.
_ARGUMENTS = ("config", "config_proto", "session_config", "run_config", "compiler_config")
#: What takes them, and the place of the first such argument that needs no name.
_TAKERS = {
    "Session": 2, "InteractiveSession": 2, "MonitoredTrainingSession": None,
    "MonitoredSession": None, "NPUEstimator": None, "NPURunConfig": None, "RunConfig": None,
    "npu_run_config_init": 0, "npu_config_proto": 0, "get_npu_backend": 0, "get_compiler": 0,
    "cache_compile": None, "dynamo_export": None,
}  # fmt: skip
#: Functions of TensorFlow and npu_bridge, whatever a script imports them from.
_OWN = tuple(_TAKERS) + ("ConfigProto", "CompilerConfig")
#: Members by which the one who gets them sets options of the whole.
_MEMBERS = (PARAMETER_MAP, "dump_config", "custom_optimizers", "rewrite_options", "graph_options")
#: A function such as enable_dump(); dump() alone writes a text of an object.
_OF_DUMPS = re.compile(r"(?i)(?:enable|start|set|begin|turn_on|switch_on)_?\w*dump|dump_(?:on|all)")
_PARTIAL = "partial"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class PossibleSetters:
    """Collects them while a script is read.

    Parameters
    ----------
    nodes
        Every node with its function and its block, in the order of the text.
    """

    def __init__(self, nodes: Sequence[Tuple[Any, int, Block]], names: ScriptNames) -> None:
        self._names = names
        self._noted: Dict[str, Any] = {}
        # By name, what of another module may have changed it, and the call.
        self._changed: Dict[str, Tuple[str, ast.Call]] = {}
        self._taken: List[Any] = []
        self._own_calls: List[Tuple[str, ast.Call, List[str]]] = []
        # By function of this script, what of another module gets its arguments.
        self._handing_on: Dict[str, str] = {}
        self._functions = {id(node): node for node, _, _ in nodes if isinstance(node, _FUNCTIONS)}

    def note(self, what: str, node: Any) -> None:
        """Note that something may set options at a node, the same thing once; nothing if it has no
        name.
        """
        if what:
            self._noted.setdefault(what, node)

    def call(self, node: ast.Call, name: str, scope: int) -> List[str]:
        """Note what a call may set; return the names and members that the function gets."""
        partial = name == _PARTIAL and node.args
        if partial:
            name = self._names.real_name(node.args[0])
        arguments = list(node.args) + [keyword.value for keyword in node.keywords]
        held = [key for argument in arguments for key in _holders(argument)]
        foreign = "" if name in _OWN else self._names.elsewhere(node)
        if foreign:
            self._changed.update(dict.fromkeys(held, (foreign, node)))
            self._hands_on(scope, held, foreign)
        else:
            self._own_calls.append((name, node, held))
        first = _TAKERS.get(name)
        if name in _TAKERS and (self._names.knows_npu or self._names.knows_torchair):
            if first is not None and not partial:
                self._taken += node.args[first:]
            self._taken += [keyword.value for keyword in node.keywords if keyword.arg in _ARGUMENTS]
        for keyword in node.keywords:
            if keyword.arg is None and name == "NPURunConfig":
                self.note(self._names.origin(keyword.value), node)
        kinds = [self._names.kind(argument) for argument in arguments]
        if name == "setattr" and kinds[:1] not in ([], [None]):
            self.note("setattr of %s" % key_of(node.args[0]), node)
        elif "options" in kinds:
            self.note(foreign or self._names.origin(node), node)
        elif foreign and (any(kinds) or _OF_DUMPS.search(name)):
            self.note(foreign, node)
        return held

    def _hands_on(self, scope: int, held: Iterable[str], foreign: str) -> None:
        function = self._functions.get(scope)
        if function is not None and _parameters(function).intersection(held):
            names = self._names.bound_to.get(scope, [])
            if not isinstance(function, ast.Lambda):
                names = [function.name]
            self._handing_on.update(dict.fromkeys(names, foreign))

    def found(self, optimizers: Iterable[str]) -> Dict[str, Any]:
        """Return what may set options, each with its place.

        Parameters
        ----------
        optimizers
            Names of the custom optimizers that the script adds.
        """
        for name, node, held in self._own_calls:
            if name in self._handing_on:
                for key in held:
                    self._changed.setdefault(key, (self._handing_on[name], node))
        for value in self._taken:
            made = self._names.values.written(value)
            if key_of(value) in self._changed:
                self.note(*self._changed[key_of(value)])
            elif not isinstance(made, ast.Call) or self._names.real_name(made.func) not in _OWN:
                self.note(self._names.unknown(made), value)
        for optimizer in optimizers:
            if optimizer in self._changed:
                self.note(*self._changed[optimizer])
        return self._noted


def _holders(node: Any) -> List[str]:
    """Return a name or member, and what it is a member of where whoever gets it changes that."""
    keys = [key_of(node)]
    while isinstance(node, ast.Attribute) and node.attr in _MEMBERS:
        node = node.value
        keys.append(key_of(node))
    return keys


def _parameters(function: Any) -> Set[str]:
    arguments = function.args
    every = arguments.args + arguments.kwonlyargs + [arguments.vararg, arguments.kwarg]
    return {argument.arg for argument in every if argument is not None}
