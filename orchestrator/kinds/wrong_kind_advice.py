"""Advice for a file or folder of the wrong kind: one sentence that says what it is and what to give
instead.
"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, NamedTuple, Optional, Sequence

from ..base.errors import GoldwatchError, InputError
from ..base.naming import parse_dump_name
from ..base.wording import plural
from . import kind as kinds
from .files import kind_of_file
from .folders import Folder, kinds_in_folder
from .kind import Kind

_MAKE_JSON = "atc --mode=1 --om=%s --json=%s" % ("MODEL.om", "MODEL.json")
_WANTED_MODEL = "the json of the om (%s), or GE's text graph ge_proto_*_Build.txt" % _MAKE_JSON
_WANTED_DUMPS = "dump files are named {op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}"
_WANTED_GOLDEN = (
    "golden files are named {op_name}.{output_index}.{timestamp}.npy (or .pb, .quant), or are "
    "device dumps"
)
_OWN_COMPARISON = "their values have no op of a compiled graph to belong to: "
_OF_ONNX = (
    "onnx.numpy_helper.to_array(onnx.load_tensor(FILE)) reads it where the package onnx is, and "
    "numpy.save makes an npy of it"
)
_NAME_FOLDER = (
    "name their folder: statistics are compared where no dumps and no golden files lie among "
    "them; goldwatch inspect shows them"
)

_MODEL: Dict[str, str] = {
    kinds.QUANT_CONFIG: "the quantisation json is what AMCT writes beside the quantised model "
    "(*_quant.json)",
    kinds.QUANT_RECORD: "the quantisation json is what AMCT writes beside the quantised model "
    "(*_quant.json)",
}
_FORMS_OF_GE = (kinds.GE_ONNX, kinds.GE_READABLE)
_DUMPED: Dict[str, str] = {
    kinds.STATISTICS_DUMP: _NAME_FOLDER,
    kinds.CONVERTED: "name the dump files themselves: they are read as the device wrote them",
    kinds.MSPROBE: _OWN_COMPARISON
    + "msprobe compare is for two such dumps; here the dumps of a graph (acl.json, TorchAir, "
    "DumpConfig) are",
    kinds.FX: "they are golden values for the dumps of GE: TARGET is the folder that holds "
    "GE's dump "
    "files",
    kinds.ATB: _OWN_COMPARISON + "msit llm compare is for two such dumps",
    kinds.MINDSPORE: "MindSpore wrote arrays already; its dumps as the device writes them "
    "(file_format bin) "
    "can be compared",
    kinds.MINDSPORE_STATISTICS: _NAME_FOLDER,
    kinds.TORCH: "goldwatch compare takes two files of one tensor, and goldwatch convert makes npy "
    "files of a folder; what holds more than tensors is to be saved again where PyTorch is, each "
    "tensor by itself: torch.save(tensor, FILE)",
    kinds.TENSOR_PROTO: _OF_ONNX,
    kinds.MISNAMED: "%s; outputs of the network that a program of your own wrote are given each by "
    "its name or number (docs/outputs.md)" % _WANTED_DUMPS,
    kinds.NUMBERS: "TARGET is what the device wrote: name the dump files from which the text "
    "was made",
    kinds.RAW: "nothing in it tells type and shape: numpy.fromfile(path, dtype).reshape(shape) and "
    "numpy.save make an npy of it; "
    "outputs that a runner (ais_bench, msame) wrote are compared by goldwatch compare, with "
    "the model's json, which tells both",
}
_GOLDEN: Dict[str, str] = {
    **_DUMPED,
    kinds.CONVERTED: "name the dump files themselves: GOLDEN may hold the dumps of another "
    "run or build",
    kinds.FX: "FX names values by PyTorch's nodes, which only GE's original graph links with the "
    "device's ops",
    kinds.MISNAMED: "goldwatch golden tf rename repairs such names; %s" % _WANTED_GOLDEN,
    kinds.MODELS: "goldwatch golden caffe, golden tf and golden onnx make golden data of a model",
    kinds.NPZ: "golden data are one npy file a tensor: numpy.load(path) gives the arrays of an "
    "npz to be "
    "saved so",
    kinds.NUMBERS: "golden data are npy files: numpy.loadtxt(path).reshape(shape) and "
    "numpy.save make one",
}


class Advice(NamedTuple):
    """What is wrong (the end of a sentence), and what to do."""

    words: str
    hint: str


def model_error(path: str) -> Optional[InputError]:
    """Return the error for a file given as a model that is something else; None if it may be a
    model or is of unknown kind.
    """
    kind = _kind(path)
    if kind is None or kind.name in (
        kinds.OM_JSON,
        kinds.GE_TEXT,
        kinds.OM,
        kinds.EMPTY,
        kinds.RAW,
        kinds.JSON,
        *kinds.PLAIN_TEXTS,
    ):
        return None
    hint = "give %s" % _WANTED_MODEL
    if kind.name in kinds.ORIGINALS:
        hint = (
            "give %s: what the compiler made of it; goldwatch graph and golden take the "
            "original model" % _WANTED_MODEL
        )
    elif kind.name in _FORMS_OF_GE:
        hint = _ge_proto(path)
    elif kind.name in _MODEL:
        hint = "%s; %s" % (hint, _MODEL[kind.name])
    return InputError("this is %s, not the compiled model" % kind.words, hint, path)


def _ge_proto(path: str) -> str:
    """Return advice that names the same graph in readable form in the same folder."""
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    for form in ("ge_onnx_", "ge_readable_"):
        beside = os.path.join(folder, stem.replace(form, "ge_proto_") + ".txt")
        if name.startswith(form) and os.path.isfile(beside):
            return "give %s, the same graph" % beside
    return (
        "give ge_proto_*_Build.txt, which GE writes beside it (DUMP_GE_GRAPH=2), or %s"
        % _WANTED_MODEL
    )


def without_dumps(target: Folder, golden: Folder) -> Advice:
    """Return advice on TARGET, a folder without a dump file, by what it holds instead.

    Parameters
    ----------
    golden
        GOLDEN, to detect whether the two were exchanged.
    """
    return exchanged(target, golden) or _advice(
        kinds_in_folder(target), _DUMPED, _WANTED_DUMPS, target.root
    )


def watched_without_dumps(target: Folder) -> Optional[Advice]:
    """Return advice on TARGET, a folder to watch, by what it holds instead of dump files; None if
    it holds dumps or nothing known.
    """
    kinds_there = kinds_in_folder(target)
    advice = _advice(kinds_there, _DUMPED, _WANTED_DUMPS, target.root)
    return (
        advice if advice.words and kinds.DUMPS not in {kind.name for kind in kinds_there} else None
    )


def exchanged(target: Folder, golden: Folder) -> Optional[Advice]:
    """Return advice if TARGET and GOLDEN were exchanged: TARGET holds npy files and no dump file,
    GOLDEN a device's dumps; else None.
    """
    names = {kind.name for kind in kinds_in_folder(target)}
    if not names & {kinds.GOLDEN, kinds.MISNAMED} or kinds.DUMPS in names:
        return None
    if kinds.DUMPS not in {kind.name for kind in kinds_in_folder(golden)}:
        return None
    words = "it holds npy files, and GOLDEN (%s) a device's dumps: the two are exchanged"
    hint = "name the device's dumps first: TARGET %s, GOLDEN %s" % (golden.root, target.root)
    return Advice(words % golden.root, hint)


def without_golden(golden: Folder) -> Advice:
    """Return advice on GOLDEN, a folder without golden data, by what it holds instead."""
    return _advice(
        [kind for kind in kinds_in_folder(golden) if kind.name != kinds.DUMPS],
        _GOLDEN,
        _WANTED_GOLDEN,
        golden.root,
    )


def foreign_golden(golden: Folder) -> Optional[Advice]:
    """Return advice if GOLDEN holds another tool's arrays whose names look like golden files; else
    None."""
    kinds_there = kinds_in_folder(golden)
    names = {kind.name for kind in kinds_there}
    if kinds.FX not in names or names & {kinds.GOLDEN, kinds.DUMPS}:
        return None
    return _advice(kinds_there, _GOLDEN, _WANTED_GOLDEN, golden.root)


def _advice(
    kinds_there: Sequence[Kind], hints: Dict[str, str], otherwise: str, folder: str
) -> Advice:
    for kind in kinds_there:
        if kind.name == kinds.NUMBERS and not _is_numbers(os.path.join(folder, kind.example)):
            continue
        if kind.name == kinds.RAW and _is_dump(os.path.join(folder, kind.example)):
            words = (
                "it holds dump files whose names are not as a device writes them (%s, such as %s)"
            )
            named = (
                _WANTED_DUMPS
                if parse_dump_name(os.path.splitext(os.path.basename(kind.example))[0]) is None
                else "take the ending off"
            )
            return Advice(words % (plural(kind.files, "file"), kind.example), named)
        if kind.name in hints or kind.name in (kinds.GOLDEN, kinds.MISNAMED):
            words = "it holds %s (%s, such as %s)" % (
                kind.words,
                plural(kind.files, "file"),
                kind.example,
            )
            return Advice(words, hints.get(kind.name, otherwise))
    return Advice("", otherwise)


def not_a_dump(path: str) -> Optional[Advice]:
    """Return advice on a file that does not begin like a dump; None if unknown (a damaged dump, or
    raw bytes).
    """
    kind = _kind(path)
    named = _MODEL_ENDINGS.get(os.path.splitext(path)[1].lower())
    if named is not None and (kind is None or kind.name in (kinds.PROTOBUF, kinds.RAW)):
        words = "by its name it is %s, but it cannot be read as one: it is cut short or damaged"
        return Advice(words % kinds.WORDS[named], "copy it again, and compare the sizes")
    if kind is None or kind.name in (kinds.PROTOBUF, kinds.DUMP, kinds.EMPTY):
        return None
    if kind.name == kinds.RAW and not os.path.basename(path).lower().endswith(_RAW_ENDINGS):
        return None
    if kind.name == kinds.NPY and path.endswith(".npy"):
        return None
    return Advice(
        "this is %s" % kind.words,
        _FILE_HINTS.get(kind.name, "expected a dump file, an npy, or a pb or quant container"),
    )


_MODEL_ENDINGS = {".onnx": kinds.ONNX, ".caffemodel": kinds.CAFFEMODEL, ".prototxt": kinds.PROTOTXT}
_RAW_ENDINGS = (".bin", ".raw", ".dat")
_FILE_HINTS: Dict[str, str] = {
    kinds.ATB: _DUMPED[kinds.ATB],
    kinds.RAW: _DUMPED[kinds.RAW],
    kinds.TORCH: _DUMPED[kinds.TORCH],
    kinds.PICKLE: "a pickle is never loaded (it can run code): %s" % _DUMPED[kinds.TORCH],
    kinds.NUMBERS: _GOLDEN[kinds.NUMBERS],
    kinds.NPZ: _GOLDEN[kinds.NPZ],
    kinds.TENSOR_PROTO: _OF_ONNX,
    kinds.STATISTICS: _NAME_FOLDER,
    kinds.MINDSPORE_STATISTICS: _NAME_FOLDER,
    kinds.LFS: "fetch it: git lfs pull",
    kinds.ARCHIVE: "unpack it (tar -xzf, or gunzip), and name the folder or file that was in it",
    kinds.TAR: "unpack it (tar -xf), and name the folder that was in it",
    kinds.OM: "goldwatch locate MODEL OM runs an om and compares; its dumps are compared here",
    **dict.fromkeys(
        kinds.ORIGINALS,
        "goldwatch locate MODEL OM runs an om and compares; goldwatch golden makes golden data of "
        "a model",
    ),
    kinds.TEXT: "numbers in a text file become an npy by numpy.loadtxt(path) and numpy.save",
    kinds.NPY: "an npy file is known by its ending: call it *.npy",
}


def _is_dump(path: str) -> bool:
    kind = _kind(path)
    return kind is not None and kind.name == kinds.DUMP


def _is_numbers(path: str) -> bool:
    kind = _kind(path)
    return kind is not None and kind.name == kinds.NUMBERS


def no_folder(path: str, what: str) -> Optional[Advice]:
    """Return advice on a file that was named as a folder of dumps or golden data; None if its kind
    is not known.
    """
    kind = _kind(path)
    if kind is None or kind.name in (kinds.RAW, kinds.PROTOBUF, kinds.EMPTY):
        return None
    hint = _FILE_HINTS.get(kind.name, _WANTED_DUMPS if what == "TARGET" else _WANTED_GOLDEN)
    return Advice("this is %s, not a folder" % kind.words, hint)


def is_raw(path: str) -> bool:
    """Return whether a file has the name of raw elements and no known beginning."""
    kind = _kind(path) if path.lower().endswith(_RAW_ENDINGS) else None
    return kind is not None and kind.name == kinds.RAW


def _kind(path: str) -> Optional[Kind]:
    """Return what a file is; None if it cannot be read: its reader reports why."""
    with contextlib.suppress(GoldwatchError, OSError):
        return kind_of_file(path)
    return None
