"""Two single files instead of two folders: which tensors of them are compared."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import replace
from typing import Iterable, List, NamedTuple, Optional, Tuple

from ..base.errors import FormatError, InputError, NotComparable
from ..base.naming import parse_dump_name, parse_golden_name
from ..base.wording import percent
from ..dumps.dump_file import DumpFile, TensorInfo
from ..dumps.golden_set import GoldenEntry
from ..dumps.npy import open_npy
from ..dumps.place import place_of
from ..judging.diagnosis.row_digest import DISTANCE
from ..judging.metric_text import metric_number
from ..metrics.compare_pair import compare_pair
from ..metrics.pair_task import PairTask, Settings
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, OTHER_OPERATORS, PASS, Row
from ..model.graph import ModelGraph
from ..model.graphs_of_run import ModelGraphs
from ..model.pairing import Pairing
from ..model.row_plan import INPUT, OUTPUT, PAIR, DumpedOp
from ..tensors.tensor import Tensor
from .output_files import in_order_of
from .same_operators import family

_OTHER_OPERATORS = "%s (%s) and %s (%s) are different operators: only outputs are compared"
_OTHER_DATA = (
    "%s and %s (%s) read other data (input %d differs%s): they may be two different operators; "
    "only outputs are compared"
)
_PLAIN = ("NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN", "ND", "RESERVED")


class FilePairs(NamedTuple):
    """The tensors of two files.

    Attributes
    ----------
    op
        The target's op name, by its file's name.
    tasks
        What can be compared.
    rows
        Tensors that cannot, with the reason.
    """

    op: str
    tasks: Tuple[PairTask, ...]
    rows: Tuple[Row, ...]


def pair_files(
    target: str,
    golden: str,
    graphs: Optional[ModelGraphs] = None,
    requested: Optional[Tuple[str, int]] = None,
) -> FilePairs:
    """Return the tensors of two files: dumps, npy, pb, quant, or of torch.save.

    Two dumps pair by kind and index; of dumps of two op types, which read other tensors, outputs
    alone. Against a file of one tensor, output 0 of a dump counts unless another is wanted.

    Parameters
    ----------
    graphs
        The models: tell the original layouts of an op that they know.
    requested
        ``input`` or ``output``, and its number; None for all.

    Raises
    ------
    GoldwatchError
        A file cannot be read, or has no such tensor.
    """
    left, right = _Side(target), _Side(golden)
    graph = (
        graphs.of(place_of(os.path.dirname(target), {left.op}).model)
        if graphs is not None
        else None
    )
    places = _places(left, right, requested)
    types = family(left.op_type), family(right.op_type)
    differ = requested is None and all(types) and types[0] != types[1]
    tasks: List[PairTask] = []
    rows: List[Row] = []
    for kind, index in places:
        row = Row(
            index=0,
            op=left.op,
            op_type=left.op_type,
            tensor="%s:%s:%d" % (left.op, kind, index),
            kind=kind,
            verdict=PASS,
            tensor_index=index,
            golden=right.op,
        )
        files = {"target_file": os.path.abspath(target), "golden_file": os.path.abspath(golden)}
        row = row.but(group=(left.op,), timestamp_us=left.timestamp_us, **files)
        if differ and kind == INPUT:
            reason = _OTHER_OPERATORS % (left.op, left.op_type, right.op, right.op_type)
            absent = row.but(verdict=EXPECTED_ABSENT, reason=reason, reason_codes=OTHER_OPERATORS)
            rows.append(absent)
            continue
        try:
            tensor, info = left.tensor(kind, index)
            row = replace(
                row,
                address=info.address if info is not None else None,
                shape=tensor.shape,
                target_dtype=tensor.dtype.name,
            )
            entry = right.entry(kind, index)
            if left.is_array and right.is_array:
                tensor, moved = in_order_of(right.tensor(kind, index)[0], tensor)
                row = row.noted(moved) if moved else row
            as_stored = (
                left.is_dump
                and right.is_dump
                and _stored_alike(tensor, right.tensor(kind, index)[0])
            )
        except NotComparable as error:
            if len(places) == 1:
                raise InputError(error.message) from None
            rows.append(replace(row, verdict=NOT_COMPARED, reason=error.message, cause=error.cause))
            continue
        tasks.append(
            PairTask(row, tensor, entry, *_origin(graph, left, kind, index), as_stored=as_stored)
        )
    return FilePairs(left.op, tuple(tasks), tuple(rows))


def without_inputs_of_others(pairs: FilePairs, settings: Settings) -> FilePairs:
    """Return the tensors of two dumps without their inputs where these are of ops of two names and
    an input is outside its limits: nothing tells that it is one operator that was fed otherwise.
    """
    inputs = [task for task in pairs.tasks if task.row.kind == INPUT]
    if not all(task.golden.kind == "npu" and task.row.golden != pairs.op for task in inputs):
        return pairs
    for task in inputs:
        row = compare_pair(task, settings)
        if row.verdict != FAIL:
            continue
        distance = metric_number(row.metrics.get(DISTANCE))
        by = " by %s" % percent(distance) if math.isfinite(distance) else ""
        reason = _OTHER_DATA % (pairs.op, row.golden, row.op_type, row.tensor_index or 0, by)
        absent = [
            each.row.but(verdict=EXPECTED_ABSENT, reason=reason, reason_codes=OTHER_OPERATORS)
            for each in inputs
        ]
        outputs = tuple(task for task in pairs.tasks if task.row.kind != INPUT)
        return FilePairs(pairs.op, outputs, (*pairs.rows, *absent))
    return pairs


class _Side:
    """One of two files."""

    def __init__(self, path: str) -> None:
        self.path = path
        name = os.path.basename(path)
        dump_name, golden_name = parse_dump_name(name), parse_golden_name(name)
        self.saved: List[Tensor] = []
        if name.endswith((".pt", ".pth")):
            # What is none of it gets the advice of a file of the wrong kind below.
            with contextlib.suppress(FormatError):
                from ..dumps.torch_file import open_torch

                self.saved = open_torch(path)
        self.is_array = name.endswith(".npy") or bool(self.saved)
        self.is_dump = not self.is_array and not name.endswith((".pb", ".quant"))
        self.dump = None if self.is_array else DumpFile.open(path)
        self.op_type, self.timestamp_us, self.number = "", 0, 0
        if dump_name is not None and self.is_dump:
            self.op, self.op_type, self.timestamp_us = (
                dump_name.op_name,
                dump_name.op_type,
                dump_name.timestamp_us,
            )
        elif golden_name is not None:
            self.op, self.number, self.timestamp_us = (
                golden_name.op_name,
                golden_name.output_index,
                golden_name.timestamp_us,
            )
        else:
            self.op = os.path.splitext(name)[0] if self.is_array else name
        # A golden file holds one output, whatever its number in the op.
        self.single = self.is_array or (
            self.dump is not None and len(self.dump.inputs) + len(self.dump.outputs) == 1
        )

    def places(self) -> List[Tuple[str, int]]:
        """Return kind and number of its tensors."""
        if self.saved:
            return [(OUTPUT, index) for index in range(len(self.saved))]
        if self.dump is None or not self.is_dump:
            return [(OUTPUT, self.number)]
        infos: Iterable[TensorInfo] = (*self.dump.inputs, *self.dump.outputs)
        return [(info.kind, info.index) for info in infos]

    def _place(self, kind: str, index: int) -> Tuple[str, int]:
        """Return where in the file a tensor is: the only one of a golden file is any."""
        if self.dump is not None and self.single and not self.is_dump:
            return (OUTPUT, 0) if self.dump.outputs else (INPUT, 0)
        return kind, index

    def _number(self, index: int) -> int:
        """Return where in a list of torch.save a tensor is: a single one is any."""
        if len(self.saved) > 1 and index >= len(self.saved):
            raise NotComparable("%s holds %d tensors" % (self.path, len(self.saved)))
        return index if len(self.saved) > 1 else 0

    def tensor(self, kind: str, index: int) -> Tuple[Tensor, Optional[TensorInfo]]:
        """Return a tensor, and what the dump's header says of it."""
        if self.saved:
            return self.saved[self._number(index)], None
        if self.dump is None:
            return open_npy(self.path), None
        place = self._place(kind, index)
        return self.dump.tensor(*place), self.dump.info(*place)

    def entry(self, kind: str, index: int) -> GoldenEntry:
        """Return a tensor as golden data."""
        if self.dump is None:
            kind, number = ("torch", self._number(index)) if self.saved else ("npy", index)
            return GoldenEntry(self.path, self.path, self.op, number, self.timestamp_us, kind)
        io, number = self._place(kind, index)
        return GoldenEntry(self.path, self.path, self.op, number, self.timestamp_us, "npu", io)


