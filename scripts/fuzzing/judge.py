"""An independent judge of a "pass": reads both files by its own simple means and computes two
distances, slowly, in float64.

Nothing of goldwatch is imported here. Source of the container: facts of its public description (u64
length, protobuf header, inputs before outputs); of npy: numpy's own reader.
"""

from __future__ import annotations

import io
import re
import struct

import numpy as np

_PLAIN_FORMATS = (0, 1, 2)  # NCHW, NHWC, ND
_TYPES = {
    1: "<f4",
    2: "<f2",
    3: "i1",
    4: "u1",
    5: "<i2",
    6: "<u2",
    7: "<i4",
    8: "<i8",
    9: "<u4",
    10: "<u8",
    11: "?",
    12: "<f8",
}
_OUTPUT, _INPUT = 3, 4


class Unreadable(Exception):
    """The judge cannot read a file: whoever could has to be right for another reason than the
    numbers.
    """


class Abstain(Exception):
    """The judge does not know this type or layout."""


def contradiction(target_file, kind, index, golden_file):
    """Return why these two cannot pass, or None: they are alike, or the judge does not know the
    type or layout.
    """
    try:
        target = dump_tensor(target_file, kind, index)
        golden = (
            dump_tensor(golden_file, kind, index)
            if not golden_file.endswith(".npy")
            else npy(golden_file)
        )
    except Abstain:
        return None
    except Unreadable as error:
        return "passes, but cannot be read: %s" % error
    return distance_problem(target, golden)


def distance_problem(target, golden):
    """Return why these numbers are too far apart to pass, or None. The bounds are far outside any
    limits that anybody would set.
    """
    if target.size != golden.size:
        # A device pads channels; how much it may, others decide.
        return (
            None
            if target.size > golden.size
            else "passes with %d of %d elements" % (target.size, golden.size)
        )
    if target.dtype.kind == "c" or golden.dtype.kind == "c":
        return None
    with np.errstate(all="ignore"):
        x, y = (np.asarray(array).reshape(-1).astype(np.float64) for array in (target, golden))
    finite = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return "passes with NaN on one side only"
    x, y = x[finite], y[finite]
    scale = max(float(np.max(np.abs(y))) if y.size else 0.0, 1e-300)
    x, y = x / scale, y / scale
    size, rest = float(np.sqrt(np.sum(y * y))), float(np.sqrt(np.sum((x - y) * (x - y))))
    if size == 0.0:
        return None
    relative = rest / size
    cosine = float(np.sum(x * y)) / max(float(np.sqrt(np.sum(x * x))) * size, 1e-300)
    if relative > 0.3 and cosine < 0.9:
        return "passes with relative distance %.3g and cosine %.3g" % (relative, cosine)
    return None


def npy(path):
    with open(path, "rb") as stream:
        data = stream.read()
    # Numbers of Python 2, which numpy itself reads in the older forms of the header only.
    end = data.find(b"\n") + 1
    head = re.sub(rb"(?<=\d)L(?=[,) ])", b" ", data[:end])
    try:
        return np.load(io.BytesIO(head + data[end:]), allow_pickle=False)
    except Exception as error:
        raise Unreadable("%s: %s" % (path, error)) from error


def dump_tensor(path, kind, index):
    """Return the array of one input or output of a dump file."""
    with open(path, "rb") as stream:
        data = stream.read()
    if len(data) < 8:
        raise Unreadable("%s has %d bytes" % (path, len(data)))
    (length,) = struct.unpack("<Q", data[:8])
    if length > len(data) - 8:
        raise Unreadable("%s: its header has %d bytes" % (path, length))
    tensors = {_OUTPUT: [], _INPUT: []}
    for number, _, value in fields(data[8 : 8 + length], path):
        if number in tensors and isinstance(value, bytes):
            tensors[number].append(value)
    numbered = [
        (number, place, message)
        for number in (_INPUT, _OUTPUT)
        for place, message in enumerate(tensors[number])
    ]
    found = [
        (number, place, *_tensor(message, number, path)) for number, place, message in numbered
    ]
    # Bytes within the message count in files of version 1 only: not where sizes and file agree
    # without them.
    behind = 8 + length + sum(size for _, _, _, _, _, size, _ in found) == len(data)
    offset = 8 + length
    for number, place, code, form, dims, size, own in found:
        here = (number == _INPUT) == (kind == "input") and place == index
        if not size and own is None:
            # A converter of the vendor writes no sizes: type and dims tell them.
            if code not in _TYPES:
                raise Abstain
            size = int(np.prod(dims, dtype=object)) * np.dtype(_TYPES[code]).itemsize
        inside = own is not None and not behind
        raw = own if inside else data[offset : offset + size]
        offset += 0 if inside else size
        if here:
            return _decoded(code, form, dims, raw, path)
    raise Unreadable("%s has no %s %d" % (path, kind, index))


def _tensor(message, number, path):
    # Source: dump_data.proto. Outputs: type 1, format 2, shape 3, data 5, size 6; inputs: type 1,
    # format 2, shape 3, data 4, size 5.
    code = form = size = 0
    dims, own = [], None
    for field, wire, value in fields(message, path):
        if field == 1 and wire == 0:
            code = value
        elif field == 2 and wire == 0:
            form = value
        elif field == 3 and isinstance(value, bytes):
            dims += list(_shape(value, path))
        elif field == (5 if number == _OUTPUT else 4) and isinstance(value, bytes):
            own = value or None
        elif field == (6 if number == _OUTPUT else 5) and wire == 0:
            size = value
    return code, form, dims, size, own


def _shape(message, path):
    for field, wire, value in fields(message, path):
        if field == 1 and wire == 0:
            yield value
        elif field == 1 and isinstance(value, bytes):
            at = 0
            while at < len(value):
                dim, at = varint(value, at, path)
                yield dim


def _decoded(code, form, dims, raw, path):
    if code not in _TYPES or form not in _PLAIN_FORMATS:
        raise Abstain
    dtype = np.dtype(_TYPES[code])
    count = 1
    for dim in dims:
        count *= dim
    if count * dtype.itemsize > len(raw):
        raise Unreadable("%s: %s of %s in %d bytes" % (path, dims, dtype, len(raw)))
    return np.frombuffer(raw[: count * dtype.itemsize], dtype=dtype)


def fields(message, path):
    """Yield (number, wire type, value) of a protobuf message; bytes for what is delimited."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at, path)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(message, at, path)
        elif wire == 2:
            length, at = varint(message, at, path)
            value = message[at : at + length]
            if len(value) != length:
                raise Unreadable("%s: a field ends behind its message" % path)
            at += length
        elif wire in (1, 5):
            value, at = None, at + (8 if wire == 1 else 4)
        else:
            raise Abstain  # groups: nobody writes them
        yield number, wire, value


def varint(data, at, path):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Unreadable("%s: a number ends behind its message" % path)
        value |= (data[at] & 127) << shift
        at += 1
        shift += 7
        if not data[at - 1] & 128:
            return value & (2**64 - 1), at
