"""The dump files of one run on the device, by op: which file counts, and the tensors in it in the original layout."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from ..dumps.container import DumpFile, TensorInfo
from ..dumps.listing import DumpEntry
from ..dumps.tree import DumpTree
from ..errors import InputError
from ..naming import run_name, sanitise_device
from ..tensors.axes import layout_of
from ..tensors.dtypes import Array
from ..tensors.layouts import plain_tensor
from ..tensors.tensor import Tensor

Shape = Tuple[int, ...]
_SHOWN = 8


class RunDumps:
    """The dumps of one device, model and step.

    Parameters
    ----------
    folder
        A dump tree, or any folder in it.
    models
        Names that the model may have; of several models in the tree those count.

    Attributes
    ----------
    notes
        What was taken, and what could not be read.

    Raises
    ------
    MissingPath, InputError
        There is no such folder, no dump in it, or those of several devices, models or steps.
    """

    def __init__(self, folder: str, models: Sequence[str]) -> None:
        tree = DumpTree(folder, what="DUMP")
        combos = tree.combos
        if len(combos) > 1:
            wanted = {run_name(sanitise_device(name)) for name in models if name}
            combos = [combo for combo in combos if combo.place.model is None or run_name(combo.place.model) in wanted] or combos
        if not combos:
            raise InputError("%s: no dump file in it" % folder, hint="give the folder that dump_path names, or any folder in it")
        if len(combos) > 1:
            listed = "".join("\n  " + combo.label() for combo in combos[:_SHOWN]) + ("\n  …" if len(combos) > _SHOWN else "")
            message = "%s holds the dumps of %d devices, models or steps, a cut takes those of one:%s"
            raise InputError(message % (folder, len(combos), listed), hint="give one of these folders")
        self.folder = folder
        self.notes = list(tree.notes) + tree.left_notes
        self._files: Dict[str, List[DumpEntry]] = {}
        for entry in combos[0].files:
            self._files.setdefault(entry.name.op_name, []).append(entry)

    @property
    def op_names(self) -> Set[str]:
        """The names of the ops that have a file, as the device writes them."""
        return set(self._files)

    def files(self, op_name: str, op_type: str = "") -> List[DumpEntry]:
        """Return the files of an op's latest run: one, or one for each slice where FFTS+ wrote them; empty when there is none.

        Parameters
        ----------
        op_type
            Decides where several ops are written alike.
        """
        return list({entry.name.slice: entry for entry in self._runs(op_name, op_type)}.values())

    def older(self, op_name: str, op_type: str = "") -> List[DumpEntry]:
        """Return the files of an op that do not count, because a later run of it is there."""
        latest = self.files(op_name, op_type)
        return [entry for entry in self._runs(op_name, op_type) if entry not in latest]

    def _runs(self, op_name: str, op_type: str) -> List[DumpEntry]:
        entries = self._files.get(sanitise_device(op_name), [])
        entries = [entry for entry in entries if entry.name.op_type == sanitise_device(op_type)] or entries
        return sorted(entries, key=lambda entry: (entry.name.timestamp_us, entry.rel))

    def file(self, op_name: str, op_type: str = "") -> Optional[DumpFile]:
        """Return an op's file, opened; None when there is none, or several slices that no one of holds the whole tensor."""
        found = self.files(op_name, op_type)
        return DumpFile(found[0].path) if len(found) == 1 else None


def recorded_shape(info: TensorInfo) -> Optional[Shape]:
    """Return the original shape that a file tells of a tensor; None where only the device's blocked shape is known."""
    if info.original_shape is not None:
        return info.original_shape
    layout = layout_of(info.format, info.shape)
    return info.shape if layout is not None and not layout.blocks else None


def recorded_array(tensor: Tensor, shape: Shape, layout: Optional[str]) -> Array:
    """Return a recorded tensor whole, decoded, in the original layout and shape, without padding.

    Parameters
    ----------
    shape, layout
        As the original model has it; layout None where nobody says (then the stored order of axes is that of the shape).

    Raises
    ------
    NotComparable
        The layout is not supported, or the elements do not fit the shape.
    FormatError
        The file has fewer bytes than the elements need.
    """
    plain = plain_tensor(tensor, layout, shape)
    array = plain.array()
    if layout and layout != plain.format and sorted(layout) == sorted(plain.format) and len(layout) == array.ndim:
        array = array.transpose([plain.format.index(axis) for axis in layout])
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise InputError("%d elements are recorded, the shape %s has %d" % (array.size, list(shape), np.prod(shape, dtype=np.int64)))
    return np.ascontiguousarray(array).reshape(shape)


def base_name(entry: DumpEntry) -> str:
    """Return the name that a file has on the disk."""
    return os.path.basename(entry.path)
