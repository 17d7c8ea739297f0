"""A TensorProto in a file of its own (.pb), such as the test data of the ONNX model zoo, as an
array.

Source of the field numbers: onnx.proto (TensorProto).
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from ...errors import FormatError
from ...netfiles.narrow_types import held_as
from ...netfiles.onnx_arrays import tensor_array
from ...netfiles.onnx_types import type_name
from ...netfiles.onnx_value_headers import read_tensor
from ...netfiles.protobuf_file import WireFile

HINT = "give a TensorProto, or an .npy file"


def read_tensorproto(path: str) -> Tuple[np.ndarray, str]:
    """Return the values (of a type that numpy lacks, as :func:`.narrow_types.held_as` says) and the
    name of their type.

    Raises
    ------
    MissingPath, FormatError
        It is not there, no TensorProto, or damaged.
    """
    with WireFile(path, "input", HINT) as file:
        tensor = read_tensor(file, (0, file.size))
        if held_as(type_name(tensor.dtype)) is None:
            raise FormatError(
                "not a TensorProto of numbers: its element type is %s" % type_name(tensor.dtype),
                path,
                hint=HINT,
            )
        if tensor.external is not None:
            raise FormatError("a TensorProto whose data lies in another file", path, hint=HINT)
        return tensor_array(path, file, tensor), type_name(tensor.dtype)
