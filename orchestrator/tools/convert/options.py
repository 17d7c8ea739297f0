"""The options of a conversion, checked before any file is opened."""

from __future__ import annotations

from typing import Optional, Tuple

from ...base.errors import UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names
from ...tensors.dtypes import DType, dtype_by_name
from ...tensors.storage_layouts import FORMATS, format_code, format_name

ORIGINAL = "original"
NPY, BIN, TXT = "npy", "bin", "txt"
PB, QUANT, DUMP = "pb", "quant", "dump"
FORMS = (NPY, BIN, TXT, PB, QUANT, DUMP)
CONTAINERS = (PB, QUANT, DUMP)


@dataclass(frozen=True)
class ConvertOptions:
    """What files become; picklable.

    Attributes
    ----------
    form
        ``npy``, ``bin`` (raw elements), ``txt`` (one element a line), ``pb`` and ``quant`` (golden
        data in the dump container), ``dump`` (a device's file).
    layout
        To bring tensors to: a layout name, ``original`` (the shape and layout before the device's,
        without padding), or None to keep.
    from_layout
        The layout of npy files; None for ``ND``.
    shape
        The shape in ``layout``; None: inferred.
    dtype
        The element type to convert to; None to keep.
    input_index, output_index
        Only this input or output of a dump; None for all (both None), or for none of that kind.
    custom
        Folder with the user's own ``format_convert/convert_A_to_B.py``.
    op_type, op_name
        Of a ``dump`` file to be written.
    """

    form: str = NPY
    layout: Optional[str] = None
    from_layout: Optional[str] = None
    shape: Optional[Tuple[int, ...]] = None
    dtype: Optional[DType] = None
    input_index: Optional[int] = None
    output_index: Optional[int] = None
    custom: Optional[str] = None
    op_type: str = ""
    op_name: str = ""

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise UsageError("files become %s, not %r" % (", ".join(FORMS), self.form))
        if (self.form == DUMP) != bool(self.op_type and self.op_name):
            raise UsageError(
                "the type and the name of the op are needed for a device's file, and for "
                "nothing else"
            )

    def wants(self, kind: str, index: int) -> bool:
        """Return whether a tensor of a dump file is to be converted."""
        if self.input_index is None and self.output_index is None:
            return True
        return index == (self.input_index if kind == "input" else self.output_index)


def known_layout(name: str, original: bool = False) -> str:
    """Return a layout's name as it is written in files; any case is taken.

    Parameters
    ----------
    original
        ``original`` is a layout too.

    Raises
    ------
    UsageError
        There is no such layout.
    """
    if original and name.lower() == ORIGINAL:
        return ORIGINAL
    code = format_code(name)
    if code is None:
        near = nearest_names(name, list(FORMATS.values()), 1, 0.5)
        raise UsageError(
            "layout %r is not known" % name, hint="did you mean %s?" % near[0] if near else None
        )
    return format_name(code)


def known_dtype(name: str) -> DType:
    """Return the element type of a name such as ``float16`` or ``BF16``; UsageError when there is
    none that can be written.
    """
    dtype = dtype_by_name(name)
    if dtype is None or not dtype.decodable:
        raise UsageError(
            "element type %r is not known, or has no numbers" % name,
            hint="such as float16, float32, bfloat16, int8",
        )
    return dtype
