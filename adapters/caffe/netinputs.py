"""The net's inputs: Input layers, the older ``input`` fields with ``input_dim`` or ``input_shape``,
and what data layers would read.

Which parameters of a data layer tell its shape: data_transformer.cpp of BVLC Caffe, and of the SSD
branch for ``resize_param``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from ...base.errors import FormatError, InputError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...netfiles.caffe_net import Layer, Net
from ...netfiles.protobuf_text import Message
from .numpy_layer_types import has_weights, own_parameters, reads_data

Shape = Tuple[int, ...]
Key = Tuple[int, int]
_PICTURES = frozenset(
    "Data ImageData MemoryData WindowData AnnotatedData DenseImageData ImageSegData "
    "VideoData".split()
)
"""Data layers whose first top alone is what the net computes from; the others are labels."""
NORMAL, WHOLE, REGIONS = "normal", "whole", "regions"


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
        The Input layer's number and the top's index; -1 and the input's number for an ``input``
        field.
    optional
        It may be left without a file: a data layer's labels, and what a DummyData layer fills with
        one value.
    reader
        The data layer that would read it, as words; empty for others.
    draw
        What random numbers it can be filled with, as :func:`_draws` tells: their kind, and the
        number that goes with it.
    """

    blob: str
    shape: Shape
    layer: int
    top_index: int
    optional: bool = False
    reader: str = ""
    draw: Tuple[str, float] = (NORMAL, 0.0)

    @property
    def words(self) -> str:
        """Its name, its shape as far as it is known, and who would read it."""
        shape = " %s" % list(self.shape) if self.shape else ""
        return (
            printable(self.blob)
            + shape
            + (" (which %s would read)" % self.reader if self.reader else "")
        )


def net_inputs(
    net: Net, data_layers: bool = False, user_types: Sequence[str] = ()
) -> List[NetInput]:
    """Return the net's inputs in order.

    Parameters
    ----------
    data_layers
        The tops of layers that read their data themselves are inputs too.
    user_types
        Layer types that the user's own files compute.

    Raises
    ------
    InputError
        A shape is missing in part, or not positive.
    """
    try:
        return _inputs(net, data_layers, user_types)
    except FormatError as error:
        raise FormatError("an input's shape: %s" % error.message, net.document.path) from error


def _inputs(net: Net, data_layers: bool, user_types: Sequence[str]) -> List[NetInput]:
    needed = _needed(net) if data_layers else set()
    draws = _draws(net)
    out = [
        NetInput(blob, shape, -1, number)
        for number, (blob, shape) in enumerate(zip(net.inputs, _root_shapes(net)))
    ]
    for number, layer in enumerate(net.layers):
        if data_layers and reads_data(layer, user_types):
            reader = "layer %s of type %s" % (layer.title, printable(layer.type))
            for index, top in enumerate(layer.tops):
                optional = (number, index) not in needed or dummy(layer, index) is not None
                out.append(
                    NetInput(top.text, _data_shape(layer, index), number, index, optional, reader)
                )
        if layer.type != "Input":
            continue
        shapes = [
            _dims(message) for message in layer.message.message("input_param").messages("shape")
        ]
        if len(shapes) not in (0, 1, len(layer.tops)):
            raise InputError(
                "layer %s (Input) has %d shapes for %d tops"
                % (layer.title, len(shapes), len(layer.tops))
            )
        for index, top in enumerate(layer.tops):
            shape: Shape = shapes[index if len(shapes) > 1 else 0] if shapes else ()
            out.append(NetInput(top.text, shape, number, index))
    for entry in out:
        if any(dim < 1 for dim in entry.shape):
            raise InputError(
                "input %s has the shape %s" % (printable(entry.blob), list(entry.shape))
            )
    return [
        replace(entry, draw=draws.get((entry.layer, entry.top_index), entry.draw)) for entry in out
    ]


def _draws(net: Net) -> Dict[Key, Tuple[str, float]]:
    """Return the values that not any number will do for: whole numbers below some number, or
    regions of pictures by their scale.
    """
    draws: Dict[Key, Tuple[str, float]] = {}
    for layer, (origins, _) in zip(net.layers, net.graph()):
        parameters = own_parameters(layer)
        if layer.type in ("ROIPooling", "PSROIPooling") and len(origins) > 1:
            # Of several feature maps the one with the most cells to a pixel is left first.
            draws[origins[1]] = (
                REGIONS,
                max(
                    float(parameters.get("spatial_scale", 1.0)),
                    draws.get(origins[1], (REGIONS, 0.0))[1],
                ),
            )
        elif layer.type == "Embed" and origins:
            draws[origins[0]] = WHOLE, float(parameters.get("input_dim", 1))
        elif layer.type in ("LSTM", "RNN") and len(origins) > 1:
            draws[origins[1]] = WHOLE, 2.0
        elif layer.type == "BatchReindex" and len(origins) > 1:
            draws[origins[1]] = WHOLE, 1.0
    return draws


