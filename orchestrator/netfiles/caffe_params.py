"""A Caffe layer's parameters by the names of caffe.proto, as numbers, bool and strings.

Source: caffe.proto of BVLC Caffe, of the SSD branch and of the branches that docs/caffe.md names.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, FrozenSet, Optional, Tuple

from ..base.errors import FormatError
from .protobuf_text import Message, Value, integer_of, number_of

_NOT_PARAMETERS = frozenset(("transform_param", "include", "exclude", "param"))
_REPEATED = frozenset(
    "kernel_size stride pad dilation hole slice_point coeff offset offset_h offset_w min_size "
    "max_size aspect_ratio variance dim order "
    "bias_term_size".split()
)
"""Fields of layers' parameters that are repeated in caffe.proto, or in the SSD branch's."""
_SINGLE: Dict[str, FrozenSet[str]] = {
    "pooling_param": frozenset(("kernel_size", "stride", "pad")),
    "detection_output_param": frozenset(("offset",)),
    "prior_box_param": frozenset(("offset",)),
    "reduction_param": frozenset(("coeff",)),
    "reorg_param": frozenset(("stride",)),
    "upsample_param": frozenset(("stride",)),
}
"""Fields of the same names that are not repeated in these parameters."""
_SEVERAL: Dict[str, FrozenSet[str]] = {"reverse_param": frozenset(("axis",))}
"""Fields that are repeated in these parameters only."""
_OLDER = {("convolution_param", "hole"): "dilation"}
"""Other names of fields: DeepLab's Caffe had dilation before BVLC's."""
_POOLS = ("MAX", "AVE", "STOCHASTIC")
_NUMBERED: Dict[Tuple[str, str], Tuple[str, ...]] = {
    ("pooling_param", "pool"): _POOLS,
    ("spp_param", "pool"): _POOLS,
    ("pooling_param", "round_mode"): ("CEIL", "FLOOR"),
    ("eltwise_param", "operation"): ("PROD", "SUM", "MAX"),
    ("lrn_param", "norm_region"): ("ACROSS_CHANNELS", "WITHIN_CHANNEL"),
    ("reduction_param", "operation"): ("", "SUM", "ASUM", "SUMSQ", "MEAN"),
    ("hinge_loss_param", "norm"): ("", "L1", "L2"),
    ("loss_param", "normalization"): ("FULL", "VALID", "BATCH_SIZE", "NONE"),
    ("detection_output_param", "code_type"): ("", "CORNER", "CENTER_SIZE", "CORNER_SIZE"),
    ("bn_param", "bn_mode"): ("LEARN", "INFERENCE"),
}
"""Names of enums that a file may give by their numbers."""


def parameters_of(
    layer: Message, unknown: bool = False, only: Optional[Collection[str]] = None
) -> Dict[str, Any]:
    """Return the fields of a layer's own parameters, as numbers, bool or words; repeated fields and
    messages in them as lists and dicts.

    Parameters
    ----------
    unknown
        Its fields may be those of a caffe.proto that is not known here: one that stands there
        several times is repeated.
    only
        The names of the messages to read, where others may stand beside them.
    """
    parameters: Dict[str, Any] = {}
    for name in dict.fromkeys(field.name for field in layer.fields):
        if (
            name.endswith("_param")
            and name not in _NOT_PARAMETERS
            and (only is None or name in only)
        ):
            repeated = _REPEATED.union(_SEVERAL.get(name, ())).difference(_SINGLE.get(name, ()))
            made = _fields(layer.message(name), repeated, unknown)
            for key, value in made.items():
                key = _OLDER.get((name, key), key)
                names = _NUMBERED.get((name, key), ())
                parameters[key] = (
                    names[value] if type(value) is int and 0 <= value < len(names) else value
                )
    return parameters


def _fields(
    message: Message, repeated: FrozenSet[str] = _REPEATED, unknown: bool = False
) -> Dict[str, Any]:
    fields: Dict[str, Any] = {}
    for name in dict.fromkeys(field.name for field in message.fields):
        values = message.values(name)
        made = [
            _plain(value) if value.message is None else _fields(value.message, unknown=unknown)
            for value in values
        ]
        if name in repeated or (unknown and len(made) > 1):
            fields[name] = made
        elif made:
            fields[name] = made[-1]
    return fields


def _plain(value: Value) -> Any:
    """Return a string, or the bool, the number or the enum's name that a scalar word stands for."""
    text = value.text
    if value.pieces:
        return text
    if text in ("true", "True", "t", "false", "False", "f"):
        return text[0] in "tT"
    for read in (integer_of, number_of):
        try:
            return read(text)
        except FormatError:
            continue
    return text
