"""The dump settings that a script makes, and what the rest of its text says of them."""

from __future__ import annotations

import ast
import re
from dataclasses import field
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..base.fast_dataclasses import dataclass
from .dump_plan import NPU_DEFAULTS
from .finding import WARNING, Finding, placed
from .npu_rules import CERTAIN, COMPUTED, NEVER, POSSIBLE, SWITCHES, NpuRules
from .script_names import (
    DUMP_CONFIG,
    GLOBAL_OPTIONS,
    GRAPH_OPTIONS,
    PARAMETER_MAP,
    TORCHAIR,
    Place,
    Places,
    ScriptNames,
    order,
)
from .script_tree import Block
from .torchair_rules import TORCHAIR_DEFAULTS, TORCHAIR_MODES, TorchAirRules

OFF_LINE = "use_off_line"
RAISES = {GLOBAL_OPTIONS: "npu_device raises ValueError", TORCHAIR: "TorchAir raises ValueError"}
UNLESS = "unless another module sets it, %s"
_OPTIMIZER = "NpuOptimizer"
#: npu_bridge's own helper sets name, use_off_line and remapping.
_HELPER = "npu_config_proto"
_REMAPPING_OFF = 2
#: The options of torch.compile's backend npugraph_ex, and what TorchAir calls them.
OF_GRAPH = {
    "dump_tensor_data": "enable_dump",
    "data_dump_dir": "dump_path",
    "data_dump_stage": "data_dump_stage",
}
GRAPH_NAMES = {name: option for option, name in OF_GRAPH.items()}
GRAPH_NAMES["TorchAir"] = GRAPH_OPTIONS
#: Not within a path or a value.
_GRAPH_NAME = re.compile(r"(?<![\w/.'\"])(?:%s)\b" % "|".join(GRAPH_NAMES))
#: Of two switches, each pair of which is looked at; no script that people wrote has a tenth.
_MOST_STEPS = 1000


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
    computed
        Settings that are given a value which cannot be read from the text.
    several
        Settings that are given different values.
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
    computed: Set[str] = field(default_factory=set)
    several: Dict[str, None] = field(default_factory=dict)

    def may_dump(self) -> bool:
        """Tell whether the text leaves it possible that something is dumped."""
        return self.open or any(self.values.get(name) not in (None, False) for name in SWITCHES)

    def set(self, name: str, value: Any, place: Place) -> None:
        """Note an assignment; two different values make the setting unknown."""
        if value is COMPUTED:
            self.computed.add(name)
        if name in self.values and self.values[name] != value:
            if name not in (*SWITCHES, *self.computed):
                self.several[name] = None
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
                known = TORCHAIR_DEFAULTS if self.dialect == TORCHAIR else OF_GRAPH.values()
            values = dict(dict.fromkeys(known, COMPUTED), **values)
        if isinstance(rules, TorchAirRules):
            rules.mode = self.mode
        rules.check(values, self.dump_requested, self.together)
        return values

    def unknown(self) -> List[str]:
        """Return the settings that the text gives, and of which it does not show the value."""
        wrong = {problem.path[0] for problem in self.problems if problem.path}
        return [name for name in self.places if name in self.computed - wrong]

    def located(self, findings: List[Finding]) -> List[Finding]:
        """Return the reader's problems and these findings, each with the place of its setting and
        the name that it has in the script.
        """
        result = []
        for finding in self.problems + findings:
            if finding.line is None:
                name = str(finding.path[0]) if finding.path else ""
                finding = _in_python(placed(finding, *self.places.get(name, self.place)))
                if self.dialect == GRAPH_OPTIONS:
                    finding = finding._replace(
                        path=tuple(GRAPH_NAMES.get(str(part), part) for part in finding.path),
                        message=_graph_text(finding.message),
                        consumer=_graph_text(finding.consumer),
                        fix=_graph_text(finding.fix),
                    )
            result.append(finding)
        return result


