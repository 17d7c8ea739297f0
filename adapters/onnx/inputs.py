"""The values that a model is fed with: files, or random numbers; what was fed is kept beside the
golden data for the device's run.
"""

from __future__ import annotations

import io
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ...base.atomic_writing import write_atomically
from ...base.element_types import element_count
from ...base.errors import FormatError, InputError, MissingPath, UsageError, require_file
from ...base.fast_dataclasses import dataclass
from ...base.manifest import FILE_MODE
from ...base.naming import printable
from ...base.safe_reading import open_input, sha256_of_file
from ...netfiles.narrow_types import decode, encode, held_as, is_narrow
from ...netfiles.onnx_arrays import tensor_array
from ...netfiles.onnx_model import OnnxGraph
from ...netfiles.onnx_types import BY_NAME, TYPES, OnnxType, type_name
from ...netfiles.onnx_value_headers import Dim, OnnxValue, read_tensor
from ...netfiles.protobuf_file import WireFile
from ..read_npy import read_npy, read_npz
from .input_files import Item, Shape, check_shape, shown_shape, stems_of

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


INPUTS_FOLDER = "inputs"


@dataclass(frozen=True)
class Fed:
    """One value that is fed.

    Attributes
    ----------
    name
        Of the value.
    type
        As the model reads it.
    array
        Its values, in numpy's own byte order and C order; a type that numpy lacks as
        :func:`.narrow_types.held_as` says, but only values that the type has.
    origin
        SHA-256 of the file, or ``random``.
    overflowed
        How many finite values of the file are too large for the type, and so infinite.
    """

    name: str
    type: OnnxType
    array: np.ndarray
    origin: str
    overflowed: int = 0

    @property
    def raw(self) -> bytes:
        """Its elements as the model's file would hold them: little-endian, small types packed."""
        if is_narrow(self.type.name):
            return encode(self.array, self.type.name)
        return np.ascontiguousarray(self.array, np.dtype(self.type.numpy)).tobytes()


def load_inputs(
    values: Sequence[OnnxValue],
    items: Mapping[str, Item],
    shapes: Mapping[str, Shape],
    seed: Optional[int],
    halves: Sequence[str] = (),
) -> List[Fed]:
    """Return the values of a model's inputs, in their order.

    Parameters
    ----------
    items
        The file of each input that has one.
    shapes
        Those that the user (or the om) tells.
    seed
        Fills inputs without a file at random; None: each needs a file.
    halves
        Inputs that the om reads as float16: random numbers are then such that float16 holds them,
        and raw files of that size are read so.

    Raises
    ------
    UsageError
        An input has neither a file nor random numbers, or no shape.
    InputError
        A file is not what it should be, or its shape or type does not fit.
    """
    for value in values:
        if (
            value.kind != "tensor"
            or value.dtype not in TYPES
            or held_as(type_name(value.dtype)) is None
        ):
            kind = (
                value.kind
                if value.kind not in ("", "tensor")
                else "of type %s" % type_name(value.dtype)
            )
            raise InputError(
                "input %s is %s: only tensors of numbers can be fed" % (printable(value.name), kind)
            )
    missing = [value for value in values if value.name not in items]
    if missing and seed is None:
        listed = ", ".join(
            "%s %s" % (printable(value.name), shown_shape(value.shape)) for value in missing
        )
        raise UsageError(
            "no file for the model's input %s" % listed,
            hint="add `inputs=NAME=FILE` for each, or `seed=SEED`",
        )
    arrays: Dict[str, Tuple[np.ndarray, str]] = {}
    sizes = _named_dims(values, shapes)
    for value in values:
        if value.name in items and not items[value.name].path.endswith(".bin"):
            arrays[value.name] = _read(items[value.name], value, shapes.get(value.name))
            sizes.update(_sizes(value.shape, arrays[value.name][0].shape))
    known = {
        value.name: shapes.get(value.name, _resolved(value.shape, sizes))
        for value in values
        if value.name not in arrays
    }
    _require_shapes([value for value in values if known.get(value.name, ()) is None])
    fed = []
    for number, value in enumerate(values):
        if value.name not in arrays:
            shape = known[value.name] or ()
            check_shape(value, shape, "the shape")
            if value.name in items:
                arrays[value.name] = _read_raw(
                    items[value.name], value.name, value.dtype, shape, value.name in halves
                )
            else:
                arrays[value.name] = (
                    _random(value, shape, [seed or 0, number], value.name in halves),
                    type_name(value.dtype),
                )
        array, dtype = arrays[value.name]
        where = items[value.name].path if value.name in items else ""
        origin = sha256_of_file(where) if where else "random"
        done = _converted(array, dtype, value.dtype, where)
        fed.append(Fed(value.name, TYPES[value.dtype], done, origin, _overflowed(array, done)))
    return fed


