"""Which assignments of a name a place in a Python script may read, as its text shows.

What cannot be told from the text is answered by more assignments, never by fewer.
"""

from __future__ import annotations

import ast
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .script_names import order
from .script_tree import Block

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = _FUNCTIONS + (ast.ClassDef, ast.Module)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
#: Of a name that is bound more often in one scope, it is not told which binding a place reads.
_MOST_BINDINGS = 50
#: Calls by which a program gets at names that its text does not show.
_BY_TEXT = ("globals", "locals", "vars", "eval", "exec")


class Binding(NamedTuple):
    """One place where a name gets a value.

    Attributes
    ----------
    node
        The name, argument, import, function or handler.
    value
        The expression that it gets, for a plain assignment; else None.
    scope, block
        The function, class or module, and the list of statements, that it stands in.
    """

    node: Any
    value: Any
    scope: Any
    block: Block


class NameBindings:
    """All bindings of a script's names.

    Parameters
    ----------
    nodes
        Every node with its function and its block (``script_tree.walk``), in the order of the text.
    """

    def __init__(self, nodes: Sequence[Tuple[Any, int, Block]]) -> None:
        self._parents: Dict[int, Any] = {}
        self._blocks: Dict[int, Block] = {}
        self._bindings: Dict[str, List[Binding]] = {}
        self._by_value: Dict[int, Binding] = {}
        # Nodes that belong to what a function, class or module does.
        self._inside: Set[int] = set()
        self.loads: Dict[str, List[ast.Name]] = {}
        # Names that another function may bind, and whether any name may be read by its text.
        self.shared: Set[str] = set()
        self.by_text = False
        for node, _, block in nodes:
            self._blocks[id(node)] = block
            if isinstance(node, _SCOPES):
                body = node.body if isinstance(node.body, list) else [node.body]
                self._inside.update(map(id, body))
            for child in ast.iter_child_nodes(node):
                # A context such as Load is one object for all.
                if not isinstance(child, ast.expr_context):
                    self._parents[id(child)] = node
        for node, _, _ in nodes:
            self._note(node)

    def _note(self, node: Any) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.loads.setdefault(node.id, []).append(node)
                self.by_text = self.by_text or node.id in _BY_TEXT
            else:
                self._bind(node.id, node, self._assigned(node))
        elif isinstance(node, ast.arg):
            self._bind(node.arg, node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._bind(node.name, node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in node.names:
                self._bind(name.asname or name.name.split(".")[0], node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.shared.update(node.names)
        elif isinstance(getattr(node, "name", None), str):
            # An exception's handler, a pattern.
            self._bind(node.name, node)

    def _assigned(self, node: ast.Name) -> Any:
        statement = self.parent(node)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return statement.value
        return statement.value if isinstance(statement, ast.AnnAssign) else None

    def _bind(self, name: str, node: Any, value: Any = None) -> None:
        scope = self.scope_of(node)
        binding = Binding(node, value, scope, self._blocks[id(node)])
        self._bindings.setdefault(name, []).append(binding)
        if value is not None:
            self._by_value[id(value)] = binding

    def at(self, node: ast.Name) -> List[Binding]:
        """Return the binding that stands at a name."""
        return [binding for binding in self._bindings.get(node.id, ()) if binding.node is node]

    def made_with(self, value: Any) -> Optional[Binding]:
        """Return the binding that gives a name this value, and nothing else gets it; None where the
        value stands elsewhere.
        """
        return self._by_value.get(id(value))

    def parent(self, node: Any) -> Any:
        """Return the node that another one stands in, or None for the module."""
        return self._parents.get(id(node))

    def scope_of(self, node: Any) -> Any:
        """Return the function, class or module whose names an expression reads or binds. Defaults,
        decorators and annotations are read where the function is defined.
        """
        argument = isinstance(node, ast.arg)
        inner, outer = node, self.parent(node)
        while outer is not None:
            if isinstance(outer, _SCOPES) and id(inner) in self._inside:
                return outer
            if argument and isinstance(outer, _FUNCTIONS):
                return outer
            inner, outer = outer, self.parent(outer)
        return inner

    def of(self, use: ast.Name) -> List[Binding]:
        """Return the bindings whose value a name may have where it is read."""
        bindings = self._bindings.get(use.id, [])
        scope = self.scope_of(use)
        own = [binding for binding in bindings if binding.scope is scope]
        if len(own) > _MOST_BINDINGS:
            return own
        if own:
            return [binding for binding in own if self._reaches(binding, use, own)]
        while scope is not None:
            scope = self.scope_of(scope) if self.parent(scope) is not None else None
            own = [binding for binding in bindings if binding.scope is scope]
            if own and not isinstance(scope, ast.ClassDef):
                return own
        return []

    def _reaches(self, binding: Binding, use: ast.Name, own: List[Binding]) -> bool:
        block = self._blocks[id(use)]
        if not self._loop_around_both(binding, use):
            later = order(binding.node) > order(use) or self._is_in(use, binding.value)
            if later or binding.block.excludes(block):
                return False
        return not any(
            other.value is not None
            and order(binding.node) < order(other.node) < order(use)
            and other.block.holds(binding.block)
            and other.block.holds(block)
            and not self._is_in(use, other.value)
            for other in own
        )

    def _loop_around_both(self, binding: Binding, use: Any) -> bool:
        outer = self.parent(use)
        while outer is not None and outer is not binding.scope:
            if isinstance(outer, _LOOPS) and self._is_in(binding.node, outer):
                return True
            outer = self.parent(outer)
        return False

    def _is_in(self, node: Any, outer: Any) -> bool:
        while node is not None and node is not outer:
            node = self.parent(node)
        return node is not None and outer is not None

    def rebound_at(self, binding: Binding) -> Optional[Binding]:
        """Return the plain assignment that takes the place of a binding, always: it follows in the
        same statements or in those around.
        """
        name = getattr(binding.node, "id", "")
        for other in self._bindings.get(name, ()):
            if (
                other.value is not None
                and other.scope is binding.scope
                and order(other.node) > order(binding.node)
                and other.block.holds(binding.block)
            ):
                return other
        return None
