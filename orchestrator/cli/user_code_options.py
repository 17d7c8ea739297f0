"""The options for a folder with the user's own metrics and conversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Tuple

import click

from ..errors import UsageError
from ..run.user_code_folder import UserCode, find_user_code
from .command import option_group
from .option_values import parse_metric_args

custom_options = option_group(
    click.option(
        "--custom",
        metavar="DIR",
        help="Folder with algorithm/alg_NAME.py and format_convert/convert_A_to_B.py of your own; "
        "their code is run.",
    ),
    click.option(
        "--metric-args",
        multiple=True,
        metavar="NAME:KEY=VALUE,…",
        help="Options of a metric of --custom.",
    ),
)
"""``--custom`` and ``--metric-args``."""


@dataclass(frozen=True)
class CustomArguments:
    """The values of :data:`custom_options`."""

    custom: Optional[str]
    metric_args: Tuple[str, ...]


def user_code(arguments: CustomArguments) -> Tuple[UserCode, Dict[str, Dict[str, str]]]:
    """Return the content of the folder of ``--custom`` (empty without one) and the options of its
    metrics.

    Raises
    ------
    UsageError
        ``--metric-args`` without ``--custom``, or of no metric there; as :func:`find_user_code`.
    InputError
        There is no such folder.
    """
    options = parse_metric_args(arguments.metric_args)
    if options and arguments.custom is None:
        raise UsageError("--metric-args needs --custom, the folder that holds the metrics")
    return find_user_code(arguments.custom, options), options
