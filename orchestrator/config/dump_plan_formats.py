"""The written forms of a plan: acl.json, npu settings, code for Estimator, session and TensorFlow
2, and the plan's own.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..base.errors import FormatError, UsageError
from ..base.naming import printable
from ..schemas.documents import read_document
from ..schemas.jsontext import JsonText
from .check import Checker, other_kind, other_tool
from .dump_plan import DumpPlan
from .finding import Finding, Findings
from .json_text_errors import read_json
from .models import Models
from .npu_rules import COMPUTED, NEVER, OTHER_SETTINGS, POSSIBLE, SWITCHES, looks_like_npu
from .schema_rules import SchemaRules
from .script_names import TORCHAIR
from .script_reader import read_script
from .script_settings import ScriptSettings
from .torchair_rules import TORCHAIR_DEFAULTS

FORMS = ("acl", "estimator", "session", "tf2", "npu-json", "plan")
CODE_FORMS = ("estimator", "session", "tf2")
_CHECKED = (
    "goldwatch config check %s (in Python goldwatch.config.check.check_file) tells all that is "
    "wrong"
)
_WATCH = (
    "goldwatch watch, started beside the program with the folder that it dumps to, needs no "
    "configuration"
)
_PLAN_ONLY = [field.name for field in fields(DumpPlan) if field.name != "dump_path"]
NPU_FORMS = CODE_FORMS + ("npu-json",)

# Names stand in strings of JSON or Python; both read the escapes of characters that would change
# how a terminal shows the rest.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

_ESTIMATOR = '''"""Dump settings of an NPUEstimator (npu_bridge, TensorFlow 1.15)."""

from npu_bridge.estimator.npu.npu_config import DumpConfig, NPURunConfig

dump_config = DumpConfig(
%s
)

# Other arguments (model_dir, session_config ...) belong into the same call; then NPUEstimator(config=run_config).
run_config = NPURunConfig(dump_config=dump_config)
'''  # noqa: E501

_SESSION = '''"""Dump settings of session.run (npu_bridge, TensorFlow 1.15)."""

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

config = tf.compat.v1.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
%s
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF


def npu_session(graph=None):
    """Return a session that runs on the NPU and dumps."""
    import npu_bridge.npu_init  # noqa: F401  registers NpuOptimizer

    return tf.compat.v1.Session(graph=graph, config=config)
'''

_TF2 = '''"""Dump settings of npu_device (TensorFlow 2); they take effect when set before npu.open()."""

import npu_device as npu

%s
'''  # noqa: E501


def write_plan(plan: DumpPlan, form: str) -> str:
    """Return the text of ``plan`` in one of :data:`FORMS`.

    Raises
    ------
    UsageError
        There is no such form, or it cannot hold what the plan says.
    """
    if form not in FORMS:
        raise UsageError("there is no form %r" % (form,), hint="forms: " + ", ".join(FORMS))
    writers: Dict[str, Callable[[DumpPlan], str]] = {
        "acl": lambda plan: _json(plan.acl_document()),
        "npu-json": lambda plan: _json(plan.npu_settings()),
        "plan": lambda plan: _json(plan.to_document()),
        "estimator": lambda plan: _ESTIMATOR
        % "\n".join("    %s=%s," % pair for pair in _literals(plan)),
        "session": lambda plan: _SESSION
        % "\n".join(_parameter(name, text) for name, text in _literals(plan)),
        "tf2": lambda plan: _TF2
        % "\n".join("npu.global_options().dump_config.%s = %s" % pair for pair in _literals(plan)),
    }
    text = writers[form](plan)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            "a name or dump_path is not valid UTF-8", hint="only UTF-8 can be written"
        ) from None
    return _UNPRINTABLE.sub(
        lambda match: match.group()
        if printable(match.group()) == match.group()
        else _escape(match.group()),
        text,
    )


def _escape(character: str) -> str:
    return "\\u%04x" % ord(character)


def _json(document: Any) -> str:
    return json.dumps(document, indent=4, ensure_ascii=False) + "\n"


_GIVE = "give the acl.json, npu settings or script that configures the device's dump"


def _literals(plan: DumpPlan) -> List[Any]:
    """Return (setting, Python literal) pairs."""
    return [(name, _literal(value)) for name, value in plan.npu_settings().items()]


def _literal(value: Any) -> str:
    # JSON's escapes of control characters and quotes are Python's too; True and False are not.
    return str(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def _parameter(name: str, text: str) -> str:
    if text in ("True", "False"):
        return 'custom_op.parameter_map["%s"].b = %s' % (name, text)
    return 'custom_op.parameter_map["%s"].s = tf.compat.as_bytes(%s)' % (name, text)


def read_plan(data: bytes, file: str, exact: bool = True) -> DumpPlan:
    """Return the plan that a file holds: acl.json, npu settings, a script with one set of settings
    (``.py``), or a plan's own form.

    Parameters
    ----------
    data
        The file's content.
    file
        Its name, for the suffix and for messages.
    exact
        Whether a script must show every setting in one place. If not, it is enough that all its
        places name one dump_path; what a place computes or they do not agree on is None in the
        plan.

    Raises
    ------
    FormatError
        It cannot be read, or holds values that no consumer knows; ``goldwatch config check`` says
        more.
    """
    findings = Findings()
    other_file = other_kind(file, data) if os.path.isfile(file) else None
    if other_file is not None:
        raise FormatError(
            "this is %s, no configuration of a dump" % other_file.words, file, hint=_GIVE
        )
    try:
        if file.lower().endswith(".py"):
            return _from_script(data, file, findings, exact)
        text = read_json(data, findings)
        if text is not None and isinstance(text.value, dict):
            other = other_tool(text.value)
            if other is not None:
                raise FormatError(
                    "this is %s own dump configuration, which aclInit does not read" % other[1],
                    file,
                    hint=_GIVE,
                )
            kind = _kind(text.value)
            if kind == "plan":
                return DumpPlan.from_document(read_document(data, "plan", file))
            SchemaRules(kind, findings).check(text.value)
            if not findings.items:
                return (
                    DumpPlan.from_acl_document(text.value)
                    if kind == "acl"
                    else DumpPlan.from_npu_settings(text.value)
                )
    except (UsageError, TypeError, AttributeError, KeyError) as error:
        raise FormatError("no dump plan: %s" % error, file, hint=_CHECKED % file) from error
    problem = findings.items[0].message if findings.items else "it holds no object"
    raise FormatError("no dump plan: %s" % problem, file, hint=_CHECKED % file)


def left_out(data: bytes, file: str) -> List[Finding]:
    """Return the keys that :func:`read_plan` leaves out, as the consumer does: unknown ones and all
    but the last of repeated ones.
    """
    text: Optional[JsonText] = None
    if not file.lower().endswith(".py"):
        text = read_json(data, Findings())
        if text is None or not isinstance(text.value, dict) or _kind(text.value) == "plan":
            return []
    report = Checker(Models([]), elsewhere=True).check(file, data)
    findings = [
        finding for finding in report.findings if finding.rule in ("unknown-key", "duplicate-key")
    ]
    others = Findings()
    for name in OTHER_SETTINGS:
        if text is not None and name in text.value and _kind(text.value) == "npu":
            others.note(
                "no-part-of-a-plan",
                (name,),
                "%s is no part of a plan and is left out" % name,
                "not written",
                "set it by hand",
            )
    return findings + others.items


def _kind(document: Mapping[str, Any]) -> str:
    if "dump" in document:
        return "acl"
    return (
        "npu"
        if looks_like_npu(document) and not any(name in document for name in _PLAN_ONLY)
        else "plan"
    )


def _from_script(data: bytes, file: str, findings: Findings, exact: bool) -> DumpPlan:
    script = read_script(data, findings)
    configs = script.settings if script is not None else []
    places = [_plan_values(settings) for settings in configs if exact or settings.may_dump()]
    if len(places) != 1 and (exact or not places):
        raise FormatError(
            "no dump plan: the script sets dump options in %d places" % len(configs),
            file,
            hint=_WATCH,
        )
    values = {
        name: value
        for name, value in places[0].items()
        if all(place.get(name, COMPUTED) == value for place in places)
    }
    computed = [name for name in places[0] if values.get(name, COMPUTED) is COMPUTED]
    if exact and computed:
        raise FormatError("no dump plan: %s is computed" % computed[0], file)
    if "dump_path" in computed:
        raise FormatError("no dump plan: the text does not show one dump_path", file, hint=_WATCH)
    if values.get(SWITCHES[0]) is COMPUTED:
        # Who compares has it on.
        values[SWITCHES[0]] = True
    return DumpPlan.from_npu_settings(
        {name: value for name, value in values.items() if value is not COMPUTED}
    )


def _plan_values(settings: ScriptSettings) -> Mapping[str, Any]:
    """Return settings with the defaults of their consumer that differ from npu_bridge's; a switch
    that only some runs take is COMPUTED.
    """
    values = dict(settings.values)
    if settings.dialect == TORCHAIR:
        for name in ("dump_path", "dump_mode"):
            values.setdefault(name, TORCHAIR_DEFAULTS[name])
    if settings.together in (POSSIBLE, NEVER) and all(
        values.get(name) is True for name in SWITCHES
    ):
        values[SWITCHES[1]] = COMPUTED
    return values
