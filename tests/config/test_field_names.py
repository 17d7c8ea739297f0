"""Messages of the library name fields; only the command line names options."""

from __future__ import annotations

import ast
import glob
import os
import re

import pytest

import goldwatch.config
from goldwatch.config.dump_plan import DumpPlan, ModelDump, PlanError
from goldwatch.config.dump_plan_formats import write_plan

MODULES = sorted(glob.glob(os.path.join(os.path.dirname(goldwatch.config.__file__), "*.py")))


@pytest.mark.parametrize("path", MODULES, ids=os.path.basename)
def test_no_text_of_the_library_names_an_option(path):
    with open(path, encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    # Python 3.7 calls a text Str, later ones Constant.
    nodes = [
        node
        for node in ast.walk(tree)
        if type(node).__name__ in ("Str", "Constant") and id(node) not in docstrings
    ]
    texts = [str(node.value if hasattr(node, "value") else node.s) for node in nodes]
    named = [text for text in texts if re.search(r"--[a-z]", text.replace("atc --", ""))]
    assert named == []


def test_an_error_outside_the_command_line_names_the_field():
    with pytest.raises(PlanError) as caught:
        write_plan(DumpPlan(dump_path="/d", models=(ModelDump(),), level="op"), "tf2")
    assert caught.value.field == "level" and "--" not in str(caught.value) + caught.value.hint
