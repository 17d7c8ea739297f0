"""``goldwatch submit``."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Tuple

import click

from ..base.errors import (
    EXIT_BAD_INPUT,
    EXIT_FAIL,
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    EXIT_USAGE,
    Interrupted,
    UsageError,
)
from ..base.service_http import API, JOB, Client, Unreachable
from .command import command, format_option, option_group, verbosity_options
from .printing import print_json, put, say
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
