"""The stand-in's .om: what the compiler leaves, and what the stand-in of a device loads. No real
device can load it.

The form is the stand-in's own. It begins with the four bytes of a real om, IMOD, and 252 zeros; a
zip archive follows: ``om.json`` (what ``atc --mode=1`` prints), ``build.json`` (how it was
compiled) and ``model/`` with the original model's files.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...base.errors import FormatError, MissingPath
from ...base.fast_dataclasses import dataclass

MAGIC = b"IMOD"
_HEADER_BYTES = 256
_JSON, _BUILD, _MODEL = "om.json", "build.json", "model/"


@dataclass(frozen=True)
class Om:
    """A stand-in om.

    Attributes
    ----------
    document
        What ``atc --mode=1`` prints.
    build
        ``{"options": atc's, "build": how it is computed, "soc", "model", "weights": names of
        files}``.
    """

    path: str
    document: Mapping[str, Any] = field(repr=False)
    build: Mapping[str, Any]

    def unpack(self, folder: str) -> Tuple[str, Optional[str]]:
        """Write the original model into a folder; return it, and its caffemodel."""
        with zipfile.ZipFile(self.path) as archive:
            for name in archive.namelist():
                if name.startswith(_MODEL):
                    archive.extract(name, folder)
        weights = self.build.get("weights")
        inside = os.path.join(folder, _MODEL)
        return os.path.join(inside, self.build["model"]), os.path.join(
            inside, weights
        ) if weights else None


def write_om(
    path: str,
    document: Mapping[str, Any],
    build: Dict[str, Any],
    model: str,
    weights: Optional[str],
    others: List[str],
) -> None:
    """Write an om; ``others`` are further files beside the model, or below its folder."""
    home = os.path.dirname(os.path.abspath(model))
    names = {
        model: os.path.basename(model),
        **{other: os.path.relpath(other, home) for other in others},
    }
    if weights:
        names[weights] = os.path.basename(weights)
    build = {**build, "model": names[model], "weights": names[weights] if weights else None}
    with open(path, "wb") as stream:
        stream.write(MAGIC.ljust(_HEADER_BYTES, b"\0"))
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_JSON, json.dumps(document, indent=1))
            archive.writestr(_BUILD, json.dumps(build, indent=1))
            for source, name in names.items():
                archive.write(source, _MODEL + name)


def read_om(path: str) -> Om:
    """Read an om.

    Raises
    ------
    MissingPath
        There is none.
    FormatError
        It is none of the stand-in's.
    """
    if not os.path.isfile(path):
        raise MissingPath("%s does not exist" % path)
    try:
        with open(path, "rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise FormatError("no .om file", path)
        with zipfile.ZipFile(path) as archive:
            document, build = (
                json.loads(archive.read(name).decode("utf-8")) for name in (_JSON, _BUILD)
            )
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise FormatError("no .om file of the stand-in compiler: %s" % error, path) from None
    return Om(path, document, build)
