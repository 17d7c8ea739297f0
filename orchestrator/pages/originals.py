"""A Caffe net or a frozen GraphDef as a network to look at, with the shapes that the model itself or golden data tell."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..adapters.caffe.shapes import top_shapes
from ..adapters.caffe.whitelist import RULES
from ..dumps.golden import GoldenSet
from ..errors import GoldwatchError, InputError
from ..netfiles.attributes import Parameters, graphdef_parameters, layer_parameters, onnx_parameters
from ..submodel.caffe_original import CaffeOriginal
from ..submodel.cut import Shape, Value
from ..submodel.onnx_original import OnnxOriginal
from ..submodel.original import Original
from ..submodel.tf_original import TfOriginal
from .network import Flow, NetworkOp


def original_network(original: Original, golden: Optional[GoldenSet]) -> Tuple[List[NetworkOp], List[Dict[str, Any]]]:
    """Return the ops of an original model and their details (:class:`.models.PageModel`); a net's input fields come first."""
    shapes = _shapes(original, golden)
    caffe = isinstance(original, CaffeOriginal)
    fields = original.input_fields
    first = len(fields)

    def tensor(value: Value) -> str:
        number, index = value
        if number == -1:
            return fields[index]
        return original.tensors[number][index] if number >= 0 else ""

    def words(value: Value) -> str:
        shape = shapes.get(value)
        layout = " NCHW" if caffe and shape is not None and len(shape) == 4 else ""
        return tensor(value) if shape is None else "%s%s" % (shape_words(shape), layout)

    ops = [NetworkOp(blob, "input", ()) for blob in fields]
    details = [detail("input", [], [words((-1, index))], [], no_choice("an input of the net is no node")) for index in range(first)]
    parameters = _parameters(original)
    for number, name in enumerate(original.names):
        flows, inputs = [], []
        for value in original.graph.sources[number]:
            producer, index = value
            source = None if producer < -1 else index if producer == -1 else producer + first
            shape = shapes.get(value) if caffe else None
            inputs.append(
                [source, _named(words(value), tensor(value)), tensor(value), None if shape is None else ",".join(map(str, shape))]
            )
            if source is not None:
                flows.append(Flow(source, words(value), index))
        controls = tuple(other + first for other in original.controls[number]) if isinstance(original, TfOriginal) else ()
        ops.append(NetworkOp(name, original.types[number], tuple(flows), controls))
        choice = choice_of(name) if len(original.numbers(name)) == 1 else no_choice("several nodes have this name")
        outputs = [_named(words((number, index)), own) for index, own in enumerate(original.tensors[number])]
        details.append(detail(original.types[number], inputs, outputs, parameters[number], choice))
    return ops, details


def _named(words: str, tensor: str) -> str:
    return words if words == tensor else "%s %s" % (words, tensor)


def shape_words(shape: Shape) -> str:
    """Return the dims of a shape as one word."""
    return ",".join(map(str, shape)) or "scalar"


def detail(op_type: str, inputs: List[Any], outputs: List[str], parameters: Parameters, choice: Dict[str, Any]) -> Dict[str, Any]:
    """Return the details of an op of an original model."""
    found = {"type": op_type, "originals": None, "inputs": inputs, "outputs": outputs, "layer": None}
    return dict(found, parameters=[list(entry) for entry in parameters], **choice)


def choice_of(start: str, end: Optional[str] = None) -> Dict[str, Any]:
    """Return by which original nodes a part of the model begins and ends at an op."""
    return {"start": start, "end": start if end is None else end, "why": ""}


def no_choice(why: str) -> Dict[str, Any]:
    """Return why no part of the model can begin or end at an op."""
    return {"start": None, "end": None, "why": why}


def _parameters(original: Original) -> List[Parameters]:
    if isinstance(original, CaffeOriginal):
        return [layer_parameters(layer) for layer in original.net.layers]
    if isinstance(original, OnnxOriginal):
        nodes = original.model.graph.nodes
        with original.model.open() as file:
            return [[]] * (len(original.names) - len(nodes)) + [onnx_parameters(file, node.attrs) for node in nodes]
    with original.file.open() as file:
        return [graphdef_parameters(file, node.attrs) for node in original.file.nodes]


def _shapes(original: Original, golden: Optional[GoldenSet]) -> Dict[Value, Shape]:
    """Return the shapes of values: as golden data have them, as the model says, as the rules of Caffe's own layers lead to them."""
    known = dict(original.shapes())
    if golden is not None:
        for number, tensors in enumerate(original.tensors):
            for index in range(len(tensors)):
                shape = _golden_shape(golden, original.names[number], index)
                if shape is not None:
                    known[number, index] = shape
    if isinstance(original, CaffeOriginal):
        for number, layer in enumerate(original.net.layers):
            sources = original.graph.sources[number]
            if layer.type == "Input" or layer.type not in RULES or not sources or any(value not in known for value in sources):
                continue
            try:
                tops = top_shapes(layer, [known[value] for value in sources])
            except InputError:
                # Caffe will say what it thinks of this layer; here its shape is only not known.
                continue
            for index, shape in enumerate(tops):
                known.setdefault((number, index), shape)
    return known


def _golden_shape(golden: GoldenSet, name: str, index: int) -> Optional[Shape]:
    file = golden.find(name, index)
    try:
        return None if file is None else golden.tensor(file).shape
    except GoldwatchError:
        # A damaged file tells no shape.
        return None
