"""Single layers of Caffe's types as prototxts; goldwatch.testing.caffe_layers computes them by
their published definitions, slowly in float64.
"""

from goldwatch.testing.caffe_layers import Layer, Refused, run_layer

__all__ = ["PARAMS", "Case", "Refused", "compute"]


class Case(Layer):
    """One layer with its bottoms and weights; text among its parameters stands as it is."""

    @property
    def body(self):
        """The layer's parameter message."""
        words = []
        for name, value in self.params.items():
            for item in value if isinstance(value, list) else [value]:
                words.append(
                    "%s %s" % (name, item)
                    if str(item).startswith("{")
                    else "%s: %s" % (name, _text(item))
                )
        return "%s { %s }" % (PARAMS[self.kind], " ".join(words)) if words else ""

    @property
    def text(self):
        """A prototxt with the layer ``L`` on inputs ``b0``, ``b1`` …; its tops are ``t0``, ``t1``
        ….
        """
        lines = []
        for number, array in enumerate(self.bottoms):
            dims = " ".join("dim: %d" % dim for dim in array.shape)
            lines.append(
                'layer { name: "b%d" type: "Input" top: "b%d" input_param { shape { %s } } }'
                % (number, number, dims)
            )
        reads = " ".join('bottom: "b%d"' % number for number in range(len(self.bottoms)))
        tops = " ".join('top: "t%d"' % number for number in range(self.n_tops))
        lines.append(
            'layer { name: "L" type: "%s" %s %s %s }' % (self.kind, reads, tops, self.body)
        )
        return "\n".join(lines) + "\n"

    def __str__(self):
        shapes = " ".join("x".join(map(str, array.shape)) for array in self.bottoms)
        return "%s on %s, %d tops: %s" % (
            self.kind,
            shapes,
            self.n_tops,
            self.body or "no parameters",
        )


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


PARAMS = {
    "AbsVal": "", "BNLL": "", "ELU": "elu_param", "ReLU": "relu_param", "Sigmoid": "sigmoid_param",
    "TanH": "tanh_param",
    "Swish": "swish_param", "Dropout": "dropout_param", "Flatten": "flatten_param",
    "PReLU": "prelu_param", "Softmax": "softmax_param",
    "MVN": "mvn_param", "Exp": "exp_param", "Power": "power_param", "Split": "",
    "BatchNorm": "batch_norm_param", "Scale": "scale_param",
    "Concat": "concat_param", "Slice": "slice_param", "Convolution": "convolution_param",
    "Deconvolution": "convolution_param",
    "Crop": "crop_param", "Eltwise": "eltwise_param", "InnerProduct": "inner_product_param",
    "LRN": "lrn_param",
    "Pooling": "pooling_param", "Reshape": "reshape_param",
}  # fmt: skip


def compute(case):
    """Return the tops of a layer, float64; raises Refused where Caffe would stop with an error."""
    shape = {"shape": {"dim": case.dims}} if case.kind == "Reshape" else {}
    params = {**case.params, **shape}
    return run_layer(Layer(case.kind, params, case.bottoms, case.weights, case.n_tops))
