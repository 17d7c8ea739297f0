"""A layout as an order of storage axes: how a logical shape lies in memory on the device.

Plain layouts (NCHW, NHWC, HWCN, NCDHW …) order whole dims; device ones split some dims into blocks
(C into C1 and C0), pad the last block with zeros and order the parts. C0 is 16 for 16- and 32-bit
types, 32 for 8-bit types, 64 for 4-bit types; N0 and M0 are 16. Forms: the vendor's public
documents of its data layouts.
"""

from __future__ import annotations

from itertools import combinations
from math import gcd
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import FormatError, UsageError
from ..base.fast_dataclasses import dataclass
from .dtypes import Array, DType

Shape = Tuple[int, ...]
Dims = Dict[str, int]
# A storage axis: the letter of its dim, and "" for the whole dim, "1" for the number of the block,
# "0" for the place in the block.
Axis = Tuple[str, str]

CUBE = 16
WHOLE, OUTER, INNER = "", "1", "0"
_LETTERED = ("NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC")
_POSITIONAL = ("ND", "RESERVED", "MD", "NULL", "ALL", "MAX", "NC", "CN", "NCL")
_SPLIT = {
    "NC1HWC0": ("N C1 H W C0", (1, 1, 1, 1, 1)),
    "NC1HWC0_C04": ("N C1 H W C0", (1, 1, 1, 1, 1)),
    "NHWC1C0": ("N H W C1 C0", (1, 1, 1, 1, 1)),
    "NDC1HWC0": ("N D C1 H W C0", (1, 1, 1, 1, 1, 1)),
    "C1HWNC0": ("C1 H W N C0", (1, 1, 1, 1, 1)),
    "FRACTAL_Z": ("C1 H W N1 N0 C0", (3, 1, 1, 1)),
    "FRACTAL_Z_3D": ("D C1 H W N1 N0 C0", (4, 1, 1, 1)),
}


