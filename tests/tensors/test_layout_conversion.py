from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import FormatError, UsageError
from goldwatch.tensors.dtypes import dtype_by_code
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.storage_layouts import device_shape, plain_shape

from .conftest import slow_pack

small = st.integers(1, 5)
channels = st.integers(1, 40)


def numbered(shape, dtype=np.float32):
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)


def transposed(array, letters, wanted):
    return np.ascontiguousarray(array.transpose([letters.index(letter) for letter in wanted]))


@pytest.mark.parametrize("device", ["NC1HWC0", "FRACTAL_Z", "C1HWNC0", "NHWC1C0"])
@pytest.mark.parametrize("plain", ["NCHW", "NHWC", "HWCN", "CHWN"])
@pytest.mark.parametrize("dtype, c0", [(np.float32, 16), (np.int8, 32)])
@settings(max_examples=8, deadline=None)
@given(dims=st.tuples(channels, channels, small, small))
def test_device_layouts_of_four_dims_equal_one_element_at_a_time(device, plain, dtype, c0, dims):
    array = numbered(dims, np.int64).astype(dtype)
    given_array = transposed(array, "NCHW", plain)
    stored = convert(given_array, plain, device, given_array.shape)
    assert stored.shape == device_shape(
        device, given_array.shape, plain, dtype_by_code(3 if c0 == 32 else 1)
    )
    assert stored.shape[-1] == c0
    np.testing.assert_array_equal(
        stored.reshape(-1), slow_pack(array, "NCHW", device, c0, stored.size)
    )
    back = convert(stored.reshape(-1), device, plain, stored.shape, given_array.shape)
    np.testing.assert_array_equal(back, given_array)
    assert back.flags.c_contiguous


@pytest.mark.parametrize("device", ["NDC1HWC0", "FRACTAL_Z_3D"])
@pytest.mark.parametrize("plain", ["NCDHW", "NDHWC", "DHWCN"])
@settings(max_examples=8, deadline=None)
@given(dims=st.tuples(st.integers(1, 20), channels, small, st.integers(1, 3), small))
def test_device_layouts_of_five_dims_equal_one_element_at_a_time(device, plain, dims):
    array = numbered(dims)
    given_array = transposed(array, "NCDHW", plain)
    stored = convert(given_array, plain, device, given_array.shape)
    np.testing.assert_array_equal(
        stored.reshape(-1), slow_pack(array, "NCDHW", device, 16, stored.size)
    )
    np.testing.assert_array_equal(
        convert(stored, device, plain, stored.shape, given_array.shape), given_array
    )


