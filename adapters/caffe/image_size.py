"""How large an image is, from its header, and whether the file is whole: looked at before any
decoder allocates a picture.

Source of the layouts: the PNG, JPEG (ITU-T T.81), BMP, Netpbm, WebP and TIFF 6.0 specifications.
"""

from __future__ import annotations

import re
import struct
from typing import Callable, Dict, Optional, Tuple

from ...base.errors import FormatError
from ...base.safe_reading import open_input

Size = Tuple[int, int]
# Deflate makes at most 1032 bytes of one.
_DEFLATE_LIMIT = 1032
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# Behind 0xFF: neither a stuffed zero, a restart marker nor a fill byte.
_JPEG_MARKER = re.compile(b"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PNM = re.compile(
    rb"P([1-6])(?:\s|#[^\n]*\n)+(\d{1,10})(?:\s|#[^\n]*\n)+(\d{1,10})(?:\s|#[^\n]*\n)+(?:(\d{1,5})\s)?"
)


def image_size(path: str) -> Size:
    """Return (height, width) in pixels.

    Raises
    ------
    FormatError
        It is no image of a known kind, is cut off, or tells of more pixels than its bytes can hold.
    """
    with open_input(path) as stream:
        data = stream.read()
    try:
        size = next(
            (
                picture
                for picture in (read(data) for read in _READERS.values())
                if picture is not None
            ),
            None,
        )
    except FormatError as error:
        raise FormatError(error.message, path) from error
    except (struct.error, IndexError, ValueError) as error:
        raise FormatError("a damaged or truncated image", path) from error
    if size is None:
        raise FormatError("not an image: none of %s" % ", ".join(_READERS), path)
    if min(size) < 1:
        raise FormatError("an image of %d x %d pixels" % (size[1], size[0]), path)
    return size


def _png(data: bytes) -> Optional[Size]:
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    at, packed = 8, 0
    while True:
        length, kind = struct.unpack_from(">I4s", data, at)
        if at + 12 + length > len(data):
            raise FormatError(
                "a truncated PNG: %d bytes are missing" % (at + 12 + length - len(data))
            )
        packed += length if kind == b"IDAT" else 0
        if kind == b"IEND":
            break
        at += 12 + length
    unpacked = height * (width * depth * _PNG_CHANNELS.get(colour, 1) // 8)
    if unpacked > packed * _DEFLATE_LIMIT:
        raise FormatError(
            "a PNG of %d x %d pixels whose %d bytes of data cannot hold them"
            % (width, height, packed)
        )
    return height, width


def _jpeg(data: bytes) -> Optional[Size]:
    if not data.startswith(b"\xff\xd8"):
        return None
    size: Optional[Size] = None
    at = 2
    while True:
        match = _JPEG_MARKER.search(data, at)
        if match is None:
            raise FormatError("a truncated JPEG: its end is missing")
        marker = data[match.start() + 1]
        if marker == 0xD9:
            break
        length = struct.unpack_from(">H", data, match.end())[0]
        if marker in _JPEG_FRAMES and size is None:
            size = struct.unpack_from(">HH", data, match.end() + 3)
        at = match.end() + length
    if size is None:
        raise FormatError("a JPEG without a picture")
    return size


def _bmp(data: bytes) -> Optional[Size]:
    if not data.startswith(b"BM"):
        return None
    offset, header = struct.unpack_from("<II", data, 10)
    old = header < 40
    width, height, _, bits = struct.unpack_from("<hhHH" if old else "<iiHH", data, 18)
    packing = 0 if old else struct.unpack_from("<I", data, 30)[0]
    if packing in (0, 3) and offset + (width * bits + 31) // 32 * 4 * abs(height) > len(data):
        raise FormatError("a truncated BMP")
    return abs(height), width


def _pnm(data: bytes) -> Optional[Size]:
    match = _PNM.match(data)
    if match is None:
        return None
    kind, width, height = (int(match.group(number)) for number in (1, 2, 3))
    values = width * height * (3 if kind in (3, 6) else 1)
    need = (
        (width + 7) // 8 * height
        if kind == 4
        else values * (2 if int(match.group(4) or 1) > 255 else 1)
    )
    if need > len(data) - match.start(4 if kind == 4 and match.group(4) else 0):
        raise FormatError("a truncated Netpbm image")
    return height, width


def _webp(data: bytes) -> Optional[Size]:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    if struct.unpack_from("<I", data, 4)[0] + 8 > len(data):
        raise FormatError("a truncated WebP")
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[27:30], "little") + 1, int.from_bytes(data[24:27], "little") + 1
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, 26)
    return height & 0x3FFF, width & 0x3FFF


def _tiff(data: bytes) -> Optional[Size]:
    order = {b"II*\x00": "<", b"MM\x00*": ">"}.get(data[:4])
    if order is None:
        return None
    at = struct.unpack_from(order + "I", data, 4)[0]
    fields: Dict[int, int] = {}
    for number in range(struct.unpack_from(order + "H", data, at)[0]):
        tag, kind = struct.unpack_from(order + "HH", data, at + 2 + 12 * number)
        if tag in (256, 257):
            fields[tag] = struct.unpack_from(
                order + ("H" if kind == 3 else "I"), data, at + 10 + 12 * number
            )[0]
    return fields.get(257, 0), fields.get(256, 0)


_READERS: Dict[str, Callable[[bytes], Optional[Size]]] = {
    "PNG": _png,
    "JPEG": _jpeg,
    "BMP": _bmp,
    "Netpbm": _pnm,
    "WebP": _webp,
    "TIFF": _tiff,
}
