"""Describes files that neither goldwatch nor a device wrote: original models and their weights,
statistics, others.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from typing import Any, Callable, Dict, Iterable, List, Optional

from ..errors import GoldwatchError
from ..filesystem.safe_reading import read_input
from ..kinds import kind as kinds
from ..kinds.files import kind_of_file
from ..kinds.wrong_kind_advice import is_raw
from ..naming import parse_dump_name
from ..netfiles.caffe_net import Net, initial_state
from ..netfiles.caffe_v0_upgrade import read_upgraded
from ..netfiles.caffemodel import weight_shapes
from ..netfiles.graphdef import GraphFile
from ..netfiles.onnx_model import OnnxModel
from ..statistics_dumps.statistics_csv import read_table
from .remarkable_statistics import remarkable_tensors, worst_first

Document = Dict[str, Any]

STATISTICS_BYTES = 64 * 1024 * 1024
_NOT_HERE = (
    # These have readers of their own, which say what is wrong with a file that is none of them.
    kinds.EMPTY, kinds.RAW, kinds.TEXT, kinds.JSON, kinds.PROTOBUF, kinds.DUMP, kinds.NPY, kinds.OM,
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
    plain = kind.name == kinds.TEXT and parse_dump_name(os.path.basename(path)) is None
    if kind.name in _NOT_HERE and not plain and not is_raw(path):
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
    if kind.name in readers:
        try:
            readers[kind.name](path, document)
        except GoldwatchError as error:
            document["problem"] = error.message
    return document


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
        document["problem"] = str(error)
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
