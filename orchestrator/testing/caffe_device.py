"""A Caffe network on the stand-in of a device: float16, fused, in device layouts, with the ops that
the compiler inserts.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..adapters.caffe.numpy_layer_types import own_parameters
from ..base.errors import InputError, UsageError
from ..base.fast_dataclasses import dataclass
from ..netfiles.caffe_net import Layer, Net, initial_state
from ..netfiles.prototxt_edits import read_document
from ..operators import CAFFE, CannotCompute, Node
from .device_dump import DeviceDump
from .device_model import DeviceModel, DeviceOp, DeviceTensor
from .node_arithmetic import NodeArithmetic
from .op_faults import KINDS, OpFault, parse_op_faults

Array = Any
Weights = Mapping[str, Sequence[Array]]

_ABSORBING = ("Convolution", "Eltwise", "Pooling", "InnerProduct")
_ABSORBED = ("BatchNorm", "Scale", "ReLU", "Dropout")
_OP_TYPES = {
    "Convolution": "Conv2D",
    "InnerProduct": "FullyConnection",
    "Softmax": "SoftmaxV2",
    "Slice": "SplitVD",
    "Concat": "ConcatD",
    "ReLU": "Relu",
}


def run_on_device(
    prototxt: str,
    weights: Weights,
    inputs: Mapping[str, Array],
    name: str,
    op_faults: Optional[Mapping[str, Any]] = None,
) -> DeviceModel:
    """Run a network as a device would and return its ops with their tensors.

    Each op computes in float32 from float16 inputs and rounds its output to float16. In-place
    BatchNorm, Scale, ReLU and Dropout layers are fused into the Convolution, Eltwise, Pooling or
    InnerProduct they follow; Cast and TransData are inserted as GE does.

    Parameters
    ----------
    prototxt
        Path of the network, of which the layers of phase TEST run.
    weights
        Layer name to its blobs, float32.
    inputs
        Input blob name to its values, float32, NCHW.
    name
        The model's name.
    op_faults
        Op name to what it computes wrong on purpose (:data:`goldwatch.testing.op_faults.KINDS`,
        such as ``scale:1.05``); what stands behind it is computed from that.

    Raises
    ------
    UsageError
        A fault is not known, is in no op of the network, or cannot be in such an op.
    """
    faults = parse_op_faults(op_faults or {})
    network = _Network(DeviceModel(name), weights, faults)
    document = read_document(prototxt)
    layers = Net(document, initial_state(document, "TEST", None, ())).layers
    for members in _fuse([layer for layer in layers if layer.type != "Input"]):
        if not network.started:
            network.start(inputs)
        network.add(members)
    network.finish()
    for op in faults:
        if op not in network.names:
            raise UsageError(
                "no op %s to compute wrong" % op, hint="ops: " + ", ".join(network.names)
            )
    return network.model


@dataclass(frozen=True)
class CaffeNetwork:
    """A Caffe network to be run on the stand-in of a device, for
    :class:`goldwatch.testing.DumpServer`.

    Attributes
    ----------
    prototxt, weights, inputs, name, op_faults
        As for :func:`run_on_device`.
    """

    prototxt: str
    weights: Weights
    inputs: Mapping[str, Array]
    name: str
    op_faults: Mapping[str, Any] = field(default_factory=dict)

    def model(self) -> DeviceModel:
        """Run it; raises as :func:`run_on_device`."""
        return run_on_device(self.prototxt, self.weights, self.inputs, self.name, self.op_faults)

    def with_op_faults(self, op_faults: Mapping[str, Any]) -> CaffeNetwork:
        """Return the network with further faults."""
        return replace(self, op_faults={**self.op_faults, **op_faults})

    def dumps(self, **form: Any) -> Iterator[DeviceDump]:
        """Yield its dump files; parameters as for :meth:`DeviceModel.dumps`."""
        return self.model().dumps(**form)

    def __iter__(self) -> Iterator[DeviceDump]:
        return self.dumps()


def _fuse(layers: Sequence[Layer]) -> List[List[Layer]]:
    """Put each layer together with the in-place ones that are absorbed into it."""
    groups: List[List[Layer]] = []
    for layer in layers:
        last = groups[-1] if groups else []
        tops = _texts(layer.tops)
        in_place = _texts(layer.bottoms) == tops
        follows = last and in_place and _texts(last[0].tops) == tops and last[0].type in _ABSORBING
        if follows and layer.type in _ABSORBED:
            last.append(layer)
        else:
            groups.append([layer])
    return groups


def _texts(values: Sequence[Any]) -> List[str]:
    return [value.text for value in values]


class _Network:
    """The ops made so far, and which of them holds each blob."""

    def __init__(self, model: DeviceModel, weights: Weights, faults: Mapping[str, OpFault]) -> None:
        self.model = model
        self.weights = weights
        self.faults = faults
        self.arithmetic = NodeArithmetic()
        self.names: List[str] = []
        self.started = False
        self.holders: Dict[str, Tuple[str, int]] = {}
        self.inserted = 0

    def start(self, inputs: Mapping[str, Array]) -> None:
        """Add the Data ops, and the Cast and TransData that bring them to float16 NC1HWC0."""
        self.started = True
        for blob, value in inputs.items():
            array = np.asarray(value, np.float32)
            self.model.add(DeviceOp(blob, "Data", (), (DeviceTensor(array, "NCHW", "NCHW", blob),)))
            half = DeviceTensor(array.astype(np.float16), "NCHW", "NCHW", blob)
            cast = self._insert("Cast", (blob, 0), half)
            self.holders[blob] = self._insert(
                "TransData", cast, DeviceTensor(half.array, "NC1HWC0", "NCHW", blob)
            )

    def _insert(self, kind: str, source: Tuple[str, int], output: DeviceTensor) -> Tuple[str, int]:
        name = "trans_%s_%d" % (kind, self.inserted)
        self.inserted += 1
        self.model.add(DeviceOp(name, kind, (source,), (output,), originals=()))
        return name, 0

    def add(self, members: Sequence[Layer]) -> None:
        """Add one op made from a layer and what it absorbs."""
        head, last = members[0], members[-1]
        sources = [self.holders[blob] for blob in _texts(head.bottoms)]
        if head.type == "Softmax":
            sources = [self._to_plain(sources[0])]
        tops = [np.asarray(self.model.output(*source).array, np.float32) for source in sources]
        name = "".join(layer.name for layer in members if layer is head or layer.type == "ReLU")
        self.names.append(name)
        fault = self.faults.get(name)
        if fault is not None and not fault.concerns(members, self.weights):
            types = ", ".join(layer.type for layer in members)
            raise UsageError(
                "op %s (%s) cannot have the fault %s" % (name, types, fault.kind),
                hint=KINDS[fault.kind],
            )
        constants: List[Tuple[str, int]] = []
        for layer in members:
            blobs = self.weights.get(layer.name, ())
            node = Node(CAFFE, layer.type, own_parameters(layer), layer.name, 0, len(layer.tops))
            tops = self._computed(node, [*tops, *blobs], fault)
            constants += self._constants(layer, blobs) if layer is head else []
        tops = fault.outputs(tops) if fault is not None else tops
        outputs = tuple(_output(head.type, top, last.name, index) for index, top in enumerate(tops))
        kind = _OP_TYPES.get(head.type, head.type)
        originals = tuple(layer.name for layer in members)
        self.model.add(DeviceOp(name, kind, tuple(sources + constants), outputs, originals))
        for index, blob in enumerate(_texts(head.tops)):
            self.holders[blob] = (name, index)

    def _computed(self, node: Node, inputs: List[Any], fault: Optional[OpFault]) -> List[Array]:
        compute = self.arithmetic.compute
        try:
            if fault is None:
                return compute(node, inputs)
            changed, inputs = fault.changed(node, inputs)
            return fault.after(node, inputs, compute(changed, inputs), compute)
        except CannotCompute as error:
            raise InputError(
                "layer %s (%s): the stand-in of a device cannot compute it: %s"
                % (node.name, node.type, error)
            ) from None

    def _constants(self, layer: Layer, blobs: Sequence[Array]) -> List[Tuple[str, int]]:
        sources = []
        for number, blob in enumerate(blobs):
            name = "%s_%s" % (layer.name, ("weights", "bias", "factor")[number])
            if layer.type == "InnerProduct" and blob.ndim == 4:
                blob = blob.reshape(blob.shape[-2:])  # old files have [1, 1, M, K]
            values = blob.reshape(blob.shape + (1,) * (4 - blob.ndim)) if number == 0 else blob
            tensor = DeviceTensor(values.astype(np.float16), "FRACTAL_Z" if number == 0 else "ND")
            self.model.add(DeviceOp(name, "Const", (), (tensor,)))
            sources.append((name, 0))
        return sources

    def _to_plain(self, source: Tuple[str, int]) -> Tuple[str, int]:
        held = self.model.output(*source)
        plain = DeviceTensor(
            held.array, "ND", held.origin_format, held.origin_name, held.origin_index
        )
        return self._insert("TransData", source, plain)

    def finish(self) -> None:
        """Add the Cast back to float32 and the NetOutput, for blobs that nothing reads."""
        read = {source for op in self.model.ops for source in op.inputs}
        results = []
        for source in dict.fromkeys(self.holders.values()):
            if source not in read:
                held = self.model.output(*source)
                wide = DeviceTensor(
                    held.array.astype(np.float32),
                    held.format,
                    held.origin_format,
                    held.origin_name,
                    held.origin_index,
                )
                results.append(self._insert("Cast", source, wide))
        self.model.add(DeviceOp("Node_Output", "NetOutput", tuple(results), (), originals=()))


def _output(kind: str, top: Array, origin: str, index: int) -> DeviceTensor:
    half = top.astype(np.float16)
    if kind == "InnerProduct":
        return DeviceTensor(half, "FRACTAL_NZ", "ND", origin, index)
    if half.ndim == 4:
        return DeviceTensor(half, "NC1HWC0", "NCHW", origin, index)
    return DeviceTensor(half, "ND", "ND", origin, index)
