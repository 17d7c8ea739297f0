"""The text form in which GE writes its graphs (protobuf text of ModelDef), made from the json
form.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

_ENUMS = ("dtype", "val_type")


def graph_text(document: Mapping[str, Any]) -> str:
    """Return a document such as :meth:`goldwatch.testing.DeviceModel.document` gives as protobuf
    text.
    """
    return "".join(line + "\n" for line in _lines(document, ""))


def _lines(message: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in message.items():
        for entry in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(entry, Mapping):
                yield "%s%s {" % (indent, key)
                yield from _lines(entry, indent + "  ")
                yield indent + "}"
            else:
                yield "%s%s: %s" % (indent, key, _scalar(key, entry))


def _scalar(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and key not in _ENUMS:
        return '"%s"' % "".join(_escape(byte) for byte in value.encode("utf-8", "surrogateescape"))
    return str(value)


def _escape(byte: int) -> str:
    if byte in b"\"\\'":
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x7F else "\\%03o" % byte
