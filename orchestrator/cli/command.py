"""How commands are declared: options in topics, parameters as one typed object, and their help."""

from __future__ import annotations

import re
import textwrap
from inspect import cleandoc
from typing import Any, Callable, Dict, List, Match, Optional, Sequence, Tuple

import click

from ..base.errors import EXIT_USAGE, OptionsError, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.naming import nearest_names
from ..base.option_fields import (
    CLUSTER,
    LIMITS,
    MODEL,
    MOST_USED,
    OUTPUT,
    PROGRAM,
    SPEED,
    WAITING,
    WHAT,
    Option,
    options_in,
    parameters_of,
)
from ..base.system import importing_unthreaded
from .error_handling import report_error
from .old_tool_commands import command_elsewhere
from .printing import put_file, say_escaped, set_up_logging

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

_FIRST = (MOST_USED, PROGRAM, WHAT, MODEL, WAITING)
_LAST = (LIMITS, OUTPUT, SPEED, CLUSTER)
"""Topics that stand before and behind all others, in this order; an option that names none is in
OUTPUT.
"""

_EXAMPLE = re.compile(r"^Example: (goldwatch .*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)

format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the result is printed on stdout.",
)


def option_group(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options, or groups of them, in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def topic(title: str, *decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options, which the help shows below this title."""

    def decorate(function: Any) -> Any:
        before = len(getattr(function, "__click_params__", ()))
        function = option_group(*decorators)(function)
        for parameter in function.__click_params__[before:]:
            parameter.topic = title
        return function

    return decorate


def options_of(*classes: Any, without: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Return a decorator that adds the options of classes' own fields (see
    :mod:`goldwatch.base.option_fields`), in their order, without those of some fields.
    """
    return option_group(
        *(
            topic(each.topic, _click_option(name, annotation, each))
            for cls in classes
            for name, annotation, each in options_in(cls)
            if name not in without
        )
    )


def option_of(cls: Any, name: str) -> Callable[[Any], Any]:
    """Return click's option of one field of a class."""
    return next(_click_option(*each) for each in options_in(cls) if each[0] == name)


def _click_option(name: str, annotation: str, known: Option) -> Callable[[Any], Any]:
    """Return click's option; its type is the field's, or a text where the field's value is read
    from it.
    """
    annotation = "str" if known.parse is not None else annotation.replace("Optional[", "")
    settings: Dict[str, Any] = {}
    if annotation.startswith("bool"):
        settings["is_flag"] = True
    elif known.choices:
        settings["type"] = click.Choice(known.choices)
    elif annotation.startswith("int"):
        bounded = known.least is not None or known.most is not None
        settings["type"] = click.IntRange(known.least, known.most) if bounded else click.INT
    elif annotation.startswith("float"):
        settings["type"] = click.FLOAT
    if known.repeatable or annotation.startswith("Tuple[str, ...]"):
        settings["multiple"] = True
    if known.out_folder:
        # The help of all commands is shown without what this imports.
        from .output_file_checks import folder_meant

        settings["callback"] = folder_meant
    if known.required:
        settings["required"] = True
    if known.show_default:
        settings.update(default=known.default, show_default=True)
    return click.option(*known.flags, name, metavar=known.metavar, help=known.help, **settings)


def by_topic(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options in the order of their topics."""

    def decorate(function: Any) -> Any:
        behind = list(getattr(function, "__click_params__", ()))
        function = option_group(*decorators)(function)
        added = function.__click_params__[len(behind) :]
        order = (*_FIRST, *_LAST)
        # Click has them from the last to the first.
        added.sort(key=lambda each: -order.index(getattr(each, "topic", OUTPUT)))
        function.__click_params__ = behind + added
        return function

    return decorate


quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="No progress, only warnings, errors and the result; of a run that passes, the last lines.",
)
verbosity_options = option_group(
    quiet_option,
    click.option("-v", "--verbose", count=True, help="More log on stderr; twice for debugging."),
)
"""``-q`` and ``-v``, which set up the log; the command gets ``quiet`` (bool)."""


@dataclass(frozen=True)
class PrintArguments:
    """The values of ``--format`` and ``-q``."""

    output_format: str
    quiet: bool


def _require_values(ctx: click.Context, args: Sequence[str]) -> None:
    """Raise click.BadOptionUsage where an option of a command stands in the place of a value, which
    click takes it for.
    """
    options = [each for each in ctx.command.get_params(ctx) if isinstance(each, click.Option)]
    names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
    valued = {name for each in options if not (each.is_flag or each.count) for name in each.opts}
    for option, value in zip(args, args[1:]):
        if option == "--":
            return
        if option in valued and value in names:
            raise click.BadOptionUsage(
                option, "option '%s' requires an argument; %s is an option" % (option, value), ctx
            )


class Command(click.Command):
    """A command.

    Parameters
    ----------
    arguments
        A class that is made of all parameters by name; the callback gets it in their place.
    first
        The names of the options that matter most, which the help shows first.
    bare
        It does something useful without any argument; others show their short help.
    serving
        It is a service, whose log has more, each line with its time.
    """

    def __init__(
        self,
        *args: Any,
        arguments: Optional[Callable[..., Any]] = None,
        first: Sequence[str] = (),
        bare: bool = False,
        serving: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.arguments = arguments
        self.first = tuple(first)
        self.bare = bare
        self.serving = serving

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Parse as click does; where nothing is given show the short help, as a usage error."""
        if args or self.bare or ctx.resilient_parsing:
            try:
                _require_values(ctx, args)
                return super().parse_args(ctx, args)
            except click.UsageError as error:
                # The parser does not tell whose options it reads.
                error.ctx = error.ctx or ctx
                raise
        say_escaped(self.short_help_lines(ctx))
        from .usage_errors import all_options_hint, option_name, words_behind_root

        where = words_behind_root(ctx)
        missing = [option_name(parameter) for parameter in self.params if _is_needed(parameter)]
        report_error(
            "usage",
            "%s: nothing is given%s"
            % (where, ": it needs " + listed_and(missing) if missing else ""),
            all_options_hint(ctx),
            False,
        )
        return ctx.exit(EXIT_USAGE)

    def get_params(self, ctx: click.Context) -> List[click.Parameter]:
        """Return the parameters, with the option that shows all of them."""
        return [*super().get_params(ctx), _HELP_ALL]

    def short_help_lines(self, ctx: click.Context) -> List[str]:
        """Return usage, what the command does, its example and the options that matter most."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        texts = [cleandoc(text) for text in (self.help, self.epilog) if text]
        paragraphs = re.split(r"\n\s*\n", "\n\n".join(texts))
        for text in (paragraphs[0], *(part for part in paragraphs if "Example" in part)):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(text)
        title, options = self.by_topic()[0]
        with formatter.section(title if self.first else "Options"):
            formatter.write_dl(_records(ctx, options))
        return formatter.getvalue().rstrip("\n").split("\n")

    def by_topic(self) -> List[Tuple[str, List[click.Option]]]:
        """Return the options below the titles of their topics; one topic where none is named."""
        options = [option for option in self.params if isinstance(option, click.Option)]
        if not self.first:
            return [("Options", options)]
        topics: Dict[str, List[click.Option]] = {
            MOST_USED: sorted(
                (option for option in options if option.name in self.first),
                key=lambda option: self.first.index(option.name or ""),
            )
        }
        for each in options:
            if each.name not in self.first:
                topics.setdefault(getattr(each, "topic", OUTPUT), []).append(each)
        between = [title for title in topics if title not in (*_FIRST, *_LAST)]
        return [(title, topics[title]) for title in (*_FIRST, *between, *_LAST) if title in topics]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below the titles of their topics."""
        helping = self.get_help_option(ctx)
        topics, every = self.by_topic(), bool(ctx.meta.get(_EVERY))
        shown = topics if every or not self.first else topics[:1]
        for title, options in shown:
            ends = title in ("Options", OUTPUT) if len(shown) == len(topics) else True
            last = [helping] if helping is not None and ends else []
            records = _records(ctx, [*options, *(each for each in last if each not in options)])
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if len(shown) < len(topics):
            others = sum(len(options) for _, options in topics[1:])
            formatter.write_paragraph()
            from .usage_errors import all_options_hint

            formatter.write_text("%s (%d more)" % (all_options_hint(ctx), others))

    def invoke(self, ctx: click.Context) -> Any:
        """Set up the log and call the command; parameters in an error are shown as the user typed
        them.
        """
        if "verbose" in ctx.params:
            verbose = max(int(ctx.params.pop("verbose")), int(self.serving))
            set_up_logging(ctx.params["quiet"], verbose, self.serving)
        try:
            if self.arguments is None:
                return super().invoke(ctx)
            arguments = self.arguments(**parameters_of(self.arguments, ctx.params))
            return ctx.invoke(self.callback or _nothing, arguments)
        except OptionsError as error:
            from .usage_errors import option_name

            names = {each.name or "": option_name(each) for each in self.params}
            raise error.spelled(names) from error


def _is_needed(parameter: click.Parameter) -> bool:
    """Tell whether a command needs a parameter; arguments that it checks itself stand in no
    brackets.
    """
    if parameter.required or not isinstance(parameter, click.Argument):
        return parameter.required
    return parameter.nargs == -1 and not (parameter.metavar or "[").startswith("[")


def _nothing(_: Any) -> None:
    """The callback of a command that has none."""


_EVERY = "goldwatch.cli.help_all"


def _show_all(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        ctx.meta[_EVERY] = True
        put_file(ctx.get_help() + "\n")
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    hidden=True,
)


def _records(ctx: click.Context, options: Sequence[click.Option]) -> List[Tuple[str, str]]:
    records = (option.get_help_record(ctx) for option in options)
    return [record for record in records if record is not None]


def command(name: Optional[str] = None, **settings: Any) -> Callable[[Any], click.Command]:
    """Return the decorator that makes a :class:`Command` of a function."""
    return click.command(name, cls=Command, **settings)


def listed_and(names: Sequence[str]) -> str:
    """Return ``A, B and C``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def show_examples(command: click.Command) -> None:
    """Reformat the example of a command, or of all in a group, with a line for each."""
    command.help, command.epilog = (
        text and _EXAMPLE.sub(_to_be_pasted, cleandoc(text))
        for text in (command.help, command.epilog)
    )
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        show_examples(inner)


def _to_be_pasted(example: Match[str]) -> str:
    """Return an example of a help text so that it can be pasted into a shell, in lines for a
    terminal of 80 columns.
    """
    lines = textwrap.wrap(
        " ".join(example.group(1).split()), 70, break_long_words=False, break_on_hyphens=False
    )
    return "\b\nExample:\n  " + " \\\n    ".join(lines)


class HelpfulGroup(click.Group):
    """A group that shows its help when nothing follows it, and suggests commands for an unknown
    one.
    """

    command_class = Command

    def get_params(self, ctx: click.Context) -> List[click.Parameter]:
        """Return the parameters, with the option that shows all of them."""
        return [*super().get_params(ctx), _HELP_ALL]

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Parse as click does; without any argument print the help (click's own behaviour differs
        between releases).
        """
        if not args and not ctx.resilient_parsing:
            put_file(ctx.get_help() + "\n")
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: List[str]) -> Any:
        """Return the command named; raises UsageError where there is none."""
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or name in self.list_commands(ctx):
            return super().resolve_command(ctx, args)
        near = nearest_names(name, self.list_commands(ctx))
        other = "%s %s" % (ctx.command_path, near[0]) if near else None
        elsewhere = command_elsewhere(name)
        if elsewhere:
            other = "goldwatch " + elsewhere
        every = "%s --help lists the commands" % ctx.command_path
        raise UsageError(
            "there is no command %r" % name,
            hint="did you mean '%s'? %s" % (other, every) if other else every,
        )


class LazyGroup(HelpfulGroup):
    """A group whose commands are imported only when they are called, so that ``--help`` stays fast.

    Parameters
    ----------
    lazy
        ``{command name: (module relative to goldwatch.cli, attribute, one-line help)}``.
    """

    def __init__(self, *args: Any, lazy: Optional[Dict[str, Any]] = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy: Dict[str, Any] = lazy or {}

    def list_commands(self, ctx: click.Context) -> Any:
        """Return the command names in the order in which they are usually used."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        """Import and return one command, or None."""
        if cmd_name not in self.lazy:
            return None
        import importlib

        module, attribute, _ = self.lazy[cmd_name]
        with importing_unthreaded():
            command: click.Command = getattr(
                importlib.import_module(module, "goldwatch.cli"), attribute
            )
        show_examples(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the one-line helps, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> List[Any]:
        """Return the completions, without importing anything."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=entry[2])
            for name, entry in self.lazy.items()
            if name.startswith(incomplete)
        ]
