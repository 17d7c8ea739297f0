"""Plans an export: nodes, border, values, files and warnings; writes nothing."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ...base.errors import EXIT_INCOMPLETE, EXIT_PASS, InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable, run_name, sanitise_device
from ...base.notes import Note, note
from ...dumps.dump_index import DumpIndex
from ...dumps.golden_set import GoldenSet
from ...model.graph import ModelGraph
from ...model.read_model import load_model
from ...netfiles.caffemodel_cut import CaffeModel
from .caffe_original import CaffeOriginal
from .caffemodel_check import check_weights, find_weights
from .cut_definition import Cut, DeclaredType, Shape
from .device_ops import DeviceOps, SpanningOp
from .dumps_by_op import DumpsByOp
from .gather_recorded_files import Collection, gather_dumps, gather_goldens
from .incoming_values import GOLDEN, TARGET, Border, Borders
from .input_file_plan import FLOAT16, InputFile, input_files
from .node_names import chosen_nodes
from .read_original import Original, read_original

_MOST_DIMS = 4
_SHOWN = 5


class NeedsOm(UsageError):
    """The request needs the om json (exit code 2)."""

    kind = "needs_om"


@dataclass(frozen=True)
class SubmodelOptions:
    """The cut to make, and the files that go with it.

    Attributes
    ----------
    model
        A prototxt, a frozen ``.pb``, or an ``.onnx``.
    starts, ends
        Names of nodes; several of each may be given.
    weights
        The ``.caffemodel``; None: the one beside ``model`` with its stem, if any.
    om, dump, golden
        The om's json, the device's dumps of the whole model, its golden data; None where not given.
    inputs, shapes
        By name of the new input, or of its blob or tensor: a ``.npy`` file; a shape.
    whole_ops
        Grow the cut until no op of the device spans its border.
    input_from
        ``target`` or ``golden``: whose values are the inputs where both have them; None: target's.
    bin
        What floats are in ``.bin`` files: ``float16``, ``float32``; ``none`` for no such files.
    """

    model: str
    starts: Sequence[str] = ()
    ends: Sequence[str] = ()
    weights: Optional[str] = None
    om: Optional[str] = None
    dump: Optional[str] = None
    golden: Optional[str] = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    whole_ops: bool = False
    input_from: Optional[str] = None
    bin: str = FLOAT16


@dataclass
class Sources:
    """The files of :class:`SubmodelOptions`, read; several cuts of one model share them."""

    original: Original
    weights: Optional[CaffeModel]
    om: Optional[ModelGraph]
    ops: Optional[DeviceOps]
    dumps: Optional[DumpsByOp]
    golden: Optional[GoldenSet]


@dataclass
class Plan:
    """The contents of an export.

    Attributes
    ----------
    core
        The nodes of the cut without pulled-in constants.
    starts, ends
        Names after the cut has grown; ``requested`` those before.
    files
        The input files by the input's name, as far as there are values.
    warnings
        What is doubtful of it.
    notes
        Other remarks.
    declared_ends
        Types and shapes of the outputs of an ONNX sub-model, as far as known.
    weights
        None if there is no file of weights.
    """

    original: Original
    om: Optional[ModelGraph]
    ops: Optional[DeviceOps]
    weights: Optional[CaffeModel]
    cut: Cut
    core: Set[int]
    starts: List[str]
    ends: List[str]
    requested: Dict[str, List[str]]
    borders: List[Border]
    spanning: List[SpanningOp]
    gathered: Collection
    files: Dict[str, InputFile]
    warnings: List[Note]
    notes: List[Note]
    search: Optional[Dict[str, Any]] = None
    declared_ends: Dict[str, DeclaredType] = field(default_factory=dict)

    @property
    def halves(self) -> List[str]:
        """The inputs whose ``.bin`` is float16, by the names that the compiled cut gives them: a V1
        net's are its blobs.
        """
        halves = [
            border
            for border, file in self.inputs()
            if file is not None and file.bin_dtype == FLOAT16
        ]
        entries = [border.entry for border in halves if border.dtype != FLOAT16]
        return [
            entry.tensor if self.original.is_v1 and not entry.unchanged else entry.name
            for entry in entries
        ]

    def inputs(self) -> List[Tuple[Border, Optional[InputFile]]]:
        """Return the inputs with their files."""
        return [(border, self.files.get(border.entry.name)) for border in self.borders]

    @property
    def exit_code(self) -> int:
        """0, or 3 when a dump, an input or golden data that should be there is missing."""
        return EXIT_INCOMPLETE if self.gathered.missing else EXIT_PASS


def open_sources(options: SubmodelOptions) -> Sources:
    """Read the model and list what goes with it.

    Raises
    ------
    UsageError
        Weights are given for another model than a prototxt.
    InputError
        A file is missing or damaged, or of another model.
    """
    original = read_original(options.model)
    weights = options.weights
    if not original.weights_apart:
        if weights is not None:
            raise UsageError("this model holds its weights itself: a file of weights is for Caffe")
    elif weights is None:
        weights = find_weights(options.model)
    om = None if options.om is None else load_model(options.om)
    ops = None if om is None else DeviceOps(om, original)
    dumps = None
    if options.dump is not None:
        dumps = DumpsByOp(
            options.dump, [original.name] + ([om.name, *om.graph_names] if om is not None else [])
        )
        known = (
            {sanitise_device(op.name) for op in om.ops}
            if om is not None
            else {sanitise_device(name) for name in original.names}
        )
        if not known & dumps.op_names:
            shown = ", ".join(printable(name) for name in sorted(dumps.op_names)[:_SHOWN])
            raise InputError(
                "%s is of another model: none of its %d ops (%s …) is one of %s"
                % (
                    dumps.folder,
                    len(dumps.op_names),
                    shown,
                    "the om json" if om is not None else "this model",
                ),
                hint="give the dumps of this model"
                if om is not None
                else "give the om json as well: the compiler fuses and renames ops",
            )
    golden = None if options.golden is None else DumpIndex(options.golden, "GOLDEN").golden()
    if golden is not None and not len(golden):
        raise InputError(
            "%s: no golden data in it" % options.golden,
            hint="give the folder that the golden command wrote",
        )
    return Sources(
        original, None if weights is None else CaffeModel(weights), om, ops, dumps, golden
    )


def make_plan(
    options: SubmodelOptions, sources: Sources, search: Optional[Dict[str, Any]] = None
) -> Plan:
    """Plan an export.

    Parameters
    ----------
    search
        How start and end were chosen; stored in submodel.json.

    Raises
    ------
    UsageError
        Start or end is missing, or a file or shape is given for what is no input.
    InputError
        As the message says: an unknown node, no path, an unsupported cut, weights of another net,
        an unknown shape …
    """
    if not options.starts or not options.ends:
        raise UsageError("start and end of the cut are needed: a name of each at least")
    if (
        options.input_from is not None
        and {TARGET: sources.dumps, GOLDEN: sources.golden}[options.input_from] is None
    ):
        what = {TARGET: "the dumps", GOLDEN: "golden data"}[options.input_from]
        raise UsageError("the inputs are to come from %s, which are not given" % what)
    original, ops = sources.original, sources.ops
    starts, ends, inside = chosen_nodes(original, options.starts, options.ends)
    names = {"start": list(dict.fromkeys(options.starts)), "end": list(dict.fromkeys(options.ends))}
    if options.whole_ops:
        starts, ends, inside = _grown_to_whole_ops(original, ops, starts, ends, inside)
    starts = _behind_data(original, starts, inside)
    cut = original.cut(inside, starts, ends)
    original.refuse_read_in_bodies(cut)
    along = {number for number in cut.pulled if original.is_constant(number)}
    core = set(cut.layers) - along
    notes, warnings = _notes(sources), _weight_warnings(original, cut, sources.weights)
    if sources.weights is None and any(original.weighted(number) for number in cut.layers):
        notes.append(note("no-weights"))
    spanning = [] if ops is None else ops.spanning(core, along, starts, ends)
    known = _known_borders(options, sources)
    borders = known.of(cut, options.input_from or TARGET)
    plan = Plan(
        original,
        sources.om,
        ops,
        sources.weights,
        cut,
        core,
        [original.names[number] for number in starts],
        [original.names[number] for number in ends],
        names,
        borders,
        spanning,
        _gathered(sources, cut, core),
        input_files(borders, options.bin),
        warnings,
        notes,
    )
    plan.search = search
    for end, number, dtype in original.ends_to_declare(cut):
        dtype, shape = known.dtype_and_shape_of(
            end.tensor, (number, end.output_index), end.op, dtype
        )
        plan.declared_ends[end.tensor] = (
            dtype,
            shape if shape is not None else original.dims(end.tensor),
        )
    _missing_inputs(plan, sources)
    plan.warnings += _warnings(plan, sources, options)
    return plan


def _known_borders(options: SubmodelOptions, sources: Sources) -> Borders:
    original = sources.original
    return Borders(
        original.shapes(),
        sources.ops,
        sources.dumps,
        sources.golden,
        options.inputs,
        options.shapes,
        "float32" if original.kind == "caffe" else "",
        original.dims,
    )


def _gathered(sources: Sources, cut: Cut, core: Set[int]) -> Collection:
    """Return the recorded files of a cut's own nodes."""
    gathered = Collection()
    if sources.dumps is not None:
        gather_dumps(gathered, sources.original, cut, core, sources.dumps, sources.ops)
    if sources.golden is not None:
        gather_goldens(gathered, sources.original, cut, core, sources.golden)
    return gathered


