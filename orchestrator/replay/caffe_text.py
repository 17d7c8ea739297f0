"""The prototxt of a few layers, made of their own text only: the time for it does not depend on the
size of the net.
"""

from __future__ import annotations

from typing import Mapping

from ..netfiles.caffe_cut import Shape, check_versions, input_layer
from ..netfiles.textformat import quote
from ..submodel.caffe_original import CaffeOriginal
from ..submodel.cut_definition import Cut


def piece_text(original: CaffeOriginal, cut: Cut, shapes: Mapping[str, Shape]) -> str:
    """Return the text; comments between the layers and fields of the whole net but its state are
    left out.

    Parameters
    ----------
    shapes
        Of each new input by its name.

    Raises
    ------
    InputError
        A layer would read another version of a blob than in the whole net.
    """
    net = original.net
    new = [entry for entry in cut.inputs if not entry.unchanged]
    check_versions(net, original.graph.sources, set(cut.layers), [entry.tensor for entry in new])
    text, is_v1 = net.document.text, net.layers[cut.layers[0]].is_v1
    stages = " ".join("stage: " + quote(stage) for stage in sorted(net.state.stages))
    parts = ["state { %s }\n" % stages] if stages else []
    parts += [input_layer(entry.name, entry.tensor, shapes[entry.name], is_v1) for entry in new]
    for number in cut.layers:
        layer = net.layers[number]
        value = layer.field.values[layer.element]
        parts.append("%s %s\n" % (layer.field.name, text[value.start : value.end]))
    return "".join(parts)
