"""A configuration that a script builds with dump options and hands to nobody, or completes when
it was read already.
"""

from __future__ import annotations

import ast
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .name_bindings import Binding, NameBindings
from .script_names import order
from .script_tree import Block, key_of

TAKERS = {
    "ConfigProto": {
        "Session": "config",
        "InteractiveSession": "config",
        "MonitoredTrainingSession": "config",
        "RunConfig": "session_config",
        "NPURunConfig": "session_config",
    },
    "CompilerConfig": {"get_npu_backend": "compiler_config"},
    "NPURunConfig": {"NPUEstimator": "config", "Estimator": "config"},
}
"""By the class of a configuration, the functions that take one, and their argument's name."""
#: Makes an object of its own of another one; copy.copy may share what holds the options.
_COPY = "deepcopy"


#: What reads a configuration at once; other takers read it when they make their session.
_READ_AT_ONCE = ("Session", "InteractiveSession", "MonitoredTrainingSession")
_SET_DUMP, _LOADS = "acl.mdl.set_dump", "acl.mdl.load_"


class Unused(NamedTuple):
    """A configuration that no function takes: its variable, where it is made, the call of a
    function that takes such configurations, if the script has one, with that argument's name, and
    where the variable is bound to another object.
    """

    variable: str
    made: ast.Call
    taker: Optional[ast.Call]
    argument: str
    rebound: Any


def unused_configs(
    nodes: Sequence[Tuple[Any, int, Block]],
    real_name: Callable[[Any], str],
    switched_on: List[Tuple[str, Any]],
) -> List[Unused]:
    """Return the configurations that a script makes and of which nothing but members is read.

    A configuration of a function is told of always, one of the module only where the same script
    opens a session or compiles: another module could import it.

    Parameters
    ----------
    nodes
        Every node with its function and its block, in the order of the text.
    switched_on
        Where a dump is switched on, the class of the configuration, and the member that is set or
        the call that makes it with its options.

    Returns
    -------
    list
        Empty where one of the dumps is switched on in an object that something may take, or that
        the text does not show: then something is dumped.
    """
    if not switched_on:
        return []
    bindings = NameBindings(nodes)
    if bindings.by_text:
        return []
    script = _Script(nodes, bindings, real_name)
    found: Dict[int, Unused] = {}
    for class_name, place in switched_on:
        if isinstance(place, ast.Call):
            made = bindings.made_with(place)
        else:
            root = _root(place)
            made = None if root is None else script.made_by(root)
        if made is None:
            return []
        if id(made.node) in found:
            continue
        if script.is_read(made):
            return []
        unused = script.unused(made, class_name)
        if unused is None:
            return []
        found[id(made.node)] = unused
    return list(found.values())


def read_before(
    nodes: Sequence[Tuple[Any, int, Block]],
    real_name: Callable[[Any], str],
    switched_on: Sequence[Tuple[Block, Any]],
    optimizers: Dict[str, ast.Call],
) -> List[Tuple[Any, ast.Call]]:
    """Return where dump options are set when they were read already, each with the call that read
    them: acl.mdl.set_dump behind all that loads a model, and a parameter_map behind the session of
    its configuration. Only what stands in one row of statements, which no loop repeats, is certain.

    Parameters
    ----------
    nodes, real_name
        As for :func:`unused_configs`.
    switched_on
        The block of each switch of a parameter_map that is not off, and the member that is set.
    optimizers
        By its name, the call of ``custom_optimizers.add()`` that made it.
    """
    calls = [entry for entry in nodes if isinstance(entry[0], ast.Call)]
    found: List[Tuple[Any, ast.Call]] = []
    loads = [entry for entry in calls if key_of(entry[0].func).startswith(_LOADS)]
    for node, _, block in calls:
        if key_of(node.func) == _SET_DUMP and all_before(loads, node, block):
            found.append((node, loads[-1][0]))
    by_config: Dict[str, List[Tuple[Block, Any]]] = {}
    for block, target in switched_on:
        holder = target
        while (
            isinstance(holder, (ast.Attribute, ast.Subscript)) and key_of(holder) not in optimizers
        ):
            holder = holder.value
        root = _root(optimizers[key_of(holder)].func) if key_of(holder) in optimizers else None
        by_config.setdefault("" if root is None else root.id, []).append((block, target))
    for config, steps in by_config.items():
        takers = [
            entry
            for entry in calls
            if any(isinstance(one, ast.Name) and one.id == config for one in _given(entry[0]))
        ]
        at_once = all(_class_of(entry[0], real_name) in _READ_AT_ONCE for entry in takers)
        if at_once and all(all_before(takers, target, block) for block, target in steps):
            found.append((steps[0][1], takers[-1][0]))
    return found


