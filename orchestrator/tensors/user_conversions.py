"""The user's own conversions: ``format_convert/convert_{A}_to_{B}.py`` with ``def
convert(shape_from, shape_to, array)``.

Source of the interface: the vendor's public documents. The array is flat; ``shape_to`` may be None.
The user's code runs in a separate process, so a crash affects one tensor only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import NotComparable, UsageError, require_folder
from ..base.naming import nearest_names
from .dtypes import Array
from .storage_layouts import FORMATS, format_code, format_name

if TYPE_CHECKING:
    from ..base.user_code import Answer

FOLDER = "format_convert"


class UserConversions:
    """The conversions in a folder; they override the built-in ones. Picklable.

    Parameters
    ----------
    folder
        Holds ``format_convert``; None for no conversions.
    required
        Whether at least one must exist.

    Raises
    ------
    UsageError
        The folder is missing, holds no conversion, or holds one of an unknown layout.
    """

    def __init__(self, folder: Optional[str] = None, required: bool = True) -> None:
        self._scripts: Dict[Tuple[str, str], str] = {}
        if folder is None:
            return
        require_folder(folder, "folder of conversions")
        scripts = os.path.join(folder, FOLDER)
        for name in sorted(os.listdir(scripts)) if os.path.isdir(scripts) else ():
            pair = _pair(name)
            if pair is None:
                _refuse_unknown(name, scripts)
            else:
                self._scripts[pair] = os.path.join(scripts, name)
        if required and not self._scripts:
            raise UsageError(
                "%s holds no %s/convert_A_to_B.py" % (folder, FOLDER),
                hint="A and B are layouts, such as NC1HWC0 and NCHW",
            )

    def has(self, layout_from: str, layout_to: str) -> bool:
        """Return whether there is a conversion of this pair."""
        return (layout_from, layout_to) in self._scripts

    def targets(self, layout_from: str) -> Tuple[str, ...]:
        """Return the layouts that a layout can be converted to."""
        return tuple(to for origin, to in self._scripts if origin == layout_from)

    @property
    def scripts(self) -> Tuple[str, ...]:
        """The files."""
        return tuple(self._scripts.values())

    def convert(
        self,
        layout_from: str,
        layout_to: str,
        shape_from: Sequence[int],
        shape_to: Optional[Sequence[int]],
        array: Array,
    ) -> Array:
        """Run the user's conversion and return its result.

        Raises
        ------
        NotComparable
            It raised, took longer than a minute, or returned another number of elements than
            ``shape_to`` has, or another type.
        """
        from ..base.user_code import call_user

        script = self._scripts[(layout_from, layout_to)]
        shapes = list(shape_from), None if shape_to is None else list(shape_to)
        converted: Array = call_user(script, _converted, *shapes, array.reshape(-1))
        if converted.dtype != array.dtype:
            raise NotComparable(
                "%s returned elements of %s, expected %s" % (script, converted.dtype, array.dtype)
            )
        if shape_to is not None:
            if converted.size != int(np.prod(shape_to, dtype=np.int64)):
                raise NotComparable(
                    "%s returned %d elements, expected the shape %s"
                    % (script, converted.size, list(shape_to))
                )
            converted = converted.reshape(tuple(shape_to))
        return converted


def _converted(
    script: str, shape_from: List[int], shape_to: Optional[List[int]], array: Array
) -> Answer:
    from ..base.user_code import run_user

    return run_user(script, "convert", shape_from, shape_to, array, taken=_array)


def _array(returned: Any) -> Array:
    result = np.asarray(returned)
    if result.dtype.hasobject:
        raise TypeError("it returned %s, expected an array" % type(returned).__name__)
    return result


def _refuse_unknown(name: str, folder: str) -> None:
    """Raise UsageError for a conversion script of an unknown layout: it would never be called."""
    stem, suffix = os.path.splitext(name)
    if suffix != ".py" or not stem.startswith("convert_"):
        return
    words = stem[len("convert_") :].split("_to_")
    unknown = [word for word in words if format_code(word) is None]
    if len(words) == 2 and unknown:
        near = nearest_names(unknown[0], list(FORMATS.values()), 1, 0.5)
        text = "%s: layout %r is not known, so that this conversion would never be called" % (
            os.path.join(folder, name),
            unknown[0],
        )
        raise UsageError(
            text,
            hint="did you mean %s?" % near[0]
            if near
            else "layouts are such as NC1HWC0, FRACTAL_NZ, NCHW and ND",
        )


def _pair(name: str) -> Optional[Tuple[str, str]]:
    stem, suffix = os.path.splitext(name)
    if suffix != ".py" or not stem.startswith("convert_") or "_to_" not in stem:
        return None
    words: List[str] = stem[len("convert_") :].split("_to_")
    codes = [format_code(word) for word in words]
    if len(codes) != 2 or codes[0] is None or codes[1] is None:
        return None
    return format_name(codes[0]), format_name(codes[1])
