"""What a device leaves on the disk of a run: the tree of dump files, and the om's json."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, Sequence, Tuple

import numpy as np

from goldwatch.dumps.write import TensorData
from goldwatch.testing.device_dump import DeviceDump, Place, dump_name, write_files

from .device import Store, rounded
from .lowering import Constant, Habit, Lowered, Op, Output

Array = Any

CODES = {
    "float32": "DT_FLOAT",
    "float16": "DT_FLOAT16",
    "bfloat16": "DT_BF16",
    "int64": "DT_INT64",
    "int32": "DT_INT32",
    "bool": "DT_BOOL",
    "uint8": "DT_UINT8",
    "int8": "DT_INT8",
    "float64": "DT_DOUBLE",
    "int16": "DT_INT16",
    "uint16": "DT_UINT16",
    "uint32": "DT_UINT32",
    "uint64": "DT_UINT64",
    "float8_e4m3fn": "DT_FLOAT8_E4M3FN",
    "float8_e5m2": "DT_FLOAT8_E5M2",
    "float8_e8m0fnu": "DT_FLOAT8_E8M0",
}
FIRST_US = 1767323045000000
PLACE = Place("20260102030405", 0, "net", 1, 0)


def stored(array: Array, shape: Sequence[int], layout: str) -> Array:
    """Return an array in a device's layout; ``shape`` is the told one, with the axes that the
    layout speaks of."""
    array = array.reshape(shape)
    if layout == "NC1HWC0":
        n, c, h, w = array.shape
        padded = np.pad(array, ((0, 0), (0, -c % 16), (0, 0), (0, 0)))
        return np.ascontiguousarray(padded.reshape(n, -1, 16, h, w).transpose(0, 1, 3, 4, 2))
    if layout == "FRACTAL_Z":
        n, c, h, w = array.shape
        padded = np.pad(array, ((0, -n % 16), (0, -c % 16), (0, 0), (0, 0)))
        split = padded.reshape(padded.shape[0] // 16, 16, padded.shape[1] // 16, 16, h, w)
        return np.ascontiguousarray(split.transpose(2, 4, 5, 0, 1, 3)).reshape(
            -1, padded.shape[0] // 16, 16, 16
        )
    if layout == "FRACTAL_NZ":
        lead, (m, k) = array.shape[:-2], array.shape[-2:]
        padded = np.pad(array, ((0, 0),) * len(lead) + ((0, -m % 16), (0, -k % 16)))
        split = padded.reshape(*lead, padded.shape[-2] // 16, 16, padded.shape[-1] // 16, 16)
        order = tuple(range(len(lead))) + tuple(len(lead) + axis for axis in (2, 0, 1, 3))
        return np.ascontiguousarray(split.transpose(order))
    return np.ascontiguousarray(array).reshape(array.shape)


def _stored_shape(shape: Sequence[int], layout: str) -> Tuple[int, ...]:
    shape = tuple(int(size) for size in shape)
    if layout == "NC1HWC0":
        return (shape[0], -(-shape[1] // 16), shape[2], shape[3], 16)
    if layout == "FRACTAL_Z":
        return (-(-shape[1] // 16) * shape[2] * shape[3], -(-shape[0] // 16), 16, 16)
    if layout == "FRACTAL_NZ":
        return shape[:-2] + (-(-shape[-1] // 16), -(-shape[-2] // 16), 16, 16)
    return shape


def _tensor(array: Array, shape: Sequence[int], dtype: str, layout: str) -> TensorData:
    made = stored(array, shape, layout)
    where = _nd(shape) if layout == "ND" else layout
    if dtype == "bfloat16":
        data = (
            (np.ascontiguousarray(made, np.float32).view(np.uint32) >> np.uint32(16))
            .astype("<u2")
            .tobytes()
        )
        return TensorData(data, "bfloat16", where, made.shape, tuple(shape))
    if dtype.startswith("float8"):
        return TensorData(made.tobytes(), dtype, where, made.shape, tuple(shape))
    with np.errstate(all="ignore"):
        return TensorData(made.astype(dtype), None, where, None, tuple(shape))


def _nd(shape: Sequence[int]) -> str:
    return "NCHW" if len(shape) == 4 else "ND"


def _desc(shape: Sequence[int], dtype: str, layout: str) -> Dict[str, Any]:
    dims = [int(size) for size in _stored_shape(shape, layout)]
    attrs: List[Dict[str, Any]] = [
        {"key": "origin_format", "value": {"s": _nd(shape)}},
        {
            "key": "origin_shape",
            "value": {"list": {"i": [int(size) for size in shape], "val_type": "VT_LIST_INT"}},
        },
    ]
    where = _nd(shape) if layout == "ND" else layout
    return {
        "dtype": CODES[dtype],
        "layout": where,
        "shape": {"dim": dims} if dims else {},
        "attr": attrs,
    }


def _out_desc(out: Output) -> Dict[str, Any]:
    made = _desc(out.shape, out.dtype, out.layout)
    made["attr"] += [
        {"key": "_datadump_origin_name", "value": {"s": out.origin[0]}},
        {"key": "_datadump_origin_output_index", "value": {"i": out.origin[1]}},
        {"key": "_datadump_origin_format", "value": {"s": _nd(out.shape)}},
    ]
    return made


def _value(value: Any) -> Dict[str, Any]:
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, str):
        return {"s": value}
    if isinstance(value, (int, np.integer)):
        return {"i": int(value)}
    if isinstance(value, (float, np.floating)):
        return {"f": float("%g" % value)}
    if value and isinstance(value[0], list):
        return {"list_list_int": {"list_list_i": [{"list_i": entry} for entry in value]}}
    return {"list": {"i": [int(entry) for entry in value], "val_type": "VT_LIST_INT"}}


def document(lowered: Lowered, habit: Habit) -> Dict[str, Any]:
    """Return the om's json."""
    ops: List[Dict[str, Any]] = []
    for op in lowered.ops:
        told = _operands(op, habit)
        for constant in told:
            if isinstance(constant, Constant):
                made = {"name": _name(op, constant), "type": "Const", "id": len(ops)}
                ops.append(made)
                made["output_desc"] = [_desc(constant.shape, constant.dtype, constant.layout)]
        entry: Dict[str, Any] = {"name": op.name, "type": op.type, "id": len(ops)}
        if told:
            entry["input"] = [
                "%s:0" % _name(op, operand)
                if isinstance(operand, Constant)
                else "%s:%d" % operand.source
                for operand in told
            ]
            entry["input_desc"] = [
                _desc(operand.shape, operand.dtype, operand.layout) for operand in told
            ]
        if op.outputs:
            entry["output_desc"] = [_out_desc(out) for out in op.outputs]
        attrs = []
        if op.originals is not None:
            names: Dict[str, Any] = {"val_type": "VT_LIST_STRING"}
            if op.originals:
                names["s"] = list(op.originals)
            attrs.append({"key": "_datadump_original_op_names", "value": {"list": names}})
        if habit.told:
            attrs += [{"key": key, "value": _value(value)} for key, value in op.attributes.items()]
        if attrs:
            entry["attr"] = attrs
        ops.append(entry)
    net = {
        "name": "Node_Output",
        "type": "NetOutput",
        "id": len(ops),
        "input": ["%s:%d" % read.source for read in lowered.results],
    }
    net["input_desc"] = [_desc(read.shape, read.dtype, read.layout) for read in lowered.results]
    net["attr"] = [
        {"key": "_datadump_original_op_names", "value": {"list": {"val_type": "VT_LIST_STRING"}}}
    ]
    return {"name": "net", "version": 1, "graph": [{"name": "net", "op": ops + [net]}]}


