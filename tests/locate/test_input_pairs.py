"""Matching inputs of a model and its om, and giving both the same values."""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.base.errors import InputError, UsageError
from goldwatch.device.locate.input_pairs import named_files, pair_inputs
from goldwatch.device.locate.input_values import input_files, write_inputs
from goldwatch.device.locate.original_model import ONNX, TENSORFLOW, ModelInput, OriginalModel
from goldwatch.model.om_interface import OmInput

RGB = {"input_format": "RGB888_U8", "src_image_size_h": 6, "src_image_size_w": 6, "crop": True,
"crop_size_h": 4, "crop_size_w": 4,
       "mean_chn_0": 104, "var_reci_chn_1": 0.5}  # fmt: skip


def model(*inputs, kind=ONNX):
    return OriginalModel(kind, "model", None, tuple(ModelInput(*each) for each in inputs))


def written(paired, folder, seed=0):
    """Golden arrays and the device's bytes by name, and what was said."""
    assert not paired.problems
    said = write_inputs(paired.pairs, str(folder), seed)
    found = {}
    for files in input_files(paired.pairs, str(folder)):
        with open(files.device, "rb") as stream:
            found[files.name] = np.load(files.golden), stream.read()
    return found, said


def test_equal_inputs_get_the_same_bytes_on_both_sides(tmp_path) -> None:
    om = [OmInput("n", "int64", (4,)), OmInput("x", "float32", (2, 3))]
    paired = pair_inputs(model(("x", "float32", (None, 3)), ("n", "int64", (4,))), om, {}, {})
    assert [pair.model.name for pair in paired.pairs] == ["n", "x"], "in the om's order"
    found, said = written(paired, tmp_path)
    for golden, device in found.values():
        assert golden.tobytes() == device
    assert found["x"][0].shape == (2, 3) and set(found["n"][0]) <= {0, 1} and said == []


def test_golden_data_get_the_values_rounded_to_the_devices_float16(tmp_path) -> None:
    np.save(str(tmp_path / "x.npy"), np.array([[1.0001, 70000.0, 3e-9]], np.float32))
    paired = pair_inputs(
        model(("x", "float32", (1, 3))),
        [OmInput("x", "float16", (1, 3))],
        {"x": str(tmp_path / "x.npy")},
        {},
    )
    assert paired.pairs[0].notes == ("float16 for the om",)
    made, said = written(paired, tmp_path / "out")
    golden, device = made["x"]
    halves = np.frombuffer(device, np.float16)
    assert golden.dtype == np.float32 and np.array_equal(golden[0], halves.astype(np.float32))
    assert len(said) == 1 and "1 values are too large for float16" in said[0]


def test_inputs_are_transposed_for_an_om_of_another_layout(tmp_path) -> None:
    paired = pair_inputs(
        model(("x", "float32", (1, 3, 4, 5))),
        [OmInput("x", "float32", (1, 4, 5, 3), "NHWC")],
        {},
        {},
    )
    golden, device = written(paired, tmp_path)[0]["x"]
    assert golden.shape == (1, 3, 4, 5)
    assert np.array_equal(
        np.frombuffer(device, np.float32).reshape(1, 4, 5, 3), golden.transpose(0, 2, 3, 1)
    )
    # Given as the om has it, it is the same.
    np.save(str(tmp_path / "as_om.npy"), golden.transpose(0, 2, 3, 1))
    again = pair_inputs(model(("x", "float32", (1, 3, 4, 5))),
    [OmInput("x", "float32", (1, 4, 5, 3), "NHWC")],
                        {"x": str(tmp_path / "as_om.npy")}, {})  # fmt: skip
    given = written(again, tmp_path / "again")[0]["x"]
    assert np.array_equal(given[0], golden) and given[1] == device


