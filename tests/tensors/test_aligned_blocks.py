from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import FormatError, NotComparable
from goldwatch.tensors import aligned_blocks as module
from goldwatch.tensors.aligned_blocks import aligned_blocks, match_layouts, placed_blocks
from goldwatch.tensors.dtypes import dtype_by_code, dtype_by_numpy
from goldwatch.tensors.storage_layouts import device_shape
from goldwatch.tensors.tensor import MemorySource, Tensor

from .conftest import slow_pack

INT32 = dtype_by_code(7)


@pytest.fixture(autouse=True, params=["usual", "tiny"])
def windows(request, monkeypatch):
    """Every test also runs with windows so small that slabs, gaps and gathered reads occur."""
    module._slab.cache_clear()
    if request.param == "tiny":
        monkeypatch.setattr(module, "SMALL_BYTES", 128)
        monkeypatch.setattr(module, "SLAB_BYTES", 2048)
        monkeypatch.setattr(module, "_GAP_BYTES", 24)
        monkeypatch.setattr(module, "_RUN", 8)
        monkeypatch.setattr(module, "_WHOLE_BYTES", 1024)
    yield request.param
    module._slab.cache_clear()


def collect(target, golden, geometry, max_elements, parts=1):
    """Return all elements of both sides in the order of the blocks, after checking the blocks'
    form.
    """
    left, right = [], []
    for number in range(parts):
        singly = placed_blocks(target, golden, geometry, max_elements, (number, parts), few=True)
        for x, y in aligned_blocks(target, golden, geometry, max_elements, (number, parts)):
            assert x.shape == y.shape and 0 < x.size <= max_elements
            alone = next(singly)
            # As bytes: NaN is no equal of itself, and there are thousands of blocks.
            assert alone.x.shape == x.shape and alone.x.tobytes() == x.tobytes()
            assert alone.y.shape == y.shape and alone.y.tobytes() == y.tobytes()
            left.append(np.array(x).ravel())
            right.append(np.array(y).ravel())
        assert next(singly, None) is None
    return (np.concatenate(left), np.concatenate(right)) if left else (np.empty(0), np.empty(0))


def check(device, shape, plain, letters, max_elements, parts, groups=1):
    """Number the elements, pack them slowly with garbage in the padding, and expect each number
    once, the same on both sides.
    """
    array = np.arange(1, 1 + int(np.prod(shape)), dtype=np.int32).reshape(shape)
    stored_shape = device_shape(
        device, shape, "NCHW" if len(shape) == 4 else "NCDHW", INT32, groups
    )
    data = slow_pack(array, letters, device, 16, int(np.prod(stored_shape)), groups, filler=-77)
    if letters and plain != "ND":
        array = np.ascontiguousarray(array.transpose([letters.index(letter) for letter in plain]))
    target = Tensor(INT32, stored_shape, device, MemorySource(data), groups)
    golden = Tensor.from_array(array)
    geometry = match_layouts(target, array.shape, plain, array.shape)
    left, right = collect(target, golden, geometry, max_elements, parts)
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(np.sort(right), np.sort(array.ravel()))


small = st.integers(1, 6)
channels = st.integers(1, 40)
pieces = {"max_elements": st.sampled_from([5, 64, 1000, 32768]), "parts": st.integers(1, 5)}


@pytest.mark.parametrize("device", ["NC1HWC0", "FRACTAL_Z", "C1HWNC0"])
@pytest.mark.parametrize("plain", ["NCHW", "NHWC", "HWCN"])
@settings(max_examples=12, deadline=None)
@given(dims=st.tuples(channels, channels, small, small), **pieces)
def test_blocks_of_filters_and_feature_maps_pair_the_right_elements(
    device, plain, dims, max_elements, parts
):
    check(device, dims, plain, "NCHW", max_elements, parts)


