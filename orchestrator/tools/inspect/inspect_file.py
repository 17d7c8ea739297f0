"""Describes one file: a dump, an overflow record, an npy, a model, a manifest, a store, a mapping,
or a file of another tool.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections import Counter
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ...base.errors import FormatError, GoldwatchError, NotComparable, UsageError
from ...base.naming import MAPPING_FILE, parse_dump_name, read_mapping
from ...base.safe_reading import open_input, read_input
from ...base.wording import listed
from ...dumps.dump_file import DumpFile, RegionInfo, TensorInfo
from ...dumps.dump_header import COMPLETE, size_error
from ...dumps.npy import NoTensor, load_npy_header, open_npy
from ...dumps.overflow_records import overflow_records
from ...dumps.statistics_csv import TensorRow, read_table
from ...dumps.tensor_statistics import remarkable_values
from ...dumps.torch_file import open_torch
from ...kinds import kind as kinds
from ...kinds.files import kind_of_file
from ...kinds.wrong_kind_advice import is_raw
from ...model.read_model import load_model
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.caffe_v0_upgrade import read_upgraded
from ...netfiles.caffemodel import weight_shapes
from ...netfiles.graphdef import GraphFile
from ...netfiles.onnx_model import OnnxModel
from ...store.opening import STORE_FILE
from ...store.store import RunStore
from ...tensors.dtypes import dtype_by_name
from ...tensors.tensor import Tensor
from .tensor_statistics import statistics

_MOST_TENSORS = 6
STATISTICS_BYTES = 64 * 1024 * 1024
_NOT_HERE = (
    # These have readers of their own, which say what is wrong with a file that is none of them.
    kinds.EMPTY, kinds.RAW, kinds.JSON, kinds.PROTOBUF, kinds.DUMP, kinds.NPY, kinds.OM,
    kinds.OM_JSON, kinds.GE_TEXT,
    kinds.SQLITE, kinds.MANIFEST,
)  # fmt: skip


def foreign_document(path: str) -> Optional[Document]:
    """Return what a file is that is neither a dump nor one of goldwatch's own; None where a reader
    of those is to say it.

    A damaged model is no error: its ``problem`` says what is wrong. Weights are not read.

    Raises
    ------
    MissingPath, InputError
        It cannot be opened or read.
    """
    kind = kind_of_file(path)
    named_as_dump = parse_dump_name(os.path.basename(path)) is not None
    plain = kind.name in kinds.PLAIN_TEXTS
    whole_json = kind.name == kinds.JSON and _is_json(path)
    not_here = named_as_dump if plain else kind.name in _NOT_HERE and not whole_json
    if not_here and not is_raw(path):
        return None
    if kind.name in (kinds.STATISTICS, kinds.MINDSPORE_STATISTICS):
        return _statistics(path, kind.words)
    readers: Dict[str, Callable[[str, Document], None]] = {
        kinds.PROTOTXT: _prototxt, kinds.CAFFEMODEL: _caffemodel, kinds.ONNX: _onnx,
        kinds.GRAPH_DEF: _graph_def,
    }  # fmt: skip
    document: Document = {
        "kind": "original" if kind.name in readers else "other",
        "path": path,
        "version": None,
        "what": kind.words,
    }
    try:
        if kind.name in readers:
            readers[kind.name](path, document)
        elif kind.name == kinds.TORCH:
            # Of a checkpoint or a damaged file no tensor is told.
            with contextlib.suppress(FormatError):
                tensors = ["%s %s" % (one.dtype.name, list(one.shape)) for one in open_torch(path)]
                document["what"] += ": " + listed(tensors, _MOST_TENSORS)
    except GoldwatchError as error:
        document["problem"] = error.detail
    return document


def _is_json(path: str) -> bool:
    """Tell whether a file is JSON to its end; a damaged one may be a model's."""
    try:
        json.loads(read_input(path, STATISTICS_BYTES).decode("utf-8-sig"))
    except (GoldwatchError, OSError, ValueError, RecursionError):
        return False
    return True


def _counted(types: Iterable[str]) -> Dict[str, int]:
    return dict(Counter(types).most_common())


def _prototxt(path: str, document: Document) -> None:
    text = read_upgraded(path)
    net = Net(text, initial_state(text, "TEST", None, ()))
    document.update(
        name=net.name, ops=len(net.layers), types=_counted(layer.type for layer in net.layers)
    )


def _caffemodel(path: str, document: Document) -> None:
    shapes = weight_shapes(path) or {}
    document.update(ops=len(shapes), blobs=sum(map(len, shapes.values())))


def _onnx(path: str, document: Document) -> None:
    model = OnnxModel(path)
    graph = model.graph
    document.update(
        ops=len(graph.nodes),
        types=_counted(node.op_type for node in graph.nodes),
        inputs=[value.name for value in graph.data_inputs],
        outputs=[value.name for value in graph.outputs],
    )


