"""``goldwatch submodel``: which parts are cut out: from a given start to a given end, from a
result, a ladder, or the next step of a search.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ..errors import InputError, MissingPath, UsageError
from ..filesystem.safe_reading import read_input
from ..schemas.documents import read_document
from ..submodel.culprit_of_result_json import read_outcome, require_op
from ..submodel.cut_proposals import Proposal, Searcher
from ..submodel.export_document import FILE
from ..submodel.export_plan import Sources, SubmodelOptions
from ..submodel.node_names import chosen_nodes

_LIMIT_BYTES = 256 << 20


def require_one_choice(
    options: SubmodelOptions,
    from_result: Optional[str],
    ladder: bool,
    narrow: Optional[str],
    result: Optional[str],
) -> None:
    """Raise UsageError for options that exclude one another."""
    ways = (
        ("--start/--end", options.starts or options.ends),
        ("--from-result", from_result),
        ("--narrow", narrow),
    )
    used = [name for name, value in ways if value]
    if len(used) > 1:
        raise UsageError(
            "%s exclude one another" % " and ".join(used), hint="each says by itself what is cut"
        )
    if (narrow is None) != (result is None):
        raise UsageError(
            "--narrow and --result belong together",
            hint="--narrow PREVIOUS_EXPORT --result OUT_OF_ITS_COMPARISON",
        )
    if ladder and narrow is not None:
        raise UsageError("--ladder and --narrow exclude one another")


def chosen_cuts(
    options: SubmodelOptions,
    sources: Sources,
    from_result: Optional[str],
    ladder: bool,
    narrow: Optional[str],
    result: Optional[str],
) -> List[Optional[Proposal]]:
    """Return the cuts to make, in order; None stands for the one from the given start to the given
    end.
    """
    if narrow is not None and result is not None:
        return [Searcher(sources).next(_previous(narrow, sources), read_outcome(result))]
    if from_result is not None:
        outcome = read_outcome(from_result)
        op = require_op(outcome, from_result)
        searcher = Searcher(sources)
        return (
            list(searcher.ladder(searcher.nodes_of(op)))
            if ladder
            else [searcher.of_outcome(outcome, op)]
        )
    if ladder:
        return list(
            Searcher(sources).ladder(
                chosen_nodes(sources.original, options.starts, options.ends)[2]
            )
        )
    return [None]


def _previous(folder: str, sources: Sources) -> Dict[str, Any]:
    """Return the document of an earlier export from the same model."""
    path = os.path.join(folder, FILE) if os.path.isdir(folder) else folder
    if not os.path.isfile(path):
        raise MissingPath(
            "--narrow %s: no %s there" % (folder, FILE),
            hint="name the folder of an earlier export, dump_result_…",
        )
    document: Dict[str, Any] = read_document(read_input(path, _LIMIT_BYTES), "submodel", path)
    kind = document["model"]["kind"]
    if kind != sources.original.kind:
        raise InputError(
            "%s is of a %s model, MODEL is of %s" % (path, kind, sources.original.kind)
        )
    return document