def _needed(net: Net) -> Set[Key]:
    """Return the tops of data layers without which the net computes nothing: all but labels.

    A label is a top behind the first that nothing but losses and Accuracy reads together with other
    values; of pictures' data layers each top behind the first is one.
    """
    needed: Set[Key] = set()
    labels: Dict[Key, Set[Key]] = {}
    for number, (layer, (origins, count)) in enumerate(zip(net.layers, net.graph())):
        tops = [(number, index) for index in range(count)]
        if reads_data(layer):
            needed.update(tops[:1])
            if layer.type not in _PICTURES:
                labels.update((top, {top}) for top in tops[1:])
            continue
        origins_named = [labels[origin] for origin in origins if origin in labels]
        roots = set().union(*origins_named) if origins_named else set()
        if len(origins_named) < len(origins) and (
            layer.type.endswith("Loss") or layer.type == "Accuracy"
        ):
            continue
        if len(origins_named) < len(origins) or has_weights(layer):
            needed.update(roots)
        elif roots:
            labels.update((top, roots) for top in tops)
    return needed


def _data_shape(layer: Layer, index: int) -> Shape:
    """Return the shape of a data layer's top as far as the prototxt tells it, else nothing: batch,
    channels and crop.
    """
    declared = [
        layer.message.message(field.name)
        for field in layer.message.fields
        if field.name.endswith("_param")
    ]
    shapes = [_dims(message) for params in declared for message in params.messages("shape")]
    if not shapes and layer.type == "DummyData":
        # The four dimensions of old files.
        old = layer.message.message("dummy_data_param")
        shapes = list(zip(*(old.integers(name) for name in ("num", "channels", "height", "width"))))
    if shapes:
        return shapes[index if index < len(shapes) else 0]
    transform = layer.message.message("transform_param")
    places = declared + [transform, transform.message("resize_param")]

    def declared_size(*names: str) -> int:
        return next(
            (params.integer(name, 0) for name in names for params in places if params.has(name)), 0
        )

    sides = [
        declared_size("crop_size") or declared_size(name, "new_" + name)
        for name in ("height", "width")
    ]
    if index or not all(sides) or declared_size("batch_size") < 1:
        return ()
    grey = transform.text("force_gray") == "true" or any(
        params.text("is_color") == "false" for params in declared
    )
    return (
        declared_size("batch_size"),
        declared_size("channels") or (1 if grey else 3),
        sides[0],
        sides[1],
    )


def dummy(layer: Layer, index: int) -> Optional[Any]:
    """Return what a DummyData layer fills a top with where that is one value, float32, else
    nothing.
    """
    shape = _data_shape(layer, index) if layer.type == "DummyData" else ()
    fillers = layer.message.message("dummy_data_param").messages("data_filler")
    filler = (
        fillers[index if len(fillers) > 1 else 0] if len(fillers) in (1, len(layer.tops)) else None
    )
    if not shape or (fillers and (filler is None or filler.text("type", "constant") != "constant")):
        return None
    return np.full(shape, 0.0 if filler is None else filler.number("value", 0.0), np.float32)


def _root_shapes(net: Net) -> List[Shape]:
    root = net.document.root
    n_inputs = len(net.inputs)
    shapes = [_dims(message) for message in root.messages("input_shape")]
    dims = root.integers("input_dim")
    if shapes and dims:
        raise InputError(
            "%s: input_shape and input_dim are both given" % (net.document.path or "prototxt")
        )
    if dims:
        if len(dims) != 4 * n_inputs:
            where = net.document.path or "prototxt"
            raise InputError(
                "%s: %d input_dim for %d inputs; four each are needed"
                % (where, len(dims), n_inputs)
            )
        return [tuple(dims[4 * number : 4 * number + 4]) for number in range(n_inputs)]
    if len(shapes) not in (0, n_inputs):
        raise InputError(
            "%s: %d input_shape for %d inputs"
            % (net.document.path or "prototxt", len(shapes), n_inputs)
        )
    return shapes or [()] * n_inputs


def _dims(message: Message) -> Shape:
    return tuple(message.integers("dim"))


def transform_of(net: Net, blob: str) -> Optional[Message]:
    """Return the transform_param of the layer (of any phase) that makes a blob, if it has one."""
    for layer in net.layers + net.removed:
        if any(top.text == blob for top in layer.tops) and layer.message.has("transform_param"):
            return layer.message.message("transform_param")
    return None
