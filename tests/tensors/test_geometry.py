from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import NotComparable
from goldwatch.tensors import geometry, storage_layouts
from goldwatch.tensors.aligned_blocks import aligned_blocks, match_layouts, match_stored
from goldwatch.tensors.dtypes import dtype_by_code
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.storage_layouts import FORMATS
from goldwatch.tensors.strided_boxes import boxes
from goldwatch.tensors.tensor import MemorySource, Tensor


class NoBytes:
    nbytes = 1 << 60

    def read(self, offset, nbytes):
        raise AssertionError("no byte is needed to match shapes")


def stored(format, shape, sub_format=0, original_shape=None):
    return Tensor(dtype_by_code(2), tuple(shape), format, NoBytes(), sub_format, original_shape)


def match(format, shape, golden, origin_format=None, origin_shape=None, **more):
    golden_format = more.pop("golden_format", None)
    geometry = match_layouts(
        stored(format, shape, **more), golden, origin_format, origin_shape, golden_format
    )
    assert geometry.shape == tuple(golden) and geometry.count == int(np.prod(golden))
    assert pickle.loads(pickle.dumps(geometry)) == geometry
    return geometry


def reading(geometry):
    return "".join(geometry.letters)


def test_the_origin_format_decides_where_shapes_are_ambiguous():
    for format in ("NCHW", "NHWC", "HWCN"):
        geometry = match("NC1HWC0", (16, 1, 16, 16, 16), (16, 16, 16, 16), format)
        assert reading(geometry) == format and not geometry.notes
    geometry = match("NC1HWC0", (16, 1, 16, 16, 16), (16, 16, 16, 16))
    assert reading(geometry) == "NCHW" and geometry.notes == (
        "the golden's layout is ambiguous from its shape, taken as NCHW",
    )
    assert reading(match("NHWC", (1, 8, 8, 8), (1, 8, 8, 8), "NCHW")) == "NCHW"
    assert reading(match("NHWC", (1, 8, 8, 8), (1, 8, 8, 8))) == "NHWC"
    assert (
        reading(match("NHWC", (1, 8, 8, 8), (1, 8, 8, 8), "NHWC", golden_format="NCHW")) == "NCHW"
    )


def test_the_shape_decides_where_the_origin_format_does_not_fit():
    geometry = match("NC1HWC0", (1, 4, 56, 56, 16), (1, 56, 56, 64), "NCHW", (1, 64, 56, 56))
    assert reading(geometry) == "NHWC" and geometry.notes == (
        "golden is NHWC, the origin format NCHW",
    )
    assert reading(match("NC1HWC0", (1, 4, 56, 28, 16), (1, 61, 56, 28))) == "NCHW"
    assert reading(match("NC1HWC0", (1, 4, 56, 28, 16), (56, 28, 61, 1))) == "HWCN"
    assert reading(match("ND", (1, 56, 28, 3), (1, 3, 56, 28), "NHWC")) == "NCHW"
    assert reading(match("NDC1HWC0", (2, 3, 1, 4, 5, 16), (2, 3, 4, 5, 7), "NDHWC")) == "NDHWC"
    assert reading(match("CHWN", (3, 4, 5, 6), (3, 4, 5, 6))) == "CHWN"


@pytest.mark.parametrize(
    "format, shape, golden, origin_format, origin_shape",
    [
        ("ND", (1, 23, 1, 100), (1, 23, 100), None, None),
        ("NCHW", (1, 23, 1, 100), (1, 23, 100), "NCHW", (1, 23, 1, 100)),
        ("NC1HWC0", (1, 2, 1, 100, 16), (1, 23, 100), "NCHW", (1, 23, 1, 100)),
        ("NC1HWC0", (1, 2, 1, 100, 16), (1, 23, 100), "NCHW", None),
        ("NC1HWC0", (1, 63, 1, 1, 16), (1, 1000), "NCHW", (1, 1000, 1, 1)),
        ("NC1HWC0", (1, 63, 1, 1, 16), (1, 1000), None, None),
        ("FRACTAL_NZ", (63, 1, 16, 16), (1, 1000, 1, 1), "NCHW", (1, 1000, 1, 1)),
        ("FRACTAL_NZ", (63, 1, 16, 16), (1, 1000, 1, 1), "ND", (1, 1000)),
        ("FRACTAL_NZ", (63, 1, 16, 16), (1000,), "ND", (1, 1000)),
        ("ND", (), (1,), None, None),
        ("ND", (1, 1), (), None, None),
        ("ND", (1, 1000), (1, 1000, 1, 1), "NCHW", (1, 1000, 1, 1)),
        ("NCHW", (1, 1000), (1000,), None, None),
    ],
)
def test_dims_of_size_1_may_be_squeezed_and_are_noted(
    format, shape, golden, origin_format, origin_shape
):
    squeezed, *rest = match(format, shape, golden, origin_format, origin_shape).notes
    assert "size-1 dims differ: target [" in squeezed and squeezed.endswith(
        "golden %s" % list(golden)
    )
    assert [note.startswith("no origin shape: C ") for note in rest] == (
        [True] if format == "NC1HWC0" and origin_shape is None else []
    )


