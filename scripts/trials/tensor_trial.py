"""Single tensors whose truth is known: healthy ones that must pass and broken ones that must fail,
by goldwatch's default limits.

Healthy is what a device does to a right result: it rounds to its element type, on top of noise that
it inherits, up to the largest distance from the golden run that healthy networks reached on
simulated devices (the numbers of NOISE).
"""

from __future__ import annotations

import collections

import numpy as np

from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.judging.limits import Limits
from goldwatch.judging.row_judge import RowJudge
from goldwatch.metrics.compare_pair import compare_tensors
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.row import FAIL, MEASURES, PASS, Row
from goldwatch.tensors.dtypes import decode, dtype_by_name
from goldwatch.tensors.tensor import MemorySource, Tensor

NOISE = {
    "float16": 0.019, "float32": 0.008, "float64": 0.008, "bfloat16": 0.11,
    "hifloat8": 0.15, "float8_e4m3fn": 0.15, "float8_e5m2": 0.15, "complex64": 0.008,
}  # fmt: skip
"""Largest inherited distance of a healthy tensor, relative, by element type."""

RANGE = {
    "float16": (-24, 13),
    "bfloat16": (-125, 120),
    "float32": (-125, 120),
    "float64": (-125, 120),
    "complex64": (-125, 120),
}
"""Magnitudes as powers of two: the type's range, less what the largest of a million values needs;
others: 2**-3 to 2**3.

That of float16 goes down to its smallest number, where rounding is as large as the value; the
others' normal range is wide enough.
"""

LOWEST = {
    "float16": -65504.0,
    "bfloat16": float.fromhex("-0x1.fep127"),
    "float32": float.fromhex("-0x1.fffffep127"),
}

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
KINDS = (
    *(
        "normal",
        "relu",
        "softmax flat",
        "softmax peaked",
        "masked -1e4",
        "masked -inf",
        "masked otherwise",
    ),
    *("constant", "embedding", "layer norm", "channels"),
)
_GOLDEN = GoldenEntry("", "", "", 0, 0, "npy")


def settings(limits=None):
    table = Limits() if limits is None else limits
    return Settings(
        tuple(name for name in MEASURES if name in table.metrics), False, RowJudge(table)
    )


def verdict(x, y, chosen, dtype=None, origin=None, op_type="Conv2D"):
    """Compare a target (an array, or the stored bits of ``dtype``) with a golden array; return the
    row.
    """
    kind = dtype_by_name(dtype if dtype is not None else x.dtype.name)
    target = Tensor(kind, x.shape, "ND" if origin is None else origin, MemorySource(x))
    task = PairTask(
        Row(index=0, op="op", op_type=op_type, tensor="op:output:0", kind="output", verdict=PASS),
        target,
        _GOLDEN,
        origin,
    )
    return compare_tensors(task, Tensor.from_array(y), None, chosen)


