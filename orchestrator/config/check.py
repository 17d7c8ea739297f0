"""Checks one configuration file: acl.json, npu settings as JSON, or a Python training script."""

from __future__ import annotations

import os
import re
from typing import Any, List, Optional, Sequence, Tuple

from ..base.errors import FormatError, require_file
from ..base.mounts import nearest_folder
from ..base.safe_reading import open_input
from ..base.wording import listed
from ..kinds.files import kind_of_file
from ..kinds.kind import (
    ACL,
    EMPTY,
    JSON,
    MINDSPORE_CONFIG,
    MSPROBE_CONFIG,
    PROTOBUF,
    RAW,
    SCRIPT,
    SHELL,
    TEXT,
    Kind,
)
from ..schemas.jsontext import MAX_BYTES, JsonText
from .acl_rules import AclRules
from .cann_versions import parse_version
from .dump_size_rules import acl_size, check_size, npu_size
from .finding import WARNING, Finding, Findings, Report, in_file_order, placed
from .json_text_errors import read_json
from .model_rules import ModelRules
from .models import Models, load_models
from .npu_rules import NPU_ONLY, NpuRules, looks_like_npu
from .script_names import GRAPH_OPTIONS, TORCHAIR
from .script_reader import NAMED_FILE, read_script
from .script_tree import MAX_SCRIPT_BYTES
from .torchair_rules import TorchAirRules

#: The rules that say that nothing at all is dumped.
EMPTY_RULES = (
    "empty-file",
    "no-dump-section",
    "empty-dump-section",
    "all-switches-off",
    "nothing-dumped",
)

#: Keys that only another tool's configuration has, and whose it is.
_OTHER_TOOLS = {
    "task": ("dump_path", "msprobe's"),
    "common_dump_settings": ("common_dump_settings", "MindSpore's"),
}

#: Kinds of files that may be a configuration of a dump, or were meant to be one.
_MAY_CONFIGURE = (ACL, EMPTY, JSON, MINDSPORE_CONFIG, MSPROBE_CONFIG, PROTOBUF, RAW, TEXT)
_JSON_AS_BYTES = re.compile(rb"\xff\xfe|\xfe\xff|\0?\s*[{\[]")
_STARTED = re.compile(
    r"\b(?:python[0-9.]*|torchrun|msrun|deepspeed|accelerate)\s+"
    r"(?:(?:[^\n;&|#\\]|\\\n)*?\s)?[\"']?((?:\$\{?\w+\}?/)?[^\s$=;&|\"']+\.py)\b"
)
#: Environment variables that switch a dump on, or say where it goes, as a shell script sets them.
_SWITCH = re.compile(
    r"\b((?:ASCEND|ATB|MINDSPORE|MS|TORCH|NPU|GE)_\w*(?:DUMP|SAVE_TENSOR|ACL_INIT)\w*"
    r"|DUMP_GE_GRAPH\w*)="
)
#: A folder that a shell script keeps in a variable: its own, or one around it.
_VARIABLE = re.compile(r"\$\{?\w+\}?/")

# What a text that cannot be parsed was meant to be: no acl.json has these keys.
_NPU_TEXT = re.compile(rb"[\"'](?:enable_dump|enable_dump_debug|dump_debug_mode|dump_layer)[\"']")


