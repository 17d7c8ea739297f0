"""dump_data.proto, the messages of a dump file: classes made from the descriptor set, without
generated code and without the process-wide pool.

Generated code registers its messages in one pool per process, where a second copy of them (another
tool's dump_data_pb2, of another version) ends the import or the process. A private pool knows only
our copy. Nothing here depends on the version of protoc or of protobuf.
"""

from __future__ import annotations

import functools
import pkgutil
from dataclasses import dataclass
from typing import Any

from ..base.errors import EnvironmentProblem

DESCRIPTOR_FILE = "dump_data.desc"
PACKAGE = "toolkit.dumpdata"


@dataclass(frozen=True)
class Messages:
    """The message classes of package ``toolkit.dumpdata`` and its two enums.

    Attributes
    ----------
    DumpData, OpOutput, OpInput, OriginalOp, Shape, DimRange, OpBuffer, OpAttr, Workspace
        Message classes.
    OutputDataType, OutputFormat
        Enum descriptors (``.values_by_name``, ``.values_by_number``).
    """

    DumpData: Any
    OpOutput: Any
    OpInput: Any
    OriginalOp: Any
    Shape: Any
    DimRange: Any
    OpBuffer: Any
    OpAttr: Any
    Workspace: Any
    OutputDataType: Any
    OutputFormat: Any


_ENUMS = ("OutputDataType", "OutputFormat")


@functools.lru_cache(maxsize=None)
def load_messages() -> Messages:
    """Return the message classes of a dump file's header; made once per process.

    Raises
    ------
    EnvironmentProblem
        The descriptor set is missing from the installation.
    """
    # Not needed by processes that read no header.
    from google.protobuf import descriptor_pb2, descriptor_pool

    data = pkgutil.get_data(__name__, DESCRIPTOR_FILE)
    if not data:
        raise EnvironmentProblem(
            "%s is missing from the installation" % DESCRIPTOR_FILE, hint="install goldwatch again"
        )
    pool = descriptor_pool.DescriptorPool()
    for file_proto in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file_proto.SerializeToString())
    make = _class_maker(pool)
    names = [name for name in Messages.__dataclass_fields__ if name not in _ENUMS]
    members = {name: make(pool.FindMessageTypeByName("%s.%s" % (PACKAGE, name))) for name in names}
    members.update({name: pool.FindEnumTypeByName("%s.%s" % (PACKAGE, name)) for name in _ENUMS})
    return Messages(**members)


def _class_maker(pool: Any) -> Any:
    """Return the function that turns a descriptor into a class: ``GetMessageClass`` since protobuf
    4.22, a factory's method before.
    """
    from google.protobuf import message_factory

    get_message_class = getattr(message_factory, "GetMessageClass", None)
    if get_message_class is not None:
        return get_message_class
    factory: Any = message_factory.MessageFactory(pool)
    return factory.GetPrototype
