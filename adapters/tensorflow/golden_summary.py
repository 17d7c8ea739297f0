"""The summary of one golden folder: how many tensors were saved or not, notes on what is missing
and why.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping

from ...base.manifest import add_to_manifest
from ...base.naming import printable
from ..golden_writer import GoldenWriter
from ..nonfinite import NOT_FINITE, not_finite_of, not_finite_warnings

GRAPPLER_OFF = "grappler and graph optimisation are off (disable_meta_optimizer, opt_level L0)"
GRAPPLER_ON = (
    "the session was built with graph optimisation on: ops that grappler fused or folded are "
    "missing"
)


def golden_summary(
    out: str,
    writer: GoldenWriter,
    refusals: List[Dict[str, str]],
    makes: Callable[[Mapping[str, Any]], bool],
) -> Dict[str, Any]:
    """Return what was done for a golden folder whose tensors are written, and put what the manifest
    has of it into ``writer.extra``.

    Parameters
    ----------
    out
        The folder, as the user named it.
    refusals
        The dumps that could not be saved, each as ``{"tensor", "reason"}``.
    makes
        As for :func:`~goldwatch.adapters.nonfinite.not_finite_of`.

    Returns
    -------
    dict
        ``out`` and the counts ``dumps``, ``saved``, ``skipped``, ``refused`` (these three add up to
        the first), ``parked``, ``hashed``, with ``collisions``, the list ``refusals`` and
        ``not_finite`` (as in the manifest).
    """
    counts = writer.counts
    dumps = counts["written"] + counts["skipped"] + len(refusals)
    writer.extra.update(dumps=dumps, refused=refusals)
    not_finite = not_finite_of(writer.tensors, makes)
    if not_finite is not None:
        writer.extra[NOT_FINITE] = not_finite
    return {
        "out": out,
        "dumps": dumps,
        "saved": counts["written"],
        "skipped": counts["skipped"],
        "refused": len(refusals),
        "parked": counts["parked"],
        "hashed": counts["hashed"],
        "collisions": dict(writer.collisions),
        "refusals": refusals,
        "not_finite": not_finite,
    }


def add_notes(entry: Dict[str, Any]) -> None:
    """Put ``notes`` into what was done for one golden folder, and into the folder's manifest where
    there are any.
    """
    entry["notes"] = _notes(entry)
    if entry["notes"]:
        add_to_manifest(entry["out"], notes=entry["notes"])


def _notes(entry: Dict[str, Any]) -> List[str]:
    notes: List[str] = not_finite_warnings(entry["not_finite"])
    if entry["optimiser"] == GRAPPLER_ON:
        notes.append(GRAPPLER_ON)
    if entry["xla"]:
        notes.append(xla_note(entry))
    for op, names in entry["collisions"].items():
        notes.append(
            "collision: %s all become %s; their files have hash names (mapping.csv)"
            % (", ".join(names), op)
        )
    if entry["hashed"]:
        notes.append(
            "%d files have hash names, for theirs are longer than 255 bytes (mapping.csv)"
            % entry["hashed"]
        )
    if entry["calls"]:
        calls = ", ".join(entry["calls"][:5])
        notes.append(
            "functions are called (%s), and their inner ops cannot be dumped: freeze the "
            "model (inlined) for those" % calls
        )
    return notes


def xla_note(entry: Dict[str, Any]) -> str:
    """Name the clusters of an entry that has some."""
    clusters = ", ".join(printable(name) for name in entry["xla"][:5])
    return (
        "XLA compiled ops into clusters (%s), and the ops inside them have no golden data: "
        "switch XLA off" % clusters
    )