@pytest.mark.parametrize(
    "format, shape, golden, note",
    [
        ("NC1HWC0", (2, 2, 3, 5, 16), (2, 17, 3, 5), "C 17 of 32 as in the golden"),
        ("FRACTAL_NZ", (3, 2, 16, 16), (20, 35), "dim 0 20 of 32, dim 1 35 of 48 as in the golden"),
        ("FRACTAL_NZ", (3, 2, 16, 16), (32, 48), None),
    ],
)
def test_a_note_says_where_only_the_golden_tells_what_is_padding(format, shape, golden, note):
    notes = match(format, shape, golden).notes
    assert [note for note in notes if "taken as padding" in note] == (
        ["no origin shape: %s, the rest taken as padding" % note] if note else []
    )
    assert match(format, shape, golden, original_shape=golden).notes == ()


@pytest.mark.parametrize(
    "format, shape, golden, origin_format, origin_shape, parts",
    [
        (
            "NC1HWC0",
            (1, 4, 56, 56, 16),
            (200704,),
            "NCHW",
            (1, 64, 56, 56),
            ["56, 56, 16]", "[1, 64, 56, 56]", "[200704]", "same number"],
        ),
        (
            "NC1HWC0",
            (1, 4, 56, 56, 16),
            (1, 64, 55, 56),
            "NCHW",
            None,
            ["56, 56, 16]", "[1, 64, 56, 56] with padding", "[1, 64, 55, 56]"],
        ),
        ("NC1HWC0", (1, 4, 56, 56, 16), (1, 48, 56, 56), "NCHW", None, ["[1, 48, 56, 56]"]),
        (
            "NC1HWC0",
            (1, 4, 56, 56, 16),
            (1, 63, 56, 56),
            "NCHW",
            (1, 64, 56, 56),
            ["laid out NCHW [1, 64, 56, 56]", "[1, 63, 56, 56]"],
        ),
        (
            "ND",
            (2, 3, 4),
            (24,),
            None,
            None,
            ["target ND [2, 3, 4], golden [24]", "same number of elements in another shape"],
        ),
        ("ND", (2, 3, 4), (2, 4, 3), None, None, ["[2, 3, 4]", "[2, 4, 3]"]),
        ("ND", (2, 3), (3, 3), None, None, ["[2, 3]", "[3, 3]"]),
        (
            "FRACTAL_NZ",
            (3, 2, 16, 16),
            (32, 32),
            None,
            None,
            ["[3, 2, 16, 16]", "[32, 48] with padding", "[32, 32]"],
        ),
        ("FRACTAL_NZ", (3, 2, 16, 16), (33, 48), None, None, ["[33, 48]"]),
        ("FRACTAL_NZ", (2, 3, 2, 16, 16), (3, 20, 40), None, None, ["[3, 20, 40]"]),
        ("FRACTAL_NZ", (1, 1, 16, 16), (5,), None, None, ["ambiguous", "[5]"]),
        ("FRACTAL_NZ", (2, 1, 16, 16), (3, 5, 2, 2), None, None, ["[3, 5, 2, 2]"]),
        (
            "FRACTAL_Z",
            (9, 1, 16, 16),
            (5, 7, 1, 3),
            "NCHW",
            None,
            ["FRACTAL_Z [9, 1, 16, 16]", "[5, 7, 1, 3]"],
        ),
        ("NC1HWC0", (1, 4, 56, 16), (1, 4, 56, 16), None, None, ["needs 5 dims"]),
        ("FRACTAL_ZN_LSTM", (1, 4), (1, 4), None, None, ["FRACTAL_ZN_LSTM", "not supported"]),
        ("unknown(77)", (1, 4), (1, 4), None, None, ["unknown(77)", "[1, 4]"]),
        ("ND", (0, 3), (3, 1), None, None, ["[0, 3]"]),
    ],
)
def test_shapes_that_do_not_fit_are_refused_with_both_shapes(
    format, shape, golden, origin_format, origin_shape, parts
):
    with pytest.raises(NotComparable) as caught:
        match(format, shape, golden, origin_format, origin_shape)
    for part in parts:
        assert part in str(caught.value)


