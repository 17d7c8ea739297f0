"""The layers of a Caffe net as :mod:`goldwatch.operators` takes them: parameters by caffe.proto's names, weights behind the bottoms."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..errors import FormatError
from ..netfiles.caffemodel import read_weights
from ..netfiles.textformat import Message, integer_of, number_of
from ..operators import CAFFE, Node
from ..submodel.caffe_original import CaffeOriginal
from .nodes import Argument, Call, Nodes
from .original import NotComputable

_NOT_PARAMETERS = frozenset(("transform_param", "loss_param", "include", "exclude", "param"))
_REPEATED = frozenset(
    "kernel_size stride pad dilation slice_point coeff offset min_size max_size aspect_ratio variance dim order bias_term_size".split()
)
"""Fields of layers' parameters that are repeated in caffe.proto, or in the SSD branch's."""
_SINGLE = {"pooling_param": frozenset(("kernel_size", "stride", "pad")), "detection_output_param": frozenset(("offset",)),
           "prior_box_param": frozenset(("offset",)), "reorg_param": frozenset(("stride",))}  # fmt: skip
"""Fields of the same names that are not repeated in these parameters."""


class CaffeNodes(Nodes):
    """The layers of a net.

    Parameters
    ----------
    original
        The net.
    weights
        Path of the .caffemodel; None where there is none.
    """

    def __init__(self, original: CaffeOriginal, weights: Optional[str]) -> None:
        self._original = original
        self._path = weights
        self._weights: Optional[Dict[str, List[Any]]] = None

    def call(self, number: int) -> Call:
        """Return a layer; raises as :meth:`Nodes.call`."""
        layer = self._original.net.layers[number]
        if layer.type == "Python":
            raise NotComputable("a layer of type Python has code of its own")
        node = Node(CAFFE, layer.type, parameters_of(layer.message), layer.name, 0, len(layer.tops))
        arguments: List[Argument] = list(self._original.graph.sources[number])
        if self._original.weighted(number):
            blobs = self._blobs().get(layer.name)
            if blobs is None:
                raise NotComputable("the weights of layer %s are not known" % layer.title)
            arguments += blobs
        return Call(node, arguments)

    def _blobs(self) -> Dict[str, List[Any]]:
        if self._weights is None:
            self._weights = {} if self._path is None else read_weights(self._path)
        return self._weights


def parameters_of(layer: Message) -> Dict[str, Any]:
    """Return the fields of a layer's own parameters, as numbers, bool or words; repeated fields and messages in them as lists and dicts."""
    found: Dict[str, Any] = {}
    for name in dict.fromkeys(field.name for field in layer.fields):
        if name.endswith("_param") and name not in _NOT_PARAMETERS:
            found.update(_fields(layer.message(name), _SINGLE.get(name, frozenset())))
    return found


def _fields(message: Message, single: Any = frozenset()) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name in dict.fromkeys(field.name for field in message.fields):
        values = message.values(name)
        made = [_word(value.text) if value.message is None else _fields(value.message) for value in values]
        if name in _REPEATED and name not in single:
            found[name] = made
        elif made:
            found[name] = made[-1]
    return found


def _word(text: str) -> Any:
    """Return the bool, the number or the enum's name that a scalar word stands for."""
    if text in ("true", "false"):
        return text == "true"
    for read in (integer_of, number_of):
        try:
            return read(text)
        except FormatError:
            continue
    return text
