"""Dump settings in a Python script, read from its syntax tree; nothing of it is executed."""

from __future__ import annotations

import ast
from bisect import bisect_right
from functools import lru_cache
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..naming import nearest_names
from .dump_plan import NPU_DEFAULTS
from .finding import ERROR, WARNING, Finding, Findings, placed
from .key_rules import nearest_word
from .npu_rules import COMPUTED, OTHER_SETTINGS, SWITCHES, NpuRules
from .script_ineffective_settings import IneffectiveSettings, key_of
from .script_settings import (
    DUMP_CONFIG,
    GLOBAL_OPTIONS,
    PARAMETER_MAP,
    TORCHAIR,
    Place,
    Script,
    ScriptSettings,
    share,
)
from .script_switches import OFF_LINE, Switches
from .script_tree import is_text, last_name, literal, parse, too_deep, walk
from .script_unknowns import UnknownSettings
from .torchair_rules import TORCHAIR_DEFAULTS

_MEMBERS = dict.fromkeys(SWITCHES, "b")
_OTHER_MEMBERS = {"quant_dumpable": "s", "enable_exception_dump": "i"}
_RAISES = {GLOBAL_OPTIONS: "npu_device raises ValueError", TORCHAIR: "TorchAir raises ValueError"}


def read_script(data: bytes, findings: Findings) -> Optional[Script]:
    """Return what a script says of dumps, or None with a finding when it is no Python."""
    tree, lines = parse(data, findings)
    if tree is None:
        return None
    try:
        return _Reader(lines).read(tree)
    except RecursionError:
        too_deep(findings, "Python may run it")
        return None


def check_settings(settings: ScriptSettings, rules: NpuRules) -> Dict[str, Any]:
    """Check one set of settings by themselves; return their values, COMPUTED where the text does
    not show them.
    """
    values = settings.values
    if settings.open:
        values = dict(
            dict.fromkeys(
                TORCHAIR_DEFAULTS if settings.dialect == TORCHAIR else NPU_DEFAULTS, COMPUTED
            ),
            **values,
        )
    rules.check(values, dump_requested=settings.dump_requested, together=settings.together)
    return values


