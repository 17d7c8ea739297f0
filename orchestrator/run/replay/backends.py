"""Who runs the pieces: Caffe or our own operators those of a prototxt, TensorFlow those of a graph,
onnxruntime those of ONNX.
"""

from __future__ import annotations

from ...adapters.caffe.replay import CaffeReplay
from ...adapters.onnx.replay import OnnxReplay
from ...adapters.replaying.run import PieceRunner
from ...adapters.tensorflow.replay import TensorflowReplay
from ...base.errors import InputError, UsageError
from ...base.naming import printable
from ...recomputing.original_cuts import Original
from ...recomputing.submodel.caffemodel_check import find_weights
from .options import AUTO, ReplayOptions

_KINDS = {
    "caffe": "caffe",
    "numpy": "caffe",
    "tf": "tensorflow",
    "onnxruntime": "onnx",
}
_FORMS = {"caffe": "a prototxt", "tensorflow": "a frozen TensorFlow graph", "onnx": "an ONNX model"}
_TAKES = {"caffe": "what does", "tensorflow": "TensorFlow", "onnx": "onnxruntime"}


def runner_for(options: ReplayOptions, original: Original) -> PieceRunner:
    """Return what runs the pieces of a model.

    Raises
    ------
    UsageError
        The backend does not run such a model.
    InputError
        A prototxt's weights are missing.
    EnvironmentProblem
        The framework is not there.
    """
    kind = original.kind
    if options.backend != AUTO and _KINDS[options.backend] != kind:
        raise UsageError(
            "the backend %s does not run %s" % (options.backend, _FORMS[kind]),
            hint="auto takes " + _TAKES[kind],
        )
    if kind != "caffe":
        if options.weights is not None:
            raise UsageError("weights belong to a prototxt; %s holds its own" % _FORMS[kind])
        if options.layer_files:
            raise UsageError("`layer` is for layers of a prototxt; the model is %s" % _FORMS[kind])
        return (OnnxReplay if kind == "onnx" else TensorflowReplay)(
            options.python, options.original
        )
    weights = options.weights if options.weights is not None else find_weights(options.original)
    model = original.model
    weighted = [name for number, name in enumerate(model.names) if model.weighted(number)]
    if weights is None and weighted:
        raise InputError(
            "%s has no .caffemodel of its name beside it" % printable(options.original),
            hint="name the weights",
        )
    return CaffeReplay(
        options.backend, options.python, options.original, weights, weighted, options.layer_files
    )
