"""Joined slices give the bytes of the whole tensor, for any part that is read."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import NotComparable
from goldwatch.dumps import DumpFile, TensorData, write_dump
from goldwatch.dumps.slices import JoinedDump, join
from goldwatch.tensors.tensor import MemorySource


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_window_of_joined_slices_equals_the_whole_tensor(data):
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    whole = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    spans = []
    for size in shape:
        cuts = sorted({0, size, *data.draw(st.lists(st.integers(1, size), max_size=2))})
        halo = data.draw(st.integers(0, 1))
        spans.append([(max(0, low - halo), high) for low, high in zip(cuts, cuts[1:])])
    parts = [
        (place, MemorySource(whole[tuple(slice(*span) for span in place)].copy()))
        for place in itertools.product(*spans)
    ]
    source = join(data.draw(st.permutations(parts)), shape, 2)
    bytes_ = whole.reshape(-1).view(np.uint8)
    start = data.draw(st.integers(0, bytes_.size))
    stop = data.draw(st.integers(start, bytes_.size))
    assert source.nbytes == bytes_.size
    assert np.array_equal(source.read(start, stop - start), bytes_[start:stop])


def told(ranges, count=None):
    """The header's attribute for outputs cut along axis 0."""
    side = [[[{"lower": low, "higher": high}, {"lower": 0, "higher": 3}]] for low, high in ranges]
    document = {
        "slice_instance_num": count or len(ranges),
        "threadMode": True,
        "outputCutList": [[len(ranges), 1]],
    }
    return (
        (
            "slice_info",
            json.dumps({**document, "input_tensor_slice": [], "output_tensor_slice": side}),
        ),
    )


def joined(tmp_path, ranges, attrs, whole=None):
    whole = np.arange(18, dtype=np.float32).reshape(6, 3) if whole is None else whole
    files = {}
    for number, (low, high) in enumerate(ranges):
        path = str(tmp_path / ("Add.a.1.2.1600000000000000.4.5.%d" % number))
        write_dump(path, [], [TensorData(whole[low:high].copy(), format="ND")], attrs=attrs)
        files[number] = DumpFile.open(path)
    return JoinedDump(files), whole


def test_rows_held_by_several_slices_count_once(tmp_path):
    ranges = [(0, 4), (2, 6)]
    dump, whole = joined(tmp_path, ranges, told(ranges))
    assert np.array_equal(dump.tensor("output", 0).array(), whole)
    assert dump.info("output", 0).shape == (6, 3)


def test_a_tensor_that_every_slice_holds_is_taken_once(tmp_path):
    ranges = [(0, 6), (0, 6)]
    dump, whole = joined(tmp_path, ranges, told(ranges))
    assert np.array_equal(dump.tensor("output", 0).array(), whole)


def without(attrs, *keys):
    document = json.loads(attrs[0][1])
    return (("x", json.dumps({key: value for key, value in document.items() if key not in keys})),)


@pytest.mark.parametrize(
    "keys",
    [
        ("input_tensor_slice",),
        ("output_tensor_slice", "threadMode"),
        ("input_tensor_slice", "output_tensor_slice"),
    ],
)
def test_slices_are_joined_without_notes_of_inputs_or_places(tmp_path, keys):
    """Without the places, the pieces lie behind each other along the axis that is cut."""
    ranges = [(0, 2), (2, 5), (5, 6)]
    dump, whole = joined(tmp_path, ranges, without(told(ranges), *keys))
    assert np.array_equal(dump.tensor("output", 0).array(), whole)


@pytest.mark.parametrize(
    ("ranges", "attrs", "said"),
    [
        ([(0, 2), (2, 6)], told([(0, 2), (3, 6)]), "needs|gap"),
        ([(0, 2), (2, 6)], told([(0, 2), (2, 5)]), "needs"),
        ([(0, 2), (2, 6)], (), "does not tell"),
        ([(0, 2), (2, 6)], (("x", "{broken"),), "does not tell"),
        ([(0, 2), (2, 6)], told([(0, 2), (2, 6)], 3), "of 3 slices, 2 is not there"),
        ([(0, 2), (2, 6)], (("x", told([(0, 2)], 2)[0][1]),), "fewer slices"),
        ([(0, 2), (2, 6)], without(told([(0, 2)], 2), "output_tensor_slice"),
        "into .1, 1. pieces|needs|do not fill"),
    ],
)  # fmt: skip
def test_slices_that_cannot_be_joined_are_refused_with_the_reason(tmp_path, ranges, attrs, said):
    dump, _ = joined(tmp_path, ranges, attrs)
    with pytest.raises(NotComparable, match="cannot be joined: .*(%s)" % said):
        dump.tensor("output", 0)
