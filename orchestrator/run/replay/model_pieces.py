"""What is run of the original model for the planned ops: inputs written to files, outputs paired
with the device's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ...adapters.replaying.run import Piece
from ...base.atomic_writing import create_new
from ...base.errors import GoldwatchError, NotComparable
from ...base.mounts import require_space
from ...base.naming import compose_golden_name, fits
from ...dumps.dump_file import TensorInfo
from ...dumps.golden_set import GoldenEntry
from ...metrics.compare_pair import refuse
from ...metrics.overwriting_and_cancellation import beside_of
from ...metrics.pair_task import PairTask
from ...metrics.row import CORRUPT, Row
from ...model.row_plan import RowPlan
from ...netfiles.onnx_types import BY_NAME as ONNX_TYPES
from ...operators import CannotCompute
from ...recomputing.input_feeds import Feed, original_values
from ...recomputing.original_cuts import Original
from ...recomputing.recomputed_output import NotComputable
from ...recomputing.recomputer import Recomputer
from ...recomputing.replay_plan import PlannedOp, ReplayPlan
from ...recomputing.submodel.cut_definition import CutInput

if TYPE_CHECKING:
    from ...dumps.slices import AnyDump

Shape = Tuple[int, ...]
_SHORT = 180
_NOT_FED = ("bfloat16",)
_WIDENED = ("float16", "bfloat16")
_FLOATS = (*_WIDENED, "float32")


class Pieces:
    """The pieces that are run, and their results.

    Parameters
    ----------
    folder
        For the computed values.
    temporary
        For the recorded inputs.

    Attributes
    ----------
    all
        The pieces, in the order of the execution.
    rows
        Rows of ops that cannot be run; :meth:`tasks` adds to them.

    Raises
    ------
    EnvironmentProblem
        The disk has not enough space for the inputs.
    """

    def __init__(self, plan: ReplayPlan, original: Original, folder: str, temporary: str) -> None:
        self.all: List[Piece] = []
        self.rows: List[Row] = []
        self._ops: List[Tuple[PlannedOp, List[str]]] = []
        self._original, self._folder, self._temporary = original, folder, temporary
        self._shapes = original.model.value_shapes()
        self._written: Dict[Any, Tuple[str, Shape]] = {}
        require_space(
            temporary,
            sum(feed.tensor.source.nbytes for planned in plan.ops for feed in planned.feeds),
        )
        for planned in plan.ops:
            self._add(planned)

    def _add(self, planned: PlannedOp) -> None:
        model = self._original.model
        inputs: Dict[str, Tuple[str, str, Shape]] = {}
        shapes: Dict[str, Shape] = {}
        try:
            for entry, feed in zip(planned.cut.inputs, planned.feeds):
                dtype = self._dtype(entry, feed)
                path, shape = self._write(
                    feed, self._shapes.get((entry.producer, entry.output_index))
                )
                inputs[entry.tensor], shapes[entry.name] = (path, dtype, shape), shape
            text = model.piece_text(planned.cut, shapes)
            nodes = tuple(model.names[number] for number in planned.cut.layers)
        except (NotComputable, GoldwatchError) as error:
            self.rows += planned.refused(error)
            return
        names = [self._name(plan, planned, number) for number, (plan, _) in enumerate(planned.rows)]
        outputs = [
            (
                plan.golden_op or "",
                plan.golden_index or 0,
                os.path.join(os.path.abspath(self._folder), name),
                row.target_dtype or "",
            )
            for (plan, row), name in zip(planned.rows, names)
        ]
        self.all.append(Piece(planned.op.name, inputs, outputs, text, nodes))
        self._ops.append((planned, names))

    def _dtype(self, entry: CutInput, feed: Feed) -> str:
        """Return the type in which an input is fed; raises NotComputable where it is unknown, or
        cannot be fed.
        """
        kind, dtype = self._original.kind, entry.dtype
        if kind == "caffe" or (
            kind == "onnx"
            and (dtype in _WIDENED or (not dtype and feed.tensor.dtype.name in _FLOATS))
        ):
            return dtype if kind == "caffe" and dtype else "float32"
        if (
            not dtype
            or dtype in _NOT_FED
            or (kind == "onnx" and (dtype not in ONNX_TYPES or ONNX_TYPES[dtype].numpy is None))
        ):
            raise NotComputable(
                "its input %s is of a type that cannot be fed (%s)"
                % (entry.tensor, dtype or "unknown")
            )
        return dtype

    def _write(self, feed: Feed, shape: Optional[Shape]) -> Tuple[str, Shape]:
        """Write a recorded tensor in its original form, once for all that read it."""
        source: Any = feed.tensor.source
        place = getattr(source, "path", id(source)), getattr(source, "offset", 0)
        key = (place, feed.desc.origin_format, feed.desc.origin_shape, shape)
        if key not in self._written:
            values = np.ascontiguousarray(original_values(feed, shape))
            path = os.path.join(os.path.abspath(self._temporary), "%d.npy" % len(self._written))
            with os.fdopen(create_new(path), "wb") as stream:
                np.save(stream, values)
            self._written[key] = path, tuple(int(size) for size in values.shape)
        return self._written[key]

    def _name(self, plan: RowPlan, planned: PlannedOp, number: int) -> str:
        """Return the name of a computed value: that of a golden file; the time tells those of
        several ops apart.
        """
        op, stamp = plan.golden_op or "", planned.file.dumped.timestamp_us + number
        name = compose_golden_name(op, plan.golden_index or 0, stamp)
        short = compose_golden_name(
            op[:_SHORT] + "_%d" % len(self._ops), plan.golden_index or 0, stamp
        )
        return name if fits(name) else short

    def compute(self, failed: Mapping[int, str], recomputer: Recomputer) -> Dict[int, str]:
        """Compute the pieces that the framework could not run; return those that cannot be computed
        either, with the framework's reason.
        """
        left: Dict[int, str] = {}
        for number, reason in failed.items():
            planned, names = self._ops[number]
            try:
                values = recomputer.values(planned.op.name)
                for (plan, _), name in zip(planned.rows, names):
                    path = os.path.join(self._folder, name)
                    if not os.path.exists(path):
                        with os.fdopen(create_new(path), "wb") as stream:
                            np.save(stream, values[plan.tensor_index or 0])
            except (CannotCompute, NotComparable) as error:
                left[number] = "%s; %s" % (reason, error)
            except GoldwatchError as error:
                left[number] = "%s; %s" % (reason, error.message)
        return left

    def tasks(self, failed: Mapping[int, str]) -> List[PairTask]:
        """Return the pairs to compare once the pieces have run; ``failed``: number of a piece to
        why it could not be run.
        """
        tasks: List[PairTask] = []
        for number, (planned, names) in enumerate(self._ops):
            if number in failed:
                self.rows += planned.refused(failed[number])
                continue
            for (plan, row), output, name in zip(planned.rows, planned.outputs, names):
                task = self._task(plan, row, output, name)
                if task is not None:
                    tasks.append(task)
        return tasks

    def _task(
        self, plan: RowPlan, row: Row, output: Tuple[AnyDump, TensorInfo], name: str
    ) -> Optional[PairTask]:
        dump, info = output
        try:
            target = dump.tensor(info.kind, info.index)
        except NotComparable as error:
            self.rows.append(refuse(row, error.message, error.cause or CORRUPT))
            return None
        entry = GoldenEntry(
            os.path.join(self._folder, name),
            name,
            plan.golden_op or "",
            plan.golden_index or 0,
            row.timestamp_us,
            "npy",
        )
        beside = beside_of(dump, info, plan.op_type)
        return PairTask(
            row.but(golden_file=name),
            target,
            entry,
            plan.origin_format,
            plan.origin_shape,
            beside=beside,
        )
