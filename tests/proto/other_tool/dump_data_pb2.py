"""Stands for another tool's generated code: the same file and message names in the process-wide
pool, older messages.
"""

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder


def _serialized_file():
    file_proto = descriptor_pb2.FileDescriptorProto(
        name="dump_data.proto", package="toolkit.dumpdata", syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto
    data_type = file_proto.enum_type.add(name="OutputDataType")
    for number, name in enumerate(("DT_UNDEFINED", "DT_FLOAT", "DT_FLOAT16")):
        data_type.value.add(name=name, number=number)
    messages = {
        "Shape": [("dim", 1, field.LABEL_REPEATED, field.TYPE_UINT64, None)],
        "OpOutput": [
            ("data_type", 1, field.LABEL_OPTIONAL, field.TYPE_ENUM, "OutputDataType"),
            ("shape", 3, field.LABEL_OPTIONAL, field.TYPE_MESSAGE, "Shape"),
            ("data", 5, field.LABEL_OPTIONAL, field.TYPE_BYTES, None),
            ("size", 6, field.LABEL_OPTIONAL, field.TYPE_UINT64, None),
        ],
        "DumpData": [
            ("version", 1, field.LABEL_OPTIONAL, field.TYPE_STRING, None),
            ("output", 3, field.LABEL_REPEATED, field.TYPE_MESSAGE, "OpOutput"),
        ],
    }
    for message_name, fields in messages.items():
        message = file_proto.message_type.add(name=message_name)
        for name, number, label, kind, type_name in fields:
            entry = message.field.add(name=name, number=number, label=label, type=kind)
            if type_name is not None:
                entry.type_name = ".toolkit.dumpdata." + type_name
    return file_proto.SerializeToString()


DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_serialized_file())
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "dump_data_pb2", globals())
