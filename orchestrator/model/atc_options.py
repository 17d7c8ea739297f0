"""Parses the atc command line that made an om: its options and its dynamic inputs.

Source: the vendor's public description of atc's options; an om's json has the command as its
attribute ``atc_cmdline``.
"""

from __future__ import annotations

import re
import shlex
from types import MappingProxyType
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

BATCH, IMAGE_SIZE, DIMS, SHAPE = "batch", "image size", "dims", "shape"
"""Kinds of dynamic inputs. The first three have gears; SHAPE allows any size within its range.
"""

Shape = Tuple[int, ...]


class Dynamic(NamedTuple):
    """The dynamic inputs of an om.

    Attributes
    ----------
    kind
        :data:`BATCH`, :data:`IMAGE_SIZE`, :data:`DIMS` or :data:`SHAPE`.
    shapes
        By input name; -1 for a dynamic dim.
    gears
        The sizes of each gear: (batch,), (height, width), or one size for each -1 in the order of
        the inputs. Empty for SHAPE.
    ranges
        For SHAPE: by input name, (smallest, largest) of each dim; None if not given, largest -1 if
        unbounded.
    """

    kind: str
    shapes: Dict[str, Shape]
    gears: Tuple[Tuple[int, ...], ...] = ()
    ranges: Mapping[str, Tuple[Optional[Tuple[int, int]], ...]] = MappingProxyType({})

    def problem(self, shapes: Mapping[str, Shape]) -> str:
        """Return why the om cannot run on inputs of these shapes; empty where it can.

        Parameters
        ----------
        shapes
            By input; those of fixed shape may be left out.
        """
        for name, declared in self.shapes.items():
            shape = tuple(shapes.get(name, declared))
            text = "input %s of shape %s: the om wants %s" % (name, _text(shape), _text(declared))
            if len(shape) != len(declared) or any(
                dim != known and known >= 0 for dim, known in zip(shape, declared)
            ):
                return text
            if any(dim < 0 for dim in shape):
                return "the shape of input %s, %s, is told when the om runs" % (
                    name,
                    _text(declared),
                )
            for dim, limits in zip(shape, self.ranges.get(name, ())):
                if limits is not None and (dim < limits[0] or dim > limits[1] >= 0):
                    return (
                        "input %s of shape %s: %d is not within %d~%d, for which the om was made"
                        % (name, _text(shape), dim, *limits)
                    )
        if self.kind != SHAPE and self.gear_of(shapes) is None:
            known = "; ".join(_text(gear) for gear in self.gears)
            requested = ";".join(
                "%s:%s" % (name, _text(tuple(shapes.get(name, declared))))
                for name, declared in self.shapes.items()
            )
            return "the om has no gear of %s for the shapes %s; its gears: %s" % (
                self.kind,
                requested,
                known,
            )
        return ""

    def example(self) -> str:
        """Return shapes that the om has, as ``x:1,3,8,8;m:1,8``: those of its first gear, or the
        smallest of each range.
        """
        shapes = (
            self.shapes_in_gear(self.gears[0])
            if self.gears
            else {
                name: tuple(
                    max(1, limits[0]) if dim < 0 and limits is not None else max(1, dim)
                    for dim, limits in zip(shape, self.ranges.get(name, (None,) * len(shape)))
                )
                for name, shape in self.shapes.items()
            }
        )
        return ";".join("%s:%s" % (name, _text(shape)) for name, shape in shapes.items())

    def gear_of(self, shapes: Mapping[str, Shape]) -> Optional[Tuple[int, ...]]:
        """Return the gear that gives the inputs these shapes; None where none does.

        Parameters
        ----------
        shapes
            By input; those of fixed shape may be left out.
        """
        for gear in self.gears:
            if all(
                shape == tuple(shapes.get(name, shape))
                for name, shape in self.shapes_in_gear(gear).items()
            ):
                return gear
        return None

    def shapes_in_gear(self, gear: Tuple[int, ...]) -> Dict[str, Shape]:
        """Return the shapes of all inputs in a gear."""
        shapes: Dict[str, Shape] = {}
        rest = list(gear)
        for name, shape in self.shapes.items():
            if self.kind == DIMS:
                shapes[name] = tuple(rest.pop(0) if dim < 0 else dim for dim in shape)
            elif self.kind == BATCH:
                shapes[name] = tuple(gear[0] if dim < 0 else dim for dim in shape)
            else:
                sizes = list(gear)
                shapes[name] = tuple(sizes.pop(0) if dim < 0 and sizes else dim for dim in shape)
        return shapes


