"""docs/doctor.md names every combination that is known not to work."""

from __future__ import annotations

import re

from goldwatch.doctor.combinations import _RULES
from pages import text_of


def test_the_page_names_all_known_combinations():
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", text_of("docs/doctor.md"), re.M) == [
        rule.rule for rule in _RULES
    ]
