"""Rules about keys: unknown ones, those that stand at the wrong level, and those newer than the CANN in use."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from .cann import Version, newer_than
from .finding import Findings, Path
from .suggest import MAX_SUGGESTIONS, nearest_word

#: Sections of acl.json that have nothing to do with dumps.
OTHER_SECTIONS = (
    "profiler", "max_opqueue_num", "err_msg_mode", "defaultDevice", "StackSize", "event_mode", "aclGraph",
    "simt_printf_fifo_size", "simd_printf_fifo_size_per_core",
)  # fmt: skip
_DEVICE_KEYS = ("device", "device_id", "deviceid", "dump_device", "dump_deviceid", "dump_device_id", "devices")
_ENABLE_KEYS = ("enable", "enable_dump", "dump_enable", "dump_switch")
_IGNORES = "ignored without a word"


class KeyRules:
    """Finds unknown keys; only the first twenty get a suggestion.

    Parameters
    ----------
    findings
        Where findings go.
    homes
        ``{key: where it belongs}`` of keys that are known at another level.
    """

    def __init__(self, findings: Findings, homes: Optional[Mapping[str, str]] = None) -> None:
        self.findings = findings
        self.homes: Mapping[str, str] = homes or {}
        self._left = MAX_SUGGESTIONS

    def unknown(self, value: Mapping[str, Any], known: Iterable[str], path: Path, also: Sequence[str] = ()) -> None:
        """Add a warning for every key of ``value`` that is neither in ``known`` nor in ``also``."""
        names = list(known)
        for key in value:
            if key not in names and key not in also:
                message, fix = self._explain(key, names)
                self.findings.warning("unknown-key", path + (key,), message, _IGNORES, fix, at_key=True)

    def _explain(self, key: str, names: List[str]) -> Tuple[str, str]:
        if key in self.homes:
            return "%r belongs into %s" % (key, self.homes[key]), "move it into %s" % self.homes[key]
        if key == "dump_status":
            return "dump_status is internal to GE and documented nowhere", "leave it out"
        if key.lower() in _DEVICE_KEYS:
            return "%r: no consumer can choose a device here" % key, "leave it out; every device of the process dumps"
        if key.lower() in _ENABLE_KEYS:
            return "%r: acl.json has no such switch" % key, "leave it out; a dump_list that is not empty switches dumping on"
        near = None
        if self._left > 0:
            self._left -= 1
            near = nearest_word(key, names)
        if near:
            return "unknown key %r; did you mean %r?" % (key, near), near
        return "unknown key %r" % key, "leave it out; known here: %s" % ", ".join(names)


def check_since(
    findings: Findings,
    value: Mapping[str, Any],
    path: Path,
    since: Dict[Tuple[str, Optional[str]], str],
    version: Optional[Version],
    version_text: str,
) -> None:
    """Warn about fields and values that were first seen in a newer CANN than ``version``."""
    if version is None:
        return
    for (field, word), sighting in since.items():
        if field not in value or (word is not None and value[field] != word) or not newer_than(sighting, version):
            continue
        what = field if word is None else '%s "%s"' % (field, word)
        message = "%s was first seen in CANN %s, newer than %s" % (what, sighting, version_text)
        consumer = "an older CANN ignores a field that it does not know; a sighting is no proof of the first release"
        fix = "leave it out, or use CANN %s or later" % sighting
        findings.warning("newer-than-cann", path + (field,), message, consumer, fix, at_key=True)
