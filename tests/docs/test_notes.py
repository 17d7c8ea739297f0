"""The list of notes and warnings in docs/reference/results.md is the table of goldwatch.base.notes;
``GOLDWATCH_WRITE_DOCS=1`` writes it.
"""

from __future__ import annotations

import os

from goldwatch.base.notes import NOTES
from pages import ROOT, WRITE, text_of

PAGE = "docs/reference/results.md"
HEAD = "| code | | said when | sentence | what mends it |\n|---|---|---|---|---|\n"


def cell(text):
    return text.replace("|", "\\|").replace("{", "\\{").replace("*", "\\*").replace("_", "\\_")


def test_every_code_is_on_the_page_of_results():
    lines = [
        "| `%s` | %s | %s | %s | %s |"
        % (
            code,
            "warning" if said.warns else "note",
            cell(said.condition),
            "it varies" if said.sentence == "%s" else cell(said.sentence.replace("%s", "…")),
            cell(said.next),
        )
        for code, said in NOTES.items()
    ]
    before, head, _ = text_of(PAGE).partition(HEAD)
    made = before + HEAD + "\n".join(lines) + "\n"
    if os.environ.get(WRITE):
        with open(os.path.join(ROOT, PAGE), "w", encoding="utf-8") as page:
            page.write(made)
    assert head and text_of(PAGE) == made, "run it with %s=1" % WRITE
