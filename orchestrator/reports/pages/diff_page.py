"""The page of ``goldwatch diff``: what got better, worse, appeared and vanished, as tables that can
be filtered.
"""

from __future__ import annotations

from typing import Any, Dict, List

from ...base.naming import printable
from ...base.shortening import shorten_all
from ...metrics.row import FAIL, NOT_COMPARED, PASS
from ..difference import KINDS, WORSE, Change, Difference
from ..difference_words import (
    change_words,
    counts_words,
    first_words,
    head_words,
    place_words,
    run_words,
    verdict_words,
    worse_words,
)
from ..page_rows import RowColumns, drawn_limits
from .html_file import attribute, page, sentence, text

_MOST_ROWS = 5000
_SCRIPTS = ("common.js", "rows.js", "canvas.js", "plot.js", "diff_page.js")
_MEANINGS = {
    "worse": "A lower verdict, or a distance that grew by more than the tolerance.",
    "better": "A higher verdict, or a distance that shrank by more than the tolerance.",
    "appeared": "Only the second run has it.",
    "vanished": "Only the first run has it.",
}


def diff_page(difference: Difference) -> str:
    """Return the page of a difference as HTML."""
    runs = [
        ("after", difference.second, ""),
        ("before", difference.first, "<br>%s" % sentence(run_words(difference.first))),
    ]
    lines = "".join(_RUN % (name, text(run.out), run.rows, words) for name, run, words in runs)
    notes = "".join("<li>%s</li>" % text(note) for note in difference.notes)
    body = _BODY % {
        "is": difference.second.verdict,
        "verdict": text(verdict_words(difference.second)),
        "first": sentence(_capital(first_words(difference.second))),
        # Green is only what passes; a run that fails is not made good by one that failed before it.
        "change": ' class="verdict" data-is="%s"' % _change_of(difference)
        if _change_of(difference)
        else "",
        "worse": text(worse_words(difference)),
        "counts": text(
            counts_words(difference)
            + ("" if difference.raised is None else ". " + difference.raised.sentence.rstrip("."))
        ),
        "runs": lines,
        "notes": "<ul>%s</ul>" % notes if notes else "",
        "tables": "\n".join(
            _section(kind, difference.changes[kind]) for kind in KINDS if difference.changes[kind]
        ),
    }
    data = {"difference": _drawn(difference)}
    return page(
        "difference: %s" % head_words(difference),
        body,
        data,
        ("base.css", "report.css", "diff_page.css"),
        _SCRIPTS,
    )


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _change_of(difference: Difference) -> str:
    """Return the verdict as which the page shows what changed; empty where it is neither good nor
    bad.
    """
    if not difference.comparable:
        return NOT_COMPARED
    if difference.changes[WORSE]:
        return FAIL
    if difference.unfinished:
        return NOT_COMPARED
    return PASS if difference.second.verdict == PASS else ""


def _drawn(difference: Difference) -> Dict[str, Any]:
    """Return what diff_page.js draws: the rows of one place of both runs."""
    columns = [RowColumns(), RowColumns()]
    for rows, into in zip(difference.along, columns):
        for row in rows:
            into.add(row)
    after = difference.along[1]
    place = printable(after[0].place.label()) if after else ""
    decided = {row.decided_by for row in after}
    return {
        "before": columns[0].document(),
        "after": columns[1].document(),
        "place": place,
        "opens_at": difference.opens_at,
        "limits": drawn_limits(decided),
    }


def _section(kind: str, changes: List[Change]) -> str:
    names = shorten_all(printable(change.side.tensor) for change in changes[:_MOST_ROWS])
    rows = "\n".join(
        _row(change, names[printable(change.side.tensor)]) for change in changes[:_MOST_ROWS]
    )
    more = len(changes) - _MOST_ROWS
    rest = (
        "<p>%d more are not on this page; the JSON document has all.</p>" % more if more > 0 else ""
    )
    return _SECTION % {
        "kind": kind,
        "count": len(changes),
        "meaning": _MEANINGS[kind],
        "rows": rows,
        "rest": rest,
    }


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
    return '<td><span class="verdict" data-is="%s">%s</span></td>' % (
        verdict,
        verdict.replace("_", " "),
    )


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

_RUN = """<dt>%s</dt><dd><span class="name">%s</span> (%d rows)%s</dd>"""

_BODY = """<header>
<h1>Difference of two results</h1>
</header>
<main>
<section id="verdict">
<p class="big">after: <span class="verdict" data-is="%(is)s" id="after">%(verdict)s</span></p>
<p class="sentence">%(first)s.</p>
<p><span id="change"%(change)s>%(worse)s</span>: %(counts)s.</p>
<dl>%(runs)s</dl>
%(notes)s
</section>
<section id="network" hidden aria-labelledby="network-head">
<h2 id="network-head">Error along the network, before and after</h2>
<div class="choices"><span id="place" class="quiet"></span><span id="plot-metrics" role="group" aria-label="metrics"></span></div>
<div id="plot" class="frame" tabindex="0" role="application" aria-label="Error of every tensor of both runs, in the order of the network,
 on a scale of powers of ten. Plus and minus zoom, left and right move, 0 shows all; up and down point at a tensor."></div>
<p class="quiet"><span id="plot-status" role="status"></span>. Drag, <kbd>Ctrl</kbd> + wheel or <kbd>+</kbd> <kbd>-</kbd> zoom,
 <kbd>←</kbd> <kbd>→</kbd> move, <kbd>0</kbd> shows all. ✕ is outside its limits.</p>
</section>
<div id="changes">
<p id="finding" class="choices" hidden><label>filter <input type="search" id="filter" placeholder="words of tensor, type, place, verdict"
 autocomplete="off" spellcheck="false"></label>
<span class="quiet" id="shown" role="status"></span></p>
%(tables)s
</div>
</main>"""  # noqa: E501
