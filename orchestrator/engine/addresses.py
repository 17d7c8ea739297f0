"""Tensors that overlap in memory while both are still needed: a memory fault, which the addresses in the dumps show.

Source: the vendor's document on the Address column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..dumps.container import DumpFile
from ..dumps.place import Place
from ..errors import GoldwatchError
from ..model.graph import ModelGraph
from ..model.graphs import ModelGraphs
from ..model.never import VARIABLE_TYPES
from ..model.nodes import OpNode, execution_key
from ..model.row_plan import OUTPUT
from .catalogue import Catalogue
from .target_file import EARLIER

# Ops that may hand on their input's memory as it is.
_HANDING_ON = frozenset(["Reshape", "ExpandDims", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Bitcast", "StopGradient", "NoOp"])
_FOR_EVER = (1 << 62, 0)


@dataclass(frozen=True)
class Overlap:
    """Two outputs of which the later one was written over the earlier one.

    Attributes
    ----------
    place
        Where they were dumped.
    earlier, later
        ``{op}:output:{i}``.
    address, nbytes
        Where the earlier one lies, and how many of its bytes are overwritten.
    until
        The op that needs the earlier one last; empty where it is an output of the network.
    """

    place: Place
    earlier: str
    later: str
    address: int
    nbytes: int
    until: str

    @property
    def sentence(self) -> str:
        """The fault in one sentence."""
        needed = "%s still reads it" % self.until if self.until else "it is an output of the network"
        text = "%s lies in memory where %s lies (%d bytes from 0x%x on) although %s: a memory fault%s"
        label = self.place.label()
        return text % (self.later, self.earlier, self.nbytes, self.address, needed, " (%s)" % label if label else "")

    def document(self) -> Dict[str, Any]:
        """Return result.json's entry."""
        found = {"earlier": self.earlier, "later": self.later, "address": self.address, "bytes": self.nbytes, "until": self.until}
        return {"place": self.place._asdict(), **found}


@dataclass(frozen=True)
class _Lived:
    """An output's stretch of memory and of time; ``until`` is the last op that needs it."""

    tensor: str
    start: int
    stop: int
    born: Tuple[int, int]
    dies: Tuple[int, int]
    until: str


def find_overlaps(catalogue: Catalogue, graphs: ModelGraphs) -> List[Overlap]:
    """Return the memory faults that the dumps show, in the order of the execution; every header is read once.

    A tensor is needed until the last op that takes it has run, directly or through ops that hand on its memory.
    """
    found: List[Overlap] = []
    for place, files in sorted(catalogue.by_place().items(), key=lambda item: Place.order(item[0])):
        taken: Dict[str, _Lived] = {}
        written: Dict[str, _Lived] = {}
        graph = graphs.of(place.model)
        for file in files:
            if graph is not None and file.state != EARLIER:
                for lived, is_output in _tensors(file.path, file.dumped().op_name, graph):
                    (written if is_output else taken)[lived.tensor] = lived
        found += _sweep(place, list({**taken, **written}.values()))
    return found


def _tensors(path: str, name: str, graph: ModelGraph) -> Iterator[Tuple[_Lived, bool]]:
    """Yield the outputs of a dump's op (True), and those that its inputs are (False): of a model input there is no other dump."""
    ops = graph.ops_dumped_as(name)
    if len(ops) != 1:
        return
    (op,) = ops
    try:
        dump = DumpFile.open(path, partial=True)
    except (GoldwatchError, OSError):
        return
    known = [(op, info.index, info) for info in dump.outputs]
    connected = [source for source in op.inputs if source is not None]
    sources = op.inputs if len(dump.inputs) == len(op.inputs) else connected
    if len(dump.inputs) == len(sources):
        for source, info in zip(sources, dump.inputs):
            producer = graph.producer(op, source[0]) if source is not None else None
            # A variable is written over because it is one.
            if source is not None and producer is not None and producer.type not in VARIABLE_TYPES:
                known.append((producer, source[1], info))
    for source_op, index, info in known:
        if info.address and info.size_bytes and not _hands_on(source_op):
            dies, until = _last_need(graph, source_op, index)
            tensor = "%s:output:%d" % (source_op.name, index)
            lived = _Lived(tensor, info.address, info.address + info.size_bytes, execution_key(source_op), dies, until)
            yield lived, info.kind == OUTPUT


def _hands_on(op: OpNode) -> bool:
    return op.no_task or op.type in _HANDING_ON


def _last_need(graph: ModelGraph, op: OpNode, index: int) -> Tuple[Tuple[int, int], str]:
    """Return when an output is needed last, and by which op."""
    last, until = execution_key(op), op.name
    waiting: List[Tuple[OpNode, Optional[int]]] = [(op, index)]
    seen: Set[int] = set()
    while waiting:
        source, number = waiting.pop()
        for taker in graph.consumers(source, number):
            if taker.type == "NetOutput":
                return _FOR_EVER, ""
            if execution_key(taker) > last:
                last, until = execution_key(taker), taker.name
            if _hands_on(taker) and taker.position not in seen:
                seen.add(taker.position)
                waiting.append((taker, None))
    return last, until


def _sweep(place: Place, lived: Sequence[_Lived]) -> List[Overlap]:
    found = []
    needed: List[_Lived] = []
    for later in sorted(lived, key=lambda one: one.born):
        # What the op itself takes may be overwritten by it: ops work in place.
        needed = [one for one in needed if one.dies > later.born]
        for one in needed:
            low, high = max(one.start, later.start), min(one.stop, later.stop)
            if low < high and one.tensor != later.tensor:
                found.append(Overlap(place, one.tensor, later.tensor, low, high - low, one.until))
        needed.append(later)
    return found
