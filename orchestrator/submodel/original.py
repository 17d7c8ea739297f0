"""An original model read from its file, whichever framework it is of."""

from __future__ import annotations

import os
from typing import Union

from ..errors import InputError, require_file
from ..filesystem import AnyPath, open_input, path_text
from .caffe_original import DATA_TYPES, CaffeOriginal
from .tf_original import INPUT_TYPES, TfOriginal

Original = Union[CaffeOriginal, TfOriginal]
"""Each has ``kind``, ``names``, ``types``, ``tensors``, ``graph``, ``numbers(name)``, ``shapes()`` and ``cut(…)``."""

MODEL_INPUTS = DATA_TYPES | INPUT_TYPES | {"Input"}
"""Types of nodes that only hold what the model is given."""

_LOOK_BYTES = 4096


def read_original(path: AnyPath) -> Original:
    """Read a prototxt or a frozen ``.pb``; a file without a telling name is taken for text when it holds no control characters.

    Raises
    ------
    MissingPath
        There is no such file.
    InputError, FormatError
        As :class:`CaffeOriginal` and :class:`TfOriginal`: it is neither, damaged, a SavedModel, …
    """
    path = path_text(path, "MODEL")
    if path.endswith(".onnx"):
        raise InputError("%s: an ONNX model; a cut is made of Caffe and TensorFlow models" % path)
    if os.path.isdir(path) or path.endswith((".pb", ".pbtxt")):
        return TfOriginal.read(path)
    if path.endswith(".prototxt"):
        return CaffeOriginal.read(path)
    require_file(path, "MODEL")
    with open_input(path) as stream:
        start = stream.read(_LOOK_BYTES)
    return TfOriginal.read(path) if any(byte < 9 for byte in start) else CaffeOriginal.read(path)
