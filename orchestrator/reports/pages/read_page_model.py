"""Reads a model's own file as a network to look at: the json of an om, a prototxt, a frozen
GraphDef or an ONNX model.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...base.errors import FormatError, GoldwatchError
from ...base.safe_reading import AnyPath, path_text
from ...base.wording import listed
from ...dumps.golden_set import GoldenSet
from ...kinds import kind as kinds
from ...kinds.files import kind_of_file
from ...model.never_dumped import no_dump_reason
from ...model.read_model import load_with_parameters
from ...netfiles.parameters_in_words import Parameters
from ...recomputing.submodel.cut_definition import Shape
from ...recomputing.submodel.node_graph import Value
from ...recomputing.submodel.read_original import Original, read_original
from ...recomputing.submodel.tf_original import MODEL_INPUTS
from ...store.stored_networks import network_document
from .network_drawing import Flow, NetworkOp, desc_text, network_ops, weight_words


def original_network(
    original: Original, golden: Optional[GoldenSet]
) -> Tuple[List[NetworkOp], List[Dict[str, Any]]]:
    """Return the ops of an original model and their details
    (:class:`.read_page_model.PageModel`); a net's input fields come first.
    """
    nodes = _Nodes(original, golden)
    ops = [NetworkOp(blob, "input", ()) for blob in original.input_fields]
    details = [
        detail(
            "input",
            [],
            [nodes.words((-1, index), field)],
            [],
            no_choice("an input of the net is no node"),
        )
        for index, field in enumerate(original.input_fields)
    ]
    for number in range(len(original.names)):
        inputs = nodes.inputs(number)
        ops.append(nodes.op(number, inputs))
        details.append(nodes.details(number, inputs))
    return ops, details


class _Input(NamedTuple):
    """What a node reads: a value, its name and shape in words, and the number of the op that makes
    it, None where no op of the network does.
    """

    value: Value
    tensor: str
    words: str
    source: Optional[int]


class _Nodes:
    """The nodes of an original model, with what is known of the shapes of their values."""

    def __init__(self, original: Original, golden: Optional[GoldenSet]) -> None:
        self._original = original
        self._shapes = _shapes(original, golden)
        self._known = original.shapes()
        self._declared = {
            name: ",".join("?" if dim is None else str(dim) for dim in dims) or "scalar"
            for name, dims in original.declared().items()
        }
        self._parameters = original.parameters()
        # Of constant nodes, by their numbers: "float32 3,3,64,128".
        self._constants = {
            number: value.split(" ")[-1]
            for number, op_parameters in enumerate(self._parameters)
            for name, value in op_parameters
            if name == "value" and original.types[number] in ("Const", "Constant")
        }

    def inputs(self, number: int) -> List[_Input]:
        """Return what a node reads."""
        first = len(self._original.input_fields)
        inputs = []
        for place, value in enumerate(self._original.graph.sources[number]):
            producer, index = value
            if producer == -1:
                tensor = self._original.input_fields[index]
            elif producer < 0:
                tensor = self._original.unmade_name(number, place)
            else:
                tensor = self._original.tensors[producer][index]
            source = None if producer < -1 else index if producer == -1 else producer + first
            inputs.append(_Input(value, tensor, self.words(value, tensor), source))
        return inputs

    def op(self, number: int, inputs: Sequence[_Input]) -> NetworkOp:
        """Return a node as it is drawn."""
        original = self._original
        weights = [shape_words(shape) for shape in original.weight_shapes(number, self._shapes)]
        weights += [
            self._declared[entry.tensor]
            for entry in inputs
            if entry.source is None and entry.tensor in self._declared
        ]
        return NetworkOp(
            original.names[number],
            original.types[number],
            tuple(
                Flow(entry.source, entry.words, entry.value[1])
                for entry in inputs
                if entry.source is not None
            ),
            tuple(other + len(original.input_fields) for other in original.control_inputs(number)),
            weights=weight_words(weights),
        )

    def details(self, number: int, inputs: Sequence[_Input]) -> Dict[str, Any]:
        """Return the details of a node."""
        original = self._original
        name, op_type, tensors = (
            original.names[number],
            original.types[number],
            original.tensors[number],
        )
        made = detail(
            op_type,
            [
                [
                    entry.source,
                    _named(entry.words, entry.tensor),
                    entry.tensor,
                    self._cut_shape(entry.value, entry.tensor),
                ]
                for entry in inputs
            ],
            [
                _named(self.words((number, index), tensor), tensor)
                for index, tensor in enumerate(tensors)
            ],
            self._parameters[number],
            choice_of(name)
            if len(original.numbers(name)) == 1
            else no_choice("several nodes have this name"),
        )
        # A cut that begins at the model's own input has it for its own.
        dims = (
            self._cut_shape((number, 0), tensors[0])
            if not original.image_layout and op_type in MODEL_INPUTS and tensors
            else None
        )
        made["asked"] = None if dims is None else [tensors[0], dims]
        return made

    def words(self, value: Value, tensor: str) -> str:
        """Return the shape of a value in words; its name where the shape is not known."""
        shape = self._shapes.get(value)
        if shape is None:
            return self._declared.get(tensor) or self._constants.get(value[0]) or tensor
        layout = self._original.image_layout if len(shape) == 4 else ""
        return " ".join(filter(None, (shape_words(shape), layout)))

    def _cut_shape(self, value: Value, tensor: str) -> Optional[str]:
        """Return what a cut that this value comes into is to be told of its shape, ``?`` for what
        nobody knows; None: nothing.
        """
        original, number = self._original, value[0]
        if number < -1 or (number >= 0 and original.is_constant(number)):
            return None
        if not original.image_layout and value in self._known:
            return None
        shape = self._shapes.get(value)
        if shape is not None:
            return ",".join(map(str, shape))
        dims = original.dims(tensor)
        return "?" if dims is None else ",".join("?" if dim is None else str(dim) for dim in dims)


def _named(words: str, tensor: str) -> str:
    return words if words == tensor else "%s %s" % (words, tensor)


def shape_words(shape: Shape) -> str:
    """Return the dims of a shape as one word."""
    return ",".join(map(str, shape)) or "scalar"


def detail(
    op_type: str,
    inputs: List[Any],
    outputs: List[str],
    parameters: Parameters,
    choice: Dict[str, Any],
) -> Dict[str, Any]:
    """Return the details of an op of an original model."""
    fields = {
        "type": op_type,
        "originals": None,
        "inputs": inputs,
        "outputs": outputs,
        # An om's layers are found by their names before fusion, too.
        "layer": choice["start"],
    }
    return dict(fields, parameters=[list(entry) for entry in parameters], **choice)


def choice_of(start: str, end: Optional[str] = None) -> Dict[str, Any]:
    """Return by which original nodes a part of the model begins and ends at an op."""
    return {"start": start, "end": start if end is None else end, "why": ""}


def no_choice(why: str) -> Dict[str, Any]:
    """Return why no part of the model can begin or end at an op."""
    return {"start": None, "end": None, "why": why}


def _shapes(original: Original, golden: Optional[GoldenSet]) -> Dict[Value, Shape]:
    """Return the shapes of values: as golden data have them, as the model says, as the rules of
    Caffe's own layers lead to them.
    """
    known = dict(original.shapes())
    if golden is not None:
        for number, tensors in enumerate(original.tensors):
            for index in range(len(tensors)):
                shape = _golden_shape(golden, original.names[number], index)
                if shape is not None:
                    known[number, index] = shape
    return original.completed_shapes(known)


def _golden_shape(golden: GoldenSet, name: str, index: int) -> Optional[Shape]:
    file = golden.find(name, index)
    try:
        return None if file is None else golden.tensor(file).shape
    except GoldwatchError:
        # A damaged file tells no shape.
        return None


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
    # Refuse a folder of models, such as GE's graphs, by the names that are in it; of others their
    # reader says what to do.
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
    if _is_compiled(path):
        return _of_om(path)
    original = read_original(path)
    ops, details = original_network(original, None if golden is None else GoldenSet(golden))
    return PageModel(original.kind, original.name or os.path.basename(path), path, ops, details)


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
    untold = kind in (
        kinds.RAW, kinds.PROTOBUF, kinds.EMPTY, kinds.SOLVER, kinds.LFS, *kinds.PLAIN_TEXTS
    )  # fmt: skip
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
