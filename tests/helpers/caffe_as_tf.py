"""A Caffe net of the stand-in device, converted to a frozen TensorFlow graph in NHWC, without
TensorFlow.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
from wire_graph import node, typed

from goldwatch.base.protowire import field, varint
from goldwatch.netfiles.caffe_net import Net, initial_state, v1_type
from goldwatch.netfiles.prototxt_edits import read_document

_CODES = {"float32": 1, "int32": 3}
_T, _INT = typed(1), typed(3)


def ints(*values):
    """An attribute that is a list of integers."""
    return field(1, field(3, b"".join(map(varint, values))))


def text(value):
    return field(2, value.encode())


def real(value):
    return varint(4 << 3 | 5) + struct.pack("<f", value)


class AsTensorflow:
    """The graph's bytes, and the om json's names for it."""

    def __init__(self, prototxt, weights, shapes):
        self._weights, self.nodes, self._written = weights, {}, []
        self._blobs, self._sizes = (
            {name: name for name in shapes},
            {name: tuple(shape[1:]) for name, shape in shapes.items()},
        )
        for name, (batch, channels, high, wide) in shapes.items():
            dims = b"".join(field(2, field(1, dim)) for dim in (batch, high, wide, channels))
            self._written.append(node(name, "Placeholder", dtype=_T, shape=field(7, dims)))
        document = read_document(prototxt)
        for layer in Net(document, initial_state(document, "TEST", None, ())).layers:
            if layer.type != "Input":
                self._add(layer.message)
        self.graph = b"".join(self._written)

    def renamed(self, model):
        """Return the device's model with nodes in the places of layers, and in NHWC."""
        model.ops = [
            replace(
                op,
                originals=None
                if op.originals is None
                else tuple(name for layer in op.originals for name in self.nodes[layer]),
                outputs=tuple(self._moved(op, output) for output in op.outputs),
            )
            for op in model.ops
        ]
        return model

    def _moved(self, op, output):
        origin = self.nodes.get(output.origin_name, (output.origin_name,))[-1]
        if output.array.ndim != 4:
            return replace(output, origin_name=origin)
        if op.type == "Const":
            return replace(
                output,
                array=np.ascontiguousarray(output.array.transpose(2, 3, 1, 0)),
                origin_format="HWCN",
            )
        moved = np.ascontiguousarray(output.array.transpose(0, 2, 3, 1))
        layout = "NHWC" if output.format == "NCHW" else output.format
        origin_format = "NHWC" if output.origin_format == "NCHW" else output.origin_format
        return replace(
            output, array=moved, format=layout, origin_format=origin_format, origin_name=origin
        )

    def _const(self, name, values):
        values = np.asarray(values)
        shape = b"".join(field(2, field(1, dim)) for dim in values.shape)
        code = _CODES[str(values.dtype)]
        tensor = field(1, code) + field(2, shape) + field(4, values.tobytes())
        self._written.append(node(name, "Const", dtype=typed(code), value=field(8, tensor)))
        return name

    def _node(self, layer, op, inputs, suffix="", **attrs):
        name = layer + suffix
        self._written.append(node(name, op, *inputs, **attrs))
        self.nodes[layer] = (*self.nodes.get(layer, ()), name)
        return name

    def _add(self, message):
        layer, kind, bottoms = (
            message.text("name"),
            v1_type(str(message.text("type"))),
            message.texts("bottom"),
        )
        blobs = [np.asarray(blob, np.float32) for blob in self._weights.get(layer, ())]
        values, sizes = (
            [self._blobs[blob] for blob in bottoms],
            [self._sizes[blob] for blob in bottoms],
        )
        tops, size = getattr(self, "_" + kind.lower())(message, layer, values, blobs, sizes)
        tops = tops if isinstance(tops, list) else [tops]
        self._blobs.update(zip(message.texts("top"), tops))
        found = size if isinstance(size, list) else [size]
        self._sizes.update(zip(message.texts("top"), found))

    def _convolution(self, message, layer, values, blobs, sizes):
        param = message.message("convolution_param")
        pad, stride, kernel = (
            int(param.number("pad", 0)),
            int(param.number("stride", 1)),
            blobs[0].shape[2],
        )
        value = self._padded(layer, values[0], [pad] * 4, 0.0) if pad else values[0]
        filters = self._const(layer + "/w", blobs[0].transpose(2, 3, 1, 0).copy())
        last = len(blobs) == 1
        attrs = {
            "T": _T,
            "strides": ints(1, stride, stride, 1),
            "padding": text("VALID"),
            "data_format": text("NHWC"),
        }
        value = self._node(layer, "Conv2D", [value, filters], "" if last else "/conv", **attrs)
        value = (
            value
            if last
            else self._node(layer, "BiasAdd", [value, self._const(layer + "/b", blobs[1])], T=_T)
        )
        return value, (
            len(blobs[0]),
            *[(side + 2 * pad - kernel) // stride + 1 for side in sizes[0][1:]],
        )

    def _padded(self, layer, value, pads, number):
        top, left, bottom, right = pads
        paddings = self._const(
            layer + "/paddings", np.int32([[0, 0], [top, bottom], [left, right], [0, 0]])
        )
        filling = self._const(layer + "/filling", np.float32(number))
        return self._node(layer, "PadV2", [value, paddings, filling], "/pad", T=_T, Tpaddings=_INT)

    def _batchnorm(self, message, layer, values, blobs, sizes):
        factor, count = 1.0 / blobs[2].reshape(-1)[0], blobs[0].size
        arrays = (
            np.ones(count, np.float32),
            np.zeros(count, np.float32),
            blobs[0].reshape(-1) * factor,
            blobs[1].reshape(-1) * factor,
        )
        names = [
            self._const("%s/%d" % (layer, number), np.float32(array))
            for number, array in enumerate(arrays)
        ]
        attrs = {
            "T": _T,
            "epsilon": real(1e-5),
            "is_training": field(5, 0),
            "data_format": text("NHWC"),
        }
        return self._node(layer, "FusedBatchNorm", values + names, **attrs), sizes[0]

    def _scale(self, message, layer, values, blobs, sizes):
        names = [
            self._const("%s/%d" % (layer, number), blob.reshape(-1))
            for number, blob in enumerate(blobs)
        ]
        last = len(names) == 1
        value = self._node(layer, "Mul", values + names[:1], "" if last else "/mul", T=_T)
        return value if last else self._node(layer, "Add", [value, names[1]], T=_T), sizes[0]

    def _relu(self, message, layer, values, blobs, sizes):
        return self._node(layer, "Relu", values, T=_T), sizes[0]

    def _sigmoid(self, message, layer, values, blobs, sizes):
        return self._node(layer, "Sigmoid", values, T=_T), sizes[0]

    def _dropout(self, message, layer, values, blobs, sizes):
        return self._node(layer, "Identity", values, T=_T), sizes[0]

    def _softmax(self, message, layer, values, blobs, sizes):
        return self._node(layer, "Softmax", values, T=_T), sizes[0]

    def _pooling(self, message, layer, values, blobs, sizes):
        param = message.message("pooling_param")
        high, wide = sizes[0][1:]
        kernel, stride, pad = (
            int(param.number(name, default))
            for name, default in (("kernel_size", 1), ("stride", 1), ("pad", 0))
        )
        if param.text("global_pooling", "false") == "true":
            kernel, stride, pad = high, 1, 0
        most = param.text("pool", "MAX") == "MAX"
        counts = [-(-(side + 2 * pad - kernel) // stride) + 1 for side in (high, wide)]
        counts = [
            count - 1 if pad and (count - 1) * stride >= side + pad else count
            for count, side in zip(counts, (high, wide))
        ]
        ends = [
            max(0, (count - 1) * stride + kernel - side - pad)
            for count, side in zip(counts, (high, wide))
        ]
        value = (
            self._padded(layer, values[0], [pad, pad, *ends], -3e38)
            if pad or any(ends)
            else values[0]
        )
        window = {"ksize": ints(1, kernel, kernel, 1), "strides": ints(1, stride, stride, 1)}
        attrs = {"T": _T, "padding": text("VALID"), "data_format": text("NHWC"), **window}
        return self._node(layer, "MaxPool" if most else "AvgPool", [value], **attrs), (
            sizes[0][0],
            *counts,
        )

    def _lrn(self, message, layer, values, blobs, sizes):
        param = message.message("lrn_param")
        size = int(param.number("local_size", 5))
        attrs = {
            "alpha": real(param.number("alpha", 1.0) / size),
            "beta": real(param.number("beta", 0.75)),
            "bias": real(1.0),
        }
        return self._node(
            layer, "LRN", values, T=_T, depth_radius=field(3, size // 2), **attrs
        ), sizes[0]

    def _eltwise(self, message, layer, values, blobs, sizes):
        return self._node(layer, "AddN", values, T=_T, N=field(3, len(values))), sizes[0]

    def _concat(self, message, layer, values, blobs, sizes):
        axis = self._const(layer + "/axis", np.int32(3))
        joined = (sum(size[0] for size in sizes), *sizes[0][1:])
        return self._node(
            layer, "ConcatV2", [*values, axis], T=_T, N=field(3, len(values)), Tidx=_INT
        ), joined

    def _slice(self, message, layer, values, blobs, sizes):
        points = [int(point) for point in message.message("slice_param").texts("slice_point")]
        parts = np.diff([0, *points, sizes[0][0]]).astype(np.int32)
        inputs = [
            values[0],
            self._const(layer + "/sizes", parts),
            self._const(layer + "/axis", np.int32(3)),
        ]
        name = self._node(layer, "SplitV", inputs, T=_T, Tlen=_INT, num_split=field(3, len(parts)))
        return [name if not number else "%s:%d" % (name, number) for number in range(len(parts))], [
            (int(n), *sizes[0][1:]) for n in parts
        ]

    def _innerproduct(self, message, layer, values, blobs, sizes):
        value = values[0]
        if len(sizes[0]) == 3:
            order = self._const(layer + "/order", np.int32([0, 3, 1, 2]))
            value = self._node(layer, "Transpose", [value, order], "/nchw", T=_T, Tperm=_INT)
            shape = self._const(layer + "/shape", np.int32([-1, int(np.prod(sizes[0]))]))
            value = self._node(layer, "Reshape", [value, shape], "/flat", T=_T, Tshape=_INT)
        matrix = self._const(layer + "/w", blobs[0].reshape(blobs[0].shape[-2:]))
        value = self._node(layer, "MatMul", [value, matrix], "/mm", T=_T, transpose_b=field(5, 1))
        return self._node(
            layer, "BiasAdd", [value, self._const(layer + "/b", blobs[1].reshape(-1))], T=_T
        ), (blobs[0].shape[-2],)
