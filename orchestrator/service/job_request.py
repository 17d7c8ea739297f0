"""Job requests: checked, and turned into the words of a command line whose paths are all below the
ROOTs.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from ..base.errors import FormatError
from ..reports.report_formats import REPORT_FORMATS
from ..schemas.documents import check_document
from .answers import Problem
from .root_folders import Roots
from .runs import run_id

COMMANDS = ("compare", "watch", "replay", "diff")

_OF_CLUSTERS = ("cluster", "tls-ca-file", "tls-cert", "tls-key", "insecure")

REFUSED: Mapping[str, str] = {
    "on-divergence": "it runs a program",
    "custom": "it runs code",
    "metric-args": "it is for metrics of your own, which are code",
    "python": "it runs a program",
    **dict.fromkeys(_OF_CLUSTERS, "it reaches out to other machines"),
    "notify": "it reaches out to other machines",
    "outputs": "it names files, wherever they are; those in TARGET are found by their names",
    "pid": "it is about processes of the service's machine",
}
"""Options that no client may give, each with the reason."""

PATHS = frozenset({"acl", "model", "quant-json", "unfused-om", "weights", "result", "limits"})
REPORTS = frozenset(REPORT_FORMATS)
OUTPUTS = REPORTS | {"out"}
"""Options that name a file or folder: one that is read, one that is written."""

REPORT_NAME = re.compile(
    r"(?:report|junit|diff)[-\w.]*(?:%s)\Z"
    % "|".join(re.escape(each.ending) for each in REPORT_FORMATS.values()),
    re.A,
)
"""Names of files that a job may write into its run's folder, where they may be had."""

_NAMED_LIMITS = ("default", "vendor")
_REPORT_HINT = (
    "such as OUT/report.html, OUT/junit.xml or OUT/diff-before.html, OUT that folder; GET "
    "…/files/report.html makes one without"
)
_DIFF_FILES = {"html": "diff.html", "markdown": "diff.md"}


class JobRequest(NamedTuple):
    """A checked request.

    Attributes
    ----------
    command, args, options
        As the client sent them.
    words
        The words of the command line, paths resolved.
    run
        The id of the run whose folder it writes to.
    """

    command: str
    args: List[str]
    options: Dict[str, Any]
    words: List[str]
    run: Optional[str]


def job_request(document: Any, roots: Roots) -> JobRequest:
    """Return the checked request in a document of schemas/job.schema.json.

    Raises
    ------
    Problem
        400: the document is invalid; 403: an option is refused, or a report would replace something
        else.
    OutsideRoots
        A path is not below the ROOTs, or a link in a folder that is read leads outside.
    """
    _refuse_options(document)
    try:
        check_document(document, "job", "the job")
    except FormatError as error:
        raise Problem(400, error.message, error.hint) from None
    command, args, options = (
        str(document["command"]),
        list(document["args"]),
        dict(document.get("options", {})),
    )
    if any(
        "\0" in text
        for value in options.values()
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str)
    ):
        raise Problem(400, "an option has a NUL in it")
    paths = [roots.resolve(text, "args") for text in args]
    named: Dict[str, Any] = {}
    for name, value in options.items():
        is_path = name in OUTPUTS or (
            name in PATHS and not (name == "limits" and value in _NAMED_LIMITS)
        )
        named[name] = roots.resolve(value, name) if is_path else value
    # A missing folder is reported by diff itself.
    if command == "diff" and not set(named) & set(_DIFF_FILES) and os.path.isdir(paths[1]):
        named.update({name: os.path.join(paths[1], file) for name, file in _DIFF_FILES.items()})
    folder = named.get("out", paths[1] if command == "diff" else None)
    for name in REPORTS & set(named):
        place, file = os.path.split(named[name])
        if place != folder or not REPORT_NAME.match(file):
            message = (
                "%s: a job writes reports into its run's folder only"
                if place != folder
                else "%s: this is no name of a report"
            )
            raise Problem(403, message % name, _REPORT_HINT, kind="refused")
    for name, path in (
        *((name, named[name]) for name in sorted(PATHS & set(named))),
        *(("args", path) for path in paths),
    ):
        roots.require_links_inside(path, name)
    words = [command, *_option_words(named), "--", *paths]
    return JobRequest(command, args, options, words, None if folder is None else run_id(folder))


def _option_words(options: Dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if value is True:
            yield "--" + name
        elif value is not False:
            for one in value if isinstance(value, list) else [value]:
                yield "--%s=%s" % (name, _word(one))


def _word(value: Any) -> str:
    """Return a value as a word of a command line; JSON does not distinguish 2 from 2.0."""
    return "%d" % value if isinstance(value, float) and value.is_integer() else str(value)


def _refuse_options(document: Any) -> None:
    options = document.get("options") if isinstance(document, dict) else None
    for name in options if isinstance(options, dict) else ():
        if name in REFUSED:
            raise Problem(
                403,
                "option %s is refused: %s" % (name, REFUSED[name]),
                "run the command on the machine itself",
                kind="refused",
            )
