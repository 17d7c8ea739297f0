"""Networks in plain numpy, small in space and deep, for trials of the verdict: their golden run and
their run on a simulated device.

Every op computes from arrays to one array. A device rounds each op's output to its type; with half
accumulation it also rounds the partial sums of every product of matrices, as a cube unit without
wide accumulators would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

Array = Any
_CHUNK = 64


class Device(NamedTuple):
    """How a device computes: the type of its tensors, and whether products of matrices are
    accumulated in that type too.

    ``shortened`` devices keep 10 bits of the mantissas of what they multiply, as cube units do with
    float32.
    """

    dtype: str = "float16"
    half_sums: bool = False
    shortened: bool = False

    def store(self, values: Array) -> Array:
        """Round values to the device's type; bfloat16 comes as float32 that holds only such
        values.
        """
        if self.dtype == "bfloat16":
            bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
            return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
        with np.errstate(over="ignore"):
            return values.astype(self.dtype)

    def matmul(self, left: Array, right: Array) -> Array:
        """Return ``left @ right``."""
        if self.shortened:
            left, right = _short(left), _short(right)
        if not self.half_sums:
            return left @ right
        total = np.zeros(
            np.broadcast_shapes(left.shape[:-1] + (1,), left.shape[:-2] + (1, right.shape[-1])),
            np.float16,
        )
        for at in range(0, left.shape[-1], _CHUNK):
            part = left[..., at : at + _CHUNK] @ right[..., at : at + _CHUNK, :]
            total = (total.astype(np.float32) + part).astype(np.float16)
        return total.astype(np.float32)


def _short(values: Array) -> Array:
    """Round float32 numbers to 10 bits of mantissa."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


EXACT = Device("float64")


@dataclass
class Op:
    """One op: ``compute(device, parameters, *inputs)`` gives its output."""

    name: str
    type: str
    inputs: Tuple[str, ...]
    compute: Callable[..., Array]
    parameters: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Net:
    """Ops in execution order; ``data`` names the input, of which the golden value is ``values``."""

    name: str
    values: Array
    ops: List[Op] = field(default_factory=list)

    def add(
        self, kind: str, inputs: Tuple[str, ...], compute: Callable[..., Array], **parameters: Any
    ) -> str:
        """Append an op; return its name."""
        name = "%s_%d" % (kind.lower(), len(self.ops))
        self.ops.append(Op(name, kind, inputs, compute, parameters))
        return name

    def golden(self) -> Dict[str, Array]:
        """Return every op's float32 output, computed in float64."""
        exact: Dict[str, Array] = {"data": self.values.astype(np.float64)}
        for op in self.ops:
            exact[op.name] = op.compute(EXACT, op.parameters, *[exact[name] for name in op.inputs])
        return {name: values.astype(np.float32) for name, values in exact.items()}

    def run(
        self, device: Device, fault: Optional[Any] = None, start: Optional[Dict[str, Array]] = None
    ) -> Dict[str, Array]:
        """Return every op's output on the device; ``fault`` (see faults.py) spoils the op that it
        names.

        ``start`` holds outputs that are known already: those of the ops before the fault.
        """
        made: Dict[str, Array] = {"data": device.store(self.values)}
        made.update(start or {})
        for op in self.ops:
            if op.name not in made:
                made[op.name] = self.one(
                    device, op, made, fault if fault is not None and fault.op == op.name else None
                )
        return made

    def one(
        self, device: Device, op: Op, made: Dict[str, Array], fault: Optional[Any] = None
    ) -> Array:
        """Return one op's output from what stands before it."""
        inputs = [
            made[name].astype(np.float32 if device is not EXACT else np.float64)
            for name in op.inputs
        ]
        parameters = op.parameters if fault is None else fault.parameters(op)
        output = op.compute(device, parameters, *inputs)
        return device.store(output if fault is None else fault.output(output, op))


