"""Along which axes the outputs of operators can be computed in parts: what stands at an index needs
nothing of other indices there.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

if TYPE_CHECKING:
    from .registry import Node

Shape = Tuple[Optional[int], ...]
"""None: not known."""


class Window(NamedTuple):
    """How an axis of an input goes along with one of the output: what output ``i`` is made of
    begins at ``i * stride - before``.

    Attributes
    ----------
    axis
        Of the input.
    stride, reach, before
        In elements of the input; 1, 1 and 0 where each output is made of the input at its own
        place.
    """

    axis: int
    stride: int = 1
    reach: int = 1
    before: int = 0

    def needed(self, first: int, last: int, count: int, size: int) -> Tuple[int, int]:
        """Return from where to before where outputs ``first`` to before ``last`` of ``count`` need
        an input of ``size`` elements.

        A node computes these elements as if they were all: what it makes at borders where the input
        goes on is not among these outputs. They begin at a multiple of the stride, and are as many
        as all are but for multiples of it: so a padding that depends on the size comes out the
        same.
        """
        begin = max(0, first * self.stride - self.before) // self.stride * self.stride
        end = (last - 1) * self.stride - self.before + self.reach
        end += (size - end + begin) % self.stride
        return begin, size if last == count else min(end, size)


Along = Tuple[Optional[Window], ...]
"""Of each input how it goes along with an axis of the output; None: it is needed whole."""


class Parts(NamedTuple):
    """How the first output of a node can be computed in parts: its shape, as far as it is known,
    and by axis what goes along.
    """

    shape: Shape
    axes: Dict[int, Along]

    def with_windows(self, shape: Shape, windows: Mapping[int, Window], inputs: int) -> Parts:
        """Return the same with an output of this shape, of which further axes go along with the
        first input's; ``inputs``: how many.
        """
        return Parts(
            shape,
            {
                **self.axes,
                **{axis: (window, *(None,) * (inputs - 1)) for axis, window in windows.items()},
            },
        )


Values = Sequence[Optional[Any]]
"""Of each input its value where the model holds it, else None."""

Parting = Callable[["Node", Sequence[Optional[Shape]], Values], Optional[Parts]]
"""Returns how a node can be computed in parts whose inputs have these shapes (None: no such input)
and values; None: in none.
"""


def broadcast(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of functions of each element whose inputs broadcast as numpy's do: along every axis."""
    known_shapes = [shape for shape in shapes if shape is not None]
    if not known_shapes or (0 < node.version < 7 and len(set(known_shapes)) > 1):
        return None
    ndim = max(len(shape) for shape in known_shapes)
    sizes: List[Optional[int]] = []
    axes: Dict[int, Along] = {}
    for axis in range(ndim):
        places = [None if shape is None else axis - ndim + len(shape) for shape in shapes]
        lengths = [
            1 if at is None or at < 0 or shape is None else shape[at]
            for at, shape in zip(places, shapes)
        ]
        larger = [length for length in lengths if length != 1]
        if None in larger or len(set(larger)) > 1:
            sizes.append(None)
            continue
        sizes.append(larger[0] if larger else 1)
        axes[axis] = tuple(
            None if at is None or length == 1 else Window(at) for at, length in zip(places, lengths)
        )
    return Parts(tuple(sizes), axes)


