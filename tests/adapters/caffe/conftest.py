"""The stand-in for pycaffe, small models with weights, and the copied ResNet block."""

from __future__ import annotations

import json
import os
import signal
import struct
import sys

import numpy as np
import pytest

from goldwatch.adapters.caffe import child
from goldwatch.adapters.child.outcome import Outcome
from goldwatch.adapters.child.parent import run_child
from goldwatch.adapters.child.serve import Parent, served

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.join(HERE, "standin")
RESBLOCK = os.path.join(os.path.dirname(os.path.dirname(HERE)), "data", "caffe", "resblock")


@pytest.fixture
def standin(monkeypatch):
    """The stand-in's module, as `import caffe` gives it."""
    monkeypatch.syspath_prepend(STANDIN)
    import caffe

    yield caffe
    sys.modules.pop("caffe", None)


@pytest.fixture
def standin_path():
    """What PYTHONPATH needs for the stand-in."""
    return STANDIN


@pytest.fixture
def resblock():
    """Paths of the ResNet block."""

    def path(name):
        return os.path.join(RESBLOCK, name)

    return path


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _blob(array):
    array = np.asarray(array, np.float32)
    return _message(7, _message(1, b"".join(_varint(dim) for dim in array.shape))) + _message(
        5, array.astype("<f4").tobytes()
    )


@pytest.fixture
def caffemodel():
    """``caffemodel(path, [(name, type, [arrays])])`` writes weights; ``v1=True`` in the older
    form.
    """

    def write(path, layers, v1=False):
        data = b""
        for name, kind, arrays in layers:
            if v1:
                body = _message(4, name.encode()) + b"".join(
                    _message(6, _blob(array)) for array in arrays
                )
            else:
                body = (
                    _message(1, name.encode())
                    + _message(2, kind.encode())
                    + b"".join(_message(7, _blob(array)) for array in arrays)
                )
            data += _message(2 if v1 else 100, body)
        with open(str(path), "wb") as stream:
            stream.write(data)
        return str(path)

    return write


@pytest.fixture
def binaryproto():
    """``binaryproto(path, array)`` writes a mean file with legacy dimensions."""

    def write(path, array):
        channels, height, width = array.shape
        old = b"".join(
            _varint(number << 3) + _varint(dim)
            for number, dim in ((1, 1), (2, channels), (3, height), (4, width))
        )
        values = b"".join(
            _varint(5 << 3 | 5) + struct.pack("<f", value) for value in np.ravel(array)
        )
        with open(str(path), "wb") as stream:
            stream.write(old + values)
        return str(path)

    return write


class _Kept(Parent):
    """Keeps what a child sends."""

    def __init__(self):
        self.messages = {}

    def send(self, **messages):
        self.messages.update(json.loads(json.dumps(messages)))

    def progress(self, done, total):
        self.send(progress=[done, total])


@pytest.fixture
def numpy_in_process(monkeypatch):
    """The numpy backend computes nets without a user's own layers in this process: the start of a
    child is what other tests are about.
    """

    def run(task, folder, progress=lambda done, total: None):
        if task.job["backend"] != "numpy" or task.job["layer_files"]:
            return run_child(task, folder, progress)
        kept, path, handler = _Kept(), list(sys.path), signal.getsignal(signal.SIGINT)
        try:
            code = served(kept, lambda: child.work(json.loads(json.dumps(task.job)), kept))
        finally:
            sys.path[:] = path
            signal.signal(signal.SIGINT, handler)
        return Outcome(code, kept.messages)

    monkeypatch.setattr("goldwatch.adapters.caffe.dump.run_child", run)
