"""Options, shapes, gears and ranges of an atc command line."""

from __future__ import annotations

import pytest

from goldwatch.model.atc_options import (
    BATCH,
    DIMS,
    IMAGE_SIZE,
    SHAPE,
    Dynamic,
    atc_inputs,
    atc_options,
    dynamic_of,
    shapes_from_option,
)


def test_atc_options_are_read_in_each_spelling():
    found = atc_options(
        'atc --model=m.onnx --framework 5 -soc_version=Ascend310 --input_shape="x:1,3; y:2" '
        "--log=error"
    )
    assert found == {
        "model": "m.onnx",
        "framework": "5",
        "soc_version": "Ascend310",
        "input_shape": "x:1,3; y:2",
        "log": "error",
    }
    # The om has what the shell left of it: without quotes a value may hold blanks, and a single
    # quote nobody closed.
    assert atc_options("/opt/atc.bin --model=a b.onnx --input_shape=x:1,3") == {
        "model": "a b.onnx",
        "input_shape": "x:1,3",
    }
    assert atc_options("atc --model=it's.onnx --log=info")["log"] == "info"
    assert atc_options("") == {}


def test_input_shapes_are_read():
    assert shapes_from_option("x:1,3,-1,-1;y:1;scalar:") == {
        "x": (1, 3, -1, -1),
        "y": (1,),
        "scalar": (),
    }
    assert shapes_from_option("a:b/c:0:1,2;z:[1~4,3,-1]") == {"a:b/c:0": (1, 2), "z": (-1, 3, -1)}
    assert shapes_from_option("x:1,n") == {}


DIMS_GEARS = ((4, 1, 2), (8, 2, 4))


@pytest.mark.parametrize(
    "command, wanted",
    [
        ("atc --model=m.onnx --input_shape=x:1,3,8,8", None),
        (
            "atc --input_shape=x:-1,3;y:2 --dynamic_batch_size=1,2,8",
            Dynamic(BATCH, {"x": (-1, 3), "y": (2,)}, ((1,), (2,), (8,))),
        ),
        (
            'atc --input_shape="x:1,3,-1,-1" --dynamic_image_size="8,8;9,7"',
            Dynamic(IMAGE_SIZE, {"x": (1, 3, -1, -1)}, ((8, 8), (9, 7))),
        ),
        (
            "atc --input_shape=x:1,-1;y:-1,-1 --dynamic_dims=4,1,2;8,2,4",
            Dynamic(DIMS, {"x": (1, -1), "y": (-1, -1)}, DIMS_GEARS),
        ),
        ("atc --input_shape=x:-1,3", Dynamic(SHAPE, {"x": (-1, 3)}, (), {"x": (None, None)})),
        (
            "atc --input_shape_range=x:[1~8,3,-1]",
            Dynamic(SHAPE, {"x": (-1, 3, -1)}, (), {"x": ((1, 8), None, None)}),
        ),
        ("atc --input_shape=x:1~8,3", Dynamic(SHAPE, {"x": (-1, 3)}, (), {"x": ((1, 8), None)})),
        (
            "atc --input_shape_range=x:[2~-1,3]",
            Dynamic(SHAPE, {"x": (-1, 3)}, (), {"x": ((2, -1), None)}),
        ),
    ],
)
def test_dynamic_shapes_gears_and_ranges_are_read(command, wanted):
    assert dynamic_of(command) == wanted


def test_gears_give_shapes_and_shapes_give_gears():
    dims = dynamic_of("atc --input_shape=x:1,-1;y:-1,-1;z:5 --dynamic_dims=4,1,2;8,2,4")
    assert dims.shapes_in_gear((8, 2, 4)) == {"x": (1, 8), "y": (2, 4), "z": (5,)}
    assert (
        dims.gear_of({"x": (1, 8), "y": (2, 4)}) == (8, 2, 4)
        and dims.gear_of({"x": (1, 4), "y": (2, 4)}) is None
    )
    batch = dynamic_of("atc --input_shape=x:-1,3;y:-1 --dynamic_batch_size=1,2")
    assert batch.shapes_in_gear((2,)) == {"x": (2, 3), "y": (2,)}
    size = dynamic_of("atc --input_shape=x:1,3,-1,-1;y:7 --dynamic_image_size=8,9;16,24")
    assert size.shapes_in_gear((16, 24)) == {"x": (1, 3, 16, 24), "y": (7,)}


@pytest.mark.parametrize(
    "command, shapes, said",
    [
        ("--input_shape=x:-1,3 --dynamic_batch_size=1,2", {"x": (2, 3)}, ""),
        (
            "--input_shape=x:-1,3 --dynamic_batch_size=1,2",
            {"x": (3, 3)},
            "no gear of batch for the shapes x:3,3; its gears: 1; 2",
        ),
        (
            "--input_shape=x:-1,3 --dynamic_batch_size=1,2",
            {"x": (2, 4)},
            "input x of shape 2,4: the om wants -1,3",
        ),
        ("--input_shape=x:-1,3", {"x": (2, 3, 1)}, "input x of shape 2,3,1: the om wants -1,3"),
        ("--input_shape=x:-1,3", {}, "the shape of input x, -1,3, is told when the om runs"),
        ("--input_shape_range=x:[1~4,3]", {"x": (4, 3)}, ""),
        (
            "--input_shape_range=x:[1~4,3]",
            {"x": (5, 3)},
            "5 is not within 1~4, for which the om was made",
        ),
        ("--input_shape_range=x:[2~-1,3]", {"x": (500, 3)}, ""),
        ("--input_shape_range=x:[2~-1,3]", {"x": (1, 3)}, "1 is not within 2~-1"),
    ],
)
def test_shapes_that_do_not_fit_are_explained(command, shapes, said):
    problem = dynamic_of("atc " + command).problem(shapes)
    assert (said in problem) if said else problem == ""


def test_inputs_of_fixed_shape_and_float16_inputs_are_read():
    found = atc_inputs("atc --model=m.onnx --input_shape=a:1,2;b:-1,3 --input_fp16_nodes=a;b")
    assert found == ({"a": (1, 2)}, ("a", "b"))
    assert atc_inputs("") == ({}, ())


@pytest.mark.parametrize(
    "options, example",
    [
        ("--input_shape_range=x:[1~4,3,8~32,8~-1]", "x:1,3,8,8"),
        ("--input_shape=x:-1,3;m:-1,2 --dynamic_dims=4,5;8,9", "x:4,3;m:5,2"),
        ("--input_shape=x:-1,3 --dynamic_batch_size=2,8", "x:2,3"),
        ("--input_shape=x:1,-1,32;m:1,-1,1 --input_format=ND", "x:1,1,32;m:1,1,1"),
    ],
)
def test_an_example_is_of_shapes_that_the_om_has(options, example):
    dynamic = dynamic_of("atc " + options)
    assert dynamic.example() == example
    sizes = [part.partition(":") for part in example.split(";")]
    shapes = {name: tuple(map(int, text.split(","))) for name, _, text in sizes}
    assert dynamic.problem(shapes) == ""