def test_a_raw_file_is_given_to_the_device_unchanged(tmp_path) -> None:
    halves = np.arange(6, dtype=np.float16)
    halves.tofile(str(tmp_path / "x.bin"))
    om = [OmInput("x", "float16", (2, 3))]
    golden, device = written(
        pair_inputs(model(("x", "float32", (2, 3))), om, {"x": str(tmp_path / "x.bin")}, {}),
        tmp_path / "a",
    )[0]["x"]
    assert device == halves.tobytes() and np.array_equal(
        golden, halves.reshape(2, 3).astype(np.float32)
    )
    halves.astype(np.float32).tofile(str(tmp_path / "y.bin"))
    again = written(
        pair_inputs(model(("x", "float32", (2, 3))), om, {"x": str(tmp_path / "y.bin")}, {}),
        tmp_path / "b",
    )[0]["x"]
    assert again[1] == device and np.array_equal(again[0], golden)


@pytest.mark.parametrize(("kind", "shape"), [(ONNX, (2, 3, 4, 4)), (TENSORFLOW, (2, 4, 4, 3))])
def test_the_device_gets_an_image_and_golden_data_what_aipp_makes_of_it(
    tmp_path, kind, shape
) -> None:
    image = np.random.RandomState(0).randint(0, 256, (2, 6, 6, 3)).astype(np.uint8)
    np.save(str(tmp_path / "x.npy"), image)
    om = [OmInput("x", "uint8", (2, 6, 6, 3), "NHWC", RGB)]
    paired = pair_inputs(
        model(("x", "float32", (None, *shape[1:])), kind=kind),
        om,
        {"x": str(tmp_path / "x.npy")},
        {},
    )
    golden, device = written(paired, tmp_path)[0]["x"]
    assert device == image.tobytes() and golden.shape == shape
    made = image[:, :4, :4].astype(np.float32) * [1, 0.5, 1] - [104, 0, 0]
    assert np.array_equal(
        golden if kind == TENSORFLOW else golden.transpose(0, 2, 3, 1),
        made.astype(np.float16).astype(np.float32),
    )
    assert "golden data get what AIPP makes of it" in paired.pairs[0].notes[0]


def test_random_images_for_aipp_are_bytes(tmp_path) -> None:
    om = [OmInput("x", "uint8", (1, 6, 6, 3), "NHWC", RGB)]
    _, device = written(pair_inputs(model(("x", "float32", (1, 3, 4, 4))), om, {}, {}), tmp_path)[
        0
    ]["x"]
    assert len(device) == 108 and len(set(device)) > 50


def test_random_inputs_depend_on_the_seed(tmp_path) -> None:
    om = [OmInput("x", "float32", (2, 3)), OmInput("b", "int8", (50,))]
    paired = pair_inputs(model(("x", "float32", (2, 3)), ("b", "int8", (50,))), om, {}, {})
    first, same, other = (
        written(paired, tmp_path / str(number), seed)[0] for number, seed in enumerate((1, 1, 2))
    )
    assert first["x"][1] == same["x"][1] != other["x"][1]
    assert first["b"][0].min() < -50 and first["b"][0].max() > 50


def test_the_only_input_of_another_name_is_taken() -> None:
    paired = pair_inputs(
        model(("image", "float32", (1, 3))), [OmInput("x", "float32", (1, 3))], {}, {}
    )
    assert not paired.problems and paired.notes == [
        "the om's input x is taken for the model's image, by its type and shape"
    ]


def test_a_dynamic_om_needs_shapes_that_fit() -> None:
    om = [OmInput("x", "float32", (-1, 3, -1))]
    paired = pair_inputs(model(("x", "float32", (None, 3, None))), om, {}, {"x": (2, 3, 5)})
    assert paired.pairs[0].shape == (2, 3, 5)
    assert (
        '--shapes "x:'
        in pair_inputs(model(("x", "float32", (None, 3, None))), om, {}, {}).problems[0]
    )
    assert (
        "--shapes or its file gives it [2, 4, 5]"
        in pair_inputs(model(("x", "float32", None)), om, {}, {"x": (2, 4, 5)}).wrong_shapes[0]
    )


