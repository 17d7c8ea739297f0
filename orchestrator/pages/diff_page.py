"""The page of ``goldwatch diff``: what got better, worse, appeared and vanished, as tables that can be filtered."""

from __future__ import annotations

from typing import List

from ..naming import printable
from ..results.difference import KINDS, WORSE, Change, Difference
from ..results.difference_words import change_words, counts_words, head_words, place_words
from ..shortening import shorten_all
from .shell import attribute, page, sentence, text

_MOST_ROWS = 5000
_MEANINGS = {
    "worse": "A lower verdict, or a distance that grew by more than the tolerance.",
    "better": "A higher verdict, or a distance that shrank by more than the tolerance.",
    "appeared": "Only the second run has it.",
    "vanished": "Only the first run has it.",
}


def diff_page(found: Difference) -> str:
    """Return the page of a difference as HTML."""
    worse = len(found.changes[WORSE])
    verdict = head_words(found)
    state = "fail" if worse else "pass"
    runs = [("before", found.first), ("after", found.second)]
    lines = ['<dt>%s</dt><dd class="name">%s (%d rows)</dd>' % (name, text(run.out), run.rows) for name, run in runs]
    notes = "".join("<li>%s</li>" % text(note) for note in found.notes)
    body = _BODY % {
        "state": state if found.comparable else "not_compared",
        "verdict": text(verdict),
        "counts": text(counts_words(found) + ("" if found.raised is None else ". " + found.raised.sentence)),
        "runs": "".join(lines),
        "notes": "<ul>%s</ul>" % notes if notes else "",
        "tables": "\n".join(_section(kind, found.changes[kind]) for kind in KINDS if found.changes[kind]),
    }
    return page("difference: %s" % verdict, body, {}, ("base.css", "diff_page.css"), ("common.js", "diff_page.js"))


def _section(kind: str, changes: List[Change]) -> str:
    names = shorten_all(printable(change.side.tensor) for change in changes[:_MOST_ROWS])
    rows = "\n".join(_row(change, names[printable(change.side.tensor)]) for change in changes[:_MOST_ROWS])
    more = len(changes) - _MOST_ROWS
    rest = "<p>%d more are not on this page; the JSON document has all.</p>" % more if more > 0 else ""
    return _SECTION % {"kind": kind, "count": len(changes), "meaning": _MEANINGS[kind], "rows": rows, "rest": rest}


def _row(change: Change, name: str) -> str:
    side, change_html = change.side, sentence(change_words(change))
    whole = ' title="%s"' % text(side.tensor) if name != printable(side.tensor) else ""
    cells = [
        '<td class="name"%s>%s</td>' % (whole, text(name)),
        "<td>%s</td>" % sentence(side.op_type),
        '<td class="place">%s</td>' % text(place_words(side)),
        _verdict(change),
        # A value and its arrow are not broken apart.
        "<td>%s</td>" % change_html.replace(" -&gt; ", "&nbsp;→ "),
    ]
    return '<tr data-tensor="%s">%s</tr>' % (attribute(side.tensor), "".join(cells))


def _verdict(change: Change) -> str:
    verdict = change.side.verdict
    return '<td><span class="verdict" data-is="%s">%s</span></td>' % (verdict, verdict.replace("_", " "))


_SECTION = """<section class="changes" data-kind="%(kind)s">
<h2>%(count)d %(kind)s</h2>
<p class="quiet">%(meaning)s</p>
<div class="wide"><table>
<thead><tr><th>tensor</th><th>type</th><th>place</th><th>verdict</th><th>change</th></tr></thead>
<tbody>
%(rows)s
</tbody></table></div>
%(rest)s
</section>"""

_BODY = """<header>
<h1>Difference of two results: <span class="verdict" data-is="%(state)s" id="verdict">%(verdict)s</span></h1>
<p>%(counts)s</p>
<dl>%(runs)s</dl>
%(notes)s
</header>
<main>
<p id="finding" hidden><input type="search" id="filter" placeholder="filter: tensor, type, place, verdict" aria-label="filter the rows">
<span class="quiet" id="shown" role="status"></span></p>
%(tables)s
</main>"""
