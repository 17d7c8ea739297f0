"""``goldwatch completion``, and what a shell gets when somebody presses Tab."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Type

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from ..base.atomic_writing import atomic_text_writer
from ..base.errors import EnvironmentProblem, UsageError
from ..base.safe_reading import read_input
from .command import command
from .printing import put, put_file
from .shell_words import shell_word

VARIABLE = "_GOLDWATCH_COMPLETE"
"""The variable of the environment by which a shell asks."""

_MOST_BYTES = 1 << 24
_BEGIN_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"


class _PathsToo:
    """A completion class that falls back to file names where goldwatch proposes nothing."""

    def get_completions(self, args: List[str], incomplete: str) -> List[CompletionItem]:
        """Return the completions of an incomplete word."""
        items: List[CompletionItem] = super().get_completions(args, incomplete)  # type: ignore[misc]
        if items or incomplete.startswith("-"):
            return items
        return [CompletionItem(incomplete, type="file")]


class _Bash(_PathsToo, BashComplete):
    pass


class _Zsh(_PathsToo, ZshComplete):
    pass


class _Fish(_PathsToo, FishComplete):
    pass


_SHELLS: Dict[str, Type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def answer_shells() -> None:
    """Make click answer shells with the classes of this module."""
    for name, shell in _SHELLS.items():
        add_completion_class(shell, name)


def completion_script(shell: str, program: click.Command) -> str:
    """Return the script that lets a shell complete the words of a program."""
    # Not BashComplete.source(), which starts bash to learn its version.
    script = ShellComplete.source(_SHELLS[shell](program, {}, "goldwatch", VARIABLE))
    head, _, rest = script.lstrip().partition("\n")
    return "%s\n%s%s\n" % (head, _BEGIN_ZSH if shell == "zsh" else "", rest.strip("\n"))


@command(bare=True)
@click.argument(
    "shell", required=False, metavar="[bash|zsh|fish]", type=click.Choice(list(_SHELLS))
)
@click.option("--print", "prints", is_flag=True, help="Print the script, and change nothing.")
def completion(shell: Optional[str], prints: bool) -> None:
    """Let the shell complete goldwatch's commands, options and their values at Tab.

    Without an argument for the shell that SHELL names. bash and zsh: the script goes to
    ~/.local/share/goldwatch and one line that reads it into ~/.bashrc or ~/.zshrc; fish: the script
    goes to ~/.config/fish/completions. Once more it replaces the script, as after an update. To
    undo it remove that line and that file.

    Example: goldwatch completion bash
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        raise UsageError(
            "the shell is not known: SHELL is %r" % os.environ.get("SHELL", ""),
            hint="name it: goldwatch completion %s" % "|".join(_SHELLS),
        )
    script = completion_script(name, click.get_current_context().find_root().command)
    if prints:
        put_file(script)
        return
    # Raise EnvironmentProblem where the home folder does not exist; it is not created.
    home = os.path.expanduser("~")
    if not os.path.isdir(home):
        raise EnvironmentProblem(
            "the home folder %s is missing: nothing was written" % home,
            hint="set HOME to a folder that is there; with --print the script is printed alone",
        )
    path = _place(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_text_writer(path) as stream:
        stream.write(script)
    put("wrote %s" % path)
    if name != "fish":
        start = _read_at_start(name, path)
        put("to undo: remove the line of %s in %s, and that file" % (path, start))
    else:
        put("to undo: remove that file")
    put("completion begins with the next %s" % name)


def _place(shell: str) -> str:
    """Return the path at which the script of a shell is installed."""
    if shell == "fish":
        config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        return os.path.join(config, "fish", "completions", "goldwatch.fish")
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "goldwatch", "completion." + shell)


def _read_at_start(shell: str, path: str) -> str:
    """Make bash or zsh source the script when it starts; return the changed start-up file."""
    home: Any = (shell == "zsh" and os.environ.get("ZDOTDIR")) or os.path.expanduser("~")
    start: str = os.path.join(home, "." + shell + "rc")
    line = "[ -r %s ] && . %s  # goldwatch completion" % (shell_word(path), shell_word(path))
    text = ""
    if os.path.exists(start):
        text = read_input(start, _MOST_BYTES).decode("utf-8", "surrogateescape")
    if line in text.split("\n"):
        return start
    # Appended in place: the file may be a link into somebody's dotfiles.
    number = os.open(start, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with os.fdopen(number, "a", encoding="utf-8") as stream:
        stream.write("%s%s\n" % ("\n" if text and not text.endswith("\n") else "", line))
    put("added a line to %s" % start)
    return start
