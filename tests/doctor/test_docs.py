"""The commands of docs/doctor.md work, and its table names the combinations that are known."""

from __future__ import annotations

import os
import re

from in_process import DOCS, run_page

from goldwatch.doctor.combinations import _RULES


def test_commands(tmp_path):
    (tmp_path / "dump").mkdir()
    assert all(run_page("doctor.md", tmp_path, 2))


def test_the_page_names_all_known_combinations():
    with open(os.path.join(DOCS, "doctor.md"), encoding="utf-8") as stream:
        named = re.findall(r"^\| `([a-z0-9-]+)` \|", stream.read(), re.M)
    assert named == [rule.rule for rule in _RULES]
