"""Fast construction and caching of frozen dataclasses of which many are made.

A frozen dataclass sets each of its fields through a function call. Here a new object's fields are
filled in at once: several times as fast, which counts where an object is made for every tensor of a
network.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any, Callable, Dict, List, Tuple, Type, TypeVar

T = TypeVar("T")


def fast_init(cls: Type[T], by_name: bool = False) -> Type[T]:
    """Class decorator: give a frozen dataclass (without slots) an ``__init__`` that sets
    all fields at once, and pickle it as the values of its fields, without their names.

    Parameters
    ----------
    by_name
        Whether fields are keyword-only.
    """
    globals_of_init: Dict[str, Any] = {"_MISSING": dataclasses.MISSING}
    parameters: List[str] = ["*"] if by_name else []
    lines: List[str] = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        name = value = parameter = field.name
        if field.default is not dataclasses.MISSING:
            globals_of_init["_default_" + name] = field.default
            parameter = "%s=_default_%s" % (name, name)
        elif field.default_factory is not dataclasses.MISSING:
            globals_of_init["_make_" + name] = field.default_factory
            parameter, value = (
                "%s=_MISSING" % name,
                "_make_%s() if %s is _MISSING else %s" % (name, name, name),
            )
        parameters.append(parameter)
        lines.append("    fields[%r] = %s" % (name, value))
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    head = "def __init__(self, %s):\n    fields = self.__dict__\n" % ", ".join(parameters)
    # As dataclasses does: of names that the class itself gives.
    exec(head + "\n".join(lines), globals_of_init)
    cls.__init__ = globals_of_init["__init__"]  # type: ignore[method-assign]
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    values = operator.attrgetter(*names)
    cls.__reduce__ = lambda self: (_restored, (cls, *values(self)))  # type: ignore[method-assign,assignment]
    return cls


def _restored(cls: Type[T], *values: Any) -> T:
    record = object.__new__(cls)
    record.__dict__.update(zip(cls.__dataclass_fields__, values))  # type: ignore[attr-defined]
    return record


def changed(record: T, **changes: Any) -> T:
    """Return a copy of a frozen dataclass with other values of some fields:
    :func:`dataclasses.replace`, several times as fast.
    """
    other = object.__new__(type(record))
    other.__dict__.update(record.__dict__)
    other.__dict__.update(changes)
    return other


def cached_last(make: Callable[..., T]) -> Callable[..., T]:
    """Decorator: cache the result for the object of the last call. Consecutive rows of equal bytes
    share their metrics object.

    Parameters
    ----------
    make
        Takes an immutable object and further arguments; its result must not be changed.
    """
    last: Tuple[Any, Any, Any] = (None, None, None)

    @functools.wraps(make)
    def made(shared: Any, *others: Any) -> T:
        nonlocal last
        # One name for all three: other threads set it too.
        before, known, value = last
        if before is not shared or known != others:
            value = make(shared, *others)
            last = (shared, others, value)
        result: T = value
        return result

    return made