@dataclass(frozen=True)
class Layout:
    """How a tensor's dims lie in storage.

    Attributes
    ----------
    name
        Format name.
    axes
        Storage axes, the outermost first.
    folds
        How many adjacent axes are merged into each dim of the stored shape (FRACTAL_Z: C1, H and W
        into the first).
    blocks
        Block size by letter, for letters that are split.
    groups
        Groups of a FRACTAL_Z filter, 1 for none.
    """

    name: str
    axes: Tuple[Axis, ...]
    folds: Tuple[int, ...]
    blocks: Tuple[Tuple[str, int], ...] = ()
    groups: int = 1

    @property
    def letters(self) -> Tuple[str, ...]:
        """The dims' letters in the order of the plain layout (NCHW for NC1HWC0)."""
        if self.name == "FRACTAL_NZ":
            return tuple(str(index) for index in range(len(self.axes) - 2))
        present = {letter for letter, _ in self.axes}
        return (
            tuple(letter for letter in "NCDHW" if letter in present)
            if self.blocks
            else tuple(letter for letter, _ in self.axes)
        )

    def axis_sizes(self, dims: Dims) -> Shape:
        """Return the size of each storage axis for a logical shape."""
        blocks = dict(self.blocks)
        sizes = []
        for letter, part in self.axes:
            if part == WHOLE:
                sizes.append(dims[letter])
            else:
                sizes.append(
                    blocks[letter] if part == INNER else -(-dims[letter] // blocks[letter])
                )
        return tuple(sizes)

    def stored_shape(self, dims: Dims) -> Shape:
        """Return the device shape of a logical shape."""
        if self.groups > 1:
            return GroupedFilter.of(dims, dict(self.blocks), self.groups).stored_shape
        sizes, shape, at = self.axis_sizes(dims), [], 0
        for fold in self.folds:
            shape.append(element_count(sizes[at : at + fold]))
            at += fold
        return tuple(shape)

    def fits(
        self,
        shape: Sequence[int],
        letters: Sequence[str],
        stored: Sequence[int],
        moved: bool = True,
    ) -> List[Dims]:
        """Return all assignments of a plain shape to ``letters`` whose device shape is ``stored``.

        If a shape of equal rank fits unchanged, that is the only one; otherwise dims of size 1 may
        be removed or added anywhere (for a shape of equal rank only if ``moved``).
        """
        fitting: List[Dims] = []
        for sizes in _expansions(tuple(shape), len(letters), moved):
            dims = dict(zip(letters, sizes))
            if self.groups > 1 and dims["N"] % self.groups:
                continue
            if self.stored_shape(dims) == tuple(stored):
                if sizes == tuple(shape):
                    return [dims]
                fitting.append(dims)
        return fitting


def _expansions(shape: Shape, rank: int, moved: bool) -> Iterator[Shape]:
    """Yield ``shape`` if it has that rank, then all placements of its dims other than 1 among
    ``rank`` dims.
    """
    if len(shape) == rank:
        yield shape
        if not moved:
            return
    core = [size for size in shape if size != 1]
    if len(core) > rank or rank > 8:
        return
    for places in combinations(range(rank), len(core)):
        sizes = [1] * rank
        for place, size in zip(places, core):
            sizes[place] = size
        if tuple(sizes) != shape:
            yield tuple(sizes)


@dataclass(frozen=True)
class GroupedFilter:
    """Sizes of a FRACTAL_Z filter with groups, by GE's public formula.

    The groups are packed ``pack`` at a time as a block diagonal of one FRACTAL_Z of ``pack * cout``
    by ``pack * cin`` channels, padded to whole blocks: ``pack = min(lcm(lcm(cin, C0) / cin,
    lcm(cout, N0) / cout), groups)``; the last pack may hold fewer groups.
    """

    groups: int
    cin: int
    cout: int
    height: int
    width: int
    pack: int
    c0: int
    n0: int

    @classmethod
    def of(cls, dims: Dims, blocks: Dict[str, int], groups: int) -> GroupedFilter:
        """Return the sizes for a filter of ``N`` output channels of all groups and ``C`` input
        channels of one group.

        Raises
        ------
        FormatError
            The groups do not divide the output channels.
        """
        if dims["N"] % groups:
            raise FormatError(
                "a filter with %d output channels cannot have %d groups" % (dims["N"], groups)
            )
        cin, cout, c0, n0 = dims["C"], dims["N"] // groups, blocks["C"], blocks["N"]
        if not cin or not cout:
            return cls(groups, cin, cout, dims["H"], dims["W"], 1, c0, n0)
        pack = min(_lcm(_lcm(cin, c0) // cin, _lcm(cout, n0) // cout), groups)
        return cls(groups, cin, cout, dims["H"], dims["W"], pack, c0, n0)

    @property
    def packs(self) -> int:
        """Number of packs."""
        return -(-self.groups // self.pack)

    @property
    def c1(self) -> int:
        """Input channel blocks of one pack."""
        return -(-self.pack * self.cin // self.c0)

    @property
    def n1(self) -> int:
        """Output channel blocks of one pack."""
        return -(-self.pack * self.cout // self.n0)

    @property
    def stored_shape(self) -> Shape:
        """``[packs * C1 * H * W, N1, N0, C0]``."""
        return self.packs * self.c1 * self.height * self.width, self.n1, self.n0, self.c0


def _lcm(a: int, b: int) -> int:
    return a // gcd(a, b) * b


def plain_letters(format: str, rank: int) -> Optional[Tuple[str, ...]]:
    """Return the dims' letters of a plain layout of that rank: ``("N", "C", "H", "W")``, or ``("0",
    "1")`` where dims have no meaning.

    The same for a lettered layout of another rank (the device marks matrices NCHW). None for device
    layouts.
    """
    if format in _LETTERED:
        return tuple(format) if rank == len(format) else _positions(rank)
    return _positions(rank) if format in _POSITIONAL else None


def _positions(rank: int) -> Tuple[str, ...]:
    return tuple(str(index) for index in range(rank))


def layout_of(format: str, stored: Sequence[int], groups: int = 1) -> Optional[Layout]:
    """Return the layout of a tensor that is stored in that shape; block sizes are read from the
    shape. None for layouts not supported.

    Raises
    ------
    FormatError
        The shape's rank does not fit the layout.
    """
    letters = plain_letters(format, len(stored))
    if letters is not None:
        return Layout(format, tuple((letter, WHOLE) for letter in letters), (1,) * len(letters))
    if format == "FRACTAL_NZ":
        _require_rank(format, stored, 4, True)
        return _fractal_nz(len(stored) - 2, stored[-1], stored[-2])
    if format not in _SPLIT:
        return None
    _require_rank(format, stored, len(_SPLIT[format][1]), False)
    return _split_layout(format, stored[-1], stored[-2], groups)


def _require_rank(format: str, stored: Sequence[int], rank: int, at_least: bool) -> None:
    if len(stored) < rank or (len(stored) != rank and not at_least):
        more = " or more" if at_least else ""
        raise FormatError(
            "layout %s needs %d%s dims, got shape %s" % (format, rank, more, list(stored))
        )
    if stored[-1] < 1 or (format.startswith("FRACTAL") and stored[-2] < 1):
        raise FormatError("layout %s has an empty block in shape %s" % (format, list(stored)))


def _fractal_nz(rank: int, k0: int, m0: int) -> Layout:
    lead = [(str(index), WHOLE) for index in range(rank - 2)]
    m, k = str(rank - 2), str(rank - 1)
    axes = lead + [(k, OUTER), (m, OUTER), (m, INNER), (k, INNER)]
    return Layout("FRACTAL_NZ", tuple(axes), (1,) * len(axes), ((m, m0), (k, k0)))


def _split_layout(format: str, c0: int, n0: int, groups: int) -> Layout:
    text, folds = _SPLIT[format]
    axes = tuple((item[0], item[1:]) for item in text.split())
    blocks = (("C", c0), ("N", n0)) if ("N", INNER) in axes else (("C", c0),)
    return Layout(format, axes, folds, blocks, groups if format == "FRACTAL_Z" else 1)


def default_c0(bits: int) -> int:
    """Return C0 for an element of this many bits: 64 for 4, 32 for 8, else 16."""
    return {4: 64, 8: 32}.get(bits, 16)


def device_layout(format: str, rank: int, c0: int = CUBE, groups: int = 1) -> Optional[Layout]:
    """Return the layout that the device would use for a plain tensor of that rank; None for layouts
    not supported.
    """
    letters = plain_letters(format, rank)
    if letters is not None:
        return Layout(format, tuple((letter, WHOLE) for letter in letters), (1,) * len(letters))
    if format == "FRACTAL_NZ":
        return _fractal_nz(rank, c0, CUBE) if rank >= 2 else None
    return (
        _split_layout(format, 4 if format.endswith("_C04") else c0, CUBE, groups)
        if format in _SPLIT
        else None
    )


def device_shape(
    format: str,
    shape: Sequence[int],
    plain_format: str = "NCHW",
    dtype: Optional[DType] = None,
    groups: int = 1,
) -> Shape:
    """Return the shape in which the device stores a plain tensor.

    Raises
    ------
    UsageError
        The layout is not supported for such a shape.
    """
    layout = device_layout(format, len(shape), default_c0(dtype.bits) if dtype else CUBE, groups)
    letters = plain_letters(plain_format, len(shape))
    if layout is not None and layout.name == "FRACTAL_NZ":
        letters = _positions(len(shape))
    if (
        layout is not None
        and letters is not None
        and letters == _positions(len(shape))
        and len(layout.letters) == len(letters)
    ):
        letters = layout.letters
    if layout is None or letters is None or sorted(letters) != sorted(layout.letters):
        raise UsageError("no layout %s for a tensor %s %s" % (format, plain_format, list(shape)))
    return layout.stored_shape(dict(zip(letters, shape)))


def plain_shape(format: str, shape: Sequence[int]) -> Optional[Shape]:
    """Return the logical shape of a stored tensor: NCHW (NCDHW, a matrix) with padding included.

    None if the stored shape does not determine it (FRACTAL_Z, unsupported layouts).
    """
    layout = layout_of(format, shape)
    dims = None if layout is None else padded_dims(layout, shape)
    return (
        None if layout is None or dims is None else tuple(dims[letter] for letter in layout.letters)
    )


def padded_dims(layout: Layout, stored: Sequence[int]) -> Optional[Dims]:
    """Return the logical dims of a stored shape, padding included; None if they are merged into one
    (FRACTAL_Z).
    """
    if max(layout.folds, default=1) > 1:
        return None
    dims: Dims = {}
    for (letter, _), size in zip(layout.axes, stored):
        dims[letter] = dims.get(letter, 1) * size
    return dims


def pack(plain: Array, letters: Sequence[str], layout: Layout) -> Array:
    """Return a plain array, whose dims are ``letters``, as the device stores it (padding zero)."""
    dims = dict(zip(letters, plain.shape))
    array = plain.transpose([list(letters).index(letter) for letter in layout.letters])
    if layout.groups > 1:
        return _pack_groups(
            array, GroupedFilter.of(dims, dict(layout.blocks), layout.groups), layout.blocks
        )
    return _split(array, layout, dims).reshape(layout.stored_shape(dims))


def unpack(stored: Array, layout: Layout, dims: Dims, letters: Sequence[str]) -> Array:
    """Return a stored array as a plain one whose dims are ``letters``, padding removed; the inverse
    of :func:`pack`.
    """
    if layout.groups > 1:
        plain = _unpack_groups(
            stored, GroupedFilter.of(dims, dict(layout.blocks), layout.groups), layout.blocks
        )
    else:
        plain = _join(stored.reshape(layout.axis_sizes(dims)), layout, dims)
    return np.ascontiguousarray(
        plain.transpose([layout.letters.index(letter) for letter in letters])
    )


def _order(layout: Layout) -> List[int]:
    """Return the position of each storage axis among the split dims (outer and inner part adjacent,
    in the order of the letters).
    """
    split = []
    for letter in layout.letters:
        split += [
            axis
            for axis in ((letter, WHOLE), (letter, OUTER), (letter, INNER))
            if axis in layout.axes
        ]
    return [split.index(axis) for axis in layout.axes]


def _split(array: Array, layout: Layout, dims: Dims) -> Array:
    blocks, padded, shape = dict(layout.blocks), [], []
    for letter in layout.letters:
        block = blocks.get(letter)
        outer = -(-dims[letter] // block) if block else dims[letter]
        padded.append((0, outer * (block or 1) - dims[letter]))
        shape += [outer, block] if block else [outer]
    if any(after for _, after in padded):
        array = np.pad(array, padded, mode="constant")
    return np.ascontiguousarray(array.reshape(shape).transpose(_order(layout)))


def _join(storage: Array, layout: Layout, dims: Dims) -> Array:
    blocks = dict(layout.blocks)
    order = _order(layout)
    split = storage.transpose([order.index(index) for index in range(len(order))])
    shape = [
        -(-dims[letter] // blocks.get(letter, 1)) * blocks.get(letter, 1)
        for letter in layout.letters
    ]
    return split.reshape(shape)[tuple(slice(dims[letter]) for letter in layout.letters)]


def _pack_layout(sizes: GroupedFilter, blocks: Tuple[Tuple[str, int], ...]) -> Tuple[Layout, Dims]:
    """Return the layout of all packs: FRACTAL_Z with the pack number as outermost axis, letter
    D."""
    axes = (("D", WHOLE),) + _split_layout("FRACTAL_Z", sizes.c0, sizes.n0, 1).axes
    dims = {
        "N": sizes.pack * sizes.cout,
        "C": sizes.pack * sizes.cin,
        "D": sizes.packs,
        "H": sizes.height,
        "W": sizes.width,
    }
    return Layout("FRACTAL_Z_3D", axes, (4, 1, 1, 1), blocks), dims


def _pack_groups(array: Array, sizes: GroupedFilter, blocks: Tuple[Tuple[str, int], ...]) -> Array:
    layout, dims = _pack_layout(sizes, blocks)
    groups = array.reshape((sizes.groups, sizes.cout, sizes.cin, sizes.height, sizes.width))
    diagonal = np.zeros([dims[letter] for letter in "DNCHW"], array.dtype)
    for place in range(sizes.pack):
        part = groups[place :: sizes.pack]
        rows, columns = _diagonal(sizes, place)
        diagonal[: len(part), rows, columns] = part
    return _split(diagonal.transpose(1, 2, 0, 3, 4), layout, dims).reshape(sizes.stored_shape)


def _unpack_groups(
    stored: Array, sizes: GroupedFilter, blocks: Tuple[Tuple[str, int], ...]
) -> Array:
    layout, dims = _pack_layout(sizes, blocks)
    diagonal = _join(stored.reshape(layout.axis_sizes(dims)), layout, dims).transpose(2, 0, 1, 3, 4)
    groups = np.empty(
        (sizes.groups, sizes.cout, sizes.cin, sizes.height, sizes.width), stored.dtype
    )
    for place in range(sizes.pack):
        rows, columns = _diagonal(sizes, place)
        groups[place :: sizes.pack] = diagonal[: len(groups[place :: sizes.pack]), rows, columns]
    return groups.reshape((sizes.groups * sizes.cout, sizes.cin, sizes.height, sizes.width))


def _diagonal(sizes: GroupedFilter, place: int) -> Tuple[slice, slice]:
    """Return the output and input channel ranges of the group at ``place`` in its pack."""
    rows = slice(place * sizes.cout, (place + 1) * sizes.cout)
    return rows, slice(place * sizes.cin, (place + 1) * sizes.cin)


_NAMES = (
    "NCHW NHWC ND NC1HWC0 FRACTAL_Z NC1C0HWPAD NHWC1C0 FSR_NCHW FRACTAL_DECONV C1HWNC0 "
    "FRACTAL_DECONV_TRANSPOSE "
    "FRACTAL_DECONV_SP_STRIDE_TRANS NC1HWC0_C04 FRACTAL_Z_C04 CHWN DECONV_SP_STRIDE8_TRANS "
    "HWCN NC1KHKWHWC0 BN_WEIGHT "
    "FILTER_HWCK LOOKUP_LOOKUPS LOOKUP_KEYS LOOKUP_VALUE LOOKUP_OUTPUT LOOKUP_HITS C1HWNCoC0 "
    "MD NDHWC FRACTAL_ZZ FRACTAL_NZ "
    "NCDHW DHWCN NDC1HWC0 FRACTAL_Z_3D CN NC DHWNC FRACTAL_Z_3D_TRANSPOSE FRACTAL_ZN_LSTM "
    "FRACTAL_Z_G RESERVED ALL NULL "
    "ND_RNN_BIAS FRACTAL_ZN_RNN YUV YUV_A NCL FRACTAL_Z_WINO C1HWC0"
).split()

FORMATS: Dict[int, str] = dict(enumerate(_NAMES))
FORMATS[255] = "MAX"
_CODES: Dict[str, int] = {name: code for code, name in FORMATS.items()}
_CODES_ANY_CASE: Dict[str, int] = {name.upper(): code for name, code in _CODES.items()}


def format_name(code: int) -> str:
    """Return the layout's name; never raises, an unknown code gives ``unknown(77)``.

    Some writers store GE's whole format word: the layout in bits 0 to 7, the sub format in bits 8
    to 23, C0 above. Only the layout is used here.
    """
    low = code & 0xFF
    return FORMATS.get(low) or "unknown(%d)" % code


def split_format(code: int, sub_format: int = 0) -> Tuple[str, int]:
    """Return the layout's name and the sub format (the groups of a FRACTAL_Z filter).

    The sub format is the container's field if set, else bits 8 to 23 of the format word.
    """
    return format_name(code), sub_format or (code >> 8) & 0xFFFF


def format_code(name: str) -> Optional[int]:
    """Return the code of a layout name (any case), or None when there is no such layout."""
    return _CODES_ANY_CASE.get(name.upper())
