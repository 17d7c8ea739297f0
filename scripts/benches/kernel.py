"""The metrics kernel on one core: nanoseconds per element, beside plain numpy and the floor."""

from __future__ import annotations

import argparse
import os
import platform
import time
from functools import partial

# Before numpy is loaded: a threaded dot product would count as several cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from plain import floor, plain_metrics  # noqa: E402

from goldwatch.metrics.accumulator import Accumulator  # noqa: E402
from goldwatch.metrics.compare_blocks import KLPass, compare_blocks  # noqa: E402
from goldwatch.metrics.compiled.choice import about_kernel, compiled_kernel  # noqa: E402
from goldwatch.metrics.row import MEASURES  # noqa: E402
from goldwatch.metrics.worst_slice import borders, slice_axes  # noqa: E402
from goldwatch.tensors.aligned_blocks import placed_blocks  # noqa: E402
from goldwatch.tensors.dtypes import decode, dtype_by_name  # noqa: E402
from goldwatch.tensors.geometry import match_layouts  # noqa: E402
from goldwatch.tensors.tensor import Tensor  # noqa: E402

BLOCK = 65536


def goldwatch_metrics(x, y, read=lambda stored: stored):
    """Both passes over blocks, as the network comparison feeds them."""
    first = Accumulator()
    for start in range(0, x.size, BLOCK):
        first.update(read(x[start : start + BLOCK]), y[start : start + BLOCK])
    second = KLPass(first.result())
    for start in range(0, x.size, BLOCK):
        second.update(read(x[start : start + BLOCK]), y[start : start + BLOCK])
    return second.result()


HEIGHT = WIDTH = 64


def in_device_layout(x):
    """The elements of an NCHW tensor as NC1HWC0 stores them, flat."""
    return np.ascontiguousarray(x.reshape(-1, 16, HEIGHT, WIDTH).transpose(0, 2, 3, 1)).reshape(-1)


def strided_metrics(x, y):
    """The target as NC1HWC0 stores it ([H, W, 16]), the golden as NCHW, in blocks that fit the
    cache.
    """
    target = x.reshape(-1, HEIGHT, WIDTH, 16).transpose(0, 3, 1, 2)
    golden = y.reshape(-1, 16, HEIGHT, WIDTH)
    return compare_blocks(lambda: zip(target, golden))


def best_ns(function, x, y, repeat):
    """Smallest processor time per element of several runs: other programs only ever make it
    larger.
    """
    best = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        function(x, y)
        best = min(best, time.process_time() - begin)
    return best / x.size * 1e9


