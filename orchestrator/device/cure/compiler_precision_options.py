"""The compiler's options that raise the precision of operators: what each can name, its file, and
the command to use.

Sources: the vendor's public manuals of ATC and of the TensorFlow adapter (``--keep_dtype``,
``--customize_dtypes``, ``--modify_mixlist``, ``--op_precision_mode``), versions 6.2 to 8.5.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...base.errors import FormatError
from ...base.naming import printable
from ...base.notes import Note, note
from ...base.wording import plural
from ...model.graph import ModelGraph
from ...model.op_node import OpNode
from .own_errors import NARROW
from .precision_causes import OpPrecision

KEEP_DTYPE, MIXLIST, CUSTOMIZE, OP_PRECISION, NPU = (
    "keep-dtype",
    "mixlist",
    "customize",
    "op-precision",
    "npu",
)
MODES = (KEEP_DTYPE, MIXLIST, CUSTOMIZE, OP_PRECISION, NPU)

FILES = {
    KEEP_DTYPE: "keep_dtype.cfg",
    MIXLIST: "ops_info.json",
    CUSTOMIZE: "customize_dtypes.cfg",
    OP_PRECISION: "op_precision.ini",
    NPU: "ops_info.json",
}
"""The name of each mode's file."""
OPTIONS = {
    KEEP_DTYPE: "keep_dtype",
    MIXLIST: "modify_mixlist",
    CUSTOMIZE: "customize_dtypes",
    OP_PRECISION: "op_precision_mode",
}

_BY_TYPE = (MIXLIST, OP_PRECISION, NPU)
_MIXED = {"precision_mode": ("allow_mix_precision", "allow_mix_precision_fp16",
"allow_mix_precision_bf16"),
          "precision_mode_v2": ("mixed_float16", "mixed_bfloat16")}  # fmt: skip
_KEEPS_ALL = {"precision_mode": "must_keep_origin_dtype", "precision_mode_v2": "origin"}
_IMPLEMENTATION = ("op_select_implmode", "optypelist_for_implmode")
_OPTION = re.compile(r"--(?P<name>\w+)(?:=(?P<value>.*))?\Z", re.DOTALL)
_UNWRITABLE = {KEEP_DTYPE: re.compile(r"[\r\n]|\AOpType::"), CUSTOMIZE: re.compile(r"[\r\n]|::")}


class Unit(NamedTuple):
    """What an option raises together.

    Attributes
    ----------
    name
        As it stands in the file: an original node, an op type.
    ops
        The device's ops that it raises.
    lines
        Of the file; of ``ops_info.json`` and an ini the types.
    """

    name: str
    ops: Tuple[str, ...]
    lines: Tuple[str, ...]


def units_of(
    mode: str, facts: Mapping[str, OpPrecision], graph: ModelGraph, nodes: Optional[Collection[str]]
) -> Tuple[Dict[str, Unit], Dict[str, str]]:
    """Return what an option may raise, by name, and by op why it cannot raise others.

    Parameters
    ----------
    facts
        What is known of the ops.
    nodes
        The names of the original model's nodes; None where that is not known.
    """
    units: Dict[str, Unit] = {}
    refused: Dict[str, str] = {}
    by_originals: Dict[Tuple[str, ...], List[str]] = {}
    for name, one in facts.items():
        reason = _why_not(mode, one)
        if reason:
            refused[name] = reason
        elif mode in _BY_TYPE:
            unit = units.get(one.type, Unit(one.type, (), (one.type,)))
            units[one.type] = unit._replace(ops=(*unit.ops, name))
        else:
            names = (
                one.originals
                if nodes is None
                else tuple(entry for entry in one.originals if entry in nodes)
            )
            bad = next((entry for entry in names if _UNWRITABLE[mode].search(entry)), None)
            if not names:
                refused[name] = "none of its original names is a node of the original model"
            elif bad is not None:
                refused[name] = "its original name %s cannot stand in the file" % printable(bad)
            else:
                by_originals.setdefault(names, []).append(name)
    for names, ops in by_originals.items():
        lines = (
            names
            if mode == KEEP_DTYPE
            else (_customized(names[0], next(iter(graph.ops_named(ops[0])), None)),)
        )
        units[" + ".join(names)] = Unit(" + ".join(names), tuple(ops), tuple(lines))
    return units, refused


