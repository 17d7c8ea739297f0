"""A made-up chain of ops of any number and size: its om json, its golden data and its dumps,
without keeping the dumps in memory.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any, Dict, Iterator, Optional, Tuple

import numpy as np

from ..base.errors import FormatError, UsageError, require_file
from ..base.fast_dataclasses import dataclass
from ..base.naming import compose_golden_name
from ..dumps.write import TensorData
from ..tensors.layout_conversion import convert
from .device_dump import DeviceDump, Place, dump_name
from .device_model import FIRST_TIMESTAMP_US, DeviceModel, DeviceOp, DeviceTensor

Array = Any

NETWORK_FILE = "network.json"
MODEL_FILE = "model.json"
GOLDEN_FOLDER = "golden"

_TILE = 256
_SHIFTS = 4096
_STEP_US = 60 * 1000 * 1000
_LAYOUTS = (("NC1HWC0", "NCHW", "Conv2D"), ("FRACTAL_NZ", "ND", "MatMul"), ("ND", "ND", "Relu"))


@dataclass(frozen=True)
class Network:
    """data -> op_0 -> op_1 -> ..., each op with one float16 output of the same size.

    Attributes
    ----------
    ops
        Number of ops, not counting the input and output of the network.
    tensor_bytes
        Size of each output on the device; the layouts NC1HWC0, FRACTAL_NZ and ND take turns where
        it is a multiple of 512 bytes, else all are ND.
    seed
        Decides the values.
    broken
        Number of an op that is computed wrong, and with it all behind it.
    inputs
        Whether a dump holds the op's input too.
    name
        Of the model.
    """

    ops: int = 10
    tensor_bytes: int = 1 << 20
    seed: int = 0
    broken: Optional[int] = None
    inputs: bool = True
    name: str = "net"

    def __post_init__(self) -> None:
        if self.ops < 1 or self.tensor_bytes < 2 or self.tensor_bytes % 2:
            raise UsageError(
                "a network needs at least one op, and tensors of an even number of bytes"
            )
        if self.broken is not None and not 0 <= self.broken < self.ops:
            raise UsageError(
                "there is no op %d to compute wrong: the ops are 0 to %d"
                % (self.broken, self.ops - 1)
            )

    @property
    def count(self) -> int:
        """Elements of each tensor."""
        return self.tensor_bytes // 2

    def values(self, seed_offset: int = 0) -> Array:
        """Return the float32 numbers of which every tensor is a window."""
        random = np.random.RandomState(self.seed + seed_offset)
        pool = random.standard_normal(self.count + _SHIFTS).astype(np.float32)
        return pool

    def _window(self, number: int) -> slice:
        start = (number + 1) * 509 % _SHIFTS
        return slice(start, start + self.count)

    def layout(self, number: int) -> Tuple[str, str, str, Tuple[int, ...], Tuple[int, ...]]:
        """Return an op's device layout, original layout, type, stored shape and original shape; -1
        is the network's input.
        """
        tiles = self.count // _TILE
        if number < 0 or self.count % _TILE:
            return "ND", "ND", "Relu", (self.count,), (self.count,)
        format, origin, kind = _LAYOUTS[number % len(_LAYOUTS)]
        if format == "NC1HWC0":
            return format, origin, kind, (1, 1, tiles, 16, 16), (1, 16, tiles, 16)
        if format == "FRACTAL_NZ":
            return format, origin, kind, (tiles, 1, 16, 16), (16, tiles * 16)
        return format, origin, kind, (self.count,), (self.count,)

    def op_name(self, number: int) -> str:
        """Return an op's name; -1 is the network's input."""
        return "op_%d" % number if number >= 0 else "data"

    def model(self) -> DeviceModel:
        """Return the ops without their values, for the om json."""
        model = DeviceModel(self.name)
        source: Tuple[Tuple[str, int], ...] = ()
        for number in range(-1, self.ops):
            format, origin, kind, _, shape = self.layout(number)
            name = self.op_name(number)
            tensor = DeviceTensor(np.broadcast_to(np.float16(0), shape), format, origin, name)
            model.add(
                DeviceOp(
                    name,
                    kind if number >= 0 else "Data",
                    source,
                    (tensor,),
                    (name,) if number >= 0 else None,
                )
            )
            source = ((name, 0),)
        model.add(DeviceOp("Node_Output", "NetOutput", source, (), ()))
        return model

    def golden(self) -> Iterator[Tuple[str, Array]]:
        """Yield each op's name and its exact float32 values in the original layout."""
        pool = self.values()
        for number in range(-1, self.ops):
            format, origin, _, stored, shape = self.layout(number)
            values = pool[self._window(number)].reshape(stored)
            yield (
                self.op_name(number),
                values if format == origin else convert(values, format, origin, stored, shape),
            )

    def dumps(
        self,
        time: Optional[str] = "20260102030405",
        device: int = 0,
        model_id: int = 1,
        step: int = 0,
        first_timestamp_us: int = FIRST_TIMESTAMP_US,
        generation: str = "stream",
    ) -> Iterator[DeviceDump]:
        """Yield the dump files of one device and step; parameters as for :meth:`DeviceModel.dumps`.
        A minute lies between two steps.
        """
        folder = Place(time, device, self.name, model_id, step).folder()
        good = self.values().astype(np.float16)
        bad = self.values(1).astype(np.float16) if self.broken is not None else good
        before = self._tensor(good, -1)
        for number in range(self.ops):
            output = self._tensor(
                bad if self.broken is not None and number >= self.broken else good, number
            )
            timestamp_us = first_timestamp_us + step * _STEP_US + 1000 * number
            op = self.op_name(number)
            name = dump_name(
                self.layout(number)[2],
                op,
                number + 1,
                timestamp_us,
                generation,
                context_id=number,
                device_id=device,
            )
            yield DeviceDump(folder, name, [before] if self.inputs else [], [output], op_name=op)
            before = output

    def output(self) -> Array:
        """Return the network's output as the device hands it out: float16, stored as the json
        says.
        """
        last = self.ops - 1
        pool = self.values(0 if self.broken is None else 1).astype(np.float16)
        return pool[self._window(last)].reshape(self.layout(last)[3])

    def _tensor(self, pool: Array, number: int) -> TensorData:
        format, _, _, stored, shape = self.layout(number)
        address = 0x100000000 + (number + 1) * (self.tensor_bytes + 512)
        return TensorData(
            pool[self._window(number)].reshape(stored),
            format=format,
            original_shape=shape,
            address=address,
        )

    def write(self, folder: str) -> Dict[str, Any]:
        """Write network.json, model.json (the om json) and golden/ into a new folder; return what
        :meth:`read` needs.

        Raises
        ------
        UsageError
            The folder holds a network already.
        """
        if os.path.exists(os.path.join(folder, NETWORK_FILE)):
            raise UsageError("%s already holds a network" % folder, hint="take another folder")
        golden = os.path.join(folder, GOLDEN_FOLDER)
        os.makedirs(golden, exist_ok=True)
        self.model().write_json(os.path.join(folder, MODEL_FILE))
        for name, values in self.golden():
            np.save(os.path.join(golden, compose_golden_name(name, 0, FIRST_TIMESTAMP_US)), values)
        document = asdict(self)
        with open(os.path.join(folder, NETWORK_FILE), "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
        return document

    @classmethod
    def read(cls, folder: str) -> Network:
        """Return the network that :meth:`write` wrote there.

        Raises
        ------
        MissingPath, FormatError
            There is none.
        """
        path = os.path.join(folder, NETWORK_FILE)
        require_file(path, "the network")
        try:
            with open(path, encoding="utf-8") as stream:
                return cls(**json.load(stream))
        except (ValueError, TypeError) as error:
            raise FormatError("no network of goldwatch.testing: %s" % error, path) from None
