"""Cuts layers out of a prototxt: the text of other layers is deleted, inputs are added, and the
rest stays byte for byte.

Comments outside the layers, unknown fields and net-level fields survive; ``input``, ``input_dim``
and ``input_shape`` go.
"""

from __future__ import annotations

from typing import Collection, Dict, List, Sequence, Tuple

from ..base.errors import InputError
from ..base.naming import printable
from .caffe_net import Layer, Net
from .protobuf_text import quote
from .prototxt_edits import Document

Shape = Tuple[int, ...]
_INPUT_FIELDS = ("input", "input_dim", "input_shape")


def input_layer(name: str, blob: str, shape: Shape, is_v1: bool = False) -> str:
    """Return the text of a new input: an ``Input`` layer, or the ``input`` fields of a V1 net,
    which has no such layer.
    """
    dims = "".join("dim: %d\n" % dim for dim in shape)
    if is_v1:
        return "input: %s\ninput_shape {\n%s}\n" % (quote(blob), _indented(dims, 2))
    text = (
        'layer {\n  name: %s\n  type: "Input"\n  top: %s\n  input_param {\n    shape {\n%s    }\n '
        " }\n}\n"
    )
    return text % (quote(name), quote(blob), _indented(dims, 6))


def _indented(text: str, columns: int) -> str:
    return "".join(" " * columns + line for line in text.splitlines(True))


def cut_net(net: Net, layers: Collection[int], inputs: Sequence[Tuple[str, str, Shape]]) -> str:
    """Return the text of a net that consists of some layers.

    Parameters
    ----------
    net
        The whole net; it is not changed.
    layers
        Numbers of the layers (of ``net.layers``) that stay, at least one.
    inputs
        The new inputs, each ``(layer name, blob, shape)``; they stand before the first layer that
        stays.

    Raises
    ------
    InputError
        A kept layer would read another version of a blob than before: a layer between two kept ones
        does not stay, or an input is missing.
    """
    check_versions(
        net, [origins for origins, _ in net.graph()], layers, [blob for _, blob, _ in inputs]
    )
    document = net.document.unedited()
    numbers = set(layers)
    delete_layers(
        document,
        [layer for number, layer in enumerate(net.layers) if number not in numbers] + net.removed,
    )
    for field in document.root.fields:
        if field.name in _INPUT_FIELDS:
            document.delete(field, list(range(len(field.values))))
    first = net.layers[min(numbers)]
    text = "".join(input_layer(*entry, is_v1=first.is_v1) for entry in inputs)
    at = document.line_start(first.field.start)
    document.insert(at, text.replace("\n", "\r\n") if "\r\n" in document.text else text)
    return document.edited()


def delete_layers(document: Document, layers: Sequence[Layer]) -> None:
    """Delete the text of some layers; the elements of a list form one by one."""
    by_field: Dict[int, List[Layer]] = {}
    for layer in layers:
        by_field.setdefault(layer.field.start, []).append(layer)
    for group in by_field.values():
        document.delete(group[0].field, [layer.element for layer in group])


def check_versions(
    net: Net,
    sources: Sequence[Sequence[Tuple[int, int]]],
    layers: Collection[int],
    blobs: Collection[str],
) -> None:
    """Check that each kept layer reads the same values as before, or a new input.

    Parameters
    ----------
    sources
        Of each layer the values that its bottoms read, as :meth:`Net.graph` gives them.
    blobs
        Those of the new inputs.

    Raises
    ------
    InputError
        As :func:`cut_net`.
    """
    current: Dict[str, Tuple[int, int]] = {}
    for number in sorted(layers):
        layer, origins = net.layers[number], sources[number]
        for value, origin in zip(layer.bottoms, origins):
            made = current.get(value.text)
            outside = origin[0] not in layers
            if (outside and (made is not None or value.text not in blobs)) or (
                not outside and made != origin
            ):
                message = "layer %s would read another version of blob %s than in the whole net" % (
                    layer.title,
                    printable(value.text),
                )
                raise InputError(message, hint="take the layers between as well")
        for index, top in enumerate(layer.tops):
            current[top.text] = (number, index)
