"""The two tensors of a pair side by side: opened, brought to one layout, read block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import FrozenSet, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import NotComparable, TypeNotComparable
from ..base.notes import note
from ..dumps.golden_set import open_golden
from ..tensors.aligned_blocks import Block, padding_blocks, placed_blocks
from ..tensors.dtypes import nbytes, require_decodable
from ..tensors.geometry import Geometry, is_stored_alike, match_layouts, match_stored
from ..tensors.storage_layouts import plain_letters
from ..tensors.tensor import MemorySource, Tensor
from ..tensors.user_conversions import UserConversions
from .compiled.choice import compiled_kernel
from .numpy_kernel import BLOCK
from .pair_task import PairTask
from .rounding_slack import Slack, rounding_slack
from .slice_squares import SliceAxis
from .worst_slice import slice_axes

Part = Tuple[int, int]

_NAMED = ("NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN")
# Layouts that do not tell which dim is which.
_UNTOLD = ("ND", "RESERVED")


def open_counterpart(task: PairTask, with_padding: bool = False) -> Tuple[Tensor, Optional[int]]:
    """Return a task's golden tensor and its device address; that of a device with another layout
    than the target's, or with padding in the target's own, in its original layout.

    A file's tensor that the target's op reads in another shape is in that shape, unless it fits as
    it is. Raises as :func:`goldwatch.dumps.golden_set.open_golden` and
    :func:`goldwatch.tensors.layout_conversion.plain_tensor`.
    """
    golden, address = open_golden(task.golden)
    if task.reshaped is not None and task.golden.kind != "npu" and _fits_reshaped(task, golden):
        return replace(golden.in_c_order(), shape=task.reshaped, format="ND"), address
    if task.golden.kind != "npu":
        return golden, address
    alike = is_stored_alike(task.target, golden)
    # Padding is equal on both sides: a slice of one element and fifteen times padding is no slice
    # of sixteen, and two values and 254 times padding are two values.
    if alike and (with_padding or not task.as_stored or not _is_padded(task.target)):
        return golden, address
    if task.as_stored:
        return _as_original(task.target, golden), address
    from ..tensors.layout_conversion import plain_tensor

    return plain_tensor(golden, task.origin_format, task.origin_shape), address


def _original_shape(tensor: Tensor) -> Optional[Tuple[int, ...]]:
    """Return a device tensor's shape before the device's layout, as its container states it; that
    of a plain layout is its own.
    """
    if tensor.original_shape is not None:
        return tensor.original_shape
    return tensor.shape if tensor.format in (*_NAMED, *_UNTOLD) else None


def _is_padded(tensor: Tensor) -> bool:
    """Tell whether a device tensor holds more than its container's original shape."""
    shape = tensor.original_shape
    return (
        shape is not None
        and tensor.format not in (*_NAMED, *_UNTOLD)
        and element_count(shape) < tensor.count
    )


def _named_layout(*tensors: Tensor) -> Optional[str]:
    return next((tensor.format for tensor in tensors if tensor.format in _NAMED), None)


def _as_original(target: Tensor, golden: Tensor) -> Tensor:
    """Return a tensor of another build, which is stored in another layout, in its original one,
    where both state the same; else itself.
    """
    shape = _original_shape(target)
    if shape is None or shape != _original_shape(golden):
        return golden
    try:
        from ..tensors.layout_conversion import plain_tensor

        return plain_tensor(golden, _named_layout(target, golden), shape)
    except NotComparable:
        return golden


def _of_two_builds(task: PairTask, golden: Tensor) -> bool:
    """Tell whether two dumps are compared in the original layout, which both containers state: as
    :func:`_as_original` brought them.
    """
    shape = _original_shape(task.target)
    return (
        task.as_stored
        and golden.format in (*_NAMED, *_UNTOLD)
        and shape is not None
        and shape == golden.shape
    )


def _fits_reshaped(task: PairTask, golden: Tensor) -> bool:
    """Tell whether a golden tensor is in the shape in which the network makes it, and the target
    fits only that in which it is read.
    """
    if _without_ones(golden.shape) != _without_ones(task.origin_shape or ()):
        return False
    try:
        match_layouts(task.target, golden.shape, task.origin_format, task.origin_shape, None)
        return False
    except NotComparable:
        return True


def _without_ones(shape: Sequence[int]) -> List[int]:
    return [size for size in shape if size != 1]


