"""The order of a command's help, and the short help shown without arguments."""

from __future__ import annotations

import click
import pytest
from in_process import run_here

from goldwatch.base.option_fields import CLUSTER, LIMITS, MODEL, MOST_USED, OUTPUT, SPEED, WHAT
from goldwatch.cli import goldwatch
from goldwatch.testing.commands import program

MANY = 10
RUNS_BARE = {"doctor", "limits", "completion"}


def all_commands(group, words):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from all_commands(command, [*words, name])
        else:
            yield [*words, name], command


COMMANDS = list(all_commands(goldwatch, ["goldwatch"]))


def named_commands():
    return [(" ".join(words), command) for words, command in COMMANDS]


def named(command):
    return [option for option in command.params if isinstance(option, click.Option)]


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=lambda each: str(each))
def test_help_shows_every_option_under_a_topic(words, command):
    shown = [option for _, options in command.by_topic() for option in options]
    assert sorted(option.name for option in shown) == sorted(
        option.name for option in named(command)
    )
    titles = [title for title, _ in command.by_topic()]
    if len(named(command)) > MANY:
        assert titles[0] == MOST_USED and len(command.by_topic()[0][1]) == 5
        assert len(titles) > 2
    else:
        assert titles == ["Options"]


@pytest.mark.parametrize("name", ["compare", "watch", "run"])
def test_help_shows_inputs_before_limits_output_and_speed(name):
    command = goldwatch.get_command(click.Context(goldwatch), name)
    order = [WHAT, MODEL, LIMITS, OUTPUT, SPEED, *([CLUSTER] if name == "compare" else [])]
    titles = [title for title, _ in command.by_topic()]
    assert [title for title in titles if title in order] == order


def test_the_whole_help_has_titles_and_each_option_once(tmp_path):
    done = run_here(["goldwatch", "compare", "--help-all"], tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    places = [done.stdout.index("\n%s:\n" % title) for title in (MOST_USED, LIMITS, CLUSTER)]
    assert places == sorted(places)
    starts = [line.split()[0].rstrip(",") for line in done.stdout.splitlines() if line[2:3] == "-"]
    assert len(starts) == len(set(starts)) > 30


def test_the_help_has_the_five_most_used_options_and_says_what_shows_the_others(tmp_path):
    for name, count in (("compare", 5), ("watch", 5), ("locate", 5)):
        lines = run_here(["goldwatch", name, "--help"], tmp_path).stdout.splitlines()
        assert len([line for line in lines if line[2:3] == "-"]) == count + 1, lines
        assert lines[-1].startswith("goldwatch %s --help-all shows all options (" % name)
    done = run_here(["goldwatch", "limits", "--help"], tmp_path)
    assert "--help-all" not in done.stdout and done.returncode == 0


def test_each_command_and_group_shows_all_options_when_asked_for_them(tmp_path):
    groups = [[], ["golden"], ["golden", "fx"], ["golden", "onnx"], ["config"]]
    for words in [["goldwatch", *words] for words in groups] + [words for words, _ in COMMANDS]:
        done = run_here([*words, "--help-all"], tmp_path)
        assert done.returncode == 0 and done.stdout.startswith("Usage: " + " ".join(words)), words
        usual = run_here([*words, "--help"], tmp_path).stdout
        assert "--help-all" in usual or done.stdout == usual


@pytest.mark.parametrize(
    "words", [words for words, _ in COMMANDS if words[-1] not in RUNS_BARE], ids=" ".join
)
def test_a_command_without_arguments_shows_its_short_help_and_exits_with_2(words, tmp_path):
    done = run_here(words, tmp_path)
    # A script whose variable is empty must not pass.
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("Usage: %s " % " ".join(words)) and "Example" in done.stderr
    told = done.stderr.splitlines()[-2:]
    assert told[0].startswith("goldwatch: %s: nothing is given" % " ".join(words[1:]))
    option = "--help-all" if dict(named_commands())[" ".join(words)].first else "--help"
    assert told[1] == "  hint: %s %s shows all options" % (" ".join(words), option)
    assert len(done.stderr.splitlines()) < 40


def test_the_short_help_names_required_arguments(tmp_path):
    done = run_here(["goldwatch", "compare"], tmp_path)
    assert "it needs TARGET, GOLDEN and -o\n" in done.stderr
    assert "--limit" in done.stderr and "--tls-key" not in done.stderr


@pytest.mark.parametrize("name", sorted(RUNS_BARE - {"completion"}))
def test_a_command_that_needs_no_arguments_runs_without_them(name, tmp_path, monkeypatch):
    # Each Python that the doctor finds costs seconds.
    for variable in ("PATH", "HOME", "PYENV_ROOT", "CONDA_PREFIX", "CONDA_EXE"):
        monkeypatch.setenv(variable, str(tmp_path))
    done = run_here(["goldwatch", name], tmp_path)
    assert done.returncode == 0 and done.stdout and "Usage:" not in done.stderr


def test_a_group_without_a_command_lists_its_commands(tmp_path):
    done = run_here(["goldwatch", "golden"], tmp_path)
    assert done.returncode == 0 and "caffe" in done.stdout and done.stderr == ""


def test_commands_of_the_stand_in_show_their_short_help(tmp_path):
    shown = [words for words, _ in all_commands(program, [])]
    assert ["serve"] in shown
    done = run_here(["python -m goldwatch.testing", "serve"], tmp_path)
    assert done.returncode == 2 and "nothing is given: it needs SOURCE" in done.stderr
