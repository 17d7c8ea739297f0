"""A net written again in the form that OpenCV's importer reads as Caffe does.

TEST layers only, V2 layers, unique layer names, every first top named as its layer, pads, axes,
shapes and slice points written out, unknown fields left out, and one identity layer for each
further top, read by all that read that top.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, Sequence, Tuple

from ...element_types import element_count
from ...errors import InputError
from ...naming import free_name
from ...netfiles.caffe_net import Layer, Net
from ...netfiles.protobuf_text import Message, number_of, quote
from .layer_params import Params, axis_of
from .netinputs import NetInput
from .opencv_whitelist import RULES, WAY_OUT, Unlike, refuse_unknown, unlike
from .shapes import Shape, concat_axis, slice_points, top_shapes
from .weights_check import needs_weights

# Parameters that do not change the result, or that the whitelist holds at the importer's default.
_LEFT_OUT = {
    "engine",
    "filler",
    "bias_filler",
    "weight_filler",
    "stable_prod_grad",
    "transpose",
    "channel_shared",
    "num_axes",
    "eps",
}
_LRN = {"local_size": "5", "alpha": "1", "beta": "0.75", "norm_region": "ACROSS_CHANNELS"}
_IDENTITY = "power_param { power: 1 scale: 1 shift: 0 }"
_ENUMS: Dict[str, Dict[str, str]] = {
    "pool": {"0": "MAX", "1": "AVE"},
    "operation": {"0": "PROD", "1": "SUM", "2": "MAX"},
    "norm_region": {"0": "ACROSS_CHANNELS", "1": "WITHIN_CHANNEL"},
}


@dataclass(frozen=True)
class Output:
    """One top of the original net.

    Attributes
    ----------
    layer, top_index
        The layer's number in :attr:`Net.layers` and the top's index; layer -1 for ``input:``
        fields.
    name
        The layer of the normalised net whose (first) output it is; for a net input the name to set
        it by.
    shape
        By Caffe's rules.
    """

    layer: int
    top_index: int
    name: str
    shape: Shape


@dataclass
class Normalised:
    """The normalised net.

    Attributes
    ----------
    text
        Its prototxt.
    inputs
        Blob name to the output that stands for it.
    outputs
        All tops but the net inputs, in the net's order.
    unlike
        ``(layer and type, of which numbers, names of its bottoms in the normalised net)`` of the
        layers that are computed as in Caffe only as long as no such number reaches them.
    weighted
        The layers with weights, each with its bottom's shape.
    """

    text: str
    inputs: Dict[str, Output] = field(default_factory=dict)
    outputs: List[Output] = field(default_factory=list)
    unlike: List[Tuple[str, Unlike, List[str]]] = field(default_factory=list)
    weighted: List[Tuple[Layer, Shape]] = field(default_factory=list)


def normalise(net: Net, inputs: Sequence[NetInput]) -> Normalised:
    """Return the normalised net.

    Parameters
    ----------
    inputs
        The net's inputs with the shapes that will be set.

    Raises
    ------
    InputError
        A layer, parameter or shape is not among those that are computed as in Caffe.
    """
    refuse_unknown(net)
    writer = _Writer(net)
    for entry in inputs:
        writer.add_input(entry)
    for number, layer in enumerate(net.layers):
        if layer.type not in ("Input", "Silence"):
            writer.add_layer(number, layer)
    return writer.normalised()


class _Writer:
    """Writes a net's layers in the normalised form, one after the other."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self._names = _layer_names(net)
        self._used = {
            name for name, layer in zip(self._names, net.layers) if layer.type != "Input"
        } | {""}
        self._result = Normalised("")
        self._blocks: List[str] = []
        self._current: Dict[str, Output] = {}

    def normalised(self) -> Normalised:
        """Return the net that was written."""
        self._result.text = "name: %s\n%s" % (quote(self._net.name), "".join(self._blocks))
        return self._result

    def add_input(self, entry: NetInput) -> None:
        """Write an input of the net as a layer."""
        name = free_name(entry.blob, self._used)
        output = Output(entry.layer, entry.top_index, name, entry.shape)
        self._result.inputs[entry.blob] = self._current[entry.blob] = output
        shape = "input_param { shape { %s } }" % _dims(entry.shape)
        self._blocks.append(_block(name, "Input", [], [name], shape))

    def add_layer(self, number: int, layer: Layer) -> None:
        """Write a layer, and what must read or copy its tops."""
        bottoms = [self._current[value.text] for value in layer.bottoms]
        shapes = top_shapes(layer, [bottom.shape for bottom in bottoms])
        for shape in shapes:
            if len(shape) < 2:
                message = (
                    "layer %s (%s): a top of shape %s; OpenCV keeps no blob of one axis as Caffe "
                    "does"
                )
                raise InputError(message % (layer.title, layer.type, list(shape)), hint=WAY_OUT)
        if needs_weights(layer):
            self._result.weighted.append((layer, bottoms[0].shape))
        other = unlike(layer, element_count(bottoms[0].shape) if bottoms else 0)
        if other is not None:
            self._result.unlike.append(
                ("%s (%s)" % (layer.title, layer.type), other, [bottom.name for bottom in bottoms])
            )
        tops = self._write(layer, self._names[number], bottoms, shapes)
        if layer.type == "Pooling" and len(tops) > 1:
            # OpenCV makes as many outputs as are read: without a reader of the first there is no
            # second.
            self._copy(tops[0], free_name(tops[0] + "_read", self._used))
        for index, value in enumerate(layer.tops):
            name = tops[index]
            if index:
                # Only first outputs are held: a further one is copied before anybody may write over
                # it.
                name = self._copy(tops[index], free_name(name + "_copy", self._used))
            self._current[value.text] = Output(number, index, name, shapes[index])
            self._result.outputs.append(self._current[value.text])

    def _write(
        self, layer: Layer, name: str, bottoms: Sequence[Output], shapes: Sequence[Shape]
    ) -> List[str]:
        """Write a layer alone; return the names of its tops."""
        tops = [name] + [
            free_name("%s_top%d" % (name, index), self._used) for index in range(1, len(layer.tops))
        ]
        if layer.type == "Split":
            # The importer knows Split with one top only: every top is a copy of its own.
            self._copy(bottoms[0].name, name)
            return [name] * len(layer.tops)
        body = _param_text(layer, [bottom.shape for bottom in bottoms], shapes)
        names = [bottom.name for bottom in bottoms]
        self._blocks.append(_block(name, layer.type, names, tops, body))
        return tops

    def _copy(self, bottom: str, name: str) -> str:
        """Write a layer that copies its bottom; return its name."""
        self._blocks.append(_block(name, "Power", [bottom], [name], _IDENTITY))
        return name