def geometry_of(task: PairTask, golden: Tensor) -> Geometry:
    """Return how the task's target is brought to its golden's layout.

    Raises
    ------
    NotComparable
        Types (of two device dumps), layouts or shapes do not agree.
    """
    target = task.target
    if _of_two_builds(task, golden) and not is_stored_alike(target, golden):
        notes = []
        if not _is_padded(target):
            notes.append(note("layouts-of-builds", target.format))
        if target.dtype.name != golden.dtype.name:
            notes.append(note("other-type", target.dtype.name, golden.dtype.name))
            if not target.dtype.kind == golden.dtype.kind == "f":
                raise TypeNotComparable(notes[-1])
        named = _named_layout(golden)
        geometry = match_layouts(target, golden.shape, named, golden.shape, named)
        return replace(geometry, notes=(*geometry.notes, *notes))
    if task.as_stored or (task.golden.kind == "npu" and is_stored_alike(target, golden)):
        differ = note("other-type", target.dtype.name, golden.dtype.name)
        if target.dtype.name == golden.dtype.name:
            return match_stored(target, golden)
        if not target.dtype.kind == golden.dtype.kind == "f":
            raise TypeNotComparable(differ)
        geometry = match_stored(target, golden)
        return replace(geometry, notes=(*geometry.notes, differ))
    golden_format = golden.format if golden.format not in ("ND", "RESERVED") else None
    if task.reshaped is not None and golden.shape == task.reshaped:
        geometry = match_layouts(target, golden.shape, None, golden.shape, None)
        reshaped = note("reshaped", list(task.origin_shape or ()), list(golden.shape))
        return replace(geometry, notes=(*geometry.notes, reshaped))
    return match_layouts(target, golden.shape, task.origin_format, task.origin_shape, golden_format)


def slack_of(task: PairTask, golden: Tensor) -> Slack:
    """Return what rounding alone may change: that of the golden's type and of the coarsest that the
    target's values went through.
    """
    return rounding_slack(task.limited_as or task.target.dtype.name, golden.dtype.name)


def axes_of(task: PairTask, golden: Tensor, geometry: Geometry) -> Tuple[SliceAxis, ...]:
    """Return the axes of the golden along which slices are told apart: its channel axis, else all
    that are longer than 1, as of a final output.
    """
    shape = geometry.shape
    if task.final:
        return slice_axes(shape, None, golden.order, by_own_size=True)
    if "C" in geometry.letters:
        # The golden may lack dims of size 1, so axes are counted by those that are longer.
        place = geometry.letters.index("C")
        if geometry.sizes[place] == 1:
            return slice_axes(shape, None, golden.order)
        before = sum(size != 1 for size in geometry.sizes[:place])
        return slice_axes(
            shape, [axis for axis, size in enumerate(shape) if size != 1][before], golden.order
        )
    name = golden.format if task.as_stored else task.origin_format
    letters = plain_letters(name or "ND", len(shape)) or ()
    return slice_axes(shape, letters.index("C") if "C" in letters else None, golden.order)


def converted(task: PairTask, golden: Tensor, conversions: UserConversions) -> PairTask:
    """Return the task with its target in the golden's layout where the user converts to that; else
    the task itself.

    Raises
    ------
    NotComparable
        The user's conversion cannot be used.
    FormatError
        The target has fewer bytes than its elements need.
    """
    target, choice = task.target, conversions.targets(task.target.format)
    layouts = [name for name in (golden.format, task.origin_format) if name in choice]
    if (
        not layouts
        and golden.format in _UNTOLD
        and task.origin_format in (None, *_UNTOLD)
        and len(choice) == 1
    ):
        layouts = list(choice)
    if task.as_stored or not layouts or target.dtype.name == "complex32":
        return task
    require_decodable(target.dtype)
    target.require_bytes()
    small = target.dtype.bits < 8
    # Units as they are stored, as the convert command hands them to the user's code.
    units = (
        target.array()
        if small
        else np.array(target.source.read(0, nbytes(target.dtype, target.count)))
    )
    if not small:
        units = units.view(np.dtype(target.dtype.storage))
    result = conversions.convert(target.format, layouts[0], target.shape, golden.shape, units)
    if small:
        return replace(task, target=Tensor.from_array(result, layouts[0]))
    whole = replace(
        target,
        shape=golden.shape,
        format=layouts[0],
        source=MemorySource(result),
        sub_format=0,
        original_shape=None,
    )
    return replace(task, target=whole)


def require_zero_padding(task: PairTask, geometry: Geometry) -> None:
    """Make sure that what only the golden's shape tells to be padding is zero.

    Raises
    ------
    NotComparable
        It is not: the target is larger than the golden.
    """
    if geometry.padded is None or all(
        not block.any() for block in padding_blocks(task.target, geometry)
    ):
        return
    sizes = zip(geometry.letters, geometry.sizes, geometry.padded)
    cut = ", ".join(
        "%s %d of %d" % ("dim " * letter.isdigit() + letter, size, padded)
        for letter, size, padded in sizes
        if size < padded
    )
    raise NotComparable(
        "the target is larger than the golden: target %s %s, laid out %s, golden %s; what "
        "would have to be padding (%s) is not zero"
        % (
            task.target.format,
            list(task.target.shape),
            list(geometry.padded),
            list(geometry.shape),
            cut,
        )
    )


def blocks_of(
    task: PairTask,
    golden: Tensor,
    geometry: Geometry,
    borders: FrozenSet[int] = frozenset(),
    part: Part = (0, 1),
    most: int = 0,
    halves: bool = False,
) -> Iterator[Block]:
    """Return the blocks of one share of a pair for the accumulators, small enough; ``borders`` and
    ``most`` as :func:`placed_blocks`.

    ``halves``: as there, where the kernel takes them.
    """
    # Complex numbers count as two.
    size = BLOCK // 2 if "c" in (task.target.dtype.kind, golden.dtype.kind) else BLOCK
    return placed_blocks(
        task.target,
        golden,
        geometry,
        size,
        part,
        borders,
        most,
        halves and compiled_kernel() is not None,
    )
