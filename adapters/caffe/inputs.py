"""The arrays that are set as a net's inputs: npy, npz, raw binary, images, folders of batches, or random numbers."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ...errors import FormatError, InputError, MissingPath, UsageError, require_file
from ...naming import printable
from ..manifest import sha256_of_file
from .images import IMAGE_SUFFIXES, Transform, load_image
from .netinputs import NetInput

Shape = Tuple[int, ...]
_RAW = re.compile(r"(?P<path>.+):(?P<dtype>[a-z]+[0-9]*):(?P<shape>[\[(]?[0-9]+(?:[,x][0-9]+)*[\])]?)\Z", re.DOTALL)
# What numpy raises for files that are cut, damaged, encrypted, or claim a size beyond memory.
_LOAD_ERRORS = (ValueError, OSError, EOFError, MemoryError, RuntimeError, KeyError, zlib.error, zipfile.BadZipFile)
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
        return list(archive.files)


def _open_npz(path: str) -> "np.lib.npyio.NpzFile":
    try:
        archive = np.load(path, allow_pickle=False)
    except _LOAD_ERRORS as error:
        raise FormatError("not an npz file: %s" % _told(error), path) from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise FormatError("not an npz file", path)
    return archive


def load_item(item: Item, expected: Shape, transform: Transform) -> np.ndarray:
    """Return one input as a float32 array in C order whose shape fits the net's but for the batch size.

    Parameters
    ----------
    expected
        The input's shape in the prototxt; empty when it has none.

    Raises
    ------
    InputError
        The file is not what it should be, or its shape does not fit.
    """
    require_file(item.path, "input %s" % item.blob)
    suffix = os.path.splitext(item.path)[1].lower()
    if item.dtype:
        array = _load_raw(item)
    elif suffix == ".npy":
        array = _load_npy(item.path)
    elif suffix == ".npz":
        with _open_npz(item.path) as archive:
            if item.blob not in archive.files:
                keys = ", ".join(map(printable, archive.files))
                raise InputError("%s: no key %s; it has %s" % (printable(item.path), printable(item.blob), keys))
            array = _checked(archive, item)
    elif suffix in IMAGE_SUFFIXES:
        return load_image(item.path, expected, transform)
    else:
        raise UsageError(
            "%s: dtype and shape of a raw file must be given" % printable(item.path),
            hint="-i %s=%s:float32:%s" % (printable(item.blob), printable(item.path), ",".join(map(str, expected)) or "1,3,224,224"),
        )
    return _as_input(array, item, expected)


def _checked(archive: "np.lib.npyio.NpzFile", item: Item) -> np.ndarray:
    try:
        return np.asarray(archive[item.blob])
    except _LOAD_ERRORS as error:
        raise FormatError("key %s: %s" % (printable(item.blob), _told(error)), item.path) from error


def _told(error: BaseException) -> str:
    """Return what numpy says, but not its advice to load pickles."""
    if "allow_pickle" in str(error) or "pickle" in str(error):
        return "it holds Python objects, or is no numpy file at all; pickles are never loaded"
    if isinstance(error, MemoryError):
        return "its header tells of more values than fit into memory"
    return str(error) or type(error).__name__


def _load_npy(path: str) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except _LOAD_ERRORS as error:
        raise FormatError("not an npy file of numbers: %s" % _told(error), path) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise FormatError("an npz file under the name of an npy file", path)
    return array


def _load_raw(item: Item) -> np.ndarray:
    dtype = np.dtype(item.dtype).newbyteorder("<")
    need = dtype.itemsize
    for dim in item.shape:
        need *= dim
    size = os.path.getsize(item.path)
    if size != need:
        message = "%s: %s of shape %s needs %d bytes, the file has %d"
        raise InputError(message % (printable(item.path), item.dtype, list(item.shape), need, size))
    return np.fromfile(item.path, dtype=dtype).reshape(item.shape)


def _as_input(array: np.ndarray, item: Item, expected: Shape) -> np.ndarray:
    where = "%s: input %s" % (printable(item.path), printable(item.blob))
    if array.dtype.kind not in "biuf":
        raise InputError("%s holds %s, not real numbers" % (where, array.dtype))
    if expected and array.ndim == len(expected) - 1 and array.shape == tuple(expected[1:]):
        array = array[np.newaxis]
    if expected and (array.ndim != len(expected) or array.shape[1:] != tuple(expected[1:])):
        raise InputError(
            "%s has the shape %s, the net expects %s" % (where, list(array.shape), list(expected)), hint="only the batch size may differ"
        )
    if not array.size:
        raise InputError("%s is empty: shape %s" % (where, list(array.shape)))
    return np.asarray(array, dtype=np.float32, order="C")


def random_input(seed: int, blob: str, shape: Shape, number: int) -> np.ndarray:
    """Return standard normal float32 numbers for the ``number``-th input; the same for the same seed on every numpy.

    Raises
    ------
    UsageError
        The prototxt does not tell the shape.
    """
    if not shape:
        message = "input %s has no shape in the prototxt, so it cannot be filled at random"
        raise UsageError(message % printable(blob), hint="give -i NAME=FILE")
    state = np.random.RandomState([seed, number])
    return np.asarray(state.standard_normal(shape), dtype=np.float32)


def hash_of(item: Item) -> str:
    """Return the SHA-256 of an input file."""
    return sha256_of_file(item.path)
