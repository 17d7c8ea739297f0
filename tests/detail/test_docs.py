"""docs/compare-op.md names every kind of finding."""

from __future__ import annotations

from goldwatch.metrics.patterns import KINDS
from pages import text_of


def test_the_page_names_every_kind_of_finding():
    assert all("`%s`" % kind in text_of("docs/compare-op.md") for kind in KINDS)