@pytest.mark.parametrize("plain", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("device", ["NDC1HWC0", "FRACTAL_Z_3D"])
@settings(max_examples=10, deadline=None)
@given(dims=st.tuples(st.integers(1, 18), channels, small, st.integers(1, 3), small), **pieces)
def test_blocks_of_five_dims_pair_the_right_elements(device, plain, dims, max_elements, parts):
    check(device, dims, plain, "NCDHW", max_elements, parts)


@settings(max_examples=40, deadline=None)
@given(
    lead=st.lists(st.integers(1, 3), max_size=2),
    m=st.integers(1, 50),
    k=st.integers(1, 50),
    **pieces,
)
def test_blocks_of_fractal_nz_matrices_pair_the_right_elements(lead, m, k, max_elements, parts):
    check("FRACTAL_NZ", tuple(lead) + (m, k), "ND", None, max_elements, parts)


@settings(max_examples=40, deadline=None)
@given(
    groups=st.integers(2, 20),
    cout=st.integers(1, 20),
    cin=st.integers(1, 20),
    size=st.tuples(small, st.integers(1, 2)),
    **pieces,
)
@pytest.mark.parametrize("plain", ["NCHW", "HWCN"])
def test_blocks_of_grouped_filters_pair_the_right_elements(
    plain, groups, cout, cin, size, max_elements, parts
):
    check("FRACTAL_Z", (groups * cout, cin) + size, plain, "NCHW", max_elements, parts, groups)


@pytest.mark.parametrize("plain", ["NCHW", "NHWC", "HWCN", "CHWN"])
@pytest.mark.parametrize("stored", ["NCHW", "NHWC", "HWCN", "CHWN"])
@settings(max_examples=8, deadline=None)
@given(dims=st.tuples(small, channels, small, small), **pieces)
def test_blocks_of_plain_layouts_pair_the_right_elements(stored, plain, dims, max_elements, parts):
    array = np.arange(int(np.prod(dims)), dtype=np.int32).reshape(dims)
    one, other = (
        np.ascontiguousarray(array.transpose(["NCHW".index(letter) for letter in order]))
        for order in (stored, plain)
    )
    target, golden = Tensor.from_array(one, stored), Tensor.from_array(other)
    left, right = collect(
        target, golden, match_layouts(target, golden.shape, plain, other.shape), max_elements, parts
    )
    np.testing.assert_array_equal(left, right)
    assert sorted(right.tolist()) == list(range(array.size))


@pytest.mark.parametrize("code", [28, 29, 30, 27, 33, 11, 32, 2])
def test_blocks_of_every_element_type_pair_the_right_elements(code):
    """The blocks of a tensor of any type hold what decoding the whole and converting it give."""
    dtype = dtype_by_code(code)
    shape, plain = (2, 3, 5, 7, 16), (2, 40, 5, 7)
    count = int(np.prod(shape))
    raw = np.random.RandomState(5).randint(0, 256, (count * dtype.bits + 7) // 8).astype(np.uint8)
    target = Tensor(dtype, shape, "NC1HWC0", MemorySource(raw))
    golden = Tensor.from_array(np.arange(int(np.prod(plain)), dtype=np.int32).reshape(plain))
    left, right = collect(target, golden, match_layouts(target, plain, "NCHW", plain), 500)
    logical = target.array().transpose(0, 1, 4, 2, 3).reshape(2, 48, 5, 7)[:, :40].ravel()
    assert (
        left.tobytes() == logical[right].tobytes()
        and left.dtype == logical.dtype
        and left.size == golden.count
    )


def test_packed_golden_values_read_in_odd_windows_are_right():
    dtype = dtype_by_code(28)
    raw = np.random.RandomState(6).randint(0, 256, 158).astype(np.uint8)
    golden = Tensor(dtype, (3, 5, 3, 7), "NCHW", MemorySource(raw))
    values = golden.array()
    target = Tensor.from_array(np.ascontiguousarray(values.transpose(0, 2, 3, 1)), "NHWC")
    left, right = collect(target, golden, match_layouts(target, golden.shape, "NCHW"), 50, 3)
    np.testing.assert_array_equal(left, right)
    assert left.size == 315


def test_native_blocks_are_views_with_long_inner_loops(windows):
    values = np.arange(64 * 56 * 56, dtype=np.float16).reshape(1, 4, 56, 56, 16)
    target, golden = (
        Tensor.from_array(values, "NC1HWC0"),
        Tensor.from_array(np.zeros((1, 64, 56, 56), np.float32)),
    )
    geometry = match_layouts(target, golden.shape, "NCHW", golden.shape)
    pairs = list(aligned_blocks(target, golden, geometry))
    assert all(x.dtype == np.float16 and y.dtype == np.float32 for x, y in pairs)
    if windows == "usual":
        assert all(np.shares_memory(x, values) for x, _ in pairs)
        assert np.mean([x.size for x, _ in pairs]) >= 16384 and all(
            x.shape[-1] >= 1000 for x, _ in pairs
        )


def test_unaligned_and_read_only_tensors_are_read():
    values = np.arange(2 * 40 * 3 * 3, dtype=np.float32).reshape(2, 40, 3, 3)
    raw = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:]
    assert not raw.flags.writeable
    golden = Tensor(dtype_by_code(1), values.shape, "ND", MemorySource(raw))
    target = Tensor.from_array(np.ascontiguousarray(values.transpose(0, 2, 3, 1)), "NHWC")
    left, right = collect(target, golden, match_layouts(target, golden.shape, "NCHW"), 100)
    np.testing.assert_array_equal(left, right)


def test_empty_tensors_and_single_numbers_give_their_blocks():
    empty = Tensor.from_array(np.zeros((0, 3), np.float32))
    none_golden = Tensor.from_array(np.zeros((1, 0, 4, 4), np.float32))
    assert list(aligned_blocks(empty, empty, match_layouts(empty, (0, 3)))) == []
    scalar = Tensor.from_array(np.float32(2))
    (pair,) = aligned_blocks(scalar, Tensor.from_array(np.array([5])), match_layouts(scalar, (1,)))
    assert pair[0].ravel().tolist() == [2] and pair[1].ravel().tolist() == [5]
    none = Tensor.from_array(np.zeros((1, 0, 4, 4, 16), np.float16), "NC1HWC0")
    assert list(aligned_blocks(none, none_golden, match_layouts(none, (1, 0, 4, 4), "NCHW"))) == []


def test_undecoded_types_and_missing_bytes_are_not_comparable():
    good = Tensor.from_array(np.zeros(8, np.float32))
    text = Tensor(dtype_by_code(13), (8,), "ND", MemorySource(np.zeros(8)))
    for pair in ((good, text), (text, good)):
        with pytest.raises(NotComparable, match="string"):
            list(aligned_blocks(pair[0], pair[1], match_layouts(good, (8,))))
    short = Tensor(
        dtype_by_code(1),
        (2, 3, 64, 64, 16),
        "NC1HWC0",
        MemorySource(np.zeros(2 * 3 * 64 * 64 * 16 - 1, np.float32)),
    )
    golden = Tensor.from_array(np.zeros((2, 64, 64, 40), np.float32))
    with pytest.raises(FormatError, match="needs 1572864 bytes, got 1572860"):
        list(aligned_blocks(short, golden, match_layouts(short, golden.shape, "NHWC")))


class Pattern:
    """A huge source without bytes of its own: zeros, with a count of what is held and read."""

    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.largest = self.total = self.reads = 0

    def read(self, offset, nbytes):
        assert offset >= 0 and offset + nbytes <= self.nbytes
        self.largest, self.total, self.reads = (
            max(self.largest, nbytes),
            self.total + nbytes,
            self.reads + 1,
        )
        return np.zeros(nbytes, np.uint8)


@pytest.mark.parametrize(
    "device, shape, plain, plain_shape",
    [
        ("ND", (51200000,), "ND", (51200000,)),
        ("NC1HWC0", (16, 4, 224, 224, 16), "NCHW", (16, 64, 224, 224)),
        ("NC1HWC0", (16, 4, 224, 224, 16), "NHWC", (16, 224, 224, 64)),
        ("NC1HWC0", (1, 1, 2048, 4096, 16), "NCHW", (1, 3, 2048, 4096)),
        ("FRACTAL_NZ", (512, 256, 16, 16), "ND", (4096, 8192)),
        ("NHWC", (4, 1024, 1024, 8), "NCHW", (4, 8, 1024, 1024)),
        ("FRACTAL_Z", (25 * 128, 256, 16, 16), "HWCN", (5, 5, 2048, 4096)),
    ],
)
@pytest.mark.parametrize("code", [2, 27])
def test_memory_and_reads_are_bounded_whatever_the_size(
    windows, device, shape, plain, plain_shape, code
):
    if windows == "tiny":
        return
    target = Tensor(
        dtype_by_code(code), shape, device, Pattern(2 * int(np.prod(shape, dtype=np.int64)))
    )
    golden = Tensor(
        dtype_by_code(1), plain_shape, "ND", Pattern(4 * int(np.prod(plain_shape, dtype=np.int64)))
    )
    geometry = match_layouts(target, plain_shape, plain, plain_shape)
    total, parts = 0, 8
    tracemalloc.start()
    for number in range(parts):
        if number in (0, 5):  # two of eight parts: the peak is the same and the test short
            total += sum(
                x.size for x, _ in aligned_blocks(target, golden, geometry, part=(number, parts))
            )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 17 * 2**20, "peak %.1f MiB" % (peak / 2**20)
    assert 0.2 * golden.count < total < 0.3 * golden.count
    assert target.source.largest <= 8 * 2**20 and golden.source.largest <= 8 * 2**20
    assert (
        golden.source.total <= 1.1 * 4 * total
        and target.source.total < 2 * (target.count / parts * 2) * 1.2
    )
    assert golden.source.reads + target.source.reads < total / 1000


def test_pickled_tensors_give_the_same_blocks():
    values = np.arange(2 * 20 * 3 * 3, dtype=np.float32).reshape(2, 20, 3, 3)
    target = Tensor.from_array(values.transpose(0, 2, 3, 1).copy(), "NHWC")
    golden = Tensor.from_array(values)
    task = (target, golden, match_layouts(target, golden.shape, "NCHW"))
    left, right = collect(*pickle.loads(pickle.dumps(task)), max_elements=100)
    np.testing.assert_array_equal(left, right)


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.sampled_from(["NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z", "ND"]),
    st.lists(st.integers(1, 21), min_size=4, max_size=4),
    st.permutations("NCHW"),
    st.sampled_from([1, 3]),
)
def test_a_golden_in_fortran_order_gives_the_same_pairs(device, shape, plain, parts) -> None:
    letters = "" if device in ("FRACTAL_NZ", "ND") else "NCHW"
    array = np.arange(1, 1 + int(np.prod(shape)), dtype=np.int32).reshape(shape)
    stored_shape = tuple(shape) if device == "ND" else device_shape(device, shape, "NCHW", INT32)
    data = (
        array
        if device == "ND"
        else slow_pack(array, letters, device, 16, int(np.prod(stored_shape)), filler=-77)
    )
    if letters:
        plain = "".join(plain) if "".join(plain) in ("NCHW", "NHWC", "HWCN") else "NHWC"
        array = array.transpose(["NCHW".index(letter) for letter in plain])
    target = Tensor(INT32, stored_shape, device, MemorySource(data))
    golden = Tensor(INT32, array.shape, "ND", MemorySource(array.ravel(order="F")), order="F")
    geometry = match_layouts(target, array.shape, plain if letters else "ND", array.shape)
    left, right = collect(target, golden, geometry, 100, parts)
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(np.sort(left), np.arange(1, 1 + array.size))
    np.testing.assert_array_equal(golden.array(), array)


