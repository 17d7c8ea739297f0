"""How errors pass through operators: functions of each element, moved values, sums of products."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from .value_with_error import Arithmetic, Value, joined_errors

Array = Any


# By its time: the arrays of a block stay in a core's cache.
_BLOCK = 2**15
_BOTH, _ONE_SIDE = (1.0, -1.0), (1.0,)


class _Rounding(Value):
    """A factor of 1 that one rounding moves: by so little that one side tells how far."""


def by_blocks(
    function: Callable[..., Array], *inputs: Value, steps: float = 0.0, single: bool = False
) -> Value:
    """Apply a function to each element as :func:`elementwise` does, some after the others, so that
    what lies between stays in the cache.

    Parameters
    ----------
    function
        Knows no other arrays than those that it is given. Inputs that broadcast are taken whole.
    single
        Single precision will do, for floats that have it and no error.
    """
    if (
        single
        and not steps
        and all(value.error is None and value.array.dtype == np.float32 for value in inputs)
    ):
        return Value(np.asarray(function(*(value.array for value in inputs))))
    shape = np.broadcast(*(value.array for value in inputs)).shape
    size = int(np.prod(shape, dtype=np.int64))
    if size <= _BLOCK or any(
        value.array.size != 1 and value.array.shape != shape for value in inputs
    ):
        return elementwise(function, *inputs, steps=steps)
    flat = {id(value): _flat(value, shape) for value in inputs}
    result: Array = None
    error: Optional[Array] = None
    for start in range(0, size, _BLOCK):
        part = slice(start, start + _BLOCK)
        pieces = {
            key: value if value.array.size == 1 else _part(value, part)
            for key, value in flat.items()
        }
        block = elementwise(function, *(pieces[id(value)] for value in inputs), steps=steps)
        if result is None:
            result = np.empty(size, block.array.dtype)
            error = None if block.error is None else np.empty(size)
        result[part] = block.array
        if error is not None:
            error[part] = block.error
    return Value(result.reshape(shape), None if error is None else error.reshape(shape))


def _flat(value: Value, shape: Tuple[int, ...]) -> Value:
    """Return the elements in a row; one alone, and an error that is one for all, stay as they
    are.
    """
    if value.array.size == 1:
        return (
            value
            if value.array.ndim == 0
            else type(value)(value.array.reshape(()), _single(value.error))
        )
    error = value.error
    if error is not None:
        error = _single(error) if np.size(error) == 1 else np.broadcast_to(error, shape).reshape(-1)
    return Value(value.array.reshape(-1), error)


def _single(error: Optional[Array]) -> Optional[Array]:
    return None if error is None else np.reshape(error, ())


def _part(value: Value, part: slice) -> Value:
    error = value.error
    return Value(value.array[part], error if error is None or np.ndim(error) == 0 else error[part])


def elementwise(function: Callable[..., Array], *inputs: Value, steps: float = 0.0) -> Value:
    """Apply a function to each element, with broadcasting.

    The error of each input reaches the output as far as the function moves by it: the larger of the
    changes to either side. So no derivative is written down, and kinks (ReLU, Clip) and poles are
    seen. Inputs that are one object (``x * x``) move together.

    Parameters
    ----------
    function
        Takes as many arrays as there are inputs; floats come as float64.
    *inputs
        Whole numbers and bool have no error of their own in the result, nor has a result of these
        kinds.
    steps
        Unit roundoff of the result inside of the device, where it is rounded once more than its
        type says (0: not).
    """
    arrays = [_wide(value.array) for value in inputs]
    result = np.asarray(function(*arrays))
    if result.dtype.kind != "f":
        return Value(result)
    errors = [
        moved_by(
            function,
            arrays,
            [same is value for same in inputs],
            value.error,
            result,
            _ONE_SIDE if isinstance(value, _Rounding) else _BOTH,
        )
        for number, value in enumerate(inputs)
        if value.error is not None and not any(value is before for before in inputs[:number])
    ]
    return Value(result, joined_errors(*errors)).with_step(steps)


def moved_by(
    function: Callable[..., Array],
    arrays: Sequence[Array],
    which_moved: Sequence[bool],
    error: Array,
    result: Array,
    sides: Sequence[float] = (1.0, -1.0),
) -> Array:
    """Return how far the result of a function moves where some of its inputs move by their error:
    the larger of both sides.

    0 where neither side can be told from the result (infinite ones, NaN).
    """
    changed = []
    for sign in sides:
        moved = [
            array + sign * error if moves else array for array, moves in zip(arrays, which_moved)
        ]
        changed.append(np.abs(np.asarray(function(*moved), np.float64) - result))
    # Of single numbers the difference is no array.
    most = np.asarray(changed[0] if len(changed) == 1 else np.fmax(changed[0], changed[1]))
    most[np.isnan(most)] = 0.0
    return most


def roundings(count: int, roundoff: float) -> List[Value]:
    """Return factors of 1 with the error of one rounding.

    For steps inside of an operator whose rounding does not reach the result as it is:
    ``elementwise(lambda x, once: (x + 3) * once * x, x, *roundings(1, u))``.
    """
    return [_Rounding(np.ones(()), np.asarray(roundoff / np.sqrt(3.0))) for _ in range(count)]


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def moved(function: Callable[[Array], Array], value: Value) -> Value:
    """Move values (and their errors with them): ``function`` transposes, reshapes, slices, gathers
    …
    """
    if value.error is None:
        return Value(function(value.array))
    return Value(function(value.array), function(np.broadcast_to(value.error, value.array.shape)))


def sum_of_products(
    multiply: Callable[[Array, Array], Array],
    x: Value,
    w: Value,
    terms: int,
    arithmetic: Arithmetic,
    bias: Optional[Value] = None,
) -> Value:
    """Compute a bilinear operator (convolution, MatMul) with the error that reaches its sums.

    Errors of the factors add as squares: Σ w²·e_x² + Σ x²·e_w², and 2·factors² · Σ (w·x)² / 3 where
    the device shortens both. An accumulator of unit roundoff u that takes up n terms adds n
    roundings of partial sums, which grow from nothing to about √(Σ(w·x)² + y²): u · √(n/6) times
    that (a random walk's partial sums: mean square n/2 of the last; uniform roundings: 1/3).

    All that has w² as its factor is one second multiplication (as costly as the first), a third is
    needed only where w has an error. Of whole numbers (int8 with an int32 accumulator) the sums are
    exact.

    Parameters
    ----------
    multiply
        The operator on two arrays; it is called with squares too.
    terms
        How many products one sum has.
    bias
        Added to the sum; broadcasts to it.

    Returns
    -------
    Value
        float32, or float64 where a factor is; int32 where both factors are whole numbers.
    """
    if not x.is_float and not w.is_float:
        whole = multiply(x.array.astype(np.float64), w.array.astype(np.float64))
        if bias is not None:
            whole = whole + bias.array
        return Value(whole.astype(np.int64).astype(np.int32))
    factor, weight = (_as_float(value.array) for value in (x, w))
    array = multiply(factor, weight)
    sums = arithmetic.accumulator**2 * terms / 6.0
    rounding = sums + arithmetic.factors**2 * 2.0 / 3.0
    error = None
    if rounding or x.error is not None or w.error is not None:
        left = [] if x.error is None else [np.broadcast_to(x.error, x.array.shape)]
        pairs = [(left + ([np.abs(factor) * float(np.sqrt(rounding))] if rounding else []), weight)]
        if w.error is not None:
            pairs.append(([factor], np.broadcast_to(w.error, w.array.shape)))
        error = _root_of_sums(
            multiply, [pair for pair in pairs if pair[0]], array, float(np.sqrt(sums))
        )
    if bias is None:
        return Value(array, error)
    return Value(array + bias.array, joined_errors(error, bias.error))


def _root_of_sums(
    multiply: Callable[[Array, Array], Array],
    pairs: Sequence[Tuple[List[Array], Array]],
    result: Array,
    share: float,
) -> Array:
    """Return √(Σ (Σ left²) · right² of all pairs + (share · result)²), in the type of the result
    and without overflow.

    0 where that is not finite: then the result is not either, and tells it.
    """
    total: Any = None
    scale = 1.0
    for lefts, right in pairs:
        largest = max(_largest(array) for array in lefts) or 1.0
        squares = _squares(lefts[0], largest, result.dtype)
        for array in lefts[1:]:
            squares += _squares(array, largest, result.dtype)
        reach = _largest(right) or 1.0
        products = np.asarray(multiply(squares, _squares(right, reach, result.dtype)))
        if total is None:
            total, scale = products, largest * reach
        else:
            total += products * (largest * reach / scale) ** 2
    if share:
        part = np.asarray(result * (share / scale))
        part *= part
        total += part
    root = np.maximum(total, 0.0, out=total)
    np.sqrt(root, out=root)
    root *= scale
    return (
        root
        if np.isfinite(root.sum())
        else np.where(np.isfinite(root), root, 0.0).astype(root.dtype)
    )


def _squares(array: Array, scale: float, dtype: Any) -> Array:
    scaled = np.asarray(array / scale, dtype)
    return np.multiply(scaled, scaled, out=scaled) if scaled.ndim else scaled * scaled


def _largest(array: Array) -> float:
    """Return the largest finite magnitude; 0 where there is none."""
    if not array.size:
        return 0.0
    size = max(float(array.max()), -float(array.min()))
    if np.isfinite(size):
        return size
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def _as_float(array: Array) -> Array:
    return array if array.dtype.kind == "f" else array.astype(np.float32)
