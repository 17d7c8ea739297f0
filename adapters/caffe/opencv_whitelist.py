"""Which layer types and parameters OpenCV's importer computes as real Caffe does; everything else
is refused by name.

Each entry was compared with BVLC Caffe, or with a plain numpy formula of Caffe's definition, on
OpenCV 4.11 and 4.14. Known to differ silently, and so not listed: LRN with k other than 1 or over
one channel, InnerProduct transpose, Log with parameters, Swish with beta, MVN with eps, dilated
Deconvolution, Scale with a bias on two bottoms. What depends on shapes (Deconvolution 1x1 with a
pad, windows outside their blob, MVN of other than four axes) is refused in :mod:`.shapes`; what
depends on the numbers (NaN, infinities, magnitudes at which sums of squares lose what is small or
overflow) after the run. The script ``caffe_whitelist`` compares random layers of every type here
with a real Caffe, or with Caffe's definitions in numpy.
"""

from __future__ import annotations

import math
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ...errors import FormatError, InputError
from ...netfiles.caffe_net import Layer, Net
from ...netfiles.protobuf_text import number_of
from ...netfiles.prototxt_edits import Document
from ...text.wording import listed

WAY_OUT = (
    "use `backend=numpy`, which knows more layers; or a real Caffe: `backend=caffe` "
    "`python=PATH`, where PATH is a Python in which "
    "`import caffe` gives caffe.Net"
)
_REFUSALS_SHOWN = 8
_FLOAT32_MAX = 3.4e38
#: Both keep running sums of squares, each in its own order: what a huge number leaves behind in
# them, 2**-24 of alpha times its mean : square, must be small beside 1, to which the sums are
# added.
_LOST_BESIDE = 1e-4 * 2**24
Check = Callable[[str], bool]


def _any(_: str) -> bool:
    return True


def _equals(*numbers: float) -> Check:
    return lambda text: number_of(text) in numbers


def _other_than(*numbers: float) -> Check:
    return lambda text: number_of(text) not in numbers


def _words(*allowed: str) -> Check:
    return lambda text: text in allowed


_FALSE_WORDS = ("", "false", "False", "f", "0")
_FALSE = _words(*_FALSE_WORDS)
_TRUE = _words("true", "True", "t", "1")
_WINDOW: Dict[str, Check] = {
    name: _any
    for name in (
        "kernel_size",
        "kernel_h",
        "kernel_w",
        "stride",
        "stride_h",
        "stride_w",
        "pad",
        "pad_h",
        "pad_w",
        "engine",
    )
}
_CONVOLUTION: Dict[str, Check] = dict(
    _WINDOW,
    num_output=_any,
    bias_term=_any,
    group=_any,
    axis=_equals(1),
    force_nd_im2col=_FALSE,
    weight_filler=_any,
    bias_filler=_any,
)


class Rule(NamedTuple):
    """What is known of one layer type.

    Attributes
    ----------
    param
        The name of its parameter message, or None.
    fields
        The parameters that may be written, each with a check of its value.
    weights
        Whether the layer needs weights.
    bottoms
        Least and greatest number of bottoms.
    tops
        Greatest number of tops.
    """

    param: Optional[str] = None
    fields: Dict[str, Check] = {}
    weights: bool = False
    bottoms: Tuple[int, int] = (1, 1)
    tops: int = 1


