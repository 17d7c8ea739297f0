"""Which runs of a session are the user's own: initialisers, checks of variables and set-up by
TensorFlow itself are not.
"""

from __future__ import annotations

import sys
from typing import Any, Container, Dict, Iterable, List, Set

# Training loops (slim.learning.train) ask between steps whether to log or to stop.
_LOOPS = ("tensorflow.contrib.slim.", "tensorflow.contrib.training.", "tf_slim.")
# Modules of TensorFlow that run what the user asked for; every other run that TensorFlow starts is
# its own housekeeping.
_ON_BEHALF = (
    "tensorflow.python.framework.ops",
    "tensorflow.python.client.session",
    "tensorflow.python.training.monitored_session",
    "tensorflow.python.training.basic_loops",
) + _LOOPS
# Frames that only pass a run on.
_PASSING_ON = (__name__.rpartition(".")[0] + ".", "tensorflow.python.debug.wrappers.")
_HOUSEKEEPING = (
    "tensorflow.",
    "tensorflow_core.",
    "tensorflow_estimator.",
    "keras.backend.",
    "keras.src.",
)
_ON_THE_STEP = frozenset(
    "Cast Const Equal FloorMod Greater GreaterEqual Identity Less LessEqual LogicalAnd "
    "LogicalNot LogicalOr Mod ReadVariableOp".split()
)
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "TemporaryVariable")
_ASSIGN = ("Assign", "AssignVariableOp")
_CHANGE = ("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp")
# What a value may pass on its way into a variable without having been computed.
_PLAIN = (
    "Cast",
    "Const",
    "Fill",
    "Identity",
    "NoOp",
    "Placeholder",
    "PlaceholderWithDefault",
    "ReadVariableOp",
    "Reshape",
    "Shape",
)
_SOURCES = (
    "Placeholder",
    "Iterator",
    "OneShotIterator",
    "PyFunc",
    "EagerPyFunc",
    "ReadFile",
    "ReaderRead",
    "Decode",
    "ParseExample",
)
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
    """Tell whether a run called from ``module`` (a module's name) is the user's wish, not
    TensorFlow's own housekeeping.
    """
    module = _public(module)
    return module.startswith(_ON_BEHALF) or not module.startswith(_HOUSEKEEPING)


def calling_module() -> str:
    """Return the name of the module that asked for the run: goldwatch's own frames and tfdbg's
    wrappers only pass it on.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not _public(name).startswith(_PASSING_ON):
            return name
        frame = frame.f_back
    return ""


def made_by_keras(module: str) -> bool:
    """Tell whether this is Keras' backend module: it makes the callables for what the user asked to
    run.
    """
    return ".keras." in module or module.startswith("keras.")


def _public(module: str) -> str:
    return (
        "tensorflow." + module[len("tensorflow_core.") :]
        if module.startswith("tensorflow_core.")
        else module
    )


def asks_for_the_step(graph: Any, fetches: Any, caller: str) -> bool:
    """Tell whether a training loop of TensorFlow's own only asks, by the global step, whether to
    log or to stop.

    Parameters
    ----------
    caller
        The module that asked for the run; what a user's own script asks for is its own run,
        whatever it fetches.
    """
    if not _public(caller).startswith(_LOOPS):
        return False
    ops = fetched_ops(graph, fetches)
    if not ops or not all(
        len(op.outputs) == 1 and op.outputs[0].dtype.base_dtype.name == "bool" for op in ops
    ):
        return False
    return all(op.type in _ON_THE_STEP or op.type in _VARIABLES for op in needed_ops(ops).values())


def fetched_ops(graph: Any, fetches: Any) -> List[Any]:
    """Return the ops behind a fetch of any structure; what cannot be resolved is left to TensorFlow
    to refuse.

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
            parts = [
                getattr(leaf, name)
                for name in ("indices", "values", "dense_shape")
                if hasattr(leaf, name)
            ]
            ops.extend(part.op for part in parts if hasattr(part, "op"))
            continue
        ops.append(element.op if hasattr(element, "op") else element)
    return ops


