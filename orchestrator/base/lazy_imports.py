"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable, Sequence


def imported_when_used(package: str, **homes: Sequence[str]) -> Callable[[str], Any]:
    """Return the package's ``__getattr__`` (PEP 562).

    Parameters
    ----------
    homes
        The names that each module of the package gives; ``a__b`` stands for module ``a.b``.
    """
    places = {
        name: "%s.%s" % (package, home.replace("__", "."))
        for home, names in homes.items()
        for name in names
    }

    def __getattr__(name: str) -> Any:
        if name not in places:
            raise AttributeError("module %r has no attribute %r" % (package, name))
        value = getattr(importlib.import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
