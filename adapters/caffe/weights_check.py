"""Whether the weights file belongs to the net: names, numbers of blobs and shapes, told by the
layer before anything runs.

Source of the shapes: the LayerSetUp methods of BVLC Caffe; of what counts as equal:
Blob::ShapeEquals, which fills the four dimensions of older files with ones in front.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ...errors import InputError
from ...naming import printable
from ...netfiles.caffe_net import Layer, Net
from ...text.wording import listed
from .layer_params import Params, axis_of
from .numpy_layer_types import has_weights
from .opencv_whitelist import RULES

Shape = Tuple[int, ...]
_SHOWN = 8


def check_names(
    net: Net, shapes: Dict[str, List[Shape]], path: str, fills: bool, seeded: bool = False
) -> List[str]:
    """Return a warning for each group of layers without weights.

    Parameters
    ----------
    shapes
        Of the weights file, by layer name.
    fills
        Whether the backend fills missing weights by their fillers, as Caffe does; else any missing
        one is an error.
    seeded
        Missing weights are made up from a seed.

    Raises
    ------
    InputError
        Weights are missing, or the file holds none of this net's.
    """
    shared = shared_weights(net)
    weighted = [
        layer for layer in net.layers if has_weights(layer) and shared.get(layer.name) not in shapes
    ]
    missing = [layer.title for layer in weighted if layer.name not in shapes]
    named = listed(missing, _SHOWN)
    hint = "weights are found by layer name: give the weights that belong to this prototxt"
    if missing and seeded:
        return []
    if missing and not fills:
        raise InputError("%s: no weights for layer %s" % (printable(path), named), hint=hint)
    if missing and not any(layer.name in shapes for layer in net.layers):
        raise InputError(
            "%s: no weights for any layer of this net (%s)" % (printable(path), named), hint=hint
        )
    return ["no weights for layer %s: Caffe fills them by their fillers" % named] if missing else []


def shared_weights(net: Net) -> Dict[str, str]:
    """Return, of layers whose weights are another's by ``param { name }``, whose they are."""
    first: Dict[str, str] = {}
    owners: Dict[str, str] = {}
    for layer in net.layers:
        for name in [
            text for message in layer.message.messages("param") for text in message.texts("name")
        ]:
            if name and first.setdefault(name, layer.name) != layer.name:
                owners[layer.name] = first[name]
    return owners


def needs_weights(layer: Layer) -> bool:
    """Tell whether a layer of a type that OpenCV runs has weights of its own."""
    return layer.type in RULES and RULES[layer.type].weights and len(layer.bottoms) == 1


def check_shapes(layer: Layer, bottom: Shape, shapes: Sequence[Shape], path: str) -> None:
    """Raise InputError, naming the layer, when its weights are of another number or shape than
    Caffe would make them.
    """
    expected = weight_shapes_of(layer, bottom)
    if expected is None or (len(shapes) == len(expected) and all(map(_same, shapes, expected))):
        return
    message = "%s: layer %s (%s) has weights of shape %s, the net needs %s"
    raise InputError(
        message % (printable(path), layer.title, layer.type, _listed(shapes), _listed(expected)),
        hint="give the weights that belong to this prototxt; num_output, kernel, group, bias_term "
        "and the bottom's channels decide",
    )


def _listed(shapes: Sequence[Shape]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


def _same(shape: Shape, expected: Shape) -> bool:
    if len(shape) == 4 and len(expected) < 4:
        return tuple(shape) == (1,) * (4 - len(expected)) + tuple(expected)
    return tuple(shape) == tuple(expected)


def weight_shapes_of(layer: Layer, bottom: Shape) -> Optional[List[Shape]]:
    """Return the shapes of a layer's weights from that of its bottom; None for layers without
    weights.
    """
    if not needs_weights(layer):
        return None
    rule = RULES[layer.type]
    params = Params(layer, str(rule.param))
    if layer.type == "BatchNorm":
        return [bottom[1:2], bottom[1:2], (1,)]
    if layer.type == "PReLU":
        return [bottom[1:2]]
    if layer.type == "Scale":
        axis = axis_of(params, "axis", 1, len(bottom))
        return [bottom[axis : axis + 1]] * (2 if params.flag("bias_term", False) else 1)
    n_out = params.integer("num_output", 0)
    if layer.type == "InnerProduct":
        size = 1
        for dim in bottom[axis_of(params, "axis", 1, len(bottom)) :]:
            size *= dim
        first: Shape = (n_out, size)
    else:
        kernel, group = params.pair("kernel", 0, both=True), params.integer("group", 1)
        assert kernel is not None
        first = (
            (n_out, bottom[1] // group) + kernel
            if layer.type == "Convolution"
            else (bottom[1], n_out // group) + kernel
        )
    return [first, (n_out,)] if params.flag("bias_term", True) else [first]
