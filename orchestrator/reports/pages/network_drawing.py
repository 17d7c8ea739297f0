"""A network as it is drawn: its ops as boxes with their names in lines, what flows between them,
and where all of it stands.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...base.naming import printable
from ...base.shortening import broken, shorten_all
from .graph_layout import PORTS, lay_out

_LINE = 30
_LABEL = 36
_MOST_LINES = 4
_LETTER = 6.7
_LABEL_LETTER = 5.8
_LINE_HEIGHT = 14.0
_LABEL_HEIGHT = 11.0
_LABEL_GAP = 6.0
_PADDING = 22.0
_LEAST_WIDTH = 90.0
_ROOM = 30.0
_MOST_LABELS = 12
_MOST_WEIGHTS = 3


class Flow(NamedTuple):
    """What an op takes: the number of the op that made it, its shape and layout in words, and which
    output of that op it is.
    """

    source: int
    text: str
    output: int = 0


class NetworkOp(NamedTuple):
    """One op of a network.

    Attributes
    ----------
    inputs
        What it takes of other ops of the network.
    controls
        The numbers of the ops that it only waits for.
    origins
        The original ops that it came from, as words; empty where they would only repeat its name.
    weights
        The shapes of its weights, as words.
    """

    name: str
    type: str
    inputs: Tuple[Flow, ...]
    controls: Tuple[int, ...] = ()
    origins: str = ""
    weights: str = ""


def network_ops(document: Mapping[str, Any]) -> List[NetworkOp]:
    """Return the ops of a :func:`goldwatch.store.stored_networks.network_document`."""
    ops = document["ops"]
    by_name: Dict[Any, int] = {}
    for number, op in enumerate(ops):
        by_name.setdefault((op["graph"], op["name"]), number)
        by_name.setdefault(op["name"], number)

    def producer(op: Mapping[str, Any], name: str) -> Optional[int]:
        return by_name.get((op["graph"], name), by_name.get(name))

    network = []
    for op in ops:
        flows = []
        for source in op["inputs"]:
            made = None if source is None else producer(op, source[0])
            if made is not None:
                descs = ops[made]["output_descs"]
                flows.append(
                    Flow(
                        made,
                        desc_text(descs[source[1]]) if source[1] < len(descs) else "",
                        source[1],
                    )
                )
        controls = [
            made for made in (producer(op, name) for name in op["controls"]) if made is not None
        ]
        network.append(
            NetworkOp(
                op["name"],
                op["type"],
                tuple(flows),
                tuple(controls),
                origin_words(op["name"], op["originals"]),
            )
        )
    return network


def desc_text(desc: Mapping[str, Any]) -> str:
    """Return the device's shape and layout of a tensor as words: ``1,4,56,56,16 NC1HWC0``."""
    if not (desc["shape"] or desc["layout"] or desc["dtype"]):
        return ""
    return " ".join([",".join(map(str, desc["shape"])) or "scalar", desc["layout"]]).rstrip()


def weight_words(shapes: Sequence[str]) -> str:
    """Return the shapes of an op's weights as one line."""
    more = len(shapes) - _MOST_WEIGHTS
    return " · ".join(shapes[:_MOST_WEIGHTS]) + (" and %d more" % more if more > 0 else "")


