"""Who runs the pieces: Caffe or OpenCV those of a prototxt, TensorFlow those of a frozen graph."""

from __future__ import annotations

from typing import Union

from ..adapters.caffe.replay import CaffeReplay
from ..adapters.tensorflow.replay import TensorflowReplay
from ..errors import InputError, UsageError
from ..naming import printable
from ..submodel.weights import find_weights
from .options import AUTO, ReplayOptions
from .original import Original

Runner = Union[CaffeReplay, TensorflowReplay]


def runner_for(options: ReplayOptions, original: Original) -> Runner:
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
    caffe = original.kind == "caffe"
    if options.backend != AUTO and caffe != (options.backend in ("caffe", "opencv")):
        form = "a prototxt" if caffe else "a frozen TensorFlow graph"
        raise UsageError(
            "the backend %s does not run %s" % (options.backend, form), hint="auto takes what does" if caffe else "auto takes TensorFlow"
        )
    if not caffe:
        if options.weights is not None:
            raise UsageError("weights belong to a prototxt; those of a frozen graph are in it")
        return TensorflowReplay(options.python, options.original)
    weights = options.weights if options.weights is not None else find_weights(options.original)
    model = original.model
    weighted = [name for number, name in enumerate(model.names) if model.weighted(number)]
    if weights is None and weighted:
        raise InputError("%s has no .caffemodel of its name beside it" % printable(options.original), hint="name the weights")
    return CaffeReplay(options.backend, options.python, options.original, weights, weighted)
