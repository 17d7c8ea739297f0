"""AIPP of the stand-in: its file, the om's image input, each pixel."""

from __future__ import annotations

import host_models
import numpy as np
import pytest
from host_models import acl_json, compile_onnx, dump_names, golden, ops_of, run_ais_bench, run_atc

from goldwatch.testing.host.aipp import read_aipp
from goldwatch.testing.host.om_file import read_om
from goldwatch.testing.host.precision_options import AtcError

BT601 = """csc_switch: true
  matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
  matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
  matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
  input_bias_0: 0 input_bias_1: 128 input_bias_2: 128"""
CROP = (
    "src_image_size_h: 10 src_image_size_w: 12 crop: true load_start_pos_h: 1 load_start_pos_w: 2 "
    "crop_size_h: 8 crop_size_w: 8"
)
FACTORS = "mean_chn_0: 104 mean_chn_1: 117 var_reci_chn_0: 0.0171 var_reci_chn_2: 0.0175"


def written(folder, text):
    (folder / "aipp.cfg").write_text(
        "# a comment\naipp_op {\n  aipp_mode: static\n  %s\n}\n" % text
    )
    return str(folder / "aipp.cfg")


def test_rgb_pixels_are_cropped_and_normalised_as_documented(tmp_path):
    (aipp,) = read_aipp(
        written(tmp_path, "input_format : RGB888_U8 rbuv_swap_switch: true %s %s" % (CROP, FACTORS))
    )
    image = np.random.RandomState(0).randint(0, 256, (2, 10, 12, 3)).astype(np.uint8)
    assert (
        aipp.image_shape((2, 3, 8, 8)) == (2, 10, 12, 3)
        and aipp.image_bytes((2, 3, 8, 8)) == image.size
    )
    made = aipp.values(image, (2, 3, 8, 8))
    for place in [(0, 0, 0, 0), (1, 2, 7, 7), (0, 1, 3, 5), (1, 0, 2, 6)]:
        n, channel, row, column = place
        pixel = float(image[n, row + 1, column + 2, 2 - channel])
        wanted = (pixel - (104, 117, 0)[channel]) * (0.0171, 1, 0.0175)[channel]
        assert made[place] == pytest.approx(wanted, rel=1e-6)


def test_yuv_pixels_are_converted_as_documented(tmp_path):
    (aipp,) = read_aipp(written(tmp_path, "input_format : YUV420SP_U8 %s" % BT601))
    data = np.random.RandomState(1).randint(0, 256, 4 * 6 * 3 // 2).astype(np.uint8)
    assert aipp.image_bytes((1, 3, 4, 6)) == data.size
    made = aipp.values(data, (1, 3, 4, 6))
    for row in range(4):
        for column in range(6):
            at = 24 + (row // 2) * 6 + column // 2 * 2
            y, u, v = int(data[row * 6 + column]), int(data[at]) - 128, int(data[at + 1]) - 128
            sums = (256 * y + 359 * v, 256 * y - 88 * u - 183 * v, 256 * y + 454 * u)
            assert [made[0, channel, row, column] for channel in range(3)] == [
                min(255, max(0, total >> 8)) for total in sums
            ]


def test_grey_images_are_padded_with_a_border(tmp_path):
    text = (
        "input_format: YUV400_U8 src_image_size_h: 2 src_image_size_w: 2 padding: true "
        "left_padding_size: 1 "
    )
    text += "bottom_padding_size: 2 cpadding_value: 9"
    (aipp,) = read_aipp(written(tmp_path, text))
    made = aipp.values(np.array([1, 2, 3, 4], np.uint8), (1, 1, 4, 3))
    assert made[0, 0].tolist() == [[9, 1, 2], [9, 3, 4], [9, 9, 9], [9, 9, 9]]


@pytest.mark.parametrize(
    "text",
    ["input_format: XRGB8888_U8", "input_format: RGB888_U8 resize: true", "aipp_mode: dynamic"],
)
def test_unsupported_aipp_settings_are_refused(tmp_path, text):
    with pytest.raises(AtcError, match="the stand-in imitates a static AIPP"):
        read_aipp(written(tmp_path, text))
    (tmp_path / "none.cfg").write_text("nothing")
    with pytest.raises(AtcError, match="has no aipp_op"):
        read_aipp(str(tmp_path / "none.cfg"))


def test_an_om_with_aipp_takes_images(tmp_path):
    path = host_models.conv_net(tmp_path / "net.onnx")
    om = compile_onnx(
        path,
        tmp_path / "net.om",
        insert_op_conf=written(tmp_path, "input_format: RGB888_U8 %s %s" % (CROP, FACTORS)),
    )
    ops = ops_of(read_om(om).document)
    assert ops["x"]["output_desc"][0]["dtype"] == "DT_UINT8" and ops["x"]["output_desc"][0][
        "shape"
    ]["dim"] == [1, 10, 12, 3]
    settings = next(
        entry["value"]["func"]["attr"] for entry in ops["x"]["attr"] if entry["key"] == "aipp"
    )
    told = {entry["key"]: entry["value"] for entry in settings}
    assert (
        told["input_format"] == {"i": 3}
        and told["crop"] == {"b": True}
        and told["var_reci_chn_0"] == {"f": 0.0171}
    )
    assert (
        ops["aipp_0"]["type"] == "Aipp" and ops["aipp_0"]["output_desc"][0]["dtype"] == "DT_FLOAT16"
    )
    image = np.random.RandomState(0).randint(0, 256, (1, 10, 12, 3)).astype(np.uint8)
    image.tofile(str(tmp_path / "x.bin"))
    config = acl_json(tmp_path / "acl.json", tmp_path / "dump", "net")
    words = [
        "--model",
        om,
        "--input",
        tmp_path / "x.bin",
        "--output",
        tmp_path / "out",
        "--output_dirname",
        "o",
        "--outfmt",
        "NPY",
    ]
    assert (
        run_ais_bench(tmp_path / "npu", *words, "--warmup_count", "0", "--acl_json_path", config)
        == 0
    )
    assert any(name.startswith("Aipp.aipp_0.") for name in dump_names(tmp_path / "dump"))
    (aipp,) = read_aipp(str(tmp_path / "aipp.cfg"))
    wanted = golden(path, {"x": aipp.values(image, (1, 3, 8, 8))})[0]
    assert np.allclose(np.load(str(tmp_path / "out" / "o" / "x_0.npy")), wanted, atol=5e-3)


def test_aipp_for_an_unsuitable_input_is_refused(tmp_path, capsys):
    config = written(tmp_path, "input_format: RGB888_U8")
    words = [
        "--framework=5",
        "--model=" + host_models.dynamic_net(tmp_path / "dyn.onnx"),
        "--output=%s" % (tmp_path / "dyn"),
    ]
    words += [
        "--soc_version=Ascend310P3",
        "--insert_op_conf=" + config,
        "--input_shape=x:-1,3,8,8;y0:-1,10",
    ]
    assert run_atc(*words) == 1
    assert (
        "imitates AIPP for inputs [N, C, H, W] of fixed shape; x is none" in capsys.readouterr().out
    )
