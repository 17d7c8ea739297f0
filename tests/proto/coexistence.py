"""Loads our messages and another tool's dump_data_pb2 in one process and uses both; run as a
program: ``coexistence.py ours|theirs``.

The argument names which of the two comes first. Needs only protobuf and an importable goldwatch.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "other_tool"))


def ours():
    from goldwatch.proto import load_messages

    messages = load_messages()
    header = messages.DumpData(version="2.0", dump_time=7, op_name="conv1")
    header.output.add(
        data_type=27,
        format=3,
        size=64,
        sub_format=4,
        address=2**63,
        shape=messages.Shape(dim=[1, 2, 16]),
    )
    header.input.add(data_type=40, size=9)
    header.space.add(size=5)
    return messages, header


def theirs():
    import dump_data_pb2

    old = dump_data_pb2.DumpData(version="1.0")
    old.output.add(data_type=dump_data_pb2.DT_FLOAT16, data=b"abcd", size=4)
    return dump_data_pb2, old


def check(mine, header, other, old):
    copy = mine.DumpData.FromString(header.SerializeToString())
    assert copy == header and list(copy.output[0].shape.dim) == [1, 2, 16]
    assert (
        copy.output[0].address == 2**63
        and copy.output[0].sub_format == 4
        and copy.input[0].data_type == 40
    )
    assert other.DumpData.FromString(old.SerializeToString()).output[0].data == b"abcd"
    # Each side reads what the other wrote, and neither class has become the other.
    assert mine.DumpData.FromString(old.SerializeToString()).output[0].data == b"abcd"
    assert other.DumpData.FromString(header.SerializeToString()).output[0].size == 64
    assert "sub_format" in mine.OpOutput.DESCRIPTOR.fields_by_name
    assert "sub_format" not in other.OpOutput.DESCRIPTOR.fields_by_name
    assert (
        mine.DumpData.DESCRIPTOR.full_name
        == other.DumpData.DESCRIPTOR.full_name
        == "toolkit.dumpdata.DumpData"
    )


def main(first):
    parts = {}
    for name, load in (("ours", ours), ("theirs", theirs))[:: 1 if first == "ours" else -1]:
        parts[name] = load()
    check(*parts["ours"], *parts["theirs"])

    import google.protobuf
    from google.protobuf.internal import api_implementation

    print(
        "protobuf %s (%s), %s first: ok"
        % (google.protobuf.__version__, api_implementation.Type(), first)
    )


if __name__ == "__main__":
    main(sys.argv[1])
