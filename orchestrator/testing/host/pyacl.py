"""The stand-in's module ``acl``: the functions of pyACL that run an om, with their arguments,
results and error codes.

Memory on the device is memory of this process; pointers are addresses, as pyACL has them.
Source: the vendor's public pyACL reference and its public binding (``mdl_wrap.cpp``), and the
public headers of error codes.
"""

from __future__ import annotations

import ctypes
import json
import os
import types
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ...base.element_types import BY_NAME
from ...base.errors import GoldwatchError, UsageError
from ...base.naming import nearest_names
from ...config.dump_plan_formats import read_plan
from ...model.atc_options import BATCH, DIMS, IMAGE_SIZE, SHAPE
from .dumping import Dumping
from .handles import Buffer, Dataset, Memory, ModelDesc, Objects, TensorDesc
from .host_config import KNOWN_OPS_FILE, HostConfig
from .loaded_model import GEAR_INPUT, LoadedModel, OmTensor
from .om_file import read_om
from .precision_options import AtcError

Array = Any

SUCCESS = 0
INVALID_PARAM, UNINITIALIZE, REPEAT_INITIALIZE, INVALID_FILE, PARSE_FILE = (
    100000,
    100001,
    100002,
    100003,
    100006,
)
INVALID_DUMP_CONFIG, INVALID_MODEL_ID, DESERIALIZE_MODEL, MODEL_NOT_DYNAMIC = (
    100009,
    100011,
    100012,
    100019,
)
RT_PARAM_INVALID, RT_INVALID_DEVICE, RT_CONTEXT_NULL, RT_MEMORY_ALLOCATION = (
    107000,
    107001,
    107002,
    207001,
)
RT_DEVICE_SETUP, RT_SOC_VERSION, RT_NO_DEVICE = 507033, 507008, 207004
GE_PARAM_INVALID, GE_MODEL_PATH, GE_DYNAMIC_LENGTH, GE_DYNAMIC_BATCH = (
    145000,
    145002,
    145012,
    145013,
)

DATA_TYPES = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7,
    "uint32": 8, "int64": 9, "uint64": 10,
    "float64": 11, "bool": 12, "bfloat16": 27,
}  # fmt: skip
"""aclDataType."""
_FORMATS = {"NCHW": 0, "NHWC": 1, "ND": 2}