def test_the_origin_shape_is_used_before_guesses():
    assert match("FRACTAL_NZ", (1, 1, 16, 16), (5,), "ND", (1, 5)).sizes == (1, 5)
    assert match("FRACTAL_NZ", (1, 1, 16, 16), (5,), original_shape=(5, 1)).sizes == (5, 1)
    assert match("NC1HWC0", (1, 4, 8, 8, 16), (1, 61, 8, 8), "NCHW", (-1, 61, 8, 8)).sizes == (
        1,
        61,
        8,
        8,
    )
    geometry = match("NC1HWC0", (1, 4, 8, 8, 16), (1, 61, 8, 8), "NCHW", (4, 61, 8, 8))
    assert (
        geometry.notes[0]
        == "origin shape [4, 61, 8, 8] does not fit NC1HWC0 [1, 4, 8, 8, 16] and was not used"
    )
    assert geometry.notes[1:] == (
        "no origin shape: C 61 of 64 as in the golden, the rest taken as padding",
    )


def test_a_small_vector_that_was_pooled_and_flattened_is_a_row_or_what_its_dump_says():
    stored = ("FRACTAL_NZ", (1, 1, 16, 16), (1, 6, 1, 1), "NCHW", (1, 6, 1, 1))
    assert match(*stored).sizes == (1, 6)
    assert match(*stored, original_shape=(1, 6)).sizes == (1, 6)
    assert match(*stored, original_shape=(6, 1)).sizes == (6, 1)


def test_a_flattened_input_of_a_fully_connected_layer_matches_its_golden():
    geometry = match("FRACTAL_NZ", (2, 1, 16, 16), (3, 5, 2, 2), "NCHW", (3, 5, 2, 2))
    assert geometry.sizes == (3, 20) and "flattened" in geometry.notes[0]
    array = np.arange(60, dtype=np.float16).reshape(3, 5, 2, 2)
    data = convert(array, "NCHW", "FRACTAL_NZ", array.shape, (2, 1, 16, 16))
    target = Tensor(dtype_by_code(2), data.shape, "FRACTAL_NZ", MemorySource(data))
    pairs = list(aligned_blocks(target, Tensor.from_array(array), geometry))
    assert all(np.array_equal(x, y) for x, y in pairs) and sum(x.size for x, _ in pairs) == 60


UNSUPPORTED = frozenset(
    "NC1C0HWPAD FSR_NCHW FRACTAL_DECONV FRACTAL_DECONV_TRANSPOSE FRACTAL_DECONV_SP_STRIDE_TRANS "
    "FRACTAL_Z_C04 DECONV_SP_STRIDE8_TRANS NC1KHKWHWC0 BN_WEIGHT FILTER_HWCK LOOKUP_LOOKUPS "
    "LOOKUP_KEYS LOOKUP_VALUE LOOKUP_OUTPUT LOOKUP_HITS C1HWNCoC0 FRACTAL_ZZ "
    "FRACTAL_Z_3D_TRANSPOSE FRACTAL_ZN_LSTM FRACTAL_Z_G ND_RNN_BIAS FRACTAL_ZN_RNN YUV YUV_A "
    "FRACTAL_Z_WINO C1HWC0".split()
)


