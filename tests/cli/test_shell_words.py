"""Commands to copy: quoting and line breaks."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from in_process import run_here

from goldwatch.base.naming import printable
from goldwatch.cli.next_commands import closer_commands
from goldwatch.cli.shell_words import command_words, shell_lines, shell_word
from goldwatch.run.comparison_options import ComparisonOptions


@pytest.mark.parametrize("width", [1, 2, 6, 30, 80, 1000])
@pytest.mark.parametrize(
    "words",
    [
        ["goldwatch", "compare-op", "dump"],
        ["a" * 200, "b", "/x/" * 40, "c"],
        ["a", "it's one", "-o"],
    ],
)
def test_a_command_broken_into_lines_is_one_command_to_a_shell(words, width):
    lines = shell_lines("  look closer:", words, width)
    assert all(len(line) <= max(6, width) for line in lines[1:]) or any(
        "'" in word for word in words
    )
    joined = "\n".join(lines).replace("\\\n", "")
    assert shlex.split(joined) == ["look", "closer:", *words]


def test_a_head_that_is_a_long_path_is_broken_too():
    program = "/a/long" * 20 + "/atc"
    lines = shell_lines("  $ " + program, ["--model=m.onnx", "--output=m"], 80)
    assert max(map(len, lines)) <= 80
    joined = "\n".join(lines).replace("\\\n", "")
    assert shlex.split(joined) == ["$", program, "--model=m.onnx", "--output=m"]


@pytest.mark.parametrize(
    "word", ["plain", "a b", "new\nline", "it's\\\x1b[31m", "\u202egnp", "\udcff'1"]
)
def test_a_word_with_control_characters_can_be_shown_and_pasted(word):
    shown = shell_word(word)
    assert printable(shown) == shown
    found = subprocess.run(
        ["bash", "-c", "printf %s " + shown], stdout=subprocess.PIPE, check=True
    ).stdout
    assert found == os.fsencode(word)


def test_an_option_stays_with_its_value_and_a_path_is_broken_behind_a_slash():
    words = [
        "goldwatch",
        "replay",
        "dump/20260102030405/0/net/1/0",
        "net.prototxt",
        "-f",
        "model.json",
        "--result",
        "out",
    ]
    assert shell_lines("next:", words, 80) == [
        "next: goldwatch replay dump/20260102030405/0/net/1/0 net.prototxt \\",
        "    -f model.json --result out",
    ]
    assert shell_lines("next:", ["a", "/first/second/third/fourth"], 24) == [
        "next: a \\",
        "    /first/second/\\",
        "third/fourth",
    ]
    assert shell_lines("x" * 18, ["-f", "a" * 20], 20)[1] == "    -f \\"


@pytest.mark.parametrize("name", ["-dash", "--help"])
def test_the_proposed_command_runs_for_an_op_whose_name_looks_like_an_option(
    name, tmp_path, make_network
):
    make_network(str(tmp_path), op_name=name)
    for before, after in (("dump", "-dump"), ("golden", "-gold"), ("net.json", "-model.json")):
        os.rename(str(tmp_path / before), str(tmp_path / after))
    done = run_here(
        [
            "goldwatch",
            "compare",
            "-f",
            "-model.json",
            "-o",
            "-out",
            "--html",
            "p.html",
            "--",
            "-dump",
            "-gold",
        ],
        tmp_path,
    )
    assert done.returncode == 1, done.stderr
    told = done.stdout.replace("\\\n", "").splitlines()
    command = next(line for line in told if line.startswith("next:"))[len("next:") :]
    words = shlex.split(command)
    assert words[:2] == ["goldwatch", "compare-op"] and words[-2:] == ["-gold", name]
    again = run_here(words, tmp_path)
    assert again.returncode == 1 and name in again.stdout, again.stderr
    assert "-- %s" % (tmp_path / "-dump") in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_the_proposed_command_for_a_merges_suspect_is_its_hosts_report(tmp_path):
    suspects = [{"op": op, "place": {"host": op, "device": "0"}} for op in ("here", "away")]
    hosts = [{"host": name, "folder": str(tmp_path / name)} for name in ("here", "away")]
    (tmp_path / "here").mkdir()
    options = ComparisonOptions(target="t", golden="g", out=str(tmp_path))
    found = closer_commands(options, {"suspects": suspects, "hosts": hosts})
    folder = str(tmp_path / "here")
    assert found == {
        "here": " ".join(
            ["goldwatch report", folder, "--html", os.path.join(folder, "report.html")]
        )
    }


def test_options_precede_operands_that_look_like_options():
    assert command_words(["a", "b"], ["x", "y"], ["-o", "z"]) == ["a", "b", "x", "y", "-o", "z"]
    assert command_words(["a", "b"], ["x", "-y"], ["-o", "z"]) == [
        "a",
        "b",
        "-o",
        "z",
        "--",
        "x",
        "-y",
    ]