class Acl:
    """The state behind the module.

    Parameters
    ----------
    host
        The host and its faults.
    folder
        Where the host is.

    Attributes
    ----------
    words
        What went wrong last, for ``get_recent_err_msg``.
    """

    def __init__(self, host: HostConfig, folder: str) -> None:
        self.host = host
        self._known_ops = os.path.join(folder, KNOWN_OPS_FILE)
        self.words = ""
        self._dumping = Dumping(None, host)
        self._began = False
        self._device: Optional[int] = None
        self._memory, self._things = Memory(), Objects()
        self._models: Dict[int, LoadedModel] = {}
        self._descs: Dict[int, ModelDesc] = {}

    # acl

    def init(self, path: Optional[str] = None) -> int:
        if self._began:
            return REPEAT_INITIALIZE
        if path:
            if not os.path.isfile(path):
                return self._failed(INVALID_FILE, "acl.json %s can not be read" % path)
            with open(path, "rb") as stream:
                data = stream.read()
            try:
                document = json.loads(data.decode("utf-8"))
                plan = read_plan(data, path) if document.get("dump") else None
            except ValueError as error:
                return self._failed(PARSE_FILE, "acl.json %s: %s" % (path, error))
            except GoldwatchError as error:
                return self._failed(INVALID_DUMP_CONFIG, error.message)
            if plan is not None and not os.path.isdir(plan.dump_path or ""):
                return self._failed(
                    INVALID_DUMP_CONFIG, "dump_path %s is no folder" % plan.dump_path
                )
            self._dumping = Dumping(plan, self.host)
        self._began = True
        return SUCCESS

    def finalize(self) -> int:
        if not self._began:
            return UNINITIALIZE
        self._began = False
        return SUCCESS

    def get_soc_name(self) -> str:
        return self.host.soc

    def get_recent_err_msg(self) -> str:
        return self.words

    def create_data_buffer(self, address: int, size: int) -> int:
        return self._things.add(Buffer(address, size))

    def get_data_buffer_addr(self, buffer: int) -> int:
        data = self._things.get(buffer, Buffer)
        return data.address if data else 0

    def get_data_buffer_size_v2(self, buffer: int) -> int:
        data = self._things.get(buffer, Buffer)
        return data.size if data else 0

    def destroy_data_buffer(self, buffer: int) -> int:
        return self._forgotten(buffer)

    def create_tensor_desc(self, dtype: int, shape: List[int], layout: int) -> int:
        return self._things.add(TensorDesc(dtype, shape))

    def destroy_tensor_desc(self, desc: int) -> None:
        self._things.remove(desc)

    def get_tensor_desc_num_dims(self, desc: int) -> int:
        return len(self._things.get(desc, TensorDesc).shape)

    def get_tensor_desc_dim_v2(self, desc: int, index: int) -> Tuple[int, int]:
        shape = self._things.get(desc, TensorDesc).shape
        return (shape[index], SUCCESS) if index < len(shape) else (0, INVALID_PARAM)

    def get_tensor_desc_type(self, desc: int) -> int:
        return int(self._things.get(desc, TensorDesc).dtype)

    # acl.rt

    def set_device(self, device: int) -> int:
        if not self._began:
            return UNINITIALIZE
        if self.host.has("no-device"):
            text = (
                "EL0003: The argument is invalid. Failed to open device, retCode=0x7020014, "
                "deviceId=%d." % device
            )
            return self._failed(RT_DEVICE_SETUP, text)
        if not 0 <= device < self.host.devices:
            return self._failed(
                RT_INVALID_DEVICE,
                "EE1001: The argument is invalid. Reason: set device failed, invalid device %d"
                % device,
            )
        self._device = device
        return SUCCESS

    def reset_device(self, device: int) -> int:
        if device != self._device:
            return RT_INVALID_DEVICE
        self._device = None
        return SUCCESS

    def get_device_count(self) -> Tuple[int, int]:
        return (0, RT_NO_DEVICE) if self.host.has("no-device") else (self.host.devices, SUCCESS)

    def create_context(self, device: int) -> Tuple[int, int]:
        return (
            (self._things.add("context"), SUCCESS)
            if device == self._device
            else (0, RT_CONTEXT_NULL)
        )

    def destroy_context(self, context: int) -> int:
        return self._forgotten(context)

    def create_stream(self) -> Tuple[int, int]:
        return (
            (self._things.add("stream"), SUCCESS)
            if self._device is not None
            else (0, RT_CONTEXT_NULL)
        )

    def destroy_stream(self, stream: int) -> int:
        return self._forgotten(stream)

    def malloc(self, size: int, policy: int) -> Tuple[int, int]:
        if self._device is None:
            return 0, RT_CONTEXT_NULL
        if size <= 0:
            return 0, INVALID_PARAM
        if self.host.has("out-of-memory"):
            words = (
                "EL0004: Failed to allocate memory. Possible Cause: Available memory is "
                "insufficient."
            )
            return 0, self._failed(RT_MEMORY_ALLOCATION, words)
        return self._memory.allocate(size), SUCCESS

    def free(self, address: int) -> int:
        return SUCCESS if self._memory.free(address) else RT_PARAM_INVALID

    def malloc_host(self, size: int) -> Tuple[int, int]:
        return (self._memory.allocate(size), SUCCESS) if size > 0 else (0, INVALID_PARAM)

    def free_host(self, address: int) -> int:
        return self.free(address)

    def get_run_mode(self) -> Tuple[int, int]:
        return 1, SUCCESS

    def memcpy(self, target: int, room: int, source: int, size: int, kind: int) -> int:
        to_device, to_host = kind == 1, kind == 2
        outside = (to_device and not self._memory.holds(target, size)) or (
            to_host and not self._memory.holds(source, size)
        )
        if size > room or not target or not source or outside:
            return self._failed(
                RT_PARAM_INVALID,
                "EE1001: The argument is invalid. Reason: memcpy of %d bytes, room for %d"
                % (size, room),
            )
        ctypes.memmove(target, source, size)
        return SUCCESS

    # acl.mdl

    def load_from_file(self, path: str) -> Tuple[int, int]:
        if self._device is None:
            return 0, RT_CONTEXT_NULL
        if not os.path.isfile(path):
            return 0, self._failed(
                GE_MODEL_PATH, "E13026: %s is not a real path. Please check your model path." % path
            )
        try:
            om = read_om(path)
            if self.host.has("other-chip") or om.build["soc"] != self.host.soc:
                chip = (
                    "Ascend910B4"
                    if self.host.has("other-chip") and om.build["soc"] == self.host.soc
                    else self.host.soc
                )
                text = "The soc version of the model is %s, that of the device %s" % (
                    om.build["soc"],
                    chip,
                )
                return 0, self._failed(RT_SOC_VERSION, text)
            loaded = LoadedModel.from_om(
                om,
                os.path.basename(path)[: -len(".om")] if path.endswith(".om") else path,
                self.host.op_faults(),
            )
            self._refuse_unknown_ops(loaded)
        except (GoldwatchError, AtcError) as error:
            return 0, self._failed(DESERIALIZE_MODEL, str(error))
        number = len(self._models) + 1
        self._models[number] = loaded
        return number, SUCCESS

    def _refuse_unknown_ops(self, loaded: LoadedModel) -> None:
        """Raise UsageError where a fault is one of an op that no om of this host has had: of a
        model that was cut out of another the ops may be few.
        """
        faults = self.host.op_faults()
        if not faults:
            return
        names = loaded.op_names()
        before = set()
        if os.path.exists(self._known_ops):
            with open(self._known_ops, encoding="utf-8") as stream:
                before = set(stream.read().splitlines())
        for op in faults:
            if op not in names and op not in before:
                near = nearest_names(op, sorted(names), 3)
                raise UsageError(
                    "the host has a fault of the op %s, which the model has not: %s"
                    % (op, "did you mean %s?" % " or ".join(near) if near else "look at its name")
                )
        with open(self._known_ops, "a", encoding="utf-8") as stream:
            stream.write("".join(op + "\n" for op in faults if op in names - before))

    def unload(self, model: int) -> int:
        return SUCCESS if self._models.pop(model, None) is not None else INVALID_MODEL_ID

    def create_desc(self) -> int:
        return self._things.add(ModelDesc())

    def get_desc(self, desc: int, model: int) -> int:
        model_desc, loaded = self._things.get(desc, ModelDesc), self._models.get(model)
        if model_desc is None or loaded is None:
            return INVALID_MODEL_ID if model_desc is not None else INVALID_PARAM
        model_desc.loaded, self._descs[model] = loaded, model_desc
        return SUCCESS

    def destroy_desc(self, desc: int) -> int:
        return self._forgotten(desc)

    def get_num_inputs(self, desc: int) -> int:
        return len(self._inputs(desc))

    def get_num_outputs(self, desc: int) -> int:
        return len(self._loaded(desc).outputs)

    def get_input_size_by_index(self, desc: int, index: int) -> int:
        inputs, loaded = self._inputs(desc), self._loaded(desc)
        if index >= len(inputs):
            return 0
        tensor = inputs[index]
        more = 32 * (self.host.has("wrong-input-size") and tensor.name != GEAR_INPUT)
        if all(dim >= 0 for dim in tensor.shape):
            return _bytes(tensor, tensor.shape) + more
        if loaded.dynamic is None or loaded.dynamic.kind == SHAPE:
            return 0
        return (
            max(
                _bytes(tensor, loaded.dynamic.shapes_in_gear(gear)[tensor.name])
                for gear in loaded.dynamic.gears
            )
            + more
        )

    def get_output_size_by_index(self, desc: int, index: int) -> int:
        loaded = self._loaded(desc)
        output = loaded.outputs[index]
        if all(dim >= 0 for dim in output.shape):
            return _bytes(output, output.shape)
        if loaded.dynamic is None or loaded.dynamic.kind == SHAPE:
            return 0
        return max(_bytes(output, shapes[index]) for shapes in self._output_shapes(loaded))

    def get_input_name_by_index(self, desc: int, index: int) -> str:
        return self._inputs(desc)[index].name

    def get_output_name_by_index(self, desc: int, index: int) -> str:
        return self._loaded(desc).outputs[index].name

    def get_input_index_by_name(self, desc: int, name: str) -> Tuple[int, int]:
        names = [tensor.name for tensor in self._inputs(desc)]
        return (
            (names.index(name), SUCCESS)
            if name in names
            else (0, self._failed(INVALID_PARAM, "no input is called %s" % name))
        )

    def get_input_data_type(self, desc: int, index: int) -> int:
        return DATA_TYPES[self._inputs(desc)[index].dtype]

    def get_output_data_type(self, desc: int, index: int) -> int:
        return DATA_TYPES[self._loaded(desc).outputs[index].dtype]

    def get_input_format(self, desc: int, index: int) -> int:
        loaded, tensor = self._loaded(desc), self._inputs(desc)[index]
        return _FORMATS[loaded.network.layout(len(tensor.shape))]

    def get_output_format(self, desc: int, index: int) -> int:
        return _FORMATS["ND"]

    def get_input_dims(self, desc: int, index: int) -> Tuple[Dict[str, Any], int]:
        inputs = self._inputs(desc)
        return (
            (_dims(inputs[index].name, inputs[index].shape), SUCCESS)
            if index < len(inputs)
            else ({}, INVALID_PARAM)
        )

    def get_output_dims(self, desc: int, index: int) -> Tuple[Dict[str, Any], int]:
        outputs = self._loaded(desc).outputs
        return (
            (_dims(outputs[index].name, outputs[index].shape), SUCCESS)
            if index < len(outputs)
            else ({}, INVALID_PARAM)
        )

    def get_cur_output_dims(self, desc: int, index: int) -> Tuple[Dict[str, Any], int]:
        model_desc = self._things.get(desc, ModelDesc)
        name = self._loaded(desc).outputs[index].name
        if model_desc.shapes is None:
            return self.get_output_dims(desc, index)
        return _dims(name, model_desc.shapes[index]), SUCCESS

    def get_dynamic_batch(self, desc: int) -> Tuple[Dict[str, Any], int]:
        dynamic = self._loaded(desc).dynamic
        gears = (
            [gear[0] for gear in dynamic.gears]
            if dynamic is not None and dynamic.kind == BATCH
            else []
        )
        return {"batchCount": len(gears), "batch": gears}, SUCCESS

    def get_dynamic_hw(self, desc: int, index: int) -> Tuple[Dict[str, Any], int]:
        dynamic = self._loaded(desc).dynamic
        gears = (
            [list(gear) for gear in dynamic.gears]
            if dynamic is not None and dynamic.kind == IMAGE_SIZE
            else []
        )
        return {"hwCount": len(gears), "hw": gears}, SUCCESS

    def get_input_dynamic_gear_count(self, desc: int, index: int) -> Tuple[int, int]:
        dynamic = self._loaded(desc).dynamic
        return len(dynamic.gears) if dynamic is not None and dynamic.kind == DIMS else 0, SUCCESS

    def get_input_dynamic_dims(
        self, desc: int, index: int, count: int
    ) -> Tuple[List[Dict[str, Any]], int]:
        loaded = self._loaded(desc)
        gears = (
            [
                _dims("", sum(self._gear_shapes(loaded, gear), ()))
                for gear in loaded.dynamic.gears[:count]
            ]
            if loaded.dynamic
            else []
        )
        return gears, SUCCESS

    def create_dataset(self) -> int:
        return self._things.add(Dataset())

    def add_dataset_buffer(self, dataset: int, buffer: int) -> Tuple[int, int]:
        dataset_object = self._things.get(dataset, Dataset)
        if dataset_object is None or self._things.get(buffer, Buffer) is None:
            return 0, INVALID_PARAM
        dataset_object.buffers.append(buffer)
        return dataset, SUCCESS

    def get_dataset_num_buffers(self, dataset: int) -> int:
        return len(self._things.get(dataset, Dataset).buffers)

    def get_dataset_buffer(self, dataset: int, index: int) -> int:
        buffers = self._things.get(dataset, Dataset).buffers
        return buffers[index] if index < len(buffers) else 0

    def destroy_dataset(self, dataset: int) -> int:
        return self._forgotten(dataset)

    def set_dataset_tensor_desc(self, dataset: int, desc: int, index: int) -> Tuple[int, int]:
        dataset_object, tensor_desc = (
            self._things.get(dataset, Dataset),
            self._things.get(desc, TensorDesc),
        )
        if dataset_object is None or tensor_desc is None:
            return 0, INVALID_PARAM
        dataset_object.descs[index] = tensor_desc
        return dataset, SUCCESS

    def get_dataset_tensor_desc(self, dataset: int, index: int) -> int:
        tensor_desc = self._things.get(dataset, Dataset).descs.get(index)
        return self._things.add(tensor_desc) if tensor_desc is not None else 0

    def set_dynamic_batch_size(self, model: int, dataset: int, index: int, batch: int) -> int:
        return self._set_gear(model, dataset, index, BATCH, (batch,), GE_DYNAMIC_BATCH)

    def set_dynamic_hw_size(
        self, model: int, dataset: int, index: int, height: int, width: int
    ) -> int:
        return self._set_gear(model, dataset, index, IMAGE_SIZE, (height, width), GE_PARAM_INVALID)

    def set_input_dynamic_dims(
        self, model: int, dataset: int, index: int, dims: Dict[str, Any]
    ) -> int:
        """Take the dims of all inputs one behind the other, as pyACL does."""
        loaded = self._models.get(model)
        if loaded is None:
            return INVALID_MODEL_ID
        if loaded.dynamic is None or loaded.dynamic.kind != DIMS:
            return self._failed(MODEL_NOT_DYNAMIC, "the model has no dynamic dims")
        whole = tuple(dims["dims"][: dims["dimCount"]])
        gear = next(
            (
                gear
                for gear in loaded.dynamic.gears
                if sum(self._gear_shapes(loaded, gear), ()) == whole
            ),
            None,
        )
        if gear is None:
            return self._failed(GE_PARAM_INVALID, "no gear has the dims %s" % (whole,))
        return self._set_gear(model, dataset, index, DIMS, gear, GE_PARAM_INVALID)

    def execute(self, model: int, inputs: int, outputs: int) -> int:
        loaded = self._models.get(model)
        given, results = self._things.get(inputs, Dataset), self._things.get(outputs, Dataset)
        if loaded is None or given is None or results is None:
            return INVALID_MODEL_ID if loaded is None else INVALID_PARAM
        shapes = self._shapes(loaded, given)
        if shapes is None:
            return self._failed(
                GE_PARAM_INVALID,
                "the shapes of the inputs are not told, or are outside of what the model was "
                "made for",
            )
        feeds, code = self._feeds(loaded, given, shapes)
        if code != SUCCESS:
            return code
        try:
            ran = loaded.run(feeds)
        except AtcError as error:
            return self._failed(507011, str(error))
        self._dumping.write(ran.model, self._device or 0, model)
        code = self._write_outputs(ran.outputs, results)
        if code == SUCCESS and model in self._descs:
            self._descs[model].shapes = [tuple(array.shape) for _, array in ran.outputs]
        return code

    def _feeds(
        self, loaded: LoadedModel, given: Dataset, shapes: Mapping[str, Tuple[int, ...]]
    ) -> Tuple[Dict[str, Array], int]:
        """Return the inputs of a model as they are in a dataset's buffers."""
        feeds: Dict[str, Array] = {}
        expected = len(loaded.inputs) + self._has_gears(loaded)
        if len(given.buffers) != expected:
            text = "the model has %d inputs, the dataset %d" % (expected, len(given.buffers))
            return {}, self._failed(GE_PARAM_INVALID, text)
        for tensor, number in zip(loaded.inputs, given.buffers):
            buffer = self._things.get(number, Buffer)
            size = _bytes(tensor, shapes[tensor.name]) + 32 * self.host.has("wrong-input-size")
            if buffer.size < size or (loaded.dynamic is None and buffer.size > _aligned(size)):
                text = "input %s: size %d of the buffer, the model wants %d" % (
                    tensor.name,
                    buffer.size,
                    size,
                )
                return {}, self._failed(
                    GE_PARAM_INVALID if loaded.dynamic is None else GE_DYNAMIC_LENGTH, text
                )
            feeds[tensor.name] = _read(buffer.address, tensor, shapes[tensor.name])
        return feeds, SUCCESS

    def _write_outputs(self, outputs: Sequence[Tuple[str, Array]], results: Dataset) -> int:
        """Copy the outputs of a model into a dataset's buffers."""
        for (name, array), number in zip(outputs, results.buffers):
            buffer = self._things.get(number, Buffer)
            data = np.ascontiguousarray(array)
            if buffer.size < data.nbytes:
                return self._failed(
                    GE_PARAM_INVALID,
                    "output %s: room for %d bytes, there are %d" % (name, buffer.size, data.nbytes),
                )
            ctypes.memmove(buffer.address, data.ctypes.data, data.nbytes)
        results.descs = {
            n: TensorDesc(DATA_TYPES[str(array.dtype)], list(array.shape))
            for n, (_, array) in enumerate(outputs)
        }
        return SUCCESS

    def _forgotten(self, number: int) -> int:
        return SUCCESS if self._things.remove(number) else INVALID_PARAM

    def _failed(self, code: int, words: str) -> int:
        self.words = words
        return code

    def _loaded(self, desc: int) -> LoadedModel:
        model_desc = self._things.get(desc, ModelDesc)
        if model_desc is None or model_desc.loaded is None:
            raise RuntimeError("the model's description was not got")
        loaded: LoadedModel = model_desc.loaded
        return loaded

    def _has_gears(self, loaded: LoadedModel) -> bool:
        return loaded.dynamic is not None and loaded.dynamic.kind != SHAPE

    def _inputs(self, desc: int) -> List[OmTensor]:
        loaded = self._loaded(desc)
        gear = []
        if loaded.dynamic is not None and self._has_gears(loaded):
            gear = [OmTensor(GEAR_INPUT, "int32", (len(loaded.dynamic.gears[0]),))]
        return list(loaded.inputs) + gear

    def _gear_shapes(self, loaded: LoadedModel, gear: Tuple[int, ...]) -> List[Tuple[int, ...]]:
        shapes = loaded.dynamic.shapes_in_gear(gear) if loaded.dynamic is not None else {}
        return [tuple(shapes.get(tensor.name, tensor.shape)) for tensor in loaded.inputs]

    def _output_shapes(self, loaded: LoadedModel) -> List[List[Tuple[int, ...]]]:
        output_shapes = []
        for gear in loaded.dynamic.gears if loaded.dynamic is not None else ():
            shapes = {
                tensor.name: shape
                for tensor, shape in zip(loaded.inputs, self._gear_shapes(loaded, gear))
            }
            feeds = {
                entry.name: loaded.network.example(entry, shapes[entry.name], 0)
                for entry in loaded.network.inputs
            }
            output_shapes.append([tuple(array.shape) for _, array in loaded.run(feeds).outputs])
        return output_shapes

    def _set_gear(
        self, model: int, dataset: int, index: int, kind: str, gear: Tuple[int, ...], code: int
    ) -> int:
        loaded, dataset_object = self._models.get(model), self._things.get(dataset, Dataset)
        if loaded is None or dataset_object is None:
            return INVALID_MODEL_ID if loaded is None else INVALID_PARAM
        if loaded.dynamic is None or loaded.dynamic.kind != kind:
            return self._failed(MODEL_NOT_DYNAMIC, "the model has no dynamic %s" % kind)
        if index != len(loaded.inputs) or index >= len(dataset_object.buffers):
            return self._failed(
                INVALID_PARAM, "input %d is not the one that tells the gear" % index
            )
        if gear not in loaded.dynamic.gears:
            return self._failed(code, "the model has no gear %s" % ",".join(map(str, gear)))
        dataset_object.gear = gear
        return SUCCESS

    def _shapes(self, loaded: LoadedModel, given: Dataset) -> Optional[Dict[str, Tuple[int, ...]]]:
        """Return the inputs' shapes in a run; None where they are not told or do not fit."""
        if loaded.dynamic is None:
            return {tensor.name: tensor.shape for tensor in loaded.inputs}
        if loaded.dynamic.kind != SHAPE:
            if given.gear is None:
                return None
            return {
                tensor.name: shape
                for tensor, shape in zip(loaded.inputs, self._gear_shapes(loaded, given.gear))
            }
        shapes = {}
        for number, tensor in enumerate(loaded.inputs):
            shape = tuple(given.descs[number].shape) if number in given.descs else tensor.shape
            if len(shape) != len(tensor.shape) or any(
                dim < 0 or known not in (-1, dim) for dim, known in zip(shape, tensor.shape)
            ):
                return None
            shapes[tensor.name] = shape
        return None if loaded.dynamic.problem(shapes) else shapes