def _require_shapes(unknown: Sequence[OnnxValue]) -> None:
    if unknown:
        listed = ", ".join(
            "%s %s" % (printable(value.name), shown_shape(value.shape)) for value in unknown
        )
        dims = ",".join(
            str(dim) if isinstance(dim, int) else "N" for dim in unknown[0].shape or ("N", "N")
        )
        example = "`shapes=%s=%s`" % (printable(unknown[0].name), dims)
        raise UsageError(
            "the model does not say the whole shape of its input %s" % listed,
            hint="add %s with numbers for each" % example,
        )


def load_feed(item: Item, name: str, value: Optional[OnnxValue], floats: int) -> Fed:
    """Return the given values of a node's output.

    Parameters
    ----------
    value
        What the model says of it; None when nothing.
    floats
        The model's floating-point type: where it says nothing of the value, a device's floats
        become such.
    """
    known = value is not None and value.kind == "tensor" and value.dtype in TYPES
    if item.path.endswith(".bin"):
        dims = _resolved(value.shape, {}) if value is not None else None
        dtype = (
            value.dtype
            if known and value is not None
            else BY_NAME[item.dtype].code
            if item.dtype
            else 0
        )
        if dims is None or not dtype:
            raise UsageError(
                "%s: the model does not say type and shape of %s" % (item.path, printable(name)),
                hint="give an .npy file",
            )
        array, file_dtype = _read_raw(item, name, dtype, dims)
    else:
        array, file_dtype = _read_self_described(item, name)
    stored = floats if item.is_dump and array.dtype.kind == "f" else BY_NAME[file_dtype].code
    dtype_needed = value.dtype if known and value is not None else stored
    done = _converted(array, file_dtype, dtype_needed, item.path)
    return Fed(name, TYPES[dtype_needed], done, sha256_of_file(item.path), _overflowed(array, done))


def floats_of(graph: OnnxGraph) -> int:
    """Return the floating-point type that most of a graph's inputs and weights have; float32 where
    none has one.
    """
    codes = [tensor.dtype for tensor in graph.initializers.values()] + [
        value.dtype for value in graph.inputs
    ]
    kinds = [
        code for code in codes if type_name(code) in ("float32", "float16", "bfloat16", "float64")
    ]
    return max(kinds, key=kinds.count, default=BY_NAME["float32"].code)


def _sizes(declared: Optional[Sequence[Dim]], shape: Shape) -> Dict[str, int]:
    return {dim: size for dim, size in zip(declared or (), shape) if isinstance(dim, str)}


def _named_dims(values: Sequence[OnnxValue], shapes: Mapping[str, Shape]) -> Dict[str, int]:
    sizes: Dict[str, int] = {}
    for value in values:
        sizes.update(_sizes(value.shape, shapes.get(value.name, ())))
    return sizes


def _resolved(declared: Optional[Sequence[Dim]], sizes: Mapping[str, int]) -> Optional[Shape]:
    if declared is None:
        return None
    dims = [sizes.get(dim) if isinstance(dim, str) else dim for dim in declared]
    return None if None in dims else tuple(dim for dim in dims if dim is not None)


