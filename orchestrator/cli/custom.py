"""The options that name a folder of the user's own metrics and conversions."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import click

from ..errors import UsageError
from ..run.user_code import UserCode, find_user_code
from .common import option_group
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
"""``--custom`` and ``--metric-args``; the command gets ``custom`` and ``metric_args``."""


def user_code(given: Any) -> Tuple[UserCode, Dict[str, Dict[str, str]]]:
    """Return what is in the folder of ``--custom``, nothing without one, and the options of its
    metrics.

    Raises
    ------
    UsageError
        ``--metric-args`` without ``--custom``, or of no metric there; as :func:`find_user_code`.
    InputError
        There is no such folder.
    """
    arguments = parse_metric_args(given["metric_args"])
    if arguments and given["custom"] is None:
        raise UsageError("--metric-args needs --custom, the folder that holds the metrics")
    return find_user_code(given["custom"], arguments), arguments
