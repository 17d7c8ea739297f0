"""Dump settings in a Python script, as its text shows them; nothing of it is executed.

A value that is written out is judged, also one behind a name that the script assigns once. What
depends on the order in which a program runs is not known from the text, and no error.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from dataclasses import field
from functools import lru_cache
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

from ..base.fast_dataclasses import dataclass
from ..base.naming import nearest_names
from .dump_plan import NPU_DEFAULTS
from .finding import ERROR, NOTE, WARNING, Finding, Findings
from .key_rules import RUN_CONFIG, nearest_word
from .npu_rules import COMPUTED, OTHER_SETTINGS, SWITCHES
from .script_names import (
    DUMP_CONFIG,
    GLOBAL_OPTIONS,
    GRAPH_OPTIONS,
    PARAMETER_MAP,
    TORCHAIR,
    Places,
    ScriptNames,
    order,
)
from .script_settings import (
    GRAPH_NAMES,
    OF_GRAPH,
    OFF_LINE,
    RAISES,
    UNLESS,
    ScriptSettings,
    Surroundings,
)
from .script_tree import Block, as_table, key_of, last_name, parse, too_deep, walk
from .settings_elsewhere import PossibleSetters
from .torchair_rules import DEBUG_TYPES, TORCHAIR_DEFAULTS
from .unused_config import all_before, read_before, unused_configs

_MEMBERS = dict.fromkeys(SWITCHES, "b")
_OTHER_MEMBERS = {"quant_dumpable": "s", "enable_exception_dump": "i"}
#: Functions that take a configuration as it is.
_READERS = ("get_npu_backend", "get_compiler", "cache_compile", "dynamo_export", "print")
#: What runs with the settings or without them: a script that has it is no part of a larger one.
_USERS = ("NPURunConfig", "NPUEstimator")
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
#: What reads the first of them: of several devices it has to be set before these are called
# (MindSpore's documentation of dumps).
_COMMUNICATION = ("init", "init_process_group")
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
_MAKERS = ("makedirs", "mkdir", "mkdir_or_exist", "MakeDirs", "makedir_exist_ok")
_MOST_SETTERS = 20
#: A text in Python 3.7's syntax tree, and since.
_CONSTANT = (ast.Str,) if sys.version_info < (3, 8) else (ast.Constant,)


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
        What sets dump options that are not checked: (what, a file that holds them or "", whether
        its arguments stand in the text, line, column).
    made
        The folders that the script makes itself, as far as the text shows.
    imports
        Whether another module could set dump options.
    bare_init
        Whether acl.init is called without a file.
    """

    settings: List[ScriptSettings] = field(default_factory=list)
    problems: List[Finding] = field(default_factory=list)
    elsewhere: List[Tuple[str, str, bool, int, int]] = field(default_factory=list)
    made: FrozenSet[str] = frozenset()
    imports: bool = False
    bare_init: bool = False


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
    """Looks through a syntax tree for the settings, once it is known what names stand for."""

    def __init__(self, tree: ast.AST, lines: List[str]) -> None:
        self._nodes = sorted(walk(tree), key=lambda entry: order(entry[0]))
        self._places = Places(lines)
        self._names = ScriptNames(self._nodes)
        self._around = Surroundings(self._names, self._places)
        self._script = Script(imports=self._names.imports)
        self._objects: Dict[Tuple[Any, ...], ScriptSettings] = {}
        self._setters: Dict[str, Tuple[str, Any, bool]] = {}
        self._made: Set[str] = set()
        self._data_dump: Dict[str, ast.Attribute] = {}
        # By the CompilerConfig, what its data_dump's type is set to.
        self._data_dump_types: Dict[str, List[Tuple[Block, ast.Attribute, Any]]] = {}
        self._option_tables: List[ast.Dict] = []
        # Calls of NPURunConfig with a dump_config.
        self._dumping_runs: List[ast.Call] = []
        # What may set dump options, if nothing in the text does.
        self._possible = PossibleSetters(self._nodes, self._names)

    def read(self) -> Script:
        """Return the settings in the order of the text, and what else sets some."""
        for node, scope, block in self._nodes:
            if isinstance(node, ast.Call):
                self._call(node, scope)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                value = COMPUTED
                if not isinstance(node, ast.AugAssign) and node.value is not None:
                    value = self._names.values.literal(node.value)
                for target in targets:
                    self._assignment(target, value, node, scope, block)
            elif isinstance(node, ast.Dict):
                self._option_tables.append(node)
            elif isinstance(node, _CONSTANT):
                match = _VARIABLE_SET.search(str(self._names.values.literal(node)))
                self._variable(match and match.group(1), match and match.group(2), node)
        self._unread_tables()
        self._data_dump_without_type()
        self._data_dumps()
        settings_found = [
            settings
            for settings in self._objects.values()
            # A map of which only use_off_line is set has no dump setting.
            if settings.node is not None
        ]
        if not (settings_found or self._setters):
            found = self._possible.found(self._around.optimizers)
            self._setters = {what: ("", node, False) for what, node in found.items()}
        for settings in settings_found:
            # What another function sets is not missing here.
            for other in settings_found:
                if settings.dialect == other.dialect != DUMP_CONFIG:
                    for name in other.values:
                        settings.values.setdefault(name, COMPUTED)
        self._unused(settings_found)
        self._too_late(settings_found)
        for settings in settings_found:
            self._around.complete(settings, bool(self._setters or self._data_dump_types))
        self._script.settings = sorted(settings_found, key=lambda settings: settings.place)
        self._script.elsewhere = [
            (what, file, told, *self._places.of(node))
            for what, (file, node, told) in self._setters.items()
        ]
        self._script.made = frozenset(self._made)
        return self._script

    def _unused(self, settings_found: List[ScriptSettings]) -> None:
        """Warn of a configuration with dump options that nothing takes."""
        switched_on = [
            ("ConfigProto" if settings.dialect == PARAMETER_MAP else "CompilerConfig", target)
            for settings in settings_found
            if settings.dialect in (PARAMETER_MAP, TORCHAIR)
            for _, target, name, value in settings.steps
            if name in SWITCHES and value not in (False, None)
        ]
        switched_on += [("NPURunConfig", call) for call in self._dumping_runs]
        for unused in unused_configs(self._nodes, self._names.real_name, switched_on):
            name = unused.variable
            message, fix = (
                "%s holds dump options and is given to nothing" % name,
                "hand %s on" % name,
            )
            if unused.rebound is not None:
                line = self._places.of(unused.rebound)[0]
                message += ": line %d binds the name to another object" % line
                fix = "set the options on the object of line %d" % line
            elif unused.taker is not None:
                taker, line = last_name(unused.taker.func), self._places.of(unused.taker)[0]
                given = {keyword.arg for keyword in unused.taker.keywords} | {None}
                other = unused.taker.args or unused.argument in given
                how = "gets another %s" if other else "has no %s"
                message += ": %s() in line %d %s" % (taker, line, how % unused.argument)
                fix = "%s(%s=%s)" % (taker, unused.argument, name)
            self._places.problem(
                self._script.problems, "unused-config", (), message,
                "nothing is dumped", fix, unused.made, WARNING,
            )  # fmt: skip

    def _too_late(self, settings_found: List[ScriptSettings]) -> None:
        """Warn of dump options that are set behind what reads them."""
        switched_on = [
            (block, target)
            for settings in settings_found
            if settings.dialect == PARAMETER_MAP
            for block, target, name, value in settings.steps
            if name in SWITCHES and value not in (False, None)
        ]
        optimizers = self._around.optimizers
        for node, reader in read_before(
            self._nodes, self._names.real_name, switched_on, optimizers
        ):
            name, line = last_name(reader.func), self._places.of(reader)[0]
            of_acl = isinstance(node, ast.Call)
            message = "dump options are set behind %s() in line %d" % (name, line)
            consumer = (
                "aclmdlSetDump counts for models that are loaded after it: nothing is dumped"
                if of_acl
                else "the session has read the configuration by then: nothing is dumped"
            )
            fix = "set them before line %d" % line
            self._places.problem(
                self._script.problems, "set-too-late", (), message, consumer, fix, node, WARNING
            )

        self._variable_too_late()

    def _variable_too_late(self) -> None:
        """Warn of MindSpore's environment variable where all that sets it stands behind init()."""
        inits = [
            (node, scope, block)
            for node, scope, block in self._nodes
            if isinstance(node, ast.Call)
            and self._names.real_name(node.func) in _COMMUNICATION
            and self._names.module(node.func).split(".")[0] == "mindspore"
        ]
        sets = [
            (node, block) for node, _, block in self._nodes if inits and self._sets_mindspore(node)
        ]
        if sets and all(all_before(inits[:1], node, block) for node, block in sets):
            name, line = last_name(inits[0][0].func), self._places.of(inits[0][0])[0]
            self._places.problem(
                self._script.problems, "set-too-late", (),
                "%s is set behind %s() in line %d" % (_VARIABLES[0], name, line),
                "MindSpore has read the variable by then: nothing is dumped",
                "set it before line %d, or export it before the script" % line, sets[0][0], WARNING,
            )  # fmt: skip

    def _sets_mindspore(self, node: Any) -> bool:
        """Tell whether a statement or call gives MindSpore's environment variable a value."""
        if isinstance(node, ast.Assign):
            keys = [self._key(one) for one in node.targets if isinstance(one, ast.Subscript)]
            return _VARIABLES[0] in keys
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            return False
        is_setter = last_name(node.func) in ("setdefault", "putenv")
        return is_setter and self._names.values.literal(node.args[0]) == _VARIABLES[0]

    # Settings.

    def _settings(self, dialect: str, identity: Any, node: Any, owner: str = "") -> ScriptSettings:
        settings = self._objects.get((dialect, identity))
        if settings is None:
            settings = ScriptSettings(dialect, self._places.of(node), owner=owner)
            self._objects[(dialect, identity)] = settings
        return settings

    def _call(self, node: ast.Call, scope: int) -> None:
        name = self._names.real_name(node.func)
        self._from_elsewhere(node, name, scope)
        self._compiled(node)
        if name in _MAKERS:
            self._makes(node)
        elif name == _TENSOR_SAVER:
            message = "%s writes one tensor of each call as a PyTorch file" % name
            fix = "goldwatch compare-op FILE.pt GOLDEN.npy compares one"
            files = "{save_path without .pt}_device_{D}_{k}.pt"
            problems = self._script.problems
            self._places.problem(problems, "pytorch-files", (), message, files, fix, node, NOTE)
        elif name == "NPURunConfig":
            self._run_config(node)
        elif name == DUMP_CONFIG and self._is_foreign(node):
            own = last_name(node.func) in self._names.defined
            what = "%s DumpConfig" % ("the script's own" if own else "another tool's")
            self._set_elsewhere(what, node, told=True)
        elif name == DUMP_CONFIG:
            self._dump_config(node, scope)
        elif key_of(node.func) == "acl.init" and not node.args:
            self._script.bare_init = True
        elif key_of(node.func) == "acl.init" or (
            name not in self._names.defined and (name in _SETTERS or _SETTER.search(name))
        ):
            file = self._names.values.literal(node.args[0]) if node.args else None
            takes_file = name in _TAKES_FILE and isinstance(file, str)
            # MindSpore's own options, of which none is the device's.
            told = not takes_file and self._names.module(node.func).split(".")[0] == "mindspore"
            origin = self._names.origin(node)
            self._set_elsewhere(origin, node, file if takes_file else "", told)
        elif node.args and self._variable(
            self._names.values.literal(node.args[0]),
            self._names.values.literal(node.args[1]) if len(node.args) > 1 else COMPUTED,
            node,
        ):
            pass
        elif (
            name not in self._names.defined
            and any(keyword.arg in _ASKED for keyword in node.keywords)
            and self._names.module(node.func)
        ):
            self._set_elsewhere(self._names.origin(node), node, told=True)

    def _from_elsewhere(self, node: ast.Call, name: str, scope: int) -> None:
        """Note what a call says of dump settings that do not stand in this script."""
        held = self._possible.call(node, name, scope)
        if name not in self._names.defined and name not in _READERS:
            self._around.handed_out.update(held)
        for keyword in node.keywords:
            if keyword.arg == "remapping":
                self._around.remapping.append(keyword.value)
            elif keyword.arg in _FILE_ARGUMENTS and (
                keyword.arg != _FILE_ARGUMENTS[-1] or name in _SETTERS
            ):
                file = self._names.values.literal(keyword.value)
                if file is not None:
                    self._set_elsewhere(
                        self._names.origin(node), node, file if isinstance(file, str) else ""
                    )

    def _compiled(self, node: ast.Call) -> None:
        """Take the options of torch.compile's backend npugraph_ex, whatever compiles with them."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        options = as_table(self._names.values.written(given.get("options")))
        by_backend = self._names.values.literal(given.get("backend")) == GRAPH_OPTIONS
        if isinstance(options, ast.Dict):
            if by_backend or any(name in self._texts(options) for name in OF_GRAPH):
                self._graph_options(options)
        elif by_backend and options is not None:
            self._set_elsewhere("the options of backend %s" % GRAPH_OPTIONS, node)

    def _unread_tables(self) -> None:
        """Note dictionaries that hand a dump's configuration on, and those with options of
        npugraph_ex that the script compiles nothing with, such as a list of their names.
        """
        for table in self._option_tables:
            held = [self._texts(table).get(name) for name in _TABLE_ENTRIES]
            if None not in held and None not in map(self._names.values.literal, held):
                message = "%s and %s exclude each other" % _TABLE_ENTRIES
                consumer, fix = "vLLM raises ValueError", "keep one of them"
                problems = self._script.problems
                self._places.problem(problems, "both-set", (), message, consumer, fix, held[0])
            for name, value in self._texts(table).items():
                if name in _TABLE_ENTRIES:
                    file = self._names.values.literal(value)
                    what = "the entry %s of a dictionary" % name
                    self._set_elsewhere(what, value, file if isinstance(file, str) else "")
            known = any(name in self._texts(table) for name in OF_GRAPH)
            if known and (GRAPH_OPTIONS, id(table)) not in self._objects:
                self._set_elsewhere("options of %s" % GRAPH_OPTIONS, table)

    def _texts(self, node: ast.Dict) -> Dict[str, ast.expr]:
        """Return the values of a dictionary by their keys that are written out."""
        keys = [self._names.values.literal(key) for key in node.keys]
        return {key: value for key, value in zip(keys, node.values) if isinstance(key, str)}

    def _graph_options(self, node: ast.Dict) -> None:
        """Take the options of torch.compile's backend npugraph_ex."""
        settings = self._settings(GRAPH_OPTIONS, id(node), node)
        entries = self._texts(node)
        if settings.node is not None or not any("dump" in name for name in entries):
            return
        settings.node, settings.mode, settings.open = node, GRAPH_OPTIONS, None in node.keys
        for name, value in entries.items():
            if name in OF_GRAPH:
                self._give(settings, OF_GRAPH[name], value)
            elif "dump" in name:
                # All have "dump" in common, which makes none of them like another.
                left = (option for option in OF_GRAPH if option not in entries)
                bare = {option.replace("dump", ""): option for option in left}
                near = nearest_word(name.replace("dump", ""), bare)
                known = GRAPH_NAMES.get(name) or bare.get(near or "")
                message = "%s has no option %r" % (GRAPH_OPTIONS, name)
                message += "; did you mean %r?" % known if known else ""
                settings.dump_requested |= known == GRAPH_NAMES["enable_dump"]
                raises = "%s raises ValueError" % GRAPH_OPTIONS
                fix = known or "one of: " + ", ".join(OF_GRAPH)
                path, problems = (name,), settings.problems
                self._places.problem(problems, "unknown-option", path, message, raises, fix, value)

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
                self._places.problem(
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
                near = None if name in RUN_CONFIG else _near_option(name)
                repeated = name in by_position
                hint = "; did you mean %r?" % near if near else ""
                fix = near or "one of: " + ", ".join(names)
                if name in RUN_CONFIG:
                    hint, fix = ": it is one of NPURunConfig's", "give it to NPURunConfig"
                message = "DumpConfig has no argument %r%s" % (name, hint)
                if repeated:
                    message = "DumpConfig gets %s twice, by position and by name" % name
                self._places.problem(
                    settings.problems,
                    "repeated-argument" if repeated else "unknown-keyword",
                    (name,),
                    message,
                    "Python raises TypeError",
                    "keep one" if repeated else fix,
                    keyword.value,
                )
        if not settings.may_dump() or id(node) not in self._names.bound_to:
            return
        targets = self._names.bound_to[id(node)]
        if any(target.rpartition(".")[2] in self._names.loaded for target in targets):
            return
        local = scope != 0 and not any("." in target for target in targets)
        certain = not targets or local or any(name in self._names.called for name in _USERS)
        consumer = "no session gets it; nothing is dumped"
        self._places.problem(
            settings.problems,
            "dump-config-unused",
            (),
            "this DumpConfig never reaches NPURunConfig",
            consumer if certain else UNLESS % consumer,
            "NPURunConfig(dump_config=%s)" % (targets[0] if targets else "DumpConfig(…)"),
            node,
            ERROR if certain else WARNING,
        )

    def _give(self, settings: ScriptSettings, name: str, node: Any) -> None:
        value = self._names.values.literal(node)
        settings.set(name, _switch(value) if name in _MEMBERS else value, self._places.of(node))

    def _run_config(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg == "enable_exception_dump":
                self._set_elsewhere("NPURunConfig's enable_exception_dump", node)
            if keyword.arg != "dump_config":
                continue
            value = self._names.values.literal(keyword.value)
            if value is not None:
                self._dumping_runs.append(node)
            if value is not None and value is not COMPUTED:
                self._places.problem(
                    self._script.problems,
                    "type",
                    ("dump_config",),
                    "NPURunConfig's dump_config must be a DumpConfig",
                    "NPURunConfig raises ValueError",
                    "DumpConfig(…)",
                    keyword.value,
                )
            elif value is COMPUTED and not self._names.is_from_here(keyword.value):
                self._set_elsewhere(self._names.origin(keyword.value), keyword.value)

    def _is_foreign(self, call: ast.Call) -> bool:
        """Tell whether a call of a DumpConfig is of another tool's class of that name, or of the
        script's own.
        """
        if not isinstance(call.func, ast.Name):
            return False
        if call.func.id in self._names.foreign or call.func.id in self._names.defined:
            return True
        names = [keyword.arg for keyword in call.keywords]
        return (
            bool(names)
            and not self._names.knows_npu
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
            self._around.optimizers[key_of(target)] = written
            self._around.optimizer_names.setdefault(key_of(target), []).extend(named)
        if not isinstance(target, ast.Attribute):
            return
        holder = key_of(target.value)
        if target.attr in OF_GRAPH and self._names.kind(target.value) is None:
            settings = self._settings(GRAPH_OPTIONS, (scope, holder), target, holder)
            settings.mode = GRAPH_OPTIONS
            if target.attr not in TORCHAIR_DEFAULTS:
                settings.node = settings.node or target
            self._take(settings, OF_GRAPH[target.attr], value, target, block)
        elif target.attr == "name":
            self._around.optimizer_names.setdefault(holder, []).append(written)
        elif target.attr == "remapping":
            self._around.remapping.append(written)
        elif target.attr == "mode":
            self._around.modes.setdefault(holder, []).append(written)
        elif target.attr == "dump_config" and not self._names.is_from_here(written):
            self._possible.note(self._names.origin(written), target)
        elif self._names.knows_torchair and holder.rpartition(".")[2] in DEBUG_TYPES:
            self._debug_option(holder, value, target, written, block)
        elif isinstance(target.value, ast.Subscript):
            self._map_entry(target, target.value, value, node, scope, block)
        kind = self._names.kind(target.value)
        if kind == GLOBAL_OPTIONS:
            settings = self._settings(GLOBAL_OPTIONS, 0, target)
            self._option(settings, target, value, block, NPU_DEFAULTS)
        elif kind == TORCHAIR and self._names.knows_torchair:
            inner = target.value
            owner = (
                key_of(inner.value)
                if isinstance(inner, ast.Attribute)
                else self._names.owners.get(last_name(inner), "")
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
        near = None if name in RUN_CONFIG else nearest_word(name, list(known))
        message = "dump_config has no option %r%s" % (
            name,
            "; did you mean %r?" % near if near else "",
        )
        fix = near or "one of: " + ", ".join(known)
        settings.dump_requested |= near in _MEMBERS and value not in (False, 0)
        raises = RAISES[settings.dialect]
        self._places.problem(
            settings.problems, "unknown-option", (name,), message, raises, fix, target
        )

    def _take(
        self, settings: ScriptSettings, name: str, value: Any, target: ast.Attribute, block: Block
    ) -> None:
        value = _switch(value) if name in _MEMBERS else value
        settings.set(name, value, self._places.of(target))
        settings.steps.append((block, target, name, value))

    def _key(self, entry: ast.Subscript) -> Any:
        index: Any = entry.slice
        # Python 3.8 and older wrap the key.
        return self._names.values.literal(
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
        if (
            self._names.kind(entry.value) != PARAMETER_MAP
            and last_name(entry.value) != PARAMETER_MAP
        ):
            return
        key = self._key(entry)
        if not isinstance(key, str):
            self._possible.note("a computed key of parameter_map", target)
            return
        known = key in NPU_DEFAULTS or key in OTHER_SETTINGS
        near = None if known or key == OFF_LINE else _near_option(key)
        if not known and not near and key != OFF_LINE and "dump" not in key:
            return
        owner = (
            key_of(entry.value.value)
            if isinstance(entry.value, ast.Attribute)
            else self._names.owners.get(last_name(entry.value), "")
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
            settings.node, settings.place = target, self._places.of(target)
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
            self._places.problem(
                problems, "unknown-key", path, message, consumer, fix, target, WARNING
            )
        elif target.attr != member:
            message = "%s must be set through .%s, not .%s" % (key, member, target.attr)
            consumer = "the adapter reads .%s only and finds it unset" % member
            fix = 'parameter_map["%s"].%s' % (key, member)
            self._places.problem(problems, "parameter-member", path, message, consumer, fix, target)
            settings.set(key, COMPUTED, self._places.of(target))
        else:
            if member == "s" and self._names.values.is_text(node.value):
                message = "%s must be set to bytes, it is text" % key
                consumer = "protobuf raises TypeError"
                fix = "tf.compat.as_bytes(%r)" % str(value)[:200]
                self._places.problem(problems, "type", path, message, consumer, fix, node.value)
            self._take(settings, key, value, target, block)

    def _debug_option(
        self, holder: str, value: Any, target: ast.Attribute, written: Any, block: Block
    ) -> None:
        """Take an option of one of TorchAir's debug dumps."""
        name = holder.rpartition(".")[2]
        if ".debug." not in holder:
            owner = target.value.value if isinstance(target.value, ast.Attribute) else None
            if owner is not None and self._names.is_compiler_config(owner):
                option = "debug.%s.%s" % (name, target.attr)
                message = "CompilerConfig has no %s: it is %s" % (name, option)
                self._places.problem(
                    self._script.problems, "unknown-option", (), message,
                    "Python raises AttributeError", option, target,
                )  # fmt: skip
            return
        if name == "data_dump":
            self._data_dump.setdefault(target.attr, target)
        if target.attr != "type":
            return
        if value is not COMPUTED and value not in DEBUG_TYPES[name]:
            values = ", ".join(map(repr, DEBUG_TYPES[name]))
            message = "debug.%s.type: %r is not allowed" % (name, value)
            raises, fix = RAISES[TORCHAIR], "one of: " + values
            self._places.problem(self._script.problems, "enum", (), message, raises, fix, written)
        elif name == "data_dump":
            config = holder[: -len(".debug.data_dump")]
            self._data_dump_types.setdefault(config, []).append((block, target, value))
            if value is COMPUTED:
                self._set_elsewhere("TorchAir's debug.data_dump", target)

    def _data_dumps(self) -> None:
        """Say what TorchAir does for debug.data_dump: it runs the graph's nodes one by one, writes
        their values, and compiles nothing (``_get_compiled_gm`` of its npu_fx_compiler.py in
        torch_npu 2.14, in all modes).
        """
        problems = self._script.problems
        for owner, types in self._data_dump_types.items():
            dumping = [(block, target) for block, target, value in types if value == "npy"]
            for _, target in dumping[:1]:
                message = "debug.data_dump writes the values of the FX graph, the golden data of GE"
                files = "[path/]worldsize{N}_global_rank{R}/{graph}/{token}/*.npy; GE does not run"
                fix = "goldwatch compare GE_DUMP FX_DUMP, with GE's dump of another run"
                self._places.problem(problems, "fx-dump", (), message, files, fix, target, NOTE)
            if len(dumping) < len(types):
                continue
            for settings in self._objects.values():
                idle = [
                    (name, target)
                    for switch, target, name, value in settings.steps
                    if (settings.dialect, settings.owner) == (TORCHAIR, owner)
                    and (value is True or name == "dump_config_path")
                    and any(block.holds(switch) for block, _ in dumping)
                ]
                for name, target in idle[:1]:
                    message = "%s has no effect beside debug.data_dump" % name
                    files = "TorchAir runs the graph's nodes one by one, and GE dumps nothing"
                    fix = "dump in two runs, one with each of them"
                    self._places.problem(
                        problems, "idle-setting", (name,), message, files, fix, target, WARNING
                    )

    def _data_dump_without_type(self) -> None:
        if "type" not in self._data_dump:
            for attribute, target in list(self._data_dump.items())[:1]:
                message = "debug.data_dump.%s is set, and no debug.data_dump.type" % attribute
                consumer, fix = "TorchAir dumps no FX values", 'debug.data_dump.type = "npy"'
                problems = self._script.problems
                self._places.problem(
                    problems, "all-switches-off", (), message, consumer, fix, target, WARNING
                )

    # What the text does not show.

    def _variable(self, name: Any, value: Any, node: Any) -> bool:
        """Note an environment variable that names the configuration of a dump."""
        if not isinstance(name, str) or name not in _VARIABLES:
            return False
        file = value if isinstance(value, str) and name != _VARIABLES[-1] else ""
        self._set_elsewhere("the environment variable %s" % name, node, file)
        return True

    def _set_elsewhere(self, what: str, node: Any, file: Any = "", told: bool = False) -> None:
        """Note that something sets dump options; the same thing once. ``told``: its arguments stand
        in the text.
        """
        known = self._setters.get(what)
        if (known is None and len(self._setters) < _MOST_SETTERS) or (known and file > known[0]):
            self._setters[what] = (str(file), node, told)

    def _makes(self, node: ast.Call) -> None:
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        # os.makedirs("x"), Path("x").mkdir()
        arguments = inner.args if isinstance(inner, ast.Call) and not node.args else node.args
        value = self._names.values.literal(arguments[0]) if arguments else None
        if isinstance(value, str):
            self._made.add(os.path.normpath(value))

    # What is known when everything was read.


def _switch(value: Any) -> Any:
    """Return 0 and 1 as the booleans they are for a switch."""
    return bool(value) if type(value) is int and value in (0, 1) else value


@lru_cache(maxsize=1000)
def _near_option(key: str) -> Optional[str]:
    """Return the dump setting that ``key`` misspells by a letter or two; other options are none of
    our business.
    """
    return next(iter(nearest_names(key, NPU_DEFAULTS, cutoff=0.6 if "dump" in key else 0.85)), None)
