"""The child's side: runs an om once by pyACL's public functions alone, every return code checked.

It runs in the host's own Python, which needs the module ``acl`` of the toolkit and numpy.
Source: the vendor's public pyACL reference (functions, their results, the order in which they are
called).
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from ...base.atomic_writing import create_new
from ...base.errors import EnvironmentProblem, InputError
from ...base.safe_reading import open_input
from ..child.serve import Parent
from .error_codes import explained

Shape = Tuple[int, ...]

HUGE_PAGES_FIRST = 0
TO_DEVICE, TO_HOST, INSIDE = 1, 2, 3
ON_DEVICE = 0
ND = 2
NPY_BYTE = 1
GEAR_INPUT = "ascend_mbatch_shape_data"
TYPES = {
    0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16",
    8: "uint32", 9: "int64", 10: "uint64",
    11: "float64", 12: "bool", 16: "complex64", 17: "complex128",
}  # fmt: skip
"""aclDataType as numpy calls it; others are written as raw bytes."""


class Acl:
    """The module ``acl``, with every return code checked."""

    def __init__(self) -> None:
        try:
            import acl
        except ImportError as error:
            hint = (
                "source the toolkit's set_env.sh, which puts pyACL on PYTHONPATH, and take the "
                "Python that it was made for"
            )
            raise EnvironmentProblem(
                "the module acl cannot be imported: %s" % error, hint
            ) from error
        self.module = acl

    def function(self, name: str) -> Any:
        """Return a function by its name below ``acl``; None where this version lacks it."""
        member = self.module
        for part in name.split("."):
            member = getattr(member, part, None)
        return member

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function that returns a code, or a value and a code; return the value.

        Raises
        ------
        EnvironmentProblem
            The code is an error, or there is no such function.
        """
        returned = self._call(name, arguments)
        value, code = returned if isinstance(returned, tuple) else (None, returned)
        if code != 0:
            known = explained(code)
            details = self._recent_error()
            words = "acl.%s failed with %d%s: %s%s" % (
                name, code, " (%s)" % known.name if known.name else "", known.words,
                "; AscendCL says: %s" % details if details else "",
            )  # fmt: skip
            raise EnvironmentProblem(words, known.hint)
        return value

    def create(self, name: str, *arguments: Any) -> Any:
        """Call a function that returns a value, or nothing when it failed."""
        handle = self._call(name, arguments)
        if not handle:
            raise EnvironmentProblem("acl.%s made nothing" % name, explained(200000).hint)
        return handle

    def _call(self, name: str, arguments: Sequence[Any]) -> Any:
        function = self.function(name)
        if function is None:
            raise EnvironmentProblem(
                "this version of pyACL has no acl.%s" % name, "take a toolkit of 5.0 or later"
            )
        return function(*arguments)

    def _recent_error(self) -> str:
        function = self.function("get_recent_err_msg")
        try:
            return " ".join(str(function() or "").split())[:600] if function is not None else ""
        except Exception:  # this call only explains another error
            return ""


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Run an om.

    Parameters
    ----------
    job
        ``{"model", "inputs": files, "output": folder, "device", "config": acl.json or None,
        "batch", "size", "dims", "shape": what is told of a dynamic model, "output_bytes"}``.

    Raises
    ------
    EnvironmentProblem
        A function of pyACL failed: which, its code and its name, and what to do.
    InputError
        An input file does not have the size that the om needs.
    """
    acl = Acl()
    acl.call("init", *([job["config"]] if job["config"] else []))
    device = job["device"]
    acl.call("rt.set_device", device)
    try:
        run = _Run(acl, job)
        files = run.outputs()
        run.close()
    except BaseException:
        # An error while the device is released must not hide the first one.
        acl.module.rt.reset_device(device)
        acl.module.finalize()
        raise
    # Dumps may still be written until then.
    acl.call("rt.reset_device", device)
    acl.call("finalize")
    parent.send(result={"outputs": files, "soc": _soc(acl)})
    return 0


def _soc(acl: Acl) -> str:
    function = acl.function("get_soc_name")
    return str(function() or "") if function is not None else ""


class _Run:
    """One run: the model, its inputs and outputs on the device."""

    def __init__(self, acl: Acl, job: Mapping[str, Any]) -> None:
        self.acl, self.job = acl, job
        mode = acl.call("rt.get_run_mode") if acl.function("rt.get_run_mode") is not None else 1
        self.to_device, self.to_host = (
            (INSIDE, INSIDE) if mode == ON_DEVICE else (TO_DEVICE, TO_HOST)
        )
        self.model = acl.call("mdl.load_from_file", job["model"])
        self.desc = acl.create("mdl.create_desc")
        acl.call("mdl.get_desc", self.desc, self.model)
        self.gears = any(job[name] is not None for name in ("batch", "size", "dims"))
        # An om without gears has no such input, which is checked before anything else.
        self.gear_input = (
            acl.call("mdl.get_input_index_by_name", self.desc, GEAR_INPUT) if self.gears else None
        )
        self.count = int(acl.function("mdl.get_num_inputs")(self.desc)) - self.gears
        self.allocated: List[int] = []
        self.input_dataset, self.output_dataset = (
            acl.create("mdl.create_dataset"),
            acl.create("mdl.create_dataset"),
        )

    def outputs(self) -> List[str]:
        """Run the model and return the files of its outputs."""
        shapes = self._shapes()
        self._put_inputs(shapes)
        self._set_dynamic_shapes(shapes)
        sizes = self._put_outputs()
        self.acl.call("mdl.execute", self.model, self.input_dataset, self.output_dataset)
        return [self._write(number, address, size) for number, (address, size) in enumerate(sizes)]

    def close(self) -> None:
        """Release the device's memory."""
        for dataset in (self.input_dataset, self.output_dataset):
            for place in range(int(self.acl.function("mdl.get_dataset_num_buffers")(dataset))):
                self.acl.call(
                    "destroy_data_buffer", self.acl.create("mdl.get_dataset_buffer", dataset, place)
                )
            self.acl.call("mdl.destroy_dataset", dataset)
        for address in self.allocated:
            self.acl.call("rt.free", address)
        self.acl.call("mdl.destroy_desc", self.desc)
        self.acl.call("mdl.unload", self.model)

    def _shapes(self) -> List[Tuple[str, Shape]]:
        named: Dict[str, Sequence[int]] = {**(self.job["dims"] or {}), **(self.job["shape"] or {})}
        shapes = []
        for number in range(self.count):
            dims = self.acl.call("mdl.get_input_dims", self.desc, number)
            # Names of more than 127 bytes are changed there.
            name = str(
                self.acl.function("mdl.get_input_name_by_index")(self.desc, number) or dims["name"]
            )
            sizes = list(self.job["size"] or [])
            shape = []
            for dim in dims["dims"]:
                if dim >= 0 or not (sizes or self.job["batch"]):
                    shape.append(int(dim))
                else:
                    shape.append(int(self.job["batch"] or sizes.pop(0)))
            shapes.append((name, tuple(named.get(name, shape))))
        unknown = set(named) - {name for name, _ in shapes}
        if unknown:
            raise InputError(
                "the om has no input %s" % sorted(unknown)[0],
                "its inputs: " + ", ".join(name for name, _ in shapes),
            )
        return shapes

    def _put_inputs(self, shapes: Sequence[Tuple[str, Shape]]) -> None:
        files = self.job["inputs"]
        if files and len(files) != self.count:
            names = ", ".join(name for name, _ in shapes)
            text = "%d input files, the om has %d inputs: %s" % (len(files), self.count, names)
            raise InputError(text, "give one file for each, in their order")
        for number, (name, shape) in enumerate(shapes):
            size = self._input_bytes(number, shape)
            if files:
                with open_input(files[number]) as stream:
                    data = stream.read()
            else:
                data = bytes(size)
            if len(data) != size:
                text = "input %s: %s has %d bytes, the om wants %d (%s)" % (
                    name,
                    files[number],
                    len(data),
                    size,
                    ",".join(map(str, shape)),
                )
                raise InputError(
                    text,
                    "give the values in the om's own type and shape; a dynamic model needs "
                    "its shapes told",
                )
            self._add(self.input_dataset, self._on_device(data), len(data))

    def _input_bytes(self, number: int, shape: Shape) -> int:
        size = int(self.acl.function("mdl.get_input_size_by_index")(self.desc, number))
        if not self.gears and not self.job["shape"]:
            return size
        kind = TYPES.get(int(self.acl.function("mdl.get_input_data_type")(self.desc, number)))
        count = int(np.prod(shape, dtype=np.int64)) if shape else 1
        return (
            count * np.dtype(kind).itemsize
            if kind is not None and all(dim >= 0 for dim in shape)
            else size
        )

    def _on_device(self, data: bytes) -> int:
        address = self._allocate(len(data))
        # Older versions of pyACL do not accept bytes.
        source = (
            self.acl.create("util.bytes_to_ptr", data)
            if self.acl.function("util.bytes_to_ptr") is not None
            else self.acl.create("util.numpy_to_ptr", np.frombuffer(data, np.uint8))
        )
        self.acl.call("rt.memcpy", address, len(data), source, len(data), self.to_device)
        return address

    def _allocate(self, size: int) -> int:
        address = int(self.acl.call("rt.malloc", size, HUGE_PAGES_FIRST))
        self.allocated.append(address)
        return address

    def _add(self, dataset: int, address: int, size: int) -> None:
        self.acl.call(
            "mdl.add_dataset_buffer", dataset, self.acl.create("create_data_buffer", address, size)
        )

    def _set_dynamic_shapes(self, shapes: Sequence[Tuple[str, Shape]]) -> None:
        """Set what is dynamic: the gear, by the input that the compiler added for it, or the
        shapes.
        """
        acl, job = self.acl, self.job
        if self.gears:
            index = self.gear_input
            size = int(acl.function("mdl.get_input_size_by_index")(self.desc, index))
            self._add(self.input_dataset, self._allocate(size), size)
            if job["batch"] is not None:
                acl.call(
                    "mdl.set_dynamic_batch_size",
                    self.model,
                    self.input_dataset,
                    index,
                    job["batch"],
                )
            elif job["size"] is not None:
                acl.call(
                    "mdl.set_dynamic_hw_size", self.model, self.input_dataset, index, *job["size"]
                )
            else:
                whole = [dim for _, shape in shapes for dim in shape]
                dims = {"name": "", "dimCount": len(whole), "dims": whole}
                acl.call("mdl.set_input_dynamic_dims", self.model, self.input_dataset, index, dims)
        elif job["shape"]:
            for number, (_, shape) in enumerate(shapes):
                kind = acl.function("mdl.get_input_data_type")(self.desc, number)
                desc = acl.create("create_tensor_desc", kind, list(shape), ND)
                acl.call("mdl.set_dataset_tensor_desc", self.input_dataset, desc, number)

    def _put_outputs(self) -> List[Tuple[int, int]]:
        """Allocate the outputs; return address and size of each."""
        buffers = []
        sizes = self.job["output_bytes"]
        for number in range(self.acl.create("mdl.get_num_outputs", self.desc)):
            size = int(self.acl.function("mdl.get_output_size_by_index")(self.desc, number))
            size = max(size, sizes[number] if number < len(sizes) else 0)
            if not size:
                text = (
                    "the om does not tell how large its output %d is: its shape is known when "
                    "it has run" % number
                )
                raise InputError(text, "give the bytes of each output, or more")
            address = self._allocate(size)
            self._add(self.output_dataset, address, size)
            buffers.append((address, size))
        return buffers

    def _write(self, number: int, address: int, room: int) -> str:
        shape = self._output_shape(number)
        code = int(self.acl.function("mdl.get_output_data_type")(self.desc, number))
        kind = TYPES.get(code)
        size = room
        if kind is not None and all(dim >= 0 for dim in shape):
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
        data = self._from_device(address, min(size, room))
        path = os.path.join(
            self.job["output"],
            "output_%d.%s" % (number, "npy" if kind is not None and size <= room else "bin"),
        )
        with os.fdopen(create_new(path), "wb") as stream:
            if path.endswith(".npy"):
                np.save(stream, np.frombuffer(data, np.dtype(kind)).reshape(shape))
            else:
                stream.write(data)
        return path

    def _output_shape(self, number: int) -> Shape:
        acl = self.acl
        if self.job["shape"] and acl.function("mdl.get_dataset_tensor_desc") is not None:
            desc = acl.function("mdl.get_dataset_tensor_desc")(self.output_dataset, number)
            if desc:
                count = int(acl.function("get_tensor_desc_num_dims")(desc))
                return tuple(
                    int(acl.call("get_tensor_desc_dim_v2", desc, place)) for place in range(count)
                )
        name = (
            "mdl.get_cur_output_dims" if self.gears or self.job["shape"] else "mdl.get_output_dims"
        )
        return tuple(int(dim) for dim in acl.call(name, self.desc, number)["dims"])

    def _from_device(self, address: int, size: int) -> bytes:
        acl = self.acl
        host = int(acl.call("rt.malloc_host", max(1, size)))
        try:
            acl.call("rt.memcpy", host, size, address, size, self.to_host)
            if acl.function("util.ptr_to_bytes") is not None:
                return bytes(acl.module.util.ptr_to_bytes(host, size))
            return bytes(np.array(acl.module.util.ptr_to_numpy(host, (size,), NPY_BYTE)).tobytes())
        finally:
            acl.call("rt.free_host", host)
