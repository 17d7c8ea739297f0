"""Second layer for acl.json: the rules about the entries of dump_list."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

from ..schemas.documents import schema_of
from .cann_versions import ACL_SINCE
from .dump_plan import EXCEPTION_SCENES, POSITION
from .finding import Findings, Path
from .key_rules import KeyRules, check_since
from .models import Models

_SEVERAL = re.compile(r"[,*?]")
_BLACKLISTS = ("optype_blacklist", "opname_blacklist")
_CONFLICT = "aclInit rejects it (EP0005, conflict)"
_EMPTY = "aclInit rejects it (EP0001, value is empty); older releases and GE skip the entry"
_SHADOW = "GE looks only at the entry that is for all models"
_ITEM_SINCE = {key: since for key, since in ACL_SINCE.items() if not key[0].startswith("dump_")}


def looks_like_several(name: str) -> bool:
    """Tell whether an op's name is a comma list or a pattern rather than a name."""
    return bool(_SEVERAL.search(name))


class ListRules:
    """Checks the entries of dump_list.

    Parameters
    ----------
    findings
        Where findings go.
    dump
        The whole dump section.
    cann
        The version in use, or None.
    models
        The models, where names that look wrong may be right.
    """

    def __init__(
        self, findings: Findings, dump: Mapping[str, Any], cann: Optional[str], models: Models
    ) -> None:
        self.findings = findings
        self.models = models
        self.dump = dump
        self.cann = cann
        self.level = dump.get("dump_level", "all")
        self.scene = dump.get("dump_scene")
        self.single = dump.get("dump_op_switch") == "on"

    def check(self, entries: List[Any], item_schema: Mapping[str, Any]) -> None:
        """Add the findings of all entries."""
        fields = item_schema["properties"]
        keys = KeyRules(
            self.findings, dict.fromkeys(self._outer_fields(), "dump, beside dump_list")
        )
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                continue
            path: Path = ("dump", "dump_list", index)
            keys.unknown(entry, fields, path)
            self._unknown_below(keys, entry, fields, path)
            check_since(self.findings, entry, path, _ITEM_SINCE, self.cann)
            if self.scene in EXCEPTION_SCENES or self.dump.get("dump_debug") == "on":
                continue
            self._names(entry, path)
            self._watcher(entry, path)
            self._blacklists(entry, path)
            self._ranges(entry, path)
            self._level(entry, path)
        if self.scene != "watcher":
            self._repeated(entries)

    def _outer_fields(self) -> List[str]:
        return list(schema_of("acl")["properties"]["dump"]["properties"])

    def _unknown_below(
        self, keys: KeyRules, entry: Mapping[str, Any], fields: Mapping[str, Any], path: Path
    ) -> None:
        for field in _BLACKLISTS + ("opname_range",):
            items = entry.get(field)
            for index, item in enumerate(items if isinstance(items, list) else ()):
                if isinstance(item, dict):
                    keys.unknown(item, fields[field]["items"]["properties"], path + (field, index))

    def _names(self, entry: Mapping[str, Any], path: Path) -> None:
        severity = "warning" if self.single else "error"
        if entry.get("model_name") == "":
            fix = "name the model, or leave model_name out for all models"
            self.findings.add(
                severity, "empty-value", path + ("model_name",), "model_name is empty", _EMPTY, fix
            )
        if entry.get("layer") == []:
            fix = "list op names, or leave layer out for all ops"
            self.findings.add(
                severity, "empty-list", path + ("layer",), "layer is an empty list", _EMPTY, fix
            )
        name = entry.get("model_name")
        if isinstance(name, str) and name != name.strip():
            message, fix = "%r begins or ends with a blank" % name, '"%s"' % name.strip()
            self.findings.warning(
                "blank-in-name", path + ("model_name",), message, "names match exactly", fix
            )
        elif isinstance(name, str) and name.endswith(".om") and name != ".om":
            message = "%r is a file's name; model_name is the name without the suffix" % name
            consumer = (
                "GE compares it with the om file's name without suffix and with the graph's name"
            )
            self.findings.warning(
                "model-suffix", path + ("model_name",), message, consumer, '"%s"' % name[:-3]
            )
        for field in ("layer", "watcher_nodes"):
            if isinstance(entry.get(field), list):
                self._layers(entry[field], path + (field,))

    def _layers(self, layers: List[Any], path: Path) -> None:
        first: Dict[str, int] = {}
        for index, layer in enumerate(layers):
            if not isinstance(layer, str):
                continue
            if layer in first:
                message = "%r is listed before, at index %d" % (layer, first[layer])
                self.findings.warning(
                    "duplicate-layer", path + (index,), message, "dumped once", "leave it out"
                )
            elif layer != layer.strip() or not layer:
                message = "%r is empty, or begins or ends with a blank" % layer
                fix = '"%s"' % layer.strip() if layer.strip() else "leave it out"
                self.findings.warning(
                    "blank-in-name", path + (index,), message, "names match exactly", fix
                )
            elif (
                looks_like_several(layer)
                and not self.models.exact(layer)
                and not self.models.from_original(layer)
            ):
                self._several(layer, path + (index,))
            first.setdefault(layer, index)

    def _several(self, layer: str, path: Path) -> None:
        """Warn that a comma list or a pattern is taken as one name."""
        if "," in layer:
            message = "%r is one name that holds commas; every op is an item of its own" % layer
            fix = ", ".join('"%s"' % part.strip() for part in layer.split(",") if part.strip())
            self.findings.warning("layer-separator", path, message, "names match exactly", fix)
        else:
            message = "%r is a pattern; no consumer knows patterns" % layer
            self.findings.warning(
                "layer-pattern", path, message, "names match exactly", "list the ops' names"
            )

    def _watcher(self, entry: Mapping[str, Any], path: Path) -> None:
        nodes = entry.get("watcher_nodes")
        if self.scene == "watcher":
            if nodes is None and "watcher_nodes" not in entry:
                message = "dump_scene watcher needs watcher_nodes in every entry"
                self.findings.error(
                    "watcher-without-nodes",
                    path,
                    message,
                    "aclInit rejects it (EP0001)",
                    'add "watcher_nodes": ["OP"]',
                )
            elif nodes == []:
                message = "watcher_nodes is an empty list"
                fix = "list the ops to watch"
                self.findings.error(
                    "watcher-without-nodes",
                    path + ("watcher_nodes",),
                    message,
                    "aclInit rejects it (EP0001)",
                    fix,
                )
            if entry.get("model_name"):
                fix = "leave out model_name"
                self.findings.error(
                    "watcher-with-model",
                    path + ("model_name",),
                    "dump_scene watcher excludes model_name",
                    _CONFLICT,
                    fix,
                )
        elif nodes:
            message = "watcher_nodes needs dump_scene watcher"
            fix = 'add "dump_scene": "watcher", or leave out watcher_nodes'
            self.findings.error(
                "nodes-without-watcher", path + ("watcher_nodes",), message, _CONFLICT, fix
            )
        elif nodes == []:
            message = "watcher_nodes is an empty list and has no use without dump_scene watcher"
            self.findings.warning(
                "empty-list", path + ("watcher_nodes",), message, "ignored", "leave it out"
            )

    def _blacklists(self, entry: Mapping[str, Any], path: Path) -> None:
        for field in _BLACKLISTS:
            items = entry.get(field)
            if not isinstance(items, list):
                continue
            if not items:
                self.findings.warning(
                    "empty-list",
                    path + (field,),
                    "%s is an empty list" % field,
                    "nothing is left out",
                    "leave it out",
                )
            elif self.level != "op":
                self._needs_op_level("blacklist-level", field, path)
            for index, item in enumerate(items):
                if isinstance(item, dict):
                    self._blacklist_item(item, path + (field, index))

    def _blacklist_item(self, item: Mapping[str, Any], path: Path) -> None:
        name = item.get("name")
        if not name:
            place = path + ("name",) if "name" in item else path
            self.findings.warning(
                "blacklist-name",
                place,
                "the entry names nothing",
                "it leaves nothing out",
                'add "name"',
            )
        elif isinstance(name, str) and looks_like_several(name) and not self.models.graphs:
            self._several(name, path + ("name",))
        positions = item.get("pos")
        if positions is None or positions == []:
            if "pos" not in item or positions == []:
                place = path + ("pos",) if "pos" in item else path
                message = "the entry lists no positions"
                fix = 'add "pos": ["input0", "output0"]'
                self.findings.warning(
                    "blacklist-position",
                    place,
                    message,
                    "GE leaves out only what is listed: nothing",
                    fix,
                )
            return
        for index, position in enumerate(positions if isinstance(positions, list) else ()):
            if isinstance(position, str) and not POSITION.match(position):
                message = "%r is no position" % position
                repaired = re.sub(r"[^a-z0-9]", "", position.lower())
                fix = (
                    '"%s"' % repaired
                    if POSITION.match(repaired)
                    else "inputN or outputN, such as output0"
                )
                self.findings.warning(
                    "blacklist-position",
                    path + ("pos", index),
                    message,
                    "GE warns and skips it",
                    fix,
                )

    def _needs_op_level(self, rule: str, field: str, path: Path) -> None:
        message = '%s needs dump_level "op", it is %r' % (field, self.level)
        self.findings.error(rule, path + (field,), message, _CONFLICT, '"dump_level": "op"')

    def _ranges(self, entry: Mapping[str, Any], path: Path) -> None:
        ranges = entry.get("opname_range")
        if not isinstance(ranges, list):
            return
        if not ranges:
            self.findings.warning(
                "empty-list",
                path + ("opname_range",),
                "opname_range is an empty list",
                "ignored",
                "leave it out",
            )
            return
        if self.level != "op":
            self._needs_op_level("range-level", "opname_range", path)
        if not entry.get("model_name") and (self.single or entry.get("model_name") != ""):
            place = path + ("model_name",) if "model_name" in entry else path
            message = "opname_range needs a model_name"
            self.findings.error(
                "range-without-model",
                place,
                message,
                "aclInit rejects it (EP0001)",
                'add "model_name"',
            )

    def _level(self, entry: Mapping[str, Any], path: Path) -> None:
        if self.level == "kernel" and (entry.get("model_name") or entry.get("layer")):
            message = (
                'dump_level "kernel" dumps aclnn kernels only, but the entry names a model or '
                "layers"
            )
            field = "model_name" if entry.get("model_name") else "layer"
            self.findings.warning(
                "kernel-level",
                path + (field,),
                message,
                "GE switches model dumps off",
                '"dump_level": "op" or "all"',
            )

    def _repeated(self, entries: List[Any]) -> None:
        """Find entries for one model twice, and named entries that one for all models shadows."""
        first: Dict[Optional[str], int] = {}
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                continue
            name = entry.get("model_name")
            name = name if isinstance(name, str) and name else None
            if name is None and "model_name" in entry and entry["model_name"] != "":
                continue
            path: Path = ("dump", "dump_list", index)
            if name in first:
                self._duplicate(entries, first[name], index, name, path)
            first.setdefault(name, index)
        if None not in first:
            return
        for name, index in first.items():
            if name is not None:
                message = "entry %d is for all models and shadows this one" % first[None]
                fix = "leave out one of the two entries"
                self.findings.warning(
                    "shadowed-model",
                    ("dump", "dump_list", index, "model_name"),
                    message,
                    _SHADOW,
                    fix,
                )

    def _duplicate(
        self, entries: List[Any], first: int, index: int, name: Optional[str], path: Path
    ) -> None:
        consumer = "the last entry wins: what the earlier one asks for is not dumped"
        if name is not None:
            message = "model_name %r is used before, in entry %d" % (name, first)
            self.findings.error(
                "duplicate-model",
                path + ("model_name",),
                message,
                consumer,
                "merge the entries into one",
            )
            return
        message = "entry %d is for all models too" % first
        severity = "warning" if entries[first] == entries[index] else "error"
        self.findings.add(
            severity, "duplicate-model", path, message, consumer, "merge the entries into one"
        )
