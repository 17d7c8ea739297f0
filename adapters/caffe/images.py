"""An image file as a net's input blob: decoded, cropped or resized, minus the mean, times the
scale, channels in order.

Source of the order of steps: Caffe's DataTransformer at phase TEST (centre crop, mean, scale).
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import replace
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from ...base.errors import EnvironmentProblem, FormatError, InputError, UsageError, require_file
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...base.safe_reading import open_input
from ...base.wording import size_text
from ...netfiles.caffemodel import read_mean
from ...netfiles.protobuf_text import Message, number_of
from ..read_npy import read_npy


def require_room(path: str, what: str, size_bytes: int, limit_bytes: int) -> None:
    """Raise InputError when an input needs more memory than it may.

    Parameters
    ----------
    what
        What the file holds, for the message.
    """
    if size_bytes > limit_bytes:
        message = "%s: %s needs %s in memory; the limit for one input is %s"
        raise InputError(
            message % (printable(path), what, size_text(size_bytes), size_text(limit_bytes)),
            hint="raise it with `max_input_bytes=SIZE`",
        )


@dataclass(frozen=True)
class Transform:
    """How an image becomes numbers.

    Attributes
    ----------
    mean
        One value, one per channel, or an array (channels, height, width); in the order of
        ``channel_order``.
    scale
        Factor after the mean was subtracted.
    channel_order
        ``BGR`` (as Caffe's own tools make it) or ``RGB``.
    crop
        Side of the centre crop, 0 for none.
    """

    mean: Optional[np.ndarray] = None
    scale: float = 1.0
    channel_order: str = "BGR"
    crop: int = 0


def transform_from(message: Optional[Message], model_folder: str) -> Transform:
    """Return the transform of a layer's transform_param.

    Parameters
    ----------
    model_folder
        Where a mean_file is looked for when it is not below the current folder.
    """
    if message is None:
        return Transform()
    mean: Optional[np.ndarray] = None
    values = [number_of(text) for text in message.texts("mean_value")]
    if values:
        mean = np.array(values, dtype=np.float32)
    if message.has("mean_file"):
        path = message.text("mean_file")
        beside = os.path.join(model_folder, path)
        mean = read_mean(path if os.path.exists(path) or not os.path.exists(beside) else beside)
    return Transform(mean, message.number("scale", 1.0), "BGR", message.integer("crop_size", 0))


def with_options(
    transform: Transform, mean: Optional[str], scale: Optional[float], channel_order: Optional[str]
) -> Transform:
    """Return the transform with what the options say in place of transform_param.

    Parameters
    ----------
    mean
        ``104,117,123``, one number, or a file (.npy or .binaryproto).
    """
    if mean is not None:
        transform = replace(transform, mean=_mean_of(mean))
    if scale is not None:
        transform = replace(transform, scale=scale)
    if channel_order is not None:
        transform = replace(transform, channel_order=channel_order.upper())
    return transform


def _mean_of(text: str) -> np.ndarray:
    try:
        return np.array([float(part) for part in text.split(",")], dtype=np.float32)
    except ValueError:
        pass
    if not os.path.exists(text):
        hint = "for example `mean=104,117,123` or `mean=mean.npy`"
        raise UsageError("`mean` %s is neither numbers nor a file" % printable(text), hint=hint)
    if not text.endswith(".npy"):
        return read_mean(text)
    require_file(text, "mean file")

    def check(shape: Tuple[int, ...], dtype: np.dtype) -> None:
        if dtype.kind not in "biuf":
            raise FormatError("a mean of %s" % dtype, text)

    with open_input(text) as stream:
        mean = read_npy(stream, text, os.path.getsize(text), check).astype(np.float32)
    return mean[0] if mean.ndim == 4 else mean


def load_image(
    path: str, shape: Tuple[int, ...], transform: Transform, limit_bytes: int
) -> np.ndarray:
    """Return one image as a float32 array (1, channels, height, width).

    Parameters
    ----------
    shape
        The net input's shape; its channels, height and width are met.
    limit_bytes
        A picture that is larger when decoded is refused before it is.

    Raises
    ------
    InputError
        The input has not one or three channels, or the mean does not fit.
    EnvironmentProblem
        No decoder is installed.
    """
    require_file(path, "image")
    if len(shape) != 4 or shape[1] not in (1, 3):
        what = (
            "an input of shape %s" % list(shape)
            if shape
            else "an input whose shape the prototxt does not tell"
        )
        raise InputError(
            "%s: an image cannot fill %s" % (printable(path), what), hint="give an npy file"
        )
    _, channels, height, width = shape
    require_room(path, "the file", os.path.getsize(path), limit_bytes)
    rows, columns = image_size(path)
    require_room(
        path,
        "a picture of %d x %d pixels" % (columns, rows),
        max(rows * columns, 4 * height * width) * channels,
        limit_bytes,
    )
    pixels = _decode(path, channels == 1)
    if transform.crop and min(pixels.shape[:2]) >= transform.crop:
        top, left = ((size - transform.crop) // 2 for size in pixels.shape[:2])
        pixels = pixels[top : top + transform.crop, left : left + transform.crop]
    if pixels.shape[:2] != (height, width):
        pixels = _resize(pixels, height, width)
    planes = pixels.reshape(height, width, channels).transpose(2, 0, 1).astype(np.float32)
    if transform.channel_order == "RGB" and channels == 3:
        planes = planes[::-1]
    values = (planes - _fitting_mean(transform.mean, planes.shape)) * np.float32(transform.scale)
    return np.asarray(values[np.newaxis], dtype=np.float32)


def _fitting_mean(mean: Optional[np.ndarray], shape: Tuple[int, ...]) -> Any:
    if mean is None:
        return np.float32(0)
    if mean.size in (1, shape[0]):
        return mean.reshape(-1, 1, 1)
    if (
        mean.ndim == 3
        and mean.shape[0] == shape[0]
        and mean.shape[1] >= shape[1]
        and mean.shape[2] >= shape[2]
    ):
        top, left = (mean.shape[1] - shape[1]) // 2, (mean.shape[2] - shape[2]) // 2
        return mean[:, top : top + shape[1], left : left + shape[2]]
    raise InputError(
        "a mean of shape %s does not fit an input of %s" % (list(mean.shape), list(shape))
    )


def _decode(path: str, grey: bool) -> np.ndarray:
    """Return pixels (height, width[, 3]), uint8, BGR."""
    try:
        import cv2
    except ImportError:
        return _decode_with_pillow(path, grey)
    try:
        pixels = cv2.imread(path, cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR)
    except (cv2.error, MemoryError) as error:
        raise FormatError(
            "not an image that OpenCV can decode: %s" % " ".join(str(error).split()), path
        ) from error
    if pixels is None:
        raise FormatError("not an image that OpenCV can decode", path)
    return np.asarray(pixels)


def _decode_with_pillow(path: str, grey: bool) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        hint = "pip install 'goldwatch[caffe]', or give the input as an npy file"
        raise EnvironmentProblem(
            "%s: no image decoder is installed (OpenCV or Pillow)" % printable(path), hint=hint
        ) from error
    try:
        with Image.open(path) as image:
            array = np.asarray(image.convert("L" if grey else "RGB"))
    except (OSError, ValueError) as error:
        raise FormatError("not an image that Pillow can decode: %s" % error, path) from error
    return array if grey else array[:, :, ::-1]


def _resize(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the pixels resized bilinearly, pixel centres aligned, rounded to uint8."""
    rows, columns = (_taps(size, new) for size, new in zip(pixels.shape[:2], (height, width)))
    data = pixels.astype(np.float64).reshape(pixels.shape[0], pixels.shape[1], -1)
    data = data[rows[0]] * (1 - rows[2])[:, None, None] + data[rows[1]] * rows[2][:, None, None]
    data = (
        data[:, columns[0]] * (1 - columns[2])[None, :, None]
        + data[:, columns[1]] * columns[2][None, :, None]
    )
    return np.asarray(np.rint(data), dtype=np.uint8)


def _taps(size: int, new: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    at = np.clip((np.arange(new) + 0.5) * size / new - 0.5, 0, size - 1)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, size - 1), at - low


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
