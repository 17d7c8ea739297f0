"""Acts on modules as soon as a script has imported them, and imports none itself."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional

Action = Callable[[ModuleType], None]


def after_import(
    actions: Dict[str, Action], on_failure: Optional[Callable[[str, BaseException], None]] = None
) -> None:
    """Call ``actions[name](module)`` as soon as module ``name`` has been imported (at once where it
    has been already).

    Parameters
    ----------
    on_failure
        Called with the name and the error when the import of a named module fails.
    """
    later: Dict[str, Action] = {}
    for name, action in actions.items():
        if name in sys.modules:
            action(sys.modules[name])
        else:
            later[name] = action
    sys.meta_path.insert(0, _Finder(later, on_failure))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(
        self, actions: Dict[str, Action], on_failure: Optional[Callable[[str, BaseException], None]]
    ) -> None:
        self.actions = actions
        self.on_failure = on_failure

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in self.actions:
            return None
        for finder in sys.meta_path:
            # Until Python 3.11 a finder, or a loader, may have the calls of PEP 302 alone.
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self.actions[fullname], self.on_failure)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """A module's own loader, and something to do behind it."""

    def __init__(
        self,
        loader: Any,
        action: Action,
        on_failure: Optional[Callable[[str, BaseException], None]],
    ) -> None:
        self._loader = loader
        self._action = action
        self._on_failure = on_failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._loader.exec_module(module)
        except Exception as error:
            if self._on_failure is not None:
                self._on_failure(module.__name__, error)
            raise
        self._action(module)
