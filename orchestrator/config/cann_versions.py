"""CANN versions in order, and since when each field has been seen.

The releases are the earliest sightings in public documents and source, not proofs of a first
release: they only ever warn.
"""

from __future__ import annotations

import re
from typing import Dict, Optional, Tuple

from ..base.errors import UsageError

Version = Tuple[int, ...]

_VERSION = re.compile(
    r"(?:CANN[ "
    r"_-]?|V)?(?P<major>\d{1,4})(?:\.(?P<minor>\d{1,4}))?(?:\.(?P<rc>RC)?(?P<patch>\d{1,4}))?"
    r"(?:\.(?P<extra>\d{1,4}))?(?:[.-]?(?P<early>alpha|beta)(?P<number>\d{0,5}))?\Z",
    re.I,
)

#: (field, value or None) of acl.json's dump section -> earliest sighting.
ACL_SINCE: Dict[Tuple[str, Optional[str]], str] = {
    ("dump_debug", None): "5.0",
    ("dump_step", None): "6.0",
    ("dump_scene", None): "8.0.RC1",
    ("dump_data", None): "8.0.RC2",
    ("dump_level", None): "8.0.RC3.alpha003",
    ("dump_scene", "watcher"): "8.0.0.alpha003",
    ("watcher_nodes", None): "8.0.0.alpha003",
    ("dump_stats", None): "8.5",
    ("optype_blacklist", None): "8.5",
    ("opname_blacklist", None): "8.5",
    ("opname_range", None): "8.5",
    ("dump_scene", "aic_err_brief_dump"): "8.5",
    ("dump_scene", "aic_err_norm_dump"): "8.5",
    ("dump_scene", "aic_err_detail_dump"): "8.5",
    ("dump_kernel_data", None): "9.0",
}

#: npu_bridge of February 2021 (CANN 20.2) knew neither.
NPU_SINCE: Dict[Tuple[str, Optional[str]], str] = {
    ("dump_data", None): "5.0",
    ("dump_layer", None): "5.0",
}


def parse_version(text: str) -> Version:
    """Return a key that sorts CANN versions: 20.x (2020) before 5.0, alpha before beta before RC
    before the release.

    Raises
    ------
    UsageError
        ``text`` is no CANN version.
    """
    match = _VERSION.match(text.strip())
    if match is None:
        raise UsageError("%r is no CANN version" % text, hint="write it as 8.0.RC1, 8.0.0 or 20.2")
    major, minor = int(match.group("major")), int(match.group("minor") or 0)
    released = 0 if match.group("rc") else 1
    early = {"alpha": 0, "beta": 1}.get((match.group("early") or "").lower(), 2)
    # The releases of 2020 were numbered 20.x; 5.0 followed them in 2021.
    year_named = 0 if major >= 20 else 1
    patch, extra = int(match.group("patch") or 0), int(match.group("extra") or 0)
    return (
        year_named,
        major,
        minor,
        released,
        patch,
        early,
        int(match.group("number") or 0),
        extra,
    )