def _places(
    left: _Side, right: _Side, requested: Optional[Tuple[str, int]]
) -> List[Tuple[str, int]]:
    if requested is not None:
        if (
            not left.is_dump
            and not right.is_dump
            and requested not in ((OUTPUT, 0), *left.places())
        ):
            raise InputError(
                "%s has no %s %d: it holds one tensor, an output" % (left.path, *requested)
            )
        return [requested]
    if left.is_dump and right.is_dump:
        return list(dict.fromkeys(left.places() + right.places()))
    return left.places() if not left.is_dump else [(OUTPUT, 0)]


def _stored_alike(target: Tensor, golden: Tensor) -> bool:
    """Tell whether two device tensors are compared as they are stored, padding included."""
    return target.format == golden.format or golden.format not in _PLAIN


def _origin(
    graph: Optional[ModelGraph], side: _Side, kind: str, index: int
) -> Tuple[Optional[str], Optional[Tuple[int, ...]]]:
    """Return layout and shape in the original model, where the model knows the op."""
    if graph is None or side.dump is None:
        return None, None
    dumped = DumpedOp(
        side.op, side.op_type, side.timestamp_us, len(side.dump.inputs), len(side.dump.outputs)
    )
    for plan in Pairing(graph, lambda op, number: True).rows_for(dumped):
        if plan.status == PAIR and (plan.kind, plan.tensor_index) == (kind, index):
            return plan.origin_format, plan.origin_shape
    return None, None
