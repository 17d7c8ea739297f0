"""Which file each input of a model is read from: ``NAME=FILE[,dtype=…]``, ``dump:FILE``, and
folders of files.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ...base.errors import InputError, MissingPath, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names, printable, sanitise_golden, shortened_file_name
from ...netfiles.onnx_types import BY_NAME
from ...netfiles.onnx_value_headers import Dim, OnnxValue

SUFFIXES = (".npy", ".npz", ".pb", ".bin")
DUMP = "dump:"
Shape = Tuple[int, ...]


@dataclass(frozen=True)
class Item:
    """The file of one value.

    Attributes
    ----------
    path
        The file.
    dtype
        Type of the elements of a raw file; empty: the model's.
    is_dump
        Whether it is a device's dump.
    """

    path: str
    dtype: str = ""
    is_dump: bool = False


def parse_item(spec: str, parameter: str) -> Tuple[str, Item]:
    """Return the name and the file of one ``NAME=FILE[,dtype=…]`` or ``NAME=dump:FILE``.

    Names may hold ``=``: the file begins behind the first one behind which something is there, or
    behind the last.

    Raises
    ------
    UsageError
        It is neither.
    """
    places = [match.start() for match in re.finditer("=", spec)]
    dtype = ""
    tail = re.search(r",dtype=([A-Za-z0-9_]+)\Z", spec)
    if tail is not None:
        dtype, spec = tail.group(1).lower(), spec[: tail.start()]
        places = [place for place in places if place < len(spec)]
        if dtype not in BY_NAME or not BY_NAME[dtype].bits:
            known = ", ".join(name for name, entry in BY_NAME.items() if entry.bits)
            raise UsageError(
                "`%s` %s: %s is no type of elements"
                % (parameter, printable(spec), printable(dtype)),
                hint="one of " + known,
            )
    splits = [
        (spec[:place], spec[place + 1 :]) for place in places if spec[:place] and spec[place + 1 :]
    ]
    if not splits:
        raise UsageError(
            "`%s` %s is not NAME=FILE" % (parameter, printable(spec)),
            hint="for example `%s=x=input.npy`" % parameter,
        )
    name, path = next(
        (split for split in splits if os.path.exists(_without_mark(split[1]))), splits[0]
    )
    return name, Item(os.path.abspath(_without_mark(path)), dtype, path.startswith(DUMP))


def _without_mark(path: str) -> str:
    return path[len(DUMP) :] if path.startswith(DUMP) else path


def items_of(specs: Iterable[str], names: Sequence[str]) -> Dict[str, Item]:
    """Return the file of each input that is named.

    Raises
    ------
    UsageError
        A name is none of ``names``, or is given twice.
    """
    items: Dict[str, Item] = {}
    for spec in specs:
        name, item = parse_item(spec, "inputs")
        known_input(name, names, "inputs")
        if name in items:
            raise UsageError("`inputs` names %s twice" % printable(name))
        items[name] = item
    return items


def known_input(name: str, names: Sequence[str], parameter: str) -> None:
    """Raise UsageError unless ``name`` is one of the model's inputs."""
    if name not in names:
        near = nearest_names(name, names)
        listed = ", ".join(printable(each) for each in names) or "none"
        hint = "the model's inputs are: %s%s" % (
            listed,
            "; nearest: %s" % printable(near[0]) if near else "",
        )
        raise UsageError(
            "`%s` names %s, which is no input of the model" % (parameter, printable(name)),
            hint=hint,
        )


def stems_of(names: Sequence[str]) -> Dict[str, str]:
    """Return what the files of each input are called, without suffix: sanitised and distinct.

    A name of digits only gets a ``_``, since such files are hash names in a golden folder; one that
    another input's own name is, too.
    """
    stems: Dict[str, str] = {}
    taken = {name for name in names if sanitise_golden(name) == name and not name.isdigit()}
    for name in names:
        stem = shortened_file_name(sanitise_golden(name) or "_", ".npy")[: -len(".npy")]
        while stem.isdigit() or (stem in taken and stem != name):
            stem += "_"
        taken.add(stem)
        stems[name] = stem
    return stems


def folder_items(folder: str, names: Sequence[str]) -> Tuple[Dict[str, Item], List[str]]:
    """Return the files of a folder that are inputs by their names, and those of the same kinds that
    are no input's.

    An input's file is called by its own name or by the sanitised one, in this order, with ``.npy``,
    ``.npz``, ``.pb`` or ``.bin`` behind it, in this order.

    Raises
    ------
    MissingPath
        There is no such folder, or nothing in it is an input.
    """
    if not os.path.isdir(folder):
        raise MissingPath(
            "%s is not a folder" % printable(folder), hint="name the folder of the inputs' files"
        )
    others = {name for name in os.listdir(folder) if name.endswith(SUFFIXES)}
    items: Dict[str, Item] = {}
    for name, stem in stems_of(names).items():
        files = [
            text + suffix
            for text in dict.fromkeys((name, stem))
            for suffix in SUFFIXES
            if text + suffix in others
        ]
        if files:
            items[name] = Item(os.path.join(os.path.abspath(folder), files[0]))
            others -= {os.path.splitext(files[0])[0] + suffix for suffix in SUFFIXES}
    if not items and names:
        expected = ", ".join(files_looked_for(name, names) for name in names)
        raise MissingPath(
            "%s: no file of an input in it" % printable(folder),
            hint="expected %s (or .npz, .pb, .bin)" % expected,
        )
    return items, sorted(others)


def files_looked_for(name: str, names: Sequence[str]) -> str:
    """Return the names of the npy files that are an input's in a folder: ``past.0.key.npy or
    past_0_key.npy``.
    """
    return " or ".join(
        printable(text) + ".npy"
        for text in dict.fromkeys((name, stems_of(names)[name]))
        if os.sep not in text
    )


def parse_shapes(specs: Sequence[str], names: Sequence[str]) -> Dict[str, Shape]:
    """Return the shapes of ``NAME=1,3,224,224`` (``NAME=`` for a scalar).

    Raises
    ------
    UsageError
        One is not of that form, or names no input.
    """
    shapes: Dict[str, Shape] = {}
    for spec in specs:
        name, equals, text = spec.rpartition("=")
        parts: List[str] = re.split("[,x]", text.strip("[]()")) if text else []
        if not equals or not name or not all(part.strip().isdigit() for part in parts):
            hint = "for example `shapes=x=1,3,224,224`"
            raise UsageError("`shapes` %s is not NAME=DIM,DIM…" % printable(spec), hint=hint)
        known_input(name, names, "shapes")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def shown_shape(shape: Optional[Sequence[Dim]]) -> str:
    """Return a declared shape for people, with ``?`` for unknown dims."""
    return (
        "(of unknown rank)"
        if shape is None
        else "[%s]" % ", ".join("?" if dim is None else printable(str(dim)) for dim in shape)
    )


def check_shape(value: OnnxValue, shape: Shape, where: str) -> None:
    """Raise InputError unless a shape (``where`` says whose) is one that the model's input can
    have.
    """
    declared = value.shape
    if declared is None:
        return
    if len(shape) != len(declared) or any(
        isinstance(dim, int) and dim != size for dim, size in zip(declared, shape)
    ):
        message = "%s of input %s is %s, the model expects %s"
        raise InputError(
            message % (where, printable(value.name), list(shape), shown_shape(declared))
        )
