"""Options as fields of dataclasses: what the command line shows of one, how its text is read, and
whether results depend on it all stand at the field.

:mod:`goldwatch.cli.command` makes click's options of them. Worker processes and the Python API
import these classes, so nothing here imports click.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
)

from .errors import OptionsError
from .fast_dataclasses import keyword_dataclass

T = TypeVar("T")

MOST_USED = "Most used"
WHAT = "What is compared"
MODEL = "Golden data and model"
PROGRAM = "The program"
WAITING = "Waiting for dumps"
HOSTS = "Several hosts"
LIMITS = "Limits and verdict"
OUTPUT = "Output"
SPEED = "Speed"
CLUSTER = "Cluster"
"""Topics of the help, in whose sections options stand."""

MOST_JOBS = 1024

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([kmgt]?)(i?)b?\s*\Z", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Recorded(NamedTuple):
    """How the identity of a run holds an option that its results depend on.

    Attributes
    ----------
    write, read
        The value as JSON, and back; None stays None.
    key
        Its name there; empty: that of the field.
    always
        There also where it has its default.
    """

    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = str
    key: str = ""
    always: bool = False


RECORDED_PATH = Recorded(os.path.realpath)


class Option(NamedTuple):
    """What an option is besides its name and type, as :func:`option` takes it.

    Attributes
    ----------
    flags
        What the user types, ``("-f", "--model")``; empty: the Python API alone has it.
    help, topic, metavar
        Its description, the section of the help where it stands, and what stands for its value.
    choices, least, most
        The texts or numbers that it may be; empty or None: any.
    required
        It must be given.
    default, show_default
        Its value where it is not given; whether the help shows that.
    out_folder
        It names the folder that results go to: what looks like a file's name is refused.
    parse
        Makes the value of the text (of the texts, where it is ``repeatable``); None: the field's
        type says how.
    recorded
        None: results do not depend on it.
    """

    flags: Tuple[str, ...] = ()
    help: str = ""
    topic: str = OUTPUT
    metavar: Optional[str] = None
    choices: Tuple[str, ...] = ()
    least: Optional[int] = None
    most: Optional[int] = None
    required: bool = False
    default: Any = None
    show_default: bool = False
    out_folder: bool = False
    parse: Optional[Callable[[Any], Any]] = None
    repeatable: bool = False
    recorded: Optional[Recorded] = None


def option(
    *flags: str, help: str = "", default: Any = None, required: bool = False, **details: Any
) -> Any:
    """Return the dataclass field of an option; ``details`` as :class:`Option` has them."""
    metadata = {"option": Option(flags, help, default=default, required=required, **details)}
    if required:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def same_option(cls: Any, name: str, **changes: Any) -> Any:
    """Return the field of an option that another class declares, with some details changed."""
    known = next(each for found, _, each in options_in(cls) if found == name)._replace(**changes)
    return dataclasses.field(default=known.default, metadata={"option": known})


def given(cls: Type[T]) -> Any:
    """Return the dataclass field, a :class:`Given`, that stands for all options of a class."""
    return dataclasses.field(metadata={"given": cls})


if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Callable[[T], T]:
        """Tell a type checker, here nobody."""
        return lambda made: made


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, given))
def options_class(cls: Type[T]) -> Type[T]:
    """Make a frozen dataclass whose fields are given by name: required options and others stand in
    the order of the command line. A class decorator.
    """
    return keyword_dataclass(cls)


def options_in(cls: Any) -> Iterator[Tuple[str, str, Option]]:
    """Yield (name, type as it is written, option) of a class's own fields that the command line
    has, in their order; in the place of a :func:`given` field those of its class.
    """
    own = cls.__dict__.get("__annotations__", {})
    for field in dataclasses.fields(cls):
        known, inner = field.metadata.get("option"), field.metadata.get("given")
        if inner is not None and field.name in own:
            yield from options_in(inner)
        elif known is not None and known.flags and field.name in own:
            yield field.name, str(field.type), known


@options_class
class CommonOptions:
    """Options of several commands, of which some say more in their help."""

    jobs: Optional[int] = option(
        "--jobs",
        least=1,
        most=MOST_JOBS,
        metavar="N",
        topic=SPEED,
        help="Processes.  [default: all processors]",
    )
    weights: Optional[str] = option(
        "--weights",
        metavar="FILE",
        topic=MODEL,
        help="Caffe's weights.  [default: the .caffemodel beside MODEL with its stem]",
    )


def jobs_option(what: str) -> Any:
    """Return the field of the number of processes; ``what`` says what they do."""
    return same_option(CommonOptions, "jobs", help="Processes%s.  [default: all processors]" % what)


class Given(Generic[T]):
    """The options of a class as the command line has them, not yet read: an object is made, and
    what is wrong reported, once the command is ready for it.

    Parameters
    ----------
    cls
        The class.
    values
        Texts, numbers and flags by the names of the fields; None or empty: not given.
    """

    def __init__(self, cls: Type[T], values: Mapping[str, Any]) -> None:
        self.cls = cls
        self.values = values

    def make(self, **others: Any) -> T:
        """Return the object; ``others`` are values of fields that need no reading."""
        parsers: Dict[str, Any] = {name: each.parse for name, _, each in options_in(self.cls)}
        read = {
            name: value if parsers[name] is None else parsers[name](value)
            for name, value in self.values.items()
            if name not in others and value is not None and value != ()
        }
        return self.cls(**read, **others)


def parameters_of(cls: Any, parameters: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the values of a class's fields among all parameters of a command."""
    values = dict(parameters)
    for field in dataclasses.fields(cls):
        inner = field.metadata.get("given")
        if inner is not None:
            names = [name for name, _, _ in options_in(inner) if name in values]
            values[field.name] = Given(inner, {name: values.pop(name) for name in names})
    return values


def recorded_options(options: Any) -> Dict[str, Any]:
    """Return the options that results depend on, as JSON values: those that are always recorded,
    and others that have not their default.
    """
    return {
        recorded.key or name: None if value is None else recorded.write(value)
        for name, default, recorded in _recorded(type(options))
        for value in [getattr(options, name)]
        if recorded.always or value != default
    }


def read_recorded(cls: Any, document: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the values of a class's fields that :func:`recorded_options` made ``document`` of.

    Raises
    ------
    KeyError, TypeError, ValueError, IndexError, AttributeError
        It holds something else.
    """
    values = {}
    for name, _, recorded in _recorded(cls):
        key = recorded.key or name
        if recorded.always or key in document:
            values[name] = None if document[key] is None else recorded.read(document[key])
    return values


def _recorded(cls: Any) -> List[Tuple[str, Any, Recorded]]:
    options = [(field.name, field.metadata.get("option")) for field in dataclasses.fields(cls)]
    return [
        (name, known.default, known.recorded)
        for name, known in options
        if known is not None and known.recorded is not None
    ]


def parse_size(text: str, name: str = "{min_free_bytes}") -> int:
    """Return ``500M``, ``2GiB`` or ``1.5T`` in bytes (powers of 1024).

    Raises
    ------
    UsageError
        Another form.
    """
    match = _SIZE.match(text)
    if match is None:
        raise OptionsError(
            "%s %s: expected a size in bytes" % (name, text),
            hint="for example 500M or 20G (powers of 1024)",
        )
    return int(float(match.group(1)) * 1024 ** _POWERS[match.group(2).lower()])
