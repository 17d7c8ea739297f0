"""Whether a .caffemodel is the net's: a layer that has parameters needs a record, Caffe would
fill it and say nothing.
"""

from __future__ import annotations

import os
from typing import List, Optional, Set, Tuple

from ...adapters.caffe.layer_params import Params
from ...adapters.caffe.numpy_layer_types import LAYERS
from ...base.errors import InputError
from ...base.naming import printable
from ...base.notes import Note, note
from ...base.wording import listed
from ...netfiles.caffemodel_cut import CaffeModel
from .caffe_original import CaffeOriginal

_SHOWN = 8
_OTHER = "these are the weights of another net"
_WITHOUT = {"HDF5Output", "Input", "Silence"}
"""Types of BVLC Caffe that compute nothing, and have no weights."""


def find_weights(model: str) -> Optional[str]:
    """Return the ``.caffemodel`` beside a prototxt with its stem; None when there is none."""
    path = os.path.splitext(model)[0] + ".caffemodel"
    return path if os.path.isfile(path) else None


def check_weights(
    original: CaffeOriginal, layers: Tuple[int, ...], weights: CaffeModel
) -> List[Note]:
    """Return what cannot be known of the weights of some layers: custom ones without a record.

    Raises
    ------
    InputError
        A layer with parameters has no record in the file, or one whose first blob contradicts its
        num_output or its kernel.
    """
    shapes = weights.shapes
    missing = [
        original.names[number]
        for number in layers
        if original.weighted(number) and original.names[number] not in shapes
    ]
    if missing:
        layers_said = listed([printable(name) for name in missing], _SHOWN)
        raise InputError(
            "%s: no weights for layer %s; Caffe would fill them anew and say nothing"
            % (weights.path, layers_said),
            hint="give the weights that belong to this prototxt; the file may also have been cut "
            "short between two layers",
        )
    for number in layers:
        _check_first_blob(original, number, weights)
    custom = [
        number
        for number in layers
        if original.types[number] not in LAYERS
        and original.types[number] not in _WITHOUT
        and original.names[number] not in shapes
    ]
    return [
        note("weights", printable(original.names[number]), printable(original.types[number]))
        for number in custom
    ]


def _check_first_blob(original: CaffeOriginal, number: int, weights: CaffeModel) -> None:
    """Raise InputError if the first blob of a layer contradicts its num_output or its kernel."""
    layer_shapes = weights.shapes.get(original.names[number])
    if not layer_shapes:
        return
    name, shape = printable(original.names[number]), list(layer_shapes[0])
    expected = _outputs(original, number)
    if expected is not None and expected not in _first_dims(
        original.types[number], layer_shapes[0]
    ):
        message = "%s: layer %s has weights of shape %s, num_output is %d"
        raise InputError(message % (weights.path, name, shape, expected), hint=_OTHER)
    kernel = _kernel(original, number)
    if kernel is not None and len(shape) == 4 and tuple(shape[2:]) != kernel:
        message = "%s: layer %s has weights of shape %s, its kernel is %d x %d"
        raise InputError(message % (weights.path, name, shape, *kernel), hint=_OTHER)


def _outputs(original: CaffeOriginal, number: int) -> Optional[int]:
    """Return the num_output of a Convolution or InnerProduct layer."""
    params = {"Convolution": "convolution_param", "InnerProduct": "inner_product_param"}
    name = params.get(original.types[number])
    if name is None:
        return None
    return original.net.layers[number].message.message(name).integer("num_output", 0) or None


def _kernel(original: CaffeOriginal, number: int) -> Optional[Tuple[int, int]]:
    """Return height and width of the kernel of a Convolution or Deconvolution layer, where they are
    written.
    """
    if original.types[number] not in ("Convolution", "Deconvolution"):
        return None
    return Params(original.net.layers[number], "convolution_param").pair("kernel", 0)


def _first_dims(kind: str, shape: Tuple[int, ...]) -> Set[int]:
    """Return the dims that may be the number of outputs: the first of a filter; of a matrix either
    one, it may be transposed.
    """
    return set(shape[:1]) if kind == "Convolution" else set(shape[-2:])
