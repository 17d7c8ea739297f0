"""Caffe's formulas in numpy, and reading what ``golden caffe dump`` wrote."""

from __future__ import annotations

import json
import os

import jsonschema
import numpy as np

from goldwatch.schemas import load_schema


def manifest_of(out):
    with open(os.path.join(str(out), "manifest.json"), encoding="utf-8") as stream:
        manifest = json.load(stream)
    jsonschema.validate(manifest, load_schema("manifest"))
    return manifest


def values_of(out):
    return {
        (entry["original_name"], entry["output_index"]): np.load(
            os.path.join(str(out), entry["file"])
        )
        for entry in manifest_of(out)["tensors"]
    }


X = np.random.RandomState(1).standard_normal((2, 4, 6, 5)).astype(np.float32)
R = np.random.RandomState(2)


def conv(x, w, stride, pad, dilation, group):
    """A convolution by its definition, in float64."""
    xp = np.pad(
        x.astype(np.float64), ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])), mode="constant"
    )
    size = [
        (xp.shape[2 + i] - (dilation[i] * (w.shape[2 + i] - 1) + 1)) // stride[i] + 1
        for i in (0, 1)
    ]
    out = np.zeros((x.shape[0], w.shape[0]) + tuple(size))
    n_out, n_in = w.shape[0] // group, w.shape[1]
    for k in range(w.shape[2]):
        for m in range(w.shape[3]):
            rows = slice(
                k * dilation[0], k * dilation[0] + stride[0] * (size[0] - 1) + 1, stride[0]
            )
            columns = slice(
                m * dilation[1], m * dilation[1] + stride[1] * (size[1] - 1) + 1, stride[1]
            )
            patch = xp[:, :, rows, columns]
            for g in range(group):
                out[:, g * n_out : (g + 1) * n_out] += np.einsum(
                    "nchw,oc->nohw",
                    patch[:, g * n_in : (g + 1) * n_in],
                    w[g * n_out : (g + 1) * n_out, :, k, m],
                )
    return out


def deconv(x, w, stride, pad, group):
    """A deconvolution by its definition, in float64."""
    n, _, height, width = x.shape
    n_in, n_out = x.shape[1] // group, w.shape[1]
    out = np.zeros(
        (n, n_out * group, stride * (height - 1) + w.shape[2], stride * (width - 1) + w.shape[3])
    )
    for g in range(group):
        for i in range(height):
            for j in range(width):
                out[
                    :,
                    g * n_out : (g + 1) * n_out,
                    i * stride : i * stride + w.shape[2],
                    j * stride : j * stride + w.shape[3],
                ] += np.einsum(
                    "nc,cokl->nokl",
                    x[:, g * n_in : (g + 1) * n_in, i, j].astype(np.float64),
                    w[g * n_in : (g + 1) * n_in],
                )
    return out[:, :, pad : out.shape[2] - pad, pad : out.shape[3] - pad]


def pool(x, kernel, stride, pad, kind):
    """Pooling as Caffe's loops have it: sizes rounded up, windows clipped, averages over the padded
    window.
    """
    sizes = []
    for i in (0, 1):
        steps = int(np.ceil((x.shape[2 + i] + 2 * pad[i] - kernel[i]) / float(stride[i]))) + 1
        if any(pad) and (steps - 1) * stride[i] >= x.shape[2 + i] + pad[i]:
            steps -= 1
        sizes.append(steps)
    out, mask = np.zeros(x.shape[:2] + tuple(sizes)), np.zeros(x.shape[:2] + tuple(sizes))
    height, width = x.shape[2:]
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
            bottom, right = (
                min(top + kernel[0], height + pad[0]),
                min(left + kernel[1], width + pad[1]),
            )
            area = (bottom - top) * (right - left)
            top, left, bottom, right = (
                max(top, 0),
                max(left, 0),
                min(bottom, height),
                min(right, width),
            )
            window = x[:, :, top:bottom, left:right].astype(np.float64)
            if kind == "AVE":
                out[:, :, i, j] = window.sum((2, 3)) / area
            else:
                flat = window.reshape(window.shape[:2] + (-1,))
                out[:, :, i, j] = flat.max(-1)
                at = flat.argmax(-1)
                mask[:, :, i, j] = (top + at // (right - left)) * width + left + at % (right - left)
    return out, mask


def lrn(x, size, alpha, beta, within):
    square = x.astype(np.float64) ** 2
    total = np.zeros_like(square)
    half = (size - 1) // 2
    if within:
        padded = np.pad(square, ((0, 0), (0, 0), (half, half), (half, half)), mode="constant")
        for i in range(size):
            for j in range(size):
                total += padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]
        return x * (1 + alpha / size**2 * total) ** -beta
    padded = np.pad(square, ((0, 0), (half, half), (0, 0), (0, 0)), mode="constant")
    for i in range(size):
        total += padded[:, i : i + x.shape[1]]
    return x * (1 + alpha / size * total) ** -beta


def softmax(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def per_channel(values):
    return np.asarray(values, np.float64)[None, :, None, None]


W = {
    "conv": R.standard_normal((6, 2, 3, 2)),
    "deconv": R.standard_normal((4, 3, 4, 4)),
    "depthwise": R.standard_normal((4, 1, 4, 4)),
    "fc": R.standard_normal((3, 30)),
    "bn": (R.standard_normal(4), R.rand(4) + 0.1, np.array([2.0])),
    "scale": (R.standard_normal(4), R.standard_normal(4)),
}
W = {
    key: tuple(np.float32(part) for part in value)
    if isinstance(value, tuple)
    else np.float32(value)
    for key, value in W.items()
}
INPUT = (
    'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 dim: 6 dim: 5 } '
    "} }\n"
)


def close(value, truth):
    truth = np.asarray(truth)
    assert value.shape == truth.shape
    assert value.dtype == np.float32
    assert np.abs(value - truth).max() <= 2e-6 * np.abs(truth).max()
