from __future__ import annotations

import doctest
import os


def test_the_examples_of_the_layouts_page_give_what_it_shows():
    page = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "reference", "layouts.md")
    result = doctest.testfile(page, module_relative=False)
    assert result.attempted >= 10 and result.failed == 0