def _why_not(mode: str, one: OpPrecision) -> str:
    """Return why an option cannot raise an op; empty where it can."""
    if one.dtype not in NARROW:
        if mode == OP_PRECISION and one.product:
            return ""
        return "it is computed in %s already" % one.dtype
    if mode in _BY_TYPE:
        return ""
    if not one.originals:
        return "the compiler put it in: it has no name of the original model"
    if mode == CUSTOMIZE and len(one.originals) > 1:
        text = (
            "it was fused of %s, and customize_dtypes does nothing for what is fused: keep_dtype "
            "does, or a build without fusion"
        )
        return text % plural(len(one.originals), "original node")
    return ""


def _customized(name: str, node: Optional[OpNode]) -> str:
    """Return the line of customize_dtypes for an op: its types, floats as float32."""
    inputs = [_wide(desc.dtype) for desc in node.input_descs] if node is not None else ["float32"]
    outputs = [_wide(desc.dtype) for desc in node.output_descs] if node is not None else ["float32"]
    return "%s::InputDtype:%s,OutputDtype:%s" % (name, ",".join(inputs), ",".join(outputs))


def _wide(ge_name: str) -> str:
    dtype = ge_name.replace("DT_", "").lower()
    return "float32" if dtype in ("float16", "bf16", "bfloat16", "float", "") else dtype


def content(
    mode: str, units: Sequence[Unit], facts: Mapping[str, OpPrecision], earlier: str = ""
) -> str:
    """Return the option's file.

    Parameters
    ----------
    earlier
        What the file held that the om was made with: it stays in force.

    Raises
    ------
    FormatError
        ``earlier`` is no file of this option.
    """
    lines = list(dict.fromkeys(line for unit in units for line in unit.lines))
    if mode in (MIXLIST, NPU):
        return json.dumps(_with_black(_mixlist(earlier), lines), indent=2) + "\n"
    if mode == OP_PRECISION:
        wide = {
            facts[name].type
            for unit in units
            for name in unit.ops
            if facts[name].dtype not in NARROW
        }
        lines = [
            "%s = %s" % (line, "enable_float_32_execution" if line in wide else "high_precision")
            for line in lines
        ]
        named = {line.partition("=")[0].strip() for line in lines}
        before = [
            line
            for line in earlier.splitlines()
            if line.strip() and line.partition("=")[0].strip() not in named
        ]
        # Lines before a section are of types.
        section = next(
            (at for at, line in enumerate(before) if line.strip() == "[ByNodeName]"), len(before)
        )
        return "".join(line + "\n" for line in [*before[:section], *lines, *before[section:]])
    before = [line.strip() for line in earlier.splitlines() if line.strip()]
    return "".join(line + "\n" for line in dict.fromkeys([*before, *lines]))


def _mixlist(earlier: str) -> Dict[str, Any]:
    try:
        document = json.loads(earlier) if earlier.strip() else {}
    except ValueError as error:
        raise FormatError("no JSON: %s" % error) from None
    if not isinstance(document, dict) or not all(
        isinstance(entry, dict) for entry in document.values()
    ):
        raise FormatError("expected an object of lists")
    return dict(document)


def _with_black(document: Dict[str, Any], types: Sequence[str]) -> Dict[str, Any]:
    """Return a mixed-precision list with types that stay in float32, and that no other of its lists
    names.
    """
    made = {
        name: {
            key: [one for one in types_listed if one not in types]
            for key, types_listed in entry.items()
        }
        for name, entry in document.items()
    }
    before = list(document.get("black-list", {}).get("to-add", []))
    made.setdefault("black-list", {})["to-add"] = list(dict.fromkeys([*before, *types]))
    return {
        name: {key: types_listed for key, types_listed in entry.items() if types_listed}
        for name, entry in made.items()
        if any(entry.values())
    }


def earlier_file(mode: str, command: str) -> str:
    """Return the path of the file of this option that an om was made with; empty where there was
    none.
    """
    name = OPTIONS.get(mode)
    return "" if name is None else _options_in(_split(command)).get(name, "")


class Command(NamedTuple):
    """How to use the file.

    Attributes
    ----------
    lines
        To be copied: a shell command, or lines of a training script.
    words
        Of the atc command one by one; empty for npu.
    notes
        What it changes besides, or needs.
    """

    lines: Tuple[str, ...]
    words: Tuple[str, ...]
    notes: Tuple[Note, ...]


