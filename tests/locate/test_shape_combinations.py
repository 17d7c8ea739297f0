"""The shapes of a dynamic model to try."""

from __future__ import annotations

import pytest

from goldwatch.base.errors import UsageError
from goldwatch.device.locate.shape_combinations import folder_name, parse_shapes, shapes_text


def test_all_combinations_of_dim_ranges_are_tried() -> None:
    found = parse_shapes("x:1,3,200~216~8,224-230;y:4")
    assert [each["x"] for each in found] == [
        (1, 3, 200, 224), (1, 3, 200, 230), (1, 3, 208, 224), (1, 3, 208, 230), (1, 3, 216, 224),
        (1, 3, 216, 230),
    ]  # fmt: skip
    assert all(each["y"] == (4,) for each in found)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("x:2", [2]), ("x:2~4", [2, 3, 4]), ("x:2~5~2", [2, 4]), ("x:2-5-2", [2, 5]), ("a:b:7", [7])],
)
def test_sizes_and_ranges_of_a_dim_are_parsed(text, sizes) -> None:
    assert [next(iter(each.values())) for each in parse_shapes(text)] == [(size,) for size in sizes]


def test_the_shape_of_a_scalar_is_empty() -> None:
    assert parse_shapes("x:;y:2") == [{"x": (), "y": (2,)}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "x",
        ":1",
        "x:1,",
        "x:1~",
        "x:4~2",
        "x:1~9~0",
        "x:1~3~2-5",
        "x:-1",
        "x:a",
        "x:1;x:2",
        "x:1~5000",
        "x:1~99,1~99",
    ],
)
def test_texts_that_are_no_shapes_are_refused(text) -> None:
    with pytest.raises(UsageError):
        parse_shapes(text)


def test_shapes_are_written_as_text_and_folder_name() -> None:
    shapes = {"x": (1, 3, 8, 8), "n": ()}
    assert shapes_text(shapes) == "x:1,3,8,8;n:"
    assert folder_name(shapes) == "1x3x8x8_scalar"
    assert parse_shapes(shapes_text(shapes)) == [shapes]
