"""Converts files and trees in parallel and reports the result of each file."""

from __future__ import annotations

import contextlib
import json
import os
import time
from concurrent.futures import as_completed
from dataclasses import field
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Tuple

from ...base.atomic_writing import remove_leftovers, write_atomically
from ...base.errors import FormatError, GoldwatchError, NotComparable, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import (
    MAPPING_FILE,
    MAPPING_LIMIT_BYTES,
    DumpName,
    compose_dump_name,
    fits,
    hash_digits,
    mapping_line,
    parse_dump_name,
    parse_golden_name,
    sanitise_golden,
)
from ...base.notes import Note, note
from ...base.pool import ProcessDied, Processes
from ...base.safe_reading import read_input
from ...dumps.dump_file import DumpFile, TensorInfo
from ...dumps.folder_listing import GOLDEN_SUFFIXES
from ...dumps.npy import open_npy
from ...dumps.overflow_records import overflow_records
from ...dumps.torch_file import open_torch
from ...kinds.wrong_kind_advice import not_a_dump
from ...tensors.tensor import Tensor
from ...tensors.user_conversions import UserConversions
from . import writers
from .convert_tensor import Converted, convert_tensor, foreign_order
from .options import BIN, CONTAINERS, DUMP, NPY, TXT, ConvertOptions
from .sources import TORCH_SUFFIXES, Source, require_own_names

RESULT_FILE = "convert.json"
_PLAIN_NPY_LAYOUT = "ND"

Document = Dict[str, Any]


@dataclass
class Conversion:
    """The result of a conversion.

    Attributes
    ----------
    files
        ``{"source", "file", "tensor", "dtype", "stored_dtype", "layout", "shape", "notes"}`` of
        each file written, ``file`` relative to OUT.
    failed
        ``{"source", "reason"}`` of what could not be converted.
    names
        Hash name and full name of results whose names were too long for a file, by folder relative
        to OUT.
    """

    files: List[Document] = field(default_factory=list)
    failed: List[Dict[str, str]] = field(default_factory=list)
    names: List[Tuple[str, str, str]] = field(default_factory=list)

    def document(self) -> Document:
        """Return convert.json."""
        return {"files": self.files, "failed": self.failed}


def convert_files(
    sources: Sequence[Source],
    out: str,
    options: ConvertOptions,
    jobs: int = 1,
    on_file: Optional[Callable[[int], None]] = None,
) -> Conversion:
    """Convert files; those that cannot be converted are listed in the result.

    Parameters
    ----------
    out
        Folder of the results; made when it is missing. convert.json lists them, mapping.csv the
        names that were too long.
    jobs
        Processes.
    on_file
        Called with the number of files that are done.

    Raises
    ------
    UsageError
        The user's folder of conversions cannot be used, or several files would be written as one.
    OSError
        ``out`` cannot be written.
    """
    UserConversions(options.custom)
    require_own_names(sources)
    if options.form == DUMP and len(sources) > 1:
        raise UsageError(
            "one op has one file: %d inputs cannot all become a dump of %s"
            % (len(sources), options.op_name)
        )
    os.makedirs(out, exist_ok=True)
    result = Conversion()
    with contextlib.closing(_results(sources, out, options, min(jobs, len(sources)))) as parts:
        for done, part in enumerate(parts, 1):
            result.files += part.files
            result.failed += part.failed
            result.names += part.names
            if on_file is not None:
                on_file(done)
    order = {source.path: number for number, source in enumerate(sources)}
    result.files.sort(key=lambda entry: (order[entry["source"]], entry["file"]))
    result.failed.sort(key=lambda entry: order[entry["source"]])
    folders: Dict[str, List[str]] = {}
    for folder, short, full in result.names:
        folders.setdefault(folder, []).append(mapping_line(short, full))
    for folder, lines in folders.items():
        path = os.path.join(out, folder, MAPPING_FILE)
        # Existing lines belong to other files of the folder.
        known = (
            read_input(path, MAPPING_LIMIT_BYTES).splitlines(True) if os.path.exists(path) else []
        )
        known_lines = [line if line.endswith(b"\n") else line + b"\n" for line in known]
        made = [line.encode("utf-8", "surrogateescape") for line in sorted(lines)]
        write_atomically(path, b"".join(dict.fromkeys(known_lines + made)))
    write_atomically(
        os.path.join(out, RESULT_FILE),
        (json.dumps(result.document(), indent=1) + "\n").encode("utf-8", "surrogateescape"),
    )
    return result