MANY = 1 << 30
RULES: Dict[str, Rule] = {
    "AbsVal": Rule(),
    "BNLL": Rule(),
    "ELU": Rule("elu_param", {"alpha": _any}),
    "ReLU": Rule("relu_param", {"negative_slope": _any, "engine": _any}),
    "Sigmoid": Rule("sigmoid_param", {"engine": _any}),
    "TanH": Rule("tanh_param", {"engine": _any}),
    "Swish": Rule("swish_param", {"beta": _equals(1)}),
    "Dropout": Rule("dropout_param", {"dropout_ratio": _any}),
    "Flatten": Rule("flatten_param", {"axis": _any, "end_axis": _any}),
    "PReLU": Rule("prelu_param", {"filler": _any, "channel_shared": _FALSE}, True),
    "Softmax": Rule("softmax_param", {"axis": _any, "engine": _any}),
    "MVN": Rule(
        "mvn_param", {"normalize_variance": _any, "across_channels": _any, "eps": _equals(1e-9)}
    ),
    "Exp": Rule("exp_param", {"base": _any, "scale": _any, "shift": _any}),
    "Power": Rule("power_param", {"power": _any, "scale": _any, "shift": _any}),
    "Split": Rule(tops=MANY),
    "BatchNorm": Rule(
        "batch_norm_param",
        {"use_global_stats": _TRUE, "moving_average_fraction": _any, "eps": _any},
        True,
    ),
    "Scale": Rule(
        "scale_param",
        {
            "axis": _any,
            "num_axes": _equals(1),
            "filler": _any,
            "bias_term": _any,
            "bias_filler": _any,
        },
        True,
        (1, 2),
    ),
    "Concat": Rule("concat_param", {"axis": _any, "concat_dim": _any}, bottoms=(1, MANY)),
    "Slice": Rule("slice_param", {"axis": _any, "slice_dim": _any, "slice_point": _any}, tops=MANY),
    "Convolution": Rule("convolution_param", dict(_CONVOLUTION, dilation=_any), True),
    "Deconvolution": Rule("convolution_param", dict(_CONVOLUTION, dilation=_equals(1)), True),
    "Crop": Rule("crop_param", {"axis": _any, "offset": _any}, bottoms=(2, 2)),
    "Eltwise": Rule(
        "eltwise_param",
        {
            "operation": _words("PROD", "SUM", "MAX", "0", "1", "2"),
            "coeff": _any,
            "stable_prod_grad": _any,
        },
        bottoms=(2, MANY),
    ),
    "InnerProduct": Rule(
        "inner_product_param",
        {
            "num_output": _any,
            "bias_term": _any,
            "weight_filler": _any,
            "bias_filler": _any,
            "axis": _any,
            "transpose": _FALSE,
        },
        True,
    ),
    "LRN": Rule(
        "lrn_param",
        {
            "local_size": _other_than(1),
            "alpha": _any,
            "beta": _any,
            "k": _equals(1),
            "norm_region": _any,
            "engine": _any,
        },
    ),
    "Pooling": Rule(
        "pooling_param",
        dict(
            _WINDOW,
            pool=_words("MAX", "AVE", "0", "1"),
            global_pooling=_any,
            round_mode=_words("CEIL", "0"),
        ),
        tops=2,
    ),
    "Reshape": Rule("reshape_param", {"shape": _any, "axis": _any, "num_axes": _any}),
    "Input": Rule("input_param", {"shape": _any}, bottoms=(0, 0), tops=MANY),
    "Silence": Rule(bottoms=(1, MANY), tops=0),
}
_FREE_FIELDS = {
    *(
        "name",
        "type",
        "bottom",
        "top",
        "include",
        "exclude",
        "phase",
        "loss_weight",
        "param",
        "propagate_down",
    ),
    *("blobs_lr", "weight_decay", "transform_param"),
    # Loss layers alone read it.
    "loss_param",
}


def refuse_unknown(net: Net) -> None:
    """Refuse a net with a layer type, a parameter or a value that is not known to be computed as in
    Caffe.

    Raises
    ------
    InputError
        Every such layer is named with its parameter.
    """
    problems = (
        [problem for layer in net.layers for problem in _problems(layer, net.document)]
        + _shared_weights(net)
        + _unknown_blobs(net)
    )
    if problems:
        shown = listed(problems, _REFUSALS_SHOWN, "; ")
        raise InputError(
            "the opencv backend does not compute this net as Caffe does: " + shown, hint=WAY_OUT
        )


