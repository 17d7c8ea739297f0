"""In-place layers get tops of their own, in the text itself; layers of the other phase go; nothing
else changes.

The renaming is static single assignment over the versions of each blob: a reader keeps the version
that it read in Caffe.
"""

from __future__ import annotations

import json
import os
from dataclasses import field
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from ...base.atomic_writing import write_atomically
from ...base.errors import GoldwatchError, InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...base.safe_reading import open_input
from ...netfiles.caffe_net import Layer, Net, dropout_is_plain, initial_state
from ...netfiles.prototxt_cut import delete_layers
from ...netfiles.prototxt_edits import SIZE_LIMIT_BYTES, Document, encode, read_document
from .memory_aliasing import memory_warnings


@dataclass
class Deinplaced:
    """The result of :func:`deinplace_text`.

    Attributes
    ----------
    text
        The new prototxt.
    renamed
        ``{"layer", "old", "new"}`` per top that got a name of its own, in the net's order.
    removed
        Names of the layers that went, in the net's order.
    warnings
        ``{"layer", "message"}``: layers whose numbers differ from what Caffe itself computes, and
        why.
    changed_outputs
        ``{"old", "new"}`` per output of the net that has another name now.
    """

    text: str
    renamed: List[Dict[str, str]] = field(default_factory=list)
    removed: List[str] = field(default_factory=list)
    warnings: List[Dict[str, str]] = field(default_factory=list)
    changed_outputs: List[Dict[str, str]] = field(default_factory=list)

    def report(self) -> Dict[str, Any]:
        """Return the changes as a JSON document."""
        return {
            "renamed": self.renamed,
            "removed": self.removed,
            "warnings": self.warnings,
            "changed_outputs": self.changed_outputs,
        }


def deinplace_file(
    model: str,
    output: Optional[str] = None,
    phase: str = "TEST",
    level: Optional[int] = None,
    stages: Sequence[str] = (),
    drop_dropout: bool = False,
    force: bool = False,
    report: Optional[str] = None,
) -> Tuple[str, Deinplaced]:
    """Write the net of ``model`` without in-place layers and return the new file's path and what
    was done.

    Parameters
    ----------
    output
        By default ``new_NAME`` beside the model.
    phase, level, stages
        What include and exclude rules are judged by; stages of the file's own ``state`` count, too
        (its level does not: Caffe sets it).
    drop_dropout
        Remove Dropout layers that are the identity at TEST; by default they stay.
    force
        Replace an existing output. The model itself is never written.
    report
        A JSON file to write :meth:`Deinplaced.report` to; an earlier report is replaced, any other
        file only by force.

    Raises
    ------
    UsageError
        The output exists, or is the model itself.
    InputError
        The file is not a net that Caffe would take.
    """
    document = read_document(model)
    path = (
        output
        if output is not None
        else os.path.join(os.path.dirname(model), "new_" + os.path.basename(model))
    )
    check_output(path, [model], force)
    if report is not None:
        if os.path.abspath(report) == os.path.abspath(path):
            raise UsageError("%s is both the output and the report" % printable(report))
        check_output(report, [model, path], force or _is_report(report), "`report`")
    done = deinplace_text(document, phase, level, stages, drop_dropout)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    write_atomically(path, encode(done.text))
    if report is not None:
        os.makedirs(os.path.dirname(os.path.abspath(report)), exist_ok=True)
        write_atomically(report, (json.dumps(done.report(), indent=1) + "\n").encode("ascii"))
    return path, done