def _layer_names(net: Net) -> List[str]:
    """Return one unique name per layer; a layer with weights keeps its own, since weights are found
    by it.
    """
    counts = Counter(layer.name for layer in net.layers)
    used = set(counts)
    names = []
    for layer in net.layers:
        if layer.name and counts[layer.name] == 1:
            names.append(layer.name)
            continue
        if needs_weights(layer):
            problem = "has no name" if not layer.name else "shares its name with another layer"
            raise InputError(
                "layer %s (%s) %s, so its weights cannot be told"
                % (layer.title, layer.type, problem),
                hint=WAY_OUT,
            )
        names.append(
            free_name(layer.name or (layer.tops[0].text if layer.tops else layer.type), used)
        )
    return names


def _block(name: str, kind: str, bottoms: Sequence[str], tops: Sequence[str], body: str) -> str:
    words = ["name: " + quote(name), "type: " + quote(kind)]
    words += ["bottom: " + quote(bottom) for bottom in bottoms] + [
        "top: " + quote(top) for top in tops
    ]
    return "layer { %s }\n" % " ".join(words + ([body] if body else []))


def _dims(shape: Sequence[int]) -> str:
    return " ".join("dim: %d" % dim for dim in shape)


def _param_text(layer: Layer, bottoms: Sequence[Shape], tops: Sequence[Shape]) -> str:
    rule = RULES[layer.type]
    if rule.param is None:
        return ""
    params = Params(layer, rule.param)
    if layer.type in ("Convolution", "Deconvolution"):
        body = _window(params, ("kernel", "stride", "pad", "dilation")) + _plain(
            params.message, ("num_output", "bias_term", "group")
        )
    elif layer.type == "Pooling":
        body = _plain(params.message, ("pool",))
        body += (
            ["global_pooling: true"]
            if params.flag("global_pooling", False)
            else _window(params, ("kernel", "stride", "pad"))
        )
    elif layer.type in ("Concat", "Slice"):
        body = ["axis: %d" % concat_axis(layer, len(bottoms[0]))]
        if layer.type == "Slice":
            body += ["slice_point: %d" % point for point in slice_points(layer, bottoms[0])]
    elif layer.type == "Reshape":
        body = ["shape { %s }" % _dims(tops[0])]
    elif layer.type == "BatchNorm":
        body = ["use_global_stats: true"] + _plain(params.message, ("eps",))
    elif layer.type == "LRN":
        # Without an lrn_param the importer takes defaults of its own, not Caffe's.
        body = ["%s: %s" % (name, value) for name, value in _LRN.items() if not params.has(name)]
        body += _plain(params.message, list(_LRN))
    elif layer.type == "Scale":
        body = ["axis: %d" % axis_of(params, "axis", 1, len(bottoms[0]))] + _plain(
            params.message, ("bias_term",)
        )
    else:
        body = _plain(
            params.message,
            [
                name
                for name in rule.fields
                if name not in _LEFT_OUT and (layer.type, name) != ("Swish", "beta")
            ],
        )
    return "%s { %s }" % (rule.param, " ".join(body)) if body else ""


def _window(params: Params, bases: Sequence[str]) -> List[str]:
    out = []
    for base in bases:
        pair = params.pair(base, 0 if base in ("kernel", "pad") else 1)
        assert pair is not None
        out += (
            ["%s_h: %d %s_w: %d" % (base, pair[0], base, pair[1])]
            if base != "dilation"
            else ["dilation: %d dilation: %d" % pair]
        )
    return out


def _plain(message: Message, names: Sequence[str]) -> List[str]:
    """Return the named scalar parameters as they are written; numbers in plain decimal form."""
    out = []
    for name in names:
        for text in message.texts(name):
            word = _ENUMS.get(name, {}).get(text, text)
            out.append(
                "%s: %s" % (name, word if word.replace("_", "").isalpha() else _decimal(word))
            )
    return out


def _decimal(text: str) -> str:
    value = number_of(text)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def planned(done: Normalised) -> List[Tuple[str, Shape]]:
    """Return every tensor's name in the normalised net and its shape, net inputs first."""
    return [(output.name, output.shape) for output in list(done.inputs.values()) + done.outputs]
