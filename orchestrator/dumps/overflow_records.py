"""Parses overflow records (``Opdebug.Node_OpDebug…``).

Both forms are little-endian. Old, exactly 2048 bytes: DHA Atomic Add (128) | L2 Atomic Add (128) |
AI Core (256), each beginning with six u64, then a status block for each (256, 256, 1024). New: u32
magic 0x5a5a5a5a, u32 version, u32 valid, u32 type, u32 reserved, u32 length, then u64 fields.
Source: the vendor's public reader.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Optional, Tuple

from ..base.errors import FormatError
from .dump_file import DumpFile

OLD_BYTES = 2048
_MOST_BYTES = 1 << 20
MAGIC = 0x5A5A5A5A

_OLD_FIELDS = ("model_id", "stream_id", "task_id", "task_type", "pc_start", "para_base")
_OLD_BLOCKS = (("dha_atomic_add", 0, 512, ("status",)), ("l2_atomic_add", 128, 768, ("status",)),
               ("ai_core", 256, 1024, ("kernel_code", "block_idx", "status")))  # fmt: skip
_HEADER = struct.Struct("<6I")
_TASK = ("model_id", "stream_id", "task_id", "task_type", "context_id")
_CORE = (*_TASK, "thread_id", "pc_start", "para_base", "core_id", "block_id", "status")
_NEW_FIELDS: Dict[int, Tuple[str, Tuple[str, ...]]] = {
    0: ("AIC", _CORE),
    1: ("AIV", _CORE),
    2: ("AICPU", (*_TASK, "cpu_id", "thread_id", "status")),
    3: ("SDMA", (*_TASK, "thread_id", "src_addr", "dst_addr", "channel_id", "status")),
}
_HEX = frozenset(["pc_start", "para_base", "kernel_code", "src_addr", "dst_addr"])


def parse_record(data: bytes) -> Dict[str, Any]:
    """Return one overflow record as a document.

    Returns
    -------
    dict
        New form: ``{"version", "valid", "type", fields…}``. Old form: ``{"dha_atomic_add": {…},
        "l2_atomic_add": {…}, "ai_core": {…}}``. Addresses and codes are hexadecimal text.

    Raises
    ------
    FormatError
        It has neither form.
    """
    if len(data) >= _HEADER.size and struct.unpack_from("<I", data)[0] == MAGIC:
        return _new(data)
    if len(data) == OLD_BYTES:
        return {
            name: _old_block(data, at, status_at, status)
            for name, at, status_at, status in _OLD_BLOCKS
        }
    raise FormatError(
        "an overflow record has %d bytes (old form) or begins with 0x%08x; this one has %d"
        % (OLD_BYTES, MAGIC, len(data))
    )


def tasks_of(record: Dict[str, Any]) -> List[Tuple[int, int]]:
    """Return the (stream_id, task_id) that a record names; blocks of zeros name none."""
    blocks = [record] if "type" in record else [record[name] for name, _, _, _ in _OLD_BLOCKS]
    return [
        (block["stream_id"], block["task_id"])
        for block in blocks
        if "task_id" in block and _has_content(block)
    ]


def op_tasks(stream_id: int, task_id: int) -> Tuple[Tuple[Optional[int], int], ...]:
    """Return the possible (stream_id, task_id) in the name of an op's dump: the order differs
    between versions, and older names have none.
    """
    return (stream_id, task_id), (task_id, stream_id), (None, task_id)


def _has_content(block: Dict[str, Any]) -> bool:
    return any(
        value not in (0, "0x0")
        for name, value in block.items()
        if name not in ("type", "version", "valid")
    )


def _old_block(data: bytes, at: int, status_at: int, status: Tuple[str, ...]) -> Dict[str, Any]:
    block = _fields(_OLD_FIELDS, data, at)
    block.update(_fields(status, data, status_at))
    return block


def _new(data: bytes) -> Dict[str, Any]:
    _, version, valid, kind, _, length = _HEADER.unpack_from(data)
    name, fields = _NEW_FIELDS.get(kind, ("type %d" % kind, ()))
    if _HEADER.size + 8 * len(fields) > len(data):
        needed = _HEADER.size + 8 * len(fields)
        raise FormatError(
            "an overflow record of %s needs %d bytes, got %d" % (name, needed, len(data))
        )
    record: Dict[str, Any] = {
        "version": version,
        "valid": bool(valid),
        "type": name,
        "data_bytes": length,
    }
    record.update(_fields(fields, data, _HEADER.size))
    return record


def _fields(names: Tuple[str, ...], data: bytes, at: int) -> Dict[str, Any]:
    values: Tuple[int, ...] = struct.unpack_from("<%dQ" % len(names), data, at)
    return {name: hex(value) if name in _HEX else value for name, value in zip(names, values)}


def overflow_records(dump: DumpFile) -> Tuple[List[Dict[str, Any]], Optional[str]]:
    """Return the records of an overflow file and the first problem; see :func:`parse_records`."""
    sources = [dump.source("output", info.index) for info in dump.outputs]
    return parse_records(
        [bytes(source.read(0, min(source.nbytes, _MOST_BYTES))) for source in sources]
    )


def parse_records(regions: List[bytes]) -> Tuple[List[Dict[str, Any]], Optional[str]]:
    """Return the records of a file's outputs, and the problem of the first that has neither form
    (or None).
    """
    records = []
    for data in regions:
        try:
            records.append(parse_record(data))
        except FormatError as error:
            return records, error.message
    return records, None
