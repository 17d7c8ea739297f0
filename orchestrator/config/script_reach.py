"""What around the dump settings of a script leaves the dump empty: settings that reach no session, a session that is not the NPU's.

A script may hold only a part of a program. What is wrong in the part that is there is an error; what is only not there is an error where
the script itself starts the session, else a warning.
"""

from __future__ import annotations

import ast
from typing import Any, Dict, List, Optional, Set, Tuple

from .finding import ERROR, WARNING

#: (severity, rule, message, consumer, fix, node)
Complaint = Tuple[str, str, str, str, str, Any]

_OPTIMIZER = "NpuOptimizer"
_SESSIONS = ("Session", "InteractiveSession", "MonitoredTrainingSession", "SingularMonitoredSession", "MonitoredSession", "NPUEstimator")
#: npu_bridge's own helper sets name, use_off_line and remapping.
_HELPER = "npu_config_proto"
_NOT_ON_NPU = "the session does not run on the NPU as the dump settings expect; nothing is dumped"
_REMAPPING_OFF = (2,)


class Reach:
    """Looks once through a script's syntax tree; then tells of each set of settings what keeps it from a dump.

    Parameters
    ----------
    nodes
        Every node with the number of its function (0: none).
    imported
        The real names of what was imported under another one.
    """

    def __init__(self, nodes: List[Tuple[ast.AST, int]], imported: Dict[str, str]) -> None:
        self._imported = imported
        self._bound: Dict[int, Tuple[List[str], int]] = {}
        self._loaded: Set[str] = set()
        self._names: Dict[str, List[Tuple[Any, ast.AST]]] = {}
        self._added: Dict[str, ast.AST] = {}
        self._off_line: List[Tuple[Any, ast.AST]] = []
        self._remapping: List[Tuple[bool, ast.AST]] = []
        self._run_configs: List[bool] = []
        self._has_session = self._has_helper = self._adds = False
        for node, scope in nodes:
            self._look(node, scope)

    def of_dump_config(self, call: ast.AST) -> List[Complaint]:
        """Return what keeps a DumpConfig from NPURunConfig."""
        names, scope = self._bound.get(id(call), ([""], 0))
        if id(call) not in self._bound:
            return []
        unused = not any(name in self._loaded for name in names)
        ignored = bool(self._run_configs) and not any(self._run_configs)
        if not unused and not ignored:
            return []
        certain = unused and (not names or ignored or scope != 0)
        message = "this DumpConfig never reaches NPURunConfig"
        fix = "NPURunConfig(dump_config=%s)" % (names[0].rpartition(".")[2] if names else "DumpConfig(…)")
        return [(ERROR if certain else WARNING, "dump-config-unused", message, "no session gets it; nothing is dumped", fix, call)]

    def of_parameter_map(self, owner: Optional[str], place: ast.AST) -> List[Complaint]:
        """Return what keeps a parameter_map from the NPU; ``owner`` is the custom optimizer that has it."""
        if self._has_helper:
            return []
        severity = ERROR if self._has_session else WARNING
        found = self._name(owner, severity)
        if not self._adds:
            return found
        if not self._off_line:
            fix = 'parameter_map["use_off_line"].b = True'
            found.append((severity, "use-off-line", "use_off_line is not set", _NOT_ON_NPU, fix, place))
        elif all(value in (False, 0) for value, _ in self._off_line):
            fix = 'parameter_map["use_off_line"].b = True'
            found.append((ERROR, "use-off-line", "use_off_line is switched off", _NOT_ON_NPU, fix, self._off_line[0][1]))
        if not any(off for off, _ in self._remapping):
            where = self._remapping[0][1] if self._remapping else place
            message = "rewrite_options.remapping is not OFF"
            consumer = "TensorFlow merges ops before the adapter sees them; what should be dumped may be gone"
            fix = "rewrite_options.remapping = RewriterConfig.OFF"
            found.append((WARNING, "remapping", message, consumer, fix, where))
        return found

    def _name(self, owner: Optional[str], severity: str) -> List[Complaint]:
        given = self._names.get(owner, []) if owner is not None else []
        if any(not isinstance(value, str) or value == _OPTIMIZER for value, _ in given):
            return []
        fix = 'name = "%s"' % _OPTIMIZER
        if given:
            value, node = given[0]
            message = "the custom optimizer is called %r, not %r" % (value, _OPTIMIZER)
            return [(ERROR, "optimizer-name", message, "TensorFlow does not find it, or it is not the NPU's; nothing is dumped", fix, node)]
        if owner in self._added:
            message = "the custom optimizer has no name"
            return [(severity, "optimizer-name", message, "TensorFlow finds no optimizer; nothing is dumped", fix, self._added[str(owner)])]
        return []

    def _look(self, node: Any, scope: int) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            self._loaded.add(key_of(node))
        elif isinstance(node, ast.Expr):
            self._bound[id(node.value)] = ([], scope)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self._bound[id(node.value)] = ([key_of(target) for target in targets], scope)
            for target in targets:
                self._assignment(target, node.value)
        elif isinstance(node, ast.Call):
            self._call(node)

    def _assignment(self, target: Any, value: Any) -> None:
        added = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "add"
        if added and key_of(value.func.value).endswith("custom_optimizers"):
            self._adds = True
            self._added[key_of(target)] = value
            named = [keyword.value for keyword in value.keywords if keyword.arg == "name"]
            self._names.setdefault(key_of(target), []).extend((_plain(name), name) for name in named)
        if not isinstance(target, ast.Attribute):
            return
        if target.attr == "name":
            self._names.setdefault(key_of(target.value), []).append((_plain(value), value))
        elif target.attr == "remapping":
            self._remapping.append((_is_off(value), value))
        elif target.attr == "b" and isinstance(target.value, ast.Subscript) and _subscript(target.value) == "use_off_line":
            self._off_line.append((_plain(value), value))

    def _call(self, node: ast.Call) -> None:
        name = key_of(node.func).rpartition(".")[2]
        name = self._imported.get(name, name)
        self._has_session = self._has_session or name in _SESSIONS
        self._has_helper = self._has_helper or name == _HELPER
        if name == "NPURunConfig":
            self._run_configs.append(bool(node.args) or any(keyword.arg in (None, "dump_config") for keyword in node.keywords))
        for keyword in node.keywords:
            if keyword.arg == "remapping":
                self._remapping.append((_is_off(keyword.value), keyword.value))


def key_of(node: Any) -> str:
    """Return a text that is the same for the same name or attribute; for other expressions one that no other has."""
    parts: List[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "<%d>" % id(node))
    return ".".join(reversed(parts))


def _plain(node: Any) -> Any:
    """Return the constant that the text shows; the node itself for anything else."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return node
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _is_off(node: Any) -> bool:
    """Tell whether a value of remapping is OFF, or may be."""
    if isinstance(node, ast.Attribute):
        return node.attr == "OFF"
    value = _plain(node)
    return value is node or value in _REMAPPING_OFF


def _subscript(node: ast.Subscript) -> Any:
    index: Any = node.slice
    # Python 3.8 and older wrap the key.
    return _plain(getattr(index, "value", index) if type(index).__name__ == "Index" else index)