def atc_options(command: str) -> Dict[str, str]:
    """Return the options of an atc command, without their dashes: ``{"model": "m.onnx",
    "framework": "5"}``.

    The om holds the command without the shell's quotes, so a value extends to the next option.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    options: Dict[str, str] = {}
    name: Optional[str] = None
    for word in words:
        match = re.match(r"--?([A-Za-z]\w*)(?:=(.*))?\Z", word, re.DOTALL)
        if match is not None:
            name = match.group(1)
            options[name] = match.group(2) or ""
        elif name is not None:
            options[name] = (options[name] + " " + word).strip()
    return options


def shapes_from_option(text: str) -> Dict[str, Shape]:
    """Return the shapes of ``--input_shape``: ``x:1,3,-1,-1;y:1``. A range ``1~8``
    (``--input_shape_range``) counts as -1.
    """
    return {
        name: tuple(-1 if "~" in dim else int(dim) for dim in dims)
        for name, dims in _entries(text).items()
    }


def _entries(text: str) -> Dict[str, List[str]]:
    entries: Dict[str, List[str]] = {}
    for entry in text.split(";"):
        name, colon, dims = entry.strip().rpartition(":")
        numbers = [dim.strip() for dim in dims.strip("[]\\ ").split(",") if dim.strip()]
        if colon and name and all(re.match(r"-?\d+(?:~-?\d+)?\Z", dim) for dim in numbers):
            entries[name.strip("\"'")] = numbers
    return entries


def dynamic_of(command: str) -> Optional[Dynamic]:
    """Return the dynamic inputs of an om; None if all shapes are fixed or the command has none.

    Parameters
    ----------
    command
        The attribute ``atc_cmdline`` of the om.
    """
    options = {name: value.strip("\"'") for name, value in atc_options(command).items()}
    texts = ";".join(options.get(name, "") for name in ("input_shape", "input_shape_range"))
    shapes = shapes_from_option(texts)
    for kind, name in (
        (BATCH, "dynamic_batch_size"),
        (IMAGE_SIZE, "dynamic_image_size"),
        (DIMS, "dynamic_dims"),
    ):
        if options.get(name):
            return Dynamic(kind, shapes, tuple(_gears(options[name], kind == BATCH)))
    if any(dim < 0 for shape in shapes.values() for dim in shape):
        return Dynamic(
            SHAPE, shapes, (), {name: _limits(entry) for name, entry in _entries(texts).items()}
        )
    return None


def _text(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape))


def _limits(dims: Sequence[str]) -> Tuple[Optional[Tuple[int, int]], ...]:
    limits: List[Optional[Tuple[int, int]]] = []
    for dim in dims:
        low, sign, high = dim.partition("~")
        limits.append((int(low), int(high)) if sign else None)
    return tuple(limits)


def _gears(text: str, single: bool) -> List[Tuple[int, ...]]:
    parts = text.split("," if single else ";")
    return [
        tuple(int(number) for number in re.findall(r"\d+", part))
        for part in parts
        if re.search(r"\d", part)
    ]


def atc_inputs(command: str) -> Tuple[Dict[str, Shape], Tuple[str, ...]]:
    """Return what atc's command line says about the inputs: the shapes by input name, only those
    whose dims are all fixed, and the names of the inputs that are read as float16
    (``--input_fp16_nodes``).
    """
    options = {name: value.strip("\"'") for name, value in atc_options(command).items()}
    shapes = {
        name: shape
        for name, shape in shapes_from_option(options.get("input_shape", "")).items()
        if all(dim >= 0 for dim in shape)
    }
    halves = options.get("input_fp16_nodes", "").split(";")
    return shapes, tuple(name for name in halves if name)