@settings(max_examples=40, deadline=None)
@given(
    lead=st.lists(st.integers(1, 3), max_size=3),
    m=st.integers(1, 40),
    k=st.integers(1, 40),
    c0=st.sampled_from([16, 32]),
)
def test_fractal_nz_packs_any_leading_dims(lead, m, k, c0):
    array = numbered(tuple(lead) + (m, k), np.int32)
    shape = tuple(lead) + (-(-k // c0), -(-m // 16), 16, c0)
    stored = convert(array, "ND", "FRACTAL_NZ", array.shape, shape)
    assert stored.shape == shape
    np.testing.assert_array_equal(
        stored.reshape(-1), slow_pack(array, None, "FRACTAL_NZ", c0, stored.size)
    )
    np.testing.assert_array_equal(convert(stored, "FRACTAL_NZ", "ND", shape, array.shape), array)


@settings(max_examples=40, deadline=None)
@given(
    groups=st.integers(1, 20),
    cout=st.integers(1, 20),
    cin=st.integers(1, 20),
    height=st.integers(1, 3),
    width=st.integers(1, 3),
)
@pytest.mark.parametrize("c0", [16, 32])
def test_fractal_z_with_groups_equals_the_formula(c0, groups, cout, cin, height, width):
    array = numbered((groups * cout, cin, height, width), np.int32)
    lcm = lambda a, b: a * b // math.gcd(a, b)  # noqa: E731
    pack = min(lcm(lcm(cin, c0) // cin, lcm(cout, 16) // cout), groups)
    rows, columns = -(-pack * cout // 16) * 16, -(-pack * cin // c0) * c0
    shape = (-(-groups // pack) * (columns // c0) * height * width, rows // 16, 16, c0)
    stored = convert(array, "NCHW", "FRACTAL_Z", array.shape, shape, groups=groups)
    assert stored.shape == shape
    np.testing.assert_array_equal(
        stored.reshape(-1), slow_pack(array, "NCHW", "FRACTAL_Z", c0, stored.size, groups)
    )
    np.testing.assert_array_equal(
        convert(stored, "FRACTAL_Z", "NCHW", shape, array.shape, groups=groups), array
    )
    hwcn = transposed(array, "NCHW", "HWCN")
    np.testing.assert_array_equal(
        convert(stored, "FRACTAL_Z", "HWCN", shape, hwcn.shape, groups=groups), hwcn
    )


def test_a_depthwise_filter_is_packed_sixteen_channels_at_a_time():
    stored = convert(numbered((32, 1, 3, 3)), "NCHW", "FRACTAL_Z", (32, 1, 3, 3), groups=32)
    assert stored.shape == (2 * 9, 1, 16, 16)
    assert [np.flatnonzero(plane).tolist() for plane in stored[:1, 0]] == [
        [17 * channel for channel in range(16)]
    ]


NAMED = (
    "FRACTAL_NZ→NCHW FRACTAL_NZ→ND HWCN→FRACTAL_Z HWCN→NCHW HWCN→NHWC NC1HWC0→HWCN "
    "NC1HWC0→NCHW NC1HWC0→NHWC NCHW→FRACTAL_Z NCHW→NHWC "
    "NHWC→FRACTAL_Z NHWC→HWCN NHWC→NCHW FRACTAL_NZ→NHWC FRACTAL_Z→HWCN FRACTAL_Z→NCHW "
    "NDC1HWC0→NCDHW NDC1HWC0→ND"
).split()


@pytest.mark.parametrize("name", NAMED)
def test_conversions_that_the_page_names_are_possible(name):
    source, target = name.split("→")
    letters = "NCDHW" if source == "NDC1HWC0" else "NCHW"
    dims = {"N": 3, "C": 35, "D": 2, "H": 4, "W": 5}
    plain = {letter: dims[letter] for letter in letters}
    array = numbered(tuple(plain.values()))
    wanted = (
        array
        if target == "ND" or set(target) - set(letters)
        else transposed(array, letters, target)
    )
    if source == "FRACTAL_NZ":
        given_array = convert(wanted, "ND", source, wanted.shape)
    elif set(source) - set(letters):
        given_array = convert(array, letters, source, array.shape)
    else:
        given_array = transposed(array, letters, source)
    if target == "FRACTAL_Z":
        wanted = slow_pack(array, "NCHW", "FRACTAL_Z", 16, 3 * 4 * 5 * 256).reshape(60, 1, 16, 16)
    got = convert(given_array.reshape(-1), source, target, given_array.shape, wanted.shape)
    np.testing.assert_array_equal(got, wanted)


def test_each_plain_layout_converts_to_each_other():
    array = numbered((2, 3, 4, 5))
    for one, other in itertools.product(["NCHW", "NHWC", "HWCN", "CHWN", "ND"], repeat=2):
        if "ND" in (one, other):
            continue
        left, right = transposed(array, "NCHW", one), transposed(array, "NCHW", other)
        np.testing.assert_array_equal(convert(left, one, other, left.shape), right)
    np.testing.assert_array_equal(convert(array, "ND", "NCHW", array.shape), array)
    np.testing.assert_array_equal(convert(array, "NHWC", "ND", array.shape), array)


def test_device_layouts_convert_to_each_other_and_keep_padding():
    array = numbered((20, 35, 3, 3))
    five = convert(array, "NCHW", "NC1HWC0", array.shape)
    assert convert(five, "NC1HWC0", "NCHW", five.shape).shape == (20, 48, 3, 3)
    filter_ = convert(five, "NC1HWC0", "FRACTAL_Z", five.shape)
    np.testing.assert_array_equal(filter_, convert(array, "NCHW", "FRACTAL_Z", array.shape))
    back = convert(filter_, "FRACTAL_Z", "NC1HWC0", filter_.shape, five.shape)
    np.testing.assert_array_equal(back, five)


def test_a_fully_connected_matrix_of_four_dims_is_packed_flat():
    array = numbered((3, 5, 2, 2))
    stored = convert(array, "NCHW", "FRACTAL_NZ", array.shape, (2, 1, 16, 16))
    np.testing.assert_array_equal(
        stored.reshape(-1), slow_pack(array.reshape(3, 20), None, "FRACTAL_NZ", 16, stored.size)
    )
    np.testing.assert_array_equal(
        convert(stored, "FRACTAL_NZ", "NCHW", stored.shape, array.shape), array
    )


def test_a_fractal_nz_matrix_keeps_leading_dims_of_one():
    array = np.arange(33 * 50, dtype=np.float16).reshape(1, 1, 33, 50)
    stored = convert(array, "NCHW", "FRACTAL_NZ", array.shape, (4, 3, 16, 16))
    np.testing.assert_array_equal(stored, convert(array[0, 0], "ND", "FRACTAL_NZ", (33, 50)))
    np.testing.assert_array_equal(
        convert(stored, "FRACTAL_NZ", "NCHW", stored.shape, array.shape), array
    )


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (("FRACTAL_NZ", "ND", (1, 1, 16, 16)), UsageError, "does not tell the shape"),
        (("FRACTAL_Z", "NCHW", (1, 1, 16, 16)), UsageError, "does not tell the shape"),
        (
            ("FRACTAL_ZN_LSTM", "NCHW", (1, 1, 16, 16)),
            UsageError,
            "FRACTAL_ZN_LSTM is not supported",
        ),
        (("NC1HWC0", "NCHW", (1, 1, 16, 16)), FormatError, "needs 5 dims"),
        (("NC1HWC0", "NCHW", (1, 1, 1, 16, 16), (1, 17, 1, 16)), FormatError, "cannot be laid out"),
        (("NC1HWC0", "NCDHW", (1, 1, 1, 16, 16)), UsageError, "there is no conversion"),
        (("NCHW", "NHWC", (1, 2, 3, 4)), FormatError, "the array 256"),
        (("NCHW", "NHWC", (1, 4, 8, 8), (1, 4, 8, 8)), FormatError, "cannot be laid out"),
    ],
)
def test_impossible_conversions_are_refused_with_the_reason(arguments, error, text):
    with pytest.raises(error, match=text):
        convert(np.zeros(256), *arguments)


def test_the_plain_shape_of_a_stored_tensor_is_derived():
    assert plain_shape("NC1HWC0", (1, 4, 56, 56, 16)) == (1, 64, 56, 56)
    assert plain_shape("FRACTAL_NZ", (2, 3, 1, 16, 16)) == (2, 16, 48)
    assert plain_shape("NHWC", (1, 2, 3, 4)) == (1, 2, 3, 4) and plain_shape("ND", ()) == ()
    assert (
        plain_shape("FRACTAL_Z", (9, 1, 16, 16)) is None
        and plain_shape("unknown(77)", (9,)) is None
    )
    assert device_shape("NC1HWC0", (1, 100, 3, 3), dtype=dtype_by_code(28)) == (1, 2, 3, 3, 64)
    with pytest.raises(UsageError):
        device_shape("NC1HWC0", (1, 2, 3))