def check_file(
    path: str,
    models: Sequence[str] = (),
    cann: Optional[str] = None,
    elsewhere: bool = False,
    om_names: Sequence[str] = (),
    devices: int = 1,
) -> Report:
    """Check a file.

    Parameters
    ----------
    path
        acl.json, npu settings as JSON, or a Python script (``.py``).
    models
        Model jsons or GE graph files to hold names against.
    cann
        The CANN version in use.
    elsewhere
        Whether the configuration is for another machine, so that rules about this one's file system
        are only notes.
    om_names
        What the .om files of the models are called, which their jsons cannot tell; with or without
        folder and suffix.
    devices
        How many devices dump: the size is estimated for all of them.

    Raises
    ------
    MissingPath, InputError
        The file or a model cannot be read.
    UsageError
        ``cann`` is no version.
    """
    if cann:
        parse_version(cann)
    require_file(path, "FILE")
    loaded = load_models(models, om_names)
    with open_input(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    kind = other_kind(path, data)
    if kind is not None:
        return _other_file(path, kind)
    return Checker(loaded, cann, elsewhere, devices).check(path, data)


def other_kind(path: str, data: bytes) -> Optional[Kind]:
    """Return what a file is that was not meant to configure a dump; None for one that was."""
    kind = kind_of_file(path)
    # Text of two bytes a letter, and JSON with a stray byte, are reported with the place.
    unknown = kind.name in (PROTOBUF, RAW) and not _JSON_AS_BYTES.match(data)
    # A text that speaks of dumps, or is called so, was meant to be a configuration.
    if kind.name == TEXT and b"dump" not in data and not path.lower().endswith(".json"):
        unknown = True
    is_other = unknown or kind.name not in _MAY_CONFIGURE
    return kind if is_other and not path.lower().endswith(".py") else None


def _other_file(path: str, kind: Kind) -> Report:
    fix = "leave it as it is, and check the acl.json, npu settings or script of the dump"
    consumer = "aclInit and the adapters find no dump settings in it"
    if kind.name == SHELL:
        with open_input(path) as stream:
            text = stream.read(MAX_BYTES).decode("utf-8", "replace")
        switches = list(dict.fromkeys(_SWITCH.findall(text)))
        if switches:
            consumer = "it sets %s for what it starts; these are not checked here" % (
                listed(switches, len(switches))
            )
        named, started = NAMED_FILE.search(text), _started(path, text)
        if named is not None:
            file = named.group(1) or named.group(2)
            fix = "check the file that it names: goldwatch config check %s" % file
        elif started:
            fix = "check the script that it starts: goldwatch config check %s" % started
    elif kind.name == SCRIPT:
        fix = "a script is known by its ending: call it *.py"
    finding = Finding(
        "error",
        "other-file",
        (),
        "this is %s, no configuration of a dump" % kind.words,
        consumer,
        fix,
        line=1,
        column=1,
    )
    return Report(path, "acl", (finding,))


def _started(path: str, text: str) -> str:
    """Return the Python script that a shell script starts: of those beside it or in the folders
    around it, into which it may change before, the first; else the name as it is written.
    """
    names = [_VARIABLE.sub("", match.group(1)) for match in _STARTED.finditer(text)]
    folder = os.path.dirname(path)
    for name in names:
        for around in ("", "..", os.path.join("..", "..")):
            script = os.path.normpath(os.path.join(folder, around, name))
            if os.path.isfile(script):
                return script
    return names[0] if names else ""


class Checker:
    """Checks configurations against the same models and version.

    Parameters
    ----------
    models
        The models to hold names against; may hold none.
    cann
        The version in use, or None.
    elsewhere, devices
        As in :func:`check_file`.
    """

    def __init__(
        self,
        models: Models,
        cann: Optional[str] = None,
        elsewhere: bool = False,
        devices: int = 1,
    ) -> None:
        self.devices = devices
        self.models = models
        self.cann = cann
        self.elsewhere = elsewhere

    def check(self, file: str, data: bytes) -> Report:
        """Return the report of a file's bytes (at most ``MAX_BYTES + 1`` of them); ``file`` is its
        name.

        Raises
        ------
        FormatError
            It is a script of more than ``MAX_SCRIPT_BYTES``.
        """
        findings = Findings(self.elsewhere)
        if file.lower().endswith(".py"):
            self._script(file, data, findings)
            return Report(file, "npu", tuple(in_file_order(findings.items)))
        text = read_json(data, findings)
        if text is None:
            # What is about the whole file stands at its beginning.
            whole = [
                finding if finding.line else placed(finding, 1, 1) for finding in findings.items
            ]
            return Report(
                file,
                "npu" if _NPU_TEXT.search(data[:65536]) else "acl",
                tuple(in_file_order(whole)),
            )
        other = other_tool(text.value)
        if other is not None:
            key, whose = other
            message = "this is %s own dump configuration: not judged" % whose
            fix = (
                "leave it to MindSpore, whose dumps in the device's own form (file_format bin) "
                "compare takes: the folder with rank_N"
                if whose == _OTHER_TOOLS["common_dump_settings"][1]
                else "leave it to msprobe (of vLLM: dump_config_path of additional_config), "
                "which saves what Python's functions are given and return; for dumps of a device: "
                "goldwatch config new"
            )
            findings.warning(
                "other-tool",
                (key,),
                message,
                "aclInit and the TensorFlow adapter do not read it",
                fix,
                at_key=True,
            )
            return Report(file, "acl", tuple(_located(findings.items, text)))
        kind = "npu" if looks_like_npu(text.value) else "acl"
        (self._npu if kind == "npu" else self._acl)(text.value, findings)
        return Report(file, kind, tuple(in_file_order(_located(findings.items, text))))

    def _acl(self, document: Any, findings: Findings) -> None:
        rules = AclRules(findings, self.cann, self.models)
        rules.check(document)
        if (
            not self.models.graphs
            or not isinstance(document, dict)
            or not isinstance(document.get("dump"), dict)
        ):
            return
        ModelRules(findings, self.models).check_acl(document)
        if rules.dumps_models:
            place = ("dump", "dump_path") if "dump_path" in document["dump"] else ("dump",)
            folder = self._folder(rules.folder, document["dump"].get("dump_path"))
            check_size(
                findings,
                acl_size(document, self.models),
                document["dump"].get("dump_step"),
                folder,
                place,
                self.devices,
            )

    def _npu(self, document: Any, findings: Findings) -> None:
        rules = NpuRules(findings, self.cann, self.models)
        rules.check_document(document)
        self._npu_models(document, rules, findings)

    def _npu_models(self, values: Any, rules: NpuRules, findings: Findings) -> None:
        if not self.models.graphs:
            return
        layers = values.get("dump_layer")
        if isinstance(layers, str):
            ModelRules(findings, self.models).check_layers(layers, ("dump_layer",))
        if rules.dumps_models:
            place = ("dump_path",) if "dump_path" in values else ()
            folder = self._folder(rules.folder, values.get("dump_path"))
            check_size(
                findings,
                npu_size(values, self.models),
                values.get("dump_step"),
                folder,
                place,
                self.devices,
            )

    def _folder(self, usable: Optional[str], dump_path: Any) -> Optional[str]:
        """Return the folder whose file system the dump goes to, also when dump_path is still to be
        made.
        """
        if self.elsewhere or usable or not isinstance(dump_path, str) or ":" in dump_path:
            return None if self.elsewhere else usable
        try:
            return nearest_folder(dump_path)
        except ValueError:
            return None  # a character that no path can hold

    def _script(self, file: str, data: bytes, findings: Findings) -> None:
        if len(data) > MAX_SCRIPT_BYTES:
            hint = "put the dump settings into a module of their own"
            raise FormatError("the script is larger than 2 MiB, the most that is read", file, hint)
        script = read_script(data, findings)
        if script is None:
            return
        for settings in script.settings:
            script_findings = Findings(self.elsewhere)
            of_torchair = settings.dialect in (TORCHAIR, GRAPH_OPTIONS)
            rules = (TorchAirRules if of_torchair else NpuRules)(
                script_findings, self.cann, self.models
            )
            values = settings.check(rules)
            self._npu_models(values, rules, script_findings)
            if os.path.normpath(str(values.get("dump_path"))) in script.made:
                script_findings.items = [
                    finding
                    for finding in script_findings.items
                    if finding.rule != "dump-path-not-found"
                ]
            if any(
                other.may_dump()
                and not any(problem.rule == "dump-config-unused" for problem in other.problems)
                for other in script.settings
                if other is not settings
            ):
                # One that dumps nothing, beside one that does: the branches of an if.
                script_findings.items = [
                    finding
                    for finding in script_findings.items
                    if (finding.rule, finding.severity) != ("all-switches-off", WARNING)
                ]
            unknown = settings.unknown()
            if unknown:
                several = len(unknown) > 1
                script_findings.note(
                    "not-known", (unknown[0],),
                    "the value%s of %s %s not stand in the text: not known, and not judged"
                    % ("s" * several, listed(unknown, 8), "do" if several else "does"),
                    "what is written out is judged alone", "look where it is made",
                )  # fmt: skip
            anew = [name for name in settings.several if name not in unknown]
            if anew:
                script_findings.note(
                    "set-anew", (anew[0],),
                    "%s %s set to several values: none of them is judged"
                    % (listed(anew, 8), "are" if len(anew) > 1 else "is"),
                    "what is compiled, or runs, then takes the last one before it",
                    "check a script with the values of one run",
                )  # fmt: skip
            findings.items += settings.located(script_findings.items)
        findings.items = _once(findings.items, "container")
        findings.items += script.problems
        for what, named_file, told, line, column in script.elsewhere:
            message = "dump options may be set elsewhere, by %s: not judged" % what
            consumer = "what it sets does not stand in this script"
            fix = "check the module or file that it takes them from, too"
            if told:
                message = "dump options may be set by %s: not judged" % what
                consumer = "what it makes of its arguments is not known here"
                fix = "check them by its own documentation"
            if named_file:
                message += "; it names %s" % named_file
                fix = "goldwatch config check %s" % named_file
            findings.note("not-judged", (), message, consumer, fix)
            findings.items[-1] = placed(findings.items[-1], line, column)
        if not (script.settings or script.elsewhere or script.problems):
            empty = not data.strip()
            rule, message = (
                ("empty-file", "the file is empty")
                if empty
                else ("no-dump-section", "the script sets no dump option")
            )
            consumer = "nothing is dumped" + (
                ", unless another module of the program sets one" if script.imports else ""
            )
            fix = (
                "pass a DumpConfig, set parameter_map entries, global_options().dump_config, "
                "TorchAir's dump_config or npugraph_ex's dump_tensor_data"
            )
            if script.bare_init:
                message += ", and its acl.init() gets no file"
                fix = 'acl.init("acl.json"): goldwatch config new writes that file'
            findings.warning(rule, (), message, consumer, fix)
            findings.items[-1] = placed(findings.items[-1], 1, 1)


def other_tool(document: Any) -> Optional[Tuple[str, str]]:
    """Return the key that tells another tool's configuration and whose it is, or None."""
    for key, (beside, whose) in _OTHER_TOOLS.items():
        if (
            isinstance(document, dict)
            and key in document
            and beside in document
            and not any(name in document for name in NPU_ONLY)
        ):
            return key, whose
    return None


def _once(findings: Sequence[Finding], rule: str) -> List[Finding]:
    """Return the findings, of those of a rule that say the same only the first."""
    seen = set()
    first_findings = []
    for finding in findings:
        if finding.rule != rule or finding.message not in seen:
            first_findings.append(finding)
        seen.add(finding.message)
    return first_findings


def _located(findings: Sequence[Finding], text: JsonText) -> List[Finding]:
    """Return the findings with their places in the text, and one more for every repeated key."""
    located = []
    for finding in findings:
        if finding.line is None:
            finding = placed(finding, *text.place(finding.path, finding.at_key))
        located.append(finding)
    for path, place in text.duplicates():
        message = "the key %r is used twice in this object" % path[-1]
        finding = Finding(
            "warning",
            "duplicate-key",
            path,
            message,
            "the last one wins",
            "delete one of them",
            at_key=True,
        )
        located.append(placed(finding, *place))
    return located