@pytest.mark.parametrize(
    ("inputs", "om", "words"),
    [
        (
            [("x", "float32", (1, 3))],
            [("x", "float32", (1, 4))],
            r"the model has float32 \[1, 3\], the om float32 \[1, 4\].*--input_shape",
        ),
        ([("x", "float32", (1, 3))], [("x", "int32", (1, 3))], "cannot be given to the other"),
        (
            [("x", "float32", (1, 3))],
            [("x", "float32", (1, 3)), ("y", "float32", (1,))],
            "inputs are x, the om's are x, y",
        ),
        ([("x", "float32", (1,)), ("z", "float32", (1,))], [("x", "float32", (1,))], "no input z"),
        ([("x", "float32", (1, 3))], [("x", "bfloat16", (1, 3))], "cannot be given"),
    ],
)
def test_models_whose_inputs_do_not_match_are_refused(inputs, om, words) -> None:
    problems = pair_inputs(model(*inputs), [OmInput(*each) for each in om], {}, {}).problems
    assert len(problems) == 1
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(problems[0])


@pytest.mark.parametrize(
    "settings", [{"aipp_mode": 2}, {"input_format": "RGB888_U8", "resize": True}]
)
def test_unsupported_aipp_settings_are_refused(settings) -> None:
    om = [OmInput("x", "uint8", (1, 6, 6, 3), "NHWC", settings)]
    (problem,) = pair_inputs(model(("x", "float32", (1, 3, 4, 4))), om, {}, {}).problems
    assert "what golden data would need is not known" in problem and "x=dump:FILE" in problem


def test_input_files_that_do_not_fit_are_refused(tmp_path) -> None:
    os.chdir(str(tmp_path))
    np.save("shape.npy", np.zeros((2, 2), np.float32))
    np.save("type.npy", np.zeros((1, 3), np.complex64))
    np.save("floats.npy", np.zeros((1, 6, 6, 3), np.float32))
    (tmp_path / "short.bin").write_bytes(b"1234567")
    (tmp_path / "no.npy").write_bytes(b"text")
    plain, om = model(("x", "float32", (1, 3))), [OmInput("x", "float32", (1, 3))]
    words = {"shape.npy": "has the shape [2, 2]", "type.npy": "holds complex64",
    "short.bin": "has 7 bytes", "no.npy": "no .npy file",
             "missing.npy": "no such file"}  # fmt: skip
    for name, text in words.items():
        (problem,) = pair_inputs(plain, om, {"x": name}, {}).problems
        assert text in problem, (name, problem)
    image = [OmInput("x", "uint8", (1, 6, 6, 3), "NHWC", RGB)]
    (problem,) = pair_inputs(
        model(("x", "float32", (1, 3, 4, 4))), image, {"x": "floats.npy"}, {}
    ).problems
    assert "the om takes an image there, RGB888_U8 6x6: 108 bytes of uint8" in problem


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 3, 8, 6), "array[:1]"),
        ((1, 8, 6, 3), "array.transpose(0, 3, 1, 2)"),
        ((3, 8, 6), "array.reshape(1, 3, 8, 6)"),
        ((1, 3, 9, 9), "--input_shape"),
        (None, "array.astype"),
    ],
)
def test_an_input_file_in_another_shape_comes_with_what_to_do(tmp_path, shape, words) -> None:
    path = str(tmp_path / ("x.bin" if shape is None else "x.npy"))
    if shape is None:
        np.zeros((1, 3, 8, 6)).tofile(path)
    else:
        np.save(path, np.zeros(shape, np.float32))
    plain = model(("x", "float32", (1, 3, 8, 6)))
    paired = pair_inputs(plain, [OmInput("x", "float32", (1, 3, 8, 6))], {"x": path}, {})
    (problem,) = paired.problems
    assert words in paired.hints[problem]


def test_a_shape_that_is_not_the_oms_comes_with_what_to_do() -> None:
    plain, om = model(("x", "float32", (None, 3))), [OmInput("x", "float32", (1, 3))]
    paired = pair_inputs(plain, om, {}, {"x": (4, 3)})
    (problem,) = paired.wrong_shapes
    assert "--input_shape=x:4,3" in paired.hints[problem]
    other = pair_inputs(model(("x", "float32", (2, 3))), om, {}, {})
    assert "--input_shape=x:2,3" in other.hints[other.problems[0]]


def test_an_unknown_input_name_is_refused_with_the_nearest() -> None:
    paired = pair_inputs(
        model(("image", "float32", (1,))),
        [OmInput("image", "float32", (1,))],
        {"imag": "x.npy"},
        {"imaje": (1,)},
    )
    (file,), (shape,) = paired.problems, paired.wrong_shapes
    assert "did you mean image?" in file and "did you mean image?" in shape


