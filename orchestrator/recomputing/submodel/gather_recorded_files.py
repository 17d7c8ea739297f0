"""Gathers the recorded files of a cut: dumps of its ops and their producers, golden data of its
nodes, and what is missing.
"""

from __future__ import annotations

import os
from dataclasses import field
from typing import Dict, Iterable, List, Optional, Set, Tuple

from ...base.fast_dataclasses import dataclass
from ...base.naming import MAPPING_FILE, is_hash_name, mapping_line, read_mapping, sanitise_device
from ...dumps.folder_listing import DumpEntry
from ...dumps.golden_set import GoldenSet
from ...model.absent_ops import Absence
from ...model.op_node import OpNode
from .cut_definition import Cut
from .device_ops import DeviceOps
from .dumps_by_op import DumpsByOp
from .read_original import Original

OP, PRODUCER, INSERTED = "op", "producer", "inserted"


@dataclass(frozen=True)
class Gathered:
    """A dump file of the export.

    Attributes
    ----------
    path
        Path of the file.
    op, layers
        The op, and the nodes of the cut that it computes.
    role
        ``op`` (of the cut), ``producer`` (of an input) or ``inserted`` (Cast, TransData).
    inputs
        The files of the ops that compute its inputs.
    """

    path: str
    op: str
    layers: Tuple[str, ...]
    role: str
    inputs: Tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file's name, which does not change."""
        return os.path.basename(self.path)


@dataclass
class Collection:
    """All recorded files of the export, and ``(what, reason)`` of missing ones."""

    dumps: List[Gathered] = field(default_factory=list)
    goldens: List[str] = field(default_factory=list)
    missing: List[Tuple[str, str]] = field(default_factory=list)
    older: List[DumpEntry] = field(default_factory=list)

    def add_damage(self, op: str, damage: str) -> None:
        """Record the dump of an op as missing if it cannot be read."""
        if damage:
            self.missing.append(("dump of op %s" % op, "damaged: " + damage))


def gather_dumps(
    collection: Collection,
    original: Original,
    cut: Cut,
    core: Set[int],
    dumps: DumpsByOp,
    ops: Optional[DeviceOps],
) -> None:
    """Add the dumps of a cut's ops, of the producers of their inputs and of the ops that the
    compiler inserted between.

    Parameters
    ----------
    core
        The nodes of the cut without constants that come along.
    ops
        None where no om json is given: then each node's own name is its op's.
    """
    if ops is None:
        _gather_by_name(collection, original, cut, core, dumps)
    else:
        _gather_by_model(collection, original, core, dumps, ops)


def _gather_by_model(
    collection: Collection, original: Original, core: Set[int], dumps: DumpsByOp, ops: DeviceOps
) -> None:
    files = {
        op.position: dumps.files(op.name, op.type)
        for op in ops.om.ops
        if sanitise_device(op.name) in dumps.op_names
    }
    has_file = {position for position, entries in files.items() if entries}
    absence = Absence(ops.om, dumped=has_file)
    members = ops.touched(core)
    roles: Dict[int, Tuple[OpNode, str]] = {op.position: (op, OP) for op in members}
    for op in ops.inserted(core):
        roles.setdefault(op.position, (op, INSERTED))
    feeding = {position: ops.before(op, has_file) for position, (op, role) in roles.items()}
    for op in [op for ways in feeding.values() for way in ways for op in way]:
        roles.setdefault(op.position, (op, INSERTED if not op.originals else PRODUCER))
    for position, (op, role) in sorted(
        roles.items(), key=lambda item: (item[1][0].graph_index, item[1][0].id, item[0])
    ):
        layers = tuple(original.names[number] for number in ops.originals(op) if number in core)
        inputs = tuple(
            entry.path for way in feeding.get(position, ()) for entry in files[way[-1].position]
        )
        collection.older += dumps.older(op.name, op.type)
        for entry in files.get(position, ()):
            collection.dumps.append(Gathered(entry.path, op.name, layers, role, inputs))
        if role == OP and not files.get(position) and absence.reason(op) is None:
            collection.missing.append(("dump of op %s" % op.name, "no file of this op in the dump"))
        collection.add_damage(op.name, dumps.dump(op.name, op.type)[1])
    computed = {number for op in members for number in ops.originals(op)}
    for number in sorted(core - computed):
        if original.types[number] not in _WITHOUT_OP:
            collection.missing.append(
                (
                    "op of %s %s" % (original.noun, original.names[number]),
                    "no op of the om json computes it",
                )
            )


