"""What in a script may set dump options where the text does not show which: other modules'
functions and other tools' objects.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from typing import Any, List, Set, Tuple

from .dump_plan import NPU_DEFAULTS
from .script_ineffective_settings import key_of
from .script_tree import last_name, literal

#: Where npu_bridge's own DumpConfig comes from.
_NPU_MODULE = re.compile(r"(?:^|\.)npu")
_KNOWN_MODULE = re.compile(
    r"(?:npu_bridge|npu_device|tensorflow|torch|torch_npu|torchair)(?:\.|\Z)"
)
_HELPER = re.compile(r"(?i)dump_?(?:npu_?)?config|config_?dump|set_(?:ge_|fx_)?dump")
#: precision_tool's function for a custom optimizer, msprobe's debugger, MindSpore's way to give
# aclInit a configuration.
_HELPERS = ("update_custom_op", "PrecisionDebugger", "aclinit_config")
#: The environment variable that names the configuration of a MindSpore dump.
_MINDSPORE = "MINDSPORE_DUMP_CONFIG"
#: Arguments by which a function of another module is asked for a dump.
_ASKED = ("dump", *NPU_DEFAULTS)
_MAKERS = ("makedirs", "mkdir", "mkdir_or_exist", "MakeDirs", "makedir_exist_ok")
_MOST = 20
#: A text in Python 3.7's syntax tree, and since.
_CONSTANT = (ast.Str,) if sys.version_info < (3, 8) else (ast.Constant,)


class UnknownSettings:
    """Looks once through a script's syntax tree.

    Parameters
    ----------
    nodes
        Every node with the number of its function (0: none).

    Attributes
    ----------
    setters
        What sets dump options elsewhere: (what, node), the first few.
    made
        Folders that the script makes, as far as the text names them; normalised.
    knows_torchair
        Whether it has anything to do with TorchAir.
    imports
        Whether it imports anything.
    """

    def __init__(self, nodes: List[Tuple[Any, int]]) -> None:
        self.setters: List[Tuple[str, ast.AST]] = []
        self.made: Set[str] = set()
        self.knows_torchair = self.imports = self._knows_npu = False
        self._foreign: Set[str] = set()
        self._taken: Set[str] = set()
        self._defined = {
            node.name
            for node, _ in nodes
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        }
        for node, _ in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)
        for node, _ in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Assign):
                self._assignment(node)
            elif isinstance(node, _CONSTANT) and literal(node) == _MINDSPORE:
                self.add("MindSpore's %s" % _MINDSPORE, node)

    def add(self, what: str, node: ast.AST) -> None:
        """Note that something sets dump options; the same thing once."""
        if len(self.setters) < _MOST and all(what != known for known, _ in self.setters):
            self.setters.append((what, node))

    def is_foreign(self, call: ast.Call) -> bool:
        """Tell whether a call of a DumpConfig is of another tool's class of that name, or of the
        script's own.
        """
        if not isinstance(call.func, ast.Name):
            return False
        if call.func.id in self._foreign or call.func.id in self._defined:
            return True
        names = [keyword.arg for keyword in call.keywords]
        return (
            bool(names)
            and not self._knows_npu
            and not any(name is None or name in NPU_DEFAULTS for name in names)
        )

    def _import(self, node: Any) -> None:
        self.imports = True
        module = getattr(node, "module", None) or ""
        names = [module] + [name.name for name in node.names]
        self.knows_torchair = self.knows_torchair or any(
            "torchair" in name or name == "CompilerConfig" for name in names
        )
        self._knows_npu = self._knows_npu or any(_NPU_MODULE.search(name) for name in names)
        # Of another module; npu_bridge's own and TensorFlow's are known.
        others = [name for name in node.names if not _KNOWN_MODULE.match(module or name.name)]
        self._taken.update(
            name.asname or (name.name if module else name.name.split(".")[0]) for name in others
        )
        if isinstance(node, ast.ImportFrom) and not _NPU_MODULE.search(module):
            self._foreign.update(
                name.asname or name.name for name in node.names if name.name == "DumpConfig"
            )

    def _call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        if name in _MAKERS:
            self._makes(node)
        elif name == "DumpConfig":
            if self.is_foreign(node):
                self.add("another tool's DumpConfig", node)
        elif name == "NPURunConfig" and any(
            keyword.arg == "enable_exception_dump" for keyword in node.keywords
        ):
            self.add("NPURunConfig's enable_exception_dump", node)
        elif isinstance(node.func, ast.Attribute) and key_of(node.func) == "acl.init":
            if node.args:
                self.add("acl.init() with a file", node)
        elif name not in self._defined and (
            name in _HELPERS
            or _HELPER.search(name)
            or (
                key_of(node.func).split(".")[0] in self._taken
                and any(keyword.arg in _ASKED for keyword in node.keywords)
            )
        ):
            self.add("%s()" % name, node)

    def _assignment(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute) and key_of(target).endswith(".data_dump.type"):
                self.add("TorchAir's debug.data_dump", target)

    def _makes(self, node: ast.Call) -> None:
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        # os.makedirs("x"), Path("x").mkdir()
        arguments = inner.args if isinstance(inner, ast.Call) and not node.args else node.args
        value = literal(arguments[0]) if arguments else None
        if isinstance(value, str):
            self.made.add(os.path.normpath(value))
