"""The page of all commands is what scripts/command_reference writes: options, lists, examples."""

from __future__ import annotations

import os
import runpy

import click

from goldwatch.cli import goldwatch
from pages import ROOT, text_of

SCRIPT = runpy.run_path(os.path.join(ROOT, "scripts", "command_reference"))


def test_the_command_reference_is_up_to_date():
    assert text_of("docs/reference/cli.md") == SCRIPT["page"](), "run scripts/command_reference"


def test_every_option_of_every_command_is_in_its_section():
    sections = {
        text.split("\n", 1)[0]: text for text in text_of("docs/reference/cli.md").split("\n## ")[1:]
    }
    for words, command in SCRIPT["commands"](goldwatch, ["goldwatch"]):
        for option in command.params:
            if isinstance(option, click.Option) and option.name != "help":
                assert all(name in sections[" ".join(words)] for name in option.opts), (
                    words,
                    option.opts,
                )


def test_lists_in_a_help_text_are_lists_on_the_page():
    text = text_of("docs/reference/cli.md")
    assert (
        "\nAn input is one of:\n\n- `NAME=FILE.npy, FILE.npz`: of an npz the key is NAME\n- "
        "`FILE.npz`: its keys" in text
    )