def _is_report(path: str) -> bool:
    """Tell whether a file is a report of an earlier run (which may be replaced)."""
    try:
        with open_input(path) as stream:
            document = json.loads(stream.read(SIZE_LIMIT_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and {
        "renamed",
        "removed",
        "warnings",
        "changed_outputs",
    } <= set(document)


def check_output(
    path: str, inputs: Sequence[str], force: bool, parameter: str = "`output`"
) -> None:
    """Refuse an output that is one of the inputs, or exists already (unless forced)."""
    another = "choose another name with %s" % parameter
    if not os.path.lexists(path):
        return
    if os.path.isdir(path):
        raise UsageError(
            "%s is a folder" % printable(path), hint="give a file name with %s" % parameter
        )
    for name in inputs:
        if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
            raise UsageError(
                "%s is the input itself, which is never written" % printable(path), hint=another
            )
    if not force:
        raise UsageError(
            "%s exists already" % printable(path), hint=another + ", or add `force` to replace it"
        )


def deinplace_text(
    document: Document,
    phase: str = "TEST",
    level: Optional[int] = None,
    stages: Sequence[str] = (),
    drop_dropout: bool = False,
) -> Deinplaced:
    """Return the text of a net without in-place layers; see :func:`deinplace_file`."""
    state = initial_state(document, phase, level, stages)
    net = Net(document, state)
    done = _rewrite(net, drop_dropout and phase == "TEST")
    # Parse the result and make sure of it: no in-place layer, the same layers, every bottom from
    # the same top as before.
    try:
        after = Net(Document(done.text), state)
    except InputError as error:
        raise GoldwatchError(
            "the rewritten net cannot be read (a defect of goldwatch; nothing was written): %s"
            % error.message
        ) from error
    remaining = _without(net, len(after.layers))
    for layer in after.layers:
        if layer.is_in_place:
            raise GoldwatchError(
                "layer %s is still in place (a defect of goldwatch; nothing was written)"
                % layer.title
            )
    names = [(layer.name, layer.type) for layer in after.layers]
    if (
        names != [(layer.name, layer.type) for _, layer in remaining]
        or _edges(net, remaining) != after.graph()
    ):
        raise GoldwatchError(
            "the rewritten net is another graph (a defect of goldwatch; nothing was written)"
        )
    return done


def _rewrite(net: Net, drop_dropout: bool) -> Deinplaced:
    done = Deinplaced("")
    dropped = _droppable(net) if drop_dropout else set()
    done.warnings = memory_warnings(net, dropped)
    used = net.blobs
    tried: Dict[str, int] = {}
    current: Dict[str, str] = {}
    unread: Dict[str, str] = {}
    made = set(net.inputs)
    for number, layer in enumerate(net.layers):
        old_bottoms = [value.text for value in layer.bottoms]
        for value in layer.bottoms:
            unread.pop(value.text, None)
            if value.text not in made:
                made.add(value.text)
                message = (
                    "reads blob %s, which no layer before it makes in phase %s; Caffe refuses "
                    "such a net, the new one as well"
                )
                done.warnings.append(
                    {"layer": layer.name, "message": message % (value.text, net.state.phase)}
                )
        made.update(value.text for value in layer.tops)
        if number in dropped:
            current[layer.tops[0].text] = current.get(old_bottoms[0], old_bottoms[0])
            continue
        for value in layer.bottoms:
            new = current.get(value.text, value.text)
            if new != value.text:
                net.document.replace_string(value, new)
        for index, value in enumerate(layer.tops):
            unread[value.text] = value.text
            if not layer.in_place(index):
                continue
            new = _new_name(layer, index, used, tried)
            used.add(new)
            current[value.text] = unread[value.text] = new
            net.document.replace_string(value, new)
            done.renamed.append({"layer": layer.name, "old": value.text, "new": new})
    done.changed_outputs = [{"old": old, "new": new} for old, new in unread.items() if old != new]
    doomed = net.removed + [net.layers[number] for number in sorted(dropped)]
    done.removed = [layer.name for layer in sorted(doomed, key=lambda layer: layer.start)]
    delete_layers(net.document, doomed)
    done.text = net.document.edited()
    return done


def _new_name(layer: Layer, index: int, used: Set[str], tried: Dict[str, int]) -> str:
    """Return an unused name; ``tried`` holds the last number of each base, so that thousands of
    equal names are not counted through.
    """
    if not layer.name:
        base = layer.tops[index].text + "_inplace"
    elif len(layer.tops) > 1:
        base = "%s_%d" % (layer.name, index)
    else:
        base = layer.name
    name, number = base, tried.get(base, 0)
    while name in used:
        number += 1
        name = "%s_%d" % (base, number)
    tried[base] = number
    return name


def _droppable(net: Net) -> Set[int]:
    """Return the numbers of the Dropout layers that may go: the identity at TEST, and read by
    somebody.
    """
    last_read: Dict[str, int] = {}
    for number, layer in enumerate(net.layers):
        for value in layer.bottoms:
            last_read[value.text] = number
    return {
        number
        for number, layer in enumerate(net.layers)
        if dropout_is_plain(layer) and last_read.get(layer.tops[0].text, -1) > number
    }


def _without(net: Net, count: int) -> List[Tuple[int, Layer]]:
    """Return the kept layers with their numbers; where fewer are left, plain Dropout layers were
    dropped.
    """
    numbered = list(enumerate(net.layers))
    if len(numbered) == count:
        return numbered
    dropped = _droppable(net)
    return [(number, layer) for number, layer in numbered if number not in dropped]


def _edges(
    net: Net, remaining: Sequence[Tuple[int, Layer]]
) -> List[Tuple[List[Tuple[int, int]], int]]:
    """Return the original net's graph with dropped layers short-circuited and the others
    renumbered.
    """
    numbers = {number: position for position, (number, _) in enumerate(remaining)}
    graph = net.graph()

    def origin(edge: Tuple[int, int]) -> Tuple[int, int]:
        while edge[0] >= 0 and edge[0] not in numbers:
            edge = graph[edge[0]][0][0]
        return (numbers[edge[0]], edge[1]) if edge[0] >= 0 else edge

    return [
        ([origin(edge) for edge in graph[number][0]], graph[number][1]) for number, _ in remaining
    ]
