"""An op of the stand-in that computes wrongly: the mistakes that devices and compilers make,
planted into one op of a network.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass

Array = Any
Compute = Callable[[Any, Sequence[Any]], List[Array]]

KINDS = {
    "scale": "every output times N (1.05)",
    "stale-filter": "filter N (0) has the weights of its neighbour, with the other sign",
    "epsilon": "BatchNorm adds N (0.1) to the variance",
    "pad": "a convolution's padding lies off by one: one more before, one less behind",
    "no-bias": "the bias is dropped",
    "pooling": "the window of a pooling ends one element too early",
    "axis": "a concat joins along the last axis instead of the channels",
    "saturation": "values are cut off at N (half of the largest)",
    "c0-slot": "the 16 channels that lie together in one C0 slot of the middle hold garbage",
    "channels": "the channels are exchanged: each holds the one before",
    "coarse": "values are computed with N (6) significant bits, but in float32 or with "
    "high_precision",
}
"""Kind to what it does; N is the number behind the colon, in brackets where none is given."""

_DEFAULTS = {"scale": 1.05, "stale-filter": 0.0, "epsilon": 0.1, "coarse": 6.0}
_WITH_NUMBER = {*_DEFAULTS, "saturation"}
_CONVOLUTIONS = ("Convolution", "Conv", "Conv2D")
_PRODUCTS = (*_CONVOLUTIONS, "InnerProduct", "Gemm", "MatMul")
_FOR_LAYERS = {
    "stale-filter": _PRODUCTS,
    "epsilon": (
        "BatchNorm",
        "BatchNormalization",
        "FusedBatchNorm",
        "FusedBatchNormV2",
        "FusedBatchNormV3",
    ),
    "pad": _CONVOLUTIONS,
    "no-bias": ("Convolution", "Conv", "InnerProduct", "Gemm", "Scale"),
    "pooling": ("Pooling", "MaxPool", "AveragePool", "AvgPool"),
    "axis": ("Concat", "ConcatV2"),
}
_FILTER_LAST = ("Conv2D",)
_C0 = 16


@dataclass(frozen=True)
class OpFault:
    """A mistake in one op.

    Attributes
    ----------
    kind
        A key of :data:`KINDS`.
    number
        What stands behind the colon; None: the kind's own default.
    """

    kind: str
    number: Optional[float] = None

    @classmethod
    def parse(cls, text: str) -> OpFault:
        """Return the fault that ``KIND`` or ``KIND:N`` names.

        Raises
        ------
        UsageError
            The kind is not known, or N is no number or not wanted.
        """
        kind, colon, rest = text.partition(":")
        if kind not in KINDS:
            raise UsageError(
                "an op's fault %r is not known" % kind, hint="one of " + ", ".join(KINDS)
            )
        if not colon:
            return cls(kind, _DEFAULTS.get(kind))
        try:
            number = float(rest)
        except ValueError:
            raise UsageError(
                "fault %s: %r is no number" % (kind, rest), hint="for example scale:1.05"
            ) from None
        if kind not in _WITH_NUMBER or not np.isfinite(number):
            raise UsageError(
                "fault %s takes no number %s" % (kind, rest),
                hint="those with one are " + ", ".join(sorted(_WITH_NUMBER)),
            )
        return cls(kind, number)

    def concerns(self, layers: Sequence[Any], weights: Mapping[str, Sequence[Array]]) -> bool:
        """Tell whether the fault can be in an op that is made from these layers."""
        types = _FOR_LAYERS.get(self.kind)
        return types is None or any(
            layer.type in types and (self.kind != "no-bias" or len(weights.get(layer.name, ())) > 1)
            for layer in layers
        )

    def changed(self, node: Any, inputs: List[Any]) -> Tuple[Any, List[Any]]:
        """Return a node of an original model and its inputs as the op takes them, wrongly where the
        fault is in such a node.
        """
        if node.type not in _FOR_LAYERS.get(self.kind, ()):
            return node, inputs
        given = list(inputs)
        if self.kind == "stale-filter":
            given[1] = _stale_along(
                np.asarray(given[1], np.float32), _filter_axis(node), int(self.number or 0)
            )
        elif self.kind == "no-bias" and len(given) > 2 and given[2] is not None:
            given[2] = np.zeros_like(given[2])
        elif self.kind == "no-bias" and node.type == "Scale" and len(given) == 3:
            given = given[:2]
        elif self.kind == "epsilon":
            name = "eps" if node.type == "BatchNorm" else "epsilon"
            node = replace(
                node,
                attributes={
                    **node.attributes,
                    name: float(node.attributes.get(name, 1e-5)) + (self.number or 0.0),
                },
            )
        elif self.kind == "axis":
            given = [value for value in given if value is not None]
        return node, given

    def after(
        self, node: Any, inputs: List[Any], made: List[Array], compute: Compute
    ) -> List[Array]:
        """Return what a node made, wrongly where the fault is in how it puts its output
        together.

        Parameters
        ----------
        compute
            What computed it, of a node and its inputs.
        """
        if node.type not in _FOR_LAYERS.get(self.kind, ()):
            return made
        if self.kind == "axis":
            parts = [
                np.asarray(part, np.float32) for part in inputs if np.ndim(part) == made[0].ndim
            ]
            return [_joined_wrongly(parts)] if made[0].ndim > 1 else made
        if self.kind == "pad":
            return [_padded_off_by_one(node, inputs, made[0], compute)]
        return [_short_windows(node, inputs, made[0], compute)] if self.kind == "pooling" else made

    def outputs(self, tops: List[Array]) -> List[Array]:
        """Return the op's outputs, spoiled where the fault is in them."""
        if self.kind == "coarse":
            return [_shortened(top, int(self.number or 6)) for top in tops]
        if self.kind == "scale":
            return [top * np.float32(1.05 if self.number is None else self.number) for top in tops]
        if self.kind == "saturation":
            return [np.clip(top, -most, most) for top in tops for most in [_most(top, self.number)]]
        if self.kind == "channels":
            return [np.roll(top, 1, axis=1) for top in tops]
        return [_garbage(top) for top in tops[:1]] + tops[1:] if self.kind == "c0-slot" else tops


