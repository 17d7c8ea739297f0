"""The stand-in's ais_bench: ``python3 -m ais_bench`` with the options that its public documentation
tells, and what its module aclruntime tells of an om's inputs.

Source: the public documentation and sources of ais_bench (names of files, words, how inputs are put
together and outputs parted), and of mindstudio-probe 26.2.0, which asks aclruntime.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from types import SimpleNamespace
from typing import Any, List, Optional, Sequence

import numpy as np

from .pyacl import Acl
from .runner_session import (
    DTYPE_NAMES,
    RunnerError,
    RunRequest,
    Session,
    error,
    info,
    named_shapes,
    stem,
)

_PURE = "pure_infer_data"


class InferenceSession:
    """aclruntime's class: an om on a device, asked for its inputs."""

    def __init__(self, acl: Acl, model: str, device: int) -> None:
        self._session = Session(acl, RunRequest(model, device, None))

    def get_inputs(self) -> List[Any]:
        """Return name, datatype (with its ``name``) and shape of each."""
        acl, desc = self._session.acl, self._session.desc
        inputs = []
        for number, shape in enumerate(self._session.shapes()):
            kind = SimpleNamespace(name=DTYPE_NAMES[acl.get_input_data_type(desc, number)])
            name = acl.get_input_name_by_index(desc, number)
            inputs.append(SimpleNamespace(name=name, datatype=kind, shape=list(shape)))
        return inputs

    def free_resource(self) -> None:
        """Give the device back."""
        self._session.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ais_bench")
    parser.add_argument("--model", "--om", required=True)
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--output_dirname")
    parser.add_argument("--outfmt", default="BIN", choices=["NPY", "BIN", "TXT"])
    parser.add_argument("--loop", type=int, default=1)
    parser.add_argument("--debug", type=_truth, default=False)
    parser.add_argument("--device", default="0")
    parser.add_argument("--dymBatch", type=int, default=0)
    parser.add_argument("--dymHW")
    parser.add_argument("--dymDims")
    parser.add_argument("--dymShape")
    parser.add_argument("--outputSize")
    parser.add_argument("--auto_set_dymshape_mode", type=_truth, default=False)
    parser.add_argument("--auto_set_dymdims_mode", type=_truth, default=False)
    parser.add_argument("--batchsize", type=int)
    parser.add_argument("--pure_data_type", default="zero", choices=["zero", "random"])
    parser.add_argument("--dump", type=_truth, default=False)
    parser.add_argument("--acl_json_path")
    parser.add_argument("--output_batchsize_axis", type=int, default=0)
    parser.add_argument("--display_all_summary", type=_truth, default=False)
    parser.add_argument("--warmup_count", type=int, default=1)
    return parser


def _truth(text: str) -> bool:
    if text.lower() not in ("1", "true", "0", "false"):
        raise argparse.ArgumentTypeError("Boolean value expected.")
    return text.lower() in ("1", "true")


def main(acl: Acl, arguments: Optional[Sequence[str]] = None) -> int:
    """Run ais_bench and return its exit code."""
    given = _parser().parse_args(arguments)
    if sum(bool(one) for one in (given.dymBatch, given.dymHW, given.dymDims, given.dymShape)) > 1:
        error("Invalid args. dymBatch, dymHW, dymDims and dymShape exclude one another")
        return 1
    for option, path in (("--model", given.model), ("--acl_json_path", given.acl_json_path)):
        if path is not None and not os.path.isfile(path):
            error("Invalid args. %s of %s is invalid" % (path, option))
            return 1
    try:
        return _run(acl, given)
    except RunnerError as problem:
        print("RuntimeError: %s" % problem, flush=True)
        return 1