def command_of(mode: str, path: str, command: str) -> Command:
    """Return how to use an option's file.

    Parameters
    ----------
    path
        Of the file.
    command
        The command that made the om, as its attribute ``atc_cmdline`` has it; empty where it is not
        known.
    """
    if mode == NPU:
        return _npu(path)
    words, notes = _split(command), []
    if not words:
        notes.append(note("unknown-command"))
        words = ["atc", "…"]
    words = _without(words, OPTIONS[mode])
    if mode == OP_PRECISION:
        words, changes = _for_op_precision(words)
    elif mode == MIXLIST:
        words, changes = _for_mixlist(words)
    else:
        words, changes = _for_dtypes(words, OPTIONS[mode])
    words.append("--%s=%s" % (OPTIONS[mode], path))
    return Command(
        (" ".join(word if word == "…" else shlex.quote(word) for word in words),),
        tuple(words),
        tuple(notes + changes),
    )


def _for_op_precision(words: Sequence[str]) -> Tuple[List[str], List[Note]]:
    """Return a command as op_precision_mode needs it, and what was changed."""
    given = _options_in(words)
    gone = [name for name in _IMPLEMENTATION if name in given]
    notes = [note("supported-modes")]
    if gone:
        notes.insert(0, note("excluded-options", " and ".join("--" + name for name in gone)))
    return _without(words, *_IMPLEMENTATION), notes


def _for_mixlist(words: Sequence[str]) -> Tuple[List[str], List[Note]]:
    """Return a command as modify_mixlist needs it, and what was changed."""
    given, changed, notes = _options_in(words), list(words), []
    if not any(given.get(name) in values for name, values in _MIXED.items()):
        changed = [*_without(words, *_MIXED), "--precision_mode_v2=mixed_float16"]
        added = ": --precision_mode_v2=mixed_float16 was put in"
        notes.append(note("mixed-precision-only", added))
    notes.append(note("types-named"))
    return changed, notes


def _for_dtypes(words: Sequence[str], option: str) -> Tuple[List[str], List[Note]]:
    """Return a command as keep_dtype and customize_dtypes need it, and what was changed."""
    given, changed, notes = _options_in(words), list(words), []
    for name, value in _KEEPS_ALL.items():
        if given.get(name) == value:
            changed = [*_without(changed, name), "--precision_mode=force_fp16"]
            notes.append(note("precision-mode-replaced", name, value, option))
    if "precision_mode" not in given and "precision_mode_v2" not in given:
        changed.append("--precision_mode=force_fp16")
        notes.append(note("precision-mode-added", option))
    return changed, notes


def _split(command: str) -> List[str]:
    """Return the words of a command line; options that are written ``--name value`` become
    ``--name=value``.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    parts: List[str] = []
    for word in words:
        if (
            parts
            and parts[-1].startswith("--")
            and "=" not in parts[-1]
            and not word.startswith("--")
        ):
            parts[-1] += "=" + word
        else:
            parts.append(word)
    return parts


def _options_in(words: Sequence[str]) -> Dict[str, str]:
    return {
        match.group("name"): match.group("value") or ""
        for match in map(_OPTION.match, words)
        if match
    }


def _without(words: Sequence[str], *names: str) -> List[str]:
    return [
        word
        for word in words
        if not any(word == "--" + name or word.startswith("--%s=" % name) for name in names)
    ]


def _npu(path: str) -> Command:
    quoted = json.dumps(path, ensure_ascii=False)
    lines = (
        "# Estimator (npu_bridge): arguments of NPURunConfig",
        'NPURunConfig(…, precision_mode="allow_mix_precision", modify_mixlist=%s)' % quoted,
        "# sess.run (npu_bridge): the options of NpuOptimizer",
        'custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")',
        'custom_op.parameter_map["modify_mixlist"].s = tf.compat.as_bytes(%s)' % quoted,
        "# TensorFlow 2 (npu_device)",
        'npu.global_options().precision_mode = "allow_mix_precision"',
        "npu.global_options().modify_mixlist = %s" % quoted,
    )
    return Command(lines, (), (note("mixed-precision-only", ""), note("types-named")))