def _graph_def(path: str, document: Document) -> None:
    nodes = GraphFile(path).nodes
    inputs = [node.name for node in nodes if node.op == "Placeholder"]
    document.update(ops=len(nodes), types=_counted(node.op for node in nodes), inputs=inputs)


def _statistics(path: str, what: str) -> Document:
    """Return the rows of a statistics file, and what is remarkable in them, worst first."""
    document: Document = {
        "kind": "statistics",
        "path": path,
        "version": None,
        "what": what,
        "remarkable": [],
        "rows": [],
    }
    try:
        text = read_input(path, STATISTICS_BYTES).decode("utf-8", "replace")
        rows: List[Dict[str, str]] = [
            {
                str(name).strip(): (value or "").strip()
                for name, value in row.items()
                if name is not None
            }
            for row in csv.DictReader(io.StringIO(text))
        ]
        by_name = read_table(path).rows
    except (GoldwatchError, csv.Error, OSError) as error:
        document["problem"] = getattr(error, "detail", None) or str(error)
        return document
    document["rows"] = rows
    document["remarkable"] = worst_first(
        [
            remark
            for name in by_name
            for remark in remarkable_tensors(name or os.path.basename(path), by_name[name])
        ]
    )
    return document


Document = Dict[str, Any]

_SQLITE = b"SQLite format 3\0"
_NPY = b"\x93NUMPY"
_HEAD_BYTES = 4096
_MANIFEST_BYTES = 256 * 1024 * 1024


def inspect_file(path: str, stats: bool = False) -> Document:
    """Return what a file is and holds (schemas/inspect.schema.json).

    A damaged dump, npy, model … is no error: its ``problem`` says what is wrong, and what could be
    read is there.

    Parameters
    ----------
    stats
        Read the tensors too and add their statistics.

    Raises
    ------
    MissingPath
        The file does not exist, is not a regular file or cannot be read.
    """
    head = _head(path)
    for reader in (_npy, _store, _named):
        document = reader(path, head, stats)
        if document is not None:
            return document
    return foreign_document(path) or _model(path, head, stats) or _dump(path, stats)


def _head(path: str) -> bytes:
    with open_input(path) as stream:
        return stream.read(_HEAD_BYTES)


def _npy(path: str, head: bytes, stats: bool) -> Optional[Document]:
    if not head.startswith(_NPY) and not (path.endswith(".npy") and head):
        return None
    document: Document = {
        "kind": "npy",
        "path": path,
        "version": "%d.%d" % (head[6], head[7]) if len(head) > 7 else None,
        "tensors": [],
    }
    try:
        tensor = open_npy(path)
    except NoTensor as error:
        document["what"] = "npy, %s: %s" % (error.detail, error.hint)
        return document
    except FormatError as error:
        document["problem"] = error.detail
        return document
    entry = {
        "kind": "output",
        "index": 0,
        "dtype": tensor.dtype.name,
        "layout": None,
        "shape": list(tensor.shape),
        "original_shape": None,
        "bytes": tensor.source.nbytes,
        "offset": load_npy_header(path).data_offset,
        "address": None,
    }
    document["tensors"].append(entry)
    if stats:
        _add_statistics(entry, tensor)
    return document


def _store(path: str, head: bytes, stats: bool) -> Optional[Document]:
    if not head.startswith(_SQLITE):
        return None
    if os.path.basename(path) != STORE_FILE:
        return {
            "kind": "store",
            "path": path,
            "version": None,
            "problem": "an SQLite file; goldwatch's own is called %s" % STORE_FILE,
        }
    document: Document = {"kind": "store", "path": path, "version": None}
    try:
        with RunStore.open(os.path.dirname(os.path.abspath(path))) as store:
            document["verdicts"] = store.counted.all()
            document["places"] = [list(place) for place in store.places()]
    except GoldwatchError as error:
        document["problem"] = error.detail
    return document


def _named(path: str, head: bytes, stats: bool) -> Optional[Document]:
    """Return the document of a file recognised by its name: mapping.csv or manifest.json."""
    name = os.path.basename(path)
    if name == MAPPING_FILE:
        document: Document = {"kind": "mapping", "path": path, "version": None, "names": 0}
        try:
            document["names"] = len(read_mapping(path))
        except FormatError as error:
            document["problem"] = error.detail
        return document
    if name == "manifest.json":
        return _manifest(path)
    return None


def _manifest(path: str) -> Document:
    document: Document = {"kind": "manifest", "path": path, "version": None}
    try:
        data = json.loads(read_input(path, _MANIFEST_BYTES).decode("utf-8"))
        document["backend"], document["backend_version"] = (
            str(data["backend"]),
            data.get("backend_version"),
        )
        document["files"], document["skipped"] = len(data["tensors"]), len(data.get("skipped", ()))
        document["complete"] = bool(data.get("complete", True))
    except GoldwatchError as error:
        document["problem"] = error.detail
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        document["problem"] = "not a manifest of golden data: %s" % error
    return document


