"""Dump settings in a Python training script, read from its syntax tree; nothing of it is executed."""

from __future__ import annotations

import ast
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Dict, List, Optional, Tuple

from ..naming import nearest_names
from .finding import ERROR, WARNING, Finding, Findings, placed
from .key_rules import nearest_word
from .npu_rules import COMPUTED, OTHER_SETTINGS, NpuRules
from .plan import NPU_DEFAULTS
from .script_reach import Reach, key_of
from .script_tree import is_text, last_name, literal, parse, too_deep, walk

_MEMBERS = {"enable_dump": "b", "enable_dump_debug": "b"}
_OTHER_MEMBERS = {"quant_dumpable": "s", "enable_exception_dump": "i"}

Place = Tuple[int, int]


@dataclass
class ScriptSettings:
    """The settings of one DumpConfig call, one parameter_map or of npu_device's global options.

    Attributes
    ----------
    dialect
        ``DumpConfig``, ``parameter_map`` or ``global_options``.
    place
        Line and column of the call or of the first assignment.
    values, places
        By setting; a value that cannot be read from the text is COMPUTED.
    open
        Whether more settings may come from where the text does not show.
    node, owner
        The call or the first assignment in the syntax tree; of a parameter_map the custom optimizer that has it.
    """

    dialect: str
    place: Place
    values: Dict[str, Any] = field(default_factory=dict)
    places: Dict[str, Place] = field(default_factory=dict)
    problems: List[Finding] = field(default_factory=list)
    open: bool = False
    node: Any = None
    owner: Optional[str] = None

    #: Whether a misspelt switch was set to something other than off.
    asked: bool = False

    def may_dump(self) -> bool:
        """Tell whether the text leaves it possible that something is dumped."""
        return self.open or any(self.values.get(name) not in (None, False) for name in _MEMBERS)

    def set(self, name: str, value: Any, place: Place) -> None:
        """Note an assignment; two different values make the setting unknown (branches are not followed)."""
        if name in self.values and self.values[name] != value:
            value = COMPUTED
        self.values[name] = value
        self.places.setdefault(name, place)

    def located(self, findings: List[Finding]) -> List[Finding]:
        """Return the reader's problems and these findings, each with the place of its setting."""
        result = []
        for finding in self.problems + findings:
            if finding.line is None:
                place = self.places.get(str(finding.path[0]), self.place) if finding.path else self.place
                finding = placed(finding, *place)
            result.append(finding)
        return result


def read_script(data: bytes, findings: Findings) -> Optional[List[ScriptSettings]]:
    """Return all dump settings of a script in the order of the text, or None with a finding when it is no Python."""
    tree, lines = parse(data, findings)
    if tree is None:
        return None
    try:
        return _Reader(lines).read(tree)
    except RecursionError:
        too_deep(findings, "Python may run it")
        return None


def check_settings(settings: ScriptSettings, rules: NpuRules) -> Dict[str, Any]:
    """Check one set of settings by themselves; return their values, COMPUTED where the text does not show them."""
    values = settings.values
    if settings.open:
        values = dict(dict.fromkeys(NPU_DEFAULTS, COMPUTED), **values)
    rules.check(values, asked=settings.asked)
    return values


