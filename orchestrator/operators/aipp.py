"""AIPP, the preprocessing of images that an om begins with: what it makes of an image of bytes, by
its own settings.

Source: the vendor's public pages on AIPP (order of the steps, colour space conversion,
normalisation, cropping and padding) and, for the defaults, GE's public code. Not told there, and
taken as follows: the two rows and columns that share a chroma sample take it as it is; ``>> 8``
drops the fraction; a value outside 0 to 255 is cut off there. Where the device rounds otherwise a
pixel is off by one.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

import numpy as np

from ..base.errors import InputError

STATIC, DYNAMIC = 1, 2
YUV420SP, XRGB, RGB, YUV400 = "YUV420SP_U8", "XRGB8888_U8", "RGB888_U8", "YUV400_U8"
_FORMATS = {1: YUV420SP, 2: XRGB, 3: RGB, 4: YUV400}
_MODES = {"static": STATIC, "dynamic": DYNAMIC}
# BT.601 of narrow range, in 256ths: what AIPP takes where the configuration names no matrix.
_YUV_TO_RGB = (298, 0, 409, 298, -100, -208, 298, 516, 0)
_RGB_TO_YUV = (66, 129, 25, -38, -74, 112, 112, -94, -18)
_BIASES = (16, 128, 128)


class Preprocessing:
    """What the settings of an AIPP do.

    Parameters
    ----------
    settings
        By their names in the AIPP file; modes and formats by name or number.
    height, width, channels
        Of the model's own input.
    """

    def __init__(self, settings: Mapping[str, Any], height: int, width: int, channels: int) -> None:
        self._settings = settings
        self._height, self._width, self._channels = height, width, channels
        self.form = _FORMATS.get(settings.get("input_format"), settings.get("input_format"))  # type: ignore[arg-type]

    @property
    def unknown(self) -> Optional[str]:
        """Why it is not known what it makes of an image; None where that is known."""
        mode = self._settings.get("aipp_mode", STATIC)
        if _MODES.get(mode, mode) == DYNAMIC:
            return "a dynamic AIPP: its settings are given anew with each image"
        if self._settings.get("resize"):
            return "an AIPP that resizes: how the device interpolates is not documented"
        if self.form not in (YUV420SP, RGB, YUV400):
            return "an AIPP of images of format %s" % self.form
        return None

    @property
    def image_size(self) -> Tuple[int, int]:
        """Height and width of the image."""
        return self._integer("src_image_size_h") or self._height, self._integer(
            "src_image_size_w"
        ) or self._width

    @property
    def image_bytes(self) -> int:
        """Bytes of one image; 0 where the format is not known."""
        height, width = self.image_size
        twice = {YUV420SP: 3, XRGB: 8, RGB: 6, YUV400: 2}.get(str(self.form), 0)
        return height * width * twice // 2

    def __str__(self) -> str:
        height, width = self.image_size
        return "%s %dx%d" % (self.form, height, width)

    def make(self, image: np.ndarray) -> np.ndarray:
        """Return what becomes of one image.

        Parameters
        ----------
        image
            uint8, :attr:`image_bytes` of them in any shape, as they lie in memory.

        Returns
        -------
        numpy.ndarray
            float32, [channels, height, width] of the model's input.

        Raises
        ------
        InputError
            What comes out has another size than the model's input.
        """
        planes = self._planes(np.ascontiguousarray(image, np.uint8).reshape(-1))
        if self._settings.get("crop"):
            planes = self._cropped(planes)
        values = (
            self._converted(planes)
            if self._settings.get("csc_switch")
            else planes.astype(np.float64)
        )
        values = values[: self._channels] if self.form in (YUV420SP, RGB) else values
        done = self._padded(self._normalised(values))
        expected = (self._channels, self._height, self._width)
        if done.shape != expected:
            raise InputError(
                "AIPP makes %s of an image, the model's input is %s"
                % (list(done.shape), list(expected))
            )
        return done.astype(np.float32)

    def _planes(self, data: np.ndarray) -> np.ndarray:
        """Return the channels of an image, [channels, height, width], with two of them exchanged
        where that is asked for.
        """
        height, width = self.image_size
        if self.form == YUV400:
            return data.reshape(1, height, width)
        if self.form == RGB:
            planes = data.reshape(height, width, 3).transpose(2, 0, 1)
            return np.asarray(planes[::-1] if self._settings.get("rbuv_swap_switch") else planes)
        light = data[: height * width].reshape(height, width)
        chroma = data[height * width :].reshape(height // 2, width // 2, 2)
        chroma = chroma[..., ::-1] if self._settings.get("rbuv_swap_switch") else chroma
        return np.stack([light, *np.repeat(np.repeat(chroma, 2, 0), 2, 1).transpose(2, 0, 1)])

    def _cropped(self, planes: np.ndarray) -> np.ndarray:
        top, left = self._integer("load_start_pos_h"), self._integer("load_start_pos_w")
        height, width = (
            self._integer("crop_size_h") or self._height,
            self._integer("crop_size_w") or self._width,
        )
        return planes[:, top : top + height, left : left + width]

    def _converted(self, planes: np.ndarray) -> np.ndarray:
        from_yuv = self.form == YUV420SP
        defaults = _YUV_TO_RGB if from_yuv else _RGB_TO_YUV
        names = ["matrix_r%dc%d" % (row, column) for row in range(3) for column in range(3)]
        matrix = np.array(
            [self._integer(*pair) for pair in zip(names, defaults)], np.int64
        ).reshape(3, 3)
        before, after = (
            np.array(
                [self._integer("%s_bias_%d" % (name, at), bias) for at, bias in enumerate(_BIASES)],
                np.int64,
            )
            for name in ("input", "output")
        )
        values = planes.astype(np.int64) - (before[:, None, None] if from_yuv else 0)
        values = np.tensordot(matrix, values, 1) >> 8
        values = np.clip(values + (0 if from_yuv else after[:, None, None]), 0, 255)
        return np.asarray(values, np.float64)

    def _normalised(self, values: np.ndarray) -> np.ndarray:
        def each(name: str, otherwise: float) -> np.ndarray:
            numbers = [
                float(self._settings.get("%s_%d" % (name, at), otherwise))
                for at in range(len(values))
            ]
            return np.array(numbers)[:, None, None]

        return np.asarray(
            (values - each("mean_chn", 0) - each("min_chn", 0)) * each("var_reci_chn", 1)
        )

    def _padded(self, values: np.ndarray) -> np.ndarray:
        if not self._settings.get("padding"):
            return values
        rows = self._integer("top_padding_size"), self._integer("bottom_padding_size")
        columns = self._integer("left_padding_size"), self._integer("right_padding_size")
        filled = float(self._settings.get("cpadding_value", 0))
        return np.pad(values, ((0, 0), rows, columns), "constant", constant_values=filled)

    def _integer(self, name: str, otherwise: int = 0) -> int:
        return int(self._settings.get(name, otherwise))
