"""Errors of a command line in the form of all other errors: what, where, what to do."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Sequence, Tuple

import click

from ..base.naming import nearest_names
from .shell_words import shell_word

_NEAR = 0.6
_PLAIN = {
    "a valid integer range": "a whole number",
    "a valid integer": "a whole number",
    "a valid float range": "a number",
    "a valid float": "a number",
}
"""Click's names of types, in plain words."""


def all_options_hint(context: click.Context) -> str:
    """Return which words show all options of a command."""
    option = "--help-all" if getattr(context.command, "first", ()) else "--help"
    return "%s %s shows all options" % (context.command_path, option)


def usage_problem(
    error: click.ClickException, words: Sequence[str] = ()
) -> Tuple[str, Optional[str]]:
    """Return message and hint for an error of click; ``words``: the command line."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return _sentence(error.format_message()), None
    where = words_behind_root(context)
    every = all_options_hint(context)
    parameter = _parameter(error, context)
    if isinstance(error, click.NoSuchOption):
        long = _with_one_dash(error.option_name, words, context.command)
        if long is not None:
            return "%s has no option %s" % (where, long[1:]), "write " + long
        message = "%s has no option %s" % (where, error.option_name)
        for argument in context.command.params:
            if isinstance(argument, click.Argument) and _is_meant(error.option_name, argument):
                name = error.option_name.lstrip("-").upper()
                return message, "%s is an argument: write %s" % (name, _usage(context))
        for option in context.command.params:
            if isinstance(option, click.Option) and _holds(option, error.option_name):
                write = "%s %s" % (option.opts[0], option.metavar)
                return message, "%s takes it: write %s" % (option.opts[0], write)
        near = _nearest_option(error.option_name, context.command)
        return message, "did you mean %s? %s" % (near, every) if near else every
    if isinstance(error, click.MissingParameter) and parameter is not None:
        return "%s: %s is missing" % (where, _named(parameter)), "write " + _usage(context)
    if isinstance(error, click.BadParameter) and parameter is not None:
        message = "%s: %s: %s" % (where, option_name(parameter), _sentence(error.message))
        return message, _about(parameter) or every
    about = None if parameter is None else _about(parameter)
    message = _sentence(error.format_message())
    if "unexpected extra argument" in message:
        about = _left_apart(words) or _as_model(message, context.command)
    return "%s: %s" % (where, message), about or every


def _with_one_dash(letter: str, words: Sequence[str], command: click.Command) -> Optional[str]:
    """Return the option that was written with one dash, as those of one letter; None for others."""
    for word in words:
        name = "-" + word.partition("=")[0]
        if word[:2] != "--" and letter.lstrip("-") in word and name in _options(command):
            return name
    return None


def _as_model(message: str, command: click.Command) -> Optional[str]:
    """Return where an argument too many belongs that is the json of an om; None for others."""
    extra = re.search(r"\((.*\.json)\)", message)
    if extra is None or not any("-f" in option.opts for option in command.params):
        return None
    return "the json of the om is given as -f %s" % shell_word(extra.group(1))


def _left_apart(words: Sequence[str]) -> Optional[str]:
    """Return what was meant by words that belong together: a limit, or a name with blanks; None
    where nothing tells.
    """
    for before, word, after in zip(words, words[1:], words[2:]):
        if before == "--limit" and re.match(r"[-+.\d]", after) and not re.search("[=<>]", word):
            return "write --limit %s=%s" % (word, after)
    for count in range(2, len(words) + 1):
        for start in range(len(words) - count + 1):
            name = " ".join(words[start : start + count])
            if os.path.exists(name):
                return "quote a name with blanks: %s" % shell_word(name)
    for before, word, after in zip(words, words[1:], words[2:]):
        if before in ("-o", "--out") and not after.startswith("-"):
            return "if the name has a blank, quote it: %s %s" % (
                before,
                shell_word(" ".join([word, after])),
            )
    return None


def option_name(parameter: click.Parameter) -> str:
    """Return a parameter's name on the command line: ``-f``, ``--limit``, ``TARGET``."""
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    return parameter.metavar or (parameter.name or "").upper()


def words_behind_root(ctx: click.Context) -> str:
    """Return a command's name as it is typed after the program's."""
    root = ctx.find_root().command_path
    return ctx.command_path[len(root) :].strip() or root


def _sentence(text: str) -> str:
    """Return click's text in the form it has after a colon."""
    text = text.strip()
    for theirs, ours in _PLAIN.items():
        text = text.replace(theirs, ours)
    text = text[:-1] if text.endswith(".") else text
    return text[:1].lower() + text[1:]


def _usage(context: click.Context) -> str:
    return " ".join(context.get_usage().split()).replace("Usage: ", "", 1)


def _is_meant(option: str, argument: click.Argument) -> bool:
    """Tell whether an option that is none has the name of an argument."""
    return option.lstrip("-").lower() in [argument.name, *option_name(argument).lower().split()]


def _holds(option: click.Option, name: str) -> bool:
    """Tell whether what an unknown option would name is a part of an option's value, as the port
    is of ``ADDRESS:PORT``.
    """
    parts = (option.metavar or "").split(":")
    return len(parts) > 1 and name.lstrip("-").upper() in parts


def _nearest_option(option: str, command: click.Command) -> Optional[str]:
    """Return the option that a name misspells; the dashes make none like another."""
    bare = {name.lstrip("-"): name for name in _options(command)}
    near = nearest_names(option.lstrip("-"), list(bare), 1, _NEAR)
    return bare[near[0]] if near else None


def _options(command: click.Command) -> List[str]:
    return [
        name
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    ]


def _parameter(error: click.ClickException, context: click.Context) -> Optional[click.Parameter]:
    if isinstance(error, click.BadParameter):
        return error.param
    name = getattr(error, "option_name", None)
    return next((each for each in context.command.params if name in each.opts), None)


def _named(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option) and parameter.metavar:
        return "%s %s" % (option_name(parameter), parameter.metavar)
    return option_name(parameter)


def _about(parameter: click.Parameter) -> Optional[str]:
    """Return an option and its help as one line."""
    if not isinstance(parameter, click.Option) or not parameter.help:
        return None
    return "%s: %s" % (_named(parameter), " ".join(parameter.help.split()))
