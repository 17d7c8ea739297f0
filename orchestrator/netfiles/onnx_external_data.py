"""Locates the external data files of an ONNX model and checks that they may be read and are
complete.

Source of the rules: ONNX's ExternalData.md: a location is a path relative to the model's folder and
never leads out of it.
"""

from __future__ import annotations

import os
from typing import Dict, NamedTuple

from ..base.errors import FormatError, InputError, MissingPath, TruncatedFile, require_file
from ..base.naming import printable
from ..base.safe_reading import open_input
from .onnx_model import OnnxModel
from .onnx_value_headers import OnnxTensor

_LFS = b"version https://git-lfs"


class ExternalRange(NamedTuple):
    """Location of one tensor's data.

    Attributes
    ----------
    path
        The file, in the model's folder or below.
    offset, length
        In bytes.
    """

    path: str
    offset: int
    length: int


def external_range(model_path: str, tensor: OnnxTensor) -> ExternalRange:
    """Return the location of a tensor's external data.

    Raises
    ------
    InputError
        Its location leads out of the model's folder, itself or by a link.
    FormatError
        There is no location, or offset or length are not numbers that fit the tensor.
    """
    entries = tensor.external or {}
    title = "tensor %s" % printable(tensor.name or "in an attribute")
    location = entries.get("location", "")
    if not location or "\0" in location:
        raise FormatError("%s has external data without a location" % title, model_path)
    folder = os.path.dirname(os.path.abspath(model_path))
    path = os.path.normpath(os.path.join(folder, location))
    inside = os.path.join(folder, "")
    if not path.startswith(inside):
        message = "%s has its data in %s, outside the model's folder"
        hint = (
            "external data is read only from the model's own folder: save the model again with "
            "its data beside it"
        )
        raise InputError(message % (title, printable(location)), hint, model_path)
    if not os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), "")):
        message = "%s has its data in %s, a link that leads out of the model's folder"
        raise InputError(
            message % (title, printable(location)),
            "copy model and data to a folder: cp -L",
            model_path,
        )
    try:
        offset, length = (
            int(entries.get("offset") or 0),
            int(entries.get("length") or tensor.nbytes),
        )
    except ValueError:
        raise FormatError(
            "%s: the offset or the length of its external data is no number" % title, model_path
        ) from None
    if offset < 0 or length != tensor.nbytes:
        message = "%s: %d bytes of external data from byte %d on, its shape %s needs %d"
        raise FormatError(
            message % (title, length, offset, list(tensor.dims), tensor.nbytes), model_path
        )
    return ExternalRange(path, offset, length)


def check_external(model: OnnxModel) -> Dict[str, int]:
    """Check all external data of a model.

    Returns
    -------
    dict
        Each file to the bytes that the model's tensors need of it.

    Raises
    ------
    InputError, FormatError
        As :func:`external_range`.
    MissingPath
        A file is not there or cannot be read.
    TruncatedFile
        A file is shorter than the tensors in it.
    """
    needed: Dict[str, int] = {}
    sizes: Dict[str, int] = {}
    for tensor in model.graph.tensors():
        if tensor.external is None:
            continue
        data_range = external_range(model.path, tensor)
        if data_range.path not in sizes:
            sizes[data_range.path] = _size(model.path, data_range.path)
        end = data_range.offset + data_range.length
        if end > sizes[data_range.path]:
            message = "cut short: tensor %s of %s ends at byte %d, the file has %d"
            text = message % (
                printable(tensor.name),
                os.path.basename(model.path),
                end,
                sizes[data_range.path],
            )
            raise TruncatedFile(text, data_range.path, end, sizes[data_range.path])
        needed[data_range.path] = needed.get(data_range.path, 0) + data_range.length
    return needed


def _size(model_path: str, path: str) -> int:
    if not os.path.lexists(path):
        message = "%s: its external data %s is not there" % (model_path, printable(path))
        raise MissingPath(message, hint="copy it beside the model: they belong together")
    require_file(path, "external data")
    with open_input(path) as stream:
        if stream.read(len(_LFS)) == _LFS:
            raise FormatError(
                "a pointer of Git LFS, not the model's external data",
                path,
                hint="fetch it: git lfs pull",
            )
        return os.fstat(stream.fileno()).st_size
