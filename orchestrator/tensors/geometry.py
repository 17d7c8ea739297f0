"""Maps each element of the target to an element of the golden, by the target's layout and the
golden's shape.

A golden npy has a shape and no layout; the layout is the model's origin format, or is inferred from
the shape. Dims of size 1 may be missing or added. Any other difference makes the pair not
comparable; only the device's padding is removed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from ..base.element_types import element_count
from ..base.errors import FormatError, NotComparable
from ..base.fast_dataclasses import dataclass
from ..base.notes import Note, note
from .storage_layouts import Dims, Layout, layout_of, padded_dims, plain_letters
from .tensor import Tensor

Shape = Tuple[int, ...]

_FAMILIES = (("NCHW", "NHWC", "HWCN"), ("NCDHW", "NDHWC", "DHWCN"))


@dataclass(frozen=True)
class Geometry:
    """How a target corresponds to its golden.

    Attributes
    ----------
    shape
        The golden's shape.
    layout
        The target's layout.
    letters, sizes
        The dims in the golden's order, the outermost first, and their sizes; apart from dims of
        size 1 this is :attr:`shape`.
    notes
        Notes for the row: squeezed dims, a layout that was guessed.
    padded
        If only the golden's shape determines the padding: the sizes with padding, in the order of
        :attr:`letters`; the padding must be zero. Else None.
    """

    shape: Shape
    layout: Layout
    letters: Tuple[str, ...]
    sizes: Shape
    notes: Tuple[Note, ...] = ()
    padded: Optional[Shape] = None

    @property
    def count(self) -> int:
        """Elements to compare, padding excluded."""
        return element_count(self.sizes)

    @property
    def dims(self) -> Dims:
        """Sizes by letter."""
        return dict(zip(self.letters, self.sizes))


def match_layouts(
    target: Tensor,
    golden_shape: Sequence[int],
    origin_format: Optional[str] = None,
    origin_shape: Optional[Sequence[int]] = None,
    golden_format: Optional[str] = None,
) -> Geometry:
    """Determine how the target corresponds to a golden of that shape.

    Parameters
    ----------
    origin_format, origin_shape
        Of the tensor before the compiler chose a device layout, from the om json; None if unknown.
        For a shape with negative (dynamic) dims the container's ``original_shape`` is used.
    golden_format
        The golden's layout if known (goldens in a dump container); overrides the origin format.

    Raises
    ------
    NotComparable
        The layout is not supported, or the shapes do not agree; the message names the stored shape,
        the laid-out one and the golden's.
    """
    stored = Stored(target.format, target.shape, target.sub_format, target.original_shape)
    return _matched(
        stored,
        tuple(golden_shape),
        origin_format,
        None if origin_shape is None else tuple(origin_shape),
        golden_format,
    )


class Stored(NamedTuple):
    """The hashable properties of a target that determine its geometry, named as in
    :class:`goldwatch.tensors.tensor.Tensor`.
    """

    format: str
    shape: Shape
    sub_format: int
    original_shape: Optional[Shape]


@lru_cache(maxsize=1024)
def _matched(
    target: Stored,
    golden: Shape,
    origin_format: Optional[str],
    origin_shape: Optional[Shape],
    golden_format: Optional[str],
) -> Geometry:
    """:func:`match_layouts`, cached: a network has few shapes and many tensors."""
    try:
        layout = layout_of(
            target.format,
            target.shape,
            max(1, target.sub_format) if target.format == "FRACTAL_Z" else 1,
        )
    except FormatError as error:
        raise NotComparable("target: %s" % error.message) from error
    matcher = None
    if layout is not None:
        matcher = _Matcher(target, layout, golden, origin_format, golden_format)
    if layout is None or matcher is None or not matcher.formats:
        raise NotComparable(
            "target layout %s %s is not supported; golden %s"
            % (target.format, list(target.shape), list(golden))
        )
    if (
        target.shape == golden
        and not layout.blocks
        and _in_place(layout, origin_format, golden_format)
    ):
        return Geometry(golden, layout, layout.letters, golden)
    return matcher.match(origin_shape)


def match_stored(target: Tensor, golden: Tensor) -> Geometry:
    """Return the geometry of two device tensors as stored, padding included (NPU against NPU).

    Raises
    ------
    NotComparable
        Layouts or stored shapes differ.
    """
    if not is_stored_alike(target, golden):
        raise NotComparable("layouts differ: %s against %s" % (_stored(target), _stored(golden)))
    letters = tuple(str(index) for index in range(len(target.shape)))
    layout = Layout("ND", tuple((letter, "") for letter in letters), (1,) * len(letters))
    return Geometry(golden.shape, layout, letters, golden.shape)


def is_stored_alike(target: Tensor, golden: Tensor) -> bool:
    """Return whether two device tensors have the same layout and stored shape."""
    return (target.format, target.shape, max(1, target.sub_format)) == (
        golden.format,
        golden.shape,
        max(1, golden.sub_format),
    )


def _stored(tensor: Union[Stored, Tensor]) -> str:
    groups = " with %d groups" % tensor.sub_format if tensor.sub_format > 1 else ""
    return "%s %s%s" % (tensor.format, list(tensor.shape), groups)


def _in_place(layout: Layout, origin_format: Optional[str], golden_format: Optional[str]) -> bool:
    """Return whether a golden of the target's shape must be in the target's layout."""
    target_format = golden_format or origin_format
    if layout.letters[:1] == ("0",) or not layout.letters:
        return True
    return (
        target_format is None
        or target_format == layout.name
        or sorted(target_format) != sorted(layout.name)
    )


# The golden's layout, the letters of its dims, their sizes.
_Reading = Tuple[str, Tuple[str, ...], Dims]


class _Matcher:
    """Searches the assignment of the golden's dims that the target's layout allows."""

    def __init__(
        self,
        target: Stored,
        layout: Layout,
        golden: Shape,
        origin_format: Optional[str],
        golden_format: Optional[str],
    ) -> None:
        self.target = target
        self.layout = layout
        self.golden = golden
        self.origin_format = origin_format
        self.notes: List[Note] = []
        stated = [
            name
            for name in (golden_format, origin_format)
            if name and sorted(name) == sorted("".join(layout.letters))
        ]
        positional = layout.letters[:1] == ("0",) or not layout.letters
        family = [
            name for names in _FAMILIES for name in names if sorted(name) == sorted(layout.letters)
        ]
        as_dumped = [layout.name] if not layout.blocks and not stated else []
        self.formats = ["ND"] if positional else list(dict.fromkeys(stated + as_dumped + family))

    def match(self, origin_shape: Optional[Sequence[int]]) -> Geometry:
        """Return the geometry, or raise NotComparable."""
        exact = self._origin(origin_shape)
        readings = self._assignments(exact, False) or self._assignments(exact, True)
        if readings:
            return self._geometry(readings, exact is not None)
        for other in (self._permuted_nd(), self._flattened(origin_shape)):
            if other is not None:
                return other
        raise NotComparable(self._mismatch("differs in shape", exact))

    def _assignments(self, exact: Optional[Dims], squeezed: bool) -> List[_Reading]:
        """Return one assignment of the golden's dims for each layout that allows it, unchanged or
        with dims of size 1 moved.
        """
        all_readings: List[_Reading] = []
        for name in self.formats:
            letters = self._letters(name)
            if len(letters) != len(self.golden) and not squeezed:
                continue
            # Dims of size 1 move only if the dims are known: the stored shape may fit by chance.
            moved = squeezed and (exact is not None or not self.layout.blocks)
            readings = self.layout.fits(self.golden, letters, self.target.shape, moved)
            if exact is not None:
                readings = [dims for dims in readings if dims == exact]
            if squeezed and len({_order(letters, dims) for dims in readings}) > 1:
                raise NotComparable(self._mismatch("is ambiguous", exact))
            all_readings += [(name, letters, dims) for dims in readings[:1]]
            if all_readings and (exact is not None or all_readings[0][0] == self.origin_format):
                break
        return all_readings

    def _letters(self, name: str) -> Tuple[str, ...]:
        return self.layout.letters if name == "ND" else tuple(name)

    def _geometry(self, readings: List[_Reading], exact: bool) -> Geometry:
        name, letters, dims = readings[0]
        known = name == self.origin_format or name == "ND"
        if not known and self.origin_format in self.formats:
            self.notes.append(note("other-golden-layout", name, self.origin_format))
        elif (
            not known
            and any(
                _order(other, sizes) != _order(letters, dims) for _, other, sizes in readings[1:]
            )
            and self.layout.name != name
        ):
            self.notes.append(note("ambiguous-layout", name))
        sizes = tuple(dims[letter] for letter in letters)
        if sizes != self.golden:
            self.notes.append(note("moved-dims", list(sizes), list(self.golden)))
        padded = self._note_padding(letters, dims) if not exact and self.layout.blocks else None
        return Geometry(self.golden, self.layout, letters, sizes, tuple(self.notes), padded)

    def _note_padding(self, letters: Tuple[str, ...], dims: Dims) -> Optional[Shape]:
        """Note padding that only the golden's shape implies (a larger target looks the same);
        return the sizes with it.
        """
        padded = padded_dims(self.layout, self.target.shape) or {}
        cut = [letter for letter, size in dims.items() if size < padded.get(letter, size)]
        if cut:
            text = ", ".join(
                "%s %d of %d" % ("dim " * letter.isdigit() + letter, dims[letter], padded[letter])
                for letter in cut
            )
            self.notes.append(note("assumed-padding", text))
        return (
            tuple(padded.get(letter, dims[letter]) for letter in letters)
            if cut and self.layout.groups == 1
            else None
        )

    def _origin(self, origin_shape: Optional[Sequence[int]]) -> Optional[Dims]:
        """Return the dims from the json or the container if they agree with the stored shape; where
        dims of size 1 of the one leave several, the other decides.
        """
        doubtful: List[Dims] = []
        for what, shape in (
            ("origin shape", origin_shape),
            ("original shape", self.target.original_shape),
        ):
            if shape is None or any(size < 0 for size in shape):
                continue
            for name in sorted(self.formats, key=lambda name: name != self.origin_format):
                readings = self.layout.fits(shape, self._letters(name), self.target.shape, False)
                if doubtful:
                    readings = [dims for dims in readings if dims in doubtful]
                if len(readings) == 1:
                    return readings[0]
                if readings:
                    # First the matrix [N, C·H·W] of a fully connected op that reads [N, C, H, W].
                    flat = self._flat_matrix(shape)
                    doubtful = sorted(readings, key=lambda dims: dims != flat)
                    break
            if shape and self._flat_matrix(shape) is None and self.layout.blocks:
                self.notes.append(note("unused-shape", what, list(shape), _stored(self.target)))
        return doubtful[0] if doubtful else None

    def _permuted_nd(self) -> Optional[Geometry]:
        """Return the geometry of an ND target with an origin format and a golden in another
        order."""
        format = self.origin_format
        if (
            self.formats != ["ND"]
            or self.layout.blocks
            or not format
            or not any(format in names for names in _FAMILIES)
        ):
            return None
        letters = plain_letters(format, len(self.target.shape))
        if letters != tuple(format):
            return None
        layout = Layout(format, tuple((letter, "") for letter in letters), (1,) * len(letters))
        other = _Matcher(self.target, layout, self.golden, format, None)
        try:
            return other.match(None)
        except NotComparable:
            return None

    def _flat_matrix(self, shape: Optional[Sequence[int]]) -> Optional[Dims]:
        """Return the matrix [N, C·H·W] of a fully connected op's [N, C, H, W], if the stored
        FRACTAL_NZ is that.
        """
        if (
            self.layout.name != "FRACTAL_NZ"
            or len(self.layout.letters) != 2
            or shape is None
            or len(shape) != 4
        ):
            return None
        readings = self.layout.fits(
            (shape[0], shape[1] * shape[2] * shape[3]), self.layout.letters, self.target.shape
        )
        return readings[0] if readings else None

    def _flattened(self, origin_shape: Optional[Sequence[int]]) -> Optional[Geometry]:
        shape = origin_shape if origin_shape is not None else self.target.original_shape
        dims = self._flat_matrix(shape)
        if (
            dims is None
            or shape is None
            or [size for size in shape if size != 1] != [size for size in self.golden if size != 1]
        ):
            return None
        sizes = tuple(dims[letter] for letter in self.layout.letters)
        notes = (note("flattened-matrix", list(sizes), list(self.golden)),)
        return Geometry(self.golden, self.layout, self.layout.letters, sizes, notes)

    def _mismatch(self, what: str, exact: Optional[Dims]) -> str:
        """Return the reason with the stored, the laid-out and the golden's shape."""
        dims = exact or padded_dims(self.layout, self.target.shape)
        laid_out = ""
        count = 0
        if dims is not None:
            name = self.formats[0]
            sizes = [dims[letter] for letter in self._letters(name)]
            padded = "" if exact is not None or not self.layout.blocks else " with padding"
            laid_out = (
                ", laid out %s %s%s" % (name, sizes, padded)
                if self.layout.blocks or sizes != list(self.target.shape)
                else ""
            )
            count = element_count(sizes)
        same = (
            " (same number of elements in another shape)"
            if count and count == element_count(self.golden)
            else ""
        )
        notes = "; " + "; ".join(self.notes) if self.notes else ""
        return "golden %s: target %s%s, golden %s%s%s" % (
            what,
            _stored(self.target),
            laid_out,
            list(self.golden),
            same,
            notes,
        )


def _order(letters: Tuple[str, ...], dims: Dims) -> Tuple[Tuple[str, int], ...]:
    """Return the dims that are not 1: assignments that differ only in the position of a 1 address
    the same elements, unless a dim is renamed.
    """
    return tuple((letter, dims[letter]) for letter in letters if dims[letter] != 1)


def moved_axes(shape: Sequence[int], golden: Sequence[int]) -> Optional[Tuple[int, ...]]:
    """Return the order of axes in which a plain tensor has the golden's shape where it has its
    channels last and golden first, or the reverse (NHWC, NCHW); None where it fits as it is, or not
    in this way either.
    """
    axes = tuple(range(len(shape)))
    if len(shape) < 3 or tuple(shape) == tuple(golden):
        return None
    orders = ((0, axes[-1], *axes[1:-1]), (0, *axes[2:], 1))
    fitting = (order for order in orders if tuple(shape[axis] for axis in order) == tuple(golden))
    return next(fitting, None)


MOVED_AXES = "its axes %s are in another order than golden's %s, to which they were moved"
"""Said of a tensor whose axes were moved: its shape, and golden's."""
