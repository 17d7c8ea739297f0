"""Second layer for TorchAir (PyTorch's graph mode): the rules between the options of its
``dump_config``.

Options, defaults and checks are those of TorchAir's configs/dump_config.py, debug_config.py and
compiler_config.py of 2024 to 2026; what it passes on, GE checks again.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Optional, Sequence

from .finding import ERROR, WARNING, Path
from .npu_rules import COMPUTED, NpuRules

#: Its options and their defaults.
TORCHAIR_DEFAULTS: Dict[str, Any] = {
    "enable_dump": False,
    "dump_path": "./",
    "dump_mode": "all",
    "quant_dumpable": False,
    "dump_step": "",
    "dump_layer": "",
    "dump_data": "tensor",
    "dump_config_path": None,
    "data_dump_stage": "optimized",
}

#: Its modes; the first is the default and the one that runs GE.
TORCHAIR_MODES = ("max-autotune", "reduce-overhead", "npugraph_ex")
#: What ``type`` of its debug dumps may be.
DEBUG_TYPES = {"graph_dump": ("txt", "pbtxt", "py"), "data_dump": ("npy",)}
#: What the modes without GE look at.
_WITHOUT_GE = ("enable_dump", "dump_path", "data_dump_stage")

_LAYER_SIGN = re.compile(r"[^0-9a-zA-Z_\" /\\.]")


class TorchAirRules(NpuRules):
    """Checks one ``dump_config``; an option that is not set has TorchAir's default."""

    kind = "torchair"
    step_checks = "TorchAir takes it, GE behind it rejects it (E10001)"
    #: The mode of the CompilerConfig: one of TORCHAIR_MODES, COMPUTED or None for the default.
    mode: Any = None

    def _switched(self, dump_requested: bool) -> None:
        value = self._values.get("enable_dump", False)
        if (
            value is COMPUTED
            or value is True
            or not isinstance(value, bool)
            or (self._values.get("dump_config_path") is not None and not self._without_ge())
        ):
            return
        severity = ERROR if dump_requested else WARNING
        message = "enable_dump is not switched on"
        self.findings.add(
            severity,
            "all-switches-off",
            self._place("enable_dump"),
            message,
            "nothing is dumped",
            "set enable_dump to True",
        )

    def _without_ge(self) -> bool:
        return self.mode in TORCHAIR_MODES[1:]

    def _others(self) -> None:
        if self._without_ge():
            self._without_graph_engine()
            return
        if self.mode is not COMPUTED and isinstance(self._values.get("data_dump_stage"), str):
            message = "data_dump_stage has no effect in mode %s" % TORCHAIR_MODES[0]
            consumer = "GE dumps the graph that it runs"
            fix = "leave it out, or set config.mode to one of: " + ", ".join(TORCHAIR_MODES[1:])
            self.findings.note("idle-setting", ("data_dump_stage",), message, consumer, fix)
        value = self._values.get("dump_config_path")
        if not isinstance(value, str):
            return
        place = ("dump_config_path",)
        if not value or not value.endswith(".json"):
            message = "dump_config_path must be a .json file, it is %r" % value
            raises = "TorchAir raises %s" % ("FileNotFoundError" if value else "ValueError")
            self.findings.error("acl-file", place, message, raises, "name an acl.json")
        elif not os.path.isfile(value):
            message = "dump_config_path is no file: %s" % value
            consumer = "TorchAir raises FileNotFoundError"
            fix = "write the file first"
            self.findings.environment(ERROR, "acl-file", place, message, consumer, fix)
        else:
            message = "the dump is configured by %s" % value
            fix = "goldwatch config check %s" % value
            self.findings.note("acl-file", place, message, "read as an acl.json", fix)

    def statistics(self, data: Any, place: Path, items: Optional[Sequence[Any]] = None) -> None:
        """As for the others; without GE there are none."""
        if not self._without_ge():
            super().statistics(data, place, items)

    def _without_graph_engine(self) -> None:
        """Say what counts and what is written where TorchAir runs the graph without GE."""
        for name, value in self._values.items():
            if name in TORCHAIR_DEFAULTS and name not in _WITHOUT_GE and value is not COMPUTED:
                message = "%s has no effect in mode %s" % (name, self.mode)
                consumer = "this mode looks at %s alone" % ", ".join(_WITHOUT_GE)
                fix = "leave it out, or leave config.mode at max-autotune"
                self.findings.warning("idle-setting", (name,), message, consumer, fix)
        if self._may_be_on("enable_dump"):
            message = "mode %s writes PyTorch files, not dump files" % self.mode
            consumer = "dump_path/worldsize{N}_global_rank{R}/{node}_device_{D}_{k}.pt"
            fix = "goldwatch compare DUMP_PATH FX compares them with an FX dump"
            self.findings.note("pytorch-files", ("enable_dump",), message, consumer, fix)

    def _path(self) -> None:
        if "dump_path" in self._values:
            super()._path()
        elif self._is_on("enable_dump"):
            consumer = "dumps go to the current folder of the process"
            self.findings.note(
                "dump-path-missing",
                (),
                "dump_path is not set",
                consumer,
                "set dump_path to a folder",
            )

    def _layers(self) -> None:
        value = self._values.get("dump_layer")
        signs = _LAYER_SIGN.findall(value) if isinstance(value, str) else []
        if signs:
            message = "dump_layer holds %s; names are separated by blanks" % ", ".join(
                sorted(map(repr, set(signs)))[:5]
            )
            fix = "letters, digits, _ . / \\ and blanks alone"
            self.findings.error(
                "layer-characters", ("dump_layer",), message, "TorchAir raises ValueError", fix
            )
        elif isinstance(value, str) and value:
            super()._layers()