def origin_words(name: str, originals: Optional[Sequence[str]]) -> str:
    """Return the original ops of a device op as one line: nothing where it is its own original, or
    the file does not say.
    """
    if originals is None or list(originals) == [name]:
        return ""
    if not originals:
        return "made by the compiler"
    if len(originals) == 1:
        return "from " + _cut(printable(originals[0]), _LINE)
    first, last = (_cut(printable(originals[place]), _LINE // 2) for place in (0, -1))
    return "from %s %s %s (%d)" % (first, "+" if len(originals) == 2 else "…", last, len(originals))


def _cut(name: str, most: int) -> str:
    """Return the end of a name that is too long, with an ellipsis: names of one network mostly
    differ there.
    """
    return name if len(name) <= most else "…" + name[1 - most :]


def near(ops: Sequence[NetworkOp], focus: Sequence[int], most: int) -> List[int]:
    """Return the numbers of the ops that are nearest to some of them along the data, at most so
    many, in the network's order.
    """
    beside: List[List[int]] = [[] for _ in ops]
    for number, op in enumerate(ops):
        for flow in op.inputs:
            beside[number].append(flow.source)
            beside[flow.source].append(number)
    nearby = dict.fromkeys(focus)
    waiting = deque(nearby)
    while waiting and len(nearby) < most:
        for other in beside[waiting.popleft()]:
            if other not in nearby and len(nearby) < most:
                nearby[other] = None
                waiting.append(other)
    return sorted(nearby)


def drawing(
    ops: Sequence[NetworkOp], verdicts: Mapping[str, str], chosen: Optional[Sequence[int]] = None
) -> Dict[str, Any]:
    """Return what graph.js draws, as JSON values.

    Parameters
    ----------
    verdicts
        By the op's name; ops without one are neither good nor bad.
    chosen
        The numbers of the ops to draw; all by default.

    Returns
    -------
    dict
        ``{"width", "height", "ops", "edges"}`` in pixels; an op ``{"number", "name", "type",
        "lines", "origins", "weights", "x", "y", "width", "height", "verdict", "more"}``: x and y of
        its middle, its verdict (null: none), how many of its neighbours are not drawn; an edge
        ``[source, target, text, label x, label y, [x, y, x, y, …]]`` by places in ``ops``: the text
        of what an op only waits for is null.
    """
    numbers = list(range(len(ops))) if chosen is None else list(chosen)
    place = {number: index for index, number in enumerate(numbers)}
    edges = _edges(ops, place)
    named = name_lines([op.name for op in ops])
    lines = [named[number] for number in numbers]
    labels: List[List[float]] = [[] for _ in numbers]
    for _, target, text in edges:
        labels[target].append(_LABEL_LETTER * len(text or ""))
    titles = [_cut(printable(ops[number].type), _LINE) for number in numbers]
    sizes = [
        _box_size(ops[number], title, inner, entering)
        for number, title, inner, entering in zip(numbers, titles, lines, labels)
    ]
    rows = [_label_rows(entering, width) for entering, (width, _) in zip(labels, sizes)]
    layout = lay_out(
        sizes,
        [(source, target) for source, target, _ in edges],
        [_ROOM + _LABEL_HEIGHT * count for count in rows],
    )
    missing = _missing(ops, place)
    boxes = [
        {
            "number": number,
            "name": ops[number].name,
            "type": title,
            "lines": inner,
            "origins": ops[number].origins,
            "weights": ops[number].weights,
            "x": x,
            "y": y,
            "width": round(size[0], 1),
            "height": round(size[1], 1),
            "verdict": verdicts.get(ops[number].name),
            "more": missing[number],
        }
        for number, title, inner, (x, y), size in zip(numbers, titles, lines, layout.centres, sizes)
    ]
    return {
        "width": layout.width,
        "height": layout.height,
        "ops": boxes,
        "edges": _drawn_edges(edges, layout.lines, boxes, rows),
    }


def _edges(
    ops: Sequence[NetworkOp], place: Mapping[int, int]
) -> List[Tuple[int, int, Optional[str]]]:
    """Return the edges between drawn ops by their places, each with its text; None: only waits."""
    edges: List[Tuple[int, int, Optional[str]]] = []
    for number, target in place.items():
        op = ops[number]
        edges += [
            (place[flow.source], target, _cut(printable(flow.text), _LABEL))
            for flow in op.inputs
            if flow.source in place
        ]
        edges += [(place[source], target, None) for source in op.controls if source in place]
    return edges


def _box_size(
    op: NetworkOp, title: str, lines: Sequence[str], labels: Sequence[float]
) -> Tuple[float, float]:
    """Return the width and height of an op's box, which is as wide as each label above it."""
    longest = max(map(_columns, [*lines, title + "   ", op.origins, op.weights]))
    height = _PADDING / 2 + _LINE_HEIGHT * (1 + len(lines) + bool(op.origins) + bool(op.weights))
    return max([_LEAST_WIDTH, longest * _LETTER + _PADDING, *labels]), height


def _missing(ops: Sequence[NetworkOp], place: Mapping[int, int]) -> Dict[int, int]:
    """Return how many neighbours of each drawn op are not drawn."""
    missing = dict.fromkeys(place, 0)
    for number, op in enumerate(ops):
        for flow in op.inputs:
            if (number in place) != (flow.source in place):
                missing[number if number in place else flow.source] += 1
    return missing


def _label_rows(widths: Sequence[float], width: float) -> int:
    """Return in how many rows the labels above an op of this width stand so that none lies upon
    another.
    """
    longest = max(widths, default=0.0)
    return (
        min(
            _MOST_LABELS,
            len(widths),
            int((longest + _LABEL_GAP) * len(widths) / (PORTS * width)) + 1,
        )
        if longest
        else 0
    )


def _drawn_edges(
    edges: Sequence[Tuple[int, int, Optional[str]]],
    lines: Sequence[List[Tuple[float, float]]],
    boxes: Sequence[Mapping[str, Any]],
    rows: Sequence[int],
) -> List[List[Any]]:
    entering: Dict[int, List[int]] = {}
    for number in sorted(range(len(edges)), key=lambda number: lines[number][-1][0]):
        entering.setdefault(edges[number][1], []).append(number)
    rank = {number: index for numbers in entering.values() for index, number in enumerate(numbers)}
    labels = {number: text for number, (_, _, text) in enumerate(edges)}
    for numbers in entering.values():
        texts = {labels[number] for number in numbers}
        if len(numbers) > _MOST_LABELS and len(texts) == 1 and texts != {None}:
            # One label says it for all.
            middle = numbers[len(numbers) // 2]
            labels.update({number: "" for number in numbers})
            labels[middle] = (
                "%d × %s" % (len(numbers), edges[middle][2]) if edges[middle][2] else ""
            )
    drawn = []
    for number, ((source, target, _), line) in enumerate(zip(edges, lines)):
        text = labels[number]
        box = boxes[target]
        spare = max(0.0, (box["width"] - _LABEL_LETTER * len(text or "")) / 2)
        x = min(max(line[-1][0], box["x"] - spare), box["x"] + spare)
        y = line[-1][1] - 10 - _LABEL_HEIGHT * (rank[number] % max(1, rows[target]))
        drawn.append(
            [
                source,
                target,
                text,
                round(x, 1),
                round(y, 1),
                [value for point in line for value in point],
            ]
        )
    return drawn


def name_lines(names: Sequence[str]) -> List[List[str]]:
    """Return each of a network's names in lines of at most 30 letters, broken behind ``/``, ``_``,
    ``.``, ``:`` or ``-`` where they can.

    Names that four lines do not hold are shortened, each so that it reads as no other.
    """
    texts = [printable(name) for name in names]
    shown = shorten_all(texts, _LINE * _MOST_LINES)
    return [broken(shown[text], _LINE) for text in texts]


def _columns(text: str) -> int:
    """Return how many columns a text takes in letters of one width; Chinese ones take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