def _dims(name: str, shape: Tuple[int, ...]) -> Dict[str, Any]:
    return {"name": name, "dimCount": len(shape), "dims": list(shape)}


def _bytes(tensor: OmTensor, shape: Tuple[int, ...]) -> int:
    if tensor.image_bytes:
        return tensor.image_bytes
    size = BY_NAME[tensor.dtype].bits // 8
    for dim in shape:
        size *= dim
    return size


def _aligned(size: int) -> int:
    """Return a size as callers round it up: to 32 bytes, and 32 more."""
    return -(-size // 32) * 32 + 32


def _read(address: int, tensor: OmTensor, shape: Tuple[int, ...]) -> Array:
    data = ctypes.string_at(address, _bytes(tensor, shape))
    if tensor.image_bytes:
        return np.frombuffer(data, np.uint8)
    return (
        np.frombuffer(data, np.dtype(BY_NAME[tensor.dtype].storage or "u1"))
        .reshape(shape)
        .astype(np.dtype(tensor.dtype))
    )


def fill_module(module: Any, folder: str) -> Acl:
    """Make a module into pyACL's ``acl`` for the host of a folder; return the state behind it."""
    acl = Acl(HostConfig.read(folder), folder)
    names = {
        "rt": "set_device reset_device get_device_count create_context destroy_context "
        "create_stream destroy_stream malloc free "
        "malloc_host free_host get_run_mode memcpy",
        "mdl": "load_from_file unload create_desc get_desc destroy_desc get_num_inputs "
        "get_num_outputs get_input_size_by_index "
        "get_output_size_by_index get_input_name_by_index get_output_name_by_index "
        "get_input_index_by_name get_input_data_type "
        "get_output_data_type get_input_format get_output_format get_input_dims "
        "get_output_dims get_cur_output_dims get_dynamic_batch "
        "get_dynamic_hw get_input_dynamic_gear_count get_input_dynamic_dims create_dataset "
        "add_dataset_buffer get_dataset_num_buffers "
        "get_dataset_buffer destroy_dataset set_dataset_tensor_desc get_dataset_tensor_desc "
        "set_dynamic_batch_size set_dynamic_hw_size "
        "set_input_dynamic_dims execute",
        "": "init finalize get_soc_name get_recent_err_msg create_data_buffer "
        "get_data_buffer_addr get_data_buffer_size_v2 "
        "destroy_data_buffer create_tensor_desc destroy_tensor_desc get_tensor_desc_num_dims "
        "get_tensor_desc_dim_v2 get_tensor_desc_type",
    }
    for part, functions in names.items():
        place = module
        if part:
            place = types.ModuleType("acl." + part)
            setattr(module, part, place)
        for name in functions.split():
            setattr(place, name, getattr(acl, name))
    module.util = types.ModuleType("acl.util")
    kept: List[Any] = []

    def bytes_to_ptr(data: bytes) -> int:
        kept.append(data)
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0

    module.util.bytes_to_ptr = bytes_to_ptr
    module.util.ptr_to_bytes = ctypes.string_at
    return acl
