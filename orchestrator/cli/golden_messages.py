"""What the commands ``golden`` share: options, messages with the options of the command line, and a
line on what was saved.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, Iterator, Mapping, Match

import click

from ..base.errors import GoldwatchError
from ..base.wording import plural

input_option = click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="An input: see above; repeatable.",
)
random_option = click.option(
    "--random",
    "seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="SEED",
    help="Fill inputs without a file with random numbers.",
)
replace_option = click.option(
    "--force", is_flag=True, help="Replace the golden files of an earlier run in OUT."
)

# The library names its own parameters: `name`, or `name=value`.
_OPTIONS = {
    "backend": "--backend",
    "channel_order": "--channel-order",
    "check_backend": "--check-backend",
    "feeds": "--feed",
    "force": "--force",
    "inputs": "-i",
    "max_input_bytes": "--max-input",
    "layer": "--layer",
    "list_runs": "--list-runs",
    "mean": "--mean",
    "output": "-o",
    "outputs": "--outputs",
    "pb": "--pb",
    "python": "--python",
    "random_weights": "--random-weights",
    "report": "--report",
    "rule": "--rule",
    "run_index": "--run-index",
    "saved_model": "--saved-model",
    "scale": "--scale",
    "seed": "--random",
    "shapes": "--shape",
    "signature": "--signature",
    "tags": "--tags",
    "without_npu": "--without-npu",
    "tokens": "--tokens",
    "words": "--",
}
_PARAMETER = re.compile("`(%s)(?:=([^`]*))?`" % "|".join(_OPTIONS))


@contextlib.contextmanager
def golden_words() -> Iterator[None]:
    """Replace parameter names by options in the errors raised inside."""
    try:
        yield
    except GoldwatchError as error:
        error.message = with_options(error.message)
        error.hint = None if error.hint is None else with_options(error.hint)
        raise


def with_options(text: str) -> str:
    """Return a text of the library with option names in place of parameter names."""
    return _PARAMETER.sub(_option, text)


def counted(run: Mapping[str, Any], backend: str, version: str) -> str:
    """Return a line that says what was saved into one folder."""
    counts = run["counts"]
    files, tensors = plural(counts["written"], "golden file"), plural(counts["skipped"], "tensor")
    text = "%s: %s by %s %s, %s skipped (manifest.json says why)" % (
        run["out"],
        files,
        backend,
        version,
        tensors,
    )
    return text + (
        ", %d parked for name collisions (mapping.csv)" % counts["parked"]
        if counts["parked"]
        else ""
    )


def _option(match: Match[str]) -> str:
    option = _OPTIONS[match.group(1)]
    return option if match.group(2) is None else "%s %s" % (option, match.group(2))
