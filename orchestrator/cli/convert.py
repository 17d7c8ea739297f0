"""``goldwatch convert``."""

from __future__ import annotations

import re
from typing import Optional, Tuple

import click

from ..base.errors import EXIT_BAD_INPUT, EXIT_INCOMPLETE, EXIT_PASS, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.option_fields import SPEED, CommonOptions
from ..base.pool import default_jobs
from ..tools.convert.convert_files import RESULT_FILE, convert_files
from ..tools.convert.options import DUMP, FORMS, NPY, ConvertOptions, known_dtype, known_layout
from ..tools.convert.sources import find_sources
from .command import PrintArguments, command, format_option, option_of, topic, verbosity_options
from .output_file_checks import out_option
from .printing import print_json, say
from .progress import ProgressBar

_MOST = 20


@dataclass(frozen=True)
class _Arguments(PrintArguments):
    """The arguments of ``goldwatch convert``."""

    inputs: Tuple[str, ...]
    out: str
    form: str
    layout: Optional[str]
    from_layout: Optional[str]
    shape: Optional[str]
    dtype: Optional[str]
    input_index: Optional[int]
    output_index: Optional[int]
    op_type: str
    op_name: str
    custom: Optional[str]
    jobs: Optional[int]


@command(arguments=_Arguments, first=("out", "form", "layout", "dtype", "output_index"))
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT…")
@out_option("Folder of the results.", required=True)
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMS),
    default=NPY,
    show_default=True,
    help="What the files become.",
)
@click.option(
    "--layout", metavar="L", help="Layout to bring tensors to, or original.  [default: as stored]"
)
@topic(
    "What is converted",
    click.option("--from-layout", metavar="L", help="Layout of npy files.  [default: ND]"),
)
@topic(
    "What the files become",
    click.option(
        "--shape", metavar="1,1000", help="The original shape, in the layout of --layout."
    ),
    click.option("--dtype", metavar="T", help="Element type to convert to.  [default: as stored]"),
)
@topic(
    "What is converted",
    click.option(
        "--input",
        "input_index",
        type=click.IntRange(0),
        metavar="I",
        help="Only this input of each dump.",
    ),
    click.option(
        "--output",
        "output_index",
        type=click.IntRange(0),
        metavar="I",
        help="Only this output of each dump.",
    ),
)
@topic(
    "What the files become",
    click.option("--op-type", default="", metavar="T", help="Type of the op, with --to dump."),
    click.option("--op-name", default="", metavar="N", help="Name of the op, with --to dump."),
    click.option(
        "--custom",
        metavar="DIR",
        help="Folder with format_convert/convert_A_to_B.py of your own; their code is run.",
    ),
)
@topic(
    SPEED,
    option_of(CommonOptions, "jobs"),
)
@format_option
@verbosity_options
def convert(arguments: _Arguments) -> int:
    """Convert dump files to npy, raw elements or text, and npy to dump files.

    INPUT is a file, or a folder whose dump files and npy files are all converted. OUT/convert.json
    lists what was written. Exit code: 0 all converted, 3 some file was not, 4 none was.

    Example: goldwatch convert dump/20260102030405 -o arrays --layout original
    """
    form, out, quiet = arguments.form, arguments.out, arguments.quiet
    named = [bool(arguments.op_type), bool(arguments.op_name)]
    if named != [form == DUMP] * 2:
        raise UsageError("--to dump needs --op-type and --op-name, which nothing else takes")
    options = ConvertOptions(
        form=form,
        layout=None if arguments.layout is None else known_layout(arguments.layout, original=True),
        from_layout=None if arguments.from_layout is None else known_layout(arguments.from_layout),
        shape=parse_shape(arguments.shape),
        dtype=None if arguments.dtype is None else known_dtype(arguments.dtype),
        input_index=arguments.input_index,
        output_index=arguments.output_index,
        custom=arguments.custom,
        op_type=arguments.op_type,
        op_name=arguments.op_name,
    )
    sources = find_sources(arguments.inputs)
    with ProgressBar("converting", quiet) as bar:
        result = convert_files(
            sources,
            out,
            options,
            arguments.jobs or default_jobs(),
            lambda done: bar.update(done, len(sources)),
        )
    if arguments.output_format == "json":
        print_json(result.document())
    else:
        for failed in result.failed[:_MOST]:
            say("%s: %s" % (failed["source"], failed["reason"]))
        if len(result.failed) > _MOST:
            say("… and %d more, see %s" % (len(result.failed) - _MOST, RESULT_FILE))
        for entry in result.files[:_MOST]:
            for note in entry["notes"]:
                say("note: %s: %s" % (entry["file"], note["sentence"]), quiet)
        say(
            "%s: %d files written, %d inputs or tensors failed"
            % (out, len(result.files), len(result.failed)),
            quiet,
        )
    return EXIT_PASS if not result.failed else EXIT_INCOMPLETE if result.files else EXIT_BAD_INPUT


def parse_shape(text: Optional[str]) -> Optional[Tuple[int, ...]]:
    """Return ``1,1000`` as numbers; UsageError for anything else."""
    if text is None:
        return None
    parts = [part.strip() for part in re.split("[,x]", text)]
    if not all(re.match(r"[0-9]{1,18}\Z", part) for part in parts):
        raise UsageError("--shape %s: expected whole numbers" % text, hint="such as --shape 1,1000")
    return tuple(int(part) for part in parts)