def _grown_to_whole_ops(
    original: Original,
    ops: Optional[DeviceOps],
    starts: List[int],
    ends: List[int],
    inside: Set[int],
) -> Tuple[List[int], List[int], Set[int]]:
    """Return starts, ends and nodes of the cut after adding all nodes of the device ops in it."""
    if ops is None:
        raise NeedsOm(
            "growing to whole ops needs the om json", hint="it says which nodes an op computes"
        )
    grown = ops.grown(inside)
    if not grown - inside:
        return starts, ends, inside
    return _edge(original, grown, True), _edge(original, grown, False), grown


def _weight_warnings(original: Original, cut: Cut, weights: Optional[CaffeModel]) -> List[Note]:
    if not isinstance(original, CaffeOriginal) or weights is None:
        return []
    return check_weights(original, cut.layers, weights)


def _behind_data(original: Original, starts: Sequence[int], inside: Set[int]) -> List[int]:
    """Return the starts with each data layer, which an input replaces, replaced by its readers."""
    behind: List[int] = []
    for number in starts:
        readers = [reader for reader, _, _ in original.graph.readers[number] if reader in inside]
        behind += readers if original.is_data(number) else [number]
    return list(dict.fromkeys(behind))


def _edge(original: Original, inside: Set[int], first: bool) -> List[int]:
    """Return the nodes of a grown cut that read nothing from inside (``first``), or that no node
    inside reads.
    """
    graph = original.graph
    if first:
        return [
            number
            for number in sorted(inside)
            if not any(source in inside for source, _ in graph.sources[number])
        ]
    return [
        number
        for number in sorted(inside)
        if not any(reader in inside for reader, _, _ in graph.readers[number])
    ]


