"""The dump files of one device, model and step by op: the file to use, and its tensors in the
original layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from ...base.errors import FormatError, InputError
from ...base.naming import run_name, sanitise_device, whole_name
from ...dumps.dump_file import TensorInfo
from ...dumps.dump_header import COMPLETE, size_error
from ...dumps.dump_index import DumpIndex
from ...dumps.folder_listing import DumpEntry
from ...dumps.slices import files_by_number, is_overwritten, open_dump
from ...metrics.overwriting_and_cancellation import keeps_values, same_bytes
from ...model.op_node import OpNode
from ...tensors.dtypes import Array
from ...tensors.layout_conversion import plain_tensor
from ...tensors.storage_layouts import layout_of
from ...tensors.tensor import Tensor

if TYPE_CHECKING:
    from ...dumps.slices import AnyDump

Shape = Tuple[int, ...]
_SHOWN = 8


class DumpsByOp:
    """The dumps of one device, model and step.

    Parameters
    ----------
    folder
        A dump tree, or any folder in it.
    models
        Possible names of the model, to select among several models in the tree.

    Attributes
    ----------
    model
        The name of the model in the folders' names; None if they have none.
    notes
        What was used, and what could not be read.

    Raises
    ------
    MissingPath, InputError
        There is no such folder, no dump in it, or those of several devices, models or steps.
    """

    def __init__(self, folder: str, models: Sequence[str]) -> None:
        tree = DumpIndex(folder, "DUMP").tree()
        step_folders = tree.step_folders
        if len(step_folders) > 1:
            names = {run_name(sanitise_device(name)) for name in models if name}
            step_folders = [
                step_folder
                for step_folder in step_folders
                if step_folder.place.model is None or run_name(step_folder.place.model) in names
            ] or step_folders
        if not step_folders:
            raise InputError(
                "%s: no dump file in it" % folder,
                hint="give the folder that dump_path names, or any folder in it",
            )
        if len(step_folders) > 1:
            listed = "; ".join(step_folder.label() for step_folder in step_folders[:_SHOWN]) + (
                "; …" if len(step_folders) > _SHOWN else ""
            )
            message = (
                "%s holds the dumps of %d devices, models or steps, a cut takes those of one: %s"
            )
            raise InputError(
                message % (folder, len(step_folders), listed), hint="give one of these folders"
            )
        self.folder = folder
        self.model = step_folders[0].place.model
        self.notes = list(tree.notes) + tree.left_notes
        self._files: Dict[str, List[DumpEntry]] = {}
        self._slices: Dict[str, List[DumpEntry]] = {}
        for entry in step_folders[0].files:
            self._files.setdefault(entry.name.op_name, []).append(entry)
            whole, number = whole_name(entry.name.op_name)
            if number is not None:
                self._slices.setdefault(whole, []).append(entry)

    @property
    def op_names(self) -> Set[str]:
        """The names of the ops that have a file, as the device writes them."""
        return set(self._files) | set(self._slices)

    def files(self, op_name: str, op_type: str = "") -> List[DumpEntry]:
        """Return the files of an op's latest run: one, or one for each slice where FFTS+ wrote
        them; empty when there is none.

        Parameters
        ----------
        op_type
            Selects among ops of the same sanitised name.
        """
        return list(
            {
                (entry.name.slice, entry.name.op_name): entry
                for entry in self._runs(op_name, op_type)
            }.values()
        )

    def older(self, op_name: str, op_type: str = "") -> List[DumpEntry]:
        """Return the files of an op that are superseded by a later run."""
        latest = self.files(op_name, op_type)
        return [entry for entry in self._runs(op_name, op_type) if entry not in latest]

    def _runs(self, op_name: str, op_type: str) -> List[DumpEntry]:
        name = sanitise_device(op_name)
        entries = self._files.get(name) or self._slices.get(name, [])
        entries = [
            entry for entry in entries if entry.name.op_type == sanitise_device(op_type)
        ] or entries
        return sorted(entries, key=lambda entry: (entry.name.timestamp_us, entry.rel))

    def dump(self, op_name: str, op_type: str = "") -> Tuple[Optional[AnyDump], str]:
        """Open an op's file, or the files of its slices as one; None if there is none, or, with the
        reason, if it is damaged.
        """
        files = self.files(op_name, op_type)
        if not files:
            return None, ""
        sliced = files[0].name.slice is not None or len(files) > 1
        try:
            dump = open_dump(files[0], files_by_number(files) if sliced else None)
        except FormatError as error:
            return None, error.message
        if dump.state == COMPLETE:
            return dump, ""
        state = (dump.path, dump.state, dump.expected_bytes, dump.actual_bytes)
        return None, size_error(*state).message


def input_that_came_in(dump: AnyDump, op: Optional[OpNode], index: int) -> Optional[TensorInfo]:
    """Return the entry of input ``index`` in a dump; None if the dump does not hold the value that
    the op read: an in-place op overwrites its input.
    """
    place = index if op is None else op.place_in_dump(index, len(dump.inputs))
    if (
        place is None
        or place >= len(dump.inputs)
        or dump.inputs[place].problem is not None
        or is_overwritten(dump, dump.inputs[place])
    ):
        return None
    info = dump.inputs[place]
    if op is None or not keeps_values(op.type):
        source = dump.tensor("input", place).source
        alike = [
            output
            for output in dump.outputs
            if output.size_bytes == info.size_bytes and output.problem is None
        ]
        if any(same_bytes(source, dump.tensor("output", output.index).source) for output in alike):
            return None
    return info


def recorded_shape(info: TensorInfo) -> Optional[Shape]:
    """Return the original shape of a tensor in a file; None if only the device's blocked shape is
    known."""
    if info.original_shape is not None:
        return info.original_shape
    layout = layout_of(info.format, info.shape)
    return info.shape if layout is not None and not layout.blocks else None


def recorded_array(tensor: Tensor, shape: Shape, layout: Optional[str]) -> Array:
    """Return a recorded tensor whole, decoded, in the original layout and shape, without padding.

    Parameters
    ----------
    shape, layout
        Of the original model; layout None: unknown (the stored order of axes is that of the shape).

    Raises
    ------
    NotComparable
        The layout is not supported, or the elements do not fit the shape.
    FormatError
        The file has fewer bytes than the elements need.
    """
    plain = plain_tensor(tensor, layout, shape)
    array = plain.array()
    if (
        layout
        and layout != plain.format
        and sorted(layout) == sorted(plain.format)
        and len(layout) == array.ndim
    ):
        array = array.transpose([plain.format.index(axis) for axis in layout])
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise InputError(
            "%d elements are recorded, the shape %s has %d"
            % (array.size, list(shape), np.prod(shape, dtype=np.int64))
        )
    return np.ascontiguousarray(array).reshape(shape)
