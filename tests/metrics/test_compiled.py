"""The compiled kernel against numpy's and exact numbers, with each instruction set of this
processor.
"""

from __future__ import annotations

import decimal
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import make_dumps, run_here
from kernels import KERNELS, SETS, rounded, using

from goldwatch.base.errors import UsageError
from goldwatch.metrics.accumulator import fused_sums
from goldwatch.metrics.compare_blocks import compare_blocks
from goldwatch.metrics.compiled import choice
from goldwatch.metrics.compiled.binding import Table
from goldwatch.metrics.numpy_kernel import as_reals, fast_sums, load, load_limit, pieces, workspace
from goldwatch.metrics.row import MEASURES
from goldwatch.metrics.slice_squares import Needs, SliceAxis
from goldwatch.metrics.worst_slice import slice_axes
from goldwatch.tensors.dtypes import BFLOAT16, plain_floats

CONTEXT = decimal.Context(prec=60, Emin=-99999, Emax=99999)
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?", "V2")
SIZES = st.one_of(st.integers(1, 70), st.sampled_from([511, 512, 513, 1023, 4099, 65535, 65536]))
KINDS = ("plain", "half zero", "subnormal", "offset", "wide", "constant", "zero")
EXACT = ("n", "x_low", "x_high", "y_low", "y_high", "max_ad", "max_rel")
KL_FLOOR = 1.1920929e-07


@pytest.fixture(scope="module", autouse=True)
def kernel():
    """Each test chooses for itself."""


def values(rng, dtype, n, kind):
    dtype = np.dtype(dtype)
    if dtype == BFLOAT16:
        return rounded(values(rng, "f4", n, kind), dtype)
    if kind in ("constant", "zero"):
        return np.full(n, 0 if kind == "zero" else 3).astype(dtype)
    if dtype.kind == "b":
        return rng.rand(n) < 0.5
    if dtype.kind in "iu":
        if kind == "wide":
            return rng.randint(0, 256, n * dtype.itemsize).astype(np.uint8).view(dtype).copy()
        return rng.randint(0 if dtype.kind == "u" else -100, 100, n).astype(dtype)
    v = rng.standard_normal(n)
    if kind == "half zero":
        v[rng.rand(n) < 0.5] = 0.0
    elif kind == "offset":
        v = v * 1e-2 + 1000.0
    elif kind == "wide":
        v = v * 10.0 ** rng.uniform(*{2: (-7, 4), 4: (-45, 37), 8: (-320, 300)}[dtype.itemsize], n)
    elif kind == "subnormal":
        v = v * {2: 1e-6, 4: 1e-41, 8: 1e-310}[dtype.itemsize]
    return v.astype(dtype)


def laid_out(array, how, rng):
    """The same elements in another place: strided, backwards, transposed, unaligned."""
    n = array.size
    if how == "strided":
        wider = np.zeros((n, 3), array.dtype)
        wider[:, 1] = array
        return wider[:, 1]
    if how == "backwards":
        return array[::-1].copy()[::-1]
    if how == "unaligned":
        raw = np.zeros(n * array.itemsize + 1, np.uint8)
        raw[1:] = array.view(np.uint8)
        return raw[1:].view(array.dtype)
    return array.copy()


