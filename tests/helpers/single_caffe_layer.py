"""One Caffe layer by the numpy backend, and by OpenCV."""

from __future__ import annotations

import cv2
import numpy as np

from goldwatch.adapters.caffe.numpy_backend import NumpyBackend
from goldwatch.adapters.caffe.tensors_to_save import targets_of
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt_edits import Document


def text_of(kind, body, bottoms, tops=1):
    """A prototxt with the layer ``L`` on inputs ``b0``, ``b1`` …; its tops are ``t0``, ``t1`` …."""
    lines = [
        'layer { name: "b%d" type: "Input" top: "b%d" input_param { shape { %s } } }'
        % (number, number, " ".join("dim: %d" % size for size in array.shape))
        for number, array in enumerate(bottoms)
    ]
    reads = " ".join('bottom: "b%d"' % number for number in range(len(bottoms)))
    made = " ".join('top: "t%d"' % number for number in range(tops))
    return "\n".join(
        lines + ['layer { name: "L" type: "%s" %s %s %s }' % (kind, reads, made, body)]
    )


def by_numpy(kind, body, bottoms, blobs=(), tops=1, **options):
    """Return the tops of a layer."""
    net = Net(Document(text_of(kind, body, bottoms, tops)), State())
    arrays = {"b%d" % number: np.asarray(array, np.float32) for number, array in enumerate(bottoms)}
    weights = [np.asarray(array, np.float32) for array in blobs]
    backend = NumpyBackend(net, lambda name: weights or None, list(arrays), **options)
    return [
        array for target, array in backend.run(targets_of(net).saved, arrays) if target.name == "L"
    ]


def by_opencv(kind, body, bottoms, blobs=(), tops=1):
    """Return the tops of a layer as OpenCV's importer has it, whatever that is."""
    net = cv2.dnn.readNetFromCaffe(
        np.frombuffer(text_of(kind, body, bottoms, tops).encode(), np.uint8)
    )
    assert not blobs
    for number, array in enumerate(bottoms):
        net.setInput(np.asarray(array, np.float32), "b%d" % number)
    return [np.asarray(net.forward("L"))]


def assert_near(made, right, tolerance=4e-6, scale=1e-30):
    """Assert that values are equal to a share of the largest, or of ``scale`` where that is
    larger.
    """
    right = np.asarray(right, np.float64)
    assert made.dtype == np.float32 and made.shape == right.shape
    assert np.abs(made - right).max() <= tolerance * max(np.abs(right).max(), scale)
