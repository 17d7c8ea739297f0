"""``goldwatch golden tf``: golden data from TensorFlow 1.15 models, and help for those who work
with tfdbg.
"""

from __future__ import annotations

import click

from .command import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "dump": (
            ".golden_tf_dump",
            "dump",
            "Run a script, a frozen graph or a SavedModel and save its tensors (recommended).",
        ),
        "commands": (
            ".golden_tf_commands_rename",
            "commands",
            "Turn tfdbg's tensor listing into its save commands.",
        ),
        "rename": (
            ".golden_tf_commands_rename",
            "rename",
            "Repair the names of .npy files that tfdbg or handwork left.",
        ),
    },
)
def tf() -> None:
    """Golden data from TensorFlow models.

    Example: goldwatch golden tf dump -o golden -- python infer.py
    """
