from __future__ import annotations

import ast
import io
import os
import pickle
import re
import struct
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base.errors import FormatError, MissingPath, NotComparable, TruncatedFile
from goldwatch.dumps import open_npy
from goldwatch.dumps.completeness import probe
from goldwatch.dumps.npy import parse_header


def npy_bytes(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def save(tmp_path: Any, data: bytes) -> str:
    path = str(tmp_path / "op.0.1600000000000000.npy")
    with open(path, "wb") as stream:
        stream.write(data)
    return path


def with_header(text: str, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("utf-8") + data


TYPES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 c8 c16".split()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("dtype", TYPES + ["?"])
def test_npy_files_of_every_type_and_order_are_read(
    tmp_path: Any, dtype: str, byte_order: str, order: str
) -> None:
    array = np.asarray(
        (np.arange(60) % 7).reshape(3, 4, 5),
        np.dtype(dtype if dtype == "?" else byte_order + dtype),
        order=order,
    )
    tensor = open_npy(save(tmp_path, npy_bytes(array)))
    assert (tensor.shape, tensor.format, tensor.dtype.name) == (
        (3, 4, 5),
        "ND",
        array.dtype.newbyteorder("=").name,
    )
    assert np.array_equal(tensor.array(), array)
    assert np.array_equal(tensor.elements(7, 41), array.ravel(order)[7:41])
    assert np.array_equal(pickle.loads(pickle.dumps(tensor)).array(), array)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 0, 4), (1, 1, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_scalars_and_empty_npy_arrays_are_read(tmp_path: Any, shape: Any, order: str) -> None:
    array = np.ones(shape, np.float32, order=order)
    tensor = open_npy(save(tmp_path, npy_bytes(array)))
    assert tensor.shape == shape and np.array_equal(tensor.array(), array)


def test_two_byte_void_is_read_as_bfloat16(tmp_path: Any) -> None:
    values = np.array([1.0, -2.0, 0.5], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    tensor = open_npy(save(tmp_path, npy_bytes(bits.view("V2"))))
    assert tensor.dtype.name == "bfloat16" and np.array_equal(tensor.array(), values)


def test_the_bfloat16_of_mindspore_is_read(tmp_path: Any) -> None:
    values = np.array([1, -2, 0.5, 3e38], np.float32)
    bits = (values.view(np.uint32) >> 16).astype("<u2")
    text = "{'descr': '<E2', 'fortran_order': False, 'shape': (4,), }\n"
    tensor = open_npy(save(tmp_path, with_header(text, bits.tobytes())))
    expected = (bits.astype(np.uint32) << 16).view(np.float32)
    assert tensor.dtype.name == "bfloat16" and np.array_equal(tensor.array(), expected)


@pytest.mark.parametrize("array", [None, [None, None]])
def test_none_is_no_tensor_and_no_damage(tmp_path: Any, array: Any) -> None:
    path = save(tmp_path, npy_bytes(np.array(array), allow_pickle=True))
    with pytest.raises(FormatError, match=r"no tensor \(None\)"):
        open_npy(path)
    assert probe(path).state == "complete"


@pytest.mark.parametrize(
    "array", [np.array(7, object), np.array([None, 1]), np.array([[], None], object)]
)
def test_other_objects_are_no_none(tmp_path: Any, array: Any) -> None:
    path = save(tmp_path, npy_bytes(array, allow_pickle=True))
    with pytest.raises(FormatError, match="pickled Python objects, which are never loaded"):
        open_npy(path)


def test_text_in_place_of_a_list_with_none_is_no_tensor(tmp_path: Any) -> None:
    path = save(tmp_path, npy_bytes(np.array(str([None, 1.5]))))
    with pytest.raises(FormatError, match=r"no tensor \(text"):
        open_npy(path)
    assert probe(path).state == "complete"


def test_unnamed_npy_types_are_refused_with_what_to_do(tmp_path: Any) -> None:
    with pytest.raises(
        FormatError,
        match=r"type \|V1 cannot be compared, .* float8\? save array.astype\('float32'\)",
    ):
        open_npy(save(tmp_path, npy_bytes(np.zeros(3, np.int8).view("V1"))))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_npy_format_is_read(tmp_path: Any, version: Any) -> None:
    stream = io.BytesIO()
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"
    stream.write(
        with_header(
            header + " " * (63 - len(header)) + "\n",
            np.arange(3, dtype="<i4").tobytes(),
            version[0],
        )
    )
    assert open_npy(save(tmp_path, stream.getvalue())).array().tolist() == [0, 1, 2]


class Harmful:
    def __reduce__(self) -> Any:
        return os.mkdir, ("pickle_was_run",)


def test_pickled_objects_are_refused_and_never_loaded(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(str(tmp_path))
    for data in (npy_bytes(np.array([Harmful()], object)), pickle.dumps(Harmful())):
        with pytest.raises(FormatError):
            open_npy(save(tmp_path, data))
    assert not os.path.exists("pickle_was_run")
    with pytest.raises(FormatError, match="pickled Python objects") as caught:
        open_npy(save(tmp_path, npy_bytes(np.array([{}], object))))
    assert caught.value.hint


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, [("a", "<f4"), ("b", "<i4")]),
        np.array(["text"]),
        np.array([b"bytes"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.zeros(3, "V3"),
        np.zeros(2, np.longdouble),
    ],
)
def test_npy_elements_that_are_no_numbers_are_refused(tmp_path: Any, array: Any) -> None:
    with pytest.raises(FormatError, match="records|cannot be compared"):
        open_npy(save(tmp_path, npy_bytes(array)))


def test_every_truncation_of_an_npy_file_is_reported(tmp_path: Any) -> None:
    data = npy_bytes(np.arange(6, dtype=np.float32))
    for length in range(len(data)):
        with pytest.raises(TruncatedFile) as caught:
            open_npy(save(tmp_path, data[:length]))
        assert caught.value.actual_bytes == length < caught.value.expected_bytes <= len(data)
    with pytest.raises(FormatError, match="longer"):
        open_npy(save(tmp_path, data + b"1"))


@pytest.mark.parametrize(
    "data, text",
    [
        (b"PK\x03\x04 an npz is a zip archive", "not an npy file"),
        (
            with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)", version=1),
            "cannot be understood",
        ),
        (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }"), "negative"),
        (
            with_header(
                "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ("9999999999," * 3)
            ),
            "overflows",
        ),
        (
            with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ("1," * 33)),
            "33 dims",
        ),
        (with_header("{'descr': '<f4', 'shape': (3,), }"), "cannot be understood"),
        (
            with_header("__import__('os').mkdir('x')"),
            r"cannot be understood: it cannot be read from .__import__",
        ),
        (with_header("(" * 5000), "cannot be understood"),
        (
            with_header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (3,), }"),
            "cannot be understood",
        ),
        (
            with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3.5,), }"),
            "cannot be understood",
        ),
        (b"\x93NUMPY\x01\x00\xff\xff" + b" " * 65535, "an npy header of 65535 bytes"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100, "an npy header of 4294967295 bytes"),
        (b"\x93NUMPY\x09\x00\x10\x00" + b" " * 100, "npy version 9.0"),
        (b"\x93NUMPY\x01\x80\x10\x00" + b" " * 100, "npy version 1.128"),
    ],
)
def test_damaged_npy_headers_are_refused_with_the_reason(
    tmp_path: Any, data: bytes, text: str
) -> None:
    with pytest.raises(FormatError, match=text):
        open_npy(save(tmp_path, data))


