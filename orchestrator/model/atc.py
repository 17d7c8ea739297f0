"""What the command that made an om says of its inputs: their shapes, and which of them are read as float16.

Source: the vendor's public description of atc's options ``--input_shape`` and ``--input_fp16_nodes``.
"""

from __future__ import annotations

import re
from typing import Dict, NamedTuple, Tuple

_SHAPES = re.compile(r"""\binput_shape(?:=|\s+)(?P<quote>["']?)(?P<text>[^"'\s]+)(?P=quote)""")
_HALVES = re.compile(r"""\binput_fp16_nodes(?:=|\s+)(?P<quote>["']?)(?P<text>[^"'\s]+)(?P=quote)""")


class AtcInputs(NamedTuple):
    """The inputs as atc was told of them.

    Attributes
    ----------
    shapes
        By input; only those whose dims are all fixed.
    halves
        Those that are read as float16.
    """

    shapes: Dict[str, Tuple[int, ...]]
    halves: Tuple[str, ...]


def atc_inputs(command: str) -> AtcInputs:
    """Return what atc's command line (the attribute ``atc_cmdline`` of an om) says; nothing where it does not."""
    shapes: Dict[str, Tuple[int, ...]] = {}
    match = _SHAPES.search(command)
    for entry in match.group("text").split(";") if match is not None else ():
        name, colon, text = entry.rpartition(":")
        dims = text.split(",") if text else []
        if colon and all(dim.isdigit() for dim in dims):
            shapes[name] = tuple(int(dim) for dim in dims)
    match = _HALVES.search(command)
    halves = match.group("text").split(";") if match is not None else []
    return AtcInputs(shapes, tuple(name for name in halves if name))
