"""What an input of the device is beside the golden one: channels, factor, offset, crop."""

from __future__ import annotations

import json

import numpy as np
import pytest
from in_process import run_here

from goldwatch.judging.diagnosis.other_preprocessing import changed_image
from goldwatch.metrics.patterns import AlignedPair
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor
from goldwatch.testing.device_dump import write_files


def picture(height, width, seed=0):
    random = np.random.RandomState(seed)
    smooth = random.uniform(0, 1, (1, 3, height // 4, width // 4)).repeat(4, 2).repeat(4, 3)
    return (0.8 * smooth + 0.2 * random.uniform(0, 1, smooth.shape)).astype(np.float32)


WHOLE = picture(48, 64)
GOLDEN = WHOLE[:, :, 4:44, 8:56]
MEANS = np.float32([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1)
CHANGES = {
    "channels": (GOLDEN[:, ::-1], "channels 0 and 2 exchanged", "rbuv_swap_switch"),
    "turned": (GOLDEN[:, [1, 2, 0]], "channels in the order 1, 2, 0", "rbuv_swap_switch"),
    "factor": (GOLDEN * 255, "x 255", "var_reci_chn_0 to 3"),
    "mean": (
        GOLDEN + MEANS,
        "plus (0.485, 0.456, 0.406 by channel)",
        "mean_chn_0 to 3 and min_chn_0 to 3",
    ),
    "crop": (
        WHOLE[:, :, 6:46, 3:51],
        "cut out 2 rows and -5 columns further on",
        "load_start_pos_h and load_start_pos_w of its crop",
    ),
    "other layout": (
        GOLDEN.transpose(0, 2, 3, 1).reshape(GOLDEN.shape),
        "its values channels last (NHWC), read as NCHW",
        "input_format",
    ),
    "channels and factor": (
        GOLDEN[:, ::-1] * 255,
        "channels 0 and 2 exchanged, x 255",
        "rbuv_swap_switch, var_reci_chn_0 to 3",
    ),
}


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("kind", sorted(CHANGES))
def test_how_the_image_was_changed_is_named_with_numbers(kind, nhwc):
    device, words, settings = CHANGES[kind]
    sides = [device.astype(np.float16).astype(np.float32), GOLDEN]
    letters = tuple("NHWC" if nhwc else "NCHW")
    if nhwc:
        sides = [side.transpose(0, 2, 3, 1) for side in sides]
    pair = AlignedPair(*sides, "float16", letters, GOLDEN.size)
    assert changed_image(pair) == (words, settings)


def test_of_another_image_nothing_is_said():
    for other in (picture(40, 48, 5), np.zeros_like(GOLDEN)):
        assert changed_image(AlignedPair(other, GOLDEN, "float16", tuple("NCHW"), 1)) is None


@pytest.mark.parametrize("kind", ["channels", "factor"])
def test_the_output_of_an_aipp_is_compared_with_the_golden_input(tmp_path, kind):
    device, words, settings = CHANGES[kind]
    image = np.zeros((1, 40, 48, 3), np.uint8)
    model = DeviceModel("net")
    tensor = DeviceTensor(image, "NHWC", "NHWC", "images")
    model.add(DeviceOp("images", "Data", (), (tensor,)))
    for op, kind_of_op, source, values, original in (
        ("aipp_0", "Aipp", "images", device, None),
        ("neg", "Neg", "aipp_0", -device, "neg"),
    ):
        made = DeviceTensor(values.astype(np.float16), "NCHW", "NCHW", original)
        originals = () if original is None else (original,)
        model.add(DeviceOp(op, kind_of_op, ((source, 0),), (made,), originals))
    model.add(DeviceOp("Node_Output", "NetOutput", (("neg", 0),), (), ()))
    model.write_json(str(tmp_path / "net.json"))
    write_files(str(tmp_path / "dump"), list(model.dumps()))
    (tmp_path / "golden").mkdir()
    for name, values in (("images", GOLDEN), ("neg", -GOLDEN)):
        np.save(str(tmp_path / "golden" / (name + ".0.1700000000000000.npy")), values)
    words_of_compare = ["goldwatch", "compare", "dump", "golden", "-f", "net.json", "-o", "out"]
    done = run_here(words_of_compare, tmp_path)
    with open(str(tmp_path / "out" / "result.json"), encoding="utf-8") as stream:
        suspects = json.load(stream)["summary"]["suspects"]
    assert done.returncode == 1 and "no operator need be wrong" in done.stdout
    assert [suspect["op"] for suspect in suspects] == ["aipp_0"]
    (explanation,) = suspects[0]["explanations"]
    assert explanation["kind"] == "other-input" and words in explanation["sentence"]
    assert settings in explanation["next"]
