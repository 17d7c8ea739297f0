"""Which runs of a session are the user's own: initialisers, checks of variables and set-up by TensorFlow itself are not."""

from __future__ import annotations

import sys
from typing import Any, Container, Dict, Iterable, List, Set

# Training loops (slim.learning.train) ask between steps whether to log or to stop.
_LOOPS = ("tensorflow.contrib.slim.", "tensorflow.contrib.training.", "tf_slim.")
# Modules of TensorFlow that run what the user asked for; every other run that TensorFlow starts is its own housekeeping.
_ON_BEHALF = (
    "tensorflow.python.framework.ops",
    "tensorflow.python.client.session",
    "tensorflow.python.training.monitored_session",
    "tensorflow.python.training.basic_loops",
) + _LOOPS
# Frames that only pass a run on.
_PASSING_ON = (__name__.rpartition(".")[0] + ".", "tensorflow.python.debug.wrappers.")
_HOUSEKEEPING = ("tensorflow.", "tensorflow_core.", "tensorflow_estimator.", "keras.backend.", "keras.src.")
_ON_THE_STEP = frozenset(
    "Cast Const Equal FloorMod Greater GreaterEqual Identity Less LessEqual LogicalAnd LogicalNot LogicalOr Mod ReadVariableOp".split()
)
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "TemporaryVariable")
_ASSIGN = ("Assign", "AssignVariableOp")
_SET_UP = (
    "MakeIterator",
    "InitializeTable",
    "InitializeTableV2",
    "InitializeTableFromTextFile",
    "InitializeTableFromTextFileV2",
    "InitializeTableFromDataset",
    "LookupTableImport",
    "LookupTableImportV2",
    "VarIsInitializedOp",
    "IsVariableInitialized",
)


def on_users_behalf(module: str) -> bool:
    """Tell whether a run called from ``module`` (a module's name) is the user's wish, not TensorFlow's own housekeeping."""
    module = _public(module)
    return module.startswith(_ON_BEHALF) or not module.startswith(_HOUSEKEEPING)


def calling_module() -> str:
    """Return the name of the module that asked for the run: goldwatch's own frames and tfdbg's wrappers only pass it on."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not _public(name).startswith(_PASSING_ON):
            return name
        frame = frame.f_back
    return ""


def made_by_keras(module: str) -> bool:
    """Tell whether this is Keras' backend module: it makes the callables for what the user asked to run."""
    return ".keras." in module or module.startswith("keras.")


def _public(module: str) -> str:
    return "tensorflow." + module[len("tensorflow_core.") :] if module.startswith("tensorflow_core.") else module


def asks_for_the_step(graph: Any, fetches: Any, caller: str) -> bool:
    """Tell whether a training loop of TensorFlow's own only asks, by the global step, whether to log or to stop.

    Parameters
    ----------
    caller
        The module that asked for the run; what a user's own script asks for is its own run, whatever it fetches.
    """
    if not _public(caller).startswith(_LOOPS):
        return False
    ops = fetched_ops(graph, fetches)
    if not ops or not all(len(op.outputs) == 1 and op.outputs[0].dtype.base_dtype.name == "bool" for op in ops):
        return False
    return all(op.type in _ON_THE_STEP or op.type in _VARIABLES for op in needed_ops(ops).values())


def fetched_ops(graph: Any, fetches: Any) -> List[Any]:
    """Return the ops behind a fetch of any structure; what cannot be resolved is left to TensorFlow to refuse.

    Parameters
    ----------
    fetches
        As for ``session.run``: tensors, ops, names, nested in lists, tuples and dicts.
    """
    ops: List[Any] = []
    for leaf in _leaves(fetches):
        try:
            element = graph.as_graph_element(leaf, allow_tensor=True, allow_operation=True)
        except (TypeError, ValueError, KeyError):
            # SparseTensor and the like: their parts are tensors.
            parts = [getattr(leaf, name) for name in ("indices", "values", "dense_shape") if hasattr(leaf, name)]
            ops.extend(part.op for part in parts if hasattr(part, "op"))
            continue
        ops.append(element.op if hasattr(element, "op") else element)
    return ops


def _leaves(fetches: Any) -> Iterable[Any]:
    if isinstance(fetches, (list, tuple, set)):
        for part in fetches:
            for leaf in _leaves(part):
                yield leaf
    elif isinstance(fetches, dict):
        for part in fetches.values():
            for leaf in _leaves(part):
                yield leaf
    elif fetches is not None:
        yield fetches


def only_sets_up(graph: Any, fetches: Any) -> bool:
    """Tell whether a run only initialises something or asks what is initialised (or fetches nothing at all)."""
    ops = fetched_ops(graph, fetches)
    if not ops:
        return not list(_leaves(fetches))
    return all(_sets_up(graph, op, 0) for op in ops)


def _initializers(graph: Any) -> Set[str]:
    names: Set[str] = set()
    for collection in ("variables", "local_variables", "model_variables", "metric_variables"):
        for variable in graph.get_collection(collection):
            name = getattr(getattr(variable, "initializer", None), "name", None)
            if name:
                names.add(str(name))
    return names


def _sets_up(graph: Any, op: Any, depth: int) -> bool:
    if op.type in _SET_UP or "report_uninitialized_" in op.name:
        return True
    if op.type in _ASSIGN:
        variable = op.inputs[0].op
        plain = variable.type in _VARIABLES and op.name == variable.name + "/Assign"
        return bool(plain) or op.name in _initializers(graph)
    if op.type == "NoOp" and depth < 50:
        return all(_sets_up(graph, control, depth + 1) for control in op.control_inputs)
    return False


def needed_ops(outputs: Iterable[Any], fed: Container[str] = ()) -> Dict[str, Any]:
    """Return ``{name: op}`` of what must run for these ops.

    Parameters
    ----------
    fed
        The names of the tensors that are fed: what only they need does not run.
    """
    needed: Dict[str, Any] = {}
    waiting = list(outputs)
    while waiting:
        op = waiting.pop()
        if op.name in needed:
            continue
        needed[op.name] = op
        waiting.extend(tensor.op for tensor in op.inputs if tensor.name not in fed)
        waiting.extend(op.control_inputs)
    return needed


def trains(graph: Any, fetches: Any) -> bool:
    """Tell whether the fetched part of the graph computes gradients or updates variables by them."""
    return any(_is_gradient(op) for op in needed_ops(fetched_ops(graph, fetches)).values())


def _is_gradient(op: Any) -> bool:
    kind = str(op.type)
    if kind.startswith(("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")):
        return True
    return kind.endswith(("Grad", "GradV2", "GradV3")) or "Backprop" in kind or str(op.name).startswith("gradients/")
