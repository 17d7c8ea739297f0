"""docs/compare-op.md names every kind of finding."""

from __future__ import annotations

from goldwatch.metrics.patterns import KINDS
from pages import text_of


def test_the_kinds_are_those_of_the_page():
    assert all("`%s`" % kind in text_of("docs/compare-op.md") for kind in KINDS)
