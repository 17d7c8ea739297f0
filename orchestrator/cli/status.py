"""``goldwatch status``: the states of the jobs and runs of a comparison service."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional
from urllib.parse import quote

import click

from ..base.errors import EXIT_INCOMPLETE, MissingPath
from ..base.service_http import API, JOB, RUN, Client, Refused
from ..base.wording import plural
from .command import command, format_option, verbosity_options
from .printing import print_json, put, put_line
from .submit import job_code, server_options

_NOT_FOUND = 404
_PAGE, _MOST_JOBS = 1000, 10_000
_ASKED = 200


@command()
@server_options
@click.argument("run", required=False)
@format_option
@verbosity_options
def status(
    server: str, token_file: Optional[str], run: Optional[str], output_format: str, quiet: bool
) -> int:
    """Show the runs of a service, or one RUN: its id, its folder, or a job's id.

    Exit code: without RUN 0; else the run's own, 3 while it is not finished, 130 when its job was
    cancelled, 4 when the service refuses or does not answer.

    Example: goldwatch status --server http://127.0.0.1:8470 --token-file token --format json
    """
    client = Client(server, token_file)
    if run is None:
        answer = client.get(API + "/runs?limit=1000", {"runs": [RUN], "total": int})
        if output_format == "json":
            print_json(answer)
        else:
            for one in answer["runs"]:
                put_line(_line(one))
            put(plural(answer["total"], "run"))
        return 0
    job = _get(client, "/jobs/", run, JOB)
    document = _run(client, run) if job is None else _get(client, "/runs/", job["run"], RUN) or job
    by_job = job is not None or "rows" not in document
    if job is None:
        jobs = (
            [document]
            if by_job
            else client.get(API + "/jobs?run=" + document["id"], {"jobs": [JOB]})["jobs"]
        )
        job = next((job for job in jobs if job["command"] != "diff"), None)
    if output_format == "json":
        print_json({**document, "job": job})
    else:
        if "rows" in document:
            put_line(_line(document))
        if job is not None and by_job:
            put_line("job %s: %s" % (job["id"], job["state"]))
    # A run named by the user counts by its own end, whichever job wrote to it last. Only that
    # job knows whether the end is still to come.
    if job is not None and (
        by_job or job["state"] in ("queued", "running") or document["state"] == "stopped"
    ):
        return job_code(job)
    code = document["exit_code"]
    return EXIT_INCOMPLETE if code is None else int(code)


def _get(client: Client, where: str, name: Optional[str], shape: Any) -> Optional[Dict[str, Any]]:
    """Return a run or job by its id, None where there is none."""
    try:
        if name is not None and "/" not in name:
            answer: Dict[str, Any] = client.get(API + where + quote(name, safe=""), shape)
            return answer
    except Refused as error:
        if error.status != _NOT_FOUND:
            raise
    return None


def _run(client: Client, name: str) -> Dict[str, Any]:
    """Return a run by id or folder; where it has not begun, its newest job."""
    result = _get(client, "/runs/", name, RUN)
    if result is not None:
        return result
    text = name.rstrip("/")
    query = API + "/runs?limit=1000&q=" + quote(text.rpartition("/")[2][:_ASKED], safe="")
    runs: List[Dict[str, Any]] = client.get(query, {"runs": [RUN]})["runs"]
    matching = [one for one in runs if one["path"] == text or one["path"].endswith("/" + text)]
    if len(matching) == 1:
        full: Dict[str, Any] = client.get(API + "/runs/" + matching[0]["id"], RUN)
        return full
    job = None if matching else next((job for job in _jobs(client) if _makes(job, name)), None)
    if matching or job is None:
        message = "there is no run %s" if not matching else "several runs are called %s"
        raise MissingPath(message % name, hint="goldwatch status without RUN lists them")
    return job


def _jobs(client: Client) -> Iterator[Dict[str, Any]]:
    for offset in range(0, _MOST_JOBS, _PAGE):
        jobs = client.get(API + "/jobs?limit=%d&offset=%d" % (_PAGE, offset), {"jobs": [JOB]})[
            "jobs"
        ]
        yield from jobs
        if len(jobs) < _PAGE:
            return


def _makes(job: Dict[str, Any], name: str) -> bool:
    """Tell whether a job's run has this name: its id or its folder, either of which may be
    shortened from the left.
    """
    run_path, out = "/" + name.strip("/"), job["options"].get("out")
    mine = "/" + out.strip("/") if isinstance(out, str) else None
    return name == job["run"] or (
        mine is not None and (run_path.endswith(mine) or mine.endswith(run_path))
    )


def _line(run: Dict[str, Any]) -> str:
    verdict = run["verdict"] or run.get("error") or "no failures so far"
    counts = "%d rows, %d pass, %d fail" % (run["rows"], run["passed"], run["failed"])
    return "%s  %s: %s, %s  %s" % (run["id"], run["state"], verdict, counts, run["path"])
