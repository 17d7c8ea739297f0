"""Random single layers of Caffe's types, to compare what computes them."""

import numpy as np

from caffe_layers import Case


class Draw:
    """Random layers; the same for the same seed."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)

    def of(self, kind):
        """Return a random layer of a type."""
        make = getattr(self, kind.lower(), None)
        return make() if make is not None else self.plain(kind)

    def one(self, *choices):
        return choices[self.random.randint(len(choices))]

    def chance(self, share=0.5):
        return self.random.rand() < share

    def number(self):
        return round(float(self.random.uniform(-2, 2)), 3)

    def shape(self, *ranks):
        return tuple(
            int(dim)
            for dim in self.random.randint(1, 8, self.one(*(ranks or (4, 4, 4, 4, 2, 3, 5))))
        )

    def array(self, shape):
        values = self.random.standard_normal(shape) * self.one(0.1, 1, 1, 1, 30)
        # Ties and zeros, which maxima and windows meet.
        return (
            np.rint(values).astype(np.float32) if self.chance(0.15) else values.astype(np.float32)
        )

    def some(self, **choices):
        """Return each parameter with even chance, one of its choices."""
        return {name: self.one(*values) for name, values in choices.items() if self.chance()}

    def plain(self, kind):
        choices = {
            "ELU": {"alpha": (0.3, 1.0, 2)},
            "ReLU": {"negative_slope": (0, 0.1, -0.5, 1.5), "engine": ("CAFFE", "DEFAULT")},
            "Swish": {"beta": (1, 1.0, 0.5)},
            "Dropout": {"dropout_ratio": (0.2, 0.9)},
            "Flatten": {"axis": (0, 1, 2, -1, -2), "end_axis": (-1, -2, 1, 2, 3)},
            "Softmax": {"axis": (0, 1, 2, -1, 3)},
            "MVN": {
                "normalize_variance": (True, False),
                "across_channels": (True, False),
                "eps": (1e-9, 1e-3),
            },
            "Exp": {"base": (-1, 2, 10, 0.5), "scale": (1, -0.5, 0.1), "shift": (0, 1, -1.5)},
            "Power": {
                "power": (1, 2, 3, 0.5, -1, 0),
                "scale": (1, -2, 0.5, 0),
                "shift": (0, 1, 3.5),
            },
        }.get(kind, {})
        return Case(
            kind,
            self.some(**choices),
            [self.array(self.shape())],
            n_tops=self.one(1, 2, 3) if kind == "Split" else 1,
        )

    def prelu(self):
        x = self.array(self.shape())
        shared = self.chance(0.2)
        return Case(
            "PReLU",
            {"channel_shared": True} if shared else {},
            [x],
            [self.array(() if shared else x.shape[1:2])],
        )

    def batchnorm(self):
        x = self.array(self.shape())
        weights = [
            self.array(x.shape[1:2]),
            np.abs(self.array(x.shape[1:2])) + 0.1,
            [self.one(1.0, 999.98, 0.0)],
        ]
        params = self.some(
            use_global_stats=(True,), eps=(1e-5, 0.1, 1e-3), moving_average_fraction=(0.9,)
        )
        return Case("BatchNorm", params, [x], weights)

    def scale(self):
        x = self.array(self.shape())
        params = self.some(axis=(0, 1, 2, -1, -2), bias_term=(True, False), num_axes=(1, 2, -1))
        axis = params.get("axis", 1) % x.ndim if -x.ndim <= params.get("axis", 1) < x.ndim else 0
        count = params.get("num_axes", 1)
        two = self.chance()
        count = (
            self.random.randint(0, x.ndim - axis + 1)
            if two
            else x.ndim - axis
            if count == -1
            else min(count, x.ndim - axis)
        )
        shape = x.shape[axis : axis + count]
        weights = ([] if two else [self.array(shape)]) + (
            [self.array(shape)] if params.get("bias_term") else []
        )
        return Case("Scale", params, [x] + ([self.array(shape)] if two else []), weights)

    def concat(self):
        shape = self.shape()
        axis = self.random.randint(len(shape))
        shapes = [
            shape[:axis] + (int(self.random.randint(1, 6)),) + shape[axis + 1 :]
            for _ in range(self.one(1, 2, 2, 3))
        ]
        name = self.one("axis", "axis", "concat_dim")
        value = axis - len(shape) if name == "axis" and self.chance() else axis
        return Case(
            "Concat",
            {} if axis == 1 and self.chance() else {name: int(value)},
            [self.array(each) for each in shapes],
        )

    def slice(self):
        shape = self.shape()
        axis = int(self.random.randint(len(shape)))
        params = {} if axis == 1 and self.chance() else {self.one("axis", "slice_dim"): axis}
        n_tops = min(self.one(1, 2, 2, 3), shape[axis])
        if n_tops > 1 and (self.chance() or shape[axis] % n_tops):
            params["slice_point"] = [
                int(point)
                for point in sorted(1 + self.random.permutation(shape[axis] - 1)[: n_tops - 1])
            ]
        return Case("Slice", params, [self.array(shape)], n_tops=n_tops)

    def window(self, low_pad=0, dilation=(1,)):
        """Return window parameters in one of their ways of writing, and the kernel's size."""
        params = {}
        kernel = [int(size) for size in self.random.randint(1, 5, 2)]
        if self.chance():
            kernel = [kernel[0]] * 2
            params["kernel_size"] = kernel[0]
        else:
            params["kernel_h"], params["kernel_w"] = kernel
        if self.chance(0.7):
            if self.chance():
                params["stride"] = self.one(1, 2, 3)
            else:
                params["stride_h"], params["stride_w"] = self.one(1, 2, 3), self.one(1, 2)
        if self.chance(0.6):
            if self.chance():
                params["pad"] = self.one(0, 1, 2)
            else:
                params["pad_h"], params["pad_w"] = self.one(0, 1, 2), self.one(0, 1, 3)
        if max(dilation) > 1 and self.chance(0.3):
            params["dilation"] = self.one(*dilation)
        return params, kernel

    def convolution(self, kind="Convolution"):
        params, kernel = self.window(dilation=(1, 2, 3))
        shape = self.shape(4)
        group = self.one(1, 1, 2, 3, shape[1])
        n_in, n_out = group * self.one(1, 2), group * self.one(1, 2, 3)
        shape = (shape[0], n_in) + tuple(dim + self.one(0, 4) for dim in shape[2:])
        params["num_output"] = n_out
        if group > 1 or self.chance(0.2):
            params["group"] = group
        params.update(self.some(bias_term=(True, False)))
        weight = (n_out, n_in // group) if kind == "Convolution" else (n_in, n_out // group)
        weights = [self.array(weight + tuple(kernel))] + (
            [self.array((n_out,))] if params.get("bias_term", True) else []
        )
        return Case(kind, params, [self.array(shape)], weights)

    def deconvolution(self):
        return self.convolution("Deconvolution")

    def pooling(self):
        params, _ = self.window()
        if self.chance(0.1):
            params = {"global_pooling": True}
        params.update(self.some(pool=("MAX", "AVE", 0, 1)))
        maximum = params.get("pool", "MAX") in ("MAX", 0)
        shape = tuple(dim + self.one(0, 4) for dim in self.shape(4))
        return Case(
            "Pooling", params, [self.array(shape)], n_tops=2 if maximum and self.chance(0.3) else 1
        )

    def crop(self):
        shape = self.shape()
        axis = int(self.random.randint(len(shape)))
        inner = tuple(
            int(self.random.randint(1, dim + 1)) if number >= axis else dim
            for number, dim in enumerate(shape)
        )
        slack = [dim - small for dim, small in zip(shape[axis:], inner[axis:])]
        offsets = (
            [min(slack)]
            if self.chance(0.3)
            else [int(self.random.randint(0, each + 1)) for each in slack]
        )
        params = {} if axis == 2 and self.chance() else {"axis": self.one(axis, axis - len(shape))}
        if self.chance(0.8):
            params["offset"] = offsets
        return Case("Crop", params, [self.array(shape), self.array(inner)])

    def eltwise(self):
        count = self.one(2, 2, 3, 4)
        shape = self.shape()
        params = self.some(operation=("SUM", "PROD", "MAX", 0, 1, 2))
        if params.get("operation", "SUM") in ("SUM", 1) and self.chance():
            params["coeff"] = [self.number() for _ in range(count)]
        return Case("Eltwise", params, [self.array(shape) for _ in range(count)])

    def innerproduct(self):
        shape = self.shape()
        params = self.some(
            axis=(1, 2, -1, 0), bias_term=(True, False), transpose=(False, False, True)
        )
        axis = params.get("axis", 1)
        axis = axis % len(shape) if -len(shape) <= axis < len(shape) else 1
        n_in, n_out = int(np.prod(shape[axis:])), self.one(1, 2, 5)
        params["num_output"] = n_out
        weight = self.array((n_in, n_out) if params.get("transpose") else (n_out, n_in))
        bias = [self.array((n_out,))] if params.get("bias_term", True) else []
        return Case("InnerProduct", params, [self.array(shape)], [weight] + bias)

    def lrn(self):
        choices = {
            "local_size": (1, 3, 5, 7),
            "alpha": (1, 1e-4, 0.1),
            "beta": (0.75, 0.5, 1),
            "k": (1, 1.0, 2),
            "norm_region": ("ACROSS_CHANNELS", "WITHIN_CHANNEL", 0, 1),
        }
        return Case("LRN", self.some(**choices), [self.array(self.shape(4, 4, 4, 3))])

    def reshape(self):
        shape = self.shape()
        case = Case(
            "Reshape", self.some(axis=(0, 1, -1, -2), num_axes=(-1, 0, 1, 2)), [self.array(shape)]
        )
        start = case.get("axis", 0)
        start = start if start >= 0 else len(shape) + start + 1
        stop = (
            len(shape)
            if case.get("num_axes", -1) == -1
            else min(start + case.get("num_axes", -1), len(shape))
        )
        whole = int(np.prod(shape[start:stop], dtype=int))
        dims = self.one(
            [whole], [-1], [1, whole], [whole, 1], [1, -1], [0, -1], list(shape[start:stop])
        )
        case.dims = dims
        case.params["shape"] = "{ %s }" % " ".join("dim: %d" % dim for dim in dims)
        return case
