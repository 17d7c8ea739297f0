"""One archive that shows an operator fail: the failing part of the model and what its run left,
nothing else of the model.
"""

from __future__ import annotations

import html
import io
import json
import os
import platform
import re
import shlex
import tarfile
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import numpy

from ... import __version__
from ...base.atomic_writing import atomic_writer
from ...base.safe_reading import open_input
from ...model.om_interface import OmInterface
from .narrowing import Narrowed, read_export
from .search import ACL, DUMP, INPUTS, JSON, OUTPUTS, PAGE, RUN

_TOP = "bundle"
_TEXTS = (".json", ".html")
_MODEL_FILES = (
    "dump.prototxt",
    "dump.caffemodel",
    "dump.pb",
    "dump.onnx",
    "dump.onnx.data",
    "dump.om",
)


def write_bundle(path: str, cut: Narrowed, interface: OmInterface, runner: str) -> List[str]:
    """Write the archive; return the names of what is in it.

    Parameters
    ----------
    cut
        The smallest part that fails alone.
    interface
        What the json of the whole model's om says: of it the versions alone are told.
    runner
        What ran it.
    """
    document = read_export(cut.folder)
    names = []
    with atomic_writer(path) as stream, tarfile.open(
        fileobj=stream, mode="w", format=tarfile.PAX_FORMAT
    ) as archive:
        for name, file in _files(cut, document):
            names.append(name)
            if name.endswith(_TEXTS):
                with open_input(file) as text_stream:
                    data = _without_folders(text_stream.read(), cut)
                _add(archive, name, data, os.stat(file).st_mtime)
                continue
            archive.add(file, os.path.join(_TOP, name), recursive=False, filter=_without_owner)
        for name, text in (
            ("versions.json", _versions(interface, runner)),
            ("README.txt", _readme(cut, document)),
        ):
            _add(archive, name, text.encode("utf-8"))
            names.append(name)
    return names


def _add(archive: tarfile.TarFile, name: str, data: bytes, mtime: float = 0) -> None:
    entry = tarfile.TarInfo(os.path.join(_TOP, name))
    entry.size, entry.mode, entry.mtime = len(data), 0o644, int(mtime)
    archive.addfile(entry, io.BytesIO(data))


def _without_folders(text: bytes, cut: Narrowed) -> bytes:
    """Return a text with the paths below the sender's folders as they are in the archive, or below
    the folder where goldwatch ran.
    """
    folders = [folder for path in (cut.located, cut.folder, os.curdir)
               for folder in (os.path.realpath(path), os.path.abspath(path))]  # fmt: skip
    for folder in sorted(set(folders) - {os.sep}, key=len, reverse=True):
        for written in {folder, html.escape(folder), json.dumps(folder)[1:-1]}:
            whole = re.escape(written.encode("utf-8", "surrogateescape"))
            text = re.sub(rb"(?<![\w./-])%s/" % whole, b"", text)
            text = re.sub(rb"(?<![\w./-])%s(?![\w.-])" % whole, b".", text)
    return text


def is_bundle(path: str) -> bool:
    """Tell whether a file is an archive of :func:`write_bundle`, or empty."""
    if os.path.getsize(path) == 0:
        return True
    try:
        with tarfile.open(path, "r:") as archive:
            first = archive.next()
    except (tarfile.TarError, OSError):
        return False
    return first is not None and first.name.startswith(_TOP + "/")


def _files(cut: Narrowed, document: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    for name in _MODEL_FILES:
        if os.path.isfile(os.path.join(cut.folder, name)):
            yield name, os.path.join(cut.folder, name)
    for entry in document["inputs"]:
        if entry["npy"] is not None:
            yield entry["npy"], os.path.join(cut.folder, entry["npy"])
    # Those of its own operators; of what feeds it only the values.
    for entry in document["dumps"]:
        if entry["role"] == "op":
            yield (
                os.path.join("dump_of_the_whole_model", os.path.basename(entry["file"])),
                os.path.join(cut.folder, entry["file"]),
            )
    for folder in (INPUTS, DUMP, OUTPUTS):
        yield from _below(os.path.join(cut.located, folder), folder)
    for name in (JSON, ACL, PAGE, os.path.join(RUN, "result.json")):
        if os.path.isfile(os.path.join(cut.located, name)):
            yield name, os.path.join(cut.located, name)


def _below(folder: str, name: str) -> Iterator[Tuple[str, str]]:
    for base, _, files in sorted(os.walk(folder)):
        for file in sorted(files):
            whole = os.path.join(base, file)
            if os.path.isfile(whole) and not os.path.islink(whole):
                yield os.path.join(name, os.path.relpath(whole, folder)), whole


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _versions(interface: OmInterface, runner: str) -> str:
    versions: Dict[str, Any] = {
        "goldwatch": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "runner": runner,
        "toolkit": toolkit_version(interface),
        "soc_version": interface.soc_version,
        **{name: value for name, value in interface.attributes.items() if name != "soc_version"},
    }
    return json.dumps(versions, indent=1) + "\n"


def toolkit_version(interface: OmInterface) -> str:
    """Return which toolkit made an om, as the path of its atc tells it; empty where it does not."""
    match = re.search(r"/(?:ascend-toolkit|cann)[/-]([^/\s]+)/", interface.command)
    return "" if match is None else match.group(1)


def _readme(cut: Narrowed, document: Mapping[str, Any]) -> str:
    model = next(name for name in _MODEL_FILES if os.path.isfile(os.path.join(cut.folder, name)))
    inputs = []
    for entry in document["inputs"]:
        name = entry["tensor"] if document["model"]["kind"] == "caffe" else entry["name"]
        inputs.append("-i %s=%s" % (name, entry["npy"]))
    options = {
        name: os.path.basename(value) if name in ("model", "weight") else value
        for name, value in cut.options.items()
    }
    atc = " ".join(
        ["atc", *(shlex.quote("--%s=%s" % item) for item in options.items()), "--output=dump"]
    )
    return "\n".join(
        [
            "The smallest part of a model that fails alone on the device: %s."
            % ", ".join(cut.layers),
            "",
            "To see it fail:",
            "  %s    (made dump.om)" % atc,
            "  goldwatch locate %s dump.om %s -o out" % (model, " ".join(inputs)),
            "",
            "report.html and run/result.json are what that came to; dump/ holds the device's "
            "values of the part, run alone,",
            "dump_of_the_whole_model/ those of its operators in the run of the whole model; "
            "inputs/ and input_data/ what it was fed.",
            "",
        ]
    )
