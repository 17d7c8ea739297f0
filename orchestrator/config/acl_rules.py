"""Second layer for acl.json: the rules between the fields of its dump section."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ..schemas.documents import schema_of
from .acl_dump_list_rules import ListRules
from .cann_versions import ACL_SINCE
from .common_rules import DumpRules
from .dump_plan import EXCEPTION_SCENES, EXCEPTIONS_OFF, NPU_DEFAULTS
from .dump_steps import ACL_LAX, step_problems
from .finding import ERROR, WARNING, Path
from .key_rules import OTHER_SECTIONS, KeyRules, asks_for_a_dump, check_since, hidden_section
from .path_rules import check_dump_path, check_variables
from .schema_rules import SchemaRules

_DUMP: Path = ("dump",)
_CONFLICT = "aclInit rejects it (EP0005, conflict)"
_CHECK_ANOTHER = "leave it as it is, and check the acl.json of the dump"
_NOTHING = "accepted, and silently nothing is dumped"
_SWITCHES = ("dump_list", "dump_op_switch", "dump_debug", "dump_scene", "dump_kernel_data")


class AclRules(DumpRules):
    """Checks one parsed acl.json."""

    _dump: Dict[str, Any]

    def check(self, document: Any) -> None:
        """Add all findings but those that need a model."""
        schema = schema_of("acl")
        fields = schema["properties"]["dump"]["properties"]
        SchemaRules("acl", self.findings).check(document)
        if not isinstance(document, dict):
            return
        dump = self._section(document, dict.fromkeys(fields, "dump"))
        if dump is not None:
            self._dump = dump
            self._check_dump(fields)

    def _section(
        self, document: Dict[str, Any], fields: Mapping[str, Any]
    ) -> Optional[Dict[str, Any]]:
        """Return the dump section; None, with a finding that says why, where there is nothing to
        check in it.
        """
        hidden = (
            hidden_section(document, [*fields, *NPU_DEFAULTS]) if "dump" not in document else None
        )
        if hidden is not None and len(hidden) == 1 and "dump" in str(hidden[0]).lower():
            hidden = None  # a section that is called almost as it should be
        if "dump" not in document and hidden is None and document:
            known = set(OTHER_SECTIONS).union(fields, NPU_DEFAULTS)
            near = asks_for_a_dump(document, OTHER_SECTIONS + ("dump",), ("dump",))
            if not near and not any(key in known or "dump" in key.lower() for key in document):
                # Of another program's file no key is advised to be left out.
                message = "the file has no dump section, and no key of an acl.json"
                self.findings.warning("no-dump-section", (), message, _NOTHING, _CHECK_ANOTHER)
                return None
        # Leaving out the key would lose the section in it.
        KeyRules(self.findings, fields).unknown(
            document, ["dump"], (), OTHER_SECTIONS + (() if hidden is None else (str(hidden[0]),))
        )
        if hidden is not None:
            self._hidden(hidden)
            return None
        if "dump" not in document:
            self._no_section(document, fields)
            return None
        dump = document["dump"]
        if not isinstance(dump, dict):
            return None
        if not dump:
            self.findings.warning(
                "empty-dump-section",
                _DUMP,
                "the dump section is empty",
                _NOTHING,
                "add dump_path and dump_list",
            )
            return None
        return dump

    def _check_dump(self, fields: Mapping[str, Any]) -> None:
        """Check the dump section, all rules in the order in which they are reported."""
        dump, item_fields = self._dump, fields["dump_list"]["items"]["properties"]
        keys = KeyRules(self.findings, dict.fromkeys(item_fields, "an entry of dump_list"))
        keys.unknown(dump, fields, _DUMP)
        check_since(self.findings, dump, _DUMP, ACL_SINCE, self.cann)
        self._exclusions()
        if self._on("dump_op_switch"):
            message = "ops called one by one are sure to be dumped through aclmdlSetDump() alone"
            consumer = "whether aclInit() with this file dumps them differs between releases"
            fix = "call aclInit() without it, then aclmdlInitDump() and aclmdlSetDump() with it"
            self.findings.note(
                "op-switch-call", _DUMP + ("dump_op_switch",), message, consumer, fix
            )
        self._path()
        self._step()
        self._stats()
        items = dump.get("dump_stats")
        if not self._on("dump_debug") and not self._scene():
            self.statistics(
                dump.get("dump_data"),
                _DUMP + ("dump_data",),
                items if isinstance(items, list) else None,
            )
        self._needs_dump(fields, item_fields)
        entries = dump.get("dump_list")
        if isinstance(entries, list):
            rules = ListRules(self.findings, dump, self.cann, self.models)
            rules.check(entries, fields["dump_list"]["items"])
        if self._entries() or self._on("dump_op_switch") or self._on("dump_debug") or self._scene():
            place = _DUMP + (("dump_path",) if "dump_path" in dump else ())
            check_variables(self.findings, place, self._scene() in EXCEPTION_SCENES)
        self.dumps_models = (
            bool(self._entries())
            and not self._on("dump_debug")
            and self._scene() not in EXCEPTION_SCENES
        )

    def _hidden(self, path: Path) -> None:
        """Report dump settings inside another section."""
        named, holder = path[-1] == "dump", path[:-1] if path[-1] == "dump" else path
        what = "the dump section stands" if named else "settings of a dump stand"
        message = "%s inside %r, where nobody looks for it" % (what, "/".join(map(str, holder)))
        fix = (
            'move it to the outermost level: {"dump": { … }}'
            if named or len(path) > 1
            else 'call it "dump"'
        )
        self.findings.error("no-dump-section", path, message, _NOTHING, fix, at_key=True)

    def _no_section(self, document: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        """Say that there is no dump section; keys that look like one, or like what belongs into it,
        asked for a dump.
        """
        meant = [
            key
            for key in document
            if key not in OTHER_SECTIONS and ("dump" in key.lower() or key in fields)
        ]
        if not meant and not asks_for_a_dump(document, OTHER_SECTIONS + ("dump",), ("dump",)):
            self.findings.warning(
                "no-dump-section", (), "the file has no dump section", _NOTHING, 'add "dump": { … }'
            )
            return
        outside = [key for key in meant if key in fields]
        if outside:
            message, fix = (
                "the file has no dump section; %r stands outside of any" % outside[0],
                '{"dump": { … }}',
            )
        else:
            message, fix = (
                "the file has no section called 'dump', in small letters",
                'call it "dump"',
            )
        self.findings.error("no-dump-section", (), message, _NOTHING, fix)

    def _on(self, field: str) -> bool:
        return bool(self._dump.get(field) == "on")

    def _scene(self) -> Optional[str]:
        scene = self._dump.get("dump_scene")
        return scene if isinstance(scene, str) else None

    def _entries(self) -> List[Any]:
        entries = self._dump.get("dump_list")
        return entries if isinstance(entries, list) else []

    def _conflict(self, rule: str, field: str, message: str, consumer: str, fix: str) -> None:
        self.findings.error(rule, _DUMP + (field,), message, consumer, fix)

    # One condition for each rule.
    def _exclusions(self) -> None:
        scene = self._scene()
        debug, single = self._on("dump_debug"), self._on("dump_op_switch")
        known_scene = scene in EXCEPTION_SCENES or scene == "watcher"
        if known_scene and debug:
            fix = "keep one of dump_scene and dump_debug"
            self._conflict(
                "scene-with-debug",
                "dump_debug",
                "dump_debug on excludes dump_scene %s" % scene,
                _CONFLICT,
                fix,
            )
        if known_scene and single:
            fix = "keep one of dump_scene and dump_op_switch"
            self._conflict(
                "scene-with-op-switch",
                "dump_op_switch",
                "dump_op_switch on excludes dump_scene %s" % scene,
                _CONFLICT,
                fix,
            )
        if debug and single:
            fix = "keep one of dump_debug and dump_op_switch"
            self._conflict(
                "debug-with-op-switch",
                "dump_op_switch",
                "dump_op_switch on excludes dump_debug on",
                _CONFLICT,
                fix,
            )
        if debug and self._entries():
            consumer = (
                "aclInit accepts it or rejects it by release, GE rejects it: no model is dumped"
            )
            fix = "leave out dump_list, or dump_debug"
            self._conflict(
                "debug-with-list", "dump_list", "dump_debug on excludes a dump_list", consumer, fix
            )
        if (debug or scene in EXCEPTION_SCENES) and self._dump.get("dump_list") == []:
            consumer = "ignored; the newest runtime rejects the combination (EP0005)"
            what = "dump_debug on" if debug else "dump_scene %s" % scene
            message = "an empty dump_list has no use with %s" % what
            self.findings.warning(
                "idle-list", _DUMP + ("dump_list",), message, consumer, "leave it out"
            )
        if scene in EXCEPTION_SCENES:
            self._exception_scene(str(scene))
        elif scene == "watcher":
            self._watcher()
        if debug and self._dump.get("dump_mode") in ("input", "output"):
            message = "dump_mode has no effect with dump_debug on"
            consumer = "overflow dumps hold inputs and outputs"
            self.findings.note(
                "mode-forced", _DUMP + ("dump_mode",), message, consumer, '"all", or leave it out'
            )

    def _exception_scene(self, scene: str) -> None:
        if scene == EXCEPTIONS_OFF:
            message = "dump_scene %s switches the exception dump off" % scene
            consumer = "nothing is dumped, nor when an op fails"
            fix = "leave it so if that is meant (MindSpore and torch_npu switch it on by default)"
            self.findings.note("exceptions-off", _DUMP + ("dump_scene",), message, consumer, fix)
        if self._entries():
            consumer = "only exceptions are dumped, dump_list is ignored or rejected by release"
            message = "dump_scene %s cannot be combined with a dump_list" % scene
            self._conflict(
                "scene-with-list",
                "dump_list",
                message,
                consumer,
                "leave out dump_list, or dump_scene",
            )
        self._idle_in_scene(
            scene,
            ("dump_mode", "dump_level", "dump_data", "dump_step", "dump_stats", "dump_kernel_data"),
        )

    def _watcher(self) -> None:
        mode = self._dump.get("dump_mode", "output")
        if mode in ("input", "all"):
            self._conflict(
                "watcher-mode",
                "dump_mode",
                "dump_scene watcher dumps outputs only",
                _CONFLICT,
                '"output"',
            )
        if "dump_list" not in self._dump or self._dump["dump_list"] == []:
            path = _DUMP + (("dump_list",) if "dump_list" in self._dump else ())
            message = "dump_scene watcher needs a dump_list with watcher_nodes"
            fix = 'add "dump_list": [{"watcher_nodes": ["OP"]}]'
            self.findings.error("watcher-without-nodes", path, message, "nothing is watched", fix)
        self._idle_in_scene("watcher", ("dump_data", "dump_step", "dump_stats", "dump_kernel_data"))

    def _idle_in_scene(self, scene: str, fields: Any) -> None:
        for field in fields:
            if field in self._dump:
                message = "%s has no effect with dump_scene %s" % (field, scene)
                consumer = "ignored; the newest runtime rejects the combination (EP0005)"
                self.findings.warning(
                    "idle-in-scene", _DUMP + (field,), message, consumer, "leave it out"
                )

    def _path(self) -> None:
        scene = self._scene()
        value = self._dump.get("dump_path")
        if "dump_path" not in self._dump:
            if scene not in EXCEPTION_SCENES:
                consumer = "aclInit rejects it (EP0001, item not found)"
                self.findings.error(
                    "dump-path-missing",
                    _DUMP,
                    "dump_path is missing",
                    consumer,
                    'add "dump_path": "FOLDER"',
                )
            return
        if isinstance(value, str) and value and len(value) <= 512:
            self.folder = check_dump_path(
                self.findings, value, _DUMP + ("dump_path",), "acl", scene not in EXCEPTION_SCENES
            )

    def _step(self) -> None:
        step = self._dump.get("dump_step")
        if not isinstance(step, str) or self._scene() in EXCEPTION_SCENES:
            return
        path = _DUMP + ("dump_step",)
        for rule, message, fix in step_problems(step):
            if rule in ("step-equal", "step-too-large"):
                self.findings.warning(rule, path, "dump_step: " + message, ACL_LAX, '"%s"' % fix)
            elif rule != "step-syntax":
                severity, consumer = ERROR, "aclInit rejects it (EP0003, step check)"
                if rule == "step-reversed":
                    consumer += "; GE's own check lets it pass, device code swaps the bounds"
                self.findings.add(
                    severity, rule, path, "dump_step: " + message, consumer, '"%s"' % fix
                )
        if step and self._on("dump_op_switch") and not self._entries():
            message = "dump_step is set, but ops called one by one have no step"
            self.findings.error(
                "step-without-model",
                path,
                message,
                "with a step list none of them is dumped",
                "leave out dump_step",
            )

    def _stats(self) -> None:
        stats = self._dump.get("dump_stats")
        if (
            not isinstance(stats, list)
            or self._on("dump_debug")
            or self._scene() in EXCEPTION_SCENES
        ):
            return
        if stats and self._dump.get("dump_data", "tensor") != "stats":
            message = 'dump_stats needs dump_data "stats"'
            self._conflict(
                "stats-without-data",
                "dump_stats",
                message,
                _CONFLICT,
                'add "dump_data": "stats", or leave out dump_stats',
            )
        seen = set()
        for index, name in enumerate(stats):
            if isinstance(name, str) and name in seen:
                message = "%r is listed twice" % name
                self.findings.warning(
                    "duplicate-value",
                    _DUMP + ("dump_stats", index),
                    message,
                    "written once",
                    "leave it out",
                )
            seen.add(name if isinstance(name, str) else "")

    def _needs_dump(self, fields: Mapping[str, Any], item_fields: Mapping[str, Any]) -> None:
        """Report that nothing is dumped although the section is valid."""
        dump = self._dump
        if (
            self._entries()
            or self._on("dump_op_switch")
            or self._on("dump_debug")
            or "dump_scene" in dump
        ):
            return
        entries = dump.get("dump_list")
        if "dump_list" in dump and not isinstance(entries, list):
            return
        fix = 'write "dump_list": [{}] to dump everything'
        if entries == []:
            consumer = _NOTHING + "; releases of 2020 and GE reject it (E10001)"
            message = "dump_list is empty and nothing else is switched on"
            self.findings.error("nothing-dumped", _DUMP + ("dump_list",), message, consumer, fix)
        elif "dump_kernel_data" in dump:
            return
        elif "dump_op_switch" in dump or "dump_debug" in dump:
            field = "dump_op_switch" if "dump_op_switch" in dump else "dump_debug"
            message = "every switch is off and there is no dump_list"
            asks = asks_for_a_dump(dump, fields, _SWITCHES, also=item_fields)
            severity = ERROR if asks else WARNING
            self.findings.add(
                severity,
                "all-switches-off",
                _DUMP + (field,),
                message,
                _NOTHING,
                'set it to "on", or ' + fix,
            )
        else:
            message = "there is neither a dump_list nor a switch that is on"
            self.findings.error("nothing-dumped", _DUMP, message, _NOTHING, fix)


def model_entries(document: Any) -> List[Mapping[str, Any]]:
    """Return the entries of dump_list that are objects, each at its own index; others are empty."""
    dump = document.get("dump") if isinstance(document, dict) else None
    entries = dump.get("dump_list") if isinstance(dump, dict) else None
    return (
        [entry if isinstance(entry, dict) else {} for entry in entries]
        if isinstance(entries, list)
        else []
    )


def strings_of(value: Any) -> List[Optional[str]]:
    """Return the items of a list, with None for what is no string; nothing for what is no list."""
    return [item if isinstance(item, str) else None for item in items_of(value)]


def items_of(value: Any) -> List[Any]:
    """Return a list, or nothing for what is no list."""
    return value if isinstance(value, list) else []