@pytest.mark.parametrize("orders", ["CF", "FC", "FF"])
def test_either_side_may_be_fortran_ordered(orders) -> None:
    array = np.arange(6 * 50 * 7, dtype=np.int32).reshape(6, 50, 7)
    sides = [
        Tensor(INT32, array.shape, "ND", MemorySource(array.ravel(order=order)), order=order)
        for order in orders
    ]
    left, right = collect(sides[0], sides[1], match_layouts(sides[0], array.shape), 64, 2)
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(np.sort(left), np.arange(array.size))


class CountingSource(MemorySource):
    """Counts the bytes that are read."""

    total = 0

    def read(self, offset, nbytes):
        self.total += nbytes
        return super().read(offset, nbytes)


@pytest.mark.parametrize(
    "shape",
    [
        (2048, 2048),
        (2, 2**21),
        (2**21, 2),
        (50000, 84),
        (84, 50000),
        (40, 3, 7, 5000),
        (64, 64, 32, 32),
    ],
)
def test_a_golden_in_fortran_order_is_read_once(shape, windows) -> None:
    if windows == "tiny":
        return
    count = int(np.prod(shape))
    target = Tensor.from_array(np.zeros(shape, np.float16))
    source = CountingSource(np.zeros(count, np.float32))
    golden = Tensor(dtype_by_code(1), shape, "ND", source, order="F")
    blocks = aligned_blocks(target, golden, match_layouts(target, shape))
    assert sum(block.size for block, _ in blocks) == count
    assert source.total <= 1.5 * 4 * count


