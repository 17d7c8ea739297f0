"""Static AIPP against a reference that computes pixel by pixel in the vendor's documented order."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.base.errors import InputError
from goldwatch.operators.aipp import Preprocessing

BT601 = {
    "matrix_r0c0": 256, "matrix_r0c1": 0, "matrix_r0c2": 359, "matrix_r1c0": 256,
    "matrix_r1c1": -88, "matrix_r1c2": -183,
    "matrix_r2c0": 256, "matrix_r2c1": 454, "matrix_r2c2": 0, "input_bias_0": 0,
    "input_bias_1": 128, "input_bias_2": 128,
}  # fmt: skip
MEAN = {
    "mean_chn_0": 104,
    "mean_chn_1": 117,
    "mean_chn_2": 123,
    "min_chn_0": 0.5,
    "var_reci_chn_0": 0.25,
    "var_reci_chn_2": 2.0,
}


def pixel(settings, data, height, width, row, column):
    """One pixel of an image as it lies in memory: its three channels, or one."""
    form = settings["input_format"]
    if form == "YUV400_U8":
        return [int(data[row * width + column])]
    if form == "RGB888_U8":
        found = [int(data[(row * width + column) * 3 + channel]) for channel in range(3)]
        return found[::-1] if settings.get("rbuv_swap_switch") else found
    at = height * width + (row // 2) * width + (column // 2) * 2
    chroma = [int(data[at]), int(data[at + 1])]
    return [int(data[row * width + column])] + (
        chroma[::-1] if settings.get("rbuv_swap_switch") else chroma
    )


def reference(settings, data, source, wanted):
    """[channels][row][column], computed one by one."""
    height, width = source
    channels, high, wide = wanted
    top = settings.get("load_start_pos_h", 0) if settings.get("crop") else 0
    left = settings.get("load_start_pos_w", 0) if settings.get("crop") else 0
    inner_high = high - settings.get("top_padding_size", 0) - settings.get("bottom_padding_size", 0)
    inner_wide = wide - settings.get("left_padding_size", 0) - settings.get("right_padding_size", 0)
    out = np.full(wanted, float(settings.get("cpadding_value", 0)))
    for row in range(inner_high):
        for column in range(inner_wide):
            values = pixel(settings, data, height, width, top + row, left + column)
            if settings.get("csc_switch"):
                biased = values
                if settings["input_format"] == "YUV420SP_U8":
                    biased = [
                        value - settings.get("input_bias_%d" % at, (16, 128, 128)[at])
                        for at, value in enumerate(values)
                    ]
                made = [
                    sum(settings["matrix_r%dc%d" % (to, at)] * biased[at] for at in range(3)) >> 8
                    for to in range(3)
                ]
                if settings["input_format"] == "RGB888_U8":
                    made = [
                        value + settings.get("output_bias_%d" % at, (16, 128, 128)[at])
                        for at, value in enumerate(made)
                    ]
                values = [min(255, max(0, value)) for value in made]
            for channel in range(channels):
                value = (
                    values[channel]
                    - settings.get("mean_chn_%d" % channel, 0)
                    - settings.get("min_chn_%d" % channel, 0)
                )
                place = (
                    channel,
                    settings.get("top_padding_size", 0) + row,
                    settings.get("left_padding_size", 0) + column,
                )
                out[place] = value * settings.get("var_reci_chn_%d" % channel, 1)
    return out


CASES = {
    "rgb": ({"input_format": "RGB888_U8"}, (6, 8), (3, 6, 8)),
    "mean": ({"input_format": "RGB888_U8", **MEAN}, (6, 8), (3, 6, 8)),
    "bgr": ({"input_format": "RGB888_U8", "rbuv_swap_switch": True, **MEAN}, (6, 8), (3, 6, 8)),
    "crop": (
        {"input_format": "RGB888_U8", "crop": True, "load_start_pos_h": 2, "load_start_pos_w": 1,
        "crop_size_h": 4, "crop_size_w": 5},
        (8, 8),
        (3, 4, 5),
    ),
    "padding": (
        {"input_format": "RGB888_U8", "padding": True, "top_padding_size": 1,
        "left_padding_size": 2, "bottom_padding_size": 1,
         "right_padding_size": 1, "cpadding_value": 3.5, **MEAN},
        (6, 8),
        (3, 8, 11),
    ),
    "nv12": ({"input_format": "YUV420SP_U8", "csc_switch": True, **BT601, **MEAN}, (6, 8),
    (3, 6, 8)),
    "nv21": ({"input_format": "YUV420SP_U8", "csc_switch": True, "rbuv_swap_switch": True, **BT601},
    (6, 8), (3, 6, 8)),
    "yuv": ({"input_format": "YUV420SP_U8"}, (6, 8), (3, 6, 8)),
    "grey": ({"input_format": "YUV400_U8", "mean_chn_0": 100}, (6, 8), (1, 6, 8)),
    "light": ({"input_format": "YUV420SP_U8", "mean_chn_0": 100}, (6, 8), (1, 6, 8)),
    "to-yuv": (
        {"input_format": "RGB888_U8", "csc_switch": True,
         **{"matrix_r%dc%d" % (at // 3, at % 3): value for at,
         value in enumerate((66, 129, 25, -38, -74, 112, 112, -94, -18))}},
        (6, 8),
        (3, 6, 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_aipp_step_equals_the_vendors_definition(name) -> None:
    settings, source, wanted = CASES[name]
    settings = dict(settings, src_image_size_h=source[0], src_image_size_w=source[1])
    found = Preprocessing(settings, wanted[1], wanted[2], wanted[0])
    assert found.unknown is None
    image = np.random.RandomState(1).randint(0, 256, found.image_bytes).astype(np.uint8)
    expected = reference(settings, image, source, wanted)
    assert np.array_equal(found.make(image), expected.astype(np.float32))


def test_the_size_of_an_image_follows_from_its_format() -> None:
    sizes = {
        form: Preprocessing(
            {"input_format": form, "src_image_size_h": 10, "src_image_size_w": 20}, 10, 20, 3
        ).image_bytes
        for form in ("YUV420SP_U8", "RGB888_U8", "YUV400_U8", "XRGB8888_U8")
    }
    assert sizes == {"YUV420SP_U8": 300, "RGB888_U8": 600, "YUV400_U8": 200, "XRGB8888_U8": 800}
    assert (
        Preprocessing({"input_format": 1}, 4, 4, 3).image_bytes == 24
    ), "a number as GE has it; without a size the model's own"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"aipp_mode": "dynamic"}, "dynamic"),
        ({"aipp_mode": 2}, "dynamic"),
        ({"input_format": "RGB888_U8", "resize": True}, "resizes"),
        ({"input_format": "XRGB8888_U8"}, "XRGB8888_U8"),
        ({"input_format": 14}, "format 14"),
    ],
)
def test_unsupported_aipp_settings_are_named(settings, words) -> None:
    assert words in Preprocessing(settings, 4, 4, 3).unknown


def test_an_image_that_does_not_give_the_models_input_is_refused() -> None:
    found = Preprocessing(
        {"input_format": "RGB888_U8", "src_image_size_h": 8, "src_image_size_w": 8}, 4, 4, 3
    )
    with pytest.raises(
        InputError, match=r"\[3, 8, 8\] of an image, the model's input is \[3, 4, 4\]"
    ):
        found.make(np.zeros(found.image_bytes, np.uint8))
