"""Detects what a file is by its first bytes, or else by its fields.

Sources of the forms: public documents of the tools that write them (CANN, AMCT, msprobe, ATB,
MindSpore, Caffe, ONNX, TensorFlow, PyTorch, safetensors); magic numbers from the file(1) database.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from ..base.errors import FormatError, GoldwatchError
from ..base.protowire import BYTES, VARINT, Window, fields_of
from ..base.safe_reading import open_regular, read_at
from . import kind as kinds
from .kind import Kind

_HEAD_BYTES = 65536
_JSON_BYTES = 8 << 20
_MAX_HEADER_BYTES = 1 << 24
_MAX_FIELDS = 200000
_MAGICS: Tuple[Tuple[int, bytes, str], ...] = (
    (0, b"version https://git-lfs", kinds.LFS),
    (0, b"\x93NUMPY", kinds.NPY),
    (0, b"IMOD", kinds.OM),
    (0, b"SQLite format 3\0", kinds.SQLITE),
    (0, b"\x89HDF\r\n\x1a\n", kinds.HDF5),
    (0, b"$Version=", kinds.ATB),
    (0, b"\x1f\x8b", kinds.ARCHIVE),
    (257, b"ustar", kinds.TAR),
    (4, b"ORTM", kinds.ORT),
    (0, b"\x89PNG\r\n", kinds.IMAGE),
    (0, b"\xff\xd8\xff", kinds.IMAGE),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05][\x95}\]c(\x8a]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_NUMBER = re.compile(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|nan|inf)\Z", re.IGNORECASE)
_BETWEEN_NUMBERS = re.compile(r"[\s,;\[\]]+")
_CALL = re.compile(r"\.(?:forward|backward)\b")
_FIELD = re.compile(r"^(\s*)([A-Za-z_]\w*)\s*(?::|\{)", re.MULTILINE)
_READABLE = re.compile(r"""\s*graph\(\s*["'%]""")
_SCRIPT = re.compile(r"\s*(?:#!.*python|(?:import|from) \w|def \w|class \w|\"\"\")")
_SHELL = re.compile(r"#!.*\b(?:ba|da|z)?sh\b")
#: Lines of a fusion_switch file as CANN 3 took it.
_SWITCHES = re.compile(r"(?:\w+\s*:\s*(?:on|off)\s*)+\Z")
_COMMENT = re.compile(r"^\s*(?:#|;|//).*(?:\n|\Z)", re.MULTILINE)
_SECTION = re.compile(r"\[[A-Za-z_][\w .:-]*\]\s*(?:\n|\Z)")
#: Lines of operator information as the compiler's ini files have them.
_OF_AN_OP = re.compile(r"^(?:opFile\.value|opInterface\.value|input0\.\w+)\s*=", re.MULTILINE)
_SETTING = re.compile(r"[A-Za-z][\w.\-]*\s*(?:[=~<>!]?=|:(?!:))\s*[^{\[\s].*\Z")
_NAME = re.compile(r"[A-Za-z_/](?:[\w./\-;,]|::)*\Z")
_MESSAGE = re.compile(r"[A-Za-z_]\w*\s*\{")
_QUANT_SETTINGS = re.compile(r"^\s*(?:activation_offset|joint_quant)\s*:", re.MULTILINE)
_KEEP_LIST = re.compile(r"^OpType::\w+|:(?:In|Out)putDtype:\w+", re.MULTILINE)
#: The first section of the converter's file (its public documents).
_OF_PRECISION = re.compile(r"\[By(?:Op)?(?:Type|NodeName)\]\s")
"""The first section of the file of op_precision_mode (atc's documents)."""
_CONVERTER = re.compile(
    r"\[(?:ascend_context|acl_option_cfg_param|acl_init_options|acl_build_options|registry"
    r"|common_quant_param|full_quant_param|mixed_bit_weight_quant_param"
    r"|data_preprocess_param|micro_param|weight_quant_param|dynamic_quant_param)\]\s*\n"
)
_LAYER_FIELDS = frozenset(["layer", "layers", "input_shape", "input_dim"])
_SOLVER_FIELDS = frozenset(
    ["net", "train_net", "base_lr", "lr_policy", "max_iter", "solver_mode", "snapshot_prefix"]
)
#: Fields of onnx.proto's TensorProto (dims, data_type, …), and their wire types.
_TENSOR_FIELDS = frozenset(
    [(1, VARINT), (2, VARINT), (14, VARINT), *((number, BYTES) for number in (*range(3, 14), 16))]
)
_TENSOR_DATA = frozenset((number, BYTES) for number in (4, 5, 6, 7, 9, 10, 11, 13))
_ACL_KEYS = frozenset(
    [
        "dump_path",
        "dump_list",
        "dump_mode",
        "dump_debug",
        "dump_op_switch",
        "dump_data",
        "dump_scene",
        "dump_step",
    ]
)


def kind_of_file(path: str) -> Kind:
    """Return what a file is; :data:`goldwatch.kinds.kind.RAW` if unknown.

    At most the first 64 KiB are read, of a json up to 8 MiB, of a protobuf message the heads of its
    fields. Completeness is not checked: a file is a dump if its first eight bytes are the length of
    a plausible header.

    Raises
    ------
    MissingPath, InputError
        The file cannot be opened or read.
    """
    descriptor, size = open_regular(path)
    try:
        head = read_at(descriptor, 0, min(size, _HEAD_BYTES), path)
        return Kind(_by_head(descriptor, head, size, path))
    finally:
        os.close(descriptor)


def _by_head(descriptor: int, head: bytes, size: int, path: str) -> str:
    if not head:
        return kinds.EMPTY
    for offset, magic, name in _MAGICS:
        if head[offset : offset + len(magic)] == magic:
            return name
    if head.startswith(b"PK\x03\x04"):
        return _zip(head, path)
    if _PICKLE.match(head):
        return kinds.PICKLE
    if _is_plain(head):
        return _text(descriptor, head, size, path)
    return _binary(descriptor, head, size, path)


def _is_plain(head: bytes) -> bool:
    """Return whether bytes are text: no control characters, and mostly ASCII."""
    return not _CONTROL.search(head) and 2 * sum(byte > 127 for byte in head[:4096]) <= len(
        head[:4096]
    )


def _zip(head: bytes, path: str) -> str:
    """Return the kind of a zip archive by the name of its first file."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith(b".npy"):
        return kinds.NPZ
    if name.endswith(
        (b"/data.pkl", b"/version", b"/constants.pkl", b"/byteorder", b"/.format_version")
    ):
        return kinds.TORCH
    return kinds.OM if path.lower().endswith(".om") else kinds.ZIP


def _binary(descriptor: int, head: bytes, size: int, path: str) -> str:
    length = int.from_bytes(head[:8], "little")
    if len(head) > 8 and 0 < length <= min(_MAX_HEADER_BYTES, size - 8):
        if head[8:9] == b"{":
            return kinds.SAFETENSORS
        if _is_message(head[8 : 8 + length], length):
            return kinds.DUMP
    return _protobuf(descriptor, size, path)


def _is_message(data: bytes, length: int) -> bool:
    """Return whether bytes (possibly truncated) begin like a protobuf message or a nano device's
    header."""
    try:
        for number, _, _, _ in fields_of(data, 0, length):
            if number > 15:
                return False
    except (FormatError, IndexError):
        return len(data) < length or data[:4] == b"\x5a\x5a\x5a\x5a"
    return True


def _protobuf(descriptor: int, size: int, path: str) -> str:
    """Return the kind of a protobuf message by numbers and wire types of its fields; it may be
    truncated."""
    counts: Dict[Tuple[int, int], int] = {}
    first: Optional[Tuple[int, int]] = None
    window = Window(descriptor, path)
    broken = False
    try:
        for number, wire, begin, end in fields_of(window, 0, size):
            first = first or (begin, end)
            counts[number, wire] = counts.get((number, wire), 0) + 1
            if len(counts) > 64 or sum(counts.values()) > _MAX_FIELDS:
                break
    except (GoldwatchError, IndexError):
        broken = True
    if (100, BYTES) in counts or (
        (1, BYTES) in counts and (2, BYTES) in counts and not broken and _is_text(window, first)
    ):
        return kinds.CAFFEMODEL
    # A number alone has no dims, but data.
    if (
        not broken
        and (2, VARINT) in counts
        and set(counts) <= _TENSOR_FIELDS
        and ((1, VARINT) in counts or _TENSOR_DATA & set(counts))
    ):
        return kinds.TENSOR_PROTO
    if (1, VARINT) in counts and ((7, BYTES) in counts or (8, BYTES) in counts):
        return kinds.ONNX
    if not broken and set(counts) == {(1, VARINT), (2, BYTES)}:
        return kinds.SAVED_MODEL
    if (
        (1, BYTES) in counts
        and first is not None
        and all(number <= 5 for number, _ in counts)
        and _is_node(window, first)
    ):
        return kinds.GRAPH_DEF
    return (
        kinds.RAW
        if broken or not counts or any(number > 200 for number, _ in counts)
        else kinds.PROTOBUF
    )


def _is_text(window: Window, span: Optional[Tuple[int, int]]) -> bool:
    piece = b"" if span is None else window.piece(span[0], min(span[1], span[0] + 64))
    return not _CONTROL.search(piece)


def _is_node(window: Window, span: Tuple[int, int]) -> bool:
    """Return whether a record is a NodeDef: a name and a type."""
    try:
        numbers = {number for number, wire, _, _ in fields_of(window, *span) if wire == BYTES}
    except (GoldwatchError, IndexError):
        return False
    return {1, 2} <= numbers <= {1, 2, 3, 4, 5, 6, 7}


def _text(descriptor: int, head: bytes, size: int, path: str) -> str:
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    uncommented = _COMMENT.sub("", text).lstrip()
    if _CONVERTER.match(uncommented):
        return kinds.CONVERTER
    if _OF_PRECISION.match(uncommented):
        return kinds.OP_PRECISION
    if _SECTION.match(uncommented):
        return kinds.OPS_INFO if _OF_AN_OP.search(uncommented) else kinds.INI
    if text[:1] in ("{", "["):
        return _json(descriptor, text, size, path)
    line = text.partition("\n")[0]
    if line.count(",") > 2:
        table = _table(line)
        if table is not None:
            return table
    if _READABLE.match(text):
        return kinds.GE_READABLE
    if _is_numbers(text[:2000].rpartition("\n")[0] or text[:2000]):
        return kinds.NUMBERS
    if _SHELL.match(text) or path.endswith(".sh"):
        return kinds.SHELL
    if path.endswith((".yaml", ".yml")):
        return kinds.YAML
    if _SWITCHES.match(uncommented):
        return kinds.FUSION_SWITCH
    if _KEEP_LIST.search(text):
        return kinds.KEEP_LIST
    if _QUANT_SETTINGS.search(text):
        return kinds.QUANT_CONFIG
    if _SCRIPT.match(text) or path.endswith(".py"):
        return kinds.SCRIPT
    return _text_proto(text) or _lines(uncommented)


def _lines(text: str) -> str:
    """Return the kind of a text whose lines are all alike; what was meant to configure a dump stays
    a text.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The value dump_cce of atc's op_debug_config asks for no dump of tensors.
    if ("dump" in text and not text.startswith("op_debug_config")) or not lines:
        return kinds.TEXT
    if all(map(_NAME.match, lines)):
        return kinds.NAMES
    if _MESSAGE.match(lines[0]):
        return kinds.MESSAGE_TEXT
    return kinds.SETTINGS if all(map(_SETTING.match, lines)) else kinds.TEXT


def _is_numbers(text: str) -> bool:
    words = [word for word in _BETWEEN_NUMBERS.split(text) if word]
    return bool(words) and all(_NUMBER.match(word) for word in words)


def _table(header: str) -> Optional[str]:
    """Return the kind of a CSV by its first line."""
    names = {name.strip().strip('"').lower() for name in header.split(",")}
    if {"input/output", "data type"} <= names:
        return kinds.STATISTICS
    if {"op type", "op name", "io", "slot"} <= names:
        return kinds.MINDSPORE_STATISTICS
    if (
        {"index", "npudump"} <= names
        or {"npu name", "bench name"} <= names
        or {"npudump", "groundtruth"} <= names
    ):
        return kinds.RESULT_TABLE
    return None


def _text_proto(text: str) -> Optional[str]:
    """Return the kind of a protobuf message in text form by the field names of its first lines."""
    fields = [(len(indent), name) for indent, name in _FIELD.findall(text)[:4000]]
    if not fields:
        return None
    names = {name for _, name in fields}
    top = {name for indent, name in fields if indent == min(indent for indent, _ in fields)}
    if "op_type" in names and ("graph" in top or "ir_version" in top or "node" in top):
        return (
            kinds.GE_ONNX if 'op_type: "ge:' in text or "op_type: 'ge:" in text else kinds.ONNX_TEXT
        )
    if "ir_version" in top:
        return kinds.ONNX_TEXT
    if "aipp_op" in top:
        return kinds.AIPP
    if ("graph" in top and "op" in names) or ("op" in top and "type" in names):
        return kinds.GE_TEXT
    if top & _LAYER_FIELDS or ("input" in top and "layer" in names):
        return kinds.PROTOTXT
    if top & _SOLVER_FIELDS:
        return kinds.SOLVER
    if "saved_model_schema_version" in top or "meta_graphs" in top:
        return kinds.SAVED_MODEL
    if "node" in top and "op" in names:
        return kinds.GRAPH_DEF_TEXT
    return kinds.QUANT_RECORD if "record" in top and names & {"scale_d", "scale_w"} else None


def _json(descriptor: int, text: str, size: int, path: str) -> str:
    whole = text
    if _HEAD_BYTES < size <= _JSON_BYTES:
        whole = read_at(descriptor, 0, size, path).decode("utf-8", "replace").lstrip("\ufeff")
    try:
        tree = json.loads(whole)
    except (ValueError, RecursionError):
        # Truncated, too large, or with comments: decided by the keys near its beginning.
        tree = {key: None for key in re.findall(r'"([^"\\\n]{1,80})"\s*:', text[:4096])}
        if "graph" in tree and "op" in tree:
            return kinds.OM_JSON
        if "summary" in tree and "verdict" in tree:
            return kinds.RESULT
    first = tree[0] if isinstance(tree, list) and tree else tree
    return _json_kind(first) if isinstance(first, dict) else kinds.JSON


def _json_kind(tree: Dict[str, Any]) -> str:
    keys = set(tree)
    if "graph" in keys:
        return (
            kinds.ONNX_TEXT
            if isinstance(tree["graph"], dict) and "node" in tree["graph"]
            else kinds.OM_JSON
        )
    ops = tree.get("op")
    if isinstance(ops, list) and ops and isinstance(ops[0], dict) and "check_result" in ops[0]:
        return kinds.CHECK_REPORT
    if isinstance(ops, str) and keys & {"input_desc", "output_desc"}:
        given = [tree.get("input_desc"), tree.get("output_desc")]
        descs = [desc for listed in given if isinstance(listed, list) for desc in listed]
        is_prototype = any(isinstance(desc, dict) and "param_type" in desc for desc in descs)
        return kinds.OP_PROTOTYPE if is_prototype else kinds.OP_DESCRIPTION
    if {"backend", "tensors"} <= keys:
        return kinds.MANIFEST
    if {"summary", "rows"} <= keys:
        return kinds.RESULT
    if keys & {"graph_fusion", "ub_fusion"}:
        return kinds.FUSION_LOG
    if keys & {"black-list", "white-list", "gray-list"}:
        return kinds.MIX_LIST
    if "Switch" in keys or keys & {"GraphFusion", "UBFusion"}:
        return kinds.FUSION_SWITCH
    if "common_dump_settings" in keys:
        return kinds.MINDSPORE_CONFIG
    if "dump" in keys or keys & _ACL_KEYS and "task" not in keys:
        return kinds.ACL
    if {"task", "dump_data_dir"} <= keys or _are_calls(tree):
        return kinds.MSPROBE
    if "task" in keys and keys & {"dump_path", "level", "rank", "step"}:
        return kinds.MSPROBE_CONFIG
    if keys & {"activation_offset", "skip_fusion_layers", "do_fusion"}:
        return kinds.QUANT_CONFIG
    values = [value for value in tree.values() if isinstance(value, dict)]
    if values and all(
        "opFile" in value or "precision_reduce" in value or "opInfo" in value
        for value in values[:8]
    ):
        return kinds.OPS_INFO
    return kinds.RANK_TABLE if {"server_list", "server_count"} <= keys else kinds.JSON


def _are_calls(tree: Dict[str, Any]) -> bool:
    """Return whether the keys are calls as msprobe names them:
    ``Module.conv1.Conv2d.forward.0``."""
    keys: List[str] = list(tree)[:8]
    return bool(keys) and all(_CALL.search(key) for key in keys)
