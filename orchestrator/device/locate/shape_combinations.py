"""The shapes of a dynamic model's inputs that are to be tried: ``x:1,3,200~224~8,224-230;y:4``."""

from __future__ import annotations

import itertools
import re
from typing import Dict, List, Sequence, Tuple

from ...base.errors import UsageError
from ...base.naming import printable

Shape = Tuple[int, ...]
Shapes = Dict[str, Shape]
MOST = 1000
"""More combinations than these are a slip."""

_EXAMPLE = "for example x:1,3,200~224~8,224-230;y:4: 200 to 224 in steps of 8, and 224 or 230"


def parse_shapes(text: str) -> List[Shapes]:
    """Return the combinations that a text asks for: of each dim a number, a range ``A~B`` or
    ``A~B~STEP``, or numbers ``A-B-C``.

    Raises
    ------
    UsageError
        It is of another form, or asks for more than :data:`MOST`.
    """
    names: List[str] = []
    dims: List[List[int]] = []
    counts: List[int] = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, sizes = entry.rpartition(":")
        if not colon or not name:
            raise UsageError(
                "--shapes %s: expected NAME:DIM,DIM…" % printable(entry), hint=_EXAMPLE
            )
        if name in names:
            raise UsageError("--shapes names %s twice" % printable(name), hint=_EXAMPLE)
        chosen = [_sizes(dim.strip(), entry) for dim in sizes.split(",")] if sizes else []
        names.append(name)
        counts.append(len(chosen))
        dims += chosen
    if not names:
        raise UsageError("--shapes is empty", hint=_EXAMPLE)
    total = 1
    for choices in dims:
        total *= len(choices)
    if total > MOST:
        raise UsageError(
            "--shapes asks for %d combinations, at most %d can be run" % (total, MOST),
            hint="take a larger step",
        )
    return [_split(names, counts, sizes) for sizes in itertools.product(*dims)]


def _split(names: Sequence[str], counts: Sequence[int], sizes: Sequence[int]) -> Shapes:
    rest = iter(sizes)
    return {name: tuple(itertools.islice(rest, count)) for name, count in zip(names, counts)}


def _sizes(text: str, entry: str) -> List[int]:
    ranged = re.match(r"(\d+)~(\d+)(?:~(\d+))?\Z", text)
    if ranged is not None:
        first, last, step = int(ranged.group(1)), int(ranged.group(2)), int(ranged.group(3) or 1)
        if step and first <= last:
            sizes = range(first, last + 1, step)
            if len(sizes) > MOST:
                raise UsageError(
                    "--shapes %s: %s is %d sizes, at most %d can be run"
                    % (printable(entry), text, len(sizes), MOST)
                )
            return list(sizes)
    if re.match(r"\d+(?:-\d+)*\Z", text):
        return list(dict.fromkeys(int(part) for part in text.split("-")))
    raise UsageError(
        "--shapes %s: %s is no size" % (printable(entry), printable(text) or "''"), hint=_EXAMPLE
    )


def shapes_text(shapes: Shapes) -> str:
    """Return one combination in the form in which it is given."""
    return ";".join("%s:%s" % (name, ",".join(map(str, shape))) for name, shape in shapes.items())


def folder_name(shapes: Shapes) -> str:
    """Return what the folder of a combination is called: its sizes."""
    return "_".join("x".join(map(str, shape)) or "scalar" for shape in shapes.values())[:200]