def write_json(lowered: Lowered, habit: Habit, path: str) -> str:
    """Write the om's json."""
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(document(lowered, habit), stream)
    return path


def _name(op: Op, constant: Constant) -> str:
    return "%s_%s" % (op.name, constant.name)


def _operands(op: Op, habit: Habit) -> List[Any]:
    """Return what the json and a dump with inputs tell of an op's operands."""
    if habit.weights:
        return op.operands
    return [operand for operand in op.operands if not isinstance(operand, Constant)]


def dump_of(
    lowered: Lowered, op: Op, number: int, store: Store, habit: Habit, form: str
) -> DeviceDump:
    """Return the file of one op.

    Parameters
    ----------
    number
        Of the op among all.
    form
        ``all``: inputs and outputs; ``output``.
    """
    outputs = [
        _tensor(store[op.name, index], out.shape, out.dtype, out.layout)
        for index, out in enumerate(op.outputs)
    ]
    inputs: List[TensorData] = []
    if form == "all":
        for operand in _operands(op, habit):
            array = (
                rounded(operand.array, operand.dtype)
                if isinstance(operand, Constant)
                else store[operand.source]
            )
            inputs.append(_tensor(array, operand.shape, operand.dtype, operand.layout))
    name = dump_name(op.type, op.name, number, FIRST_US + 1000 * number)
    return DeviceDump(PLACE.folder(), name, inputs, outputs, op_name=op.name)


def write_tree(lowered: Lowered, store: Store, habit: Habit, form: str, root: str) -> None:
    """Write the files of a whole run below ``root``."""
    write_files(root, _dumps(lowered, lowered.ops, store, habit, form))


def write_changed(
    lowered: Lowered,
    changed: Iterable[str],
    store: Store,
    habit: Habit,
    form: str,
    root: str,
    healthy: str,
) -> None:
    """Write the tree of a run of which some ops' files differ from a healthy run's; the others are
    linked.

    Parameters
    ----------
    changed
        Names of ops whose inputs or outputs are others.
    """
    names = set(changed)
    write_files(
        root, _dumps(lowered, [op for op in lowered.ops if op.name in names], store, habit, form)
    )
    folder, other = os.path.join(root, PLACE.folder()), os.path.join(healthy, PLACE.folder())
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(os.path.join(folder, "mapping.csv")):
        os.unlink(os.path.join(folder, "mapping.csv"))
    for entry in os.listdir(other):
        if not os.path.exists(os.path.join(folder, entry)):
            os.link(os.path.join(other, entry), os.path.join(folder, entry))


def _dumps(
    lowered: Lowered, ops: Iterable[Op], store: Store, habit: Habit, form: str
) -> Iterable[DeviceDump]:
    places = {op.name: number for number, op in enumerate(lowered.ops)}
    for op in ops:
        if op.type != "Data":
            yield dump_of(lowered, op, places[op.name], store, habit, form)
