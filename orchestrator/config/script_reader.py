"""Dump settings in a Python script, as its text shows them; nothing of it is executed.

A value that is written out is judged, also one behind a name that the script assigns once. What
depends on the order in which a program runs is not known from the text, and no error.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from bisect import bisect_right
from dataclasses import field
from functools import lru_cache
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Sequence, Set, Tuple

from ..base.fast_dataclasses import dataclass
from ..base.naming import nearest_names
from .dump_plan import NPU_DEFAULTS
from .finding import ERROR, NOTE, WARNING, Finding, Findings, placed
from .key_rules import nearest_word
from .npu_rules import CERTAIN, COMPUTED, NEVER, OTHER_SETTINGS, POSSIBLE, SWITCHES, NpuRules
from .script_tree import Block, Values, key_of, last_name, parse, too_deep, walk
from .torchair_rules import DEBUG_TYPES, TORCHAIR_DEFAULTS, TORCHAIR_MODES, TorchAirRules

DUMP_CONFIG, PARAMETER_MAP, GLOBAL_OPTIONS, TORCHAIR, GRAPH_OPTIONS = (
    "DumpConfig",
    "parameter_map",
    "global_options",
    "torchair",
    "npugraph_ex",
)
OFF_LINE = "use_off_line"

_MEMBERS = dict.fromkeys(SWITCHES, "b")
_OTHER_MEMBERS = {"quant_dumpable": "s", "enable_exception_dump": "i"}
_RAISES = {GLOBAL_OPTIONS: "npu_device raises ValueError", TORCHAIR: "TorchAir raises ValueError"}
_OPTIMIZER = "NpuOptimizer"
#: npu_bridge's own helper sets name, use_off_line and remapping.
_HELPER = "npu_config_proto"
_REMAPPING_OFF = 2
#: Functions that take a configuration as it is.
_READERS = ("get_npu_backend", "get_compiler", "cache_compile", "dynamo_export", "print")
#: What runs with the settings or without them: a script that has it is no part of a larger one.
_USERS = ("NPURunConfig", "NPUEstimator")
_UNLESS = "unless another module sets it, %s"

#: Where npu_bridge's own DumpConfig comes from.
_NPU_MODULE = re.compile(r"(?:^|\.)npu")
_KNOWN_MODULE = re.compile(
    r"(?:npu_bridge|npu_device|tensorflow|torch|torch_npu|torchair)(?:\.|\Z)"
)
_SETTER = re.compile(r"(?i)dump_?(?:npu_?)?config|config_?dump|set_(?:ge_|fx_)?dump")
#: torch_npu's function that writes a tensor within a graph.
_TENSOR_SAVER = "save_npugraph_tensor"
#: precision_tool's function for a custom optimizer, msprobe's debugger, MindSpore's way to give
# aclInit a configuration.
_SETTERS = ("update_custom_op", "PrecisionDebugger", "aclinit_config")
#: Those of the setters that take the file of a configuration of aclInit.
_TAKES_FILE = ("init", "set_dump")
#: Environment variables that name the configuration of a dump: of MindSpore, of torch_npu's
# aclInit, and one that switches the exception dump on.
_VARIABLES = ("MINDSPORE_DUMP_CONFIG", "TORCH_ACL_INIT_CONFIG_PATH", "ASCEND_DUMP_SCENE")
_VARIABLE_SET = re.compile(r"\b(%s)(?:=['\"]?([^\s;'\"&|]+))?" % "|".join(_VARIABLES))
#: In a command line: a variable or vLLM's entry, and the file that it names.
NAMED_FILE = re.compile(
    r"\b(?:%s)=['\"]?([^\s;'\"&|]*/[^\s;'\"&|]*)|\bdump_config_path['\"\s]*[:=]\s*['\"]?([^\s;'\"&|]+)"
    % "|".join(_VARIABLES)
)
#: Arguments by which a function of another module is asked for a dump.
_ASKED = ("dump", *NPU_DEFAULTS)
#: Arguments that name the file of a configuration of aclInit (ais_bench's), or msprobe's own.
_FILE_ARGUMENTS = ("acl_json_path", "acl_json", "config_path")
#: What vLLM's additional_config calls msprobe's configuration, or its file.
_TABLE_ENTRIES = ("dump_config", "dump_config_path")
#: Arguments by which a session, an Estimator or TorchAir's backend gets what holds dump settings.
_CONFIG_ARGUMENTS = ("config", "config_proto", "session_config", "compiler_config")
_CONFIG_TAKERS = (
    "Session", "InteractiveSession", "MonitoredTrainingSession", "MonitoredSession",
    "NPUEstimator", "NPURunConfig", "npu_config_proto", "get_npu_backend", "get_compiler",
    "cache_compile", "dynamo_export",
)  # fmt: skip
#: The options of torch.compile's backend npugraph_ex, and what TorchAir calls them.
_GRAPH_OPTIONS = {
    "dump_tensor_data": "enable_dump",
    "data_dump_dir": "dump_path",
    "data_dump_stage": "data_dump_stage",
}
_GRAPH_NAMES = {name: option for option, name in _GRAPH_OPTIONS.items()}
_GRAPH_NAMES["TorchAir"] = GRAPH_OPTIONS
#: Not within a path or a value.
_GRAPH_NAME = re.compile(r"(?<![\w/.'\"])(?:%s)\b" % "|".join(_GRAPH_NAMES))
_MAKERS = ("makedirs", "mkdir", "mkdir_or_exist", "MakeDirs", "makedir_exist_ok")
_MOST_SETTERS = 20
#: Of two switches, each pair of which is looked at; no script that people wrote has a tenth.
_MOST_STEPS = 1000
#: A text in Python 3.7's syntax tree, and since.
_CONSTANT = (ast.Str,) if sys.version_info < (3, 8) else (ast.Constant,)

Place = Tuple[int, int]


@dataclass
class ScriptSettings:
    """The settings of one DumpConfig call, one parameter_map, npu_device's global options, one
    dump_config of TorchAir or the options of npugraph_ex.

    Attributes
    ----------
    dialect
        DUMP_CONFIG, PARAMETER_MAP, GLOBAL_OPTIONS, TORCHAIR or GRAPH_OPTIONS.
    place
        Line and column of the call or of the first assignment.
    values, places
        By setting; a value that cannot be read from the text is COMPUTED.
    open
        Whether more settings may come from where the text does not show.
    node, owner
        The call or the first assignment in the syntax tree; the object that has the parameter_map
        or the dump_config.
    scope, names
        The function, and the names in it under which it has them.
    steps
        Each assignment: its block, its place in the tree, the setting and its value.
    together
        Whether enable_dump and enable_dump_debug are both on at the same time: CERTAIN, POSSIBLE
        (not known from the text) or NEVER; None for a call, all of which holds.
    dump_requested
        Whether a misspelt switch was set to something other than off.
    mode
        TorchAir's mode, where it stands in the text.
    """

    dialect: str
    place: Place
    values: Dict[str, Any] = field(default_factory=dict)
    places: Dict[str, Place] = field(default_factory=dict)
    problems: List[Finding] = field(default_factory=list)
    open: bool = False
    node: Any = None
    owner: str = ""
    scope: int = 0
    names: Sequence[str] = ()
    steps: List[Tuple[Block, Any, str, Any]] = field(default_factory=list)
    together: Optional[str] = None
    dump_requested: bool = False
    mode: Any = None

    def may_dump(self) -> bool:
        """Tell whether the text leaves it possible that something is dumped."""
        return self.open or any(self.values.get(name) not in (None, False) for name in SWITCHES)

    def set(self, name: str, value: Any, place: Place) -> None:
        """Note an assignment; two different values make the setting unknown."""
        if name in self.values and self.values[name] != value:
            value = COMPUTED
        self.values[name] = value
        self.places.setdefault(name, place)

    def check(self, rules: NpuRules) -> Dict[str, Any]:
        """Check the settings by themselves; return their values, COMPUTED where the text does not
        show them.
        """
        values = self.values
        if self.open:
            known: Iterable[str] = NPU_DEFAULTS
            if self.dialect in (TORCHAIR, GRAPH_OPTIONS):
                known = TORCHAIR_DEFAULTS if self.dialect == TORCHAIR else _GRAPH_OPTIONS.values()
            values = dict(dict.fromkeys(known, COMPUTED), **values)
        if isinstance(rules, TorchAirRules):
            rules.mode = self.mode
        rules.check(values, self.dump_requested, self.together)
        return values

    def located(self, findings: List[Finding]) -> List[Finding]:
        """Return the reader's problems and these findings, each with the place of its setting and
        the name that it has in the script.
        """
        result = []
        for finding in self.problems + findings:
            if finding.line is None:
                name = str(finding.path[0]) if finding.path else ""
                finding = placed(finding, *self.places.get(name, self.place))
                if self.dialect == GRAPH_OPTIONS:
                    finding = finding._replace(
                        path=tuple(_GRAPH_NAMES.get(str(part), part) for part in finding.path),
                        message=_graph_text(finding.message),
                        consumer=_graph_text(finding.consumer),
                        fix=_graph_text(finding.fix),
                    )
            result.append(finding)
        return result


@dataclass
class Script:
    """What a script says of dumps.

    Attributes
    ----------
    settings
        In the order of the text.
    problems
        What is wrong outside the settings.
    elsewhere
        What sets dump options that do not stand in the text: (what, a file that holds them or "",
        line, column).
    made
        The folders that the script makes itself, as far as the text shows.
    imports
        Whether another module could set dump options.
    """

    settings: List[ScriptSettings] = field(default_factory=list)
    problems: List[Finding] = field(default_factory=list)
    elsewhere: List[Tuple[str, str, int, int]] = field(default_factory=list)
    made: FrozenSet[str] = frozenset()
    imports: bool = False


def read_script(data: bytes, findings: Findings) -> Optional[Script]:
    """Return what a script says of dumps, or None with a finding when it is no Python."""
    tree, lines = parse(data, findings)
    if tree is None:
        return None
    try:
        return _Reader(tree, lines).read()
    except RecursionError:
        too_deep(findings, "Python may run it")
        return None


class _Reader:
    """Looks twice through a syntax tree: for what names stand for, then for the settings."""

    def __init__(self, tree: ast.AST, lines: List[str]) -> None:
        self._lines = lines
        self._places: Dict[int, List[int]] = {}
        self._nodes = sorted(walk(tree), key=lambda entry: _order(entry[0]))
        self._script = Script()
        self._objects: Dict[Tuple[Any, ...], ScriptSettings] = {}
        self._setters: Dict[str, Tuple[str, Any]] = {}
        self._made: Set[str] = set()

        # What names stand for.
        self._assigned: Dict[str, List[Optional[ast.expr]]] = {}
        self._imported: Dict[str, Tuple[str, str]] = {}
        self._defined: Set[str] = set()
        self._loaded: Set[str] = set()
        self._options: Dict[str, str] = {}
        self._owners: Dict[str, str] = {}
        self._foreign: Set[str] = set()
        self._knows_torchair = self._knows_npu = False
        self._bindings: Dict[Tuple[str, int], int] = {}
        self._targets: Set[int] = set()
        self._bound_to: Dict[int, List[str]] = {}
        self._configs: Set[str] = set()
        self._called: Set[str] = set()
        for node, scope, _ in self._nodes:
            self._names(node, scope)
        self._values = Values(self._assigned)

        # What the settings depend on besides.
        self._modes: Dict[str, List[Any]] = {}
        self._optimizers: Dict[str, Any] = {}
        self._optimizer_names: Dict[str, List[Any]] = {}
        self._remapping: List[Any] = []
        self._handed_out: Set[str] = set()
        # By name, a function of another module that may have changed it.
        self._changed: Dict[str, ast.Call] = {}
        self._option_tables: List[ast.Dict] = []
        # What may set dump options, if nothing in the text does.
        self._possible: Dict[str, Any] = {}

    def read(self) -> Script:
        """Return the settings in the order of the text, and what else sets some."""
        for node, scope, block in self._nodes:
            if isinstance(node, ast.Call):
                self._call(node, scope)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                value = COMPUTED
                if not isinstance(node, ast.AugAssign) and node.value is not None:
                    value = self._values.literal(node.value)
                for target in targets:
                    self._assignment(target, value, node, scope, block)
            elif isinstance(node, ast.Dict):
                self._option_tables.append(node)
            elif isinstance(node, _CONSTANT):
                match = _VARIABLE_SET.search(str(self._values.literal(node)))
                self._variable(match and match.group(1), match and match.group(2), node)
        self._unread_tables()
        settings_found = [
            settings
            for settings in self._objects.values()
            # A map of which only use_off_line is set has no dump setting.
            if settings.node is not None
        ]
        if not (settings_found or self._setters):
            self._setters = {what: ("", node) for what, node in self._possible.items()}
        for settings in settings_found:
            # What another function sets is not missing here.
            for other in settings_found:
                if settings.dialect == other.dialect != DUMP_CONFIG:
                    for name in other.values:
                        settings.values.setdefault(name, COMPUTED)
        for settings in settings_found:
            self._complete(settings)
        self._script.settings = sorted(settings_found, key=lambda settings: settings.place)
        self._script.elsewhere = [
            (what, file, *self._place(node)) for what, (file, node) in self._setters.items()
        ]
        self._script.made = frozenset(self._made)
        return self._script

    # What names stand for.

    def _names(self, node: Any, scope: int) -> None:
        if isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(node, ast.arg):
            key = (node.arg if isinstance(node, ast.arg) else key_of(node), scope)
            self._bindings[key] = self._bindings.get(key, 0) + 1
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._defined.add(node.name)
        elif isinstance(node, ast.arg):
            self._assigned.setdefault(node.arg, []).append(None)
        elif isinstance(node, ast.Global):
            for name in node.names:
                self._assigned.setdefault(name, []).append(None)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            self._loaded.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self._loaded.add(node.id)
        elif isinstance(node, ast.Name):
            if id(node) not in self._targets:
                self._assigned.setdefault(node.id, []).append(None)
        elif isinstance(node, ast.Expr):
            self._bound_to[id(node.value)] = []
        elif isinstance(node, ast.Call):
            self._called.add(self._real_name(node.func))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            self._assigned_names(
                node.targets if isinstance(node, ast.Assign) else [node.target], node.value
            )

    def _assigned_names(self, targets: List[Any], value: Any) -> None:
        if all(isinstance(target, (ast.Name, ast.Attribute)) for target in targets):
            self._bound_to[id(value)] = list(map(key_of, targets))
        if isinstance(value, ast.Call) and self._real_name(value.func) == DUMP_CONFIG:
            for target in targets:
                # Of an entry of a dictionary, its dictionary.
                self._configs.add(
                    last_name(target.value if isinstance(target, ast.Subscript) else target)
                )
        for target in targets:
            if isinstance(target, ast.Name):
                # An assignment comes before its targets in the order of the walk.
                self._targets.add(id(target))
                self._assigned.setdefault(target.id, []).append(value)
                kind = self._kind(value)
                if kind:
                    self._options[target.id] = kind
                if kind in (PARAMETER_MAP, TORCHAIR) and isinstance(value, ast.Attribute):
                    self._owners[target.id] = key_of(value.value)

    def _import(self, node: Any) -> None:
        self._script.imports = True
        module = getattr(node, "module", None) or ""
        names = [module] + [name.name for name in node.names]
        self._knows_torchair = self._knows_torchair or any(
            "torchair" in name or name == "CompilerConfig" for name in names
        )
        self._knows_npu = self._knows_npu or any(_NPU_MODULE.search(name) for name in names)
        for name in node.names:
            taken = name.asname or (name.name if module else name.name.split(".")[0])
            self._imported[taken] = (module or name.name, name.name if module else "")
            self._assigned.setdefault(taken, []).append(None)
            if (
                isinstance(node, ast.ImportFrom)
                and name.name == "DumpConfig"
                and not _NPU_MODULE.search(module)
            ):
                self._foreign.add(taken)

    def _real_name(self, node: ast.AST) -> str:
        name = last_name(node)
        return self._imported.get(name, ("", ""))[1] or name

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

    # Settings.

    def _settings(self, dialect: str, identity: Any, node: Any, owner: str = "") -> ScriptSettings:
        settings = self._objects.get((dialect, identity))
        if settings is None:
            settings = ScriptSettings(dialect, self._place(node), owner=owner)
            self._objects[(dialect, identity)] = settings
        return settings

    def _call(self, node: ast.Call, scope: int) -> None:
        name = self._real_name(node.func)
        self._from_elsewhere(node, name)
        self._compiled(node)
        if name in _MAKERS:
            self._makes(node)
        elif name == _TENSOR_SAVER:
            message = "%s writes one tensor of each call as a PyTorch file" % name
            fix = "goldwatch compare-op FILE.pt GOLDEN.npy compares one"
            files = "{save_path without .pt}_device_{D}_{k}.pt"
            problems = self._script.problems
            self._problem(problems, "pytorch-files", (), message, files, fix, node, NOTE)
        elif name == "NPURunConfig":
            self._run_config(node)
        elif name == DUMP_CONFIG and self._is_foreign(node):
            self._set_elsewhere("another tool's DumpConfig", node)
        elif name == DUMP_CONFIG:
            self._dump_config(node, scope)
        elif key_of(node.func) == "acl.init" and not node.args:
            pass
        elif key_of(node.func) == "acl.init" or (
            name not in self._defined and (name in _SETTERS or _SETTER.search(name))
        ):
            file = self._values.literal(node.args[0]) if node.args else None
            takes_file = name in _TAKES_FILE and isinstance(file, str)
            self._set_elsewhere(self._origin(node), node, file if takes_file else "")
        elif node.args and self._variable(
            self._values.literal(node.args[0]),
            self._values.literal(node.args[1]) if len(node.args) > 1 else COMPUTED,
            node,
        ):
            pass
        elif (
            name not in self._defined
            and any(keyword.arg in _ASKED for keyword in node.keywords)
            and self._module(node.func)
        ):
            self._set_elsewhere(self._origin(node), node)

    def _from_elsewhere(self, node: ast.Call, name: str) -> None:
        """Note what a call says of dump settings that do not stand in this script."""
        if name not in self._defined and name not in _READERS:
            arguments = list(node.args) + [keyword.value for keyword in node.keywords]
            self._handed_out.update(map(key_of, arguments))
            if self._module(node.func):
                self._changed.update(dict.fromkeys(map(key_of, node.args), node))
        for keyword in node.keywords:
            value = keyword.value
            if keyword.arg == "remapping":
                self._remapping.append(value)
            elif keyword.arg in _FILE_ARGUMENTS and (
                keyword.arg != _FILE_ARGUMENTS[-1] or name in _SETTERS
            ):
                file = self._values.literal(value)
                if file is not None:
                    self._set_elsewhere(
                        self._origin(node), node, file if isinstance(file, str) else ""
                    )
            elif keyword.arg is None and name == "NPURunConfig":
                self._possible.setdefault(self._origin(value), node)
            elif (
                keyword.arg in _CONFIG_ARGUMENTS
                and name in _CONFIG_TAKERS
                and (self._knows_npu or self._knows_torchair)
            ):
                changed = self._changed.get(key_of(value))
                made = self._values.written(value)
                if changed is not None:
                    self._possible.setdefault(self._origin(changed), changed)
                elif self._is_unknown(made):
                    self._possible.setdefault(self._origin(made), value)
        if name == "setattr" and node.args and self._kind(node.args[0]):
            self._possible.setdefault("setattr of %s" % key_of(node.args[0]), node)
        elif any(self._kind(argument) == "options" for argument in node.args):
            self._possible.setdefault(self._origin(node), node)

    def _is_unknown(self, node: Any) -> bool:
        """Tell whether a value comes from another module or from what calls this one."""
        if isinstance(node, ast.Name) and node.id not in self._imported:
            return not any(self._assigned.get(node.id, ()))
        return bool(self._module(node.func if isinstance(node, ast.Call) else node))

    def _compiled(self, node: ast.Call) -> None:
        """Take the options of torch.compile's backend npugraph_ex, whatever compiles with them."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        options = self._values.written(given.get("options"))
        by_backend = self._values.literal(given.get("backend")) == GRAPH_OPTIONS
        if isinstance(options, ast.Dict):
            if by_backend or any(name in self._texts(options) for name in _GRAPH_OPTIONS):
                self._graph_options(options)
        elif by_backend and options is not None:
            self._set_elsewhere("the options of backend %s" % GRAPH_OPTIONS, node)

    def _unread_tables(self) -> None:
        """Note dictionaries that hand a dump's configuration on, and those with options of
        npugraph_ex that the script compiles nothing with, such as a list of their names.
        """
        for table in self._option_tables:
            for name, value in self._texts(table).items():
                if name in _TABLE_ENTRIES:
                    file = self._values.literal(value)
                    what = "the entry %s of a dictionary" % name
                    self._set_elsewhere(what, value, file if isinstance(file, str) else "")
            known = any(name in self._texts(table) for name in _GRAPH_OPTIONS)
            if known and (GRAPH_OPTIONS, id(table)) not in self._objects:
                self._set_elsewhere("options of %s" % GRAPH_OPTIONS, table)

    def _texts(self, node: ast.Dict) -> Dict[str, ast.expr]:
        """Return the values of a dictionary by their keys that are written out."""
        keys = [self._values.literal(key) for key in node.keys]
        return {key: value for key, value in zip(keys, node.values) if isinstance(key, str)}

    def _graph_options(self, node: ast.Dict) -> None:
        """Take the options of torch.compile's backend npugraph_ex."""
        settings = self._settings(GRAPH_OPTIONS, id(node), node)
        entries = self._texts(node)
        if settings.node is not None or not any("dump" in name for name in entries):
            return
        settings.node, settings.mode, settings.open = node, GRAPH_OPTIONS, None in node.keys
        for name, value in entries.items():
            if name in _GRAPH_OPTIONS:
                self._give(settings, _GRAPH_OPTIONS[name], value)
            elif "dump" in name:
                known = _GRAPH_NAMES.get(name) or nearest_word(name, list(_GRAPH_OPTIONS))
                message = "%s has no option %r" % (GRAPH_OPTIONS, name)
                message += "; did you mean %r?" % known if known else ""
                settings.dump_requested |= known == _GRAPH_NAMES["enable_dump"]
                raises = "%s raises ValueError" % GRAPH_OPTIONS
                fix = known or "one of: " + ", ".join(_GRAPH_OPTIONS)
                path, problems = (name,), settings.problems
                self._problem(problems, "unknown-option", path, message, raises, fix, value)

    def _dump_config(self, node: ast.Call, scope: int) -> None:
        settings = self._settings(DUMP_CONFIG, id(node), node)
        settings.node = node
        names = list(NPU_DEFAULTS)
        given = [(names[i] if i < len(names) else "", node.args[i]) for i in range(len(node.args))]
        for name, argument in given:
            if isinstance(argument, ast.Starred):
                settings.open = True
                break
            if not name:
                message = "DumpConfig takes %d arguments" % len(names)
                self._problem(
                    settings.problems,
                    "unknown-keyword",
                    (),
                    message,
                    "Python raises TypeError",
                    "name the arguments",
                    argument,
                )
                break
            self._give(settings, name, argument)
        by_position = set(settings.values)
        for keyword in node.keywords:
            name = keyword.arg or ""
            if keyword.arg is None:
                settings.open = True
            elif name in NPU_DEFAULTS and name not in by_position:
                self._give(settings, name, keyword.value)
            else:
                near = nearest_word(name, names)
                repeated = name in by_position
                message = "DumpConfig has no argument %r%s" % (
                    name,
                    "; did you mean %r?" % near if near else "",
                )
                if repeated:
                    message = "DumpConfig gets %s twice, by position and by name" % name
                fix = near or "one of: " + ", ".join(names)
                self._problem(
                    settings.problems,
                    "repeated-argument" if repeated else "unknown-keyword",
                    (name,),
                    message,
                    "Python raises TypeError",
                    "keep one" if repeated else fix,
                    keyword.value,
                )
        if not settings.may_dump() or id(node) not in self._bound_to:
            return
        targets = self._bound_to[id(node)]
        if any(target.rpartition(".")[2] in self._loaded for target in targets):
            return
        local = scope != 0 and not any("." in target for target in targets)
        certain = not targets or local or any(name in self._called for name in _USERS)
        consumer = "no session gets it; nothing is dumped"
        self._problem(
            settings.problems,
            "dump-config-unused",
            (),
            "this DumpConfig never reaches NPURunConfig",
            consumer if certain else _UNLESS % consumer,
            "NPURunConfig(dump_config=%s)" % (targets[0] if targets else "DumpConfig(…)"),
            node,
            ERROR if certain else WARNING,
        )

    def _give(self, settings: ScriptSettings, name: str, node: Any) -> None:
        value = self._values.literal(node)
        settings.set(name, _switch(value) if name in _MEMBERS else value, self._place(node))

    def _run_config(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg == "enable_exception_dump":
                self._set_elsewhere("NPURunConfig's enable_exception_dump", node)
            if keyword.arg != "dump_config":
                continue
            value = self._values.literal(keyword.value)
            if value is not None and value is not COMPUTED:
                self._problem(
                    self._script.problems,
                    "type",
                    ("dump_config",),
                    "NPURunConfig's dump_config must be a DumpConfig",
                    "NPURunConfig raises ValueError",
                    "DumpConfig(…)",
                    keyword.value,
                )
            elif value is COMPUTED and not self._is_from_here(keyword.value):
                self._set_elsewhere(self._origin(keyword.value), keyword.value)

    def _is_from_here(self, node: ast.expr) -> bool:
        """Tell whether a DumpConfig of this script may be the value of an expression."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and self._real_name(inner.func) == DUMP_CONFIG:
                return True
            if last_name(inner) in self._configs:
                return True
        return False

    def _is_foreign(self, call: ast.Call) -> bool:
        """Tell whether a call of a DumpConfig is of another tool's class of that name, or of the
        script's own.
        """
        if not isinstance(call.func, ast.Name):
            return False
        if call.func.id in self._foreign or call.func.id in self._defined:
            return True
        names = [keyword.arg for keyword in call.keywords]
        return (
            bool(names)
            and not self._knows_npu
            and not any(name is None or name in NPU_DEFAULTS for name in names)
        )

    def _assignment(self, target: Any, value: Any, node: Any, scope: int, block: Block) -> None:
        written = node.value
        if isinstance(target, ast.Subscript):
            self._variable(self._key(target), value, target)
            return
        if (
            isinstance(written, ast.Call)
            and isinstance(written.func, ast.Attribute)
            and written.func.attr == "add"
            and key_of(written.func.value).endswith("custom_optimizers")
        ):
            named = [keyword.value for keyword in written.keywords if keyword.arg == "name"]
            self._optimizers[key_of(target)] = written
            self._optimizer_names.setdefault(key_of(target), []).extend(named)
        if not isinstance(target, ast.Attribute):
            return
        holder = key_of(target.value)
        if target.attr in _GRAPH_OPTIONS and self._kind(target.value) is None:
            settings = self._settings(GRAPH_OPTIONS, (scope, holder), target, holder)
            settings.mode = GRAPH_OPTIONS
            if target.attr not in TORCHAIR_DEFAULTS:
                settings.node = settings.node or target
            self._take(settings, _GRAPH_OPTIONS[target.attr], value, target, block)
        elif target.attr == "name":
            self._optimizer_names.setdefault(holder, []).append(written)
        elif target.attr == "remapping":
            self._remapping.append(written)
        elif target.attr == "mode":
            self._modes.setdefault(holder, []).append(written)
        elif target.attr == "dump_config" and not self._is_from_here(written):
            self._possible.setdefault(self._origin(written), target)
        elif target.attr == "type" and self._knows_torchair:
            self._debug_type(holder, value, target, written)
        elif isinstance(target.value, ast.Subscript):
            self._map_entry(target, target.value, value, node, scope, block)
        kind = self._kind(target.value)
        if kind == GLOBAL_OPTIONS:
            settings = self._settings(GLOBAL_OPTIONS, 0, target)
            self._option(settings, target, value, block, NPU_DEFAULTS)
        elif kind == TORCHAIR and self._knows_torchair:
            inner = target.value
            owner = (
                key_of(inner.value)
                if isinstance(inner, ast.Attribute)
                else self._owners.get(last_name(inner), "")
            )
            settings = self._settings(TORCHAIR, (scope, owner), target, owner)
            settings.scope, settings.names = scope, [owner, owner.split(".")[0]]
            self._option(settings, target, value, block, TORCHAIR_DEFAULTS)
        elif kind == TORCHAIR and (target.attr in TORCHAIR_DEFAULTS or target.attr in NPU_DEFAULTS):
            # Neither npu_device's nor, as far as the script says, TorchAir's.
            self._set_elsewhere("an object called dump_config", target)

    def _option(
        self,
        settings: ScriptSettings,
        target: ast.Attribute,
        value: Any,
        block: Block,
        known: Dict[str, Any],
    ) -> None:
        """Take an assignment to an option of a dump_config."""
        settings.node = settings.node or target
        name = target.attr
        if name in known:
            self._take(settings, name, value, target, block)
            return
        near = nearest_word(name, list(known))
        message = "dump_config has no option %r%s" % (
            name,
            "; did you mean %r?" % near if near else "",
        )
        fix = near or "one of: " + ", ".join(known)
        settings.dump_requested |= near in _MEMBERS and value not in (False, 0)
        raises = _RAISES[settings.dialect]
        self._problem(settings.problems, "unknown-option", (name,), message, raises, fix, target)

    def _take(
        self, settings: ScriptSettings, name: str, value: Any, target: ast.Attribute, block: Block
    ) -> None:
        value = _switch(value) if name in _MEMBERS else value
        settings.set(name, value, self._place(target))
        settings.steps.append((block, target, name, value))

    def _key(self, entry: ast.Subscript) -> Any:
        index: Any = entry.slice
        # Python 3.8 and older wrap the key.
        return self._values.literal(
            getattr(index, "value", index) if type(index).__name__ == "Index" else index
        )

    def _map_entry(
        self,
        target: ast.Attribute,
        entry: ast.Subscript,
        value: Any,
        node: Any,
        scope: int,
        block: Block,
    ) -> None:
        """Take an assignment to an entry of a parameter_map; the adapter reads .b for switches, .s
        (bytes) for text.
        """
        if self._kind(entry.value) != PARAMETER_MAP and last_name(entry.value) != PARAMETER_MAP:
            return
        key = self._key(entry)
        if not isinstance(key, str):
            self._possible.setdefault("a computed key of parameter_map", target)
            return
        known = key in NPU_DEFAULTS or key in OTHER_SETTINGS
        near = None if known or key == OFF_LINE else _near_option(key)
        if not known and not near and key != OFF_LINE and "dump" not in key:
            return
        owner = (
            key_of(entry.value.value)
            if isinstance(entry.value, ast.Attribute)
            else self._owners.get(last_name(entry.value), "")
        )
        settings = self._settings(PARAMETER_MAP, (scope, ast.dump(entry.value)), target, owner)
        settings.scope = scope
        settings.names = [
            name for key in (owner, key_of(entry.value)) for name in (key, key.split(".")[0])
        ]
        if key == OFF_LINE:
            if target.attr == "b":
                settings.steps.append((block, target, key, _switch(value)))
            return
        if settings.node is None:
            settings.node, settings.place = target, self._place(target)
        member = _OTHER_MEMBERS.get(key) or _MEMBERS.get(key, "s")
        path, problems = (key,), settings.problems
        if not known:
            settings.dump_requested |= near in _MEMBERS and value not in (False, 0)
            message = "NpuOptimizer has no option %r%s" % (
                key,
                "; did you mean %r?" % near if near else "",
            )
            fix = near or "one of: " + ", ".join(NPU_DEFAULTS)
            consumer = "ignored without a word"
            self._problem(problems, "unknown-key", path, message, consumer, fix, target, WARNING)
        elif target.attr != member:
            message = "%s must be set through .%s, not .%s" % (key, member, target.attr)
            consumer = "the adapter reads .%s only and finds it unset" % member
            fix = 'parameter_map["%s"].%s' % (key, member)
            self._problem(problems, "parameter-member", path, message, consumer, fix, target)
            settings.set(key, COMPUTED, self._place(target))
        else:
            if member == "s" and self._values.is_text(node.value):
                message = "%s must be set to bytes, it is text" % key
                consumer = "protobuf raises TypeError"
                fix = "tf.compat.as_bytes(%r)" % str(value)[:200]
                self._problem(problems, "type", path, message, consumer, fix, node.value)
            self._take(settings, key, value, target, block)

    def _debug_type(self, holder: str, value: Any, target: ast.Attribute, written: Any) -> None:
        """Take the type of one of TorchAir's debug dumps."""
        name = holder.rpartition(".debug.")[2]
        if name not in DEBUG_TYPES or ".debug." not in holder:
            return
        if value is not COMPUTED and value not in DEBUG_TYPES[name]:
            values = ", ".join(map(repr, DEBUG_TYPES[name]))
            message = "debug.%s.type: %r is not allowed" % (name, value)
            raises, fix = _RAISES[TORCHAIR], "one of: " + values
            self._problem(self._script.problems, "enum", (), message, raises, fix, written)
        elif value is not None and name == "data_dump":
            self._set_elsewhere("TorchAir's debug.data_dump", target)

    # What the text does not show.

    def _module(self, node: ast.AST) -> str:
        """Return the module that a name or attribute is imported from; empty for this script's own
        and those of npu_bridge, TensorFlow and PyTorch.
        """
        module, _ = self._imported.get(key_of(node).split(".")[0], ("", ""))
        return "" if _KNOWN_MODULE.match(module) else module

    def _origin(self, node: Any) -> str:
        """Return what a name, an attribute or a call is called, and of which module it is."""
        called = "()" if isinstance(node, ast.Call) else ""
        node = node.func if called else node
        key, module = key_of(node), self._module(node)
        name = self._real_name(node) if key.startswith("<") or module else key
        name = name + called if name else "a computed value"
        return "%s of module %s" % (name, module) if module else name

    def _variable(self, name: Any, value: Any, node: Any) -> bool:
        """Note an environment variable that names the configuration of a dump."""
        if not isinstance(name, str) or name not in _VARIABLES:
            return False
        file = value if isinstance(value, str) and name != _VARIABLES[-1] else ""
        self._set_elsewhere("the environment variable %s" % name, node, file)
        return True

    def _set_elsewhere(self, what: str, node: Any, file: Any = "") -> None:
        """Note that something sets dump options; the same thing once."""
        known = self._setters.get(what)
        if (known is None and len(self._setters) < _MOST_SETTERS) or (known and file > known[0]):
            self._setters[what] = (str(file), node)

    def _makes(self, node: ast.Call) -> None:
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        # os.makedirs("x"), Path("x").mkdir()
        arguments = inner.args if isinstance(inner, ast.Call) and not node.args else node.args
        value = self._values.literal(arguments[0]) if arguments else None
        if isinstance(value, str):
            self._made.add(os.path.normpath(value))

    # What is known when everything was read.

    def _complete(self, settings: ScriptSettings) -> None:
        owner = settings.owner
        settings.open = settings.open or bool(self._setters) or owner in self._handed_out
        if settings.dialect in (DUMP_CONFIG, GRAPH_OPTIONS):
            return
        settings.together = self._together(settings)
        modes = [self._values.literal(node) for node in self._modes.get(owner, ())]
        if settings.dialect == TORCHAIR and modes:
            wrong = [
                index
                for index, mode in enumerate(modes)
                if mode not in TORCHAIR_MODES + (COMPUTED,)
            ]
            settings.mode = modes[0] if modes == modes[:1] and not wrong else COMPUTED
            for index in wrong:
                message = "mode: %r is not allowed" % modes[index]
                fix = "one of: " + ", ".join(TORCHAIR_MODES)
                node = self._modes[owner][index]
                raises = _RAISES[TORCHAIR]
                self._problem(settings.problems, "enum", ("mode",), message, raises, fix, node)
        of_map = settings.dialect == PARAMETER_MAP and settings.may_dump()
        if of_map and _HELPER not in self._called:
            self._surroundings(settings)

    def _surroundings(self, settings: ScriptSettings) -> None:
        """Find what keeps a parameter_map that asks for a dump from the NPU."""
        problems, owner = settings.problems, settings.owner
        # Such as custom_optimizers[0].name
        unnamed = [
            node for key, nodes in self._optimizer_names.items() if key[:1] == "<" for node in nodes
        ]  # noqa: E501
        nodes = self._optimizer_names.get(owner, [])
        names = [self._values.literal(node) for node in nodes]
        named = [self._values.literal(node) for node in unnamed]
        fix = 'name = "%s"' % _OPTIMIZER
        right = any(name in (_OPTIMIZER, COMPUTED) for name in names + named)
        if names and not right:
            message = "the custom optimizer is called %r, not %r" % (names[0], _OPTIMIZER)
            consumer = "TensorFlow does not find it, or it is not the NPU's; nothing is dumped"
            self._problem(problems, "optimizer-name", (), message, consumer, fix, nodes[0])
        elif owner in self._optimizers and not right:
            message = "the custom optimizer has no name"
            consumer = _UNLESS % "TensorFlow finds no optimizer; nothing is dumped"
            place = self._optimizers[owner]
            self._problem(problems, "optimizer-name", (), message, consumer, fix, place, WARNING)
        # On unless it is set.
        off = [step for step in settings.steps if step[2] == OFF_LINE]
        dumping = [
            step
            for step in settings.steps
            if step[2] in SWITCHES and (step[3] is True or step[3] is COMPUTED)
        ]
        if off and all(value is False for _, _, _, value in off) and self._is_one(settings):
            for block, node, _, _ in off:
                if all(block.holds(switch[0]) for switch in dumping):
                    message = "use_off_line is switched off"
                    consumer = "the session does not run on the NPU as the dump settings expect"
                    consumer += "; nothing is dumped"
                    fix = 'parameter_map["use_off_line"].b = True'
                    self._problem(problems, "use-off-line", (), message, consumer, fix, node)
                    break
        if self._optimizers and not any(map(self._may_be_off, self._remapping)):
            message = "rewrite_options.remapping is not OFF"
            consumer = "TensorFlow merges ops before the adapter sees them; what should be dumped "
            consumer += "may be gone"
            fix = "rewrite_options.remapping = RewriterConfig.OFF"
            place = self._remapping[0] if self._remapping else settings.node
            self._problem(problems, "remapping", (), message, consumer, fix, place, WARNING)

    def _may_be_off(self, node: ast.AST) -> bool:
        value = self._values.literal(node)
        if value is COMPUTED:
            return not isinstance(node, ast.Attribute) or node.attr == "OFF"
        return bool(value == _REMAPPING_OFF)

    def _is_one(self, settings: ScriptSettings) -> bool:
        """Tell whether what has the settings is the same object at all of their places."""
        return all(self._bindings.get((name, settings.scope), 0) <= 1 for name in settings.names)

    def _together(self, settings: ScriptSettings) -> str:
        """Tell whether both switches are on: CERTAIN where the one stands before the other in its
        block or one around it, and nothing in the script sets them or their object anew.
        """
        steps = [step for step in settings.steps if step[2] in SWITCHES]
        if len(steps) > _MOST_STEPS:
            return POSSIBLE
        pairs = [
            (first, second)
            for first in steps
            for second in steps
            if first[3] is second[3] is True
            and first[2] != second[2]
            and _order(first[1]) < _order(second[1])
        ]
        if not any(not first[0].excludes(second[0]) for first, second in pairs):
            return NEVER
        certain = self._is_one(settings) and all(step[3] is True for step in steps)
        if certain and any(first[0].holds(second[0]) for first, second in pairs):
            return CERTAIN
        return POSSIBLE

    def _problem(
        self,
        problems: List[Finding],
        rule: str,
        path: Any,
        message: str,
        consumer: str,
        fix: str,
        node: Any,
        severity: str = ERROR,
    ) -> None:
        line, column = self._place(node)
        problems.append(
            Finding(severity, rule, path, message, consumer, fix, line=line, column=column)
        )

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


def _graph_text(text: str) -> str:
    return _GRAPH_NAME.sub(lambda match: _GRAPH_NAMES[match.group()], text, count=1)


def _switch(value: Any) -> Any:
    """Return 0 and 1 as the booleans they are for a switch."""
    return bool(value) if type(value) is int and value in (0, 1) else value


def _order(node: Any) -> Tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


@lru_cache(maxsize=1000)
def _near_option(key: str) -> Optional[str]:
    """Return the dump setting that ``key`` misspells by a letter or two; other options are none of
    our business.
    """
    return next(iter(nearest_names(key, NPU_DEFAULTS, cutoff=0.6 if "dump" in key else 0.85)), None)