def make(rng, count, target, golden, kind):
    if np.dtype(golden).kind in "iu":
        y = rng.randint(-100, 100, count)
        x = y + rng.randint(0, 2, count)
    else:
        y = rng.standard_normal(count)
        if kind == "half zero":
            y[rng.random_sample(count) < 0.5] = 0.0
        x = y * (1 + 1e-3 * rng.standard_normal(count))
    return x.astype(target), y.astype(golden)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench kernel", description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 22, help="per tensor (default 4 Mi)")
    parser.add_argument(
        "--repeat", type=int, default=5, help="runs, of which the fastest counts (default 5)"
    )
    options = parser.parse_args()
    count = max(1, options.elements // BLOCK) * BLOCK
    rng = np.random.RandomState(0)
    print(
        "python %s, numpy %s, %s; %d elements, best of %d"
        % (platform.python_version(), np.__version__, cpu(), count, options.repeat)
    )
    print(about_kernel())
    print(
        "%-22s %-10s %10s %10s %10s %8s"
        % ("target / golden", "data", "goldwatch", "plain", "floor", "plain/gw")
    )
    cases = [
        ("float16", "float32", "dense"),
        ("float16", "float32", "half zero"),
        ("float32", "float32", "dense"),
        ("float64", "float64", "dense"),
        ("int8", "int8", "dense"),
        ("int64", "int64", "dense"),
    ]
    for target, golden, kind in cases:
        x, y = make(rng, count, target, golden, kind)
        line("%s / %s" % (target, golden), kind, goldwatch_metrics, x, y, options.repeat)
        if kind == "dense" and target == "float16":
            line(
                "%s / %s" % (target, golden),
                "NC1HWC0",
                strided_metrics,
                in_device_layout(x),
                y,
                options.repeat,
            )
    bits = (make(rng, count, "float32", "float32", "dense")[0].view(np.uint32) >> 16).astype(
        np.uint16
    )
    y = widened(bits) * np.float32(1.001)
    line(
        "bfloat16 / float32",
        "dense",
        from_bfloat16(goldwatch_metrics),
        bits,
        y,
        options.repeat,
        from_bfloat16,
    )
    slices(count, options.repeat)
    tiny(options.repeat)


def slices(count, repeat):
    """What WorstSliceDistance costs on top of the ten metrics, by layout of the golden."""
    print("%-22s %10s %10s %8s" % ("slices", "ten", "and slices", "ratio"))
    rng = np.random.RandomState(2)
    # A multiple of 2**12 elements fits every shape.
    rows = max(1, count >> 12)
    shapes = [
        ("NCHW, 64x64", (1, rows, 64, 64), 1),
        ("NCHW, 16x16", (1, 16 * rows, 16, 16), 1),
        ("NHWC, 512", (1, 8, rows, 512), 3),
    ]
    for name, shape, channel in [
        *shapes,
        ("ND, 1024", (1, 4 * rows, 1024), None),
        ("ND, 4 axes", (4, rows, 32, 32), None),
    ]:
        golden = rng.standard_normal(shape).astype(np.float32)
        device = (golden * (1 + 1e-3 * rng.standard_normal(shape))).astype(np.float16)
        target, other = Tensor.from_array(device), Tensor.from_array(golden)
        geometry, axes = match_layouts(target, shape), slice_axes(shape, channel)

        def run(x, y, wanted=(), sides=(target, other, geometry)):
            metrics = MEASURES[: 10 + bool(wanted)]
            whole = partial(placed_blocks, *sides, BLOCK)
            compare_blocks(partial(whole, borders=borders(wanted)), metrics, wanted, again=whole)

        ten, both = float("inf"), float("inf")
        for _ in range(repeat):
            ten = min(ten, best_ns(run, device, golden, 1))
            both = min(
                both, best_ns(lambda x, y, run=run, axes=axes: run(x, y, axes), device, golden, 1)
            )
        print("%-22s %7.2f ns %7.2f ns %8.2f" % (name, ten, both, both / ten), flush=True)


def widened(bits):
    """bfloat16 as float32, as whoever has numpy alone does it."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfloat16_as_read(bits):
    """bfloat16 as the comparison takes it from a file."""
    return decode(bits, dtype_by_name("bfloat16"), bits.size, halves=compiled_kernel() is not None)


def from_bfloat16(function):
    """The target's elements come as the two bytes that a file holds."""
    if function is goldwatch_metrics:
        return partial(function, read=bfloat16_as_read)
    return lambda bits, y: function(widened(bits), y)


def line(pair, kind, function, x, y, repeat, reading=lambda function: function):
    ours = best_ns(function, x, y, repeat)
    with np.errstate(all="ignore"):
        plain = best_ns(reading(plain_metrics), x, y, max(2, repeat // 2))
        least = best_ns(reading(floor), x, y, repeat)
    print(
        "%-22s %-10s %7.2f ns %7.2f ns %7.2f ns %8.1f"
        % (pair, kind, ours, plain, least, plain / ours),
        flush=True,
    )


def tiny(repeat):
    """The cost of one small tensor, all ten metrics."""
    x, y = make(np.random.RandomState(1), 16, "float16", "float32", "dense")
    best = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        for _ in range(200):
            compare_blocks(lambda: [(x, y)])
        best = min(best, time.process_time() - begin)
    print("one tensor of 16 elements: %.0f microseconds" % (best / 200 * 1e6))


def cpu():
    try:
        with open("/proc/cpuinfo") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return platform.machine()
    names = [text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")]
    wide = any("avx512f" in text for text in lines if text.startswith("flags"))
    return "%s%s" % (names[0] if names else platform.machine(), " with AVX-512" if wide else "")


if __name__ == "__main__":
    main()
