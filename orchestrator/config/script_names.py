"""What the names in a Python script stand for, as its text shows them."""

from __future__ import annotations

import ast
import builtins
import re
from bisect import bisect_right
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .finding import ERROR, Finding
from .script_tree import Block, Values, assigned_key, key_of, last_name

DUMP_CONFIG, PARAMETER_MAP, GLOBAL_OPTIONS, TORCHAIR, GRAPH_OPTIONS = (
    "DumpConfig",
    "parameter_map",
    "global_options",
    "torchair",
    "npugraph_ex",
)

#: Where npu_bridge's own DumpConfig comes from.
_NPU_MODULE = re.compile(r"(?:^|\.)npu")
_KNOWN_MODULE = re.compile(
    r"(?:npu_bridge|npu_device|tensorflow|torch|torch_npu|torchair"
    # Modules that set nothing of what they are given.
    r"|absl|argparse|collections|copy|datetime|functools|itertools|json|logging|math|numpy|os|pickle"
    r"|pprint|random|re|six|sys|time|typing)(?:\.|\Z)"
)
#: A name that stands for what a call returns, of a function made of another one …
_MOST_CALLS = 6

Place = Tuple[int, int]


def order(node: Any) -> Place:
    """Return a key by which nodes stand in the order of the text."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


class Places:
    """Where nodes of a syntax tree stand in the lines of the text."""

    def __init__(self, lines: List[str]) -> None:
        self._lines = lines
        self._starts: Dict[int, List[int]] = {}

    def of(self, node: Any) -> Place:
        """Return line and column from 1; the tree counts columns in bytes."""
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        if line.isascii():
            return node.lineno, node.col_offset + 1
        if node.lineno not in self._starts:
            # Where each character begins, once a line: a script may have all its settings on one.
            starts = [0]
            for character in line:
                starts.append(starts[-1] + len(character.encode("utf-8", "replace")))
            self._starts[node.lineno] = starts
        return node.lineno, bisect_right(self._starts[node.lineno], node.col_offset)

    def problem(
        self,
        problems: List[Finding],
        rule: str,
        path: Any,
        message: str,
        consumer: str,
        fix: str,
        node: Any,
        severity: str = ERROR,
    ) -> None:
        """Note what is wrong at a node."""
        line, column = self.of(node)
        problems.append(
            Finding(severity, rule, path, message, consumer, fix, line=line, column=column)
        )


class ScriptNames:
    """What names stand for, from one walk over a script.

    Parameters
    ----------
    nodes
        Each with its scope and its block, in the order of the text.

    Attributes
    ----------
    assigned
        What each name is assigned; None for what is not written out.
    imported
        By name, its module and what it is called there; empty for a module itself.
    defined, loaded, called
        Names of functions and classes, of what is read, of what is called.
    options, owners
        By name, which options it holds, and the object that it took them from.
    foreign
        Names of another tool's DumpConfig.
    bindings
        How often a name is bound in a scope.
    bound_to
        By the id of a value, the names it is assigned to.
    configs
        Names that hold a DumpConfig of this script.
    star
        The last module, other than TensorFlow's and PyTorch's, of which all names are imported.
    """

    def __init__(self, nodes: Sequence[Tuple[Any, int, Block]]) -> None:
        self.assigned: Dict[str, List[Optional[ast.expr]]] = {}
        self.imported: Dict[str, Tuple[str, str]] = {}
        self.defined: Set[str] = set()
        self.loaded: Set[str] = set()
        self.called: Set[str] = set()
        self.options: Dict[str, str] = {}
        self.owners: Dict[str, str] = {}
        self.foreign: Set[str] = set()
        self.imports = self.knows_torchair = self.knows_npu = False
        self.bindings: Dict[Tuple[str, int], int] = {}
        self.bound_to: Dict[int, List[str]] = {}
        self.configs: Set[str] = set()
        self.star = ""
        self._targets: Set[int] = set()
        for node, scope, _ in nodes:
            self._note(node, scope)
        self.values = Values(self.assigned)

    def _note(self, node: Any, scope: int) -> None:
        if isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(node, ast.arg):
            key = (node.arg if isinstance(node, ast.arg) else key_of(node), scope)
            self.bindings[key] = self.bindings.get(key, 0) + 1
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.defined.add(node.name)
        elif isinstance(node, ast.arg):
            self.assigned.setdefault(node.arg, []).append(None)
        elif isinstance(node, ast.Global):
            for name in node.names:
                self.assigned.setdefault(name, []).append(None)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            self.loaded.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self.loaded.add(node.id)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            if id(node) not in self._targets:
                name = node.id if isinstance(node, ast.Name) else "." + node.attr
                self.assigned.setdefault(name, []).append(None)
        elif isinstance(node, ast.Expr):
            self.bound_to[id(node.value)] = []
        elif isinstance(node, ast.Call):
            self.called.add(self.real_name(node.func))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            self._assigned_names(
                node.targets if isinstance(node, ast.Assign) else [node.target], node.value
            )

    def _assigned_names(self, targets: List[Any], value: Any) -> None:
        if all(isinstance(target, (ast.Name, ast.Attribute)) for target in targets):
            self.bound_to[id(value)] = list(map(key_of, targets))
        if isinstance(value, ast.Call) and self.real_name(value.func) == DUMP_CONFIG:
            for target in targets:
                # Of an entry of a dictionary, its dictionary.
                self.configs.add(
                    last_name(target.value if isinstance(target, ast.Subscript) else target)
                )
        for target in targets:
            if isinstance(target, ast.Attribute):
                # Of any object: one of another class may have the same attribute.
                self._targets.add(id(target))
                self.assigned.setdefault("." + target.attr, []).append(value)
            if isinstance(target, ast.Name):
                # An assignment comes before its targets in the order of the walk.
                self._targets.add(id(target))
                self.assigned.setdefault(target.id, []).append(value)
                kind = self.kind(value)
                if kind:
                    self.options[target.id] = kind
                if kind in (PARAMETER_MAP, TORCHAIR) and isinstance(value, ast.Attribute):
                    self.owners[target.id] = key_of(value.value)

    def _import(self, node: Any) -> None:
        self.imports = True
        module = getattr(node, "module", None) or ""
        names = [module] + [name.name for name in node.names]
        self.knows_torchair = self.knows_torchair or any(
            "torchair" in name or name == "CompilerConfig" for name in names
        )
        self.knows_npu = self.knows_npu or any(_NPU_MODULE.search(name) for name in names)
        for name in node.names:
            if name.name == "*" and not _KNOWN_MODULE.match(module):
                self.star = module
            taken = name.asname or (name.name if module else name.name.split(".")[0])
            self.imported[taken] = (module or name.name, name.name if module else "")
            self.assigned.setdefault(taken, []).append(None)
            if (
                isinstance(node, ast.ImportFrom)
                and name.name == "DumpConfig"
                and not _NPU_MODULE.search(module)
            ):
                self.foreign.add(taken)

    def real_name(self, node: ast.AST) -> str:
        """Return what a name or attribute is called where it is imported from."""
        name = last_name(node)
        return self.imported.get(name, ("", ""))[1] or name

    def kind(self, node: ast.AST) -> Optional[str]:
        """Tell whether an expression is npu_device's global options, a dump_config of theirs or of
        TorchAir, or a parameter_map.
        """
        if isinstance(node, ast.Call) and last_name(node.func) == "global_options":
            return "options"
        if isinstance(node, ast.Attribute) and node.attr == "dump_config":
            return GLOBAL_OPTIONS if self.kind(node.value) == "options" else TORCHAIR
        if isinstance(node, ast.Attribute) and node.attr == "parameter_map":
            return PARAMETER_MAP
        return self.options.get(node.id) if isinstance(node, ast.Name) else None

    def module(self, node: ast.AST) -> str:
        """Return the module that a name or attribute is imported from; empty for this script's own
        and those of npu_bridge, TensorFlow and PyTorch.
        """
        module, _ = self.imported.get(key_of(node).split(".")[0], ("", ""))
        return "" if _KNOWN_MODULE.match(module) else module

    def origin(self, node: Any) -> str:
        """Return what a name, an attribute or a call is called, and of which module it is."""
        called = "()" if isinstance(node, ast.Call) else ""
        node = node.func if called else node
        key, module = key_of(node), self.module(node)
        name = self.real_name(node) if key.startswith("<") or module else key
        name = name + called if name else "a computed value"
        return "%s of module %s" % (name, module) if module else name

    def unknown(self, node: Any) -> str:
        """Return what a value is called that comes from another module or from what calls this one;
        empty for others.
        """
        if isinstance(node, ast.Name) and node.id not in self.imported:
            return "" if any(self.assigned.get(node.id, ())) else self.origin(node)
        return self.elsewhere(node)

    def elsewhere(self, node: Any) -> str:
        """Return what an expression, or what it calls, is called in another module: also that which
        functools.partial is made of, or whose object's method it is. Empty for others.
        """
        called = "()" if isinstance(node, ast.Call) else ""
        for _ in range(_MOST_CALLS):
            while isinstance(node, ast.Call):
                partial = self.real_name(node.func) == "partial" and node.args
                node = node.args[0] if partial else node.func
            if self.module(node):
                name, _, module = self.origin(node).partition(" of module ")
                return "%s%s of module %s" % (name, called, module)
            root = node
            while isinstance(root, ast.Attribute):
                root = root.value
            value = self.values.written(root)
            if value is root and not isinstance(root, ast.Call):
                known = isinstance(root, ast.Name) and (
                    root.id in self.assigned
                    or root.id in self.defined
                    or hasattr(builtins, root.id)
                )
                if not self.star or known or not isinstance(node, ast.Name):
                    return ""
                return "%s%s, perhaps of module %s" % (node.id, called, self.star)
            node = value
        return ""

    def is_compiler_config(self, node: ast.expr) -> bool:
        """Tell whether a name is nothing but TorchAir's CompilerConfig in this script."""
        values = self.assigned.get(assigned_key(node), [])
        return bool(values) and all(
            isinstance(value, ast.Call) and self.real_name(value.func) == "CompilerConfig"
            for value in values
        )

    def is_from_here(self, node: ast.expr) -> bool:
        """Tell whether a DumpConfig of this script may be the value of an expression."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and self.real_name(inner.func) == DUMP_CONFIG:
                return True
            if last_name(inner) in self.configs:
                return True
        return False
