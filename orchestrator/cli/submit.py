"""``goldwatch submit`` and ``status``: jobs and runs of a comparison service."""

from __future__ import annotations

import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple
from urllib.parse import quote

import click

from ..base.errors import (
    EXIT_BAD_INPUT,
    EXIT_FAIL,
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    EXIT_USAGE,
    Interrupted,
    MissingPath,
    UsageError,
)
from ..base.service_http import API, JOB, RUN, Client, Refused, Unreachable
from ..base.wording import plural
from .command import command, format_option, option_group, verbosity_options
from .printing import print_json, put, put_line, say
from .shell_words import shell_word

_LOOK_S = 0.5
_PATIENCE = 120
"""A service that is being started anew is asked again so often."""

_ENDED = ("done", "failed", "cancelled")


server_options = option_group(
    click.option("--server", required=True, metavar="URL",
                 help="The service, such as https://host.example.org/goldwatch or "
                     "unix:/run/goldwatch.sock."),
    click.option("--token-file", metavar="FILE", help="Holds the token."),
)  # fmt: skip


@command(context_settings={"ignore_unknown_options": False})
@server_options
@click.option("--detach", is_flag=True, help="Do not wait for the end.")
@click.argument(
    "words",
    metavar="-- COMMAND TARGET GOLDEN [OPTIONS]",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
)
@format_option
@verbosity_options
def submit(
    server: str,
    token_file: Optional[str],
    detach: bool,
    words: Tuple[str, ...],
    output_format: str,
    quiet: bool,
) -> int:
    """Have a service run compare, watch, replay or diff, and wait for it.

    Paths are those of the service's machine: absolute, or relative to its first ROOT. Exit code:
    the run's own; 3 when it was killed and left an unfinished run; 130 when it was cancelled or at
    Ctrl-C (the job goes on); 4 when the service refuses or does not answer. With
    --detach 0 once the job is in the queue.

    Example: goldwatch submit --server http://127.0.0.1:8470 --token-file token -- compare dump
    golden -f model.json -o out
    """
    request = job_document(words)
    client = Client(server, token_file)
    job = client.post(API + "/runs", request, JOB)
    try:
        has_page = job["run"] and client.pages is not None
        say(
            "job %s: %s/runs/%s" % (job["id"], client.pages, job["run"])
            if has_page
            else "job %s" % job["id"],
            quiet,
        )
        if not detach:
            job = _wait(client, job["id"], quiet)
    except KeyboardInterrupt:
        status_words = [
            "goldwatch",
            "status",
            "--server",
            server,
            *(["--token-file", token_file] if token_file else []),
            job["id"],
        ]
        raise Interrupted(
            "interrupted: the job goes on", hint=" ".join(shell_word(word) for word in status_words)
        ) from None
    if output_format == "json":
        print_json(job)
    elif detach:
        put(job["id"])
    else:
        for line in client.text(API + "/jobs/%s/log" % job["id"]).splitlines():
            put(line)
    return 0 if detach else job_code(job)


def _wait(client: Client, name: str, quiet: bool) -> Dict[str, Any]:
    failures = 0
    while True:
        try:
            job: Dict[str, Any] = client.get(API + "/jobs/" + name, JOB)
            failures = 0
            if job["state"] in _ENDED:
                return job
        except Unreachable:
            failures += 1
            if failures >= _PATIENCE:
                raise
            if failures == 1:
                say(
                    "%s does not answer; the job goes on, waiting for the service" % client.url,
                    quiet,
                )
        threading.Event().wait(_LOOK_S)


def job_code(job: Dict[str, Any]) -> int:
    """Return the exit code of a finished job."""
    if job["state"] == "cancelled":
        return EXIT_INTERRUPTED
    if job["state"] not in _ENDED:
        return EXIT_INCOMPLETE
    if job["exit_code"] in (EXIT_PASS, EXIT_FAIL, EXIT_USAGE, EXIT_INCOMPLETE, EXIT_BAD_INPUT):
        return int(job["exit_code"])
    # Its process was killed and left an unfinished run.
    return EXIT_INCOMPLETE if job["run"] else EXIT_BAD_INPUT


def job_document(words: Tuple[str, ...]) -> Dict[str, Any]:
    """Return the job for the words of a command line (schemas/job.schema.json), parsed by the
    command itself.

    Raises
    ------
    UsageError
        The service does not run this command.
    """
    from . import goldwatch

    name, *rest = words
    context = click.Context(goldwatch, info_name="goldwatch")
    command = (
        goldwatch.get_command(context, name)
        if name in ("compare", "watch", "replay", "diff")
        else None
    )
    if command is None:
        raise UsageError("a service runs compare, watch, replay or diff, not %s" % name)
    # Only given options are sent: the defaults are those of the service's goldwatch.
    parsed = command.make_context(name, list(rest), parent=context)
    options: Dict[str, Any] = {}
    args: List[str] = []
    for parameter in command.params:
        value: Any = parsed.params.get(parameter.name or "")
        if isinstance(parameter, click.Argument):
            args += [value] if parameter.nargs == 1 else list(value)
        elif (
            parsed.get_parameter_source(parameter.name or "")
            is click.core.ParameterSource.COMMANDLINE
        ):
            long = next((text[2:] for text in parameter.opts if text.startswith("--")), "")
            options[long] = (
                bool(value)
                if getattr(parameter, "count", False)
                else list(value)
                if parameter.multiple
                else value
            )
    options.pop("format", None)
    return {"command": name, "args": args, "options": options}


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
