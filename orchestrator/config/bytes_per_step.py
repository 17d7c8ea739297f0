"""How many bytes one step of a dump takes."""

from __future__ import annotations

from typing import Dict, Iterable, Mapping, Optional, Sequence, Set, Tuple

from ..base.fast_dataclasses import dataclass
from ..base.wording import plural, size_text
from ..model.op_node import OpNode

#: A statistics row and its share of the header; a line of text per tensor.
STATS_BYTES = 256
#: The header of a dump file: dozens to hundreds of bytes per tensor.
HEADER_BYTES = 256


@dataclass(frozen=True)
class Estimate:
    """What one step takes.

    Attributes
    ----------
    size_bytes
        Of all tensors whose size the model tells.
    ops, tensors
        How many are dumped.
    unknown
        Tensors whose dtype or shape the model does not tell.
    """

    size_bytes: int
    ops: int
    tensors: int
    unknown: int

    def text(self, per: str = "step") -> str:
        """Return one line for people."""
        counts = "%s, %s" % (plural(self.ops, "op"), plural(self.tensors, "tensor"))
        if self.unknown == self.tensors > 0:
            return "an unknown size per %s (%s; the model does not tell their shapes)" % (
                per,
                counts,
            )
        line = "about %s per %s (%s)" % (size_text(self.size_bytes), per, counts)
        return line + (
            ", without %s of unknown size" % plural(self.unknown, "tensor") if self.unknown else ""
        )


def estimate(
    ops: Iterable[OpNode],
    mode: str = "output",
    data: str = "tensor",
    skipped: Optional[Mapping[str, Set[str]]] = None,
) -> Estimate:
    """Return what dumping these ops takes per step.

    Parameters
    ----------
    mode
        ``input``, ``output`` or ``all``.
    data
        ``tensor``, or ``stats`` for a line of text per tensor.
    skipped
        Op name or type to the positions (``input0`` …) that are left out.
    """
    total, tensors, unknown, count = 0, 0, 0, 0
    for op in ops:
        count += 1
        left_out: Set[str] = set()
        for key in (op.name, op.type):
            left_out |= (skipped or {}).get(key, set())
        for kind, descs in (("input", op.input_descs), ("output", op.output_descs)):
            if mode not in (kind, "all"):
                continue
            for index, desc in enumerate(descs):
                if "%s%d" % (kind, index) in left_out:
                    continue
                tensors += 1
                size = STATS_BYTES if data == "stats" else desc.size_bytes
                if size is None:
                    unknown += 1
                else:
                    total += size + (HEADER_BYTES if data != "stats" else 0)
    return Estimate(total, count, tensors, unknown)


def skipped_positions(pairs: Iterable[Tuple[str, Sequence[str]]]) -> Dict[str, Set[str]]:
    """Return ``{name or type: positions}`` of blacklist entries."""
    table: Dict[str, Set[str]] = {}
    for name, positions in pairs:
        table.setdefault(name, set()).update(positions)
    return table


def step_count(step: Optional[str]) -> Optional[int]:
    """Return how many steps a valid dump_step names; None for all of them."""
    if not step:
        return None
    total = 0
    for part in step.split("|"):
        first, _, last = part.partition("-")
        total += int(last) - int(first) + 1 if last else 1
    return total
