"""Dumps turned into what a device writes with ``dump_data`` ``stats``: a CSV of statistics in place
of tensors, in each known form.

Sources of the forms: CANN's public device code (``default``: the AI CPU's, ``chosen``: adump's with
``dump_stats``), the public code of msprobe and the documents of MindSpore (a ``statistic.csv`` a
folder).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict, Iterable, List, Sequence, Tuple

import numpy as np

from ..base.errors import UsageError
from ..base.naming import compose_dump_name
from ..dumps.dump_file import DumpFile, TensorInfo
from ..dumps.folder_listing import DumpEntry, walk
from ..tensors.tensor import Tensor
from .device_dump import STATISTICS_HEADER, DeviceDump, statistics, write_files

FORMS = ("default", "chosen", "msprobe", "mindspore")

_CHOSEN = (
    "Max Value",
    "Min Value",
    "Avg Value",
    "Nan Count",
    "Negative Inf Count",
    "Positive Inf Count",
    "l2norm",
)
_OF_OPS = {
    "msprobe": "Op Type,Op Name,Task ID,Stream ID,Timestamp,Input/Output,Slot,Data Size,Data "
    "Type,Format,Shape,Max Value,Min Value,"
    "Avg Value,L2Norm Value,NaN Count,Negative Inf Count,Positive Inf Count",
    "mindspore": "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data "
    "Type,Shape,Max "
    "Value,Min Value,Avg Value,Count,"
    "Nan Count,Negative Inf Count,Positive Inf Count,L2Norm Value",
}


def tensor_statistics(tensor: Tensor) -> Dict[str, str]:
    """Return a tensor's statistics as a device prints them: six digits, whole numbers whole;
    padding counts as elements.

    NaN are left out of maximum and minimum, and make the mean and the norm NaN.
    """
    values = tensor.array().reshape(-1)
    whole = values.dtype.kind in "iub"
    wide = values.astype(np.float64)
    numbers = wide[~np.isnan(wide)]
    cells: Dict[str, str] = {
        "Data Size": str(tensor.source.nbytes),
        "Data Type": "DT_" + tensor.dtype.enumerator,
        "Format": tensor.format,
        "Shape": "x".join(map(str, tensor.shape)) or "-",
        "Count": str(values.size),
        "Nan Count": str(values.size - numbers.size),
        "Negative Inf Count": str(int(np.isneginf(numbers).sum())),
        "Positive Inf Count": str(int(np.isposinf(numbers).sum())),
    }
    if not values.size or values.dtype.kind == "c":
        return {**dict.fromkeys((*_CHOSEN[:3], "l2norm"), "NA"), **cells}
    ends = (numbers.max(), numbers.min()) if numbers.size else (np.nan, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, norm = wide.mean(), np.sqrt(np.dot(wide, wide))
    cells["Max Value"], cells["Min Value"] = ("%d" % end if whole else "%g" % end for end in ends)
    cells["Avg Value"], cells["l2norm"] = "%g" % mean, "%g" % norm
    return cells


def statistics_dump(
    folder: str, name: str, rows: Iterable[Tuple[str, int, Tensor]], form: str = "default"
) -> DeviceDump:
    """Return the CSV of one dump.

    Parameters
    ----------
    folder, name
        As of :func:`statistics`.
    rows
        (``input`` or ``output``, index, tensor).
    form
        ``default``: the thirteen columns. ``chosen``: those of ``dump_stats`` with everything,
        L2norm too.
    """
    columns = (
        STATISTICS_HEADER.split(",")
        if form == "default"
        else STATISTICS_HEADER.split(",")[:6] + ["Count", *_CHOSEN]
    )
    lines: List[Sequence[str]] = []
    for kind, index, tensor in rows:
        line = {"Input/Output": kind.capitalize(), "Index": str(index), **tensor_statistics(tensor)}
        lines.append([line[column] for column in columns])
    return statistics(folder, name, lines, ",".join(columns))


def as_statistics(tree: str, root: str, form: str = "default") -> List[str]:
    """Write the statistics of all dumps of a tree below ``root``, at the same places; return the
    paths of the files.

    Raises
    ------
    UsageError
        There is no such form (:data:`FORMS`).
    GoldwatchError
        A dump cannot be read.
    """
    if form not in FORMS:
        raise UsageError(
            "there is no form %r of statistics" % form, hint="forms: %s" % ", ".join(FORMS)
        )
    paths: List[str] = []
    for listing in walk(tree, "the tree of dumps"):
        if form in _OF_OPS and listing.dumps:
            folder = os.path.join(root, listing.rel)
            os.makedirs(folder, exist_ok=True)
            paths.append(os.path.join(folder, "statistic.csv"))
            with open(paths[-1], "w", encoding="utf-8") as stream:
                stream.write(_OF_OPS[form] + "\n")
                for entry in listing.dumps:
                    stream.write("".join(line + "\n" for line in op_lines(entry, form)))
        elif listing.dumps:
            made = (
                statistics_dump(listing.rel, _file_name(entry), _tensors(entry), form)
                for entry in listing.dumps
            )
            paths += write_files(root, made)
    return paths


def _file_name(entry: DumpEntry) -> str:
    if entry.hash_name is None:
        return os.path.basename(entry.path) + ".csv"
    return compose_dump_name(replace(entry.name, kind="stats"))


def op_lines(entry: DumpEntry, form: str) -> List[str]:
    """Return a dump's lines in a folder's ``statistic.csv``: forms ``msprobe`` and
    ``mindspore``.
    """
    name = entry.name
    lines = []
    for kind, index, tensor in _tensors(entry):
        cells = tensor_statistics(tensor)
        cells.update({
            "Op Type": name.op_type, "Op Name": name.op_name, "Task ID": str(name.task_id),
            "Stream ID": str(name.stream_id or 0),
            "Timestamp": str(name.timestamp_us), "Input/Output": kind, "IO": kind,
            "Slot": str(index),
            "L2Norm Value": cells["l2norm"], "NaN Count": cells["Nan Count"],
        })  # fmt: skip
        if form == "mindspore":
            cells["Data Type"], cells["Shape"] = (
                tensor.dtype.name,
                '"(%s)"' % ",".join(map(str, tensor.shape)),
            )
        lines.append(",".join(cells[column] for column in _OF_OPS[form].split(",")))
    return lines


def _tensors(entry: DumpEntry) -> Iterable[Tuple[str, int, Tensor]]:
    dump = DumpFile.open(entry.path)
    infos: Tuple[TensorInfo, ...] = (*dump.inputs, *dump.outputs)
    return [(info.kind, info.index, dump.tensor(info.kind, info.index)) for info in infos]
