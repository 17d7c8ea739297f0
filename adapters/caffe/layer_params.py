"""Typed reading of a layer's parameter message; names and defaults as in caffe.proto."""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple, TypeVar

from ...base.errors import FormatError, InputError
from ...netfiles.caffe_net import Layer
from ...netfiles.protobuf_text import Message

T = TypeVar("T")


class Params:
    """One ``*_param`` message of a layer.

    Parameters
    ----------
    layer
        The layer, named in messages.
    field
        The message's name, such as ``convolution_param``.
    """

    def __init__(self, layer: Layer, field: str) -> None:
        self.layer = layer
        self.field = field
        self.message: Message = layer.message.message(field)

    def fail(self, name: str, problem: str) -> InputError:
        """Return the error that names layer and parameter."""
        return InputError(
            "layer %s (%s): %s.%s %s"
            % (self.layer.title, self.layer.type, self.field, name, problem)
        )

    def has(self, name: str) -> bool:
        """Tell whether the parameter is written."""
        return self.message.has(name)

    def integer(self, name: str, default: int) -> int:
        """Return an integer parameter."""
        values = self.integers(name)
        return values[-1] if values else default

    def integers(self, name: str) -> List[int]:
        """Return a repeated integer parameter."""
        return self.read(self.message.integers, name)

    def number(self, name: str, default: float) -> float:
        """Return a float parameter."""
        return self.read(self.message.number, name, default)

    def read(self, read: Callable[..., T], name: str, *default: float) -> T:
        """Return ``read(name, *default)``; an error names the layer and the parameter."""
        try:
            return read(name, *default)
        except FormatError as error:
            raise InputError(
                "layer %s (%s): %s.%s"
                % (self.layer.title, self.layer.type, self.field, error.message)
            ) from error

    def flag(self, name: str, default: bool) -> bool:
        """Return a bool parameter."""
        text = self.message.text(name, "true" if default else "false")
        return text in ("true", "True", "t", "1")

    def word(self, name: str, default: str) -> str:
        """Return an enum parameter by name."""
        return self.message.text(name, default)

    def pair(self, base: str, default: int, both: bool = False) -> Optional[Tuple[int, int]]:
        """Return (height, width) of ``kernel``, ``stride``, ``pad`` or ``dilation``; None when it
        is not written at all and has no default.

        Parameters
        ----------
        default
            Of each axis; 0 for a kernel, which must be given.
        both
            Height and width must be given together (Caffe demands it of kernels and strides).

        Raises
        ------
        InputError
            Caffe would refuse it.
        """
        plain = "kernel_size" if base == "kernel" else base
        high, wide = base + "_h", base + "_w"
        if self.has(high) or self.has(wide):
            if self.has(plain):
                raise self.fail(plain, "and %s or %s are both given" % (high, wide))
            if both and not (self.has(high) and self.has(wide)):
                raise self.fail(
                    high if self.has(high) else wide, "is given without its counterpart"
                )
            return self.integer(high, default), self.integer(wide, default)
        values = self.integers(plain)
        if len(values) > 2:
            raise self.fail(plain, "has %d values; two axes are known" % len(values))
        if not values:
            return (default, default) if default or base in ("pad",) else None
        return (values[0], values[-1])


def axis_of(params: Params, name: str, default: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises
    ------
    InputError
        The axis is outside the blob.
    """
    axis = params.integer(name, default)
    if not -rank <= axis < rank:
        raise params.fail(name, "is %d, the blob has %d axes" % (axis, rank))
    return axis % rank
