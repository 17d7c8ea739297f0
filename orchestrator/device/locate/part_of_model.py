"""An om that holds a part of the original model: which of the model's values its inputs are."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from typing import Dict, List, Mapping, Optional, Set, Tuple

from ...base.atomic_writing import atomic_text_writer
from ...base.manifest import read_manifest
from ...base.naming import printable
from ...base.notes import note
from ...base.safe_reading import open_input
from ...base.wording import listed
from ...model.graph import ModelGraph
from ...model.never_dumped import INPUT_TYPES
from ...model.om_interface import OmInterface
from ...model.omjson import parse_json
from ...recomputing.submodel.device_ops import KEEPING, DeviceOps
from ...recomputing.submodel.read_original import Original
from ...recomputing.submodel.read_original import read_original as read_nodes
from .original_model import CAFFE, ONNX, TENSORFLOW, ModelInput, OriginalModel
from .plan import Plan, Problem

PART_JSON = "part.json"
_ORIGIN_NAME, _ORIGIN_INDEX = "_datadump_origin_name", "_datadump_origin_output_index"
_FIELD = -1
"""The number of an ``input`` field of a Caffe net among the sources of its layers."""

_TAKEN_OUT = KEEPING | {"Cast", "Transpose"}
"""Types of nodes that a compiler may take out where they come first."""


def takes_inner_values(
    plan: Plan,
    original: OriginalModel,
    om: OmInterface,
    graph: ModelGraph,
    files: Dict[str, str],
    folder: str,
) -> bool:
    """Have inputs of the om that are values inside of MODEL, where the om holds a part of it, fed
    with what golden data have for them; return False, and a problem, where that cannot be.

    The plan's json becomes one in ``folder`` that tells which values they are: so what reads them
    is compared, and computed again.
    """
    known = {each.name for each in original.inputs}
    if original.kind not in (CAFFE, ONNX, TENSORFLOW) or all(
        each.name in known for each in om.inputs
    ):
        return True
    nodes = read_nodes(original.path)
    # A node's own name is that of its first output where the framework names no values.
    makers = {name: (name, 0) for name in nodes.names}
    for name, tensors in zip(nodes.names, nodes.tensors):
        makers.update((tensor, (name, number)) for number, tensor in enumerate(tensors) if tensor)
    inner: Dict[str, Tuple[str, int]] = {}
    taken: Set[str] = set()
    for each in om.inputs:
        if each.name in known:
            continue
        if each.name in makers:
            inner[each.name] = makers[each.name]
            continue
        # A name that MODEL does not know: the operators that read the input tell what it is.
        values = _read_as(each.name, graph, nodes)
        if any(name in known for name, _ in values):
            taken.update(name for name, _ in values)
        elif len(values) == 1:
            inner[each.name] = values[0]
        elif values:
            reason = "the om's input %s is one of these values inside MODEL: %s" % (
                printable(each.name),
                listed(["output %d of %s" % (index, printable(name)) for name, index in values], 6),
            )
            plan.problems.append(Problem(reason, "cut MODEL so that the input keeps its name"))
            return False
    if not inner:
        return True
    what = "; ".join("%s, which %s computes" % (name, maker) for name, (maker, _) in inner.items())
    golden = plan.request.golden
    if golden is None:
        given = {each.name: files.get(each.name, "FILE") for each in original.inputs}
        command = original.golden_command(given, "golden", plan.request.python)
        plan.problems.append(
            Problem(
                "the om holds a part of MODEL only: its inputs are values inside: %s" % what,
                "give golden data of the whole model, from which they are taken: %s; then the same "
                "command with --golden golden instead of -i" % " ".join(map(shlex.quote, command)),
            )
        )
        return False
    manifest = read_manifest(golden)
    recorded = {
        (entry.get("original_name") or entry.get("op"), entry.get("output_index")): entry
        for entry in (manifest or {}).get("tensors", ())
    }
    taken.update(each.name for each in om.inputs)
    inputs = [each for each in original.inputs if each.name in taken]
    for name, maker in inner.items():
        entry = recorded.get(maker)
        if entry is None:
            plan.problems.append(
                Problem(
                    "the om's input %s is a value inside MODEL, and %s has no golden data of it: "
                    "output %d of %s" % (name, golden, maker[1], maker[0]),
                    "make golden data of the whole model",
                )
            )
            return False
        inputs.append(ModelInput(name, entry["dtype"], tuple(entry["shape"])))
    for fed in inputs:
        # Inputs of MODEL that the om has, too, are recorded as the values inside it are.
        entry = recorded.get(inner.get(fed.name, (fed.name, 0)))
        if entry is not None:
            files.setdefault(fed.name, os.path.join(golden, entry["file"]))
    plan.original = dataclasses.replace(original, inputs=tuple(inputs))
    path = os.path.join(folder, PART_JSON)
    _write_json_of_part(om.path, inner, path)
    plan.interface = dataclasses.replace(om, path=path)
    plan.notes.append(note("half-of-model", what))
    return True


def _read_as(name: str, om: ModelGraph, original: Original) -> List[Tuple[str, int]]:
    """Return the values of MODEL, as node and output, that an input of the om may be, by the nodes
    of the operators that read it: what they read and no operator of the om computes.
    """
    ops = DeviceOps(om, original)
    sources = original.graph.sources
    possible: Optional[Set[Tuple[int, int]]] = None
    waiting = [op for op in om.ops if op.name == name and op.type in INPUT_TYPES]
    seen = set()
    while waiting:
        fed = waiting.pop()
        for reader in om.consumers(fed):
            if reader.position in seen:
                continue
            seen.add(reader.position)
            own = ops.originals(reader)
            if not own:  # A Cast or TransData that the compiler put in.
                waiting.append(reader)
                continue
            read = [value for number in own for value in sources[number]]
            places = [
                place
                for place, source in enumerate(reader.inputs)
                if source is not None and om.producer(reader, source[0]) is fed
            ]
            if len(own) == 1 and len(read) == len(reader.inputs):
                read = [read[place] for place in places]
            outside = {
                value
                for value in read
                if value[0] == _FIELD
                or (value[0] >= 0 and not original.is_constant(value[0]) and not ops.of(value[0]))
            }
            possible = outside if possible is None else possible & outside or outside
    values = []
    for value in sorted(possible or ()):
        source = value
        while source[0] >= 0 and original.types[source[0]] in _TAKEN_OUT and sources[source[0]]:
            source = sources[source[0]][0]
        # Behind an input of the whole model a compiler takes such a node out.
        number, index = source if source[0] < 0 or not sources[source[0]] else value
        name = original.names[number] if number >= 0 else original.input_fields[index]
        values.append((name, index if number >= 0 else 0))
    return values


def _write_json_of_part(path: str, inner: Mapping[str, Tuple[str, int]], new: str) -> None:
    """Write the json of an om with the origin of each input that is the output of an operator of
    the original model.
    """
    with open_input(path) as stream:
        document, _ = parse_json(stream.read(), path, every=True)
    for graph in document.get("graph", ()):
        for op in graph.get("op", ()):
            if op.get("type") in INPUT_TYPES and op.get("name") in inner:
                name, index = inner[op["name"]]
                for desc in op.get("output_desc", ()):
                    desc["attr"] = [
                        *(
                            entry
                            for entry in desc.get("attr", ())
                            if entry.get("key") not in (_ORIGIN_NAME, _ORIGIN_INDEX)
                        ),
                        {"key": _ORIGIN_NAME, "value": {"s": name}},
                        {"key": _ORIGIN_INDEX, "value": {"i": index}},
                    ]
    os.makedirs(os.path.dirname(new) or ".", exist_ok=True)
    with atomic_text_writer(new) as stream:
        json.dump(document, stream)