def _problems(layer: Layer, document: Document) -> List[str]:
    where = "layer %s (%s)" % (layer.title, layer.type or "no type")
    rule = RULES.get(layer.type)
    if rule is None and not layer.bottoms and layer.tops:
        return [
            "%s: it reads its data itself; a deploy prototxt has an Input layer in its place"
            % where
        ]
    if rule is None:
        return ["%s: the type is not on the list of types checked against Caffe" % where]
    out = []
    low, high = rule.bottoms
    if not low <= len(layer.bottoms) <= high:
        out.append("%s: %d bottoms" % (where, len(layer.bottoms)))
    # Convolutions apply the same weights to each bottom; that was not compared.
    if len(layer.tops) > rule.tops or (not layer.tops and rule.tops):
        out.append("%s: %d tops" % (where, len(layer.tops)))
    if (
        layer.type == "Scale"
        and len(layer.bottoms) == 2
        and layer.message.message("scale_param").text("bias_term") not in _FALSE_WORDS
    ):
        out.append("%s: parameter scale_param.bias_term with two bottoms" % where)
    if layer.phase == "TRAIN":
        out.append("%s: parameter phase TRAIN" % where)
    for field in layer.message.fields:
        if field.name not in _FREE_FIELDS and field.name != rule.param:
            out.append(
                "%s: parameter %s (line %d)" % (where, field.name, document.line(field.start))
            )
    if rule.param is not None:
        for field in layer.message.message(rule.param).fields:
            check = rule.fields.get(field.name)
            for value in field.values:
                if check is None or (value.message is None and not _passes(check, value.text)):
                    written = ("%s.%s %s" % (rule.param, field.name, value.text)).rstrip()
                    out.append(
                        "%s: parameter %s (line %d)" % (where, written, document.line(field.start))
                    )
    return out


def _passes(check: Check, text: str) -> bool:
    try:
        return check(text)
    except FormatError:
        return False


class Unlike(NamedTuple):
    """Of which numbers OpenCV makes something else than Caffe.

    Attributes
    ----------
    infinite
        Of infinities too, not only of NaN.
    largest
        Of numbers of a greater magnitude.
    """

    infinite: bool = False
    largest: float = math.inf


def unlike(layer: Layer, count: int) -> Optional[Unlike]:
    """Tell of which numbers that reach this layer (``count`` are its bottom's) OpenCV makes
    something else than Caffe, or None.
    """
    if layer.type == "LRN":
        params = layer.message.message("lrn_param")
        size, alpha = params.number("local_size", 5.0), abs(params.number("alpha", 1.0))
        elements = (
            size
            if params.text("norm_region", "ACROSS_CHANNELS") in ("ACROSS_CHANNELS", "0")
            else size * size
        )
        return Unlike(True, math.sqrt(_LOST_BESIDE * elements / alpha) if alpha else math.inf)
    if layer.type == "MVN":
        return Unlike(True, math.sqrt(_FLOAT32_MAX / max(1, count)))
    if layer.type == "Power":
        return (
            None
            if layer.message.message("power_param").number("power", 1.0).is_integer()
            else Unlike(True)
        )
    if layer.type == "Eltwise":
        return (
            Unlike()
            if layer.message.message("eltwise_param").text("operation") in ("MAX", "2")
            else None
        )
    return Unlike() if layer.type in ("Sigmoid", "TanH") else None


def _shared_weights(net: Net) -> List[str]:
    """Name layers that share weights by name: OpenCV would read each layer's own."""
    seen: Dict[str, str] = {}
    out = []
    for layer in net.layers:
        names = [
            text for message in layer.message.messages("param") for text in message.texts("name")
        ] + layer.message.texts("param")
        for name in names:
            if name and name in seen:
                out.append(
                    "layer %s (%s): param.name %s shares the weights of layer %s"
                    % (layer.title, layer.type, name, seen[name])
                )
            seen.setdefault(name, layer.title)
    return out


def _unknown_blobs(net: Net) -> List[str]:
    graph = net.graph()
    return [
        "layer %s (%s): bottom %s is made by no layer"
        % (layer.title, layer.type, layer.bottoms[index].text)
        for layer, (origins, _) in zip(net.layers, graph)
        for index, origin in enumerate(origins)
        if origin[0] == -2
    ]