def _model(path: str, head: bytes, stats: bool) -> Optional[Document]:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"{") and not path.endswith((".txt", ".pbtxt", ".om", ".json")):
        return None
    document: Document = {"kind": "model", "path": path, "version": None}
    try:
        graph = load_model(path)
    except (FormatError, UsageError) as error:
        document["problem"] = error.detail
        return document
    except GoldwatchError as error:
        document["problem"] = "; ".join(filter(None, (error.detail, error.hint)))
        return document
    groups = {op.originals for op in graph.ops if len(op.originals) > 1}
    document.update(
        name=graph.name,
        graphs=list(graph.graph_names),
        ops=len(graph.ops),
        types=dict(Counter(op.type for op in graph.ops).most_common()),
        layouts=dict(
            Counter(
                desc.layout for op in graph.ops for desc in op.output_descs if desc.layout
            ).most_common()
        ),
        originals=len({name for op in graph.ops for name in op.originals}),
        fused=len(groups),
        inserted=sum(op.original_names == () for op in graph.ops),
        notes=list(graph.notes),
    )
    return document


def _dump(path: str, stats: bool) -> Document:
    name = parse_dump_name(os.path.basename(path))
    kind = "overflow" if name is not None and name.kind == "overflow" else "dump"
    document: Document = {"kind": kind, "path": path, "version": None, "tensors": []}
    try:
        dump = DumpFile.open(path, partial=True)
    except FormatError as error:
        document["problem"] = error.detail
        return document
    document.update(
        version=dump.version,
        header_version=dump.header_version,
        op_name=dump.op_name,
        dump_time=dump.dump_time,
    )
    document["header_bytes"], document["bytes"] = dump.header_bytes, dump.actual_bytes
    if dump.state != COMPLETE:
        document["problem"] = size_error(
            path, dump.state, dump.expected_bytes, dump.actual_bytes
        ).detail
    for info in (*dump.inputs, *dump.outputs):
        entry = _tensor_document(info)
        document["tensors"].append(entry)
        if stats and dump.state == COMPLETE:
            _add_tensor_statistics(entry, dump, info)
    document["buffers"] = [_region(region) for region in dump.buffers]
    document["spaces"] = [_region(region) for region in dump.spaces]
    if kind == "overflow" and dump.state == COMPLETE:
        document["records"], problem = overflow_records(dump)
        if problem is not None:
            document["problem"] = problem
    return document


def _region(region: RegionInfo) -> Document:
    return {
        "index": region.index,
        "type": region.type_code,
        "bytes": region.size_bytes,
        "offset": region.file_offset,
    }


def _tensor_document(info: TensorInfo) -> Document:
    entry: Document = {
        "kind": info.kind,
        "index": info.index,
        "dtype": info.dtype.name,
        "layout": info.format,
        "shape": list(info.shape),
        "original_shape": None if info.original_shape is None else list(info.original_shape),
        "bytes": info.size_bytes,
        "offset": info.file_offset,
        "address": info.address,
    }
    if info.sub_format:
        entry["sub_format"] = info.sub_format
    if info.original_name is not None:
        entry["original_name"], entry["original_index"] = info.original_name, info.original_index
    if info.problem is not None:
        entry["problem"] = info.problem
    return entry


def _add_tensor_statistics(entry: Document, dump: DumpFile, info: TensorInfo) -> None:
    try:
        _add_statistics(entry, dump.tensor(info.kind, info.index))
    except NotComparable as error:
        entry.setdefault("problem", error.message)


def _add_statistics(entry: Document, tensor: Tensor) -> None:
    try:
        entry["stats"] = statistics(tensor)
    except (FormatError, NotComparable) as error:
        entry["problem"] = error.message


def remarkable_tensors(name: str, rows: Sequence[TensorRow]) -> List[Tuple[int, Document]]:
    """Return what is remarkable in the statistics of an op's tensors: op, tensor and a phrase of
    each (schemas/inspect.schema.json), behind its rank: 0 is NaN, then Inf, the end of the type's
    range, constants.
    """
    dump = parse_dump_name(name)
    op = (
        {"op": name, "op_type": ""}
        if dump is None
        else {"op": dump.op_name, "op_type": dump.op_type}
    )
    odd_rows = (
        (row, remarkable_values(row.statistics, _type_name(row.statistics.dtype))) for row in rows
    )
    return [
        (min(odd), {**op, "tensor": "%s:%d" % row[:2], "what": ", ".join(odd.values())})
        for row, odd in odd_rows
        if odd
    ]


def worst_first(ranked: Iterable[Tuple[int, Document]]) -> List[Document]:
    """Return remarkable tensors by their rank."""
    return [document for _, document in sorted(ranked, key=lambda entry: entry[0])]


def _type_name(name: str) -> str:
    dtype = dtype_by_name(name[3:] if name.upper().startswith("DT_") else name)
    return "" if dtype is None else dtype.name