def fetch_names(graph: Any, fetches: Any) -> List[str]:
    """Return the names of what is fetched, each once: of tensors with the number of the output, of
    ops without.
    """
    names: Dict[str, None] = {}
    for leaf in _leaves(fetches):
        try:
            names[
                str(graph.as_graph_element(leaf, allow_tensor=True, allow_operation=True).name)
            ] = None
        except (TypeError, ValueError, KeyError):
            names.update((str(op.name), None) for op in fetched_ops(graph, leaf))
    return list(names)


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
    """Tell whether a run only initialises, assigns or counts something, or asks what is initialised
    (or fetches nothing at all).
    """
    ops = fetched_ops(graph, fetches)
    if not ops:
        return not list(_leaves(fetches))
    ends = [end for op in ops for end in _ends(op, 0)]
    if all(_sets_up(graph, end) for end in ends):
        return True
    return all(
        _sets_up(graph, end) or _assigns(end) or _counts(end) for end in ends
    ) and not _computes(ops)


def _ends(op: Any, depth: int) -> List[Any]:
    """Return what a run is asked for in the end: the members of groups, and the assignment that a
    value is read behind.
    """
    behind = op.type == "NoOp" or (
        op.type in ("Identity", "ReadVariableOp")
        and any(_assigns(control) for control in op.control_inputs)
    )
    if not behind or not op.control_inputs or depth >= 50:
        return [op]
    return [end for control in op.control_inputs for end in _ends(control, depth + 1)]


def _assigns(op: Any) -> bool:
    return op.type in _ASSIGN or op.type in _CHANGE


def _counts(op: Any) -> bool:
    """Tell whether an op only reads a counter: a variable that holds one integer, such as the
    global step.
    """
    while op.type in ("Identity", "ReadVariableOp") and op.inputs:
        output = op.outputs[0]
        if not output.dtype.base_dtype.is_integer or output.shape.ndims != 0:
            return False
        op = op.inputs[0].op
    return (
        op.type in _VARIABLES
        and len(op.outputs) == 1
        and (op.type == "VarHandleOp" or _is_whole_number(op.outputs[0]))
    )


def _is_whole_number(tensor: Any) -> bool:
    return bool(tensor.dtype.base_dtype.is_integer) and tensor.shape.ndims == 0


def _computes(ops: Iterable[Any]) -> bool:
    """Tell whether what is assigned is computed from the model's inputs, not only fed, constant,
    random or another variable's.
    """
    needed = needed_ops(ops).values()
    if any(_is_gradient(op) for op in needed):
        return True
    if all(op.type in _PLAIN or op.type in _VARIABLES or _assigns(op) for op in needed):
        return False
    return any(op.type.startswith(_SOURCES) or "Dequeue" in op.type for op in needed)


def _initializers(graph: Any) -> Set[str]:
    names: Set[str] = set()
    for collection in ("variables", "local_variables", "model_variables", "metric_variables"):
        names.update(
            _names_of(
                getattr(variable, "initializer", None)
                for variable in graph.get_collection(collection)
            )
        )
    for collection in ("resources", "local_resources"):
        names.update(
            _names_of(
                getattr(resource, "create", None) for resource in graph.get_collection(collection)
            )
        )
    return names | _names_of(graph.get_collection("table_initializer"))


def _names_of(ops: Iterable[Any]) -> Set[str]:
    return {str(op.name) for op in ops if getattr(op, "name", None)}


def _sets_up(graph: Any, op: Any) -> bool:
    if (
        op.type in _SET_UP
        or "report_uninitialized_" in op.name
        or (op.type == "NoOp" and not op.control_inputs)
    ):
        return True
    if op.type in _ASSIGN:
        variable = op.inputs[0].op
        if variable.type in _VARIABLES and op.name == variable.name + "/Assign":
            return True
    # A resource's own op has no output, and any type.
    return (op.type in _ASSIGN or not op.outputs) and op.name in _initializers(graph)


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
    """Tell whether the fetched part of the graph computes gradients or updates variables by
    them.
    """
    return any(_is_gradient(op) for op in needed_ops(fetched_ops(graph, fetches)).values())


def _is_gradient(op: Any) -> bool:
    kind = str(op.type)
    if kind.startswith(("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")):
        return True
    return (
        kind.endswith(("Grad", "GradV2", "GradV3"))
        or "Backprop" in kind
        or str(op.name).startswith("gradients/")
    )
