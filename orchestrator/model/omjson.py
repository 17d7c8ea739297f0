"""The json of a model, as ``atc --mode=1`` and ``atc --mode=5`` write it: bytes to a tree, within
bounds.

Proto JSON of GE's ModelDef: unset scalars are absent, enums by name, floats as text, maps as lists
of ``{"key", "value"}``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from ..base.errors import FormatError
from ..base.notes import Note, note

MAX_DEPTH = 100
MAX_BYTES = 1 << 30
_WINDOW = 1 << 22
# An empty list takes 64 bytes of memory for two of the file; a model's json has one list or object
# in 15 bytes at most.
_BYTES_PER_CONTAINER = 8
_FREE_CONTAINERS = 1 << 20
_MAX_DIGITS = 300
_LONG_DIGITS = 4000
_DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)

OP_ATTRS = frozenset(
    [
        "_datadump_original_op_names", "_datadump_is_multiop", "_L1_fusion_sub_graph_no",
        "_no_task",
        "_ge_attr_op_kernel_lib_name", "_batch_label", "scale", "offset",
    ]
)  # fmt: skip
"""Op attributes that a graph needs."""

DESC_ATTRS = frozenset(
    [
        "_datadump_origin_name",
        "_datadump_origin_output_index",
        "_datadump_origin_format",
        "origin_format",
        "origin_shape",
        "_fx_tensor_name",
    ]  # fmt: skip
)
"""Attributes of ``input_desc`` and ``output_desc`` that a graph needs."""

MODEL_ATTRS = frozenset(["atc_cmdline", "soc_version", "atc_version", "opp_version"])
"""Attributes of the whole model that a graph or :mod:`.om_interface` needs."""

AIPP_ATTRS = frozenset(
    [
        "aipp", "aipp_config_path", "aipp_mode", "related_input_rank", "input_format", "csc_switch",
        "crop", "resize", "load_start_pos_w",
        "load_start_pos_h", "crop_size_w", "crop_size_h", "padding", "left_padding_size",
        "right_padding_size", "top_padding_size",
        "bottom_padding_size", "src_image_size_w", "src_image_size_h", "cpadding_value",
        "rbuv_swap_switch", "ax_swap_switch",
        *("%s_chn_%d" % (name, number) for name in ("mean", "min",
        "var_reci") for number in range(4)),
        *("matrix_r%dc%d" % (row, column) for row in range(3) for column in range(3)),
        *("%s_bias_%d" % (name, number) for name in ("input", "output") for number in range(3)),
    ]
)  # fmt: skip
"""Attributes about image preprocessing: of the op itself, and inside its attribute ``aipp``.
"""

INPUT_ATTRS = frozenset(["index"])
"""Attributes of input ops."""

KEPT_ATTRS = OP_ATTRS | DESC_ATTRS | MODEL_ATTRS | AIPP_ATTRS | INPUT_ATTRS
_ENTRY = frozenset(["key", "value"])


def decode_text(data: bytes) -> Tuple[str, List[Note]]:
    """Return the text of ``data`` and notes on oddities.

    UTF-8 with or without a byte order mark. Bytes that are not UTF-8 become lone surrogates (GE
    writes the bytes of some lists as they are); a name that holds one shows it as ``\\xNN``.
    """
    try:
        text, notes = data.decode("utf-8"), []
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "surrogateescape")
        notes = [note("not-utf-8", data[error.start], error.start)]
    return (text[1:] if text.startswith("\ufeff") else text), notes


def parse_json(data: bytes, path: str, every: bool = False) -> Tuple[Dict[str, Any], List[Note]]:
    """Parse a model json; returns the tree and notes. Attributes that no
    :class:`~goldwatch.model.graph.ModelGraph` needs are None in it.

    Parameters
    ----------
    every
        Keep all attributes, at several times the memory.

    Raises
    ------
    FormatError
        Not json, not an object, nested deeper than 100, or with a number of more than 300 digits.
    """
    many_digits = check_bounds(data, path)
    text, notes = decode_text(data)
    del data
    try:
        # Dropping each attribute as soon as it is parsed keeps the tree to a fraction of the file.
        hook = None if every else _drop_attrs
        if many_digits:
            tree = json.loads(text, object_hook=hook, parse_int=_bounded_int)
        else:
            tree = json.loads(text, object_hook=hook)
    except json.JSONDecodeError as error:
        raise FormatError(_broken_json(error, notes), path, hint=_HINT) from None
    except (ValueError, RecursionError) as error:
        raise FormatError("not usable json: %s" % error, path, hint=_HINT) from None
    if not isinstance(tree, dict):
        raise FormatError(
            "at the top: expected an object with a graph, got %s" % json_type(tree),
            path,
            hint=_HINT,
        )
    return tree, notes


_HINT = "give the json that atc --mode=1 (of an .om) or atc --mode=5 (of a ge_proto_*.txt) writes"


def json_type(value: Any) -> str:
    """Return the json type of ``value``, with its article."""
    if value is None:
        return "null"
    names = ((bool, "a boolean"), (str, "a string"), (list, "a list"), (dict, "an object"))
    return next((name for kind, name in names if isinstance(value, kind)), "a number")


def _broken_json(error: json.JSONDecodeError, notes: Sequence[str]) -> str:
    message = "not json: line %d column %d (character %d): %s" % (
        error.lineno,
        error.colno,
        error.pos,
        error.msg,
    )
    return "; ".join([message, *notes])


def _drop_attrs(node: Dict[str, Any]) -> Any:
    key = node.get("key")
    if key.__class__ is str and key not in KEPT_ATTRS and node.keys() <= _ENTRY:
        return None
    return node


def _bounded_int(text: str) -> int:
    # int() takes quadratic time on Pythons before 3.11.
    if len(text) > _MAX_DIGITS:
        raise ValueError("a number of %d digits" % len(text))
    return int(text)


def check_bounds(data: bytes, path: str) -> bool:
    """Check the nesting of a json before anything recursive sees it, in one linear pass.

    Returns
    -------
    bool
        Whether a run of thousands of digits occurs, which may be one number.

    Raises
    ------
    FormatError
        Brackets are nested deeper than :data:`MAX_DEPTH`, or there are more of them than a model
        can have.
    """
    containers = 0
    depth, in_string, many_digits, start = 0, 0, False, 0
    while start < len(data):
        end = min(start + _WINDOW, len(data))
        while end < len(data) and data[end - 1] == 0x5C:
            # A window must not end inside an escape.
            end = _end_of_backslashes(data, end) + 1
        window = data[start:end]
        many_digits = many_digits or b"0" * _LONG_DIGITS in window.translate(_DIGITS)
        if b"\\" in window:
            window = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        codes = np.frombuffer(window, dtype=np.uint8)
        quotes = np.flatnonzero(codes == 0x22)
        folded = codes | 0x20
        brackets = np.flatnonzero((folded == 0x7B) | (folded == 0x7D))
        outside = brackets[((np.searchsorted(quotes, brackets) + in_string) & 1) == 0]
        if outside.size:
            depths = depth + np.cumsum(np.where(folded[outside] == 0x7B, 1, -1))
            if int(depths.max()) > MAX_DEPTH:
                where = start + int(outside[int(np.argmax(depths > MAX_DEPTH))])
                raise FormatError(
                    "nested deeper than %d at byte %d" % (MAX_DEPTH, where), path, hint=_HINT
                )
            depth = int(depths[-1])
            containers += outside.size // 2
        in_string = (in_string + len(quotes)) & 1
        start = end
    if containers > max(_FREE_CONTAINERS, len(data) // _BYTES_PER_CONTAINER):
        raise FormatError(
            "%d lists and objects in %d bytes: no model has so many" % (containers, len(data)),
            path,
            hint=_HINT,
        )
    return many_digits


_NOT_BACKSLASH = re.compile(rb"[^\\]")


def _end_of_backslashes(data: bytes, position: int) -> int:
    match = _NOT_BACKSLASH.search(data, position)
    return match.start() if match else len(data)
