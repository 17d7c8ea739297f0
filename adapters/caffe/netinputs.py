"""The net's inputs: Input layers, the older ``input`` fields with ``input_dim`` or ``input_shape``, and what data layers would read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Mapping, Optional, Sequence, Tuple

from ...errors import FormatError, InputError
from ...naming import printable
from ...netfiles.caffe_net import Layer, Net
from ...netfiles.textformat import Message
from .layer_table import DATA_TYPES

Shape = Tuple[int, ...]


@dataclass(frozen=True)
class NetInput:
    """One input blob.

    Attributes
    ----------
    blob
        Its name.
    shape
        As the prototxt says; empty when it does not say.
    layer, top_index
        The Input layer's number and the top's index; -1 and the input's number for an ``input`` field.
    optional
        It may be left without a file: a data layer's labels, which only losses and Accuracy read.
    """

    blob: str
    shape: Shape
    layer: int
    top_index: int
    optional: bool = False


def net_inputs(net: Net, data_layers: bool = False) -> List[NetInput]:
    """Return the net's inputs in order.

    Parameters
    ----------
    data_layers
        The tops of layers that read their data themselves are inputs too.

    Raises
    ------
    InputError
        A shape is missing in part, or not positive.
    """
    try:
        return _inputs(net, data_layers)
    except FormatError as error:
        raise FormatError("an input's shape: %s" % error.message, net.document.path) from error


def _inputs(net: Net, data_layers: bool) -> List[NetInput]:
    out = [NetInput(blob, shape, -1, number) for number, (blob, shape) in enumerate(zip(net.inputs, _root_shapes(net)))]
    for number, layer in enumerate(net.layers):
        if data_layers and layer.type in DATA_TYPES:
            out += [NetInput(top.text, _data_shape(layer, index), number, index, index > 0) for index, top in enumerate(layer.tops)]
        if layer.type != "Input":
            continue
        shapes = [_dims(message) for message in layer.message.message("input_param").messages("shape")]
        if len(shapes) not in (0, 1, len(layer.tops)):
            raise InputError("layer %s (Input) has %d shapes for %d tops" % (layer.title, len(shapes), len(layer.tops)))
        for index, top in enumerate(layer.tops):
            shape: Shape = shapes[index if len(shapes) > 1 else 0] if shapes else ()
            out.append(NetInput(top.text, shape, number, index))
    for entry in out:
        if any(dim < 1 for dim in entry.shape):
            raise InputError("input %s has the shape %s" % (printable(entry.blob), list(entry.shape)))
    return out


def _data_shape(layer: Layer, index: int) -> Shape:
    """Return the shape of a data layer's top as far as the prototxt tells it, else nothing: batch, channels and crop; one label each."""
    own = next((field.name for field in layer.message.fields if field.name.endswith("data_param")), "")
    params, transform = layer.message.message(own), layer.message.message("transform_param")
    shapes = [_dims(message) for message in params.messages("shape")]
    if shapes:
        return shapes[index if index < len(shapes) else 0]
    batch, crop = params.integer("batch_size", 0), transform.integer("crop_size", params.integer("crop_size", 0))
    sides = [crop or params.integer(name, params.integer("new_" + name, 0)) for name in ("height", "width")]
    if batch < 1 or (not all(sides) and not index) or index > 1:
        return ()
    grey = transform.text("force_gray") == "true" or params.text("is_color") == "false"
    return (batch,) if index else (batch, params.integer("channels", 1 if grey else 3), sides[0], sides[1])


def with_shapes(inputs: Sequence[NetInput], shapes: Mapping[str, Shape]) -> List[NetInput]:
    """Return the inputs with the shapes of the arrays that will be set."""
    return [replace(entry, shape=shapes.get(entry.blob, entry.shape)) for entry in inputs]


def _root_shapes(net: Net) -> List[Shape]:
    root = net.document.root
    n_inputs = len(net.inputs)
    shapes = [_dims(message) for message in root.messages("input_shape")]
    dims = root.integers("input_dim")
    if shapes and dims:
        raise InputError("%s: input_shape and input_dim are both given" % (net.document.path or "prototxt"))
    if dims:
        if len(dims) != 4 * n_inputs:
            where = net.document.path or "prototxt"
            raise InputError("%s: %d input_dim for %d inputs; four each are needed" % (where, len(dims), n_inputs))
        return [tuple(dims[4 * number : 4 * number + 4]) for number in range(n_inputs)]
    if len(shapes) not in (0, n_inputs):
        raise InputError("%s: %d input_shape for %d inputs" % (net.document.path or "prototxt", len(shapes), n_inputs))
    return shapes or [()] * n_inputs


def _dims(message: Message) -> Shape:
    return tuple(message.integers("dim"))


def transform_of(net: Net, blob: str) -> Optional[Message]:
    """Return the transform_param of the layer (of any phase) that makes a blob, if it has one."""
    for layer in net.layers + net.removed:
        if any(top.text == blob for top in layer.tops) and layer.message.has("transform_param"):
            return layer.message.message("transform_param")
    return None