def first(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of functions of each element of the first input with factors for each channel: along all its
    axes but those that may be channels.
    """
    x = shapes[0] if shapes else None
    if (
        x is None
        or int(node.get("axis", 1)) != 1
        or any(shape is not None and len(shape) > 1 for shape in shapes[1:])
    ):
        return None
    return Parts(
        x,
        {axis: _single_axis(axis, shapes) for axis in range(len(x)) if axis not in (1, len(x) - 1)},
    )


def rows(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of what computes each picture of the first input by itself: along the first axis; the output
    has as many axes.
    """
    x = shapes[0] if shapes else None
    return Parts(x[:1] + (None,) * (len(x) - 1), {0: _single_axis(0, shapes)}) if x else None


def connected(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of fully connected layers: along the first axis, which is not multiplied."""
    x = shapes[0] if shapes else None
    return (
        Parts((x[0], None), {0: _single_axis(0, shapes)})
        if x and int(node.get("axis", 1)) == 1
        else None
    )


def planes(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of pooling: along the pictures and, where they stand first, the channels."""
    x = shapes[0] if shapes else None
    if not x or len(x) < 3:
        return None
    ahead = node.dialect in ("onnx", "caffe") or bool(
        node.layouts and node.layouts[0].startswith("NC")
    )
    axes = (0, 1) if ahead else (0,)
    return Parts(
        x[: len(axes)] + (None,) * (len(x) - len(axes)),
        {axis: _single_axis(axis, shapes) for axis in axes},
    )


def filters(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of convolutions: along the pictures, and along the filters [O, C, ...] of ONNX and Caffe."""
    x, w = shapes[0], shapes[1] if len(shapes) > 1 else None
    if (
        not x
        or w is None
        or (node.dialect == "caffe" and len(shapes) != 2 + bool(node.get("bias_term", True)))
    ):
        return None
    axes = {0: _single_axis(0, shapes)}
    shape: Shape = x[:1] + (None,) * (len(x) - 1)
    ordinary = node.type in ("Conv", "Convolution")
    if ordinary:
        shape = x[:1] + w[:1] + (None,) * (len(x) - 2)
    if ordinary and int(node.get("group", 1)) == 1:
        axes[1] = (
            None,
            Window(0),
            *(None if other_shape is None else Window(0) for other_shape in shapes[2:]),
        )
    return Parts(shape, axes)


def products(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of products of matrices: along their rows and columns, and along what they are batches of."""
    x, w = (shapes[0], shapes[1]) if len(shapes) > 1 else (None, None)
    if x is None or w is None or len(x) < 2 or len(w) < 2:
        return None
    turned = [any(node.get(name, 0) for name in names) for names in (_FIRST, _SECOND)]
    lead = broadcast(node, [x[:-2], w[:-2]], ()) if x[:-2] or w[:-2] else Parts((), {})
    if lead is None:
        return None
    ndim = len(lead.shape) + 2
    row, column = len(x) - (1 if turned[0] else 2), len(w) - (2 if turned[1] else 1)
    shape = (*lead.shape, x[row], w[column])
    axes: Dict[int, Along] = {axis: (*along, None) for axis, along in lead.axes.items()}
    axes.update({ndim - 2: (Window(row), None, None), ndim - 1: (None, Window(column), None)})
    if len(shapes) > 2 and shapes[2] is not None:
        # What is added broadcasts.
        added = broadcast(node, [shape, shapes[2]], ())
        axes = {
            axis: (*along[:2], added.axes[axis][1])
            for axis, along in axes.items()
            if added is not None and axis in added.axes
        }
    return Parts(shape, {axis: along[: len(shapes)] for axis, along in axes.items()})


_FIRST = ("transA", "transpose_a", "transpose_x1", "adj_x", "adj_x1")
_SECOND = ("transB", "transpose_b", "transpose_x2", "adj_y", "adj_x2")


def along_all_but(axes_of: Callable[[Node, int], Optional[Sequence[int]]]) -> Parting:
    """Of what computes with all indices of some axes, and leaves the shape as it is: along all
    others; None of ``axes_of``: in none.
    """

    def parted(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
        x = shapes[0] if shapes else None
        excluded = None if x is None else axes_of(node, len(x))
        if x is None or excluded is None:
            return None
        taken = {axis + len(x) if axis < 0 else axis for axis in excluded}
        return Parts(
            x, {axis: _single_axis(axis, shapes) for axis in range(len(x)) if axis not in taken}
        )

    return parted


def along_unchanged_axes(
    axes_of: Callable[[Node, Shape, Values], Optional[Sequence[int]]],
) -> Parting:
    """Of what changes the first input along some axes, whatever their sizes become: along all
    others; None of ``axes_of``: in none.
    """

    def parted(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
        x = shapes[0] if shapes else None
        changed = None if x is None else axes_of(node, x, values)
        if x is None or changed is None:
            return None
        taken = {axis + len(x) if axis < 0 else axis for axis in changed}
        shape = tuple(None if axis in taken else size for axis, size in enumerate(x))
        return Parts(
            shape, {axis: _single_axis(axis, shapes) for axis in range(len(x)) if axis not in taken}
        )

    return parted


def _single_axis(axis: int, shapes: Sequence[Any]) -> Along:
    """Return that the first input goes along, and the others are needed whole."""
    return (Window(axis),) + (None,) * (len(shapes) - 1)
