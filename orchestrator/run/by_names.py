"""Without a model, tensors pair by the names of their ops alone: which of those pairs a verdict may
rest on.

A compiled network fuses operators and often keeps the name of the first, whose golden tensor is
then not the one of the fused output. So rows fail by names alone only where these fit one to one:
each dumped operator has golden data of its name and shape, and each golden operator a dump, but
those that golden data begin with (the network's inputs) and the casts and conversions that the
compiler puts in.
"""

from __future__ import annotations

from typing import Set

from ..diagnosis.run_sentence import NO_MODEL, NOT_JUDGED
from ..metrics.row import BY_NAME, FAIL, GOLDEN_MISSING, NOT_COMPARED
from ..naming import sanitise_golden
from ..text.wording import plural
from .engine import Engine

_INSERTED = ("Cast", "TransData")
_BEHIND = "; whether this golden tensor is its counterpart is not known without the model"
_CAUSES = (GOLDEN_MISSING, "shape")


def judge_by_names(engine: Engine) -> str:
    """Take back what fails by its name alone where names do not fit one to one; return why they do
    not, empty where all is well.

    Must be called once all rows are stored, inside a transaction of the store.
    """
    if engine.graphs or engine.goldens.kind == "npu":
        return ""
    why, taken_back = _misfit(engine), False
    for row in engine.store.rows():
        if why and row.verdict == FAIL:
            engine.put_rows(
                [row.but(verdict=NOT_COMPARED, reason=row.reason + _BEHIND, cause=BY_NAME)]
            )
            taken_back = True
        elif why and row.cause == BY_NAME:
            taken_back = True
        elif not why and row.cause == BY_NAME:
            engine.put_rows([row.but(verdict=FAIL, reason=row.reason[: -len(_BEHIND)], cause="")])
    return why + NOT_JUDGED if taken_back else why


def _misfit(engine: Engine) -> str:
    """Return how dumped and golden operators differ, as a sentence; empty where they fit one to
    one.
    """
    dumped: Set[str] = set()
    matched: Set[str] = set()
    alone: Set[str] = set()
    for row in engine.store.rows():
        name = sanitise_golden(row.op)
        dumped.add(name)
        if row.kind == "output" and row.golden_file is not None:
            matched.add(name)
        if row.kind == "output" and row.cause in _CAUSES and row.op_type not in _INSERTED:
            alone.add(name)
    stamps = engine.goldens.every.stamps()
    first = min((stamps[name] for name in matched if name in stamps), default=0)
    left = [name for name, stamp in stamps.items() if name not in dumped and stamp >= first]
    if not alone and not left:
        return ""
    counts = (
        "of %s %d without golden data of that name and shape, of the golden ones %d without a dump"
    )
    found = counts % (plural(len(dumped), "dumped operator"), len(alone), len(left))
    return "%s, and names do not fit one to one (%s)" % (NO_MODEL, found)
