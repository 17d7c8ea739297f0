"""Frozen graphs and weights files made of bytes, without their frameworks."""

from __future__ import annotations

from goldwatch.base.protowire import field


def attr(key, value):
    return field(5, field(1, key.encode()) + field(2, value))


def typed(number):
    return field(6, number)


def strings(*texts):
    return field(1, b"".join(field(2, text.encode()) for text in texts))


def node(name, op, *inputs, **attrs):
    """One NodeDef as a field of its graph; attributes are given as bytes of AttrValue."""
    body = (
        field(1, name.encode())
        + field(2, op.encode())
        + b"".join(field(3, text.encode()) for text in inputs)
    )
    return field(1, body + b"".join(attr(key, value) for key, value in attrs.items()))


def const(name, *controls, number=1):
    tensor = field(8, field(1, number) + field(4, b"\0\0\0\0"))
    return node(
        name, "Const", *("^" + other for other in controls), dtype=typed(number), value=tensor
    )


def layer(name, *blobs, number=100):
    """A layer's record: blobs are (bytes of the values, dims); number 2 for V1."""
    name_field, blob_field = (1, 7) if number == 100 else (4, 6)
    fields = [
        field(blob_field, field(7, field(1, bytes(dims))) + field(5, data)) for data, dims in blobs
    ]
    return field(number, field(name_field, name.encode()) + b"".join(fields))