def _run(acl: Acl, given: Any) -> int:
    config = given.acl_json_path
    if config is None and given.dump and given.output:
        config = _own_config(given)
    request = RunRequest(
        given.model,
        int(given.device.split(",")[0]),
        config,
        given.dymBatch or None,
        tuple(int(size) for size in given.dymHW.split(",")) if given.dymHW else None,  # type: ignore[arg-type]
        named_shapes(given.dymDims) if given.dymDims else None,
        named_shapes(given.dymShape) if given.dymShape else None,
        [int(size) for size in given.outputSize.split(",")] if given.outputSize else [],
    )
    session = Session(acl, request)
    sizes = session.sizes()
    files = given.input.split(",") if given.input else []
    batches = _batches(files, sizes, given.pure_data_type)
    place = _place(given)
    for _ in range(given.warmup_count):
        session.run(batches[0][1])
        info("warm up 1 done")
    for number, (names, inputs) in enumerate(batches):
        for _ in range(given.loop):
            outputs = session.run(inputs)
        if place is not None:
            _save(place, given.outfmt.lower(), outputs, names, number, given.output_batchsize_axis)
    if place is not None:
        info("output path:%s" % place)
        with open(place + "_summary.json", "w", encoding="utf-8") as stream:
            json.dump(
                {"filesinfo": {str(n): {"infiles": names} for n, (names, _) in enumerate(batches)}},
                stream,
            )
    info("-----------------Performance Summary------------------")
    info("NPU_compute_time (ms): the stand-in measures nothing")
    info("------------------------------------------------------")
    session.close()
    return 0


def _own_config(given: Any) -> str:
    """Write the configuration of ``--dump``: everything of the model into the folder dump of
    --output.
    """
    folder = os.path.join(os.path.abspath(given.output), "dump")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(given.output, "acl.json")
    with open(path, "w", encoding="utf-8") as stream:
        document = {
            "dump_path": folder,
            "dump_mode": "all",
            "dump_list": [{"model_name": stem(given.model)}],
        }
        json.dump({"dump": document}, stream)
    return path


def _place(given: Any) -> Optional[str]:
    if not given.output:
        return None
    place = os.path.join(given.output, given.output_dirname or time.strftime("%Y_%m_%d-%H_%M_%S"))
    os.makedirs(place, exist_ok=True)
    return place


def _batches(files: Sequence[str], sizes: Sequence[int], pure: str) -> List[Any]:
    """Return (names of the files of a batch, the inputs' bytes) for each inference; folders hold
    one input's samples each.
    """
    if not files:
        random = np.random.RandomState(0)
        return [
            ([_PURE], [random.bytes(size) if pure == "random" else bytes(size) for size in sizes])
        ]
    if all(os.path.isdir(path) for path in files) and len(files) == len(sizes):
        lists = [
            sorted(
                os.path.join(path, name)
                for name in os.listdir(path)
                if name.endswith((".bin", ".npy"))
            )
            for path in files
        ]
    else:
        if len(files) % len(sizes):
            error(
                "create intensors list filelists:%d intensorcont:%d error create"
                % (len(files), len(sizes))
            )
            raise RunnerError("the number of files is not that of the inputs")
        chunk = len(files) // len(sizes)
        lists = [list(files[number * chunk : (number + 1) * chunk]) for number in range(len(sizes))]
    for path in [path for paths in lists for path in paths]:
        if not os.path.isfile(path):
            error("Invalid args. %s of --input is invalid" % path)
            raise RunnerError("no such file: %s" % path)
    together = 1
    for number, (paths, size) in enumerate(zip(lists, sizes)):
        held = len(_content(paths[0]))
        if not held or size % held:
            error("arg%d tensorsize: %d filesize: %d not match" % (number, size, held))
            raise RunnerError("file size is not that of the input")
        together = max(together, size // held)
    batches = []
    for start in range(0, len(lists[0]), together):
        names = lists[0][start : start + together]
        inputs = []
        for paths, size in zip(lists, sizes):
            data = b"".join(_content(path) for path in paths[start : start + together])
            inputs.append(data.ljust(size, b"\0"))
        batches.append((names, inputs))
    return batches


def _content(path: str) -> bytes:
    if path.lower().endswith(".npy"):
        return np.ascontiguousarray(np.load(path, allow_pickle=False)).tobytes()
    with open(path, "rb") as stream:
        return stream.read()


def _save(
    place: str, form: str, outputs: Sequence[Any], names: Sequence[str], number: int, axis: int
) -> None:
    """Write the outputs of a batch, parted where it was put together of several files."""
    for index, array in enumerate(outputs):
        parts = np.array_split(array, len(names), axis) if len(names) > 1 else [array]
        for name, part in zip(names, parts):
            path = os.path.join(
                place, "%s_%d.%s" % (stem(name) if name != _PURE else _PURE, index, form)
            )
            if form == "npy":
                np.save(path, part)
            elif form == "bin":
                np.ascontiguousarray(part).tofile(path)
            else:
                np.savetxt(
                    path,
                    part.reshape(-1, part.shape[-1] if part.ndim else 1),
                    "%f" if part.dtype.kind == "f" else "%d",
                )
