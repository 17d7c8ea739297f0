"""Any text as JUnit XML takes it: in an element, and as an attribute."""

from __future__ import annotations

import re

from ..naming import printable

_INVALID = re.compile("[\ufffe\uffff]")


def _plain(text: str) -> str:
    """Return text without characters that XML has no place for: as escapes, as a terminal shows
    them.
    """
    return _INVALID.sub(lambda match: "\\u%04x" % ord(match.group()), printable(text))


def xml_text(value: str) -> str:
    """Return a text for the inside of an element."""
    # It brings in an HTTP client: 20 ms of every command's start.
    from xml.sax.saxutils import escape

    return escape(_plain(value))


def xml_attribute(value: str) -> str:
    """Return a text as an attribute's value, in quotation marks."""
    from xml.sax.saxutils import quoteattr

    return quoteattr(_plain(value))