def test_in_c_order_undoes_fortran_order() -> None:
    array = np.arange(24, dtype=">i4").reshape(2, 3, 4)
    tensor = Tensor(
        dtype_by_numpy(array.dtype),
        array.shape,
        "ND",
        MemorySource(array.ravel(order="F")),
        order="F",
    )
    plain = tensor.in_c_order()
    assert (
        plain.order == "C"
        and plain.source.read(0, 96).tobytes() == array.tobytes()
        and plain.in_c_order() is plain
    )
    np.testing.assert_array_equal(plain.elements(0, 24), array.ravel())


def test_single_block_reads_fetch_few_bytes() -> None:
    shape = (1, 48, 60, 80)
    golden = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    read = []

    class Counted(MemorySource):
        def read(self, offset, nbytes):
            read.append(nbytes)
            return super().read(offset, nbytes)

    source = Counted(slow_pack(golden, "NCHW", "NC1HWC0", 16, golden.size))
    target = Tensor(INT32, device_shape("NC1HWC0", shape, "NCHW", INT32, 1), "NC1HWC0", source)
    geometry = match_layouts(target, shape, "NCHW", shape)
    whole, singly = (
        placed_blocks(target, Tensor.from_array(golden), geometry, 1000, few=few)
        for few in (False, True)
    )
    for block, alone in zip(whole, singly):
        assert (block.start, block.strides, block.x.shape) == (
            alone.start,
            alone.strides,
            alone.x.shape,
        )
        assert int(alone.y.flat[0]) == alone.start
    del read[:]
    first = next(placed_blocks(target, Tensor.from_array(golden), geometry, 1000, few=True))
    assert first.x.nbytes <= sum(read) < 20 * first.x.nbytes < golden.nbytes
