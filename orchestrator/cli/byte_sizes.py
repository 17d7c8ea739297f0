"""Sizes in bytes as people write them."""

from __future__ import annotations

import re
from typing import Optional

from ..errors import UsageError

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([kmgt]?)(i?)b?\s*\Z", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: Optional[str], option: str = "--min-free") -> Optional[int]:
    """Return ``500M``, ``2GiB`` or ``1.5T`` in bytes (powers of 1024); None for None.

    Raises
    ------
    UsageError
        Another form.
    """
    if text is None:
        return None
    match = _SIZE.match(text)
    if match is None:
        raise UsageError(
            "%s %s: expected a size in bytes" % (option, text),
            hint="for example 500M or 20G (powers of 1024)",
        )
    return int(float(match.group(1)) * 1024 ** _POWERS[match.group(2).lower()])
