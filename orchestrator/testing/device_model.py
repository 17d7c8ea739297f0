"""A model as it lies on a device: ops with stored tensors, written as the om json and as a dump
tree.
"""

from __future__ import annotations

import json
from dataclasses import field, replace
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import BY_NAME, element_count
from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from ..dumps.write import TensorData
from ..tensors.dtypes import dtype_by_numpy
from ..tensors.layout_conversion import convert
from ..tensors.storage_layouts import device_shape
from .device_dump import DeviceDump, Place, dump_name, write_files

_ENUMS = ("dtype", "val_type")


def graph_text(document: Mapping[str, Any]) -> str:
    """Return a document such as :meth:`goldwatch.testing.DeviceModel.document` gives as protobuf
    text.
    """
    return "".join(line + "\n" for line in _lines(document, ""))


def _lines(message: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in message.items():
        for entry in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(entry, Mapping):
                yield "%s%s {" % (indent, key)
                yield from _lines(entry, indent + "  ")
                yield indent + "}"
            else:
                yield "%s%s: %s" % (indent, key, _scalar(key, entry))


def _scalar(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and key not in _ENUMS:
        return '"%s"' % "".join(_escape(byte) for byte in value.encode("utf-8", "surrogateescape"))
    return str(value)


def _escape(byte: int) -> str:
    if byte in b"\"\\'":
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x7F else "\\%03o" % byte


_ATTRIBUTE = "_ffts_slice_info"


def sliced(dump: DeviceDump, names: Sequence[str]) -> List[DeviceDump]:
    """Return a dump as the files of its threads, ``len(names)`` of them; each tensor is cut along
    the first axis that is long enough.

    A tensor without such an axis is whole in every file.

    Raises
    ------
    UsageError
        The dump is not made of arrays.
    """
    threads = len(names)
    tensors = [_tensors(dump.inputs), _tensors(dump.outputs)]
    cuts = [[_cut(tensor, threads) for tensor in side] for side in tensors]
    attribute = (_ATTRIBUTE, json.dumps(_slice_document(cuts, threads), separators=(",", ":")))
    files = []
    for thread, name in enumerate(names):
        parts = [
            [_part(tensor, cut[thread]) for tensor, cut in zip(side, of)]
            for side, of in zip(tensors, cuts)
        ]
        files.append(
            replace(dump, name=name, inputs=parts[0], outputs=parts[1], attrs=(attribute,))
        )
    return files


Range = Tuple[int, int]


def _tensors(given: Sequence[Any]) -> List[TensorData]:
    tensors = [entry if isinstance(entry, TensorData) else TensorData(entry) for entry in given]
    if any(not isinstance(tensor.data, np.ndarray) for tensor in tensors):
        raise UsageError("only arrays can be cut into slices")
    return tensors


def _cut(tensor: TensorData, threads: int) -> List[List[Range]]:
    """Return, for each thread, the range along each axis."""
    shape = tensor.data.shape
    axis = next((number for number, size in enumerate(shape) if size >= threads), None)
    whole = [(0, int(size)) for size in shape]
    cuts = []
    for thread in range(threads):
        ranges = list(whole)
        if axis is not None:
            ranges[axis] = (shape[axis] * thread // threads, shape[axis] * (thread + 1) // threads)
        cuts.append(ranges)
    return cuts


def _part(tensor: TensorData, ranges: List[Range]) -> TensorData:
    data = np.ascontiguousarray(tensor.data[tuple(slice(*span) for span in ranges)]).reshape(
        [high - low for low, high in ranges]
    )
    return replace(tensor, data=data)


def _slice_document(cuts: List[List[List[List[Range]]]], threads: int) -> Dict[str, Any]:
    def ranges(side: List[List[List[Range]]]) -> List[List[List[Dict[str, int]]]]:
        return [
            [[{"lower": low, "higher": high} for low, high in cut[thread]] for cut in side]
            for thread in range(threads)
        ]

    counts = [
        [len({cut[thread][axis] for thread in range(threads)}) for axis in range(len(cut[0]))]
        for cut in cuts[1]
    ]
    return {
        "slice_instance_num": threads,
        "threadMode": True,
        "outputCutList": counts,
        "input_tensor_slice": ranges(cuts[0]),
        "output_tensor_slice": ranges(cuts[1]),
    }


Array = Any

FIRST_TIMESTAMP_US = 1767323045000000
NEVER_DUMPED = (
    "Data",
    "Const",
    "Variable",
    "NetOutput",
    "StreamActive",
    "StreamMerge",
    "Send",
    "Recv",
)


@dataclass(frozen=True)
class DeviceTensor:
    """One output of an op on the device.

    Attributes
    ----------
    array
        The values in the device's dtype, in ``origin_format``.
    format
        The layout it is stored in.
    origin_format
        The layout of ``array``.
    origin_name, origin_index
        The original op and output that it came from; None writes no such attribute.
    """

    array: Array
    format: str = "ND"
    origin_format: str = "NCHW"
    origin_name: Optional[str] = None
    origin_index: int = 0

    def stored_shape(self) -> Tuple[int, ...]:
        """Return the shape in the device's layout, without computing the values."""
        shape = tuple(int(dim) for dim in self.array.shape)
        if self.format in (self.origin_format, "ND"):
            return shape
        return tuple(
            device_shape(self.format, shape, self.origin_format, dtype_by_numpy(self.array.dtype))
        )

    def stored(self) -> Array:
        """Return the values in the device's layout, padding zero."""
        if self.format in (self.origin_format, "ND"):
            # numpy's ascontiguousarray makes a scalar one-dimensional.
            return np.ascontiguousarray(self.array).reshape(self.array.shape)
        return np.ascontiguousarray(
            convert(self.array, self.origin_format, self.format, self.array.shape)
        )


@dataclass(frozen=True)
class DeviceOp:
    """One op: its inputs as (producer, output index), its outputs, the originals it was made from.

    Attributes
    ----------
    originals
        None writes no ``_datadump_original_op_names``; ``()`` marks an op that the compiler
        inserted.
    in_place
        Number of the input that shares its memory with output 0: at the time of the dump it holds
        the output's bytes.
    dumped_outputs
        How many outputs the dump holds; None: all.
    quantisation
        (scale, offset), which an AscendQuant has as attributes; None: not told.
    attributes
        Further attributes, by name: texts, whole numbers, truth values; other values as the json
        has them.
    """

    name: str
    type: str
    inputs: Tuple[Tuple[str, int], ...] = ()
    outputs: Tuple[DeviceTensor, ...] = ()
    originals: Optional[Tuple[str, ...]] = None
    in_place: Optional[int] = None
    dumped_outputs: Optional[int] = None
    quantisation: Optional[Tuple[float, float]] = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class DeviceModel:
    """Ops in execution order, and how they are written.

    Parameters
    ----------
    name
        The outermost name of the json, and the model's folder in a tree.
    attributes
        Of the whole model, by name: texts, whole numbers, truth values.
    """

    name: str
    ops: List[DeviceOp] = field(default_factory=list)
    attributes: Dict[str, Any] = field(default_factory=dict)

    def add(self, op: DeviceOp) -> DeviceOp:
        """Append an op; its inputs must be there already."""
        self.ops.append(op)
        return op

    def output(self, name: str, index: int = 0) -> DeviceTensor:
        """Return an op's output."""
        return next(op for op in self.ops if op.name == name).outputs[index]

    def document(self) -> Dict[str, Any]:
        """Return the json that ``atc --mode=1`` would print: unset scalars absent, an empty list
        without ``s``.
        """
        ops = []
        for number, op in enumerate(self.ops):
            entry: Dict[str, Any] = {"name": op.name, "type": op.type}
            if number:
                entry["id"] = number
            if op.inputs:
                entry["input"] = ["%s:%d" % source for source in op.inputs]
                entry["input_desc"] = [_desc(self.output(*source), False) for source in op.inputs]
            if op.outputs:
                entry["output_desc"] = [_desc(output, True) for output in op.outputs]
            if op.originals is not None:
                names: Dict[str, Any] = {"val_type": "VT_LIST_STRING"}
                if op.originals:
                    names["s"] = list(op.originals)
                entry["attr"] = [{"key": "_datadump_original_op_names", "value": {"list": names}}]
            if op.quantisation is not None:
                pairs = zip(("scale", "offset"), op.quantisation)
                entry.setdefault("attr", []).extend(
                    {"key": key, "value": {"f": number}} for key, number in pairs
                )
            if op.attributes:
                entry.setdefault("attr", []).extend(_attributes(op.attributes))
            ops.append(entry)
        document = {"name": self.name, "version": 1, "graph": [{"name": self.name, "op": ops}]}
        return {**document, "attr": _attributes(self.attributes)} if self.attributes else document

    def write_json(self, path: str) -> str:
        """Write the om json."""
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(self.document(), stream, indent=1)
        return path

    def write_ge_text(self, path: str) -> str:
        """Write the graph as GE's text form (``ge_proto_*_Build.txt``), which has no outermost
        name.
        """
        document = self.document()
        del document["name"]
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(graph_text(document))
        return path

    def dumped_ops(self) -> List[DeviceOp]:
        """Return the ops that a device dumps."""
        return [
            op
            for op in self.ops
            if op.type not in NEVER_DUMPED and not op.attributes.get("_no_task")
        ]

    def dump_tensors(self, op: DeviceOp) -> Tuple[List[TensorData], List[TensorData]]:
        """Return the inputs and outputs of one dump file."""
        inputs = [_data(self.output(*source)) for source in op.inputs]
        outputs = [_data(output) for output in op.outputs]
        if op.in_place is not None:
            inputs[op.in_place] = outputs[0]
        return inputs, outputs[: op.dumped_outputs]

    def dumps(
        self,
        time: Optional[str] = "20260102030405",
        device: int = 0,
        model_id: int = 1,
        step: int = 0,
        first_timestamp_us: int = FIRST_TIMESTAMP_US,
        generation: str = "stream",
        version: int = 2,
        first_address: Optional[int] = None,
        threads: int = 1,
    ) -> Iterator[DeviceDump]:
        """Yield one dump file per op (one per thread of it), in execution order, each 1 ms after
        the one before.

        Parameters
        ----------
        generation
            Form of the file names, see :func:`goldwatch.testing.dump_name`.
        version
            Of the container.
        first_address
            Gives every tensor its address on the device, from this one on in steps of 512 bytes;
            None leaves the fields out.
        threads
            In how many slices each op runs (``generation`` ``ffts+``): one file per thread, the cut
            told in its header.
        """
        if threads > 1 and generation != "ffts+":
            raise UsageError("only FFTS+ runs an op in threads", hint='generation="ffts+"')
        folder = Place(time, device, self.name, model_id, step).folder()
        addresses = self._addresses(first_address) if first_address is not None else {}
        for number, op in enumerate(self.dumped_ops()):
            timestamp_us = first_timestamp_us + 1000 * number
            name = dump_name(
                op.type,
                op.name,
                number + 1,
                timestamp_us,
                generation,
                context_id=number,
                device_id=device,
            )
            inputs, outputs = self.dump_tensors(op)
            sources = [
                (op.name, 0) if index == op.in_place else source
                for index, source in enumerate(op.inputs)
            ]
            inputs = [_at(tensor, addresses, *source) for tensor, source in zip(inputs, sources)]
            outputs = [
                _at(tensor, addresses, op.name, index) for index, tensor in enumerate(outputs)
            ]
            dump = DeviceDump(folder, name, inputs, outputs, version=version, op_name=op.name)
            if threads == 1:
                yield dump
                continue
            names = [
                dump_name(
                    op.type,
                    op.name,
                    number + 1,
                    timestamp_us,
                    generation,
                    context_id=number,
                    thread_id=thread,
                    device_id=device,
                )
                for thread in range(threads)
            ]
            yield from sliced(dump, names)

    def _addresses(self, address: int) -> Dict[Tuple[str, int], int]:
        addresses = {}
        for op in self.ops:
            for index, output in enumerate(op.outputs):
                addresses[op.name, index] = address
                size = element_count(output.stored_shape()) * int(output.array.dtype.itemsize)
                address += -(-size // 512) * 512
        return addresses

    def write_tree(
        self,
        root: str,
        time: str = "20260102030405",
        device: int = 0,
        model_id: int = 1,
        step: int = 0,
        first_timestamp_us: int = FIRST_TIMESTAMP_US,
        **form: Any,
    ) -> List[str]:
        """Write ``root/{time}/{device}/{model}/{model_id}/{step}/`` with one whole dump file per
        op; return the files' paths.

        Parameters as for :meth:`dumps`.
        """
        return write_files(
            root, self.dumps(time, device, model_id, step, first_timestamp_us, **form)
        )


def _attributes(values: Mapping[str, Any]) -> List[Dict[str, Any]]:
    kinds = {str: "s", bool: "b", int: "i"}
    return [
        {"key": name, "value": value if isinstance(value, dict) else {kinds[type(value)]: value}}
        for name, value in values.items()
    ]


def _at(
    tensor: TensorData, addresses: Dict[Tuple[str, int], int], op: str, index: int
) -> TensorData:
    return replace(tensor, address=addresses[op, index]) if addresses else tensor


def _data(tensor: DeviceTensor) -> TensorData:
    return TensorData(tensor.stored(), format=tensor.format, original_shape=tensor.array.shape)


def _desc(tensor: DeviceTensor, with_origin: bool) -> Dict[str, Any]:
    attrs: List[Dict[str, Any]] = [
        {"key": "origin_format", "value": {"s": tensor.origin_format}},
        {
            "key": "origin_shape",
            "value": {"list": {"i": list(tensor.array.shape), "val_type": "VT_LIST_INT"}},
        },
    ]
    if with_origin and tensor.origin_name is not None:
        attrs.append({"key": "_datadump_origin_name", "value": {"s": tensor.origin_name}})
        attrs.append({"key": "_datadump_origin_output_index", "value": {"i": tensor.origin_index}})
        attrs.append({"key": "_datadump_origin_format", "value": {"s": tensor.origin_format}})
    shape = tensor.stored_shape()
    return {
        "dtype": BY_NAME[str(tensor.array.dtype)].ge_name,
        "layout": tensor.format,
        "shape": {"dim": list(shape)} if shape else {},
        "attr": attrs,
    }
