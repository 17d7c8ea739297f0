"""``goldwatch golden tf commands`` and ``rename``: what needs no TensorFlow."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

import click

from goldwatch.adapters.tensorflow.pt_commands import ALL, FIRST, LAST, CommandPlan, plan_commands
from goldwatch.adapters.tensorflow.rename import (
    RENAME,
    REPORT,
    Renaming,
    apply_renames,
    plan_renames,
)
from goldwatch.adapters.tensorflow.tfdbg_listing import parse_listing
from goldwatch.base.manifest import FILE_MODE

from ..base.atomic_writing import write_atomically
from ..base.errors import EXIT_INCOMPLETE, InputError, MissingPath, UsageError
from ..base.naming import MAPPING_FILE, mapping_line, printable, read_mapping
from ..base.safe_reading import read_input
from .command import command, format_option, quiet_option
from .golden_messages import golden_words
from .printing import print_json, put, put_file, say

_LISTING_LIMIT_BYTES = 256 * 1024 * 1024


@command()
@click.argument("listing")
@click.option(
    "-o",
    "--output",
    "output",
    metavar="FILE",
    help="Write the commands here (default: stdout) and mapping.csv beside it.",
)
@click.option(
    "--timestamp",
    type=click.IntRange(min=0),
    metavar="µs",
    help="Timestamp of each tensor's dump 0; dump k gets k more.",
)
@click.option(
    "--select",
    multiple=True,
    metavar="GLOB",
    help="Only ops (or op:index) that match; * also spans /. May be repeated.",
)
@click.option(
    "--last",
    "which",
    flag_value=LAST,
    help="Only the last dump of each tensor (a loop's last iteration).",
)
@click.option("--first", "which", flag_value=FIRST, help="Only the first dump of each tensor.")
@click.option(
    "--all-dumps", "which", flag_value=ALL, default=ALL, help="Every dump of each tensor (default)."
)
@format_option
@quiet_option
def commands(
    listing: str,
    output: Optional[str],
    timestamp: Optional[int],
    select: Tuple[str, ...],
    which: str,
    output_format: str,
    quiet: bool,
) -> None:
    """Turn what tfdbg's `lt > LISTING` wrote into the batch of pt commands that saves every tensor.

    LISTING may be - for standard input. What has no command is told on stderr with the reason.

    Example: goldwatch golden tf commands tensor_name -o batch.txt
    """
    text, name = _read_listing(listing)
    if (
        output is not None
        and listing != "-"
        and os.path.exists(output)
        and os.path.samefile(output, listing)
    ):
        raise UsageError("-o names the listing itself", hint="write the commands to another file")
    parsed = parse_listing(text, name)
    plan = plan_commands(
        parsed, int(time.time() * 1000000) if timestamp is None else timestamp, select, which or ALL
    )
    for note in parsed.notes:
        say("warning: " + note)
    _print_left_out(plan, quiet)
    if output is not None:
        _write_commands(output, plan)
    elif plan.mapping:
        say("these lines belong into mapping.csv beside the saved files (-o FILE writes it):")
        for file, listed in plan.mapping.items():
            say("  " + mapping_line(file, listed).rstrip("\n"))
    if output_format == "json":
        print_json(_commands_document(plan, output))
    elif output is None:
        put_file("".join(command.text + "\n" for command in plan.commands))
    say("%d commands%s" % (len(plan.commands), "" if output is None else " in %s" % output), quiet)


def _read_listing(listing: str) -> Tuple[str, str]:
    if listing == "-":
        data, name = sys.stdin.buffer.read(_LISTING_LIMIT_BYTES + 1), "standard input"
    else:
        # A pipe is welcome, such as the shell's <(grep …).
        data, name = read_input(listing, _LISTING_LIMIT_BYTES, pipes=True), listing
    if len(data) > _LISTING_LIMIT_BYTES:
        raise InputError(
            "%s: larger than %d bytes, so not a listing" % (name, _LISTING_LIMIT_BYTES)
        )
    return data.decode("utf-8", "surrogateescape"), name


def _print_left_out(plan: CommandPlan, quiet: bool) -> None:
    for tensor, reason, dumps in plan.left_out:
        say(
            "left out: %s%s: %s" % (tensor, " (%d dumps)" % dumps if dumps > 1 else "", reason),
            quiet,
        )
    for op, names in plan.collisions.items():
        shared = [name for name in names if any(command.op == name for command in plan.commands)]
        if shared:
            say(
                "collision: %s all become %s; their files have hash names (mapping.csv)"
                % (", ".join(names), op)
            )
    parked = {name for names in plan.collisions.values() for name in names}
    for each in plan.commands:
        if each.file != each.listed and each.op not in parked:
            say(
                "longer than 255 bytes: %s:%d is saved as %s (mapping.csv)"
                % (each.op, each.output_index, each.file)
            )


def _write_commands(output: str, plan: CommandPlan) -> None:
    folder, base = os.path.split(os.path.abspath(output))
    if not os.path.isdir(folder):
        raise MissingPath("-o %s: there is no folder %s" % (output, folder))
    if os.path.isdir(output) or base == MAPPING_FILE:
        raise UsageError(
            "-o %s is not a file for commands" % output, hint="give the name of a text file"
        )
    if plan.mapping:
        path = os.path.join(folder, MAPPING_FILE)
        mapping = read_mapping(path) if os.path.exists(path) else {}
        for file, listed in plan.mapping.items():
            if mapping.setdefault(file, listed) != listed:
                raise InputError(
                    "%s: %s stands for another name already" % (path, file),
                    hint="write the commands into another folder",
                )
        lines = "".join(mapping_line(*line) for line in mapping.items())
        write_atomically(path, lines.encode("utf-8", "surrogateescape"), FILE_MODE)
    lines = "".join(command.text + "\n" for command in plan.commands)
    write_atomically(
        os.path.join(folder, base), lines.encode("utf-8", "surrogateescape"), FILE_MODE
    )


def _commands_document(plan: CommandPlan, output: Optional[str]) -> Dict[str, Any]:
    return {
        "output": output,
        "commands": [
            {
                "command": printable(command.text),
                "tensor": printable(command.tensor),
                "op": printable(command.op),
                "output_index": command.output_index,
                "dump": command.number,
                "file": command.file,
                "timestamp": command.timestamp_us,
            }
            for command in plan.commands
        ],
        "left_out": [
            {"tensor": printable(t), "reason": reason, "dumps": dumps}
            for t, reason, dumps in plan.left_out
        ],
        "collisions": plan.collisions,
        "mapping": plan.mapping,
    }


@command()
@click.argument("folder")
@click.option("--apply", "really", is_flag=True, help="Rename; without it the plan is only shown.")
@click.option(
    "--rule",
    "rules",
    nargs=2,
    multiple=True,
    metavar="REGEX TEXT",
    help="Replace REGEX by TEXT in the op part of each name, in this order. Without rules: dots, "
    "blanks, _arg_…, op:0, "
    "and a missing index or time.",
)
@format_option
@quiet_option
def rename(
    folder: str, really: bool, rules: Tuple[Tuple[str, str], ...], output_format: str, quiet: bool
) -> int:
    """Repair the names of the .npy files in FOLDER that tfdbg or handwork left wrong.

    The plan is shown; --apply carries it out. Nothing is ever overwritten, and files that hold
    pickled objects instead of numbers are reported, not renamed. Exit code 3: two files want one
    name, or the name is taken.

    Example: goldwatch golden tf rename golden --apply
    """
    with golden_words():
        plan = plan_renames(folder, rules)
    if really:
        plan = apply_renames(folder, plan)
    conflict = any(step.action == REPORT and step.new is not None for step in plan)
    if output_format == "json":
        print_json(
            {"folder": folder, "applied": really, "files": [_step_document(step) for step in plan]}
        )
    else:
        _show_plan(plan, really, quiet)
    return EXIT_INCOMPLETE if conflict else 0


def _step_document(step: Renaming) -> Dict[str, Any]:
    new = None if step.new is None else printable(step.new)
    return {
        "file": printable(step.old),
        "action": step.action,
        "new": new,
        "reason": printable(step.reason),
    }


def _show_plan(plan: List[Renaming], really: bool, quiet: bool) -> None:
    for step in plan:
        if step.action == RENAME:
            put("%s -> %s  (%s)" % (step.old, step.new or "", step.reason))
        elif step.action == REPORT:
            put("%s left alone: %s" % (step.old, step.reason))
        elif step.unreadable:
            put("%s: %s" % (step.old, step.reason))
    counts = [sum(1 for step in plan if step.action == action) for action in (RENAME, REPORT)]
    right = len(plan) - sum(counts)
    verb = "renamed" if really else "to rename (--apply does it)"
    say("%d %s, %d left alone, %d right already" % (counts[0], verb, counts[1], right), quiet)