_WITHOUT_OP = frozenset(
    [
        "Input",
        "Placeholder",
        "PlaceholderWithDefault",
        "Const",
        "Identity",
        "Dropout",
        "Split",
        "NoOp",
        "Silence",
    ]
    + ["Constant", "Flatten", "Reshape", "Squeeze", "Unsqueeze"]
)
"""Types of nodes that the compiler removes or turns into inputs; without an op nothing is missing.
"""


def _gather_by_name(
    collection: Collection, original: Original, cut: Cut, core: Set[int], dumps: DumpsByOp
) -> None:
    names = [(original.names[number], OP) for number in sorted(core)]
    names += [(entry.producer, PRODUCER) for entry in cut.inputs if not entry.unchanged]
    producers = {reader: entry.producer for entry in cut.inputs for reader, _ in entry.readers}
    numbers = {name: number for number, name in enumerate(original.names)}
    for name, role in dict.fromkeys(names):
        entries = dumps.files(name)
        before = (
            [
                original.names[source]
                for source, _ in original.graph.sources[numbers[name]]
                if source >= 0
            ]
            if name in numbers
            else []
        )
        inputs = tuple(
            entry.path
            for other in dict.fromkeys(before + [producers.get(name, "")])
            for entry in dumps.files(other)
        )
        collection.older += dumps.older(name)
        for entry in entries:
            collection.dumps.append(
                Gathered(entry.path, name, (name,) if role == OP else (), role, inputs)
            )
        if role == OP and not entries and original.types[numbers[name]] not in _WITHOUT_OP:
            reason = (
                "no file of this name in the dump; fused or renamed ops are found with the om json"
            )
            collection.missing.append(("dump of op %s" % name, reason))
        collection.add_damage(name, dumps.dump(name)[1])


def gather_goldens(
    collection: Collection, original: Original, cut: Cut, core: Set[int], golden: GoldenSet
) -> None:
    """Add the golden files of a cut's nodes and of what is handed to it; those of the ends and of
    the inputs must be there.
    """
    required: Dict[Tuple[str, int], bool] = {}
    for number in sorted(core):
        for index in range(len(original.tensors[number])):
            required[original.names[number], index] = original.kind == "caffe"
    for output in cut.outputs:
        required[output.op, output.output_index] = output.is_end and (
            original.kind != "tensorflow" or output.output_index == 0
        )
    for entry in cut.inputs:
        required[entry.producer, entry.output_index] = True
    for (name, index), needed in required.items():
        file = golden.find(name, index)
        if file is not None:
            collection.goldens.append(file.path)
        elif needed:
            collection.missing.append(
                ("golden of %s:%d" % (name, index), "no file of it in the golden data")
            )
    collection.goldens = list(dict.fromkeys(collection.goldens))


def mapping_lines(paths: Iterable[str]) -> str:
    """Return the lines of the mapping.csv that explain the hash names among some files; empty when
    none has one.
    """
    known: Dict[str, Dict[str, str]] = {}
    lines: List[str] = []
    for path in paths:
        folder, name = os.path.split(path)
        if not is_hash_name(name):
            continue
        if folder not in known:
            known[folder] = read_mapping(os.path.join(folder, MAPPING_FILE))
        lines += [
            mapping_line(key, known[folder][key])
            for key in (name, os.path.splitext(name)[0])
            if key in known[folder]
        ][:1]
    return "".join(dict.fromkeys(lines))
