"""The rules that find the golden tensor of one output of one op.

Source: the vendor's description of the ``_datadump_*`` attributes, corrected by what real files
hold (docs/reference/pairing.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, List, Optional, Tuple

from ..base.element_types import element_count
from ..base.naming import sanitise_golden
from ..base.wording import listed
from ..dumps.golden_set import GoldenSet
from ..dumps.place import Place
from .graph import ModelGraph
from .graph_walks import is_quant, quantised_stretch
from .never_dumped import AIPP, FIXED_TYPES, INPUT_TYPES, ITERATOR_TYPES
from .op_groups import FOLLOWING_TYPES, Groups, groups_of
from .op_node import OpNode, TensorDesc, desc_at
from .row_plan import EXPECTED_ABSENT, INPUT, NOT_COMPARED, PAIR, Counterpart

HasGolden = Callable[[str, int], bool]
NoMatchReason = Callable[[str, int], str]
Shape = Tuple[int, ...]
ShapeOf = Callable[[str, int], Optional[Shape]]

_SOURCE_TYPES = FIXED_TYPES | INPUT_TYPES
# Of an aten op.
_MOST_INPUTS = 12
_PARSER_MADE = "PartitionedCall_"


class Counterparts:
    """Finds golden tensors; results are cached, so a chain of Cast and TransData is walked once.

    Parameters
    ----------
    has_golden
        Whether a golden file exists for (original op's raw name, output index).
    no_match_reason
        Why candidate golden files of an output are not used; empty if there are none.
    shape_of
        Shape of a golden tensor; None if there is none.
    """

    def __init__(
        self,
        graph: ModelGraph,
        groups: Groups,
        has_golden: HasGolden,
        no_match_reason: NoMatchReason = lambda name, index: "",
        shape_of: ShapeOf = lambda name, index: None,
    ) -> None:
        self._shape_of = shape_of
        self._graph = graph
        self._groups = groups
        self._has_golden = has_golden
        self._no_match_reason = no_match_reason
        self._stretch = quantised_stretch(graph)
        self._cache: Dict[Tuple[int, int], Counterpart] = {}

    def forget(self) -> None:
        """Clear the cache."""
        self._cache.clear()

    def without_rows(self, op: OpNode) -> Optional[str]:
        """Return why this op gets no row at all (an inner op of its group), or None."""
        if (
            op.is_multiop
            and op.type not in FOLLOWING_TYPES
            and not any(desc.origin_name for desc in op.output_descs)
        ):
            return (
                "an inner op of its group: one of several made from %s, and none of its "
                "outputs is an original's" % _named(op)
            )
        return None

    def expected_absent(self, op: OpNode) -> Optional[str]:
        """Return why no tensor of this op has a golden tensor even if dumped, or None."""
        if op.position in self._stretch:
            return (
                "between AscendQuant and AscendDequant: quantised data have no counterpart in the "
                "golden model"
            )
        if op.type in FOLLOWING_TYPES or op.type in _SOURCE_TYPES or is_quant(op) or op.originals:
            return None
        if op.type == AIPP:
            return None
        if op.file_originals:
            names = ", ".join(op.file_originals[:3])
            return (
                "the quantisation json maps %s to nothing: it has no counterpart in the "
                "golden model" % names
            )
        if op.original_names:
            return "its original names are empty: it has no counterpart in the golden model"
        return "inserted by the compiler: it has no counterpart in the golden model"

    def of_input(self, op: OpNode, number: int, source: Optional[Tuple[str, int]]) -> Counterpart:
        """Return the counterpart of input ``number``, which reads ``source`` (producer name, output
        index).
        """
        if source is None:
            return Counterpart(EXPECTED_ABSENT, "an optional input that is not connected")
        producer = self._graph.producer(op, source[0])
        if producer is None:
            return Counterpart(NOT_COMPARED, "its producer %s is not in the model file" % source[0])
        counterpart = self.of_output(producer, source[1])
        if counterpart.status != PAIR and self._graph.fx and producer.type in _SOURCE_TYPES:
            counterpart = (
                self._as_fx_reads_it(op, number, desc_at(producer.output_descs, source[1]))
                or counterpart
            )
        if counterpart.status == PAIR or counterpart.golden_op is not None:
            return with_reading_shape(counterpart, desc_at(op.input_descs, number))
        return Counterpart(
            counterpart.status, "input from %s:%d: %s" % (source[0], source[1], counterpart.reason)
        )

    def _as_fx_reads_it(self, op: OpNode, number: int, made: TensorDesc) -> Optional[Counterpart]:
        """Return the golden tensor of a model input or constant: what FX, or the unfused build, fed
        to the op; None if unknown.

        FX numbers its inputs differently, so the input is matched by the declared shape.
        """
        if self._graph.unfused:
            has_golden = op.originals == (op.name,) and self._has_golden(op.name, 0)
            return Counterpart(PAIR, "", op.name, number, golden_kind=INPUT) if has_golden else None
        for original in op.originals:
            node = original[: -len("OUTPUT")] + "INPUT" if original.endswith(".OUTPUT") else ""
            fits = [
                index
                for index in range(_MOST_INPUTS)
                if node and _fits(made.shape, self._shape_of(node, index))
            ]
            if len(fits) > 1 and number in fits:
                fits = [number]
            if len(fits) == 1:
                return Counterpart(PAIR, "what FX fed to the node, by its shape", node, fits[0])
        return None

    def of_output(self, op: OpNode, index: int) -> Counterpart:
        """Return the counterpart of output ``index`` of ``op``, walking back through Cast and
        TransData.
        """
        path: List[Tuple[int, int]] = []
        walked = set()
        while True:
            key = (op.position, index)
            if key in self._cache:
                counterpart = self._cache[key]
                break
            if key in walked:
                counterpart = Counterpart(
                    NOT_COMPARED, "Cast and TransData form a cycle at %s" % op.name
                )
                break
            walked.add(key)
            path.append(key)
            step = (
                self._step_back(op)
                if (op.type in FOLLOWING_TYPES and op.position not in self._stretch)
                or op.type == AIPP
                else None
            )
            if step is None:
                counterpart = self._by_own_desc(op, index)
                if counterpart.status == NOT_COMPARED and op.type in ITERATOR_TYPES:
                    counterpart = Counterpart(
                        EXPECTED_ABSENT,
                        "%s hands out training data; %s" % (op.name, counterpart.reason),
                    )
                break
            producer = self._graph.producer(op, step[0])
            if producer is None:
                counterpart = Counterpart(
                    NOT_COMPARED,
                    "%s, which precedes %s, is not in the model file" % (step[0], op.name),
                )
                break
            op, index = producer, step[1]
        for key in path:
            self._cache[key] = counterpart
        return counterpart

    def _step_back(self, op: OpNode) -> Optional[Tuple[str, int]]:
        """Return the data input of a Cast or TransData; None for a Cast with a golden tensor of its
        own."""
        if op.type == "Cast" and self._cast_original(op) is not None:
            return None
        return next((source for source in op.inputs if source is not None), None)

    def _cast_original(self, op: OpNode) -> Optional[Tuple[str, int]]:
        """Return the golden tensor of a Cast of the original model (it may change values), or
        None."""
        if not op.originals or not self._groups.stands_alone(op):
            return None
        desc = desc_at(op.output_descs, 0)
        name = op.originals[0] if len(op.originals) == 1 else desc.origin_name
        if name not in op.originals:
            return None
        index = (desc.origin_index or 0) if desc.origin_name == name else 0
        return (name, index) if self._has_golden(name, index) else None

    def _by_own_desc(self, op: OpNode, index: int) -> Counterpart:
        """Return the counterpart of an output from the attributes of its own op."""
        desc = desc_at(op.output_descs, index)
        reason = self.expected_absent(op)
        if reason is not None:
            return Counterpart(EXPECTED_ABSENT, reason)
        if is_quant(op):
            return Counterpart(
                EXPECTED_ABSENT,
                "quantised by %s: it has no counterpart in the golden model" % op.name,
            )
        if op.type in _SOURCE_TYPES:
            return self._of_source(op, index, desc)
        if op.type in FOLLOWING_TYPES:
            original = self._cast_original(op) if op.type == "Cast" else None
            if original is None:
                return Counterpart(
                    NOT_COMPARED, "nothing precedes %s (%s) in the model file" % (op.name, op.type)
                )
            return self._pair(original[0], original[1], desc)
        inner = self.without_rows(op)
        if inner is not None:
            return Counterpart(EXPECTED_ABSENT, "%s is %s" % (op.name, inner))
        if desc.origin_name == "":
            return Counterpart(
                EXPECTED_ABSENT,
                "its origin name is empty: it has no counterpart in the golden model",
            )
        if desc.origin_name is not None:
            return self._of_origin_name(op, index, desc, desc.origin_name)
        if len(op.originals) == 1 and self._groups.stands_alone(op):
            return self._pair(op.originals[0], index, desc)
        if self._is_inner_value(op, index):
            return Counterpart(
                EXPECTED_ABSENT,
                "an inner value of %s, which several ops compute: it has no golden" % _named(op),
            )
        return Counterpart(
            NOT_COMPARED, "the model file does not say which output of %s this is" % _named(op)
        )

    def _is_inner_value(self, op: OpNode, index: int) -> bool:
        """Return whether an output without origin name is read only by ops made from the same
        originals.

        True if the group names the originals' outputs elsewhere, or only the group reads this one.
        """
        members = self._groups.of(op).ops
        if len(members) < 2:
            return False
        if any(
            desc.origin_name in op.originals for member in members for desc in member.output_descs
        ):
            return True
        takers = self._graph.consumers(op, index)
        return bool(takers) and all(taker in members for taker in takers)

    def _of_source(self, op: OpNode, index: int, desc: TensorDesc) -> Counterpart:
        names = [op.name] + [name for name in op.originals if not self._groups.carriers(name)]
        if op.type in INPUT_TYPES:
            names += [name for name in (desc.origin_name,) + op.originals if name]
        for name in names:
            if self._has_golden(name, index):
                return self._pair(name, index, desc)
        if desc.origin_name and not self._groups.carriers(desc.origin_name):
            origin_index = index if desc.origin_index is None else desc.origin_index
            if self._has_golden(desc.origin_name, origin_index):
                return self._pair(desc.origin_name, origin_index, desc)
        return Counterpart(
            EXPECTED_ABSENT, "%s is a %s and has no golden data" % (op.name, op.type)
        )

    def _of_origin_name(self, op: OpNode, index: int, desc: TensorDesc, name: str) -> Counterpart:
        origin_index = index if desc.origin_index is None else desc.origin_index
        if name in op.originals or self._has_golden(name, origin_index):
            return self._pair(name, origin_index, desc)
        # A name invented by the parser: the op still equals the original if nothing else was
        # made from it.
        if (
            len(op.originals) == 1
            and self._groups.carriers(op.originals[0]) == 1
            and self._groups.stands_alone(op)
        ):
            original = op.originals[0]
            if self._has_golden(original, index):
                note = "the origin name %s has no golden; paired with the only original, %s" % (
                    name,
                    original,
                )
                return self._pair(original, index, desc, note)
        note = "; a name that the parser made" if name.startswith(_PARSER_MADE) else ""
        return self._pair(name, origin_index, desc, note)

    def _pair(self, name: str, index: int, desc: TensorDesc, note: str = "") -> Counterpart:
        shape = desc.origin_shape
        if any(size < 0 for size in desc.shape) and len(desc.shape) == len(shape or ()):
            # Of an input of all gears the original shape may be that of one of them.
            shape = desc.shape
        if self._has_golden(name, index):
            return Counterpart(PAIR, note, name, index, desc.origin_format, shape)
        reason = "no golden file for %s:%d (%s.%d.*)" % (name, index, sanitise_golden(name), index)
        why = self._no_match_reason(name, index)
        reason += ": " + why if why else ""
        return Counterpart(NOT_COMPARED, reason + note, name, index, desc.origin_format, shape)


def _fits(declared: Shape, shape: Optional[Shape]) -> bool:
    """Return whether a shape matches the declared one (negative: any size). False for scalars."""
    if not declared or shape is None or len(declared) != len(shape):
        return False
    return all(mine in (size, -1) for mine, size in zip(declared, shape))


def with_reading_shape(counterpart: Counterpart, desc: TensorDesc) -> Counterpart:
    """Return the counterpart with ``reshaped`` set if ``desc`` declares another shape than the
    producer.
    """
    return (
        replace(counterpart, reshaped=desc.origin_shape)
        if _is_reshaped(counterpart.origin_shape, desc.origin_shape)
        else counterpart
    )


def _is_reshaped(made: Optional[Shape], read: Optional[Shape]) -> bool:
    """Return whether a tensor is read in another shape than it is made in. The same sizes in
    another order do not count: that may be a transpose.
    """
    if (
        made is None
        or read is None
        or made == read
        or min(*made, *read, 1) < 1
        or element_count(made) != element_count(read)
    ):
        return False
    return sorted(size for size in made if size != 1) != sorted(size for size in read if size != 1)


def _named(op: OpNode) -> str:
    return listed(op.originals, 3)


class CounterpartCache:
    """The counterparts of each model, shared by all devices and steps that are compared
    with the same golden data.
    """

    def __init__(self) -> None:
        self._cache: Dict[
            Tuple[ModelGraph, GoldenSet, Optional[Place]], Tuple[int, Counterparts]
        ] = {}

    def of(self, graph: ModelGraph, golden: GoldenSet, place: Place) -> Counterparts:
        """Return the counterparts of a model at a place for the golden data present now."""
        at = place if golden.dumps.several_places else None
        revision, counterparts = self._cache.get((graph, golden, at), (-1, None))
        if counterparts is None:
            counterparts = Counterparts(
                graph,
                groups_of(graph),
                lambda op, index: golden.find(op, index, "output", at) is not None,
                golden.no_match_reason,
                lambda op, index: golden.shape(op, index, at),
            )
        elif revision != golden.revision:
            # Golden files were added or removed since.
            counterparts.forget()
        self._cache[graph, golden, at] = (golden.revision, counterparts)
        return counterparts
