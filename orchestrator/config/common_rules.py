"""What the checks of an acl.json and of npu settings have in common."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from .finding import Findings, Path
from .models import Models

COMPARED = ("Max", "Min", "Avg", "Nan", "Negative Inf", "Positive Inf", "L2norm")
"""Of dump_stats what compare judges by."""


class DumpRules:
    """Checks one dump configuration.

    Parameters
    ----------
    findings
        Where findings go.
    cann
        The version in use, or None.
    models
        The models, where names that look wrong may be right.

    Attributes
    ----------
    folder
        dump_path on this machine when it can be used, else None.
    dumps_models
        Whether ops of models would be dumped.
    """

    def __init__(
        self, findings: Findings, cann: Optional[str] = None, models: Optional[Models] = None
    ) -> None:
        self.findings = findings
        self.models = models or Models([])
        self.cann = cann
        self.folder: Optional[str] = None
        self.dumps_models = False

    def statistics(self, data: Any, place: Path, items: Optional[Sequence[Any]] = None) -> None:
        """Note what is written instead of tensors where ``dump_data`` is ``stats``.

        Parameters
        ----------
        place
            Of ``dump_data``.
        items
            What ``dump_stats`` asks for; None: the default.
        """
        if data != "stats":
            return
        written = "a CSV of statistics is written in place of each dump, no tensor"
        fix = "compare takes these files as TARGET and says which tensors to dump then"
        missing = [name for name in COMPARED if items is not None and name not in items]
        if items is None:
            fix += '; with "L2norm" among dump_stats (CANN 8.5) it finds more'
        elif missing:
            fix += "; it finds more with what dump_stats leaves out: %s" % ", ".join(missing)
        self.findings.note("statistics-only", place, 'dump_data is "stats"', written, fix)