def _results(
    sources: Sequence[Source], out: str, options: ConvertOptions, jobs: int
) -> Generator[Conversion, None, None]:
    if jobs <= 1:
        for source in sources:
            yield convert_file(source, out, options)
        return
    processes = Processes(jobs)
    done = False
    try:
        processes.start(_ready)
        futures = {
            processes.submit(convert_file, source, out, options): source for source in sources
        }
        for future in as_completed(futures):
            try:
                yield future.result()
            except ProcessDied as error:
                source = futures[future]
                remove_leftovers(os.path.join(out, source.folder), error.pid)
                yield Conversion(
                    failed=[
                        {
                            "source": source.path,
                            "reason": "%s (out of memory?); look at the kernel log" % error,
                        }
                    ]
                )
        done = True
    finally:
        pids = processes.pids() if not done else []
        processes.close(now=not done)
        for folder in {source.folder for source in sources} if pids else ():
            for pid in pids:
                # One that was busy for too long was killed.
                remove_leftovers(os.path.join(out, folder), pid)


def _ready() -> None:
    """Import everything that converting needs in a new worker process."""


def convert_file(source: Source, out: str, options: ConvertOptions) -> Conversion:
    """Convert the selected tensors of one file; failures are listed in the result."""
    result = Conversion()
    os.makedirs(os.path.join(out, source.folder), exist_ok=True)
    job = _Job(source, out, options, result)
    try:
        if source.name.endswith((".npy", *TORCH_SUFFIXES)):
            job.arrays()
        else:
            job.dump()
    except (GoldwatchError, OSError, MemoryError, ValueError) as error:
        job.fail(_text_of(error))
    return result


def _text_of(error: Exception) -> str:
    """Return an error's message, without the name of the file beside which it stands, and hint."""
    text = getattr(error, "detail", None) or "%s: %s" % (type(error).__name__, error)
    hint = getattr(error, "hint", None)
    return "%s; %s" % (text, hint) if hint else text


