"""A finding: one pattern in the difference of two tensors, of a kind that has a stable id."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Dict, Optional

from ...base.fast_dataclasses import dataclass

KINDS = (
    "nan", "inf", "healthy", "other-tensor", "axis-swap", "axis-flip", "shift",
    "channel-permutation", "sign-flip", "saturation",
    "flush-to-zero", "region", "scale", "offset", "coarser-type",
)  # fmt: skip
"""The stable ids, the more specific ones first: in this order findings that explain all alike are
listed.
"""


CLAIMED = 0.9
"""No pattern is claimed that explains less of the squared error."""


@dataclass(frozen=True)
class Finding:
    """A pattern.

    Attributes
    ----------
    kind
        One of :data:`KINDS`.
    share
        Of the squared error, how much it explains: 1 − (what is left without the pattern) / (all).
    sentence
        What was found, in numbers.
    detail
        The numbers, as JSON values.
    """

    kind: str
    share: float
    sentence: str
    detail: Dict[str, Any] = field(default_factory=dict)


def claimed(kind: str, share: float, sentence: str, **detail: Any) -> Optional[Finding]:
    """Return a finding where it explains enough, else None."""
    return Finding(kind, share, sentence, detail) if share >= CLAIMED else None
