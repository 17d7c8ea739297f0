"""The tensors of finished rows, read again: for the explanations of suspects, and where rows are
judged by others.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Collection,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from ..base.element_types import element_count
from ..base.errors import GoldwatchError
from ..base.manifest import model_file_name
from ..dumps.dump_file import DumpFile
from ..dumps.folder_listing import Signature, look_at
from ..dumps.place import Place, time_order
from ..judging.by_recomputation import RecomputationVerdict
from ..judging.diagnosis.observed_ops import ObservedOp, SomeOps
from ..judging.diagnosis.op_input_states import Inputs, InputState
from ..judging.diagnosis.recompute_without_model import (
    Others,
    TensorReader,
    beside_by_golden,
    computed_by_golden,
    fed_otherwise_by_golden,
    variants_without_model,
)
from ..judging.diagnosis.row_digest import Observation
from ..metrics.pair_alignment import converted, geometry_of, open_counterpart
from ..metrics.pair_task import PairTask
from ..metrics.patterns import MOST_ELEMENTS, AlignedPair, align
from ..recomputing.attributes_and_constants import AttributesAndConstants
from ..recomputing.recomputed_output import ComputedPair, Recomputed
from .engine import Engine
from .recomputation import Recomputation
from .target_file import TargetFile

if TYPE_CHECKING:
    from ..metrics.patterns import Walked
    from ..recomputing.lost_numbers import LostNumber
    from ..recomputing.variant_search import VariantSearch

# Clocks of the host that converted the model and of the device that dumped may differ; chosen.
_YOUNGER_S = 60.0
_MOST_UNPAIRED = 32
"""Golden tensors that nothing is compared with, each of which is tried as an input, by their time:
of 194 networks with one thing exchanged 16 and 64 change nothing."""


class RunReader(TensorReader):
    """Reads what a run has compared.

    Parameters
    ----------
    engine
        The run's.
    recomputation
        Computes operators again; None: none are.
    """

    def __init__(self, engine: Engine, recomputation: Optional[Recomputation] = None) -> None:
        self._engine = engine
        self._recomputation = recomputation
        self._planned: Dict[str, PairTask] = {}
        self._planned_file: Optional[TargetFile] = None
        self._planned_signature: Optional[Signature] = None

    def recompute(
        self, inputs: Inputs, urgent: Sequence[ObservedOp], others: Optional[SomeOps] = None
    ) -> Mapping[Tuple[Place, str, int], RecomputationVerdict]:
        """Compute operators again; parameters and result as :meth:`TensorReader.recompute`."""
        if self._recomputation is None:
            return {}

        def by_golden(op: ObservedOp, facts: Optional[AttributesAndConstants]) -> List[Recomputed]:
            # What is called like an op that nothing is compared with may be of another one.
            if not any(output.compared for output in op.outputs.values()):
                return []
            learns = not self._learns_of_other_dump(op)
            return computed_by_golden(op, inputs.of(op), self.whole, facts, learns)

        # For an op that ran several times in a step it is unknown which of its inputs belong to
        # which of its outputs.
        urgent = [op for op in urgent if (op.place, op.name) not in inputs.several]
        once = None if others is None else others.executed_once()
        return self._recomputation.recompute(urgent, once, by_golden)

    def recomputed(self) -> Optional[Dict[str, Any]]:
        """Return what was computed again; as :meth:`TensorReader.recomputed`."""
        return None if self._recomputation is None else self._recomputation.document()

    def computed(
        self, op: ObservedOp, output: Observation, inputs: Sequence[InputState]
    ) -> Optional[ComputedPair]:
        """Return an output beside what was computed of it; as :meth:`TensorReader.computed`."""
        if self._recomputation is None:
            return None
        pair = self._recomputation.pair(op.place, op.name, output.number)
        if pair is not None or self._learns_of_other_dump(op):
            return pair
        return beside_by_golden(
            op, output, inputs, self.whole, self._recomputation.attributes_and_constants(op)
        )

    def _learns_of_other_dump(self, op: ObservedOp) -> bool:
        """Tell whether what an operator computes would be learnt from a dump, which may be the one
        that is wrong.
        """
        from ..recomputing.formulas_by_type import learns_constants

        return self._engine.goldens.kind == "npu" and learns_constants(op.type, len(op.inputs))

    def variants(
        self, op: ObservedOp, output: Observation, inputs: Sequence[InputState]
    ) -> Optional[VariantSearch]:
        """Return what the device may have computed instead; as :meth:`TensorReader.variants`."""
        if self._recomputation is None:
            return None
        search = self._recomputation.search_variants(op.place, op.name, output.number)
        if search is not None or not self._learns(op) or not output.compared:
            return search
        facts = self._recomputation.attributes_and_constants(op)
        return variants_without_model(op, output, inputs, self.whole, facts)

    def by_json(
        self,
        op: ObservedOp,
        output: Observation,
        inputs: Sequence[InputState],
        others: Others,
    ) -> Optional[VariantSearch]:
        """Return what the json tells; as :meth:`TensorReader.by_json`."""
        if self._recomputation is None or not self._learns(op):
            return None
        if not output.compared:
            return None
        facts = self._recomputation.attributes_and_constants(op)
        return fed_otherwise_by_golden(op, output, inputs, self.whole, facts, others)

    def _learns(self, op: ObservedOp) -> bool:
        """Tell whether golden data alone show what an operator computes."""
        is_learnt = self._recomputation is not None and self._recomputation.learns(
            op.place, op.name
        )
        return is_learnt and not self._learns_of_other_dump(op)

    def unpaired_goldens(
        self, place: Place, paired: Collection[Optional[str]], size: int
    ) -> Iterator[Tuple[str, Any]]:
        """Yield other golden tensors; as :meth:`TensorReader.unpaired_goldens`."""
        goldens, read = self._engine.goldens.of(place), 0
        for name, index in goldens.outputs():
            entry = goldens.find(name, index)
            if entry is None or entry.rel in paired or read >= _MOST_UNPAIRED:
                continue
            if element_count(goldens.shape(name, index) or (0,)) == size:
                read += 1
                with contextlib.suppress(GoldwatchError, OSError):
                    words = "%s (output %d of golden data, of which the om has no op)"
                    yield words % (name, index), goldens.tensor(entry).array()

    def golden_variants(self, op: ObservedOp, output: Observation) -> Optional[VariantSearch]:
        """Return by what a golden output may have been made; as
        :meth:`TensorReader.golden_variants`.
        """
        if self._recomputation is None:
            return None
        return self._recomputation.golden_variants(op.place, op.name, output.number)

    def golden_follows(self, op: ObservedOp, output: Observation) -> Optional[bool]:
        """Tell whether a golden output follows from golden inputs; as
        :meth:`TensorReader.golden_follows`.
        """
        return (
            None
            if self._recomputation is None
            else self._recomputation.golden_follows(op.place, op.name, output.number)
        )

    def lost_number(self, op: ObservedOp, output: Observation) -> Optional[LostNumber]:
        """Return the number of the model that the device does not have; as
        :meth:`TensorReader.lost_number`.
        """
        return (
            None
            if self._recomputation is None
            else self._recomputation.lost_number(op.place, op.name, output.number)
        )

    def pair(
        self, op: ObservedOp, row: Observation, most: int = MOST_ELEMENTS
    ) -> Optional[AlignedPair]:
        """Return a row's elements; None where a file is gone (deleted after its comparison, say) or
        has become unreadable.
        """
        return self.read(op.file, row.tensor, most)

    def read(self, file: str, tensor: str, most: int = MOST_ELEMENTS) -> Optional[AlignedPair]:
        """Return the elements of a tensor of a dump file, by their names in the rows."""
        try:
            task, golden = self._opened(file, tensor)
            return (
                None
                if task is None
                else align(task.target, golden, geometry_of(task, golden), task.as_stored, most)
            )
        except (GoldwatchError, OSError, MemoryError):
            return None

    def _opened(self, file: str, tensor: str) -> Tuple[Optional[PairTask], Any]:
        """Return what is to be compared, converted, and its golden tensor; raises what opening
        raises.
        """
        task = self.task(file, tensor)
        if task is None:
            return None, None
        golden, _ = open_counterpart(task)
        return converted(task, golden, self._engine.workers.settings.conversions), golden

    def walked(self, op: ObservedOp, row: Observation, background: float) -> Optional[Walked]:
        """Look at every element of a row's tensors; None where a file is gone or has become
        unreadable, or they are too many.
        """
        return self.walk(op.file, row.tensor, row.distance, background)

    def walk(self, file: str, tensor: str, distance: float, background: float) -> Optional[Walked]:
        """Return the same of a tensor of a dump file, by their names in the rows."""
        from ..metrics.patterns import walk

        try:
            task, golden = self._opened(file, tensor)
            return (
                None
                if task is None
                else walk(task.target, golden, geometry_of(task, golden), distance, background)
            )
        except (GoldwatchError, OSError, MemoryError):
            return None

    def task(self, target_file: str, tensor: str) -> Optional[PairTask]:
        """Return a pair by its dump file's name in the rows; None when the file is gone."""
        across = self._engine.across.get((target_file, tensor))
        if across is not None:
            from .outputs_of_builds import task_across

            path = os.path.join(self._engine.catalogue.root, target_file)
            target = DumpFile.open(path).tensor(across.kind, across.tensor_index or 0)
            return task_across(self._engine, across, target)
        file = self._engine.catalogue.of_row(target_file)
        signature = None if file is None else look_at(file.path)
        if file is None or signature is None:
            return None
        if self._planned_file != file or self._planned_signature != signature:
            # The tensors of an operator are read one after the other: its file is planned once.
            tasks = self._engine.slices.plan(file).tasks
            self._planned_file, self._planned_signature = file, signature
            self._planned = {task.row.tensor: task for task in reversed(tasks)}
        return self._planned.get(tensor)

    def other_file(self, place: Place) -> Optional[Tuple[str, str]]:
        """Compare the names in the manifest and the json; as :meth:`TensorReader.other_file`."""
        graph = self._engine.graphs.of(place.model)
        compiled_from = "" if graph is None else graph.compiled_from
        made_of = compiled_from and model_file_name(self._engine.goldens.folder_of(place))
        return (made_of, compiled_from) if made_of and made_of != compiled_from else None

    def stale(self, op: ObservedOp) -> str:
        """Compare the dump file's time with the model file's, and with its time folder's."""
        return self.age(op.file, op.place)

    def age(self, target_file: str, place: Place) -> str:
        """Return the same of a dump file by its name in the rows; empty when it is no older."""
        file = self._engine.catalogue.of_row(target_file)
        graph = self._engine.graphs.of(place.model)
        if file is None or graph is None or graph.path is None:
            return ""
        looks = list(filter(None, map(look_at, (file.path, graph.path))))
        if len(looks) < 2:
            return ""
        dumped, made = (look.mtime_ns / 1e9 for look in looks)
        if dumped > made - _YOUNGER_S or time_order(place.time or "") > time.strftime(
            "%Y%m%d%H%M%S", time.localtime(made)
        ):
            return ""
        when = [time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in (dumped, made)]
        return "the dump (%s) is older than the model file (%s): it may be of an earlier model" % (
            when[0],
            when[1],
        )
