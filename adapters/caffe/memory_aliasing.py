"""Where Caffe's shared memory makes a layer read other numbers than the net's graph says.

The memory is simulated: a blob's version has a place, and a place has a content. Source: Caffe's
Flatten, Reshape, Split and single Concat and Slice layers share memory with their bottom; its
Eltwise SUM first writes zeros to its top, which in place is its own bottom.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Optional, Tuple

from ...netfiles.caffe_net import Layer, Net, eltwise_is_sum, shares_memory

Version = Tuple[int, int]
# CHECK_NE(top[0], bottom[0]) in their LayerSetUp or Reshape.
NEVER_IN_PLACE = ("AbsVal", "Flatten", "Reshape")
Warning_ = Dict[str, str]


def memory_warnings(net: Net, dropped: AbstractSet[int] = frozenset()) -> List[Warning_]:
    """Return ``{"layer", "message"}`` for each layer whose numbers change against Caffe itself when
    in-place layers get tops of their own.

    Parameters
    ----------
    dropped
        Numbers of layers that are removed as well.
    """
    memory = _Memory(net)
    warnings: List[Warning_] = []
    for number, layer in enumerate(net.layers):
        bottoms = [memory.current.get(value.text) for value in layer.bottoms]
        overwritten = [
            _overwritten(net, memory, layer, index, bottom) for index, bottom in enumerate(bottoms)
        ]
        warnings += [warning for warning in overwritten if warning is not None][:1]
        for index in range(len(layer.tops)):
            if layer.in_place(index):
                warnings += _early_readers(memory, layer, index)
        refused = _refused(layer)
        warnings += refused or _eltwise(layer)
        memory.run(number, layer, bottoms, number in dropped)
    return warnings


def refused_in_place(net: Net) -> List[Warning_]:
    """Return ``{"layer", "message"}`` of each in-place layer that Caffe itself refuses."""
    return [
        warning for layer in net.layers if layer.type != "Python" for warning in _refused(layer)
    ]


class _Memory:
    """Caffe's memory as the layers run one after the other.

    Attributes
    ----------
    current
        Blob name to its version ``(layer number, top index)``; net inputs have layer number -1.
    place, meaning
        Of each version: where it lies, and whose numbers it stands for by the net's graph.
    content
        Of each place: whose numbers lie there now.
    readers
        Of each version: the layers that have read it.
    """

    def __init__(self, net: Net) -> None:
        self.current: Dict[str, Version] = {
            blob: (-1, number) for number, blob in enumerate(net.inputs)
        }
        self.place: Dict[Version, Version] = {version: version for version in self.current.values()}
        self.meaning = dict(self.place)
        self.content = dict(self.place)
        self.readers: Dict[Version, List[Layer]] = {}

    def run(
        self, number: int, layer: Layer, bottoms: List[Optional[Version]], dropped: bool
    ) -> None:
        for bottom in bottoms:
            if bottom is not None:
                self.readers.setdefault(bottom, []).append(layer)
        shared = bottoms[0] if bottoms and shares_memory(layer) else None
        same_numbers = dropped or shares_memory(layer) or layer.type == "Dropout"
        for index, value in enumerate(layer.tops):
            version = (number, index)
            below = bottoms[index] if layer.in_place(index) else shared
            self.place[version] = version if below is None else self.place[below]
            self.meaning[version] = version
            if below is not None and same_numbers:
                self.meaning[version] = self.meaning[below]
            else:
                self.content[self.place[version]] = version
            self.current[value.text] = version


def _overwritten(
    net: Net, memory: _Memory, layer: Layer, index: int, bottom: Optional[Version]
) -> Optional[Warning_]:
    if bottom is None:
        return None
    meant, actual = memory.meaning[bottom], memory.content[memory.place[bottom]]
    if meant == actual:
        return None
    maker = net.layers[meant[0]].title if meant[0] >= 0 else "the net's input"
    message = (
        "reads blob %s, whose memory the in-place layer %s overwrote through a blob that "
        "shares it (Flatten, Reshape and the like share "
        "memory); Caffe goes on with those numbers, the new net with those of %s"
    )
    return {
        "layer": layer.name,
        "message": message % (layer.bottoms[index].text, net.layers[actual[0]].title, maker),
    }


def _early_readers(memory: _Memory, layer: Layer, index: int) -> List[Warning_]:
    """Tell of another reader of the version that ``layer`` overwrites: BVLC Caffe refuses such a
    net.
    """
    blob = layer.tops[index].text
    version = memory.current.get(blob)
    if version is None:
        return []
    out = []
    for other in memory.readers.get(version, []):
        message = (
            "overwrites blob %s, which layer %s reads before; Caffe itself refuses such a net, in "
            "the new one %s reads it as it was"
        )
        out.append({"layer": layer.name, "message": message % (blob, other.title, other.title)})
    return out


def _refused(layer: Layer) -> List[Warning_]:
    """Tell of a layer that Caffe does not let work in place, or (Python) of which only its own code
    knows.
    """
    if not layer.is_in_place:
        return []
    names = [value.text for value in layer.bottoms]
    twice = [
        layer.tops[index].text
        for index in range(len(layer.tops))
        if layer.in_place(index) and names.count(names[index]) > 1
    ]
    if twice:
        message = (
            "reads blob %s twice and writes over it; Caffe itself refuses such a net, in the "
            "new one it is read as it was" % twice[0]
        )
    elif layer.type in NEVER_IN_PLACE:
        message = (
            "works in place, which Caffe itself refuses for %s; the new net computes it into "
            "a blob of its own" % layer.type
        )
    elif layer.type == "Python":
        message = (
            "is a Python layer in place: if its code reads a bottom after it has written the top, "
            "its numbers change in the new net"
        )
    else:
        return []
    return [{"layer": layer.name, "message": message}]


def _eltwise(layer: Layer) -> List[Warning_]:
    if not layer.in_place(0) or not eltwise_is_sum(layer):
        return []
    message = (
        "adds in place on its first bottom: Caffe clears that blob before it adds and so "
        "loses it; the new net computes the true sum, "
        "which differs from Caffe's numbers"
    )
    return [{"layer": layer.name, "message": message}]