def _given(call: ast.Call) -> List[Any]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def all_before(calls: Sequence[Tuple[Any, int, Block]], node: Any, block: Block) -> bool:
    """Tell whether some calls stand before a node in one row of statements that is no loop's."""
    return (
        bool(calls)
        and block.around is None
        and all(
            block.holds(of) and of.holds(block) and order(call) < order(node)
            for call, _, of in calls
        )
    )


class _Script:
    def __init__(
        self,
        nodes: Sequence[Tuple[Any, int, Block]],
        bindings: NameBindings,
        real_name: Callable[[Any], str],
    ) -> None:
        self._bindings = bindings
        self._calls: Dict[str, List[ast.Call]] = {}
        for node, _, _ in nodes:
            if isinstance(node, ast.Call):
                self._calls.setdefault(_class_of(node, real_name), []).append(node)
        self._real_name = real_name

    def made_by(self, name: ast.Name) -> Optional[Binding]:
        """Return the one binding of a newly made configuration whose member a name is."""
        seen: Set[int] = set()
        while True:
            bindings = self._bindings.of(name)
            if len(bindings) != 1 or bindings[0].value is None or id(name) in seen:
                return None
            (binding,) = bindings
            seen.add(id(name))
            if isinstance(binding.node, ast.Name) and self._makes(binding.value):
                return binding
            root = _root(binding.value)
            if root is None:
                return None
            name = root

    def _makes(self, value: Any) -> bool:
        return isinstance(value, ast.Call) and (
            _class_of(value, self._real_name) in TAKERS
            or _class_of(value, self._real_name) == _COPY
        )

    def is_read(self, made: Binding) -> bool:
        """Tell whether anything but a member's assignment or method may read an object."""
        seen: Set[int] = set()
        waiting = [made]
        while waiting:
            binding = waiting.pop()
            name = binding.node.id
            if name in self._bindings.shared or isinstance(binding.scope, ast.ClassDef):
                return True
            if id(binding.node) in seen:
                continue
            seen.add(id(binding.node))
            for load in self._bindings.loads.get(name, ()):
                if any(binding.node is one.node for one in self._bindings.of(load)):
                    alias = self._reads(load)
                    if alias is True:
                        return True
                    if alias is not None:
                        waiting += self._bindings.at(alias)
        return False

    def _reads(self, load: ast.Name) -> Any:
        """Return what becomes of a name's value: True where something gets it, the other name that
        is a member of it, or None.
        """
        top: Any = load
        parent = self._bindings.parent(top)
        while (isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is top) or (
            isinstance(parent, ast.Call) and parent.func is top
        ):
            top, parent = parent, self._bindings.parent(parent)
        if top is load:
            return True
        if isinstance(parent, ast.Expr) or not isinstance(
            getattr(top, "ctx", ast.Load()), ast.Load
        ):
            return None
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            target = parent.targets[0]
            return target if isinstance(target, ast.Name) else True
        return True

    def unused(self, made: Binding, class_name: str) -> Optional[Unused]:
        """Return a configuration that this script does not read, or None where another may."""
        takers = TAKERS[class_name]
        calls = [(call, takers[name]) for name in takers for call in self._calls.get(name, ())]
        rebound = self._bindings.rebound_at(made)
        if isinstance(made.scope, ast.Module):
            given = [_keywords(call) for call, _ in calls]
            if not calls or any(None in names for names in given):
                return None
            bare = [
                not call.args and taken not in names for (call, taken), names in zip(calls, given)
            ]
            if not (all(bare) or self._is_program(calls)):
                return None

        def nearest(entry: Tuple[ast.Call, str]) -> Any:
            return self._bindings.scope_of(entry[0]) is not made.scope, order(entry[0])

        calls.sort(key=nearest)
        taker, argument = calls[0] if calls else (None, "")
        return Unused(made.node.id, made.value, taker, argument, rebound and rebound.node)

    def _is_program(self, calls: List[Tuple[ast.Call, str]]) -> bool:
        """Tell whether a script that is run, not imported, makes one of the calls."""
        names = self._bindings.loads.get("__name__", ())
        if any(isinstance(self._bindings.parent(name), ast.Compare) for name in names):
            return True
        seen: Set[int] = set()
        waiting: List[Any] = [call for call, _ in calls]
        while waiting:
            scope = self._bindings.scope_of(waiting.pop())
            if isinstance(scope, ast.Module):
                return True
            if id(scope) not in seen:
                seen.add(id(scope))
                waiting += self._calls.get(getattr(scope, "name", ""), ())
        return False


def _keywords(call: ast.Call) -> Set[Optional[str]]:
    """Return the names of arguments; None for what ``**`` unpacks."""
    return {keyword.arg for keyword in call.keywords}


def _class_of(call: ast.Call, real_name: Callable[[Any], str]) -> str:
    return (real_name(call.func) or "").rpartition(".")[2]


def _root(node: Any) -> Optional[ast.Name]:
    """Return the variable whose member, or whose member's call, an expression is."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node if isinstance(node, ast.Name) else None
