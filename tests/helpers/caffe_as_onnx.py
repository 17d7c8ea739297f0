"""A Caffe net of the stand-in device, converted to ONNX, so that the same faults can be planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto, helper
from onnx_graphs import Builder

from goldwatch.netfiles.caffe_net import Net, initial_state, v1_type
from goldwatch.netfiles.prototxt_edits import read_document


class AsOnnx:
    """The model, and the om json's names for it.

    Parameters
    ----------
    dtype
        Of its weights and inputs.
    """

    def __init__(self, prototxt, weights, shapes, dtype=np.float32):
        self._net, self._weights, self._dtype = Builder(), weights, dtype
        self._blobs = {name: name for name in shapes}
        self._channels = {name: shape[1] for name, shape in shapes.items()}
        self.nodes, self._unnamed = {}, 0
        document = read_document(prototxt)
        for layer in Net(document, initial_state(document, "TEST", None, ())).layers:
            if layer.type != "Input":
                self._add(layer.message)
        code = (
            helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            if dtype != np.float32
            else TensorProto.FLOAT
        )
        inputs = [(name, code, list(shape)) for name, shape in shapes.items()]
        last = self._net.nodes[-1].output[0]
        self.model = self._net.model(inputs, [(last, code, ["batch", "classes"])], opset=13)

    def renamed(self, model):
        """Return the device's model with the nodes' names in the places of the layers'."""
        model.ops = [
            replace(
                op,
                originals=None
                if op.originals is None
                else tuple(node for name in op.originals for node in self.nodes[name]),
                outputs=tuple(
                    replace(
                        out, origin_name=self.nodes.get(out.origin_name, (out.origin_name,))[-1]
                    )
                    for out in op.outputs
                ),
            )
            for op in model.ops
        ]
        return model

    def _put(self, name, values):
        return self._net.put(name, np.asarray(values, self._dtype))

    def _node(self, op, inputs, layer, outputs=1, unnamed=False, suffix="", **attrs):
        name = layer + suffix
        made = (
            ["v/%s" % name]
            if outputs == 1
            else ["v/%s/%d" % (name, index) for index in range(outputs)]
        )
        self._net.node(op, inputs, made, "" if unnamed else name, **attrs)
        if unnamed:
            name, self._unnamed = "%s_%d" % (op, self._unnamed), self._unnamed + 1
        self.nodes[layer] = (*self.nodes.get(layer, ()), name)
        return made

    def _add(self, message):
        layer, kind = message.text("name"), v1_type(str(message.text("type")))
        values = [self._blobs[blob] for blob in message.texts("bottom")]
        blobs = [np.asarray(blob, np.float64) for blob in self._weights.get(layer, ())]
        arrays = (
            [self._put("w/%s/%d" % (layer, n), blob) for n, blob in enumerate(blobs)]
            if kind == "Convolution"
            else []
        )
        if kind == "Convolution":
            param = message.message("convolution_param")
            pad, stride = int(param.number("pad", 0)), int(param.number("stride", 1))
            made = self._node("Conv", values + arrays, layer, pads=[pad] * 4, strides=[stride] * 2)
        elif kind == "BatchNorm":
            factor = 1.0 / blobs[2].reshape(-1)[0]
            parts = (
                np.ones(blobs[0].size),
                np.zeros(blobs[0].size),
                blobs[0].reshape(-1) * factor,
                blobs[1].reshape(-1) * factor,
            )
            arrays = [self._put("w/%s/%d" % (layer, n), part) for n, part in enumerate(parts)]
            made = self._node("BatchNormalization", values + arrays, layer, epsilon=1e-5)
        elif kind == "Scale":
            factors = [
                self._put("w/%s/%d" % (layer, n), blob.reshape(1, -1, 1, 1))
                for n, blob in enumerate(blobs)
            ]
            last = len(factors) == 1
            made = self._node("Mul", values + factors[:1], layer, suffix="" if last else "/mul")
            made = made if last else self._node("Add", made + factors[1:], layer)
        elif kind == "InnerProduct":
            made = self._node("Flatten", values, layer, suffix="/flat")
            first = blobs[0].reshape(blobs[0].shape[-2:])
            parts = [
                self._put("w/%s/%d" % (layer, n), blob.reshape(-1) if n else first)
                for n, blob in enumerate(blobs)
            ]
            made = self._node("Gemm", made + parts, layer, transB=1)
        elif kind == "Pooling":
            made = self._pooling(message, layer, values)
        elif kind == "LRN":
            param = message.message("lrn_param")
            size, alpha = int(param.number("local_size", 5)), param.number("alpha", 1.0)
            made = self._node(
                "LRN",
                values,
                layer,
                size=size,
                alpha=alpha,
                beta=param.number("beta", 0.75),
                bias=1.0,
            )
        elif kind == "Eltwise":
            operation = (
                message.message("eltwise_param").text("operation", "SUM")
                if message.has("eltwise_param")
                else "SUM"
            )
            made = self._node({"SUM": "Sum", "MAX": "Max"}[operation], values, layer)
        elif kind == "Slice":
            points = [int(text) for text in message.message("slice_param").texts("slice_point")]
            sizes = np.diff([0, *points, self._channels[message.texts("bottom")[0]]]).astype(
                np.int64
            )
            made = self._node(
                "Split",
                [*values, self._net.put("sizes/" + layer, sizes)],
                layer,
                outputs=len(sizes),
                axis=1,
            )
        else:
            attrs = {"axis": 1} if kind in ("Concat", "Softmax") else {}
            made = self._node(
                kind.replace("ReLU", "Relu"), values, layer, unnamed=kind == "ReLU", **attrs
            )
        self._blobs.update(zip(message.texts("top"), made))
        channels = (
            len(blobs[0])
            if kind == "Convolution"
            else sum(self._channels[blob] for blob in message.texts("bottom"))
        )
        self._channels.update(
            (blob, channels)
            for blob in message.texts("top")
            if kind in ("Convolution", "Concat") or len(values) == 1
        )
        self._channels.update(
            (blob, self._channels[message.texts("bottom")[0]])
            for blob in message.texts("top")
            if kind == "Eltwise"
        )

    def _pooling(self, message, layer, values):
        param = message.message("pooling_param")
        method = param.text("pool", "MAX")
        if param.text("global_pooling", "false") == "true":
            return self._node(
                {"MAX": "GlobalMaxPool", "AVE": "GlobalAveragePool"}[method], values, layer
            )
        kernel, stride, pad = (
            int(param.number(name, default))
            for name, default in (("kernel_size", 1), ("stride", 1), ("pad", 0))
        )
        more = {"ceil_mode": 1} if not pad else {}
        op = {"MAX": "MaxPool", "AVE": "AveragePool"}[method]
        return self._node(
            op,
            values,
            layer,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
            **more,
        )