class _Job:
    """The conversion of one file."""

    def __init__(
        self, source: Source, out: str, options: ConvertOptions, result: Conversion
    ) -> None:
        self.source, self.out, self.options, self.result = source, out, options, result
        self.user = UserConversions(options.custom)

    def fail(self, reason: str) -> None:
        self.result.failed.append({"source": self.source.path, "reason": reason})

    def arrays(self) -> None:
        """Convert an npy file, or the tensors of a file of torch.save."""
        stem, ending = os.path.splitext(self.source.name)
        path = self.source.path
        try:
            tensors = [open_npy(path)] if ending == ".npy" else open_torch(path)
        except FormatError as error:
            advice = not_a_dump(path)
            if advice is None:
                raise
            text = "%s; %s" % (error.detail, advice.words)
            raise FormatError(text, path, advice.hint) from None
        layout = self.options.from_layout or _PLAIN_NPY_LAYOUT
        for number, tensor in enumerate(tensors):
            tensor = tensor.in_c_order()
            self._tensor(
                Tensor(tensor.dtype, tensor.shape, layout, tensor.source),
                stem if len(tensors) == 1 else "%s.%d" % (stem, number),
                "npy" if ending == ".npy" else "tensor %d" % number,
            )

    def dump(self) -> None:
        dump = DumpFile.open(self.source.path)
        named = parse_dump_name(self.source.name)
        if named is not None and named.kind == "overflow" and self.options.form in (NPY, TXT):
            records, problem = overflow_records(dump)
            for index, record in enumerate(records):
                name = self._name("%s.output.%d.json" % (self.source.name, index))
                write_atomically(
                    self._path(name), (json.dumps(record, indent=1) + "\n").encode("ascii")
                )
                self._note(name, "output.%d" % index, "json", "uint8", None, None)
            if problem is not None:
                self.fail(problem)
            return
        chosen = [
            info
            for info in (*dump.inputs, *dump.outputs)
            if self.options.wants(info.kind, info.index)
        ]
        if not chosen and (dump.inputs or dump.outputs):
            self.fail(
                "it has %d inputs and %d outputs, not the one asked for"
                % (len(dump.inputs), len(dump.outputs))
            )
        golden = self.source.name.endswith(GOLDEN_SUFFIXES)
        for info in chosen:
            what = "%s.%d" % (info.kind, info.index)
            try:
                bare = self._golden_stem(dump, info) if self.options.form == NPY else None
                stem = (
                    os.path.splitext(self.source.name)[0]
                    if golden and self.options.form in CONTAINERS
                    else self.source.name
                )
                self._tensor(
                    dump.tensor(info.kind, info.index),
                    bare or "%s.%s" % (stem, what),
                    what,
                    bare is not None,
                )
            except (GoldwatchError, MemoryError, ValueError) as error:
                self.fail("%s: %s" % (what, _text_of(error)))
        if (
            self.options.form in (NPY, TXT)
            and self.options.input_index is None
            and self.options.output_index is None
        ):
            self._regions(dump)

    def _golden_stem(self, dump: DumpFile, info: TensorInfo) -> Optional[str]:
        """Return the golden name, without suffix, of an output of a golden file.

        None if the file's name has no output index.
        """
        named = parse_golden_name(self.source.name)
        if named is None or info.kind != "output":
            return None
        if len(dump.outputs) == 1:
            return os.path.splitext(self.source.name)[0]
        return (
            None
            if named.output_index
            else "%s.%d.%s" % (named.op_name, info.index, self.source.name.split(".")[-2])
        )

    def _regions(self, dump: DumpFile) -> None:
        for kind, regions, suffix in (
            ("space", dump.spaces, "txt"),
            ("buffer", dump.buffers, "bin"),
        ):
            for region in regions:
                source = dump.source(kind, region.index)
                name = self._name("%s.%s.%d.%s" % (self.source.name, kind, region.index, suffix))
                data = bytes(source.read(0, source.nbytes))
                write_atomically(self._path(name), data.rstrip(b"\0") if kind == "space" else data)
                self._note(
                    name,
                    "%s.%d" % (kind, region.index),
                    "text" if kind == "space" else "uint8",
                    "uint8",
                    None,
                    None,
                )

    def _tensor(self, tensor: Tensor, stem: str, what: str, golden: bool = False) -> None:
        options = self.options
        as_stored = (
            options.layout is None
            and options.shape is None
            and options.dtype is None
            and not foreign_order(tensor.dtype)
        )
        if as_stored and (
            options.form == BIN or options.form == NPY and writers.copies_as_npy(tensor)
        ):
            name = self._name("%s.%s" % (stem, options.form))
            (writers.copy_bin if options.form == BIN else writers.copy_npy)(
                self._path(name), tensor
            )
            self._note(
                name, what, tensor.dtype.name, tensor.dtype.name, tensor.format, tensor.shape
            )
            return
        converted = convert_tensor(tensor, options, self.user)
        if options.form in CONTAINERS:
            self._container(converted, tensor, stem, what)
            return
        if options.layout is not None and converted.shape and not golden:
            stem += "." + "x".join(map(str, converted.shape))
        name = self._name("%s.%s" % (stem, options.form))
        write = {NPY: writers.write_npy, BIN: writers.write_bin, TXT: writers.write_txt}[
            options.form
        ]
        dtype = write(self._path(name), converted)
        self._note(
            name, what, dtype, tensor.dtype.name, converted.layout, converted.shape, converted.notes
        )

    def _container(self, converted: Converted, tensor: Tensor, stem: str, what: str) -> None:
        options = self.options
        original = tensor.original_shape or tensor.shape
        if options.form == DUMP:
            now = int(time.time() * 1e6)
            name = compose_dump_name(DumpName(options.op_type, options.op_name, 0, now, 0))
            layout, op_name = converted.layout, options.op_name
        else:
            golden = parse_golden_name(stem + ".npy")
            golden_stem = (
                stem
                if golden is not None
                else "%s.0.%016d" % (sanitise_golden(stem), int(time.time() * 1e6))
            )
            if golden is None:
                notes = (*converted.notes, note("made-up-name", stem))
                converted = converted._replace(notes=notes)
            name, layout, op_name = (
                "%s.%s" % (golden_stem, options.form),
                converted.layout if options.layout else "RESERVED",
                "",
            )
        name = self._name(name)
        writers.write_container(self._path(name), converted, layout, original, op_name)
        self._note(
            name,
            what,
            converted.dtype.name,
            tensor.dtype.name,
            layout,
            converted.shape,
            converted.notes,
        )

    def _name(self, name: str) -> str:
        """Return the name that a result gets: its own, or its hash with an entry for
        mapping.csv.
        """
        if fits(name):
            return name
        suffix = next(
            (
                end
                for end in (".npy", ".pb", ".quant", ".bin", ".txt", ".json")
                if name.endswith(end)
            ),
            "",
        )
        short = hash_digits(name) + suffix
        self.result.names.append((self.source.folder, short, name))
        return short

    def _path(self, name: str) -> str:
        path = os.path.join(self.out, self.source.folder, name)
        if os.path.exists(path) and os.path.samefile(path, self.source.path):
            raise NotComparable(
                "the result would replace the file itself: choose another folder for the results"
            )
        return path

    def _note(
        self,
        name: str,
        what: str,
        dtype: str,
        stored: str,
        layout: Optional[str],
        shape: Any,
        notes: Sequence[Note] = (),
    ) -> None:
        if dtype != stored and self.options.dtype is None and what != "npy" and layout is not None:
            notes = (*notes, note("no-numpy-type", stored))
        entry: Document = {
            "source": self.source.path,
            "file": os.path.join(self.source.folder, name),
            "tensor": what,
            "dtype": dtype,
        }
        entry.update(
            stored_dtype=stored,
            layout=layout,
            shape=None if shape is None else list(shape),
            notes=[one.document() for one in notes],
        )
        self.result.files.append(entry)
