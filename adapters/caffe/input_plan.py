"""What each run reads: the inputs asked for against the net's inputs; no file is opened but the
list of an npz archive.
"""

from __future__ import annotations

import os
import re
import zipfile
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from ...base.errors import FormatError, InputError, MissingPath, UsageError, require_file
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ..read_npy import LOAD_ERRORS
from .netinputs import NetInput

Shape = Tuple[int, ...]
_RAW = re.compile(
    r"(?P<path>.+):(?P<dtype>[a-z]+[0-9]*):(?P<shape>[\[(]?[0-9]+(?:[,x][0-9]+)*[\])]?)\Z",
    re.DOTALL,
)
_RAW_DTYPES = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
DEFAULT_LIMIT_BYTES = 4 << 30


def is_image(path: str) -> bool:
    """Tell by its name whether a file is an image."""
    return path.lower().endswith(IMAGE_SUFFIXES)


@dataclass(frozen=True)
class Item:
    """One file of one input asked for.

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
    """Return the inputs of each run.

    Parameters
    ----------
    specs
        ``NAME=FILE`` each.
    random
        Whether inputs without a file are filled at random.

    Raises
    ------
    UsageError
        An option does not name an input of the net, names one twice, or an input is left without a
        file.
    InputError
        A folder is empty, or folders have different numbers of files.
    """
    names = [entry.blob for entry in inputs]
    items_by_blob: Dict[str, List[Item]] = {}
    folders: List[str] = []
    for spec in specs:
        for blob, items, is_folder in _parse(spec, names):
            if blob in items_by_blob:
                raise UsageError("`inputs` names input %s twice" % printable(blob))
            items_by_blob[blob] = items
            folders += [blob] if is_folder else []
    missing = [entry for entry in inputs if entry.blob not in items_by_blob and not entry.optional]
    if missing and not random:
        listed = ", ".join(entry.words for entry in missing)
        hint = "add `inputs=NAME=FILE` for each" + (
            ", or `seed=SEED`" if all(entry.shape for entry in missing) else ""
        )
        raise UsageError("no file for the net's input %s" % listed, hint=hint)
    if not folders:
        return [Batch({blob: items[0] for blob, items in items_by_blob.items()})]
    counts = {blob: len(items_by_blob[blob]) for blob in folders}
    if len(set(counts.values())) > 1:
        raise InputError("the folders of batches hold different numbers of files: %s" % counts)
    n_batches = counts[folders[0]]
    return [
        Batch(
            {
                blob: items[number if blob in folders else 0]
                for blob, items in items_by_blob.items()
            },
            number,
        )
        for number in range(n_batches)
    ]


def _parse(spec: str, names: Sequence[str]) -> Iterator[Tuple[str, List[Item], bool]]:
    """Yield ``(blob, its files, whether they come from a folder)`` of one ``NAME=FILE``."""
    blob, equals, rest = spec.partition("=")
    if not equals and spec.endswith(".npz"):
        for key in _npz_keys(spec):
            _refuse_unknown(key, names, "%s has a key" % printable(spec))
            yield key, [Item(key, spec)], False
        return
    if not equals or not blob or not rest:
        hint = "for example `inputs=data=input.npy`, or `inputs=inputs.npz` with blob names as keys"
        raise UsageError("`inputs` %s is not NAME=FILE" % printable(spec), hint=hint)
    _refuse_unknown(blob, names, "`inputs` names")
    dtype = ""
    shape: Shape = ()
    match = None if os.path.exists(rest) else _RAW.match(rest)
    if match is not None:
        rest, dtype = match.group("path"), match.group("dtype")
        shape = tuple(int(part) for part in re.split("[,x]", match.group("shape").strip("[]()")))
        if dtype not in _RAW_DTYPES:
            message = "`inputs` %s: %s is no dtype of a raw file" % (printable(spec), dtype)
            raise UsageError(message, hint="one of %s" % ", ".join(_RAW_DTYPES))
    if os.path.isdir(rest):
        yield blob, [Item(blob, path, dtype, shape) for path in _files_of(rest)], True
    else:
        yield blob, [Item(blob, rest, dtype, shape)], False


def _refuse_unknown(blob: str, names: Sequence[str], what: str) -> None:
    if blob not in names:
        listed = (
            ", ".join(printable(name) for name in names) or "none: the net reads its data itself"
        )
        raise UsageError(
            "%s %s, which is no input of the net" % (what, printable(blob)),
            hint="the net's inputs are: %s" % listed,
        )


def _files_of(folder: str) -> List[str]:
    """Return the files of a folder of batches, numbers in their names in numeric order."""
    names = [
        name
        for name in os.listdir(folder)
        if not name.startswith(".") and os.path.isfile(os.path.join(folder, name))
    ]
    if not names:
        raise MissingPath("%s: no file in this folder of batches" % printable(folder))
    names.sort(
        key=lambda name: [
            (int(part), "") if part.isdigit() else (-1, part)
            for part in re.split(r"([0-9]+)", name)
        ]
    )
    return [os.path.join(folder, name) for name in names]


def _npz_keys(path: str) -> List[str]:
    require_file(path, "input")
    try:
        with zipfile.ZipFile(path) as archive:
            return [name[: -len(".npy")] for name in archive.namelist() if name.endswith(".npy")]
    except LOAD_ERRORS as error:
        raise FormatError("not an npz file: %s" % error, path) from error
