"""AIPP on the stand-in's device: an image of bytes becomes the values of an input, by the settings
of ``--insert_op_conf``.

Static AIPP of RGB888_U8, YUV420SP_U8 and YUV400_U8: crop, exchange of channels, colour space
conversion, mean, least value and factor, padding. Written apart from goldwatch's own, with which it
is tried. Source: the vendor's public pages on AIPP (settings and their order). Chroma is taken as
it is for its four pixels; ``>> 8`` drops the fraction; a converted value is cut off at 0 and 255.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np

from ...base.fast_dataclasses import dataclass
from .precision_options import AtcError, read_text

Array = Any

_FORMATS = {"YUV420SP_U8": 1, "RGB888_U8": 3, "YUV400_U8": 4}
_TRUTHS = {"true": True, "false": False}
_BIASES = (16, 128, 128)


@dataclass(frozen=True)
class Aipp:
    """The settings for one input, by their names in the file."""

    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Which input it is for."""
        return int(self.settings.get("related_input_rank", 0))

    def image_shape(self, shape: Tuple[int, ...]) -> Tuple[int, int, int, int]:
        """Return the shape that the om tells of the image for an input [N, C, H, W]: [N, H, W,
        C].
        """
        channels = 1 if self._form == "YUV400_U8" else 3
        height = int(self.settings.get("src_image_size_h", shape[2]))
        return shape[0], height, int(self.settings.get("src_image_size_w", shape[3])), channels

    def image_bytes(self, shape: Tuple[int, ...]) -> int:
        """Return the bytes of all images for an input [N, C, H, W]."""
        count, height, width, _ = self.image_shape(shape)
        return (
            count
            * height
            * width
            * {"RGB888_U8": 6, "YUV420SP_U8": 3, "YUV400_U8": 2}[self._form]
            // 2
        )

    def attribute(self) -> Dict[str, Any]:
        """Return the attribute ``aipp`` of the Data, as GE writes it: a list of named values,
        formats as numbers, zeros left out.
        """
        entries: List[Dict[str, Any]] = []
        for name, value in self.settings.items():
            kept = {"static": 1}.get(value, _FORMATS.get(value, value))
            kind = "b" if isinstance(kept, bool) else "i" if isinstance(kept, int) else "f"
            entries.append({"key": name, "value": {kind: kept} if kept else {}})
        return {"func": {"name": "", "attr": entries}}

    def values(self, images: Array, shape: Tuple[int, ...]) -> Array:
        """Return the values of an input [N, C, H, W], float32, of the bytes of its images."""
        count = shape[0]
        pictures = [
            self._picture(image, shape) for image in np.asarray(images, np.uint8).reshape(count, -1)
        ]
        return np.stack(pictures).astype(np.float32).reshape(shape)

    @property
    def _form(self) -> str:
        return str(self.settings["input_format"])

    def _picture(self, image: Array, shape: Tuple[int, ...]) -> Array:
        _, height, width, _ = self.image_shape(shape)
        channels = self._channels(image, height, width)
        if self.settings.get("crop"):
            top, left = (int(self.settings.get("load_start_pos_" + axis, 0)) for axis in "hw")
            size = [int(self.settings.get("crop_size_" + axis, 0)) for axis in "hw"]
            high, wide = size[0] or shape[2], size[1] or shape[3]
            channels = [plane[top : top + high, left : left + wide] for plane in channels]
        if self.settings.get("csc_switch") and len(channels) == 3:
            channels = self._converted(channels)
        planes = [
            self._normalised(plane, number) for number, plane in enumerate(channels[: shape[1]])
        ]
        if self.settings.get("padding"):
            sides = [
                int(self.settings.get(side + "_padding_size", 0))
                for side in ("top", "bottom", "left", "right")
            ]
            value = float(self.settings.get("cpadding_value", 0))
            planes = [_bordered(plane, sides, value) for plane in planes]
        return np.stack(planes)

    def _channels(self, image: Array, height: int, width: int) -> List[Array]:
        swapped = bool(self.settings.get("rbuv_swap_switch"))
        if self._form == "YUV400_U8":
            return [image.reshape(height, width).astype(np.int64)]
        if self._form == "RGB888_U8":
            planes = [
                image[channel::3].reshape(height, width).astype(np.int64) for channel in range(3)
            ]
            return planes[::-1] if swapped else planes
        light = image[: height * width].reshape(height, width).astype(np.int64)
        rest = image[height * width :]
        rows, columns = np.arange(height) // 2, np.arange(width) // 2
        chroma = [
            rest[part::2].reshape(height // 2, width // 2)[rows][:, columns].astype(np.int64)
            for part in (0, 1)
        ]
        return [light, *(chroma[::-1] if swapped else chroma)]

    def _converted(self, channels: List[Array]) -> List[Array]:
        yuv = self._form == "YUV420SP_U8"
        name = "input_bias_%d" if yuv else "output_bias_%d"
        biases = [int(self.settings.get(name % number, _BIASES[number])) for number in range(3)]
        given = [plane - bias for plane, bias in zip(channels, biases)] if yuv else channels
        converted = []
        for row in range(3):
            total = sum(
                int(self.settings.get("matrix_r%dc%d" % (row, column), 0)) * given[column]
                for column in range(3)
            )
            converted.append(
                np.clip((np.asarray(total) >> 8) + (0 if yuv else biases[row]), 0, 255)
            )
        return converted

    def _normalised(self, plane: Array, number: int) -> Array:
        mean, least = (
            float(self.settings.get("%s_chn_%d" % (name, number), 0)) for name in ("mean", "min")
        )
        return (plane - mean - least) * float(self.settings.get("var_reci_chn_%d" % number, 1))


def _bordered(plane: Array, sides: List[int], value: float) -> Array:
    top, bottom, left, right = sides
    bordered = np.full((plane.shape[0] + top + bottom, plane.shape[1] + left + right), value)
    bordered[top : top + plane.shape[0], left : left + plane.shape[1]] = plane
    return bordered


def read_aipp(path: str) -> List[Aipp]:
    """Return what a file of ``--insert_op_conf`` says.

    Raises
    ------
    AtcError
        It has another form, or wants what the stand-in does not imitate.
    """
    text = re.sub(r"#.*", "", read_text(path, "insert_op_conf"))
    inputs = []
    for block in re.findall(r"aipp_op\s*\{([^{}]*)\}", text):
        settings = {
            name: _value(value)
            for name, value in re.findall(r"(\w+)\s*:\s*(\"[^\"]*\"|[^\s:]+)", block)
        }
        if (
            settings.get("aipp_mode") != "static"
            or settings.get("input_format") not in _FORMATS
            or settings.get("resize")
        ):
            text = "the stand-in imitates a static AIPP of %s without resize" % ", ".join(_FORMATS)
            raise AtcError("E10001", "[--insert_op_conf]: %s" % text)
        inputs.append(Aipp(settings))
    if not inputs:
        raise AtcError("E10001", "[--insert_op_conf] has no aipp_op")
    return inputs


def _value(text: str) -> Any:
    if text in _TRUTHS:
        return _TRUTHS[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text.strip('"')
