"""One offline HTML file out of parts: body, data, styles, scripts.

The file loads nothing: a Content-Security-Policy names the SHA-256 of its one script and its one
style sheet, so that no text that comes from a file (a name, a path) could run even if it were not
escaped.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import pkgutil
import re
from itertools import chain
from typing import Any, Iterable, Iterator, Mapping, Sequence

from ...base.naming import printable
from ...base.shortening import shorten_within
from ..page_rows import LABELS, PackedColumn

ROWS = "rows.js"
PACKED_BYTES = 200000
"""JSON of so many bytes or more is packed."""

_CONTROLS = re.compile("[\x01-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ESCAPES = {ord(letter): "\\u%04x" % ord(letter) for letter in "<>&\u2028\u2029"}


def text(value: object) -> str:
    """Return a value as the text of an element: names of anybody's cannot become markup; control
    characters are shown as ``\\xNN``.
    """
    return html.escape(printable(str(value)))


def sentence(value: object) -> str:
    """Return :func:`text` of a sentence about ops, of whose longest names the middle is left
    out.
    """
    return html.escape(shorten_within(printable(str(value))))


def attribute(value: str) -> str:
    """Return a text for the inside of a quoted attribute, its characters kept; what UTF-8 and HTML
    cannot hold is shown as ``\\xNN``.

    What would change how a terminal shows the file is written as a reference.
    """
    cleaned = _CONTROLS.sub(
        lambda match: "&#%d;" % ord(match.group()), html.escape(value).replace("\0", "\\x00")
    )
    return cleaned.encode("utf-8", "backslashreplace").decode("utf-8")


def asset(name: str) -> str:
    """Return the text of a script or style sheet of this folder, such as ``table.js``; before
    ``rows.js`` stands what the columns of a row are called, ``ROW_LABELS``.
    """
    data = pkgutil.get_data(__name__, name)
    assert data is not None
    known = "const ROW_LABELS = %s;\n" % json.dumps(LABELS) if name == ROWS else ""
    return known + data.decode("utf-8")


def script(names: Sequence[str]) -> str:
    """Return several scripts as one, which leaves no name behind: each file sees what the functions
    of the others are called.
    """
    return "(function () {\n'use strict';\n%s\n})();\n" % "\n".join(asset(name) for name in names)


def style(names: Sequence[str]) -> str:
    """Return several style sheets as one."""
    return "\n".join(asset(name) for name in names)


def data_block(name: str, document: Any) -> str:
    """Return the element that holds a document for ``readData(name)`` of common.js; a large one is
    packed (gzip, then base64).

    Parameters
    ----------
    document
        JSON values: no float that is not finite; and columns of rows.
    """
    pieces, text, packed = _json(document), "", ""
    for piece in pieces:
        text += piece
        if len(text) >= PACKED_BYTES:
            text = json.dumps(_packed(chain([text], pieces)))
            packed = ' data-packed="gzip"'
    return '<script type="application/json" id="%s"%s>%s</script>' % (
        name,
        packed,
        text.translate(_ESCAPES),
    )


def _json(document: Any) -> Iterator[str]:
    """Yield a document as JSON, in pieces that are as large as a list in it."""
    if isinstance(document, PackedColumn):
        yield from document.json()
    elif isinstance(document, dict) and all(type(key) is str for key in document):
        for number, (key, value) in enumerate(document.items()):
            yield "%s%s:" % ("," if number else "{", json.dumps(key))
            yield from _json(value)
        yield "}" if document else "{}"
    elif isinstance(document, list) and any(type(value) is PackedColumn for value in document):
        for number, value in enumerate(document):
            yield "," if number else "["
            yield from _json(value)
        yield "]"
    else:
        yield json.dumps(document, allow_nan=False, separators=(",", ":"))


def _packed(pieces: Iterable[str]) -> str:
    stream = io.BytesIO()
    # Without the time of day in it: the same document gives the same page.
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=9, mtime=0) as packer:
        for piece in pieces:
            packer.write(piece.encode("ascii"))
    return base64.b64encode(stream.getvalue()).decode("ascii")


def page(
    title: str, body: str, data: Mapping[str, Any], styles: Sequence[str], scripts: Sequence[str]
) -> str:
    """Return a whole page.

    Parameters
    ----------
    title
        Plain text.
    body
        HTML whose names went through :func:`text` or :func:`attribute`.
    data
        Documents by the id under which the script reads them.
    styles, scripts
        Files of this folder in their order.
    """
    css, code = style(styles), script(scripts)
    policy = ("default-src 'none'; script-src %s; style-src %s; img-src data: blob:; base-uri "
        "'none'; "
        "form-action 'none'") % (
        _hash_of(code), _hash_of(css),
    )  # fmt: skip
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="%s">'
            % html.escape(policy, quote=False),
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            "<title>%s</title>" % text(title),
            "<style>%s</style>" % css,
            "</head>",
            "<body>",
            body,
            *(data_block(name, document) for name, document in data.items()),
            "<script>%s</script>" % code,
            "</body>",
            "</html>",
            "",
        ]
    )


def _hash_of(content: str) -> str:
    return "'sha256-%s'" % base64.b64encode(
        hashlib.sha256(content.encode("utf-8")).digest()
    ).decode("ascii")
