"""From the files of a debug run to golden files: names, loops, types, and a reason for everything that is not saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np

from ...naming import printable
from ..golden_writer import GoldenWriter, require_space
from .rules import copy_reason, feed_of, fixed_kind, known_garbage

Key = Tuple[str, int]


@dataclass(frozen=True)
class Dump:
    """One dump of a debug run: what it is and how to read it.

    Attributes
    ----------
    node, slot, op_type, device
        As the run's graph names them; a feed is ``_arg_…``.
    timestamp_us
        When it was written.
    size_bytes
        The size of the event file: 0 when the tensor was too large for one.
    datum
        TensorFlow's DebugTensorDatum.
    """

    node: str
    slot: int
    op_type: str
    device: str
    timestamp_us: int
    size_bytes: int
    datum: Any

    @property
    def tensor(self) -> str:
        """The tensor's name in the debug run."""
        return "%s:%d" % (self.node, self.slot)

    @property
    def key(self) -> Key:
        """Op and output index in the user's graph."""
        return feed_of(self.node, self.op_type) or (self.node, self.slot)

    @property
    def is_feed(self) -> bool:
        """Whether the value was fed."""
        return feed_of(self.node, self.op_type) is not None


def read_dumps(root: str) -> List[Dump]:
    """Return the dumps of the debug run in folder ``root``, in the order of time."""
    from tensorflow.python.debug.lib import debug_data

    folder = debug_data.DebugDumpDir(root, validate=False)
    types: Dict[Tuple[str, str], str] = {}
    dumps: List[Dump] = []
    for datum in folder.dumped_tensor_data:
        place = (datum.device_name, datum.node_name)
        if place not in types:
            types[place] = str(folder.node_op_type(datum.node_name, device_name=datum.device_name))
        dumps.append(
            Dump(
                node=str(datum.node_name),
                slot=int(datum.output_slot),
                op_type=types[place],
                device=str(datum.device_name),
                timestamp_us=int(datum.timestamp),
                size_bytes=int(datum.dump_size_bytes or 0),
                datum=datum,
            )
        )
    return dumps


def convert(root: str, out: str, version: str, source: Dict[str, Any], force: bool, extra: Dict[str, Any]) -> Dict[str, Any]:
    """Write the golden files of one debug run and its manifest; return what was done.

    Parameters
    ----------
    root
        The folder of TensorFlow's debug dump.
    out
        The golden folder.
    version
        TensorFlow's version.
    source
        SHA-256 sums by role.
    extra
        Further fields of the manifest.

    Returns
    -------
    dict
        ``out`` and the counts ``dumps``, ``saved``, ``skipped``, ``refused`` (these three add up to the first), ``parked``, ``hashed``,
        with ``collisions`` and the list ``refusals``.
    """
    dumps = read_dumps(root)
    fed = {dump.key for dump in dumps if dump.is_feed}
    reasons = [_reason_by_name(dump, fed) for dump in dumps]
    require_space(out, sum(dump.size_bytes for dump in dumps))
    refusals: List[Dict[str, str]] = []
    with GoldenWriter(out, "tensorflow", version, source, force=force) as writer:
        writer.reserve(sorted({dump.key for dump, reason in zip(dumps, reasons) if reason is None}))
        numbers: Dict[Key, int] = {}
        for dump, reason in zip(dumps, reasons):
            if reason is None:
                reason = _save(writer, dump, numbers, refusals)
            if reason is not None:
                writer.skip(dump.tensor, reason)
        writer.extra.update(extra)
        writer.extra.update({"dumps": len(dumps), "refused": refusals})
        counts = writer.counts
        collisions = dict(writer.collisions)
    return {
        "out": out,
        "dumps": len(dumps),
        "saved": counts["written"],
        "skipped": counts["skipped"],
        "refused": len(refusals),
        "parked": counts["parked"],
        "hashed": counts["hashed"],
        "collisions": collisions,
        "refusals": refusals,
        "fused": sorted({dump.op_type for dump in dumps if is_fused(dump.op_type)}),
        "calls": sorted({dump.node for dump in dumps if dump.op_type in _CALLS}),
    }


_CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "If", "While", "StatelessIf", "StatelessWhile"])


def is_fused(op_type: str) -> bool:
    """Tell whether grappler made this op out of several of the graph."""
    return op_type.startswith("_Fused") or op_type == "_UnaryOpsComposition"


def _reason_by_name(dump: Dump, fed: Set[Key]) -> Optional[str]:
    if dump.is_feed:
        return None
    if dump.key in fed:
        return "the value that was fed replaces the computed one"
    return copy_reason(dump.op_type) or known_garbage(dump.op_type, dump.slot) or fixed_kind(dump.op_type, dump.slot)


def _save(writer: GoldenWriter, dump: Dump, numbers: Dict[Key, int], refusals: List[Dict[str, str]]) -> Optional[str]:
    """Save one dump; return the reason when it holds no numbers (a refusal is noted in ``refusals`` instead)."""
    if dump.size_bytes == 0:
        refusals.append({"tensor": dump.tensor, "reason": "the dump is empty: a tensor over 2 GB does not fit TensorFlow's event file"})
        return None
    try:
        value = dump.datum.get_tensor()
    except Exception as error:
        # A broken event file raises what protobuf or the reader of records likes.
        refusals.append({"tensor": dump.tensor, "reason": "the dump cannot be read: %s %s" % (type(error).__name__, printable(str(error)))})
        return None
    reason = no_numbers(value)
    if reason is not None:
        return reason
    array, source_dtype = plain_array(value)
    op, index = dump.key
    number = numbers.get(dump.key, 0)
    numbers[dump.key] = number + 1
    extra: Dict[str, Any] = {"type": dump.op_type, "dump": number, "device": dump.device}
    if source_dtype is not None:
        extra["source_dtype"] = source_dtype
    if dump.is_feed:
        extra["fed"] = True
    writer.write(op, index, array, timestamp=dump.timestamp_us, **extra)
    return None


def no_numbers(value: Any) -> Optional[str]:
    """Return why a value that TensorFlow gave holds no numbers, or None."""
    if not isinstance(value, (np.ndarray, np.generic)):
        if getattr(value, "initialized", True):
            return "a handle (resource or variant), not numbers"
        return "not initialised when the run read it"
    if value.dtype.kind in "OSU":
        return "strings, not numbers"
    return None


def plain_array(value: Any) -> Tuple[np.ndarray, Optional[str]]:
    """Return a tensor as an array of numpy's own types, and the name of its type where that had to change.

    bfloat16 and the 8-bit floats become float32, the quantised integers (qint8 …) their plain integers, int4 becomes int8. numpy reads
    bfloat16 back as ``|V2``, which is taken for bfloat16.
    """
    array = np.asarray(value)
    if array.dtype.kind in "biufc":
        return array, None
    name = str(array.dtype.names[0]) if array.dtype.names else str(array.dtype)
    if array.dtype.names:
        return np.asarray(array[name], order="C"), name
    if array.dtype.str == "|V2" and array.dtype.type is np.void:
        bits = np.asarray(array, order="C").view(np.uint16).astype(np.uint32) << np.uint32(16)
        return np.asarray(bits).view(np.float32), "bfloat16"
    return array.astype(np.int8 if "int" in name else np.float32), name
