"""A stand-in om in the device's memory: its inputs and outputs, and what a run of it makes."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

import numpy as np

from ...base.element_types import BY_NAME
from ...model.atc_options import SHAPE, Dynamic, dynamic_of, shapes_from_option
from ..device_model import DeviceModel, DeviceOp, DeviceTensor
from ..node_arithmetic import NodeArithmetic
from ..op_faults import OpFault
from .aipp import Aipp
from .compiled_network import CompiledNetwork, NetworkRun
from .om_file import Om
from .original_network import NetworkInput, OriginalNetwork, Shape, read_network
from .precision_options import AtcError, Build

Array = Any
GEAR_INPUT = "ascend_mbatch_shape_data"
"""The input that tells the gear, which the compiler adds. Source: ACL_DYNAMIC_TENSOR_NAME of the
public headers.
"""
GEAR_MARK = "_ascend_mbatch_batch_%d"
_SIZES = ((2, 3), (32, 48), (64, 96), (224, 256))


class OmTensor(NamedTuple):
    """An input or output as the om tells it.

    Attributes
    ----------
    shape
        -1: told when it runs.
    image_bytes
        Of an input that AIPP makes of images: their bytes; else 0.
    """

    name: str
    dtype: str
    shape: Shape
    image_bytes: int = 0


class LoadedModel:
    """A network with the options that it was compiled by.

    Parameters
    ----------
    network
        The original model.
    options
        atc's.
    build
        What they say of its arithmetic.
    name
        The model's.
    command
        As the om's json has it.
    op_faults
        What ops compute wrong.

    Attributes
    ----------
    dynamic
        What of the inputs is told when it runs; None: nothing.
    inputs, outputs
        In the om's order, the input that tells the gear left out.
    arithmetic
        What computes its nodes.

    Raises
    ------
    AtcError
        A shape is not known; an op is not supported.
    """

    def __init__(
        self,
        network: OriginalNetwork,
        options: Mapping[str, str],
        build: Build,
        name: str,
        command: str,
        op_faults: Optional[Mapping[str, OpFault]] = None,
    ) -> None:
        self.network, self.build, self.name = network, build, name
        self.halves = [text for text in options.get("input_fp16_nodes", "").split(";") if text]
        self._op_faults = op_faults
        self.arithmetic = NodeArithmetic()
        self.dynamic = self._dynamic(dynamic_of(command), options)
        gear_shapes = self.dynamic.shapes if self.dynamic is not None else {}
        fixed = shapes_from_option(options.get("input_shape", "").strip("\"'"))
        self.aipps = {
            network.inputs[one.rank].name: one
            for one in map(Aipp, build.aipp)
            if one.rank < len(network.inputs)
        }
        self.shapes: Dict[str, Shape] = {}
        self.inputs = [
            self._om_input(entry, gear_shapes.get(entry.name, fixed.get(entry.name, entry.shape)))
            for entry in network.inputs
        ]
        self.outputs: List[OmTensor] = []

    @classmethod
    def from_om(
        cls, om: Om, name: str, op_faults: Optional[Mapping[str, OpFault]] = None
    ) -> LoadedModel:
        """Load an om; raises as the class."""
        options = om.build["options"]
        with tempfile.TemporaryDirectory(prefix="goldwatch-om-") as folder:
            model, weights = om.unpack(folder)
            network = read_network(model, weights, options)
            for number in network.order:  # the weights are read while the files are there
                network.call(number)
        loaded = cls(
            network,
            options,
            Build.from_document(om.build["build"]),
            name,
            om.build["command"],
            op_faults,
        )
        loaded.outputs = [
            OmTensor(entry["name"], entry["dtype"], tuple(entry["shape"]))
            for entry in om.build["outputs"]
        ]
        return loaded

    def op_names(self) -> Set[str]:
        """Return the names by which a fault may call an op: its own, and its nodes'."""
        groups = CompiledNetwork(self.network, self.build, self.name, None, self.halves).groups
        nodes = {self.network.name(number) for group in groups for number in group.numbers}
        return nodes.union(group.name for group in groups)

    def run(self, feeds: Mapping[str, Array]) -> NetworkRun:
        """Run it on inputs of fixed shapes; of a gear the ops bear its names."""
        gear = self.gear_number({name: np.shape(array) for name, array in feeds.items()})
        suffix = GEAR_MARK % gear if gear is not None else ""
        compiled = CompiledNetwork(
            self.network, self.build, self.name, self._op_faults, self.halves, suffix,
            self.aipps, self.arithmetic,
        )  # fmt: skip
        return compiled.run(feeds, self.shapes)

    def gear_number(self, shapes: Mapping[str, Shape]) -> Optional[int]:
        """Return which gear has these shapes; None where the om has no gears, or none such."""
        if self.dynamic is None or self.dynamic.kind == SHAPE:
            return None
        gear = self.dynamic.gear_of(dict(shapes))
        return None if gear is None else self.dynamic.gears.index(gear)

    def document(self, soc: str, command: str) -> Dict[str, Any]:
        """Return what ``atc --mode=1`` prints of it, and take note of its outputs.

        Raises
        ------
        AtcError
            An op is not supported; of a dynamic shape: at none of the sizes that are tried.
        """
        if self.dynamic is None:
            ran = self._run_example(self.shapes)
            return self._written([ran], soc, command)[0]
        if self.dynamic.kind == SHAPE:
            first, second = self._two_sizes()
            documents = self._written([first], soc, command) + self._written([second], soc, command)
            self.outputs = [
                _without_size(first_tensor, shape)
                for first_tensor, shape in zip(_om_outputs(first), _om_outputs(second))
            ]
            merged: Dict[str, Any] = _differing(*documents)
            return merged
        shapes = {entry.name: entry.shape for entry in self.inputs}
        return self._of_gears(
            [
                self._run_example({**shapes, **self.dynamic.shapes_in_gear(gear)})
                for gear in self.dynamic.gears
            ],
            soc,
            command,
        )

    def _run_example(self, shapes: Mapping[str, Shape]) -> NetworkRun:
        feeds = {
            entry.name: self.network.example(entry, tuple(shapes[entry.name]), n)
            for n, entry in enumerate(self.network.inputs)
        }
        for name in self.aipps:
            feeds[name] = np.zeros(self.aipps[name].image_bytes(self.shapes[name]), np.uint8)
        return self.run(feeds)

    def _two_sizes(self) -> Tuple[NetworkRun, NetworkRun]:
        problem: Optional[AtcError] = None
        for sizes in _SIZES:
            try:
                first, second = (
                    self._run_example(
                        {
                            entry.name: tuple(size if dim < 0 else dim for dim in entry.shape)
                            for entry in self.inputs
                        }
                    )
                    for size in sizes
                )
                return first, second
            except AtcError as error:
                problem = error
        assert problem is not None
        raise problem

    def _written(self, runs: List[NetworkRun], soc: str, command: str) -> List[Dict[str, Any]]:
        self.outputs = _om_outputs(runs[0])
        for ran in runs:
            ran.model.attributes.update({"atc_cmdline": command, "soc_version": soc})
        return [ran.model.document() for ran in runs]

    def _of_gears(self, runs: List[NetworkRun], soc: str, command: str) -> Dict[str, Any]:
        """Return one graph with the ops of every gear, whose results StreamMerge brings
        together.
        """
        model = DeviceModel(self.name)
        for op in runs[0].model.ops:
            if op.type == "Data":
                model.add(op)
        gear = DeviceTensor(np.zeros(max(map(len, self.dynamic.gears)), np.int32), "ND", "ND")  # type: ignore[union-attr]
        model.add(DeviceOp(GEAR_INPUT, "Data", (), (gear,), attributes={"index": len(self.inputs)}))
        for number, ran in enumerate(runs):
            for op in ran.model.ops:
                if op.type not in ("Data", "NetOutput"):
                    model.add(
                        replace(
                            op, attributes={**op.attributes, "_batch_label": "Batch_%d" % number}
                        )
                    )
        results = []
        for place, sources in enumerate(zip(*(ran.model.ops[-1].inputs for ran in runs))):
            largest = max(
                (ran.model.output(*source) for ran, source in zip(runs, sources)),
                key=lambda tensor: tensor.array.size,
            )
            name = "Node_Output_ascend_mbatch_merge_%d" % place
            model.add(DeviceOp(name, "StreamMerge", tuple(sources), (largest,), originals=()))
            results.append((name, 0))
        model.add(DeviceOp("Node_Output", "NetOutput", tuple(results), (), originals=()))
        document = self._written(
            [NetworkRun(model, max((ran.outputs for ran in runs), key=_bytes_of))], soc, command
        )[0]
        dims = {entry.name: list(entry.shape) for entry in self.inputs}
        for op in document["graph"][0]["op"]:
            for desc in op["output_desc"] if op["name"] in dims else ():
                desc["shape"] = {"dim": dims[op["name"]]}
        self.outputs = [
            _without_size(first_tensor, others)
            for first_tensor, *rest in zip(*(_om_outputs(ran) for ran in runs))
            for others in [_with_common_shape(first_tensor, rest)]
        ]
        return document

    def _om_input(self, entry: NetworkInput, shape: Optional[Shape]) -> OmTensor:
        if shape is None or (self.dynamic is None and any(dim < 0 for dim in shape)):
            text = (
                "input %s has no fixed shape in the model; --input_shape must tell it" % entry.name
            )
            raise AtcError("E10018", text)
        if BY_NAME[entry.dtype].storage is None:
            raise AtcError(
                "E19010", "input %s: data type %s is not supported" % (entry.name, entry.dtype)
            )
        self.shapes[entry.name] = tuple(shape)
        if entry.name in self.aipps:
            return self._image(entry.name, tuple(shape))
        dtype = "float16" if entry.name in self.halves and entry.dtype == "float32" else entry.dtype
        return OmTensor(entry.name, dtype, tuple(shape))

    def _image(self, name: str, shape: Shape) -> OmTensor:
        if len(shape) != 4 or any(dim < 0 for dim in shape) or self.network.layout(4) != "NCHW":
            raise AtcError(
                "E10001",
                "the stand-in imitates AIPP for inputs [N, C, H, W] of fixed shape; %s is none"
                % name,
            )
        aipp = self.aipps[name]
        return OmTensor(name, "uint8", aipp.image_shape(shape), aipp.image_bytes(shape))

    def _dynamic(self, dynamic: Optional[Dynamic], options: Mapping[str, str]) -> Optional[Dynamic]:
        if dynamic is not None:
            unknown = [
                name
                for name in dynamic.shapes
                if name not in {entry.name for entry in self.network.inputs}
            ]
            if unknown:
                raise AtcError(
                    "E10016",
                    "Opname [%s] specified in [--input_shape] is not found in the model"
                    % unknown[0],
                )
        return dynamic


def _om_outputs(ran: NetworkRun) -> List[OmTensor]:
    return [OmTensor(name, str(array.dtype), tuple(array.shape)) for name, array in ran.outputs]


def _with_common_shape(tensor: OmTensor, others: List[OmTensor]) -> OmTensor:
    """Return an output with -1 where others have another size."""
    return tensor._replace(
        shape=tuple(
            dim if all(other.shape[n] == dim for other in others) else -1
            for n, dim in enumerate(tensor.shape)
        )
    )


def _without_size(first: OmTensor, second: OmTensor) -> OmTensor:
    return _with_common_shape(first, [second])


def _bytes_of(outputs: List[Tuple[str, Array]]) -> int:
    return sum(int(array.nbytes) for _, array in outputs)


def _differing(first: Any, second: Any) -> Any:
    """Return a json with -1 for the numbers that two do not agree on."""
    if isinstance(first, dict):
        return {key: _differing(value, second[key]) for key, value in first.items()}
    if isinstance(first, list):
        return [_differing(*pair) for pair in zip(first, second)]
    return first if first == second else -1