def _read(item: Item, value: OnnxValue, shape: Optional[Shape]) -> Tuple[np.ndarray, str]:
    array, dtype = _read_self_described(item, value.name)
    where = "%s: the shape" % printable(item.path)
    if shape is not None and shape != array.shape:
        raise InputError(
            "%s of input %s is %s, expected %s"
            % (where, printable(value.name), list(array.shape), list(shape))
        )
    check_shape(value, array.shape, where)
    return array, dtype


def _read_self_described(item: Item, name: str) -> Tuple[np.ndarray, str]:
    """Return the array of a file that tells type and shape, and the name of its type."""
    require_file(item.path, "input %s" % printable(name))
    suffix = os.path.splitext(item.path)[1].lower()
    if suffix == ".pb":
        array, dtype = read_tensorproto(item.path)
    elif suffix == ".npz":
        array = read_npz(
            item.path,
            name,
            lambda shape, dtype: None,
            hint="save it under the input's name, or give the array as .npy",
        )
        dtype = ""
    elif suffix == ".npy":
        with open_input(item.path) as stream:
            array, dtype = (
                read_npy(stream, item.path, os.path.getsize(item.path), lambda shape, dtype: None),
                "",
            )
    else:
        message = "%s: a file of type %s cannot be read as input %s"
        hint = (
            "give .npy, .npz, .pb (a TensorProto), .bin (raw elements), or dump:FILE for a "
            "device's dump"
        )
        raise UsageError(
            message % (printable(item.path), suffix or "unknown", printable(name)), hint=hint
        )
    if item.dtype:
        raise UsageError(
            "%s tells its type itself" % printable(item.path),
            hint="leave ,dtype=%s out: it is for .bin files" % item.dtype,
        )
    if not dtype:
        dtype = array.dtype.name
        if dtype not in BY_NAME or held_as(dtype) is None:
            raise InputError(
                "%s: input %s holds %s, which no ONNX model reads"
                % (printable(item.path), printable(name), array.dtype)
            )
    return array, dtype


def _read_raw(
    item: Item, name: str, dtype_needed: int, shape: Shape, is_half: bool = False
) -> Tuple[np.ndarray, str]:
    """Return the elements of a raw file of the type that was said, else the om's (float16) if the
    size is that, else the model's.
    """
    require_file(item.path, "input %s" % printable(name))
    entry = BY_NAME[item.dtype] if item.dtype else TYPES[dtype_needed]
    elements, size = element_count(shape), os.path.getsize(item.path)
    if (
        is_half
        and not item.dtype
        and entry.name == "float32"
        and size == BY_NAME["float16"].nbytes(elements)
    ):
        entry = BY_NAME["float16"]
    need = entry.nbytes(elements)
    if size != need:
        message = "%s: input %s of %s and shape %s needs %d bytes, the file has %d"
        other = next(
            (
                each.name
                for each in TYPES.values()
                if each.bits
                and each.name in ("float16", "float32", "float64", "int32", "int64")
                and each.nbytes(elements) == size
            ),
            "",
        )
        hint = (
            "it has the size of %s: give NAME=FILE,dtype=%s if it holds that" % (other, other)
            if other
            else "check shape and type"
        )
        raise InputError(
            message % (printable(item.path), printable(name), entry.name, list(shape), need, size),
            hint=hint,
        )
    with open_input(item.path) as stream:
        data = np.frombuffer(stream.read(), np.uint8)
    if is_narrow(entry.name):
        return decode(data, entry.name, elements).reshape(shape), entry.name
    return data.view(np.dtype(entry.numpy)).reshape(shape), entry.name


