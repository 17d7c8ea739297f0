"""The pages of the service: shells without data; their scripts and styles are those of the mailed
file, as files of their own.
"""

from __future__ import annotations

import functools
import html
from typing import Dict, Mapping, Optional, Tuple

from .html_file import asset, script, style
from .report import SCRIPTS, STYLES

_HEADS = (
    "verdict",
    "run",
    "model",
    "first outside limits",
    "devices",
    "steps",
    "rows",
    "fail",
    "progress",
    "started",
    "age",
    "host",
)
_UNSEEN = '<span class="unseen">%s</span>'
_SORTS = {"first outside limits": "first", "age": ""}
_NUMBERS = ("devices", "steps", "rows", "fail", "age")
_JOB_HEADS = ("state", "command", "submitted", "took", "exit code", "run", "log", "")
_NAVIGATION = (
    '<nav aria-label="pages"><a href="%(base)s/">all runs</a> <a href="%(base)s/jobs">jobs</a> '
    '<button type="button" id="logout" hidden>log out</button></nav>\n<p id="connection" '
    'role="status"></p>\n'
)


@functools.lru_cache(maxsize=1)
def static_files() -> Mapping[str, Tuple[str, str]]:
    """Return media type and text of each script and style sheet by its name."""
    pages = {
        "run": (*SCRIPTS, "service.js", "live_rows.js", "live.js"),
        "runs": ("common.js", "rows.js", "service.js", "runs.js"),
        "jobs": ("common.js", "service.js", "jobs.js"),
        "opening": ("common.js", "service.js", "opening.js"),
    }
    css = style((*STYLES, "service.css"))
    files: Dict[str, Tuple[str, str]] = {}
    for page, names in pages.items():
        files[page + ".js"] = "text/javascript; charset=utf-8", script(names)
        files[page + ".css"] = "text/css; charset=utf-8", css
    return files


def run_page(base: str = "") -> str:
    """Return the page of any run: what it shows is asked for by its script.

    Parameters
    ----------
    base
        What stands before the paths of the service, such as ``/goldwatch``.
    """
    report = asset("report.html") % {
        "title": '<span id="title">run</span>',
        "about": '<div id="about"></div>\n<h2>Files</h2>\n<p id="files"></p>\n<h2>Events</h2>\n<ul '
        'id="events"></ul>',
        "verdict": '<p class="quiet">Asking the service …</p>',
        "suspects": "",
        "note": "No rows so far.",
    }
    body = report.replace("</header>", _navigation(base) + "</header>", 1)
    return _shell("run", "run", '<div id="live" hidden></div>\n' + body, base)


def list_page(base: str = "") -> str:
    """Return the page with the list of runs."""
    heads = '<th scope="col">%s</th>' % (_UNSEEN % "chosen for a difference") + "".join(
        map(_head, _HEADS)
    )
    choices = "".join('<option value="%s">%s</option>' % pair for pair in (("", "any"),
    ("fail", "fail"), ("incomplete", "incomplete"),
                                                                            ("pass", "pass"),
                                                                            ("none", "none so far")))  # fmt: skip  # noqa: E501
    body = (
        '<header>\n<h1>Runs</h1>\n%s</header>\n<main>\n<div class="choices">'
        '<label>filter <input id="filter" type="search" placeholder="folder, model, op, host '
        'or state" autocomplete="off"></label>'
        '<label>verdict <select id="verdict-choice">%s</select></label><span id="runs-status" '
        'role="status" class="quiet"></span>'
        '<span id="difference" class="quiet">choose two runs for their difference</span></div>\n'
        '<div class="view"><table id="runs" '
        'class="list">\n<thead><tr>%s</tr></thead>\n<tbody></tbody>\n</table></div>\n'
        '<p><button type="button" id="more" hidden>show more</button></p>\n</main>'
    )
    return _shell("runs", "Runs", body % (_navigation(base), choices, heads), base)


def _head(name: str) -> str:
    sort, kind = _SORTS.get(name, name), ' class="number"' if name in _NUMBERS else ""
    if not sort:
        return '<th scope="col"%s>%s</th>' % (kind, name)
    return (
        '<th scope="col"%s data-sort="%s" aria-sort="none"><button type="button">%s</button></th>'
        % (kind, sort, name)
    )


def jobs_page(base: str = "") -> str:
    """Return the page with the list of jobs; a log is behind ``#job-ID``."""
    heads = "".join('<th scope="col">%s</th>' % (name or _UNSEEN % "cancel") for name in _JOB_HEADS)
    body = (
        '<header>\n<h1>Jobs</h1>\n%s</header>\n<main>\n<p id="jobs-status" role="status" '
        'class="quiet"></p>\n'
        '<div class="view"><table id="jobs" '
        'class="list">\n<thead><tr>%s</tr></thead>\n<tbody></tbody>\n</table></div>\n'
        '<p><button type="button" id="more" hidden>show more</button></p>\n'
        '<section id="job" hidden aria-labelledby="job-head">\n<h2 id="job-head"></h2>\n'
        '<pre id="log" tabindex="0"></pre>\n</section>\n</main>'
    )
    return _shell("jobs", "Jobs", body % (_navigation(base), heads), base)


def opening_page(base: str = "") -> str:
    """Return the page shown before a difference of two runs, or a file, to a user who has not
    logged in or follows a link on another site's page.
    """
    body = (
        '<header>\n<h1>goldwatch</h1>\n%s</header>\n<main id="opening">\n<p '
        'class="quiet">Asking the service …</p>\n</main>'
    )
    return _shell("opening", "goldwatch", body % _navigation(base), base)


def problem_page(message: str, hint: Optional[str], base: str = "") -> str:
    """Return the page for who opens a link to what is not there."""
    sentences = "".join("<p>%s</p>\n" % html.escape(text) for text in (message, hint) if text)
    body = "<header>\n<h1>goldwatch</h1>\n%s</header>\n<main>\n%s</main>"
    return _shell("opening", "goldwatch", body % (_navigation(base), sentences), base)


def difference_navigation(base: str, before: str, after: str) -> str:
    """Return the links from the difference of two runs, which are named by their ids."""
    links = (
        ("/", "all runs"),
        ("/jobs", "jobs"),
        ("/runs/" + before, "run before"),
        ("/runs/" + after, "run after"),
    )
    return '<nav aria-label="pages">%s</nav>\n' % " · ".join(
        '<a href="%s%s">%s</a>' % (html.escape(base), *link) for link in links
    )


def _navigation(base: str) -> str:
    return _NAVIGATION % {"base": html.escape(base)}


def _shell(name: str, title: str, body: str, base: str) -> str:
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en" data-base="%s">' % html.escape(base),
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            "<title>%s</title>" % html.escape(title),
            '<link rel="stylesheet" href="%s/static/%s.css">' % (html.escape(base), name),
            '<script src="%s/static/%s.js" defer></script>' % (html.escape(base), name),
            "</head>",
            "<body>",
            body,
            "</body>",
            "</html>",
            "",
        ]
    )
