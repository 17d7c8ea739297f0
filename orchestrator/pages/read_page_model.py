"""Reads a model's own file as a network to look at: the json of an om, a prototxt, a frozen
GraphDef or an ONNX model.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional

from ..dumps.golden_set import GoldenSet
from ..errors import FormatError
from ..filesystem.safe_reading import AnyPath, path_text
from ..kinds import kind as kinds
from ..kinds.files import kind_of_file
from ..model.never_dumped import no_dump_reason
from ..model.read_model import load_with_parameters
from ..store.stored_networks import network_document
from ..submodel.read_original import Original, read_original
from ..text.wording import listed
from .network_drawing import NetworkOp, desc_text, network_ops
from .original_network import choice_of, no_choice, original_network

OM = "om"
_ORIGINALS = (".prototxt", ".pb", ".pbtxt", ".onnx")
_OMS = (".json", ".txt", ".om")
_SAVED = "saved_model.pb"
_MOST_NAMES = 3
_COMPILERS = "the compiler made this op: no node of the original model is behind it"
_TOLD_ALREADY = frozenset(["_datadump_original_op_names", "_datadump_is_multiop"])


class PageModel(NamedTuple):
    """A network and what there is to say about each of its ops.

    Attributes
    ----------
    kind
        ``om``, ``caffe``, ``tensorflow`` or ``onnx``.
    details
        Of each op ``{"type", "originals": [name] or null, "inputs": [[number of the producer or
        null, words, …]], "outputs": [words], "parameters": [[name, words]], "start", "end", "why",
        "layer"}``: the original nodes by which a part of the model begins and ends here (null: it
        cannot), why it cannot, and the name by which a dump configuration has it (null: it has no
        dump). An input of an original's node has its tensor and what a cut that it comes into is to
        be told of its shape (``1,3,224,224``, ``?`` for what nobody knows; null: nothing) as well;
        so has, as ``asked``, a node that is an input of the model.
    """

    kind: str
    name: str
    path: str
    ops: List[NetworkOp]
    details: List[Dict[str, Any]]


def read_page_model(path: AnyPath, golden: Optional[str] = None) -> PageModel:
    """Read a model of any kind by what its file holds, else by its name.

    Parameters
    ----------
    golden
        A folder of golden data that tells the shapes of an original model's values.

    Raises
    ------
    MissingPath, InputError, FormatError
        As the reader of its kind.
    """
    path = path_text(path, "MODEL")
    _refuse_folder(path)
    if _is_compiled(path):
        return _of_om(path)
    original = read_original(path)
    ops, details = original_network(original, None if golden is None else GoldenSet(golden))
    return PageModel(original.kind, original.name or os.path.basename(path), path, ops, details)


def _refuse_folder(path: str) -> None:
    """Refuse a folder of models, such as GE's graphs, by the names that are in it; of others their
    reader says what to do.
    """
    names = (
        sorted(name for name in os.listdir(path) if name.lower().endswith((*_OMS, *_ORIGINALS)))
        if os.path.isdir(path)
        else []
    )
    if names and _SAVED not in names:
        raise FormatError(
            "%s is a folder" % path,
            hint="name one of the files in it: %s" % listed(names, _MOST_NAMES),
        )


def within(model: PageModel, original: Original) -> PageModel:
    """Return an om's network in which a part begins and ends only at ops that are nodes of this
    original model.
    """

    def cuttable(detail: Dict[str, Any]) -> Dict[str, Any]:
        ends = {which: detail[which] for which in ("start", "end") if detail[which] is not None}
        missing = [name for name in ends.values() if len(original.numbers(name)) != 1]
        if not missing:
            return detail
        why = "%s is not one node of the original model's file" % missing[0]
        return dict(
            detail, why=why, **{which: None for which, name in ends.items() if name in missing}
        )

    return model._replace(details=[cuttable(detail) for detail in model.details])


def _is_compiled(path: str) -> bool:
    """Tell whether the reader of compiled models is to take a file, or to say what it is
    instead.
    """
    lower = path.lower()
    if not os.path.isfile(path):
        return lower.endswith(_OMS)
    kind = kind_of_file(path).name
    if kind in kinds.ORIGINALS:
        return False
    untold = kind in (kinds.RAW, kinds.TEXT, kinds.PROTOBUF, kinds.EMPTY, kinds.SOLVER, kinds.LFS)
    return (
        lower.endswith(_OMS)
        or not (untold or lower.endswith(_ORIGINALS))
        or kind in (kinds.GE_ONNX, kinds.GE_READABLE, kinds.GE_TEXT)
    )


def _of_om(path: str) -> PageModel:
    graph, parameters = load_with_parameters(path)
    document = network_document(graph)
    ops = network_ops(document)
    details = []
    for node, op, drawn, op_parameters in zip(graph.ops, document["ops"], ops, parameters):
        sources = iter(drawn.inputs)
        inputs = []
        for number, source in enumerate(op["inputs"]):
            descs = op["input_descs"]
            producer = (
                None
                if source is None or graph.producer(node, source[0]) is None
                else next(sources).source
            )
            inputs.append([producer, _desc_words(descs[number]) if number < len(descs) else ""])
        originals = node.originals
        choice = choice_of(originals[0], originals[-1]) if originals else no_choice(_COMPILERS)
        detail = {
            "type": op["type"],
            "originals": op["originals"],
            "inputs": inputs,
            "outputs": [_desc_words(desc) for desc in op["output_descs"]],
            "parameters": [list(entry) for entry in op_parameters if entry[0] not in _TOLD_ALREADY],
            "layer": op["name"] if no_dump_reason(node) is None else None,
        }
        details.append(dict(detail, **choice))
    return PageModel(OM, graph.name, path, ops, details)


def _desc_words(desc: Dict[str, Any]) -> str:
    """Return what is known of a device's tensor: element type, shape and layout, and the original
    ones where they differ.
    """
    words = "%s %s" % (desc["dtype"].replace("DT_", "").lower(), desc_text(desc))
    shape, layout = desc["origin_shape"], desc["origin_layout"]
    if (shape is not None and shape != desc["shape"]) or (layout and layout != desc["layout"]):
        words += ", originally %s %s" % (
            ",".join(map(str, shape if shape is not None else desc["shape"])) or "scalar",
            layout or "",
        )
    return words.strip()
