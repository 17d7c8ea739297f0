"""Compares the golden data of two runs of one script: what differs is not reproducible, and
worthless as golden data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from ...errors import InputError
from ..manifest import read_manifest

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather")
_RANDOM = ("Random", "Truncated", "Multinomial", "Parameterized", "Stateless", "RandomShuffle")


@dataclass(frozen=True)
class Difference:
    """One tensor that the second run did not reproduce.

    Attributes
    ----------
    tensor
        ``op:index``, with the dump's number where a loop wrote several.
    op_type
        The type of the op.
    reason
        ``values differ``, ``shape … became …``, ``only in the first run`` …
    """

    tensor: str
    op_type: str
    reason: str


def compare_runs(first: str, second: str) -> Tuple[List[Difference], int]:
    """Return the tensors of golden folder ``first`` that ``second`` does not repeat bit for bit,
    and how many it does.

    Raises
    ------
    InputError
        A folder has no manifest.
    """
    one, two = _entries(first), _entries(second)
    differences: List[Difference] = []
    same = 0
    for key, entry in one.items():
        other = two.get(key)
        if other is not None and other["sha256"] == entry["sha256"]:
            same += 1
            continue
        if other is None:
            reason = "only in the first run"
        elif other["shape"] != entry["shape"] or other["dtype"] != entry["dtype"]:
            reason = "%s %s became %s %s" % (
                entry["dtype"],
                entry["shape"],
                other["dtype"],
                other["shape"],
            )
        else:
            reason = "values differ"
        differences.append(Difference(_name(key), _type(entry), reason))
    differences.extend(
        Difference(_name(key), _type(entry), "only in the second run")
        for key, entry in two.items()
        if key not in one
    )
    return differences, same


Key = Tuple[str, int, int]


def _entries(folder: str) -> Dict[Key, Dict[str, Any]]:
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError("%s has no manifest" % folder)
    return {
        (str(e["original_name"]), int(e["output_index"]), int(e.get("dump", 0))): e
        for e in manifest["tensors"]
    }


def _name(key: Key) -> str:
    return "%s:%d" % key[:2] + (" (dump %d)" % key[2] if key[2] else "")


def _type(entry: Dict[str, Any]) -> str:
    return "feed" if entry.get("fed") else str(entry.get("type", ""))


def advice(differences: List[Difference]) -> List[str]:
    """Return how to make the script reproducible, by the kinds of op that differ."""
    types = {difference.op_type for difference in differences}
    lines: List[str] = []
    if any(kind.startswith(_RANDOM) for kind in types):
        lines.append(
            "random ops differ (dropout …): call tf.set_random_seed(1) before the graph is "
            "built, or dump an inference run"
        )
    if types.intersection(_VARIABLES):
        lines.append(
            "variables differ: load a checkpoint, or call tf.set_random_seed(1) before the "
            "graph is built; an Estimator's model_dir "
            "that the first run wrote makes the second one go on from there"
        )
    if any(kind.startswith(("Iterator", "OneShotIterator")) for kind in types):
        lines.append(
            "input batches differ: shuffle with a fixed seed (dataset.shuffle(n, seed=1)) or "
            "not at all"
        )
    if "feed" in types:
        lines.append(
            "fed values differ: feed the same data (numpy.random.seed(1), random.seed(1), no "
            "shuffling, no time stamps)"
        )
    if any("only in" in difference.reason for difference in differences):
        lines.append("other ops ran: a condition or a loop depends on values that differ")
    if not lines:
        lines.append(
            "no random op among them: sums of several threads may differ in the last bits; "
            "set intra_op_parallelism_threads=1 and "
            "inter_op_parallelism_threads=1 in the session's ConfigProto"
        )
    return lines
