"""Commands to copy: their words and their lines."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from goldwatch.cli.shell import shell_lines, shell_word
from goldwatch.naming import printable


@pytest.mark.parametrize("width", [30, 80, 1000])
@pytest.mark.parametrize("words", [["goldwatch", "compare-op", "dump"], ["a" * 200, "b", "/x/" * 40, "c"], ["a", "'it'\"'\"'s one'", "-o"]])
def test_a_command_in_lines_is_one_command_to_a_shell(words, width):
    lines = shell_lines("  look closer:", words, width)
    assert all(len(line) <= width for line in lines) or any("'" in word for word in words)
    joined = "\n".join(lines).replace("\\\n", "")
    assert shlex.split(joined) == ["look", "closer:", *shlex.split(" ".join(words))]


@pytest.mark.parametrize("word", ["plain", "a b", "new\nline", "it's\\\x1b[31m", "\u202egnp", "\udcff'1"])
def test_a_word_with_control_characters_can_be_shown_and_pasted(word):
    shown = shell_word(word)
    assert printable(shown) == shown
    found = subprocess.run(["bash", "-c", "printf %s " + shown], stdout=subprocess.PIPE, check=True).stdout
    assert found == os.fsencode(word)


def test_an_option_stays_with_its_value_and_a_path_is_broken_behind_a_slash():
    words = ["goldwatch", "replay", "dump/20260102030405/0/net/1/0", "net.prototxt", "-f", "model.json", "--result", "out"]
    assert shell_lines("next:", words, 80) == [
        "next: goldwatch replay dump/20260102030405/0/net/1/0 net.prototxt \\",
        "    -f model.json --result out",
    ]
    assert shell_lines("next:", ["a", "/first/second/third/fourth"], 24) == ["next: a \\", "    /first/second/\\", "third/fourth"]
    assert shell_lines("x" * 18, ["-f", "a" * 20], 20)[1] == "    -f \\"