def store(values, dtype):
    """Return float64 values as the stored bits of an element type, rounded to the nearest."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    if dtype in ("hifloat8", "float8_e4m3fn", "float8_e5m2"):
        with np.errstate(invalid="ignore"):
            table = decode(np.arange(256, dtype=np.uint8), dtype_by_name(dtype), 256).astype(
                np.float64
            )
        codes = np.flatnonzero(np.isfinite(table))
        codes = codes[np.argsort(table[codes], kind="mergesort")]
        levels = table[codes]
        at = np.searchsorted((levels[1:] + levels[:-1]) / 2, values)
        return codes[at].astype(np.uint8)
    return values.astype(dtype)


def a_shape(random, least_rank=0):
    """Return a shape of rank 0 to 5, mostly small, now and then up to a million elements."""
    rank = random.randint(least_rank, 6)
    elements = 2.0 ** random.uniform(0, 20 if random.random_sample() < 0.005 else 13)
    cuts = np.sort(random.uniform(0, np.log(elements), max(0, rank - 1)))
    logs = np.diff(np.concatenate([[0.0], cuts, [np.log(elements)]])) if rank else []
    sizes = [max(1, int(round(np.exp(part)))) for part in logs]
    random.shuffle(sizes)
    return tuple(sizes)


def a_golden(random, kind, shape):
    """Return a float64 array of a distribution, of the order of 1."""
    y = random.standard_normal(shape)
    last = shape[-1] if shape else 1
    if kind == "relu":
        y = np.maximum(y, 0.0)
        return y if np.any(y) else np.ones(shape)
    if kind in ("softmax flat", "softmax peaked"):
        scores = np.exp((0.05 if kind == "softmax flat" else 6.0) * y)
        return scores / scores.sum(axis=-1, keepdims=True) if shape else np.ones(())
    if kind.startswith("masked"):
        masked = np.arange(last) >= random.randint(1, last + 1)
        number = (
            (-np.inf, -1e9, LOWEST["float32"])[random.randint(3)]
            if kind == "masked otherwise"
            else -np.inf
        )
        return np.where(masked, y - 1e4 if kind == "masked -1e4" else number, y)
    if kind == "constant":
        return 3.0 + 0.01 * y
    if kind == "embedding":
        return y * np.exp(0.5 * random.standard_normal((*shape[:-1], 1) if shape else ()))
    if kind == "layer norm":
        return (
            (y - y.mean(axis=-1, keepdims=True)) / (y.std(axis=-1, keepdims=True) + 1e-5) * 1.1
            + 0.2
            if last > 1
            else y
        )
    if kind == "channels" and len(shape) > 1:
        scales = np.exp(random.standard_normal(shape[1]))
        return y * scales.reshape((1, -1) + (1,) * (len(shape) - 2))
    return y


def healthy_noise(random, y, share, probabilities=False):
    """Return values at a relative distance of ``share`` from ``y``: half of it in proportion to
    each, half to the mean square of its row.

    Zeros stay, and what is masked. Probabilities get the noise of their scores: so much in
    proportion to each, and each row sums to one.
    """
    if probabilities:
        noisy = y * np.exp(share * random.standard_normal(y.shape))
        return noisy / noisy.sum(axis=-1, keepdims=True) if y.ndim else y
    finite = np.where(np.isfinite(y) & (y > -5000), y, 0.0)
    rows = np.sqrt((finite**2).mean(axis=-1, keepdims=True)) if y.ndim else np.abs(finite)
    noise = np.where(
        finite == 0.0, 0.0, random.standard_normal(y.shape) * np.sqrt(finite**2 + rows**2)
    )
    length = np.sqrt((noise**2).sum())
    return y + noise * (share * np.sqrt((finite**2).sum()) / length) if length else y


def healthy(random):
    """Return (what, arguments of verdict) of a healthy tensor."""
    dtype = (
        list(NOISE)[random.randint(len(NOISE))]
        if random.random_sample() < 0.85
        else WHOLE[random.randint(len(WHOLE))]
    )
    shape = a_shape(random)
    if dtype in WHOLE:
        y = random.randint(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        wide = (
            "int64" if random.random_sample() < 0.5 and dtype not in ("bool", "uint64") else dtype
        )
        if dtype in ("int32", "int64", "uint32") and random.random_sample() < 0.5:
            # Ids that a float32 golden cannot hold, and labels that the device gives as floats.
            y = random.randint(2**24, 2**31 - 1, shape)
            return "%s, large ids" % dtype, {
                "x": np.asarray(y).astype(dtype),
                "y": np.asarray(y).astype(np.float32),
            }
        if random.random_sample() < 0.3:
            return "%s, labels" % dtype, {
                "x": np.asarray(y).astype(np.float16),
                "y": np.asarray(y),
                "dtype": "float16",
            }
        return "%s, whole numbers" % dtype, {"x": np.asarray(y), "y": np.asarray(y).astype(wide)}
    kind = KINDS[random.randint(len(KINDS))]
    y = np.asarray(a_golden(random, kind, shape))
    low, high = RANGE.get(dtype, (-3, 3))
    if kind in ("normal", "relu", "constant", "embedding", "layer norm") and dtype not in (
        "hifloat8",
        "float8_e4m3fn",
        "float8_e5m2",
    ):
        y = y * 2.0 ** random.uniform(low, high)
        most = float(np.abs(y).max()) if y.size else 0.0
        y = y * min(1.0, 2.0 ** (high + 2.5) / most) if most else y
    elif dtype.startswith("float8") or dtype == "hifloat8":
        kind, y = "normal", random.standard_normal(shape) * 2.0 ** random.uniform(low, high)
        # A few values alone must not lie below what such a type can tell from zero.
        y = y if y.size > 4 else np.copysign(0.3 + np.abs(y), y)
    y = np.asarray(y)
    golden = y.astype(np.float64 if dtype == "float64" else np.float32)
    share = NOISE[dtype] * 10.0 ** random.uniform(-4, 0)
    x = np.asarray(
        healthy_noise(random, golden.astype(np.float64), share, kind.startswith("softmax"))
    )
    if dtype == "complex64":
        target, y = (
            np.stack([side, side], -1).astype(np.float32).view(dtype)[..., 0]
            for side in (x, golden)
        )
        return "complex64, %s" % kind, {"x": np.asarray(target), "y": np.asarray(y)}
    if kind == "masked otherwise" and dtype in LOWEST:
        # The device's own mask: the lowest number of its type, or -inf.
        x = np.where(golden <= -1e8, (LOWEST[dtype], -np.inf)[random.randint(2)], x)
    origin = ("NCHW", "NHWC", None)[random.randint(3)] if len(shape) == 4 else None
    return "%s, %s" % (dtype, kind), {
        "x": np.asarray(store(x, dtype)),
        "y": golden,
        "dtype": dtype,
        "origin": origin,
    }


def _whole(random, dtype, shape, count, wrong, step):
    y = random.randint(0, 2 if dtype == "bool" else 1000 if dtype != "int8" else 100, shape).astype(
        dtype
    )
    x = y.copy().reshape(-1)
    places = random.permutation(y.size)[:count]
    x[places] = ~x[places] if dtype == "bool" else x[places] + step
    golden = y.astype(np.float32) if wrong == "float golden" else y
    target = x.astype(np.float16) if wrong == "float target" else x
    return {"x": target.reshape(shape), "y": golden, "op_type": "ArgMaxV2"}


def _labels(random):
    return _whole(
        random,
        ("int32", "int64")[random.randint(2)],
        (256,),
        4,
        ("", "float golden", "float target")[random.randint(3)],
        7,
    )


def _tiny(random):
    y = random.standard_normal((4, 8, 16, 16)) * 10.0 ** random.uniform(-6.5, -5)
    x = (
        np.where(np.arange(16) < 8, y, 0.0)
        if random.random_sample() < 0.5
        else np.roll(y, 1, axis=-1)
    )
    return {"x": x.astype(np.float16), "y": y.astype(np.float32)}


def _masked_scores(random):
    """Scores that are wrong in one row, masked by the lowest numbers of their types."""
    arguments = _scores(random)
    lowest = LOWEST[arguments["dtype"]]
    x = np.where(arguments["x"] < -5000, lowest, arguments["x"]).astype(arguments["x"].dtype)
    return {
        **arguments,
        "x": x,
        "y": np.where(arguments["y"] < -5000, -1e9, arguments["y"]).astype(np.float32),
    }


def _device(random, y, values, origin=None):
    """Return a target in one of the common types with the rounding and noise of a healthy
    device.
    """
    dtype = ("float16", "float32")[random.randint(2)]
    noisy = healthy_noise(
        random, np.asarray(values, np.float64), NOISE[dtype] * 10.0 ** random.uniform(-4, -0.5)
    )
    return {"x": store(noisy, dtype), "y": y.astype(np.float32), "dtype": dtype, "origin": origin}


def _channel(random, change):
    channels = 2 ** random.randint(2, 11)
    # One random element alone may come out right.
    side = random.randint(3 if change == "random" else 1, 9)
    y = a_golden(
        random, ("normal", "relu", "channels")[random.randint(3)], (1, channels, side, side)
    )
    norms = np.sqrt((y**2).sum(axis=(0, 2, 3)))
    # A channel of less than half the mean energy may hide, as docs/reference/metrics.md says.
    place = random.choice(np.flatnonzero(norms >= 0.5 * norms.mean()))
    x = y.copy()
    x[:, place] = (
        0.0 if change == "zero" else norms[place] / side * random.standard_normal((1, side, side))
    )
    if random.random_sample() < 0.5:
        return _device(
            random,
            np.ascontiguousarray(y.transpose(0, 2, 3, 1)),
            np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
            "NHWC",
        )
    return _device(random, y, x, "NCHW")


def _stale_filter(random):
    y = np.maximum(random.standard_normal((1, 256, 14, 14)) + 0.3, 0.0)
    x = y.copy()
    x[0, random.randint(256)] = np.maximum(random.standard_normal((14, 14)) + 0.3, 0.0)
    return _device(random, y, x, "NCHW")


def _token(random):
    y = a_golden(
        random,
        ("normal", "layer norm", "embedding")[random.randint(3)],
        (1, random.randint(8, 128), random.randint(16, 256)),
    )
    x = y.copy()
    norms = np.sqrt((y**2).sum(axis=-1))[0]
    place = random.choice(np.flatnonzero(norms >= 0.5 * norms.mean()))
    x[0, place] = 0.0 if random.random_sample() < 0.5 else x[0, (place + 1) % x.shape[1]]
    return _device(random, y, x)


def _scores(random):
    y = random.standard_normal((4, 32, 32))
    x = y.copy()
    masked = np.triu(np.ones((32, 32), bool), 1)
    norms = np.sqrt((np.where(masked, 0.0, y) ** 2).sum(axis=(0, 2)))
    # A row of a few scores, of less than half the mean energy, may hide.
    row = random.choice(np.flatnonzero(norms[:31] >= 0.5 * norms.mean()))
    x[:, row, : row + 1] = random.standard_normal((4, row + 1))
    return _device(random, np.where(masked, y - 1e4, y), np.where(masked, y - 1e4, x))


def _whole_tensor(random, change):
    shape = (
        random.randint(1, 5),
        random.randint(2, 65),
        random.randint(2, 17),
        random.randint(2, 17),
    )
    y = a_golden(random, ("normal", "relu", "channels", "layer norm")[random.randint(4)], shape)
    y = y if np.any(y) else y + 1.0
    scale = 2.0 ** random.uniform(-8, 8)
    other = a_golden(random, "normal", shape)
    changed = {
        "scale 1.04": lambda: y * 1.04,
        "zero": lambda: np.zeros(shape),
        "other data": lambda: other,
        "shifted by one": lambda: np.roll(y, 1, axis=-1),
        "bias missing": lambda: y - 0.3 * np.sqrt((y**2).mean()),
        "sign": lambda: -y,
        "half": lambda: np.where(np.arange(shape[-1]) < shape[-1] // 2, y, 0.0),
    }[change]()
    if not change.startswith("scale"):
        return _device(random, y * scale, changed * scale, "NCHW")
    # Noise would hide four per cent: only rounding.
    dtype = ("float16", "float32")[random.randint(2)]
    return {
        "x": store(changed * scale, dtype),
        "y": (y * scale).astype(np.float32),
        "dtype": dtype,
        "origin": "NCHW",
    }


def _nan(random, value):
    y = random.standard_normal((8, 50)).astype(np.float32)
    x = y.astype(np.float16)
    place = random.randint(8), random.randint(50)
    x[place] = value
    if np.isinf(value):
        y[place] = -value
    return {"x": x, "y": y}


def _constant(random):
    shape = a_shape(random)
    return {
        "x": np.full(shape, 3.1, ("float16", "float32")[random.randint(2)]),
        "y": np.full(shape, 3.0, np.float32),
    }


BROKEN = {
    "127 of 128 int32 ids off by one": lambda r: _whole(r, "int32", (128,), 127, "", 1),
    "4 of 256 ArgMax labels off by 7": _labels,
    "3 of 4096 bools flipped": lambda r: _whole(r, "bool", (64, 64), 3, "", 1),
    "1 of up to 100,000 int8 off by one": lambda r: _whole(
        r, "int8", (r.randint(1, 1000), r.randint(1, 100)), 1, "", 1
    ),
    "1 of 4 to 1024 channels zero": lambda r: _channel(r, "zero"),
    "1 of 4 to 1024 channels random": lambda r: _channel(r, "random"),
    "one stale filter of 256": _stale_filter,
    "one token of [1, T, D] zero or its neighbour": _token,
    "one row of attention scores wrong behind a -1e4 mask": _scores,
    "the same behind masks by different numbers": _masked_scores,
    "half or shifted, below float16's normal range": _tiny,
    "scale 1.04": lambda r: _whole_tensor(r, "scale 1.04"),
    "constant 3 against 3.1": _constant,
    "all zero": lambda r: _whole_tensor(r, "zero"),
    "other data": lambda r: _whole_tensor(r, "other data"),
    "shifted by one": lambda r: _whole_tensor(r, "shifted by one"),
    "bias missing": lambda r: _whole_tensor(r, "bias missing"),
    "sign": lambda r: _whole_tensor(r, "sign"),
    "half of each row zero": lambda r: _whole_tensor(r, "half"),
    "one NaN": lambda r: _nan(r, np.nan),
    "one Inf of the other sign": lambda r: _nan(r, np.inf),
}


def run(count, seed=0, limits=None):
    """Try ``count`` healthy and ``count`` broken tensors, by the default limits or others.

    Returns
    -------
    dict
        ``(healthy or broken, what)`` to (tried, judged wrongly, the seed of the first that was).
    """
    found = collections.OrderedDict()
    chosen = settings(limits)
    kinds = list(BROKEN)
    for number in range(count):
        random = np.random.RandomState((seed * 1000003 + number) % 2**32)
        what, arguments = healthy(random)
        _count(found, "healthy", what, verdict(chosen=chosen, **arguments).verdict != PASS, number)
        what = kinds[number % len(kinds)]
        _count(
            found,
            "broken",
            what,
            verdict(chosen=chosen, **BROKEN[what](random)).verdict != FAIL,
            number,
        )
    return found


def _count(found, side, what, wrong, number):
    tried, wrongly, first = found.get((side, what), (0, 0, None))
    found[side, what] = tried + 1, wrongly + wrong, number if wrong and first is None else first


def wrong(found, side):
    """Return how many of a side were judged wrongly."""
    return sum(entry[1] for key, entry in found.items() if key[0] == side)


def table(found):
    """Yield the lines of the table in docs/design/verdict.md."""
    yield "| tensors | tried | judged wrongly |"
    yield "|---|---|---|"
    by_type = collections.OrderedDict()
    for (side, what), (tried, wrongly, _) in sorted(found.items()):
        if side == "healthy":
            name = "healthy " + what.split(",")[0]
            before = by_type.get(name, (0, 0))
            by_type[name] = before[0] + tried, before[1] + wrongly
    for name, (tried, wrongly) in by_type.items():
        yield "| %s | %d | %d |" % (name, tried, wrongly)
    for what in BROKEN:
        tried, wrongly, _ = found.get(("broken", what), (0, 0, None))
        yield "| %s | %d | %d |" % (what, tried, wrongly)
    for side, word in (("healthy", "fail"), ("broken", "pass")):
        total = sum(entry[0] for key, entry in found.items() if key[0] == side)
        yield "| **all %s ones** | **%d** | **%d %s** |" % (side, total, wrong(found, side), word)


def misses(found):
    """Yield what was judged wrongly, with the number of the first."""
    for (side, what), (tried, wrongly, first) in sorted(found.items()):
        if wrongly:
            yield "%s: %s: %d of %d, the first is number %d" % (side, what, wrongly, tried, first)