def _random(value: OnnxValue, shape: Shape, seed: List[int], is_half: bool) -> np.ndarray:
    """Return standard normal floats, or integers 0 and 1; the same for the same seed on every
    numpy.
    """
    state = np.random.RandomState(seed)
    dtype = held_as(type_name(value.dtype))
    assert dtype is not None
    if dtype.kind in "fc":
        drawn = state.standard_normal(shape)
        return np.asarray(drawn.astype(np.float16) if is_half else drawn).astype(dtype)
    return np.asarray(state.randint(0, 2, shape)).astype(dtype)


def _converted(array: np.ndarray, file_dtype: str, dtype_needed: int, path: str) -> np.ndarray:
    """Return values as the model's type, in numpy's own byte order and C order.

    Floats become floats of any size, integers integers that hold them, integers floats; a float
    never becomes an integer.
    """
    entry = TYPES[dtype_needed]
    dtype = held_as(entry.name)
    assert dtype is not None
    dtype = dtype.newbyteorder("=")
    kinds = {"f": "f", "i": "iu", "u": "iu", "b": "b", "c": "c"}[dtype.kind]
    fits = (
        array.dtype.kind in kinds
        or (dtype.kind in "fc" and array.dtype.kind in "iubf")
        or (dtype.kind in "iu" and array.dtype.kind == "b")
    )
    if not fits:
        raise InputError(
            "%s holds %s, the model reads %s" % (printable(path), file_dtype, entry.name),
            hint="give a file of that type",
        )
    with np.errstate(over="ignore", invalid="ignore"):
        done = np.array(array, dtype=dtype, order="C")
    if dtype.kind in "iu" and not np.array_equal(done, array):
        raise InputError(
            "%s holds %s with values that %s cannot hold"
            % (printable(path), file_dtype, entry.name),
            hint="give a file of that type",
        )
    if is_narrow(entry.name):
        raw = np.frombuffer(encode(done, entry.name), np.uint8)
        done = decode(raw, entry.name, done.size).reshape(done.shape)
    return done


def _overflowed(before: np.ndarray, after: np.ndarray) -> int:
    if before.dtype.kind not in "iuf" or after.dtype.kind != "f":
        return 0
    return int(np.count_nonzero(np.isinf(after) & np.isfinite(before)))


def save_inputs(out: str, fed: Sequence[Fed], halves: Sequence[str]) -> List[Dict[str, Any]]:
    """Write each input as ``inputs/{name}.npy`` and, as the device reads it, ``.bin``; return the
    manifest's list of them.

    Parameters
    ----------
    halves
        Inputs that the om reads as float16.
    """
    folder = os.path.join(out, INPUTS_FOLDER)
    if fed:
        if os.path.islink(folder) or (os.path.lexists(folder) and not os.path.isdir(folder)):
            raise MissingPath(
                "%s is not a folder" % printable(folder),
                hint="remove it: the inputs are saved there",
            )
        os.makedirs(folder, exist_ok=True)
    listed = []
    for entry, stem in zip(fed, stems_of([entry.name for entry in fed]).values()):
        half = entry.name in halves and entry.type.name == "float32"
        with np.errstate(over="ignore"):
            stored = entry.array.astype("<f2") if half else entry.array
        raw = stored.tobytes() if half else entry.raw
        lost = int(np.count_nonzero(np.isinf(stored) & np.isfinite(entry.array))) if half else 0
        stream = io.BytesIO()
        np.save(stream, entry.array, allow_pickle=False)
        write_atomically(os.path.join(folder, stem + ".npy"), stream.getvalue(), FILE_MODE)
        write_atomically(os.path.join(folder, stem + ".bin"), raw, FILE_MODE)
        files = {name: "%s/%s.%s" % (INPUTS_FOLDER, stem, name) for name in ("npy", "bin")}
        dtypes = {"dtype": entry.type.name, "bin_dtype": "float16" if half else entry.type.name}
        listed.append(
            {
                "name": entry.name,
                **files,
                **dtypes,
                "shape": list(entry.array.shape),
                "origin": entry.origin,
                "lost": lost,
            }
        )
    return listed