class _Reader:
    """Finds the settings in a syntax tree."""

    def __init__(self, lines: List[str]) -> None:
        self._lines = lines
        self._all_settings: List[ScriptSettings] = []
        self._objects: Dict[Tuple[int, str, str], ScriptSettings] = {}
        self._options: Dict[str, str] = {}
        self._imported: Dict[str, str] = {}
        self._owners: Dict[str, str] = {}
        self._places: Dict[int, List[int]] = {}
        self._unknown_settings = UnknownSettings([])

    def read(self, tree: ast.AST) -> Script:
        """Return the settings in the order of the text, and what else sets some."""
        nodes = sorted(walk(tree), key=lambda pair: self._order(pair[0]))
        self._unknown_settings = UnknownSettings(nodes)
        for node, _ in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                self._alias(
                    node.targets if isinstance(node, ast.Assign) else [node.target], node.value
                )
            elif isinstance(node, ast.ImportFrom):
                self._imported.update(
                    {name.asname: name.name for name in node.names if name.asname}
                )
        for node, scope in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                value = (
                    COMPUTED
                    if isinstance(node, ast.AugAssign) or node.value is None
                    else literal(node.value)
                )
                for target in targets:
                    if isinstance(target, ast.Attribute):
                        self._assignment(target, value, node, scope)
        for dialect in (PARAMETER_MAP, TORCHAIR):
            share([settings for settings in self._all_settings if settings.dialect == dialect])
        self._complete(nodes)
        # A map of which only use_off_line is set has no dump setting.
        settings_found = [
            settings
            for settings in self._all_settings
            if settings.node is not None or settings.problems
        ]
        elsewhere = [(what, *self._place(node)) for what, node in self._unknown_settings.setters]
        return Script(
            sorted(settings_found, key=lambda settings: settings.place),
            elsewhere,
            frozenset(self._unknown_settings.made),
            self._unknown_settings.imports,
        )

    def _complete(self, nodes: List[Tuple[Any, int]]) -> None:
        """Add what keeps settings that switch a dump on from dumping, and what other functions may
        add to them.
        """
        ineffective, switches = IneffectiveSettings(nodes, self._imported), Switches(nodes)
        for settings in self._all_settings:
            if self._unknown_settings.setters or ineffective.is_handed_out(settings.owner):
                settings.open = True
            if settings.node is None or not settings.may_dump():
                continue
            if settings.dialect == DUMP_CONFIG:
                complaints = ineffective.of_dump_config(settings.node)
            elif settings.dialect == PARAMETER_MAP:
                complaints = ineffective.of_parameter_map(
                    settings.owner, settings.node, switches.off_line_is_off(settings)
                )
            else:
                complaints = []
            if settings.dialect != DUMP_CONFIG:
                settings.together = switches.together(settings)
            for severity, rule, message, consumer, fix, node in complaints:
                self._problem(settings, rule, (), message, consumer, fix, node, severity)

    def _order(self, node: Any) -> Tuple[int, int]:
        return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)

    def _place(self, node: Any) -> Place:
        """Return line and column from 1; the tree counts columns in bytes."""
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        if line.isascii():
            return node.lineno, node.col_offset + 1
        if node.lineno not in self._places:
            # Where each character begins, once a line: a script may have all its settings on one.
            starts = [0]
            for character in line:
                starts.append(starts[-1] + len(character.encode("utf-8", "replace")))
            self._places[node.lineno] = starts
        return node.lineno, bisect_right(self._places[node.lineno], node.col_offset)

    def _alias(self, targets: List[ast.expr], value: ast.expr) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                kind = self._kind(value)
                if kind:
                    self._options[target.id] = kind
                if kind in (PARAMETER_MAP, TORCHAIR) and isinstance(value, ast.Attribute):
                    self._owners[target.id] = key_of(value.value)

    def _kind(self, node: ast.AST) -> Optional[str]:
        """Tell whether an expression is npu_device's global options, a dump_config of theirs or of
        TorchAir, or a parameter_map.
        """
        if isinstance(node, ast.Call) and last_name(node.func) == "global_options":
            return "options"
        if isinstance(node, ast.Attribute) and node.attr == "dump_config":
            return GLOBAL_OPTIONS if self._kind(node.value) == "options" else TORCHAIR
        if isinstance(node, ast.Attribute) and node.attr == "parameter_map":
            return PARAMETER_MAP
        return self._options.get(node.id) if isinstance(node, ast.Name) else None

    def _call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        name = self._imported.get(name, name)
        if name == "NPURunConfig":
            self._run_config(node)
        if name != DUMP_CONFIG or self._unknown_settings.is_foreign(node):
            return
        settings = ScriptSettings(DUMP_CONFIG, self._place(node), node=node)
        names = list(NPU_DEFAULTS)
        self._positional(node, settings, names)
        literal_keys = set(settings.values)
        for keyword in node.keywords:
            if keyword.arg is None:
                settings.open = True
            elif keyword.arg in literal_keys:
                message = "DumpConfig gets %s twice, by position and by name" % keyword.arg
                self._problem(
                    settings,
                    "repeated-argument",
                    (keyword.arg,),
                    message,
                    "Python raises TypeError",
                    "keep one",
                    keyword.value,
                )
            elif keyword.arg in NPU_DEFAULTS:
                value = self._plain(keyword.arg, literal(keyword.value))
                settings.set(keyword.arg, value, self._place(keyword.value))
            else:
                near = nearest_word(keyword.arg, names)
                message = "DumpConfig has no argument %r%s" % (
                    keyword.arg,
                    "; did you mean %r?" % near if near else "",
                )
                fix = near or "one of: " + ", ".join(names)
                self._problem(
                    settings,
                    "unknown-keyword",
                    (keyword.arg,),
                    message,
                    "Python raises TypeError",
                    fix,
                    keyword.value,
                )
        self._all_settings.append(settings)

    def _positional(self, node: ast.Call, settings: ScriptSettings, names: Sequence[str]) -> None:
        for index, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                settings.open = True
                break
            if index >= len(names):
                message = "DumpConfig takes %d arguments" % len(names)
                self._problem(
                    settings,
                    "unknown-keyword",
                    (),
                    message,
                    "Python raises TypeError",
                    "name the arguments",
                    argument,
                )
                break
            settings.set(
                names[index], self._plain(names[index], literal(argument)), self._place(argument)
            )

    def _run_config(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            value = literal(keyword.value)
            if keyword.arg == "dump_config" and value is not None and value is not COMPUTED:
                settings = ScriptSettings(DUMP_CONFIG, self._place(keyword.value), open=True)
                message = "NPURunConfig's dump_config must be a DumpConfig"
                self._problem(
                    settings,
                    "type",
                    ("dump_config",),
                    message,
                    "NPURunConfig raises ValueError",
                    "DumpConfig(…)",
                    keyword.value,
                )
                self._all_settings.append(settings)

    def _problem(
        self,
        settings: ScriptSettings,
        rule: str,
        path: Any,
        message: str,
        consumer: str,
        fix: str,
        node: Any,
        severity: str = ERROR,
    ) -> None:
        line, column = self._place(node)
        settings.problems.append(
            Finding(severity, rule, path, message, consumer, fix, line=line, column=column)
        )

    def _plain(self, name: str, value: Any) -> Any:
        """Return 0 and 1 as the booleans they are for a switch."""
        return self._switch(value) if name in _MEMBERS else value

    def _assignment(self, target: ast.Attribute, value: Any, node: Any, scope: int) -> None:
        if isinstance(target.value, ast.Subscript):
            self._map_entry(target, target.value, value, node, scope)
            return
        kind = self._kind(target.value)
        if kind == GLOBAL_OPTIONS:
            self._option(target, value, node, scope, GLOBAL_OPTIONS, "", NPU_DEFAULTS)
        elif kind == TORCHAIR:
            inner = target.value
            holder = (
                key_of(inner.value)
                if isinstance(inner, ast.Attribute)
                else self._owners.get(last_name(inner), "")
            )
            self._torchair_option(target, value, node, scope, holder)

    def _torchair_option(
        self, target: ast.Attribute, value: Any, node: Any, scope: int, holder: str
    ) -> None:
        """Take an assignment to what is called dump_config and is not npu_device's: TorchAir's, if
        the script knows TorchAir.
        """
        if self._unknown_settings.knows_torchair:
            self._option(target, value, node, scope, TORCHAIR, holder, TORCHAIR_DEFAULTS)
        elif target.attr in TORCHAIR_DEFAULTS or target.attr in NPU_DEFAULTS:
            self._unknown_settings.add("an object called dump_config", target)

    def _settings(
        self, dialect: str, scope: int, text: str, node: Any, owner: Optional[str]
    ) -> ScriptSettings:
        """Return the settings of an object that a function knows under this text."""
        settings = self._objects.get((scope, dialect, text))
        if settings is None:
            settings = ScriptSettings(dialect, self._place(node), owner=owner)
            self._objects[(scope, dialect, text)] = settings
            self._all_settings.append(settings)
        return settings

    def _map_entry(
        self, target: ast.Attribute, entry: ast.Subscript, value: Any, node: Any, scope: int
    ) -> None:
        if self._kind(entry.value) != PARAMETER_MAP and last_name(entry.value) != "parameter_map":
            return
        index: Any = entry.slice
        # Python 3.8 and older wrap the key.
        key = literal(getattr(index, "value", index) if type(index).__name__ == "Index" else index)
        if not isinstance(key, str):
            return
        known = key in NPU_DEFAULTS or key in OTHER_SETTINGS
        near = None if known or key == OFF_LINE else _near_option(key)
        if not known and not near and key != OFF_LINE and "dump" not in key:
            return
        owner = (
            key_of(entry.value.value)
            if isinstance(entry.value, ast.Attribute)
            else self._owners.get(last_name(entry.value))
        )
        settings = self._settings(PARAMETER_MAP, scope, ast.dump(entry.value), target, owner)
        settings.holders |= {name for name in (owner, key_of(entry.value)) if name}
        if key == OFF_LINE:
            if target.attr == "b":
                settings.steps.append((scope, node, key, self._switch(value)))
            return
        if settings.node is None:
            settings.node, settings.place = target, self._place(target)
        if not known:
            settings.dump_requested = settings.dump_requested or (
                near in _MEMBERS and value not in (False, 0)
            )
            message = "NpuOptimizer has no option %r%s" % (
                key,
                "; did you mean %r?" % near if near else "",
            )
            fix = near or "one of: " + ", ".join(NPU_DEFAULTS)
            finding = Finding(
                WARNING, "unknown-key", (key,), message, "ignored without a word", fix
            )
            settings.problems.append(placed(finding, *self._place(target)))
            return
        self._member(settings, key, target, value, node, scope)

    def _member(
        self,
        settings: ScriptSettings,
        key: str,
        target: ast.Attribute,
        value: Any,
        node: Any,
        scope: int,
    ) -> None:
        """Check that the value goes into the member that the adapter reads: .b for switches, .s
        (bytes) for text.
        """
        member = _OTHER_MEMBERS.get(key) or _MEMBERS.get(key, "s")
        if target.attr != member:
            message = "%s must be set through .%s, not .%s" % (key, member, target.attr)
            fix = 'parameter_map["%s"].%s' % (key, member)
            consumer = "the adapter reads .%s only and finds it unset" % member
            self._problem(settings, "parameter-member", (key,), message, consumer, fix, target)
            settings.set(key, COMPUTED, self._place(target))
            return
        written = getattr(node, "value", None)
        if member == "s" and isinstance(value, str) and is_text(written):
            fix = "tf.compat.as_bytes(%r)" % value[:200]
            message = "%s must be set to bytes, it is text" % key
            self._problem(
                settings, "type", (key,), message, "protobuf raises TypeError", fix, written
            )
        self._set(settings, key, value, target, node, scope)

    def _set(
        self,
        settings: ScriptSettings,
        name: str,
        value: Any,
        target: ast.Attribute,
        node: Any,
        scope: int,
    ) -> None:
        value = self._plain(name, value)
        settings.set(name, value, self._place(target))
        settings.steps.append((scope, node, name, value))

    def _switch(self, value: Any) -> Any:
        return bool(value) if type(value) is int and value in (0, 1) else value

    def _option(
        self,
        target: ast.Attribute,
        value: Any,
        node: Any,
        scope: int,
        dialect: str,
        holder: str,
        known: Dict[str, Any],
    ) -> None:
        """Take an assignment to an option of a dump_config."""
        settings = self._settings(
            dialect, scope if dialect == TORCHAIR else 0, holder, target, holder or None
        )
        settings.holders |= {name for name in (holder,) if name}
        settings.node = settings.node or target
        if target.attr in known:
            self._set(settings, target.attr, value, target, node, scope)
            return
        near = nearest_word(target.attr, list(known))
        message = "dump_config has no option %r%s" % (
            target.attr,
            "; did you mean %r?" % near if near else "",
        )
        settings.dump_requested = settings.dump_requested or (
            near in _MEMBERS and value not in (False, 0)
        )
        self._problem(
            settings,
            "unknown-option",
            (target.attr,),
            message,
            _RAISES[dialect],
            near or "one of: " + ", ".join(known),
            target,
        )


@lru_cache(maxsize=1000)
def _near_option(key: str) -> Optional[str]:
    """Return the dump setting that ``key`` misspells by a letter or two; other options are none of
    our business.
    """
    return next(iter(nearest_names(key, NPU_DEFAULTS, cutoff=0.6 if "dump" in key else 0.85)), None)