def conv(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return a convolution, NCHW, stride 1 or 2, padding (kernel − 1) / 2, in groups of one channel
    where the filters are [C, 1, k, k].
    """
    filters, bias, stride = parameters["filters"], parameters["bias"], parameters.get("stride", 1)
    size = filters.shape[-1]
    before = (size - 1) // 2 + parameters.get("shift", 0)
    pad = ((0, 0), (0, 0), (before, size - 1 - before), (before, size - 1 - before))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pad), (size, size), (2, 3))[
        :, :, ::stride, ::stride
    ]
    count, channels, height, width = windows.shape[:4]
    dtype = x.dtype
    if filters.shape[1] == 1 and channels > 1:
        filters = filters[:, 0].astype(dtype)
        if device.shortened:
            windows, filters = _short(windows), _short(filters)
        made = np.einsum("nchwij,cij->nchw", windows, filters)
    else:
        rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(count, height * width, -1)
        made = device.matmul(rows, filters.reshape(filters.shape[0], -1).T.astype(dtype))
        made = made.reshape(count, height, width, -1).transpose(0, 3, 1, 2)
    return made + bias.reshape(1, -1, 1, 1).astype(dtype)


def batch_norm(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return gamma · (x − mean) / √(var + epsilon) + beta along axis 1."""
    shape = (1, -1, 1, 1)
    gamma, beta, mean, var = (
        parameters[name].reshape(shape).astype(x.dtype) for name in ("gamma", "beta", "mean", "var")
    )
    return gamma * (x - mean) / np.sqrt(var + parameters["epsilon"]) + beta


def relu(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return the positive part, at most ``parameters["most"]`` where given."""
    return np.clip(x, 0, parameters.get("most"))


def add(device: Device, parameters: Dict[str, Any], x: Array, y: Array) -> Array:
    """Return x + y."""
    return x + y


def pool(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return the mean over the last two axes."""
    return x.mean(axis=(2, 3))


def dense(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return x @ weights + bias."""
    return device.matmul(x, parameters["weights"].astype(x.dtype)) + parameters["bias"].astype(
        x.dtype
    )


def softmax(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return the softmax along the last axis."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def scores(device: Device, parameters: Dict[str, Any], q: Array, k: Array) -> Array:
    """Return the attention scores of heads: q · kᵀ / √d, masked positions −1e4."""
    made = device.matmul(_heads(q, parameters), _heads(k, parameters).swapaxes(-1, -2))
    made = made / np.sqrt(made.dtype.type(q.shape[-1] // parameters["heads"]))
    return np.where(parameters["mask"], made.dtype.type(-1e4), made)


def attend(device: Device, parameters: Dict[str, Any], weights: Array, v: Array) -> Array:
    """Return weights · v, the heads side by side again."""
    made = device.matmul(weights, _heads(v, parameters))
    return made.transpose(0, 2, 1, 3).reshape(v.shape)


def _heads(x: Array, parameters: Dict[str, Any]) -> Array:
    return np.ascontiguousarray(
        x.reshape(x.shape[0], x.shape[1], parameters["heads"], -1).transpose(0, 2, 1, 3)
    )


def layer_norm(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return gamma · (x − mean) / √(var + epsilon) + beta along the last axis."""
    mean, var = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    gamma, beta = parameters["gamma"].astype(x.dtype), parameters["beta"].astype(x.dtype)
    return gamma * (x - mean) / np.sqrt(var + parameters["epsilon"]) + beta


def gelu(device: Device, parameters: Dict[str, Any], x: Array) -> Array:
    """Return the tanh form of GELU."""
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


class Builder:
    """Builds a network with weights and an input of one seed, each layer's statistics taken from
    the golden run.
    """

    def __init__(self, name: str, seed: int, shape: Tuple[int, ...]) -> None:
        self.random = np.random.RandomState(seed)
        self.net = Net(name, self.random.standard_normal(shape).astype(np.float32))
        self.exact: Dict[str, Array] = {"data": self.net.values.astype(np.float64)}

    def add(
        self, kind: str, inputs: Tuple[str, ...], compute: Callable[..., Array], **parameters: Any
    ) -> str:
        """Append an op."""
        name = self.net.add(kind, inputs, compute, **parameters)
        self.exact[name] = compute(EXACT, parameters, *[self.exact[source] for source in inputs])
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """Return random float32 numbers."""
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def conv(
        self, x: str, channels: int, size: int = 3, stride: int = 1, depthwise: bool = False
    ) -> str:
        """Append a convolution with bias."""
        inside = 1 if depthwise else self.exact[x].shape[1]
        filters = self.normal(
            channels, inside, size, size, scale=np.sqrt(2.0 / (inside * size * size))
        )
        kind = "DepthwiseConv2D" if depthwise else "Conv2D"
        return self.add(
            kind, (x,), conv, filters=filters, bias=self.normal(channels, scale=0.1), stride=stride
        )

    def norm(self, x: str) -> str:
        """Append a BatchNorm whose mean and variance are about those of its input."""
        values = self.exact[x]
        channels = values.shape[1]
        mean = values.mean(axis=(0, 2, 3)) + 0.05 * self.random.standard_normal(channels)
        var = values.var(axis=(0, 2, 3)) * self.random.uniform(0.8, 1.25, channels) + 1e-3
        gamma, beta = (
            self.random.uniform(0.6, 1.2, channels),
            0.2 * self.random.standard_normal(channels),
        )
        return self.add(
            "BNInference",
            (x,),
            batch_norm,
            gamma=gamma,
            beta=beta,
            mean=mean,
            var=var,
            epsilon=1e-5,
        )

    def dense(self, x: str, width: int, kind: str = "MatMulV2") -> str:
        """Append a fully connected layer."""
        inside = self.exact[x].shape[-1]
        weights = self.normal(inside, width, scale=1.0 / np.sqrt(inside))
        return self.add(kind, (x,), dense, weights=weights, bias=self.normal(width, scale=0.1))

    def layer_norm(self, x: str) -> str:
        """Append a LayerNorm."""
        width = self.exact[x].shape[-1]
        gamma, beta = self.random.uniform(0.6, 1.2, width), self.normal(width, scale=0.1)
        return self.add("LayerNorm", (x,), layer_norm, gamma=gamma, beta=beta, epsilon=1e-5)


def resnet(seed: int, channels: int, blocks: int = 24) -> Net:
    """Return a ResNet-like network: a first convolution, ``blocks`` residual blocks of two
    convolutions, a classifier.
    """
    size = 8 if channels <= 64 else 4
    build = Builder("resnet%d" % channels, seed, (1, 16, size, size))
    x = build.add("Relu", (build.norm(build.conv("data", channels)),), relu)
    for _ in range(blocks):
        y = build.add("Relu", (build.norm(build.conv(x, channels)),), relu)
        y = build.norm(build.conv(y, channels))
        x = build.add("Relu", (build.add("Add", (x, y), add),), relu)
    x = build.dense(build.add("ReduceMean", (x,), pool), 100, "FullyConnection")
    build.add("SoftmaxV2", (x,), softmax)
    return build.net


def mobilenet(seed: int, blocks: int = 9) -> Net:
    """Return a MobileNet-like network: depthwise and pointwise convolutions, ReLU6, shortcuts."""
    build = Builder("mobilenet", seed, (1, 16, 8, 8))
    x = build.add("Relu6", (build.norm(build.conv("data", 48)),), relu, most=6.0)
    for block in range(blocks):
        y = build.add("Relu6", (build.norm(build.conv(x, 48, depthwise=True)),), relu, most=6.0)
        y = build.norm(build.conv(y, 48, size=1))
        x = build.add("Add", (x, y), add) if block % 2 else build.add("Relu6", (y,), relu, most=6.0)
    x = build.dense(build.add("ReduceMean", (x,), pool), 100, "FullyConnection")
    build.add("SoftmaxV2", (x,), softmax)
    return build.net


def transformer(
    seed: int, layers: int = 6, width: int = 64, tokens: int = 24, heads: int = 4
) -> Net:
    """Return a transformer encoder; the last tokens are masked."""
    build = Builder("transformer", seed, (1, tokens, width))
    mask = np.zeros((1, 1, 1, tokens), bool)
    mask[..., tokens - 4 :] = True
    x = build.layer_norm("data")
    for _ in range(layers):
        q, k, v = (build.dense(x, width) for _ in range(3))
        weights = build.add(
            "SoftmaxV2",
            (build.add("BatchMatMulV2", (q, k), scores, heads=heads, mask=mask),),
            softmax,
        )
        y = build.dense(build.add("BatchMatMul", (weights, v), attend, heads=heads), width)
        x = build.layer_norm(build.add("Add", (x, y), add))
        y = build.add("Gelu", (build.dense(x, 4 * width),), gelu)
        x = build.layer_norm(build.add("Add", (x, build.dense(y, width)), add))
    build.add("SoftmaxV2", (build.dense(x, 50),), softmax)
    return build.net


NETS: Dict[str, Callable[[int], Net]] = {
    "resnet64": lambda seed: resnet(seed, 64),
    "resnet256": lambda seed: resnet(seed, 256),
    "mobilenet": mobilenet,
    "transformer": transformer,
}
DEVICES: Dict[str, Device] = {
    "float16": Device(), "float16 sums": Device("float16", True), "bfloat16": Device("bfloat16"),
    "float32": Device("float32"),
    "float32 shortened": Device("float32", shortened=True),
}  # fmt: skip