class Surroundings:
    """What settings depend on besides, collected while a script is read.

    Attributes
    ----------
    modes
        By the object that has them, what TorchAir's mode is set to.
    optimizers, optimizer_names
        By name, the calls that add a custom optimizer, and what it is called.
    remapping
        What the setting of that name is set to.
    handed_out
        What functions of other modules get: they may set more.
    """

    def __init__(self, names: ScriptNames, places: Places) -> None:
        self._names = names
        self._places = places
        self.modes: Dict[str, List[Any]] = {}
        self.optimizers: Dict[str, Any] = {}
        self.optimizer_names: Dict[str, List[Any]] = {}
        self.remapping: List[Any] = []
        self.handed_out: Set[str] = set()

    def complete(self, settings: ScriptSettings, is_open: bool) -> None:
        """Note of settings what the rest of the script says of them; ``is_open``: something else
        sets dump options too.
        """
        owner = settings.owner
        settings.open = settings.open or is_open or owner in self.handed_out
        if settings.dialect in (DUMP_CONFIG, GRAPH_OPTIONS):
            return
        settings.together = self._together(settings)
        modes = [self._names.values.literal(node) for node in self.modes.get(owner, ())]
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
                node = self.modes[owner][index]
                raises = RAISES[TORCHAIR]
                self._places.problem(
                    settings.problems, "enum", ("mode",), message, raises, fix, node
                )
        of_map = settings.dialect == PARAMETER_MAP and settings.may_dump()
        if of_map and _HELPER not in self._names.called:
            self._surroundings(settings)

    def _surroundings(self, settings: ScriptSettings) -> None:
        """Find what keeps a parameter_map that asks for a dump from the NPU."""
        problems, owner = settings.problems, settings.owner
        # Such as custom_optimizers[0].name
        unnamed = [
            node for key, nodes in self.optimizer_names.items() if key[:1] == "<" for node in nodes
        ]  # noqa: E501
        nodes = self.optimizer_names.get(owner, [])
        names = [self._names.values.literal(node) for node in nodes]
        named = [self._names.values.literal(node) for node in unnamed]
        fix = 'name = "%s"' % _OPTIMIZER
        right = any(name in (_OPTIMIZER, COMPUTED) for name in names + named)
        if names and not right:
            message = "the custom optimizer is called %r, not %r" % (names[0], _OPTIMIZER)
            consumer = "TensorFlow does not find it, or it is not the NPU's; nothing is dumped"
            self._places.problem(problems, "optimizer-name", (), message, consumer, fix, nodes[0])
        elif owner in self.optimizers and not right:
            message = "the custom optimizer has no name"
            consumer = UNLESS % "TensorFlow finds no optimizer; nothing is dumped"
            place = self.optimizers[owner]
            self._places.problem(
                problems, "optimizer-name", (), message, consumer, fix, place, WARNING
            )
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
                    self._places.problem(problems, "use-off-line", (), message, consumer, fix, node)
                    break
        if self.optimizers and not any(map(self._may_be_off, self.remapping)):
            message = "rewrite_options.remapping is not OFF"
            consumer = "TensorFlow merges ops before the adapter sees them; what should be dumped "
            consumer += "may be gone"
            fix = "rewrite_options.remapping = RewriterConfig.OFF"
            place = self.remapping[0] if self.remapping else settings.node
            self._places.problem(problems, "remapping", (), message, consumer, fix, place, WARNING)

    def _may_be_off(self, node: ast.AST) -> bool:
        value = self._names.values.literal(node)
        if value is COMPUTED:
            return not isinstance(node, ast.Attribute) or node.attr == "OFF"
        return bool(value == _REMAPPING_OFF)

    def _is_one(self, settings: ScriptSettings) -> bool:
        """Tell whether what has the settings is the same object at all of their places."""
        return all(
            self._names.bindings.get((name, settings.scope), 0) <= 1 for name in settings.names
        )

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
            and order(first[1]) < order(second[1])
        ]
        if not any(not first[0].excludes(second[0]) for first, second in pairs):
            return NEVER
        certain = self._is_one(settings) and all(step[3] is True for step in steps)
        if certain and any(first[0].holds(second[0]) for first, second in pairs):
            return CERTAIN
        return POSSIBLE


def _in_python(finding: Finding) -> Finding:
    """Return a finding of a JSON value's rule with Python's words for it."""
    return finding._replace(
        message=finding.message.replace("must be true or false", "must be True or False"),
        fix={"true": "True", "false": "False"}.get(finding.fix, finding.fix),
    )


def _graph_text(text: str) -> str:
    return _GRAPH_NAME.sub(lambda match: GRAPH_NAMES[match.group()], text, count=1)
