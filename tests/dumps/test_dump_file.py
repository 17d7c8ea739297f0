from __future__ import annotations

import dataclasses
import os
import pickle
import struct
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

import goldwatch.dumps.dump_header as header
from goldwatch.base.errors import (
    FormatError,
    InputError,
    MissingPath,
    NotComparable,
    TruncatedFile,
    UsageError,
)
from goldwatch.dumps import DumpFile, TensorData, probe, write_dump
from goldwatch.dumps.write import dump_parts
from goldwatch.proto import load_messages
from goldwatch.tensors.layout_conversion import convert

Make = Callable[..., bytes]


def save(folder: Any, data: bytes) -> str:
    path = str(folder / "Conv2D.conv1.1.2.1600000000000000")
    with open(path, "wb") as stream:
        stream.write(data)
    return path


def example(address: int = 2**63 + 5) -> Dict[str, Any]:
    half = np.arange(64, dtype=np.float16).reshape(1, 1, 2, 2, 16)
    return {
        "inputs": [
            TensorData(half, format="NC1HWC0", original_shape=(1, 3, 2, 2), address=address),
            TensorData(np.arange(3, dtype=np.uint16), "bfloat16", shape=(3,)),
        ],
        "outputs": [
            TensorData(
                b"\x21\x43",
                28,
                "FRACTAL_Z",
                (4,),
                sub_format=4,
                original_name="conv1/relu",
                original_index=1,
            ),
            np.array([1, -1], np.int64),
            TensorData(b"abc", 77, 250, (3,)),
        ],
        "buffers": [b"L1 bytes"],
        "spaces": [b"log", b""],
        "op_name": "conv1",
        "dump_time": 99,
    }


@pytest.mark.parametrize("version", [1, 2])
def test_everything_that_was_written_to_a_dump_is_read_back(tmp_path: Any, version: int) -> None:
    path = str(tmp_path / "dump")
    size = write_dump(path, version=version, **example())
    assert os.path.getsize(path) == size
    assert os.listdir(str(tmp_path)) == ["dump"]
    dump = DumpFile.open(path)
    assert (dump.version, dump.header_version, dump.op_name, dump.dump_time) == (
        version,
        "%d.0" % version,
        "conv1",
        99,
    )
    assert dump.expected_bytes == dump.actual_bytes == size and dump.state == "complete"

    first = dump.inputs[0]
    assert (first.dtype.name, first.format, first.shape, first.original_shape) == (
        "float16",
        "NC1HWC0",
        (1, 1, 2, 2, 16),
        (1, 3, 2, 2),
    )
    assert (first.address, first.size_bytes, first.problem) == (2**63 + 5, 128, None)
    assert dump.inputs[1].address is None and dump.inputs[1].original_shape is None
    tensor = dump.tensor("input", 0)
    assert np.array_equal(tensor.array(), np.arange(64, dtype=np.float16).reshape(1, 1, 2, 2, 16))
    assert tensor.original_shape == (1, 3, 2, 2)
    bf16 = dump.tensor("input", 1).array()
    assert bf16.dtype == np.float32 and bf16.view(np.uint32).tolist() == [0, 1 << 16, 2 << 16]

    packed = dump.tensor("output", 0)
    assert packed.array().tolist() == [1, 2, 3, 4] and (packed.format, packed.sub_format) == (
        "FRACTAL_Z",
        4,
    )
    assert (dump.outputs[0].original_name, dump.outputs[0].original_index) == ("conv1/relu", 1)
    assert dump.tensor("output", 1).array().tolist() == [1, -1]
    assert dump.outputs[2].dtype.name == "unknown(77)" and dump.outputs[2].format == "unknown(250)"
    with pytest.raises(NotComparable, match="77"):
        dump.tensor("output", 2).array()
    assert dump.source("output", 2).read(0, 3).tobytes() == b"abc"
    assert dump.source("buffer", 0).read(3, 5).tobytes() == b"bytes"
    assert [space.size_bytes for space in dump.spaces] == [3, 0]
    assert dump.source("space", 0).read(0, 3).tobytes() == b"log"


def test_version_2_holds_length_header_inputs_outputs_buffers_and_spaces(tmp_path: Any) -> None:
    path = str(tmp_path / "dump")
    write_dump(path, [b"II"], [b"OOO"], [b"B"], [b"SSSS"], op_name="x")
    with open(path, "rb") as stream:
        data = stream.read()
    length = struct.unpack("<Q", data[:8])[0]
    assert data[8 + length :] == b"IIOOOBSSSS"
    header = load_messages().DumpData.FromString(data[8 : 8 + length])
    assert [tensor.size for tensor in header.output] == [3] and list(
        header.output[0].shape.dim
    ) == [3]
    assert header.input[0].data_type == 4 and header.input[0].format == 2 and header.op_name == "x"
    assert (
        b"".join(
            bytes(part) for part in dump_parts([b"II"], [b"OOO"], [b"B"], [b"SSSS"], op_name="x")
        )
        == data
    )


