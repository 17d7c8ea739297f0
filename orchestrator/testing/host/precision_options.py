"""What atc's options say of an om's arithmetic: which ops are computed in float32, which are not
fused.

Source of the options and files: the vendor's public ATC manuals.
"""

from __future__ import annotations

import configparser
import json
import re
from dataclasses import asdict, field
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from ...base.fast_dataclasses import dataclass

HALF, SINGLE = "float16", "float32"
_MODES = {
    "force_fp16": HALF, "fp16": HALF, "force_fp32": SINGLE, "must_keep_origin_dtype": "origin",
    "origin": "origin",
    "allow_fp32_to_fp16": "wide", "cube_fp16in_fp32out": "cube", "allow_mix_precision": "mixed",
    "allow_mix_precision_fp16": "mixed",
    "mixed_float16": "mixed",
}  # fmt: skip
_IMPLEMENTATIONS = (
    "high_precision", "high_performance", "enable_float_32_execution",
    "enable_hi_float_32_execution", "keep_fp16",
    "support_out_of_bound_index", "super_performance",
)  # fmt: skip
_TYPE = "OpType::"


class AtcError(Exception):
    """What atc refuses, with its error code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__("%s: %s" % (code, text))


@dataclass(frozen=True)
class Build:
    """How an om is computed.

    Attributes
    ----------
    mode
        ``float16``, ``float32``, ``origin`` (the types of the model), ``wide`` (float16 for cube
        units alone), ``cube`` (they read float16 and write float32), ``mixed``.
    keep
        Original names, and ``OpType::`` with types of Ascend IR, that are computed in float32
        (--keep_dtype).
    customised
        The same to types of inputs and outputs (--customize_dtypes).
    black
        Types that mixed precision keeps in float32 (--modify_mixlist).
    precise
        Types and original names in high_precision (--op_precision_mode).
    fold, fuse
        Whether normalisations go into filters, and activations into the op before
        (--fusion_switch_file).
    aipp
        The settings of each AIPP (--insert_op_conf).
    """

    mode: str = HALF
    keep: Tuple[str, ...] = ()
    customised: Mapping[str, Tuple[str, str]] = field(default_factory=dict)
    black: Tuple[str, ...] = ()
    precise: Tuple[str, ...] = ()
    fold: bool = True
    fuse: bool = True
    aipp: Tuple[Mapping[str, Any], ...] = ()

    def types(self, kind: str, names: Sequence[str], cube: bool) -> Tuple[str, str]:
        """Return in which types an op reads and writes floats.

        Parameters
        ----------
        kind
            Its type in Ascend IR.
        names
            The originals that it was made from.
        cube
            Whether it multiplies in cube units.
        """
        if self.mode in (SINGLE, "origin"):
            return SINGLE, SINGLE
        alone = names[0] if len(names) == 1 else ""
        for key in (alone, _TYPE + kind):
            # Of a fused op the option does nothing.
            if key in self.customised and len(names) == 1:
                return self.customised[key]
        if _TYPE + kind in self.keep or any(name in self.keep for name in names):
            return SINGLE, SINGLE
        if self.mode == "mixed" and kind in self.black:
            return SINGLE, SINGLE
        if self.mode == "cube" and cube:
            return HALF, SINGLE
        if self.mode in ("wide", "cube") and not cube:
            return SINGLE, SINGLE
        return HALF, HALF

    def is_precise(self, kind: str, names: Collection[str]) -> bool:
        """Tell whether an op is in high_precision."""
        return kind in self.precise or any(name in self.precise for name in names)

    def document(self) -> Dict[str, Any]:
        """Return it for json."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Build:
        """Return what :meth:`document` gave."""
        lists = {name: tuple(document[name]) for name in ("keep", "black", "precise", "aipp")}
        customised = {name: (types[0], types[1]) for name, types in document["customised"].items()}
        return cls(
            mode=document["mode"],
            customised=customised,
            fold=document["fold"],
            fuse=document["fuse"],
            **lists,
        )