@pytest.mark.parametrize("name", sorted(set(FORMATS.values()) - UNSUPPORTED))
def test_a_supported_layout_of_another_shape_is_refused_by_its_shape(name):
    ranks = {"FRACTAL_NZ": 4, **{name: len(name) for name in storage_layouts._LETTERED}}
    ranks.update((name, len(sizes)) for name, (_, sizes) in storage_layouts._SPLIT.items())
    shape = (16,) * ranks.get(name, 2)
    with pytest.raises(NotComparable, match="differs in shape"):
        match(name, shape, (3, 5, 7), None)


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_an_unsupported_layout_is_not_compared_and_named(name):
    with pytest.raises(NotComparable, match="target layout %s .* is not supported" % name):
        match(name, (16,) * 6, (3, 5, 7), None)


def test_a_layout_whose_plain_orders_are_unknown_is_unsupported(monkeypatch):
    monkeypatch.setattr(geometry, "_FAMILIES", ())
    with pytest.raises(NotComparable, match="target layout NC1HWC0 .* is not supported"):
        match("NC1HWC0", (1, 1, 2, 2, 16), (11, 13, 17), None)


def test_groups_come_from_the_sub_format():
    assert (
        match("FRACTAL_Z", (18, 1, 16, 16), (32, 1, 3, 3), "NCHW", sub_format=32).layout.groups
        == 32
    )
    assert (
        match("FRACTAL_Z", (9, 2, 16, 16), (32, 1, 3, 3), "NCHW", sub_format=1).layout.groups == 1
    )
    with pytest.raises(NotComparable):
        match("FRACTAL_Z", (18, 1, 16, 16), (32, 1, 3, 3), "NCHW")


def test_groups_that_do_not_divide_the_filter_are_refused():
    with pytest.raises(NotComparable):
        match("FRACTAL_Z", (18, 1, 16, 16), (33, 1, 3, 3), "NCHW", sub_format=32)
    with pytest.raises(NotComparable):
        match("FRACTAL_Z", (0, 0, 16, 16), (0, 1, 3, 3), "NCHW", sub_format=3000000)


def test_stored_tensors_are_compared_with_their_padding():
    one = Tensor.from_array(np.zeros((1, 2, 3, 4, 16)), "NC1HWC0")
    assert match_stored(one, one).count == 1 * 2 * 3 * 4 * 16
    with pytest.raises(
        NotComparable, match=r"NC1HWC0 \[1, 2, 3, 4, 16\] against ND \[1, 2, 3, 4, 16\]"
    ):
        match_stored(one, Tensor.from_array(np.zeros((1, 2, 3, 4, 16))))


shapes = st.lists(st.integers(0, 33) | st.sampled_from([1, 16, 32, 1 << 40]), max_size=6).map(tuple)
formats = st.sampled_from(sorted(FORMATS.values()) + ["unknown(77)"])


@settings(max_examples=300, deadline=None)
@given(
    formats,
    shapes,
    shapes,
    st.none() | formats,
    st.none() | shapes,
    st.none() | shapes,
    st.integers(0, 5),
)
def test_any_header_gives_a_geometry_within_its_bounds_or_a_reason(
    format, shape, golden, origin_format, origin, original, sub_format
):
    target = stored(format, shape, sub_format, original)
    for wanted in (golden, shape, origin or golden):
        try:
            geometry = match_layouts(target, wanted, origin_format, origin)
        except NotComparable as error:
            assert str(list(shape)) in str(error)
            continue
        total = 0
        for box in boxes(geometry):
            reach = [(size - 1) * stride for size, stride in zip(box.sizes, box.target_strides)]
            assert box.target_start >= 0 and box.target_start + sum(reach) < target.count
            reach = [(size - 1) * stride for size, stride in zip(box.sizes, box.golden_strides)]
            assert box.golden_start >= 0 and box.golden_start + sum(reach) < geometry.count
            total += int(np.prod(box.sizes, dtype=object))
        assert total == geometry.count == int(np.prod(wanted, dtype=object))


def test_a_geometry_is_refused_for_another_golden():
    target = Tensor.from_array(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"golden \[2, 3\], got \[3, 2\]"):
        list(
            aligned_blocks(
                target, Tensor.from_array(np.zeros((3, 2))), match_layouts(target, (2, 3))
            )
        )