def test_version_1_holds_the_bytes_in_the_message(tmp_path: Any) -> None:
    path = str(tmp_path / "dump")
    write_dump(path, [b"II"], [b"OOO"], version=1)
    with open(path, "rb") as stream:
        header = load_messages().DumpData.FromString(stream.read())
    assert header.input[0].data == b"II" and header.output[0].data == b"OOO"


def test_version_1_without_sizes_takes_the_length_of_the_data_field(tmp_path: Any) -> None:
    header = load_messages().DumpData(version="1.0")
    header.output.add(data_type=4, data=b"abc").shape.dim.append(3)
    dump = DumpFile.open(save(tmp_path, header.SerializeToString()))
    assert (dump.version, dump.outputs[0].size_bytes) == (1, 3)
    assert dump.tensor("output", 0).array().tolist() == [97, 98, 99]


def test_a_size_of_zero_follows_from_dims_and_type(tmp_path: Any) -> None:
    # As the vendor's converter from npy writes its .pb files.
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = str(tmp_path / "op.0.1600000000000000.pb")
    write_dump(
        path,
        [],
        [
            TensorData(values, size_bytes=0),
            TensorData(b"ab", "uint8", size_bytes=0),
            TensorData(b"", shape=(0, 3)),
        ],
    )
    assert probe(path).state == "complete"
    dump = DumpFile.open(path)
    assert [info.size_bytes for info in dump.outputs] == [24, 2, 0]
    assert dump.tensor("output", 0).array().tolist() == values.tolist() and dump.tensor(
        "output", 1
    ).array().tolist() == [97, 98]
    with open(path, "rb") as stream:
        data = stream.read()
    with pytest.raises(TruncatedFile) as caught:
        DumpFile.open(save(tmp_path, data[:-1]))
    assert caught.value.expected_bytes == len(data)
    with pytest.raises(FormatError, match="longer than its header says: expected %d" % len(data)):
        DumpFile.open(save(tmp_path, data + b"x"))
    # Nothing behind the header: a tensor that was not written.
    empty = DumpFile.open(save(tmp_path, data[:-26]))
    assert empty.outputs[0].problem is not None and "header says 0" in empty.outputs[0].problem


def test_a_version_2_header_that_also_reads_as_version_1_stays_version_2(tmp_path: Any) -> None:
    # 0x060A as the length is also a valid version field of six zero bytes, and the rest of the file
    # a DumpData.
    header = load_messages().DumpData(version="2.0", op_name="x" * 1517)
    header.output.add(data_type=4, size=4).shape.dim.append(4)
    message = header.SerializeToString()
    header.op_name = "x" * (1517 + 0x060A - len(message))
    message = header.SerializeToString()
    assert len(message) == 0x060A
    data = struct.pack("<Q", len(message)) + message
    assert DumpFile.open(save(tmp_path, data + b"abcd")).version == 2
    with pytest.raises(TruncatedFile) as caught:
        DumpFile.open(save(tmp_path, data))
    assert (caught.value.expected_bytes, caught.value.actual_bytes) == (len(data) + 4, len(data))


def test_every_truncation_is_reported_with_both_sizes(tmp_path: Any) -> None:
    data = b"".join(bytes(part) for part in dump_parts(**example(address=0)))
    for length in range(len(data)):
        path = save(tmp_path, data[:length])
        with pytest.raises(TruncatedFile) as caught:
            DumpFile.open(path)
        assert path in caught.value.message
        assert caught.value.actual_bytes == length < caught.value.expected_bytes <= len(data)
        assert (
            str(length) in caught.value.message
            and str(caught.value.expected_bytes) in caught.value.message
        )