@st.composite
def pairs(draw):
    n, kind = draw(SIZES), draw(st.sampled_from(KINDS))
    rng = np.random.RandomState(draw(st.integers(0, 2**31 - 1)))
    x_type, y_type = draw(st.sampled_from(TYPES)), draw(st.sampled_from(TYPES))
    y = values(rng, y_type, n, kind)
    near = draw(st.booleans()) and np.dtype(x_type).kind == np.dtype(y_type).kind == "f"
    with np.errstate(all="ignore"):
        x = (
            (y.astype("f8") * (1 + 1e-3 * rng.standard_normal(n))).astype(x_type)
            if near
            else values(rng, x_type, n, kind)
        )
    if draw(st.booleans()):
        shape = next((a, n // a) for a in (16, 7, 5, 3, 2, 1) if n % a == 0)
        x, y = x.reshape(shape), y.reshape(shape)
        return (np.asfortranarray(x) if draw(st.booleans()) else x), (
            np.asfortranarray(y) if draw(st.booleans()) else y
        )
    layouts = st.sampled_from(["plain", "strided", "backwards", "unaligned"])
    return laid_out(x, draw(layouts), rng), laid_out(y, draw(layouts), rng)


def by_numpy(x, y):
    work = workspace()
    with np.errstate(all="ignore"):
        x64, y64 = load(x, work.x, work.bits), load(y, work.y, work.bits)
        return fast_sums(x64, y64, (load_limit(x.dtype), load_limit(y.dtype)), work)


def scale_of(name, sums):
    """How large a sum could be without cancelling."""
    size = {
        "xy": math.sqrt(sums.xx * sums.yy),
        "x_mean": math.sqrt(sums.xx / sums.n),
        "y_mean": math.sqrt(sums.yy / sums.n),
    }
    return size.get(name, abs(getattr(sums, name)))


@settings(max_examples=400, deadline=None)
@given(pairs())
def test_compiled_sums_equal_numpys(pair):
    x, y = as_reals(*pair)
    want = by_numpy(x, y)
    for name in SETS:
        with using(name) as kernel:
            found = fused_sums(kernel, x, y, True, True)
        assert (found is None) == (want is None)
        if found is None or want is None:
            continue
        got = found.sums
        for field in EXACT:
            assert getattr(got, field) == getattr(want, field), field
        for field in ("xx", "yy", "xy", "dd", "ad", "rel"):
            assert abs(getattr(got, field) - getattr(want, field)) <= 1e-12 * scale_of(
                field, want
            ), field
        for side in "xy":
            mean, m2 = (
                [getattr(sums, "%s_%s" % (side, part)) for sums in (got, want)]
                for part in ("mean", "m2")
            )
            bases = [getattr(sums, side + "_base") for sums in (got, want)]
            assert abs((bases[0] - bases[1]) + (mean[0] - mean[1])) <= 1e-12 * math.sqrt(
                getattr(want, side * 2) / want.n
            )
            assert abs(m2[0] - m2[1]) <= 1e-10 * m2[1] + 1e-24 * getattr(want, side * 2)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(
    "spread", [0.3, 0.1, 0.04, 0.033, 0.0315, 0.01, 4e-3, 2e-3, 1e-4, 1e-6, 1e-8]
)
def test_both_kernels_keep_the_digits_of_nearly_equal_values(dtype, spread):
    """From a deviation of 3.2 % of the mean on down the squares alone have lost too many."""
    steps = np.random.RandomState(3).choice([-1.0, 1.0], 8190)
    for middle in (1.0, -777.7, 4.1e4):
        x = (middle * (1 + spread * steps)).astype(dtype)
        # There are two values, so that exact sums take a moment.
        elements = [(Fraction(value), x.tolist().count(value)) for value in set(x.tolist())]
        mean = sum(times * value for value, times in elements) / x.size
        deviations = sum(times * (value - mean) ** 2 for value, times in elements)
        found = [by_numpy(x, x)]
        for name in SETS:
            with using(name) as kernel:
                found.append(fused_sums(kernel, x, x, True, True).sums)
        close = deviations < Fraction(1, 1000) * sum(times * value**2 for value, times in elements)
        for sums in found:
            assert (sums.x_base != 0) == close
            assert abs(Fraction(sums.x_m2) - deviations) <= (1e-13 if close else 1e-11) * deviations
            assert abs(Fraction(sums.x_base) + Fraction(sums.x_mean) - mean) <= 1e-14 * abs(mean)


@settings(max_examples=200, deadline=None)
@given(pairs())
def test_all_instruction_sets_give_the_same_bits(pair):
    x, y = as_reals(*pair)
    scaling = (
        float(plain_floats(x).min()),
        0.01,
        KL_FLOOR,
        float(plain_floats(y).min()),
        0.02,
        KL_FLOOR,
    )
    found = []
    for name in SETS:
        with using(name) as kernel:
            found.append(
                (
                    np.array(kernel.sums(x, y)).tobytes(),
                    np.array(kernel.divergence(x, y, scaling)).tobytes(),
                )
            )
    assert len(set(found)) <= 1


@settings(max_examples=100, deadline=None)
@given(SIZES, st.data())
def test_every_number_that_is_not_finite_is_noticed(n, data):
    rng = np.random.RandomState(n)
    kind = data.draw(st.sampled_from(["plain", "half zero", "zero", "constant"]))
    sides = [values(rng, data.draw(st.sampled_from(["f2", "f4", "f8"])), n, kind) for _ in range(2)]
    sides[data.draw(st.integers(0, 1))][data.draw(st.integers(0, n - 1))] = data.draw(
        st.sampled_from([math.nan, math.inf, -math.inf])
    )
    for name in SETS:
        with using(name) as kernel:
            assert fused_sums(kernel, *sides, True, True) is None


@pytest.mark.parametrize("dtype", ["f2", "i1", "u1", "i2", "u2"])
def test_every_code_of_the_small_types_becomes_its_number(dtype):
    codes = np.arange(
        1 << (8 * np.dtype(dtype).itemsize), dtype=np.dtype("u%d" % np.dtype(dtype).itemsize)
    ).view(dtype)
    codes = codes[np.isfinite(codes)]
    for name in SETS:
        with using(name) as kernel:
            kept = np.empty(codes.size), np.empty(codes.size)
            kernel.sums(np.zeros(codes.size, "f4"), codes, keep=kept)
        assert np.array_equal(kept[0], codes.astype("f8")) and np.array_equal(
            kept[1], np.abs(codes.astype("f8"))
        )


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8"])
def test_numbers_of_wide_types_are_rounded_once(dtype):
    rng = np.random.RandomState(3)
    v = rng.randint(0, 256, 4096 * np.dtype(dtype).itemsize).astype(np.uint8).view(dtype)
    v = v[np.isfinite(v)]
    for name in SETS:
        with using(name) as kernel:
            kept = np.empty(v.size), np.empty(v.size)
            kernel.sums(v, v, keep=kept)
        assert np.array_equal(kept[0], v.astype("f8"))


@pytest.mark.parametrize(
    "rows, length", [(1, 1), (1, 700), (700, 1), (3, 5), (41, 49), (5, 1030), (64, 16), (13, 512)]
)
def test_sums_of_rows_and_columns_equal_numpys(rows, length):
    rng = np.random.RandomState(rows)
    x, y = rng.standard_normal(rows * length).astype("f4"), rng.standard_normal(rows * length)
    d = x.astype("f8") - y
    for name in SETS:
        with using(name) as kernel:
            table = Table(
                length, (np.zeros(rows), np.zeros(rows)), (np.zeros(length), np.zeros(length))
            )
            kernel.sums(x, y, table=table)
        for number, v in enumerate((y, d)):
            square = v.reshape(rows, length) ** 2
            np.testing.assert_allclose(
                table.rows[number], [math.fsum(row) for row in square], rtol=1e-14
            )
            np.testing.assert_allclose(
                table.columns[number], [math.fsum(column) for column in square.T], rtol=1e-13
            )


@pytest.mark.parametrize("types", ["f2 f4", "f4 f2", "V2 f4", "i1 f8", "f8 i2"])
@pytest.mark.parametrize(
    "shape",
    [
        (16, 64),
        (3, 16, 40),
        (2, 5, 33),
        (4, 64, 8),
        (1, 65, 70),
        (2, 3, 16, 49),
        (16, 1, 512),
        (7, 2, 9),
    ],
)
def test_device_layouts_walked_in_tiles_give_the_same_sums(shape, types):
    """One side has the axis before the last contiguous (NC1HWC0), the other one the last (NCHW):
    what depends on places is in C order.
    """
    rng = np.random.RandomState(sum(shape))
    target, golden = types.split()
    plain = (
        np.round(rng.standard_normal(shape) * 50).astype(golden),
        rounded(np.round(rng.standard_normal(shape) * 50), target),
    )
    y, x = plain[0], np.ascontiguousarray(plain[1].swapaxes(-1, -2)).swapaxes(-1, -2)
    size, length = x.size, shape[-1]
    for name in SETS:
        with using(name) as kernel:
            found = []
            for pair in ((plain[1], y), (x, y), (y, x)):
                table = Table(
                    length,
                    (np.zeros(size // length), np.zeros(size // length)),
                    (np.zeros(length), np.zeros(length)),
                )
                keep = np.zeros(size), np.zeros(size)
                sums = kernel.sums(*pair, table=table, keep=keep)
                scaling = (-200.0, 0.01, KL_FLOOR, -200.0, 0.01, KL_FLOOR)
                found.append((sums, table, keep, kernel.divergence(*pair, scaling)))
            for (sums, table, keep, terms), golden_side in zip(found, (y, y, x)):
                assert np.array_equal(keep[0], plain_floats(golden_side).astype("f8").reshape(-1))
                assert np.array_equal(
                    keep[1], np.abs(plain_floats(plain[1]).astype("f8") - y).reshape(-1)
                )
                for values_of_side, number in ((keep[0], 0), (keep[1], 1)):
                    square = values_of_side.reshape(-1, length) ** 2
                    assert np.array_equal(table.rows[number], square.sum(axis=1))
                    assert np.array_equal(table.columns[number], square.sum(axis=0))
                # Sums of whole numbers are exact in any order.
                first = found[0][0]
                assert (sums.xx + sums.yy, sums.xy, sums.dd) == (
                    first.xx + first.yy,
                    first.xy,
                    first.dd,
                ) and sums.max_ad == first.max_ad
                assert terms[0] > 0
            assert found[1][3] == pytest.approx(found[0][3], rel=1e-12, abs=1e-12)


def exact_divergence(p, q):
    """q·((1+u)·ln(1+u) − u) of two floats, in 60 digits."""
    p, q = Decimal(p), Decimal(q)
    t = CONTEXT.divide(p, q)
    return CONTEXT.multiply(
        q, CONTEXT.subtract(CONTEXT.multiply(t, CONTEXT.ln(t)), CONTEXT.subtract(t, Decimal(1)))
    )


def exact_log(p, q):
    """p·ln(p/q) of two floats, in 60 digits."""
    return CONTEXT.multiply(Decimal(p), CONTEXT.ln(CONTEXT.divide(Decimal(p), Decimal(q))))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-7, 0),
            st.one_of(st.floats(-7, 0), st.floats(-0.2, 0.2), st.floats(-1e-6, 1e-6)),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_the_divergence_equals_the_exact_one(exponents):
    q = np.array([max(KL_FLOOR, 10.0**a) for a, _ in exponents])
    p = np.array([min(1.0, max(KL_FLOOR, value * 10.0**b)) for value, (_, b) in zip(q, exponents)])
    want = float(sum(exact_divergence(a, b) for a, b in zip(p, q)))
    want_log = float(sum(exact_log(a, b) for a, b in zip(p, q)))
    for name in SETS:
        with using(name) as kernel:
            found = kernel.divergence(p, q, (0.0, 1.0, KL_FLOOR, 0.0, 1.0, KL_FLOOR))
        # From u = 1/16 on the logarithm cancels against u: two roundings of 1.1e-16 stand against
        # u²/2, which is 1/512 there.
        assert abs(found.g - want) <= 1.2e-13 * want
        assert (found.p, found.q) == pytest.approx((math.fsum(p), math.fsum(q)), rel=1e-15)
        assert found.difference == pytest.approx(math.fsum(p - q), rel=1e-15, abs=1e-16)
        # The rounding of the quotient alone moves a term by up to 1.1e-16 of p.
        assert found.p_log == pytest.approx(want_log, rel=1e-13, abs=4e-16 * math.fsum(p))


@pytest.mark.parametrize("n", [1, 2, 63, 511, 8193, 65537, 131072, 200003])
@pytest.mark.parametrize(
    "types",
    ["f2 f4", "f4 f4", "f8 f8", "i1 i1", "i8 i4", "f2 i4", "V2 f4", "V2 i4", "? f4", "c8 f4"],
)
def test_all_kernels_give_the_same_metrics(n, types):
    rng = np.random.RandomState(n)
    target, golden = types.split()
    y = np.abs(values(rng, golden, n, "half zero"))
    x = y.astype(target) if target == "?" else rounded(y + rng.randint(0, 2, n) * 1e-2, target)
    y[n // 2] = 5
    found = []
    for name in KERNELS:
        with using(name):
            axes = (SliceAxis(0, n, 1),) if n > 1 else ()
            found.append(compare_blocks(lambda: blocks(x, y), MEASURES, axes))
    scale = float(np.abs(y.astype("f8")).max())
    for other in found[1:]:
        for metric, want in found[0].values.items():
            got = other.values[metric]
            if metric == "StandardDeviation":
                got, want = (
                    [v for side in sides.values() for v in side.values()] for sides in (got, want)
                )
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * scale, err_msg=metric)
        for key in (
            "reasons",
            "notes",
            "outcome",
            "differing",
            "differences",
            "count",
            "finite_count",
            "identical",
        ):
            assert getattr(other, key) == getattr(found[0], key)
        slices = [
            None if each.worst_slice is None else (each.worst_slice.axis, each.worst_slice.index)
            for each in (other, found[0])
        ]
        assert slices[0] == slices[1]


@pytest.mark.parametrize("types", ["f2 f4", "f4 f4", "f8 f8", "V2 f4"])
def test_of_equally_bad_slices_all_kernels_name_the_first(types):
    """Their sums differ by the rounding of whoever adds them up."""
    target, golden = types.split()
    y = np.full((64, 56, 56), 0.1, golden)
    x, y, axes = rounded((y * 1.9).reshape(-1), target), y.reshape(-1), slice_axes(y.shape)
    for name in KERNELS:
        with using(name):
            found = compare_blocks(lambda: blocks(x, y), MEASURES, axes)
        assert (name, found.worst_slice.axis, found.worst_slice.index) == (name, 0, 0)


def blocks(x, y):
    start = 0
    for xp, yp in (
        pieces(x, y)
        if x.dtype.kind != "c"
        else [(x[i : i + 32768], y[i : i + 32768]) for i in range(0, x.size, 32768)]
    ):
        yield xp, yp, start, (1,)
        start += xp.size


def test_arrays_that_the_kernel_does_not_support_are_left_to_numpy():
    for name in SETS:
        with using(name) as kernel:
            good = np.zeros(4)
            for other in (
                np.zeros(4, dtype) for dtype in (">f4", "c8", "g", "S2", "V4", "O", "f4,i4")
            ):
                assert (
                    kernel.sums(good, other) is None
                    and kernel.divergence(other, good, (0.0,) * 6) is None
                )
            assert (
                kernel.sums(np.zeros((0, 3)), np.zeros((0, 3))) is None
                and kernel.divergence(good[:0], good[:0], (0.0,) * 6) is None
            )


def test_scalars_and_broadcast_views_are_summed():
    for name in SETS:
        with using(name) as kernel:
            assert kernel.sums(np.array(3.0), np.array(5, "u1")).max_ad == 2.0
            repeated = np.broadcast_to(np.float32(2), (3, 5))
            assert kernel.sums(repeated, np.broadcast_to(np.arange(5.0), (3, 5))).ad == 3 * (
                2 + 1 + 0 + 1 + 2
            )
            assert kernel.sums(*[np.ones((1, 2) * 8) for _ in range(2)]).xx == 256.0


def test_arrays_that_do_not_fit_are_refused():
    for name in SETS:
        with using(name) as kernel:
            x, locked = np.zeros(6), np.zeros(6)
            locked.setflags(write=False)
            assert kernel.sums(locked, x) is not None
            for other in (np.zeros(5), np.zeros((6, 1)), np.zeros((2, 3)), np.array(0.0)):
                with pytest.raises(ValueError, match="shape"):
                    kernel.sums(x, other)
                with pytest.raises(ValueError, match="shape"):
                    kernel.divergence(x, other, (0.0,) * 6)
            for length in (4, 0, -1):
                with pytest.raises(
                    ValueError, match="rows of %d elements in a block of 6" % length
                ):
                    kernel.sums(x, x, table=Table(length))
            for wrong in (
                np.zeros(5),
                np.zeros(6, "f4"),
                np.zeros(6, ">f8"),
                np.zeros(12)[::2],
                locked,
            ):
                with pytest.raises(ValueError, match="6 contiguous float64"):
                    kernel.sums(x, x, keep=(np.zeros(6), wrong))
                with pytest.raises(ValueError, match="contiguous"):
                    kernel.sums(x, x, table=Table(1, (wrong, np.zeros(6))))
                with pytest.raises(ValueError, match="contiguous"):
                    kernel.sums(x, x, table=Table(6, None, (np.zeros(6), wrong)))


def test_the_kernel_module_refuses_wrong_arguments():
    if SETS:
        from goldwatch.metrics.compiled import _kernel

        x, nothing = np.zeros(2), (None,) * 6
        for wrong in (None, 3.0, [0.0, 0.0], "xy", b"xy", memoryview(b"xy")):
            with pytest.raises(AttributeError, match="__array_struct__"):
                _kernel.sums(x, wrong, True, True, 1, *nothing)
            with pytest.raises(AttributeError, match="__array_struct__"):
                _kernel.divergence(wrong, x, (0.0,) * 6)
        forged = type("Forged", (), {"__array_struct__": 5})()
        with pytest.raises(ValueError, match="PyCapsule"):
            _kernel.sums(forged, x, True, True, 1, *nothing)
        with pytest.raises(ValueError, match="rows"):
            _kernel.sums(x, x, True, True, 1, x.copy(), *nothing[1:])
        with pytest.raises(ValueError, match="does not run vax"):
            _kernel.choose("vax")


def test_threads_do_not_share_work_arrays():
    rng = np.random.RandomState(0)
    cases = [
        (rng.standard_normal(65536).astype("f2"), rng.standard_normal(65536).astype("f4"))
        for _ in range(8)
    ]
    for name in SETS:
        with using(name) as kernel, ThreadPoolExecutor(4) as pool:
            find = partial(sums_of, kernel)
            assert list(pool.map(find, cases * 4)) == [find(case) for case in cases] * 4


def sums_of(kernel, case):
    return fused_sums(kernel, *case, True, True, Needs(64, True, True, True)).sums.__getstate__()


def about(monkeypatch, value):
    monkeypatch.setenv(choice.VARIABLE, value)
    monkeypatch.setattr(choice, "_choice", None)
    return choice.about_kernel()


def test_the_environment_variable_chooses_the_kernel(monkeypatch):
    assert about(monkeypatch, "numpy").startswith(
        "numpy computes the metrics, because GOLDWATCH_KERNEL says so"
    )
    assert choice.compiled_kernel() is None
    with pytest.raises(UsageError, match="GOLDWATCH_KERNEL is 'fast'"):
        about(monkeypatch, "fast")
    monkeypatch.setattr(choice, "_load", lambda: (None, "there is none"))
    assert about(monkeypatch, "") == "numpy computes the metrics, because there is none"
    with pytest.raises(UsageError, match="asks for the compiled kernel, but there is none"):
        about(monkeypatch, "compiled")


def test_the_version_option_names_the_kernel_in_use():
    words = [sys.executable, "-m", "goldwatch"]
    for value, wanted in (
        ("numpy", "numpy computes"),
        ("", "compiled code computes" if SETS else "numpy computes"),
    ):
        environment = dict(os.environ, GOLDWATCH_KERNEL=value)
        for order in (["--version", "-v"], ["-v", "--version"]):
            done = subprocess.run(
                words + order,
                env=environment,
                stdout=subprocess.PIPE,
                universal_newlines=True,
                check=True,
            )
            assert (
                done.stdout.startswith("goldwatch, version ")
                and "numpy %s" % np.__version__ in done.stdout
                and wanted in done.stdout
            )


def test_a_wrong_choice_of_kernel_is_refused_at_once(monkeypatch, tmp_path):
    make_dumps(str(tmp_path))
    monkeypatch.setenv(choice.VARIABLE, "fast")
    monkeypatch.setattr(choice, "_choice", None)
    done = run_here(["goldwatch", "compare", "dump", "golden", "-o", "out"], str(tmp_path))
    assert done.returncode == 2 and "GOLDWATCH_KERNEL is 'fast'" in done.stderr
