"""Weights made up from a seed where none are given, so that a net's structure can be tried.

Source of the fillers: filler.hpp of BVLC Caffe. Where a layer names no filler (its default would be
nothing but zeros), filters are filled as by ``msra``, and the rest near what leaves values as they
are.
"""

from __future__ import annotations

import zlib
from typing import Any, List, Sequence, Tuple

import numpy as np

from ...base.element_types import element_count
from ...base.errors import InputError
from ...netfiles.caffe_net import Layer
from .numpy_layer_types import Blob, blobs_of, own_parameters

Array = Any
Shape = Tuple[int, ...]


def random_weights(seed: int, layer: Layer, bottoms: Sequence[Shape]) -> List[Array]:
    """Return the weights of a layer, float32: the same for the same seed, layer name and shapes."""
    parameters = own_parameters(layer)
    state = np.random.RandomState([seed, zlib.crc32(layer.name.encode("utf-8", "surrogateescape"))])
    made = []
    for blob in blobs_of(layer, bottoms):
        filler = parameters.get(blob.filler)
        array = (
            _random_weights(state, blob)
            if not isinstance(filler, dict)
            else _filled(state, filler, blob.shape, layer)
        )
        made.append(np.asarray(array, np.float32).reshape(blob.shape))
    return made


def _random_weights(state: Any, blob: Blob) -> Array:
    if blob.kind == "weight":
        return state.standard_normal(blob.shape) * np.sqrt(2.0 / _fans(blob.shape)[0])
    if blob.kind == "variance":
        return state.uniform(0.5, 1.5, blob.shape)
    if blob.kind == "one":
        return np.ones(blob.shape)
    centre = {"scale": 1.0, "slope": 0.25}.get(blob.kind, 0.0)
    return centre + 0.1 * state.standard_normal(blob.shape)


def _fans(shape: Shape) -> Tuple[float, float]:
    """Return how many values go into a sum, and how many sums one value goes into."""
    count = max(1, element_count(shape))
    return count / (shape[0] if shape else 1), count / (shape[1] if len(shape) > 1 else 1)


def _filled(state: Any, filler: Any, shape: Shape, layer: Layer) -> Array:
    kind = str(filler.get("type", "constant"))
    fan_in, fan_out = _fans(shape)
    norm = str(filler.get("variance_norm", "FAN_IN"))
    number = {"FAN_IN": fan_in, "0": fan_in, "FAN_OUT": fan_out, "1": fan_out}.get(
        norm, (fan_in + fan_out) / 2
    )
    if kind == "constant":
        return np.full(shape, float(filler.get("value", 0.0)))
    if kind == "uniform":
        return state.uniform(float(filler.get("min", 0.0)), float(filler.get("max", 1.0)), shape)
    if kind == "gaussian":
        return float(filler.get("mean", 0.0)) + float(
            filler.get("std", 1.0)
        ) * state.standard_normal(shape)
    if kind == "xavier":
        reach = np.sqrt(3.0 / number)
        return state.uniform(-reach, reach, shape)
    if kind == "msra":
        return state.standard_normal(shape) * np.sqrt(2.0 / number)
    if kind == "positive_unitball":
        drawn = state.uniform(0.0, 1.0, (shape[0], -1 if not shape else element_count(shape[1:])))
        return (drawn / drawn.sum(1, keepdims=True)).reshape(shape)
    if kind == "bilinear":
        return np.broadcast_to(bilinear(shape[-2], shape[-1]), shape)
    raise InputError("layer %s (%s): filler %s is not known" % (layer.title, layer.type, kind))


def bilinear(height: int, width: int) -> Array:
    """Return the filter [height, width] of Caffe's ``bilinear`` filler: both axes are measured by
    the width.
    """
    half = -(-width // 2)
    centre = (2 * half - 1 - half % 2) / (2.0 * half)
    along = [1 - np.abs(np.arange(size) / half - centre) for size in (height, width)]
    return np.outer(along[0], along[1])