def test_a_truncated_version_1_file_is_refused_or_lacks_whole_records(tmp_path: Any) -> None:
    # A message that is cut between two of its records is itself a message; anywhere else the cut is
    # found.
    data = b"".join(bytes(part) for part in dump_parts(version=1, **example()))
    whole = DumpFile.open(save(tmp_path, data))
    accepted = 0
    for length in range(len(data)):
        try:
            dump = DumpFile.open(save(tmp_path, data[:length]))
        except FormatError:
            continue
        accepted += 1
        assert (
            dump.outputs == whole.outputs[: len(dump.outputs)]
            and dump.inputs == whole.inputs[: len(dump.inputs)]
        )
    assert accepted < 10


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "the file is empty: expected at least 8 bytes, got 0"),
        (b"\x05\0\0", "the file ends inside the header length: expected at least 8 bytes, got 3"),
        (b"\x05" + b"\0" * 7, "the file ends inside the header: expected at least 13 bytes, got 8"),
        (b"a\nb\nc\n", "not a dump file: this is a list of names"),
        (b"\xff" * 64, "not a dump file: the header length is 18446744073709551615 bytes"),
        (b"\0" * 64, "not a dump file: the header length is 0 bytes"),
        (
            struct.pack("<Q", 2**33) + b"x" * 100,
            "not a dump file: the header length is 8589934592 bytes",
        ),
        (
            struct.pack("<Q", 4) + b"\xff" * 4 + b"payload",
            "the header of 4 bytes is not a DumpData message",
        ),
        (
            struct.pack("<Q", 3) + b"\xa0\x06\x01" + b"payload",
            "has none of the fields of a dump file",
        ),
    ],
)
def test_files_that_are_no_dumps_are_refused_with_the_reason(
    tmp_path: Any, data: bytes, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        DumpFile.open(save(tmp_path, data))
    assert message in caught.value.message


def test_a_dump_longer_than_its_header_says_is_refused(tmp_path: Any, container: Make) -> None:
    data = container({"data_type": 4, "raw": b"abcd", "dims": [4]})
    with pytest.raises(
        FormatError,
        match="longer than its header says: expected %d bytes, got %d" % (len(data), len(data) + 3),
    ) as caught:
        DumpFile.open(save(tmp_path, data + b"xyz"))
    assert not isinstance(caught.value, TruncatedFile)


def test_the_header_of_a_damaged_dump_can_be_read(tmp_path: Any, container: Make) -> None:
    data = container({"data_type": 4, "raw": b"abcd", "dims": [4]})
    for damaged, state in ((data[:-1], "short"), (data + b"x", "long")):
        dump = DumpFile.open(save(tmp_path, damaged), partial=True)
        assert (dump.state, dump.outputs[0].shape, dump.expected_bytes, dump.actual_bytes) == (
            state,
            (4,),
            len(data),
            len(damaged),
        )
        with pytest.raises(FormatError):
            dump.tensor("output", 0)
    with pytest.raises(TruncatedFile):
        DumpFile.open(save(tmp_path, data[:12]), partial=True)


@pytest.mark.parametrize(
    "tensor, problem",
    [
        ({"data_type": 1, "dims": [2**32, 2**32, 2**32]}, "overflows"),
        ({"data_type": 1, "dims": [2**63, 2]}, "overflows"),
        ({"data_type": 1, "dims": [3]}, "float32[3] needs 12 bytes, the header says 4"),
        ({"data_type": 2, "dims": []}, "float16[] needs 2 bytes, the header says 4"),
        ({"data_type": 28, "dims": [9]}, "int4[9] needs 5 bytes, the header says 4"),
        ({"data_type": 4, "dims": [1] * 33}, "33 dims"),
        ({"data_type": 4, "dims": [0, 4]}, "needs 0 bytes"),
    ],
)
def test_a_tensor_whose_dims_and_size_disagree_spoils_only_itself(
    tmp_path: Any, container: Make, tensor: Any, problem: str
) -> None:
    good = {"data_type": 7, "raw": struct.pack("<i", -5), "dims": [1]}
    dump = DumpFile.open(save(tmp_path, container(dict(tensor, raw=b"abcd"), good)))
    assert problem in str(dump.outputs[0].problem)
    with pytest.raises(NotComparable) as caught:
        dump.tensor("output", 0)
    assert problem in caught.value.message and "output 0" in caught.value.message
    assert dump.tensor("output", 1).array().tolist() == [-5]


@pytest.mark.parametrize(
    "code, name",
    [
        (13, "string"),
        (24, "string_ref"),
        (37, "float6"),
        (39, "float4"),
        (40, "float4"),
        (41, "unknown(41)"),
    ],
)
def test_a_tensor_of_undecoded_type_spoils_only_itself(
    tmp_path: Any, container: Make, code: int, name: str
) -> None:
    raw = b"abc" if code == 37 else b"ab"
    dims = {37: 4, 39: 4, 40: 4}.get(code, 2)
    data = container(
        {"data_type": code, "raw": raw, "dims": [dims]}, {"data_type": 4, "raw": b"x", "dims": [1]}
    )
    dump = DumpFile.open(save(tmp_path, data))
    assert dump.outputs[0].dtype.name.startswith(name)
    with pytest.raises(NotComparable):
        dump.tensor("output", 0).array()
    assert dump.tensor("output", 1).array().tolist() == [120]


def test_a_tensor_that_the_dump_lacks_is_refused_by_number(tmp_path: Any, container: Make) -> None:
    dump = DumpFile.open(save(tmp_path, container({"data_type": 4, "raw": b"x", "dims": [1]})))
    for kind, index in (("input", 0), ("output", 1), ("output", -1)):
        with pytest.raises(NotComparable, match="has no %s %d" % (kind, index)):
            dump.tensor(kind, index)


def test_tensors_with_a_null_address_are_read_as_not_written(
    tmp_path: Any, container: Make
) -> None:
    outputs: List[Any] = [
        {"data_type": 4, "raw": b"abcd", "dims": [4], "address": 16},
        {"data_type": 4, "raw": b"NOPE", "dims": [4], "address": 0},
        {"data_type": 4, "raw": b"efgh", "dims": [4], "address": 32},
    ]
    dump = DumpFile.open(save(tmp_path, container(*outputs, payload=b"abcdefgh")))
    assert bytes(dump.tensor("output", 2).array()) == b"efgh"
    with pytest.raises(NotComparable, match="null address"):
        dump.tensor("output", 1)
    # Written all the same: the plain size law holds.
    assert (
        bytes(DumpFile.open(save(tmp_path, container(*outputs))).tensor("output", 1).array())
        == b"NOPE"
    )
    # No address at all (older files): a short file is a short file.
    for output in outputs:
        output["address"] = 0
    with pytest.raises(TruncatedFile):
        DumpFile.open(save(tmp_path, container(*outputs, payload=b"abcdefgh")))


def test_a_header_with_more_records_than_any_real_one_is_refused(tmp_path: Any) -> None:
    # 400,000 empty outputs in 800,000 bytes: a parser would make as many objects.
    message = b"\x0a\x032.0" + b"\x1a\x00" * 400000
    with pytest.raises(FormatError, match="more than"):
        DumpFile.open(save(tmp_path, struct.pack("<Q", len(message)) + message))
    message = b"\x0a\x032.0" + b"\x1a\x00" * 20000
    with pytest.raises(FormatError, match="more than 16384 outputs"):
        DumpFile.open(save(tmp_path, struct.pack("<Q", len(message)) + message))


def test_the_number_of_records_inside_tensors_is_bounded(tmp_path: Any) -> None:
    ranges = b"\x52\x00" * 1000
    tensor = b"\x1a\xd0\x0f" + ranges
    message = b"\x0a\x032.0" + tensor * 300
    for data in (struct.pack("<Q", len(message)) + message, message):
        with pytest.raises(FormatError):
            DumpFile.open(save(tmp_path, data))
    with pytest.raises(FormatError, match="more than 262144 records"):
        DumpFile.open(save(tmp_path, struct.pack("<Q", len(message)) + message))


def test_a_header_with_thousands_of_tensors_is_read(tmp_path: Any, container: Make) -> None:
    header = load_messages().DumpData(version="2.0", op_name="big")
    for number in range(3000):
        header.attr.add(name="attribute_%d" % number, value="v" * 30)
        header.output.add(data_type=4, size=1, address=number + 1).shape.dim.append(1)
    message = header.SerializeToString()
    assert len(message) > 65536
    dump = DumpFile.open(
        save(
            tmp_path,
            struct.pack("<Q", len(message))
            + message
            + bytes(number % 256 for number in range(3000)),
        )
    )
    assert (len(dump.outputs), dump.op_name, dump.header_bytes) == (3000, "big", len(message))
    assert dump.tensor("output", 2999).array().tolist() == [2999 % 256]


def test_paths_that_are_no_regular_files_are_refused(tmp_path: Any) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    for path in (str(tmp_path), fifo, str(tmp_path / "absent"), "nul\0byte"):
        with pytest.raises(MissingPath):
            DumpFile.open(path)


def test_the_writer_refuses_tensors_that_do_not_fit(tmp_path: Any) -> None:
    path = str(tmp_path / "dump")
    for tensor, text in (
        (TensorData(b"abc", "float32", shape=(1,)), "needs 4 bytes, got 3"),
        (TensorData(b"abc", "floatish"), "data type 'floatish' is not known"),
        (TensorData(b"abc", format="NOPE"), "format 'NOPE' is not known"),
        (np.array(["text"]), "has no code"),
    ):
        with pytest.raises(InputError, match=text):
            write_dump(path, [], [tensor])
    with pytest.raises(InputError, match="container version"):
        write_dump(path, version=3)
    assert os.listdir(str(tmp_path)) == []


def test_the_writer_stores_c_order_and_little_endian(tmp_path: Any) -> None:
    path = str(tmp_path / "dump")
    array = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    write_dump(
        path,
        [],
        [
            array,
            array.T[:, ::2],
            np.float64(2.5),
            np.zeros((0, 3), np.float32),
            np.array([True, False]),
        ],
    )
    dump = DumpFile.open(path)
    assert dump.tensor("output", 0).array().tolist() == array.tolist()
    assert dump.tensor("output", 1).array().tolist() == array.T[:, ::2].tolist()
    assert dump.outputs[2].shape == () and dump.tensor("output", 2).array() == 2.5
    assert dump.tensor("output", 3).array().shape == (0, 3)
    assert dump.tensor("output", 4).array().tolist() == [True, False]


def test_a_file_name_of_255_bytes_is_written_and_read(tmp_path: Any) -> None:
    path = str(tmp_path / ("a" * 255))
    write_dump(path, [], [b"x"])
    assert DumpFile.open(path).tensor("output", 0).array().tolist() == [120]


def test_dump_file_opens_a_path_and_returns_arrays_in_either_layout(tmp_path: Any) -> None:
    plain = np.arange(1 * 3 * 2 * 2, dtype=np.float16).reshape(1, 3, 2, 2)
    path = str(tmp_path / "dump")
    stored = convert(plain, "NCHW", "NC1HWC0", plain.shape)
    write_dump(
        path,
        [TensorData(stored, format="NC1HWC0")],
        [TensorData(stored, format="NC1HWC0", original_shape=plain.shape)],
    )
    dump = DumpFile(path)
    assert dump == DumpFile.open(path) and pickle.loads(pickle.dumps(dump)) == dump
    np.testing.assert_array_equal(dump.array(), stored)
    np.testing.assert_array_equal(dump.array("output", 0, original=True), plain)
    with pytest.raises(NotComparable, match="original shape"):
        dump.array("input", 0, original=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        dump.path = "other"


@pytest.mark.parametrize(
    "kind, index",
    [("outputs", 0), ("buffer", 0), (0, 0), ("output", "0"), ("output", None), ("output", 0.0)],
)
def test_an_unknown_kind_or_index_of_a_tensor_is_refused(
    tmp_path: Any, container: Make, kind: Any, index: Any
) -> None:
    dump = DumpFile.open(save(tmp_path, container({"data_type": 4, "raw": b"\1\1\1", "dims": [3]})))
    with pytest.raises(
        UsageError, match="a tensor's (kind is input or output|index is a whole number), got"
    ):
        dump.array(kind, index)
    assert dump.array("output", np.int64(0)).tolist() == [1, 1, 1]


def test_trouble_with_loading_protobuf_is_not_blamed_on_the_file(tmp_path, monkeypatch):
    """As where the process has no descriptor left."""
    path = str(tmp_path / "Add.a.1.2.1767323045000000")
    # A header of its own: those that were read are kept.
    write_dump(path, [], [np.zeros(1237, np.float16)])

    def none_left():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(header, "load_messages", none_left)
    with pytest.raises(OSError, match="Too many open files"):
        header.load_header(path)


@pytest.mark.parametrize("dump_time", [0, 1, 127, 128, 2**40 + 3, 2**63 - 1, 2**64 - 1])
def test_headers_that_differ_in_their_time_alone_are_told_apart(
    tmp_path: Any, dump_time: int
) -> None:
    path = str(tmp_path / "Relu.relu.1.1700000000000001")
    for time_us, value in ((5, 1.0), (dump_time, 2.0), (6, 3.0)):
        data = np.full(3, value, np.float32)
        size = write_dump(path, [data], [data + 1], op_name="relu", dump_time=time_us)
        dump = DumpFile(path)
        assert (dump.path, dump.dump_time, dump.actual_bytes) == (path, time_us, size)
        np.testing.assert_array_equal(dump.array("input", 0), data)
        np.testing.assert_array_equal(dump.array("output", 0), data + 1)
    write_dump(path, [data], [data.astype(np.int32)], op_name="relu", dump_time=7)
    assert DumpFile(path).outputs[0].dtype.name == "int32"


def test_a_message_that_ends_inside_its_own_records_is_not_called_cut_short(tmp_path):
    path = tmp_path / "x.pb"
    path.write_bytes(b"\x10\x01\x42\x01b\x4a\x04" + bytes(4))
    with pytest.raises(FormatError, match="not a dump file"):
        DumpFile.open(str(path))
