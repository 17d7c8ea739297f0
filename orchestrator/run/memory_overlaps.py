"""Tensors that overlap in memory while both are still needed: a memory fault, which the addresses
in the dumps show.

Source: the vendor's document on the Address column.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..base.errors import GoldwatchError
from ..base.fast_dataclasses import dataclass
from ..base.notes import Note, note
from ..dumps.dump_file import DumpFile
from ..dumps.place import Place
from ..model.graph import ModelGraph
from ..model.graphs_of_run import ModelGraphs
from ..model.never_dumped import VARIABLE_TYPES
from ..model.op_node import OpNode, execution_key
from ..model.row_plan import OUTPUT
from .dump_catalogue import Catalogue
from .target_file import DELETED, EARLIER, Region, TargetFile

# Ops that may hand on their input's memory as it is.
_HANDING_ON = frozenset(
    [
        "Reshape",
        "ExpandDims",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Identity",
        "Bitcast",
        "StopGradient",
        "NoOp",
    ]
)
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
        needed = (
            "%s still reads it" % self.until if self.until else "it is an output of the network"
        )
        text = (
            "%s lies in memory where %s lies (%d bytes from 0x%x on) although %s: a memory fault%s"
        )
        label = self.place.label()
        return text % (
            self.later,
            self.earlier,
            self.nbytes,
            self.address,
            needed,
            " (%s)" % label if label else "",
        )

    def document(self) -> Dict[str, Any]:
        """Return result.json's entry."""
        document = {
            "earlier": self.earlier,
            "later": self.later,
            "address": self.address,
            "bytes": self.nbytes,
            "until": self.until,
        }
        return {"place": self.place.document(), **document}


@dataclass(frozen=True)
class _Lifetime:
    """An output's stretch of memory and of time; ``until`` is the last op that needs it."""

    tensor: str
    start: int
    stop: int
    born: Tuple[int, int]
    dies: Tuple[int, int]
    until: str


def note_regions(file: TargetFile) -> None:
    """Note where a file's tensors lie, before it is deleted."""
    file.regions = _regions(file.path)


def _regions(path: str) -> Optional[Tuple[Region, ...]]:
    try:
        dump = DumpFile.open(path, partial=True)
    except (GoldwatchError, OSError):
        return None
    return tuple(
        (info.kind, info.index, info.address or 0, info.size_bytes)
        for info in (*dump.inputs, *dump.outputs)
    )


def find_overlaps(catalogue: Catalogue, graphs: ModelGraphs) -> Tuple[List[Overlap], List[Note]]:
    """Return the memory faults that the dumps show, in the order of the execution, and what could
    not be looked at, as sentences.

    A tensor is needed until the last op that takes it has run, directly or through ops that hand on
    its memory. Every header is read once.
    """
    overlaps: List[Overlap] = []
    deleted = 0
    for place, files in sorted(catalogue.by_place().items(), key=lambda item: Place.order(item[0])):
        taken: Dict[str, _Lifetime] = {}
        written: Dict[str, _Lifetime] = {}
        graph = graphs.of(place.model)
        for file in files:
            if graph is None or file.state == EARLIER:
                continue
            regions = file.regions or _regions(file.path)
            deleted += regions is None and file.state == DELETED
            for lived, is_output in _tensors(regions or (), file.dumped().op_name, graph):
                (written if is_output else taken)[lived.tensor] = lived
        overlaps += _sweep(place, list({**taken, **written}.values()))
    return overlaps, [note("deleted-dumps", deleted, " has" if deleted == 1 else "s have")] * bool(
        deleted
    )


def _tensors(
    regions: Sequence[Region], name: str, graph: ModelGraph
) -> Iterator[Tuple[_Lifetime, bool]]:
    """Yield the outputs of a dump's op (True), and those that its inputs are (False): of a model
    input there is no other dump.
    """
    ops = graph.ops_dumped_as(name)
    if len(ops) != 1:
        return
    (op,) = ops
    sources: Sequence[Optional[Tuple[str, int]]] = op.inputs
    n_inputs = sum(kind != OUTPUT for kind, *_ in regions)
    if n_inputs != len(sources):
        # A dump lists all inputs of the model file, or the connected ones only.
        sources = [source for source in sources if source is not None]
    for kind, index, address, size in regions:
        maker: Optional[OpNode] = op
        if kind != OUTPUT:
            source = sources[index] if n_inputs == len(sources) else None
            maker = graph.producer(op, source[0]) if source is not None else None
            index = source[1] if source is not None else index
        # A variable is written over because it is one.
        if (
            maker is None
            or not address
            or not size
            or _hands_on(maker)
            or (kind != OUTPUT and maker.type in VARIABLE_TYPES)
        ):
            continue
        dies, until = _last_need(graph, maker, index)
        tensor = "%s:output:%d" % (maker.name, index)
        yield (
            _Lifetime(tensor, address, address + size, execution_key(maker), dies, until),
            kind == OUTPUT,
        )


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


def _sweep(place: Place, lived: Sequence[_Lifetime]) -> List[Overlap]:
    overlaps = []
    needed: List[_Lifetime] = []
    for later in sorted(lived, key=lambda one: one.born):
        # What the op itself takes may be overwritten by it from its first byte on: ops work in
        # place. Elsewhere it overtakes itself.
        needed = [
            one
            for one in needed
            if one.dies > later.born or (one.dies == later.born and one.start != later.start)
        ]
        for one in needed:
            low, high = max(one.start, later.start), min(one.stop, later.stop)
            if low < high and one.tensor != later.tensor:
                overlaps.append(
                    Overlap(place, one.tensor, later.tensor, low, high - low, one.until)
                )
        needed.append(later)
    return overlaps
