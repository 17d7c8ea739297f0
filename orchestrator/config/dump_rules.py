"""What the checks of an acl.json and of npu settings have in common."""

from __future__ import annotations

from typing import Optional

from .finding import Findings
from .models import Models


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

    def __init__(self, findings: Findings, cann: Optional[str] = None, models: Optional[Models] = None) -> None:
        self.findings = findings
        self.models = models or Models([])
        self.cann = cann
        self.folder: Optional[str] = None
        self.dumps_models = False
