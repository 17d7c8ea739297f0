"""An image file as a net's input blob: decoded, cropped or resized, minus the mean, times the
scale, channels in order.

Source of the order of steps: Caffe's DataTransformer at phase TEST (centre crop, mean, scale).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Optional, Tuple

import numpy as np

from ...base.errors import EnvironmentProblem, FormatError, InputError, UsageError, require_file
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...base.safe_reading import open_input
from ...base.wording import size_text
from ...netfiles.caffemodel import read_mean
from ...netfiles.protobuf_text import Message, number_of
from ..read_npy import read_npy
from .image_size import image_size


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