def _missing_inputs(plan: Plan, sources: Sources) -> None:
    """Record the inputs without values as missing, if dumps or golden data are given."""
    if sources.dumps is None and sources.golden is None:
        return
    for border in plan.borders:
        if border.array is None:
            holder = next((op for op in plan.spanning if border.entry.producer in op.outside), None)
            reason = "neither the dump nor the golden data hold %s:%d" % (
                border.entry.producer,
                border.entry.output_index,
            )
            if holder is not None:
                reason += ", a value inside op %s" % holder.op
            plan.gathered.missing.append(("input %s" % border.entry.name, reason))


def _notes(sources: Sources) -> List[Note]:
    notes = []
    om, name = sources.om, sources.original.name
    if om is not None and name and om.name != name:
        notes.append(note("other-om-name", om.name, name))
    model = None if sources.dumps is None else sources.dumps.model
    names = [each for each in [name] + ([] if om is None else [om.name, *om.graph_names]) if each]
    if (
        model is not None
        and names
        and run_name(model) not in [run_name(sanitise_device(each)) for each in names]
    ):
        notes.append(note("other-dump-name", model, names[0]))
    if sources.dumps is not None and sources.ops is None:
        notes.append(note("no-om-json"))
    return notes


def _input_warnings(plan: Plan, sources: Sources, options: SubmodelOptions) -> List[Note]:
    warnings: List[Note] = []
    has_dumps = sources.dumps is not None and options.input_from != GOLDEN
    for border in plan.borders:
        if has_dumps and border.origin == GOLDEN:
            warnings.append(note("golden-input", border.entry.name))
        if plan.original.kind == "onnx" and border.entry.name != border.entry.tensor:
            warnings.append(note("renamed-input", border.entry.name, border.entry.tensor))
        dims = border.shape
        if plan.original.kind == "caffe" and (not dims or len(dims) > _MOST_DIMS or 0 in dims):
            warnings.append(note("atc-dims", border.entry.name, list(dims)))
    return warnings


def _warnings(plan: Plan, sources: Sources, options: SubmodelOptions) -> List[Note]:
    warnings = [note("spanning-op", op.message) for op in plan.spanning]
    warnings += _input_warnings(plan, sources, options)
    for name, (dtype, shape) in plan.declared_ends.items():
        if not dtype or shape is None:
            warnings.append(note("output-shape", name))
    warnings += [
        note("float16-range", name, file.inf, file.zero)
        for name, file in plan.files.items()
        if file.inf or file.zero
    ]
    readers = {reader.op for reader in plan.cut.outside_readers if reader.op not in plan.ends}
    if readers:
        count = "a value inside is" if len(readers) == 1 else "%d values inside are" % len(readers)
        warnings.append(note("fusion", count))
    for entry in plan.gathered.older:
        warnings.append(note("older-dump", os.path.basename(entry.path)))
    if plan.cut.dropped_controls:
        warnings.append(note("control-edges", len(plan.cut.dropped_controls)))
    return warnings
