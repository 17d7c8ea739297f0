"""``goldwatch completion``: the files that it installs, and what the shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from in_process import run_here

SHELLS = ("bash", "zsh", "fish")
FILES = {
    "bash": (".local/share/goldwatch/completion.bash", ".bashrc"),
    "zsh": (".local/share/goldwatch/completion.zsh", ".zshrc"),
    "fish": (".config/fish/completions/goldwatch.fish", None),
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_installed_only_once(shell, home, monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/" + shell)
    script, start = FILES[shell]
    if start is not None:
        (home / start).write_text("alias a=b")  # no end of line
    for _ in range(2):
        done = run_here(["goldwatch", "completion"], home)
        assert done.returncode == 0, done.stderr
    assert "goldwatch" in (home / script).read_text()
    if start is not None:
        lines = (home / start).read_text().splitlines()
        assert lines[0] == "alias a=b" and len(lines) == 2 and str(home / script) in lines[1]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_says_how_to_undo_it(shell, home):
    script, start = FILES[shell]
    for _ in range(2):
        done = run_here(["goldwatch", "completion", shell], home)
        (undo,) = [line for line in done.stdout.splitlines() if line.startswith("to undo: ")]
        if start is None:
            assert undo == "to undo: remove that file" and str(home / script) in done.stdout
        else:
            assert str(home / script) in undo and str(home / start) in undo


@pytest.mark.parametrize("shell", SHELLS)
def test_a_missing_home_folder_is_not_created(shell, home, monkeypatch):
    monkeypatch.setenv("HOME", str(home / "missing"))
    done = run_here(["goldwatch", "completion", shell], home)
    assert done.returncode == 4 and "home folder %s is missing" % (home / "missing") in done.stderr
    assert os.listdir(str(home)) == []
    assert run_here(["goldwatch", "completion", shell, "--print"], home).returncode == 0


def test_completion_print_changes_nothing(home):
    done = run_here(["goldwatch", "completion", "zsh", "--print"], home)
    assert done.returncode == 0 and done.stdout.startswith("#compdef goldwatch\n")
    assert os.listdir(str(home)) == []


def test_an_unknown_shell_must_be_named(home, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/sh")
    done = run_here(["goldwatch", "completion"], home)
    assert done.returncode == 2 and "goldwatch completion bash|zsh|fish" in done.stderr


def answer(words, home, **variables):
    """Return what goldwatch answers a shell."""
    program = "import sys; from goldwatch.cli import main; sys.argv[0] = 'goldwatch'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("compa", ["plain,compare", "plain,compare-op"]),
        ("golden caffe d", ["plain,deinplace", "plain,dump"]),
        ("compare --golden-s", ["plain,--golden-steps"]),
        ("compare --keep all --table ", ["plain,first", "plain,all", "plain,none"]),
        ("compare dum", ["file,dum"]),
        ("compare dump golden -f net", ["file,net"]),
    ],
)
def test_bash_completes_commands_options_values_and_files(words, offered, home):
    told = answer(
        words,
        home,
        _GOLDWATCH_COMPLETE="bash_complete",
        COMP_WORDS="goldwatch " + words,
        COMP_CWORD=str(len(words.split(" "))),
    )
    assert told.splitlines() == offered


@pytest.mark.parametrize(("shell", "mark"), [("zsh", "_files"), ("fish", "file")])
def test_zsh_and_fish_show_what_a_command_does(shell, mark, home):
    told = answer(
        "doct",
        home,
        _GOLDWATCH_COMPLETE=shell + "_complete",
        COMP_WORDS="goldwatch" if shell == "fish" else "goldwatch doct",
        COMP_CWORD="doct" if shell == "fish" else "1",
    )
    assert "doctor" in told and "Check this installation" in told


def test_bash_reads_the_installed_script_and_completes(home):
    bin_folder = home / "bin"
    bin_folder.mkdir()
    (bin_folder / "goldwatch").write_text(
        "#!/bin/sh\nexec %s -c 'import sys; from goldwatch.cli import main; "
        'sys.argv[0] = "goldwatch"; main()\' "$@"\n' % sys.executable
    )
    (bin_folder / "goldwatch").chmod(0o755)
    assert run_here(["goldwatch", "completion", "bash"], home).returncode == 0
    lines = (
        '. "$HOME/.bashrc"; COMP_WORDS=(goldwatch submo); COMP_CWORD=1;'
        '_goldwatch_completion goldwatch; echo "${COMPREPLY[@]}"'
    )
    environment = dict(os.environ, PATH="%s:%s" % (bin_folder, os.environ["PATH"]))
    done = subprocess.run(
        [shutil.which("bash"), "--norc", "-c", lines],
        env=environment,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.stdout == "submodel\n"
