"""Whether the weights file belongs to the net: told by the names of layers before anything runs."""

from __future__ import annotations

from typing import Dict, List, Tuple

from ...base.errors import InputError
from ...base.naming import printable
from ...base.wording import listed
from ...netfiles.caffe_net import Net
from .numpy_layer_types import has_weights

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