def read_build(options: Mapping[str, str]) -> Build:
    """Return what atc's options say.

    Raises
    ------
    AtcError
        A file is not there or has another form; options that exclude one another.
    """
    if options.get("precision_mode") and options.get("precision_mode_v2"):
        raise AtcError(
            "E10057", "--precision_mode and --precision_mode_v2 can not be used at the same time"
        )
    name = "precision_mode_v2" if options.get("precision_mode_v2") else "precision_mode"
    mode = _MODES.get(options.get(name) or "force_fp16")
    if mode is None:
        raise AtcError(
            "E10001",
            "Value [%s] for parameter [--%s] is invalid. Reason: not supported"
            % (options[name], name),
        )
    if options.get("op_precision_mode") and options.get("op_select_implmode"):
        raise AtcError(
            "E10057",
            "--op_precision_mode and --op_select_implmode can not be used at the same time",
        )
    black = _mixlist(options["modify_mixlist"]) if options.get("modify_mixlist") else ()
    if black and mode != "mixed":
        raise AtcError(
            "E10001",
            "--modify_mixlist: --%s must be a mode of mixed precision, it is [%s]"
            % (name, options.get(name)),
        )
    precise = _modes(options["op_precision_mode"]) if options.get("op_precision_mode") else ()
    off = _switches(options["fusion_switch_file"]) if options.get("fusion_switch_file") else ()
    return Build(
        mode=mode,
        keep=_lines(options["keep_dtype"], "keep_dtype") if options.get("keep_dtype") else (),
        customised=_customised(options["customize_dtypes"])
        if options.get("customize_dtypes")
        else {},
        black=black,
        precise=precise,
        fold="GraphFusion" not in off,
        fuse="UBFusion" not in off,
    )


def read_text(path: str, option: str) -> str:
    """Return a file that an option names; AtcError where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AtcError(
            "E10410", "File [%s] of [--%s] can not be read. Reason: %s" % (path, option, reason)
        ) from None


def _lines(path: str, option: str) -> Tuple[str, ...]:
    return tuple(line.strip() for line in read_text(path, option).splitlines() if line.strip())


def _customised(path: str) -> Dict[str, Tuple[str, str]]:
    customised = {}
    for line in _lines(path, "customize_dtypes"):
        match = re.match(r"(.+?)::InputDtype:([\w,]*?),?OutputDtype:([\w,]+)\Z", line)
        by_type = re.match(r"OpType::(.+?):InputDtype:([\w,]*?),?OutputDtype:([\w,]+)\Z", line)
        if by_type is None and match is None:
            text = (
                "line [%s] of [--customize_dtypes] is not Opname::InputDtype:...,OutputDtype:..."
                % line
            )
            raise AtcError("E10001", text)
        key, inputs, outputs = (
            (_TYPE + by_type.group(1), *by_type.groups()[1:]) if by_type else match.groups()  # type: ignore[union-attr]
        )
        customised[key] = _first(inputs.split(",") + [HALF]), _first(outputs.split(","))
    return customised


def _first(types: List[str]) -> str:
    """Return the first float type of a list: the types of whole numbers stay as they are."""
    return next((kind for kind in types if kind in (HALF, SINGLE)), HALF)


def _mixlist(path: str) -> Tuple[str, ...]:
    text = read_text(path, "modify_mixlist")
    try:
        document = json.loads(text)
        lists = {name: document.get(name, {}) for name in ("black-list", "white-list", "gray-list")}
        return tuple(str(kind) for kind in lists["black-list"].get("to-add", []))
    except (ValueError, AttributeError, TypeError) as error:
        raise AtcError("E10001", "[--modify_mixlist] is not valid json: %s" % error) from None


def _modes(path: str) -> Tuple[str, ...]:
    text = read_text(path, "op_precision_mode")
    parser = configparser.ConfigParser(delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string("[ByType]\n" + text if not re.search(r"^\s*\[", text, re.M) else text)
    except configparser.Error as error:
        raise AtcError(
            "E10001", "[--op_precision_mode] is not valid: %s" % " ".join(str(error).split())
        ) from None
    modes = []
    for section in parser.sections():
        for name, mode in parser.items(section):
            if mode not in _IMPLEMENTATIONS:
                raise AtcError(
                    "E10001", "op_precision_mode [%s] of [%s] is not supported" % (mode, name)
                )
            if mode == "high_precision":
                modes.append(name)
    return tuple(modes)


def _switches(path: str) -> Tuple[str, ...]:
    """Return the kinds of fusion that are off as a whole; single passes are not imitated."""
    text = read_text(path, "fusion_switch_file")
    try:
        switch: Optional[Any] = json.loads(text)["Switch"]
        return tuple(
            kind
            for kind in ("GraphFusion", "UBFusion")
            if switch.get(kind, {}).get("ALL") == "off"  # type: ignore[union-attr]
        )
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise AtcError("E10001", "[--fusion_switch_file] is not valid json: %r" % error) from None
