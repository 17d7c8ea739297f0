"""Reads an original model of any framework."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Set, Tuple, Union

from ...base.errors import InputError, MissingPath, require_file
from ...base.safe_reading import AnyPath, open_input, path_text
from ...kinds import kind as kinds
from ...kinds.files import kind_of_file

if TYPE_CHECKING:
    from .caffe_original import CaffeOriginal
    from .onnx_original import OnnxOriginal
    from .tf_original import TfOriginal

Original = Union["CaffeOriginal", "OnnxOriginal", "TfOriginal"]
"""Each has ``kind``, ``names``, ``types``, ``tensors``, ``graph``, ``inner``, ``numbers(name)``,
``shapes()`` and ``cut(…)``.
"""

Output = Tuple[str, int]
"""A node's name and the number of its output."""

_LOOK_BYTES = 4096
_NO_MODELS = (
    kinds.OM, kinds.OM_JSON, kinds.DUMP, kinds.NPY, kinds.GE_TEXT, kinds.ACL, kinds.ARCHIVE,
    kinds.TAR, kinds.TORCH, kinds.NPZ, kinds.SAFETENSORS, kinds.HDF5, kinds.SCRIPT,
)  # fmt: skip


def outputs_in(original: Original) -> Set[Output]:
    """Return all values of a model: the outputs of its nodes, and the blobs of a Caffe net's
    ``input`` fields.
    """
    outputs = {(name, 0) for name in original.input_fields}
    for name, tensors in zip(original.names, original.tensors):
        outputs.update(
            (name, index) for index in range(max(1, len(tensors))) if not tensors or tensors[index]
        )
    return outputs


def read_original(path: AnyPath) -> Original:
    """Read a prototxt, a frozen ``.pb`` or an ``.onnx``; without a telling name a file is text when
    it holds no control characters.

    Raises
    ------
    MissingPath
        There is no such file.
    InputError, FormatError
        As :class:`CaffeOriginal`, :class:`TfOriginal` and :class:`OnnxOriginal`: it is none of
        them, damaged, a SavedModel, …
    """
    # A model is of one framework: what reads the others is not loaded.
    path = path_text(path, "MODEL")
    _no_model(path)
    kind = _kind_of(path)
    if kind == "onnx":
        from .onnx_original import OnnxOriginal

        return OnnxOriginal.read(path)
    if kind == "caffe":
        from .caffe_original import CaffeOriginal

        return CaffeOriginal.read(path)
    from .tf_original import TfOriginal

    return TfOriginal.read(path)


def _no_model(path: str) -> None:
    """Raise for a folder or file that is known to be no original model."""
    hint = "give the original model: an .onnx, a .prototxt or a frozen graph (.pb)"
    if os.path.isdir(path):
        if not os.path.isfile(os.path.join(path, "saved_model.pb")):
            raise MissingPath("MODEL: %s is a folder" % path, hint=hint)
    elif os.path.isfile(path):
        kind = kind_of_file(path)
        if kind.name in _NO_MODELS:
            raise InputError("%s: this is %s, not an original model" % (path, kind.words), hint)


def _kind_of(path: str) -> str:
    if path.lower().endswith(".onnx"):
        return "onnx"
    if os.path.isdir(path) or path.endswith((".pb", ".pbtxt")):
        return "tensorflow"
    if path.endswith(".prototxt"):
        return "caffe"
    require_file(path, "MODEL")
    with open_input(path) as stream:
        start = stream.read(_LOOK_BYTES)
    if start.startswith(b"\x08"):  # the IR version, with which exporters begin
        return "onnx"
    return "tensorflow" if any(byte < 9 for byte in start) else "caffe"