def _filter_axis(node: Any) -> int:
    """Return along which axis a node's weights have its filters."""
    if node.type in _FILTER_LAST:
        return 3
    if node.type == "MatMul":
        return -1
    return -1 if node.type == "Gemm" and not node.attributes.get("transB", 0) else 0


def _stale_along(weights: Array, axis: int, number: int) -> Array:
    return np.moveaxis(_stale(np.moveaxis(weights, axis, 0), number), 0, axis)


def _short_windows(node: Any, inputs: List[Any], right: Array, compute: Compute) -> Array:
    """Return a pooling whose windows end one element too early; along axes where nothing comes of
    it, as it is right.
    """
    names = ("kernel_shape", "kernel_size", "kernel_h", "kernel_w", "ksize")
    shorter = {name: _one_less(node.attributes[name]) for name in names if name in node.attributes}
    if node.attributes.get("global_pooling"):
        height, width = np.shape(inputs[0])[2:]
        shorter = {"kernel_h": height - 1, "kernel_w": width - 1, "global_pooling": False}
    attributes = {**node.attributes, **shorter}
    made = np.asarray(compute(replace(node, attributes=attributes), inputs)[0], np.float32)
    spoiled = np.array(right, np.float32)
    common = tuple(slice(0, min(sizes)) for sizes in zip(spoiled.shape, made.shape))
    spoiled[common] = made[common]
    return spoiled


def _padded_off_by_one(node: Any, inputs: List[Any], right: Array, compute: Compute) -> Array:
    """Return a convolution whose input lies one row and one column further."""
    x = np.asarray(inputs[0], np.float32)
    first = 1 if node.type in _FILTER_LAST else 2
    axes = range(first, first + 2) if node.type in _FILTER_LAST else range(first, x.ndim)
    strides = node.attributes.get("strides") or [1] * x.ndim
    widths = [(0, 0)] * x.ndim
    for axis in axes:
        # Longer by one stride: a padding SAME begins where it did, and gives one window more.
        stride = strides[axis if node.type in _FILTER_LAST else axis - first]
        widths[axis] = (1, int(stride) - 1)
    made = compute(node, [np.pad(x, widths), *inputs[1:]])[0]
    return np.ascontiguousarray(np.asarray(made)[tuple(map(slice, right.shape))])


def _one_less(sizes: Any) -> Any:
    return (
        [max(1, size - 1) for size in sizes]
        if isinstance(sizes, (list, tuple))
        else max(1, sizes - 1)
    )


def _shortened(top: Array, bits: int) -> Array:
    if top.dtype.kind != "f":
        return top
    mantissa, exponent = np.frexp(top)
    return np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent).astype(np.float32)


def parse_op_faults(faults: Mapping[str, Any]) -> Dict[str, OpFault]:
    """Return ``{op name: fault}`` of faults or of their texts; raises as :meth:`OpFault.parse`."""
    return {
        name: fault if isinstance(fault, OpFault) else OpFault.parse(fault)
        for name, fault in faults.items()
    }


def _stale(weights: Array, number: int) -> Array:
    if not 0 <= number < len(weights):
        raise UsageError("there is no filter %d: there are %d" % (number, len(weights)))
    changed = weights.copy()
    changed[number] = (
        -weights[(number + 1) % len(weights)] if len(weights) > 1 else -weights[number]
    )
    return changed


def _joined_wrongly(inputs: List[Array]) -> Array:
    channels = sum(x.shape[1] for x in inputs)
    if inputs[0].ndim < 3:
        return np.concatenate([x.reshape(-1) for x in inputs]).reshape(inputs[0].shape[0], channels)
    rows = [x.reshape(x.shape[0], x.shape[2], -1) for x in inputs]
    return np.ascontiguousarray(np.concatenate(rows, axis=2)).reshape(
        (inputs[0].shape[0], channels) + inputs[0].shape[2:]
    )


def _most(top: Array, number: Optional[float]) -> Any:
    return np.float32(np.abs(top).max() / 2 if number is None else abs(number))


def _garbage(top: Array) -> Array:
    """Return the output with other numbers, of its own magnitude, in up to 16 channels of one
    position.
    """
    spoiled = np.array(top, np.float32)
    count = min(_C0, top.shape[1])
    place = (0, slice(0, count)) + tuple(size // 2 for size in top.shape[2:])
    magnitude = float(np.abs(top).max()) or 1.0
    spoiled[place] = np.random.RandomState(0).uniform(-magnitude, magnitude, count)
    return spoiled