class _Reader:
    """Finds the settings in a syntax tree."""

    def __init__(self, lines: List[str]) -> None:
        self._lines = lines
        self._found: List[ScriptSettings] = []
        self._maps: Dict[Tuple[int, str], ScriptSettings] = {}
        self._global: Optional[ScriptSettings] = None
        self._options: Dict[str, str] = {}
        self._imported: Dict[str, str] = {}
        self._owners: Dict[str, str] = {}
        self._places: Dict[int, List[int]] = {}

    def read(self, tree: ast.AST) -> List[ScriptSettings]:
        """Return the settings in the order of the text."""
        nodes = sorted(walk(tree), key=lambda pair: self._order(pair[0]))
        for node, _ in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                self._alias(node.targets if isinstance(node, ast.Assign) else [node.target], node.value)
            elif isinstance(node, ast.ImportFrom):
                self._imported.update({name.asname: name.name for name in node.names if name.asname})
        for node, scope in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                value = COMPUTED if isinstance(node, ast.AugAssign) or node.value is None else literal(node.value)
                for target in targets:
                    if isinstance(target, ast.Attribute):
                        self._assignment(target, value, node, scope)
        maps = [settings for settings in self._found if settings.dialect == "parameter_map"]
        if len(maps) > 1:
            self._share(maps)
        self._look_around(Reach(nodes, self._imported))
        return sorted(self._found, key=lambda settings: settings.place)

    def _look_around(self, reach: Reach) -> None:
        """Add what keeps settings that switch a dump on from dumping."""
        for settings in self._found:
            if settings.node is None or not settings.may_dump():
                continue
            if settings.dialect == "DumpConfig":
                complaints = reach.of_dump_config(settings.node)
            else:
                complaints = reach.of_parameter_map(settings.owner, settings.node)
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
                if kind == "map" and isinstance(value, ast.Attribute):
                    self._owners[target.id] = key_of(value.value)

    def _kind(self, node: ast.AST) -> Optional[str]:
        """Tell whether an expression is npu_device's global options, their dump_config, or a parameter_map."""
        if isinstance(node, ast.Call) and last_name(node.func) == "global_options":
            return "options"
        if isinstance(node, ast.Attribute) and node.attr == "dump_config" and self._kind(node.value) == "options":
            return "dump"
        if isinstance(node, ast.Attribute) and node.attr == "parameter_map":
            return "map"
        return self._options.get(node.id) if isinstance(node, ast.Name) else None

    def _call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        name = self._imported.get(name, name)
        if name == "NPURunConfig":
            self._run_config(node)
        if name != "DumpConfig":
            return
        settings = ScriptSettings("DumpConfig", self._place(node), node=node)
        names = list(NPU_DEFAULTS)
        for index, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                settings.open = True
                break
            if index >= len(names):
                message = "DumpConfig takes %d arguments" % len(names)
                self._problem(settings, "unknown-keyword", (), message, "Python raises TypeError", "name the arguments", argument)
                break
            settings.set(names[index], self._plain(names[index], literal(argument)), self._place(argument))
        given = set(settings.values)
        for keyword in node.keywords:
            if keyword.arg is None:
                settings.open = True
            elif keyword.arg in given:
                message = "DumpConfig gets %s twice, by position and by name" % keyword.arg
                self._problem(settings, "repeated-argument", (keyword.arg,), message, "Python raises TypeError", "keep one", keyword.value)
            elif keyword.arg in NPU_DEFAULTS:
                value = self._plain(keyword.arg, literal(keyword.value))
                settings.set(keyword.arg, value, self._place(keyword.value))
            else:
                near = nearest_word(keyword.arg, names)
                message = "DumpConfig has no argument %r%s" % (keyword.arg, "; did you mean %r?" % near if near else "")
                fix = near or "one of: " + ", ".join(names)
                self._problem(settings, "unknown-keyword", (keyword.arg,), message, "Python raises TypeError", fix, keyword.value)
        self._found.append(settings)

    def _run_config(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            value = literal(keyword.value)
            if keyword.arg == "dump_config" and value is not None and value is not COMPUTED:
                settings = ScriptSettings("DumpConfig", self._place(keyword.value), open=True)
                message = "NPURunConfig's dump_config must be a DumpConfig"
                self._problem(settings, "type", ("dump_config",), message, "NPURunConfig raises ValueError", "DumpConfig(…)", keyword.value)
                self._found.append(settings)

    def _problem(
        self, settings: ScriptSettings, rule: str, path: Any, message: str, consumer: str, fix: str, node: Any, severity: str = ERROR
    ) -> None:
        line, column = self._place(node)
        settings.problems.append(Finding(severity, rule, path, message, consumer, fix, line=line, column=column))

    def _plain(self, name: str, value: Any) -> Any:
        """Return 0 and 1 as what they mean for a switch."""
        return bool(value) if name in _MEMBERS and type(value) is int and value in (0, 1) else value

    def _assignment(self, target: ast.Attribute, value: Any, node: Any, scope: int) -> None:
        if isinstance(target.value, ast.Subscript):
            self._map_entry(target, target.value, value, node, scope)
        elif self._kind(target.value) == "dump":
            self._global_option(target, value)

    def _map_entry(self, target: ast.Attribute, entry: ast.Subscript, value: Any, node: Any, scope: int) -> None:
        if self._kind(entry.value) != "map" and last_name(entry.value) != "parameter_map":
            return
        index: Any = entry.slice
        # Python 3.8 and older wrap the key.
        key = literal(getattr(index, "value", index) if type(index).__name__ == "Index" else index)
        if not isinstance(key, str):
            return
        known = key in NPU_DEFAULTS or key in OTHER_SETTINGS
        near = None if known else _near_option(key)
        if not known and not near and "dump" not in key:
            return
        settings = self._maps.get((scope, ast.dump(entry.value)))
        if settings is None:
            owner = key_of(entry.value.value) if isinstance(entry.value, ast.Attribute) else self._owners.get(last_name(entry.value))
            settings = ScriptSettings("parameter_map", self._place(target), node=target, owner=owner)
            self._maps[(scope, ast.dump(entry.value))] = settings
            self._found.append(settings)
        if not known:
            settings.asked = settings.asked or (near in _MEMBERS and value not in (False, 0))
            message = "NpuOptimizer has no option %r%s" % (key, "; did you mean %r?" % near if near else "")
            fix = near or "one of: " + ", ".join(NPU_DEFAULTS)
            finding = Finding(WARNING, "unknown-key", (key,), message, "ignored without a word", fix)
            settings.problems.append(placed(finding, *self._place(target)))
            return
        self._member(settings, key, target, value, node)

    def _member(self, settings: ScriptSettings, key: str, target: ast.Attribute, value: Any, node: Any) -> None:
        """Check that the value goes into the member that the adapter reads: .b for switches, .s (bytes) for text."""
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
            self._problem(settings, "type", (key,), message, "protobuf raises TypeError", fix, written)
        settings.set(key, self._plain(key, value), self._place(target))

    def _global_option(self, target: ast.Attribute, value: Any) -> None:
        if self._global is None:
            self._global = ScriptSettings("global_options", self._place(target))
            self._found.append(self._global)
        if target.attr in NPU_DEFAULTS:
            self._global.set(target.attr, self._plain(target.attr, value), self._place(target))
            return
        near = nearest_word(target.attr, list(NPU_DEFAULTS))
        message = "dump_config has no option %r%s" % (target.attr, "; did you mean %r?" % near if near else "")
        fix = near or "one of: " + ", ".join(NPU_DEFAULTS)
        self._problem(self._global, "unknown-option", (target.attr,), message, "npu_device raises ValueError", fix, target)

    def _share(self, maps: List[ScriptSettings]) -> None:
        """Let settings that are made in several functions complete one another: what another function sets is not missing here."""
        for settings in maps:
            for other in maps:
                for name in other.values:
                    if name not in settings.values:
                        settings.values[name] = COMPUTED


@lru_cache(maxsize=1000)
def _near_option(key: str) -> Optional[str]:
    """Return the dump setting that ``key`` misspells by a letter or two; other options are none of our business."""
    return next(iter(nearest_names(key, NPU_DEFAULTS, cutoff=0.6 if "dump" in key else 0.85)), None)
