"""What the stand-ins of ais_bench and msame have in common: an om run by way of the module acl,
each step told as they tell it.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...base.element_types import BY_NAME
from .pyacl import DATA_TYPES, Acl

Array = Any
DTYPE_NAMES = {code: name for name, code in DATA_TYPES.items()}
TO_DEVICE, TO_HOST = 1, 2


class RunnerError(Exception):
    """What ended a run; its text was printed."""


class RunRequest(NamedTuple):
    """What a command line asks for; of the dynamic options one at most."""

    model: str
    device: int
    config: Optional[str]
    batch: Optional[int] = None
    size: Optional[Tuple[int, int]] = None
    dims: Optional[Dict[str, Tuple[int, ...]]] = None
    shape: Optional[Dict[str, Tuple[int, ...]]] = None
    output_bytes: Sequence[int] = ()


class Session:
    """One om on one device.

    Parameters
    ----------
    acl
        The state behind the module.
    request
        What is run, and how.
    """

    def __init__(self, acl: Acl, request: RunRequest) -> None:
        self.acl, self.request = acl, request
        self.need("acl init failed", acl.init(request.config))
        info("acl init success")
        self.need(
            "acl open device %d failed" % request.device,
            acl.set_device(request.device),
            "SetDevice failed.ret=%d",
        )
        info("open device %d success" % request.device)
        self.model, code = acl.load_from_file(request.model)
        self.need("load model from file failed, model file is %s" % request.model, code)
        info("load model %s success" % request.model)
        self.desc = acl.create_desc()
        self.need("get model description failed", acl.get_desc(self.desc, self.model))
        info("create model description success")
        self.count = acl.get_num_inputs(self.desc) - self.has_gears()

    def need(self, words: str, code: int, more: str = "ret=%d") -> None:
        """Print what failed, and raise."""
        if code:
            print("[ACL ERROR] %s" % self.acl.words if self.acl.words else "", flush=True)
            print("[ERROR] %s" % words, flush=True)
            raise RunnerError("%s (%s)" % (words, more % code))

    def has_gears(self) -> bool:
        """Tell whether a gear is asked for."""
        return any(
            entry is not None
            for entry in (self.request.batch, self.request.size, self.request.dims)
        )

    def sizes(self) -> List[int]:
        """Return the bytes of each input in this run."""
        shapes, sizes = self.shapes(), []
        for number in range(self.count):
            kind = DTYPE_NAMES[self.acl.get_input_data_type(self.desc, number)]
            size = self.acl.get_input_size_by_index(self.desc, number)
            shape = shapes[number]
            file_sizes = (
                int(np.prod(shape)) * BY_NAME[kind].bits // 8
                if all(dim >= 0 for dim in shape)
                else size
            )
            # What the description says counts where nothing is told when it runs.
            sizes.append(file_sizes if self.has_gears() or self.request.shape else size)
        return sizes

    def shapes(self) -> List[Tuple[int, ...]]:
        """Return the shape of each input in this run."""
        shapes = []
        for number in range(self.count):
            dims, _ = self.acl.get_input_dims(self.desc, number)
            shape, request = tuple(dims["dims"]), self.request
            named = {**(request.dims or {}), **(request.shape or {})}
            if request.batch is not None:
                shape = tuple(request.batch if dim < 0 else dim for dim in shape)
            elif request.size is not None:
                rest = list(request.size)
                shape = tuple(rest.pop(0) if dim < 0 and rest else dim for dim in shape)
            shapes.append(named.get(dims["name"], shape))
        return shapes

    def run(self, inputs: Sequence[bytes]) -> List[Array]:
        """Run it and return the outputs."""
        acl = self.acl
        given, results = acl.create_dataset(), acl.create_dataset()
        for data in inputs:
            address, code = acl.malloc(len(data), 0)
            self.need("malloc device buffer fail", code)
            source = np.frombuffer(data, np.uint8)
            self.need(
                "memcpy fail",
                acl.memcpy(address, len(data), source.ctypes.data, len(data), TO_DEVICE),
            )
            acl.add_dataset_buffer(given, acl.create_data_buffer(address, len(data)))
        self._tell(given)
        rooms = []
        for number in range(acl.get_num_outputs(self.desc)):
            room = acl.get_output_size_by_index(self.desc, number)
            if self.request.output_bytes:
                room = (
                    self.request.output_bytes[number]
                    if number < len(self.request.output_bytes)
                    else 0
                )
            address, code = acl.malloc(room, 0)
            self.need("can't malloc buffer, size is %d, create output failed" % room, code)
            rooms.append(address)
            acl.add_dataset_buffer(results, acl.create_data_buffer(address, room))
        self.need(
            "execute model failed, modelId is %d" % self.model,
            acl.execute(self.model, given, results),
        )
        info("model execute success")
        return [self._output(number, address) for number, address in enumerate(rooms)]

    def _output(self, number: int, address: int) -> Array:
        dims, _ = self.acl.get_cur_output_dims(self.desc, number)
        kind = DTYPE_NAMES[self.acl.get_output_data_type(self.desc, number)]
        shape = tuple(dims["dims"])
        array = np.empty(shape, np.dtype(BY_NAME[kind].storage or "u1"))
        self.need(
            "memcpy fail",
            self.acl.memcpy(array.ctypes.data, array.nbytes, address, array.nbytes, TO_HOST)
            if array.size
            else 0,
        )
        return array.view(bool) if kind == "bool" else array

    def _tell(self, given: int) -> None:
        """Tell the gear or the shapes of this run."""
        acl, request = self.acl, self.request
        if self.has_gears():
            index, code = acl.get_input_index_by_name(self.desc, "ascend_mbatch_shape_data")
            self.need("get input index by name failed, the model is not dynamic", code)
            size = acl.get_input_size_by_index(self.desc, index)
            address, code = acl.malloc(size, 0)
            self.need("malloc device buffer fail", code)
            acl.add_dataset_buffer(given, acl.create_data_buffer(address, size))
            if request.batch is not None:
                self.need(
                    "set dynamic batch size failed",
                    acl.set_dynamic_batch_size(self.model, given, index, request.batch),
                )
            elif request.size is not None:
                self.need(
                    "set dynamic hw failed",
                    acl.set_dynamic_hw_size(self.model, given, index, *request.size),
                )
            else:
                whole = [dim for shape in self.shapes() for dim in shape]
                dims = {"name": "", "dimCount": len(whole), "dims": whole}
                self.need(
                    "set dynamic dims failed",
                    acl.set_input_dynamic_dims(self.model, given, index, dims),
                )
        elif request.shape is not None:
            for number, shape in enumerate(self.shapes()):
                desc = acl.create_tensor_desc(
                    acl.get_input_data_type(self.desc, number), list(shape), 2
                )
                self.need(
                    "set dataset tensor desc failed",
                    acl.set_dataset_tensor_desc(given, desc, number)[1],
                )

    def close(self) -> None:
        """Give everything back, in the order in which they do."""
        self.acl.unload(self.model)
        info("unload model success, model Id is %d" % self.model)
        self.acl.reset_device(self.request.device)
        info("end to reset device is %d" % self.request.device)
        self.acl.finalize()
        info("end to finalize acl")


def info(words: str) -> None:
    """Print a line as both programs do."""
    print("[INFO] %s" % words, flush=True)


def error(words: str) -> None:
    """Print what is wrong."""
    print("[ERROR] %s" % words, flush=True)


def named_shapes(text: str) -> Dict[str, Tuple[int, ...]]:
    """Return the shapes of ``x:1,3;y:2``."""
    shapes = {}
    for entry in text.split(";"):
        name, _, dims = entry.rpartition(":")
        shapes[name] = tuple(int(dim) for dim in dims.split(","))
    return shapes


def stem(path: str) -> str:
    """Return what a file is called without its ending."""
    return os.path.splitext(os.path.basename(path))[0]
