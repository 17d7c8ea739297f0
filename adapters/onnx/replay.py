"""Parts of an ONNX model run one by one: each is cut out with its own weights, and computes in
float32 what the model has in 16 bits.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import tempfile
from typing import Any, Collection, Dict, List, Optional, Sequence

import numpy as np

from ...base.errors import InputError
from ...base.naming import printable
from ...base.protowire import field
from ...netfiles.onnx_arrays import tensor_array
from ...netfiles.onnx_cut import Border, OnnxCut, Rewriting
from ...netfiles.onnx_model import ATTRIBUTE, OnnxModel
from ...netfiles.onnx_names import name_nodes
from ...netfiles.onnx_ranks import Ranks, fitted_to_dims
from ...netfiles.onnx_types import BY_NAME
from ...netfiles.onnx_value_headers import OnnxTensor, OnnxValue
from ...netfiles.protobuf_file import Piece as Bytes
from ...netfiles.protobuf_file import Span, WireFile
from ..child.parent import Task
from ..child.serve import Parent
from ..child_python import resolve_python, runs
from ..replaying.child import serve_pieces
from ..replaying.run import PieceRunner
from .exact_products import multiplies_integers, products_to_replace, without_cut_products
from .model_additions import with_additions
from .onnxruntime_messages import explained, missing_package

Array = Any
_FLOAT = BY_NAME["float32"].code
_HALVES = {BY_NAME[name].code: name for name in ("float16", "bfloat16")}
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "stash_type", "output_datatype")


class OnnxReplay(PieceRunner):
    """Runs parts of an ONNX model in onnxruntime.

    Parameters
    ----------
    python
        The Python that has it; None: this one.
    path
        The model.

    Raises
    ------
    EnvironmentProblem
        There is no onnxruntime.
    """

    name = "onnxruntime"

    def __init__(self, python: Optional[str], path: str) -> None:
        self._python = sys.executable if python is None else resolve_python(python)
        self._path = path
        self.notes: List[str] = []
        # The child says what else may be wrong with it.
        there = (
            importlib.util.find_spec("onnxruntime") is not None
            if self._python == sys.executable
            else None
        )
        problem = (
            runs(self._python, "import onnxruntime")
            if there is None
            else None
            if there
            else "it is not installed"
        )
        if problem is not None:
            raise missing_package(
                "onnxruntime", ImportError("%s: %s" % (printable(self._python), printable(problem)))
            )

    def _task(self, documents: List[Dict[str, Any]], folder: str) -> Task:
        job = {"pieces": documents, "path": os.path.abspath(self._path)}
        return Task(self._python, "goldwatch.adapters.onnx.replay", job)


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Do the child's part."""
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_package("onnxruntime", error) from error
    runner = _Runner(job["path"], str(onnxruntime.__version__))
    return serve_pieces(job, parent, runner.run, "onnxruntime %s" % onnxruntime.__version__)


class _Runner:
    def __init__(self, path: str, version: str) -> None:
        self._model, self._version = OnnxModel(path), version
        # onnxruntime looks for external data in the current folder when it gets a model as bytes.
        os.chdir(os.path.dirname(path))
        graph = self._model.graph
        self._names = name_nodes(self._model)[0].names
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._values = {
            value.name: value
            for value in [*graph.inputs, *graph.value_info.values(), *graph.outputs]
        }
        self._ranks = Ranks(self._model).known

    def run(self, piece: Dict[str, Any], arrays: Dict[str, Array]) -> List[Array]:
        """Return the wanted outputs of one piece."""
        nodes = {self._numbers[name]: name for name in piece["nodes"] if name in self._numbers}
        output_names = [
            self._model.graph.nodes[self._numbers[name]].outputs[index]
            for name, index, _, _ in piece["outputs"]
        ]
        feeds = {
            name: array.reshape(fitted_to_dims(array.shape, self._dims(name)))
            for name, array in arrays.items()
        }
        inputs = [Border(name, str(array.dtype), None) for name, array in feeds.items()]
        stream = io.BytesIO()
        outputs = [Border(name, "", None) for name in dict.fromkeys(output_names)]
        OnnxCut(self._model, nodes, inputs, outputs, _Widened(self._model.path)).write(stream)
        names = [border.name for border in outputs]
        try:
            by_name = dict(zip(names, _session(self._uncut(nodes, stream)).run(names, feeds)))
        except (
            Exception
        ) as error:  # whatever onnxruntime raises about this piece, the others still run
            raise explained(error, self._model, self._names, self._version) from error
        for name, value in by_name.items():
            if not isinstance(value, np.ndarray):
                raise InputError("its output %s is no tensor" % name)
        return [by_name[name] for name in output_names]

    def _uncut(self, numbers: Collection[int], stream: io.BytesIO) -> bytes:
        """Return the bytes of a piece of some nodes, whose products this processor computes
        whole.
        """
        if not any(multiplies_integers(self._model.graph.nodes[number]) for number in numbers):
            return stream.getvalue()
        import onnxruntime

        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(stream.getvalue())
            file.flush()
            piece = OnnxModel(file.name)
            left_out, exact = without_cut_products(products_to_replace(piece, onnxruntime), ())
            if not left_out:
                return stream.getvalue()
            with piece.open() as opened:
                return with_additions(opened, exact, left_out)

    def _dims(self, name: str) -> Optional[Sequence[Optional[int]]]:
        """Return the dims of a value as the model tells them, else as many unknown ones as its ops'
        rules say; None: nobody knows.
        """
        value = self._values.get(name)
        if value is not None and value.shape is not None:
            return value.sizes
        return [None] * self._ranks[name] if name in self._ranks else None


class _Widened(Rewriting):
    """float16 and bfloat16 become float32, for which the processor has kernels; the result is
    rounded as the device rounds its own.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def tensor(self, file: WireFile, tensor: OnnxTensor) -> Optional[List[Bytes]]:
        """Return a tensor of float32."""
        if tensor.dtype not in _HALVES:
            return None
        values = tensor_array(self._path, file, tensor)
        head = (
            b"".join(field(1, dim) for dim in tensor.dims)
            + field(2, _FLOAT)
            + field(8, tensor.name.encode("utf-8", "surrogateescape"))
        )
        return [head + field(9, values.astype("<f4").tobytes())]

    def attribute(self, file: WireFile, span: Span) -> Optional[List[Bytes]]:
        """Return an attribute that names float32."""
        attr = file.read(ATTRIBUTE, *span)
        # Of a field that comes twice the last one counts.
        is_half = attr.name in _TYPE_ATTRIBUTES and attr.integer in _HALVES
        return [span, field(3, _FLOAT)] if is_half else None

    def value(self, file: WireFile, value: OnnxValue) -> Optional[List[Bytes]]:
        """Return a value whose type onnxruntime finds by itself."""
        return (
            [field(1, value.name.encode("utf-8", "surrogateescape"))]
            if value.dtype in _HALVES
            else None
        )


def _session(model: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Fatal errors alone (4): what it refuses comes as an exception. The arena may keep memory for
    # later, and each piece runs once.
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
