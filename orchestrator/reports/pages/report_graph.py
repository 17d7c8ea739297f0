"""The networks of a run as its report draws them: around the first suspect, and whole where that is
not too large.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .network_drawing import drawing, near, network_ops
from .network_folding import network_shown

_NEAR = 60


def report_graphs(
    documents: Sequence[Mapping[str, Any]],
    verdicts: Mapping[str, str],
    suspects: Sequence[str],
    whole: bool = True,
) -> List[Dict[str, Any]]:
    """Return what report_graph.js draws of each network, that of the first suspect first.

    Parameters
    ----------
    documents
        The store's ``graphs`` (:func:`goldwatch.store.stored_networks.network_document`).
    verdicts
        The worst verdict by op name.
    suspects
        Names of ops, worst first; where there is none, the first failing op, else the first op
        stands in the middle.
    whole
        Whether to draw more than the neighbourhood.

    Returns
    -------
    list
        ``{"model", "count", "focus", "names", "sources", "near", "whole"}``: the network's name,
        its number of ops, the name of the op in the middle of ``near``, and what
        :func:`network_shown` returns of that and of the whole; ``whole`` is null where ``near``
        holds all. ``names`` are those of the ops, ``sources`` the places in it of those that feed
        each of them; of the neighbourhood alone where that is all that is drawn.
    """
    entries = []
    for document in documents:
        ops = network_ops(document)
        number = {op.name: place for place, op in reversed(list(enumerate(ops)))}
        focus = next(
            (
                name
                for name in [*suspects, *(op.name for op in ops if verdicts.get(op.name) == "fail")]
                if name in number
            ),
            None,
        )
        if not ops:
            continue
        middle = number[focus] if focus is not None else 0
        around = near(ops, [middle], _NEAR)
        more: Optional[Dict[str, Any]] = None
        if whole and len(around) < len(ops):
            more = network_shown(ops, verdicts)
        shown = range(len(ops)) if whole else around
        at = {number: place for place, number in enumerate(shown)}
        feeding = [dict.fromkeys(flow.source for flow in ops[number].inputs) for number in shown]
        entry = {
            "names": [ops[number].name for number in shown],
            "sources": [[at[source] for source in sources if source in at] for sources in feeding],
            "model": document["model"],
            "count": len(ops),
            "focus": ops[middle].name,
            "near": {"drawing": drawing(ops, verdicts, around)},
            "whole": more,
        }
        entries.append((0 if ops[middle].name in suspects else 1, entry))
    return [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]
