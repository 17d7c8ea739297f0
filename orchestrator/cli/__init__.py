"""The command line: one file per command; this one names them."""

from __future__ import annotations

from typing import NoReturn

import click

from .. import __version__
from .common import LazyGroup, run_command

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


@click.group(
    cls=LazyGroup,
    context_settings=CONTEXT,
    lazy={
        "config": (".", "config", "Write and check dump configurations (acl.json, npu_bridge)."),
        "golden": (".", "golden", "Make golden data from Caffe or TensorFlow models."),
        "compare": ("compare", "compare", "Compare a network's dumps with golden data, or two dumps of one model."),
        "watch": ("watch", "watch_command", "Compare dumps as they arrive."),
