"""The dump settings that a script makes in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from .finding import Finding, placed
from .npu_rules import COMPUTED, SWITCHES

DUMP_CONFIG, PARAMETER_MAP, GLOBAL_OPTIONS, TORCHAIR = DIALECTS = (
    "DumpConfig",
    "parameter_map",
    "global_options",
    "torchair",
)

Place = Tuple[int, int]


@dataclass
class ScriptSettings:
    """The settings of one DumpConfig call, one parameter_map, npu_device's global options or one
    dump_config of TorchAir.

    Attributes
    ----------
    dialect
        One of :data:`DIALECTS`.
    place
        Line and column of the call or of the first assignment.
    values, places
        By setting; a value that cannot be read from the text is COMPUTED.
    open
        Whether more settings may come from where the text does not show.
    node, owner
        The call or the first assignment in the syntax tree; of a parameter_map the custom optimizer
        that has it.
    holders
        The names under which the script knows what has the settings.
    steps
        Each assignment: the function that it stands in, its statement, the setting and its value.
    together
        Whether enable_dump and enable_dump_debug are both on at the same time; None for a call, all
        of which holds.
    """

    dialect: str
    place: Place
    values: Dict[str, Any] = field(default_factory=dict)
    places: Dict[str, Place] = field(default_factory=dict)
    problems: List[Finding] = field(default_factory=list)
    open: bool = False
    node: Any = None
    owner: Optional[str] = None
    holders: FrozenSet[str] = frozenset()
    steps: List[Tuple[int, Any, str, Any]] = field(default_factory=list)
    together: Optional[str] = None

    #: Whether a misspelt switch was set to something other than off.
    dump_requested: bool = False

    def may_dump(self) -> bool:
        """Tell whether the text leaves it possible that something is dumped."""
        return self.open or any(self.values.get(name) not in (None, False) for name in SWITCHES)

    def set(self, name: str, value: Any, place: Place) -> None:
        """Note an assignment; two different values make the setting unknown, here: :attr:`steps`
        tell the order.
        """
        if name in self.values and self.values[name] != value:
            value = COMPUTED
        self.values[name] = value
        self.places.setdefault(name, place)

    def located(self, findings: List[Finding]) -> List[Finding]:
        """Return the reader's problems and these findings, each with the place of its setting."""
        result = []
        for finding in self.problems + findings:
            if finding.line is None:
                place = (
                    self.places.get(str(finding.path[0]), self.place)
                    if finding.path
                    else self.place
                )
                finding = placed(finding, *place)
            result.append(finding)
        return result


def share(readings: Sequence[ScriptSettings]) -> None:
    """Let settings that are made in several functions complete one another: what another function
    sets is not missing here.
    """
    for settings in readings if len(readings) > 1 else ():
        for other in readings:
            for name in other.values:
                if name not in settings.values:
                    settings.values[name] = COMPUTED


@dataclass
class Script:
    """What a script says of dumps.

    Attributes
    ----------
    settings
        In the order of the text.
    elsewhere
        What sets dump options that the text does not show: (what, line, column).
    made
        The folders that the script makes itself, as far as the text shows.
    imports
        Whether another module could set dump options.
    """

    settings: List[ScriptSettings] = field(default_factory=list)
    elsewhere: List[Tuple[str, int, int]] = field(default_factory=list)
    made: FrozenSet[str] = frozenset()
    imports: bool = False
