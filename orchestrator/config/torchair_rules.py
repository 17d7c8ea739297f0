"""Second layer for TorchAir (PyTorch's graph mode): the rules between the options of its
``dump_config``.

Options, defaults and checks are those of TorchAir's configs/dump_config.py of 2024 to 2026; what it
passes on, GE checks again.
"""

from __future__ import annotations

import re
from typing import Any, Dict

from .finding import ERROR, WARNING
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

_LAYER_SIGN = re.compile(r"[^0-9a-zA-Z_\" /\\.]")


class TorchAirRules(NpuRules):
    """Checks one ``dump_config``; an option that is not set has TorchAir's default."""

    kind = "torchair"
    step_checks = "TorchAir takes it, GE behind it rejects it (E10001)"

    def _switched(self, dump_requested: bool) -> None:
        value = self._values.get("enable_dump", False)
        if (
            value is COMPUTED
            or value is True
            or not isinstance(value, bool)
            or self._values.get("dump_config_path") is not None
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

    def _others(self) -> None:
        value = self._values.get("dump_config_path")
        if isinstance(value, str):
            message = "the dump is configured by %s" % value
            self.findings.note(
                "acl-file",
                ("dump_config_path",),
                message,
                "read as an acl.json",
                "goldwatch config check %s" % value,
            )

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
