"""The library names no command-line options; only cli/ does, and the fields that declare them."""

from __future__ import annotations

import ast
import os
import re

from goldwatch.cli import golden_messages
from goldwatch.cli.golden_messages import with_options

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPTION = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*|-[fio](?=[ )]))")
# Options of other programs that the library names, reads or sets.
OTHERS = ("atc --mode=1 --om=%s --json=%s", "atc --mode", "saved_model_cli show --dir")
OTHERS += (
    "--tf_xla_clustering_fuel",
    "--check-hash-based-pycs",
    "--mode=1",
    "--om=%s",
    "--json=%s",
    "--output=%s",
)
COMMAND_LINES = ("orchestrator/cli/", "orchestrator/testing/commands.py")
# They write or read the command lines of other programs: atc, ais_bench, msame.
COMMAND_LINES += (
    "orchestrator/testing/host/",
    "orchestrator/device/launch/runners.py",
    "adapters/acl/runner.py",
)
# The table of notes holds what mends each, a command among it.
COMMAND_LINES += ("orchestrator/base/notes.py",)
COMMAND_LINES += ("orchestrator/device/cure/compiler_precision_options.py",)
# A file beside a folder is answered with the commands for both that it may mean.
COMMAND_LINES += ("orchestrator/dumps/dump_index.py",)
# A page of two runs is made by the command, in a process of its own.
COMMAND_LINES += ("orchestrator/service/file_and_diff_routes.py",)
# Its steps are commands that are shown before they run; what a runner's failure means is told for
# these alone.
COMMAND_LINES += ("orchestrator/device/locate/", "orchestrator/device/launch/runners.py")


def modules():
    for top in ("orchestrator", "adapters", "schemas", "proto"):
        for base, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                path = os.path.relpath(os.path.join(base, name), ROOT)
                if name.endswith(".py") and not path.startswith(COMMAND_LINES):
                    yield path


def texts(path):
    """Yield (line, text) of each string in a module that is no docstring."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    # A string that stands alone is documentation.
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "option":
            alone |= {id(inside) for inside in ast.walk(node)}
    for node in ast.walk(tree):
        value = (
            getattr(node, "value", None)
            if isinstance(node, ast.Constant)
            else getattr(node, "s", None)
        )
        if isinstance(value, str) and id(node) not in alone:
            yield node.lineno, value


def test_no_text_of_the_library_names_an_option():
    paths = list(modules())
    assert len(paths) > 200
    found = []
    for path in paths:
        for line, text in texts(path):
            for words in OTHERS:
                text = text.replace(words, "")
            found += ["%s:%d: %s" % (path, line, option) for option in OPTION.findall(text)]
    assert found == []


def test_parameter_names_in_messages_become_options():
    text = (
        "use `backend=caffe` with `python=PATH`, or `force`; `inputs=NAME=FILE`; `import caffe` "
        "and `other` stay"
    )
    assert (
        with_options(text)
        == "use --backend caffe with --python PATH, or --force; -i NAME=FILE; `import caffe` and "
        "`other` stay"
    )


def test_every_parameter_named_by_the_adapters_has_an_option():
    named = set()
    for path in modules():
        if path.startswith("adapters"):
            for _, text in texts(path):
                named |= set(re.findall(r"`([a-z_]+)(?:=[^`]*)?`", text))
    assert named == set(golden_messages._OPTIONS)
