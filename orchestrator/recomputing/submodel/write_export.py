"""The export's files written: cut model, weights, dumps, inputs, golden data, submodel.json; the
folder appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from typing import Any, BinaryIO, Dict, Iterator, List, Sequence

import numpy as np

from ...base.atomic_writing import create_new, raise_write_error, temporary_path
from ...base.errors import EnvironmentProblem
from ...base.mounts import free_bytes
from ...base.naming import MAPPING_FILE
from ...base.safe_reading import open_input
from ...dumps.folder_listing import look_at
from ...netfiles.prototxt_edits import encode
from .cut_definition import CutFile
from .export_document import FILE
from .export_plan import Plan
from .gather_recorded_files import mapping_lines
from .input_file_plan import FOLDER as INPUTS
from .input_file_plan import bin_array

# Room for manifests, mapping.csv and what a file system keeps for itself.
_RESERVE_BYTES = 1 << 20
_TRIES = 100000


class NewFolder:
    """A folder that is being filled.

    Attributes
    ----------
    path
        Where to write: the hidden folder.
    final
        The folder's path once it is there; empty before.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.final = ""

    def folder(self, name: str) -> None:
        """Make a folder in it."""
        os.makedirs(os.path.join(self.path, name), exist_ok=True)

    def create(self, *parts: str) -> BinaryIO:
        """Return a binary stream that writes a new file in it, whose folder is there."""
        return os.fdopen(create_new(os.path.join(self.path, *parts)), "wb")


@contextlib.contextmanager
def new_folder(out: str, began_s: float) -> Iterator[NewFolder]:
    """Yield a folder to fill; it is renamed to ``out/dump_result_YYYY_mm_dd_HH_MM_SS`` at the end,
    or removed if the body raises.

    Parameters
    ----------
    out
        Made where it is not there.
    began_s
        When the export began, in seconds since the epoch: the folder's name in local time. Where
        that is taken, the next free second is.

    Raises
    ------
    EnvironmentProblem
        ``out`` cannot be made or written.
    """
    hidden = temporary_path(out)
    folder = NewFolder(hidden)
    try:
        os.makedirs(hidden)
        yield folder
        folder.final = _renamed(hidden, out, began_s)
    except OSError as error:
        if isinstance(error, EnvironmentProblem) or not isinstance(
            error.filename, (str, type(None))
        ):
            raise
        raise_write_error(error.filename or out, error)
    finally:
        if not folder.final:
            shutil.rmtree(hidden, ignore_errors=True)


def _renamed(hidden: str, out: str, began_s: float) -> str:
    for later in range(_TRIES):
        path = os.path.join(
            out, time.strftime("dump_result_%Y_%m_%d_%H_%M_%S", time.localtime(began_s + later))
        )
        if os.path.lexists(path):
            continue
        try:
            os.rename(hidden, path)
        except FileExistsError:
            # Another export took the name meanwhile.
            continue
        except OSError as error:
            if os.path.lexists(path):
                continue
            raise error
        return path
    raise EnvironmentProblem("%s: no free name for the export" % out)


def require_space(out: str, needed_bytes: int) -> None:
    """Raise EnvironmentProblem when the file system of ``out`` has no room for so many bytes."""
    free = free_bytes(out)
    if free is not None and free < needed_bytes + _RESERVE_BYTES:
        raise EnvironmentProblem(
            "%s: the export needs %d bytes, %d are free"
            % (out, needed_bytes + _RESERVE_BYTES, free),
            hint="free space there, or choose another folder; nothing was written",
        )


DUMPS, GOLDENS = "dump_data", "golden_data"
_COPY_BYTES = 1 << 20


def write_export(plan: Plan, document: Dict[str, Any], out: str, began_s: float) -> str:
    """Write an export below ``out`` and return its folder.

    Parameters
    ----------
    document
        The content of submodel.json.
    began_s
        When the export began, in seconds since the epoch; the folder is named after it.

    Raises
    ------
    EnvironmentProblem
        ``out`` cannot be written, or has no room.
    """
    goldens = plan.gathered.goldens
    dumps = list(dict.fromkeys(file.path for file in plan.gathered.dumps))
    files = plan.original.files(
        plan.cut,
        {border.entry.name: (border.dtype, border.shape) for border in plan.borders},
        plan.declared_ends,
    )
    require_space(out, _needed_bytes(plan, files, dumps + goldens))
    with new_folder(out, began_s) as folder:
        for file in files:
            with folder.create(file.name) as stream:
                file.write(stream)
        if plan.weights is not None:
            layers = {plan.original.names[number] for number in plan.cut.layers}
            with folder.create("dump.caffemodel") as stream:
                plan.weights.write(layers, stream)
        _copy_all(folder, DUMPS, dumps)
        folder.folder(INPUTS)
        if goldens:
            _copy_all(folder, GOLDENS, goldens)
        for border, values in plan.inputs():
            if values is None or border.array is None:
                continue
            with folder.create(values.npy) as stream:
                np.save(stream, border.array, allow_pickle=False)
            if values.bin is not None and values.bin_dtype is not None:
                with folder.create(values.bin) as stream:
                    stream.write(bin_array(border.array, values.bin_dtype).tobytes())
        with folder.create(FILE) as stream:
            stream.write(json.dumps(document, indent=1, allow_nan=False).encode("ascii") + b"\n")
    return folder.final


def _needed_bytes(plan: Plan, files: Sequence[CutFile], copies: Sequence[str]) -> int:
    model = sum(file.nbytes for file in files)
    weights = 0 if plan.weights is None else os.path.getsize(plan.weights.path)
    inputs = sum(2 * border.array.nbytes for border in plan.borders if border.array is not None)
    copied = sum(look.size_bytes for look in map(look_at, copies) if look is not None)
    return model + weights + inputs + copied


def _copy_all(folder: NewFolder, name: str, paths: List[str]) -> None:
    folder.folder(name)
    for path in paths:
        with open_input(path) as source, folder.create(name, os.path.basename(path)) as target:
            shutil.copyfileobj(source, target, _COPY_BYTES)
    lines = mapping_lines(paths)
    if lines:
        with folder.create(name, MAPPING_FILE) as stream:
            stream.write(encode(lines))