def test_values_beyond_the_oms_integer_type_are_refused(tmp_path) -> None:
    np.save(str(tmp_path / "x.npy"), np.array([1 << 40], np.int64))
    paired = pair_inputs(
        model(("x", "int64", (1,))),
        [OmInput("x", "int32", (1,))],
        {"x": str(tmp_path / "x.npy")},
        {},
    )
    with pytest.raises(InputError, match="cannot hold"):
        write_inputs(paired.pairs, str(tmp_path), 0)


def test_input_options_are_split_into_name_and_file(tmp_path) -> None:
    os.chdir(str(tmp_path))
    (tmp_path / "b=c").write_bytes(b"")
    assert named_files(["x=a.npy", "a=b=c"]) == {"x": "a.npy", "a": "b=c"}
    for texts in (["x"], ["=a"], ["x="], ["x=a", "x=b"]):
        with pytest.raises(UsageError):
            named_files(texts)


def test_an_empty_npy_input_is_reported_as_such(tmp_path) -> None:
    (tmp_path / "x.npy").write_bytes(b"")
    paired = pair_inputs(
        model(("x", "float32", (2,))),
        [OmInput("x", "float32", (2,))],
        {"x": str(tmp_path / "x.npy")},
        {},
    )
    assert len(paired.problems) == 1 and "x.npy: no .npy file" in paired.problems[0]


def test_inputs_of_other_names_are_matched_by_type_and_shape_alone() -> None:
    ids, mask = ("ids", "int64", (1, 8)), ("mask", "float32", (1, 8))
    om = [OmInput("arg1", "float32", (1, 8)), OmInput("arg0", "int64", (1, 8))]
    paired = pair_inputs(model(ids, mask), om, {}, {})
    assert [pair.model.name for pair in paired.pairs] == ["mask", "ids"]
    assert paired.notes == [
        "the om's input arg1 is taken for the model's mask, by its type and shape",
        "the om's input arg0 is taken for the model's ids, by its type and shape",
    ]
    # A name that holds the other decides among equals.
    types = ("types", "int64", (1, 8))
    named = [OmInput("serving_default_" + name, "int64", (1, 8)) for name in ("types", "ids")]
    paired = pair_inputs(model(ids, types), named, {}, {})
    assert [pair.model.name for pair in paired.pairs] == ["types", "ids"] and not paired.notes


def test_inputs_that_may_be_each_other_are_refused() -> None:
    inputs = [(name, "int64", (1, 8)) for name in ("ids", "mask")]
    om = [OmInput(name, "int64", (1, 8)) for name in ("arg0", "arg1")]
    paired = pair_inputs(model(*inputs), om, {}, {})
    assert not paired.pairs and len(paired.problems) == 2
    assert paired.problems[0] == (
        "the om's input arg0 (int64 [1, 8]) may be any, of the model's ids (int64 [1, 8]), "
        "mask (int64 [1, 8]); give its file by both names: -i arg0=FILE -i MODEL_INPUT=FILE"
    )


def test_a_file_that_is_given_to_both_names_tells_which_is_which(tmp_path) -> None:
    files = {"ids": str(tmp_path / "i.npy"), "arg1": str(tmp_path / "x" / ".." / "i.npy")}
    np.save(files["ids"], np.zeros((1, 8), np.int64))
    (tmp_path / "x").mkdir()
    inputs = [(name, "int64", (1, 8)) for name in ("ids", "mask")]
    om = [OmInput(name, "int64", (1, 8)) for name in ("arg0", "arg1")]
    paired = pair_inputs(model(*inputs), om, files, {})
    assert [pair.model.name for pair in paired.pairs] == ["mask", "ids"]
    assert paired.notes == [
        "the om's input arg0 is taken for the model's mask, by its type and shape"
    ]


def test_a_letter_within_another_name_is_no_name() -> None:
    inputs = [(name, "float32", (1, 8)) for name in ("a", "b")]
    om = [OmInput(name, "float32", (1, 8)) for name in ("Placeholder", "Placeholder_1")]
    assert pair_inputs(model(*inputs), om, {}, {}).problems