def test_npy_paths_that_are_no_files_are_refused(tmp_path: Any) -> None:
    with pytest.raises(MissingPath):
        open_npy(str(tmp_path))
    with pytest.raises(MissingPath):
        open_npy(str(tmp_path / "absent.npy"))


def test_npy_headers_of_python_2_are_read_without_a_warning(tmp_path: Any) -> None:
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (6L, 1L), }"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_npy(save(tmp_path, with_header(text, b"\0" * 24))).shape == (6, 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"shape":(2,),"fortran_order":False,"descr":"<i4"}',
        "{ 'fortran_order' : False ,\n 'descr' : u'i4', 'shape' : ( 2 , ) }\n",
        "{'descr': b'=i4', 'fortran_order': False, 'shape': (2,)}",
    ],
)
def test_npy_headers_of_other_writers_are_read(tmp_path: Any, text: str) -> None:
    assert open_npy(save(tmp_path, with_header(text, b"\1\0\0\0\2\0\0\0"))).array().tolist() == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "'shape'",
        "{'shape'",
        "{'a': 1",
        "(1,",
        "{'a': 1} 2",
        "{1: 2}",
        "{'a': '\\x00'}",
        "1.5",
        "6LL",
        "{:}",
    ],
)
def test_python_literals_that_are_no_npy_header_are_refused(tmp_path: Any, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError, match="cannot be understood"):
            open_npy(save(tmp_path, with_header(text)))


@given(st.text("(){}[],: '\"LTrueFalse0123<f4descrshapefortran_order\\n", max_size=120))
def test_any_header_text_is_read_as_python_reads_it_or_refused(text: str) -> None:
    try:
        descr, order, shape = parse_header(text)
    except ValueError:
        return
    expected = ast.literal_eval(re.sub(r"([0-9])[Ll]", r"\1", text.strip()))
    assert expected == {"descr": descr, "fortran_order": order, "shape": shape}


@given(
    st.lists(st.integers(0, 2**62), max_size=6),
    st.sampled_from(TYPES),
    st.sampled_from("<>"),
    st.booleans(),
)
def test_numpys_headers_are_read_as_numpy_reads_them(
    shape: Any, dtype: str, byte_order: str, fortran: bool
) -> None:
    stream = io.BytesIO()
    written = np.dtype(byte_order + dtype)
    np.lib.format.write_array_header_1_0(
        stream,
        {
            "descr": np.lib.format.dtype_to_descr(written),
            "fortran_order": fortran,
            "shape": tuple(shape),
        },
    )
    descr, order, found = parse_header(stream.getvalue()[10:].decode("latin-1"))
    assert (np.dtype(descr), order, found) == (written, fortran, tuple(shape))


@pytest.mark.parametrize("shape", ["(2,)", "(1, 2)", "( 1,2)"])
def test_dims_with_leading_zeros_are_refused(tmp_path: Any, shape: str) -> None:
    text = "{'descr': '<i4', 'fortran_order': False, 'shape': %s, }"
    assert open_npy(save(tmp_path, with_header(text % shape, b"\1\0\0\0\2\0\0\0"))).array().reshape(
        -1
    ).tolist() == [1, 2]
    with pytest.raises(FormatError, match="cannot be understood"):
        open_npy(save(tmp_path, with_header(text % shape.replace("2", "02"), b"\1\0\0\0\2\0\0\0")))


def test_dims_larger_than_numpy_allows_are_not_comparable(tmp_path: Any) -> None:
    path = save(
        tmp_path, with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, %d)}" % 2**62)
    )
    with pytest.raises(NotComparable, match="no array of shape"):
        open_npy(path).array()
