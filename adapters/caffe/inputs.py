"""The arrays that are set as a net's inputs: npy, npz, raw binary, images, folders of batches, or random numbers."""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ...errors import FormatError, InputError, MissingPath, UsageError, require_file
from ...naming import printable
from ..manifest import sha256_of_file
from .images import IMAGE_SUFFIXES, Transform, load_image, require_room
from .netinputs import NetInput
from .npyfile import LOAD_ERRORS, Check, read_npy, told

Shape = Tuple[int, ...]
_RAW = re.compile(r"(?P<path>.+):(?P<dtype>[a-z]+[0-9]*):(?P<shape>[\[(]?[0-9]+(?:[,x][0-9]+)*[\])]?)\Z", re.DOTALL)
DEFAULT_LIMIT_BYTES = 4 << 30
_NPY = ".npy"
_RAW_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Item:
    """One file of one ``-i`` option.

    Attributes
    ----------
    blob
        The input's name.
    path
        The file.
    dtype, shape
        Of a raw binary file; empty for others.
    """

    blob: str
    path: str
    dtype: str = ""
    shape: Shape = ()


@dataclass(frozen=True)
class Batch:
    """The inputs of one run.

    Attributes
    ----------
    items
        Blob name to file; inputs that are filled at random are missing here.
    number
        None for the only run of plain files; for a folder of batches its number from 0.
    """

    items: Dict[str, Item]
    number: Optional[int] = None


def plan_batches(specs: Sequence[str], inputs: Sequence[NetInput], random: bool) -> List[Batch]:
    """Return what each run reads.

    Parameters
    ----------
    specs
        The ``-i`` options.
    random
        Whether inputs without a file are filled at random.

    Raises
    ------
    UsageError
        An option does not name an input of the net, names one twice, or an input is left without a file.
    InputError
        A folder is empty, or folders have different numbers of files.
    """
    names = [entry.blob for entry in inputs]
    given: Dict[str, List[Item]] = {}
    folders: List[str] = []
    for spec in specs:
        for blob, items, is_folder in _parse(spec, names):
            if blob in given:
                raise UsageError("-i names input %s twice" % printable(blob))
            given[blob] = items
            folders += [blob] if is_folder else []
    missing = [entry for entry in inputs if entry.blob not in given]
    if missing and not random:
        listed = ", ".join("%s %s" % (printable(entry.blob), list(entry.shape) if entry.shape else "") for entry in missing)
        raise UsageError("no file for the net's input %s" % listed, hint="add -i NAME=FILE for each, or --random SEED")
    if not folders:
        return [Batch({blob: items[0] for blob, items in given.items()})]
    counts = {blob: len(given[blob]) for blob in folders}
    if len(set(counts.values())) > 1:
        raise InputError("the folders of batches hold different numbers of files: %s" % counts)
    n_batches = counts[folders[0]]
    return [Batch({blob: items[number if blob in folders else 0] for blob, items in given.items()}, number) for number in range(n_batches)]


def _parse(spec: str, names: Sequence[str]) -> Iterator[Tuple[str, List[Item], bool]]:
    """Yield ``(blob, its files, whether they come from a folder)`` of one ``-i`` option."""
    blob, equals, rest = spec.partition("=")
    if not equals and spec.endswith(".npz"):
        for key in _npz_keys(spec):
            _known(key, names, "%s has a key" % printable(spec))
            yield key, [Item(key, spec)], False
        return
    if not equals or not blob or not rest:
        hint = "for example -i data=input.npy, or -i inputs.npz with blob names as keys"
        raise UsageError("-i %s is not NAME=FILE" % printable(spec), hint=hint)
    _known(blob, names, "-i names")
    dtype = ""
    shape: Shape = ()
    match = None if os.path.exists(rest) else _RAW.match(rest)
    if match is not None:
        rest, dtype = match.group("path"), match.group("dtype")
        shape = tuple(int(part) for part in re.split("[,x]", match.group("shape").strip("[]()")))
        if dtype not in _RAW_DTYPES:
            raise UsageError("-i %s: %s is no dtype of a raw file" % (printable(spec), dtype), hint="one of %s" % ", ".join(_RAW_DTYPES))
    if os.path.isdir(rest):
        yield blob, [Item(blob, path, dtype, shape) for path in _files_of(rest)], True
    else:
        yield blob, [Item(blob, rest, dtype, shape)], False


def _known(blob: str, names: Sequence[str], what: str) -> None:
    if blob not in names:
        listed = ", ".join(printable(name) for name in names) or "none: the net reads its data itself"
        raise UsageError("%s %s, which is no input of the net" % (what, printable(blob)), hint="the net's inputs are: %s" % listed)


def _files_of(folder: str) -> List[str]:
    """Return the files of a folder of batches, numbers in their names in numeric order."""
    names = [name for name in os.listdir(folder) if not name.startswith(".") and os.path.isfile(os.path.join(folder, name))]
    if not names:
        raise MissingPath("%s: no file in this folder of batches" % printable(folder))
    names.sort(key=lambda name: [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)])
    return [os.path.join(folder, name) for name in names]


