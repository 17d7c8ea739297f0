"""One syntax of steps for ``golden tf dump --steps`` and ``config new --step``."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from goldwatch.cli.config_new import new
from goldwatch.cli.step_lists import run_numbers, written_steps


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0", [0]),
        ("0|5-9", [0, 5, 6, 7, 8, 9]),
        ("0-3,7", [0, 1, 2, 3, 7]),
        ("0, 5 ,10", [0, 5, 10]),
        ("7|7|3-4|4", [3, 4, 7]),
        ("5-5", [5]),
    ],
)
def test_lists_and_ranges_of_steps_are_parsed(text, numbers):
    assert run_numbers(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "a", "5-", "-5", "0||1", "9-3", "1 2", "0-2147483648", "0-99999999"]
)
def test_texts_that_are_no_list_of_steps_are_refused(text):
    with pytest.raises(click.BadParameter):
        run_numbers(text)


def test_commas_in_step_lists_are_written_as_bars(tmp_path):
    assert written_steps("0-3, 7") == "0-3|7"
    done = CliRunner().invoke(
        new,
        ["--dump-path", str(tmp_path), "--mode", "all", "--step", "0-3,7"],
        standalone_mode=False,
    )
    assert '"dump_step": "0-3|7"' in done.output, done
