"""Dump settings of a script that have no effect: they reach no session, or a session that is not
the NPU's.

A script may hold only a part of a program. What is wrong in the part that is there is an error;
what is only not there is an error where no other module can add it (the script keeps the object to
itself, or starts the session), else a warning.
"""

from __future__ import annotations

import ast
from typing import Any, Dict, List, Optional, Set, Tuple

from .finding import ERROR, WARNING

#: (severity, rule, message, consumer, fix, node)
Complaint = Tuple[str, str, str, str, str, Any]

_OPTIMIZER = "NpuOptimizer"
_SESSIONS = (
    "Session",
    "InteractiveSession",
    "MonitoredTrainingSession",
    "SingularMonitoredSession",
    "MonitoredSession",
    "NPUEstimator",
)
#: npu_bridge's own helper sets name, use_off_line and remapping.
_HELPER = "npu_config_proto"
_NOT_ON_NPU = "the session does not run on the NPU as the dump settings expect; nothing is dumped"
_UNLESS = "unless another module sets it, %s"
_REMAPPING_OFF = (2,)
#: TorchAir's own functions that take a configuration as it is.
_TORCHAIR_READERS = ("get_npu_backend", "get_compiler", "cache_compile", "dynamo_export")
_BLOCKS = ("body", "orelse", "finalbody")


