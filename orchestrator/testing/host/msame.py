"""The stand-in's msame, with the options of the public tool. It ends with 0 where it refuses its
arguments, as the public one does.

Source: msame's public sources (``main.cpp``, ``sample_process.cpp``) and documentation.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Dict, List, Optional, Sequence

import numpy as np

from .pyacl import Acl
from .runner_session import RunnerError, RunRequest, Session, error, info, named_shapes, stem

_OPTIONS = (
    "model input output outfmt help dump profiler loop dymBatch dymDims dymHW dymShape device "
    "outputSize debug"
).split()
_CONFIG = "./acl.json"


def main(acl: Acl, arguments: Optional[Sequence[str]] = None) -> int:
    """Run msame and return its exit code."""
    given = _options(list(sys.argv[1:] if arguments is None else arguments))
    if given is None:
        return 0
    if "model" not in given or ".om" not in given["model"]:
        error("input model file type is not .om , please check your model type!")
        return 0
    dynamic = [name for name in ("dymBatch", "dymDims", "dymHW", "dymShape") if name in given]
    if len(dynamic) > 1:
        error("dymBatch dymDims dymHW dymShape cannot be set at the same time")
        return 1
    if given.get("dump") == "true":
        folder = os.path.join(os.path.abspath(given.get("output", ".")), "dump")
        os.makedirs(folder, exist_ok=True)
        with open(_CONFIG, "w", encoding="utf-8") as stream:
            json.dump(
                {
                    "dump": {
                        "dump_path": folder,
                        "dump_mode": "all",
                        "dump_list": [{"model_name": stem(given["model"])}],
                    }
                },
                stream,
            )
    size = given.get("dymHW", "").split(",")
    request = RunRequest(
        given["model"],
        int(given.get("device", "0")),
        _CONFIG if os.path.exists(_CONFIG) else None,
        int(given["dymBatch"]) if "dymBatch" in given else None,
        (int(size[0]), int(size[1])) if len(size) == 2 else None,
        named_shapes(given["dymDims"]) if "dymDims" in given else None,
        named_shapes(given["dymShape"]) if "dymShape" in given else None,
        [int(text) for text in given["outputSize"].split(",")] if "outputSize" in given else [],
    )
    try:
        return _run(acl, request, given)
    except RunnerError as problem:
        error("Sample process failed: %s" % problem)
        return 1


def _options(words: List[str]) -> Optional[Dict[str, str]]:
    options: Dict[str, str] = {}
    while words:
        name, sign, value = words.pop(0).lstrip("-").partition("=")
        if name not in _OPTIONS or (not sign and not words):
            error("unknown paramenter")
            error("Execute sample failed")
            return None
        options[name] = value if sign else words.pop(0)
    return options


def _run(acl: Acl, request: RunRequest, given: Dict[str, str]) -> int:
    session = Session(acl, request)
    files = given["input"].split(",") if given.get("input") else []
    wrong = next((path for path in files if ".bin" not in path and not os.path.isdir(path)), None)
    if wrong is not None:
        error("input parameter must be folder or file ending in '.bin'")
        return 0
    place = os.path.join(
        given.get("output", "."),
        time.strftime("%Y%m%d_%H_%M_%S_") + "%06d" % (time.time() * 1e6 % 1e6),
    )
    os.makedirs(place, exist_ok=True)
    print(place, flush=True)
    sizes = session.sizes()
    samples = sorted(os.listdir(files[0])) if files and os.path.isdir(files[0]) else [""]
    for sample in samples:
        inputs = []
        paths = [os.path.join(path, sample) if sample else path for path in files]
        for number, path in enumerate(paths):
            info("start to process file:%s" % path)
            with open(path, "rb") as stream:
                inputs.append(stream.read())
            if len(inputs[-1]) != sizes[number]:
                error(
                    "input size %d does not match the model's %d" % (len(inputs[-1]), sizes[number])
                )
                raise RunnerError("model create input failed")
        outputs = session.run(inputs or [bytes(size) for size in sizes])
        name = os.path.splitext(sample)[0] if sample else stem(given["model"])
        form = "txt" if given.get("outfmt") == "TXT" else "bin"
        for index, array in enumerate(outputs):
            path = os.path.join(place, "%s_output_%d.%s" % (name, index, form))
            if form == "bin":
                np.ascontiguousarray(array).tofile(path)
            else:
                np.savetxt(path, array.reshape(-1, array.shape[-1] if array.ndim else 1), "%g")
        info("output data success")
    session.close()
    info("Execute sample success")
    return 0
