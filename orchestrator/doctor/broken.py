"""Which needed package broke while it was imported: a broken installation is no failing model."""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import Optional

from ..errors import EnvironmentProblem
from .packages import NEEDED, file_of

_LONGEST = 160


def broken_package(error: BaseException) -> Optional[EnvironmentProblem]:
    """Return in a sentence which package that goldwatch needs cannot be imported, when ``error``
    came out of an import; None otherwise.
    """
    if not isinstance(error, (ImportError, SyntaxError)) and not _in_import(error.__traceback__):
        return None
    for package in NEEDED:
        try:
            importlib.import_module(package.module)
        except KeyboardInterrupt:
            raise
        except BaseException:
            place = file_of(package.module)
            why = "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:_LONGEST])
            message = "%s cannot be imported%s: %s" % (
                package.name or package.module,
                " (%s)" % place if place else "",
                why,
            )
            return EnvironmentProblem(
                message,
                "goldwatch doctor tells more" if package.name != "click" else "install it again",
            )
    return None


def _in_import(trace: Optional[TracebackType]) -> bool:
    """Tell whether a module's own lines were being run."""
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "<module>":
            return True
        trace = trace.tb_next
    return False