class IneffectiveSettings:
    """Looks once through a script's syntax tree; then tells of each set of settings what keeps it
    from a dump.

    Parameters
    ----------
    nodes
        Every node with the number of its function (0: none).
    imported
        The real names of what was imported under another one.
    """

    def __init__(self, nodes: List[Tuple[ast.AST, int]], imported: Dict[str, str]) -> None:
        self._imported = imported
        self._bound: Dict[int, Tuple[List[str], int, Any]] = {}
        self._loads: List[Tuple[str, int, ast.AST]] = []
        self._stores: Dict[Tuple[str, int], List[ast.AST]] = {}
        self._globals: Set[Tuple[str, int]] = set()
        self._blocks: Dict[int, int] = {}
        self._looked_into: Set[int] = set()
        self._names: Dict[str, List[Tuple[Any, ast.AST]]] = {}
        self._added: Dict[str, Any] = {}
        self._handed: Set[str] = set()
        self._handed_parameters: List[Tuple[str, str]] = []
        self._defined: Set[str] = set()
        self._remapping: List[Tuple[bool, ast.AST]] = []
        self._run_configs: List[bool] = []
        self._has_session = self._has_helper = self._adds = False
        for node, scope in nodes:
            self._look(node, scope)
        self._passed_on = {key for key, _, node in self._loads if id(node) not in self._looked_into}

    def of_dump_config(self, call: ast.AST) -> List[Complaint]:
        """Return what keeps a DumpConfig from NPURunConfig."""
        if id(call) not in self._bound:
            return []
        names, scope, statement = self._bound[id(call)]
        unused = all(self._unused(name, scope, statement) for name in names)
        ignored = bool(self._run_configs) and not any(self._run_configs)
        if not unused and not ignored:
            return []
        certain = not names or scope != 0 or self._has_session or bool(self._run_configs)
        message = "this DumpConfig never reaches NPURunConfig"
        consumer = "no session gets it; nothing is dumped"
        fix = "NPURunConfig(dump_config=%s)" % (
            names[0].rpartition(".")[2] if names else "DumpConfig(…)"
        )
        return [
            (
                ERROR if certain else WARNING,
                "dump-config-unused",
                message,
                consumer if certain else _UNLESS % consumer,
                fix,
                call,
            )
        ]

    def _unused(self, name: str, scope: int, statement: Any) -> bool:
        """Tell whether what a statement binds to a name is never used: the name is not, or it gets
        another value first.
        """
        again = [
            other for other in self._stores.get((name, scope), ())
            if _position(other) > _position(statement) and self._blocks.get(id(other)) == self._blocks.get(id(statement))  # noqa: E501
        ]  # fmt: skip
        end = min(map(_position, again)) if again else None
        # What a class or an object has is found under other names of it too.
        attribute = "." + name.rpartition(".")[2]
        for key, where, node in self._loads:
            if key.endswith(attribute):
                return False
            # A function that binds the name itself has one of its own.
            unused = (
                where != scope
                and (key, where) in self._stores
                and (key, where) not in self._globals
            )
            if key != name or unused or id(node) in self._looked_into:
                continue
            if where != scope or end is None or _position(statement) < _position(node) <= end:
                return False
        return True

    def is_handed_out(self, owner: Optional[str]) -> bool:
        """Tell whether the script gives what has the settings to a function that it does not define
        itself, which may set more.
        """
        return owner is not None and any(
            key == owner and name not in self._defined and name not in _TORCHAIR_READERS
            for name, key in self._handed_parameters
        )

    def of_parameter_map(
        self, owner: Optional[str], place: ast.AST, off: Optional[ast.AST]
    ) -> List[Complaint]:
        """Return what keeps a parameter_map from the NPU.

        Parameters
        ----------
        owner
            The custom optimizer that has it.
        place
            Where a setting is made.
        off
            Where use_off_line, which is on unless it is set, is switched off; or None.
        """
        if self._has_helper:
            return []
        certain = self._has_session or self._keeps(owner)
        complaints = self._name(owner, certain)
        if off is not None:
            fix = 'parameter_map["use_off_line"].b = True'
            complaints.append(
                (ERROR, "use-off-line", "use_off_line is switched off", _NOT_ON_NPU, fix, off)
            )
        if not self._adds:
            return complaints
        if not any(remapped for remapped, _ in self._remapping):
            where = self._remapping[0][1] if self._remapping else place
            message = "rewrite_options.remapping is not OFF"
            consumer = (
                "TensorFlow merges ops before the adapter sees them; what should be dumped may be "
                "gone"
            )
            fix = "rewrite_options.remapping = RewriterConfig.OFF"
            complaints.append((WARNING, "remapping", message, consumer, fix, where))
        return complaints

    def _keeps(self, owner: Optional[str]) -> bool:
        """Tell whether the script adds this optimizer and gives neither it nor what holds it to a
        function that might complete it.
        """
        if owner is None or owner not in self._added or owner in self._passed_on:
            return False
        return key_of(self._added[owner].func).split(".")[0] not in self._handed

    def _name(self, owner: Optional[str], certain: bool) -> List[Complaint]:
        names = list(self._names.get(owner, [])) if owner is not None else []
        # Such as custom_optimizers[0].name
        names += [
            entry
            for key, entries in self._names.items()
            if key.startswith("<")
            for entry in entries
            if entry[0] == _OPTIMIZER
        ]
        if any(not isinstance(value, str) or value == _OPTIMIZER for value, _ in names):
            return []
        fix = 'name = "%s"' % _OPTIMIZER
        if names:
            value, node = names[0]
            message = "the custom optimizer is called %r, not %r" % (value, _OPTIMIZER)
            return [
                (
                    ERROR,
                    "optimizer-name",
                    message,
                    "TensorFlow does not find it, or it is not the NPU's; nothing is dumped",
                    fix,
                    node,
                )
            ]
        if owner in self._added:
            consumer = "TensorFlow finds no optimizer; nothing is dumped"
            consumer = consumer if certain else _UNLESS % consumer
            place = self._added[str(owner)]
            return [
                (
                    ERROR if certain else WARNING,
                    "optimizer-name",
                    "the custom optimizer has no name",
                    consumer,
                    fix,
                    place,
                )
            ]
        return []

    def _look(self, node: Any, scope: int) -> None:
        for field in _BLOCKS:
            inner = getattr(node, field, None)
            self._blocks.update((id(statement), id(inner)) for statement in inner) if isinstance(
                inner, list
            ) else None
        if isinstance(node, ast.Attribute):
            # Its object is looked into, not given away.
            self._looked_into.add(id(node.value))
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            self._loads.append((key_of(node), scope, node))
        elif isinstance(node, ast.Expr):
            self._bound[id(node.value)] = ([], scope, node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if all(isinstance(target, (ast.Name, ast.Attribute)) for target in targets):
                self._bound[id(node.value)] = ([key_of(target) for target in targets], scope, node)
            for target in targets:
                self._stores.setdefault((key_of(target), scope), []).append(node)
                self._assignment(target, node.value)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._defined.add(node.name)
        elif isinstance(node, ast.Global):
            self._globals.update((name, scope) for name in node.names)
        elif isinstance(node, ast.arg):
            self._stores.setdefault((node.arg, scope), []).append(node)
        elif isinstance(node, ast.Call):
            self._call(node)

    def _assignment(self, target: Any, value: Any) -> None:
        added = (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr == "add"
        )
        if added and key_of(value.func.value).endswith("custom_optimizers"):
            self._adds = True
            self._added[key_of(target)] = value
            named = [keyword.value for keyword in value.keywords if keyword.arg == "name"]
            self._names.setdefault(key_of(target), []).extend(
                (_plain(name), name) for name in named
            )
        if not isinstance(target, ast.Attribute):
            return
        if target.attr == "name":
            self._names.setdefault(key_of(target.value), []).append((_plain(value), value))
        elif target.attr == "remapping":
            self._remapping.append((_is_off(value), value))

    def _call(self, node: ast.Call) -> None:
        name = key_of(node.func).rpartition(".")[2]
        name = self._imported.get(name, name)
        self._has_session = self._has_session or name in _SESSIONS
        self._has_helper = self._has_helper or name == _HELPER
        if name == "print":
            self._looked_into.update(map(id, node.args))
        elif name not in _SESSIONS:
            self._handed.update(key_of(argument) for argument in node.args)
            values = list(node.args) + [keyword.value for keyword in node.keywords]
            self._handed_parameters.extend(
                (name, key_of(value))
                for value in values
                if isinstance(value, (ast.Name, ast.Attribute))
            )
        if name == "NPURunConfig":
            configs = [
                keyword
                for keyword in node.keywords
                if keyword.arg in (None, "dump_config") and _plain(keyword.value) is not None
            ]
            self._run_configs.append(bool(node.args or configs))
        for keyword in node.keywords:
            if keyword.arg == "remapping":
                self._remapping.append((_is_off(keyword.value), keyword.value))


def _position(node: Any) -> Tuple[int, int]:
    return node.lineno, node.col_offset


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
