"""Names of every generation, sanitising, hashes and mapping.csv."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base import naming
from goldwatch.base.errors import FormatError
from goldwatch.base.naming import DumpName, GoldenName


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Conv2D.conv1.3.1600000000000001", DumpName("Conv2D", "conv1", 3, 1600000000000001)),
        (
            "Conv2D.conv1.3.7.1600000000000001",
            DumpName("Conv2D", "conv1", 3, 1600000000000001, stream_id=7),
        ),
        (
            "Conv2D.conv1_lxslice2.3.7.1600000000000001.4.5.6",
            DumpName("Conv2D", "conv1_lxslice2", 3, 1600000000000001, 7, 4, 5, 6),
        ),
        (
            "Conv2D.conv1.3.7.1600000000000001.4.5.6.1",
            DumpName("Conv2D", "conv1", 3, 1600000000000001, 7, 4, 5, 6, 1),
        ),
        (
            "Conv2D.conv1.3.1600000000000001.4.5.6.1",
            DumpName("Conv2D", "conv1", 3, 1600000000000001, None, 4, 5, 6, 1),
        ),
        (
            "Conv2D.conv1.3.1600000000000001.4.5.6",
            DumpName("Conv2D", "conv1", 3, 1600000000000001, None, 4, 5, 6),
        ),
        (
            "OpDebug.Node_Opdebug.3.7.16",
            DumpName("OpDebug", "Node_Opdebug", 3, 16, stream_id=7, kind="overflow"),
        ),
        (
            "Add.a.1.2.1600000000000001.csv",
            DumpName("Add", "a", 1, 1600000000000001, stream_id=2, kind="stats"),
        ),
        ("Add.a:0.1.2.5", DumpName("Add", "a:0", 1, 5, stream_id=2)),
    ],
)
def test_dump_names_of_every_generation_are_parsed(text: str, expected: DumpName) -> None:
    assert naming.parse_dump_name(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mapping.csv",
        "conv1.0.1600000000000001.npy",
        "123456",
        "a.b",
        "a.b.c.d",
        "a.b.1.2.3.4",
        "a.b.1.2.3.4.5.6.7.8",
        ".x.1.2",
    ],
)
def test_other_files_are_not_dumps(text: str) -> None:
    assert naming.parse_dump_name(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("conv1.0.1600000000000001.npy", GoldenName("conv1", 0, 1600000000000001, "npy")),
        ("bn.1_Const.12.5.npy", GoldenName("bn.1_Const", 12, 5, "npy")),
        ("conv1.0.5.pb", GoldenName("conv1", 0, 5, "pb")),
        ("conv1.0.5.quant", GoldenName("conv1", 0, 5, "quant")),
        ("conv 1.0.5.npy", None),
        ("conv1.npy", None),
        ("conv1.0.5.npz", None),
        ("12345.npy", None),
    ],
)
def test_golden_names_are_parsed(text: str, expected: GoldenName) -> None:
    assert naming.parse_golden_name(text) == expected


def test_sanitising_differs_between_device_and_golden() -> None:
    assert naming.sanitise_device("a/b.c d\\e:f") == "a_b_c_d_e:f"
    assert naming.sanitise_golden("a/b.c d\\e:fé") == "a_b_c_d_e_f_"


WORDS = st.text("abcXYZ019_-/. ", min_size=1, max_size=20)
NUMBERS = st.integers(0, 10**17)


@given(WORDS, WORDS, NUMBERS, st.integers(10**15, 10**16 - 1), st.none() | NUMBERS)
def test_composed_names_parse_back(
    op_type: str, op_name: str, task: int, timestamp: int, stream: int
) -> None:
    name = DumpName(
        naming.sanitise_device(op_type), naming.sanitise_device(op_name), task, timestamp, stream
    )
    assert naming.parse_dump_name(naming.compose_dump_name(name)) == name


@given(WORDS, st.integers(0, 100), st.integers(0, 10**16 - 1))
def test_composed_golden_names_parse_back(op: str, index: int, timestamp: int) -> None:
    parsed = naming.parse_golden_name(naming.compose_golden_name(op, index, timestamp))
    assert parsed == GoldenName(naming.sanitise_golden(op), index, timestamp, "npy")


def test_collisions_name_every_original_once() -> None:
    assert naming.find_collisions(["a/b", "a.b", "a/b", "c"]) == {"a_b": ["a/b", "a.b"]}


def test_hash_names_are_digits_and_resolved_by_mapping(tmp_path) -> None:
    original = "x" * 300 + ".0.1600000000000001.npy"
    digits = naming.hash_digits(original)
    assert (
        digits.isdigit()
        and len(digits) <= 20
        and naming.is_hash_name(digits)
        and naming.is_hash_name(digits + ".npy")
    )
    assert not naming.fits(original) and naming.fits("x" * 255)
    path = tmp_path / "mapping.csv"
    line = naming.mapping_line(digits, original)
    path.write_text(line + line)
    assert naming.read_mapping(str(path)) == {digits: original}


@pytest.mark.parametrize("text", ["1,\n", "1\n", "1,a\n1,b\n"])
def test_a_broken_mapping_is_refused_with_its_line(tmp_path, text: str) -> None:
    path = tmp_path / "mapping.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match="line [12]"):
        naming.read_mapping(str(path))


def test_names_with_commas_are_read_raw_and_quoted(tmp_path) -> None:
    path = tmp_path / "mapping.csv"
    path.write_text("1,Add.a,b.1.2.3\n" + naming.mapping_line("2", "Add.c,d.1.2.3"))
    assert naming.read_mapping(str(path)) == {"1": "Add.a,b.1.2.3", "2": "Add.c,d.1.2.3"}


def test_a_line_still_being_written_is_not_read(tmp_path) -> None:
    path = tmp_path / "mapping.csv"
    path.write_text("1,first\n22")
    assert naming.read_mapping(str(path)) == {"1": "first"}


def test_printable_shows_escapes_instead_of_sending_them() -> None:
    assert naming.printable("a\x1b[31mb\nc\u202ed\udcff") == "a\\x1b[31mb\\x0ac\\u202ed\\xff"


def test_the_nearest_name_is_the_one_with_most_letters_in_common() -> None:
    known = ["conv1", "conv2_1", "pool1", "fc1000", "res2a/branch1"]
    assert naming.nearest_names("cnov1", known) == ["conv1"]
    assert naming.nearest_names("Res2a/Branch-1", known) == ["res2a/branch1"]
    assert naming.nearest_names("zzz", known) == []
    assert naming.nearest_names("conv", known, n=2, cutoff=0.4) == ["conv1", "conv2_1"]
    assert naming.nearest_names("", known) == [] and naming.nearest_names("conv1", []) == []


def similarity(left: str, right: str) -> float:
    """Twice the letters of the longest common subsequence by those of both."""
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            lengths[i + 1][j + 1] = (
                lengths[i][j] + 1 if a == b else max(lengths[i][j + 1], lengths[i + 1][j])
            )
    return 2.0 * lengths[-1][-1] / max(1, len(left) + len(right))


@given(
    st.lists(st.text("abc_/1", max_size=12), max_size=30),
    st.text("abc_/1", min_size=1, max_size=12),
)
def test_nearest_names_are_similar_and_never_miss_an_equal_name(known, name) -> None:
    for found in naming.nearest_names(name, known, n=5, cutoff=0.6):
        assert similarity(naming._folded(found), name) >= 0.6
    assert naming.nearest_names(name, [*known, name], cutoff=0.6)[0] == name


def test_of_30_000_names_only_a_few_are_compared_by_letter(monkeypatch) -> None:
    compared = []

    class Counting(naming.SequenceMatcher):
        def ratio(self):
            compared.append(1)
            return super().ratio()

    monkeypatch.setattr(naming, "SequenceMatcher", Counting)
    known = ["model/block_%05d/conv/weights_%d" % (number, number % 7) for number in range(30000)]
    assert naming.nearest_names("model/block_12345/cnov/weights_4", known) == [
        "model/block_12345/conv/weights_4"
    ]
    assert len(compared) <= naming._NEAREST_CANDIDATES


def test_names_of_slices_are_taken_apart() -> None:
    assert naming.whole_name("conv_lxslice3") == ("conv", 3)
    assert naming.whole_name("conv_lxslice") == ("conv_lxslice", None)
    assert naming.whole_name("a_lxslice1_lxslice2") == ("a_lxslice1", 2)
    assert DumpName("Conv2D", "conv_lxslice3", 1, 2, context_id=4, thread_id=5).slice_numbers == (
        3,
        5,
        4,
    )
    assert DumpName("Conv2D", "conv", 1, 2).slice_numbers == (None, None, None)


def test_a_free_name_is_used_only_once() -> None:
    taken = {"a", "a_2"}
    assert [naming.free_name("a", taken) for _ in range(3)] == [
        "a_1",
        "a_3",
        "a_4",
    ] and naming.free_name("b", taken) == "b"
    assert taken == {"a", "a_1", "a_2", "a_3", "a_4", "b"}


@pytest.mark.parametrize("letter", ["a", "ä", "漢", "\udcff"])
def test_long_names_are_bounded_to_255_bytes_and_stay_different(letter):
    assert naming.shortened_file_name(letter * 3, "_tail") == letter * 3 + "_tail"
    long = naming.shortened_file_name(letter * 300, "_tail")
    assert (
        len(os.fsencode(long)) <= 255
        and long.endswith("_tail")
        and long != naming.shortened_file_name(letter * 301, "_tail")
    )
