"""The help of every command: it fits 80 columns, has an example, and describes values in our
words.
"""

from __future__ import annotations

import os
import runpy

import pytest
from in_process import run_here

from goldwatch.cli import goldwatch
from pages import ROOT

SCRIPT = runpy.run_path(os.path.join(ROOT, "scripts", "command_reference"))
COMMANDS = [words for words, _ in SCRIPT["commands"](goldwatch, ["goldwatch"])]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_fits_80_columns_and_has_an_example(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    every = "--help-all" if "--help-all" in run_here([*words, "--help"]).stdout else "--help"
    lines = run_here([*words, every]).stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if "INTEGER" in line or " FLOAT" in line] == []
    assert any(line.strip().startswith(("Example:", "Examples:")) for line in lines)