def _npz_keys(path: str) -> List[str]:
    require_file(path, "input")
    with _open_npz(path) as archive:
        return [name[: -len(_NPY)] for name in archive.namelist() if name.endswith(_NPY)]


def _open_npz(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except LOAD_ERRORS as error:
        raise FormatError("not an npz file: %s" % told(error), path) from error


def load_item(item: Item, expected: Shape, transform: Transform, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> np.ndarray:
    """Return one input as a float32 array in C order whose shape fits the net's but for the batch size.

    Parameters
    ----------
    expected
        The input's shape in the prototxt; empty when it has none.
    limit_bytes
        An input that is larger in memory is refused: its dimensions are read before anything is unpacked.

    Raises
    ------
    InputError
        The file is not what it should be, or its shape does not fit.
    """
    require_file(item.path, "input %s" % item.blob)
    suffix = os.path.splitext(item.path)[1].lower()

    def check(shape: Shape, dtype: np.dtype) -> None:
        _fitting(shape, dtype, item, expected, limit_bytes)

    if item.dtype:
        array = _load_raw(item, check)
    elif suffix == _NPY:
        with open(item.path, "rb") as stream:
            array = read_npy(stream, item.path, os.path.getsize(item.path), check)
    elif suffix == ".npz":
        array = _load_npz(item, check)
    elif suffix in IMAGE_SUFFIXES:
        return load_image(item.path, expected, transform, limit_bytes)
    else:
        raise UsageError(
            "%s: dtype and shape of a raw file must be given" % printable(item.path),
            hint="-i %s=%s:float32:%s" % (printable(item.blob), printable(item.path), ",".join(map(str, expected)) or "1,3,224,224"),
        )
    return np.asarray(array.reshape(_fitting(array.shape, array.dtype, item, expected, limit_bytes)), dtype=np.float32, order="C")


def _load_npz(item: Item, check: Check) -> np.ndarray:
    with _open_npz(item.path) as archive:
        names = archive.namelist()
        if item.blob + _NPY not in names:
            keys = ", ".join(printable(name[: -len(_NPY)] if name.endswith(_NPY) else name) for name in names)
            raise InputError("%s: no key %s; it has %s" % (printable(item.path), printable(item.blob), keys))
        try:
            member = archive.getinfo(item.blob + _NPY)
            with archive.open(member) as stream:
                return read_npy(stream, "%s, key %s" % (item.path, item.blob), member.file_size, check)
        except InputError:
            raise
        except LOAD_ERRORS as error:
            raise FormatError("key %s: %s" % (printable(item.blob), told(error)), item.path) from error


def _load_raw(item: Item, check: Check) -> np.ndarray:
    dtype = np.dtype(item.dtype).newbyteorder("<")
    need = dtype.itemsize * int(np.prod(item.shape, dtype=object))
    size = os.path.getsize(item.path)
    if size != need:
        message = "%s: %s of shape %s needs %d bytes, the file has %d"
        raise InputError(message % (printable(item.path), item.dtype, list(item.shape), need, size))
    check(item.shape, dtype)
    return np.fromfile(item.path, dtype=dtype).reshape(item.shape)


def _fitting(shape: Shape, dtype: np.dtype, item: Item, expected: Shape, limit_bytes: int) -> Shape:
    """Return the shape that an array gets, with the batch axis that it may lack.

    Raises
    ------
    InputError
        It does not fit, holds no real numbers or none at all, or is too large.
    """
    where = "%s: input %s" % (printable(item.path), printable(item.blob))
    if dtype.kind not in "biuf":
        raise InputError("%s holds %s, not real numbers" % (where, dtype))
    fitting = shape
    if expected and len(shape) == len(expected) - 1 and shape == tuple(expected[1:]):
        fitting = (1,) + shape
    if expected and (len(fitting) != len(expected) or fitting[1:] != tuple(expected[1:])):
        hint = "only the batch size may differ"
        raise InputError("%s has the shape %s, the net expects %s" % (where, list(fitting), list(expected)), hint=hint)
    count = int(np.prod(fitting, dtype=object))
    if count < 1:
        raise InputError("%s is empty: shape %s" % (where, list(fitting)))
    require_room(item.path, "an array of shape %s" % list(fitting), count * max(4, dtype.itemsize), limit_bytes)
    return fitting


def random_input(seed: int, blob: str, shape: Shape, number: int, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> np.ndarray:
    """Return standard normal float32 numbers for the ``number``-th input; the same for the same seed on every numpy.

    Raises
    ------
    UsageError
        The prototxt does not tell the shape.
    """
    if not shape:
        message = "input %s has no shape in the prototxt, so it cannot be filled at random"
        raise UsageError(message % printable(blob), hint="give -i NAME=FILE")
    # Drawn in float64.
    require_room("input " + blob, "an array of shape %s" % list(shape), 12 * int(np.prod(shape, dtype=object)), limit_bytes)
    state = np.random.RandomState([seed, number])
    return np.asarray(state.standard_normal(shape), dtype=np.float32)


def hash_of(item: Item) -> str:
    """Return the SHA-256 of an input file."""
    return sha256_of_file(item.path)
