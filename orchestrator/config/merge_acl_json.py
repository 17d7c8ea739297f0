"""An acl.json whose dump section is replaced while every other byte of it stays as it is."""

from __future__ import annotations

import json
from typing import Any, List

from ..base.errors import FormatError
from ..schemas.jsontext import JsonText
from .finding import Findings
from .json_text_errors import read_json

_BOM = b"\xef\xbb\xbf"


def merge_dump(data: bytes, configuration: str, file: str) -> bytes:
    """Return ``data``, an acl.json, with another dump section; a file without one gets it as its
    first member.

    Parameters
    ----------
    data
        The file's bytes. None at all stand for a file that holds nothing else.
    configuration
        An acl.json as ``forms.write_plan`` writes it: it holds nothing but a dump section.
    file
        The file's name, for messages.

    Raises
    ------
    FormatError
        The file is no JSON object, or has several dump sections: which one counts, its reader and
        its owner may see differently.
    """
    if not data.strip():
        return configuration.encode("utf-8")
    findings = Findings()
    text = read_json(data, findings)
    if text is None or not isinstance(text.value, dict):
        problem = (
            findings.items[0].message if text is None and findings.items else "it holds no object"
        )
        raise FormatError(
            "%s: nothing can be merged into it" % problem,
            file,
            hint="correct the file first, or replace it as a whole",
        )
    if any(path == ("dump",) for path, _ in text.duplicates()):
        raise FormatError(
            "the key 'dump' is used twice", file, hint="delete one of the two sections first"
        )
    merged = _merged(text, _section(configuration))
    return (_BOM if data.startswith(_BOM) else b"") + merged.encode("utf-8")


def _section(configuration: str) -> str:
    """Return the text of the value of ``dump``, indented as if it stood alone."""
    text = read_json(configuration.encode("utf-8"), Findings())
    assert text is not None
    start = text.offset(("dump",))
    _, end = json.JSONDecoder().raw_decode(configuration, start)
    first, *others = configuration[start:end].split("\n")
    return "\n".join([first] + [line[4:] for line in others])


def _merged(text: JsonText, section: str) -> str:
    source = text.text
    newline = "\r\n" if "\r\n" in source else "\n"
    if "dump" in text.value:
        start = text.offset(("dump",))
        _, end = json.JSONDecoder().raw_decode(source, start)
        key = text.offset(("dump",), at_key=True)
        return source[:start] + _indented(section, _indent_of(source, key), newline) + source[end:]
    brace = text.offset(()) + 1
    members: List[Any] = list(text.value)
    indent = _indent_of(source, text.offset((members[0],), at_key=True)) if members else "    "
    inserted = '%s%s"dump": %s' % (newline, indent, _indented(section, indent, newline))
    return source[:brace] + inserted + ("," if members else newline) + source[brace:]


def _indent_of(source: str, offset: int) -> str:
    """Return the blanks before what stands at ``offset`` when nothing else does on its line; else
    none.
    """
    head = source[source.rfind("\n", 0, offset) + 1 : offset]
    return head if not head.strip(" \t") else ""


def _indented(section: str, indent: str, newline: str) -> str:
    return (newline + indent).join(section.split("\n"))
