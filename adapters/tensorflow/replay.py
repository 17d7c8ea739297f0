"""Parts of a frozen graph run one by one: the graph is loaded once, and the recorded values are fed
where a part begins.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ..child.parent import Task
from ..child.serve import Parent
from ..replaying.child import serve_pieces
from ..replaying.run import PieceRunner
from .pythons import find_tensorflow_python

Array = Any


class TensorflowReplay(PieceRunner):
    """Runs parts of a frozen graph in TensorFlow.

    Parameters
    ----------
    python
        The Python that has it; None: this one, or one that is found.
    path
        The frozen graph.

    Raises
    ------
    EnvironmentProblem
        There is no TensorFlow.
    """

    name = "TensorFlow"

    def __init__(self, python: Optional[str], path: str) -> None:
        self._python = find_tensorflow_python(python, None)
        self._path = path
        self.notes = ["run by %s" % self._python]

    def _task(self, documents: List[Dict[str, Any]], folder: str) -> Task:
        job = {"pieces": documents, "path": os.path.abspath(self._path)}
        # oneDNN of TensorFlow 2 rewrites convolutions.
        environment = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "2"}
        return Task(
            self._python.path, "goldwatch.adapters.tensorflow.replay", job, environment=environment
        )


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Do the child's part."""
    from .dump_graph import load_frozen, tensorflow_v1
    from .recorder import golden_config, tensorflow_version

    v1 = tensorflow_v1()
    v1.logging.set_verbosity(v1.logging.ERROR)
    graph = v1.Graph()
    with graph.as_default(), v1.Session(graph=graph, config=golden_config()) as session:
        load_frozen(
            v1, job["path"], control_edges=False
        )  # they decide no value, but would have other parts of the graph run too

        def run(piece: Dict[str, Any], arrays: Dict[str, Array]) -> List[Array]:
            feeds = {
                name: _shaped(graph.get_tensor_by_name(name), array)
                for name, array in arrays.items()
            }
            outputs: List[Array] = session.run(
                ["%s:%d" % (node, index) for node, index, _, _ in piece["outputs"]], feeds
            )
            return outputs

        return serve_pieces(job, parent, run, "TensorFlow %s" % tensorflow_version())


def _shaped(tensor: Any, array: Array) -> Array:
    """Return the array in the tensor's own shape where a device has it with other dims of size 1,
    or flat.
    """
    dims = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    if dims is None or len(dims) == array.ndim or sum(dim is None for dim in dims) > 1:
        return array
    return array.reshape([-1 if dim is None else dim for dim in dims])
